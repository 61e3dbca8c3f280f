#!/usr/bin/perl
# The duration and the speed of a replay, and the catch-up: in ftkit_query(), events, ftkit report and ftkit status.  A
# hub computes for 20 ms in each step, and all others wait for it.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitLog;
use FtkitTest;
use JSON::PP;
use List::Util qw(sum0);
use Test::More;

ulfm_only();

my ($n, $step_s) = (4, 0.02);
my $count = 0;

# A job that loses ranks; its replays are in {replays}, by rank.
sub lost {
    my ($fault, %o) = @_;
    my $base = sprintf('%s/replay%d', scratch(), ++$count);
    my $j = logged({ name => 'star', steps => 40, args => [ '-m', 'slow', '-i', $base, @{ $o{args} // [] } ] }, n => $n,
        fault => $fault, spares => 2,
        env => { FTKIT_LOG_TEAMS => 'rank', FTKIT_CHECKPOINT_PERIOD => '6 calls', %{ $o{env} // {} } });
    is($j->{rc}, 0, "$fault: the job goes on") or diag($j->{log});
    my %word = (replayed => 'replays', caught_up => 'caught');
    $j->{$_} = {} for values %word;
    push(@{ $j->{ $word{ $_->{event} } }{ $_->{rank} } }, $_) for grep { $word{ $_->{event} } } events("$j->{dir}/events");
    for my $rank (0 .. $n - 1) {
        my ($line) = slurp("$base.$rank") =~ /^replay (.*)$/m;
        $j->{info}{$rank} = [ split(' ', $line // '-1 -1 -1 -1') ];
    }
    return $j;
}

# ---- with the log: a leaf that goes back alone waits for nobody

my $j = lost('app.mid:2:18:kill');
is(join(' ', sort keys %{ $j->{replays} }), '2', 'the rank that goes back has a replay, and no other');
my $r = $j->{replays}{2}[0] // { calls => 0, seconds => 9, forward => 0, set => 0 };
is($r->{calls}, 5, '... of the calls since the set'); # of call 13; the rank is lost behind call 18
cmp_ok($r->{forward}, '>=', 5 * $step_s, '... which had taken as long as the hub computes');
cmp_ok($r->{forward}, '<', $j->{seconds}, '... and not longer than the job');
cmp_ok($r->{seconds}, '>', 0, '... the replay takes its time');
# a replay that waits for the hub is never faster; any replay may wait for a processor
{
    my $x = $r;
    for (my $more = 3; $more > 0 && $x->{forward} <= $x->{seconds}; $more--) {
        $x = lost('app.mid:2:18:kill')->{replays}{2}[0] // { forward => 0, seconds => 9 };
    }
    cmp_ok($x->{forward} / $x->{seconds}, '>', 1, '... and is faster, in one of four jobs');
}
my $info = $j->{info}{2};
is(join(' ', map { sprintf('%.5f', $_) } @{$info}[ 0, 1 ]), sprintf('%.5f %.5f', $r->{seconds}, $r->{forward}),
    '... ftkit_query says the same');
is($info->[2], 5, '... and the number of calls');
is("@{ $j->{info}{0} }", '0.000000 0.000000 0 0.000000', '... and nothing on a rank that has not gone back');
is(join(' ', map { "$_:" . @{ $j->{caught}{$_} } } sort keys %{ $j->{caught} }), '2:1', 'the rank catches up once, and no other');
my $c = $j->{caught}{2}[0] // { seconds => -1, set => -1 };
is($c->{set}, $r->{set}, '... behind the same set');
cmp_ok($c->{seconds}, '>', 0, '... which takes its time');
is(sprintf('%.5f', $info->[3]), sprintf('%.5f', $c->{seconds}), '... ftkit_query says the same');

# the phases of the repair are all of it
for my $e (grep { $_->{event} eq 'repair' && $_->{rank} != 2 } events("$j->{dir}/events")) {
    my $sum = sum0(map { $e->{$_} } qw(detect supply rebuild restore));
    cmp_ok(abs($e->{seconds} - $sum), '<=', 0.002, "the phases of the repair add up on rank $e->{rank}");
}

my ($code, $out, $err) = command('report', '--json', "$j->{dir}/events");
my ($x) = @{ (eval { JSON::PP->new->decode($out) } // {})->{failures} // [] };
near($x->{replay}, $r->{seconds}, 0.001, 'ftkit report has the replay') or diag("$code\n$err$out");
near($x->{replay_speed}, $r->{forward} / $r->{seconds}, 0.001, '... and its speed');
command('report', '-o', "$j->{dir}/page.html", "$j->{dir}/events");
like(slurp("$j->{dir}/page.html"), qr/replay speed/, '... also on the page');
near($x->{catch_up}, $c->{seconds}, 0.001, 'ftkit report has the catch-up');
like(slurp("$j->{dir}/page.html"), qr/catch-up/, '... also on the page');

# the hub computes again in its replay, and in the step that the failure broke off; its leaves may be a call
# further, and no set is due there
$j = lost('app.mid:0:16:kill');
is(join(' ', keys %{ $j->{caught} }), '0', 'the hub is lost, and catches up');
($r, $c) = map { $j->{$_}{0}[0] // { seconds => -1 } } qw(replays caught);
cmp_ok($r->{seconds}, '>=', 3 * $step_s, '... behind a replay in which it computes');
cmp_ok($c->{seconds}, '>=', $step_s, '... by one step more');
my ($opened) = grep { $_->{event} eq 'open' && $_->{rank} == 0 && $_->{incarnation} == 1 } events("$j->{dir}/events");
cmp_ok($r->{seconds} + $c->{seconds}, '<=', ($c->{t} // 0) - ($opened->{t} // 0) + 0.001,
    '... and both fit into the life of the replacement');

# another rank is lost later, and has more calls to repeat
$j = lost('app.mid:2:5:kill,app.mid:3:15:kill', env => { FTKIT_CHECKPOINT_PERIOD => '100 calls' });
is(scalar @{ $j->{faults} }, 2, 'two ranks are lost');
is(join(' ', map { "$_:$j->{replays}{$_}[0]{calls}" } sort keys %{ $j->{replays} }), '2:4 3:14',
    '... and the replay of each has the calls since the set') or diag($j->{log});
cmp_ok($j->{replays}{3}[0]{forward} // 0, '>=', 14 * $step_s, '... which had taken as long as the hub computes');

# ---- without the log all ranks go back, and the hub computes again

$j = lost('app.mid:2:18:kill', args => ['-r'], env => { FTKIT_LOG_ENABLED => 'false', FTKIT_LOG_TEAMS => 'domain' });
is(join(' ', sort keys %{ $j->{replays} }), join(' ', 0 .. $n - 1), 'without the log all ranks have a replay');
for my $rank (0 .. $n - 1) {
    my $e = $j->{replays}{$rank}[0] // next;
    ok($e->{calls} == 5 || $e->{calls} == 6, "... rank $rank of the calls since the set") or diag($e->{calls});
    cmp_ok($e->{forward}, '>=', 5 * $step_s, '... which had taken as long as the hub computes');
    cmp_ok($e->{seconds}, '>=', 5 * $step_s, '... and take as long again');
}

# ---- what is not measured

$j = lost('app.mid:2:18:kill', env => { FTKIT_CHECKPOINT_LINE => 'apart' });
is(join(' ', keys %{ $j->{replays} }), '', 'where lines are apart the place of the line is not known');

done_testing();
