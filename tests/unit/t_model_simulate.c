/* The simulation of a job: failures at known moments against sums by hand; random ones against the
 * simulations of Meneses 2013, section 4.5, and the formulas of lib/model where they hold.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ftkit.h"
#include "model/simulate.h"

#define YEAR_S (365.25 * 86400)
#define SOCKETS_256K (256 * 1024)
#define GOLDEN_S 0x1.cacfa480f16e6p+16

#define NEAR(want, got, tolerance) near_to(want, got, tolerance, #got, __LINE__)

static void near_to(double want, double got, double tolerance, const char *what, int line)
{
    if (fabs(want - got) <= tolerance)
        return;
    print_error("line %d: %s is %.9g, not %.9g within %g\n", line, what, got, want, tolerance);
    fail();
}

/* ---- failures at known moments --------------------------------------------------------- */

/* 1000 s of work on 8 nodes, a set in memory every 100 s that costs 10 s, every fifth of them also
 * on files for 20 s more.  A repair takes 5 s, a relaunch 50 s. */
static struct ftk_sim small(void)
{
    struct ftk_sim sim = { .job = { .work_s = 1000,
                               .sockets = 8,
                               .busy_w = 100,
                               .idle_w = 40,
                               .nlevels = 2,
                               .level = { { .cost_s = 10, .restart_s = 5 },
                                   { .cost_s = 20, .restart_s = 50, .whole = true } },
                               .protocol = { 1, 1, 1, INFINITY } },
        .pattern = { .period_s = 100, .every = { 1, 5 } },
        .keeps = { FTK_SIM_MEMORY, FTK_SIM_FILES },
        .machine = { .nodes = 8, .shape = 1, .mtbf_s = 1e30, .single = true },
        .placement = { FTK_MODEL_PAIR, 2, 1 },
        .spares = 8,
        .per_node = 4,
        .limit_s = 1e9 };
    return sim;
}

/* The job takes so long without failures: work, nine sets in memory, one on files. */
#define WITHOUT_S (1000 + 9 * 10 + 20)

struct at {
    double s;
    int node[3]; /* the nodes, then -1 */
};

static struct ftk_sim_result run_with(struct ftk_sim sim, const struct at *at, size_t n)
{
    struct ftk_machine_failure v[8];
    int node[24], nodes = 0;
    for (size_t i = 0; i < n; i++) {
        v[i] = (struct ftk_machine_failure){ at[i].s, -1, (size_t)nodes, 0 };
        for (int k = 0; k < 3 && at[i].node[k] >= 0; k++) {
            node[nodes++] = at[i].node[k];
            v[i].n++;
        }
    }
    struct ftk_machine_log log = { v, n, node, 8, 1e9 };
    struct ftk_sim_result r;
    sim.machine.log = &log;
    sim.machine.from_start = true;
    assert_int_equal(FTKIT_OK, ftk_simulate(&sim, 1, 1, &r));
    return r;
}

#define RUN(sim, ...)                                                                              \
    run_with(sim, (const struct at[]){ __VA_ARGS__ },                                              \
        sizeof((const struct at[]){ __VA_ARGS__ }) / sizeof(struct at))

static void t_none(void **state)
{
    struct ftk_sim sim = small();
    struct ftk_sim_result r;
    (void)state;
    assert_int_equal(FTKIT_OK, ftk_simulate(&sim, 1, 3, &r));
    assert_int_equal(3, r.runs);
    NEAR(WITHOUT_S, r.time_s, 1e-9);
    NEAR(0, r.deviation_s, 1e-9);
    NEAR(1000, r.part_s[FTK_SIM_WORK], 1e-9);
    NEAR(110, r.part_s[FTK_SIM_SETS], 1e-9);
    NEAR(1000 * 8 * 100., r.part_j[FTK_SIM_WORK], 1e-3);
    NEAR(110 * 8 * 40., r.part_j[FTK_SIM_SETS], 1e-3);
    /* 1100 s in periods of 100 s: ten sets, of which two on files */
    sim.job.protocol.slowdown = 1.1;
    assert_int_equal(FTKIT_OK, ftk_simulate(&sim, 1, 1, &r));
    NEAR(1100 + 10 * 10 + 2 * 20, r.time_s, 1e-9);
    NEAR(100, r.part_s[FTK_SIM_LOG], 1e-9);
}

