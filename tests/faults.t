#!/usr/bin/perl
# Faults that a user injects: `ftkit run --kill` and `--flip`, and the verdicts of `ftkit test`.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use File::Path qw(make_path);
use JSON::PP qw(decode_json);
use Test::More;

ulfm_only();
asleep_in_waits();
my $tmp = scratch();
my $faulty = build() . '/mpi/faulty';
my $heat2d = build() . '/examples/heat2d';
$ENV{TMPDIR} = $tmp; # for the files of the runs
my %sets = (FTKIT_LEVEL_HDF5_EVERY => '1 sets'); # on a slow machine two kills may need a file

# ---- ftkit run --kill, --flip --------------------------------------------------------

# A run of 150 steps of at least 5 ms with so many kills; the result must be that of no faults.
sub run_with
{
    my ($name, $kills, @faults) = @_;
    my $j = job(n => 3, spares => $kills, program => $faulty, args => ['none', 150, 5, $kills],
        run => \@faults, env => \%sets, timeout => 30);
    ok($j->{rc} == 0 && slurp("$j->{dir}/result") eq "sum 1687875\n", "$name: the result holds")
        or diag($j->{log});
    return $j->{log};
}

my $log = run_with('kills', 3, '--kill', 'rank 1 at 0.05 s', ('--kill', 'rank:1 at call 25') x 2);
my @killed = $log =~ /^ftkit run: killed rank 1 \(process (\d+)\) at/mg;
is(scalar @killed, 3, 'kills: all are told') or diag($log);
my %processes = map { $_ => 1 } @killed;
is(scalar keys %processes, 3, 'kills, two of them due at once: each is of the process that replaced the one before')
    or diag($log);
like($log, qr/again: --kill 'rank 1 at 0\.050 s'$/m, 'kills: the option for a time');
like($log, qr/after call \d+ of .* again: --kill 'rank 1 at call 25'$/m,
    'kills: the option for a call');
