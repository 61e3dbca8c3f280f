#!/usr/bin/perl
# Collectives of a repair that are told success and have got nothing, and deaths at each of them.  With
# --all at more of them, and in the all-gather each process in each of its calls.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use FtkitLog;
use Test::More;

ulfm_only();
asleep_in_waits();
my $seed = $ENV{FTKIT_TEST_SEED} // 20241122;
srand($seed);
diag("FTKIT_TEST_SEED=$seed");
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');

# An all-gather that drops the error of its second half, and a death between the halves.  The
# first call of it is in ftkit_open().  Memory that nobody has written to is no zeros.
for my $victim (0 .. 4) {
    for my $call ($victim == 3 ? 1 : (1, 2)) {
        next if !selected(2, $victim, $call);
        survives("killed inside all-gather $call, rank $victim", program => 'env', spares => 2,
            n => 4, faults => $call, solver => ['-s', 12],
            env => { %memory, FTKIT_HALVES => "$victim:$call", MALLOC_PERTURB_ => 165 },
            command => ['LD_PRELOAD=' . build() . '/halves.so', build() . '/mpi/solver'],
            $call > 1 ? (fault => 'app.mid:' . ($victim < 2 ? 3 : 1) . ':7:kill') : ());
    }
}
# Every collective in turn, in an opening, in a repair and after it, and the votes between: a
# rank is told success and has got nothing (sure.none, sure.comm), or dies before or behind it.
# Which of them comes at which number is told by the fault log; FTKIT_TEST_SURE=all makes all.
my $rounds = $ENV{FTKIT_TEST_SURE} // (all_cases() ? 32 : 8);
my @points = map { my $n = $_; map { [$_->[0], $n, $_->[1]] }
    (['sure.none', 'EIO'], ['sure.none', 'kill'], ['sure.begin', 'kill']) } 1 .. 16;
push @points, map { ['sure.comm', $_, 'EIO'] } 1 .. 6;
my @cases = map { my $p = $_; map { [$_, @$p] } 0 .. 3 } @points;
if ($rounds ne 'all') {
    @cases = map { $cases[rand @cases] } 1 .. $rounds;
}
for my $c (@cases) {
    my ($rank, $point, $nth, $action) = @$c;
    my $other = $rank < 2 ? 2 : 1; # not its buddy
    # in an opening the process that takes the rank of a lost one meets the fault, too
    survives("$point $nth, rank $rank: $action", spares => 3, solver => ['-s', 12],
        env => { %memory, MALLOC_PERTURB_ => 165 }, faults => 2, most => 3,
        fault => "$point:$rank:$nth:$action,app.mid:$other:7:kill");
}

# The same with the log, whose repairs have more of them.
my $p = { name => 'wavefront', steps => 20, args => ['-n', 20] };
for (1 .. ($rounds eq 'all' ? 200 : $rounds / 2)) {
    my ($rank, $nth) = (int(rand(4)), 1 + int(rand(24)));
    my $point = one_of('sure.none', 'sure.none', 'sure.begin', 'sure.comm');
    my $action = $point eq 'sure.begin' ? 'kill' : one_of('EIO', 'EIO', 'kill');
    my $fault = "$point:$rank:$nth:$action,app.mid:" . ($rank < 2 ? 2 : 1) . ':9:kill';
    my $env = { FTKIT_LOG_TEAM_SIZE => 2, MALLOC_PERTURB_ => 165 };
    my $j = logged($p, env => $env, fault => $fault, spares => 3);
    cmp_ok(scalar(@{ $j->{faults} }), '>=', 1, "$fault: came to pass");
    is(verdict($p, $j, env => $env, any => 1, what => $fault), '', "with the log: $fault");
}

# Counts that go to partners only: at a set, and in a repair whose set-up is drained.
for (1 .. ($rounds eq 'all' ? 100 : $rounds / 2)) {
    my ($rank, $nth) = (int(rand(4)), 1 + int(rand(4)));
    my $point = one_of('sparse.begin', 'sparse.message', 'sparse.sent');
    my $action = $point eq 'sparse.message' ? 'EIO' : 'kill';
    my $fault = "$point:$rank:$nth:$action" . (rand() < 0.5 ? ',app.mid:' . ($rank < 2 ? 2 : 1) . ':9:kill' : '');
    my $env = { FTKIT_LOG_TEAM_SIZE => 2, FTKIT_CHECKPOINT_PERIOD => '3 calls' };
    my $j = logged($p, env => $env, fault => $fault, spares => 3);
    cmp_ok(scalar(@{ $j->{faults} }), '>=', 1, "$fault: came to pass");
    is(verdict($p, $j, env => $env, any => 1, what => $fault), '', "told to partners: $fault");
}

# A success that is none each time ends the opening with an error, not never.
my $j = job(n => 2, spares => 0, env => \%memory, fault => 'sure.none:1:*:EIO', timeout => 60);
ok($j->{rc} != 0 && $j->{log} =~ /comparing builds of ftkit: MPI has returned success without/,
    'a success that is never one: the opening says so') or diag(substr($j->{log}, 0, 2000));
done_testing();
