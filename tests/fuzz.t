#!/usr/bin/perl
# The readers of foreign bytes (segments, archives of files, manifests, configurations, owners,
# requests, tails, failure logs) on what is kept in tests/fuzz/corpus and on what is nearly that,
# under the address and undefined behaviour sanitizers.  `make fuzz` looks for more.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

my $san = ($ENV{BUILD} // 'build') . '/san';
my ($mpicc) = slurp(build() . '/mpi.mk') =~ /^MPICC := (.*)$/m;
chdir top();
delete $ENV{$_} for qw(MAKEFLAGS MFLAGS MAKELEVEL), grep { /^FTKIT_/ && $_ ne 'FTKIT_GUARD' } keys %ENV;

my @targets = grep { $_ ne 'replay' } map { m{/(\w+)\.c$} } glob 'tests/fuzz/*.c';
my @programs = map {"$san/replay/$_"} @targets;
# the library is that of sanitize.t
if (!(builds('builds', 900,
        qq(make -j2 SAN=1 WERROR=1 BUILD="$san" MPICC="$mpicc" @programs)))[0])
{
    done_testing();
    exit 1;
}
$ENV{ASAN_OPTIONS} = 'detect_leaks=0'; # the fuzzer looks for them; not where we are traced
for my $target (@targets) {
    my @inputs = glob "tests/fuzz/corpus/$target/*";
    cmp_ok(scalar(@inputs), '>', 0, "$target: inputs");
    my $said = `scripts/guard 120 -- $san/replay/$target @inputs 2>&1`;
    is($?, 0, '... are survived') or diag(substr($said, 0, 4000));
    like($said, qr/^@{[scalar @inputs]} inputs$/m, '... all of them');
}

done_testing();
