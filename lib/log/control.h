/* Control messages: what the log itself sends between the program's messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_CONTROL_H
#define FTK_LOG_CONTROL_H

#include "log/log.h"

/* Send words of 64 bits to a rank, on a communicator of the log.  The caller may change w at once.
 * MPI codes. */
int ftk_control_send(const uint64_t *w, size_t words, int dest, int tag, int context);
/* The number of control messages that the MPI has not sent yet, after one look. */
size_t ftk_control_sending(void);

/* The tag of control messages on the program's communicators.  The program cannot use it. */
enum { FTK_CONTROL_TAG = INT32_MAX }; /* MPI_TAG_UB of Open MPI */

/* Receive a control message that a matched probe has found: *w is the caller's to free, also on
 * error. */
int ftk_control_recv(int context, MPI_Message *m, const MPI_Status *s, uint64_t **w, size_t *words);

/* Take the next control message of a source, if the MPI has one: receive() receives the message.
 * *found: there was one.  Then: take all of them.  MPI codes. */
typedef int ftk_control_fn(int context, MPI_Message *m, const MPI_Status *s);
int ftk_control_next(int context, int source, ftk_control_fn *receive, int *found);
int ftk_control_all(int context, int source, ftk_control_fn *receive);

#endif
