/* Every family of calls of SHMEM against expected values: "OK" and a number of checks, or what was
 * wrong.  An argument is the name of a mistake, which ends the job; "each" and names: PE 0 makes
 * these mistakes one after another, and then those that need the end of MPI.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>
#include <shmem.h>

#include "check.h"
#include "each.h"

static long sync_[SHMEM_COLLECT_SYNC_SIZE];

/* ---- put and get: each type; all kinds of symmetric memory ------------------------------ */

static long sent; /* a static variable */
long shared[8];   /* a global one */

#define TYPED(name, type, mpi)                                                                     \
    do {                                                                                           \
        static type here[8];                                                                       \
        type from[8], back[8] = { 0 };                                                             \
        for (int i = 0; i < 8; i++) {                                                              \
            here[i] = 0;                                                                           \
            from[i] = (type)(me * 8 + i);                                                          \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        shmem_##name##_put(here, from, 3, next_pe(1));                                             \
        shmem_##name##_put_nbi(here + 3, from + 3, 1, next_pe(1));                                 \
        shmem_##name##_iput(here + 4, from + 4, 2, 1, 2, next_pe(1));                              \
        shmem_##name##_p(here + 7, (type)7, next_pe(1));                                           \
        shmem_barrier_all();                                                                       \
        const int left = next_pe(n - 1) * 8;                                                       \
        for (int i = 0; i < 5; i++)                                                                \
            CHECK(here[i] == (type)(left + i));                                                    \
        CHECK(here[5] == 0 && here[6] == (type)(left + 5) && here[7] == (type)7);                  \
        shmem_##name##_get(back, here, 2, next_pe(1));                                             \
        CHECK(back[0] == from[0] && back[1] == from[1]);                                           \
        shmem_##name##_iget(back + 2, here, 1, 2, 2, next_pe(1));                                  \
        CHECK(back[2] == from[0] && back[3] == from[2]);                                           \
        shmem_##name##_get_nbi(back + 4, here + 7, 1, next_pe(1));                                 \
        shmem_quiet();                                                                             \
        CHECK(back[4] == (type)7 && shmem_##name##_g(here + 1, next_pe(1)) == from[1]);            \
        shmem_barrier_all();                                                                       \
    } while (0);

#define SIZED(bits, bytes)                                                                         \
    do {                                                                                           \
        const size_t w = (bytes);                                                                  \
        static unsigned char here[8 * (bytes)];                                                    \
        unsigned char from[8 * (bytes)], back[8 * (bytes)] = { 0 };                                \
        for (size_t i = 0; i < sizeof from; i++)                                                   \
            from[i] = (unsigned char)(me + (int)i);                                                \
        memset(here, 255, sizeof here);                                                            \
        shmem_barrier_all();                                                                       \
        shmem_put##bits(here, from, 2, next_pe(1));                                                \
        shmem_put##bits##_nbi(here + 2 * w, from + 2 * w, 1, next_pe(1));                          \
        shmem_iput##bits(here + 4 * w, from + 4 * w, 2, 1, 2, next_pe(1));                         \
        shmem_barrier_all();                                                                       \
        shmem_get##bits(back, here, 3, next_pe(1));                                                \
        CHECK(memcmp(back, from, 3 * w) == 0);                                                     \
        shmem_iget##bits(back, here + 4 * w, 1, 2, 2, next_pe(1));                                 \
        CHECK(memcmp(back, from + 4 * w, 2 * w) == 0);                                             \
        shmem_get##bits##_nbi(back, here + 5 * w, 1, next_pe(1));                                  \
        shmem_quiet();                                                                             \
        CHECK(back[0] == 255);                                                                     \
        shmem_barrier_all();                                                                       \
    } while (0);

static void generic(void)
{
    static long double x;
    static unsigned char c[2];
    long double y = 0;
    shmem_p(&x, (long double)1 / 3, me);
    shmem_get(&y, &x, 1, me);
    CHECK(y == (long double)1 / 3 && shmem_g(&x, me) == y);
    const unsigned char d[2] = { 4, 5 };
    shmem_put(c, d, 2, me);
    shmem_quiet();
    CHECK(c[1] == 5);
    shmem_barrier_all();
}

static void rma(void)
{
    SHMEM_RMA_TYPES(TYPED)
    SHMEM_RMA_NAMES(TYPED)
    SHMEM_SIZES(SIZED)
    generic();
    const long value = 100 + me;
    shmem_putmem(&sent, &value, sizeof sent, next_pe(1));
    shmem_long_p(&shared[me], value, 0);
    shmem_barrier_all();
    CHECK(sent == 100 + next_pe(n - 1));
    for (int i = 0; me == 0 && i < n; i++)
        CHECK(shared[i] == 100 + i);
    CHECK(shmem_ptr(&sent, me) == &sent && shmem_ptr(&sent, next_pe(1)) == NULL);
    CHECK(shmem_addr_accessible(shared, 0) && !shmem_addr_accessible(&value, 0));
    CHECK(shmem_pe_accessible(n - 1) && !shmem_pe_accessible(n) && !shmem_pe_accessible(-1));
}

/* More than a queue, and more than a message. */
static void large(void)
{
    const size_t many = (size_t)1 << 18;
    int64_t *here = shmem_malloc(many * sizeof *here), *own = malloc(many * sizeof *own);
    for (size_t i = 0; here && own && i < many; i++)
        own[i] = (int64_t)i * (me + 1);
    shmem_int64_put(here, own, many, next_pe(1));
    shmem_barrier_all();
    bool same = true;
    for (size_t i = 0; here && i < many; i++)
        same = same && here[i] == (int64_t)i * (next_pe(n - 1) + 1);
    CHECK(same);
    free(own);
    shmem_free(here);
}

/* ---- atomic calls ----------------------------------------------------------------------- */

#define AMO(name, type, mpi)                                                                       \
    do {                                                                                           \
        static type x, turns;                                                                      \
        x = turns = 0;                                                                             \
        shmem_barrier_all();                                                                       \
        shmem_##name##_atomic_add(&x, 3, 0);                                                       \
        shmem_##name##_atomic_inc(&x, 0);                                                          \
        CHECK(shmem_##name##_atomic_fetch_add(&turns, 2, 0) < (type)(3 * n));                      \
        CHECK(shmem_##name##_atomic_fetch_inc(&turns, 0) < (type)(3 * n));                         \
        shmem_barrier_all();                                                                       \
        CHECK(shmem_##name##_atomic_fetch(&x, 0) == (type)(4 * n));                                \
        CHECK(shmem_##name##_atomic_fetch(&turns, 0) == (type)(3 * n));                            \
        shmem_barrier_all();                                                                       \
        CHECK(shmem_##name##_atomic_compare_swap(&x, 1, 2, me) == (me ? 0 : (type)(4 * n)));       \
        shmem_##name##_atomic_set(&x, 5, me);                                                      \
        CHECK(shmem_##name##_atomic_compare_swap(&x, 5, 9, me) == 5);                              \
        CHECK(shmem_##name##_atomic_swap(&x, 4, me) == 9 && x == 4);                               \
        shmem_barrier_all();                                                                       \
    } while (0);
#define BITS(name, type, mpi)                                                                      \
    do {                                                                                           \
        static type x;                                                                             \
        const int to = next_pe(1);                                                                 \
        x = 6;                                                                                     \
        shmem_barrier_all();                                                                       \
        CHECK(shmem_##name##_atomic_fetch_and(&x, 3, to) == 6);                                    \
        CHECK(shmem_##name##_atomic_fetch_or(&x, 8, to) == 2);                                     \
        CHECK(shmem_##name##_atomic_fetch_xor(&x, 15, to) == 10);                                  \
        shmem_##name##_atomic_or(&x, 16, to);                                                      \
        shmem_##name##_atomic_xor(&x, 1, to);                                                      \
        shmem_##name##_atomic_and(&x, 28, to);                                                     \
        shmem_barrier_all();                                                                       \
        CHECK(x == 20);                                                                            \
        shmem_barrier_all();                                                                       \
    } while (0);
#define SWAPS(name, type, mpi)                                                                     \
    do {                                                                                           \
        static type x;                                                                             \
        x = (type)1 / 2;                                                                           \
        shmem_barrier_all();                                                                       \
        CHECK(shmem_##name##_swap(&x, 3, next_pe(1)) == (type)1 / 2);                              \
        CHECK(shmem_##name##_fetch(&x, next_pe(1)) == 3);                                          \
        shmem_##name##_set(&x, (type)me, next_pe(1));                                              \
        shmem_barrier_all();                                                                       \
        CHECK(x == (type)next_pe(n - 1));                                                          \
        shmem_barrier_all();                                                                       \
    } while (0);
#define OLD(name, type, mpi)                                                                       \
    do {                                                                                           \
        static type x;                                                                             \
        x = 1;                                                                                     \
        shmem_barrier_all();                                                                       \
        CHECK(shmem_##name##_finc(&x, next_pe(1)) == 1);                                           \
        CHECK(shmem_##name##_fadd(&x, 2, next_pe(1)) == 2);                                        \
        shmem_##name##_inc(&x, next_pe(1));                                                        \
        shmem_##name##_add(&x, 3, next_pe(1));                                                     \
        CHECK(shmem_##name##_cswap(&x, 8, 1, next_pe(1)) == 8);                                    \
        shmem_barrier_all();                                                                       \
        CHECK(x == 1);                                                                             \
        shmem_barrier_all();                                                                       \
    } while (0);

static void atomic(void)
{
    SHMEM_INTEGERS(AMO)
    SHMEM_SIZED_INTEGERS(AMO)
    SHMEM_ADDRESS_INTEGERS(AMO)
    SHMEM_BIT_TYPES(BITS)
    SHMEM_BIT_NAMES(BITS)
    SHMEM_OLD_TYPES(OLD)
    SHMEM_OLD_TYPES(SWAPS)
    SHMEM_REALS(SWAPS)
    static int32_t bits;
    static double real;
    shmem_atomic_or(&bits, 5, me);
    CHECK(shmem_atomic_fetch_xor(&bits, 1, me) == 5 && shmem_atomic_fetch(&bits, me) == 4);
    CHECK(shmem_atomic_swap(&real, 2.5, me) == 0 && shmem_atomic_fetch(&real, me) == 2.5);
    shmem_barrier_all();
}

/* ---- waiting, locks --------------------------------------------------------------------- */

#define WAITS(name, type, mpi)                                                                     \
    do {                                                                                           \
        static type x;                                                                             \
        x = 0;                                                                                     \
        shmem_barrier_all();                                                                       \
        CHECK(!shmem_##name##_test(&x, SHMEM_CMP_GT, 10));                                         \
        shmem_##name##_p(&x, 5, next_pe(1)); /* without a quiet: the wait completes it */          \
        shmem_##name##_wait_until(&x, SHMEM_CMP_NE, 0);                                            \
        shmem_##name##_wait_until(&x, SHMEM_CMP_EQ, 5);                                            \
        CHECK(shmem_##name##_test(&x, SHMEM_CMP_GE, 5) && shmem_##name##_test(&x, SHMEM_CMP_LE, 5) \
              && shmem_##name##_test(&x, SHMEM_CMP_GT, 4)                                          \
              && shmem_##name##_test(&x, SHMEM_CMP_LT, 6)                                          \
              && !shmem_##name##_test(&x, SHMEM_CMP_NE, 5));                                       \
        shmem_barrier_all();                                                                       \
    } while (0);

/* PEs add to a sum by get and put, which is right only under the lock. */
static void locks(void)
{
    static long lock, sum, tries;
    for (int i = 0; i < 10; i++) {
        shmem_set_lock(&lock);
        CHECK(shmem_test_lock(&lock) == 1);
        shmem_long_p(&sum, shmem_long_g(&sum, 0) + me + 1, 0);
        shmem_clear_lock(&lock);
    }
    for (int got = 0; got < 5;) {
        if (shmem_test_lock(&lock) != 0)
            continue;
        shmem_long_p(&tries, shmem_long_g(&tries, 0) + 1, 0);
        shmem_clear_lock(&lock);
        got++;
    }
    shmem_barrier_all();
    CHECK(me != 0 || (sum == 10L * n * (n + 1) / 2 && tries == 5L * n));
}

static void waiting(void)
{
    SHMEM_SYNC_TYPES(WAITS)
    SHMEM_SYNC_NAMES(WAITS)
    static long box[2];
    if (me == 0) { /* puts keep their order */
        shmem_p(&box[0], 41L, n - 1);
        shmem_fence();
        shmem_p(&box[1], 1L, n - 1);
    }
    if (me == n - 1) {
        shmem_wait_until(&box[1], SHMEM_CMP_EQ, 1L);
        CHECK(box[0] == 41);
    }
    locks();
}

/* Puts keep their order between the heap and a variable, too.  What is large enough is sent before
 * the next call that waits. */
static void order(void)
{
    enum { MANY = 1 << 15 };
    static long flag[MANY], ones[MANY];
    long *data = shmem_calloc(1, sizeof *data);
    ones[MANY - 1] = 1;
    if (me == 0) {
        shmem_p(data, 42L, n - 1);
        shmem_fence();
        shmem_put(flag, ones, MANY, n - 1);
        const struct timespec work = { 0, 50000000 }; /* the other PE may see the flag meanwhile */
        (void)nanosleep(&work, NULL);
    }
    if (me == n - 1) {
        shmem_wait_until(&flag[MANY - 1], SHMEM_CMP_EQ, 1L);
        CHECK(*data == 42);
    }
    shmem_free(data);
}

/* ---- collective calls ------------------------------------------------------------------- */

/* The set of PEs: first, logarithm of the stride, size; this PE is number my of it. */
static void collect(int first, int log_stride, int size, int my)
{
    static int32_t a[64], b[64];
    static int64_t c[64], d[64];
    int all = 0;
    for (int i = 0; i < 64; i++) {
        a[i] = my * 64 + i;
        c[i] = (int64_t)(my * 64 + i) << 33;
        b[i] = -1;
        d[i] = -1;
    }
    shmem_barrier(first, log_stride, size, sync_);
    shmem_broadcast32(b, a, 3, size - 1, first, log_stride, size, sync_);
    shmem_broadcast64(d, c, 3, 0, first, log_stride, size, sync_);
    CHECK(b[2] == (my == size - 1 ? -1 : (size - 1) * 64 + 2) && b[3] == -1);
    CHECK(d[2] == (my == 0 ? -1 : (int64_t)2 << 33));
    shmem_fcollect32(b, a, 2, first, log_stride, size, sync_);
    shmem_fcollect64(d, c, 2, first, log_stride, size, sync_);
    for (ptrdiff_t i = 0; i < size; i++)
        CHECK(b[2 * i + 1] == i * 64 + 1 && d[2 * i] == (int64_t)(i * 64) << 33);
    shmem_collect32(b, a, (size_t)my + 1, first, log_stride, size, sync_);
    shmem_collect64(d, c, (size_t)(size - my), first, log_stride, size, sync_);
    for (int i = 0; i < size; all += i++ + 1)
        CHECK(b[all] == i * 64 && b[all + i] == i * 64 + i);
    CHECK(d[0] == 0 && (size == 1 || d[size] == (int64_t)64 << 33));
    shmem_alltoall32(b, a, 2, first, log_stride, size, sync_);
    shmem_alltoall64(d, c, 1, first, log_stride, size, sync_);
    for (int i = 0; i < size; i++)
        CHECK(b[2 * i + 1] == i * 64 + 2 * my + 1 && d[i] == (int64_t)(i * 64 + my) << 33);
    shmem_alltoalls32(b, a, 3, 2, 2, first, log_stride, size, sync_);
    shmem_alltoalls64(d, c, 1, 2, 1, first, log_stride, size, sync_);
    for (int i = 0; i < size; i++)
        CHECK(b[6 * i + 3] == i * 64 + 4 * my + 2 && d[i] == (int64_t)(i * 64 + 2 * my) << 33);
    shmem_sync(first, log_stride, size, sync_);
}

#define REDUCE(name, type, op, is)                                                                 \
    do {                                                                                           \
        static type x[2], y[2], w[2];                                                              \
        x[0] = (type)(my + 1);                                                                     \
        x[1] = (type)(my + 2);                                                                     \
        shmem_##name##_##op##_to_all(y, x, 2, first, log_stride, size, w, sync_);                  \
        CHECK(y[0] == (type)(is));                                                                 \
        shmem_##name##_##op##_to_all(x, x, 1, first, log_stride, size, w, sync_);                  \
        CHECK(x[0] == y[0]);                                                                       \
    } while (0);
#define REDUCE_BITS(name, type, mpi)                                                               \
    REDUCE(name, type, and, all_and)                                                               \
    REDUCE(name, type, or, all_or)                                                                 \
    REDUCE(name, type, xor, all_xor)
#define REDUCE_ORDER(name, type, mpi)                                                              \
    REDUCE(name, type, max, size)                                                                  \
    REDUCE(name, type, min, 1)
#define REDUCE_NUMBERS(name, type, mpi)                                                            \
    REDUCE(name, type, sum, all_sum)                                                               \
    REDUCE(name, type, prod, all_prod)

static void reduce(int first, int log_stride, int size, int my)
{
    int all_and = ~0, all_or = 0, all_xor = 0, all_sum = 0, all_prod = 1;
    for (int i = 1; i <= size; i++) {
        all_and &= i;
        all_or |= i;
        all_xor ^= i;
        all_sum += i;
        all_prod *= i;
    }
    SHMEM_REDUCE_BITS(REDUCE_BITS)
    SHMEM_REDUCE_ORDER(REDUCE_ORDER)
    SHMEM_REDUCE_NUMBERS(REDUCE_NUMBERS)
}

static void collective(void)
{
    collect(0, 0, n, me);
    reduce(0, 0, n, me);
    if (me > 0) {
        collect(1, 0, n - 1, me - 1);
        reduce(1, 0, n - 1, me - 1);
    }
    if (me % 2 == 0) {
        collect(0, 1, (n + 1) / 2, me / 2);
        reduce(0, 1, (n + 1) / 2, me / 2);
    }
    shmem_sync_all();
}

/* No bytes: no address is needed. */
static void nothing(void)
{
    long *const none = NULL;
    int32_t one = me, all[4] = { 0 };
    shmem_long_put(none, none, 0, next_pe(1));
    shmem_long_get(none, none, 0, next_pe(1));
    shmem_long_iput(none, none, 1, 1, 0, next_pe(1));
    shmem_broadcast64(none, none, 0, 0, 0, 0, n, sync_);
    shmem_fcollect64(none, none, 0, 0, 0, n, sync_);
    shmem_collect64(none, none, 0, 0, 0, n, sync_);
    shmem_alltoall32(none, none, 0, 0, 0, n, sync_);
    shmem_alltoalls32(none, none, 1, 1, 0, 0, 0, n, sync_);
    static int32_t here[4];
    shmem_collect32(here, &one, me == n - 1 ? 0 : 1, 0, 0, n, sync_);
    shmem_get32(all, here, 4, me);
    for (int i = 0; i < n - 1; i++)
        CHECK(all[i] == i);
    CHECK(all[n - 1] == 0);
}

/* Many gets without a wait: their answers come in parts. */
static void many_gets(void)
{
    enum { MANY = 1 << 15, TIMES = 8 };
    static long here[MANY];
    long *all = calloc((size_t)MANY * TIMES, sizeof *all);
    for (int i = 0; i < MANY; i++)
        here[i] = me * MANY + i;
    shmem_barrier_all();
    for (size_t i = 0; all && i < TIMES; i++)
        shmem_long_get_nbi(all + i * MANY, here, MANY, next_pe(1));
    shmem_quiet();
    bool same = all != NULL;
    for (int i = 0; same && i < MANY * TIMES; i++)
        same = all[i] == next_pe(1) * MANY + i % MANY;
    CHECK(same);
    shmem_barrier_all();
    free(all);
}

static bool file_appears(const char *name)
{
    const struct timespec moment = { 0, 1000000 };
    for (int i = 0; i < 10000; i++) {
        if (access(name, F_OK) == 0)
            return true;
        (void)nanosleep(&moment, NULL);
    }
    return false;
}

/* A queue whose answer gets large leaves without a call that waits: the put in front of the get
 * arrives while this PE makes no call. */
static void large_answer(void)
{
    enum { MANY = 1 << 14 };
    static long flag, here[MANY];
    long *all = calloc(MANY, sizeof *all);
    shmem_barrier_all();
    if (all && me == 0) {
        shmem_long_p(&flag, 1, n - 1);
        shmem_long_get_nbi(all, here, MANY, n - 1);
        CHECK(file_appears("arrived"));
    } else if (me == n - 1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        FILE *f = fopen("arrived", "w");
        CHECK(f && fclose(f) == 0);
    }
    shmem_quiet();
    shmem_barrier_all();
    free(all);
}

/* ---- the heap --------------------------------------------------------------------------- */

static void heap(void)
{
    char *a = shmem_malloc(1000), *b = shmem_malloc(64), *c = shmem_align(4096, 10);
    CHECK(a && b && c && (uintptr_t)c % 4096 == 0);
    CHECK(shmem_malloc(0) == NULL);
    memset(a, 7, 1000);
    char *larger = shmem_realloc(a, 5000);
    CHECK(larger && larger != a && larger[999] == 7);
    if (!larger)
        return;
    char *again = shmem_malloc(900); /* where a was */
    CHECK(again == a);
    shmem_free(b);
    shmem_free(again);
    CHECK(shmem_malloc(1000) == a); /* b and again are one block again, or a is as it was */
    shmem_free(a);
    CHECK(shmem_realloc(larger, 4000) == larger && larger[999] == 7); /* in its place */
    CHECK(shmem_realloc(larger, 600) == larger && shmem_realloc(larger, 640) == larger);
    b = shmem_malloc(4500); /* where the end of it was */
    CHECK(b > larger && b < larger + 5000 && larger[599] == 7);
    shmem_free(b);
    shmem_free(larger);
    shmem_free(c);
    long *z = shmem_calloc(100, sizeof *z);
    CHECK(z && z == (long *)(void *)a && z[0] == 0 && z[99] == 0);
    if (!z)
        return;
    shmem_long_p(&z[1], 9, next_pe(1));
    shmem_barrier_all();
    CHECK(z[1] == 9);
    shmem_free(z);
    CHECK(shmem_malloc((size_t)1 << 40) == NULL);      /* exhausted */
    CHECK(shmem_malloc(SIZE_MAX - 100) == NULL);       /* the same */
    CHECK(shmem_calloc(SIZE_MAX / 2, 3) == NULL);      /* the same */
    CHECK(shmem_malloc(me == 1 ? 8 : 16) == NULL);     /* asymmetric */
    CHECK((z = shmem_malloc(8)) == (long *)(void *)a); /* nothing is lost */
    CHECK(shmem_realloc(z, (size_t)1 << 40) == NULL);  /* and z is still there */
    shmem_free(z);
}

/* ---- mistakes --------------------------------------------------------------------------- */

static void mistake(const char *name)
{
    int *pes, *why, none = 2;
    size_t found;
    long local = 0;
    if (strcmp(name, "pe") == 0)
        shmem_long_p(&sent, 1, n);
    else if (strcmp(name, "address") == 0)
        shmem_long_p(&local, 1, 0);
    else if (strcmp(name, "library") == 0) /* a static variable, but not of the program */
        shmem_long_p((long *)(void *)gmtime(&(time_t){ 0 }), 1, 0);
    else if (strcmp(name, "range") == 0)
        shmem_long_put(shared, shared, (size_t)1 << 30, 0);
    else if (strcmp(name, "stride") == 0)
        shmem_long_iput(shared, shared, 0, 1, 2, 0);
    else if (strcmp(name, "far") == 0)
        shmem_long_iget(shared, shared, PTRDIFF_MAX / 2, 1, 2, 0);
    else if (strcmp(name, "blocks") == 0)
        shmem_alltoalls64(shared, shared, 1000000000, 1, 1, 0, 0, n, sync_);
    else if (strcmp(name, "set") == 0)
        shmem_barrier(0, 0, n + 1, sync_);
    else if (strcmp(name, "outside") == 0)
        shmem_barrier((me + 1) % n, 0, 1, sync_);
    else if (strcmp(name, "free") == 0)
        shmem_free(shared);
    else if (strcmp(name, "lock") == 0)
        shmem_clear_lock(&shared[0]);
    else if (strcmp(name, "compare") == 0)
        shmem_long_wait_until(&shared[0], 17, 1);
    else if (strcmp(name, "root") == 0)
        shmem_broadcast64(shared, shared, 1, n, 0, 0, n, sync_);
    else if (strcmp(name, "restart") == 0) {
        shmem_query_fault(&pes, &why, &found);
        CHECK(found == 0);
        shmem_restart_pes(&none, 1);
    } else if (strcmp(name, "closed") == 0) {
        shmem_finalize();
        shmem_barrier_all();
    } else if (strcmp(name, "exit") == 0) {
        shmem_finalize();
        shmem_global_exit(3);
    } else if (strcmp(name, "again") == 0) {
        shmem_finalize();
        start_pes(0);
    }
}

/* No mistake: the program begins and ends MPI. */
static int begun(void)
{
    int closed = true;
    shmem_finalize();
    shmem_finalize(); /* does nothing */
    MPI_Finalized(&closed);
    CHECK(!closed && MPI_Finalize() == MPI_SUCCESS);
    if (me == 0 && wrong == 0)
        printf("OK %d\n", checks);
    return wrong > 0;
}

/* Whether a mistake after the end of MPI ends the process with an error. */
static bool ends_process(const char *name)
{
    int status = 0;
    fprintf(stderr, "mistake %s\n", name);
    const pid_t pid = fork();
    if (pid == 0) {
        mistake(name);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status)
           && WEXITSTATUS(status) == EXIT_FAILURE;
}

static int each(int count, char **names)
{
    static const char *const late[] = { "closed", "exit", "again" };
    for (int i = 0; me == 0 && i < count; i++)
        CHECK(ends_job(mistake, names[i]));
    shmem_finalize();
    for (size_t i = 0; me == 0 && i < sizeof late / sizeof *late; i++)
        CHECK(ends_process(late[i]));
    return wrong > 0;
}

int main(int argc, char **argv)
{
    int major, minor;
    char name[SHMEM_MAX_NAME_LEN];
    static long early;
    if (argc > 1 && strcmp(argv[1], "early") == 0)
        shmem_set_lock(&early);
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (argc > 1 && strcmp(argv[1], "sizes") == 0)
        setenv("SHMEM_SYMMETRIC_SIZE", rank && strcmp(rank, "1") == 0 ? "2M" : "1M", 1);
    if (argc > 1 && strcmp(argv[1], "begun") == 0)
        CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    if (argc > 1 && strcmp(argv[1], "begun") == 0)
        return begun();
    if (argc > 1 && strcmp(argv[1], "each") == 0)
        return each(argc - 2, argv + 2);
    if (argc > 1) {
        mistake(argv[1]);
        return 0; /* not reached */
    }
    shmem_info_get_version(&major, &minor);
    shmem_info_get_name(name);
    CHECK(major == 1 && minor == 4 && strcmp(name, SHMEM_VENDOR_STRING) == 0);
    CHECK(_SHMEM_CMP_GE == SHMEM_CMP_GE && _SHMEM_SYNC_VALUE == 0 && _SHMEM_REDUCE_SYNC_SIZE > 0
          && _SHMEM_BCAST_SYNC_SIZE > 0 && _SHMEM_BARRIER_SYNC_SIZE > 0
          && _SHMEM_COLLECT_SYNC_SIZE > 0 && _SHMEM_REDUCE_MIN_WRKDATA_SIZE > 0
          && _SHMEM_MAX_NAME_LEN == sizeof name && _SHMEM_VENDOR_STRING[0] != 0);
    CHECK(!shmem_ft_failed());
    CHECK(shmem_ft_algo_init() == 1);
    rma();
    large();
    atomic();
    waiting();
    order();
    collective();
    nothing();
    many_gets();
    large_answer();
    heap();
    CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS && shmem_ft_algo_init() == 0);
    shmem_int_sum_to_all(&wrong, &wrong, 1, 0, 0, n, NULL, sync_);
    if (me == 0 && wrong == 0)
        printf("OK %d\n", checks);
    shmem_finalize();
    return wrong > 0;
}
