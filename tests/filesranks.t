#!/usr/bin/perl
# Files of the program come back on another number of ranks: names, permissions and bytes of each old
# rank, from plain sets and from sets inside HDF5.  Every error is named, and a damaged set is not used.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use Test::More;

ulfm_only();
my $place = tempdir('ftkit-test-XXXXXXXX', DIR => '/dev/shm', CLEANUP => 1);
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
    FTKIT_LEVEL_HDF5_KEEP => 3, FTKIT_FILES_DIRECTORY => $place);
my ($right, $number) = ('', 0);

# A job of the program; args => [mode, ...].
sub runs
{
    my ($work, $n, %o) = @_;
    my @args = @{ delete $o{args} // ['callbacks'] };
    return job(program => build() . '/mpi/files_ranks', n => $n, keep => $work, spares => 0,
        args => [ '-o', "$work/out", @args ], %o, env => { %files, %{ $o{env} // {} } });
}

# Sets of a job of $n ranks that is lost as a whole behind step 17: sets 2, 3 and 4 are there.
my %written;
sub lost
{
    my ($n, $plain, $mode) = @_;
    return $written{"$n $plain $mode"} //= do {
        my $work = sprintf '%s/lost%02d', scratch(), ++$number;
        basis(sub { runs($work, $n, args => [$mode], fault => 'app.step:1:18:kill',
            env => { FTKIT_RECOVER_SUPPLY => 'end', FTKIT_FILES_PLAIN => $plain ? 'true' : 'false' }) });
        $work;
    };
}

# The lost job again, in a copy of its directory: on $to ranks, after a change there.
# said, unsaid => what its log has, and has not; fails => it ends with an error.
sub again
{
    my ($name, $from, $to, %o) = @_;
    my ($said, $unsaid, $fails, $change, $look, $args) =
        map { delete $o{$_} } qw(said unsaid fails change look args);
    my $plain = delete $o{plain} // 1;
    my $mode = ($args // ['callbacks'])->[0];
    my $of = lost($from, $plain, $mode =~ /^(?:callbacks|refuses|damaged-callbacks)$/ ? 'callbacks' : 'calls');
    my $work = sprintf '%s/again%02d', scratch(), ++$number;
    if (-d $of) {
        system("rm -rf '$work' && cp -a '$of' '$work' && cd '$work/default.ftkit' && " . ($change // 'true')) == 0
            or die "$name: $?\n";
    }
    my $j = runs($work, $to, args => $args, %o);
    return if is_skipped();
    my @bad;
    my $result = $j->{result} =~ s/\n//r;
    push @bad, "exit code $j->{rc}" if $fails ? $j->{rc} == 0 : $j->{rc} != 0;
    push @bad, "another result: '$result', not '$right'" if $result ne ($fails ? '' : $right);
    my $faults = () = ($o{fault} // '') =~ /:\w+(?:,|$)/g;
    push @bad, "not all of $faults faults came to pass: @{ $j->{faults} }" if @{ $j->{faults} } < $faults;
    $j->{log} =~ $_ or push @bad, "nobody said $_" for ref $said eq 'ARRAY' ? @$said : $said // ();
    push @bad, "somebody said $unsaid" if $unsaid && $j->{log} =~ $unsaid;
    push @bad, $look->($j) if $look;
    my @left = glob "$place/*";
    push @bad, "left: @left" if @left;
    ok(!@bad, $name) or diag("$name: ", join("\n", @bad), "\n", substr $j->{log}, 0, 5000);
    remove_tree($work, @left);
    return;
}

# What is below a directory: names, kinds, permissions and bytes.
sub tree
{
    my ($dir) = @_;
    return join "\n", map {
        my @st = lstat $_;
        sprintf '%s %o %s', s/^\Q$dir\E//r, $st[2], -f _ ? unpack('H*', slurp($_)) : '';
    } sort split /\0/, `find '$dir' -mindepth 1 -print0`;
}

basis(sub {
    my $j = runs(scratch() . '/right', 4);
    $right = $j->{result} =~ s/\n//r;
    is("$j->{rc} " . ($right =~ /^30 steps, sum -?\d+$/ ? 'good' : "'$right'"), '0 good', 'undisturbed')
        or diag($j->{log});
});

# ---- N -> M ----------------------------------------------------------------------------

sub from { my ($set, $from, $to) = @_; return qr/restored set $set from files in \S+, of another number of ranks(?s:.*)step \d+, files of $from ranks on $to/ }
for my $plain (1, 0) {
    my $kind = $plain ? 'plain files' : 'inside HDF5';
    again("4 -> 4, $kind", 4, 4, plain => $plain, said => qr/step 15, files of 4 ranks on 4/);
    for ([4, 2], [2, 4], [3, 5], [4, 1]) {
        my ($from, $to) = @$_;
        again("$from -> $to, $kind", $from, $to, plain => $plain, said => from(4, $from, $to));
        next if $from == 4 && $to == 1 && !all_cases();
        again("... without callbacks", $from, $to, plain => $plain, said => from(4, $from, $to), args => ['calls']);
    }
    # rank 0 takes the directories of all old ranks away: they are those of the set
    again("names, permissions and bytes, $kind", 3, 2, plain => $plain, args => ['takes'],
        env => { FTKIT_FILES_DIRECTORY => scratch() }, look => sub {
        my ($j) = @_;
        my @bad;
        for my $rank (0 .. 2) {
            my $is = "$j->{dir}/set-4-$rank";
            my ($code) = command('export', '--format', 'files', '--rank', $rank, '-o', $is,
                lost(3, $plain, 'calls'), 4, 'restart');
            my $in = $plain ? sprintf '%s/default.ftkit/set-0000000004/files/restart/rank-%05d',
                lost(3, $plain, 'calls'), $rank : $is;
            push @bad, "rank $rank: no export" if $code != 0;
            push @bad, "rank $rank: no chunks" if tree($in) !~ m{^/sub/}m || tree($in) !~ m{^/chunk-\d+\.bin 100\d+ \w}m;
            push @bad, "rank $rank: other files" if tree("$j->{dir}/of-$rank") ne tree($in);
        }
        return @bad;
    });
    # after the restart, before the next set: the old files are laid out once more
    again("a rank is lost while it reads, $kind", 4, 2, plain => $plain, spares => 1, fault => 'files.of:1:2:kill',
        said => from(4, 4, 2));
    again("... behind that, without callbacks", 4, 3, plain => $plain, spares => 1, args => ['calls'],
        fault => 'app.step:2:1:kill', said => from(4, 4, 3));
    again("... and with the next sets", 2, 3, plain => $plain, spares => 1, fault => 'app.step:2:9:kill',
        said => qr/step 15, files of 2 ranks on 3(?s:.*)step \d+, files of 3 ranks on 3/);
}

# ---- errors ----------------------------------------------------------------------------

again('each error of the calls', 4, 2, args => ['errors'],
    said => [ qr/no such rank: ftkit_files_of: files 'restart' are of the ranks 0 to 3, not of rank 4/,
        qr/not of as many: ftkit_files_read: the restored set is of 4 ranks: ftkit_files_of\(\) has/ ]);
again('a program that does not expect it', 4, 2, args => ['refuses'], fails => 1,
    said => qr/files 'restart' are of each rank: they cannot be restored on 2 ranks from 4 \(start with 4 ranks, or call ftkit_files_any_ranks\)/);
again('with the message log', 4, 2, fails => 1, env => { FTKIT_LOG_ENABLED => 'true' },
    said => qr/with the message log \(log.enabled\) a set of 4 ranks cannot be restored on 2/);
again('the memory file system is full', 4, 2, fault => 'files.of:1:2:ENOSPC', fails => 1,
    said => qr/read\(\) of files 'restart' of 4 ranks returned -1: files 'restart': making .*: No space left on device/);
my $set = 'default.ftkit/set-0000000004';
my $chunk = 'files/restart/rank-00002/chunk-6.bin';
again('the set goes away', 4, 2, args => [ 'gone', $set ], said => qr/error -\d+: files 'restart': set 4 is no longer in /);
again('a file is damaged meanwhile', 4, 2, args => [ 'damaged', "$set/$chunk", 4711 ],
    said => qr/error -4\d: files 'restart': set 4, rank 2, files 'restart': chunk-6\.bin has changed/);
again('... and read by a callback', 4, 2, args => [ 'damaged-callbacks', "$set/$chunk", 4711 ], fails => 1,
    said => qr/read\(\) of files 'restart' of 4 ranks returned -1: files 'restart': set 4, rank 2, .*chunk-6\.bin has changed/);
again('... inside HDF5', 4, 2, plain => 0, args => [ 'damaged', "$set/part-00000.h5", 300000 ],
    said => qr/error -40: files 'restart': set 4, part 0, rank \d: checksum of block/);

# ---- a set that is damaged is not used -------------------------------------------------

my $at = "set-0000000004/files/restart/rank-00002";
for my $case (['a changed byte', "printf x | dd of=$at/chunk-6.bin bs=1 seek=4711 conv=notrunc 2>/dev/null",
        'chunk-6\.bin has changed: its checksum differs'],
    ['a missing file', "rm '$at/sub/chunk 7'", 'sub\/chunk 7 is missing'])
{
    my ($name, $change, $words) = @$case;
    again("$name: the set before is used", 4, 2, change => $change,
        said => [ qr/rank 1 cannot use set 4: set 4, rank 2, files 'restart': $words/, from(3, 4, 2) ]);
}

# ---- a job that shrinks ----------------------------------------------------------------

my %shrink = (FTKIT_RECOVER_SUPPLY => 'shrink');
sub shrinks
{
    my ($name, %o) = @_;
    my $said = delete $o{said};
    my $work = sprintf '%s/shrink%02d', scratch(), ++$number;
    my $j = runs($work, 4, fault => 'app.step:1:18:kill', %o, env => { %shrink, %{ $o{env} // {} } });
    return if is_skipped();
    ok(@{ $j->{faults} } == ($o{faults} // 1) && ($o{fails} ? $j->{rc} != 0 : $j->{rc} == 0 && $j->{result} eq "$right\n") && $j->{log} =~ $said, $name)
        or diag("exit code $j->{rc}, '$j->{result}'\n", substr $j->{log}, 0, 5000);
    return;
}
shrinks('a job shrinks: files come from the file system', said => qr/step 15, files of 4 ranks on 3/);
shrinks('... without callbacks', said => qr/step 15, files of 4 ranks on 3/, args => ['calls']);
# the set is still being written when the rank is lost, whose part is there
shrinks('... and from a set that is still being written', said => qr/step 15, files of 4 ranks on 3/,
    env => { FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'true', FTKIT_LEVEL_HDF5_EVERY => '4 sets' },
    fault => 'flush.parts:0:1:slow,app.step:1:18:kill2', faults => 2);
shrinks('... and not from memory', fails => 1, env => { FTKIT_LEVEL_HDF5_ENABLED => 'false' },
    said => qr/files 'restart': set 4 of 4 ranks is in memory alone: files go to another number of ranks from the file system/);
done_testing();
