/* The log of a context: opening, closing, and its table of functions.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "detect/detect.h"
#include "log/base/alone.h"
#include "log/base/layer.h"
#include "log/base/runtime.h"
#include "log/recovery/matrix.h"
#include "log/mode.h"
#include "log/determinant/det.h"
#include "log/payload/range.h"
#include "log/units/units.h"
#include "log/request/progress.h"
#include "log/request/req_ops.h"
#include "log/recovery/recovery.h"
#include "set/checkpoint.h"
#include "apart.h"
#include "state.h"

/* ---- opening and closing ------------------------------------------------------------- */

static int start_log(struct ftkit_ctx *ctx)
{
    ftk_context_mode(ctx, FTKIT_MODE_TEAM);
    ftk_log.on = ftk_log.in_set_up = true;
    const int rc = ftk_parts_start();
    if (rc != FTKIT_OK)
        ftk_log.on = ftk_log.in_set_up = false;
    return rc;
}

static int close_log(struct ftkit_ctx *ctx)
{
    struct ftk_log *l = &ftk_log;
    if (l->on) {
        ftk_parts_stop();
        l->on = false;
        ftk_log_begin_rollback(); /* ends the requests that the program has left under way */
        ftk_parts_forget();
    }
    ftk_parts_close();
    memset(l, 0, sizeof *l);
    ctx->log = NULL;
    return FTKIT_OK;
}

/* ---- rollback ------------------------------------------------------------------------ */

static int restored(struct ftkit_ctx *ctx)
{
    struct ftk_log *l = &ftk_log;
    ftk_line_restored();
    if (ftk_log_is_rolling_back() || ftk_log_replays_setup()) {
        ftk_policy_back(ctx, l->line.calls, l->line.next_event);
    }
    if (ftk_log_is_rolling_back())
        ftk_report(FTKIT_DEBUG, "context %s: rank %d is back at set %llu", ctx->cfg.name, ctx->rank,
            (unsigned long long)ctx->restored);
    if (ftk_log_replays_setup())
        ftk_parts_set_up_over();
    if (ftk_log_is_rolling_back() || ftk_log_replays_setup())
        ftk_log_enter(ftk_recovery_phase());
    if (ftk_parts_restored() != FTKIT_OK) {
        ftk_report(FTKIT_ERROR, "context %s: rank %d: %s", ctx->cfg.name, l->me, ftk_detail_text());
        ftk_repair_flaw(ctx, FTKIT_ERR_NOMEM); /* the next census has it */
        ftk_detect_raise(ctx);
    }
    return FTKIT_OK;
}

/* Set-up is over. */
static int enter_loop(struct ftkit_ctx *ctx)
{
    (void)ctx;
    ftk_log.in_set_up = false;
    ftk_parts_enter_loop();
    return FTKIT_OK;
}

static int freeze(struct ftkit_ctx *ctx)
{
    (void)ctx;
    ftk_parts_freeze();
    return FTKIT_OK;
}

static int abandon(struct ftkit_ctx *ctx)
{
    (void)ctx;
    return ftk_parts_abandon();
}

static int commit(struct ftkit_ctx *ctx)
{
    ftk_line_end(ctx, true);
    return FTKIT_OK;
}

static int give_up(struct ftkit_ctx *ctx)
{
    ftk_line_end(ctx, false);
    return FTKIT_OK;
}

static int at(struct ftkit_ctx *ctx, enum ftk_log_moment moment)
{
    static int (*const moments[FTK_LOG_MOMENTS])(struct ftkit_ctx *) = {
        [FTK_LOG_AT_START] = start_log,
        [FTK_LOG_AT_LOOP] = enter_loop,
        [FTK_LOG_AT_CLOSE] = close_log,
        [FTK_LOG_AT_FAILURE] = freeze,
        [FTK_LOG_AT_FAILED_ATTEMPT] = abandon,
        [FTK_LOG_AT_RESTORED] = restored,
        [FTK_LOG_AT_SET_FOUND] = ftk_line_leave_set_up,
        [FTK_LOG_AT_LOADED] = ftk_line_loaded,
        [FTK_LOG_AT_LEAVING_LINE] = ftk_calls_pass_line,
        [FTK_LOG_AT_COMMIT] = commit,
        [FTK_LOG_AT_GIVE_UP] = give_up,
    };
    return moments[moment](ctx);
}