static void t_in_work(void **state)
{
    (void)state;
    /* the set of period 1 ends at 110 s; 40 s of work are lost, and a repair takes 5 s */
    struct ftk_sim_result r = RUN(small(), { 150, { 3, -1 } });
    NEAR(WITHOUT_S + 40 + 5, r.time_s, 1e-9);
    NEAR(40, r.part_s[FTK_SIM_REDO], 1e-9);
    NEAR(5, r.part_s[FTK_SIM_RESTART], 1e-9);
    NEAR(40 * 800., r.part_j[FTK_SIM_REDO], 1e-6);
    NEAR(5 * 320., r.part_j[FTK_SIM_RESTART], 1e-6);
    NEAR(1, r.count[FTK_SIM_FAILURES], 0);
    NEAR(1, r.count[FTK_SIM_SPARES_USED], 0);
    NEAR(0, r.count[FTK_SIM_RELAUNCHES], 0);
    assert_int_equal(1, r.away_most);
}

static void t_in_set(void **state)
{
    (void)state;
    /* the first set is written from 100 s to 110 s: 100 s of work and 4 s of the set are lost */
    struct ftk_sim_result r = RUN(small(), { 104, { 3, -1 } });
    NEAR(WITHOUT_S + 104 + 5, r.time_s, 1e-9);
    NEAR(104, r.part_s[FTK_SIM_REDO], 1e-9);
    NEAR(110, r.part_s[FTK_SIM_SETS], 1e-9);
}

/* Hao, MSc thesis, University of Houston (2016), section 6.2: s steps with backups of T_b, and f
 * failures that lose a whole step T_s and need T_r, cost T_ft = s T_b + f (T_r + T_s).  O_ft is
 * T_ft over the time without failures.  Section 6.3 has 16 steps and up to three failures.  The
 * last backup of the formula, at the end of the job, is not there. */
static void t_lost_steps(void **state)
{
    const double step_s = 100, backup_s = 10, recover_s = 5, early_s = 1e-7;
    const double without_s = 16 * step_s + 15 * backup_s;
    static const int lost[] = { 2, 9, 16 }; /* the steps, each at its end */
    (void)state;
    for (size_t f = 0; f <= 3; f++) {
        struct ftk_sim sim = small();
        struct at at[3];
        sim.job.nlevels = 1;
        sim.job.work_s = 16 * step_s;
        for (size_t i = 0; i < f; i++)
            at[i] = (struct at){ lost[i] * (step_s + backup_s) - backup_s
                                     + (double)i * (step_s + recover_s) - (double)(i + 1) * early_s,
                { (int)i, -1 } };
        struct ftk_sim_result r = run_with(sim, at, f);
        double cost_s = (16 - 1) * backup_s + (double)f * (recover_s + step_s);
        NEAR(cost_s, r.time_s - sim.job.work_s, 1e-6);
        NEAR(cost_s / without_s, (r.time_s - sim.job.work_s) / without_s, 1e-9);
    }
}

static void t_in_restart(void **state)
{
    (void)state;
    /* 3 s of the first repair; nodes 3 and 4 are in two pairs */
    struct ftk_sim_result r = RUN(small(), { 150, { 3, -1 } }, { 153, { 4, -1 } });
    NEAR(WITHOUT_S + 40 + 3 + 5, r.time_s, 1e-9);
    NEAR(0, r.count[FTK_SIM_DATA_LOST], 0);
    /* nodes 2 and 3 are a pair, whose first one is not there again: back to the beginning */
    r = RUN(small(), { 150, { 3, -1 } }, { 153, { 2, -1 } });
    NEAR(WITHOUT_S + 150 + 3 + 50, r.time_s, 1e-9);
    NEAR(1, r.count[FTK_SIM_DATA_LOST], 0);
    NEAR(1, r.count[FTK_SIM_RELAUNCHES], 0);
    NEAR(110, r.part_s[FTK_SIM_SETS], 1e-9);
    NEAR(150, r.part_s[FTK_SIM_REDO], 1e-9); /* 140 of work, 10 of a set */
    /* after the repair the pair is whole */
    r = RUN(small(), { 150, { 3, -1 } }, { 156, { 2, -1 } });
    NEAR(WITHOUT_S + 40 + 5 + 1 + 5, r.time_s, 1e-9);
}

