#!/usr/bin/perl
# `ftkit config`: where values come from, what a job would keep and survive, what it warns of, and
# every mistake in a configuration.  tests/unit/t_survive.c compares the
# shares with the plans of the repairs.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use JSON::PP;
use Test::More;

my $tmp = scratch();
my $ulfm = ($ENV{MPI_KIND} // 'ulfm') eq 'ulfm';
my ($code, $out, $err);
delete $ENV{$_} for grep { /^FTKIT_/ && $_ ne 'FTKIT_GUARD' } keys %ENV;

# Run ftkit config; variables of the environment come first, as a hash.
sub config
{
    my $env = ref $_[0] ? shift : {};
    local %ENV = (%ENV, %$env);
    ($code, $out, $err) = command('config', @_);
    return $out;
}

sub put
{
    my ($name, $text) = @_;
    return write_file("$tmp/$name", $text);
}

# The JSON of a job: the part `job`; $all is the whole.
my $all;
sub job_of
{
    config(@_, '--json');
    $all = eval { JSON::PP->new->decode($out) } // {};
    return $all->{job} // {};
}

# The shares of one loss as "level.memory level.local files nothing", of all ways to lose this.
sub loss
{
    my ($job, $what, $at_once) = @_;
    my ($one) = grep { $_->{lost} eq $what && $_->{at_once} == $at_once } @{ $job->{losses} };
    return 'none' if !$one;
    return join ' ', map { $one->{$_} } qw(level_memory level_local files nothing);
}

sub warns { return join "\n", $err =~ /^ftkit config: warning: (.*)$/mg }

# ---- where values come from ----------------------------------------------------------------

my $ini = put('a.ini', "; mine\n[level.hdf5]\nkeep = 4\ndirectory = $tmp\n\n[spares]\ncount = 3\n");
config({ FTKIT_LEVEL_HDF5_KEEP => 7 }, $ini);
is($code, 0, 'ftkit config') or diag($err);
like($out, qr/^# From: environment variable FTKIT_LEVEL_HDF5_KEEP\nkeep = 7$/m,
    'the environment, which overrides the file');
like($out, qr/^# From: \Q$ini\E:7\ncount = 3$/m, 'file and line');
like($out, qr/^# From: default\nmtbf = 1d$/m, 'the default');
my $again = put('again.ini', $out);
my @values = grep { !/^#/ } split /\n/, $out;
is_deeply([grep { !/^#/ } split /\n/, config($again)], \@values, '... and is a configuration file');
like($out, qr/^# From: \Q$again\E:\d+\nkeep = 7$/m, '... whose lines are named');

config({ FTKIT_LEVEL_HDF5_KEEP => 7 }, '--json', $ini);
$all = eval { JSON::PP->new->decode($out) } // {};
my %key = map { $_->{key} => $_ } @{ $all->{keys} // [] };
is($all->{source}, $ini, '--json: the file');
is(scalar keys %key, scalar(() = config('--document') =~ /^\| `/mg), '... every key');
is(join(' ', @{ $key{'spares.count'} }{qw(value from file line)}), "3 file $ini 7", '... file, line');
is(join(' ', @{ $key{'level.hdf5.keep'} }{qw(value from variable)}),
    '7 environment FTKIT_LEVEL_HDF5_KEEP', '... environment');
is(join(' ', @{ $key{'recover.timeout'} }{qw(value from default)}), '60s default 60s', '... default');
is_deeply($all->{warnings}, [], '... no warnings');

# inside a job: what ftkit run sets is told from what the user has set
SKIP: {
    skip 'needs an MPI with ULFM', 3 if !$ulfm;
    my $plan = qx{@{[build()]}/ftkit run -n 2 --spares 1 --log --print true};
    my %set = map { /^'?(FTKIT_\w+)=([^']*)/ ? ($1 => $2) : () } split ' ', $plan;
    like($set{FTKIT_RUN_SETS}, qr/\bFTKIT_SPARES_COUNT,/, 'ftkit run says what it sets') or diag($plan);
    config({ %set, FTKIT_LEVEL_HDF5_KEEP => 7 });
    like($out, qr/^# From: ftkit run\ncount = 1$/m, '... spares.count');
    like($out, qr/^# From: ftkit run\nenabled = true$/m, '... log.enabled');
    like($out, qr/^# From: environment variable FTKIT_LEVEL_HDF5_KEEP$/m, '... and not the rest');
    local $ENV{FTKIT_REPORT_STDERR} = 'info';
    $plan = qx{@{[build()]}/ftkit run -n 2 --print true};
    unlike($plan, qr/FTKIT_RUN_SETS=\S*FTKIT_REPORT_STDERR/, '... nor what the user has set');
}

# ---- what a job survives ---------------------------------------------------------------------

my @eight = ('--ranks', 64, '--nodes', 8);
my $job;
SKIP: {
    skip 'this MPI ends a job that loses a node', 1 if !own_mpi();
    $job = job_of(@eight);
    is(loss($job, 'nodes', 1), '8 0 0 0', 'a job survives any node, from memory');
    is(loss($job, 'nodes', 2), '24 0 4 0', '... any two nodes that are not buddies');
    is_deeply([map { $_->{in_job} } grep { $_->{lost} eq 'nodes' } @{ $job->{losses} }],
        [8, 28, 56], '... in the running job');
    config(@eight);
    my ($example) = slurp(top() . '/docs/configuration.md') =~ /begins with a summary:\n\n(.*?)\n\n/s;
    my ($summary) = $out =~ /^(level\.memory survives .*?)\n\n/ms;
    is($summary, $example =~ s/^    //mgr, '... as in the documentation');
    unlike($out, qr/ends the job/, '... with no line that the job ends');
    my $silent = qr/^  A silent node counts as lost after about (\d+) s \(recover\.node_timeout\)\.$/m;
    is(($out =~ $silent)[0], 10, '... and when a silent node counts as lost');
    local $ENV{FTKIT_RECOVER_NODE_TIMEOUT} = '1.5min';
    config(@eight);
    is(($out =~ $silent)[0], 90, '... which recover.node_timeout changes');
    unlike($out, qr/Slurm/, '... and nothing of Slurm');
    local $ENV{SLURM_JOB_ID} = 7;
    config(@eight);
    like($out, qr/^  Slurm ends the Slurm job .*, unless it was submitted with --no-kill\.$/m, '... but in a Slurm job');
    config('--ranks', 4, '--nodes', 1);
    unlike($out, qr/Slurm/, '... on several nodes');
}
# an MPI that ends the job when a node is lost
$ENV{PRTE_MCA_errmgr_dvm_survive_nodes} = 0;
SKIP: {
    skip 'needs an MPI with ULFM', 1 if !$ulfm;
    $job = job_of(@eight);
    is($code, 0, 'a job of 64 ranks on 8 nodes') or diag($err);
    is("$job->{nodes} $job->{spares}", '8 10', '... with the spares of ftkit run');
    is(loss($job, 'processes', 1), '64 0 0 0', '... survives any process');
    is(loss($job, 'processes', 2), '1984 0 32 0', '... any two that are not buddies');
    is(loss($job, 'node_processes', 1), '8 0 0 0', '... the processes of any node');
    is(loss($job, 'node_processes', 2), '24 0 4 0', '... of any two nodes that are not buddies');
    is(loss($job, 'nodes', 1), '0 0 8 0', '... a node itself from the files');
    config(@eight);
    like($out, qr/^  processes: +any 1; 98\.4 % of all losses of 2 at once$/m, '... and says so');
    like($out, qr/^  all processes of nodes: +any 1; 85\.7 % of all losses of 2 at once$/m,
        '... of nodes, too');
    like($out, qr/^  nodes: +none, because level\.memory\.place = memory ends with the job$/m,
        '... and why not of nodes themselves');
    unlike($out, qr/silent node/, '... and nothing of silent nodes');
    like($out, qr/this mpirun ends the job, and ftkit run relaunches it/, '... and what happens then');
    like($out, qr/^Everything else costs up to about 18 min \(the files\)\.$/m, '... and the price');
    is(warns(), '', '... without a warning') or diag($err);

    $job = job_of({ FTKIT_LEVEL_MEMORY_MAP => 'ring' }, @eight);
    is(loss($job, 'node_processes', 2), '20 0 8 0', 'a ring: 8 pairs of neighbours');
    $job = job_of({ FTKIT_LEVEL_MEMORY_PLACE => 'shared' }, @eight);
    is(loss($job, 'nodes', 1), '8 0 0 0', 'place = shared: a node itself, from memory');
    is(loss($job, 'nodes', 2), '24 0 4 0', '... two nodes');
    is(loss($job, 'processes', 3), '41664 0 0 0', '... any processes, from slots');
    $job = job_of({ FTKIT_LEVEL_MEMORY_SCHEME => 'rs', FTKIT_LEVEL_HDF5_ENABLED => 'false' }, @eight);
    is(loss($job, 'node_processes', 2), '28 0 0 0', 'rs with 2 parities: any two nodes');
    is(loss($job, 'node_processes', 3), '0 0 0 56', '... and no three: without files all is lost');
    $job = job_of({ FTKIT_LEVEL_LOCAL_SCHEME => 'rs', FTKIT_LEVEL_LOCAL_PLACE => 'shared' }, @eight);
    is(loss($job, 'node_processes', 2), '24 4 0 0', 'level.local: what memory does not survive');
    is(loss($job, 'nodes', 2), '0 28 0 0', '... and nodes themselves');

    $job = job_of('--ranks', 48000, '--ranks-per-node', 48);
    my ($pair) = grep { $_->{lost} eq 'node_processes' && $_->{at_once} == 2 } @{ $job->{losses} };
    is($job->{nodes}, 1000, 'a large job');
    ok(!$pair->{exact} && $pair->{error} > 0, '... from a sample, with its error');
    cmp_ok(abs($pair->{level_memory} / $pair->{looked_at} - 998 / 999), '<', $pair->{error},
        '... in which the true share is');
    is_deeply(job_of('--ranks', 48000, '--ranks-per-node', 48), $job, '... the same each time');
    like(config('--ranks', 48000, '--ranks-per-node', 48), qr/^  \+-, <, >: of a random sample/m,
        '... and says so');
}

# ---- bytes, age, teams -------------------------------------------------------------------------

my %times = (own => 1, buddy => 2, xor => 1 + 1 / 7, rs => 1 + 2 / 6);
for my $scheme (sort keys %times) {
    for my $place (qw(memory shared)) {
        $job = job_of({ FTKIT_LEVEL_MEMORY_SCHEME => $scheme, FTKIT_LEVEL_MEMORY_PLACE => $place },
            @eight, '--spares', 0, '--bytes', '1GiB');
        my $level = $job->{level_memory};
        my $steady = $place eq 'memory' ? $times{$scheme} : 2 * $times{$scheme};
        ok(abs($level->{steady} - $steady) < 0.01 * $steady
                && abs($level->{committing} - 2 * $times{$scheme}) < 0.01 * $times{$scheme},
            "$scheme, $place: multiples of the registered bytes") or diag(explain($level));
    }
}
# each writer with other ranks has a segment of one of them, and a ring in the background
for my $case ([true => 0, 1], [true => 1, 1], [true => 2, 2], [true => 6, 2], [true => 8, 0], [false => 0, 4], [false => 1, 1],
    [false => 3, 3], [false => 8, 0], [false => 0, 1, '64KiB'], [false => 0, 2, '256KiB']) {
    my ($behind, $writers, $more, $bytes) = (@$case, '1GiB');
    my $of = sub {
        return job_of({ FTKIT_LEVEL_HDF5_ASYNCHRONOUS => $behind, FTKIT_LEVEL_HDF5_WRITERS => $_[0] },
            @eight, '--spares', 0, '--bytes', $bytes);
    };
    my ($some, $all) = ($of->($writers), $of->(1000));
    my $one = $all->{file_set_bytes} / 64 + ($behind eq 'true' ? 8 << 20 : 0);
    is(($some->{node_most_bytes} - $all->{node_most_bytes}) / $one, $more,
        "asynchronous = $behind, writers = $writers, $bytes: memory of the writers");
}
is($job->{file_most_bytes}, 3 * $job->{file_set_bytes}, 'files: those that are kept, and one more');
cmp_ok($job->{file_set_bytes} / 2**36, '<', 1.001, '... of the size of the data');
config({ FTKIT_CHECKPOINT_PERIOD => '20 calls', FTKIT_LEVEL_HDF5_EVERY => '6 sets' }, '--ranks', 4);
like($out, qr/^  files +120 calls of ftkit_checkpoint, and the time/m, 'age in calls');
config({ FTKIT_CHECKPOINT_PERIOD => '2min', FTKIT_LEVEL_HDF5_EVERY => '10min' }, '--ranks', 4);
like($out, qr/^  files +12 min, and the time/m, 'age in time: the first set after the period');
SKIP: {
    skip 'needs an MPI with ULFM', 1 if !$ulfm;
    my %log = (FTKIT_LOG_ENABLED => 'true');
    config(\%log, @eight);
    like($out, qr/^Message log: 8 teams of 8 ranks\n  1 process +rolls back 1 team: 12\.5 %/m, 'teams');
    is(warns(), '', '... without a warning');
    config({ %log, FTKIT_LOG_TEAM_SIZE => 3 }, '--ranks', 8, '--nodes', 2);
    like($out, qr/^Message log: 3 teams of 2 to 3 ranks$/m, '... of unequal sizes');
    like($out, qr/^  1 node +rolls back at most 2 teams: 75\.0 %/m, '... two on a node');
    like(warns(), qr/a node has ranks of 2 teams/, '... which it warns of');
    config(\%log, '--ranks', 8);
    like(warns(), qr/one team of all ranks/, '... and of one team');
    config({ %log, FTKIT_LOG_TEAM_LIST => '0-3 4-9' }, '--ranks', 8);
    ok($code == 2 && $err =~ /rank 9 is out of range/, '... and refuses teams of other ranks');
}

# ---- warnings ------------------------------------------------------------------------------------

my %none = (FTKIT_LEVEL_HDF5_ENABLED => 'false');
my @odd = ([{}, ['--ranks', 4], qr/on one node, and so is the copy.*\n.*needs the files/],
    [\%none, ['--ranks', 4], qr/the loss of a node is the loss of all data/],
    [\%none, \@eight, qr/loss of all data: .*; choose level\.memory\.place = shared/],
    [{ FTKIT_LEVEL_MEMORY_SCHEME => 'xor' }, ['--ranks', 5, '--nodes', 2, '--spares', 0],
        qr/level\.memory: 1 rank without a partner for parity on another node/],
    [{}, [@eight, '--bytes', '1GiB', '--memory', '32GiB'], qr/a node needs 49 GiB .* has 32 GiB/],
    [{ FTKIT_LEVEL_MEMORY_PLACE => 'shared' }, [@eight, '--bytes', '1GiB', '--memory', '60GiB'],
        qr{need 32 GiB in /dev/shm, which has 30 GiB}],
    [{ FTKIT_RECOVER_TIMEOUT => '500ms' }, \@eight, qr/recover\.timeout: shorter than 1s/],
    [{ FTKIT_RECOVER_SUPPLY => 'spare, end' }, [@eight, '--spares', 0],
        qr/spares\.count: no spare, and recover\.supply has neither/],
    [{ FTKIT_RECOVER_SUPPLY => 'spare, end' }, [@eight, '--spares', 2],
        qr/1 spare on other nodes for a node with 8 ranks, .*; give 10/],
    [{ FTKIT_RECOVER_SUPPLY => 'spare, end' }, [@eight, '--spares', 8],
        qr/7 spares on other nodes for a node with 8 ranks, .*; give 10/],
    [{ FTKIT_RECOVER_SUPPLY => 'spare, end' }, ['--ranks', 4, '--nodes', 2],
        qr/1 spare on other nodes for a node with 2 ranks, .*; give 4/]);
@odd = grep { $_->[2] !~ /spares?|49 GiB/ } @odd if !$ulfm;
for my $case (@odd) {
    my ($env, $args, $why) = @$case;
    config($env, @$args);
    like(warns(), $why, "a warning: $why");
    job_of($env, @$args);
    like(join("\n", @{ $all->{warnings} }), $why, '... in JSON, too');
}

# the node that takes more ranks along than other nodes have spares
my $lost = '(?:A|All processes of a) node with \d+ ranks? may be lost, and other nodes have \d+ spares?: ';
for my $case (['spare, spawn, end', [qw(--ranks 4 --spares 1 --nodes 2)], '2 ranks .* have 0 spares: the others are spawned'],
    ['spare, shrink', [qw(--ranks 6 --spares 0 --nodes 3)], '2 ranks .* have 0 spares: the job goes on without the others'],
    ['spare, end', [qw(--ranks 6 --spares 1 --nodes 3)], '2 ranks .* have 0 spares: the job ends, and ftkit run relaunches it'],
    ['spare, end', [qw(--ranks 8 --spares 4 --nodes 3)], undef],
    ['spare, end', [qw(--ranks 64 --spares 9 --nodes 8)], '8 ranks .* have 7 spares: the job ends, and ftkit run relaunches it'],
    (map { ['spare, end', [ '--ranks', $_->[0], '--nodes', $_->[1] ], undef] }
        [64, 8], [63, 8], [65, 8], [6, 3], [7, 3], [9, 4], [7, 5], [100, 7]),
    ['spare, end', [qw(--ranks 4 --nodes 2)], '2 ranks .* have 1 spare: the job ends, and ftkit run relaunches it'],
    ['spare, spawn, end', [qw(--ranks 4 --spares 1 --nodes 1)], undef])
{
    my ($supply, $args, $says) = @$case;
    next if !$ulfm;
    my $text = config({ FTKIT_RECOVER_SUPPLY => $supply }, @$args);
    my $what = $text =~ /A lost node takes its MPI daemon along/ ? 'All processes of a' : 'A';
    $says ? like($text, qr/^  $what node with $says\.$/m, "@$args, $supply: $says")
        : unlike($text, qr/$lost/, "@$args, $supply: enough spares, or no other node");
}
for my $enough ([64, 8, 10], [4, 2, 4]) {
    my ($ranks, $nodes, $spares) = @$enough;
    next if !$ulfm;
    config({ FTKIT_RECOVER_SUPPLY => 'spare, end' }, '--ranks', $ranks, '--nodes', $nodes, '--spares', $spares);
    unlike(warns(), qr/spares\.count/, "... and none with $spares spares for $ranks ranks on $nodes nodes");
}
if (!$ulfm) {
    config(@eight);
    like(warns(), qr/built for an MPI without ULFM/, 'a warning: no repair in the job');
}

# ---- mistakes ------------------------------------------------------------------------------------

my %wrong = (
    'an unknown key' => ["[spares]\n\ncuont = 2\n", qr/:3: unknown key 'spares\.cuont': did you mean 'spares\.count'\?/],
    'an unknown section' => ["[spare]\n", qr/:1: unknown section 'spare': did you mean 'spares'\?/],
    'a bad unit' => ["[recover]\ntimeout = 5 m\n", qr/:2: recover\.timeout = '5 m' has an unknown unit; allowed: .*min/],
    'a missing unit' => ["[level.hdf5]\nbandwidth = 5\n", qr/:2: level\.hdf5\.bandwidth = '5' has no unit/],
    'a missing path' => ["[level.hdf5]\ndirectory = $tmp/no\n", qr/:2: level\.hdf5\.directory: missing path '.*no'/],
    'two sections of one level' =>
        ["[level.memory]\nscheme = own\n[level.memory]\n", qr/:3: section \[level\.memory\] appears twice, first on line 1/],
    'a key twice' => ["[spares]\ncount = 1\ncount = 2\n", qr/:3: key 'spares\.count' appears twice, first on line 2/],
    'bytes that are not UTF-8' => ["[spares]\n; \xff\n", qr/:2: byte 0xff: this is not UTF-8/],
    'a file of 10 MB' => ["\n" x (10 << 20), qr/wrong\.ini: is 10 MiB, more than a configuration can be/],
    'text outside any section' => ["prepare = 2\n", qr/:1: key 'prepare' is outside any section: did you mean 'spares\.prepare'/],
);
for my $what (sort keys %wrong) {
    my ($text, $why) = @{ $wrong{$what} };
    my $file = put('wrong.ini', $text);
    for my $args ([], ['--ranks', 4], ['--json']) {
        config(@$args, $file);
        ok($code == 2 && $out eq '' && $err =~ /^ftkit config: .*\Qwrong.ini\E/ && $err =~ $why,
            "$what: an error with file and line (@$args)") or diag("$code $out$err");
    }
}
config({ FTKIT_RECOVER_TIMEOT => '5s' });
ok($code == 2 && $err =~ /FTKIT_RECOVER_TIMEOT: did you mean FTKIT_RECOVER_TIMEOUT\?/,
    'a variable that is nearly right') or diag($err);
config({ FTKIT_RECOVER_TIMEOUT => '5 m' });
ok($code == 2 && $err =~ /environment variable FTKIT_RECOVER_TIMEOUT: .*unknown unit/,
    'a wrong value in the environment') or diag($err);
for my $bad (['--ranks', 0], ['--ranks', 'x'], ['--nodes', 2], ['--bytes', '1GiB'],
    ['--ranks', 4, '--nodes', 2, '--ranks-per-node', 2], ['--ranks', 4, '--bytes', 5],
    ['--ranks', 4, '--memory', '1GiB'], ['--ranks', 4, '--nodes', 9], ['--document', $ini],
    ['--ranks', 4, $ini, $ini], ['--what'])
{
    config(@$bad);
    ok($code == 2 && $out eq '' && $err ne '', "usage: @$bad") or diag("$code $out$err");
}
config({ FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 }, '--ranks', 4, '--nodes', 2);
ok($code == 2 && $err =~ /topology\.ranks_per_node = 2 says what the nodes are/, 'two words on nodes');
is(job_of({ FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 }, '--ranks', 4, '--spares', 0)->{nodes}, 2,
    '... of which one is enough');
like(config('--help'), qr/^usage: ftkit config /, '--help');

# the program starts jobs, and calls no MPI itself but for the text of an error
my %mpi = map { /\bU (P?MPI\w+)/ ? ($1 => 1) : () } split /\n/, qx{nm '@{[build()]}/ftkit'};
like(join(' ', sort keys %mpi), qr{^P?MPI_Error_string$}, 'no MPI in ftkit');

done_testing();
