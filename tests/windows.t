#!/usr/bin/perl
# Windows of MPI with the message log (tests/mpi/windows.c): the result with a rank killed is that of
# the undisturbed run.  With --all each epoch has twenty kills and more at seeded points; otherwise one
# or two, and the teams, the faults and the kinds of kills take turns.
#
#   FTKIT_TEST_SEED=...  another series
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
apart();
asleep_in_waits();
srand($ENV{FTKIT_TEST_SEED} // 37);

sub program { return { name => 'windows', steps => 40, args => [ '-m', $_[0] ] } }
my @active = map { program($_) } qw(fence pscw test gets);
my @passive = map { program($_) } qw(counter locks kept);
my $all = { FTKIT_LOG_TEAMS => 'all' };

# A kill at a point of the program or of the engine.  Each rank passes each point once a step at
# least.
my %points = (fence => [qw(win.sent win.applied log.send)], pscw => [qw(win.sent win.wait win.applied)],
    test => [qw(win.sent win.applied)], gets => [qw(win.sent win.applied log.send log.received)],
    counter => [qw(win.flush win.applied win.direct)], kept => [qw(win.flush win.direct)],
    locks => [qw(win.locked win.unlock win.flush win.applied win.direct)]);
sub kill_of {
    my ($p, $rank) = @_;
    my ($how) = $p->{args}[1];
    my $point = one_of(qw(app.step app.mid app.inflight), @{ $points{$how} });
    return kill_at($point, $rank, 36, 35);
}

# A kill of a rank at one of the first visits of a point.  How many operations need no message depends on
# time, and how many tasks a rank has: a rank that has too few of them dies in a later step.
sub kill_at {
    my ($point, $rank, $most, $step) = @_;
    my $fault = sprintf('%s:%d:%d:kill', $point, $rank, 1 + rand($most));
    return $point =~ /^win\.(?:direct|word|meet)$|^app\.inflight$/ ? "$fault,app.mid:$rank:$step:kill" : $fault;
}

# The result of a program without a loss, as one team; it runs once.
my %calm;
sub calm {
    my ($p) = @_;
    return $calm{ title($p) } //= basis(sub {
        my $j = logged($p, spares => 0, env => { %$all, FTKIT_CHECKPOINT_PERIOD => '5 calls' });
        diag(title($p), ': no result: ', substr($j->{log}, 0, 3000)) if $j->{result} eq '';
        return $j->{result};
    });
}

for my $p (@active) {
    like(undisturbed($p, 4), qr/^OK step 40 hash \w+ 0 wrong/, title($p) . ', undisturbed');
}

# ---- fences, and post, start, complete, wait: teams of one, of two, of all; some lines apart

my $job = 0;
for my $round (1 .. (all_cases() ? 30 : 1)) {
    for my $i (0 .. $#active) {
        my $p = $active[$i];
        for my $team (1, 2, 4) {
            next if !selected(2, $i, $team == 2);
            my $apart = $job++ % 4 == 3;
            my $env = { FTKIT_LOG_TEAM_SIZE => $team, FTKIT_CHECKPOINT_PERIOD => '5 calls',
                $apart ? (FTKIT_CHECKPOINT_LINE => 'apart') : () };
            my $rank = int(rand(4));
            my $fault = kill_of($p, $rank);
            my $j = logged($p, env => $env, fault => $fault);
            is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault), '',
                title($p) . ", teams of $team" . ($apart ? ', apart' : '') . ": $fault");
        }
    }
}

# ---- an epoch that set-up opens and the loop closes: a replacement has none

for my $p (map { program($_) } qw(posted fenced self)) {
    for my $i (1 .. (all_cases() ? 10 : 1)) {
        my $env = { FTKIT_LOG_TEAM_SIZE => 1 + int(rand(2)), FTKIT_CHECKPOINT_PERIOD => '5 calls' };
        my $rank = int(rand(4));
        my $fault = sprintf('%s:%d:%d:kill', one_of(qw(app.mid win.sent win.applied)), $rank, 8 + rand(28));
        my $j = logged($p, env => $env, fault => $fault);
        is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault), '',
            title($p) . ": $fault");
    }
}

# ---- each rank twice: one replica of a rank dies, and the outcomes of MPI_Win_test are those of one

for my $p (all_cases() ? @active[2, 3] : $active[2]) {
    my $env = { FTKIT_LOG_TEAM_SIZE => 1, FTKIT_CHECKPOINT_PERIOD => '5 calls' };
    my $fault = kill_of($p, int(rand(8)));
    my $j = logged($p, env => $env, run => [ '--no-relaunch', '--replicas', 2 ], fault => $fault);
    is("@{[ scalar @{ $j->{faults} } ]} $j->{result}", '1 ' . undisturbed($p, 4),
        title($p) . ", two replicas: $fault") or diag(substr($j->{log}, 0, 3000));
}

# ---- locks: one team

for my $p (@passive) {
    my $want = calm($p);
    like($want, qr/^OK step 40 hash \w+ 0 wrong/, title($p) . ', undisturbed');
    for my $i (1 .. (all_cases() ? 24 : 1)) {
        my $rank = int(rand(4));
        my $fault = kill_of($p, $rank);
        my $k = logged($p, env => { %$all, FTKIT_CHECKPOINT_PERIOD => '5 calls' }, fault => $fault);
        is("@{[ scalar @{ $k->{faults} } ]} $k->{rc} $k->{result}", "1 0 $want", title($p) . ": $fault")
            or diag(substr($k->{log}, 0, 3000));
    }
}

