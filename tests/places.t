#!/usr/bin/perl
# Sets in places that outlive their processes: the job is lost as a whole and restored from
# the memory of its nodes.  With --all each process is lost with each scheme, at each point.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use Fcntl qw(LOCK_EX LOCK_NB LOCK_SH);
use File::Path qw(remove_tree);
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
# the name tells our slots in /dev/shm from those of whatever else runs on this machine
my $context = "places$$";
my %shared = (FTKIT_CONTEXT_NAME => $context, FTKIT_LEVEL_HDF5_ENABLED => 'false',
    FTKIT_LEVEL_MEMORY_PLACE => 'shared');
my %files = (FTKIT_LEVEL_HDF5_EVERY => '2 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false');
my $found = qr/restored set \d+ from memory that outlived the job/;

# A fault: all processes of a job with one spare die at once, in a step and a nap.
sub everybody { my ($ranks, $step) = @_; return join(',', map { "$_:kill" . ($ranks + 1) } 'app.mid:*:' . ($step // 13), 'spare.nap:*:9') }

sub nothing_left
{
    my @slots = glob("/dev/shm/ftkit-*-$context-*");
    is(scalar(@slots), 0, 'nothing is left behind') or diag("@slots");
    unlink(@slots);
    return;
}

# The solver, after a relaunch without the slots of some processes of the first attempt (as
# if their nodes were gone), or with a bit flipped in them.  DIR, HOW, then numbers.
my $wrapper = scratch() . '/wrapper';
open(my $f, '>', $wrapper) or die "$wrapper: $!\n";
print $f <<'SCRIPT';
#!/usr/bin/perl
use strict;
use warnings;
my ($program, $dir, $how, $which, @args) = @ARGV;
if ($ENV{FTKIT_RUN_ATTEMPT} == 1 && $ENV{OMPI_COMM_WORLD_RANK} == 0) {
    my %of;
    for my $slot (glob("$dir/ftkit-slot-*-$ENV{FTKIT_CONTEXT_NAME}-*")) {
        my ($pid) = $slot =~ /\.(\d+)\.\d+$/;
        open(my $s, '+<', $slot) or die "$slot: $!\n";
        sysread($s, my $magic, 8);
        push(@{ $of{$pid} }, $slot) if $magic eq "FTKSLOT\n";
    }
    my @pids = sort { $a <=> $b } keys %of;
    for my $slot (map { @{ $of{ $pids[$_] } } } split(/\+/, $which)) {
        unlink($slot) if $how eq 'lose';
        my %word = (newer => [8, pack('V', 99)], order => [12, pack('N', 0x01020304)]);
        open(my $s, '+<', $slot) or next;
        if ($word{$how}) {
            sysseek($s, $word{$how}[0], 0);
            syswrite($s, $word{$how}[1]);
        }
        next if $how ne 'flip';
        sysseek($s, -s($slot) > 70000 ? 66000 : 8400, 0);
        sysread($s, my $byte, 1);
        sysseek($s, -1, 1);
        syswrite($s, chr(ord($byte) ^ 16));
    }
}
exec($program, @args) or die "$program: $!\n";
SCRIPT
close($f);
chmod(0755, $wrapper);

# A job whose processes are all killed, relaunched without what $which say.
sub relaunched
{
    my ($name, $how, $which, %o) = @_;
    my $work = scratch() . '/relaunched' . ++our $n;
    my $dir = $o{dir} // '/dev/shm';
    my $ranks = $o{n} // 4;
    my $j = job(run => [], program => $wrapper, keep => $work, spares => 1, n => $ranks,
        args => [build() . '/mpi/solver', $dir, $how, $which, '-o', "$work/out",
            @{ $o{solver} // [] }],
        env => { %shared, FTKIT_REPORT_EVENTS => "$work/events", %{ $o{env} // {} } },
        timeout => 90, fault => $o{fault} // everybody($ranks));
    my $right = $j->{result} eq reference($ranks, @{ $o{solver} // [] });
    my $ok = $j->{rc} == 0 && $right && $j->{log} =~ ($o{like} // $found);
    ok($ok, $name) or diag("exit code $j->{rc}, result ", $right ? 'right' : 'wrong', "\n",
        substr($j->{log}, 0, 5000), join("\n", @{ $j->{faults} }),
        "\nevents:\n", event_texts("$work/events"));
    return $work;
}

# like any memory while the job lives
survives("one rank lost, $_", env => { %shared, FTKIT_LEVEL_MEMORY_SCHEME => $_ },
    fault => 'app.mid:1:13:kill', unlike => qr/outlived/) for qw(buddy xor);
survives("killed at $_", env => \%shared, spares => 2, fault => "$_:2:4:kill")
    for qw(place.written place.sealed);
nothing_left();

# all processes at once, and then a node less
for my $scheme (qw(own xor rs), all_cases() ? 'buddy' : ()) {
    survives("the whole job killed, $scheme", run => [], faults => 5, spares => 1,
        env => { %shared, FTKIT_LEVEL_MEMORY_SCHEME => $scheme }, fault => everybody(4),
        like => $found);
}
relaunched("buddy: process $_ is lost for good", 'lose', $_) for victims(4, 1);
relaunched("xor: process $_ is lost for good", 'lose', $_,
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor' }) for victims(4, 1);
relaunched("rs: processes $_ are lost for good", 'lose', $_,
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'rs' }) for qw(0+1 1+3 2+3)[victims(3, 1)];
relaunched('large segments, xor', 'lose', 2, solver => ['-n', '200000', '-s', '12'],
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor' },
    fault => everybody(4, 8));
relaunched("$_: flipped bits count as lost", 'flip', 1,
    env => { FTKIT_LEVEL_MEMORY_SCHEME => $_ }, like => in_any_order(qr/ftkit-slot-.*checksum/, $found))
    for qw(buddy xor);
relaunched('a slot of a newer format is not used', 'newer', 1,
    like => in_any_order(qr/ftkit-slot-.*format 99; this ftkit reads 1 to 2.*not used/, $found));
relaunched('... nor one of another byte order', 'order', 2,
    like => in_any_order(qr/ftkit-slot-.*another byte order.*not used/, $found));
relaunched('more is lost than XOR stands: from the beginning', 'lose', '0+1',
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor' },
    like => qr/what is left of set \d+ in memory does not make it whole/);
relaunched('... or from the files', 'lose', '0+1',
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor', FTKIT_LEVEL_HDF5_ENABLED => 'true', %files },
    like => qr/does not make it whole.*restored set \d+ from files/s);
relaunched('rebuilt wrong, again and again: from the files', 'lose', 1,
    fault => everybody(4) . ',rebuild.wrong:*:*:EIO@*',
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor', FTKIT_LEVEL_HDF5_ENABLED => 'true', %files },
    like => qr/outlived the job.*using another copy.*restored set \d+ from files/s);
relaunched('files are not read when memory has it newer', 'lose', 0,
    env => { FTKIT_LEVEL_HDF5_ENABLED => 'true', %files });
nothing_left();

# the job is killed inside a set, and a rank again while the set is looked for; with --all four ranks
my $n = all_cases() ? 4 : 2;
for my $point (qw(begin sized packed sealed voted committed)) {
    survives("the whole job killed at ckpt.$point", run => [], n => $n, faults => $n, spares => 0,
        env => \%shared, fault => "ckpt.$point:*:3:kill$n", like => $found);
}
for my $point (qw(found.own found.copies found.all found.use)) {
    survives("a rank killed at $point after the relaunch", run => [], n => $n, faults => $n + 2,
        spares => 1, env => \%shared, fault => everybody($n) . ",$point:" . $n / 2 . ':1:kill@100', like => $found);
    survives("the whole job killed at $point after the relaunch", run => [], n => $n, faults => 2 * $n + 1,
        spares => 1, env => \%shared, fault => everybody($n) . ",$point:*:1:kill" . (2 * $n + 1) . '@100', like => $found)
        if all_cases() || $point =~ /copies|use/;
}
# each process takes its own slot and that of its buddy: nothing has to be sent
{
    my $each = qr/set \d+: rank \d from the memory of earlier processes\n/;
    my $again = qr/set \d+: rank 1 from .*, copied again\n/;
    my %said = (env => { FTKIT_REPORT_STDERR => 'debug' });
    relaunched('all slots are there: no copy is made again', 'none', 0, %said,
        like => qr/^(?=(?:.*$each){4})(?!.*copied again)/s);
    relaunched('... one is gone: a copy is made again', 'lose', 0, %said, like => $again);
}
# two groups, one of which has to be rebuilt when one of it dies: only the other one knows
# then which set, and which run, all go on with
for my $dies ((2, 6)[victims(2, 1)]) {
    my $work = relaunched("one of two groups knows the set, rank $dies dies", 'lose', 1,
        n => 8, fault => everybody(8) . ",found.use:$dies:1:kill\@100", like => qr/$found|back to set \d+$/m,
        env => { FTKIT_LEVEL_MEMORY_SCHEME => 'rs', FTKIT_LEVEL_MEMORY_GROUP => 4,
            FTKIT_LEVEL_HDF5_ENABLED => 'true', %files, FTKIT_LEVEL_HDF5_KEEP => 100 });
    my %runs;
    for my $set (map { /(\d+)$/ } glob("$work/$context.ftkit/set-*")) {
        my ($run) = qx('@{[build()]}/ftkit' show '$work' $set) =~ /^run +(\w+)$/m;
        $runs{ $run // 'none' } = 1;
    }
    ok(keys(%runs) == 1 && !$runs{none}, '... all sets are of one run')
        or diag(join(' ', keys %runs));
}
nothing_left();

# what is left of jobs that nobody relaunches, beside that of one that lives
chain(sub {
    my $ftkit = build() . '/ftkit';
    my $dir = scratch() . '/prune';
    mkdir($dir);
    my %here = (%shared, FTKIT_LEVEL_MEMORY_PLACE => 'file',
        FTKIT_LEVEL_MEMORY_DIRECTORY => $dir);
    job(env => { %here, FTKIT_CONTEXT_NAME => 'dead' }, fault => everybody(4));
    my @dead = glob("$dir/ftkit-slot-*");
    ok(@dead > 0, 'a job that is gone leaves slots');
    like(`$ftkit ls --slots $dir`, qr/sealed  set 3 of 'dead', rank \d of 4, program 'solver', job in \S+$/m,
        'ftkit ls --slots');
    my $whole = `$ftkit verify --slots $dir`;
    is($?, 0, 'ftkit verify --slots: good');
    is(scalar(() = $whole =~ /  good  set/g), scalar(() = $whole =~ /  set \d+ of/g),
        '... every one');
    my ($one) = $whole =~ /^(\S+)  \S+ \S+  good/m;
    open(my $slot, '+<', $one) or die "$one: $!\n";
    sysseek($slot, 5000, 0);
    sysread($slot, my $byte, 1);
    sysseek($slot, 5000, 0);
    syswrite($slot, chr(ord($byte) ^ 1));
    close($slot);
    like(`$ftkit verify --slots $dir`, qr/^\Q$one\E .*  damaged  set \d+ .*checksum/m,
        '... a flipped bit is found');
    isnt($?, 0, '... and told');
    like(`$ftkit verify --slots --json $dir`, qr/"state": "damaged".*"good": false/s,
        '... in JSON, too');
    my ($dry, $real, $ls, @living);
    job(env => { %here, FTKIT_CONTEXT_NAME => 'living' }, args => [], fault => 'app.step:0:20:hold',
        while => sub {
            my ($work) = @_;
            await_held($work);
            @living = grep {/living/} glob("$dir/ftkit-slot-*");
            cmp_ok(scalar(@living), '>=', 4, 'a job that lives has slots');
            $ls = `$ftkit ls --slots $dir`;
            $dry = `$ftkit prune --slots --dry-run $dir`;
            $real = `$ftkit prune --slots $dir`;
            is($?, 0, 'ftkit prune --slots');
            my %there = map { $_ => 1 } glob("$dir/ftkit-slot-*");
            is(scalar(grep { $there{$_} } @dead), 0, '... removes them');
            is(scalar(grep { !$there{$_} } @living), 0, '... and nothing of a job that lives');
            let_go($work);
        });
    like($ls, qr/living\S*  \S+ \S+  in use$/m, 'ftkit ls --slots: those in use');
    is(scalar(() = $dry =~ /^would remove .*dead/mg), scalar(@dead), '... --dry-run told');
    is(scalar(() = $real =~ /^removed .*dead/mg), scalar(@dead), '... as it did');
    unlink(glob("$dir/*"));
});

# a start that looks for its slots is not kept from them by a list that nobody reads
{
    my $dir = scratch() . '/many';
    mkdir($dir);
    my @slots = map { "$dir/ftkit-slot-1-many-1.1.$_" } 1 .. 1500;
    for my $slot (@slots) {
        open(my $h, '>', $slot) or die "$slot: $!\n";
    }
    my $pid = open(my $ls, '-|', build() . '/ftkit', 'ls', '--slots', $dir) or die "ftkit ls: $!\n";
    for (my $end = time() + 30 * pace(); time() < $end; select(undef, undef, undef, 0.01)) {
        ioctl($ls, 0x541B, my $n = pack('i', 0)) or die "FIONREAD: $!\n";
        last if unpack('i', $n) > 60_000 && slurp("/proc/$pid/stat") =~ /\) S /; # it waits for room in the pipe
    }
    my $locked = 0;
    for my $slot (@slots) {
        open(my $h, '<', $slot) or die "$slot: $!\n";
        $locked++ if !flock($h, LOCK_EX | LOCK_NB);
    }
    is($locked, 0, 'ftkit ls --slots has no lock while it waits');
    my @lines = <$ls>;
    is(scalar(@lines), scalar(@slots), '... and goes on');
    close($ls);
}

# places of their own directory are found by the next job, too
for my $place (qw(file pmem)) {
    for my $force ($place eq 'pmem' ? (0, 1) : 0) {
        my $dir = scratch() . "/$place$force";
        mkdir($dir);
        my %here = (%shared, FTKIT_LEVEL_MEMORY_PLACE => $place,
            FTKIT_LEVEL_MEMORY_DIRECTORY => $dir, PMEM_IS_PMEM_FORCE => $force);
        $here{FTKIT_LEVEL_HDF5_DIRECTORY} = $dir; # slots are those of a job's directory
        my $j = job(n => $n, env => \%here, fault => everybody($n));
        isnt($j->{rc}, 0, "$place: a job is killed");
        survives("$place: the next one goes on from it", n => $n, env => \%here, faults => 0,
            like => $found);
        my @left = glob("$dir/*");
        ok(@left > 0, "$place: its last set stays");
        for my $point (qw(written sealed)) {
            next if $place eq 'pmem' && !selected(2, $force, $point eq 'sealed');
            unlink(glob("$dir/*"));
            survives("$place: killed at place.$point", run => [], n => $n, faults => $n, spares => 0,
                env => \%here, fault => "place.$point:*:5:kill$n", like => $found);
        }
        unlink(glob("$dir/*"));
        $j = job(n => $n, env => \%here, fault => 'place.persist:1:7:EIO');
        ok($j->{rc} == 0 && $j->{log} =~ /Input\/output error/, "$place: an I/O error is told")
            or diag($j->{log});
    }
}

# A replacement finds no libpmem, as on a node without it.  The first processes get a good path by env,
# which execs the program; new ones have that of the job.
SKIP: {
    skip 'built without libpmem', 2 if slurp(build() . '/mpi.mk') !~ /^HAVE_PMEM := yes$/m;
    my $dir = scratch() . '/lacking';
    my $was = $ENV{LD_LIBRARY_PATH} // '';
    mkdir($dir);
    open(my $bad, '>', "$dir/libpmem.so.1") or die "$dir: $!\n";
    print $bad '#' x 100;
    close($bad);
    my $j = job(program => '/usr/bin/env', run => [], spares => 0, fault => 'app.mid:1:13:kill',
        args => ["LD_LIBRARY_PATH=$was", build() . '/mpi/solver', '-o', "$dir/out"],
        env => { %shared, FTKIT_LEVEL_MEMORY_PLACE => 'pmem', FTKIT_LEVEL_MEMORY_DIRECTORY => $dir,
            LD_LIBRARY_PATH => "$dir:$was", FTKIT_RECOVER_SUPPLY => 'spawn' });
    like($j->{log}, qr/error: .*a replacement on node \S+: level\.memory\.place = pmem: .*libpmem\.so\.1/,
        'pmem: a replacement without libpmem says so');
    ok($j->{rc} == 0 && $j->{log} =~ /relaunching/, '... and the job is relaunched')
        or diag("rc $j->{rc}\n$j->{log}");
}

# levels fall through: memory, then the second level, then files
my %two = (FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '4 sets',
    FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
    FTKIT_LEVEL_LOCAL_SCHEME => 'xor', FTKIT_LEVEL_LOCAL_EVERY => '2 sets',
    FTKIT_CHECKPOINT_PERIOD => '3 calls', FTKIT_REPORT_EVENTS => scratch() . '/events');
sub fall
{
    my ($name, $want, %o) = @_;
    remove_tree(scratch() . '/events');
    survives($name, %o, env => { %two, %{ $o{env} // {} } });
    like(event_texts(scratch() . '/events'), $want, '... told');
    return;
}
fall('one rank lost: from its buddy', qr/rank 1 from the copy at rank 0/, n => 2,
    fault => 'app.mid:1:20:kill');
for my $local (qw(rs buddy own)[victims(3, 2)]) {
    fall("a rank and its buddy lost: from level.local by $local",
        qr/set \d+: rank 0 from the memory of earlier processes/, spares => 2, faults => 2,
        env => { FTKIT_LEVEL_LOCAL_SCHEME => $local },
        fault => 'app.mid:0:20:kill2,app.mid:1:20:kill2');
}
fall('... in memory, where parity has to make them', qr/rank 0 from the parity of its group/,
    spares => 2, faults => 2, fault => 'app.mid:0:20:kill2,app.mid:1:20:kill2',
    env => { FTKIT_LEVEL_LOCAL_PLACE => 'memory', FTKIT_LEVEL_LOCAL_SCHEME => 'rs' });
fall('the set after a repair makes it whole again: two losses, one after the other',
    qr/set (\d+) is in level.local.*(?:repaired|processes are back).*set (\d+) is in level.local.*rank \d from the parity/s,
    spares => 3, faults => 3, env => { FTKIT_LEVEL_LOCAL_PLACE => 'memory',
        FTKIT_LEVEL_LOCAL_SCHEME => 'xor', FTKIT_LEVEL_LOCAL_EVERY => '100 sets',
        FTKIT_LEVEL_LOCAL_GROUP => 4, FTKIT_LEVEL_HDF5_ENABLED => 'false',
        FTKIT_LEVEL_MEMORY_SCHEME => 'own' },
    fault => 'app.mid:0:20:kill,app.mid:1:30:kill,app.mid:3:38:kill');
fall('more than that: from the files', qr/rank 0 from the file system/,
    spares => 2, faults => 2, fault => 'app.mid:0:20:kill2,app.mid:1:20:kill2',
    env => { FTKIT_LEVEL_LOCAL_PLACE => 'memory' });
# a rank that is slow may see the others die before its own kill, and must not replace them
fall('the whole job, from level.local', qr/rank 0 from the memory of earlier processes/,
    spares => 0, run => [], faults => 1, most => 4, fault => 'app.mid:*:20:kill',
    env => { FTKIT_RECOVER_SUPPLY => 'end' });
my $local = 0;
for my $point (qw(begin copied sealed voted)) {
    $local++;
    survives("killed at local.$point, rank $_", env => \%two,
        fault => "local.$point:$_:2:kill") for grep { selected(2, $local, $_ / 3) } (0, 3);
    survives("the whole job killed at local.$point", run => [], n => $n, faults => $n, spares => 0,
        env => \%two, fault => "local.$point:*:2:kill$n");
}
# one rank alone has no memory when the set is loaded
for my $error (['memory.map:1:1', qr/loading failed on another rank: out of memory/],
    ['settle.plan:1:1', qr/another rank could not load the set: out of memory/],
    ['memory.map:1:2', qr/repaired/]) { # for the copy of the other
    survives("no memory at $error->[0]", run => [], n => 2, spares => 0, faults => 3,
        timeout => 20, fault => "app.mid:*:13:kill2,$error->[0]:ENOMEM\@100",
        like => $error->[1], env => { FTKIT_LEVEL_HDF5_ENABLED => 'false',
            FTKIT_LEVEL_LOCAL_SCHEME => 'own', FTKIT_LEVEL_LOCAL_EVERY => '1 sets',
            FTKIT_LEVEL_LOCAL_PLACE => 'shared' });
}
nothing_left();

# a job that loses one process finds what that one had
survives("the slot of a lost rank, $_", n => 2, fault => 'app.mid:1:13:kill',
    env => { %shared, FTKIT_LEVEL_MEMORY_SCHEME => $_, FTKIT_LEVEL_HDF5_ENABLED => 'true',
        FTKIT_LEVEL_HDF5_EVERY => '3 sets' },
    like => qr/restored set 3 from memory that outlived its processes/,
    unlike => qr/restored set \d+ from files/) for qw(own);
survives("... of two of a pair, and the job goes on, $_", spares => 3, faults => 3,
    fault => 'app.mid:0:13:kill2,app.mid:1:13:kill2,app.mid:2:19:kill',
    env => { %shared, FTKIT_LEVEL_MEMORY_SCHEME => $_, FTKIT_LEVEL_HDF5_ENABLED => 'true',
        FTKIT_LEVEL_HDF5_EVERY => '9 sets' },
    like => qr/restored set 3 from memory that outlived its processes/,
    unlike => qr/restored set \d+ from files/) for qw(buddy xor);
nothing_left();

# what a start cannot use is there for the next one
sub in_directory
{
    my $dir = scratch() . '/start' . ++our $starts;
    mkdir($dir);
    return ($dir, %shared, FTKIT_LEVEL_MEMORY_PLACE => 'file',
        FTKIT_LEVEL_MEMORY_DIRECTORY => $dir, FTKIT_LEVEL_MEMORY_SCHEME => 'own',
        FTKIT_LEVEL_HDF5_DIRECTORY => $dir); # slots are those of a job's directory
}

# What holds something.
sub sealed
{
    my ($dir) = @_;
    return grep { slurp($_) =~ /^FTKSLOT\n/ } sort(glob("$dir/ftkit-slot-*"));
}

# A job of n ranks that was killed; what it has left.
sub killed
{
    my ($n, $dir, $env, %o) = @_;
    job(n => $n, spares => 0, env => $env, fault => "app.mid:*:13:kill$n", %o);
    my @slots = sealed($dir);
    ok(@slots >= $n, 'a job is killed');
    return @slots;
}

# A start that is to fail, and to leave everything as it was.
sub refused
{
    my ($name, $dir, $like, %o) = @_;
    my @before = sealed($dir);
    my $start = job(spares => 0, %o);
    ok($start->{rc} != 0 && $start->{rc} != 124 && $start->{log} =~ $like, $name)
        or diag("exit code $start->{rc}\n$start->{log}");
    is(join("\n", sealed($dir)), join("\n", @before), '... all is left as it was');
    return;
}
{
    my ($dir, %here) = in_directory();
    killed(2, $dir, \%here);
    refused('2 ranks wrote it, 4 are started', $dir,
        qr/is of 2 ranks, not 4, and there are no files: start with 2 ranks.*--slots \Q$dir\E/,
        env => \%here);
    my $start = job(n => 4, spares => 0, env => \%here, run => [ '--relaunch', 2 ]);
    is($start->{rc}, 2, '... with the exit code of a wrong call');
    like($start->{log}, qr/^ftkit run: attempt 1 ended: .*is of 2 ranks, not 4.*: every relaunch would end in the same way/m,
        '... and no relaunch in vain');
    unlike($start->{log}, qr/mistake of the program|ranks disagree/, '... and the program is not blamed');
    survives('... then 2', n => 2, spares => 0, faults => 0, env => \%here, like => $found);

    ($dir, %here) = in_directory();
    my %both = (%here, %files, FTKIT_LEVEL_HDF5_ENABLED => 'true',
        FTKIT_LEVEL_HDF5_DIRECTORY => $dir);
    my %shrink = (program => build() . '/mpi/shrink', args => [], env => \%both);
    killed(2, $dir, \%both, %shrink, fault => 'ckpt.begin:*:4:kill2');
    $start = job(n => 3, spares => 0, %shrink);
    ok($start->{rc} == 0 && $start->{log} =~ qr/set \d+ in memory is of 2 ranks, not 3$/m
            && $start->{log} =~ qr/restored set \d+ from files in \S+, of another number of ranks/,
        '... unless there are files') or diag($start->{log});
}
{
    my ($dir, %here) = in_directory();
    my @slots = killed(2, $dir, \%here);
    my ($pid) = $slots[0] =~ /(\.\d+)\.\d+$/;
    my @away = grep {/\Q$pid\E\.\d+$/} @slots; # with its node
    rename($_, "$_.away") for @away;
    my $start = job(n => 2, spares => 0, env => \%here, fault => 'ckpt.sealed:*:1:kill2');
    like($start->{log}, qr/set \d+ in memory does not make it whole: (?:that of rank \d is|those of ranks \d(?:, \d|-\d)* and \d are) missing/,
        'a node is missing');
    is(scalar(grep { -e $_ } @slots), @slots - @away, '... nothing is removed before a set is');
    rename("$_.away", $_) for @away;
    survives('... it is there again', n => 2, spares => 0, faults => 0, env => \%here,
        like => $found);

    ($dir, %here) = in_directory();
    @slots = killed(2, $dir, \%here);
    ($pid) = $slots[0] =~ /(\.\d+)\.\d+$/;
    @away = grep {/\Q$pid\E\.\d+$/} @slots;
    rename($_, "$_.away") for @away;
    job(n => 2, spares => 0, env => \%here, fault => 'app.mid:*:8:kill2');
    is(scalar(grep { -e $_ } @slots), 0, '... but then it is');
    rename("$_.away", $_) for @away;
    $start = survives('... what is there again is older', n => 2, spares => 0, faults => 0,
        env => \%here, like => qr/restored set [5-9] from memory that outlived the job/);
}

# slots that somebody has locked, for a while or for good, or that cannot be mapped now
{
    my ($dir, %here) = in_directory();
    my @locks = map { open(my $h, '<', $_) or die "$_: $!\n"; flock($h, LOCK_SH); $h }
        killed(2, $dir, \%here);
    survives('slots in use for a moment', n => 2, spares => 0, faults => 0, env => \%here,
        like => $found, while => sub { select(undef, undef, undef, 2); @locks = () });

    ($dir, %here) = in_directory();
    my @slots = killed(2, $dir, \%here);
    @locks = map { open(my $h, '<', $_) or die "$_: $!\n"; flock($h, LOCK_SH); $h } @slots;
    survives('... for good', n => 2, spares => 0, faults => 0, env => \%here,
        like => qr/slot of set \d+, rank \d, in \S+ is in use by another process/);
    is(scalar(grep { -e $_ } @slots), @slots, '... they stay');
    @locks = ();

    ($dir, %here) = in_directory();
    killed(2, $dir, \%here);
    refused('slots that cannot be mapped', $dir, qr/a slot in \Q$dir\E cannot be used now/,
        n => 2, env => \%here, fault => 'place.map:*:*:ENOMEM');
    survives('... at the next start', n => 2, spares => 0, faults => 0, env => \%here,
        like => $found);

    ($dir, %here) = in_directory();
    killed(2, $dir, \%here);
    refused('an error of one rank alone is that of all', $dir, qr/another rank: out of memory/,
        n => 2, env => \%here, fault => 'found.choose:1:1:ENOMEM');
}

# a header that could not be made to hold is not found beside those of the next try
{
    my ($dir, %here) = in_directory();
    survives('a slot that could not be sealed', n => 2, spares => 0, run => [], faults => 3,
        solver => ['-e'], env => { %here, FTKIT_CHECKPOINT_PERIOD => '1 calls' },
        fault => 'place.persist:1:7:EIO,ckpt.sized:1:4:kill,ckpt.sealed:0:4:kill');
}

# no space
my $j = job(env => { %shared }, fault => 'place.allocate:2:2:ENOSPC');
ok($j->{rc} == 0 && $j->{log} =~ /needs \d+\.\d MB for a part of a set in/, 'no space in /dev/shm: told')
    or diag($j->{log});
SKIP: {
    my $small = scratch() . '/small';
    mkdir($small);
    skip('no right to mount', 2) if system("mount -t tmpfs -o size=700k none '$small' 2>/dev/null");
    # four ranks have room for one set of 4 x 2 x 64 KiB, and not for another beside it
    my @solver = ('-n', 8000, '-e');
    my $want = reference(4, @solver);
    my $out = scratch() . '/out.small';
    $j = job(env => { %shared, FTKIT_LEVEL_MEMORY_DIRECTORY => $small }, args => ['-o', $out, @solver]);
    system("umount -l '$small'");
    ok($j->{rc} == 0 && slurp($out) eq $want, 'a small /dev/shm: the run goes on') or diag($j->{log});
    like($j->{log}, qr/needs \d+\.\d MB for a part of a set in/, '... and is told');
}
$j = job(env => { %shared, FTKIT_LEVEL_MEMORY_DIRECTORY => '/nowhere' });
ok($j->{rc} != 0 && $j->{log} =~ m{/nowhere}, 'a directory that is not there') or diag($j->{log});
nothing_left();

# ---- shared memory that is too small, or absent --------------------------------------------

SKIP: {
    my $dir = scratch() . '/smaller';
    mkdir($dir) or die;
    skip('no right to mount', 2) if system("mount -t tmpfs -o size=1m none '$dir' 2>/dev/null");
    my %small = (FTKIT_CONTEXT_NAME => $context, FTKIT_LEVEL_MEMORY_PLACE => 'shared',
        FTKIT_LEVEL_MEMORY_DIRECTORY => $dir, FTKIT_LEVEL_HDF5_EVERY => '1 sets',
        FTKIT_CHECKPOINT_PERIOD => '5 calls');
    my $j = survives('no room in shared memory: sets go on, and a lost rank is replaced',
        env => \%small, solver => ['-n', 60_000, '-d', 2, '-s', 60], fault => 'app.mid:2:30:kill',
        like => qr/warning: .*rank \d needs \d+\.\d MB for a part of a set in \S+, which has \d+\.\d MB free/);
    my $told = () = $j->{log} =~ /for a part of a set in/g;
    is($told, 1, '... told once');
    system("umount -l '$dir'");
}
SKIP: {
    skip('no right to make name spaces', 2) if !nodes_possible();
    my $work = scratch() . '/absent';
    mkdir($work) or die;
    my $run = "mount --make-rprivate / && mount -t tmpfs -o size=4k,ro x /dev/shm && cd '$work' && "
        . "exec '@{[build()]}/ftkit' run -n 4 --spares 1 --no-relaunch -- "
        . "'@{[build()]}/mpi/solver' -o out -d 2 -s 60";
    local %ENV = (%ENV, FTKIT_LEVEL_MEMORY_PLACE => 'shared', FTKIT_LEVEL_HDF5_EVERY => '1 sets',
        FTKIT_CHECKPOINT_PERIOD => '5 calls', FTKIT_FAULT => 'app.mid:2:30:kill', RUN => $run,
        FTKIT_CONTEXT_NAME => $context);
    my $out = qx('@{[top()]}/scripts/guard' 60 -- unshare -m bash -c "\$RUN" 2>&1);
    ok($? == 0 && -s "$work/out" && $out =~ /which cannot be written to: such parts are in the process/
            && $out =~ /1 rank replaced/ && glob("$work/$context.ftkit/set-*/manifest"),
        'no shared memory at all: the same') or diag("$?\n$out");
    ($ENV{RUN} = $run) =~ s/run -n/run --log -n/;
    $out = qx('@{[top()]}/scripts/guard' 60 -- unshare -m bash -c "\$RUN" 2>&1);
    ok($? != 0 && $out =~ m{needs \d+ bytes of /dev/shm for determinants \(make /dev/shm larger.*log\.determinants = refuse},
        '... and the message log says what it needs') or diag("$?\n$out");
}

done_testing();
