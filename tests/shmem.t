#!/usr/bin/perl
# OpenSHMEM (bindings/shmem): calls against expected values, mistakes with their texts, and a loop as
# in listing 4.1 whose PEs are killed at seeded places; its result is that of the undisturbed run, bit
# by bit.  With --all there are more kills, and 8 PEs.
#
#   FTKIT_TEST_SEED=...  another series
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitShmem;
use FtkitTest;
use Fcntl qw(O_RDONLY O_NONBLOCK F_SETFL);
use IO::Select;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep);

ulfm_only();
apart();
asleep_in_waits();
srand($ENV{FTKIT_TEST_SEED} // 41);

my $programs = build() . '/shmem-tests';

# ---- calls

for my $n (4, 3) {
    my $j = pes('calls', n => $n, spares => 0);
    ok($j->{rc} == 0 && $j->{log} =~ /^\0?OK \d{3}$/m, "each call gives what it has to, $n PEs")
        or diag(substr($j->{log}, 0, 4000));
    next if $n != 4;
    like($j->{log}, qr/shmem_malloc: the PEs do not ask for the same: from 8 to 16 bytes$/m,
        'asymmetric sizes are named');
    like($j->{log}, qr/shmem_malloc: no room for 1099511627776 bytes: \d+ of 67108864 are in use/,
        'an exhausted heap is named');
}

for (['contexts, and calls without a type'], ['no shmem_finalize', 'exit'], map { ["threads, level $_", 'thread', $_] } 0, 1, 2, 3) {
    my ($what, @args) = @$_;
    my $j = pes('contexts', n => 2, spares => 0, args => \@args);
    ok($j->{rc} == 0 && $j->{log} =~ /^\0?OK \d+$/m, "each call gives what it has to: $what")
        or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 3000));
}
{
    my $j = pes('contexts', n => 4, spares => 1, args => ['loss']);
    ok($j->{rc} == 0 && $j->{log} =~ /^\0?OK \d+$/m, 'a substitute has the contexts of the set')
        or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 3000));
}

{
    my $j = pes('calls', n => 2, spares => 0, args => ['begun']);
    ok($j->{rc} == 0 && $j->{log} =~ /^\0?OK \d+$/m, 'a program that has begun MPI ends MPI itself')
        or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 3000));
}

# ---- mistakes: the job ends with a text

