#!/usr/bin/perl
# Incremental sets: few bytes travel when little has changed, and whatever dies, the result
# is that of an undisturbed run.  With --all every rank dies at every visit, and each scheme has each
# change; otherwise the ranks take turns, the points of a set share jobs, and rs, whose code is that of
# xor, has some changes.
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
my @schemes = qw(buddy xor rs);
my @few = ('-b', 12, '-s', 12);
my %four = (spares => 4, faults => 4);
my $blocks = 32; # of a rank, where bytes are counted; each segment has one more

sub env {
    my ($scheme, $incremental) = @_;
    return { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '1 call',
        FTKIT_REPORT_STDERR => 'info',
        FTKIT_LEVEL_MEMORY_SCHEME => $scheme, FTKIT_LEVEL_MEMORY_INCREMENTAL => $incremental };
}

# Bytes that all ranks have sent for the last set.
sub sent {
    my ($scheme, $incremental, @args) = @_;
    my $j = job(spares => 0, env => env($scheme, $incremental), args => ['-m', @args]);
    my @bytes = $j->{log} =~ /^sent: rank \d+: (\d+) of the last set/mg;
    my $sum = 0;
    $sum += $_ for @bytes;
    ok($j->{rc} == 0 && @bytes == 4, "bytes of $scheme, $incremental, @args: $sum")
        or diag($j->{log});
    return $sum || 1;
}

