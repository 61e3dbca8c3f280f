/* Sends that ftkit leaves: nobody waits for their end any more.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The receiver has died, or closes its context and will not receive.  MPI_Request_free() would be
 * no answer: when a freed send fails later, Open MPI (5.0.9, 6.0) ends the process ("Send error
 * after request freed").  So the request stays, and its memory, until the send is over. */
#ifndef FTK_LEFT_SEND_H
#define FTK_LEFT_SEND_H

#include "ftk.h"

/* Leave a send.  *req becomes MPI_REQUEST_NULL; memory (NULL, or from malloc) is freed when the
 * send is over.  From any thread. */
void ftk_leave_send(MPI_Request *req, void *memory);

/* Free the sends that are over; the others stay for the next look. */
void ftk_look_at_left_sends(void);

#endif
