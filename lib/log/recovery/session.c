/* The log of a context: opening, closing, and its table of functions.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/base/alone.h"
#include "log/coll/schedule.h"
#include "log/vcomm/comm.h"
#include "log/vcomm/vcomm_image.h"
#include "log/base/layer.h"
#include "log/recovery/matrix.h"
#include "log/mode.h"
#include "log/determinant/det.h"
#include "log/request/progress.h"
#include "log/request/req_ops.h"
#include "log/base/control.h"
#include "log/base/runtime.h"
#include "log/recovery/recovery.h"
#include "log/determinant/set_up.h"
#include "set/checkpoint.h"
#include "apart.h"
#include "state.h"
#include "steps.h"
#include "tail.h"

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

static void close_log(struct ftkit_ctx *ctx)
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
}

/* ---- rollback ------------------------------------------------------------------------ */

static void restored(struct ftkit_ctx *ctx, uint64_t set)
{
    struct ftk_log *l = &ftk_log;
    if (set == 0)
        return;
    ftk_line_restored();
    if (ftk_log_is_rolling_back() || ftk_log_replays_setup()) {
        ftk_policy_back(ctx, l->line.calls, l->line.next_event);
    }
    if (ftk_log_is_rolling_back())
        ftk_report(FTKIT_DEBUG, "context %s: rank %d is back at set %llu", ctx->cfg.name, ctx->rank,
            (unsigned long long)set);
    if (ftk_log_replays_setup())
        ftk_parts_set_up_over();
    if (ftk_log_is_rolling_back() || ftk_log_replays_setup())
        ftk_log_enter(ftk_recovery_phase());
    if (ftk_parts_restored() != FTKIT_OK) {
        ftk_report(FTKIT_ERROR, "context %s: rank %d: %s", ctx->cfg.name, l->me, ftk_detail_text());
        ftk_repair_flaw(ctx, FTKIT_ERR_NOMEM); /* the next census has it */
        ftk_detect_raise(ctx);
    }
}

/* Set-up is over. */
static void enter_loop(void)
{
    ftk_log.in_set_up = false;
    ftk_parts_enter_loop();
}

static int abandon(struct ftkit_ctx *ctx)
{
    (void)ctx;
    return ftk_parts_abandon();
}

static struct ftk_log_facts facts(const struct ftkit_ctx *ctx)
{
    return (struct ftk_log_facts){ .call = ftk_mpi_call,
        .comm = ftk_log.vcomms.user ? ftk_log.vcomms.user->handle : MPI_COMM_NULL,
        .teams = ftk_teams(),
        .repeats = ftk_calls_repeats(),
        .of_earlier_job = ftk_line_of_earlier_job(ctx),
        .rolling_back = ftk_log_is_rolling_back() && !ftk_apart_is_halted() };
}

/* ---- handles of the program's variables ------------------------------------------------ */

static int64_t handle_number(struct ftk_handle h)
{
    switch (h.kind) {
    case FTK_HANDLE_COMM:
        return ftk_vcomm_image_context(h.comm);
    case FTK_HANDLE_REQUEST:
        return ftk_requests_number(h.request);
    default:
        return ftk_requests_message_number(h.message);
    }
}

static int handle_back(int64_t number, struct ftk_handle *h)
{
    if (h->kind == FTK_HANDLE_COMM)
        return ftk_vcomm_of_context(number > INT32_MAX ? -1 : (int)number, &h->comm);
    if (h->kind == FTK_HANDLE_REQUEST)
        h->request = ftk_requests_back(number);
    else
        h->message = ftk_requests_message_back(number);
    return FTKIT_OK;
}

static struct ftk_handle handle_f2c(enum ftk_handle_kind kind, MPI_Fint handle)
{
    struct ftk_handle h = { .kind = kind };
    switch (kind) {
    case FTK_HANDLE_COMM:
        h.comm = PMPI_Comm_f2c(handle);
        break;
    case FTK_HANDLE_REQUEST:
        h.request = ftk_mpi_Request_f2c(handle);
        break;
    default:
        h.message = ftk_mpi_Message_f2c(handle);
    }
    return h;
}

static MPI_Fint handle_c2f(struct ftk_handle h)
{
    switch (h.kind) {
    case FTK_HANDLE_COMM:
        return PMPI_Comm_c2f(h.comm);
    case FTK_HANDLE_REQUEST:
        return ftk_mpi_Request_c2f(h.request);
    default:
        return ftk_mpi_Message_c2f(h.message);
    }
}

static int decide(void *data, size_t bytes)
{
    if (!ftk_alone_enter("ftkit_decide"))
        return ftk_alone_check();
    int rc = ftk_det_decide(data, bytes);
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
    .start = start_log,
    .close = close_log,
    .facts = facts,
    .stats = ftk_parts_figures,
    .matrix = ftk_matrix_save,
    .handle_number = handle_number,
    .handle_back = handle_back,
    .handle_f2c = handle_f2c,
    .handle_c2f = handle_c2f,
    .decide = decide,
    .enter = ftk_alone_enter,
    .leave = ftk_alone_leave,
    .sound = ftk_alone_check,
    .search = ftk_recovery_search,
    .quiesce = ftk_recovery_quiesce,
    .discard = abandon,
    .install = ftk_recovery_install,
    .pass_line = ftk_calls_pass_line,
    .replayed = ftk_calls_replayed,
    .outcome = ftk_calls_outcome,
    .keep_going = ftk_p2p_keep_going,
    .restored = restored,
    .enter_loop = enter_loop,
    .leave_set_up = ftk_line_leave_set_up,
    .loaded = ftk_line_loaded,
    .calls_left = ftk_slog_calls_left,
    .drain = ftk_line_drain,
    .messages_sum = ftk_slog_sum,
    .messages = ftk_slog_list,
    .checkpoint = ftk_apart_checkpoint,
    .settle = ftk_apart_settle,
    .freeze = ftk_apart_freeze,
    .line_end = ftk_line_end,
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
