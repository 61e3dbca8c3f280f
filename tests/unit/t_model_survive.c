/* Survivability: Meneses 2013, section 7.3 with table 7.3 and figure 7.7, and every placement
 * against a count of all losses.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "model/survive.c"

#define CLOSE(want, got, tolerance) close_to(want, got, tolerance, #got, __LINE__)

static void close_to(double want, double got, double tolerance, const char *what, int line)
{
    if (fabs(want - got) <= tolerance)
        return;
    print_error("line %d: %s is %.9g, not %.9g within %g\n", line, what, got, want, tolerance);
    fail();
}

/* The probability that all data survive the loss of f of n nodes. */
static double ckpt(const struct ftk_model_placement *placement, int n, int f)
{
    struct walk w;
    begin(&w, placement, n);
    while (w.f < f)
        step(&w);
    return w.s;
}

static const struct ftk_model_placement pair = { .map = FTK_MODEL_PAIR },
                                        ring = { .map = FTK_MODEL_RING };
static const struct ftk_model_multiplicity geometric = { FTK_MODEL_GEOMETRIC, 0.85 },
                                           zipf = { FTK_MODEL_ZIPF, 3.2 };

/* Printed values; with n = 968 they are met to 2e-4, with n = 1024 to 5e-4. */
static void t_table(void **state)
{
    static const struct {
        int g;
        double geometric, zipf, geometric_1024, zipf_1024;
    } rows[] = {
        { 0, .9997, .9992, .9998, .9992 },
        { 2, .9988, .9966, .9990, .9969 },
        { 4, .9980, .9945, .9982, .9949 },
        { 8, .9964, .9911, .9966, .9915 },
        { 16, .9933, .9854, .9935, .9859 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int g = rows[i].g;
        CLOSE(rows[i].geometric, ftk_model_survivability(&pair, &geometric, 968, g), 2e-4);
        CLOSE(rows[i].zipf, ftk_model_survivability(&pair, &zipf, 968, g), 2e-4);
        CLOSE(rows[i].geometric, ftk_model_survivability(&pair, &geometric, 1024, g), 5e-4);
        CLOSE(rows[i].zipf, ftk_model_survivability(&pair, &zipf, 1024, g), 5e-4);
        /* ours for n = 1024 */
        CLOSE(rows[i].geometric_1024, ftk_model_survivability(&pair, &geometric, 1024, g), 1e-4);
        CLOSE(rows[i].zipf_1024, ftk_model_survivability(&pair, &zipf, 1024, g), 1e-4);
    }
}

static void t_figure(void **state)
{
    static const struct {
        int f;
        double ckpt;
    } points[] = { { 1, 1 }, { 2, .9990 }, { 4, .9941 }, { 8, .9728 }, { 16, .8878 } };
    (void)state;
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        double product = 1;
        for (int k = 0; k < points[i].f; k++)
            product *= (1024.0 - 2 * k) / (1024 - k);
        CLOSE(points[i].ckpt, ckpt(&pair, 1024, points[i].f), 1e-4);
        CLOSE(product, ckpt(&pair, 1024, points[i].f), 1e-12);
    }
}

/* ---- every loss of small worlds ------------------------------------------------------ */

static bool survives(const struct ftk_model_placement *p, int n, uint32_t lost)
{
    uint32_t all = n == 32 ? UINT32_MAX : (1u << n) - 1;
    if (p->map == FTK_MODEL_RING)
        return (lost & (lost << 1 | lost >> (n - 1)) & all) == 0;
    int group = p->map == FTK_MODEL_PAIR ? 2 : p->group;
    int parity = p->map == FTK_MODEL_PAIR ? 1 : p->parity;
    int groups = (n + group - 1) / group, first = 0; /* their sizes differ by one at most */
    for (int k = 0; k < groups; k++) {
        int size = n / groups + (k < n % groups);
        if (__builtin_popcount(lost >> first & ((1u << size) - 1)) > parity)
            return false;
        first += size;
    }
    return true;
}

static void count_all(const struct ftk_model_placement *p, int n)
{
    double good[33] = { 0 }, all[33] = { 0 };
    for (uint32_t lost = 0; lost < 1u << n; lost++) {
        int f = __builtin_popcount(lost);
        all[f]++;
        good[f] += survives(p, n, lost);
    }
    for (int f = 0; f < n; f++)
        CLOSE(good[f] / all[f], ckpt(p, n, f), 1e-12);
}

static void t_all_losses(void **state)
{
    (void)state;
    for (int n = 4; n <= 16; n += 2) {
        count_all(&pair, n);
        count_all(&ring, n);
    }
    for (int group = 2; group <= 8; group++)
        for (int parity = 1; parity < group; parity++)
            for (int n = group; n <= 14; n++) {
                struct ftk_model_placement p = { FTK_MODEL_PARITY, group, parity };
                count_all(&p, n);
            }
}

/* Section 7.3: of all losses of two nodes a ring survives (n - 3) / (n - 1), and pairs survive
 * (n - 2) / (n - 1).  All are counted. */
