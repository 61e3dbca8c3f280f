#!/usr/bin/perl
# ftkit_wait() and ftkit_scrub() directly before and behind ftkit_checkpoint(), and behind the
# loop: a rank is killed at each step of a set, in the calls themselves and at the end, and the result
# is that of an undisturbed run.  With --all each place alone, and other moments, too.
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
my $all = grep { $_ eq '--all' } @ARGV;
my $program = build() . '/mpi/around';
# begin: behind the calls at the set before; committed: before those at this set
my @moments = qw(ckpt.begin:1:3 ckpt.voted:1:3 ckpt.committed:1:3 scrub.begin:1:2 finish.begin:1:1);
push(@moments, qw(scrub.begin:2:3 ckpt.begin:2:4 ckpt.committed:0:2)) if $all;

sub run_around {
    my ($shape, $places, $env, $fault) = @_;
    return job(program => $program, args => [$shape, $places], n => 3, fault => $fault,
        run => ['--no-relaunch', $env->{FTKIT_REPLICAS_LOST} ? ('--replicas', 2) : ()],
        env => { FTKIT_CHECKPOINT_PERIOD => '3 calls', FTKIT_RECOVER_STALL => '20s', %$env });
}

my ($want) = run_around('top', '', {}, undef)->{log} =~ /^around: (\d+)$/m;
ok($want, 'the undisturbed run');

my %log = (FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAMS => 'rank');
my %clone = (%log, FTKIT_REPLICAS_LOST => 'clone');
my @cases = (['top', 'bae', {}], ['bottom', 'bae', {}], ['top', 'bae', \%log],
    ['bottom', 'bae', \%log]);
my $count = 0; # of the cases: each moment comes with both shapes, once with the log
if ($all) {
    for my $env ({}, \%log) {
        push(@cases, map { my $s = $_; map { ([$s, $_, $env]) } qw(b a e) } qw(top bottom));
    }
    push(@cases, map { [$_, 'bae', \%clone] } qw(top bottom));
}
for my $c (@cases) {
    my ($shape, $places, $env) = @$c;
    my $odd = $count < 2 ? $count : 3 - $count;
    $count++;
    for my $moment (map { $moments[$_] } grep { $all || ($_ + $odd) % 2 == 0 } 0 .. $#moments) {
        next if $places eq 'e' && $moment =~ /^scrub/; # too few calls
        my $with = $env == \%clone ? ', replicas' : %$env ? ', with the log' : '';
        my $what = "$shape, $places$with, killed at $moment";
        my $j = run_around($shape, $places, $env, "$moment:kill");
        my ($got) = $j->{log} =~ /^around: (\d+)$/m;
        my $good = $j->{rc} == 0 && $got && $got == $want && @{ $j->{faults} } == 1;
        ok($good, $what) or diag("rc $j->{rc}\n", $j->{log});
    }
}
done_testing();
