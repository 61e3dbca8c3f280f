#!/usr/bin/perl
# Measured energy: the lowest rank of a node reads a made-up sensor, and event log, ftkit_query() and
# report have what the program has used in each phase.  Without a sensor the report has a model.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use File::Path qw(make_path);
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use JSON::PP;
use List::Util qw(sum0);
use Test::More;

ulfm_only();
my $build = build();
my $jansson = slurp("$build/mpi.mk") =~ /^HAVE_JANSSON := yes$/m;
my $range = 60_000_000_000; # microjoules: so far is no wrap missed
my $count = 0;

# A tree as sysfs has it, whose counter wraps soon; its root, and the counter.
sub tree
{
    my $root = scratch() . '/sys' . ++$count;
    my $zone = "$root/class/powercap/intel-rapl:0";
    make_path($zone);
    write_file("$zone/name", "package-0\n");
    write_file("$zone/max_energy_range_uj", "$range\n");
    write_file("$zone/energy_uj", sprintf "%020d\n", $range - 30_000_000);
    return ($root, "$zone/energy_uj");
}

# A job of the program; with the lines of its event log, and joules and seconds of all phases.
sub metered
{
    my (%o) = @_;
    my ($root, $counter) = tree();
    my $events = scratch() . "/events$count";
    my $j = job(program => "$build/mpi/meter", args => [$counter, $range, $o{steps} // 22, @{ $o{more} // [] }], %o,
        env => { FTKIT_REPORT_SYSFS => $root, FTKIT_REPORT_EVENTS => $events, %{ $o{env} // {} } });
    $j->{events} = $events;
    $j->{energy} = [grep { $_->{event} eq 'energy' } events($events)];
    for my $phase (qw(run set flush repair replay wait)) {
        $j->{$_}{$phase} = sum0(map { $_->{"${phase}_j"} // 0 } @{ $j->{energy} }) for 'j';
        $j->{s}{$phase} = sum0(map { $_->{"${phase}_s"} // 0 } @{ $j->{energy} });
    }
    $j->{total} = sum0(values %{ $j->{j} });
    $j->{told} = { $j->{log} =~ /^joules: rank (\d+): (\S+)$/mg };
    ($j->{used}) = $j->{log} =~ /^used: (\d+)$/m;
    return $j;
}

sub said { my ($j) = @_; return diag(explain($j->{j}, $j->{s}, $j->{told}), "exit code $j->{rc}\n$j->{log}") && 0 }

# That a sum of joules is what was used, but for the digits that are written; by: of a phase less is
# known, because phases share a reading where they change twice within a millisecond.
sub is_joules
{
    my ($j, $got, $want, $what, $by) = @_;
    ($got, $want) = map { $_ // 'none' } $got, $want;
    my $good = "$got$want" !~ /none/ && abs($got - $want) < ($by // 0.01);
    return ok($good, $what) || diag("$got, not $want") && said($j);
}

sub report
{
    my ($j) = @_;
    my (undef, $out) = command('report', '--json', $j->{events});
    return (eval { JSON::PP->new->decode($out) } // {})->{energy} // {};
}

# ---- a sensor ----------------------------------------------------------------------------

my $j = metered();
is($j->{rc}, 0, 'a node with a sensor') or said($j);
is_joules($j, $j->{j}{run} + $j->{j}{flush}, 110, '... the steps, of which some are beside a flush', 15);
is_joules($j, $j->{j}{set}, 100, '... five sets', 15);
is_joules($j, $j->{j}{repair}, 100, '... the restore at the start', 15);
is_joules($j, $j->{total}, $j->{used}, '... and nothing else, although the counter has wrapped');
is_joules($j, $j->{told}{0}, $j->{used}, '... ftkit_query() on the lowest rank');
is(join(' ', @{ $j->{told} }{ 1 .. 3 }), 'none none none', '... and not on the others');
ok(!(grep { $_->{rank} != 0 || $_->{source} ne 'powercap' } @{ $j->{energy} }), '... nor in the event log');
ok($j->{s}{wait} > 0.06 && $j->{s}{flush} > 0 && $j->{s}{replay} == 0, '... time of flushes, and of the wait for a rank that finishes late') or said($j);
SKIP: {
    skip 'built without jansson', 2 if !$jansson;
    my $r = report($j);
    is_deeply([@$r{qw(kind source nodes)}], ['measured', 'powercap', 1], '... the report says that it is measured');
    is_joules($j, $r->{joules}, $j->{used}, '... and how much');
}

my $script = scratch() . '/differs';
write_file($script, qq(#!/bin/sh\n[ "\$OMPI_COMM_WORLD_RANK" = 1 ] && export FTKIT_REPORT_ENERGY=off FTKIT_REPORT_SYSFS=/none\n)
    . qq(exec $build/mpi/meter "\$@"\n));
chmod(0755, $script) or die "$script: $!\n";
$j = metered(program => $script);
is_joules($j, $j->{told}{0}, $j->{used}, 'ranks may differ in report.energy and report.sysfs');

# ---- failures ----------------------------------------------------------------------------

$j = metered(steps => 80, fault => 'app.step:1:13:kill', env => { FTKIT_LEVEL_HDF5_EVERY => '8 sets' });
is(scalar @{ $j->{faults} }, 1, 'another rank is lost') or said($j);
is_joules($j, $j->{j}{repair}, 200, '... the restore after the repair', 25);
is_joules($j, $j->{total}, $j->{used}, '... and all that was used');
is_joules($j, $j->{told}{0}, $j->{used}, '... ftkit_query()');
cmp_ok(scalar @{ $j->{energy} }, '>', 1, '... in several lines');
ok($j->{j}{flush} < 100 && $j->{j}{run} > 200, '... and a flush has an end') or said($j);

$j = metered(steps => 100, fault => 'app.step:0:88:kill', run => ['--no-relaunch', '--log'],
    env => { FTKIT_LOG_TEAM_SIZE => 1 });
my %of = map { $_->{pid} => 1 } @{ $j->{energy} };
is(scalar keys %of, 2, 'the rank that measures is lost: its replacement measures') or said($j);
my ($last) = map { $_->{pid} } reverse @{ $j->{energy} };
my $own = sum0(map { my $e = $_; map { $e->{$_} } grep {/_j$/} keys %$e } grep { $_->{pid} == $last } @{ $j->{energy} });
is_joules($j, $j->{told}{0}, $j->{used} - 100, '... from its restore on');
is_joules($j, $own, $j->{told}{0}, '... in the event log, too');
# the line is before step 86; the loss is in step 88, the next set before step 91
is_joules($j, $j->{j}{replay}, 25, '... up to the next set it replays', 5);

$j = metered(more => ['bare'], spares => 0, fault => 'app.step:0:13:kill', env => { FTKIT_RECOVER_SUPPLY => 'shrink, end' });
is(scalar keys %{ $j->{told} }, 3, 'it is lost, and the job shrinks') or said($j);
is_joules($j, $j->{told}{0}, $j->{used}, '... the next rank of the node measures from the repair on');

# ---- no sensor ---------------------------------------------------------------------------

my $empty = scratch() . '/empty';
make_path($empty);
for my $case (['no sensor', FTKIT_REPORT_SYSFS => $empty], ['report.energy = off', FTKIT_REPORT_ENERGY => 'off'],
    ['topology.ranks_per_node', FTKIT_TOPOLOGY_RANKS_PER_NODE => 2]) {
    my ($what, %env) = @$case;
    $j = metered(env => \%env, spares => 0);
    is(join(' ', $j->{rc}, @{ $j->{told} }{ 0 .. 3 }), '0 none none none none', "$what: nothing is measured") or said($j);
    is(scalar @{ $j->{energy} }, 0, '... nor in the event log');
}
SKIP: {
    skip 'built without jansson', 2 if !$jansson;
    my $r = report($j);
    is_deeply([@$r{qw(kind source nodes)}], ['model', '', 2], '... the report says that it is a model');
    my %p = map { $_->{phase} => $_ } @{ $r->{phases} };
    ok(abs($p{run}{joules} - 100 * $p{run}{seconds}) < 0.01 && abs($p{set}{joules} - 40 * $p{set}{seconds}) < 0.01
        && $r->{node_seconds} > 0 && abs($r->{seconds} - $r->{node_seconds}) < 0.01, '... of 100 W and 40 W')
        or diag(explain($r));
}

done_testing();
