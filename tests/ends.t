#!/usr/bin/perl
# How a job ends: results that the ranks have only behind ftkit_close, and the exit code of every way
# to die.  A job that ends with 0 has the results of all ranks.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
my $behind = build() . '/mpi/behind';
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_CHECKPOINT_PERIOD => '3 calls');
my $count = 0;

# A job of two ranks: exit code, output, and the results of its ranks as one text.
sub ends
{
    my ($how, %o) = @_;
    my $work = scratch() . '/ends' . ++$count;
    my $program = delete $o{program} // $behind;
    my $j = job(n => 2, spares => 0, run => [], timeout => 90, %o, keep => $work, program => $program,
        args => ["$work/out", $how], env => { %files, %{ $o{env} // {} } });
    $j->{results} = join('', map { slurp("$work/out.$_") } 0, 1);
    return $j;
}

my $whole = ends('close')->{results};
like($whole, qr/\A0 \d+\n1 \d+\n\z/, 'the results of both ranks');

# ---- a rank dies while the job ends ------------------------------------------------------------

my %modes = (
    spare => [spares => 1],
    spawn => [env => { FTKIT_RECOVER_SUPPLY => 'spawn, end' }],
    log => [spares => 1, run => ['--log'], env => { FTKIT_LOG_TEAM_SIZE => 1 }],
    replicas => [run => ['--replicas', 2]],
);
for my $mode (sort keys %modes) {
    for my $point ('finish.begin', 'finish.end', 'close.begin', 'close.voted', 'close.parted') {
        for my $rank (0, 1) {
            my $j = ends('close', @{ $modes{$mode} }, fault => "$point:$rank:1:kill");
            my $what = "$mode, rank $rank killed at $point";
            is(scalar(@{ $j->{faults} }), 1, "$what: it is killed") or diag($j->{log});
            ok($j->{rc} == 0 ? $j->{results} eq $whole : $point eq 'close.parted' && $j->{rc} == 137,
                "$what: results, or an exit code") or diag("code $j->{rc}, results $j->{results}\n$j->{log}");
        }
    }
}

# ---- every way to die ------------------------------------------------------------------------

for my $case (['segv', 139], ['kill', 137], ['abort', 134]) {
    my ($how, $want) = @$case;
    for my $spares (0, 1) {
        my $j = ends($how, spares => $spares, run => ['--no-relaunch']);
        is($j->{rc}, $want, "all ranks, $how, $spares spares: exit code") or diag($j->{log});
    }
}
for my $how ('forget', 'leave') {
    my $j = ends($how, spares => 1);
    is($j->{rc}, 1, "no ftkit_close ($how): exit code") or diag($j->{log});
    unlike($j->{log}, qr/relaunching/, '... what is finished is not computed again');
}

# ---- mpirun is lost while the ranks start ------------------------------------------------------

my $wrap = write_file(scratch() . '/wrap', <<'SCRIPT');
#!/bin/sh
[ "$FTKIT_RUN_ATTEMPT" != 0 ] || { : >"$FTKIT_LEVEL_HDF5_DIRECTORY/started.$OMPI_COMM_WORLD_RANK"; sleep 30; }
exec "$BEHIND" "$@"
SCRIPT
chmod(0755, $wrap);
my $j = ends('close', program => $wrap, env => { BEHIND => $behind }, while => sub {
        my ($work) = @_;
        await_file("$work/started.0*");
        await_file("$work/started.1*");
        kill_mpirun($work);
    });
ok($j->{rc} == 0 && $j->{results} eq $whole, 'mpirun is killed before MPI_Init: the job is relaunched')
    or diag($j->{log});
like($j->{log}, qr/because mpirun was killed by signal 9 \(Killed\) before any context was opened; relaunching/,
    '... it is told');
{
    local %ENV = (%ENV, %files, FTKIT_RUN_SIZE => 2, FTKIT_LEVEL_HDF5_DIRECTORY => scratch());
    my $said = `$behind @{[scratch()]}/alone 2>&1`;
    is($? >> 8, 1, 'a rank that comes up alone does not open');
    like($said, qr/`ftkit run` has started 2 processes, and MPI_COMM_WORLD has 1: mpirun was lost/, '... says why');
    ok(!-e scratch() . '/default.ftkit', '... and writes nothing');
}

done_testing();