static void t_files(void **state)
{
    (void)state;
    /* the set on files is complete at 500 + 5 * 10 + 20 s; then 30 s of work are lost */
    struct ftk_sim sim = small();
    struct ftk_sim_result r = RUN(sim, { 600, { 2, 3, -1 } });
    NEAR(WITHOUT_S + 30 + 50, r.time_s, 1e-9);
    /* a flush of 40 s is not complete, so the job begins anew */
    sim.job.level[1].latency_s = 40;
    r = RUN(sim, { 600, { 2, 3, -1 } });
    NEAR(WITHOUT_S + 600 + 50, r.time_s, 1e-9);
    r = RUN(sim, { 610, { 2, 3, -1 } });
    NEAR(WITHOUT_S + 40 + 50, r.time_s, 1e-9);
    /* and a failure that memory survives ends the flush */
    r = RUN(sim, { 600, { 2, -1 } }, { 620, { 2, 3, -1 } });
    NEAR(WITHOUT_S + 600 + 20 + 50, r.time_s, 1e-9);
    /* a level that outlives the job, but not the loss of a pair */
    sim.job.level[1].latency_s = 0;
    sim.keeps[1] = FTK_SIM_LOCAL;
    sim.job.nlevels = 3;
    sim.job.level[2] = (struct ftk_model_level){ .cost_s = 1, .restart_s = 50, .whole = true };
    sim.keeps[2] = FTK_SIM_FILES;
    sim.pattern.every[2] = 100;
    r = RUN(sim, { 600, { 2, 3, -1 } });
    NEAR(WITHOUT_S + 600 + 50, r.time_s, 1e-9);
    sim.spares = 0; /* the job ends, but no data are lost */
    r = RUN(sim, { 600, { 2, -1 } });
    NEAR(WITHOUT_S + 30 + 50, r.time_s, 1e-9);
}

static void t_log(void **state)
{
    (void)state;
    struct ftk_sim sim = small();
    sim.job.protocol = (struct ftk_model_protocol){ 1, 2, 1, 1 };
    sim.log = true;
    struct ftk_sim_result r = RUN(sim, { 150, { 3, -1 } });
    NEAR(WITHOUT_S + 40 / 2 + 5, r.time_s, 1e-9);
    NEAR(20 * (100 + 7 * 40.), r.part_j[FTK_SIM_REDO], 1e-6); /* one node works, seven wait */
    /* a second failure while lost work is done again: all of the 40 s again */
    r = RUN(sim, { 150, { 3, -1 } }, { 160, { 5, -1 } });
    NEAR(WITHOUT_S + 5 + 5 + 5 + 40 / 2, r.time_s, 1e-9);
    /* two neighbours have each other's determinants: all roll back, to the set in memory */
    sim.acquaintances = 2;
    r = RUN(sim, { 150, { 3, 4, -1 } });
    NEAR(WITHOUT_S + 40 + 5, r.time_s, 1e-9);
    NEAR(1, r.count[FTK_SIM_DETERMINANTS_LOST], 0);
    NEAR(0, r.count[FTK_SIM_DATA_LOST], 0);
    r = RUN(sim, { 150, { 0, 7, -1 } }); /* neighbours on the circle */
    NEAR(1, r.count[FTK_SIM_DETERMINANTS_LOST], 0);
    r = RUN(sim, { 150, { 3, 5, -1 } });
    NEAR(WITHOUT_S + 40 / 2 + 5, r.time_s, 1e-9);
    NEAR(20 * (2 * 100 + 6 * 40.), r.part_j[FTK_SIM_REDO], 1e-6);
    /* parallel recovery: the rest of the period is slower, until the next set */
    sim.job.protocol = (struct ftk_model_protocol){ 1, 4, 1.25, 4 };
    r = RUN(sim, { 150, { 3, -1 } });
    NEAR(WITHOUT_S + 40 / 4 + 5 + 0.25 * 60, r.time_s, 1e-9);
}

