/* The steps of draining at the line (see draining.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "draining.h"

/* Ask again after the action while the answer is yes; then go on to next. */
static enum ftk_draining_action again(
    struct ftk_draining *d, bool yes, enum ftk_draining_action action, enum ftk_draining_state next)
{
    if (yes)
        return action;
    d->state = next;
    return FTK_DRAINING_NOTHING;
}

static enum ftk_draining_action go_to(struct ftk_draining *d, enum ftk_draining_state next)
{
    d->state = next;
    return FTK_DRAINING_NOTHING;
}

enum ftk_draining_action ftk_draining_step(struct ftk_draining *d, bool yes)
{
    switch (d->state) {
    case FTK_DRAINING_RELEASE:
        return again(d, yes, FTK_DRAINING_LOOK_ON, FTK_DRAINING_CATCH_UP);
    case FTK_DRAINING_CATCH_UP:
        return again(d, yes, FTK_DRAINING_LOOK_ON, FTK_DRAINING_MEET);
    case FTK_DRAINING_MEET:
        d->advances = yes && d->planes;
        return go_to(d, yes ? FTK_DRAINING_RELEASE_HERE : FTK_DRAINING_RECEIVE);
    case FTK_DRAINING_RELEASE_HERE:
        return again(d, yes, FTK_DRAINING_LOOK, FTK_DRAINING_MEET_AGAIN);
    case FTK_DRAINING_MEET_AGAIN:
        return go_to(d, FTK_DRAINING_RECEIVE);
    case FTK_DRAINING_RECEIVE:
        return go_to(d, FTK_DRAINING_RECORD);
    case FTK_DRAINING_RECORD:
        return again(
            d, yes, FTK_DRAINING_POLL, d->advances ? FTK_DRAINING_ADVANCE : FTK_DRAINING_CERTAIN);
    case FTK_DRAINING_ADVANCE:
        d->advances = yes;
        return go_to(d, FTK_DRAINING_RECEIVE);
    default:
        return again(d, yes, FTK_DRAINING_LOOK, FTK_DRAINING_DRAINED);
    }
}

bool ftk_draining_is_behind(uint64_t received, size_t unreported, uint64_t announced)
{
    return received + unreported < announced;
}
