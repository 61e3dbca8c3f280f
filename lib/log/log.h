/* The message log: types and state that all its parts share (docs/design/log.md).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The program's communicators are virtual: an ordered list of ranks and a context.  Behind a
 * context is a duplicate of the communicator of all working ranks, which every repair makes anew.
 * The log translates ranks of a virtual communicator to ranks of the duplicate.  So a split of a
 * communicator makes no communicator of the MPI, and a repair makes the duplicates and nothing
 * else.  When all duplicates are in use, further communicators share one duplicate, and the upper
 * bits of the tag distinguish their messages.
 *
 * All that a program sends is messages from rank to rank: a collective is a schedule of such
 * messages (coll/), and the construction of a communicator is a collective (mpi/construct.c).  Only
 * messages between teams are logged.
 *
 * One context per process can log.  The log runs in the thread that calls MPI, in one thread at a
 * time (MPI_THREAD_SERIALIZED at most). */
#ifndef FTK_LOG_H
#define FTK_LOG_H

#include "core/log_ops.h"
#include "log/payload/payload.h"
#include "log/base/peers.h"
#include "log/request/request.h"

struct ftk_unexp;

/* ---- phases -----------------------------------------------------------------------------
 * What this rank does with the calls of the program:
 *
 *     open --> NORMAL <-----------------+
 *               |  ^                    |
 *       failure |  | all had            | the next line
 *               v  | rolled back        | is committed
 *            ROLLING_BACK -----------> REPLAY <--- SETUP_REPLAY <--- a replacement opens
 *               ^       others stay     |
 *               +------- failure -------+
 *
 * ROLLING_BACK ends when the line is restored, SETUP_REPLAY in ftkit_recover().  Both lead to
 * NORMAL if all ranks have rolled back, or if there was no line yet; otherwise to REPLAY.  The
 * failure of another team changes no phase.  After an error that the log cannot repair the phase
 * stays ROLLING_BACK, and all calls fail.
 *
 * Invariant: ftk_log_enter() and ftk_log_begin_rollback() alone change the phase.  The log calls
 * them in a repair, when the line is restored, when a line is committed, and when a context is
 * closed or ends with an error. */
enum ftk_phase {
    FTK_PHASE_NORMAL,
    FTK_PHASE_ROLLING_BACK, /* calls fail until the line is restored */
    FTK_PHASE_SETUP_REPLAY, /* a replacement before ftkit_recover(): receives are served from the
                               set-up log of the lost process, sends go nowhere */
    FTK_PHASE_REPLAY        /* this rank has rolled back since the line, and others have not */
};

/* ---- the state of the process -----------------------------------------------------------
 * A part keeps its state in its file.  Here is what several rooms read, or what each message looks
 * at.  docs/design/core.md has the owner of each field.  Other files call functions of the
 * owner. */

/* The epoch, and its communicators (recovery/contexts.c). */
struct ftk_log_epoch {
    MPI_Comm real[FTK_LOG_COMMS]; /* MPI_COMM_NULL: not used */
    MPI_Comm next[FTK_LOG_COMMS]; /* of the repair under way */
    uint64_t id_now;              /* of the epoch that a repair under way is to replace */
    unsigned all_rolled_back;     /* bit p: at the start of this epoch all ranks of plane p rolled
                                     back to the line */
    unsigned all_rolled_back_now; /* the same of the epoch that a repair under way is to replace */
    int leader;                   /* replicas: the plane that decides open outcomes (mode/lead.c) */
};

/* Where this rank is while a set is written.  Requests make progress in FTK_LINE_AWAY only. */
enum ftk_line_state {
    FTK_LINE_AWAY,   /* no set is written */
    FTK_LINE_HERE,   /* all ranks have come, and drain */
    FTK_LINE_DRAINED /* until the set is committed or given up; after a failure, until the repair */
};

