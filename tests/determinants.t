#!/usr/bin/perl
# Determinants in every mode: nobody can read those of the lost rank where it was
# (log.blind), as when its node is gone; with causal and pessimistic other nodes have been
# told of them and its team goes back alone, with node everybody has to.  With
# relaxed there are none.  With --all each program meets both modes, more kinds of losses, and each
# relay runs without its gate.
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
srand($ENV{FTKIT_TEST_SEED} // 8);
my $rounds = $ENV{FTKIT_TEST_COUNT} // 1;
# what may end such a job, with a reason
my $unknown = qr/before the first set was written|it cannot be told which one/;
my $both = qr/$unknown|no copy or parity is left/; # of two ranks
my $blind = 'log.blind:*:*:EIO';

my %nodes = (
    'a rank' => { FTKIT_TOPOLOGY_RANKS_PER_NODE => 1 },
    'two ranks' => { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 },
);
my @open = grep { title($_) =~ /^irregular|^farm/ } programs();
my @calls = grep { title($_) =~ / (any|probe|wildcard|cancel)$/ } call_programs();

# the determinants of the lost rank that another one could tell
sub known {
    my ($j) = @_;
    my ($n) = event_texts("$j->{dir}/events") =~ / knows (\d+) determinants of rank \d+$/m;
    return $n // 0;
}

my %known = (causal => 0, pessimistic => 0);
my ($all, $turn) = (0, 0);
my @nodes = sort keys %nodes;

# In one round each program meets one kind of node with each mode, in turns.
sub some_nodes {
    return @nodes if $rounds > 1;
    my $i = $turn++;
    return $nodes[ ($i + int($i / 2)) % 2 ];
}

my @modes = qw(causal pessimistic);
for my $round (1 .. $rounds) {
    my @all_open = (@open, @calls);
    for my $k (0 .. $#all_open) {
        my $p = $all_open[$k];
        for my $mode (map { $modes[$_] } grep { selected(2, $k, $_, $round) } 0, 1) {
            for my $how (some_nodes()) {
                my $env = { %{ $nodes{$how} }, FTKIT_LOG_DETERMINANTS => $mode };
                my $rank = int(rand(4));
                my $fault = fault_of($p, $rank);
                my @killed = ($rank);
                # the node is lost with both; 2 and 3 share theirs with spares
                if ($how eq 'two ranks' && $rank < 2) {
                    push @killed, $rank ^ 1;
                    $fault .= ",log.settle:$killed[1]:1:kill";
                }
                my $j = logged($p, env => $env, fault => "$fault,$blind", spares => 2);
                $known{$mode} += known($j);
                my $bad = verdict($p, $j, env => $env, killed => \@killed,
                    reason => $unknown, what => "$mode, $fault");
                is($bad // '', '', title($p) . ": $mode, nodes of $how: $fault");
            }
        }
        next if !selected(2, $k, $round);
        my $fault = fault_of($p, 1);
        my $env = { FTKIT_LOG_TEAMS => 'rank' };
        my $j = logged($p, env => $env, fault => "$fault,$blind");
        $all += $j->{log} =~ /all ranks return/;
        my $bad = verdict($p, $j, env => $env, any => 1, reason => $unknown,
            what => "node, $fault");
        is($bad // '', '', title($p) . ": with the node's memory lost: $fault");
    }
}

of_all_jobs(sub {
    cmp_ok($known{$_}, '>', 0, "$_: determinants came from other nodes") for sort keys %known;
    cmp_ok($all, '>', 0, 'node: everybody goes back when they are lost');
});
note(map {"$_: $known{$_} determinants of the lost were known\n"} sort keys %known);

# relaxed: there are none.  What has gone back is held back from what comes too early.
my @relays = map { { name => 'relay', steps => 40, args => [ '-m', $_ ] } }
    qw(receive posted probe);
my @ordered = (@relays, (grep { title($_) eq 'irregular -m ordered' } programs()),
    grep { title($_) =~ /^collect| (blocking|nonblocking|persistent|cancel)$/ } call_programs());
my @shapes = ({ FTKIT_LOG_TEAMS => 'rank' }, { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 },
    { FTKIT_LOG_TEAM_SIZE => 2 }, { FTKIT_LOG_TEAM_SIZE => 3 });

sub relaxed_fault {
    my ($p, $rank) = @_;
    return fault_of($p, $rank) if $p->{name} ne 'relay';
    my $point = one_of(qw(app.step app.mid app.inflight log.send log.received));
    return sprintf('%s:%d:%d:kill', $point, $rank, 1 + rand($point =~ /^log/ ? 200 : 36));
}

# whether some message had to wait in front of its gate
sub held_back {
    my ($j) = @_;
    return event_texts("$j->{dir}/events") =~ / waits until \d+ sends and \d+ of collectives /;
}

my $held_back = 0;
for my $round (1 .. $rounds) {
    my $i = 0;
    for my $p (@ordered) {
        for my $kind ('one', 'two', 'one in a repair', 'one in a replay') {
            my $env = { %{ one_of(@shapes) }, FTKIT_LOG_DETERMINANTS => 'relaxed' };
            my ($rank, $other) = (int(rand(4)), int(rand(4)));
            my $fault = relaxed_fault($p, $rank);
            $fault .= ',' . relaxed_fault($p, $other) if $kind eq 'two';
            $fault .= sprintf(',%s:%d:%d:kill', one_of(qw(log.settle log.settled log.marks)), $other,
                1 + rand(2)) if $kind =~ /repair/;
            $fault .= sprintf(',%s:%d:%d:kill@1', one_of(qw(log.send log.received)), $rank,
                1 + rand(20)) if $kind =~ /replay/;
            my $k = $i++;
            next if !selected(4, int($k / 4), $k) && $rounds == 1; # one kind with each program
            my $j = logged($p, env => $env, fault => "$fault,$blind", spares => 2);
            $held_back += held_back($j);
            my $bad = verdict($p, $j, env => $env, killed => [$rank, $kind =~ /two|repair/ ? $other : ()],
                reason => $kind eq 'one' ? $unknown : $both, what => "relaxed, $fault");
            is($bad // '', '', title($p) . ": relaxed, $kind: $fault");
        }
    }
}
of_all_jobs(sub { cmp_ok($held_back, '>', 0, 'relaxed: messages have waited for their time') });

# Both ranks of a pair that sends much to each other have gone back: neither has posted its
# receive, and each waits for its send first.
{
    my ($p) = grep { title($_) eq 'calls -m blocking' } call_programs();
    my $env = { FTKIT_LOG_TEAM_SIZE => 3, FTKIT_LOG_DETERMINANTS => 'relaxed' };
    for my $fault (('app.mid:1:23:kill') x (all_cases() ? 3 : 1)) {
        my $j = logged($p, env => $env, fault => $fault);
        is(verdict($p, $j, env => $env, killed => [1], faults => 1), '',
            title($p) . ": two that wait for each other's receives: $fault");
    }
}

for my $i (0 .. $#relays) {
    my $p = $relays[$i];
    my $env = { FTKIT_LOG_TEAMS => 'rank', FTKIT_LOG_DETERMINANTS => 'relaxed' };
    my $fault = 'app.inflight:2:24:kill';
    my $j = logged($p, env => $env, fault => $fault);
    ok(held_back($j), title($p) . ': a message waits');
    is(verdict($p, $j, env => $env, killed => [2], faults => 1), '', '... and nothing is wrong');
    next if !selected(3, $i);
    $j = logged($p, env => $env, fault => "$fault,log.gate:*:*:EIO@*", timeout => 15);
    isnt($j->{result}, undisturbed($p, 4), '... and without its gate something is');
}

# a receive of any tag that is posted first gets the first message, also when the log probes
for my $mode (qw(node causal pessimistic)) {
    my $j = logged({ name => 'front' },
        env => { FTKIT_LOG_DETERMINANTS => $mode, FTKIT_LOG_TEAM_SIZE => 1 }, spares => 0);
    like($j->{result}, qr/^OK step 40 hash \w+ 0 wrong/, "front: $mode") or diag($j->{log});
}

# refuse: nothing is left open
{
    my ($farm) = grep { title($_) eq 'farm' } programs();
    my $j = logged($farm, env => { FTKIT_LOG_DETERMINANTS => 'refuse' });
    ok($j->{rc} != 0 && $j->{rc} != 124, 'refuse: a program that leaves something open fails by itself')
        or diag("rc $j->{rc}, $j->{seconds} s");
    like($j->{log}, qr/MPI_ANY_SOURCE: its outcome depends on time, and log.determinants = refuse/,
        '... with the name of the call');
    for my $p (grep { title($_) =~ /wavefront|transpose/ } programs()) {
        my $k = logged($p, env => { FTKIT_LOG_DETERMINANTS => 'refuse', FTKIT_LOG_TEAMS => 'rank' },
            fault => 'app.mid:2:20:kill');
        is(verdict($p, $k, env => { FTKIT_LOG_TEAMS => 'rank' }, killed => [2], faults => 1),
            '', "refuse: $p->{name} leaves nothing open");
    }
}

done_testing();
