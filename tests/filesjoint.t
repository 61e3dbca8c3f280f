#!/usr/bin/perl
# Files that all ranks write together are a part of every set: they survive the loss of ranks and of the
# job, in memory and on the file system, on any number of ranks.  Nothing of an attempt is taken for a
# set, nothing is left behind, and every error is the same on all ranks.
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
my %memory = (FTKIT_LEVEL_HDF5_EVERY => '1000000 sets');
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
    FTKIT_LEVEL_HDF5_KEEP => 3);
my %end = (%files, FTKIT_RECOVER_SUPPLY => 'end');
my ($right, $number) = ('', 0);

# Directories that the job has left below its sets.
sub left { my ($work) = @_; return map { s{.*/default\.ftkit/}{}r } grep { -e } glob "$work/default.ftkit/joint $work/default.ftkit/joint/*" }

# The job ends well, with the result of an undisturbed run, and leaves no directory.
# said => what the log has; result => another end of the result; fails => it ends with an error.
sub saves
{
    my ($name, %o) = @_;
    my ($mode, $said, $end, $fails, $keeps) = map { delete $o{$_} } qw(mode said result fails keeps);
    my $work = delete $o{keep} // sprintf '%s/joint%03d', scratch(), ++$number;
    my $j = job(program => build() . '/mpi/files_joint', keep => $work, n => 4,
        args => [ '-o', "$work/out", $mode // 'posix' ], spares => 0, %o, env => { %memory, %{ $o{env} // {} } });
    return $j if is_skipped();
    my @bad;
    my $result = $j->{result} =~ s/\n//r;
    $right ||= $result;
    push @bad, "exit code $j->{rc}" if $fails ? $j->{rc} == 0 : $j->{rc} != 0;
    push @bad, "another result: '$result', not '$right'" if $result ne ($fails ? '' : $right . ($end // ''));
    my $faults = () = ($o{fault} // '') =~ /:\w+(?:@\d+)?(?:,|$)/g;
    push @bad, "not all of $faults faults came to pass: @{ $j->{faults} }" if @{ $j->{faults} } < $faults;
    $j->{log} =~ $_ or push @bad, "nobody said $_" for ref $said eq 'ARRAY' ? @$said : $said // ();
    my @left = $keeps ? () : left($work);
    push @bad, "left: @left" if @left;
    ok(!@bad, $name) or diag("$name: ", join("\n", @bad), "\n", substr $j->{log}, 0, 5000);
    return $j;
}

# Several faults, each with a spare.
sub dies { return (fault => join(',', map {"$_:kill"} @_), spares => scalar @_) }

basis(sub {
    saves('undisturbed');
    like($right, qr/^30 steps, sum -?\d+$/, '... with a result');
});

# ---- a rank is lost, at each point -----------------------------------------------------

# the points of a set and of a restore, each on rank 0 and on another rank, in memory and in files
my @points = qw(app.begin joint.made app.writing app.wrote joint.closed joint.seen joint.scanned
    joint.take ckpt.voted app.step);
my @cases = pairwise(\@points, [ 0, 2 ], [ 'memory', 'files' ]);
for my $case (@cases) {
    my ($point, $rank, $where) = @$case;
    my $nth = $point eq 'app.step' ? 18 : $point eq 'joint.take' || $point eq 'app.writing' ? 7 : 3;
    saves("lost at $point, rank $rank, sets in $where", dies("$point:$rank:$nth"),
        env => $where eq 'files' ? \%files : {});
}
for my $point (qw(joint.restore joint.made joint.spread app.reading joint.finished)) {
    for my $rank (0, 3) {
        # the directory of a set is made in the same way: the next one is that of the restore
        my $nth = $point eq 'joint.made' ? 4 : 1;
        saves("lost in the restore, at $point, rank $rank", dies('app.step:1:18', "$point:$rank:$nth"));
    }
}
saves('lost while rank 0 removes what an attempt has left', spares => 2,
    fault => 'app.writing:0:7:kill,joint.sweep:0:1:kill@1');
saves('lost before the first set', dies('joint.made:2:1'));
saves('two regions', mode => 'two', dies('app.step:1:18', 'joint.closed:2:7'));
for my $scheme (qw(xor rs)) {
    saves("with $scheme", dies('joint.take:3:5', 'app.step:0:20'), env => { FTKIT_LEVEL_MEMORY_SCHEME => $scheme });
}

# ---- MPI-IO ------------------------------------------------------------------------------

# each rank writes for itself: a loss leaves no rank in a collective call of the file
my %alone = (OMPI_MCA_fcoll => 'individual');
for my $point (qw(app.writing:1:3 app.written:0:3 app.reading:3:1)) {
    my @restore = $point =~ /reading/ ? 'app.step:1:18' : ();
    saves("MPI-IO: lost at $point", mode => 'mpiio', dies(@restore, $point), env => { %alone, %files });
}
# Open MPI may crash in another rank: then the job goes on from the sets that are left
saves('MPI-IO in collective calls: lost while all write', mode => 'mpiio', run => [], spares => 2,
    fault => 'app.writing:1:3:kill', env => \%files);

# ---- the whole job is lost -------------------------------------------------------------

sub whole { my ($point, %o) = @_; return (run => [], fault => "$point:kill", env => { %end, %{ $o{env} // {} } }) }
saves('relaunched from HDF5', whole('app.step:1:18'));
for my $fault (qw(app.writing:2:7:kill app.wrote:1:3:kill joint.closed:0:3:kill joint.take:2:5:kill
    ckpt.voted:3:3:kill h5.manifest.rename:0:3:kill), 'app.step:1:18:kill,joint.spread:0:1:once@*') {
    saves("relaunched: lost at $fault", run => [], fault => $fault, env => \%end);
}
saves('relaunched from slots', whole('app.step:1:18', env => { %memory, FTKIT_LEVEL_MEMORY_PLACE => 'shared' }));

# ---- other numbers of ranks ------------------------------------------------------------

# sets 2, 3 and 4 of a job of $n ranks, which is lost when it has written the files of set 5
my %lost;
sub lost
{
    my ($n) = @_;
    return $lost{$n} //= do {
        my $work = sprintf '%s/lost%02d', scratch(), $n;
        basis(sub { saves("a job of $n ranks is lost", n => $n, keep => $work, fails => 1, keeps => 1,
            fault => 'joint.closed:0:4:kill', env => \%end) });
        $work;
    };
}

sub again
{
    my ($name, $from, $to, %o) = @_;
    my $of = lost($from);
    my $work = sprintf '%s/again%02d', scratch(), ++$number;
    system("rm -rf '$work'; cp -a '$of' '$work' && cd '$work/default.ftkit' && " . (delete $o{change} // 'true')) == 0
        or die "$name: $?\n" if -d $of;
    return saves($name, n => $to, keep => $work, env => \%files, %o);
}
for ([4, 4], [4, 2], [2, 4], [3, 5], [4, 1]) {
    my ($from, $to) = @$_;
    again("$from -> $to", $from, $to,
        said => $from == $to ? qr/restored set 4/ : qr/restored set 4 from files in \S+, of another number of ranks/);
}
again('a rank is lost while it lays out old slices', 4, 3, dies('joint.spread:1:1'));
again('... and behind the next set', 2, 3, dies('app.step:2:12'));
again('a damaged set is not used', 4, 2,
    change => 'printf x | dd of=set-0000000004/part-00000.h5 bs=1 seek=300000 conv=notrunc 2>/dev/null',
    said => [ qr/cannot use set 4: set 4, part 0/, qr/restored set 3 from files/ ]);
saves('a job shrinks', fault => 'app.step:1:18:kill', env => { %files, FTKIT_RECOVER_SUPPLY => 'shrink' });
saves('... and not from memory', fault => 'app.step:1:18:kill', fails => 1, keeps => 1,
    env => { FTKIT_RECOVER_SUPPLY => 'shrink' },
    said => qr/files 'state': set 4 of 4 ranks is in memory alone: files go to another number of ranks from the file system/);

# ---- what is left, and the commands ----------------------------------------------------

{
    my $work = sprintf '%s/command', scratch();
    my $of = lost(4);
    if (!is_skipped() && -d $of) {
        system("cp -a '$of' '$work'") == 0 or die;
        is(scalar(grep {m{joint/}} left($work)), 1, 'a killed job leaves a directory');
        my ($code, $out, $errors) = command('prune', '--keep', 2, '--dry-run', $work);
        like($out, qr/^would remove the joint files of 'default' \(left by a job\)$/m, 'ftkit prune --dry-run sees it');
        is(scalar(left($work)), 2, '... and leaves it');
        ($code, $out) = command('prune', '--keep', 2, '--json', $work);
        like($out, qr/"joint":\s*1\b/, 'ftkit prune counts it') or diag($out);
        is(join(' ', left($work)), '', '... and removes it');
        ($code, $out, $errors) = command('export', '--format', 'files', '-o', "$work/files", $work, 'newest', 'state');
        is("$code $errors", '0 ', 'ftkit export --format files');
        is(-s "$work/files/state.bin", 12 * 40000, '... has the whole file');
        is(slurp("$work/files/sub/step.txt"), "step 15\n", '... and those beside it');
        ($code, $out, $errors) = command('export', '--format', 'files', '-o', "$work/files", $work, 'newest', 'state');
        is("$code $errors", "1 ftkit export: $work/files: File exists\n", '... replaces nothing');
        ($code, $out, $errors) = command('export', '--format', 'files', '--rank', 1, '-o', "$work/of-1", $work, 'newest', 'state');
        is("$code $errors", "2 ftkit export: 'state' has files of all ranks together: leave out --rank\n", '... of no single rank');
        is(join(' ', glob "$work/of-1*"), '', '... which leaves nothing');
        ($code) = command('verify', $work);
        is($code, 0, 'ftkit verify');
    }
}

# ---- errors ----------------------------------------------------------------------------

saves('each error of the calls', mode => 'errors');
saves('files that are of no use', mode => 'fails', result => ', 8 errors, the last -7',
    said => [ qr/rank 1: .*files 'state': the program says that they are of no use/,
        qr/rank 0: .*files 'state': ftkit_files_end of 'state': another rank: /,
        qr/files 'state': a set is due, and there are no files for it/ ]);
saves('files that change', mode => 'changes', result => ', 4 errors, the last -7',
    said => qr/rank \d: .*files 'state': names or lengths below \S+ have changed since ftkit_files_end\(\)/);
saves('a rank that sees other files', fault => 'joint.seen:2:2:EIO', result => ', 8 errors, the last -7',
    said => qr/rank \d: .*files 'state': ftkit_files_end of 'state': the ranks see different files/);
saves('a rank that does not see the directory', fault => 'joint.look:2:2:ENOENT', result => ', 12 errors, the last -7',
    said => qr/rank 2: .*which rank 0 has made: No such file or directory\. Rule: level\.hdf5\.directory is on a file system of all nodes/);
saves('no room for the directory', fault => 'joint.mkdir:0:2:ENOSPC', result => ', 12 errors, the last -7',
    said => qr/rank 0: .*files 'state': making \S+joint: No space left on device/);
saves('no room in the restore', run => [], fault => 'app.step:1:18:kill,slice.write:2:1:ENOSPC@*', env => \%end, fails => 1, keeps => 1,
    said => qr/rank 2: .*files 'state': state\.bin: No space left on device/);
saves('ranks in different calls', mode => 'apart', fails => 1, keeps => 1, run => ['--no-relaunch'],
    said => qr/rank \d: .*files 'state': ftkit_files_(?:begin|end) of 'state': the ranks are in different calls/);
my $needs_step = qr/ftkit_recover: files 'state' have no callbacks, and so need ftkit_step/;
saves('without ftkit_step', mode => 'alone', fails => 1, keeps => 1, said => $needs_step);
saves('... with a spare that replaces a rank', mode => 'alone', fails => 1, keeps => 1, env => \%end, spares => 1,
    said => $needs_step);
for (['level.hdf5', 'level.hdf5 is off', FTKIT_LEVEL_HDF5_ENABLED => 'false'],
    ['the log', 'with the message log \(log.enabled\)', FTKIT_LOG_ENABLED => 'true'],
    ['replicas', '(?:with the message log|replicas)', FTKIT_REPLICAS_COUNT => 2, FTKIT_LOG_ENABLED => 'true'])
{
    my ($name, $words, %env) = @$_;
    saves("not with $name", fails => 1, keeps => 1, env => \%env, said => qr/ftkit_register_joint_files: $words/);
}
done_testing();
