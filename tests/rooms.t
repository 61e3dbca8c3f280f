#!/usr/bin/perl
# A scheme, a place, a durable level, a mode of log.determinants, a part of the message log, a kind
# of request, a kind of determinant and a kind of memory are one file and one line each: the library
# is built once more with the scheme triple (two buddies), the place object (no file that can be mapped), the level
# plain (files without HDF5), the mode count (counts sends), the part witness (sees what happens to
# the log), the part courier (sends amounts by control messages), the kind of request countdown
# (complete after some looks), the kind of determinant draw (a rank by chance) and the kind of memory
# walled (the process can neither read nor write it), and jobs lose processes with them.  With --all in
# each combination with other schemes, lines and teams.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitLog;
use FtkitReplicas;
use FtkitTest;
use JSON::PP 'decode_json';
use Test::More;

ulfm_only();
asleep_in_waits();
my $here = scratch() . '/source';
my $top = top();

sub add_line # after the line that begins with $after in a table
{
    my ($file, $after, $line) = @_;
    my $text = slurp("$here/$file");
    $text =~ s/^(    X\($after[,)].*?) *(\\?)\n/"$1 \\\n    $line $2\n"/me or die "$file has no line of $after\n";
    open(my $f, '>', "$here/$file") or die "$file: $!\n";
    print $f $text;
    close($f);
    return;
}

sub flip # a bit of the last byte of a file
{
    my ($path) = @_;
    open(my $f, '+<', $path) or die "$path: $!\n";
    sysseek($f, -1, 2);
    sysread($f, my $byte, 1);
    sysseek($f, -1, 1);
    syswrite($f, chr(ord($byte) ^ 16));
    close($f);
    return;
}

mkdir $here;
mkdir "$here/build";
system("cd '$top' && cp -a --parents Makefile lib include scripts tools tests/lib tests/mpi '$here/'") == 0
    or die "cp\n";
system("cp -a '@{[build()]}/gen' '@{[build()]}/mpi.mk' '$here/build/'") == 0 or die "cp\n";
# make compiles again what includes a table; beside each object are the names of the files it includes
for my $objects (qw(rel flt)) {
    system("cd '@{[build()]}' && cp -a --parents $objects/lib '$here/build/'") == 0 or die "cp\n";
}
my $made = $ENV{BUILD} // 'build';
for my $d ($made eq 'build' ? () : split(/\n/, `find '$here/build' -name '*.d'`)) {
    write_file($d, slurp($d) =~ s{(^|\s)\Q$made\E/}{$1build/}gr);
}
add_line('lib/core/schemes.h', 'BUDDY', q{X(TRIPLE, triple, 2, 0, ", in two buddies'")});
add_line('lib/core/places.h', 'SHARED',
    'X(OBJECT, object, FTK_OUTLIVES_PROCESS | FTK_OUTLIVES_CONTEXT, ", as objects")');
