/* Messages from rank to rank: what request/ offers the rest of the log.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_P2P_H
#define FTK_LOG_P2P_H

#include <string.h>

#include "core/mpi_shim.h"
#include "log/log.h"

/* Small, and in the way of every message. */

static inline void ftk_empty_status(MPI_Status *s)
{
    memset(s, 0, sizeof *s);
    s->MPI_SOURCE = MPI_ANY_SOURCE;
    s->MPI_TAG = MPI_ANY_TAG;
    s->MPI_ERROR = MPI_SUCCESS;
}

/* Only calls that complete several requests set MPI_ERROR (MPI 4.0, 3.2.5). */
static inline void ftk_p2p_copy_status(MPI_Status *to, const MPI_Status *from)
{
    if (to == MPI_STATUS_IGNORE)
        return;
    int error = to->MPI_ERROR;
    *to = *from;
    to->MPI_ERROR = error;
}

/* Into the list of requests under way. */
static inline void ftk_req_link(struct ftk_req *r)
{
    struct ftk_log *l = &ftk_log;
    r->seq = ++l->seq;
    r->next = NULL;
    r->prev = l->last;
    if (l->last)
        l->last->next = r;
    else
        l->first = r;
    l->last = r;
}

/* One look at the request of the MPI. */
static inline int ftk_req_test(struct ftk_req *r, int *done, MPI_Status *s)
{
    int rc = PMPI_Test(&r->real, done, s);
    if (rc == MPI_SUCCESS || !*done || !ftk_mpi_is_pending(rc))
        return rc;
    if (r->real != MPI_REQUEST_NULL)
        (void)PMPI_Request_free(&r->real); /* it is complete: nothing else is left of it */
    return MPI_SUCCESS;
}

/* The handle of every send that is complete at once, see runtime.c; MPI_REQUEST_NULL: none yet. */
extern MPI_Request ftk_p2p_over;
void ftk_p2p_over_make(void);

/* Whether a send that the MPI has begun is complete already: then *real is MPI_REQUEST_NULL.  This
 * makes no progress, so it never waits; false: a test may find that it is complete. */
static inline bool ftk_p2p_over_at_once(MPI_Request *real)
{
    if (__builtin_expect(ftk_p2p_over == MPI_REQUEST_NULL, 0))
        ftk_p2p_over_make();
    if (ftk_p2p_over == MPI_REQUEST_NULL || *real != ftk_p2p_over)
        return false;
    *real = MPI_REQUEST_NULL;
    return true;
}

/* The MPI has told of a failure. */
void ftk_note_failure(void);
/* The request is complete, with an MPI error or MPI_SUCCESS, which the function returns. */
int ftk_req_finish(struct ftk_req *r, int error);
/* A failure has ended the request of the MPI.  The request is done again after the repair. */
void ftk_req_failed(struct ftk_req *r);
int ftk_send_begin(struct ftk_req *r);
/* Whether the MPI has sent the entry, or never will because the receiver is gone. */
bool ftk_send_is_over(struct ftk_entry *e);
/* Log a small message and send it.  MPI code. */
int ftk_send_small_logged(const void *buf, int count, MPI_Datatype type, size_t bytes, int world,
    int tag, int context);
/* The MPI has completed a receive: record it, then finish it.  MPI code. */
int ftk_recv_complete(struct ftk_req *r, const MPI_Status *s, int error);
/* One look at a receive that is posted, or that is probed for. */
int ftk_match_posted(struct ftk_req *r);
int ftk_match_mprobed(struct ftk_req *r);
/* End the send that ftk_p2p_over stands for. */
void ftk_p2p_over_close(void);
/* A failure is known: repair it.  MPI_SUCCESS, or the error with which calls fail. */
int ftk_log_repair(void);
/* Everything this rank has under way ends with an error, and every call from now on. */
void ftk_log_begin_rollback(void);
/* The replay check: what r sends, message n of its stream, is not what it was. */
void ftk_log_differs(const struct ftk_req *r, uint64_t n);
/* A replacement asks for a message that its set-up never got; the MPI error. */
int ftk_log_strange(const struct ftk_req *r);
/* Whether calls that leave something open are errors; says which one it was. */
bool ftk_log_refuses(const char *call);
uint64_t ftk_log_hash(const void *data, size_t bytes); /* never 0 */

/* dtype.c: datatypes.  MPI codes. */
struct ftk_type_facts {
    MPI_Datatype type;
    MPI_Aint bytes;         /* of an item */
    bool dense;             /* which is one piece without gaps */
};
int ftk_p2p_facts(MPI_Datatype type, const struct ftk_type_facts **out);
void ftk_p2p_forget_type(MPI_Datatype type);
void ftk_p2p_part(const struct ftk_vcomm *vc); /* it goes, and requests at rest on it are of no use */
bool ftk_p2p_has(const struct ftk_vcomm *vc); /* the program, a request on it, complete or not */
int ftk_p2p_finish(const struct ftk_vcomm *vc); /* wait for all of its requests; MPI code */
/* MPI_Type_free() of a type that is forgotten here; one that a request uses goes with the last
 * request.  MPI code. */
int ftk_p2p_type_free(MPI_Datatype *type);
bool ftk_p2p_uses(MPI_Datatype type); /* a request that is under way, or persistent */
int ftk_p2p_bytes(int count, MPI_Datatype type, size_t *bytes);
int ftk_p2p_pack(const void *buf, int count, MPI_Datatype type, void *to, size_t bytes);
/* The same into memory of the heap that becomes the caller's, also on error; NULL or it. */
int ftk_p2p_packed(const void *buf, int count, MPI_Datatype type, char **copy, size_t *bytes);
/* So many bytes, which may be more than an int counts, for a call of MPI; free it after that,
 * also on error. */
