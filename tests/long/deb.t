#!/usr/bin/perl
# The Debian packages: `make deb` builds them twice with the same bytes, and lintian finds nothing; in a
# system without the sources their tests pass (packaging/debian/tests).  Needs root and a mirror of Debian.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitTest;
use Test::More;

plan(skip_all => 'the packages are built by root, on Debian') if $> != 0 || system('command -v apt-get >/dev/null 2>&1') != 0;
my $tmp = scratch();
chdir top();
delete $ENV{$_} for qw(MAKEFLAGS MFLAGS MAKELEVEL MPI_HOME MPICC);

sub succeeds
{
    my ($what, @command) = @_;
    open my $f, '-|', 'sh', '-c', 'exec "$@" 2>&1 </dev/null', 'sh', 'scripts/guard', 3600, '--', @command
        or die "sh: $!\n";
    my $said = do { local $/; <$f> } // '';
    return ok(close $f, $what) || !diag(substr($said, -4000));
}

for my $build (1, 2) {
    if (!succeeds("make deb, build $build, without findings of lintian", 'make', 'deb', "BUILD=$tmp/$build")) {
        done_testing();
        exit 1;
    }
}
my @packages = map { m{([^/]+)$} } glob "$tmp/1/deb/*.deb";
cmp_ok(scalar @packages, '>=', 7, 'there are packages');
is(system('cmp', '-s', "$tmp/1/deb/$_", "$tmp/2/deb/$_"), 0, "$_: both builds have the same bytes")
    for @packages;
my ($libraries) = glob "$tmp/1/deb/libftkit0_*.deb";
my $needs = `dpkg-deb -f '$libraries' Depends`;
like($needs, qr{\b$_}, "the libraries need $_") for qw(libopenmpi libhdf5 libxxhash0 libinih1 libisal2);
succeeds('the tests of the packages', 'scripts/deb', 'test', "$tmp/1/deb");

done_testing();
