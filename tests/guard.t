#!/usr/bin/perl
# Programs with checks of their own, which fire on what is computed between a failure and
# ftkit_checkpoint(): guarded by ftkit_failed() or ftkit_confirm() they survive every kill, with
# and without the log.  What ends the program all the same costs the rank, not the job.
#
# FTKIT_TEST_KILLS=N: so many kills of each kind instead of 2, or 4 with --all.
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
srand($ENV{FTKIT_TEST_SEED} // 11);
my $program = build() . '/mpi/guarded';
my $kills = $ENV{FTKIT_TEST_KILLS} // (all_cases() ? 4 : 2);
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');
my %ways = (
    'without the log' => {%memory},
    'with the log, one team' => { %memory, FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAMS => 'all' },
    'with the log, teams of 2' => { %memory, FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 2 },
);

my $number = 0;
sub guarded
{
    my ($how, $env, %o) = @_;
    my $work = sprintf '%s/guarded%03d', scratch(), $number++;
    my @more = @{ delete $o{more} // [] };
    return job(program => $program, env => $env, keep => $work, timeout => 60, %o,
        args => ['-o', "$work/out", '-m', $how, @more]);
}

my $want = guarded('mpi', $ways{'without the log'}, spares => 0)->{result};
isnt($want, '', 'the undisturbed run has a result');

for my $way (sort keys %ways) {
    for my $how (qw(failed confirm)) {
        my $fired = 0;
        for my $i (1 .. $kills) { # the first one before its rank has sent anything
            my $point = (qw(app.step app.mid app.coll))[ $i == 1 ? 0 : rand 3 ];
            my $fault = sprintf '%s:%d:%d:kill', $point, rand 4, 1 + rand 38;
            my $j = guarded($how, $ways{$way}, fault => $fault);
            $fired += $j->{log} =~ /checks have fired/;
            my $good = $j->{rc} == 0 && $j->{result} eq $want && @{ $j->{faults} } == 1;
            ok($good, "$way, ftkit_$how, $fault") or diag("rc $j->{rc}\n", substr($j->{log}, 0, 4000));
        }
        cmp_ok($fired, '>', 0, "$way, ftkit_$how: checks have fired on garbage");
    }
}

# The process ends, and the job goes on.  The checks of a neighbour fire, which is no buddy of the
# rank that is killed.
my $line = qr/rank \d+ .*while a failure waits for its repair.*Rule: ask ftkit_confirm\(\)/;
for my $case (['abort', 'without the log'], ['mpi', 'with the log, one team'],
    ['exit', 'without the log'], ['exit', 'with the log, one team'])
{
    my ($how, $way) = @$case;
    my $j = guarded($how, $ways{$way}, spares => 3, more => ['-c', 1],
        fault => 'app.step:2:17:kill');
    ok($j->{rc} == 0 && $j->{result} eq $want, "$way, $how: the rank is lost, not the job")
        or diag("rc $j->{rc}\n", substr($j->{log}, 0, 4000));
    like($j->{log}, $line, '... says so, and the rule') or diag($j->{log});
}

# A bug of the program ends the job.
for my $case (['confirm', 'without the log'], ['confirm', 'with the log, teams of 2'],
    ['abort', 'without the log'], ['mpi', 'with the log, one team'])
{
    my ($how, $way) = @$case;
    my $j = guarded($how, { %{ $ways{$way} }, FTKIT_RECOVER_TIMEOUT => '2s' }, more => ['-b', 9]);
    isnt($j->{rc}, 0, "$way, $how: a bug ends the job");
    like($j->{log}, qr/guarded: rank 1: the time step is not positive in step 8/, '... and is told');
}

done_testing();
