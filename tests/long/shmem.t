#!/usr/bin/perl
# OpenSHMEM: PEs of the programs of tests/shmem and of the example are killed at seeded places and
# moments: once, two in a row, in shmem_restart_pes and around it, in a repair, two at once, and a
# whole node.  The result is that of the undisturbed run.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  jobs of each kind and program (default 20)
#   FTKIT_TEST_JOBS=n    with the seed and the count of a run: job n of this run again
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitShmem;
use FtkitTest;
use Test::More;
use Time::HiRes qw(sleep);

ulfm_only();
asleep_in_waits();
my $seed = $ENV{FTKIT_TEST_SEED} // 41;
my $count = $ENV{FTKIT_TEST_COUNT} // 20;
srand($seed);
diag("FTKIT_TEST_SEED=$seed FTKIT_TEST_COUNT=$count");

my %places = (jacobi => 6, pieces => 9, sort => 6); # of each step
my %meet = (%places, sort => 5); # to which all PEs come without each other: the last one of sort is in a pipeline
my @programs = sort keys %places;
# two PEs that keep the copies of each other may be lost at once
my $files = { FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 sets',
    FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' };
my ($wanted, $hit) = (0, 0);

# ---- at places of the program

for my $p (@programs) {
    for (1 .. $count) {
        killed($p, 4, { spares => 3 }, random_kills(4, 1, $places{$p}));
        killed($p, 4, { spares => 3 }, random_kills(4, 2, $places{$p}));
    }
    # in front of shmem_restart_pes and behind it: a survivor or the substitute, once or twice
    for my $i (1 .. $count) {
        my ($first) = random_kills(4, 1, $places{$p});
        my $step = $first->[1] - ($first->[2] == 101); # that of the set
        my $second = int(rand(4));
        my @kills = ($first, [ $second, $step, 102 + int(rand(2)) ]);
        push(@kills, [ ($second + 1 + int(rand(3))) % 4, $step, 102 + int(rand(2)) ]) if $i % 3 == 0;
        killed($p, 4, { spares => 3, env => $files }, @kills);
    }
    # two in one step: at one place, or where the other one has noticed the loss
    for (1 .. $count / 2) {
        my ($first) = random_kills(4, 1, $places{$p});
        my $j = pes($p, n => 4, spares => 3, env => { %$files, KILLS => "@$first "
                    . join(' ', ($first->[0] + 1 + int(rand(3))) % 4, $first->[1], 1 + int(rand($meet{$p}))) });
        is(verdict($p, $j, 4, $first), '', "$p, two kills in a step: $first->[0] in $first->[1]");
    }
}

# ---- Jacobi of listing 4.1 on 8 PEs with 3 substitutes: one kill at each call, then two and three

sub jacobi { return killed('jacobi', 8, { spares => 3 }, @_) }
for my $step (0 .. 40) {
    for my $place ($step ? 101 : (), $step < 40 ? 1 .. $places{jacobi} : ()) {
        jacobi([ int(rand(8)), $step, $place ]);
    }
}
{
    my @kill = (int(rand(8)), 0, 101); # in front of the first set: the job begins again
    my $j = pes('jacobi', n => 8, spares => 3, run => [ '--relaunch', 1 ], env => { KILLS => "@kill" });
    is(verdict('jacobi', $j, 8, \@kill), '', 'jacobi, 8 PEs: one before the first shmem_checkpoint_all');
}
jacobi(random_kills(8, 2 + $_ % 2)) for 1 .. 2 * $count;

# ---- at any instruction

# A job with kills from outside: the result is that of a run without.
sub struck {
    my ($p, $what, $spares, %o) = @_;
    my $n = $o{n} // 4;
    my $j = pes($p, spares => $spares, args => [400], %o);
    my $want = undisturbed($p, $n, 400);
    my @bad = $j->{rc} == 0 ? () : "exit code $j->{rc}";
    push(@bad, 'no result') if $want eq '' && !is_skipped();
    push(@bad, 'another result') if $j->{result} ne $want;
    is(join(', ', @bad), '', "$p: $what") or diag(substr($j->{log}, 0, 6000));
    $hit += () = $j->{log} =~ /^\0?ftkit run: killed (?:rank|node) /gm;
    return;
}

for my $p (@programs) {
    for my $i (1 .. $count) {
        my @kills = map { sprintf('rank %d at call %d', rand(4), $_) }
            $i % 2 ? 3 + int(rand(300)) : (3 + int(rand(150)), 153 + int(rand(150)));
        struck($p, "--kill '@kills'", 3, run => [ '--no-relaunch', map { ('--kill', $_) } @kills ]);
        $wanted += @kills;
    }
    # a second one so many milliseconds after the first
    for (1 .. $count) {
        my ($first) = random_kills(4, 1, $places{$p});
        my ($process, $ms, $killed) = (int(rand(5)), rand(30), 0);
        my $j = pes($p, n => 4, spares => 3, env => { %$files, KILLS => "@$first" }, while => sub {
                my ($work) = @_;
                return if !await_file("$work/killed0");
                sleep($ms / 1000);
                my $pid = process_of($work, $process);
                $hit += kill('KILL', $pid) if $pid;
            });
        is(verdict($p, $j, 4, $first), '', sprintf('%s: PE %d in step %d at place %d, process %d %.1f ms later',
            $p, @$first, $process, $ms));
        $wanted++;
    }
}
of_all_jobs(sub { cmp_ok($hit, '>', 0.7 * $wanted, "$hit of $wanted kills came to pass") });

# ---- the example: the file of the result

{
    my $rod = sub {
        my ($work, @kills) = @_;
        return job(program => build() . '/examples/shmem/rod', n => 4, spares => 2, keep => $work,
            args => [ 2000, "$work/result" ], env => { FTKIT_LEVEL_HDF5_ENABLED => 'false' },
            run => [ '--no-relaunch', map { ('--kill', $_) } @kills ]);
    };
    my $want = once('shmem rod 2000', sub { $rod->(scratch() . '/rod'); return slurp(scratch() . '/rod/result') });
    for my $i (1 .. $count) {
        my @kills = map { sprintf('rank %d at call %d', rand(4), $_) } 3 + int(rand(80)),
            $i % 2 ? () : 90 + int(rand(80));
        my $j = $rod->(scratch() . "/rod$i", @kills);
        ok($j->{rc} == 0 && (is_skipped() || slurp("$j->{dir}/result") eq $want), "rod: --kill '@kills'")
            or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 6000));
    }
    ok($want ne '', 'the example has a result without a loss');
}

# ---- a node: six PEs on three nodes, substitutes on a fourth one

SKIP: {
    skip('needs the right to make name spaces', 1) if !nodes_possible();
    skip('this MPI ends a job that loses a node', 1) if !own_mpi();
    ($wanted, $hit) = (0, 0);
    for my $p (@programs) {
        for my $i (1 .. $count) {
            my $kill = sprintf('node %d at call %d', 1 + rand(3), 3 + rand(300));
            my $scheme = (qw(buddy xor rs))[ $i % 3 ];
            struck($p, "$scheme, --kill '$kill'", 2, n => 6, timeout => 100,
                env => { FTKIT_LEVEL_MEMORY_SCHEME => $scheme },
                run => [ '--no-relaunch', '--emulate-nodes', 4, '--kill', $kill ]);
            $wanted++;
        }
    }
    of_all_jobs(sub { cmp_ok($hit, '>', 0.7 * $wanted, "$hit of $wanted losses of a node came to pass") });
}
done_testing();
