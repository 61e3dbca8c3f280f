#!/usr/bin/perl
# Mistakes of beginners: a line says which rank breaks which rule; what is proven ends the job, with
# an exit code that is not 0, and is not relaunched.  With --all each mistake that only ftkit can
# see is made with and without the log, and with a period in calls.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
my $program = build() . '/mpi/mistakes';
asleep_in_waits(); # most ranks wait for a limit here

sub mistake
{
    my ($mode, %o) = @_;
    my %env = (FTKIT_RECOVER_STALL_SAY => '1500ms', FTKIT_RECOVER_TIMEOUT => '3s',
        %{ delete $o{env} // {} });
    return job(program => $program, args => [$mode], n => 3, run => [], timeout => 40,
        env => \%env, %o);
}

# It ends by itself with an error, a line is as it should be, and there is no relaunch.
sub ends
{
    my ($mode, $like, %o) = @_;
    my $what = $mode . ($o{env}{FTKIT_LOG_ENABLED} ? ', with the log' : '');
    my $j = mistake($mode, %o);
    my $good = $j->{rc} != 0 && $j->{rc} != 124 && $j->{log} =~ $like
        && $j->{log} !~ /relaunching/ && $j->{seconds} < 30 * pace();
    ok($good, "$what: ends, and says why") or diag("rc $j->{rc}, $j->{seconds} s\n", $j->{log});
    return $j;
}

my $log = { FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAMS => 'all' };
is(mistake('none')->{rc}, 0, 'without a mistake it ends well');
is(mistake('none', env => $log)->{rc}, 0, '... with the log, too');

# processes of two builds: a line before anything of them meets; the one that differs is a rank, or a spare
for my $rank (0, all_cases() ? 2 : (), 3) {
    my ($old, $new) = map { qr/ftkit \d+\.\d+\.$_ \(sources [0-9a-f]{6}\)/ } 0, 1;
    my $line = qr/error: .*process \d of the communicator has $old, and process $rank has $new\. Rule: /;
    my $j = ends('none', $line, fault => "open.build:$rank:1:EIO");
    is($j->{rc}, 2, "... builds of ftkit differ, process $rank: exit code");
}

# ... and one that is spawned to replace a lost rank: no rank of the job can use it
{
    my ($old, $new) = map { qr/ftkit \d+\.\d+\.$_ \(sources [0-9a-f]{6}\)/ } 0, 1;
    my $line = qr/error: .*process \d of the repair has $old, and process 3 has $new; the last processes are spawned\. Rule: /;
    my $j = mistake('asks', run => ['--no-relaunch'], n => 4, spares => 0, fault => 'ckpt.committed:1:3:kill,open.build:0:1:EIO@1',
        env => { FTKIT_RECOVER_SUPPLY => 'spawn, end', FTKIT_CHECKPOINT_PERIOD => '1000 calls' });
    ok($j->{rc} != 0 && $j->{rc} != 124 && @{ $j->{faults} } == 2 && $j->{log} =~ $line && $j->{log} !~ /repaired in/
            && $j->{log} =~ /by a fatal error: process \d of the repair has/ && $j->{seconds} < 30 * pace(),
        'builds of ftkit differ, a spawned process: ends, and says why') or diag("rc $j->{rc}, $j->{seconds} s\n$j->{log}");
}
{
    # the first process, which has no configuration, cannot report it
    my $script = write_file(scratch() . '/unnamed',
        qq(#!/bin/sh\n[ "\$OMPI_COMM_WORLD_RANK" = 0 ] && export FTKIT_CHECKPOINT_PERIOD=nothing\nexec '$program' none\n));
    chmod(0755, $script);
    my $j = job(program => $script, args => [], n => 3, run => [], timeout => 40, fault => 'open.build:2:1:EIO');
    my @lines = $j->{log} =~ /error: context default: it cannot be opened: process 0 .*, and process 2 has ftkit .* Rule: /g;
    is(scalar(@lines), 1, 'builds of ftkit differ, and process 0 has no configuration: one line') or diag($j->{log});
}

my $world = qr/\(rank \d of the job\) communicates on MPI_COMM_WORLD.*Rule: .*use ftkit_comm\(\)/;
ends($_, $world) for qw(world worldsend after);

my $finalize = qr/rank \d calls MPI_Finalize with context .* open\. Rule: every rank calls ftkit_close/;
ends('noclose', $finalize);
ends('noclose', $finalize, env => $log);
ends('finalize', qr/rank 1 in MPI_Finalize without ftkit_close.*Rule: all ranks leave the loop/);

# a set that one rank asks for
my $request = qr/error: rank 1 writes a set in its call 14 of ftkit_checkpoint because of ftkit_request, and rank [02] has not .*Rule: every rank calls ftkit_request/;
ends('request', $request, env => { FTKIT_CHECKPOINT_PERIOD => '1000 calls', FTKIT_RECOVER_STALL_SAY => '0' });
ends('ncrequest', $request, env => { FTKIT_CHECKPOINT_PERIOD => '5min', FTKIT_RECOVER_STALL_SAY => '0' });

# a set that all ranks ask for is no mistake: a replacement that begins at this set asks again
for my $case ([ 'asks', 'ckpt.committed:1:3:kill' ], [ 'asks', 'ckpt.begin:1:4:kill' ], [ 'asksdurable', 'ckpt.committed:1:3:kill' ],
    [ 'askswait', 'ckpt.committed:1:3:kill' ], [ 'asks', 'ckpt.committed:1:3:kill', %$log, FTKIT_LOG_TEAMS => 'rank' ])
{
    my ($mode, $fault, %more) = @$case;
    my $j = mistake($mode, fault => $fault, run => ['--no-relaunch'],
        env => { FTKIT_CHECKPOINT_PERIOD => '1000 calls', FTKIT_RECOVER_STALL => '9s', %more });
    my ($sets) = $j->{log} =~ /mistakes: (\d+) sets/;
    ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && ($sets // 0) >= 7 && $sets <= ($mode eq 'asks' ? 7 : 8),
        "$mode, $fault" . (%more ? ', with the log' : '') . ': ' . ($sets // 'no') . ' sets') or diag("rc $j->{rc}\n$j->{log}");
}

{
    # the same where all wait for the set of a halt
    my $j = mistake('askshalt', fault => 'flush.submitted:1:1:kill', run => ['--no-relaunch'],
        env => { FTKIT_CHECKPOINT_PERIOD => '1000 calls', FTKIT_LEVEL_HDF5_EVERY => '1000 sets', FTKIT_RECOVER_STALL => '9s' });
    ok($j->{rc} == 75 && @{ $j->{faults} } == 1 && $j->{log} =~ /the job has halted; set \d+ is durable/,
        'askshalt: a rank is lost while the others wait for the set of a halt, and the job halts') or diag("rc $j->{rc}\n$j->{log}");
}

# communicators that the program keeps over a repair: the line, one more try, and the end
for my $mode (qw(stale staledup)) {
    my $j = ends($mode, qr/warning: context default: rank \d calls MPI_Allreduce on a communicator from before the last repair: all .*error: rank \d calls MPI_Allreduce on .*, again and again. Rule: .*ftkit_on_repair/s,
        fault => 'ckpt.voted:1:3:kill');
    my @repairs = $j->{log} =~ /(repaired in)/g;
    cmp_ok(scalar(@repairs), '<=', 4, '... after few repairs');
}
{
    # a process that the program has spawned is no lost rank
    my $j = mistake('child', fault => 'ckpt.voted:1:3:kill', run => ['--no-relaunch'],
        env => { FTKIT_CHECKPOINT_PERIOD => '5 calls', FTKIT_RECOVER_SUPPLY => 'spare, end' });
    ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $j->{log} !~ /from before the last repair/,
        'child: a communicator with a spawned process is not taken for an old one') or diag("rc $j->{rc}\n$j->{log}");
}
for my $case (['fatal', 'the communicator of ftkit_comm\(\)'], ['fatalkept', 'a communicator of ftkit_track_comm']) {
    my ($mode, $which) = @$case;
    my $j = mistake($mode);
    my @said = $j->{log} =~ /(warning: .*on rank \d $which has the error handler MPI_ERRORS_ARE_FATAL.*Rule: )/g;
    ok($j->{rc} == 0 && @said == 1, "$mode: a fatal error handler is told once") or diag($j->{log});
}

# MPI_COMM_WORLD with this handler ends the process that uses it, by the MPI
ends('fatalworld', qr/warning: .*on rank \d MPI_COMM_WORLD has the error handler MPI_ERRORS_ARE_FATAL: .*Rule: after ftkit_open leave/);

ends('noopen', qr/warning: rank 0 has waited for other ranks in ftkit_open .*error: rank \d has waited .*Rule: every rank of the communicator calls ftkit_open/s,
    env => { FTKIT_RECOVER_STALL_SAY => '200ms' });
ends('twice', qr/call out of order: .*processes of the communicator \(1\) are spares .*open a second context on ftkit_comm/);
is(mistake('twicecomm')->{rc}, 0, 'a second context on ftkit_comm() takes no spares');

# several programs in one job, and not enough processes of one (mpmd.t has the rest)
{
    my $programs = write_file(scratch() . '/mpirun',
        "#!/bin/sh\nunset FTKIT_RUN_SIZE\nexec mpirun \"\$@\" : -n 1 '$program' none\n");
    chmod 0755, $programs;
    my ($real) = slurp(build() . '/mpi.mk') =~ /^MPICC := (.*)\/mpicc$/m;
    local $ENV{PATH} = "$real:$ENV{PATH}";
    my @more = ('--mpirun', $programs);
    my $j = mistake('none', run => [@more], spares => 1);
    my $line = qr/program 1 has 1 process and spares.count = 1: spares.count is the number of spares of each program/;
    ok($j->{rc} == 2 && $j->{log} =~ $line, 'several programs, and a spare of each') or diag("rc $j->{rc}\n$j->{log}");
    is(mistake('none', run => [@more], spares => 0)->{rc}, 0, '... without spares');
}

# with the log the function has a name
ends('kinds', qr/error: rank \d: ranks 0 and 1 of a communicator make a window by different calls/,
    env => $log, run => ['--no-relaunch']);
ends('window', qr/error: rank 1: MPI_Win_allocate_shared is not possible with the message log/,
    env => { FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 1 });
for my $case (['badcount', 'MPI_Send'], ['badrank', 'MPI_Send']) {
    my ($mode, $call) = @$case;
    my $j = mistake($mode, env => $log, run => ['--no-relaunch']);
    ok($j->{rc} != 0 && $j->{log} =~ /error: rank 1: \Q$call\E of the program failed/,
        "$mode, with the log: the function is named") or diag($j->{log});
}
{
    my $j = mistake('badrank', run => ['--no-relaunch']);
    ok($j->{rc} != 0 && $j->{log} =~ /error: rank 1: an MPI call .* failed.*MPI_ERR_RANK/,
        'badrank: the error is told') or diag($j->{log});
}

# ranks that never wait for each other: only ftkit can see it
my $envs = 0;
for my $env ({}, $log, { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '1000 calls' }) {
    $envs++;
    my $both = qr/rank \d is in ftkit_\w+ after \d+ calls of ftkit_checkpoint.*Rule: all ranks leave/;
    my $set = qr/registered as replicated and has other values|at different calls|in ftkit_checkpoint.*Rule: all ranks leave|calls have failed again after each of 40 repairs.*Rules:/; # where a set is due meanwhile
    my @modes = qw(ncleave ncfinish ncextra);
    for my $i (0 .. 2) {
        my $mode = $modes[$i];
        next if !selected(3, $i, -$envs);
        ends($mode, ($env->{FTKIT_CHECKPOINT_PERIOD} // '') eq '1000 calls' ? $both : qr/$both|$set/, env => $env);
    }
}

# a rank that leaves the loop while the others scrub
ends('ncleavescrub', qr/(?=.*rank 1 is in ftkit_close after 13 calls)(?=.*is in ftkit_scrub after 13 calls).*Rule: all ranks leave/,
    env => $_) for ({}, $log);

{
    my $j = mistake('differs', env => { FTKIT_CHECKPOINT_PERIOD => '1 call' });
    like($j->{log}, qr/not committed: region 'factor' is registered as replicated and has other values on rank 1 than on rank 0/,
        'differs: the line names the region and the rank');
    unlike($j->{log}, qr/region 'step' is/, '... and no other one');
}

# The world without spares is that of the working ranks until one of them dies; then its calls
# fail after every repair.
{
    my $j = mistake('world', spares => 0, fault => 'ckpt.voted:1:5:kill', timeout => 90,
        run => ['--no-relaunch'], env => { FTKIT_RECOVER_ATTEMPTS => 2 });
    my $why = qr/calls have failed again after each of \d+ repairs.*no rank is missing.*Rules: .*MPI_COMM_WORLD/;
    ok($j->{rc} != 0 && $j->{rc} != 124 && $j->{log} =~ $why,
        'world without spares: a failure ends it, and says why') or diag("rc $j->{rc}\n$j->{log}");
}

# What may be a long computation is said, and said again; recover.stall ends it.
my $two = 'ranks 0 and 2 in'; # the order of the places is that of the processes
for my $case (['leave', qr/^(?=.*$two the program )(?=.*rank 1 in ftkit_close ).*Rule: all ranks leave/],
    ['finish', qr/^(?=.*$two the program )(?=.*rank 1 in ftkit_finish ).*Rule: all ranks leave/],
    ['skip', qr/^(?=.*$two ftkit_checkpoint )(?=.*rank 1 in the program ).*Rule: every rank calls/])
{
    my ($mode, $like) = @$case;
    my $alone = $mode ne 'skip'; # no relaunch would help
    my $j = mistake($mode, run => $alone ? [] : ['--no-relaunch'],
        env => { FTKIT_RECOVER_STALL => '4s' });
    ok($j->{rc} != 0 && $j->{rc} != 124 && $j->{log} !~ /relaunching/
            && $j->{log} =~ /error: no rank .*\(recover\.stall\).*Rule: .*; ending the job/,
        "$mode: recover.stall ends it, and says why") or diag($j->{log});
    my @said = $j->{log} =~ /(warning: no rank of this node has made progress for .*)/g;
    ok(@said >= 1 && @said <= 3 && $said[-1] =~ $like, "$mode: a line says who waits for whom")
        or diag(scalar(@said), "\n", $j->{log});
}

# with the log, calls that do not match: each rank says what it waits for
{
    my $j = mistake('mismatch', env => { %$log, FTKIT_RECOVER_STALL => '4s' }, run => ['--no-relaunch']);
    my $waits = 'has waited for \d+ s in';
    ok($j->{rc} != 0 && $j->{rc} != 124
            && $j->{log} =~ /warning: .*rank 1 $waits MPI_Recv, for a receive of 1 items from rank 0 with tag 9 on .*Rule: the calls of the ranks match/
            && $j->{log} =~ /warning: .*rank 0 $waits MPI_Allreduce, for .*Rule: the calls of the ranks match/,
        'mismatch, with the log: the ranks say what they wait for') or diag($j->{log});
}

# set-up that communicates behind ftkit_recover: the replacement would wait for ever
{
    my $j = mistake('setup');
    ok($j->{rc} == 0 && $j->{seconds} < 30 * pace() && $j->{log} =~ /error: a failure before the first set was repaired .*Rule: .*ftkit_on_repair/
            && $j->{log} =~ /relaunching/,
        'setup: a death before the first set ends in a relaunch, with a line') or diag("$j->{rc}, $j->{seconds} s\n$j->{log}");
}

# started by mpirun alone
{
    my ($mpirun) = slurp(build() . '/mpi.mk') =~ /^MPIRUN := (.*)$/m;
    local %ENV = (%ENV, FTKIT_LEVEL_HDF5_DIRECTORY => scratch());
    my $out = `@{[top()]}/scripts/guard 60 -- $mpirun --oversubscribe -n 2 $program none 2>&1 </dev/null`;
    my @said = $out =~ /(failures are not repaired in this job.*)/g;
    ok(@said == 1 && $said[0] =~ /ftkit run -n RANKS --spares 1 -- PROGRAM/,
        'plain mpirun: one line names ftkit run') or diag($out);
}

# places in our sources are for debugging
{
    my $bad = { FTKIT_LEVEL_HDF5_KEEP => 'none' };
    my $j = mistake('none', run => ['--no-relaunch'], env => $bad);
    ok($j->{rc} != 0 && $j->{log} =~ /FTKIT_LEVEL_HDF5_KEEP/ && $j->{log} !~ /\.c:\d/,
        'errors name no file of ftkit') or diag($j->{log});
    $j = mistake('none', run => ['--no-relaunch'], env => { %$bad, FTKIT_REPORT_STDERR => 'debug' });
    like($j->{log}, qr/FTKIT_LEVEL_HDF5_KEEP.*\(config\.c:\d+\)/, '... but with report.stderr = debug');
}

done_testing();
