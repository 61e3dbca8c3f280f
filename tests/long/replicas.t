#!/usr/bin/perl
# The long campaign with replicas: seeded random kills of any process at any point.  One kill: no
# rank goes back.  Two or three: the result is right.
#
#   FTKIT_TEST_SEED=...  another series;  FTKIT_TEST_COUNT=...  its length (default 200)
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitLog;
use FtkitReplicas;
use FtkitTest;
use Test::More;

ulfm_only();
my $seed = $ENV{FTKIT_TEST_SEED} // 5;
my $count = $ENV{FTKIT_TEST_COUNT} // 200;
srand($seed);
diag("FTKIT_TEST_SEED=$seed, $count runs of each kind");

my $twins = { name => 'twins', steps => 60 };
my @loop = qw(app.step app.mid ckpt.begin ckpt.sized ckpt.packed ckpt.sealed ckpt.voted
    ckpt.committed log.drained replica.compare replica.compared);
my @once = qw(recover.begin recover.end finish.begin finish.end app.end close.begin close.voted);
my @repair = qw(repair.shrink repair.census repair.plan repair.build repair.built repair.restore
    repair.restored repair.agree repair.agreed log.marks log.install recover.begin recover.end
    clone.send clone.receive clone.committed ckpt.sized ckpt.sealed ckpt.voted replica.compare);

sub in_loop {
    my ($r) = @_;
    my $point = one_of(@loop);
    return sprintf('%s:%d:%d:kill', $point, rand(3 * $r),
        $point =~ /^app/ ? 1 + rand(55) : 2 + rand(11)); # behind all of them there is a set
}

# Behind a kill in the loop: kills in the repair, in the clone, or of the sibling after it.
sub more {
    my ($r) = @_;
    return join(',', in_loop($r), map { sprintf('%s:%d:%d:kill', one_of(@repair, 'app.step'),
                rand(3 * $r), 1 + rand(12)) } 1 .. 1 + rand(2));
}

# Both replicas of a rank may be lost before the clone, and the copies of the line with them.
sub is_lost {
    my ($j) = @_;
    return $j->{rc} != 0 && $j->{log} =~ /no copy or parity is left|start the job again|every working rank is lost|already left its loop|of its team had already left/;
}

# All ranks call ftkit_wait() in every fifth step.
my $waits = { name => 'waits', steps => 60, args => [ '-n', 60 ] };

sub in_waits {
    my ($r) = @_;
    return join(',', map {
            my $point = one_of(qw(app.step app.step ckpt.begin ckpt.voted log.drained clone.committed
                repair.restored));
            sprintf('%s:%d:%d:kill', $point, rand(3 * $r),
                1 + rand($point =~ /^app/ ? 50 : $point =~ /^ckpt|^log/ ? 5 : 1))
    } 1 .. 2);
}

sub campaign {
    my ($what, $r, $fault, %o) = @_;
    my $p = $o{program} // $twins;
    my ($bad, $hits, $cloned, $lost) = (0, 0, 0, 0);
    for my $i (1 .. $count) {
        my $f = $fault->($r);
        my $j = replicas($r, $p, fault => $f, spares => 6, timeout => 100,
            env => { FTKIT_CHECKPOINT_PERIOD => one_of('2 calls', '5 calls', '13 calls'),
                FTKIT_REPLICAS_COMPARE => one_of('regions', 'messages'),
                FTKIT_REPLICAS_LOST => one_of('compared', 'clone'),
                FTKIT_LEVEL_MEMORY_SCHEME => one_of('buddy', 'xor', 'own') });
        $hits += @{ $j->{faults} } > 0;
        $cloned += clones($j) =~ /[1-9]/;
        if ($o{several} && is_lost($j)) {
            $lost++;
            next;
        }
        my $wrong = right($p, $j, quiet => 1);
        # at the end of the program the other plane may be in ftkit_finish() already
        $wrong .= ' rollbacks: ' . back($j)
            if $o{none_back} && $j->{log} =~ /stand still/ && back($j) =~ /[1-9]/;
        next if $wrong eq '';
        $bad++;
        diag("$what, run $i: $f: $wrong\n");
    }
    is($bad, 0, "$what: $count runs, $hits with a failure, $cloned with a clone, $lost lost");
    cmp_ok($hits, '>', $count / 2, '... most of the faults came to pass');
    cmp_ok($lost, '<', $count / 10, '... few jobs were lost') if $o{several};
    return;
}

# ---- no false alarm in 10,000 sets ---------------------------------------------------------------

