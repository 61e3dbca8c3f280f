#!/usr/bin/perl
# `make lint` finds nothing.  clang-tidy follows fewer states of a function than `make lint` does, and
# cppcheck is left out; with --all both are complete.  The layers are the subject of layers.t.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

my $build = build();
chdir top();
delete $ENV{$_} for qw(MAKEFLAGS MFLAGS MAKELEVEL FILES LINT_NODES LINT_ONLY);

# all of it at once; -o: without make layers
{
    local @ENV{qw(LINT_NODES LINT_ONLY)} = (2000, 'tidy format') if !all_cases();
    my $out = `scripts/guard 1500 -- make --no-print-directory -o layers lint BUILD='$build' 2>&1`;
    is($?, 0, 'make lint') or diag((grep {/(error|warning|performance|portability):/} split /^/m, $out),
        substr($out, -2000));
    note($1) while $out =~ /^(lint: .* is not installed)$/mg;
}

# and it would: a file with one mistake for each
my $bad = scratch() . '/bad.c';
open my $f, '>', $bad or die "$bad: $!\n";
print $f "#include <stdlib.h>\nint  f(int i);\nint f(int i)\n{\n    int a[2] = { 1, 2 };\n"
    . "    char *p = malloc(3);\n    if (i)\n        return a[2];\n    p[0] = 1;\n"
    . "    return p[0];\n}\nint __g;\n";
close $f;
for my $case (['tidy', 'clang-tidy', in_any_order(qr/unix\.Malloc/, qr/-reserved-identifier/)],
    ['cppcheck', 'cppcheck', qr/arrayIndexOutOfBounds/])
{
    my ($piece, $program, $finding) = @$case;
  SKIP: {
        skip "no $program", 3 if system("command -v $program >/dev/null 2>&1") != 0;
        local @ENV{qw(LINT_ONLY FILES BUILD)} = ($piece, $bad, $build);
        my $out = `scripts/lint 2>&1`;
        is($? >> 8, 1, "$program: a mistake fails");
        like($out, $finding, '... and is named');
        $out = `scripts/lint 2>&1`;
        ok($? >> 8 == 1 && $out =~ $finding, '... also a second time, when nothing has changed') or diag($out);
    }
}

# The Makefile gives a second object to the sources that name a fault point.  A fault point in a header would
# be in sources that do not name one.
is(join(' ', sort grep { $_ ne 'lib/core/ftk.h' } split /\n/,
        `grep -lE 'FTK_FAULT|ftk_fault_' lib/*.h lib/*/*.h lib/*/*/*.h`),
    '', 'of the headers only lib/core/ftk.h names fault points');

# the kernel in the library is that of its source
SKIP: {
    skip 'no clang 14 with a target for PTX', 1 if `clang-14 --print-targets 2>/dev/null` !~ /nvptx64/;
    is(`scripts/ptx --print`, slurp('lib/core/cuda_sums_ptx.h'), 'scripts/ptx makes the same PTX');
}
SKIP: {
    skip 'no ptxas', 1 if system('command -v ptxas >/dev/null 2>&1') != 0;
    my $ptx = join '', slurp('lib/core/cuda_sums_ptx.h') =~ /^    "(.*)";?$/mg;
    $ptx =~ s/\\(.)/$1 eq 'n' ? "\n" : $1/ge;
    open my $o, '>', scratch() . '/sums.ptx' or die "$!\n";
    print $o $ptx;
    close $o;
    my $out = `ptxas -arch sm_80 -o /dev/null '${\ scratch()}/sums.ptx' 2>&1`;
    is($? . $out, '0', '... which is right') or diag(substr($ptx, 0, 1000));
}

my $long = scratch() . '/long.c';
open $f, '>', $long or die "$long: $!\n";
print $f '/* ', 'x' x 98, " */\nint i;\n";
close $f;
{
    local @ENV{qw(LINT_ONLY FILES BUILD)} = ('format', $long, $build);
    like(`scripts/lint 2>&1`, qr/long\.c:1: error: longer than 100 columns/, 'format: a long line');
    is($? >> 8, 1, '... fails');
    for my $case (['a name in Latin letters', "/* Kal\303\251 */\n", 0], ['another script', "int \327\220;\n", 1]) {
        write_file($long, $case->[1]);
        is(`scripts/lint 2>&1` =~ /long\.c:1: error: neither ASCII/ ? 1 : 0, $case->[2], "format: $case->[0]");
    }
    mkdir scratch() . '/lib';
    my $many = scratch() . '/lib/many.c';
    for my $lines (600, 601) {
        write_file($many, "int i;\n" x $lines);
        $ENV{FILES} = $many;
        my $out = `scripts/lint 2>&1`;
        is($out =~ /many\.c: error: longer than 600 lines/ ? 1 : 0, $lines > 600 ? 1 : 0,
            "format: a file of the library with $lines lines");
    }
  SKIP: {
        skip 'no clang-format-14', 1 if system('command -v clang-format-14 >/dev/null 2>&1') != 0;
        $ENV{FILES} = $bad;
        like(`scripts/lint 2>&1`, qr/bad\.c:\d+:\d+: error: code should be clang-formatted/,
            '... and so does another format');
    }
}

# titles of commits, from where the rule is kept: "area: what it does now", at most 60 characters
SKIP: {
    my $from = '2c9350a';
    skip 'no history', 1 if system("git merge-base --is-ancestor $from HEAD 2>/dev/null") != 0;
    my @titles = grep { !/^Merge / } split /\n/, `git log --format=%s $from..HEAD`;
    is_deeply([grep { length > 60 || !/^[\w, ]+: \S/ } @titles], [], 'titles of commits');
}

done_testing();
