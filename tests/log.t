#!/usr/bin/perl
# The message log: programs in the style of other people's MPI codes lose ranks, and only
# the team that has lost one goes back; the steps of the other
# teams never go backwards.  With --all each program loses a rank at each point with each kind of
# teams.
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
srand(4);

my %teams = (
    'each rank' => { FTKIT_LOG_TEAMS => 'rank' },
    'pairs' => { FTKIT_LOG_TEAM_SIZE => 2 },
    'nodes' => { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 },
);

my $programs = 0;
for my $p (programs()) {
    like(undisturbed($p, 4), qr/^OK step $p->{steps} /, title($p));
    my @how = sort keys %teams;
    my @points = qw(app.step app.mid app.inflight);
    $programs++;
    for my $h (0 .. 2) {
        my $how = $how[$h];
        my $env = $teams{$how};
        for my $i (0 .. 2) {
            my $point = $points[$i];
            my $rank = int(rand(4));
            my $fault = sprintf('%s:%d:%d:kill', $point, $rank,
                1 + rand(0.9 * passes($p, $point, $rank)));
            next if !selected(3, $programs, $h, $i);
            my $j = logged($p, env => $env, fault => $fault);
            is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault),
                '', "teams of $how: $fault");
        }
    }
}

# the set is in files only: for three that are lost at once, and for a job that starts again,
# with what is in the log or with the reason why it cannot
for my $p ({ name => 'prime', steps => 30 },
    grep { $_->{name} =~ /^(?:transpose|farm|comms)$/ } programs())
{
    my %files = (FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
        FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LOG_TEAMS => 'rank');
    my $when = int(0.7 * passes($p, 'app.step', 1));
    # ranks 0 and 2 die in the opening, too: five spares, because a spawn may hang (docs/limits.md)
    my $j = logged($p, env => \%files, spares => 5,
        fault => "app.step:1:$when:kill,repair.census:0:1:kill,repair.census:2:1:kill");
    like($j->{log}, qr/back to set \d+ or older, from files/, title($p) . ': three are lost');
    is(verdict($p, $j, any => 1), '', '... and the job goes on from files');

    $files{FTKIT_LEVEL_HDF5_DIRECTORY} = scratch() . '/' . title($p) =~ tr/ /_/r;
    mkdir($files{FTKIT_LEVEL_HDF5_DIRECTORY});
    $j = logged($p, env => { %files, FTKIT_RECOVER_SUPPLY => 'end' }, spares => 0,
        fault => "app.step:1:$when:kill");
    isnt($j->{rc}, 0, '... all are lost') or diag($j->{log});
    $j = logged($p, n => 3, env => \%files);
    ok($j->{rc} != 0
            && $j->{log} =~ /with the message log .* a set of 4 ranks cannot be restored on 3/,
        '... three cannot go on') or diag($j->{log});
    $j = logged($p, env => \%files);
    like($j->{log}, qr/restored set \d+ from files/, '... four go on from files');
    is(verdict($p, $j, any => 1), '', '... to the same result');
}

# a job that goes on from an earlier one has a set-up of its own: with more steps to do, which the
# other one has never been told of
{
    my %files = (FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
        FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LOG_TEAMS => 'rank');
    for my $fault ('app.step:1:3:kill', 'app.step:2:3:kill,app.step:1:5:kill', 'recover.end:1:1:kill',
        'transfer.done:1:1:kill')
    {
        $files{FTKIT_LEVEL_HDF5_DIRECTORY} = scratch() . "/more-$fault" =~ tr/:,/--/r;
        mkdir($files{FTKIT_LEVEL_HDF5_DIRECTORY}) or die "$!";
        my ($less, $more) = map { { name => 'comms', steps => $_, args => [ '-n', $_ ] } } 24, 40;
        my $j = logged($less, env => { %files, FTKIT_RECOVER_SUPPLY => 'end' }, spares => 0,
            fault => 'app.step:1:14:kill');
        isnt($j->{rc}, 0, 'a job of 24 steps is lost') or diag($j->{log});
        $j = logged($more, env => \%files, run => [], fault => $fault);
        is(verdict($more, $j, any => 1, what => $fault), '', "... one of 40 goes on: $fault");
        my $again = $j->{log} =~ /the message log has no set-up to replay/ ? 1 : 0;
        is($again, $fault =~ /recover|transfer/ ? 1 : 0,
            $again ? '... again from its start' : '... in the job') or diag($j->{log});
    }
}

# a failure in the repair: while a process is spawned, by the process that spawns (rank 0) or another one,
# when it has joined, and when communicators of the log are made: the replacement has made that of the
# repair later than those, and has to be in the next one
for my $second (qw(repair.spawn:1:1 repair.spawned:0:1 repair.spawned:1:1 repair.joined:1:1
    repair.restore:0:2 repair.restored:0:1))
{
    my ($p) = grep { $_->{name} eq 'wavefront' } programs();
    my ($rank) = $second =~ /:(\d):/;
    my $fault = "app.mid:2:15:kill,$second:kill";
    my $env = { FTKIT_LOG_TEAMS => 'rank', FTKIT_RECOVER_SUPPLY => 'spawn, end' };
    my $j = logged($p, env => $env, spares => 0, fault => $fault);
    is(verdict($p, $j, env => $env, killed => [ $rank, 2 ], faults => 2, what => $fault), '', "spawned: $fault");
}

# an example that knows nothing of the log, through the preloaded layer
{
    my @args = ('-n', 96, '-s', 300, '-d', 3, '--pidfile', 'pid');
    my %o = (program => build() . '/examples/heat2d',
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LOG_TEAM_SIZE => 2,
            FTKIT_CHECKPOINT_PERIOD => '50 calls' });
    my $whole = job(%o, args => [@args, '-o', 'field'], spares => 0);
    is($whole->{rc}, 0, 'heat2d without the log') or diag($whole->{log});
    my $killed = 0;
    my $work = scratch() . '/heat2d';
    my $j = job(%o, run => ['--no-relaunch', '--log'], args => [@args, '-o', 'field'], keep => $work,
        env => { %{ $o{env} }, hold_ranks($work, [2, 120]) }, while => sub {
            $killed = kill_rank("$work/pid.2", 120, {});
            release_ranks($work);
        });
    cmp_ok($killed, '>', 0, '... with it, and a rank is killed');
    is($j->{rc}, 0, '... ends well') or diag($j->{log});
    ok(-s "$j->{dir}/field" && slurp("$j->{dir}/field") eq slurp("$whole->{dir}/field"),
        '... with the same result');
    like($j->{log}, qr/ranks 2 and 3 return to set \d+, all others go on/, '... by its team');
}

done_testing();
