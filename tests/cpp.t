#!/usr/bin/perl
# ftkit.hpp: each kind of region, and the loop, survive the loss of ranks and of the job; misuse is a
# message of the compiler or an exception.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
my ($mpicc) = slurp(build() . '/mpi.mk') =~ /^MPICC := (.*)$/m;
my $mpicxx = $mpicc =~ s/mpicc([^\/]*)$/mpicxx$1/r;
plan skip_all => 'no compiler for C++' if !-x $mpicxx || slurp(build() . '/libftkit.a') =~ /__asan_init/;

my @warn = qw(-Wall -Wextra -Wpedantic -Wshadow -Werror);
my ($top, $build, $program) = (top(), build(), scratch() . '/loop');

# What the compiler says of a program.
sub compiler
{
    my ($cxx, $standard, @rest) = @_;
    local $ENV{OMPI_CXX} = $cxx;
    return qx($mpicxx -std=$standard @warn -I$top/include @rest 2>&1);
}

for my $cxx (grep { system("command -v $_ >/dev/null 2>&1") == 0 } qw(g++ clang++)) {
    for my $standard (qw(c++17 c++20)) {
        is(compiler($cxx, $standard, '-Wno-unused-command-line-argument', "-fsyntax-only $top/tests/cpp/loop.cpp"), '', "$cxx, $standard");
    }
}
for my $cxx (grep { system("command -v $_ >/dev/null 2>&1") == 0 } qw(g++ clang++)) {
    is(compiler($cxx, 'c++17', '-Wno-unused-command-line-argument', "-fsyntax-only $top/tests/cpp/files.cpp"), '', "files.cpp: $cxx");
}
is(compiler('g++', 'c++17', "-o $program-files $top/tests/cpp/files.cpp $build/libftkit_mpi.a "
            . "$build/libftkit-test.a", packages()), '', 'a program with files of its own is built');
is(compiler('g++', 'c++17', "-o $program $top/tests/cpp/loop.cpp $build/libftkit_mpi.a "
            . "$build/libftkit-test.a", packages()), '', 'the program is built');

# ---- jobs ----------------------------------------------------------------------------------------

my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '4 calls');
my %log = (%memory, FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 1);
my %files = (FTKIT_CHECKPOINT_PERIOD => '4 calls', FTKIT_LEVEL_HDF5_EVERY => '1 sets');
my $jobs = 0;

