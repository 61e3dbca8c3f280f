# The generator of a campaign: a seed and a number make a case, always the same one.
#
# A case has a program, numbers (n, spares, replicas, nodes), relaunch (whether `ftkit run` may start the
# job again), late (whether the ranks pause in each step), config (keys that are not at their default) and
# faults.  A fault is a string:
#   POINT:RANK:VISIT:ACTION[@INCARNATION]   a rule of FTKIT_FAULT, see lib/core/fault.c
#   kill rank R at F, kill node K at F      SIGKILL, at a fraction of the time of the undisturbed run
#   link K down at F [for S]                the network of host K, for good or for so many seconds
#   kill mpirun at F                        the whole job
#   flip rank R at F [in REGION]            a bit of checkpoint memory, or of a region of the program
#   drop slots at F, drop sets at F         files of the memory level, or of the HDF5 level, are removed
#   fill disk at F [until F]                the file system of the HDF5 level, a small one, gets full
#
# SPDX-License-Identifier: BSD-3-Clause
package Case;
use strict;
use warnings;
use Digest::MD5 'md5_hex';
use Exporter 'import';
use JSON::PP ();
use Programs;

our @EXPORT_OK = qw(make supported fault_kind text axes parse);

my $json = JSON::PP->new->canonical;
sub text { my ($case) = @_; return $json->encode($case) }
sub parse { my ($text) = @_; return $json->decode($text) }

# ---- random numbers of our own: the same on each machine and in each version of Perl -------------------

my $state;
sub seed { ($state) = @_; return }

sub below {
    my ($n) = @_;
    $state = md5_hex($state);
    return int(hex(substr($state, 0, 8)) / 2**32 * $n);
}
sub one_of { my @of = @_; return $of[below(scalar @of)] }
sub chance { my ($percent) = @_; return below(100) < $percent }

# ---- faults ------------------------------------------------------------------------------------------

my @set = qw(ckpt.begin ckpt.sized ckpt.packed ckpt.sealed ckpt.voted ckpt.committed);
my @apart = qw(apart.initiate apart.cut apart.counts apart.all apart.late apart.early apart.tail
    apart.vote apart.voted apart.commit);
my @once = qw(open.begin open.gathered open.built open.end recover.begin recover.end finish.begin
    finish.end close.begin close.voted close.parted);
my @durable = qw(durable.begin durable.written durable.manifest);
my @flush = qw(flush.submit flush.announced flush.submitted flush.begin flush.block flush.part flush.end);
my @local = qw(local.begin local.sized local.copied local.sealed local.voted);
my @repair = qw(repair.shrink repair.shrunk repair.census repair.plan repair.build repair.split
    repair.built repair.restore repair.restored repair.agree repair.agreed transfer.sized transfer.done
    recover.begin recover.end);
my @repair_log = qw(log.settle log.settled log.marks log.install);

