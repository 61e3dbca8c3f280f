#!/usr/bin/perl
# The loss of a node, repaired in the running job: at seeded moments, with all schemes, with the log, and
# two nodes one after the other.
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  its length (default 60)
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitNode;
use FtkitTest;
use Test::More;

ulfm_only();
plan(skip_all => 'needs the right to make name spaces') if !nodes_possible();
plan(skip_all => 'this MPI ends a job that loses a node') if !own_mpi();
my $seed = srand($ENV{FTKIT_TEST_SEED} // 1);
my $memory = { FTKIT_LEVEL_HDF5_ENABLED => 'false' };
my @kinds = (
    ['buddy', $memory],
    ['shared buddy', { %$memory, FTKIT_LEVEL_MEMORY_PLACE => 'shared' }],
    ['xor', { %$memory, FTKIT_LEVEL_MEMORY_SCHEME => 'xor' }],
    ['rs', { %$memory, FTKIT_LEVEL_MEMORY_SCHEME => 'rs' }],
    ['files', { FTKIT_LEVEL_MEMORY_SCHEME => 'own', FTKIT_LEVEL_HDF5_EVERY => '1 sets',
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' }],
    ['log, node', $memory, '--log'],
    ['log, causal', { %$memory, FTKIT_LOG_DETERMINANTS => 'causal' }, '--log'],
    ['log, pessimistic', { %$memory, FTKIT_LOG_DETERMINANTS => 'pessimistic' }, '--log'],
    ['log, apart', { %$memory, FTKIT_CHECKPOINT_LINE => 'apart' }, '--log'],
);
loses('too few spares, and recover.supply is spare, end: relaunched', 0, 1, spares => 1,
    env => { FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
        FTKIT_RECOVER_SUPPLY => 'spare, end' },
    run => ['--emulate-nodes', 3], like => qr/relaunching.*restored set \d+ from files/s);
for my $i (1 .. $ENV{FTKIT_TEST_COUNT} // 60) {
    my ($what, $env, @run) = @{ $kinds[ $i % @kinds ] };
    my $nodes = 3 + int(rand(2));
    my $n = 2 * $nodes; # spares are on nodes of their own
    my $two = rand() < 0.3;
    my @after = sort { $a <=> $b } map { 8 + int(rand(44)) } 1, 2;
    my $rank = int(rand($n));
    # a rank whose node has not been lost, and is not that of its buddies' data before they are back
    my $other = ($rank + 2 + 2 * int(rand($nodes - 1))) % $n;
    loses(sprintf('%s, seed %d: %d nodes, that of rank %d after step %d%s', $what, $seed, $nodes, $rank,
        $after[0], $two ? ", that of $other after $after[1]" : ''), $rank, 1, n => $n,
        spares => $two ? 4 : 2, after => $after[0], $two ? (then => [[$other, $after[1]]]) : (),
        env => { %$env, FTKIT_CHECKPOINT_PERIOD => '3 calls' },
        run => ['--no-relaunch', '--emulate-nodes', $nodes + ($two ? 2 : 1), @run], like => qr/ranks? replaced/);
}
done_testing();
