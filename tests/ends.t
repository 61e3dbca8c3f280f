#!/usr/bin/perl
# How a job ends: results that the ranks have only behind ftkit_close, and the exit code of every way
# to die, with every way to recover.  A job that ends with 0 has the results of all ranks.
# tests/long/ends.t has all combinations.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use POSIX ();
use Test::More;

ulfm_only();
asleep_in_waits();
my $behind = build() . '/mpi/behind';
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_CHECKPOINT_PERIOD => '3 calls');
my $all = $ENV{FTKIT_TEST_ALL}; # all combinations, else each element of one
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

# A collective call between ftkit_finish and ftkit_close is cut short by the loss of a rank of the same team.
{
    # the spares that still wait in ftkit_open learn of the end, too
    my $j = job(n => 4, spares => 3, run => ['--log'], timeout => 60, program => build() . '/mpi/windows',
        args => [qw(-m fence)], fault => 'finish.end:3:1:kill@0',
        env => { FTKIT_LOG_TEAM_SIZE => 2, FTKIT_CHECKPOINT_PERIOD => '3 calls', FTKIT_LEVEL_HDF5_ENABLED => 'false' });
    like($j->{log}, qr/ftkit_close before the line is restored: a rank failed when this one had already left its loop/,
        'a loss in MPI_Win_free behind the loop: a clear end') or diag($j->{log});
    is($j->{rc}, 0, '... and a relaunch');
    unlike($j->{log}, qr/mistake of the program|stood still/, '... at once');
    unlike($j->{log}, qr/call out of order|do its part of the repair/, '... without a word of a mistake');
}

# ---- a rank dies while the job ends ------------------------------------------------------------

my %modes = (
    none => [env => { FTKIT_RECOVER_SUPPLY => 'end' }],
    spare => [spares => 1],
    spawn => [env => { FTKIT_RECOVER_SUPPLY => 'spawn, end' }],
    log => [spares => 1, run => ['--log'], env => { FTKIT_LOG_TEAM_SIZE => 1 }],
    replicas => [run => ['--replicas', 2]],
);
my @modes = sort keys %modes;

# Call $run with each of @what, a mode and a rank: with all combinations, or with $times modes for each.
sub product
{
    my ($run, $times, @what) = @_;
    for my $w (0 .. $#what) {
        for my $m (0 .. $#modes) {
            my $turn = ($m - $w) % @modes;
            next if !$all && ($turn % 2 || $turn >= 2 * $times);
            $run->($what[$w], $modes[$m], $_) for $all ? (0, 1) : ($w + $turn / 2) % 2;
        }
    }
    return;
}

product(sub {
        my ($point, $mode, $rank) = @_;
        my $j = ends('close', @{ $modes{$mode} }, fault => "$point:$rank:1:kill");
        my $what = "$mode, rank $rank killed at $point";
        is(scalar(@{ $j->{faults} }), 1, "$what: it is killed") or diag($j->{log});
        ok($j->{rc} == 0 ? $j->{results} eq $whole : $point eq 'close.parted' && $j->{rc} == 137,
            "$what: results, or an exit code") or diag("code $j->{rc}, results $j->{results}\n$j->{log}");
    }, 1, 'finish.begin', 'finish.end', 'close.begin', 'close.voted', 'close.parted');

# behind ftkit_close no watchdog tells MPI of an end: without a change of Open MPI the others wait in MPI_Finalize
if (own_mpi()) {
    for my $how ('vanish', 'kill') {
        my $j = ends('close', spares => 1, timeout => 30, fault => "app.closed:1:1:$how");
        ok(@{ $j->{faults} } == 1 && $j->{rc} == ($how eq 'kill' ? 137 : 3) && $j->{results} eq $whole,
            "$how between ftkit_close and MPI_Finalize: results, and its code")
            or diag("code $j->{rc}, results $j->{results}\n$j->{log}");
    }
}

# ---- every way to die ------------------------------------------------------------------------

# one rank, in its loop: the others go on with a new process, or the job is relaunched
product(sub {
        my ($how, $mode, $rank) = @_;
        my $j = ends('close', @{ $modes{$mode} }, fault => "app.tail:$rank:1:$how");
        my ($want, $what) = ($how eq 'mpiabort' ? 3 : 0, "$mode, rank $rank ends by $how");
        ok($j->{rc} == $want && @{ $j->{faults} } == 1, "$what: code $want") or diag("code $j->{rc}\n$j->{log}");
        is($j->{results}, $want ? '' : $whole, '... and the results');
        # prterun counts an _exit(3) twice, and ends a job of which one process is left
        unlike($j->{log}, qr/relaunching/, '... no relaunch')
            if $want || ($mode ne 'none' && "$how $mode" ne 'vanish spawn');
    }, 1, 'kill', 'exit', 'vanish', 'quick', 'abort', 'mpiabort');

# all ranks at once: the code of the first
my %codes = (segv => 139, kill => 137, abort => 134);
product(sub {
        my ($how, $mode, $rank) = @_;
        return if $all && $rank > 0; # there is no rank to choose
        my %o = @{ $modes{$mode} };
        my $j = ends($how, %o, run => ['--no-relaunch', @{ $o{run} // [] }]);
        is($j->{rc}, $codes{$how}, "$mode, all ranks, $how: exit code") or diag($j->{log});
    }, 1, sort keys %codes);
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

# ---- a spawned process whose repair was given up ------------------------------------------------
# It hangs before it has joined.  Here any program with the library stands for it.
my $stray = 0;

# Whether the thread that looks for the job sleeps until its next look: nanosleep or clock_nanosleep.
sub has_looked
{
    my ($pid) = @_;
    my ($thread) = grep { !m{/$pid/syscall$} } glob("/proc/$pid/task/*/syscall");
    return $thread && slurp($thread) =~ /^(?:35|230|101|115) /;
}

$j = ends('close', fault => 'app.tail:0:1:stop', while => sub {
        my ($work) = @_;
        await_file("$work/faults");
        my ($number) = slurp("$work/default.ftkit/owner") =~ /^job = (\w+)$/m;
        $stray = fork() // die("fork: $!\n");
        if ($stray) { # the job goes on when it has been seen
            select(undef, undef, undef, 0.005) until !kill(0, $stray) || has_looked($stray);
            kill('CONT', process_of($work, 0));
            return;
        }
        local %ENV = (%ENV, LD_PRELOAD => build() . '/libftkit.so', FTKIT_SPAWNED => $number);
        exec('sleep', 600) or POSIX::_exit(127);
    });
is($j->{rc}, 0, 'a job with a spawned process that hangs ends') or diag($j->{log});
local $SIG{ALRM} = sub { kill('KILL', $stray) };
alarm(20 * pace());
waitpid($stray, 0);
alarm(0);
is($?, 0, '... and the process leaves');

done_testing();
