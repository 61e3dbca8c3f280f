#!/usr/bin/perl
# Each function and constant of OpenSHMEM 1.4 for C is declared and exported, and nothing else; the
# names are made here from the tables of the standard.  And its variables of the environment.
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitShmem;
use FtkitTest;
use Test::More;

ulfm_only();

# ---- the tables of the standard: sections 9.3 to 9.12, and those of what is deprecated

my @integers = qw(int long longlong uint ulong ulonglong);
my @fixed = qw(int32 int64 uint32 uint64);
my @rma = (@integers, @fixed, qw(float double longdouble char schar short uchar ushort int8 int16 uint8 uint16 size ptrdiff));
my @amo = (@integers, @fixed, qw(size ptrdiff));
my @sync = (@amo, qw(short ushort));
my @bits = qw(uint ulong ulonglong int32 int64 uint32 uint64);
my @old = qw(int long longlong);
my @sizes = qw(8 16 32 64 128);

sub of { my ($form, @names) = @_; return map { sprintf $form, $_ } @names }

sub with_context { return map { ("shmem_$_", "shmem_ctx_$_") } @_ }

my @functions = (
    of('shmem_%s', qw(init my_pe n_pes finalize global_exit pe_accessible addr_accessible ptr info_get_version
            info_get_name init_thread query_thread malloc free realloc align calloc ctx_create ctx_destroy
            barrier_all barrier sync_all sync fence quiet ctx_fence ctx_quiet wait clear_lock set_lock test_lock
            set_cache_inv set_cache_line_inv clear_cache_inv clear_cache_line_inv udcflush udcflush_line)),
    qw(start_pes _my_pe _num_pes shmalloc shfree shrealloc shmemalign),
    with_context(map { of("%s_$_", @rma) } qw(put get p g iput iget put_nbi get_nbi)),
    with_context(map { my $bits = $_; map { "$_->[0]$bits$_->[1]" } map { [$_, ''], [$_, '_nbi'] } qw(put get) } @sizes, 'mem'),
    with_context(map { ("iput$_", "iget$_") } @sizes),
    with_context(map { of("%s_atomic_$_", @amo) } qw(compare_swap fetch_inc inc fetch_add add)),
    with_context(map { of("%s_atomic_$_", @amo, qw(float double)) } qw(fetch set swap)),
    with_context(map { of("%s_atomic_$_", @bits) } qw(and or xor fetch_and fetch_or fetch_xor)),
    (map { of("shmem_%s_$_", @old) } qw(cswap finc fadd inc add)),
    (map { of("shmem_%s_$_", @old, qw(float double)) } qw(fetch set swap)),
    (map { of("shmem_%s_$_", @sync) } qw(wait_until test)),
    of('shmem_%s_wait', @old, 'short'),
    (map { ("shmem_${_}32", "shmem_${_}64") } qw(broadcast collect fcollect alltoall alltoalls)),
    (map { of("shmem_%s_${_}_to_all", @old, 'short') } qw(and or xor)),
    (map { of("shmem_%s_${_}_to_all", @old, qw(short float double longdouble)) } qw(max min)),
    (map { of("shmem_%s_${_}_to_all", @old, qw(short float double longdouble complexf complexd)) } qw(sum prod)),
);
my @own = qw(shmem_checkpoint_all shmem_query_fault shmem_restart_pes shmem_ft_algo_init shmem_ft_failed);
my @generic = of('shmem_%s', qw(put get p g iput iget put_nbi get_nbi wait_until test cswap finc fadd inc add fetch set swap),
    of('atomic_%s', qw(fetch set compare_swap swap fetch_inc inc fetch_add add and or xor fetch_and fetch_or fetch_xor)));
my @arrays = of('SHMEM_%s_SYNC_SIZE', qw(BCAST BARRIER COLLECT REDUCE ALLTOALL ALLTOALLS));
my @constants = (
    @arrays,
    of('SHMEM_%s', qw(SYNC_SIZE SYNC_VALUE REDUCE_MIN_WRKDATA_SIZE MAJOR_VERSION MINOR_VERSION MAX_NAME_LEN
            CTX_DEFAULT CTX_SERIALIZED CTX_PRIVATE CTX_NOSTORE)),
    of('SHMEM_CMP_%s', qw(EQ NE GT LE LT GE)),
    of('SHMEM_THREAD_%s', qw(SINGLE FUNNELED SERIALIZED MULTIPLE)),
    of('_SHMEM_%s', qw(BCAST_SYNC_SIZE BARRIER_SYNC_SIZE COLLECT_SYNC_SIZE REDUCE_SYNC_SIZE SYNC_VALUE
            REDUCE_MIN_WRKDATA_SIZE MAJOR_VERSION MINOR_VERSION MAX_NAME_LEN)),
    of('_SHMEM_CMP_%s', qw(EQ NE GT LE LT GE)),
);

# ---- exported

my $library = build() . '/libftkit_shmem.so';
my %exported = map { $_ => 1 } grep { !/^FTKIT_SHMEM_/ } map { (split)[-1] =~ s/\@.*//r } split /\n/,
    `nm -D --defined-only '$library'`;
my %wanted = map { $_ => 1 } @functions;
is(join(' ', grep { !$exported{$_} } @functions), '', 'each function of 1.4 is in the library');
is(join(' ', grep { !$wanted{$_} } sort keys %exported), join(' ', sort @own), '... and with them the calls about failures alone');

# ---- declared

my $root = top();
my ($mpicc) = slurp(build() . '/mpi.mk') =~ /^MPICC := (.*)$/m;
for my $header ('shmem.h', 'mpp/shmem.h') {
    my $source = scratch() . '/names.c';
    write_file($source, "#include <$header>\n"
        . join('', map { "#ifndef $_\n#error $_\n#endif\n" } @generic, 'SHMEM_VENDOR_STRING', '_SHMEM_VENDOR_STRING')
        . join('', map { "extern int declared_$_(__typeof__(&($_)));\n" } @functions, @own)
        . join('', map { "extern int constant_$_(__typeof__($_));\n" } @constants)
        . "static shmem_ctx_t context;\nint main(void) { return context != SHMEM_CTX_DEFAULT; }\n");
    my $said = `$mpicc -std=c11 -I'$root/bindings/shmem' -fsyntax-only '$source' 2>&1`;
    is($? >> 8, 0, "... and declared by <$header>") or diag(substr($said, 0, 2000));
}

# ---- variables of the environment

for ([ SHMEM_VERSION => qr/^\0?shmem: ftkit \S+, OpenSHMEM 1\.4$/m ], [ SHMEM_INFO => qr/^\0?shmem: SHMEM_SYMMETRIC_SIZE=96M: /m ]) {
    my ($name, $text) = @$_;
    for my $variable ($name, $name =~ s/^SHMEM/SMA/r) {
        my $j = pes('calls', n => 2, spares => 0, env => { $variable => 1, SMA_SYMMETRIC_SIZE => '1M', SHMEM_SYMMETRIC_SIZE => '96M' });
        my @lines = $j->{log} =~ /$text/g;
        ok($j->{rc} == 0 && @lines == 1, "$variable: PE 0 says so once") or diag(substr($j->{log}, 0, 2000));
    }
}
{
    my $j = pes('calls', n => 2, spares => 0, env => { SMA_SYMMETRIC_SIZE => '12x' });
    ok($j->{rc} != 0 && $j->{log} =~ /SMA_SYMMETRIC_SIZE: '12x' is not a size such as 512M/, 'the old name of the size');
}

done_testing();
