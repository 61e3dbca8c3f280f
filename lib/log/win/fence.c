/* Fences.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A fence exchanges the numbers of bytes between all ranks (an alltoall), sends the queues,
 * applies them in the order of ranks, and sends the results back.  So the memory at the end of a
 * fence depends on what the ranks have sent, and not on time.  Ranks of a node that have mapped the
 * memory of each other send no numbers when no rank has a queue (meet.h). */
#include <stdlib.h>

#include "log/coll/coll.h"
#include "log/win/meet.h"
#include "log/win/near.h"
#include "log/win/passive.h"
#include "log/win/win.h"
#include "mpi_calls.h"

/* What a rank sends to another one. */
struct share {
    uint64_t bytes, reply;
};

/* In the alltoall this bit of reply says that the rank sends nothing to any rank.  A message that
 * an earlier version of ftkit has put into a set does not have it. */
#define IDLE ((uint64_t)1 << 63)
/* And this one that it can meet the others without messages. */
#define READY ((uint64_t)1 << 62)

enum { FEW = 16 };

struct exchange {
    struct ftk_win *w;
    int n, me;
    struct share *out, *in;    /* [n] by the other rank */
    struct share few[2 * FEW]; /* of them, when there are few ranks */
    /* when a rank sends operations: */
    struct ftk_win_message *sends, *recvs;
    char **data;    /* [n] that has come; of this rank: its queue */
    char **results; /* [n] for the other ranks */
    char **replies; /* [n] for this rank */
};

static void close_exchange(struct exchange *x)
{
    for (int i = 0; i < x->n; i++) {
        if (x->data && i != x->me)
            free(x->data[i]);
        if (x->results)
            free(x->results[i]);
        if (x->replies && i != x->me)
            free(x->replies[i]);
    }
    if (x->out != x->few)
        free(x->out);
    free(x->sends);
    free(x->recvs);
    free(x->data);
    free(x->results);
    free(x->replies);
}

static int open_exchange(struct exchange *x, struct ftk_win *w)
{
    const size_t n = (size_t)w->vc->size;
    x->w = w;
    x->n = w->vc->size;
    x->me = w->vc->rank;
    x->sends = x->recvs = NULL;
    x->data = x->results = x->replies = NULL;
    x->out = n <= FEW ? x->few : malloc(2 * n * sizeof *x->out);
    if (!x->out)
        return MPI_ERR_NO_MEM;
    x->in = x->out + n;
    for (int i = 0; i < x->n; i++)
        x->out[i] = (struct share){ w->queue[i].bytes, w->queue[i].reply };
    return MPI_SUCCESS;
}

/* ---- the steps ----------------------------------------------------------------------- */

static bool sends_nothing(const struct exchange *x)
{
    for (int i = 0; i < x->n; i++)
        if (x->out[i].bytes > 0)
            return false;
    return true;
}

static bool all_have(const struct exchange *x, uint64_t bit)
{
    for (int i = 0; i < x->n; i++)
        if ((x->in[i].reply & bit) == 0)
            return false;
    return true;
}

/* *quiet: no rank sends operations.  Each one has begun the fence, and has nothing to apply. */
static int exchange_sizes(struct exchange *x, uint64_t idle, bool *quiet)
{
    const uint64_t bits = idle | (ftk_win_meet_is_ready(x->w) ? READY : 0);
    const struct ftk_call call = { .kind = FTK_ALLTOALL,
        .name = "MPI_Win_fence",
        .s = { .buf = x->out, .count = 2, .type = MPI_UINT64_T },
        .r = { .buf = x->in, .count = 2, .type = MPI_UINT64_T } };
    for (int i = 0; i < x->n; i++)
        x->out[i].reply |= bits;
    const int rc = ftk_coll_now(x->w->vc, &call); /* the communicator returns errors */
    *quiet = rc == MPI_SUCCESS && all_have(x, IDLE);
    if (rc == MPI_SUCCESS && !ftk_win_meet_is_agreed(x->w) && all_have(x, READY))
        ftk_win_meet_agree(x->w);
    for (int i = 0; i < x->n; i++) {
        x->out[i].reply &= ~(IDLE | READY);
        x->in[i].reply &= ~(IDLE | READY);
    }
    return rc;
}

static int tell_sizes(struct exchange *x, bool *quiet)
{
    const uint64_t idle = sends_nothing(x) ? IDLE : 0;
    int rc = MPI_SUCCESS;
    *quiet = false;
    if (ftk_win_meet_is_agreed(x->w))
        rc = ftk_win_meet(x->w, idle != 0, quiet);
    return rc == MPI_SUCCESS && !*quiet ? exchange_sizes(x, idle, quiet) : rc;
}

/* Memory for all that comes, before a message is sent. */
static int make_memory(struct exchange *x)
{
    const size_t n = (size_t)x->n;
    x->sends = calloc(n, sizeof *x->sends);
    x->recvs = calloc(n, sizeof *x->recvs);
    x->data = calloc(n, sizeof *x->data);
    x->results = calloc(n, sizeof *x->results);
    x->replies = calloc(n, sizeof *x->replies);
    if (!x->sends || !x->recvs || !x->data || !x->results || !x->replies)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < x->n; i++) {
        if (i != x->me && x->in[i].bytes > 0 && !(x->data[i] = malloc(x->in[i].bytes)))
            return MPI_ERR_NO_MEM;
        if (x->in[i].reply > 0 && !(x->results[i] = malloc(x->in[i].reply)))
            return MPI_ERR_NO_MEM;
        if (i != x->me && x->out[i].reply > 0 && !(x->replies[i] = malloc(x->out[i].reply)))
            return MPI_ERR_NO_MEM;
    }
    if (x->w->queue[x->me].data)
        x->data[x->me] = x->w->queue[x->me].data + FTK_WIN_HEAD;
    x->replies[x->me] = x->results[x->me];
    return MPI_SUCCESS;
}

