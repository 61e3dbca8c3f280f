/* Messages in a set: sends and receives; what all kinds of requests share there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * At a line all messages have been drained.  So a send is complete; a receive is complete, or gets
 * a message that is sent after the line. */
#include <stdio.h>

#include "log/base/plane.h"
#include "log/base/saved.h"
#include "log/request/message.h"
#include "log/request/req_ops.h"
#include "set/region.h"

/* ---- for all kinds ------------------------------------------------------------------- */

bool ftk_saved_is_complete(const struct ftk_req *r)
{
    const bool apart = ftk_log.line.state == FTK_LINE_AWAY;
    return ftk_req_is_done(r)
           || (apart && (ftk_req_ops_of(r)->ends_at_line || r->state == FTK_REQ_HALF));
}

int ftk_saved_refuse(const struct ftk_req *r, int code, const char *why)
{
    char what[3 * MPI_MAX_OBJECT_NAME];
    ftk_req_describe(r, what, sizeof what);
    return ftk_fail(
        code, "%s, %s: %s", what, ftk_saved_is_complete(r) ? "complete" : "under way", why);
}

int ftk_saved_nowhere(const struct ftkit_ctx *ctx, const struct ftk_req *r, const char *p,
    ptrdiff_t low, ptrdiff_t end)
{
    char near[160], why[400];
    const uintptr_t first = (uintptr_t)p + (uintptr_t)low;
    ftk_region_describe_near(ctx, first, first + (uintptr_t)(end - low), near, sizeof near);
    snprintf(why, sizeof why, "its memory, %zu bytes at %p, is in no region: %s",
        (size_t)(end - low), (const void *)(p + low), near);
    return ftk_saved_refuse(r, FTKIT_ERR_STATE, why);
}

/* ---- writing a message --------------------------------------------------------------- */

/* Find the memory of a request; *found: a region has it. */
static int find_memory(struct ftk_saving *s, const struct ftk_req *r, const void *memory,
    uint64_t *place, ptrdiff_t *low, ptrdiff_t *end, bool *found)
{
    const size_t count = r->peer == MPI_PROC_NULL ? 0 : (size_t)r->count;
    int mrc = ftk_saved_span(count, r->type, low, end);
    return mrc == MPI_SUCCESS ? ftk_saving_place(s, memory, *low, *end, place, found)
                              : ftk_fail_mpi(mrc, "the datatype of a request");
}

/* Whether a process can get the request from its set-up, with memory that no set has: its contents
 * do not matter at the line. */
static bool may_be_bare(const struct ftk_req *r, bool receives)
{
    return r->persistent && r->id <= ftk_log.queue.set_up
           && (r->state == FTK_REQ_INACTIVE || !receives || !ftk_req_is_done(r));
}

/* Whether the set can have a receive into the region of a place: all its bytes are in the set, if
 * the receive is complete, and other ranks need not have the same, if it is under way. */
static int check_region(const struct ftk_saving *s, const struct ftk_req *r, uint64_t place)
{
    char why[200];
    const struct ftk_region *in = place == FTK_NO_PLACE ? NULL : s->region[place];
    const bool done = ftk_saved_is_complete(r);
    const char *flaw = !in                                        ? NULL
                       : done && !in->type.contiguous             ? FTK_REGION_HAS_HOLES
                       : !done && in->kind == FTK_KIND_REPLICATED ? FTK_REGION_IS_REPLICATED
                                                                  : NULL;
    if (!flaw)
        return FTKIT_OK;
    snprintf(why, sizeof why, "its memory is in region '%s', %s", in->name, flaw);
    return ftk_saved_refuse(r, FTKIT_ERR_STATE, why);
}