for my $scheme (@schemes) {
    # what travels; the last block of the segment always changes
    my @many = ('-b', $blocks, '-s', 6);
    my $full = sent($scheme, 'off', @many);
    for my $how (qw(on auto)) {
        local $ENV{FTKIT_TOPOLOGY_RANKS_PER_NODE} = 1;
        my $share = sent($scheme, $how, @many, '-w', 9) / $full;
        ok($share <= 0.15, "$scheme, $how: 10 % changed, " . sprintf('%.3f sent', $share));
    }
    if ($scheme ne 'rs' || all_cases()) {
        is(sent($scheme, 'auto', @many), $full, "$scheme, auto: whole sets inside a node");
        my $none = sent($scheme, 'on', @many, '-w', 0) / $full;
        ok($none < 1.3 / ($blocks + 1), "$scheme: next to nothing changed, " . sprintf('%.4f sent', $none));
        my $all = sent($scheme, 'on', @many, '-w', 100) / $full;
        ok($all < 1.001, "$scheme: all changed, " . sprintf('%.4f sent', $all));
        my $nothing = sent($scheme, 'on', @many, '-u') / $full;
        ok($nothing < 0.07 / ($blocks + 1), "$scheme: nothing changed, " . sprintf('%.5f sent', $nothing));
        {
            local $ENV{FTKIT_TOPOLOGY_RANKS_PER_NODE} = 1;
            is(sent($scheme, 'auto', @many, '-w', 100), $full,
                "$scheme, auto: whole sets when all changes");
        }

        # regions that grow shift those behind them
        my $shifted = sent($scheme, 'on', @many, '-l') / $full;
        ok($shifted > 0.5, "$scheme: shifted, " . sprintf('%.3f sent', $shifted));
    }
    survives("$scheme: shifted, rank $_", env => env($scheme, 'on'), solver => [@few, '-l'],
        fault => "app.mid:$_:7:kill") for victims(4, 1);

    # everywhere
    survives("$scheme: killed at app.compute, each rank in turn", env => env($scheme, 'on'),
        solver => \@few, %four, fault => in_turn(0, 'app.compute', 3, 5, 7, 9));
    # the points of a set: with --all a job for each and each rank, otherwise a point after the other;
    # xor and rs are one code
    my @points = (qw(begin sized packed sealed voted committed), $scheme eq 'buddy' ? () : 'changes');
    my @jobs = { buddy => [[@points[0 .. 2]], [@points[3 .. 5]]], xor => [[@points[0, 2, 4, 6]]],
        rs => [[@points[1, 3, 5, 6]]] }->{$scheme}->@*;
    for my $at (all_cases() ? map { [($_) x 4] } @points : @jobs) {
        for my $first (victims(4, 1)) {
            survives("$scheme: killed at ckpt.@$at, rank $first first", env => env($scheme, 'on'),
                solver => \@few, spares => scalar(@$at), faults => scalar(@$at), fault => join(',', map {
                    sprintf('ckpt.%s:%d:%d:kill', $at->[$_], ($first + $_) % 4, 2 + 2 * $_) } 0 .. $#$at));
        }
    }
}
survives("killed at stream.compare of set $_, rank 2", env => env('buddy', 'on'),
    solver => \@few, fault => "stream.compare:2:$_:kill") for (2, 6)[victims(2, 1)];
for my $p (([0, 1, 2, 3], [0, 2, 1, 3], [0, 3, 1, 2])[victims(3, 1)]) {
    my @kills = map { sprintf('app.compute:%d:%d:kill', $p->[$_], $_ < 2 ? 4 : 8) } 0 .. 3;
    survives("rs: ranks $p->[0] and $p->[1] at once, then $p->[2] and $p->[3]", env => env('rs', 'on'),
        solver => \@few, %four, fault => join(',', @kills));
}

# after a repair the copies and parities are others': whole sets, then differences to them
survives("$_: one after the other", env => env($_, 'on'), solver => \@few, spares => 3,
    faults => 3, fault => 'app.mid:1:5:kill,ckpt.begin:1:2:kill@1,app.compute:0:8:kill')
    for @schemes;

# what a scrub has put right is a base like any other
survives("$_: corrupt at rank 1 and scrubbed", env => env($_, 'on'), faults => 2,
    like => qr/put right from/, solver => [@few, '-S', 3],
    fault => 'scrub.corrupt:1:3:EIO,app.compute:0:9:kill') for @schemes;

# the arithmetic of updates
my ($members, $groups) = all_cases() ? (7, 15) : (5, 9);
my $out = `scripts/guard 200 -- \Q@{[build()]}\E/ftkit run -n $members --spares 0 -- \Q@{[build()]}\E/mpi/update 2>&1`;
is($?, 0, 'parities that are updated are those of the new data') or diag($out);
is(() = $out =~ / updates$/mg, $groups, '... in all groups');

# what a holder cannot take from its copy it asks for, and that is what is restored
my %buddy = (env => env('buddy', 'on'), solver => \@few, faults => 2);
for my $rank (victims(4, 2)) {
    my $holder = $rank ^ 1;
    for my $set ((2, 5)[victims(2, 1)]) {
        my $kill = "app.compute:$rank:" . ($set + 4) . ':kill';
        my $half = int($rank / 2); # of both ranks of a pair one is corrupt, the other unknown
        survives("copy of rank $rank corrupt at set $set", %buddy,
            fault => "stream.base:$holder:$set:EIO,$kill",
            like => qr/blocks of the copy of rank $rank cannot be used/) if selected(2, $rank, $half);
        survives("copy of rank $rank unknown at set $set", %buddy,
            fault => "stream.nobase:$holder:$set:EIO,$kill", like => qr/be used; they are sent/)
            if selected(2, $rank, $half, 1);
    }
}

# parity is never made of what does not hold
for my $scheme (qw(xor rs)) {
    for my $what (qw(parity.base ckpt.base)) {
        for my $rank (victims(4, 1)) {
            my $lost = ($rank + 1) % 4;
            survives("$scheme: $what corrupt at rank $rank", env => env($scheme, 'on'),
                solver => \@few, faults => 2, like => qr/parity is made as a whole/,
                fault => "$what:$rank:5:EIO,app.compute:$lost:6:kill");
        }
    }
    # ... nor of what the last set has behind the end of this one; in the set after step 4
    # rank 1 has shrunk, and rank 0 has grown to where that was
    my @shrinks = ('-b', 24, '-s', 12, '-g', 4);
    survives("$scheme: rank $_ lost, regions grow and shrink", env => env($scheme, 'on'),
        solver => \@shrinks, fault => "app.compute:$_:5:kill")
        for grep { selected(2, $_, $scheme eq 'rs') } 0, 1;
    survives("$scheme: corrupt behind the end of rank 1, rank $_ lost",
        env => env($scheme, 'on'), solver => \@shrinks, faults => 2,
        like => qr/parity is made as a whole/,
        fault => "ckpt.tail:1:4:EIO,app.compute:$_:5:kill")
        for grep { selected(2, $_ / 2, $scheme eq 'xor') } 0, 2;
}

done_testing();
