#!/usr/bin/perl
# log.teams = dynamic: teams follow the communication of the program.  After new teams are in force
# the log has what the best teams of that phase log, to the byte; a kill at any moment around the
# change gives the result of an undisturbed run.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use JSON::PP;
use Test::More;

ulfm_only();
asleep_in_waits();

my %log = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 4);
my %dynamic = (%log, FTKIT_LOG_TEAMS => 'dynamic');
my $program = build() . '/mpi/phases';
my $number = 0;

# A job of the program; args: phases, steps of each, ms of a step.
sub phases
{
    my ($args, %o) = @_;
    my $work = $o{keep} // sprintf '%s/reteam%03d', scratch(), ++$number;
    return job(n => 8, spares => 0, %o, program => $program, keep => $work,
        args => [ '-o', "$work/out", @$args ], env => { %dynamic, %{ $o{env} // {} } });
}

# The sets that have begun new teams, as rank 0 says.
sub begun
{
    my ($j) = @_;
    return $j->{log} =~ /: new teams from set (\d+) on: /g;
}

# Bytes that the logs of all ranks have had at each step at which there may be a set.
sub logged
{
    my ($j, $n) = @_;
    my %sum;
    for my $r (0 .. $n - 1) {
        $sum{ $_->[0] } += $_->[1] for map { [ split ] } split /\n/, slurp("$j->{dir}/out.logged.$r");
    }
    return \%sum;
}

# Bytes that the best teams of 4 ranks log in a step of a phase: by ftkit teams, from the matrix of a
# job that has this phase alone.
my %best;
sub best
{
    my ($phase, $n) = @_;
    return $best{$phase}{$n} //= do {
        my $matrix = sprintf '%s/matrix-%s-%d', scratch(), $phase, $n;
        my $j = phases([ $phase, 10, 0 ], n => $n, env => { FTKIT_LOG_TEAMS => 'rank', FTKIT_LOG_TEAM_SIZE => 4,
            FTKIT_CHECKPOINT_PERIOD => '1 calls', FTKIT_LOG_MATRIX => $matrix });
        my ($code, $out, $err) = command('teams', '--size', 4, '--json', $matrix);
        $code == 0 ? decode_json($out)->{bytes_between} / 10 : -1;
    };
}

# ---- what is logged --------------------------------------------------------------------

# In each phase teams are found, and from the set that begins them on until the phase ends the log
# has what the best teams log.
sub follows
{
    my ($name, $phases, $n, $steps, %o) = @_;
    my $j = phases([ $phases, $steps, 4 ], n => $n, timeout => 60, %o);
    my @begun = map { 5 * ($_ - 1) } begun($j); # the steps of these sets
    my $logged = $j->{result} ne '' ? logged($j, $n) : {};
    my @bad;
    push @bad, "exit code $j->{rc}" if $j->{rc} != 0;
    for my $k ($j->{result} ne '' ? 0 .. length($phases) - 1 : ()) {
        my ($from, $to) = ($k * $steps, ($k + 1) * $steps - 5);
        my ($at) = grep { $_ > $from && $_ < $to } @begun;
        next if $k == 0 && substr($phases, 0, 1) eq 'a'; # the teams at the start are the best ones
        my $want = ($to - ($at // $to)) * best(substr($phases, $k, 1), $n);
        push @bad, "phase $k: new teams at step " . ($at // '-') . ", then "
            . ($logged->{$to} - $logged->{ $at // $to }) . " bytes, not $want"
            if !defined $at || $logged->{$to} - $logged->{$at} != $want;
    }
    ok(!@bad, $name) or diag(join("\n", @bad), "\n", substr $j->{log}, 0, 3000);
    return $j;
}

basis(sub { best($_, 8) for qw(b c); best('b', 16) });
follows('rows, then columns, then groups in no order', 'abc', 8, 60);
follows('16 ranks', 'ab', 16, 60);
follows('every third set', 'ab', 8, 80, env => { FTKIT_LOG_RETEAM => '3 sets' });
follows('after a time', 'ab', 8, 80, env => { FTKIT_LOG_RETEAM => '50ms' });

# nothing changes in 100 sets
{
    my $trace = scratch() . '/trace';
    my $j = phases([ 'aaaa', 25, 0 ], env => { FTKIT_CHECKPOINT_PERIOD => '1 calls', FTKIT_FAULT_TRACE => $trace });
    is(join(' ', begun($j)), '', 'the communication stays the same: so do the teams');
    like($j->{result} || '100 steps', qr/^100 steps/, '... in 100 sets');
    my $looks = () = slurp($trace) =~ /^reteam\.look .*rank 0/mg;
    # the first look comes at set 2, the others 16 and 32 sets after the one before, then 64
    is($looks, $j->{result} ? 3 : 0, '... after few looks');
}
# the gain is too small: two of three bytes would have to go
{
    my $j = phases([ 'b', 60, 1 ], env => { FTKIT_LOG_RETEAM_GAIN => 99, FTKIT_LOG_TEAM_SIZE => 2 });
    is(join(' ', begun($j)), '', 'new teams that log little less do not begin');
}

# ---- failures --------------------------------------------------------------------------

my $undisturbed = '';
basis(sub { $undisturbed = phases([ 'ab', 30, 2 ])->{result} });
isnt($undisturbed, '', 'undisturbed');

# The result is that of an undisturbed run, after so many faults of which `dead` are kills.
sub comes_back
{
    my ($name, $fault, %o) = @_;
    my $dead = () = $fault =~ /:kill/g;
    my $j = phases([ 'ab', 30, 2 ], spares => $dead, timeout => 60, %o, fault => $fault);
    my @said = begun($j);
    ok($j->{rc} == 0 && $j->{result} eq $undisturbed && @{ $j->{faults} } >= $dead, $name)
        or diag("exit code $j->{rc}, result $j->{result}, faults: @{ $j->{faults} }\n", substr $j->{log}, 0, 4000);
    return $j;
}

for my $point (qw(reteam.look reteam.share reteam.shared reteam.line matrix.send)) {
    for my $rank (all_cases() ? 0 .. 7 : (0, 5)) {
        next if $point eq 'matrix.send' && $rank == 0;
        comes_back("rank $rank is lost at $point", "$point:$rank:1:kill");
    }
}
comes_back('rank 0 is lost while it takes the rows', 'matrix.collect:0:4:kill');
comes_back('two teams lose a rank at reteam.line', 'reteam.line:1:1:kill2,reteam.line:6:1:kill2');
comes_back('a rank is lost at reteam.line, and its replacement later', 'reteam.line:3:1:kill,app.step:3:5:kill@1');
for my $visit (all_cases() ? 4 .. 9 : (8)) {
    for my $point (qw(ckpt.sized ckpt.sealed ckpt.voted ckpt.committed)) {
        comes_back("a rank is lost at $point of set $visit", "$point:" . $visit % 8 . ":$visit:kill");
    }
}
# in each step after the change the teams that go back are the new ones
for my $step (all_cases() ? map { 4 * $_ } 8 .. 14 : (47, 52)) {
    my $j = comes_back("a rank is lost in step $step", "app.step:2:$step:kill");
    my ($set) = begun($j);
    my ($back) = $j->{log} =~ /back to set (\d+)$/m;
    SKIP: {
        skip('rank 0 had no time to make teams', 1) if $j->{result} ne '' && ($set // 99) > ($back // 0);
        like($j->{log} || 'ranks 0, 2, 4 and 6 return', qr/ranks 0, 2, 4 and 6 return/, '... and its new team goes back');
    }
}
# the other ways of determinants, and processes that are spawned
for my $mode (qw(causal pessimistic relaxed)) {
    comes_back("determinants = $mode: a rank is lost at reteam.line", 'reteam.line:6:1:kill',
        env => { FTKIT_LOG_DETERMINANTS => $mode });
    comes_back("determinants = $mode: a rank is lost in a step of new teams", 'app.step:3:48:kill',
        env => { FTKIT_LOG_DETERMINANTS => $mode });
}
comes_back('a spawned process replaces a rank of new teams', 'app.step:4:48:kill', spares => 0,
    env => { FTKIT_RECOVER_SUPPLY => 'spawn' });
# the set begins new teams, and only some ranks have seen the commit
for my $visit (8 .. (all_cases() ? 11 : 9)) {
    for my $knows (all_cases() ? (0, 3, 7) : $visit == 8 ? 0 : 3) {
        my ($lost, @others) = grep { $_ != $knows } reverse 0 .. 7;
        my $unseen = join ',', "ckpt.voted:$lost:$visit:kill", map {"ckpt.unseen:$_:$visit:EIO"} @others;
        comes_back("set $visit: rank $knows alone has seen the commit", $unseen);
        comes_back('... and is lost', "$unseen,ckpt.committed:$knows:$visit:kill");
        comes_back("... and is lost in the repair, at $_", "$unseen,$_:$knows:1:kill")
            for all_cases() ? qw(repair.census repair.plan repair.build repair.built log.marks repair.restored)
                : qw(repair.build log.marks);
    }
}
# ---- a relaunch -------------------------------------------------------------------------

# The teams of a set come back with the set.
{
    my %files = (FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 sets',
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_RECOVER_SUPPLY => 'end');
    for my $step (42, 48) {
        my $j = comes_back("the job is lost in step $step", "app.step:2:$step:kill", spares => 0, run => [],
            env => \%files);
        my ($first, $second) = split /relaunching from/, $j->{log};
        my ($begun) = ($first // '') =~ /: new teams from set (\d+) on/;
        my ($back) = ($second // '') =~ /restored set (\d+)/;
        SKIP: {
            skip('rank 0 had no time to make teams', 1) if $j->{result} ne '' && ($begun // 99) > ($back // 0);
            like($second // 'the teams are those of the set', qr/: the teams are those of the set/,
                '... with the teams of its last set');
        }
    }
    # teams of 4 are no teams of 2, and the files are those of teams of 4
    my $work = scratch() . '/other';
    phases([ 'b', 40, 2 ], keep => $work, env => { %files, FTKIT_LOG_TEAM_SIZE => 4 }, fault => 'app.step:2:38:kill');
    my $j = phases([ 'b', 40, 2 ], keep => $work, env => { %files, FTKIT_LOG_TEAM_SIZE => 2 });
    ok($j->{rc} == 0 && ($j->{log} eq '' || $j->{log} =~ /4 teams of 2 ranks/ && $j->{log} =~ /restored set/
                && $j->{log} !~ /teams are those of the set/), '... which are not for another log.team_size')
        or diag(substr $j->{log}, 0, 3000);
}

# ---- what cannot be ---------------------------------------------------------------------

sub is_refused
{
    my ($name, $like, %o) = @_;
    my $j = phases([ 'a', 5, 0 ], %o);
    ok($j->{result} eq '' && $j->{log} =~ $like, $name) or diag("$j->{rc} $j->{result}\n", substr $j->{log}, 0, 3000);
    return;
}

is_refused('without log.team_size', qr/log\.teams: dynamic needs log\.team_size/, env => { FTKIT_LOG_TEAM_SIZE => 0 });
is_refused('with a list', qr/log\.team_list: log\.team_size is not 0/, env => { FTKIT_LOG_TEAM_LIST => '0-3 4-7' });
is_refused('with lines apart', qr/log\.teams: dynamic needs checkpoint\.line = together/,
    env => { FTKIT_CHECKPOINT_LINE => 'apart' });
is_refused('with replicas', qr/replicas need teams that stay the same/, env => { FTKIT_REPLICAS_COUNT => 2 });
is_refused('with silent teams', qr/log\.silent: silent teams need teams that stay the same/, env => { FTKIT_LOG_SILENT => 0 });
is_refused('a node is of two teams', qr/log\.team_size: 3 is no multiple of the 4 ranks of a node/,
    env => { FTKIT_LOG_TEAM_SIZE => 3 }, run => [qw(--no-relaunch --emulate-nodes 2)]);
{
    my $j = phases([ 'ab', 20, 1 ], env => { FTKIT_LOG_TEAM_SIZE => 8 });
    like($j->{log} || 'with one team of all 8 ranks', qr/with one team of all 8 ranks/, 'teams of all ranks: a warning');
    is(join(' ', begun($j)), '', '... and they stay');
}
done_testing();
