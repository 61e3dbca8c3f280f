# Runs a case of a campaign, and its program without faults.
#
# A job has a /dev/shm of its own where name spaces are allowed, and always a TMPDIR of its own, so what is
# left there is left by this job.
#
# SPDX-License-Identifier: BSD-3-Clause
package Runner;
use strict;
use warnings;
use Digest::MD5 'md5_hex';
use Exporter 'import';
use File::Path qw(make_path remove_tree);
use FtkitHosts;
use FtkitTest qw(build events mpirun_of nodes_possible slurp top write_file);
use JSON::PP qw(decode_json encode_json);
use Programs;
use Time::HiRes qw(sleep time);

our @EXPORT_OK = qw(run reference command sanitized sanitizers reports);

my $child = 0; # the job under way
my $hosts;     # its hosts, where one of them loses its link
my $own_shm;   # whether jobs have a /dev/shm of their own

# Whether a program, by default those of the build, has the sanitizers (SAN=1).
my %sanitized;
sub sanitized {
    my $program = $_[0] // build() . '/ftkit';
    return $sanitized{$program} //= slurp($program) =~ /__asan_init/ ? 1 : 0;
}

# Settings of the sanitizers: each process writes reports to a file of its own, but UBSan, which writes to
# the log.  Leaks are looked for in one case of eight: the whole stacks, which name the call of MPI that a
# leak comes from, take most of the time.
sub sanitizers {
    my ($c, $work) = @_;
    my $leaks = $c->{number} % 8 == 0 && @{ $c->{faults} } ? 1 : 0;
    my $path = "log_path=$work/report:verify_asan_link_order=0"; # `ftkit run` preloads libftkit_mpi for replicas
    return (ASAN_OPTIONS => "$path:detect_leaks=$leaks:fast_unwind_on_malloc=" . (1 - $leaks),
        UBSAN_OPTIONS => 'print_stacktrace=1',
        LSAN_OPTIONS => 'print_suppressions=0:suppressions=' . top() . '/tests/lsan.supp');
}

# What the sanitizers have found in a run: the text of each process.
sub reports { my ($work) = @_; return [ map { slurp($_) } sort glob("$work/report.*") ] }

