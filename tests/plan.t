#!/usr/bin/perl
# `ftkit plan`: values of the literature, the origin of every input, costs from an event log, plans
# that are not possible, and bad input.  tests/unit/t_model_*.c check the formulas.
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
my $events = top() . '/tests/data/events';
my $jansson = slurp(build() . '/mpi.mk') =~ /^HAVE_JANSSON := yes$/m;
delete $ENV{$_} for grep { /^FTKIT_/ && $_ ne 'FTKIT_GUARD' } keys %ENV;

sub plan_of { ($code, $out, $err) = command('plan', @_); return $out }

sub json
{
    plan_of(@_, '--json');
    return eval { JSON::PP->new->decode($out) } // diag("code $code\n", $out, $err) && {};
}

sub input
{
    my ($j, $name) = @_;
    my ($one) = grep { $_->{name} eq $name } @{ $j->{inputs} };
    return $one ? join ' ', grep {defined} @{$one}{qw(value from samples)} : 'none';
}

sub protocol
{
    my ($j, $name, $size) = @_;
    my ($one) = grep { $_->{name} eq $name && (!defined $size || $_->{size} == $size) }
        @{ $j->{protocols} };
    return $one // {};
}

# ---- one level: the values of Meneses 2013 for 256K sockets ----------------------------------

my $nodes = 256 * 1024;
my @thesis = ('--nodes', $nodes, '--node-mtbf', '10y', '--files', '3min', '--relaunch', '30s');
my $j = json(@thesis, '--job-loss', 0);
is($code, 0, '256K sockets') or diag($err);
near(protocol($j, 'restart')->{efficiency}, .511, .005, '... efficiency of checkpoint/restart');
near($j->{plan}{levels}[0]{period}, 60 * 7.84, .005, '... its period');
is(scalar @{ $j->{plan}{levels} }, 1, '... one level');
is(scalar @{ $j->{schemes} }, 0, '... no scheme without level.memory');
my $sum = 0;
$sum += $j->{plan}{$_} for qw(work log sets redo restart);
near($sum, 1, 1e-6, '... all of the time is explained');
is($j->{plan}{limit}, 'redo', '... and what limits it') or diag($out);

# the protocols differ where the level of memory keeps the log
@thesis = ('--nodes', $nodes, '--node-mtbf', '10y', '--memory', '3min', '--files', '3min',
    '--repair', '30s', '--relaunch', '30s', '--job-loss', 0, '--multiplicity', 'geometric:1');
$j = json(@thesis);
near(protocol($j, 'log', 1)->{efficiency}, .517, .005, 'message log');
near(protocol($j, 'parallel', 8)->{efficiency}, .698, .005, 'parallel recovery');
near(protocol($j, 'log')->{seconds} / protocol($j, 'restart')->{seconds}, .988, .005, '... ratio');
is($j->{plan}{protocol}, 'log', 'the plan has the faster protocol of those in ftkit');
is(json(@thesis, '--team', '1:1.5:1')->{plan}{protocol}, 'restart', '... not a log that is slow');
$j = json(@thesis, '--team', '1:1.05:1.2', '--team', '8:1.01:1.2');
is("$j->{plan}{protocol} $j->{plan}{size}", 'log 8', '... of two sizes of teams the better one');
$j = json(@thesis, '--energy');
near(protocol($j, 'log')->{joules} / protocol($j, 'restart')->{joules}, .837, .03, '--energy');

# survivability: table 7.3
$j = json('--nodes', 968, '--node-mtbf', '5y', '--memory', 2, '--files', '30s',
    '--acquaintances', 16, '--multiplicity', 'zipf:3.2');