cmp_ok(($log =~ /after call (\d+) of .* at call 25'$/m)[0] // 0, '>=', 25,
    'kills: not before the call');

# the same seed: the same ranks at the same planned times
my @random = ('--seed', 5, '--kill', 'random:mtbf=0.05s,count=2');
my @plan = map { join ' ', run_with("seed 5, run $_", 2, @random) =~ /again: (.*)$/mg } 1, 2;
is(scalar(() = $plan[0] =~ /--kill 'rank \d at [\d.]+ s'/g), 2, 'a seed: two kills') or diag($plan[0]);
is($plan[0], $plan[1], 'the same seed: the same kills');

# the first set is the only one
my @flip = ('--flip', 'rank 0 at call 42', '--kill', 'rank 2 at call 43');
{
    local $sets{FTKIT_CHECKPOINT_PERIOD} = '1000000 calls';
    $log = run_with('a flipped bit', 1, '--seed', 3, @flip);
}
like($log, qr/rank 0 \(process \d+\) has flipped bit \d of byte \d+ .* again: --seed 3 --flip/,
    'a flipped bit: it is told');
like($log, qr/own copy: checksum of block .* differs/, 'a flipped bit: the rollback notices');

SKIP: {
    skip 'takes the right to make name spaces', 3 if !nodes_possible();
    my $j = job(n => 4, spares => 1, program => $faulty, args => ['none', 100, 5, 1], timeout => 40,
        run => ['--emulate-nodes', 2, '--kill', 'node:2 at 0.1 s']);
    ok($j->{rc} == 0 && slurp("$j->{dir}/result") eq "sum 667000\n", 'a node: the result holds')
        or diag($j->{log});
    like($j->{log}, qr/killed node 2 \(\d+ processes\)/, 'a node: it is told');
    like($j->{log}, own_mpi() ? qr/2 ranks replaced/ : qr/relaunching/, 'a node: its daemon is lost, too');
}

for my $bad (['rank 3 at 5 s', 'there is no rank 3'], ['rank 1', 'is not a fault'],
    ['rank 1 at call 0', 'is not a fault'], ['rank 1 at -1 s', 'is not a fault'],
    ['random:mtbf=0s', 'is not a fault'], ['node 1 at 5 s', 'only with --emulate-nodes'])
{
    my ($code, undef, $err) = command('run', '-n', 3, '--kill', $bad->[0], 'true');
    ok($code == 2 && $err =~ /\Q$bad->[1]\E/, "--kill '$bad->[0]': usage") or diag($err);
}

# ---- ftkit test ----------------------------------------------------------------------
# No run ends before its kill: heat2d waits for it in step 90, faulty behind its steps.

my ($code, $out, $err);
sub check
{
    my ($want, $what, @args) = @_;
    my $shared = FtkitTest::shared_memory();
    local $ENV{OMPI_MCA_btl_sm_backing_directory} = $shared if $shared;
    ($code, $out, $err) = command('test', '-n', 3, '--period', '5 calls', @args);
    is($code, $want, "$what: exit code") or diag($out, $err);
    return;
}

my @two = ('--kill', 'rank 1 at call 7', '--kill', 'rank 2 at call 13');
check(0, 'a good program', '--regions', '--compare', 'u.bin', '--directory', "$tmp/good", @two, '--', $heat2d, '-n', 32,
    '-s', 100, '-o', 'u.bin');
for my $kill (1, 2) { # the steps take microseconds
    my $call = (7, 13)[$kill - 1];
    like(slurp("$tmp/good/kill-$kill.err"), qr/killed rank $kill .* after call $call of/, "a good program: killed at call $call");
}
like($out, qr/^survived 2 of 2 kills \(2 repaired in the job, 0 by a relaunch\); the results are the same$/m,
    'a good program: the verdict');

# a directory whose path is longer than ftkit has room for
{
    my $deep = $tmp . ('/' . 'd' x 200) x 5;
    make_path($deep);
    check(2, 'a long path', '--directory', "$deep/kept", @two, '--', $heat2d, '-n', 32, '-s', 100);
    like($err, qr/--directory: cannot make \S+: File name too long$/m, 'a long path: the reason');
    ok(!-e "$deep/kept", 'a long path: no directory is left');
}

check(1, 'a forgotten variable', '--compare', 'result', '--json', '--directory', "$tmp/kept",
    '--kill', 'rank 2 at call 14', '--', $faulty, 'forgets', 100, 5, 1);
my $told = eval { decode_json($out) } // {};
is($told->{verdict}, 'differs', 'a forgotten variable: the verdict') or diag($out);
ok((grep { $_ eq 'growth of faulty.c' } @{ $told->{variables} // [] }),
    'a forgotten variable: it is named');
like($told->{runs}[1]{why} // '', qr/^result differs in line 1: 'sum 500250' undisturbed, 'sum/,
    'a forgotten variable: the first difference');
ok(-s "$tmp/kept/kill-1/result", 'a forgotten variable: the files of the runs stay');

check(1, 'chance', '--compare', 'result', '--kill', 'rank 0 at call 9', '--', $faulty, 'chance', 100, 5, 1);
like($out, qr/^reason: two undisturbed runs have different results: .* not deterministic/m,
    'chance: the verdict');
check(0, 'chance within a tolerance', '--compare', 'result', '--tolerance', '1e-4', '--stdout',
    '--kill', 'rank 0 at call 9', '--', $faulty, 'chance', 100, 5, 1);

my @bad = (['plain', qr/^not tested: the program has opened no context/],
    ['never', qr/^not tested: the program never called ftkit_checkpoint/],
    ['world', qr/^not tested: the undisturbed run failed: .* communicates on MPI_COMM_WORLD/]);
for my $b (@bad) {
    check(1, $b->[0], '--', $faulty, $b->[0], 5, 5);
    like($out, $b->[1], "$b->[0]: the verdict");
}

check(1, 'a hanging run', '--timeout', int(4 * pace()), '--kill', 'rank 0 at call 3', '--', $faulty, 'hangs', 20, 5, 1);
like($out, qr/kill-1 .* did not end within its time/, 'a hanging run: the verdict');

check(1, 'no such result', '--compare', 'nothing', '--', $faulty, 'none', 5, 1);
like($out, qr/^not tested: nothing of .* cannot be read: No such file/, 'no such result: named');
check(1, 'a short run', '--kill', 'rank 0 at 50 s', '--', $faulty, 'none', 5, 1);
like($out, qr/^not tested: each run ended before its kill was due$/m, 'a short run: the verdict');

delete $ENV{FTKIT_CHECKPOINT_PERIOD};
for my $usage (['--regions', '--period', '5s'], ['--compare', '/etc/passwd'], ['--tolerance', 'x'],
    ['--kill', 'rank 9 at 1 s'], ['--nothing'])
{
    check(2, "@$usage: usage", @$usage, '--', $faulty);
}

done_testing();
