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
use Time::HiRes qw(sleep time);

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
    my %dead;
    my $fault = join(',', map { "app.mid:$_->[0]:$_->[1]:kill" . ($dead{ $_->[0] }++ ? '@1' : '') } @kills);
    my $j = logged($p, n => $n, spares => scalar(@kills), env => { @base, %$env }, fault => $fault);
    my $held = held($j);
    my $bad = verdict($p, $j, n => $n, env => { @base, %$env }, killed => [ map { $_->[0] } @kills ],
        faults => scalar(@kills), what => $fault);
    return ($bad, $held);
}

# 105 messages of 1 MiB in a step: the log has one of them
{
    my $p = hub('same', 4);
    my $j = logged($p, n => 8, spares => 0, env => {@base});
    like($j->{result}, qr/^OK step 4 hash \w+ 0 wrong/, '105 messages of 1 MiB in a step') or diag($j->{log});
    cmp_ok(held($j), '<=', 1.01, '... the log holds one');
    cmp_ok(held($j), '>=', 1, '... of them');
    $p = hub('same', 10, '-s', 20000);
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

# a buffer that changes between two messages, also if most of it is shared
for my $case ([ differ => 128 ], [ differ => 1024 ], [ differ => 8192 ], [ edge => 1024 ], [ edge => 8192 ]) {
    my ($variant, $size) = @$case;
    my $p = hub($variant, 12, '-s', $size);
    for my $victim (0, 1 + int(rand(3))) {
        my $step = 2 + int(rand(11));
        my ($bad, $held) = attempt($p, 4, {}, [ $victim, $step ]);
        is($bad, '', "$variant: the last word of $size differs, rank $victim is killed in step $step");
        cmp_ok($held, '>', 45 * $size * 8 / (1 << 20), '... the log holds all messages') if $victim > 0;
    }
}

# a collective that sends one buffer to many, of a type that cannot be compared
{
    my $p = hub('graph', 3);
    my $j = logged($p, n => 8, spares => 0, env => {@base});
    like($j->{result}, qr/^OK step 3 hash \w+ 0 wrong/, 'a collective sends 1 MiB to 105 neighbours') or diag($j->{log});
    cmp_ok(held($j), '<=', 3 * 1.01, '... the log holds it once');
    $p = hub('graph', 12, '-s', 3000);
    for my $victim (0, 1 + int(rand(3))) {
        my $step = 2 + int(rand(11));
        my ($bad) = attempt($p, 4, {}, [ $victim, $step ]);
        is($bad, '', "... rank $victim is killed in step $step");
    }
}

# ftkit_share(): no copy; the log has one when a rank has rolled back
{
    my $p = hub('shared', 9);
    my $j = logged($p, n => 8, spares => 0, env => {@base});
    like($j->{result}, qr/^OK step 9 hash \w+ 0 wrong/, '945 messages of 1 MiB that are shared') or diag($j->{log});
    cmp_ok(held($j), '<=', 1 / 16, '... the log has no copy');
    unlike($j->{log}, qr/have changed/, '... and no complaint');
    $p = hub('shared', 16, '-s', 20000);
    for my $team (1, 2) {
        for my $victim (0, $team == 2 ? 1 : 1 + int(rand(3))) {
            my $step = 2 + int(rand(15));
            my ($bad, $held) = attempt($p, 4, { FTKIT_LOG_TEAM_SIZE => $team, FTKIT_LOG_TEAMS => 'domain' }, [ $victim, $step ]);
            is($bad, '', "... rank $victim is killed in step $step, teams of $team");
            cmp_ok($held, '<=', 3.1 * 20000 * 8 / (1 << 20), '... and the log has one for each buffer');
        }
    }
    # a receiver that dies twice, and the hub after a receiver
    for my $then (2, 0) {
        my ($bad) = attempt(hub('shared', 24, '-s', 3000), 4, {}, [ 2, 4 + int(rand(4)) ], [ $then, 12 + int(rand(8)) ]);
        is($bad, '', "... rank 2 is killed, and then rank $then");
    }
}

# messages that are sent again do not come from memory that the program changes meanwhile: the replacement
# receives them when the memory has changed
for my $size (600, 5000, 100000) {
    my $p = hub('lazy', 10, '-s', $size);
    my $late = 0;
    my $j = logged($p, env => {@base}, fault => 'app.mid:3:4:kill,app.step:3:1:hold@1', while => sub {
        my ($work) = @_;
        await_held($work);
        for (my $end = time() + 30 * pace(); !$late && time() < $end; sleep(0.005)) {
            $late = slurp("$work/log") =~ /^hub: another buffer$/m;
        }
        let_go($work);
    });
    ok($late, "the buffer changes while messages of $size words are sent again");
    is(verdict($p, $j, env => {@base}, killed => [3], faults => 1), '', '... and they are right');
}

# ftkit_unshare(): the log copies what it needs, once
{
    my $p = hub('unshare', 4);
    my $j = logged($p, n => 8, spares => 0, env => {@base});
    like($j->{result}, qr/^OK step 4 hash \w+ 0 wrong/, 'a buffer that is shared in each step') or diag($j->{log});
    cmp_ok(held($j), '<=', 4 * 1.01, '... the log has a copy for each');
    for my $victim (0, 1 + int(rand(3))) {
        for my $size (150, 600, 20000) {
            my $step = 2 + int(rand(15));
            my ($bad) = attempt(hub('unshare', 16, '-s', $size), 4, {}, [ $victim, $step ]);
            is($bad, '', "... rank $victim is killed in step $step, $size words");
        }
    }
}

# a program that breaks its word
for my $way ('changed', 'unshared') {
    my $p = hub($way, 20, '-s', 3000);
    $p->{env} = { FTKIT_LOG_TEAMS => 'rank' }; # the log has the messages, with and without a failure
    my $without = logged($p, n => 4, spares => 0, env => {@base});
    like($without->{result}, qr/^OK step 20 /, "$way: without a failure nothing is wrong");
    my $said = qr/error: .*rank 0: \d+ bytes at 0x\w+, in region payload, were shared .* have changed before/;
    like($without->{log}, qr/$said.*failure (?:would have|before the next set)/, '... and the line says so');
    for my $i (1 .. 2) {
        my $victim = 1 + int(rand(3));
        my $fault = "app.mid:$victim:15:kill";
        my $j = logged($p, env => {@base}, fault => $fault);
        is(verdict($p, $j, env => {@base}, any => 1, faults => 1, what => $fault), '',
            "$way: rank $victim is killed, and nothing is wrong");
        like($j->{log}, $said, '... the line names the memory');
        like($j->{log}, qr/all (?:4 )?ranks return to set 2/, '... all ranks roll back');
    }
}

# bad input, with the log and in modes without ranges
{
    my $p = hub('bad', 4, '-s', 200);
    my $j = logged($p, n => 2, spares => 0, env => {@base});
    like($j->{result}, qr/^OK step 4 hash \w+ 0 wrong/, 'calls that are wrong') or diag($j->{log});
    $p = hub('shared', 4, '-s', 200);
    $p->{env} = { FTKIT_CHECKPOINT_LINE => 'apart' };
    $j = logged($p, n => 2, spares => 0, env => {@base});
    like($j->{log}, qr/ftkit_share: not with checkpoint\.line = apart/, 'not with lines apart') or diag($j->{log});
    $j = logged(hub('shared', 4, '-s', 200), n => 2, spares => 0, env => { @base, FTKIT_REPLICAS_COUNT => 2 },
        run => [ '--no-relaunch', '--replicas', 2 ]);
    like($j->{log}, qr/ftkit_share: not with replicas\.count > 1/, 'not with replicas') or diag($j->{log});
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
