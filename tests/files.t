#!/usr/bin/perl
# Files that the program writes itself are a part of every set: they survive the loss of ranks and of
# the job, in each scheme and place, with the log, lines apart and replicas; what a set does not take
# is refused by name; and nothing is left in the memory file system.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Fcntl qw(:flock);
use File::Temp qw(tempdir);
use Test::More;

ulfm_only();
asleep_in_waits();
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false');
my %log = (%memory, FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 2);
my $number = 0;
my $right; # the result of an undisturbed run

my $place = tempdir('ftkit-test-XXXXXXXX', DIR => '/dev/shm', CLEANUP => 1);

# The job ends well, with the result of an undisturbed run, and no directory of a process is left.
# said => what the log has; result => another end of the result.
sub saves
{
    my ($name, %o) = @_;
    my ($mode, $said, $end) = (delete $o{mode} // 'callbacks', delete $o{said}, delete $o{result});
    my $work = sprintf '%s/files%02d', scratch(), ++$number;
    my $j = job(program => build() . '/mpi/files', keep => $work,
        args => [ '-o', "$work/out", $mode ], spares => $o{fault} ? 1 : 0, %o,
        env => { FTKIT_FILES_DIRECTORY => $place, %memory, %{ $o{env} // {} } });
    my @bad;
    my $result = $j->{result} =~ s/\n//r;
    $right //= $result;
    push @bad, "exit code $j->{rc}" if $j->{rc} != 0;
    push @bad, "another result: '$result', not '$right'" if $result ne $right . ($end // '');
    my $faults = () = ($o{fault} // '') =~ /:\w+(?:,|$)/g;
    push @bad, "not all of $faults faults came to pass: @{ $j->{faults} }" if @{ $j->{faults} } < $faults;
    push @bad, "nobody said $said" if $said && $j->{log} !~ $said;
    my @left = glob "$place/*";
    push @bad, "left: @left" if @left;
    ok(!@bad, $name) or diag("$name: ", join("\n", @bad), "\n", substr $j->{log}, 0, 5000);
    system 'rm', '-rf', @left if @left;
    return $j;
}

# Whether no living process has the directory.
sub is_left
{
    my ($path) = @_;
    open my $dir, '<', $path or return 0;
    return flock $dir, LOCK_EX | LOCK_NB;
}

# Several faults, each with a spare.
sub dies { return (fault => join(',', map {"$_:kill"} @_), spares => scalar @_) }

# A job without a result says why.
sub says
{
    my ($name, $why, $mode, %o) = @_;
    my $j = job(program => build() . '/mpi/files', args => [ '-o', scratch() . '/out', $mode ],
        spares => 0, env => \%memory, %o);
    like($j->{log}, $why, $name);
    return;
}

my %shared = (FTKIT_LEVEL_MEMORY_PLACE => 'shared');
my %xor = (FTKIT_LEVEL_MEMORY_SCHEME => 'xor');
my %rs = (FTKIT_LEVEL_MEMORY_SCHEME => 'rs');
basis(sub { saves('undisturbed') });
saves('without callbacks', mode => 'calls');

# ranks are lost at any moment
saves('lost in a step, and in the restore', dies('app.step:1:18', 'files.read:2:1'));
saves('lost before it writes, and while files are taken', dies('files.write:1:3', 'files.take:3:11'),
    env => { %xor, %shared });
saves('lost between writing and taking, and when the set is committed',
    dies('files.scanned:2:4', 'ckpt.voted:0:5'), env => \%rs);
saves('lost before the first set', dies('files.take:2:1'), env => \%xor);
saves('lost inside of write, and inside of read', spares => 3,
    fault => 'app.writing:1:3:kill,app.reading:2:1:kill,app.reading:1:1:kill@1');
saves('... in the first set, and with parity', dies('app.writing:2:1', 'app.writing:0:4'), env => \%xor);
saves('without callbacks: lost inside of write, and inside of read', mode => 'calls',
    dies('app.writing:3:2', 'app.reading:0:1'));
saves('without callbacks: back to the first set, and lost while all write', mode => 'calls',
    dies('app.step:3:3', 'app.wrote:1:3'));
saves('without callbacks: lost while files are taken, and in a step', mode => 'early',
    dies('files.take:0:5', 'app.step:2:22'), env => \%rs);
saves('without callbacks: lost in the vote of ftkit_due', mode => 'calls', dies('vote.wait:1:9'),
    env => { FTKIT_CHECKPOINT_PERIOD => '1ms', FTKIT_CHECKPOINT_REACT => '1ms' });

# the whole job is lost
my %end = (run => [], env => { FTKIT_RECOVER_SUPPLY => 'end', %files,
    FTKIT_LEVEL_HDF5_ENABLED => 'true' }, fault => 'app.step:1:18:kill');
{
    my $j = saves('relaunched from HDF5', %end, spares => 0);
    my @export = ('export', '--format', 'files', '-o', "$j->{dir}/files", $j->{dir}, 'newest');
    my ($code, undef, $errors) = command(@export, '--rank', 2, 'restart');
    is($code, 0, 'ftkit export --format files') or diag($errors);
    like(slurp("$j->{dir}/files/step.txt"), qr/^(\d+) .*\n(?:line .*\n)+$/, '... the text');
    is(-s "$j->{dir}/files/x.bin", 480000, '... the binary file');
    ok(-d "$j->{dir}/files/nothing", '... an empty directory');
    ($code, undef, $errors) = command(@export, '--rank', 2, 'restart');
    is("$code $errors", "1 ftkit export: $j->{dir}/files: File exists\n", '... replaces nothing');
    ($code, undef, $errors) = command(@export[0 .. 2], '-o', "$j->{dir}/2", @export[5, 6], 'restart');
    is("$code $errors", "2 ftkit export: 'restart' has files of each rank: add --rank\n", '... of a rank');
    ($code, undef, $errors) = command(@export[0 .. 2], '-o', "$j->{dir}/2", @export[5, 6], '--rank', 0,
        'step');
    is("$code $errors", "1 ftkit export: 'step' has no files\n", '... of another region');
    is(join(' ', glob "$j->{dir}/2*"), '', '... and leaves nothing then');
}
saves('without callbacks: relaunched from HDF5', %end, spares => 0, mode => 'calls');
saves('relaunched from slots', %end, spares => 0,
    env => { %{ $end{env} }, %shared, %xor, FTKIT_LEVEL_HDF5_ENABLED => 'false' });

# a restore finds the memory file system full: the job says so, and its relaunch has room
saves('a restore without room', run => [], spares => 2, env => \%{ $end{env} },
    fault => 'app.step:1:18:kill,archive.write:2:1:ENOSPC',
    said => qr/files 'restart': step\.txt: No space left on device/);

# two contexts, on 4 and 6 ranks, with files of the same names: a loss in one is nothing to the other
my $two;
for my $case (['', 0], ['app.step:1:18:kill', 2], ['app.writing:5:3:kill', 1], ['app.writing:2:3:kill,app.reading:5:1:kill', 3]) {
    my ($fault, $faults) = @$case;
    my $run = sub { job(program => build() . '/mpi/files', n => 11, spares => 1, args => [ '-o', 'out', 'two' ],
        fault => $fault, env => { %memory, FTKIT_FILES_DIRECTORY => $place, FTKIT_SPARES_COUNT => 1 }) };
    my $j = $fault eq '' ? basis($run) : $run->();
    my $is = join '', map { slurp("$j->{dir}/out.$_") } 0, 1;
    $two //= $is =~ /\A(?:30 steps, sum [\d.]+\n){2}\z/ ? $is : '-';
    my @left = glob "$place/*";
    ok($j->{rc} == 0 && $is eq $two && !@left && @{ $j->{faults} } == $faults, "two contexts: '$fault'")
        or diag("exit code $j->{rc}: $is; @{ $j->{faults} }; left: @left\n", substr $j->{log}, 0, 5000);
}

# the message log: the lost team alone restores
saves('the log', dies('app.step:1:18'), env => \%log);
saves('the log, without callbacks', mode => 'asks', dies('app.step:1:18'),
    env => { %log, FTKIT_CHECKPOINT_PERIOD => '1000 calls' });
saves('lines apart', dies('app.step:2:18'), env => { %log, FTKIT_CHECKPOINT_LINE => 'apart' });
saves('replicas', n => 8, dies('app.step:1:18'),
    env => { %log, FTKIT_REPLICAS_COUNT => 2, FTKIT_LOG_TEAM_SIZE => 1 });

# what a set does not take; the last set holds
saves('a symbolic link', mode => 'link', result => ', 7 errors, the last -9',
    said => qr/files 'restart': sub\/away is a symbolic link; a set takes files and directories alone/);
saves('write fails', mode => 'fails', result => ', 1 errors, the last -23',
    said => qr/write\(\) of files 'restart' returned 7/);
{
    # a memory file system that is full: the last set holds, and the job goes on when there is room again
    my $full = scratch() . '/full';
    mkdir $full or die;
    my $mounted = system("mount -t tmpfs -o size=8m none '$full' 2>/dev/null") == 0;
  SKIP: {
        skip('no right to mount', 4) if !$mounted;
        for my $mode (qw(fills filled)) { # filled: another process has made room before ftkit looks
            my $j = saves("a full memory file system: $mode", mode => $mode, result => ', 1 errors, the last -21',
                env => { FTKIT_FILES_DIRECTORY => $full },
                said => qr/write\(\) of files 'restart' returned -[12], and the file system of \Q$full\E.* \(files\.directory\) is full, or was/);
            is(join(' ', glob "$full/*"), '', '... has its room back') if $j->{log} ne '';
        }
    }
    system("umount -l '$full'") if $mounted;
}
saves('files of an earlier call', mode => 'stale', said => qr/a set is due, and the files are of an earlier call/,
    result => ', 2 errors, the last -7');
says('files of an earlier call, after a rollback in another call',
    qr/a set is due, and the files are of an earlier call/, 'back', dies('app.scrub:1:1'),
    env => { %memory, FTKIT_CHECKPOINT_PERIOD => '1 calls' });
says('ftkit_due says why it is not for jobs with the log',
    qr/ftkit_due with the message log \(log.enabled\): ranks that go on/, 'calls', env => \%log);
says('files without callbacks are refused with lines apart',
    qr/lines apart \(checkpoint.line\) need files with callbacks/, 'asks',
    env => { %log, FTKIT_CHECKPOINT_LINE => 'apart' });
says('... and without ftkit_step', qr/ftkit_recover: files 'restart' have no callbacks/, 'recover');

# one rank alone asks for a set
my %seldom = (FTKIT_CHECKPOINT_PERIOD => '1000s', FTKIT_RECOVER_STALL => '10s');
saves('a request of one rank at a look', mode => 'alone',
    env => { %seldom, FTKIT_CHECKPOINT_REACT => '1ms' });
says('a request of one rank between looks', qr/because of ftkit_request, and rank \d has not written/,
    'alone', env => { %memory, %seldom, FTKIT_CHECKPOINT_PERIOD => '1000 calls' });

# the default place, and processes that nobody replaces
{
    my $j = job(program => build() . '/mpi/files', args => [ '-o', scratch() . '/plain' ],
        spares => 0, fault => 'files.take:1:4:kill', env => { FTKIT_RECOVER_SUPPLY => 'end' });
    isnt($j->{rc}, 0, 'a job is lost');
    my ($ranks) = scalar @{ $j->{faults} };
    is($ranks, 1, '... while files are taken');
    my @left = grep { is_left($_) } glob '/dev/shm/ftkit-files-*';
    is("@left", '', 'ftkit run removes its files');
}
done_testing();
