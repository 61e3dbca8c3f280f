/* OpenSHMEM 1.4, for jobs that survive the loss of PEs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The use is in docs/shmem.md.  Symmetric memory is what shmem_malloc() gives, and the global and
 * static variables of the program.  shmem_checkpoint_all() saves all of it, so that nothing has to
 * be listed. */
#ifndef FTKIT_SHMEM_H
#define FTKIT_SHMEM_H

#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#include <complex>
#define SHMEM_COMPLEX(type) std::complex<type>
extern "C" {
#else
#define SHMEM_COMPLEX(type) type _Complex
#endif

#if defined(__GNUC__)
#define SHMEM_API __attribute__((visibility("default")))
#else
#define SHMEM_API
#endif

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 4
#define SHMEM_VENDOR_STRING "ftkit"
#define SHMEM_MAX_NAME_LEN 64
#define _SHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define _SHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define _SHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN

/* Collective calls take these arrays as the standard says, and do not use them. */
#define SHMEM_SYNC_SIZE 1
#define SHMEM_BCAST_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_BARRIER_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1
#define SHMEM_SYNC_VALUE 0L
#define _SHMEM_BCAST_SYNC_SIZE SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_BARRIER_SYNC_SIZE SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE
#define _SHMEM_SYNC_VALUE SHMEM_SYNC_VALUE

enum shmem_cmp {
    SHMEM_CMP_EQ,
    SHMEM_CMP_NE,
    SHMEM_CMP_GT,
    SHMEM_CMP_LE,
    SHMEM_CMP_LT,
    SHMEM_CMP_GE
};
#define _SHMEM_CMP_EQ SHMEM_CMP_EQ
#define _SHMEM_CMP_NE SHMEM_CMP_NE
#define _SHMEM_CMP_GT SHMEM_CMP_GT
#define _SHMEM_CMP_LE SHMEM_CMP_LE
#define _SHMEM_CMP_LT SHMEM_CMP_LT
#define _SHMEM_CMP_GE SHMEM_CMP_GE

/* ---- Types: X(name, type, type of MPI) ------------------------------------------------- */

#define SHMEM_INTEGERS(X)                                                                          \
    X(int, int, MPI_INT)                                                                           \
    X(long, long, MPI_LONG)                                                                        \
    X(longlong, long long, MPI_LONG_LONG)                                                          \
    X(uint, unsigned, MPI_UNSIGNED)                                                                \
    X(ulong, unsigned long, MPI_UNSIGNED_LONG)                                                     \
    X(ulonglong, unsigned long long, MPI_UNSIGNED_LONG_LONG)
/* Other names of types that are in the lists beside this one. */
#define SHMEM_SIZED_INTEGERS(X)                                                                    \
    X(int32, int32_t, MPI_INT32_T)                                                                 \
    X(int64, int64_t, MPI_INT64_T)                                                                 \
    X(uint32, uint32_t, MPI_UINT32_T)                                                              \
    X(uint64, uint64_t, MPI_UINT64_T)
#define SHMEM_ADDRESS_INTEGERS(X)                                                                  \
    X(size, size_t, sizeof(size_t) == 8 ? MPI_UINT64_T : MPI_UINT32_T)                             \
    X(ptrdiff, ptrdiff_t, sizeof(ptrdiff_t) == 8 ? MPI_INT64_T : MPI_INT32_T)
#define SHMEM_REALS(X)                                                                             \
    X(float, float, MPI_FLOAT)                                                                     \
    X(double, double, MPI_DOUBLE)
#define SHMEM_SHORTS(X)                                                                            \
    X(short, short, MPI_SHORT)                                                                     \
    X(ushort, unsigned short, MPI_UNSIGNED_SHORT)

/* put, get and their kin: each type of C once ... */
#define SHMEM_RMA_TYPES(X)                                                                         \
    SHMEM_INTEGERS(X)                                                                              \
    SHMEM_REALS(X)                                                                                 \
    SHMEM_SHORTS(X)                                                                                \
    X(longdouble, long double, MPI_LONG_DOUBLE)                                                    \
    X(char, char, MPI_CHAR)                                                                        \
    X(schar, signed char, MPI_SIGNED_CHAR)                                                         \
    X(uchar, unsigned char, MPI_UNSIGNED_CHAR)
/* ... and their other names */
#define SHMEM_RMA_NAMES(X)                                                                         \
    SHMEM_SIZED_INTEGERS(X)                                                                        \
    SHMEM_ADDRESS_INTEGERS(X)                                                                      \
    X(int8, int8_t, MPI_INT8_T)                                                                    \
    X(int16, int16_t, MPI_INT16_T)                                                                 \
    X(uint8, uint8_t, MPI_UINT8_T)                                                                 \
    X(uint16, uint16_t, MPI_UINT16_T)
/* wait_until, test */
#define SHMEM_SYNC_TYPES(X) SHMEM_INTEGERS(X) SHMEM_SHORTS(X)
#define SHMEM_SYNC_NAMES(X) SHMEM_SIZED_INTEGERS(X) SHMEM_ADDRESS_INTEGERS(X)
/* atomic calls on bits */
#define SHMEM_BIT_TYPES(X)                                                                         \
    X(uint, unsigned, MPI_UNSIGNED)                                                                \
    X(ulong, unsigned long, MPI_UNSIGNED_LONG)                                                     \
    X(ulonglong, unsigned long long, MPI_UNSIGNED_LONG_LONG)
#define SHMEM_BIT_NAMES(X) SHMEM_SIZED_INTEGERS(X)
/* atomic calls of OpenSHMEM before 1.4 */
#define SHMEM_OLD_TYPES(X)                                                                         \
    X(int, int, MPI_INT)                                                                           \
    X(long, long, MPI_LONG)                                                                        \
    X(longlong, long long, MPI_LONG_LONG)
/* reductions: X(name, type, type of MPI) */
#define SHMEM_REDUCE_BITS(X) SHMEM_OLD_TYPES(X) X(short, short, MPI_SHORT)
#define SHMEM_REDUCE_ORDER(X)                                                                      \
    SHMEM_REDUCE_BITS(X) SHMEM_REALS(X) X(longdouble, long double, MPI_LONG_DOUBLE)
#define SHMEM_REDUCE_NUMBERS(X)                                                                    \
    SHMEM_REDUCE_ORDER(X)                                                                          \
    X(complexf, SHMEM_COMPLEX(float), MPI_C_FLOAT_COMPLEX)                                         \
    X(complexd, SHMEM_COMPLEX(double), MPI_C_DOUBLE_COMPLEX)

/* ---- The library ----------------------------------------------------------------------- */

/** An exit of the program with code 0 calls shmem_finalize(). */
SHMEM_API void shmem_init(void);
SHMEM_API void shmem_finalize(void);
SHMEM_API void shmem_global_exit(int status);
SHMEM_API int shmem_my_pe(void);
SHMEM_API int shmem_n_pes(void);
SHMEM_API int shmem_pe_accessible(int pe);
SHMEM_API int shmem_addr_accessible(const void *addr, int pe);
/** The address itself for the own PE, and NULL for all others. */
SHMEM_API void *shmem_ptr(const void *dest, int pe);
SHMEM_API void shmem_info_get_version(int *major, int *minor);
SHMEM_API void shmem_info_get_name(char *name);

enum { SHMEM_THREAD_SINGLE, SHMEM_THREAD_FUNNELED, SHMEM_THREAD_SERIALIZED, SHMEM_THREAD_MULTIPLE };
/** As shmem_init().  Of SHMEM_THREAD_MULTIPLE the library gives SHMEM_THREAD_SERIALIZED.
 * @return 0. */
SHMEM_API int shmem_init_thread(int requested, int *provided);
SHMEM_API void shmem_query_thread(int *provided);

/** As shmem_init(), which it calls once. */
SHMEM_API void start_pes(int npes);
SHMEM_API int _my_pe(void);
SHMEM_API int _num_pes(void);

/* ---- Symmetric memory: collective, with the same arguments on all PEs ---------------------- */

/** All of these return NULL on all PEs when the heap is exhausted, or when the PEs do not ask for
 * the same; a line says which.  They also return NULL after the loss of a PE. */
SHMEM_API void *shmem_malloc(size_t size);
SHMEM_API void *shmem_calloc(size_t count, size_t size);
SHMEM_API void *shmem_realloc(void *ptr, size_t size);
SHMEM_API void *shmem_align(size_t alignment, size_t size);
SHMEM_API void shmem_free(void *ptr);
SHMEM_API void *shmalloc(size_t size);
SHMEM_API void *shrealloc(void *ptr, size_t size);
SHMEM_API void *shmemalign(size_t alignment, size_t size);
SHMEM_API void shfree(void *ptr);

/* ---- Contexts ----------------------------------------------------------------------------- */

/* A handle is a number, and so is valid in a substitute, too. */
typedef struct shmem_ctx *shmem_ctx_t;
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t)1)
enum { SHMEM_CTX_SERIALIZED = 1, SHMEM_CTX_PRIVATE = 2, SHMEM_CTX_NOSTORE = 4 };

