#!/usr/bin/perl
# Windows of MPI with the message log: each way to synchronise (fence; post, start, complete, wait; lock;
# lock_all with flush) has twenty kills of each kind, at seeded points and moments, with one team of all
# ranks and with small teams, and the loss of a node.  The result is that of the undisturbed run.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  kills of each kind and way (default 20)
#   FTKIT_TEST_JOBS=n    with the seed and the count of a run: job n of this run again
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitLog;
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
my $seed = $ENV{FTKIT_TEST_SEED} // 37;
my $count = $ENV{FTKIT_TEST_COUNT} // 20;
srand($seed);
diag("FTKIT_TEST_SEED=$seed FTKIT_TEST_COUNT=$count");

# A program with a way to synchronise, and the points of the engine that each rank passes in each step.
sub program {
    my ($name, $how, @points) = @_;
    return { name => $name, steps => 40, args => [ '-m', $how ], points => [@points],
        $how =~ /(?:locks|counter|kept)$/ ? (env => { FTKIT_LOG_TEAMS => 'all' }) : () };
}
my %way = (
    'fence' => [ program('windows', 'fence', qw(win.sent win.applied log.send)),
        program('windows', 'gets', qw(win.sent win.applied log.received)),
        program('dynamic', 'fence', qw(win.sent win.applied win.attached)),
        program('winloop', 'fence', qw(win.applied win.made)), program('direct', 'fence', qw(win.sent)) ],
    'pscw' => [ program('windows', 'pscw', qw(win.sent win.applied win.wait)),
        program('windows', 'test', qw(win.sent win.applied)),
        program('dynamic', 'pscw', qw(win.sent win.applied win.attached)),
        program('winloop', 'pscw', qw(win.applied win.made)), program('direct', 'pscw', qw(win.sent win.wait)) ],
    'lock' => [ program('windows', 'locks', qw(win.locked win.unlock win.flush win.applied)),
        program('dynamic', 'locks', qw(win.locked win.unlock win.applied win.attached)),
        program('winloop', 'locks', qw(win.applied win.made)) ],
    'lock_all' => [ program('windows', 'counter', qw(win.flush win.applied)),
        program('windows', 'kept', qw(win.flush win.direct)), program('direct', 'locks', qw(win.flush win.direct)),
        program('direct', 'made-locks', qw(win.flush win.direct)), program('direct', 'shared-locks', qw(win.flush win.direct)) ],
);
my @ways = sort keys %way;

# How often a rank passes a point at least.
sub most {
    my ($p, $point) = @_;
    return $point eq 'win.attached' ? 8 : $point eq 'win.made' ? 13 : $point =~ /^ckpt|^log\.drained/ ? 6 : 36;
}

# The first visits of a point are before the first set, when least is 1.
sub fault {
    my ($p, $point, $rank, $least, $action) = @_;
    $least = 3 if $least > 3 && most($p, $point) < 36;
    return sprintf('%s:%d:%d:%s', $point, $rank, $least + rand(most($p, $point) - $least), $action);
}
sub point_of { my ($p) = @_; return one_of(qw(app.step app.mid), @{ $p->{points} }, @{ $p->{points} }) }

