/* Closing contexts (see close.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "close.h"
#include "core/binding.h"
#include "core/epoch.h"
#include "core/escape.h"
#include "core/left_send.h"
#include "core/log_ops.h"
#include "core/mpi_shim.h"
#include "core/run_state.h"
#include "core/unit.h"
#include "describe.h"
#include "detect/detect.h"
#include "detect/misuse.h"
#include "detect/watchdog.h"
#include "energy/energy.h"
#include "exit_guard.h"
#include "halt.h"
#include "recover/failures.h"
#include "recover/programs.h"
#include "recover/repair.h"
#include "recover/spare.h"
#include "recover/start.h"
#include "set/checkpoint.h"
#include "set/clone.h"
#include "set/debug_regions.h"
#include "set/files.h"
#include "set/region.h"
#include "set/replicas.h"
#include "set/status_file.h"
#include "store/owner.h"

/* ---- memory -------------------------------------------------------------------------- */

void ftk_free_context(struct ftkit_ctx *ctx)
{
    ftk_escape_forget(ctx);
    ftk_energy_close(ctx);
    ftk_debug_close(ctx);
    ftk_steer_close(ctx);
    ftk_log_close(ctx);
    const bool flushed = ftk_flush_close(ctx);
    ftk_files_close(ctx); /* asks the watchdog, and the record of the owner */
    ftk_watchdog_state(ctx->dog, FTK_DOG_LEFT);
    ftk_watchdog_close(ctx->dog);
    if (flushed)
        ftk_owner_release(&ctx->owner);
    (void)ftk_detect_disarm(ctx);
    ftk_spare_close();
    ftk_look_at_left_sends();
    ftk_mpi_free(&ctx->comms.app);
    ftk_mpi_free(&ctx->comms.act);
    ftk_mpi_free(&ctx->comms.ctl);
    ftk_free_all_retired(ctx);
    ftk_misuse_forget(ctx);
    ftk_detect_close(ctx);
    ftk_mpi_free(&ctx->base);
    ftk_region_free_all(ctx);
    ftk_units_forget(ctx);
    if (!flushed)
        return; /* a thread that waits for a file system has the rest */
    /* sets in memory are removed, unless a relaunch may need them */
    for (int i = 0; i < FTK_LEVELS; i++)
        ftk_level_close(&ctx->level[i],
            ctx->dead || ftk_place_is(ctx->level[i].mem.place.kind, FTK_OUTLIVES_CONTEXT));
    free(ctx->domain);
    free(ctx->teams);
    ftk_programs_free(ctx);
    free(ctx->incarnations);
    free(ctx->repair.line_source);
    ftk_failures_free(ctx->repair.failures);
    ftk_start_forget(ctx);
    free(ctx);
}

/* ---- closing ------------------------------------------------------------------------- */

/* Wait for the set that is being written to the file system.  If some ranks are in ftkit_finish(),
 * or have made another number of calls, *mismatch becomes FTKIT_ERR_MISMATCH, and this rank waits
 * until these ranks come here, too. */
static int drain_to_close(struct ftkit_ctx *ctx, struct ftk_chan *ch, int *mismatch)
{
    int rc = ftk_flush_drain(ctx, ch, FTK_DRAIN_CLOSE);
    while (rc == FTKIT_ERR_MISMATCH) {
        *mismatch = rc;
        rc = ftk_log_finish_set(ctx, ch); /* ranks that come only now settle first, too */
        if (rc == FTKIT_OK)
            rc = ftk_flush_drain(ctx, ch, FTK_DRAIN_CLOSE_ANYWAY);
    }
    return rc;
}

/* Part from the other processes.  First a vote waits for the set that is being written to the file
 * system; its success proves that all working ranks are here.  Then the repair machine ends the
 * context on all processes, so that a failure at any moment finds all of them in the same step.
 * *halted becomes FTKIT_HALT when the job halts and no call of this rank has said so. */
static int part(struct ftkit_ctx *ctx, int *mismatch, int *halted)
{
    struct ftk_chan ch;
    for (;;) {
        ch = ftk_chan_of(ctx);
        ch.broken = ctx->detect.failed;
        (void)FTK_FAULT("close.begin");
        int rc = ftk_clone_give_up(ctx);
        if (rc == FTKIT_OK)
            rc = ftk_replicas_meet(&ch);
        if (rc == FTKIT_OK)
            rc = ftk_log_finish_set(ctx, &ch);
        if (rc == FTKIT_OK && ftk_halts_now(ctx)) {
            /* others are in ftkit_checkpoint(), where they learn of the halt */
            rc = ftk_halt_drain(ctx, &ch, NULL);
            if (rc == FTKIT_OK) {
                *halted = ftk_halt_end(ctx, rc);
                continue;
            }
        }
        if (rc == FTKIT_OK)
            rc = drain_to_close(ctx, &ch, mismatch);
        (void)FTK_FAULT("close.voted");
        if (rc == FTKIT_OK)
            ftk_context_reach(ctx, FTK_ALL_CLOSED);
        else if (rc != FTKIT_ERR_PEER)
            return rc;
        rc = ftk_repair(ctx, MPI_COMM_NULL);
        (void)FTK_FAULT("close.parted");
        if (rc == FTK_PARTED)
            return FTKIT_OK;
        if (rc != FTKIT_OK)
            return rc;
    }
}

