/* Receives: completion, delivery, withdrawal.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that return int return MPI codes, unless their comment says otherwise. */
#ifndef FTK_LOG_RECV_H
#define FTK_LOG_RECV_H

#include "log/base/stage.h"
#include "log/request/request.h"

struct ftk_unexp;

/* A receive of the program begins. */
int ftk_recv_start(struct ftk_req *r);
/* The MPI has completed a receive: record it, then finish it. */
int ftk_recv_complete(struct ftk_req *r, const MPI_Status *s, int error);
/* The MPI has completed a message; s: of a receive. */
static inline int ftk_message_complete(struct ftk_req *r, const MPI_Status *s, int error)
{
    return ftk_req_is_receive(r) ? ftk_recv_complete(r, s, error) : ftk_req_finish(r, error);
}
/* Deliver an unexpected message to a receive; takes h. */
int ftk_recv_deliver(struct ftk_req *r, struct ftk_unexp *h);
/* The receive gets a message in spite of a cancel.  The function records that, unless it is known.
 * Returns MPI_SUCCESS. */
int ftk_recv_too_late(struct ftk_req *r);
/* The program cancels a receive that is not posted. */
int ftk_recv_cancelled(struct ftk_req *r);
/* After a repair: the program may have cancelled the receive while its source was dead.  Whether
 * the receive is under way: it is bound, so that the cancel comes too late.  Otherwise it is
 * complete now. */
bool ftk_recv_stays(struct ftk_req *r);
/* A receive into memory that the MPI cannot write: the MPI gets memory of the request, whose bytes
 * are unpacked when the receive is complete.  Post it, or receive the message m of a matched
 * probe. */
static inline bool ftk_recv_is_staged(const struct ftk_req *r)
{
    return !ftk_mpi_takes(r->recv.buf);
}
int ftk_recv_post_staged(struct ftk_req *r, int wire_tag);
int ftk_recv_take_staged(struct ftk_req *r, MPI_Message *m);
/* Receive a message that a matched probe has found, into memory of the log, and count it; waits for
 * the sender of a long message.  *out is the caller's. */
int ftk_recv_drain(int context, MPI_Message *m, const MPI_Status *s, struct ftk_unexp **out);
/* One look at a request on a communicator that is given up.  Returns FTKIT_OK; the request is
 * complete then, or not posted any more, or still under way. */
int ftk_message_withdraw(struct ftk_req *r);
/* Bind a receive to source: a message of that rank had matched it, and it gets no other.  A cancel
 * comes too late. */
void ftk_recv_bind(struct ftk_req *r, int source);

/* A receive gets the message found.  Its tag is recorded, if the receive takes any tag, names its
 * source, and comes behind a wildcard receive that may have an earlier message of this source
 * (ftk_order_passes).  A follower has the determinant of its leader. */
void ftk_recv_note_tag(const struct ftk_req *r, const struct ftk_envelope *found);

/* A message has arrived for the receive with that sequence number.  data [bytes] may be NULL when
 * neither a hash nor a copy is needed; hash: data are all that was sent. */
int ftk_recv_count(
    int context, int source, int tag, uint64_t seq, const void *data, size_t bytes, bool hash);

#endif
