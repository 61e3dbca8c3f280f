#!/usr/bin/perl
# Teams of the message log: lists, files, what is wrong in them, the communication matrix and
# what ftkit teams makes of it.  What is logged is the cut of the matrix, to the byte, and a
# failure sends back the team that was asked for.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitLog;
use FtkitTest;
use JSON::PP;
use Test::More;

ulfm_only();
asleep_in_waits();

my $tmp = scratch();
my ($code, $out, $err);

sub ftkit
{
    ($code, $out, $err) = command(@_);
    return $out;
}

sub put
{
    my ($name, $text) = @_;
    return write_file("$tmp/$name", $text);
}

# Rows of a matrix by sender and receiver: [messages, bytes].
sub read_matrix
{
    my ($path) = @_;
    my %m;
    for my $line (grep { /^\d/ } split /\n/, slurp($path)) {
        my ($from, $to, $messages, $bytes) = split /,/, $line;
        $m{$from}{$to} = [$messages, $bytes];
    }
    return \%m;
}

# Messages and bytes that a rank, or all, has sent to other teams; i 0 or 1.
sub cut
{
    my ($m, $team, $i, @ranks) = @_;
    my $sum = 0;
    for my $from (@ranks ? @ranks : keys %$m) {
        $sum += $m->{$from}{$_}[$i]
            for grep { $team->[$_] != $team->[$from] } keys %{ $m->{$from} };
    }
    return $sum;
}

