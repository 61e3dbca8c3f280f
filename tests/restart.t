#!/usr/bin/perl
# The job as a whole is lost and started again; errors of the file system.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use File::Basename qw(basename);
use File::Path qw(remove_tree);
use Test::More;
use Time::HiRes qw(time);

ulfm_only();
asleep_in_waits();
# while the program waits, so that it is known which set is there; else: flush.t
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_CHECKPOINT_PERIOD => '3 calls',
    FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_LEVEL_HDF5_WRITERS => 2);
my $want = reference(4);

# a chain of jobs, each killed as a whole, each starting from the newest complete set
my $dir = scratch() . '/chain';
my $last = 0;
my $steady = 1;
my $chain = all_cases() ? 10 : 4;
for my $i (1 .. $chain) {
    # killed in the program, or while a set is half written
    my $fault = $i % 2 ? 'app.mid:*:5:kill4' : 'durable.written:*:2:kill';
    my $j = job(keep => $dir, env => \%files, fault => $fault);
    my ($set) = $j->{log} =~ /restored set (\d+) from files/;
    $steady = 0 if $i > 1 && (!$set || $set < $last);
    $last = $set // 0;
    diag("job $i: ", $j->{log}) if $i > 1 && !$set;
}
ok($steady, "$chain jobs killed in a chain: the set they start from never goes back ($last)");
my $j = job(keep => $dir, env => \%files);
ok($j->{rc} == 0 && $j->{result} eq $want, '... and the next one finishes, bitwise')
    or diag($j->{log});
remove_tree($dir);

survives('all ranks killed: ftkit run relaunches', env => \%files, run => [], faults => 4,
    fault => 'app.mid:*:14:kill4', like => qr/restored set 5 from files/);
survives('... from compressed files', run => [], faults => 4,
    env => { %files, FTKIT_LEVEL_HDF5_COMPRESS => 'deflate' },
    fault => 'app.mid:*:14:kill4', like => qr/restored set 5 from files/);
# writers = 0: one of a small set, four from 1 MiB of a rank on, the largest (-g: rank 3 has more)
my @mebibytes = (solver => ['-n', '200000', '-s', '20']);
for my $of ([0, '0'], [0, '0 1 2 3', @mebibytes], [0, '0 1 2 3', solver => ['-g', '5']], [1, '0', @mebibytes], [2, '0 2'], [3, '0 2 3'], [9, '0 1 2 3']) {
    my ($writers, $wrote, @solver) = @$of;
    mkdir(my $dir = scratch() . "/writers-$writers");
    survives("... from files of writers = $writers" . (@solver ? ', large' : ''), run => [], faults => 4, @solver,
        env => { %files, FTKIT_LEVEL_HDF5_WRITERS => $writers, FTKIT_LEVEL_HDF5_KEEP => 20,
            FTKIT_LEVEL_HDF5_DIRECTORY => $dir },
        fault => 'app.mid:*:14:kill4', like => qr/restored set 5 from files/);
    my ($set) = glob("$dir/default.ftkit/set-0000000005");
    is(join(' ', map { /part-0*(\d+)\.h5$/ ? $1 : () } sort(glob("$set/*"))), $wrote,
        '... these ranks have written');
    remove_tree($dir);
}
# standard input: a new rank 0 reads it from the beginning, and so does a relaunch
my %input = (env => { %files, FTKIT_RECOVER_SUPPLY => 'spare, end' }, run => [], command => ['-I'],
    fault => 'app.mid:0:5:kill,app.mid:*:20:kill', faults => 2, most => 4, like => qr/repaired in.*relaunching/s,
    unlike => qr/nothing on standard input/);
survives('standard input is a file', %input, stdin => write_file(scratch() . '/input', "30\n"));
survives('... is a pipe that stays open', %input, pipe => 'echo 30; exec sleep 4');
my $killed = 0;
survives('mpirun itself is killed', env => \%files, run => [], faults => 0,
    fault => 'app.step:0:14:hold', like => qr/restored set 5 from files/,
    while => sub { my ($work) = @_; $killed = await_held($work) && kill_mpirun($work) });
