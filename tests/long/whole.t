#!/usr/bin/perl
# Some files of tests run only a part of their cases in `make check`: FtkitTest chooses the cases.  With
# --all such a file runs all cases.  This test runs these files with --all, except for those that have
# a file of the same name in tests/long for this purpose.
#
#   FTKIT_TEST_ONLY=...  only files whose name matches
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Basename 'basename';
use FtkitTest;
use Test::More;

chdir top();
my $only = $ENV{FTKIT_TEST_ONLY} // '.';
for my $file (grep {/$only/} glob 'tests/*.t') {
    next if slurp($file) !~ /\b(?:all_cases|selected|pairwise|victims|asleep_in_waits)\(/;
    next if slurp('tests/long/' . basename($file)) =~ /^[^#]*\bexec \Q$file\E --all$/m;
    my $out = `$file --all 2>&1 </dev/null`;
    my @bad = grep { /^not ok|^#/ } split(/^/m, $out);
    ok($? == 0 && $out =~ /^(?:ok|1\.\.0)/m, "$file --all") or diag(join('', @bad[ 0 .. ($#bad < 200 ? $#bad : 200) ]));
}
done_testing();
