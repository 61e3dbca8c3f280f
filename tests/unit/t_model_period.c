/* Periods of lib/model: the table of Young's and Daly's period (tolerance 0.1 s).
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
        double cost, young, higher;
    } rows[] = {
        { 1, 84.9, 84.2 },
        { 10, 268.3, 261.7 },
        { 60, 657.3, 617.9 },
        { 300, 1469.7, 1276.5 },
        { 600, 2078.5, 1697.7 },
        { 1800, 3600, 2500 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CLOSE(rows[i].young, ftk_model_young_s(rows[i].cost, 3600), 0.1);
        CLOSE(rows[i].higher, ftk_model_daly_s(rows[i].cost, 3600), 0.1);
    }
}

static void t_long_cost(void **state)
{
    (void)state;
    CLOSE(100, ftk_model_daly_s(200, 100), 0);
    CLOSE(100, ftk_model_daly_s(1e6, 100), 0);
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
        cmocka_unit_test(t_auto),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
