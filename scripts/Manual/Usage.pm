# The usage texts of the commands, as data.
#
# SPDX-License-Identifier: BSD-3-Clause
package Manual::Usage;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(commands parse);

# The output of the program; dies when it fails.
sub output_of
{
    my (@command) = @_;
    open my $f, '-|', @command or die "$command[0]: $!\n";
    local $/ = undef;
    my $text = <$f>;
    close $f or die "@command: failed\n";
    return $text;
}

# All commands: name, what (its purpose), and what parse() finds.
sub commands
{
    my ($program) = @_;
    my @all;
    for my $line (split /\n/, output_of($program, 'help', '--list')) {
        my ($name, $what) = split /\t/, $line, 2;
        push @all, { name => $name, what => $what, parse(output_of($program, 'help', $name)) };
    }
    return @all;
}

# An option with its values from a text such as "-o FILE", "--mca KEY VALUE" or "--watch[=S]", whose
# value may be left out.
sub option
{
    my ($text) = @_;
    my ($name, @values) = split ' ', $text;
    if ($name =~ s/(\[?)=(.*)//) {
        @values = $1 eq '' ? ($2) : ();
    } elsif (grep { !/^[A-Za-z][\w.-]*$/ } @values) { # an example such as 'rank 3 at 30 s'
        @values = ('VALUE');
    }
    return { name => $name, values => \@values };
}

# "0; 1 when a set is damaged; 2 usage" as pairs.
sub inline_codes
{
    my ($text) = @_;
    my @codes;
    for my $part (split /;\s+(?=\d|else\b)/, $text =~ s/\.\s*$//r) {
        my ($code, $means) = $part =~ /^(\d+|else),?\s*(?:when\s+)?(.*)$/s or next;
        push @codes, [$code eq 'else' ? 'other' : $code, $means eq '' ? 'success' : $means];
    }
    return @codes;
}

# The lines of one block (between blank lines) as [para => text], [item => term, text],
# [bullet => text] or [code => text].
sub block
{
    my (@lines) = @_;
    my (@out, $open);
    for my $line (@lines) {
        if ($line =~ /^\S/) {
            push @out, ['para', ''] if !@out || $out[-1][0] ne 'para';
            $out[-1][1] .= "$line\n";
        } elsif ($line =~ /^  - (.*)$/) {
            push @out, ['bullet', "$1\n"];
        } elsif ($line =~ /^  (\S.*?)(?:  +(\S.*))?$/) {
            my ($term, $text) = ($1, $2 // '');
            if ($open) { # the line before has ended with a comma
                $out[-1][1] .= " $term";
                $out[-1][2] .= "$text\n";
            } else {
                push @out, ['item', $term, "$text\n"];
            }
            $open = $text eq '' && $term =~ /,$/;
        } elsif (@out && $out[-1][0] ne 'para' && $out[-1][0] ne 'code') {
            $out[-1][-1] .= ($line =~ s/^ +//r) . "\n";
        } else {
            push @out, ['code', ''] if !@out || $out[-1][0] ne 'code';
            $out[-1][1] .= "$line\n";
        }
    }
    return @out;
}

# synopsis[], body[] (before the options), options[] (item, and option names in names[]), notes[]
# (after them), codes[] (pairs).
sub parse
{
    my ($text) = @_;
    my ($head, @blocks) = split /\n\n+/, $text;
    my %u = (synopsis => [], body => [], options => [], notes => [], codes => [], names => []);
    for my $line (split /\n/, $head =~ s/^usage: //r) {
        $line =~ s/^ +//;
        if ($line =~ /^ftkit /) { push @{ $u{synopsis} }, $line }
        else { $u{synopsis}[-1] .= " $line" }
    }
    for my $b (@blocks) {
        if ($b =~ /^Exit codes?:\s*\n(?= )/) {
            push @{ $u{codes} }, map { [@$_[1, 2]] } grep { $_->[0] eq 'item' }
                block(split /\n/, $b =~ s/^.*\n//r);
            next;
        }
        if ($b =~ /^Exit codes?: (.*)/s) {
            push @{ $u{codes} }, inline_codes($1);
            next;
        }
        for my $part (block(split /\n/, $b)) {
            my $is_option = $part->[0] eq 'item' && $part->[1] =~ /^-/;
            push @{ $is_option ? $u{options} : @{ $u{options} } ? $u{notes} : $u{body} }, $part;
        }
    }
    for my $o (@{ $u{options} }) {
        push @{ $u{names} }, map { { %{ option($_) }, text => $o->[2] } } split /,\s*| \| /, $o->[1];
    }
    # options of the synopsis that no list explains
    my %known = map { $_->{name} => 1 } @{ $u{names} };
    for my $line (@{ $u{synopsis} }) {
        while ($line =~ /(?<![\w-])(--?[A-Za-z][\w-]*)(?: ([A-Z]+)\b)?/g) {
            next if $known{$1}++;
            push @{ $u{names} }, { name => $1, values => [grep {defined} $2], text => '' };
        }
    }
    $u{arguments} = [arguments(\%u)];
    return %u;
}

# The names of the arguments that are no options, from the synopsis with most of them; '...' at the
# end of a name: it may be repeated.
sub arguments
{
    my ($u) = @_;
    my %takes = map { ($_->{name} => scalar @{ $_->{values} }) } @{ $u->{names} };
    my @best;
    for my $line (@{ $u->{synopsis} }) {
        my @words = split ' ', $line =~ s/ \[: .*//r =~ s/[\[\]|]/ /gr =~ s/ (?=\.\.\.)//r;
        splice @words, 0, 2;
        my @found;
        while (defined(my $word = shift @words)) {
            if ($word =~ /^-/) {
                splice @words, 0, $takes{$word} // 0;
            } elsif ($word =~ /^[A-Z]/ && $word ne 'OPTION' && $word ne 'OPTION...') {
                $word .= '...' if @words && $words[0] eq '...';
                push @found, $word;
            }
        }
        @best = @found if @found > @best;
    }
    return @best;
}

1;
