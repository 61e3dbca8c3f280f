#!/usr/bin/perl
# Ways to fail that MPI does not report: exit, abort, MPI_Abort, a stopped process, an endless
# loop; what ends a job that cannot go on.  With --all rank 0 and another one fail in each way.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_RECOVER_TIMEOUT => '3s');
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
    FTKIT_RECOVER_TIMEOUT => '3s');

# a released Open MPI does not report an end by _exit with a code, and the daemon does not see how the program
# behind a wrapper script ends: the watchdog tells MPI, within a second
my $told = qr/has ended, and MPI has not reported that: it counts as lost/;
my %patient = (%memory, FTKIT_RECOVER_TIMEOUT => '30s');
for (['vanish', 2, own_mpi() ? qr/repaired in/ : $told], ['quick', 0, qr/ends its program by quick_exit\(\) and its context open: it counts as lost/]) {
    my ($how, $rank, $like) = @$_;
    my $j = survives("$how by rank $rank", env => \%patient, fault => "app.mid:$rank:9:$how", like => $like);
    cmp_ok($j->{seconds}, '<', 15 * pace(), '... soon');
}
survives('a rank behind a wrapper script is killed', env => \%patient, fault => 'app.mid:2:9:kill',
    program => '/bin/sh', command => ['-c', # the script ends when the others have the result
        'program=$0; "$program" "$@" || until [ -s "$2" ]; do sleep 0.1; done', build() . '/mpi/solver'],
    like => qr/a script starts the program and waits for it.*$told/s);
survives('vanish on another node', n => 4, spares => 2, run => [qw(--no-relaunch --emulate-nodes 2)],
    env => \%patient, fault => 'app.mid:1:9:vanish', like => qr/repaired in/) if nodes_possible();

# a crash inside of malloc(): Open MPI, which prints the stack, never ends the process
survives('a crash whose stack is never printed', env => { %patient, LD_PRELOAD => build() . '/trace.so' },
    fault => 'app.mid:2:9:abort', like => qr/repaired in/);

# rank 0 has work of its own in a context
my @ways = (
    sub { my ($rank) = @_; survives("exit(3) by rank $rank", env => \%memory, fault => "app.mid:$rank:9:exit") },
    sub { my ($rank) = @_; survives("abort() by rank $rank", env => \%memory, fault => "app.mid:$rank:9:abort") },
    sub {
        my ($rank) = @_;
        survives("rank $rank is stopped", env => \%memory, fault => "app.mid:$rank:9:stop",
            like => qr/has been stopped for/);
    },
    sub {
        my ($rank) = @_;
        survives("rank $rank is stopped in a checkpoint", env => \%memory,
            fault => "ckpt.sized:$rank:3:stop", like => qr/has been stopped for/);
    },
    sub {
        my ($rank) = @_;
        my $j = job(env => \%files, run => [], fault => "app.mid:$rank:9:mpiabort", timeout => 40);
        ok($j->{rc} == 3 && @{ $j->{faults} } == 1 && $j->{seconds} < 20 * pace()
                && $j->{log} =~ /rank $rank of the job called MPI_Abort with code 3: the job ends, and is not relaunched/
                && $j->{log} !~ /relaunching|repaired in/,
            "MPI_Abort by rank $rank: the job ends with its code") or diag("$j->{rc}, $j->{seconds} s\n$j->{log}");
    },
    sub {
        my ($rank) = @_;
        survives("an endless loop in rank $rank: ended and relaunched", env =>
            { %files, FTKIT_RECOVER_STALL => '3s' }, run => [],
            fault => "app.compute:$rank:9:loop", like => qr/no rank of this node has made progress for .* \(recover\.stall\)/);
    },
    sub {
        my ($rank) = @_;
        survives("an endless loop in rank $rank while another is repaired", spares => 2,
            env => \%memory, faults => 2,
            fault => "app.compute:$rank:9:loop,app.compute:" . (3 - $rank) . ':9:kill',
            like => qr/has not come to the repair/);
    });
for my $way (0 .. $#ways) {
    for my $rank (0, 2) {
        $ways[$way]->($rank) if selected(2, $way, $rank / 2);
    }
}
survives('a rank is stopped inside a repair', spares => 2, env => \%memory, faults => 2,
    fault => 'app.mid:1:9:kill,repair.census:2:2:stop', like => qr/has been stopped for/);
survives('a spare is stopped, then needed', spares => 2, env => \%memory, faults => 2,
    fault => 'app.mid:1:9:kill,repair.shrink:4:1:stop', like => qr/has been stopped for/);

# a program that dies again and again at the same call, whatever sets it writes before that
my $j = job(spares => 4, env => { %memory, FTKIT_RECOVER_ATTEMPTS => 20 }, fault => 'app.mid:1:3:kill@*',
    timeout => 60);
ok($j->{rc} != 0 && $j->{log} =~ /rank 1 has died 3 times at the same call/ && @{ $j->{faults} } <= 4,
    'a program that always dies at the same call is ended') or diag($j->{log});
$j = job(spares => 4, env => { %memory, FTKIT_RECOVER_ATTEMPTS => 1 }, fault => 'app.mid:1:3:kill@*', timeout => 60);
ok($j->{rc} != 0 && $j->{log} =~ /recover\.attempts/ && @{ $j->{faults} } == 2, '... sooner by recover.attempts')
    or diag($j->{log});
