#!/usr/bin/perl
# Requests under way at a set: those of every kind come back with a restored rank, and what a set
# cannot have is refused.
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
srand(18);

# ---- each kind of request, with a rank killed

for my $p (ahead_programs()) {
    like(undisturbed($p, 4), qr/^OK step $p->{steps} hash \w+ 0 wrong/, title($p) . ', undisturbed');
    for my $team (1, 2) {
        my $env = { FTKIT_LOG_TEAM_SIZE => $team };
        for my $i (1 .. 2) {
            my $rank = int(rand(4));
            my $fault = fault_of($p, $rank);
            next if !selected(2, $i);
            my $j = logged($p, env => $env, fault => $fault);
            is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault),
                '', "teams of $team: $fault");
        }
    }
}

# ---- a set at each call, so that requests are under way at several sets; two failures

for my $p (grep { "@{$_->{args}}" =~ /long|collective|all/ } ahead_programs()) {
    for my $period (1, 2) {
        my $env = { FTKIT_LOG_TEAM_SIZE => $period, FTKIT_CHECKPOINT_PERIOD => "$period calls" };
        my ($first, $second) = map { int(rand(4)) } 1, 2;
        my $at = 4 + int(rand(20));
        my $fault = "app.mid:$first:$at:kill,app.mid:$second:" . ($at + 2 + int(rand(6))) . ':kill';
        my $j = logged($p, spares => 2, env => $env, fault => $fault);
        is(verdict($p, $j, any => 1), '', title($p) . ", a set in $period calls: $fault");
    }
}

# ---- all kinds at once, killed at each step of a set and of a repair

my ($all) = grep { "@{$_->{args}}" =~ /all/ } ahead_programs();
my $points = 0;
for my $point (qw(ckpt.begin ckpt.sized ckpt.packed ckpt.sealed ckpt.voted ckpt.committed
    log.drained req.write))
{
    $points++;
    for my $team (1, 2) {
        my $env = { FTKIT_LOG_TEAM_SIZE => $team };
        my $rank = int(rand(4));
        my $fault = "$point:$rank:" . (2 + int(rand(6))) . ':kill';
        next if !selected(2, $points, $team);
        my $j = logged($all, env => $env, fault => $fault);
        is(verdict($all, $j, env => $env, killed => [$rank], faults => 1, what => $fault),
            '', "teams of $team: $fault");
    }
}
for my $point (qw(log.settle log.settled log.marks log.install req.read restore.corrupt)) {
    my $env = { FTKIT_LOG_TEAM_SIZE => 2 };
    my ($first, $second) = (int(rand(2)), 2 + int(rand(2)));
    my $victim = $point =~ /req|restore/ ? 1 - $first : $second;
    my $fault = "app.mid:$first:17:kill,$point:$victim:1:kill";
    my $j = logged($all, spares => 2, env => $env, fault => $fault);
    is(verdict($all, $j, any => 1), '', "a second failure: $fault");
}

# ---- the only rank that has seen a commit sends to a receive that is under way there, and dies

my $variants = 0;
for my $variant (qw(halo all)) {
    $variants++;
    my ($p) = grep { "@{$_->{args}}" =~ /$variant/ } ahead_programs();
    for my $team (grep { selected(2, $variants, $_) } 1, 2) {
        my $env = { FTKIT_LOG_TEAM_SIZE => $team };
        my $fault = join(',', map({"ckpt.unseen:$_:2:EIO"} 1 .. 3), 'app.sent:0:2:kill4');
        my $j = logged($p, env => $env, fault => $fault);
        is(verdict($p, $j, env => $env, killed => [0], faults => 4, what => $fault), '',
            title($p) . ", teams of $team: the commit is lost");
        like($j->{log}, qr/back to set 1$/m, '... and so is the set');
    }
}

# ---- a set is given up; a rank that has not seen this gets messages of ranks that have

for my $variant (qw(halo collective all)) {
    $variants++;
    my ($p) = grep { "@{$_->{args}}" =~ /$variant/ } ahead_programs();
    for my $team (grep { selected(2, $variants, $_) } 1, 2) {
        my $env = { FTKIT_LOG_TEAM_SIZE => $team, FTKIT_CHECKPOINT_PERIOD => '5 calls' };
        my $fault = 'req.write:3:2:EIO,ckpt.unheard:1:2:EIO,app.step:3:6:kill3';
        my $j = logged($p, env => $env, fault => $fault);
        is(verdict($p, $j, any => 1, faults => 3, what => $fault), '',
            title($p) . ", teams of $team: a set is given up");
    }
}

# ---- the only ranks that know the outcome of a set send, and die: one of them, then in the repair the
# other one, before or after it has shared the outcome

