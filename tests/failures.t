#!/usr/bin/perl
# `ftkit failures`: the systems of Los Alamos give the published laws (Table 7.2 of Meneses), a
# generated log gives its parameters back, the formats of logs are read, and every mistake in a log
# is named with line and column.  The log of Los Alamos National Laboratory, LA-UR-05-7318, is not
# part of ftkit: FTKIT_TEST_DATA is the directory that has it.
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
my ($code, $out, $err);

sub put
{
    my ($name, $text) = @_;
    return write_file("$tmp/$name", $text);
}

# The object that the command prints; {} after an error.
sub failures
{
    ($code, $out, $err) = command('failures', '--json', @_);
    return $code == 0 ? JSON::PP->new->decode($out) : {};
}

# |is - want| <= tolerance
sub within
{
    my ($is, $want, $tolerance, $what) = @_;
    return ok(defined $is && abs($is - $want) <= $tolerance, $what)
        || diag(defined $is ? "$is, not $want +- $tolerance" : "nothing: $err");
}

# ---- Table 7.2 -------------------------------------------------------------------------------

my $lanl = test_data('LA-UR-05-7318-failure-data-1996-2005.csv.xz');
my %table = ( # system => records, failures, p and s of the table
    12 => [259, 248, 0.9924, 7.0410],
    18 => [3997, 3830, 0.9848, 6.0875],
    19 => [3284, 3189, 0.9878, 6.4146],
    20 => [2478, 2263, 0.9755, 5.4300],
    21 => [110, 97, 0.9755, 5.3970]);
# The cell of a system in the table of docs/failures.md.
sub page
{
    my ($system, $row) = @_;
    my ($cells) = slurp(top() . '/docs/failures.md') =~ /^\| \Q$row\E \| (.*) \|$/m;
    my %column = map { ((12, 18, 19, 20, 21)[$_] => $_) } 0 .. 4;
    return (split / \| /, $cells)[$column{$system}];
}

SKIP: {
    skip 'the log of Los Alamos is not there', 8 * 5 + 7 if !-r $lanl;
    for my $system (sort keys %table) {
        my ($records, $count, $p, $s) = @{ $table{$system} };
        my $r = failures('--system', $system, $lanl);
        is("$r->{format} $r->{records}", "Los Alamos $records", "system $system: records");
        is($r->{failures}, $count, '... failures of the machine');
        within($r->{geometric}{p}, $p, 0.0021, '... geometric p of Table 7.2');
        within($r->{zipf}{s}, $s, 0.02 * $s, '... Zipf s of Table 7.2');
        is($r->{zipf}{error} < $r->{geometric}{error} ? 'Zipf' : 'geometric',
            $system == 12 ? 'geometric' : 'Zipf', '... which fits better, as there');
        ok($r->{weibull}{shape} < 1 && $r->{likelihood_ratio} > 10,
            '... and gaps that are no exponential ones');
        is(join(' ', $r->{records}, $r->{failures}, sprintf('%.4f %.3f %.3f',
                    $r->{geometric}{p}, $r->{zipf}{s}, $r->{weibull}{shape})),
            join(' ', map { page($system, $_) } 'records', 'failures of the machine',
                'geometric p, ftkit', 'Zipf s, ftkit', 'Weibull shape'),
            '... as docs/failures.md says');
        my ($mtbf, $unit) = split ' ', page($system, 'MTBF');
        within($r->{mtbf_s} / ($unit eq 'd' ? 86400 : 3600), $mtbf, 0.05, '... with this MTBF');
    }
    my $minute = failures('--system', 20, $lanl)->{geometric}{p};
    my $more = failures('--system', 20, '--together', '61s', $lanl)->{geometric}{p};
    cmp_ok($minute - $more, '>', 0.001, 'a minute later is another minute');
    failures($lanl);
    is($code, 1, 'without --system');
    like($err, qr/23 systems: choose one by --system: 2 3 4 .* 24$/m, '... which are listed');
    failures('--system', 1, $lanl);
    like($err, qr/no records of system 1; there are 2 3 /, 'a system that is not there');
    failures('--system', 17, $lanl);
    like($err, qr/\.xz:\d+: column 7 \(nodenumz\): the node is missing$/m,
        'a system without nodes');
    is($code, 1, '... is an error');
    ($code, $out, $err) = command('failures', '--system', 20, $lanl);
    like($out, qr/^  Zipf: s = 5\.50\d\d \(of 1024 nodes\)/m, 'as text');
}

# ---- a log by given laws ---------------------------------------------------------------------

