/* Epochs of MPI_Win_post, start, complete and wait.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     origin                           target
 *     start: remembers the group       post: begins a receive from each origin
 *                            <---      POST
 *     complete: waits for POST
 *     FIRST: sizes, operations --->
 *     REST                   --->      as far as FIRST has no room
 *                            <---      REPLY: the results, if there are any
 *     waits for REPLY                  wait: until all origins have been served
 *
 * A target serves its origins in the order of their ranks, in MPI_Win_wait and in any other call
 * that waits.  So the memory after MPI_Win_wait does not depend on time, and no determinant is
 * needed, but for the outcome of MPI_Win_test. */
#include <stdlib.h>
#include <string.h>

#include "log/determinant/det.h"
#include "log/win/near.h"
#include "log/win/passive.h"
#include "log/win/win.h"
#include "mpi_calls.h"

enum { FIRST_BYTES = 1024, FIRST_ROOM = FIRST_BYTES - FTK_WIN_HEAD };
enum { HEAD_BYTES, HEAD_REPLY }; /* words of the head of FIRST */

/* An origin of an exposure. */
struct origin {
    int rank;
    enum { AWAITS_FIRST, AWAITS_REST, HAS_ALL, SERVED } state;
    uint64_t first[FIRST_BYTES / 8];
    char *data; /* the operations */
    size_t bytes, reply_bytes;
    char *reply;
    struct ftk_win_message post, in, answer;
};

struct ftk_win_exposure {
    int n, served;
    int own;             /* this rank is its own origin number ...; -1: none */
    struct origin *from; /* [n] in the order of ranks */
};

/* ---- groups -------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return x < y ? -1 : x > y;
}

/* The ranks of the world of a group. */
static int members(MPI_Group group, int n, int *world)
{
    int *all = malloc(((size_t)n + 1) * sizeof *all);
    if (!all)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < n; i++)
        all[i] = i;
    int rc = PMPI_Group_translate_ranks(group, n, all, ftk_log.vcomms.group, world);
    free(all);
    return rc;
}

int ftk_win_group(const struct ftk_win *w, MPI_Group group, int *n, int **ranks)
{
    if (group == MPI_GROUP_NULL)
        return MPI_ERR_GROUP;
    int rc = PMPI_Group_size(group, n);
    *ranks = rc == MPI_SUCCESS ? malloc(((size_t)*n + 1) * sizeof **ranks) : NULL;
    if (!*ranks)
        return rc == MPI_SUCCESS ? MPI_ERR_NO_MEM : rc;
    if (*n > 0)
        rc = members(group, *n, *ranks);
    for (int i = 0; rc == MPI_SUCCESS && i < *n; i++) {
        (*ranks)[i] = (*ranks)[i] < 0 ? -1 : ftk_vcomm_rank(w->vc, (*ranks)[i]);
        if ((*ranks)[i] < 0)
            rc = MPI_ERR_GROUP;
    }
    if (rc == MPI_SUCCESS) {
        qsort(*ranks, (size_t)*n, sizeof **ranks, by_value);
        return rc;
    }
    free(*ranks);
    *ranks = NULL;
    return rc;
}

/* ---- the exposure -------------------------------------------------------------------- */

/* All its messages have ended. */
static void free_exposure(struct ftk_win_exposure *e)
{
    for (int i = 0; i < e->n; i++) {
        free(e->from[i].data);
        free(e->from[i].reply);
    }
    free(e->from);
    free(e);
}

enum { MESSAGES = 3 }; /* of an origin */

static struct ftk_win_message *message(struct origin *o, int k)
{
    return k == 0 ? &o->post : k == 1 ? &o->in : &o->answer;
}

void ftk_win_exposure_drop(struct ftk_win *w)
{
    struct ftk_win_exposure *e = w->exposure;
    w->exposure = NULL;
    for (int i = 0; e && i < e->n; i++)
        for (int k = 0; k < MESSAGES; k++)
            (void)ftk_win_look(message(&e->from[i], k)); /* frees its type */
    if (e)
        free_exposure(e);
}

bool ftk_win_exposure_fail(struct ftk_win *w)
{
    struct ftk_win_exposure *e = w->exposure;
    bool all = true;
    for (int i = 0; e && i < e->n; i++)
        for (int k = 0; k < MESSAGES; k++) {
            struct ftk_win_message *m = message(&e->from[i], k);
            if (!m->open || ftk_req_is_done(&m->r))
                continue;
            if (m->r.real != MPI_REQUEST_NULL)
                all = false;
            else
                (void)ftk_req_fail(&m->r, MPI_ERR_PENDING); /* nobody waits for it */
        }
    return all;
}