# A job of a program with a matrix; the matrix is left in {matrix}.
my $jobs = 0;
sub measured
{
    my ($p, %o) = @_;
    my $base = sprintf '%s/m%03d', $tmp, ++$jobs;
    my $j = logged({ %$p, args => [@{ $p->{args} // [] }, '-i', "$base.info"] }, %o,
        env => { FTKIT_LOG_MATRIX => "$base.csv", FTKIT_REPORT_STDERR => 'info',
            %{ $o{env} // {} } });
    $j->{info} = "$base.info";
    $j->{csv} = "$base.csv";
    $j->{matrix} = -e $j->{csv} ? read_matrix($j->{csv}) : {};
    return $j;
}

# What a rank has logged between its first set and the end: (messages, bytes).
sub logged_by
{
    my ($j, $rank) = @_;
    my %at = map { /^(\w+) (\d+) (\d+)$/ ? ($1 => [$2, $3]) : () }
        split /\n/, slurp("$j->{info}.$rank");
    return (-1, -1) if !$at{line} || !$at{end};
    return map { $at{end}[$_] - $at{line}[$_] } 0, 1;
}

# Every rank has logged what the matrix says of its teams.
sub is_cut
{
    my ($p, $n, $env, $teams, $what) = @_;
    my $j = measured($p, n => $n, spares => 0, env => $env);
    my $team = [read_teams($n, $teams)];
    my @bad;
    push @bad, "exit code $j->{rc}" if $j->{rc} != 0;
    for my $r (0 .. $n - 1) {
        my @got = logged_by($j, $r);
        for my $i (0, 1) {
            my $want = cut($j->{matrix}, $team, $i, $r);
            push @bad, "rank $r: $got[$i] logged, the cut is $want" if $got[$i] != $want;
        }
    }
    is(join(', ', @bad), '', title($p) . ": $what: what is logged is the cut")
        or diag(substr $j->{log}, 0, 3000);
    return $j;
}

# ---- a mesh of 4 x 4 ranks ---------------------------------------------------------------

my $mesh = { name => 'mesh', steps => 30 };
my $rows = '0-3 4-7 8-11 12-15';
my $blocks = '0-1,4-5 2-3,6-7 8-9,12-13 10-11,14-15';
my $j = basis(sub { return is_cut($mesh, 16, { FTKIT_LOG_TEAM_LIST => $blocks }, $blocks, 'teams of a list') });
like($j->{log}, qr/4 teams of 4 ranks$/m, '... which it says');
my ($m, $csv) = ($j->{matrix}, $j->{csv});
like(slurp($csv), qr/\A# ftkit communication matrix 1\n# context: default\n# ranks: 16\n/,
    'the matrix says what it is');
my $pairs = () = slurp($csv) =~ /^\d/mg;
like(slurp($csv), qr/\n# end: $pairs pairs\n\z/, '... and how much');
is(scalar(glob("$csv.tmp*")), undef, '... and leaves no temporary file');
{
    my @wrong;
    my $edges = 0;
    for my $a (0 .. 15) {
        for my $b (0 .. 15) {
            my $near = abs($a % 4 - $b % 4) + abs(int($a / 4) - int($b / 4)) == 1;
            my ($messages, $bytes) = @{ $m->{$a}{$b} // [0, 0] };
            $edges += $near;
            # besides the mesh there are a few words of the verdict's collectives
            my ($steps, $most) = $near ? (30, 24000) : (0, 0);
            push @wrong, "$a to $b: $messages, $bytes"
                if $messages < $steps || $messages > $steps + 3 || $bytes < $most
                || $bytes > $most + 64;
        }
    }
    is("@wrong", '', 'messages and bytes of every pair of a mesh, the same both ways');
    is($edges, 48, '... of all its edges');
}

my $total = cut($m, [0 .. 15], 1);
ftkit('teams', '--size', 4, $csv);
is($code, 0, 'ftkit teams') or diag($err);
my $proposal = $out;
my $proposed = [read_teams(16, $proposal)];
my %size;
$size{$_}++ for @$proposed;
is(join(' ', map { "$_:$size{$_}" } sort keys %size), '0:4 1:4 2:4 3:4', '... teams of four');
my ($all) = $proposal =~ /^# bytes in all: (\d+)$/m;
my ($between) = $proposal =~ /^# bytes between teams: (\d+) \(/m;
my ($consecutive) = $proposal =~ /^# bytes between teams of consecutive ranks: (\d+) \(/m;
is($all, $total, '... says the bytes in all');
is($between, cut($m, $proposed, 1), '... the cut of what it proposes');
is($consecutive, cut($m, [read_teams(16, $rows)], 1), '... and of consecutive ranks');
cmp_ok($between, '<=', cut($m, [read_teams(16, $blocks)], 1),
    '... and finds the blocks of a mesh, or better');
like($proposal, qr/^# ranks that one failure rolls back, on average: 25\.0 %$/m,
    '... and what a failure costs');
is(ftkit('teams', '--size', 4, $csv), $proposal, '... the same again');

my $file = put('teams.txt', $proposal);
is_cut($mesh, 16, { FTKIT_LOG_TEAM_FILE => $file }, $proposal, 'teams of ftkit teams');
is_cut($mesh, 16, { FTKIT_LOG_TEAM_FILE => put('own.txt', "# odd\n0,5,10,15\n1-4\n\n6-9,11-14\n") },
    "0,5,10,15\n1-4\n6-9,11-14\n", 'teams of a file');
is_cut($mesh, 4, { FTKIT_LOG_TEAM_LIST => '0-3' }, '0-3', 'all ranks one team');
is_cut($mesh, 4, { FTKIT_LOG_TEAM_LIST => '0 1 2 3' }, '0 1 2 3', 'each rank a team');
is_cut($mesh, 4, { FTKIT_LOG_TEAMS => 'all' }, '0-3', 'log.teams = all');
is_cut($mesh, 4, { FTKIT_LOG_TEAMS => 'rank' }, '0 1 2 3', 'log.teams = rank');

# other programs: persistent requests, collectives of much data, wildcards
for my $p (programs()) {
    is_cut($p, 4, { FTKIT_LOG_TEAM_LIST => '0,2 1,3' }, '0,2 1,3', 'teams that are no blocks');
}

# ---- what ftkit teams says ----------------------------------------------------------------

my $json = eval { JSON::PP->new->decode(ftkit('teams', '--json', '--size', 4, $csv)) } // {};
is($json->{bytes_between}, $between, 'as JSON: the cut');
is($json->{messages_between}, cut($m, $proposed, 0), '... in messages');
is($json->{bytes_consecutive}, $consecutive, '... of consecutive ranks');
is("@{ $json->{team} // [] }", "@$proposed", '... and the team of each rank');
is($json->{rolled_back}, 0.25, '... and what a failure costs');

for my $k (1 .. 16) {
    my $t = [read_teams(16, ftkit('teams', '--teams', $k, $csv))];
    my %n;
    $n{$_}++ for @$t;
    my @n = sort { $a <=> $b } values %n;
    my ($said) = $out =~ /^# bytes between teams: (\d+)/m;
    my ($blocks_cut) = $out =~ /^# bytes between teams of consecutive ranks: (\d+)/m;
    ok($code == 0 && @n == $k && $n[-1] - $n[0] <= 1 && !grep({ $_ < 0 } @$t)
            && $said == cut($m, $t, 1) && $said <= $blocks_cut,
        "$k teams: sizes differ by one at most, the cut is what it says") or diag($out);
}
{
    my $t = [read_teams(16, ftkit('teams', '--size', 4, '--ranks-per-node', 2, $csv))];
    is(join(' ', grep { $t->[2 * $_] != $t->[2 * $_ + 1] } 0 .. 7), '',
        '--ranks-per-node keeps the ranks of a node together');
    cmp_ok(cut($m, $t, 1), '<=', $consecutive, '... and is no worse than consecutive ranks');
}
ftkit('teams', '--file', put('rows.txt', join("\n", split ' ', $rows) . "\n"), $csv);
like($out, qr/^# bytes between teams: $consecutive \(/m, '--file: the cut of given teams');
is(join(' ', read_teams(16, $out)), join(' ', read_teams(16, $rows)), '... which are shown again');

for my $bad ([], ['--size', 4], ['--size', 0, $csv], ['--size', 4, '--teams', 4, $csv],
    ['--teams', 17, $csv], ['--teams', 9, '--ranks-per-node', 2, $csv],
    ['--size', 3, '--ranks-per-node', 2, $csv], ['--size', 'x', $csv], ['--size', 4, $csv, $csv],
    ['--ranks-per-node', 0, '--size', 4, $csv], ['--keep', 1, '--size', 4, $csv],
    ['--file', $file, '--ranks-per-node', 2, $csv], ['--size', -4, $csv])
{
    ftkit('teams', @$bad);
    ok($code == 2 && $err ne '' && $out eq '', "usage: @{$bad}[0 .. ($#$bad < 3 ? $#$bad : 3)]")
        or diag("$code\n$out$err");
}
ftkit('teams', '--help');
like($out, qr/^usage: ftkit teams /, '... which --help explains');
ftkit('teams', '--file', put('wrong.txt', "0-3\n4-x\n"), $csv);
ok($code == 1 && $err =~ /wrong\.txt:2: 'x' where a rank should be/, '... and a wrong file') or diag($err);

# ---- matrices that are damaged or none -------------------------------------------------------

my $whole = slurp($csv);
my %damage = (
    'an empty file' => ['', qr/not whole/],
    'a foreign file' => ["a,b\n1,2\n", qr/no communication matrix/],
    'another version' => [$whole =~ s/matrix 1/matrix 2/r, qr/another version/],
    'cut in a number' => [$whole =~ s/\d\n# end.*\z//sr, qr/no line of text/],
    'cut behind a line' => [$whole =~ s/# end.*\z//sr, qr/not whole/],
    'a line less' => [$whole =~ s/^\d.*\n//mr, qr/pairs and not as many/],
    'a line twice' => [$whole =~ s/^(\d.*\n)/$1$1/mr, qr/not behind the one before/],
    'another order' => [$whole =~ s/^(\d.*\n)(\d.*\n)/$2$1/mr, qr/not behind the one before/],
    'no number' => [$whole =~ s/^0,1,/0,1,x/mr, qr/not 'from,to,messages,bytes'/],
    'another spelling' => [$whole =~ s/^0,1,/0,1,0/mr, qr/not 'from,to,messages,bytes'/],
    'a column more' => [$whole =~ s/^(0,1,.*)/$1,1/mr, qr/not 'from,to,messages,bytes'/],
    'a negative number' => [$whole =~ s/^0,1,/0,1,-/mr, qr/not 'from,to,messages,bytes'/],
    'a rank too high' => [$whole =~ s/^15,14,/15,16,/mr, qr/there are 16 ranks/],
    'no ranks' => [$whole =~ s/^# ranks: .*\n//mr, qr/number of ranks is missing/],
    'ranks that are none' => [$whole =~ s/^# ranks: .*/# ranks: many/mr, qr/no number of ranks/],
    'too many ranks' => [$whole =~ s/^# ranks: .*/# ranks: 99999999/mr, qr/no number of ranks/],
    'no columns' => [$whole =~ s/^from.*\n//mr, qr/names of the columns/],
    'more bytes than there are' =>
        [$whole =~ s/^(0,1,\d+),.*/$1,18446744073709551615/mr, qr/no job can have sent/],
    'a number that does not fit' =>
        [$whole =~ s/^(0,1,\d+),.*/$1,18446744073709551616/mr, qr/not 'from,to,messages,bytes'/],
    'something behind it' => ["$whole\n", qr/goes on behind its end/],
    'a NUL' => [$whole =~ s/^0,1,/0,1,\0/mr, qr/no line of text/],
);
for my $what (sort keys %damage) {
    my ($text, $why) = @{ $damage{$what} };
    ftkit('teams', '--size', 4, put('damaged.csv', $text));
    ok($code == 1 && $out eq '' && $err =~ /^ftkit teams: \S+damaged\.csv:\d+: .*$why/,
        "a matrix with $what is refused") or diag("$code\n$out$err");
}
for my $path ("$tmp/not-there", $tmp) {
    ftkit('teams', '--size', 4, $path);
    ok($code == 1 && $out eq '' && $err =~ /^ftkit teams: \Q$path\E/, "... and so is $path");
}

# ---- failures -----------------------------------------------------------------------------------

# The last line of a matrix is there, and all pairs are those of an undisturbed run.
sub same_matrix
{
    my ($got, $want) = @_;
    my ($a, $b) = map { s/after \d+ calls/after calls/r } slurp($got), slurp($want);
    return $a eq $b;
}

my $still = basis(sub { return measured($mesh, n => 4, spares => 0) });
my $teams = put('pairs.txt', "0,3\n1,2\n");
for my $point (qw(app.step app.mid log.send)) {
    my $fault = "$point:1:" . ($point eq 'log.send' ? 37 : 17) . ':kill';
    my $k = measured($mesh, n => 4, env => { FTKIT_LOG_TEAM_FILE => $teams }, fault => $fault);
    is($k->{rc}, 0, "$fault, teams of a file: the job goes on") or diag($k->{log});
    is($k->{result}, $still->{result}, '... to the same result');
    like($k->{log}, qr/ranks 1 and 2 return to set \d+, all others go on/, '... by the team alone');
    my @steps = map { join ' ', slurp("$k->{dir}/watch.$_") =~ / (\d+)$/mg } 0 .. 3;
    is(join('|', @steps[0, 3]), join('|', (join ' ', 0 .. 29) x 2), '... the other does not');
    isnt($steps[1], $steps[0], '... and the lost rank does');
    ok(same_matrix($k->{csv}, $still->{csv}), '... and every message counts once')
        or diag(slurp($k->{csv}), slurp($still->{csv}));
    is(scalar @{ $k->{faults} }, 1, '... the fault has come to pass');
}

# anywhere, once or twice, with teams of every kind
{
    my $count = $ENV{FTKIT_TEST_COUNT} // (all_cases() ? 16 : 4);
    my @lists = ('0,2 1,3', '0-2 3', '0 1-3', '0,3 1 2', '0-3', '0 1 2 3');
    my @exact = grep { title($_) !~ /farm|arrival/ } $mesh, programs(); # the same messages again
    my %whole;
    srand($ENV{FTKIT_TEST_SEED} // 5);
    for my $i (1 .. $count) {
        my $p = one_of(@exact);
        $whole{ title($p) } //= basis(sub { return measured($p, spares => 0)->{csv} });
        my $env = { FTKIT_LOG_TEAM_FILE =>
                put('random.txt', join("\n", split(' ', one_of(@lists))) . "\n") };
        my $fault = sprintf('%s:%d:%d:kill', one_of(qw(app.step app.mid log.send ckpt.packed
                    ckpt.committed log.drained)), rand(4), 1 + rand(6));
        $fault .= sprintf(',%s:%d:1:kill', one_of(qw(matrix.send matrix.collect matrix.write
                    recover.end log.settle)), rand(4)) if rand() < 0.5;
        my $k = measured($p, env => $env, fault => $fault, spares => 3);
        my $again = same_matrix($k->{csv}, $whole{ title($p) });
        my @killed = map { /rank (\d+) / ? $1 : () } @{ $k->{faults} };
        my $what = title($p) . ": $fault";
        cmp_ok(scalar @killed, '>', 0, "$what: has come to pass");
        my $bad = verdict($p, $k, env => $env, killed => \@killed, what => $what,
            reason => @killed > 1 && qr/no copy or parity is left|before the first set/);
        next if !defined $bad;
        is($bad, '', '... only the team goes back');
        ok($again, '... and every message counts once');
    }
}

# while the matrix is collected and written, by rank 0 or another
for my $fault ('matrix.collect:0:2:kill', 'matrix.write:0:1:kill', 'matrix.send:2:1:kill',
    'text.rename:0:1:kill')
{
    my $k = measured($mesh, n => 4, env => { FTKIT_LOG_TEAM_FILE => $teams }, fault => $fault);
    is($k->{rc}, 0, "$fault: the job ends well") or diag($k->{log});
    is($k->{result}, $still->{result}, '... with its result');
    ok(same_matrix($k->{csv}, $still->{csv}), '... and the matrix')
        or diag(slurp($k->{csv}), slurp($still->{csv}));
    is(scalar @{ $k->{faults} }, 1, '... the fault has come to pass');
}

# a file that cannot be written is a warning, told early where that is possible
for my $case (['nowhere/m.csv', undef, qr/log\.matrix cannot be written in \S*nowhere/],
    ['m.csv', 'text.write:0:1:ENOSPC', qr/log\.matrix is not written: m\.csv: write: No space/],
    ['m.csv', 'text.fsync:0:1:EIO', qr/log\.matrix is not written: m\.csv: fsync: Input/])
{
    my ($path, $fault, $why) = @$case;
    my $k = logged($mesh, spares => 0, fault => $fault, env => {
        FTKIT_LOG_MATRIX => "$tmp/$path", FTKIT_REPORT_STDERR => 'warning' });
    is($k->{rc}, 0, ($fault // $path) . ': the job ends well') or diag($k->{log});
    is($k->{result}, $still->{result}, '... with its result');
    like($k->{log}, $why, '... and a warning');
    is(join(' ', glob "$tmp/m.csv*"), '', '... and no file');
}

# ---- teams that cannot be ------------------------------------------------------------------------

for my $case ([{ FTKIT_LOG_TEAM_LIST => '0-1 2' }, qr/log\.team_list: rank 3 is in no team/],
    [{ FTKIT_LOG_TEAM_LIST => '0-1 2-4' }, qr/log\.team_list: rank 4 is out of range/],
    [{ FTKIT_LOG_TEAM_LIST => '0-1 1-3' }, qr/log\.team_list: rank 1 is in another team/],
    [{ FTKIT_LOG_TEAM_LIST => '0-1;2-3' }, qr/FTKIT_LOG_TEAM_LIST: log\.team_list: ';' behind/],
    [{ FTKIT_LOG_TEAM_FILE => "$tmp/none" }, qr/log\.team_file: \S+none: No such file/],
    [{ FTKIT_LOG_TEAM_FILE => put('bad.txt', "0\n1-2\n3,y\n") }, qr/bad\.txt:3: 'y' where a rank/],
    [{ FTKIT_LOG_TEAM_FILE => $teams, FTKIT_LOG_TEAM_LIST => '0-3' }, qr/only one of them can/],
    [{ FTKIT_LOG_TEAM_FILE => $teams, FTKIT_LOG_TEAM_SIZE => 2 }, qr/only one of them can/])
{
    my ($env, $why) = @$case;
    my $k = logged($mesh, spares => 0, env => $env);
    my @told = $k->{log} =~ /^mesh: rank \d+: open: .*$why/mg;
    # not 1 when prterun itself crashes at an end that it did not expect
    ok($k->{rc} != 0 && $k->{rc} != 124 && @told >= 4 && $k->{seconds} < 20 * pace(), "$why: every rank is told") or diag("$k->{rc}\n$k->{log}");
}

# a file that is not the same everywhere: rank 2 reads another one
{
    my $sh = put('other.sh', "#!/bin/sh\n[ \"\$OMPI_COMM_WORLD_RANK\" != 2 ] || cd '$tmp/there'\n"
            . 'exec "$@"' . "\n");
    chmod 0755, $sh;
    mkdir "$tmp/there";
    put('there/t.txt', "0-1\n2-3\n");
    my $k = job(program => $sh, args => [build() . '/mpi/mesh'],
        env => { FTKIT_LOG_ENABLED => 'true', FTKIT_LEVEL_HDF5_ENABLED => 'false',
            FTKIT_LOG_TEAM_FILE => 't.txt' }, spares => 0,
        keep => do { mkdir "$tmp/here"; put('here/t.txt', "0-2\n3\n"); "$tmp/here" });
    ok($k->{rc} == 2 && $k->{log} =~ /the ranks have different teams/,
        'teams that differ are refused') or diag($k->{log});
}

# a team that is on several nodes, and a node with several teams
{
    my %nodes = (FTKIT_TOPOLOGY_RANKS_PER_NODE => 2, FTKIT_REPORT_STDERR => 'warning');
    my $k = logged($mesh, spares => 0, env => { FTKIT_LOG_TEAM_LIST => '0,2 1,3', %nodes });
    is($k->{rc}, 0, 'teams across nodes are possible') or diag($k->{log});
    like($k->{log}, qr/ranks 0 and 1 are on the same node and in different teams/, '... and warned of');
    $k = logged($mesh, spares => 0, env => { FTKIT_LOG_TEAM_LIST => '0-3', %nodes });
    unlike($k->{log}, qr/different teams/, '... but not teams of whole nodes');
}

# teams that do nothing: one of all ranks, which nobody has asked for; teams without the log
{
    my %told = (FTKIT_REPORT_STDERR => 'warning');
    my $one = qr/warning: .*log\.enabled with one team of all 4 ranks/;
    my $k = logged($mesh, spares => 0, env => \%told);
    is(scalar(() = $k->{log} =~ /$one/g), 1, 'one team of all ranks is warned of, once')
        or diag($k->{log});
    $k = logged($mesh, spares => 0, env => { FTKIT_LOG_TEAMS => 'all', %told });
    unlike($k->{log}, $one, '... but not when it was asked for');
    $k = logged($mesh, spares => 0, env => { FTKIT_LOG_TEAM_SIZE => 2, %told });
    unlike($k->{log}, $one, '... nor two teams');
    $k = job(program => build() . '/mpi/solver', spares => 0,
        env => { FTKIT_LOG_TEAMS => 'rank', %told });
    is(scalar(() = $k->{log} =~ /warning: .*FTKIT_LOG_TEAMS: log\.teams: without effect/g), 1,
        'teams without the log are warned of, once') or diag($k->{log});
}

# a process that is lost while the context opens: its replacement, a spare or spawned, has not
# read the file
for my $supply ('spare', 'spawn') {
    my $k = measured($mesh, spares => $supply eq 'spare' ? 1 : 0, fault => 'open.gathered:2:1:kill',
        env => { FTKIT_LOG_TEAM_FILE => $teams, FTKIT_RECOVER_SUPPLY => $supply });
    is($k->{rc}, 0, "a process lost in opening, replaced by a $supply") or diag($k->{log});
    is($k->{result}, $still->{result}, '... with the same result');
    my $team = [read_teams(4, slurp($teams))];
    is(join(' ', map { (logged_by($k, $_))[1] } 0 .. 3),
        join(' ', map { cut($k->{matrix}, $team, 1, $_) } 0 .. 3), '... and the same teams');
    is(scalar @{ $k->{faults} }, 1, '... the fault has come to pass');
}

done_testing();
