#!/usr/bin/perl
# The parts of a campaign without a job: the generator makes the same cases and all values, the judge says
# red for each kind of failure, the shrinker finds a small case, and the state adds up.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/campaign";
use Case;
use FtkitTest;
use Judge;
use Programs;
use Runner;
use Shrinker;
use State;
use Test::More;

# ---- the generator -----------------------------------------------------------------------------------

my $many = 3000;
my @cases = map { Case::make(3, $_) } 1 .. $many;
is(join("\n", map { Case::text($_) } @cases), join("\n", map { Case::text(Case::make(3, $_)) } 1 .. $many),
    'a seed and a number make the same case');
isnt(Case::text(Case::make(4, 1)), Case::text($cases[0]), '... another seed another one');
is_deeply(Case::parse(Case::text($cases[6])), $cases[6], '... and a case is read as it is written');
is(Case::text(Case::make(1, 1)), Case::text(Case::parse(qx('$^X' '$FindBin::Bin/campaign/run' --show 1:1))),
    '... the same in another process');
is_deeply([grep { $_ ne '' } map { Case::supported($_) } @cases], [], "$many cases that the documentation supports");

# every value of every axis, every program and every kind of fault
my %seen;
for my $c (@cases) {
    my %config = %{ $c->{config} };
    $seen{$_}{ $config{$_} }++ for keys %config;
    $seen{$_}{ $c->{$_} }++ for qw(replicas nodes kind relaunch late);
    $seen{program}{ $c->{program} =~ s/^script:\d+:(\w+).*/script $1/r }++;
    $seen{teams}{ $config{'log.teams'} // $config{'log.team_size'} // 'list' }++ if $config{'log.enabled'};
    $seen{faults}{ Case::fault_kind($_) }++ for @{ $c->{faults} };
}
my %axes = Case::axes();
my @missing;
for my $axis (sort keys %axes) {
    next if $axis eq 'mode';
    my ($name, $default) = ($axis eq 'fault' ? 'kind' : $axis, Case::default_of($axis));
    push(@missing, map {"$axis = $_"} grep { !$seen{$name}{$_} && $_ ne $default } @{ $axes{$axis} });
}
push(@missing, grep { !$seen{program}{$_} } Programs::names(), 'script together', 'script apart');
is("@missing", '', "... with each value, program and kind of fault");
cmp_ok(scalar(keys %{ $seen{faults} }), '>=', 12, '... and ' . join(', ', sort keys %{ $seen{faults} }));
my @series = grep { $_->{kind} eq 'series' } @cases;
cmp_ok(scalar(@series), '>=', $many / 10, '... and long jobs with a series of faults: ' . @series);
is_deeply([grep { @{ $_->{faults} } < 8 || $_->{spares} % @{ $_->{faults} } || !$_->{steps} } @series], [],
    '... each of eight and more, with a process for each');
cmp_ok(scalar(grep { "@{ $_->{faults} }" =~ /kill\@[2-9]/ } @series), '>=', 10, '... of replacements of replacements, too');
my @paths = map { Programs::find($_)->{path} } Programs::names(), 'script:1:together';
my @absent = grep { !-x build() . "/$_" && (!/^ftests/ || -d build() . '/ftests') } @paths;
SKIP: {
    skip('programs of the message log need ULFM', 1) if ($ENV{MPI_KIND} // 'ulfm') ne 'ulfm';
    is("@absent", '', '... all programs are there');
}

# ---- the command ---------------------------------------------------------------------------------------

my %plain = (seed => 1, number => 2, program => 'solver', n => 4, spares => 2, replicas => 1, nodes => 1,
    relaunch => 0, late => 0, faults => ['app.mid:1:9:kill'],
    config => { 'checkpoint.period' => '5 calls', 'level.hdf5.enabled' => 'false' });
{
    my ($rules, @command) = Runner::command({ %plain, nodes => 3, faults => [ 'app.mid:1:9:kill', 'kill node 2 at 0.50',
                'flip rank 1 at 0.25', 'drop sets at 0.10', 'fill disk at 0.20 until 0.30' ] }, '/w', 2);
    is($rules, 'app.mid:1:9:kill', 'a command: faults at points are rules');
    my $text = "@command";
    like($text, qr/--emulate-nodes 4 --kill node 2 at 1\.000 s --flip rank 1 at 0\.500 s -- /,
        '... others are options');
    unlike($text, qr/drop|fill/, '... or come from outside');
    like($text, qr{ -o /w/out$}, '... a program gets the name of its result');
    unlike(join(' ', Runner::command({ %plain, program => 'shmem-jacobi' }, '/w', 2)), qr/ -o /, '... if it takes one');
}

{
    my ($rules, @command) = Runner::command({ %plain, program => 'twins', steps => 700 }, '/w', 2);
    like("@command", qr/ -n 60 -n 700$/, '... the program of a long job makes its number of steps');
}

# ---- the judge ------------------------------------------------------------------------------------------

my %good = (rc => 0, log => "ftkit: context default: repaired in 5 ms\n", results => ["OK 1\n"], seconds => 2, left => [],
    faults => ['app.mid rank 1 incarnation 0: kill']);
sub verdict {
    my ($run, %case) = @_;
    return Judge::judge({ %plain, %case }, { %good, %$run }, "OK 1\n");
}
is(verdict({})->{verdict}, 'right', 'the judge: a run with the result');
is(verdict({})->{repairs}, 1, '... and its repairs');
my $lost = "ftkit: error: there are no files, and no copy or parity is left that makes up for the segment\n";
my $spares = "ftkit: 1 of 4 ranks lost, 0 spares left: the job has to be relaunched\n";
my $full = "ftkit: warning: context default: set 4: rank 0 could not write it: make x: No space left on device\n"
    . "solver: close: no space left: make x: No space left on device\n"
    . "ftkit run: rank 3 of the job ended with exit code 1 when all contexts were closed\n";
my $again = "ftkit run: attempt 1 ended by a fatal error: x; relaunching from the newest complete set (1 of 3)\n";
my %fill = (rc => 1, log => $full, outside => ['fill disk at 0.20'], faults => []);
my $killed = "ftkit: context default: repaired in 4 ms (x): 1 rank replaced, 0 given up\n"
    . "ftkit run: killed rank 1 (process 70) at 0.1 s, x\nftkit run: killed rank 1 (process 70) at 0.2 s, x\n"
    . "ftkit run: attempt 1 ended because rank 0 of the job was killed by signal 9 (Killed) with a context still open; x\n";
my %all = (rc => 137, results => [''], log => $killed, faults => [ map {"app.mid rank $_ incarnation 0: kill"} 0, 1, 2, 3 ]);
my @two = (faults => [qw(app.mid:0:5:kill app.mid:1:5:kill)]);
my $fewer = "ftkit: error: context default: rank 0: set 19 in memory is of 3 ranks, not 4, and there are no files: x\n";
my $given_up = "ftkit: context default: repaired in 5.1 ms (x): 0 ranks replaced, 1 given up, 0 spares left\n";
my %shrunk = (relaunch => 1, config => { %{ $plain{config} }, 'recover.supply' => 'spare, shrink, end' });
my $asan = "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x6 at pc 0x5\n    #0 0x55 in ftk_x lib/x.c:1\n";
my $segv = "==7==ERROR: AddressSanitizer: SEGV on unknown address\n    #0 0x7f in era_mark_process_failed (libmpi.so)\n";
my $ubsan = "lib/x.c:7:3: runtime error: signed integer overflow\n";
my $lsan = "==7==ERROR: LeakSanitizer: detected memory leaks\n";
for my $red (
    ['sanitizer', { reports => [$asan] }], ['sanitizer', { reports => [$ubsan] }], ['sanitizer', { reports => [ '', $lsan ] }],
    ['sanitizer', { reports => [ $segv, $asan ] }], ['sanitizer', { log => $ubsan }], ['sanitizer', { log => "$asan$lost" }],
    ['sanitizer', { log => "$ubsan$segv" }], ['sanitizer', { rc => 124, reports => [$asan] }], ['sanitizer', { log => "$segv$asan" }],
    ['needless stop', { rc => 2, results => [''], log => $fewer }, %shrunk],
    ['needless stop', { rc => 2, results => [''], log => "$given_up$fewer" }, %shrunk, config => $plain{config}],
    ['needless stop', { rc => 2, results => [''], log => "$given_up$fewer" }, %shrunk,
        config => { 'recover.supply' => 'spare, shrink, end' }],
    ['lying exit code', { %fill, outside => ['fill disk at 0.20 until 0.30'] }], ['lying exit code', { %fill, outside => [] }],
    ['lying exit code', { %fill, rc => 2 }], ['stop without a reason', { %fill, results => [''] }],
    ['lying exit code', { %fill, log => $full =~ s/^ftkit: warning.*\n//r }],
    ['lying exit code', { %fill, log => "$full$again" }], ['stop without a reason', { rc => 1, results => [''], log => "$lost$again" }],
    ['stop without a reason', { %all, faults => [ @{ $all{faults} }[0 .. 2] ] }, @two],
    ['stop without a reason', { %all, log => $killed =~ s/with a context still open/x/r }, @two],
    ['stop without a reason', { %all, log => "ftkit run: killed node 2 (x)\n$killed" }, @two],
    ['stop without a reason', { %all, faults => [ @{ $all{faults} }[0 .. 2], 'repair.plan rank 3 incarnation 0: kill' ] }, @two],
    ['needless stop', \%all, @two, relaunch => 1],
    ['hang', { rc => 124 }], ['hang', { log => "guard: 60 s are over: x\n" }],
    ['hang', { rc => 1, results => [''], log => "ftkit: error: a repair has not ended for 12.1 s: ending the job\n" }],
    ['crash', { log => "[vm:7] *** Process received signal ***\n" }],
    ['crash', { log => "ftkit run: rank 1 was killed by signal 11\n" }],
    ['wrong result', { results => ["OK 2\n"] }], ['wrong result', { results => [ "OK 1\n", "OK 2\n" ] }],
    ['wrong result', { rc => 1, results => [''], log => "BAD step 3\n$lost" }],
    ['lying exit code', { rc => 1, log => "ftkit run: rank 4 was killed by signal 9 when all contexts were closed\n" }],
    ['lying exit code', { results => [''] }], ['lying exit code', { rc => 1 }],
    ['stop without a reason', { rc => 137, results => [''] }], ['stop without a reason', { rc => 139, results => [''] }],
    ['needless stop', { rc => 1, results => [''], log => $lost }],
    ['needless stop', { rc => 1, results => [''], log => $lost }, relaunch => 1,
        faults => [qw(ckpt.voted:0:1:kill app.mid:1:2:kill)]],
    ['needless stop', { rc => 1, results => [''], log => $lost }, faults => ['kill node 2 at 0.50']],
    ['needless stop', { rc => 1, results => [''], log => $spares }, faults => ['log.send:0:1:kill']],
    ['leftover', { left => ['/dev/shm/ftkit-slot-1'] }], ['leftover', { left => ['TMPDIR/ftkit-run.x'] }],
    ['leftover', { log => "handles: 2 communicators\n" }], ['leftover', { log => "guard: left behind: solver (7)\n" }],
    ['difference', { log => "ftkit: a message is not what it was\n" }, config => { 'log.enabled' => 'true' }],
) {
    my ($want, $run, %case) = @$red;
    my $got = verdict($run, %case)->{verdict};
    is($got, $want, "the judge: $want: " . join(', ', sort keys %$run));
    ok(Judge::is_red($got), '... is red');
}
for my $allowed (
    ['stop: no copy is left', { rc => 1, results => [''], log => $lost },
        faults => [qw(app.mid:0:5:kill app.mid:1:5:kill)]],
    ['stop: no copy is left', { rc => 1, results => [''],
        log => "ftkit: error: set 1: a rank's segment is lost to memory, and there is no complete set anywhere else\n" },
        faults => [qw(app.mid:0:5:kill app.mid:1:5:kill)]],
    ['stop: no record of set-up is left', { rc => 137, results => [''], log =>
            "ftkit: error: in the replay of set-up x (the record of its set-up could not be read): start the job again\n" },
        faults => [qw(app.mid:0:5:kill app.mid:1:5:kill)]],
    ['stop: the disk is full', \%fill], ['stop: the disk is full', { %fill, log => "$lost$again$full" }, relaunch => 1],
    ['stop: all ranks lost', \%all, @two],
    ['stop: all ranks lost', { %all, faults => [ @{ $all{faults} }[0 .. 2], 'repair.plan rank 4 incarnation 0: kill' ] },
        @two, spares => 1],
    ['stop: a set of another number of ranks', { rc => 2, results => [''], log => "$given_up$fewer" }, %shrunk],
    ['right', { left => ['/dev/shm/sm_segment.h.0.1'] }],
    ['right', { rc => 1, log => "ftkit run: rank 4 was killed by a signal on another node when all contexts were closed\n" },
        faults => ['kill node 3 at 0.62']],
    ['right', { log => "ftkit: in the replay of set-up x (the record of its set-up could not be read): start again\n" },
        relaunch => 1],
    ['refused', { rc => 1, results => [''], faults => [], log => "ftkit: error: configuration: x needs y\n" }],
) {
    my ($want, $run, %case) = @$allowed;
    my $got = verdict($run, %case)->{verdict};
    is($got, $want, "the judge: $want");
    ok(!Judge::is_red($got), '... is allowed');
}
is(verdict({ reports => [$asan] })->{detail}, (split(/\n/, $asan))[0] . ', ftk_x', '... with the function of a report');
{
    my $known = verdict({ reports => [$segv] });
    is($known->{verdict}, 'right', 'the judge: a report of a known crash of Open MPI is this crash');
    is(scalar(@{ $known->{crashes} }), 1, '... and is counted');
}
is_deeply([Judge::crashes("[h:1] [ 3] libmpi.so(era_mark_process_failed+0x1)\n")],
    ['agreement with a dead member (era_mark_process_failed)'], 'the judge: a crash of Open MPI is known by its stack');

# ---- the shrinker ----------------------------------------------------------------------------------------

my $big = { %plain, nodes => 3, n => 6, late => 1, relaunch => 1, spares => 3,
    config => { 'checkpoint.period' => '5 calls',
        'log.enabled' => 'true', 'log.teams' => 'rank', 'log.determinants' => 'causal', 'level.memory.scheme' => 'xor',
        'level.memory.place' => 'file', 'level.hdf5.every' => '1 sets', 'level.hdf5.compress' => 'deflate' },
    faults => [ 'app.mid:1:9:kill', 'kill rank 2 at 0.50', 'repair.plan:0:1:kill' ] };
my $planted = sub {
    my ($c) = @_;
    return ($c->{config}{'level.memory.scheme'} // '') eq 'xor'
        && grep { $_ eq 'repair.plan:0:1:kill' } @{ $c->{faults} };
};
my ($small, $tries) = Shrinker::shrink($big, $planted, 100);
is(Case::text($small), Case::text({ %plain, n => 6, spares => 1, config => { 'checkpoint.period' => '5 calls',
        'level.hdf5.enabled' => 'false', 'level.memory.scheme' => 'xor' }, faults => ['repair.plan:0:1:kill'] }),
    "the shrinker finds the fault and the key of a planted failure ($tries tries)");
is_deeply((Shrinker::shrink($big, $planted, 3))[1], 3, '... and ends after as many tries as it may make');
is(scalar(@{ $big->{faults} }), 3, '... and the case itself is as before');

my $long = { %plain, faults => [ map {"app.mid:1:$_:kill"} 1 .. 16 ] };
my ($last, $few) = Shrinker::shrink($long, sub { grep {/:13:/} @{ $_[0]{faults} } }, 100);
is("@{ $last->{faults} }", 'app.mid:1:13:kill', '... and one fault of 16');
cmp_ok($few, '<', 12, '... by halves');

my ($least) = Shrinker::shrink({ %$big, program => 'wavefront' }, sub { return 1 }, 100);
is(Case::supported($least), '', '... which is one that the documentation supports');
is(join(' ', sort keys %{ $least->{config} }), 'checkpoint.period level.hdf5.enabled log.enabled log.teams',
    '... with the log that its program needs');

# ---- the state --------------------------------------------------------------------------------------------

my $file = scratch() . '/state';
is_deeply([map { State::number($file, 5) } 1 .. 3], [1, 2, 3], 'the state: numbers go on');
is(State::number($file, 6), 1, '... of each seed');
State::change($file, sub { State::count($_[0], \%plain, \%good, verdict({})) }) for 1, 2;
my $s = State::load($file);
is_deeply([@$s{qw(runs repairs seconds)}, $s->{verdicts}{right}, $s->{passed}{'process, at a point'}], [2, 2, 4, 2, 2],
    '... and runs, repairs, seconds, verdicts and faults are counted');
is(State::sum($s, $s)->{runs}, 4, '... states of several machines are added up');
like(qx('$^X' '$FindBin::Bin/campaign/report' '$file'), qr/^\| runs \| 2 \|\n.*^\| process, at a point \| 2 \| 2 \|\n/ms,
    '... and the report has the numbers');
done_testing();
