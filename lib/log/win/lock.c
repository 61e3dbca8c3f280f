/* Passive target: the calls of the program (passive.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Win_lock waits for the lock, and MPI_Win_lock_all takes the locks one after the other in the
 * order of ranks.  So ranks that take locks in one order never wait for each other in a circle. */
#include <stdatomic.h>
#include <stdlib.h>

#include "detect/detect.h"
#include "log/mode.h"
#include "log/win/near.h"
#include "log/win/passive.h"
#include "mpi_calls.h"

/* Why the configuration has no locks, and no shared memory; NULL: it has them. */
static const char *why_not(const struct ftk_config *cfg)
{
    if (cfg->log_teams != FTK_TEAMS_ALL)
        return "several teams: with locks and shared memory use log.teams = all";
    if (cfg->line == FTK_LINE_APART)
        return "checkpoint.line = apart: with locks and shared memory use together";
    return cfg->replicas > 1 ? "replicas: with locks and shared memory use replicas.count = 1"
                             : NULL;
}

/* The same, with the teams that there are: keys may list them. */
static const char *why_not_here(void)
{
    const struct ftk_log *l = &ftk_log;
    const char *why = why_not(&l->ctx->cfg);
    for (int i = 1; i < l->n && !why; i++)
        if (l->team[i] != l->team[0])
            why = "several teams: with locks and shared memory use log.teams = all and no other "
                  "key of teams";
    return why;
}

/* Whether there is no reason why not; else report it. */
static bool may(const char *call, const char *why)
{
    if (why)
        ftk_report(FTKIT_ERROR,
            "rank %d: %s is not possible with the message log (log.enabled) and %s", ftk_log.me,
            call, why);
    return !why;
}

bool ftk_win_jobs_have_locks(void)
{
    return ftk_log.ctx && !why_not(&ftk_log.ctx->cfg); /* no context: sets are read, no more */
}

bool ftk_win_is_one_team(void)
{
    return !why_not_here();
}

bool ftk_win_may_lock(const char *call)
{
    const char *why = why_not_here();
    if (!why && ftk_log.line.none_yet)
        why = "no set: locks need the first set of ftkit_checkpoint";
    return may(call, why);
}

/* The facts that ranks send each other are decisions (share.c): the mode has to record them. */
bool ftk_win_may_share(const char *call)
{
    const char *why = why_not_here();
    if (!why && ftk_log.mode->refuses)
        why = "log.determinants = refuse: with shared memory use node, causal or pessimistic";
    else if (!why && !ftk_log.mode->records)
        why = "log.determinants = relaxed: with shared memory use node, causal or pessimistic";
    return may(call, why);
}

struct ftk_win_passive *ftk_win_passive(struct ftk_win *w)
{
    const size_t n = (size_t)w->vc->size;
    if (w->passive)
        return w->passive;
    struct ftk_win_passive *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    w->passive = p;
    p->exclusive = -1;
    p->lock = calloc(n, sizeof *p->lock);
    p->granted = calloc(n, sizeof *p->granted);
    p->sent = calloc(n, sizeof *p->sent);
    p->done = calloc(n, sizeof *p->done);
    if (!p->lock || !p->granted || !p->sent || !p->done)
        ftk_win_passive_free(w);
    return w->passive;
}