/** All contexts have one order, and complete together.
 * @param options of SHMEM_CTX_SERIALIZED and the others: allowed, and without effect.
 * @return 0; another number: there are 384 contexts already, or an option is unknown. */
SHMEM_API int shmem_ctx_create(long options, shmem_ctx_t *ctx);
SHMEM_API void shmem_ctx_destroy(shmem_ctx_t ctx);
SHMEM_API void shmem_ctx_fence(shmem_ctx_t ctx);
SHMEM_API void shmem_ctx_quiet(shmem_ctx_t ctx);

/* The declarations below are made twice: without a context, and with one as first argument. */
#define SHMEM_ARGS(...) (__VA_ARGS__)
#define SHMEM_CTX_ARGS(...) (shmem_ctx_t ctx, __VA_ARGS__)

/* ---- Put and get ------------------------------------------------------------------------- */

#define SHMEM_MEM_DECLARE(PRE, ARGS)                                                               \
    SHMEM_API void PRE##_putmem ARGS(void *dest, const void *source, size_t nelems, int pe);       \
    SHMEM_API void PRE##_getmem ARGS(void *dest, const void *source, size_t nelems, int pe);       \
    SHMEM_API void PRE##_putmem_nbi ARGS(void *dest, const void *source, size_t nelems, int pe);   \
    SHMEM_API void PRE##_getmem_nbi ARGS(void *dest, const void *source, size_t nelems, int pe);
