#!/usr/bin/perl
# The unit tests that try only a part of their cases in `make check`, with all cases.
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
@ENV{qw(OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM)} = (1, 1) if $> == 0;
@ENV{qw(FTKIT_TEST_ALL OMPI_MCA_btl_sm_backing_directory TMPDIR)} = (1, scratch(), scratch());
for my $source (grep { slurp($_) =~ /\b(?:FTKIT_TEST_ALL|all_cases|step_many)\b/ } glob 'tests/unit/t_*.c') {
    my $program = build() . '/unit/' . basename($source, '.c');
    next if !-x $program;
    my $out = `scripts/guard 1800 -- scripts/cmocka-tap '$program' 2>&1 </dev/null`;
    ok($? == 0 && $out !~ /^not ok/m && $out =~ /^ok/m, basename($program)) or diag(substr($out, -3000));
}
done_testing();
