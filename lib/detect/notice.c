/* What a rank does when the rank may have learned of a failure (see notice.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "notice.h"

unsigned ftk_notice_raise(const struct ftk_notice *n)
{
    unsigned what = FTK_RAISE_CTL;
    if (!n->known && n->spare)
        what |= FTK_RAISE_CALLED;
    else if (!n->known && n->where != FTK_ALL_CLOSED)
        what |= FTK_RAISE_SAY;
    if (n->where == FTK_ALL_CLOSED)
        return what; /* other ranks may be in the last vote, on act, which must complete */
    return what | FTK_RAISE_WORK | (n->team ? 0 : FTK_RAISE_TRACKED);
}

/* While all ranks close, the first rank that completes the last vote revokes ctl.  On the other
 * ranks the vote completes soon, too, unless a rank has died in it.  So give the vote time. */
bool ftk_notice_is_due(const struct ftk_notice *n, double now_s)
{
    return n->ended_s > 0 && (n->where != FTK_IN_CLOSE || now_s - n->ended_s > FTK_CLOSING_GRACE_S);
}

enum ftk_error_first ftk_notice_error(const struct ftk_call_error *e)
{
    if (e->failure && e->forbidden && e->world)
        return FTK_ERROR_MISTAKE;
    if (!e->open)
        return FTK_ERROR_PROGRAM;
    if (e->failure && e->mine)
        return FTK_ERROR_RAISE;
    return e->failure && !e->world && !e->self ? FTK_ERROR_DERIVED : FTK_ERROR_UNCLEAR;
}

enum ftk_error_first ftk_notice_after_wait(const struct ftk_call_error *e, bool explained)
{
    if (explained)
        return FTK_ERROR_UNCLEAR;
    return e->failure ? FTK_ERROR_RAISE : FTK_ERROR_PROGRAM;
}
