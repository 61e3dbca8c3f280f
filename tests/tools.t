#!/usr/bin/perl
# The commands on directories of sets: ls, show, verify, repair, prune, export.
# A job writes sets, which are then damaged in every way; with --all at more random places.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use File::Path qw(remove_tree make_path);
use FtkitTest;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

asleep_in_waits();
my $tmp = scratch();
my $good = "$tmp/good"; # the sets as the job wrote them
my $sets = "$tmp/sets"; # a copy to be damaged
my ($code, $out, $err);

# Run a command of ftkit; $code, $out and $err are what comes of it.
sub ftkit
{
    ($code, $out, $err) = command(@_);
    return $out;
}

sub said { return diag("code $code\n$out$err") && 0 }

sub json
{
    my $j = eval { JSON::PP->new->decode(ftkit(@_)) };
    diag("no JSON: $@\n$out$err") if !$j;
    return $j // {};
}

# All sets as the job wrote them; or these, when the others are still so.
sub copy
{
    my @only = map { sprintf('heat.ftkit/set-%010d', $_) } @_;
    remove_tree(@only ? map {"$sets/$_"} @only : $sets);
    system('cp', '-a', $good . ($_ eq '' ? '' : "/$_"), $sets . ($_ eq '' ? '' : "/$_")) == 0 or die "cp\n"
        for @only ? @only : '';
    return;
}

sub path { my ($set, $file) = @_; return sprintf '%s/heat.ftkit/set-%010d/%s', $sets, $set, $file }

sub put
{
    my ($file, $text) = @_;
    open my $f, '>', $file or die "$file: $!\n";
    print $f $text;
    close $f or die "$file: $!\n";
    return;
}

sub flip
{
    my ($file, $at) = @_;
    open my $f, '+<', $file or die "$file: $!\n";
    seek $f, $at, 0;
    read $f, my $c, 1;
    seek $f, $at, 0;
    print $f $c ^ "\x10";
    close $f or die "$file: $!\n";
    return;
}

# What verify finds in a set: [file, rank, region, kind]...
sub damage
{
    my ($set) = @_;
    my $j = json('verify', '--json', $sets, $set);
    return $j->{sets}[0]{damage} // [];
}

sub states
{
    my $j = json('ls', '--json', @_ ? @_ : $sets);
    return join ' ', map {"$_->{set}:$_->{state}"} @{ $j->{sets} };
}

# ---- sets to work on ---------------------------------------------------------------------

my %env = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_CHECKPOINT_PERIOD => '1 calls',
    FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_LEVEL_HDF5_WRITERS => 1,
    FTKIT_LEVEL_HDF5_KEEP => 4, FTKIT_CONTEXT_NAME => 'heat',
    FTKIT_TOPOLOGY_RANKS_PER_NODE => 2);
my $j = job(n => 4, spares => 0, keep => $good, program => build() . '/mpi/regions',
    args => ['-o', "$good/out", '-b', '100,300000', '-s', 5], env => \%env);
if (!ok($j->{rc} == 0 && -d "$good/heat.ftkit", 'a job has written sets')) {
    diag($j->{log});
    done_testing();
    exit 1;
}
ok(!-e "$good/heat.ftkit/owner", 'and left no owner');
copy();

# ---- usage -------------------------------------------------------------------------------

my $commands = 0;
for my $command (qw(ls show verify repair prune export)) {
    ftkit($command, '--help');
    ok($code == 0 && $out =~ /^usage: ftkit \Q$command\E .*Exit code:\s+0/s, "$command --help") or said();
    ftkit('help', $command);
    like($out, qr/^usage: ftkit \Q$command\E/, "help $command");
    my @bad = ([], ['--nonsense', $sets], ['a', 'b', 'c', 'd', 'e']);
    for my $i (grep { selected(3, $commands, $_) } 0 .. $#bad) {
        my $bad = $bad[$i];
        ftkit($command, @$bad);
        is($code, 2, "$command @$bad: usage") or said();
    }
    $commands++;
    my @rest = $command eq 'prune' ? ('--keep', 1) : $command eq 'export' ? ('1', 'x', '-o', "$tmp/x") : ();
    my ($dir, @more) = ("$tmp/none", @rest);
    @more = $command eq 'prune' ? (@rest, $dir) : ($dir, @rest);
    ftkit($command, @more);
    ok($code == 1 && $err =~ /No such file/, "$command of no directory") or said();
}
for my $bad (['show', $sets, 'x'], ['show', $sets, '-1'], ['verify', $sets, '0'],
    ['prune', '--keep', '0', $sets], ['prune', $sets], ['prune', '--keep', 'x', $sets],
    ['export', $sets, 'newest', 'step'], ['export', $sets, 'newest', 'step', '-o', "$tmp/x", '--format', 'csv'],
    ['export', $sets, 'newest', 'step', '-o', "$tmp/x", '--rank', '99'], ['ls', '--keep', '1', $sets])
{
    ftkit(@$bad);
    is($code, 2, "@$bad[0 .. 1] ...: usage") or said();
}