# ---- work stealing: each leaf of a tree of tasks is done once a step, whoever does it

{
    my $p = { name => 'steal', steps => 40, args => [] };
    my $want = calm($p);
    like($want, qr/^OK step 40 hash \w+ 0 wrong/, title($p) . ', undisturbed');
    for my $i (1 .. (all_cases() ? 24 : 2)) {
        my $point = one_of($i % 2 ? qw(app.inflight win.word) : qw(app.step app.mid win.flush win.direct));
        my $fault = kill_at($point, int(rand(4)), 36, 35);
        my $k = logged($p, env => { %$all, FTKIT_CHECKPOINT_PERIOD => '5 calls' }, fault => $fault);
        is("@{[ scalar @{ $k->{faults} } ]} $k->{rc} $k->{result}", "1 0 $want", title($p) . ": $fault")
            or diag(substr($k->{log}, 0, 3000));
    }
}

# ---- a rank that comes last to each fence

{
    my $p = { name => 'latecomer', steps => 20, args => [] };
    for my $fault ('', sprintf('app.mid:%d:%d:kill', rand(4), 3 + rand(15))) {
        my $k = logged($p, spares => $fault ? 1 : 0, env => { %$all, FTKIT_CHECKPOINT_PERIOD => '5 calls' },
            $fault ? (fault => $fault) : ());
        my $kills = $fault ? 1 : 0;
        like("@{[ scalar @{ $k->{faults} } ]} $k->{rc} $k->{result}", qr/^$kills 0 OK step 20 hash \w+ 0 wrong/,
            title($p) . ", $fault") or diag(substr($k->{log}, 0, 3000));
    }
}

# ---- dynamic windows: a replacement has its memory at other addresses

sub dynamic { return { name => 'dynamic', steps => 40, args => [ '-m', $_[0] ] } }
for my $p (map { dynamic($_) } qw(fence pscw raw)) {
    like(undisturbed($p, 4), qr/^OK step 40 hash \w+ 0 wrong/, title($p) . ', undisturbed');
    my %few = (fence => [ 1, 4 ], pscw => [ 3, 4 ], raw => [2]);
    for my $i (all_cases() ? 1 .. 24 : @{ $few{ $p->{args}[1] } }) {
        my $env = { FTKIT_LOG_TEAM_SIZE => one_of(1, 2, 4), FTKIT_CHECKPOINT_PERIOD => '5 calls',
            $i % 4 == 3 ? (FTKIT_CHECKPOINT_LINE => 'apart') : (),
            $p->{args}[1] eq 'raw' ? (FTKIT_LOG_CHECK => 'false') : () };
        my $rank = int(rand(4));
        my $fault = $i % 4 == 0 ? sprintf('win.attached:%d:%d:kill', $rank, 2 + rand(6))
            : sprintf('%s:%d:%d:kill', one_of(qw(app.step app.mid app.inflight win.sent win.applied)), $rank,
                2 + rand(34));
        my $j = logged($p, env => $env, fault => $fault);
        is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault), '',
            title($p) . ", teams of $env->{FTKIT_LOG_TEAM_SIZE}"
                . ($env->{FTKIT_CHECKPOINT_LINE} ? ', apart' : '') . ": $fault");
    }
}
{
    my $p = dynamic('fence');
    my $fault = sprintf('app.mid:%d:%d:kill', rand(8), 1 + rand(36));
    my $j = logged($p, env => { FTKIT_LOG_TEAM_SIZE => 1, FTKIT_CHECKPOINT_PERIOD => '5 calls' },
        run => [ '--no-relaunch', '--replicas', 2 ], fault => $fault);
    is("@{[ scalar @{ $j->{faults} } ]} $j->{result}", '1 ' . undisturbed($p, 4),
        title($p) . ", two replicas: $fault") or diag(substr($j->{log}, 0, 3000));

    # the memory of the lost rank has no copy, and the files have an older set: the context ends inside
    # ftkit_recover() of the replacement, which then frees its windows
    my $all = { FTKIT_LOG_TEAMS => 'all', FTKIT_CHECKPOINT_PERIOD => '5 calls', FTKIT_LEVEL_MEMORY_SCHEME => 'own',
        FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '2 sets',
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' };
    $j = logged($p, env => $all, fault => 'app.mid:2:13:kill');
    like($j->{log}, qr/rank 2: recover: no copy of the data survives: /, title($p) . ', the end of a replacement: the reason')
        or diag(substr($j->{log}, 0, 4000));
    unlike($j->{log}, qr/set-up has to be the same/, '... and no other one');

    # set-up of a lost rank has told its addresses, and there is no set yet
    $fault = sprintf('app.connected:%d:1:kill', rand(4));
    $j = logged($p, env => { FTKIT_LOG_TEAM_SIZE => 2 }, fault => $fault);
    is("@{[ scalar @{ $j->{faults} } ]} $j->{result}", '1 ' . undisturbed($p, 4),
        title($p) . ", before the first set: $fault") or diag(substr($j->{log}, 0, 3000));

    my $env = { FTKIT_LOG_TEAM_SIZE => 2, FTKIT_LEVEL_HDF5_ENABLED => 'true',
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_LEVEL_HDF5_EVERY => '1 set',
        FTKIT_RECOVER_SUPPLY => 'end', FTKIT_CHECKPOINT_PERIOD => '5 calls' };
    $j = logged($p, env => $env, run => ['--log'], spares => 0, fault => 'app.mid:1:18:kill');
    like($j->{log}, qr/restored set \d+ from files/, 'dynamic windows: a job goes on from files');
    is(verdict($p, $j, any => 1), '', '... with the addresses of the job before');

    # the second job tells its own addresses in set-up, and no set has them; then it loses a rank
    my $c = dynamic('computed');
    my $files = scratch() . '/computed';
    mkdir($files);
    $env->{FTKIT_LEVEL_HDF5_DIRECTORY} = $files;
    logged($c, env => $env, run => [ '--log', '--no-relaunch' ], spares => 0, fault => 'app.mid:1:18:kill');
    $j = logged($c, env => { %$env, FTKIT_RECOVER_SUPPLY => 'spare' }, fault => 'app.mid:1:12:kill');
    like($j->{log}, qr/from files/, title($c) . ', a second job goes on from files');
    is("@{[ scalar @{ $j->{faults} } ]} $j->{result}", '1 ' . undisturbed($c, 4),
        '... and a replacement knows the addresses that set-up of this job has told')
        or diag(substr($j->{log}, 0, 3000));
}
{
    my $p = dynamic('locks');
    my $env = { %$all, FTKIT_CHECKPOINT_PERIOD => '5 calls' };
    my $want = calm($p);
    like($want, qr/^OK step 40 hash \w+ 0 wrong/, title($p) . ', undisturbed');
    for my $i (1 .. (all_cases() ? 24 : 1)) {
        my $fault = sprintf('%s:%d:%d:kill', one_of(qw(app.step app.mid win.locked win.unlock win.applied)),
            rand(4), 2 + rand(34));
        my $j = logged($p, env => $env, fault => $fault);
        is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "1 0 $want", title($p) . ": $fault")
            or diag(substr($j->{log}, 0, 3000));
    }
    my $j = logged(dynamic('bare'), spares => 0,
        env => { FTKIT_LOG_TEAM_SIZE => 2, FTKIT_CHECKPOINT_PERIOD => '1 calls' });
    like($j->{result}, qr/^OK step 40 hash \w+ 0 wrong/,
        'a set with attached memory that is not registered is refused') or diag($j->{log});
}