my %mistakes = (
    pe => 'shmem_long_p: there is no PE 4, the last one is 3',
    address => 'shmem_long_p: 8 bytes at 0x\w+ are not in symmetric memory',
    library => 'shmem_long_p: 8 bytes at 0x\w+ are not in symmetric memory',
    range => 'shmem_long_put: 8589934592 bytes at 0x\w+ are not in symmetric memory',
    stride => 'shmem_long_iput: 2 elements with strides of 1 and 0',
    far => 'shmem_long_iget: 2 elements with strides of \d{19} and 1',
    blocks => 'shmem_alltoalls64: \d{11} bytes at 0x\w+ are not in symmetric memory',
    early => 'shmem_set_lock: call shmem_init before, and shmem_finalize after',
    sizes => 'shmem_init: the PEs have heaps of 1048576 to 2097152 bytes: set SHMEM_SYMMETRIC_SIZE',
    set => 'shmem_barrier: no such set of PEs: first 0, .* size 5, of 4 PEs',
    outside => 'shmem_barrier: this PE is not in the set of 1 PEs',
    free => 'shmem_free: 0x\w+ is not from shmem_malloc, or is free already',
    lock => 'shmem_clear_lock: no PE has the lock',
    compare => 'shmem_long_wait_until: 17 is not a comparison',
    root => 'shmem_broadcast64: the root is 4, of a set of 4 PEs',
    restart => 'shmem_restart_pes: PE 2 was not lost',
    exit => 'shmem_global_exit: MPI is finalized: call it before shmem_finalize',
    again => 'shmem_init: MPI is finalized: call it before shmem_finalize',
    closed => 'shmem_barrier_all: call shmem_init before, and shmem_finalize after',
);
# Those in @$alone end a job each; PE 0 makes the others in one job.  With --all each one ends a job.
sub mistakes {
    my ($program, $n, $texts, $late, @alone) = @_;
    my %alone = map { $_ => 1 } all_cases() ? keys %$texts : @alone;
    for my $m (sort keys %alone) {
        my $j = pes($program, n => $n, spares => 0, args => [$m]);
        ok($j->{rc} != 0 && $j->{log} =~ /shmem: PE \d: $texts->{$m}/, "a mistake is named: $m")
            or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 3000));
    }
    my %late = map { $_ => 1 } @$late; # the program makes these at its end
    my @others = grep { !$alone{$_} } sort keys %$texts;
    return if !@others;
    my $j = pes($program, n => $n, spares => 0, args => [ 'each', grep { !$late{$_} } @others ]);
    is($j->{rc}, 0, "$program: the other mistakes would end the job, too") or diag(substr($j->{log}, 0, 3000));
    for my $m (@others) {
        # mpirun may write a line of its own in between
        like($j->{log}, qr/mistake $m\n(?:(?!.*mistake ).*\n){0,9}.*shmem: PE 0: $texts->{$m}/, "a mistake is named: $m");
    }
    return;
}
mistakes('calls', 4, \%mistakes, [qw(again closed exit)], qw(early free restart sizes));
{
    my $j = pes('jacobi', n => 2, spares => 0, args => [':', '-n', 2, "$programs/spin"]);
    ok($j->{rc} != 0 && $j->{log} =~ /shmem: PE \d: shmem_init: the PEs have other variables: run the same program/,
        'other programs with other variables are named') or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 3000));
}

my $context = 'no such context: it is destroyed,? (?:or )?newer than the last set';
my %contexts = (
    put => "shmem_ctx_long_p: $context",
    get => "shmem_ctx_long_g: $context",
    none => "shmem_ctx_long_p: $context",
    stride => "shmem_ctx_long_iput: $context",
    atomic => "shmem_ctx_long_atomic_add: $context",
    swap => "shmem_ctx_long_atomic_compare_swap: $context",
    quiet => "shmem_ctx_quiet: $context",
    fence => "shmem_ctx_fence: $context",
    default => "shmem_ctx_destroy: $context, or the default",
);
mistakes('contexts', 1, \%contexts, [], 'put');
{
    my $j = pes('calls', n => 2, spares => 0, env => { SHMEM_SYMMETRIC_SIZE => '12x' });
    ok($j->{rc} != 0 && $j->{log} =~ /SHMEM_SYMMETRIC_SIZE: '12x' is not a size such as 512M/,
        'a size that is none is named') or diag(substr($j->{log}, 0, 3000));
}

# ---- the loop of listing 4.1

killed('jacobi', 4, { spares => 1 }, [ 2, 0, 6 ]);                      # before the second set
killed('jacobi', 4, { spares => 1 }, [ 3, 40, 101 ]);                   # after the last step
killed('jacobi', 4, { spares => 2 }, [ 2, 7, 3 ], [ 1, 7, 102 ]);       # a survivor, in the restart
killed('jacobi', 4, { spares => 2 }, [ 0, 7, 3 ], [ 0, 7, 102 ]);       # the substitute, in the restart
killed('jacobi', 4, { spares => 3 }, random_kills(4, $_)) for (1, 2, all_cases() ? (1) x 21 : ());
{
    my $j = pes('jacobi', n => 4, spares => 1, env => { KILLS => '1 9 2', END => 'exit' });
    is(verdict('jacobi', $j, 4, [ 1, 9, 2 ]), '', 'a PE ends by exit');
    ok(is_skipped() || $j->{log} =~ /^\0?lost 1 4$/m, '... which its status says');
}
killed('jacobi', 8, { spares => 3 }, random_kills(8, $_)) for (all_cases() ? ((1) x 5, (2) x 5, (3) x 10) : 3);

