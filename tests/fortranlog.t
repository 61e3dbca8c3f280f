#!/usr/bin/perl
# The message log: calls from Fortran, through mpif.h, the module mpi and mpi_f08.
# Families of calls and every collective lose a rank: the result is that of the undisturbed run.  Each
# program runs once undisturbed, with one binding, and loses a rank with another one.  The functions of
# mpif.h and of the module mpi are the same: either these or those of mpi_f08 lose the rank.  With --all
# all bindings run undisturbed, and two lose a rank.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  its length (default 1)
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitLog;
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
plan(skip_all => 'needs a compiler for Fortran') if !-x build() . '/ftests/calls_f08';
my $seed = $ENV{FTKIT_TEST_SEED} // 5;
my $count = $ENV{FTKIT_TEST_COUNT} // 1;
srand($seed);
my @bindings = qw(mpifh mpi f08);

# ---- what cannot be done

my @table = slurp(top() . '/lib/log/mpi/mpi.tab') =~ /^(MPI_\w+)\s+refuse/mg;
# not there in Fortran of Open MPI 5.0; the last one not in mpi_f08
my $missing = qr/^MPI_Request_get_status_/;
my $missing_f08 = qr/$missing|^MPI_Intercomm_create_from_groups$/;
for my $b (@bindings) {
    my $j = job(n => 3, spares => 0, program => build() . "/ftests/refused_$b", args => [],
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LOG_ENABLED => 'true',
            FTKIT_LOG_TEAM_SIZE => 1, FTKIT_CHECKPOINT_PERIOD => '1 calls' });
    ok($j->{rc} == 0 && $j->{log} =~ /^\0?OK \d+$/m, "$b: refused calls are errors")
        or diag(substr($j->{log}, 0, 3000));
    my %functions = map { $_ => 1 } $j->{log} =~ /error: rank \d+: (MPI_\w+) is not possible/g;
    my $not = $b eq 'f08' ? $missing_f08 : $missing;
    is("@{[sort keys %functions]}", "@{[sort grep { !/$not/ } @table]}", '... all of them');
}

# ---- windows

for my $i (0 .. $#bindings) {
    my $b = $bindings[$i];
    for my $teams (map { (qw(rank all))[$_] } grep { selected(2, $i, $_) } 0, 1) {
        my $j = job(n => 3, spares => 0, program => build() . "/ftests/windows_$b", args => [],
            env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LOG_ENABLED => 'true',
                FTKIT_LOG_TEAMS => $teams, FTKIT_CHECKPOINT_PERIOD => '1 calls' });
        ok($j->{rc} == 0 && $j->{log} =~ /^\0?OK \d+$/m, "$b: windows, teams of $teams")
            or diag(substr($j->{log}, 0, 3000));
    }
    my $j = job(n => 3, spares => 1, program => build() . "/ftests/windows_$b", args => [], fault => "app.mid:$i:1:kill",
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAMS => 'rank' });
    ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $j->{log} =~ /^\0?OK \d+$/m, "$b: windows, rank $i is lost in an epoch")
        or diag(substr($j->{log}, 0, 3000));
}

# ---- calls that would go past the log

my %past = (MPIFH => 'mpif.h and the module mpi', F08 => 'mpi_f08');
for my $way (sort keys %past) {
    my $j = job(n => 3, spares => 0, program => build() . "/ftests/past_$way", args => [],
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LOG_ENABLED => 'true' });
    ok($j->{rc} != 0 && $j->{log} =~ /MPI calls of $past{$way} do not come to the log/,
        "$past{$way}: past the log: refused") or diag($j->{log});
}

# ---- undisturbed: the same by every way, without the log, and preloaded

