#!/usr/bin/perl
# `ftkit sim`: values of the literature, failures of a log, a run of ftkit and its simulation, the
# picture, and bad input.  tests/unit/t_model_simulate.c checks the simulation itself.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use JSON::PP;
use List::Util qw(max min sum);
use Test::More;

my ($code, $out, $err);
my $tmp = scratch();
my $jansson = slurp(build() . '/mpi.mk') =~ /^HAVE_JANSSON := yes$/m;
delete $ENV{$_} for grep { /^FTKIT_/ && $_ ne 'FTKIT_GUARD' } keys %ENV;

sub sim_of { ($code, $out, $err) = command('sim', @_); return $out }

sub json
{
    sim_of(@_, '--json');
    return eval { JSON::PP->new->decode($out) } // diag("code $code\n", $out, $err) && {};
}

sub protocol
{
    my ($size, $name, $of) = @_;
    my ($one) = grep { $_->{name} eq $name && (!defined $of || $_->{size} == $of) }
        @{ $size->{protocols} };
    return $one // {};
}

# ---- the thesis: 256K sockets -----------------------------------------------------------------

my @thesis = ('--nodes', 256 * 1024, '--node-mtbf', '10y', '--memory', '3min', '--files', '3min',
    '--repair', '30s', '--relaunch', '30s', '--job-loss', 0, '--multiplicity', 'geometric:1',
    '--spares', 1000, '--runs', 500, '--every', 1000);
my $j = json(@thesis, '--period', '9min');
is($code, 0, '256K sockets') or diag($err);
my $one = protocol($j->{sizes}[0], 'restart');
near($one->{seconds} / 3600, 44.8, .012, '... checkpoint/restart with a period of 9 min');
is("$one->{runs} $one->{stuck} $one->{period}", '500 0 540', '... all runs end');
my ($sum, %times) = (0, %{ $one->{times} });
$sum += $_ for values %times;
near($sum, $one->{seconds}, 1e-6, '... all of the time is explained');
near($times{work}, 86400, 1e-6, '... and has the work');
near($one->{efficiency}, 86400 / $one->{seconds}, 1e-6, '... the efficiency');
cmp_ok($one->{error}, '<', 0.01 * $one->{seconds}, '... the mean is sure to 1 %');
my $parallel = protocol(json(@thesis, '--period', '27min')->{sizes}[0], 'parallel');
near($parallel->{seconds} / 3600, 33.3, .009, '... parallel recovery with 27 min');

# ---- machines ----------------------------------------------------------------------------------

my @job = ('--nodes', 1024, '--node-mtbf', '1y', '--memory', '2s', '--flush', '5min');
my $first = sim_of(@job);
is($code, 0, 'two levels') or diag($err);
is(sim_of(@job), $first, '... the same seed has the same result');
isnt(sim_of(@job, '--seed', 2), $first, '... another seed another one');
like($out, qr/^\* \S.* \+- /m, '... the plan is marked');
my $plain = json(@job)->{sizes}[0];
my ($planned) = grep { $_->{planned} } @{ $plain->{protocols} };
near($planned->{seconds}, $planned->{model}, .01, '... and near its formula');
near($planned->{counts}{failures}, $planned->{seconds} / (365.25 * 86400 / 1024), .05,
    '... failures');
cmp_ok($planned->{counts}{relaunches}, '>', 0, '... some end the job');
is(scalar(grep { $_->{seconds} } @{ $plain->{protocols} }), 7, '... each protocol is simulated');
my $bursts = protocol(json(@job, '--shape', 0.5)->{sizes}[0], 'restart');
my $even = protocol($plain, 'restart');
cmp_ok($bursts->{deviation}, '>', 1.3 * $even->{deviation}, 'failures in groups: runs differ more');
my $few = protocol(json(@job, '--spares', 0)->{sizes}[0], 'restart');
cmp_ok($few->{counts}{relaunches}, '>', 2 * $even->{counts}{relaunches},
    'without spares the job has to start again');
