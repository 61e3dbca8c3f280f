#!/usr/bin/perl
# A rank is killed at every named point of a run: all others return to one set, and the
# result is that of the undisturbed run, bit by bit.  Several kills follow each other in a job.
# With --all every rank is killed at every visit; otherwise the ranks take turns.
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
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets');
my %waiting = (%files, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', # else: flush.t
    FTKIT_LEVEL_HDF5_WRITERS => 1);
my %two = (%waiting, FTKIT_LEVEL_HDF5_WRITERS => 2);
my %four = (spares => 4, faults => 4);

# in the program's own code and calls
survives("killed at $_, each rank in turn", env => \%memory, %four,
    fault => in_turn(0, $_, 3, 9, 15, 21)) for qw(app.step app.mid app.inflight app.coll app.compute);
for my $style (qw(p2p nb coll derived)) {
    survives("killed in a program of style $style", env => \%memory,
        solver => ['-k', $style], fault => 'app.compute:2:13:kill');
}
survives('large messages in flight', env => \%memory, solver => ['-n', '200000', '-s', '12'], %four,
    fault => in_turn(0, 'app.mid', 3, 5, 8, 11));

# at every point of a checkpoint, in the first set and later ones
for my $point (map {"ckpt.$_"} qw(begin sized packed sealed voted committed)) {
    survives("killed at $point, rank $_ first", env => \%memory, %four,
        fault => in_turn($_, $point, 1, 2, 4, 6)) for victims(4, 1);
}

# while a set becomes durable: rank 0 is the writer here
for my $point (map {"durable.$_"} qw(begin written manifest)) {
    survives("killed at $point, rank $_ first", env => \%waiting, %four,
        fault => in_turn($_, $point, 1, 3, 5, 7)) for victims(4, 1);
    survives("... with two writers", env => \%two, %four, fault => in_turn(2, $point, 1, 3, 5, 7));
}
for my $points ([qw(begin part.create part.write part.close)],
    [qw(part.fsync part.rename master.write manifest.write)],
    [qw(manifest.fsync manifest.rename prune)])
{
    my $fault = join(',', map {"h5.$points->[$_]:0:2:kill\@$_"} 0 .. $#$points);
    survives("the writer is killed at h5: @$points", env => \%waiting, spares => 4,
        faults => scalar(@$points), fault => $fault);
    my @parts = grep {/^part/} @$points;
    next if !@parts;
    survives("the other writer of the node is killed at h5: @parts", env => \%two, spares => 4,
        faults => scalar(@parts),
        fault => join(',', map {"h5.$parts[$_]:2:2:kill\@$_"} 0 .. $#parts));
}

# on the way in
for my $point (qw(open.begin open.gathered open.built open.end recover.begin recover.end
    app.callback)) {
    survives("killed at $point, rank $_", env => \%memory, fault => "$point:$_:1:kill")
        for victims(4, 1);
}

# on the way out; after the last agreement a lost result costs a relaunch from the files
survives("killed at finish.begin, rank $_", env => \%memory,
    fault => "finish.begin:$_:1:kill") for victims(4, 1);
for my $point (qw(finish.end app.end close.begin close.voted)) {
    survives("killed at $point, rank $_", env => \%files, run => [], timeout => 90,
        fault => "$point:$_:1:kill") for victims(4, 1);
}
# when all contexts are closed nothing protects a process any more: the code tells the signal
survives("killed at close.parted, rank $_", env => \%files, run => [], timeout => 90,
    rc => 137, like => qr/rank $_ of the job was killed by signal 9/,
    fault => "close.parted:$_:1:kill") for victims(4, 1);
survives('killed before close by a program without ftkit_finish', env => \%files,
    run => [], solver => ['-f'], fault => "app.end:$_:1:kill") for all_cases() ? (0, 2) : 2;

done_testing();
