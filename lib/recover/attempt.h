/* The state of one attempt of a repair, for the files that carry out the attempt (see repair.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_ATTEMPT_H
#define FTK_ATTEMPT_H

#include "core/log_ops.h"
#include "plan.h"

/* What the survivor of the lowest rank hands over to replacements, in seconds: the costs, because a
 * replacement has measured nothing yet, and the deadline, because it counts from the opening of
 * the job. */
struct ftk_handover {
    double set_s, durable_s, flush_s; /* 0: not measured */
    double deadline_s;                /* since 1970 */
    /* of struct ftk_course */
    uint64_t course_set, course_far;
    double course_far_s;
};

/* What an attempt has made so far.  When the processes have agreed, the attempt is installed;
 * otherwise it is discarded. */
struct ftk_attempt {
    struct ftkit_ctx *ctx;
    MPI_Comm s; /* all live processes */
    struct ftk_comms next;
    struct ftk_census census;
    struct ftk_plan plan;
    bool planned;  /* plan is valid, and to be freed */
    bool compares; /* s may have processes of another build of ftkit */
    bool refused;  /* the processes of s have agreed already that the attempt has failed */
    int error;     /* of this process in this attempt; 0: none */
    struct ftk_layout layout[FTK_LEVELS];
    int *domain;       /* [plan.nranks] */
    int *incarnations; /* [plan.nranks] */
    int *programs;     /* [plan.nranks] program of each rank; NULL: the job has one */
    uint64_t run, epoch_id;
    uint64_t next_set;
    uint64_t line;   /* of the plan; 0: none */
    int line_nranks; /* number of ranks that wrote the line */
    int epoch;
    struct ftk_handover handover;
    struct ftk_failures *failures; /* NULL: none yet, or the context has them */
    bool missed;                   /* the log has found that this rank missed a commit */
    uint64_t next_event;           /* ... then: of the job */
    double t_start, t_shrunk, t_planned, t_built;
};

/* Set *me to the rank of this process in a->s: the index of the process in the plan. */
int ftk_attempt_rank(const struct ftk_attempt *a, int *me);
/* Return the facts that the log needs.  Precondition: the plan and a->next.act are made. */
struct ftk_log_repair ftk_attempt_for_log(const struct ftk_attempt *a);

/* install.c: make the attempt the state of the context, after the processes have agreed.  Local.
 * An error of the log is not returned: it becomes the local error in the next census. */
int ftk_attempt_install(struct ftk_attempt *a);

/* report.c: write the lines about a repair, and the marks for `ftkit run`. */
void ftk_attempt_report(const struct ftk_attempt *a);
void ftk_attempt_report_processes(const struct ftk_attempt *a);

#endif