my @given_up = (2, 'req.write:3:2:EIO,app.step:3:6:kill4', 5, FTKIT_CHECKPOINT_PERIOD => '5 calls');
for my $known ([ 'log.marks', 'ckpt.unseen', 2, 'app.sent:3:2:kill3', 4 ],
    [ 'log.marks', 'ckpt.unheard', @given_up ],
    [ 'repair.built', 'ckpt.unseen', 2, 'app.sent:3:2:kill3', 4 ],
    [ 'repair.restored', 'ckpt.unseen', 2, 'app.sent:3:2:kill3', 4 ])
{
    my ($second, $unknown, $nth, $first, $faults, @env) = @$known;
    my $visit = $second eq 'repair.restored' ? 1 : 2;
    my $fault = "$unknown:1:$nth:EIO,$unknown:2:$nth:EIO,$first,$second:0:$visit:kill";
    my $j = logged($all, spares => 2, env => { FTKIT_LOG_TEAM_SIZE => 1, @env }, fault => $fault);
    is(verdict($all, $j, any => 1, faults => $faults, what => $fault), '',
        "an attempt fails when rank 0 alone knows the outcome: $unknown $nth, $second");
}

# ---- the same at the first set of a job, with nothing under way there, or with requests: the ranks that
# have not seen the commit know no set at all

my @first = ('app.inflight:3:5:kill3');
my @later = ('app.sent:3:2:kill4', 'req.write:3:1:EIO'); # the set of the first call fails
for my $known ([ 'log.marks', 2, @first ], [ 'log.marks', 2, @later ], [ 'repair.built', 2, @later ],
    [ 'repair.restored', 1, @later ])
{
    my ($second, $visit, @others) = @$known;
    my $fault = join(',', map({"ckpt.unseen:$_:1:EIO"} 1, 2), @others, "$second:0:$visit:kill");
    my $j = logged($all, spares => 2, env => { FTKIT_LOG_TEAM_SIZE => 1 }, fault => $fault);
    is(verdict($all, $j, any => 1, faults => 3 + @others, what => $fault), '',
        "an attempt fails when rank 0 alone knows the first set: $others[0], $second");
}

# ---- requests that set-up has begun

my $begun = { name => 'begun', steps => 20, messages => 80 };
like(undisturbed($begun, 4), qr/^OK step 20 hash \w+ 0 wrong/, 'begun, undisturbed');
for my $team (1, 2) {
    my $env = { FTKIT_LOG_TEAM_SIZE => $team, FTKIT_CHECKPOINT_PERIOD => '3 calls' };
    my @begun = ('app.mid:2:1:kill', 'app.inflight:0:1:kill', 'app.inflight:3:3:kill',
        'app.mid:1:9:kill');
    for my $fault (map { $begun[$_] } grep { selected(2, $team, $_) } 0 .. $#begun) {
        my $j = logged($begun, env => $env, fault => $fault);
        is(verdict($begun, $j, env => $env, killed => [$fault =~ /:(\d)/], faults => 1,
                what => $fault), '', "requests of set-up, teams of $team: $fault");
    }
    my $j = logged($begun, env => { %$env, FTKIT_LEVEL_HDF5_ENABLED => 'true',
            FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_LEVEL_HDF5_EVERY => '1 set',
            FTKIT_RECOVER_SUPPLY => 'end' },
        run => ['--log'], spares => 0, fault => 'app.mid:1:8:kill');
    like($j->{log}, qr/restored set \d+ from files/, "teams of $team: a job goes on from files");
    is(verdict($begun, $j, any => 1), '', '... with requests of set-up');
}

# ---- no memory, on one rank

for my $fault ('req.write:2:3:EIO') {
    my $j = logged($all, spares => 0, fault => $fault);
    is(verdict($all, $j, any => 1), '', "$fault: the job goes on without this set");
    is(scalar(@{ $j->{faults} }), 1, '... which has failed');
}

# ---- a whole job goes on from files

for my $team (1, 2) {
    my $period = $team == 1 ? '1 calls' : '5 calls';
    my %files = (FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
        FTKIT_LEVEL_HDF5_EVERY => '1 set', FTKIT_LOG_TEAM_SIZE => $team,
        FTKIT_CHECKPOINT_PERIOD => $period, FTKIT_RECOVER_SUPPLY => 'end'); # the first death ends the job
    my $j = logged($all, env => \%files, run => ['--log'], spares => 0, fault => 'app.mid:*:23:kill');
    like($j->{log}, qr/restored set \d+ from files/, "teams of $team: a job goes on from files");
    is(verdict($all, $j, any => 1), '', '... with its requests');
}

# ---- what a set cannot have

checks('unsaved', 2, $_) for 1, 2;

done_testing();