# ---- ls and show -------------------------------------------------------------------------

is(states(), '6:complete 5:complete 4:complete 3:complete', 'ls: newest first');
is(states("$sets/heat.ftkit/"), '6:complete 5:complete 4:complete 3:complete', '... of a context itself');
my $ls = json('ls', '--json', $sets);
my $set = $ls->{sets}[0];
is($code, 0, '... code 0');
my $bytes = 0;
$bytes += -s for glob path(6, '*');
is_deeply([@$set{qw(context set state why ranks parts bytes)}], ['heat', 6, 'complete', undef, 4, 2, $bytes],
    'ls: of a set');
like($set->{written}, qr/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$/, '... its date');
like(ftkit('ls', $sets), qr/^ +6 +heat +4 +2 .* complete, finished$/m, 'ls as text') or said();
make_path("$tmp/empty");
ftkit('ls', "$tmp/empty");
ok($code == 2 && $out eq '' && $err =~ /no sets in/, 'ls of an empty directory') or said();

my $show = json('show', '--json', $sets);
my %region = map { $_->{name} => $_ } @{ $show->{regions} };
is_deeply([$code, @$show{qw(context set state ranks)}], [0, 'heat', 6, 'complete', 4], 'show');
like($show->{run}, qr/^[0-9a-f]{16}$/, '... the run');
is_deeply([map { [$_->{file}, $_->{ranks}, $_->{bytes}] } @{ $show->{parts} }],
    [map { [$_->[0], [$_->[1]], -s path(6, $_->[0])] } ['part-00000.h5', [0, 1]], ['part-00002.h5', [2, 3]]],
    '... the parts');
is_deeply([@{ $region{array} }{qw(kind type values shape halo ranks)}],
    ['array', 'f64', 1, [42, 17], [1, 2], 4], '... an array');
is_deeply([@{ $region{step} }{qw(kind type shape count_min bytes)}], ['replicated', 'i32', [1], 1, 16],
    '... a replicated region');
is_deeply([@{ $region{uneven} }{qw(kind shape count_min count_max bytes)}],
    ['flat', undef, 0, 300009, 600018], '... one that differs');
is($region{object}{kind} . $region{list}{kind}, 'serializedgrowing', '... and others');
like(ftkit('show', $sets, 5), qr/^set +5 of 'heat', complete\n.*^  array +array +f64 +42 x 17 +4 /ms, 'show as text')
    or said();
ftkit('show', $sets, 17);
ok($code == 1 && $err =~ /no set 17 of 'heat'/, 'show of no set') or said();
ftkit('show', "$tmp/empty");
ok($code == 2 && $err =~ /no sets in/, 'show of an empty directory') or said();

# ---- export ------------------------------------------------------------------------------

# An array file, taken to pieces by somebody else: type, shape, data.
sub npy
{
    my $text = slurp("$tmp/x.npy");
    my ($magic, $bytes) = unpack 'a8 v', $text;
    return "magic" if $magic ne "\x93NUMPY\x01\x00" || (10 + $bytes) % 64 != 0;
    my $head = substr $text, 10, $bytes;
    my ($type, $shape) = $head =~ /^\{'descr': '([^']*)', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n$/
        or return "head $head";
    return ($type, [$shape =~ /\d+/g], substr $text, 10 + $bytes);
}

