/* Draining: take the messages in flight from the MPI before the program asks for them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/base/control.h"
#include "log/base/control_state.h"
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/mode.h"
#include "draining.h"
#include "log/request/match.h"
#include "log/request/overtake.h"
#include "log/request/recv.h"
#include "steps.h"

static uint64_t ndrained; /* messages, for ftkit_query() */

void ftk_drain_poll(void)
{
    ftk_queue_polls(true);
    for (struct ftk_req *r = ftk_log.queue.first, *next; r; r = next) {
        const struct ftk_req *pair = r->pair;
        next = r->next;
        (void)ftk_req_progress(r); /* the request has the error, if there is one */
        if (pair && next == pair)  /* the pair may be deleted with it */
            next = r->prev || ftk_log.queue.first == r ? r->next : ftk_log.queue.first;
    }
    ftk_queue_polls(false);
}

/* Drain one message of source; *found: there was one.  A process that is still replaying set-up
 * rolls back again, and its set-up must not find the message. */
static int drain_one(int source, bool *found)
{
    const struct ftk_log *l = &ftk_log;
    *found = false;
    for (int c = 0; c < FTK_LOG_PROGRAM_COMMS; c++) {
        MPI_Message m;
        MPI_Status s;
        int flag = 0;
        if (l->epoch.real[c] == MPI_COMM_NULL)
            continue;
        int rc = PMPI_Improbe(source, MPI_ANY_TAG, l->epoch.real[c], &flag, &m, &s);
        if (rc != MPI_SUCCESS)
            return rc;
        if (!flag)
            continue;
        *found = true;
        if (ftk_control_is(&s))
            return ftk_control_handle(c, &m, &s);
        struct ftk_unexp *h;
        rc = ftk_recv_drain(c, &m, &s, &h);
        if (rc != MPI_SUCCESS)
            return rc;
        if (ftk_log_replays_setup())
            ftk_unexp_free(h);
        else
            ftk_unexp_add(h);
        ndrained++;
        return rc;
    }
    return MPI_SUCCESS;
}

/* How many messages of source have completed receives that are not reported yet, because earlier
 * wildcard receives are not complete. */
static size_t unreported(int source)
{
    size_t n = 0;
    struct ftk_envelope got;
    for (const struct ftk_req *r = ftk_log.queue.nwildcards > 0 ? ftk_log.queue.first : NULL; r;
         r = r->next)
        n += ftk_req_is_receive(r) && r->state == FTK_REQ_POSTED && ftk_match_is_complete(r, &got)
             && got.source == source;
    return n;
}

/* Whether a message of source is in flight.  A message that has arrived, but is not reported yet,
 * is not. */
static bool is_behind(int source)
{
    const struct ftk_count *p = &ftk_peer(source)->count[FTK_COUNT_PROGRAM];
    return ftk_draining_is_behind(p->received, 0, p->announced)
           && ftk_draining_is_behind(p->received, unreported(source), p->announced);
}

/* Drain the messages of source that are there.  *behind: others are in flight.  MPI codes. */
static int drain_from(int source, bool *behind)
{
    bool found = true;
    while (is_behind(source) && found) {
        int rc = drain_one(source, &found);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    *behind = *behind || is_behind(source);
    return MPI_SUCCESS;
}

int ftk_drain_all(const int *not_from, int (*progress)(void *arg), void *arg)
{
    for (;;) {
        bool behind = false;
        ftk_drain_poll();
        for (int i = 0, n = ftk_peers_count(); i < n; i++) {
            const int source = ftk_peers_rank(i);
            if (not_from && not_from[source])
                continue;
            int rc = drain_from(source, &behind);
            if (rc != MPI_SUCCESS)
                return ftk_fail_mpi(rc, "draining a message");
        }
        if (!behind)
            return FTKIT_OK;
        int rc = progress(arg);
        if (rc != FTKIT_OK)
            return rc;
    }
}

/* ---- line apart: late messages ------------------------------------------------------------- */

/* Whether a late message of a channel has not come: it is in flight, or its receive is under way
 * and later messages have overtaken it. */
static bool lacks(const struct ftk_channel *s)
{
    if (s->count < s->at_cut)
        return true;
    for (struct ftk_req *q = ftk_overtake_length() > 0 ? ftk_log.queue.first : NULL; q;
         q = q->next) {
        const size_t later = ftk_overtake_count(s, q);
        if (later > 0 && s->count - later < s->at_cut)
            return true;
    }
    return false;
}

/* Take a message of that source which no receive has matched.  The first one in the order of the
 * MPI comes first, so messages of the source do not overtake. */
static int drain_late_from(const struct ftk_channel *s)
{
    MPI_Message m;
    MPI_Status st;
    int flag = 0;
    const int comm = ftk_context_comm(s->context);
    if (!ftk_match_can_drain())
        return FTKIT_OK;
    int rc = PMPI_Improbe(s->source, MPI_ANY_TAG, ftk_log.epoch.real[comm], &flag, &m, &st);
    if (rc == MPI_SUCCESS && flag)
        rc = ftk_control_is(&st) ? ftk_control_handle(comm, &m, &st)
                                 : ftk_match_drain_later(comm, &m, &st);
    if (rc == MPI_SUCCESS)
        return FTKIT_OK;
    if (!ftk_log_is_failure(rc))
        return ftk_fail_mpi(rc, "draining a late message");
    ftk_log_note_failure();
    return FTKIT_ERR_PEER;
}

int ftk_drain_late(bool *all)
{
    int rc = FTKIT_OK;
    ftk_control_state_serve();
    *all = !ftk_control_state_lacks();
    ftk_drain_poll();
    for (size_t i = 0; rc == FTKIT_OK && i < ftk_channels_count(); i++) {
        if (!lacks(ftk_channel_at(i)))
            continue;
        *all = false;
        const struct ftk_channel s = *ftk_channel_at(i); /* the array may move */
        rc = drain_late_from(&s);
    }
    return rc;
}

/* ---- the part ------------------------------------------------------------------------ */

static void figures(ftkit_info *info)
{
    info->log_drained = ndrained;
}

static void close_drained(void)
{
    ndrained = 0;
}

const struct ftk_part ftk_part_drained = { .close = close_drained, .figures = figures };
