/* Sends.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that return int return MPI codes, unless their comment says otherwise. */
#ifndef FTK_LOG_SEND_H
#define FTK_LOG_SEND_H

#include "log/request/request.h"

struct ftk_entry;

int ftk_send_begin(struct ftk_req *r);
/* Copy the bytes and send the copy.  r has all arguments, and the program has no handle of r. */
int ftk_send_copy(struct ftk_req *r);
/* Send a small message in a context.  true: it is sent; *real is the request of the MPI if the MPI
 * still reads buf, else MPI_REQUEST_NULL.  false: nothing has been done, because the message is not
 * small, or earlier requests are in the way, or of an error; the message has to be sent as a
 * request. */
bool ftk_send_at_once(const void *buf, int count, MPI_Datatype type, int world, int context,
    int tag, MPI_Request *real);
/* Send a small message, and wait until the MPI or the log has its bytes: *error is the MPI error.
 * false: nothing has been done, because earlier requests are in the way; the message has to be sent
 * as a request. */
bool ftk_send_small(const void *buf, int count, MPI_Datatype type, struct ftk_vcomm *vc, int world,
    int tag, int *error);
/* Send a log entry to dest. */
int ftk_send_entry(struct ftk_entry *e, int dest);
/* Whether the MPI has sent the entry, or never will because the receiver is gone. */
bool ftk_send_is_over(struct ftk_entry *e);
/* Send a message that was held back (mode/relay.c). */
void ftk_send_release(struct ftk_req *r);
/* Look at the sends of log entries, the oldest first, until so many are found under way. */
void ftk_send_reap(size_t most);
/* Whether the MPI, or a request, still uses a log entry of a generation before this one. */
bool ftk_send_needs_before(uint32_t generation);

#endif
