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

static void swap_if(const char *call, void *dest, const void *cond, const void *value, void *old,
    MPI_Datatype type, int pe)
{
    struct ftk_shmem_place p = { 0 };
    int bytes;
    MPI_Type_size(type, &bytes);
    if (!ftk_shmem_find(call, dest, (size_t)bytes, pe, &p)
        || !ftk_shmem_done(
            call, MPI_Compare_and_swap(value, cond, old, type, pe, p.at, ftk_shmem_win(&p))))
        return;
    ftk_shmem_begun(&p);
    (void)ftk_shmem_flush_all(call);
}

/* types as arguments have no parentheses */
// NOLINTBEGIN(bugprone-macro-parentheses)
#define WITH_VALUE(type, mpi, FETCH, PLAIN, op)                                                    \
    type FETCH(type *dest, type value, int pe)                                                     \
    {                                                                                              \
        type old = 0;                                                                              \
        ftk_shmem_combine(__func__, dest, &value, &old, mpi, op, pe);                              \
        return old;                                                                                \
    }                                                                                              \
    void PLAIN(type *dest, type value, int pe)                                                     \
    {                                                                                              \
        ftk_shmem_combine(__func__, dest, &value, NULL, mpi, op, pe);                              \
    }

#define NUMBERS(type, mpi, CSWAP, FINC, INC, FADD, ADD)                                            \
    WITH_VALUE(type, mpi, FADD, ADD, MPI_SUM)                                                      \
    type CSWAP(type *dest, type cond, type value, int pe)                                          \
    {                                                                                              \
        type old = 0;                                                                              \
        swap_if(__func__, dest, &cond, &value, &old, mpi, pe);                                     \
        return old;                                                                                \
    }                                                                                              \
    type FINC(type *dest, int pe)                                                                  \
    {                                                                                              \
        const type one = 1;                                                                        \
        type old = 0;                                                                              \
        ftk_shmem_combine(__func__, dest, &one, &old, mpi, MPI_SUM, pe);                           \
        return old;                                                                                \
    }                                                                                              \
    void INC(type *dest, int pe)                                                                   \
    {                                                                                              \
        const type one = 1;                                                                        \
        ftk_shmem_combine(__func__, dest, &one, NULL, mpi, MPI_SUM, pe);                           \
    }

#define SWAPS(type, mpi, FETCH, SET, SWAP)                                                         \
    WITH_VALUE(type, mpi, SWAP, SET, MPI_REPLACE)                                                  \
    type FETCH(const type *source, int pe)                                                         \
    {                                                                                              \
        type old = 0;                                                                              \
        ftk_shmem_combine(__func__, (void *)(uintptr_t)source, &old, &old, mpi, MPI_NO_OP, pe);    \
        return old;                                                                                \
    }

#define AMO(name, type, mpi)                                                                       \
    NUMBERS(type, mpi, shmem_##name##_atomic_compare_swap, shmem_##name##_atomic_fetch_inc,        \
        shmem_##name##_atomic_inc, shmem_##name##_atomic_fetch_add, shmem_##name##_atomic_add)
#define AMO_SWAP(name, type, mpi)                                                                  \
    SWAPS(type, mpi, shmem_##name##_atomic_fetch, shmem_##name##_atomic_set,                       \
        shmem_##name##_atomic_swap)
#define AMO_BITS(name, type, mpi)                                                                  \
    WITH_VALUE(type, mpi, shmem_##name##_atomic_fetch_and, shmem_##name##_atomic_and, MPI_BAND)    \
    WITH_VALUE(type, mpi, shmem_##name##_atomic_fetch_or, shmem_##name##_atomic_or, MPI_BOR)       \
    WITH_VALUE(type, mpi, shmem_##name##_atomic_fetch_xor, shmem_##name##_atomic_xor, MPI_BXOR)
#define OLD(name, type, mpi)                                                                       \
    NUMBERS(type, mpi, shmem_##name##_cswap, shmem_##name##_finc, shmem_##name##_inc,              \
        shmem_##name##_fadd, shmem_##name##_add)
#define OLD_SWAP(name, type, mpi)                                                                  \
    SWAPS(type, mpi, shmem_##name##_fetch, shmem_##name##_set, shmem_##name##_swap)

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
