# Running jobs with replicas from TAP tests.
#
# SPDX-License-Identifier: BSD-3-Clause
package FtkitReplicas;
use strict;
use warnings;
use Exporter 'import';
use FtkitLog;
use FtkitTest;
use Test::More;

our @EXPORT = qw(replicas right back clones alike leads random_program slow_plane chain_breaks);

# A job with r replicas of n ranks.  {planes}: the result of each plane.  {sdc}: of each process
# found, corrected, rollbacks, takeovers, clones and degraded.
sub replicas {
    my ($r, $p, %o) = @_;
    my $n = $o{n} // 3;
    my $base = scratch() . '/figures';
    unlink(glob("$base.*"));
    my $program = { %$p, args => [ @{ $p->{args} // [] }, '-i', $base ] };
    my $j = logged($program, spares => 1, %o, n => $n, env => { FTKIT_LOG_TEAMS => 'rank',
            FTKIT_CHECKPOINT_PERIOD => '5 calls', %{ $o{env} // {} } },
        run => [ '--no-relaunch', '--replicas', $r, @{ $o{run} // [] } ]);
    $j->{planes} = [ map { slurp("$j->{dir}/out" . ($_ ? ".plane$_" : '')) } 0 .. $r - 1 ];
    $j->{sdc} = [ map { [ (slurp("$base.$_") =~ /^sdc (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)$/mg)[ -6 .. -1 ] ] }
            0 .. $r * $n - 1 ];
    return $j;
}

# All planes have the result of the undisturbed run without replicas; returns the errors.
sub right {
    my ($p, $j, %o) = @_;
    my $want = undisturbed($p, $o{n} // 3);
    my @bad;
    push(@bad, "exit code $j->{rc}") if $j->{rc} != 0 && !died_at_end($j);
    for my $plane (0 .. $#{ $j->{planes} }) {
        push(@bad, "plane $plane has another result: $j->{planes}[$plane]")
            if $want eq '' || $j->{planes}[$plane] ne $want;
    }
    push(@bad, scalar(@{ $j->{faults} }) . ' faults')
        if defined($o{faults}) && @{ $j->{faults} } != $o{faults};
    push(@bad, "no line like $o{like}") if $o{like} && $j->{log} !~ $o{like};
    push(@bad, 'communicators left') if $j->{log} =~ /^handles: /m;
    push(@bad, 'the replicas differ') if $o{quiet} && $j->{log} =~ /replicas of rank/;
    diag(title($p), ': ', join(', ', @bad), "\n", substr($j->{log}, 0, 4000)) if @bad;
    return join(', ', @bad);
}

# The rollbacks of all processes, and how often each has got the state of its sibling.
sub back { my ($j) = @_; return join(' ', map { $_->[2] // '-' } @{ $j->{sdc} }) }
sub clones { my ($j) = @_; return join(' ', map { $_->[4] // '-' } @{ $j->{sdc} }) }

# Programs that compute the same in each plane.
sub alike {
    return grep { title($_) =~ /^(?:wavefront|transpose|halo3d|comms|collect|inters)$|-m halo$/ }
        programs(), call_programs(), ahead_programs();
}

# Outcomes that MPI leaves open: a program of one mode, see tests/mpi/leads.c.
sub leads {
    my ($mode) = @_;
    return { name => 'leads', steps => 40, args => [ '-m', $mode, '-n', 40 ] };
}

# A random program whose ranks call ftkit_checkpoint() together: see tests/mpi/script.c.
sub random_program {
    my ($seed, @kinds) = @_;
    return { name => 'script', steps => 30,
        args => [ '-m', join(',', 'together', @kinds), '-s', $seed, '-n', 30 ] };
}

# A fault: the ranks of a plane pause at each operation of a random program, n ranks in a plane.
sub slow_plane { my ($plane, $n) = @_; return join(',', map { "app.op:$_:*:late" } $plane * $n .. $plane * $n + $n - 1) }

# The leader of rank 0 dies when others have used what it has decided, and its message has not come to
# the next leader; blind: nobody can read it, as when its node is lost.  Returns the errors.
sub chain_breaks {
    my ($r, $blind) = @_;
    my $p = leads('chain');
    my $fault = 'lead.lost:0:1:EIO@0,app.mid:0:1:kill@0' . ($blind ? ',log.blind:*:*:EIO' : '');
    my $j = replicas($r, $p, n => 4, fault => $fault, env => { FTKIT_REPLICAS_LOST => 'clone' });
    my $errors = right($p, $j, n => 4, quiet => 1);
    $errors .= "no message is lost" if !grep {/^lead/} @{ $j->{faults} };
    $errors .= "no process has died" if !grep {/^app/} @{ $j->{faults} };
    my $all = join(' ', 0, (1) x (4 * $r - 1)); # the replacement begins at the line
    return $errors if $blind ? back($j) eq $all : back($j) !~ /[1-9]/;
    return "$errors, rollbacks: " . back($j);
}

1;
