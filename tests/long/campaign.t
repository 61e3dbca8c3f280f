#!/usr/bin/perl
# The long campaign: seeded random kills, hundreds of them, on one node and on two emulated
# ones; R1 with one failure at any point, R3 with several, also inside the repair.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  its length (default 250)
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitTest;
use Test::More;

ulfm_only();
my $seed = $ENV{FTKIT_TEST_SEED} // 7;
my $count = $ENV{FTKIT_TEST_COUNT} // 250;
srand($seed);
diag("FTKIT_TEST_SEED=$seed, $count runs of each kind");

my @loop = qw(app.step app.mid app.inflight app.coll app.compute ckpt.begin ckpt.sized
    ckpt.packed ckpt.sealed ckpt.voted ckpt.committed durable.begin durable.written
    durable.manifest);
my @once = qw(open.begin open.gathered open.built open.end recover.begin recover.end
    app.callback finish.begin finish.end app.end close.begin close.voted close.parted);
my @repair = qw(repair.shrink repair.shrunk repair.census repair.plan repair.build
    repair.split repair.built repair.restore repair.restored repair.agree repair.agreed
    transfer.sized transfer.done app.callback recover.begin);
my %background = (FTKIT_LEVEL_HDF5_EVERY => '1 sets');
my %files = (%background, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false');
my @writers = (0, 2, 4); # of a node; 0: one of these small sets

my @flush = qw(flush.submit flush.announced flush.submitted flush.begin flush.block flush.part
    flush.end);

sub one_of { my @of = @_; return $of[rand(@of)] }

sub once {
    my $kind = rand();
    return sprintf('%s:%d:1:kill', one_of(@once), rand(4)) if $kind < 0.3;
    my $point = one_of(@loop);
    my $most = $point =~ /^app/ ? 30 : 6;
    return sprintf('%s:%d:%d:kill', $point, rand(4), 1 + rand($most));
}

sub flushing {
    my $f = sprintf('%s:%d:%d:kill', one_of(@flush), rand(4), 1 + rand(3));
    return rand() < 0.5 ? $f : $f . sprintf(',%s:%d:%d:kill', one_of(@loop[0 .. 10]), rand(4),
        1 + rand(6));
}

sub several {
    my @f = (sprintf('%s:%d:%d:kill', one_of(@loop[0 .. 4]), rand(4), 3 + rand(25)));
    push(@f, sprintf('%s:%d:%d:kill', one_of(@repair), rand(7), 1 + rand(3)))
        for 1 .. 1 + rand(2);
    return join(',', @f);
}

sub campaign {
    my ($what, $fault, %o) = @_;
    my ($bad, $hits) = (0, 0);
    my $want = reference(4);
    for my $i (1 .. $count) {
        my $f = $fault->();
        my $w = one_of(@writers);
        my $j = job(n => 4, spares => 4, fault => $f, timeout => 120, %o,
            env => { %{ $o{env} // \%files }, FTKIT_LEVEL_HDF5_WRITERS => $w });
        $hits += @{ $j->{faults} } > 0;
        next if ($j->{rc} == 0 || died_at_end($j)) && $j->{result} eq $want;
        $bad++;
        diag("$what, run $i: $f, writers = $w: exit code $j->{rc}\n", substr($j->{log}, 0, 8000));
    }
    is($bad, 0, "$what: $count runs, $hits of them with a failure");
    cmp_ok($hits, '>', $count / 2, "$what: most of the faults came to pass");
    return;
}

campaign('one loss, one node', \&once, run => []);
campaign('several losses, one node', \&several, run => []);
campaign('a loss during a flush, one node', \&flushing, run => [], env => \%background);
campaign('a loss during a flush, two nodes', \&flushing, run => [],
    env => { %background, FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 });
my %parity = (FTKIT_LEVEL_MEMORY_SCHEME => 'rs', FTKIT_LEVEL_LOCAL_SCHEME => 'xor',
    FTKIT_LEVEL_LOCAL_EVERY => '2 sets');
push(@repair, qw(rebuild.begin rebuild.data rebuild.done));
campaign('several losses, parity and a second level', \&several, run => [], env => { %files, %parity });
campaign('several losses, parity in shared memory, no files', \&several, run => [],
    env => { %parity, FTKIT_LEVEL_MEMORY_PLACE => 'shared', FTKIT_LEVEL_HDF5_ENABLED => 'false' });
campaign('one loss, spawn instead of spares', \&once, run => [], spares => 0);
SKIP: {
    skip('needs the right to make name spaces', 4) if !nodes_possible();
    campaign('one loss, two nodes', \&once, run => ['--emulate-nodes', 2]);
    campaign('several losses, two nodes', \&several, run => ['--emulate-nodes', 2]);
}

done_testing();
