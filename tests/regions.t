#!/usr/bin/perl
# Regions of every kind come back bit by bit from a buddy's memory and from files, and
# protecting them takes the memory that it should and no more with time.  With --all the largest lost
# region has 64 MiB, and each rank is lost alone.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();

my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '1 calls');
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_CHECKPOINT_PERIOD => '2 calls',
    FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false');
my $blocks = '1,262143,262144,262145'; # a block is 256 KiB
my $pieces = '1048575,1048576,1048577'; # a piece of a message 1 MiB

# A job of tests/mpi/regions; returns its result file.
my $jobs = 0;
sub regions
{
    my ($args, %o) = @_;
    my $work = sprintf '%s/regions%03d', scratch(), ++$jobs;
    my $j = job(%o, keep => $work, program => build() . '/mpi/regions',
        args => ['-o', "$work/out", @$args]);
    if ($j->{rc} != 0 || $j->{result} eq '') {
        diag("exit code $j->{rc}\n", substr($j->{log}, 0, 4000));
        $j->{result} = '';
    }
    return $j;
}

# The regions are what they must be, after the given number of faults and repairs.
sub intact
{
    my ($name, $args, %o) = @_;
    my $faults = $o{faults} // 1;
    my $repairs = delete $o{repairs} // $faults;
    my $least = delete $o{least} // $faults;
    my $j = regions($args, %o);
    my $hit = scalar @{ $j->{faults} };
    ok($j->{result} =~ /^OK step 12 repairs $repairs / && $hit >= $least && $hit <= $faults, $name)
        or diag("result: $j->{result}faults: $hit\n", substr($j->{log}, 0, 4000));
    return $j;
}

# ---- contents --------------------------------------------------------------------------

intact('undisturbed', ['-b', "$blocks,$pieces"], env => \%memory, faults => 0, spares => 0);
my $large = all_cases() ? 64 : 4; # in pieces of 1 MiB
intact('each rank is killed in turn', ['-b', "$blocks,$pieces"], env => \%memory, spares => 4,
    faults => 4, fault => in_turn(0, 'app.step', 2, 4, 6, 8));
for my $rank (all_cases() ? (0 .. 3) : ()) {
    intact("rank $rank is killed", ['-b', "$blocks,$pieces"], env => \%memory,
        fault => 'app.step:' . $rank . ':' . (2 * $rank + 2) . ':kill');
}
intact('killed in the middle of a checkpoint', ['-b', $blocks], env => \%memory,
    fault => 'ckpt.packed:1:6:kill');
intact('a rank, then its buddy', ['-b', $blocks], env => \%memory, spares => 2, faults => 2,
    fault => 'app.step:2:4:kill,app.step:3:7:kill');
intact('a rank, then its replacement', ['-b', $blocks], env => \%memory, spares => 2,
    faults => 2, fault => 'app.step:0:4:kill,app.step:0:3:kill@1');
intact('a spawned replacement', ['-b', $blocks], spares => 0, fault => 'app.step:1:5:kill',
    env => { %memory, FTKIT_RECOVER_SUPPLY => 'spawn' });
for my $case (grep { selected(2, @$_) } map { my $n = $_; map { [$n, $_] } 0, 1 } 0 .. 2) {
    my ($n, $map) = ((2, 3, 5)[$case->[0]], qw(pair ring)[$case->[1]]);
    intact("$n ranks, map $map", ['-b', $blocks], n => $n, fault => 'app.step:1:5:kill',
        env => { %memory, FTKIT_LEVEL_MEMORY_MAP => $map });
}
intact('one rank alone', ['-b', "$blocks,$pieces"], n => 1, faults => 0, spares => 0,
    env => \%memory);
{
    # the first death ends the job; the other ranks may not come to that step
    my $j = intact('all ranks are killed: from files', ['-b', $blocks], run => [],
        env => { %files, FTKIT_RECOVER_SUPPLY => 'end' }, least => 1, faults => 4, repairs => 0,
        fault => 'app.step:*:8:kill');
    like($j->{result}, qr/ restored [1-9]/, '... a set was restored');
}
intact("$large MiB", ['-b', $large << 20], env => \%memory, fault => 'app.step:2:5:kill',
    timeout => 120);

