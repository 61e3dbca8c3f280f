/* Point-to-point messages: what request/ offers the rest of the log.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All functions run in the thread that calls MPI.  Functions that return int return MPI codes,
 * unless their comment says otherwise. */
#ifndef FTK_LOG_P2P_H
#define FTK_LOG_P2P_H

#include "log/base/dtype.h"
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/base/saved.h"

/* ---- requests of the MPI ------------------------------------------------------------- */

/* Append r to the list of requests under way; r gets its sequence number. */
static inline void ftk_req_link(struct ftk_req *r)
{
    struct ftk_log *l = &ftk_log;
    r->seq = ftk_queue_next();
    r->next = NULL;
    r->prev = l->queue.last;
    if (l->queue.last)
        l->queue.last->next = r;
    else
        l->queue.first = r;
    l->queue.last = r;
}

/* One look at the request of the MPI.  A wildcard receive that was once pending because of a
 * failure keeps that code (Open MPI 5.0), and ends with it when a complete message of a live rank
 * has come: that is no error. */
static inline int ftk_req_test(struct ftk_req *r, int *done, MPI_Status *s)
{
    int rc = PMPI_Test(&r->real, done, s);
    if (rc == MPI_SUCCESS || !*done || !ftk_mpi_is_pending(rc))
        return rc;
    if (r->real != MPI_REQUEST_NULL)
        (void)PMPI_Request_free(&r->real); /* complete */
    return MPI_SUCCESS;
}

/* ---- requests of the log ------------------------------------------------------------- */

/* The request is complete, with an MPI error or MPI_SUCCESS, which the function returns. */
int ftk_req_finish(struct ftk_req *r, int error);
/* Complete a request with an error; returns the error. */
int ftk_p2p_fail(struct ftk_req *r, int error);
/* A failure has ended the request of the MPI.  The request is done again after the repair. */
void ftk_req_failed(struct ftk_req *r);
/* A request, for messages: kind, peer, tag, communicator. */
void ftk_req_describe(const struct ftk_req *r, char *text, size_t room);
/* The same of a send or a receive; what: "send", towards: "to". */
void ftk_message_describe(
    const struct ftk_req *r, const char *what, const char *towards, char *text, size_t room);
/* Wait for all requests on vc. */
int ftk_p2p_finish(const struct ftk_vcomm *vc);
/* One look at a request on a communicator that is given up.  Returns FTKIT_OK; the request is
 * complete then, or not posted any more, or still under way. */
int ftk_p2p_withdraw(struct ftk_req *r);
/* Progress without a request that the caller waits for (log_ops.h: keep_going). */
void ftk_p2p_keep_going(void);

/* request/saved.c: a send or a receive in a set (req_ops.h).  *p: its memory; NULL: there is
 * none. */
int ftk_message_save(struct ftk_saving *s, const struct ftk_req *r, uint64_t *head, bool receives);
bool ftk_message_is_sane(const uint64_t *head, bool receives);
bool ftk_message_is_same(const struct ftk_req *r, const uint64_t *head);
int ftk_message_load(struct ftk_loading *l, struct ftk_req *r, const uint64_t *head, void **p);

/* ---- sends --------------------------------------------------------------------------- */

int ftk_send_begin(struct ftk_req *r);
/* Copy the bytes and send the copy.  r has all arguments, and the program has no handle of r. */
int ftk_send_copy(struct ftk_req *r);
/* Send a small message in a context.  true: it is sent; *real is the request of the MPI if the MPI
 * still reads buf, else MPI_REQUEST_NULL.  false: nothing has been done, because the message is not
 * small, or earlier requests are in the way, or of an error; the message has to be sent as a
 * request. */
bool ftk_p2p_send_at_once(const void *buf, int count, MPI_Datatype type, int world, int context,
    int tag, MPI_Request *real);
/* Send a small message, and wait until the MPI or the log has its bytes: *error is the MPI error.
 * false: nothing has been done, because earlier requests are in the way; the message has to be sent
 * as a request. */
bool ftk_p2p_send_small(const void *buf, int count, MPI_Datatype type, struct ftk_vcomm *vc,
    int world, int tag, int *error);
/* Send a log entry to dest. */
int ftk_p2p_transmit(struct ftk_entry *e, int dest);
/* Whether the MPI has sent the entry, or never will because the receiver is gone. */
bool ftk_send_is_over(struct ftk_entry *e);
/* Send a message that was held back (mode/relay.c). */
void ftk_p2p_release(struct ftk_req *r);
/* Look at the sends of log entries, the oldest first, until so many are found under way. */
void ftk_p2p_reap(size_t most);
/* Whether the MPI, or a request, still uses a log entry of a generation before this one. */
bool ftk_p2p_sends_before(uint32_t generation);
/* ---- receives ------------------------------------------------------------------------ */

/* Post a receive that is linked but not posted; looks at the unexpected messages first. */
int ftk_p2p_post(struct ftk_req *r);
/* A receive of the program begins. */
int ftk_recv_start(struct ftk_req *r);
/* The MPI has completed a receive: record it, then finish it. */
int ftk_recv_complete(struct ftk_req *r, const MPI_Status *s, int error);
/* The MPI has completed a message; s: of a receive. */
static inline int ftk_message_complete(struct ftk_req *r, const MPI_Status *s, int error)
{
    return ftk_req_is_receive(r) ? ftk_recv_complete(r, s, error) : ftk_req_finish(r, error);
}
/* One look at a receive that is posted; at a matched-probe receive. */
int ftk_match_posted(struct ftk_req *r);
int ftk_match_mprobed(struct ftk_req *r);
/* Whether the MPI has completed the receive, without completing it here.  *found: source and tag of
 * its message; found->source is MPI_PROC_NULL for a receive that ended without a message. */