static int part_plainly(struct ftkit_ctx *ctx, int *mismatch)
{
    MPI_Request req; /* the spares wait in MPI_Ibarrier(), which MPI_Barrier() does not match */
    struct ftk_chan ch = ftk_chan_of(ctx);
    int drained = drain_to_close(ctx, &ch, mismatch);
    if (drained != FTKIT_OK)
        return drained;
    int rc = MPI_Ibarrier(ctx->comms.ctl, &req);
    if (rc == MPI_SUCCESS)
        rc = MPI_Wait(&req, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && ctx->rank == 0)
        ftk_run_state("closed %s", ctx->cfg.name);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "closing");
}

/* A call of the MPI behind the loop has begun a rollback, and the program does not go back.  The
 * others may wait for messages of this rank, so the end of the job does not wait for them. */
static void end_unrestored(struct ftkit_ctx *ctx)
{
    ftk_repair_flaw(ctx,
        ftk_fail(FTKIT_ERR_PEER, /* no mistake that a relaunch would meet again */
            "ftkit_close before the line is restored: a rank failed when this one had already left "
            "its loop (see ftkit_finish), or the program has left it at the failure"));
    /* at once: the others end when they learn of the error, and that can end the job */
    ftk_report(FTKIT_ERROR, "context %s: rank %d: %s", ctx->cfg.name, ctx->rank, ftk_detail_text());
    ftk_detect_raise(ctx);
}

/* unwinds: an exception of the program is on the way. */
static int close_context(struct ftkit_ctx *ctx, enum ftk_dog_place place, bool unwinds)
{
    int rc = ctx->dead, mismatch = FTKIT_OK, halted = FTKIT_OK;
    ftk_replicas_at(ctx, FTK_AT_CLOSE); /* also in MPI_Finalize() */
    ftk_watchdog_at(ctx->dog, place, ctx->rank, ctx->policy.calls);
    if (ctx->mode != FTKIT_MODE_RESTART && ctx->cfg.exit_is_failure && unwinds)
        ftk_watchdog_unwind(ctx->dog);
    ftk_misuse_enter(ctx, "ftkit_close");
    ftk_energy_begin(ctx, FTK_ENERGY_WAIT);
    if (rc == FTKIT_OK && ftk_log_rolling_back(ctx))
        end_unrestored(ctx);
    if (rc != FTKIT_OK) {
        rc = ftk_fail(rc, "%s", ctx->detail);
    } else {
        ftk_context_reach(ctx, FTK_IN_CLOSE);
        rc = ctx->mode == FTKIT_MODE_RESTART ? part_plainly(ctx, &mismatch)
                                             : part(ctx, &mismatch, &halted);
    }
    if (rc == FTKIT_OK)
        rc = ftk_flush_return(ctx);
    if (rc == FTKIT_OK)
        rc = ftk_log_sound(ctx);
    rc = rc == FTKIT_OK ? mismatch : rc; /* the detail of the mismatch is still there */
    if (rc == FTKIT_OK && place == FTK_AT_CLOSE && !ftk_is_halted(ctx) && !unwinds)
        ftk_start_mark(ctx);
    ftk_guard_exit(ctx, -1);
    ftk_energy_close(ctx);
    ftk_describe_close(ctx, rc);
    ftk_status_file_last(ctx, rc == FTKIT_OK ? "closed" : "ended");
    ftk_free_context(ctx);
    return rc == FTKIT_OK ? halted : rc;
}

int ftkit_binding_close(ftkit_ctx **pctx, int unwinds)
{
    if (!pctx || !*pctx)
        return ftk_fail(FTKIT_ERR_ARG, "ftkit_close: the context is NULL");
    struct ftkit_ctx *ctx = *pctx;
    *pctx = NULL;
    return close_context(ctx, FTK_AT_CLOSE, unwinds != 0);
}

int ftkit_close(ftkit_ctx **pctx)
{
    return ftkit_binding_close(pctx, ftk_guard_unwinds());
}

/* ---- MPI_Finalize with an open context --------------------------------------------------
 * MPI_Finalize begins with the attributes of MPI_COMM_SELF, while MPI still works.  The spares
 * wait for the end of the job, and a set may still be on its way to the file system: so the
 * context is closed for the program.  The exit code 1 reports the mistake. */

static void fail_exit(int status, void *arg)
{
    (void)arg;
    if (status != 0)
        return;
    ftk_run_state("exit 1");
    fflush(NULL);
    _exit(1);
}

static int on_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    struct ftkit_ctx *ctx;
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    while ((ctx = ftk_detect_first()) != NULL) {
        static bool failing;
        ftk_report_last(
            "rank %d calls MPI_Finalize with context '%s' open. Rule: every rank calls "
            "ftkit_close before MPI_Finalize. It is closed here, and the exit code is 1",
            ctx->rank, ctx->cfg.name);
        if (!failing)
            failing = on_exit(fail_exit, NULL) == 0;
        if (close_context(ctx, FTK_AT_FINALIZE, ftk_guard_unwinds()) < FTKIT_OK)
            ftk_report_last("ftkit_close in MPI_Finalize: %s", ftk_detail_text());
    }
    ftk_mpi_free_agreed();
    return MPI_SUCCESS;
}

int ftk_guard_finalize(void)
{
    static int keyval = MPI_KEYVAL_INVALID;
    if (keyval != MPI_KEYVAL_INVALID)
        return FTKIT_OK;
    int rc = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &keyval, NULL);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "an attribute of MPI_COMM_SELF");
}