system("cp '$top/tests/rooms/triple.c' '$here/lib/set/scheme_triple.c'") == 0 or die "cp\n";
system("cp '$top/tests/rooms/object.c' '$here/lib/store/place_object.c'") == 0 or die "cp\n";
add_line('lib/core/durable_levels.h', 'HDF5', 'X(PLAIN, plain, "plain files")');
system("cp '$top/tests/rooms/plain.c' '$here/lib/store/durable/level_plain.c'") == 0 or die "cp\n";
add_line('lib/core/det_modes.h', 'NODE', 'X(COUNT, count)');
system("cp '$top/tests/rooms/count.c' '$here/lib/log/mode/mode_count.c'") == 0 or die "cp\n";
add_line('lib/log/base/parts.h', 'coll', 'X(witness)');
system("cp '$top/tests/rooms/witness.c' '$here/lib/log/coll/witness.c'") == 0 or die "cp\n";
add_line('lib/log/base/parts.h', 'coll', 'X(courier)');
add_line('lib/log/base/own_comms.h', 'DET_COMM', 'X(COURIER)');
system("cp '$top/tests/rooms/courier.c' '$here/lib/log/coll/courier.c'") == 0 or die "cp\n";
system("cp '$top/tests/rooms/couriers.c' '$here/tests/mpi/'") == 0 or die "cp\n";
add_line('lib/log/request/req_kinds.h', 'COLL', 'X(COUNTDOWN, countdown)');
system("cp '$top/tests/rooms/countdown.c' '$here/lib/log/request/kind_countdown.c'") == 0 or die "cp\n";
system("cp '$top/tests/rooms/countdowns.c' '$here/tests/mpi/'") == 0 or die "cp\n";
add_line('lib/log/determinant/det_kinds.h', 'VALUE', 'X(DRAW, draw)');
system("cp '$top/tests/rooms/draw.c' '$here/lib/log/mpi/kind_draw.c'") == 0 or die "cp\n";
system("cp '$top/tests/rooms/draws.c' '$here/tests/mpi/'") == 0 or die "cp\n";
# the commands know no scheme, place or level by name: their objects do for this library, too
add_line('lib/core/memory_kinds.h', 'HOST', 'X(WALLED, walled)');
system("cp '$top/tests/rooms/walled.c' '$here/lib/core/memory_walled.c'") == 0 or die "cp\n";
system("cp '$top/tests/rooms/walls.c' '$here/tests/mpi/'") == 0 or die "cp\n";
my $objects = '$(PROGRAM_SRC:%.c=' . build() . '/rel/%.o)';
my $lib = '$(TEST_OBJ)';
# as long as the other files have for a whole library: 300 s were too few on a busy machine
delete $ENV{$_} for qw(MAKEFLAGS MFLAGS MAKELEVEL);
if (!(builds('the library is built with one file and one line more for each', 900,
        qq(cd "$here" && exec make -j2 BUILD=build CC_OPT=-O0 LIB_OBJ="\\$lib" PROGRAM_OBJ="\\$objects" )
            . 'build/mpi/solver build/mpi/farm build/mpi/countdowns build/mpi/draws build/mpi/couriers build/mpi/walls build/ftkit'))[0])
{
    done_testing();
    exit 1;
}
mkdir "$here/objects";
# sources with fault points have their objects in flt, all others in rel
system("cp -a '$here/build/rel' '$here/objects/rel' && cp -a '$here/build/flt/.' '$here/objects/rel/'") == 0
    or die "cp\n";
my $layers = `cd '$here' && scripts/layers objects 2>&1`;
is($?, 0, '... and no file of these refers upward') or diag($layers);
like($layers, qr/^layers: \d\d+ files, /m, '... as a look at them says');
my $solver = "$here/build/mpi/solver";

# ---- the scheme: two of three nodes are lost, with all their processes ---------------------------

# the nodes have the ranks 0 and 1, 2, 3, and the spares 0 and 1, 2 to 4, 5 to 7; a fault names
# spare 0 as rank 4
my $two_nodes = join(',', map({"app.mid:$_:13:kill8"} 0 .. 2), map {"spare.nap:$_:9:kill8"} 4 .. 8);
my %three = (n => 4, spares => 8, program => $solver, fault => $two_nodes);
my %nodes = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_TOPOLOGY_RANKS_PER_NODE => 4);
survives("triple: two of three nodes are lost, incremental = $_", %three, faults => 8,
    env => { %nodes, FTKIT_LEVEL_MEMORY_SCHEME => 'triple', FTKIT_LEVEL_MEMORY_INCREMENTAL => $_ },
    like => qr/memory survives the processes of any 2 nodes; memory per rank: 3 x .*rank 0 from the copy at rank 3/s,
    unlike => qr/from files/) for all_cases() ? qw(off on) : 'on';
{
    my $j = job(%three, env => { %nodes, FTKIT_LEVEL_MEMORY_SCHEME => 'buddy' });
    isnt($j->{rc}, 0, '... which one buddy does not survive');
    like($j->{log}, qr/no copy or parity is left/, '... as its plan says') or diag($j->{log});
}
for (['ckpt.sized', 'ckpt.packed:2:4'], ['ckpt.sealed', 'ckpt.voted:2:4'], ['app.mid', 'transfer.sized:1:1']) {
    my ($first, $second) = @$_;
    survives("triple: killed at $first and " . $second =~ s/:.*//r, spares => 2, program => $solver,
        fault => ($first eq 'app.mid' ? 'app.mid:0:8:kill' : "$first:1:3:kill") . ",$second:kill", faults => 2,
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_TOPOLOGY_RANKS_PER_NODE => 1,
            FTKIT_LEVEL_MEMORY_SCHEME => 'triple' });
}
survives('triple: two ranks, each other\'s only buddy', n => 2, program => $solver,
    fault => 'app.mid:1:13:kill',
    env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_LEVEL_MEMORY_SCHEME => 'triple' });

