#!/usr/bin/perl
# The demo of the README comes to its end, and what it tells and draws is there.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

my $build = build();
asleep_in_waits();
chdir top();
plan(skip_all => 'needs gnuplot') if system('command -v gnuplot >/dev/null 2>&1') != 0;
$ENV{FTKIT_DEMO_SEED} = 1; # the default, as a user gives it
my $out = qx{BUILD='$build' scripts/guard 400 -- scripts/demo 2>&1};
is($?, 0, 'the demo ends well') or diag($out);
like($out, qr/^demo: done in \d+ s$/m, '... and says so');
my @equal = $out =~ /\bbitwise\b/g;
my ($pictures) = $out =~ m{^pictures: (\S+\.png)}m;
ok($pictures && -s $pictures, 'the pictures are where it says');
SKIP: {
    skip('without ULFM it restarts only', 11) if ($ENV{MPI_KIND} // 'ulfm') ne 'ulfm';
    cmp_ok(scalar(@equal), '>=', 5, 'every run is compared bitwise');
    my @drawn = grep {-s} glob("$build/demo/[1-9]-*.png");
    cmp_ok(scalar(@drawn), '>=', 9, 'each picture is there by itself');
    like($out, qr/^message log, rank \d killed after step \d+: ranks \d and \d went back, no other/m,
        'the log sends one team back');
    like($out, qr/^OpenSHMEM, PE \d killed after step \d+: replaced, all back to step \d+; bitwise equal$/m,
        'a PE of OpenSHMEM is replaced');
    my @back = $out =~ /killed after step (\d+): (?:replaced|all back|relaunched)\b.* step (\d+)/g;
    cmp_ok(@back / 2, '>=', 4, 'ranks go back after a kill');
    while (my ($killed, $to) = splice(@back, 0, 2)) {
        cmp_ok($to, '<=', $killed + 1, "... from step $killed to $to"); # a rank says its step after the set
    }
    like($out, qr/^two replicas of 4 ranks, a bit flipped in rank \d of plane \d: found at the next set; bitwise/m,
        'replicas find a flipped bit');
    like($out, qr/^two replicas of 4 ranks, rank \d of plane \d killed after step \d+: its replica went on, nobody went back, and its plane is whole again; bitwise/m,
        'replicas lose a process, and nobody goes back');
}
SKIP: {
    skip('no event log, or built without jansson', 1)
        if !glob("$build/demo/events/team/*.jsonl") || slurp("$build/mpi.mk") !~ /^HAVE_JANSSON := yes$/m;
    my ($pages) = $out =~ /^reports of these runs, .*: *(\S.*)$/m;
    is(scalar(grep { slurp($_) =~ /<figure>/ } split ' ', $pages // ''), 3, 'each run has its report');
}

done_testing();