# ---- parity over the heap: with rs two PEs that would be buddies are lost at once

killed('jacobi', 4, { spares => 1, env => { FTKIT_LEVEL_MEMORY_SCHEME => 'xor' } }, [ 1, 20, 2 ]);
killed('jacobi', 4, { spares => 2, env => { FTKIT_LEVEL_MEMORY_SCHEME => 'rs' } }, [ 0, 20, 2 ], [ 1, 20, 2 ]);

# ---- the modes of the thesis: both are a copy with a buddy

{
    my $own = write_file(scratch() . '/own.ini', "[level.memory]\nscheme = own\n");
    killed('jacobi', 4, { spares => 1, env => { FTKIT_CONFIG => $own, SHMEM_FT_BACKUP_MODE => 'double' } }, [ 2, 20, 3 ]);
    for ([ double => '' ], [ single => 'SHMEM_FT_BACKUP_MODE=single: double is used: each PE has its own copy, too' ],
        [ triple => q(warning: SHMEM_FT_BACKUP_MODE: 'triple' is neither single nor double: level.memory.scheme is used alone) ])
    {
        my ($mode, $text) = @$_;
        my $j = pes('jacobi', n => 2, spares => 0, args => [3], env => { SHMEM_FT_BACKUP_MODE => $mode });
        my @said = $j->{log} =~ /^\0?shmem: PE \d: (.*BACKUP_MODE.*)$/mg;
        my $right = $text eq '' ? !@said : @said == 1 && $said[0] =~ /^\Q$text\E/;
        ok($j->{rc} == 0 && $right, "SHMEM_FT_BACKUP_MODE=$mode: " . ($text || 'nothing to say'))
            or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 2000));
    }
}

# ---- blocks that are made, moved and freed between sets; a PE is lost inside of shmem_malloc

killed('pieces', 4, { spares => 2 }, random_kills(4, 2, 9));
for my $place (8, 9) {
    for my $step (all_cases() ? map { 5 * $_ + 4 } 0 .. 6 : 5 * int(rand(7)) + 4) {
        my $pe = int(rand(4));
        my $j = pes('pieces', n => 4, spares => 1, env => { GROWN => 'grown', KILLS => "$pe $step $place" });
        is(verdict('pieces', $j, 4, [ $pe, $step, $place ]), '',
            "PE $pe is lost inside of shmem_malloc in step $step, place $place");
        next if $place == 9; # the lost PE may have let some of the others go on
        my @given = map { slurp("$j->{dir}/grown.$_") =~ /^$step (\d)/m } grep { $_ != $pe } 0 .. 3;
        is(scalar(grep { $_ == 1 } @given), 0, "... which gives NULL on all PEs: @given");
    }
}

# ---- places that an atomic call gives, and rows that go from PE to PE with flags

killed('sort', 4, { spares => 2 }, random_kills(4, $_)) for (1, 2, all_cases() ? ((1) x 11, (2) x 10) : ());

# ---- loads and stores in the memory of other PEs; without them the result is the same

{
    my @far = (env => { SHMEM_SYMMETRIC_SIZE => '8T' }); # more than any node has: private memory
    my @both = (env => { FTKIT_TOPOLOGY_RANKS_PER_NODE => 2 });
    for (['near'], ['far', @far], ['both', @both]) {
        my ($way, @how) = @$_;
        my $j = pes('ptr', n => 4, spares => 0, args => [ 40, $way ], @how);
        is("$j->{rc} $j->{result}", '0 ' . undisturbed('ptr', 4), "shmem_ptr: $way")
            or diag(substr($j->{log}, 0, 3000));
    }
    my $most = all_cases() ? 12 : 2;
    for my $i (1 .. $most) {
        killed('ptr', 4, { spares => 2, args => [ 40, 'near' ] }, random_kills(4, 1 + $i % 2, 4));
        killed('ptr', 4, { spares => 2, @both }, random_kills(4, 1 + $i % 2, 4));
    }
    killed('ptr', 4, { spares => 2, args => [ 40, 'near' ] }, [ 2, 7, 3 ], [ 1, 7, 102 ]); # in the restart
}

