/* Requests from outside: signals, `ftkit run`, `ftkit halt`, the deadline.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     SIGUSR1                              a durable set soon
 *     SIGUSR2, SIGTERM, DIR/NAME.ftkit/halt, checkpoint.deadline
 *                                          a durable set soon, then FTKIT_HALT
 *
 * `ftkit run` asks for both by a page, too (core/requests.h): the program may have handlers of its
 * own for the signals.
 *
 * A request reaches one rank, or some ranks, at any moment.  All ranks have to write the set in the
 * same call of ftkit_checkpoint().  So a rank keeps the request until the next vote that all ranks
 * take anyway: a look (policy.c) or the vote before a set (checkpoint.c).  A request that reaches
 * no rank before a failure is not lost: the survivors keep it.  A halt that all ranks have agreed
 * on outlives the rank that was asked: the survivors ask for it again after a rollback. */
#ifndef FTK_STEER_H
#define FTK_STEER_H

#include "core/ftk.h"

struct ftkit_ctx;

/* A vote takes the largest. */
enum ftk_ask { FTK_ASK_NOTHING, FTK_ASK_SET, FTK_ASK_HALT };

/* What this rank knows of a halt. */
enum ftk_halt {
    FTK_HALT_NOT,
    FTK_HALT_AGREED, /* all ranks: the set that is written, or the last one, is that of a halt */
    FTK_HALT_DURABLE /* the set of a halt is durable: ftkit_checkpoint() returns FTKIT_HALT */
};

/* The value of policy.next_event after the set of a halt: there are no more events. */
#define FTK_HALTED UINT64_MAX

struct ftk_steer {
    int sets_done;      /* number of SIGUSR1 that sets were written for */
    int page_sets;      /* the same for requests of ftkit run */
    int page_halts;     /* number of requests for a halt before the context was opened */
    bool owed;          /* the program has asked for the line to be durable, before a rollback */
    double end_s;       /* the deadline, seconds since 1970; 0: none */
    bool said_short;    /* a warning has said that the deadline leaves no time for a set */
    double file_s;      /* when rank 0 has last looked for the file of `ftkit halt` */
    bool file;          /* there is one */
    const char *reason; /* of the halt; NULL: this rank was not asked for it */
    enum ftk_halt halt;
};

/* The context opens: take the signals that have no handler, and note the deadline.  Close: give
 * the signals back. */
void ftk_steer_open(struct ftkit_ctx *ctx);
void ftk_steer_close(struct ftkit_ctx *ctx);

/* Take over the deadline of a survivor, seconds since 1970. */
void ftk_steer_take_deadline(struct ftkit_ctx *ctx, double end_s);

/* The request of this rank (enum ftk_ask). */
int ftk_steer_ask(struct ftkit_ctx *ctx);
/* All ranks have agreed to write the durable set that was asked for. */
void ftk_steer_taken(struct ftkit_ctx *ctx, int ask);
/* The set of a halt is durable, or rc says why it is not: rank 0 reports. */
void ftk_steer_halted(struct ftkit_ctx *ctx, int rc);
/* All ranks have agreed on a halt: rank 0 writes this for `ftkit run`, before any rank leaves its
 * loop.  If ranks die from now on, also all of them, the job is not relaunched, and the next start
 * goes on.  A repair that goes back to an older set takes this back (report.c). */
void ftk_steer_halts(const struct ftkit_ctx *ctx);

#endif
