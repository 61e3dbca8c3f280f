#!/usr/bin/perl
# A library that ignores errors of MPI is left when a rank has to roll back: by longjmp, and in C++
# by an exception, without the log and with it.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');
my %log = (%memory, FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 2);
my $number = 0;

sub run
{
    my ($program, $mode, %o) = @_;
    my $work = sprintf '%s/escape%02d', scratch(), ++$number;
    return job(program => $program, keep => $work, args => [ '-o', "$work/out", $mode ],
        timeout => 30, %o, env => { %memory, %{ $o{env} // {} } });
}

my $stubborn = build() . '/mpi/stubborn';
my $want = run($stubborn, '', spares => 0)->{result};
like($want, qr/^40 steps, sum \d+$/, 'undisturbed');

sub leaves
{
    my ($name, $like, $mode, %o) = @_;
    my $j = run($stubborn, $mode, %o);
    my $kills = 1 + ($o{fault} =~ tr/,//);
    ok($j->{rc} == 0 && $j->{result} eq $want && @{ $j->{faults} } == $kills && $j->{log} =~ $like, $name)
        or diag("$name: exit code $j->{rc}, $j->{result}faults: @{ $j->{faults} }\n", substr $j->{log}, 0, 5000);
    return;
}

my $left = qr/: left 1 times, stayed never/;
my $places = 0;
for my $point (qw(app.step app.mid)) {
    my @victims = map { 2 * $_ } grep { selected(2, $places, $_) } 0, 1;
    $places++;
    leaves("rank $_ is killed at $point", $left, '', fault => "$point:$_:18:kill") for @victims;
    leaves("with the log: rank 1 is killed at $point", qr/^rank 0$left.*^rank [23]: left 0 times|^rank [23]: left 0 times.*^rank 0$left/ms, '',
        fault => "$point:1:18:kill", env => \%log);
}
leaves('two losses', qr/: left 2 times/, '', spares => 2,
    fault => 'app.mid:1:12:kill,app.step:3:30:kill');
# Lines apart look for failures in each call of ftkit_checkpoint: a rank that comes to such a call first leaves
# nothing.  So one of five jobs has to show a rank that leaves.
{
    my ($right, $leaves, $last) = (1, 0);
    for my $try (1 .. 5) {
        last if !$right || $leaves;
        $last = run($stubborn, '', fault => 'app.mid:1:18:kill', env => { %log, FTKIT_CHECKPOINT_LINE => 'apart' });
        $right = $last->{rc} == 0 && $last->{result} eq $want && @{ $last->{faults} } == 1
            && $last->{log} !~ /left (?![01] )|stayed (?!never)/;
        $leaves = $last->{log} =~ $left;
    }
    ok($right && $leaves, 'lines apart') or diag("exit code $last->{rc}, $last->{result}", substr $last->{log}, 0, 5000);
}
leaves('in the replacement, too', qr/: left 2 times/, '', spares => 2,
    fault => 'app.mid:1:12:kill,app.mid:1:4:kill@1');
leaves('calls of ftkit in the body', qr/: left [01] times/, 'inside', fault => 'app.mid:1:18:kill');
leaves('the function returns: codes', qr/: left 0 times, stayed too/, 'return',
    fault => 'app.mid:1:18:kill');

# ---- C++ ---------------------------------------------------------------------------------

my ($mpicc) = slurp(build() . '/mpi.mk') =~ /^MPICC := (.*)$/m;
my $mpicxx = $mpicc =~ s/mpicc([^\/]*)$/mpicxx$1/r;
SKIP: {
    skip('no compiler for C++', 5) if !-x $mpicxx || slurp(build() . '/libftkit.a') =~ /__asan_init/;
    my ($top, $build, $program) = (top(), build(), scratch() . '/cpp');
    my $said = qx($mpicxx -std=c++17 -Wall -Wextra -Werror -I$top/include -o $program $top/tests/cpp/escape.cpp $build/libftkit_mpi.a $build/libftkit-test.a @{[packages()]} 2>&1);
    is($said, '', 'ftkit.hpp compiles');
    my $sum;
    for my $case ([ 'undisturbed', '', spares => 0 ], [ 'rank 1 is killed', 1 ], [ 'rank 0 is killed', 0 ],
        [ 'with the log', 1, env => \%log ])
    {
        my ($name, $victim, %o) = @$case;
        my $work = sprintf '%s/cpp%02d', scratch(), ++$number;
        my $j = job(program => $program, keep => $work, args => [ "$work/out", $victim eq '' ? () : $victim ], timeout => 30, %o,
            env => { %memory, %{ $o{env} // {} } });
        $sum //= $j->{result};
        ok($j->{rc} == 0 && $j->{result} eq $sum && $sum =~ /^200 steps/ && $j->{log} !~ /: [1-9]\d* objects left/
                && ($victim eq '' || $j->{log} =~ /rank \d: escaped 1 times/), "C++: $name")
            or diag("exit code $j->{rc}, $j->{result}faults: @{ $j->{faults} }\n", substr $j->{log}, 0, 5000);
    }
}
done_testing();
