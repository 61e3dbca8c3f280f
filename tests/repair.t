#!/usr/bin/perl
# Several failures: one after the other, at once, and inside the repair of the first.  With --all
# every process is killed at every step of a repair; otherwise they take turns.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use File::Path qw(remove_tree);
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');
# while the program waits: every committed set is on the file system too
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false');
my $seed = $ENV{FTKIT_TEST_SEED} // 20240917;
srand($seed);
diag("FTKIT_TEST_SEED=$seed");

# one after the other
survives('the same rank three times', spares => 3, env => \%memory, faults => 3,
    fault => 'app.mid:2:7:kill,app.mid:2:9:kill@1,app.mid:2:4:kill@2');
survives('three failures, three spares, and a fourth failure: spawned', spares => 3, env => \%memory, faults => 4,
    fault => 'app.mid:0:7:kill,app.coll:1:11:kill,app.compute:3:17:kill,app.step:2:25:kill',
    like => qr/0 spares left.*spawning 1 process/s);
my $j = job(spares => 1, env => { %memory, FTKIT_RECOVER_SUPPLY => 'spare, end' },
    fault => 'app.mid:0:7:kill,app.mid:1:14:kill', timeout => 60);
ok($j->{rc} != 0 && $j->{log} =~ /1 of 4 ranks lost, 0 spares left/,
    'no spare left and no spawn allowed: a clear end') or diag($j->{log});
$j = job(spares => 0, env => { %memory, FTKIT_RECOVER_SUPPLY => 'end' }, timeout => 60,
    program => build() . '/mpi/ended', args => [], fault => 'app.step:2:20:kill');
like($j->{log}, qr/^ended: -60, -60, same$/m, '... every later call tells the same')
    or diag($j->{log});
survives('... and a relaunch finishes it', spares => 1, run => [], faults => 2,
    env => { %files, FTKIT_RECOVER_SUPPLY => 'spare, end' },
    fault => 'app.mid:0:7:kill,app.mid:1:14:kill', like => qr/restored set \d+ from files/);
survives('an idle spare dies: nobody rolls back, and the run goes on for much longer than the timeout',
    spares => 2, env => { %memory, FTKIT_RECOVER_TIMEOUT => '1s' },
    solver => ['-d', '100'], fault => 'spare.nap:5:3:kill,app.step:0:5:after1',
    unlike => qr/repaired|ending the job/);
survives('a spawned replacement is stopped', spares => 0, faults => 2,
    env => { %memory, FTKIT_RECOVER_TIMEOUT => '3s' },
    fault => 'app.mid:1:9:kill,app.step:1:3:stop@1', like => qr/has been stopped for/);
survives('an idle spare dies, then a rank', spares => 2, env => \%memory, faults => 2,
    fault => 'spare.nap:5:3:kill,app.step:1:20:after1,app.mid:1:20:kill');
survives('a spare dies as it is called', spares => 2, env => \%memory, faults => 2,
    fault => 'app.mid:1:7:kill,repair.census:4:2:kill');

# replacements by spawn, also where the ranks fill the machine
{
    my ($cores) = map { $_ > 8 ? 8 : $_ } `nproc` =~ /(\d+)/;
    survives('spawn: no core is left', n => $cores, spares => 0, env => \%memory,
        fault => 'app.step:1:9:kill', like => qr/spawning 1 process/) if $cores > 1;
}
for my $point (all_cases() ? qw(app.coll ckpt.sealed) : (), qw(app.mid ckpt.voted recover.begin open.built)) {
    survives("spawn: killed at $point, rank $_", spares => 0,
        env => { %memory, FTKIT_RECOVER_SUPPLY => 'spawn, end' },
        fault => "$point:$_:1:kill", like => qr/spawning 1 process/) for map { 2 * $_ } victims(2, 1);
}

# a failure while replacements join: the spawned process behind each of its steps, a rank between the
# two agreements, rank 0 (which has spawned the process) behind them, and one of two spawned processes
my %spawns = (spares => 0, env => { %files, FTKIT_RECOVER_SUPPLY => 'spawn, end' });
my $twice = qr/spawning \d process.*spawning \d process/s;
survives("spawn: the replacement dies behind step $_", %spawns, faults => 2, like => $twice,
    fault => "app.step:1:9:kill,repair.join:0:$_:once\@1") for 2 .. 5;
survives('spawn: rank 0 dies when it has spawned', %spawns, faults => 2, like => $twice,
    fault => 'app.step:2:9:kill,repair.joined:0:1:kill');
