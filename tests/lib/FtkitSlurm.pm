# A Slurm cluster on this machine, from Debian's packages: munged, slurmctld, and a slurmd for
# each node.  A node has name spaces of its own: its host name, /dev/shm, processes and a
# directory for temporary files.  So killing the first process of a node ends all its processes
# at once, like a loss of power.  All files are below one directory, and all daemons end with
# the test.
#
# SPDX-License-Identifier: BSD-3-Clause
package FtkitSlurm;
use strict;
use warnings;
use Cwd qw(abs_path);
use Exporter 'import';
use File::Temp qw(tempdir);
use IO::Socket::INET;
use POSIX ();
use FtkitTest;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(slurm_missing slurm_start slurm_await slurm_heat2d slurm_case slurm_step slurm_says
    slurm_kill_rank
    slurm_lose_node slurm_ends slurm_signal slurm_command slurm_shared slurm_do slurm_log submit job_field await_job await_state node_off
    node_on node_processes);

my ($dir, $owner, %daemon, @nodes);
my $CPUS = 8; # of each node, as Slurm counts them; the machine has fewer

sub spew
{
    my ($path, $text) = @_;
    open(my $f, '>', $path) or die "$path: $!\n";
    print $f $text;
    close($f) or die "$path: $!\n";
    return;
}

# Why there can be no cluster here; '' if there can be one.
sub slurm_missing
{
    for my $program (qw(slurmctld slurmd munged sbatch srun scontrol squeue setpriv unshare)) {
        return "no $program (Debian packages slurm-wlm and munge)"
            if system("command -v $program >/dev/null 2>&1") != 0;
    }
    return 'only root can start nodes' if $> != 0;
    return 'needs the right to make name spaces'
        if system('unshare -muip -f --mount-proc true >/dev/null 2>&1') != 0;
    return '';
}

# Ports that nobody uses now, below those that the system gives to connections: such a port could
# be taken before the daemon has it.
sub free_ports
{
    my ($count) = @_;
    my @sockets;
    for (1 .. 1000) {
        my $port = 10000 + int(rand(20000));
        my $socket = IO::Socket::INET->new(LocalAddr => '0.0.0.0', LocalPort => $port, Listen => 1);
        push(@sockets, $socket) if $socket;
        return map { $_->sockport() } @sockets if @sockets == $count;
    }
    die "no free ports: $!\n";
}

# Start a daemon that ends with this test; its output goes to a file.
sub daemon
{
    my ($name, @command) = @_;
    my $pid = fork() // die "fork: $!\n";
    if (!$pid) {
        open(STDIN, '<', '/dev/null');
        open(STDOUT, '>>', "$dir/$name.out");
        open(STDERR, '>&', \*STDOUT);
        exec('setpriv', '--pdeathsig', 'KILL', '--', @command) or POSIX::_exit(127);
    }
    $daemon{$name} = $pid;
    return;
}

# Run a command of Slurm; its output, with errors.  $? is its status.
sub slurm_do
{
    my (@command) = @_;
    local $ENV{SLURM_CONF} = "$dir/slurm.conf";
    open(my $f, '-|', 'sh', '-c', 'exec "$@" 2>&1', 'sh', @command) or die "$command[0]: $!\n";
    local $/;
    my $out = <$f> // '';
    close($f);
    return $out;
}

# What the daemons and the jobs have said, for the report of a failure.
sub slurm_log
{
    my ($lines) = @_;
    my $text = '';
    for my $path (sort glob("$dir/*.log")) {
        my @all = split(/\n/, slurp($path));
        splice(@all, 0, @all - $lines) if @all > $lines;
        $text .= join("\n", "---- $path", @all, '');
    }
    return $text;
}

