#!/usr/bin/perl
# Teams that keep no messages (log.silent): what they log, who rolls back with them, and results
# after losses at any moment.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  its length
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
srand($ENV{FTKIT_TEST_SEED} // 11);

my ($n, $steps) = (5, 40);
my %hub = (FTKIT_LOG_TEAMS => 'rank', FTKIT_LOG_SILENT => '0', FTKIT_CHECKPOINT_PERIOD => '4 calls');

sub star {
    my ($variant) = @_;
    return { name => 'star', steps => $steps, args => [ '-m', $variant ] };
}

# The ranks that have begun a step again, or are killed ones, as text.
sub went_back {
    my ($j) = @_;
    my @back;
    for my $r (0 .. $n - 1) {
        my @steps = slurp("$j->{dir}/watch.$r") =~ / (\d+)$/mg;
        push(@back, $r) if "@steps" ne join(' ', 0 .. $steps - 1);
    }
    return "@back";
}

# A job of a star in which exactly the ranks $back roll back.
sub goes_back {
    my ($variant, $fault, $back, %o) = @_;
    my $p = star($variant);
    my $env = { %hub, %{ $o{env} // {} } };
    delete $env->{FTKIT_LOG_TEAMS} if $env->{FTKIT_LOG_TEAM_LIST} || $env->{FTKIT_TOPOLOGY_RANKS_PER_NODE};
    my $faults = 1 + ($fault =~ tr/,//);
    my $base = scratch() . '/back.info';
    unlink(glob("$base.*"));
    push(@{ $p->{args} }, '-i', $base);
    my $j = logged($p, n => $n, spares => $o{spares} // $faults, env => $env, fault => $fault);
    pop(@{ $p->{args} }) for 1, 2;
    $j->{info} = $base;
    my $what = join(' ', "star -m $variant, silent $env->{FTKIT_LOG_SILENT}:", $fault, $o{what} // ());
    my @bad;
    push(@bad, "exit code $j->{rc}") if $j->{rc} != 0;
    push(@bad, "another result: $j->{result}") if $j->{result} ne undisturbed($p, $n);
    push(@bad, scalar(@{ $j->{faults} }) . ' faults') if !is_skipped() && @{ $j->{faults} } != $faults;
    push(@bad, 'a difference') if $j->{log} =~ /is not what it was|does not take the same course/;
    push(@bad, 'ranks ' . went_back($j) . ' went back') if !is_skipped() && went_back($j) ne $back;
    is(join(', ', @bad), '', "$what: $back") or diag(substr($j->{log}, 0, 3000));
    return $j;
}

# ---- without a failure: what is logged

{
    my $p = star('ring');
    my $base = scratch() . '/info';
    my $j = basis(sub { return logged({ %$p, args => [ @{ $p->{args} }, '-i', $base ] }, n => $n, spares => 0,
        env => { %hub, FTKIT_REPORT_STDERR => 'info' }) });
    my @logged;
    for my $r (0 .. $n - 1) {
        my %at = slurp("$base.$r") =~ /^(line|end) (\d+ \d+)$/mg;
        my ($from, $to) = map { [ split(' ', $at{$_} // '-1 -2') ] } 'line', 'end';
        push(@logged, [ map { $to->[$_] - $from->[$_] } 0, 1 ]);
    }
    is($j->{rc}, 0, 'a star ends well') or diag($j->{log});
    is($j->{result}, undisturbed($p, $n), '... with the result of a star whose teams all log');
    is("@{ $logged[0] }", '0 0', 'a silent hub logs no message and no byte after the first set');
    cmp_ok($logged[$_][1], '>', 100_000, "... and leaf $_ does") for 1 .. $n - 1;
    like($j->{log}, qr/: 5 teams of 1 rank, 1 of them keeps no messages \(log\.silent\)$/m,
        '... which the opening line has') or diag($j->{log});
    my ($code, $out, $err) = command('report', '-o', "$base.html", "$j->{dir}/events");
    like(slurp("$base.html"), qr/so the message log kept [\d.]+ [kM]iB: silent teams keep nothing\./,
        '... and ftkit report') or diag("$code\n$out$err");
}

# ---- who rolls back: a leaf takes the hub along when the hub has sent to it since the set

my @moments = all_cases() ? (3, 4, 5, 6, 17, 29) : (4, 5, 18);
for my $pass (@moments) {
    goes_back('all', "app.mid:3:$pass:kill", '0 3');
    goes_back('ring', "app.mid:1:$pass:kill", '0 1');
    goes_back('ring', "app.mid:2:$pass:kill", '0 2');
    goes_back('quiet', "app.mid:1:$pass:kill", '0 1');
    goes_back('quiet', "app.mid:2:$pass:kill", $pass > 4 ? '2' : '0 2', what => '(the hub sends it rows in four steps)');
    goes_back('all', "app.mid:0:$pass:kill", '0');
    goes_back('ring', 'app.inflight:0:' . (4 * $pass + 2) . ':kill', '0');
}

# a chain: leaf 1 is silent, too, and the hub that goes back takes it along
my %chain = (FTKIT_LOG_SILENT => '0-1');
for my $pass (@moments) {
    goes_back('all', "app.mid:4:$pass:kill", '0 1 4', env => \%chain, what => '(while leaf 1 has sent)')
        if $pass % 4 != 1; # behind a set leaf 1 may not have sent yet
    goes_back('quiet', "app.mid:2:$pass:kill", $pass > 4 ? '2' : '0 1 2', env => \%chain);
}

# the only message since the set is a short one, which takes another way
goes_back('all', 'app.mid:3:1:kill', '0 3');
goes_back('all', 'app.mid:2:17:kill', '0 2');

# before the first set all teams keep their messages
goes_back('all', 'recover.begin:3:1:kill', '');
goes_back('all', 'recover.begin:0:1:kill', '');

# a replacement of the hub, a spare or spawned, is silent, too, and goes along
for my $supply ('spare', 'spawn') {
    my $j = goes_back('ring', 'app.mid:0:6:kill,app.mid:3:22:kill', '0 3', spares => $supply eq 'spare' ? 2 : 0,
        env => { FTKIT_RECOVER_SUPPLY => $supply }, what => $supply);
    next if is_skipped();
    my @hub = slurp("$j->{info}.0") =~ /^(?:line|end) (\d+ \d+)$/mg;
    is($hub[-1] // '', '0 0', '... and logs nothing');
    like($j->{log}, qr/ranks 0 and 3 return to set \d+, all others go on/, '... as the line after the repair says');
}

# a replay that sends something else is found, as that of other teams
{
    my $j = logged(star('other'), n => $n, fault => 'app.mid:0:18:kill', env => \%hub);
    like($j->{log}, qr/rank 0: message \d+ to rank 1 with tag 1 on .* is not what it was before the failure/,
        'a silent rank that does not send the same again is named') or diag($j->{log});
}

# teams of several ranks: one rank of the list is enough
goes_back('ring', 'app.mid:3:7:kill', '0 1 2 3', env => { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 });
goes_back('ring', 'app.mid:3:7:kill', '0 1 2 3', env => { FTKIT_LOG_TEAM_LIST => '0,1 2,3 4',
    FTKIT_LOG_SILENT => '1' });
for my $case ([ 'ring', '2 3 4' ], [ 'all', '4' ]) { # leaf 3 sends to leaf 4 in a ring
    my ($variant, $back) = @$case;
    goes_back($variant, 'app.mid:4:7:kill', $back, env => { FTKIT_LOG_TEAM_LIST => '0,1 2,3 4', FTKIT_LOG_SILENT => '2' });
}

# ---- before, at and after a set; in the repair; in the replay

my @points = qw(app.step app.mid app.inflight log.send log.received ckpt.packed ckpt.voted ckpt.committed log.drained);
my @later = qw(log.settle log.marks repair.plan repair.built repair.agreed recover.begin app.step app.mid log.send);
my $count = $ENV{FTKIT_TEST_COUNT} // (all_cases() ? 40 : 14);

# Kills of one or two ranks of a program, and what may go back with them cannot be told beforehand.
sub any_loss {
    my ($p, $ranks, %o) = @_;
    my $first = int(rand($ranks));
    my $point = one_of(grep { $_ ne 'app.inflight' || $first == 0 || $p->{name} ne 'star' } @points);
    my $most = $point =~ /^app\.(?:step|mid)/ ? 30 : $point =~ /^app/ ? 100 : $point =~ /^log\.[sr]e/ ? 120 : 8;
    my $fault = $p->{messages} ? call_fault($p, $first)
        : $p->{name} eq 'star' ? sprintf('%s:%d:%d:kill', $point, $first, 1 + rand($most))
        :                        fault_of($p, $first);
    my $second = int(rand($ranks));
    $fault .= sprintf(',%s:%d:1:kill', one_of(@later), $second) if $second != $first && rand() < 0.5;
    my $j = logged($p, n => $ranks, spares => 3, env => $o{env}, fault => $fault);
    my $what = join(' ', map {"$_=$o{env}{$_}"} grep { defined $o{env}{$_} } sort keys %{ $o{env} });
    my $bad = verdict($p, $j, n => $ranks, env => $o{env}, any => 1, what => "$what $fault",
        reason => $o{reason} // qr/no copy or parity is left|before the first set|cannot be told which one|had already left its loop|was lost in ftkit_close/);
    is($bad // '', '', title($p) . ": $what: $fault");
    return $j;
}

# Ranks whose teams are silent.
sub some_ranks {
    my ($ranks) = @_;
    my @of = grep { rand() < 0.5 } 0 .. $ranks - 1;
    return @of ? "@of" : '0';
}

for my $i (1 .. $count) {
    my $env = { %hub, FTKIT_LOG_SILENT => one_of('0', '0', '0 2', some_ranks($n)),
        FTKIT_CHECKPOINT_PERIOD => one_of('1 calls', '3 calls', '7 calls') };
    any_loss(star(one_of(qw(all quiet ring))), $n, env => $env);
}

# other programs: collectives, wildcards, persistent requests, communicators made in the loop
my @more = (programs(), grep { title($_) =~ /collect| (?:any|persistent|probe|wildcard|cancel)$/ } call_programs(),
    ahead_programs());
for my $i (1 .. $count) {
    my $p = one_of(@more);
    my $env = { FTKIT_LOG_SILENT => some_ranks(4), FTKIT_LOG_TEAM_LIST => one_of('0 1 2 3', '0,2 1,3', '0 1-3', '0-1 2 3'),
        FTKIT_CHECKPOINT_PERIOD => one_of('1 calls', '3 calls', '7 calls') };
    any_loss($p, 4, env => $env);
}

# ---- the modes of log.determinants, and lines apart

my @shapes = ({ FTKIT_LOG_TEAMS => 'rank', FTKIT_TOPOLOGY_RANKS_PER_NODE => 1 }, { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 });
for my $mode (qw(causal pessimistic relaxed refuse)) {
    for my $i (1 .. ($count > 20 ? 8 : 2)) {
        my $p = $mode eq 'refuse' ? one_of(grep { title($_) =~ /^(?:wavefront|transpose)/ } programs())
            : star(one_of(qw(all quiet ring)));
        any_loss($p, $p->{name} eq 'star' ? $n : 4, env => { %{ one_of(@shapes) }, FTKIT_LOG_DETERMINANTS => $mode,
            FTKIT_LOG_SILENT => one_of('0', '0 2'), FTKIT_CHECKPOINT_PERIOD => '3 calls' });
    }
}

for my $i (1 .. $count) {
    my $p = rand() < 0.3 ? star(one_of(qw(all quiet ring))) : script(100 + int(rand($count > 20 ? 30 : 3)));
    my $ranks = $p->{name} eq 'star' ? $n : 4;
    my $rank = int(rand($ranks));
    my $env = { FTKIT_CHECKPOINT_LINE => 'apart', FTKIT_LOG_TEAM_SIZE => one_of(1, 1, 2), FTKIT_LOG_SILENT => some_ranks($ranks),
        FTKIT_CHECKPOINT_PERIOD => one_of('1 calls', '3 calls') };
    my $fault = $p->{name} eq 'star' && rand() < 0.5 ? sprintf('app.mid:%d:%d:kill', $rank, 1 + rand(30))
        : $p->{name} eq 'star' ? apart_fault($rank, one_of(qw(cut counts all late early tail vote voted commit)))
        :                        apart_fault($rank);
    my $j = logged($p, n => $ranks, spares => 2, env => $env, fault => $fault);
    is(verdict($p, $j, n => $ranks, any => 1, what => $fault), '',
        title($p) . ": apart, teams of $env->{FTKIT_LOG_TEAM_SIZE}, silent $env->{FTKIT_LOG_SILENT}: $fault");
}

# ---- relaunch from the files: the new job has the same silent teams

{
    my $p = star('ring');
    my $base = scratch() . '/relaunched';
    my $j = logged({ %$p, args => [ @{ $p->{args} }, '-i', $base ] }, n => $n, spares => 0, run => [], fault => 'app.mid:2:22:kill',
        env => { %hub, FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_RECOVER_SUPPLY => 'end',
            FTKIT_REPORT_STDERR => 'info' });
    is($j->{rc}, 0, 'a star is relaunched from its files') or diag($j->{log});
    is($j->{result}, undisturbed($p, $n), '... to the same result');
    is(scalar(() = $j->{log} =~ /1 of them keeps no messages/g), 2, '... with the same silent teams')
        or diag($j->{log});
    my @at = slurp("$base.0") =~ /^(?:line|end) (\d+ \d+)$/mg;
    is($at[-1] // '', $at[-2], '... and its hub logs nothing') if !is_skipped();
}

# ---- one-sided communication between teams

for my $silent ('0', '1 2', '0-3') {
    my $p = { name => 'winloop', steps => 40, args => [ '-m', 'fence' ] };
    my $rank = int(rand(4));
    my $fault = sprintf('app.step:%d:%d:kill', $rank, 5 + rand(30));
    my $env = { FTKIT_LOG_TEAMS => 'rank', FTKIT_LOG_SILENT => $silent };
    my $j = logged($p, env => $env, fault => $fault);
    is(verdict($p, $j, env => $env, any => 1, faults => 1, what => $fault), '',
        "windows, silent $silent: $fault");
}

# ---- status, ftkit config

{
    my $dir = scratch() . '/seen';
    my $p = star('all');
    my $j = logged($p, n => $n, spares => 0, env => { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2, FTKIT_LOG_SILENT => '0 3',
            FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_DIRECTORY => do { mkdir $dir; $dir }, FTKIT_REPORT_STATUS => '0.01s' });
    is($j->{rc}, 0, 'a job with a status') or diag($j->{log});
    my ($code, $out, $err) = command('status', $dir);
    like($out, qr/, 3 teams \(2 of them silent\)$/m, 'ftkit status has the silent teams') or diag("$code\n$out$err");
    ($code, $out) = command('status', '--json', $dir);
    my $json = eval { JSON::PP->new->decode($out) } // {};
    $json = $json->{contexts}[0] if ref $json eq 'HASH' && $json->{contexts};
    $json = $json->[0] if ref $json eq 'ARRAY';
    is($json->{teams_silent} // $out, 2, '... as JSON, too');
}
{
    my $ini = write_file(scratch() . '/silent.ini', "[log]\nenabled = true\nteams = rank\nsilent = 0 2\n");
    my ($code, $out, $err) = command('config', '--ranks', 8, '--ranks-per-node', 2, $ini);
    like($out, qr/^Message log: 8 teams of 1 rank\n +2 teams keep no messages \(log\.silent\), and roll back with/m,
        'ftkit config has the silent teams') or diag("$code\n$out$err");
    ($code, $out, $err) = command('config', '--ranks', 2, $ini);
    ok($code == 2 && "$out$err" =~ /log\.silent: rank 2 is out of range: the ranks are 0 to 1/,
        '... and refuses a rank that is not there') or diag("$code\n$out$err");
}

# ---- what cannot be

for my $case ([ { FTKIT_LOG_SILENT => '0 5' }, qr/log\.silent: rank 5 is out of range: the ranks are 0 to 4/ ],
    [ { FTKIT_LOG_SILENT => '0 0' }, qr/log\.silent: rank 0 is there twice/ ],
    [ { FTKIT_LOG_SILENT => '1-' }, qr/FTKIT_LOG_SILENT: log\.silent: a rank is missing/ ],
    [ { FTKIT_LOG_SILENT => 'auto' }, qr/FTKIT_LOG_SILENT: log\.silent: 'a' where a rank should be/ ],
    [ { FTKIT_LOG_TEAMS => 'all' }, qr/log\.silent: log\.teams is all/ ],
    [ { FTKIT_REPLICAS_COUNT => 2 }, qr/log\.silent: silent teams need replicas\.count = 1/ ])
{
    my ($env, $why) = @$case;
    my $j = logged(star('all'), n => $n, spares => 0, env => { %hub, %$env });
    my @told = $j->{log} =~ /^star: rank \d+: open: (.*$why)/mg;
    ok($j->{rc} != 0 && $j->{rc} != 124 && @told >= $n && !(grep { !/invalid configuration/ } @told),
        "$why: every rank is told") or diag("$j->{rc}\n$j->{log}");
}

# silent teams without the log are a warning
{
    my $j = job(program => build() . '/mpi/solver', spares => 0,
        env => { FTKIT_LOG_SILENT => '0', FTKIT_REPORT_STDERR => 'warning' });
    is(scalar(() = $j->{log} =~ /warning: .*FTKIT_LOG_SILENT: log\.silent: without effect/g), 1,
        'silent teams without the log are warned of, once') or diag($j->{log});
}

done_testing();
