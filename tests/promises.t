#!/usr/bin/perl
# What the documents name is there: commands, keys, variables, functions, codes, targets of
# make, files, the pages and headings that they link to.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

chdir top() or die 'chdir: ', top(), "\n";

my ($code, $help, $errors) = command('help');
is($code, 0, 'ftkit help') or diag($errors);
my %command = map { $_ => 1 } $help =~ /^ +([a-z]+) /mg;
cmp_ok(scalar keys %command, '>=', 8, 'ftkit help lists the commands');

my $document;
($code, $document) = command('config', '--document');
is($code, 0, 'ftkit config --document');

my (%key, %variable, %section);
for my $part (split /^(?=## \[)/m, $document) {
    my ($section) = $part =~ /^## \[(.*?)\]/ or next;
    $section{$section} = 1;
    while ($part =~ /^\| `(\w+)` .*\| `(FTKIT_\w+)` \|/mg) {
        $key{"$section.$1"} = 1;
        $variable{$2} = 1;
    }
}
cmp_ok(scalar keys %key, '>', 40, 'the document lists the keys');

my $header = slurp('include/ftkit.h');
my %function = map { $_ => 1 } $header =~ /\b(ftkit_\w+)/g;
my ($list) = $header =~ /#define FTKIT_STATUS_LIST\(X\)(.*?)\n\n/s;
my (%status, %reserved);
while ($list =~ /X\((\w+), *-?\d+, *"([^"]*)"\)/g) {
    my ($name, $means) = ("FTKIT_$1", $2);
    $status{$name} = 1;
    $reserved{$name} = 1 if $means =~ /^reserved/;
}
cmp_ok(scalar keys %status, '>', 25, 'the header lists the codes');

my %text = map { $_ => slurp($_) } qw(README.md CONTRIBUTING.md CHANGELOG.md include/ftkit.h
    bindings/fortran/ftkit.f90), glob('docs/*.md docs/design/*.md examples/* examples/fortran/*');
delete @text{ grep { -d $_ } keys %text };
$text{'ftkit config --document'} = $document;
$text{$_} = slurp($_) for glob build() . "/manual/man1/*";

# Each of what a pattern finds in a document is in the list of what there is.
sub all_known
{
    my ($what, $pattern, $known, @in) = @_;
    my ($seen, @bad) = (0);
    for my $in (sort { $a cmp $b } @in ? @in : keys %text) {
        while ($text{$in} =~ /$pattern/g) {
            $seen++;
            push @bad, "$in: $1" if !$known->($1);
        }
    }
    ok(!@bad && $seen > 0, "$what: $seen of them") or diag(join "\n", @bad);
    return;
}

all_known('commands of ftkit', qr/(?:`|^ {4,})ftkit ([a-z]+)\b/m, sub { $command{ $_[0] } });
my $sections = join '|', map {quotemeta} sort keys %section;
all_known('keys', qr/(?<![\w.])((?:$sections)\.[a-z_]\w+)\b(?![\/.(]\w)/,
    sub { $key{ $_[0] } || $section{ $_[0] } || $_[0] =~ /\.(c|h|py|t|md|f90|pml|html)$/ });

# codes and constants: of the header; those that are reserved are used nowhere else
# (Fortran of 1977 has the functions in capitals)
my %constant = map { $_ => 1 } keys %status, $header =~ /\b(FTKIT_\w+)\b/g;
delete @constant{ keys %reserved };
my %other = map { $_ => 1 } qw(FTKIT_LEVEL_ERROR FTKIT_LEVEL_WARNING FTKIT_LEVEL_INFO
    FTKIT_LEVEL_DEBUG FTKIT_ERR_);
my $sources = join '', map { slurp($_) } 'Makefile', glob('lib/*.c lib/*/*.c bindings/*/*.c bindings/*/*/*.c tools/*.c scripts/* tests/unit/*.h tests/lib/*');
all_known('constants and variables', qr/\b(FTKIT_[A-Z0-9_]+[A-Z0-9])\b/, sub {
        $constant{ $_[0] } || $variable{ $_[0] } || $other{ $_[0] } || $function{ lc $_[0] }
            || $sources =~ /["'\$ (|]\{?\Q$_[0]\E\b/;
    }, grep { $_ ne 'CHANGELOG.md' } keys %text); # which tells of what was
my @unused = grep { !$reserved{$_} && $sources !~ /\b\Q$_\E\b/ } sort keys %status;
is("@unused", '', 'every code that is not reserved is returned somewhere');
my @used = grep { $sources =~ /\b\Q$_\E\b/ } sort keys %reserved;
is("@used", '', '... and none that is');

my $module = slurp('bindings/fortran/ftkit.f90');
my %fortran = map { lc $_ => 1 } $module =~ /\b(ftkit_\w+)/gi;
all_known('functions', qr/\b(ftkit_[a-z]\w*)\b(?!\.\w)/, sub {
        $function{ $_[0] } || $fortran{ $_[0] }
            || $_[0] =~ /^ftkit_(mpi|fortran|static|needs)$/;
    }, grep { /\.md$/ } keys %text);

my %target = map { $_ => 1 } slurp('Makefile') =~ /^([a-z-]+)(?=[ a-z-]*:(?!=))/mg;
my @phony = map {split} slurp('Makefile') =~ /^\.PHONY: (.*)$/mg;
$target{$_} = 1 for @phony;
all_known('targets of make', qr/(?:`|^ {4,})make ([a-z-]+)\b/m, sub { $target{ $_[0] } },
    grep { /\.md$/ } keys %text);