static struct ftk_log_facts facts(const struct ftkit_ctx *ctx)
{
    return (struct ftk_log_facts){ .call = ftk_mpi_call,
        .comm = ftk_log.vcomms.user ? ftk_log.vcomms.user->handle : MPI_COMM_NULL,
        .teams = ftk_teams(),
        .silent = ftk_log.silent,
        .nteams = ftk_teams_counts().teams,
        .nsilent = ftk_teams_counts().silent,
        .repeats = ftk_calls_repeats(),
        .of_earlier_job = ftk_line_of_earlier_job(ctx),
        .rolling_back = ftk_log_is_rolling_back() && !ftk_apart_is_halted() };
}

static int decide(void *data, size_t bytes)
{
    if (!ftk_alone_enter("ftkit_decide"))
        return ftk_alone_check();
    int rc = ftk_det_decide(data, bytes);
    ftk_alone_leave();
    return rc;
}

static int share(const void *buf, size_t bytes)
{
    if (!ftk_alone_enter("ftkit_share"))
        return ftk_alone_check();
    int rc = ftk_range_share(buf, bytes);
    ftk_alone_leave();
    return rc;
}

static int unshare(const void *buf)
{
    if (!ftk_alone_enter("ftkit_unshare"))
        return ftk_alone_check();
    int rc = ftk_range_unshare(buf);
    ftk_alone_leave();
    return rc;
}

/* ---- the parts of the log (parts.h), the kinds of requests and determinants ----------- */

#define ENTRY(word) &ftk_part_##word,
static const struct ftk_part *const parts[] = { FTK_LOG_PARTS(ENTRY) };
_Static_assert(sizeof parts / sizeof parts[0] < FTK_PARTS_MOST, "more parts than there is room");

#define KIND(NAME, word) [FTK_REQ_##NAME] = &ftk_req_kind_##word,
static const struct ftk_req_ops *const kinds[] = { FTK_REQ_KINDS(KIND) };

#define DET_KIND(NAME, word) [FTK_DET_##NAME] = &ftk_det_kind_##word,
static const struct ftk_det_kind *const det_kinds[] = { FTK_DET_KINDS(DET_KIND) };

void ftk_session_begin(void)
{
    ftk_log.kinds = kinds;
    ftk_log.det_kinds = det_kinds;
    ftk_parts_register(parts, sizeof parts / sizeof parts[0]);
}

/* ---- the table of the log (log_ops.h) ------------------------------------------------ */

static const struct ftk_log_ops log_ops = {
    .at = at,
    .facts = facts,
    .stats = ftk_parts_figures,
    .matrix = ftk_matrix_save,
    .handles = ftk_handle_kinds,
    .decide = decide,
    .share = share,
    .unshare = unshare,
    .run_units = ftk_units_run,
    .enter = ftk_alone_enter,
    .leave = ftk_alone_leave,
    .sound = ftk_alone_check,
    .sent_to = ftk_silent_sent_to,
    .search = ftk_recovery_search,
    .quiesce = ftk_recovery_quiesce,
    .install = ftk_recovery_install,
    .replayed = ftk_calls_replayed,
    .outcome = ftk_calls_outcome,
    .keep_going = ftk_req_keep_going,
    .calls_left = ftk_slog_calls_left,
    .drain = ftk_line_drain,
    .messages_sum = ftk_slog_sum,
    .messages = ftk_slog_list,
    .checkpoint = ftk_apart_checkpoint,
    .finish_set = ftk_apart_finish_set,
};

int ftk_log_open(struct ftkit_ctx *ctx, ftk_log_repair_fn *repair)
{
    if (!ctx->cfg.log_enabled)
        return FTKIT_OK;
    if (ctx->mode != FTKIT_MODE_GLOBAL) {
        ftk_report(
            FTKIT_WARNING, "context %s: log.enabled has no effect in this job", ctx->cfg.name);
        return FTKIT_OK;
    }
    if (ftk_log.ctx)
        return ftk_fail(FTKIT_ERR_STATE, "another context of this process logs messages");
    int rc = ftk_layer_check();
    if (rc != FTKIT_OK)
        return rc;
    memset(&ftk_log, 0, sizeof ftk_log);
    ftk_log.ctx = ctx;
    ftk_log.mode = ftk_mode_for(&ctx->cfg);
    ftk_log.apart.on = ctx->cfg.line == FTK_LINE_APART;
    ftk_log.repair = repair;
    ftk_session_begin();
    ftk_parts_begin();
    ctx->log = &log_ops;
    return ftk_parts_regions(ctx);
}