# here Open MPI may hang (docs/limits.md, Spawn): then the job is relaunched; the first two hang each time, and
# ranks that spin until the watchdog ends them take 15 s of both cores
survives("spawn: a death before a merge, $_", %spawns, run => [], faults => 2, like => qr/spawning 1 process/,
    fault => "app.step:2:9:kill,$_") for all_cases() ? qw(repair.join:0:1:once@1 repair.met:1:1:kill) : ();
survives('spawn: one of two replacements dies', %spawns, run => [], faults => 3,
    fault => 'app.step:1:9:kill,repair.shrink:2:1:kill,repair.join:1:2:once@1', like => qr/spawning 2 processes/);
# an error that is no failure: the repair tries again, but not for ever
survives('spawn: connecting fails in rank 0', %spawns, faults => 2, like => $twice,
    fault => 'app.step:1:9:kill,repair.pair:0:1:EIO');
# the message of a merge that is given up comes when its communicator could have been freed
survives('spawn: connecting fails in rank 0, behind a message', %spawns, faults => 4, like => $twice,
    fault => 'app.step:1:9:kill,repair.pair:0:1:EIO,repair.inter:0:1:slow@1');
$j = job(%spawns, fault => 'app.step:1:9:kill,repair.join:0:2:EIO@1');
is(scalar(() = $j->{log} =~ /spawning 1 process/g), 3, 'spawn: replacements cannot join: three of them')
    or diag($j->{log});
ok($j->{rc} != 0 && $j->{log} =~ /a spawned process cannot join the job: .*0 spares left: the job has to be/s,
    '... and the job ends, with the reason') or diag($j->{log});
$j = job(%spawns, n => 2, fault => 'app.step:1:9:kill,repair.split:0:2:kill');
ok($j->{rc} != 0 && @{ $j->{faults} } == 2 && $j->{log} =~ /every working rank is lost/,
    'spawn: the replacement is left alone: a clear end') or diag($j->{log});
for my $handler (qw(own fatal)) {
    $j = job(%spawns, program => build() . '/mpi/handlers', args => [$handler], fault => 'app.step:1:9:kill');
    is("$j->{rc} " . join(' ', $j->{log} =~ /^handler: (\w+)/mg), '0' . ' kept' x 4,
        "a replacement has the error handler of the program: $handler") or diag($j->{log});
}

# survivors fetch nothing, and the event log says what came from where
my $events;
survives('one rank lost: from its buddy', spares => 1, env => { %memory,
        FTKIT_REPORT_EVENTS => scratch() . '/events' },
    fault => 'app.mid:1:13:kill');
like($events = event_texts(scratch() . '/events'),
    qr/: rank 1 from the copy at rank 0, all others from their own memory$/m, '... told');
unlike($events, qr/the file system/, '... nothing else was read');
remove_tree(scratch() . '/events');
survives('both buddies lost: from the files', spares => 2, env => { %files,
        FTKIT_REPORT_EVENTS => scratch() . '/events' },
    faults => 2, fault => 'app.mid:2:13:kill2,app.mid:3:13:kill2');
$events = event_texts(scratch() . '/events');
like($events, qr/: set \d+: rank $_ from the file system$/m, "... rank $_ read them")
    for (2, 3);
like($events, qr/: set \d+: rank $_ from its own memory$/m, "... rank $_ read nothing")
    for (0, 1);

# at once.  Simulated nodes of 3 processes: ranks 0 1 / 2 3, a spare on each
my %nodes = (FTKIT_TOPOLOGY_RANKS_PER_NODE => 3);
survives('two ranks of one node at once', spares => 2, env => { %memory, %nodes },
    faults => 2, fault => 'app.mid:0:7:kill2,app.mid:1:7:kill2', like => qr/2 ranks replaced/);
survives("two ranks that are not buddies ($_->[0], $_->[1])", spares => 2,
    env => { %memory, %nodes }, faults => 2,
    fault => "app.mid:$_->[0]:9:kill2,app.mid:$_->[1]:9:kill2")
    for (([0, 3], [1, 2], [2, 3])[victims(3, 1)]);
survives("both buddies ($_->[0], $_->[1]): back to the files", spares => 2,
    env => { %files, %nodes }, faults => 2,
    fault => "app.mid:$_->[0]:9:kill2,app.mid:$_->[1]:9:kill2", like => qr/from files/)
    for (([0, 2], [1, 3])[victims(2, 1)]);
$j = job(spares => 2, env => { %memory, %nodes },
    fault => 'app.mid:0:9:kill2,app.mid:2:9:kill2');
ok($j->{rc} != 0 && $j->{log} =~ /there are no files, and no copy .* segments of ranks 0 and 2$/m,
    'both buddies and no files: a clear end') or diag($j->{log});
