/* Order, waiting and locks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call that waits first completes what this PE has begun: another PE may wait for that.  After a
 * loss each of them says that the wait is over. */
#include <stdatomic.h>

#include "own.h"

void shmem_fence(void)
{
    (void)ftk_shmem_ready("shmem_fence"); /* only whether the library is open */
    ftk_shmem.fenced = true;
    atomic_thread_fence(memory_order_seq_cst); /* also of stores by shmem_ptr() */
}

void shmem_quiet(void)
{
    if (ftk_shmem_ready("shmem_quiet"))
        (void)ftk_shmem_flush_all("shmem_quiet");
}

/* ---- one variable -------------------------------------------------------------------- */

/* types as arguments have no parentheses */
// NOLINTBEGIN(bugprone-macro-parentheses)
#define COMPARES(type)                                                                             \
    (cmp == SHMEM_CMP_EQ      ? *(volatile type *)ivar == cmp_value                                \
        : cmp == SHMEM_CMP_NE ? *(volatile type *)ivar != cmp_value                                \
        : cmp == SHMEM_CMP_GT ? *(volatile type *)ivar > cmp_value                                 \
        : cmp == SHMEM_CMP_LE ? *(volatile type *)ivar <= cmp_value                                \
        : cmp == SHMEM_CMP_LT ? *(volatile type *)ivar < cmp_value                                 \
                              : *(volatile type *)ivar >= cmp_value)

static bool begin(const char *call, const void *ivar, size_t bytes, int cmp)
{
    struct ftk_shmem_place p = { 0 };
    if (!ftk_shmem_find(call, ivar, bytes, ftk_shmem.me, &p))
        return false;
    if (cmp < SHMEM_CMP_EQ || cmp > SHMEM_CMP_GE)
        return ftk_shmem_mistake("%s: %d is not a comparison", call, cmp);
    return ftk_shmem_flush_all(call);
}

#define WAITS(name, type, mpi)                                                                     \
    void shmem_##name##_wait_until(type *ivar, int cmp, type cmp_value)                            \
    {                                                                                              \
        if (!begin(__func__, ivar, sizeof *ivar, cmp))                                             \
            return;                                                                                \
        while (!COMPARES(type))                                                                    \
            if (!ftk_shmem_look(__func__))                                                         \
                return;                                                                            \
        atomic_thread_fence(memory_order_acquire);                                                 \
    }                                                                                              \
    int shmem_##name##_test(type *ivar, int cmp, type cmp_value)                                   \
    {                                                                                              \
        const bool is = !begin(__func__, ivar, sizeof *ivar, cmp) || !ftk_shmem_look(__func__)     \
                        || COMPARES(type);                                                         \
        atomic_thread_fence(memory_order_acquire);                                                 \
        return is;                                                                                 \
    }
SHMEM_SYNC_TYPES(WAITS)
SHMEM_SYNC_NAMES(WAITS)

#define OLD_WAIT(name, type, mpi)                                                                  \
    void shmem_##name##_wait(type *ivar, type cmp_value)                                           \
    {                                                                                              \
        shmem_##name##_wait_until(ivar, SHMEM_CMP_NE, cmp_value);                                  \
    }
SHMEM_OLD_WAIT_TYPES(OLD_WAIT)

void shmem_wait(long *ivar, long cmp_value)
{
    shmem_long_wait_until(ivar, SHMEM_CMP_NE, cmp_value);
}

/* ---- locks ---------------------------------------------------------------------------
 * The word of a lock, on one PE, has two numbers: above the next ticket, below the ticket whose
 * turn it is.  So PEs get the lock in the order in which they have asked. */

#define TICKET ((uint64_t)1 << 32)
#define TURN (TICKET - 1)

_Static_assert(sizeof(long) == sizeof(uint64_t), "a lock has two numbers of 32 bits");

/* The PE that has the word: not the same for all locks. */
static int keeper(const long *lock)
{
    return (int)((uintptr_t)lock / sizeof *lock % (uintptr_t)ftk_shmem.n);
}

static uint64_t swap(const char *call, long *lock, uint64_t from, uint64_t to)
{
    struct ftk_shmem_place p = { 0 };
    uint64_t old = ~from;
    if (ftk_shmem_ready(call) && ftk_shmem_find(call, lock, sizeof *lock, keeper(lock), &p)
        && ftk_shmem_done(call,
            MPI_Compare_and_swap(&to, &from, &old, MPI_UINT64_T, p.pe, p.at, ftk_shmem_win(&p)))) {
        ftk_shmem_begun(&p);
        (void)ftk_shmem_flush_all(call);
    }
    return old;
}

static uint64_t add(const char *call, long *lock, uint64_t value)
{
    uint64_t old = 0;
    if (ftk_shmem_ready(call))
        ftk_shmem_combine(call, lock, &value, &old, MPI_UINT64_T, MPI_SUM, keeper(lock));
    return old;
}

void shmem_set_lock(long *lock)
{
    uint64_t word = add("shmem_set_lock", lock, TICKET);
    const uint64_t mine = word >> 32;
    while (ftk_shmem_ready("shmem_set_lock") && (word & TURN) != mine)
        word = add("shmem_set_lock", lock, 0);
}

/* The operations of this PE under the lock are complete before another PE has the lock. */
void shmem_clear_lock(long *lock)
{
    uint64_t word = add("shmem_clear_lock", lock, 0), was;
    for (; ftk_shmem_ready("shmem_clear_lock"); word = was) {
        if (word >> 32 == (word & TURN)) {
            (void)ftk_shmem_mistake("shmem_clear_lock: no PE has the lock %p", (void *)lock);
            return;
        }
        was = swap("shmem_clear_lock", lock, word, (word & ~TURN) | ((word + 1) & TURN));
        if (was == word)
            return;
    }
}

/* After a loss the answer is 0, so a loop of the program ends. */
int shmem_test_lock(long *lock)
{
    const char *const call = "shmem_test_lock";
    const uint64_t word = add(call, lock, 0);
    const bool has = word >> 32 == (word & TURN) && swap(call, lock, word, word + TICKET) == word;
    return !has && ftk_shmem_ready(call);
}
// NOLINTEND(bugprone-macro-parentheses)

/* ---- caches: coherent on all machines of ftkit ------------------------------------------- */

void shmem_set_cache_inv(void)
{
}

void shmem_clear_cache_inv(void)
{
}

void shmem_set_cache_line_inv(void *dest)
{
    (void)dest;
}

void shmem_clear_cache_line_inv(void *dest)
{
    (void)dest;
}

void shmem_udcflush(void)
{
}

void shmem_udcflush_line(void *dest)
{
    (void)dest;
}
