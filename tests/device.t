#!/usr/bin/perl
# Regions in memory of a device of CUDA or HIP, by drivers without a device (tests/lib/fakecuda.c, tests/lib/fakehip.c).
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
my $build = build();
$ENV{LD_LIBRARY_PATH} = join ':', "$build/fakecuda", "$build/fakehip", grep {defined} $ENV{LD_LIBRARY_PATH};
my %device = (n => 4, program => "$build/mpi/device");

sub device # a job that compares each number after each restore
{
    my ($name, %o) = @_;
    my $steps = $o{steps} // 12;
    my $j = job(%device, args => [$steps, @{ $o{words} // [] }], %o,
        env => { FTKIT_CHECKPOINT_PERIOD => '2 calls', FTKIT_LEVEL_HDF5_ENABLED => 'false', %{ $o{env} // {} } });
    my $want = $o{ranks} // 4;
    ok($j->{rc} == 0 && $j->{log} =~ /^device: $steps steps are right, $want ranks$/m
            && @{ $j->{faults} } == ($o{faults} // 0), $name)
        or diag("rc $j->{rc}, faults @{$j->{faults}}\n", substr($j->{log}, 0, 4000));
    like($j->{log}, $o{like}, '... as its lines say') if $o{like};
    return $j;
}

# ---- sets and restores of each kind ----------------------------------------------------------

my %lost = (fault => 'app.mid:1:7:kill', faults => 1);
device("a rank is lost: $_->[0], $_->[1], incremental = $_->[2]", %lost, like => qr/rank 1 from the (copy|parity)/,
    env => { FTKIT_LEVEL_MEMORY_SCHEME => $_->[0], FTKIT_LEVEL_MEMORY_PLACE => $_->[1],
        FTKIT_LEVEL_MEMORY_INCREMENTAL => $_->[2] })
    for pairwise([qw(buddy xor rs)], [qw(memory shared file)], [qw(off on)]);
device("... of memory of a $_", %lost, words => [$_]) for qw(pool context);
device('... while a child process lives', %lost, words => ['fork']);
device('... of a program that loads no driver', %lost, words => ['none']);
device('... of a program that has one such region, and registers it first', %lost, words => ['alone']);
device("the message log: the team of a rank rolls back, lines $_", %lost, like => qr/rank 1 from the copy/,
    env => { FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAMS => 'rank', FTKIT_CHECKPOINT_LINE => $_ })
    for qw(together apart);
device('a replica is lost', n => 6, spares => 2, ranks => 3, %lost,
    env => { FTKIT_LOG_ENABLED => 'true', FTKIT_REPLICAS_COUNT => 2 });
device("the job is relaunched, from $_->[0]", run => [], spares => 0, fault => 'app.mid:*:7:kill', faults => 4,
    like => qr/restored set \d+ from $_->[0]/,
    env => { FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_LEVEL_HDF5_EVERY => '1 sets', %{ $_->[1] } })
    for ['files', { FTKIT_LEVEL_HDF5_ENABLED => 'true' }], ['memory', { FTKIT_LEVEL_MEMORY_PLACE => 'shared' }];
device('the ranks become fewer', spares => 0, words => ['shrink'], ranks => 3, fault => 'app.mid:1:7:kill', faults => 1,
    env => { FTKIT_RECOVER_SUPPLY => 'shrink' });

# ---- the example, with the numbers of an undisturbed run ------------------------------------------

{
    my @heat = (program => "$build/flt-examples/heat_gpu", args => ['-n', 96, '-r', 24, '-s', 60],
        env => { FTKIT_CHECKPOINT_PERIOD => '7 calls', FTKIT_LEVEL_HDF5_ENABLED => 'false' });
    my ($sum) = job(n => 4, @heat)->{log} =~ /^heat_gpu: step 60, sum ([0-9a-f]{16})$/m;
    ok($sum, 'heat_gpu ends');
    for my $fault ('ckpt.begin:2:4:kill', 'ckpt.sealed:0:6:kill') {
        my $j = job(n => 4, @heat, fault => $fault);
        ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $j->{log} =~ /^heat_gpu: step 60, sum $sum$/m,
            "... with the same sum when a rank is lost: $fault")
            or diag("sum $sum, faults @{$j->{faults}}\n", substr($j->{log}, 0, 3000));
    }
}

# a bit flips in memory of a device: the replicas find it, and go back
{
    my %env = (FTKIT_CHECKPOINT_PERIOD => '7 calls', FTKIT_LEVEL_HDF5_ENABLED => 'false');
    my @heat = (program => "$build/flt-examples/heat_gpu", args => ['-n', 96, '-r', 24, '-s', 60]);
    my ($sum) = job(n => 2, spares => 0, @heat, env => \%env)->{log} =~ /^heat_gpu: step 60, sum ([0-9a-f]{16})$/m;
    # the job stands still in its fourth set until `ftkit run` has asked for the bit
    my $j = job(n => 2, spares => 0, @heat, fault => 'ckpt.begin:0:4:hold', env => { %env, FTKIT_LOG_TEAMS => 'rank' },
        while => sub {
            my ($work) = @_;
            await_held($work);
            await_flip($work);
            let_go($work);
        },
        run => ['--no-relaunch', '--replicas', 2, '--seed', 143617733, # a byte of a row that is no ghost row
            '--flip', 'rank 1 at call 10 in u']);
    ok($j->{rc} == 0 && defined $sum && $j->{log} =~ /^heat_gpu: step 60, sum $sum$/m, 'a bit flips in a region') or diag($j->{log});
    like($j->{log}, qr/flipped bit \d of byte \d+ of region 'u'/, '... which ftkit run has done');
    like($j->{log}, qr/replicas .* differ/, '... and the replicas have found');
}

# ---- pinned memory --------------------------------------------------------------------------------

for my $place (qw(memory shared)) {
    local $ENV{FAKECUDA_LOG} = scratch() . "/pins-$place";
    device("segments are pinned: place = $place", n => 3, ranks => 3, spares => 0, steps => 200, # 100 sets
        env => { FTKIT_LEVEL_MEMORY_PLACE => $place });
    my @pins = map { [/(\d+)/g] } is_skipped() ? () : split /\n/, slurp($ENV{FAKECUDA_LOG});
    ok(@pins == 3 && !(grep { $_->[0] < 2 || $_->[0] != $_->[1] } @pins),
        '... by each process, as often as they are released')
        or diag(join "\n", map {"@$_"} @pins);
}
{
    my $j = device('segments cannot be pinned', fault => 'memory.pin:1:*:EIO,app.mid:1:7:kill', faults => 5);
    my @said = $j->{log} =~ /checkpoint memory cannot be pinned for device memory/g;
    is(scalar @said, 1, '... which one line says');
}

# ---- checksums by the device -------------------------------------------------------------------------

# kernels that each process has run for them
sub sums
{
    return map { /(\d+) sums/ ? $1 : () } is_skipped() ? () : split /\n/, slurp($ENV{FAKECUDA_LOG});
}
for my $case (['auto', 0, 'by the device'], ['host', 0, 'by the host'], ['auto', 1, 'by the host: the kernel is not loaded'],
    ['auto', 2, 'by the host: the kernel computes others'])
{
    my ($value, $refused, $who) = @$case;
    local $ENV{FAKECUDA_LOG} = scratch() . "/sums-$value-$refused";
    local $ENV{FAKECUDA_FAIL} = 'cuModuleLoadData:1:2:218' if $refused == 1;
    local $ENV{FAKECUDA_SUMS} = 'wrong:1:1' if $refused == 2;
    my $j = device("checksums $who", n => 3, ranks => 3, spares => 0, env => { FTKIT_DEVICE_SUMS => $value });
    my @sums = sort { $a <=> $b } sums();
    my $by_host = $value eq 'host' ? 3 : $refused ? 1 : 0;
    # the first one is a test; a set has one, of the region that has whole blocks
    ok(@sums == 3 && !(grep { $_ > 1 } @sums[0 .. $by_host - 1]) && !(grep { $_ < 5 } @sums[$by_host .. 2]), '... as the driver counts')
        or diag("@sums");
    my @said = $j->{log} =~ /the host computes checksums of memory of a device/g;
    is(scalar @said, $refused ? 1 : 0, '... and a line says so once');
}
device('... a rank is lost, and its kernel is not loaded', %lost);
{
    local $ENV{FAKECUDA_FAIL} = 'cuModuleLoadData:1:2:218';
    device('... a rank whose kernel is not loaded is lost', %lost, like => qr/rank 1 from the copy/);
}
# what is wrong is found before anything is restored from it
for my $case (['FAKECUDA_SUMS', 'wrong:1:2', 'a checksum is wrong after all'],
    ['FAKECUDA_FLIP', '1:2:262144', 'a bit flips in a copy from the device'])
{
    my ($variable, $value, $what) = @$case;
    local $ENV{$variable} = $value;
    my $j = job(%device, args => [12], spares => 1, fault => 'app.mid:1:3:kill',
        env => { FTKIT_CHECKPOINT_PERIOD => '2 calls', FTKIT_LEVEL_HDF5_ENABLED => 'false' });
    like($j->{log}, qr/copy of rank 1: copy: checksum of block \d+ of \d+ differs \(region 'x'\)/, "$what: a restore finds it")
        or diag($j->{log});
    unlike($j->{log}, qr/step \d+: \w+, item/, '... and the program never gets wrong numbers');
}

# ---- snapshots on the device ---------------------------------------------------------------------------

# Kernels of the program change the regions behind the cut, before the driver copies to the host.
my %snapshot = (FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAMS => 'rank', FTKIT_CHECKPOINT_LINE => 'apart',
    FTKIT_DEVICE_SNAPSHOT => 'auto');
device("snapshots on the device: a rank is lost, @{$_->{words}}", steps => 60, fault => 'app.mid:1:45:kill', faults => 1, %$_,
    env => { %snapshot, %{ $_->{env} // {} } }, like => qr/ set (?!1:)\d+: rank 1 from the (copy|parity)/m)
    for { words => [] }, { words => ['pool'] }, { words => ['context'] }, { words => ['streams'] },
    { words => ['fork'], env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor', FTKIT_LEVEL_MEMORY_PLACE => 'shared', FTKIT_DEVICE_SUMS => 'host' } };
# copies are under way in these points
device("... at $_", steps => 60, fault => "$_:kill", faults => 1, env => \%snapshot)
    for 'apart.packed:1:2', 'apart.packed:0:3', 'apart.late:3:2', 'apart.tail:2:2';
for my $case (['and its memory is given back', faults => 0],
    ['also if the set is given up', fault => 'apart.packed:1:2:EIO', faults => 1, words => ['goes']])
{
    my ($name, %o) = @$case;
    local $ENV{FAKECUDA_LOG} = scratch() . "/snapshots-$o{faults}";
    device("... $name", n => 3, ranks => 3, spares => 0, steps => 40, env => \%snapshot, %o);
    my @counts = map { [/(\d+)/g] } is_skipped() ? () : split /\n/, slurp($ENV{FAKECUDA_LOG});
    # the first set is no set of a line apart; each other one has four regions
    ok(@counts == 3 && !(grep { $_->[3] < 4 * 2 || $_->[3] != $_->[4] } @counts), '... as the driver counts')
        or diag(join "\n", map {"@$_"} @counts);
}
{
    local $ENV{FAKECUDA_LOG} = scratch() . '/no-snapshots';
    my $j = device('... without room on the device', n => 3, ranks => 3, spares => 0, steps => 16, fault => 'snapshot.room:1:*:EIO',
        faults => 0, env => { %snapshot, FTKIT_FAULT_LOG => '/dev/null' });
    my @said = $j->{log} =~ /has no room for a snapshot of \d+ bytes/g;
    is(scalar @said, 1, '... which one line says');
    my @counts = map { [/(\d+)/g] } is_skipped() ? () : split /\n/, slurp($ENV{FAKECUDA_LOG});
    is(scalar(grep { $_->[3] == 0 } @counts), 1, '... and the other ranks have theirs');
}
device('... and the files: the job is relaunched', run => [], spares => 0, steps => 16, fault => 'app.mid:*:12:kill', faults => 4,
    like => qr/restored set \d+ from files/,
    env => { %snapshot, FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 sets' });
{
    my $j = device('... a kernel has an error: the process is replaced', words => ['bad'], steps => 16, env => \%snapshot);
    like($j->{log}, qr/rank 1 ends, and is replaced .*CUDA error 700/, '... as it says') or diag($j->{log});
}

# ---- the memory of the dead -----------------------------------------------------------------------

# exits.ending lets processes that live count as ending: the replacement waits for them
for my $case ([[], 1], [['none'], 0]) {
    my ($words, $waits) = @$case;
    my $j = job(%device, args => [12, @$words], fault => 'app.mid:1:7:kill,exits.ending:*:*:EIO@*',
        env => { FTKIT_CHECKPOINT_PERIOD => '2 calls', FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_RECOVER_TIMEOUT => '3s' });
    like($j->{log}, qr/^device: 12 steps are right, 4 ranks$/m, 'a replacement and memory of the dead: ' . ($waits ? 'of a device' : 'none'))
        or diag($j->{log});
    my $says = qr/process \d+ has died, and has not given its memory of a device back for [0-3]\.\d s: going on/;
    $waits ? like($j->{log}, $says, '... as it says') : unlike($j->{log}, $says, '... and does not');
}

# ---- an error in a kernel ends the context -----------------------------------------------------

for my $case (['bad', '2 calls', 'in a set'], ['quiet', '100 calls', 'in a call that writes no set']) {
    my ($word, $period, $when) = @$case;
    my $j = device("a kernel has an error: the process is replaced, $when", words => [$word],
        env => { FTKIT_CHECKPOINT_PERIOD => $period });
    like($j->{log}, qr/rank 1 ends, and is replaced .*CUDA error 700 \(CUDA_ERROR_ILLEGAL_ADDRESS\): the context/,
        '... as it says') or diag($j->{log});
    like($j->{log}, qr/rank 1 from the copy/, '... and its rank gets its regions');
}

# A job that ends with an error: the detail, and no signal.
sub refused
{
    my ($name, $like, %o) = @_;
    my $j = job(%device, spares => 0, args => [12, @{ $o{words} }],
        env => { FTKIT_CHECKPOINT_PERIOD => '2 calls', FTKIT_LEVEL_HDF5_ENABLED => 'false', %{ $o{env} // {} } });
    isnt($j->{rc}, 0, $name);
    like($j->{log}, $like, '... as it says') or diag(substr($j->{log}, 0, 4000));
    unlike($j->{log}, qr/signal|Segmentation/i, '... and no process dies of a signal');
    return $j;
}

# the set before is right: a job that is started again goes on from it
{
    my $j = device('... and there is no spare: the job is relaunched', words => ['bad'], run => [], spares => 0,
        like => qr/restored set \d+ from files/,
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_LEVEL_HDF5_EVERY => '1 sets',
            FTKIT_RECOVER_SUPPLY => 'spare' });
    like($j->{log}, qr/rank 1 ends, and is replaced .*CUDA error 700/, '... after the error') or diag($j->{log});
}
refused('device.fault = error', qr/rank 1: storage I\/O error: .*CUDA error 700 .*context of the device has ended/,
    words => ['bad'], env => { FTKIT_DEVICE_FAULT => 'error' });

# ---- mistakes of the program --------------------------------------------------------------------

refused('memory is freed before a set',
    qr/region 'x': its address was device memory when it was registered, and is host memory now/, words => ['free']);
refused('a region is longer than its memory',
    qr/region 'x': its first byte is device memory and its last one, \d+ bytes behind, is host memory/,
    words => ['short']);
{
    my $j = device('a graph is captured: this set is not written', words => ['capture'], spares => 0);
    like($j->{log}, qr/rank 1: call out of order: a graph is being captured: end .* call; the capture ends with 0$/m,
        '... and the capture goes on') or diag($j->{log});
    $j = device('... on a stream that does not wait for the stream NULL', words => ['hidden'], spares => 0);
    like($j->{log}, qr/is being captured: .*\(this capture is broken now\); the capture ends with 901$/m,
        '... where the wait breaks it') or diag($j->{log});
}
# ---- streams that the program names ---------------------------------------------------------------

device("the program names its streams: a rank is lost, @$_", %lost, words => ['streams', @$_], like => qr/rank 1 from the copy/)
    for [], ['pool'], ['hip'];
for my $case (['capture'], ['hidden'], ['hidden', 'hip']) { # the first set pins, and loads the kernel
    local $ENV{FAKECUDA_LOG} = scratch() . "/streams-@$case";
    my $j = device("... a graph is captured on another stream: this set is written, @$case", words => ['streams', 'first', @$case],
        n => 3, ranks => 3, spares => 0, env => { FTKIT_CHECKPOINT_PERIOD => '5 calls' },
        like => qr/^device: rank 1: success: ; the capture ends with 0\ndevice: rank 1: sets 0 to 1$/m);
    my @counts = map { [/(\d+)/g] } is_skipped() ? () : split /\n/, slurp($ENV{FAKECUDA_LOG});
    my $sums = "@$case" =~ /hip/ ? 0 : 4; # a test, and three sets
    ok(@counts == 3 && !(grep { $_->[0] < 2 || $_->[0] != $_->[1] || $_->[2] != $sums } @counts), '... with all that the first set does')
        or diag(join "\n", map {"@$_"} @counts);
}
device('... a graph is captured on this stream: this set is not written', words => ['streams', 'own'], spares => 0,
    like => qr/rank 1: call out of order: a graph is being captured: end the capture on stream 0x\w+ before the call; the capture ends with 0$/m);
refused('... a stream that there is not', qr/device: rank 1: 0x\w+ is no stream: CUDA error 400$/m,
    words => ['streams', 'wrong']);

{
    my $j = job(%device, fault => 'app.mid:1:7:kill', args => [12, 'grow'],
        env => { FTKIT_CHECKPOINT_PERIOD => '4 calls', FTKIT_LEVEL_HDF5_ENABLED => 'false' });
    isnt($j->{rc}, 0, 'an array has grown since the set, and nobody can allocate');
    like($j->{log}, qr/region 'grown' has \d+ items and is to have \d+: for device memory ftkit_register_growing\(\) needs/,
        '... as it says') or diag($j->{log});
}

# ---- errors of calls ----------------------------------------------------------------------------

# the first calls are for the checksum of the state
for my $case (['cuMemcpyDtoHAsync_v2', 'a copy from the device'], ['cuCtxSynchronize', 'the work of the program']) {
    my ($call, $what) = @$case;
    local $ENV{FAKECUDA_FAIL} = "$call:1:6:999";
    refused("$call fails once", qr/rank 1: storage I\/O error: \Q$what\E: CUDA error 999 \(unknown error\)$/m, words => [],
        env => { FTKIT_DEVICE_SUMS => 'host' });
}
{
    local $ENV{FAKECUDA_FAIL} = 'cuMemcpyHtoDAsync_v2:4:1:719:sticky'; # the first spare, in its restore
    my $j = device('a spare has an error in its restore: another one takes over', %lost, spares => 2);
    like($j->{log}, qr/rank 1 ends, and is replaced .*CUDA error 719 \(CUDA_ERROR_LAUNCH_FAILED\)/, '... as it says')
        or diag($j->{log});
}

# ---- messages, with the log -----------------------------------------------------------------------

sub staged # a job that compares each message, and the state after each restore
{
    my ($name, %o) = @_;
    my $j = job(n => 4, program => "$build/mpi/staged", args => [8, @{ $o{words} // [] }], %o,
        env => { FTKIT_CHECKPOINT_PERIOD => '2 calls', FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LOG_ENABLED => 'true',
            %{ $o{env} // {} } });
    ok($j->{rc} == 0 && $j->{log} =~ /^staged: 8 steps are right, 4 ranks$/m && @{ $j->{faults} } == ($o{faults} // 1), $name)
        or diag("rc $j->{rc}, faults @{$j->{faults}}\n", substr($j->{log}, 0, 4000));
    return $j;
}

staged("messages from and to the device, teams = $_->[0], lines $_->[1]", fault => 'app.mid:1:5:kill',
    env => { FTKIT_LOG_TEAMS => $_->[0], FTKIT_CHECKPOINT_LINE => $_->[1], FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 })
    for ['rank', 'together'], ['rank', 'apart'], ['domain', 'together'], ['all', 'together'];
staged("a receive into a region on the device is under way at each set, teams = $_->[0], lines $_->[1]", words => ['posted'],
    fault => 'app.mid:1:5:kill', env => { FTKIT_LOG_TEAMS => $_->[0], FTKIT_CHECKPOINT_LINE => $_->[1] })
    for ['rank', 'together'], ['rank', 'apart'], ['all', 'together'];
staged('... and replicas', n => 8, spares => 1, fault => 'app.mid:1:5:kill', env => { FTKIT_REPLICAS_COUNT => 2 });
{
    my $j = staged('a kernel has an error, which a message meets: the process is replaced', words => ['bad'], faults => 0,
        env => { FTKIT_LOG_TEAMS => 'rank' });
    like($j->{log}, qr/rank 1 ends, and is replaced .*CUDA error 700/, '... as it says') or diag($j->{log});
}
staged('... while snapshots are copied', fault => 'app.mid:1:5:kill', env => \%snapshot);
for my $case (['window', 'MPI_Win_create with memory of a device'], ['origin', 'invalid buffer pointer'],
    ['swap', 'invalid buffer pointer'])
{
    my $j = job(n => 4, program => "$build/mpi/staged", args => [8, $case->[0]],
        env => { FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAMS => 'all', FTKIT_LEVEL_HDF5_ENABLED => 'false' });
    isnt($j->{rc}, 0, "one-sided: $case->[0]");
    like($j->{log}, qr/$case->[1]/i, '... as it says') or diag(substr($j->{log}, 0, 3000));
    unlike($j->{log}, qr/Segmentation|signal 11/, '... without a crash');
}

# ---- devices of AMD ---------------------------------------------------------------------------------

device("HIP $_->[0]: a rank is lost, memory of $_->[1]", %lost, words => ['hip', @$_[2 .. $#$_]], like => qr/rank 1 from the copy/,
    env => { FAKEHIP_VERSION => $_->[0] })
    for [5, 'the first device'], [6, 'the second device', 'context'], [7, 'a pool', 'pool'];
{
    local $ENV{FAKECUDA_LOG} = scratch() . '/pins-hip';
    device('... segments are pinned', n => 3, ranks => 3, spares => 0, words => ['hip']);
    my @pins = map { [/(\d+)/g] } is_skipped() ? () : split /\n/, slurp($ENV{FAKECUDA_LOG});
    ok(@pins == 3 && !(grep { $_->[0] < 2 || $_->[0] != $_->[1] || $_->[2] != 0 } @pins),
        '... by each process, as often as they are released, and the host computes the checksums')
        or diag(join "\n", map {"@$_"} @pins);
}
for my $case (['bad', '2 calls', 'in a set'], ['quiet', '100 calls', 'in a call that writes no set']) {
    my ($word, $period, $when) = @$case;
    my $j = device("HIP: a kernel has an error: the process is replaced, $when", words => ['hip', $word],
        like => qr/rank 1 from the copy/, env => { FTKIT_CHECKPOINT_PERIOD => $period });
    like($j->{log}, qr/rank 1 ends, and is replaced .*HIP error 700 \(hipErrorIllegalAddress\): the context/, '... as it says')
        or diag($j->{log});
}
refused('HIP: memory is freed before a set',
    qr/region 'x': its address was device memory when it was registered, and is host memory now/, words => ['hip', 'free'],
    env => { FAKEHIP_VERSION => $_ })
    for 5, 6;
for my $case (['capture', qr/a graph is being captured: end .* call; the capture ends with 0$/m],
    ['hidden', qr/is being captured: .*\(this capture is broken now\); the capture ends with 901$/m])
{
    my ($word, $says) = @$case;
    device("HIP: a graph is captured: $word", words => ['hip', $word], spares => 0, like => $says);
}

done_testing();
