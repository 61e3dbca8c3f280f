#!/usr/bin/perl
# Several emulated nodes: own host name and daemon each, TCP between them.  A rank for each point, in
# turn; with --all each.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use Fcntl ':flock';
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitNode;
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
plan(skip_all => 'needs the right to make name spaces') if !nodes_possible();
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
    FTKIT_LEVEL_HDF5_WRITERS => 1); # one rank of a node sends to the other
my @two = ('--no-relaunch', '--emulate-nodes', '2');
my @three = ('--no-relaunch', '--emulate-nodes', '3');

survives('undisturbed on two nodes', spares => 2, run => \@two, env => \%memory,
    faults => 0, like => qr/memory survives /);
for my $point (qw(app.step app.mid app.inflight app.coll app.compute)[victims(5, 2)]) {
    survives("two nodes: killed at $point, rank $_", spares => 2, run => \@two,
        env => \%memory, fault => "$point:$_:" . (3 + 6 * $_) . ':kill') for victims(4, 1);
}
my $turn = 0;
survives("two nodes: killed at @$_, each in another set", spares => 2, run => \@two, faults => 2,
    env => { %files, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'true' },
    fault => "$_->[0]:0:1:kill,$_->[1]:3:4:kill")
    for [qw(ckpt.begin ckpt.sized)], [qw(ckpt.packed ckpt.sealed)];
for my $point (all_cases() ? qw(ckpt.begin ckpt.sized ckpt.packed ckpt.sealed) : (), qw(ckpt.voted flush.announced
    flush.begin flush.block flush.part
    open.built recover.begin finish.begin)) {
    survives("two nodes: killed at $point, rank $_", spares => 2, run => \@two,
        env => { %files, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'true' },
        fault => "$point:$_:1:kill") for grep { selected(2, $turn, $_) } (0, 3);
    $turn++;
}
survives("two nodes: killed at durable.written, rank $_", spares => 2, run => \@two,
    env => \%files,
    fault => "durable.written:$_:1:kill") for (0, 3)[victims(2, 1)];
survives("two nodes: killed at $_, rank 1", spares => 2, run => ['--emulate-nodes', 2],
    env => \%files, timeout => 90, fault => "$_:1:1:kill")
    for qw(finish.end close.begin close.voted);
survives("three nodes, large messages, rank $_", n => 6, spares => 3, run => \@three,
    env => \%memory, solver => ['-n', '100000', '-s', '12'], fault => "app.mid:$_:8:kill")
    for all_cases() ? (0, 3, 5) : 3;
# ranks 0 and 1 with a spare on the first of two nodes
survives('all working ranks of a node at once', spares => 2, run => \@two, faults => 2,
    env => \%memory, fault => 'app.mid:0:9:kill2,app.mid:1:9:kill2', like => qr/2 ranks repl/);
