# Programs of tests/shmem whose PEs are lost.
#
# SPDX-License-Identifier: BSD-3-Clause
package FtkitShmem;
use strict;
use warnings;
use Exporter 'import';
use FtkitTest;
use Test::More;

our @EXPORT = qw(pes undisturbed verdict random_kills killed);

my %reference;

# A job of a program of tests/shmem.
sub pes {
    my ($name, %o) = @_;
    my $env = { FTKIT_LEVEL_HDF5_ENABLED => 'false', %{ $o{env} // {} } };
    return job(timeout => 60, args => [], %o, program => build() . "/shmem-tests/$name", env => $env);
}

# The result of a program without a loss.
sub undisturbed {
    my ($name, $n, @args) = @_;
    return '' if is_skipped();
    my $key = join(' ', 'shmem', $name, $n, @args);
    $reference{$key} //= once($key, sub { return pes($name, n => $n, spares => 0, args => \@args)->{result} });
    return $reference{$key};
}

# What is wrong with a job whose kills were all to come to pass.
sub verdict {
    my ($name, $j, $n, @kills) = @_;
    my $want = undisturbed($name, $n);
    my @bad = $j->{rc} == 0 ? () : "exit code $j->{rc}";
    push(@bad, 'no result') if $want eq '' && !is_skipped();
    push(@bad, 'another result') if $j->{result} ne $want;
    my $killed = grep { -e "$j->{dir}/killed$_" } 0 .. $#kills;
    push(@bad, "$killed kills of " . @kills) if $killed != @kills && !is_skipped();
    diag(join("\n", @bad, substr($j->{log}, 0, 6000))) if @bad;
    return join(', ', @bad);
}

# Kills [PE, step, place] in steps that are so far apart that a set is between them; places: how many a
# step has.
sub random_kills {
    my ($n, $count, $places) = @_;
    my $step = 0;
    return map {
        $step += 2 + int(rand(30 / $count));
        [ int(rand($n)), $step, rand() < 0.8 ? 1 + int(rand($places // 6)) : 101 ]
    } 1 .. $count;
}

# A job whose PEs kill themselves: all are told as lost.  Those of a loss in the restart (places from
# 102 on) are in one list with those before.
sub killed {
    my ($name, $n, $o, @kills) = @_;
    my $text = join(' ', map { @$_ } @kills);
    my $j = pes($name, n => $n, %$o, env => { %{ $o->{env} // {} }, KILLS => $text });
    is(verdict($name, $j, $n, @kills), '', "$name, $n PEs, kills (PE, step, place): $text");
    if (grep { $_->[2] >= 102 } @kills) {
        my %told = map { $_->[0] => 1 } @kills;
        my $list = join('.*', map {"^\\0?lost $_ 2\$"} sort { $a <=> $b } keys %told);
        ok(scalar($j->{log} =~ /$list/ms), '... the last list has all PEs');
    }
    for my $k (@kills) {
        ok(scalar($j->{log} =~ /^\0?lost $k->[0] 2$/m), "... PE $k->[0] was told as lost") if $k->[2] < 102;
    }
    return;
}

1;
