#!/usr/bin/perl
# What the message log takes: nothing right after a set, no more after ten times as long, what
# is needed until a set is committed, and beyond log.memory a file, if there can be one.
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

# The program sees for itself that nothing is kept after a set, or its result is BAD.
sub tags {
    my ($steps, @args) = @_;
    return { name => 'tags', steps => $steps, args => [ '-n', $steps, @args ] };
}

# What the ranks told when they ended, by rank.
sub told {
    my ($j) = @_;
    my @rank;
    for my $line ($j->{log} =~ /^log (.*)$/mg) {
        my ($r, %v) = $line =~ /^(\d+) (.*) memory (\d+) (\d+)$/
            ? ($1, split(' ', $2), early => $3, late => $4) : next;
        $rank[$r] = \%v;
    }
    return @rank;
}

# Runs well, with the result of the undisturbed run.  What the ranks told.
sub runs {
    my ($p, $what, %o) = @_;
    my $env = { FTKIT_LOG_TEAMS => 'rank', %{ $o{env} } };
    my $j = logged($p, %o, env => $env);
    my @told = told($j);
    my @warnings = $j->{log} =~ /warning: .*has no file/g;
    my @line = $j->{log} =~ /returns? to set (\d+)/;
    is(verdict($p, $j, %o, env => $env, faults => $o{fault} ? 1 : 0, what => $what), '', $what);
    is(scalar(grep { defined } @told), 4, '... and all ranks tell of it');
    return { rank => \@told, warnings => scalar(@warnings), line => $line[0] };
}

# The least and the most of a number that the ranks told.
sub least { my ($t, $what) = @_; return (sort { $a <=> $b } map { $_->{$what} } @{ $t->{rank} })[0] }
sub most { my ($t, $what) = @_; return (sort { $b <=> $a } map { $_->{$what} } @{ $t->{rank} })[0] }

# ---- after a set, and after many

{
    my $t = runs(tags(10000), '10,000 steps, ever new tags',
        env => { FTKIT_CHECKPOINT_PERIOD => '50 calls' });
    cmp_ok(least($t, 'sets'), '>', 150, '... many sets');
    cmp_ok(least($t, 'held'), '>', 50000, '... between which there is something to be kept');
    cmp_ok(most({ rank => [ map { { more => $_->{late} - $_->{early} } } @{ $t->{rank} } ] },
            'more'), '<', 512, '... memory after 10,000 steps is that after 1,000');
}

# ---- until the set is committed the old log is needed

for my $point (qw(ckpt.begin log.drained ckpt.sized ckpt.packed ckpt.sealed)) {
    for my $teams ([ FTKIT_LOG_TEAMS => 'rank' ], [ FTKIT_LOG_TEAM_SIZE => 2 ]) {
        my $t = runs(tags(50), "killed at $point, @$teams",
            env => { FTKIT_CHECKPOINT_PERIOD => '10 calls', @$teams },
            fault => "$point:2:4:kill", killed => [2]);
        is($t->{line}, 3, '... back to the set before');
        my @others = @{ $t->{rank} }[0, 1];
        is(scalar(grep { $_->{resent} > 0 } @others), 2, '... and the log sends again');
    }
}

# ---- the bound

my @cap = (FTKIT_CHECKPOINT_PERIOD => '1h', FTKIT_LOG_MEMORY => '20MiB');
{
    my $t = runs(tags(400, '-s', 8192), 'a log that fills up', env => {@cap});
    cmp_ok(least($t, 'sets'), '>=', 5, '... makes sets due');
    is(least($t, 'sets'), most($t, 'sets'), '... on all ranks');
    is(most($t, 'spilled'), 0, '... before it goes to a file');

    $t = runs(tags(400, '-s', 8192, '-m', 'one'), 'the log of one rank fills up', env => {@cap});
    cmp_ok(least($t, 'sets'), '>=', 5, '... and makes sets due on all');
    cmp_ok($t->{rank}[0]{held}, '<', 1 << 20, '... while that of rank 0 is small');
    is(most($t, 'spilled'), 0, '... before it goes to a file');

    $t = runs(tags(400, '-s', 8192), '... a rank is killed', env => {@cap},
        fault => 'app.mid:1:300:kill', killed => [1]);
    cmp_ok($t->{line}, '>', 2, '... and goes back to such a set');
}

# ---- beyond it: what is sent again comes from the file

my @beyond = (FTKIT_CHECKPOINT_PERIOD => '60 calls', FTKIT_REPORT_STDERR => 'warning');
my %kill = (fault => 'app.mid:1:110:kill', killed => [1]);
my $spills = tags(120, '-s', 8192);
for my $memory ('4MiB', '0') {
    my $t = runs($spills, "log.memory $memory", %kill,
        env => { @beyond, FTKIT_LOG_MEMORY => $memory });
    my @others = @{ $t->{rank} }[0, 2, 3];
    is(scalar(grep { $_->{spilled} > 0 && $_->{resent} > 0 } @others), 3,
        '... the log is in a file, and sends again');
    is($t->{warnings}, 0, '... there is nothing to warn of');
}
{
    my $t = runs(tags(30, '-s', 8192), 'all of it is to go to a file',
        env => { FTKIT_CHECKPOINT_PERIOD => '1h', FTKIT_LOG_MEMORY => 0 });
    cmp_ok(most($t, 'sets'), '<', 3, '... which makes no set due');
}

# ---- no file is to be had

sub stays_in_memory {
    my ($what, %o) = @_;
    my $t = runs($spills, $what, %kill, %o, env => { @beyond, FTKIT_LOG_MEMORY => 0, %{ $o{env} } });
    is($t->{warnings}, 5, '... every process says so once');
    is(most($t, 'spilled'), 0, '... and keeps it in memory');
    cmp_ok(least($t, 'held'), '>', 1 << 20, '... all of it');
    return;
}

stays_in_memory('log.directory is not there', env => { FTKIT_LOG_DIRECTORY => 'nowhere' });
SKIP: {
    skip('no right to mount', 4) if !nodes_possible();
    # a small file system for each rank
    my $mount = 'mkdir -p disk && mount -t tmpfs -o size=1m none disk && exec "$@"';
    stays_in_memory('log.directory is full', env => { FTKIT_LOG_DIRECTORY => 'disk' },
        wrap => [ 'unshare', '-m', 'sh', '-c', $mount, 'sh' ]);
}

done_testing();