sub export
{
    my ($what, @more) = @_;
    unlink "$tmp/x.npy", "$tmp/x.raw";
    ftkit('export', $sets, 'newest', $what, '-o', "$tmp/x.npy", @more);
    my ($type, $shape, $data) = npy();
    ftkit('export', $sets, 'newest', $what, '-o', "$tmp/x.raw", '--format', 'raw', @more);
    return "raw differs" if slurp("$tmp/x.raw") ne ($data // '');
    return [$type, @$shape, length $data];
}

is_deeply(export('step'), ['<i4', 1, 4], 'export: a replicated region');
is(unpack('V', slurp("$tmp/x.raw")), 5, '... its value');
is_deeply(export('array'), ['<f8', 42, 17, 42 * 17 * 8], 'a global array');
my $whole = slurp("$tmp/x.raw");
my $rows = '';
for my $rank (0 .. 3) {
    my $block = export('array', '--rank', $rank);
    is_deeply($block, ['<f8', $rank == 3 ? 0 : 13 + $rank, 17, length slurp("$tmp/x.raw")], "... the block of rank $rank");
    $rows .= slurp("$tmp/x.raw");
}
ok($rows eq $whole, '... the array is its blocks');
is_deeply(export('replicated'), ['<f8', 500, 4000], 'more of the kinds');
is_deeply(export('flat 300000', '--rank', 2), ['|u1', 300000, 300000], '... flat');
is_deeply(export('list', '--rank', 1)->[0], '<i2', '... growing');
is_deeply(export('uneven', '--rank', 0), ['|S1', 0, 0], '... empty');
SKIP: {
    my $dump = "$tmp/dump";
    skip 'no h5dump', 1 if system('command -v h5dump >/dev/null 2>&1') != 0;
    system('h5dump', '-d', '/array', '-b', 'LE', '-o', $dump, path(6, 'master.h5')) == 0 or diag('h5dump');
    ok(slurp($dump) eq $whole, 'h5dump of the master says the same') if -e $dump;
}
SKIP: {
    my ($python) = grep { system("$_ -c 'import numpy' 2>/dev/null") == 0 } qw(python3 /usr/bin/python3);
    skip 'no NumPy', 1 if !$python;
    export('array');
    my $said = `$python -c 'import numpy; a = numpy.load("$tmp/x.npy"); print(a.shape, a.dtype, a.tobytes() == open("$tmp/x.raw", "rb").read())'`;
    is($said, "(42, 17) float64 True\n", 'NumPy reads it');
}
ftkit('export', $sets, 6, 'list', '-o', "$tmp/none.npy");
ok($code == 2 && $err =~ /add --rank/ && !-e "$tmp/none.npy", 'every rank has its own') or said();
ftkit('export', $sets, 6, 'nothing at all', '-o', "$tmp/none.npy");
ok($code == 1 && $err =~ /no region 'nothing at all'/ && !-e "$tmp/none.npy", 'no such region') or said();
ftkit('export', $sets, 6, 'step', '-o', "$tmp/no/such/dir");
ok($code == 1 && $err =~ /No such file/, 'no such directory') or said();
is_deeply([glob "$tmp/none*"], [], 'nothing is left of what failed');

# ---- verify: damage of every kind --------------------------------------------------------

ftkit('verify', $sets);
ok($code == 0 && (() = $out =~ /^  good$/mg) == 4, 'verify: all good') or said();
my $v = json('verify', '--json', $sets, 6);
is_deeply([$code, $v->{good}, @{ $v->{sets}[0] }{qw(context set good damage)}],
    [0, JSON::PP::true, 'heat', 6, JSON::PP::true, []], '... in JSON');

# work that takes longer than a second: here by a slow disk
{
    local $ENV{LD_PRELOAD} = build() . '/slow.so';
    local $ENV{FTKIT_TEST_SLOW_MS} = 8;
    ftkit('verify', '--progress', $sets, 6);
    ok($code == 0 && $out eq "set 6 of 'heat':\n  good\n", 'verify of a slow disk') or said();
    like($err, qr/^(?:verifying (?:the master of )?set 6 of 'heat': .*\d\n)*verifying set 6 of 'heat': [\d.]+ [KM]iB of [\d.]+ MiB \(\d+ %\)\n/,
        '... --progress shows lines');
    ftkit('verify', $sets, 6);
    ok($code == 0 && $err eq '', '... and nothing without it when there is no terminal') or said();
    my $shown = `script -qefc '"@{[top()]}/scripts/guard" 60 -- "@{[build()]}/ftkit" verify "$sets" 6' /dev/null </dev/null`;
    my ($line) = $shown =~ /\r\e\[K(verifying set 6 [^\r\n]*\))\r\e\[K/;
    ok(defined $line && length $line < 80, 'on a terminal a line is drawn') or diag($shown);
    is($shown =~ s/\r\e\[K(?:verifying [^\r\n]*)?//gr, "set 6 of 'heat':\r\n  good\r\n", '... and erased');
    ftkit('repair', '--progress', $sets, 6);
    ok($code == 0 && $out eq '' && $err =~ /^repairing set 6 of 'heat': \S+ \S+ read$/m, 'repair --progress') or said();
    ftkit('export', '--progress', $sets, 6, 'array', '-o', "$tmp/x.npy");
    ok($code == 0 && $err =~ /^exporting 'array' of set 6: \S+ \S+ read$/m, 'export --progress') or said();
}

# the data of a region lie in one piece, so its own bytes find it
ftkit('export', $sets, 6, 'flat 300000', '--rank', 3, '-o', "$tmp/x.raw", '--format', 'raw');
my $at = index slurp(path(6, 'part-00002.h5')), slurp("$tmp/x.raw");
flip(path(6, 'part-00002.h5'), $at + 280000);
my $d = damage(6);
is($code, 1, 'a bit of the data: code 1');
is_deeply([map { [@$_{qw(file rank region kind)}] } @$d], [['part-00002.h5', 3, 'flat 300000', 'corrupt']],
    '... named by file, rank and region');
is($d->[0]{block}, 1, '... and block');
ftkit('export', $sets, 6, 'flat 300000', '--rank', 3, '-o', "$tmp/x2.raw");
ok($code == 1 && $err =~ /checksum of block/ && !-e "$tmp/x2.raw", 'export does not give it') or said();
ftkit('export', $sets, 6, 'flat 300000', '--rank', 2, '-o', "$tmp/x2.raw");
is($code, 0, '... but what is whole');
is(states(), '6:complete 5:complete 4:complete 3:complete', 'ls has not seen it');
ftkit('repair', $sets, 6);
ok($code == 1 && $out =~ /part-00002\.h5: cannot be repaired/ && $err =~ /`ftkit run --set N`/,
    'and there is no repair') or said();
my $r = json('repair', '--json', $sets, 6, 'set-0000000006', 6);
is_deeply([$code, $r->{good}, map { [@$_{qw(set state good)}, map {"$_->{file} $_->{result}"} @{ $_->{steps} }] }
    @{ $r->{sets} }], [1, JSON::PP::false, [6, 'complete', JSON::PP::false, 'part-00002.h5 failed']],
    '... in JSON; a set that is named three times is repaired once');
like($r->{sets}[0]{steps}[0]{text}, qr/checksum of block 1/, '... with the reason');
$v = json('verify', '--json', $sets, 'newest', 6);
is_deeply([$code, map { $_->{set} } @{ $v->{sets} }], [1, 6], 'verify: a set is verified once');
ftkit('verify', $sets, 6);
like($err, qr/there is damage: `ftkit repair /, '... and told what to do');

my $head = index slurp(path(5, 'part-00000.h5')), "FTKSEG\r\n";
flip(path(5, 'part-00000.h5'), $head + 700);
is_deeply([map { [@$_{qw(file rank region block kind)}] } @{ damage(5) }],
    [['part-00000.h5', 0, undef, undef, 'corrupt']], 'a bit of a head');
my $attribute = index slurp(path(4, 'part-00000.h5')), 'ftkit.kind';
flip(path(4, 'part-00000.h5'), $attribute);
$d = damage(4);
ok(@$d >= 1 && $d->[0]{file} eq 'part-00000.h5' && $d->[0]{kind} eq 'corrupt', 'a bit of an attribute')
    or said();

my @damage = (
    ['a bit of the manifest', 'damaged', 'manifest', 'corrupt', 'manifest', sub { flip(path(6, 'manifest'), 60) }],
    ['no manifest', 'damaged', 'manifest', 'missing', 'manifest', sub { unlink path(6, 'manifest') }],
    ['an empty manifest', 'damaged', 'manifest', 'format', 'manifest', sub { put(path(6, 'manifest'), '') }],
    ['no master', 'complete', 'master.h5', 'missing', 'master',
        sub { unlink path(6, 'master.h5'), path(6, 'master.xdmf') }],
    ['an empty master', 'complete', 'master.h5', 'corrupt', 'master', sub { put(path(6, 'master.h5'), '') }],
    ['another master', 'complete', 'master.h5', 'corrupt', 'master',
        sub { system('cp', path(5, 'master.h5'), path(6, 'master.h5')) }],
    ['a part is cut off', 'damaged', 'part-00002.h5', 'corrupt', undef,
        sub { truncate path(6, 'part-00002.h5'), 5000 }],
    ['a part is gone', 'damaged', 'part-00002.h5', 'missing', undef, sub { unlink path(6, 'part-00002.h5') }],
    ['a part of another set', 'damaged', 'part-00002.h5', 'corrupt', undef,
        sub { system('cp', path(5, 'part-00002.h5'), path(6, 'part-00002.h5')) }],
    ['a part is a link', 'damaged', 'part-00002.h5', 'format', undef,
        sub { rename path(6, 'part-00002.h5'), "$tmp/away"; symlink "$tmp/away", path(6, 'part-00002.h5') }],
    ['a part is a directory', 'damaged', 'part-00002.h5', 'format', undef,
        sub { unlink path(6, 'part-00002.h5'); mkdir path(6, 'part-00002.h5') }],
    ['the manifest is a pipe', 'damaged', 'manifest', 'format', 'manifest',
        sub { unlink path(6, 'manifest'); system('mkfifo', path(6, 'manifest')) }],
);
my $cases = 0;
for my $case (@damage) {
    my ($name, $state, $file, $kind, $mend, $do) = @$case;
    $cases++ ? copy(6) : copy(); # only this set is damaged
    $do->();
    is(states(), "6:$state 5:complete 4:complete 3:complete", "$name: ls says $state") or said();
    is($code, $state eq 'damaged' ? 1 : 0, '... code');
    my $found = damage(6);
    my ($hit) = grep { $_->{file} eq $file } @$found;
    ok($code == 1 && $hit && $hit->{kind} eq $kind, "... verify names $file") or said();
    ftkit('show', $sets, 6);
    is($code, $state eq 'complete' && $file eq 'master.h5' ? 0 : 1, '... show') or said();
    ftkit('repair', '--dry-run', $sets, 6);
    my $dry = $out;
    is(scalar(@{ damage(6) }), scalar(@$found), '... a dry run changes nothing') if selected(3, $cases);
    ftkit('repair', $sets);
    if ($mend) {
        ok($code == 0 && $out =~ /\Q$mend\E\S*: made again/ && $dry =~ /\Q$mend\E\S*: would be made again/,
            '... is repaired') or said();
        is_deeply(damage(6), [], '... and good');
        ok(-s path(6, 'master.xdmf'), '... with what ParaView reads');
    } else {
        ok($code == 1 && $out =~ /cannot be repaired/, '... cannot be repaired, and it says so') or said();
    }
}

# newest is the newest complete set, for each command
copy();
unlink path(6, 'manifest');
for my $command (['show'], ['verify'], ['repair']) {
    my $args = json(@$command, '--json', $sets, 'newest');
    is($args->{set} // $args->{sets}[0]{set}, 5, "@$command newest");
}
is(states(), '6:damaged 5:complete 4:complete 3:complete', '... so repair has left the damaged set');
$r = json('repair', '--json', '--dry-run', $sets, 6, 5);
is_deeply([$code, $r->{dry_run}, map { [@$_{qw(set state)}, map {"$_->{file} $_->{result}"} @{ $_->{steps} }] }
    @{ $r->{sets} }], [0, JSON::PP::true, [6, 'damaged', 'manifest made'], [5, 'complete']], 'repair --dry-run --json');
is(states(), '6:damaged 5:complete 4:complete 3:complete', '... changes nothing');
$r = json('repair', '--json', $sets);
is_deeply([$code, map { [@$_{qw(set good)}] } @{ $r->{sets} }], [0, map { [$_, JSON::PP::true] } 6, 5, 4, 3],
    'repair --json');
ftkit('repair', $sets, 6, 17);
ok($code == 1 && $err =~ /no set 17 of 'heat' in .*; `ftkit ls .*` lists the sets/, 'repair of no set') or said();
unlink glob path($_, 'manifest') for 3 .. 6;
ftkit('repair', $sets, 'newest');
ok($code == 1 && $err =~ /no set of 'heat' in .* is complete; `ftkit ls/, 'no set is complete') or said();

# bytes made to do harm
copy();
my $manifest = slurp(path(6, 'manifest'));
my $hostile = 0;
my @hostile = (['a part outside', qr/^part = 2 /m, 'part = ../../x '], ['a context outside', qr/= heat$/m, '= ../../x'],
    ['a huge part', qr/^(part = 2 \d+) \d+/m, 'part = 2 2 9223372036854775807'],
    ['many ranks', qr/^nranks = 4/m, 'nranks = 16777216'], ['too many ranks', qr/^nranks = 4/m, 'nranks = 4294967295'],
    ['many parts', qr/^nparts = 2/m, 'nparts = 16777215'], ['no end of ranks', qr/^ranks = 2 3/m, 'ranks = 2 18446744073709551615'],
    ['another set', qr/^set = 6/m, 'set = 5']);
for my $case (@hostile) {
    my ($name, $from, $to) = @$case;
    my $text = $manifest =~ s/$from/$to/r;
    die "$name: $manifest" if $text eq $manifest;
    # with the right checksum, when xxhsum is there to make one
    $text =~ s/^checksum = .*\n//m;
    put("$tmp/text", $text);
    my ($sum) = `xxhsum -H3 '$tmp/text' 2>/dev/null` =~ /([0-9a-f]{16})/;
    put(path(6, 'manifest'), $text . 'checksum = ' . ($sum // '0' x 16) . "\n");
    my $begin = time;
    is(states(), '6:damaged 5:complete 4:complete 3:complete', "$name in the manifest: damaged") or said();
    my $found = damage(6);
    ok($code == 1 && @$found >= 1 && time - $begin < 20, '... verify') or said();
    if (selected(4, $hostile++)) {
        ftkit('show', $sets, 6);
        ftkit('export', $sets, 6, 'step', '-o', "$tmp/x.npy");
        is($code, 1, '... export') or said();
    }
    ftkit('repair', $sets, 6);
    ok($code == 0 && !@{ damage(6) }, '... repaired') or said();
}
for my $i (0 .. 3) { # what is no HDF5 at all
    my $size = (0, 1, 8, 4096)[$i];
    for my $fill (map { ("\0", "\xff", "\x89HDF\r\n\x1a\n")[$_] } grep { selected(3, $i, $_) } 0 .. 2) {
        put(path(6, 'part-00000.h5'), substr $fill x $size, 0, $size);
        ftkit('verify', $sets, 6);
        is($code, 1, "$size bytes of something instead of a part") if $code != 1;
    }
}
for (1 .. (all_cases() ? 10 : 3)) { # and what nearly is
    $_ > 1 ? copy(6) : copy();
    my $part = path(6, 'part-00000.h5');
    srand 41 + $_;
    flip($part, int rand -s $part) for 1 .. 200;
    my $found = damage(6);
    ok($code == 1 && @$found > 0, "200 flipped bits ($_)") or said();
    ftkit('show', '--json', $sets, 6);
    cmp_ok($code, '<', 2, '... show');
}

# ---- what is not ours --------------------------------------------------------------------

copy();
make_path("$sets/heat.ftkit/set-0000000099", "$sets/other", "$sets/.ftkit", "$sets/a\nb.ftkit/set-0000000001");
put("$sets/x.ftkit", 'a file');
put("$sets/heat.ftkit/set-0000000098", 'a file');
symlink 'heat.ftkit', "$sets/link.ftkit";
symlink 'set-0000000003', "$sets/heat.ftkit/set-0000000097";
symlink $sets, "$sets/loop";
put(path(6, 'notes.txt'), 'mine');
is(states(), '99:incomplete 6:complete 5:complete 4:complete 3:complete', 'foreign things are no sets');
ftkit('repair', $sets);
ok($code == 0 && -e path(6, 'notes.txt'), 'repair leaves them alone') or said();
system('cp', '-a', "$sets/heat.ftkit", "$sets/b.ftkit");
like(ftkit('ls', $sets), qr/incomplete/, 'two contexts');
is(states(), '99:incomplete 6:damaged 5:damaged 4:damaged 3:damaged 99:incomplete 6:complete 5:complete '
    . '4:complete 3:complete', 'sets of one context under the name of another') or said();
ftkit('show', $sets);
ok($code == 2 && $err =~ /several contexts \('b', 'heat'/, 'which one?') or said();
ftkit('show', $sets, '--context', 'heat');
is($code, 0, '--context') or said();
ftkit('show', $sets, '--context', '../heat');
ok($code == 1 && $err =~ /no sets of/, 'a context that is no name') or said();
remove_tree("$sets/b.ftkit");

# ---- prune -------------------------------------------------------------------------------

unlink path(4, 'manifest');
put(path(4, 'unfinished'), ''); # as while it is written
like(ftkit('prune', '--keep', 2, '--dry-run', $sets), qr/^would remove set 4 .*\(incomplete\)\nwould remove set 3 .*\(old\)\n$/,
    'prune --dry-run') or said();
is(states(), '99:incomplete 6:complete 5:complete 4:incomplete 3:complete', '... changes nothing');
my $p = json('prune', '--json', '--dry-run', '--keep', 2, $sets);
is_deeply([$code, $p->{dry_run}, map { [@$_{qw(context set state reason removed)}] } @{ $p->{sets} }],
    [0, JSON::PP::true, ['heat', 4, 'incomplete', 'incomplete', JSON::PP::false],
    ['heat', 3, 'complete', 'old', JSON::PP::false]], '... in JSON');
like(ftkit('prune', '--keep', 2, $sets), qr/^removed set 4 .*\nremoved set 3 .*\n$/, 'prune') or said();
is(states(), '99:incomplete 6:complete 5:complete', '... the newest stay, and what may be being written');
$p = json('prune', '--json', '--incomplete', $sets);
is_deeply([$code, map { [@$_{qw(set state removed)}] } @{ $p->{sets} }], [0, [99, 'incomplete', JSON::PP::true]],
    'prune --incomplete --json');
is(states(), '6:complete 5:complete', '... has removed it');
ftkit('prune', '--keep', 1, $sets);
ftkit('prune', '--keep', 1, $sets);
ok($code == 0 && states() eq '6:complete' && -e path(6, 'notes.txt'), 'one stays');
is(readlink "$sets/heat.ftkit/set-0000000097", 'set-0000000003', 'a link is nobody\'s set');
unlink path(6, 'manifest');
put(path(6, 'part-00000.h5.tmp'), 'half of it');
ftkit('repair', $sets);
ok($code == 0 && !-e path(6, 'part-00000.h5.tmp') && !@{ damage(6) }, 'repair removes litter, makes the set whole')
    or said();
unlink path(6, 'manifest');
unlink path(6, 'part-00002.h5');
put(path(6, 'unfinished'), '');
ftkit('repair', $sets);
ok($code == 0 && $out =~ /incomplete: .*2 of 4 ranks are in no part/, 'an interrupted set is no damage') or said();
ftkit('prune', '--incomplete', $sets);
ok(-e path(6, 'notes.txt') && !-e path(6, 'part-00000.h5'), 'what is not ours survives its set');

make_path("$tmp/slots");
my $slot = "$tmp/slots/ftkit-slot-1-gone-1.1.1";
put($slot, 'x' x 100); # of no process
for my $case (['--dry-run', JSON::PP::true, JSON::PP::false], ['--json', JSON::PP::false, JSON::PP::true]) {
    my ($option, $dry, $removed) = @$case;
    $p = json('prune', '--slots', '--json', $option, "$tmp/slots");
    is_deeply([$code, $p->{dry_run}, $p->{other_files}, map { [@$_{qw(path bytes removed)}] } @{ $p->{slots} }],
        [0, $dry, 0, [$slot, 100, $removed]], "prune --slots --json $option");
}
ok(!-e $slot, '... has removed it');

# ---- nothing there, a set's own directory, links ------------------------------------------

copy();
make_path("$tmp/empty", "$tmp/hollow/heat.ftkit");
for my $none ("$tmp/empty", "$tmp/hollow") {
    for my $command (['ls'], ['ls', '--json'], ['show'], ['verify'], ['verify', '--json'], ['repair'],
        ['prune', '--keep', 1]) {
        ftkit(@$command, $none);
        my $expect = "@$command" eq 'show' && $none =~ /hollow/ ? 1 : 2;
        ok($code == $expect && $err =~ /\bno (?:finished )?set/, "nothing in $none: @$command says so") or said();
    }
}
ftkit('export', "$tmp/empty", 'newest', 'step', '-o', "$tmp/x");
ok($code == 2 && $err =~ /no sets in/, '... and export') or said();
make_path("$tmp/writing/heat.ftkit/set-0000000001");
ftkit('verify', "$tmp/writing");
ok($code == 2 && $err =~ /no finished set in .*nothing was verified/, 'verify where a set is being written') or said();
my $own = path(5, '') =~ s{/$}{}r;
flip(path(6, 'part-00002.h5'), 3000);
unlink "$tmp/to-set", "$tmp/to-context", "$tmp/to-sets";
symlink $own, "$tmp/to-set";
symlink "$sets/heat.ftkit", "$tmp/to-context";
symlink $sets, "$tmp/to-sets";
for my $path ($own, "$own/", "$tmp/to-set") {
    ok(ftkit('verify', $path) =~ /^set 5 of 'heat':\n  good\n$/ && $code == 0, "verify $path: that set") or said();
    ok(ftkit('show', $path) =~ /^set +5 of 'heat', complete/ && $code == 0, '... show') or said();
    ok(ftkit('repair', '--dry-run', $path) !~ /set 6/ && $code == 0, '... repair') or said();
    next if $path ne $own && !all_cases();
    for my $command (['ls'], ['prune', '--keep', 1], ['verify', '', 5], ['export', '', 5, 'step', '-o', "$tmp/x"]) {
        my @args = map { $_ eq '' ? $path : $_ } @$command;
        push @args, $path if !grep { $_ eq '' } @$command;
        ftkit(@args);
        ok($code == 2 && $err =~ /is a set's own directory: name \Q$sets\E$/, "... $command->[0] says what to name") or said();
    }
}
for my $path ("$tmp/to-context", "$tmp/to-sets") {
    ok(ftkit('verify', $path) =~ /^set 6 of 'heat'/ && $code == 1, "verify $path: all sets") or said();
    is(states($path), '6:complete 5:complete 4:complete 3:complete', '... ls');
}

# ---- a job that is running owns its sets -------------------------------------------------

my ($second, $pruned, $mended, $status, $owner);
my $dir = "$tmp/owned";
my %slow = (%env, FTKIT_CONTEXT_NAME => 'default');
$j = job(n => 2, spares => 0, keep => $dir, env => \%slow, timeout => 200,
    args => ['-o', "$dir/out"], fault => 'app.step:0:8:hold', while => sub {
        await_held($dir);
        $owner = slurp("$dir/default.ftkit/owner");
        make_path("$dir/default.ftkit/set-9999999999"); # as if it was being written
        $pruned = ftkit('prune', '--keep', 1, '--incomplete', $dir);
        $pruned = 'gone' if !-e "$dir/default.ftkit/set-9999999999";
        rmdir "$dir/default.ftkit/set-9999999999";
        ftkit('repair', $dir);
        $mended = "$code $err";
        $second = job(n => 2, spares => 0, keep => "$tmp/second", run => [],
            env => { %slow, FTKIT_LEVEL_HDF5_DIRECTORY => $dir, FTKIT_FAULT => '' });
        let_go($dir);
    });
ok($j->{rc} == 0, 'a job is not disturbed by the commands, nor by another job') or diag($j->{log});
like($owner, qr/^ftkit\.owner = 3\njob = [0-9a-f]{16}\n.*^pid = \d+\n/ms, 'its record');
unlike($pruned, qr/gone|9999999999/, 'prune keeps what may be being written');
like($mended, qr/^1 .*belong to job \S+ on \S+ \(process \d+\), which is alive/, 'repair leaves it alone');
ok($second->{rc} == 2 && $second->{log} =~ /belong to job \S+ on \S+ \(process \d+\), which is alive/,
    'a second job is refused, with the name of the first') or diag($second->{log});
ok(!-e "$dir/default.ftkit/owner", 'the record goes with its job');

# ... and goes on owning them while its rank 0 is dead: rank 1 stands still meanwhile, so that the
# repair waits
$dir = "$tmp/replaced";
$j = job(n => 2, spares => 1, keep => $dir, fault => 'app.mid:0:8:kill,app.mid:1:8:hold', timeout => 200,
    env => { %slow, FTKIT_RECOVER_TIMEOUT => '60s' },
    args => ['-o', "$dir/out", '-s', '20'], while => sub {
        my ($work) = @_;
        await_held($work) && await_file("$work/faults");
        ftkit('status', $dir);
        $status = "$code $out$err";
        $second = job(n => 2, spares => 0, keep => "$tmp/third", run => [],
            env => { %slow, FTKIT_LEVEL_HDF5_DIRECTORY => $dir, FTKIT_FAULT => '' });
        let_go($work);
    });
ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $j->{log} =~ /repaired/, 'a job loses its rank 0')
    or diag($j->{log});
unlike($j->{log}, qr/another job/, '... and nobody takes its sets');
like($status, qr/^0 default: job/, '... ftkit status sees the job meanwhile');
ok($second->{rc} == 2 && $second->{log} =~ /belong to job .*, which is alive/,
    '... and another job is refused, with exit code 2') or diag($second->{log});
like($second->{log}, qr/^ftkit run: attempt 1 ended: the sets of .* There is no relaunch/m, '... not relaunched');
$dir = "$tmp/owned";

# a job that is killed leaves a record that stops nobody
remove_tree("$dir/default.ftkit");
$j = job(n => 2, spares => 0, keep => $dir, env => \%slow, fault => 'app.mid:*:5:kill2');
ok(-e "$dir/default.ftkit/owner", 'a killed job leaves its record');
$j = job(n => 2, spares => 0, keep => $dir, env => \%slow);
ok($j->{rc} == 0 && $j->{log} =~ /restored set/, 'the next one goes on') or diag($j->{log});

done_testing();