static void t_ladder(void **state)
{
    (void)state;
    struct ftk_sim sim = small();
    sim.spares = 1;
    /* the first failure takes the spare; the second one ends the job, which has a spare again */
    struct ftk_sim_result r = RUN(sim, { 150, { 3, -1 } }, { 600, { 5, -1 } }, { 800, { 1, -1 } });
    NEAR(2, r.count[FTK_SIM_SPARES_USED], 0);
    NEAR(1, r.count[FTK_SIM_SHORT], 0);
    NEAR(1, r.count[FTK_SIM_RELAUNCHES], 0);
    assert_int_equal(3, r.away_most);
    /* a node that is repaired is a spare again */
    sim.machine.repair_s = 100;
    r = RUN(sim, { 150, { 3, -1 } }, { 600, { 5, -1 } });
    NEAR(0, r.count[FTK_SIM_SHORT], 0);
    assert_int_equal(1, r.away_most);
    NEAR(200 / r.time_s, r.away, 1e-9);
    sim.machine.repair_s = 0;
    sim.spares = 0;
    sim.when_short =
        FTK_SIM_SHRINK; /* at 150 s 860 s of work remain after the repair, lost ones too */
    r = RUN(sim, { 150, { 3, -1 } });
    NEAR(150 + 5 + 900 * 8 / 7. + 100, r.time_s, 1e-9);
    NEAR(860 / 7., r.part_s[FTK_SIM_DEGRADED], 1e-9);
    NEAR(40 * 8 / 7., r.part_s[FTK_SIM_REDO], 1e-9);
    r = RUN(sim, { 150, { 3, -1 } }, { 700, { 7, -1 } }); /* node 7 of seven is not there */
    NEAR(1, r.count[FTK_SIM_FAILURES], 0);
    sim.when_short =
        FTK_SIM_SPAWN; /* 32 ranks on 7 nodes: five on some nodes, which have four cores */
    r = RUN(sim, { 150, { 3, -1 } });
    NEAR(150 + 5 + 900 * 5 / 4. + 100, r.time_s, 1e-9);
}

static void t_stuck(void **state)
{
    struct ftk_sim sim = small();
    struct ftk_sim_result r;
    (void)state;
    sim.machine.mtbf_s = 20; /* no period of 100 s will ever end */
    sim.limit_s = 1e5;
    assert_int_equal(FTKIT_OK, ftk_simulate(&sim, 1, 4, &r));
    assert_int_equal(4, r.stuck);
    assert_int_equal(0, r.runs);
}

/* ---- random failures --------------------------------------------------------------------- */

enum { C, M, P, PROTOCOLS };

/* Table 4.2 */
static struct ftk_sim baseline(int sockets, int protocol)
{
    static const struct ftk_model_protocol all[PROTOCOLS] = {
        [C] = { 1, 1, 1, INFINITY }, [M] = { 1.05, 1.2, 1, 1 }, [P] = { 1.05, 8, 9. / 8, 8 }
    };
    double mtbf = 10 * YEAR_S / sockets;
    struct ftk_sim sim = { .job = { .work_s = 86400,
                               .mtbf_s = mtbf,
                               .sockets = sockets,
                               .busy_w = 100,
                               .idle_w = 40,
                               .nlevels = 1,
                               .level = { { .cost_s = 180, .restart_s = 30, .share = 1 } },
                               .protocol = all[protocol] },
        .pattern = { .every = { 1 } },
        .keeps = { FTK_SIM_FILES },
        .machine = { .nodes = sockets, .shape = 1, .mtbf_s = mtbf, .single = true },
        .log = protocol != C,
        .spares = sockets,
        .per_node = 1,
        .limit_s = 1e9 };
    return sim;
}

static struct ftk_sim_result simulate(const struct ftk_sim *sim, int runs)
{
    struct ftk_sim_result r;
    assert_int_equal(FTKIT_OK, ftk_simulate(sim, 1, runs, &r));
    assert_int_equal(0, r.stuck);
    double sum = 0;
    for (int i = 0; i < FTK_SIM_PARTS; i++)
        sum += r.part_s[i];
    NEAR(r.time_s, sum, 1e-6 * r.time_s);
    NEAR(sim->job.work_s, r.part_s[FTK_SIM_WORK], 1e-6 * sim->job.work_s);
    return r;
}

/* Section 4.5 and figure 4.8, 256K sockets: 44.8 h with a period of 9 min, 33.3 h with 27 min.  The
 * least time of the model is within 5.5 and 3.5 % of them. */
