#!/usr/bin/perl
# The message log: intercommunicators, made in set-up and inside the loop, live through
# failures, and lie in sets.  A rank is killed at each point, with each size of teams; with --all
# more ranks are killed, at random points.  With two contexts, members of a communicator have contexts
# of their own, also those of a remote group.
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
srand($ENV{SEED} // 23);
my $p = { name => 'inters', steps => 60 };
my %most = ('app.step' => 54, 'app.mid' => 54, 'app.inflight' => 54, 'app.bridge' => 9,
    'log.send' => 1000, 'log.received' => 900);

like(undisturbed($p, 4), qr/^OK step $p->{steps} /, title($p));
for my $team (1, 2) {
    for my $i (1 .. $ENV{KILLS} // (all_cases() ? 11 : keys %most)) {
        next if !selected(2, int($i / 2), $team); # each point once
        my $rank = $i % 4; # of both groups, whichever they are
        my @points = sort keys %most;
        my $point = all_cases() ? one_of(@points) : $points[ ($i - 1) % @points ];
        my $fault = sprintf('%s:%d:%d:kill', $point, $rank, 1 + rand($most{$point}));
        my $env = { FTKIT_LOG_TEAM_SIZE => $team, $i % 2 == $team % 2 ? (FTKIT_LOG_CONTEXTS => 2) : () };
        my $j = logged($p, env => $env, fault => $fault);
        is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault),
            '', "teams of $team: $fault");
    }
}

# those of a set that is in files only, in a job that starts again
{
    my %files = (FTKIT_LEVEL_HDF5_ENABLED => 'true',
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_LEVEL_HDF5_EVERY => '1 sets',
        FTKIT_LOG_TEAMS => 'rank', FTKIT_LOG_CONTEXTS => 2,
        FTKIT_LEVEL_HDF5_DIRECTORY => scratch() . '/files');
    mkdir($files{FTKIT_LEVEL_HDF5_DIRECTORY}) or die "$!";
    my $j = logged($p, env => { %files, FTKIT_RECOVER_SUPPLY => 'end' }, spares => 0,
        fault => 'app.step:1:33:kill');
    isnt($j->{rc}, 0, 'all are lost') or diag($j->{log});
    $j = logged($p, env => \%files);
    like($j->{log}, qr/restored set \d+ from files/, '... another job goes on');
    is(verdict($p, $j, any => 1), '', '... to the same result');
}

done_testing();
