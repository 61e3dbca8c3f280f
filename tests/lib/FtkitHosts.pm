# Hosts on one machine: name spaces with a network, a host name and a /dev/shm of their own, joined by a bridge.
#
# SPDX-License-Identifier: BSD-3-Clause
package FtkitHosts;
use strict;
use warnings;

sub ip { system('ip', @_) == 0 or die "ip @_\n" }

# Why there can be no hosts here, or ''.
sub missing
{
    return 'needs root' if $> != 0;
    return 'needs ip' if system('ip netns list >/dev/null 2>&1') != 0;
    return 'needs the right to make name spaces' if system('unshare -n -m -u true >/dev/null 2>&1') != 0;
    return '';
}

# Hosts 1 to $count; the launch agent of mpirun is written to a directory.
sub new
{
    my ($class, $count, $dir) = @_;
    my $self = bless({ tag => "fk$$", net => sprintf('10.%d.%d', 64 + $$ % 64, ($$ >> 6) % 256),
        count => $count, agent => "$dir/agent" }, $class);
    eval { $self->make(); 1 } and return $self;
    my $why = $@;
    $self->remove();
    die $why;
}

sub make
{
    my ($self) = @_;
    my ($tag, $net) = @$self{qw(tag net)};
    ip(qw(link add), $tag, qw(type bridge));
    ip('addr', 'add', "$net.254/24", 'dev', $tag);
    ip('link', 'set', $tag, 'up');
    for my $h (1 .. $self->{count}) {
        ip('netns', 'add', "$tag-$h");
        ip('link', 'add', "$tag.$h", qw(type veth peer name eth0 netns), "$tag-$h");
        ip('link', 'set', "$tag.$h", 'master', $tag, 'up');
        ip('-n', "$tag-$h", 'addr', 'add', "$net.$h/24", 'dev', 'eth0');
        ip('-n', "$tag-$h", 'link', 'set', $_, 'up') for qw(eth0 lo);
    }
    $self->write_agent();
    return;
}

sub write_agent
{
    my ($self) = @_;
    open(my $f, '>', $self->{agent}) or die "$self->{agent}: $!\n";
    print {$f} <<"END";
#!/bin/sh
# agent HOST COMMAND...: run the command on a host
name=$self->{tag}-\${1##*.}
shift
export HOST_COMMAND="\$*"
exec ip netns exec \$name unshare -u -m --propagation private sh -c "
    hostname \$name && mount -t tmpfs none /dev/shm &&
    mkdir -p \${OMPI_MCA_btl_sm_backing_directory:-/dev/shm} && eval \\"\\\$HOST_COMMAND\\""
END
    close($f) or die "$self->{agent}: $!\n";
    chmod(0755, $self->{agent}) or die "$self->{agent}: $!\n";
    return;
}

# Arguments of `ftkit run` for jobs on these hosts.
sub arguments
{
    my ($self, $slots) = @_;
    return ('--host', join(',', map {"$self->{net}.$_:$slots"} 1 .. $self->{count}),
        '--prtemca', 'plm_ssh_agent', $self->{agent}, '--prtemca', 'if_include', "$self->{tag},eth0");
}

sub pids { my ($self, $host) = @_; return split(' ', qx(ip netns pids $self->{tag}-$host 2>/dev/null)) }

sub host_of
{
    my ($self, $pid) = @_;
    for my $h (1 .. $self->{count}) {
        return $h if grep { $_ == $pid } $self->pids($h);
    }
    return 0;
}

# The link of a host: 'up' or 'down'.
sub set_link { my ($self, $host, $state) = @_; ip('link', 'set', "$self->{tag}.$host", $state); return }

# Give up whatever there is; an error means that it is not there.
sub remove
{
    my ($self) = @_;
    for my $h (1 .. $self->{count}) {
        kill('KILL', $self->pids($h));
        system("ip link del $self->{tag}.$h >/dev/null 2>&1"); # a name space takes its time, and then has the name
        system("ip netns del $self->{tag}-$h >/dev/null 2>&1");
    }
    system("ip link del $self->{tag} >/dev/null 2>&1");
    return;
}

1;
