#!/usr/bin/perl
# Several programs in one job: `ftkit run -n 2 a : -n 2 b`.  A lost rank is replaced by its own program
# only, with its arguments and variables, and in its directory; a restart has the same programs.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
my $a = build() . '/mpi/coupled';
my $b = scratch() . '/other'; # another executable
system('cp', $a, $b) == 0 or die "cp: $?\n";
my $place = scratch() . '/place';
mkdir $place or die "mkdir: $!\n";

# Two ranks of a and two of b.  Options of job(), and: a and b, the numbers of ranks; first and second, the words of a
# and b; more, options for b.
sub coupled {
    my (%o) = @_;
    my @first = @{ $o{first} // ['a', 3] };
    my @second = @{ $o{second} // ['--wdir', $place, '-x', 'ROLE=air', $b, 'b', 5] };
    my $j = job(spares => 1, program => $a, %o, n => $o{a} // 2,
        run => ['-x', 'ROLE=sea', @{ $o{run} // ['--no-relaunch'] }],
        env => { FTKIT_CHECKPOINT_PERIOD => '3 calls', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', %{ $o{env} // {} } },
        args => [@first, ':', '-n', $o{b} // 2, @{ $o{more} // [] }, @second]);
    $j->{end} = join("\n", sort $j->{log} =~ /^end: (.*)$/mg) =~ s{/job\d+}{/here}gr;
    return $j;
}

my $memory = { FTKIT_LEVEL_HDF5_ENABLED => 'false' };
my $plain = coupled(env => $memory);
my $end = $plain->{end};
is("$plain->{rc} " . join(', ', $end =~ /^rank (\d of 4 is .*):/mg),
    '0 0 of 4 is a 3 in /here, program 0 of 2, sea, 1 of 4 is a 3 in /here, program 0 of 2, sea, '
        . '2 of 4 is b 5 in /place, program 1 of 2, air, 3 of 4 is b 5 in /place, program 1 of 2, air',
    'two ranks of each program, with their arguments, directories and variables') or diag($plain->{log});
like($plain->{log}, qr/4 ranks, 2 spares/, '... and a spare of each');

# name, options; like: a line of the log, unlike: none; rc
sub right {
    my ($name, %o) = @_;
    my $j = coupled(%o);
    my $hits = @{ $j->{faults} };
    my $ok = $j->{rc} == 0 && $j->{end} eq ($o{end} // $end) && $hits == ($o{faults} // 1);
    $ok &&= $j->{log} =~ $o{like} if $o{like};
    $ok &&= $j->{log} !~ $o{unlike} if $o{unlike};
    ok($ok, $name) or diag("rc $j->{rc}, $hits faults\n$j->{log}");
    return $j;
}

# refused, with a line
sub refused {
    my ($name, $line, %o) = @_;
    my $j = coupled(spares => 0, %o);
    ok($j->{rc} == 2 && $j->{log} =~ $line && $j->{end} eq '', $name) or diag("rc $j->{rc}\n$j->{log}");
    return;
}

right('a rank of each program is lost', faults => 2, env => $memory,
    fault => 'ckpt.begin:1:3:kill,ckpt.begin:2:4:kill', like => qr/0 spares left/, unlike => qr/spawning/);
right('... the only spare is of b: a process of a is spawned', spares => 0, more => ['--spares', 1],
    fault => 'ckpt.begin:0:3:kill', like => qr/spawning 1 process\b/, env => $memory);
# the table of the programs is not in the order of the processes, and a name is too long for MPI
my $deep = join('/', $place, ('d' x 100) x 3);
system('mkdir', '-p', "$deep/place") == 0 or die "mkdir: $?\n";
right('... without spares, programs in another order, a long directory', spares => 0, faults => 2,
    env => { %$memory, COUPLED_REVERSE => 1 }, second => ['--wdir', "$deep/place", '-x', 'ROLE=air', $b, 'b', 5],
    fault => 'ckpt.begin:1:3:kill,ckpt.begin:2:4:kill', like => qr/spawning 1 process\b.*spawning 1 process\b/s);
right('all ranks of a program are lost at once', spares => 0, faults => 2, like => qr/spawning \d process/,
    fault => 'ckpt.begin:2:3:kill,ckpt.begin:3:3:kill');
right('with the log and teams, without spares of b', more => ['--spares', 0], run => ['--no-relaunch', '--log'],
    env => { FTKIT_LOG_TEAM_LIST => '0-1 2-3', %$memory },
    fault => 'ckpt.begin:3:3:kill', like => qr/spawning 1 process\b/);

# processes that die before they open the context
my $dead = scratch() . '/dead';
right('a process of b dies before it opens the context: its spare is of b, too', faults => 0,
    env => { %$memory, COUPLED_DIES => "b $dead" }, like => qr/4 ranks, 1 spare\b/);
right('... all of them: the job is relaunched', faults => 0, run => [],
    env => { %$memory, COUPLED_DIES => "b $dead.1 $dead.2 $dead.3" },
    like => qr/all processes of program 1 of the job .* were lost before they opened/);

{ # in a job of one program, too
    my $j = job(program => $a, args => ['b', 5], n => 3, spares => 0, run => [],
        env => { %$memory, COUPLED_DIES => "b $dead.4", FTKIT_RECOVER_SUPPLY => 'end' });
    ok($j->{rc} == 0 && $j->{log} =~ /the job has to be relaunched.*relaunching from/s, '... as without a spare')
        or diag("rc $j->{rc}\n$j->{log}");
}

# a : a is one program: each spare replaces each rank
my $one = coupled(first => ['b', 5], second => ['-x', 'ROLE=sea', $a, 'b', 5], env => $memory, faults => 2,
    fault => 'ckpt.begin:1:3:kill,ckpt.begin:0:4:kill');
ok($one->{rc} == 0 && 4 == (() = $one->{end} =~ /, program 0 of 1, sea:/g) && $one->{log} =~ /0 spares left/,
    'a : a is one program') or diag("rc $one->{rc}\n$one->{log}");

# the directory of a program is removed while the job runs: the new process does not compute in another one
{
    my $gone = scratch() . '/gone';
    mkdir $gone or die "mkdir: $!\n";
    my $j = coupled(spares => 0, env => $memory, second => ['--wdir', $gone, $b, 'b', 5],
        fault => 'ckpt.begin:0:2:hold,ckpt.begin:2:3:kill',
        while => sub { my ($work) = @_; await_held($work); rmdir $gone or die "rmdir: $!\n"; let_go($work) });
    ok($j->{rc} == 137 && $j->{end} eq '' && @{ $j->{faults} } == 1
            && $j->{log} =~ /error: .*the working directory of the program is missing on node .*every node needs this directory/,
        'no replacement in another directory than its program') or diag("rc $j->{rc}\n$j->{log}");
    $j = coupled(spares => 0, env => $memory, second => ['--wdir', $gone, $b, 'b', 5]);
    ok($j->{rc} != 0 && $j->{log} =~ /^ftkit run: --wdir \Q$gone\E: No such file or directory; every node needs/m,
        '... nor a start without it, which is told') or diag("rc $j->{rc}\n$j->{log}");
}

SKIP: {
    skip 'needs the right to make name spaces', 1 if !nodes_possible();
    right('two nodes: a rank of each program is lost', faults => 2, env => $memory,
        run => ['--no-relaunch', '--emulate-nodes', 2], fault => 'ckpt.begin:1:3:kill,ckpt.begin:2:4:kill');
}

{ # two programs that mpirun takes for one
    my $wrap = write_file(scratch() . '/wrap',
        "#!/bin/sh\n[ \$OMPI_COMM_WORLD_RANK -lt 2 ] && exec '$a' b 5\nexec '$b' b 5\n");
    chmod 0755, $wrap;
    my $j = job(program => $wrap, args => [], spares => 0, env => $memory);
    my $line = qr/process 0 of the communicator runs 'coupled' and process 2 runs 'other', and for mpirun they are one program/;
    ok($j->{rc} == 2 && $j->{log} =~ $line, 'different executables that mpirun has not told apart') or diag("rc $j->{rc}\n$j->{log}");
    $j = job(program => $wrap, args => [], spares => 0, env => { %$memory, FTKIT_CONTEXT_PROGRAM => 'coupled' });
    is($j->{rc}, 0, '... are one program with context.program') or diag($j->{log});
}

# a spare of another program is no spare; then a restart from files
my $j = coupled(spares => 0, more => ['--spares', 1], fault => 'ckpt.begin:1:3:kill',
    env => { FTKIT_RECOVER_SUPPLY => 'spare, end', FTKIT_LEVEL_HDF5_DIRECTORY => '.' });
like($j->{log}, qr/error: .*1 rank of program 0 of the job .* lost, and too few spares of this program/,
    'a spare of b does not replace a rank of a');
my $dir = $j->{dir};
like(slurp((glob("$dir/default.ftkit/set-*/part-*"))[0]), qr/FTKSEG\r\n\x02\x00{3}/, 'an older ftkit refuses the set');
ok(-d "$dir/default.ftkit" && !-e "$place/default.ftkit", 'a relative directory is that of the first program');
my $other = 'is of 4 ranks of 2 programs, with another number of ranks of a program than in this job';
refused("a restart with another number of ranks: $other", qr/$other/, a => 3, b => 1, keep => $dir);
my $swapped = 'rank 0 was of program 1 of this job .*, and is of program 0: start the same programs in the same order';
refused("a restart with swapped programs: $swapped", qr/$swapped/, keep => $dir, program => $b, first => ['b', 5],
    second => [$a, 'a', 3], env => { FTKIT_CONTEXT_PROGRAM => 'coupled' });
refused('a restart with a third program', qr/is of a job of 2 programs, and this job has 3/, keep => $dir, b => 1,
    more => [$b, 'b', 5, ':', '-n', 1]);
right('the same programs go on', keep => $dir, faults => 0, like => qr/restored set \d+ from files/);
refused('a finished run, and another argument of b', qr/has finished, .* argument 5 was '5', and is '6'/, keep => $dir,
    second => ['--wdir', $place, '-x', 'ROLE=air', $b, 'b', 6]);

# programs that differ in their variables only
{
    my %alike = (first => ['b', 5], second => ['-x', 'ROLE=air', $a, 'b', 5], spares => 0);
    my $j = coupled(%alike, fault => 'ckpt.begin:1:9:kill', env => { FTKIT_RECOVER_SUPPLY => 'end' });
    $alike{keep} = $j->{dir};
    refused('a restart with swapped variables', qr/rank [02] was of program [01] of this job/, %alike,
        run => ['--no-relaunch', '-x', 'ROLE=air'], second => ['-x', 'ROLE=sea', $a, 'b', 5]);
    $j = coupled(%alike);
    ok($j->{rc} == 0 && $j->{log} =~ /restored set \d+ from files/ && 2 == (() = $j->{end} =~ /, program 1 of 2, air:/g),
        '... the same variables go on') or diag("rc $j->{rc}\n$j->{log}");
}

{ # relative paths, all ranks may die
    (my $near = $b) =~ s{^.*/}{};
    chdir(scratch()) or die "chdir: $!\n";
    my ($rc, $out, $err) = command('test', '-n', 2, '--kill', 'rank 3 at call 5', '--period', '3 calls', '--regions',
        '--', $a, 'a', 3, ':', '-n', 2, "./$near", 'b', 5);
    chdir(top()) or die "chdir: $!\n";
    ok($rc == 0 && $out =~ /^1 of 1: --kill 'rank 3 at call 5': .*the results are the same/m, 'ftkit test with two programs')
        or diag("rc $rc\n$out$err");
}

# the command line
for my $wrong ([[':'], 'PROGRAM is missing'], [[':', '-n', 1], 'PROGRAM is missing'], [[':', $b], '-n N is missing'],
    [[':', '--log', '-n', 1, $b], "behind a ':' the options are"],
    [[':', '-n', 1, '-x', 'FTKIT_SPARES_COUNT=3', $b], 'write --spares S instead'],
    [['--replicas', 2], [':', '-n', 2, $b], '--replicas is possible for one program only']) {
    my $line = pop @$wrong;
    my ($more, $front) = reverse @$wrong;
    my ($rc, undef, $err) = command('run', '-n', 2, @{ $front // [] }, '--', $a, 'a', 3, @$more);
    ok($rc == 2 && $err =~ /$line/, "@$more: $line") or diag("rc $rc\n$err");
}
{
    my ($rc, $out) = command('run', '-n', 4, '--print', '--host', 'n1:2,n2:2', $a, ':', '-n', 4, '--host=n3:4,n4:4', $b);
    like($out, qr/ -n 6 --host n1:2,n2:2 \S+ : .* -x FTKIT_SPARES_COUNT=2 .* -n 6 --host n3:4,n4:4 /,
        'hosts behind a colon count as nodes: spares for one of four');
}
done_testing();
