# Completion for bash and zsh.
#
# SPDX-License-Identifier: BSD-3-Clause
package Manual::Completion;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(bash zsh);

# What a value is, by the word that stands for it in the usage text.
my %kind = (DIR => 'directory', FILE => 'file', MATRIX => 'file', PATH => 'file', PROGRAM => 'program',
    ARGUMENT => 'file', COMMAND => 'command', HOSTS => 'host', SET => 'set', REGION => 'region');

sub kind_of { my ($word) = @_; return $kind{ $word =~ s/\.\.\.$//r } // 'none' }

# The options of a command, each once, with --help.  A value in small letters stands for itself:
# { name, values[], words[] (possible values), text }.
sub options
{
    my ($u) = @_;
    my (@all, %at);
    for my $o (@{ $u->{names} }, { name => '--help', values => [], text => 'explain the command' }) {
        my $own = $at{ $o->{name} };
        if (!$own) {
            $own = $at{ $o->{name} } = { %$o, words => [] };
            push @all, $own;
        }
        push @{ $own->{words} }, grep {/^[a-z]/} @{ $o->{values} };
    }
    return @all;
}

# ---- bash --------------------------------------------------------------------------------

# The lines of a case for all commands.
sub bash_case
{
    my ($u) = @_;
    my @options = options($u);
    my $names = join ' ', map { $_->{name} } @options;
    my $text = "    $u->{name})\n        options='$names'\n";
    my %values; # kind, or words => options
    for my $o (grep { @{ $_->{values} } } @options) {
        my $what = @{ $o->{words} } ? "words @{ $o->{words} }" : kind_of($o->{values}[0]);
        push @{ $values{$what} }, $o->{name};
    }
    $text .= "        case \$1 in\n" if %values;
    for my $what (sort keys %values) {
        $text .= '        ' . join(' | ', @{ $values{$what} }) . ") value='$what' ;;\n";
    }
    $text .= "        esac\n" if %values;
    my @two = map { $_->{name} } grep { @{ $_->{values} } == 2 } @options;
    $text .= "        twice='@two'\n" if @two;
    my @arguments = map { kind_of($_) . ($_ =~ /\.\.\.$/ ? '*' : '') } @{ $u->{arguments} };
    $text .= "        arguments='@arguments'\n" if @arguments;
    return $text . "        ;;\n";
}

sub bash
{
    my (@commands) = @_;
    my $names = join ' ', map { $_->{name} } @commands;
    my $cases = join '', map { bash_case($_) } @commands;
    return <<"END_HEAD" . <<'END_MIDDLE' . $cases . <<'END_TAIL';
# bash completion for ftkit, made by scripts/manual

_ftkit_commands='$names'
END_HEAD

# _ftkit_table COMMAND OPTION: set options, the kind of the value of OPTION ("" without one), the
# options with two values, and the kinds of the arguments.  A '*' ends a kind that may be repeated.
_ftkit_table()
{
    local command=$1
    shift
    options='' value='' twice='' arguments=''
    case $command in
END_MIDDLE
    esac
}

# The sets of a directory, or the regions of a set, in lines.
_ftkit_sets()
{
    echo newest
    "$1" ls "$2" 2>/dev/null | awk '$1 ~ /^[0-9]+$/ { print $1 }'
}

_ftkit_regions()
{
    "$1" show --json "$2" "$3" 2>/dev/null | sed -n 's/^ *"name": "\(.*\)",$/\1/p'
}

# _ftkit_offer KIND CURRENT: fill COMPREPLY
_ftkit_offer()
{
    local IFS=$'\n' cur=$2 found word
    case ${1%\*} in
    directory) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur")) ;;
    file) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")) ;;
    program) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -c -f -- "$cur")) ;;
    host) COMPREPLY=($(compgen -A hostname -- "$cur")) ;;
    command) COMPREPLY=($(IFS=' '; compgen -W "$_ftkit_commands" -- "$cur")) ;;
    words*) COMPREPLY=($(IFS=' '; compgen -W "${1#words }" -- "$cur")) ;;
    set) COMPREPLY=($(compgen -W "$(_ftkit_sets "${COMP_WORDS[0]}" "${given[0]}")" -- "$cur")) ;;
    region)
        for word in $(_ftkit_regions "${COMP_WORDS[0]}" "${given[@]:0:2}"); do
            case $word in "$cur"*) COMPREPLY+=("$(printf %q "$word")") ;; esac
        done
        ;;
    esac
}

