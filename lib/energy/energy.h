/* The energy of a node, as its sensors measure it, for each phase of the run.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The lowest working rank of each node reads the sensors (sensors.h) and has an account,
 * ctx->energy.  All other ranks have none, and neither has any rank of a node without sensors:
 * then the functions below look at this pointer, and do nothing.
 *
 * The account follows the phases of its rank.  Sensors are read when the phase changes, and in
 * ftkit_checkpoint() once a second, so that no counter wraps unseen; but at most once a
 * millisecond.  If phases change more often, the energy between two readings is divided by time.
 * An interval whose energy is not known counts neither as energy nor as time. */
#ifndef FTK_ENERGY_H
#define FTK_ENERGY_H

#include "core/context.h"

/* What a rank does, in ascending priority: several phases may be under way, and the last one
 * counts.  RUN always is under way. */
enum ftk_energy_phase {
    FTK_ENERGY_RUN,    /* the program computes */
    FTK_ENERGY_FLUSH,  /* a set is written to the file system; mostly in the background */
    FTK_ENERGY_REPLAY, /* with the log: from the restore of this rank to the next set */
    FTK_ENERGY_WAIT,   /* inside ftkit, for other ranks or for the file system */
    FTK_ENERGY_SET,    /* a set is written to memory or to level.local */
    FTK_ENERGY_REPAIR, /* a repair, and the restore of a set */
    FTK_ENERGY_PHASES
};

struct ftk_energy_sum {
    double seconds, joules;
};

/* ---- account.c ------------------------------------------------------------- */

#define FTK_ENERGY_READ_S 0.001 /* least time between two readings: RAPL counts at this rate */

struct ftk_account;

/* Begin an account with the sensors below the root of sysfs; NULL: there are none. */
struct ftk_account *ftk_account_open(const char *sysfs, double now_s);
const char *ftk_account_source(const struct ftk_account *m);
/* A phase begins, or ends, unless it did so before. */
void ftk_account_change(
    struct ftk_account *m, enum ftk_energy_phase phase, bool begins, double now_s);
/* Read the sensors if the last reading is older than this. */
void ftk_account_read(struct ftk_account *m, double now_s, double older_s);
/* The sums so far, of intervals whose energy is known. */
const struct ftk_energy_sum *ftk_account_sums(const struct ftk_account *m); /* [PHASES] */
void ftk_account_close(struct ftk_account *m);                              /* NULL is fine */

/* ---- energy.c: the account of a context ----------------------------------------------- */

/* The ranks of the nodes are known, or have changed: this rank may have to begin, or to end, its
 * account.  Local. */
void ftk_energy_choose_reader(struct ftkit_ctx *ctx);
/* Write the rest into the event log and end the account. */
void ftk_energy_close(struct ftkit_ctx *ctx);
/* Joules since the account began; NaN: there is no account. */
double ftk_energy_joules(const struct ftkit_ctx *ctx);

/* With an account: the time is now_s, in a call of ftkit_checkpoint(); a phase begins or ends. */
void ftk_energy_look(struct ftkit_ctx *ctx, double now_s);
void ftk_energy_change(struct ftkit_ctx *ctx, enum ftk_energy_phase phase, bool begins);

static inline void ftk_energy_begin(struct ftkit_ctx *ctx, enum ftk_energy_phase phase)
{
    if (ctx->energy)
        ftk_energy_change(ctx, phase, true);
}

static inline void ftk_energy_end(struct ftkit_ctx *ctx, enum ftk_energy_phase phase)
{
    if (ctx->energy)
        ftk_energy_change(ctx, phase, false);
}

#endif