# ---- ranks whose regions do not fit together ------------------------------------------

my @common = (program => build() . '/mpi/overlap', spares => 0,
    env => { FTKIT_CHECKPOINT_PERIOD => '20 calls', FTKIT_LEVEL_HDF5_EVERY => '1 sets' });
my $rule = 'Rule: all ranks register the same';
for my $case (['fits', 0, qr/\A(?!.*(?:error|warning))/s],
    ['overlap', 5, qr/error: .*no set is written: array 'x': the blocks of ranks 0 and 1 overlap, at cell \(17\)/],
    ['moved', 4, qr/error: .*array 'x': the blocks of ranks 0 and 1 overlap, at cell \(17\)/],
    ['gap', 0, qr/warning: .*array 'x': 3 cells are in no block, the first one at \(37\)/],
    ['extra', 0, qr/warning: .*region 'mine' is registered on rank 1 and not on rank 0: each rank/],
    ['name', 0, qr/warning: .*region 'other' is registered on rank 0 and not on rank 1: each rank/],
    ['kind', 5, qr/error: .*region 'same' is per rank, i32 on rank 1 and replicated, 1 i32 on rank 0. $rule/],
    ['type', 5, qr/error: .*region 'x' is a global array, i64 40 on rank 1 and .* f64 40 on rank 0. $rule/],
    # what fails once is tried again after a period, not in each call
    ['fail', 2, qr/region 'same' is registered as replicated and has other values on rank 1/])
{
    my ($mode, $failed, $like) = @$case;
    my $j = job(@common, n => 2, args => [$mode]);
    my $lines = () = $j->{log} =~ /^ftkit: (?:error|warning): /mg;
    my $want = $mode eq 'fits' || $mode eq 'fail' ? 0 : 1;
    ok($j->{rc} == 0 && $j->{log} =~ $like && $lines == $want
            && $j->{log} =~ /^calls 100 failed $failed /m, "regions of the ranks: $mode")
        or diag("rc $j->{rc}, $lines lines\n$j->{log}");
}
# a replacement does not know of the set that has failed; with the log it repeats that call
for my $log ({}, { FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAMS => 'rank' }) {
    for my $fault ('ckpt.begin:2:3:kill', 'ckpt.sealed:0:3:kill') {
        my $j = job(@common, args => ['fail'], spares => 1, fault => $fault,
            env => { FTKIT_CHECKPOINT_PERIOD => '20 calls', %$log });
        ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $j->{log} =~ /^calls \d+ failed [234] set \d+$/m,
            (%$log ? 'with the log: ' : '') . "$fault: after a set that has failed")
            or diag("rc $j->{rc}\n$j->{log}");
    }
}

# ---- memory ----------------------------------------------------------------------------