# ---- windows made and freed in the loop: a restore sets their registered variables

# locks need one team
sub winloop {
    my ($how) = @_;
    return { name => 'winloop', steps => 40, args => [ '-m', $how ], env => $how eq 'locks' ? $all : {} };
}
my @alone = (FTKIT_LOG_TEAM_SIZE => 1);
for my $how (qw(fence pscw locks)) {
    my $p = winloop($how);
    my @teams = $how eq 'locks' ? ($all) : map { { FTKIT_LOG_TEAM_SIZE => $_ } } 1, 2, 4;
    like(undisturbed($p, 4), qr/^OK step 40 hash \w+ 0 wrong/, title($p) . ', undisturbed');
    my %few = (fence => [ 2, 3 ], pscw => [ 1, 3 ], locks => [1]);
    for my $i (all_cases() ? 1 .. 24 : @{ $few{$how} }) {
        my $apart = $how ne 'locks' && $i % 4 == 3;
        my $env = { %{ $teams[$i % @teams] }, FTKIT_CHECKPOINT_PERIOD => '5 calls',
            $apart ? (FTKIT_CHECKPOINT_LINE => 'apart') : () };
        my $point = one_of(qw(app.step app.mid app.inflight win.made win.applied));
        my $fault = sprintf('%s:%d:%d:kill', $point, rand(4), 1 + rand($point eq 'win.made' ? 13 : 36));
        my $j = logged($p, env => $env, fault => $fault);
        is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", '1 0 ' . undisturbed($p, 4),
            title($p) . ', teams of ' . ($env->{FTKIT_LOG_TEAM_SIZE} // 'all') . ($apart ? ', apart' : '')
                . ": $fault") or diag(substr($j->{log}, 0, 3000));
    }
}
{
    my $p = winloop('fence');
    my $want = undisturbed($p, 4);
    my $fault = sprintf('app.mid:%d:%d:kill', rand(8), 1 + rand(36));
    my $j = logged($p, env => { @alone, FTKIT_CHECKPOINT_PERIOD => '5 calls' },
        run => [ '--no-relaunch', '--replicas', 2 ], fault => $fault);
    is("@{[ scalar @{ $j->{faults} } ]} $j->{result}", "1 $want", title($p) . ", two replicas: $fault")
        or diag(substr($j->{log}, 0, 3000));

    my $env = { FTKIT_LOG_TEAM_SIZE => 2, FTKIT_LEVEL_HDF5_ENABLED => 'true',
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_LEVEL_HDF5_EVERY => '1 set',
        FTKIT_RECOVER_SUPPLY => 'end', FTKIT_CHECKPOINT_PERIOD => '5 calls' };
    $fault = sprintf('app.mid:%d:%d:kill', rand(4), 8 + rand(30));
    $j = logged($p, env => $env, run => ['--log'], spares => 0, fault => $fault);
    like($j->{log}, qr/restored set \d+ from files/, title($p) . ": a job goes on from files: $fault");
    is($j->{result}, $want, '... with the windows of the loop') or diag(substr($j->{log}, 0, 3000));

    $j = logged(winloop('stray'), spares => 0, env => { @alone, FTKIT_CHECKPOINT_PERIOD => '1 calls' });
    like($j->{result}, qr/^OK step 40 hash \w+ 0 wrong/,
        'a set with a registered window is refused without its memory') or diag($j->{log});
}

