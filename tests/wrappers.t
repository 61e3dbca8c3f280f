#!/usr/bin/perl
# What scripts/wrappers makes of mpi.h and lib/log/mpi/mpi.tab: every function of MPI is in the
# table, libftkit's own calls go past every layer, and libftkit_mpi gives those of the
# program to whom libftkit names, otherwise to the MPI.  Profiling tools in front of libftkit_mpi and
# behind it.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
my $top = top();
my $build = build();
my $tmp = scratch();
my $table = slurp("$top/lib/log/mpi/mpi.tab");
my $header = slurp("$build/gen/mpi.i");
my ($mpicc) = slurp("$build/mpi.mk") =~ /^MPICC := (.*)$/m;

sub put
{
    my ($path, $text) = @_;
    open my $f, '>', $path or die "$path: $!\n";
    print $f $text;
    close $f or die "$path: $!\n";
    return;
}

# Run the generator; its exit code and what it said.
sub wrappers
{
    my ($header_text, $table_text, @options) = @_;
    mkdir "$tmp/gen";
    put("$tmp/mpi.i", $header_text);
    put("$tmp/mpi.tab", $table_text);
    my $out = `'$top/scripts/wrappers' @options '$tmp/mpi.i' '$tmp/mpi.tab' '$tmp/gen' 2>&1`;
    return ($? >> 8, $out);
}

# ---- the generator -----------------------------------------------------------------------

my ($rc, $out) = wrappers($header, $table);
ok($rc == 0 && $out eq '', 'the table is whole') or diag($out);
my @made = qw(pmpi.h mpi_real.h mpi_calls.h mpi_calls.c wrap.c wrap_fortran.c mpi-support.md);
is(join(' ', grep { slurp("$tmp/gen/$_") ne slurp("$build/gen/$_") } @made), '',
    '... and what the build has');

