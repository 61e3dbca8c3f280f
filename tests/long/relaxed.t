#!/usr/bin/perl
# log.determinants = relaxed, which test builds have: no determinants, and gates in a replay.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitLog;
use FtkitTest;
use Test::More;

ulfm_only();
srand($ENV{FTKIT_TEST_SEED} // 8);
my $rounds = $ENV{FTKIT_TEST_COUNT} // 1;
# what may end such a job, with a reason
my $unknown = qr/before the first set was written|it cannot be told which one/;
my $both = qr/$unknown|no copy or parity is left/; # of two ranks
my $blind = 'log.blind:*:*:EIO';

# how often a rank passes a point in a run, so that the kill comes anywhere
sub passes {
    my ($p, $point, $rank) = @_;
    return $p->{steps} if $point eq 'app.step' || $p->{name} ne 'farm';
    return 0.3 * $p->{steps} * ($rank == 0 && $point eq 'app.inflight' ? 20 : 1);
}

sub fault_of {
    my ($p, $rank) = @_;
    return call_fault($p, $rank) if $p->{messages};
    my $point = one_of(qw(app.step app.mid app.inflight));
    return sprintf('%s:%d:%d:kill', $point, $rank, 1 + rand(0.9 * passes($p, $point, $rank)));
}

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
    return scalar(grep { slurp($_) =~ / waits until \d+ sends and \d+ of collectives / }
            glob "$j->{dir}/events*");
}

my $held_back = 0;
for my $round (1 .. $rounds) {
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
            my $j = logged($p, env => $env, fault => "$fault,$blind", spares => 2);
            $held_back += held_back($j);
            my $bad = verdict($p, $j, env => $env, killed => [$rank, $kind =~ /two|repair/ ? $other : ()],
                reason => $kind eq 'one' ? $unknown : $both, what => "relaxed, $fault");
            is($bad // '', '', title($p) . ": relaxed, $kind: $fault");
        }
    }
}
cmp_ok($held_back, '>', 0, 'relaxed: messages have waited for their time');

# Both ranks of a pair that sends much to each other have gone back: neither has posted its
# receive, and each waits for its send first.
{
    my ($p) = grep { title($_) eq 'calls -m blocking' } call_programs();
    my $env = { FTKIT_LOG_TEAM_SIZE => 3, FTKIT_LOG_DETERMINANTS => 'relaxed' };
    for my $fault (('app.mid:1:23:kill') x 3) {
        my $j = logged($p, env => $env, fault => $fault);
        is(verdict($p, $j, env => $env, killed => [1], faults => 1), '',
            title($p) . ": two that wait for each other's receives: $fault");
    }
}

for my $p (@relays) {
    my $env = { FTKIT_LOG_TEAMS => 'rank', FTKIT_LOG_DETERMINANTS => 'relaxed' };
    my $fault = 'app.inflight:2:24:kill';
    my $j = logged($p, env => $env, fault => $fault);
    ok(held_back($j), title($p) . ': a message waits');
    is(verdict($p, $j, env => $env, killed => [2], faults => 1), '', '... and nothing is wrong');
    $j = logged($p, env => $env, fault => "$fault,log.gate:*:*:EIO@*", timeout => 15);
    isnt($j->{result}, undisturbed($p, 4), '... and without its gate something is');
}

done_testing();
