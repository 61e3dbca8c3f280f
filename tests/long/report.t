#!/usr/bin/perl
# ftkit report on event logs that are damaged at random: it makes a page whose coordinates are
# numbers, or says that it cannot.  With BUILD of `make SAN=1`, under the sanitizers.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  its length (default 400)
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitTest;
use Test::More;

plan(skip_all => 'built without jansson') if slurp(build() . '/mpi.mk') !~ /^HAVE_JANSSON := yes$/m;
my $seed = $ENV{FTKIT_TEST_SEED} // 7;
my $count = $ENV{FTKIT_TEST_COUNT} // 400;
srand($seed);
diag("FTKIT_TEST_SEED=$seed, $count logs");
my @good = map { slurp($_) =~ /^(.*\n)/mg } glob(top() . '/tests/data/events/*.jsonl');
my @odd = (qw(-1 1e308 0 99999999999999999999 9223372036854775807 "x" null [] {} 1e-300 -5.5 1048575 true ""), q([1,2]));
my ($log, $page) = map { scratch() . "/$_" } 'a.jsonl', 'page.html';

# Damage one of the lines: a byte, the value of a member, the order; or a line is lost or comes twice.
sub damage
{
    my ($lines) = @_;
    my $i = int rand @$lines;
    my $kind = int rand 7;
    if ($kind == 0) {
        substr($lines->[$i], rand length $lines->[$i], 1) = chr rand 256;
    } elsif ($kind <= 3) {
        my @at;
        push @at, [$-[1], $+[1] - $-[1]] while $lines->[$i] =~ /:((?:-?[\d.]+|"[^"]*"|\[[^\]]*\]|true|false))[,}]/g;
        my $value = $at[rand @at] or return;
        substr($lines->[$i], $value->[0], $value->[1]) = $odd[rand @odd];
    } elsif ($kind == 4) {
        my $k = int rand @$lines;
        @$lines[$i, $k] = @$lines[$k, $i];
    } elsif ($kind == 5) {
        splice @$lines, $i, 1;
    } else {
        splice @$lines, $i, 0, $lines->[rand @$lines];
    }
    return;
}

my ($pages, @bad) = (0);
for my $n (1 .. $count) {
    my @lines = @good;
    damage(\@lines) for 0 .. rand 60;
    open my $f, '>:raw', $log or die "$log: $!\n";
    print $f @lines;
    close $f or die "$log: $!\n";
    my ($code, $out, $err) = command('report', $log, '-o', $page);
    $pages += $code == 0;
    next if $code == 1 && $err =~ /^ftkit report: /
        || $code == 0 && slurp($page) !~ /(?<![a-z])(?:nan|inf)(?![a-z])/;
    push @bad, "log $n: exit code $code\n$err";
    diag($bad[-1]);
}
ok(!@bad, "$count damaged logs");
cmp_ok($pages, '>', $count / 2, 'most of them give a page');
done_testing();
