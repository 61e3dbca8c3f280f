#!/usr/bin/perl
# scripts/device-check, with the driver of CUDA without a device in place of the one of a machine: each part runs and is
# right, each kind of fault makes a part red, and what is missing is said.
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
my ($top, $build) = (top(), build());
my $fake = "$build/fakecuda";

# The lines of TAP and all that is said.
sub device_check
{
    my ($path, @parts) = @_;
    local $ENV{LD_LIBRARY_PATH} = join ':', $path, grep {defined} $ENV{LD_LIBRARY_PATH};
    local $ENV{BUILD} = $build;
    my $out = qx('$top/scripts/guard' 200 -- '$top/scripts/device-check' @{[map {"'$_'"} @parts]} 2>&1 </dev/null);
    return ($?, $out);
}

# A driver that is none, and one whose device does not start.
my $none = scratch() . '/none';
mkdir($none) or die("$none: $!\n");
write_file("$none/libcuda.so.1", '');
my ($rc, $out) = device_check($none);
is($rc, 0, 'without a driver nothing fails');
like($out, qr{^1\.\.0 # SKIP .*libcuda\.so\.1.*\(0\)$}m, '... and the reason is said');
{
    local $ENV{OMPI_COMM_WORLD_RANK} = 0;
    local $ENV{FAKECUDA_FAIL} = 'cuInit:0:1:100';
    ($rc, $out) = device_check($fake);
    is($rc, 0, 'without a device nothing fails');
    like($out, qr{^1\.\.0 # SKIP the driver of CUDA does not start: cuInit \(100\)$}m, '... and the reason is said');
}
{
    local $ENV{DEVICE_S} = 0;
    ($rc, $out) = device_check($fake);
    is($rc, 0, 'without time nothing fails');
    my $skipped = () = $out =~ /^ok \d+ # skip .*: no time left/mg;
    is($skipped, 11, '... and each part says so');
}

($rc, $out) = device_check($fake);
is($rc, 0, 'with a driver without a device all parts are right') or diag($out);
is(join(' ', map { /^ok/ ? /# skip/ ? 'skip' : 'ok' : 'not' } $out =~ /^((?:not )?ok .*)$/mg),
    'ok ok ok skip ok skip ok skip ok skip ok ok ok ok ok', '... and only times are not judged');

# part, variables: what has to be red
for my $case (
    ['checksums', FAKECUDA_SUMS => 'wrong:0:2'],
    ['more than 4 GiB', FAKECUDA_FLIP => '0:9:262144'],
    ['a replacement gets', FAKECUDA_FAIL => 'cuMemAlloc_v2:2:1:2'],
    ['an error in a kernel', FTKIT_DEVICE_FAULT => 'error'],
    ['heat_gpu with snapshots', FTKIT_LEVEL_MEMORY_SCHEME => 'own'],
    ['random moment', FAKECUDA_FAIL => 'cuMemcpyHtoD_v2:4:1:1', FTKIT_RECOVER_SUPPLY => 'spare'])
{
    my ($part, %set) = @$case;
    local %ENV = (%ENV, %set);
    ($rc, $out) = device_check($fake, $part);
    ok($rc != 0 && $out =~ /^not ok 1 - .*\Q$part\E/m && $out !~ /^(?:not )?ok 2/m,
        "this part is red: $part, " . join(' ', map {"$_=$set{$_}"} sort keys %set))
        or diag($out);
}
{
    local $ENV{DEVICE_TIMES} = 1; # the interpreter of the kernel takes much longer than a copy
    ($rc, $out) = device_check($fake, 'a set of 4 MiB');
    ok($rc != 0 && $out =~ /^ok 1 - a set of 4 MiB\n.*^not ok 2 - \.\.\. takes 1 \/ 0\.9 /ms, 'a set that takes too long is red')
        or diag($out);
}

done_testing();
