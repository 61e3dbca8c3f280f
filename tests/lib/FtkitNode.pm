# The loss of an emulated node while a job of the solver runs.
#
# SPDX-License-Identifier: BSD-3-Clause
package FtkitNode;
use strict;
use warnings;
use Exporter 'import';
use File::Temp 'tempdir';
use FtkitTest;
use POSIX 'mkfifo';
use Test::More;

our @EXPORT = qw(loses);

# The daemons of the job that has its files in DIR, by the name space of their node.
sub daemons
{
    my ($dir) = @_;
    my %of;
    for my $p (glob('/proc/[0-9]*')) {
        next if (readlink("$p/exe") // '') !~ /prted$/;
        next if slurp("$p/environ") !~ /\Q$dir\E\b/;
        $of{ readlink("$p/ns/uts") // '' } = $p =~ s{.*/}{}r;
    }
    return %of;
}

# The standard input of a job, which begins when somebody writes into the FIFO $go, and is more than sockets
# hold; $go.passed is there when mpirun has all of it but the content of a pipe.
sub late_input
{
    my $go = tempdir('ftkit-input-XXXXXX', TMPDIR => 1, CLEANUP => 1) . '/go';
    mkfifo($go, 0600) or die "$go: $!\n";
    return ($go, pipe => "read go <$go; head -c 33554432 /dev/zero; echo >$go.passed");
}

# The daemon stands still until its part of the standard input waits in mpirun.
sub stop_with_input
{
    my ($daemon, $go) = @_;
    kill('STOP', $daemon);
    write_file($go, "go\n");
    return await_file("$go.passed") ne '';
}

# Kill the daemon of the node of a rank; and, for good, all processes of the node, which is never seen
# again.  With $go, data are on their way to the daemon.  Returns whether a daemon was killed, and how many
# other processes.
sub lose_node
{
    my ($work, $rank, $for_good, $go) = @_;
    my ($pid) = split(' ', slurp("$work/pid.$rank"));
    my $node = readlink("/proc/$pid/ns/uts") // '';
    my %daemon = daemons($work);
    my ($run) = slurp("/proc/$pid/environ") =~ m{\bFTKIT_RUN_STATE=([^\0]*)/};
    my ($name) = slurp("/proc/$pid/environ") =~ /\bPMIX_HOSTNAME=([^\0]*)/;
    return (0, 0) if !$daemon{$node} || !$run || !$name || $go && !stop_with_input($daemon{$node}, $go);
    my $others = 0;
    if ($for_good) {
        open(my $f, '>', "$run/gone-$name") or die "$run: $!\n";
        close($f);
        $others = kill('KILL', grep { (readlink("/proc/$_/ns/uts") // '') eq $node
            && (readlink("/proc/$_/exe") // '') =~ m{/mpi/} } map {m{(\d+)$}}
            glob('/proc/[0-9]*'));
    }
    return (kill('KILL', $daemon{$node}), $others);
}

# A job of the solver of 60 steps that loses the node of a rank in a step (after => 25), and more
# nodes later (then => [[RANK, STEP], ...]).  The job stands still for the first loss.  With input => 1 the
# node is that of rank 0, and the standard input is on its way to this node.
sub loses
{
    my ($name, $rank, $for_good, %o) = @_;
    my $first = delete $o{after} // 25;
    my @losses = ([$rank, 0], @{ delete $o{then} // [] });
    my ($killed, $others) = (0, 0);
    my ($go, @input) = delete $o{input} ? late_input() : ();
    survives($name, spares => 2, faults => 0, timeout => 120, fault => "app.step:$rank:$first:hold",
        solver => ['-d', '20', '-s', '60', '-p', 'pid'], @input, %o, while => sub {
            my ($work) = @_;
            await_held($work) or return;
            for (my $end = time() + 40 * pace(); $killed < @losses && time() < $end;) {
                my ($who, $after) = @{ $losses[$killed] };
                my (undef, $step) = split(' ', slurp("$work/pid.$who"));
                if (($step // 0) >= $after) {
                    my ($daemon, $more) = lose_node($work, $who, $for_good, $go);
                    $killed += $daemon;
                    $others += $more;
                }
                select(undef, undef, undef, 0.01);
            }
        });
    is($killed, scalar(@losses), '... ' . @losses . ' killed daemon(s)');
    ok($others >= @losses, '... and the processes of the node') if $for_good;
    return;
}

1;