static int open_exposure(
    const struct ftk_win *w, const int *rank, int n, struct ftk_win_exposure **out)
{
    struct ftk_win_exposure *e = calloc(1, sizeof *e);
    if (!e)
        return MPI_ERR_NO_MEM;
    e->from = calloc((size_t)n + 1, sizeof *e->from);
    if (!e->from) {
        free(e);
        return MPI_ERR_NO_MEM;
    }
    e->n = n;
    e->own = -1;
    for (int i = 0; i < n; i++) {
        e->from[i].rank = rank[i];
        e->own = rank[i] == w->vc->rank ? i : e->own;
    }
    *out = e;
    return MPI_SUCCESS;
}

/* Memory for the operations of an origin; *head: those of FIRST. */
static int make_room(struct origin *o, const uint64_t *head)
{
    o->bytes = head[HEAD_BYTES];
    o->reply_bytes = head[HEAD_REPLY];
    o->data = malloc(o->bytes + 1);
    o->reply = malloc(o->reply_bytes + 1);
    return o->data && o->reply ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static int take_first(struct ftk_win *w, struct origin *o)
{
    int rc = make_room(o, o->first);
    if (rc != MPI_SUCCESS)
        return rc;
    const size_t here = o->bytes < FIRST_ROOM ? o->bytes : FIRST_ROOM;
    memcpy(o->data, o->first + FTK_WIN_HEAD_WORDS, here);
    o->state = o->bytes > here ? AWAITS_REST : HAS_ALL;
    if (o->state == AWAITS_REST)
        ftk_win_recv(&o->in, w, o->rank, FTK_WIN_TAG_REST, o->data + here, o->bytes - here);
    return rc;
}

static int look_at(struct ftk_win *w, struct origin *o)
{
    if (o->rank == w->vc->rank || o->state >= HAS_ALL)
        return MPI_SUCCESS;
    if (!ftk_win_look(&o->in))
        return MPI_SUCCESS;
    if (o->in.r.error != MPI_SUCCESS)
        return o->in.r.error;
    if (o->state == AWAITS_FIRST)
        return take_first(w, o);
    o->state = HAS_ALL;
    return MPI_SUCCESS;
}

static int serve(struct ftk_win *w, struct origin *o)
{
    int rc = ftk_win_apply(w, o->data, o->bytes, o->reply);
    o->state = SERVED;
    w->exposure->served++;
    if (rc == MPI_SUCCESS && o->reply_bytes > 0 && o->rank != w->vc->rank)
        ftk_win_send(&o->answer, w, o->rank, FTK_WIN_TAG_REPLY, o->reply, o->reply_bytes);
    return rc;
}

/* Go on with the first n origins. */
static void expose(struct ftk_win *w, int n)
{
    struct ftk_win_exposure *e = w->exposure;
    int rc = MPI_SUCCESS;
    for (int i = 0; rc == MPI_SUCCESS && i < n; i++) {
        struct origin *o = &e->from[i];
        rc = look_at(w, o);
        if (rc == MPI_SUCCESS && o->state == HAS_ALL && e->served == i)
            rc = serve(w, o);
    }
    if (rc != MPI_SUCCESS)
        ftk_win_broken(w, rc);
}

void ftk_win_expose(struct ftk_win *w)
{
    if (w->exposure)
        expose(w, w->exposure->n);
}

/* Whether all origins have been served, and the MPI reads no memory of the exposure any more. */
static bool is_over(const struct ftk_win *w)
{
    struct ftk_win_exposure *e = w->exposure;
    bool over = e->served == e->n;
    for (int i = 0; over && i < e->n; i++)
        over = ftk_win_look(&e->from[i].post) && ftk_win_look(&e->from[i].answer);
    return over;
}

/* The first error of its sends. */
static int error_of(const struct ftk_win_exposure *e)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; rc == MPI_SUCCESS && i < e->n; i++) {
        const struct origin *o = &e->from[i];
        rc = o->post.r.error != MPI_SUCCESS ? o->post.r.error : o->answer.r.error;
    }
    return rc;
}

static int end_exposure(struct ftk_win *w)
{
    const int rc = error_of(w->exposure);
    ftk_win_exposure_drop(w);
    const int granted = ftk_win_grant(w);
    return rc == MPI_SUCCESS ? granted : rc;
}

/* ---- calls of the target ------------------------------------------------------------- */

