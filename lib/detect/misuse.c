/* Communicators and threads that the program uses against the rules (see misuse.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "core/epoch.h"
#include "core/log_ops.h"
#include "core/mpi_shim.h"
#include "core/run_state.h"
#include "misuse.h"
#include "watchdog.h"

#define STALE_MAX 3 /* a second time may come from the code that ends a step */

void ftk_misuse_end(struct ftkit_ctx *ctx, const char *why)
{
    ftk_run_state("mistake %s", why);
    ftk_watchdog_end(ctx->dog, why);
    ftk_report_last("%s", why);
    (void)MPI_Abort(MPI_COMM_WORLD, 1); /* reached only without a watchdog */
}

void ftk_misuse_enter(struct ftkit_ctx *ctx, const char *call)
{
    if (!ftk_log_alone(ctx, call)) /* the others may wait for this call already */
        ftk_misuse_end(ctx, "two threads have called MPI and ftkit at once, see the line above");
}

/* ---- communicators from before a repair -------------------------------------------------- */

bool ftk_misuse_is_stale(const struct ftkit_ctx *ctx, MPI_Comm comm)
{
    return ctx->mode == FTKIT_MODE_GLOBAL && ctx->epoch > 0
           && (ftk_was_app(ctx, comm)
               || ftk_mpi_failed_before(comm, ctx->detect.past, ctx->comms.ctl));
}

void ftk_misuse_epoch_ends(struct ftkit_ctx *ctx)
{
    MPI_Group ended, all, *past = &ctx->detect.past;
    if (MPI_Comm_group(ctx->comms.ctl, &ended) != MPI_SUCCESS)
        return; /* then fewer communicators are known to be stale */
    if (*past == MPI_GROUP_NULL) {
        *past = ended;
        return;
    }
    if (MPI_Group_union(*past, ended, &all) == MPI_SUCCESS) {
        (void)MPI_Group_free(past);
        *past = all;
    }
    (void)MPI_Group_free(&ended);
}

void ftk_misuse_forget(struct ftkit_ctx *ctx)
{
    if (ctx->detect.past != MPI_GROUP_NULL)
        (void)MPI_Group_free(&ctx->detect.past);
}

/* The processes that were lost and replaced so far. */
static int64_t lost(const struct ftkit_ctx *ctx)
{
    int64_t n = 0;
    for (int r = 0; ctx->incarnations && r < ctx->nranks; r++)
        n += ctx->incarnations[r];
    return n;
}

/* All ranks go back because of the error, and would come to the same call again. */
void ftk_misuse_stale(struct ftkit_ctx *ctx, MPI_Comm comm, const char *call)
{
    struct ftk_stale *s = &ctx->detect.stale;
    char why[400];
    bool again = s->comm == comm && s->committed == ctx->committed && s->lost == lost(ctx);
    *s = (struct ftk_stale){ comm, again ? s->times + 1 : 1, ctx->committed, lost(ctx) };
    snprintf(why, sizeof why,
        "rank %d calls %s on a communicator from before the last repair%s. Rule: ask for "
        "ftkit_comm() again after a repair, or use ftkit_bind_comm; make communicators that are "
        "made from it again, in the callback of ftkit_on_repair",
        ctx->rank, call ? call : "a function of MPI",
        s->times < STALE_MAX ? ": all ranks go back once more" : ", again and again");
    if (s->times >= STALE_MAX)
        ftk_misuse_end(ctx, why);
    else if (ftk_watchdog_first(ctx->dog, FTK_ONCE_STALE))
        ftk_report(FTKIT_WARNING, "context %s: %s", ctx->cfg.name, why);
}

/* ---- error handlers ---------------------------------------------------------------------- */

bool ftk_misuse_is_fatal(MPI_Comm comm)
{
    MPI_Errhandler h;
    if (comm == MPI_COMM_NULL || MPI_Comm_get_errhandler(comm, &h) != MPI_SUCCESS)
        return false;
    const bool fatal = h == MPI_ERRORS_ARE_FATAL;
    if (!fatal && h != MPI_ERRORS_RETURN)
        (void)MPI_Errhandler_free(&h); /* only the reference */
    return fatal;
}

void ftk_misuse_look_at_handlers(struct ftkit_ctx *ctx)
{
    const struct ftk_detection *d = &ctx->detect;
    if (ctx->mode != FTKIT_MODE_GLOBAL) /* with the log the handler does not run for a failure */
        return;
    const char *which = NULL, *rule = NULL;
    for (int i = 0; i < d->ntracked; i++)
        if (ftk_misuse_is_fatal(d->tracked[i])) {
            which = "a communicator of ftkit_track_comm";
            rule = "a communicator that is made from ftkit_comm()";
        }
    if (ftk_misuse_is_fatal(MPI_COMM_WORLD))
        which = rule = "MPI_COMM_WORLD";
    if (ftk_misuse_is_fatal(ctx->comms.app)) {
        which = "the communicator of ftkit_comm()";
        rule = "ftkit_comm()";
    }
    if (which && ftk_watchdog_first(ctx->dog, FTK_ONCE_FATAL_HANDLER))
        ftk_report(FTKIT_WARNING,
            "context %s: on rank %d %s has the error handler MPI_ERRORS_ARE_FATAL: a call that "
            "meets the failure of a rank will end this process, too. Rule: after ftkit_open leave "
            "the error handler of %s as it is, or set MPI_ERRORS_RETURN",
            ctx->cfg.name, ctx->rank, which, rule);
}
