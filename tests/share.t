#!/usr/bin/perl
# One payload for many receivers: messages with the same bytes are in the log of their sender once.
#
#   FTKIT_TEST_SEED=...  another series
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitLog;
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
srand($ENV{FTKIT_TEST_SEED} // 11);

# The program compares log_held with the bytes that are different, after each step: its result is BAD
# if the log holds more than they are and one per cent.
my @base = (FTKIT_LOG_TEAMS => 'rank', FTKIT_CHECKPOINT_PERIOD => '8 calls');
sub hub {
    my ($variant, $steps, @args) = @_;
    return { name => 'hub', steps => $steps, args => [ '-m', $variant, '-n', $steps, @args ] };
}

# The most that the log of the hub has held, in MiB.
sub held {
    my ($j) = @_;
    my ($bytes) = $j->{log} =~ /^hub holds (\d+) bytes/m;
    return defined($bytes) ? $bytes / (1 << 20) : -1;
}

# A run in which ranks are killed, each in one step.
sub attempt {
    my ($p, $n, $env, @kills) = @_;
    my $fault = join(',', map {"app.mid:$_->[0]:$_->[1]:kill"} @kills);
    my $j = logged($p, n => $n, spares => scalar(@kills), env => { @base, %$env }, fault => $fault);
    my $held = held($j);
    my $bad = verdict($p, $j, n => $n, env => { @base, %$env }, killed => [ map { $_->[0] } @kills ],
        faults => scalar(@kills), what => $fault);
    return ($bad, $held);
}

# 105 messages of 1 MiB in a step: the log has one of them
{
    my $p = hub('same', 10);
    my $j = logged($p, n => 8, spares => 0, env => {@base});
    like($j->{result}, qr/^OK step 10 hash \w+ 0 wrong/, '105 messages of 1 MiB in a step') or diag($j->{log});
    cmp_ok(held($j), '<=', 1.01, '... the log holds one');
    cmp_ok(held($j), '>=', 1, '... of them');
    for my $team (1, 2) {
        for my $victim (0, 1 + int(rand(3))) {
            my $step = 2 + int(rand(9));
            my ($bad) = attempt($p, 4, { FTKIT_LOG_TEAM_SIZE => $team, FTKIT_LOG_TEAMS => 'domain' }, [ $victim, $step ]);
            is($bad, '', "... rank $victim is killed in step $step, teams of $team");
        }
    }
}

# a copy goes with its interval: the buffer is the same before and behind a set
for my $line (qw(together apart)) {
    for my $i (1 .. 2) {
        my $p = hub('same', 24, '-s', 600);
        my %env = (FTKIT_CHECKPOINT_PERIOD => one_of('3 calls', '5 calls'));
        $p->{env} = { FTKIT_CHECKPOINT_LINE => 'apart' } if $line eq 'apart';
        my ($victim, $step) = (1 + int(rand(3)), 8 + int(rand(17)));
        my ($bad) = attempt($p, 4, \%env, [ $victim, $step ]);
        is($bad, '', "lines $line, $env{FTKIT_CHECKPOINT_PERIOD}: rank $victim is killed in step $step");
    }
}

# a buffer that changes between two messages
for my $size (128, 1024, 8192) {
    my $p = hub('differ', 12, '-s', $size);
    for my $victim (0, 1 + int(rand(3))) {
        my $step = 2 + int(rand(11));
        my ($bad, $held) = attempt($p, 4, {}, [ $victim, $step ]);
        is($bad, '', "the last word of $size differs, rank $victim is killed in step $step");
        cmp_ok($held, '>', 45 * $size * 8 / (1 << 20), '... the log holds all messages') if $victim > 0;
    }
}

# a collective that sends one buffer to many, of a type that cannot be compared
{
    my $p = hub('graph', 6);
    my $j = logged($p, n => 8, spares => 0, env => {@base});
    like($j->{result}, qr/^OK step 6 hash \w+ 0 wrong/, 'a collective sends 1 MiB to 105 neighbours') or diag($j->{log});
    cmp_ok(held($j), '<=', 6 * 1.01, '... the log holds it once');
    $p = hub('graph', 12, '-s', 3000);
    for my $victim (0, 1 + int(rand(3))) {
        my $step = 2 + int(rand(11));
        my ($bad) = attempt($p, 4, {}, [ $victim, $step ]);
        is($bad, '', "... rank $victim is killed in step $step");
    }
}

# other ways of a send: held back until determinants are safe, with a vector before it, lines apart,
# a set that is given up
for my $case ([ FTKIT_LOG_DETERMINANTS => 'pessimistic' ], [ FTKIT_LOG_DETERMINANTS => 'causal' ],
    [ FTKIT_LOG_DETERMINANTS => 'relaxed' ], [ FTKIT_CHECKPOINT_LINE => 'apart' ], [ FTKIT_LOG_MEMORY => 0 ])
{
    my %env = (@$case, FTKIT_TOPOLOGY_RANKS_PER_NODE => 1);
    delete $env{FTKIT_TOPOLOGY_RANKS_PER_NODE} if $case->[0] ne 'FTKIT_LOG_DETERMINANTS';
    for my $victim (0, 1 + int(rand(3))) {
        my $p = hub(one_of(qw(same differ)), 20, '-s', one_of(500, 5000));
        $p->{env} = { FTKIT_CHECKPOINT_LINE => 'apart' } if $env{FTKIT_CHECKPOINT_LINE};
        my $step = 3 + int(rand(17));
        my ($bad) = attempt($p, 4, \%env, [ $victim, $step ]);
        is($bad, '', "@$case: " . title($p) . ", rank $victim is killed in step $step");
    }
}

done_testing();
