#!/usr/bin/perl
# Jobs under valgrind: a repair of each kind, in which no process reads what nobody has written or memory that
# is not its own.  Each report is a failure.  tests/valgrind.t has the unit tests.
#
#   FTKIT_TEST_ONLY=...  only jobs whose name matches
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Path 'make_path';
use FtkitLog;
use FtkitReplicas;
use FtkitShmem ();
use FtkitTest;
use Test::More;

plan(skip_all => 'no valgrind') if system('command -v valgrind >/dev/null 2>&1') != 0;
ulfm_only();
asleep_in_waits();
my $only = $ENV{FTKIT_TEST_ONLY} // '.';
my $top = top();
my $build = build();
my %slow = (FTKIT_RECOVER_TIMEOUT => int(60 * pace()) . 's'); # everything is some 30 times slower
my %memory = (%slow, FTKIT_LEVEL_HDF5_ENABLED => 'false');
my %files = (%slow, FTKIT_LEVEL_HDF5_EVERY => '1 sets');
my $reports = scratch() . '/reports';
my $number = 0;

# Run a job whose ranks run under valgrind: what is wrong with the job is in the text that run->(command) returns.
# Each process has a file for its report, which stays empty.
sub watched
{
    my ($name, $run) = @_;
    return if $name !~ /$only/;
    my $dir = "$reports/" . ++$number;
    make_path($dir);
    my $bad = $run->('valgrind', '-q', '--leak-check=no', '--child-silent-after-fork=yes',
        "--suppressions=$top/tests/valgrind.supp", "--log-file=$dir/%p");
    return if is_skipped();
    my @processes = glob "$dir/*";
    is($bad, '', "$name: the result is right");
    cmp_ok(scalar(@processes), '>=', 2, '... with ' . @processes . ' processes under valgrind');
    is(join("\n", grep { $_ ne '' } map { slurp($_) } @processes), '', '... and none has a report');
    return;
}

