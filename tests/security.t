#!/usr/bin/perl
# Two users of one machine: what a job of one user makes belongs to this user alone, or has the rights of
# context.access; another user can neither read nor disturb it.  What another user has planted is not used:
# it is avoided, or the job or command ends with a line.  A hostile directory of sets makes no command write
# outside of it, follow a link, hang, or send escape sequences to the terminal.
#
#   tests/security.t [--all]
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Fcntl ':mode';
use File::Path qw(make_path remove_tree);
use File::Temp qw(tempdir);
use FtkitTest;
use JSON::PP 'decode_json';
use POSIX ();
use Socket;
use Test::More;

plan(skip_all => 'needs root, to be two users') if $> != 0;
my $ours = 20_000 + 2 * ($$ % 20_000); # no other test that runs now is this user
my $others = $ours + 1;
my $ftkit = build() . '/ftkit';
plan(skip_all => 'other users cannot read the directory of the build')
    if system("setpriv --reuid=$others --regid=$others --clear-groups -- ls '$ftkit' >/dev/null 2>&1") != 0;
umask 0; # ftkit itself withholds the rights
my $all = tempdir('ftkit-test-XXXXXXXX', DIR => '/dev/shm', CLEANUP => 1);
make_path(map {"$all/$_"} qw(tmp sets slots files));
chmod(01777, $all, map {"$all/$_"} qw(tmp sets slots files)) == 5 or die "chmod: $!\n";

# A process of a user, which runs code and ends: what it prints, and its exit code.  After 20 s it has hung.
sub as_user
{
    my ($uid, $code) = @_;
    my $pid = open(my $from, '-|') // die "fork: $!\n";
    if (!$pid) {
        open(STDERR, '>&', \*STDOUT);
        open(STDIN, '<', '/dev/null');
        POSIX::setgid($uid);
        $) = "$uid $uid";
        POSIX::setuid($uid);
        POSIX::_exit(3) if $> != $uid || $< != $uid;
        $ENV{HOME} = $ENV{TMPDIR} = "$all/tmp";
        alarm(20);
        my $rc = eval { $code->() } // 2;
        print $@ if $@;
        STDOUT->flush;
        POSIX::_exit($rc);
    }
    my $text = do { local $/; <$from> } // '';
    close($from);
    return ($text, $? & 127 ? 128 + ($? & 127) : $? >> 8);
}
sub tool { my ($uid, @args) = @_; return as_user($uid, sub { exec($ftkit, @args) or die("exec: $!\n") }) }

# Everything below a directory: path, its rights, owner and kind, links not followed.
sub tree
{
    my ($dir, $only) = @_;
    my @found;
    for my $path (split /\0/, `find '$dir' -mindepth 1 ${\($only // '')} -print0 2>/dev/null`) {
        my @st = lstat($path) or next;
        push(@found, { path => $path, mode => $st[2] & 07777, uid => $st[4], dir => S_ISDIR($st[2]),
            link => S_ISLNK($st[2]), file => S_ISREG($st[2]), bytes => $st[7] });
    }
    return @found;
}

# ---- a running job ---------------------------------------------------------------------------------

# Names of a user that others could use: of ftkit and of the MPI.  The solver itself writes faults*, out and log.
sub open_to_others
{
    my ($mask, @found) = @_;
    return map { sprintf('%s %04o', $_->{path}, $_->{mode}) }
        grep { $_->{uid} == $ours && !$_->{link} && ($_->{mode} & $mask)
            && $_->{path} !~ m{/(?:faults(?:\.held|\.go)?|out|log|files/restart/rank-\d+/.+|prterun\.[^/]*(?:/pmix[^/]*)?)$|^\Q$all\E/job$} } @found;
}

sub ranks_of { my ($work) = @_; return grep { m/^\d+$/ && (stat("/proc/$_"))[4] == $ours } map { m{/(\d+)$} } glob('/proc/[0-9]*') }

