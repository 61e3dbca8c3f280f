/* A replacement has replayed set-up: the receives that set-up has left without a message.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/base/part.h"
#include "log/coll/schedule.h"
#include "log/request/match.h"
#include "log/request/progress.h"
#include "log/request/req_ops.h"

/* Whether the program has a handle of a request of set-up that is not complete.  The restore has
 * overwritten the registered variables (release_set_up() in requests.c). */
static bool is_held(const struct ftk_req *r)
{
    return r->internal ? r->coll && r->coll->owner && !r->coll->owner->freed_active
                       : !r->freed_active;
}

static void say_given_up(const struct ftk_req *r)
{
    char text[256];
    ftk_req_describe(r->internal ? r->coll->owner : r, text, sizeof text);
    ftk_report(FTKIT_ERROR,
        "context %s: rank %d: in the replay of set-up (from ftkit_open to ftkit_recover) the "
        "replacement cannot have %s, which was under way at the set: its variable has to be "
        "registered (ftkit_register_requests)",
        ftk_log.ctx->cfg.name, ftk_log.me, text);
}

/* End the receives of set-up that are still incomplete: their messages are in the line, or came
 * behind it.  A receive that the lost process has cancelled waits for the cancel, unless its handle
 * is lost: the receive would keep this rank from cutting for ever. */
static void give_up_receives(void)
{
    for (struct ftk_req *r = ftk_log.queue.first, *next; r; r = next) {
        next = r->next;
        if (!ftk_req_is_receive(r) || (r->replay.cancel == FTK_CANCEL_DONE && is_held(r)))
            continue;
        if (is_held(r))
            say_given_up(r);
        (void)ftk_req_fail(r, MPI_ERR_PENDING);
    }
}

const struct ftk_part ftk_part_given_up = { .set_up_over = give_up_receives };
