#!/usr/bin/perl
# The long campaign of the message log: programs of five styles, teams of every kind, seeded
# kills anywhere: one, one of a team that another follows, two teams at once, in the repair,
# and with files of most or all ranks.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  its length (default 250)
#   FTKIT_TEST_ONLY=...  only programs whose title matches
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
my $seed = $ENV{FTKIT_TEST_SEED} // 7;
my $count = $ENV{FTKIT_TEST_COUNT} // 250;
srand($seed);
diag("FTKIT_TEST_SEED=$seed, $count runs of each kind");

my $only = $ENV{FTKIT_TEST_ONLY} // '.';
my @programs = grep { title($_) =~ /$only/ }
    programs(), ahead_programs(), { name => 'decide', steps => 40, messages => 120 };
my @modes = qw(node node causal pessimistic);

my @teams = (
    { FTKIT_LOG_TEAMS => 'rank' },
    { FTKIT_LOG_TEAM_SIZE => 2 },
    { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 },
    { FTKIT_LOG_TEAM_SIZE => 3 },
    { FTKIT_LOG_TEAM_LIST => '0,2 1,3' },
);
# what memory alone, with one copy, does not stand
my $lost = qr/no\ copy\ or\ parity\ is\ left|before\ the\ first\ set\ was\ written
    |lost\ in\ ftkit_close,\ before\ its\ program\ could\ end/x;
my @loop = qw(app.step app.mid app.inflight ckpt.begin ckpt.sized ckpt.packed ckpt.sealed
    ckpt.voted ckpt.committed log.drained);
my @repair = qw(repair.shrink repair.shrunk repair.census repair.plan repair.build
    repair.split repair.built repair.restore repair.restored repair.agree repair.agreed
    transfer.sized transfer.done recover.begin recover.end log.settle log.settled log.marks
    open.end);

# How often a rank passes a point in a run.
sub turns {
    my ($p, $point, $rank) = @_;
    return $p->{steps} if $point eq 'app.step' || $p->{name} ne 'farm';
    return $p->{steps} * ($rank == 0 ? 15 : 4);
}

# A fault at a random passing of a point in the loop.
sub in_loop {
    my ($p, $rank) = @_;
    return call_fault($p, $rank) if $p->{messages} && rand(3) < 1;
    my $point = one_of(@loop);
    my $most = $point =~ /^(?:ckpt|log)/ ? $p->{steps} / 5 : 0.9 * turns($p, $point, $rank);
    return sprintf('%s:%d:%d:kill', $point, $rank, 1 + rand($most));
}

# One; two, wherever they come; one and some in its repair.
my %kinds = (
    one => sub { my ($p) = @_; return in_loop($p, int(rand(4))) },
    two => sub {
        my ($p) = @_;
        my $r = int(rand(4));
        return join(',', in_loop($p, $r), in_loop($p, ($r + 1 + int(rand(3))) % 4));
    },
    repair => sub {
        my ($p) = @_;
        my @f = in_loop($p, int(rand(4)));
        push(@f, sprintf('%s:%d:%d:kill', one_of(@repair), rand(7), 1 + rand(3)))
            for 1 .. 1 + rand(2);
        return join(',', @f);
    },
    again => sub { # the replacement, while it catches up
        my ($p) = @_;
        my $r = int(rand(4));
        return join(',', in_loop($p, $r), sprintf('%s:%d:%d:kill@1',
                one_of(qw(app.step app.mid app.inflight open.end recover.begin recover.end)),
                $r, 1 + rand(4)));
    },
);

# With files, in the job or with a relaunch: whatever is lost, it ends well.
my %files = (FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 sets');
$kinds{files} = sub {
    my ($p) = @_;
    my $r = int(rand(4));
    my $at = in_loop($p, $r);
    return one_of($at =~ s/:\d:/:*:/r,
        join(',', $at, map { 'repair.census:' . ($r + $_) % 4 . ':1:kill' } 1, 2),
        join(',', $at, in_loop($p, ($r + 1) % 4)));
};

for my $kind (sort keys %kinds) {
    my ($bad, $hits, $ended) = (0, 0, 0);
    for my $i (1 .. $count) {
        my $p = one_of(@programs);
        my $env = { %{ one_of(@teams) }, FTKIT_LEVEL_MEMORY_MAP => 'ring' };
        if ($p->{name} =~ /ahead|decide/) {
            $env->{FTKIT_LOG_DETERMINANTS} = one_of(@modes);
            $env->{FTKIT_CHECKPOINT_PERIOD} = one_of(map {"$_ calls"} 1, 2, 5);
        }
        my $fault = $kinds{$kind}->($p);
        my $with = $kind eq 'files';
        $env = { %$env, %files, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => one_of('true', 'false') } if $with;
        my $j = logged($p, env => $env, fault => $fault, spares => 4, timeout => 60,
            $with ? (run => []) : ());
        my @killed = grep { $_ < 4 } map { /rank (\d+) / ? $1 : () } @{ $j->{faults} };
        $hits += @killed > 0;
        my $what = join(' ', $fault, map {"$_=$env->{$_}"} sort keys %$env);
        my $v = verdict($p, $j, env => $env, killed => \@killed, what => $what,
            any => $with, reason => !$with && @killed > 1 && $lost);
        $bad++ if $v;
        $ended += !defined($v);
    }
    is($bad, 0, "$kind: $count runs, $hits with a failure, $ended ended with a reason");
    cmp_ok($ended, '<', 1 + $count / 4, '... few');
    cmp_ok($hits, '>', $count / 2, '... most of them');
}

done_testing();