# ---- loops of the program that wait for a lost PE, and mistakes that come from the loss

for my $how (qw(test lock get look mistake)) {
    my $j = pes('spin', n => 4, spares => 1, args => [$how]);
    ok($j->{rc} == 0 && $j->{log} =~ /^\0?OK$/m, "a PE ends while the others wait: $how")
        or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 3000));
}

# ---- a PE is lost inside of shmem_init: the program begins, and has lost nothing

for my $die ('0 before', '3 after', all_cases() ? ('2 before', '1 after') : ()) {
    my $j = pes('begin', n => 4, spares => 1, env => { DIE => $die });
    ok($j->{rc} == 0 && (-e "$j->{dir}/died" || is_skipped()) && $j->{log} =~ /^\0?first 0, lost 0, sum 10$/m,
        "a PE is lost inside of shmem_init: $die the set") or diag("exit code $j->{rc}\n", substr($j->{log}, 0, 3000));
}

# ---- the example: a PE is lost after the last shmem_checkpoint_all, while PE 0 writes the result

# The new file is a small pipe, so PE 0 stands in the writing until the test reads.  PE 3, whose cells
# come last, is killed before.
{
    my ($work, $got) = (scratch() . '/late', '');
    my $killed = 0;
    my $j = job(program => build() . '/examples/shmem/rod', n => 4, spares => 1, keep => $work, timeout => 60,
        args => [ 40, "$work/result", "$work/pid", 1 ],
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_REPORT_STDERR => 'debug' },
        while => sub {
            local $SIG{ALRM} = sub { die("PE 0 does not come to its result\n") };
            alarm(100);
            POSIX::mkfifo("$work/result.new", 0600) or die("mkfifo: $!\n");
            sysopen(my $pipe, "$work/result.new", O_RDONLY | O_NONBLOCK) or die("$work/result.new: $!\n");
            fcntl($pipe, 1031, 4096) or die("F_SETPIPE_SZ: $!\n");
            IO::Select->new($pipe)->can_read(); # PE 0 writes
            my ($pid) = split(' ', slurp("$work/pid.3"));
            $killed = kill('KILL', $pid);
            sleep(0.01) while slurp("$work/log") !~ /has learned of a failure/;
            fcntl($pipe, F_SETFL, 0) or die("F_SETFL: $!\n");
            $got .= $_ while <$pipe>;
            alarm(0);
        });
    is($killed, 1, 'a PE is killed after the last shmem_checkpoint_all');
    ok($j->{rc} != 0 && !-e "$work/result", '... the job has no result, and an error code')
        or diag("exit code $j->{rc}\n", substr($j->{log}, -4000));
    like($j->{log}, qr/a PE was lost after the last shmem_checkpoint_all: the job begins again/, '... a line says why');
    unlike($j->{log}, qr/rod: 40 steps/, '... and PE 0 does not claim a result');
}

# ---- the job begins again