int ftk_win_wait_for(struct ftk_win *w, int target, uint64_t serial)
{
    struct ftk_win_passive *p = w->passive;
    unsigned turns = 0;
    while (serial == 0 ? !p->granted[target] : p->done[target] < serial) {
        int rc = ftk_log_progress(&turns);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    return MPI_SUCCESS;
}

int ftk_win_serve_once(struct ftk_win *w)
{
    return ftk_log_progress(&w->turns);
}

int ftk_win_serve_sometimes(struct ftk_win *w)
{
    const enum ftk_win_look look = ftk_win_near_looks(w);
    if (look == FTK_WIN_LOOK_CLOSELY)
        (void)ftk_detect_poll(ftk_log.ctx); /* the next line does what has to be done */
    return look == FTK_WIN_LOOK_NOT ? MPI_SUCCESS : ftk_win_serve_once(w);
}

/* ---- what the calls have in common --------------------------------------------------- */

/* A call that begins an epoch with locks: w has no other epoch. */
static int may_begin(struct ftk_win *w, const char *call)
{
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    if (!ftk_win_may_lock(call))
        return MPI_ERR_UNSUPPORTED_OPERATION;
    if (w->nstart >= 0 || w->exposure || w->used || (w->passive && w->passive->all))
        return MPI_ERR_RMA_SYNC;
    if (!ftk_win_passive(w))
        return MPI_ERR_NO_MEM;
    return MPI_SUCCESS;
}

/* A call that needs a lock of the target. */
static int needs_lock(const struct ftk_win *w, int rank)
{
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    if (rank < 0 || rank >= w->vc->size)
        return MPI_ERR_RANK;
    return ftk_win_is_locked(w, rank) ? MPI_SUCCESS : MPI_ERR_RMA_SYNC;
}

/* The result of a call that has waited: rc, else the first error that targets have reported. */
static int outcome(struct ftk_win *w, int rc)
{
    if (rc != MPI_SUCCESS)
        return rc;
    rc = w->passive->error;
    w->passive->error = MPI_SUCCESS;
    return rc;
}

/* The begin of a flush. */
static int push_some(struct ftk_win *w, int rank)
{
    ftk_win_near_flushed(w, rank);
    return w->queue[rank].nops > 0 ? ftk_win_push(w, rank, false) : MPI_SUCCESS;
}

static int flush(struct ftk_win *w, int rank)
{
    int rc = push_some(w, rank);
    (void)FTK_FAULT("win.flush");
    if (rc != MPI_SUCCESS)
        return rc;
    return outcome(w, ftk_win_awaits(w, rank) ? ftk_win_wait_for(w, rank, w->passive->sent[rank])
                                              : ftk_win_serve_sometimes(w));
}

static int flush_all(struct ftk_win *w)
{
    int rc = MPI_SUCCESS;
    bool waits = false;
    for (int i = 0; rc == MPI_SUCCESS && i < w->vc->size; i++)
        rc = push_some(w, i);
    (void)FTK_FAULT("win.flush");
    for (int i = 0; rc == MPI_SUCCESS && i < w->vc->size; i++) {
        if (!ftk_win_awaits(w, i))
            continue;
        waits = true;
        rc = ftk_win_wait_for(w, i, w->passive->sent[i]);
    }
    return outcome(w, rc == MPI_SUCCESS && !waits ? ftk_win_serve_sometimes(w) : rc);
}

/* Whether an operation waits for a result: the others have given their data already. */
static bool has_fetch(const struct ftk_win *w, int rank)
{
    bool has = w->queue[rank].nfetch > 0 || ftk_win_near_has_fetched(w, rank);
    for (const struct ftk_win_pending *p = w->passive->pending; p && !has; p = p->next)
        has = p->target == rank && p->nfetch > 0;
    return has;
}

/* ---- locks --------------------------------------------------------------------------- */

static int lock(struct ftk_win *w, int type, int rank)
{
    int rc = may_begin(w, "MPI_Win_lock");
    if (rc != MPI_SUCCESS)
        return rc;
    if (type != MPI_LOCK_SHARED && type != MPI_LOCK_EXCLUSIVE)
        return MPI_ERR_LOCKTYPE;
    if (rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    if (rank < 0 || rank >= w->vc->size)
        return MPI_ERR_RANK;
    if (w->passive->lock[rank] != FTK_WIN_FREE)
        return MPI_ERR_RMA_SYNC;
    const enum ftk_win_lock how = type == MPI_LOCK_SHARED ? FTK_WIN_SHARED : FTK_WIN_EXCLUSIVE;
    rc = ftk_win_ask(w, rank, how);
    if (rc == MPI_SUCCESS)
        rc = ftk_win_wait_for(w, rank, 0);
    (void)FTK_FAULT("win.locked");
    if (rc != MPI_SUCCESS)
        return rc;
    w->fence = false;
    w->passive->lock[rank] = (unsigned char)how;
    return rc;
}

static int lock_all(struct ftk_win *w)
{
    int rc = may_begin(w, "MPI_Win_lock_all");
    if (rc == MPI_SUCCESS && ftk_win_has_locks(w))
        rc = MPI_ERR_RMA_SYNC;
    for (int i = 0; rc == MPI_SUCCESS && i < w->vc->size; i++) {
        rc = ftk_win_ask(w, i, FTK_WIN_SHARED);
        if (rc == MPI_SUCCESS)
            rc = ftk_win_wait_for(w, i, 0);
    }
    if (rc != MPI_SUCCESS)
        return rc;
    w->fence = false;
    w->passive->all = true;
    return rc;
}

static int unlock(struct ftk_win *w, int rank)
{
    if (rank == MPI_PROC_NULL)
        return ftk_log_is_rolling_back() ? ftk_log_error() : MPI_SUCCESS;
    int rc = needs_lock(w, rank);
    if (rc == MPI_SUCCESS && w->passive->all)
        rc = MPI_ERR_RMA_SYNC;
    if (rc == MPI_SUCCESS)
        rc = ftk_win_push(w, rank, true);
    (void)FTK_FAULT("win.unlock");
    if (rc == MPI_SUCCESS)
        rc = ftk_win_wait_for(w, rank, w->passive->sent[rank]);
    if (rc != MPI_SUCCESS)
        return rc;
    w->passive->lock[rank] = FTK_WIN_FREE;
    ftk_win_near_flushed(w, rank);
    return outcome(w, ftk_win_serve_once(w));
}

static int unlock_all(struct ftk_win *w)
{
    int rc = ftk_log_is_rolling_back()       ? ftk_log_error()
             : w->passive && w->passive->all ? MPI_SUCCESS
                                             : MPI_ERR_RMA_SYNC;
    for (int i = 0; rc == MPI_SUCCESS && i < w->vc->size; i++)
        rc = ftk_win_push(w, i, true);
    for (int i = 0; rc == MPI_SUCCESS && i < w->vc->size; i++)
        rc = ftk_win_wait_for(w, i, w->passive->sent[i]);
    if (rc != MPI_SUCCESS)
        return rc;
    for (int i = 0; i < w->vc->size; i++)
        ftk_win_near_flushed(w, i);
    w->passive->all = false;
    return outcome(w, ftk_win_serve_once(w));
}

/* ---- the calls ----------------------------------------------------------------------- */

int ftk_mpi_Win_lock(int lock_type, int rank, int assertion, MPI_Win win)
{
    FTK_WIN_OF(win, PMPI_Win_lock(lock_type, rank, assertion, win))
    return ftk_win_end(w, lock(w, lock_type, rank));
}

int ftk_mpi_Win_lock_all(int assertion, MPI_Win win)
{
    FTK_WIN_OF(win, PMPI_Win_lock_all(assertion, win))
    return ftk_win_end(w, lock_all(w));
}

int ftk_mpi_Win_unlock(int rank, MPI_Win win)
{
    FTK_WIN_OF(win, PMPI_Win_unlock(rank, win))
    return ftk_win_end(w, unlock(w, rank));
}

int ftk_mpi_Win_unlock_all(MPI_Win win)
{
    FTK_WIN_OF(win, PMPI_Win_unlock_all(win))
    return ftk_win_end(w, unlock_all(w));
}

static int flush_call(struct ftk_win *w, int rank, bool local)
{
    if (rank == MPI_PROC_NULL)
        return ftk_log_is_rolling_back() ? ftk_log_error() : MPI_SUCCESS;
    int rc = needs_lock(w, rank);
    if (rc == MPI_SUCCESS && (!local || has_fetch(w, rank)))
        rc = flush(w, rank);
    return rc;
}

static int flush_all_call(struct ftk_win *w, bool local)
{
    int rc = ftk_log_is_rolling_back() ? ftk_log_error()
             : ftk_win_has_locks(w)    ? MPI_SUCCESS
                                       : MPI_ERR_RMA_SYNC;
    bool fetches = false;
    for (int i = 0; rc == MPI_SUCCESS && i < w->vc->size; i++)
        fetches = fetches || has_fetch(w, i);
    return rc == MPI_SUCCESS && (!local || fetches) ? flush_all(w) : rc;
}

int ftk_mpi_Win_flush(int rank, MPI_Win win)
{
    FTK_WIN_OF(win, PMPI_Win_flush(rank, win))
    return ftk_win_end(w, flush_call(w, rank, false));
}

int ftk_mpi_Win_flush_local(int rank, MPI_Win win)
{
    FTK_WIN_OF(win, PMPI_Win_flush_local(rank, win))
    return ftk_win_end(w, flush_call(w, rank, true));
}

int ftk_mpi_Win_flush_all(MPI_Win win)
{
    FTK_WIN_OF(win, PMPI_Win_flush_all(win))
    return ftk_win_end(w, flush_all_call(w, false));
}

int ftk_mpi_Win_flush_local_all(MPI_Win win)
{
    FTK_WIN_OF(win, PMPI_Win_flush_local_all(win))
    return ftk_win_end(w, flush_all_call(w, true));
}

/* Operations of other ranks come in calls that wait, and in this one: a program may look at its
 * memory in a loop. */
int ftk_mpi_Win_sync(MPI_Win win)
{
    FTK_WIN_OF(win, PMPI_Win_sync(win))
    atomic_thread_fence(memory_order_seq_cst);
    return ftk_win_end(w, ftk_log_progress(&w->turns));
}
