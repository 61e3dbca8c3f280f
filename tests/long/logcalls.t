#!/usr/bin/perl
# The calls of MPI over the message log, each family with many seeded kills: one, and two
# that are not of one team.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  its length (default 20)
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
my $count = $ENV{FTKIT_TEST_COUNT} // 20;
srand($seed);
diag("FTKIT_TEST_SEED=$seed, $count runs of each kind");

for my $n (2, 3, 4, 5, 8) {
    checks('coll_check', $n, $_) for 1, 2;
}

my @teams = (
    { FTKIT_LOG_TEAM_SIZE => 1 },
    { FTKIT_LOG_TEAM_SIZE => 2 },
    { FTKIT_LOG_TEAM_SIZE => 3 },
);
# what memory alone, with one copy, does not stand
my $lost = qr/no copy or parity is left|before the first set was written/;
# what determinants cannot tell
my $untold = qr/it cannot be told which one/;

for my $p (call_programs()) {
    for my $kills (1, 2) {
        my ($bad, $hits, $ended) = (0, 0, 0);
        for my $i (1 .. $count) {
            my $env = { %{ one_of(@teams) }, FTKIT_LEVEL_MEMORY_MAP => 'ring' };
            my $rank = int(rand(4));
            my @faults = map { call_fault($p, ($rank + $_) % 4) } 0, 1 + int(rand(3));
            $#faults = $kills - 1;
            my $fault = join(',', @faults);
            my $j = logged($p, env => $env, fault => $fault, spares => 3);
            my @killed = map { /rank (\d+) / ? $1 : () } @{ $j->{faults} };
            my $what = join(' ', $fault, map {"$_=$env->{$_}"} sort keys %$env);
            my $v = verdict($p, $j, env => $env, killed => \@killed, what => $what,
                reason => @killed > 1 ? qr/$lost|$untold/ : $untold);
            $hits += @killed == $kills;
            $bad++ if $v;
            $ended += !defined($v);
        }
        is($bad, 0, title($p)
                . ", $kills killed: $count runs, $hits with all, $ended ended with a reason");
        cmp_ok($hits, '>', 0.7 * $count, '... most of them');
        cmp_ok($ended, '<', 1 + $count / 3, '... few');
    }
}

done_testing();