# ---- the place: the whole job is killed and relaunched -------------------------------------------

my $all = 'app.mid:*:13:kill5,spare.nap:*:9:kill5';
my $found = qr/restored set \d+ from memory that outlived the job/;

sub place # keys for a level with a directory of its own
{
    my ($level) = @_;
    my $dir = scratch() . '/objects' . ++our $directories;
    mkdir $dir;
    return ("FTKIT_LEVEL_${level}_PLACE" => 'object', "FTKIT_LEVEL_${level}_DIRECTORY" => $dir,
        FTKIT_LEVEL_HDF5_ENABLED => 'false');
}

for my $scheme (all_cases() ? qw(own buddy xor triple) : qw(xor triple)) { # own and buddy: below
    my %env = (place('MEMORY'), FTKIT_LEVEL_MEMORY_SCHEME => $scheme);
    survives("object: the whole job is killed, $scheme", run => [], faults => 5, program => $solver,
        env => \%env, fault => $all, like => $found);
    my $dir = $env{FTKIT_LEVEL_MEMORY_DIRECTORY};
    my @slots = glob("$dir/object-*");
    ok(@slots > 0, '... its last set stays') or diag(join(' ', glob("$dir/*")));
    is(scalar(grep {/\.data$/} @slots) * 2, scalar(@slots), '... each slot in two objects');
}
for my $point (qw(written sealed)) {
    survives("object: the whole job is killed at place.$point", run => [], faults => 4, spares => 0,
        program => $solver, env => { place('MEMORY') }, fault => "place.$point:*:5:kill4",
        like => $found);
}
survives('object: a rank is lost, and its slot is read', n => 2, program => $solver,
    env => { place('MEMORY'), FTKIT_LEVEL_MEMORY_SCHEME => 'own',
        FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_EVERY => '3 sets' },
    fault => 'app.mid:1:13:kill', unlike => qr/restored set \d+ from files/,
    like => qr/restored set 3 from memory that outlived its processes/);
survives('object: level.local, the whole job is killed', run => [], faults => 4, spares => 0,
    program => $solver, fault => 'app.mid:*:20:kill4', like => $found,
    env => { place('LOCAL'), FTKIT_LEVEL_LOCAL_SCHEME => 'own', FTKIT_LEVEL_LOCAL_EVERY => '2 sets',
        FTKIT_CHECKPOINT_PERIOD => '3 calls' });

# jobs that go on from the memory of a job that was killed
chain(sub {
    my %env = (place('MEMORY'), FTKIT_LEVEL_MEMORY_SCHEME => 'xor');
    my $dir = $env{FTKIT_LEVEL_MEMORY_DIRECTORY};
    $env{FTKIT_LEVEL_HDF5_DIRECTORY} = $dir; # the identity of the job
    my $j = job(program => $solver, env => \%env, fault => $all);
    isnt($j->{rc}, 0, 'object: a job is killed');
    my @headers = grep { slurp($_) =~ /\AFTKSLOT\n/ } glob("$dir/object-*");
    ok(@headers >= 8, '... segments and parities are there');
    for my $case ([ 'the next job goes on from it', sub { }, like => $found ],
        [ 'a flipped bit counts as lost', sub { flip("$_[0].data") }, like => in_any_order(qr/checksum/, $found) ],
        [ 'without slots the job starts anew', sub { unlink(@_) }, unlike => $found ])
    {
        my ($name, $how, %o) = @$case;
        system("rm -rf '$dir.next' && cp -a '$dir' '$dir.next'") == 0 or die "cp\n";
        $how->(@headers);
        survives("object: $name", program => $solver, env => \%env, faults => 0, %o);
        system("rm -rf '$dir' && mv '$dir.next' '$dir'") == 0 or die "mv\n";
    }
});

# ---- the level: jobs that go on from each other's sets, each in a format of its own ---------------

my %sets = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
    FTKIT_LEVEL_HDF5_WRITERS => 1, FTKIT_TOPOLOGY_RANKS_PER_NODE => 2);
my %plain = (%sets, FTKIT_LEVEL_HDF5_FORMAT => 'plain');
survives('plain: a rank is lost, and read from its file', program => $solver,
    env => { %plain, FTKIT_LEVEL_MEMORY_SCHEME => 'own' }, fault => 'app.mid:1:13:kill',
    like => qr/restored set 3 from files/);

my $dir = scratch() . '/sets';
mkdir $dir;

