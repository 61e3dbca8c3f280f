/* Which ranks write sets to the file system: properties that hold for any domains and any number of
 * writers.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/context.h"
#include "set/writers.h"

#define MAX_RANKS 64

static struct ftkit_ctx ctx;
static int domain[MAX_RANKS], writer[MAX_RANKS], member[MAX_RANKS];

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
    ftk_writers_list(&ctx, when, writer, member);
    for (int r = 0; r < size; r++) {
        check_domain(r, size, wanted);
        check_rank(r);
    }
    for (int r = size; r < ctx.nranks; r++)
        assert_int_equal(writer[r], -1);
    for (int r = 0; r < ctx.nranks; r++) {
        const struct ftk_writers_place p = ftk_writers_place(&ctx, r, when);
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
    for (int n = 1; n <= 20; n++) {
        lay_out(ONE, n);
        check(n, FTK_WRITES_NOW, 4);
        check(n, FTK_WRITES_BEHIND, 1);
    }
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
        cmocka_unit_test(of_plane_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
