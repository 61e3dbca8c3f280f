/* Control messages: what the log itself sends between the program's messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A part of the log registers the kinds of control messages that it sends (part.h: controls).  The
 * context and the tag of a message say of which kind it is.  All of them are counted
 * (peers.h).  None is in the sender log of payload/; a kind may be `of_state`
 * (control_state.h). */
#ifndef FTK_LOG_CONTROL_H
#define FTK_LOG_CONTROL_H

#include "log/base/part.h"

/* A control message that has come. */
struct ftk_control {
    int context;
    int source;        /* rank of the world */
    const uint64_t *w; /* [words], until handle() returns */
    size_t words;
};

struct ftk_control_kind {
    int context; /* one of own_comms.h, or FTK_CONTROL_IN_BAND */
    int tag;     /* no other kind of the context has it; in band: FTK_CONTROL_TAG */
    /* A message is received.  MPI codes. */
    int (*handle)(const struct ftk_control *c);
    /* handle() changes the state that a set has.  A set waits for these messages, and a rollback
     * neither loses one nor handles one twice.  All kinds of a context of own_comms.h are of_state,
     * or none is.  They are sent in calls of the program or in progress(), not in handle() or
     * serve().  A rank that replays sends the same ones to each rank, in the same order. */
    bool of_state;
    /* The messages may be long, and their senders may compute: receiving one does not wait.  A long
     * message is handled when it is there, maybe after one that was sent later.  Not of_state. */
    bool may_be_slow;
};

/* In band: a control message of this kind goes before a message of the program, on the communicator
 * of that message.  At most one kind is in band.  Its tag is FTK_CONTROL_TAG, which
 * the program cannot use then. */
enum { FTK_CONTROL_IN_BAND = -1, FTK_CONTROL_TAG = INT32_MAX }; /* MPI_TAG_UB of Open MPI */

/* Send words of 64 bits to a rank, on a communicator of the log.  The caller may change w at once.
 * MPI codes. */
int ftk_control_send(const uint64_t *w, size_t words, int dest, int tag, int context);
/* For control_state.c: hand a message to the MPI, and count it. */
int ftk_control_transmit(const uint64_t *w, size_t words, int dest, int tag, int context);
/* The kind of the messages with that tag; NULL: there is none. */
const struct ftk_control_kind *ftk_control_kind_of(int context, int tag);
/* Whether the kinds of a context are of_state. */
static inline bool ftk_control_is_of_state(int context)
{
    const unsigned own = (unsigned)(context - FTK_LOG_PROGRAM_COMMS);
    return own < FTK_LOG_COMMS - FTK_LOG_PROGRAM_COMMS && ftk_parts.of_state >> own & 1;
}

/* Whether a message that a probe has found on a communicator of the program is a control
 * message. */
static inline bool ftk_control_is(const MPI_Status *s)
{
    return s->MPI_TAG == FTK_CONTROL_TAG && ftk_parts.in_band;
}
/* Whether a part sends control messages in a context of own_comms.h. */
bool ftk_control_uses(int context);

/* Receive a control message that a matched probe has found, count it, and give it to its kind; one
 * that may be slow goes to its kind in ftk_control_slow().  MPI codes. */
int ftk_control_handle(int context, MPI_Message *m, const MPI_Status *s);
/* The next control message in band of a source, if the MPI has one; *found: there was one.
 * ftk_control_all(): all control messages in band of the source. */
int ftk_control_next(int context, int source, int *found);
int ftk_control_all(int context, int source);
/* The next one in a context of own_comms.h.  source: or MPI_ANY_SOURCE. */
int ftk_control_take(int context, int source, int *found);
/* Handle the slow messages that are there now.  MPI codes. */
int ftk_control_slow(void);

#endif
