#!/usr/bin/perl
# `ftkit run` and `ftkit config`: what they start, what they start again, what they leave.
# tests/mpi/job.c plays the program and the library in it.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;
use Time::HiRes qw(time sleep);

my $build = $ENV{BUILD} // 'build';
my $ulfm = ($ENV{MPI_KIND} // 'ulfm') eq 'ulfm';
my $ftkit = "$build/ftkit";
my $job = "$build/mpi/job";
my $tmp = tempdir('ftkit-t-run.XXXXXX', TMPDIR => 1, CLEANUP => 1);
$ENV{TMPDIR} = $tmp;
delete $ENV{$_} for grep { /^FTKIT_/ && $_ ne 'FTKIT_GUARD' } keys %ENV;

sub slurp
{
    my ($path) = @_;
    open my $f, '<', $path or return '';
    local $/;
    return <$f> // '';
}

# Start a command under the guard; returns its process id.  Output goes to files.
sub begin
{
    my ($seconds, @command) = @_;
    unlink "$tmp/out", "$tmp/err", "$tmp/pid"; # of the last one
    my $pid = fork // die "fork: $!\n";
    return $pid if $pid;
    open STDIN, '<', '/dev/null';
    open STDOUT, '>', "$tmp/out";
    open STDERR, '>', "$tmp/err";
    exec 'scripts/guard', $seconds, '--', @command or die "exec: $!\n";
}

my ($code, $out, $err, $took);
sub finish
{
    my ($pid) = @_;
    waitpid $pid, 0;
    $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
    ($out, $err) = (slurp("$tmp/out"), slurp("$tmp/err"));
}

# Run a command to its end; sets $code, $out, $err, $took.  It must leave no process and
# no file of ftkit's.
sub job
{
    my $start = time;
    finish(begin(60, @_));
    $took = time - $start;
}

sub clean
{
    my ($what) = @_;
    my @files = glob "$tmp/{ftkit-run,prterun,prted}.*";
    my $ok = $err !~ /^guard: left behind/m && !@files;
    ok($ok, "$what: nothing is left") or diag("files: @files\n$err");
    system 'rm', '-rf', @files if @files; # the next one is not to blame
}

sub result
{
    my ($want, $what) = @_;
    is($code, $want, "$what: exit code") or diag($out, $err);
    clean($what);
}

# ---- the guard: what follows is worth nothing without it -----------------------------

job('sh', '-c', 'sleep 77 & setsid sleep 78 & exit 3');
is($code, 3, 'guard: exit code');
like($err, qr/^guard: left behind: sleep \(\d+\), sleep \(\d+\)$/m, 'guard: finds orphans');
finish(begin(1, 'sh', '-c', 'OMPI_COMM_WORLD_RANK=5 setsid sleep 79 & wait'));
is($code, 124, 'guard: timeout');
like($err, qr/^pid \d+  sleep  rank 5  state S/m, 'guard: shows what was running');
ok(!(grep { slurp($_) =~ /^sleep\0(77|78|79)\0/ } glob '/proc/[0-9]*/cmdline'),
    'guard: kills it all');

# ---- ftkit itself --------------------------------------------------------------------

job($ftkit, 'version');
result(0, 'version');
like($out, qr/^ftkit \d+\.\d+\.\d+ /, 'version: says it');
job($ftkit, 'help', 'run');
result(0, 'help run');
like($out, qr/--emulate-nodes K/, 'help run: names the options');
for my $args ([], ['walk'], ['help', 'walk']) {
    job($ftkit, @$args);
    is($code, 2, "usage: ftkit @$args");
}

job($ftkit, 'config');
result(0, 'config');
like($out, qr/^\[spares\]/m, 'config: prints the sections');
my $printed = $out;
open my $ini, '>', "$tmp/a.ini";
print $ini $printed;
close $ini;
job($ftkit, 'config', "$tmp/a.ini");
is($code, 0, 'config: reads what it prints') or diag($err);
my @keys = grep { /=/ } split /\n/, $printed;
is_deeply([grep { /=/ } split /\n/, $out], \@keys, 'config: and prints it again');
open $ini, '>', "$tmp/b.ini";
print $ini "[spares]\ncuont = 2\n";
close $ini;
job($ftkit, 'config', "$tmp/b.ini");
is($code, 2, 'config: an unknown key');
like($err, qr/cuont.*count|count.*cuont/s, 'config: names the nearest key');
like($err, qr/b\.ini:2|b\.ini.*line 2/, 'config: names file and line');
is($out, '', 'config: prints nothing else');
job($ftkit, 'config', "$tmp/none.ini");
is($code, 2, 'config: no such file');
job($ftkit, 'config', 'one', 'two');
is($code, 2, 'config: usage');
job($ftkit, 'config', '--document');
result(0, 'config --document');
like($out, qr/^\|.*FTKIT_SPARES_COUNT.*\|/m, 'config --document: a table');

# ---- run: options --------------------------------------------------------------------

for my $args (
    [], ['-n', '2'], ['true'], ['-n', '0', 'true'], ['-n', 'two', 'true'],
    ['-n', '2x', 'true'], ['-n', '2', '--spares', '-1', 'true'],
    ['-n', '2', '--relaunch', '', 'true'], ['-n', '2', '--timeout', '0', 'true'],
    ['-n', '2', '--timeout', 'nan', 'true'], ['-n', '2', '--wings', 'true'],
    ['-n', '2', '--emulate-nodes', '9', '--spares', '0', 'true'],
    )
{
    job($ftkit, 'run', @$args);
    is($code, 2, "usage: run @$args") or diag($out, $err);
    like($err, qr/^ftkit run: /m, '... says why');
}

SKIP: {
    skip 'the run profile is for ULFM', 1 unless $ulfm;
    subtest 'run --print' => sub {
        job($ftkit, 'run', '-n', 500, '--print', '--mpirun', '/x/mpirun', '--mpirun-arg',
            '--tag-output', '--', 'prog', '-n', q(it's));
        result(0, '--print');
        for my $flag (
            '/x/mpirun --with-ft ulfm', '--mca pml ob1', '--mca btl sm,tcp,self',
            '--mca coll ^han,hcoll,portals4', '--mca mpi_add_procs_cutoff 100000',
            '--mca async_mpi_finalize 1', '--prtemca state_base_recoverable 1',
            '--prtemca state_base_notify_errors 1', '--oversubscribe',
            '--mca mpi_yield_when_idle 1', '-x FTKIT_RUN_STATE', '-x FTKIT_RUN_ATTEMPT',
            '-x FTKIT_SPARES_COUNT', '-x FTKIT_REPORT_STDERR', 'FTKIT_SPARES_COUNT=1 ',
            'FTKIT_REPORT_STDERR=info ', 'FTKIT_RUN_ATTEMPT=0 ', '-n 501 ', '--tag-output',
            )
        {
            ok(index($out, $flag) >= 0, $flag) or diag($out);
        }
        like($out, qr/--tag-output prog -n 'it'\\''s'$/m, 'the program comes last, quoted');
        job($ftkit, 'run', '-n', 1, '--spares', 0, '--print', 'prog');
        unlike($out, qr/oversubscribe|yield/, 'one rank does not crowd a core');
        open my $f, '>', "$tmp/hosts";
        print $f "# ours\na slots=4\nb slots=4 # and\nb\n\nc\n";
        close $f;
        job($ftkit, 'run', '-n', 8, '--print', '--mpirun-arg', '--hostfile',
            '--mpirun-arg', "$tmp/hosts", 'prog');
        like($out, qr/ -n 11 /, 'spares for one of three nodes of a hostfile');
        job($ftkit, 'run', '-n', 8, '--print', '--mpirun-arg', '--host', '--mpirun-arg',
            'a:4,b:4', 'prog');
        like($out, qr/ -n 12 /, 'spares for one of two nodes of a list');
        local $ENV{FTKIT_SPARES_COUNT} = 3;
        local $ENV{FTKIT_REPORT_STDERR} = 'none';
        local $ENV{FTKIT_LEVEL_HDF5_KEEP} = 5;
        job($ftkit, 'run', '-n', 4, '--print', 'prog');
        like($out, qr/ -n 7 /, 'spares of the environment');
        unlike($out, qr/SPARES_COUNT=|STDERR=/, 'what the user set stays');
        like($out, qr/-x FTKIT_LEVEL_HDF5_KEEP /, 'and is handed on');
        job($ftkit, 'run', '-n', 4, '--spares', 1, '--print', 'prog');
        is($code, 2, 'two numbers of spares contradict each other');
        done_testing();
    };
}

# ---- run: ends -----------------------------------------------------------------------

my @small = ('run', '-n', 2, '--spares', 0);

job($ftkit, 'run', '-n', 2, $job, 'normal');
result(0, 'normal end');
unlike($err, qr/relaunch/, 'normal end: no relaunch');
job($ftkit, @small, $job, 'normal', 3);
result(3, 'the exit code of a job that closed its context');
job($ftkit, @small, $job, 'never', 7);
result(7, 'nothing was opened');
unlike($err, qr/relaunch/, 'nothing was opened: no relaunch');
job($ftkit, @small, $job, 'early');
clean('killed before it opened');
unlike($err, qr/relaunch/, 'killed before it opened: no relaunch');
job($ftkit, @small, $job, 'repaired', 3);
result(0, 'after a repair the code of mpirun does not count');
job($ftkit, @small, '--mpirun', "$tmp/none", $job, 'normal');
result(127, 'no mpirun');
like($err, qr/cannot start mpirun: .*No such file/, 'no mpirun: says so');
job($ftkit, @small, $job, 'daemon');
result(0, 'a daemon started by a rank');

SKIP: {
    skip 'takes ULFM', 2 unless $ulfm;
    job($ftkit, 'run', '-n', 3, '--spares', 0, $job, 'survive');
    result(0, 'a killed rank does not end the job');
    like($out, qr/^sum 19900$/m, 'and the others go on');
}
{
    local $ENV{FTKIT_X_Y} = 'z';
    job($ftkit, @small, $job, 'env', 'FTKIT_X_Y');
    like($out, qr/^FTKIT_X_Y=z$/m, 'settings reach the ranks');
}

# ---- run: relaunch -------------------------------------------------------------------

job($ftkit, @small, $job, 'lost', 1);
result(0, 'lost once');
like($err,
    qr/^ftkit run: attempt 1 ended .*; relaunching from the newest complete set \(1 of 3\)$/m,
    'lost once: one line says so');
is(scalar(() = $err =~ /relaunching/g), 1, 'lost once: one relaunch');
job($ftkit, @small, $job, 'two');
result(0, 'one context of two was open');
is(scalar(() = $err =~ /relaunching/g), 1, 'one context of two was open: one relaunch');
job($ftkit, @small, '--relaunch', 2, $job, 'lost', 99);
isnt($code, 0, 'always lost: a failure');
clean('always lost');
is(scalar(() = $err =~ /relaunching/g), 2, 'always lost: two relaunches');
like($err, qr/attempt 3 ended .*giving up \(2 of 2/, 'always lost: says that it gives up');
job($ftkit, @small, '--no-relaunch', $job, 'lost', 1);
isnt($code, 0, '--no-relaunch: a failure');
unlike($err, qr/relaunching/, '--no-relaunch: none');
job($ftkit, @small, '--relaunch', 1, $job, 'progress', 4);
result(0, 'progress is never punished');
is(scalar(() = $err =~ /relaunching .*\(1 of 1\)/g), 4, 'progress: four relaunches of one');

# ---- run: jobs that must be ended ----------------------------------------------------

sub gone
{
    my ($what) = @_;
    my @pids = $err =~ /^job: pid (\d+)$/mg;
    is(scalar @pids, 2, "$what: there were two ranks") or diag($err);
    my @there = grep { slurp("/proc/$_/cmdline") =~ /mpi.job/ } @pids;
    is("@there", '', "$what: they are gone");
}

job($ftkit, @small, '--no-relaunch', $job, 'fatal');
isnt($code, 0, 'fatal: a failure');
clean('fatal');
gone('fatal');
like($err, qr/fatal error: no copy of rank 1 survives/, 'fatal: says what it was');
cmp_ok($took, '<', 20, 'fatal: does not wait for ever');

job($ftkit, @small, '--timeout', 2, $job, 'hang');
result(124, 'timeout');
gone('timeout');
for my $rank (0, 1) {
    like($err, qr/^pid \d+  job  rank $rank  state/m, "timeout: shows rank $rank");
}

# Start a job that hangs, run $act with the process number of ftkit when both ranks are
# there, and take in the result.
sub disturb
{
    my ($act, @command) = @_;
    # the shell tells its number and becomes ftkit
    my $pid = begin(60, 'sh', '-c', 'echo $$ >"$0"; exec "$@"', "$tmp/pid", @command);
    my $end = time + 30;
    sleep 0.05 until slurp("$tmp/err") =~ /(job: pid.*){2}/s || time > $end;
    chomp(my $target = slurp("$tmp/pid"));
    $act->($target) if $target;
    finish($pid);
}

for my $signal (['TERM', 143], ['INT', 130]) {
    my ($name, $want) = @$signal;
    disturb(sub { kill $name, shift }, $ftkit, @small, $job, 'hang');
    result($want, "SIG$name");
    gone("SIG$name");
    unlike($err, qr/relaunching/, "SIG$name: no relaunch");
}

disturb(
    sub {
        my $children = slurp("/proc/$_[0]/task/$_[0]/children");
        kill 'KILL', split ' ', $children;
    },
    $ftkit, @small, $job, 'hangonce');
result(0, 'mpirun killed');
gone('mpirun killed');
like($err, qr/attempt 1 ended by signal 9 .*; relaunching/, 'mpirun killed: relaunched');

SKIP: {
    # mpirun still ends the job; only our directory stays
    skip 'mpirun of this MPI may not', 2 unless $ulfm;
    my $pid = begin(60, 'sh', '-c', '"$@" & echo $! >"$0"; wait; sleep 3', "$tmp/pid", $ftkit,
        @small, $job, 'hang');
    my $end = time + 30;
    sleep 0.05 until slurp("$tmp/err") =~ /(job: pid.*){2}/s || time > $end;
    chomp(my $target = slurp("$tmp/pid"));
    kill 'KILL', $target if $target;
    finish($pid);
    unlike($err, qr/^guard: left behind/m, 'ftkit killed: no process is left');
    gone('ftkit killed');
    system 'rm', '-rf', glob "$tmp/ftkit-run.*";
}

# ---- run: nodes ----------------------------------------------------------------------

SKIP: {
    skip 'takes ULFM', 1 unless $ulfm;
    subtest 'emulated nodes' => sub {
        my $mine = `hostname`;
        my $hosts = slurp('/etc/hosts');
        job($ftkit, 'run', '-n', 4, '--spares', 1, '--emulate-nodes', 2, $job, 'hosts');
        result(0, 'two nodes');
        if ($err =~ /cannot emulate nodes/) {
            like($out, qr/rank 4 of 5 .* node 3$/m, 'failure domains instead');
            done_testing();
            return;
        }
        for my $rank (0 .. 4) {
            my $node = $rank < 3 ? 1 : 2;
            like($out, qr/^rank $rank of 5 on ftnode$node = ftnode$node, node -$/m,
                "rank $rank is on node $node");
        }
        disturb(
            sub {
                # daemons of this run, the one of the second node came last
                my @daemons = grep {
                    slurp("/proc/$_/comm") eq "prted\n"
                        && index(slurp("/proc/$_/environ"), "FTKIT_RUN_STATE=$tmp/") >= 0
                } map { m{(\d+)} } glob '/proc/[0-9]*';
                kill 'KILL', (sort { $a <=> $b } @daemons)[-1];
            },
            $ftkit, @small, '--emulate-nodes', 2, $job, 'hangonce');
        result(0, 'a node is lost');
        like($err, qr/relaunching/, 'a node is lost: relaunched');
        is(`hostname`, $mine, 'the host keeps its name');
        is(slurp('/etc/hosts'), $hosts, 'and its hosts file');
        job($ftkit, 'run', '-n', 4, '--spares', 0, '--emulate-nodes', 2, $job, 'lost', 1);
        result(0, 'lost on two nodes');
        like($err, qr/relaunching/, 'lost on two nodes: relaunched');
        job($ftkit, 'run', '-n', 5, '--spares', 0, '--emulate-nodes', 2, $job, 'survive');
        result(0, 'a killed rank does not end the job on two nodes');
        job($ftkit, @small, '--emulate-nodes', 2, '--timeout', 2, $job, 'hang');
        result(124, 'timeout on two nodes');
        gone('timeout on two nodes');
        done_testing();
    };
}

unlink glob "$tmp/*";
done_testing();
