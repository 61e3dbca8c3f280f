/* Collectives as a kind of request.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "log/coll/saved.h"
#include "log/coll/schedule.h"
#include "log/request/req_ops.h"

static void describe(const struct ftk_req *r, char *text, size_t room)
{
    char comm[MPI_MAX_OBJECT_NAME + 64];
    ftk_vcomm_describe(r->vc, comm, sizeof comm);
    if (r->coll)
        snprintf(text, room, "%s, %scollective %llu on %s", r->coll->call.name,
            r->coll->persistent ? "persistent " : "", (unsigned long long)r->coll->number, comm);
    else
        snprintf(text, room, "a non-blocking collective on %s", comm);
}

/* ---- in a set ------------------------------------------------------------------------ */

static const char *unfit(const struct ftk_req *r)
{
    return r->freed_active && r->coll && r->coll->persistent ? "its request has been freed" : NULL;
}

/* A complete collective has at most the address of its result (run.c). */
static int check_result(struct ftk_saving *s, const struct ftk_req *r)
{
    uint64_t place[FTK_PLACE_WORDS];
    bool found = true;
    int rc = FTKIT_OK;
    if (r->error == MPI_SUCCESS && r->recv.buf)
        rc = ftk_saving_place(s, r->recv.buf, 0, 1, place, &found);
    return rc != FTKIT_OK || found ? rc : ftk_saved_nowhere(s->ctx, r, r->recv.buf, 0, 1);
}

static int save(struct ftk_saving *s, const struct ftk_req *r, uint64_t *head)
{
    bool bare = false;
    const bool may_be_bare =
        r->persistent && r->id <= ftk_log.queue.set_up && r->state == FTK_REQ_INACTIVE;
    int rc = head[FTK_HEAD_FLAGS] & FTK_SAVED_DONE ? check_result(s, r) : FTKIT_OK;
    if (rc != FTKIT_OK || !r->coll)
        return rc;
    rc = ftk_coll_save(s, r->coll, !ftk_req_is_done(r), may_be_bare ? &bare : NULL);
    head[FTK_HEAD_FLAGS] |= bare ? FTK_SAVED_BARE : 0;
    return rc == FTKIT_ERR_STATE || rc == FTKIT_ERR_UNSUPPORTED
               ? ftk_saved_refuse(r, rc, ftk_detail_text())
               : rc;
}

/* A complete collective that is not persistent has no steps any more. */
static int load(
    struct ftk_loading *l, struct ftk_req *r, const uint64_t *head, bool known, void **rest)
{
    const bool persistent = (head[FTK_HEAD_FLAGS] & FTK_SAVED_PERSISTENT) != 0;
    struct ftk_coll *c = known ? r->coll : NULL;
    struct ftk_coll_progress *p = NULL;
    if (!persistent && (head[FTK_HEAD_FLAGS] & FTK_SAVED_DONE))
        return FTKIT_OK;
    int rc = ftk_coll_load(l, r->vc, persistent, &c, &p);
    if (rc != FTKIT_OK)
        return rc;
    r->coll = c;
    c->owner = r;
    *rest = p;
    return FTKIT_OK;
}

static void halt(struct ftk_req *r)
{
    if (r->coll)
        ftk_coll_halt(r);
}

static void resume(struct ftk_req *r, const void *rest)
{
    ftk_coll_resume(r, rest);
}

const struct ftk_req_ops ftk_req_kind_coll = { .start = ftk_coll_begin,
    .progress = ftk_coll_progress,
    .free = ftk_coll_free,
    .describe = describe,
    .unfit = unfit,
    .save = save,
    .load = load,
    .halt = halt,
    .resume = resume };
