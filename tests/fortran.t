#!/usr/bin/perl
# The Fortran module: the whole API is there, with the codes of the header; regions of every
# type, kind and rank come back byte by byte after failures and from files, with the handles
# of mpi_f08, mpi and mpif.h; wrong calls are refused; a global array has its dimensions in
# the reverse order for readers in C.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

asleep_in_waits();
my $top = top();
my $build = build();
my ($mpifc) = slurp("$build/mpi.mk") =~ /^MPIFC := (.*)$/m;
my ($mpicc) = slurp("$build/mpi.mk") =~ /^MPICC := (.*)$/m;
plan(skip_all => 'no Fortran module with this MPI') unless slurp("$build/mpi.mk") =~ /^FORTRAN/m;
my $tmp = scratch();

# Output of a command; ok() for its success.
sub output
{
    my ($what, $command) = @_;
    my $out = `exec '$top/scripts/guard' 60 -- sh -c '$command' 2>&1 </dev/null`;
    ok($? == 0, $what) or diag("$command\n", substr($out, 0, 3000));
    return $out;
}

# ---- the API -----------------------------------------------------------------------------

my $header = slurp("$top/include/ftkit.h");
my @functions = grep { $_ ne 'ftkit_register_container' } # Fortran has variables instead
    $header =~ /^FTKIT_API [^;(]*?(ftkit_\w+)\(/mg;
cmp_ok(scalar @functions, '>', 25, 'the header has functions');
my ($list) = $header =~ /#define FTKIT_STATUS_LIST\(X\)(.*?)\n\n/s;
my %codes = $list =~ /X\((\w+), (-?\d+),/g;
my %constants = map { ("FTKIT_$_" => "FTKIT_$_") } keys %codes;
cmp_ok(scalar keys %constants, '>', 25, '... and codes');
for my $enum (qw(mode level)) {
    my ($members) = $header =~ /enum ftkit_$enum \{(.*?)\}/s;
    # Fortran knows no case, and ftkit_info is a type
    $constants{ $enum eq 'level' ? s/FTKIT_/FTKIT_LEVEL_/r : $_ } = $_
        for $members =~ /(FTKIT_\w+) =/g;
}
$constants{$_} = $_ for $header =~ /^#define (FTKIT_(?:VERSION_M|VERSION_P|NAME_|DIMS_)\w+) \d+$/mg;
my @names = sort keys %constants;
is(scalar(grep {/MODE|LEVEL|VERSION|MAX/} @names), 12, '... and other constants');

# compiled by itself, a name that is missing is an error that says so
my $only = join ', &\n        ', map {"only_$_ => $_"} @functions, 'ftkit_ctx', 'ftkit_info';
$only =~ s/\\n/\n/g;
my $print = join '', map {"    print '(a, i0)', '$_ ', $_\n"} @names;
write_file("$tmp/names.f90", "program names\n    use ftkit, only: &\n        $only\n"
    . "    use ftkit\n    implicit none\n$print" . "end program\n");
output('every other function of the header is in the module',
    "cd $tmp && $mpifc -ffree-line-length-none -I$build/fortran -fsyntax-only names.f90");
write_file("$tmp/codes.f90",
    "program codes\n    use ftkit\n    implicit none\n$print" . "end program\n");
my $said = output('every constant of the header, too', "cd $tmp && $mpifc -I$build/fortran "
    . "codes.f90 $build/libftkit_fortran.a $build/libftkit-test.a -Wl,--unresolved-symbols=ignore-all "
    . '-o codes && ./codes');
my $c_print = join '', map {"    printf(\"$_ %d\\n\", $constants{$_});\n"} @names;
write_file("$tmp/codes.c", "#include <ftkit.h>\n#include <stdio.h>\n\nint main(void)\n{\n$c_print}\n");
my $meant = output('... as in C', "cd $tmp && $mpicc -I$top/include codes.c -o codes_c && ./codes_c");
is($said, $meant, 'they have the same values');
like($said, qr/^FTKIT_ERR_LOST -42$/m, '... such as this');

# the page about it names them all, and its program is one
my $page = slurp("$top/docs/fortran.md");
is(join(' ', grep { $page !~ /\b$_\b/ } @functions), '', 'docs/fortran.md names every function');
my ($program) = $page =~ /^```fortran\n(program main\n.*?)^```$/ms;
write_file("$tmp/main.f90", $program // '');
output('its program compiles', "cd $tmp && $mpifc -std=f2018 -Wall -Wextra -Werror -I$build/fortran "
    . "main.f90 $build/libftkit_fortran.a $build/libftkit-test.a " . packages() . ' -o main');
{
    my $j = job(program => "$tmp/main", n => 2, spares => 0, args => []);
    is($j->{rc}, 0, '... and runs') or diag($j->{log});
    like($j->{log}, qr/^ *step 1000: x is 0\.5000 to 0\.5000$/m, '... to the mean of its ranks');
    $j = job(program => "$tmp/main", n => 2, args => [], fault => 'h5.part.write:0:2:ENOSPC',
        env => { FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' });
    is($j->{rc}, 0, 'a full file system does not end it') or diag($j->{log});
    is(scalar @{ $j->{faults} }, 1, '... it was full');
    like($j->{log}, qr/^ *no space left: .*No space left on device/m, '... it says so');
    like($j->{log}, qr/^ *step 1000: x is 0\.5000 to 0\.5000$/m, '... and goes on to the result');
  SKIP: {
        skip 'no repair with this MPI', 1 if ($ENV{MPI_KIND} // 'ulfm') ne 'ulfm';
        $j = job(program => "$tmp/main", n => 2, args => [], fault => 'ckpt.packed:1:9:kill');
        ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $j->{log} =~ /step 1000: x is 0\.5000 to/,
            'a rank that is killed is replaced') or diag($j->{log});
    }
}

# ---- calls -------------------------------------------------------------------------------

@ENV{qw(OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM)} = (1, 1) if $> == 0;
$ENV{OMPI_MCA_btl_sm_backing_directory} = $tmp;

sub calls
{
    my ($part, $dir) = @_;
    mkdir "$tmp/$dir";
    local $ENV{FTKIT_LEVEL_HDF5_DIRECTORY} = "$tmp/$dir";
    return `cd '$tmp/$dir' && exec '$top/scripts/guard' 60 -- '$build/ftests/calls' $part 2>&1 </dev/null`;
}

for my $case (['refused', 'refused'], ['accepted', 'accepted'], ['misfit-save', 'misfit'],
    ['misfit', 'misfit'])
{
    my ($part, $dir) = @$case;
    local $ENV{FTKIT_RECOVER_START} = 'continue' if $part eq 'misfit'; # the run of its sets has finished
    my $out = calls($part, $dir);
    my $status = $?;
    my ($tests) = $out =~ /^1\.\.(\d+)$/m;
    my $good = () = $out =~ /^\s+ok \d+ - /mg;
    ok($status == 0 && $out !~ /^not ok/m && $good == ($tests // 0),
        "calls: $part, $good checks") or diag($out);
}
my $out = calls('stop', 'stop');
isnt($?, 0, 'an error that is not asked for ends the program');
like($out, qr/ERROR STOP ftkit_unregister: no such region or set: no region 'nobody'/,
    '... and says which');
unlike($out, qr/still here/, '... at once');

# ---- a global array ----------------------------------------------------------------------

{
    my $dir = "$tmp/array";
    mkdir $dir;
    my %o = (program => "$build/ftests/array", keep => $dir, spares => 0);
    my $j = job(%o, n => 2, args => ['save']);
    is($j->{rc}, 0, 'a global array is saved') or diag($j->{log});
    for my $n (2, 3, 8) {
        $j = job(%o, n => $n, args => ['check'],
            env => { FTKIT_RECOVER_START => 'continue' }); # the run of 'save' has finished
        my $good = () = $j->{log} =~ /^OK rank/mg;
        ok($j->{rc} == 0 && $good == $n, "... and is the same on $n ranks") or diag($j->{log});
    }
    # the elements as a reader in C finds them: the last dimension varies fastest
    my ($n1, $n2, $n3) = (3, 5, 8);
    my $ftkit = "$build/ftkit";
    output('exported', "$ftkit export $dir newest a -o $dir/a.npy");
    my $npy = slurp("$dir/a.npy");
    like($npy, qr/'descr': '<i4', 'fortran_order': False, 'shape': \(8, 5, 3\)/,
        'a(3, 5, 8) of integer(4) is [8][5][3] of int32 for C');
    my @values = unpack 'l<*', substr $npy, -4 * $n1 * $n2 * $n3;
    my @want;
    for my $k (1 .. $n3) {
        for my $j (1 .. $n2) {
            push @want, map { 10000 * $_ + 100 * $j + $k } 1 .. $n1;
        }
    }
    is("@values", "@want", '... and a(i, j, k) is [k][j][i]');
    my ($master) = glob "$dir/*.ftkit/set-*/master.h5";
    my $dump = output('h5dump reads it', "h5dump $master");
    like($dump, qr/DATASET "a" \{\s*DATATYPE\s+H5T_STD_I32LE\s*DATASPACE\s+SIMPLE \{ \( 8, 5, 3 \)/,
        '... with the same shape and type');
    like($dump, qr/\(0,0,0\): 10101, 20101, 30101,\s+\(0,1,0\): 10201, 20201/, '... and order');
    like($dump, qr/"units"/, '... and the attribute');
    like($dump, qr/DATASET "column" \{\s*DATATYPE\s+H5T_IEEE_F32LE/, 'real(4) is a float');
    $dump = output('... and a part', 'h5dump ' . ($master =~ s/master/part-00000/r));
    my %types = (bytes => 'H5T_STD_I8LE', flags => 'H5T_STD_I32LE', z => 'H5T_COMPOUND',
        words => 'H5T_STD_U8LE');
    for my $name (sort keys %types) {
        like($dump, qr/DATASET "$name" \{\s*DATATYPE\s+$types{$name}/,
            "$name: $types{$name}");
    }
}

# ---- restart files -----------------------------------------------------------------------

SKIP: {
    skip 'needs an MPI with ULFM', 7 if ($ENV{MPI_KIND} // 'ulfm') ne 'ulfm';
    my %o = (program => "$build/ftests/files", n => 2, env => { FTKIT_LEVEL_HDF5_ENABLED => 'false' });
    my $j = job(%o, args => ['calls'], spares => 0);
    my ($result) = $j->{log} =~ /(files: step 20, .*)/;
    is($j->{rc}, 0, 'restart files of a program in Fortran') or diag($j->{log});
    for my $case (['callbacks', 'files.take:1:3:kill'], ['calls', 'files.scanned:0:3:kill']) {
        $j = job(%o, args => [ $case->[0] ], fault => $case->[1]);
        ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && index($j->{log}, $result // '-') >= 0,
            "... a rank is killed: $case->[0]") or diag($j->{log});
    }
    $j = job(%o, args => ['joint'], fault => 'joint.take:1:3:kill',
        env => { FTKIT_LEVEL_HDF5_EVERY => '1000000 sets' });
    ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && index($j->{log}, $result // '-') >= 0,
        '... a rank is killed: joint files') or diag($j->{log});
    # set 2, of step 5, is that of 3 ranks, and 2 ranks go on from it
    my $want = 1;
    $want = 1.5 * $want + ($_ <= 5 ? 1 : 0.5) for 1 .. 20;
    for my $mode (qw(callbacks calls joint)) {
        my $work = scratch() . "/any-$mode";
        my %any = (%o, keep => $work, spares => 0, args => [ $mode, $mode eq 'joint' ? () : 'any' ], env => { FTKIT_LEVEL_HDF5_EVERY => '1 sets',
            FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_RECOVER_SUPPLY => 'end' });
        job(%any, n => 3, fault => ($mode eq 'joint' ? 'joint' : 'files') . '.take:1:3:kill');
        $j = job(%any);
        my ($is) = $j->{log} =~ /files: step 20, ([\d.]+)/;
        ok($j->{rc} == 0 && $j->{log} =~ /restored set 2 from files in \S+, of another/ && abs(($is // 0) - $want) < 1e-6,
            "... on another number of ranks: $mode") or diag("$want\n$j->{log}");
    }
}

# ---- failures ----------------------------------------------------------------------------

SKIP: {
    skip 'needs an MPI with ULFM', 1 if ($ENV{MPI_KIND} // 'ulfm') ne 'ulfm';
    my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '1 calls');
    my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_CHECKPOINT_PERIOD => '2 calls',
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_RECOVER_SUPPLY => 'end');
    my $jobs = 0;

    # A job whose regions are what they must be after so many faults and repairs.
    sub intact
    {
        my ($name, %o) = @_;
        my $faults = $o{faults} // 1;
        my $repairs = delete $o{repairs} // $faults;
        my $most = delete $o{most} // $faults;
        my $work = sprintf '%s/regions%03d', $tmp, ++$jobs;
        my $j = job(%o, keep => $work, args => ["$work/out"]);
        my $hit = scalar @{ $j->{faults} };
        ok($j->{rc} == 0 && $j->{result} =~ /^OK step 12 repairs $repairs /
                && $hit >= $faults && $hit <= $most, $name)
            or diag("exit code $j->{rc}, faults $hit, result $j->{result}\n",
            substr($j->{log}, 0, 3000));
        return $j;
    }
    for my $handles (qw(mpifh mpi f08)) {
        my @program = (program => "$build/ftests/regions_$handles");
        intact("$handles: undisturbed", @program, env => \%memory, faults => 0, spares => 0);
        for my $rank (0 .. 3) {
            intact("$handles: rank $rank is killed", @program, env => \%memory,
                fault => "app.step:$rank:" . (2 * $rank + 2) . ':kill');
        }
        intact("$handles: two, one after the other", @program, env => \%memory, spares => 2,
            faults => 2, fault => 'app.step:2:4:kill,app.step:3:7:kill');
        intact("$handles: killed in a checkpoint", @program, env => \%memory,
            fault => 'ckpt.packed:1:6:kill');
        # the first death ends the job; the other ranks may not come to that step
        my $j = intact("$handles: all are killed: from files", @program, env => \%files,
            run => [], spares => 0, faults => 1, most => 4, repairs => 0,
            fault => 'app.step:*:8:kill');
        like($j->{result}, qr/ restored [1-9]/, '... a set was restored');
    }
    for my $log ({}, { FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 2 }) {
        my $j = job(program => "$build/ftests/left", fault => 'app.step:1:9:kill', args => [],
            env => { %memory, %$log }, run => [ '--no-relaunch', %$log ? '--log' : () ], timeout => 30);
        ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $j->{log} =~ /^total 880\.0, escapes 1$/m,
            'a body that a failure ends' . (%$log ? ', with the log' : '')) or diag($j->{log});
    }
    my $j = job(program => "$build/ftests/small", fault => 'ckpt.packed:1:3:kill', args => []);
    my $still = job(program => "$build/ftests/small", args => []);
    my @totals = map { $_->{log} =~ /^ total\s+(\S+)/m ? $1 : 'none' } $j, $still;
    ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $totals[0] eq $totals[1],
        'the small program has the result of an undisturbed run') or diag($j->{log}, $still->{log});
}

done_testing();