# in units of the registered bytes, beyond what was in use before the first set
{
    my $j = regions(['-m', 'memory', '-s', 4, '-b', 64 << 20], env => \%memory, n => 2, spares => 0);
    my ($steady_min, $steady_max) = $j->{result} =~ /^steady ([\d.]+) ([\d.]+)$/m;
    my ($peak_min, $peak_max) = $j->{result} =~ /^peak ([\d.]+) ([\d.]+)$/m;
    cmp_ok($steady_max // 9, '<=', 2 * 1.05, 'steady state: 2 x the registered bytes');
    cmp_ok($steady_min // 0, '>=', 2 * 0.95, '... and not less');
    cmp_ok($peak_max // 9, '<=', 4 * 1.05, 'while committing: at most 4 x');
    cmp_ok($peak_min // 0, '>=', 3, '... and it was looked at in time');
    note($j->{result});
}
# slots keep their size; the opening line tells what is held
{
    my $j = regions(['-m', 'memory', '-s', 3, '-b', 16 << 20], n => 2, spares => 0,
        env => { %memory, FTKIT_LEVEL_MEMORY_PLACE => 'shared' });
    my ($told) = $j->{log} =~ /memory per rank: ([\d.]+) x the registered bytes$/m;
    my ($min, $max) = $j->{result} =~ /^steady ([\d.]+) ([\d.]+)$/m;
    is($told // '', 4, 'place = shared: 4 x the registered bytes are told');
    cmp_ok($min // 0, '>=', 4 * 0.95, '... and held');
    cmp_ok($max // 9, '<=', 4 * 1.05, '... and not more');
}

# Lines of a job in mode growth: [step, repairs, rss, heap].
sub samples
{
    my ($j) = @_;
    ok($j->{result} =~ /^OK$/m, '... ends well') or diag($j->{result}, $j->{log});
    note($j->{result});
    my @s = map { [/^step (\d+) repairs (\d+) rss (\d+) heap (\d+)$/] } split /\n/,
        $j->{result};
    return grep { @$_ } @s;
}

sub at_step
{
    my ($step, @s) = @_;
    my ($found) = grep { $_->[0] == $step } @s;
    return $found // [$step, 0, 0, 0];
}

# Open MPI and HDF5 fill lists of their own at first; then a byte a set is too much.
my $sets = all_cases() ? 1000 : 400;
my $heap = $sets - 100;
# In one arena: malloc_trim() keeps the free top of each other one, up to 1 MiB of the writer's.
# Without the caches of threads: what is free in these counts as used.
my $malloc = 'glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0';
for my $case (
    ["$sets sets in memory", \%memory, 10],
    ["$sets sets, a tenth of them files", {
            FTKIT_CHECKPOINT_PERIOD => '1 calls', FTKIT_LEVEL_HDF5_EVERY => '10 sets' },
        100],
    )
{
    my ($name, $env, $first) = @$case;
    # Without the large pages of the tests (FtkitTest), of which one is more than all that may grow.
    my @s = samples(regions(['-m', 'growth', '-s', $sets + 1, '-b', '1000,5000'],
        env => { %$env, GLIBC_TUNABLES => $malloc }, spares => 0));
    my ($ten, $hundred, $end) = map { at_step($_, @s) } ($first, 100, $sets);
    cmp_ok($end->[2], '>', 0, $name);
    # resident memory is in KiB
    cmp_ok($end->[2], '<=', 1.02 * $ten->[2],
        '... memory is that after the first ten');
    cmp_ok($end->[3], '<=', $hundred->[3] + $heap, '... so is the heap');
}

# A repair may cost what its communicators do.
for my $case (['spares', 'spare', 8, 8, 256], ['spares and spawned ones', 'spare, spawn', 8,
    20, 1024])
{
    my ($name, $supply, $spares, $kills, $each_kib) = @$case;
    my $fault = join ',', map {"app.step:1:4:kill\@$_"} 0 .. $kills - 1;
    my @s = samples(regions(['-m', 'growth', '-s', 3 * $kills + 10, '-b', '1000,5000'],
        spares => $spares, fault => $fault,
        env => { %memory, FTKIT_RECOVER_SUPPLY => $supply, GLIBC_TUNABLES => '' }));
    my $end = $s[-1] // [0, 0, 0, 0];
    my ($first) = grep { $_->[1] >= 2 } @s;
    is($end->[1], $kills, "$kills repairs from $name");
    my $growth = ($end->[2] - ($first // [0, 0, 0])->[2]) / ($kills - 2);
    cmp_ok($growth, '<=', $each_kib, "... take at most $each_kib KiB each");
    note(sprintf "%s: %.0f KiB per repair", $name, $growth);
}

done_testing();
