#!/usr/bin/perl
# A team replays, and the ranks that wait for it sleep: a long wait takes little processor time, and the
# team sees their cores as idle.
# Without a failure, and while all ranks compute, no rank sleeps.
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
my $log = ''; # of the last job

# The longest wait of each rank: [wall, sleeps].
sub waits { return map { [split ' '] } shift->{log} =~ /^wait: rank \d+ (\S+ \d+)$/mg }

# Rank 1 of four dies in step 75, and the only set was written after step 1.
sub patient
{
    my ($kind, %env) = @_;
    my $p = { name => 'patient', steps => 100, args => ['-m', $kind] };
    %env = (FTKIT_LOG_TEAMS => 'rank', FTKIT_CHECKPOINT_PERIOD => '80 calls', %env);
    my $j = logged($p, n => 4, env => \%env, fault => 'app.mid:1:75:kill');
    is(verdict($p, $j, env => \%env, killed => [1], faults => 1, what => $kind), '', $kind)
        or diag($j->{log});
    my @long = grep { $_->[0] > 0.4 } waits($j);
    cmp_ok(scalar(@long), '>=', 3, '... the others wait for half of the replay at least')
        or diag($j->{log});
    $log = $j->{log};
    return grep { $_->[1] < 20 * $_->[0] } @long; # a rank that naps: up to 1,000 times a second
}

# The cores that this process may use.
sub cores
{
    my ($list) = slurp('/proc/self/status') =~ /^Cpus_allowed_list:\s*(\S+)/m;
    my %core;
    for my $cpu (map { /(\d+)-(\d+)/ ? $1 .. $2 : $_ } split(/,/, $list // '0')) {
        my ($first) = slurp("/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list") =~ /^(\d+)/;
        $core{ $first // $cpu } = 1;
    }
    return scalar keys %core;
}

# The most idle cores that each rank has seen, until the replay was over and later.
sub idle { return map { $_->[0] => $_->[1] } map { [split ' ', $_, 2] } $log =~ /^idle: rank (\d+ \d+ \d+)$/mg }

is(scalar(patient($_)), 0, '... and sleep') for qw(ring alone);
is(scalar(patient('ring', FTKIT_CHECKPOINT_LINE => 'apart')), 0, '... and with lines apart');
# the replay needs the rest of a large message
cmp_ok(scalar(patient('large')), '>=', 1, '... but not a rank that sends to the team');
# a keeper of determinants answers other ranks at once
cmp_ok(scalar(patient('ring', FTKIT_LOG_DETERMINANTS => 'pessimistic')), '>=', 1,
    '... but not where others need answers');

# the rank that replays sees the cores of the others, until it has caught up; nobody else sees any
is(scalar(patient('idle')), 0, '... and sleep');
my %idle = idle();
is(join(' ', map { $idle{$_} // 'none' } 0, 2, 3), '0 0 0 0 0 0', 'a rank that waits sees no idle cores');
SKIP: {
    my $most = int(3 * cores() / 4); # more if they were bound to cores of their own: they are not
    skip('a machine with one core', 1) if $most < 1;
    my ($replay, $later) = split(' ', $idle{1} // '-1 -1');
    ok($replay >= 1 && $replay <= $most, 'a rank that replays sees those of the others') or diag("$replay, not 1 to $most");
    is($later, 0, '... and none when it has caught up, although others wait for it');
}

done_testing();
