#!/usr/bin/perl
# What ftkit hands to the MPI in each collective step, and how that grows with the number of ranks:
# docs/design/scaling.md has the functions, and this test counts.
#
#   FTKIT_TEST_SIZES=4,8,16,32,64,96  other numbers of ranks; the table of docs/design/scaling.md
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use List::Util qw(max min uniq);
use Test::More;

ulfm_only();
asleep_in_waits();
my $build = build();
my @sizes = split(/,/, $ENV{FTKIT_TEST_SIZES} // '4,16');
my @steps = ('opening', 'ftkit_recover', 'first set', 'set', 'set', 'repair and set', 'set', 'ftkit_finish',
    'ftkit_close');
my %marks = map { $_ + 1 => $steps[$_] } 0 .. $#steps;

# {messages}{mark}, {sent}, {calls}, {got}, {heap}: of each rank that lives from the beginning to the end
sub count
{
    my ($n, %env) = @_;
    my $j = job(n => $n, spares => 1, timeout => 60 + 3 * $n, program => 'env',
        args => [ "LD_PRELOAD=$build/count.so", "$build/mpi/marks", '-r' ],
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '1 calls', %env });
    is($j->{rc}, 0, "$n ranks, " . join(' ', map { "$_=$env{$_}" } sort keys %env)) or diag($j->{log});
    my %c;
    while ($j->{log} =~ /^count: mark (\d+) rank (\d+) messages (\d+) bytes (\d+) collectives (\d+) bytes (\d+) heap (\d+)$/mg) {
        my ($mark, $rank, @v) = ($1, $2, $3, $4, $5, $6, $7);
        next if $rank >= $n - 1; # it dies; its replacement
        push(@{ $c{$_}{$mark} }, shift(@v)) for qw(messages sent calls got heap);
    }
    return \%c;
}

# All ranks have the same number, and it is this one.
sub each_has
{
    my ($c, $what, $mark, $want, $name) = @_;
    my @got = uniq(@{ $c->{$what}{$mark} // [] });
    return is("@got", $want, "... $marks{$mark}: $name");
}

my (%got, %heap);
for my $n (@sizes) {
    my $p = $n + 1; # processes
    my $c = count($n);
    each_has($c, 'got', 1, 128 + 280 * $p + 32 + 4 * $n + 512, 'bytes of 280 P + 4 n');
    each_has($c, 'calls', $_, 2, 'two votes') for 4, 5, 7;
    each_has($c, 'got', $_, 176, 'of 88 bytes') for 4, 5, 7;
    cmp_ok(max(map { @{ $c->{messages}{$_} } } 4, 5, 7), '<=', 4, '... a stream, and a message of the program');
    each_has($c, 'calls', 8, 1, 'a vote');
    each_has($c, 'got', 9, 88 + 24 + 376 * $n, 'bytes of 376 P'); # no spare is left
    $got{plain}{$n} = min(@{ $c->{got}{6} });
    $heap{plain}{$n} = max(@{ $c->{heap}{7} }) - min(@{ $c->{heap}{1} });
    my $l = count($n, FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAMS => 'rank');
    each_has($l, 'got', 1, 128 + 280 * $p + 32 + 4 * $n + 512 + 8 * $n + 8, 'and 8 n with the log');
    each_has($l, 'calls', $_, 3, 'two votes, and one minimum') for 5, 7;
    each_has($l, 'got', $_, 192, 'of 88 and 16 bytes') for 5, 7;
    # the log sends the message of the program, and a count for its one partner
    is(join(' ', uniq(map { $l->{messages}{$_}[0] - $c->{messages}{$_}[0] } 5, 7)), 2, '... and one count');
    each_has($l, 'got', 9, 88 + 24 + 376 * $n + 12 * $n + 48, 'and 12 n with the log');
    $got{log}{$n} = min(@{ $l->{got}{6} });
    $heap{log}{$n} = max(@{ $l->{heap}{7} }) - min(@{ $l->{heap}{1} });
    diag(sprintf('n = %d: opening %d and %d bytes, repair and set %d and %d; calls %d and %d; close %d and %d',
        $n, $c->{got}{1}[0], $l->{got}{1}[0], $got{plain}{$n}, $got{log}{$n}, min(@{ $c->{calls}{6} }),
        min(@{ $l->{calls}{6} }), $c->{got}{9}[0], $l->{got}{9}[0]));
    diag(sprintf('heap: %.0f KiB more than at the opening, with the log %.0f', map { $heap{$_}{$n} / 1024 } qw(plain log)));
}

# A repair: a vote that the failure interrupts may have begun or not, on all ranks or on some.
my ($least, $most) = (min(@sizes), max(@sizes));
for my $case ([ 'plain', 256 + 24 + 96 + 4 ], [ 'log', 256 + 24 + 96 + 4 + 12 + 56 + 48 + 32 + 24 ]) {
    my ($kind, $want) = @$case;
    my $slope = ($got{$kind}{$most} - $got{$kind}{$least}) / ($most - $least);
    my $off = 2 * 88 / ($most - $least);
    ok(abs($slope - $want) <= $off, "a repair ($kind): $want bytes for each further rank") or diag("$slope");
}
done_testing();
