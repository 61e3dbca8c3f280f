#!/usr/bin/perl
# Hosts: name spaces with a network, a host name and a /dev/shm of their own, joined by a bridge.  All
# processes of a host are killed; its daemon alone; its link goes down, for good or for a while.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use FtkitTest;
use Test::More;

ulfm_only();
plan(skip_all => 'needs root, and ip') if $> != 0 || system('ip netns list >/dev/null 2>&1') != 0;
plan(skip_all => 'this MPI ends a job that loses a node') if !own_mpi();
my ($tag, $net, $hosts) = ("fk$$", sprintf('10.%d.%d', 64 + $$ % 64, ($$ >> 6) % 256), 3);
my $agent = scratch() . '/agent';

sub ip { system('ip', @_) == 0 or die "ip @_\n" }
sub pids { return split(' ', qx(ip netns pids $tag-$_[0] 2>/dev/null)) }

# Give up whatever there is; an error means that it is not there.
sub remove_hosts
{
    for my $h (1 .. $hosts) {
        kill('KILL', pids($h));
        system("ip netns del $tag-$h >/dev/null 2>&1");
    }
    system("ip link del $tag >/dev/null 2>&1");
}

sub make_hosts
{
    ip(qw(link add), $tag, qw(type bridge));
    ip('addr', 'add', "$net.254/24", 'dev', $tag);
    ip('link', 'set', $tag, 'up');
    for my $h (1 .. $hosts) {
        ip('netns', 'add', "$tag-$h");
        ip('link', 'add', "$tag.$h", qw(type veth peer name eth0 netns), "$tag-$h");
        ip('link', 'set', "$tag.$h", 'master', $tag, 'up');
        ip('-n', "$tag-$h", 'addr', 'add', "$net.$h/24", 'dev', 'eth0');
        ip('-n', "$tag-$h", 'link', 'set', $_, 'up') for qw(eth0 lo);
    }
    open(my $f, '>', $agent) or die "$agent: $!\n";
    print $f <<"END";
#!/bin/sh
# agent HOST COMMAND...: run the command on a host
name=$tag-\${1##*.}
shift
export HOST_COMMAND="\$*"
exec ip netns exec \$name unshare -u -m --propagation private sh -c "
    hostname \$name && mount -t tmpfs none /dev/shm &&
    mkdir -p \$OMPI_MCA_btl_sm_backing_directory && eval \\"\\\$HOST_COMMAND\\""
END
    close($f);
    chmod(0755, $agent);
}

sub host_of
{
    my ($pid) = @_;
    for my $h (1 .. $hosts) {
        return $h if grep { $_ == $pid } pids($h);
    }
    return 0;
}

my %hurt = (
    all => sub { kill('KILL', pids($_[0])) },
    daemon => sub { kill('KILL', grep { (readlink("/proc/$_/exe") // '') =~ /prted$/ } pids($_[0])) },
    link => sub { ip('link', 'set', "$tag.$_[0]", 'down') },
);

# A job of the solver on all hosts; the host of a rank is hurt.  heal: seconds after which the link comes
# back; by then the other side has been given up.
sub hurt_host
{
    my ($what, $rank, %o) = @_;
    my $heal = delete $o{heal};
    my ($host, $at) = (0, 0);
    survives("$what, the host of rank $rank" . ($heal ? ", back after $heal s" : ''), n => 4,
        spares => 2, faults => 0, timeout => 120, solver => ['-d', '20', '-s', $what eq 'link' ? '400' : '80', '-p', 'pid'],
        run => ['--no-relaunch', '--host', join(',', map {"$net.$_:2"} 1 .. $hosts),
            '--prtemca', 'plm_ssh_agent', $agent, '--prtemca', 'if_include', "$tag,eth0"],
        like => qr/repaired in/, %o, while => sub {
            my ($work) = @_;
            for (my $end = time() + 100; time() < $end;) {
                my ($pid, $step) = split(' ', slurp("$work/pid.$rank"));
                if (!$host && ($step // 0) >= 25) {
                    $host = host_of($pid);
                    $hurt{$what}->($host);
                    $at = time();
                }
                last if $host && (!$heal || time() - $at >= $heal);
                select(undef, undef, undef, 0.05);
            }
            ip('link', 'set', "$tag.$host", 'up') if $heal && $host;
        });
    isnt($host, 0, '... a host was hurt');
    is(join(' ', pids($host)), '', '... no process is left there') if $host;
    ip('link', 'set', "$tag.$host", 'up') if $host;
    return;
}

$SIG{$_} = sub { exit(1) } for qw(INT TERM); # to the block below
END { my $rc = $?; remove_hosts(); $? = $rc }
make_hosts();
my $memory = { FTKIT_LEVEL_HDF5_ENABLED => 'false' };
for my $what (qw(all daemon link)) {
    hurt_host($what, $_, env => $memory) for 0, 3;
}
hurt_host('link', 3, env => $memory, heal => 15);
hurt_host('link', 0, heal => 15, like => qr/processes are back in .* from files/, env => { FTKIT_LEVEL_HDF5_EVERY => '1 sets',
    FTKIT_LEVEL_MEMORY_SCHEME => 'own', FTKIT_CHECKPOINT_PERIOD => '5 calls' });
done_testing();