# found in another way than the generator's
my %class = $table =~ /^(MPI_\w+) +(\w+)/mg;
my %declared = map { $_ => 1 } ($header =~ s/^#.*//mgr) =~ /\b(MPI_[A-Z][a-z]\w*)(?=\s*\()/g;
cmp_ok(scalar keys %declared, '>', 400, 'functions of MPI');
is(join(' ', grep { !$class{$_} } sort keys %declared), '', '... all in the table');
my %support = slurp("$tmp/gen/mpi-support.md") =~ /^\| (MPI_\w+) \| (\w+) \|/mg;
is_deeply([sort keys %support], [sort keys %declared], '... and in mpi-support.md');

($rc, $out) = wrappers($header, $table =~ s/^MPI_(?:Ssend|Win_create) .*\n//mgr);
isnt($rc, 0, 'functions that are not in the table fail');
is($out, "wrappers: not in $tmp/mpi.tab: MPI_Ssend MPI_Win_create\n", '... and are named');
($rc, $out) = wrappers("$header\nextern int MPI_Frobnicate(MPI_Comm comm);\n", $table);
ok($rc != 0 && $out =~ /: MPI_Frobnicate$/, 'also one of a newer MPI') or diag($out);
($rc, $out) = wrappers('int main(void);', $table);
ok($rc != 0 && $out =~ /declares no functions of MPI/, 'a header that is not that of MPI');
for my $case (['MPI_Send logged', qr/mpi\.tab, line \d+: not/], ['MPI_Send', qr/line \d+: not/],
    ['MPI_Send pass', qr/line \d+: MPI_Send again/])
{
    ($rc, $out) = wrappers($header, "$table\n$case->[0]\n");
    ok($rc != 0 && $out =~ $case->[1], "a line '$case->[0]' fails") or diag($out);
}

# how functions can be declared
my $new = <<'END';
typedef int (MPI_Some_function)(MPI_Comm, int);
struct MPI_Thing { int (*f)(int); };
extern int MPI_Send(const void *, int, MPI_Datatype, int, int,
    MPI_Comm) __attribute__((deprecated("use ; or )"))) __attribute__((nonnull(1)));
int PMPI_Send(const void *, int, MPI_Datatype, int, int, MPI_Comm);
int MPI_Group_range_incl(MPI_Group group, int n, int ranges[][3], MPI_Group * newgroup);
int PMPI_Group_range_incl(MPI_Group group, int n, int ranges[][3], MPI_Group * newgroup);
int MPI_Group_range_incl_c(MPI_Group group);
int PMPI_Group_range_incl_c(MPI_Group group);
int MPI_Send_c(const void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm);
int PMPI_Send_c(const void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm);
#define MPI_Comm_c2f(comm) ((MPI_Fint) (comm))
MPI_Fint MPI_Comm_c2f(MPI_Comm comm);
MPI_Fint PMPI_Comm_c2f(MPI_Comm comm);
int MPI_Pcontrol(const int level, ...);
int PMPI_Pcontrol(const int level, ...);
int MPI_Comm_toint(MPI_Comm comm);
int PMPI_Comm_toint(MPI_Comm comm);
int MPI_Request_toint(MPI_Request request);
int PMPI_Request_toint(MPI_Request request);
MPI_Request MPI_Request_fromint(int request);
MPI_Request PMPI_Request_fromint(int request);
int MPI_Type_size_x(MPI_Datatype datatype, MPI_Count *size);
int PMPI_Type_size_x(MPI_Datatype datatype, MPI_Count *size);
int MPI_Type_get_extent_x(MPI_Datatype datatype, MPI_Count *lb, MPI_Count *extent);
int PMPI_Type_get_extent_x(MPI_Datatype datatype, MPI_Count *lb, MPI_Count *extent);
int MPI_Type_get_extent_c(MPI_Datatype datatype, MPI_Count *lb, MPI_Count *extent);
int PMPI_Type_get_extent_c(MPI_Datatype datatype, MPI_Count *lb, MPI_Count *extent);
END
($rc, $out) = wrappers($new, $table);
is($out, '', 'another header');
my ($calls, $wrap, $pmpi, $log, $fortran) = map { slurp("$tmp/gen/$_") }
    qw(mpi_calls.h wrap.c pmpi.h mpi_calls.c wrap_fortran.c);
like($calls, qr/^int ftk_mpi_Send\(const void \*a1, int a2, MPI_Datatype a3, int a4, int a5, MPI_Comm a6\);$/m,
    'parameters without names get some');
like($wrap, qr/calls->Send\(a1, a2, a3, a4, a5, a6\)/, '... and are passed on');
unlike("$calls$wrap", qr/Group_range_incl/, 'what passes has no wrapper');
like($wrap, qr/calls->refuse\("MPI_Send_c", comm\)/, 'large counts of what is logged are refused');
my @defines = grep { !/_x / } $pmpi =~ /^#define (MPI_\w+ PMPI_\w+)$/mg;
is("@defines", join(' ', map {"MPI_$_ PMPI_$_"} qw(Comm_toint Group_range_incl Group_range_incl_c Pcontrol
    Request_fromint Request_toint Send Send_c Type_get_extent_c)), 'macros are left alone');
@defines = $pmpi =~ /^#define (PMPI_\w+ ftk_mpi_real\.\w+)$/mg;
is("@defines", join(' ', map {"PMPI_$_ ftk_mpi_real.$_"} qw(Request_fromint Request_toint Send Send_c)),
    '... and what the layer defines is called past it');
like($pmpi, qr/^#define ${_}MPI_Type_get_extent_x PMPI_Type_get_extent_c$/m,
    "an old name has the new one, where there is one: ${_}MPI") for '', 'P';
like($pmpi, qr/^#define MPI_Type_size_x PMPI_Type_size_x$/m, '... else its own');
my %fortran_of = (toint => 'c2f', fromint => 'f2c');
for (sort keys %fortran_of) {
    like($log, qr/^static \S+ i_Request_$_\(.*\n\{\n    return \(\S+\)ftk_mpi_Request_$fortran_of{$_}\(request\);\n\}/m,
        "the integer of a handle is its handle in Fortran: $_");
    is(() = $log =~ /^    \.Request_$_ = i_Request_$_,$/mg, 2, '... for one thread, and for several');
    like($wrap, qr/^    return calls->Request_$_\(request\);$/m, '... and no error code');
}
unlike($fortran, qr/int_/i, '... which Fortran does not have');

my $before = (stat "$tmp/gen/pmpi.h")[9];
utime 1, 1, "$tmp/gen/pmpi.h";
wrappers($new, $table);
is((stat "$tmp/gen/pmpi.h")[9], 1, 'what does not change is not written');
($rc, $out) = wrappers($header, 'no table', '--pmpi');
ok($rc == 0 && slurp("$tmp/gen/pmpi.h") eq slurp("$build/gen/pmpi.h") =~ s/^#(?:include|define PMPI_).*\n\n?//mgr,
    '--pmpi needs no table') or diag($out);

# ---- the libraries -----------------------------------------------------------------------

sub symbols
{
    my ($options, $file) = @_;
    my %seen = map { s/\@.*//r => 1 } map { (split)[-1] } grep {/ [A-Z] /} split /\n/,
        `nm $options '$file' 2>/dev/null`;
    return sort keys %seen;
}

# the interface for tools, MPI_T, is not in the table
my @own = grep { /^MPI_/ && !/^MPI_T_/ }
    symbols('-g --undefined-only', "$build/libftkit.a");
is("@own", '', 'libftkit calls no function that a layer may replace');

my @want = sort grep { $declared{$_} && $class{$_} ne 'pass' } keys %class;
my ($a, $so) = map {"$build/libftkit_mpi.$_"} qw(a so);
my @c = grep { /^MPI_[A-Z][a-z]/ } symbols('-g --defined-only', $a);
is("@c", "@want", 'libftkit_mpi.a has what is not passed');
is(join(' ', grep { /^PMPI_/ } symbols('-g --defined-only', $a)), '', '... and no name PMPI_');
@c = grep { /^MPI_[A-Z][a-z]/ } symbols('-D --defined-only', $so);
is("@c", "@want", 'libftkit_mpi.so, too');
@c = grep { /^PMPI_[A-Z][a-z]/ } symbols('-D --defined-only', $so);
is("@c", join(' ', map {"P$_"} @want), '... and under the names PMPI_');
is(join(' ', grep { !/^(?:PMPI|ompi)_|^(?:free|malloc|realloc|dlsym|strncat|__strncat_chk)$/ } symbols('-D --undefined-only', $so)),
    join(' ', map {"mpi_fortran_${_}_"} qw(bottom in_place status_ignore statuses_ignore
        unweighted weights_empty)), '... and needs only the MPI');

# Fortran's names of the same functions, and of what C does not have; the MPI's own are not
# needed where there is no Fortran
my @bound = map { lc } grep { !/_(?:[cf]2[cf]|(?:to|from)int)$/ } @want;
my @forms = map { ("${_}_", $_, "${_}__", uc, "${_}_f08_") }
    @bound, map {"mpi_${_}_cptr"} qw(alloc_mem win_allocate win_allocate_shared win_shared_query);
is(join(' ', grep { /^mpi_|^MPI_[A-Z_0-9]+$/ } symbols('-D --defined-only', $so)),
    join(' ', sort @forms), 'Fortran programs come by it, too');
# an MPI that was built without Fortran has this header, with nothing in it
mkdir "$tmp/none";
put("$tmp/none/mpif-c-constants-decl.h", "\n");
$out = `$mpicc -std=c11 -I'$tmp/none' -I'$build/gen' -I'$top/lib' -Wall -Wextra -Werror -c '$build/gen/wrap_fortran.c' -o '$tmp/none.o' 2>&1`;
ok($? == 0 && `nm '$tmp/none.o'` eq '', '... and none where the MPI has no Fortran') or diag($out);
# these have an entry of their own for mpi_f08 (scripts/Fortran.pm)
my @apart = map {"pmpi_${_}_init_f08_"} qw(psend precv);
my %weak = map { $_ => join(' ', map { (split)[-1] } grep { / w pmpi_/ } split /\n/, `nm $_ 2>/dev/null`) } "-D '$so'", "'$a'";
is($weak{"-D '$so'"}, "@apart" =~ s/(\S+) (\S+)/$2 $1/r, '... and forwarded Fortran, too');
is($weak{"'$a'"}, join(' ', sort @apart, 'pmpi_attr_put_', 'pmpi_comm_set_attr_', map {"p${_}_"} @bound),
    '... on their way to the MPI');
my $dynamic = `readelf -d '$so'`;
like($dynamic, qr/SONAME.*\[libftkit_mpi\.so\.0\]/, '... has a SONAME');
unlike($dynamic, qr/NEEDED.*libftkit/, '... does not need libftkit');

delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL)};
my $made = $ENV{BUILD} // 'build'; # the same as it was made, for the dependencies
$out = `cd '$top' && scripts/guard 120 -- make install BUILD='$made' DESTDIR='$tmp/root' PREFIX=/usr 2>&1`;
is($?, 0, 'make install') or diag($out);
ok(-s "$tmp/root/usr/$_", "... $_") for map({"lib/libftkit_mpi.$_"} qw(a so so.0 so.0.1.0)),
    'share/doc/ftkit/mpi-support.md';

# ---- in use ------------------------------------------------------------------------------

put("$tmp/prog.c", <<'END');
#define _GNU_SOURCE
#include "log/base/find_layer.h"
#include <stdio.h>
#include <string.h>

#define CHECK(what)                                                             \
    do {                                                                        \
        if (!(what)) {                                                          \
            printf("line %d: %s\n", __LINE__, #what);                           \
            bad = 1;                                                            \
        }                                                                       \
    } while (0)

static int bad;
static const char *refused;
static MPI_Comm refused_on;

static int my_size(MPI_Comm comm, int *size)
{
    *size = comm == MPI_COMM_SELF ? 77 : 78;
    return MPI_SUCCESS;
}
static int my_refuse(const char *call, MPI_Comm comm)
{
    refused = call;
    refused_on = comm;
    return comm == MPI_COMM_SELF ? MPI_SUCCESS : MPI_ERR_UNSUPPORTED_OPERATION;
}

static void as_ever(void)
{
    int rank = -1, size = 0, got = -1, sum = 0, inter = 1, half = 0, in[2] = { 5, 6 };
    MPI_Status status;
    MPI_Request r[2];
    MPI_Comm comm, file = MPI_COMM_NULL;
    MPI_Win win;
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank >= 0);
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS && size == 2);
    CHECK(MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, 3, &got, 1, MPI_INT, MPI_ANY_SOURCE, 3,
              MPI_COMM_WORLD, &status) == MPI_SUCCESS);
    CHECK(got == 1 - rank && status.MPI_SOURCE == 1 - rank && status.MPI_TAG == 3);
    CHECK(MPI_Allreduce(&size, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(sum == 4);
    CHECK(MPI_Irecv(&got, 1, MPI_INT, 1 - rank, 4, MPI_COMM_WORLD, &r[0]) == MPI_SUCCESS);
    CHECK(MPI_Isend(&in[rank], 1, MPI_INT, 1 - rank, 4, MPI_COMM_WORLD, &r[1]) == MPI_SUCCESS);
    CHECK(MPI_Request_f2c(MPI_Request_c2f(r[0])) == r[0]);
    CHECK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE) == MPI_SUCCESS && got == in[1 - rank]);
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &comm) == MPI_SUCCESS);
    CHECK(MPI_Comm_size(comm, &half) == MPI_SUCCESS && half == 1);
    CHECK(MPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter);
    CHECK(MPI_Comm_dup(comm, &file) == MPI_SUCCESS && MPI_Comm_disconnect(&file) == MPI_SUCCESS);
    CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS && comm == MPI_COMM_NULL);
    CHECK(MPI_Win_create(in, sizeof in, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win) == MPI_SUCCESS
        && MPI_Win_free(&win) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    const char *call = "";
    const struct ftk_mpi_calls mine = { .call = &call, .refuse = my_refuse, .Comm_size = my_size };
    int want = argc > 1 && strcmp(argv[1], "layer") == 0, size = 0, provided = 0;
    bool other = false;
    const struct ftk_mpi_layer *layer = ftk_layer_find(&other);
    MPI_File file = MPI_FILE_NULL;
    MPI_Session session;
    size_t nkeys = 0;
    int key = MPI_KEYVAL_INVALID;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    CHECK(!other && (layer != NULL) == want);
    as_ever();
    CHECK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, &size)
        == MPI_SUCCESS);
    if (layer) {
        const struct ftk_keyval *keys = layer->keyvals(&nkeys);
        CHECK(nkeys == 1 && keys[0].key == key && keys[0].extra == &size && !keys[0].copies);
        *layer->calls = &mine;
        CHECK(MPI_Comm_size(MPI_COMM_SELF, &size) == MPI_SUCCESS && size == 77);
        CHECK(strcmp(call, "MPI_Comm_size") == 0);
        CHECK(PMPI_Comm_size(MPI_COMM_SELF, &size) == MPI_SUCCESS && size == (layer->real ? 77 : 1));
        CHECK(!layer->real
            || (layer->real->Comm_size(MPI_COMM_SELF, &size) == MPI_SUCCESS && size == 1));
        CHECK(MPI_File_open(MPI_COMM_WORLD, argv[0], MPI_MODE_RDONLY, MPI_INFO_NULL, &file)
            == MPI_ERR_UNSUPPORTED_OPERATION);
        CHECK(refused && strcmp(refused, "MPI_File_open") == 0);
        CHECK(refused_on == MPI_COMM_WORLD);
        CHECK(file == MPI_FILE_NULL);
        CHECK(MPI_File_open(MPI_COMM_SELF, argv[0], MPI_MODE_RDONLY, MPI_INFO_NULL, &file)
            == MPI_SUCCESS);
        CHECK(MPI_File_close(&file) == MPI_SUCCESS);
        CHECK(refused_on == MPI_COMM_SELF);
        CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session)
            == MPI_ERR_UNSUPPORTED_OPERATION);
        CHECK(refused_on == MPI_COMM_NULL);
        CHECK(MPI_Pcontrol(1) == MPI_SUCCESS);
        *layer->calls = NULL;
    }
    as_ever();
    MPI_Finalize();
    if (!bad)
        printf("all is well %s\n", want ? "with the layer" : "without");
    return bad;
}
END

