#!/usr/bin/perl
# Stopping in time: signals, the deadline, ftkit halt.  A run that has halted goes on at
# its next start, to the right result.  With --all a rank dies at each point of a halt both with the
# message log and without.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use File::Temp qw(tempdir);
use List::Util qw(max min);
use Test::More;
use Time::HiRes qw(time);

ulfm_only();
asleep_in_waits();
my $ftkit = build() . '/ftkit';
my $solver = build() . '/mpi/solver';
my @small = ('-n', 60, '-s', 150);

# the same computation, undisturbed
my $home = tempdir(DIR => scratch());
my %env = (FTKIT_LEVEL_HDF5_DIRECTORY => $home, FTKIT_CHECKPOINT_PERIOD => '1000s',
    FTKIT_CHECKPOINT_REACT => '100ms', FTKIT_REPORT_STATUS => '50ms');
my ($code, $log, $halted) = (0, '', ''); # $halted: the log of halts()

# Run the solver, and $act with the number of the process of ftkit run and the directory.  The job does
# not go on behind step 40 before release_ranks() with 0, nor behind step 80 before $act ends; at all if it
# does not end at FTKIT_HALT.  $code, $log: what came of it.
sub run_job
{
    my ($dir, $more, $act, @options) = @_;
    my %hold = $act ? hold_ranks($dir, [0, 40], [0, 80]) : ();
    my $pid = fork() // die "fork: $!\n";
    if (!$pid) {
        local %ENV = (%ENV, %env, %hold, FTKIT_LEVEL_HDF5_DIRECTORY => $dir, %$more);
        open(STDOUT, '>', "$dir/log") or die "$dir/log: $!\n";
        open(STDERR, '>&', \*STDOUT) or die "stderr: $!\n";
        my ($program, @run) = (delete $ENV{PROGRAM_OPTIONS} // '', @options);
        exec($ftkit, 'run', '-n', 4, '--spares', 1, '--timeout', 60, @run, '--', $solver, @small,
            '-o', "$dir/result", '-p', "$dir/pid", split(' ', $program)) or die "$ftkit: $!\n";
    }
    $act->($pid, $dir) if $act;
    release_ranks($dir) if ($ENV{PROGRAM_OPTIONS} // '') !~ /-i\b/;
    waitpid($pid, 0);
    ($code, $log) = ($? >> 8, slurp("$dir/log"));
    return;
}

# when rank 0 has come to a step
sub at_step
{
    my ($dir, $step) = @_;
    my $end = time() + 40 * pace();
    while (time() < $end) {
        my (undef, $now) = split(' ', slurp("$dir/pid.0"));
        return 1 if ($now // 0) >= $step;
        select(undef, undef, undef, 0.01);
    }
    return 0;
}

sub signalled
{
    my ($name, $step) = @_;
    return sub {
        my ($pid, $dir) = @_;
        ok(at_step($dir, $step), "... step $step");
        kill($name, $pid);
        release_ranks($dir, 0);
    };
}

sub sets { return scalar(grep {-e "$_/manifest"} glob("$_[0]/default.ftkit/set-*")) }
sub fresh { return tempdir(DIR => scratch()) }

run_job($home, {}, undef);
is($code, 0, 'undisturbed') or diag($log);
my $want = slurp("$home/result");
like($want, qr/^3 [0-9a-f]{16}$/m, '... has a result');

# the next start: to the end
sub goes_on
{
    my ($dir, $more, @options) = @_;
    run_job($dir, $more, undef, @options);
    is($code, 0, '... the next start ends well') or diag($log);
    like($log, qr/restored set \d+ from files/, '... and goes on from the files');
    is(slurp("$dir/result"), $want, '... with the right result');
    return;
}

my %went_on; # a start after a halt of each kind; with --all after each halt
sub halts
{
    my ($what, $act, $more, @options) = @_;
    my $dir = fresh();
    local $ENV{PROGRAM_OPTIONS} = '-d 30';
    run_job($dir, $more, $act, @options);
    is($code, 75, "$what: exit code 75") or diag($log);
    like($log, qr/halt \(.*\): set (\d+) is durable.*solver: halted at step \d+.*the job has halted; set \g1 is durable/s,
        '... says so');
    $halted = $log;
    ok(!-e "$dir/result", '... the program has not come to its end');
    delete local $ENV{PROGRAM_OPTIONS};
    my %line = map { $_ => $more->{$_} } grep {/LINE/} keys(%$more);
    my $kind = join(' ', grep {/^--log|^LOCPATH|^FTKIT_(?:CHECKPOINT_(?:LINE|PERIOD)|LEVEL)/} sort(@options, keys(%$more)));
    return $dir if $went_on{$kind}++ && !all_cases();
    goes_on($dir, \%line, grep { $_ eq '--log' } @options);
    return $dir;
}

{
    my $dir = fresh();
    local $ENV{PROGRAM_OPTIONS} = '-d 30';
    run_job($dir, {}, signalled('USR1', 20));
    is($code, 0, 'SIGUSR1: the job goes on to its end') or diag($log);
    is(slurp("$dir/result"), $want, '... with the right result');
    is(sets($dir), 2, '... one more set is durable');
}
# a batch system sends more than one signal at once
halts('SIGTERM and SIGHUP', sub {
        my ($pid, $dir) = @_;
        ok(at_step($dir, 20), '... step 20');
        kill($_, $pid) for qw(STOP TERM HUP CONT); # ftkit run sees them together
        release_ranks($dir, 0);
    }, {});
halts('SIGINT', signalled('INT', 20), {});
halts('SIGUSR2, with the message log', signalled('USR2', 20), { FTKIT_LOG_TEAM_SIZE => 2 }, '--log');
halts('SIGUSR2, with lines apart', signalled('USR2', 20), { FTKIT_LOG_TEAM_SIZE => 2,
        FTKIT_CHECKPOINT_LINE => 'apart' }, '--log');
# a program with handlers of its own gets SIGUSR1 and SIGUSR2, and ftkit run asks all the same
halts('SIGINT, the program has handlers', signalled('INT', 20), { PROGRAM_OPTIONS => '-d 30 -N' });
like($halted, qr/signals: 0 0 0$/m, '... which are not called');
halts('SIGUSR1 and SIGUSR2, the program has handlers', sub {
        my ($pid, $dir) = @_;
        signalled('USR1', 20)->(@_);
        my $end = time() + 20 * pace();
        select(undef, undef, undef, 0.01) while sets($dir) < 2 && time() < $end;
        is(sets($dir), 2, '... a set is durable');
        kill('USR2', $pid);
    }, { PROGRAM_OPTIONS => '-d 30 -N' });
like($halted, qr/signals: 1 1 0$/m, '... which are called');
halts('SIGTERM, checkpoint.signals is false', sub {
        signalled('USR2', 20)->(@_);
        signalled('TERM', 40)->(@_);
    }, { PROGRAM_OPTIONS => '-d 30 -N', FTKIT_CHECKPOINT_SIGNALS => 'false' });
like($halted, qr/signals: 0 1 0$/m, '... SIGUSR2 is for the program alone');
halts('a set at each call', signalled('USR2', 20), { FTKIT_CHECKPOINT_PERIOD => '1 call',
        FTKIT_LEVEL_HDF5_EVERY => '1000 sets' });
halts('a period in calls', signalled('USR2', 20), { FTKIT_CHECKPOINT_PERIOD => '1000 calls' });
halts('the files are written at once', signalled('USR2', 20),
    { FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' });

# the deadline

# Whether the job has asked for its last set so early that a set as long as any set before comes in
# time.  When the set is durable does not count: a busy machine may be slower than it ever was.
sub asks_in_time
{
    my ($log, $end, $what) = @_;
    my @e = grep { $_->{rank} >= 0 } events($log);
    my ($last) = map { $_->{set} } grep { $_->{event} eq 'halt' } @e;
    my @of_last = grep { $_->{event} eq 'set' && $_->{set} == $last } @e;
    my $asked = min(map { $_->{t} - $_->{seconds} } @of_last);
    my ($set, $flush) = map {
        my $name = $_;
        max(map { $_->{seconds} } grep { $_->{event} eq $name && $_->{set} < $last } @e)
    } qw(set flush);
    ok(@of_last && defined($set) && defined($flush) && $asked + $set + $flush < $end, $what)
        or diag(join(' ', map { $_ // '-' } $end, $asked, $set, $flush));
    return;
}

{
    my $begin = time();
    my $dir = halts('--deadline', undef, { PROGRAM_OPTIONS => '-d 110',
            FTKIT_REPORT_EVENTS => scratch() . '/deadline' }, '--deadline', '6s');
    asks_in_time(scratch() . '/deadline', $begin + 6, '... in time');
    my ($halt) = grep { $_->{event} eq 'halt' } events(scratch() . '/deadline');
    is($halt->{reason}, 'checkpoint.deadline', '... the event log says why');
}
{
    # a time since the opening of the job, not of the process that replaces rank 0
    my $log = scratch() . '/replaced';
    halts('checkpoint.deadline, rank 0 is replaced', undef, { PROGRAM_OPTIONS => '-d 110',
            FTKIT_REPORT_EVENTS => $log, FTKIT_CHECKPOINT_DEADLINE => '8s', FTKIT_RECOVER_SUPPLY => 'spawn' },
        '--spares', 0, '--kill', 'rank 0 at 2s');
    my ($begin) = map { $_->{t} } grep { $_->{event} eq 'open' } events($log);
    asks_in_time($log, $begin + 8, '... in time');
    my ($repair) = grep { $_->{event} eq 'repair' } events($log);
    my ($halt) = grep { $_->{event} eq 'halt' } events($log);
    ok($repair && $halt && $halt->{t} > $repair->{t}, '... after the repair');
    is($halt->{reason}, 'checkpoint.deadline', '... the event log says why');
}
{
    my $dir = fresh();
    local $ENV{PROGRAM_OPTIONS} = '-d 30 -b 2'; # a set of 2 MB
    run_job($dir, { FTKIT_LEVEL_HDF5_BANDWIDTH => '1MB' }, undef, '--deadline', '100ms'); # over before the job is open
    like($log, qr/warning: context default: checkpoint.deadline leaves -?[\d.]+ s, and a durable set needs up to [\d.]+ s/,
        'a deadline too short for a set: says so');
    is($code, 75, '... and halts') or diag($log);
}

# Make a locale with a decimal comma, of the C library of GNU: none may be installed.
sub comma_locale
{
    my $dir = fresh();
    mkdir("$dir/comma") or die "$dir/comma: $!\n";
    open(my $f, '>', "$dir/comma/LC_NUMERIC") or die "$dir/comma: $!\n";
    print $f pack('L10', 0x20031114, 6, 40, 42, 44, 36, 32, 47, ord('.'), ord(',')),
        ",\0.\0\3\3\0UTF-8\0\0\0\0";
    close($f) or die "$dir/comma: $!\n";
    return (LOCPATH => $dir, LC_NUMERIC => 'comma');
}

# from outside
sub asks
{
    my ($want, @command) = @_;
    my $said = `@command 2>&1`;
    like($said, $want, "@command[0 .. 1]: says so");
    return $? >> 8;
}
{
    my $dir = halts('ftkit halt', sub {
            my ($pid, $where) = @_;
            ok(at_step($where, 20), '... step 20');
            my $status = `$ftkit status $where`;
            is($?, 0, 'ftkit status: a job is running');
            like($status, qr/^default: job .* on .*\n  state +running, .*\n  processes +4 ranks, 1 spares left, repair in the job\n  rate +[\d.]+ calls/,
                '... and what it does');
            my $json = `$ftkit status --json $where`;
            is($json =~ /"set": (\d+),/ && $1, 1, '... --json');
            cmp_ok($json =~ /"set_seconds": ([\d.e-]+),/ ? $1 : 0, '>', 0,
                '... a program with a decimal comma: times are no whole seconds');
            unlike(slurp("$where/default.ftkit/status"), qr/,/, '... nor does the file have one');
            is(`$ftkit status --prometheus $where` =~ /^ftkit_up\{context="default"\} (1)$/m && $1, 1,
                '... --prometheus');
            release_ranks($where);
            is(asks(qr/is asked to halt/, $ftkit, 'halt', '--wait', $where), 0, '... exit code');
        }, { comma_locale(), PROGRAM_OPTIONS => '-d 200' }); # the commands take their time
    unlike($halted, qr/\d,\d+ ?(?:m?s|x)\b/, '... and the lines of the library have a point');
    ok(!-e "$dir/default.ftkit/halt", '... the request is gone');
    is(asks(qr/no job uses the sets/, $ftkit, 'halt', $dir), 1, 'nobody to halt: 1');
    is(asks(qr/no job is running\n  state +closed/, $ftkit, 'status', $dir), 1, 'a job that is gone: 1');
    is(asks(qr/No such file or directory/, $ftkit, 'status', "$dir/none"), 1, 'no directory: 1');
    is(asks(qr/DIR is missing/, $ftkit, 'halt'), 2, 'halt without a directory: 2');
}
{
    my $dir = fresh();
    mkdir("$dir/default.ftkit") or die;
    open(my $f, '>', "$dir/default.ftkit/halt") or die; # of another job
    print $f "job = 0123456789abcdef\n";
    close($f);
    run_job($dir, {}, undef);
    is($code, 0, 'a request to another job halts nobody') or diag($log);
    for my $bad ("ftkit.status = 1\nstate = \e[31mred\nset = nan\n", "\0" x 100, 'x' x 10000, '') {
        open($f, '>', "$dir/default.ftkit/status") or die;
        print $f $bad;
        close($f);
        is(asks(qr/^ftkit status: .*(cut off|not a file of ftkit)/m, $ftkit, 'status', $dir), 1,
            'a damaged file of the status');
    }
}

# a program that does not know FTKIT_HALT
{
    my $dir = fresh();
    local $ENV{PROGRAM_OPTIONS} = '-d 30 -i';
    run_job($dir, {}, signalled('USR2', 20), '--halt-timeout', '1s');
    is($code, 75, 'a program that goes on is ended: 75') or diag($log);
    like($log, qr/the program goes on after FTKIT_HALT: ending it/, '... says so');
    delete local $ENV{PROGRAM_OPTIONS};
    goes_on($dir, {});
}

# without files there is nothing durable
{
    my $dir = fresh();
    local $ENV{PROGRAM_OPTIONS} = '-d 30';
    run_job($dir, { FTKIT_LEVEL_HDF5_ENABLED => 'false' }, signalled('USR2', 20));
    is($code, 75, 'no files: halts') or diag($log);
    like($log, qr/level.hdf5.enabled is false, so set \d+ is in memory only/, '... says so');
}

# a rank is lost while the job halts
my $points = 0;
for my $point ('ckpt.voted:1', 'ckpt.committed:2', 'flush.part:1', 'halt.drained:0', 'close.begin:3') {
    $points++;
    for my $teams (0, 2) {
        next if !selected(2, $points, $teams / 2);
        my ($name, $rank) = split(/:/, $point);
        my $nth = $name =~ /^(ckpt|flush)/ ? 2 : 1; # the first set is that of the start
        my $dir = fresh();
        my %more = (FTKIT_FAULT => "$name:$rank:$nth:kill");
        $more{FTKIT_LOG_TEAM_SIZE} = $teams if $teams;
        local $ENV{PROGRAM_OPTIONS} = '-d 30';
        run_job($dir, \%more, signalled('USR2', 20), $teams ? '--log' : ());
        is($code, 75, "killed at $name, rank $rank, " . ($teams ? 'teams' : 'no log') . ': 75')
            or diag($log);
        like($log, $name =~ /^(ckpt|flush)/ ? qr/repaired in/ : qr/start it again to go on/, '... says so');
        delete local $ENV{PROGRAM_OPTIONS};
        goes_on($dir, {}, $teams ? '--log' : ()) if selected(2, int($points / 2));
    }
}
# only rank 0 was asked, and it dies when no other rank has seen the commit: nobody knows of the halt, so
# the job goes on, and is started again when it is lost
{
    my $dir = fresh();
    local $ENV{PROGRAM_OPTIONS} = '-d 30';
    my $fault = join(',', map({"ckpt.unseen:$_:2:EIO"} 1 .. 3), 'halt.agreed:0:1:kill');
    my $killed = 0;
    run_job($dir, { FTKIT_FAULT => $fault, FTKIT_FAULT_LOG => "$dir/faults" }, sub {
        my ($pid, $where) = @_;
        ok(at_step($where, 20), 'rank 0 alone is asked for a halt ...');
        kill('USR2', (split(' ', slurp("$where/pid.0")))[0]);
        release_ranks($where, 0);
        my $end = time() + 30 * pace();
        select(undef, undef, undef, 0.01) until slurp("$where/log") =~ /repaired in/ || time() > $end;
        ok(at_step($where, 60), '... and dies with it: the job goes on');
        $killed = kill_mpirun($where);
    });
    like(slurp("$dir/faults"), qr/^halt\.agreed rank 0/m, '... rank 0 had written that the job halts');
    ok($killed == 1 && $code == 0 && $log =~ /relaunching/ && slurp("$dir/result") eq $want,
        '... mpirun is lost: it is relaunched, and ends well') or diag("$killed, $code, $log");
}
# lines apart: a rank dies when the set of the halt is committed on some ranks; those that stay halt
for my $point ('apart.vote:2', ('apart.voted:0', 'apart.voted:2')[victims(2, 1)],
    ('apart.commit:1', 'apart.commit:3')[victims(2, 1)], 'flush.submit:2')
{
    my ($name, $rank) = split(/:/, $point);
    my $nth = $name =~ /^flush/ ? 2 : 1;
    my $dir = fresh();
    my %line = (FTKIT_CHECKPOINT_LINE => 'apart', FTKIT_LOG_TEAM_SIZE => 1);
    local $ENV{PROGRAM_OPTIONS} = '-d 30';
    run_job($dir, { %line, FTKIT_FAULT => "$name:$rank:$nth:kill" }, signalled('USR2', 20), '--log');
    is($code, 75, "killed at $name, rank $rank, lines apart: 75") or diag($log);
    like($log, qr/repaired in/, '... says so');
    delete local $ENV{PROGRAM_OPTIONS};
    goes_on($dir, \%line, '--log') if all_cases() || $name =~ /voted|submit/;
}
# ... and the program calls something else than ftkit_checkpoint() behind it: no rank is told success
# over sums that are not complete.  A rank other than 0 has asked for a set, and rank 0 dies.
for my $c (['', 75, qw(finish late)], ['', 75, qw(close late)], ['', 75, qw(wait late)],
    ['', 75, qw(scrub soon)], ['apart.initiate:0:1:kill', 0, qw(set 1)],
    ['apart.counts:0:1:kill', 0, qw(set 1)])
{
    my ($fault, $want, @args) = @$c;
    my $dir = fresh();
    local %ENV = (%ENV, %env, FTKIT_LEVEL_HDF5_DIRECTORY => $dir, FTKIT_CHECKPOINT_LINE => 'apart',
        FTKIT_LOG_TEAM_SIZE => 1, FTKIT_FAULT => $fault);
    $log = qx($ftkit run --log -n 3 --spares 1 --timeout 60 -- @{[build()]}/mpi/asked @args 2>&1);
    is($? >> 8, $want, "lines apart, @args $fault: $want") or diag($log);
    is(scalar(() = $log =~ /^\0?OK rank \d/mg), 3, '... on all ranks') or diag($log);
}
done_testing();