near($j->{schemes}[0]{survives}, .9992, 2e-4, 'survivability of pairs');
near($j->{schemes}[0]{survives_log}, .9854, 2e-4, '... with a log');
cmp_ok($j->{schemes}[1]{survives}, '<', $j->{schemes}[0]{survives}, '... a ring survives less');
$j = json('--nodes', 64, '--mtbf', '1d', '--memory', 2, '--files', '30s', '--group', '8:2');
is(join(' ', map { $_->{group} // 0 } @{ $j->{schemes} }), '0 0 8', '--group: one parity group');

# replicas: table 4 of Rezaei et al. has 252.28 h for 64000 nodes
$j = json('--nodes', 64000, '--node-mtbf', '50y', '--files', '30s', '--work', '200h',
    '--clone', '10min');
near(protocol($j, 'replicas-cloned', 2)->{seconds} / 3600, 252.28, 1e-4, 'replicas with cloning');

# ---- a communication matrix --------------------------------------------------------------------

# 8 nodes of 2 ranks, in a ring of ranks: few bytes between large teams
sub matrix
{
    my ($name, $ranks, $next) = @_;
    my @pairs = sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] }
        map { my $r = $_; map {[$r, $_]} $next->($r) } 0 .. $ranks - 1;
    open my $m, '>', "$tmp/$name" or die "$name: $!\n";
    print $m "# ftkit communication matrix 1\n# context: ring\n# ranks: $ranks\n"
        . "from,to,messages,bytes\n", map({"$_->[0],$_->[1],1,1000\n"} @pairs),
        '# end: ', scalar @pairs, " pairs\n";
    close $m or die "$name: $!\n";
    return "$tmp/$name";
}
my $ring = matrix('ring.csv', 16, sub { (($_[0] + 1) % 16, ($_[0] + 15) % 16) });
my @eight = ('--nodes', 8, '--mtbf', '20min', '--memory', '30s', '--files', '3min');
my $metis = slurp(build() . '/mpi.mk') =~ /^HAVE_METIS := yes$/m;
SKIP: {
    skip 'built without METIS', 8 if !$metis;
    $j = json(@eight, '--matrix', $ring);
    is($code, 0, '--matrix') or diag($err);
    my @teams = grep { $_->{name} eq 'team' } @{ $j->{inputs} };
    is(join(' ', map { "$_->{value}:$_->{between}" } @teams), '1:0.5 2:0.25 4:0.125',
        '... the share of the bytes between teams');
    is(join(' ', map { $_->{slowdown} } @teams), '1.05 1.025 1.0125', '... scales the slowdown');
    is(input($j, 'acquaintances'), '2 measured 1', '... and a node has two neighbours');
    is(input(json(@eight, '--matrix', $ring, '--acquaintances', 5), 'acquaintances'), '5 given',
        '... what is given comes first');
    $j = json(@eight, '--matrix', $ring, '--team', '4:1.01:2');
    is(join(' ', map { "$_->{value}:$_->{slowdown}:$_->{from}" }
                grep { $_->{name} eq 'team' } @{ $j->{inputs} }),
        '4:1.01:given 1:1.04:assumed 2:1.02:assumed', '... from the size that is given');
    my @often = ('--nodes', 8, '--node-mtbf', '1d', '--memory', '3min', '--files', '20min',
        '--job-loss', 0, '--multiplicity', 'geometric:1');
    plan_of(@often, '--matrix', $ring);
    my $teams = "ftkit teams --teams 2 --ranks-per-node 2 $ring";
    like($out, qr/^  ; team_file = the output of: \Q$teams\E$/m,
        '... and the text names the command for the teams');
    $j = json('--nodes', 1, '--mtbf', '1d', '--files', '3min', '--matrix', $ring);
    is(join(' ', map { "$_->{value}:$_->{between}" }
                grep { $_->{name} eq 'team' } @{ $j->{inputs} }), '1:0', '... of one node');
}
plan_of('--nodes', 3, '--mtbf', '1d', '--files', '3min', '--matrix', $ring);
ok($code == 1 && $err =~ /ring\.csv: the matrix has 16 ranks, which 3 nodes cannot share evenly$/m,
    'a matrix that does not fit') or diag("$code: $err");
plan_of('--nodes', 4, '--mtbf', '1d', '--files', '3min', '--matrix', "$tmp/none.csv");
ok($code == 1 && $err =~ /none\.csv: No such file/, 'no matrix') or diag("$code: $err");
plan_of('--nodes', 4, '--mtbf', '1d', '--files', '3min', '--matrix', $0);
ok($code == 1 && $err =~ /plan\.t:1: /, 'a file that is no matrix') or diag("$code: $err");

# ---- the picture -------------------------------------------------------------------------------

plan_of(@eight, '--svg', "$tmp/plan.svg");
is($code, 0, '--svg') or diag($err);
my $svg = slurp("$tmp/plan.svg");
like($svg, qr/\A<svg xmlns="[^"]+" .*<\/svg>\n\z/s, '... a picture');
is(scalar(() = $svg =~ /<rect[^>]*><title>work: /g) + scalar(() = $svg =~ />no progress</g), 7,
    '... with a bar for each protocol, or its words');
like($svg, qr/failure every 20 min</, '... and the MTBF');
my ($share) = $svg =~ /<title>work: ([\d.]+) %/;
near($share, 100 * protocol(json(@eight), 'restart')->{efficiency}, 1e-3, '... to scale');
if (system('command -v xmllint >/dev/null 2>&1') == 0) {
    is(system('xmllint', '--noout', "$tmp/plan.svg"), 0, '... of correct XML');
}
plan_of(@eight, '--svg', "$tmp/none/plan.svg");
ok($code == 1 && $err =~ /--svg .*plan\.svg: No such file or directory$/m,
    '... that cannot be written') or diag("$code: $err");

# ---- levels, spares --------------------------------------------------------------------------

my @job = ('--nodes', 1024, '--node-mtbf', '5y', '--memory', '2s', '--flush', '5min');
$j = json(@job);
is(join(' ', map { $_->{level} } @{ $j->{plan}{levels} }), 'memory files', 'two levels');
my ($memory, $files) = @{ $j->{plan}{levels} };
near($files->{period}, $memory->{period} * $files->{every}, 1e-6,
    '... the upper one is a multiple');
near($memory->{share} + $files->{share}, 1, 1e-6, '... for all failures');
near($memory->{period}, $memory->{daly}, .1, '... near the period of Daly');
is(input($j, 'memory'), '2 given', 'inputs: given');
is(input($j, 'files'), '30 assumed', '... assumed: a tenth of the flush');
is(input($j, 'local'), 'none', '... not there');
$j = json(@job, '--files', '1ms');
cmp_ok($j->{plan}{levels}[1]{period}, '>=', 300, 'no flush begins before the end of the last one');
plan_of('--nodes', 1, '--mtbf', '1d', '--memory', '2s', '--files', '30s');
like($out, qr/^Job: 1 node, .*^  memory  not used: there is no other node for copies$/ms,
    'one node has no level in memory');
like($out, qr/^  scheme = none$/m, '... which the configuration says');
$j = json(@job, '--local', '10min');
is($j->{plan}{levels}[1]{every}, 0, 'a level that costs too much is not used');
is(json(@job, '--job-loss', 1)->{plan}{spares}, 0, 'no spares when no node is lost');
my $for_ever = json(@job, '--work', '100d')->{plan}{spares};
my $repaired = json(@job, '--work', '100d', '--node-repair', '1d')->{plan}{spares};
cmp_ok($for_ever, '>', $repaired, 'fewer spares when nodes are repaired');
cmp_ok(json(@job, '--work', '100d', '--risk', '1e-6')->{plan}{spares}, '>', $for_ever,
    '... more for less risk');

plan_of(@job);
is($code, 0, 'the plan as text') or diag($err);
is($err, '', '... without messages');
like($out, qr/^Job: 1024 nodes, 24 h of work, a failure every 42 h 48 min$/m, '... the job');
like($out, qr/^  memory +2 s +given$/m, '... inputs');
like($out, qr/^\* checkpoint\/restart +98\.75 %/m, '... protocols');
like($out, qr/^  memory  every 14 min 19 s, for 85 % of the failures/m, '... periods');
like($out, qr/<- the limit$/m, '... the limit');
my ($ini) = $out =~ /^Configuration\n(.*)\z/ms;
open my $f, '>', "$tmp/plan.ini" or die "plan.ini: $!\n";
print $f $ini =~ s/^  //mgr;
close $f or die "plan.ini: $!\n";
($code, $out, $err) = command('config', "$tmp/plan.ini");
is($code, 0, '... a configuration that ftkit reads') or diag($err, $ini);
like($out, qr/^# From: \Q$tmp\E\/plan\.ini:\d+\nevery = 9 sets$/m,
    '... and has the periods of the plan')
    or diag($ini);
for my $more (['--mtbf', '100y', '--local', '1h'], ['--mtbf', '2min', '--memory', '1ms',
        '--local', '5ms'], ['--mtbf', '3h', '--memory', '3min', '--job-loss', 0,
        '--multiplicity', 'geometric:1'])
{
    plan_of('--nodes', 64, '--memory', '2s', '--files', '1s', @$more);
    ($ini) = $out =~ /^Configuration\n(.*)\z/ms;
    open $f, '>', "$tmp/more.ini" or die "more.ini: $!\n";
    print $f $ini =~ s/^  //mgr;
    close $f or die "more.ini: $!\n";
    ($code, $out, $err) = command('config', "$tmp/more.ini");
    is($code, 0, "... also of @$more") or diag($err, $ini);
}

# the table of docs/plan.md has every assumed value, and no other
my %page = slurp(top() . '/docs/plan.md') =~ /^\| `--([a-z-]+)`[^|]* \| ([^|]+?) \| /mg;
delete @page{qw(nodes memory)};
$j = json('--nodes', 1024, '--node-mtbf', '5y', '--files', '30s');
my %assumed = map { ($_->{name} => 1) } grep { $_->{from} eq 'assumed' } @{ $j->{inputs} };
delete @assumed{qw(idle flush)};
$assumed{files} = 1;
delete $page{flush};
is(join(' ', sort keys %page), join(' ', sort keys %assumed), 'docs/plan.md names what is assumed');
my %seconds = (relaunch => 120, repair => 30, clone => 120, work => 86400);
is(input($j, $_), "$seconds{$_} assumed", "... $_") for sort keys %seconds;
is(input($j, $_), "$page{$_} assumed", "... $_")
    for grep { !$seconds{$_} && $page{$_} =~ /^[\d.]+$/ } sort keys %page;

my ($example) = slurp(top() . '/docs/plan.md') =~ /^    (Plan:.*?)\n\n(?!    )/ms;
plan_of(@job);
my ($shown) = $out =~ /^(Plan:.*)\z/ms;
if (own_mpi()) {
    local $ENV{PRTE_MCA_errmgr_dvm_survive_nodes} = 0;
    plan_of(@job);
    like($out, qr/^  A lost node: this mpirun ends the job; .* place = shared$/m,
        'an MPI that ends the job when a node is lost');
    is(json(@job)->{plan}{repairs_nodes}, JSON::PP::false, '... in JSON');
    delete $ENV{PRTE_MCA_errmgr_dvm_survive_nodes};
    is(json(@job)->{plan}{repairs_nodes}, JSON::PP::true, '... and one that goes on');
} else {
    $shown =~ s/^  A lost node: .*\n//m;
    $example =~ s/^ *A lost node: .*\n//m;
}
is($example =~ s/^    //mgr, $shown =~ s/\n\z//r,
    'the example of docs/plan.md is what the command prints');

# ---- costs from a run ------------------------------------------------------------------------

SKIP: {
    skip 'built without jansson', 6 if !$jansson;
    $j = json('--events', $events, '--mtbf', '2h');
    is($code, 0, '--events') or diag($err);
    is(input($j, 'nodes'), '2 measured 1', '... nodes');
    like(input($j, $_), qr/^[\d.e-]+ measured \d+$/, "... $_") for qw(memory flush repair relaunch);
    my ($count) = input($j, 'repair') =~ / (\d+)$/;
    is($count, 2, '... of two repairs');
    is(input(json('--events', $events, '--mtbf', '2h', '--memory', '7s'), 'memory'), '7 given',
        '... what is given comes first');
}

# The event log of above, in which ranks have replayed: rank => [SECONDS, FORWARD] in JSON.
sub with_replays
{
    my ($mode, %replay) = @_;
    my $dir = sprintf('%s/replays%d', $tmp, ++our $logs);
    mkdir($dir) or die "$dir: $!\n";
    for my $node (0, 1) {
        my @lines = split(/^/m, slurp("$events/node$node.jsonl"));
        for my $line (@lines) {
            $line =~ s/"mode":"team"/"mode":"$mode"/;
            my ($begin, $rank) = $line =~ /^(\{.*"rank":(\d+),.*)"event":"restore","set":\d/ or next;
            my $r = $line !~ /"from":"files"/ && $replay{$rank} or next;
            $line .= $begin . qq("event":"replayed","set":4,) . ($r->[0] eq '' ? '' : qq("seconds":$r->[0],)) . qq("forward":$r->[1],"calls":5}\n);
        }
        write_file("$dir/node$node.jsonl", join('', @lines));
    }
    return $dir;
}

sub team
{
    my ($j, $nodes) = @_;
    my ($one) = grep { $_->{name} eq 'team' && (!$nodes || $_->{value} == $nodes) } @{ $j->{inputs} };
    return join ' ', map { $_ // 'none' } @{$one}{qw(value slowdown speed speed_from replays)};
}

SKIP: {
    skip 'built without jansson', 11 if !$jansson;
    # one of ranks 2, 3, 6 and 7 is too short, and one has no times
    my @measured = ('--mtbf', '2h', '--events', with_replays('team', 2 => [1, 2.5], 3 => [1, 3.5], 6 => [0.001, 0.09], 7 => [-1, 9]));
    is(team(json(@measured)), '1 1.05 3 measured 2', 'the speed of the replays: all forward by all replays');
    plan_of(@measured);
    like($out, qr/^  team +1:1\.05:3 +assumed, phi measured in 2 replays of 0\.1 s or more \(1 shorter than 0\.1 s left out\)$/m,
        '... and its origin');
    near(protocol(json(@measured), 'log')->{efficiency}, protocol(json('--mtbf', '2h', '--events', $events, '--team', '1:1.05:3'), 'log')->{efficiency},
        1e-9, '... which the plan uses');
    is(team(json(@measured, '--team', '1:1.1')), '1 1.1 3 measured 2', '... also for a team without PHI');
    is(team(json(@measured, '--team', '1:1.1:2')), '1 1.1 2 given none', '... but not in place of a given one');
    is(team(json(@measured, '--team', '1:1.1:2', '--team', '2:1.05'), 2), '2 1.05 3 measured 2', '... which is of its team alone');
    is(team(json('--mtbf', '2h', '--events', $events)), '1 1.05 1.2 assumed none', 'without replays the speed is assumed');
    plan_of('--mtbf', '2h', '--events', $events, '--team', '1:1.1');
    like($out, qr/^  team +1:1\.1:1 +given, phi assumed$/m, '... and 1 for a team without PHI');
    is(team(json('--mtbf', '2h', '--events', with_replays('team', 2 => [0, 2], 3 => ['"x"', 2], 6 => ['1e300', 2], 7 => ['', 2]))),
        '1 1.05 1.2 assumed none', 'replays without times, or with none that can be, show no speed');
    is(team(json('--mtbf', '2h', '--events', with_replays('team', 2 => [1, -2], 3 => [1, '"x"'], 6 => [1, 'null'], 7 => [1, 0]))),
        '1 1.05 1.2 assumed none', '... nor without times of before');
    is(team(json('--mtbf', '2h', '--events', with_replays('global', 2 => [1, 2.5], 3 => [1, 3.5]))), '1 1.05 1.2 assumed none',
        '... nor without the message log');
}

# ---- what is not possible --------------------------------------------------------------------

my @never = ('--nodes', 1000, '--mtbf', '20s', '--memory', '1s', '--files', '10s');
plan_of(@never);
is($code, 1, 'no progress: exit code 1');
like($err,
    qr/^ftkit plan: no progress is possible: a failure comes every 20 s, and one costs 44\.7 s/,
    '... and why');
like($out, qr/^  checkpoint\/restart +no progress$/m, '... and which');
unlike($out, qr/^Plan:/m, '... no plan');
$j = json(@never);
is($code, 1, '... also with --json');
ok(exists $j->{plan}{feasible} && !$j->{plan}{feasible}, '... which says so');
$j = json('--nodes', 4, '--mtbf', '5y', '--work', '1s', '--files', '10min');
ok($code == 0 && $j->{plan}{efficiency} > 0.999, 'work that is shorter than a set') or diag($err);
plan_of('--nodes', 4, '--mtbf', '1d', '--files', '1s', '--flush', '2d');
ok($code == 1 && $err =~ /a flush takes 2\.0 days|a flush takes 48 h|longer than the work/,
    'a flush longer than the work')
    or diag($err);

for my $case ([[], qr/give one of --node-mtbf or --mtbf/],
    [[qw(--mtbf 1h --node-mtbf 1y)], qr/give only one of --node-mtbf and --mtbf/],
    [[qw(--mtbf 1h)], qr/--nodes is missing/],
    [[qw(--mtbf 1h --nodes 4)], qr/--files or --flush is missing/],
    [[qw(--mtbf 0)], qr/--mtbf: '0' is not a time such as 90s or 10y, more than 0/],
    [[qw(--mtbf nan)], qr/'nan' is not a time/], [[qw(--mtbf inf)], qr/'inf' is not a time/],
    [[qw(--mtbf 1w)], qr/'1w' is not a time/], [[qw(--mtbf -1s)], qr/'-1s' is not a time/],
    [[qw(--nodes 1.5)], qr/--nodes: '1\.5' is not a whole number from 1 to/],
    [[qw(--nodes 0)], qr/'0' is not a whole number/],
    [[qw(--job-loss 1.1)], qr/--job-loss: '1\.1' is not a number from 0 to 1/],
    [[qw(--multiplicity poisson:1)], qr/not geometric:P .* nor zipf:S/],
    [[qw(--multiplicity geometric:0)], qr/'geometric:0' is not/],
    [[qw(--group 8:8)], qr/'8:8' is not G or G:M/], [[qw(--team 4)], qr/'4' is not N:MU/],
    [[qw(--team 4:0.9)], qr/with MU 1 or more/],
    [[map { ('--team', '1:1.1') } 1 .. 9], qr/--team: at most 8/],
    [[qw(--mtbf 1h --nodes 4 --files 1 --group 8)], qr/--group: there are only 4 nodes/],
    [[qw(--mtbf 1h --nodes 4 --files 1 --team 8:1.1)], qr/--team: there are only 4 nodes/],
    [[qw(--mtbf 1h --matrix x --team 1:1.1 --team 2:1.1)], qr/only one --team with --matrix/],
    [[qw(--mtbf 1h --run x)], qr/--run has no meaning without --events/],
    [[qw(--mtbf 1h x)], qr/'x' is one argument too many/],
    [[qw(--nods 4)], qr/no option --nods: did you mean --nodes\?/])
{
    my ($args, $want) = @$case;
    plan_of(@$args);
    ok($code == 2 && $err =~ $want && $out eq '', "bad input: @$args")
        or diag("code $code\n", $err);
}
SKIP: {
    skip 'built without jansson', 2 if !$jansson;
    plan_of('--events', "$tmp/none", '--mtbf', '1h');
    ok($code == 1 && $err =~ /No such file/, 'no event log') or diag("code $code\n", $err);
    mkdir "$tmp/empty";
    plan_of('--events', "$tmp/empty", '--mtbf', '1h');
    ok($code == 2 && $err =~ /empty/, 'a directory without an event log')
        or diag("code $code\n", $err);
}

done_testing();
