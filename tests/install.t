#!/usr/bin/perl
# `make install`, and programs outside the tree that use what it installs: with
# pkg-config, static and shared, with CMake, from C, from C++ and from Fortran.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

my $top = top();
my $build = build();
my $made = $ENV{BUILD} // 'build'; # the same as it was made, for the dependencies
my $tmp = scratch();
my ($mpicc) = slurp("$build/mpi.mk") =~ /^MPICC := (.*)$/m;
my ($mpifc) = slurp("$build/mpi.mk") =~ /^MPIFC := (.*)$/m;
my ($fortran) = slurp("$build/mpi.mk") =~ /^FORTRAN := (.*)$/m;
my $ulfm = slurp("$build/mpi.mk") =~ /^MPI_KIND := ulfm$/m;
my $mpicxx = $mpicc =~ s/mpicc([^\/]*)$/mpicxx$1/r;

delete $ENV{$_} for qw(MAKEFLAGS MFLAGS MAKELEVEL PKG_CONFIG_PATH LD_LIBRARY_PATH CPATH),
    grep { /^FTKIT_/ && $_ ne 'FTKIT_GUARD' } keys %ENV;
@ENV{qw(OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM)} = (1, 1) if $> == 0;
$ENV{OMPI_MCA_btl_sm_backing_directory} = $tmp;

# Run a command in a directory of its own; its output, and ok() for its success.
my ($out, $n) = ('', 0);
sub run
{
    my ($what, $command, $dir) = @_;
    if (!$dir) {
        $dir = sprintf '%s/run%02d', $tmp, $n++;
        mkdir $dir;
    }
    $out = `cd '$dir' && exec '$top/scripts/guard' 120 -- sh -c '$command' 2>&1 </dev/null`;
    return ok($? == 0, $what) || !diag("$command\n", substr($out, -4000));
}

sub have
{
    my ($program) = @_;
    return system("command -v '$program' >/dev/null 2>&1") == 0;
}

# ---- what is installed -------------------------------------------------------------------

my $root = "$tmp/root";
if (!run('make install',
        "make --no-print-directory install BUILD=$made DESTDIR=$root PREFIX=/usr", $top))
{
    done_testing();
    exit 1;
}
for my $file (qw(bin/ftkit share/man/man1/ftkit.1 share/man/man1/ftkit-verify.1 share/man/man3/ftkit.3
    share/man/man3/ftkit_checkpoint.3 share/bash-completion/completions/ftkit
    share/zsh/vendor-completions/_ftkit include/ftkit.h lib/libftkit.a lib/libftkit.so
    lib/libftkit.so.0 lib/libftkit.so.0.1.0 lib/pkgconfig/ftkit.pc
    lib/cmake/ftkit/ftkit-config.cmake lib/cmake/ftkit/ftkit-config-version.cmake))
{
    ok(-s "$root/usr/$file", "$file is there");
}
is(readlink("$root/usr/lib/libftkit.so"), 'libftkit.so.0', 'libftkit.so is a link');
unlike(join('', map { slurp($_) } glob("$root/usr/lib/{pkgconfig,cmake/ftkit}/*")),
    qr/\@\w+\@|\Q$root\E/, 'templates are filled in, without the place they are at');

like(`make -n --no-print-directory -C '$top' install BUILD=$made DESTDIR=$root PREFIX=/usr/local`,
    qr{/usr/local/share/zsh/site-functions/_ftkit}, '... outside of /usr the place of zsh is another');
SKIP: {
    skip 'no man', 2 if !have('man');
    local $ENV{MANPATH} = "$root/usr/share/man";
    for my $page ('1 ftkit-verify', '3 ftkit_checkpoint') {
        my ($section, $name) = split ' ', $page;
        like(`man -w $section $name 2>&1`, qr{^\Q$root\E/usr/share/man/man$section/\Q$name.$section\E$}m,
            "man finds $name($section)");
    }
}
SKIP: {
    skip 'no bash-completion', 1 if !-r '/usr/share/bash-completion/bash_completion';
    local $ENV{XDG_DATA_DIRS} = "$root/usr/share";
    my $said = `bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader ftkit; complete -p ftkit' 2>&1`;
    like($said, qr/-F _ftkit ftkit$/m, 'bash-completion finds the completion');
}

# ---- packages ----------------------------------------------------------------------------