# What another user tries with a job: a list of what went well.
sub attack
{
    my ($found, @pids) = @_;
    my @went_well;
    for my $f (grep { $_->{uid} == $ours && !$_->{link} && $_->{path} !~ m{/(?:faults.*|out|log)$|^\Q$all\E/job$} } @$found) {
        for my $how ('<', '>>') {
            push(@went_well, "open $how $f->{path}") if !$f->{dir} && open(my $in, $how, $f->{path});
        }
        push(@went_well, "unlink $f->{path}") if !$f->{dir} && unlink($f->{path});
        push(@went_well, "rename $f->{path}") if rename($f->{path}, "$all/tmp/stolen");
        push(@went_well, "a file in $f->{path}") if $f->{dir} && open(my $out, '>', "$f->{path}/planted");
        next if $f->{path} =~ m{/prterun\.[^/]*$}; # others may list the names of mpirun's sockets, and no more
        push(@went_well, "list $f->{path}") if $f->{dir} && opendir(my $names, $f->{path});
    }
    for my $pid (@pids) {
        push(@went_well, "signal $pid") if kill(0, $pid);
        for my $of (qw(fd mem environ maps)) {
            my ($in, $byte);
            my $got = $of eq 'fd' ? opendir($in, "/proc/$pid/fd") : open($in, '<', "/proc/$pid/$of") && sysread($in, $byte, 1);
            push(@went_well, "/proc/$pid/$of") if $got;
        }
    }
    print map {"$_\n"} @went_well;
    return 0;
}

