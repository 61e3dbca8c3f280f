#!/usr/bin/perl
# The examples and the program of the README under real kills, from outside and without
# fault points: the result must be that of the undisturbed run, bit by bit.  Then what
# other programs read, and wrong input.
#
# FTKIT_TEST_SEED chooses other victims and moments.  With --all more of them.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use File::Path qw(make_path);
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;
use Time::HiRes qw(sleep time);

ulfm_only();
asleep_in_waits();
my $examples = build() . '/examples';
my $tmp = scratch();
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');
my $seed = srand($ENV{FTKIT_TEST_SEED} // 1);

sub between {
    my ($low, $high) = @_;
    return $low + int(rand($high - $low + 1));
}

# What mpirun hands on of a process that is killed may have zeros in it.
sub clean {
    my ($log) = @_;
    return substr($log =~ tr/\0//dr, 0, 8000);
}

# Run a command that is no job; its output, and whether it went well.
sub run {
    my ($command) = @_;
    my $out = qx(@{[top()]}/scripts/guard 60 -- sh -c '$command' 2>&1 </dev/null);
    diag("$command\n", substr($out, 0, 4000)) if $? != 0;
    return ($? == 0, $out);
}

# The result without failures.
sub undisturbed {
    my ($program, @args) = @_;
    my $work = "$tmp/undisturbed";
    my $j = job(n => 4, spares => 0, keep => $work, env => \%memory,
        program => "$examples/$program", args => ['-o', "$work/out", @args]);
    die("$program undisturbed: exit code $j->{rc}\n$j->{log}")
        if $j->{rc} != 0 || $j->{result} eq '';
    return $j->{result};
}

# A job out of which processes are killed ends well and with the right result.
# program => [name, arguments], want => result, like => what is said, kills =>
# [[rank, step] ...], or the number of the set whose files let mpirun be killed; the
# rest is for job().
my $number = 0;
sub outlives {
    my ($name, %o) = @_;
    my ($program, @args) = @{ delete $o{program} };
    my ($kills, $want, $like) = delete @o{qw(kills want like)};
    my $work = sprintf('%s/outlives%02d', $tmp, ++$number);
    my $killed = 0;
    # a set that is waited for must come, however slow the files are; the next one is not written, and no
    # step is left behind, before the kill
    my $hang = "$work/hang";
    my %wait = ref($kills) ? hold_ranks($work, @$kills) : (FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
        LD_PRELOAD => build() . '/hang.so', FTKIT_TEST_HANG => $hang,
        FTKIT_TEST_HANG_PATH => sprintf('set-%010d', $kills + 2));
    make_path($work);
    write_file($hang, '') if !ref($kills);
    $o{env} = { %{ $o{env} // {} }, %wait };
    my $j = job(%o, keep => $work, program => "$examples/$program", timeout => 60,
        args => ['-o', "$work/out", '--pidfile', "$work/pid", @args],
        while => sub {
            if (!ref($kills)) {
                my $set = sprintf('%s/*.ftkit/set-%010d/manifest', $work, $kills);
                $killed = kill_mpirun($work) if await_file($set);
                unlink($hang);
                return;
            }
            my %dead;
            for (@$kills) {
                kill_rank("$work/pid.$_->[0]", $_->[1], \%dead) or last;
                release_ranks($work, $killed++);
            }
            release_ranks($work);
        });
    my $planned = ref($kills) ? @$kills : 1;
    my @bad;
    push(@bad, "exit code $j->{rc}") if $j->{rc} != 0;
    push(@bad, 'another result') if $j->{result} ne $want;
    push(@bad, "$killed processes were killed, not $planned") if $killed != $planned;
    push(@bad, "no line like $like") if $j->{log} !~ $like;
    push(@bad, 'processes were left behind') if $j->{log} =~ /left behind/;
    ok(!@bad, $name);
    diag("$name (seed $seed): ", join(', ', @bad), "\n", clean($j->{log})) if @bad;
    return;
}

# ---- heat2d --------------------------------------------------------------------------

my @heat = ('heat2d', '-n', '97x61', '-s', 200);
my @slow = (@heat, '-d', 2);
my $field = undisturbed(@heat);
is(length($field), 97 * 61 * 8, 'heat2d undisturbed: a result of the right size');
my ($early, $late) = map { my @range = @$_; sub { return between(@range) } }
    [5, 60], [90, 150];

outlives("heat2d: rank $_ is killed", program => \@slow, want => $field, env => \%memory,
    kills => [[$_, between(5, 150)]], like => qr/ step [1-9].*heat2d: .* on 4 ranks/s)
    for 0, between(1, 3);
outlives("heat2d: ranks @$_ are killed", program => \@slow, want => $field, spares => 2,
    kills => [[$_->[0], $early->()], [$_->[1], $late->()]],
    like => qr/repair 2 took.*heat2d: .* on 4 ranks/s)
    for [between(1, 3), 2], [(between(1, 3)) x 2];

SKIP: {
    skip('needs the right to make name spaces', 1) if !nodes_possible();
    outlives('heat2d: two kills on two emulated nodes', program => \@slow, want => $field,
        n => 8, spares => 2, run => ['--no-relaunch', '--emulate-nodes', 2],
        kills => [[between(0, 7), $early->()], [between(0, 7), $late->()]],
        like => qr/memory survives .*no two are buddies.*heat2d: .* on 8 ranks/s);
}

my %shrink = (program => \@slow, want => $field, n => 8, spares => 0,
    env => { FTKIT_RECOVER_SUPPLY => 'shrink' });
outlives("heat2d: rank $_ is killed, on with seven", %shrink,
    kills => [[$_, between(5, 150)]], like => qr/heat2d: .* on 7 ranks/)
    for (0, between(1, 7))[victims(2, 1)];
outlives('heat2d: two are killed, on with six', %shrink,
    kills => [[between(0, 7), $early->()], [between(0, 6), $late->()]],
    like => qr/heat2d: .* on 6 ranks/);

my $continued = qr/restored set \d+ from files.*: continues at step [1-9]/s;
outlives('heat2d: mpirun is killed, on from the files', program => [@heat, '-d', 5],
    want => $field, run => [], kills => 2 * between(1, 10), like => $continued);

# ---- cg ------------------------------------------------------------------------------

my @cube = ('cg', '-n', 20);
outlives('cg, Poisson: two kills', program => [@cube, '-d', 8],
    want => undisturbed(@cube), spares => 2,
    kills => [[between(0, 3), between(1, 15)], [between(0, 3), between(25, 35)]],
    like => qr/cg: 8000 rows, 4 ranks, \d+ iterations: converged/);

SKIP: {
    my $matrix = test_data('bcsstk13.mtx');
    skip('bcsstk13.mtx is not there', 2) if !-r $matrix;
    my @stiff = ('cg', '-m', $matrix, '-t', '1e-6');
    my $want = undisturbed(@stiff);
    my %period = (FTKIT_CHECKPOINT_PERIOD => '25 calls');
    my $converged = qr/cg: 2003 rows, 4 ranks, \d+ iterations: converged/;
    outlives('cg, bcsstk13: two kills', program => [@stiff, '-d', 1], want => $want,
        spares => 2, env => \%period, like => $converged,
        kills => [[between(0, 3), between(20, 400)], [between(0, 3), between(500, 800)]]);
    outlives('cg, bcsstk13: mpirun is killed, on from the files', want => $want,
        program => [@stiff, '-d', 1], run => [], env => \%period,
        kills => 2 * between(1, 10), like => qr/$continued.*$converged/s);
}

# ---- pipeline and farm: each rank saves its state at its own call --------------------

my $apart = 0;
for my $p (['pipeline', 110, qw(-n 1200x500 -b 10 -d 6)], ['farm', 60, qw(-n 300 -d 9)]) {
    my ($name, $last, @args) = @$p;
    my %apart = (FTKIT_CHECKPOINT_LINE => 'apart', FTKIT_LEVEL_HDF5_ENABLED => 'false',
        FTKIT_LOG_TEAM_SIZE => 1);
    my @log = (run => [ '--no-relaunch', '--log' ]);
    my $work = "$tmp/$name";
    my $j = job(@log, n => 4, spares => 0, keep => $work, env => \%apart,
        program => "$examples/$name", args => [ '-o', "$work/out", @args ]);
    ok($j->{rc} == 0 && $j->{result} ne '' && $j->{log} =~ /^$name: .*: right$/m,
        "$name undisturbed") or diag(clean($j->{log}));
    for my $team (grep { selected(2, $apart, $_ == 2) } 1, 2, 4) {
        my ($rank, $at) = (between(0, 3), between(1, $last));
        my $period = between(1, 8) . ' calls';
        outlives("$name: rank $rank is killed at $at, teams of $team, a set each $period", @log,
            program => [ $name, @args ], want => $j->{result}, kills => [ [ $rank, $at ] ],
            env => { %apart, FTKIT_LOG_TEAM_SIZE => $team, FTKIT_CHECKPOINT_PERIOD => $period },
            like => qr/$name: rank $rank continues .*^$name: .*: right$/ms);
    }
    $apart++;
}

# ---- sets read by others -------------------------------------------------------------

{
    my $work = "$tmp/files";
    my $j = job(keep => $work, n => 6, program => "$examples/heat2d",
        env => { FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' }, args =>
        ['-n', '40x56', '-s', 98, '-o', "$work/out", '-p', "$work/field", '-P', 5]);
    is($j->{rc}, 0, 'heat2d with files') or diag($j->{log});
    my $master = (sort(glob("$work/*.ftkit/set-*/master.h5")))[-1] // '';
    my $source = top() . '/tests/h5only/read_master.c';
    my ($hdf5) = slurp(build() . '/mpi.mk') =~ /^HDF5_PKG := (.*)$/m;
    my ($flags) = qx(pkg-config --cflags --libs $hdf5 2>/dev/null) =~ /(.+)/;
    my ($ok) = run(($flags ? 'cc' : 'h5cc') . " -o $tmp/read $source " . ($flags // ''));
    ok($ok, 'a program that knows nothing but HDF5');
    ($ok, my $step) = run("$tmp/read $master /ranks/00000/step /u $work/u");
    chomp($step);
    ok($ok && $step =~ /^\d+$/ && $step > 80, '... reads the step from master.h5')
        or diag($step);
    my $own = slurp("$work/field.$step.bin");
    ok($own ne '' && slurp("$work/u") eq $own, '... and the whole array, bitwise');
    SKIP: {
        skip('no h5dump', 1) if system('command -v h5dump >/dev/null') != 0;
        ($ok) = run("h5dump -d /u -b NATIVE -o $work/dump $master");
        ok($ok && slurp("$work/dump") eq $own, 'h5dump gives the same');
    }
    SKIP: {
        skip('no h5dump', 1) if system('command -v h5dump >/dev/null') != 0;
        like((run("h5dump -a /u/units $master"))[1], qr/\(0\): "K"/, '... and the units');
    }
    my $sidecar = $master =~ s/h5$/xdmf/r;
    like(slurp($sidecar), qr{"2DCoRectMesh" Dimensions="40 56"/>.*
 *<Attribute Name="u" AttributeType="Scalar" Center="Node">
 *<DataItem Dimensions="40 56" [^>]*>master\.h5:/u<}s, 'master.xdmf tells of the array');
    SKIP: {
        my ($python) = grep { system("$_ -c 'import xml.dom.minidom' 2>/dev/null") == 0 }
            qw(python3 /usr/bin/python3);
        skip('no python3 with an XML parser', 1) if !$python;
        my ($parsed) = run("$python -c \"import sys, xml.dom.minidom as x; "
            . "x.parse(sys.argv[1])\" $sidecar");
        ok($parsed, '... in XML');
    }
}

{
    my $work = "$tmp/packed";
    my $j = job(keep => $work, n => 2, program => "$examples/heat2d",
        env => { FTKIT_LEVEL_HDF5_COMPRESS => 'deflate' },
        args => ['-n', '96x64', '-s', 98, '-o', "$work/out"]);
    is($j->{rc}, 0, 'heat2d with compressed files') or diag($j->{log});
    my $set = (sort(glob("$work/*.ftkit/set-*")))[-1] // '';
    my ($ok) = run(build() . "/ftkit verify $work");
    ok($ok, '... which ftkit verify finds good');
    ($ok) = run(build() . "/ftkit export --format raw -o $work/u $work newest u");
    ok($ok && -s "$work/u" == 96 * 64 * 8, '... ftkit export reads');
    SKIP: {
        skip('no h5dump', 3) if system('command -v h5dump >/dev/null') != 0;
        like((run("h5dump -p -H $set/part-00000.h5"))[1], qr/COMPRESSION DEFLATE/,
            '... are compressed');
        ($ok) = run("h5dump -d /u -b NATIVE -o $work/dump $set/master.h5");
        ok($ok && slurp("$work/dump") eq slurp("$work/u"), '... and h5dump reads too');
        unlink("$set/master.h5");
        run(build() . "/ftkit repair $work");
        like((run("h5dump -a /u/units $set/master.h5"))[1], qr/\(0\): "K"/,
            'the master that ftkit repair makes has the attributes');
    }
}

# ---- the program of the README -------------------------------------------------------

# Wait until $begun->(processes that run the program) is true and a little longer, then
# kill one of the processes; their number.
sub kill_any {
    my ($program, $delay, $begun) = @_;
    for (my $end = time() + 20 * pace(); time() < $end; sleep(0.005)) {
        my @pids = grep { (readlink("/proc/$_/exe") // '') eq $program }
            map { m{(\d+)$} } glob('/proc/[0-9]*');
        next if !$begun->(@pids);
        sleep($delay);
        return kill('KILL', $pids[rand(@pids)]);
    }
    return 0;
}

{
    my ($text) = slurp(top() . '/README.md') =~ /^```c\n(.*?)^```$/ms;
    my $source = write_file("$tmp/readme.c", $text // '');
    my ($mpicc) = slurp(build() . '/mpi.mk') =~ /^MPICC := (.*)$/m;
    my $sanitize = slurp(build() . '/libftkit.a') =~ /__asan_init/
        ? '-fsanitize=address,undefined' : '';
    my ($ok) = run(join(' ', $mpicc, qw(-std=c11 -Wall -Wextra -Werror), $sanitize, '-o',
        "$tmp/readme", $source, '-I' . top() . '/include', build() . '/libftkit.a',
        packages()));
    ok($ok, 'the program of the README compiles');
    my $j = job(program => "$tmp/readme", args => []);
    is($j->{rc}, 0, '... and runs') or diag($j->{log});
    $j = job(program => '/bin/sh', args => ['-c', "cd /proc && exec $tmp/readme"], timeout => 30,
        env => { FTKIT_LEVEL_HDF5_DIRECTORY => '.' });
    isnt($j->{rc}, 0, '... not in a directory that cannot be written');
    like($j->{log}, qr{^[^f].*: .*/proc.*No such file or directory}m, '... where it says why')
        or diag($j->{log});
    # the program is short: until the kill its file system lets no call of set 70 return, so that no
    # process is in MPI_Finalize, where Open MPI cannot lose one
    my $hang = "$tmp/hang";
    my %often = (FTKIT_CHECKPOINT_PERIOD => '1 calls',
        FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
        LD_PRELOAD => build() . '/hang.so', FTKIT_TEST_HANG => $hang,
        FTKIT_TEST_HANG_PATH => 'set-0000000070');
    my $kill = sub {
        my ($when, $delay, $begun) = @_;
        my $killed = 0;
        write_file($hang, '');
        my $j = job(program => "$tmp/readme", args => [], run => [], timeout => 60,
            env => \%often, while => sub {
                my ($work) = @_;
                $killed = kill_any("$tmp/readme", $delay, sub { $begun->($work, @_) });
                unlink($hang);
            });
        ok($j->{rc} == 0 && $killed == 1 && $j->{log} !~ /left behind|all contexts were closed/,
            "... with a process killed $when")
            or diag("seed $seed, exit code $j->{rc}, $killed killed\n", clean($j->{log}));
    };
    $kill->('in its loop', rand(0.4), sub { slurp("$_[0]/log") =~ /^ftkit: context/m })
        for 1 .. (all_cases() ? 3 : 1);
}

# ---- wrong input ---------------------------------------------------------------------

# Exit code 2 and one line (MPI may add its own when the ranks leave).  The first case of a program, and with
# --all each, is a job of two ranks; the others are a process alone.
my %refused;
sub refuses {
    my ($program, $like, @args) = @_;
    my $what = join(' ', $program, map { s{^\Q$tmp\E/}{}r } @args);
    my ($rc, $log);
    if (all_cases() || !$refused{$program}++) {
        my $j = job(n => 2, spares => 0, program => "$examples/$program", args => \@args);
        ($rc, $log) = @$j{qw(rc log)};
    } else {
        my @quoted = map {"'$_'"} @args;
        $log = qx(@{[top()]}/scripts/guard 60 -- $examples/$program @quoted 2>&1 </dev/null);
        $rc = $? >> 8;
    }
    my @said = $log =~ /^((?:$program|ftkit(?! run)).*)/mg; # it names rank and code
    ok($rc == 2 && @said == 1 && $said[0] =~ $like, "refused: $what")
        or diag("exit code $rc, not like $like\n", $log);
    return;
}

my $head = '%%MatrixMarket matrix coordinate real';
my $general = "$head general\n";
my @matrices = (
    empty => '' => '0: the file is empty',
    garbage => pack('C*', map { $_ * 37 % 256 } 0 .. 4095) => '1: not a text file',
    noise => join('', map { chr(33 + $_ * 29 % 90) } 1 .. 70000) =>
        '1: not a Matrix Market file',
    pattern => $general =~ s/real/pattern/r => '1: pattern values: need real or',
    complex => $general =~ s/real/complex/r => '1: complex values: need real or',
    dense => $general =~ s/coordinate/array/r => '1: matrix array: need',
    skew => "$head skew-symmetric\n" => '1: skew-symmetric: need symmetric or general',
    nosize => "$general% nothing\n" => '2: the line with the sizes is missing',
    oblong => "${general}2 3 3\n1 1 1\n2 2 1\n2 3 1\n" => '2: 2 x 3: .* not square',
    huge => "${general}99999999999999999999 1 1\n" => '2: need three sizes',
    large => "$general\n2000000000 2000000000 2000000000\n1 1 1\n" =>
        '3: 2000000000 entries cannot be in a file of',
    truncated => "$general% text\n3 3 4\n1 1 1\n2 2 1\n3 3 1\n" =>
        '6: the file ends after 3 of 4 entries',
    surplus => "${general}2 2 2\n1 1 1\n2 2 1\n1 2 1\n" => '5: more than the 2 entries',
    range => "${general}2 2 2\n1 1 1\n3 2 1\n" => '4: need row and column of 1 .. 2',
    zero => "${general}2 2 2\n0 1 1\n2 2 1\n" => '3: need row and column of 1 .. 2',
    nan => "${general}2 2 2\n1 1 1\n2 2 nan\n" => '4: need a finite number',
    overflow => "${general}2 2 2\n1 1 1e999\n2 2 1\n" => '3: need a finite number',
    words => "${general}2 2 2\n1 1 1\n2 2 one\n" => '4: need a finite number',
    upper => "$head symmetric\n2 2 3\n1 1 1\n1 2 1\n2 2 1\n" => '4: entry above the dia',
    hole => "$head symmetric\n2 2 2\n1 1 1\n2 1 1\n" => '4: no positive diagonal',
);
while (my ($name, $text, $like) = splice(@matrices, 0, 3)) {
    my $path = write_file("$tmp/$name.mtx", $text);
    refuses('cg', qr/\Q$path\E:$like/, '-m', $path);
}
refuses('cg', qr{missing\.mtx: No such file}, '-m', "$tmp/missing.mtx");
refuses('cg', qr{: not a regular file}, '-m', $tmp);
refuses('cg', qr{: -t 2: TOL must be a number from 1e-30 to 1}, '-t', 2);
refuses('cg', qr{nowhere/out: No such file}, '-o', "$tmp/nowhere/out");
refuses('heat2d', qr{unknown option -x}, '-x', 1);
refuses('heat2d', qr{-s needs STEPS}, '-s');
refuses('heat2d', qr{-n 0: NX\[xNY\] must be whole, from 1}, '-n', 0);
refuses('heat2d', qr{-n 4x5y: }, '-n', '4x5y');
refuses('heat2d', qr{invalid configuration: .*none\.ini: No such}, '-c', "$tmp/none.ini");
refuses('heat2d', qr{wrong\.ini:3: .*periodd.*period}, '-c',
    write_file("$tmp/wrong.ini", "[checkpoint]\n\nperiodd = 5 calls\n"));

SKIP: {
    skip('no /dev/full', 1) if !-c '/dev/full';
    my $j = job(n => 2, spares => 0, program => "$examples/heat2d",
        args => ['-n', 9, '-s', 9, '-o', '/dev/full']);
    ok($j->{rc} == 1 && $j->{log} =~ m{^heat2d: /dev/full: No space left on device$}m,
        'a result that cannot be written is an error') or diag("$j->{rc}: $j->{log}");
}

done_testing();
