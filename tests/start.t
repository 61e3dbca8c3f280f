#!/usr/bin/perl
# What a job starts from: sets that cannot be used, recover.start, whose sets and slots they
# are, and a directory that cannot be used.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use File::Path qw(make_path remove_tree);
use File::Temp qw(tempdir);
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
my $solver = build() . '/mpi/solver';
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_CHECKPOINT_PERIOD => '3 calls',
    FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_RECOVER_TIMEOUT => '30s');
my $want = reference(2);

# A job of two ranks in a directory, which has what earlier ones left.
sub start
{
    my ($dir, %o) = @_;
    return job(n => 2, spares => 0, keep => $dir, %o, env => { %files, %{ $o{env} // {} } });
}

sub numbers
{
    my ($dir) = @_;
    return join(' ', map { /(\d+)$/ ? $1 + 0 : () } sort glob("$dir/default.ftkit/set-*"));
}

# A directory with the sets of a job that was killed: 4 and 5, at steps 9 and 12.
my $made = scratch() . '/made';
my $j = basis(sub { return start($made, fault => 'app.mid:*:14:kill2') });
is(numbers($made), '4 5', 'a job that is killed leaves two sets') or diag($j->{log});

sub again
{
    my $dir = scratch() . '/again' . ++our $again;
    system('cp', '-a', $made, $dir) == 0 or die "cp\n";
    return $dir;
}

sub set { my ($dir, $n, $file) = @_; return sprintf('%s/default.ftkit/set-%010d/%s', $dir, $n, $file) }

sub cut
{
    for my $part (glob(set($_[0], $_[1], 'part-*.h5'))) {
        truncate($part, 1000) or die "$part: $!\n";
    }
    return;
}

sub whole_job
{
    my ($j, $name, $like) = @_;
    ok($j->{rc} == 0 && $j->{result} eq $want && $j->{log} =~ $like, $name)
        or diag("exit code $j->{rc}, result ", $j->{result} eq $want ? 'right' : 'wrong', "\n$j->{log}");
    return;
}

sub refused
{
    my ($j, $name, $like) = @_;
    ok($j->{rc} != 0 && $j->{result} eq '' && $j->{log} =~ $like, $name) or diag("exit code $j->{rc}\n$j->{log}");
    return;
}

# ---- sets that cannot be used ------------------------------------------------------------------

my $dir = again();
unlink(set($dir, 5, 'manifest'));
$j = start($dir);
whole_job($j, 'no manifest in the newest set: told, the older one is used',
    qr/set 5 in \S+ is passed over: .*manifest: no such file.*restored set 4 from files/s);
ok(-e set($dir, 5, 'part-00000.h5'), '... and the newest is not overwritten');
$dir = again();
cut($dir, 5);
$j = start($dir);
whole_job($j, 'truncated parts in the newest set: told, the older one is used',
    qr/set 5 in \S+ is passed over: .*1000 bytes instead.*restored set 4 from files/s);
ok(-s set($dir, 5, 'part-00000.h5') == 1000, '... and the newest is not overwritten');
sub unusable
{
    my ($how) = @_;
    $dir = again();
    for my $n (4, 5) {
        $how eq 'parts' ? cut($dir, $n) : unlink(set($dir, $n, 'manifest'));
    }
    my $before = `cd $dir/default.ftkit && sha256sum set-*/*`;
    refused(start($dir), "no usable $how in any set: an error that says what to do",
        qr/set 5 cannot be used and no other is complete: .*ftkit verify.*ftkit repair.*--set N.*--fresh/);
    is(`cd $dir/default.ftkit && sha256sum set-*/*`, $before, '... and nothing is touched');
    whole_job(start($dir, env => { FTKIT_RECOVER_START => 'fresh' }),
        '... with recover.start = fresh the job begins anew', qr/fresh start \(recover\.start\): the sets of earlier runs/);
    ok(index(`cd $dir/default.ftkit && sha256sum set-*/*`, $before) == 0, '... beside them') or diag($before);
    return if $how eq 'parts';
    remove_tree(map { set($dir, $_, '') } grep { $_ > 5 } split(' ', numbers($dir)));
    command('repair', $dir);
    whole_job(start($dir), '... ftkit repair mends them', qr/restored set 5 from files/);
    return;
}

for my $how ('manifest', 'parts') {
    chain(sub { unusable($how) });
}

# a job that is killed in its very first set has nothing: it begins anew
sub cut_off # asynchronous: whether the set is
{
    my ($point, $async) = @_;
    $dir = scratch() . "/first-$point-$async";
    my $rank = $point =~ /durable/ ? '*' : 0;
    my %env = (FTKIT_LEVEL_HDF5_ASYNCHRONOUS => $async, FTKIT_LEVEL_HDF5_EVERY => '9 sets');
    $j = start($dir, fault => "$point:$rank:1:kill", env => { %env, FTKIT_RECOVER_SUPPLY => 'end' });
    ok($j->{rc} != 0 && @{ $j->{faults} } > 0, "a job is lost at $point") or diag($j->{log});
    my ($there) = glob("$dir/default.ftkit/set-*/manifest");
    my $like = $there ? qr/restored set \d+ from files/
        : numbers($dir) eq '' ? qr/2 ranks/
        : qr/set \d+ in \S+ is passed over: it was being written.*the job starts from the beginning/s;
    whole_job(start($dir, env => \%env), "the first set is cut off at $point, asynchronous = $async", $like);
    return;
}

my $points = 0;
for my $point ('durable.begin', 'durable.written', 'h5.part.rename', 'h5.manifest.write',
    'h5.manifest.rename', 'h5.manifest.dirsync') {
    $points++;
    for my $i (0, 1) {
        my $async = $i ? 'true' : 'false';
        next if $point =~ /^durable/ ? $i : !selected(2, $i, $points);
        chain(sub { cut_off($point, $async) });
    }
}

# ---- recover.start -----------------------------------------------------------------------------

$dir = again();
$j = start($dir, env => { FTKIT_RECOVER_START => 4 });
whole_job($j, 'recover.start = 4', qr/restored set 4 from files/);
unlike($j->{log}, qr/restored set 5/, '... and no other');
$dir = again();
refused(start($dir, env => { FTKIT_RECOVER_START => 3 }), '... = 3, which is not there',
    qr/recover\.start = 3: there is no such set .*ftkit ls/);
cut($dir, 4);
refused(start($dir, env => { FTKIT_RECOVER_START => 4 }), '... = 4, which is damaged',
    qr/set 4 cannot be used: .*1000 bytes instead/);
chain(sub {
    $dir = again();
    $j = start($dir, env => { FTKIT_RECOVER_START => 'fresh' });
    whole_job($j, 'recover.start = fresh', qr/fresh start/);
    unlike($j->{log}, qr/restored set/, '... restores nothing');
    my @now = split(' ', numbers($dir));
    ok(@now == 4 && "@now[0, 1]" eq '4 5' && $now[2] > 5, '... the sets of the earlier run stay, beside two new ones')
        or diag("@now");
    whole_job(start($dir), '... and the next start goes on from the new ones', qr/restored set $now[3] from files/);
});

# with ftkit run, fresh holds for the run and not for each attempt
$dir = again();
$j = start($dir, run => [], env => { FTKIT_RECOVER_START => 'fresh' }, fault => 'app.mid:*:14:kill2');
whole_job($j, 'a relaunch of a fresh run goes on from what this run has written',
    qr/fresh start.*relaunching.*restored set 1\d from files/s);
$dir = again();
$j = start($dir, run => [], env => { FTKIT_RECOVER_START => 'fresh' }, fault => 'durable.begin:*:1:kill2');
whole_job($j, '... and if that is nothing, from the beginning', qr/fresh start.*relaunching.*fresh start/s);
unlike($j->{log}, qr/restored set/, '... not from an earlier run');

# in a repair nothing of an earlier run is restored, either
$dir = again();
$j = start($dir, spares => 2, env => { FTKIT_RECOVER_START => 'fresh', FTKIT_LEVEL_HDF5_EVERY => '100 sets',
    FTKIT_LEVEL_MEMORY_SCHEME => 'own' }, fault => 'app.mid:1:6:kill');
unlike($j->{log}, qr/restored set 5/, 'a repair of a fresh run takes no set of an earlier run');

# ---- whose sets --------------------------------------------------------------------------------

my $cg = scratch() . '/bin/cg';
make_path(scratch() . '/bin');
system('cp', $solver, $cg) == 0 or die "cp\n";
$dir = again();
refused(start($dir, program => $cg), 'sets of another program are refused',
    qr/set 5 was written by 'solver', this is 'cg': set context\.program = solver if/);
is(numbers($dir), '4 5', '... and stay');
whole_job(start($dir, program => $cg, env => { FTKIT_CONTEXT_PROGRAM => 'solver' }),
    '... unless it is the same by context.program', qr/restored set \d+ from files/);
$dir = again();
whole_job(start($dir, program => $cg, env => { FTKIT_RECOVER_START => 'fresh' }),
    '... or a fresh start is asked for', qr/fresh start/);
my ($code, $out);
($code, $out) = command('show', $dir);
like($out, qr/^program +cg$/m, 'ftkit show tells the program');

# ---- whose slots -------------------------------------------------------------------------------

sub slots_of_others
{
    my ($scheme) = @_;
    my $slots = scratch() . "/slots-$scheme";
    make_path($slots, map {"$slots.$_"} qw(a b));
    my %slots = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LEVEL_MEMORY_PLACE => 'file',
        FTKIT_LEVEL_MEMORY_SCHEME => $scheme, FTKIT_LEVEL_MEMORY_DIRECTORY => $slots);
    start("$slots.a", env => \%slots, fault => 'app.mid:*:14:kill2');
    my @left = grep { slurp($_) =~ /^FTKSLOT\n/ } glob("$slots/ftkit-slot-*");
    ok(@left > 0, "$scheme: a job leaves slots");
    $j = start("$slots.b", env => \%slots);
    whole_job($j, '... a job in another directory does not take them, and tells',
        qr/\d+ slots in \S+ are of other jobs and left alone: one is of 'solver' in \Q$slots.a\E /);
    unlike($j->{log}, qr/restored set/, '... nothing is restored');
    ok(!(grep { !-e } @left), '... they stay');
    $j = start("$slots.a", program => $cg, env => \%slots);
    whole_job($j, '... nor another program',
        qr/\d+ slots in \S+ are of other jobs and left alone: one is of 'solver' in .*\(this is 'cg' in/);
    ok(!(grep { !-e } @left), '... they stay');
    $j = start("$slots.a", env => { %slots, FTKIT_RECOVER_START => 'fresh' }, fault => 'ckpt.begin:*:1:kill2');
    unlike($j->{log}, qr/restored set/, '... nor a fresh start');
    # of a copy that lies beside its original one is enough
    ok(!(grep { !-e } @left), '... which has them until its first commit') if $scheme eq 'own';
    symlink("$slots.a", "$slots.link") or die "$slots.link: $!\n";
    whole_job(start("$slots.link", env => \%slots), '... but their own job does, also through a link',
        qr/restored set \d+ from memory that outlived the job/);
    return;
}

for my $scheme (qw(own buddy)) {
    chain(sub { slots_of_others($scheme) });
}

# ---- the number of ranks -----------------------------------------------------------------------

$j = start(again(), n => 3, run => ['--no-relaunch', '--verbose']);
like($j->{log}, qr/^ftkit run: job: hopeless region '\w+' is per rank.*start with 2 ranks/m, 'ftkit run is told');
refused($j, 'per-rank regions of another number of ranks: told, and hopeless',
    qr/region '\w+' is per rank: it cannot be restored on 3 ranks from 2 .*start with 2 ranks/);

# the record of what is there, as a file where the sets should be
$dir = scratch() . '/taken';
make_path($dir);
write_file("$dir/default.ftkit", 'a file');
$j = start($dir, run => []);
refused($j, 'a file has the name of the sets',
    qr/cannot be opened: sets cannot be written to level\.hdf5\.directory = \S+\/default\.ftkit: Not a directory; only a directory will do/);
is(scalar(() = $j->{log} =~ /cannot be opened/g), 1, '... told once');
unlike($j->{log}, qr/relaunching/, '... and hopeless');

# ---- the directory -----------------------------------------------------------------------------

my $away = scratch() . '/away';
for my $case ([$away, 'No such file'], ["$made/out", 'Not a directory']) {
    my ($path, $why) = @$case;
    write_file("$made/out", 'a file') if !-e "$made/out";
    $j = start(scratch() . '/nodir', run => [], env => { FTKIT_LEVEL_HDF5_DIRECTORY => $path });
    refused($j, "a directory that cannot be used: $why",
        qr/^solver: open: invalid configuration: .*FTKIT_LEVEL_HDF5_DIRECTORY: .*missing path '\Q$path\E': $why.*; make the directory or name another/m);
    unlike($j->{log}, qr/relaunching/, '... and hopeless');
}
SKIP: {
    my $ro = scratch() . '/ro';
    skip('needs name spaces', 2) if !nodes_possible();
    make_path($ro);
    my $wrap = scratch() . '/readonly';
    write_file($wrap, "#!/bin/sh\nexec unshare -m sh -c 'mount -t tmpfs -o ro none $ro && cd $ro && exec $solver'\n");
    chmod(0755, $wrap);
    $j = start(scratch() . '/rojob', program => $wrap, args => [], env => { FTKIT_LEVEL_HDF5_DIRECTORY => '.' });
    refused($j, 'a working directory that is read-only',
        qr/level\.hdf5\.directory = \. in \Q$ro\E: Read-only file system/);
    is(scalar(() = $j->{log} =~ /cannot be opened/g), 1, '... told once');
}

# ---- two users of one machine ------------------------------------------------------------------

# What a user has left, or uses: another one with the same context and directory is refused by a line
# with both, and takes no slot, although root could read it.
SKIP: {
    skip('needs root, to be two users', 10) if $> != 0;
    my ($first, $second) = (65_534, 65_533); # the second has no account
    my $all = tempdir('ftkit-test-XXXXXXXX', DIR => '/dev/shm', CLEANUP => 1);
    my ($sets, $slots) = ("$all/sets", "$all/slots");
    make_path($sets, $slots, "$all/tmp");
    chmod(01777, $all, $sets, $slots, "$all/tmp");
    my $can = "setpriv --reuid=$second --regid=$second --clear-groups -- ls '$solver'";
    skip('other users cannot read the directory of the build', 10) if system("$can >/dev/null 2>&1") != 0;
    my $user = sub {
        my ($as, %o) = @_;
        return start("$all/job" . ++our $jobs, as => $as, %o, env => { TMPDIR => "$all/tmp", HOME => "$all/tmp",
                FTKIT_LEVEL_HDF5_DIRECTORY => $sets, FTKIT_LEVEL_MEMORY_PLACE => 'file',
                FTKIT_LEVEL_MEMORY_DIRECTORY => $slots, %{ $o{env} // {} } });
    };
    my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');
    my $outlived = qr/restored set \d+ from memory that outlived the job/;
    my $line = qr{sets cannot be written to level\.hdf5\.directory = \Q$sets\E/default\.ftkit: Permission denied; the directory belongs to user $first, and this process belongs to user $second};
    chain(sub {
        my $j = $user->($first, fault => 'app.step:0:14:hold,app.mid:*:14:kill2', while => sub {
            my ($work) = @_;
            ok(await_held($work) && glob("$sets/default.ftkit/set-*/manifest"), 'a user has a set');
            refused($user->($second, run => []), '... and another one is refused', $line);
            let_go($work);
        }, args => ['-o', "$all/out"]);
        isnt($j->{rc}, 0, '... whose job goes on, and is killed at last');
        my @left = map { [ $_, (stat)[4, 7, 9] ] } glob("$slots/ftkit-slot-*");
        ok(@left > 0 && !grep({ $_->[1] != $first } @left), '... and leaves slots') or diag($j->{log});
        refused($user->($second), 'the sets that a user has left: another one is refused', $line);
        for my $as ($second, 0) {
            $j = $user->($as, env => \%memory);
            ok($j->{rc} == 0 && $j->{result} eq $want && $j->{log} !~ $outlived,
                "user $as begins anew, without the slots of user $first") or diag("$j->{rc}\n$j->{log}");
            is_deeply([ map { [ $_, (stat)[4, 7, 9] ] } grep {-e} map { $_->[0] } @left ], \@left, '... which stay as they are');
        }
        $j = $user->($first, env => \%memory);
        ok($j->{rc} == 0 && $j->{result} eq $want && $j->{log} =~ $outlived, "user $first goes on from them")
            or diag("$j->{rc}\n$j->{log}");
    });
}

# ---- events ------------------------------------------------------------------------------------

my $events = scratch() . '/events';
$j = start(scratch() . '/events-job', env => { FTKIT_REPORT_EVENTS => $events });
unlike(event_texts($events), qr/no record that this job uses/, 'a first start has no record to miss');

done_testing();
