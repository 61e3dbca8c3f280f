#!/usr/bin/perl
# scripts/check fails when a file fails, names this file, and prints the CPU time of all processes
# of each file.  At the end it says once more what has failed first.  Limits of time are longer on a slow
# machine.  A job of a test has a guard.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

chdir top();

sub small_file # that computes for so many seconds in a child, and ends with a code
{
    my ($name, $seconds, $code, $more) = @_;
    my $path = write_file(scratch() . "/$name.t", "#!/bin/sh\necho 1..1\necho ok 1\n" . ($more // '')
        . "perl -e 'my \$n; do { \$n++ for 1 .. 1e5 } while ((times)[0] < $seconds)'\n"
        . "exit $code\n");
    chmod 0755, $path;
    return $path;
}

my ($good, $bad) = (small_file('good', 1, 0), small_file('bad', 0, 3, <<'END'));
for n in 1 2; do printf "#   Failed test '$n'\n#   at bad.t line $n.\n" >&2; seq -f "# $n-%g" 20 >&2; done
END
my $build = build();
my $out = `BUILD='$build' scripts/guard 60 -- scripts/check '$good' '$bad' 2>&1`;
isnt($?, 0, 'a file fails');
like($out, qr/^\Q$bad\E +\(Wstat: 768 /m, '... and is named with its code') or diag($out);
unlike($out, qr/^\Q$good\E +\(Wstat/m, '... alone');
my ($again) = $out =~ /^(\Q$bad\E: the first failure\n.*)\z/ms;
like($again, qr/^ +#   Failed test '1'\n.*\n +# 1-1\n +# 1-15\n(?:.*\n){4} +# 1-20\nTest Summary Report\n/m,
    '... and its first failure is at the end');
unlike($again, qr/Failed test '2'/, '... without the others');
like($again, qr/^Result: FAIL\n\z/m, '... in front of the last lines of prove');
my %cpu = reverse $out =~ /^# cpu (\d+\.\d) s  (.*)$/mg;
near($cpu{$good}, 1.3, 0.5, 'the CPU time of a file has that of its children');
cmp_ok($cpu{$bad} // 9, '<', 0.6, '... and not that of the file beside');

# limits of time on a slow machine
like(`scripts/pace`, qr/^(?:[1-7]\.\d|8\.0)\n\z/, 'scripts/pace: a number from 1 to 8');
{
    local $ENV{FTKIT_TEST_PACE} = 1.5;
    like(`scripts/guard 1 -- sleep 60 2>&1`, qr/^guard: 1\.5 s are over: sleep 60$/m, 'the limit of a guard times the pace');
    is($? >> 8, 124, '... ends what hangs');
    like(`BUILD='$build' scripts/check '$good' 2>&1`, qr/^# limits of time .* times 1\.5 /m,
        '... the pace may be set');
    $ENV{FTKIT_TEST_PACE} = 'slow';
    like(`scripts/guard 1 -- true 2>&1`, qr/^guard: FTKIT_TEST_PACE='slow' is not a number from 1$/,
        '... to a number');
}

# job() has the guard in a process of its own; a block END of the test would run there a second time
my $ends = scratch() . '/ends';
END { `echo end >>'$ends'` if $ends }
{
    local $ENV{FTKIT_TEST_PACE} = 1;
    my $long = "61.$$"; # seconds: no other process has the same
    my $j = job(n => 1, spares => 0, program => 'sleep', args => [$long], timeout => 2);
    is($j->{rc}, 124, 'a job that hangs: the guard ends it');
    like($j->{log}, qr/^guard: 2 s are over: .*ftkit run -n 1 .*\npid \d+ /m, '... and shows its processes');
    is(`pgrep -fx 'sleep $long'`, '', '... none of them is left');
    is(slurp($ends), '', 'no block END has run');
}

done_testing();
