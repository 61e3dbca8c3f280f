#!/usr/bin/perl
# Several programs in one job: `ftkit run -n 2 a : -n 2 b`.  A lost rank is replaced by its own program
# only, with its arguments and in its directory; a restart has the same programs.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
my $a = build() . '/mpi/coupled';
my $b = scratch() . '/other'; # another executable
system('cp', $a, $b) == 0 or die "cp: $?\n";
mkdir scratch() . '/place' or die "mkdir: $!\n";

# Two ranks of a and two of b.  Options of job(), a and b: the numbers of ranks, and more options for b.
sub coupled {
    my (%o) = @_;
    my $j = job(spares => 1, program => $a, %o, n => $o{a} // 2,
        env => { FTKIT_CHECKPOINT_PERIOD => '3 calls', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', %{ $o{env} // {} } },
        args => ['a', 3, ':', '-n', $o{b} // 2, '--wdir', scratch() . '/place', @{ $o{more} // [] }, $b, 'b', 5]);
    $j->{end} = join("\n", sort $j->{log} =~ /^end: (.*)$/mg) =~ s{/job\d+}{/here}gr;
    return $j;
}

my $plain = coupled(env => { FTKIT_LEVEL_HDF5_ENABLED => 'false' });
my $end = $plain->{end};
is("$plain->{rc} " . join(', ', $end =~ /^rank (\d of 4 is \w \d in \S+):/mg),
    '0 0 of 4 is a 3 in /here, 1 of 4 is a 3 in /here, 2 of 4 is b 5 in /place, 3 of 4 is b 5 in /place',
    'two ranks of each program, with their arguments') or diag($plain->{log});
like($plain->{log}, qr/4 ranks, 2 spares/, '... and a spare of each');

# name, options; like: a line of the log, unlike: none; rc
sub right {
    my ($name, %o) = @_;
    my $j = coupled(%o);
    my $hits = @{ $j->{faults} };
    my $ok = $j->{rc} == 0 && $j->{end} eq $end && $hits == ($o{faults} // 1);
    $ok &&= $j->{log} =~ $o{like} if $o{like};
    $ok &&= $j->{log} !~ $o{unlike} if $o{unlike};
    ok($ok, $name) or diag("rc $j->{rc}, $hits faults\n$j->{log}");
    return $j;
}

right('a rank of each program is lost', faults => 2,
    fault => 'ckpt.begin:1:3:kill,ckpt.begin:2:4:kill', like => qr/0 spares left/, unlike => qr/spawning/);
right('... the only spare is of b: a process of a is spawned', spares => 0, more => ['--spares', 1],
    fault => 'ckpt.begin:0:3:kill', like => qr/spawning 1 process\b/);
right('all ranks of a program are lost at once', spares => 0, faults => 2, like => qr/spawning \d process/,
    env => { FTKIT_LEVEL_MEMORY_PLACE => 'shared' },
    fault => 'ckpt.begin:2:3:kill,ckpt.begin:3:3:kill');
right('with the log, and without spares', spares => 0, run => ['--no-relaunch', '--log'],
    fault => 'ckpt.begin:3:3:kill', like => qr/spawning 1 process\b/);

# a spare of another program is no spare; then a restart from files
my $j = coupled(spares => 0, more => ['--spares', 1], fault => 'ckpt.begin:1:3:kill',
    env => { FTKIT_RECOVER_SUPPLY => 'spare, end' });
like($j->{log}, qr/error: .*1 rank of program 0 of the job .* lost, and too few spares of this program/,
    'a spare of b does not replace a rank of a');
my $dir = $j->{dir};
my $other = 'is of 4 ranks of 2 programs, with another number of ranks of a program than in this job';
for my $case ([$other, a => 3, b => 1], [$other, b => 3],
    ['is of a job of 2 programs, and this job has 3', b => 1, more => [$b, 'b', 5, ':', '-n', 1]]) {
    my ($line, @how) = @$case;
    my $k = coupled(@how, keep => $dir, spares => 0);
    ok($k->{rc} == 2 && $k->{log} =~ $line, "a restart with @how[0 .. 1]: $line") or diag("rc $k->{rc}\n$k->{log}");
}
right('the same programs go on', keep => $dir, faults => 0, like => qr/restored set \d+ from files/);

my ($code, $out) = command('run', '-n', 2, '--replicas', 2, '--', $a, 'a', 3, ':', '-n', 2, $b, 'b', 5);
is($code, 2, 'replicas of several programs are refused');
for my $wrong ([[':'], 'PROGRAM is missing'], [[':', '-n', 1], 'PROGRAM is missing'], [[':', $b], '-n N is missing'],
    [[':', '--log', '-n', 1, $b], "behind a ':' the options are"]) {
    my ($rc, undef, $err) = command('run', '-n', 2, '--', $a, 'a', 3, @{ $wrong->[0] });
    ok($rc == 2 && $err =~ /$wrong->[1]/, "@{ $wrong->[0] }: $wrong->[1]") or diag("rc $rc\n$err");
}
done_testing();
