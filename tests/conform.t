#!/usr/bin/perl
# What the MPI standard promises a program holds with the message log as without: every program
# of tests/conform (see conform.h there).  With --all also without the log, where the MPI keeps the
# promise.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use File::Basename qw(basename);
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
my @only = grep { $_ ne '--all' } @ARGV;
my @names = @only ? @only : map { basename($_, '.c') } glob(top() . '/tests/conform/*.c');
cmp_ok(scalar @names, '>', 0, 'there are programs');
for my $name (@names) {
    my $source = slurp(top() . "/tests/conform/$name.c");
    my ($ranks) = $source =~ m{^/\* ranks: ([\d ]+)$}m;
    my ($levels) = $source =~ m{^ \* levels: ([a-z ]+)$}m; # of thread support
    my ($teams) = $source =~ m{^ \* teams: (all)$}m; # runs so, too
    ok($ranks, "$name says how many ranks") or next;
    for my $how (map { my $n = $_; map { [$n, $_] } split ' ', $levels // 'any' } split ' ', $ranks) {
        my ($n, $level) = @$how;
        for my $team (all_cases() ? 0 : (), 1, $n > 1 ? $n : (), $teams // ()) {
            my %teams = $team eq 'all' ? (FTKIT_LOG_TEAMS => 'all') : (FTKIT_LOG_TEAM_SIZE => $team || 1);
            my $what = ($team ? "teams of $team" : 'without ftkit') . ($levels ? ", $level" : '');
            my @mca = $name eq 'mprobe' ? (OMPI_MCA_smsc => '^cma') : (); # the sender is needed
            my $j = job(n => $n, spares => 0, program => build() . "/conform/$name", args => [],
                env => { @mca, FTKIT_LEVEL_HDF5_ENABLED => 'false', CONFORM_LEVEL => $level,
                    FTKIT_LOG_ENABLED => $team ? 'true' : 'false',
                    %teams, FTKIT_CHECKPOINT_PERIOD => '1 calls' });
            ok($j->{rc} == 0 && $j->{log} =~ /^\0?OK \d+$/m, "$name, $n ranks, $what")
                or diag(substr($j->{log}, 0, 3000));
        }
    }
}
done_testing();
