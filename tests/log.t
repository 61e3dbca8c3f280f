#!/usr/bin/perl
# The message log: programs in the style of other people's MPI codes lose ranks, and only
# the team that has lost one goes back (rows L1, L3, L4, L5, L8 of the acceptance).
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
srand(4);

my %teams = (
    'each rank' => { FTKIT_LOG_TEAMS => 'rank' },
    'pairs' => { FTKIT_LOG_TEAM_SIZE => 2 },
    'nodes' => { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 },
);

# how often a rank passes a point in a run, so that the kill comes anywhere
sub passes {
    my ($p, $point, $rank) = @_;
    return $p->{steps} if $point eq 'app.step' || $p->{name} ne 'farm';
    return 0.3 * $p->{steps} * ($rank == 0 && $point eq 'app.inflight' ? 20 : 1);
}

for my $p (programs()) {
    like(undisturbed($p, 4), qr/^OK step $p->{steps} /, title($p));
    for my $how (sort keys %teams) {
        my $env = $teams{$how};
        for my $point (qw(app.step app.mid app.inflight)) {
            my $rank = int(rand(4));
            my $fault = sprintf('%s:%d:%d:kill', $point, $rank,
                1 + rand(0.9 * passes($p, $point, $rank)));
            my $j = logged($p, env => $env, fault => $fault);
            is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault),
                '', "teams of $how: $fault");
        }
    }
}

done_testing();
