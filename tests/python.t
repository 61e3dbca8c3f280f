#!/usr/bin/perl
# The module ftkit for Python: each kind of region, and the loop, survive the loss of ranks and of the
# job, exceptions of one rank and of all; misuse is an exception with a text.
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
my ($top, $build) = (top(), build());
my %made = slurp("$build/mpi.mk") =~ /^(PYTHON|MPI4PY|HAVE_MPI4PY) :=[ \t]*(.*)$/mg;
plan skip_all => 'no Python with numpy, and mpi4py for this MPI' if ($made{HAVE_MPI4PY} // 'no') ne 'yes';
plan skip_all => 'a library with sanitizers' if slurp("$build/libftkit.a") =~ /__asan_init/;

my $python = $made{PYTHON};
$ENV{PYTHONPATH} = join ':', "$top/bindings/python", grep {length} $made{MPI4PY}, $ENV{PYTHONPATH} // '';
$ENV{LIBFTKIT} = $build;
$ENV{PYTHONDONTWRITEBYTECODE} = 1;
$ENV{OPENBLAS_NUM_THREADS} = 1;

my %memory = (FTKIT_LEVEL_HDF5_ENABLED => 'false', FTKIT_CHECKPOINT_PERIOD => '4 calls');
my %log = (%memory, FTKIT_LOG_ENABLED => 'true', FTKIT_LOG_TEAM_SIZE => 1);

# ---- jobs ----------------------------------------------------------------------------------------

my ($jobs, $all) = (0, '');
sub python_job
{
    my ($script, $args, %o) = @_;
    my $work = sprintf '%s/job%02d', scratch(), ++$jobs;
    return job(program => $python, keep => $work, timeout => 120, n => 3, env => \%memory, %o,
        args => [ $script, map { $_ eq 'OUT' ? "$work/out" : $_ } @$args ]);
}

sub ends
{
    my ($name, $disturb, %o) = @_;
    my $j = python_job("$top/tests/python/loop.py", [ 'OUT', @$disturb ], %o);
    my @missing = grep { $j->{log} !~ $_ } @{ $o{like} // [] };
    ok($j->{rc} == 0 && ($all ? $j->{result} eq $all : $j->{result} =~ /^14 found, \{.*\}, 0x.*, 0x/) && !@missing
            && $j->{log} !~ /not come to the repair/, $name)
        or diag("exit code $j->{rc}, $j->{result}", @missing, substr $j->{log}, 0, 6000);
    $all = $all || $j->{result};
    return $j;
}

ends('undisturbed; callbacks fail: no set, and the loop goes on', [qw(11:1:callback)], spares => 0,
    like => [qr/rank 0: back 0 times/, qr/callback of the program failed.*ValueError: not now/]);
ends('a rank is killed, and one is interrupted', [qw(12:2:kill 26:0:interrupt)],
    spares => 2, like => [qr/rank 1: back 2 times/, qr/^KeyboardInterrupt$/m, qr/alone in ftkit_close .* because of an exception/]);
ends('a rank is killed, with the message log', [qw(21:1:kill)], env => \%log, run => ['--log', '--no-relaunch'],
    like => [qr/rank 0: back 0 times/, qr/rank 1: back 1 times/]);
ends('the job is lost, and restarts from files', [qw(21:1:kill)], spares => 0, run => [],
    env => { FTKIT_CHECKPOINT_PERIOD => '4 calls', FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_RECOVER_SUPPLY => 'end',
        FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false' }, like => [qr/restored set \d+ from files/]);

my $steps = 200;
my $heat = once("heat2d -n 40x30 -s $steps", sub {
    my $j = job(program => "$build/flt-examples/heat2d", n => 2, spares => 0, keep => scratch() . '/heat', env => \%memory,
        args => [ '-n', '40x30', '-s', $steps, '-o', scratch() . '/heat/out' ]);
    return $j->{result};
});
my $j = python_job("$top/examples/python/heat2d.py", [ '-n', '40x30', '-s', $steps, '-o', 'OUT' ], n => 2,
    run => [ '--no-relaunch', '--kill', 'rank 1 at call 30' ]);
ok($j->{rc} == 0 && $j->{result} eq $heat && $j->{log} =~ /repaired in/, 'heat2d.py, with ftkit run --kill: the result of heat2d.c')
    or diag($j->{rc}, substr $j->{log}, 0, 5000);

# One process without mpirun: what it says.
sub alone
{
    my ($script) = @_;
    local %ENV = (%ENV, FTKIT_LEVEL_HDF5_DIRECTORY => scratch(), %memory);
    return scalar `$top/scripts/guard 60 -- $python $script 2>&1`;
}

# ---- the page ------------------------------------------------------------------------------------

my ($page) = slurp("$top/docs/python.md") =~ /^```python\n(.*?)^```$/ms;
write_file(scratch() . '/page.py', $page);
my $said = alone(scratch() . '/page.py');
ok($? == 0 && $said =~ /^sum 0\.0$/m, 'the program of docs/python.md') or diag($said);

# ---- pip -----------------------------------------------------------------------------------------

SKIP: {
    my $pip = "$python -m pip";
    skip('no pip or no setuptools', 1) if system("$pip --version >/dev/null 2>&1 && $python -c 'import setuptools' 2>/dev/null") != 0;
    my $dir = scratch() . '/pip';
    my @install = ('--quiet', '--no-index', '--no-build-isolation', '--no-deps', '--target', "$dir/site", "$dir/source");
    my $log = `mkdir $dir && cp -R $top/bindings/python $dir/source && $pip install @install 2>&1`;
    my $where = `cd $dir && PYTHONPATH=$dir/site:\$PYTHONPATH LIBFTKIT=$build $python -c 'import ftkit; print(ftkit.__file__)' 2>&1`;
    is($where, "$dir/site/ftkit/__init__.py\n", 'pip installs the module') or diag($log);
}

# ---- what is refused -----------------------------------------------------------------------------

$said = alone("$top/tests/python/refused.py");
my $code = $? >> 8;
for my $line (split /\n/, <<'END') {
open: ERR_CONFIG None not fatal: invalid configuration: .+
u: None
again: ERR_EXISTS 0 not fatal: .*'u'
name: ERR_NAME 0 .*'a/b'
gaps: ERR_TYPE .*'gaps'.*not one piece of memory
read-only: ERR_ARG .*'ro'.*read-only
bytes: ERR_ARG .*bytes is read-only
objects: ERR_TYPE .*dtype object.*register_object
order: ERR_TYPE .*byte order of dtype >f8
number: ERR_TYPE .*float has no memory.*register_attribute
scalar: ERR_
list: ERR_TYPE .*list has no memory
columns: None
columns of a block: ERR_TYPE .*the last dimension fastest
dimensions: ERR_ARG .*different numbers of dimensions
halo: ERR_ARG .*smaller than its halo
empty: None
resize: ValueError: cannot resize
buffer: None
grow: BufferError
wait: ERR_STATE .*in `with step:`
subclass: ERR_TYPE .*'m': MaskedArray.*register_attribute
step: 2
no attribute: AttributeError
end: ERR_STATE
child: ERR_ARG .*parent process
decide: {'now': 1.5}
close: <Code.OK: 0>
closed: ERR_ARG .*closed
closed twice: <Code.OK: 0>
no with: RuntimeError: the body of the loop must be `with step:`
abandoned: ERR_STATE .*'x'.*no variable refers
abandoned view: ERR_STATE .*'x'.*no variable refers
collected: (3, True, True)
own error: KeyError: 'mine'
early: (4, True)
as errors: Warning: .*callback.*'x'.*cannot pickle
objects: .*True True True True
members: same
late: ERR_ARG .*closed
END
    my $like = $line =~ s/[(){}]/\\$&/gr;
    ok((grep {/^$like/} split /\n/, $said), $line) or diag($said);
}
is($code, 1, 'a context that outlives MPI_Finalize is closed there: exit code 1');

done_testing();
