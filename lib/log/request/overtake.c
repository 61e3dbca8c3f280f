/* Messages that completed while receives posted earlier had not.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * If the sender of an earlier receive dies, this order shows whether the MPI had matched the
 * earlier receive (recovery/suppress.c).  A receive can stay under way during the whole job, so the
 * list drops the messages that say nothing of receives under way before the list grows. */
#include <stdlib.h>

#include "core/grow.h"
#include "log/log.h"
#include "log/base/part.h"
#include "log/base/queue.h"
#include "log/request/overtake.h"

struct completed {
    uint64_t seq;        /* of its receive */
    uint64_t posted_seq; /* the latest sequence number when it was seen */
    struct ftk_envelope of;
};

static struct {
    struct completed *v; /* [n] */
    size_t n, room;
} list;

/* A receive whose cancel is known when it begins is not posted.  A follower may have posted one,
 * and learn of the cancel later. */
static bool may_match(const struct ftk_req *q, const struct ftk_envelope *of)
{
    return ftk_req_is_receive(q) && (q->replay.cancel != FTK_CANCEL_DONE || q->recv.posted_seq > 0)
           && q->state != FTK_REQ_PROBING && ftk_envelope_matches(&q->recv.want, of);
}

/* Whether e completed before q, although q was posted earlier and matches e. */
static bool has_overtaken(const struct completed *e, const struct ftk_req *q)
{
    return e->seq > q->seq && e->posted_seq > q->recv.posted_seq && may_match(q, &e->of);
}

static bool is_needed(const struct completed *e)
{
    for (const struct ftk_req *q = ftk_log.queue.first; q && q->seq < e->seq; q = q->next)
        if (has_overtaken(e, q))
            return true;
    return false;
}

void ftk_overtake_tidy(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < list.n; i++)
        if (is_needed(&list.v[i]))
            list.v[kept++] = list.v[i];
    list.n = kept;
}

/* The list grows unless tidying has freed half of it.  So tidying comes once for many messages. */
static int make_room(void)
{
    if (list.n < list.room)
        return MPI_SUCCESS;
    ftk_overtake_tidy();
    if (2 * list.n < list.room)
        return MPI_SUCCESS;
    return ftk_grow(&list.v, &list.room, list.room + 64, sizeof *list.v) ? MPI_SUCCESS
                                                                         : MPI_ERR_NO_MEM;
}

int ftk_overtake_note(uint64_t seq, int context, int source, int tag)
{
    struct ftk_log *l = &ftk_log;
    if (!l->queue.first || l->queue.first->seq >= seq || !(l->apart.on || ftk_log_crosses(source)))
        return MPI_SUCCESS;
    const int rc = make_room();
    if (rc == MPI_SUCCESS)
        list.v[list.n++] = (struct completed){ seq, ftk_queue_next(), { context, source, tag } };
    return rc;
}

size_t ftk_overtake_count(const struct ftk_channel *s, const struct ftk_req *q)
{
    const struct ftk_envelope of = { s->context, s->source, s->tag };
    size_t n = 0;
    if (list.n == 0 || !may_match(q, &of))
        return 0;
    for (size_t i = 0; i < list.n; i++) {
        const struct completed *e = &list.v[i];
        n += e->of.context == of.context && e->of.source == of.source && e->of.tag == of.tag
             && has_overtaken(e, q);
    }
    return n;
}

size_t ftk_overtake_length(void)
{
    return list.n;
}

void ftk_overtake_clear(void)
{
    list.n = 0;
}

static void free_list(void)
{
    free(list.v);
    list.v = NULL;
    list.n = list.room = 0;
}

/* Together: no receive under way has been matched. */
static int cut(bool apart)
{
    if (!apart)
        ftk_overtake_clear();
    return FTKIT_OK;
}

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)first;
    if (kind == FTK_PASS_MET)
        ftk_overtake_clear();
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    ftk_overtake_clear();
    return FTKIT_OK;
}

const struct ftk_part ftk_part_overtake = {
    .close = free_list, .cut = cut, .line = pass_line, .roll_back = roll_back
};