SHMEM_MEM_DECLARE(shmem, SHMEM_ARGS)
SHMEM_MEM_DECLARE(shmem_ctx, SHMEM_CTX_ARGS)
#undef SHMEM_MEM_DECLARE

#define SHMEM_RMA_CALLS(PRE, ARGS, type)                                                           \
    SHMEM_API void PRE##_put ARGS(type *dest, const type *source, size_t nelems, int pe);          \
    SHMEM_API void PRE##_get ARGS(type *dest, const type *source, size_t nelems, int pe);          \
    SHMEM_API void PRE##_put_nbi ARGS(type *dest, const type *source, size_t nelems, int pe);      \
    SHMEM_API void PRE##_get_nbi ARGS(type *dest, const type *source, size_t nelems, int pe);      \
    SHMEM_API void PRE##_p ARGS(type *dest, type value, int pe);                                   \
    SHMEM_API type PRE##_g ARGS(const type *source, int pe);                                       \
    SHMEM_API void PRE##_iput ARGS(                                                                \
        type *dest, const type *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);      \
    SHMEM_API void PRE##_iget ARGS(                                                                \
        type *dest, const type *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
#define SHMEM_RMA_DECLARE(name, type, mpi)                                                         \
    SHMEM_RMA_CALLS(shmem_##name, SHMEM_ARGS, type)                                                \
    SHMEM_RMA_CALLS(shmem_ctx_##name, SHMEM_CTX_ARGS, type)
SHMEM_RMA_TYPES(SHMEM_RMA_DECLARE)
SHMEM_RMA_NAMES(SHMEM_RMA_DECLARE)
#undef SHMEM_RMA_DECLARE
#undef SHMEM_RMA_CALLS

/* Elements of so many bits: X(bits, bytes). */
#define SHMEM_SIZES(X) X(8, 1) X(16, 2) X(32, 4) X(64, 8) X(128, 16)
#define SHMEM_SIZE_CALLS(PRE, ARGS, bits)                                                          \
    SHMEM_API void PRE##_put##bits ARGS(void *dest, const void *source, size_t nelems, int pe);    \
    SHMEM_API void PRE##_get##bits ARGS(void *dest, const void *source, size_t nelems, int pe);    \
    SHMEM_API void PRE##_put##bits##_nbi ARGS(                                                     \
        void *dest, const void *source, size_t nelems, int pe);                                    \
    SHMEM_API void PRE##_get##bits##_nbi ARGS(                                                     \
        void *dest, const void *source, size_t nelems, int pe);                                    \
    SHMEM_API void PRE##_iput##bits ARGS(                                                          \
        void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);      \
    SHMEM_API void PRE##_iget##bits ARGS(                                                          \
        void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