# ---- a replacement in its set-up serves no locks; a window that is made has its messages

for my $rank (map { 2 * $_ } victims(2, 1)) {
    my $p = program('served');
    my $env = { %$all, FTKIT_CHECKPOINT_PERIOD => '5 calls' };
    my $fault = sprintf('app.mid:%d:%d:kill', $rank, 8 + rand(28));
    my $want = calm($passive[0]);
    my $j = logged($p, env => $env, fault => $fault);
    is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "1 0 $want", title($p) . ": $fault")
        or diag(substr($j->{log}, 0, 3000));
}
{
    my $j = logged(program('made'), spares => 0, env => $all, fault => 'win.made:*:*:late');
    like($j->{result}, qr/^OK step 40 hash \w+ 0 wrong/, 'locks of windows that are being made')
        or diag(substr($j->{log}, 0, 3000));
}

# ---- a whole job goes on from files, with the memory of MPI_Win_allocate

{
    my $p = $active[3];
    my $env = { FTKIT_LOG_TEAM_SIZE => 2, FTKIT_LEVEL_HDF5_ENABLED => 'true',
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_LEVEL_HDF5_EVERY => '1 set',
        FTKIT_RECOVER_SUPPLY => 'end', FTKIT_CHECKPOINT_PERIOD => '5 calls' };
    my $j = logged($p, env => $env, run => ['--log'], spares => 0, fault => 'app.mid:1:18:kill');
    like($j->{log}, qr/restored set \d+ from files/, 'a job goes on from files');
    is(verdict($p, $j, any => 1), '', '... with the memory of windows');
}

# ---- sets that earlier builds have written: windows of the loop, a lock, shared memory
# tests/data/set-*-v7.tar.gz: one set each, of two ranks

