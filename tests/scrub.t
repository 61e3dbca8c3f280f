#!/usr/bin/perl
# ftkit_scrub: what does not hold any more in memory is found and put right while the job
# runs, so that a later failure finds it whole.  With --all each rank is damaged with each scheme, with
# and without that failure.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
# sets by the calls 1, 21 ...; scrubs after the steps 7, 14 ...
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '20 calls');
my @scrub = ('-S', 7);

survives('nothing to put right', env => \%memory, solver => \@scrub, faults => 0,
    unlike => qr/put right|checksum/);
my $schemes = 0;
for my $scheme (qw(buddy xor rs)) {
    $schemes++;
    my %env = (%memory, FTKIT_LEVEL_MEMORY_SCHEME => $scheme);
    for my $rank (0 .. 3) {
        for my $which (1, 2) { # own segment; the copy it keeps, or its parity
            next if !selected(2, $schemes, $rank, $which);
            my $name = "$scheme: " . ($which == 1 ? 'segment' : 'copy or parity') . " of rank $rank";
            survives($name, env => \%env, solver => \@scrub,
                fault => "scrub.corrupt:$rank:$which:EIO",
                like => in_any_order(qr/checksum/, qr/put right from copies or parity/)) if all_cases();
            # without the scrub this would lose the set: the other copy goes next
            survives("$name, then its partner is lost", env => \%env, solver => \@scrub,
                spares => 1, faults => 2, unlike => qr/relaunch/,
                fault => "scrub.corrupt:$rank:$which:EIO,app.mid:" . ($rank ^ 1) . ':12:kill',
                like => in_any_order(qr/checksum/, qr/put right from copies or parity.*1 rank replaced/s));
        }
    }
}
survives('both copies: another set is written', env => \%memory, solver => \@scrub, faults => 2,
    fault => 'scrub.corrupt:0:1:EIO,scrub.corrupt:1:2:EIO',
    like => qr/cannot be put right; the next call writes another/);
survives('... and holds', env => \%memory, solver => \@scrub, faults => 3, spares => 1,
    fault => 'scrub.corrupt:0:1:EIO,scrub.corrupt:1:2:EIO,app.mid:0:12:kill',
    like => qr/1 rank replaced/);
survives("a rank dies at scrub.$_->[0], rank $_->[1]", solver => \@scrub,
    env => { %memory, FTKIT_LEVEL_MEMORY_SCHEME => 'rs' }, spares => 1, faults => 2, fault => "scrub.corrupt:0:1:EIO,scrub.$_->[0]:$_->[1]:1:kill")
    for map { my $p = $_; map { [$p, $_ + 1] } victims(3, 1) } qw(begin planned);
# every rank has released what does not fit before the first segment travels
{
    my $trace = scratch() . '/trace';
    survives('a rank dies between the plan and the agreement', solver => \@scrub, spares => 1, faults => 2,
        env => { %memory, FTKIT_LEVEL_MEMORY_SCHEME => 'rs', FTKIT_FAULT_TRACE => $trace },
        fault => 'scrub.corrupt:0:1:EIO,scrub.planned:2:1:kill');
    my ($scrub) = slurp($trace) =~ /^(scrub\.planned .*?)^repair\.census /ms;
    unlike($scrub // 'transfer', qr/^(?:transfer|rebuild)/m, '... no rank transfers before the repair');
}
survives('the second level is written again', solver => \@scrub, faults => 1,
    env => { %memory, FTKIT_LEVEL_LOCAL_SCHEME => 'own', FTKIT_LEVEL_LOCAL_EVERY => '1 sets' },
    fault => 'scrub.corrupt:2:3:EIO', like => qr/level\.local: rank 2.*checksum/s);
done_testing();
