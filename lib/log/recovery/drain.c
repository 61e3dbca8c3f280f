/* Draining: take the messages in flight from the MPI before the program asks for them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/control.h"
#include "log/mode.h"
#include "log/p2p.h"
#include "steps.h"

void ftk_drain_poll(void)
{
    ftk_log.queue.polls = true;
    for (struct ftk_req *r = ftk_log.queue.first, *next; r; r = next) {
        const struct ftk_req *pair = r->pair;
        next = r->next;
        (void)ftk_req_progress(r); /* the request has the error, if there is one */
        if (pair && next == pair)  /* the pair may be deleted with it */
            next = r->prev || ftk_log.queue.first == r ? r->next : ftk_log.queue.first;
    }
    ftk_log.queue.polls = false;
}

/* Drain one message of source; *found: there was one.  A process that is still replaying set-up
 * rolls back again, and its set-up must not find the message. */
static int drain_one(int source, bool *found)
{
    struct ftk_log *l = &ftk_log;
    *found = false;
    for (int c = 0; c < FTK_LOG_COMMS; c++) {
        MPI_Message m;
        MPI_Status s;
        int flag = 0;
        if (l->epoch.real[c] == MPI_COMM_NULL || c == FTK_LOG_DET_COMM)
            continue;
        int rc = PMPI_Improbe(source, MPI_ANY_TAG, l->epoch.real[c], &flag, &m, &s);
        if (rc != MPI_SUCCESS)
            return rc;
        if (!flag)
            continue;
        *found = true;
        if (l->mode->in_band && s.MPI_TAG == FTK_CONTROL_TAG)
            return l->mode->control(c, &m, &s);
        struct ftk_unexp *h;
        rc = ftk_p2p_drain(c, &m, &s, &h);
        if (rc != MPI_SUCCESS)
            return rc;
        if (ftk_log_replays_setup())
            ftk_unexp_free(h);
        else
            ftk_unexp_add(h);
        l->stats.drained++;
        return rc;
    }
    return MPI_SUCCESS;
}

/* Whether a message of source is in flight.  A message that has arrived, but is not reported yet,
 * is not. */
static bool is_behind(int source)
{
    const struct ftk_peer *p = ftk_peer(source);
    return p->received < p->announced && p->received + ftk_p2p_unreported(source) < p->announced;
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
