#!/usr/bin/perl
# The message log with more communicators than log.contexts: ranks are killed while a hundred
# are in use, in teams and between them, with each way to keep determinants.
#
#   tests/logcomms.t [KILLS [SEED]]
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitLog;
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
my @numbers = grep {/^\d/} @ARGV;
my ($kills, $seed) = ($numbers[0] // (all_cases() ? 12 : 8), $numbers[1] // 6);
srand($seed);

my @kept = ({}, { FTKIT_LOG_DETERMINANTS => 'relaxed' },
    { FTKIT_LOG_DETERMINANTS => 'causal', FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 },
    { FTKIT_LOG_DETERMINANTS => 'pessimistic', FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 });
my @points = qw(app.mid app.inflight log.received log.send log.settle);

for my $p ({ name => 'crowd', steps => 30 }, { name => 'crowd', steps => 12, args => [qw(-m long -n 12)] }) {
    my $whole = job(n => 4, spares => 0, program => build() . '/mpi/crowd',
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LOG_ENABLED => 'true',
            FTKIT_LOG_CONTEXTS => 64 }, args => [@{ $p->{args} // [] }, '-o', 'out']);
    like(undisturbed($p, 4), qr/^OK step $p->{steps} /, title($p));
    is(slurp("$whole->{dir}/out"), undisturbed($p, 4), '... the same with more contexts');
    for my $i (1 .. $kills / 2) {
        my %env = (%{ $kept[$i % @kept] }, FTKIT_LOG_TEAM_SIZE => 1 + int(rand(2)),
            FTKIT_LOG_CONTEXTS => one_of(2, 3, 16));
        my $rank = int(rand(4));
        my $fault = sprintf('%s:%d:%d:kill', 'app.mid', $rank, 2 + rand($p->{steps} - 4));
        my $point = one_of(@points);
        $fault = sprintf('%s:%d:%d:kill', $point, $rank, 400 + rand(400)) if $point =~ /received|send/;
        $fault = sprintf('%s:%d:%d:kill', $point, $rank, 2 + rand($p->{steps} - 4)) if $point =~ /inflight/;
        my $more = $point eq 'log.settle' ? sprintf(',log.settle:%d:1:kill', ($rank + 2) % 4) : '';
        my $j = logged($p, env => \%env, spares => 2, fault => "$fault$more");
        my $what = join(' ', map { s/FTKIT_(?:LOG_)?//r . "=$env{$_}" } sort keys %env);
        is(verdict($p, $j, env => \%env, any => 1, what => $fault), '', "$fault$more $what");
    }
}
done_testing();