for (['winloop', 4, 20, 'fence', \@alone], ['windows', 3, 12, 'kept', [%$all], 'locks'],
    ['shared', 2, 12, 'halo', [%$all]])
{
    my ($name, $set, $steps, $how, $teams, $file) = @$_;
    my $p = { name => $name, steps => $steps, args => [ '-m', $how, '-n', $steps ] };
    my $env = { @$teams, FTKIT_CHECKPOINT_PERIOD => '5 calls', FTKIT_LEVEL_HDF5_ENABLED => 'true',
        FTKIT_LEVEL_HDF5_DIRECTORY => my $old = scratch() . "/old-$name" };
    mkdir($old);
    is(system('tar', '-xzf', top() . '/tests/data/set-' . ($file // $name) . '-v7.tar.gz', '-C', $old), 0, "an older set: $name");
    my $want = basis(sub { logged($p, n => 2, spares => 0, env => { %$env, FTKIT_LEVEL_HDF5_ENABLED => 'false' })->{result} });
    my $j = logged($p, n => 2, spares => 0, env => $env);
    like($j->{log}, qr/restored set $set from files/, '... a job goes on from it');
    like($want, qr/^OK step $steps hash \w+ 0 wrong/, '... which without it has a result');
    is($j->{result}, $want, '... to the right result') or diag(substr($j->{log}, 0, 3000));
}

# ---- an epoch that a set cannot have; a target without memory

{
    my $j = logged(program('open'), spares => 0, env => { FTKIT_LOG_TEAM_SIZE => 2,
            FTKIT_CHECKPOINT_PERIOD => '1 calls' });
    like($j->{result}, qr/^OK step 40 hash \w+ 0 wrong/, 'a set with an open epoch is refused')
        or diag($j->{log});
}
{
    my $j = logged(program('held'), spares => 0, env => { %$all, FTKIT_CHECKPOINT_PERIOD => '1 calls' });
    like($j->{result}, qr/^OK step 40 hash \w+ 0 wrong/, 'a set with a lock is refused, with its target') or diag($j->{log});
}
for my $p ($active[0], all_cases() ? $active[1] : (), $passive[1]) {
    my $j = logged($p, spares => 0, env => $all, fault => 'win.memory:1:9:EIO');
    ok($j->{rc} != 0 && $j->{rc} != 124 && $j->{seconds} < 30 * pace()
            && $j->{log} =~ /rank 1: cannot do the one-sided operations of other ranks on a window: /,
        title($p) . ': no memory ends the job') or diag($j->{log});
}

# ---- shared memory: a replacement repeats its set-up beside it, and all ranks restore it together

# How many descriptors of such memory the processes of this file have; other tests have their own.
sub memory_left {
    my $work = scratch();
    return scalar grep { (readlink($_) // '') =~ /ftkit-win/ } map { glob("$_/fd/*") }
        grep { slurp("$_/environ") =~ /=\Q$work\E\// } glob('/proc/[0-9]*');
}

sub shared { return { name => 'shared', steps => 40, args => [ '-m', $_[0] ] } }
for my $p (map { shared($_) } qw(halo mixed)) {
    my $env = { %$all, FTKIT_CHECKPOINT_PERIOD => '5 calls' };
    my $want = calm($p);
    like($want, qr/^OK step 40 hash \w+ 0 wrong/, title($p) . ', undisturbed');
    for my $i (all_cases() ? 1 .. 25 : $p->{args}[1] eq 'halo' ? 2 : 3) {
        my @faults = sprintf('%s:%d:%d:kill', one_of(qw(app.step app.mid app.inflight)), my $first = int(rand(4)),
            2 + rand(34));
        my $next = ($first + 1 + int(rand(3))) % 4; # dies while the ranks restore
        push(@faults, "win.back:$next:1:kill") if $i % 5 == 2;
        push(@faults, "win.join:$next:1:kill") if $i % 5 == 3;
        my $fault = join(',', @faults);
        my $j = logged($p, env => $env, fault => $fault, spares => 2);
        is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "@{[ scalar @faults ]} 0 $want",
            title($p) . ": $fault") or diag(substr($j->{log}, 0, 3000));
    }
    next if !all_cases() && $p->{args}[1] eq 'halo';
    # set-up has filled the memory, and there is no set: the job begins anew
    my $fault = sprintf('app.filled:%d:1:kill', rand(4));
    my $j = logged($p, env => $env, fault => $fault, run => ['--log']);
    like($j->{log}, qr/MPI_Win_allocate_shared cannot be repaired before the first set/, '... no repair before the first set');
    is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "1 0 $want", title($p) . ": $fault")
        or diag(substr($j->{log}, 0, 3000));
}
{
    my $p = shared('halo');
    my $env = { %$all, FTKIT_CHECKPOINT_PERIOD => '5 calls' };
    my $want = calm($p);

    # the loop makes the memory before the first set, and a rank dies before this set
    for my $rank ((0, 1 + int(rand(3)))[victims(2, 1)]) {
        my $fault = "app.filled:$rank:1:kill";
        my $j = logged(shared('early'), env => $env, fault => $fault, run => ['--log']);
        like($j->{log}, qr/MPI_Win_allocate_shared cannot be repaired before the first set/,
            "shared memory of the loop before the first set: $fault");
        unlike($j->{log}, qr/no failure of a rank explains it/, '... with this text alone');
        is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "1 0 $want", '... the job begins anew')
            or diag(substr($j->{log}, 0, 3000));
    }

    # the loop makes the memory behind the first set: no set has it, and the first set stays the line
    for my $how (qw(inside later)) {
        for my $step (1 + int(rand(3)), 8 + int(rand(28))) {
            next if !selected(2, $how eq 'later', $step > 7);
            my $fault = sprintf('app.mid:%d:%d:kill', rand(4), $step);
            my $j = logged(shared($how), env => $env, fault => $fault);
            is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "1 0 $want",
                "shared -m $how: memory of the loop is made anew: $fault") or diag(substr($j->{log}, 0, 3000));
            like($j->{log}, qr/a set cannot have the window: its shared memory was made inside the loop/,
                '... and the sets are refused') if $step > 7;
        }
    }

    # a window of one rank: no other rank has its memory
    for my $how (qw(alone)) {
        for my $i (1 .. (all_cases() ? 25 : 1)) {
            my $fault = sprintf('%s:%d:%d:kill', one_of(qw(app.step app.mid app.inflight)), rand(4), 2 + rand(34));
            my $j = logged(shared($how), env => $env, fault => $fault);
            is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "1 0 $want", "shared -m $how: $fault")
                or diag(substr($j->{log}, 0, 3000));
        }
    }

    # loops that wait for a value in shared memory
    for my $i (1 .. (all_cases() ? 25 : 1)) {
        my $fault = sprintf('%s:%d:%d:kill', one_of(qw(app.step app.mid app.inflight)), $i == 1 ? 0 : rand(4), 2 + rand(34));
        my $j = logged(shared('flag'), env => $env, fault => $fault);
        is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "1 0 $want", "shared -m flag: $fault")
            or diag(substr($j->{log}, 0, 3000));
    }

    # windows that a rollback takes away: the program frees the handles, and the memory is gone
    for my $fault ('app.mid:1:13:kill', 'app.inflight:2:18:kill,win.join:0:1:kill') {
        my $j = logged(shared('each'), env => $env, fault => $fault, spares => 2);
        my $n = () = $fault =~ /kill/g;
        is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "$n 0 $want",
            "shared -m each: no memory is left behind: $fault") or diag(substr($j->{log}, 0, 3000));
    }

    # rank 0 dies while it makes a window: another rank finds no memory (at message 61, most times)
    for my $message (all_cases() ? 60 .. 62 : 61) {
        my $fault = "win.open:3:*:late,log.send:0:$message:kill";
        my $j = logged(shared('each'), env => $env, fault => $fault);
        is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "1 0 $want", "shared -m each: $fault")
            or diag(substr($j->{log}, 0, 3000));
        unlike($j->{log}, qr/cannot share memory with rank 0/, '... is a failure, and no error of the program');
    }

    my $j = logged($p, env => $env, fault => 'memfd.reserve:0:1:EINTR', spares => 0);
    is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "1 0 $want",
        'shared memory: a signal comes while it is reserved') or diag(substr($j->{log}, 0, 3000));
    $j = logged($p, env => $env, fault => 'memfd.reserve:0:1:ENOSPC', spares => 0);
    my $each = () = $j->{log} =~ /rank 0 of the communicator cannot share memory with rank 0: No space left on device/g;
    ok($j->{rc} != 0 && $each == 4, '... no room is an error of all ranks') or diag(substr($j->{log}, 0, 3000));

    unlike($j->{log}, qr/on one node/, '... and says nothing of nodes');
    for ([ 'ENOENT', qr/No such file or directory \(all ranks of the communicator have to be on one node\)/ ],
        [ 'EACCES', qr/Permission denied \(a process may not open files of another one in \/proc\/PID\/fd\)/ ])
    {
        my ($why, $text) = @$_;
        $j = logged($p, env => $env, fault => "win.open:2:1:$why", spares => 0);
        ok($j->{rc} != 0 && $j->{log} =~ /rank 2 of the communicator cannot share memory with rank 0: $text/,
            "shared memory that a rank cannot open: $why") or diag(substr($j->{log}, 0, 3000));
    }
    $j = logged($p, env => $env, fault => 'app.mid:1:13:kill,win.private:1:1:ENOMEM@1', spares => 1);
    ok($j->{rc} != 0 && $j->{log} =~ /rank 1: cannot make the memory of MPI_Win_allocate_shared in the replay of set-up: Cannot allocate memory/,
        'shared memory: a replacement without memory ends the job') or diag("rc $j->{rc} ", substr($j->{log}, 0, 3000));
    unlike($j->{log}, qr/no failure of a rank explains it/, '... with this text alone');
}
{
    my $p = shared('halo');
    my $files = { %$all, FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
        FTKIT_LEVEL_HDF5_EVERY => '1 set', FTKIT_CHECKPOINT_PERIOD => '5 calls' };
    my $want = calm($p);
    my $j = logged($p, env => { %$files, FTKIT_RECOVER_SUPPLY => 'end' }, run => ['--log'], spares => 0,
        fault => 'app.mid:1:18:kill');
    like($j->{log}, qr/restored set \d+ from files/, 'shared memory: a job goes on from files');
    is("$j->{rc} $j->{result}", "0 $want", '... with the memory of all ranks') or diag(substr($j->{log}, 0, 3000));

    # at a start one rank cannot restore: no rank waits for it
    my $gone = 'app.mid:1:18:kill';
    $j = logged($p, env => { %$files, FTKIT_RECOVER_SUPPLY => 'end' }, run => ['--log'], spares => 0,
        fault => "$gone,restore.corrupt:2:1:EIO\@100");
    is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "2 0 $want", '... and in the second try')
        or diag(substr($j->{log}, 0, 3000));
    $j = logged($p, env => { %$files, FTKIT_RECOVER_SUPPLY => 'end' }, run => ['--log'], spares => 0,
        fault => "$gone,win.join:2:1:ENOMEM\@100");
    is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "2 0 $want", '... and in the next start')
        or diag(substr($j->{log}, 0, 3000));

    # memory of the loop, and a start from files
    $j = logged(shared('later'), env => { %$files, FTKIT_RECOVER_SUPPLY => 'end' }, run => ['--log'], spares => 0,
        fault => 'app.mid:2:18:kill');
    is("@{[ scalar @{ $j->{faults} } ]} $j->{rc} $j->{result}", "1 0 $want",
        'shared -m later: a job makes its memory anew from files') or diag(substr($j->{log}, 0, 3000));
    $j = logged(shared('gone'), env => { %$files, FTKIT_RECOVER_SUPPLY => 'end' }, run => ['--log'], spares => 0,
        fault => 'app.mid:2:18:kill');
    ok($j->{rc} != 0 && $j->{log} =~ /the set has a window of MPI_Win_allocate_shared that this process does not have/,
        'shared -m gone: the memory of a set has a window') or diag("rc $j->{rc} ", substr($j->{log}, 0, 3000));
    is(memory_left(), 0, 'no process has the memory any more');
}

