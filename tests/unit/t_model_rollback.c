/* The model of rollback: regression values of Meneses 2013, chapter 4, recomputed from equations
 * 4.4 to 4.6 and 4.10 to 4.12 (tolerance 0.5 %), and several levels against one level and against
 * the first-order sum of Benoit et al. 2017.
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
#include "model/rollback.h"

#define YEAR_S (365.25 * 86400)
#define MIN_S 60.0

enum { C, M, P, PROTOCOLS };

#define NEAR(want, got, part) near_to(want, got, (part)*fabs(want), #got, __LINE__)
/* a value that is given with so many digits: half a unit of the last one, and 0.5 % */
#define GIVEN(want, got, unit) near_to(want, got, 0.005 * fabs(want) + 0.5 * (unit), #got, __LINE__)

static void near_to(double want, double got, double tolerance, const char *what, int line)
{
    if (fabs(want - got) <= tolerance)
        return;
    print_error("line %d: %s is %.9g, not %.9g within %g\n", line, what, got, want, tolerance);
    fail();
}

/* Table 4.2 */
static struct ftk_model_job baseline(double sockets, double socket_years, int protocol, double p)
{
    struct ftk_model_job job = { .work_s = 86400,
        .mtbf_s = socket_years * YEAR_S / sockets,
        .sockets = sockets,
        .busy_w = 100,
        .idle_w = 40,
        .nlevels = 1,
        .level = { { .cost_s = 180, .restart_s = 30, .share = 1 } } };
    static const struct ftk_model_protocol all[] = {
        [C] = { 1, 1, 1, INFINITY },
        [M] = { 1.05, 1.2, 1, 1 },
    };
    job.protocol =
        protocol == P ? (struct ftk_model_protocol){ 1.05, p, (p + 1) / p, p } : all[protocol];
    return job;
}

struct best {
    double period_s;
    struct ftk_model_cost cost;
};

static struct best optimum(const struct ftk_model_job *job, enum ftk_model_aim aim)
{
    struct ftk_model_pattern pattern;
    struct best b;
    assert_true(ftk_model_optimum(job, aim, &pattern, &b.cost));
    b.period_s = pattern.period_s;
    return b;
}

/* ---- figures 4.3 to 4.5 ---------------------------------------------------------------- */

static const struct row {
    double sockets, mtbf_min, tau[PROTOCOLS], efficiency[PROTOCOLS], time[PROTOCOLS],
        energy[PROTOCOLS], tau_energy[PROTOCOLS];
} rows[] = {
    { 16, 321.02, { 40.89, 45.10, 85.03 }, { .868, .837, .890 }, { 1, 1.037, .976 },
        { 1, 1.000, .984 }, { 26.50, 45.10, 64.83 } },
    { 32, 160.51, { 28.01, 30.99, 59.36 }, { .815, .790, .863 }, { 1, 1.031, .944 },
        { 1, .978, .955 }, { 18.33, 30.99, 45.43 } },
    { 64, 80.26, { 18.89, 21.01, 41.24 }, { .741, .725, .826 }, { 1, 1.022, .898 },
        { 1, .947, .910 }, { 12.53, 21.01, 31.75 } },
    { 128, 40.13, { 12.43, 13.94, 28.48 }, { .642, .636, .773 }, { 1, 1.009, .830 },
        { 1, .901, .844 }, { 8.39, 13.94, 22.10 } },
    { 256, 20.06, { 7.84, 8.91, 19.49 }, { .511, .517, .698 }, { 1, .988, .732 }, { 1, .837, .745 },
        { 5.43, 8.91, 15.32 } },
    { 512, 10.03, { 4.57, 5.32, 13.15 }, { .346, .363, .589 }, { 1, .953, .588 }, { 1, .751, .597 },
        { 3.28, 5.32, 10.55 } },
    { 1024, 5.02, { 2.21, 2.69, 8.61 }, { .162, .181, .430 }, { 1, .894, .376 }, { 1, .652, .383 },
        { 1.69, 2.69, 7.17 } },
};
#define NROWS (sizeof rows / sizeof rows[0])

