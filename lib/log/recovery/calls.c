/* Collective calls of ftkit itself, when a rank makes them again.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "log/control.h"
#include "log/recovery.h"

bool ftk_calls_replayed(struct ftkit_ctx *ctx, int *code)
{
    struct ftk_log *l = &ftk_log;
    if (l->call_seq >= l->nouts)
        return false;
    *code = (int)l->outs[l->call_seq].code;
    ctx->policy.next_event = l->outs[l->call_seq].next_event;
    l->call_seq++;
    if (*code < 0)
        (void)ftk_fail(*code, "as before the failure: %s", ftkit_strerror(*code));
    return true;
}

int ftk_calls_outcome(struct ftkit_ctx *ctx, int code)
{
    struct ftk_log *l = &ftk_log;
    if (code == FTKIT_ERR_PEER || l->call_seq < l->nouts)
        return code;
    struct ftk_logged_call *all = realloc(l->outs, (l->nouts + 1) * sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "calls since the line");
    l->outs = all;
    all[l->nouts++] = (struct ftk_logged_call){ ctx->policy.next_event, code };
    l->call_seq = l->nouts;
    return code;
}
