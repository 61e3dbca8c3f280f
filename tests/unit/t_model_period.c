/* Periods of lib/model: the table of Young's, Daly's and the exact period (tolerance 0.1 s), and
 * the first-order model of parallel recovery (Meneses 2013, equations 4.2 and 4.3).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "model/period.h"
#include "set/period.h"

#define CLOSE(want, got, tolerance) close_to(want, got, tolerance, #got, __LINE__)

static void close_to(double want, double got, double tolerance, const char *what, int line)
{
    if (fabs(want - got) <= tolerance)
        return;
    print_error("line %d: %s is %.9g, not %.9g within %g\n", line, what, got, want, tolerance);
    fail();
}

static void t_table(void **state)
{
    static const struct {
        double cost, young, first, higher, exact, h_young, h_exact;
    } rows[] = {
        { 1, 84.9, 83.9, 84.2, 84.2, 1.0239, 1.0239 },
        { 10, 268.3, 258.3, 261.7, 261.7, 1.0784, 1.0784 },
        { 60, 657.3, 597.3, 617.9, 617.9, 1.2076, 1.2072 },
        { 300, 1469.7, 1169.7, 1276.5, 1276.9, 1.5552, 1.5496 },
        { 600, 2078.5, 1478.5, 1697.7, 1699.2, 1.9128, 1.8940 },
        { 1800, 3600, 1800, 2500, 2513.8, 3.4817, 3.3145 },
    };
    const double m = 3600;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double c = rows[i].cost, young = ftk_model_young_s(c, m), exact = ftk_model_exact_s(c, m);
        CLOSE(rows[i].young, young, 0.1);
        CLOSE(rows[i].first, ftk_model_daly_first_s(c, m), 0.1);
        CLOSE(rows[i].higher, ftk_model_daly_s(c, m), 0.1);
        CLOSE(rows[i].exact, exact, 0.1);
        CLOSE(rows[i].h_young, ftk_model_stretch(young, c, 0, m), 1e-4);
        CLOSE(rows[i].h_exact, ftk_model_stretch(exact, c, 0, m), 1e-4);
        for (double f = 0.5; f < 2; f += 0.1) /* the exact period is a minimum, also with R */
            assert_true(ftk_model_stretch(f * exact, c, 30, m)
                        >= ftk_model_stretch(exact, c, 30, m) * (1 - 1e-12));
    }
}

static void t_long_cost(void **state)
{
    (void)state;
    CLOSE(100, ftk_model_daly_s(200, 100), 0);
    CLOSE(100, ftk_model_daly_s(1e6, 100), 0);
    CLOSE(100, ftk_model_exact_s(1e5, 100), 1e-6);
}

/* 4.3 is the minimum of 4.2.  With P = 1 and without restart it is Young's in the first order. */
static void t_parallel(void **state)
{
    const double w = 86400, c = 180, r = 30, m = 1203.5;
    (void)state;
    for (double p = 1; p <= 64; p *= 2) {
        double tau = ftk_model_parallel_s(c, r, m, p);
        double best = ftk_model_parallel_time_s(w, tau, c, r, m, p);
        assert_true(best < ftk_model_parallel_time_s(w, 0.98 * tau, c, r, m, p));
        assert_true(best < ftk_model_parallel_time_s(w, 1.02 * tau, c, r, m, p));
    }
    CLOSE(ftk_model_young_s(1, 1e8), ftk_model_parallel_s(1, 0, 1e8, 1), 0.1);
}

/* checkpoint.period = auto is Daly's period for the failures that memory survives */
static void t_auto(void **state)
{
    struct ftk_config c = { .mtbf_s = 0.85 * 3600,
        .period = { .kind = FTK_PERIOD_AUTO, .value = 0 } };
    (void)state;
    CLOSE(617.9, ftk_period_sets_s(&c, 60), 0.1);
    CLOSE(ftk_model_daly_s(60, c.mtbf_s / 0.15), ftk_period_files_s(&c, 60), 1e-6);
    c.period = (struct ftk_period){ .kind = FTK_PERIOD_SECONDS, .value = 7 };
    CLOSE(7, ftk_period_sets_s(&c, 60), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_table),
        cmocka_unit_test(t_long_cost),
        cmocka_unit_test(t_parallel),
        cmocka_unit_test(t_auto),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
