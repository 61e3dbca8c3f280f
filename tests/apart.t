#!/usr/bin/perl
# checkpoint.line = apart: each rank cuts at its own next call of ftkit_checkpoint(), with
# messages that cross the line and with losses at every step.  tests/long/apart.t has more of the
# same; with --all there is a job for each program, and each job has a script of its own.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitLog;
use FtkitTest;
use List::Util 'min';
use Test::More;

ulfm_only();
asleep_in_waits();
srand(19);

my %apart = (FTKIT_CHECKPOINT_LINE => 'apart');

# The figures that the ranks of a job have left: late and early messages, determinants.
sub figures {
    my ($base) = @_;
    my @sum = (0, 0, 0);
    for my $file (glob("$base.*")) {
        my @mine = slurp($file) =~ /^apart (\d+) (\d+) (\d+)$/m or next;
        $sum[$_] += $mine[$_] for 0 .. 2;
        unlink($file);
    }
    return @sum;
}

# A script for one of several jobs.
sub script_of {
    my ($seed, @kinds) = @_;
    return script(all_cases() ? $seed : 100 + $seed % 2, @kinds);
}

sub script_with_info {
    my ($seed) = @_;
    my $base = scratch() . "/info$seed";
    my $p = script($seed);
    push(@{ $p->{args} }, '-i', $base);
    return ($p, $base);
}

# ---- programs whose ranks call together: the result is that of lines together

my @some = grep { title($_) =~ /^(?:wavefront|transpose|farm|comms|irregular -m arrival)$/ }
    programs();
push(@some, grep { title($_) =~ /^collect$|^inters$| -m (?:any|probe|cancel|persistent)$/ }
    call_programs());
push(@some, grep { title($_) =~ / -m (?:halo|collective|wildcard|all)$/ } ahead_programs());
my $programs = 0;
for my $p (@some) {
    my $team = one_of(1, 2, 4);
    my $env = { %apart, FTKIT_LOG_TEAM_SIZE => $team, FTKIT_CHECKPOINT_PERIOD => '3 calls' };
    my $rank = int(rand(4));
    my $fault = rand() < 0.5 ? fault_of($p, $rank) : apart_fault($rank, one_of(qw(all tail commit)));
    next if !selected(3, $programs++);
    my $j = logged($p, env => $env, fault => $fault);
    is(verdict($p, $j, env => $env, killed => [$rank], what => $fault), '',
        title($p) . ", teams of $team: $fault");
}

# ---- ranks that call at different places: a kill at each step of a line

