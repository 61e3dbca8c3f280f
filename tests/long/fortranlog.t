#!/usr/bin/perl
# The message log under calls from Fortran: each family through each binding with many seeded
# kills, and every form of every collective killed on every rank.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  kills per family (default 20)
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
plan(skip_all => 'needs a compiler for Fortran') if !-x build() . '/ftests/calls_f08';
my $seed = $ENV{FTKIT_TEST_SEED} // 7;
my $count = $ENV{FTKIT_TEST_COUNT} // 20;
srand($seed);
diag("FTKIT_TEST_SEED=$seed, $count runs of each kind");
my @bindings = qw(mpifh mpi f08);
# what determinants cannot tell
my $untold = qr/it cannot be told which one/;

for my $b (@bindings) {
    for my $p (fortran_programs($b)) {
        my ($bad, $ended) = (0, 0);
        for my $i (1 .. $count) {
            my $env = { FTKIT_LOG_TEAM_SIZE => 1 + $i % 3 };
            my $rank = int(rand(4));
            my $fault = call_fault($p, $rank);
            my $j = logged($p, env => $env, fault => $fault);
            my $v = verdict($p, $j, env => $env, killed => [$rank], faults => 1,
                what => "$fault, teams of $env->{FTKIT_LOG_TEAM_SIZE}", reason => $untold);
            $bad++ if $v;
            $ended += !defined($v);
        }
        is($bad, 0, title($p) . ": $count kills, $ended ended with a reason");
        cmp_ok($ended, '<', 1 + $count / 3, '... few');
    }
}

my $env = { FTKIT_LOG_TEAM_SIZE => 1 };
my $bad = 0;
my @all = map { (fortran_programs($_))[9] } @bindings;
for my $i (0 .. 119) {
    my $p = $all[$i % 3];
    my $faults = collective_kills($i);
    my $j = logged($p, env => $env, fault => $faults, spares => 4);
    my $v = verdict($p, $j, env => $env, killed => [ 0 .. 3 ], faults => 4, what => $faults);
    $bad++ if $v;
}
is($bad, 0, 'every rank killed in every form of every collective: 480 kills in 120 runs');

done_testing();
