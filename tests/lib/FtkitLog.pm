# Jobs with the message log: programs of tests/mpi/foreign.h that lose ranks.
#
# SPDX-License-Identifier: BSD-3-Clause
package FtkitLog;
use strict;
use warnings;
use Exporter 'import';
use File::Path qw(remove_tree);
use FtkitTest;
use Test::More;

our @EXPORT = qw(programs ahead_programs script apart_fault call_programs fortran_programs collective_kills title logged
    undisturbed verdict teams_of read_teams one_of call_fault fault_of passes checks);

my $build = build();
my $count = 0;
my %result;

# fixed: the result does not depend on the number of ranks
my @programs = (
    { name => 'wavefront', steps => 50, fixed => 1 },
    { name => 'transpose', steps => 50, fixed => 1 },
    { name => 'irregular', steps => 50, args => [ '-m', 'ordered' ] },
    { name => 'irregular', steps => 50, args => [ '-m', 'arrival' ] },
    { name => 'halo3d', steps => 50, fixed => 1 },
    { name => 'farm', steps => 40, fixed => 1 },
    { name => 'comms', steps => 60 },
    { name => 'chain', steps => 50, fixed => 1 },
);

# Programs that use the calls of MPI, family by family; messages: how many messages a rank sends
# and receives at least.
my @call_programs = (
    { name => 'collect', steps => 75, messages => 150 },
    { name => 'inters', steps => 60, messages => 1000 },
    map { { name => 'calls', steps => 40, args => [ '-m', $_->[0] ], messages => $_->[1] } }
        [ blocking => 250 ], [ nonblocking => 250 ], [ any => 400 ], [ persistent => 150 ],
        [ probe => 120 ], [ wildcard => 200 ], [ cancel => 150 ], [ edges => 300 ],
);

# The same from Fortran.
my @fortran_programs = map { { steps => $_->[1], args => [ '-m', $_->[0], '-n', $_->[1] ],
        messages => $_->[2], ordered => $_->[0] !~ /^(?:rounded|ahead)$/ } }
    [ blocking => 40, 250 ], [ nonblocking => 40, 600 ], [ any => 40, 900 ],
    [ persistent => 40, 150 ], [ probe => 40, 120 ], [ wildcard => 40, 200 ],
    [ cancel => 40, 150 ], [ edges => 40, 400 ], [ comms => 40, 150 ],
    [ collective => 120, 130 ], [ rounded => 48, 150 ], [ ahead => 40, 150 ];

