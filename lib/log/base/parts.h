/* The parts of the log, one line each.  To add a part: one line here, and one file that defines
 * `const struct ftk_part ftk_part_<word>` (part.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The order counts.  The log calls its parts in this order, and closes them in the opposite one.
 * - What a program has under way ends from the outside to the inside: collectives, then the
 *   requests of a set that have not begun, then requests.
 * - At a line the determinants begin anew before receives get numbers among them, and the mode of
 *   log.determinants comes after both.
 * - In a wait collectives go on first, then receives, then the mode answers other ranks.
 * - In a repair the messages of the program come before control messages, and the suppression
 *   points before the determinants.  An epoch begins with its communicators.  A rank that stays
 *   sends again what others have lost before it posts receives.
 * - At a cut the control messages that have come are handled before other parts save their
 *   state.
 * - The layer is last: from its start on calls of the program come to the log. */
#ifndef FTK_LOG_PARTS_H
#define FTK_LOG_PARTS_H

#define FTK_LOG_PARTS(X)                                                                           \
    X(contexts)   /* recovery/contexts.c: the communicators of an epoch */                         \
    X(peers)      /* base/peers.c: the other ranks */                                              \
    X(job)        /* recovery/job_state.c: what all ranks know */                                  \
    X(line)       /* recovery/line.c: the line */                                                  \
    X(calls)      /* recovery/calls.c: outcomes of calls of ftkit */                               \
    X(messages)   /* recovery/withdraw.c: messages of the program in a repair */                   \
    X(control)    /* base/control.c: control messages */                                           \
    X(streams)    /* base/control_state.c: control messages that change the state of a set */      \
    X(types)      /* base/dtype.c: facts of datatypes */                                           \
    X(over)       /* base/runtime.c: the handle of a send that is complete at once */              \
    X(differs)    /* base/figures.c: differences between a replay and the first execution */       \
    X(slog)       /* payload/sender_log.c: log entries */                                          \
    X(same)       /* payload/same.c: log entries that share their bytes */                         \
    X(ranges)     /* payload/range.c: log entries whose bytes the program keeps */                 \
    X(channels)   /* payload/channel.c: what has come, what need not be sent again */              \
    X(points)     /* recovery/suppress.c: suppression points under way */                          \
    X(silent)     /* recovery/silent.c: teams that keep no messages */                             \
    X(replay)     /* recovery/recovery.c: other ranks replay */                                    \
    X(units)      /* units/units.c: help in a replay */                                            \
    X(vcomm)      /* vcomm/vcomm.c: communicators */                                               \
    X(drained)    /* recovery/drain.c: messages in flight */                                       \
    X(matrix)     /* recovery/matrix.c: messages to each rank */                                   \
    X(reteam)     /* recovery/reteam.c: teams that follow the program */                           \
    X(det)        /* determinant/det.c: determinants */                                            \
    X(unexp)      /* payload/unexpected.c: unexpected and matched messages */                      \
    X(set_up_log) /* payload/unexpected.c: the set-up log */                                       \
    X(late)       /* payload/late.c: line apart: messages that may be late */                      \
    X(given_up)   /* recovery/given_up.c: receives of set-up that get nothing */                   \
    X(set_up)     /* determinant/set_up.c: the record of set-up */                                 \
    X(tail)       /* recovery/tail.c: line apart: the tail of a set */                             \
    X(image)      /* recovery/image.c: line apart: the state at a cut */                           \
    X(win)        /* win/win_part.c: windows of MPI */                                             \
    X(coll)       /* coll/run.c: collectives */                                                    \
    X(under_way)  /* recovery/requests.c: requests in a set */                                     \
    X(idup)       /* mpi/comm_calls.c: duplications under way */                                   \
    X(foreign)    /* request/foreign.c: requests of the MPI */                                     \
    X(requests)   /* request/request.c: requests */                                                \
    X(receives)   /* request/receives.c: the numbers of receives */                                \
    X(overtake)   /* request/overtake.c: receives that others overtake */                          \
    X(send)       /* request/send.c: log entries that the MPI sends */                             \
    X(wait)       /* request/progress.c: the last call that waited */                              \
    X(match)      /* request/match.c: matched-probe receives */                                    \
    X(mode)       /* mode/mode.c: the mode of log.determinants */                                  \
    X(apart)      /* recovery/apart.c: lines apart */                                              \
    X(alone)      /* base/alone.c: one thread at a time */                                         \
    X(layer)      /* base/layer.c: libftkit_mpi */

#endif
