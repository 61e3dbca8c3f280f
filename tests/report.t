#!/usr/bin/perl
# ftkit report: figures of a known log, escaping, bad input, and the page in a browser.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use JSON::PP;
use Test::More;

my $top = top();
plan(skip_all => 'built without jansson') if slurp(build() . '/mpi.mk') !~ /^HAVE_JANSSON := yes$/m;
my $tmp = scratch();
my $data = "$top/tests/data/events";
my ($code, $out, $err);

sub ftkit { ($code, $out, $err) = command('report', @_); return $out }
sub said { return diag("code $code\n", substr($out, 0, 2000), $err) && 0 }
sub json { ftkit('--json', @_); return eval { JSON::PP->new->decode($out) } // said() || {} }

# One line of an event log; members are text in JSON.
sub event
{
    my ($t, $rank, $word, $members, %o) = @_;
    my $context = $rank < 0 ? '' : sprintf '"context":"%s",', $o{context} // 'heat';
    return sprintf qq({"t":%.6f,"pid":%d,"rank":%d,%s"event":"%s"%s}\n), 1795000000 + $t,
        $o{pid} // 100 + $rank, $rank, $context, $word, $members ? ",$members" : '';
}

sub opened
{
    my ($t, $rank, $run, %o) = @_;
    my $n = $o{n} // 2;
    return event($t, $rank, 'open', qq("host":"a","node":0,"incarnation":0,"nranks":$n,"spares":0,)
        . qq("mode":"global","team":-1,"version":"0.1.0","program":"./p","run":"$run","job":"1","attempt":0), %o);
}

# ---- figures -----------------------------------------------------------------------------

is(system("$data/make '$tmp/again' && diff -r -x make '$data' '$tmp/again' >/dev/null"), 0,
    'the stored log is that of its script');
my $j = json($data);
my %want = (run => '5eed0000c0ffee01', context => 'heat', program => './heat2d', ranks => 8, spares => 2,
    nodes => 2, teams => 4, attempts => 2, lost => 2, repairs => 2, newest_set => 13, errors => 0,
    warnings => 2, mode => 'team', began => '2026-11-18T11:06:40Z', end => 'The run came to its end.');
is($j->{$_}, $want{$_}, "$_") for sort keys %want;
ok($j->{good}, 'ended well');
# the script: 35.85 s; two ranks go back 280 calls, two 120, and all 8 at least 520 (seen: 480)
cmp_ok(abs($j->{seconds} - 35.85), '<', 0.01, 'duration');
is($j->{calls} - $j->{calls_again}, 8 * 2400, 'each call of the program is executed');
cmp_ok(abs($j->{calls_again} - (2 * 280 + 2 * 120 + 8 * 520)), '<=', 400, 'and so many a second time')
    or diag($j->{calls_again});
my ($f, $g) = @{ $j->{failures} };
is_deeply([@$f{qw(replaced back line spares lost)}], [[3], [2, 3], 4, 1, 1], 'the first failure');
is_deeply([@$g{qw(replaced back line spares lost)}], [[6], [6, 7], 6, 0, 1], 'the second failure');
cmp_ok(abs($f->{detect} + $f->{supply} + $f->{rebuild} + $f->{restore} - $f->{seconds}), '<', 0.002, 'its phases');
is_deeply([sort map {"$_->{ranks} $_->{from}"} @{ $f->{sources} }], ['1 memory of rank 7', '1 own memory'],
    'where its data came from');
my ($memory, $files) = @{ $j->{levels} };
is_deeply([@$memory{qw(level sets bytes)}], ['memory', 13, 13 * 8 * 3276800], 'sets in memory');
is_deeply([@$files{qw(level sets bytes)}], ['files', 4, 4 * 8 * 3276800], 'sets in files');
is_deeply([@{ $j->{lines} }{qw(skipped unknown_events other_runs)}], [0, 0, 0], 'every line is used');
cmp_ok($j->{traffic_bytes}, '==', 8 * (2 * 3276800 + 2 * 40960), 'traffic');

# ---- the page ----------------------------------------------------------------------------

my $page = "$tmp/page.html";
ftkit($data, '-o', $page);
ok($code == 0 && $out eq "$page\n", 'the page is written') or said();
my $html = slurp($page);
ok($html =~ /<h1>heat2d: 35.8 s on 8 ranks, 3 failures<\/h1>/, 'its headline');
ok($html =~ /id="$_"/, "its section $_") for qw(progress failures sets memory traffic energy texts configuration log);
ok($html !~ /<script|https?:|\bsrc=|\@import|\burl\(/, 'no script, and nothing from elsewhere');
ok($html !~ /\b(?:nan|inf)\b/, 'every coordinate is a number');
cmp_ok(length $html, '<', 200_000, 'of a small size');
ftkit($data, '-o', '-');
ok($code == 0 && $out eq $html, '-o - is standard output') or said();

# ---- energy ------------------------------------------------------------------------------

# Two nodes with a rank each, for 10 s; one of them has a sensor, or none has.
sub energy_log
{
    my (@more) = @_;
    my @lines = (opened(0, 0, 'aaa'), opened(0, 1, 'aaa') =~ s/"node":0/"node":1/r);
    for my $set (1, 2) {
        push @lines, map { event(2 * $set, $_, 'set', qq("set":$set,"level":"memory","calls":$set,"bytes":8,"seconds":0.5)) } 0, 1;
    }
    push @lines, map { event(6, $_, 'repair', '"seconds":1.5,"epoch":1') } 0, 1;
    write_file("$tmp/energy.jsonl", join '', @lines, @more, map { event(10, $_, 'close', '"code":0') } 0, 1);
    return json("$tmp/energy.jsonl")->{energy};
}
sub phases { my ($e) = @_; return { map { $_->{phase} => [$_->{seconds}, $_->{joules}] } @{ $e->{phases} } } }

my $e = energy_log();
is_deeply([@$e{qw(kind source nodes node_seconds seconds joules)}], ['model', '', 2, 20, 20, 1500 + 80 + 120],
    'without a sensor the energy is of the model');
is_deeply(phases($e), { run => [15, 1500], set => [2, 80], repair => [3, 120] }, '... by phase');
ftkit("$tmp/energy.jsonl", '-o', '-');
ok($out =~ /<strong>Model<\/strong>.*100 W.*40 W/ && $out =~ /energy \(model\)/ && $out !~ /[Mm]easured/, '... and the page says so')
    or said();
$e = energy_log(event(1, 0, 'config', '"checkpoint.line":"apart"'));
is_deeply(phases($e), { run => [17, 1700], repair => [3, 120] }, '... sets of lines apart are no phase');
$e = energy_log(event(3, 0, 'energy', '"source":"powercap","run_s":2.5,"run_j":300,"set_s":0.5,"set_j":20'),
    event(9, 0, 'energy', '"source":"powercap","run_s":5,"run_j":550.5,"wait_s":1,"wait_j":30'));
is_deeply([@$e{qw(kind source nodes node_seconds seconds joules)}], ['measured', 'powercap', 1, 20, 9, 900.5],
    'with a sensor it is measured, and nothing is of the model');
is_deeply(phases($e), { run => [7.5, 850.5], set => [0.5, 20], wait => [1, 30] }, '... by phase');
ftkit("$tmp/energy.jsonl", '-o', '-');
ok($out =~ /<strong>Measured<\/strong> on 1 of 2 nodes, by powercap\. The sensors cover 45 %/ && $out =~ /energy \(measured\)/
    && $out !~ /[Mm]odel/, '... and the page says so') or said();

# ---- rank 0 is lost ------------------------------------------------------------------------

# A replacement writes the line of its repair before it opens the context; if it is rank 0, its line
# has the lists.  A rank that goes back may count from 1 between the repair and the restore.
sub lists { my ($lost) = @_; return qq("lost":1,"spares":0,"replaced":[$lost],"back":[0,1]) }
{
    my @lines = map { opened(0, $_, 'aaa') . event(0.1, $_, 'restore', '"set":0,"calls":0')
        . event(1, $_, 'set', '"set":1,"level":"memory","calls":1,"bytes":8,"seconds":0.1')
        . event(8, $_, 'progress', '"calls":80') } 0, 1;
    my $to = '"set":1,"calls":1,"from":"own memory"';
    for my $n (1, 2) { # the second one soon after the first
        my ($t, $new) = (9 + 0.2 * $n, 200 + $n);
        my $figures = qq("seconds":0.01,"detect":0.01,"supply":0,"rebuild":0,"restore":0,"line":1,"epoch":$n);
        push @lines, event($t, 1, 'repair', $figures), event($t + 0.001, 1, 'progress', '"calls":1'),
            event($t + 0.002, 1, 'restore', $to),
            event($t, 0, 'repair', ($figures =~ s/0.01/7/r) . ',' . lists(0), pid => $new),
            opened($t + 0.001, 0, 'aaa', pid => $new) =~ s/"incarnation":0/"incarnation":1/r,
            event($t + 0.002, 0, 'restore', $to, pid => $new);
    }
    my $log = write_file("$tmp/zero.jsonl", join('', @lines,
        event(20, 1, 'finish', '"calls":100'), event(20, 0, 'finish', '"calls":100', pid => 202)));
    my $zero = json($log);
    is_deeply([@$zero{qw(lost repairs)}], [2, 2], 'rank 0 is lost twice: two processes in two failures');
    is_deeply([map { [@$_{qw(replaced back seconds)}] } @{ $zero->{failures} }],
        [([[0], [0, 1], 0.01]) x 2], '... with the lists of the new rank 0, and the time of a survivor');
    is($zero->{lines}{other_runs}, 0, '... every line is used');
    is($zero->{calls_again}, 2 * 79, '... the place of the set is where both go back to, not 0')
        or diag($zero->{calls_again});
    ftkit($log, '-o', '-');
    like($out, qr/>F1\xe2\x80\x93F2</, '... failures that are near to each other share a label');
}

# ---- several runs ------------------------------------------------------------------------

mkdir "$tmp/runs";
my @two = map { opened(0, $_, 'aaa') . event(1, $_, 'progress', '"calls":5') } 0, 1;
write_file("$tmp/runs/a.jsonl", join '', @two, map { opened(1000, $_, 'bbb') . event(1001, $_, 'finish', '"calls":9')
    . event(1002, $_, 'close', '"code":0') } 0, 1);
$j = json("$tmp/runs");
is_deeply([$j->{run}, $j->{seconds}, map { $_->{run} } @{ $j->{other_runs} }], ['bbb', 2, 'aaa'], 'the newest run');
like($err, qr/these logs have 2 runs.*\n.*--run aaa/, '... names the other');
$j = json('--run', 'aaa', "$tmp/runs");
is_deeply([$j->{run}, $j->{seconds}, $j->{good}], ['aaa', 1, JSON::PP::false], '--run chooses');
like($j->{end}, qr/no end of the run/, '... a run without an end');
ftkit('--json', '--run', 'ccc', "$tmp/runs");
ok($code == 1 && $err =~ /no run ccc .*\n.*--run aaa/, 'no such run: the runs that are there') or said();
write_file("$tmp/launched.jsonl", join '', event(0, -1, 'attempt', '"attempt":0,"command":"x"'), opened(1, 0, 'r1', n => 1),
    event(5, -1, 'attempt_end', '"attempt":0,"how":"lost","again":true'), event(6, -1, 'attempt', '"attempt":1,"command":"x"'),
    opened(7, 0, 'r2', n => 1, pid => 333), event(9, -1, 'run_end', '"code":3'));
$j = json("$tmp/launched.jsonl");
is_deeply([@$j{qw(attempts seconds)}], [2, 9], 'all attempts of one ftkit run are one run');
like($j->{end}, qr/failed: exit code 3/, '... with its exit code');
my @later = (event(100, -1, 'attempt', '"attempt":0,"command":"x"', pid => 44), opened(101, 0, 'r2', n => 1, pid => 444),
    event(102, 0, 'repair', '"seconds":0.5,"lost":1,"epoch":1', pid => 444), event(104, -1, 'run_end', '"code":0', pid => 44));
write_file("$tmp/launched.jsonl", slurp("$tmp/launched.jsonl") . event(8, 0, 'repair', '"seconds":0.25,"lost":1,"epoch":1', pid => 333)
    . join '', @later);
$j = json("$tmp/launched.jsonl");
is_deeply([@$j{qw(attempts repairs lost repair_seconds seconds)}], [3, 2, 2, 0.75, 104], 'a run that goes on another day');

# ---- names that are markup ---------------------------------------------------------------

my $evil = q(<script>alert(1)</script><img src=x onerror='a()'>\"&);
write_file("$tmp/evil.jsonl", opened(0, 0, $evil, n => 1, context => '<b>') =~ s{\./p}{$evil}r
    . event(1, 0, 'config', qq("$evil":"$evil"), context => '<b>')
    . event(1, 0, 'text', qq("level":"error","text":"$evil"), context => '<b>')
    . event(1, 0, 'restore', qq("set":0,"from":"$evil","calls":1), context => '<b>')
    . event(1, 0, 'repair', '"seconds":1,"epoch":1', context => '<b>')
    . event(1, 0, 'energy', qq("source":"$evil","run_s":1,"run_j":1), context => '<b>')
    . event(2, 0, 'halt', qq("reason":"$evil","set":0), context => '<b>'));
ftkit("$tmp/evil.jsonl", '-o', $page);
$html = slurp($page);
ok($code == 0 && $html =~ /&lt;script&gt;alert/, 'markup in names is text') or said();
ok($html !~ /<script|<img|<b>/, '... and nothing else');
is(scalar(() = $html =~ /&quot;&amp;/g) >= 6, 1, '... everywhere');

# ---- bad input ---------------------------------------------------------------------------

my $good = slurp("$data/node0.jsonl") . slurp("$data/node1.jsonl");
my $junk = join '', map {"$_\n"} 'hello', '{"t":1}', 'null', '[1]', "\0\0", "{\"a\":\"\0\"}", "\xff\xfe", '[' x 5000,
    '{"t":1795000001,"pid":1,"rank":0,"event":7}', '{"t":1e999,"pid":1,"rank":0,"event":"open"}',
    '{"t":1795000001,"pid":-1,"rank":99999999999,"event":"open"}', 'x' x (17 << 20);
write_file("$tmp/junk.jsonl", $junk . $good . '{"t":1795000009.5,"pid":1000');
$j = json("$tmp/junk.jsonl");
is_deeply([@$j{qw(ranks lost newest_set)}], [8, 2, 13], 'lines that are no events are skipped');
is($j->{lines}{skipped}, 13, '... and counted');
like($err, qr/^ftkit report: 13 of \d+ lines are skipped; the first: .*junk\.jsonl:1: /, '... and named');
write_file("$tmp/odd.jsonl", join '', map { opened(0, 0, 'r', n => 1) . event(1, 0, @$_) } ['set', '"set":9223372036854775807'],
    ['set', '"set":"1","calls":[]'], ['progress', '"calls":-5'], ['progress', '"calls":1e15,"log_held":1e18'],
    ['repair', '"seconds":1e300,"replaced":[-1,"a",7e99],"back":{},"line":-1'], ['traffic', '"to":[[0,1],7,[0,-1,1],[5,1,1]]'],
    ['flush', '"set":3,"code":-21,"seconds":-1'], ['close', '"code":"x"'], ['unheard', '"of":1'], ['config', '"a":1']);
ftkit("$tmp/odd.jsonl", '-o', $page);
ok($code == 0 && slurp($page) !~ /\b(?:nan|inf)\b/, 'wrong types and absurd numbers') or said();
mkdir "$tmp/empty";
my @bad = (["$tmp/empty", 2, qr/no event logs in .*no file \*\.jsonl/], ["$tmp/none", 1, qr/No such file/],
    ["$top/README.md", 1, qr/no run in .*README\.md/], ['/dev/null', 1, qr/not a regular file/],
    ["$data/node0.jsonl", '-o', "$tmp/none/x.html", 1, qr/cannot be written: No such file/],
    ["$data/node0.jsonl", '-o', '/dev/full', 1, qr/cannot be written: No space/],
    ["$tmp/junk.jsonl", '-o', "$tmp/junk.jsonl", 2, qr/is one of the logs/],
    ['--json', '-o', 'x', $data, 2, qr/--json writes no page/], ['--nonsense', 2, qr/^usage: /m]);
for my $case (@bad) {
    my ($like, $want, @args) = reverse @$case;
    ftkit(reverse @args);
    ok($code == $want && $err =~ $like, join ' ', map { s{.*/}{}r } reverse @args) or said();
}
ok(!-e "$tmp/none" && -s "$tmp/junk.jsonl" > 1 << 20, 'and nothing is overwritten');

# ---- in a browser ------------------------------------------------------------------------

SKIP: {
    skip('no chromium', 8) if system('command -v chromium >/dev/null 2>&1') != 0;
    ftkit($data, '-o', $page);

    sub browser
    {
        my @args = @_;
        my @cmd = ("$top/scripts/guard", 60, '--', 'chromium', '--headless', '--no-sandbox', '--disable-gpu',
            '--disable-dev-shm-usage', "--user-data-dir=$tmp/chromium", @args, "file://$page");
        my $shell = join ' ', map {"'$_'"} @cmd;
        return `$shell 2>'$tmp/chromium.err'`;
    }
    browser('--window-size=1100,1600', "--screenshot=$tmp/page.png");
    cmp_ok(-s "$tmp/page.png" // 0, '>', 50_000, 'a picture of the page');
    # widths of the page: the browser's own layout, put into the title by a script of the test
    write_file($page, slurp($page) =~ s{<meta http-equiv[^>]*>}{}r =~ s{</body>}{<script>
        document.title = 'wide ' + document.documentElement.scrollWidth + ' of ' + innerWidth + ' paper '
            + getComputedStyle(document.body).backgroundColor + ' tables '
            + Math.max(...[...document.querySelectorAll('table.list')].map(t => t.scrollWidth))</script></body>}r);
    my %paper;
    for my $mode ('light', 'dark') {
        my @set = $mode eq 'dark' ? '--blink-settings=preferredColorScheme=0' : ();
        my $dom = browser('--window-size=390,800', '--dump-dom', @set);
        my $figures = () = $dom =~ /<figure>/g;
        my $drawn = () = $dom =~ /<svg class="[a-z ]+" viewBox/g;
        ok($figures == 7 && $drawn == 7, "the browser has 7 figures, $mode")
            or diag("$figures $drawn", slurp("$tmp/chromium.err"));
        my ($wide, $of, $paper, $tables) = $dom =~ /<title>wide (\d+) of (\d+) paper ([^<]+) tables (\d+)</;
        cmp_ok($tables // 1e9, '<=', $of // 0, '... and neither does a table');
        ok($wide && $wide <= $of, "on a phone, $mode: the page does not scroll sideways")
            or diag($wide // 'nothing', slurp("$tmp/chromium.err"));
        $paper{$mode} = $paper // '';
    }
    is_deeply(\%paper, { light => 'rgb(255, 255, 255)', dark => 'rgb(18, 22, 27)' }, 'light and dark');
}

done_testing();
