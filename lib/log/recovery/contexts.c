/* The communicators of the MPI behind the contexts, from epoch to epoch.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "core/epoch.h"
#include "core/mpi_shim.h"
#include "detect/sure.h"
#include "log/base/control.h"
#include "state.h"
#include "steps.h"

static bool is_used(int c)
{
    if (c < FTK_LOG_COLLS)
        return c < ftk_log.vcomms.ncontexts;
    return c < FTK_LOG_PROGRAM_COMMS || ftk_control_uses(c);
}

static int make(const struct ftk_log_repair *r)
{
    const struct ftk_sure s = { r->act, NULL, "making the contexts of the message log" };
    struct ftk_log *l = &ftk_log;
    for (int c = 0; c < FTK_LOG_COMMS; c++) {
        if (!is_used(c))
            continue;
        int mrc = PMPI_Comm_dup(r->act, &l->epoch.next[c]);
        int rc = ftk_sure_comm(&s, mrc, &l->epoch.next[c], NULL, 0);
        if (rc != FTKIT_OK)
            return rc;
    }
    return FTKIT_OK;
}

/* Retire comms [FTK_LOG_COMMS], which become MPI_COMM_NULL: late events of the MPI may still refer
 * to them. */
static int retire(struct ftkit_ctx *ctx, MPI_Comm *comms)
{
    int rc = FTKIT_OK;
    for (int c = 0; rc == FTKIT_OK && c < FTK_LOG_COMMS; c++) {
        rc = ftk_retire(ctx, comms[c]);
        comms[c] = MPI_COMM_NULL;
    }
    return rc;
}

/* There are no communicators yet. */
static void begin(void)
{
    ftk_epoch_open();
}

/* The attempt has failed.  A member may still wait in a call on a new communicator. */
static int abandon(void)
{
    for (int c = 0; c < FTK_LOG_COMMS; c++)
        ftk_mpi_revoke(ftk_log.epoch.next[c]);
    return retire(ftk_log.ctx, ftk_log.epoch.next);
}

static int new_epoch(const struct ftk_log_repair *r)
{
    (void)r;
    const int rc = retire(ftk_log.ctx, ftk_log.epoch.real);
    if (rc != FTKIT_OK)
        return rc;
    if (FTK_FAULT("log.install"))
        return ftk_fail(FTKIT_ERR_NOMEM, "injected");
    ftk_epoch_begin();
    return FTKIT_OK;
}

static void close_comms(void)
{
    struct ftkit_ctx *ctx = ftk_log.ctx;
    int rc = retire(ctx, ftk_log.epoch.real);
    if (rc == FTKIT_OK)
        rc = retire(ctx, ftk_log.epoch.next);
    if (rc != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "context %s: %s", ctx->cfg.name, ftk_detail_text());
}

const struct ftk_part ftk_part_contexts = { .begin = begin,
    .close = close_comms,
    .prepare = make,
    .abandon = abandon,
    .new_epoch = new_epoch };
