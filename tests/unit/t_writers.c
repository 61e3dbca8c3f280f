/* Which ranks write sets to the file system: properties that hold for any domains and any number of
 * writers.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/context.h"
#include "set/writers.h"

#define MAX_RANKS 64

static struct ftkit_ctx ctx;
static int domain[MAX_RANKS], writer[MAX_RANKS], member[MAX_RANKS];
static uint64_t bytes; /* of the largest segment */
static bool enough;    /* whether each writer of several has FTK_WRITERS_LEAST or more */

enum layout { ONE, BLOCKS, TURNS, EACH, LAYOUTS };

static void lay_out(enum layout how, int n)
{
    for (int r = 0; r < n; r++)
        domain[r] = how == ONE ? 7 : how == BLOCKS ? r / 5 : how == TURNS ? 3 - r % 3 : r;
    ctx.domain = domain;
    ctx.nranks = n;
}

/* Ranks of the domain of a rank, and ranks and groups there. */
static void check_domain(int rank, int size, int wanted)
{
    int n = 0, groups = 0, least = size, most = 0;
    for (int r = 0; r < size; r++) {
        if (domain[r] != domain[rank])
            continue;
        n++;
        int ranks = 0;
        for (int s = 0; s < size; s++)
            ranks += writer[s] == r;
        if (ranks == 0)
            continue;
        groups++;
        least = ranks < least ? ranks : least;
        most = ranks > most ? ranks : most;
    }
    assert_int_equal(groups, wanted < n ? wanted : n);
    assert_true(most - least <= 1);
    if (enough && groups > 1)
        assert_true((uint64_t)least >= (FTK_WRITERS_LEAST + bytes - 1) / bytes);
}

/* Groups have consecutive ranks of a domain, and the lowest of them writes. */
static void check_rank(int rank)
{
    int before = 0;
    assert_int_equal(domain[writer[rank]], domain[rank]);
    assert_int_equal(writer[writer[rank]], writer[rank]);
    for (int r = writer[rank]; r < rank; r++)
        if (domain[r] == domain[rank]) {
            assert_int_equal(writer[r], writer[rank]);
            before++;
        }
    assert_int_equal(member[rank], before);
}

static void check(int size, enum ftk_writes when, int wanted)
{
    for (int r = 0; r < MAX_RANKS; r++)
        writer[r] = member[r] = -9;
    ftk_writers_list(&ctx, when, bytes, writer, member);
    for (int r = 0; r < size; r++) {
        check_domain(r, size, wanted);
        check_rank(r);
    }
    for (int r = size; r < ctx.nranks; r++)
        assert_int_equal(writer[r], -1);
    for (int r = 0; r < ctx.nranks; r++) {
        const struct ftk_writers_place p = ftk_writers_place(&ctx, r, when, bytes);
        int ranks = 0;
        for (int s = 0; s < size; s++)
            ranks += writer[s] == writer[r];
        assert_int_equal(p.writer, writer[r]);
        assert_int_equal(p.nranks, r < size ? ranks : 0);
        if (r < size)
            assert_int_equal(p.member, member[r]);
    }
}

static void any_number(void **state)
{
    (void)state;
    ctx.cfg.replicas = 1;
    for (int how = 0; how < LAYOUTS; how++)
        for (int n = 1; n <= MAX_RANKS; n += n < 20 ? 1 : 11) {
            lay_out((enum layout)how, n);
            for (int w = 1; w <= n + 1; w++) {
                ctx.cfg.h5_writers = w;
                check(n, FTK_WRITES_NOW, w);
                check(n, FTK_WRITES_BEHIND, w);
            }
        }
}

static void automatic(void **state)
{
    (void)state;
    ctx.cfg.replicas = 1;
    ctx.cfg.h5_writers = 0;
    bytes = FTK_WRITERS_LEAST;
    for (int n = 1; n <= 20; n++) {
        lay_out(ONE, n);
        check(n, FTK_WRITES_NOW, 4);
        check(n, FTK_WRITES_BEHIND, 1);
    }
    bytes = 0;
}

/* Each writer of a small set has enough to write.  A number of the user holds for any size. */
static void small_sets(void **state)
{
    (void)state;
    const uint64_t least = FTK_WRITERS_LEAST;
    const struct {
        int n;
        uint64_t bytes;
        int writers;
    } of[] = { { 4, 0, 1 }, { 4, 1, 1 }, { 4, least / 4, 1 }, { 4, least / 2 - 1, 1 },
        { 4, least / 2, 2 }, { 4, least * 3 / 4, 2 }, { 4, least - 1, 2 }, { 4, least, 4 },
        { 16, least / 16, 1 }, { 16, least / 8, 2 }, { 16, least / 4, 4 }, { 16, least - 1, 4 },
        { 5, least - 1, 2 }, { 7, least / 2, 3 }, { 8, least / 3, 2 }, { 9, least / 3 + 1, 3 },
        { 2, least - 1, 1 }, { 2, least, 2 }, { 1, UINT64_MAX, 1 }, { 64, UINT64_MAX, 4 } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        bytes = of[i].bytes;
        lay_out(ONE, of[i].n);
        ctx.cfg.h5_writers = 0;
        enough = true;
        check(of[i].n, FTK_WRITES_NOW, of[i].writers);
        enough = false;
        check(of[i].n, FTK_WRITES_BEHIND, 1);
        ctx.cfg.h5_writers = 4;
        check(of[i].n, FTK_WRITES_NOW, 4);
        check(of[i].n, FTK_WRITES_BEHIND, 4);
    }
    /* each node by its own number of ranks */
    bytes = least / 5;
    ctx.cfg.h5_writers = 0;
    lay_out(BLOCKS, 15);
    check(15, FTK_WRITES_NOW, 1);
    bytes = least / 2;
    check(15, FTK_WRITES_NOW, 2);
    /* compression takes longer than files */
    bytes = 1;
    ctx.cfg.h5_compress = FTK_COMPRESS_DEFLATE;
    check(15, FTK_WRITES_NOW, 4);
    check(15, FTK_WRITES_BEHIND, 1);
    ctx.cfg.h5_compress = FTK_COMPRESS_NONE;
    bytes = 0;
}

static void of_plane_0(void **state)
{
    (void)state;
    ctx.cfg.replicas = 2;
    ctx.cfg.h5_writers = 3;
    lay_out(BLOCKS, 24);
    check(12, FTK_WRITES_NOW, 3);
    ctx.cfg.replicas = 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number),
        cmocka_unit_test(automatic),
        cmocka_unit_test(small_sets),
        cmocka_unit_test(of_plane_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
