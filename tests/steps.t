#!/usr/bin/perl
# A set written by steps that do not wait: what they bring to other ranks is what the functions
# that wait bring, also after an error between the steps; and ranks are killed before, between and
# in the steps, one after the other.  With --all in each combination of scheme, rank, step and set.
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
my %env = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '1 calls');

sub steps {
    my ($name, $scheme, %o) = @_;
    my $j = job(spares => 0, %o, program => build() . '/mpi/steps',
        env => { %env, FTKIT_LEVEL_MEMORY_SCHEME => $scheme, %{ $o{env} // {} } });
    my $faults = $o{faults} // 0;
    is("$j->{rc} $j->{result}" . scalar(@{ $j->{faults} }), "0 12 rounds\n$faults",
        "$scheme: $name") or diag($j->{log});
    unlike($j->{log}, qr/^handles: /m, '... and no communicator is left');
    return;
}

my $schemes = 0;
for my $scheme (qw(buddy xor rs own)) {
    steps('a late rank in each round', $scheme) if selected(2, $schemes);
    steps('the same in shared memory', $scheme, env => { FTKIT_LEVEL_MEMORY_PLACE => 'shared' })
        if selected(2, ++$schemes);
}
steps('two ranks without a partner', 'xor', env => { FTKIT_TOPOLOGY_RANKS_PER_NODE => 3 });
for my $case ([5, 2], all_cases() ? [8, 3] : ()) {
    my ($n, $node) = @$case;
    steps("$n ranks in uneven groups", 'xor', n => $n,
        env => { FTKIT_LEVEL_MEMORY_GROUP => 3, FTKIT_TOPOLOGY_RANKS_PER_NODE => $node });
}
# the set is given up; or, when the parity of the data is made already, all roll back
steps('no memory for a copy', 'buddy', faults => 1, fault => 'stream.take:3:2:ENOMEM');
steps('no memory for the parity', 'xor', faults => 1, fault => 'coding.alloc:3:3:ENOMEM');
steps('no memory for the parity of the head', 'xor', faults => 1,
    fault => 'coding.alloc:3:4:ENOMEM');

for my $case (all_cases() ? pairwise([qw(buddy xor rs)], [ 0, 3 ], [qw(sizes sized send)], [ 3, 4 ]) : ()) {
    my ($scheme, $rank, $point, $visit) = @$case;
    steps("rank $rank is killed at steps.$point", $scheme, spares => 1, faults => 1,
        fault => "steps.$point:$rank:$visit:kill");
}
my @points = qw(sizes sized send);
for my $scheme (qw(buddy xor rs)) {
    steps("ranks are killed at @points, each in another set", $scheme, spares => 3, faults => 3,
        fault => "steps.$points[0]:0:3:kill,steps.$points[1]:3:4:kill,steps.$points[2]:1:5:kill");
    push(@points, shift(@points));
}
done_testing();
