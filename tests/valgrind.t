#!/usr/bin/perl
# The unit tests under valgrind: no error, nothing lost.  The quick ones of them; with --all
# every one.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

plan(skip_all => 'no valgrind') if system('command -v valgrind >/dev/null 2>&1') != 0;
my $ulfm = ($ENV{MPI_KIND} // 'ulfm') eq 'ulfm';
my @units = qw(t_segment t_config t_api t_api_misfit t_map t_plan);
# not t_h5_faults: its processes are killed; in valgrind a main thread does not end alone, as in t_device_dead
@units = grep { !/^t_(?:h5_faults|device_dead)$/ } map { m{/(t_\w+)\.c$} }
    glob top() . '/tests/unit/t_*.c' if all_cases();
@ENV{qw(OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM)} = (1, 1) if $> == 0;
$ENV{FTKIT_TEST_FEW} = 3 if !all_cases(); # of tests that repeat the same for other sizes
$ENV{OMPI_MCA_btl_sm_backing_directory} = $ENV{TMPDIR} = scratch();

chdir top();
my @command = (qw(valgrind -q --leak-check=full --errors-for-leak-kinds=definite
    --error-exitcode=9 --child-silent-after-fork=yes), '--suppressions=tests/valgrind.supp');

# two at a time
my %running;
sub finish
{
    my $pid = wait;
    my $rc = $?;
    my $unit = delete $running{$pid};
    my $log = slurp(scratch() . "/$unit.log");
  TODO: {
        local $TODO = 'leaks of this MPI are not known' if !$ulfm && $unit =~ /^t_(api|type)/;
        ok($rc == 0 && $log !~ /^not ok/m && $log =~ /^ok/m, $unit)
            or diag(substr($log, -6000));
    }
}

for my $unit (@units) {
    my $program = build() . "/unit/$unit";
    -x $program or next;
    finish() if keys %running >= 2;
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', scratch() . "/$unit.log";
        open STDERR, '>&', \*STDOUT;
        exec 'scripts/guard', 900, '--', 'scripts/cmocka-tap', @command, $program
            or die "exec: $!\n";
    }
    $running{$pid} = $unit;
}
finish() while %running;
done_testing();
