# Manual pages of section 3 from the comments of include/ftkit.h.
#
# A comment "/** ... */" describes the declaration behind it, and "/* ---- Title --- ... */" begins
# a section.  In a comment these are known: @param, @return, paragraphs that a word and a colon
# begin ("Errors: ..."), code (four more blanks in front).
#
# SPDX-License-Identifier: BSD-3-Clause
package Manual::Header;
use strict;
use warnings;
use Exporter 'import';
use Manual::Pages qw(title literal);

our @EXPORT_OK = qw(library_pages);

my %function; # names of all functions

# The text of a comment without its stars.
sub plain
{
    my ($comment) = @_;
    $comment =~ s{\A/\*+ ?}{};
    $comment =~ s{ *\*/\z}{};
    $comment =~ s{^ \* ?}{}gm;
    return $comment =~ s/\A\s*\n//r =~ s/\s+\z//r;
}

# ---- the header in pieces ----------------------------------------------------------------

# Sections: { title, text, items[] }; an item is { doc, code, name, kind }: a function, a type, or
# other code.
sub sections
{
    my ($header) = @_;
    my @sections = ({ title => '', text => '', items => [] });
    my ($intro) = $header =~ m{\A(/\*.*?\*/)}s;
    my ($body) = $header =~ /^#define FTKIT_DIMS_MAX[^\n]*\n(.*?)^#ifdef __cplusplus/ms;
    die "ftkit.h: no declarations\n" if !defined $body;
    while ($body =~ /\G\s*(?:(\/\*.*?\*\/)\s*|((?:(?!\/\*\*|\/\* ----|\n\n).)+)\n*)/gcs) {
        my ($comment, $code) = ($1, $2);
        my $last = $sections[-1]{items};
        if (defined $comment && $comment =~ m{\A/\* ---- (.*?) -*(?: \*/|\n)(.*)}s) {
            my ($title, $text) = ($1, $2 // '');
            push @sections, { title => $title, text => plain("/*\n$text"), items => [] };
        } elsif (defined $comment && $comment =~ m{\A/\*\*}) {
            push @$last, { doc => plain($comment), code => '' };
        } elsif (defined $code && $code =~ /\S/) {
            push @$last, { doc => '', code => '' } if !@$last || $last->[-1]{code} ne '';
            $last->[-1]{code} = $code;
        }
    }
    return (plain($intro), @sections);
}

# Types contain comments, and status codes are a macro: so the code of a declaration goes up to
# the end of its braces.
sub declarations
{
    my ($header) = @_;
    my ($intro, @sections);
    my %hidden;
    # comments inside of braces are no comments of declarations
    $header =~ s/(\{(?:[^{}]|(\{[^{}]*\}))*\})/my $b = $1; my $k = "\x01" . keys(%hidden) . "\x02"; $hidden{$k} = $b; $k/ges
        if $header =~ s/extern "C" \{//;
    ($intro, @sections) = sections($header);
    for my $item (map { @{ $_->{items} } } @sections) {
        1 while $item->{code} =~ s/(\x01\d+\x02)/$hidden{$1}/g;
        my $code = $item->{code};
        if ($code =~ /\AFTKIT_API\s+[^(]*?(ftkit_\w+)\s*\(/) { @$item{qw(kind name)} = ('function', $1) }
        elsif ($code =~ /\Atypedef .*\b(ftkit_\w+);\s*\z/s) { @$item{qw(kind name)} = ('type', $1) }
        elsif ($code =~ /\Atypedef \w+ (ftkit_\w+)\(/) { @$item{qw(kind name)} = ('type', $1) }
        elsif ($code =~ /\Aenum (ftkit_\w+)/) { @$item{qw(kind name)} = ('enum', $1) }
        else { @$item{qw(kind name)} = ('other', '') }
    }
    return ($intro, @sections);
}

# ---- comments as troff -------------------------------------------------------------------

sub inline
{
    my ($text) = @_;
    $text = literal($text =~ s/^ +//gmr =~ s/\n+\z//r);
    $text =~ s/\b(ftkit_\w+)\(\)/$function{$1} ? "\\fB$1\\fR(3)" : "\\fB$1\\fR()"/ge;
    $text =~ s/(?<!\\fB)\b(FTKIT_\w+)/\\fB$1\\fR/g;
    $text =~ s/`([^`]*)`/\\fB$1\\fR/g;
    return "$text\n";
}

# The paragraphs of a comment: { para, label, param, return, code }, each a list of [name, text].
sub paragraphs
{
    my ($doc) = @_;
    my @out;
    for my $line (split /\n/, $doc) {
        my $kind = @out ? $out[-1][0] : '';
        if ($line =~ /^\@param(?:\[\w+\])?\s+(\w+)\s+(.*)$/) { push @out, ['param', $1, "$2\n"] }
        elsif ($line =~ /^\@return\s+(.*)$/) { push @out, ['return', '', "$1\n"] }
        elsif ($line =~ /^([A-Z][a-z]+):\s+(\S.*)$/) { push @out, ['label', $1, "$2\n"] }
        elsif ($line =~ /^\s*$/) { push @out, ['', '', ''] }
        elsif ($line =~ /^    / && ($kind eq '' || $kind eq 'code')) {
            push @out, ['code', '', ''] if $kind ne 'code';
            $out[-1][2] .= ($line =~ s/^    //r) . "\n";
        } elsif ($kind eq 'label' && $line =~ /^\S/) { push @out, ['para', '', "$line\n"] }
        else {
            push @out, ['para', '', ''] if $kind eq '' || $kind eq 'code';
            $out[-1][2] .= "$line\n";
        }
    }
    return grep { $_->[0] ne '' } @out;
}

# A text in which lines that begin with a code begin a paragraph.
sub codes { my ($text) = @_; return join ".PP\n", map { inline($_) } split /^(?= *FTKIT_)/m, $text }

sub body
{
    my (@parts) = @_;
    my $text = '';
    for my $p (@parts) {
        my ($kind, $name, $said) = @$p;
        if ($kind eq 'code') { $text .= ".PP\n.EX\n" . literal($said) . ".EE\n" }
        elsif ($kind eq 'label' || $kind eq 'param') {
            my $font = $kind eq 'param' ? 'I' : 'B';
            $text .= ".TP\n.$font $name\n" . inline($said);
        } elsif ($said =~ /^ {0,3}- /m) { # a list
            my ($before, @items) = split /^ {0,3}- /m, $said;
            $text .= ".PP\n" . inline($before) if $before =~ /\S/;
            $text .= ".IP \\(bu 2\n" . inline($_) for @items;
        } else { $text .= ($text eq '' ? '' : ".PP\n") . codes($said) }
    }
    return $text;
}

# The first words of a comment, for NAME: up to the first comma or colon that leaves enough of them.
sub purpose
{
    my ($item) = @_;
    my ($first) = $item->{doc} =~ /\A(.*?)(?:\.(?=\s)|\.\z|\n\n|\z)/s;
    $first =~ s/\s+/ /g;
    $first =~ s/ *\([^()]+\)//g;
    $first = $1 if $first =~ /\A(.{25,}?)[;:,] /;
    $first =~ s/ *[;:,]\z//;
    return $first =~ /\A(?:[A-Z]{2}|MPI)/ ? $first : lcfirst $first;
}

sub code_of { my ($code) = @_; return ".EX\n" . literal($code =~ s/\s+\z//r) . "\n.EE\n" }

sub declaration
{
    my ($item) = @_;
    my $code = $item->{code} =~ s/\AFTKIT_API\s+//r =~ s/\s+/ /gr =~ s/\( /(/gr =~ s/ \z//r;
    my @lines = ('');
    for my $part (split /(?<=,) /, $code) {
        push @lines, '    ' if length("$lines[-1] $part") > 72 && $lines[-1] =~ /\S/;
        $lines[-1] .= ($lines[-1] =~ /\S/ ? ' ' : '') . $part;
    }
    return ".nf\n" . join('', map { '\\fB' . literal($_) . "\\fR\n" } @lines) . ".fi\n";
}

# ---- pages -------------------------------------------------------------------------------

sub see
{
    my (@names) = @_;
    my @refs = map { '.BR ' . literal($_->[0]) . " ($_->[1])" } @names;
    return ".SH SEE ALSO\n" . join('', map { $_ < $#refs ? "$refs[$_],\n" : "$refs[$_]\n" } 0 .. $#refs);
}

sub function_page
{
    my ($item, $version, $types, @others) = @_;
    my $name = $item->{name};
    my @parts = paragraphs($item->{doc});
    my $text = title($name, 3, $version, 'ftkit');
    $text .= ".SH NAME\n$name \\- " . literal(purpose($item)) . "\n";
    $text .= ".SH LIBRARY\nftkit (libftkit)\n.SH SYNOPSIS\n.nf\n.B #include <ftkit.h>\n.fi\n.PP\n" . declaration($item);
    my @types = grep { $item->{code} =~ /\b\Q$_->{name}\E\b/ && $_->{name} ne 'ftkit_ctx' } @$types;
    $text .= ".SH DESCRIPTION\n" . body(grep { $_->[0] eq 'para' || $_->[0] eq 'code' } @parts);
    my @params = grep { $_->[0] eq 'param' } @parts;
    $text .= ".SH ARGUMENTS\n" . body(@params) if @params;
    for my $t (@types) {
        $text .= ".SH TYPES\n" if $t == $types[0];
        $text .= body(paragraphs($t->{doc})) . ".PP\n" . code_of($t->{code});
    }
    my @return = grep { $_->[0] eq 'return' } @parts;
    if (@return) { $text .= ".SH RETURN VALUE\n" . body(@return) }
    elsif ($item->{code} =~ /\AFTKIT_API int\b/ && $item->{doc} !~ /\A[01] |Returns? /) {
        $text .= ".SH RETURN VALUE\nA status code:\n.B FTKIT_OK\nor one of the errors, see\n.BR ftkit (3).\n";
    }
    my @labels = grep { $_->[0] eq 'label' } @parts;
    my @errors = grep { $_->[1] eq 'Errors' } @labels;
    $text .= ".SH ERRORS\n" . codes($_->[2]) for @errors;
    my @notes = grep { $_->[1] ne 'Errors' } @labels;
    $text .= ".SH NOTES\n" . body(@notes) if @notes;
    return $text . see(['ftkit', 3], (map { [$_, 3] } @others), ['ftkit', 1]);
}

# The table of the status codes.
sub status_table
{
    my ($code) = @_;
    my $text = '';
    while ($code =~ /X\((\w+), *(-?\d+), *"([^"]*)"\)/g) {
        $text .= ".TP\n.B FTKIT_$1 " . literal("($2)") . "\n" . inline($3);
    }
    return $text;
}

sub library_page
{
    my ($intro, $example, $version, @sections) = @_;
    my ($about, $conventions) = $intro =~ /\A.*?\n\n.*?\n\n(.*?)\n\n(Conventions.*)\z/s
        or die "ftkit.h: no introduction\n";
    my $text = title('ftkit', 3, $version, 'ftkit');
    $text .= ".SH NAME\nftkit \\- fault tolerance for MPI programs\n";
    $text .= ".SH LIBRARY\nftkit (libftkit)\n.SH SYNOPSIS\n.nf\n.B #include <ftkit.h>\n.fi\n.PP\n.EX\n"
        . literal("\$(pkg-config --variable=mpicc ftkit) program.c \$(pkg-config --cflags --libs ftkit)")
        . "\n.EE\n.SH DESCRIPTION\n" . inline($about);
    my ($head, @rules) = split /^ *- /m, $conventions;
    $text .= ".SS Conventions\n" . join '', map { ".IP \\(bu 2\n" . inline($_) } @rules;
    for my $s (@sections) {
        next if $s->{title} eq '';
        $text .= '.SS ' . literal($s->{title}) . "\n";
        my $said = $s->{text};
        my ($before, $rest) = split /\n(?=   )/, $said, 2; # a table
        if (defined $rest) {
            my ($table, $after) = $rest =~ /\A(.*?)(?:\n\n(.*))?\z/s;
            $text .= inline($before) . ".PP\n.EX\n" . literal("$table\n") . ".EE\n";
            $text .= ".PP\n" . inline($after) if defined $after;
        } else { $text .= body(paragraphs($said)) }
        for my $item (@{ $s->{items} }) {
            if ($item->{code} =~ /#define FTKIT_STATUS_LIST/) { $text .= status_table($item->{code}) }
            elsif ($item->{kind} eq 'function') {
                $text .= ".TP\n.BR $item->{name} (3)\n" . literal(purpose($item)) . "\n";
            } elsif ($item->{kind} eq 'enum' && $item->{doc} ne '') {
                $text .= ".PP\n" . inline($item->{doc}) . ".PP\n" . code_of($item->{code});
            }
        }
    }
    $text .= ".SH EXAMPLES\n.EX\n" . literal($example) . ".EE\n";
    return $text . see(['ftkit', 1], ['ftkit-run', 1], ['ftkit-config', 1]);
}

# File name => text of all pages.
sub library_pages
{
    my ($header, $example, $version) = @_;
    my ($intro, @sections) = declarations($header);
    my @types = grep { $_->{kind} eq 'type' } map { @{ $_->{items} } } @sections;
    %function = map { $_->{name} => 1 } grep { $_->{kind} eq 'function' } map { @{ $_->{items} } } @sections;
    my %page = ('ftkit.3' => library_page($intro, $example, $version, @sections));
    for my $s (@sections) {
        my @functions = grep { $_->{kind} eq 'function' } @{ $s->{items} };
        for my $f (@functions) {
            my @named = grep { $function{$_} && $_ ne $f->{name} } $f->{doc} =~ /\b(ftkit_\w+)\(\)/g;
            my %seen;
            $page{"$f->{name}.3"} = function_page($f, $version, \@types, grep { !$seen{$_}++ } sort @named);
        }
    }
    return %page;
}

1;
