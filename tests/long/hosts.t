#!/usr/bin/perl
# Hosts: name spaces with a network, a host name and a /dev/shm of their own, joined by a bridge.  All
# processes of a host are killed; its daemon alone; its link goes down, for good or for a while.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use File::Find qw(find);
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitHosts;
use FtkitTest;
use Test::More;

ulfm_only();
plan(skip_all => FtkitHosts::missing()) if FtkitHosts::missing() ne '';
plan(skip_all => 'this MPI ends a job that loses a node') if !own_mpi();
my $hosts;
my %hurt = (
    all => sub { kill('KILL', $hosts->pids($_[0])) },
    daemon => sub { kill('KILL', grep { (readlink("/proc/$_/exe") // '') =~ /prted$/ } $hosts->pids($_[0])) },
    link => sub { $hosts->set_link($_[0], 'down') },
    # ... its processes stand still, so that the end of the agent tells nothing, and mpirun has something
    # to send to this host: that a spare of another host has died
    busy => sub {
        my ($host, $work) = @_;
        my %rank = map { (split(' ', slurp($_)))[0] => 1 } glob("$work/pid.*");
        kill('STOP', $hosts->pids($host));
        $hosts->set_link($host, 'down');
        my ($spare) = grep { !$rank{$_} && (readlink("/proc/$_/exe") // '') =~ /solver$/ }
            map { $hosts->pids($_) } grep { $_ != $host } 1 .. $hosts->{count};
        kill('KILL', $spare // ()) == 1 or die "no spare on another host\n";
    },
);

# A job of the solver on all hosts; the host of a rank is hurt.  heal: seconds after which the link comes
# back; by then the other side has been given up.
sub hurt_host
{
    my ($what, $rank, %o) = @_;
    my $heal = delete $o{heal};
    my $slots = delete $o{slots} // 2;
    my ($host, $at) = (0, 0);
    survives("$what, the host of rank $rank" . ($heal ? ", back after $heal s" : ''), n => 4,
        spares => 2, faults => 0, timeout => 120, solver => ['-d', '20', '-s', $what =~ /link|busy/ ? '400' : '80', '-p', 'pid'],
        run => ['--no-relaunch', $hosts->arguments($slots)],
        like => qr/repaired in/, %o, while => sub {
            my ($work) = @_;
            for (my $end = time() + 100; time() < $end;) {
                my ($pid, $step) = split(' ', slurp("$work/pid.$rank"));
                if (!$host && ($step // 0) >= 25) {
                    $host = $hosts->host_of($pid);
                    $hurt{$what}->($host, $work);
                    $at = time();
                }
                last if $host && (!$heal || time() - $at >= $heal);
                select(undef, undef, undef, 0.05);
            }
            $hosts->set_link($host, 'up') if $heal && $host;
            kill('CONT', $hosts->pids($host)) if $heal && $host;
        });
    isnt($host, 0, '... a host was hurt');
    is(join(' ', $hosts->pids($host)), '', '... no process is left there') if $host;
    $hosts->set_link($host, 'up') if $host;
    return;
}

# The state of a process as /proc has it; '' when there is none.
sub state_of { return (slurp("/proc/$_[0]/stat") =~ /\) (\w)/)[0] // '' }

# Whether all threads of a process stand still.
sub stands { return !grep { slurp("$_/stat") =~ /\) [^TZX]/ } glob("/proc/$_[0]/task/*") }

# Wait until a condition holds; whether it does so in time.
sub holds
{
    my ($seconds, $condition) = @_;
    for (my $end = time() + $seconds; time() < $end; select(undef, undef, undef, 0.01)) {
        return 1 if $condition->();
    }
    return 0;
}

# The processes of the job that has its files in DIR, without those of the test.
sub processes
{
    my ($dir) = @_;
    return grep { (readlink("/proc/$_/exe") // '') =~ m{/(?:ftkit|mpirun|prterun|prted|solver)$}
        && slurp("/proc/$_/environ") =~ /\Q$dir\E\b/ } map {m{(\d+)$}} glob('/proc/[0-9]*');
}

# The files of sets and slots of a job: size, time of the last change, content.  Without the slots of these
# processes: a process may finish a segment in its own slot, which has the stamp of its epoch.
sub files
{
    my ($work, @without) = @_;
    my %seen;
    my $own = join('|', @without);
    find(sub {
        my @s = lstat($_);
        return if $File::Find::name =~ m{^\Q$work\E/(?:log|faults|pid\.\d+|ftkit-slot-.*\.(?:$own)\.\d+)$} || !-f _;
        $seen{ $File::Find::name =~ s{^\Q$work\E/}{}r } = join(' ', $s[7], $s[9], md5_hex(slurp($_)));
    }, $work);
    return \%seen;
}

# Freeze the host of rank 0, cut it off until its ranks have been replaced, and let it come back.
# Returns how many of its processes were frozen until then, and how many are left.  The files are
# looked at before it comes back and after; the other processes stand still between.
sub freeze
{
    my ($work, $wait, $files) = @_;
    my ($pid, $step) = (0, 0);
    my $look = sub { ($pid, $step) = split(' ', slurp("$work/pid.0")); return $step // 0 };
    return (0, 0) if !holds(40, sub { $look->() && $wait->($pid, $step) });
    my ($host, $first, $at) = ($hosts->host_of($pid), $pid, $step);
    my @frozen = grep { state_of($_) } $hosts->pids($host);
    kill('STOP', @frozen);
    $hosts->set_link($host, 'down');
    my $over = holds(60, sub { $look->() > $at + 8 && $pid != $first });
    my %frozen = map { $_ => 1 } @frozen;
    my @others = grep { !$frozen{$_} } processes($work);
    kill('STOP', @others);
    holds(10, sub { !grep { !stands($_) } @others }); # the last call of each thread has ended
    my $still = grep { state_of($_) eq 'T' } @frozen;
    $files->[0] = files($work, @frozen);
    $hosts->set_link($host, 'up');
    kill('CONT', @frozen);
    my @left = @frozen;
    holds(30, sub { !(@left = grep { state_of($_) !~ /^Z?$/ } @frozen) });
    $files->[1] = files($work, @frozen);
    kill('CONT', @others);
    return ($over ? $still : 0, scalar(@left));
}

# A host that was given up comes back: its processes leave, and have changed no file of a set or a slot.
sub expels
{
    my ($name, %o) = @_;
    my ($frozen, $left, @files) = (0, 0);
    my $wait = $o{fault} ? sub { state_of($_[0]) eq 'T' } : sub { $_[1] >= 25 };
    survives($name, n => 4, spares => 2, timeout => 170, faults => $o{fault} ? 1 : 0,
        solver => ['-d', '20', '-s', '80', '-p', 'pid'], like => qr/repaired in/,
        run => ['--no-relaunch', $hosts->arguments(2)], %o,
        while => sub { ($frozen, $left) = freeze($_[0], $wait, \@files) });
    cmp_ok($frozen, '>=', 3, '... two ranks and a daemon came back');
    is($left, 0, '... and leave');
    my ($before, $after) = ($files[0] // {}, $files[1] // {});
    my @changed = grep { ($before->{$_} // '') ne ($after->{$_} // '') } sort keys %{ +{ %$before, %$after } };
    is(join(' ', @changed), '', '... and change no file')
        or diag(map { "$_: " . ($before->{$_} // 'none') . ' -> ' . ($after->{$_} // 'none') . "\n" } @changed);
    return;
}

$SIG{$_} = sub { exit(1) } for qw(INT TERM); # to the block below
END { my $rc = $?; $hosts->remove() if $hosts; $? = $rc }
$hosts = FtkitHosts->new(3, scratch());
my $memory = { FTKIT_LEVEL_HDF5_ENABLED => 'false' };
for my $what (qw(all daemon link)) {
    hurt_host($what, $_, env => $memory) for 0, 3;
}
hurt_host('link', 3, env => $memory, heal => 15);
hurt_host('busy', 3, slots => 3, spares => 5, heal => 20, like => qr/repaired in.*1 rank replaced/,
    env => { %$memory, FTKIT_RECOVER_NODE_TIMEOUT => '5s', FTKIT_RECOVER_TIMEOUT => '60s' });
hurt_host('link', 0, heal => 15, like => qr/processes are back in .* from files/, env => { FTKIT_LEVEL_HDF5_EVERY => '1 sets',
    FTKIT_LEVEL_MEMORY_SCHEME => 'own', FTKIT_CHECKPOINT_PERIOD => '5 calls' });
my $async = { FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_RECOVER_NODE_TIMEOUT => '4s',
    FTKIT_LEVEL_MEMORY_PLACE => 'file', FTKIT_LEVEL_MEMORY_DIRECTORY => '.', FTKIT_RECOVER_TIMEOUT => '60s' };
expels('a frozen host is given up, and comes back', env => $async);
expels("... frozen at $_", env => $async, fault => "$_:0:" . (/block/ ? 30 : 3) . ':stop')
    for qw(flush.begin flush.block flush.parts flush.complete ckpt.packed ckpt.sealed ckpt.voted);
done_testing();