# Ports on which processes of the user listen, and names of sockets in the file system.
sub listens
{
    my ($uid) = @_;
    my @ports;
    for my $proc ('/proc/net/tcp', '/proc/net/tcp6') {
        for (split /\n/, slurp($proc)) {
            my (undef, $local, undef, $state, undef, undef, undef, $of) = split ' ';
            push(@ports, hex($1)) if ($state // '') eq '0A' && ($of // '') eq "$uid" && $local =~ /:([0-9A-F]+)$/;
        }
    }
    return @ports;
}

# Connect to each, and send what no peer sends.
sub disturb
{
    my (@ports) = @_;
    my $n = 0;
    for my $port (@ports) {
        socket(my $to, PF_INET, SOCK_STREAM, 0) or die("socket: $!\n");
        next if !connect($to, pack_sockaddr_in($port, INADDR_LOOPBACK));
        $n++;
        local $SIG{PIPE} = 'IGNORE';
        syswrite($to, ("\xff" x 64) . ("ftkit\n" x 100));
    }
    print "$n connections\n";
    return 0;
}

my %of_job = (TMPDIR => "$all/tmp", HOME => "$all/tmp", FTKIT_LEVEL_HDF5_DIRECTORY => "$all/sets",
    FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_FILES_DIRECTORY => "$all/files");
SKIP: {
    skip('the layer of the message log needs ULFM', 1) if ($ENV{MPI_KIND} // 'ulfm') ne 'ulfm';
    my $want = job(program => build() . '/mpi/files', n => 2, spares => 0, env => { FTKIT_LEVEL_HDF5_ENABLED => 'false' })->{result};
    my (@found, @pids, @bad);
    my $j = job(as => $ours, keep => "$all/job", n => 2, spares => 1, program => build() . '/mpi/files',
        fault => 'app.step:0:14:hold,app.mid:1:17:kill',
        env => { %of_job, FTKIT_LEVEL_MEMORY_PLACE => 'shared', FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 1,
            FTKIT_LOG_MEMORY => 0, FTKIT_REPORT_EVENTS => "$all/job/events", FTKIT_LEVEL_LOCAL_SCHEME => 'buddy',
            FTKIT_LEVEL_LOCAL_PLACE => 'file', FTKIT_LEVEL_LOCAL_DIRECTORY => "$all/slots", FTKIT_LEVEL_LOCAL_EVERY => '1 sets' },
        while => sub {
            my ($work) = @_;
            ok(await_held($work) && -e "$all/sets/default.ftkit/status", 'a user has a job');
            @found = (tree('/dev/shm', "-user $ours"), tree('/tmp', "-maxdepth 3 -user $ours"));
            @pids = ranks_of($work);
            my ($text) = as_user($others, sub { attack(\@found, @pids) });
            is($text, '', '... of which another user opens, lists, changes and signals nothing');
            my @ports = listens($ours);
            ($text) = as_user($others, sub { disturb(@ports) });
            diag("the job listens on @ports: $text") if $ENV{FTKIT_TEST_VERBOSE};
            let_go($work);
        });
    my @of = grep { $_->{uid} == $ours } @found;
    my %kinds = map { $_->{path} =~ m{/(ftkit-(?:dog|det|slot|files|run)|default\.ftkit|events)} ? ($1 => 1) : () } @of;
    is(join(' ', sort keys %kinds), 'default.ftkit events ftkit-det ftkit-dog ftkit-files ftkit-run ftkit-slot',
        '... all kinds of files were there');
    cmp_ok(scalar(@pids), '>=', 4, '... and all processes');
    is(join("\n", open_to_others(0077, @of)), '', '... and nobody else has rights there');
    ok($j->{rc} == 0 && $j->{result} =~ s/\n.*//sr eq $want =~ s/\n.*//sr, '... and the job ends well, also after a loss')
        or diag("$j->{rc} $j->{result} $want\n", substr($j->{log}, 0, 6000));
    is(join("\n", open_to_others(0077, tree("$all/sets"), tree("$all/job"))), '', '... nor later');
}

# ---- a site that lets others read --------------------------------------------------------------------

sub small
{
    my ($dir, %o) = @_;
    return job(as => $ours, keep => $dir, n => 2, spares => 0, args => ['-s', 12, '-o', "$dir/out"], %o,
        env => { TMPDIR => "$all/tmp", HOME => "$all/tmp", FTKIT_LEVEL_HDF5_EVERY => '1 sets',
            FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false', %{ $o{env} // {} } });
}
my $shared = "$all/shared";
umask 077; # of the user: it does not matter for what ftkit makes
my $j = small($shared, env => { FTKIT_CONTEXT_ACCESS => 'group', FTKIT_REPORT_EVENTS => "$shared/events" });
umask 0;
is($j->{rc}, 0, 'context.access = group') or diag(substr($j->{log}, 0, 4000));
my @sets = (tree("$shared/default.ftkit"), tree("$shared/events"), grep { $_->{path} =~ m{/(?:default\.ftkit|events)$} } tree($shared));
my %modes;
push(@{ $modes{ sprintf('%s %04o', $_->{dir} ? 'directories' : 'files', $_->{mode}) } }, $_->{path}) for @sets;
is(join(', ', sort keys %modes), 'directories 0750, files 0640', '... the group reads all, and nobody else') or diag(explain(\%modes));
my ($newest) = reverse sort glob("$shared/default.ftkit/set-*");
my ($text, $code) = as_user($ours, sub { truncate("$newest/master.h5", 100) or die("$!\n"); exec($ftkit, 'repair', $shared, 'newest') });
is($code, 0, '... and ftkit repair') or diag($text);
is(sprintf('%04o', (stat("$newest/master.h5"))[2] & 07777), '0640', '... makes files with the rights of their directory');

# ---- planted before a job -----------------------------------------------------------------------------

my $not_used = qr/ftkit does not use it, because another user may have planted it/;
as_user($others, sub { mkdir("$all/sets/planted.ftkit", 0777); mkdir("$all/sets/bait.ftkit", 0777);
    symlink("$all/sets/bait.ftkit", "$all/sets/link.ftkit"); symlink("$all/sets", "$all/elsewhere"); 0 });
for my $case ([ 'the directory of the sets', 'planted', "$all/sets", qr/the directory belongs to user $others.*$not_used/ ],
    [ 'a link in place of it', 'link', "$all/sets", qr/the link belongs to user $others.*$not_used/ ],
    [ 'a link in place of level.hdf5.directory', 'any', "$all/elsewhere", qr/the link belongs to user $others.*$not_used/ ])
{
    my ($name, $context, $dir, $line) = @$case;
    $j = small("$all/planted-$context", env => { FTKIT_CONTEXT_NAME => $context, FTKIT_LEVEL_HDF5_DIRECTORY => $dir });
    ok($j->{rc} != 0 && $j->{log} =~ $line, "planted: $name: the job ends with a line") or diag("$j->{rc}\n", substr($j->{log}, 0, 3000));
}
is(join(' ', map { $_->{path} } tree("$all/sets/planted.ftkit"), tree("$all/sets/bait.ftkit"), grep { m{any} } tree("$all/sets")), '',
    '... and nothing was written there');

# ---- hostile sets -------------------------------------------------------------------------------------

# A directory of sets that another user has written; canary: what a user has beside it.
# Its names are those of things that a command removes.
my ($canary, $joint) = ("$all/canary", '0123456789abcdef.state');
as_user($ours, sub { mkdir($canary, 0700); mkdir("$canary/$_", 0700) for 'sub', $joint, 'restart', 'restart/rank-00000';
    for my $f ('file', 'sub/manifest', 'sub/part-00000.h5', 'status', "$joint/file", 'restart/rank-00000/file') { open(my $out, '>', "$canary/$f"); print $out "mine $f\n" } 0 });
sub fingerprint { return join("\n", map { "$_->{path} $_->{mode} $_->{bytes} " . ($_->{file} ? slurp($_->{path}) : '') } sort { $a->{path} cmp $b->{path} } tree($canary)) }
my $before = fingerprint();
my $made = "$all/made";
make_path($made);
system('tar', 'xzf', top() . '/tests/data/set-files-v1.tar.gz', '-C', $made) == 0 or die("tar\n");
my ($kept) = glob("'$made/*.ftkit/set-*'");
ok($kept && -e "$kept/manifest", 'a set') or BAIL_OUT('no set');
my $esc = "\e[31mred\e]0;title\a";
my @hostile = (
    [ 'a link in place of the manifest', sub { my ($s) = @_; unlink("$s/manifest"); symlink("$canary/sub/manifest", "$s/manifest") } ],
    [ 'a link in place of a part', sub { my ($s) = @_; unlink("$s/part-00000.h5"); symlink("$canary/sub/part-00000.h5", "$s/part-00000.h5") } ],
    [ 'dangling links with temporary names', sub { my ($s) = @_; symlink("$canary/new", "$s/$_.tmp") for qw(manifest master.h5 part-00000.h5); unlink("$s/master.h5") } ],
    [ 'a pipe in place of the manifest', sub { my ($s) = @_; unlink("$s/manifest"); POSIX::mkfifo("$s/manifest", 0666) } ],
    [ 'pipes in place of parts', sub { my ($s) = @_; for (qw(part-00000.h5 master.h5)) { unlink("$s/$_"); POSIX::mkfifo("$s/$_", 0666) } } ],
    [ 'a link to a directory in place of the set', sub { my ($s) = @_; remove_tree($s); symlink("$canary/sub", $s) } ],
    [ 'a link in place of the directory of the context', sub { my ($s) = @_; my $c = $s =~ s{/[^/]*$}{}r; remove_tree($c); symlink($canary, $c) } ],
    [ 'an incomplete set with a link in place of files/', sub { my ($s) = @_; unlink("$s/manifest"); remove_tree("$s/files"); symlink($canary, "$s/files") } ],
    [ 'an incomplete set with links below files/', sub { my ($s) = @_; unlink("$s/manifest"); remove_tree("$s/files/restart"); mkdir("$s/files"); symlink("$canary/restart", "$s/files/restart") } ],
    [ 'links below joint/', sub { my ($s) = @_; my $c = $s =~ s{/[^/]*$}{}r; mkdir("$c/joint"); symlink("$canary/sub", "$c/joint/$joint") } ],
    [ 'links in place of files/', sub { my ($s) = @_; remove_tree("$s/files"); symlink($canary, "$s/files") } ],
    [ 'pipes and links beside the sets', sub { my ($s) = @_; my $c = $s =~ s{/[^/]*$}{}r;
        for (qw(status), all_cases() ? 'owner' : ()) { unlink("$c/$_"); POSIX::mkfifo("$c/$_", 0666) } symlink("$canary/status", "$c/finished"); symlink("$canary/new", "$c/halt"); symlink($canary, "$c/joint") } ],
    [ 'names with escape sequences', sub { my ($s) = @_; my $c = $s =~ s{/[^/]*$}{}r;
        for my $in ($s, $c, "$s/files") { mkdir($in); open(my $out, '>', "$in/$_") for $esc, "part-0\n\e[1m.h5", '..\\..' } mkdir("$c/../$esc.ftkit") } ],
    [ 'huge counts', sub { my ($s) = @_; open(my $out, '>', "$s/manifest");
        print $out "ftkit.manifest = 2\ncontext = heat 2d\nprogram = x\nset = 9\nrun = 1\nnranks = 4294967295\nnparts = 4294967295\n" . ("part = 4294967294 1 18446744073709551615 ffffffffffffffff\n" x 1000) } ],
    [ 'texts with escape sequences', sub { my ($s) = @_; my $c = $s =~ s{/[^/]*$}{}r;
        open(my $out, '>', "$s/manifest"); print $out "ftkit.manifest = 2\ncontext = $esc\nprogram = $esc\n";
        open($out, '>', "$c/status"); print $out "ftkit.status = 1\nstate = $esc\nmode = $esc\nend = 1\n";
        if (all_cases()) { open($out, '>', "$c/owner"); print $out "ftkit.owner = 3\njob = 1\nname = $esc\nhost = $esc\n" } } ], # a command waits 10 s for its owner
);
my @commands = (['ls'], [ 'ls', '--json' ], ['verify'], ['repair'], [ 'repair', '--dry-run' ], [ 'show', 9 ], ['status'],
    ['halt'], [ 'export', 9, 'files', '--format', 'files', '--rank', 0, '-o', "$all/tmp/exported" ], [ 'prune', '--keep', 1, '--incomplete' ]);
my $nth = 0;
for my $case (@hostile) {
    my ($name, $change) = @$case;
    my $dir = "$all/hostile" . ++$nth;
    system("cp -a '$made' '$dir' && chown -R $others:$others '$dir' && chmod -R a+rwX '$dir'") == 0 or die("cp\n");
    my $set = $kept =~ s{^\Q$made\E}{$dir}r;
    as_user($others, sub { $change->($set); 0 });
    system("chmod -R a+rwX '$dir'"); # the worst: the user who looks may change everything there
    my @bad;
    for my $c (@commands) {
        my ($word, @more) = @$c;
        my @args = $word eq 'export' ? ($word, @more[2 .. $#more], $dir, @more[0, 1]) : $word eq 'show' ? ($word, $dir, @more) : ($word, @more, $dir);
        my ($out, $rc) = tool($ours, @args);
        push(@bad, "$word: exit code $rc: $out") if $rc > 2;
        push(@bad, "$word: an escape sequence: $out") if $out =~ /[\e\a]/;
        remove_tree("$all/tmp/exported");
    }
    push(@bad, 'a file outside has changed') if fingerprint() ne $before;
    is(join("\n", @bad), '', "hostile sets: $name");
}

# ---- files that commands write -------------------------------------------------------------------------

# In a directory in which all users write, another user has planted the name, or the temporary name of old.
my $events = "$all/events.jsonl";
as_user($ours, sub { open(my $out, '>', $events); print $out slurp(top() . '/tests/data/events/' . (sort map { s{.*/}{}r } glob(top() . '/tests/data/events/*.jsonl'))[0]); 0 });
my @planted = ([ 'a link', sub { symlink("$canary/file", $_[0]) } ], [ 'a dangling link', sub { symlink("$canary/new", $_[0]) } ],
    [ 'a pipe', sub { POSIX::mkfifo($_[0], 0666) } ], [ 'a file', sub { open(my $out, '>', $_[0]); print $out "theirs\n" } ]);
my @writes = ([ 'report', sub { ('report', '-o', $_[0], $events) } ],
    [ 'status', sub { ('status', '--prometheus', '-o', $_[0], $made) } ],
    [ 'plan', sub { ('plan', '--nodes', 4, '--node-mtbf', '30d', '--files', '1s', '--svg', $_[0]) } ]);
chown($ours, $ours, $made, map { $_->{path} } tree($made));
for my $what (@writes) {
    my @bad;
    for my $case (@planted) {
        for my $end ('', '.tmp') {
            my $target = "$all/tmp/" . $what->[0] . ++$nth;
            as_user($others, sub { $case->[1]->("$target$end"); 0 });
            my ($out, $rc) = tool($ours, $what->[1]->($target));
            push(@bad, "$case->[0]$end: exit code $rc: $out") if $rc > 2;
            my ($theirs) = grep { $_->{path} eq "$target$end" } tree("$all/tmp");
            push(@bad, "$case->[0]$end: another user's file is written") if $theirs && $theirs->{uid} == $others && $theirs->{file} && slurp("$target$end") ne "theirs\n";
            push(@bad, "$case->[0]$end: no page: $out") if $end && (!-s $target || (stat($target))[4] != $ours);
        }
    }
    push(@bad, 'a file elsewhere has changed') if fingerprint() ne $before;
    is(join("\n", @bad), '', "ftkit $what->[0] writes through nothing that is planted");
}

done_testing();
