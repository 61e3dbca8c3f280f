#!/usr/bin/perl
# More of ftkit under Slurm: a job array, a node whose slurmd dies, the time limit, salloc, and
# restart-only under MPICH with srun.  tests/slurm.t has the cases that each `make check` runs.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitSlurm;
use FtkitTest;
use Test::More;

ulfm_only();
my $missing = slurm_missing();
plan(skip_all => $missing) if $missing;

slurm_start(4, 'SlurmdTimeout=6');
my ($want, @heat) = slurm_heat2d(200);

# ---- a job array ---------------------------------------------------------------------------

my $run = slurm_case('array', 'slurm-array.sh', @heat);
my @element = map { { id => "$run->{id}_$_", dir => "$run->{dir}/run.$_",
    output => "$run->{dir}/array-$_.log" } } 0, 1;
ok(slurm_step($_, 80), "array: element $_->{id} runs") for @element;
slurm_do('scontrol', 'requeue', $element[1]{id});
is($?, 0, 'array: one element is queued again');
for my $e (@element) {
    slurm_ends($e, "array: element $e->{id} ends well", $want);
}
like($element[1]{log}, qr/restored set \d+ from files/, '... that one from its own sets');
unlike($element[0]{log}, qr/restored set/, '... the other without a restart');

# ---- a lost node and --no-kill -----------------------------------------------------------------

# Slurm notices the loss while the job goes on: the node leaves the allocation, and the job stays in it.
my ($more, @longer) = slurm_heat2d(1500); # so that Slurm notices in time
$run = slurm_case('nokill', '--no-kill', 'slurm.sh', @longer);
slurm_lose_node($run, 'ftn2', 60);
my $here = own_mpi(); # the loss of a node is repaired in the running job
ok(slurm_says($run, $here ? qr/: repaired in /m : qr/node ftn2 does not answer; going on without it/),
    'no-kill: the job goes on without the node');
ok(slurm_await(sub { job_field($run->{id}, 'NumNodes') =~ /^2\b/ }), '... which Slurm takes out of the allocation');
slurm_ends($run, '... and ends well', $more, 200);
is(job_field($run->{id}, 'Restarts'), 0, '... in the same allocation');
is(scalar(() = $run->{log} =~ /relaunching/g), $here ? 0 : 1, $here ? '... without a relaunch' : '... by one relaunch');
node_on('ftn2');

# ---- a node whose slurmd dies ----------------------------------------------------------------

