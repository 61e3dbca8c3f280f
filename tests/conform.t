#!/usr/bin/perl
# What the MPI standard promises a program holds with the message log as without: every program
# of tests/conform (see conform.h there).  With --all each number of ranks with each kind of
# teams, and without the log, where the MPI keeps the promise.
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
asleep_in_waits();
my @only = grep { $_ ne '--all' } @ARGV;
my @names = @only ? @only : map { basename($_, '.c') } glob(top() . '/tests/conform/*.c');
cmp_ok(scalar @names, '>', 0, 'there are programs');
for my $name (@names) {
    my $source = slurp(top() . "/tests/conform/$name.c");
    my ($ranks) = $source =~ m{^/\* ranks: ([\d ]+)$}m;
    my ($levels) = $source =~ m{^ \* levels: ([a-z ]+)$}m; # of thread support
    my ($teams) = $source =~ m{^ \* teams: (all)$}m; # runs so, too
    ok($ranks, "$name says how many ranks") or next;
    my @hows = map { my $n = $_; map { [$n, $_] } split ' ', $levels // 'any' } split ' ', $ranks;
    for my $h (0 .. $#hows) {
        my ($n, $level) = @{ $hows[$h] };
        my @teams = (1, $n > 1 ? $n : ());
        my @several = grep { $_->[0] > 1 } @hows; # each program runs with both kinds of teams
        @teams = map { $teams[$_] } grep { selected(2, $h, $_) } 0 .. $#teams if @teams > 1 && @several > 1;
        for my $team (all_cases() ? 0 : (), @teams, $teams // ()) {
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