# ---- memory that ranks of a node reach without messages

sub direct {
    my ($how) = @_;
    my $steps = $how eq 'work' ? 8 : 40;
    return { name => 'direct', steps => $steps, args => [ '-m', $how, '-n', $steps ] };
}

# How many operations of a job needed no message, of all ranks or those that the pattern has.
sub direct_in {
    my ($trace, $who) = @_;
    $who //= qr/rank \d+ incarnation \d+/;
    my $n = () = slurp($trace) =~ /^win\.direct $who:/mg;
    unlink($trace) or die "$trace: $!";
    return $n;
}

{
    my $env = { %$all, FTKIT_CHECKPOINT_PERIOD => '5 calls' };
    my $trace = scratch() . '/trace';
    my %want; # the results by messages
    my @ways = map { my $kind = $_; map {"$kind$_"} qw(fence pscw locks), $kind eq '' ? 'spin' : () } '', 'made-', 'shared-';
    for my $way (0 .. $#ways) {
        my $p = direct($ways[$way]);
        my $j = basis(sub { logged($p, spares => 0, env => $env, fault => 'win.file:*:*:EIO') });
        my $want = $want{ $ways[$way] } = $j->{result};
        like($want, qr/^OK step 40 hash \w+ 0 wrong/, title($p) . ', by messages') or diag($j->{log});
        my $late = 'app.compute:*:*:late';
        my @behind = $p->{args}[1] =~ /fence|pscw/ ? 'win.sent:1:*:late' : (); # it applies late
        my @more = ('', $late, 'win.map:1:*:EIO', 'win.map:2:1:EIO', 'win.offer:2:*:EIO', @behind);
        push(@more, 'win.alloc:2:*:EIO') if $ways[$way] =~ /^made-/;
        my $is_shared = $ways[$way] =~ /^shared-/; # no repair before the first set
        for my $more (map { $more[$_] } grep { selected(3, $way, $_) } 0 .. $#more) {
            my $k = logged($p, spares => 0, env => { %$env, FTKIT_FAULT_TRACE => $trace },
                $more ? (fault => $more) : ());
            is("$k->{rc} $k->{result}", "0 $want", title($p) . ", undisturbed: $more") or diag(substr($k->{log}, 0, 3000));
            next if !-e $trace; # the job was not chosen
            if ($ways[$way] =~ /fence/ && $more !~ /win\.(?:map|offer|alloc)/) {
                like(slurp($trace), qr/^win\.meet rank 3 /m, '... with fences that have no message');
            }
            cmp_ok(direct_in($trace), '>', 0, '... with direct operations');
        }
        for my $i (grep { selected(3, $way, $_) } 1 .. (all_cases() ? 24 : 4)) {
            my @nodes = $i % 4 == 3 ? (FTKIT_TOPOLOGY_RANKS_PER_NODE => 2) : ();
            # a rank that is not in its epoch yet gets messages: so few operations of a fence may be direct
            my ($how, $rank) = ($p->{args}[1], int(rand(4)));
            my $point = one_of(qw(app.step app.mid win.direct win.direct), $how =~ /fence$/ ? 'win.meet' : ());
            my $fault = kill_at($point, $rank, $point =~ /direct|meet/ && $how !~ /locks$/ ? 6 : 35, 35);
            $fault =~ s/^(app\.\w+:\d):1:/$1:2:/ if $is_shared;
            my $second = $i % 4 == 2 ? sprintf(',app.mid:%d:%d:kill', ($rank + 2) % 4, 1 + rand(35)) : '';
            my $k = logged($p, env => { %$env, @nodes }, spares => 2,
                fault => "$fault$second" . ($i % 2 ? ",$late" : ''));
            my $n = $second ? 2 : 1;
            is("@{[ scalar @{ $k->{faults} } ]} $k->{rc} $k->{result}", "$n 0 $want",
                title($p) . (@nodes ? ', two nodes' : '') . ": $fault$second") or diag(substr($k->{log}, 0, 3000));
        }
    }
    is(memory_left(), 0, 'direct: no process has the memory any more');
    for my $way (grep {/-/} @ways) {
        is($want{$way}, $want{ $way =~ s/^\w+-//r }, "$way: the same result in other memory");
    }

    # a new process has direct operations, too
    my ($p, $k);
    for my $way (qw(locks made-locks shared-locks)) {
        $p = direct($way);
        $k = logged($p, env => { %$env, FTKIT_FAULT_TRACE => $trace }, fault => 'app.mid:2:18:kill');
        is("@{[ scalar @{ $k->{faults} } ]} $k->{rc} $k->{result}", "1 0 $want{$way}", title($p) . ': rank 2 is lost')
            or diag(substr($k->{log}, 0, 3000));
        cmp_ok(direct_in($trace, qr/rank 2 incarnation [1-9]\d*/), '>', 0, '... and its new process has direct operations')
            if -e $trace;
    }

    # before the first set: a new process gets the operations of the others from the log
    for my $way (grep { all_cases() ? !/^shared-/ : /^(?:fence|made-locks)$/ } @ways) {
        my $fault = sprintf('app.greeted:%d:1:kill', rand(4));
        $p = direct($way);
        $k = logged($p, env => $env, fault => $fault);
        is("@{[ scalar @{ $k->{faults} } ]} $k->{rc} $k->{result}", "1 0 $want{$way}", title($p) . ": $fault")
            or diag(substr($k->{log}, 0, 3000));
    }

    # a large window of which the program uses little; a restore would write all of it
    $p = direct('large');
    $k = logged($p, spares => 0, env => $env);
    like("$k->{rc} $k->{result}", qr/^0 OK step 40 hash \w+ 0 wrong/, title($p) . ': takes little memory')
        or diag(substr($k->{log}, 0, 3000));

    # on two nodes rank 0 reaches rank 1, and rank 2 of the other node does not
    $p = direct('spin');
    $k = logged($p, spares => 0, env => { %$env, FTKIT_FAULT_TRACE => $trace, FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 });
    if (-e $trace) {
        my $text = slurp($trace);
        like($text, qr/^win\.direct rank 0 /m, title($p) . ', two nodes: direct operations in a node');
        unlike($text, qr/^win\.direct rank 2 /m, '... and none between nodes');
        unlink($trace) or die "$trace: $!";
    }

    # a window of the loop that a new process has made from its recipe: the job ends before the next window
    my $loop = { name => 'winloop', steps => 19, args => [ '-m', 'locks', '-n', 19 ], env => $all };
    my $calm = basis(sub { logged($loop, spares => 0, env => $env) });
    $k = logged($loop, env => { %$env, FTKIT_FAULT_TRACE => $trace }, fault => 'app.mid:2:17:kill');
    is("@{[ scalar @{ $k->{faults} } ]} $k->{rc} $k->{result}", "1 0 $calm->{result}", title($loop) . ': rank 2 is lost')
        or diag(substr($k->{log}, 0, 3000));
    cmp_ok(direct_in($trace, qr/rank 2 incarnation [1-9]\d*/), '>', 0, '... and its window of the loop has direct operations')
        if -e $trace;

    # each ticket goes to one rank: also while a process that is lost has the word
    $p = direct('tickets');
    my $file = scratch() . '/tickets';
    for my $i (0 .. (all_cases() ? 24 : 1)) {
        my $rank = 1 + int(rand(3));
        my $fault = $i ? sprintf(',win.word:%d:%d:kill,app.mid:%d:35:kill', $rank, 20 + rand(60), $rank) : '';
        $k = logged($p, env => { %$env, TICKETS => $file }, fault => "win.combine:*:*:late$fault");
        my $kills = $i ? 1 : 0;
        like("@{[ scalar @{ $k->{faults} } ]} $k->{rc} $k->{result}", qr/^$kills 0 OK step 40 hash \w+ 0 wrong/,
            title($p) . ": $fault") or diag(substr($k->{log}, 0, 3000));
        next if !-e $file; # the job was not chosen
        my %times;
        $times{$_}++ for split(/\n/, slurp($file));
        is(scalar(keys %times), 4 * 40 * 4, '... all tickets are taken');
        is(join(q( ), grep { $times{$_} > 1 + $kills } sort keys %times), '', '... by one rank before and after the kill');
        unlink($file) or die "$file: $!";
    }

    # a rank that combines elements is lost: the others must not wait for its word
    $p = direct('locks');
    for my $i (1 .. (all_cases() ? 24 : 1)) {
        my $fault = sprintf('win.word:%d:%d:kill', rand(4), 200 + rand(3000));
        $k = logged($p, env => $env, fault => $fault);
        is("@{[ scalar @{ $k->{faults} } ]} $k->{rc} $k->{result}", "1 0 $want{locks}", title($p) . ": $fault")
            or diag(substr($k->{log}, 0, 3000));
    }

    # a rank that another one waits for is lost: few calls of the other one find out
    for my $way (qw(spin local work)) {
        $p = direct($way);
        my $want = $want{$way} // basis(sub { logged($p, spares => 0, env => $env)->{result} });
        like($want, qr/^OK step \d+ hash \w+ 0 wrong/, title($p) . ', undisturbed');
        for my $i (1 .. (all_cases() ? 24 : 1)) {
            my $fault = sprintf('app.inflight:2:%d:kill', 3 + rand($p->{steps} - 3));
            $k = logged($p, env => $env, fault => $fault);
            is("@{[ scalar @{ $k->{faults} } ]} $k->{rc} $k->{result}", "1 0 $want", title($p) . ": $fault")
                or diag(substr($k->{log}, 0, 3000));
        }
    }

    # a fence of a step has an error at one rank alone: this rank must not come too early later
    $p = direct('fence');
    $k = logged($p, spares => 0, env => $env, fault => 'win.results:1:8:ENOMEM,app.compute:*:*:late');
    is("@{[ scalar @{ $k->{faults} } ]} $k->{rc} $k->{result}", "1 0 $want{fence}", title($p) . ': an error of a fence')
        or diag(substr($k->{log}, 0, 3000));

    # a fence that is wrong at one rank alone: it does not begin there, and the others count it
    $p = direct('wrong');
    for my $fault ('', sprintf('app.mid:%d:%d:kill', rand(4), 3 + rand(35))) {
        $k = logged($p, env => $env, fault => $fault);
        my $kills = $fault ? 1 : 0;
        like("@{[ scalar @{ $k->{faults} } ]} $k->{rc} $k->{result}", qr/^$kills 0 OK step 40 hash \w+ 0 wrong/,
            title($p) . ", $fault") or diag(substr($k->{log}, 0, 3000));
    }

    # operations that are not complete
    for $p (map { direct($_) } qw(open begun)) {
        $k = logged($p, spares => 0, env => $env);
        ok($k->{rc} != 0 && $k->{log} =~ /a set cannot have the window.*: operations are not complete/,
            title($p) . ': refused') or diag("rc $k->{rc} ", substr($k->{log}, 0, 3000));
    }
}

# ---- windows of the MPI: a warning says what a failure does there

for my $how (qw(fence pscw locks before own)) {
    my $j = checks('outside', 3, 1, $how);
    my $n = () = $j->{log} =~ /warning: context default: rank 0: a window is not ftkit's, so its calls go to the MPI: a failure inside its calls is not repaired/g;
    is($n, $how eq 'own' ? 0 : 1, "... $how: " . ($how eq 'own' ? 'no warning' : 'one warning'))
        or diag(substr($j->{log}, 0, 3000));
}

# ---- what cannot be done says why

my $apart = qr/checkpoint\.line = apart: with locks and shared memory use together/;
my $only = qr/with shared memory use node, causal or pessimistic/;
my $refused = 0;
for my $case ([ { FTKIT_LOG_TEAM_SIZE => 2 }, qr/several teams: with locks and shared memory use log\.teams = all/ ],
    [ { %$all, FTKIT_LOG_TEAM_LIST => '0-1 2-3' }, qr/several teams: .* and no other key of teams/ ],
    [ { %$all, FTKIT_CHECKPOINT_LINE => 'apart' }, $apart ],
    [ $all, qr/replicas: with locks and shared memory use replicas\.count = 1/, '--no-relaunch', '--replicas', 2 ],
    [ { %$all, FTKIT_LOG_DETERMINANTS => 'refuse' }, qr/log\.determinants = refuse: $only/ ],
    [ { %$all, FTKIT_LOG_DETERMINANTS => 'relaxed' }, qr/log\.determinants = relaxed: $only/ ])
{
    my ($env, undef, @run) = @$case;
    $refused++;
    for ([ $passive[0], 'MPI_Win_lock_all' ], [ shared('halo'), 'MPI_Win_allocate_shared' ]) {
        my ($p, $call) = @$_;
        next if $env->{FTKIT_LOG_DETERMINANTS} ? $p == $passive[0] : !selected(2, $refused, $p == $passive[0]);
        my $j = logged($p, spares => 0, env => $env, run => \@run);
        ok($j->{rc} != 0 && $j->{log} =~ /$call is not possible .* and $case->[1]/,
            "$call: refused: $case->[1]") or diag($j->{log});
    }
}

of_all_jobs(sub { is(left_behind(), '', 'no job has left a file') });
done_testing();
