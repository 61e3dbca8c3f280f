/* What a rank does when the rank may have learned of a failure.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions call no MPI, and depend on their arguments only; detect.c carries out what they
 * decide.
 *
 *   CALM --the watch ends, not because of spares alone------------> ENDED
 *   ENDED --a look, while the ranks do not close-----------------> KNOWN: raise
 *   ENDED --a look after FTK_CLOSING_GRACE_S, while they close---> KNOWN: raise
 *   CALM --a call on a communicator of ftkit meets a failure-----> KNOWN: raise
 *   CALM --a call fails otherwise--> UNCLEAR, for FTK_UNCLEAR_WAIT_S at most
 *   UNCLEAR --a failure is noticed-------------------------------> KNOWN: raise
 *   UNCLEAR --none, and the code is that of a failure------------> KNOWN: raise
 *   UNCLEAR --none, and another code-----------------------------> CALM: it is the program's error
 *   KNOWN --repair-----------------------------------------------> CALM */
#ifndef FTK_NOTICE_H
#define FTK_NOTICE_H

#include "core/context.h"

#define FTK_CLOSING_GRACE_S 0.2 /* time for the last vote of a close to complete */
#define FTK_UNCLEAR_WAIT_S 2.0 /* most time between an error and the notice of the failure behind */

/* What a context knows, as far as a decision needs it. */
struct ftk_notice {
    bool known; /* a failure is known that is not repaired */
    bool spare; /* this process has no rank */
    bool team;  /* FTKIT_MODE_TEAM: the log repairs calls of the program */
    enum ftk_where where;
    double ended_s; /* when the watch ended; 0: it has not */
};

static inline struct ftk_notice ftk_notice_of(const struct ftkit_ctx *ctx)
{
    return (struct ftk_notice){ .known = ctx->detect.failed,
        .spare = ctx->rank < 0,
        .team = ctx->mode == FTKIT_MODE_TEAM,
        .where = (enum ftk_where)ctx->where,
        .ended_s = ctx->detect.watch_s };
}

/* What raising consists of. */
enum ftk_raise {
    FTK_RAISE_SAY = 1,     /* a line and an event: the failure is new */
    FTK_RAISE_CALLED = 2,  /* a line: a spare does not know yet whether this is a failure */
    FTK_RAISE_CTL = 4,     /* revoke ctl */
    FTK_RAISE_WORK = 8,    /* revoke act and app */
    FTK_RAISE_TRACKED = 16 /* revoke communicators of the program */
};
unsigned ftk_notice_raise(const struct ftk_notice *n);

/* The watch has ended: whether to raise now. */
bool ftk_notice_is_due(const struct ftk_notice *n, double now_s);

/* A call of the program has failed. */
struct ftk_call_error {
    bool failure;   /* the code says that a process has failed */
    bool open;      /* a context is open */
    bool mine;      /* the communicator is ftkit's or tracked */
    bool world;     /* it is MPI_COMM_WORLD ... */
    bool forbidden; /* ... which has spares, and is revoked */
    bool self;      /* it is MPI_COMM_SELF */
};
enum ftk_error_first {
    FTK_ERROR_MISTAKE, /* the program may not use MPI_COMM_WORLD: end the job */
    FTK_ERROR_PROGRAM, /* no repair will come: give the error to the program's handler */
    FTK_ERROR_RAISE,   /* raise on the contexts that have the communicator */
    FTK_ERROR_DERIVED, /* of the program: interrupt its other members; then as UNCLEAR */
    FTK_ERROR_UNCLEAR  /* wait for the notice of a failure */
};
enum ftk_error_first ftk_notice_error(const struct ftk_call_error *e);
/* After the wait, explained: a failure is known.  Returns FTK_ERROR_PROGRAM, FTK_ERROR_RAISE (on
 * all contexts), or FTK_ERROR_UNCLEAR: nothing more is to be done. */
enum ftk_error_first ftk_notice_after_wait(const struct ftk_call_error *e, bool explained);

#endif
