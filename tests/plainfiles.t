#!/usr/bin/perl
# Sets on the file system have the files of the program as the program wrote them (files.plain): they
# are read without ftkit, a job restarts from them, bitwise, and no kill, full disk, damage or planted
# file ever gives a job other ones.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use JSON::PP 'decode_json';
use Test::More;

ulfm_only();
my $place = tempdir('ftkit-test-XXXXXXXX', DIR => '/dev/shm', CLEANUP => 1);
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
    FTKIT_LEVEL_HDF5_KEEP => 3, FTKIT_FILES_DIRECTORY => $place);
my %end = (FTKIT_RECOVER_SUPPLY => 'end');
my %later = (FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'true');
my $right; # the result of an undisturbed run
my $number = 0;

# A job of the program, in a directory of its own; work => the directory.
sub writes
{
    my ($mode, %o) = @_;
    my $work = delete $o{work} // sprintf '%s/plain%02d', scratch(), ++$number;
    return job(program => build() . '/mpi/files', keep => $work, args => [ '-o', "$work/out", $mode ],
        spares => 0, %o, env => { %files, %{ $o{env} // {} } });
}

# The complete sets in a directory, all their bytes checked, and what else is there.
sub sets
{
    my ($dir) = @_;
    my ($build) = build();
    return join "\n", map { s/\s+$//r } split /\n/, `'$build/mpi/sets' '$dir' default`;
}

# The job ends well, with the result of an undisturbed run; said => what its log has; sets => what is
# left then; result => another end of the result.
sub saves
{
    my ($name, %o) = @_;
    my ($said, $sets, $end) = map { delete $o{$_} } qw(said sets result);
    my $j = writes(delete $o{mode} // 'callbacks', %o);
    my $result = $j->{result} =~ s/\n//r;
    $right //= $result;
    my @bad;
    push @bad, "exit code $j->{rc}" if $j->{rc} != 0;
    push @bad, "another result: '$result', not '$right'" if $result ne $right . ($end // '');
    my $faults = () = ($o{fault} // '') =~ /:\w+(?:,|$)/g;
    push @bad, "not all of $faults faults came to pass: @{ $j->{faults} }" if @{ $j->{faults} } < $faults;
    push @bad, "nobody said $said" if $said && $j->{log} !~ $said;
    my $have = $j->{log} ne '' ? sets($j->{dir}) : '';
    push @bad, "sets: '$have'" if $have !~ ($sets // qr/\Acomplete \d+ \d+ \d+\z/) && $have ne '';
    my @left = glob "$place/*";
    push @bad, "left: @left" if @left;
    ok(!@bad, $name) or diag("$name: ", join("\n", @bad), "\n", substr $j->{log}, 0, 5000);
    remove_tree(@left) if @left;
    return $j;
}

sub set_of { my ($dir, $set) = @_; return sprintf '%s/default.ftkit/set-%010d', $dir, $set }
sub same { my (@dirs) = @_; return system('diff', '-r', @dirs) == 0 }

basis(sub { saves('undisturbed') });

# ---- the files are those that the program wrote ----------------------------------------

# A job that is lost as a whole: sets 2, 3 and 4 are there.
my $lost = scratch() . '/lost';
basis(sub { writes('callbacks', work => $lost, env => \%end, fault => 'app.step:1:18:kill') });
is(sets($lost), 'complete 4 3 2', 'a job is lost') if -d $lost;
for my $set (-d $lost ? 2 .. 4 : ()) {
    my $dir = set_of($lost, $set);
    my $step = 5 * ($set - 1);
    my @bad;
    for my $rank (0 .. 3) {
        my $in = sprintf '%s/files/restart/rank-%05d', $dir, $rank;
        my ($first, @lines) = split /\n/, slurp("$in/step.txt");
        push @bad, "rank $rank: step '$first', and " . @lines . ' lines'
            if $first !~ /^$step [-\d.e]+$/ || @lines != $step;
        my @x = unpack 'd<*', slurp("$in/x.bin");
        my @part = unpack 'd<*', $step % 2 ? slurp("$in/sub/of-step-$step") : '';
        push @bad, "rank $rank: " . @x . ' values' if @x != 60000;
        push @bad, "rank $rank: " . @part . ' values of the part'
            if @part != ($step % 2 ? $step + $rank : 0) || "@part" ne "@x[0 .. $#part]";
        push @bad, "rank $rank: no directory" if !-d "$in/nothing";
        push @bad, sprintf 'mode %o', (stat _)[2] & 0777 if -d "$in/sub" && ((stat _)[2] & 0777) != 0755;
        my ($code) = command('export', '--format', 'files', '--rank', $rank, '-o', "$lost/$set-$rank",
            $lost, $set, 'restart');
        push @bad, "rank $rank: the export has other files" if $code != 0 || !same($in, "$lost/$set-$rank");
    }
    is("@bad", '', "set $set is read without ftkit");
}
if (-d $lost) {
    my ($code, $text, $errors) = command('show', $lost, 4);
    my $bytes = 4 * 480000;
    like($text, qr/^files of the program\n  restart +files\/restart\/rank-\.\.\., 4 ranks, 12 files, 1\.8 MiB$/m,
        'ftkit show') or diag($errors);
    ($code, $text) = command('show', '--json', $lost, 4);
    like($text, qr/"files":\s*\[\s*\{\s*"name": "restart",\s*"directory": "files\/restart",\s*"ranks": 4,\s*"files": 12,\s*"bytes": 19\d+\s*\}/,
        '... --json');
    ($code, $text) = command('verify', $lost);
    is($code, 0, 'ftkit verify') or diag($text);
    ($code, $text) = command('ls', '--json', $lost);
    my ($all) = $text =~ /"set": 4,.*?"bytes": (\d+)/s;
    cmp_ok($all // 0, '>', $bytes, 'ftkit ls counts their bytes');
}

# ---- a lost job restarts from them ------------------------------------------------------

# The lost job again, in a copy of its directory, after a change there.
sub again
{
    my ($name, $change, %o) = @_;
    my $work = sprintf '%s/again%02d', scratch(), ++$number;
    return if !-d $lost;
    system("cp -a '$lost' '$work' && cd '$work/default.ftkit' && $change") == 0 or die "$change: $?\n";
    my $j = saves($name, work => $work, %o);
    remove_tree($work);
    return $j;
}

my $at = 'set-0000000004/files/restart/rank-00002';
again('a job goes on from its sets', 'true', said => qr/restored set 4 from files/);
again('... without callbacks', 'true', mode => 'calls', said => qr/restored set 4 from files/);
again('... and writes none of this kind', 'true', said => qr/restored set 4 from files/,
    env => { FTKIT_FILES_PLAIN => 'false' });
again('... a set whose permissions have changed', 'chmod -R g+rwX .', said => qr/restored set 4 from files/);
# which sets have plain files: those of files.plain, written by the program's threads or not
for my $later (0, 1) {
    for my $plain (0, 1) {
        my $j = saves('files.plain = ' . ($plain ? 'true' : 'false') . ($later ? ', in the background' : ''),
            sets => qr/\Acomplete \d+/,
            env => { ($later ? %later : ()), FTKIT_FILES_PLAIN => $plain ? 'true' : 'false' });
        my @sets = glob "$j->{dir}/default.ftkit/set-*";
        my @have = grep { -d "$_/files/restart" } @sets;
        is(scalar @have, $plain ? scalar @sets : 0, '... its sets') if @sets;
    }
}
for my $case (['a changed byte', "printf x | dd of=$at/x.bin bs=1 seek=4711 conv=notrunc 2>/dev/null",
        'x\.bin has changed: its checksum differs'],
    ['a short file', "truncate -s 100 $at/step.txt", 'step\.txt has 100 bytes instead of \d+'],
    ['a missing file', "rm $at/sub/of-step-15", 'sub\/of-step-15 is missing'],
    ['one file more', "touch $at/sub/of-step-16", 'sub\/of-step-16 is a file that the set does not have'],
    ['the file of another set', "cp set-0000000003/files/restart/rank-00002/x.bin $at/x.bin", 'x\.bin has changed'],
    ['a link to the same file', "mv $at/x.bin ../copy && ln -s ../../../../../copy $at/x.bin",
        'x\.bin is a symbolic link, not a file'],
    ['a link to the same directory', "mv $at ../copy && ln -s ../../../../copy $at", 'its directory is a link'])
{
    my ($name, $change, $words) = @$case;
    again("$name: the set before is used", $change,
        said => qr/rank 2 cannot use set 4: set 4, rank 2, files 'restart': $words(?s:.*)restored set 3 from files/);
}
# no set is good: the job says so, and begins nothing anew
if (-d $lost) {
    my $work = scratch() . '/none';
    system("cp -a '$lost' '$work' && rm '$work'/default.ftkit/set-*/files/restart/rank-00001/x.bin") == 0 or die;
    my $j = writes('callbacks', work => $work);
    isnt($j->{rc}, 0, 'no set has all its files: the job ends');
    like($j->{log}, qr/set 2 cannot be used and no other is complete/, '... and says so');
    my ($code, $text) = command('verify', $work, 4);
    is($code, 1, '... ftkit verify');
    like($text, qr{^  files/restart/rank-00001/x\.bin, rank 1, region 'restart': missing \(set 4, rank 1, files 'restart': x\.bin is missing}m,
        '... names the file');
    ($code, $text) = command('repair', $work, 4);
    is($code, 1, '... ftkit repair');
    like($text, qr{cannot be repaired: files/restart/rank-00001/x\.bin, region restart: .*x\.bin is missing}, '... says that it cannot');
    write_file(set_of($work, 4) . "/files/restart/rank-00001/\e[1m", '');
    ($code, $text) = command('verify', $work, 4);
    like($text, qr{rank-00001/\?\[1m, rank 1, region 'restart': format \(.*: \?\[1m is a file}, '... whatever its name is');
    unlink(set_of($work, 3) . '/manifest');
    ($code, $text) = command('repair', $work, 3);
    like($text, qr{manifest: cannot be repaired: .*x\.bin is missing}, '... and makes no manifest of a set without its files');
    ($code) = command('prune', '--keep', 1, $work);
    is($code, 0, '... ftkit prune');
    is(join(' ', map { s/.*-0*//r } glob "$work/default.ftkit/set-*"), '4', '... removes sets with all their files');
    remove_tree($work);
}

# ---- what the commands count -------------------------------------------------------------

# The bytes of all plain files of a set, and of all else there.
sub bytes_of
{
    my ($set) = @_;
    my ($files, $rest) = (0, 0);
    for (split /\0/, `find '$set' -type f -print0`) {
        (m{^\Q$set\E/files/} ? $files : $rest) += -s $_;
    }
    return ($files, $rest);
}
sub json { my ($text) = @_; my $of = eval { decode_json($text) }; return $of // {} }
for my $plain (1, 0) {
    my $events = sprintf '%s/events%d', scratch(), $plain;
    my $j = saves('counted: ' . ($plain ? 'plain files' : 'inside HDF5'), sets => qr/\Acomplete 7 6 5\z/,
        env => { FTKIT_REPORT_EVENTS => $events, FTKIT_FILES_PLAIN => $plain ? 'true' : 'false' });
    next if is_skipped();
    my @bad;
    # 480000 bytes of x.bin, step.txt, a file of odd steps; each file begins at a multiple of 64 bytes
    my ($code, $report, $errors) = command('report', '--json', $events);
    my %level = map { $_->{level} => $_ } @{ json($report)->{levels} // [] };
    my ($memory, $durable) = map { $level{$_} // {} } qw(memory files);
    push @bad, "$_->{level}: $_->{sets} sets" for grep { $_->{sets} != 7 } $memory, $durable;
    my $least = 4 * 7 * 480000;
    push @bad, "$_->{level}: $_->{bytes} bytes" for grep { $_->{bytes} < $least || $_->{bytes} > 1.02 * $least } $memory, $durable;
    # what the file system has of a set is what `ftkit ls` says, and the files are bytes of the registered ones
    my %ls = map { $_->{set} => $_ } @{ json((command('ls', '--json', $j->{dir}))[1])->{sets} // [] };
    for my $set (5 .. 7) {
        my ($files, $rest) = bytes_of(set_of($j->{dir}, $set));
        push @bad, "set $set: " . ($ls{$set}{bytes} // '-') . " bytes in ls, not $files + $rest" if ($ls{$set}{bytes} // 0) != $files + $rest;
        push @bad, "set $set: $files bytes of files" if $plain ? $files < 4 * 480000 : $files != 0;
    }
    my ($status) = slurp("$j->{dir}/default.ftkit/status") =~ /^set_bytes = (\d+)$/m;
    push @bad, 'status: ' . ($status // '-') . ' bytes' if ($status // 0) < 480000 || $status > 1.02 * 480000;
    my (undef, $text) = command('status', $j->{dir});
    push @bad, "ftkit status: $text" if $text !~ /^  memory +set 7, .*\n  file system +set 7, /m;
    is("@bad", '', '... as they are') or diag($errors, $report);
}

# ---- kills, and a full file system, while they are written ------------------------------

my @points = qw(mkdir create write fsync close dirsync);
my %nth = (mkdir => 40, create => 30, write => 30, fsync => 30, close => 30, dirsync => 45);
# a rank is lost in the middle of a set: the job is repaired, and its sets are whole
for my $point (all_cases() ? @points : qw(create fsync dirsync)) {
    saves("a writer is lost at files.plain.$point", spares => 1, fault => "files.plain.$point:0:$nth{$point}:kill",
        env => { FTKIT_LEVEL_HDF5_WRITERS => 1 });
}
for my $point (all_cases() ? @points : qw(mkdir write close)) {
    saves("... of two, in the background, at files.plain.$point", spares => 1,
        sets => qr/\Acomplete(?: \d+)*(?:\nincomplete set-\d+)?\z/,
        env => { %later, FTKIT_LEVEL_HDF5_WRITERS => 2 }, fault => "files.plain.$point:2:3:kill");
}
# the whole job is lost there, and comes back
for my $point (all_cases() ? @points : qw(write dirsync)) {
    saves("the job is lost at files.plain.$point", run => [], said => qr/restored set \d from files/,
        env => { %end, FTKIT_LEVEL_HDF5_WRITERS => 1 }, fault => "files.plain.$point:0:$nth{$point}:kill");
}
# a set cannot be written: the last one holds, nothing is left, and the job goes on
for my $point (all_cases() ? @points : qw(mkdir write fsync)) {
    my $error = $point eq 'fsync' ? 'EIO' : 'ENOSPC';
    my $text = $error eq 'EIO' ? qr/Input\/output error/ : qr/No space left on device/;
    saves("$error at files.plain.$point", fault => "files.plain.$point:0:$nth{$point}:$error",
        env => { FTKIT_LEVEL_HDF5_WRITERS => 1 }, said => qr/files 'restart': .*$text/,
        result => sprintf(', 1 errors, the last %d', $error eq 'EIO' ? -20 : -21));
}

# ---- with the rest of the library -------------------------------------------------------

my %log = (FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 2);
my @lost = (run => [], said => qr/restored set \d from files/, fault => 'app.step:1:18:kill');
saves('relaunched with the log', @lost, env => { %end, %log });
saves('relaunched with lines apart', @lost, env => { %end, %log, FTKIT_CHECKPOINT_LINE => 'apart' });
saves('relaunched with replicas', @lost, n => 8,
    env => { %end, %log, FTKIT_REPLICAS_COUNT => 2, FTKIT_LOG_TEAM_SIZE => 1 });
saves('relaunched, four writers, compressed', @lost,
    env => { %end, FTKIT_LEVEL_HDF5_WRITERS => 4, FTKIT_LEVEL_HDF5_COMPRESS => 'deflate' });
# in the background: a set is complete when the job is lost
saves('relaunched, incremental sets in the background', @lost, sets => qr/\Acomplete \d+( \d+)*\z/,
    env => { %end, %later, FTKIT_LEVEL_MEMORY_INCREMENTAL => 'on', FTKIT_LEVEL_MEMORY_SCHEME => 'xor' },
    fault => 'flush.complete:0:1:slow,app.step:1:18:kill2');
done_testing();
