#!/usr/bin/perl
# The layers of the library hold (scripts/layers): nothing refers upward, by a symbol, a header or
# a hook, and no more than two files refer to each other in a circle.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use File::Copy 'copy';
use File::Path qw(make_path remove_tree);
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

chdir top();
my $out = qx{scripts/layers '@{[build()]}' 2>&1};
is($?, 0, 'the library: no reference upward, no circle of more than two files') or diag($out);
like($out, qr/^layers: \d\d+ files, \d\d\d+ references, \d\d\d+ includes, /m,
    '... and it has been looked at');

# and it would find them: a library of a few functions, by file
my $tree = scratch() . '/planted';
my %compiled; # text => object
sub planted
{
    my (%files) = @_;
    remove_tree($tree);
    for my $file (keys %files) {
        my ($folder) = $file =~ m{(.*)/};
        make_path("$tree/rel/$folder");
        make_path("$tree/$folder");
        my $c = $file =~ /\.h$/ ? "$tree/$file" : "$tree/$file.c";
        open my $f, '>', $c or die "$c: $!\n";
        print $f $files{$file};
        close $f;
    }
    for my $file (grep { !/\.h$/ } keys %files) { # the object of a text without headers is always the same
        my $kept = $compiled{ $files{$file} };
        if (!$kept) {
            $kept = sprintf('%s/%03d.o', scratch(), scalar(keys %compiled));
            system("cc -I'$tree/lib' -c -o '$kept' '$tree/$file.c'") == 0 or die "cc failed\n";
            $compiled{ $files{$file} } = $kept if $files{$file} !~ /^#/m;
        }
        copy($kept, "$tree/rel/$file.o") or die "copy: $!\n";
    }
    my $said = qx{scripts/layers --sources '$tree' '$tree' 2>&1};
    return ($? >> 8, $said);
}
sub calls { return join('', map {"void $_(void);\n"} @_[1 .. $#_])
        . "void $_[0](void)\n{\n" . join('', map {"    $_();\n"} @_[1 .. $#_]) . "}\n" }

my ($rc, $said) = planted('lib/core/a' => calls('a'), 'lib/set/b' => calls('b', 'a'));
is($rc, 0, 'a reference downward is none') or diag($said);
($rc, $said) = planted('lib/core/a' => calls('a', 'b'), 'lib/core/b' => calls('b', 'a'));
is($rc, 0, 'nor is a pair') or diag($said);
($rc, $said) = planted('lib/core/a' => calls('a', 'b'), 'lib/set/b' => calls('b'));
is($rc, 1, 'a reference upward fails');
like($said, qr{^upward: lib/core/a -> lib/set/b: b$}m, '... and is named');
($rc, $said) = planted('lib/core/a' => calls('a', 'b'), 'lib/core/b' => calls('b', 'c'),
    'lib/core/c' => calls('c', 'a'));
is($rc, 1, 'a circle of three fails');
like($said, qr{^circle of 3: lib/core/a lib/core/b lib/core/c$}m, '... and is named');
($rc, $said) = planted('lib/attic/a' => calls('a'));
is($rc, 1, 'a folder that is no layer fails');
like($said, qr{^no layer: lib/attic/a$}m, '... and is named');

# what no plain symbol shows
my $weak = "__attribute__((weak)) void b(void);\n"
    . "void a(void)\n{\n    if (b)\n        b();\n}\n";
($rc, $said) = planted('lib/core/a' => $weak, 'lib/set/b' => calls('b'));
is($rc, 1, 'a weak reference upward fails');
like($said, qr{^upward: lib/core/a -> lib/set/b: b$}m, '... and is named');
my %headers = ('lib/core/a.h' => "enum { A };\n", 'lib/set/b.h' => "enum { B };\n");
($rc, $said) = planted(%headers, 'lib/core/a' => qq{#include "a.h"\n} . calls('a'),
    'lib/set/b' => qq{#include "core/a.h"\n#include "b.h"\n} . calls('b'));
is($rc, 0, 'a header of this folder or of one below') or diag($said);
like($said, qr{ 3 includes, }, '... is seen');
($rc, $said) = planted(%headers, 'lib/core/a' => qq{#include "set/b.h"\n} . calls('a'));
is($rc, 1, 'a header of a folder above fails');
like($said, qr{^upward: lib/core/a\.c -> lib/set/b\.h: #include$}m, '... and is named');
($rc, $said) = planted(%headers, 'lib/core/c.h' => qq{#include "set/b.h"\n},
    'lib/core/a' => calls('a'));
like($said, qr{^upward: lib/core/c\.h -> lib/set/b\.h: #include$}m, '... from a header, too');
($rc, $said) = planted('lib/log/p.h' => "enum { P };\n",
    'lib/recover/a' => qq{#include "log/p.h"\n} . calls('a'));
is($rc, 1, 'a header of the log outside the log fails');
like($said, qr{^past core/log_ops\.h: lib/recover/a\.c includes lib/log/p\.h$}m,
    '... and is named');
my $hook = qq{#include "core/a.h"\nvoid (*hook)(void);\n} . calls('a');
my $sets = qq{#include "core/a.h"\nstatic void b(void)\n{\n}\n}
    . qq{void b_open(void)\n{\n    hook = b;\n}\n};
($rc, $said) = planted('lib/core/a.h' => "extern void (*hook)(void);\n", 'lib/core/a' => $hook,
    'lib/set/b' => $sets);
is($rc, 1, 'a hook that is set from above fails');
like($said, qr{^upward: lib/core/a\.h -> lib/set/b\.c: hook hook = b$}m, '... and is named');
($rc, $said) = planted(
    'lib/core/a.h' => "struct a {\n    void (*hook)(void);\n};\nextern struct a a_ops;\n",
    'lib/core/a' => qq{#include "core/a.h"\nstruct a a_ops;\n},
    'lib/set/b' => $sets =~ s/    hook = b/    a_ops.hook = b/r);
is($rc, 1, '... as does a member of a structure');
($rc, $said) = planted('lib/core/a.h' => "struct a {\n    void (*hook)(void);\n};\n",
    'lib/core/a' => qq{#include "core/a.h"\nvoid a(void);\nvoid a(void)\n{\n}\n},
    'lib/set/b' => qq{#include "core/a.h"\nstatic void b(void)\n{\n}\n}
        . qq{extern const struct a b_table;\nconst struct a b_table = {\n    .hook = b,\n};\n});
is($rc, 0, '... but a table is right') or diag($said);

# a header declares functions of its own folder
($rc, $said) = planted('lib/set/a.h' => "int x;\nvoid a(void);\nstatic inline void s(void)\n{\n}\n",
    'lib/set/a' => calls('a'), 'lib/core/b' => calls('b'));
is($rc, 0, 'a header beside its source') or diag($said);
($rc, $said) = planted('lib/set/a.h' => "void a(void);\nvoid b(int x,\n    int y);\n",
    'lib/set/a' => calls('a'), 'lib/core/b' => calls('b'));
is($rc, 1, 'a header that declares a function of another folder fails');
like($said, qr{^declared in another folder: lib/set/a\.h -> lib/core/b: b$}m, '... and is named');
($rc, $said) = planted('lib/log/p.h' => "void a(void);\n", 'lib/log/base/a' => calls('a'));
is($rc, 0, '... but not of a folder inside its own') or diag($said);

# ---- kinds of requests -------------------------------------------------------------------

my $kinds = "#define FTK_REQ_KINDS(X) \\\n    X(SEND, send) /* a send */ \\\n    X(RECV, recv)\n"
    . "enum { FTK_REQ_SEND, FTK_REQ_RECV, FTK_REQ_FREE };\n";
sub compares
{
    my ($line, $more) = @_;
    return planted('lib/log/request/req_kinds.h' => $kinds,
        'lib/log/request/a' => qq{#include "log/request/req_kinds.h"\n} . ($more // '')
            . "int a(int kind);\nint a(int kind)\n{\n    $line\n    return kind;\n}\n");
}
for my $line ('if (kind == FTK_REQ_SEND) kind++;', 'if (kind != FTK_REQ_RECV) kind++;',
    'if (FTK_REQ_SEND == kind) kind++;', 'if (kind > FTK_REQ_SEND) kind++;',
    'switch (kind) { case FTK_REQ_RECV: kind++; break; default: break; }') {
    ($rc, $said) = compares($line);
    is($rc, 1, "a file that compares the kind of a request fails: $line");
    like($said, qr{^compares kinds of requests: lib/log/request/a\.c: \Q$line\E$}m,
        '... and is named');
}
($rc, $said) = compares('kind = FTK_REQ_SEND; if (kind == FTK_REQ_FREE) kind++;');
is($rc, 0, '... but not a file that sets a kind, or compares a state') or diag($said);
($rc, $said) = compares('if (kind == FTK_REQ_SEND) kind++;', "const int ftk_req_kind_send = 1;\n");
is($rc, 0, '... nor the file of a kind') or diag($said);

# ---- owners of fields (scripts/owners) ---------------------------------------------------

$out = qx{scripts/owners 2>&1};
is($?, 0, 'the library: a field of a context or of the log is written in its owner only')
    or diag($out);
like($out, qr/^owners: \d\d\d+ files, \d\d+ fields, \d\d\d+ writes, 0 faults$/m,
    '... of many');

# a library with owners of fields of both structs, and another file with a line
sub foreign
{
    my ($line) = @_;
    remove_tree($tree);
    make_path("$tree/lib/set");
    my %files = (
        'core.md' => "| `policy` | `lib/set/policy.c` |\n| `policy.seen` | `lib/set/loop.c` |\n"
            . "| `both` | `lib/set/policy.c`, `lib/set/loop.c`: two have a reason |\n"
            . "| `ftk_log.queue` | `lib/set/policy.c` |\n| `ftk_log.queue.n` | `lib/set/loop.c` |\n",
        'lib/set/policy.c' => "int looks(const struct p *of, int n);\nint takes(struct p *of);\n\n"
            . "void f(void)\n{\n    ctx->policy.calls++;\n    ctx->both = 1;\n    ctx->alone = 1;\n"
            . "    ftk_log.queue.seq = 1;\n    ftk_log.alone.n = 1;\n}\n",
        'lib/set/loop.c' => "void g(struct ftkit_ctx *c, struct ftk_log *l, struct s *s)\n{\n"
            . "    ctx->policy.seen = ftk_log.queue.n = 1;\n    $line\n}\n"
    );
    for my $file (sort keys %files) {
        open my $f, '>', "$tree/$file" or die "$file: $!\n";
        print $f $files{$file};
        close $f or die "$file: $!\n";
    }
    my $said = qx{scripts/owners --sources '$tree' '$tree/core.md' 2>&1};
    return ($? >> 8, $said);
}
my %shown = ('ctx->policy' => 'ctx->policy', 'c->policy' => 'ctx->policy',
    'ftk_log.queue' => 'ftk_log.queue', 'l->queue' => 'ftk_log.queue');
for my $of (sort keys %shown) {
    for my $line ("$of.calls = 1;", "x->$of.calls += 2;", "$of.calls++;", "--$of.calls;",
        "++x->$of.calls;", "$of.list[a[i]].n |= 1;", "x = $of.set_at = 2;", "take(&$of.calls);",
        "p = &$of;", "$of = (struct p){ 0 };", "takes(&$of);", "looks(x, &$of);",
        "memcpy($of.list, x, n);", "memcpy(&$of.calls, x, n);") {
        next if $line =~ /x->ftk_log/;
        ($rc, $said) = foreign($line);
        is($rc, 1, "another writer fails: $line");
        like($said, qr{^lib/set/loop\.c:4 writes \Q$shown{$of}\E\S*, which lib/set/policy\.c owns$}m,
            '... and is named');
    }
    for my $line ("x = $of.calls;", "if ($of.calls == 1)", "if ($of.calls <= 1)",
        "if (a && $of.calls)", "const struct p *p = &$of;", "const int *p = &$of.calls;",
        "/* $of.calls = 1 */", "memcpy(x, &$of.calls, n);", "looks(&$of, f(1, 2));",
        "looks(x->y, 1) + looks(&$of,\n        2);", "free($of.list);") {
        ($rc, $said) = foreign($line);
        is($rc, 0, "none: $line") or diag($said);
    }
}
for my $line ('ctx->policy.seen++;', 'ctx->both++;', 'l->queue.n--;', 'ctx->other = 1;',
    'ftk_log.other = 1;', 's->policy.calls = 1;', 's->queue.seq = 1;') {
    ($rc, $said) = foreign($line);
    is($rc, 0, "none: $line") or diag($said);
}

# a member without a line has one writer
for my $line ('ctx->alone = 2;', 'c->alone.n++;', 'l->alone.n = 2;', 'ftk_log.alone.m = 2;') {
    ($rc, $said) = foreign($line);
    is($rc, 1, "a second writer fails: $line");
    like($said, qr{^\S+alone has no owner in the table, and is written in lib/set/loop\.c:4, lib},
        '... and is named');
}

# calls of the MPI that pass the log of the program
($rc, $said) = planted('lib/core/a' => calls('a', 'PMPI_Test', 'MPI_T_init_thread'));
is($rc, 0, 'a call of the MPI itself is right') or diag($said);
($rc, $said) = planted('lib/core/a' => calls('a', 'MPI_Test'));
is($rc, 1, 'a call of the MPI of the program fails');
like($said, qr{^a call of the program's MPI, without ftk\.h: lib/core/a: MPI_Test$}m, '... and is named');

done_testing();
