#!/usr/bin/perl
# Against an MPI without ULFM the library builds without a warning and restarts: the unit tests
# pass, and a job that is killed as a whole goes on from its newest set and ends with the result of
# an undisturbed one, bit by bit.  The library with fault points and the unit tests that call MPI;
# with --all everything, with the warnings of the optimizer.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;
use Time::HiRes qw(time sleep);

plan(skip_all => 'this build is restart-only anyway') if ($ENV{MPI_KIND} // '') eq 'plain';
my $mpicc = 'mpicc.mpich';
plan(skip_all => "no $mpicc") if system("command -v $mpicc >/dev/null 2>&1") != 0;

my $top = top();
my $plain = build() . (all_cases() ? '/plain-all' : '/plain');
my $tmp = scratch();
my $ranks = all_cases() ? 3 : 2; # a rank of this MPI takes a core while it waits

delete $ENV{$_} for qw(MAKEFLAGS MFLAGS MAKELEVEL MPI_HOME),
    grep { /^FTKIT_/ && $_ ne 'FTKIT_GUARD' } keys %ENV;

# ---- building --------------------------------------------------------------------------

chdir $top;
my @units = map { m{tests/(unit/t_\w+)\.c} } # but those of the message log
    grep { slurp($_) !~ m{^#include "(?:log/|t_match_|t_apart_)}m && (all_cases() || slurp($_) =~ /\bMPI_\w/) } glob 'tests/unit/t_*.c';
my $made = ($ENV{BUILD} // 'build') . (all_cases() ? '/plain-all' : '/plain');
my $opt = all_cases() ? '-O2 -g' : '-O0';
my $heat2d = 'flt-examples/heat2d';
my @targets = map {"$made/$_"} $heat2d, 'mpi/solver', @units;
push @targets, 'lib', map {"$made/$_"} qw(ftkit examples/heat2d) if all_cases();
if (!(builds('builds without a warning', 900,
        qq(make -j2 BUILD="$made" MPICC="$mpicc" CC_OPT="$opt" WERROR=1 @targets)))[0])
{
    done_testing();
    exit 1;
}
like(slurp("$plain/mpi.mk"), qr/^MPI_KIND := plain$/m, 'without ULFM');
my ($mpirun) = slurp("$plain/mpi.mk") =~ /^MPIRUN := (.*)$/m;
ok(-x $mpirun, 'mpirun of the same MPI');

# ---- unit tests ------------------------------------------------------------------------

for my $unit (@units) {
    my $out = `scripts/guard 300 -- scripts/cmocka-tap '$plain/$unit' 2>&1 </dev/null`;
    ok($? == 0 && $out !~ /^not ok/m && $out =~ /^ok/m, $unit)
        or diag(substr($out, -3000));
}

# ---- restarts --------------------------------------------------------------------------

# Start a job; process id of the guard.
sub start
{
    my ($dir, $period, @program) = @_;
    my $pid = fork // die "fork: $!\n";
    return $pid if $pid;
    $ENV{FTKIT_LEVEL_HDF5_DIRECTORY} = $dir;
    $ENV{FTKIT_CHECKPOINT_PERIOD} = $period;
    $ENV{FTKIT_LEVEL_HDF5_EVERY} = '1 sets';
    $ENV{FTKIT_LEVEL_HDF5_ASYNCHRONOUS} = 'false';
    open STDIN, '<', '/dev/null';
    open STDOUT, '>', "$dir/log";
    open STDERR, '>&', \*STDOUT;
    exec 'scripts/guard', 180, '--', $mpirun, '-n', $ranks, @program or die "exec: $!\n";
}

# Process id and step of a rank, as the program has written them.
sub where_is
{
    my ($dir, $rank) = @_;
    return slurp("$dir/pid.$rank") =~ /^\s*(\d+)\s+(\d+)$/ ? ($1, $2) : (0, 0);
}

# Send a signal to all ranks when rank 0 has come to the step: how many there are.
sub signal_all
{
    my ($dir, $signal, $step) = @_;
    my $end = time + 40 * pace();
    sleep 0.01 until (where_is($dir, 0))[1] >= $step || time > $end;
    my @pids;
    for my $rank (0 .. $ranks - 1) { # a file is empty while its rank writes it
        sleep 0.001 until $pids[$rank] = (where_is($dir, $rank))[0] or time > $end;
    }
    @pids = grep {$_} @pids;
    return kill $signal, @pids;
}

sub restarts
{
    my ($name, $steps, @program) = @_;
    my ($still, $dir) = map {"$tmp/$name.$_"} qw(still dir);
    mkdir for $still, $dir;
    {
        local $ENV{FTKIT_LEVEL_HDF5_ENABLED} = 'false';
        waitpid start($still, '5 calls', @program, '-o', "$still/out"), 0;
        is($?, 0, "$name: undisturbed") or diag(slurp("$still/log"));
    }
    for my $part (1, 2) { # twice, the second time before it is where it was
        my $pid = start($dir, '5 calls', @program, '-d', 20, '-o', "$dir/out",
            $name eq 'heat2d' ? '--pidfile' : '-p', "$dir/pid");
        my $killed = signal_all($dir, 'KILL', $part * $steps / 4);
        waitpid $pid, 0;
        is($killed, $ranks, "$name: all ranks are killed");
        isnt($?, 0, '... and the job fails');
        ok(!-s "$dir/out", '... without a result');
        unlink glob "$dir/pid.*";
        cmp_ok(scalar(() = glob "$dir/*.ftkit/set-*/manifest"), '>', 0, '... but with a set');
    }
    waitpid start($dir, '5 calls', @program, '-o', "$dir/out"), 0;
    is($?, 0, "$name: is started again") or diag(slurp("$dir/log"));
    if ($name eq 'heat2d') {
        my ($from) = slurp("$dir/log") =~ /continues at step (\d+)/;
        cmp_ok($from // 0, '>=', $steps / 4, '... goes on from a set');
    }
    my $want = slurp("$still/out");
    ok($want ne '' && slurp("$dir/out") eq $want, '... and ends bit by bit as undisturbed');
}

restarts('heat2d', 100, "$plain/$heat2d", '-n', '64', '-s', 100);
restarts('solver', 60, "$plain/mpi/solver", '-s', 60);

# a halt: a signal to every rank, one durable set, and the next start goes on from this set
sub halts
{
    my ($signal, $steps, @program) = @_;
    my $dir = "$tmp/halt.$signal";
    mkdir $dir;
    local %ENV = (%ENV, FTKIT_CHECKPOINT_REACT => '50ms');
    my $pid = start($dir, '1000s', @program, '-d', 20, '-o', "$dir/out", '--pidfile', "$dir/pid");
    is(signal_all($dir, $signal, $steps / 4), $ranks, "$signal: every rank gets it");
    waitpid $pid, 0;
    is($?, 0, '... the job ends well') or diag(slurp("$dir/log"));
    like(slurp("$dir/log"), qr/^heat2d: halts at step \d+, set \d+$/m, '... after a set');
    ok(!-s "$dir/out", '... without a result');
    waitpid start($dir, '1000s', @program, '-o', "$dir/out"), 0;
    is($?, 0, '... the next start ends well') or diag(slurp("$dir/log"));
    my ($from) = slurp("$dir/log") =~ /continues at step (\d+)/;
    cmp_ok($from // 0, '>=', $steps / 4, '... goes on from the set of the halt');
    my $want = slurp("$tmp/heat2d.still/out");
    ok($want ne '' && slurp("$dir/out") eq $want, '... and has the result of the undisturbed job');
}

halts($_, 100, "$plain/$heat2d", '-n', '64', '-s', 100) for qw(USR2 TERM);

# ftkit run kills a rank and starts the job again
if (all_cases()) {
    my $dir = "$tmp/kill";
    mkdir $dir;
    local %ENV = (%ENV, FTKIT_LEVEL_HDF5_DIRECTORY => $dir, FTKIT_CHECKPOINT_PERIOD => '5 calls',
        FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false');
    my $said = `scripts/guard 180 -- $plain/ftkit run -n $ranks --kill 'rank 1 at call 40' -- $plain/examples/heat2d -n 64 -s 100 -o $dir/out 2>&1`;
    is($?, 0, 'ftkit run --kill: the run ends well') or diag($said);
    like($said, qr/killed rank 1 .* after call 40 of/, '... a rank was killed');
    like($said, qr/continues at step [1-9]/, '... and the relaunch goes on from a set');
    ok(slurp("$dir/out") eq slurp("$tmp/heat2d.still/out"), '... to the result of the undisturbed run');
}

# what cannot work here says so
my $log = `scripts/guard 60 -- sh -c 'cd $tmp && FTKIT_REPORT_STDERR=info $mpirun -n 2 $plain/mpi/solver' 2>&1`;
like($log, qr/not repaired in this job.*without ULFM/, 'the mode and its reason are reported');

done_testing();