#define SHMEM_SIZE_DECLARE(bits, bytes)                                                            \
    SHMEM_SIZE_CALLS(shmem, SHMEM_ARGS, bits)                                                      \
    SHMEM_SIZE_CALLS(shmem_ctx, SHMEM_CTX_ARGS, bits)
SHMEM_SIZES(SHMEM_SIZE_DECLARE)
#undef SHMEM_SIZE_DECLARE
#undef SHMEM_SIZE_CALLS

/* ---- Atomic calls ------------------------------------------------------------------------ */

#define SHMEM_AMO_CALLS(PRE, ARGS, type)                                                           \
    SHMEM_API type PRE##_compare_swap ARGS(type *dest, type cond, type value, int pe);             \
    SHMEM_API type PRE##_fetch_inc ARGS(type *dest, int pe);                                       \
    SHMEM_API void PRE##_inc ARGS(type *dest, int pe);                                             \
    SHMEM_API type PRE##_fetch_add ARGS(type *dest, type value, int pe);                           \
    SHMEM_API void PRE##_add ARGS(type *dest, type value, int pe);
#define SHMEM_SWAP_CALLS(PRE, ARGS, type)                                                          \
    SHMEM_API type PRE##_fetch ARGS(const type *source, int pe);                                   \
    SHMEM_API void PRE##_set ARGS(type *dest, type value, int pe);                                 \
    SHMEM_API type PRE##_swap ARGS(type *dest, type value, int pe);
#define SHMEM_BIT_CALLS(PRE, ARGS, type)                                                           \
    SHMEM_API type PRE##_fetch_and ARGS(type *dest, type value, int pe);                           \
    SHMEM_API void PRE##_and ARGS(type *dest, type value, int pe);                                 \
    SHMEM_API type PRE##_fetch_or ARGS(type *dest, type value, int pe);                            \
    SHMEM_API void PRE##_or ARGS(type *dest, type value, int pe);                                  \
    SHMEM_API type PRE##_fetch_xor ARGS(type *dest, type value, int pe);                           \
    SHMEM_API void PRE##_xor ARGS(type *dest, type value, int pe);
