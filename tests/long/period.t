#!/usr/bin/perl
# The automatic period against fixed ones, with ranks that are killed at seeded random times: the
# total time of checkpoint.period = auto is at most 1.1 x that of the best fixed period.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  series (default 3)
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitTest;
use File::Temp qw(tempdir);
use List::Util qw(max min sum);
use Test::More;
use Time::HiRes qw(time);

ulfm_only();
my $seed = $ENV{FTKIT_TEST_SEED} // 11;
my $count = $ENV{FTKIT_TEST_COUNT} // 3;
my $ftkit = build() . '/ftkit';
# A set of 64 MB a rank takes some 30 ms.  With a failure every 1.4 s the best period is some 0.3 s:
# well between the ends of the sweep.
my @program = (build() . '/mpi/solver', '-n', 60, '-s', 1600, '-d', 10, '-b', 256, '-w', 1);
my @fixed = qw(40ms 80ms 160ms 320ms 640ms 1280ms);
my $kills_min = 8;
diag("FTKIT_TEST_SEED=$seed, $count series");

# Seconds from a kill until the replacement has its data.
sub repair_s
{
    my $dir = tempdir(DIR => scratch());
    local %ENV = (%ENV, FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '160ms');
    my $said = `$ftkit run -n 2 --spares 2 --relaunch 0 --timeout 180 --events $dir/events --kill 'rank 1 at 2 s' --kill 'rank 0 at 6 s' -- @program -o $dir/result 2>&1`;
    my @e = events("$dir/events");
    my @begun = map { $_->{t} - $_->{seconds} } grep { $_->{event} eq 'repair' } @e;
    my @back = map { $_->{t} } grep { $_->{event} eq 'restore' && $_->{set} > 0 } @e;
    die "two kills were not survived:\n$said" if $? != 0 || @begun < 2 || @back < 2;
    my ($first, $last) = (min(@begun), max(@begun));
    my $middle = ($first + $last) / 2;
    return max(max(map { $_ - $first } grep { $_ < $middle } @back),
        max(map { $_ - $last } grep { $_ > $middle } @back));
}

# Between two kills there is a pause, long enough for a repair on this machine.  Both copies of the
# data would be lost without the pause.
my $repair_s = repair_s();
my $pause_s = max(0.6, 4 * $repair_s);
my $mtbf = sprintf('%.0fms', 1000 * ($pause_s + 0.8));
diag(sprintf('a repair takes %.3f s; a failure every %s', $repair_s, $mtbf));

# The kills of a series.
sub kills
{
    my ($series) = @_;
    srand($series);
    my ($t, @kills) = (0);
    while ($t < 60) {
        $t += $pause_s - 0.8 * log(1 - rand());
        push(@kills, '--kill', sprintf("'rank %d at %.3f s'", rand(2), $t));
    }
    return @kills;
}

# Seconds of a run with the kills of one series; undef: it failed.
sub run_s
{
    my ($period, $series) = @_;
    my $dir = tempdir(DIR => scratch());
    local %ENV = (%ENV, FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => $period,
        FTKIT_CHECKPOINT_MTBF => $mtbf, FTKIT_REPORT_STDERR => 'warning',
        FTKIT_RECOVER_ATTEMPTS => 1000);
    my @kills = kills($series);
    my $begin = time();
    my $said = `$ftkit run -n 2 --spares 50 --relaunch 0 --timeout 180 @kills -- @program -o $dir/result 2>&1`;
    my $took = time() - $begin;
    my $killed = () = $said =~ /^ftkit run: killed rank/mg;
    return $took if $? == 0 && $killed >= $kills_min;
    diag("period $period, series $series: code " . ($? >> 8) . ", $killed kills\n$said");
    return;
}

my %s = map { $_ => [] } @fixed, 'auto';
for my $series (map { $seed + $_ } 1 .. $count) {
    for my $period (keys %s) { # in another order each time: the machine has good and bad moments
        my $took = run_s($period, $series);
        ok(defined($took), "period $period, series $series ends well, after failures");
        push @{ $s{$period} }, $took // 1e9;
    }
}
my %mean = map { $_ => sum(@{ $s{$_} }) / $count } keys %s;
diag(sprintf('%-7s %6.2f s', $_, $mean{$_})) for @fixed, 'auto';
my $best = min(@mean{@fixed});
cmp_ok($mean{auto}, '<=', 1.1 * $best, 'the automatic period is near the best fixed one');
cmp_ok($best, '<', $mean{$_}, "... which is not $_: the sweep has a best one inside") for @fixed[0, -1];
done_testing();