for my $spares (0, 4) {
    my $again = job(spares => $spares, run => [], timeout => 90, args => [ '-s', 60, '-A', 30 ],
        env => { %files, FTKIT_RECOVER_TIMEOUT => '2s', FTKIT_RECOVER_SUPPLY => 'spare, end' });
    my $older = () = $again->{log} =~ /relaunching once from the set before the newest/g;
    my $passed = () = $again->{log} =~ /is passed over: recover\.start = older/g;
    my $crashes = () = $again->{log} =~ /Signal: Segmentation fault/g;
    ok($again->{rc} == 139 && $older == 1 && $passed == 1
            && $again->{log} =~ /at the same place as before: every relaunch would end in the same way/
            && ($spares ? $crashes <= 8 : $crashes == 3),
        "a crash at the same call, $spares spares: an older set is tried once")
        or diag("rc $again->{rc}, $crashes crashes\n$again->{log}");
}
for my $log ('', ' with the log') {
    my $again = job(n => 2, spares => 0, run => [ $log ? '--log' : () ], timeout => 60,
        args => [ '-s', 60, '-a', 30 ], env => { %files, FTKIT_RECOVER_TIMEOUT => '20s',
            FTKIT_RECOVER_SUPPLY => 'end' });
    ok($again->{rc} == 9 && $again->{log} !~ /relaunching/
            && $again->{log} =~ /rank 1 of the job called MPI_Abort with code 9: the job ends/,
        "MPI_Abort$log: no relaunch") or diag($again->{rc}, $again->{log});
}

# MPI_Abort, and the others have repaired the job before `ftkit run` has seen the call: it stands
# still from the moment before the call until the repair is done, or the whole job
sub await { my ($what) = @_; for (my $end = time() + 30; time() < $end; select(undef, undef, undef, 0.005)) { return 1 if $what->() } return 0 }
sub ftkit_run
{
    my ($work) = @_;
    my ($pid) = grep { slurp("/proc/$_/comm") eq "ftkit\n" && slurp("/proc/$_/environ") =~ /=\Q$work\E\/faults\0/ }
        map {m{(\d+)$}} glob('/proc/[0-9]*');
    return $pid // 0;
}
for my $case ([ 'the repair', sub { slurp("$_[0]/log") =~ /repaired in/ }, 'app.mid:1:30:stop', qr/with code 3: the job ends, and is not relaunched/ ],
    [ 'the whole job', sub { slurp("$_[0]/log") =~ /repaired in/ && !grep { process_of($_[0], $_) } 0 .. 4 }, undef,
        qr/with code 3: no failure explains the call/ ])
{
    my ($what, $done, $more, $like) = @$case;
    my $seen = 0;
    my $j = job(env => { %files, FTKIT_RECOVER_TIMEOUT => '30s' }, run => [], timeout => 60,
        fault => join(',', 'app.mid:0:8:hold,app.mid:0:9:mpiabort', $more // ()), args => [ '-s', 60 ],
        while => sub {
            my ($work) = @_;
            $seen += await_held($work);
            my $run = ftkit_run($work);
            $seen += $run && kill('STOP', $run);
            let_go($work);
            $seen += await(sub { $done->($work) });
            kill('CONT', $run) if $run;
        });
    ok($j->{rc} == 3 && $seen == 3 && $j->{log} =~ $like && $j->{log} !~ /relaunching/ && $j->{seconds} < 30 * pace(),
        "MPI_Abort, and ftkit run sees it after $what") or diag("$j->{rc}, $j->{seconds} s, $seen\n$j->{log}");
}

# a destructor calls ftkit_close while an exception unwinds
SKIP: {
    my ($mpicxx) = slurp(build() . '/mpi.mk') =~ /^MPICXX := (.+)$/m;
    skip('no compiler for C++', 2) if !$mpicxx;
    my $program = scratch() . '/unwind';
    my $made = `$mpicxx -I@{[top()]}/include @{[top()]}/tests/cxx/unwind.cc -o $program @{[build()]}/libftkit.a @{[packages()]} 2>&1`;
    is($?, 0, 'a program in C++') or diag($made);
    my $j = job(n => 3, program => $program, args => ['one'], env => \%patient);
    ok($j->{rc} == 0 && $j->{log} =~ /has been alone in ftkit_close for .*it counts as lost/ && $j->{log} =~ /repaired in/,
        'an exception of one rank: the rank counts as lost') or diag($j->{rc}, $j->{log});
    $j = job(n => 3, program => $program, args => ['all'], env => \%patient);
    ok($j->{rc} == 3 && $j->{log} !~ /alone in ftkit_close|repaired in|relaunching/,
        'an exception of all ranks closes the context') or diag($j->{rc}, $j->{log});
}

# a batch system suspends the job, and wakes its processes one after the other
{
    my $stopped = 0;
    survives('the whole job is suspended for longer than recover.timeout', faults => 0,
        env => { %memory, FTKIT_RECOVER_TIMEOUT => '2s' }, like => qr/has stood still for/,
        unlike => qr/killed|repaired in/, fault => 'app.step:0:20:hold',
        while => sub {
            my ($work) = @_;
            await_held($work);
            my @all = grep { (readlink("/proc/$_/exe") // '') =~ /solver$/
                && slurp("/proc/$_/environ") =~ /=\Q$work\E\0/ } map {m{(\d+)$}} glob('/proc/[0-9]*');
            $stopped = kill('STOP', @all);
            let_go($work);
            select(undef, undef, undef, 5);
            for (@all) {
                kill('CONT', $_);
                select(undef, undef, undef, 0.02);
            }
        });
    is($stopped, 5, '... all five processes of it');
}

done_testing();