/* The type and the memory of a receive under way, or of a persistent request. */
static int put_memory(struct ftk_saving *s, const struct ftk_req *r, uint64_t *head, bool receives)
{
    const char *memory = receives ? r->recv.buf : r->send.buf;
    ptrdiff_t low, end;
    bool found;
    int rc = ftk_typemap_add(&s->types, r->type, &head[FTK_HEAD_TYPE]);
    if (rc == FTKIT_OK)
        rc = find_memory(s, r, memory, &head[FTK_HEAD_PLACE], &low, &end, &found);
    if (rc == FTKIT_ERR_UNSUPPORTED)
        return ftk_saved_refuse(r, rc, ftk_detail_text());
    if (rc == FTKIT_OK && found && receives && r->state != FTK_REQ_INACTIVE)
        rc = check_region(s, r, head[FTK_HEAD_PLACE]);
    if (rc != FTKIT_OK || found)
        return rc;
    if (!may_be_bare(r, receives))
        return ftk_saved_nowhere(s->ctx, r, memory, low, end);
    head[FTK_HEAD_FLAGS] |= FTK_SAVED_BARE;
    return FTKIT_OK;
}

/* A receive that is complete: its data are in the set only if its memory is in a region. */
static int has_data(const struct ftk_req *r, bool *yes)
{
    MPI_Count bytes = 0;
    *yes = false;
    if (!ftk_saved_is_complete(r) || r->error != MPI_SUCCESS)
        return FTKIT_OK;
    int rc = PMPI_Get_elements_x(&r->status, MPI_BYTE, &bytes);
    *yes = bytes > 0 && bytes != MPI_UNDEFINED;
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "MPI_Get_elements_x");
}

int ftk_message_save(struct ftk_saving *s, const struct ftk_req *r, uint64_t *head, bool receives)
{
    bool data = false;
    int rc = receives && r->state != FTK_REQ_INACTIVE ? has_data(r, &data) : FTKIT_OK;
    return rc == FTKIT_OK && (r->persistent || (head[FTK_HEAD_FLAGS] & FTK_SAVED_OPEN) || data)
               ? put_memory(s, r, head, receives)
               : rc;
}

/* ---- reading a message --------------------------------------------------------------- */

bool ftk_message_is_sane(const uint64_t *head, bool receives)
{
    const uint64_t flags = head[FTK_HEAD_FLAGS];
    const bool names_peer = ftk_saved_is_in(head[FTK_HEAD_PEER], 0, ftk_log_plane_size() - 1)
                            || (int64_t)head[FTK_HEAD_PEER] == MPI_PROC_NULL
                            || ((int64_t)head[FTK_HEAD_PEER] == MPI_ANY_SOURCE && receives);
    const bool needs_type = flags & (FTK_SAVED_OPEN | FTK_SAVED_PERSISTENT);
    return names_peer && (!needs_type || head[FTK_HEAD_TYPE] != FTK_NO_TYPE);
}

static int peer_of(const uint64_t *head)
{
    const int peer = (int)(int64_t)head[FTK_HEAD_PEER];
    return peer < 0 ? peer : ftk_log_from_plane(peer);
}

bool ftk_message_is_same(const struct ftk_req *r, const uint64_t *head)
{
    return r->count == (int)head[FTK_HEAD_COUNT] && r->peer == peer_of(head)
           && r->tag == (int)(int64_t)head[FTK_HEAD_TAG];
}

int ftk_message_load(struct ftk_loading *l, struct ftk_req *r, const uint64_t *head, void **p)
{
    ptrdiff_t low = 0, end = 0;
    *p = NULL;
    r->peer = peer_of(head);
    if (r->peer >= 0 && ftk_vcomm_peer_rank(r->vc, r->peer) < 0)
        return ftk_loading_damaged();
    if (head[FTK_HEAD_TYPE] == FTK_NO_TYPE)
        return FTKIT_OK;
    r->type = ftk_types_of(&l->types, head[FTK_HEAD_TYPE]);
    if (r->type == MPI_DATATYPE_NULL)
        return ftk_loading_damaged();
    int mrc = ftk_saved_span(r->peer == MPI_PROC_NULL ? 0 : (size_t)r->count, r->type, &low, &end);
    return mrc == MPI_SUCCESS ? ftk_loading_address(l, &head[FTK_HEAD_PLACE], low, end, p)
                              : ftk_fail_mpi(mrc, "a datatype of a set");
}