sub generated
{
    my @args = @_;
    ($code, $out, $err) = command('failures', '--generate', @args);
    is("$code $err", '0 ', "--generate @args");
    return put('generated.csv', $out);
}

my @whole = ('--same-node', 0, '--together', 0);
for my $seed (all_cases() ? (1, 2) : 1) {
    my $log = generated('weibull:0.7,8h,zipf:5.4,lognormal:1h,1.2', '--events', 100000,
        '--seed', $seed);
    my $r = failures(@whole, $log);
    is($r->{failures}, 100000, '... each line is a failure');
    within($r->{weibull}{shape}, 0.7, 0.014, '... shape within 2 %');
    within($r->{weibull}{scale_s}, 28800, 576, '... scale');
    within($r->{zipf}{s}, 5.4, 0.108, '... s');
    within($r->{repair_median_s}, 3600, 72, '... median of the repairs');
    within($r->{repair_sigma}, 1.2, 0.024, '... and sigma');
    ok($r->{weibull}{distance_p} > 0.005 && $r->{weibull}{chi_square}{p} > 0.001
            && $r->{zipf}{chi_square}{p} > 0.001, '... and the tests of fit pass');
    ok($r->{mtbf_low_s} < $r->{mtbf_s} && $r->{mtbf_s} < $r->{mtbf_high_s}
            && $r->{mtbf_low_s} < $r->{mtbf_low_poisson_s},
                '... the interval of such gaps is wider');
    ok($r->{exponential}{distance_p} < 0.01 && $r->{exponential}{chi_square}{p} < 0.001,
        '... which the exponential law does not pass');

    $r = failures(@whole, generated('exponential:90min,geometric:0.85', '--events', 100000,
        '--seed', $seed));
    within($r->{exponential}{mean_s}, 5400, 108, '... mean within 2 %');
    within($r->{mtbf_s}, 5400, 108, '... MTBF');
    within($r->{weibull}{shape}, 1, 0.02, '... shape');
    within($r->{geometric}{p}, 0.85, 0.017, '... p');
    ok($r->{exponential}{distance_p} > 0.005 && $r->{exponential}{chi_square}{p} > 0.001
            && $r->{geometric}{chi_square}{p} > 0.001, '... and the tests of fit pass');
    is($r->{repairs}, 0, '... no repair times');
}
# the example of docs/failures.md, and its last line as options of ftkit plan
my ($shown) = slurp(top() . '/docs/failures.md') =~ /^    (made\.csv, .*?)\n\n(?!    )/ms;
put('made.csv', slurp(generated('weibull:0.7,8h,zipf:3', '--events', 300, '--nodes', 64)));
chdir $tmp;
($code, $out, $err) = command('failures', @whole, '--nodes', 64, 'made.csv');
is($out, ($shown // '') =~ s/^    //mgr . "\n", 'the example of docs/failures.md');
my ($options) = $out =~ /^For ftkit plan.*\n  (--mtbf .*)$/m;
($code, $out, $err) = command('plan', '--nodes', 64, '--files', '1min', split / /, $options // '');
is("$code $err", '0 ', '... with options that ftkit plan takes');
like($out, qr/^  multiplicity +zipf:[\d.]+ +given$/m, '... and uses');
chdir top();

my $first = slurp(generated('weibull:0.7,8h,zipf:5.4', '--nodes', 3, '--events', 50));
is(slurp(generated('weibull:0.7,8h,zipf:5.4', '--nodes', 3, '--events', 50)), $first,
    '... the same each time');
isnt(slurp(generated('weibull:0.7,8h,zipf:5.4', '--nodes', 3, '--events', 50, '--seed', 2)), $first,
    '... another by another seed');
is(join(' ', $first =~ /^603\.124600,.*\n/m ? 1 : 0, scalar(() = $first =~ /^\d/mg)), '1 50',
    '... of such lines');
unlike($first, qr/,n[3-9]/, '... and no more nodes than there are');

# ---- formats ---------------------------------------------------------------------------------

my $r = failures(put('own.csv',
    "# mine\ntime,node,repair\n0,a,30min\n10,b,\n\n86400,a,1200\n86430,a,c,60\n"));
is(join(' ', @$r{qw(format records nodes node_failures failures repairs)}), 'ftkit 5 3 4 2 2',
    'the own format, in seconds');
is("@{ $r->{sizes} }", '0 2 0 0 0', '... two nodes twice');
within($r->{gaps} && $r->{mtbf_s}, 86400, 0, '... a day between them');
ok(!exists $r->{weibull}, '... one gap has no law');
$r = failures('--together', '5s', "$tmp/own.csv");
is(join(' ', @{ $r->{sizes} }), '4 0 0 0 0', '--together');
is($r->{zipf}, undef, '... no law for single nodes');
$r = failures('--same-node', '10s', '--together', 0, "$tmp/own.csv");
is($r->{node_failures}, 5, '--same-node');

$r = failures('--nodes', 1, "$tmp/own.csv");
is($r->{zipf_nodes}, 2, '... --nodes is no less than fail at once');
$r = failures(@whole, put('tiny.csv', "time,node\n-1e15,a\n0,c\n1e-300,a\n1e15,b\n"));
ok($code == 0 && !defined $r->{weibull}{mean_s}, '... a mean beyond all bounds');

my $dates = "time,node,node\r\n2026-01-31T12:00:00Z,\"a,1\",b\r\n2026-02-01 12:00:00.5,a\r\n";
$r = failures(put('dates.csv', $dates));
is(join(' ', @$r{qw(format nodes failures mtbf_s)}), 'ftkit 3 2 86400.5', 'dates, quotes and CR');
($code, $out, $err) = command('failures', "$tmp/dates.csv");
like($out, qr/of 3 nodes, from 2026-01-31T12:00:00Z to 2026-02-01T12:00:00Z$/m, '... as text');

my $head = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n";
my $events = $head . "c||2026-01-01T00:00:00|2026-01-05T00:00:00||Cluster Registered TRES|\n"
    . "c|n1|2026-01-02T00:00:00|2026-01-02T01:00:00|DOWN*|Not responding|slurm(64030)\n"
    . "c|n2|2026-01-02T00:00:30|Unknown|DOWN+DRAIN|disk|root(0)\n"
    . "c|n3|2026-01-02T08:00:00|Unknown|DRAIN|update|root(0)\n"
    . "c|n4|2026-01-02T09:00:00|Unknown|IDLE+POWERED_DOWN|saving|root(0)\n"
    . "c|n4|2026-01-02T10:00:00|Unknown|POWERING_DOWN|saving|root(0)\n"
    . "c|n1|2026-01-01T12:00:00|2026-01-01T13:00:00|FAIL||root(0)\n";
$r = failures(put('events.txt', $events));
is(join(' ', @$r{qw(format records nodes other_lines failures repairs mtbf_s)}),
    'Slurm 3 2 4 2 2 43200',
    'sacctmgr list event -P');
$r = failures(put('parsable.txt', join '', map {"$_|\n"} split /\n/, $events));
is($r->{records}, 3, '... -p');
failures(put('clusters.txt', $events . "d|n1|2026-01-02T00:00:00|Unknown|DOWN|x|y\n"));
like($err, qr/2 systems: choose one by --system: c d$/m, '... of two clusters');
is(failures('--system', 'c', "$tmp/clusters.txt")->{records}, 3, '... of which one is taken');
$r = failures(put('sinfo.txt',
    "TIMESTAMP|NODELIST|STATE|REASON\n2026-01-02T00:00:00|n[08-10,17],m1|down|x\n"
        . "2026-01-03T00:00:00|r[1-2]n[1-2]|down*|x\n2026-01-03T00:00:00|n1|idle|none\n"));
is(join(' ', @$r{qw(records nodes other_lines failures)}), '9 9 1 2', 'sinfo, with lists of nodes');
is("@{ $r->{sizes} }", '0 0 0 1 1', '... which fail together');

SKIP: {
    skip 'no xz', 6 if system('xz --version >/dev/null 2>&1') != 0;
    system("xz -k '$tmp/own.csv'") == 0 or die "xz\n";
    is(failures("$tmp/own.csv.xz")->{records}, 5, 'a file for xz');
    failures(put('bad.csv.xz', 'time,node'));
    is($code, 1, 'one that is none');
    like($err, qr/bad\.csv\.xz: xz cannot unpack it|bad\.csv\.xz: the file is empty/,
        '... is an error');
    my $whole = slurp("$tmp/own.csv.xz");
    failures(put('cut.csv.xz', substr $whole, 0, length($whole) - 20));
    is($code, 1, '... and so is one that is cut');
    mkdir "$tmp/bin" or die "mkdir: $!\n";
    my $said = readpipe "PATH='$tmp/bin' '@{[build()]}/ftkit' failures '$tmp/own.csv.xz' 2>&1";
    is($? >> 8, 1, 'no xz');
    like($said, qr/own\.csv\.xz: the program xz, which unpacks it, is missing$/m, '... is said');
}

# ---- mistakes --------------------------------------------------------------------------------

my $columns = 'System,nodenumz,Prob Started,Prob Fixed';
my $bad = 0;
for my $case (
    ['', qr/: the file is empty$/m],
    ["# nothing\n", qr/: the file is empty$/m],
    ["a,b\n1,2\n", qr/:1: column 1 \(a\): unknown column; ftkit knows `time,node,repair`/],
    ["time,node,colour\n", qr/:1: column 3 \(colour\): unknown column/],
    ["time,repair\n", qr/:1: column 3: the column node is missing$/m],
    ["time,repair,node\n",
        qr/:1: column 2 \(repair\): the order is time,node\[,node\.\.\.\]\[,repair\]$/m],
    ["System,nodenumz,Prob Started\n", qr/:1: column 4: the column Prob Fixed is missing$/m],
    ["$columns,weather\n", qr/:1: column 5 \(weather\): unknown column/],
    ["$columns,System\n", qr/:1: column 5 \(System\): a second column for the same as column 1$/m],
    ["NodeName|State\n", qr/:1: column 3: the column TimeStart is missing$/m],
    ["NodeName|State|TimeStart|Moon\n", qr/:1: column 4 \(Moon\): unknown column/],
    ["time,node\n", qr/: no failure of a node; lines about something else: 0$/m],
    ["time,node\n0,a\n", qr/:2: column 1 \(time\): the only failure, .* \(records: 1\)$/m],
    ["time,node\n\n0,a\n3,a\n", qr/:3: column 1 \(time\): the only failure, .* \(records: 2\)$/m],
    ["$columns\n1,1,1/1/2001 1:00,1/1/2001 2:00\n",
        qr/:2: column 3 \(Prob Started\): the only failure/],
    ["time,node\n5,a\n4,b\n",
        qr/:3: column 1 \(time\): the time goes back: the line before has a later one$/m],
    ["time,node\n2026-01-02T00:00:00,a\n2026-01-01T00:00:00,b\n",
        qr/:3: column 1 \(time\): the time goes back/],
    ["time,node\n5,a\n2026-01-01T00:00:00,b\n",
        qr/:3: column 1 \(time\): '2026.*' is no time .* in all lines$/m],
    ["time,node\nsoon,a\n", qr/:2: column 1 \(time\): 'soon' is no time such as 86400 or /],
    ["time,node\n1e16,a\n", qr/:2: column 1 \(time\): '1e16' is no time/],
    ["time,node\nnan,a\n", qr/:2: column 1 \(time\): 'nan' is no time/],
    ["time,node\n2026-02-30T00:00:00,a\n",
        qr/:2: column 1 \(time\): '2026-02-30T00:00:00' is no time/],
    ["time,node\n5\n", qr/:2: column 2 \(node\): the node is missing$/m],
    ["time,node\n5,,a\n", qr/:2: column 2 \(node\): the node is missing$/m],
    ["time,node,repair\n5,10\n", qr/:2: column 2 \(node\): the node is missing$/m],
    ["time,node,repair\n5,a,b,long\n",
        qr/:2: column 4: 'long' is no repair time such as 1800 or 30min$/m],
    ["time,node,repair\n5,a,-3\n", qr/:2: column 3 \(repair\): '-3' is no repair time/],
    ["time,node\n5,\"a\n", qr/:2: column 2: the quotes do not end with the field$/m],
    ["time,node\n5,\"a\"b\n", qr/:2: column 2: the quotes do not end with the field$/m],
    ["time,node\n5,a\0b\n", qr/:2: this is no text: a byte is 0$/m],
    ["$columns\n1,1,1/1/2001 1:00\n",
        qr/:2: column 4 \(Prob Fixed\): 3 fields, but the header has 4$/m],
    ["$columns\n1,1,1/1/2001 1:00,1/1/2001 2:00,x\n",
        qr/:2: column 5: 5 fields, but the header has 4$/m],
    ["$columns\n1,1,13/1/2001 1:00,1/1/2001 2:00\n",
        qr/:2: column 3 \(Prob Started\): '13.*' is no time such as 6/],
    ["$columns\n1,1,1/1/2001 1:00,2/29/2001 2:00\n",
        qr/:2: column 4 \(Prob Fixed\): '2.*' is no time such as 6/],
    ["$columns\n1,1,1/1/2001 1:00,1/1/2001 0:00\n",
        qr/:2: column 4 \(Prob Fixed\): the time goes back: the end/],
    ["$columns\n1,1,1/2/2001 1:00,1/2/2001 2:00\n1,1,1/1/2001 1:00,1/1/2001 2:00\n",
        qr/:3: column 3 \(Prob Started\): the time goes back: the line before/],
    ["$columns\n1,,1/1/2001 1:00,1/1/2001 2:00\n",
        qr/:2: column 2 \(nodenumz\): the node is missing$/m],
    ["${head}c|n1|soon|Unknown|DOWN||\n",
        qr/:2: column 3 \(TimeStart\): 'soon' is no time such as 2026/],
    ["${head}c|n1|2026-01-02T00:00:00|soon|DOWN||\n",
        qr/:2: column 4 \(TimeEnd\): 'soon' is no time such as 2026/],
    ["${head}c|n1|2026-01-02T00:00:00|2026-01-01T00:00:00|DOWN||\n",
        qr/:2: column 4 \(TimeEnd\): the time goes back: the end is before the start$/m],
    ["${head}c|n1|2026-01-02T00:00:00|Unknown|DOWN|a|b|c\n",
        qr/:2: column 8: 8 fields, but the header has 7$/m],
    ["${head}c|n1|2026-01-02T00:00:00|Unknown|DRAIN||\n",
        qr/: no failure of a node; lines about something else: 1$/m],
    (map {["${head}c|$_|2026-01-02T00:00:00|Unknown|DOWN||\n",
        qr/:2: column 2 \(NodeName\): '.*' is no list of nodes/]}
        'n[1-', 'n[]', 'n[1,]', 'n[3-1]', 'n[a-b]', 'n1,,n2', 'n[1-99999999]', 'n[1-1000]m[1-9999]',
        'n' x 300))
{
    my ($text, $want) = @$case;
    failures(put('bad' . ++$bad, $text));
    ok($code == 1 && $err =~ /^ftkit failures: \Q$tmp\E\/bad$bad/ && $err =~ $want
            && $err =~ tr/\n// == 1,
        'a mistake: '
            . (($text =~ s/.*\n(?=.)//sr) =~ s/\n//r) =~ s/[^ -~]/?/gr =~ s/^(.{60}).*/$1/r)
        or diag("$code: $err");
}
failures("$tmp/none");
ok($code == 1 && $err =~ /none: No such file or directory$/m, 'no such file');
failures('--system', 'x', put('plain.csv', "time,node\n0,a\n9999,b\n"));
ok($code == 1 && $err =~ /plain\.csv: --system has no use: the file does not/,
    '--system for a file without');

for my $case (
    [[], qr/FILE is missing/], [['a', 'b'], qr/'b' is one argument too many/],
    [['--same-node', '6', 'a', 'b', '--together', 'x'],
        qr/--together: 'x' is not a time such as 6h, nor 0/],
    [['--nodes', '0', 'a'], qr/--nodes is 1 or more/],
    [['--events', '5', 'a'], qr/are for --generate/],
    [['--seed', '-1'], qr/--seed: '-1' is not a number of 0 to/],
    [['--generate', 'weibull:0.7,8h', 'a'], qr/--generate reads no FILE/],
    [['--generate', 'zipf:3'], qr/--generate: the law of the gaps is missing/],
    [['--generate', 'weibull:0.7'], qr/weibull has a shape and a scale/],
    [['--generate', 'weibull:0,8h'], qr/the shape of weibull is 0\.05 to 20/],
    [['--generate', 'weibull:1,8 parsec'], qr/the mean or scale of the gaps is a time/],
    [['--generate', 'exponential:0'], qr/the mean or scale of the gaps is a time/],
    [['--generate', 'exponential:1h,2h'], qr/exponential has a mean/],
    [['--generate', 'exponential:1h,weibull:1,2h'], qr/one law of the gaps/],
    [['--generate', 'exponential:1h,zipf:3,geometric:1'], qr/one law of the nodes per failure/],
    [['--generate', 'exponential:1h,geometric:2'], qr/geometric has a number p of 0\.001 to 1/],
    [['--generate', 'exponential:1h,lognormal:1h'], qr/a median and a sigma/],
    [['--generate', 'exponential:1h,gamma:3'], qr/the laws are exponential, weibull/],
    (map {[['--generate', $_], qr/--generate: a /]} '', 'exponential', 'exponential:',
        'exponential:1h,',
        'exponential:1:2', 'exponential:1h,2,3', ':1'))
{
    my ($args, $want) = @$case;
    ($code, $out, $err) = command('failures', @$args);
    ok($code == 2 && $out eq '' && $err =~ $want, "ftkit failures @$args") or diag("$code: $err");
}

done_testing();