{
    my @kills = ([ 1, 0, 101 ]);
    my $j = pes('jacobi', n => 4, spares => 1, run => [ '--relaunch', 1 ], env => { KILLS => '1 0 101' });
    is(verdict('jacobi', $j, 4, @kills), '', 'a PE is lost before the first shmem_checkpoint_all: a relaunch');
    like($j->{log}, qr/a PE was lost before the first shmem_checkpoint_all: the job begins again/,
        '... and a line says why');
}
# Sets on the file system: two PEs that keep the copies of each other are lost at once; then the job
# is lost as a whole, for want of a spare.
my $files = { FTKIT_LEVEL_HDF5_ENABLED => 'true', FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' };
{
    my @kills = ([ 0, 20, 2 ], [ 1, 20, 2 ]);
    my $j = pes('jacobi', n => 4, spares => 2, env => { %$files, KILLS => join(' ', map { @$_ } @kills) });
    is(verdict('jacobi', $j, 4, @kills), '', 'all copies of two PEs are lost: back to a set on the file system');
    like($j->{log}, qr/restored set 2[02] from files/, '... which a line names');

    # what other programs find in a set
    my @keys = qw(shmem.heap shmem.globals.0);
  SKIP: {
        my ($set) = glob("$j->{dir}/*.ftkit/set-*/part-*.h5");
        skip('no h5ls', 1) if is_skipped() || system('command -v h5ls >/dev/null') != 0;
        my $names = qx(h5ls -r '$set');
        is(join(' ', grep { $names !~ m{/\Q$_\E\b} } @keys), '', 'h5ls shows the symmetric memory of a set') or diag($names);
    }
}
{
    my @kills = ([ 2, 20, 2 ]);
    my $j = pes('jacobi', n => 4, spares => 0, run => [ '--relaunch', 1 ],
        env => { %$files, KILLS => '2 20 2', FTKIT_RECOVER_SUPPLY => 'spare' });
    is(verdict('jacobi', $j, 4, @kills), '', 'the job is lost: a relaunch goes on from the file system');
    like($j->{log}, qr/restored set 2[02] from files/, '... and not from the begin');
}

# ---- C++

SKIP: {
    my ($mpicxx) = slurp(build() . '/mpi.mk') =~ /^MPICXX := (.*)$/m;
    skip('no compiler for C++', 1) if !$mpicxx || system("command -v '$mpicxx' >/dev/null") != 0;
    my $source = write_file(scratch() . '/complex.cpp', <<'END');
#include <complex.h>
#include <shmem.h>
static float _Complex a[2];
static std::complex<double> b[2];
long sync_[SHMEM_REDUCE_SYNC_SIZE];
int main()
{
    shmem_init();
    shmem_complexf_sum_to_all(&a[0], &a[1], 1, 0, 0, 1, a, sync_);
    shmem_complexd_prod_to_all(&b[0], &b[1], 1, 0, 0, 1, b, sync_);
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
    shmem_ctx_quiet(ctx);
    size_t none = 0;
    shmem_restart_pes(nullptr, 0);
    shmem_restart_pes(nullptr, none);
    shmem_restart_pes(nullptr, &none);
    shmem_restart_pes(nullptr, 0U);
}
END
    builds('C++: complex numbers, and each kind of number of lost PEs', 60, "$mpicxx -std=c++17 -Wall -Wextra -Werror -I" . top()
        . '/bindings/shmem -c -o ' . scratch() . "/complex.o $source");
}

# ---- programs that cannot be saved

sub linked {
    my ($name, $flags) = @_;
    my ($mpicc) = slurp(build() . '/mpi.mk') =~ /^MPICC := (.*)$/m;
    my ($program, $b) = (scratch() . "/$name", build());
    my ($good) = builds("a program with $flags is linked", 60,
        "$mpicc -I" . top() . "/bindings/shmem $flags -o $program " . top() . "/tests/shmem/jacobi.c -L$b "
            . "-Wl,-rpath,$b -lftkit_shmem -lftkit_mpi -lftkit");
    return job(n => 2, spares => 0, timeout => 40, program => $program, args => [],
        env => { FTKIT_LEVEL_HDF5_ENABLED => 'false' }) if $good;
    return { rc => 0, log => '' };
}
{
    my $j = linked('pie', '-fPIE -pie');
    ok($j->{rc} != 0 && $j->{log} =~ /shmem: PE \d: shmem_init: .* link with -no-pie/,
        '... and says that it has to be linked in another way') or diag(substr($j->{log}, 0, 2000));
}

of_all_jobs(sub { is(left_behind(), '', 'no job has left a file') });
done_testing();
