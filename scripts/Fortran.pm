# The Fortran entry points of libftkit_mpi, for scripts/wrappers.
#
# SPDX-License-Identifier: BSD-3-Clause
#
# They are made from the same table and the same prototypes as the entry points of C.  Each
# argument is an address.  Its conversion follows from its type in C and, if the type does not
# say enough, from its name: the MPI standard gives both languages the same names.
package Fortran;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(fortran);

# Specific procedures without a C function of their own: refused in the same way as the C function.
my %more = (MPI_Alloc_mem => ['alloc_mem_cptr'], MPI_Win_allocate => ['win_allocate_cptr'],
    MPI_Win_allocate_shared => ['win_allocate_shared_cptr'],
    MPI_Win_shared_query => ['win_shared_query_cptr']);

# In mpi_f08 of Open MPI 5.0 these functions lack the argument info, so the error is in the place
# where the request is in the other bindings.
my %no_info = map { $_ => 1 } qw(MPI_Psend_init MPI_Precv_init);

# Arguments that are both input and output; other handles behind a * are output only.
my %inout = map { $_ => 1 } qw(Comm_free.comm Comm_disconnect.comm Type_free.type Op_free.op
    Wait.request Test.request Request_free.request Cancel.request Start.request
    Mrecv.message Imrecv.message Win_free.win);

# Types MPI_Xxx for which a function converts handles: its name contains Xxx.
my %handle = map { $_ => 1 } qw(Comm Datatype Group Op Info Request Message Win);
my %null = (Datatype => 'MPI_DATATYPE_NULL', Comm => 'MPI_COMM_NULL', Group => 'MPI_GROUP_NULL',
    Op => 'MPI_OP_NULL', Request => 'MPI_REQUEST_NULL', Message => 'MPI_MESSAGE_NULL',
    Win => 'MPI_WIN_NULL');

sub converter
{
    my ($what, $way) = @_;
    return "ftk_layer_calls->${what}_$way" if $what =~ /^(?:Request|Message)$/;
    return 'PMPI_' . ($what eq 'Datatype' ? 'Type' : $what) . "_$way";
}

# Convert one argument: returns lines before the call, the argument in C, lines after the call.
sub argument
{
    my ($short, $name, $type, $array) = @_;
    my $plain = $type =~ s/\bconst\b|\s//gr;
    my ($what) = $plain =~ /^MPI_(\w+)/;
    return ('', "f_buffer($name)", '') if $plain eq 'void*';
    return ('', "*$name", '') if $plain =~ /^(?:int|MPI_Aint)$/ && !$array;
    if ($plain =~ /^(?:int|int\*|MPI_Aint\*?)$/) {
        my $before = $array ? '' # MPI_Graph_create, too, has an index
            : $name eq 'flag' ? "*flag = 0;\n"
            : $name =~ /^(?:index|outcount)$/ ? "*$name = MPI_UNDEFINED;\n" : '';
        my $after = $short =~ /^(?:Wait|Test)any$/ && $name eq 'index' ? "f_index_out(index);\n"
            : $name eq 'array_of_indices' ? "f_indices_out(f_count(*outcount), $name);\n" : '';
        return ($before, $name =~ /weights$/ ? "f_weights($name)" : $name, $after);
    }
    if ($plain =~ /^MPI_Status/) {
        return ("MPI_Status c_$name;\nf_status_in($name, &c_$name);\n",
            "OMPI_IS_FORTRAN_STATUS_IGNORE($name) ? MPI_STATUS_IGNORE : &c_$name",
            "f_status_out($name, &c_$name);\n")
            if $name !~ /statuses/;
        my ($room, $set) = $short =~ /some$/ ? ('*incount', 'f_count(*outcount)')
            : $short eq 'Testall' ? ('*count', '*flag ? *count : 0') : ('*count', '*count');
        return ("struct f_statuses a_$name;\nf_statuses_in(&a_$name, $room, $name, &rc);\n",
            "a_$name.c", "f_statuses_out(&a_$name, $set);\n");
    }
    if ($plain =~ /^MPI_Request/ && $array) {
        my $n = $short =~ /some$/ ? '*incount' : '*count';
        return ("struct f_requests a_$name;\nf_requests_in(&a_$name, $n, $name, &rc);\n",
            "a_$name.c", "f_requests_out(&a_$name);\n");
    }
    if ($plain =~ /^MPI_Datatype/ && $array) {
        my $side = $name =~ /^send/ ? 'send' : 'recv';
        my $buffer = $side eq 'send' ? 'sendbuf' : 'NULL';
        return ("struct f_types a_$name;\nf_types_in(&a_$name, n_$side, $name, $buffer, &rc);\n",
            "a_$name.c", "f_types_out(&a_$name);\n");
    }
    die "wrappers: MPI_$short: $name is $type in C, and what in Fortran?\n"
        if !$what || !$handle{$what} || $array;
    my $in = converter($what, 'f2c') . "(*$name)";
    return ('', $in, '') if $plain !~ /\*/;
    return ("struct f_idup *d_$name = f_idup_in($name, &rc);\n", "&d_$name->comm",
        "f_idup_out(d_$name, rc);\n") if $short =~ /idup/ && $plain eq 'MPI_Comm*';
    my $first = $inout{"$short.$name"} ? $in : $null{$what};
    return ("MPI_$what c_$name = $first;\n", "&c_$name",
        "*$name = " . converter($what, 'c2f') . "(c_$name);\n");
}