static int post(struct ftk_win *w, MPI_Group group)
{
    int n = 0, *rank = NULL;
    struct ftk_win_exposure *e = NULL;
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    if (w->exposure || w->used || ftk_win_has_locks(w) || ftk_win_is_locked_here(w))
        return MPI_ERR_RMA_SYNC;
    int rc = ftk_win_group(w, group, &n, &rank);
    if (rc == MPI_SUCCESS)
        rc = open_exposure(w, rank, n, &e);
    free(rank);
    if (rc != MPI_SUCCESS)
        return rc;
    w->fence = false;
    w->exposure = e;
    for (int i = 0; i < n; i++) {
        struct origin *o = &e->from[i];
        ftk_win_near_posted(w, o->rank);
        if (i == e->own)
            continue;
        ftk_win_recv(&o->in, w, o->rank, FTK_WIN_TAG_FIRST, o->first, sizeof o->first);
        ftk_win_send(&o->post, w, o->rank, FTK_WIN_TAG_POST, o->first, 0);
    }
    return rc;
}

int ftk_mpi_Win_post(MPI_Group group, int assertion, MPI_Win win)
{
    struct ftk_win *w = ftk_win_find(win);
    if (!w)
        return ftk_win_is_gone(win) ? ftk_log_error() : PMPI_Win_post(group, assertion, win);
    return ftk_win_end(w, post(w, group));
}

static int wait_for_origins(struct ftk_win *w)
{
    unsigned turns = 0;
    int rc = MPI_SUCCESS;
    for (;;) {
        ftk_win_expose(w);
        if (is_over(w))
            return end_exposure(w);
        rc = ftk_log_progress(&turns);
        if (rc != MPI_SUCCESS)
            return rc;
    }
}

int ftk_mpi_Win_wait(MPI_Win win)
{
    FTK_WIN_OF(win, PMPI_Win_wait(win))
    (void)FTK_FAULT("win.wait");
    int rc = ftk_log_is_rolling_back() ? ftk_log_error()
             : w->exposure             ? wait_for_origins(w)
                                       : MPI_ERR_RMA_SYNC;
    return ftk_win_end(w, rc);
}

/* The outcome of MPI_Win_test is left open: a determinant. */
static int test(struct ftk_win *w, int *flag)
{
    const struct ftk_det *det;
    if (ftk_log_refuses("MPI_Win_test"))
        return MPI_ERR_UNSUPPORTED_OPERATION;
    const int next = ftk_det_next(FTK_DET_WIN, &det);
    if (next == FTK_DET_THIS) {
        *flag = 1;
        return wait_for_origins(w);
    }
    if (next == FTK_DET_FREE) {
        ftk_win_expose(w);
        *flag = is_over(w);
    }
    if (*flag) {
        ftk_det_found(FTK_DET_WIN, 0, 0);
        return end_exposure(w);
    }
    if (next == FTK_DET_FREE)
        ftk_det_found_nothing();
    return ftk_log_progress(&w->turns);
}

int ftk_mpi_Win_test(MPI_Win win, int *flag)
{
    struct ftk_win *w = ftk_win_find(win);
    if (!w)
        return ftk_win_is_gone(win) ? ftk_log_error() : PMPI_Win_test(win, flag);
    *flag = 0;
    int rc = ftk_log_is_rolling_back() ? ftk_log_error()
             : w->exposure             ? test(w, flag)
                                       : MPI_ERR_RMA_SYNC;
    return ftk_win_end(w, rc);
}

const struct ftk_det_kind ftk_det_kind_win = { .text = "MPI_Win_test", .keeper = FTK_DET_KEPT };

/* ---- calls of the origin ------------------------------------------------------------- */

static int start(struct ftk_win *w, MPI_Group group)
{
    int n = 0, *rank = NULL;
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    if (w->nstart >= 0 || w->used || ftk_win_has_locks(w))
        return MPI_ERR_RMA_SYNC;
    int rc = ftk_win_group(w, group, &n, &rank);
    if (rc != MPI_SUCCESS)
        return rc;
    w->fence = false;
    w->nstart = n;
    w->start = rank;
    for (int i = 0; i < n; i++)
        ftk_win_near_started(w, rank[i]);
    return rc;
}

int ftk_mpi_Win_start(MPI_Group group, int assertion, MPI_Win win)
{
    FTK_WIN_OF(win, PMPI_Win_start(group, assertion, win))
    return ftk_win_end(w, start(w, group));
}

/* A target of this access epoch. */
struct target {
    uint64_t first[FTK_WIN_HEAD_WORDS]; /* of an empty queue */
    struct ftk_win_message post, head, rest, answer;
    char *reply;
};

static void send_queue(struct ftk_win *w, int rank, struct target *t)
{
    struct ftk_win_queue *q = &w->queue[rank];
    uint64_t *const head = q->data ? (uint64_t *)(void *)q->data : t->first;
    const size_t here = q->bytes < FIRST_ROOM ? q->bytes : FIRST_ROOM;
    memset(head, 0, FTK_WIN_HEAD);
    head[HEAD_BYTES] = q->bytes;
    head[HEAD_REPLY] = q->reply;
    if (q->reply > 0)
        ftk_win_recv(&t->answer, w, rank, FTK_WIN_TAG_REPLY, t->reply, q->reply);
    ftk_win_send(&t->head, w, rank, FTK_WIN_TAG_FIRST, head, FTK_WIN_HEAD + here);
    if (q->bytes > here)
        ftk_win_send(
            &t->rest, w, rank, FTK_WIN_TAG_REST, q->data + FTK_WIN_HEAD + here, q->bytes - here);
}

