#!/usr/bin/perl
# Everything again under the address, leak and undefined behaviour sanitizers: the unit tests, and
# jobs that lose ranks.  With --all also the unit tests that take long, and with the optimizer.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/campaign";
use FtkitLog;
use FtkitTest;
use Judge;
use Runner;
use Test::More;

my $ulfm = ($ENV{MPI_KIND} // 'ulfm') eq 'ulfm';
my $top = top();
my $san = build() . (all_cases() ? '/san-all' : '/san');
my ($mpicc) = slurp(build() . '/mpi.mk') =~ /^MPICC := (.*)$/m;
my $fortran = $ulfm && slurp(build() . '/mpi.mk') =~ /^FORTRAN := \S/m;
my $report = qr/(?:ERROR: \w+Sanitizer|runtime error:|SUMMARY: \w+Sanitizer)/;

chdir $top;
delete $ENV{$_} for qw(MAKEFLAGS MFLAGS MAKELEVEL);
my %long = map { $_ => 1 } qw(t_h5_faults t_h5_verify t_model_fit t_model_simulate t_team_share);
my @units = grep { all_cases() || !$long{$_} } map { m{/(t_\w+)\.c$} } glob 'tests/unit/t_*.c';
my $made = ($ENV{BUILD} // 'build') . (all_cases() ? '/san-all' : '/san');
my $opt = all_cases() ? 'SAN_OPT="-O1 -g"' : '';
my @targets = map {"$made/$_"} qw(mpi/solver mpi/regions mpi/halo3d mpi/farm), map {"unit/$_"} @units;
push @targets, map {"$made/ftests/$_"} qw(regions_f08 calls_f08) if $fortran;
if (!(builds('builds', 1800,
        qq(make -j2 SAN=1 $opt WERROR=1 BUILD="$made" MPICC="$mpicc" @targets)))[0])
{
    done_testing();
    exit 1;
}
system("printf 'int main(void) { return 0; }' | cc -fsanitize=address -x c - -o $san/empty");
my $leaks = system("$san/empty >/dev/null 2>&1") == 0; # not where processes are traced
note('no leak checks: LeakSanitizer cannot run here') if !$leaks;

# a campaign with SAN=1 sees what a process has done
ok(Runner::sanitized("$san/empty") && !Runner::sanitized(), 'a campaign knows a build with sanitizers');
write_file("$san/planted.c", <<'PLANTED');
#include <limits.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    volatile int most = INT_MAX;
    char *volatile p = malloc(4);
    if (argc > 2) most += argc;
    if (argc < 2) p[argc + 3] = 1;
    p = argv[0];
    return 0;
}
PLANTED
ok(system("cc -fsanitize=address,undefined -fno-sanitize-recover=undefined -o $san/planted $san/planted.c") == 0,
    '... a program with planted errors');
for my $planted ([qr/AddressSanitizer: heap-buffer-overflow .*, main/], [ qr/:\d+: runtime error: signed integer overflow/, 1, 2 ],
    $leaks ? [ qr/LeakSanitizer: detected memory leaks/, 1 ] : ())
{
    my ($like, @args) = @$planted;
    my $work = scratch() . '/planted' . @args;
    mkdir $work or die "$work: $!\n";
    local %ENV = (%ENV, Runner::sanitizers({ number => 8, faults => ['x'] }, $work));
    isnt(system("$san/planted @args >$work/log 2>&1"), 0, '... it ends with an error');
    like(Judge::sanitizer({ reports => Runner::reports($work) }, slurp("$work/log")), $like, '... which the judge sees');
}

@ENV{qw(OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM)} = (1, 1) if $> == 0;
$ENV{LSAN_OPTIONS} = "suppressions=$top/tests/lsan.supp:print_suppressions=0";
$ENV{UBSAN_OPTIONS} = 'print_stacktrace=1';

# Whole stacks, which name the call of MPI a leak comes from, take time.
sub asan
{
    my ($mpi) = @_;
    my $look = $leaks && ($ulfm || !$mpi) ? 1 : 0; # leaks of other MPIs are not known
    return "detect_leaks=$look:fast_unwind_on_malloc=" . ($mpi ? 0 : 1);
}

# The text of a unit test, with its own headers, and theirs.
sub source
{
    my ($file) = @_;
    my $text = slurp("tests/unit/$file");
    return join('', $text, map { source($_) } $text =~ /^#include "(t_\w+\.h)"$/mg);
}

# two at a time
my %running;
sub finish
{
    my $pid = wait;
    my $rc = $?;
    my $unit = delete $running{$pid};
    my $log = slurp(scratch() . "/$unit.log");
    ok($rc == 0 && $log !~ /^not ok/m && $log =~ /^ok/m && $log !~ $report, $unit)
        or diag(substr($log, -6000));
}

for my $unit (@units) {
    finish() if keys %running >= 2;
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', scratch() . "/$unit.log";
        open STDERR, '>&', \*STDOUT;
        # thousands of runs of the same steps, and the same for other sizes
        @ENV{qw(FTKIT_TEST_COUNT FTKIT_TEST_FEW)} = (100, 5) if !all_cases();
        $ENV{FTKIT_TEST_ALL} = 1 if all_cases();
        $ENV{ASAN_OPTIONS} = asan(source("$unit.c") =~ /\bMPI_Init\b/);
        $ENV{OMPI_MCA_btl_sm_backing_directory} = $ENV{TMPDIR} = scratch();
        exec 'scripts/guard', 600, '--', 'scripts/cmocka-tap', "$san/unit/$unit"
            or die "exec: $!\n";
    }
    $running{$pid} = $unit;
}
finish() while %running;

# ---- jobs that lose ranks --------------------------------------------------------------

$ENV{ASAN_OPTIONS} = asan(1);
asleep_in_waits();
# Ranks 0 and 4, which is the first replacement, look for leaks, and with --all every rank: the whole
# stacks take three quarters of a job.
my $few = write_file(scratch() . '/few', <<"SCRIPT");
#!/bin/sh
case \$OMPI_COMM_WORLD_RANK in
[04]) ;;
*) export ASAN_OPTIONS=detect_leaks=0:fast_unwind_on_malloc=1 ;;
esac
exec "\$@"
SCRIPT
chmod(0755, $few) or die "$few: $!\n";
my @few = all_cases() ? () : $few;
my %slow = (FTKIT_RECOVER_TIMEOUT => '30s'); # everything is some times slower
my %memory = (%slow, FTKIT_LEVEL_HDF5_ENABLED => 'false');

