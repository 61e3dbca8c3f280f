/* Matching: which message a receive gets, in which order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that return int return MPI codes, unless their comment says otherwise. */
#ifndef FTK_LOG_MATCH_H
#define FTK_LOG_MATCH_H

#include "core/mpi_shim.h"
#include "log/request/request.h"

struct ftk_unexp;

/* One look at the request of the MPI.  A wildcard receive that was once pending because of a
 * failure keeps that code (Open MPI 5.0), and ends with it when a complete message of a live rank
 * has come: that is no error. */
static inline int ftk_match_test(struct ftk_req *r, int *done, MPI_Status *s)
{
    int rc = PMPI_Test(&r->real, done, s);
    if (rc == MPI_SUCCESS || !*done || !ftk_mpi_is_pending(rc))
        return rc;
    if (r->real != MPI_REQUEST_NULL)
        (void)PMPI_Request_free(&r->real); /* complete */
    return MPI_SUCCESS;
}

/* Post a receive that is linked but not posted; looks at the unexpected messages first. */
int ftk_match_post(struct ftk_req *r);
/* One look at a receive that is posted; at a matched-probe receive. */
int ftk_match_posted(struct ftk_req *r);
int ftk_match_mprobed(struct ftk_req *r);
/* Whether the MPI has completed the receive, without completing it here.  *found: source and tag of
 * its message; found->source is MPI_PROC_NULL for a receive that ended without a message. */
bool ftk_match_is_complete(const struct ftk_req *r, struct ftk_envelope *found);
/* The same of a receive that has ended with that status. */
struct ftk_envelope ftk_match_found(const struct ftk_req *r, const MPI_Status *s);
/* One look at each matched-probe receive. */
void ftk_match_progress_mprobed(void);
/* One look at each wildcard receive that is posted: its match is decided as soon as it is known.
 * With replicas other planes wait for that. */
void ftk_match_progress_wildcards(void);
/* The same without waiting: *out is NULL while the message arrives; when it is complete, it is
 * among the unexpected messages. */
int ftk_match_take(int context, MPI_Message *m, const MPI_Status *s, struct ftk_unexp **out);
/* Line apart: the same, and the message stays among the unexpected messages when it is complete.
 * Whether this is possible now: one message at a time arrives. */
int ftk_match_drain_later(int context, MPI_Message *m, const MPI_Status *s);
bool ftk_match_can_drain(void);
/* One look; whether a message that the probe matches still arrives. */
bool ftk_match_arrives(const struct ftk_envelope *want);

/* ---- order of receives --------------------------------------------------------------- */

/* Whether a message that a probe has found may be reported now: all open receives (order.h) that
 * match it, and so have been matched with other messages, are complete and recorded. */
bool ftk_match_is_in_turn(const struct ftk_envelope *message);
/* Whether no earlier open receive could get the message of r. */
bool ftk_match_is_first(const struct ftk_req *r);
/* Whether a matched-probe receive matches the message. */
bool ftk_match_is_claimed(const struct ftk_envelope *message);
/* Whether a receive or a probe with that sequence number may have the unexpected message, or other
 * receives come first. */
bool ftk_match_may_take(uint64_t seq, const struct ftk_unexp *h);
/* For contexts that share a communicator: whether a probe may look for messages, or a message is
 * still taken aside. */
bool ftk_match_can_probe(int context);
/* Take the message of s, which a probe has found, aside; *taken: the probe may look again. */
int ftk_match_put_aside(int context, const MPI_Status *s, bool *taken);
/* An earlier withdrawn wildcard receive that could have matched the message which r has received
 * from a live rank.  That receive must have matched a message whose sender died while it sent the
 * message.  NULL: none.  *complete: r is complete.  For a message of a rank with dead[rank] != 0
 * the error may be all that r has received. */
struct ftk_req *ftk_match_overtaken(const struct ftk_req *r, const int *dead, bool *complete);

#endif
