#!/usr/bin/perl
# LAMMPS in a job that repairs itself (examples/lammps): ranks are killed at seeded calls of MPI inside
# LAMMPS, and at seeded moments.  All lines of its thermodynamic output are those of the undisturbed run,
# in every digit.  `make lammps` comes first: without it this file is skipped.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  jobs of each kind (default 8)
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitTest;
use File::Temp qw(tempdir);
use Test::More;
use Time::HiRes qw(sleep);

ulfm_only();
asleep_in_waits();
my ($top, $build, $tmp) = (top(), build(), scratch());
my ($mpicc) = slurp("$build/mpi.mk") =~ /^MPICC := (.*)$/m;
my $lammps = qx('$top/scripts/lammps' --prefix '$mpicc');
chomp $lammps;
plan skip_all => "no LAMMPS in $lammps: make lammps" if !-e "$lammps/lib/liblammps.so";
delete $ENV{$_} for qw(MAKEFLAGS MFLAGS MAKELEVEL);
my $made = qx(make -C '$top' --no-print-directory BUILD='$build' lammps 2>&1);
is($?, 0, 'the example is built') or BAIL_OUT($made);

my $seed = $ENV{FTKIT_TEST_SEED} // 23;
my $count = $ENV{FTKIT_TEST_COUNT} // 8;
srand($seed);
diag("FTKIT_TEST_SEED=$seed FTKIT_TEST_COUNT=$count");

my $steps = 600;
my $copies = tempdir('ftkit-test-XXXXXXXX', DIR => -d '/dev/shm' ? '/dev/shm' : $tmp, CLEANUP => 1);
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '3 calls');
my %log = (%memory, FTKIT_CHECKPOINT_PERIOD => '100000 calls', FTKIT_LOG_TEAM_SIZE => 1);
my @again = ('--again', $copies, '--every', 3);
my $number = 0;

# The lines of the thermodynamic output.
sub thermo
{
    return join '', grep {/^ +\d+(?: +-?[\d.e+-]+){4} *$/} split /^/, slurp($_[0]);
}

