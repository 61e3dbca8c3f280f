#!/usr/bin/perl
# Incremental sets: few bytes travel when little has changed, and whatever dies, the result
# is that of an undisturbed run (row S11 of the acceptance).
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
my @schemes = qw(buddy);
my @few = ('-b', 12, '-s', 12);

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
    my @many = ('-b', 64, '-s', 6);
    my $full = sent($scheme, 'off', @many);
    for my $how (qw(on auto)) {
        my $share = sent($scheme, $how, @many, '-w', 9) / $full;
        ok($share <= 0.15, "$scheme, $how: 10 % changed, " . sprintf('%.3f sent', $share));
    }
    my $none = sent($scheme, 'on', @many, '-w', 0) / $full;
    ok($none < 0.02, "$scheme: next to nothing changed, " . sprintf('%.4f sent', $none));
    my $all = sent($scheme, 'on', @many, '-w', 100) / $full;
    ok($all < 1.001, "$scheme: all changed, " . sprintf('%.4f sent', $all));
    my $nothing = sent($scheme, 'on', @many, '-u') / $full;
    ok($nothing < 0.001, "$scheme: nothing changed, " . sprintf('%.5f sent', $nothing));
    is(sent($scheme, 'auto', @many, '-w', 100), $full, "$scheme: then auto sends whole sets");

    # regions that grow shift those behind them
    my $shifted = sent($scheme, 'on', @many, '-l') / $full;
    ok($shifted > 0.5, "$scheme: shifted, " . sprintf('%.3f sent', $shifted));
    survives("$scheme: shifted, rank $_", env => env($scheme, 'on'), solver => [@few, '-l'],
        fault => "app.mid:$_:7:kill") for 0 .. 3;

    # every rank, everywhere
    for my $rank (0 .. 3) {
        survives("$scheme: killed at app.compute, rank $rank", env => env($scheme, 'on'),
            solver => \@few, fault => "app.compute:$rank:7:kill");
        for my $point (qw(begin sized packed sealed voted committed)) {
            survives("$scheme: killed at ckpt.$point of set $_, rank $rank",
                env => env($scheme, 'on'), solver => \@few,
                fault => "ckpt.$point:$rank:$_:kill") for (2, 6);
        }
    }
}

# what a holder cannot take from its copy it asks for, and that is what is restored
my %buddy = (env => env('buddy', 'on'), solver => \@few, faults => 2);
for my $rank (0 .. 3) {
    my $holder = $rank ^ 1;
    for my $set (2, 5) {
        my $kill = "app.compute:$rank:" . ($set + 4) . ':kill';
        survives("copy of rank $rank corrupt at set $set", %buddy,
            fault => "stream.base:$holder:$set:EIO,$kill",
            like => qr/blocks of the copy of rank $rank do not hold/);
        survives("copy of rank $rank unknown at set $set", %buddy,
            fault => "stream.nobase:$holder:$set:EIO,$kill", like => qr/do not hold; sent/);
    }
}

done_testing();
