#!/usr/bin/perl
# Random scripts whose ranks call ftkit_checkpoint() at places of their own, with kills, and
# the programs of the other campaigns with lines apart.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  scripts with one kill (default 1000);
#   a fifth of it with two kills, a tenth with the other programs
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
my $seed = $ENV{FTKIT_TEST_SEED} // 18;
my $count = $ENV{FTKIT_TEST_COUNT} // 1000;
srand($seed);
diag("FTKIT_TEST_SEED=$seed, $count scripts with one kill");

# what memory with one copy does not stand, while no set is in the files
my $lost = qr/no copy or parity is left|before the first set was written|start the job again/;
my %figures = (late => 0, early => 0, choices => 0);

# Late and early messages and choices in sets that the ranks of a job have counted.
sub count_figures {
    my ($base) = @_;
    my @sum = (0, 0, 0);
    for my $file (glob("$base.*")) {
        my @mine = slurp($file) =~ /^apart (\d+) (\d+) (\d+)$/m;
        $sum[$_] += $mine[$_] // 0 for 0 .. 2;
        unlink($file);
    }
    $figures{late} += $sum[0] > 0;
    $figures{early} += $sum[1] > 0;
    $figures{choices} += $sum[2] > 0;
    return;
}

# A kill of a rank while a set goes to level.local or to the files.
sub level_fault {
    my ($rank) = @_;
    my $point = one_of(qw(flush.submit flush.announced flush.submitted local.begin local.sized local.copied
        local.sealed local.voted));
    return sprintf('%s:%d:%d:kill', $point, $rank, 1 + rand(3));
}

# One script; returns the errors.
sub one_script {
    my ($number, $kills, $base) = @_;
    my $p = script($number, rand() < 0.2 ? 'wait' : ());
    my @ranks = (0 .. 3);
    my @faults = map { apart_fault(splice(@ranks, int(rand(@ranks)), 1)) } 1 .. $kills;
    my $env = { FTKIT_LOG_TEAM_SIZE => one_of(1, 2, 4),
        FTKIT_CHECKPOINT_PERIOD => one_of('1 calls', '3 calls', '5 calls') };
    if (rand() < 0.3) { # the other levels, too
        $env = { %$env, FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 set',
            FTKIT_LEVEL_LOCAL_SCHEME => one_of(qw(own buddy xor)), FTKIT_LEVEL_LOCAL_EVERY => '1 set',
            FTKIT_LEVEL_LOCAL_PLACE => one_of(qw(memory shared)),
            FTKIT_LEVEL_MEMORY_SCHEME => one_of(qw(buddy xor)) };
        @faults = map { rand() < 0.3 ? level_fault(/:(\d)/) : $_ } @faults;
    }
    my $counting = { %$p, args => [ @{ $p->{args} }, '-i', $base ] };
    undisturbed($p, 4);
    my $j = logged($counting, env => $env, spares => 3, fault => join(',', @faults));
    count_figures($base);
    return verdict($p, $j, any => 1, reason => $kills > 1 ? $lost : undef, what => "@faults");
}

for my $kills (1, 2) {
    my $n = $kills == 1 ? $count : $count / 5;
    my ($bad, $ended) = (0, 0);
    for my $i (1 .. $n) {
        my $errors = one_script($seed * 100000 + $kills * 10000 + $i, $kills, scratch() . '/figures');
        $ended += !defined($errors);
        $bad += ($errors // '') ne '';
    }
    is($bad, 0, int($n) . " scripts, $kills kill(s) each, $ended ended as they may");
}
note(join(', ', map {"$_: $figures{$_} runs"} sort keys %figures));
cmp_ok($figures{$_}, '>=', 0.3 * $count, "$_ in three of ten runs") for qw(late early);
cmp_ok($figures{choices}, '>=', 0.1 * $count, 'choices in sets in one of ten runs');

my @programs = grep { title($_) !~ /-m wildcard$/ } programs(), call_programs(), ahead_programs();
my $bad = 0;
for my $i (1 .. $count / 10) {
    my $p = one_of(@programs);
    my $rank = int(rand(4));
    my $fault = rand() < 0.5 ? fault_of($p, $rank) : apart_fault($rank, one_of(qw(cut all commit)));
    my $env = { FTKIT_CHECKPOINT_LINE => 'apart', FTKIT_LOG_TEAM_SIZE => one_of(1, 2, 4),
        FTKIT_CHECKPOINT_PERIOD => one_of('1 calls', '3 calls', '7 calls') };
    my $j = logged($p, env => $env, spares => 2, fault => $fault);
    $bad += verdict($p, $j, env => $env, killed => [$rank], what => $fault) ne '';
}
is($bad, 0, int($count / 10) . ' programs with lines apart, a kill each');

done_testing();
