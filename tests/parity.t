#!/usr/bin/perl
# Sets that survive by the parity of groups: ranks are killed everywhere, alone and
# together, and their segments are rebuilt from the others.  With --all every rank is killed at
# every visit; otherwise the ranks take turns.
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
my %xor = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LEVEL_MEMORY_SCHEME => 'xor');
my %rs = (%xor, FTKIT_LEVEL_MEMORY_SCHEME => 'rs');
my $rebuilt = qr/rank \d+ from the parity of its group/;

# one of a group of four, everywhere
my %four = (spares => 4, faults => 4, like => $rebuilt);
survives('killed at app.compute, each rank in turn', env => \%xor, %four,
    fault => in_turn(0, 'app.compute', 7, 13, 19, 25));
my @points = map {"ckpt.$_"} qw(begin sized packed sealed voted committed);
for my $point (all_cases() ? @points : ()) {
    survives("killed at $point, rank $_ first", env => \%xor, %four,
        fault => in_turn($_, $point, 2, 3, 4, 6)) for 0 .. 3;
}
for my $half ([ @points[ 0 .. 2 ] ], [ @points[ 3 .. 5 ] ]) {
    survives("killed at @$half, each in another set", env => \%xor, spares => 3, faults => 3,
        like => $rebuilt, fault => "$half->[0]:0:2:kill,$half->[1]:2:3:kill,$half->[2]:3:5:kill");
}
survives('large segments, each rank in turn', env => \%xor, %four,
    solver => ['-n', '200000', '-s', '12'], fault => in_turn(0, 'app.mid', 3, 5, 8, 11));
survives("the first set, rank $_", env => \%xor, fault => "app.mid:$_:2:kill") for victims(4, 1);