static void t_scale(void **state)
{
    (void)state;
    for (size_t i = 0; i < NROWS; i++) {
        struct best base = { 0 };
        for (int p = 0; p < PROTOCOLS; p++) {
            struct ftk_model_job job = baseline(rows[i].sockets * 1024, 10, p, 8);
            struct best t = optimum(&job, FTK_MODEL_TIME), e = optimum(&job, FTK_MODEL_ENERGY);
            base = p == C ? t : base;
            GIVEN(rows[i].mtbf_min, job.mtbf_s / MIN_S, 0.01);
            GIVEN(rows[i].tau[p], t.period_s / MIN_S, 0.01);
            GIVEN(rows[i].efficiency[p], job.work_s / t.cost.time_s, 0.001);
            GIVEN(rows[i].time[p], t.cost.time_s / base.cost.time_s, 0.001);
            GIVEN(rows[i].energy[p], t.cost.joules / base.cost.joules, 0.001);
            GIVEN(rows[i].tau_energy[p], e.period_s / MIN_S, 0.01);
            /* Figure 4.4: the least energy is at most 3 % below that at the least time, to the
             * nearest percent: 3.08 % with C and 1024K, less everywhere else. */
            assert_true(e.cost.joules <= t.cost.joules);
            assert_true(e.cost.joules >= 0.969 * t.cost.joules);
            NEAR(t.cost.time_s,
                t.cost.work_s + t.cost.log_s + t.cost.checkpoint_s + t.cost.redo_s
                    + t.cost.restart_s,
                1e-9);
        }
    }
}

/* Figure 4.5: tau / M goes to 1/2; with parallel recovery it is above 1 from 512K sockets. */
static void t_period(void **state)
{
    (void)state;
    for (size_t i = 0; i < NROWS; i++)
        for (int p = 0; p < PROTOCOLS; p++) {
            struct ftk_model_job job = baseline(rows[i].sockets * 1024, 10, p, 8);
            double ratio = optimum(&job, FTK_MODEL_TIME).period_s / job.mtbf_s;
            if (p == P)
                assert_int_equal(ratio > 1, rows[i].sockets >= 512);
            else
                assert_true(ratio < 0.55 && (rows[i].sockets < 512 || ratio > 0.43));
        }
}

/* Figure 4.6: parallelism of recovery, and sockets that fail twice as often. */
static void t_parallel(void **state)
{
    static const struct {
        double p, time[3];
    } by[] = {
        { 2, { .974, .900, .751 } },
        { 4, { .824, .702, .503 } },
        { 8, { .732, .588, .376 } },
        { 16, { .673, .518, .306 } },
        { 32, { .634, .473, .265 } },
        { 64, { .608, .444, .239 } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof by / sizeof by[0]; i++)
        for (int k = 0; k < 3; k++) {
            double sockets = (256 << k) * 1024;
            struct ftk_model_job c = baseline(sockets, 10, C, 0);
            struct ftk_model_job p = baseline(sockets, 10, P, by[i].p);
            double t = optimum(&p, FTK_MODEL_TIME).cost.time_s;
            GIVEN(by[i].time[k], t / optimum(&c, FTK_MODEL_TIME).cost.time_s, 0.001);
            /* doubled parallelism gains less than 9 % beyond 16, and more before (256K) */
            struct ftk_model_job q = baseline(sockets, 10, P, 2 * by[i].p);
            double gain = 1 - optimum(&q, FTK_MODEL_TIME).cost.time_s / t;
            if (k == 0)
                assert_int_equal(gain < 0.07, by[i].p >= 16);
        }
    struct ftk_model_job c = baseline(1024 * 1024, 5, C, 0), p = baseline(1024 * 1024, 5, P, 8);
    GIVEN(.015, c.work_s / optimum(&c, FTK_MODEL_TIME).cost.time_s, 0.001);
    GIVEN(.195, p.work_s / optimum(&p, FTK_MODEL_TIME).cost.time_s, 0.001);
}

/* The exact optimum of 4.4: (W - d) t^2 + 2 W d t - W d (2 M - d - 2 R) = 0 */
static void t_root(void **state)
{
    (void)state;
    for (size_t i = 0; i < NROWS; i++) {
        struct ftk_model_job job = baseline(rows[i].sockets * 1024, 10, C, 0);
        double w = job.work_s, d = 180, a = w - d, b = 2 * w * d;
        double c = -w * d * (2 * job.mtbf_s - d - 60);
        double root = (-b + sqrt(b * b - 4 * a * c)) / (2 * a);
        NEAR(root, optimum(&job, FTK_MODEL_TIME).period_s, 1e-6);
    }
}

/* Plain logging needs the same period for the least energy as for the least time. */
static void t_log_energy(void **state)
{
    struct ftk_model_job job = baseline(256 * 1024, 10, M, 0);
    (void)state;
    NEAR(optimum(&job, FTK_MODEL_TIME).period_s, optimum(&job, FTK_MODEL_ENERGY).period_s, 1e-3);
}

static void t_infeasible(void **state)
{
    struct ftk_model_pattern p = { 100, { 1 } }, none = { 100, { 0 } };
    struct ftk_model_cost c = { .time_s = -1 };
    struct ftk_model_job job = baseline(1024, 10, C, 0);
    (void)state;
    assert_true(ftk_model_rollback(&job, &p, &c));
    c.time_s = -1;
    assert_false(ftk_model_rollback(&job, &none, &c));
    p.period_s = 0;
    assert_false(ftk_model_rollback(&job, &p, &c));
    p.period_s = 86401; /* no set before the end */
    assert_false(ftk_model_rollback(&job, &p, &c));
    p.period_s = 100;
    job.mtbf_s = 169.9; /* omega + R = 170 s */
    assert_false(ftk_model_rollback(&job, &p, &c));
    job.mtbf_s = 119;
    assert_false(ftk_model_optimum(&job, FTK_MODEL_TIME, &p, &c));
    assert_true(c.time_s == -1); /* outputs are untouched */
    job.mtbf_s = 171;
    assert_true(ftk_model_rollback(&job, &p, &c));
}

/* ---- overheads without failures --------------------------------------------------------- */

/* The time that checkpoints of cost_s take in a run without failures. */
static double sets_s(double work_s, double period_s, double cost_s)
{
    struct ftk_model_job job = { .work_s = work_s,
        .mtbf_s = 1e30,
        .sockets = 1,
        .nlevels = 1,
        .level = { { .cost_s = cost_s, .share = 1 } },
        .protocol = { 1, 1, 1, 1 } };
    struct ftk_model_pattern p = { period_s, { 1 } };
    struct ftk_model_cost c;
    assert_true(ftk_model_rollback(&job, &p, &c));
    NEAR(job.work_s + c.checkpoint_s, c.time_s, 1e-12);
    return c.checkpoint_s;
}

/* Schulz et al., SC 2004, section 6.4: the dearest checkpoint of tables 4 and 5, once an hour and
 * once a day, is less than 4 % and 0.2 %. */
static void t_hourly_daily(void **state)
{
    static const int cost_s[] = { 26, 45, 24, -17, -1, 14, 134, 17, 7, 2, 3, 11, -2, 0, -19, 9, 67,
        45, 31, -7, 38, 116, 79, 8, -2, -12, 54, 7, 1, 12 };
    const double hour = 3600, day = 24 * hour, work = 1e5 * day;
    int most = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cost_s / sizeof cost_s[0]; i++)
        most = cost_s[i] > most ? cost_s[i] : most;
    near_to(3.72, 100 * sets_s(work, hour, most) / work, 0.005, "hourly", __LINE__);
    near_to(0.155, 100 * sets_s(work, day, most) / work, 0.0005, "daily", __LINE__);
}