# Programs with requests under way at each set; parts: how often a step passes app.inflight.
my @ahead_programs = map { { name => 'ahead', steps => 42, args => [ '-m', $_->[0] ],
        messages => $_->[1], parts => $_->[2] // 1 } }
    [ halo => 120 ], [ persistent => 60 ], [ types => 36 ], [ collective => 200 ],
    [ wildcard => 120 ], [ probe => 36 ], [ long => 20 ], [ all => 300, 7 ];

sub programs { return @programs }

# A random program whose ranks call ftkit_checkpoint() at places of their own.  It needs lines that
# are apart, so it has no result without them.
sub script {
    my ($seed, @kinds) = @_;
    return { name => 'script', steps => 30, env => { FTKIT_CHECKPOINT_LINE => 'apart' },
        args => [ '-m', join(',', 'apart', @kinds), '-s', $seed, '-n', 30 ] };
}

# A kill of a rank at a step of a line apart, or at an operation of a script.
my @apart = qw(initiate cut counts all late early tail vote voted commit);
sub apart_fault {
    my ($rank, $point) = @_;
    $point //= rand() < 0.6 ? 'op' : one_of(@apart);
    return sprintf('app.op:%d:%d:kill', $rank, 25 + rand(400)) if $point eq 'op';
    return sprintf('apart.%s:%d:%d:kill', $point, $rank, 1 + rand($point =~ /counts|late/ ? 20 : 7));
}
sub ahead_programs { return @ahead_programs }
sub call_programs { return @call_programs }

# ... with one of the bindings mpifh, mpi and f08; bare: libftkit_mpi is not linked
sub fortran_programs {
    my ($binding, $bare) = @_;
    my $name = ($bare ? 'bare_' : 'calls_') . $binding;
    return map { { %$_, name => $name, path => "ftests/$name" } } @fortran_programs;
}

# Job $i of 120: each rank is killed once, 30 steps apart, with a collective under way.  Over all
# 120 jobs every rank is killed in every form of every collective.
sub collective_kills {
    my ($i) = @_;
    return join(',', map { sprintf('app.mid:%d:%d:kill', $_, 1 + ($i + 30 * $_) % 120) } 0 .. 3);
}

sub title { my ($p) = @_; return join(' ', $p->{name}, @{ $p->{args} // [] }) }
sub one_of { my @of = @_; return $of[rand(@of)] }

# Run a program with the log on.  Options: those of job(); from: another build directory; wrap:
# the command that starts the program.
sub logged {
    my ($p, %o) = @_;
    my $work = sprintf('%s/log%04d', scratch(), ++$count);
    my ($program, @before) = (@{ $o{wrap} // [] }, ($o{from} // $build) . '/' . ($p->{path} // "mpi/$p->{name}"));
    return job(timeout => 40, %o, keep => $work, program => $program,
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LOG_ENABLED => 'true',
            FTKIT_REPORT_EVENTS => "$work/events", %{ $p->{env} // {} }, %{ $o{env} // {} } },
        args => [@before, '-o', "$work/out", '-w', "$work/watch", @{ $p->{args} // [] }]);
}

# The result without a failure; it does not depend on the teams.  same_as: a program with that result,
# which runs in its place.
sub undisturbed {
    my ($p, $n) = @_;
    return '' if is_skipped();
    $p = $p->{same_as} // $p;
    my $key = title($p) . $n;
    if (!defined($result{$key})) {
        my $env = join(' ', map {"$_=$p->{env}{$_}"} sort keys %{ $p->{env} // {} });
        $result{$key} = once(join(q( ), "log", $env, $p->{path} // q(), $key), sub {
            my $j = logged($p, n => $n, spares => 0);
            diag("$key: no result without a failure: " . substr($j->{log}, 0, 2000))
                if $j->{result} eq '';
            return $j->{result};
        });
    }
    return $result{$key};
}

# Run a program without a loop, whose only result is its output.
sub checks {
    my ($name, $n, $team, @args) = @_;
    my $j = job(n => $n, spares => 0, program => "$build/mpi/$name", args => \@args,
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LOG_ENABLED => 'true',
            FTKIT_LOG_TEAM_SIZE => $team, FTKIT_CHECKPOINT_PERIOD => '1 calls' });
    my $good = $j->{rc} == 0 && $j->{log} =~ /^\0?OK \d+$/m && $j->{log} !~ /^handles: /m;
    ok($good, "$name, $n ranks, teams of $team") or diag(substr($j->{log}, 0, 3000));
    return $j;
}

# A kill of a rank at a random place in one of call_programs().
sub call_fault {
    my ($p, $rank) = @_;
    my $point = one_of(qw(app.step app.mid log.send log.send log.received));
    $point = 'app.inflight' if $p->{parts} && $point eq 'log.received' && rand(2) < 1;
    my $most = $point =~ /^app/ ? $p->{steps} : $p->{messages};
    $most *= $p->{parts} if $point eq 'app.inflight';
    $most /= 3 if $point eq 'log.received' && title($p) =~ /-m probe/; # by MPI_Mprobe
    return sprintf('%s:%d:%d:kill', $point, $rank, 1 + rand(0.9 * $most));
}

# How often a rank passes a point in a run: a kill may come at any of these passes.
sub passes {
    my ($p, $point, $rank) = @_;
    return $p->{steps} if $point eq 'app.step' || $p->{name} ne 'farm';
    return 0.3 * $p->{steps} * ($rank == 0 && $point eq 'app.inflight' ? 20 : 1);
}

# A kill of a rank at a random place in one of programs() or call_programs().
sub fault_of {
    my ($p, $rank) = @_;
    return call_fault($p, $rank) if $p->{messages};
    my $point = one_of(qw(app.step app.mid app.inflight));
    return sprintf('%s:%d:%d:kill', $point, $rank, 1 + rand(0.9 * passes($p, $point, $rank)));
}

# The team of each of n ranks from words, or lines of a file, of ranks.
sub read_teams {
    my ($n, $text) = @_;
    my @team = (-1) x $n;
    my $number = 0;
    for my $ranks (map { split ' ' } grep { !/^#/ } split(/\n/, $text)) {
        for my $item (split(/,/, $ranks)) {
            my ($first, $last) = split(/-/, $item);
            $team[$_] = $number for $first .. $last // $first;
        }
        $number++;
    }
    return @team;
}

# The team of each of n ranks by the environment of a job.  log: its events, for teams of nodes when a
# process was lost in ftkit_open: the ranks behind that process are those of other processes then.
sub teams_of {
    my ($n, $env, $log) = @_;
    return read_teams($n, $env->{FTKIT_LOG_TEAM_LIST}) if $env->{FTKIT_LOG_TEAM_LIST};
    return read_teams($n, slurp($env->{FTKIT_LOG_TEAM_FILE})) if $env->{FTKIT_LOG_TEAM_FILE};
    my $size = $env->{FTKIT_LOG_TEAM_SIZE} || 1;
    $size = $env->{FTKIT_TOPOLOGY_RANKS_PER_NODE}
        if $env->{FTKIT_TOPOLOGY_RANKS_PER_NODE} && !$env->{FTKIT_LOG_TEAMS};
    my %place = $size == ($env->{FTKIT_TOPOLOGY_RANKS_PER_NODE} // 0) && $log ? places_of($log) : ();
    return map { int(($place{$_} // $_) / $size) } 0 .. $n - 1;
}

# The rank in MPI_COMM_WORLD of the first process of each rank: a process that was lost in ftkit_open
# has none.
sub places_of {
    my ($log) = @_;
    return map { $_->{rank} => $_->{world_rank} }
        reverse grep { $_->{event} eq 'open' && $_->{rank} >= 0 } events($log);
}

# The steps a rank has begun, one incarnation after the other.
sub steps_of {
    my ($j, $rank) = @_;
    return [slurp("$j->{dir}/watch.$rank") =~ / (\d+)$/mg];
}

# Judge a job in which the ranks @$killed were killed; returns the errors, '' for none.  The job
# must have the result of the undisturbed run.  A rank outside the teams of the killed ranks must
# have begun every step once and in order.
sub verdict {
    my ($p, $j, %o) = @_;
    my $n = $o{n} // 4;
    my @bad;
    my @team = teams_of($n, $o{env} // {}, "$j->{dir}/events");
    my %lost = map { $team[$_] => 1 } @{ $o{killed} // [] };
    # an allowed end, with its reason: the exit code is that of a killed process, or of one that
    # found that the job has to end, whichever `ftkit run` takes for the cause
    if ($o{reason} && $j->{rc} =~ /^1(?:37)?$/ && $j->{log} =~ $o{reason}) {
        remove_tree($j->{dir});
        return;
    }
    push(@bad, "exit code $j->{rc}") if $j->{rc} != 0 && !died_at_end($j);
    push(@bad, "another result: $j->{result}") if $j->{result} ne undisturbed($p, $n);
    push(@bad, 'communicators left') if $j->{log} =~ /^handles: /m;
    # a relaunch after the loss of a line that was in no file yet
    my $log = $o{any} ? $j->{log} =~ s/^.*record of its set-up could not be read.*$//gmr : $j->{log};
    push(@bad, 'the log tells of a difference')
        if $log =~ /is not what it was|does not take the same course|in the replay of set-up/;
    push(@bad, 'a wait that is longer than the job')
        if grep { $_ > $j->{seconds} } $j->{log} =~ /has waited for (\d+) s in MPI_/g;
    push(@bad, scalar(@{ $j->{faults} }) . ' faults')
        if defined($o{faults}) && @{ $j->{faults} } != $o{faults};
    for my $r ($o{any} ? () : 0 .. $n - 1) {
        next if $lost{ $team[$r] };
        push(@bad, "rank $r went back")
            if "@{ steps_of($j, $r) }" ne join(' ', 0 .. $p->{steps} - 1);
    }
    diag(title($p), ' ', $o{what} // '', ': ', join(', ', @bad), "\n",
        substr($j->{log}, 0, 3000)) if @bad;
    remove_tree($j->{dir}) if !@bad;
    return join(', ', @bad);
}

1;
