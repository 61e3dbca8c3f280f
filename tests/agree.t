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
my @solver = (build() . '/mpi/solver', '-n', 60, '-s', 900, '-d', 5);
my $dir = tempdir(DIR => scratch());
my $kills = 24;

%ENV = (%ENV, FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_RECOVER_ATTEMPTS => 1000,
    FTKIT_REPORT_STDERR => 'warning', FTKIT_CHECKPOINT_PERIOD => '20ms');
my $want = `$ftkit run -n 2 --timeout 60 -- @solver -o $dir/want 2>&1`;
is($?, 0, 'undisturbed') or diag($want);
$want = slurp("$dir/want");

# $first kills of rank 0, one of rank 1, and then both in turn
for my $first (10, 14) {
    my @victims = map { $_ <= $first ? 0 : $_ == $first + 1 ? 1 : $_ % 2 } 1 .. $kills;
    my @kills = map { ('--kill', sprintf("'rank %d at %.2f s'", $victims[$_], 0.5 + 0.16 * $_)) } 0 .. $#victims;
    my $said = `$ftkit run -n 2 --spares $kills --relaunch 0 --timeout 60 @kills -- @solver -o $dir/result 2>&1`;
    my $killed = () = $said =~ /^ftkit run: killed rank/mg;
    is($?, 0, "$first kills of rank 0, then all: ends well") or diag($said);
    cmp_ok($killed, '>=', $first + 4, '... after many repairs');
    unlike($said, qr/removing old agreement/, '... each agreement is a new one');
    unlike($said, qr/^handles:/m, '... no communicator with an agreement is freed');
    is(slurp("$dir/result"), $want, '... with the right result');
    unlink("$dir/result");
}

done_testing();