sub of_here # a command of this library
{
    my (@args) = @_;
    my $text = `'$top/scripts/guard' 100 -- '$here/build/ftkit' @args 2>&1`;
    return ($? >> 8, $text);
}

sub listed # the sets that there are, newest first
{
    my ($code, $text) = of_here('ls', '--json', $dir);
    return join(' ', map {"$_->{set} $_->{state}"} @{ decode_json($text)->{sets} });
}

chain(sub {
    # set 3 is of HDF5, set 4 is plain, and set 5 has all its parts, but no manifest
    my $first = job(program => $solver, spares => 0, fault => 'app.mid:*:13:kill4',
        env => { %sets, FTKIT_LEVEL_HDF5_DIRECTORY => $dir });
    isnt($first->{rc}, 0, 'plain: a job that writes HDF5 is killed');
    my $second = job(program => $solver, spares => 0, fault => 'plain.manifest:0:2:kill',
        env => { %plain, FTKIT_LEVEL_HDF5_DIRECTORY => $dir, FTKIT_RECOVER_SUPPLY => 'end' });
    isnt($second->{rc}, 0, '... a job that writes plain files is killed at the manifest of a set');
    like($second->{log}, qr/restored set 3 from files/, '... after it went on from HDF5')
        or diag($second->{log});
    is(listed(), '5 incomplete 4 complete 3 complete', '... ftkit ls knows the sets of both');
    my ($set) = glob("$dir/*.ftkit/plain-0000000004");
    is(join(' ', map { s{.*/}{}r } glob("$set/*")), 'manifest part-00000 part-00002',
        '... a plain set has a part of each node');
    my ($code, $text) = of_here('verify', $dir);
    is($code, 0, '... ftkit verify') or diag($text);
    ($code, $text) = of_here('repair', $dir);
    is($code, 0, '... ftkit repair') or diag($text);
    like($text, qr/set 5 .*incomplete/, '... names the unfinished set');
    my @steps = map {
        of_here('export', '--format', 'raw', '-o', "$dir/step", $dir, $_, 'step');
        unpack('l<', slurp("$dir/step"));
    } 3, 4;
    is($steps[1] - $steps[0], 5, '... ftkit export reads a region of both') or diag("@steps");

    flip("$set/part-00002");
    ($code, $text) = of_here('verify', $set);
    is($code, 1, '... a flipped byte is found in the directory of a set');
    like($text, qr/set 4 of .*part-00002, rank 3: .*checksum/s, '... by its checksum') or diag($text);
    survives('plain: the unfinished set and the damaged one are not used', run => [], spares => 0,
        program => $solver, env => { %plain, FTKIT_LEVEL_HDF5_DIRECTORY => $dir,
            FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'true', FTKIT_RECOVER_SUPPLY => 'end' },
        fault => 'flush.complete:0:1:kill',
        like => qr/checksum.*restored set 3 from files.*restored set 6 from files/s);
    like(listed(), qr/^\d+ complete \d+ complete$/, '... the job keeps two sets, and both are plain')
        or diag(listed());
    is(scalar(my @plain = glob("$dir/*.ftkit/plain-*")), 2, '... none of HDF5 is left');

    write_file("$plain[1]/manifest", '');
    ($code, $text) = of_here('repair', $dir);
    is($code, 1, '... a manifest is lost, and this level cannot derive one');
    like($text, qr/manifest: cannot be repaired/, '... as ftkit repair says') or diag($text);
    ($code, $text) = of_here('prune', '--incomplete', $dir);
    is($code, 0, '... ftkit prune') or diag($text);
    is(scalar(() = glob("$dir/*.ftkit/plain-*")), 1, '... removes this set');
});

# ---- the mode: determinants of the node, and each rank counts its sends ---------------------------