# Build the program with the given libraries, run it on two ranks.
sub runs
{
    my ($name, $libraries, @run) = @_;
    my $prog = "$tmp/prog-" . ($name =~ s/\W/-/gr);
    my $said = `$mpicc -std=c11 -Wall -Wextra -Werror -I'$build/gen' -I'$top/lib' '$tmp/prog.c' $libraries -o '$prog' 2>&1`;
    is($?, 0, "$name: builds") or diag($said);
    my @argv = map { $_ eq 'PROG' ? $prog : $_ } @run;
    my $j = job(n => 2, spares => 0, program => shift @argv, args => \@argv);
    my $want = $run[-1] eq 'layer' ? 'with the layer' : 'without';
    my $ranks = () = $j->{log} =~ /\ball is well $want$/mg;
    ok($j->{rc} == 0 && $ranks == 2, "$name: works") or diag($j->{log});
    return;
}

runs('no layer', '', 'PROG', 'none');
runs('preloaded', '', 'env', "LD_PRELOAD=$so.0", 'PROG', 'layer');
runs('linked static', "'$a'", 'PROG', 'layer');
runs('linked shared', "-L'$build' -lftkit_mpi -Wl,-rpath,'$build'", 'PROG', 'layer');

# ---- profiling tools ---------------------------------------------------------------------