$run = slurm_case('slurmd', 'slurm.sh', @longer);
ok(slurm_step($run, 80), 'slurmd: the job runs');
my ($slurmd) = node_processes('ftn2', 'slurmd');
is(kill('KILL', $slurmd // ()), 1, 'slurmd: that of the second node is killed');
slurm_ends($run, 'slurmd: the job is queued again and ends well', $more, 200);
is(job_field($run->{id}, 'Restarts'), 1, '... as a restart of the job');
is(scalar(node_processes('ftn2', 'heat2d')), 0, '... and no rank is left on the node');
node_off('ftn2');
node_on('ftn2');

# ---- the wrong way -----------------------------------------------------------------------------

my ($code, $said) = slurm_command('twice', undef, qw(srun -N2 -n2 ftkit run -n 2 true));
is($code, 2, 'srun ftkit run is refused');
like($said, qr/srun has started ftkit run 2 times: leave srun out/, '... with what to do');

# ---- the end of the job --------------------------------------------------------------------------

my $now = time();
($code, $said) = slurm_command('end', undef, qw(srun -N1 -n1 -t5 ftkit run -n 1 --spares 0 --), 'sh',
    '-c', 'echo "end=$SLURM_JOB_END_TIME"');
my ($end) = $said =~ /^end=(\d+)$/m;
ok(defined($end) && $end > $now + 290 && $end < $now + 360, 'ranks learn when the job ends')
    or diag($said);

# ---- the time limit ------------------------------------------------------------------------------

# One minute is the shortest limit.  The solver needs longer: each start halts before the limit
# and the script queues the job again, until the solver has ended.
for my $case (
    # Slurm sends it within 30 seconds; 20 ms of sleep in each step
    ['a signal of Slurm', 'signal', 1800, '--signal=B:USR2@30'],
    # a harmless signal in place of the signal of the script
    ['without a signal', 'deadline', 3600, '--signal=B:URG@1'],
    )
{
    my ($what, $name, $steps, $signal) = @$case;
    my ($long, @slow) = slurm_heat2d($steps);
    $run = slurm_case($name, '--time=1', $signal, 'slurm.sh', @slow);
    slurm_ends($run, "time limit, $what: the job ends well", $long, 400);
    cmp_ok(job_field($run->{id}, 'Restarts'), '>=', 1, '... after a restart');
    my $continued = () = $run->{log} =~ /^heat2d: continues/mg;
    is($continued, job_field($run->{id}, 'Restarts'), '... each from a set');
    unlike($run->{log}, qr/DUE TO TIME LIMIT/, '... none because of the limit');
}

# ---- a signal that goes to the daemons of MPI ----------------------------------------------------

$run = slurm_case('steps', 'slurm.sh', @heat);
ok(slurm_step($run, 20), 'steps: the job runs');
slurm_signal($run, 'USR2');
slurm_ends($run, 'steps: the job halts, is queued again, and ends well', $want);
is(job_field($run->{id}, 'Restarts'), 1, '... after one restart');

# ---- scancel ------------------------------------------------------------------------------------

$run = slurm_case('scancel', 'slurm.sh', @longer);
ok(slurm_step($run, 20), 'scancel: the job runs');
slurm_do('scancel', $run->{id});
my ($state) = await_job($run->{id}, 60);
is($state, 'CANCELLED', 'scancel: the job is not queued again');
ok(slurm_says($run, qr/halt \(SIGTERM\): set \d+ is durable/), '... it has halted');

# ---- salloc on a machine that is no node of the job --------------------------------------------

my @salloc = (qw(salloc -Q -N2 --ntasks-per-node=2 ftkit run -n 2 --spares 2 --), @heat);
($code, $said) = slurm_command('salloc', undef, @salloc);
is($code, 2, 'salloc elsewhere: refused when the nodes do not see TMPDIR');
like($said, qr/its node ftn\d does not see .*TMPDIR/, '... with what to do');
my $work;
($code, $said, $work) = slurm_command('shared', slurm_shared(), @salloc);
is($code, 0, 'salloc elsewhere: with a TMPDIR that the nodes see') or diag($said);
ok(slurp("$work/out") eq $want, '... the right result');

($code, $said, $work) = slurm_command('inside', undef, qw(salloc -Q -N2 --ntasks-per-node=2 srun
    --overlap -N1 -n1), @salloc[4 .. $#salloc]);
is($code, 0, 'salloc elsewhere: with ftkit run on a node') or diag($said);
ok(slurp("$work/out") eq $want, '... the right result');

# ---- restart-only under MPICH --------------------------------------------------------------------

SKIP: {
    my $mpicc = 'mpicc.mpich';
    skip("no $mpicc", 1) if system("command -v $mpicc >/dev/null 2>&1") != 0;
    my $made = ($ENV{BUILD} // 'build') . '/plain';
    my $built = `cd '@{[top()]}' && scripts/guard 170 -- make -j2 BUILD=$made MPICC=$mpicc \\
        $made/examples/heat2d $made/ftkit 2>&1`;
    is($?, 0, 'MPICH: a restart-only ftkit is built') or diag($built);
    my ($program, @rest) = @heat;
    # on one node: between nodes by TCP, MPI_Finalize of MPICH 4.0.2 with UCX hangs
    $run = slurm_case('mpich', '--nodes=1', '--ntasks-per-node=4', 'slurm-restart.sh', build() . '/plain/examples/heat2d', @rest);
    slurm_kill_rank($run, 2, 100);
    slurm_ends($run, 'MPICH: a rank is killed, the job is queued again and ends well', $want);
    is(job_field($run->{id}, 'Restarts'), 1, '... as a restart of the job');
}

done_testing();