# A job of the example; kills => "RANK:CALL,..." (tests/lib/kill.c).
sub melt
{
    my (%o) = @_;
    my $work = $o{keep} // sprintf '%s/melt%03d', $tmp, ++$number;
    my $program = delete $o{program} // "$build/lammps/melt";
    my $j = job(timeout => 120, spares => 0, env => \%memory, %o, keep => $work, program => 'env',
        args => [ "LD_PRELOAD=$build/kill.so" . ($o{log} ? " $build/libftkit_mpi.so" : ''),
            'FTKIT_TEST_KILL=' . ($o{kills} // ''), $program, '-i', "$top/examples/lammps/melt.start",
            '-j', "$top/examples/lammps/melt.settings", '-s', $steps, '-o', "$work/thermo",
            '--pidfile', "$work/pid", @{ $o{more} // [] } ]);
    $j->{thermo} = thermo("$work/thermo");
    return $j;
}

my $undisturbed = melt();
my ($calls) = $undisturbed->{log} =~ /kill: rank \d has made (\d+) calls$/m;
my $right = $undisturbed->{thermo};
my $lines = () = $right =~ /\n/g;
is($lines, $steps / 50 * 6, 'undisturbed: a line each 10 steps, and where a run begins') or BAIL_OUT($undisturbed->{log});
cmp_ok($calls // 0, '>', 10_000, '... LAMMPS calls MPI');
is(melt(env => { %memory, FTKIT_CHECKPOINT_PERIOD => '5 calls' })->{thermo}, $right, 'sets at other steps: the same lines');

# The job ends well, with the lines of the undisturbed run; like => what the log has.
sub survives_as
{
    my ($name, %o) = @_;
    my $j = melt(%o);
    my @bad;
    push @bad, "exit code $j->{rc}" if $j->{rc} != 0;
    push @bad, 'other lines' if $j->{thermo} ne $right;
    push @bad, "no line like $o{like}" if $o{like} && $j->{log} !~ $o{like};
    ok(!@bad, $name) or diag("$name: @bad\n", substr $j->{log} =~ tr/\0//dr, 0, 6000);
    return $j;
}

# spares have worked: the first one, or two
my ($one_spare, $two_spares) = map {qr/kill: rank $_ has made [1-9]/} 4, 5;
my $at = sub { return 1 + int rand $calls };
for my $i (1 .. $count) {
    my $r = int rand 4;
    my $kill = "$r:" . $at->();
    survives_as("rank:call $kill is killed", kills => $kill, spares => 1, like => $one_spare);
}
for my $i (1 .. $count / 2) {
    my $kills = sprintf '%d:%d,4:%d', int rand 4, $at->(), 1 + int rand 400;
    survives_as("... $kills: its replacement, too, when LAMMPS begins again", kills => $kills, spares => 2, like => $two_spares);
}
for my $i (1 .. $count / 2) {
    my ($one, $other) = (int rand 4, 1 + int rand 3);
    my $kills = sprintf '%d:%d,%d:%d', $one, $at->(), ($one + $other) % 4, $at->();
    survives_as("... $kills: two ranks", kills => $kills, spares => 2,
        env => { %memory, FTKIT_LEVEL_MEMORY_SCHEME => 'rs' }, like => $two_spares);
}

# With the message log the ranks of the other teams go on.
for my $i (1 .. $count) {
    my ($r, $call) = (int rand 4, $calls / 3 + int rand $calls / 2); # behind the first set
    my $kill = sprintf '%d:%d', $r, $call;
    my $j = survives_as("with the message log: rank:call $kill", kills => $kill, spares => 1, log => 1,
        env => \%log, run => [ '--no-relaunch', '--log' ], more => \@again, like => qr/^melt: rank $r: back 1 times$/m);
    my @back = $j->{log} =~ /^melt: rank (\d): back/mg;
    is("@back", $r, '... and only its team goes back');
}

# at any instruction: a moment behind a call of ftkit
for my $i (1 .. $count) {
    my ($r, $step, $more) = (int rand 4, 50 * int rand $steps / 50, rand 0.3);
    my $work = "$tmp/moment$i";
    survives_as(sprintf('rank %d is killed %.3f s after step %d', $r, $more, $step), keep => $work, spares => 1,
        while => sub {
            my ($pid) = await_file("$work/pid.$r") ? 1 : 0;
            for (1 .. 3000) {
                my ($p, $s) = split ' ', slurp("$work/pid.$r");
                last if defined $s && $s >= $step && ($pid = $p);
                sleep 0.005;
            }
            sleep $more;
            kill 'KILL', $pid if $pid > 1;
        });
}

# The whole job is lost: LAMMPS goes on from files of the set.
{
    my $work = "$tmp/relaunch";
    survives_as('mpirun is killed, on from the files', keep => $work, run => [],
        env => { FTKIT_CHECKPOINT_PERIOD => '2 calls', FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' },
        while => sub { kill_mpirun($work) if await_file("$work/*.ftkit/set-0000000003/manifest") },
        like => qr/restored set \d+ from files/);
}

# An error of LAMMPS itself is no failure: the job ends with its text.
{
    my $bad = write_file("$tmp/bad", "pair_style no/such\n");
    my $j = melt(more => [ '-j', $bad ]);
    ok($j->{rc} != 0 && $j->{log} =~ /^melt: rank \d: .*no\/such/m, 'a wrong input script ends the job')
        or diag("exit code $j->{rc}\n", $j->{log});
    $j = melt(log => 1, run => [ '--no-relaunch', '--log' ], env => \%log);
    ok($j->{rc} != 0 && $j->{log} =~ /the message log needs --again/, 'the message log without --again, too')
        or diag("exit code $j->{rc}\n", $j->{log});
}
done_testing();
