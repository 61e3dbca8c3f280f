#!/usr/bin/perl
# Ways to fail that MPI does not report: exit, abort, MPI_Abort, a stopped process, an endless
# loop (row R7); what ends a job that cannot go on (row R5).
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_RECOVER_TIMEOUT => '3s');
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
    FTKIT_RECOVER_TIMEOUT => '3s');

for my $rank (0, 2) {
    survives("exit(3) by rank $rank", env => \%memory, fault => "app.mid:$rank:9:exit");
    survives("abort() by rank $rank", env => \%memory, fault => "app.mid:$rank:9:abort");
    survives("rank $rank is stopped", env => \%memory, fault => "app.mid:$rank:9:stop",
        like => qr/has been stopped for/);
    survives("rank $rank is stopped in a checkpoint", env => \%memory,
        fault => "ckpt.sized:$rank:3:stop", like => qr/has been stopped for/);
    survives("MPI_Abort by rank $rank: a relaunch", env => \%files, run => [],
        fault => "app.mid:$rank:9:mpiabort", like => qr/relaunching/);
    survives("an endless loop in rank $rank while another is repaired", spares => 2,
        env => \%memory, faults => 2,
        fault => "app.compute:$rank:9:loop,app.compute:" . (3 - $rank) . ':9:kill',
        like => qr/has not come to the repair/);
    survives("an endless loop in rank $rank: ended and relaunched", env =>
        { %files, FTKIT_RECOVER_STALL => '3s' }, run => [],
        fault => "app.compute:$rank:9:loop", like => qr/no rank of this node has made progress for .* \(recover\.stall\)/);
}
survives('a rank is stopped inside a repair', spares => 2, env => \%memory, faults => 2,
    fault => 'app.mid:1:9:kill,repair.census:2:2:stop', like => qr/has been stopped for/);
survives('a spare is stopped, then needed', spares => 2, env => \%memory, faults => 2,
    fault => 'app.mid:1:9:kill,repair.shrink:4:1:stop', like => qr/has been stopped for/);

# a program that dies again and again at the same place
my $j = job(spares => 1, env => { %memory, FTKIT_RECOVER_ATTEMPTS => 3 },
    fault => 'app.mid:1:3:kill@*', timeout => 60);
ok($j->{rc} != 0 && $j->{log} =~ /recover\.attempts/ && @{ $j->{faults} } == 4,
    'a program that always dies at the same step is ended') or diag($j->{log});

# a program that calls MPI_Abort at the same step in each attempt comes no further, whatever sets
# it writes before that
for my $log ('', ' with the log') {
    my $again = job(n => 2, spares => 0, run => [ $log ? '--log' : () ], timeout => 60,
        args => [ '-s', 60, '-a', 30 ], env => { %files, FTKIT_RECOVER_TIMEOUT => '1s',
            FTKIT_RECOVER_SUPPLY => 'end' });
    my $relaunches = () = $again->{log} =~ /; relaunching/g;
    # sets come every fifth call: the second attempt starts from the one before the step
    ok($again->{rc} == 9 && $relaunches == 1
            && $again->{log} =~ /rank 1 of the job called MPI_Abort with code 9.* same place/,
        "MPI_Abort at the same step$log: one relaunch") or diag($again->{rc}, $again->{log});
}

# a batch system suspends the job, and wakes its processes one after the other
{
    my $stopped = 0;
    survives('the whole job is suspended for longer than recover.timeout', faults => 0,
        env => { %memory, FTKIT_RECOVER_TIMEOUT => '2s' }, like => qr/has stood still for/,
        unlike => qr/killed|repaired in/, solver => ['-d', 20, '-s', 60, '-p', 'pid'],
        while => sub {
            my ($work) = @_;
            for (my $end = time() + 30; time() < $end; select(undef, undef, undef, 0.01)) {
                last if ((split(' ', slurp("$work/pid.0")))[1] // 0) >= 20;
            }
            my @all = grep { (readlink("/proc/$_/exe") // '') =~ /solver$/
                && slurp("/proc/$_/environ") =~ /=\Q$work\E\0/ } map {m{(\d+)$}} glob('/proc/[0-9]*');
            $stopped = kill('STOP', @all);
            select(undef, undef, undef, 5);
            for (@all) {
                kill('CONT', $_);
                select(undef, undef, undef, 0.02);
            }
        });
    is($stopped, 5, '... all five processes of it');
}

done_testing();