# The environment of a case in a directory.
sub environment {
    my ($c, $work) = @_;
    my @names = grep { !/^(?:FTKIT|SLURM|OMPI_MCA|PRTE_MCA|PMIX)_/ || $_ eq 'FTKIT_GUARD' } keys %ENV;
    my %env = map { $_ => $ENV{$_} } @names; # settings of the user are not for jobs
    @env{qw(OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM)} = (1, 1) if $> == 0;
    $env{ 'FTKIT_' . uc($_ =~ tr/./_/r) } = $c->{config}{$_} for keys %{ $c->{config} };
    $env{FTKIT_LEVEL_MEMORY_DIRECTORY} = "$work/slots" if ($c->{config}{'level.memory.place'} // '') eq 'file';
    $env{FTKIT_LEVEL_HDF5_DIRECTORY} = "$work/sets" if !$c->{config}{'level.hdf5.enabled'};
    return (%env, sanitized() ? sanitizers($c, $work) : (), FTKIT_FAULT_LOG => "$work/faults",
        FTKIT_RECOVER_TIMEOUT => sanitized() ? '30s' : '6s', # with sanitizers everything is some times slower
        FTKIT_REPORT_EVENTS => "$work/events", TMPDIR => "$work/tmp",
        # ranks that wait sleep, so that others can use the cores
        OMPI_MCA_threads_pthreads_yield_strategy => 'nanosleep');
}

# The command of a case; span: the seconds of the program without faults.
sub command {
    my ($c, $work, $span) = @_;
    my $p = Programs::find($c->{program});
    my (@run, @rules);
    for my $f (@{ $c->{faults} }) {
        if ($f =~ /^(kill|flip) (\w+ \d+) at ([\d.]+)(.*)$/) {
            push(@run, "--$1", sprintf('%s at %.3f s%s', $2, $3 * $span, $4));
        } elsif ($f !~ /^(?:drop|fill|link) |^kill mpirun/) {
            push(@rules, $f);
        }
    }
    push(@rules, 'app.step:*:*:late@*') if $c->{late} && !$p->{quiet};
    my @command = (build() . '/ftkit', 'run', '-n', $c->{n}, '--spares', $c->{spares},
        $c->{relaunch} ? () : '--no-relaunch', '--seed', $c->{number},
        $hosts ? $hosts->arguments(2) : $c->{nodes} > 1
        ? ('--emulate-nodes', $c->{nodes} + (grep {/^kill node/} @{ $c->{faults} })) : (),
        $c->{replicas} > 1 ? ('--replicas', $c->{replicas}) : (), @run, '--',
        build() . "/$p->{path}", $p->{names} ? () : ('-o', "$work/out"), Programs::arguments($c));
    return (join(',', @rules), @command);
}

# Whether the sets of a case are on a file system of their own.
sub has_disk { my ($c) = @_; return $own_shm && grep {/^fill/} @{ $c->{faults} } }

# Whether a host of a case loses its link.
sub has_link { my ($c) = @_; return scalar(grep {/^link/} @{ $c->{faults} }) }

# Why this machine cannot run a case, or ''.
sub missing { my ($c) = @_; return has_link($c) ? FtkitHosts::missing() : '' }

# The link of a host goes down; after so many seconds it comes back.  Returns whether there was a process.
sub cut {
    my ($host, $seconds) = @_;
    my $there = $hosts->pids($host) > 0;
    $hosts->set_link($host, 'down');
    return $there if !defined($seconds);
    sleep($seconds);
    $hosts->set_link($host, 'up');
    return $there;
}

sub is_open { my ($work) = @_; return grep { slurp($_) =~ /"event":"open"/ } glob("$work/events/*.jsonl") }

# Fill the small file system of the sets, which the job alone sees; later there may be room again.  Returns
# whether that is so.
sub fill {
    my ($sets, $seconds) = @_;
    my ($own, $above) = map { (stat($_))[0] } $sets, "$sets/.."; # devices
    return 0 if !defined($own) || !defined($above) || $own == $above || !open(my $f, '>', "$sets/filler");
    for my $bytes (1 << 20, 4096, 1) {
        while (defined(syswrite($f, "\0" x $bytes))) { }
    }
    close($f); # it has failed before
    return 1 if !defined($seconds);
    sleep($seconds);
    unlink("$sets/filler");
    return 1;
}

# Faults from outside, at moments that count from the opening of the context.  Returns those that came to pass.
sub outside {
    my ($c, $work, $span) = @_;
    my @passed;
    my $sets = has_disk($c) ? "/proc/$child/root$work/sets" : "$work/sets";
    for my $f (grep {/^(?:drop|fill|link) |^kill mpirun/} @{ $c->{faults} }) {
        my ($what, $at) = $f =~ /^\w+ (\w+) (?:down )?at ([\d.]+)/;
        for (my $end = time() + 20; time() < $end && !is_open($work);) {
            sleep(0.01);
        }
        sleep($at * $span);
        my ($until) = $f =~ /until ([\d.]+)/;
        my ($for) = $f =~ / for ([\d.]+)$/;
        my $n = $what eq 'mpirun' ? kill('KILL', mpirun_of($work))
            : $f =~ /^link/ ? cut($what, $for)
            : $what eq 'disk' ? fill($sets, defined($until) ? ($until - $at) * $span : undef)
            : unlink(grep {-f} $what eq 'slots' ? glob("$work/slots/*") : glob("$sets/*.ftkit/set-*/*"));
        my $over = slurp("/proc/$child/stat") =~ /\) Z/; # there was no room until the end
        push(@passed, $over ? $f =~ s/^(fill .*) until .*/$1/r : $f) if $n > 0;
    }
    return @passed;
}

# The files below a directory, by their paths in it; directories only where they are empty.
sub files_in {
    my ($dir) = @_;
    my $found = qx(find '$dir' -mindepth 1 \\( ! -type d -o -empty \\) 2>/dev/null);
    return sort map { s{^\Q$dir\E/}{}r } split(/\n/, $found);
}

# What a program has written; without the errors of its calls, where the disk was full.
sub result {
    my ($c, $path) = @_;
    my $text = slurp($path);
    my $full = grep {/^fill |:E[A-Z]+(?:@|$)/} @{ $c->{faults} };
    return $full && Programs::find($c->{program})->{errors} ? $text =~ s/, \d+ errors, the last -\d+$//r : $text;
}