/* Hao, MSc thesis, University of Houston (2016).  Section 6.3: 4096 iterations with a checkpoint
 * each 256 write 16 of them, one at the end, which the model does not need.  Section 4.2.1: the
 * 710 TB of a machine, at 240 GB/s, take about 50 min. */
static void t_machine(void **state)
{
    (void)state;
    NEAR(16.0 - 1, sets_s(4096, 256, 1), 1e-12);
    near_to(49.3, sets_s(2e6, 1e6, 710e12 / 240e9) / MIN_S, 0.05, "minutes", __LINE__);
}

/* ---- levels -------------------------------------------------------------------------- */

static struct ftk_model_job levels(double work_s, double mtbf_s)
{
    return (struct ftk_model_job){ .work_s = work_s,
        .mtbf_s = mtbf_s,
        .sockets = 1,
        .busy_w = 1,
        .nlevels = 2,
        .level = { { .cost_s = 1, .share = 0.85 }, { .cost_s = 30, .share = 0.15 } },
        .protocol = { 1, 1, 1, INFINITY } };
}

/* Benoit et al., theorem 1: with rare failures the overhead is the sum of sqrt(2 rate cost). */
static void t_levels(void **state)
{
    struct ftk_model_job job = levels(1e9, 1e6);
    struct ftk_model_pattern p;
    struct ftk_model_cost c;
    (void)state;
    assert_true(ftk_model_optimum(&job, FTK_MODEL_TIME, &p, &c));
    double want = sqrt(2 * 0.85 / 1e6) + sqrt(2 * 0.15 * 30 / 1e6);
    NEAR(want, c.time_s / job.work_s - 1, 0.01);
    assert_int_equal(1, p.every[0]);
    NEAR(sqrt(2 * 1 * 1e6 / 0.85), ftk_model_level_period_s(&p, 0), 0.05);
    NEAR(sqrt(2 * 30 * 1e6 / 0.15), ftk_model_level_period_s(&p, 1), 0.05);
    /* no other number of memory sets is better */
    for (int every = 1; every < 40; every++) {
        struct ftk_model_cost other;
        struct ftk_model_pattern q = { p.period_s, { 1, every } };
        if (every != p.every[1] && ftk_model_rollback(&job, &q, &other))
            assert_true(other.time_s >= c.time_s);
    }
}

