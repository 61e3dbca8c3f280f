/* Passive target: locks, and operations that their target applies as they come.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Requests and answers are control messages (control.h), which no log keeps.  So passive target
 * needs one team of all ranks: after a failure all ranks go back, and nothing is replayed.
 *
 *     origin                          target
 *     LOCK type             --->      into the queue of the window
 *                           <---      GRANT, in the order of the queue
 *     OPERATIONS serial     --->      apply them, in the order of the messages
 *                           <---      DONE serial, with the results
 *     OPERATIONS, last      --->      apply them; the lock is free
 *                           <---      DONE serial
 *
 * near.h has ASK and OFFER.
 *
 * Each call that ends an epoch or flushes waits for DONE.  So when all ranks are at a line, none of
 * these messages is under way; ASK and OFFER may be.
 *
 * Functions that return int return MPI codes. */
#ifndef FTK_LOG_WIN_PASSIVE_H
#define FTK_LOG_WIN_PASSIVE_H

#include "log/base/control.h"
#include "log/win/win.h"

enum ftk_win_lock { FTK_WIN_FREE, FTK_WIN_SHARED, FTK_WIN_EXCLUSIVE };

/* A message of operations that its target has not answered. */
struct ftk_win_pending {
    struct ftk_win_pending *next;
    int target;
    uint64_t serial;
    struct ftk_win_fetch *fetch; /* [nfetch] */
    size_t nfetch;
};

struct ftk_win_waiter {
    int rank; /* of the window */
    enum ftk_win_lock lock;
};

struct ftk_win_passive {
    /* as an origin */
    bool all;            /* MPI_Win_lock_all */
    unsigned char *lock; /* [size] enum ftk_win_lock; with all it says nothing */
    bool *granted;       /* [size] by the target */
    uint64_t *sent;      /* [size] the last serial sent to each target */
    uint64_t *done;      /* [size] ... that the target has answered */
    struct ftk_win_pending *pending;
    int error; /* of an operation on memory that is not attached; the next call that waits has it */
    /* as a target */
    int shared;                  /* so many ranks have a shared lock */
    int exclusive;               /* this rank has an exclusive one; -1: none */
    struct ftk_win_waiter *wait; /* [nwait] in the order of their requests */
    size_t nwait, wait_room;
};

/* Whether the configuration has passive target. */
bool ftk_win_jobs_have_locks(void);
/* Whether a call has it now; else the function reports the error of the call. */
bool ftk_win_may_lock(const char *call);
/* Whether the configuration has windows with shared memory; else as above. */
bool ftk_win_may_share(const char *call);
/* The state of w, which is made at the first use.  NULL: no memory. */
struct ftk_win_passive *ftk_win_passive(struct ftk_win *w);
void ftk_win_passive_free(struct ftk_win *w); /* win.c */
/* Whether all ranks of the job are one team, with lines together and without replicas. */
bool ftk_win_is_one_team(void);
/* Whether w has a lock of the target. */
static inline bool ftk_win_is_locked(const struct ftk_win *w, int target)
{
    return w->passive && (w->passive->all || w->passive->lock[target] != FTK_WIN_FREE);
}
/* Whether a rank has a lock of this one. */
static inline bool ftk_win_is_locked_here(const struct ftk_win *w)
{
    return w->passive && (w->passive->shared > 0 || w->passive->exclusive >= 0);
}
/* Whether a locked target has operations that it has not answered. */
static inline bool ftk_win_awaits(const struct ftk_win *w, int target)
{
    return w->queue[target].nops > 0 || w->passive->done[target] < w->passive->sent[target];
}
static inline bool ftk_win_has_locks(const struct ftk_win *w)
{
    for (int i = 0; i < w->vc->size; i++)
        if (ftk_win_is_locked(w, i))
            return true;
    return false;
}

/* ---- serve.c --------------------------------------------------------------------------- */

/* Ask for a lock; granted[target] shows the answer. */
int ftk_win_ask(struct ftk_win *w, int target, enum ftk_win_lock lock);
/* Ask a target where its memory is (near.h). */
int ftk_win_ask_memory(struct ftk_win *w, int target);
/* Send the queue for a target, also when it is empty.  last: and give the lock back. */
int ftk_win_push(struct ftk_win *w, int target, bool last);
/* Grant the locks that wait here, as far as possible. */
int ftk_win_grant(struct ftk_win *w);
/* One look at what has come. */
void ftk_win_serve(void);

enum { FTK_WIN_CONTROLS = 6 };
extern const struct ftk_control_kind ftk_win_controls[FTK_WIN_CONTROLS];

/* ---- lock.c ---------------------------------------------------------------------------- */

/* Wait until a target has answered what was sent up to serial; 0: it has granted the lock. */
int ftk_win_wait_for(struct ftk_win *w, int target, uint64_t serial);
/* No answer is to come, as for operations on the own rank.  A program may repeat the call until
 * another rank has changed something, so the call serves the others once. */
int ftk_win_serve_once(struct ftk_win *w);
/* The same after operations without messages, which take less time than a look. */
int ftk_win_serve_sometimes(struct ftk_win *w);

#endif
