/* Atomic calls: the target does them one after the other.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "own.h"

void ftk_shmem_combine(const char *call, void *dest, const void *value, void *old,
    MPI_Datatype type, MPI_Op op, int pe)
{
    struct ftk_shmem_place p = { 0 };
    int bytes;
    MPI_Type_size(type, &bytes);
    if (!ftk_shmem_find(call, dest, (size_t)bytes, pe, &p))
        return;
    int rc = old ? MPI_Fetch_and_op(value, old, type, pe, p.at, op, ftk_shmem_win(&p))
                 : MPI_Accumulate(value, 1, type, pe, p.at, 1, type, op, ftk_shmem_win(&p));
    if (!ftk_shmem_done(call, rc))
        return;
    ftk_shmem_begun(&p);
    if (old)
        (void)ftk_shmem_flush_all(call); /* a lost PE: nobody uses the value */
}

/* The same for a call with a context. */
static void combine(const char *call, shmem_ctx_t ctx, void *dest, const void *value, void *old,
    MPI_Datatype type, MPI_Op op, int pe)
{
    if (ftk_shmem_ready(call) && ftk_shmem_context(call, ctx))
        ftk_shmem_combine(call, dest, value, old, type, op, pe);
}

static void swap_if(const char *call, shmem_ctx_t ctx, void *dest, const void *cond,
    const void *value, void *old, MPI_Datatype type, int pe)
{
    struct ftk_shmem_place p = { 0 };
    int bytes;
    MPI_Type_size(type, &bytes);
    if (!ftk_shmem_ready(call) || !ftk_shmem_context(call, ctx)
        || !ftk_shmem_find(call, dest, (size_t)bytes, pe, &p)
        || !ftk_shmem_done(
            call, MPI_Compare_and_swap(value, cond, old, type, pe, p.at, ftk_shmem_win(&p))))
        return;
    ftk_shmem_begun(&p);
    (void)ftk_shmem_flush_all(call);
}

/* types as arguments have no parentheses */
// NOLINTBEGIN(bugprone-macro-parentheses)
/* Each call is made twice: C is NO, or YES for that with a context. */
#define ARGUMENT_NO
#define ARGUMENT_YES shmem_ctx_t ctx,
#define CTX_NO SHMEM_CTX_DEFAULT
#define CTX_YES ctx

#define WITH_VALUE(C, type, mpi, FETCH, PLAIN, op)                                                 \
    type FETCH(ARGUMENT_##C type *dest, type value, int pe)                                        \
    {                                                                                              \
        type old = 0;                                                                              \
        combine(__func__, CTX_##C, dest, &value, &old, mpi, op, pe);                               \
        return old;                                                                                \
    }                                                                                              \
    void PLAIN(ARGUMENT_##C type *dest, type value, int pe)                                        \
    {                                                                                              \
        combine(__func__, CTX_##C, dest, &value, NULL, mpi, op, pe);                               \
    }

#define NUMBERS(C, type, mpi, CSWAP, FINC, INC, FADD, ADD)                                         \
    WITH_VALUE(C, type, mpi, FADD, ADD, MPI_SUM)                                                   \
    type CSWAP(ARGUMENT_##C type *dest, type cond, type value, int pe)                             \
    {                                                                                              \
        type old = 0;                                                                              \
        swap_if(__func__, CTX_##C, dest, &cond, &value, &old, mpi, pe);                            \
        return old;                                                                                \
    }                                                                                              \
    type FINC(ARGUMENT_##C type *dest, int pe)                                                     \
    {                                                                                              \
        const type one = 1;                                                                        \
        type old = 0;                                                                              \
        combine(__func__, CTX_##C, dest, &one, &old, mpi, MPI_SUM, pe);                            \
        return old;                                                                                \
    }                                                                                              \
    void INC(ARGUMENT_##C type *dest, int pe)                                                      \
    {                                                                                              \
        const type one = 1;                                                                        \
        combine(__func__, CTX_##C, dest, &one, NULL, mpi, MPI_SUM, pe);                            \
    }

#define SWAPS(C, type, mpi, FETCH, SET, SWAP)                                                      \
    WITH_VALUE(C, type, mpi, SWAP, SET, MPI_REPLACE)                                               \
    type FETCH(ARGUMENT_##C const type *source, int pe)                                            \
    {                                                                                              \
        type old = 0;                                                                              \
        combine(__func__, CTX_##C, (void *)(uintptr_t)source, &old, &old, mpi, MPI_NO_OP, pe);     \
        return old;                                                                                \
    }

#define AMO_OF(C, PRE, type, mpi)                                                                  \
    NUMBERS(                                                                                       \
        C, type, mpi, PRE##_compare_swap, PRE##_fetch_inc, PRE##_inc, PRE##_fetch_add, PRE##_add)
#define AMO(name, type, mpi)                                                                       \
    AMO_OF(NO, shmem_##name##_atomic, type, mpi)                                                   \
    AMO_OF(YES, shmem_ctx_##name##_atomic, type, mpi)
#define AMO_SWAP(name, type, mpi)                                                                  \
    SWAPS(NO, type, mpi, shmem_##name##_atomic_fetch, shmem_##name##_atomic_set,                   \
        shmem_##name##_atomic_swap)                                                                \
    SWAPS(YES, type, mpi, shmem_ctx_##name##_atomic_fetch, shmem_ctx_##name##_atomic_set,          \
        shmem_ctx_##name##_atomic_swap)
#define BITS_OF(C, PRE, type, mpi)                                                                 \
    WITH_VALUE(C, type, mpi, PRE##_fetch_and, PRE##_and, MPI_BAND)                                 \
    WITH_VALUE(C, type, mpi, PRE##_fetch_or, PRE##_or, MPI_BOR)                                    \
    WITH_VALUE(C, type, mpi, PRE##_fetch_xor, PRE##_xor, MPI_BXOR)
#define AMO_BITS(name, type, mpi)                                                                  \
    BITS_OF(NO, shmem_##name##_atomic, type, mpi)                                                  \
    BITS_OF(YES, shmem_ctx_##name##_atomic, type, mpi)
#define OLD(name, type, mpi)                                                                       \
    NUMBERS(NO, type, mpi, shmem_##name##_cswap, shmem_##name##_finc, shmem_##name##_inc,          \
        shmem_##name##_fadd, shmem_##name##_add)
#define OLD_SWAP(name, type, mpi)                                                                  \
    SWAPS(NO, type, mpi, shmem_##name##_fetch, shmem_##name##_set, shmem_##name##_swap)

SHMEM_INTEGERS(AMO)
SHMEM_SIZED_INTEGERS(AMO)
SHMEM_ADDRESS_INTEGERS(AMO)
SHMEM_INTEGERS(AMO_SWAP)
SHMEM_SIZED_INTEGERS(AMO_SWAP)
SHMEM_ADDRESS_INTEGERS(AMO_SWAP)
SHMEM_REALS(AMO_SWAP)
SHMEM_BIT_TYPES(AMO_BITS)
SHMEM_BIT_NAMES(AMO_BITS)
SHMEM_OLD_TYPES(OLD)
SHMEM_OLD_TYPES(OLD_SWAP)
SHMEM_REALS(OLD_SWAP)
// NOLINTEND(bugprone-macro-parentheses)