# Run a case for at most so many seconds.  Returns rc, log, results (of each plane), faults that came to
# pass, seconds, span (from the first event of a rank to the last one), left (files that should not be there),
# reports (of sanitizers).
sub run {
    my ($c, $work, $limit, $span) = @_;
    $own_shm //= nodes_possible();
    remove_tree($work);
    make_path("$work/sets", "$work/slots", "$work/tmp");
    $hosts = has_link($c) ? FtkitHosts->new($c->{nodes} + 1, $work) : undef;
    my ($rules, @command) = command($c, $work, $span // 1);
    my %env = (environment($c, $work), $rules ne '' ? (FTKIT_FAULT => $rules) : ());
    my @guard = (top() . '/scripts/guard', $limit, '--', @command);
    my $disk = has_disk($c) ? "mount -t tmpfs -o size=48m none '$work/sets' || exit 98; " : '';
    my $inside = $disk . 'mount -t tmpfs none /dev/shm || exit 98; "$@"; rc=$?;'
        . " find /dev/shm -mindepth 1 ! -type d >'$work/shm'; exit \$rc";
    @guard = ('unshare', '-m', '--propagation', 'private', 'sh', '-c', $inside, 'sh', @guard) if $own_shm;
    my @settings = map {"$_='$env{$_}'"} grep {/^FTKIT_/} sort keys %env;
    write_file("$work/command", join(' ', @settings, map {"'$_'"} @command) . "\n");
    my $start = time();
    $child = fork() // die("fork: $!\n");
    if (!$child) {
        setpgrp(0, 0);
        %ENV = %env;
        open(STDIN, '<', '/dev/null');
        open(STDOUT, '>', "$work/log");
        open(STDERR, '>&', \*STDOUT);
        chdir($work);
        exec(@guard) or exit(127);
    }
    my @outside = outside($c, $work, $span // 1);
    waitpid($child, 0);
    my $rc = $? & 127 ? 128 + ($? & 127) : $? >> 8;
    $child = 0;
    $hosts->remove() if $hosts;
    $hosts = undef;
    my @times = map { $_->{t} } grep { $_->{rank} >= 0 } events("$work/events"); # without those of `ftkit run`
    return { rc => $rc, log => slurp("$work/log"), seconds => time() - $start,
        span => @times ? $times[-1] - $times[0] : 0,
        results => [ map { result($c, "$work/out" . ($_ ? ".plane$_" : '')) } 0 .. $c->{replicas} - 1 ],
        faults => [split(/\n/, slurp("$work/faults"))], outside => \@outside,
        reports => reports($work),
        left => [ (map {"TMPDIR/$_"} files_in("$work/tmp")), split(/\n/, slurp("$work/shm")) ] };
}

# End the job that runs: for signal handlers.
sub end {
    kill('TERM', -$child) if $child;
    $hosts->remove() if $hosts;
    return;
}

# The result of a program without faults, and its time: from a directory of such results, or by a run.  A
# run without a result, or with a report of a sanitizer, gives its log and its reports.
sub reference {
    my ($c, $kept, $work) = @_;
    my $p = Programs::find($c->{program});
    my %config = map { $_ => $c->{config}{$_} } grep { exists $c->{config}{$_} }
        qw(log.enabled log.teams log.team_size log.team_list checkpoint.line);
    my $plain = { %$c, spares => 0, replicas => 1, nodes => 1, relaunch => 0, faults => [],
        config => { %config, 'checkpoint.period' => '5 calls', 'level.hdf5.enabled' => 'false' } };
    my @stat = stat(build() . "/$p->{path}");
    my $key = md5_hex(join(' ', Programs::arguments($c), $p->{path}, $stat[7], $stat[9], $c->{n}, $c->{late},
        map {"$_=$config{$_}"} sort keys %config));
    make_path($kept);
    my $file = "$kept/$key";
    if (!-s $file) {
        my $r = run($plain, $work, sanitized() ? 360 : 120);
        return { result => '', log => $r->{log}, reports => $r->{reports} }
            if $r->{rc} != 0 || $r->{results}[0] eq '' || @{ $r->{reports} };
        write_file("$file.$$", encode_json({ result => unpack('H*', $r->{results}[0]), span => $r->{span} }));
        rename("$file.$$", $file) or die("$file: $!\n");
    }
    my $of = decode_json(slurp($file));
    return { result => pack('H*', $of->{result}), span => $of->{span} };
}

1;
