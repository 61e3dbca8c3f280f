#!/usr/bin/perl
# Sets are written to the file system in the background: a flush needs no further call, one that is
# torn shows nowhere, errors are told by the next call.  With --all each rank is killed at each step
# of a flush; otherwise the writer and one of the others, in turns.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use File::Path qw(remove_tree);
use Test::More;
require 'sys/syscall.ph';
use Time::HiRes qw(sleep time);

ulfm_only();
asleep_in_waits();
my %each = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_CHECKPOINT_PERIOD => '1 calls');
my %two = (%each, FTKIT_TOPOLOGY_RANKS_PER_NODE => 2); # two nodes of two ranks: two writers
my $items = 50_000;    # 0.4 MB a rank
my %slow = (FTKIT_LEVEL_HDF5_BANDWIDTH => '2MB'); # of a node: the 4 ranks take 0.8 s

# The environment in which calls with such a path wait while a file exists (see lib/hang.c).
my $hangs = 0;
sub hang {
    my ($path) = @_;
    return (LD_PRELOAD => build() . '/hang.so', FTKIT_TEST_HANG => scratch() . '/hang' . ++$hangs,
        FTKIT_TEST_HANG_PATH => $path);
}
my %second = hang('set-0000000002');

# The complete sets in a directory, all their bytes checked, and what else is there.
sub sets {
    my ($dir) = @_;
    return join("\n", map { s/\s+$//r } split(/\n/, qx('@{[build()]}/mpi/sets' '$dir' default)));
}

sub flush {
    my ($mode, %o) = @_;
    return job(program => build() . '/mpi/flush', args => [$mode, $o{items} // $items, $o{errors} // 1], spares => 0, %o);
}

# One mode of the program ends well and leaves these sets.
sub works {
    my ($name, $mode, $want, %o) = @_;
    my $j = flush($mode, env => { %each, %slow }, %o);
    my $have = sets($j->{dir});
    ok($j->{rc} == 0 && $have eq $want, $name)
        or diag("exit code $j->{rc}, '$have' instead of '$want'\n$j->{log}");
    return $j;
}

# ---- without a failure -----------------------------------------------------------------

my $events = scratch() . '/events';
works('more sets are due than can be written: they wait for a later one', 'postpone',
    'complete 7 1', env => { %each, hang('default.ftkit'), FTKIT_REPORT_EVENTS => $events });
like(event_texts($events), qr/set 2 is not written to the file system: an earlier one still is/,
    '... and the event log says so');
works('closing waits', 'close', 'complete 1', env => { %each, %slow, hang('set-0000000001') });
# the directory of a later set is there, as if it had been left unfinished, with a part of a rank that is
# none now; the set before is not complete until then
my $remains;
my %first = hang('manifest');
works('a set that is asked for waits for the one before', 'request', 'complete 2 1',
    env => { %each, %slow, %first }, while => sub {
    my ($work) = @_;
    await_file("$work/default.ftkit/set-0000000001");
    mkdir("$work/made") or die("$work/made: $!\n");
    write_file("$work/made/$_", 'old') for qw(unfinished part-00007.h5);
    my $set = "$work/default.ftkit/set-0000000002";
    rename("$work/made", $set) or die("$set: $!\n");
    $remains = "$set/part-00007.h5";
    unlink($first{FTKIT_TEST_HANG});
});
ok(is_skipped() || ($remains && !-e $remains), '... what is left of a set is removed before the set is made');
works('HDF5 calls and forks of the program meanwhile', 'busy', 'complete 1');
works('fork() does not wait for a slow disk, and its child may exit()', 'fork', 'complete 1',
    fault => 'h5.part.fsync:0:1:slow');
works('the program changes its directory', 'chdir', 'complete 1',
    env => { %each, FTKIT_LEVEL_HDF5_DIRECTORY => '.' });
works('two writers on two nodes', 'request', 'complete 2 1', env => { %two, %slow, %second });
{
    my $j = works('two writers on a node', 'request', 'complete 2 1',
        env => { %each, %slow, %second, FTKIT_LEVEL_HDF5_WRITERS => 2 });
    is(join(' ', map { /part-0*(\d+)\.h5$/ ? $1 : () } sort(glob("$j->{dir}/default.ftkit/set-0000000002/*"))),
        '0 2', '... these ranks have written');
}
works('... of which the second has no space', 'other', 'complete 4 1',
    env => { %each, FTKIT_LEVEL_HDF5_WRITERS => 2, FTKIT_LEVEL_HDF5_BANDWIDTH => '10MB' },
    fault => 'h5.part.fsync:2:2:ENOSPC');
works('one writer per rank where memory cannot be shared', 'request', 'complete 2 1',
    env => { %each, %slow, %second }, fault => 'ring.make:0:1:ENOSPC');
works('a rank that cannot join writes for itself', 'request', 'complete 2 1',
    env => { %each, %slow, %second }, fault => 'ring.join:2:1:EACCES');
for my $how (['no helper thread', 'flush.thread:3:*:ENOMEM'],
    ['an HDF5 that is not thread-safe', 'h5.threadsafe:*:*:EIO']) {
    my $j = works("$how->[0]: the program waits", 'time', 'complete 3 2', fault => $how->[1],
        env => { %each, FTKIT_REPORT_STDERR => 'warning' });
    like($j->{log}, qr/written to the file system while the program waits/, '... and is told');
}
works('synchronous by configuration', 'time', 'complete 3 2',
    env => { %each, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' });

# the limit is kept, on a node and on each of two
for my $nodes (1, 2) {
    my $j = works("the bandwidth of $nodes node(s) is kept to", 'time', 'complete 3 2',
        env => { ($nodes == 2 ? %two : %each), %slow });
    my ($called, $waited, $bytes) = $j->{log} =~ /called (\S+) waited (\S+) bytes (\d+)/;
    my $rate = $waited ? $bytes / $nodes / $waited : 0;
    ok($rate > 0.25e6 && $rate < 2.1e6, sprintf('... %.1f MB/s a node of 2', $rate / 1e6));
    ok($called < $waited / 2, "... and the caller does not wait ($called s of $waited s)");
}

# ---- completion without a further call -------------------------------------------------

for my $env (\%each, \%two) {
    my $early;
    my $writers = $env == \%two ? 2 : 1;
    my %hang = hang('set-0000000001');
    write_file($hang{FTKIT_TEST_HANG}, '');
    my $j = flush('idle', env => { %$env, %hang }, while => sub {
        my ($work) = @_;
        await_file("$work/idle.$_") for 0 .. 3;
        $early = -e "$work/default.ftkit/set-0000000001/manifest";
        unlink($hang{FTKIT_TEST_HANG});
        await_file("$work/default.ftkit/set-0000000001/manifest");
        kill_mpirun($work);
    });
    ok(!$early, "$writers writer(s): every rank had made its last call before the end");
    is(sets($j->{dir}), 'complete 1', '... and the set is complete');
    $j = flush('verify', keep => $j->{dir}, env => { %$env });
    ok($j->{rc} == 0 && $j->{log} =~ /verified round 1/, '... and a restart has its data')
        or diag($j->{log});
}

# ---- errors of the file system ---------------------------------------------------------

my %later = (%each, FTKIT_LEVEL_HDF5_BANDWIDTH => '10MB');

# Each second set of a job has the next error, and the call of the set behind it returns the error.  A set that fails comes to all points
# before its own, so the errors begin with the last point.
sub errors_of_sets {
    my ($faults, $name, %o) = @_;
    my ($n, $i) = (scalar(@$faults), 0);
    my $nth = sub { # visits before set 2 i, and one
        my ($visits) = @_;
        return $visits * (2 * ++$i - 1) + 1;
    };
    my $j = flush('error', env => { %later, %{ $o{env} // {} } }, items => $o{items}, errors => $n,
        fault => join(',', map {"$_->[0]:" . $nth->($_->[2]) . ":$_->[1]"} @$faults));
    my $have = sets($j->{dir});
    ok($j->{rc} == 0 && $have eq sprintf('complete %d %d', 2 * $n + 2, 2 * $n + 1) && @{ $j->{faults} } == $n, $name)
        or diag("exit code $j->{rc}, '$have'\n$j->{log}");
    my @got = $j->{log} =~ /^told (.*)$/mg;
    for my $f (@$faults) {
        like(shift(@got) // '', $f->[1] eq 'ENOSPC' ? qr/^no space left/ : qr/^storage I\/O error/,
            "... $f->[1] at $f->[0], with its code on every rank");
    }
    return;
}

errors_of_sets([ ['h5.manifest.rename:0', 'EIO', 1], ['h5.manifest.fsync:0', 'EIO', 1], ['h5.manifest.write:0', 'ENOSPC', 1],
    ['h5.master.write:0', 'ENOSPC', 2], ['h5.part.dirsync:0', 'EIO', 1], ['h5.part.rename:0', 'EIO', 1],
    ['h5.part.close:0', 'EIO', 1], ['h5.part.fsync:0', 'EIO', 1], ['h5.part.write:0', 'ENOSPC', 17],
    ['h5.part.create:0', 'EROFS', 1] ], 'errors of the writer: the next call returns them');
# of a rank that hands its segment over, in two blocks; when the directory cannot be made
errors_of_sets([ ['flush.block:3', 'EIO', 2], ['h5.begin:0', 'EACCES', 1] ], 'errors of another rank, and of the directory',
    items => 200_000, env => { FTKIT_LEVEL_HDF5_BANDWIDTH => '40MB' });
works('... of the second writer', 'other', 'complete 4 1', env => { %later, %two },
    fault => 'h5.part.fsync:2:2:EIO');
works('... of the second writer, when its part has its name: the set stays', 'named',
    'complete 2 1', env => { %later, %two }, fault => 'h5.part.dirsync:2:2:EIO');
works('... by the wait', 'waiterror', "complete 1\nincomplete set-0000000002",
    env => \%later, fault => 'h5.part.fsync:0:2:EIO');
works('... by the call itself when the program waits for the files', 'callerror', 'complete 3 1',
    env => { %later, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' }, fault => 'h5.begin:0:2:EACCES');
{
    my $j = flush('close', env => { %each, %slow }, fault => 'h5.part.fsync:0:1:EIO');
    ok($j->{rc} != 0 && $j->{log} =~ /close: storage I\/O error/, '... or at last by closing')
        or diag($j->{log});
}

# Wait until the log of the job in a directory has such a line, or for 30 s (times pace()).
sub await_line {
    my ($work, $line) = @_;
    for (my $end = time() + 30 * pace(); time() < $end; sleep(0.005)) {
        return if slurp("$work/log") =~ $line;
    }
    return;
}

my ($MS_RDONLY, $MS_REMOUNT) = (1, 32); # of <sys/mount.h>

# a file system that really is full, or becomes read-only, or vanishes: the run goes on
sub mounted {
    my ($name, $error, $size, $work) = @_;
    my $dir = sprintf('%s/%s', scratch(), $name =~ s/\W+/-/gr);
    mkdir($dir) or die;
    return if system("mount -t tmpfs -o size=$size none '$dir' 2>/dev/null");
    my @solver = ('-d', 5, '-n', 60_000, '-s', 150);
    my $want = reference(4, @solver);
    my $out = scratch() . '/out.mounted';
    unlink($out);
    # the error comes behind step 20, and its end before step 130
    my $own = "$dir.job";
    my $j = job(env => { %each, FTKIT_LEVEL_HDF5_DIRECTORY => $dir, hold_ranks($own, [0, 20], [0, 130]) }, keep => $own,
        args => ['-o', $out, '-p', 'pid', @solver], while => sub {
            $work->($dir, sub { release_ranks($own, 0); await_line($own, $error) });
            release_ranks($own);
        });
    my $sets = sets($dir);
    system("umount -l '$dir'");
    ok($j->{rc} == 0 && slurp($out) eq $want && $j->{log} =~ $error
            && $sets =~ /^complete \d+/, "$name: told, the run goes on, a set is there")
        or diag("exit code $j->{rc}, $sets\n", substr($j->{log}, 0, 3000));
    return 1;
}
SKIP: {
    my $first = 'default.ftkit/set-*/manifest';
    mounted('a full file system', qr/no space left/, '16m', sub {
        my ($dir, $told) = @_;
        await_file("$dir/$first");
        system("head -c 14m /dev/zero >'$dir/ballast' 2>/dev/null");
        $told->();
        unlink("$dir/ballast");
    }) or skip('no right to mount', 2);
    mounted('a file system that becomes read-only', qr/I\/O error/, '64m', sub {
        my ($dir, $told) = @_;
        await_file("$dir/$first");
        # not while a file is open for writing: mount(8) would need too long between two sets
        my ($source, $type, $no_data) = ('none', 'tmpfs', 0); # syscall() takes no constants
        for (my $end = time() + 30 * pace(); time() < $end; sleep(0.001)) {
            last if syscall(&SYS_mount, $source, $dir, $type, $MS_REMOUNT | $MS_RDONLY, $no_data) == 0;
        }
        $told->();
        system("mount -o remount,rw '$dir'");
    });
}
my $vanished = scratch() . '/vanished';
my $no_directory = qr/storage I\/O error|no such/i;
survives('the directory vanishes', env => { %each, hold_ranks($vanished, [0, 30], [0, 150]) }, faults => 0,
    solver => ['-d', 5, '-s', 200], command => ['-p', 'pid'], like => $no_directory, while => sub {
        my ($work) = @_;
        await_file("$work/default.ftkit/set-*/manifest");
        my $away = 0; # the writer may make the directory again at each moment
        my $put_away = sub { rename("$work/default.ftkit", "$work/away" . $away++); return $away < 1000 };
        my $file;
        1 while !open($file, '>', "$work/default.ftkit") && $put_away->(); # nor can it be made again
        close($file) or die;
        release_ranks($vanished, 0);
        await_line($work, $no_directory);
        unlink("$work/default.ftkit");
        1 while !rename("$work/away0", "$work/default.ftkit") && $put_away->();
        release_ranks($vanished);
    });

# ---- a file system that does not answer ------------------------------------------------

# The number of an event of a rank in an event log so far.  By its text: the log is long, and read often.
sub count_events
{
    my ($log, $event, $rank) = @_;
    my @lines = map { split(/^/m, slurp($_)) } glob("$log/*.jsonl");
    return scalar(grep { /"event":"$event"/ && /"rank":$rank\b/ } @lines);
}

# From the first durable set on no call with a path of the sets returns.  The program makes sets in
# memory, loses a rank, is repaired from memory, and makes further sets; then the file system answers.
for my $case ([1, \%each], [0, \%each], [2, \%two]) {
    my ($rank, $env) = @$case;
    my $log = scratch() . "/silent.$rank";
    my $hold = scratch() . "/silent.hold.$rank";
    my %hang = hang('default.ftkit');
    my $hang = $hang{FTKIT_TEST_HANG};
    my @seen;
    my $await = sub {
        my ($what, $event, $of, $n) = @_;
        for (my $end = time() + 20 * pace(); time() < $end; sleep(0.2)) {
            return push(@seen, $what) if count_events($log, $event, $of) >= $n;
        }
    };
    my $j = survives("a file system that does not answer, and rank $rank dies", faults => 0,
        timeout => 60, solver => ['-d', 10, '-s', 300], command => ['-p', 'pid'],
        env => { %$env, FTKIT_REPORT_EVENTS => $log, %hang, hold_ranks($hold, [0, 20], [0, 100]) },
        like => qr/warning: .*rank \d: the file system of \S+ has not answered for \d+ s.*answers again/s,
        while => sub {
            my ($work) = @_;
            await_file("$work/default.ftkit/set-*/manifest");
            write_file($hang, '');
            my $sets = count_events($log, 'set', 0);
            release_ranks($hold, 0);
            $await->('sets', 'set', 0, $sets + 8);
            kill('KILL', process_of($work, $rank));
            release_ranks($hold);
            $await->('repair', 'restore', $rank, 2);
            $await->('more sets', 'set', 0, 110); # there was none behind step 101
            for (my $end = time() + 20 * pace(); time() < $end; sleep(0.1)) {
                last if grep { slurp($_) =~ /has not answered/ } glob("$log/*.jsonl");
            }
            unlink($hang);
        });
    is("@seen[0 .. 2]", 'sets repair more sets', '... no rank waits for it, nor does the repair');
}

# ---- a process dies while a set is written ---------------------------------------------

# The run is repaired, its result is right, and what is on disk at the end is whole.
sub torn {
    my ($name, $fault, %o) = @_;
    # however slow the machine is, a set in ten comes to its end
    my @solver = ('-d', $o{delay} // 4, '-n', 60_000, '-s', $o{steps} // 50, '-W', 10);
    my $want = reference(4, @solver);
    my $faults = 1 + ($fault =~ tr/,//);
    my $j = job(args => ['-o', 'out', @solver], timeout => 60, fault => $fault, %o,
        env => { %each, %{ $o{env} // {} } });
    my $hit = scalar(@{ $j->{faults} });
    my $sets = sets($j->{dir});
    my @bad;
    push(@bad, "exit code $j->{rc}") if $j->{rc} != 0;
    push(@bad, 'another result') if $j->{result} ne $want;
    push(@bad, "$hit faults came to pass, not $faults") if $hit != $faults;
    push(@bad, "sets: $sets") if $sets !~ /^complete \d+ \d+$/;
    push(@bad, 'communicators left') if $j->{log} =~ /^handles: /m;
    ok(!@bad, $name);
    diag("$name: ", join(', ', @bad), "\n", substr($j->{log}, 0, 6000)) if @bad;
    remove_tree($j->{dir}) if !@bad;
    return $j;
}

# 0 writes, the others hand over; the third time is in the second or third flush
my @others = ([qw(flush.block flush.submit flush.end)], [qw(flush.announced flush.begin)],
    [qw(flush.part flush.submitted)]);
my $turn = 0;
for my $points (@others) { # with --all in a job for each point and each rank, otherwise one after the other
    my @kills = all_cases() ? map { my $rank = $_; map {"$_:$rank:3:kill"} @$points } 1 .. 3
        : join(',', map { "$points->[$_]:" . (1 + ($turn + $_) % 3) . ':' . (3 + 2 * $_) . ':kill' } 0 .. $#$points);
    torn("killed: $_", $_, spares => scalar(@$points), delay => 8, steps => 25 + 15 * @$points) for @kills;
    $turn++;
}
# the writer: with --all in a job for each point, otherwise its replacements are killed at the next ones
my %visit = ('flush.block' => 40, 'h5.part.write' => 50); # for each block
my @steps = ([qw(h5.part.write flush.submit h5.begin h5.manifest.rename)],
    [qw(flush.announced h5.part.create flush.end h5.manifest.dirsync)],
    [qw(flush.block flush.submitted h5.part.fsync h5.prune)],
    [qw(flush.begin h5.part.rename h5.master.write flush.complete)],
    [qw(flush.part h5.part.dirsync h5.xdmf.write)], [qw(flush.parts h5.manifest.write h5.manifest.fsync)]);
for my $points (all_cases() ? map { [$_] } map {@$_} @steps : @steps) {
    torn("the writer is killed at @$points", join(',', map { my $point = $points->[$_];
            "$point:0:" . ($visit{$point} // ($_ ? 2 : 3)) . ":kill\@$_" } 0 .. $#$points),
        spares => scalar(@$points), delay => 8, steps => 25 + 15 * @$points);
}
# what did not come to be is made up for by the next set, whatever the period is
for my $point ('flush.submit:1:1', 'local.copied:1:2') {
    my $j = works("killed at $point: the next set is durable", 'lost', 'complete 3',
        spares => 1, fault => "$point:kill", env => { %each,
            FTKIT_LEVEL_HDF5_EVERY => '100 sets', FTKIT_LEVEL_LOCAL_SCHEME => 'own',
            FTKIT_LEVEL_LOCAL_EVERY => '1 sets', FTKIT_LEVEL_LOCAL_PLACE => 'memory' });
    is(scalar(@{ $j->{faults} }), 1, '... killed it was');
}
{
    my $j = job(env => { %each, FTKIT_CHECKPOINT_PERIOD => '5 calls',
            FTKIT_LEVEL_HDF5_EVERY => '60s' }, fault => 'flush.submit:1:1:kill');
    my $sets = sets($j->{dir});
    ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $sets eq 'complete 2',
        '... with a period in time, too') or diag("exit code $j->{rc}, '$sets'\n$j->{log}");
}
# two writers: each without the other; rank 0 gives up a second after the repair
# with --all in a job for each, otherwise one after the other
sub torn_in_turn {
    my ($what, $env, @at) = @_;
    my %kills; # of a rank so far
    for my $at (all_cases() ? @at : ()) {
        torn("killed at $at of $what", "$at:3:kill", env => $env, delay => 12, steps => 70);
    }
    return if all_cases();
    my @nth = (3, 5, 7); # a new process begins to count
    my $fault = join(',', map { my ($rank) = $at[$_] =~ /:(\d)/; my $before = $kills{$rank}++ // 0;
            "$at[$_]:" . ($before ? 3 : $nth[$_]) . ":kill\@$before" } 0 .. $#at);
    torn("killed at @at of $what", $fault, env => $env, spares => scalar(@at), delay => 12, steps => 70 + 20 * @at);
    return;
}
torn_in_turn('two nodes', \%two, @$_) for [qw(flush.begin:2 flush.block:3 flush.part:0)],
    [qw(flush.block:2 flush.part:3 flush.parts:0)], [qw(flush.part:2 h5.part.rename:2 flush.submitted:2)];
# the second writer of a node, and a rank of its group
torn_in_turn('two writers on a node', { %each, FTKIT_LEVEL_HDF5_WRITERS => 2 },
    qw(h5.part.write:2 flush.block:3 flush.part:2));
torn('one dies while handing over, another in the repair',
    'flush.block:1:3:kill,repair.restore:2:2:kill', spares => 2);
torn('the replacement dies in the next flush', 'flush.block:1:3:kill,flush.begin:1:1:kill@1',
    spares => 2);
torn('replaced by a spawned process', 'flush.block:2:3:kill', spares => 0);
torn('stopped while handing over', 'flush.block:2:3:stop', spares => 1,
    env => { FTKIT_RECOVER_TIMEOUT => int(2 * pace()) . 's' });

# the program goes on with fewer ranks
{
    my %fewer = (program => build() . '/mpi/shrink', args => ['-o', 'out'], n => 5, spares => 0,
        env => { %each, FTKIT_CHECKPOINT_PERIOD => '3 calls', FTKIT_RECOVER_SUPPLY => 'shrink' });
    my $want = once('shrink', sub { job(%fewer)->{result} });
    for my $fault ('flush.begin:4:1:kill', 'flush.block:4:1:kill', 'flush.part:4:1:kill') {
        # no other rank has that number later; the last time it is a writer
        $fewer{env}{FTKIT_TOPOLOGY_RANKS_PER_NODE} = 2 if $fault =~ /part/;
        my $j = job(%fewer, fault => $fault);
        ok($j->{rc} == 0 && $want && $j->{result} eq $want && @{ $j->{faults} } == 1,
            "fewer ranks: $fault") or diag(substr($j->{log}, 0, 3000));
        # the run may be over before another set is due
        like(sets($j->{dir}), qr/^complete( \d+)*(\nincomplete \S+)*$/, '... what is there is whole');
    }
}

# the whole job is killed at a moment of the second or a later flush
my $seed = $ENV{FTKIT_TEST_SEED} // 1;
for my $i ($seed .. $seed + (all_cases() ? 4 : 1)) {
    srand($i);
    my $pause = rand(0.3);
    my $killed = 0;
    my $set = 0;
    my $env = $i % 2 ? \%each : \%two;
    my $hold = scratch() . "/lost.hold.$i";
    survives(sprintf('the job is killed %.3f s after the first set (seed %d)', $pause, $i),
        env => { %$env, FTKIT_LEVEL_HDF5_BANDWIDTH => '30MB', hold_ranks($hold, [0, 40]) }, run => [], faults => 0,
        timeout => 90, solver => ['-d', 10, '-n', 60_000, '-s', 50], command => ['-p', 'pid'],
        like => qr/restored set \d+ from files/, while => sub {
            my ($work) = @_;
            await_file("$work/default.ftkit/set-*/manifest");
            sleep($pause);
            $killed = kill_mpirun($work);
            release_ranks($hold);
            ($set) = sets($work) =~ /^complete (\d+)/;
        });
    ok($killed && $set, '... and what was complete then is whole: set ' . ($set // 'none'));
}

done_testing();
