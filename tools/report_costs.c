/* ftkit plan: the costs of a run, and the speed of its replays, from its event log, by the reader
 * of ftkit report.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "report.h"

static void measured(struct pl_value *value, double sum, uint64_t samples)
{
    if (samples > 0 && value->from < PL_MEASURED)
        *value = (struct pl_value){ sum / (double)samples, PL_MEASURED, samples };
}

/* A set takes as long as on its slowest rank: all others wait for this one. */
static void measure_sets(const struct rp_log *log, int level, struct pl_value *value)
{
    double sum = 0;
    uint64_t sets = 0;
    for (size_t i = 0; i < log->nsets; i++)
        if (log->sets[i].level[level].ranks > 0) {
            sum += log->sets[i].level[level].seconds_max;
            sets++;
        }
    measured(value, sum, sets);
}

static bool in_background(const struct rp_log *log)
{
    for (size_t i = 0; i < log->nkeys; i++)
        if (strcmp(log->keys[i].key, "level.hdf5.asynchronous") == 0)
            return strcmp(log->keys[i].value, "true") == 0;
    return true;
}

/* The speed of the replays with the message log: all of their first executions to all of the
 * replays.  Without the log ranks wait for each other again, so those replays show nothing. */
static void measure_replays(const struct rp_log *log, struct pl_ask *ask)
{
    double seconds = 0, forward = 0;
    uint64_t n = 0;
    for (size_t i = 0; strcmp(log->mode, "team") == 0 && i < log->nrestores; i++) {
        const struct rp_restore *x = &log->restores[i];
        if (!(x->replay > 0 && x->forward > 0))
            continue; /* none, or no times */
        if (x->forward < PL_REPLAY_S) {
            ask->short_replays++;
            continue;
        }
        seconds += x->replay;
        forward += x->forward;
        n++;
    }
    if (n > 0)
        ask->speed = (struct pl_value){ fmax(fmin(forward / seconds, PL_FASTEST), PL_SLOWEST),
            PL_MEASURED, n };
}

static void measure(const struct rp_log *log, struct pl_ask *ask)
{
    double sum = 0;
    uint64_t n = 0;
    measure_sets(log, RP_MEMORY, &ask->cost[PL_MEMORY]);
    measure_sets(log, RP_LOCAL, &ask->cost[PL_LOCAL]);
    measure_sets(log, RP_FILES, in_background(log) ? &ask->flush : &ask->cost[PL_FILES]);
    for (size_t i = 0; i < log->nrepairs; i++)
        sum += log->repairs[i].seconds;
    measured(&ask->repair, sum, log->nrepairs);
    sum = 0;
    for (size_t i = 0; i < log->nattempts; i++)
        for (size_t k = 0; k < log->nattempts; k++) {
            const struct rp_attempt *a = &log->attempts[i], *b = &log->attempts[k];
            if (a->again && a->end > 0 && a->session == b->session && b->attempt == a->attempt + 1
                && b->opened > a->end) {
                sum += b->opened - a->end;
                n++;
            }
        }
    measured(&ask->relaunch, sum, n);
    measured(&ask->nodes, log->nodes, log->nodes > 0);
    measure_replays(log, ask);
}

int ftk_pl_measure(struct pl_ask *ask)
{
    struct rp_log *log = ftk_tool_alloc(sizeof *log);
    int code = ftk_rp_add_path(log, ask->events);
    if (code == TOOL_OK)
        code = ftk_rp_choose(log, ask->run, ask->context);
    if (code == TOOL_OK)
        code = ftk_rp_read(log);
    if (code == TOOL_OK) {
        ftk_rp_sum(log);
        measure(log, ask);
    }
    ftk_rp_free(log);
    free(log);
    return code;
}