# no send is freed that is under way to the lost rank: newer releases of Open MPI end the process for that
my $seed = 100; # tests/long/apart.t has hundreds of these
for my $point (qw(initiate cut counts all late early tail vote voted commit)) {
    for my $rank (one_of(0, 3)) {
        my $p = script_of(++$seed);
        my $team = one_of(1, 2, 4);
        my $fault = apart_fault($rank, $point);
        my $j = logged($p, spares => 2, fault => $fault, env => { FTKIT_LOG_TEAM_SIZE => $team,
                LD_PRELOAD => build() . '/freed.so',
                FTKIT_CHECKPOINT_PERIOD => one_of('1 calls', '3 calls') });
        my ($freed) = $j->{log} =~ /^(FREED .*)/m;
        is(verdict($p, $j, any => 1, what => $fault) . ($freed // ''), '',
            title($p) . ", teams of $team: $fault");
    }
}

# ---- messages cross the line in both directions, and choices are in sets

my @sum = (0, 0, 0);
for my $i (1 .. (all_cases() ? 6 : 2)) {
    my ($p, $base) = script_with_info(300 + $i);
    my $j = logged($p, env => { FTKIT_LOG_TEAM_SIZE => 1, FTKIT_CHECKPOINT_PERIOD => '1 calls' });
    like($j->{result}, qr/^OK step 30 hash \w+ 0 wrong/, "seed " . (300 + $i) . ', undisturbed')
        or diag(substr($j->{log}, 0, 2000));
    my @mine = figures($base);
    $sum[$_] += $mine[$_] for 0 .. 2;
}
note("$sum[0] late and $sum[1] early messages, $sum[2] determinants in sets");
cmp_ok($sum[0], '>', 0, 'some messages were late');
cmp_ok($sum[1], '>', 0, 'some messages were early');
cmp_ok($sum[2], '>', 0, 'some choices were in sets');

# ---- nobody waits: a rank sleeps before its call until the others have made 80 steps

{
    my $base = scratch() . '/uneven';
    my $p = { name => 'uneven', steps => 210, env => {%apart}, args => [ '-m', 'apart' ] };
    my $asleep = { %$p, args => [ '-m', 'sleep', '-i', $base ] };
    my $j = logged($asleep, spares => 0, env => { FTKIT_LOG_TEAM_SIZE => 1,
            FTKIT_CHECKPOINT_PERIOD => '3 calls' });
    is($j->{result}, undisturbed($p, 4), 'a rank that sleeps: the result')
        or diag(substr($j->{log}, 0, 2000));
    # the ranks before it in the pipeline; a rank that waited would make a period of 3 steps
    for my $rank (0, 1) {
        my ($steps, $cut) = slurp("$base.$rank") =~ /^longest \S+ steps (\d+) .* cut (\d+)/m;
        cmp_ok($steps // 0, '>=', 60, "rank $rank makes its steps meanwhile");
        cmp_ok($cut // 0, '>=', 60, "... and line_open of ftkit_query is the set that is open");
    }
    like(slurp("$base.2"), qr/^longest .* waits 1 gap/m,
        'line_waits_here says that the set waits for the rank that has slept');
}

# ---- the other levels: no rank waits for another one there either

my %levels = (FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 set',
    FTKIT_LEVEL_LOCAL_SCHEME => 'buddy', FTKIT_LEVEL_LOCAL_EVERY => '1 set',
    FTKIT_LEVEL_LOCAL_PLACE => 'shared');
{
    my $p = { name => 'uneven', steps => 210, env => {%apart}, args => [ '-m', 'apart' ] };
    my @went; # for each stop, the ranks that have made 20 steps meanwhile
    my $steps = sub { return scalar(() = slurp("$_[0]/watch.$_[1]") =~ /\n/g) };
    my $j = logged($p, spares => 0,
        env => { %levels, FTKIT_LOG_TEAM_SIZE => 1, FTKIT_CHECKPOINT_PERIOD => '3 calls' },
        fault => 'apart.voted:3:1:stop,apart.voted:3:3:stop', while => sub {
            my ($work) = @_;
            for my $n (1, 2) {
                my $end = time() + 30 * pace();
                select(undef, undef, undef, 0.005)
                    until (() = slurp("$work/faults") =~ /: stop$/mg) >= $n || time() > $end;
                my @before = map { $steps->($work, $_) } 0 .. 2;
                my @go;
                do {
                    select(undef, undef, undef, 0.005);
                    @go = grep { $steps->($work, $_) >= min($p->{steps}, $before[$_] + 20) } 0 .. 2;
                } until (@go == 3 || time() > $end);
                push(@went, "@go");
                kill('CONT', process_of($work, 3));
            }
        });
    is($j->{result}, undisturbed($p, 4), 'a rank that stands still after a commit: the result')
        or diag(substr($j->{log}, 0, 2000));
    is(join(', ', @went), '0 1 2, 0 1 2', '... no other rank does');
}
# a kill in each step of these levels
my $i = 0;
for my $point (qw(flush.submit flush.announced flush.submitted local.begin local.sized
    local.copied local.sealed local.voted))
{
    for my $rank (one_of(0, 2)) {
        my $p = script_of(600 + ++$i);
        my $scheme = one_of(qw(own buddy xor));
        my $fault = sprintf('%s:%d:%d:kill', $point, $rank, $point =~ /^flush/ ? 1 : 1 + rand(2));
        my $j = logged($p, spares => 2, fault => $fault, env => { %levels,
                FTKIT_LEVEL_LOCAL_SCHEME => $scheme, FTKIT_LEVEL_MEMORY_SCHEME => one_of(qw(buddy xor)),
                FTKIT_LOG_TEAM_SIZE => one_of(1, 2, 4), FTKIT_CHECKPOINT_PERIOD => '2 calls' });
        is(verdict($p, $j, any => 1, faults => 1, what => $fault), '',
            title($p) . ", level.local by $scheme: $fault");
    }
}
# a rank asks for a durable set while an earlier one is still being written: a second later another
# set goes to the files
my $long = all_cases() ? 1500 : 1000;
for my $fault ('flush.begin:0:1:slow', map {"flush.begin:0:1:slow,$_:kill"}
    (qw(flush.submit:1:2 apart.cut:2:2))[victims(2, 1)])
{
    my $p = { %{ script(650) }, args => [ '-m', 'apart', '-s', 650, '-n', $long ] };
    my $asks = { %$p, args => [ '-m', 'apart,ask', '-s', 650, '-n', $long ] };
    my $j = logged($asks, spares => 2, fault => $fault, env => { %levels,
            FTKIT_CHECKPOINT_PERIOD => '1000 calls', FTKIT_LEVEL_HDF5_EVERY => '1000 sets',
            FTKIT_LOG_TEAM_SIZE => 1 });
    my @written = map { slurp($_) =~ /"event":"durable"/g } glob("$j->{dir}/events/*");
    cmp_ok(scalar(@written), '>=', $fault =~ /kill/ ? 1 : 2, # a kill may end the second flush
        "seed 650, $fault: sets are written because ranks ask");
    is(verdict($p, $j, any => 1, faults => 1 + ($fault =~ tr/,//)), '', '... and the result is right');
}
for my $case ([ 'place.allocate:1:2:ENOSPC', 'no room' ], [ 'place.persist:1:2:EIO', 'no writing' ]) {
    my $p = script_of(640);
    my $j = logged($p, spares => 0, fault => $case->[0], env => { %levels,
            FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '3 calls' });
    is(verdict($p, $j, any => 1, faults => 1), '', "$case->[1] in level.local: the set is in memory");
}

# ---- other calls with a line open, and relaunch from files

for my $i (1 .. 8) { # all ranks call ftkit_wait(): they settle what a set has begun
    my $p = script_of(700 + $i, 'wait');
    my $fault = apart_fault(int(rand(4)));
    my $env = { FTKIT_LOG_TEAM_SIZE => one_of(1, 2, 4), FTKIT_CHECKPOINT_PERIOD => one_of('1 calls', '3 calls') };
    next if !selected(4, $i);
    my $j = logged($p, spares => 2, fault => $fault, env => $env);
    is(verdict($p, $j, any => 1, what => $fault), '', title($p) . ", ftkit_wait: $fault");
}

# ranks without messages: the next set is initiated while a rank repeats calls of ftkit_wait()
for my $rank ((0, 2, 3)[victims(3, 1)]) {
    my $p = { name => 'waits', steps => 100 };
    my $env = { %apart, FTKIT_LOG_TEAM_SIZE => 1, FTKIT_CHECKPOINT_PERIOD => '19 calls' };
    my $fault = sprintf('app.step:%d:%d:kill', $rank, 42 + rand(3));
    my $j = logged($p, env => $env, fault => $fault);
    is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault), '', "waits: $fault");
}

# without determinants there are no stop messages
for my $p (grep { $_->{name} =~ /^(?:wavefront|transpose)$/ } programs()) {
    my $env = { %apart, FTKIT_LOG_TEAM_SIZE => 1, FTKIT_CHECKPOINT_PERIOD => '3 calls',
        FTKIT_LOG_DETERMINANTS => 'refuse' };
    my $fault = fault_of($p, 1);
    my $j = logged($p, env => $env, fault => $fault);
    is(verdict($p, $j, env => $env, killed => [1], what => $fault), '', "$p->{name}, refuse: $fault");
}

my $files = { FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 set',
    FTKIT_CHECKPOINT_PERIOD => '2 calls', FTKIT_LOG_TEAM_SIZE => 2, FTKIT_RECOVER_SUPPLY => 'end' };
for my $i (1 .. 4) {
    my $p = script_of(400 + $i);
    my ($rank, $at) = (int(rand(4)), 150 + int(rand(130)));
    my $later = $i % 2 ? 'false' : 'true';
    next if !selected(2, int($i / 2)); # 1, 4
    my $j = logged($p, env => { %$files, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => $later }, spares => 0,
        run => ['--log'], timeout => 60, fault => "app.op:$rank:$at:kill");
    is(verdict($p, $j, any => 1), '', title($p) . ": background $later, the job is lost");
    next if $later eq 'true'; # the kill may have come before any set was durable
    like($j->{log}, qr/restored set \d+ from files/, '... and the job goes on from files');
}

# ---- a set of a line apart needs a job with lines apart

{
    my $dir = scratch() . '/sets';
    mkdir($dir);
    my $p = script_of(501);
    my $env = { %$files, FTKIT_LEVEL_HDF5_DIRECTORY => $dir,
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' };
    my $j = logged($p, env => $env, spares => 0, fault => 'app.op:1:300:kill');
    isnt($j->{rc}, 0, 'a job is lost');
    for my $other ({ FTKIT_CHECKPOINT_LINE => 'together' },
        { FTKIT_CHECKPOINT_LINE => 'together', FTKIT_LOG_ENABLED => 'false' })
    {
        $j = logged($p, env => { %$env, %$other }, spares => 0);
        isnt($j->{rc}, 0, join(' ', map {"$_=$other->{$_}"} sort keys(%$other)) . ': no start');
        like($j->{log}, qr/set \d+ is of a line apart: .* start with 4 ranks, checkpoint\.line = apart/,
            '... with the reason');
    }
    $j = logged($p, env => $env, spares => 0);
    is(verdict($p, $j, any => 1), '', '... and with lines apart the job goes on');
    like($j->{log}, qr/restored set \d+ from files/, '... from these files');
}

# ---- what cannot be

for my $case ([ { FTKIT_LOG_ENABLED => 'false' }, qr/apart needs log\.enabled/ ],
    [ { FTKIT_LOG_DETERMINANTS => 'relaxed' }, qr/apart needs log\.determinants = node or refuse/ ],
    [ { FTKIT_LOG_DETERMINANTS => 'causal' }, qr/apart needs log\.determinants = node or refuse/ ])
{
    my ($env, $text) = @$case;
    my $j = logged($some[0], spares => 0, env => { %apart, %$env });
    isnt($j->{rc}, 0, join(' ', %$env) . ': refused');
    like($j->{log}, $text, '... with the reason');
}

done_testing();