static void t_thesis(void **state)
{
    static const struct {
        int protocol;
        double period_min, hours, tolerance, model;
        double low_min, high_min, step_min; /* the period with the least time is in between */
    } rows[] = { { C, 9, 44.8, 0.5, 0.055, 8, 10.5, 0.5 }, { P, 27, 33.3, 0.3, 0.035, 22, 31, 1 } };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct ftk_sim sim = baseline(SOCKETS_256K, rows[i].protocol);
        struct ftk_model_cost cost;
        sim.pattern.period_s = 60 * rows[i].period_min;
        struct ftk_sim_result r = simulate(&sim, 500);
        NEAR(rows[i].hours * 3600, r.time_s, rows[i].tolerance * 3600);
        assert_true(ftk_model_optimum(&sim.job, FTK_MODEL_TIME, &sim.pattern, &cost));
        NEAR(cost.time_s, r.time_s, rows[i].model * cost.time_s);
        double best = 0, least = INFINITY;
        for (double min = 0.6 * rows[i].low_min; min < 1.5 * rows[i].high_min;
             min += rows[i].step_min) {
            sim.pattern.period_s = 60 * min;
            r = simulate(&sim, 500);
            best = r.time_s < least ? min : best;
            least = fmin(r.time_s, least);
        }
        NEAR((rows[i].low_min + rows[i].high_min) / 2, best,
            (rows[i].high_min - rows[i].low_min) / 2);
    }
}

/* Where a failure comes much less often than a set, the formulas hold. */
static void t_formulas(void **state)
{
    (void)state;
    for (int protocol = 0; protocol < PROTOCOLS; protocol++)
        for (int k = 16; k <= 64; k *= 2) {
            struct ftk_sim sim = baseline(k * 1024, protocol);
            struct ftk_model_cost cost;
            assert_true(ftk_model_optimum(&sim.job, FTK_MODEL_TIME, &sim.pattern, &cost));
            struct ftk_sim_result r = simulate(&sim, 500);
            NEAR(cost.time_s, r.time_s, 0.03 * cost.time_s);
            NEAR(cost.failures, r.count[FTK_SIM_FAILURES], 0.05 * cost.failures);
            double lost = cost.redo_s, joules = 0;
            NEAR(lost, r.part_s[FTK_SIM_REDO], 0.15 * lost); /* a failure can hit lost work, too */
            for (int i = 0; i < FTK_SIM_PARTS; i++)
                joules += r.part_j[i];
            NEAR(cost.joules, joules, 0.03 * cost.joules);
        }
}

/* Two levels: the shares of the formula are those that the placement gives. */
static void t_levels(void **state)
{
    struct ftk_sim sim = small();
    struct ftk_sim_result r;
    struct ftk_model_cost cost;
    (void)state;
    sim.machine = (struct ftk_machine_law){ .nodes = 64,
        .mtbf_s = 20000,
        .shape = 1,
        .multiplicity = { FTK_MODEL_GEOMETRIC, 0.5 },
        .job_loss = 0.1 };
    sim.job.sockets = 64;
    sim.job.mtbf_s = 20000;
    sim.job.work_s = 1e6;
    sim.spares = 1 << 20;
    double s = ftk_model_survivability(&sim.placement, &sim.machine.multiplicity, 64, 0);
    sim.job.level[0].share = 0.9 * s;
    sim.job.level[1].share = 1 - 0.9 * s;
    assert_true(ftk_model_optimum(&sim.job, FTK_MODEL_TIME, &sim.pattern, &cost));
    assert_true(sim.pattern.every[1] > sim.pattern.every[0] && sim.pattern.every[0] > 0);
    assert_int_equal(FTKIT_OK, ftk_simulate(&sim, 1, 400, &r));
    NEAR(cost.time_s, r.time_s, 0.01 * cost.time_s);
    NEAR(cost.redo_s, r.part_s[FTK_SIM_REDO], 0.05 * cost.redo_s);
    NEAR(cost.failures * (1 - 0.9 * s), r.count[FTK_SIM_RELAUNCHES], 0.05 * cost.failures);
}