sub has_files { my ($c) = @_; return !$c->{config}{'level.hdf5.enabled'} }
sub has_slots { my ($c) = @_; return ($c->{config}{'level.memory.place'} // '') eq 'file' }
sub processes { my ($c) = @_; return $c->{n} * $c->{replicas} }

# A point of the loop that the job passes, and how often.
sub point_in_loop {
    my ($c, $p) = @_;
    my $sets = $p->{steps} / ($c->{config}{'checkpoint.period'} =~ /(\d+)/)[0];
    my @of = map { [$_, $sets] } $c->{config}{'checkpoint.line'} ? @apart : @set;
    push(@of, map { [$_, 0.9 * $p->{steps}] } (qw(app.step app.mid app.inflight)) x 3) if !$p->{quiet};
    push(@of, map { my ($point, $most) = split(/=/, $_); [$point, $most // 0.9 * $p->{steps}] } (@{ $p->{points} }) x 2);
    push(@of, map { [$_, $p->{messages} // 40] } (qw(log.send log.received)) x 2) if $c->{config}{'log.enabled'};
    push(@of, map { [$_, 3] } @local) if $c->{config}{'level.local.scheme'};
    push(@of, map { [$_, 3] } $c->{config}{'level.hdf5.asynchronous'} ? @durable : @flush)
        if !$c->{config}{'level.hdf5.enabled'};
    push(@of, map { [$_, $sets] } qw(replica.compare replica.compared)) if $c->{replicas} > 1;
    return @{ one_of(@of) };
}

sub kill_in_loop {
    my ($c, $p, $rank) = @_;
    return sprintf('kill rank %d at 0.%02d', $rank, 5 + below(90)) if $p->{outside};
    my ($point, $most) = point_in_loop($c, $p);
    return sprintf('%s:%d:%d:kill', $point, $rank, 1 + below($most < 1 ? 1 : $most));
}

sub kill_in_repair {
    my ($c) = @_;
    my @of = (@repair, $c->{config}{'log.enabled'} ? @repair_log : (),
        $c->{program} =~ /^shared/ ? qw(win.back win.join) : (), $c->{program} =~ /^files/ ? qw(files.restore files.read archive.open archive.read) : (),
        $c->{replicas} > 1 ? qw(clone.send clone.receive clone.committed) : (),
        ($c->{config}{'level.memory.scheme'} // '') =~ /xor|rs/ ? qw(rebuild.begin rebuild.data rebuild.done) : ());
    return sprintf('%s:%d:%d:kill', one_of(@of), below(processes($c) + $c->{spares}), 1 + below(3));
}

# Many losses in one long job, of originals and of those that take their places, at points, at moments and
# in repairs.  The job has a process for each.  Points of a replacement count from its beginning.
sub series {
    my ($c, $p) = @_;
    my $losses = 8 + below(14);
    $c->{steps} = 25 * $losses;
    $c->{spares} = $losses if $c->{spares};
    my $part = { %$p, steps => $c->{steps} / 3, messages => ($p->{messages} // 40) * $c->{steps} / $p->{steps} / 3 };
    my %incarnation;
    return map {
        my $r = below(processes($c));
        my $how = below(10);
        $how < 2 ? sprintf('kill rank %d at 0.%02d', $r, 5 + below(90)) : $how < 4 ? kill_in_repair($c)
            : kill_in_loop($c, $part, $r) . '@' . $incarnation{$r}++ =~ s/^$/0/r
    } 1 .. $losses;
}

# Each kind makes one fault or several; nothing where the case has no place for it.
my %fault = (
    point => sub { my ($c, $p, $r) = @_; return kill_in_loop($c, $p, $r) },
    once => sub { my ($c, $p, $r) = @_; return sprintf('%s:%d:1:kill', one_of(@once), $r) },
    moment => sub { my ($c, $p, $r) = @_; return sprintf('kill rank %d at 0.%02d', $r, 5 + below(90)) },
    repair => sub { my ($c, $p, $r) = @_; return (kill_in_loop($c, $p, $r), kill_in_repair($c)) },
    again => sub {
        my ($c, $p, $r) = @_;
        return (kill_in_loop($c, $p, $r), sprintf('%s:%d:%d:kill@1', one_of(qw(recover.begin recover.end
            open.end ckpt.begin), $p->{quiet} ? () : qw(app.step app.mid)), $r, 1 + below(3)));
    },
    two => sub {
        my ($c, $p, $r) = @_;
        my $other = ($r + 1 + below(processes($c) - 1)) % processes($c);
        return (kill_in_loop($c, $p, $r), kill_in_loop($c, $p, $other));
    },
    node => sub { my ($c) = @_; return sprintf('kill node %d at 0.%02d', 1 + below($c->{nodes}), 15 + below(75)) },
    link => sub { # for good, for less than a loss, or until it was given up
        my ($c) = @_;
        $c->{config}{'recover.node_timeout'} = '3s';
        return sprintf('link %d down at 0.%02d%s', 1 + below($c->{nodes}), 15 + below(60),
            one_of('', '', ' for 0.2', ' for 0.5', ' for 9'));
    },
    job => sub {
        my ($c, $p, $r) = @_;
        return (sprintf('kill mpirun at 0.%02d', 10 + below(85)), chance(30) ? kill_in_loop($c, $p, $r) : ());
    },
    stop => sub {
        my ($c, $p, $r) = @_;
        return sprintf('%s:%d:%d:stop', one_of($c->{config}{'checkpoint.line'} ? () : @set,
            $p->{quiet} ? () : qw(app.step app.mid)), $r, 2 + below(5));
    },
    flip => sub { # and a kill, so that somebody reads the memory
        my ($c, $p, $r) = @_;
        return (sprintf('flip rank %d at 0.%02d', below($c->{n}), 10 + below(60)),
            sprintf('kill rank %d at 0.%02d', below($c->{n}), 75 + below(15)));
    },
    region => sub { # of twins
        my ($c, $p, $r) = @_;
        return sprintf('flip.%s:%d:%d:EIO', one_of(qw(data grown packed strided)), $r, 2 + below(40));
    },
    corrupt => sub {
        my ($c, $p, $r) = @_;
        my $point = one_of(qw(transfer.corrupt restore.corrupt), has_files($c) ? 'durable.corrupt' : ());
        return (kill_in_loop($c, $p, $r), "$point:*:1:EIO@*");
    },
    full => sub {
        my ($c, $p, $r) = @_;
        return sprintf('%s:%d:%d:%s', one_of('h5.part.write', 'h5.part.fsync'), $r, 1 + below(3),
            one_of(qw(ENOSPC EIO EDQUOT)));
    },
    fill => sub { # for good, or until there is room again
        my ($c, $p, $r) = @_;
        my $at = 10 + below(50);
        return (sprintf('fill disk at 0.%02d%s', $at, chance(50) ? sprintf(' until 0.%02d', $at + 5 + below(30)) : ''),
            kill_in_loop($c, $p, $r));
    },
    series => \&series,
    drop => sub {
        my ($c, $p, $r) = @_;
        my $what = one_of(has_files($c) ? 'sets' : (), has_slots($c) ? 'slots' : ());
        return (sprintf('drop %s at 0.%02d', $what, 20 + below(40)), kill_in_loop($c, $p, $r));
    },
);

# The kind of a fault of a case, for the counts.
sub fault_kind {
    my ($f) = @_;
    return 'drop files' if $f =~ /^drop/;
    return 'full disk' if $f =~ /^fill/;
    return $f =~ / for 0/ ? 'link, short' : 'link' if $f =~ /^link/;
    return 'flip checkpoint' if $f =~ /^flip rank/;
    return $1 eq 'rank' ? 'process, at a moment' : $1 if $f =~ /^kill (\w+)/;
    my ($point, $action) = (split(/:/, $f))[0, 3];
    $action =~ s/\@.*//;
    return 'SIGSTOP' if $action eq 'stop';
    return 'flip region' if $point =~ /^flip\./;
    return 'corrupt data' if $point =~ /\.corrupt$/;
    return 'disk error' if $action =~ /^E/;
    my $in_repair = qr/^(?:repair|transfer|rebuild|clone|recover)\.|^files\.re|^archive\.(?:open|read)|^log\.(?:settle|marks|install)/;
    return 'process, in a repair' if $point =~ $in_repair;
    return 'process, at a point';
}

# ---- configuration ---------------------------------------------------------------------------------------

# The axes: values that come in each series, and those that each case of a mode may have.
my %axes = (
    mode => [qw(all log apart replicas shrink shmem)],
    'checkpoint.period' => ['1 calls', '2 calls', '3 calls', '5 calls', '13 calls'],
    'level.memory.scheme' => [qw(own buddy xor rs none)],
    'level.memory.map' => [qw(pair ring)],
    'level.memory.place' => [qw(memory shared file)],
    'level.memory.incremental' => [qw(auto on off)],
    'level.local.scheme' => [qw(none own buddy xor)],
    'level.local.place' => [qw(memory shared)],
    'level.hdf5.enabled' => [qw(true false)],
    'level.hdf5.asynchronous' => [qw(true false)],
    'level.hdf5.every' => ['1 sets', '2 sets'],
    'level.hdf5.compress' => [qw(none deflate)],
    'level.hdf5.writers' => [qw(0 1 2)],
    'log.determinants' => [qw(node causal pessimistic relaxed refuse)],
    teams => [qw(rank 1 2 3 list all dynamic)],
    'log.silent' => ['', '0'],
    'log.helpers' => [0, 1, 8],
    'replicas.compare' => [qw(regions messages)],
    'replicas.lost' => [qw(compared clone replay)],
    'recover.supply' => ['spare, spawn, end', 'spare, end', 'spawn, end', 'spare, shrink, end'],
    replicas => [1, 2, 3],
    nodes => [1, 2, 3, 4],
    fault => [sort keys %fault],
);
my %default = ('level.memory.scheme' => 'buddy', 'level.memory.map' => 'pair', 'level.memory.place' => 'memory',
    'level.memory.incremental' => 'auto', 'level.local.scheme' => 'none', 'level.local.place' => 'shared',
    'level.hdf5.enabled' => 'true', 'level.hdf5.asynchronous' => 'true', 'level.hdf5.compress' => 'none',
    'level.hdf5.writers' => '0', 'log.helpers' => '0',
    'log.determinants' => 'node', 'replicas.compare' => 'regions', 'replicas.lost' => 'compared',
    'recover.supply' => 'spare, spawn, end');
sub axes { return %axes }
sub default_of { my ($key) = @_; return $default{$key} // '' }

sub set_key {
    my ($c, $key, $value) = @_;
    $c->{config}{$key} = $value if $value ne ($default{$key} // '');
    return;
}

sub choose { my ($c, $key) = @_; set_key($c, $key, one_of(@{ $axes{$key} })); return }

# The levels: without files, a memory level that keeps data of lost ranks.
sub choose_levels {
    my ($c, $mode) = @_;
    set_key($c, 'level.hdf5.enabled', chance($mode eq 'all' || $mode eq 'shrink' ? 60 : 35) ? 'true' : 'false');
    my $files = !$c->{config}{'level.hdf5.enabled'};
    my $scheme = one_of(qw(buddy buddy xor rs), $files ? qw(own) : (), $files && $mode eq 'all' ? 'none' : ());
    set_key($c, 'level.memory.scheme', $mode eq 'shrink' && $scheme eq 'none' ? 'buddy' : $scheme);
    choose($c, 'level.memory.map') if $scheme eq 'buddy';
    choose($c, 'level.memory.incremental') if $scheme ne 'none';
    choose($c, 'level.memory.place') if $scheme ne 'none' && chance(40);
    if ($scheme ne 'none' && chance(20)) {
        choose($c, 'level.local.scheme');
        choose($c, 'level.local.place') if $c->{config}{'level.local.scheme'};
        $c->{config}{'level.local.every'} = '2 sets' if $c->{config}{'level.local.scheme'};
    }
    if ($files) {
        $c->{config}{'level.hdf5.every'} = one_of(@{ $axes{'level.hdf5.every'} });
        choose($c, 'level.hdf5.asynchronous');
        choose($c, 'level.hdf5.writers');
        set_key($c, 'level.hdf5.compress', 'deflate') if chance(15);
    }
    return;
}

sub choose_log {
    my ($c, $mode, $p) = @_;
    $c->{config}{'log.enabled'} = 'true';
    $c->{config}{'checkpoint.line'} = 'apart' if $mode eq 'apart';
    my $one = $p->{kinds}{team} || $p->{kinds}{shmem}; # one team of all ranks
    my $team = $one ? 'all' : $mode eq 'replicas' ? 'rank'
        : one_of(grep { $_ ne 'all' && ($_ ne 'dynamic' || $mode eq 'log') } @{ $axes{teams} });
    $team = 'rank' if $team eq 'list' && $c->{n} != 4;
    $c->{config}{ $team =~ /rank|all|dynamic/ ? 'log.teams' : $team eq 'list' ? 'log.team_list' : 'log.team_size' } =
        $team eq 'list' ? '0,2 1,3' : $team;
    @{ $c->{config} }{qw(log.team_size log.reteam log.reteam_gain)} = (2, '1 sets', 1) if $team eq 'dynamic';
    set_key($c, 'log.silent', '0') if $team !~ /all|dynamic/ && $mode ne 'replicas' && chance(20);
    set_key($c, 'log.helpers', one_of(1, 8)) if $c->{program} =~ /^units/ || ($mode ne 'replicas' && chance(10));
    my @modes = $mode eq 'log' && !$one ? ('node', 'causal', 'pessimistic') : 'node';
    push(@modes, ('refuse') x 2) if $p->{kinds}{refuse} && $mode ne 'replicas';
    push(@modes, ('relaxed') x 2) if $p->{kinds}{relaxed} && $mode eq 'log';
    set_key($c, 'log.determinants', one_of(@modes));
    return;
}

sub random_script {
    my ($how) = @_;
    my $seed = below(100_000);
    return "script:$seed:" . join(',', $how, grep { $_ ne '' } one_of(Programs::script_kinds($how)));
}

# A case of a seed and a number.
sub make {
    my ($seed, $number) = @_;
    seed("campaign $seed $number");
    my $mode = one_of((qw(all log log apart replicas)) x 4, qw(all all shrink shmem shmem shmem));
    my %c = (seed => $seed, number => $number, replicas => 1, nodes => 1, config => {});
    my $random = $mode =~ /log|apart|replicas/ && chance($mode eq 'log' ? 25 : 50);
    my $how = $mode eq 'apart' ? 'apart' : 'together';
    my @of = Programs::of_kind($mode);
    $c{program} = $random ? random_script($how) : one_of(@of, (grep { $_ eq 'twins' } @of) x 3,
        (grep {/^(?:windows|dynamic|winloop|shared|files)/} @of) x 2);
    my $p = Programs::find($c{program});
    $c{n} = one_of(@{ $p->{n} });
    $c{config}{'checkpoint.period'} = one_of(@{ $axes{'checkpoint.period'} });
    if ($mode eq 'replicas') {
        $c{replicas} = 2 + below(2);
        $c{n} = $p->{name} =~ /^(?:comms|inters)$/ ? 4 : 3; # these two need four
        choose(\%c, 'replicas.compare');
        choose(\%c, 'replicas.lost');
    }
    choose_levels(\%c, $mode);
    choose_log(\%c, $mode, $p) if $mode =~ /log|apart|replicas|shmem/;
    choose_place(\%c, $mode, $p);
    choose_faults(\%c, $mode, $p);
    return \%c;
}

# Nodes, and what takes the place of lost ranks.
sub choose_place {
    my ($c, $mode, $p) = @_;
    if ($mode =~ /^(?:all|log|apart)$/ && chance(15) && !$p->{one_node}) { # two ranks on each
        $c->{nodes} = one_of(2, 3, 3, 4);
        $c->{n} = 2 * $c->{nodes};
        delete $c->{config}{'log.team_list'} and $c->{config}{'log.team_size'} = 2;
    }
    $c->{spares} = $c->{nodes} > 1 ? 2 : one_of(1, 2, 2, 3, 4);
    my $supply = $mode eq 'shrink' ? 'spare, shrink, end' : $mode eq 'replicas' ? 'spare, spawn, end'
        : one_of('spare, spawn, end', 'spare, spawn, end', 'spare, end', $c->{nodes} > 1 ? () : 'spawn, end');
    set_key($c, 'recover.supply', $supply);
    $c->{spares} = $mode eq 'shrink' ? below(2) : 0 if $supply =~ /shrink|^spawn/;
    $c->{relaunch} = chance($mode eq 'replicas' || $c->{config}{'level.hdf5.enabled'} ? 30 : 70) ? 1 : 0;
    $c->{relaunch} = 1 if ($c->{config}{'level.memory.scheme'} // '') =~ /own|none/;
    $c->{late} = 0;
    return;
}

sub choose_faults {
    my ($c, $mode, $p) = @_;
    my @kinds = (qw(point point point moment moment repair repair again two once stop flip corrupt));
    push(@kinds, (qw(node link)) x 8) if $c->{nodes} > 2 && $mode ne 'shrink';
    push(@kinds, qw(job job)) if $c->{relaunch};
    push(@kinds, qw(full full fill fill)) if has_files($c);
    push(@kinds, 'drop') if has_files($c) || has_slots($c);
    push(@kinds, (qw(region)) x 10) if $p->{name} eq 'twins';
    @kinds = grep { !/^(?:full|fill)$/ } @kinds if $p->{stops};
    @kinds = grep { !/^(?:point|repair|again|once|stop|corrupt|full)$/ } @kinds if $p->{outside};
    push(@kinds, (qw(series)) x 12) if $p->{length} && !$p->{outside} && $mode ne 'shrink' && $c->{nodes} == 1;
    my $kind = one_of(@kinds);
    $kind = 'moment' if $kind =~ /flip|stop/ && $mode eq 'shrink';
    $kind = 'point' if $kind eq 'stop' && $p->{quiet} && $c->{config}{'checkpoint.line'};
    $c->{kind} = $kind;
    $c->{faults} = [$fault{$kind}->($c, $p, below(processes($c)))];
    push(@{ $c->{faults} }, kill_in_repair($c)) if chance(12) && $kind !~ /repair|region|series/ && !$p->{outside};
    $c->{late} = 1 if grep {/ at 0/} @{ $c->{faults} };
    return;
}

# Why a case is none that the documentation supports, or ''.  The generator makes none of these, and the
# shrinker tries none.
sub supported {
    my ($c) = @_;
    my $p = Programs::find($c->{program}) or return 'no such program';
    my ($config, $kinds) = ($c->{config}, $p->{kinds});
    my $scheme = $config->{'level.memory.scheme'} // 'buddy';
    my $files = !$config->{'level.hdf5.enabled'};
    return 'the program is one of the log' if !$config->{'log.enabled'} && !$kinds->{all} && !$kinds->{shrink};
    return 'the program is none of the log'
        if $config->{'log.enabled'} && !($kinds->{log} || $kinds->{apart} || $kinds->{replicas} || $kinds->{shmem});
    return 'the program needs one team' if ($kinds->{team} || $kinds->{shmem}) && ($config->{'log.teams'} // '') ne 'all';
    return 'the program needs lines apart' if !$config->{'checkpoint.line'} && $c->{program} =~ /^script:\d+:apart/;
    return 'lines apart need the log' if $config->{'checkpoint.line'} && !$config->{'log.enabled'};
    return 'the program has no lines apart' if $config->{'checkpoint.line'} && !$kinds->{apart};
    my $det = $config->{'log.determinants'} // 'node';
    return 'lines apart and replicas have node or refuse'
        if $det !~ /node|refuse/ && ($config->{'checkpoint.line'} || $c->{replicas} > 1);
    return 'choices of MPI are left open' if $det =~ /relaxed|refuse/ && !$kinds->{$det};
    return 'replicas need the log' if $c->{replicas} > 1 && (!$config->{'log.enabled'} || !$kinds->{replicas});
    return 'no data of lost ranks' if $scheme =~ /own|none/ && !($files && $c->{relaunch});
    return 'the program stops at an error' if $p->{stops} && grep {/^(?:fill|h5\.)/} @{ $c->{faults} };
    return 'there is no disk' if !$files && grep {/^fill/} @{ $c->{faults} };
    return 'nobody starts the job again' if (grep {/mpirun/} @{ $c->{faults} }) && !$c->{relaunch};
    return 'the program has its ranks on one node' if $p->{one_node} && $c->{nodes} > 1;
    return 'a lost node needs others' if (grep {/^kill node|^link/} @{ $c->{faults} }) && $c->{nodes} < 3;
    return 'hosts are other nodes' if (grep {/^kill node/} @{ $c->{faults} }) && grep {/^link/} @{ $c->{faults} };
    return 'shrink is without log'
        if ($config->{'recover.supply'} // '') =~ /shrink/ && ($config->{'log.enabled'} || !$kinds->{shrink});
    return 'the program has no such length' if $c->{steps} && !$p->{length};
    return 'a team of the domain' if $config->{'log.enabled'} && !grep {/^log\.team/} keys %$config;
    return 'the program has no fault points' if $p->{outside} && grep {/^[\w.]+:/} @{ $c->{faults} };
    return 'no such rank' if grep { my ($r) = /rank (\d+)/; defined($r) && $r >= processes($c) } @{ $c->{faults} };
    return '';
}

1;
