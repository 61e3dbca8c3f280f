/* Collective calls of ftkit itself, when a rank makes them again.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "log/control.h"
#include "log/recovery.h"

void ftk_calls_reschedule(uint64_t next_event)
{
    struct ftk_log *l = &ftk_log;
    if (l->calls.n > 0)
        l->calls.outs[l->calls.n - 1].next_event = next_event;
    else
        l->line.next_event = next_event;
}

bool ftk_calls_repeats(void)
{
    return ftk_log.calls.seq < ftk_log.calls.n;
}

bool ftk_calls_replayed(struct ftkit_ctx *ctx, int *code)
{
    struct ftk_log *l = &ftk_log;
    if (l->calls.seq >= l->calls.n)
        return false;
    *code = (int)l->calls.outs[l->calls.seq].code;
    ctx->policy.next_event = l->calls.outs[l->calls.seq].next_event;
    l->calls.seq++;
    if (*code < 0)
        (void)ftk_fail(*code, "as before the failure: %s", ftkit_strerror(*code));
    return true;
}

int ftk_calls_outcome(struct ftkit_ctx *ctx, int code)
{
    struct ftk_log *l = &ftk_log;
    if (code == FTKIT_ERR_PEER || l->calls.seq < l->calls.n)
        return code;
    struct ftk_logged_call *all = realloc(l->calls.outs, (l->calls.n + 1) * sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "calls since the line");
    l->calls.outs = all;
    all[l->calls.n++] = (struct ftk_logged_call){ ctx->policy.next_event, code };
    l->calls.seq = l->calls.n;
    return code;
}