#define SHMEM_AMO_DECLARE(name, type, mpi)                                                         \
    SHMEM_AMO_CALLS(shmem_##name##_atomic, SHMEM_ARGS, type)                                       \
    SHMEM_AMO_CALLS(shmem_ctx_##name##_atomic, SHMEM_CTX_ARGS, type)
#define SHMEM_SWAP_DECLARE(name, type, mpi)                                                        \
    SHMEM_SWAP_CALLS(shmem_##name##_atomic, SHMEM_ARGS, type)                                      \
    SHMEM_SWAP_CALLS(shmem_ctx_##name##_atomic, SHMEM_CTX_ARGS, type)
#define SHMEM_BIT_DECLARE(name, type, mpi)                                                         \
    SHMEM_BIT_CALLS(shmem_##name##_atomic, SHMEM_ARGS, type)                                       \
    SHMEM_BIT_CALLS(shmem_ctx_##name##_atomic, SHMEM_CTX_ARGS, type)
#define SHMEM_OLD_DECLARE(name, type, mpi)                                                         \
    SHMEM_API type shmem_##name##_cswap(type *dest, type cond, type value, int pe);                \
    SHMEM_API type shmem_##name##_finc(type *dest, int pe);                                        \
    SHMEM_API void shmem_##name##_inc(type *dest, int pe);                                         \
    SHMEM_API type shmem_##name##_fadd(type *dest, type value, int pe);                            \
    SHMEM_API void shmem_##name##_add(type *dest, type value, int pe);
#define SHMEM_OLD_SWAP_DECLARE(name, type, mpi) SHMEM_SWAP_CALLS(shmem_##name, SHMEM_ARGS, type)
SHMEM_INTEGERS(SHMEM_AMO_DECLARE)
SHMEM_SIZED_INTEGERS(SHMEM_AMO_DECLARE)
SHMEM_ADDRESS_INTEGERS(SHMEM_AMO_DECLARE)
SHMEM_INTEGERS(SHMEM_SWAP_DECLARE)
SHMEM_SIZED_INTEGERS(SHMEM_SWAP_DECLARE)
SHMEM_ADDRESS_INTEGERS(SHMEM_SWAP_DECLARE)
SHMEM_REALS(SHMEM_SWAP_DECLARE)
SHMEM_BIT_TYPES(SHMEM_BIT_DECLARE)
SHMEM_BIT_NAMES(SHMEM_BIT_DECLARE)
SHMEM_OLD_TYPES(SHMEM_OLD_DECLARE)
SHMEM_OLD_TYPES(SHMEM_OLD_SWAP_DECLARE)
SHMEM_REALS(SHMEM_OLD_SWAP_DECLARE)
#undef SHMEM_AMO_DECLARE
#undef SHMEM_AMO_CALLS
#undef SHMEM_SWAP_DECLARE
#undef SHMEM_SWAP_CALLS
#undef SHMEM_BIT_DECLARE
#undef SHMEM_BIT_CALLS
#undef SHMEM_OLD_DECLARE
#undef SHMEM_OLD_SWAP_DECLARE
#undef SHMEM_CTX_ARGS
#undef SHMEM_ARGS

/* ---- Order, and waiting -------------------------------------------------------------------- */

SHMEM_API void shmem_fence(void);
SHMEM_API void shmem_quiet(void);
SHMEM_API void shmem_barrier_all(void);
SHMEM_API void shmem_sync_all(void);
SHMEM_API void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync);
SHMEM_API void shmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync);

/** Also these return when a PE is lost, and the test gives 1: the next call is then
 * shmem_checkpoint_all(). */
#define SHMEM_WAIT_DECLARE(name, type, mpi)                                                        \
    SHMEM_API void shmem_##name##_wait_until(type *ivar, int cmp, type cmp_value);                 \
    SHMEM_API int shmem_##name##_test(type *ivar, int cmp, type cmp_value);
SHMEM_SYNC_TYPES(SHMEM_WAIT_DECLARE)
SHMEM_SYNC_NAMES(SHMEM_WAIT_DECLARE)
#undef SHMEM_WAIT_DECLARE
/* Until the variable has another value: OpenSHMEM before 1.4. */
#define SHMEM_OLD_WAIT_TYPES(X) SHMEM_OLD_TYPES(X) X(short, short, MPI_SHORT)
#define SHMEM_OLD_WAIT_DECLARE(name, type, mpi)                                                    \
    SHMEM_API void shmem_##name##_wait(type *ivar, type cmp_value);
SHMEM_OLD_WAIT_TYPES(SHMEM_OLD_WAIT_DECLARE)
#undef SHMEM_OLD_WAIT_DECLARE
SHMEM_API void shmem_wait(long *ivar, long cmp_value);

/** Caches of this machine are coherent: these calls of OpenSHMEM before 1.3 do nothing. */
SHMEM_API void shmem_set_cache_inv(void);
SHMEM_API void shmem_clear_cache_inv(void);
SHMEM_API void shmem_set_cache_line_inv(void *dest);
SHMEM_API void shmem_clear_cache_line_inv(void *dest);
SHMEM_API void shmem_udcflush(void);
SHMEM_API void shmem_udcflush_line(void *dest);

SHMEM_API void shmem_set_lock(long *lock);
SHMEM_API void shmem_clear_lock(long *lock);
/** 0: this PE has the lock now, or a PE is lost; 1: another one has it. */
SHMEM_API int shmem_test_lock(long *lock);

/* ---- Collective calls ---------------------------------------------------------------------- */

#define SHMEM_COLLECT_DECLARE(bits)                                                                \
    SHMEM_API void shmem_broadcast##bits(void *dest, const void *source, size_t nelems,            \
        int PE_root, int PE_start, int logPE_stride, int PE_size, long *pSync);                    \
    SHMEM_API void shmem_collect##bits(void *dest, const void *source, size_t nelems,              \
        int PE_start, int logPE_stride, int PE_size, long *pSync);                                 \
    SHMEM_API void shmem_fcollect##bits(void *dest, const void *source, size_t nelems,             \
        int PE_start, int logPE_stride, int PE_size, long *pSync);                                 \
    SHMEM_API void shmem_alltoall##bits(void *dest, const void *source, size_t nelems,             \
        int PE_start, int logPE_stride, int PE_size, long *pSync);                                 \
    SHMEM_API void shmem_alltoalls##bits(void *dest, const void *source, ptrdiff_t dst,            \
        ptrdiff_t sst, size_t nelems, int PE_start, int logPE_stride, int PE_size, long *pSync);
