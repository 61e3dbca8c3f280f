#!/usr/bin/perl
# scripts/check fails when a file fails, names this file, and prints the CPU time of all processes
# of each file.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

chdir top();

sub small_file # that computes for so many seconds in a child, and ends with a code
{
    my ($name, $seconds, $code) = @_;
    my $path = write_file(scratch() . "/$name.t", "#!/bin/sh\necho 1..1\necho ok 1\n"
        . "perl -e 'my \$n; do { \$n++ for 1 .. 1e5 } while ((times)[0] < $seconds)'\n"
        . "exit $code\n");
    chmod 0755, $path;
    return $path;
}

my ($good, $bad) = (small_file('good', 0.5, 0), small_file('bad', 0, 3));
my $build = build();
my $out = `BUILD='$build' scripts/guard 60 -- scripts/check '$good' '$bad' 2>&1`;
isnt($?, 0, 'a file fails');
like($out, qr/^\Q$bad\E +\(Wstat: 768 /m, '... and is named with its code') or diag($out);
unlike($out, qr/^\Q$good\E +\(Wstat/m, '... alone');
my %cpu = reverse $out =~ /^# cpu (\d+\.\d) s  (.*)$/mg;
near($cpu{$good}, 0.6, 0.5, 'the CPU time of a file has that of its children');
cmp_ok($cpu{$bad} // 9, '<', 0.3, '... and not that of the file beside');

done_testing();
