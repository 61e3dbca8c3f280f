#!/usr/bin/perl
# Help in a replay (log.helpers, ftkit_run_units()): waiting ranks do units of a rank that has rolled
# back.  How many units helpers do, and the results when a helper or that rank is lost, a unit fails, or
# breaks a rule.
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
use List::Util qw(sum0);
use Test::More;

ulfm_only();
asleep_in_waits();
srand($ENV{FTKIT_TEST_SEED} // 11);

my $units = 32; # of a rank in a step
my %base = (FTKIT_LOG_TEAMS => 'rank', FTKIT_CHECKPOINT_PERIOD => '10 calls');
my %kind = map { $_ => { name => 'units', steps => 28, args => [ '-m', $_, '-n', 28 ] } }
    qw(jacobi wave hydro sizes unknown fails mpi asks);

# What a rank has counted at the end of each of its steps, in the order of its executions.
sub counts
{
    my ($j, $rank) = @_;
    return map { [split] } split /\n/, slurp("$j->{dir}/watch.units.$rank");
}

# The units of a rank that others have done until the end of a step, in the last execution.
sub elsewhere
{
    my ($j, $rank, $step) = @_;
    my ($last) = reverse grep { $_->[0] == $step } counts($j, $rank);
    return $last ? $last->[1] : -1;
}

# ---- how many units helpers do: the table ------------------------------------------------
# Rank 1 is lost in step 5 of 6, and repeats steps 3 and 4 while all others wait.

my $steps = 2;
my %three = (%base, FTKIT_CHECKPOINT_PERIOD => '3 calls');
my (%table, %speed);
sub slow
{
    my ($kind) = @_;
    return { name => 'units', steps => 6, args => [ '-m', "slow-$kind", '-n', 6 ],
        same_as => { name => 'units', steps => 6, args => [ '-m', $kind, '-n', 6 ] } };
}

# A row of the table: the number of units by helpers, which is not less than $least.
sub row
{
    my ($row, $slow, $helpers, $least, %o) = @_;
    my $n = $helpers + 1;
    my $j = logged($slow, n => $n, spares => 1, fault => 'app.mid:1:6:kill', timeout => 60,
        env => { %three, FTKIT_LOG_HELPERS => $helpers }, %o);
    my $name = "$row, $helpers helpers";
    my $did = elsewhere($j, 1, 4);
    $table{$row}{$helpers} = $did;
    my $helped = sum0(map { my @c = counts($j, $_); @c ? $c[-1][2] : 0 } grep { $_ != 1 } 0 .. $n - 1);
    my ($replay) = grep { $_->{event} eq 'replayed' } events("$j->{dir}/events");
    $speed{$row}{$helpers} = $replay && $replay->{seconds} > 0 ? $replay->{forward} / $replay->{seconds} : 0;
    my @others = grep { $_->{event} eq 'helped' } events("$j->{dir}/events");
    is(verdict($slow, $j, n => $n, killed => [1], env => \%base, faults => 1), '', "$name: the result is the same")
        or diag(substr $j->{log}, 0, 3000);
    my $all = $steps * $units;
    cmp_ok($did, '>=', ($helpers / ($helpers + 1) - 0.1) * $all, "... helpers do their share of $all units");
    cmp_ok($did, '>=', $least, '... not less than fewer helpers');
    cmp_ok($helped, '>=', $did, '... and they have counted them');
    is(join(' ', map { $_->{rank} } @others), '1', '... the event is of the rank that has rolled back');
    cmp_ok(($others[0] // { units => -1 })->{units}, '>=', $did, '... with their number');
    return $did;
}

for my $kind (all_cases() ? qw(jacobi wave hydro) : 'jacobi') {
    my $before = 0;
    $before = row($kind, slow($kind), $_, $before) for 1, 2, 4, 8;
}
if (all_cases() && nodes_possible()) { # two nodes with four ranks each, TCP between them
    my @two = (spares => 2, run => [ '--no-relaunch', '--emulate-nodes', 2 ]);
    row("$_, two nodes", slow($_), 7, 0, @two) for qw(jacobi wave hydro);
}
for my $kind (sort keys %table) {
    note(sprintf '%-17s %2d helpers: %2d of %d units by helpers, replay %.1f times as fast as the first execution; (P + 1) / P: %.2f',
        $kind, $_, $table{$kind}{$_}, $steps * $units, $speed{$kind}{$_}, ($_ + 1) / $_)
        for sort { $a <=> $b } keys %{ $table{$kind} };
}

# log.helpers is the most; 0: nobody helps, and there is no communicator more
{
    my $slow = { name => 'units', steps => 6, args => [ '-m', 'slow-jacobi', '-n', 6 ],
        same_as => { name => 'units', steps => 6, args => [ '-m', 'jacobi', '-n', 6 ] } };
    my $j = logged($slow, n => 5, spares => 1, fault => 'app.mid:1:6:kill', timeout => 60,
        env => { %three, FTKIT_LOG_HELPERS => 1 });
    my $did = elsewhere($j, 1, 4);
    is(verdict($slow, $j, n => 5, killed => [1], env => \%base, faults => 1), '', 'one helper of four ranks that wait');
    cmp_ok($did, '>=', 0.4 * $steps * $units, '... helps');
    cmp_ok($did, '<=', 0.6 * $steps * $units, '... and no other one at the same time');
    $j = logged($kind{jacobi}, n => 4, spares => 1, fault => 'app.mid:1:17:kill', env => \%base);
    $did = elsewhere($j, 1, 16);
    is(verdict($kind{jacobi}, $j, killed => [1], env => \%base, faults => 1), '', 'without log.helpers');
    is($did, 0, '... nobody helps');
}

# ---- losses ----------------------------------------------------------------------------

# A job that loses ranks; the result is that of an undisturbed run.
sub survives_help
{
    my ($kind, $fault, $killed, %o) = @_;
    my $n = $o{n} // 4;
    my $env = { %base, FTKIT_LOG_HELPERS => 8, %{ $o{env} // {} } };
    my $p = { %{ $kind{$kind} }, args => [ @{ $kind{$kind}{args} }, '-s', $o{sweeps} // 4 ] };
    my $j = logged($p, n => $n, spares => 3, fault => $fault, timeout => 60, env => $env);
    $j->{elsewhere} = elsewhere($j, 1, 16);
    my $bad = verdict($p, $j, n => $n, killed => $killed, env => $env, any => $o{any}, faults => $o{faults});
    is($bad, '', "$kind: $fault" . ($o{what} // '')) or diag(substr $j->{log}, 0, 3000);
    return $j;
}

my $first = 'app.mid:1:17:kill';
survives_help('jacobi', "$first,$_", [ 1, 2 ], any => 1)
    for qw(units.help:2:1:kill units.help:2:9:kill units.reply:2:1:kill units.reply:2:4:kill);
survives_help('jacobi', "$first,$_", [1], any => 1)
    for qw(units.own:1:1:kill units.own:1:11:kill units.give:1:1:kill units.give:1:17:kill);
survives_help('wave', "$first,units.help:0:3:kill,units.help:3:3:kill", [ 0, 1, 3 ], any => 1);
survives_help('hydro', 'app.mid:1:17:kill,app.mid:2:17:kill', [ 1, 2 ], any => 1, what => ': two ranks are helped');
survives_help('sizes', $first, [1], faults => 1);
survives_help('unknown', "app.mid:$_:17:kill", [$_], faults => 1) for 1, 2;
survives_help('jacobi', $first, [1], faults => 1, what => ': lines apart', env => { FTKIT_CHECKPOINT_LINE => 'apart' });
survives_help('jacobi', $first, [ 0, 1 ], faults => 1, what => ': teams of two', env => { FTKIT_LOG_TEAMS => 'domain',
    FTKIT_LOG_TEAM_SIZE => 2 });
survives_help('jacobi', $first, [1], faults => 1, what => ": determinants $_", env => { FTKIT_LOG_DETERMINANTS => $_,
    FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 }) for qw(causal pessimistic);
survives_help('jacobi', $first, [ 0 .. 3 ], faults => 1, what => ': all roll back', env => { FTKIT_LOG_TEAMS => 'all' });

# a helper that is late: the rank does the unit itself, and goes on
{
    my $j = survives_help('jacobi', "$first,units.help:2:1:slow", [1], what => ': a helper sleeps for 2 s');
    cmp_ok($j->{elsewhere}, '>', 0, '... others have helped');
}

# ---- units that fail or break a rule -----------------------------------------------------

# the first failing unit is the error, in the first execution and in a replay with help
survives_help('fails', 'app.mid:1:28:kill', [1], faults => 1, what => ': in the replay, too');

for my $case ([ mpi => 'MPI_Comm_size' ], [ asks => 'ftkit_decide' ]) {
    my ($kind, $call) = @$case;
    my $j = logged($kind{$kind}, n => 2, spares => 0, env => { %base, FTKIT_LOG_HELPERS => 2 });
    like($j->{log}, qr/: $call is called while a unit of ftkit_run_units runs\. Rule: /, "a unit calls $call: a line says so")
        or diag(substr $j->{log}, 0, 3000);
    isnt($j->{rc}, 0, '... and the job does not end well');
    like($j->{log}, qr/a unit of ftkit_run_units has/, '... because no set is written from then on');
}

# ---- what is refused -------------------------------------------------------------------

{
    my $j = logged($kind{jacobi}, n => 4, spares => 0, env => { %base, FTKIT_LOG_HELPERS => 2, FTKIT_REPLICAS_COUNT => 2 });
    isnt($j->{rc}, 0, 'replicas');
    like($j->{log}, qr/log\.helpers: help in a replay needs replicas\.count = 1/, '... need no help') or diag($j->{log});
}

# ---- random losses ---------------------------------------------------------------------

for (1 .. $ENV{FTKIT_TEST_COUNT} // (all_cases() ? 60 : 5)) {
    my $n = one_of(3, 4, 4, 5);
    my @ranks = map { int rand $n } 1 .. 2;
    my @fault = sprintf 'app.%s:%d:%d:kill', one_of(qw(mid inflight step)), $ranks[0], 3 + rand 24;
    push @fault, sprintf '%s:%d:%d:kill', one_of(qw(units.help units.reply units.own units.give app.mid)), $ranks[1], 1 + rand 25
        if rand() < 0.7;
    survives_help(one_of(qw(jacobi wave hydro sizes)), join(',', @fault), [@ranks], n => $n, any => 1,
        env => { FTKIT_CHECKPOINT_PERIOD => one_of('6 calls', '10 calls', '50 calls'), FTKIT_LOG_HELPERS => one_of(1, 2, 8),
            FTKIT_CHECKPOINT_LINE => one_of(qw(together together apart)) });
}

done_testing();