survives('a node with all its processes', n => 6, spares => 3, faults => 4,
    env => { %memory, FTKIT_TOPOLOGY_RANKS_PER_NODE => 3 },
    fault => 'app.mid:0:9:kill3,app.mid:1:9:kill3,spare.nap:6:1:kill3,app.mid:1:2:kill@1');
survives('ring map', spares => 2, env => { %memory, FTKIT_LEVEL_MEMORY_MAP => 'ring' },
    faults => 2, fault => 'app.mid:0:7:kill2,app.mid:2:7:kill2');

# the replacement or its buddy next
survives("then the replacement, $_ steps later", spares => 2, env => \%memory, faults => 2,
    fault => "app.mid:1:8:kill,app.step:1:$_:kill\@1") for (1, 2, 5)[victims(3, 1)];
survives("then its buddy, $_", spares => 2, env => \%memory, faults => 2,
    fault => "app.mid:1:8:kill,app.step:0:$_:kill") for (9, 11, 15)[victims(3, 1)];

# a copy that does not hold: the other one is used, or the files
survives('own copy corrupt', spares => 1, env => \%memory, faults => 2,
    fault => 'app.mid:1:13:kill,repair.corrupt:2:1:EIO',
    like => in_any_order(qr/checksum/, qr/: rank 1 from the copy at rank 0, rank 2 from the copy at rank 3,/));
survives("own copy corrupt when it is restored, $_->[0]", spares => 1, env => \%memory,
    faults => 2, fault => "app.mid:1:13:kill,restore.corrupt:$_->[1]",
    like => qr/checksum|corrupt/i)
    for ['a survivor', '2:1:EIO'], ['the replacement', '1:1:EIO@1'];
survives('copy of the lost rank corrupt: back to the files', spares => 1, env => \%files,
    faults => 2, fault => 'app.mid:1:13:kill,transfer.corrupt:0:1:EIO',
    like => qr/from files/);
survives('... when it is sent a second time', spares => 2, env => \%files, faults => 3,
    fault => 'app.mid:1:13:kill,app.mid:1:2:kill@1,transfer.corrupt:0:3:EIO',
    like => qr/from files/);
for my $point (qw(repair.corrupt restore.corrupt)) {
    $j = job(spares => 1, env => \%memory, fault => "app.mid:1:13:kill,$point:2:*:EIO");
    ok($j->{rc} != 0 && @{ $j->{faults} } == 12 && $j->{log} =~ /memory of the rank is bad/,
        "own copy corrupt every time at $point: a clear end") or diag($j->{log});
}
survives('both buddies lost, the segment of another rank corrupt: it reads the file too',
    spares => 2, env => \%files, faults => 3, like => qr/using the file/,
    unlike => qr/repaired.*repaired/s,
    fault => 'app.mid:2:13:kill2,app.mid:3:13:kill2,durable.corrupt:0:1:EIO');

# the files are corrupt too
sub spoil {
    my ($work) = @_;
    await_held($work);
    await_file("$work/*.ftkit/set-*/manifest");
    for my $part (glob("$work/*.ftkit/set-*/part-*")) {
        open(my $f, '+<:raw', $part) or die("$part: $!");
        my $half = int((-s $part) / 2);
        seek($f, $half, 0) && print($f "\x5a" x $half) && close($f) or die("$part: $!");
    }
    let_go($work);
    return;
}
$j = job(spares => 2, env => { FTKIT_LEVEL_HDF5_EVERY => '3 sets' }, while => \&spoil,
    fault => 'app.step:2:22:hold,app.mid:2:22:kill2,app.mid:3:22:kill2', args => []);
ok($j->{rc} != 0 && @{ $j->{faults} } == 2 && $j->{log} =~ /no other is complete/
        && $j->{seconds} < 10 * pace(), 'both buddies lost, corrupt files: a clear end')
    or diag($j->{log});

# a second kill at every step of the repair of the first, every process
my @points = qw(repair.shrink repair.shrunk repair.census repair.plan repair.build
    repair.split repair.built repair.restore repair.restored repair.agree repair.agreed);
for my $point (@points) {
    # a spare (the last, 5: the other is numbered anew) has no copies to restore
    my @who = (0 .. 3, $point =~ /restore/ ? () : 5);
    for my $second (@who[victims(scalar(@who), 1)]) {
        my $first = $second == 2 ? 1 : 2;
        my $nth = $point =~ /shrink|shrunk|restored/ ? 1 : 2; # the opening comes first
        survives("killed at $point of the repair of rank $first: process $second",
            spares => 2, env => \%files, faults => 2,
            fault => "app.mid:$first:9:kill,$point:$second:$nth:kill");
    }
}
# after the agreement of an opening, when nobody has told `ftkit run` of it yet
survives("killed after the agreement of the opening: process $_", spares => 2,
    env => \%memory, fault => "repair.agreed:$_:1:kill") for (0, 2, 5)[victims(3, 2)];