SHMEM_COLLECT_DECLARE(32)
SHMEM_COLLECT_DECLARE(64)
#undef SHMEM_COLLECT_DECLARE

#define SHMEM_REDUCE_DECLARE(name, type, op)                                                       \
    SHMEM_API void shmem_##name##_##op##_to_all(type *dest, const type *source, int nreduce,       \
        int PE_start, int logPE_stride, int PE_size, type *pWrk, long *pSync);
#define SHMEM_BITS_DECLARE(name, type, mpi)                                                        \
    SHMEM_REDUCE_DECLARE(name, type, and)                                                          \
    SHMEM_REDUCE_DECLARE(name, type, or)                                                           \
    SHMEM_REDUCE_DECLARE(name, type, xor)
#define SHMEM_ORDER_DECLARE(name, type, mpi)                                                       \
    SHMEM_REDUCE_DECLARE(name, type, max)                                                          \
    SHMEM_REDUCE_DECLARE(name, type, min)
#define SHMEM_NUMBERS_DECLARE(name, type, mpi)                                                     \
    SHMEM_REDUCE_DECLARE(name, type, sum)                                                          \
    SHMEM_REDUCE_DECLARE(name, type, prod)
SHMEM_REDUCE_BITS(SHMEM_BITS_DECLARE)
SHMEM_REDUCE_ORDER(SHMEM_ORDER_DECLARE)
SHMEM_REDUCE_NUMBERS(SHMEM_NUMBERS_DECLARE)
#undef SHMEM_REDUCE_DECLARE
#undef SHMEM_BITS_DECLARE
#undef SHMEM_ORDER_DECLARE
#undef SHMEM_NUMBERS_DECLARE

/* ---- Failures -------------------------------------------------------------------------------
 * The four calls of P. Hao's checkpoint and restart for OpenSHMEM (University of Houston, 2016). */

/** 1: a PE is lost, or this PE has not called shmem_checkpoint_all() since its memory was restored
 * in shmem_init(): go on to shmem_checkpoint_all().  A loop of the program that waits asks this.
 * The call serves other PEs, too.  Local. */
SHMEM_API int shmem_ft_failed(void);