_ftkit()
{
    local options value twice arguments given=() kinds=() i=2 command=${COMP_WORDS[1]}
    local cur=${COMP_WORDS[COMP_CWORD]} word
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "$_ftkit_commands --help --version" -- "$cur"))
        return
    fi
    # walk over the words in front: options with their values, and arguments
    while [ "$i" -lt "$COMP_CWORD" ]; do
        word=${COMP_WORDS[i]}
        _ftkit_table "$command" "$word"
        if [ "$word" = -- ]; then
            i=$((i + 1))
            break
        elif [ -n "$value" ]; then
            i=$((i + 1))
            [ "${COMP_WORDS[i]}" != = ] || i=$((i + 1))
            if [ "$i" -ge "$COMP_CWORD" ]; then # the current word is the value
                [ "$cur" != = ] || cur=
                _ftkit_offer "$value" "$cur"
                return
            fi
            case " $twice " in *" $word "*) i=$((i + 1)) ;; esac
        elif [ "${word#-}" = "$word" ]; then
            given+=("$word")
            case $arguments in program*) break ;; esac # what follows belongs to the program
        fi
        i=$((i + 1))
    done
    _ftkit_table "$command" ''
    case $arguments in
    program*)
        if [ "$i" -lt "$COMP_CWORD" ] || [ "${#given[@]}" -gt 0 ] || [ "$word" = -- ]; then
            if declare -F _command_offset >/dev/null; then
                _command_offset "$((i < COMP_CWORD ? i : COMP_CWORD))"
            else
                _ftkit_offer file "$cur"
            fi
            return
        fi
        ;;
    esac
    case $cur in
    -*) COMPREPLY=($(compgen -W "$options" -- "$cur")) ;;
    *)
        read -r -a kinds <<<"$arguments"
        i=${#given[@]}
        [ "$i" -lt "${#kinds[@]}" ] || i=$((${#kinds[@]} - 1))
        if [ "$i" -ge 0 ] && { [ "$i" = "${#given[@]}" ] || [ "${kinds[i]%\*}" != "${kinds[i]}" ]; }; then
            _ftkit_offer "${kinds[i]}" "$cur"
        fi
        ;;
    esac
}

complete -F _ftkit ftkit
END_TAIL
}

# ---- zsh ---------------------------------------------------------------------------------

my %action = (directory => '_files -/', file => '_files', program => '_command_names -e',
    command => '_ftkit_commands', host => '_hosts', set => '_ftkit_sets', region => '_ftkit_regions',
    none => ' ');

sub quoted { my ($text) = @_; return q(') . ($text =~ s/'/'\\''/gr) . q(') }

# The beginning of a description, without what _arguments would take for its own.
sub brief
{
    my ($text) = @_;
    $text =~ s/\s+/ /g;
    $text =~ s/^ //;
    ($text) = $text =~ /\A(.{0,60}?)(?:[:;.,]? ?\z|[;:,.] | ?\()/ ? $1 : substr $text, 0, 60;
    $text =~ tr/[]:\\/()\/\//;
    return $text;
}

sub zsh_option
{
    my ($o) = @_;
    my @values = @{ $o->{values} };
    my $spec = $o->{name};
    $spec .= '=' if @values == 1 && $spec =~ /^--/;
    $spec .= '[' . brief($o->{text}) . ']' if brief($o->{text}) ne '';
    for my $v (@values) {
        my $action = @{ $o->{words} } ? "(@{ $o->{words} })" : $action{ kind_of($v) };
        my $name = $v =~ /^[a-z]/ ? 'value' : $v;
        $spec .= ":$name:$action";
    }
    return quoted($spec);
}

sub zsh_arguments
{
    my ($u) = @_;
    my ($n, @specs) = (0);
    for my $a (@{ $u->{arguments} }) {
        my $name = $a =~ s/\.\.\.$//r;
        my $kind = kind_of($a);
        $n++;
        if ($name eq 'ARGUMENT') { push @specs, quoted('*::ARGUMENT:_normal') }
        elsif ($name ne $a) { push @specs, quoted("*:$name:$action{$kind}") }
        else { push @specs, quoted(($kind eq 'program' ? '(-)' : '') . "$n:$name:$action{$kind}") }
    }
    return @specs;
}

sub zsh
{
    my (@commands) = @_;
    my $list = join "\n", map { '        ' . quoted("$_->{name}:" . ($_->{what} =~ s/:/\\:/gr)) } @commands;
    my $cases = '';
    for my $u (@commands) {
        my @specs = ((map { zsh_option($_) } options($u)), zsh_arguments($u));
        $cases .= "    $u->{name})\n        _arguments -S "
            . join(" \\\n            ", '', @specs) =~ s/^ +//r . "\n        ;;\n";
    }
    return <<"END_HEAD" . <<'END_MIDDLE' . $cases . <<'END_TAIL';
#compdef ftkit
# zsh completion for ftkit, made by scripts/manual

_ftkit_commands()
{
    local -a commands
    commands=(
$list
    )
    _describe command commands
}
END_HEAD

# _arguments sets line to the arguments that are no options.
_ftkit_sets()
{
    local -a sets
    sets=(newest ${(f)"$($program ls ${(Q)line[1]} 2>/dev/null | awk '$1 ~ /^[0-9]+$/ { print $1 }')"})
    compadd -V sets -a sets
}

_ftkit_regions()
{
    local -a regions
    regions=(${(f)"$($program show --json ${(Q)line[1]} ${(Q)line[2]} 2>/dev/null |
        sed -n 's/^ *"name": "\(.*\)",$/\1/p')"})
    compadd -a regions
}

_ftkit()
{
    local curcontext="$curcontext" program=$words[1] command=$words[2] ret=1
    local -a line
    if ((CURRENT == 2)); then
        _ftkit_commands && ret=0
        compadd -- --help --version && ret=0
        return ret
    fi
    shift words
    ((CURRENT--))
    case $command in
END_MIDDLE
    esac
}

_ftkit "$@"
END_TAIL
}

1;
