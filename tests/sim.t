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
use Test::More;

my ($code, $out, $err);
my $tmp = scratch();
my $jansson = slurp(build() . '/mpi.mk') =~ /^HAVE_JANSSON := yes$/m;
my $seed = $ENV{FTKIT_TEST_SEED} // 1;
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

sub near
{
    my ($got, $want, $part, $what) = @_;
    return ok(defined $got && abs($got - $want) <= $part * $want, $what)
        || diag('got ', $got // 'nothing', ", not $want");
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
my $lanl = top() . '/../shared/data';
my ($real) = glob "$lanl/*lanl*/*.csv $lanl/*LA-UR*.csv $lanl/*.csv.xz";
SKIP: {
    skip 'the log of Los Alamos is not there', 2 if !$real;
    $j = json('--nodes', 512, '--memory', '30s', '--files', '10min', '--failures', $real,
        '--system', 20);
    is($code, 0, 'the log of Los Alamos, system 20') or diag($err);
    near(protocol($j->{sizes}[0], 'restart')->{counts}{failures}, 1.7, .5, '... its failures');
}

# ---- a run of ftkit, and its simulation --------------------------------------------------------

# The program sleeps in each step, so a busy machine slows it down little.  A run without failures
# tells how long the work takes; the event log of the run with failures tells the costs, and when
# the failures came.
my $runs = 0;
sub run_of
{
    my ($steps, $delay, $log, @kills) = @_;
    my $events = scratch() . '/events' . ++$runs;
    my $r = job(
        program => build() . '/examples/heat2d',
        args => ['-s', $steps, '-d', $delay, '-n', '64x64'],
        spares => scalar @kills,
        timeout => 200,
        run => ['--no-relaunch', $log ? '--log' : (), '--events', $events,
            map { ('--kill', $_) } @kills],
        env => { FTKIT_CHECKPOINT_PERIOD => '100 calls', FTKIT_LEVEL_HDF5_EVERY => '1000 sets',
            FTKIT_LOG_TEAMS => 'rank' });
    is($r->{rc}, 0, @kills ? 'a run with ' . @kills . ' kills' : 'a run without a failure')
        or diag($r->{log});
    my @e = sort { $a->{t} <=> $b->{t} } map { eval { JSON::PP->new->decode($_) } // () }
        map { split /\n/, slurp($_) } glob "$events/*";
    my ($open) = grep { $_->{event} eq 'open' } @e;
    my ($finish) = reverse grep { $_->{event} eq 'finish' } @e;
    my %set; # the slowest rank of each
    $_->{event} eq 'set' && $_->{level} eq 'memory' && $_->{seconds} > ($set{ $_->{set} } // 0)
        and $set{ $_->{set} } = $_->{seconds} for @e;
    my @failed = map { [$_->{t} - $_->{seconds} - $open->{t}, $_->{replaced}[0]] }
        grep { $_->{event} eq 'repair' && $_->{replaced} } @e;
    my $sets = 0;
    $sets += $_ for values %set;
    return { events => $events, seconds => $finish->{t} - $open->{t}, sets => $sets,
        failed => \@failed };
}

# The time of the run and that of its simulation, for checkpoint/restart or the message log.
sub compare
{
    my ($steps, $delay, $log, $part, @kills) = @_;
    my $without = run_of($steps, $delay, $log);
    my $with = run_of($steps, $delay, $log, @kills);
    my $work = $without->{seconds} - $without->{sets};
    is(scalar @{ $with->{failed} }, scalar @kills, '... all of them repaired')
        or return diag(JSON::PP->new->encode($with));
    write_file("$tmp/run.csv", join "\n", 'time,node',
        map({ sprintf '%.6f,%d', @$_ } @{ $with->{failed} }), '');
    my $sim = json('--events', $with->{events}, '--failures', "$tmp/run.csv", '--from-start',
        '--same-node', 0, '--together', 0, '--work', $work, '--period', $work * 100 / $steps,
        '--every', 1000, '--files', '1ms', '--nodes', 4, '--mtbf', '1h', '--job-loss', 0,
        '--spares', scalar @kills, '--team', '1:1:1', '--runs', 1);
    is($code, 0, '... its simulation') or diag($err);
    my $s = protocol($sim->{sizes}[0], $log ? 'log' : 'restart');
    note(sprintf '%s: %.3f s without failures, %.3f s with %d, simulated %.3f s',
        $log ? 'log' : 'restart', $without->{seconds}, $with->{seconds}, scalar @kills,
        $s->{seconds});
    cmp_ok($with->{seconds}, '>', 1.2 * $without->{seconds}, '... the failures cost time');
    return near($s->{seconds}, $with->{seconds}, $part, '... takes as long');
}

SKIP: {
    skip 'needs ULFM and jansson', 10 if ($ENV{MPI_KIND} // 'ulfm') ne 'ulfm' || !$jansson;
    compare(600, 10, $_, .1, 'rank 1 at call 190', 'rank 3 at call 390', 'rank 2 at call 395')
        for 0, 1;
}

done_testing();