# after that of the end: nothing is expected of a spare, and a rank has not done its work
survives('killed after the agreement of the end: a spare', spares => 2, env => \%memory,
    fault => 'repair.agreed:5:2:kill');
survives("killed after the agreement of the end: rank $_", spares => 2, env => \%memory,
    rc => 137, like => qr/killed by signal 9/, fault => "repair.agreed:$_:2:kill") for (0, 2)[victims(2, 1)];
survives("process $_ cannot make a communicator", spares => 2, env => \%files, faults => 2,
    fault => "app.mid:2:9:kill,repair.split:$_:2:EIO") for (0, 1, 3)[victims(3, 1)];
survives("killed at transfer.$_ in the repair", spares => 2, env => \%files, faults => 2,
    fault => "app.mid:2:9:kill,transfer.$_:3:1:kill") for qw(sized done);
survives("killed in the callback after the repair, rank $_", spares => 2, env => \%memory,
    faults => 2, fault => "app.mid:2:9:kill,app.callback:$_:2:kill") for (0, 1, 3)[victims(3, 1)];
survives('the replacement is killed in its set-up', spares => 2, env => \%memory,
    faults => 2, fault => "app.mid:2:9:kill,$_:2:1:kill\@1")
    for qw(open.end recover.begin recover.end app.callback);

# the call at the bottom of the loop; before the first set only a relaunch helps
survives("checkpoint at the bottom of the loop, rank $_", spares => 2, env => \%memory,
    solver => ['-B'], fault => "app.mid:$_:9:kill") for (0, 2)[victims(2, 1)];
survives('... twice', spares => 2, env => \%memory, solver => ['-B'], faults => 2,
    fault => 'app.mid:1:9:kill,app.mid:1:9:kill@1');
survives('... in the first set', spares => 2, env => \%files, solver => ['-B'], run => [],
    fault => 'ckpt.begin:1:1:kill', like => qr/left their initial state/);
survives('... in a later one', spares => 2, env => \%files, solver => ['-B'],
    fault => 'ckpt.sealed:1:3:kill');
# states of different steps must not be mixed when the first sets could not be written
survives('no memory for the first sets, then a failure', spares => 2, env => \%files,
    run => [], faults => 13, like => qr/left their initial state/,
    fault => 'stream.take:*:1:ENOMEM,stream.take:*:2:ENOMEM,stream.take:*:3:ENOMEM,'
        . 'ckpt.begin:1:4:kill');

# two contexts on two parts of the world, 4 ranks and 6, each with a spare: a failure in one
# is nothing to the other
for my $case (['both', 'app.mid:1:9:kill', 1, 1], ['one', 'app.mid:5:9:kill', 0, 1]) {
    my ($name, $fault, @back) = @$case;
    my $h = job(n => 11, spares => 1, env => { %memory, FTKIT_SPARES_COUNT => 1 },
        fault => $fault, args => ['-H', '-o', 'out']);
    my @out = map { slurp("$h->{dir}/out.$_") } (0, 1);
    my @want = (reference(4) . "$back[0] rollbacks\n", reference(6) . "$back[1] rollbacks\n");
    ok($h->{rc} == 0 && "@out" eq "@want", "two contexts, a failure in $name")
        or diag($h->{rc}, "\n", @out, $h->{log});
}

# at random: two or three kills anywhere
my @any = (@points, qw(app.step app.mid app.inflight app.coll app.compute ckpt.begin
    ckpt.sized ckpt.packed ckpt.sealed ckpt.voted ckpt.committed));
for my $i (1 .. ($ENV{FTKIT_TEST_RANDOM} // 2)) {
    my @f = map { sprintf('%s:%d:%d:kill', $any[rand(@any)], rand(4), 2 + rand(6)) } 1 .. 3;
    my $fault = join(',', 'app.mid:' . int(rand(4)) . ':' . (4 + int(rand(20))) . ':kill',
        @f[0 .. int(rand(3))]);
    my $want = reference(4);
    my $r = job(n => 4, spares => 4, env => \%files, fault => $fault, run => [],
        timeout => 90);
    ok(($r->{rc} == 0 || died_at_end($r)) && $r->{result} eq $want && @{ $r->{faults} } > 0,
        "random: $fault")
        or diag(substr($r->{log}, 0, 6000));
}

# what mpirun returns after a repair says nothing; the program's own code is told all the same
{
    my $j = job(args => ['-o', scratch() . '/out.code', '-x', 7], fault => 'app.mid:1:9:kill',
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false' });
    is($j->{rc}, 7, 'the exit code of a program that was repaired') or diag($j->{log});
}

done_testing();
