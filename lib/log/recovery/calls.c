/* Collective calls of ftkit itself, when a rank makes them again.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that goes back makes the same calls again, except ftkit_wait() and ftkit_scrub() at the
 * line (ftk_policy_at_line()).  Whether the rank comes to these calls depends on the place of
 * ftkit_checkpoint() in the loop.  So the outcomes of these calls are marked, and every other call
 * passes over marked outcomes.  Once a rank has gone back to the line, no rank waits for others in
 * a call at the line. */
#include <stdlib.h>

#include "log/base/part.h"
#include "log/recovery/recovery.h"
#include "set/policy.h"
#include "state.h"

void ftk_calls_reschedule(uint64_t next_event)
{
    struct ftk_log *l = &ftk_log;
    if (l->calls.n > 0)
        l->calls.outs[l->calls.n - 1].next_event = next_event;
    else
        ftk_line_reschedule(next_event);
}

bool ftk_calls_repeats(void)
{
    return ftk_log.calls.seq < ftk_log.calls.n;
}

int ftk_calls_pass_line(struct ftkit_ctx *ctx)
{
    struct ftk_log *l = &ftk_log;
    while (ftk_calls_repeats() && l->calls.outs[l->calls.seq].at_line)
        ftk_policy_set_event(ctx, l->calls.outs[l->calls.seq++].next_event);
    return FTKIT_OK;
}

bool ftk_calls_replayed(struct ftkit_ctx *ctx, bool at_line, int *code)
{
    struct ftk_log *l = &ftk_log;
    if (!at_line)
        (void)ftk_calls_pass_line(ctx);
    if (at_line && l->line.shunned
        && !(ftk_calls_repeats() && l->calls.outs[l->calls.seq].at_line)) {
        *code = FTKIT_OK;
        return true;
    }
    if (!ftk_calls_repeats())
        return false;
    *code = l->calls.outs[l->calls.seq].code;
    ftk_policy_set_event(ctx, l->calls.outs[l->calls.seq].next_event);
    l->calls.seq++;
    if (*code < 0)
        (void)ftk_fail(*code, "as before the failure: %s", ftkit_strerror(*code));
    return true;
}

int ftk_calls_outcome(struct ftkit_ctx *ctx, bool at_line, int code)
{
    struct ftk_log *l = &ftk_log;
    if (code == FTKIT_ERR_PEER || l->calls.seq < l->calls.n)
        return code;
    struct ftk_logged_call *all = realloc(l->calls.outs, (l->calls.n + 1) * sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "calls since the line");
    l->calls.outs = all;
    all[l->calls.n++] = (struct ftk_logged_call){ ctx->policy.next_event, code, at_line };
    l->calls.seq = l->calls.n;
    return code;
}

/* ---- the part ------------------------------------------------------------------------ */

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    ftk_calls_forget();
}

const struct ftk_part ftk_part_calls = { .close = ftk_calls_close, .line = pass_line };