bool ftk_match_is_complete(const struct ftk_req *r, struct ftk_envelope *found);
/* One look at each matched-probe receive. */
void ftk_p2p_progress_mprobed(void);
/* One look at each wildcard receive that is posted: its match is decided as soon as it is known.
 * With replicas other planes wait for that. */
void ftk_p2p_progress_wildcards(void);
/* Deliver an unexpected message to a receive; takes h. */
int ftk_p2p_deliver(struct ftk_req *r, struct ftk_unexp *h);
/* The program cancels a receive that is not posted. */
int ftk_p2p_cancelled(struct ftk_req *r);
/* Replicas: the program cancels a receive.  On return the outcome is that of the leader. */
int ftk_p2p_cancel_led(struct ftk_req *r);
/* Receive a message that a matched probe has found, into memory of the log, and count it; waits for
 * the sender of a long message.  *out is the caller's. */
int ftk_p2p_drain(int context, MPI_Message *m, const MPI_Status *s, struct ftk_unexp **out);
/* The same without waiting: *out is NULL while the message arrives; when it is complete, it is
 * among the unexpected messages. */
int ftk_p2p_take_matched(int context, MPI_Message *m, const MPI_Status *s, struct ftk_unexp **out);
/* Line apart: the same, and the message stays among the unexpected messages when it is complete.
 * Whether this is possible now: one message at a time arrives. */
int ftk_p2p_drain_later(int context, MPI_Message *m, const MPI_Status *s);
bool ftk_p2p_can_drain(void);
/* One look; whether a message that the probe matches still arrives. */
bool ftk_p2p_arrives(const struct ftk_envelope *want);

/* ---- order of receives --------------------------------------------------------------- */

/* Whether a message that a probe has found may be reported now: all wildcard receives that match
 * it, and so have been matched with other messages, are complete and recorded. */
bool ftk_p2p_in_turn(const struct ftk_envelope *message);
/* Whether no earlier wildcard receive under way could get the message of r. */
bool ftk_p2p_is_first(const struct ftk_req *r);
/* Whether a matched-probe receive matches the message. */
bool ftk_p2p_claimed(const struct ftk_envelope *message);
/* Whether a receive or a probe with that sequence number may have the unexpected message, or other
 * receives come first. */
bool ftk_p2p_may_take(uint64_t seq, const struct ftk_unexp *h);
/* For contexts that share a communicator: whether a probe may look for messages, or a message is
 * still taken aside. */
bool ftk_p2p_can_probe(int context);
/* ... take the message of s, which a probe has found, aside; *taken: the probe may look again. */
int ftk_p2p_put_aside(int context, const MPI_Status *s, bool *taken);
/* Bind a receive to source: a message of that rank had matched it, and it gets no other. */
void ftk_p2p_bind(struct ftk_req *r, int source);
/* An earlier withdrawn wildcard receive that could have matched the message which r has received
 * from a live rank.  That receive must have matched a message whose sender died while it sent the
 * message.  NULL: none.  *complete: r is complete.  For a message of a rank with dead[rank] != 0
 * the error may be all that r has received. */
struct ftk_req *ftk_p2p_overtaken(const struct ftk_req *r, const int *dead, bool *complete);

/* ---- request/receives.c -------------------------------------------------------------- */

/* Line apart: whether the receives under way let this rank cut.  One of a replay does not, when
 * determinants prescribe its match or its cancel: they are from before the cut.  Nor does one whose
 * cancel the program has called, until the outcome is known. */
bool ftk_receives_may_cut(void);
/* One look at each receive whose cancel the program has called: it may never wait for it. */
void ftk_receives_look_at_cancelled(void);

/* ---- records ------------------------------------------------------------------------- */

/* A message has arrived for the receive with that sequence number.  data [bytes] may be NULL when
 * neither a hash nor a copy is needed; hash: data are all that was sent. */
int ftk_p2p_count(
    int context, int source, int tag, uint64_t seq, const void *data, size_t bytes, bool hash);
/* Copy a drained message, which a receive of set-up gets, to the set-up log; seq: of the receive;
 * number: of the receive in set-up (set_up.h), or 0. */
int ftk_p2p_log_setup(const struct ftk_unexp *h, uint64_t seq, uint32_t number);

/* ---- request/overtake.c -------------------------------------------------------------- */

/* The receive with that sequence number has completed; receives posted earlier may not have. */
int ftk_overtake_note(uint64_t seq, int context, int source, int tag);
/* How many messages of the channel completed before q, although q was posted earlier: then the MPI
 * had matched q before them.  0: q cannot get messages of the channel. */
size_t ftk_overtake_count(const struct ftk_channel *s, const struct ftk_req *q);
/* How many messages the list has; 0: no receive is overtaken. */
size_t ftk_overtake_length(void);
/* Drop the messages that say nothing of the receives under way. */
void ftk_overtake_tidy(void);
/* No receive under way has been matched. */
void ftk_overtake_clear(void);

/* ---- failures and replay ------------------------------------------------------------- */

/* All requests under way end with an error, and so do all calls from now on. */
void ftk_log_begin_rollback(void);

#endif
