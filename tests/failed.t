#!/usr/bin/perl
# ftkit_failures(): all ranks, substitutes too, say which ranks were lost and why.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitNode;
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();

my ($unknown, $signal, $node, $exit, $abort, $stuck) = 0 .. 5;
my $program = build() . '/mpi/failed';
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');

# The same job by plain mpirun, without the files of `ftkit run`.
sub plain
{
    my ($args) = @_;
    my $command = qx(@{[build()]}/ftkit run --print -n 4 --spares 2 $program @$args);
    $command =~ s/ FTKIT_RUN_STATE=\S+//;
    $command =~ s/ -x FTKIT_RUN_STATE\b//;
    local %ENV = (%ENV, %memory, FTKIT_CHECKPOINT_PERIOD => '5 calls', FTKIT_RECOVER_TIMEOUT => '6s',
        OMPI_ALLOW_RUN_AS_ROOT => 1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM => 1);
    my $log = qx(cd @{[scratch()]} && @{[top()]}/scripts/guard 60 -- $command 2>&1 </dev/null);
    my $rc = $? >> 8;
    return { rc => $rc, log => $log };
}

# Each of the ranks @who says these losses [RANK, INCARNATION, REASON, CODE] at its end.
sub tells
{
    my ($name, $losses, $args, %o) = @_;
    my @who = @{ delete $o{who} // [0 .. ($o{n} // 4) - 1] };
    my $j = $o{plain} ? plain($args) : job(program => $program, args => $args, spares => 2, timeout => 60, %o,
        env => { %memory, %{ $o{env} // {} } });
    my %last = $j->{log} =~ /LOST (\d+): (.*)/g; # the last line of each rank
    my $want = @$losses . ' losses:' . join('', sort map { ' ' . join('/', @$_) } @$losses);
    my @bad = $j->{rc} == 0 ? () : "exit code $j->{rc}";
    for my $r (@who) {
        my ($n, @told) = split(/ losses:| (?=\d+\/)/, $last{$r} // 'nothing');
        my $told = "$n losses:" . join('', map {" $_"} sort grep { $_ ne '' } @told);
        push(@bad, "rank $r: $told") if $told ne $want;
    }
    is(join("\n", @bad), '', "$name: $want") or diag(substr($j->{log}, 0, 6000));
    return $j;
}

my %soon = (FTKIT_RECOVER_TIMEOUT => int(2 * pace()) . 's');
my $team = { FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAMS => 'all' };
tells('nothing is lost', [], [], spares => 0);
tells('a signal', [[1, 0, $signal, 9]], [1, 9]);
tells('another signal', [[2, 0, $signal, 11]], [2, 11], env => $team);
tells('rank 0', [[0, 0, $signal, 9]], [0, 9]);
tells('exit', [[3, 0, $exit, 3]], [3, 'exit']);
tells('quick_exit', [[3, 0, $exit, -1]], [3, 'quick']);
tells('_exit without MPI_Finalize', [[1, 0, $exit, 0]], [1, '_exit'],
    env => {%soon});
tells('... with a code', [[1, 0, $exit, 3]], [1, '_exit3'], env => {%soon}) if own_mpi();
tells('a process that stands still', [[2, 0, $stuck, 0]], [2, 'stop'],
    env => {%soon});
tells('ftkit_abort after a signal', [[1, 0, $signal, 9], [3, 0, $abort, 7]], [1, 9, 3, 'abort']);
tells('two at once', [[0, 0, $signal, 9], [3, 0, $exit, 3]], [0, 9, 3, 'exit']);
tells('a substitute is lost, too', [[1, 0, $signal, 9], [1, 1, $signal, 9]], [1, '9x']);
tells('... after the next set: only the last loss', [[1, 1, $signal, 9]], [1, '9y']);
tells('a spawned process', [[1, 0, $signal, 11], [1, 1, $signal, 11]], [1, '11x'], spares => 0);
tells('after a shrink', [[1, 0, $signal, 9]], [1, 9], spares => 0, who => [0, 2, 3],
    env => { FTKIT_RECOVER_SUPPLY => 'shrink' });
tells('without the files of ftkit run a signal is not known', [[1, 0, $unknown, 0]], [1, 9],
    plain => 1);
tells('... and a last word is', [[1, 0, $exit, 3]], [1, 'exit'], plain => 1);

SKIP: {
    skip('needs the right to make name spaces', 1) if !nodes_possible();
    skip('this MPI ends a job that loses a node', 1) if !own_mpi();
    my @nodes = (run => ['--no-relaunch', '--emulate-nodes', 3]);
    tells('a signal on another node than that of mpirun', [[3, 0, $signal, 0]], [3, 9], @nodes);
    # a node without spares: a spare of a lost node may take over a rank before its own end is known
    for ([0, [[0, 0, $node, 0], [1, 0, $node, 0]]]) {
        my ($rank, $losses) = @$_;
        my @killed;
        tells("the node of rank $rank", $losses, [$rank, 'wait'], @nodes, timeout => 90, while => sub {
            my ($work) = @_;
            await_file("$work/pid.$rank");
            my $pid;
            ($pid) = slurp("$work/pid.$rank") =~ /^(\d+)\n/ until $pid;
            my %daemon = FtkitNode::daemons($work);
            # a lost node does not report the ends of its processes
            kill('STOP', $daemon{ readlink("/proc/$pid/ns/uts") // '' } // die("no daemon\n"));
            @killed = FtkitNode::lose_node($work, $rank, 1);
        });
        ok($killed[0] == 1 && $killed[1] >= 1, '... with its daemon and its processes');
    }
}

done_testing();
