#!/usr/bin/perl
# Going on with fewer ranks: the result must be that of a run in which nobody failed, bit
# for bit, whoever fails when.  tests/mpi/shrink.c is the program.
#
# Five ranks on one node keep each other's copies like this: 0 and 1, 2 for 4, 3 for 2,
# 4 for 3; four ranks: 0 and 1, 2 and 3.  The number of a rank in a fault is the one it
# has at that moment: those behind a lost one move up.  With --all each scheme is lost at each point,
# and there are more seeds.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use File::Temp qw(tempdir);
use FtkitTest qw(all_cases asleep_in_waits);
use Test::More;

my $build = $ENV{BUILD} // 'build';
plan skip_all => 'repairs take ULFM' if ($ENV{MPI_KIND} // 'ulfm') ne 'ulfm';
asleep_in_waits();
my $tmp = tempdir('ftkit-t-shrink.XXXXXX', TMPDIR => 1, CLEANUP => 1);
delete $ENV{$_} for grep { /^FTKIT_/ && !/^FTKIT_(?:GUARD$|TEST_)/ } keys %ENV;
$ENV{FTKIT_LEVEL_HDF5_ENABLED} = 'false';
$ENV{FTKIT_RECOVER_SUPPLY} = 'shrink';
$ENV{FTKIT_CHECKPOINT_PERIOD} = '3 calls'; # sets at steps 0, 3, 6, 9

sub slurp
{
    my ($path) = @_;
    open my $f, '<', $path or return '';
    local $/;
    return <$f> // '';
}

# Run the program: on $o{n} ranks and $o{spares}, with $o{fault} and $o{args}.
my ($code, $out, $result);
sub job
{
    my (%o) = @_;
    local $ENV{FTKIT_FAULT} = $o{fault} // '';
    local $ENV{FTKIT_FAULT_LOG} = "$tmp/faults";
    local $ENV{FTKIT_CHECKPOINT_PERIOD} = $o{period} // $ENV{FTKIT_CHECKPOINT_PERIOD};
    local $ENV{FTKIT_RECOVER_SUPPLY} = $o{supply} // $ENV{FTKIT_RECOVER_SUPPLY};
    local $ENV{FTKIT_LEVEL_MEMORY_SCHEME} = $o{scheme} // 'buddy';
    local $ENV{FTKIT_TOPOLOGY_RANKS_PER_NODE} = $o{node} // 0;
    unlink "$tmp/result", "$tmp/faults";
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', "$tmp/out";
        open STDERR, '>&', \*STDOUT;
        exec 'scripts/guard', 60, '--', "$build/ftkit", 'run', '--no-relaunch', '-n',
            $o{n} // 5, '--spares', $o{spares} // 0, '--', "$build/mpi/shrink", '-o',
            "$tmp/result", @{ $o{args} // [] }
            or die "exec: $!\n";
    }
    waitpid $pid, 0;
    $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
    ($out, $result) = (slurp("$tmp/out"), slurp("$tmp/result"));
}

# The results without failures, by the arguments.
my %reference;
sub reference
{
    my (@args) = @_;
    if (!$reference{"@args"}) {
        job(args => \@args);
        is($code, 0, "nobody fails (@args)") or diag($out);
        BAIL_OUT('no reference') if !$result;
        $reference{"@args"} = $result;
    }
    return $reference{"@args"};
}

# A job that must end well, on $ranks ranks.
sub survives
{
    my ($what, $ranks, %o) = @_;
    my $want = reference(@{ $o{args} // [] });
    job(%o);
    my $ok = $code == 0 && $result eq $want;
    $ok &&= $out =~ /^shrink: $ranks ranks at the end$/m;
    $ok &&= $out !~ /wrong value|left behind/;
    ok($ok, $what) or diag("exit code $code, result ",
        $result eq $want ? 'as it should be' : 'is wrong', "\n", $out);
}

# A job that cannot go on must say why, and end.
sub ends
{
    my ($what, $message, %o) = @_;
    job(%o);
    isnt($code, 0, "$what: ends");
    isnt($code, 124, "$what: in time") or diag($out);
    like($out, $message, "$what: says why");
    is($result, '', "$what: no result");
}

# Ranks are lost at each of these points, "POINT:VISIT".  With --all in a job for each; otherwise one after the other
# in one job, in the order in which the program comes there.  Two nodes keep the copies for each other, and all lost
# ranks are of the second one: each has a copy.  They are lost from the last one down, so no rank moves up.
# first: "POINT:VISIT" of a rank that is lost before, if any.
sub in_steps
{
    my ($what, $first, $of, %o) = @_;
    for my $points (all_cases() ? map { [$_] } map {@$_} @$of : @$of) {
        my @all = ($first // (), @$points);
        my $n = 2 * @all;
        my @faults = map { $all[$_] =~ s/:(\d+)$/sprintf(':%d:%d:kill', $n - 1 - $_, $1)/er } 0 .. $#all;
        survives("$what @$points", scalar(@all), n => $n, node => scalar(@all), %o, fault => join(',', @faults));
    }
}

# ---- no failure ----------------------------------------------------------------------

survives("$_ ranks", $_, n => $_) for 1, 3, 4;

# ---- one rank, or several ------------------------------------------------------------

my ($one, $last) = ('app.step:1:10:kill', 'app.step:4:10:kill');
my $both = join(',', map {"${_}2"} $one, $last); # at once
my $twice = 'app.step:4:5:kill,app.step:3:9:kill';

survives('the first rank', 4, fault => 'app.step:0:9:kill');
survives('the last rank', 4, fault => $last);
survives('a rank in the middle', 4, fault => $one);
survives('inside a collective call', 4, fault => 'app.mid:4:5:kill');
survives('two in a row', 3, fault => $twice);
survives('three in a row', 2,
    fault => 'app.step:4:3:kill,app.step:3:7:kill,app.step:2:13:kill',
    args => [-s => 15]);
survives('two at once that are not buddies', 3, fault => $both);
survives('at the end', 4, fault => 'finish.begin:4:1:kill');
survives('one is replaced, one is not', 4,
    fault => $both, spares => 1, supply => $_)
    for 'shrink', 'spare, shrink';

survives("blocks of all kinds, seed $_", 3, fault => $twice, args => [-z => $_])
    for 1 .. (all_cases() ? 5 : 2);

# ---- before there is a set -----------------------------------------------------------

in_steps('before the first set, in', undef, [[qw(recover.begin:1 app.callback:1 recover.end:1)],
    [qw(ckpt.begin:1 ckpt.sized:1 ckpt.packed:1)], [qw(ckpt.sealed:1 ckpt.voted:1 ckpt.committed:1)]]);

# what is sealed but not committed must be forgotten: the next set has its number
survives('the first set again, then another', 3,
    fault => 'ckpt.sealed:4:1:kill,app.step:3:3:kill');
survives('a later set again, then another', 2,
    fault => 'app.w1:*:10:kill,ckpt.sealed:3:2:kill,app.w2:*:38:kill',
    period => '20 calls', args => [-s => 30]);

# ---- in the second repair, the redistribution, and until the next set ----------------

in_steps('then in', 'app.step:10', [[qw(repair.shrink:1 repair.shrunk:1 repair.census:2)],
    [qw(repair.plan:2 repair.build:2 repair.built:2)], [qw(repair.restore:2 repair.agree:2 repair.agreed:2)],
    [qw(redistribute.begin:1 redistribute.agreed:1 redistribute.mid:1)],
    [qw(app.callback:2 redistribute.end:1 redistribute.voted:1)]]);
in_steps('in the next set, then in', 'app.step:10', [[qw(ckpt.begin:5 ckpt.sized:5 ckpt.packed:5)],
    [qw(ckpt.sealed:5 ckpt.voted:5 ckpt.committed:5)]]);
# with a period in time the next set is written at once all the same: rank 2 has the only
# copy of the segment of the lost rank 4
survives("a period of $_", 3, period => $_, args => [-s => 8],
    fault => 'app.step:4:6:kill,app.step:2:9:kill')
    for 'auto', '1h';

# messages of many pieces, a broadcast of many pieces
my @large = (-r => 500, -c => 1000, -b => 600000, -s => 4);
survives('large regions', 4, fault => 'app.step:4:4:kill', args => \@large);

# ---- segments that are rebuilt from parity, for somebody who stands in ----------------

survives("xor: rank $_", 4, fault => "app.step:$_:9:kill", scheme => 'xor') for 0, 2, 4;
survives('xor: two in a row', 3, fault => $twice, scheme => 'xor');
survives('rs: two at once', 3, fault => $both, scheme => 'rs');
survives("xor: then in redistribute.$_", 3, fault => "$one,redistribute.$_:3:1:kill",
    scheme => 'xor') for all_cases() ? qw(begin agreed mid end voted) : qw(agreed end);
survives("rs: then in rebuild.$_", 3, fault => "$last,rebuild.$_:1:1:kill",
    scheme => 'rs') for qw(begin data done);
survives("rs: then in repair.$_", 3, fault => "$last,repair.$_:1:2:kill",
    scheme => 'rs') for all_cases() ? qw(plan built restore agree agreed) : qw(plan restore);
survives('xor: large regions', 4, fault => 'app.step:4:4:kill', args => \@large,
    scheme => 'xor');
in_steps('large regions, then at', 'app.step:4', [[qw(redistribute.mid:1 redistribute.end:1 redistribute.piece:9)],
    [qw(redistribute.piece:1 redistribute.piece:3 redistribute.piece:6)]], args => \@large);

# ---- corrupt copies ------------------------------------------------------------------

survives('a corrupt segment that has a copy', 4,
    fault => "$last,redistribute.corrupt:0:1:EIO");
ends('a corrupt segment that has none', qr/no copy of the data survives/,
    fault => "$last,redistribute.corrupt:2:2:EIO");
ends('a rank and its buddy', qr/no copy of the data survives/,
    fault => "$last,redistribute.begin:2:1:kill");

ends('a segment that is rebuilt wrong every time', qr/is damaged, wherever a rank has/,
    fault => "$last,rebuild.wrong:*:*:EIO\@*", scheme => 'xor');

# ---- a restart on another number of ranks --------------------------------------------

# Sets of a job of so many ranks that is killed as a whole, by the arguments: a copy in $tmp/sets.
my %written;
sub written
{
    my ($from, @args) = @_;
    my $kept = $written{"$from @args"} //= sprintf('%s/written%d', $tmp, scalar(keys %written));
    if (!-d $kept) {
        mkdir $kept;
        local $ENV{FTKIT_LEVEL_HDF5_DIRECTORY} = $kept;
        job(n => $from, fault => "app.step:*:9:kill$from", args => \@args);
        isnt($code, 0, "$from ranks (@args): the job is killed") or diag($out);
    }
    system('rm', '-rf', "$tmp/sets") == 0 && system('cp', '-a', $kept, "$tmp/sets") == 0
        or die "cp: $?\n";
}

# Such sets, then the same program on $n ranks.
sub restarts
{
    my ($what, $n, %o) = @_;
    my $from = $o{from} // 6;
    my $want = reference(@{ $o{args} // [] });
    local $ENV{FTKIT_LEVEL_HDF5_ENABLED} = 'true';
    local $ENV{FTKIT_LEVEL_HDF5_EVERY} = '1 sets';
    local $ENV{FTKIT_LEVEL_HDF5_ASYNCHRONOUS} = 'false';
    written($from, @{ $o{args} // [] });
    local $ENV{FTKIT_LEVEL_HDF5_DIRECTORY} = "$tmp/sets";
    job(n => $n, fault => $o{fault}, spares => $o{spares}, supply => $o{supply},
        args => $o{args});
    my $like = $n == $from ? qr/restored set \d+ from files in \S+ \(/
        : qr/restored set \d+ from files in \S+, of another number of ranks/;
    ok($code == 0 && $result eq $want && $out =~ $like, $what)
        or diag("exit code $code\n", $out);
}

restarts("6 ranks wrote it, $_ read it", $_) for 1, 3, 6, 8;
restarts('1 wrote it, 5 read it', 5, from => 1);
restarts("... of all kinds, seed $_", 5, args => [-z => $_]) for 1 .. (all_cases() ? 3 : 2);
if (all_cases()) {
    for (qw(begin agreed mid end voted)) {
        restarts("a rank fails in redistribute.$_", 5, fault => "redistribute.$_:2:1:kill");
        restarts("replaced in redistribute.$_", 5, fault => "redistribute.$_:2:1:kill", spares => 1, supply => 'spare');
    }
} else { # until the next set the files have all data
    restarts('ranks fail in redistribute.agreed, .end, .voted', 5,
        fault => 'redistribute.agreed:4:1:kill,redistribute.end:3:1:kill,redistribute.voted:2:1:kill');
    restarts('replaced in redistribute.begin, .mid', 5, fault => 'redistribute.begin:2:1:kill,redistribute.mid:3:1:kill',
        spares => 2, supply => 'spare');
}
restarts('then a failure before the next set', 5, fault => 'ckpt.begin:2:1:kill');
restarts('then in the loop', 5, fault => 'app.step:2:4:kill');

# ---- the line is lost, and files are corrupt -----------------------------------------

for my $how ('good', 'hurt', 'needed') {
    my $lost = 'app.step:4:8:kill';
    system('rm', '-rf', "$tmp/sets");
    mkdir "$tmp/sets";
    local $ENV{FTKIT_LEVEL_HDF5_ENABLED} = 'true';
    local $ENV{FTKIT_LEVEL_HDF5_EVERY} = '2 sets'; # the line is set 3, set 2 is there
    local $ENV{FTKIT_LEVEL_HDF5_ASYNCHRONOUS} = 'false';
    local $ENV{FTKIT_LEVEL_HDF5_DIRECTORY} = "$tmp/sets";
    survives('older files', 4, fault => $lost, scheme => 'own') if $how eq 'good';
    ends('older files that are corrupt', qr/set 2 cannot be used and no other is complete/,
        fault => $lost, scheme => 'own', args => [-x => 'hurt']) if $how eq 'hurt';
    survives('older files when what is rebuilt never holds', 4, scheme => 'xor',
        fault => "$lost,rebuild.wrong:*:*:EIO\@*") if $how eq 'needed';
}

# ---- programs that cannot shrink -----------------------------------------------------

ends("a region per rank ($_)",
    qr/the context has ended: region 'mine' is per rank: it cannot be restored on 4 ranks/,
    fault => $last, args => [-x => $_])
    for qw(flat growing object);
ends('blocks that were not divided anew',
    qr/array 'u': only 0 of the \d+ cells that rank 4/,
    fault => $last, args => [-x => 'hole']);
ends('blocks that overlap', qr/array 'u': the blocks of ranks 0 and 1 overlap/,
    fault => $last, args => [-x => 'overlap']);

done_testing();
