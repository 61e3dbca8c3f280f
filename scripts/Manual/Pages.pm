# Manual pages of section 1 in the macros of man(7).
#
# SPDX-License-Identifier: BSD-3-Clause
package Manual::Pages;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(overview_page command_page title literal);

# Text that troff prints as it is.
sub literal
{
    my ($text) = @_;
    $text =~ s/\\/\\e/g;
    $text =~ s/-/\\-/g;
    $text =~ s/^(?=[.'])/\\&/gm;
    $text =~ s/([^\x00-\x7f])/sprintf '\\[u%04X]', ord $1/ge;
    return $text;
}

# The begin of a page.
sub title
{
    my ($name, $section, $version, $manual) = @_;
    return ".\\\" made by scripts/manual\n.TH "
        . literal(uc $name) . " $section \"\" \"ftkit $version\" \"$manual\"\n"
        . ".nh\n.ad l\n"; # names of functions and options stay whole
}

# A text without its indentation, its code in bold and these words in italics.
sub prose
{
    my ($text, %italic) = @_;
    $text = literal($text =~ s/^ +//gmr =~ s/\A\n+|\n+\z//gr);
    my $words = join '|', map {quotemeta} sort keys %italic;
    $text =~ s/\b($words)\b/\\fI$1\\fR/g if $words ne '';
    $text =~ s/`([^`]*)`/my $code = $1; $code =~ s{\\f[IR]}{}g; "\\fB$code\\fR"/ge;
    return "$text\n";
}

# A line of the synopsis, or the options of a list: options in bold, values in italics.
sub syntax
{
    my ($text) = @_;
    $text = literal($text);
    $text =~ s/(?<![\w\\-])((?:\\-){1,2}[A-Za-z][\w\\-]*)/\\fB$1\\fR/g;
    $text =~ s/(?<![\w\\])([A-Z]{2,}|[A-Z])(?![\w\\])/\\fI$1\\fR/g;
    return $text;
}

sub parts
{
    my ($u, @parts) = @_;
    my %italic = map { $_ => 1 } map {/\b([A-Z]{2,})\b/g} @{ $u->{synopsis} };
    my $text = '';
    my $last = '';
    for my $p (@parts) {
        my $kind = $p->[0];
        if ($kind eq 'item') { $text .= ".TP\n" . syntax($p->[1]) . "\n" . prose($p->[2], %italic) }
        elsif ($kind eq 'bullet') { $text .= ".IP \\(bu 2\n" . prose($p->[1], %italic) }
        elsif ($kind eq 'code') { $text .= ".PP\n.EX\n" . literal($p->[1]) . ".EE\n" }
        else { $text .= ($text eq '' ? '' : ".PP\n") . prose($p->[1], %italic) }
    }
    return $text;
}

sub synopsis
{
    my ($line) = @_;
    my ($name, $rest) = $line =~ /^(ftkit \S+)\s*(.*)$/;
    return '\\fB' . literal($name) . '\\fR' . ($rest eq '' ? '' : ' ' . syntax($rest)) . "\n";
}

sub codes
{
    my ($u) = @_;
    return join '', map { ".TP\n.B " . literal($_->[0]) . "\n" . prose($_->[1]) } @{ $u->{codes} };
}

# The examples of ftkit.1 that use the command.
sub examples
{
    my ($name, $template) = @_;
    my ($all) = $template =~ /^\.SH EXAMPLES\n\.EX\n(.*?)^\.EE$/ms or return '';
    my @own = grep {/^ftkit \Q$name\E\b/} split /\n/, $all;
    return @own ? ".SH EXAMPLES\n.EX\n" . join('', map {"$_\n"} @own) . ".EE\n" : '';
}

# ".BR a (1)" for each page, with commas
sub see
{
    my (@pages) = @_;
    my $text = join " ,\n", map { '.BR ' . literal($_->[0]) . " ($_->[1])" } @pages;
    return ".SH SEE ALSO\n" . ($text =~ s/\) ,$/),/gmr) . "\n";
}

sub command_page
{
    my ($u, $template, $version, @commands) = @_;
    my $name = "ftkit-$u->{name}";
    my %command = map { $_->{name} => 1 } @commands;
    my $all = join ' ', map { $_->[-1] } @{ $u->{body} }, @{ $u->{options} }, @{ $u->{notes} };
    my %other = map { $_ => 1 } grep { $command{$_} && $_ ne $u->{name} } $all =~ /`ftkit (\w+)/g;
    my $text = title($name, 1, $version, 'User Commands');
    $text .= ".SH NAME\n" . literal("$name - $u->{what}") =~ s/ \\- / \\- /r . "\n";
    $text .= ".SH SYNOPSIS\n" . join ".br\n", map { synopsis($_) } @{ $u->{synopsis} };
    $text .= ".SH DESCRIPTION\n" . parts($u, @{ $u->{body} }) if @{ $u->{body} };
    $text .= ".SH OPTIONS\n" . parts($u, @{ $u->{options} }) if @{ $u->{options} };
    $text .= ".SH EXIT STATUS\n" . codes($u) if @{ $u->{codes} };
    $text .= ".SH NOTES\n" . parts($u, @{ $u->{notes} }) if @{ $u->{notes} };
    $text .= examples($u->{name}, $template);
    return $text . see(['ftkit', 1], (map { ["ftkit-$_", 1] } sort keys %other), ['ftkit', 3]);
}

sub overview_page
{
    my ($template, $version, @commands) = @_;
    my $list = join '', map {
        ".TP\n.BR " . literal("ftkit-$_->{name}") . " (1)\n" . literal($_->{what}) . "\n"
    } @commands;
    my $see = see((map { ["ftkit-$_->{name}", 1] } @commands), ['ftkit', 3]);
    $template =~ s/\@VERSION\@/$version/g;
    $template =~ s/\@COMMANDS\@\n/$list/;
    $template =~ s/\@SEE\@\n/$see/;
    return $template;
}

1;