sub clean
{
    my ($name, %o) = @_;
    my ($program, @command) = (@few, "$san/mpi/solver");
    survives($name, program => $program, command => \@command, timeout => 100, unlike => $report, %o);
    return;
}

SKIP: {
    skip 'failures are repaired with ULFM', 10 if !$ulfm;
    clean('killed in a checkpoint, and the writer of the files', spares => 2, faults => 2,
        env => { %slow, FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' },
        fault => 'ckpt.packed:1:3:kill,durable.written:0:3:kill');
    clean('killed while sets are written in the background', spares => 2, faults => 2,
        env => { %slow, FTKIT_CHECKPOINT_PERIOD => '1 calls' },
        solver => ['-n', 60_000, '-W', 5], # so that enough sets come to files
        fault => 'flush.block:1:2:kill,flush.part:0:3:kill');
    clean('killed in a repair, and later in a step', env => \%memory, spares => 3, faults => 3,
        fault => 'app.coll:0:13:kill,repair.census:2:2:kill,app.compute:1:25:kill');
    clean('a replacement is spawned', spares => 0, fault => 'app.inflight:3:9:kill',
        env => { %memory, FTKIT_RECOVER_SUPPLY => 'spawn' });
    clean('killed in a group of parity', env => { %memory, FTKIT_LEVEL_MEMORY_SCHEME => 'rs' },
        spares => 2, faults => 2, fault => 'app.mid:1:13:kill,app.mid:2:13:kill');
    clean('a second level in shared memory', spares => 2, faults => 2,
        env => { %memory, FTKIT_LEVEL_LOCAL_SCHEME => 'xor', FTKIT_LEVEL_LOCAL_EVERY => '1 sets' },
        fault => 'app.mid:0:13:kill,app.mid:1:13:kill');
    clean('relaunched from shared memory', run => [], spares => 0, faults => 4,
        env => { %memory, FTKIT_LEVEL_MEMORY_PLACE => 'shared' }, fault => 'app.mid:*:13:kill4');
    for my $p (grep { $_->{name} =~ /^(?:halo3d|farm)$/ } programs()) {
        my $j = logged($p, wrap => \@few, from => $san, timeout => 100, env => { %memory, FTKIT_LOG_TEAM_SIZE => 2 },
            fault => 'app.inflight:2:17:kill');
        ok(verdict($p, $j, killed => [2], env => { FTKIT_LOG_TEAM_SIZE => 2 }, faults => 1) eq ''
                && $j->{log} !~ $report,
            "the message log: $p->{name}") or diag(substr($j->{log}, 0, 6000));
    }
    my $calls = all_cases() ? 'edges|comms' : 'comms';
    for my $p (grep { $fortran && title($_) =~ /^calls_f08 -m (?:$calls)/ } fortran_programs('f08')) {
        my $j = logged($p, wrap => \@few, from => $san, timeout => 100, env => { %memory, FTKIT_LOG_TEAMS => 'rank' },
            fault => 'app.step:1:17:kill');
        ok($j->{rc} == 0 && $j->{result} eq undisturbed($p, 4) && $j->{log} !~ $report,
            'the message log: ' . title($p)) or diag(substr($j->{log}, 0, 6000));
    }
    my $work = scratch() . '/regions';
    for (["$san/mpi/regions", '-o', "$work/out", '-b', '1,262144,1048577'],
        $fortran ? ["$san/ftests/regions_f08", "$work/out"] : ())
    {
        my ($program, @args) = (@few, @$_);
        my $j = job(program => $program, keep => $work, timeout => 100, args => \@args,
            env => \%memory, fault => 'app.step:1:5:kill');
        ok($j->{result} =~ /^OK step 12 repairs 1 / && $j->{log} !~ $report
                && $j->{log} !~ /^handles: /m,
            "regions of all kinds: $_->[0]") or diag(substr($j->{log}, 0, 6000));
    }
}

done_testing();