# The lists of the Debian packages have each installed file once.  tests/long/deb.t builds the packages.
SKIP: {
    skip 'no history', 1 if system("git -C '$top' rev-parse HEAD >/dev/null 2>&1") != 0;
    mkdir "$tmp/deb";
    run('the control files of the Debian packages', "scripts/deb control $tmp/deb", $top) or last SKIP;
    my $debian = "$tmp/deb/debian";
    my @stanzas = map { my $s = $_; +{ $s =~ /^([\w-]+):[ ]*(.*(?:\n[ ].*)*)/mg } } split /\n\n+/, slurp("$debian/control");
    my ($source, @binary) = @stanzas;
    is($source->{Source}, 'ftkit', 'the first stanza is the source');
    like($source->{Maintainer}, qr/^[^<>@]+ <\S+\@\S+>$/, '... with a maintainer');
    for my $s (@binary) {
        my ($short, @rest) = split /\n/, $s->{Description} // '';
        ok($s->{Package} && $s->{Architecture} && $s->{Depends} && length $short < 80 && @rest > 2
                && !grep({ !/^ (?:\.|\S.*)$/ || length > 80 } @rest), "package $s->{Package}: the stanza is whole");
    }
    my ($version) = slurp("$top/Makefile") =~ /^VERSION := (.*)$/m;
    my ($so) = slurp("$top/Makefile") =~ /^SOVERSION := (.*)$/m;
    like(slurp("$debian/changelog"), qr/\Aftkit \(\Q$version\E-\S+\) /, 'the version of the Makefile');
    my %package = map { $_->{Package} => 1 } @binary;
    ok($package{"libftkit$so"} && $package{"libftkit-fortran$so"}, 'the packages have the number of the SONAME');
    my %of;
    my @lists = ((map {"$debian/$_.install"} grep { $_ ne 'ftkit-doc' } sort keys %package), "$debian/not-installed");
    my @files = map { substr $_, length "$root/" } split /\n/, `find '$root' ! -type d`;
    for my $list (@lists) {
        for my $pattern (grep { !/^#/ } split /\n/, slurp($list)) {
            my $re = $pattern =~ s{^usr/lib/\*/fortran$}{usr/include/ftkit-fortran-*}r # here the defaults of make install
                =~ s{^usr/lib/\*/}{usr/lib/}r =~ s{^usr/lib/python3/}{usr/lib/python3*/}r;
            $re = quotemeta $re;
            $re =~ s{\\\*}{[^/]*}g;
            $re =~ s{\\\[\\!(.*?)\\\]}{'[^' . $1 =~ s/\\-/-/r . '/]'}ge;
            my @hits = grep { m{^$re(?:/|$)} } @files;
            push @{ $of{$_} }, $list for @hits;
            ok(@hits > 0, "$pattern is installed") if $list !~ /not-installed$/ && ($fortran || $list !~ /fortran/);
        }
    }
    cmp_ok(scalar @files, '>', 100, 'there are files');
    is(join(' ', grep { @{ $of{$_} // [] } != 1 } @files), '', 'each installed file is in one package');
    my ($own, $license) = map { s/^ ?\.?[ ]*//mgr =~ s/\s+/ /gr } slurp("$debian/copyright"), slurp("$top/LICENSE");
    my ($text) = $license =~ /(Redistribution and use .* DAMAGE\.)/;
    ok(index($own, $text // '?') > 0, 'the copyright file has the licence');
    my ($holder) = $license =~ /Copyright \(c\) (.*?) Redistribution/;
    like($own, qr/Copyright: \Q$holder\E License: BSD-3-clause/, '... and its holder');
    for my $recipe ("$top/packaging/spack/package.py", "$top/packaging/easybuild/ftkit-$version.eb") {
        like(slurp($recipe), qr/\A# A recipe for \w+: not run here\./, "$recipe says that it was not run");
        like(slurp($recipe), qr/^\s*version(?:\("| = ')\Q$version\E['"]/m, '... and has the version');
        is(system('python3', '-c', 'import ast, sys; ast.parse(open(sys.argv[1]).read())', $recipe), 0, '... and is Python')
            if have('python3');
    }
}

# everything below is used from elsewhere than where it was installed
my $usr = "$tmp/moved";
rename "$root/usr", $usr or die "rename: $!\n";
$ENV{PKG_CONFIG_PATH} = "$usr/lib/pkgconfig";

my @symbols = map { (split)[-1] } split /\n/, `nm -D --defined-only '$usr/lib/libftkit.so'`;
s/\@.*// for @symbols;
my %exported = map { $_ => 1 } grep { $_ ne 'FTKIT_0' } @symbols;
my @foreign = grep { !/^ftkit_/ } sort keys %exported;
is("@foreign", '', 'the shared library exports ftkit_* only');
my %declared = map { $_ => 1 } # the second is for bindings, and not installed
    map { slurp($_) =~ /^FTKIT_API [^;(]*?(ftkit_\w+)\(/mg }
    "$usr/include/ftkit.h", "$top/lib/core/binding.h";
is(join(' ', sort keys %exported), join(' ', sort keys %declared),
    '... just what the headers declare');
like(`readelf -d '$usr/lib/libftkit.so'`, qr/SONAME.*\[libftkit\.so\.0\]/, '... has a SONAME');
my @archive = map { (split)[-1] } grep { / [TDBRVWC] / } split /\n/,
    `nm -g --defined-only '$usr/lib/libftkit.a' 2>/dev/null`;
cmp_ok(scalar @archive, '>', 50, 'the static library has symbols');
is(join(' ', grep { !/^ftk(it)?_/ } @archive), '', '... all with our prefixes');
is(join(' ', grep {/^P?MPIX?_/i} @archive, @symbols), '', 'no MPI function is replaced');

# ---- the header ----------------------------------------------------------------------------

write_file("$tmp/alone.c", "#include <ftkit.h>\nint main(void)\n{\n    return FTKIT_OK;\n}\n");
my @warn = qw(-Wall -Wextra -Wpedantic -Werror);
my @compilers = grep { have($_) } qw(gcc clang);
for my $cc (@compilers) {
    local @ENV{qw(OMPI_CC MPICH_CC)} = ($cc, $cc);
    run("the header alone as C11, $cc",
        "$mpicc -std=c11 @warn -I$usr/include -c $tmp/alone.c -o alone.o");
    run("... and as C99",
        "$mpicc -std=c99 @warn -I$usr/include -c $tmp/alone.c -o alone.o");
}

# ---- programs ------------------------------------------------------------------------------

my $body = <<'END';
#include <ftkit.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    ftkit_ctx *ft = NULL;
    int x[3] = { 1, 2, 3 };
    uint64_t set = 0;
    MPI_Init(&argc, &argv);
    for (int run = 0; run < 2; run++) {
        int rc = ftkit_open(MPI_COMM_WORLD, NULL, &ft);
        if (rc != FTKIT_OK) {
            fprintf(stderr, "open: %s: %s\n", ftkit_strerror(rc), ftkit_detail(NULL));
            return 1;
        }
        if (ftkit_register(ft, "x", x, 3, MPI_INT) != FTKIT_OK
            || ftkit_recover(ft, &set) != (run ? FTKIT_OK : FTKIT_NO_SET)
            || ftkit_request(ft, 1) != FTKIT_OK || ftkit_checkpoint(ft) != FTKIT_OK
            || ftkit_finish(ft) != FTKIT_OK) {
            fprintf(stderr, "%s\n", ftkit_detail(ft));
            return 1;
        }
        if (ftkit_close(&ft) != FTKIT_OK || x[0] != 1 || x[2] != 3)
            return 1;
        memset(x, 0, sizeof x);
    }
    printf("restored set %d with ftkit %s\n", (int)set, ftkit_version());
    MPI_Finalize();
    return set == 1 ? 0 : 1;
}
END
write_file("$tmp/prog.c", $body);
my $cxx_body = $body;
$cxx_body =~ s/\bNULL\b/nullptr/g;
$cxx_body =~ s/int main/#include <vector>\n\nstatic_assert(__cplusplus >= 201703L, "C++17");\n\nint main/;
write_file("$tmp/prog.cpp", $cxx_body);
my $works = qr/^restored set 1 with ftkit 0\.1\.0$/m;

sub program
{
    my ($what, $compile, $run) = @_;
    my $dir = sprintf '%s/program%02d', $tmp, $n++;
    mkdir $dir;
    run("$what: builds", $compile, $dir) or return;
    run("$what: runs", $run // './prog', $dir);
    like($out, $works, "$what: works");
    return $dir;
}

chomp(my $version = `pkg-config --modversion ftkit`);
is($version, '0.1.0', 'pkg-config finds the version');
chomp(my $cc_said = `pkg-config --variable=mpicc ftkit`);
is($cc_said, $mpicc, 'pkg-config knows the compiler');
for my $package ('ftkit', $ulfm ? 'ftkit-mpi' : ()) {
    chomp(my @said = map { scalar `pkg-config --variable=$_ $package` } qw(mpicxx mpifc));
    is($said[0], have($mpicxx) ? $mpicxx : '', "pkg-config, $package: the compiler for C++");
    is($said[1], $mpifc // '', '... and that for Fortran');
}
chomp(my $pc = `pkg-config --cflags --libs ftkit`);
chomp(my $pc_static = `pkg-config --static --cflags --libs ftkit`);
unlike($pc, qr/-l(hdf5|xxhash|inih)/, 'pkg-config: what is private stays private');
like($pc_static, qr/-lhdf5.*-lxxhash.*-linih/, '... unless it is asked for');

my $dir = program('C, shared', "$mpicc -std=c11 @warn $tmp/prog.c $pc -o prog",
    "LD_LIBRARY_PATH=$usr/lib ./prog");
like(`readelf -d '$dir/prog'`, qr/NEEDED.*\[libftkit\.so\.0\]/, '... needs libftkit.so.0')
    if $dir;
$dir = program('C, static',
    "$mpicc -std=c11 @warn $tmp/prog.c " . ($pc_static =~ s/-lftkit\b/-l:libftkit.a/r)
        . ' -o prog');
unlike(`readelf -d '$dir/prog'`, qr/NEEDED.*libftkit/, '... needs no libftkit.so') if $dir;

# with the wrapper of MPI if there is one, else with the flags of the one for C
SKIP: {
    skip 'no C++ compiler', 4 unless have('g++');
    for my $cxx (grep { have($_) } qw(g++ clang++)) {
        local @ENV{qw(OMPI_CXX MPICH_CXX)} = ($cxx, $cxx);
        if (have($mpicxx)) {
            program("C++17, $cxx",
                "$mpicxx -std=c++17 @warn $tmp/prog.cpp $pc -o prog",
                "LD_LIBRARY_PATH=$usr/lib ./prog");
        }
    }
    my ($compile, $link) = map { my $f = `$mpicc $_ 2>/dev/null`; chomp $f; $f }
        ('--showme:compile', '--showme:link');
    skip 'this MPI does not tell its flags', 3 if $link eq '';
    program('C++17 with the flags of mpicc',
        "g++ -std=c++17 @warn $compile $tmp/prog.cpp $pc $link -o prog",
        "LD_LIBRARY_PATH=$usr/lib ./prog");
}

# ---- Fortran -------------------------------------------------------------------------------

SKIP: {
    skip 'no Fortran module with this MPI', 1 unless $fortran;
    ok(-s "$usr/$_", "$_ is there") for "include/ftkit-fortran-$fortran/ftkit.mod",
        map {"lib/$_"} qw(libftkit_fortran.a libftkit_fortran.so libftkit_fortran.so.0
        libftkit_fortran.so.0.1.0 pkgconfig/ftkit-fortran.pc);
    like(`readelf -d '$usr/lib/libftkit_fortran.so'`, qr/SONAME.*\[libftkit_fortran\.so\.0\]/,
        'the library for Fortran has a SONAME');
    my @names = grep { $_ !~ /ftkit/i } map { (split)[-1] } split /\n/,
        `nm -D --defined-only '$usr/lib/libftkit_fortran.so'`;
    is(join(' ', grep { !/^FTKIT_0/ } @names), '', '... exports its own names only');
    write_file("$tmp/prog.f90", <<'END');
program prog
    use mpi_f08
    use ftkit
    use, intrinsic :: iso_fortran_env, only: int64
    implicit none
    type(ftkit_ctx) :: ft
    integer, target :: x(3)
    integer(int64) :: set
    integer :: run, ierr
    x = [1, 2, 3]
    call MPI_Init()
    do run = 1, 2
        call ftkit_open(MPI_COMM_WORLD, '', ft)
        call ftkit_register(ft, 'x', x)
        call ftkit_recover(ft, set, ierr)
        if (ierr /= merge(FTKIT_NO_SET, FTKIT_OK, run == 1)) error stop 'recover'
        call ftkit_request(ft, .true.)
        call ftkit_checkpoint(ft)
        call ftkit_finish(ft, ierr)
        call ftkit_close(ft)
        if (any(x /= [1, 2, 3])) error stop 'contents'
        x = 0
    end do
    print '(a, i0, 2a)', 'restored set ', set, ' with ftkit ', ftkit_version()
    call MPI_Finalize()
end program
END
    chomp(my $said = `pkg-config --variable=mpifc ftkit-fortran`);
    is($said, $mpifc, 'pkg-config knows the compiler');
    chomp(my $fpc = `pkg-config --cflags --libs ftkit-fortran`);
    chomp(my $fpc_static = `pkg-config --static --cflags --libs ftkit-fortran`);
    my @fwarn = qw(-std=f2018 -Wall -Wextra -Werror);
    my $d = program('Fortran, shared', "$mpifc @fwarn $tmp/prog.f90 $fpc -o prog",
        "LD_LIBRARY_PATH=$usr/lib ./prog");
    like(`readelf -d '$d/prog'`, qr/NEEDED.*\[libftkit_fortran\.so\.0\]/,
        '... needs libftkit_fortran.so.0') if $d;
    s/-lftkit(_fortran)?(?=\s|$)/"-l:libftkit" . ($1 \/\/ '') . '.a'/ge for $fpc_static;
    $d = program('Fortran, static', "$mpifc @fwarn $tmp/prog.f90 $fpc_static -o prog");
    unlike(`readelf -d '$d/prog'`, qr/NEEDED.*libftkit/, '... needs no libftkit*.so') if $d;
}

# ---- OpenSHMEM -----------------------------------------------------------------------------

write_file("$tmp/shmem.c", <<'END');
#include <shmem.h>
#include <stdio.h>

static long from;

int main(void)
{
    shmem_init();
    const int me = shmem_my_pe(), n = shmem_n_pes();
    shmem_long_p(&from, me + 1, (me + 1) % n);
    shmem_barrier_all();
    const int good = from == (me + n - 1) % n + 1 && shmem_checkpoint_all() == SHMEM_FT_SUCCESS;
    if (me == 0 && good)
        puts("a put has come");
    shmem_finalize();
    return !good;
}
END
SKIP: {
    skip 'no message log with this MPI', 1 unless $ulfm;
    ok(-s "$usr/$_", "$_ is there") for qw(include/ftkit-shmem/shmem.h include/ftkit-shmem/shmem_generic.h
        include/ftkit-shmem/mpp/shmem.h), map {"lib/$_"}
        qw(libftkit_shmem.so libftkit_shmem.so.0 libftkit_shmem.so.0.1.0 pkgconfig/ftkit-shmem.pc);
    my @names = map { (split)[-1] =~ s/\@.*//r } split /\n/,
        `nm -D --defined-only '$usr/lib/libftkit_shmem.so'`;
    my %shmem = map { $_ => 1 } qw(FTKIT_SHMEM_0 start_pes _my_pe _num_pes shmalloc shrealloc shmemalign shfree);
    cmp_ok(scalar @names, '>', 400, 'the library for OpenSHMEM has its calls');
    is(join(' ', grep { !/^shmem_/ && !$shmem{$_} } @names), '', '... and exports nothing else');
    chomp(my $spc = `pkg-config --cflags --libs ftkit-shmem`);
    local @ENV{qw(PATH LD_LIBRARY_PATH)} = ("$usr/bin:$ENV{PATH}", "$usr/lib");
    my $in = sprintf '%s/shmem', $tmp;
    mkdir $in;
    my $go = 'FTKIT_LEVEL_HDF5_ENABLED=false ftkit run --no-relaunch -n 2 --spares 0 --';
    run('OpenSHMEM: builds with pkg-config',
        "$mpicc -std=c11 @warn $tmp/shmem.c $spc -o prog && $go ./prog", $in);
    like($out, qr/^\0?a put has come$/m, '... and works');
    run('OpenSHMEM: the header alone in C++', "cp $tmp/shmem.c one.cpp && $mpicxx -std=c++17 "
        . "-Wall -Wextra -Werror one.cpp $spc -o prog_cxx && $go ./prog_cxx", $in) if have($mpicxx);
    if (have('cmake')) {
        write_file("$in/CMakeLists.txt", "cmake_minimum_required(VERSION 3.16)\nproject(user C)\n"
            . "find_package(ftkit REQUIRED)\nadd_executable(prog_cmake ../shmem.c)\n"
            . "target_link_libraries(prog_cmake ftkit::shmem)\n");
        run('OpenSHMEM: builds with CMake', "cmake -DCMAKE_PREFIX_PATH=$usr -S . -B b && "
            . "cmake --build b && $go b/prog_cmake", $in);
        like($out, qr/^\0?a put has come$/m, '... and works');
    }
}

# ---- Python ----------------------------------------------------------------------------------

SKIP: {
    skip 'no Python', 1 unless have('python3');
    my ($module) = glob("$usr/lib/python3*/*-packages/ftkit/__init__.py");
    ok($module, 'the module for Python is there') or last SKIP;
    local $ENV{PYTHONPATH} = $module =~ s{/ftkit/__init__\.py$}{}r;
    run('... and finds its libraries', 'python3 -c "import ftkit; from ftkit import _library; '
        . 'print(ftkit.version(), _library._directory())"');
    like($out, qr/^0\.1\.0 \Q$usr\E\/lib$/m, '... in the prefix');
}

# ---- drop-in headers --------------------------------------------------------------------------

my %peer = (
    veloc => ['VELOC', "scratch = /tmp\npersistent = sets\nmode = sync\n", <<'END'],
#include <veloc.h>
int main(int argc, char **argv)
{
    int x = argc, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int good = size == 2 && VELOC_Init(MPI_COMM_WORLD, argv[1]) == VELOC_SUCCESS
                     && VELOC_Mem_protect(0, &x, 1, sizeof x) == VELOC_SUCCESS
                     && VELOC_Restart_test("x", 0) == VELOC_FAILURE
                     && VELOC_Checkpoint("x", 1) == VELOC_SUCCESS && VELOC_Finalize(1) == VELOC_SUCCESS;
    MPI_Finalize();
    return !good;
}
END
    scr => ['SCR', "SCR_PREFIX = sets\n", <<'END'],
#define _POSIX_C_SOURCE 200809L
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int size, flag;
    char path[SCR_MAX_FILENAME];
    setenv("SCR_CONF_FILE", argv[argc - 1], 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int good = size == 2 && SCR_Init() == SCR_SUCCESS && SCR_Have_restart(&flag, NULL) == SCR_SUCCESS
               && flag == 0 && SCR_Start_checkpoint() == SCR_SUCCESS
               && SCR_Route_file("sets/file", path) == SCR_SUCCESS;
    FILE *f = good ? fopen(path, "w") : NULL;
    good = f && fclose(f) == 0 && SCR_Complete_checkpoint(1) == SCR_SUCCESS && SCR_Finalize() == SCR_SUCCESS;
    MPI_Finalize();
    return !good;
}
END
    fti => ['FTI', "[Basic]\nGlbl_dir = sets\n", <<'END'],
#include <fti.h>
int main(int argc, char **argv)
{
    int x = argc, size;
    MPI_Init(&argc, &argv);
    const int good = FTI_Init(argv[1], MPI_COMM_WORLD) == FTI_SCES
                     && MPI_Comm_size(FTI_COMM_WORLD, &size) == MPI_SUCCESS && size == 2
                     && FTI_Protect(0, &x, 1, FTI_INTG) == FTI_SCES && FTI_Status() == 0
                     && FTI_Checkpoint(1, 4) == FTI_DONE && FTI_Finalize() == FTI_SCES;
    MPI_Finalize();
    return !good;
}
END
);
for my $peer (sort keys %peer) {
    my ($prefix, $settings, $program) = @{ $peer{$peer} };
    ok(-s "$usr/$_", "$peer: $_ is there") for "include/ftkit-compat/$peer/$peer.h",
        map {"lib/$_"} map({"libftkit_$peer.so$_"} '', '.0', '.0.1.0'), "pkgconfig/ftkit-compat/$peer/$peer.pc";
    my @names = map { (split)[-1] =~ s/\@.*//r } split /\n/,
        `nm -D --defined-only '$usr/lib/libftkit_$peer.so'`;
    is(join(' ', grep { !/^(?:${prefix}_|__wrap_MPI_|FTKIT_)/ } @names), '', '... and exports its calls alone');
    isnt(system("pkg-config --exists $peer"), 0, '... hidden from programs that do not ask for it');
    mkdir "$tmp/peers"; # an installed peer
    write_file("$tmp/peers/$_.pc", "Name: $_\nDescription: the peer\nVersion: 1\nLibs: -lpeer_$_\n") for keys %peer;
    local $ENV{PKG_CONFIG_PATH} = "$usr/lib/pkgconfig/ftkit-compat/$peer:$tmp/peers:$ENV{PKG_CONFIG_PATH}";
    my ($other) = grep { $_ ne $peer } keys %peer;
    like(scalar `pkg-config --libs $other`, qr/-lpeer_$other/, '... beside another peer that is installed');
    chomp(my $cpc = `pkg-config --cflags --libs $peer`);
    local @ENV{qw(PATH LD_LIBRARY_PATH)} = ("$usr/bin:$ENV{PATH}", "$usr/lib");
    my $in = "$tmp/$peer";
    mkdir $in;
    write_file("$in/prog.c", $program);
    write_file("$in/config", $settings);
    local $ENV{FTKIT_LOG_ENABLED} = 'true' if $ulfm; # without the log spares are refused
    my $spares = $ulfm ? 1 : 0;
    run('... a program builds with pkg-config, and runs', "$mpicc -std=c11 @warn prog.c $cpc -o prog "
        . "&& ftkit run --no-relaunch -n 2 --spares $spares -- ./prog config", $in);
    ok(-d "$in/sets", '... in the directory of its settings');
    run('... in C++', "cp prog.c prog.cpp && $mpicxx -std=c++17 -Wall -Wextra -Werror prog.cpp $cpc -o prog_cxx", $in)
        if have($mpicxx);
    next if !have('cmake');
    mkdir "$in/cmake";
    write_file("$in/cmake/CMakeLists.txt", "cmake_minimum_required(VERSION 3.16)\nproject(user C)\n"
        . "find_package(ftkit REQUIRED)\nadd_executable(prog ../prog.c)\n"
        . "target_link_libraries(prog MPI::MPI_C ftkit::$peer)\n");
    run('... with CMake', "rm -rf sets && cmake -DCMAKE_PREFIX_PATH=$usr -S cmake -B b && cmake --build b "
        . "&& ftkit run --no-relaunch -n 2 --spares $spares -- b/prog config", $in);
    my %linked = map { my $prog = $_; ($prog => join ' ', sort `readelf -d '$in/$prog'` =~ /NEEDED.*\[(libftkit\S*)\]/g) } qw(prog b/prog);
    is($linked{'b/prog'}, $linked{prog}, '... and the libraries of pkg-config');
}

# ---- CMake ---------------------------------------------------------------------------------

SKIP: {
    skip 'no CMake', 1 unless have('cmake');
    my $src = "$tmp/cmake";
    mkdir $src;
    write_file("$src/CMakeLists.txt", <<'END');
cmake_minimum_required(VERSION 3.16)
project(user C CXX)
find_package(ftkit 0.1 REQUIRED)
add_executable(prog ../prog.c)
target_link_libraries(prog PRIVATE ftkit::ftkit)
if(TARGET ftkit::mpi)
    add_executable(prog_mpi ../prog.c)
    target_link_libraries(prog_mpi PRIVATE MPI::MPI_C ftkit::mpi)
endif()
add_executable(prog_static ../prog.c)
target_link_libraries(prog_static PRIVATE ftkit::ftkit_static)
add_executable(prog_cxx ../prog.cpp)
set_target_properties(prog_cxx PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
target_link_libraries(prog_cxx PRIVATE ftkit::ftkit)
END
    my $configure = "cmake -DCMAKE_PREFIX_PATH=$usr";
    run('CMake: configures', "$configure -S $src -B $tmp/cbuild") or skip 'CMake', 1;
    run('CMake: builds', "cmake --build $tmp/cbuild");
    for my $prog (qw(prog prog_static prog_cxx)) {
        run("CMake: $prog runs", "$tmp/cbuild/$prog");
        like($out, $works, "CMake: $prog works");
    }
    if ($ulfm) {
        my ($first) = `readelf -d '$tmp/cbuild/prog_mpi'` =~ /NEEDED.*\[(.*?)\]/;
        is($first, 'libftkit_mpi.so.0', 'CMake: ftkit::mpi comes before MPI, named before it');
        local @ENV{qw(PATH FTKIT_LOG_ENABLED)} = ("$usr/bin:$ENV{PATH}", 'true');
        my $go = 'ftkit run --no-relaunch -n 2 --spares 0 --'; # it opens twice
        run('CMake: ftkit::mpi: a job with the message log', "$go $tmp/cbuild/prog_mpi");
        like($out, $works, '... works');
        mkdir "$tmp/bare";
        my $bare = `cd '$tmp/bare' && '$top/scripts/guard' 60 -- $go '$tmp/cbuild/prog' 2>&1`;
        like($bare, qr/libftkit_mpi/, '... and not without it');
    }

    # policies of CMake 3.0, and a build directory that has another MPI
    my $old = "$tmp/cmake-old";
    mkdir $old;
    write_file("$old/CMakeLists.txt", <<'END');
cmake_minimum_required(VERSION 3.0)
project(user C)
if(FIRST)
    find_package(MPI REQUIRED)
endif()
find_package(ftkit REQUIRED)
add_executable(prog ../prog.c)
target_link_libraries(prog ftkit::ftkit)
END
    run('CMake: a project with the policies of 3.0',
        "$configure -S $old -B $old/b && cmake --build $old/b && $old/b/prog");
    like($out, $works, '... works');
    run('CMake: a project that has found the same MPI before', "$configure -DFIRST=ON "
        . "-DMPI_C_COMPILER=$mpicc -S $old -B $old/same && cmake --build $old/same");
    for my $other (grep { have($_) } qw(mpicc.mpich mpicc.openmpi)) {
        chomp(my $path = `sh -c 'command -v $other'`);
        for my $first (qw(OFF ON)) {
            my $said = `$configure -DMPI_C_COMPILER=$path -DFIRST=$first -S $old -B $old/$other-$first 2>&1`;
            isnt($?, 0, "CMake: a project that has found $other"
                    . ($first eq 'ON' ? ' before' : '') . ' is refused');
            $said =~ s/\s+/ /g;
            like($said, qr/two MPIs: ftkit was built with \S*libmpi\S*, and this project has found \S*libmpi/,
                '... and both are named');
        }
    }
    for my $case (['C', 'prog.c'], ['CXX', 'prog.cpp']) {
        my ($language, $file) = @$case;
        my $one = "$tmp/cmake-$language";
        mkdir $one;
        write_file("$one/CMakeLists.txt", "cmake_minimum_required(VERSION 3.16)\n"
            . "project(user $language)\nset(CMAKE_CXX_STANDARD 17)\n"
            . "find_package(ftkit REQUIRED)\nadd_executable(prog ../$file)\n"
            . "target_link_libraries(prog ftkit::ftkit)\n");
        run("CMake: a project in $language only",
            "$configure -S $one -B $one/b && cmake --build $one/b && $one/b/prog");
        like($out, $works, '... works');
    }
    my @case = $fortran ? ('Fortran', 'C Fortran') : ();
    for my $languages (@case) {
        my $one = "$tmp/cmake-" . ($languages =~ s/ /-/r);
        mkdir $one;
        write_file("$one/CMakeLists.txt", "cmake_minimum_required(VERSION 3.16)\n"
            . "project(user $languages)\nfind_package(ftkit REQUIRED)\n"
            . "add_executable(prog ../prog.f90)\n"
            . "target_link_libraries(prog ftkit::fortran)\n");
        run("CMake: a project in $languages",
            "$configure -S $one -B $one/b && cmake --build $one/b && $one/b/prog");
        like($out, $works, '... works');
    }
    for my $case (['0.2', 'newer'], ['1.0', 'next'], ['0.0.9', 'older'], ['0.1.1', 'patch']) {
        my ($wanted, $what) = @$case;
        my $one = "$tmp/cmake-$what";
        mkdir $one;
        write_file("$one/CMakeLists.txt", "cmake_minimum_required(VERSION 3.16)\n"
            . "project(user C)\nfind_package(ftkit $wanted)\n"
            . "if(ftkit_FOUND)\nmessage(FATAL_ERROR found)\nendif()\n");
        run("CMake: version $wanted is not there", "$configure -S $one -B $one/b");
    }
}

# ---- what is missing, or left out -----------------------------------------------------------

{
    # pkg-config that knows HDF5 by the name of others, and a compiler without METIS
    local $ENV{PKG_CONFIG_LIBDIR} = "$tmp/pc";
    local $ENV{FTKIT_NO_INSTALL} = 1;
    delete local $ENV{PKG_CONFIG_PATH};
    my ($hdf5) = slurp("$build/mpi.mk") =~ /^HDF5_PKG := (.*)$/m;
    my %at = map { my $p = $_; chomp(my $d = `env -u PKG_CONFIG_LIBDIR pkg-config --variable=pcfiledir $p`);
        $p => "$d/$p.pc" } $hdf5, qw(libxxhash inih libisal);
    mkdir "$tmp/pc";
    write_file("$tmp/mpicc", "#!/bin/sh\ncase \" \$* \" in *' -lmetis '*) exit 1 ;; esac\n"
        . "exec $mpicc \"\$\@\"\n");
    chmod 0755, "$tmp/mpicc";
    my $deps = "MPICC='$tmp/mpicc' MPIFC=/bin/false '$top/scripts/deps'";
    my $said = `$deps 2>&1`;
    is($? >> 8, 1, 'deps: without libraries that ftkit needs');
    like($said, qr/^ftkit: +$_ .*Debian \S+ +Fedora \S+ +Spack \S+$/m, "... names $_")
        for qw(HDF5 xxHash inih ISA-L);
    like($said, qr/^ftkit: libpmem +missing.*\n.*pmem is refused/m, '... and what may be missing');
    write_file("$tmp/pc/" . ($_ eq $hdf5 ? 'hdf5' : $_) . '.pc', slurp($at{$_})) for keys %at;
    my $made = `$deps 2>$tmp/deps.err`;
    is($?, 0, 'deps: without what may be missing') or diag(slurp("$tmp/deps.err"));
    like($made, qr/^$_$/m, "... says $_")
        for 'HDF5_PKG := hdf5', 'HAVE_PMEM := no', 'HAVE_METIS := no', 'HAVE_JANSSON := no';
    like(slurp("$tmp/deps.err"), qr/missing.*\n.*$_/, "... and what is lost: $_")
        for 'pmem is refused', 'may find worse teams', 'report makes no page', 'mpi_f08';
}

# libpmem, METIS and jansson left out: only what differs is compiled
my $without = "$tmp/without";
mkdir $without;
system("cp -a '$build/mpi.mk' '$build/rel' '$build/gen' '$without/'") == 0 or die "cp\n";
if (run('make without libpmem, METIS and jansson', "make --no-print-directory BUILD=$without WITH_PMEM=no "
        . "WITH_METIS=no WITH_JANSSON=no $without/ftkit", $top))
{
    unlike(`ldd '$without/ftkit'`, qr/pmem|metis|jansson/, '... needs none of them');
    write_file("$tmp/matrix.csv", join '', map {"$_\n"} '# ftkit communication matrix 1',
        '# context: default', '# ranks: 4', 'from,to,messages,bytes', '0,2,1,100', '1,3,1,100', '# end: 2 pairs');
    write_file("$tmp/teams.txt", "0,2\n1,3\n");
    my $said = `'$without/ftkit' teams --size 2 '$tmp/matrix.csv' 2>&1`;
    is($? >> 8, 0, '... ftkit teams proposes teams');
    like($said, qr/^0,2\n1,3\n/m, '... which log nothing');
    $said = `'$without/ftkit' report '$top/tests/data/events' 2>&1`;
    ok($? >> 8 == 1 && $said =~ /no ftkit report: jansson was missing/, '... ftkit report says why') or diag($said);
    $said = `'$without/ftkit' teams --file '$tmp/teams.txt' '$tmp/matrix.csv' 2>&1`;
    is($?, 0, '... it judges teams that are given') or diag($said);
    for my $case (['level.memory', 'FTKIT_LEVEL_MEMORY_PLACE' => 'pmem'],
        ['level.local', 'FTKIT_LEVEL_LOCAL_PLACE' => 'pmem', FTKIT_LEVEL_LOCAL_SCHEME => 'own'])
    {
        my ($level, %set) = @$case;
        local @ENV{ keys %set } = values %set;
        (my $link = $pc_static) =~ s/-L\S+ -lftkit\b/$without\/libftkit.a/;
        $said = `cd '$without' && $mpicc '$tmp/prog.c' $link -o prog && '$top/scripts/guard' 60 -- ./prog 2>&1`;
        like($said, qr/^open: not supported by .*: \Q$level\E\.place = pmem: .*built without libpmem/m,
            "... $level.place = pmem is FTKIT_ERR_UNSUPPORTED");
    }
}

# libpmem is loaded only when it is asked for, and may be missing on a node
SKIP: {
    skip 'built without libpmem', 8 if slurp("$build/mpi.mk") !~ /^HAVE_PMEM := yes$/m;
    my $in = "$tmp/pmem";
    mkdir $in;
    run('pmem: a program', "$mpicc $tmp/prog.c " . ($pc_static =~ s/-lftkit\b/-l:libftkit.a/r) . ' -o prog', $in);
    unlike(`ldd '$_'`, qr/pmem|ndctl/, "pmem: no library of $_") for "$in/prog", "$usr/bin/ftkit";
    mkdir "$in/$_" for qw(other old slots);
    write_file("$in/other/libpmem.so.1", '#' x 100 . "\n");
    write_file("$in/old.c", "int pmem_map_file;\n");
    run('pmem: a library without the functions', 'cc -shared -o old/libpmem.so.1 old.c', $in);
    local $ENV{FTKIT_LEVEL_MEMORY_DIRECTORY} = "$in/slots";
    for my $case ([1, 'other', 'memory', qr/^/], [1, 'slots', 'pmem', qr/^/],
        [0, 'other', 'pmem', qr/libpmem\.so\.1: .*(?:header|ELF).*libpmem1 of Debian.*use file or shared/],
        [0, 'old', 'pmem', qr/libpmem\.so\.1: .*symbol: pmem_unmap .*libpmem1 of Debian/])
    {
        my ($good, $library, $place, $like) = @$case;
        local $ENV{FTKIT_LEVEL_MEMORY_PLACE} = $place;
        local $ENV{LD_LIBRARY_PATH} = join ':', "$in/$library", grep {length} $ENV{LD_LIBRARY_PATH} // '';
        mkdir "$in/$library/$place";
        my $said = `cd '$in/$library/$place' && '$top/scripts/guard' 60 -- ../../prog 2>&1`;
        ok($good == ($? == 0) && $said =~ $like && $good == ($said !~ /^open: not supported by .*place = pmem: /m),
            "... $place with library $library") or diag($said);
    }
}

# ---- the program ---------------------------------------------------------------------------

run('ftkit runs', "$usr/bin/ftkit version");
like($out, qr/^ftkit 0\.1\.0 /, '... and says its version');

done_testing();
