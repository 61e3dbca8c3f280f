#!/usr/bin/perl
# Idle spares prepare the memory of a rank (spares.prepare).
#
#   FTKIT_TEST_SEED=...  another series of kills;  FTKIT_TEST_COUNT=...  its length (default 3, 6 with --all)
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;
use Time::HiRes qw(sleep time);

ulfm_only();
asleep_in_waits();
my $seed = $ENV{FTKIT_TEST_SEED} // 20261124;
my $count = $ENV{FTKIT_TEST_COUNT} // (all_cases() ? 6 : 3);
srand($seed);
diag("FTKIT_TEST_SEED=$seed, $count kills");
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_REPORT_STDERR => 'debug',
    FTKIT_CHECKPOINT_PERIOD => '1 call');
my @large = ('-n', 160_000); # 320,000 bytes for each rank
my $told = qr/a spare has prepared (\d+) bytes for segments/;

# Run the solver with kills; the run is right.  Returns the sizes that spares have told.  Before the first
# kill, in a step, all ranks wait until so many spares (told => N) have prepared their memory.
sub prepared {
    my ($name, %o) = @_;
    my $wanted = delete $o{told} // 0;
    $o{fault} = "app.step:0:9:hold,$o{fault}" if $wanted;
    $o{while} = sub {
        my ($work) = @_;
        await_held($work);
        for (my $end = time() + 30 * pace(); time() < $end; sleep(0.005)) {
            last if (() = slurp("$work/log") =~ /$told/g) >= $wanted;
        }
        let_go($work);
    } if $wanted;
    my $j = survives($name, n => 4, spares => 1, solver => \@large, %o, env => { %memory, %{ $o{env} // {} } });
    my @sizes = $j->{log} =~ /$told/g;
    return @sizes;
}

my ($pair) = prepared('a spare of buddies', told => 1, fault => 'app.mid:1:15:kill');
cmp_ok($pair // 0, '>', 2 * 320_000, '... has prepared two segments');
my ($xor) = prepared('a spare of a parity group', told => 1, fault => 'app.mid:1:15:kill',
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor', FTKIT_TOPOLOGY_RANKS_PER_NODE => 1 });
cmp_ok($xor // 0, '>', 320_000, '... has prepared a segment and a parity');
cmp_ok($xor // 0, '<', $pair, '... which are less than two segments');
is_deeply([prepared('spares.prepare = false', fault => 'app.mid:1:15:kill',
    env => { FTKIT_SPARES_PREPARE => 'false' })], [], '... nothing is prepared');
is_deeply([prepared('slots of a place that outlives processes', fault => 'app.mid:1:15:kill',
    env => { FTKIT_LEVEL_MEMORY_PLACE => 'shared' })], [], '... nothing is prepared');
my @two = prepared('two failures', told => 2, spares => 2, faults => 2,
    fault => 'app.mid:1:12:kill,app.mid:0:20:kill');
cmp_ok(scalar(@two), '>=', 2, '... each spare has prepared memory');

# at any moment: a rank, or first a spare and then a rank
for my $i (1 .. $count) {
    my $rank = int(rand(4));
    my $step = 2 + int(rand(25));
    my $spare = rand() < 0.5 ? sprintf('spare.nap:%d:%d:kill,', 4 + int(rand(2)), 1 + rand(4 * $step)) : '';
    prepared("seeded kill $i", spares => 2, fault => $spare . ($spare ? "app.step:$rank:$step:after1," : '') . "app.mid:$rank:$step:kill",
        faults => $spare ? 2 : 1);
}

done_testing();
