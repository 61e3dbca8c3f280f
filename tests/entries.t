#!/usr/bin/perl
# A loop with ftkit_step(): survivors, replacements and the ranks of a relaunched job enter its body
# with the same code at the same step, also at the first step, whose set-up communicates; and the
# loop ends well when a rank is lost at its end.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use Test::More;

ulfm_only();
asleep_in_waits();
my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false');
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false');
my %log = (%memory, FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 2);
my $number = 0;
my $lines = join '', map { "$_ " . $_ * ($_ + 1) / 2 . "\n" } 1 .. 30; # of the mode file

# The job ends well and with the right sum.  codes => what each of the ranks has been told, 'step:code'
# in words; ranks => those that the pattern is for, all without it; n => 2 ranks without it.
sub enters
{
    my ($name, %o) = @_;
    my ($codes, $mode) = (delete $o{codes}, delete $o{mode} // '');
    $o{n} //= 2;
    my @ranks = @{ delete $o{ranks} // [ 0 .. $o{n} - 1 ] };
    my $work = sprintf '%s/entries%02d', scratch(), ++$number;
    write_file("$work/out.lines", $lines) if mkdir $work; # of an earlier run
    my $j = job(program => build() . '/mpi/entries', keep => $work,
        args => [ '-o', "$work/out", $mode ], %o, env => { %memory, %{ $o{env} // {} } });
    my $faults = () = ($o{fault} // '') =~ /:/g;
    my @bad;
    push @bad, "exit code $j->{rc}" if $j->{rc} != 0;
    push @bad, "another result: $j->{result}" if $j->{result} ne "30 steps, sum 465\n";
    push @bad, 'no fault came to pass' if $o{fault} && !@{ $j->{faults} };
    for my $r (@ranks) {
        my $told = join ' ', split /\n/, slurp("$work/out.codes.$r");
        push @bad, "rank $r was told: $told" if $told !~ /^$codes$/;
    }
    push @bad, 'other lines' if $mode eq 'file' && slurp("$work/out.lines") ne $lines;
    ok(!@bad, $name) or diag("$name: ", join("\n", @bad), "\n", substr $j->{log}, 0, 5000);
    return;
}

my $news = qr/\d+:1/;    # at any step
enters('undisturbed', codes => '0:2 30:0', mode => 'twice', spares => 0);
# before the first set, and with it
enters("killed at $_", fault => "$_:1:1:kill", codes => '0:2 30:0') for qw(recover.end ckpt.begin);
enters('killed at ckpt.voted', fault => 'ckpt.voted:1:1:kill', codes => '0:2(?: 0:2)? 30:0');
# in the first step: set-up is done again, by all
enters("rank $_->[1] is killed at $_->[0]", fault => "$_->[0]:$_->[1]:1:kill",
    codes => '0:2 0:2 30:0')
    for [qw(app.setup 1)], [qw(app.ready 0)], [qw(app.step 1)];
enters('killed in set-up, and its replacement in its set-up', spares => 2,
    fault => 'app.setup:1:1:kill,app.setup:1:1:kill@1', codes => '0:2(?: 0:2){1,2} 30:0');
# later: the same step on all ranks
enters("rank $_ is killed in the loop", fault => "app.step:$_:18:kill", codes => '0:2 15:1 30:0')
    for 0, 1;
enters('two ranks are killed one after the other', spares => 2,
    fault => 'app.step:0:8:kill,app.step:1:17:kill', codes => '0:2 5:1 10:1 30:0');
enters('a spawned replacement', spares => 0, fault => 'app.step:1:18:kill',
    codes => '0:2 15:1 30:0');
# at the end
enters("killed at $_", fault => "$_:1:1:kill", codes => "0:2 $news 30:0")
    for qw(app.end finish.begin);
# the rollback comes in ftkit_wait()
enters('killed in the loop, others wait in ftkit_wait', mode => 'wait',
    fault => 'app.step:1:18:kill', codes => "0:2 $news 30:0");
enters('killed in the first steps, others wait in ftkit_wait', mode => 'wait',
    fault => 'app.step:1:3:kill', codes => '0:2 0:2 30:0');
# an error waits for the entry after that of the news
enters('the first set is not written', spares => 0, fault => 'ckpt.packed:1:1:EIO',
    codes => '0:2 1:-20 30:0');
# the whole job is lost
my %end = (spares => 0, run => [], env => { %files, FTKIT_RECOVER_SUPPLY => 'end',
    FTKIT_LEVEL_HDF5_ENABLED => 'true' });
enters('relaunched from the first set', %end, fault => 'app.ready:1:1:kill',
    codes => '0:2(?: 1:-60)? 0:2 30:0');
enters('relaunched from a later set', %end, fault => 'app.step:1:18:kill',
    codes => '0:2(?: 1[78]:-60)? 15:1 30:0');
# a file to which rank 0 appends
enters("appending: rank $_ is killed", mode => 'file', fault => "app.step:$_:18:kill",
    codes => '0:2 15:1 30:0') for 0, 1;
enters('appending: relaunched', %end, mode => 'file', fault => 'app.step:0:18:kill',
    codes => '0:2(?: 1[78]:-60)? 15:1 30:0');
# with the log only a team goes back
for my $apart (0, 1) {
    my %e = (mode => 'team', n => 4,
        env => { %log, $apart ? (FTKIT_CHECKPOINT_LINE => 'apart') : () });
    my $what = $apart ? 'lines apart' : 'the log';
    my $back = $apart ? "(?:$news|0:2)" : $news; # a set apart may come too late: then the first line
    enters("$what: killed at $_->[0]", %e, fault => "$_->[0]:1:$_->[1]:kill", ranks => [ 0, 1 ],
        codes => $_->[2])
        for [ 'app.setup', 1, '0:2 0:2 30:0' ], [ 'app.step', 18, "0:2 (?:$news|0:2) 30:0" ],
        [ 'finish.begin', 1, "0:2 $back 30:0" ];
    enters("$what: ... the others do not", %e, fault => 'app.step:1:18:kill', ranks => [ 2, 3 ],
        codes => '0:2 30:0');
}
done_testing();