int ftk_p2p_bytes_type(size_t bytes, int *count, MPI_Datatype *type);
void ftk_p2p_bytes_type_free(MPI_Datatype *type);
int ftk_p2p_unpack(const void *from, size_t bytes, void *buf, int count, MPI_Datatype type);
/* What a receive has taken in, as ftk_p2p_packed(); the last item may have come in part, and
 * is packed whole. */
int ftk_p2p_packed_part(const void *buf, size_t bytes, MPI_Datatype type, char **copy);
void ftk_p2p_close_types(void);

/* Whether an MPI error has to do with the failure of a process. */
bool ftk_p2p_is_failure(int rc);
/* Complete a request with an error; returns it. */
int ftk_p2p_fail(struct ftk_req *r, int error);
void ftk_p2p_status(MPI_Status *s, int source, int tag, size_t bytes);
void ftk_p2p_put_status(MPI_Status *to, int source, int tag, size_t bytes);
void ftk_p2p_no_status(MPI_Status *s); /* of no message; MPI_STATUS_IGNORE: nothing */
/* Send a small message and wait until the MPI has taken it, or it is kept, when nothing is in the
 * way: *error is the MPI error.  false: nothing has been done, and it has to be sent as a request. */
bool ftk_p2p_send_small(const void *buf, int count, MPI_Datatype type, struct ftk_vcomm *vc,
    int world, int tag, int *error);
/* Set-up has received a message that had been drawn: its journal has it, too, as asked for at
 * that stamp. */
int ftk_p2p_log_setup(const struct ftk_unexp *h, uint64_t seq);
/* Post a receive that is linked but not posted; looks first at what is held. */
int ftk_p2p_post(struct ftk_req *r);
/* It had been matched with a message of this rank, and gets no other. */
void ftk_p2p_bind(struct ftk_req *r, int source);
/* How many messages of a rank have come to receives that are not told yet, because of earlier ones
 * from any source. */
size_t ftk_p2p_unreported(int source);
/* An earlier receive from any source that the MPI has given back and that could have got what r, if
 * it is through, has got of a live rank: so it had been matched, with a message that is never whole.
 * NULL: none; *through is set when r may be told if it is.  Of a rank with dead[rank] an error may be
 * all that r has got. */
struct ftk_req *ftk_p2p_overtaken(const struct ftk_req *r, const int *dead, bool *complete);
int ftk_p2p_deliver(struct ftk_req *r, struct ftk_unexp *h); /* takes h */
/* Hand a kept message to the MPI. */
int ftk_p2p_transmit(struct ftk_entry *e, int dest);
/* Receives that are not posted: one look at each; whether one of them takes such a message. */
void ftk_p2p_progress_mprobed(void);
/* Whether a message that a probe has found is the next to be told: all receives from any source that
 * could have got it, and so have got others, have been. */
bool ftk_p2p_in_turn(int context, int source, int tag);
bool ftk_p2p_claimed(int context, int source, int tag);
/* Contexts that share a communicator.  Whether a receive or a probe of that stamp may have what is
 * held, or others come first; whether what comes may be looked at, or a message is still taken out
 * of the way; and take one of that context out of the way that a probe has found (taken: it may
 * look again).  MPI codes. */
bool ftk_p2p_may_take(uint64_t seq, const struct ftk_unexp *h);
bool ftk_p2p_can_probe(int context);
int ftk_p2p_put_aside(int context, const MPI_Status *s, bool *taken);
/* Whether a message that such a probe matches is matched already and still arrives.  One look at
 * it: what is complete is held. */
bool ftk_p2p_arrives(int context, int source, int tag);
/* Receive what PMPI_Improbe() has matched on the communicator of a context, without waiting for
 * its sender.  *out is NULL while it arrives: it is held then, once it is complete.  MPI codes. */
int ftk_p2p_take_matched(int context, MPI_Message *m, const MPI_Status *s, struct ftk_unexp **out);
/* Let a send go that was held back (relay.h). */
void ftk_p2p_release(struct ftk_req *r);
/* Look at the sends from the log, the oldest first, until so many are found to be under way; how
 * many are. */
void ftk_p2p_reap(size_t most);
size_t ftk_p2p_sending(void);
void ftk_p2p_close(void);
void ftk_p2p_keep_going(void); /* log_ops.h: keep_going */
/* A message of a stream is here while receives posted before that stamp are not through. */
int ftk_p2p_note_early(uint64_t seq, int context, int source, int tag);
/* A message has arrived for a receive of that stamp; data may be NULL when its hash is not
 * wanted. */
int ftk_p2p_count(
    int context, int source, int tag, uint64_t seq, const void *data, size_t bytes);
/* A receive that is not posted is cancelled by the program. */
int ftk_p2p_cancelled(struct ftk_req *r);
/* A look at a request on a communicator that is given up: FTKIT_OK, and it is complete, or
 * not posted any more, or still under way. */
int ftk_p2p_withdraw(struct ftk_req *r);
void ftk_log_free_comms(struct ftkit_ctx *ctx);
void ftk_log_make_teams(const int *domain, int n, int *team);
/* What the set-up of the lost process received, from its part of the line, is held. */
int ftk_log_read_setup(struct ftkit_ctx *ctx, uint64_t line);
/* No request is under way. */
void ftk_p2p_idle(void);
void *ftk_p2p_reserve(size_t bytes); /* address space, zeroed; NULL */
void ftk_p2p_forget_requests(void);

/* request/recv.c: a message drawn from the MPI into memory of ours; counted.  Of a communicator that
 * contexts share its tag says which one it is of. */
int ftk_p2p_drain(int context, MPI_Message *m, const MPI_Status *s, struct ftk_unexp **out);

#endif