static int await_all(struct exchange *x)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; i < x->n; i++) {
        const int received = ftk_win_await(&x->recvs[i]);
        const int sent = ftk_win_await(&x->sends[i]);
        rc = rc != MPI_SUCCESS ? rc : received != MPI_SUCCESS ? received : sent;
    }
    return rc;
}

static int send_queues(struct exchange *x)
{
    struct ftk_win *w = x->w;
    for (int i = 0; i < x->n; i++)
        if (i != x->me && x->in[i].bytes > 0)
            ftk_win_recv(&x->recvs[i], w, i, FTK_WIN_TAG_FIRST, x->data[i], x->in[i].bytes);
    for (int k = 1; k < x->n; k++) {
        const int i = (x->me + k) % x->n; /* not all ranks to the same one at first */
        if (x->out[i].bytes > 0)
            ftk_win_send(&x->sends[i], w, i, FTK_WIN_TAG_FIRST, w->queue[i].data + FTK_WIN_HEAD,
                x->out[i].bytes);
    }
    return await_all(x);
}

static int apply_all(struct exchange *x)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; rc == MPI_SUCCESS && i < x->n; i++)
        if (x->in[i].bytes > 0)
            rc = ftk_win_apply(x->w, x->data[i], x->in[i].bytes, x->results[i]);
    return rc;
}

static int send_results(struct exchange *x)
{
    struct ftk_win *w = x->w;
    for (int i = 0; i < x->n; i++)
        if (i != x->me && x->out[i].reply > 0)
            ftk_win_recv(&x->recvs[i], w, i, FTK_WIN_TAG_REPLY, x->replies[i], x->out[i].reply);
    for (int i = 0; i < x->n; i++)
        if (i != x->me && x->in[i].reply > 0)
            ftk_win_send(&x->sends[i], w, i, FTK_WIN_TAG_REPLY, x->results[i], x->in[i].reply);
    return await_all(x);
}

static int take_results(struct exchange *x)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; i < x->n; i++) {
        const struct ftk_win_queue *q = &x->w->queue[i];
        const int error =
            q->nfetch > 0 ? ftk_win_queue_results(q->fetch, q->nfetch, x->replies[i]) : MPI_SUCCESS;
        rc = rc == MPI_SUCCESS ? error : rc;
    }
    return rc;
}

/* Behind tell_sizes(): *broken: this rank cannot do what others wait for. */
static int pass(struct exchange *x, bool *broken)
{
    int rc = make_memory(x);
    *broken = rc != MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        rc = send_queues(x);
    (void)FTK_FAULT("win.sent");
    if (rc == MPI_SUCCESS)
        *broken = (rc = apply_all(x)) != MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        rc = send_results(x);
    return rc == MPI_SUCCESS ? take_results(x) : rc;
}

/* *quiet: as in tell_sizes(). */
static int exchange(struct ftk_win *w, bool *quiet)
{
    struct exchange x;
    int rc = open_exchange(&x, w);
    bool broken = rc != MPI_SUCCESS; /* others wait for this rank */
    if (rc == MPI_SUCCESS)
        broken = (rc = tell_sizes(&x, quiet)) != MPI_SUCCESS && !ftk_log_is_rolling_back();
    if (rc == MPI_SUCCESS && *quiet)
        (void)FTK_FAULT("win.sent");
    else if (rc == MPI_SUCCESS)
        rc = pass(&x, &broken);
    if (rc == MPI_SUCCESS && FTK_FAULT("win.results"))
        rc = MPI_ERR_NO_MEM;
    if (broken)
        ftk_win_broken(w, rc);
    close_exchange(&x);
    for (int i = 0; i < w->vc->size; i++)
        ftk_win_queue_clear(&w->queue[i]);
    return rc;
}

/* ---- the call ------------------------------------------------------------------------ */

static int fence(struct ftk_win *w, int assertion)
{
    bool quiet = false;
    int rc = MPI_SUCCESS;
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    if (w->nstart >= 0 || w->exposure || ftk_win_has_locks(w)
        || ((assertion & MPI_MODE_NOPRECEDE) && w->used)) {
        ftk_win_near_uncounted(w);
        return MPI_ERR_RMA_SYNC;
    }
    if (!(assertion & MPI_MODE_NOPRECEDE))
        rc = exchange(w, &quiet);
    if (!ftk_log_is_rolling_back()) /* also after an error that this rank has alone */
        ftk_win_near_fenced(w, quiet);
    w->fence = !(assertion & MPI_MODE_NOSUCCEED);
    w->used = false;
    return rc;
}

int ftk_mpi_Win_fence(int assertion, MPI_Win win)
{
    FTK_WIN_OF(win, PMPI_Win_fence(assertion, win))
    return ftk_win_end(w, fence(w, assertion));
}
