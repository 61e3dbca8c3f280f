#!/usr/bin/perl
# ftkit run under Slurm, on emulated nodes with the daemons of Slurm: mpirun starts its daemons by
# srun, a lost node costs a relaunch without it or a restart of the job, and the result is that of
# an undisturbed run.  tests/long/slurm.t has more cases.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitSlurm;
use FtkitTest;
use File::Temp qw(tempdir);
use POSIX ();
use Time::HiRes ();
use Test::More;

ulfm_only();

# ---- the scripts ---------------------------------------------------------------------------

my %script = map { m{([^/]+)$} => $_ } glob(top() . '/examples/batch/*.sh');
cmp_ok(scalar(keys %script), '>=', 6, 'there are scripts for batch systems');
my $lint = system('command -v shellcheck >/dev/null 2>&1') == 0;
for my $name (sort keys %script) {
    is(system('bash', '-n', $script{$name}), 0, "$name: its syntax");
  SKIP: {
        skip('no shellcheck', 1) if !$lint;
        my $said = `shellcheck '$script{$name}' 2>&1`;
        is($?, 0, '... and shellcheck') or diag($said);
    }
}
my ($shown) = slurp(top() . '/docs/slurm.md') =~ /^```bash\n(.*?)^```$/ms;
is($shown, slurp($script{'slurm.sh'}), 'the page shows the script that is tested');
for my $name (qw(pbs.sh lsf.sh flux.sh)) {
    like(slurp($script{$name}), qr/Not run on such a system/, "$name: says that it was not run");
}

# Whether the scripts queue the job again: with commands of our own, and a job that ends with $code,
# after a signal to the script, or after more of them while the job ends.
sub queues_again
{
    my ($name, $program, $code, $after, $signal, $times) = @_;
    my $bin = tempdir(DIR => scratch());
    for my $case ([$program, "trap '' USR2 TERM; echo \$\$ >$bin/up; " . ($signal ? 'while [ ! -e ' . "$bin/over" . ' ]; do sleep 0.05; done; ' : '')
            . "exit $code"], ['scontrol', "echo \"\$@\" >>$bin/asked"])
    {
        write_file("$bin/$case->[0]", "#!/bin/sh\n$case->[1]\n");
        chmod(0755, "$bin/$case->[0]");
    }
    my $pid = fork() // die "fork: $!\n";
    if (!$pid) {
        %ENV = (%ENV, PATH => "$bin:$ENV{PATH}", SLURM_JOB_ID => 7, SLURM_JOB_NODELIST => 'a',
            SLURM_NTASKS => 4, SLURM_NTASKS_PER_NODE => 2, REQUEUE_AFTER => $after);
        open(STDOUT, '>', "$bin/out");
        exec('bash', $script{$name}, 'prog') or POSIX::_exit(127);
    }
    if ($signal) {
        slurm_await(sub { -s "$bin/up" });
        kill($signal, $pid);
        write_file("$bin/over", ''); # a shell takes a signal when its command has ended
        for (2 .. $times // 1) {
            Time::HiRes::sleep(0.001); # spread over the end of the job
            kill($signal, $pid);
        }
    }
    waitpid($pid, 0);
    is($? >> 8, $code, "$name: the exit code is $code");
    return (slurp("$bin/asked"), slurp("$bin/out"));
}
my @restart = ('slurm-restart.sh', 'srun');
is((queues_again('slurm.sh', 'ftkit', 75, 0))[0], "requeue 7\n", '... is queued again');
is((queues_again('slurm.sh', 'ftkit', 75, 0, 'USR2'))[0], "requeue 7\n", '... also when asked');
is((queues_again('slurm.sh', 'ftkit', 75, 0, 'USR2', 60))[0], "requeue 7\n", '... and asked while it ends') for 1 .. 5;
is((queues_again('slurm.sh', 'ftkit', 75, 0, 'TERM'))[0], '', '... not after scancel');
is((queues_again('slurm.sh', 'ftkit', 0, 0))[0], '', '... is not queued again');
my ($asked, $said) = queues_again('slurm.sh', 'ftkit', 75, 60);
is($asked, '', '... is not queued again when it halts at once');
like($said, qr/^halted after \d s: not queued again/m, '... says so');
is((queues_again(@restart, 9, 0))[0], "requeue 7\n", '... is queued again');
is((queues_again(@restart, 9, 0, 'TERM'))[0], '', '... not after scancel');

# ---- which nodes, with a scontrol of our own ---------------------------------------------------

my $fake = scratch() . '/bin';
mkdir($fake) or die "$fake: $!\n";
for my $case (['scontrol', 'echo "$SLURM_JOB_NODELIST" | tr , "\n"'], ['squeue', 'echo NONE']) {
    my ($name, $line) = @$case;
    open(my $f, '>', "$fake/$name") or die "$fake/$name: $!\n";
    print $f "#!/bin/sh\n$line\n";
    close($f);
    chmod(0755, "$fake/$name");
}

# What `ftkit run` would do in a job of these nodes and tasks.
sub printed
{
    my ($nodes, $tasks, @args) = @_;
    local %ENV = (%ENV, PATH => "$fake:$ENV{PATH}", SLURM_JOB_ID => 7,
        SLURM_JOB_NODELIST => $nodes, SLURM_TASKS_PER_NODE => $tasks,
        SLURM_JOB_NUM_NODES => scalar(split(/,/, $nodes)));
    my ($code, $out, $err) = command('run', '--print', @args, '--', 'prog');
    return $code == 0 ? $out : "$code: $err";
}