enum { SHMEM_FT_SUCCESS = 0, SHMEM_FT_FAILURE = 1 };
/* A status of shmem_query_fault(): why the process of the PE was lost. */
enum {
    SHMEM_FT_PE_LOST = 1,   /* not known */
    SHMEM_FT_PE_SIGNAL = 2, /* killed by a signal */
    SHMEM_FT_PE_NODE = 3,   /* its node is lost */
    SHMEM_FT_PE_EXIT = 4,   /* it has ended before shmem_finalize() */
    SHMEM_FT_PE_ABORT = 5,  /* shmem_global_exit() while the loss of another PE was known */
    SHMEM_FT_PE_STUCK = 6   /* it stood still, and the watchdog has killed it */
};

/**
 * Save the symmetric memory of all PEs.
 *
 * @return SHMEM_FT_SUCCESS: no PE was lost, and the memory is saved.  When the set could not be
 *         written, a line on stderr says so, and the set before holds.
 *         SHMEM_FT_FAILURE: a PE was lost since the last call.  Then nothing was saved: a
 *         substitute has taken the place of each lost PE, and the symmetric memory of all PEs is
 *         as it was saved last.  Call shmem_restart_pes().
 *
 * From the loss of a PE until this call the other calls do nothing, or what they give is not to be
 * used.
 * Collective: all PEs.
 */
SHMEM_API int shmem_checkpoint_all(void);

/** The PEs that were lost since shmem_checkpoint_all() has saved last, in rising order, and why:
 * [*numpes] each, from malloc(), so free() both.  Collective. */
SHMEM_API void shmem_query_fault(int **pes, int **pes_status, size_t *numpes);

/** Check the list; the memory is restored already.
 * @param pes [numpes] as of shmem_query_fault(); a PE that was not lost ends the job.
 * Collective. */
SHMEM_API void shmem_restart_pes(int *pes, size_t numpes);

/** 1: the program begins, and has to set up its data; 0: this PE is a substitute, or the job goes
 * on from files, and the memory is restored. */
SHMEM_API int shmem_ft_algo_init(void);

#ifdef __cplusplus
} /* extern "C" */
/* The number by its address.  A template, so a literal 0 is the number. */
template <typename T> static inline void shmem_restart_pes(int *pes, T *numpes)
{
    const size_t *at = numpes;
    shmem_restart_pes(pes, *at);
}
#if defined(__GNUC__)
/* Complex numbers of C in C++. */
__extension__ typedef _Complex float shmem_ft_complexf;
__extension__ typedef _Complex double shmem_ft_complexd;
#define SHMEM_COMPLEX_CALL(name, type, op)                                                         \
    static inline void shmem_##name##_##op##_to_all(shmem_ft_##name *dest,                         \
        const shmem_ft_##name *source, int nreduce, int PE_start, int logPE_stride, int PE_size,   \
        shmem_ft_##name *pWrk, long *pSync)                                                        \
    {                                                                                              \
        shmem_##name##_##op##_to_all(reinterpret_cast<std::complex<type> *>(dest),                 \
            reinterpret_cast<const std::complex<type> *>(source), nreduce, PE_start, logPE_stride, \
            PE_size, reinterpret_cast<std::complex<type> *>(pWrk), pSync);                         \
    }
SHMEM_COMPLEX_CALL(complexf, float, sum)
SHMEM_COMPLEX_CALL(complexf, float, prod)
SHMEM_COMPLEX_CALL(complexd, double, sum)
SHMEM_COMPLEX_CALL(complexd, double, prod)
#undef SHMEM_COMPLEX_CALL
#endif
#else

static inline size_t shmem_ft_number(size_t n)
{
    return n;
}
static inline size_t shmem_ft_number_at(const size_t *n)
{
    return *n;
}
/* The number, or its address as in listing 4.1. */
#define shmem_restart_pes(pes, n)                                                                  \
    shmem_restart_pes(pes, _Generic((n), size_t *                                                  \
                                    : shmem_ft_number_at, default                                  \
                                    : shmem_ft_number)(n))
#include "shmem_generic.h"

#endif
#endif