my ($farm) = grep { $_->{name} eq 'farm' } programs();
for my $turn (all_cases() ? (3, 9) : 9) {
    my $env = { FTKIT_LOG_DETERMINANTS => 'count', FTKIT_LOG_TEAMS => 'rank' };
    my $j = logged($farm, from => "$here/build", env => $env, fault => "app.mid:1:$turn:kill");
    my @sends = event_texts("$j->{dir}/events") =~ / (\d+) sends were counted$/mg;
    my $bad = verdict($farm, $j, env => $env, killed => [1], what => 'count');
    is($bad // '', '', "count: a team rolls back at turn $turn, and the result is right");
    is(scalar(@sends), 4, '... every rank has counted') or diag(join(' ', @sends));
    ok(!(grep { $_ == 0 } @sends), '... its sends');
}

# ---- the part: of every job with the log, here also with lines apart ------------------------------

sub lives # how the log has asked the witness of each rank; a text for each rank
{
    my ($text) = @_;
    my %of;
    while ($text =~ /rank (\d+): the witness (?:has begun|saw \d+ quiesces,) .*/g) {
        my ($rank, $line) = ($1, $&);
        $line =~ s/^rank \d+: the witness //;
        $of{$rank} = join('; ', grep {defined} $of{$rank}, $line);
    }
    return %of;
}

for my $line (qw(together apart)) {
    my $env = { FTKIT_LOG_TEAMS => 'rank', FTKIT_CHECKPOINT_LINE => $line,
        FTKIT_CHECKPOINT_PERIOD => '3 calls' };
    my $j = logged($farm, from => "$here/build", env => $env, fault => 'app.mid:1:9:kill');
    my $text = event_texts("$j->{dir}/events");
    my $bad = verdict($farm, $j, env => $env, killed => [1], what => 'witness');
    is($bad // '', '', "witness: a team rolls back, line = $line, and the result is right");
    next if is_skipped();
    my %at;
    my $n = qr/(\d+)/;
    $at{$1} = [$2, $3, $4, $5, $6]
        while $text =~ /rank $n: the witness of 4 ranks saw $n cuts, $n lines, $n rollbacks, $n forgets, $n waits$/mg;
    is(join(' ', sort keys %at), '0 1 2 3', '... every rank has a witness, and has waited')
        or diag(join("\n", $text =~ /.*witness.*/g));
    is(join(' ', map { $at{$_}[2] } sort keys %at), '0 1 0 0', '... rank 1 alone has rolled back');
    ok(!(grep { $_->[0] < 2 || $_->[1] < 2 } values %at), '... every rank has cut and passed lines')
        or diag(explain(\%at));
    is(scalar(grep { $_->[1] == $at{0}[1] } values %at), 4,
        '... as many as each other rank: rank 1 has its number from its set') or diag(explain(\%at));
    ok(!(grep { $_->[3] == 0 } values %at), '... and has dropped what was under way');
    ok(!(grep { $_->[4] == 0 } values %at), '... and was asked whether it still sends')
        if $line eq 'together'; # a line apart waits for no part
    my %repair;
    $repair{$1} = [$2, $3, $4, $5, $6, $7, $8]
        while $text =~ /rank $n: the witness has prepared $n, drained $n, withdrawn $n, been quiet $n, exchanged $n times; $n numbers, $n wrong$/mg;
    my @stay = map { $repair{$_} // [] } 0, 2, 3;
    is(join(', ', map {"@$_[0 .. 4]"} @stay), '2 1 1 1 2, 2 1 1 1 2, 2 1 1 1 2',
        '... the opening and the repair have asked it, step by step');
    is(join(' ', @{ $repair{1} // [] }[0 .. 4]), '1 0 0 1 1',
        '... a new process has nothing to drain or to withdraw');
    ok(!(grep { !$_->[5] || $_->[6] } @stay), '... each rank that stays has the numbers of others')
        or diag(explain(\%repair));
    my %life = lives($text);
    my $once = 'has begun 1, started 1, entered the loop 1, stopped 1 times; it has served: 1, told figures: 1';
    for my $rank (0 .. 3) {
        my $of = $life{$rank} // '';
        like($of, qr/^\Q$once\E/, "... rank $rank: the log asks it once at each step of its life")
            or diag($of);
        like($of, $rank == 1
                ? qr/saw 1 quiesces, 1 epochs, 1 sets, 1 installs, 0 stays, 1 set-ups, 1 restores/
                : qr/saw 1 quiesces, 2 epochs, 1 sets, 2 installs, 1 stays, 0 set-ups, 0 restores; [1-9]\d* freezes/,
            '... and at each step of the repair') or diag($of);
        like($of, $line eq 'apart' ? qr/[1-9]\d* settled/ : qr/ 0 settled/,
            '... a line apart settles its set') or diag($of);
        like($of, qr/[1-9]\d* over, 0 abandoned$/, '... and sets are over') or diag($of);
    }
}
{ # rank 1 is lost when its set is open, and rank 3 in the repair
    my $env = { FTKIT_LOG_TEAMS => 'rank', FTKIT_CHECKPOINT_LINE => 'apart',
        FTKIT_CHECKPOINT_PERIOD => '3 calls' };
    my $j = logged($farm, from => "$here/build", env => $env, spares => 2,
        fault => 'apart.early:1:1:kill,log.settled:3:1:kill');
    my %life = lives(event_texts("$j->{dir}/events"));
    my $bad = verdict($farm, $j, env => $env, killed => [ 1, 3 ], what => 'witness');
    is($bad // '', '', 'witness: a rank is lost in a set apart, another one in the repair');
    for my $rank (0, 2) {
        like($life{$rank} // '', qr/[1-9]\d* given up, \d+ over, [1-9]\d* abandoned$/,
            "... rank $rank has given up the set, and an attempt of the repair")
            or diag($life{$rank});
    }
}

# ---- control messages that change the state of a set: each one counts once ------------------------

sub couriers # a job whose ranks send amounts to each other; its result
{
    my ($name, %o) = @_;
    my $want = delete $o{kills} // 1;
    my $j = logged({ name => 'couriers', args => $o{args} // [] }, from => "$here/build", %o,
        env => { FTKIT_CHECKPOINT_PERIOD => '3 calls', %{ $o{env} // {} } });
    my ($result) = $j->{result} =~ /^(OK step 240 hash \w+ 0 wrong)/;
    my $kills = grep {/: kill$/} @{ $j->{faults} };
    ok($j->{rc} == 0 && $result && $kills >= ($want > 0) && $kills <= $want
            && $j->{log} !~ /^handles: |is not what it was/m, "courier: $name")
        or diag("rc $j->{rc}, $j->{result}, faults @{$j->{faults}}\n", substr($j->{log}, 0, 3000));
    return ($result // '', "$j->{log}\n" . event_texts("$j->{dir}/events"));
}

my $sums;
for my $line (qw(together apart)) {
    my $run = sub {
        return couriers("no rank is lost, line = $line", kills => 0, env => { FTKIT_CHECKPOINT_LINE => $line });
    };
    my ($result, $said) = defined($sums) ? $run->() : basis($run);
    $sums //= $result;
    is($result, $sums, '... and the result is right');
    my @kept = $said =~ /rank \d+ keeps (\d+) of its \d+ control messages at the end$/mg;
    # each rank sends more than 300; a line apart may have been some steps ago
    is(scalar(grep { $_ < ($line eq 'apart' ? 300 : 30) } @kept), 4, '... a line drops the messages before it')
        or diag("@kept");
}
my @each = ([ FTKIT_LOG_TEAMS => 'rank' ], [ FTKIT_LOG_TEAM_SIZE => 2 ], [ FTKIT_LOG_TEAMS => 'all' ]);
for my $line (qw(together apart)) {
    for my $i (grep { selected(2, $_, $line eq 'apart') } 0 .. 2) {
        my $teams = $each[$i];
        my $name = "@$teams, line = $line";
        my ($result, $said) = couriers($name, fault => 'app.mid:1:121:kill',
            env => { FTKIT_CHECKPOINT_LINE => $line, @$teams });
        is($result, $sums, '... and the result is right');
        like($said, qr/the courier has posted [1-9]\d* amounts in replays$/m, '... a replay posts again')
            if $teams->[1] ne 'all'; # then no rank is ahead
    }
}
# a rank handles nothing until a set waits for it: without that wait no message would be in a set
for my $line (qw(together apart)) {
    is((couriers("rank 2 handles at lines, line = $line", fault => 'control.deaf:2:*:EIO,app.mid:1:151:kill',
            env => { FTKIT_CHECKPOINT_LINE => $line, FTKIT_LOG_TEAMS => 'all' }))[0], $sums,
        '... and the result is right');
}
# seeded: one or two kills at any point; the two ranks are not each other's buddies
srand($ENV{FTKIT_TEST_SEED} // 36);
for my $line (qw(together apart)) {
    my @points = (qw(courier.post courier.take app.mid),
        $line eq 'apart' ? qw(apart.cut apart.counts apart.late apart.tail apart.vote apart.commit)
                         : qw(log.drained ckpt.sealed ckpt.voted));
    my $kill = sub {
        my ($rank, $point) = @_;
        my $most = $point =~ /^courier/ ? 300 : $point eq 'app.mid' ? 220 : $point =~ /^apart/ ? 4
            : $point =~ /^log\.set/ ? 1 : 40;
        return sprintf('%s:%d:%d:kill', $point, $rank, 1 + rand($most));
    };
    for my $kills (all_cases() ? (1, 2, 2) : 2) {
        my $rank = int(rand(4));
        my @faults = $kill->($rank, one_of(@points));
        # a point of a repair is passed when another rank is lost
        @faults = ($kill->(($rank + 2) % 4, 'app.mid'),
            $kill->($rank, one_of(@points, qw(log.settle log.settled)))) if $kills > 1;
        my @teams = @{ one_of([ FTKIT_LOG_TEAMS => 'rank' ], [ FTKIT_LOG_TEAM_SIZE => 2 ], [ FTKIT_LOG_TEAMS => 'all' ]) };
        is((couriers("@faults, @teams, line = $line", fault => join(',', @faults), kills => $kills,
                spares => 4, env => { FTKIT_CHECKPOINT_LINE => $line, @teams }))[0], $sums,
            '... and the result is right');
    }
}

# ---- the kind of request: some are under way at each set, alone and among messages -----------------

sub countdowns # a job with countdowns; its result
{
    my ($name, %o) = @_;
    my $j = logged({ name => 'countdowns', args => $o{args} // [] }, from => "$here/build", %o,
        env => { FTKIT_LOG_TEAMS => 'rank', FTKIT_CHECKPOINT_PERIOD => '3 calls', %{ $o{env} // {} } });
    my ($result) = $j->{result} =~ /^(OK step 60 hash \w+ 0 wrong)/;
    ok($j->{rc} == 0 && $result && @{ $j->{faults} } == ($o{faults} // 1)
            && $j->{log} !~ /^handles: |is not what it was/m, "countdown: $name")
        or diag("rc $j->{rc}, $j->{result}, faults @{$j->{faults}}\n", substr($j->{log}, 0, 3000));
    return ($result // '', "$j->{log}\n" . event_texts("$j->{dir}/events"));
}

my ($right) = basis(sub { return countdowns('no rank is lost', faults => 0) });
# at the second commit of a line apart the first one has countdowns, and every rank has passed it
my %kill = (together => 'app.mid:1:12:kill', apart => 'apart.commit:1:2:kill');
for my $line (sort keys %kill) {
    my ($result, $said) = countdowns("a rank is lost, line = $line", fault => $kill{$line},
        env => { FTKIT_CHECKPOINT_LINE => $line });
    is($result, $right, '... and the result is right');
    is(join(' ', sort $said =~ /(rank \d+: a countdown goes on after \d+ looks)$/mg),
        'rank 1: a countdown goes on after 0 looks rank 1: a countdown goes on after 0 looks '
            . 'rank 1: a countdown goes on after 1 looks',
        '... its replacement has the three countdowns of the set, one of them with its look');
}
is((countdowns('a rank waits for a countdown without an end when all roll back',
        args => [ '-m', 'endless' ], fault => 'app.mid:1:9:kill', env => { FTKIT_LOG_TEAMS => 'all' }))[0],
    $right, '... and the result is right');
{
    my $j = logged({ name => 'countdowns', args => [ '-m', 'loose', '-n', 2 ] }, from => "$here/build",
        env => { FTKIT_CHECKPOINT_PERIOD => '1 calls' });
    isnt($j->{rc}, 0, 'countdown: in no registered variable');
    like($j->{log}, qr/a countdown of 3 looks, under way: it is in no registered variable/,
        '... which ftkit_checkpoint() refuses by its name') or diag($j->{log});
}

# ---- the kind of determinant: by chance, and the same again after a failure --------------------------

my $draws = { name => 'draws' };

sub drawn # a job with draws; what its ranks have said
{
    my ($name, %o) = @_;
    my $job = $o{replicas} ? sub { replicas($o{replicas}, @_) } : \&logged;
    my $j = $job->($draws, from => "$here/build", %o, env => { FTKIT_LOG_TEAMS => 'rank',
            FTKIT_CHECKPOINT_PERIOD => '3 calls', %{ $o{env} // {} } });
    my @results = $j->{planes} ? @{ $j->{planes} } : $j->{result};
    my $right = grep {/^OK step 60 hash \w+ 0 wrong/} @results;
    my @kills = grep { !/log\.blind/ } @{ $j->{faults} };
    my $differs = qr/is not what it was|same course|set-up has to be|replicas of rank/;
    ok($j->{rc} == 0 && $right == @results && @kills == 1 && $j->{log} !~ $differs, "draw: $name")
        or diag("rc $j->{rc}, @results, faults @kills\n", substr($j->{log}, 0, 3000));
    return event_texts("$j->{dir}/events");
}

{
    # each step draws somebody or nobody: 17 steps of which none has drawn are once in 130,000
    my $said = drawn('a rank is lost', fault => 'app.mid:1:38:kill', env => { FTKIT_CHECKPOINT_PERIOD => '20 calls' });
    like($said, qr/rank 1: draws rank \d again$/m, '... and draws the same again');
    like($said, qr/rank 1: draws rank \d again in set-up$/m, '... also in set-up');
    like($said, qr/rank 1: a draw of a set is looked at$/m, '... which the set has');
    drawn('a rank is lost at a line apart', fault => 'apart.commit:1:2:kill',
        env => { FTKIT_CHECKPOINT_LINE => 'apart', FTKIT_CHECKPOINT_PERIOD => '1 calls' });
    drawn('another node tells the draws', fault => 'app.mid:2:14:kill,log.blind:*:*:EIO',
        env => { FTKIT_LOG_DETERMINANTS => 'causal', FTKIT_TOPOLOGY_RANKS_PER_NODE => 1 });
    # rank 1 of the plane that leads is lost, and that of the plane that follows
    for my $lost (all_cases() ? (1, 4) : 1) {
        $said = drawn("replica $lost is lost", replicas => 2, n => 3, fault => "app.mid:$lost:12:kill");
        like($said, qr/rank 5: draws rank [345] again$/m, '... and ranks of its own plane are drawn');
        unlike($said, qr/rank 5: draws rank [012] again/, '... alone');
    }
}

# ---- the kind of memory: all regions are where the process itself can neither read nor write -------

my $walls = "$here/build/mpi/walls";
my %walled = (n => 4, program => $walls);

sub walled # a job that compares each value after each restore
{
    my ($name, %o) = @_;
    my $j = job(%walled, args => [12], %o,
        env => { FTKIT_CHECKPOINT_PERIOD => '2 calls', FTKIT_LEVEL_HDF5_ENABLED => 'false',
            %{ $o{env} // {} } });
    my $want = $o{ranks} // 4;
    ok($j->{rc} == 0 && $j->{log} =~ /^walls: 12 steps are right, $want ranks$/m
            && @{ $j->{faults} } == ($o{faults} // 1), "walled: $name")
        or diag("rc $j->{rc}, faults @{$j->{faults}}\n", substr($j->{log}, 0, 4000));
    like($j->{log}, $o{like}, '... by what it is restored from') if $o{like};
    return;
}

walled("a rank is lost, $_", fault => 'app.mid:1:7:kill', like => qr/rank 1 from the (copy|parity)/,
    env => { FTKIT_LEVEL_MEMORY_SCHEME => $_, FTKIT_LEVEL_MEMORY_INCREMENTAL => 'off' }) for all_cases() ? qw(buddy xor) : 'xor';
walled('a rank is lost, sets are incremental', fault => 'app.mid:2:9:kill', like => qr/rank 2 from the copy/,
    env => { FTKIT_LEVEL_MEMORY_SCHEME => 'buddy', FTKIT_LEVEL_MEMORY_INCREMENTAL => 'on' });
walled('the whole job is relaunched, from files', run => [], spares => 0, faults => 4,
    fault => 'app.mid:*:7:kill', like => qr/restored set \d+ from files/,
    env => { FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false',
        FTKIT_LEVEL_HDF5_EVERY => '1 sets' });
walled('the ranks become fewer', spares => 0, args => [12, 'shrink'], ranks => 3,
    fault => 'app.mid:1:7:kill', env => { FTKIT_RECOVER_SUPPLY => 'shrink' });
{
    my $j = job(%walled, spares => 0, args => [12, 'free'],
        env => { FTKIT_CHECKPOINT_PERIOD => '2 calls', FTKIT_LEVEL_HDF5_ENABLED => 'false' });
    isnt($j->{rc}, 0, 'walled: memory is freed before a set');
    like($j->{log}, qr/region 'grid': its address was walled memory .* is host memory now/,
        '... which is an error, and not a read') or diag($j->{log});
}

is(logged($farm, env => { FTKIT_LOG_DETERMINANTS => 'count' })->{rc} != 0, 1,
    '... a mode that this library does not have');

done_testing();
