#!/usr/bin/perl
# Replicas: the processes of a rank compare their regions before a set is committed, and one plane
# takes over the state of another after a loss.
#
# FTKIT_TEST_SEED chooses other faults.  With --all each fault comes with each number of planes,
# scheme and way to supply what is lost, and each program with each mode; otherwise each two of these
# come together, and a chain has fewer losses.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitLog;
use FtkitReplicas;
use FtkitTest;
use List::Util qw(min);
use Test::More;

ulfm_only();
asleep_in_waits();
my $seed = $ENV{FTKIT_TEST_SEED} // 3;
srand($seed);
my $build = build();

my $twins = { name => 'twins', steps => 60 };
my %clone = (FTKIT_REPLICAS_LOST => 'clone'); # a plane takes over the state of one that is left alone

# Slots in files: the environment of a job, and how many slots of each segment and parity a directory has,
# or the slots of a rank.
sub in_files {
    my ($dir) = @_;
    return (FTKIT_LEVEL_MEMORY_PLACE => 'file', FTKIT_LEVEL_MEMORY_DIRECTORY => $dir,
        FTKIT_LEVEL_HDF5_DIRECTORY => $dir); # the same job
}

sub slots_in {
    my ($dir, $of) = @_;
    my (%n, @of);
    for my $path (glob("$dir/ftkit-slot*")) {
        my ($set, $rank, $parity) = (unpack('a8 L2 Q5 L3', slurp($path)))[ 5, 8, 10 ]; # struct ftk_slot
        $n{ ($parity ? 'parity' : 'segment') . " $rank" }++ if $set;
        push(@of, $path) if $set && $rank == ($of // -1);
    }
    return defined($of) ? @of : %n;
}

# ---- no false alarm --------------------------------------------------------------------

my @same = alike(); # the messages of all are compared below, and so are their regions
for my $p ($twins, { %$twins, args => [ '-m', 'timer' ] }, all_cases() ? @same : ()) {
    my $j = replicas(2, $p, n => 4, env => { FTKIT_CHECKPOINT_PERIOD => '2 calls' });
    is(right($p, $j, n => 4, quiet => 1), '', title($p) . ': two planes have the result of one');
}
is(right($twins, replicas(3, $twins, n => 2), n => 2, quiet => 1), '', 'three planes');

# ---- a bit flips ------------------------------------------------------------------------

my @flipped = qw(data grown packed strided message);
for my $i (0 .. $#flipped) {
    my $what = $flipped[$i];
    for my $r (2, 3) {
        my $number = int(rand(3 * $r));
        my ($rank, $plane) = ($number % 3, int($number / 3));
        # a step before the set: the neighbours have not received anything of it yet
        my $at = $what eq 'message' ? 18 : 20;
        my $fault = "flip.$what:$number:$at:EIO";
        next if !selected(2, $r, $i); # two: data, packed, message; three: grown, strided
        my $j = replicas($r, $twins, fault => $fault);
        my $region = $what eq 'message' ? 'data' : $what;
        my $like = $what eq 'message' ? qr/set \d+: the replicas of rank \d differ/
            : qr/set \d+: the replicas of rank $rank differ: region '$region', [1-9]\d* element/;
        is(right($twins, $j, faults => 1, like => $like), '', "$r replicas, $fault");
        is(join(' ', map { "$_->[0] $_->[1]" } @{ $j->{sdc} }), join(' ', ('1 1') x (3 * $r)),
            '... found and corrected, on all ranks');
        if ($r == 3) {
            is(back($j), '0 0 0 0 0 0 0 0 0', '... no rank has gone back');
        } elsif ($what ne 'message') {
            is(back($j), join(' ', map { $_ % 3 == $rank ? 1 : 0 } 0 .. 5),
                '... only the replicas of this rank have gone back');
        }
    }
}

# two ranks, in different planes; two flips of one rank
for my $case ([ 2, 'flip.data:0:20:EIO,flip.packed:4:20:EIO' ],
    [ 3, 'flip.data:0:20:EIO,flip.packed:4:20:EIO' ],
    [ 3, 'flip.data:1:20:EIO,flip.packed:4:20:EIO' ])
{
    my ($r, $fault) = @$case;
    my $j = replicas($r, $twins, fault => $fault);
    is(right($twins, $j, faults => 2), '', "$r replicas, $fault");
    like($j->{log}, $r == 3 ? qr/: mended$/m : qr/: replicas go back$/m, '... as it should');
}
{
    my $j = replicas(3, $twins, fault => 'flip.data:1:20:EIO,flip.other:4:20:EIO');
    my $like = qr/replicas of rank 1 differ: .*: replicas go back$/m;
    is(right($twins, $j, faults => 2, like => $like), '',
        'two of three replicas flip: there is no majority, so they go back');
}
# the line is old, and messages have carried the flipped bit to others
for my $r (map { 2 + $_ } victims(2, 1)) {
    my $j = replicas($r, $twins, fault => 'flip.message:0:3:EIO',
        env => { FTKIT_CHECKPOINT_PERIOD => '20 calls' });
    is(right($twins, $j, faults => 1, like => qr/replicas of rank \d differ/), '',
        "$r replicas: all ranks of a plane have had the flipped bit");
}

# ---- messages are compared, too -------------------------------------------------------------

my $ahead = { %$twins, args => [ '-m', 'ahead' ] };
my %messages = (FTKIT_REPLICAS_COMPARE => 'messages');
for my $p ($twins, $ahead, map { $same[$_] } grep { selected(2, $_) } 0 .. $#same) {
    my $n = $p->{name} eq 'twins' ? 3 : 4;
    my $j = replicas(2, $p, n => $n, env => { %messages, FTKIT_CHECKPOINT_PERIOD => '2 calls' });
    is(right($p, $j, n => $n, quiet => 1), '', title($p) . ': the messages of two planes are the same');
}
for my $r (map { 2 + $_ } victims(2, 1)) {
    # the flipped bit is under way at the set: regions alone have it only in the next set
    my $number = int(rand(3 * $r));
    my $rank = $number % 3;
    my $fault = "flip.message:$number:21:EIO";
    my $j = replicas($r, $ahead, fault => $fault, env => \%messages);
    my $to = ($rank + 1) % 3;
    my $like = qr/set 5: the replicas of rank $rank differ: message \d+ with tag 1 to rank $to since the last set, 24 bytes \(XXH3 [0-9a-f]{16}, in plane \d [0-9a-f]{16}\): all go back$/m;
    is(right($ahead, $j, faults => 1, like => $like), '', "$r replicas, messages, $fault");
    is(back($j), join(' ', (1) x (3 * $r)), '... all ranks go back');
    my ($sdc) = grep { $_->{event} eq 'sdc' } events("$j->{dir}/events");
    is(join(' ', map { $_ // '-' } @{$sdc}{qw(dest tag message action)}), "$to 1 5 all go back",
        '... and the event log says why');
}
{
    my $j = replicas(2, $ahead, fault => 'flip.message:1:21:EIO');
    isnt($j->{rc}, 0, 'regions alone: the set has the flipped message, and the job ends');
    like($j->{log}, qr/set 6: the replicas of rank 2 differ: region/, '... at the next set');
}
for my $fault (all_cases() ? 'flip.data:4:20:EIO' : (), 'flip.data:4:18:EIO', 'flip.message:1:18:EIO') {
    my $j = replicas(2, $twins, fault => $fault, env => \%messages);
    is(right($twins, $j, faults => 1, like => qr/replicas of rank 1 differ/), '', "messages, $fault");
}
for my $point ('app.mid', all_cases() ? 'ckpt.sealed' : (), 'replica.compared') {
    my $number = int(rand(6));
    my $fault = sprintf('%s:%d:%d:kill', $point, $number, $point eq 'app.mid' ? 33 : 5);
    my $j = replicas(2, $ahead, fault => $fault, env => \%messages);
    is(right($ahead, $j, faults => 1, quiet => 1), '', "messages, $fault");
    is(back($j), '0 0 0 0 0 0', '... nobody goes back');
}
{
    # a bit flips in the log, and the message has to be sent again
    my $j = replicas(2, $twins, fault => 'app.mid:1:33:kill,log.flip:0:2:EIO',
        env => { %messages, FTKIT_REPLICAS_LOST => 'replay' });
    is(right($twins, $j, faults => 2, quiet => 1,
            like => qr/rank 0: a message to rank 1 has changed in the log: it is not sent again; all ranks go back/),
        '', 'a message in the log has flipped');
    my @back = split(/ /, back($j));
    cmp_ok(min(@back[0, 2 .. 5]), '>=', 1, '... all ranks go back'); # the replacement begins at the line
}

# ---- a bit flips in a stored segment, and a process dies ----------------------------------------
# The segment of the line that is damaged counts as lost.  If nothing of the segment is left, another
# replica of the rank has it.

my $sibling = qr/rank 1 from the copy at rank 4/;
my $another = qr/using another copy/;
my $cases = 0;
for my $case ([ 2, 'buddy', 'transfer.corrupt:0:1', $sibling ], [ 2, 'xor', 'rebuild.corrupt:3:1', $sibling ],
    [ 2, 'xor', 'rebuild.corrupt:0:1', qr/it counts as lost/ ], [ 2, 'buddy', 'repair.corrupt:4:1', $another ],
    [ 2, 'own', '', $sibling ], [ 2, 'own', 'repair.corrupt:0:1', $another ],
    [ 3, 'own', 'repair.corrupt:4:1', $another ], all_cases() ? [ 3, 'buddy', 'transfer.corrupt:0:1', $sibling ] : ())
{
    my ($r, $scheme, $flip, $like) = @$case;
    $cases++;
    for my $lost ('clone', 'replay') {
        next if !selected(2, $cases, $lost eq 'clone');
        my $fault = 'app.mid:1:33:kill' . ($flip ? ",$flip:EIO" : '');
        my $j = replicas($r, $twins, fault => $fault,
            env => { FTKIT_REPLICAS_LOST => $lost, FTKIT_LEVEL_MEMORY_SCHEME => $scheme });
        my $what = "$r replicas, $scheme, $lost, $fault";
        is(right($twins, $j, faults => $flip ? 2 : 1, quiet => 1,
                $lost eq 'replay' ? (like => $like) : ()), '', $what);
        is(back($j), join(' ', (0) x (3 * $r)), '... no other process goes back');
    }
}
# what is cloned is damaged when it is restored; and what goes back to the line
for my $case ([ 'clone', 'restore.corrupt:2:1:EIO' ], [ 'replay', 'restore.corrupt:1:1:EIO@1' ]) {
    my ($lost, $flip) = @$case;
    for my $scheme ('buddy', 'xor', 'own') {
        next if !selected(2, $lost eq 'clone', $scheme eq 'xor');
        my $j = replicas(2, $twins, fault => "app.mid:1:33:kill,$flip",
            env => { FTKIT_REPLICAS_LOST => $lost, FTKIT_LEVEL_MEMORY_SCHEME => $scheme });
        is(right($twins, $j, faults => 2, quiet => 1, like => $another), '', "$scheme, $lost, $flip");
    }
}
# a start from memory that outlives the job: a slot is gone, and that of the sibling serves
{
    my $slots = scratch() . '/own';
    mkdir($slots);
    my %place = (FTKIT_LEVEL_MEMORY_SCHEME => 'own', in_files($slots));
    my $j = replicas(2, $twins, spares => 0, fault => 'app.mid:1:33:kill',
        env => { %place, FTKIT_RECOVER_SUPPLY => 'end' });
    isnt($j->{rc}, 0, 'own, in files: the job ends');
    my %slots; # of each process
    push(@{ $slots{ /(\d+)[.]\d+$/ ? $1 : '' } }, $_) for glob("$slots/ftkit-slot*");
    is(scalar(keys %slots), 6, '... each rank has a slot');
    unlink(@{ $slots{ (sort keys %slots)[ rand(6) ] // '' } // [] });
    $j = replicas(2, $twins, spares => 0, env => \%place);
    is(right($twins, $j, quiet => 1, like => qr/restored set 7 from memory that outlived the job/),
        '', '... and the next one goes on without the slots of a rank');
}
# Two ranks of a parity group are lost: their segments come from siblings, with other bytes ("timer" is not
# compared).  The next repair completes the parity of the group, and then a third rank of it is lost.
my $timer = { %$twins, args => [ '-m', 'timer' ] };
my %xor = (FTKIT_CHECKPOINT_PERIOD => '20 calls', FTKIT_LEVEL_MEMORY_SCHEME => 'xor', FTKIT_REPLICAS_LOST => 'replay');
{
    my $j = replicas(3, $timer, spares => 4,
        fault => 'app.mid:0:33:kill,repair.census:2:2:kill,app.mid:1:36:kill,repair.agreed:4:4:kill', env => \%xor);
    is(right($timer, $j, faults => 4, quiet => 1, like => qr/rank 0 from the copy at rank 3, rank 2 from the copy at rank 5/),
        '', 'two segments of a parity group come from siblings');
    like($j->{log}, qr/rank 4 from the parity of its group/, '... and its parity fits them');
}
# ... a third one of it is damaged, or dies before the parity is made anew
for my $case ([ 'rebuild.corrupt:4:1:EIO', qr/segment of rank 4: .*it counts as lost/ ],
    [ 'rebuild.anew:4:1:kill', qr/rank 4 from the copy at rank/ ])
{
    my ($fault, $like) = @$case;
    my $j = replicas(3, $timer, spares => 4, fault => "app.mid:0:33:kill,repair.census:2:2:kill,$fault,app.mid:1:50:kill",
        env => \%xor);
    is(right($timer, $j, faults => 4, quiet => 1, like => $like), '', "two segments come from siblings, $fault");
    like($j->{log}, qr/rank 1 from the parity of its group/, '... and the next set has parity');
}
# ... and the slots of the two processes go: the next job finds one segment of each rank, and its parity.
# Without the slots of two further ranks the next job takes their segments from siblings, too.
chain(sub {
    my $slots = scratch() . '/anew';
    mkdir($slots);
    my $j = replicas(3, $timer, spares => 2, fault => 'app.mid:0:33:kill,repair.census:2:2:kill,app.mid:0:3:kill@1',
        env => { %xor, in_files($slots), FTKIT_RECOVER_SUPPLY => 'end' });
    isnt($j->{rc}, 0, 'two segments come from siblings, in files, and the job ends');
    my %left = slots_in($slots);
    is(join(', ', map {"$_: " . ($left{$_} // 0)} 'segment 0', 'parity 0', 'segment 2', 'parity 2'),
        'segment 0: 1, parity 0: 1, segment 2: 1, parity 2: 1', '... the slots of their processes are gone');
    my %kept = map { $_ => slurp($_) } glob("$slots/ftkit-slot*");
    for my $case ([ qr/rank 4 from the parity of its group/, 4 ], [ qr/rank 4 from the copy at another rank/, 2, 4 ]) {
        my ($like, @gone) = @$case;
        unlink(glob("$slots/ftkit-slot*"));
        write_file($_, $kept{$_}) for keys %kept;
        unlink(map { slots_in($slots, $_) } @gone);
        $j = replicas(3, $timer, spares => 0, env => { %xor, in_files($slots), FTKIT_REPORT_STDERR => 'debug' });
        is(right($timer, $j, quiet => 1, like => $like), '', "... the next job goes on without the slots of @gone");
    }
});
# A scrub takes two segments of a group from siblings.  All have released its parity before.
{
    my $slots = scratch() . '/scrubbed';
    mkdir($slots);
    my $scrub = { %$twins, args => [ '-m', 'scrub' ] };
    my $damage = 'scrub.corrupt:0:1:EIO,scrub.corrupt:2:1:EIO';
    my $j = replicas(3, $scrub, spares => 3, fault => "$damage,transfer.done:2:1:kill,app.mid:4:15:kill", env => \%xor);
    is(right($scrub, $j, faults => 4, quiet => 1), '', "scrub, $damage, and ranks of the group die");
    $j = replicas(3, $scrub, spares => 0, fault => "$damage,transfer.sized:0:1:kill",
        env => { %xor, in_files($slots), FTKIT_RECOVER_SUPPLY => 'end' });
    isnt($j->{rc}, 0, '... and the job ends in the scrub');
    my %left = slots_in($slots);
    is($left{'parity 0'}, undef, '... no parity is left of the group');
    ok($left{'segment 1'}, '... but segments are');
}
# memory of one copy, and the replicas of a rank are lost
{
    my $j = replicas(2, $twins, spares => 2, fault => 'app.mid:1:33:kill,repair.census:4:2:kill',
        env => { FTKIT_LEVEL_MEMORY_SCHEME => 'own' });
    isnt($j->{rc}, 0, 'own: both replicas of a rank are lost at once');
    like($j->{log}, qr/memory survives the loss of one replica of each rank; memory per rank: 1 x/, '... as was said');
    like($j->{log}, qr/no copy or parity is left/, '... and the job says why it ends');
}

# ---- programs that are not deterministic ----------------------------------------------------

my $differ = qr/was not committed: the replicas of rank 1 differ in region 'data', .*/;
my $rule = qr/error: context default: rank \d could not go on: replicas differ, and will differ again: .*ftkit_decide/;
my $early = qr/error: context default: rank \d could not go on: replicas differ, and there is no set yet to which they could go back.*ftkit_decide/;
for my $case ([ 'random', qr/$differ again, after rollbacks: the program is not deterministic/ ],
    [ 'first', qr/set 1 was not committed: .* rank 1 differ .*: they have other data at the first set/ ])
{
    my ($mode, $like) = @$case;
    for my $r (2, 3) {
        next if !selected(2, $r, $mode eq 'first');
        my $j = replicas($r, { %$twins, args => [ '-m', $mode ] }, run => [ '--relaunch', 3 ]);
        isnt($j->{rc}, 0, "$r replicas, -m $mode: the job ends");
        like($j->{log}, $like, '... and says why');
        like($j->{log}, $mode eq 'first' ? $early : $rule, '... and which rule it breaks');
        like($j->{log}, $mode eq 'first' ? qr/ended .*as in the attempt before: the program is not deterministic, and there is no relaunch$/m
            : qr/a mistake of the program ended the job/, '... in the end');
        is(scalar(() = $j->{log} =~ /relaunching/g), $mode eq 'first' ? 1 : 0, '... and with no relaunch in vain');
    }
}
# a bit flips before the first set: regions, or a course; the next attempt is right
for my $case ([ $twins, 3, 'flip.begin:4:1:EIO@0', qr/set 1 was not committed: the replicas of rank 1 differ in region 'data'.*$early/s ],
    [ leads('look'), 2, 'flip.early:3:1:EIO@0', qr/error: .*No rank of this node has made progress for \d+ s .*no set yet to which they could go back: ending the job for a relaunch/ ])
{
    my ($p, $n, $fault, $like) = @$case;
    my $j = replicas(2, $p, n => $n, fault => $fault, env => { FTKIT_RECOVER_STALL_SAY => '2s' }, run => [ '--relaunch', 3 ]);
    is(right($p, $j, n => $n, faults => 1, like => $like), '', "before the first set: $fault");
    is(scalar(() = $j->{log} =~ /relaunching/g), 1, '... the job is relaunched once');
    unlike($j->{log}, qr/a mistake of the program/, '... and the program is not blamed');
}

# the replica that says what differs sees the result of the vote last
{
    my $fault = 'flip.begin:3:1:EIO@0,vote.wait:0:*:late@0';
    my $j = replicas(2, $twins, fault => $fault, run => [ '--relaunch', 3 ]);
    is(right($twins, $j, faults => 1, like => qr/set 1 was not committed: the replicas of rank 0 differ in region 'data'/), '', $fault);
}

# a message has the time; or one replica has decided it for all
{
    my $j = replicas(2, leads('time'), n => 2, spares => 0, env => \%messages);
    isnt($j->{rc}, 0, 'a time in a message: the job ends');
    is(scalar(() = $j->{log} =~ /$rule/g), 1, '... with one line that names ftkit_decide');
    like($j->{log}, qr/set 2 was not committed: the replicas of rank \d differ in message 1 with tag 1 to rank \d /, '... and the message');
    cmp_ok($j->{log} =~ tr/\n//, '<', 40, '... and few others') or diag($j->{log});
    my $p = leads('decided');
    $j = replicas(2, $p, n => 2, spares => 0, env => \%messages);
    is(right($p, $j, n => 2, quiet => 1), '', 'a time that is decided: nothing differs');
}

# ---- a flip changes the course of a replica ---------------------------------------------------

my %soon = (FTKIT_RECOVER_STALL_SAY => '2s');
my $parted = qr/made progress for \d+ s, and replicas are at different places: .*: all go back/;
for my $case ([ 2, 0, 22 ], all_cases() ? [ 2, 3, 22 ] : (), [ 3, 2, 22 ], [ 2, 1, 39 ]) {
    my ($r, $number, $at) = @$case;
    my $p = leads('look');
    my $fault = "flip.step:$number:$at:EIO";
    my $j = replicas($r, $p, n => 2, fault => $fault, env => \%soon);
    is(right($p, $j, n => 2, faults => 1), '', "$r replicas, $fault");
    next if $at == 39; # the step is the last one either way
    my $met = qr/rank @{[ $number % 2 ]} differ: in plane \d it is in ftkit_\w+ after \d+ calls? of ftkit_checkpoint, in plane \d in ftkit_\w+ after \d+ calls? .*: replicas go back$/m;
    # a replica that follows may wait for the next outcome of the one that has left its loop
    like($j->{log}, $number == 0 ? qr/$met|$parted/ : $met, '... which the replicas find');
}
# the others of its plane wait for it in MPI, and those of the other plane for what it decides
{
    my $p = leads('send');
    my $j = replicas(2, $p, n => 2, fault => 'flip.step:0:22:EIO', env => \%soon);
    is(right($p, $j, n => 2, faults => 1), '', 'a replica has left its loop, and all wait');
    like($j->{log}, $parted, '... until this is found');
}

# ---- outcomes that MPI leaves open ---------------------------------------------------------------

for my $case ([ 2, 'send', 2 ], [ 2, 'cancel', 3 ], [ 2, 'look', 2 ], [ 2, 'probe', 2 ], [ 2, 'any', 2 ],
    all_cases() ? ([ 3, 'send', 2 ], [ 3, 'cancel', 3 ]) : ())
{
    my ($r, $mode, $n) = @$case;
    my $p = leads($mode);
    my $j = replicas($r, $p, n => $n, spares => 0, env => { FTKIT_CHECKPOINT_PERIOD => '1 calls' });
    is(right($p, $j, n => $n, quiet => 1), '', "$r replicas, leads -m $mode");
}
is(chain_breaks($_), '', "$_ replicas: a new leader adopts what the lost one has decided")
    for all_cases() ? (2, 3) : 2;
is(chain_breaks($_, 1), '', "$_ replicas: nobody can read that, and all ranks go back")
    for all_cases() ? (2, 3) : 2;
{
    my $p = { name => 'cancels', steps => 60 };
    my $j = replicas(2, $p, env => { FTKIT_CHECKPOINT_PERIOD => '3 calls' });
    is(right($p, $j), '', 'receives are cancelled while their messages come');
}
for my $i (all_cases() ? (0 .. 5) : (2, 3)) {
    my $r = $i == 5 ? 3 : 2;
    my $p = random_program($seed * 100 + $i, 'cancel', $i % 2 ? qw(wild anytag p2p ahead) : ());
    my $fault = $i % 3 == 0 ? slow_plane(1, 3) . ',' : ''; # this plane follows
    $fault .= sprintf('%s:%d:%d:kill', one_of(qw(app.mid app.inflight app.op)), rand(3 * $r), 1 + rand(25)) if $i > 1;
    my $j = replicas($r, $p, fault => $fault, env => { $i % 2 ? %clone : (), FTKIT_CHECKPOINT_PERIOD => one_of('2 calls', '7 calls') });
    is(right($p, $j, quiet => 1), '', "$r replicas, " . title($p) . " $fault");
}

# ---- a process dies: the other plane goes on, and gives its state to that of the process ------------

# A list like that of clones(): 1 for the processes of the plane of a process.
sub plane_of {
    my ($r, $number) = @_;
    return join(' ', map { int($_ / 3) == int($number / 3) ? 1 : 0 } 0 .. 3 * $r - 1);
}

# in one job a process of each plane dies, each at a point of its own
my $pairs = 0;
for my $pair ([qw(app.mid ckpt.begin)], [qw(ckpt.packed ckpt.sealed)], [qw(ckpt.voted ckpt.committed)],
    [qw(replica.compare replica.compared)])
{
    my $env = $pairs++ % 2 ? {} : \%clone;
    my @number = (int(rand(3)), 3 + int(rand(3)));
    my $fault = join(',', map {
            my $at = $pair->[$_] eq 'app.mid' ? 1 + int(rand(20)) : (2, 8)[$_] + int(rand(3));
            "$pair->[$_]:$number[$_]:$at:kill\@0" } 0, 1);
    my $j = replicas(2, $twins, fault => $fault, spares => 2, env => $env);
    is(right($twins, $j, faults => 2, quiet => 1), '', "2 replicas, $fault");
    is(back($j), '0 0 0 0 0 0', '... nobody else goes back');
    is(clones($j), join(' ', (%$env ? 1 : 0) x 6), '... and the planes are cloned, or not');
}
# ... each point in each plane
for my $point (all_cases() ? qw(app.mid ckpt.begin ckpt.packed ckpt.sealed ckpt.voted ckpt.committed
    replica.compare replica.compared) : (), 'finish.begin')
{
    for my $number (int(rand(3)), 3 + int(rand(3))) {
        my $nth = $point =~ /^app/ ? 1 + int(rand(50))
            : $point eq 'finish.begin' ? 1 : 2 + int(rand(8));
        my $fault = "$point:$number:$nth:kill";
        my $env = $number < 3 ? \%clone : {}; # by default its replacement begins at the last set
        next if !selected(2, $number < 3); # finish.begin with clones: see below
        my $j = replicas(2, $twins, fault => $fault, env => $env);
        is(right($twins, $j, faults => 1, quiet => 1), '', "2 replicas, $fault");
        next if $point =~ /^finish/;
        is(back($j), '0 0 0 0 0 0', '... nobody else goes back');
        is(clones($j), %$env ? plane_of(2, $number) : '0 0 0 0 0 0', '... and the plane is cloned, or not');
    }
}
# the only spare is on the node of the sibling; or on another one, or all are on one node
for my $case ([ 3, 3, 1 ], [ 3, 1, 0 ], [ 5, 3, 0 ]) {
    my ($per_node, $number, $degraded) = @$case; # processes 0, 1; 3, 4: planes; 2: the spare
    my $j = replicas(2, $twins, n => 2, fault => "app.mid:$number:20:kill",
        env => { FTKIT_TOPOLOGY_RANKS_PER_NODE => $per_node });
    my $what = "process $number, nodes of $per_node";
    is(right($twins, $j, n => 2, faults => 1, quiet => 1), '', "2 replicas, $what");
    is(join(' ', map { $_->[5] // '-' } @{ $j->{sdc} }), join(' ', ($degraded) x 4),
        "... and degraded is $degraded");
    my @said = $j->{log} =~ /(degraded: since this repair 1 replica shares a node .*, such as rank 1)/g;
    is(scalar(@said), $degraded, '... which a line says once') or diag($j->{log});
}
# the set of the last call: the planes that are left come to the end without it
for my $fault (('ckpt.begin:4:13:kill', 'ckpt.sealed:1:13:kill', 'log.drained:5:13:kill')[victims(3, 2)]) {
    my $j = replicas(2, $twins, fault => $fault);
    is(right($twins, $j, faults => 1, quiet => 1), '', "2 replicas, $fault");
}
# communicators that a plane has made since the line, and another plane has freed: the state of the other plane
# replaces the variables that have them
{
    my ($p) = grep { title($_) eq 'inters' } alike();
    my $j = replicas(3, $p, n => 4, spares => 2, fault => 'log.received:5:216:kill',
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '2 calls' });
    is(right($p, $j, n => 4, faults => 1), '', 'variables of communicators get the values of another plane');
    cmp_ok(scalar(grep { $_ > 0 } split(/ /, clones($j))), '>', 0, '... of a plane that stood still');
}

# losses in a chain: the replicas of a rank die in turn, each after the clone of the other
my $turns = all_cases() ? 5 : 2;
{
    my $long = { %$twins, steps => 20 * $turns, args => [ '-n', 20 * $turns ] };
    my $fault = join(',', map { my $k = $_; ("app.mid:1:" . ($k ? 12 : 9) . ":kill\@$k",
                    "app.mid:4:" . ($k ? 12 : 15) . ":kill\@$k") } 0 .. $turns - 1);
    my $j = replicas(2, $long, spares => 2 * $turns, fault => $fault, timeout => 100, env => \%clone);
    is(right($long, $j, faults => 2 * $turns, quiet => 1), '',
        '2 replicas, ' . 2 * $turns . ' losses in a chain');
    is(back($j), '0 0 0 0 0 0', '... nobody goes back');
    my @cloned = split(/ /, clones($j));
    is(join(' ', @cloned[ 0, 2, 3, 5 ]), join(' ', ($turns) x 4),
        "... and each plane is cloned $turns times");
}
# a plane that stands still when the other one comes to ftkit_wait(); and a kill behind that call
my $waits = { name => 'waits', steps => 60, args => [ '-n', 60 ] };
for my $fault (('app.step:1:23:kill', 'app.step:4:25:kill')[victims(2, 1)], 'app.step:0:26:kill@0,app.step:3:44:kill@0') {
    my $j = replicas(2, $waits, fault => $fault, spares => 2,
        env => { %clone, FTKIT_CHECKPOINT_PERIOD => '7 calls' });
    is(right($waits, $j, faults => scalar(split(/,/, $fault)), quiet => 1), '',
        "2 replicas, ftkit_wait: $fault");
}
# no set comes after the failure: the lost process alone returns to the line, or its plane, if the
# other one has come to ftkit_finish() only after the repair
for my $number (0, 5) {
    my $j = replicas(2, $twins, fault => "finish.begin:$number:1:kill",
        env => { %clone, FTKIT_CHECKPOINT_PERIOD => '17 calls' });
    is(right($twins, $j, faults => 1, quiet => 1), '', "2 replicas, process $number dies at the end");
    # a call of ftkit_checkpoint is left if the other plane is late; it may have come to
    # ftkit_finish() before it knew of the failure, and then the plane that stands still goes back
    my $cloned = $j->{log} =~ /stand still/ && $j->{log} !~ /return(?:s)? to set/;
    is(clones($j), $cloned ? plane_of(2, $number) : '0 0 0 0 0 0',
        '... nothing is cloned at ftkit_finish()');
    my @other = (split(/ /, back($j)))[ $number < 3 ? (3 .. 5) : (0 .. 2) ];
    is("@other", '0 0 0', '... and no rank of the other plane goes back');
}
# a failure at each step of the clone
my ($hit, $jobs, $steps) = (0, 0, 0);
for my $point (qw(clone.send clone.receive clone.committed ckpt.sealed ckpt.voted replica.compare
    repair.restored log.install))
{
    $steps++;
    for my $second (0, 4) {
        next if !selected(2, $steps, $second / 4);
        $jobs++;
        my $fault = "app.mid:1:23:kill\@0,$point:$second:" . ($point =~ /^ckpt|^replica/ ? 6 : 1) . ':kill@0';
        my $j = replicas(2, $twins, fault => $fault, spares => 2, env => \%clone);
        is(right($twins, $j), '', "2 replicas, $fault");
        $hit += @{ $j->{faults} } == 2;
    }
}
cmp_ok($hit, '>=', 0.5 * $jobs, '... and most of them have come to pass'); # each step is not of all ranks
# three planes: two of them are cloned
{
    my $j = replicas(3, $twins, fault => 'app.mid:0:23:kill,app.mid:7:23:kill', spares => 2, env => \%clone);
    is(right($twins, $j, faults => 2, quiet => 1), '', '3 replicas, one dies in each of two planes');
    is(back($j), '0 0 0 0 0 0 0 0 0', '... nobody goes back');
}
# each replica of a rank in turn: many failures, and no rollback
{
    my $steps = 20 * $turns + 10;
    my $long = { %$twins, args => [ '-n', $steps ], steps => $steps };
    my $fault = join(',', map { sprintf('app.step:%d:%d:kill@%d', $_ % 2 ? 4 : 1,
                $_ < 2 ? 10 + 9 * $_ : 17, $_ / 2) } 0 .. 2 * $turns - 1);
    my $j = replicas(2, $long, fault => $fault, spares => 2 * $turns, timeout => 100, env => \%clone);
    is(right($long, $j, faults => 2 * $turns, quiet => 1), '', 2 * $turns . ' failures in turn');
    is(back($j), '0 0 0 0 0 0', '... nobody goes back');
}
# both replicas of a rank before the clone: their rank goes back to the line
{
    my $j = replicas(2, $twins, fault => 'app.step:1:23:kill,app.step:4:23:kill', spares => 2);
    is(right($twins, $j, faults => 2, quiet => 1), '', 'both replicas of a rank die at once');
}
# programs with communicators, collectives and requests under way, whose messages are compared
for my $i (0 .. $#same) {
    next if !selected(2, $i, 1);
    my $p = $same[$i];
    my $number = int(rand(8));
    my $fault = fault_of($p, $number % 4) =~ s/:\d+:/:$number:/r;
    my $j = replicas(2, $p, n => 4, fault => $fault, env => { %messages, $number % 2 ? %clone : () });
    is(right($p, $j, n => 4, quiet => 1), '', title($p) . ": $fault");
    is(back($j), '0 0 0 0 0 0 0 0', '... nobody else goes back') if $j->{log} =~ /stand still|rank \d returns/;
}
# the second replacement of a process repeats the set-up of its sibling, from which its plane is cloned
for my $p (grep { title($_) =~ /^(?:comms|inters)$/ } @same) {
    my $j = replicas(2, $p, n => 4, spares => 2, fault => 'app.step:5:13:kill@0,app.step:5:7:kill@1',
        env => { %clone, FTKIT_CHECKPOINT_PERIOD => '4 calls' });
    is(right($p, $j, n => 4, faults => 2, quiet => 1), '', title($p) . ': a process is lost twice');
    is(back($j), '0 0 0 0 0 0 0 0', '... nobody goes back');
}
# a replica stands for half a second: the others wait for it at the set
{
    my $stopped = 0;
    my $j = replicas(2, $twins, fault => 'app.step:0:22:hold', while => sub {
            my ($work) = @_;
            await_held($work);
            my $pid = process_of($work, 4);
            $stopped = $pid && kill('STOP', $pid);
            let_go($work);
            select(undef, undef, undef, 0.5);
            kill('CONT', $pid) if $pid;
        });
    ok($stopped, 'a replica stands for half a second');
    is(right($twins, $j, quiet => 1), '', '... and nothing is lost');
    is(back($j), '0 0 0 0 0 0', '... nobody goes back');
}

# ---- processes die while replicas differ ------------------------------------------------------

for my $point (qw(replica.decided replica.compared ckpt.sealed repair.restored log.install)) {
    for my $r (2, 3) {
        next if $r == 3 && $point =~ /^(?:repair|log)/; # no rank goes back
        next if $r == 3 && $point !~ /compared$/ && !all_cases();
        my $flipped = int(rand(3 * $r));
        my $killed = $point eq 'replica.decided' ? ($flipped + 3) % (3 * $r) : int(rand(3 * $r));
        my $nth = $point eq 'replica.decided' || $point =~ /^(?:repair|log)/ ? '*' : 5;
        my $fault = "flip.data:$flipped:20:EIO,$point:$killed:$nth:kill\@0";
        my $j = replicas($r, $twins, fault => $fault, spares => 2);
        is(right($twins, $j), '', "$r replicas, $fault");
    }
}

# a process of the good plane dies before the replicas have compared: the other plane is not copied
# without a comparison, unless the user has chosen that, and then a line says so
for my $lost ('compared', 'clone') {
    my $fault = 'flip.data:4:20:EIO,ckpt.begin:2:5:kill@0';
    my $j = replicas(2, $twins, fault => $fault, spares => 2, env => { FTKIT_REPLICAS_LOST => $lost });
    is($j->{rc}, 0, "$lost, $fault: the job ends well") or diag($j->{log});
    if ($lost eq 'compared') {
        is(right($twins, $j, faults => 2, like => qr/set 5: the replicas of rank 1 differ: region 'data'/), '',
            '... the flip is found, and put right');
    } else {
        is(back($j), '0 0 0 0 0 0', '... nobody goes back');
        like($j->{log}, qr/plane 1 is alone until then: a bit that flips in it after set 4 is not found/, '... with a warning');
    }
}

# ---- an error of another rank in a set that differs ------------------------------------------

{
    my $fault = 'flip.data:4:25:EIO,ckpt.packed:0:6:EIO';
    my $j = replicas(3, $twins, fault => $fault);
    is(right($twins, $j, faults => 2), '', "3 replicas, $fault");
}

# ---- slots of another number of planes -------------------------------------------------

{
    my $dir = scratch() . '/slots';
    mkdir($dir);
    my %env = (FTKIT_LEVEL_MEMORY_PLACE => 'file', FTKIT_LEVEL_MEMORY_DIRECTORY => $dir,
        FTKIT_LEVEL_HDF5_DIRECTORY => $dir, FTKIT_RECOVER_SUPPLY => 'end');
    my $j = replicas(2, $twins, n => 2, spares => 0, env => \%env, fault => 'app.mid:1:33:kill');
    isnt($j->{rc}, 0, 'a job with replicas is lost');
    $j = logged($twins, n => 4, spares => 0, env => { %env, FTKIT_LOG_TEAMS => 'rank' });
    is($j->{result}, undisturbed($twins, 4), 'a job of as many ranks does not take its slots');
    $j = replicas(2, $twins, n => 2, spares => 0, env => \%env, fault => 'app.mid:1:33:kill');
    $j = replicas(2, $twins, n => 2, spares => 0, env => \%env);
    is(right($twins, $j, n => 2, like => qr/restored set \d+ from/), '', '... the same job does');
}

# ---- files: plane 0 writes them, and all planes are restored from them -------------------------

for my $later (qw(true false)) {
    my @counts = ([ 2, 2 ], [ 2, 1 ], [ 1, 3 ]); # replicas of the job that is lost, and of the next
    for my $case (@counts) {
        my ($first, $second) = @$case;
        next if !selected(2, $first == 2 && $second == 2, $later eq 'false');
        my $dir = scratch() . "/files$first$second$later";
        mkdir($dir);
        my $env = { FTKIT_LEVEL_HDF5_DIRECTORY => $dir, FTKIT_LEVEL_HDF5_ENABLED => 'true',
            FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => $later };
        my $name = "$first and then $second replicas, background $later";
        # in the background: behind the first set, however long it takes
        my $j = replicas($first, $twins, spares => 0,
            fault => $later eq 'true' ? 'flush.end:0:1:kill' : 'app.mid:1:44:kill',
            env => { %$env, FTKIT_RECOVER_SUPPLY => 'end' }, run => [ $first == 1 ? '--log' : () ]);
        isnt($j->{rc}, 0, "$name: a job is lost");
        my ($code, $out) = command('verify', $dir);
        is($code, 0, '... its sets are good') or diag($out);
        like((command('ls', $dir))[1], qr/^\s+\d+\s+default\s+3\s.*complete/m, '... and are of 3 ranks');
        $j = replicas($second, $twins, env => $env, fault => 'app.mid:1:9:kill',
            run => [ $second == 1 ? '--log' : () ]);
        is(right($twins, $j, like => qr/restored set \d+ from files/, faults => 1), '',
            '... and goes on from its files');
        is(back($j) =~ tr/1-9//, 0, '... a loss then sends nobody back') if $second > 1;
    }
}
{
    my $dir = scratch() . '/files22false';
    my $j = replicas(2, $twins, n => 2, env => { FTKIT_LEVEL_HDF5_DIRECTORY => $dir,
            FTKIT_LEVEL_HDF5_ENABLED => 'true' });
    isnt($j->{rc}, 0, 'another number of ranks: no start');
    like($j->{log}, qr/set \d+ is of 3 ranks: with replicas only a job of as many ranks goes on/,
        '... with the reason');
}

# ---- what the program sees, and output ---------------------------------------------------------

{
    my $j = job(n => 2, spares => 0, program => "$build/examples/heat2d",
        args => [ '-n', '65x49', '-s', 40 ], run => [ '--no-relaunch', '--replicas', 2 ],
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false' });
    my @lines = $j->{log} =~ /^(heat2d: .* steps done.*)/mg;
    is($j->{rc}, 0, 'heat2d runs with two replicas') or diag($j->{log});
    is(scalar(@lines), 1, '... and one of them is seen');
    $j = job(n => 2, spares => 0, program => "$build/examples/heat2d",
        args => [ '-n', '65x49', '-s', 40 ], run => [ '--no-relaunch', '--replicas', 2 ],
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_REPLICAS_OUTPUT => 'all' });
    @lines = $j->{log} =~ /^(heat2d: .* steps done.*)/mg;
    is(scalar(@lines), 2, 'replicas.output = all: both are seen') or diag($j->{log});
    is($lines[0], $lines[1] // '', '... with the same result');
}

# a bit that a user flips, as in docs/replicas.md
for my $case ([ 'in u', qr/has flipped bit \d of byte \d+ of region 'u' at /,
    qr/again: --seed 4 --flip 'rank 3 at call 30 in u'/, qr/the replicas of rank 1 differ: region 'u', \d+ elements? from \d+ / ],
    [ 'in nothing', qr/rank 3 .* has no region 'nothing' with memory of its own: no bit/ ])
{
    my ($in, @like) = @$case;
    # the job stands still in call 451 until `ftkit run` has asked for the bit
    my $j = job(n => 2, spares => 0, program => "$build/flt-examples/heat2d", timeout => 60, fault => 'ckpt.begin:0:91:hold',
        while => sub {
            my ($work) = @_;
            await_held($work);
            await_flip($work);
            let_go($work);
        },
        args => [ '-n', '65x49', '-s', 500 ], env => { FTKIT_LEVEL_HDF5_ENABLED => 'false',
            FTKIT_LOG_TEAMS => 'rank' }, run => [ '--no-relaunch', '--replicas', 2, '--seed', 4,
            '--flip', "rank 3 at call 30 $in" ]);
    is($j->{rc}, 0, "--flip '... $in': the job ends well");
    like($j->{log}, $_, '... with its lines') for @like;
}

# ---- what cannot be ------------------------------------------------------------------------------

my %two = (FTKIT_REPLICAS_COUNT => 2, FTKIT_LEVEL_HDF5_ENABLED => 'false',
    FTKIT_LOG_ENABLED => 'true');
for my $case (
    [ {}, 3, qr/replicas\.count = 2: 3 processes without 0 spares are 3, .* multiple of 2/ ],
    [ { FTKIT_LOG_ENABLED => 'false' }, 4, qr/replicas need log\.enabled/ ],
    [ { FTKIT_LOG_DETERMINANTS => 'relaxed' }, 4, qr/log\.determinants = node or refuse/ ],
    [ { FTKIT_LOG_TEAM_LIST => '0-1 2-3' }, 4, qr/not a list of teams/ ],
    [ { FTKIT_CHECKPOINT_LINE => 'apart' }, 4, qr/checkpoint\.line = together/ ],
    [ { FTKIT_TOPOLOGY_RANKS_PER_NODE => 6 }, 8, qr/the replicas of rank 0 share a node/ ],
    )
{
    my ($env, $n, $like) = @$case;
    my $spares = $env->{FTKIT_TOPOLOGY_RANKS_PER_NODE} ? 1 : 0; # a spare waits already
    my $j = logged($twins, n => $n, spares => $spares, env => { %two, %$env });
    isnt($j->{rc}, 0,
        join(' ', "$n processes", map {"$_=$env->{$_}"} sort keys %$env) . ': refused');
    like($j->{log}, $like, '... with the reason');
}
{
    my $j = replicas(2, $twins, n => 2, spares => 0, env => { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 });
    is(right($twins, $j, n => 2, quiet => 1), '', 'each plane on a node of its own');
    my ($code, undef, $said) = command('run', '-n', 2, '--replicas', 4, 'true');
    is($code, 2, '--replicas 4 is refused');
    like($said, qr/--replicas: '4' is not a number from 1 to 3/, '... with the reason');
}

done_testing();