sub write_files
{
    my ($more) = @_;
    my $host = (POSIX::uname())[1] =~ s/\..*//r;
    my ($port, @ports) = free_ports(1 + @nodes);
    my $list = join('', map { "NodeName=$nodes[$_] NodeAddr=127.0.0.1 Port=$ports[$_] "
            . "CPUs=$CPUS State=UNKNOWN\n" } 0 .. $#nodes);
    spew("$dir/slurm.conf", <<"END");
ClusterName=ftkit
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdParameters=config_overrides
SlurmctldTimeout=10
MessageTimeout=5
TCPTimeout=2
KillWait=1
SlurmctldDebug=debug
$more
ReturnToService=2
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/slurmctld.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdPidFile=$dir/%n.pid
SlurmdLogFile=$dir/%n.log
SlurmdSpoolDir=$dir/%n.spool
${list}PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
    spew("$dir/hosts", slurp('/etc/hosts') . "\n"
        . join('', map {"127.0.0.1 $_\n"} @nodes));
    # the shell is the first process of the node: the node lives on when slurmd is killed
    spew("$dir/node.sh", <<"END");
set -e
hostname "\$1"
mount --bind $dir/hosts /etc/hosts
mount -t tmpfs none /dev/shm
mount -t tmpfs none $dir/local
export SLURM_CONF=$dir/slurm.conf
rm -f $dir/\$1.pid
slurmd -D -N "\$1" &
wait || :
exec sleep infinity
END
    spew("$dir/munge.key", join('', map { chr(int(rand(256))) } 1 .. 128));
    chmod(0400, "$dir/munge.key");
    return;
}

sub node_on
{
    my ($node) = @_;
    daemon($node, qw(unshare --mount --uts --ipc --pid --fork --kill-child --mount-proc --),
        '/bin/sh', "$dir/node.sh", $node);
    return;
}

# End all processes of a node at once.
sub node_off
{
    my ($node) = @_;
    my $pid = delete $daemon{$node} or return;
    kill('KILL', $pid);
    waitpid($pid, 0);
    return;
}

# The processes of a node that have this name, as they are numbered here.
sub node_processes
{
    my ($node, $name) = @_;
    my ($first) = split(' ', slurp("/proc/$daemon{$node}/task/$daemon{$node}/children"));
    my $space = readlink("/proc/$first/ns/uts") // return;
    return grep { slurp("/proc/$_/comm") eq "$name\n"
            && (readlink("/proc/$_/ns/uts") // '') eq $space }
        map {m{(\d+)$}} glob('/proc/[0-9]*');
}

# Wait until a check is true; false after so many seconds (60).
sub slurm_await
{
    my ($check, $seconds) = @_;
    for (my $end = time() + ($seconds // 60) * pace(); time() < $end; sleep(0.1)) {
        my $got = $check->();
        return $got if $got;
    }
    return;
}

# Start so many nodes; more: further lines of slurm.conf.
sub slurm_start
{
    my ($count, $more) = @_;
    $owner = $$;
    $SIG{$_} = sub { exit(1) } for qw(INT TERM HUP); # so that everything is removed
    # not below the directory for temporary files, whose path may be too long for a socket
    $dir = tempdir('ftkit-slurm-XXXXXX', DIR => '/tmp', CLEANUP => 1);
    @nodes = map {"ftn$_"} 1 .. $count;
    mkdir("$dir/$_") or die "$dir/$_: $!\n" for qw(state local jobs);
    write_files($more // '');
    daemon('munged', 'munged', '--foreground', '--force', "--socket=$dir/munge.sock",
        "--key-file=$dir/munge.key", "--log-file=$dir/munged.log", "--pid-file=$dir/munged.pid",
        "--seed-file=$dir/munge.seed");
    slurm_await(sub { -S "$dir/munge.sock" }, 10) or die "munged does not start\n", slurm_log(20);
    {
        local $ENV{SLURM_CONF} = "$dir/slurm.conf";
        daemon('slurmctld', 'slurmctld', '-D', '-i');
    }
    node_on($_) for @nodes;
    slurm_await(sub {
        my $idle = () = slurm_do('sinfo', '-h', '-N', '-o', '%T') =~ /^idle$/mg;
        return $idle == $count;
    }, 30) or die "the nodes do not come up\n", slurm_do('sinfo', '-N', '-l'), slurm_log(20);
    return $dir;
}

sub slurm_stop
{
    return if !$dir || $$ != $owner;
    my $status = $?;
    node_off($_) for sort keys %daemon; # kills the others, too
    $? = $status;
    return;
}
END { slurm_stop() }

# Submit a batch job with these arguments of sbatch; its number, or 0.
sub submit
{
    my (@arguments) = @_;
    my $said = slurm_do('sbatch', '--parsable', @arguments);
    my ($job) = $said =~ /^(\d+)$/m;
    diag("sbatch @arguments: $said") if !$job;
    return $job // 0;
}

sub job_field
{
    my ($job, $field) = @_;
    my ($value) = slurm_do('scontrol', '-o', 'show', 'job', $job) =~ /\b\Q$field\E=(\S*)/;
    return $value // '';
}

# Wait until the state of a job matches; the state, or '' after so many seconds.
sub await_state
{
    my ($job, $pattern, $seconds) = @_;
    my $state = slurm_await(sub {
        my $now = job_field($job, 'JobState');
        return $now =~ $pattern ? $now : undef;
    }, $seconds);
    return $state // '';
}

# Wait for the end of a job: its state, and its exit code.
sub await_job
{
    my ($job, $seconds) = @_;
    my $state = await_state($job, qr/^(?:COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)$/, $seconds);
    my ($code) = job_field($job, 'ExitCode') =~ /^(\d+)/;
    return ($state, $code // -1);
}

# ---- cases: a recipe of examples/batch, run with examples/heat2d -----------------------------

# The result of an undisturbed run of so many steps, and the command of a disturbed one.
sub slurm_heat2d
{
    my ($steps) = @_;
    my @size = ('-n', '64', '-s', $steps);
    my $program = build() . '/flt-examples/heat2d'; # which knows faults
    my $still = job(n => 2, spares => 0, program => $program, args => ['-o', 'out', @size]);
    die("the undisturbed run failed:\n$still->{log}") if $still->{rc} != 0 || !$still->{result};
    return ($still->{result}, $program, '-o', 'out', '--pidfile', 'pid', '-d', '20', @size);
}

# The environment of jobs on this machine.
sub surroundings
{
    my %env = (%ENV, PATH => build() . ":$ENV{PATH}", FTKIT_CHECKPOINT_PERIOD => '5 calls',
        FTKIT_LEVEL_HDF5_EVERY => $ENV{FTKIT_LEVEL_HDF5_EVERY} // '1 sets', OMPI_MCA_btl_tcp_if_include => 'lo',
        PRTE_MCA_hwloc_default_binding_policy => 'none', SLURM_CONF => "$dir/slurm.conf",
        REQUEUE_AFTER => 0, TMPDIR => "$dir/local"); # each node has its own
    return %env;
}

sub directory
{
    my ($name) = @_;
    my $work = "$dir/jobs/$name";
    mkdir($work) or die "$work: $!\n";
    return $work;
}

# A directory that all nodes see.
sub slurm_shared { return "$dir/jobs" }

# Submit a recipe, in a directory of this name: { id, dir, output }.  Arguments: those of sbatch and of
# the recipe.
sub slurm_case
{
    my ($name, @arguments) = @_;
    my $work = directory($name);
    s{^(slurm.*\.sh)$}{top() . "/examples/batch/$1"}e for @arguments;
    local %ENV = surroundings();
    delete $ENV{FTKIT_GUARD}; # the daemons of Slurm have started these processes
    my $id = submit("--chdir=$work", @arguments);
    return { id => $id, dir => $work, output => "$work/slurm-$id.out" };
}

# Run a command of the user in a directory of this name, with this TMPDIR (undef: the usual one):
# its code, and what it says.
sub slurm_command
{
    my ($name, $tmp, @command) = @_;
    my $work = directory($name);
    my $pid = fork() // die "fork: $!\n";
    if (!$pid) {
        %ENV = surroundings();
        $ENV{TMPDIR} = $tmp if $tmp;
        chdir($work);
        open(STDIN, '<', '/dev/null');
        open(STDOUT, '>', "$work/said");
        open(STDERR, '>&', \*STDOUT);
        exec(top() . '/scripts/guard', 60, '--', @command) or POSIX::_exit(127);
    }
    waitpid($pid, 0);
    return ($? >> 8, slurp("$work/said"), $work);
}

# Wait until rank 0 has come to a step; the step, or undef after a minute.
sub slurm_step
{
    my ($run, $step) = @_;
    return slurm_await(sub {
        my (undef, $at) = split(' ', slurp("$run->{dir}/pid.0"));
        return defined($at) && $at >= $step ? $at : undef;
    });
}

# Wait until the output of a job matches; false after a minute.
sub slurm_says
{
    my ($run, $pattern) = @_;
    return slurm_await(sub { slurp($run->{output}) =~ $pattern });
}

# Kill the process with this rank of MPI_COMM_WORLD when rank 0 has come to a step.
sub slurm_kill_rank
{
    my ($run, $rank, $step) = @_;
    my $killed = 0;
    if (slurm_step($run, $step)) {
        my @all = map { node_processes($_, 'heat2d') } @nodes;
        $killed = kill('KILL', grep {
            my $env = slurp("/proc/$_/environ");
            $env =~ /\b(?:OMPI_COMM_WORLD|PMI)_RANK=$rank\0/
                && $env =~ /\bSLURM_JOB_ID=$run->{id}\0/
        } @all);
    }
    is($killed, 1, "rank $rank is killed") or diag(slurp($run->{output}));
    return;
}

# A node loses its power when rank 0 has come to a step.
sub slurm_lose_node
{
    my ($run, $node, $step) = @_;
    my @lost = slurm_step($run, $step) ? node_processes($node, 'heat2d') : ();
    cmp_ok(scalar(@lost), '>', 0, "$node is lost, with processes of the job")
        or diag(slurp($run->{output}));
    node_off($node);
    unlink("$run->{dir}/pid.0"); # of this attempt
    return;
}

# Signal a job, by scancel with these options.
sub slurm_signal
{
    my ($run, $signal, @options) = @_;
    my $said = slurm_do('scancel', @options, "--signal=$signal", $run->{id});
    is($?, 0, "SIG$signal " . (@options ? "to the script" : "to the steps")) or diag($said);
    return;
}

# Wait until a job has ended well, with this result, in so many seconds (100); its log goes to $run->{log}.
sub slurm_ends
{
    my ($run, $name, $want, $seconds) = @_;
    my ($state, $code) = await_job($run->{id}, $seconds // 100);
    $run->{log} = slurp($run->{output});
    my $same = slurp("$run->{dir}/out") eq $want;
    ok($state eq 'COMPLETED' && $same, $name)
        or diag("state '$state', exit code $code", $same ? '' : ', another result', "\n",
            substr($run->{log}, -6000), slurm_do('sinfo', '-N', '-l'), slurm_log(15));
    return;
}

1;