static void t_pair_and_ring(void **state)
{
    (void)state;
    for (int n = 4; n <= 64; n += 2) {
        int all = 0, pairs = 0, rings = 0;
        for (int a = 0; a < n; a++)
            for (int b = a + 1; b < n; b++) {
                all++;
                pairs += a / 2 != b / 2;
                rings += b - a != 1 && b - a != n - 1;
            }
        assert_int_equal(pairs * (n - 1), all * (n - 2));
        assert_int_equal(rings * (n - 1), all * (n - 3));
        CLOSE((double)pairs / all, ckpt(&pair, n, 2), 1e-14);
        CLOSE((double)rings / all, ckpt(&ring, n, 2), 1e-14);
    }
}

/* Groups one after the other, with sums of positive terms only, for worlds that are too large to
 * count: C(n, f) ckpt(f) is the number of survived losses of f nodes. */
static void t_large(void **state)
{
    static double now[301], next[301];
    static const struct {
        int groups, group, parity, most;
    } worlds[] = { { 16, 8, 1, 16 }, { 16, 8, 2, 32 }, { 128, 8, 2, 256 }, { 128, 8, 3, 300 },
        { 1000, 16, 2, 300 }, { 4, 32, 24, 127 }, { 4, 32, 31, 127 }, { 600, 8, 2, 300 },
        { 600, 8, 5, 300 }, { 150, 32, 28, 300 } };

    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        int g = worlds[i].group, most = worlds[i].most;
        struct ftk_model_placement p = { FTK_MODEL_PARITY, g, worlds[i].parity };
        for (int f = 0; f <= most; f++)
            now[f] = f == 0;
        for (int k = 0; k < worlds[i].groups; k++) {
            for (int f = 0; f <= most; f++) {
                double ways = 1;
                next[f] = 0;
                for (int j = 0; j <= worlds[i].parity && j <= f; j++) {
                    next[f] += now[f - j] * ways;
                    ways = ways * (g - j) / (j + 1);
                }
            }
            for (int f = 0; f <= most; f++)
                now[f] = next[f];
        }
        double all = 1;
        int n = worlds[i].groups * g;
        for (int f = 0; f <= most && all < 1e300; f++) {
            CLOSE(now[f] / all, ckpt(&p, n, f), 1e-9);
            all = all * (n - f) / (f + 1);
        }
    }
}

static void t_comm(void **state)
{
    (void)state;
    CLOSE(1, ftk_model_comm(100, 1, 99), 0); /* one loss is always survived */
    CLOSE(0, ftk_model_comm(100, 2, 99), 0);
    CLOSE(pow(1 - 1.0 / 99, 2), ftk_model_comm(100, 2, 1), 1e-14);
    CLOSE(0, ftk_model_comm(10, 8, 3), 0);
    CLOSE(1, ftk_model_comm(2, 1, 8), 0); /* no more than there are */
    for (int f = 1; f < 20; f++)          /* C(n - f, g) / C(n - 1, g), f times */
        for (int g = 1; g < 20; g++) {
            double one = 1;
            for (int j = 0; j < g; j++)
                one *= fmax(40.0 - f - j, 0) / (39 - j);
            CLOSE(pow(one, f), ftk_model_comm(40, f, g), 1e-13);
        }
    CLOSE(pow(1 - 5e5 / 9999999, 2), ftk_model_comm(10000000, 2, 500000), 1e-12); /* at once */
}

static void t_mean_nodes(void **state)
{
    (void)state;
    CLOSE(1 / 0.85, ftk_model_mean_nodes(&geometric, 1024), 1e-12);
    CLOSE((1 + 2 / pow(2, 3.2)) / (1 + 1 / pow(2, 3.2)), ftk_model_mean_nodes(&zipf, 2), 1e-12);
    CLOSE(1, ftk_model_mean_nodes(&zipf, 1), 0);
}

static void t_bounds(void **state)
{
    struct ftk_model_placement p = { FTK_MODEL_PARITY, 8, 2 };
    struct ftk_model_multiplicity one = { FTK_MODEL_GEOMETRIC, 1 };
    (void)state;
    CLOSE(1, ftk_model_survivability(&pair, &one, 1024, 0), 0);
    CLOSE(1, ftk_model_survivability(&pair, &one, 2, 0), 0);
    CLOSE(1.0 + 2.0 / 6, ftk_model_memory(&p), 1e-15);
    CLOSE(2, ftk_model_memory(&ring), 0);
    double last = 0;
    for (p.parity = 1; p.parity < 8; p.parity++) { /* more parity survives more */
        double s = ftk_model_survivability(&p, &zipf, 1 << 20, 0);
        assert_true(s > last && s < 1);
        last = s;
    }
    assert_true(ftk_model_survivability(&pair, &zipf, 1024, 0)
                > ftk_model_survivability(&ring, &zipf, 1024, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_table),
        cmocka_unit_test(t_figure),
        cmocka_unit_test(t_all_losses),
        cmocka_unit_test(t_pair_and_ring),
        cmocka_unit_test(t_large),
        cmocka_unit_test(t_comm),
        cmocka_unit_test(t_mean_nodes),
        cmocka_unit_test(t_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
