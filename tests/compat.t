#!/usr/bin/perl
# The drop-in headers (bindings/compat): each call with good and bad arguments; and programs that know
# nothing of ftkit, whose ranks are killed, one after the other and all at once.  Their results are
# those of the undisturbed run, bit by bit.  With --all there are more kills.
#
#   FTKIT_TEST_SEED=...  another series
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
srand($ENV{FTKIT_TEST_SEED} // 7);

my $programs = build() . '/compat-tests';
my %config = (
    veloc => "scratch = /tmp\npersistent = %s\nmode = async\nmax_versions = 2\naxl_type = x\n",
    scr => "SCR_CHECKPOINT_INTERVAL = 5\nSCR_FLUSH=1 # as without\nSCR_USER_NAME = %s\nSTORE=x\n",
    fti => "[Basic]\nHead = 0\nGlbl_dir = %s  # a comment\nCkpt_L3 = 7\nCkpt_L4 = 11\nKeep_l4_ckpt = 1\n",
);
my %needless = (veloc => 'axl_type', fti => 'Keep_l4_ckpt', scr => 'STORE'); # named as without effect
my @modes = (['veloc', 'parts'], ['fti', 'snapshot'], ['veloc', 'top'], ['fti', 'bottom'], ['veloc'], ['fti', 'top'],
    ['fti', 'sizes'], ['scr', 'output'], ['scr', 'top'], ['veloc', 'file'], ['veloc', 'both']);
my $n = 3;
my $number = 0;

# The settings of a peer, in a directory of their own.
sub settings
{
    my ($peer) = @_;
    my $dir = scratch() . '/config' . $number++;
    mkdir $dir;
    write_file("$dir/config", sprintf($config{$peer}, "$dir/sets"));
    return $dir;
}

# A job with no key of ftkit in the environment of its ranks, other than those of the test.
sub peer_job
{
    my ($peer, $name, %o) = @_;
    my $dir = delete $o{dir} // settings($peer);
    my %env = (%{ delete $o{env} // {} }, $peer eq 'scr' ? (SCR_CONF_FILE => "$dir/config", SCR_PREFIX => "$dir/sets") : ());
    $env{FTKIT_LOG_ENABLED} = 'true' if $peer eq 'scr' && !delete $o{plain};
    my @unset = map { ('-u', $_) } grep { !defined $env{$_} }
        qw(FTKIT_LEVEL_HDF5_DIRECTORY FTKIT_CHECKPOINT_PERIOD FTKIT_LEVEL_HDF5_EVERY);
    return job(spares => 0, n => $n, %o, env => \%env, program => 'env',
        args => [@unset, "$programs/${peer}_$name", "$dir/config", @{ $o{args} // [] }]);
}

sub heat
{
    my ($mode, %o) = @_;
    my ($peer, @args) = @$mode;
    my $kills = grep { $_ eq '--kill' } @{ $o{run} // [] };
    return peer_job($peer, 'heat', args => \@args, %o,
        env => { %{ $o{env} // {} }, PLATE_KILLS => $kills, $peer eq 'fti' ? (FTKIT_CHECKPOINT_PERIOD => '5 calls') : () });
}

# ---- calls

for my $peer (sort keys %config) {
    my $dir = settings($peer);
    write_file("$dir/config", slurp("$dir/config") . "Keep_last_ckpt = 1\n") if $peer eq 'fti';
    chain(sub {
        for my $run (qw(fresh again)) {
            my $j = peer_job($peer, 'calls', n => 2, dir => $dir);
            ok($j->{rc} == 0 && $j->{log} =~ /^\0?OK $run \d+$/m, "$peer: each call, $run")
                or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 6000));
            my @named = $j->{log} =~ /\b(?:config|rank 0): without effect: (.*)$/mg;
            is("@named", $needless{$peer}, '... a key without effect is named once');
        }
    });
}
{
    my $other = settings('veloc');
    my $j = peer_job('veloc', 'heat', n => 1, env => { FTKIT_VELOC_CONFIG => "$other/config" });
    ok($j->{rc} != 0 && $j->{log} =~ /VELOC_Init: MPI_Init did not know the settings of \S+config: name the file/,
        'VeloC: settings that come too late are named') or diag(substr($j->{log}, 0, 3000));
}

{
    my $j = peer_job('scr', 'init', n => 2, plain => 1, spares => 1);
    ok($j->{log} =~ /spares need the message log here: start with --spares 0, or with FTKIT_LOG_ENABLED=true/
            && $j->{log} =~ /Init has failed/, 'SCR: spares without the message log are refused')
        or diag(substr($j->{log}, 0, 3000));
}

# Values that would be cut name another directory.
for my $case (['x' x 1100, '', 'File name too long'], ['x', "/tmp/a #b", 'a blank before'], ['x', 'y' x 1100, 'the value is too long']) {
    my ($value, $variable, $text) = @$case;
    my $dir = settings('veloc');
    write_file("$dir/config", "scratch = /tmp\npersistent = $value\nmode = sync\n");
    my $j = peer_job('veloc', 'init', n => 1, dir => $dir, env => { VELOC_PERSISTENT => $variable });
    ok($j->{log} =~ /\Q$text\E/ && $j->{log} =~ /Init has failed/, "VeloC: settings that are refused: $text")
        or diag(substr($j->{log}, 0, 3000));
}

# Settings that one rank cannot read: all ranks fail together.
for my $peer (sort keys %config) {
    my $dir = settings($peer);
    my $j = job(spares => 0, n => $n, program => 'sh', timeout => 40,
        env => { SCR_CONF_FILE => "$dir/config", SCR_PREFIX => "$dir/sets" },
        args => ['-c', 'test "$OMPI_COMM_WORLD_RANK" = 1 && set -- "$1" /no/such && export SCR_CONF_FILE=/no/such; exec "$@"', 'sh', "$programs/${peer}_init", "$dir/config"]);
    my $failed = () = $j->{log} =~ /^\0?rank \d: Init has failed$/mg;
    ok($j->{rc} != 124 && $failed == $n, "$peer: one rank has no settings: all ranks fail")
        or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 3000));
}

# ---- kills

my $want = ''; # the same for all: the plate is

sub has_result { my ($j) = @_; return $want ne '' && index($j->{log}, $want) >= 0 }

basis(sub {
    my $j = heat($modes[0]);
    ($want) = $j->{log} =~ /^\0?(result: $n ranks, 60 steps, .*)$/m;
    $want //= '';
    ok($j->{rc} == 0 && $want ne '', 'an undisturbed run') or diag(substr($j->{log}, 0, 3000));
});

# A rank is lost, with --all two, one after the other: the others do not go back.
sub lost
{
    my ($mode) = @_;
    my $last = $mode->[1] && $mode->[1] eq 'snapshot' ? 40 : 8; # calls in 60 steps
    my $call = 1 + int rand($last / 2);
    my @lost = map { int rand $n } 0 .. (all_cases() ? 1 : 0);
    my @kills = map {"rank $lost[$_] at call " . ($call + $_ * ($last / 4 + int rand($last / 4)))} 0 .. $#lost;
    my $j = heat($mode, spares => scalar @kills, run => ['--no-relaunch', map { ('--kill', $_) } @kills]);
    my $replaced = () = $j->{log} =~ /1 rank replaced/g;
    ok($j->{rc} == 0 && $replaced == @kills && has_result($j), "@$mode: @kills")
        or diag("exit code $j->{rc}, want $want, replaced: $replaced\n", substr($j->{log}, 0, 6000));
    my %restarted = map { $_ => 1 } $j->{log} =~ /rank (\d) restarts at step/g;
    delete @restarted{@lost};
    is(join(' ', sort keys %restarted), '', '... the other ranks did not go back');
    return;
}

# All ranks go back with the lost one: the call of the checkpoint returns as after a restart.  A rank that
# has left its loop by worthless values ends in the last call, and is replaced, too.
sub all_back
{
    my ($mode) = @_;
    my ($rank, $call) = (int rand $n, 2 + int rand 5);
    my $j = heat($mode, spares => 1, run => ['--no-relaunch', '--kill', "rank $rank at call $call"],
        env => { FTKIT_LOG_TEAMS => 'all' });
    my $restarts = () = $j->{log} =~ /rank \d restarts at step/g;
    my $ended = () = $j->{log} =~ /a rank was lost at the end of the job: the process ends/g;
    ok($j->{rc} == 0 && $restarts == 1 + $ended && $j->{log} =~ /all ranks return to set \d/ && has_result($j),
        "@$mode: all ranks go back with rank $rank at call $call")
        or diag("exit code $j->{rc}, want $want, restarts: $restarts\n", substr($j->{log}, 0, 6000));
    return;
}

# The whole job is lost, and starts again.
sub all_lost
{
    my ($mode) = @_;
    my $call = 5 + int rand 4;
    my $j = heat($mode, run => [map { ('--kill', "rank $_ at call $call") } 0 .. $n - 1],
        env => { FTKIT_RECOVER_SUPPLY => 'end', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' });
    my $restarts = () = $j->{log} =~ /rank \d restarts at step/g;
    ok($j->{rc} == 0 && $restarts >= $n && $j->{log} =~ /restored set \d+ from files in \S*\/sets/
            && has_result($j), "@$mode: all ranks are lost at call $call")
        or diag("exit code $j->{rc}, want $want, restarts: $restarts\n", substr($j->{log}, 0, 6000));
    return;
}

# A replacement that goes its own way would make the result wrong: the job ends with the rule.
sub refused
{
    my ($mode, $rule) = @_;
    my $j = heat($mode, spares => 1, run => ['--no-relaunch', '--kill', 'rank 1 at call 4']);
    ok($j->{rc} != 0 && $j->{rc} != 124 && $j->{log} =~ /rank 1: .*$rule.*the job ends, because its result would be wrong/,
        "@$mode: the job ends with a line") or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 4000));
    return;
}

# Files are read at the start alone: where all ranks would go back, all processes end, and the job starts again.
sub starts_over
{
    my ($mode) = @_;
    my $j = heat($mode, spares => 1, run => ['--kill', 'rank 1 at call 4'],
        env => { FTKIT_LOG_TEAMS => 'all', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' });
    my $restarts = () = $j->{log} =~ /rank \d restarts at step/g;
    ok($j->{rc} == 0 && $j->{log} =~ /rank [02]: all ranks of a team go back: the process ends/ && $restarts >= $n
            && has_result($j), "@$mode: all ranks would go back, and start again")
        or diag("exit code $j->{rc}, want $want, restarts: $restarts\n", substr($j->{log}, 0, 6000));
    return;
}

# Without the log, the default of SCR, a loss is a relaunch.
sub relaunched
{
    my $call = 5 + int rand 4;
    my $rank = int rand $n;
    my $j = heat(['scr', 'output'], run => ['--kill', "rank $rank at call $call"], plain => 1,
        env => { FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' });
    my $restarts = () = $j->{log} =~ /rank \d restarts at step/g;
    ok($j->{rc} == 0 && $restarts == $n && $j->{log} =~ /restored set \d+ from files/ && has_result($j),
        "scr: without the log, rank $rank is lost at call $call")
        or diag("exit code $j->{rc}, want $want, restarts: $restarts\n", substr($j->{log}, 0, 6000));
    return;
}

# A clock of rank 0 decides, and rank 0 is lost: its replacement decides again what the others have.
sub by_clock
{
    my $dir = settings('scr');
    write_file("$dir/config", "SCR_CHECKPOINT_OVERHEAD = 20\nSCR_FLUSH = 0\n");
    my $j = heat(['scr', 'clock'], dir => $dir, spares => 1, run => ['--no-relaunch', '--kill', 'rank 0 at call 2']);
    ok($j->{rc} == 0 && $j->{log} =~ /1 rank replaced/ && has_result($j), 'scr: a clock decides when')
        or diag("exit code $j->{rc}, want $want\n", substr($j->{log}, 0, 6000));
    like($j->{log}, qr/the last checkpoint, step_\d+, is not in files \(SCR_FLUSH\)/, '... no set is in files, as a line says');
    return;
}

# A job that halts: the program asks, and ends; the next job goes on.
sub halts
{
    my $dir = settings('scr');
    chain(sub {
        my $j = heat(['scr', 'top'], dir => $dir, env => { FTKIT_CHECKPOINT_DEADLINE => '10ms' });
        ok($j->{rc} == 75 && $j->{log} !~ /^\0?result/m && $j->{log} !~ /the program did not ask|its work is in the last/,
            'scr: the job halts, and the program ends') or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 6000));
        $j = heat(['scr', 'top'], dir => $dir);
        my $restarts = () = $j->{log} =~ /rank \d restarts at step [1-9]/g;
        ok($j->{rc} == 0 && $restarts == $n && has_result($j), '... and the next job goes on')
            or diag("exit code $j->{rc}, want $want\n", substr($j->{log}, 0, 6000));
    });
    return;
}

# The run after a finished one begins anew, unless the last checkpoint is kept.  A run that is lost, or halts,
# is no finished one.
sub keeps_last
{
    my ($keep) = @_;
    my $dir = settings('fti');
    write_file("$dir/config", slurp("$dir/config") . "Keep_last_ckpt = $keep\n");
    my %o = (dir => $dir, env => { FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' });
    my $restarts = sub { return join ' ', $_[0]{log} =~ /rank 0 restarts at step (\d+)/g };
    my $is = sub {
        my ($name, $j, $steps, $rc) = @_;
        ok($j->{rc} == ($rc // 0) && $restarts->($j) =~ /^$steps$/ && ($rc || has_result($j)), "fti: keep_last_ckpt = $keep: $name")
            or diag("exit code $j->{rc}, restarts at: ", $restarts->($j), "\n", substr($j->{log}, 0, 6000));
    };
    chain(sub {
        $is->('the first run', heat(['fti', 'top'], %o), '');
        $is->('the next one', heat(['fti', 'top'], %o), $keep ? 55 : '');
        return if $keep;
        $is->('a loss is a relaunch from this run', heat(['fti', 'bottom'], %o, run => [ '--kill', 'rank 1 at call 6' ],
            env => { %{ $o{env} }, FTKIT_LOG_ENABLED => 'false' }), '[1-9]\d*');
        my $j = heat(['fti', 'bottom'], %o, run => ['--no-relaunch', map { ('--kill', "rank $_ at call 6") } 0 .. $n - 1]);
        isnt($j->{rc}, 0, '... all ranks are lost');
        $is->('the run after a lost one goes on', heat(['fti', 'bottom'], %o), '[1-9]\d*');
        $is->('a run halts', heat(['fti', 'bottom'], dir => $dir, env => { FTKIT_CHECKPOINT_DEADLINE => '10ms' }), '', 75);
        $is->('the run after it goes on', heat(['fti', 'bottom'], %o), '[1-9]\d*');
    });
    return;
}

# An error of files reaches the next checkpoint, which is written, and is where a replacement begins.
sub without_files
{
    my ($peer) = @_;
    my $j = heat([$peer, 'away'], spares => 1, run => ['--no-relaunch', '--kill', 'rank 1 at call 5'],
        env => $peer eq 'fti' ? { FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' } : {}); # VeloC can ask for the end
    ok($j->{log} =~ /a checkpoint is in memory: / && $j->{log} =~ /1 rank replaced/ && has_result($j)
            && $j->{log} !~ /no checkpoint/, "$peer: a loss after an error of files")
        or diag("exit code $j->{rc}, want $want\n", substr($j->{log}, 0, 6000));
    like($j->{log}, qr/^\0?finished: -1$/m, '... VELOC_Checkpoint_finished says that the files failed') if $peer eq 'veloc';
    return;
}

# A rank is lost inside of the last call: another process comes there in its place.  Behind it nobody
# replaces a rank, and the result is there.
sub lost_at_end
{
    my ($mode, $when) = @_;
    my $rank = int rand $n;
    my $dir = settings($mode->[0]);
    my $j = heat($mode, dir => $dir, spares => 1, env => { LD_PRELOAD => build() . '/leave.so',
        FTKIT_TEST_LEAVE => "$rank:$when:$dir/left" });
    my $replaced = () = $j->{log} =~ /1 rank replaced/g;
    my $behind = $when eq 'after';
    ok(-e "$dir/left" && ($j->{rc} == 0) == !$behind && $replaced == !$behind && has_result($j),
        "@$mode: rank $rank is lost in the last call: $when")
        or diag("exit code $j->{rc}, want $want, replaced: $replaced\n", substr($j->{log}, 0, 6000));
    return;
}

refused(['veloc', 'careless'], 'has not taken the last checkpoint over. Rule: .* by VELOC_Restart_test');
refused(['veloc', 'misfit'], 'has not taken the last checkpoint over');
refused(['scr', 'careless'], 'has not taken the last checkpoint over. Rule: .* by SCR_Have_restart');
refused(['scr', 'misfit'], 'cannot use its files of the checkpoint step_\d+');
refused(['fti', 'careless'], 'has not taken the last checkpoint over. Rule: .* by FTI_Status');
refused(['fti', 'unclear'], 'is this the call of the recovered checkpoint, or the next one');
without_files($_) for sort keys %config;
lost(['fti', 'writes']);
lost(['scr', 'output']);
starts_over($_) for ['scr', 'top'], ['veloc', 'file'];
relaunched();
by_clock();
keeps_last($_) for 0, 1;
halts();

for my $when (qw(before between after)) {
    lost_at_end($_, $when) for all_cases() ? @modes : @modes[0, 1, 5, 9];
}
my $rounds = all_cases() ? 3 : 1;
lost($_) for all_cases() ? (@modes) x $rounds : @modes[1, 2, 3, 9, 10];
all_back($_) for all_cases() ? (grep { "@$_" !~ /^scr|fti (?!top)|veloc (?:file|both)/ } @modes) x $rounds : $modes[0];
# one team of all ranks logs nothing, so no count of messages shows whether the call is the next one
for my $mode (['fti', 'bottom'], all_cases() ? ['fti', 'sizes'] : ()) {
    my $j = heat($mode, spares => 1, run => ['--no-relaunch', '--kill', 'rank 1 at call 4'],
        env => { FTKIT_LOG_TEAMS => 'all' });
    ok($j->{log} eq '' || ($j->{rc} != 0 && $j->{rc} != 124 && $j->{log} =~ /rank 1: is this the call of the recovered checkpoint/),
        "@$mode: all ranks go back, and the job ends with a line") or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 4000));
}
all_lost($_) for all_cases() ? (grep { "@$_" ne 'fti snapshot' } @modes) x $rounds : @modes[5, 8, 9];

done_testing();