my $sets = $ENV{FTKIT_TEST_SETS} // 10_000;
{
    my $j = replicas(2, { %$twins, args => [ '-n', $sets ], steps => $sets }, spares => 0, timeout => 1800,
        env => { FTKIT_CHECKPOINT_PERIOD => '1 call', FTKIT_REPLICAS_COMPARE => 'messages' });
    is($j->{rc}, 0, "$sets sets of two planes");
    unlike($j->{log}, qr/replicas of rank/, '... no replicas differ');
    my @committed = map { /"event":"set","set":(\d+)/g } map { slurp($_) } glob("$j->{dir}/events/*");
    cmp_ok((sort { $b <=> $a } @committed)[0] // 0, '>=', $sets, '... and so many were committed');
}

# ---- random programs: long sends to posted receives of any source, probes, tests, cancels, planes
# that are slower than others -------------------------------------------------------------------

my @kinds = ([], ['cancel'], [qw(cancel wild anytag p2p ahead)], [qw(wild ahead middle)],
    [qw(cancel wild collective persistent wait)]);
for my $kills (0 .. 2) {
    my ($bad, $hits, $lost) = (0, 0, 0);
    for my $i (1 .. $count) {
        my $r = 2 + int(rand(2));
        my $p = random_program($seed * 10_000 + $i, @{ one_of(@kinds) });
        my $fault = join(',', map { sprintf('%s:%d:%d:kill', one_of(qw(app.step app.mid app.inflight app.op
                        log.received log.drained ckpt.voted)), rand(3 * $r), 1 + rand(40)) } 1 .. $kills);
        my $slow = int(rand(2 * $r));
        $fault = join(',', slow_plane($slow, 3), $fault || ()) if $slow < $r;
        my $j = replicas($r, $p, fault => $fault, spares => 6, timeout => 100,
            env => { FTKIT_CHECKPOINT_PERIOD => one_of('2 calls', '5 calls', '13 calls'),
                FTKIT_REPLICAS_LOST => one_of('compared', 'clone') });
        $hits += @{ $j->{faults} } > 0;
        my $gone = $kills > 1 && is_lost($j);
        $lost += $gone;
        my $wrong = $gone ? '' : right($p, $j, quiet => 1);
        $bad += $wrong ne '';
        diag("$r replicas, ", title($p), ", $fault: $wrong") if $wrong ne '';
    }
    is($bad, 0, "random programs, $kills kill(s): $count runs, $hits with a failure, $lost lost");
}
for my $r (2, 3) {
    my @bad = grep { $_ ne '' } map { chain_breaks($r) } 1 .. $count / 4;
    is("@bad", '', "$r replicas: the leader of a chain dies");
}
for my $mode (qw(send cancel look probe any)) {
    my $p = leads($mode);
    my @bad = grep { $_ ne '' } map { right($p, replicas(2 + $_ % 2, $p, env => { FTKIT_CHECKPOINT_PERIOD => '1 calls' }), quiet => 1) } 1 .. $count / 4;
    is("@bad", '', "leads -m $mode");
}

# ---- a bit flips, and processes die: no wrong result -------------------------------------------------

for my $r (2, 3) {
    my ($bad, $hits, $lost) = (0, 0, 0);
    for my $i (1 .. $count) {
        my $fault = sprintf('flip.%s:%d:%d:EIO,', one_of(qw(data grown packed strided)), rand(3 * $r), 2 + rand(40)) . in_loop($r);
        my $j = replicas($r, $twins, fault => $fault, spares => 6, timeout => 100,
            env => { FTKIT_CHECKPOINT_PERIOD => one_of('2 calls', '5 calls') });
        $hits += @{ $j->{faults} } > 1;
        my $gone = is_lost($j);
        $lost += $gone;
        my $wrong = $gone ? '' : right($twins, $j);
        $bad += $wrong ne '';
        diag("$r replicas, $fault: $wrong") if $wrong ne '';
    }
    is($bad, 0, "$r replicas, a flip and a kill: $count runs, $hits with both, $lost lost");
}

# ---- kills ------------------------------------------------------------------------------------------

campaign('one kill in the loop, two planes', 2, \&in_loop, none_back => 1);
campaign('one kill in the loop, three planes', 3, \&in_loop, none_back => 1);
campaign('one kill at the beginning or the end', 2,
    sub { sprintf('%s:%d:1:kill', one_of(@once), rand(6)) });
campaign('two or three kills, two planes', 2, \&more, several => 1);
campaign('two or three kills, three planes', 3, \&more, several => 1);
campaign('ftkit_wait, up to two kills', 2, \&in_waits, several => 1, program => $waits);
done_testing();