/* A level is used if and only if the sum is less with it than without. */
static void t_useless_level(void **state)
{
    struct ftk_model_pattern p;
    struct ftk_model_cost c;
    (void)state;
    for (double cost = 0.5; cost < 40; cost *= 1.5) {
        struct ftk_model_job job = levels(1e9, 1e7);
        job.level[0].cost_s = cost;
        double with = sqrt(0.85 * cost) + sqrt(0.15 * 30), without = sqrt(30);
        assert_true(ftk_model_optimum(&job, FTK_MODEL_TIME, &p, &c));
        if (fabs(with / without - 1) > 0.02)
            assert_int_equal(with<without, p.every[0]> 0);
        assert_true(p.every[1] > 0);
    }
}

/* A level that no failure needs is written once, at the end, and costs nothing. */
static void t_needless_level(void **state)
{
    struct ftk_model_job one = baseline(256 * 1024, 10, M, 0), two = one;
    struct ftk_model_pattern p;
    struct ftk_model_cost c;
    (void)state;
    two.nlevels = 2;
    two.level[1] = (struct ftk_model_level){ .cost_s = 180, .restart_s = 30, .whole = true };
    assert_true(ftk_model_optimum(&two, FTK_MODEL_TIME, &p, &c));
    assert_true(p.every[0] == 1 && p.every[1] > 100);
    NEAR(optimum(&one, FTK_MODEL_TIME).cost.time_s, c.time_s, 0.005);
}

/* Two levels of which the lower one costs nothing and is needed by no failure are one level. */
static void t_one_of_two(void **state)
{
    (void)state;
    for (int k = 0; k < PROTOCOLS; k++) {
        struct ftk_model_job one = baseline(65536, 10, k, 8), two = one;
        struct ftk_model_pattern p = { 1000, { 1 } }, q = { 1000, { 1, 1 } };
        struct ftk_model_cost a, b;
        two.nlevels = 2;
        two.level[1] = two.level[0];
        two.level[0] = (struct ftk_model_level){ 0 };
        assert_true(ftk_model_rollback(&one, &p, &a) && ftk_model_rollback(&two, &q, &b));
        NEAR(a.time_s, b.time_s, 1e-12);
        NEAR(a.joules, b.joules, 1e-12);
    }
}

/* A flush of 100 s cannot be written every 10 s, and a failure during it costs more. */
static void t_latency(void **state)
{
    struct ftk_model_job job = levels(1e6, 1e5);
    struct ftk_model_pattern p = { 10, { 1, 9 } };
    struct ftk_model_cost now, later;
    (void)state;
    assert_true(ftk_model_rollback(&job, &p, &now));
    job.level[1].latency_s = 100;
    assert_false(ftk_model_rollback(&job, &p, &later));
    p.every[1] = 10;
    job.level[1].latency_s = 0;
    assert_true(ftk_model_rollback(&job, &p, &now));
    job.level[1].latency_s = 100;
    assert_true(ftk_model_rollback(&job, &p, &later));
    NEAR(later.failures * (now.redo_s / now.failures + 0.15 * 100), later.redo_s, 1e-9);
}

/* Work that is shorter than a checkpoint needs none. */
static void t_short(void **state)
{
    struct ftk_model_job job = baseline(1, 10, C, 0);
    struct ftk_model_pattern p;
    struct ftk_model_cost c;
    (void)state;
    job.work_s = 1;
    assert_true(ftk_model_optimum(&job, FTK_MODEL_TIME, &p, &c));
    NEAR(1.0, c.time_s, 1e-6);
    NEAR(1.0, p.period_s, 1e-6);
}

/* From a level without the log all ranks redo lost work, and not faster. */
static void t_whole(void **state)
{
    struct ftk_model_job log = baseline(65536, 10, P, 8), c = baseline(65536, 10, C, 8);
    struct ftk_model_pattern p = { 1000, { 1 } };
    struct ftk_model_cost a, b;
    (void)state;
    log.level[0].whole = true;
    assert_true(ftk_model_rollback(&log, &p, &a) && ftk_model_rollback(&c, &p, &b));
    NEAR(b.redo_s / b.failures, a.redo_s / a.failures, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_scale),
        cmocka_unit_test(t_period),
        cmocka_unit_test(t_parallel),
        cmocka_unit_test(t_root),
        cmocka_unit_test(t_log_energy),
        cmocka_unit_test(t_infeasible),
        cmocka_unit_test(t_hourly_daily),
        cmocka_unit_test(t_machine),
        cmocka_unit_test(t_levels),
        cmocka_unit_test(t_useless_level),
        cmocka_unit_test(t_needless_level),
        cmocka_unit_test(t_one_of_two),
        cmocka_unit_test(t_latency),
        cmocka_unit_test(t_whole),
        cmocka_unit_test(t_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