my %all = (FTKIT_LOG_TEAMS => 'all', FTKIT_CHECKPOINT_PERIOD => '5 calls');
my %files = (FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 sets',
    FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false');
my ($wanted, $hit) = (0, 0);

# The name of a job has all that runs the job again; any: a rank may go back where all do.
sub is_right {
    my ($p, $j, $what, %o) = @_;
    is(verdict($p, $j, any => 1, %o, what => $what) // '', '', title($p) . ": $what"); # undef: an allowed end
    return;
}

# ---- a kill at a point; one team

sub at_points {
    my ($way) = @_;
    my @set = qw(ckpt.begin ckpt.sized ckpt.packed ckpt.sealed ckpt.voted ckpt.committed log.drained);
    for my $i (0 .. $count - 1) {
        my $p = $way{$way}[ $i % @{ $way{$way} } ];
        my $point = $i % 5 == 4 ? one_of(@set) : point_of($p);
        my $least = $p->{args}[1] =~ /^shared/ ? 8 : 1; # before the first set shared memory is not repaired
        my $fault = fault($p, $point, rand(4), $least, 'kill');
        is_right($p, logged($p, env => \%all, fault => $fault), "one team, $fault", faults => 1);
    }
    return;
}

# ---- the same with small teams, some of them with lines apart: no other team goes back

sub with_teams {
    my ($way) = @_;
    for my $i (0 .. $count - 1) {
        my $p = $way{$way}[ $i % @{ $way{$way} } ];
        my $env = { FTKIT_LOG_TEAM_SIZE => one_of(1, 2), FTKIT_CHECKPOINT_PERIOD => '5 calls',
            $i % 3 == 2 ? (FTKIT_CHECKPOINT_LINE => 'apart') : (),
            $i % 5 == 1 ? (FTKIT_LOG_DETERMINANTS => one_of(qw(causal pessimistic))) : () };
        $env->{FTKIT_LOG_DETERMINANTS} = 'node' if $env->{FTKIT_CHECKPOINT_LINE};
        my $rank = int(rand(4));
        my $fault = fault($p, point_of($p), $rank, 1, 'kill');
        is_right($p, logged($p, env => $env, fault => $fault), join(', ', settings($env), $fault), any => 0,
            env => $env, killed => [$rank], faults => 1);
    }
    return;
}
sub settings { my ($env) = @_; return map { /^FTKIT_(?:LOG|CHECKPOINT_LINE)/ ? "$_=$env->{$_}" : () } sort keys %$env }

# ---- a kill from outside, at any instruction

sub at_any_time {
    my ($way) = @_;
    for my $i (0 .. $count - 1) {
        my $short = $way{$way}[ $i % @{ $way{$way} } ];
        my $p = { %$short, steps => 400, args => [ @{ $short->{args} }, '-n', 400 ] };
        my $env = $way =~ /lock/ || $i % 2 ? \%all : { FTKIT_LOG_TEAM_SIZE => one_of(1, 2) };
        my ($rank, $call) = (int(rand(4)), 2 + int(rand(250)));
        my $j = logged($p, env => $env, run => [ '--no-relaunch', '--kill', "rank $rank at call $call" ]);
        $wanted++;
        $hit += $j->{log} =~ /^\0?ftkit run: killed rank $rank /m;
        is_right($p, $j, join(', ', settings($env), "--kill 'rank $rank at call $call'"), any => $env == \%all,
            env => $env, killed => [$rank]);
    }
    return;
}

# ---- two kills: the second one comes in the repair of the first, or after this repair

my @repair = qw(repair.shrink repair.census repair.plan repair.build repair.built repair.restore repair.restored
    repair.agree repair.agreed log.marks log.install log.settle rebuild.begin transfer.sized recover.begin recover.end);

sub twice {
    my ($way) = @_;
    for my $i (0 .. $count - 1) {
        my $p = $way{$way}[ $i % @{ $way{$way} } ];
        my $env = { %files, FTKIT_CHECKPOINT_PERIOD => '5 calls',
            $way =~ /lock/ || $i % 2 ? %all : (FTKIT_LOG_TEAM_SIZE => one_of(1, 2)) };
        my $first = int(rand(4));
        my $second = ($first + 1 + int(rand(4))) % 5; # 4: the first spare
        my $again = $i % 4 == 3 ? fault($p, point_of($p), $second, 1, 'kill')
            : sprintf('%s:%d:1:kill', one_of(@repair), $second); # a second visit is in ftkit_close
        my $fault = fault($p, one_of(qw(app.step app.mid)), $first, 7, 'kill') . ",$again";
        my $j = logged($p, env => $env, spares => 3, fault => $fault, timeout => 60);
        $wanted += 2;
        $hit += @{ $j->{faults} };
        # each spare in turn is the first one, and may die as a replacement
        my @end = @{ $j->{faults} } > 2 ? (reason => qr/has died 3 times at the same call/) : ();
        is_right($p, $j, join(', ', settings($env), $fault), @end);
    }
    return;
}

# ---- the loss of a node: six ranks on three nodes, spares on a fourth one

sub a_node {
    my ($way) = @_;
    for my $i (0 .. $count - 1) {
        my $p = $way{$way}[ $i % @{ $way{$way} } ];
        my @teams = ({ FTKIT_LOG_TEAMS => 'domain' }, { FTKIT_LOG_TEAM_SIZE => 1, FTKIT_LOG_DETERMINANTS => 'causal' },
            { FTKIT_LOG_TEAM_SIZE => 1 }, { FTKIT_LOG_TEAMS => 'domain', FTKIT_CHECKPOINT_LINE => 'apart' });
        my $env = { %files, FTKIT_CHECKPOINT_PERIOD => '5 calls', FTKIT_LEVEL_MEMORY_SCHEME => one_of(qw(buddy xor rs)),
            $way =~ /lock/ || $i % 2 ? %all : %{ $teams[ $i / 2 % 4 ] } };
        my $point = one_of(qw(app.step app.mid), (grep { !/^log/ } @{ $p->{points} }) x 2); # set-up passes log.*, too
        my $fault = fault($p, $point, rand(6), 8, 'node');
        my $j = logged($p, n => 6, spares => 2, env => $env, fault => $fault, timeout => 100,
            run => [ '--no-relaunch', '--emulate-nodes', 4 ]);
        is_right($p, $j, join(', ', settings($env), $env->{FTKIT_LEVEL_MEMORY_SCHEME}, $fault), n => 6, faults => 1);
    }
    return;
}

for my $way (@ways) {
    at_points($way);
    with_teams($way) if $way !~ /lock/;
    at_any_time($way);
    twice($way);
}
of_all_jobs(sub { cmp_ok($hit, '>', 0.7 * $wanted, "$hit of $wanted kills came to pass") });
SKIP: {
    skip('needs the right to make name spaces', 1) if !nodes_possible();
    skip('this MPI ends a job that loses a node', 1) if !own_mpi();
    a_node($_) for @ways;
}
done_testing();
