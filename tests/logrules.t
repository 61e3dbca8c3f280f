#!/usr/bin/perl
# The rules for programs with the message log, and the messages when a program breaks one.  With --all
# in each combination of program, teams and kill.
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
srand($ENV{FTKIT_TEST_SEED} // 6);

# ---- a job that goes on with fewer ranks has no teams

{
    my $p = { name => 'tags', steps => 50 };
    my $j = logged($p, n => 3, env => { FTKIT_RECOVER_SUPPLY => 'spare, shrink' });
    is($j->{rc}, 2, 'shrink with the log ends the job');
    my @told = $j->{log} =~ /open: invalid configuration: (.*)/g;
    is(scalar(@told), 4, '... every process is told') or diag($j->{log});
    is(scalar(grep { !/recover\.supply: shrink.*log\.enabled|another rank/ } @told), 0,
        '... why') or diag($j->{log});
}

# ---- threads: MPI_THREAD_MULTIPLE, where one thread at a time communicates

{
    my $threads = sub {
        my ($mode, %o) = @_;
        my $work = scratch() . '/threads-' . join('-', $mode, %{ $o{env} // {} }, $o{fault} // '');
        return job(n => 3, program => build() . '/mpi/threads', args => [ $mode, '-o', "$work/out" ],
            keep => $work, %o, env => { FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAMS => 'rank', %{ $o{env} // {} } });
    };
    my $want = once('threads', sub { $threads->('one', env => { FTKIT_LOG_ENABLED => 'false' })->{result} });
    for my $case ([ {}, 'ckpt.voted:1:2:kill' ], [ { FTKIT_CHECKPOINT_LINE => 'apart' }, 'apart.all:1:1:kill' ]) {
        my ($apart, $fault) = @$case;
        my $j = $threads->('turns', env => $apart, fault => $fault);
        ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $j->{result} eq $want && $want ne '', 'threads take turns, a rank is lost')
            or diag("rc $j->{rc}, $j->{result}, not $want\n$j->{log}");
        $j = $threads->('both', env => $apart);
        my @said = $j->{log} =~ /(error: rank 0: a thread calls MPI_\w+ while another thread is in MPI_\w+\. Rule: )/g;
        ok($j->{rc} == 1 && @said == 1
                && $j->{log} =~ /rank 0: -\d+: (?:set \d was not written: )?two threads/
                && $j->{log} =~ /rank 0: end: .*two threads have called MPI at once/,
            'threads at once: an error, no set, no good end') or diag("rc $j->{rc}\n$j->{log}");
    }
}

# ---- nothing may be under way at a set

for my $how ([ 2, 1 ], [ 3, 1 ], [ 4, 2 ]) {
    checks('quiet', @$how);
}

# what was refused once is refused again by who has lost its process
{
    my $p = { name => 'tags', steps => 40, args => [ '-n', 40, '-m', 'busy' ] };
    for my $team (1, 2) {
        my $env = { FTKIT_LOG_TEAM_SIZE => $team };
        for my $i (1 .. 4) {
            my $rank = int(rand(4));
            my $fault = sprintf('%s:%d:%d:kill', one_of(qw(app.step app.mid log.drained)), $rank,
                8 + rand(8));
            next if !selected(4, $i);
            my $j = logged($p, env => $env, fault => $fault);
            my @refused = $j->{log} =~ / refused (\d+) /g;
            cmp_ok(scalar(grep { $_ > 0 } @refused), '>=', 3, 'sets are due in the middle of a step');
            is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault), '',
                "teams of $team: $fault");
        }
    }
}

# ---- set-up may complete its receives in any order, and poll; so may the callback that set-up
# leaves the communicators to, as programs do that run without the log as well

my $setups = 0;
for my $p ({ name => 'setup', steps => 30 }, { name => 'setup', steps => 30, args => ['-r'] },
    { name => 'transpose', steps => 50, args => ['-r'] })
{
    my @kinds = qw(causal pessimistic relaxed apart);
    my $i = $setups++;
    for my $team (1, 2) {
        for my $fault (map { "$_:kill" } qw(app.step:2:3 app.mid:0:17 log.received:3:9
            recover.begin:1:1)) {
            my ($rank) = $fault =~ /:(\d+):/;
            my $env = { FTKIT_LOG_TEAM_SIZE => $team };
            my $kind = $team == 1 ? 'node' : shift @kinds;
            $env->{FTKIT_LOG_DETERMINANTS} = $kind if $kind ne 'apart';
            $env->{FTKIT_CHECKPOINT_LINE} = 'apart' if $kind eq 'apart';
            next if !selected(3, $i++);
            my $j = logged($p, env => $env, fault => $fault);
            is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault), '',
                title($p) . ": set-up again, teams of $team, $kind: $fault");
        }
    }
}

# a set-up that sends something else is named
{
    my $p = { name => 'setup', steps => 30, args => [ '-m', 'other' ] };
    my $j = logged($p, env => { FTKIT_LOG_TEAM_SIZE => 1 }, fault => 'app.mid:1:17:kill');
    my $differs = qr/rank 1: message 1 to rank 2 with tag 2 on .* is not what it was .* replay of set-up/;
    like($j->{log}, $differs, 'a set-up that sends something else is named');
}

# ... and a failure that comes while the callback of a replacement runs, or of the first processes,
# does not call it again: what it received is not received twice
for my $p ({ name => 'setup', steps => 30, args => ['-r'] },
    { name => 'transpose', steps => 50, args => ['-r'] })
{
    for my $team (1, 2) {
        my $env = { FTKIT_LOG_TEAM_SIZE => $team };
        my $i = $team + ($p->{name} eq 'setup' ? 0 : 2); # with --all each case, otherwise another one
        # fault; processes, by rank in the world, that are killed when a callback of so many
        # replacements has been through; who is lost
        for my $c (['app.mid:0:17:kill,settle.called:0:1:EIO@1', [[2, 1]], [0, 2]],
            ['app.mid:0:17:kill,settle.called:0:1:EIO@1,settle.called:2:1:EIO@1',
                [[2, 1], [1, 2]], [0, 1, 2]],
            ['app.mid:0:17:kill,settle.called:0:1:kill@1', [], [0]],
            ['settle.called:1:1:EIO', [[2, 1]], [2]])
        {
            my ($fault, $kills, $lost) = @$c;
            next if !selected(4, $i++);
            my $killed = 0;
            my $faults = () = $fault =~ /(?:kill|EIO)/g;
            my $what = "$fault, " . join(' ', map { "rank $_->[0]" } @$kills);
            my $j = logged($p, env => $env, fault => $fault, spares => 4, while => sub {
                for my $k (@$kills) {
                    my ($rank, $n) = @$k;
                    $killed++ if kill_process($_[0], $rank, qr/(?:settle.called.*?){$n}/s);
                }
            });
            is($killed, @$kills, "$what: killed");
            is(verdict($p, $j, env => $env, killed => $lost, faults => $faults, what => $what,
                any => 1), '', title($p) . ": while a callback runs, teams of $team: $what");
        }
    }
}

# ---- what fails in a live team-mate is not told to error handlers, nor by those of the MPI

for my $variant (qw(name handler attribute pack probe mprobe counts fatal)) {
    my $p = { name => 'named', steps => 30, args => ['-m', $variant] };
    my $j = logged($p, n => 3, env => { FTKIT_LOG_TEAMS => 'all' }, fault => 'app.mid:1:17:kill');
    is(verdict($p, $j, n => 3, any => 1, faults => 1, what => $variant), '',
        title($p) . ': all go back');
}

# ---- nodes stay what they were; requests of the MPI; a second context; trouble after the plan

{
    my $p = { name => 'nodes', steps => 30 };
    for my $teams ('0-2 3', '0 1-2 3') {
        my $env = { FTKIT_LOG_TEAM_LIST => $teams, FTKIT_TOPOLOGY_RANKS_PER_NODE => 3 };
        my $j = logged($p, env => $env, fault => 'app.mid:2:18:kill');
        is(verdict($p, $j, any => 1, faults => 1), '', "MPI_Comm_split_type, teams $teams");
    }
    $p = { name => 'writes', steps => 12 };
    my $j = logged($p, n => 2, env => { FTKIT_LOG_TEAMS => 'rank' }, fault => 'app.mid:1:9:kill');
    is(verdict($p, $j, n => 2, any => 1, faults => 1), '', 'a file is written beside receives');
    checks('reopen', 2, 1);
    my %files = (FTKIT_LOG_TEAMS => 'rank', FTKIT_LEVEL_HDF5_ENABLED => 'true',
        FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false');
    $p = { name => 'tags', steps => 50 };
    my $fault = 'app.step:1:17:kill,log.install:2:2:ENOMEM';
    $j = logged($p, env => \%files, fault => $fault);
    ok($j->{rc} != 0 && $j->{log} =~ /could not do its part of the repair/ && $j->{rc} != 124,
        'trouble of one rank after the plan ends the job') or diag($j->{log});
    $j = logged($p, env => \%files, run => [], fault => $fault);
    is(verdict($p, $j, any => 1, faults => 2), '', '... which starts again');
}

# ---- whether a receive was cancelled is so again

{
    my $p = { name => 'cancels', steps => 60 };
    my ($yes, $no, $jobs) = (0, 0, 0);
    for my $team (1, 2) {
        for my $i (1 .. 6) {
            my $env = { FTKIT_LOG_TEAM_SIZE => $team, FTKIT_CHECKPOINT_PERIOD => '20 calls' };
            my $rank = int(rand(4));
            my $fault = sprintf('%s:%d:%d:kill', one_of(qw(app.step app.mid)), $rank, 5 + rand(50));
            next if !selected(3, $i);
            $jobs++;
            my $j = logged($p, env => $env, fault => $fault);
            is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault), '',
                "receives are cancelled, teams of $team: $fault");
            $yes += $_ for $j->{log} =~ /: (\d+) cancelled/g;
            $no += $_ for $j->{log} =~ /cancelled, (\d+) not/g;
        }
    }
    cmp_ok($yes, '>', 2 * $jobs, '... many are');
    cmp_ok($no, '>', 2 * $jobs, '... many are not');
}

