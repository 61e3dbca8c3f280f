#!/usr/bin/perl
# Programs in the style of other people's MPI codes (tests/mpi/foreign.h): the same result in every
# run without a failure, and on any number of ranks if the result does not depend on the number; and
# the same result after a rollback of all ranks, so that the result is a valid criterion.  With --all also
# twice on 6 ranks, and ranks 0 and 3 are killed at each point; otherwise one of them.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitLog;
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
my $build = build();

my $count = 0;

# Run a program as job() does; what is wrong with the run as such is in {bad}.
sub run {
    my ($p, %o) = @_;
    my $work = sprintf('%s/foreign%03d', scratch(), ++$count);
    my $j = job(%o, keep => $work, program => "$build/mpi/$p->{name}",
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false' },
        args => ['-o', "$work/out", '-w', "$work/watch", @{ $p->{args} // [] },
            @{ $o{more} // [] }]);
    my @bad;
    push(@bad, "exit code $j->{rc}") if $j->{rc} != 0;
    push(@bad, "result $j->{result}")
        if $j->{result} !~ /^OK step $p->{steps} hash \w{16} .+$/;
    push(@bad, 'communicators left') if $j->{log} =~ /^handles: /m;
    $j->{bad} = join(', ', @bad);
    diag("$j->{bad}\n", substr($j->{log}, 0, 4000)) if @bad;
    return $j;
}

# The steps that a rank has begun, in order.
sub steps_of {
    my ($j, $rank) = @_;
    my $text = slurp("$j->{dir}/watch.$rank");
    return 'not readable' if $text !~ /^(?:$rank \d+\n)+\z/;
    return join(' ', $text =~ / (\d+)$/mg);
}

my %result;
my $twice = 0;
for my $p (programs()) {
    my $title = title($p);
    for my $n (4, 6) {
        my $again = all_cases() || $n == 4 && selected(2, $twice++);
        my @j = map { run($p, n => $n, spares => 0) } $again ? (1, 2) : 1;
        is($j[0]{bad} . $j[-1]{bad}, '', "$title on $n ranks");
        is($j[1]{result}, $j[0]{result}, '... the same again') if @j == 2;
        my $all = join(' ', 0 .. $p->{steps} - 1);
        is(scalar(grep { steps_of($j[0], $_) ne $all } 0 .. $n - 1), 0,
            '... every rank tells each of its steps once');
        $result{$title}{$n} = $j[0]{result};
    }
    is($result{$title}{4}, $result{$title}{6}, "$title: the same on 4 and on 6")
        if $p->{fixed};
}

# where all ranks roll back: everything that the result depends on is registered
for my $p (programs()) {
    my $title = title($p);
    my @faults = map { my $point = $_; map { "$point:$_:" . (5 + 7 * $_) . ':kill' }
            map { 3 * $_ } victims(2, 1) } qw(app.step app.mid app.inflight);
    # each point with several programs
    for my $fault (all_cases() ? @faults : $faults[ (victims(3, 1))[0] ]) {
        my $j = run($p, n => 4, fault => $fault, more => ['-r']);
        my $bad = $j->{bad};
        $bad .= ' another result' if $j->{result} ne $result{$title}{4};
        $bad .= ' no fault' if @{ $j->{faults} } != 1;
        is($bad, '', "$title: $fault");
    }
}

done_testing();
