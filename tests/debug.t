#!/usr/bin/perl
# debug.check = regions: variables that a rollback has not brought back are named, and nothing
# else is.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();

# A job of which rank 1 is killed in its step; what the others say of variables.
sub told
{
    my ($check, @args) = @_;
    my $j = job(program => build() . '/mpi/unregistered', n => 3, args => \@args,
        fault => 'app.step:1:8:kill',
        env => { FTKIT_DEBUG_CHECK => $check, FTKIT_REPORT_STDERR => 'info',
            FTKIT_LEVEL_HDF5_ENABLED => 'false' });
    ok($j->{rc} == 0 && @{ $j->{faults} } == 1 && $j->{log} =~ /^OK step 20$/m,
        "check $check, @args: the run is what it is without") or diag($j->{log});
    my %by;
    while ($j->{log} =~ /rank (\d+): debug\.check: (\w+)( of \S+)? has (\d+) of (\d+) bytes/g) {
        my @one = ($2, $3 // '', $4, $5);
        push @{ $by{$1} }, \@one if $one[1] ne ' of handles.c'; # which every test is linked with
    }
    $j->{by} = \%by;
    $j->{names} = { map { my $r = $_; $r => join ' ', sort map { $_->[0] } @{ $by{$r} } } keys %by };
    return $j;
}

my $j = told('regions');
is_deeply($j->{names}, { 0 => 'begun forgotten hidden late', 2 => 'begun forgotten hidden late' },
    'survivors name the four variables, and nothing else') or diag($j->{log});
like($j->{log}, qr/begun of unregistered\.c has 1 of 4 bytes that are not those that a replacement begins with/,
    '... and one of them only because a replacement has another value');
my ($hidden) = grep { $_->[0] eq 'hidden' } @{ $j->{by}{0} // [] };
is($hidden->[1] // '', ' of unregistered.c', '... with the file of one that is of a file');
is($hidden->[3] // '', 1200, '... and its size');
like($j->{log}, qr/late of unregistered\.c has \d of 4 bytes that are not those of set \d+/,
    '... and the set');

$j = told('regions', 'all');
is_deeply($j->{names}, {}, 'with all of them registered nothing is named') or diag($j->{log});
is(scalar(() = $j->{log} =~ /debug\.check: \d+ variables differ after the rollback to set/g), 2,
    '... and the survivors have looked');

$j = told('none');
unlike($j->{log}, qr/debug\.check/, 'without the check nothing is said');

done_testing();
