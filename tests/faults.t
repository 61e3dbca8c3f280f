#!/usr/bin/perl
# Faults that a user injects: `ftkit run --kill` and `--flip`.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
my $faulty = build() . '/mpi/faulty';
my %sets = (FTKIT_LEVEL_HDF5_ENABLED => 'false');

# ---- ftkit run --kill, --flip --------------------------------------------------------

# A run of 100 steps of at least 5 ms with faults; the result must be that of no faults.  All faults
# come early, so that a slow machine misses none.
sub run_with
{
    my ($name, @faults) = @_;
    my $j = job(n => 3, spares => 2, program => $faulty, args => ['none', 100, 5],
        run => ['--no-relaunch', @faults], env => \%sets, timeout => 30);
    ok($j->{rc} == 0 && slurp("$j->{dir}/result") eq "sum 500250\n", "$name: the result holds")
        or diag($j->{log});
    return $j->{log};
}

my $log = run_with('two kills', '--kill', 'rank 1 at 0.05 s', '--kill', 'rank:1 at call 25');
my @killed = $log =~ /^ftkit run: killed rank 1 \(process (\d+)\) at/mg;
is(scalar @killed, 2, 'two kills: both are told') or diag($log);
isnt($killed[0], $killed[1], 'two kills: the second process is the one that replaced the first');
like($log, qr/again: --kill 'rank 1 at 0\.050 s'$/m, 'two kills: the option for a time');
like($log, qr/after call \d+ of .* again: --kill 'rank 1 at call 25'$/m,
    'two kills: the option for a call');
cmp_ok(($log =~ /after call (\d+) of .* at call 25'$/m)[0] // 0, '>=', 25,
    'two kills: not before the call');

# the same seed: the same ranks at the same planned times
my @random = ('--seed', 5, '--kill', 'random:mtbf=0.05s,count=2');
my @plan = map { join ' ', run_with("seed 5, run $_", @random) =~ /again: (.*)$/mg } 1, 2;
is(scalar(() = $plan[0] =~ /--kill 'rank \d at [\d.]+ s'/g), 2, 'a seed: two kills') or diag($plan[0]);
is($plan[0], $plan[1], 'the same seed: the same kills');

my @flip = ('--flip', 'rank 0 at call 12', '--kill', 'rank 2 at call 13');
$log = run_with('a flipped bit', '--seed', 3, @flip);
like($log, qr/rank 0 \(process \d+\) has flipped bit \d of byte \d+ .* again: --seed 3 --flip/,
    'a flipped bit: it is told');
like($log, qr/own copy: checksum of block .* differs/, 'a flipped bit: the rollback notices');

SKIP: {
    skip 'takes the right to make name spaces', 3 if !nodes_possible();
    my $j = job(n => 4, spares => 1, program => $faulty, args => ['none', 100, 5], timeout => 40,
        run => ['--emulate-nodes', 2, '--kill', 'node:2 at 0.1 s']);
    ok($j->{rc} == 0 && slurp("$j->{dir}/result") eq "sum 667000\n", 'a node: the result holds')
        or diag($j->{log});
    like($j->{log}, qr/killed node 2 \(\d+ processes\)/, 'a node: it is told');
    like($j->{log}, qr/relaunching/, 'a node: its daemon is lost, too');
}

for my $bad (['rank 3 at 5 s', 'there is no rank 3'], ['rank 1', 'is not a fault'],
    ['rank 1 at call 0', 'is not a fault'], ['rank 1 at -1 s', 'is not a fault'],
    ['random:mtbf=0s', 'is not a fault'], ['node 1 at 5 s', 'only with --emulate-nodes'])
{
    my ($code, undef, $err) = command('run', '-n', 3, '--kill', $bad->[0], 'true');
    ok($code == 2 && $err =~ /\Q$bad->[1]\E/, "--kill '$bad->[0]': usage") or diag($err);
}

done_testing();