# ---- communicators that are freed while something is under way on them, and their successors

for my $i (1 .. 4) {
    my $p = { name => 'gone', steps => 40 };
    my $fault = sprintf('app.mid:%d:%d:kill', rand(4), 1 + rand(36));
    next if !selected(4, $i);
    my $j = logged($p, env => { FTKIT_LOG_TEAMS => 'rank' }, fault => $fault);
    is(verdict($p, $j, any => 1, faults => 1, what => $fault), '',
        "requests on communicators that are gone: $fault");
}
for my $team (1, 2) {
    for my $i (1 .. 3) {
        my $p = { name => 'unwaited', steps => 40 };
        my $fault = sprintf('app.mid:%d:%d:kill', rand(4), 1 + rand(76));
        next if !selected(3, $i);
        my $j = logged($p, env => { FTKIT_LOG_TEAM_SIZE => $team }, fault => $fault);
        is(verdict($p, $j, any => 1, faults => 1, what => $fault), '',
            "small sends on communicators that are gone, teams of $team: $fault");
    }
}

# ---- receives are matched in the order in which they are asked for, also when the program looks
# at them in another one

for ([ 'any', '0 1 2', 'app.mid:0:8:kill', 3 ], [ 'named', '0 1 2', 'app.mid:0:8:kill', 3 ],
    [ 'overtake', '0 1 2', 'app.mid:0:8:kill', 3 ], [ 'block', '0-1 2', 'app.mid:0:8:kill', 3 ],
    [ 'cancel', '0 1 2', 'app.mid:0:8:kill', 3 ], [ 'cancel', '0 1 2', 'app.mid:0:9:kill', 3 ],
    [ 'poll', '0-1 2', 'app.mid:0:8:kill', 3 ], [ 'poll', '0-1 2', 'app.mid:0:9:kill', 3 ],
    [ 'after', '0-1 2', 'app.mid:0:8:kill', 3 ], [ 'probe', '0,2 1 3', 'app.mid:0:6:kill', 4 ],
    [ 'mprobe', '0,2 1 3', 'app.mid:0:6:kill', 4 ], [ 'buffered', '0-1 2', 'app.mid:0:8:kill', 3 ],
    [ 'late', '0-1 2', 'app.mid:0:8:kill', 3 ], [ 'matched', '0 1 2', 'app.mid:0:8:kill', 3 ],
    [ 'claimed', '0 1 2', 'app.inflight:2:6:kill', 3, 'causal' ],
    [ 'vain', '0 1 2', 'app.inflight:2:6:kill', 3 ], [ 'stale', '0-1 2', 'app.mid:0:6:kill', 3 ],
    [ 'memory', '0 1 2 3', 'app.mid:0:6:kill,app.mid:2:6:kill', 4 ])
{
    my ($variant, $teams, $fault, $n, $determinants) = @$_;
    my $p = { name => 'order', steps => 12, args => [ '-m', $variant ] };
    my $env = { FTKIT_LOG_TEAM_LIST => $teams, FTKIT_LEVEL_MEMORY_MAP => 'ring',
        FTKIT_LOG_DETERMINANTS => $determinants // 'node' };
    my $j = logged($p, n => $n, env => $env, fault => $fault);
    is(verdict($p, $j, n => $n, any => 1, faults => scalar(split /,/, $fault),
            what => $fault), '',
        "order, $variant: $fault");
}

{
    my $p = { name => 'order', steps => 12, args => [ '-m', 'abort' ] };
    my $j = logged($p, n => 3, env => { FTKIT_LOG_TEAMS => 'rank' });
    ok($j->{rc} != 0 && $j->{log} =~ /rank 2 has called MPI_Abort with 5: ending the job/,
        'MPI_Abort ends the job, which nothing repairs') or diag($j->{log});
}

# ---- a receive was matched with a message that is never whole, and one behind it has come

for my $v (qw(named source any)) {
    my $p = { name => 'hole', steps => 20, args => ['-m', $v] };
    my $fault = 'app.inflight:1:10:kill';
    my $j = logged($p, env => { FTKIT_LOG_TEAMS => 'rank' }, fault => $fault);
    is(verdict($p, $j, env => { FTKIT_LOG_TEAMS => 'rank' }, killed => [1], faults => 1,
            any => $v eq 'any'), '', "a message that never comes, receives: $v");
    is($j->{log} =~ /all ranks roll back/ ? 'all' : 'one', $v eq 'any' ? 'all' : 'one', '... goes back')
        or diag($j->{log});
}

# ... and then the receiver is lost, or the sender of what has come; or the receiver goes back, too

for ([ 'source', '0 1 2 3', 'app.inflight:1:10:kill,app.mid:2:10:kill' ],
    [ 'two', '0 1 2 3', 'app.inflight:1:10:kill,app.mid:3:10:kill' ],
    [ 'two', '0 1 2 3', 'app.inflight:1:10:kill,app.mid:2:10:kill' ],
    [ 'source', '0 1-2 3', 'app.inflight:1:10:kill' ], [ 'two', '0 1-2 3', 'app.inflight:1:10:kill' ])
{
    my ($v, $teams, $fault) = @$_;
    my $p = { name => 'hole', steps => 20, args => ['-m', $v] };
    my $j = logged($p, spares => 2, fault => $fault,
        env => { FTKIT_LOG_TEAM_LIST => $teams, FTKIT_LEVEL_MEMORY_MAP => 'ring',
            FTKIT_CHECKPOINT_PERIOD => '2 calls',
            OMPI_MCA_btl_sm_fbox_threshold => 1_000_000 }); # messages are seen in the order of sending
    is(verdict($p, $j, any => 1, faults => scalar(split /,/, $fault), what => $fault), '',
        "... $v, teams $teams: $fault");
}

# ---- a receive that had got nothing waits for others, which are through unnoticed

{
    my ($p) = grep { title($_) eq 'calls -m wildcard' } call_programs();
    for my $mode (qw(node pessimistic)) {
        for my $fault (('app.mid:1:32:kill', 'app.mid:1:8:kill')[victims(2, 1)], all_cases() ? 'app.mid:1:32:kill' : ()) {
            my $env = { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2, FTKIT_LOG_DETERMINANTS => $mode };
            my $j = logged($p, env => $env, fault => $fault);
            is(verdict($p, $j, env => $env, killed => [1], faults => 1, what => "$mode, $fault"),
                '', "the program waits for the one that is not known: $mode, $fault");
        }
    }
}

# ---- two messages of a stream may be seen to be through in another order than they were sent

{
    my ($p) = grep { title($_) eq 'collect' } call_programs();
    my $env = { FTKIT_LOG_TEAM_SIZE => 3 };
    for my $fault (('log.send:1:72:kill') x (all_cases() ? 4 : 1)) {
        my $j = logged($p, env => $env, fault => $fault);
        is(verdict($p, $j, env => $env, killed => [1], faults => 1, what => $fault), '',
            "... and they are compared in that in which they were sent: $fault");
    }
}

# ---- a barrier in a replay does not hold up who sends again

{
    my $p = { name => 'freed', steps => 30 };
    for my $fault (map { "app.step:$_:16:kill" } 0, 1) {
        my $env = { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2, FTKIT_CHECKPOINT_PERIOD => '10 calls' };
        my ($rank) = $fault =~ /:(\d+):/;
        my $j = logged($p, env => $env, fault => $fault);
        is(scalar(() = glob "$j->{dir}/watch.over.*"), 3, 'a rank is through barriers before its mate');
        is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault), '',
            "... and what it sent is what was sent: $fault");
    }
}

# ---- what could not be made is MPI_COMM_NULL

{
    my $p = { name => 'makes', steps => 30 };
    my $failed = 0;
    for my $i (1 .. 12) {
        my $env = { FTKIT_LOG_TEAM_SIZE => 2 };
        my $rank = int(rand(4));
        my $fault = sprintf('%s:%d:%d:kill', one_of(qw(app.mid log.send log.received)), $rank,
            20 + rand(200));
        next if !selected(6, $i);
        my $j = logged($p, env => $env, fault => $fault);
        $failed += $_ for $j->{log} =~ /(\d+) calls have failed/g;
        unlike($j->{log}, qr/has left a handle/, 'a call that fails leaves MPI_COMM_NULL');
        is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault), '',
            "the program goes on with that: $fault");
    }
    cmp_ok($failed, '>', 0, '... which has come to pass');
}

done_testing();