# The declaration of an argument: all are addresses.
sub parameter
{
    my ($p) = @_;
    my $plain = $p->{type} =~ s/\bconst\b|\s//gr;
    return "void *$p->{name}" if $plain =~ /^(?:void|char)\*/;
    return ($plain =~ /^MPI_Aint/ ? 'MPI_Aint' : 'MPI_Fint') . " *$p->{name}";
}

# The names by which Fortran calls f.  Compilers spell names in four ways; Open MPI has another
# procedure for mpi_f08.
sub names
{
    my ($f, $lower, $no_f08, $prefix) = @_;
    my $name = ($prefix // 'mpi_') . $lower;
    return join '', map {"extern __typeof__($f) $_ __attribute__((alias(\"$f\")));\n"}
        ("${name}_", $name, "${name}__", uc $name, $no_f08 ? () : "${name}_f08_");
}

# How procedure lower of the MPI is called.  The shared library looks it up behind itself, and
# defines its names, too.
sub own
{
    my ($lower, $params, $wrapped) = @_;
    return "#ifdef FTK_LAYER_STATIC\n"
        . $wrapped->("extern __attribute__((weak)) void pmpi_${lower}_($params);")
        . "#define OWN_$lower pmpi_${lower}_\n#else\n"
        . "static struct f_next n_$lower = { \"mpi_${lower}_\", false, NULL, NULL };\n"
        . $wrapped->("typedef void t_$lower($params);")
        . "#define OWN_$lower ((t_$lower *)f_find(&n_$lower)->own)\n#endif\n";
}

# All names of f_$short.  In the shared library a call goes through a tool behind the library first;
# such a tool comes back by PMPI_... or pmpi_...
sub public
{
    my ($short, $lower, $params, $list, $no_f08, $wrapped, @lowers) = @_;
    my $out = "#ifdef FTK_LAYER_STATIC\n" . join('', map { names("f_$short", $_, $no_f08) } @lowers)
        . "#else\n" . $wrapped->("static void m_$short($params)")
        . "{\n    if (f_find(&n_$lower)->tool)\n"
        . $wrapped->("        ((t_$lower *)n_$lower.tool)($list);") . "    else\n"
        . $wrapped->("        f_$short($list);") . "}\n";
    $out .= names("m_$short", $_, 1) . names("f_$short", $_, $no_f08, 'pmpi_')
        . ($no_f08 ? '' : "extern __typeof__(f_$short) mpi_${_}_f08_ __attribute__((alias(\"f_$short\")));\n")
        for @lowers;
    return "$out#endif\n";
}

# An entry point for mpi_f08 only, where the argument info is missing.
sub refused_f08
{
    my ($short, $f, $wrapped, $comm) = @_;
    my $lower = lc $short;
    my @names = grep { $_ ne 'info' } map { $_->{name} } @{ $f->{names} };
    my $list = join ', ', (map {"void *$_"} @names), 'MPI_Fint *ierr';
    my $of = $wrapped->("extern __attribute__((weak)) void pmpi_${lower}_f08_($list);");
    return "\n#if OMPI_MAJOR_VERSION < 6\n$of"
        . $wrapped->("void mpi_${lower}_f08_($list);") . $wrapped->("void mpi_${lower}_f08_($list)")
        . "{\n    int rc = MPI_SUCCESS;\n    if (ftk_layer_calls)\n"
        . $wrapped->(
            "        rc = ftk_layer_calls->refuse(\"MPI_$short\", PMPI_Comm_f2c(*(MPI_Fint *)$comm));")
        . "    if (rc == MPI_SUCCESS)\n"
        . $wrapped->("        pmpi_${lower}_f08_(" . join(', ', @names, 'ierr') . ');')
        . "    else if (ierr)\n        *ierr = rc;\n}\n#else\n"
        . "extern __typeof__(f_$short) mpi_${lower}_f08_ __attribute__((alias(\"f_$short\")));\n"
        . "#endif\n";
}

sub indent
{
    my ($by, $text) = @_;
    return $text =~ s/^(?=.)/' ' x $by/gmer;
}

# The entry point of a logged function.
sub logged
{
    my ($short, $f, $wrapped) = @_;
    my $lower = lc $short;
    my @params = ((map { parameter($_) } @{ $f->{names} }), 'MPI_Fint *ierr');
    my ($before, @args, $after) = ('');
    for my $p (@{ $f->{names} }) {
        my ($b, $a, $z) = argument($short, $p->{name}, $p->{type}, $p->{array});
        $before .= $b;
        push @args, $a;
        $after .= $z;
    }
    my $many = $before =~ /f_types_in/;
    my $sizes = $many ? "int n_send, n_recv;\n"
        . ($short =~ /neighbor/i ? 'f_neighbors' : 'f_ranks')
        . "(PMPI_Comm_f2c(*comm), &n_send, &n_recv, &rc);\n" : '';
    my $names = join ', ', (map { $_->{name} } @{ $f->{names} }), 'ierr';
    $after .= "f_idups_out();\n" if $short =~ /^(?:Wait|Test)/;
    my $call = "ftk_layer_calls->$short(" . join(', ', @args) . ');';
    my $may_fail = "$sizes$before" =~ /&rc/;
    my $made = $short =~ /_init$/ ? "        f_made(*request);\n" : '';
    my $was = $short eq 'Request_free' ? "        f_freed(*request);\n"
        : $short eq 'Free_mem' ? "        if (ftk_layer_frees && ftk_layer_frees(base)) {\n"
        . "            if (ierr)\n                *ierr = MPI_SUCCESS;\n            return;\n        }\n" : '';
    return $wrapped->("static void f_$short(" . join(', ', @params) . ')')
        . "{\n    if (!ftk_layer_calls) {\n$was"
        . $wrapped->("        OWN_$lower($names);")
        . "$made        return;\n    }\n" . ($may_fail ? "    int rc = MPI_SUCCESS;\n" : '')
        . "    ftk_layer_fortran++;\n    *ftk_layer_calls->call = \"MPI_$short\";\n" . indent(4, "$sizes$before")
        . ($may_fail ? "    if (rc == MPI_SUCCESS)\n" . $wrapped->("        rc = $call")
            : $wrapped->("    int rc = $call"))
        . indent(4, $after) . "    if (ierr)\n        *ierr = rc;\n"
        . "    if (rc != MPI_SUCCESS && ftk_layer_calls)\n        ftk_layer_calls->failed();\n}\n";
}

# The entry point of a refused function: passes its arguments on unchanged, with the lengths of
# texts.
sub refused
{
    my ($short, $f, $wrapped, @comms) = @_;
    my $lower = lc $short;
    my @texts = grep { $_->{type} =~ /char/ } @{ $f->{names} };
    my @lengths = map {"length$_"} 1 .. @texts;
    my @params = ((map {"void *$_->{name}"} @{ $f->{names} }), 'MPI_Fint *ierr',
        map {"size_t $_"} @lengths);
    my $names = join ', ', (map { $_->{name} } @{ $f->{names} }), 'ierr', @lengths;
    my @on = map { $_ eq 'MPI_COMM_NULL' ? $_ : "PMPI_Comm_f2c(*(MPI_Fint *)$_)" }
        map { s/^\*//r } @comms;
    return $wrapped->("static void f_$short(" . join(', ', @params) . ')')
        . "{\n    int rc = MPI_SUCCESS;\n"
        . join('', map { "    if (ftk_layer_calls && rc == MPI_SUCCESS)\n"
            . $wrapped->("        rc = ftk_layer_calls->refuse(\"MPI_$short\", $_);") } @on)
        . "    if (rc == MPI_SUCCESS)\n"
        . $wrapped->("        OWN_$lower($names);")
        . "    else if (ierr)\n        *ierr = rc;\n}\n";
}

my $head = <<'END';
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* The Fortran entry points: see lib/log/mpi/fortran.h.  Those of the MPI itself are found when the
 * program is one in Fortran. */
#include <mpi.h>
#if __has_include(<mpif-c-constants-decl.h>)
#include <mpif-c-constants-decl.h>
#endif
#ifdef OMPI_IS_FORTRAN_BOTTOM /* the MPI has Fortran */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* MPI_HOST is old in MPI 4.1 */
#include "log/mpi/fortran.h"

KEYS

struct f_idup *ftk_layer_idups;

void ftk_layer_look_at_idups(void)
{
    for (struct f_idup **p = &ftk_layer_idups, *d; (d = *p) != NULL;) {
        if (d->comm == MPI_COMM_NULL) {
            p = &d->next;
            continue;
        }
        *d->to = PMPI_Comm_c2f(d->comm);
        *p = d->next;
        free(d);
    }
}
END

sub same { return "$_[0]\n" }

# Attributes are by hand: they are integers in Fortran, and callbacks are those of Fortran.  The two
# forms: of MPI-2, with integers of the size of an address, and of MPI-1, with default integers.
sub keys_of
{
    my ($kind, $create, $get, $set) = @_;
    return <<"END";
@{[ own($create, "void (*copy)(void), void (*delete)(void), MPI_Fint *key, $kind *extra, "
    . 'MPI_Fint *ierr', \&same), own($get,
    "MPI_Fint *comm, MPI_Fint *key, $kind *value, MPI_Fint *flag, MPI_Fint *ierr", \&same),
    own($set, "MPI_Fint *comm, MPI_Fint *key, $kind *value, MPI_Fint *ierr", \&same) ]}
static int copy_by_$create(const struct ftk_keyval *k, MPI_Comm from, MPI_Comm to)
{
    MPI_Fint f_from = PMPI_Comm_c2f(from), f_to = PMPI_Comm_c2f(to), key = k->key;
    MPI_Fint rc = MPI_SUCCESS, found = 0, copied = 0;
    $kind in = 0, out = 0, extra = ($kind)(intptr_t)k->extra;
    void (*copy)(MPI_Fint *, MPI_Fint *, $kind *, $kind *, $kind *, MPI_Fint *, MPI_Fint *) =
        (__typeof__(copy))k->procedure;
    OWN_$get(&f_from, &key, &in, &found, &rc);
    if (rc != MPI_SUCCESS || !found)
        return rc;
    copy(&f_from, &key, &extra, &in, &out, &copied, &rc);
    if (rc == MPI_SUCCESS && copied)
        OWN_$set(&f_to, &key, &out, &rc);
    return rc;
}

static void f_$create(
    void (*copy)(void), void (*delete)(void), MPI_Fint *key, $kind *extra, MPI_Fint *ierr)
{
    MPI_Fint rc = MPI_SUCCESS;
    OWN_$create(copy, delete, key, extra, &rc);
    if (rc == MPI_SUCCESS)
        rc = ftk_layer_keyval((struct ftk_keyval){
            *key, NULL, (void *)(intptr_t)*extra, copy_by_$create, copy });
    if (ierr)
        *ierr = rc;
}

static void f_$get(MPI_Fint *comm, MPI_Fint *key, $kind *value, MPI_Fint *flag, MPI_Fint *ierr)
{
    MPI_Fint rc = MPI_SUCCESS;
    int *own = NULL;
    if (ftk_layer_calls && f_defined_by_mpi(*key)) {
        ftk_layer_fortran++;
        rc = ftk_layer_calls->Comm_get_attr(PMPI_Comm_f2c(*comm), *key, (void *)&own, flag);
        if (rc == MPI_SUCCESS && *flag)
            *value = *own;
    } else {
        OWN_$get(comm, key, value, flag, &rc);
    }
    if (ierr)
        *ierr = rc;
}

@{[ public($create, $create,
    "void (*copy)(void), void (*delete)(void), MPI_Fint *key, $kind *extra, MPI_Fint *ierr",
    'copy, delete, key, extra, ierr', 0, \&same, $create),
    public($get, $get,
    "MPI_Fint *comm, MPI_Fint *key, $kind *value, MPI_Fint *flag, MPI_Fint *ierr",
    'comm, key, value, flag, ierr', 0, \&same, $get) ]}
END
}
my $keys = keys_of('MPI_Aint', 'comm_create_keyval', 'comm_get_attr', 'comm_set_attr')
    . keys_of('MPI_Fint', 'keyval_create', 'attr_get', 'attr_put') . flavor();

# The one attribute of a window that is not that of its handle: an integer, too.
sub flavor
{
    my $params = 'MPI_Fint *win, MPI_Fint *key, MPI_Aint *value, MPI_Fint *flag, MPI_Fint *ierr';
    return <<"END";
@{[ own('win_get_attr', $params, \&same) ]}
static void f_win_get_attr($params)
{
    MPI_Fint rc = MPI_SUCCESS;
    int *own = NULL;
    if (ftk_layer_calls && *key == MPI_WIN_CREATE_FLAVOR) {
        ftk_layer_fortran++;
        rc = ftk_layer_calls->Win_get_attr(PMPI_Win_f2c(*win), *key, (void *)&own, flag);
        if (rc == MPI_SUCCESS && *flag)
            *value = *own;
    } else {
        OWN_win_get_attr(win, key, value, flag, &rc);
    }
    if (ierr)
        *ierr = rc;
}

@{[ public('win_get_attr', 'win_get_attr', $params, 'win, key, value, flag, ierr', 0, \&same,
    'win_get_attr') ]}
END
}

# Make the file, from the prototypes, the names of logged and of refused functions, a function that
# breaks long lines, and a function that finds the communicators of a call.
sub fortran
{
    my ($function, $log, $refuse, $wrapped, $communicators) = @_;
    my $out = $head =~ s/^KEYS\n/$keys/mr;
    for my $name (@$log, @$refuse) {
        my $f = $function->{$name};
        my $short = $name =~ s/^MPI_//r;
        next if $f->{type} ne 'int' || $short =~ /_(?:[cf]2[cf]|toint)/; # not in Fortran
        next if $short =~ /^(?:Comm|Win)_get_attr$/; # by hand, see $keys
        my $is_log = grep { $_ eq $name } @$log;
        my $text = $is_log ? logged($short, $f, $wrapped)
            : refused($short, $f, $wrapped, $communicators->($f));
        my $lower = lc $short;
        my ($params) = ($text =~ /^static void \w+\((.*?)\)\s*\{/s)[0] =~ s/\s+/ /gr;
        my $list = join ', ', $params =~ /(\w+)(?:,|$)/g;
        $out .= "\n" . own($lower, $params, $wrapped) . $text
            . public($short, $lower, $params, $list, $no_info{$name}, $wrapped, $lower,
                @{ $more{$name} // [] });
        $out .= refused_f08($short, $f, $wrapped, $communicators->($f)) if $no_info{$name};
    }
    return "$out#endif\n";
}

1;