/* The share of failures that lose data is that of the formulas, for explicit nodes. */
static void t_placement(void **state)
{
    static const struct ftk_model_placement placements[] = { { FTK_MODEL_PAIR, 2, 1 },
        { FTK_MODEL_RING, 2, 1 }, { FTK_MODEL_PARITY, 4, 1 }, { FTK_MODEL_PARITY, 6, 2 } };
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct ftk_sim sim = small();
        struct ftk_sim_result r;
        sim.machine = (struct ftk_machine_law){
            .nodes = 26, .mtbf_s = 1e5, .shape = 1, .multiplicity = { FTK_MODEL_ZIPF, 1.5 }
        };
        sim.placement = placements[i];
        sim.job.work_s = 1e9;
        sim.pattern = (struct ftk_model_pattern){ 1000, { 1, 1 } };
        sim.spares = 1 << 30;
        sim.limit_s = INFINITY;
        sim.log = true;
        sim.acquaintances = 4;
        assert_int_equal(FTKIT_OK, ftk_simulate(&sim, 1, 3, &r));
        double n = r.count[FTK_SIM_FAILURES] * 3, lost = r.count[FTK_SIM_DATA_LOST] * 3 / n;
        double s = ftk_model_survivability(&sim.placement, &sim.machine.multiplicity, 26, 0);
        NEAR(1 - s, lost, 4 * sqrt(s * (1 - s) / n) + 0.001); /* a few hit a repair */
    }
}

/* Two lost nodes are acquaintances with probability g / (n - 1): acquaintance is mutual, so this is
 * half of what COMM of section 7.3 has, where each node has acquaintances of its own. */
static void t_determinants(void **state)
{
    struct ftk_sim sim = small();
    struct ftk_sim_result r;
    (void)state;
    sim.machine = (struct ftk_machine_law){
        .nodes = 41, .mtbf_s = 1e5, .shape = 1, .multiplicity = { FTK_MODEL_ZIPF, 2 }
    };
    sim.placement = (struct ftk_model_placement){ FTK_MODEL_PARITY, 41, 40 };
    sim.job.work_s = 1e9;
    sim.pattern = (struct ftk_model_pattern){ 1000, { 1, 1 } };
    sim.spares = 1 << 30;
    sim.limit_s = INFINITY;
    sim.log = true;
    sim.acquaintances = 4;
    assert_int_equal(FTKIT_OK, ftk_simulate(&sim, 1, 3, &r));
    double n = r.count[FTK_SIM_FAILURES] * 3, sum = 0, lost = 0;
    for (int f = 1; f <= 41; f++) {
        double p = pow(f, -2), apart = 1; /* no two of f nodes closer than three on a circle */
        for (int i = 1; i < f; i++)
            apart *= fmax(41 - 2 * f - i, 0) / (41 - i);
        sum += p;
        lost += p * (1 - apart);
    }
    lost /= sum;
    NEAR(lost, r.count[FTK_SIM_DETERMINANTS_LOST] * 3 / n, 4 * sqrt(lost / n) + 0.001);
}

/* Little's law: the nodes under repair are the rate times the time of a repair. */
static void t_away(void **state)
{
    struct ftk_sim sim = small();
    struct ftk_sim_result r;
    (void)state;
    sim.machine = (struct ftk_machine_law){ .nodes = 8,
        .mtbf_s = 1000,
        .shape = 0.7,
        .scale_s = 1000 / tgamma(1 + 1 / 0.7),
        .single = true,
        .repair_s = 4000,
        .repair_sigma = 0.5 };
    sim.job.work_s = 1e6;
    sim.spares = 1 << 20;
    assert_int_equal(FTKIT_OK, ftk_simulate(&sim, 1, 50, &r));
    NEAR(r.time_s / 1000, r.count[FTK_SIM_FAILURES], 0.02 * r.time_s / 1000);
    double mean = 4000 * exp(0.5 * 0.5 / 2) / 1000;
    NEAR(mean, r.away, 0.03 * mean);
    assert_true(r.away_most > r.away_most_mean && r.away_most_mean > r.away);
}