put("$tmp/tool.c", <<'END');
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int seen;
#ifdef NEXT /* how it finds the MPI */
#define MPI(name) ((__typeof__(&MPI_##name))dlsym(RTLD_NEXT, "MPI_" #name))
#else
#define MPI(name) PMPI_##name
#endif

int MPI_Allreduce(const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c)
{
    int size = 0;
    seen++;
    return MPI(Type_size)(t, &size) == MPI_SUCCESS ? MPI(Allreduce)(a, b, n, t, o, c) : MPI_ERR_TYPE;
}
int MPI_Isend(const void *a, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r)
{
    seen++;
    return MPI(Isend)(a, n, t, to, tag, c, r);
}
int MPI_Irecv(void *a, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r)
{
    seen++;
    return MPI(Irecv)(a, n, t, from, tag, c, r);
}
int MPI_Comm_rank(MPI_Comm c, int *rank) { return MPI(Comm_rank)(c, rank); }
int MPI_Pcontrol(const int level, ...) { return level; } /* mpiP keeps it to itself */
__attribute__((destructor)) static void say(void)
{
    if (seen > 0 && getenv("OMPI_COMM_WORLD_RANK") && atoi(getenv("OMPI_COMM_WORLD_RANK")) == 0)
        printf("tool saw %d\n", seen);
}
END
put("$tmp/profiled.c", <<'END');
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <ftkit.h>
#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    ftkit_ctx *ft;
    MPI_Comm c;
    MPI_Request q[2];
    int rank, n, step = 0, made = 0, got;
    double x, sum = 0;
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK)
        return 3;
    ftkit_bind_comm(ft, &c);
    MPI_Comm_rank(c, &rank);
    MPI_Comm_size(c, &n);
    x = rank + 1;
    ftkit_register(ft, "step", &step, 1, MPI_INT);
    ftkit_register(ft, "x", &x, 1, MPI_DOUBLE);
    if (ftkit_recover(ft, NULL) < 0)
        return 4;
    while (ftkit_checkpoint(ft) >= 0 && step < 20) {
        if (rank == 1 && step == 13 && open("lost", O_CREAT | O_EXCL, 0600) >= 0)
            raise(SIGKILL); /* the replacement finds the file */
        MPI_Irecv(&got, 1, MPI_INT, (rank + n - 1) % n, 0, c, &q[0]);
        MPI_Isend(&step, 1, MPI_INT, (rank + 1) % n, 0, c, &q[1]);
        MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, c);
        x = x / 2 + sum / n + got;
        step++;
        made += 3;
    }
    int bad = ftkit_finish(ft) < 0;
    if (rank == 0)
        printf("x %.15g\nmade %d\n", x, made);
    ftkit_close(&ft);
    MPI_Finalize();
    return bad;
}
END

