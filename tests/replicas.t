#!/usr/bin/perl
# Replicas: the processes of a rank compare their regions before a set is committed (B.3 of the
# acceptance, as far as the comparison goes).
#
# FTKIT_TEST_SEED chooses other faults.
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
my $seed = $ENV{FTKIT_TEST_SEED} // 3;
srand($seed);
my $build = build();

# A job with r replicas of n ranks.  {planes}: the result of each plane.  {sdc}: of each process
# found, corrected and rollbacks.
sub replicas {
    my ($r, $p, %o) = @_;
    my $n = $o{n} // 3;
    my $base = scratch() . '/figures';
    unlink(glob("$base.*"));
    my $program = { %$p, args => [ @{ $p->{args} // [] }, '-i', $base ] };
    my $j = logged($program, spares => 1, %o, n => $n, env => { FTKIT_LOG_TEAMS => 'rank',
            FTKIT_CHECKPOINT_PERIOD => '5 calls', %{ $o{env} // {} } },
        run => [ '--no-relaunch', '--replicas', $r, @{ $o{run} // [] } ]);
    $j->{planes} = [ map { slurp("$j->{dir}/out" . ($_ ? ".plane$_" : '')) } 0 .. $r - 1 ];
    $j->{sdc} = [ map { [ (slurp("$base.$_") =~ /^sdc (\d+) (\d+) (\d+)$/mg)[ -3 .. -1 ] ] }
            0 .. $r * $n - 1 ];
    return $j;
}

# All planes have the result of the undisturbed run without replicas; returns the errors.
sub right {
    my ($p, $j, %o) = @_;
    my $want = undisturbed($p, $o{n} // 3);
    my @bad;
    push(@bad, "exit code $j->{rc}") if $j->{rc} != 0 && !died_at_end($j);
    for my $plane (0 .. $#{ $j->{planes} }) {
        push(@bad, "plane $plane has another result: $j->{planes}[$plane]")
            if $want eq '' || $j->{planes}[$plane] ne $want;
    }
    push(@bad, scalar(@{ $j->{faults} }) . ' faults')
        if defined($o{faults}) && @{ $j->{faults} } != $o{faults};
    push(@bad, "no line like $o{like}") if $o{like} && $j->{log} !~ $o{like};
    push(@bad, 'the replicas differ') if $o{quiet} && $j->{log} =~ /replicas of rank/;
    diag(title($p), " (seed $seed): ", join(', ', @bad), "\n", substr($j->{log}, 0, 4000)) if @bad;
    return join(', ', @bad);
}

my $twins = { name => 'twins', steps => 60 };

# ---- no false alarm --------------------------------------------------------------------

for my $p ($twins, { %$twins, args => [ '-m', 'timer' ] },
    grep { title($_) =~ /^(?:wavefront|transpose|halo3d|comms|collect|inters)$|-m halo$/ }
        programs(), call_programs(), ahead_programs())
{
    my $j = replicas(2, $p, n => 4, env => { FTKIT_CHECKPOINT_PERIOD => '2 calls' });
    is(right($p, $j, n => 4, quiet => 1), '', title($p) . ': two planes have the result of one');
}
is(right($twins, replicas(3, $twins, n => 2), n => 2, quiet => 1), '', 'three planes');

# ---- a bit flips ------------------------------------------------------------------------

for my $what (qw(data grown packed strided message)) {
    for my $r (2, 3) {
        my $number = int(rand(3 * $r));
        my ($rank, $plane) = ($number % 3, int($number / 3));
        # a step before the set: the neighbours have not received anything of it yet
        my $at = $what eq 'message' ? 18 : 20;
        my $fault = "flip.$what:$number:$at:EIO";
        my $j = replicas($r, $twins, fault => $fault);
        my $region = $what eq 'message' ? 'data' : $what;
        my $like = $what eq 'message' ? qr/set \d+: the replicas of rank \d differ/
            : qr/set \d+: the replicas of rank $rank differ: region '$region', [1-9]\d* element/;
        is(right($twins, $j, faults => 1, like => $like), '', "$r replicas, $fault");
        is(join(' ', map { "$_->[0] $_->[1]" } @{ $j->{sdc} }), join(' ', ('1 1') x (3 * $r)),
            '... found and corrected, on all ranks');
        my @back = map { $_->[2] } @{ $j->{sdc} };
        if ($r == 3) {
            is("@back", '0 0 0 0 0 0 0 0 0', '... no rank has gone back');
        } elsif ($what ne 'message') {
            is("@back", join(' ', map { $_ % 3 == $rank ? 1 : 0 } 0 .. 5),
                '... only the replicas of this rank have gone back');
        }
    }
}

# two ranks, in different planes; two flips of one rank
for my $case ([ 2, 'flip.data:0:20:EIO,flip.packed:4:20:EIO' ],
    [ 3, 'flip.data:0:20:EIO,flip.packed:4:20:EIO' ],
    [ 3, 'flip.data:1:20:EIO,flip.packed:4:20:EIO' ])
{
    my ($r, $fault) = @$case;
    my $j = replicas($r, $twins, fault => $fault);
    is(right($twins, $j, faults => 2), '', "$r replicas, $fault");
    like($j->{log}, $r == 3 ? qr/: mended$/m : qr/: replicas go back$/m, '... as it should');
}
{
    my $j = replicas(3, $twins, fault => 'flip.data:1:20:EIO,flip.other:4:20:EIO');
    my $like = qr/replicas of rank 1 differ: .*: replicas go back$/m;
    is(right($twins, $j, faults => 2, like => $like), '',
        'two of three replicas flip: there is no majority, so they go back');
}
# the line is old, and messages have carried the flipped bit to others
for my $r (2, 3) {
    my $j = replicas($r, $twins, fault => 'flip.message:0:3:EIO',
        env => { FTKIT_CHECKPOINT_PERIOD => '20 calls' });
    is(right($twins, $j, faults => 1, like => qr/replicas of rank \d differ/), '',
        "$r replicas: all ranks of a plane have had the flipped bit");
}

# ---- programs that are not deterministic ----------------------------------------------------

my $differ = qr/was not committed: the replicas of rank 1 differ in region 'data', .*/;
for my $case ([ 'random', qr/$differ again, after rollbacks: the program is not deterministic/ ],
    [ 'first', qr/set 1 was not committed: .* rank 1 differ .*: they begin with other data/ ])
{
    my ($mode, $like) = @$case;
    for my $r (2, 3) {
        my $j = replicas($r, { %$twins, args => [ '-m', $mode ] });
        isnt($j->{rc}, 0, "$r replicas, -m $mode: the job ends");
        like($j->{log}, $like, '... and says why');
    }
}

# ---- processes die as well ---------------------------------------------------------------

my $i = 0;
for my $point (qw(app.mid ckpt.begin ckpt.packed ckpt.sealed ckpt.voted ckpt.committed
    replica.compare replica.compared finish.begin))
{
    for my $number (int(rand(3)), 3 + int(rand(3))) {
        my $nth = $point =~ /^app/ ? 1 + int(rand(50))
            : $point eq 'finish.begin' ? 1 : 2 + int(rand(8));
        my $fault = "$point:$number:$nth:kill";
        my $j = replicas(2, $twins, fault => $fault);
        is(right($twins, $j, faults => 1, quiet => 1), '', "2 replicas, $fault");
    }
}
# a kill while replicas differ
for my $point (qw(replica.decided replica.compared ckpt.sealed repair.restored log.install)) {
    for my $r (2, 3) {
        next if $r == 3 && $point =~ /^(?:repair|log)/; # no rank goes back
        my $flipped = int(rand(3 * $r));
        my $killed = $point eq 'replica.decided' ? ($flipped + 3) % (3 * $r) : int(rand(3 * $r));
        my $nth = $point eq 'replica.decided' || $point =~ /^(?:repair|log)/ ? '*' : 5;
        my $fault = "flip.data:$flipped:20:EIO,$point:$killed:$nth:kill\@0";
        my $j = replicas($r, $twins, fault => $fault, spares => 2);
        is(right($twins, $j), '', "$r replicas, $fault");
    }
}

# ---- an error of another rank in a set that differs ------------------------------------------

{
    my $fault = 'flip.data:4:25:EIO,ckpt.packed:0:6:EIO';
    my $j = replicas(3, $twins, fault => $fault);
    is(right($twins, $j, faults => 2), '', "3 replicas, $fault");
}

# ---- slots of another number of planes -------------------------------------------------

{
    my $dir = scratch() . '/slots';
    mkdir($dir);
    my %env = (FTKIT_LEVEL_MEMORY_PLACE => 'file', FTKIT_LEVEL_MEMORY_DIRECTORY => $dir,
        FTKIT_LEVEL_HDF5_DIRECTORY => $dir, FTKIT_RECOVER_SUPPLY => 'end');
    my $j = replicas(2, $twins, n => 2, spares => 0, env => \%env, fault => 'app.mid:1:33:kill');
    isnt($j->{rc}, 0, 'a job with replicas is lost');
    $j = logged($twins, n => 4, spares => 0, env => { %env, FTKIT_LOG_TEAMS => 'rank' });
    is($j->{result}, undisturbed($twins, 4), 'a job of as many ranks does not take its slots');
    $j = replicas(2, $twins, n => 2, spares => 0, env => \%env, fault => 'app.mid:1:33:kill');
    $j = replicas(2, $twins, n => 2, spares => 0, env => \%env);
    is(right($twins, $j, n => 2, like => qr/restored set \d+ from/), '', '... the same job does');
}

# ---- what the program sees, and output ---------------------------------------------------------

{
    my $j = job(n => 2, spares => 0, program => "$build/examples/heat2d",
        args => [ '-n', '65x49', '-s', 40 ], run => [ '--no-relaunch', '--replicas', 2 ],
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false' });
    my @lines = $j->{log} =~ /^(heat2d: .* steps done.*)/mg;
    is($j->{rc}, 0, 'heat2d runs with two replicas') or diag($j->{log});
    is(scalar(@lines), 1, '... and one of them is seen');
    $j = job(n => 2, spares => 0, program => "$build/examples/heat2d",
        args => [ '-n', '65x49', '-s', 40 ], run => [ '--no-relaunch', '--replicas', 2 ],
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_REPLICAS_OUTPUT => 'all' });
    @lines = $j->{log} =~ /^(heat2d: .* steps done.*)/mg;
    is(scalar(@lines), 2, 'replicas.output = all: both are seen') or diag($j->{log});
    is($lines[0], $lines[1] // '', '... with the same result');
}

# a bit that a user flips, as in docs/replicas.md
for my $case ([ 'in u', qr/has flipped bit \d of byte \d+ of region 'u' at /,
    qr/again: --seed 4 --flip 'rank 3 at call 30 in u'/, qr/the replicas of rank 1 differ: region 'u', \d+ elements? from \d+ / ],
    [ 'in nothing', qr/rank 3 .* has no region 'nothing' with memory of its own: no bit/ ])
{
    my ($in, @like) = @$case;
    my $j = job(n => 2, spares => 0, program => "$build/examples/heat2d", timeout => 60,
        args => [ '-n', '65x49', '-s', 500, '-d', 4 ], env => { FTKIT_LEVEL_HDF5_ENABLED => 'false',
            FTKIT_LOG_TEAMS => 'rank' }, run => [ '--no-relaunch', '--replicas', 2, '--seed', 4,
            '--flip', "rank 3 at call 30 $in" ]);
    is($j->{rc}, 0, "--flip '... $in': the job ends well");
    like($j->{log}, $_, '... with its lines') for @like;
}

# ---- what cannot be ------------------------------------------------------------------------------

my %two = (FTKIT_REPLICAS_COUNT => 2, FTKIT_LEVEL_HDF5_ENABLED => 'false',
    FTKIT_LOG_ENABLED => 'true');
for my $case (
    [ {}, 3, qr/replicas\.count = 2: 3 processes without 0 spares are 3, .* multiple of 2/ ],
    [ { FTKIT_LOG_ENABLED => 'false' }, 4, qr/replicas need log\.enabled/ ],
    [ { FTKIT_LOG_DETERMINANTS => 'relaxed' }, 4, qr/log\.determinants = node or refuse/ ],
    [ { FTKIT_LOG_TEAM_LIST => '0-1 2-3' }, 4, qr/not a list of teams/ ],
    [ { FTKIT_CHECKPOINT_LINE => 'apart' }, 4, qr/checkpoint\.line = together/ ],
    [ { FTKIT_LEVEL_HDF5_ENABLED => 'true' }, 4, qr/level\.hdf5\.enabled = false/ ],
    [ { FTKIT_TOPOLOGY_RANKS_PER_NODE => 6 }, 8, qr/the replicas of rank 0 share a node/ ],
    )
{
    my ($env, $n, $like) = @$case;
    my $spares = $env->{FTKIT_TOPOLOGY_RANKS_PER_NODE} ? 1 : 0; # a spare waits already
    my $j = logged($twins, n => $n, spares => $spares, env => { %two, %$env });
    isnt($j->{rc}, 0,
        join(' ', "$n processes", map {"$_=$env->{$_}"} sort keys %$env) . ': refused');
    like($j->{log}, $like, '... with the reason');
}
{
    my $j = replicas(2, $twins, n => 2, spares => 0, env => { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 });
    is(right($twins, $j, n => 2, quiet => 1), '', 'each plane on a node of its own');
    my ($code, undef, $said) = command('run', '-n', 2, '--replicas', 4, 'true');
    is($code, 2, '--replicas 4 is refused');
    like($said, qr/--replicas: '4' is not a number from 1 to 3/, '... with the reason');
}

done_testing();