sub ends
{
    my ($name, $want, $args, %o) = @_;
    my $work = sprintf '%s/job%02d', scratch(), ++$jobs;
    my $j = job(program => $program, keep => $work, timeout => 60, spares => 2, env => \%memory, %o,
        args => [ @$args, "$work/out" ]);
    ok($j->{rc} == 0 && ($want ? $j->{result} eq $want : $j->{result} =~ /^20 particles, pass 59, 0x/)
            && $j->{log} =~ ($o{like} // qr/^/), $name)
        or diag("exit code $j->{rc}, $j->{result}", substr $j->{log}, 0, 5000);
    return $j->{result};
}

my $all = ends('undisturbed', '', [], spares => 0, like => qr/rank 0: back 0 times/);
ends('a rank is lost twice', $all, [qw(-v 2)], like => qr/rank 0: back 2 times, 1 failed/);
ends('... with files between two calls', $all, [qw(-v 2 -f)], like => qr/rank 0: back 2 times, 1 failed/);
ends('... rank 0', $all, [qw(-v 0)], like => qr/rank 1: back 2 times/);
ends('... spawned processes replace it', $all, [qw(-v 1)], spares => 0,
    env => { %memory, FTKIT_RECOVER_SUPPLY => 'spawn' }, like => qr/rank 0: back 2 times/);
ends('... with the message log', $all, [qw(-v 1)], env => \%log,
    like => qr/rank 0: back 0 times.*rank 1: back 1 times|rank 1: back 1 times.*rank 0: back 0 times/s);
ends('... XOR in shared memory', $all, [qw(-v 3)],
    env => { %memory, FTKIT_LEVEL_MEMORY_SCHEME => 'xor', FTKIT_LEVEL_MEMORY_PLACE => 'shared' },
    like => qr/rank 0: back 2 times/);
ends('... behind the last pass', $all, [], fault => 'finish.begin:2:1:kill', env => { %memory, FTKIT_CHECKPOINT_PERIOD => '1 calls' },
    like => qr/rank 2: back 1 times/);
ends('the job is lost, and restarts from files', $all, [qw(-v 1)], spares => 0, run => [],
    env => { %files, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_RECOVER_SUPPLY => 'end' }, like => qr/restored set \d+ from files/);
for my $how ([], ['-f'], ['-j']) {
    my $work = sprintf '%s/job%02d', scratch(), ++$jobs;
    my %job = (program => "$program-files", keep => $work, spares => 0, args => [ @$how, "$work/out" ],
        env => { %files, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', FTKIT_RECOVER_SUPPLY => 'end' });
    isnt(job(%job, n => 3)->{rc}, 0, "files of the program: the job is lost (@$how)");
    my $j = job(%job, n => 2);
    my $of = "@$how" eq '-j' ? 0 : 3; # joint files are of no rank
    is($j->{result}, "30 passes, files of $of ranks\n", '... and goes on on another number of ranks') or diag($j->{log});
}
ends('a rank is lost before ft.scrub() and ft.wait() in a pass', $all, [qw(-v 1 -w)], spares => 4, env => \%files,
    like => qr/rank 0: back 4 times/);
ends('an exception of one rank is a lost rank', $all, [qw(-x 33)],
    like => qr/rank 1 of the job.*because of an exception.*rank 0: back 1 times/s);
my $some = do { my $j = job(program => $program, keep => scratch() . '/end', spares => 0, env => \%memory,
        args => [ '-e', 41, scratch() . '/end/out' ]); $j->{result} };
like($some, qr/^14 particles, pass 40, 0x/, 'the loop ends early');
ends('... and ends so after a loss', $some, [qw(-v 1 -e 41)], like => qr/rank 0: back 2 times/);

# ---- objects in memory of a device ------------------------------------------------------------------

{
    my $device = scratch() . '/device';
    is(compiler('g++', 'c++17', "-o $device $top/tests/cpp/device.cpp $build/libftkit_mpi.a $build/libftkit-test.a", packages()),
        '', 'a program with a view and a vector in memory of a device is built');
    local $ENV{LD_LIBRARY_PATH} = join ':', "$build/fakecuda", grep {defined} $ENV{LD_LIBRARY_PATH};
    for my $case ([[], 'undisturbed', qr/^/], [[qw(-v 1)], 'a rank is lost twice', qr/rank 1 from the copy.*rank 1 from the copy/s]) {
        my ($args, $name, $like) = @$case;
        my $j = job(program => $device, keep => scratch() . "/device-@$args", spares => 2, timeout => 60, env => \%memory, args => $args);
        ok($j->{rc} == 0 && $j->{log} =~ /^device: 20 passes are right$/m && $j->{log} =~ $like, "... $name")
            or diag("rc $j->{rc}\n", substr $j->{log}, 0, 3000);
    }
}

# ---- the page ------------------------------------------------------------------------------------

my ($page) = slurp("$top/docs/cpp.md") =~ /^```cpp\n(.*?)^```$/ms;
my $of_page = write_file(scratch() . '/page.cpp', $page);
is(compiler('g++', 'c++17', '-o', scratch() . '/page', "$of_page $build/libftkit_mpi.a $build/libftkit-test.a", packages()),
    '', 'the program of docs/cpp.md is built');
for my $fault ('', 'ckpt.committed:1:30:kill') {
    my $j = job(program => scratch() . '/page', keep => scratch() . "/page-$fault", spares => 1, timeout => 60,
        env => { %memory, FTKIT_CHECKPOINT_PERIOD => '1 calls' }, fault => $fault);
    ok($j->{rc} == 0 && $j->{log} =~ /^sum 6, found 15$/m && @{ $j->{faults} } == ($fault ne ''),
        '... and runs' . ($fault && ', with a failure')) or diag($j->{log});
}

# ---- what is refused -----------------------------------------------------------------------------

# the header is compiled once; a source beside it has what was compiled
my $headers = scratch() . '/headers';
mkdir $headers;
write_file("$headers/ftkit.hpp", qq{#include "$top/include/ftkit.hpp"\n#include <array>\n#include <map>\n});
is(compiler('g++', 'c++17', "-c -x c++-header $headers/ftkit.hpp -o $headers/ftkit.hpp.gch"), '', 'the header alone is compiled');
my $n = 0;
sub refused
{
    my ($name, $code, $like) = @_;
    my $source = write_file("$headers/refused" . ++$n . '.cpp', <<"END");
#include "ftkit.hpp"
void f(ftkit::context &ft);
void f(ftkit::context &ft)
{
    $code
}
END
    like(compiler('g++', 'c++17', "-Winvalid-pch -fsyntax-only $source"), $like, $name);
}

refused('a constant', 'const double x = 1; ft.region("x", x);', qr/a restore writes to a region/);
refused('an address', 'double *x = nullptr; ft.region("x", x);', qr/an address means nothing/);
refused('a vector of vectors', 'std::vector<std::vector<int>> x; ft.region("x", x);', qr/context::object/);
refused('a vector of bool', 'std::vector<bool> x; ft.region("x", x);', qr/context::object/);
refused('a map', 'std::map<int, int> x; ft.region("x", x);', qr/context::object/);
refused('a vector that does not live on', 'ft.region("x", std::vector<int>(3));', qr/must live on/);
refused('a number that does not live on', 'ft.region("x", 3);', qr/must live on/);
refused('an array that does not live on', 'ft.region("x", std::array<int, 3>{});', qr/must live on/);
refused('a vector that is replicated', 'static std::vector<int> x; ft.replicated("x", x);', qr/cannot grow/);
refused('an array of addresses', 'static int *x[3]; ft.region("x", x);', qr/an address means nothing/);
refused('a vector of spans', 'struct span { int *p; int *data() const; }; static std::vector<span> x; ft.region("x", x);', qr/an address means nothing/);
refused('a matrix of unknown strides', 'struct m { int *data(); int size(); int outerStride(); }; static m x; ft.region("x", x);', qr/may have gaps/);
refused('a wait without a look at its result', 'ft.wait();', qr/nodiscard/);
refused('a reference', 'static int i; std::reference_wrapper<int> x(i); ft.region("x", x);', qr/an address means nothing/);
refused('a loop of a temporary', 'for (auto s : ftkit::context().loop(3)) { (void)s; }', qr/error/);
refused('a copy of the context', 'ftkit::context other(ft);', qr/deleted function/);
refused('what is not refused', 'static std::array<int, 3> x; static double *p; ft.region("x", x); ft.region("p", p, 3);',
    qr/^$/);

# ---- exceptions and codes ------------------------------------------------------------------------

my $source = write_file(scratch() . '/errors.cpp', <<'END');
#include <ftkit.hpp>
#include <cstdio>
#include <memory>
struct view {
    double cells[12] = {};
    std::size_t gap;
    static constexpr int rank = 2;
    double *data() { return cells; }
    std::size_t extent(std::size_t d) const { return d == 0 ? 3 : 2; }
    std::size_t stride(std::size_t d) const { return d == 0 ? 2 + gap : 1; }
};
template <class F> static void say(const char *what, F f)
{
    try {
        std::printf("%s: %d\n", what, f());
    } catch (const ftkit::error &e) {
        std::printf("%s: error %d, %s, %s\n", what, e.code(), e.fatal() ? "fatal" : "not fatal", e.what());
    }
}
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    say("open", [] { return ftkit::context(MPI_COMM_WORLD, "/no/such/file").code(); });
    say("open, nothrow", [] { return ftkit::context(std::nothrow, MPI_COMM_WORLD, "/no/such/file").code(); });
    {
        ftkit::context ft;
        double x[4] = {};
        view dense{ {}, 0 }, gap{ {}, 1 };
        say("x", [&] { return ft.region("x", x); });
        say("x again", [&] { return ft.region("x", x); });
        say("dense", [&] { return ft.region("dense", dense); });
        say("gap", [&] { return ft.region("gap", gap); });
        say("array", [&] { return ft.array("array", gap, { 3, 2 }, { 0, 0 }); });
        say("halo", [&] { return ft.array("halo", dense, { 3, 2 }, { 0, 0 }, { 2, 0 }); });
        say("shapes", [&] { return ft.array("shapes", x, { 4 }, { 4, 1 }, { 0 }); });
        say("end", [&] { return ft.end(); });
        say("close", [&] { return ft.close(); });
        say("closed", [&] { return ft.region("y", x); });
        int passes = 0;
        for (auto step : ft.loop(3))
            passes += step >= 0;
        std::printf("empty: %d passes, %s\n", passes, ft.finished() ? "finished" : "not finished");
    }
    {
        ftkit::context ft(std::nothrow);
        double x = 0;
        say("codes", [&] { return ft.region("a/b", x); });
        std::printf("detail: %s\n", ft.detail());
    }
    {
        ftkit::context ft(std::nothrow);
        double step = 0;
        ft.region("step", step);
        int passes = 0;
        for (auto pass : ft.loop(3))
            passes += pass >= 0;
        std::printf("name: %d passes, %d, %s\n", passes, ft.code(), ft.finished() ? "finished" : "not finished");
    }
    ftkit::context late;
    say("no step", [&] { return late.escape([] { std::printf("escape: ran\n"); }); });
    MPI_Finalize();
}
END
is(compiler('g++', 'c++17', '-o', scratch() . '/errors', "$source $build/libftkit_mpi.a $build/libftkit.a", packages()),
    '', 'a program with errors is built');
my ($said, $code) = do { local %ENV = (%ENV, FTKIT_LEVEL_HDF5_DIRECTORY => scratch(), %memory); my $go = scratch() . '/errors'; (scalar(`$go 2>&1`), $? >> 8) };
for my $line (qr/^open: error -8, not fatal, invalid configuration: .+/, qr/^open, nothrow: -8$/, qr/^x: 0$/,
    qr/^x again: error -3, not fatal, .*'x'/, qr/^dense: 0$/,
    qr/^gap: error -5, not fatal, .*region 'gap': .*gaps/, qr/^array: error -5, .*'array'/,
    qr/^halo: error -1, .*smaller than the halo/, qr/^shapes: error -1, .*'shapes'/,
    qr/^end: error -7, /, qr/^close: 0$/, qr/^closed: error -1, /, qr/^empty: 0 passes, not finished$/,
    qr/^codes: -2$/, qr{^detail: .*'a/b'}, qr/^name: 0 passes, -3, not finished$/, qr/^no step: error -7, /)
{
    ok((grep { $_ =~ $line } split /\n/, $said), "$line") or diag($said);
}
is($code, 1, 'a context that outlives MPI_Finalize is closed there: exit code 1');
like($said, qr/calls MPI_Finalize with context 'default' open/, '... and a line says so');

done_testing();
