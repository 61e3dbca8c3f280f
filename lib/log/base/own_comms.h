/* The communicators of the log that have control messages and no message of the program: one line
 * each.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A line makes the context FTK_LOG_<NAME>, its communicator in each epoch, and counters of its
 * messages for each partner (peers.h).  Each line costs a partner 24 bytes. */
#ifndef FTK_LOG_OWN_COMMS_H
#define FTK_LOG_OWN_COMMS_H

/* name */
/* clang-format off */
#define FTK_LOG_OWN_COMMS(X) \
    X(DET_COMM) /* of the mode of log.determinants */ \
    X(WIN)      /* of windows with locks */ \
    X(UNITS)    /* of help in a replay */
/* clang-format on */

#endif
