#!/usr/bin/perl
# ftkit_decide(): a value that MPI does not know of is the same in every replay.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  its length (default 1, 2 with --all)
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
srand($ENV{FTKIT_TEST_SEED} // 3);
my $rounds = $ENV{FTKIT_TEST_COUNT} // (all_cases() ? 2 : 1);
my $p = { name => 'decide', steps => 40, messages => 120 };
like(undisturbed($p, 4), qr/^OK step 40 hash \w+ 0 wrong/, 'undisturbed');

for my $team (1, 2) {
    for my $i (1 .. 2 * $rounds) {
        my $env = { FTKIT_LOG_TEAM_SIZE => $team };
        my $rank = int(rand(4));
        my $fault = call_fault($p, $rank);
        my $j = logged($p, env => $env, fault => $fault);
        is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault),
            '', "teams of $team: $fault");
    }
}

# set-up is replayed twice: the replacement dies in its turn
for my $second (qw(recover.begin:1:1 app.step:1:1 app.mid:1:2)) {
    my $env = { FTKIT_LOG_TEAM_SIZE => 2 };
    my $fault = "app.mid:1:19:kill,$second:kill";
    my $j = logged($p, spares => 2, env => $env, fault => $fault);
    is(verdict($p, $j, any => 1), '', "twice: $fault");
}

# other nodes keep the values, where determinants leave the node
for my $mode (qw(causal pessimistic)) {
    for my $i (1 .. $rounds) {
        my $env = { FTKIT_TOPOLOGY_RANKS_PER_NODE => 1, FTKIT_LOG_DETERMINANTS => $mode };
        my $rank = int(rand(4));
        my $fault = sprintf('app.mid:%d:%d:kill', $rank, 8 + rand(28));
        my $j = logged($p, env => $env, fault => "$fault,log.blind:*:*:EIO");
        is(verdict($p, $j, any => 1), '', "$mode, the node is lost: $fault");
    }
}

# modes that keep no values say so
for my $mode (qw(refuse relaxed)) {
    my $j = logged($p, spares => 0, env => { FTKIT_LOG_DETERMINANTS => $mode });
    is($j->{rc}, 1, "$mode: an error");
    like($j->{log}, qr/cannot begin: .*ftkit_decide: log\.determinants = $mode keeps no values/,
        '... that says why') or diag($j->{log});
}

# a whole job goes on from files: its set-up decides anew
{
    my %files = (FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
        FTKIT_LEVEL_HDF5_EVERY => '1 set', FTKIT_LOG_TEAM_SIZE => 2);
    my $j = logged($p, env => \%files, run => ['--log'], fault => 'app.mid:*:23:kill', faults => 4);
    like($j->{log}, qr/restored set \d+ from files/, 'a job goes on from files');
    is(verdict($p, $j, any => 1), '', '... with values of its own');
}

done_testing();