my @five = ('-n', 4, '--spares', 1);
like(printed('a,b,c', '2(x2),1', @five), qr/ --host a:2,b:2,c:1 /, 'as many as Slurm has planned');
like(printed('a,b', '8,4', @five), qr/ --host a:8,b:4 /, '... or more');
for my $tasks ('1(x3)', '2,1(x2)', 'many', '', '3(x', '2(x0)') {
    like(printed('a,b,c', $tasks, @five), qr/ --host a:2,b:2,c:1 /, "equal shares for '$tasks'");
}
like(printed('a,b,c', '3(x3)', '-n', 6), qr/ -n 9 /, 'spares for one of three nodes');
like(printed('elsewhere', '5', @five), qr/ --host elsewhere:5 /, 'a single node elsewhere');
like(printed('a,b', '4(x2)', @five), qr/plm_ssh_agent '\S*ftkit slurm-agent'/, 'by the agent');
unlike(printed('a,b', '4(x2)', @five, '--host', 'x:5'), qr/slurm-agent|--host a/,
    'nodes of the user instead');
my ($self) = split(/\./, (POSIX::uname())[1]);
unlike(printed($self, '5', @five), qr/slurm-agent|--host/, 'a single node, which is this one');
{
    local @ENV{qw(SLURM_PROCID SLURM_STEP_NUM_TASKS)} = (1, 2);
    like(printed('a,b', '4(x2)', @five), qr/^2: .*started ftkit run 2 times/, 'srun ftkit run');
}
unlink("$fake/scontrol");
symlink('/bin/false', "$fake/scontrol") or die "scontrol: $!\n";
like(printed('a,b', '4(x2)', @five), qr/^1: .*cannot read the nodes of job 7/, 'no scontrol');

# ---- the cluster -------------------------------------------------------------------------------

my $missing = slurm_missing();
if ($missing) {
  SKIP: { skip($missing, 1) }
    done_testing();
    exit(0);
}
slurm_start(6);
my ($want, @heat) = slurm_heat2d(200);

# ---- signals; the job goes on beside the next one ---------------------------------------------

my $signals;
{
    local $ENV{FTKIT_LEVEL_HDF5_EVERY} = '10000 sets'; # none without a signal
    $signals = slurm_case('signals', '--nodelist=ftn[4-6]', 'slurm.sh', @heat);
    ok(slurm_step($signals, 20), 'signals: the job runs');
    is(scalar(() = glob("$signals->{dir}/*.ftkit/set-*")), 0, '... without a set in files');
    slurm_signal($signals, 'USR1', '--batch');
    ok(slurm_await(sub { my @made = glob("$signals->{dir}/*.ftkit/set-*/manifest") }),
        '... a set is written');
    slurm_signal($signals, 'USR2', '--batch');
}

# ---- three losses --------------------------------------------------------------------------

my $run;
{
    # the job stands still in a set after some 110 steps, until it has lost the first node
    local @ENV{qw(FTKIT_FAULT FTKIT_FAULT_LOG)} = ('ckpt.begin:0:24:hold@*', slurm_shared() . '/losses/faults');
    $run = slurm_case('losses', '--nodelist=ftn[1-3]', 'slurm.sh', @heat);
}
slurm_kill_rank($run, 1, 30);
slurm_lose_node($run, 'ftn3', 60);
my $here = own_mpi(); # the loss of a node is repaired in the running job
ok(slurm_says($run, $here ? qr/^heat2d: continues at step \d+, set \d+, repair 2 /m
        : qr/^heat2d: continues at step \d+, set \d+$/m), 'the job goes on without the node');
node_on('ftn3');
ok(await_held($run->{dir}), 'the job comes to a set after some 110 steps');
slurm_lose_node($run, 'ftn1', 90);
let_go($run->{dir});
slurm_do(qw(scontrol update nodename=ftn1 state=down reason=lost));
is($?, 0, 'Slurm is told that the first node is lost');
node_on('ftn1');
slurm_ends($run, 'the job ends well, with the result of the undisturbed run', $want);
my ($first, $second, $more) = split(/^(?=job \d+, restart)/m, $run->{log});
ok(defined($second) && !defined($more), 'the script has run twice') or diag($run->{log});
is(job_field($run->{id}, 'Restarts'), 1, '... because Slurm has started the job again');
like($first, qr/^job \d+, restart 0, on ftn\[1-3\]$/m, 'first start: on three nodes');
like($first, qr/1 rank replaced/, '... the lost rank is replaced');
like($first, $here ? qr/repaired in .*repaired in /s : qr/node ftn3 does not answer; going on without it/,
    '... the lost node is left out');
like($first, $here ? qr/rank \d from the copy at rank \d.*rank \d from the copy at rank \d/s
    : qr/restored set \d+ from files/, $here ? '... with the data of a buddy' : '... with the data of the files');
like($second, qr/^job \d+, restart 1, on ftn\[1-3\]$/m, 'second start: on three nodes');
like($second, qr/restored set \d+ from files/, '... with the data of the files');
unlike($run->{log}, qr/odls|plm_ssh_agent/, 'daemons say nothing');

slurm_ends($signals, 'signals: the job halts, is queued again, and ends well', $want);
is(job_field($signals->{id}, 'Restarts'), 1, '... after one restart');
like($signals->{log}, qr/^heat2d: continues/m, '... from a set');

done_testing();
