#!/usr/bin/perl
# Teams from the communication matrices of known programs: tables 5.1, 5.2 and 7.5 of Meneses, PhD
# thesis, University of Illinois, 2013.  The tables come from runs.  Here the matrices are computed,
# from what the sources of the NAS Parallel Benchmarks (NPB) send, and from stencils.  The numbers
# of IS show that the thesis counts no collectives.  FLASH and GTC of table 5.1 are not here: their
# patterns are not known.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use JSON::PP;
use List::Util qw(max sum);
use Test::More;

my ($code, $out, $err);
my $tmp = scratch();
my $metis = slurp(build() . '/mpi.mk') =~ /^HAVE_METIS := yes$/m;
delete $ENV{$_} for grep { /^FTKIT_/ && $_ ne 'FTKIT_GUARD' } keys %ENV;

sub json
{
    ($code, $out, $err) = command(@_, '--json');
    return eval { JSON::PP->new->decode($out) } // diag("code $code\n", $out, $err) && {};
}

# |is - want| <= tolerance
sub within
{
    my ($is, $want, $tolerance, $what) = @_;
    return ok(defined $is && abs($is - $want) <= $tolerance, $what)
        || diag($is // "nothing: $err", ", not $want +- $tolerance");
}

# ---- matrices: ranks, and {from}{to} = [messages, bytes] -----------------------------------------

sub add
{
    my ($m, $from, $to, $messages, $bytes) = @_;
    return if $from == $to;
    $m->{pairs}{$from}{$to}[0] += $messages;
    $m->{pairs}{$from}{$to}[1] += $messages * $bytes;
    return;
}

# A stencil on a grid of ranks.  Neighbours in the first dimension are consecutive ranks.  face: the
# bytes of a message in each dimension, or in all of them.
sub stencil
{
    my ($ends_meet, $face, @grid) = @_;
    my $m = { ranks => 1 };
    my @stride = map { my $s = $m->{ranks}; $m->{ranks} *= $_; $s } @grid;
    for my $r (0 .. $m->{ranks} - 1) {
        for my $d (0 .. $#grid) {
            my $at = int($r / $stride[$d]) % $grid[$d];
            for my $to ($at - 1, $at + 1) {
                next if !$ends_meet && ($to < 0 || $to >= $grid[$d]);
                my $rank = $r + ($to % $grid[$d] - $at) * $stride[$d];
                add($m, $r, $rank, 1, $face->[$d] // $face->[0]);
            }
        }
    }
    return $m;
}

# One outer iteration of CG (cg.f).  The ranks of a row make sums: each exchanges with the rank at
# half of the row, then at a quarter, and so on.  There are 26 sums of vectors and 53 of numbers.
# After each sum of a vector a rank exchanges with its transposed rank.
sub cg
{
    my ($rows, $columns, $vector) = @_;
    my $m = { ranks => $rows * $columns };
    for my $r (0 .. $m->{ranks} - 1) {
        my ($row, $column) = (int($r / $columns), $r % $columns);
        for (my $n = $columns; $n > 1; $n /= 2) {
            my $to = $row * $columns + ($column + $n / 2) % $n + int($column / $n) * $n;
            add($m, $r, $to, 26, $vector);
            add($m, $r, $to, 53, 8);
        }
        my $wide = $columns / $rows; # 1 or 2
        my $half = int($r / $wide);
        add($m, $r, $wide * ($half % $rows * $rows + int($half / $rows)) + $r % $wide, 26, $vector);
    }
    return $m;
}

# IS (full_verify): each rank sends its largest key to the next one.
sub in_a_row
{
    my ($n) = @_;
    my $m = { ranks => $n };
    add($m, $_, $_ + 1, 1, 8) for 0 .. $n - 2;
    return $m;
}

sub all_to_all
{
    my ($n) = @_;
    my $m = { ranks => $n };
    for my $r (0 .. $n - 1) {
        add($m, $r, $_, 1, 8) for 0 .. $n - 1;
    }
    return $m;
}

my $files = 0;
sub matrix_file
{
    my ($m) = @_;
    my @lines = map {
        my ($r, $to) = ($_, $m->{pairs}{$_});
        map { join(',', $r, $_, @{ $to->{$_} }) } sort { $a <=> $b } keys %$to;
    } sort { $a <=> $b } keys %{ $m->{pairs} };
    return write_file(sprintf('%s/m%d.csv', $tmp, $files++), join("\n",
            '# ftkit communication matrix 1', '# context: computed', "# ranks: $m->{ranks}",
            'from,to,messages,bytes', @lines, '# end: ' . @lines . " pairs\n"));
}

# Teams of consecutive ranks, as in table 5.1.
sub consecutive
{
    my ($m, $size) = @_;
    my $file = write_file("$tmp/teams.txt", join '',
        map { ($_ * $size) . '-' . (($_ + 1) * $size - 1) . "\n" } 0 .. $m->{ranks} / $size - 1);
    return json('teams', '--file', $file, $m->{file} //= matrix_file($m));
}

# The teams that ftkit chooses.
sub chosen
{
    my ($m, $size) = @_;
    return json('teams', '--size', $size, $m->{file} //= matrix_file($m));
}

sub messages { my ($t) = @_; return $t->{messages} && $t->{messages_between} / $t->{messages} }
sub bytes { my ($t) = @_; return $t->{bytes} && $t->{bytes_between} / $t->{bytes} }

# The bytes that a rank sends: all of them, and those to other teams.
sub bytes_of
{
    my ($m, $team, $r) = @_;
    my $to = $m->{pairs}{$r};
    my @others = grep { $team->[$_] != $team->[$r] } keys %$to;
    return (sum(map { $_->[1] } values %$to), sum(0, map { $to->{$_}[1] } @others));
}

# ---- table 5.1: the share of the messages between teams ------------------------------------------

# The table has two digits, and mostly cuts off the rest instead of rounding.  The grids of MG, MILC
# and LAMMPS are ours: each rank sends as much to each of its neighbours.
my @sizes = (2, 4, 8, 16, 32);
my @table = (
    ['CG class C', cg(8, 8, 8), .69, .38, .08, .07, .05],
    ['MG class C', stencil(1, [8], 4, 4, 4), .83, .66, .50, .33, .17],
    ['LU class B', stencil(0, [8], 8, 8), .71, .57, .50, .21, .07],
    ['IS class C', in_a_row(64), .49, .23, .11, .04, .01],
    ['MILC', stencil(1, [8], 2, 2, 4, 4), .75, .50, .37, .25, .12],
    ['LAMMPS', stencil(1, [8], 4, 4, 4), .83, .66, .50, .33, .17],
    ['CG class D', cg(16, 32, 8), .80, .62, .43, .24, .06],
    ['MG class D', stencil(1, [8], 8, 8, 8), .83, .75, .66, .50, .42]);
my (%share, %own);
for my $row (@table) {
    my ($name, $m, @printed) = @$row;
    for my $i (0 .. $#sizes) {
        my $t = consecutive($m, $sizes[$i]);
        $share{$name}[$i] = messages($t);
        within($share{$name}[$i], $printed[$i], .012, "table 5.1: $name, teams of $sizes[$i]");
        next if !$metis;
        $t = chosen($m, $sizes[$i]);
        $own{$name}[$i] = messages($t);
        cmp_ok($t->{bytes_between}, '<=', $t->{bytes_consecutive},
            '... the teams that ftkit chooses log no more');
    }
}
# what the text on page 79 says of the table, for both kinds of teams
for my $which (['consecutive ranks', \%share], $metis ? ['the choice of ftkit', \%own] : ()) {
    my ($what, $s) = @$which;
    my @cg = @{ $s->{'CG class C'} };
    ok($cg[1] - $cg[2] > .2 && $cg[2] - $cg[3] < .02,
        "$what: teams of 8 are the sweet spot of CG on 64 ranks") or diag("@cg");
    is(scalar(grep { $s->{'IS class C'}[$_] > .55 * $s->{'IS class C'}[$_ - 1] } 1 .. 4), 0,
        '... IS: a team of twice the size halves the share');
    for my $program ('CG', 'MG') {
        my ($small, $large) = map { $s->{"$program class $_"} } 'C', 'D';
        is(scalar(grep { $large->[$_] < $small->[$_] - 1e-9 } 0 .. 4), 0,
            "... $program: more ranks need larger teams for the same share")
            or diag("@$small\n@$large");
    }
    my @order = sort { $s->{$a}[3] <=> $s->{$b}[3] } map {"$_ class C"} qw(CG MG IS);
    is("@order", 'IS class C CG class C MG class C', '... teams of 16: the order of the programs');
}

# Section 5.3: with random targets k teams make the log smaller by 1/k.  In an all-to-all no rank is
# its own target, so the share is n (k - 1) / k (n - 1).  Such are the keys of IS, which table 5.1
# does not count.
my $all = all_to_all(64);
for my $k (2, 4, 8) {
    my $t = $metis ? chosen($all, 64 / $k) : consecutive($all, 64 / $k);
    within(bytes($t), 64 * ($k - 1) / $k / 63, 1e-12, "all-to-all, $k teams");
    within(bytes($t), 1 - 1 / $k, 1 / 63, '... section 5.3: 1/k less');
}

# ---- table 5.2: the bytes in the log, teams of 16 ------------------------------------------------

# CG class D: 1,500,000 unknowns in 16 rows of 32 ranks.  The messages are halves of the part of a
# row.  Printed are 420.11 MB without teams, 83.85 MB with teams of 16.  These are nine outer
# iterations of a rank that is its own transposed rank, such as rank 0 (the number nine is ours).
my $cg = cg(16, 32, 8 * 1500000 / 16 / 2);
my $t = consecutive($cg, 16);
my ($sent, $between) = bytes_of($cg, $t->{team}, 0);
within(9 * $sent / 2**20, 420.11, 4.2, 'table 5.2: CG, each rank a team, within 1 %');
within(9 * $between / 2**20, 83.85, .84, '... teams of 16');
within($between / $sent, .20, .005, '... the fraction');
within(bytes($t), (1 + 15 / 16) / (5 + 15 / 16), 1e-4,
    '... over all ranks it is larger: most of them have another transposed rank');

# MG class D: 1024 points a side on 8 x 8 x 8 ranks.  At each level comm3 sends faces, which have
# the borders of the dimensions before.  The finest level has most of the bytes.
my @face = (0, 0, 0);
for my $n (map { 2**$_ } 0 .. 7) {
    $face[$_] += 8 * $n**(2 - $_) * ($n + 2)**$_ for 0 .. 2;
}
my $mg = stencil(1, \@face, 8, 8, 8);
within(bytes(consecutive($mg, 16)), .53, .03, 'table 5.2: MG, the fraction');

# Jacobi3D: the thesis does not say how the 256 ranks are arranged.
my $jacobi = consecutive(stencil(0, [8], 4, 8, 8), 16);
within(bytes($jacobi), .37, .04, 'table 5.2: a stencil of 4 x 8 x 8');
SKIP: {
    skip 'built without METIS', 4 if !$metis;
    for my $ends_meet (0, 1) {
        for my $grid ([4, 8, 8], [8, 8, 4]) {
            cmp_ok(bytes(chosen(stencil($ends_meet, [8], @$grid), 16)), '<', .37,
                "... @$grid, ends meet: $ends_meet: ftkit chooses teams that log less");
        }
    }
}

# ---- section 5.4: what dynamic teams log beside random ones -----------------------------------------

# tests/unit/t_team_share.c checks the figures; docs/log.md prints them.
{
    my @rows = grep {/^\|/} split /\n/, `@{[ build() ]}/unit/t_team_share --table </dev/null`;
    my %printed = map { $_ => 1 } split /\n/, slurp(top() . '/docs/log.md');
    is(scalar @rows, 21, 'the table of dynamic teams');
    is(join("\n", grep { !$printed{$_} } @rows), '', '... docs/log.md has its rows');
}

# ---- table 7.5: the bytes between nodes of 8, 16 and 32 cores ------------------------------------

# Jacobi3D with four blocks on each core.  The arrangement of the blocks is ours: 8 x 8 x 4 on 64
# cores, ends meet; it gives the three printed numbers.
my $blocks = stencil(1, [8], 8, 8, 4);
for my $case ([8, .42], [16, .33], [32, .17]) {
    my ($cores, $printed) = @$case;
    within(bytes(consecutive($blocks, 4 * $cores)), $printed, .005,
        "table 7.5: $cores cores in a node");
    next if !$metis;
    my $j = json('plan', '--nodes', 64 / $cores, '--mtbf', '1d', '--files', '1min', '--matrix',
        $blocks->{file});
    my @teams = map { $_->{between} } grep { $_->{name} eq 'team' } @{ $j->{inputs} };
    within($teams[0], $printed, .005, '... and ftkit plan --matrix, each node a team');
    is(scalar(grep { $teams[$_] > $teams[$_ - 1] } 1 .. $#teams), 0, '... larger teams log less');
}

# ---- ftkit plan: teams of this program -----------------------------------------------------------

SKIP: {
    skip 'built without METIS', 3 if !$metis;
    my $j = json('plan', '--nodes', 64, '--mtbf', '1d', '--files', '1min', '--matrix',
        $table[0][1]{file});
    my %team = map { ($_->{value} => $_) } grep { $_->{name} eq 'team' } @{ $j->{inputs} };
    is(join(' ', sort { $a <=> $b } keys %team), '1 2 4 8 16 32', 'CG on 64 nodes: sizes of teams');
    my @bytes = map { bytes(chosen($table[0][1], $_)) } @sizes;
    within(max(map { abs($team{ $sizes[$_] }{between} - $bytes[$_]) } 0 .. 4), 0, 1e-9,
        '... with the shares of ftkit teams');
    within($team{8}{slowdown}, 1 + .05 * $bytes[2], 1e-6, '... which scale the slowdown');
}

done_testing();