# two of a group of four at once, every pair; then the other two
for my $p (([0, 1, 2, 3], [0, 2, 1, 3], [0, 3, 1, 2])[victims(3, 1)]) {
    my @kills = map { sprintf('app.compute:%d:%d:kill%d', $p->[$_], $_ < 2 ? (13, 2) : (24, 4)) } 0 .. 3;
    survives("ranks $p->[0] and $p->[1] at once, then $p->[2] and $p->[3]", env => \%rs, %four,
        fault => join(',', @kills));
}
my @pairs = map { my $i = $_; map { [$i, $_] } $i + 1 .. 3 } 0 .. 2;
for my $p (@pairs[victims(6, 1)]) {
    my %two = (spares => 2, faults => 2,
        fault => "app.compute:$p->[0]:13:kill2,app.compute:$p->[1]:13:kill2");
    survives("ranks @$p at once, more than XOR stands: the files", %two,
        env => { %xor, FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 sets',
            FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' },
        like => qr/from files/);
    my $j = job(spares => 2, env => \%xor, fault => $two{fault});
    ok($j->{rc} != 0 && $j->{log} =~ /no copy or parity is left .* segments of ranks $p->[0] and $p->[1]$/m,
        '... and without them an end that names them') or diag($j->{log});
}
survives("one after the other, three times", spares => 3, env => \%xor, faults => 3,
    fault => 'app.mid:0:7:kill,app.coll:1:14:kill,app.compute:3:22:kill');
survives("then the replacement, $_ steps later", spares => 2, env => \%xor, faults => 2,
    fault => "app.mid:1:8:kill,app.step:1:$_:kill\@1") for all_cases() ? (1, 2, 5) : 2;
survives("then another, $_", spares => 2, env => \%xor, faults => 2,
    fault => "app.mid:1:8:kill,app.step:0:$_:kill") for all_cases() ? (9, 11, 15) : 11;

# groups of unequal size, across nodes: 8 ranks, 3 to a node, groups of at most 3
for my $rank (all_cases() ? (0, 4, 7) : 7) {
    survives("eight ranks in uneven groups, rank $rank", n => 8, like => $rebuilt,
        env => { %xor, FTKIT_LEVEL_MEMORY_GROUP => 3, FTKIT_TOPOLOGY_RANKS_PER_NODE => 3 },
        fault => "app.mid:$rank:9:kill");
}
survives('a node of three, each in another group', n => 8, spares => 4, faults => 3,
    like => $rebuilt,
    env => { %xor, FTKIT_LEVEL_MEMORY_GROUP => 3, FTKIT_TOPOLOGY_RANKS_PER_NODE => 3 },
    fault => 'app.mid:3:9:kill3,app.mid:4:9:kill3,app.mid:5:9:kill3');
survives('groups of two are copies', n => 6, spares => 2, faults => 2, like => $rebuilt,
    env => { %xor, FTKIT_LEVEL_MEMORY_GROUP => 2 },
    fault => 'app.mid:0:9:kill2,app.mid:4:9:kill2');

# other supplies
survives("spawn: killed at $_", spares => 0, like => qr/spawning 1 process/,
    env => { %xor, FTKIT_RECOVER_SUPPLY => 'spawn, end' }, fault => "$_:1:3:kill")
    for qw(app.mid ckpt.sealed ckpt.voted);

# a second loss inside the rebuild, every process that takes part
for my $point (qw(begin data done)) {
    for my $second ((0, 2, 3)[victims(3, 1)]) {
        survives("killed at rebuild.$point: rank $second", spares => 2, env => \%rs,
            faults => 2, fault => "app.mid:1:9:kill,rebuild.$point:$second:1:kill");
    }
    survives("killed at rebuild.$point: the replacement", spares => 2, env => \%rs,
        faults => 2, fault => "app.mid:1:9:kill,rebuild.$point:4:1:kill");
}

# what is corrupt counts as lost
survives("corrupt at rank $_->[0] ($_->[1]) in the rebuild", spares => 2, env => \%rs,
    faults => 2, fault => "app.mid:1:13:kill,rebuild.corrupt:$_->[0]:$_->[1]:EIO",
    like => qr/counts as lost/) for grep { selected(2, @$_) } map { my $r = $_; map { [$r, $_] } 1, 2 } (0, 2, 3);
survives('own segment corrupt', spares => 1, env => \%rs, faults => 2,
    fault => 'app.mid:1:13:kill,repair.corrupt:2:1:EIO', like => qr/checksum|corrupt/i);
survives('rebuilt segment corrupt when it is restored', spares => 1, env => \%xor,
    faults => 2, fault => 'app.mid:1:13:kill,restore.corrupt:1:1:EIO@1',
    like => qr/checksum|corrupt/i);
# a segment that is rebuilt wrong every time: there is nothing better in memory
my %wrong = (spares => 1, fault => 'app.mid:1:13:kill,rebuild.wrong:*:*:EIO@*');
survives('rebuilt wrong, again and again: the files', %wrong, faults => 12,
    env => { %xor, FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 sets',
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' },
    like => in_any_order(qr/using another copy/, qr/restored set \d+ from files/));
survives('... or level.local', %wrong, faults => 12, like => qr/from memory that outlived/,
    env => { %xor, FTKIT_LEVEL_LOCAL_SCHEME => 'buddy', FTKIT_LEVEL_LOCAL_EVERY => '1 sets',
        FTKIT_LEVEL_LOCAL_PLACE => 'memory' });
survives('... or, where that is the same, the files', %wrong, faults => 12 + 11,
    like => in_any_order(qr/in level.local is damaged and cannot be mended: it is given up/, qr/restored set \d+ from files/),
    env => { %xor, FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 sets',
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_LEVEL_LOCAL_SCHEME => 'xor',
        FTKIT_LEVEL_LOCAL_EVERY => '1 sets', FTKIT_LEVEL_LOCAL_PLACE => 'memory' });
{
    my $j = job(%wrong, env => \%xor);
    ok($j->{rc} != 0 && $j->{log} =~ /is damaged, wherever a rank has it from/,
        '... without them, a clear end') or diag($j->{log});
}
survives("no memory for the parity at rank $_: the set is not written", env => \%xor,
    fault => "coding.alloc:$_:3:ENOMEM") for all_cases() ? (0, 2) : 2;

# every loss that groups claim to survive, on as many processes
my $most = all_cases() ? 16 : 8;
my $out = `scripts/guard 200 -- \Q@{[build()]}\E/ftkit run -n $most --spares 0 -- \Q@{[build()]}\E/mpi/coding 2>&1`;
is($?, 0, "groups of 2 to $most, up to 3 parities, every loss") or diag($out);
is(() = $out =~ /losses rebuilt/g, 3 + 3 * ($most - 3), '... all of them');

# the event log, and what the opening promises
my $j = job(env => { %xor, FTKIT_REPORT_EVENTS => scratch() . '/events' },
    fault => 'app.mid:1:13:kill');
like(event_texts(scratch() . '/events'),
    qr/: rank 1 from the parity of its group, all others from their own memory$/m,
    'the event log names the source');
like($j->{log}, qr/memory survives any one process of a group of 4; .* 1\.33 x the/,
    'the opening says what it survives and costs');
$j = job(n => 4, spares => 0, env => { %xor, FTKIT_TOPOLOGY_RANKS_PER_NODE => 3 });
like($j->{log}, qr/2 ranks without a partner for parity on another node/, '... and who is not protected');
is($j->{rc}, 0, '... and goes on');

done_testing();