# A program of tests/mpi is killed, and has the result of an undisturbed run, which is not under valgrind.
# path: below build/; args: besides -o and the name of the result.
sub ends_alike
{
    my ($name, $path, $args, %o) = @_;
    watched($name, sub {
        my @valgrind = @_;
        my %job = (timeout => 400, env => \%memory, %o);
        my $faults = delete $job{faults} // 1;
        my $work = scratch() . "/alike$number";
        my $calm = job(%job, run => ['--no-relaunch'], fault => undef, keep => "$work.calm", program => "$build/$path",
            args => [ '-o', "$work.calm/out", @$args ]);
        my $j = job(spares => 1, %job, keep => $work, program => $valgrind[0],
            args => [ @valgrind[1 .. $#valgrind], "$build/$path", '-o', "$work/out", @$args ]);
        return wrong($j, $faults, $calm->{result} ne '' && $j->{result} eq $calm->{result}, $o{run} ? 0 : 1);
    });
    return;
}

sub solves { my ($name, %o) = @_; return ends_alike($name, 'mpi/solver', delete $o{solver} // [], %o) }

sub wrong
{
    my ($j, $faults, $same, $repairs) = @_;
    my @bad;
    push @bad, "exit code $j->{rc}" if $j->{rc} != 0;
    push @bad, 'another result' if !$same;
    push @bad, scalar(@{ $j->{faults} }) . ' faults' if @{ $j->{faults} } != $faults;
    push @bad, 'no repair' if $repairs && $j->{log} !~ /repaired in |restored set/; # slots outlive both
    push @bad, 'communicators left' if $j->{log} =~ /^handles: /m;
    diag(substr $j->{log}, 0, 6000) if @bad;
    return join ', ', @bad;
}

# A program of the message log is killed; without log.teams it has teams of two.
sub logs
{
    my ($name, $p, $killed, %o) = @_;
    my $env = { %memory, %{ $o{env} // {} } };
    $env->{FTKIT_LOG_TEAM_SIZE} = 2 if ($env->{FTKIT_LOG_TEAMS} // 'dynamic') eq 'dynamic';
    watched($name, sub {
        my $j = logged($p, timeout => 400, wrap => \@_, spares => 1, %o, env => $env);
        return verdict($p, $j, n => $o{n} // 4, killed => $killed, env => $env, faults => 1, any => $o{any})
            . ($j->{log} =~ /repaired in / ? '' : ', no repair');
    });
    return;
}

# ---- all ranks roll back ---------------------------------------------------------------

solves('a spare, copies', fault => 'app.mid:1:13:kill');
solves('a second loss in the repair', fault => 'app.coll:0:13:kill,repair.census:2:2:kill', faults => 2, spares => 2);
solves('a replacement is spawned', fault => 'app.inflight:3:9:kill', spares => 0,
    env => { %memory, FTKIT_RECOVER_SUPPLY => 'spawn' });
solves("parity by $_", fault => 'app.mid:1:13:kill', env => { %memory, FTKIT_LEVEL_MEMORY_SCHEME => $_ }) for qw(xor rs);
solves('a second level in shared memory', fault => 'app.mid:0:13:kill,app.mid:1:13:kill', faults => 2, spares => 2,
    env => { %memory, FTKIT_LEVEL_LOCAL_SCHEME => 'xor', FTKIT_LEVEL_LOCAL_EVERY => '1 sets' });
solves('changes only, a few blocks of many', fault => 'app.mid:1:13:kill', solver => [ '-b', 6, '-w', 30 ],
    env => { %memory, FTKIT_LEVEL_MEMORY_INCREMENTAL => 'on' });
solves('files in the background, from which both lost ranks come', fault => 'app.mid:2:13:kill,app.mid:3:13:kill',
    faults => 2, spares => 2, env => { %files, FTKIT_LEVEL_HDF5_COMPRESS => 'deflate' });
solves('relaunched from files', run => [], spares => 0, fault => 'app.mid:*:23:kill4', faults => 4,
    env => { %files, FTKIT_LEVEL_MEMORY_SCHEME => 'own' });

# ---- the message log ---------------------------------------------------------------------

my %program = map { title($_) => $_ } programs(), call_programs(), ahead_programs();
my %pair = (FTKIT_TOPOLOGY_RANKS_PER_NODE => 2, FTKIT_LOG_TEAMS => 'rank');
logs("the log, $_", $program{farm}, [2], fault => 'app.inflight:2:9:kill', env => { %pair, FTKIT_LOG_DETERMINANTS => $_ })
    for qw(node causal pessimistic);
logs('the log, relaxed', $program{collect}, [2], fault => 'app.mid:2:17:kill',
    env => { FTKIT_LOG_TEAMS => 'rank', FTKIT_LOG_DETERMINANTS => 'relaxed' });
logs("the log, $_", $program{$_}, [2, 3], fault => 'app.mid:2:17:kill')
    for 'halo3d', 'comms', 'calls -m any', 'ahead -m types';
logs('lines apart', $program{wavefront}, [2, 3], fault => 'app.mid:2:17:kill', env => { FTKIT_CHECKPOINT_LINE => 'apart' });
logs('a silent team', $program{wavefront}, [2], any => 1, fault => 'app.mid:2:17:kill',
    env => { FTKIT_LOG_TEAMS => 'rank', FTKIT_LOG_SILENT => '0' });
logs('teams that change', $program{wavefront}, [2], any => 1, fault => 'app.mid:2:27:kill',
    env => { FTKIT_LOG_TEAMS => 'dynamic', FTKIT_LOG_RETEAM => '1 sets', FTKIT_LOG_RETEAM_GAIN => 1 });
logs('one payload for many receivers', { name => 'hub', steps => 10, args => [ '-m', 'same', '-n', 10, '-s', 20000 ] },
    [0], fault => 'app.mid:0:7:kill', env => { FTKIT_LOG_TEAMS => 'rank', FTKIT_CHECKPOINT_PERIOD => '8 calls' });
logs('helpers in a replay', { name => 'units', steps => 28, args => [ '-m', 'hydro', '-n', 28 ] }, [1],
    fault => 'app.mid:1:17:kill', env => { FTKIT_LOG_TEAMS => 'rank', FTKIT_LOG_HELPERS => 8 });
my %all = (env => { FTKIT_LOG_TEAMS => 'all' }); # locks need one team, also in the undisturbed run
logs("windows, $_", { name => 'windows', steps => 40, args => [ '-m', $_ ], %all }, [0 .. 3], any => 1,
    fault => 'app.mid:1:17:kill', %all) for qw(fence locks);
logs('windows of teams', { name => 'windows', steps => 40, args => [ '-m', 'pscw' ] }, [0, 1], fault => 'app.mid:1:17:kill');

# ---- replicas, fewer ranks, files, a device, OpenSHMEM --------------------------------------------

for my $lost (qw(compared clone replay)) {
    watched("two replicas, lost: $lost", sub {
        my $twins = { name => 'twins', steps => 60 };
        my $j = replicas(2, $twins, timeout => 400, wrap => \@_, fault => 'app.mid:1:33:kill',
            env => { %memory, FTKIT_REPLICAS_LOST => $lost });
        return right($twins, $j, faults => 1, quiet => 1);
    });
}
ends_alike('fewer ranks', 'mpi/shrink', [], n => 5, spares => 0, fault => 'app.mid:2:8:kill',
    env => { %memory, FTKIT_RECOVER_SUPPLY => 'shrink', FTKIT_CHECKPOINT_PERIOD => '3 calls' });
ends_alike("files of the program, $_", 'mpi/files', [$_], fault => 'app.step:1:18:kill') for qw(callbacks calls);
ends_alike('files that all ranks write, sets in memory', 'mpi/files_joint', ['posix'], fault => 'app.step:1:18:kill',
    env => { %slow, FTKIT_LEVEL_HDF5_EVERY => '1000000 sets' });
ends_alike('files that all ranks write, sets in files', 'mpi/files_joint', ['posix'], fault => 'app.step:1:18:kill',
    env => { %files, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' });

watched('OpenSHMEM', sub {
    my @valgrind = @_;
    my $want = FtkitShmem::undisturbed('jacobi', 4);
    my $j = job(n => 4, spares => 1, timeout => 400, program => $valgrind[0],
        args => [ @valgrind[1 .. $#valgrind], "$build/shmem-tests/jacobi" ], env => { %memory, KILLS => '1 7 3' });
    return wrong($j, 0, $want ne '' && $j->{result} eq $want, 1);
});

{
    my @loaders = map {"$build/$_"} qw(fakecuda fakehip);
    local $ENV{LD_LIBRARY_PATH} = join ':', @loaders, grep {defined} $ENV{LD_LIBRARY_PATH};
    watched('memory of a device', sub {
        my @valgrind = @_;
        my $j = job(n => 4, spares => 1, timeout => 400, program => $valgrind[0], fault => 'app.mid:1:7:kill',
            args => [ @valgrind[1 .. $#valgrind], "$build/mpi/device", 12 ],
            env => { %memory, FTKIT_CHECKPOINT_PERIOD => '2 calls' });
        return wrong($j, 1, scalar($j->{log} =~ /^device: 12 steps are right, 4 ranks$/m), 1);
    });
}

done_testing();
