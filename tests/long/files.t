#!/usr/bin/perl
# Names, permissions and bytes of 1 to 10,000 files of the program, of 0 bytes to more than 4 GiB, come
# back in every kind of recovery.
#
#   FTKIT_TEST_FILES=1,37,10000  numbers of files of a rank;  FTKIT_TEST_LARGE=0  no large file
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitTest;
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use Test::More;

ulfm_only();
# sets in memory, too: a disk takes minutes for the fsync() of so many files
my $place = tempdir('ftkit-test-XXXXXXXX', DIR => '/dev/shm', CLEANUP => 1);
my %sets = (FTKIT_CHECKPOINT_PERIOD => '3 calls', FTKIT_FILES_DIRECTORY => $place,
    FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_RECOVER_STALL => '300s');
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LEVEL_HDF5_EVERY => undef,
    FTKIT_LEVEL_HDF5_ASYNCHRONOUS => undef, FTKIT_LEVEL_HDF5_DIRECTORY => undef);
my %end = (FTKIT_RECOVER_SUPPLY => 'end');
my $number = 0;

# A job that is disturbed, and ends well behind a restore in which each rank has checked its files.
# again => the same job once more, with these options, after a change of environment.
sub comes_back
{
    my ($name, $count, %o) = @_;
    my ($again, $large, $said) = map { delete $o{$_} } qw(again large said);
    my $work = sprintf '%s/work%02d', $place, ++$number;
    my %job = (program => build() . '/mpi/files_many', keep => $work, timeout => 500 * pace(), spares => 0,
        args => [ '-o', "$work/out", $count, $large // () ]);
    my $j;
    chain(sub {
        for my $run (\%o, $again // ()) {
            my %env = (%sets, %{ $o{env} // {} }, %{ $run->{env} // {} });
            delete @env{ grep { !defined $env{$_} } keys %env };
            $j = job(%job, %$run, env => \%env);
        }
    });
    if (!is_skipped()) {
        my ($restores) = $j->{result} =~ /^8 steps, (\d+) restores$/;
        my @left = grep { !/work\d+$/ } glob "$place/*";
        ok($j->{rc} == 0 && ($restores // 0) > 0 && $j->{log} =~ ($said // qr//) && !@left, "$count files: $name")
            or diag("exit code $j->{rc}: $j->{result}; faults: @{ $j->{faults} }; left: @left\n", substr $j->{log}, 0, 5000);
        remove_tree(@left);
    }
    remove_tree($work);
    return;
}

my $lost = 'app.step:1:6:kill';
my @end = (fault => $lost, env => \%end);
my %slots = (%memory, %end, FTKIT_LEVEL_MEMORY_PLACE => 'shared');
for my $count (split /,/, $ENV{FTKIT_TEST_FILES} // '1,37,10000') {
    my @memory = (spares => 1, fault => $lost);
    comes_back("a rank from its buddy", $count, @memory, env => \%memory);
    comes_back("a rank from parity ($_)", $count, @memory, env => { %memory, FTKIT_LEVEL_MEMORY_SCHEME => $_ }) for qw(xor rs);
    comes_back('a rank that is lost in write, and one in read', $count, spares => 2, env => \%memory,
        fault => 'app.writing:1:2:kill,app.reading:3:1:kill');
    comes_back('incremental sets', $count, @memory,
        env => { %memory, FTKIT_LEVEL_MEMORY_INCREMENTAL => 'on', FTKIT_LEVEL_MEMORY_SCHEME => 'xor' });
    comes_back('the message log', $count, @memory, env => { %memory, FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 2 });
    comes_back('slots of the lost job', $count, run => [], fault => $lost, env => \%slots);
    comes_back('a second level', $count, run => [], fault => $lost, env => { %slots, FTKIT_LEVEL_MEMORY_PLACE => 'memory',
        FTKIT_LEVEL_LOCAL_SCHEME => 'buddy', FTKIT_LEVEL_LOCAL_EVERY => '1 sets', FTKIT_LEVEL_LOCAL_PLACE => 'shared' });
    for my $plain (qw(true false)) {
        my %kind = (%end, FTKIT_FILES_PLAIN => $plain, FTKIT_LEVEL_HDF5_KEEP => 3);
        my $kind = $plain eq 'true' ? 'plain files' : 'inside HDF5';
        comes_back($kind, $count, fault => $lost, env => \%kind, again => {}, said => qr/restored set 2 from files/);
        comes_back("an older set, $kind", $count, fault => $lost, env => \%kind, again => { run => [ '--no-relaunch', '--set', 1 ] },
            said => qr/restored set 1 from files/);
        comes_back("4 -> $_ ranks, $kind", $count, fault => $lost, env => \%kind, again => { n => $_ },
            said => qr/restored set 2 from files in \S+, of another number of ranks/) for 2, 5;
    }
}

# one file of more than 4 GiB: one set, and about three times its bytes in memory
SKIP: {
    my ($free) = slurp('/proc/meminfo') =~ /^MemAvailable: +(\d+) kB/m;
    skip('a large file takes 15 GiB of memory', 3) if ($free // 0) < 15 * 2**20 || !($ENV{FTKIT_TEST_LARGE} // 1);
    my @large = (large => 2**32 + 12345);
    my %once = (FTKIT_CHECKPOINT_PERIOD => '1000 calls');
    comes_back('one of more than 4 GiB, from its buddy', 3, @large, spares => 1, fault => $lost, env => { %memory, %once });
    comes_back('one of more than 4 GiB, plain files', 3, @large, fault => $lost, again => {},
        env => { %once, %end, FTKIT_LEVEL_MEMORY_SCHEME => 'own' }, said => qr/restored set 1 from files/);
    comes_back('one of more than 4 GiB, on 2 ranks', 3, @large, fault => $lost, again => { n => 2 },
        env => { %once, %end, FTKIT_LEVEL_MEMORY_SCHEME => 'own' }, said => qr/restored set 1 from files/);
}
done_testing();
