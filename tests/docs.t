#!/usr/bin/perl
# The documentation site: it builds without a warning, its links lead somewhere, its pages load
# nothing from other sites, and no page of docs/ is missing.  Messages that are quoted in the page
# on troubles are in the sources.  The scripts for batch systems have no errors.  Programs that were
# ported from other libraries survive a lost rank and a lost job with the result of the undisturbed
# run.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use File::Basename qw(dirname);
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

my $build = build();
my $tmp = scratch();
my $guard = top() . '/scripts/guard';
chdir top() or die 'chdir: ', top(), "\n";

# Whether a command succeeds in time; what it says.
sub output
{
    my @command = @_;
    open my $f, '-|', 'sh', '-c', 'exec "$@" 2>&1 </dev/null', 'sh', $guard, 60, '--', @command
        or die "sh: $!\n";
    local $/;
    my $said = <$f> // '';
    return close $f ? (1, $said) : (0, $said);
}

sub succeeds
{
    my ($what, @command) = @_;
    my ($good, $said) = output(@command);
    return ok($good, $what) || diag("@command\n", substr($said, 0, 3000));
}

sub installed
{
    my ($program) = @_;
    return grep { -x "$_/$program" } split /:/, $ENV{PATH};
}

# ---- the site ----------------------------------------------------------------------------

my $site = "$build/site";
my (%ids, %html);

