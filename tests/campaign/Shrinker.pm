# The shrinker of a campaign: a smaller case that still fails.
#
# SPDX-License-Identifier: BSD-3-Clause
package Shrinker;
use strict;
use warnings;
use Case;

# A deep copy of a case.
sub copy { return Case::parse(Case::text($_[0])) }

# Cases that are smaller by one thing, in the order in which they are worth trying.
sub smaller {
    my ($c) = @_;
    my @all;
    my $with = sub {
        my $new = copy($c);
        $_[0]->($new);
        push(@all, $new);
    };
    my $half = int(@{ $c->{faults} } / 2);
    if ($half > 1) {
        $with->(sub { splice(@{ $_[0]{faults} }, $half) });
        $with->(sub { splice(@{ $_[0]{faults} }, 0, $half) });
    }
    for my $i (0 .. $#{ $c->{faults} }) {
        $with->(sub { splice(@{ $_[0]{faults} }, $i, 1) }) if @{ $c->{faults} } > 1;
    }
    for my $one (['replicas', 1], ['nodes', 1], ['relaunch', 0], ['late', 0]) {
        my ($key, $value) = @$one;
        $with->(sub { $_[0]{$key} = $value }) if $c->{$key} != $value;
    }
    for my $key (sort grep { !/^(?:checkpoint.period|level.hdf5.enabled)$/ } keys %{ $c->{config} }) {
        $with->(sub { delete $_[0]{config}{$key} });
    }
    $with->(sub { $_[0]{config}{'level.hdf5.enabled'} = 'false'; # and the keys of this level
        delete $_[0]{config}{$_} for grep { /^level\.hdf5\.(?!enabled)/ } keys %{ $_[0]{config} } })
        if !$c->{config}{'level.hdf5.enabled'};
    $with->(sub { $_[0]{spares}-- }) if $c->{spares} > 1;
    return grep { Case::supported($_) eq '' } @all;
}

# Shrink a case while fails->(case) holds.  most: how many cases are tried.  Returns the smallest case
# and the number of tries.
sub shrink {
    my ($c, $fails, $most) = @_;
    my $tries = 0;
    for (my $better = 1; $better;) {
        $better = 0;
        for (my ($i, @all) = (0, smaller($c)); $i < @all;) {
            return ($c, $tries) if $tries >= $most;
            $tries++;
            if ($fails->($all[$i])) { # what has come before was tried: go on at this place
                ($c, $better) = ($all[$i], 1);
                @all = smaller($c);
            } else {
                $i++;
            }
        }
    }
    return ($c, $tries);
}

1;