/* The line (recovery/line.c). */
struct ftk_log_line {
    uint64_t count;             /* lines committed so far */
    uint64_t calls, next_event; /* of ctx, at the line */
    enum ftk_line_state state;
    unsigned rounds; /* of announcing counts, in this epoch */
    bool shunned;    /* a rank has gone back to the line, or began there: see recovery/calls.c */
    bool none_yet;   /* before the first line every rank is a team of its own */
    bool of_earlier_job; /* the line was written by an earlier job, and has no set-up log */
    bool of_sibling;     /* with replicas: this rank has the state of a sibling there, and may not
                            have restored the line yet */
    bool setup_unread;   /* the set-up log could not be read: the line is not in memory */
};

/* The outcome of a collective call of ftkit. */
struct ftk_logged_call {
    uint64_t next_event;
    int code;
    int at_line; /* ftk_policy_at_line(); not bool: padding would be sent that nobody has set */
};

/* The collective calls of ftkit itself since the line, for ranks that make them again
 * (recovery/calls.c). */
struct ftk_log_calls {
    struct ftk_logged_call *outs; /* [n] */
    size_t n;
    size_t seq; /* how many this rank has made */
};

/* checkpoint.line = apart (recovery/apart.c). */
struct ftk_log_apart {
    bool on;      /* lines after the first one are apart: messages are counted on all channels */
    bool open;    /* this rank has cut, and the set is neither committed nor given up */
    bool all_cut; /* ... and all senders have announced how many messages they had sent */
    uint64_t set; /* the set of the cut */
};

struct ftk_det_mode;
struct ftk_req_ops;
struct ftk_det_kind;

struct ftk_log {
    struct ftkit_ctx *ctx;
    ftk_log_repair_fn *repair; /* repairs a failure in a call of the program */
    bool on;                   /* the log handles the program's calls */
    bool in_set_up; /* this process has not come to the end of ftkit_recover() (set_up.h) */
    enum ftk_phase phase;
    const struct ftk_det_mode *mode;             /* log.determinants (mode.h) */
    const struct ftk_req_ops *const *kinds;      /* [FTK_REQ_NKINDS] of requests (req_ops.h) */
    const struct ftk_det_kind *const *det_kinds; /* [FTK_DET_NKINDS] (det_kinds.h) */
    int me, n;                                   /* rank, ranks */
    const int *team;    /* [n] the table in force; changed by teams.c only */
    const bool *silent; /* [n] whether the team of a rank keeps no messages; NULL: all keep them;
                           changed by teams.c only */
    int *node;          /* [n] failure domain of each rank's process */
    int *home;          /* [n] the same at the opening: the nodes that a program sees */
    struct ftk_log_epoch epoch;
    struct ftk_log_line line;
    struct ftk_vcomms vcomms;
    struct ftk_req_queue queue;
    size_t nunexp;  /* unexpected messages: each receive looks at it (payload/unexpected.c) */
    size_t npoints; /* channels with suppressed messages: each send looks (payload/channel.c) */
    struct ftk_log_apart apart;
    struct ftk_log_calls calls;
};

extern struct ftk_log ftk_log;

static inline MPI_Comm ftk_log_real(int context)
{
    return ftk_log.epoch.real[ftk_context_comm(context)];
}

static inline bool ftk_log_is_rolling_back(void)
{
    return ftk_log.phase == FTK_PHASE_ROLLING_BACK;
}
static inline bool ftk_log_replays_setup(void)
{
    return ftk_log.phase == FTK_PHASE_SETUP_REPLAY;
}

/* Whether this rank sends messages again that receivers may have. */
static inline bool ftk_log_replays(void)
{
    return ftk_log.npoints > 0;
}

/* Whether messages to and from a rank are between teams. */
static inline bool ftk_log_crosses(int rank)
{
    return ftk_log.line.none_yet ? rank != ftk_log.me
                                 : ftk_log.team[rank] != ftk_log.team[ftk_log.me];
}

/* Whether this rank keeps a message to a rank.  A silent team keeps the messages before the first
 * line only: until then it has no line to which it could go back. */
static inline bool ftk_log_keeps(int rank)
{
    return ftk_log_crosses(rank)
           && (!ftk_log.silent || ftk_log.line.none_yet || !ftk_log.silent[ftk_log.me]);
}

#endif
