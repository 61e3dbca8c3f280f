#!/usr/bin/perl
# The message log: the calls of MPI, family by family: the same results
# with a rank killed, what is logged, and what the replay check reports.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitLog;
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
srand(5);

# ---- what MPI says of its calls

for my $n (3, 4) {
    checks('coll_check', $n, $_, '-f') for grep { selected(2, $n, $_) } 1, 2;
    checks('comm_check', $n, $_) for grep { selected(2, $n, $_) } 1, 2;
}
checks('corners', 3, $_) for 1, 2;
my $refused = checks('refused', 3, 1);
my %functions = map { $_ => 1 } $refused->{log} =~ /error: rank \d+: (MPI_\w+) is not possible/g;
my @table = slurp(top() . '/lib/log/mpi/mpi.tab') =~ /^(MPI_\w+)\s+refuse/mg;
# on a window of several teams
push(@table, map {"MPI_Win_$_"} qw(lock lock_all allocate_shared shared_query));
is("@{[sort keys %functions]}",
    "@{[sort grep { !/^MPI_Request_get_status_/ } @table]}", 'all that is in this MPI is refused');

# ---- the calls, undisturbed and with a rank killed

for my $p (call_programs()) {
    like(undisturbed($p, 4), qr/^OK step $p->{steps} hash \w+/, title($p) . ', undisturbed');
    for my $team (1, 2) {
        my $env = { FTKIT_LOG_TEAM_SIZE => $team };
        for my $i (1 .. 2) {
            my $rank = int(rand(4));
            my $fault = call_fault($p, $rank);
            next if !selected(2, $i);
            my $j = logged($p, env => $env, fault => $fault);
            is(verdict($p, $j, env => $env, killed => [$rank], faults => 1, what => $fault),
                '', "teams of $team: $fault");
        }
    }
}

# ---- what is logged

# programs compare, too, what each rank has counted, and say BAD
sub bytes {
    my ($team, $variant) = @_;
    my $p = { name => 'calls', steps => 40, args => [ '-m', $variant ] };
    my $j = logged($p, spares => 0, env => { FTKIT_LOG_TEAM_SIZE => $team });
    like($j->{result}, qr/^OK .* 0 wrong counts/, "$variant, teams of $team")
        or diag($j->{log});
    return $j->{result} =~ /logged (\d+) of (\d+) of (\d+) bytes/;
}

my ($logged, $crossing, $all) = bytes(1, 'bytes');
ok($logged > 0 && $logged == $crossing, 'teams of one log all messages');
my ($logged2, $crossing2, $all2) = bytes(2, 'bytes');
is($logged2, $crossing2, 'teams of two log what crosses');
cmp_ok($logged2, '<', $logged, '... which is less');
is($all2, $all, '... of the same');
my ($logged4, $crossing4) = bytes(4, 'bytes');
is("$logged4 $crossing4", '0 0', 'one team logs nothing');
bytes(1 + $_ % 2, qw(nonblocking any probe wildcard cancel persistent edges)[$_]) for 0 .. 6;

# ---- a program that does not send the same again

my $drift = { name => 'calls', steps => 40, args => [ '-m', 'drift' ] };
for my $team (1, 2) {
    # two steps after a set, so that there is something to be sent again
    my $j = logged($drift, env => { FTKIT_LOG_TEAM_SIZE => $team },
        fault => 'app.mid:2:22:kill');
    like($j->{log}, qr/message \d+ to rank [013] with tag \d+ .* is not what it was before/,
        "teams of $team: a message that is not the same is told by stream and number");
    unlike(undisturbed($drift, 4), qr/BAD/, '... which the program notices only then');
}

# one of a collective is told by the name of the call and of its communicator
{
    my $j = logged({ name => 'calls', steps => 40, args => [ '-m', 'together' ] },
        env => { FTKIT_LOG_TEAM_SIZE => 1 }, fault => 'app.mid:2:22:kill');
    like($j->{log}, qr/rank 2: what MPI_Allgather, collective \d+ on the others, sends to rank \d is not what it was before/,
        'a collective that is not the same is told by its name, number and communicator')
        or diag($j->{log});
    unlike($j->{log}, qr/with tag .* is not what it was/, '... and not as a message');
}

done_testing();
