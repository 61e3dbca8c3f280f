#!/usr/bin/perl
# Replicas have the same open outcomes: receives from any source, probes, tests, ftkit_decide(), and
# requests under way at a set.  The replica in one plane leads.  With --all each program also runs
# without a failure, and each of a few programs with three planes, two failures and a replay.
#
#   FTKIT_TEST_SEED=...  other faults;  FTKIT_TEST_COUNT=...  kills of each program (default 1)
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitLog;
use FtkitReplicas;
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
my $seed = $ENV{FTKIT_TEST_SEED} // 9;
my $rounds = $ENV{FTKIT_TEST_COUNT} // 1;
srand($seed);

# `calls -m wildcard` counts determinants for itself: a follower has those of its leader in advance.
my %alike = map { title($_) => 1 } alike();
my @open = ({ name => 'decide', steps => 40, messages => 120 },
    grep { !$alike{ title($_) } && title($_) !~ /^calls -m wildcard/ }
        programs(), call_programs(), ahead_programs());

# A kill of any replica, at a point of the program.
sub fault_in {
    my ($p, $r) = @_;
    my $number = int(rand(4 * $r));
    return fault_of($p, 0) =~ s/^([\w.]+):\d+:/$1:$number:/r if $p->{name} ne 'decide';
    return sprintf('app.mid:%d:%d:kill', $number, 1 + rand(39));
}

for my $p (@open) {
    if (all_cases()) {
        my $j = replicas(2, $p, n => 4, env => { FTKIT_CHECKPOINT_PERIOD => '2 calls' });
        is(right($p, $j, n => 4, quiet => 1), '', title($p) . ': two planes have the result of one');
    }
    for (1 .. $rounds) {
        my $fault = fault_in($p, 2);
        my $j = replicas(2, $p, n => 4, fault => $fault, env => { FTKIT_CHECKPOINT_PERIOD => '3 calls' });
        is(right($p, $j, n => 4, quiet => 1), '', title($p) . ": $fault");
        is(back($j), '0 0 0 0 0 0 0 0', '... nobody goes back') if $j->{log} =~ /stand still/;
    }
}

# three planes; the second failure is of the plane that leads after the first one
my @few = grep { title($_) =~ /^(?:decide|farm|irregular -m arrival|ahead -m all)$/ } @open;
for my $i (0 .. $#few) {
    my ($p, $j) = $few[$i];
    if (selected(2, $i, 0)) {
        $j = replicas(3, $p, n => 2, env => { FTKIT_CHECKPOINT_PERIOD => '3 calls' });
        is(right($p, $j, n => 2, quiet => 1), '', title($p) . ': three planes');
    }
    next if !selected(2, $i, 1);
    my $fault = 'app.step:1:9:kill@0,app.step:5:' . (12 + int(rand(8))) . ':kill@0';
    $j = replicas(2, $p, n => 4, spares => 2, fault => $fault,
        env => { FTKIT_CHECKPOINT_PERIOD => '3 calls' });
    is(right($p, $j, n => 4, quiet => 1), '', title($p) . ": $fault");
}

# the replicas of the lost rank repeat the outcomes
my @replayed = grep { title($_) =~ /^(?:decide|farm|irregular -m arrival|calls -m any)$/ } @open;
for my $p (map { $replayed[$_] } grep { selected(2, $_) } 0 .. $#replayed) {
    my $number = int(rand(8));
    my $fault = "app.step:$number:" . (7 + int(rand(10))) . ':kill';
    my $j = replicas(2, $p, n => 4, fault => $fault, env => { FTKIT_REPLICAS_LOST => 'replay' });
    is(right($p, $j, n => 4, faults => 1, quiet => 1), '', title($p) . ": replay, $fault");
}
# no set can be written, because others are in ftkit_wait(): the plane of the lost process goes back and
# has no outcomes any more, so it follows the other one
my $waits = { name => 'decide', steps => 40, args => [ '-m', 'wait' ] };
my $behind = 0;
for my $number (all_cases() ? 0 .. 4 : (0, 2, 4)) {
    my $fault = "app.inflight:$number:" . (1 + int(rand(5))) . ':kill';
    my $j = replicas(2, $waits, n => 4, fault => $fault, env => { FTKIT_LOG_TEAMS => 'all' });
    is(right($waits, $j, n => 4, faults => 1, quiet => 1), '', title($waits) . ": $fault");
    $behind += $j->{log} =~ /ranks 0-3 return to set/;
}
cmp_ok($behind, '>=', 1, '... and some are of the plane that leads');
done_testing();
