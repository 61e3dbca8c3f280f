#!/usr/bin/perl
# A rank is killed at any visit of a fault point in ftkit_scrub, ftkit_wait, ftkit_finish and
# ftkit_close, or between them, also while the job halts.  The ranks have their results behind
# ftkit_close: a job that ends with 0 has the results of all ranks.
#
#   FTKIT_TEST_SEED=...  other visits;  FTKIT_TEST_COUNT=...  kills of each kind of job (default 1, 2 with --all)
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use File::Path 'remove_tree';
use FtkitTest;
use List::Util qw(min shuffle sum0);
use Test::More;

ulfm_only();
asleep_in_waits();
my $seed = $ENV{FTKIT_TEST_SEED} // 11;
my $kills = $ENV{FTKIT_TEST_COUNT} // (all_cases() ? 2 : 1);
srand($seed);
diag("seed $seed");
my $behind = build() . '/mpi/behind';
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_CHECKPOINT_PERIOD => '3 calls');
my $count = 0;

# A job of two ranks: see job(); and the results of its ranks as one text.
sub tail
{
    my ($how, %o) = @_;
    my $work = $o{keep} // scratch() . '/tail' . ++$count;
    my $j = job(n => 2, spares => 0, run => [], timeout => 90, keep => $work, program => $behind,
        args => ["$work/results", $how], %o,
        env => { %files, FTKIT_FAULT_TRACE => "$work/trace", %{ $o{env} // {} } });
    $j->{results} = join('', map { slurp("$work/results.$_") } 0, 1);
    return $j;
}

# The visits of an undisturbed job from a point on (app.tail), each as a fault that kills there.
sub visits
{
    my ($how, $kind, $from) = @_;
    $from //= 'app.tail';
    my $j = basis(sub { return tail($how, %$kind) });
    my (%nth, %late, @visits);
    for (split(/\n/, slurp("$j->{dir}/trace"))) {
        my ($point, $rank) = /^(\S+) rank (\d+) incarnation 0:/ or next;
        my $nth = ++$nth{"$point:$rank"};
        $late{$rank} = 1 if $point eq $from;
        push(@visits, "$point:$rank:$nth:kill") if $late{$rank};
    }
    return ($j, @visits);
}

my $whole = basis(sub { return tail('close')->{results} });
like($whole, qr/\A0 \d+\n1 \d+\n\z/, 'the results of both ranks');

# What is wrong with the end of a job with a kill, '' when nothing is.
sub wrong
{
    my ($how, $kind, $j) = @_;
    if ($how eq 'halt' && !ended_first($kind, $j)) { # the results are those of a job that goes on
        return "code $j->{rc} of a job that halts" if $j->{rc} != 75 && !left_at_end($j);
        unlink(glob("$j->{dir}/results.*"));
        my $next = tail('close', %$kind, keep => $j->{dir});
        return "code $next->{rc} when it goes on\n$next->{log}" if $next->{rc} != 0;
        return $next->{results} eq $whole ? '' : 'other results when it goes on';
    }
    return $j->{results} eq $whole ? '' : 'code 0 without all results' if $j->{rc} == 0;
    return left_at_end($j) ? '' : "code $j->{rc}";
}

# Whether the rank died after the agreement of ftkit_close, which is the last one of repair.c:
# mpirun's code is that of the job.
sub left_at_end
{
    my ($j) = @_;
    my ($rank) = ($j->{faults}[0] // '') =~ /rank (\d+)/ or return 0;
    my ($end) = slurp("$j->{dir}/trace") =~ /\A.*^close\.voted rank $rank (.*)/ms or return 0;
    return $j->{rc} == 137 && $end =~ /^repair\.agreed rank $rank /m;
}

# With lines apart a job may end before all ranks know of the halt.
sub ended_first
{
    my ($kind, $j) = @_;
    return ($kind->{env}{FTKIT_CHECKPOINT_LINE} // '') eq 'apart' && $j->{rc} == 0 && $j->{results} eq $whole;
}

my %kinds = (
    spare => { spares => 1 },
    spawn => { env => { FTKIT_RECOVER_SUPPLY => 'spawn, end' } },
    none => {},
    log => { spares => 1, run => ['--log'], env => { FTKIT_LOG_TEAM_SIZE => 1 } },
    apart => { spares => 1, run => ['--log'],
        env => { FTKIT_LOG_TEAM_SIZE => 1, FTKIT_CHECKPOINT_LINE => 'apart' } },
    replicas => { run => ['--replicas', 2] },
);
my ($tried, $hit) = (0, 0);
for my $name (sort keys %kinds) {
    for my $how ('close', 'halt') {
        my $kind = $kinds{$name};
        my ($calm, @visits) = visits($how, $kind);
        ok($calm->{rc} == ($how eq 'halt' ? 75 : 0) || ended_first($kind, $calm), "$name, $how: undisturbed")
            or diag("code $calm->{rc}\n$calm->{log}");
        cmp_ok(scalar(@visits), '>', 20, "$name, $how: " . @visits . ' visits');
        # the rank that was asked for the halt, when all have agreed on the set; and rank 0, when another
        # rank perhaps has left its loop for it
        my ($asked) = $how eq 'halt' ? grep {/^flush\.told:1:/} reverse @visits : ();
        my ($drained) = $name eq 'none' ? grep {/^halt\.drained:0:/} @visits : ();
        for my $fault ($asked // (), $drained // (), (shuffle(@visits))[0 .. min($kills, scalar(@visits)) - 1]) {
            my $j = tail($how, %$kind, fault => $fault);
            $tried++;
            $hit += @{ $j->{faults} } == 1;
            my $wrong = wrong($how, $kind, $j);
            is($wrong, '', "$name, $how: $fault")
                or diag("code $j->{rc}, results $j->{results}\n", substr($j->{log}, 0, 6000));
            remove_tree($j->{dir}) if $wrong eq '';
        }
    }
}
# ftkit_checkpoint stands behind the step, and a replica dies in ftkit_finish or ftkit_close
for my $kind ({ %{ $kinds{replicas} }, spares => 1 }, { %{ $kinds{replicas} }, env => { FTKIT_LOG_TEAMS => 'rank', FTKIT_REPLICAS_LOST => 'clone' } }) {
    my ($calm, @visits) = visits('bottom', $kind, 'finish.begin');
    @visits = grep {/^(?:finish|close|repair|log|replica)[.]/} @visits; # not those of helper threads
    is($calm->{results}, $whole, 'replicas, bottom: undisturbed') or diag("code $calm->{rc}\n$calm->{log}");
    for my $fault ((shuffle(@visits))[0 .. min($kills, scalar(@visits)) - 1]) {
        my $j = tail('bottom', %$kind, fault => $fault);
        $tried++;
        $hit += @{ $j->{faults} } == 1;
        my $wrong = wrong('bottom', $kind, $j);
        is($wrong, '', "replicas, bottom: $fault")
            or diag("code $j->{rc}, results $j->{results}\n", substr($j->{log}, 0, 6000));
        remove_tree($j->{dir}) if $wrong eq '';
    }
}
# all working ranks die when they have agreed to halt: nobody is left, or a spare, which knows of no halt
for my $spares (0, 1) {
    my $work = scratch() . "/cut$spares";
    my $j = tail('halt', keep => $work, spares => $spares, fault => 'halt.drained:0:1:kill,halt.drained:1:1:kill');
    ok($j->{rc} == 75 && @{ $j->{faults} } >= 1 && $j->{log} !~ /relaunching/
            && $j->{log} =~ /the job ended while it halted, .*: start it again to go on from its newest complete set/,
        "all ranks die in a halt, $spares spares: no relaunch") or diag("code $j->{rc}\n$j->{log}");
    is(tail('close', keep => $work)->{results}, $whole, '... the next start goes on');
}
# helper threads visit their points as time goes
cmp_ok($hit, '>=', 0.7 * $tried, "$hit of $tried faults came to pass");
done_testing();