# all processes of a node but its daemon, killed from outside in one moment
my $gone = 0;
survives('a node with its spares at once', n => 4, spares => 4, run => \@two, faults => 0,
    env => \%memory, solver => ['-p', 'pid'], fault => 'app.step:0:15:hold',
    like => qr/2 ranks replaced/, while => sub {
        my ($work) = @_;
        await_held($work) or return;
        my ($pid) = split(' ', slurp("$work/pid.0"));
        my $node = readlink("/proc/$pid/ns/uts");
        my @victims = grep { (readlink("/proc/$_/ns/uts") // '') eq $node
            && (readlink("/proc/$_/exe") // '') =~ /solver$/ }
            map { m{(\d+)$} } glob('/proc/[0-9]*');
        $gone = kill('KILL', @victims);
    });
is($gone, 4, 'four processes of the node were killed');
for my $point (qw(repair.shrink repair.census repair.build repair.agree repair.agreed)) {
    $turn++;
    for my $second (grep { selected(2, $turn, $_) } 0, 1) {
        my $nth = $point =~ /shrink/ ? 1 : 2;
        survives("two nodes: killed at $point of the repair: process $second", spares => 4,
            run => \@two, env => \%files, faults => 2,
            fault => "app.mid:2:9:kill,$point:$second:$nth:kill");
    }
}
survives('two nodes: three failures', spares => 4, run => \@two, env => \%memory,
    faults => 3, fault => 'app.mid:0:7:kill,app.coll:1:14:kill,app.compute:3:22:kill');

# the loss of a node with its daemon is that of its processes, where the runtime survives it
my @here = ('--no-relaunch', '--emulate-nodes', '3');
my %causal = (%memory, FTKIT_LOG_DETERMINANTS => 'causal');
SKIP: {
    skip('this MPI ends a job that loses a node', 1) if !own_mpi();
    my $survives = qr/memory survives any one node, and any nodes of which no two are buddies; /;
    loses('the node of rank 0 is lost: repaired in the job', 0, 1, env => \%memory,
        run => \@here, like => qr/$survives.*repaired in/s);
    loses('only the daemon of a node is killed: repaired in the job', 3, 0, env => \%memory,
        run => \@here, like => qr/repaired in/);
    loses('mpirun writes to a lost daemon: repaired in the job', 0, 0, input => 1, env => \%memory,
        run => \@here, like => qr/repaired in/);
    my $torn = scratch() . '/torn';
    survives('a connection to a daemon breaks in the middle of a message: repaired in the job', n => 4, spares => 2,
        faults => 0, timeout => 120, fault => 'app.step:0:25:hold', run => \@here, solver => ['-d', '20', '-s', '60', '-p', 'pid'],
        env => { %memory, LD_PRELOAD => build() . '/torn.so', FTKIT_TEST_TORN => $torn },
        like => qr/^torn: .*repaired in/ms, while => sub {
            my ($work) = @_;
            await_held($work) or return;
            write_file($torn, "now\n");
            my ($pid) = split(' ', slurp("$work/pid.0"));
            write_file("/proc/$pid/fd/1", ('x' x 1023 . "\n") x 8); # output is a message of the daemon
        });
    loses('a node is lost, with the log: its team alone rolls back', 3, 1, env => \%causal,
        run => [@here, '--log'], like => qr/rank 3 returns to set \d+, all others go on/);
    survives('a node is lost in ftkit_open, and another one later', spares => 6, run => ['--no-relaunch', '--emulate-nodes', '5'],
        env => \%memory, faults => 2, fault => 'repair.split:9:1:node,app.mid:2:13:node', like => qr/ranks? replaced/);
    loses('a node is lost, with one spare for two ranks: one process is spawned elsewhere', 0, 1,
        spares => 1, env => \%memory, run => \@here, like => qr/ 1 spare \(a node has 2 ranks\), .*spawning 1 process.*repaired in/s);
}

# a runtime that ends the job when it loses a daemon, that is a node
local $ENV{PRTE_MCA_errmgr_dvm_survive_nodes} = 0;
loses('a daemon is killed: relaunched from the files', 3, 0, env => \%files,
    run => ['--emulate-nodes', 2], like => qr/of any nodes .* \(a lost node ends the job\); .*restored set \d+ from files/s);
my %shared = (%memory, FTKIT_LEVEL_MEMORY_PLACE => 'shared');
my $memory = qr/restored set \d+ from memory that outlived the job/;
loses('a daemon is killed: relaunched from the memory of the nodes', 0, 0,
    run => ['--emulate-nodes', 2], env => \%shared, like => $memory);
for my $which (0, 3) {
    loses("the node of rank $which is lost: from the memory of the other", $which, 1,
        run => ['--emulate-nodes', 2], env => \%shared,
        like => qr/node ftnode\d does not answer.*$memory/s);
}
for my $scheme (qw(xor rs)) {
    loses("one of three nodes is lost, $scheme", 2, 1, n => 6, spares => 3,
        run => ['--emulate-nodes', 3],
        env => { %shared, FTKIT_LEVEL_MEMORY_SCHEME => $scheme },
        like => qr/node ftnode2 does not answer.*$memory/s);
}

# nobody holds a lock on what a killed run leaves
my $dead = '/dev/shm/ftkit-run.dead00-ftnode1';
mkdir($dead) or die "$dead: $!\n";
survives('beside the memory that a killed run has left', spares => 1, run => \@two,
    env => \%memory, faults => 0);
ok(!-e $dead, '... it is removed');
my @left = grep { my $d; open($d, '<', $_) && flock($d, LOCK_EX | LOCK_NB) }
    glob('/dev/shm/ftkit-run.*-ftnode*');
is(scalar(@left), 0, 'their shared memory is not left behind') or diag("@left");

done_testing();
