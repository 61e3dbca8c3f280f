#!/usr/bin/perl
# The layers of the library hold (scripts/layers): nothing refers upward, and no more than two
# files refer to each other in a circle.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use File::Path qw(make_path);
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

chdir top();
my $out = qx{scripts/layers '@{[build()]}' 2>&1};
is($?, 0, 'the library: no reference upward, no circle of more than two files') or diag($out);
like($out, qr/^layers: \d\d+ files, \d\d\d+ references, /m, '... and it has been looked at');

# and it would find them: a library of a few functions, by file
my $tree = scratch() . '/planted';
sub planted
{
    my (%files) = @_;
    system('rm', '-rf', $tree);
    for my $file (keys %files) {
        my ($folder) = $file =~ m{(.*)/};
        make_path("$tree/rel/$folder");
        make_path("$tree/$folder");
        my $c = "$tree/$file.c";
        open my $f, '>', $c or die "$c: $!\n";
        print $f $files{$file};
        close $f;
        system("cc -c -o '$tree/rel/$file.o' '$c'") == 0 or die "cc failed\n";
    }
    my $said = qx{scripts/layers '$tree' 2>&1};
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

done_testing();