/* This rank is its own target: its exposure gets the queue when the ranks before have been
 * served.  In a replay of set-up the other ranks may have sent later, in the loop. */
static int hand_over(struct ftk_win *w, struct target *t)
{
    struct ftk_win_queue *q = &w->queue[w->vc->rank];
    struct ftk_win_exposure *e = w->exposure;
    unsigned turns = 0;
    if (!e || e->own < 0 || e->from[e->own].state != AWAITS_FIRST)
        return MPI_ERR_RMA_SYNC;
    struct origin *o = &e->from[e->own];
    const uint64_t head[] = { q->bytes, q->reply };
    int rc = make_room(o, head);
    if (rc != MPI_SUCCESS)
        return rc;
    if (q->bytes > 0)
        memcpy(o->data, q->data + FTK_WIN_HEAD, q->bytes);
    o->state = HAS_ALL;
    while (o->state != SERVED) {
        expose(w, ftk_log_replays_setup() ? e->own + 1 : e->n);
        rc = o->state == SERVED ? MPI_SUCCESS : ftk_log_progress(&turns);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    if (q->reply > 0)
        memcpy(t->reply, o->reply, q->reply);
    return MPI_SUCCESS;
}

/* *rc: the error of the messages so far; after such an error there are no results.  *result: the
 * first error of an operation, which takes nothing from later targets. */
static void await_target(struct ftk_win *w, int rank, struct target *t, int *rc, int *result)
{
    const struct ftk_win_queue *q = &w->queue[rank];
    const int error[] = { ftk_win_await(&t->head), ftk_win_await(&t->rest),
        ftk_win_await(&t->answer) };
    for (size_t i = 0; *rc == MPI_SUCCESS && i < sizeof error / sizeof *error; i++)
        *rc = error[i];
    if (*rc != MPI_SUCCESS || q->nfetch == 0)
        return;
    const int taken = ftk_win_queue_results(q->fetch, q->nfetch, t->reply);
    *result = *result == MPI_SUCCESS ? taken : *result;
}

/* Each target gets its queue as soon as it has posted; then the results come. */
static int send_queues(struct ftk_win *w, struct target *t)
{
    const int me = w->vc->rank;
    int rc = MPI_SUCCESS, result = MPI_SUCCESS, own = -1;
    for (int i = 0; i < w->nstart; i++)
        if (w->start[i] != me)
            ftk_win_recv(&t[i].post, w, w->start[i], FTK_WIN_TAG_POST, t[i].first, 0);
    for (int i = 0; i < w->nstart; i++) {
        own = w->start[i] == me ? i : own;
        const int error = ftk_win_await(&t[i].post);
        if (error == MPI_SUCCESS && rc == MPI_SUCCESS && w->start[i] != me)
            send_queue(w, w->start[i], &t[i]);
        rc = rc == MPI_SUCCESS ? error : rc;
    }
    (void)FTK_FAULT("win.sent");
    if (rc == MPI_SUCCESS && own >= 0)
        rc = hand_over(w, &t[own]);
    for (int i = 0; i < w->nstart; i++)
        await_target(w, w->start[i], &t[i], &rc, &result);
    return rc == MPI_SUCCESS ? result : rc;
}

static int complete(struct ftk_win *w)
{
    struct target *t = calloc((size_t)w->nstart + 1, sizeof *t);
    bool memory = t != NULL;
    for (int i = 0; memory && i < w->nstart; i++) {
        const size_t reply = w->queue[w->start[i]].reply;
        memory = reply == 0 || (t[i].reply = malloc(reply)) != NULL;
    }
    int rc = memory ? send_queues(w, t) : MPI_ERR_NO_MEM;
    if (!memory)
        ftk_win_broken(w, rc); /* its targets wait */
    for (int i = 0; t && i < w->nstart; i++)
        free(t[i].reply);
    free(t);
    ftk_win_forget(w);
    return rc;
}

int ftk_mpi_Win_complete(MPI_Win win)
{
    struct ftk_win *w = ftk_win_find(win);
    if (!w)
        return ftk_win_is_gone(win) ? ftk_log_error() : PMPI_Win_complete(win);
    int rc = ftk_log_is_rolling_back() ? ftk_log_error()
             : w->nstart < 0           ? MPI_ERR_RMA_SYNC
                                       : complete(w);
    return ftk_win_end(w, rc);
}
