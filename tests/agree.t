#!/usr/bin/perl
# Many repairs of few ranks: no agreement of the MPI meets the result of an old one.  The oldest
# process stays while the other rank is replaced many times, and then the oldest process is killed,
# too.  From then on Open MPI 5.0 uses numbers of agreements for the second time (see
# lib/core/mpi_ulfm.c).
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use File::Temp qw(tempdir);
use Test::More;

ulfm_only();
my $ftkit = build() . '/ftkit';
my @solver = (build() . '/mpi/solver', '-n', 60, '-s', 600, '-d', 1);
my $dir = tempdir(DIR => scratch());
my $kills = 24;

%ENV = (%ENV, FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_RECOVER_ATTEMPTS => 1000,
    FTKIT_REPORT_STDERR => 'warning', FTKIT_CHECKPOINT_PERIOD => '1 call');
my $want = `$ftkit run -n 2 --timeout 600 -- @solver -o $dir/want 2>&1`;
is($?, 0, 'undisturbed') or diag($want);
$want = slurp("$dir/want");

# $first processes that carry rank 0 die in their 8th step; then the first process of rank 1 dies,
# and then each process in its 40th step: never two within ten steps
for my $first (all_cases() ? 10 : (), 14) {
    my $more = ($kills - $first - 1) / 2;
    my @faults = (map({ "app.step:0:8:kill\@$_" } 0 .. $first - 1),
        'app.step:1:' . (9 * $first + 10) . ':kill@0',
        map({ my $i = $_; ('app.step:0:40:kill@' . ($first + $i), 'app.step:1:40:kill@' . (1 + $i)) } 0 .. $more - 1));
    local @ENV{qw(FTKIT_FAULT FTKIT_FAULT_LOG)} = (join(',', @faults), "$dir/faults");
    my $said = `$ftkit run -n 2 --spares $kills --relaunch 0 --timeout 600 -- @solver -o $dir/result 2>&1`;
    my $killed = () = slurp("$dir/faults") =~ /kill/g;
    is($?, 0, "$first kills of rank 0, then all: ends well") or diag($said);
    cmp_ok($killed, '>=', $first + 7, '... after many repairs') or diag($said);
    unlike($said, qr/removing old agreement/, '... each agreement is a new one');
    unlike($said, qr/^handles:/m, '... communicators with agreements are freed at the end');
    is(slurp("$dir/result"), $want, '... with the right result');
    unlink("$dir/result", "$dir/faults");
}

done_testing();
