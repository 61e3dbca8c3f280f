#!/usr/bin/perl
# The message log with messages of more than 2 GiB: sent again, drawn before they are asked
# for, in a set while they are under way; where there is memory for them.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitLog;
use FtkitTest;
use Test::More;

ulfm_only();
my ($free_kib) = slurp('/proc/meminfo') =~ /^MemAvailable: *(\d+) kB/m;
plan(skip_all => 'takes 16 GiB of memory') if ($free_kib // 0) < 16 << 20;

# what the memory of this machine is touched for takes its time
my %o = (timeout => 600);
my @env = (FTKIT_LOG_TEAMS => 'rank', FTKIT_LOG_MEMORY => '8GiB', FTKIT_RECOVER_TIMEOUT => '5min');

sub large {
    my ($variant, $n, $period, $fault) = @_;
    my $p = { name => 'large', steps => 2, args => [ '-m', $variant ] };
    my ($rank) = $fault =~ /:(\d+):/;
    my $env = { @env, FTKIT_CHECKPOINT_PERIOD => $period };
    my $j = logged($p, %o, n => $n, env => $env, fault => $fault); # it looks at each word
    like($j->{result}, qr/^OK step 2 hash \w+ 2147487752 bytes/, "$variant, $fault")
        or diag($j->{log});
    is("$j->{rc} @{$j->{faults}}", "0 app.mid rank $rank incarnation 0: kill", '... ends well');
    like($j->{log}, qr/rank $rank returns to set/, '... only the one that was killed goes back');
    return;
}

large('received', 2, '100 calls', 'app.mid:1:2:kill');
large('flight', 2, '1 calls', 'app.mid:1:2:kill');
large('drawn', 3, '100 calls', 'app.mid:2:1:kill');

done_testing();