sub compile { return system("$mpicc -std=c11 -I'$top/include' @_ >'$tmp/said' 2>&1") == 0 || diag(slurp("$tmp/said")) }
my $ours = "-L'$build' -lftkit -Wl,-rpath,'$build'";
my ($exact) = grep {-e} glob "$build/libftkit_mpi.so.0";
compile("-fPIC -shared -o '$tmp/tool.so' '$tmp/tool.c'");
compile("-DNEXT -fPIC -shared -o '$tmp/next.so' '$tmp/tool.c'");
compile("-c -o '$tmp/tool.o' '$tmp/tool.c'");
symlink "$tmp/$_.so", "$tmp/lib$_.so" for qw(tool next);

# Run the program with the log; a rank is lost on the way.  libs: what it is linked with.
sub profiled
{
    my ($what, $libs, @run) = @_;
    my $prog = "$tmp/profiled-" . ($what =~ s/\W/-/gr);
    ok(compile("-o '$prog' '$tmp/profiled.c' $libs"), "$what: builds") or return {};
    return job(n => 2, program => $prog, args => [],
        env => { FTKIT_LOG_TEAM_SIZE => 1, FTKIT_LOG_ENABLED => 'true', FTKIT_LEVEL_HDF5_ENABLED => 'false' },
        run => [ '--no-relaunch', @run ]);
}

