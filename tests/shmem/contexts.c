/* Contexts, threads, and old names of SHMEM: "OK" and a number of checks, or what was wrong.  An
 * argument is the name of a mistake, which ends the job, or "loss", "thread", "exit", or "each" and
 * the names of mistakes, which PE 0 makes one after another.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmem.h>

#include "check.h"
#include "each.h"

static long sync_[SHMEM_REDUCE_SYNC_SIZE];

static shmem_ctx_t new_context(long options)
{
    shmem_ctx_t ctx;
    CHECK(shmem_ctx_create(options, &ctx) == 0 && ctx != SHMEM_CTX_DEFAULT);
    return ctx;
}

/* ---- each call with a context ------------------------------------------------------------ */

#define PUT(name, type, mpi)                                                                       \
    do {                                                                                           \
        static type here[8];                                                                       \
        type from[8], back[8] = { 0 };                                                             \
        for (int i = 0; i < 8; i++) {                                                              \
            here[i] = 0;                                                                           \
            from[i] = (type)(me * 8 + i);                                                          \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        shmem_ctx_##name##_put(ctx, here, from, 3, next_pe(1));                                    \
        shmem_ctx_##name##_put_nbi(ctx, here + 3, from + 3, 1, next_pe(1));                        \
        shmem_ctx_##name##_iput(ctx, here + 4, from + 4, 2, 1, 2, next_pe(1));                     \
        shmem_ctx_##name##_p(ctx, here + 7, (type)7, next_pe(1));                                  \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_sync_all();                                                                          \
        for (int i = 0; i < 5; i++)                                                                \
            CHECK(here[i] == (type)(next_pe(n - 1) * 8 + i));                                      \
        CHECK(here[6] == (type)(next_pe(n - 1) * 8 + 5) && here[7] == (type)7);                    \
        shmem_ctx_##name##_get(ctx, back, here, 2, next_pe(1));                                    \
        shmem_ctx_##name##_iget(ctx, back + 2, here, 1, 2, 2, next_pe(1));                         \
        shmem_ctx_##name##_get_nbi(ctx, back + 4, here + 7, 1, next_pe(1));                        \
        shmem_ctx_quiet(ctx);                                                                      \
        CHECK(back[0] == from[0] && back[1] == from[1] && back[2] == from[0]);                     \
        CHECK(back[3] == from[2] && back[4] == (type)7);                                           \
        CHECK(shmem_ctx_##name##_g(ctx, here + 1, next_pe(1)) == from[1]);                         \
        shmem_barrier_all();                                                                       \
    } while (0);

#define SIZED(bits, bytes)                                                                         \
    do {                                                                                           \
        const size_t w = (bytes);                                                                  \
        static unsigned char here[8 * (bytes)];                                                    \
        unsigned char from[8 * (bytes)], back[8 * (bytes)] = { 0 };                                \
        for (size_t i = 0; i < sizeof from; i++)                                                   \
            from[i] = (unsigned char)(me + (int)i);                                                \
        shmem_barrier_all();                                                                       \
        shmem_ctx_put##bits(ctx, here, from, 2, next_pe(1));                                       \
        shmem_ctx_put##bits##_nbi(ctx, here + 2 * w, from + 2 * w, 1, next_pe(1));                 \
        shmem_ctx_iput##bits(ctx, here + 4 * w, from + 4 * w, 2, 1, 2, next_pe(1));                \
        shmem_barrier_all();                                                                       \
        shmem_ctx_get##bits(ctx, back, here, 2, next_pe(1));                                       \
        shmem_ctx_get##bits##_nbi(ctx, back + 2 * w, here + 2 * w, 1, next_pe(1));                 \
        shmem_ctx_iget##bits(ctx, back + 3 * w, here + 4 * w, 1, 2, 2, next_pe(1));                \
        shmem_ctx_quiet(ctx);                                                                      \
        CHECK(memcmp(back, from, 3 * w) == 0);                                                     \
        CHECK(memcmp(back + 3 * w, from + 4 * w, 2 * w) == 0);                                     \
        shmem_barrier_all();                                                                       \
    } while (0);

#define ADD(name, type, mpi)                                                                       \
    do {                                                                                           \
        static type x;                                                                             \
        x = 1;                                                                                     \
        shmem_barrier_all();                                                                       \
        CHECK(shmem_ctx_##name##_atomic_fetch_inc(ctx, &x, next_pe(1)) == 1);                      \
        CHECK(shmem_ctx_##name##_atomic_fetch_add(ctx, &x, 2, next_pe(1)) == 2);                   \
        shmem_ctx_##name##_atomic_inc(ctx, &x, next_pe(1));                                        \
        shmem_ctx_##name##_atomic_add(ctx, &x, 3, next_pe(1));                                     \
        CHECK(shmem_ctx_##name##_atomic_compare_swap(ctx, &x, 8, 1, next_pe(1)) == 8);             \
        shmem_barrier_all();                                                                       \
        CHECK(x == 1);                                                                             \
        shmem_barrier_all();                                                                       \
    } while (0);

#define SWAP(name, type, mpi)                                                                      \
    do {                                                                                           \
        static type x;                                                                             \
        x = (type)1 / 2;                                                                           \
        shmem_barrier_all();                                                                       \
        CHECK(shmem_ctx_##name##_atomic_swap(ctx, &x, 3, next_pe(1)) == (type)1 / 2);              \
        CHECK(shmem_ctx_##name##_atomic_fetch(ctx, &x, next_pe(1)) == 3);                          \
        shmem_ctx_##name##_atomic_set(ctx, &x, (type)me, next_pe(1));                              \
        shmem_barrier_all();                                                                       \
        CHECK(x == (type)next_pe(n - 1));                                                          \
        shmem_barrier_all();                                                                       \
    } while (0);

#define BITS(name, type, mpi)                                                                      \
    do {                                                                                           \
        static type x;                                                                             \
        x = 6;                                                                                     \
        shmem_barrier_all();                                                                       \
        CHECK(shmem_ctx_##name##_atomic_fetch_and(ctx, &x, 3, next_pe(1)) == 6);                   \
        CHECK(shmem_ctx_##name##_atomic_fetch_or(ctx, &x, 8, next_pe(1)) == 2);                    \
        CHECK(shmem_ctx_##name##_atomic_fetch_xor(ctx, &x, 15, next_pe(1)) == 10);                 \
        shmem_ctx_##name##_atomic_or(ctx, &x, 16, next_pe(1));                                     \
        shmem_ctx_##name##_atomic_xor(ctx, &x, 1, next_pe(1));                                     \
        shmem_ctx_##name##_atomic_and(ctx, &x, 28, next_pe(1));                                    \
        shmem_barrier_all();                                                                       \
        CHECK(x == 20);                                                                            \
        shmem_barrier_all();                                                                       \
    } while (0);

static void puts_and_gets(shmem_ctx_t ctx)
{
    SHMEM_RMA_TYPES(PUT)
    SHMEM_RMA_NAMES(PUT)
    SHMEM_SIZES(SIZED)
    static long x[2];
    const long value[2] = { 100 + me, 7 };
    long back[2] = { 0 };
    shmem_ctx_putmem(ctx, x, value, sizeof *x, next_pe(1));
    shmem_ctx_fence(ctx);
    shmem_ctx_putmem_nbi(ctx, x + 1, value + 1, sizeof *x, next_pe(1));
    shmem_barrier_all();
    shmem_ctx_getmem(ctx, back, x, sizeof *x, me);
    shmem_ctx_getmem_nbi(ctx, back + 1, x + 1, sizeof *x, me);
    shmem_ctx_quiet(ctx);
    CHECK(back[0] == 100 + next_pe(n - 1) && back[1] == 7);
    shmem_barrier_all();
}

static void atomics(shmem_ctx_t ctx)
{
    SHMEM_INTEGERS(ADD)
    SHMEM_SIZED_INTEGERS(ADD)
    SHMEM_ADDRESS_INTEGERS(ADD)
    SHMEM_INTEGERS(SWAP)
    SHMEM_SIZED_INTEGERS(SWAP)
    SHMEM_ADDRESS_INTEGERS(SWAP)
    SHMEM_REALS(SWAP)
    SHMEM_BIT_TYPES(BITS)
    SHMEM_BIT_NAMES(BITS)
}

/* ---- names without a type ------------------------------------------------------------------ */

static void generic(shmem_ctx_t ctx)
{
    static double x[4];
    static unsigned bits;
    double from[4] = { 1, 2, 3, 4 }, back[4] = { 0 };
    for (int twice = 0; twice < 2; twice++) {
        shmem_barrier_all();
        memset(x, 0, sizeof x);
        shmem_put(ctx, x, from, 1, me);
        shmem_put_nbi(ctx, x + 1, from + 1, 1, me);
        shmem_iput(ctx, x + 2, from + 2, 1, 1, 1, me);
        shmem_p(ctx, x + 3, 4.0, me);
        shmem_quiet();
        for (int i = 0; i < 4; i++)
            CHECK(x[i] == from[i]);
        shmem_get(ctx, back, x, 1, me);
        shmem_get_nbi(ctx, back + 1, x + 1, 1, me);
        shmem_iget(ctx, back + 2, x + 2, 1, 1, 1, me);
        shmem_quiet();
        back[3] = shmem_g(ctx, x + 3, me);
        for (int i = 0; i < 4; i++)
            CHECK(back[i] == from[i]);
        /* a call in an argument of a call */
        CHECK(shmem_g(ctx, &x[(int)shmem_g(x, me)], me) == 2 && shmem_g(&x[1], me) == 2);
        bits = 6;
        CHECK(shmem_atomic_fetch_and(ctx, &bits, 3, me) == 6);
        CHECK(shmem_atomic_fetch_or(ctx, &bits, 8, me) == 2);
        CHECK(shmem_atomic_fetch_xor(ctx, &bits, 15, me) == 10);
        shmem_atomic_or(ctx, &bits, 16, me);
        shmem_atomic_xor(ctx, &bits, 1, me);
        shmem_atomic_and(ctx, &bits, 28, me);
        CHECK(shmem_atomic_compare_swap(ctx, &bits, 20, 1, me) == 20);
        CHECK(shmem_atomic_fetch_inc(ctx, &bits, me) == 1);
        CHECK(shmem_atomic_fetch_add(ctx, &bits, 2, me) == 2);
        shmem_atomic_inc(ctx, &bits, me);
        shmem_atomic_add(ctx, &bits, 3, me);
        CHECK(shmem_atomic_swap(ctx, &bits, 5, me) == 8);
        shmem_atomic_set(ctx, &bits, 9, me);
        CHECK(shmem_atomic_fetch(ctx, &bits, me) == 9);
        shmem_ctx_quiet(ctx);
        ctx = SHMEM_CTX_DEFAULT;
    }
}

/* Calls that 1.4 has replaced. */
static void old(void)
{
    static long x;
    static float y;
    static short s;
    CHECK(shmem_fadd(&x, 3, me) == 0 && shmem_finc(&x, me) == 3 && shmem_cswap(&x, 4, 7, me) == 4);
    shmem_inc(&x, me);
    shmem_add(&x, 2, me);
    CHECK(
        shmem_swap(&x, 1, me) == 10 && shmem_swap(&y, 2.5f, me) == 0 && shmem_fetch(&y, me) == 2.5);
    shmem_set(&y, 1, me);
    CHECK(shmem_fetch(&y, me) == 1);
    shmem_barrier_all();
    x = s = 0;
    shmem_barrier_all();
    shmem_long_p(&x, 5, next_pe(1));
    shmem_short_p(&s, 6, next_pe(1));
    shmem_wait(&x, 0);
    shmem_long_wait(&x, 4);
    shmem_short_wait(&s, 0);
    CHECK(x == 5 && s == 6);
    shmem_set_cache_inv();
    shmem_set_cache_line_inv(&x);
    shmem_clear_cache_inv();
    shmem_clear_cache_line_inv(&x);
    shmem_udcflush();
    shmem_udcflush_line(&x);
    CHECK(x == 5);
    shmem_barrier_all();
}

/* ---- how many ---------------------------------------------------------------------------- */

static void limits(void)
{
    enum { MANY = 1000 };
    static shmem_ctx_t all[MANY];
    int made = 0;
    while (made < MANY && shmem_ctx_create(SHMEM_CTX_PRIVATE, &all[made]) == 0)
        made++;
    CHECK(made == 384);
    for (int i = 0; i < made; i++)
        for (int k = 0; k < i; k++)
            if (all[i] == all[k])
                wrong++;
    shmem_ctx_destroy(all[100]);
    CHECK(shmem_ctx_create(0, &all[100]) == 0 && shmem_ctx_create(0, &all[MANY - 1]) != 0);
    for (int i = 0; i < made; i++)
        shmem_ctx_destroy(all[i]);
    CHECK(shmem_ctx_create(1L << 40, &all[0]) != 0); /* no such option */
    static long x;                                   /* a destruction completes what has begun */
    all[0] = new_context(SHMEM_CTX_NOSTORE);
    shmem_ctx_long_p(all[0], &x, 8, next_pe(1));
    shmem_ctx_destroy(all[0]);
    shmem_sync_all();
    CHECK(x == 8);
}

/* ---- threads ----------------------------------------------------------------------------- */

/* One thread after the other puts, adds and waits. */
static void *work(void *arg)
{
    static long x[4], sum;
    const int i = *(int *)arg;
    const shmem_ctx_t ctx = new_context(SHMEM_CTX_PRIVATE);
    shmem_ctx_long_p(ctx, &x[i], 10 + i, next_pe(1));
    shmem_ctx_long_atomic_add(ctx, &sum, 1, 0);
    shmem_ctx_destroy(ctx);
    shmem_long_wait_until(&x[i], SHMEM_CMP_EQ, 10 + i);
    shmem_barrier_all();
    CHECK(me != 0 || sum == (i + 1L) * n);
    shmem_barrier_all();
    return NULL;
}

static void threads(int expected)
{
    int level = -1;
    shmem_query_thread(&level);
    CHECK(level == expected);
    for (int i = 0; level == SHMEM_THREAD_SERIALIZED && i < 4; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, work, &i) == 0 && pthread_join(thread, NULL) == 0);
    }
}

/* ---- a loss ------------------------------------------------------------------------------ */

/* A context that is in the set is there in all PEs; its handle is in a variable.  A newer one is
 * not: its number is free again. */
static void lose_one(void)
{
    static int done, step;
    static shmem_ctx_t kept, late;
    static long x;
    if (shmem_ft_algo_init())
        kept = new_context(0);
    while (!done) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            int *pes, *why;
            size_t count;
            shmem_query_fault(&pes, &why, &count);
            CHECK(count == 1 && pes[0] == 1);
            shmem_restart_pes(pes, count);
            free(pes);
            free(why);
            step = 1;
        } else if (step == 0) {
            late = new_context(0);
            shmem_barrier_all();
            if (me == 1)
                raise(SIGKILL);
            while (!shmem_ft_failed())
                ;
            CHECK(shmem_ctx_create(0, &late) == 0); /* local: it does not fail */
            shmem_ctx_long_p(late, &x, 1, next_pe(1));
            shmem_ctx_destroy(late);
        } else {
            CHECK(late == NULL);
            const shmem_ctx_t newer = new_context(0);
            CHECK((uintptr_t)newer == (uintptr_t)kept + 1);
            shmem_ctx_long_p(kept, &x, 5 + me, next_pe(1));
            shmem_ctx_quiet(kept);
            shmem_barrier_all();
            CHECK(x == 5 + next_pe(n - 1));
            done = 1;
        }
    }
}

static void mistake(const char *name)
{
    static long x;
    shmem_ctx_t ctx = new_context(0);
    if (strcmp(name, "none") == 0)
        ctx = NULL;
    else
        shmem_ctx_destroy(ctx);
    if (strcmp(name, "default") == 0)
        shmem_ctx_destroy(SHMEM_CTX_DEFAULT);
    else if (strcmp(name, "atomic") == 0)
        shmem_ctx_long_atomic_add(ctx, &x, 1, me);
    else if (strcmp(name, "swap") == 0)
        (void)shmem_ctx_long_atomic_compare_swap(ctx, &x, 1, 2, me);
    else if (strcmp(name, "stride") == 0)
        shmem_ctx_long_iput(ctx, &x, &x, 1, 1, 1, me);
    else if (strcmp(name, "quiet") == 0)
        shmem_ctx_quiet(ctx);
    else if (strcmp(name, "fence") == 0)
        shmem_ctx_fence(ctx);
    else if (strcmp(name, "get") == 0)
        (void)shmem_ctx_long_g(ctx, &x, me);
    else
        shmem_ctx_long_p(ctx, &x, 1, me);
}

int main(int argc, char **argv)
{
    const char *const what = argc > 1 ? argv[1] : "";
    const int asked = strcmp(what, "thread") == 0 ? atoi(argv[2]) : SHMEM_THREAD_MULTIPLE;
    int given = -1;
    CHECK(shmem_init_thread(asked, &given) == 0);
    me = shmem_my_pe();
    n = shmem_n_pes();
    const int expected = asked < SHMEM_THREAD_SERIALIZED ? asked : SHMEM_THREAD_SERIALIZED;
    CHECK(given == expected);
    if (strcmp(what, "loss") == 0) {
        lose_one();
    } else if (strcmp(what, "thread") == 0) {
        threads(expected);
    } else if (strcmp(what, "each") == 0) {
        for (int i = 2; me == 0 && i < argc; i++)
            CHECK(ends_job(mistake, argv[i]));
    } else if (argc > 1 && strcmp(what, "exit") != 0) {
        mistake(what);
    } else {
        const shmem_ctx_t ctx = new_context(SHMEM_CTX_SERIALIZED | SHMEM_CTX_NOSTORE);
        puts_and_gets(ctx);
        atomics(ctx);
        generic(ctx);
        shmem_ctx_destroy(ctx);
        old();
        limits();
    }
    shmem_int_sum_to_all(&wrong, &wrong, 1, 0, 0, n, NULL, sync_);
    if (me == 0 && wrong == 0)
        printf("OK %d\n", checks);
    if (wrong > 0 || strcmp(what, "exit") != 0) /* or the exit does it */
        shmem_finalize();
    if (argc == 1)
        shmem_finalize(); /* does nothing */
    return wrong > 0;
}
