# The state of a campaign: a file of counts, which goes on where an earlier run has ended.
#
# SPDX-License-Identifier: BSD-3-Clause
package State;
use strict;
use warnings;
use Case;
use Fcntl ':flock';
use FtkitTest qw(slurp write_file);
use Judge;
use JSON::PP;

# Change the state in a file: no other process does so meanwhile.  Returns what the change returns.
sub change {
    my ($file, $change) = @_;
    open(my $lock, '>>', "$file.lock") or die("$file.lock: $!\n");
    flock($lock, LOCK_EX) or die("$file.lock: $!\n");
    my $state = load($file);
    my $result = $change->($state);
    write_file("$file.new", JSON::PP->new->canonical->pretty->encode($state));
    rename("$file.new", $file) or die("$file: $!\n");
    close($lock);
    return $result;
}

sub load {
    my ($file) = @_;
    return -s $file ? decode_json(slurp($file)) : { next => {}, runs => 0, seconds => 0 };
}

# The next number of a seed.
sub number {
    my ($file, $seed) = @_;
    return change($file, sub { return ++$_[0]{next}{$seed} });
}

# Count a run of a case.
sub count {
    my ($state, $c, $r, $j) = @_;
    $state->{runs}++;
    $state->{seconds} += int($r->{seconds} + 0.5);
    $state->{verdicts}{ $j->{verdict} }++;
    $state->{modes}{ mode($c) }++;
    $state->{repairs} += $j->{repairs};
    $state->{relaunches} += $j->{relaunches};
    $state->{crashes}{$_}++ for @{ $j->{crashes} };
    $state->{faults}{ Case::fault_kind($_) }++ for @{ $c->{faults} };
    passed($state, $r);
    return;
}

# Count the faults of a run that came to pass.
sub passed {
    my ($state, $r) = @_;
    for my $line (@{ $r->{faults} }) { # by fault points
        my ($point, $action) = $line =~ /^(\S+) rank .*: (\w+)$/ or next;
        $state->{passed}{ Case::fault_kind("$point:0:1:$action") }++;
    }
    my $log = $r->{log} =~ tr/\0//dr;
    $state->{passed}{ Case::fault_kind("kill $1") }++ while $log =~ /ftkit run: killed (rank|node) \d/g;
    $state->{passed}{'flip checkpoint'}++ while $log =~ /ftkit run: .*has flipped bit/g;
    $state->{passed}{ Case::fault_kind($_) }++ for @{ $r->{outside} // [] };
    return;
}

# The sum of several states, of other machines.
sub sum {
    my @states = @_;
    my $sum = {};
    for my $s (@states) {
        for my $key (keys %$s) {
            if (ref($s->{$key}) eq 'HASH') {
                $sum->{$key}{$_} += $s->{$key}{$_} for $key eq 'next' ? () : keys %{ $s->{$key} };
            } elsif (ref($s->{$key}) eq 'ARRAY') {
                push(@{ $sum->{$key} }, @{ $s->{$key} });
            } else {
                $sum->{$key} += $s->{$key};
            }
        }
    }
    return $sum;
}

sub mode {
    my ($c) = @_;
    return "$c->{replicas} replicas" if $c->{replicas} > 1;
    return 'OpenSHMEM' if $c->{program} =~ /^shmem-/;
    return 'log, lines apart' if $c->{config}{'checkpoint.line'};
    return 'log, ' . ($c->{config}{'log.determinants'} // 'node') if $c->{config}{'log.enabled'};
    return ($c->{config}{'recover.supply'} // '') =~ /shrink/ ? 'fewer ranks' : 'all ranks roll back';
}

1;