# The file and the heading to which a link of a page leads.
sub target
{
    my ($page, $link) = @_;
    my ($path, $heading) = $link =~ /^([^#?]*)[^#]*(?:#(.*))?$/;
    my $folder = dirname($page);
    my $to = $path eq '' ? $page : $folder eq '.' ? $path : "$folder/$path";
    1 while $to =~ s{[^/]+/\.\./}{};
    return ($to =~ s{^\./}{}r, $heading);
}

sub site_is_whole
{
    my ($links, @broken, @outside) = (0);
    for my $page (sort keys %html) {
        my $text = $html{$page};
        push @outside, map {"$page: $_"} grep {m{^(?:\w+:)?//}}
            $text =~ /<(?:link|base)\b[^>]*?\bhref="([^"]*)"/g,
            $text =~ /<(?!a\b)\w+\b[^>]*?\b(?:src|data|poster|action)="([^"]*)"/g,
            $text =~ /url\(["']?([^"')]*)/g;
        next if $page eq '404.html'; # its links are for the top of a server
        for my $link ($text =~ /\b(?:href|src)="([^"]*)"/g) {
            next if $link =~ /^(?:\w+:|\/\/)/;
            my ($to, $heading) = target($page, $link);
            $links++;
            push @broken, "$page: $link"
                if !-e "$site/$to" || ($heading && $html{$to} && !$ids{$to}{$heading});
        }
    }
    ok(!@broken && $links > 500, "all $links links inside the site lead somewhere")
        or diag(join "\n", @broken);
    for my $sheet (glob "$site/*.css $site/css/*.css") {
        push @outside, map {"$sheet: $_"} grep {m{^(?:\w+:)?//}}
            slurp($sheet) =~ /(?:url\(|\@import )["']?([^"')]*)/g;
    }
    is(join("\n", @outside), '', '... and no page loads anything from another site');
    return;
}

sub nothing_is_missing
{
    my ($nav) = $html{'index.html'} =~ /(<div class="navbar.*?)<div class="container">\s*<div class="row">/s;
    my @pages = map { s{^docs/}{}r =~ s/\.md$/.html/r } glob 'docs/*.md docs/design/*.md';
    my @missing = grep { ($nav // '') !~ /href="\Q$_\E"/ } @pages;
    is("@missing", '', 'the menu has every page of docs/');
    my @pictures = map {s{.*/}{}r} glob 'docs/pictures/*.svg';
    my $all = join '', values %html;
    is(join(' ', grep { $all !~ /src="pictures\/\Q$_\E"/ } @pictures), '', '... and every picture is shown');
    for my $lib (qw(fti scr veloc fenix)) {
        my $text = $html{"porting-$lib.html"} // '';
        my $shown = $text =~ /tests\/porting\/$lib\.c/ && $text =~ /class="gd">-/ && $text =~ /class="gi">\+/;
        ok($shown, "the page on $lib shows the difference of the programs");
    }
    return;
}

SKIP: {
    skip 'mkdocs is not installed', 9 if !installed('mkdocs');
    my ($good, $said) = output('env', "BUILD=$build", 'scripts/site');
    ok($good && $said !~ /WARNING|ERROR/, 'the site builds, strictly') or diag($said);
    for my $path (split /\n/, `find '$site' -name '*.html'`) {
        my $page = $path =~ s{^\Q$site\E/}{}r;
        $html{$page} = slurp($path);
        $ids{$page} = { map { $_ => 1 } $html{$page} =~ /\bid="([^"]*)"/g };
    }
    site_is_whole();
    nothing_is_missing();
}

# ---- what the pages quote ----------------------------------------------------------------

# The texts of the sources, each with a line of its own; what is filled in is a NUL.
sub texts
{
    my $all = join "\n", map { slurp($_) } glob 'lib/*.c lib/*/*.c lib/*/*/*.c tools/*.c lib/*/*.h';
    $all =~ s{/\*.*?\*/}{}gs;
    $all =~ s/"\s*PRI\w+\s*"/ll/g;
    $all =~ s/"\s*\n\s*"//g;
    my @found = $all =~ /"((?:[^"\\\n]|\\.)*)"/g;
    s/%[-+ #0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]+?/\0/g for @found;
    return @found;
}

my @texts = texts();
my @quoted = slurp('docs/troubleshooting.md') =~ /^```message\n(.*?)\n```$/msg;
my @gone;
for my $message (@quoted) {
    my $pattern = join '.*', map {quotemeta} split /\.\.\./, $message, -1;
    push @gone, $message if !grep {/^.*$pattern/} @texts;
}
ok(!@gone && @quoted > 30, 'messages that troubleshooting.md quotes: ' . @quoted)
    or diag("not in the sources:\n", join "\n", @gone);

my @scripts = slurp('docs/cluster.md') =~ /^```bash\n(.*?)^```$/msg;
is(scalar @scripts, 3, 'scripts for three batch systems');
for my $i (0 .. $#scripts) {
    my $path = "$tmp/batch$i";
    write_file($path, $scripts[$i]);
    my ($system) = $scripts[$i] =~ /^#(PBS|BSUB|flux)/m;
    succeeds("$system: the shell can read the script", 'bash', '-n', $path);
  SKIP: {
        skip 'shellcheck is not installed', 1 if !installed('shellcheck');
        succeeds('... and shellcheck finds nothing', 'shellcheck', $path);
    }
}

# ---- programs that were ported -----------------------------------------------------------

my ($mpicc) = slurp("$build/mpi.mk") =~ /^MPICC := (.*)$/m;
my $libs = packages();
my $want; # the line of the undisturbed run
for my $lib (qw(fti scr veloc fenix)) {
    my $page = slurp("docs/porting-$lib.md");
    my @calls = slurp("tests/porting/stub/$lib.h") =~ /^\w+ \*?(\w+)\(/mg;
    is(join(' ', grep { $page !~ /\b$_\b/ } @calls), '', "$lib: the page has the calls of the program");
    succeeds('... which the headers of the library declare', $mpicc, qw(-std=c11 -Wall -Wextra
        -Werror -fsyntax-only -Itests/porting/stub), "tests/porting/$lib.c");
    my $program = "$tmp/${lib}_ported";
    succeeds('... the port compiles', 'sh', '-c', "'$mpicc' -std=c11 -Wall -Wextra -Werror -Iinclude "
        . "-o '$program' tests/porting/${lib}_ported.c '$build/libftkit-test.a' $libs") or next;

    my $j;
    if (!defined $want) { # all ports have the same solver
        $j = job(program => $program, args => [], spares => 0);
        my ($result) = $j->{log} =~ /^result: (100 steps, \S+)$/m;
        ok($j->{rc} == 0 && defined $result, '... and runs') or diag($j->{log});
        $result //= 'none';
        $want = qr/^result: \Q$result\E$/m;
    }
  SKIP: {
        skip 'no repair with this MPI', 1 if ($ENV{MPI_KIND} // 'ulfm') ne 'ulfm';
        $j = job(program => $program, args => [], fault => 'ckpt.packed:1:9:kill');
        ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $j->{log} =~ /1 rank replaced/
                && $j->{log} =~ $want, '... a rank is killed: the same result')
            or diag("faults: @{ $j->{faults} }\n$j->{log}");
    }
    $j = job(program => $program, args => [], spares => 0, run => [],
        fault => 'ckpt.packed:1:9:kill', env => { FTKIT_RECOVER_SUPPLY => 'end',
            FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' }); # so that the job leaves a complete set
    ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $j->{log} =~ /restored set \d+ from files/
            && $j->{log} =~ $want, '... the job is lost and relaunched: the same result')
        or diag("faults: @{ $j->{faults} }\n$j->{log}");
}

done_testing();
