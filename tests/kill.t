#!/usr/bin/perl
# A rank is killed at every named point of a run: all others return to one set, and the
# result is that of the undisturbed run, bit by bit (rows S2, R1, R4 of the acceptance).
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets');
my %waiting = (%files, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false'); # else: flush.t

# in the program's own code and calls
for my $point (qw(app.step app.mid app.inflight app.coll app.compute)) {
    survives("killed at $point, rank $_", env => \%memory, fault => "$point:$_:" . (3 + 6 * $_)
        . ':kill') for 0 .. 3;
}
for my $style (qw(p2p nb coll derived)) {
    survives("killed in a program of style $style", env => \%memory,
        solver => ['-k', $style], fault => 'app.compute:2:13:kill');
}
survives('large messages in flight', env => \%memory, solver => ['-n', '200000', '-s', '12'],
    fault => "app.mid:$_:8:kill") for 0 .. 3;

# at every point of a checkpoint, every rank in turn, in the first set and later ones
for my $point (qw(begin sized packed sealed voted committed)) {
    for my $rank (0 .. 3) {
        survives("killed at ckpt.$point of set $_, rank $rank", env => \%memory,
            fault => "ckpt.$point:$rank:$_:kill") for (1, 2, 4);
    }
}

# while a set becomes durable: rank 0 is the writer here
for my $point (qw(durable.begin durable.written durable.manifest)) {
    for my $rank (0 .. 3) {
        survives("killed at $point of set $_, rank $rank", env => \%waiting,
            fault => "$point:$rank:$_:kill") for (1, 3);
    }
}
for my $point (qw(begin part.create part.write part.close part.fsync part.rename
    master.write manifest.write manifest.fsync manifest.rename prune)) {
    survives("killed at h5.$point", env => \%waiting, fault => "h5.$point:0:3:kill");
}

# on the way in
for my $point (qw(open.begin open.gathered open.built open.end recover.begin recover.end
    app.callback)) {
    survives("killed at $point, rank $_", env => \%memory, fault => "$point:$_:1:kill")
        for 0 .. 3;
}

# on the way out; after the last agreement a lost result costs a relaunch from the files
survives("killed at finish.begin, rank $_", env => \%memory,
    fault => "finish.begin:$_:1:kill") for 0 .. 3;
for my $point (qw(finish.end app.end close.begin close.voted)) {
    survives("killed at $point, rank $_", env => \%files, run => [], timeout => 90,
        fault => "$point:$_:1:kill") for 0 .. 3;
}
# when all contexts are closed nothing protects a process any more: the code tells the signal
survives("killed at close.parted, rank $_", env => \%files, run => [], timeout => 90,
    rc => 137, like => qr/rank $_ of the job was killed by signal 9/,
    fault => "close.parted:$_:1:kill") for 0 .. 3;
survives('killed before close by a program without ftkit_finish', env => \%files,
    run => [], solver => ['-f'], fault => "app.end:$_:1:kill") for (0, 2);

done_testing();
