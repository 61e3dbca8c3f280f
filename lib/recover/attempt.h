/* One attempt of a repair: its state, for the files that carry it out (see recover.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_ATTEMPT_H
#define FTK_ATTEMPT_H

#include "core/log_ops.h"
#include "recover.h"

/* What an attempt has made so far.  The attempt is installed when the ranks have agreed, or thrown
 * away. */
struct ftk_attempt {
    struct ftkit_ctx *ctx;
    MPI_Comm s;
    struct ftk_comms next;
    struct ftk_census census;
    struct ftk_plan plan;
    bool planned;
    int error; /* local error of this attempt; 0: none */
    struct ftk_layout layout[FTK_LEVELS];
    int *domain;
    int *incarnations;
    uint64_t run, epoch_id;
    uint64_t next_set;
    uint64_t line; /* set that is in memory at the end */
    int line_nranks;
    int epoch;
    int repeats;
    double t_start, t_shrunk, t_planned, t_built;
};

/* The index of this process among the members of a->s, which the plan is about. */
int ftk_attempt_rank(const struct ftk_attempt *a, int *me);
/* The facts that the log needs. */
struct ftk_log_repair ftk_attempt_for_log(const struct ftk_attempt *a);

/* install.c: the ranks have agreed, the attempt becomes the state of the context.  Local.  An error
 * of the log is not the result: the error becomes the local error of the next census. */
int ftk_attempt_install(struct ftk_attempt *a);

/* report.c: the lines about a repair, and the marks for `ftkit run`. */
void ftk_attempt_report(const struct ftk_attempt *a);
void ftk_attempt_report_processes(const struct ftk_attempt *a);

#endif
