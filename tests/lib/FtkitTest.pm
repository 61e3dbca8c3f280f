# Running failing jobs from TAP tests.
#
# SPDX-License-Identifier: BSD-3-Clause
package FtkitTest;
use strict;
use warnings;
use Cwd qw(abs_path);
use Digest::MD5 'md5_hex';
use Exporter 'import';
use File::Basename qw(dirname);
use File::Path qw(remove_tree make_path);
use JSON::PP 'decode_json';
use List::Util 'sum0';
use File::Temp qw(tempdir);
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(job command builds survives in_turn in_any_order victims all_cases pairwise selected is_skipped chain basis of_all_jobs once reference
    build top slurp scratch events event_texts packages ulfm_only asleep_in_waits
    nodes_possible own_mpi died_at_end near test_data write_file await_file process_of kill_rank hold_ranks release_ranks
    kill_process kill_mpirun mpirun_of pace await_held let_go await_flip apart left_behind);

my $top = abs_path(dirname(__FILE__) . '/../..');
my $build = abs_path($ENV{BUILD} // "$top/build");
my $dir = tempdir('ftkit-test-XXXXXX', TMPDIR => 1, CLEANUP => 1);
my %reference;
my $count = 0;
my $own_shm = 0; # whether nobody else uses /dev/shm

# FTKIT_TEST_JOBS=3,7-9: only these jobs of a file run, by their numbers; the tests of the other jobs
# are skipped, with the number of the job.  A run of once() has no number.
my %wanted = map { $_ => 1 } map { /^(\d+)-(\d+)$/ ? $1 .. $2 : $_ } split(/,/, $ENV{FTKIT_TEST_JOBS} // '');
my ($number, $shared_run, $skipped, $in_chain) = (0, 0, 0, 0);
if (%wanted) {
    no warnings 'redefine';
    my ($ok, $diag) = (Test::Builder->can('ok'), Test::Builder->can('diag'));
    *Test::Builder::ok = sub { return $skipped ? $_[0]->skip("job $skipped: " . ($_[2] // '')) : goto &$ok };
    *Test::Builder::diag = sub { return $skipped ? () : goto &$diag };
}

require "$top/scripts/guard";

# Each job pays for page faults, which are slow on some machines.  Each rank reads two tables of 2 MiB
# of Open MPI's agreement at its end.  They come from a heap that has large pages and one arena.
# hwloc loads its plugins into each rank, and with them libxml2 and the library of CUDA; PMIx loads
# a plugin that compresses.  No test needs these plugins.  Of each job mpirun reads the registers of all PCI
# devices, one at a time; in a virtual machine each of these reads leaves the machine.  Where devices are does
# not matter to a test.
if (!all_cases()) {
    $ENV{GLIBC_TUNABLES} //= join(':', map {"glibc.malloc.$_"} 'hugetlb=1', 'arena_max=1',
        'mmap_threshold=16777216', 'top_pad=4194304');
    $ENV{HWLOC_PLUGINS_PATH} //= '/nonexistent';
    $ENV{HWLOC_COMPONENTS} //= '-linux:pci';
    $ENV{PMIX_MCA_pcompress} //= '^zlib';
    $ENV{PMIX_MCA_pcompress_base_silence_warning} //= 1;
}

# Limits of time are multiplied by this number, as scripts/guard does it: see scripts/pace.
sub pace { return $ENV{FTKIT_TEST_PACE} // 1 }

# Whether the last job of the file was not wanted: nothing that its tests need has to run.
sub is_skipped { return $skipped }

# Jobs that need each other have one number: all of them run, or none.
sub chain {
    my ($jobs) = @_;
    return $jobs->() if !%wanted;
    $skipped = $wanted{++$number} ? 0 : $number;
    $in_chain++;
    $skipped ? ok(0, 'jobs that need each other') : $jobs->(); # ok() skips, with the number
    $in_chain--;
    return;
}

# A job that other jobs of the file go on from: it has no number and always runs.
sub basis {
    my ($run) = @_;
    $shared_run++;
    $skipped = 0;
    my @result = $run->();
    $shared_run--;
    return wantarray ? @result : $result[0];
}

# A test of what all jobs of a file have in common: it is skipped when only some of them run.
sub of_all_jobs {
    my ($tests) = @_;
    return $tests->() if !%wanted;
    Test::More->builder->skip('only some jobs run');
    return;
}

sub top { return $top }
sub build { return $build }
sub scratch { return $dir }

# Real data, which are not part of the project; the file may be missing.
sub test_data { my ($name) = @_; return ($ENV{FTKIT_TEST_DATA} // "$top/../shared/data") . "/$name" }

sub slurp {
    my ($path) = @_;
    open(my $f, '<', $path) or return '';
    local $/;
    my $text = <$f>;
    close($f);
    return $text // '';
}

# The lines of an event log that are whole, in the order of their times.
sub events {
    my ($log) = @_;
    my @all = map { split(/^/m, slurp($_)) } glob("$log/*.jsonl");
    return sort { $a->{t} <=> $b->{t} } map { decode_json($_) } grep {/\}$/} @all;
}

# Its texts, one a line.
sub event_texts {
    return join('', map {"$_->{text}\n"} grep { $_->{event} eq 'text' } events(@_));
}

# Further libraries for a program that is linked with the static library, as text for a shell.
sub packages {
    my $made = slurp("$build/mpi.mk");
    my ($hdf5) = $made =~ /^HDF5_PKG :=[ \t]*(.*)$/m;
    my ($libs) = $made =~ /^HDF5_LIBS :=[ \t]*(.*)$/m;
    return "\$(pkg-config --cflags --libs $hdf5 libxxhash inih libisal) $libs -lpthread -lm";
}

sub ulfm_only {
    plan(skip_all => 'needs an MPI with ULFM') if ($ENV{MPI_KIND} // 'ulfm') ne 'ulfm';
    return;
}

# Ranks of Open MPI that wait sleep for a moment in place of sched_yield(): for files with many jobs, whose
# ranks would take two cores for their waits.  With --all they wait as those of a user do.
sub asleep_in_waits {
    return if all_cases();
    $ENV{OMPI_MCA_threads_pthreads_yield_strategy} = 'nanosleep';
    # not the 1 ns of Open MPI: so many system calls take a third of the CPU time of a job
    $ENV{OMPI_MCA_threads_pthreads_nanosleep_time} = 200_000;
    return;
}

# Whether the MPI is that of scripts/openmpi, whose recipe this is a test of.
sub own_mpi {
    return slurp("$build/mpi.mk") =~ m{^MPICC := \S*/openmpi-[\d.]+-ulfm-r\d+/bin/mpicc$}m;
}

# Emulated nodes need the right to make name spaces.
sub nodes_possible {
    return system('unshare -m -u true >/dev/null 2>&1') == 0;
}

# A directory for the shared memory of a job.  Open MPI 5.0 names the files by 16 bits of a hash
# of mpirun's pid.  Two jobs at once had the same names: one job crashed, the other hung.
sub shared_memory {
    return -d '/dev/shm' && -w _ ? tempdir('ftkit-test-XXXXXXXX', DIR => '/dev/shm', CLEANUP => 1) : undef;
}

# Let the jobs of this file have a /dev/shm and a TMPDIR of their own, so that what they leave can be
# seen (left_behind) while other files run.  The file begins again in a name space, where it may.
sub apart {
    my $is_apart = delete $ENV{FTKIT_TEST_APART};
    if (!defined($is_apart) && nodes_possible()) {
        remove_tree($dir); # exec() runs no END block
        local $ENV{FTKIT_TEST_APART} = 1;
        my $begin = 'mount -t tmpfs none /dev/shm || FTKIT_TEST_APART=0; exec "$@"';
        exec('unshare', '-m', '--propagation', 'private', 'sh', '-c', $begin, 'sh', $^X, $0, @ARGV)
            or die("unshare: $!\n");
    }
    $own_shm = $is_apart;
    make_path($ENV{TMPDIR} = "$dir/tmp");
    return;
}

# What the jobs of a file that is apart() have left; processes that end may still remove files.
sub left_behind {
    my @left;
    for (my $end = time() + 10 * pace(); time() < $end; sleep(0.2)) {
        my @places = ("$dir/tmp", $own_shm ? '/dev/shm' : ());
        @left = split(/\n/, qx(find @places -mindepth 1 ! -type d));
        last if !@left;
    }
    return join(' ', @left);
}

# Run one job under a hard timeout.  Options: n, spares, run (more arguments of ftkit run),
# program, args, env (hash), fault, timeout, keep (directory of an earlier job), stdin (a file) or
# pipe (a command of the shell whose output comes by a pipe), as (the number of a user; keep and TMPDIR
# are the caller's, who is root).
# Returns a hash: rc, log, dir, faults (lines of faults that came to pass), seconds.
sub job {
    my (%o) = @_;
    my $work = $o{keep} // sprintf('%s/job%04d', $dir, ++$count);
    if (%wanted && !$shared_run && !$in_chain) {
        $skipped = $wanted{++$number} ? 0 : $number;
        return { rc => 0, log => '', dir => $work, faults => [], seconds => 0, result => '' } if $skipped;
    }
    make_path($work);
    local %ENV = (%ENV, FTKIT_LEVEL_HDF5_DIRECTORY => $work,
        FTKIT_CHECKPOINT_PERIOD => '5 calls', FTKIT_LEVEL_HDF5_EVERY => '2 sets',
        FTKIT_FAULT_LOG => "$work/faults", FTKIT_RECOVER_TIMEOUT => int(6 * pace()) . 's', %{ $o{env} // {} });
    $ENV{FTKIT_FAULT} = $o{fault} if $o{fault};
    my $own = grep { $_ eq '--emulate-nodes' } @{ $o{run} // [] }; # a /dev/shm for each
    my $shared = $own ? undef : shared_memory();
    local $ENV{OMPI_MCA_btl_sm_backing_directory} = $shared if $shared;
    unlink("$work/faults", "$work/faults.held", "$work/faults.go", "$work/out");
    my $n = $o{n} // 4;
    my $program = $o{program} // "$build/mpi/solver";
    my @as = $o{as} ? ('setpriv', "--reuid=$o{as}", "--regid=$o{as}", '--clear-groups', '--') : ();
    chown($o{as}, $o{as}, $work, grep {defined} $shared) if $o{as};
    my @command = ($o{timeout} // 60, @as, "$build/ftkit", 'run',
        '-n', $n, '--spares', $o{spares} // 1, @{ $o{run} // ['--no-relaunch'] }, '--',
        $program, @{ $o{args} // ['-o', "$work/out"] });
    my $start = time();
    my $pid = fork();
    if (!$pid) {
        open(STDIN, $o{pipe} ? '-|' : '<', $o{pipe} // $o{stdin} // '/dev/null');
        open(STDOUT, '>', "$work/log");
        open(STDERR, '>&', \*STDOUT);
        chdir($work);
        become_guard(@command);
    }
    $o{while}->($work) if $o{while};
    waitpid($pid, 0);
    my $rc = $? >> 8;
    remove_tree($shared) if $shared;
    my @faults = split(/\n/, slurp("$work/faults"));
    return { rc => $rc, log => slurp("$work/log"), dir => $work, faults => \@faults,
        seconds => time() - $start, result => slurp("$work/out") };
}

# In a process that was forked: run the command as scripts/guard does, and end.  Files of the test are closed, as
# exec closes them: they may have locks.
sub become_guard {
    POSIX::close($_) for grep { $_ > 2 } map { m{/(\d+)$} } glob('/proc/self/fd/*');
    POSIX::_exit(eval { FtkitGuard::guard(@_) } // 127);
}

# Run a command of ftkit under a hard timeout: its code, what it says and its errors.
sub command {
    my @args = @_;
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', "$dir/stdout";
        open STDERR, '>', "$dir/stderr";
        # only a command that starts processes needs the guard; of the others SIGALRM ends one that hangs
        if (($args[0] // '') =~ /^(?:run|test|teams)$/) {
            become_guard(100, "$build/ftkit", @args);
        }
        alarm 600;
        exec "$build/ftkit", @args or die "exec: $!\n";
    }
    waitpid $pid, 0;
    return ($? & 127 ? 128 + ($? & 127) : $? >> 8, slurp("$dir/stdout"), slurp("$dir/stderr"));
}

# Run a command of the shell that builds something, for so many seconds at most, as a test: whether
# it ends well, and its output.  After a failure the lines with errors come last.
sub builds {
    my ($name, $seconds, $command) = @_;
    my $out = `'$top/scripts/guard' $seconds -- sh -c '$command' 2>&1 </dev/null`;
    my $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $good = ok($code == 0, $name);
    if (!$good) {
        my @errors = grep { /error|warning|\*\*\*|No space|Killed/i } split(/^/m, $out);
        diag(substr($out, -4000), "\n$name: exit code $code",
            $code == 124 ? ", $seconds s were over" : '', ', lines with errors: ',
            @errors ? @errors : "none\n");
    }
    return ($good, $out);
}

# The result of a job that other files of tests run, too: it runs once in a run of scripts/check.
sub once {
    my ($what, $run) = @_;
    my $kept = $ENV{FTKIT_TEST_KEPT};
    my $path = $kept ? "$kept/" . md5_hex("$build $what") : undef;
    return slurp($path) if $path && -s $path;
    $shared_run++;
    my $result = $run->();
    $shared_run--;
    rename(write_file("$path.$$", $result), $path) or die("$path: $!\n") if $path && $result ne '';
    return $result;
}

# The result of the undisturbed solver on n ranks with the given arguments.  It does not depend on the
# pause in each step (-d), so that run makes none.
sub reference {
    my ($n, @args) = @_;
    for my $i (reverse(0 .. $#args - 1)) {
        splice(@args, $i, 2) if $args[$i] eq '-d';
    }
    my $key = join(' ', $n, @args);
    if (!exists $reference{$key}) {
        my $work = "$dir/reference" . scalar(keys %reference);
        $reference{$key} = once("solver $key", sub {
            my $j = job(n => $n, spares => 0, keep => $work, args => ['-o', "$work/out", @args],
                env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_FAULT => '' });
            die("the undisturbed run failed:\n$j->{log}") if $j->{rc} != 0 || $j->{result} eq '';
            remove_tree($work);
            return $j->{result};
        });
    }
    return $reference{$key};
}

# All of these are in a text, in any order: mpirun brings the lines of ranks together as they come.
sub in_any_order
{
    my $all = join('', map {"(?=.*$_)"} @_);
    return qr/\A$all/s;
}

# Check that a job with faults ends well, with the result of the undisturbed run, and that the
# faults have really come to pass (faults => their number, default 1; most => at most so many).
sub survives {
    my ($name, %o) = @_;
    my @args = @{ delete $o{solver} // [] };
    my @before = @{ delete $o{command} // [] }; # arguments before those, of another program
    my $n = $o{n} // 4;
    my $want = reference($n, @args);
    my $work = sprintf('%s/job%04d', $dir, ++$count);
    my $j = job(%o, keep => $work, args => [@before, '-o', "$work/out", @args]);
    my $faults = $o{faults} // 1;
    my $hit = scalar(@{ $j->{faults} });
    my @bad;
    push(@bad, "exit code $j->{rc}") if $j->{rc} != ($o{rc} // 0);
    push(@bad, 'another result') if $j->{result} ne $want;
    push(@bad, "$hit faults came to pass, $faults were asked for")
        if $hit < $faults || $hit > ($o{most} // $faults);
    push(@bad, "no line like $o{like}") if $o{like} && $j->{log} !~ $o{like};
    push(@bad, "a line like $o{unlike}") if $o{unlike} && $j->{log} =~ $o{unlike};
    push(@bad, 'communicators left') if $j->{log} =~ /^handles: /m;
    push(@bad, 'a line of Open MPI') if own_mpi() && $j->{log} =~ /^NBC_Progress/m;
    ok(!@bad, $name);
    diag("$name: ", join(', ', @bad), "\n", substr($j->{log}, 0, 6000)) if @bad;
    remove_tree($work) if !@bad;
    return $j;
}

# Whether a file runs all of its cases, as those of tests/long do: with the argument --all.
sub all_cases { return scalar grep { $_ eq '--all' } @ARGV }

# Cases, each an array with one value of each of the lists: with --all every combination, otherwise
# so few that each two values of two lists are in a case together.
sub pairwise {
    my @lists = @_;
    my @all = ([]);
    for my $list (@lists) {
        @all = map { my $case = $_; map { [ @$case, $_ ] } 0 .. $#$list } @all;
    }
    my $pairs = sub {
        my ($case) = @_;
        return map { my $i = $_; map {"$i=$case->[$i] $_=$case->[$_]"} $i + 1 .. $#lists } 0 .. $#lists;
    };
    my %open = map { $_ => 1 } map { $pairs->($_) } @all; # pairs that are in no case yet
    my @cases = all_cases() ? @all : ();
    while (%open && !all_cases()) {
        my ($best, $most) = (undef, 0);
        for my $case (@all) {
            my $new = grep { $open{$_} } $pairs->($case);
            ($best, $most) = ($case, $new) if $new > $most;
        }
        push(@cases, $best);
        delete @open{ $pairs->($best) };
    }
    return map { my $case = $_; [ map { $lists[$_][ $case->[$_] ] } 0 .. $#lists ] } @cases;
}

# Whether a case of a table, by the places of its values in their lists, is one of those that run:
# with --all each; otherwise one of n, so that with lists of n values each two values of two lists meet.
sub selected {
    my ($n, @places) = @_;
    return all_cases() || sum0(@places) % $n == 0;
}

# Faults of one job of four ranks, which follow each other: rank FIRST is killed at the first of the
# visits of a point, the next rank at the second one.  Each needs a spare of its own.
sub in_turn {
    my ($first, $point, @visits) = @_;
    return join(',', map { sprintf('%s:%d:%d:kill', $point, ($first + $_) % 4, $visits[$_]) } 0 .. $#visits);
}

# The ranks, or what else has n numbers, of a case: all with the argument --all, otherwise so many
# of them, which take turns.
my $turn = 0;
sub victims {
    my ($n, $many) = @_;
    return 0 .. $n - 1 if all_cases();
    my $from = $turn++;
    return sort map { ($from + int($_ * $n / $many)) % $n } 0 .. $many - 1;
}

# Whether a rank has died after all ranks had agreed on the end: then the result of the job is
# whole, but the exit code says that this rank has not done all its work.
sub died_at_end {
    my ($j) = @_;
    my ($how) = $j->{log} =~ /killed by (signal 9|a signal on another node)\b.* (?:when all|with a) context/;
    return $how && $j->{rc} == ($how eq 'signal 9' ? 137 : 1)
        && grep { /\b(?:repair\.agreed|close\.parted)\b/ } @{ $j->{faults} };
}

# Whether a number is that which is wanted, within a part of it.
sub near {
    my ($got, $want, $part, $what) = @_;
    return ok(defined($got) && abs($got - $want) <= $part * $want, $what)
        || diag('got ', $got // 'nothing', ", not $want");
}

# Write a file; returns its path.
sub write_file {
    my ($path, $text) = @_;
    open(my $f, '>:raw', $path) or die("$path: $!\n");
    print {$f} $text;
    close($f) or die("$path: $!\n");
    return $path;
}

# For the while option of job(): actions on processes from outside.

# Wait until a file matches the pattern; its name, or '' after 30 s (times pace()).
sub await_file {
    my ($pattern) = @_;
    for (my $end = time() + 30 * pace(); time() < $end; sleep(0.005)) {
        my ($path) = grep {-e} glob($pattern); # without a wildcard glob() returns any name
        return $path if $path;
    }
    return '';
}

# Wait until `ftkit run --flip` has asked the job that has its files in DIR for a bit.
sub await_flip {
    my ($work) = @_;
    my ($dir) = slurp('/proc/' . process_of($work, 0) . '/environ') =~ m{\bFTKIT_RUN_STATE=([^\0]*)/} or return;
    for (my $end = time() + 30 * pace(); time() < $end; sleep(0.005)) {
        return 1 if unpack('Q', slurp("$dir/flip")); # struct ftk_flip
    }
    return 0;
}

# Wait until a process stands still by the action "hold" of a fault; whether one does.  The job stands
# still with it until let_go(), however long the test takes, or until the process is killed.
sub await_held { my ($work) = @_; return await_file("$work/faults.held") ne '' }
sub let_go { my ($work) = @_; return write_file("$work/faults.go", '') }

# Kill the process whose pid and step are in a file (--pidfile of the examples) when the process
# has reached the step.  A process in %$dead is not killed again; the killed one is added.  Returns
# the pid, or 0 after 30 s (times pace()).
sub kill_rank {
    my ($file, $step, $dead) = @_;
    for (my $end = time() + 30 * pace(); time() < $end; sleep(0.002)) {
        my ($pid, $at) = split(' ', slurp($file));
        next if !defined($at) || $at < $step || $dead->{$pid};
        return $dead->{$pid} = kill('KILL', $pid) ? $pid : 0;
    }
    return 0;
}

# For a job in this directory whose ranks write their steps to files pid.RANK: the environment with
# which no process goes on behind any of the steps [RANK, STEP] before release_ranks().  What a test does at
# a step is not too late then, however long the test itself has waited for the processor.
sub hold_ranks {
    my ($work, @at) = @_;
    make_path($work);
    my @list = map {"pid.$at[$_][0]:$at[$_][1]:" . write_file("$work/hold.$_", '')} 0 .. $#at;
    return (LD_PRELOAD => "$build/hang.so", FTKIT_TEST_HOLD => join(',', @list));
}

# Let the processes go on from the step of this number, from 0; without a number, from all steps.
sub release_ranks {
    my ($work, $i) = @_;
    return unlink(defined $i ? "$work/hold.$i" : glob("$work/hold.*"));
}

# The pid of the process with this rank in MPI_COMM_WORLD of the job that runs in the directory; 0:
# there is none.
sub process_of {
    my ($work, $rank) = @_;
    for my $p (glob('/proc/[0-9]*')) {
        my $env = slurp("$p/environ");
        next if $env !~ /=\Q$work\E\/faults\0/ || $env !~ /\bOMPI_COMM_WORLD_RANK=$rank\0/;
        return $p =~ /(\d+)$/ ? $1 : 0;
    }
    return 0;
}

# Kill this process as soon as the faults that have come to pass match $when.  Returns its pid, or 0
# after 30 s (times pace()).
sub kill_process {
    my ($work, $rank, $when) = @_;
    for (my $end = time() + 30 * pace(); time() < $end; sleep(0.005)) {
        next if slurp("$work/faults") !~ $when;
        my $pid = process_of($work, $rank);
        return kill('KILL', $pid) ? $pid : 0 if $pid;
    }
    return 0;
}

# The mpirun of the job that has its files in a directory.
sub mpirun_of {
    my ($work) = @_;
    return grep { slurp("/proc/$_/comm") =~ /^(?:prterun|mpirun)/ && slurp("/proc/$_/environ") =~ m{=\Q$work\E[/\0]} }
        map {m{(\d+)$}} glob('/proc/[0-9]*');
}

# Kill this mpirun; returns the number of killed processes.
sub kill_mpirun { my ($work) = @_; return kill('KILL', mpirun_of($work)) }

1;