is($killed, 1, 'mpirun was killed');

# errors of the file system: told at the call, the older set holds, the run goes on
for my $point (all_cases() ? qw(begin part.create part.write part.close part.fsync part.rename
    manifest.write manifest.fsync manifest.rename master.write) : 'part.write') {
    my $error = $point =~ /write/ ? 'ENOSPC' : 'EIO';
    survives("$error at h5.$point: the run goes on", env => \%files,
        fault => "h5.$point:0:3:$error",
        like => $error eq 'ENOSPC' ? qr/no space left/ : qr/storage I\/O error/);
}
# each second attempt has one of them; the last point is the first one, so all attempts come to the next point
for my $points (all_cases() ? () : ([qw(manifest.rename manifest.fsync manifest.write master.write part.rename)],
    [qw(part.close part.fsync part.create begin)]))
{
    my %visits = ('master.write' => 2); # of an attempt
    my @faults = map { sprintf 'h5.%s:0:%d:%s', $points->[$_], (2 * $_ + 1) * ($visits{ $points->[$_] } // 1) + 1,
            $points->[$_] =~ /write/ ? 'ENOSPC' : 'EIO' } 0 .. $#$points;
    survives("errors at h5: @$points: the run goes on", env => \%files, faults => scalar(@faults),
        fault => join(',', @faults), like => in_any_order(qr/storage I\/O error/, grep { "@$points" =~ /write/ } qr/no space left/));
}
survives("$_ of another writer of the node: the run goes on", env => \%files,
    fault => "$_:2:3:ENOSPC", like => qr/no space left/) for qw(h5.part.create h5.part.write h5.part.fsync);
# the other three parts are whole when the fourth fails
for my $of (['h5.part.fsync:3', 'the fourth part'], ['h5.master.write:0', 'the master']) {
    mkdir(my $dir = scratch() . '/full');
    survives("ENOSPC of $of->[1], at each set: the run goes on", faults => 1, most => 99,
        env => { %files, FTKIT_LEVEL_HDF5_WRITERS => 4, FTKIT_LEVEL_HDF5_DIRECTORY => $dir },
        fault => "$of->[0]:*:ENOSPC", like => qr/no space left/, unlike => qr/was not removed/);
    is_deeply([map { basename($_) } glob("$dir/default.ftkit/set-*/*")], [], '... nothing is left of the sets');
    remove_tree($dir);
}
survives('what was written of a set cannot be removed: the run goes on', env => \%files, faults => 2,
    fault => 'h5.part.fsync:2:3:ENOSPC,h5.drop:0:1:EIO', like => qr/\A(?=.*no space left).*was not removed: /s);
survives('no set could be written for a while, then the job is lost', env => \%files,
    run => [], faults => 7, like => qr/restored set \d+ from files/,
    fault => 'h5.part.write:0:9:ENOSPC,h5.part.fsync:0:3:EIO,h5.part.fsync:0:4:EIO,'
        . 'app.mid:*:14:kill7');
my $vanishes = scratch() . '/vanishes';
mkdir($vanishes);
my $lacking = qr/storage I\/O error|no such/i;
survives('the directory vanishes', env => { %files, FTKIT_LEVEL_HDF5_DIRECTORY => $vanishes }, faults => 0,
    fault => 'app.step:0:12:hold', like => $lacking, while => sub {
        my ($work) = @_;
        await_held($work) or return;
        rename($vanishes, "$vanishes.away") or die;
        let_go($work);
        for (my $end = time() + 30 * pace(); slurp("$work/log") !~ $lacking && time() < $end;) {
            select(undef, undef, undef, 0.005);
        }
        remove_tree($vanishes);
        rename("$vanishes.away", $vanishes) or die;
    });

# the event log says what came from where
my $events = scratch() . '/events';
survives('with an event log', env => { %files, FTKIT_REPORT_EVENTS => $events },
    fault => 'app.mid:1:9:kill');
like(event_texts($events), qr/repaired in .*back to set 3/,
    'the event log tells of the repair');
my @all = events($events);
my ($repair) = grep { $_->{event} eq 'repair' && $_->{rank} == 0 } @all;
is_deeply([@$repair{qw(line lost replaced back)}], [3, 1, [1], [0 .. 3]], '... with its ranks');
is_deeply([map { $_->{incarnation} } grep { $_->{event} eq 'open' && $_->{rank} == 1 } @all],
    [0, 1], '... two processes have carried rank 1');
is_deeply([sort map {"$_->{rank} $_->{from}"} grep { $_->{event} eq 'restore' && $_->{set} } @all],
    ['0 own memory', '1 memory of rank 0', '2 own memory', '3 own memory'], '... and the sources');
my %seen = map { $_->{event} => 1 } @all;
ok($seen{$_}, "... there are events '$_'")
    for qw(attempt config spare progress set flush durable failure finish close attempt_end run_end);

# rank 0 is new and does not know what was being written: a set is due
remove_tree($events);
survives('rank 0 dies while a set is written', env => { FTKIT_LEVEL_HDF5_EVERY => '6 sets',
    FTKIT_CHECKPOINT_PERIOD => '2 calls', FTKIT_REPORT_EVENTS => $events },
    solver => ['-n', '60000', '-W', 8], fault => 'flush.block:0:3:kill');
my ($back, $next) = event_texts($events) =~ /back to set (\d+).*?set (\d+): being written/s;
# soon: not while the threads of others are still about the old one
ok($back && $next && $next <= $back + 3, '... one of the next is written, not the sixth')
    or diag(event_texts($events));

# Jobs that go on from the same files, each with slots of its own.
sub with_slots
{
    my ($dir, $slots, $every, $calls, %o) = @_;
    mkdir("$dir.$slots");
    return job(keep => $dir, spares => 0, %o, env => {
        FTKIT_LEVEL_MEMORY_SCHEME => 'own', FTKIT_LEVEL_MEMORY_PLACE => 'file',
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_CHECKPOINT_PERIOD => "$calls calls",
        FTKIT_LEVEL_HDF5_EVERY => "$every sets", FTKIT_LEVEL_MEMORY_DIRECTORY => "$dir.$slots" });
}

# After 1, 5, 9, 13, 17 calls a set, the second and the fourth to files; another job goes on
# from the fourth and writes sets of the same numbers, and of other steps.
sub two_jobs
{
    my ($dir, $calls) = @_;
    with_slots($dir, 'a', 2, 4, fault => 'app.mid:*:19:kill4');
    my $j = with_slots($dir, 'b', 1, 3, fault => "app.mid:*:$calls:kill4");
    like($j->{log}, qr/restored set 4 from files/, 'another job goes on from the files');
    ok(-e "$dir/default.ftkit/set-0000000005/manifest", '... and writes the next set');
    return;
}

my @long = ('-s', 60);
$dir = scratch() . '/twice';
two_jobs($dir, 5);
my $slot = '';
$j = with_slots($dir, 'a', 100, 100, spares => 1, fault => 'app.step:1:3:hold', while => sub {
    await_held($dir); # it has been restored
    for my $f (glob("$dir.a/ftkit-slot-*")) {
        open(my $h, '<', $f) or next;
        sysread($h, my $head, 80);
        my ($set, $rank) = unpack('x32 Q< x16 L<', $head);
        next if substr($head, 0, 7) ne 'FTKSLOT' || $rank != 1 || $set != 5;
        $slot .= unlink($f);
    }
    kill_rank("$dir/pid.1", 18, {});
}, args => ['-o', "$dir/out", @long, '-p', 'pid']);
is($slot, '1', '... the slot of rank 1 goes with it');
like($j->{log}, qr/restored set 5 from memory.*restored set 5 from files/s,
    'a set in memory, then one of the same number in files');
is($j->{result}, reference(4, @long), '... which are not mixed') or diag($j->{log});

# files that are newer than what is in memory, but damaged
$dir = scratch() . '/newer';
two_jobs($dir, 8);
remove_tree("$dir/default.ftkit/set-0000000005");
my ($part) = glob("$dir/default.ftkit/set-0000000006/part-*.h5");
ok($part, 'a newer set in files');
if ($part) { # the job is not skipped
    open(my $h, '+<', $part) or die "$part: $!\n";
    seek($h, (-s $part) / 2, 0);
    print {$h} 'x' x 8192;
    close($h);
}
$j = with_slots($dir, 'a', 100, 100);
like($j->{log}, qr/cannot use set 6: .*restored set 5 from memory/s,
    '... that is damaged: memory is used');
is($j->{result}, reference(4), '... and right') or diag($j->{log});

# somebody sets the clock of the day, again and again
{
    $dir = scratch() . '/clock';
    my %clock = (keep => $dir, env => { FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_CHECKPOINT_PERIOD => '50ms',
        FTKIT_RECOVER_SUPPLY => 'spare, end' }, program => 'env');
    my @program = ('LD_PRELOAD=' . build() . '/jump.so', build() . '/mpi/solver',
        '-o', "$dir/out", '-d', 10, '-s', 60, '-W', 30); # a set is durable after 30 steps
    $j = job(%clock, args => \@program, fault => 'app.mid:1:20:kill,app.mid:*:40:kill', run => []);
    my $hits = @{ $j->{faults} };
    ok($j->{rc} == 0 && $hits >= 2 && $j->{log} =~ /back to set \d+\n.*restored set \d+ from files/s,
        'the clock jumps: repaired, and again from files') or diag($j->{log});
    is($j->{result}, reference(4, '-s', 60), '... and right');
}

# nothing to start from is a fresh start; sets that cannot be used are not
$j = job(env => \%files, keep => "$dir-2");
is($j->{rc}, 0, 'a first run');
for my $part (glob("$dir-2/default.ftkit/set-*/part-00000.h5")) {
    open(my $f, '+<', $part) or die;
    seek($f, (-s $part) / 2, 0);
    print {$f} 'x' x 8192;
    close($f);
}
$j = job(env => \%files, keep => "$dir-2");
ok($j->{rc} != 0 && $j->{log} =~ /cannot be used and no other is complete/,
    'damaged sets are an error, not a fresh start') or diag($j->{log});

# ---- a run that has finished: a start with other arguments does not continue by mistake ------------
my $deck = write_file(scratch() . '/deck', "first\n");
my $mark = scratch() . '/finished/default.ftkit/finished';

sub after
{
    my ($steps, %o) = @_;
    my $work = scratch() . '/' . ($o{in} // 'finished');
    return job(n => 2, spares => 0, run => [], keep => $work, %o,
        args => [ '-o', "$work/out", '-s', $steps, $deck, @{ $o{more} // [] } ],
        env => { %files, FTKIT_RECOVER_SUPPLY => 'end', %{ $o{env} // {} } });
}
my $refused = qr/the run of set \d+ has finished, and this start differs: /;
my $f;
chain(sub {
    $f = after(30, fault => 'app.mid:0:11:kill');
    is($f->{rc}, 0, 'a run finishes, after a relaunch') or diag($f->{log});
    like(slurp($mark), qr/^durable = \d+\ncommitted = \d+\narguments = 5 \w+\n.*^argument = \w+ 6 \w+ \Q$deck\E\n/ms,
        '... its mark has the arguments and the argument file');
    ($last) = slurp($mark) =~ /^durable = (\d+)/m;
    like((command('ls', scratch() . '/finished'))[1], qr/^ +$last  default .* complete, finished$/m, '... ftkit ls says so');
    like((command('status', scratch() . '/finished'))[1], qr/the run has finished; its last durable set is $last$/m,
        '... and so does ftkit status');
    $f = after(30);
    ok($f->{rc} == 0 && $f->{log} =~ /restored set/, 'the same arguments: it continues') or diag($f->{log});
    $f = after(60);
    ok($f->{rc} == 2 && $f->{log} =~ /${refused}argument 4 was '30', and is '60'\. `ftkit run --fresh`/
            && $f->{log} !~ /relaunching/, 'another argument: it ends with 2') or diag($f->{log});
    write_file($deck, "other\n");
    $f = after(30);
    ok($f->{rc} == 2 && $f->{log} =~ /${refused}the file of argument '\Q$deck\E' has other contents/,
        'another argument file: it ends with 2') or diag($f->{log});
    unlink($deck);
    $f = after(30, env => { FTKIT_RECOVER_START => $last });
    is($f->{rc}, 0, 'recover.start = N chooses the set of a finished run') or diag($f->{log});
    $f = after(60, run => [ '--continue' ], fault => 'app.mid:0:20:kill,app.mid:0:5:kill@100');
    ok($f->{rc} == 0 && @{ $f->{faults} } == 2, '--continue goes on, also through relaunches') or diag($f->{log});
    my $mended = slurp($mark);
    like($mended, qr/^arguments = 5 \w+\n.* 60$/ms, '... and the mark is that of the new end');
    $f = after(90, run => [ '--continue', '--no-relaunch' ], fault => 'app.mid:0:20:kill');
    isnt($f->{rc}, 0, 'a run that was continued is lost ...');
    $f = after(90);
    ok($f->{rc} == 0 && $f->{log} =~ /restored set/, '... and started again: its newer sets make the mark stale')
        or diag($f->{log});
    write_file($mark, substr(slurp($mark), 0, 100));
    $f = after(95);
    ok($f->{rc} == 0 && $f->{log} =~ /whether the run of set \d+ has finished is not known: .*finished is damaged/,
        'a damaged mark is told, and no hindrance') or diag($f->{log});
    $f = after(20, run => [ '--fresh' ], fault => 'text.fsync:0:1:EIO');
    ok($f->{rc} == 0 && $f->{log} =~ /the run has finished, and is not marked as finished: /,
        'a mark that cannot be written is told') or diag($f->{log});
    ok(!-e $mark, '... and the one of the earlier run is gone');
});

# a set in memory is newer than the last durable one, whose successor then gets the same number
chain(sub {
    my %few = (FTKIT_LEVEL_HDF5_EVERY => '4 sets');
    $f = after(30, run => [ '--fresh' ], env => \%few);
    my ($durable, $committed) = slurp($mark) =~ /^durable = (\d+)\ncommitted = (\d+)$/m;
    cmp_ok($durable, '<', $committed, 'a run ends with a set that is in memory only');
    $f = after(60, run => [ '--continue' ], env => { %few, FTKIT_LEVEL_HDF5_EVERY => '2 sets' },
        fault => 'app.mid:0:16:kill');
    ok($f->{rc} == 0 && @{ $f->{faults} } == 1 && $f->{log} =~ /relaunching/,
        '... another continues it, and is relaunched from its own set') or diag($f->{log});
});

# the user writes the input of the next problem while the run computes
chain(sub {
    write_file($deck, "first\n");
    $f = after(30, in => 'changed', while => sub {
            my ($work) = @_;
            await_held($work);
            write_file($deck, "second\n");
            let_go($work);
        }, fault => 'finish.begin:1:1:hold');
    is($f->{rc}, 0, 'a run whose argument file changes') or diag($f->{log});
    $f = after(30, in => 'changed');
    ok($f->{rc} == 0 && $f->{log} =~ /the file of its argument '\Q$deck\E' changed while the run computed/,
        '... the next start says that the file is not compared') or diag($f->{log});
});

# an argument file that is gone changes nothing for the others, whose first bytes are compared
chain(sub {
    my ($output, $mesh) = map { write_file(scratch() . "/$_->[0]", 'x' x $_->[1]) } [ 'output', 15e6 ], [ 'mesh', 6e6 ];
    my @large = (in => 'large', more => [ $output, $mesh ]);
    $f = after(30, @large);
    is($f->{rc}, 0, 'a run with large argument files') or diag($f->{log});
    unlink($output);
    $f = after(30, @large);
    ok($f->{rc} == 0 && $f->{log} =~ /restored set/, '... one is gone: it continues') or diag($f->{log});
    write_file($mesh, 'y' . 'x' x (6e6 - 1));
    $f = after(30, @large);
    ok($f->{rc} == 2 && $f->{log} =~ /${refused}the file of argument '\Q$mesh\E' has other contents/,
        '... the other one has changed: it ends with 2') or diag($f->{log});
});

done_testing();
