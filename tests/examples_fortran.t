#!/usr/bin/perl
# The examples in Fortran, of all three bindings of MPI: killed from outside at steps, and
# by fault points within ftkit, lost as a whole and started again from HDF5; the result must
# be that of the undisturbed run, bit by bit.  ssor3d finds its known results on any number
# of ranks, and its error falls as theory says.  heat2d is that of C.
#
# FTKIT_TEST_SEED chooses other victims and moments.  With --all each program has each fault.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use List::Util 'min';
use Test::More;

ulfm_only();
asleep_in_waits();
my $build = build();
plan(skip_all => 'needs the Fortran module') if slurp("$build/mpi.mk") !~ /^FORTRAN := \S/m;
my $examples = "$build/examples/fortran";
my $tmp = scratch();
my $seed = srand($ENV{FTKIT_TEST_SEED} // 1);

sub between {
    my ($low, $high) = @_;
    return $low + int(rand($high - $low + 1));
}

sub clean {
    my ($log) = @_;
    return substr($log =~ tr/\0//dr, 0, 6000);
}

# slow, quick: the arguments of a run that lasts long enough to be killed, and of one that
# has the same result; steps: of it; result: the lines that tell it
my @programs = (
    { name => 'heat2d', steps => 150, quick => [qw(-n 97x61 -s 150)],
        slow => [qw(-n 97x61 -s 150 -d 8 --pidfile pid)],
        result => qr/^(heat2d: hash .*)/m },
    { name => 'ssor3d', steps => 80, quick => [qw(-s 80)],
        slow => [qw(-s 80 -d 15 --pidfile pid)],
        result => qr/^(ssor3d:\ early\ residual\ .*\n
            (?:ssor3d:\ (?:residual|error|hash)\ .*\n){3})/mx },
    { name => 'wave_f77', steps => 150, quick => [150], slow => [qw(150 8 pid)],
        result => qr/^( WAVE: .*)/m },
);

# Which ranks go back: all of them, or the team of a lost one, as soon as the layer has the
# calls of Fortran.
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');
my @modes = ({ name => 'all go back', env => {%memory} });
if (qx(nm $build/libftkit_mpi.a 2>/dev/null) =~ / [TW] mpi_send_$/m) {
    my %teams = (%memory, FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 2);
    push(@modes, { name => 'its team goes back', team => 2, env => {%teams} },
        # the ranks of a pipeline cut at different steps
        { name => 'lines apart', team => 2, env => { %teams, FTKIT_CHECKPOINT_LINE => 'apart' } });
}

my $count = 0;
my %quick; # the results of undisturbed runs

# Run a program on 4 ranks; options as of job().  With kills => [[rank, step] ...] processes
# are killed from outside.  {found}: the lines of the result
sub run {
    my ($p, %o) = @_;
    my $kills = delete $o{kills} // [];
    my $killed = 0;
    my $work = sprintf('%s/run%03d', $tmp, ++$count);
    $o{env} = { %{ $o{env} // {} }, hold_ranks($work, @$kills) } if @$kills;
    my $j = job(n => 4, timeout => 40, keep => $work,
        program => "$build/flt-examples/fortran/$p->{name}", args => $p->{slow},
        while => sub {
            my %dead;
            for (@$kills) {
                kill_rank("$work/pid.$_->[0]", $_->[1], \%dead) or last;
                release_ranks($work, $killed++);
            }
            release_ranks($work);
        }, %o);
    ($j->{found}) = $j->{log} =~ tr/\0//dr =~ $p->{result};
    $j->{found} //= '';
    $j->{killed} = $killed;
    return $j;
}

# A run with kills, or faults, has the result of the undisturbed run.
sub survives_as {
    my ($name, $p, $want, %o) = @_;
    my $like = delete $o{like};
    my $kills = scalar(@{ $o{kills} // [] });
    my $j = run($p, %o);
    my $faults = $o{fault} ? 1 + ($o{fault} =~ tr/,//) : 0;
    my @bad;
    push(@bad, "exit code $j->{rc}") if $j->{rc} != 0;
    push(@bad, "another result: $j->{found}, not $want") if $j->{found} ne $want;
    push(@bad, "$j->{killed} processes were killed, not $kills") if $j->{killed} != $kills;
    push(@bad, scalar(@{ $j->{faults} }) . " faults, not $faults")
        if @{ $j->{faults} } != $faults;
    push(@bad, "no line like $like") if $like && $j->{log} !~ $like;
    push(@bad, 'processes were left behind') if $j->{log} =~ /left behind/;
    ok(!@bad, "$p->{name}: $name");
    diag("$name (seed $seed): ", join(', ', @bad), "\n", clean($j->{log})) if @bad;
    return;
}

# ---- kills ---------------------------------------------------------------------------

for my $mode (@modes) {
    for my $i (0 .. $#programs) {
        my $p = $programs[$i];
        my $env = $mode->{env};
        my $want = $quick{ $p->{name} };
        # with the log one of the programs, with --all each
        if (!defined($want) || selected(3, $i, ($mode->{team} // 0) + ($mode->{name} =~ /apart/))) {
            $want = run($p, spares => 0, args => $p->{quick}, env => $env)->{found};
            $quick{ $p->{name} } //= $want;
            isnt($want, '', "$p->{name}, $mode->{name}: undisturbed");
        }
        my $steps = $p->{steps};
        my ($rank, $other) = (between(0, 3), between(0, 3));
        my ($at, $then) = (between(2, $steps / 3), between($steps / 2, 0.8 * $steps));
        my $back = sub {
            my $first = $_[0] - $_[0] % 2;
            return $mode->{team}
                ? qr/ranks $first and @{[$first + 1]} return to set \d+, all others go on/
                : qr/rank $_[0]/;
        };
        survives_as("rank $rank killed at step $at, $other at $then, $mode->{name}", $p,
            $want, env => $env, spares => 2, kills => [[$rank, $at], [$other, $then]],
            like => qr/@{[$back->($rank)]}.*@{[$back->($other)]}/s);
        my @faults = $mode->{name} =~ /apart/ ? qw(apart.cut apart.tail apart.commit)
            : qw(ckpt.begin ckpt.packed ckpt.committed);
        push(@faults, qw(log.send log.received)) if $mode->{team};
        @faults = (@faults[between(0, 2)], 'finish.begin', @faults[3 .. $#faults]);
        for my $k (0 .. $#faults) {
            my $fault = $faults[$k];
            my $nth = $fault =~ /^log/ ? between(10, $steps)
                : $fault =~ /^ckpt/ ? between(2, $steps / 6)
                : $fault =~ /^apart/ ? between(1, 3) : 1;
            my $spec = sprintf('%s:%d:%d:kill', $fault, between(0, 3), $nth);
            # each program with a fault or two, and each fault with one program at least
            next if !selected(min(3, scalar(@faults)), $i, $k);
            # a set takes several steps to a line apart: the run leaves time for that
            survives_as("$spec, $mode->{name}", $p, $want, env => $env, fault => $spec,
                args => $fault =~ /^apart/ ? $p->{slow} : $p->{quick});
        }
    }
}

# ---- the job as a whole --------------------------------------------------------------

for my $p (@programs[victims(3, 2)]) {
    my $want = $quick{ $p->{name} };
    my $mpirun = 0;
    my $set = 2 * between(1, 4);
    my $hang = write_file("$tmp/hang", ''); # until the kill the next set is not written
    my $j = run($p, spares => 0, run => [],
        env => { FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', LD_PRELOAD => "$build/hang.so",
            FTKIT_TEST_HANG => $hang, FTKIT_TEST_HANG_PATH => sprintf('set-%010d', $set + 2) }, while => sub {
            my $manifest = sprintf('%s/*.ftkit/set-%010d/manifest', $_[0], $set);
            $mpirun = kill_mpirun($_[0]) if await_file($manifest);
            unlink($hang);
        });
    ok($mpirun && $j->{rc} == 0 && $j->{found} eq $want && $j->{log} =~
        /restored set \d+ from files/, "$p->{name}: mpirun is killed, on from the files")
        or diag("$mpirun killed, exit code $j->{rc}, $j->{found}\n", clean($j->{log}));
}

# ---- ssor3d: known results, and theory -----------------------------------------------

my %solver = (name => 'ssor3d', result => qr/^ssor3d: error +(.*)/m);

for (map({ ['small', $_] } 1, all_cases() ? (2, 4, 8) : (), 6, 9), ['medium', 4]) {
    my ($class, $n) = @$_;
    my $j = run(\%solver, n => $n, spares => 0, env => \%memory, args => ['-C', $class],
        program => "$examples/ssor3d");
    ok($j->{rc} == 0 && $j->{log} =~ /verification of class $class: successful/,
        "ssor3d: class $class on $n ranks") or diag(clean($j->{log}));
}

{
    my @errors = map {
        my $j = run(\%solver, n => 2, spares => 0, env => \%memory, program =>
            "$examples/ssor3d", args => ['-n', $_->[0], '-s', $_->[1]]);
        [split(' ', $j->{found})];
    } [8, 30], [16, 50], [32, 80];
    for my $i (0, 1) {
        my @order = map { log($errors[$i][$_] / $errors[$i + 1][$_]) / log(2) } 0 .. 4;
        my @bad = grep { abs($_ - 2) > (0.1, 0.05)[$i] } @order;
        ok(!@bad, sprintf('ssor3d: from %d to %d intervals the error falls with h^2',
            8 << $i, 16 << $i)) or diag("orders @order");
    }
}

# ---- heat2d: the same in both languages ----------------------------------------------

{
    my %heat = (name => 'heat2d', result => qr/(heat2d: .* steps done)/);
    my %file = (FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false');
    my %program = (C => "$build/examples/heat2d", Fortran => "$examples/heat2d");
    my (%result, %said, %saved);
    my @grid = ('-n', '97x61');
    for my $language (sort keys %program) {
        my $work = "$tmp/$language";
        my $j = run(\%heat, keep => $work, spares => 0, env => \%file, program =>
            $program{$language}, args => [@grid, '-s', 98, '-o', "$work/out"]);
        $result{$language} = $j->{result};
        system("$build/ftkit export --format raw -o $work/u $work newest u "
            . ">$work/export 2>&1");
        $saved{$language} = slurp("$work/u");
        my ($master) = (sort(glob("$work/*.ftkit/set-*/master.h5")))[-1];
        $said{$language} = qx(h5dump -H -d /u $master 2>/dev/null) =~ s/^HDF5.*//r;
    }
    ok($result{C} ne '' && $result{C} eq $result{Fortran}, 'heat2d: the result is that of C');
    ok(length($saved{C}) == 97 * 61 * 8 && $saved{C} eq $saved{Fortran},
        '... and so is what is in the files');
    SKIP: {
        skip('no h5dump', 2) if system('command -v h5dump >/dev/null') != 0;
        like($said{C}, qr/H5T_IEEE_F64LE.*\( 97, 61 \)/s, '... of this type and shape');
        is($said{Fortran}, $said{C}, '... in both');
    }
    my $whole = run(\%heat, keep => "$tmp/whole", spares => 0, env => \%memory, program =>
        $program{C}, args => [@grid, '-s', 150, '-o', "$tmp/whole/out"])->{result};
    for (['C', 'Fortran'], ['Fortran', 'C']) {
        my ($begun, $ended) = @$_;
        my $work = "$tmp/$begun";
        my $j = run(\%heat, keep => $work, n => 3, spares => 0,
            env => { %file, FTKIT_RECOVER_START => 'continue' }, program => $program{$ended}, args => [@grid, '-s', 150, '-o', "$work/out"]);
        ok($j->{rc} == 0 && $j->{log} =~ /heat2d: continues at step [1-9]/ && $whole ne ''
            && $j->{result} eq $whole, "... begun in $begun, ended in $ended on other ranks")
            or diag(clean($j->{log}));
    }
}

# ---- wrong input ---------------------------------------------------------------------

for (['heat2d', qr/unknown option -x/, '-x', 1], ['heat2d', qr/-s needs a value/, '-s'],
    ['heat2d', qr/-n 0: must be whole/, '-n', 0], ['heat2d', qr/-n 4y5: must/, '-n', '4y5'],
    ['heat2d', qr/invalid configuration: .*none\.ini: No such/, '-c', "$tmp/none.ini"],
    ['ssor3d', qr/no such class: huge/, '-C', 'huge'],
    ['ssor3d', qr/too many ranks/, '-n', 2]) {
    my ($name, $like, @args) = @$_;
    my $j = job(n => 2, spares => 0, program => "$examples/$name", args => \@args);
    my @said = $j->{log} =~ /^((?:$name|ftkit: .*error|Error|At line).*)/mg;
    ok($j->{rc} == 2 && @said == 1 && $said[0] =~ $like,
        join(' ', "refused: $name", map { s{^\Q$tmp\E/}{}r } @args))
        or diag("exit code $j->{rc}\n", clean($j->{log}));
}

done_testing();
