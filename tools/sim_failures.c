/* ftkit sim: the failures of a log, to be replayed.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "failures.h"
#include "sim.h"

/* The records of the log, coalesced, become failures. */
static void take(const struct sm_ask *ask, struct ftk_failure_log *log, struct sm_failures *f)
{
    size_t n = ftk_coalesce_same_node(log->v, log->n, ask->same_node_s);
    struct ftk_coalesce_failure *failure = ftk_tool_alloc(n * sizeof *failure);
    f->log.n = ftk_coalesce_together(log->v, n, ask->together_s, failure);
    f->v = ftk_tool_alloc(f->log.n * sizeof *f->v);
    f->node = ftk_tool_alloc(n * sizeof *f->node);
    double first = ask->from_start && !log->dated ? 0 : failure[0].at_s;
    size_t at = 0;
    for (size_t i = 0; i < f->log.n; i++) {
        f->v[i] = (struct ftk_machine_failure){ failure[i].at_s - first, failure[i].repair_s, at,
            failure[i].records };
        for (size_t k = 0; k < failure[i].records; k++, at++)
            f->node[at] = log->v[at].node;
    }
    f->log.v = f->v;
    f->log.node = f->node;
    f->log.nodes = (int)log->nodes;
    double last = f->v[f->log.n - 1].at_s;
    f->mtbf_s = f->log.n > 1 ? last / (double)(f->log.n - 1) : last;
    /* the gap from the last failure to the first one of the next turn is the mean gap */
    f->log.length_s = ask->from_start ? (double)INFINITY : last + f->mtbf_s;
    free(failure);
}

int ftk_sm_failures(const struct sm_ask *ask, struct sm_failures *f)
{
    struct ftk_failure_log log;
    memset(f, 0, sizeof *f);
    int code = ftk_failures_read_one(ask->log, ask->system, &log);
    if (code == TOOL_OK)
        take(ask, &log, f);
    if (code == TOOL_OK && !(f->mtbf_s > 0)) {
        ftk_tool_say("%s: there is no time between failures (records: %zu)", ask->log, log.n);
        code = TOOL_FAIL;
    }
    ftk_failures_free(&log);
    return code;
}

void ftk_sm_failures_free(struct sm_failures *f)
{
    free(f->v);
    free(f->node);
}
