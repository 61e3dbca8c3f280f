#!/usr/bin/perl
# Sets in places that outlive their processes: the job is lost as a whole and restored from
# the memory of its nodes (rows R6, S7, S10 of the acceptance).
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
# slots of other jobs lie in the same place: those of this context are ours
my $context = $ENV{FTKIT_CONTEXT_NAME} = "places$$";
my %shared = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LEVEL_MEMORY_PLACE => 'shared');
my %files = (FTKIT_LEVEL_HDF5_EVERY => '2 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false');
my $found = qr/restored set \d+ from memory that outlived the job/;
my $all = 'app.mid:*:13:kill,spare.nap:*:9:kill';

sub nothing_left
{
    my @slots = glob("/dev/shm/ftkit-slot-*-$context-*");
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
        fault => $o{fault} // $all);
    my $right = $j->{result} eq reference($ranks, @{ $o{solver} // [] });
    my $ok = $j->{rc} == 0 && $right && $j->{log} =~ ($o{like} // $found);
    ok($ok, $name) or diag("exit code $j->{rc}, result ", $right ? 'right' : 'wrong', "\n",
        substr($j->{log}, 0, 5000), join("\n", @{ $j->{faults} }),
        "\nevents:\n", slurp("$work/events"));
    return $work;
}

# like any memory while the job lives
survives("one rank lost, $_", env => { %shared, FTKIT_LEVEL_MEMORY_SCHEME => $_ },
    fault => 'app.mid:1:13:kill', unlike => qr/outlived/) for qw(buddy xor);
survives("killed at $_", env => \%shared, spares => 2, fault => "$_:2:4:kill")
    for qw(place.written place.sealed);
nothing_left();

# all processes at once, and then a node less
for my $scheme (qw(own buddy xor rs)) {
    survives("the whole job killed, $scheme", run => [], faults => 5, spares => 1,
        env => { %shared, FTKIT_LEVEL_MEMORY_SCHEME => $scheme }, fault => $all,
        like => $found);
}
for my $gone (0 .. 3) {
    relaunched("buddy: process $gone is lost for good", 'lose', $gone);
    relaunched("xor: process $gone is lost for good", 'lose', $gone,
        env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor' });
}
relaunched("rs: processes $_ are lost for good", 'lose', $_,
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'rs' }) for qw(0+1 1+3 2+3);
relaunched('large segments, xor', 'lose', 2, solver => ['-n', '200000', '-s', '12'],
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor' },
    fault => 'app.mid:*:8:kill,spare.nap:*:9:kill');
relaunched("$_: flipped bits count as lost", 'flip', 1,
    env => { FTKIT_LEVEL_MEMORY_SCHEME => $_ }, like => qr/ftkit-slot-.*checksum.*$found/s)
    for qw(buddy xor);
relaunched('a slot of a newer format is not used', 'newer', 1,
    like => qr/ftkit-slot-.*format 99; this ftkit reads 1 .*not used.*$found/s);
relaunched('... nor one of another byte order', 'order', 2,
    like => qr/ftkit-slot-.*another byte order .*not used.*$found/s);
relaunched('more is lost than XOR stands: from the beginning', 'lose', '0+1',
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor' },
    like => qr/what is left of set \d+ in memory does not make it whole/);
relaunched('... or from the files', 'lose', '0+1',
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor', FTKIT_LEVEL_HDF5_ENABLED => 'true', %files },
    like => qr/does not make it whole.*restored set \d+ from files/s);
relaunched('rebuilt wrong, again and again: from the files', 'lose', 1,
    fault => "$all,rebuild.wrong:*:*:EIO\@*",
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor', FTKIT_LEVEL_HDF5_ENABLED => 'true', %files },
    like => qr/outlived the job.*using another copy.*restored set \d+ from files/s);
relaunched('files are not read when memory has it newer', 'lose', 0,
    env => { FTKIT_LEVEL_HDF5_ENABLED => 'true', %files });
nothing_left();

# the job is killed inside a set, and a rank again while the set is looked for
for my $point (qw(begin sized packed sealed voted committed)) {
    survives("the whole job killed at ckpt.$point", run => [], faults => 4, spares => 0,
        env => \%shared, fault => "ckpt.$point:*:3:kill", like => $found);
}
for my $point (qw(found.own found.all found.use transfer.sized)) {
    survives("a rank killed at $point after the relaunch", run => [], faults => 6,
        spares => 1, env => \%shared, fault => "$all,$point:2:1:kill\@100", like => $found)
        if $point ne 'transfer.sized';
    survives("the whole job killed at $point after the relaunch", run => [], faults => 9,
        spares => 1, env => \%shared, fault => "$all,$point:*:1:kill\@100", like => $found)
        if $point ne 'transfer.sized';
}
# two groups, one of which has to be rebuilt when one of it dies: only the other one knows
# then which set, and which run, all go on with
for my $dies (2, 6) {
    my $work = relaunched("one of two groups knows the set, rank $dies dies", 'lose', 1,
        n => 8, fault => "$all,found.use:$dies:1:kill\@100", like => qr/$found|back to set \d+$/m,
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
{
    my $ftkit = build() . '/ftkit';
    my $dir = scratch() . '/prune';
    mkdir($dir);
    my %here = (%shared, FTKIT_LEVEL_MEMORY_PLACE => 'file',
        FTKIT_LEVEL_MEMORY_DIRECTORY => $dir);
    job(env => { %here, FTKIT_CONTEXT_NAME => 'dead' }, fault => $all);
    my @dead = glob("$dir/ftkit-slot-*");
    ok(@dead > 0, 'a job that is gone leaves slots');
    like(`$ftkit ls --slots $dir`, qr/sealed  set 3 of 'dead', rank \d of 4$/m,
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
    job(env => { %here, FTKIT_CONTEXT_NAME => 'living' }, args => ['-s', 60, '-d', 50],
        while => sub {
            for (my $end = time() + 30; time() < $end && @living < 4;) {
                @living = grep {/living/} glob("$dir/ftkit-slot-*");
                select(undef, undef, undef, 0.01);
            }
            $ls = `$ftkit ls --slots $dir`;
            $dry = `$ftkit prune --slots --dry-run $dir`;
            $real = `$ftkit prune --slots $dir`;
            is($?, 0, 'ftkit prune --slots');
            my %there = map { $_ => 1 } glob("$dir/ftkit-slot-*");
            is(scalar(grep { $there{$_} } @dead), 0, '... removes them');
            is(scalar(grep { !$there{$_} } @living), 0, '... and nothing of a job that lives');
        });
    like($ls, qr/living\S*  \S+ \S+  in use$/m, 'ftkit ls --slots: those in use');
    is(scalar(() = $dry =~ /^would remove .*dead/mg), scalar(@dead), '... --dry-run told');
    is(scalar(() = $real =~ /^removed .*dead/mg), scalar(@dead), '... as it did');
    unlink(glob("$dir/*"));
}

# places of their own directory are found by the next job, too
for my $place (qw(file pmem)) {
    for my $force ($place eq 'pmem' ? (0, 1) : 0) {
        my $dir = scratch() . "/$place$force";
        mkdir($dir);
        my %here = (%shared, FTKIT_LEVEL_MEMORY_PLACE => $place,
            FTKIT_LEVEL_MEMORY_DIRECTORY => $dir, PMEM_IS_PMEM_FORCE => $force);
        my $j = job(env => \%here, fault => $all);
        isnt($j->{rc}, 0, "$place: a job is killed");
        survives("$place: the next one goes on from it", env => \%here, faults => 0,
            like => $found);
        my @left = glob("$dir/*");
        ok(@left > 0, "$place: its last set stays");
        for my $point (qw(written sealed)) {
            unlink(glob("$dir/*"));
            survives("$place: killed at place.$point", run => [], faults => 4, spares => 0,
                env => \%here, fault => "place.$point:*:5:kill", like => $found);
        }
        unlink(glob("$dir/*"));
        $j = job(env => \%here, fault => 'place.persist:1:7:EIO');
        ok($j->{rc} == 0 && $j->{log} =~ /Input\/output error/, "$place: an I/O error is told")
            or diag($j->{log});
    }
}

# levels fall through: memory, then the second level, then files
my %two = (FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '4 sets',
    FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
    FTKIT_LEVEL_LOCAL_SCHEME => 'xor', FTKIT_LEVEL_LOCAL_EVERY => '2 sets',
    FTKIT_CHECKPOINT_PERIOD => '3 calls', FTKIT_REPORT_EVENTS => scratch() . '/events');
sub fall
{
    my ($name, $want, %o) = @_;
    unlink(scratch() . '/events');
    survives($name, %o, env => { %two, %{ $o{env} // {} } });
    like(slurp(scratch() . '/events'), $want, '... told');
    return;
}
fall('one rank lost: from its buddy', qr/rank 1 from the copy at rank 0/,
    fault => 'app.mid:1:20:kill');
for my $local (qw(rs buddy own)) {
    fall("a rank and its buddy lost: from level.local by $local",
        qr/set \d+: rank 0 from the memory of earlier processes/, spares => 2, faults => 2,
        env => { FTKIT_LEVEL_LOCAL_SCHEME => $local },
        fault => 'app.mid:0:20:kill,app.mid:1:20:kill');
}
fall('... in memory, where parity has to make them', qr/rank 0 from the parity of its group/,
    spares => 2, faults => 2, fault => 'app.mid:0:20:kill,app.mid:1:20:kill',
    env => { FTKIT_LEVEL_LOCAL_PLACE => 'memory', FTKIT_LEVEL_LOCAL_SCHEME => 'rs' });
fall('the set after a repair makes it whole again: two losses, one after the other',
    qr/set (\d+) is in level.local.*repaired.*set (\d+) is in level.local.*rank \d from the parity/s,
    spares => 3, faults => 3, env => { FTKIT_LEVEL_LOCAL_PLACE => 'memory',
        FTKIT_LEVEL_LOCAL_SCHEME => 'xor', FTKIT_LEVEL_LOCAL_EVERY => '100 sets',
        FTKIT_LEVEL_LOCAL_GROUP => 4, FTKIT_LEVEL_HDF5_ENABLED => 'false',
        FTKIT_LEVEL_MEMORY_SCHEME => 'own' },
    fault => 'app.mid:0:20:kill,app.mid:1:30:kill,app.mid:3:38:kill');
fall('more than that: from the files', qr/rank 0 from the file system/,
    spares => 2, faults => 2, fault => 'app.mid:0:20:kill,app.mid:1:20:kill',
    env => { FTKIT_LEVEL_LOCAL_PLACE => 'memory' });
fall('the whole job, from level.local', qr/rank 0 from the memory of earlier processes/,
    spares => 0, run => [], faults => 4, fault => 'app.mid:*:20:kill');
for my $point (qw(begin copied sealed voted)) {
    survives("killed at local.$point, rank $_", env => \%two,
        fault => "local.$point:$_:2:kill") for (0, 3);
    survives("the whole job killed at local.$point", run => [], faults => 4, spares => 0,
        env => \%two, fault => "local.$point:*:2:kill");
}
# one rank alone has no memory when the set is loaded
for my $error (['memory.map:1:1', qr/loading failed on another rank: out of memory/],
    ['settle.plan:1:1', qr/another rank could not load the set: out of memory/],
    ['memory.map:1:2', qr/repaired/]) { # for the copy of the other
    survives("no memory at $error->[0]", run => [], n => 2, spares => 0, faults => 3,
        timeout => 20, fault => "app.mid:*:13:kill,$error->[0]:ENOMEM\@100",
        like => $error->[1], env => { FTKIT_LEVEL_HDF5_ENABLED => 'false',
            FTKIT_LEVEL_LOCAL_SCHEME => 'own', FTKIT_LEVEL_LOCAL_EVERY => '1 sets',
            FTKIT_LEVEL_LOCAL_PLACE => 'shared' });
}
nothing_left();

# no space
my $j = job(env => { %shared }, fault => 'place.allocate:2:2:ENOSPC');
like($j->{log}, qr/no space|No space/i, 'no space in /dev/shm: told at the call');
$j = job(env => { %shared, FTKIT_LEVEL_MEMORY_DIRECTORY => '/nowhere' });
ok($j->{rc} != 0 && $j->{log} =~ m{/nowhere}, 'a directory that is not there') or diag($j->{log});
nothing_left();
done_testing();