# functions and fields of the sources, where a document names one in backquotes
my %word = map { $_ => 1 } map { slurp($_) =~ /\w+/g } 'Makefile',
    glob('lib/*.[ch] lib/*/*.[ch] lib/*/*/*.[ch] lib/*/*/*.tab bindings/*/*.[ch] bindings/*/*/*.[ch] include/* tools/*.[ch] scripts/* tests/lib/*');
all_known('names of the sources', qr/`([a-z]\w*_\w+)(?:\(\))?`/,
    sub { $word{ $_[0] } || $_[0] =~ /^(?:p?mpi|ompi)_|\bftkit_/ }, glob('docs/design/*.md'),
    'CONTRIBUTING.md');

# paths of the tree, where a document names one in backquotes
all_known('files', qr/`((?:docs|examples|include|scripts|tests|tools|bindings|lib)\/[\w.\/-]+)`/,
    sub { -e $_[0] || ($_[0] =~ /\.(\w+)$/ && -e "lib/$_[0]") }, grep { /\.md$/ } keys %text);

# links from page to page, and to a heading by its words in small letters
my $headings = sub {
    my ($page) = @_;
    my $prose = $text{$page} =~ s/^```.*?^```$//gmsr;
    return map { lc(s/[^\w\s-]//gr) =~ s/ /-/gr => 1 } $prose =~ /^#+ (.*)$/mg;
};
my ($links, @broken) = (0);
for my $page (grep { /\.md$/ } sort keys %text) {
    my $folder = $page =~ m{^(.*/)} ? $1 : '';
    while ($text{$page} =~ /\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)/g) {
        my ($to, $heading) = ($1 eq '' ? $page : $folder . $1, $2);
        1 while $to =~ s{[^/]+/\.\./}{};
        $links++;
        my %known = defined $heading && $text{$to} ? $headings->($to) : ();
        push @broken, "$page: $to" if !-e $to;
        push @broken, "$page: $to#$heading" if defined $heading && !$known{$heading};
    }
}
ok(!@broken && $links > 10, "links: $links of them") or diag(join "\n", @broken);

# numbers in text, which a decimal comma of the program must not change: lib/core/format.h
my ($calls, @bare) = (0);
for my $file (grep { !m{core/(?:format|config)\.c$} } glob('lib/*.c lib/*/*.c lib/*/*/*.c')) {
    my $code = slurp($file) =~ s{/\*.*?\*/}{}gsr;
    while ($code =~ /(?<!\w)(v?(?:[fd]|sn?)?printf)\s*\(((?:[^;"]|"(?:[^"\\]|\\.)*")*+);/g) {
        my ($name, $call) = ($1, $2);
        $calls++;
        push @bare, "$file: $name($call" if $name =~ /^v/ || $call =~ /%[-+ #0-9.*]*l?[aefgAEFG]/;
    }
    push @bare, "$file: $1" while $code =~ /\b((?:ato[fd]|strto(?:f|d|ld))\s*\(.*)/g;
}
ok(!@bare && $calls > 100, 'a double is formatted by ftk_format()') or diag(join "\n", @bare);

# the list of files is made of the first comments
my $files = qx{scripts/files 2>&1};
ok($? == 0 && $files =~ /^lib\/set\n(?:    .*\n)*    checkpoint\.c, \.h +\w.*\n/m,
    'the first comment of every source file says what the file is') or diag($files =~ /^files: .*/mg);
my $bare = scratch();
write_file("$bare/said.c", "/* What is said.\n *\n * More. */\n");
write_file("$bare/bare.c", "/* SPDX-License-Identifier: BSD-3-Clause */\n");
$files = qx{scripts/files '$bare' 2>&1};
ok($? != 0 && $files =~ /\bsaid\.c +What is said\n/ && $files =~ /^files: \S*bare\.c: /m,
    '... and a file without one is found') or diag($files);

my $lines = () = $text{'README.md'} =~ /\n/g;
cmp_ok($lines, '<=', 200, 'the README is short');

done_testing();