my %program = map { $_ => [ fortran_programs($_) ] } @bindings;
my $ordered = 0;
for my $i (0 .. $#{ $program{f08} }) {
    my ($first, @others) = map { $program{ $bindings[($i + $_) % 3] }[$i] } 0 .. 2;
    my $want = undisturbed($first, 4);
    like($want, qr/^OK step $first->{steps} hash \w+/, title($first));
    for my $p (@others) { # each of them runs with a loss below
        is(undisturbed($p, 4), $want, title($p)) if all_cases();
        $p->{same_as} = $first;
    }
    next if !$first->{ordered} || !selected(3, $ordered++);
    my $p = $program{ $bindings[int($ordered / 3) % 3] }[$i];
    my $off = logged($p, spares => 0, env => { FTKIT_LOG_ENABLED => 'false' });
    is($off->{result}, $want, title($p) . ', without the log') or diag($off->{log});
}
for my $i (0 .. $#bindings) {
    my $b = $bindings[$i];
    for my $p (map { (fortran_programs($b, 1))[ (0, 9)[$_] ] } grep { selected(2, $i, $_) } 0, 1) {
        my ($linked) = grep { "@{ $_->{args} }" eq "@{ $p->{args} }" } @{ $program{$b} };
        my $j = logged($p, run => [ '--no-relaunch', '--log' ],
            env => { FTKIT_LOG_TEAM_SIZE => 1 }, fault => 'app.mid:1:23:kill');
        is(@{ $j->{faults} } . $j->{result}, '1' . undisturbed($linked, 4),
            title($p) . ', preloaded, a rank killed') or diag($j->{log});
    }
    next if !selected(3, $i, 1);
    # a replacement that is spawned has to be preloaded, too
    my ($p) = fortran_programs($b, 1);
    my ($linked) = grep { "@{ $_->{args} }" eq "@{ $p->{args} }" } @{ $program{$b} };
    my $j = logged($p, spares => 0, run => [ '--no-relaunch', '--log' ],
        env => { FTKIT_LOG_TEAM_SIZE => 1, FTKIT_RECOVER_SUPPLY => 'spawn' },
        fault => 'app.mid:1:23:kill');
    is(@{ $j->{faults} } . $j->{result}, '1' . undisturbed($linked, 4),
        title($p) . ', preloaded, a rank killed, its replacement spawned') or diag($j->{log});
}

# ---- a rank killed

# ... in the step in which messages are too long: one that a repair has drawn tells that with the
# wait, too, not when it is asked for
for my $b (all_cases() ? @bindings : qw(mpi f08)) {
    my ($p) = grep { title($_) =~ /-m edges/ } @{ $program{$b} };
    my $env = { FTKIT_LOG_TEAMS => 'rank' };
    my $j = logged($p, env => $env, fault => 'log.send:2:172:kill');
    is(verdict($p, $j, env => $env, killed => [2], faults => 1), '', title($p) . ', too long');
}

for my $i (0 .. $#{ $program{f08} }) {
    # the two bindings that have not run it undisturbed, or one of them: mpi_f08 if it is one of the two
    my $one = 1 + ($i % 3 == 0 ? 1 : $i % 3 == 1 ? 0 : $i & 1);
    for my $team (all_cases() || $count > 1 ? (1, 2) : $one) {
        for my $round (1 .. $count) {
            # the next round has the next two
            my $p = $program{ $bindings[($i + $team + $round - 1) % 3] }[$i];
            my $env = { FTKIT_LOG_TEAM_SIZE => $team };
            my $rank = int(rand(4));
            my $fault = call_fault($p, $rank);
            my $j = logged($p, env => $env, fault => $fault);
            unlike($j->{log}, qr/is not what it was|does not take the same course/,
                'it is the same again');
            is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault),
                '', title($p) . ", teams of $team: $fault");
        }
    }
}

# ---- collectives killed half-way

my $env = { FTKIT_LOG_TEAM_SIZE => 1 };
for my $i (1 .. 3 * $count) {
    my $p = $program{ $bindings[$i % 3] }[9];
    my $faults = collective_kills(int(rand(120)));
    my $j = logged($p, env => $env, fault => $faults, spares => 4);
    is(verdict($p, $j, env => $env, killed => [ 0 .. 3 ], faults => 4, what => $faults), '',
        title($p) . ": $faults");
}

done_testing();
