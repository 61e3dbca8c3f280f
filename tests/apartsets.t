#!/usr/bin/perl
# The commands on sets of a line apart: show says so, export does not put together what is of
# different steps.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitLog;
use FtkitTest;
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;

ulfm_only();
asleep_in_waits();

my %env = (FTKIT_CHECKPOINT_LINE => 'apart', FTKIT_CHECKPOINT_PERIOD => '3 calls',
    FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '1 set',
    FTKIT_LEVEL_HDF5_KEEP => 100, FTKIT_LOG_TEAM_SIZE => 1);
my $apart = qr/^line +apart: each rank was at a step of its own$/m;
my ($code, $out, $err);

sub ftkit
{
    ($code, $out, $err) = command(@_);
    return $out;
}

sub said { return diag("code $code\n$out$err") && 0 }
sub json { return eval { JSON::PP->new->decode(ftkit(@_, '--json')) } // {} }

# Run a program; returns the directory of its sets, and the numbers of the first and the last one.
sub sets
{
    my ($p) = @_;
    my $j = logged($p, spares => 0, env => \%env);
    my @sets = sort { $a <=> $b } map { $_->{set} } grep { $_->{state} eq 'complete' }
        @{ json('ls', $j->{dir})->{sets} };
    cmp_ok(scalar(@sets), '>', 1, "$p->{name}: a job with sets") or diag(substr($j->{log}, 0, 3000));
    return ($j->{dir}, @sets[0, -1]);
}

# ---- ranks that call at different places

my ($dir, $first, $last) = sets(script(7));
is(json('show', $dir, $first)->{line}, 'together', 'the first set of a job: all ranks waited');
unlike(ftkit('show', $dir, $first), qr/^line/m, '... as text');
is(json('show', $dir, $last)->{line}, 'apart', 'the last one: they did not');
like(ftkit('show', $dir, $last), $apart, '... as text') or said();
is($code, 0, '... code');
like(ftkit('verify', $dir, $last), qr/^  good$/m, 'verify') or said();
my %region = map { $_->{name} => $_ } @{ json('show', $dir, $last)->{regions} };
ok($region{'ftkit.log'} && $region{memory}, '... has the regions and the state of the log');

my $file = scratch() . '/x.raw';
for my $rank (0 .. 3) {
    ftkit('export', $dir, $last, 'memory', '--rank', $rank, '--format', 'raw', '-o', $file);
    ok($code == 0 && -s $file == $region{memory}{bytes} / 4, "export: a region of rank $rank") or said();
}

# ---- a global array, and a replicated region

# Long enough for many sets: what comes when the job ends is not the set that is tested here.
sub long_one
{
    my ($name) = @_;
    my ($p) = grep { $_->{name} eq $name } programs();
    return { %$p, args => [ '-n', 400 ] };
}

($dir, $first, $last) = sets(long_one('wavefront'));
%region = map { $_->{name} => $_ } @{ json('show', $dir, $last)->{regions} };
is("$region{u}{kind} $region{step}{kind}", 'array replicated', 'regions of all ranks');
# what h5py and ParaView see
sub master
{
    my ($set, $type) = @_;
    my ($file) = glob("$dir/*/set-" . sprintf('%010d', $set) . "/master.$type");
    return $file ? slurp($file) : '';
}

unlike(master($first, 'h5'), qr/ftkit\.line/, 'master.h5 of a line together: no mark');
is(scalar(() = master($last, 'h5') =~ /ftkit\.line/g), 2, '... apart: on the file and the array');
unlike(master($first, 'xdmf'), qr/apart/, 'master.xdmf of a line together: no mark');
like(master($last, 'xdmf'), qr/<Grid Name="[^"]+ \(line apart\)"/, '... apart: on the grid');
for my $name (qw(u step)) {
    unlink($file);
    ftkit('export', $dir, $first, $name, '--format', 'raw', '-o', $file);
    ok($code == 0 && -s $file, "export: '$name' of a line together") or said();
    unlink($file);
    ftkit('export', $dir, $last, $name, '--format', 'raw', '-o', $file);
    ok($code == 1 && !-e $file, "'$name' of a line apart is refused") or said();
    like($err, qr/set $last is of a line apart .*'$name' do not belong together; --rank takes/,
        '... with the reason');
    ftkit('export', $dir, $last, $name, '--rank', 2, '--format', 'raw', '-o', $file);
    ok($code == 0 && -s $file, '... that of one rank is not') or said();
}

# ---- sets that earlier builds have written: the formats of the log's state stay readable
# tests/data/set-apart-v*.tar.gz: one set each of wavefront -s 8 -n 120, 4 ranks in teams of 2

my ($small) = grep { $_->{name} eq 'wavefront' } programs();
$small = { %$small, args => [ '-s', 8, '-n', 120 ] };
for ([5, 13], [6, 11]) {
    my ($version, $set) = @$_;
    my $old = tempdir(DIR => scratch());
    is(system('tar', '-xzf', top() . "/tests/data/set-apart-v$version.tar.gz", '-C', $old), 0,
        "an older set, version $version");
    like(ftkit('verify', $old, $set), qr/^  good$/m, '... verify') or said();
    like(ftkit('show', $old, $set), $apart, '... show') or said();
    my $k = logged($small, spares => 0, env => { %env, FTKIT_LOG_TEAM_SIZE => 2,
            FTKIT_LEVEL_HDF5_DIRECTORY => $old });
    like($k->{log}, qr/restored set $set from files/, '... a job goes on from it');
    is($k->{result}, undisturbed($small, 4), '... to the right result')
        or diag(substr($k->{log}, 0, 3000));
}

# ---- another number of ranks: the blocks are of different steps

my $halo = long_one('halo3d');
my $j = logged($halo, spares => 0, env => \%env);
is($j->{rc}, 0, 'halo3d with lines apart') or diag($j->{log});
$j = job(n => 2, spares => 0, keep => $j->{dir}, program => build() . '/mpi/halo3d',
    args => [ '-o', "$j->{dir}/out", '-w', "$j->{dir}/watch", @{ $halo->{args} // [] } ]);
isnt($j->{rc}, 0, '... does not start with 2 ranks') or diag($j->{log});
like($j->{log}, qr/set \d+ is of a line apart: its ranks are at different steps; start with 4 ranks/,
    '... and says why');
is($j->{result}, '', '... instead of a wrong result');

done_testing();