/* A log that is replayed from a random moment hits the job's share of its nodes. */
static void t_replay(void **state)
{
    static const int node[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    struct ftk_machine_failure v[10];
    for (size_t i = 0; i < 10; i++)
        v[i] = (struct ftk_machine_failure){ 100. * (double)i, 250, i, 1 };
    struct ftk_machine_log log = { v, 10, node, 10, 1000 };
    struct ftk_sim sim = small();
    struct ftk_sim_result r;
    (void)state;
    sim.machine.log = &log;
    sim.job.work_s = 1e5;
    sim.machine.nodes = 5; /* of 10 */
    sim.spares = 3;
    assert_int_equal(FTKIT_OK, ftk_simulate(&sim, 1, 20, &r));
    NEAR(r.time_s / 200, r.count[FTK_SIM_FAILURES], 2);
    NEAR(5 * 250 / 1000., r.away, 0.01);
    assert_int_equal(3, r.away_most); /* a failure each 100 s, five of them of the job */
    NEAR(0, r.count[FTK_SIM_SHORT], 0);
}

/* The same seed gives the same bits with every compiler. */
static void t_same(void **state)
{
    struct ftk_sim sim = baseline(SOCKETS_256K, P);
    (void)state;
    sim.pattern.period_s = 1500;
    sim.machine.shape = 0.7;
    sim.machine.scale_s = 950;
    sim.machine.single = false;
    sim.machine.multiplicity = (struct ftk_model_multiplicity){ FTK_MODEL_ZIPF, 3 };
    struct ftk_sim_result a = simulate(&sim, 20), b = simulate(&sim, 20);
    assert_memory_equal(&a, &b, sizeof a);
    if (a.time_s != GOLDEN_S)
        print_error("the time is %a\n", a.time_s);
    assert_true(a.time_s == GOLDEN_S);
}

/* ---- replicas ---------------------------------------------------------------------------- */

static void t_replicas(void **state)
{
    /* 1000 nodes for 100 h, of which one fails every 5 years: 46 failures */
    struct ftk_sim_replicas sim = { .job = { .work_s = 360000,
                                        .beta = 0.2,
                                        .degree = 2,
                                        .nodes = 1000,
                                        .mtbf_s = 5 * YEAR_S,
                                        .clone_s = 600,
                                        .relaunch_s = 120 },
        .clones = true,
        .busy_w = 100,
        .idle_w = 40,
        .machine = { .nodes = 2000, .mtbf_s = 5 * YEAR_S / 2000, .shape = 1, .single = true },
        .limit_s = 1e12 };
    struct ftk_sim_result r;
    double want = 0, sum = 0;
    (void)state;
    assert_int_equal(FTKIT_OK, ftk_simulate_replicas(&sim, 1, 200, &r));
    assert_true(ftk_model_cloned_s(&sim.job, &want));
    NEAR(want, r.time_s, 0.005 * want);
    for (int i = 0; i < FTK_SIM_PARTS; i++)
        sum += r.part_s[i];
    NEAR(2 * r.time_s, sum, 1e-6 * sum);
    NEAR(2 * (want - ftk_model_replicas_s(&sim.job)), r.part_s[FTK_SIM_RESTART], 0.02 * want);
    sim.job.clone_s = 0; /* so each lost replica is there again at once */
    assert_int_equal(FTKIT_OK, ftk_simulate_replicas(&sim, 1, 200, &r));
    NEAR(ftk_model_replicas_s(&sim.job), r.time_s, 1e-6);
    NEAR(r.count[FTK_SIM_FAILURES], r.count[FTK_SIM_SPARES_USED], 0.1);
    sim.clones = false;
    assert_int_equal(FTKIT_OK, ftk_simulate_replicas(&sim, 1, 2000, &r));
    assert_true(ftk_model_uncloned_s(&sim.job, &want));
    NEAR(want, r.time_s, 0.05 * want);
    assert_true(r.count[FTK_SIM_DATA_LOST] > 0);
    sim.machine.mtbf_s = 1e30;
    assert_int_equal(FTKIT_OK, ftk_simulate_replicas(&sim, 1, 2, &r));
    NEAR(ftk_model_replicas_s(&sim.job), r.time_s, 1e-6);
    NEAR(360000 * 1000 * 100., r.part_j[FTK_SIM_WORK], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_none),
        cmocka_unit_test(t_in_work),
        cmocka_unit_test(t_in_set),
        cmocka_unit_test(t_lost_steps),
        cmocka_unit_test(t_in_restart),
        cmocka_unit_test(t_files),
        cmocka_unit_test(t_log),
        cmocka_unit_test(t_ladder),
        cmocka_unit_test(t_stuck),
        cmocka_unit_test(t_thesis),
        cmocka_unit_test(t_formulas),
        cmocka_unit_test(t_levels),
        cmocka_unit_test(t_placement),
        cmocka_unit_test(t_determinants),
        cmocka_unit_test(t_away),
        cmocka_unit_test(t_replay),
        cmocka_unit_test(t_same),
        cmocka_unit_test(t_replicas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