my $shrunk = protocol(json(@job, qw(--spares 0 --short shrink))->{sizes}[0], 'restart');
ok($shrunk->{times}{degraded} > 0 && $even->{times}{degraded} == 0, '... or to shrink');
my $spawned = protocol(json(@job, qw(--spares 0 --short spawn --per-node 2))->{sizes}[0],
    'restart');
cmp_ok($spawned->{times}{degraded}, '>', 100 * $shrunk->{times}{degraded}, '... or to spawn');
my $away = protocol(json(@job, qw(--node-repair 30min --repair-sigma 1))->{sizes}[0], 'restart');
near($away->{away}{mean}, $away->{counts}{spares} / $away->{seconds} * 1800 * exp(.5), .3,
    'nodes under repair');

# ---- sizes and the picture ---------------------------------------------------------------------

my @sizes = ('--sizes', '16384,65536,262144', '--node-mtbf', '10y', '--files', '3min');
$j = json(@sizes, '--svg', "$tmp/sim.svg");
is($code, 0, '--sizes') or diag($err);
is(join(' ', map { $_->{nodes} } @{ $j->{sizes} }), '16384 65536 262144', '... three sizes');
my @falls = map { protocol($_, 'restart')->{efficiency} } @{ $j->{sizes} };
ok($falls[0] > $falls[1] && $falls[1] > $falls[2], '... a larger machine has less efficiency')
    or diag("@falls");
my $svg = slurp("$tmp/sim.svg");
like($svg, qr/\A<svg xmlns="[^"]+" .*<\/svg>\n\z/s, '... a picture');
my @points = $svg =~ /checkpoint\/restart, \d+ nodes: ([\d.]+) %/g;
is(scalar @points, 3, '... with a point for each size');
near($points[$_] / 100, $falls[$_], 1e-3, '... to scale') for 0 .. 2;
if (system('command -v xmllint >/dev/null 2>&1') == 0) {
    is(system('xmllint', '--noout', "$tmp/sim.svg"), 0, '... of correct XML');
}
sim_of(@sizes);
like($out, qr/^checkpoint\/restart\n +16384 nodes, .* %\n +65536 nodes, /m, '... the text');
sim_of(@sizes, '--svg', "$tmp/none/sim.svg");
ok($code == 1 && $err =~ /--svg .*sim\.svg: No such file or directory$/m,
    '... a picture that cannot be written') or diag("$code: $err");
sim_of('--nodes', 1048576, '--node-mtbf', '10y', '--memory', '3min', '--files', '3min', '--runs',
    500);
is($code, 0, 'a million nodes, 500 runs') or diag($err);

my ($example) = slurp(top() . '/docs/sim.md') =~ /^## Example\n\n    ftkit ([^\n]+)\n\n(.*?)\nThe star/ms
    ? "$1\n$2" : '';
