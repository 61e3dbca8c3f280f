#!/usr/bin/perl
# Manual pages and completion follow from the texts of the commands and the comments of the header,
# and are well formed; the commands know just the options that their texts name.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

my $ftkit = build() . '/ftkit';
my $manual = build() . '/manual';
my $tmp = scratch();

sub have { my ($program) = @_; return system("command -v $program >/dev/null 2>&1") == 0 }

# The output of a short command and its errors; its code is in $?.
sub said { my ($command) = @_; return scalar `{ $command
} 2>&1 </dev/null` }

sub put
{
    my ($path, $text, $mode) = @_;
    open my $f, '>', $path or die "$path: $!\n";
    print $f $text;
    close $f or die "$path: $!\n";
    chmod $mode, $path if $mode;
    return;
}

my %what = map { split /\t/, $_, 2 } split /\n/, said("$ftkit help --list");
my @commands = sort keys %what;
cmp_ok(scalar @commands, '>=', 11, 'ftkit help --list');
my %usage = map { $_ => said("$ftkit help $_") } @commands;

# ---- the pages -----------------------------------------------------------------------------

my %page = map { (m{([^/]+)$})[0] => slurp($_) } map { glob "$manual/man$_/*" } 1, 3;
my %declared = map { $_ => 1 } slurp(top() . '/include/ftkit.h') =~ /^FTKIT_API [^;(]*?(ftkit_\w+)\(/mg;
is(join(' ', sort keys %page),
    join(' ', sort 'ftkit.1', 'ftkit.3', (map {"ftkit-$_.1"} @commands), map {"$_.3"} keys %declared),
    'a page for each command and each function, and two for the whole');
my (@head, @order, @broken, @hidden);
my @sections = ('NAME', 'LIBRARY', 'SYNOPSIS', 'DESCRIPTION', 'COMMANDS', 'ARGUMENTS', 'TYPES', 'OPTIONS',
    'EXIT STATUS', 'RETURN VALUE', 'ERRORS', 'NOTES', 'OUTPUT', 'FILES', 'ENVIRONMENT', 'EXAMPLES', 'SEE ALSO');
my %rank = map { $sections[$_] => $_ } 0 .. $#sections;
for my $file (sort keys %page) {
    my ($name, $section) = $file =~ /^(.*)\.(\d)$/;
    my $text = $page{$file};
    (my $shown = $name) =~ s/-/\\-/g;
    push @head, $file if $text !~ /^\.TH \Q${\uc $shown}\E $section "" "ftkit \d+\.\d+\.\d+" "[^"]+"$/m
        || $text !~ /^\.SH NAME\n\Q$shown\E \\- [^\n]{8,}[^.\n]$/m;
    my @found = $text =~ /^\.SH (.*)$/mg;
    push @order, "$file: @found" if grep { !defined $rank{$_} } @found
        or "@found" ne join ' ', sort { $rank{$a} <=> $rank{$b} } @found
        or 4 != grep {/^(?:NAME|SYNOPSIS|DESCRIPTION|SEE ALSO)$/} @found;
    while ($text =~ /(?:^\.BR |\\fB)([\w\\-]+)(?: |\\fR)\((\d)\)/mg) {
        my ($to, $in) = ($1, $2);
        $to =~ s/\\//g;
        push @broken, "$file: $to($in)" if !$page{"$to.$in"};
    }
}
is("@head", '', 'title and NAME');
is(join("\n", @order), '', 'sections and their order');
is(join("\n", @broken), '', 'pages that are referred to exist');

my $files = join ' ', map {"'$_'"} map { glob "$manual/man$_/*" } 1, 3;
put("$tmp/bad.1", ".TH BAD 1\n.SH NAME\nbad \\- wrong\n.nonsense\n");
SKIP: {
    skip 'no man', 3 if !have('man') || !have('lexgrog');
    my $man = 'LC_ALL=C.UTF-8 MANROFFSEQ= MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z';
    is(said("$man $files 2>&1 >/dev/null"), '', 'man prints all pages without a warning');
    isnt(said("$man '$tmp/bad.1' 2>&1 >/dev/null"), '', '... which would find a mistake');
    my %found = map { $_ => 1 } said("lexgrog $files") =~ m{/([^/:]+): "[^"]+ - [^"]+"$}mg;
    is(join(' ', grep { !$found{$_} } sort keys %page), '', 'apropos finds all pages');
}
SKIP: {
    skip 'no groff', 2 if !have('groff');
    is(said("groff -man -Tutf8 -ww $files 2>&1 >/dev/null"), '', 'and so does groff -ww');
    isnt(said("groff -man -Tutf8 -ww '$tmp/bad.1' 2>&1 >/dev/null"), '', '... which would find a mistake');
}

# ---- what the pages say is what the commands know --------------------------------------------

# The options of a usage text; with a value, when they take one: "--keep N" (of two: "--mca KEY VALUE").
sub options
{
    my ($text) = @_;
    my ($synopsis) = $text =~ /\A(.*?)\n\n/s;
    my %found;
    my @lists = $text =~ /^  (-[\w-].*?(?:,\n  \S.*?)*)$/mg;
    for my $o (map { split /,\s+| \| /, s/(?<=\S)  +.*//r } @lists) {
        my ($name, @values) = split ' ', $o =~ s/\[=.*//r =~ s/=/ /r;
        push @{ $found{$name} }, join ' ', @values;
    }
    $found{$1} //= [$2 // ''] while $synopsis =~ /(?<![\w-])(--?[a-z][\w-]*)(?: ([A-Z]+)\b)?/gi;
    return \%found;
}

my %option = map { $_ => options($usage{$_}) } @commands;
chdir($tmp) or die "$tmp: $!\n";
ok($option{run}{'--mca'}[0] eq 'KEY VALUE' && $option{export}{'--format'}[1] eq 'raw' && !$option{ls}{'--keep'},
    'options of the texts are found');
my %all = map { %$_ } values %option;
for my $command (@commands) {
    my (@refused, @secret, @undescribed);
    for my $o (sort keys %all) {
        my $own = $option{$command}{$o};
        next if !$own && grep {/^\Q$o\E/} keys %{ $option{$command} }; # an abbreviation
        my $said = said("$ftkit $command $o " . ($own // $all{$o})->[0] . ' --none-such');
        push @refused, $o if $own && $said =~ /\b(?:no|unrecognized|invalid) option\W+\Q$o\E\b/;
        push @secret, $o if !$own && ($said =~ /none-such/ || $said !~ /^usage: /m);
        (my $shown = $o) =~ s/-/\\-/g;
        push @undescribed, $o if $own && $page{"ftkit-$command.1"} !~ /\Q$shown\E\b/;
    }
    is("@refused", '', "$command knows the options of its text");
    is("@secret", '', '... and no others');
    is("@undescribed", '', '... which are in its page');
    my %code = $page{"ftkit-$command.1"} =~ /^\.SH EXIT STATUS\n(.*?)^\.SH/ms
        ? map { $_ => 1 } $1 =~ /^\.TP\n\.B (\S+)$/mg : ();
    ok($code{0} || $code{1}, '... and so are its exit codes');
}
ok(!-e 'DIR', 'a command that is refused makes no directory');

# ---- mistakes --------------------------------------------------------------------------------

for my $case (['lst', qr/^ftkit: no command 'lst': did you mean ls\?$/m], ['help shwo', qr/did you mean show\?/],
    ['ls --jsn .', qr/^ftkit ls: no option --jsn: did you mean --json\?$/m],
    ['ls --keep 1 .', qr/^ftkit ls: no option --keep: `ftkit prune` has it$/m],
    ['ls -o x .', qr/no option -o$/m], ['ls --json=x .', qr/--json takes no value$/m],
    ['prune --keep', qr/--keep needs a value$/m], ['prune --keep x .', qr/--keep: 'x' is not a number$/m],
    ['prune --keep 0 .', qr/--keep is 1 or more/], ['prune .', qr/Give --keep N, --incomplete or both/],
    ['show', qr/^ftkit show: DIR is missing\nusage: ftkit show /m], ['show . 1 x', qr/'x' is one argument too many/],
    ['export . 1', qr/REGION is missing/], ['export . 1 x', qr/-o FILE is missing/],
    ['export . 1 x -o y --format csv', qr/npy, raw or files, not 'csv'/], ['ls --slots --context x', qr/no use for --context/],
    ['show . x', qr/not the number of a set \(`ftkit ls` lists them\)/], ['teams x', qr/one of --size, --teams and --file/],
    ['run ./x', qr/-n N is missing/], ['run -n 4', qr/PROGRAM is missing/],
    ['run --spars 1 -n 2 ./x', qr/did you mean --spares\?/], ['run --mca x', qr/--mca takes 2 values/])
{
    my ($args, $want) = @$case;
    my $text = said("$ftkit $args");
    ok($? >> 8 == 2 && $text =~ $want, "ftkit $args") or diag($text);
}
ok(said("$ftkit run -n 2 --help") =~ /^usage: ftkit run/ && $? == 0, '--help behind other options');
for my $case (["$tmp/none", qr/No such file or directory; `ftkit config` shows level\.hdf5\.directory/, 1],
    ["$tmp/bad.1", qr/bad\.1: Not a directory$/m, 1], [$tmp, qr/no sets in .*`ftkit config` shows/, 2])
{
    my ($dir, $want, $code) = @$case;
    put("$tmp/bad.1", '') if !-e "$tmp/bad.1";
    my $text = said("$ftkit ls $dir");
    ok($? >> 8 == $code && $text =~ $want, 'ftkit ls ' . ($dir =~ s{.*/}{}r)) or diag($text);
}

# ---- completion ------------------------------------------------------------------------------

my $bash = "$manual/completion/ftkit";
is(said("bash -n '$bash'"), '', 'bash reads the completion');

# The words that bash offers for the last word of a command line, sorted.
sub bash_words
{
    my @words = ($ftkit, @_);
    shift @words if $words[1] =~ m{^/}; # another program
    put("$tmp/complete.sh", '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ftkit; '
        . 'printf "%s\n" "${COMPREPLY[@]}"');
    my $list = join ' ', map {"'$_'"} @words;
    return join ' ', sort split /\n/, said("cd '$tmp' && bash '$tmp/complete.sh' '$bash' $list");
}

mkdir "$tmp/dir.d";
mkdir "$tmp/dir.d/a.ftkit";
put("$tmp/dir.txt", '');
mkdir "$tmp/bin";
my $sets = "$tmp/bin/ftkit"; # a directory d with the sets 12 and 7
put($sets, <<'END', 0755);
#!/bin/sh
case "$*" in
'ls d') printf '       set  context\n        12  heat\n         7  heat\n' ;;
'show --json d 12') printf '{\n  "set": 12,\n  "regions": [\n    {\n      "name": "a b",\n    },\n    {\n      "name": "u",\n' ;;
esac
END
my @cases = ([[$sets, 'show', 'd', ''], '12 7 newest'], [[$sets, 'verify', '--json', 'd', '7', '1'], '12'],
    [[$sets, 'export', '--rank', '1', 'd', '12', ''], 'a\\ b u'], [[$sets, 'export', 'd', '7', ''], ''],
    [['v'], 'verify version'], [['ls', '--'], '--context --help --json --slots'],
    [['ls', 'di'], 'dir.d'], [['config', 'di'], 'dir.d dir.txt'], [['help', 'ver'], 'verify version'],
    [['export', '--format', ''], 'files npy raw'], [['export', '--format', '=', 'r'], 'raw'],
    [['export', '-o', 'di'], 'dir.d dir.txt'], [['export', '--rank', ''], ''],
    [['verify', '--context', 'a', 'di'], 'dir.d'], [['show', 'dir.d', 'n'], 'newest'],
    [['verify', 'dir.d', '3', 'n'], 'newest'], [['ls', 'dir.d', 'di'], ''],
    [['run', '--mca', 'a', 'b', '--relaunch', '2', '--spa'], '--spares'], [['run', '--wdir', 'di'], 'dir.d'],
    [['run', '-n', '4', '--', './x', 'dir.t'], 'dir.txt'], [['run', '-n', '4', './x', '--spa'], '']);
for my $case (@cases) {
    my ($words, $want) = @$case;
    is(bash_words(@$words), $want, "bash: ftkit @$words");
}
for my $command (@commands) {
    my %offered = map { $_ => 1 } split ' ', bash_words($command, '-');
    my @missing = grep { !$offered{$_} } keys %{ $option{$command} };
    is("@missing", '', "bash: all options of $command");
}

SKIP: {
    skip 'no zsh', 8 + @commands if !have('zsh');
    is(said("zsh -n '$manual/completion/_ftkit'"), '', 'zsh reads the completion');

    # A shell on a terminal of its own; what it adds to the list of words goes to a file.
    put("$tmp/hook.zsh", <<'END');
PROMPT=
fpath=($MANUAL/completion $fpath)
autoload -Uz compinit
compinit -u -d ${OUT:h}/dump
bindkey '^I' complete-word
zstyle ':completion:*' insert-tab false
zstyle ':completion:*' verbose false
compadd () {
    if (( ${@[(I)-[OAD]*]} )); then builtin compadd "$@"; return; fi
    local -a hits
    builtin compadd -A hits "$@"
    (( $#hits )) && print -rl -- $hits >>$OUT
    builtin compadd "$@"
}
written () { exit }
comppostfuncs=(written)
print ready
END
    put("$tmp/capture.zsh", <<'END');
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "source $HOOK"
zpty -r shell line '*ready*' || exit 1
zpty -n -w shell "$1"$'\t'
while zpty -r shell line; do :; done
zpty -d shell
END
    local @ENV{qw(MANUAL HOOK OUT TERM)} = ($manual, "$tmp/hook.zsh", "$tmp/words", 'dumb');
    my $zsh_words = sub {
        my ($line) = @_;
        unlink "$tmp/words";
        my $text = said("cd '$tmp' && '" . top() . "/scripts/guard' 30 -- zsh -f '$tmp/capture.zsh' '$line'");
        diag("zsh: $line: $text") if !-e "$tmp/words" && $text ne '';
        my %seen = map { s/=$//r => 1 } split /\n/, slurp("$tmp/words");
        return join ' ', sort keys %seen;
    };
    for my $case (["$ftkit v", 'verify version'], ["$ftkit export --format ", 'files npy raw'],
        ["$ftkit show dir.d n", 'newest'], ["$ftkit help ver", 'verify version'], ["$ftkit run --spa", '--spares'],
        ["$sets verify --json d 7 ", '12 7 newest'], ["$sets export --rank 1 d 12 ", 'a\\ b u'])
    {
        my ($line, $want) = @$case;
        is($zsh_words->($line), $want, 'zsh: ' . ($line =~ s{^.*/}{}r));
    }
    for my $command (@commands) {
        my %offered = map { $_ => 1 } split ' ', $zsh_words->("$ftkit $command -");
        my @missing = grep { !$offered{$_} } keys %{ $option{$command} };
        is("@missing", '', "zsh: all options of $command");
    }
}

# ---- a new command needs nothing but its text ------------------------------------------------

put("$tmp/new", <<'END', 0755);
#!/bin/sh
case "$*" in
version) echo 'ftkit 1.2.3 (none)' ;;
'help --list') printf 'frob\tturn a set\n' ;;
'help frob')
    cat <<'TEXT'
usage: ftkit frob [OPTION]... DIR SET

Turn a set.  `ftkit ls` finds it.

  --by ANGLE, -b ANGLE
                 the angle, in .5 steps; 'free'
  --way left     turn left
  --way right    turn right; the default
  --when 'rank 3 at 30 s'
                 not now
  --watch[=S]    look again

A set that is turned stays turned.

Exit code: 0; 1 when the set cannot be turned; 2 usage, or
no set is there.
TEXT
    ;;
*) exit 3 ;;
esac
END
is(said(top() . "/scripts/manual '$tmp/new' '$tmp/made'"), '', 'a new command');
my $frob = slurp("$tmp/made/man1/ftkit-frob.1");
like($frob, qr/^\.SH NAME\nftkit\\-frob \\- turn a set$/m, '... has a page');
like($frob, qr/^\.TP\n\\fB\\-\\-by\\fR \\fIANGLE\\fR, \\fB\\-b\\fR \\fIANGLE\\fR\nthe angle/m, '... with its options');
like($frob, qr/^\.B 1\nthe set cannot be turned\n\.TP\n\.B 2\nusage, or\nno set is there$/m, '... and its codes');
like(slurp("$tmp/made/man1/ftkit.1"), qr/^\.BR ftkit\\-frob \(1\)\nturn a set$/m, '... and a line in ftkit(1)');
$bash = "$tmp/made/completion/ftkit";
is(bash_words('frob', '--way', ''), 'left right', '... and completion');
is(bash_words('frob', '--when', '1', '--watch', 'dir.d', 'n'), 'newest', '... that knows which options have values');
is(bash_words('frob', '--w'), '--watch --way --when', '... and their names');
isnt(said(top() . "/scripts/manual /bin/false '$tmp/made'"), '', 'a program that fails makes no pages');
isnt($?, 0, '... and is an error');

done_testing();
