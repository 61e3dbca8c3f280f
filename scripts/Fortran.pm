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
my %more = (MPI_Win_allocate => ['win_allocate_cptr'],
    MPI_Win_allocate_shared => ['win_allocate_shared_cptr']);

# In mpi_f08 of Open MPI 5.0 these functions lack the argument info, so the error is in the place
# where the request is in the other bindings.
my %no_info = map { $_ => 1 } qw(MPI_Psend_init MPI_Precv_init);

# Arguments that are both input and output; other handles behind a * are output only.
my %inout = map { $_ => 1 } qw(Comm_free.comm Comm_disconnect.comm Type_free.type Op_free.op
    Wait.request Test.request Request_free.request Cancel.request Start.request
    Mrecv.message Imrecv.message);

# Types MPI_Xxx for which a function converts handles: its name contains Xxx.
my %handle = map { $_ => 1 } qw(Comm Datatype Group Op Info Request Message);
my %null = (Datatype => 'MPI_DATATYPE_NULL', Comm => 'MPI_COMM_NULL', Group => 'MPI_GROUP_NULL',
    Op => 'MPI_OP_NULL', Request => 'MPI_REQUEST_NULL', Message => 'MPI_MESSAGE_NULL');

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
    if ($plain =~ /^(?:int|int\*|MPI_Aint)$/) {
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
    my ($f, $lower, $no_f08) = @_;
    my $upper = uc "mpi_$lower";
    return join '', map {"extern __typeof__($f) $_ __attribute__((alias(\"$f\")));\n"}
        ("mpi_${lower}_", "mpi_$lower", "mpi_${lower}__", $upper,
            $no_f08 ? () : "mpi_${lower}_f08_");
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
    return $wrapped->("static void f_$short(" . join(', ', @params) . ')')
        . "{\n    if (!ftk_layer_calls) {\n"
        . $wrapped->("        pmpi_${lower}_($names);")
        . "        return;\n    }\n" . ($may_fail ? "    int rc = MPI_SUCCESS;\n" : '')
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
        . $wrapped->("        pmpi_${lower}_($names);")
        . "    else if (ierr)\n        *ierr = rc;\n}\n";
}

my $head = <<'END';
/* The Fortran entry points: see lib/log/fortran.h.  Those of the MPI itself are found when the
 * program is one in Fortran. */
#if __has_include(<mpif-c-constants-decl.h>) /* the MPI has Fortran */
#include "log/fortran.h"

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

# Make the file, from the prototypes, the names of logged and of refused functions, a function that
# breaks long lines, and a function that finds the communicators of a call.
sub fortran
{
    my ($function, $log, $refuse, $wrapped, $communicators) = @_;
    my $out = $head;
    for my $name (@$log, @$refuse) {
        my $f = $function->{$name};
        my $short = $name =~ s/^MPI_//r;
        next if $f->{type} ne 'int' || $short =~ /_[cf]2[cf]/; # Fortran does not have them
        next if $short eq 'Comm_get_attr'; # its attributes are not pointers
        my $is_log = grep { $_ eq $name } @$log;
        my $text = $is_log ? logged($short, $f, $wrapped)
            : refused($short, $f, $wrapped, $communicators->($f));
        my $lower = lc $short;
        $out .= "\n" . $wrapped->(($text =~ /^static (void .*?)\n\{/s)[0] =~ s/\s+/ /gr
            =~ s/void f_$short/extern __attribute__((weak)) void pmpi_${lower}_/r . ';') . $text;
        $out .= names("f_$short", $_, $no_info{$name}) for $lower, @{ $more{$name} // [] };
        $out .= refused_f08($short, $f, $wrapped, $communicators->($f)) if $no_info{$name};
    }
    return "$out#endif\n";
}

1;