my ($line, $shown) = split /\n/, $example, 2;
sim_of(grep { $_ ne 'sim' } split ' ', $line);
is($shown =~ s/^    //mgr, $out, 'the example of docs/sim.md is what the command prints');

# ---- failures of a log -------------------------------------------------------------------------

write_file("$tmp/three.csv", "time,node,repair\n100,a,\n1000,b,50\n1900,a,\n");
my @short = ('--nodes', 4, '--work', '2000s', '--memory', '10s', '--files', '10s', '--period',
    '200s', '--every', 100, '--repair', '5s', '--job-loss', 0, '--same-node', 0, '--spares', 4,
    '--team', '1:1:1', '--runs', 1);
$j = json(@short, '--failures', "$tmp/three.csv", '--from-start', '--mtbf', '15min');
is($code, 0, 'failures of a log') or diag($err);
$one = protocol($j->{sizes}[0], 'restart');
# 2000 s of work, 9 sets; lost: 100 s, then 1000 - (105 + 4 * 210) = 55 s, then the same
near($one->{seconds}, 2000 + 90 + 100 + 55 + 55 + 15, 1e-9, '... each at its time');
is($one->{counts}{failures}, 3, '... all of them');
is($one->{away}{most}, 2, '... a node that was repaired, and one that was not');
is(protocol($j->{sizes}[0], 'replicas', 2)->{seconds}, undef, '... no replicas');
$j = json(@short, '--failures', "$tmp/three.csv", '--runs', 100, '--work', '1d',
    '--spares', 1000);
$one = protocol($j->{sizes}[0], 'restart');
near($one->{counts}{failures}, $one->{seconds} / 900, .05,
    '... from a random moment, again and again');
near($j->{sizes}[0]{mtbf}, 900 * 2 / 4, 1e-9, '... and the MTBF of a node is that of the log');
command('failures', '--generate', 'weibull:0.7,1h', '--events', 100);
write_file("$tmp/made.csv", slurp("$tmp/stdout"));
$j = json('--nodes', 512, '--files', '30s', '--failures', "$tmp/made.csv", '--same-node', 0);
ok($code == 0 && protocol($j->{sizes}[0], 'restart')->{counts}{failures} > 0, '... a made one')
    or diag($err);
my $lanl = test_data('LA-UR-05-7318-failure-data-1996-2005.csv.xz');
SKIP: {
    skip 'the log of Los Alamos is not there', 2 if !-r $lanl;
    $j = json('--nodes', 512, '--memory', '30s', '--files', '10min', '--failures', $lanl,
        '--system', 20);
    is($code, 0, 'the log of Los Alamos, system 20') or diag($err);
    near(protocol($j->{sizes}[0], 'restart')->{counts}{failures}, 1.7, .5, '... its failures');
}

# ---- a run of ftkit, and its simulation --------------------------------------------------------

# A period of compute time, from the events of rank 0: the mean of those without a failure, and
# the longest of them divided by the shortest.
sub period_of
{
    my @e = @_;
    my ($begin, @all);
    for my $e (grep { $_->{rank} == 0 } @e) {
        my $is_set = $e->{event} eq 'set' && $e->{level} eq 'memory';
        push @all, $e->{t} - $e->{seconds} - $begin if $is_set && defined $begin;
        $begin = $e->{t} if $is_set || $e->{event} eq 'restore' && $e->{set} > 0;
        undef $begin if $e->{event} eq 'repair';
    }
    return (sum(@all) / @all, max(@all) / min(@all));
}

# The time of a run with kills and that of its simulation, for checkpoint/restart or the message
# log.  The event log of the run tells its costs, its speed, and when the failures came.  The kills
# are in the middle of periods: a failure near a set may be noticed after the set, and another
# amount of work is lost then.  One such period is less than a tenth of the run.
sub compare
{
    my ($steps, $calls, $log, $part, @kills) = @_;
    my $events = scratch() . "/events$log";
    my $r = job(
        program => build() . '/examples/heat2d',
        args => ['-s', $steps, '-d', 40, '-n', '64x64'],
        spares => scalar @kills,
        timeout => 200,
        run => ['--no-relaunch', $log ? '--log' : (), '--events', $events,
            map { ('--kill', $_) } @kills],
        env => { FTKIT_CHECKPOINT_PERIOD => "$calls calls", FTKIT_LEVEL_HDF5_EVERY => '1000 sets',
            FTKIT_LOG_TEAMS => 'rank' });
    is($r->{rc}, 0, 'a run with ' . @kills . ' kills' . ($log ? ', with the log' : ''))
        or diag($r->{log});
    my @e = events($events);
    my ($open) = grep { $_->{event} eq 'open' } @e;
    my ($finish) = reverse grep { $_->{event} eq 'finish' } @e;
    my @failed = map { sprintf('%.6f,%d', $_->{t} - $_->{seconds} - $open->{t}, $_->{replaced}[0]) }
        grep { $_->{event} eq 'repair' && $_->{replaced} } @e;
    is(scalar @failed, scalar @kills, '... all of them repaired') or return;
    write_file("$tmp/run.csv", join "\n", 'time,node', @failed, '');
    my ($period, $ratio) = period_of(@e);
    my ($work, $seconds) = ($period * $steps / $calls, $finish->{t} - $open->{t});
    my $sim = json('--events', $events, '--failures', "$tmp/run.csv", '--from-start',
        '--same-node', 0, '--together', 0, '--work', $work, '--period', $period, '--every', 1000,
        '--files', '1ms', '--nodes', 4, '--mtbf', '1h', '--job-loss', 0, '--spares', scalar @kills,
        '--team', '1:1:1', '--runs', 1);
    is($code, 0, '... its simulation') or diag($err);
    my $s = protocol($sim->{sizes}[0], $log ? 'log' : 'restart');
    note(sprintf '%s: %.3f s of work, %.3f s with %d failures, simulated %.3f s; periods differ %.2f x',
        $log ? 'log' : 'restart', $work, $seconds, scalar @kills, $s->{seconds}, $ratio);
    cmp_ok($seconds, '>', 1.2 * $work, '... the failures cost time');
    SKIP: {
        skip 'the speed of the machine changes too much during the run', 1 if $ratio > 1.25;
        near($s->{seconds}, $seconds, $part, '... takes as long');
    }
    return;
}

SKIP: {
    skip 'needs ULFM and jansson', 10 if ($ENV{MPI_KIND} // 'ulfm') ne 'ulfm' || !$jansson;
    compare(250, 25, $_, .1, 'rank 1 at call 40', 'rank 3 at call 90', 'rank 2 at call 140',
        'rank 1 at call 190') for 0, 1;
}

# ---- what is not possible ----------------------------------------------------------------------

sim_of('--nodes', 1000, '--mtbf', '20s', '--memory', '1s', '--files', '10s');
ok($code == 1 && $err =~ /^ftkit sim: no progress is possible: a failure comes every 20 s/,
    'no progress') or diag("code $code\n", $err);
sim_of('--nodes', 4, '--files', '1s', '--failures', "$tmp/none.csv");
ok($code == 1 && $err =~ /none\.csv: No such file/, 'no log') or diag("code $code\n", $err);
write_file("$tmp/one.csv", "time,node\n0,a\n");
sim_of('--nodes', 4, '--files', '1s', '--failures', "$tmp/one.csv");
ok($code == 1 && $err =~ /one\.csv: there is no time between failures/, 'a log of one failure')
    or diag("code $code\n", $err);
for my $case ([[], qr/give one of --node-mtbf or --mtbf/],
    [[qw(--runs 0)], qr/--runs: '0' is not a whole number from 1/],
    [[qw(--seed -1)], qr/--seed: '-1' is not a number of 0 to/],
    [[qw(--shape 0)], qr/--shape: '0' is not a number from 0\.1/],
    [[qw(--sizes 4,2)], qr/--sizes: '4,2' is not a list such as .* in ascending order/],
    [[qw(--sizes 4,)], qr/'4,' is not a list/], [[qw(--sizes 4x)], qr/'4x' is not a list/],
    [[qw(--short wait)], qr/--short: 'wait' is not end, spawn or shrink/],
    [[qw(--sizes 4,8 --nodes 4)], qr/--sizes and --nodes exclude each other/],
    [[qw(--sizes 4,8 --mtbf 1h)], qr/--sizes needs --node-mtbf/],
    [[qw(--sizes 4,8 --node-mtbf 1h --from-start)], qr/--sizes needs no --from-start/],
    [[qw(--nodes 4 --from-start)], qr/--from-start has no meaning without --failures/],
    [[qw(--nodes 4 --system 20)], qr/--system has no meaning without --failures/],
    [[qw(--shape 2 --failures x)], qr/--shape and --failures exclude each other/],
    [[qw(--every 2)], qr/--every has no meaning without --period/],
    [[qw(--repair-sigma 1)], qr/--repair-sigma needs --node-repair/],
    [[qw(--nodes 4 --mtbf 1h)], qr/--files or --flush is missing/],
    [[qw(--mtbf 1h x)], qr/'x' is one argument too many/],
    [[qw(--spars 1)], qr/no option --spars: did you mean --spares\?/])
{
    my ($args, $want) = @$case;
    sim_of(@$args);
    ok($code == 2 && $err =~ $want && $out eq '', "bad input: @$args")
        or diag("code $code\n", $err);
}

done_testing();