sub whole
{
    my ($what, $want, $tool, @how) = @_;
    my $j = profiled($what, @how);
    my ($x) = $j->{log} =~ /^x (.*)/m;
    my ($made) = $j->{log} =~ /^made (.*)/m;
    my ($seen) = $j->{log} =~ /^tool saw (.*)/m;
    ok($j->{rc} == 0 && defined($x) && $x eq ($want // $x) && ($seen // 0) == ($tool ? $made : 0)
            && -e "$j->{dir}/lost", "$what: the result" . ($tool ? ', and the tool sees all calls' : ''))
        or diag($j->{log});
    return $x;
}

my $tools = "-L'$tmp' -Wl,-rpath,'$tmp' -Wl,--no-as-needed";
my $want = whole('no tool', undef, 0, $ours, '--log');
whole('a tool in the program', $want, 1, "'$tmp/tool.o' $ours", '--log');
whole('a preloaded tool', $want, 1, $ours, '--log', '-x', "LD_PRELOAD=$tmp/tool.so");
whole('a preloaded tool that looks for the next', $want, 1, $ours, '--log', '-x', "LD_PRELOAD=$tmp/next.so");
whole('a linked tool behind', $want, 1, "$tools -ltool $ours", '--log');
whole('a tool and the layer linked', $want, 1, "$tools -ltool -L'$build' -lftkit_mpi $ours");
whole('the layer and a tool linked', $want, 1, "$tools -L'$build' -lftkit_mpi -ltool $ours");

my $asan = `$mpicc -print-file-name=libasan.so` =~ s/\s+\z//r;
SKIP: {
    skip 'no AddressSanitizer', 2 if !-e $asan;
    local $ENV{ASAN_OPTIONS} = 'detect_leaks=0';
    whole('AddressSanitizer', $want, 0, "-fsanitize=address $ours", '--log', '-x', "LD_PRELOAD=$asan");
}

# what cannot work
my $j = profiled('a tool before the static layer', "'$tmp/tool.o' -Wl,--allow-multiple-definition '$a' $ours");
ok($j->{rc} == 2 && $j->{log} =~ /MPI_\w+ of \S+profiled\S+ stands in front of libftkit_mpi/,
    '... is refused, with its name') or diag($j->{log});
$j = profiled('the layer behind the MPI', "-Wl,--no-as-needed -lmpi -L'$build' -lftkit_mpi $ours");
ok($j->{rc} == 2 && $j->{log} =~ /MPI_\w+ goes to the MPI \(\S*libmpi\.so\S*\) past libftkit_mpi/,
    '... is refused, with the order') or diag($j->{log});
$j = profiled('a linked tool behind that looks for the next', "$tools -lnext $ours", '--log');
ok($j->{rc} != 0 && $j->{log} =~ /MPI_\w+ of \S+next\.so stands behind libftkit_mpi and has not called/,
    '... ends the job, with its name') or diag($j->{log});

# ---- another MPI -------------------------------------------------------------------------

SKIP: {
    my $other = 'mpicc.mpich';
    skip "no $other", 4 if system("command -v $other >/dev/null 2>&1") != 0;
    put("$tmp/h.c", "#include <mpi.h>\n");
    my $text = `$other -std=c11 -E -dD '$tmp/h.c'`;
    for my $options ('', '--pmpi') {
        unlink glob "$tmp/gen/*";
        ($rc, $out) = wrappers($text, $table, $options);
        ok($rc == 0 && $out eq '', "the MPI of $other $options") or diag($out);
        my @c = $options ? () : map {"'$tmp/gen/$_'"} qw(wrap.c mpi_calls.c);
        put("$tmp/use.c", "#include <mpi.h>\n#include \"gen/pmpi.h\"\nint main(void)\n{\n"
            . "    int (*f)(MPI_Comm) = MPI_Barrier;\n    return f(MPI_Comm_f2c(0)) != 0;\n}\n");
        $out = `cd '$tmp' && $other -std=c11 -Igen -I'$top/lib' -Wall -Wextra -Wmissing-prototypes -Werror -fsyntax-only use.c @c 2>&1`;
        is($?, 0, '... compiles') or diag($out);
    }
}

done_testing();
