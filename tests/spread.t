#!/usr/bin/perl
# A node with k ranks is lost, and its ranks come back on k different nodes, where spares are: each node
# replays one of them.  That is the parallel recovery which MPI allows.  The daemon of the node lives: what a
# runtime does without one is in nodes.t.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use List::Util qw(max min uniq);
use Test::More;

ulfm_only();
asleep_in_waits();
plan(skip_all => 'needs the right to make name spaces') if !nodes_possible();

# Kill all processes of the program on the node of a rank at once; their number.
sub lose_node {
    my ($work, $rank) = @_;
    await_held($work) or return 0;
    my ($pid) = split(' ', slurp("$work/pid.$rank"));
    my $node = readlink("/proc/$pid/ns/uts") or return 0;
    return kill('KILL', grep { (readlink("/proc/$_/ns/uts") // '') eq $node && (readlink("/proc/$_/exe") // '') =~ /solver$/ }
        map { m{(\d+)$} } glob('/proc/[0-9]*'));
}

# A job that loses the node of a rank: k ranks on each of its nodes, and as many spares on each.  Checks where
# the ranks are then; spread: on so many nodes.
sub spread {
    my ($name, $nodes, $k, $rank, $spread, %o) = @_;
    my $events = sprintf('%s/events%d', scratch(), ++our $jobs);
    my ($n, $killed) = ($nodes * $k, 0);
    my $spares = $o{spares} // $nodes;
    survives($name, n => $n, spares => $spares, faults => 0, timeout => 120,
        run => ['--no-relaunch', '--emulate-nodes', $nodes, '--log'], fault => "app.step:$rank:25:hold",
        solver => ['-d', '20', '-s', '60', '-p', 'pid'], while => sub { $killed = lose_node($_[0], $rank) },
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LOG_DETERMINANTS => 'causal', FTKIT_REPORT_EVENTS => $events },
        like => qr/, all others go on/);
    return if is_skipped();
    is($killed, $k + $spares / $nodes, '... all processes of the node are killed');
    diag("events:\n", event_texts($events), map {"halt: $_->{reason}\n"} grep { $_->{event} eq 'halt' } events($events))
        if !Test::More->builder->is_passing();
    my (%first, %now, %ranks, %spares, %replays);
    for my $e (events($events)) {
        if ($e->{event} eq 'open') {
            ($e->{incarnation} == 0 ? \%first : \%now)->{ $e->{rank} } = $e->{host};
        }
        $spares{ $e->{host} }++ if $e->{event} eq 'spare';
        $replays{ $now{ $e->{rank} } // $first{ $e->{rank} } }++ if $e->{event} eq 'restore' && $e->{set} > 0;
    }
    my $lost = $first{$rank} // 'none';
    my @lost = grep { $first{$_} eq $lost } sort { $a <=> $b } keys %first;
    is(scalar(@lost), $k, "... the node had $k ranks");
    is("@{[ sort { $a <=> $b } keys %now ]}", "@lost", '... which are replaced, and no others');
    my @places = map { $now{$_} // 'none' } @lost;
    is(scalar(uniq(@places)), $spread, "... on $spread different nodes");
    ok(!grep({ $_ eq $lost } @places), '... none of them is the lost one');
    is(join(' ', sort { $a <=> $b } values %replays), join(' ', sort { $a <=> $b } values %{ { count(@places) } }),
        '... and each replays where it is');
    my %before = count(values %first);
    my %after = count(values %{ { %first, %now } });
    is(max(values %after) - min(values %after), $k % $spread ? 1 : 0, '... the nodes have as many ranks as each other')
        if $spread == $nodes - 1;
    note('node      ranks  spares  then: ranks  of them replay');
    note(sprintf('%-8s  %5d  %6d  %11d  %14d%s', $_, $before{$_} // 0, $spares{$_} // 0, $after{$_} // 0, $replays{$_} // 0,
        $_ eq $lost ? '  (lost)' : '')) for sort(uniq(keys %before, keys %spares));
    return;
}

sub count {
    my (@of) = @_;
    my %n;
    $n{$_}++ for @of;
    return %n;
}

# a node has two spares: both ranks could come to one node
spread('two ranks of a node of three come back on two nodes', 3, 2, 4, 2, spares => 6);
spread('three ranks of a node of four come back on three nodes', 4, 3, 7, 3);

done_testing();
