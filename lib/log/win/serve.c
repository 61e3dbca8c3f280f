/* Passive target: what ranks send each other for it, and what a target does (passive.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "core/mpi_shim.h"
#include "detect/misuse.h"
#include "log/win/near.h"
#include "log/win/passive.h"

/* Words at the beginning of each message. */
enum { CONTEXT, SERIAL, BYTES, FLAGS }; /* of LOCK and GRANT: SERIAL is the lock */
enum { WINDOW = SERIAL, ADDRESS = BYTES, TOKEN = FLAGS }; /* of ASK and OFFER: id at the origin */
enum { IS_LAST = 1 }; /* FLAGS of OPERATIONS; above it: the bytes of the results */
_Static_assert((int)FLAGS < (int)FTK_WIN_HEAD_WORDS, "the queue has room for these words");
enum { TAG_LOCK = 1, TAG_GRANT, TAG_OPERATIONS, TAG_DONE, TAG_ASK, TAG_OFFER };
#define LOOKS 16 /* messages in a row that are looked at */

/* ---- sending ------------------------------------------------------------------------- */

static void handle_here(int tag, const uint64_t *words, size_t n);

/* Send words, whose first one becomes the context of the window at the receiver. */
static int send(struct ftk_win *w, int rank, int tag, uint64_t *words, size_t n)
{
    const int world = ftk_vcomm_world(w->vc, rank);
    words[CONTEXT] = (uint64_t)ftk_vcomm_there(w->vc, world);
    if (rank == w->vc->rank) {
        handle_here(tag, words, n);
        return MPI_SUCCESS;
    }
    int rc = ftk_control_send(words, n, world, tag, FTK_LOG_WIN);
    if (rc == MPI_SUCCESS || !ftk_log_is_failure(rc))
        return rc;
    ftk_log_note_failure(); /* all ranks go back */
    return MPI_SUCCESS;
}

int ftk_win_ask(struct ftk_win *w, int target, enum ftk_win_lock lock)
{
    uint64_t words[FTK_WIN_HEAD_WORDS] = { 0 };
    words[SERIAL] = lock;
    w->passive->granted[target] = false;
    return send(w, target, TAG_LOCK, words, FTK_WIN_HEAD_WORDS);
}

int ftk_win_ask_memory(struct ftk_win *w, int target)
{
    uint64_t words[FTK_WIN_HEAD_WORDS] = { 0 };
    words[WINDOW] = w->id;
    return send(w, target, TAG_ASK, words, FTK_WIN_HEAD_WORDS);
}

static int add_pending(struct ftk_win *w, int target, uint64_t serial)
{
    struct ftk_win_passive *p = w->passive;
    struct ftk_win_queue *q = &w->queue[target];
    struct ftk_win_pending *one = malloc(sizeof *one);
    if (!one)
        return MPI_ERR_NO_MEM;
    *one = (struct ftk_win_pending){ p->pending, target, serial, q->fetch, q->nfetch };
    p->pending = one;
    q->fetch = NULL;
    q->nfetch = q->fetch_room = 0;
    return MPI_SUCCESS;
}

static struct ftk_win_pending *take_pending(struct ftk_win_passive *p, int target, uint64_t serial)
{
    struct ftk_win_pending **at = &p->pending;
    while (*at && ((*at)->target != target || (*at)->serial != serial))
        at = &(*at)->next;
    struct ftk_win_pending *one = *at;
    if (one)
        *at = one->next;
    return one;
}

static void free_pending(struct ftk_win_pending *one)
{
    ftk_win_fetches_free(one->fetch, one->nfetch);
    free(one);
}

/* The last message to the target has not been sent: nothing waits for its answer.  A rollback may
 * have dropped it. */
static void take_back(struct ftk_win *w, int target, uint64_t serial)
{
    struct ftk_win_pending *one = w->passive ? take_pending(w->passive, target, serial) : NULL;
    if (!one)
        return;
    w->passive->sent[target]--;
    free_pending(one);
}

int ftk_win_push(struct ftk_win *w, int target, bool last)
{
    struct ftk_win_passive *p = w->passive;
    struct ftk_win_queue *q = &w->queue[target];
    uint64_t none[FTK_WIN_HEAD_WORDS] = { 0 };
    uint64_t *words = q->data ? (uint64_t *)(void *)q->data : none;
    int rc = add_pending(w, target, p->sent[target] + 1);
    if (rc != MPI_SUCCESS)
        return rc;
    const uint64_t serial = ++p->sent[target];
    words[SERIAL] = serial;
    words[BYTES] = q->bytes;
    words[FLAGS] = (uint64_t)q->reply << 1 | (last ? IS_LAST : 0);
    struct ftk_win_queue sent = *q;
    *q = (struct ftk_win_queue){ 0 }; /* the answer may come at once */
    rc = send(w, target, TAG_OPERATIONS, words, FTK_WIN_HEAD_WORDS + sent.bytes / 8);
    if (rc != MPI_SUCCESS)
        take_back(w, target, serial);
    free(sent.data);
    return rc;
}

/* ---- a target ------------------------------------------------------------------------ */

static int grant(struct ftk_win *w, const struct ftk_win_waiter *to)
{
    uint64_t words[FTK_WIN_HEAD_WORDS] = { 0 };
    struct ftk_win_passive *p = w->passive;
    if (to->lock == FTK_WIN_EXCLUSIVE)
        p->exclusive = to->rank;
    else
        p->shared++;
    words[SERIAL] = to->lock;
    return send(w, to->rank, TAG_GRANT, words, FTK_WIN_HEAD_WORDS);
}

/* In the order of the requests: none overtakes another.  A window is never exposed and locked at
 * once [MPI 12.5.3]: locks wait for the end of the exposure. */
int ftk_win_grant(struct ftk_win *w)
{
    struct ftk_win_passive *p = w->passive;
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && p && p->nwait > 0 && !w->exposure) {
        const struct ftk_win_waiter first = p->wait[0];
        if (p->exclusive >= 0 || (p->shared > 0 && first.lock == FTK_WIN_EXCLUSIVE))
            break;
        memmove(p->wait, p->wait + 1, --p->nwait * sizeof *p->wait);
        rc = grant(w, &first);
    }
    return rc;
}

static int on_lock(struct ftk_win *w, int source, const uint64_t *words)
{
    struct ftk_win_passive *p = w->passive;
    if (!ftk_grow(&p->wait, &p->wait_room, p->nwait + 1, sizeof *p->wait))
        return MPI_ERR_NO_MEM;
    p->wait[p->nwait++] = (struct ftk_win_waiter){ source, (enum ftk_win_lock)words[SERIAL] };
    return ftk_win_grant(w);
}

static int unlock(struct ftk_win *w, int source)
{
    struct ftk_win_passive *p = w->passive;
    if (p->exclusive == source)
        p->exclusive = -1;
    else
        p->shared--;
    return ftk_win_grant(w);
}

static int on_operations(struct ftk_win *w, int source, const uint64_t *words)
{
    const size_t bytes = words[BYTES], reply = words[FLAGS] >> 1;
    const bool last = (words[FLAGS] & IS_LAST) != 0;
    const size_t n = FTK_WIN_HEAD_WORDS + ftk_win_padded(reply) / 8;
    uint64_t *answer = calloc(n, sizeof *answer);
    if (!answer)
        return MPI_ERR_NO_MEM;
    int rc = ftk_win_apply(w, (const char *)(words + FTK_WIN_HEAD_WORDS), bytes,
        (char *)(answer + FTK_WIN_HEAD_WORDS));
    answer[SERIAL] = words[SERIAL];
    if (rc == MPI_SUCCESS && last)
        rc = unlock(w, source);
    if (rc == MPI_SUCCESS)
        rc = send(w, source, TAG_DONE, answer, n);
    free(answer);
    return rc;
}

static int on_ask(struct ftk_win *w, int source, const uint64_t *words)
{
    uint64_t answer[FTK_WIN_HEAD_WORDS] = { 0 };
    answer[WINDOW] = words[WINDOW];
    answer[ADDRESS] = ftk_win_near_address(w, &answer[TOKEN]);
    return FTK_FAULT("win.offer") ? MPI_ERR_NO_MEM
                                  : send(w, source, TAG_OFFER, answer, FTK_WIN_HEAD_WORDS);
}

/* ---- an origin ----------------------------------------------------------------------- */

static int on_done(struct ftk_win *w, int source, const uint64_t *words)
{
    struct ftk_win_passive *p = w->passive;
    struct ftk_win_pending *one = take_pending(p, source, words[SERIAL]);
    if (!one)
        return MPI_ERR_INTERN;
    int rc =
        ftk_win_queue_results(one->fetch, one->nfetch, (const char *)(words + FTK_WIN_HEAD_WORDS));
    p->done[source] = words[SERIAL]; /* messages of a target keep their order */
    free_pending(one);
    if (rc == MPI_ERR_RMA_RANGE) { /* an error of the program */
        p->error = rc;
        return MPI_SUCCESS;
    }
    return rc;
}

/* ---- what comes ---------------------------------------------------------------------- */

/* Nobody waits for these two.  So they may come when their window is gone, or when another one, of
 * which the source may be no member, has its context.  An error leaves the operations to
 * messages. */
static void handle_memory(int tag, int source, const uint64_t *words)
{
    struct ftk_win *w = ftk_win_in_context((int)words[CONTEXT]);
    const int rank = w ? ftk_vcomm_rank(w->vc, source) : -1;
    if (rank < 0)
        return;
    if (tag == TAG_ASK)
        (void)on_ask(w, rank, words);
    else if (words[WINDOW] == w->id)
        ftk_win_near_offered(w, rank, words[ADDRESS], words[TOKEN]);
}

static int handle(int tag, int source, const uint64_t *words)
{
    struct ftk_win *w = ftk_win_in_context((int)words[CONTEXT]);
    if (!w)
        return MPI_ERR_WIN;
    int rc = ftk_win_passive(w) ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    const int rank = ftk_vcomm_rank(w->vc, source);
    if (rc == MPI_SUCCESS && tag == TAG_LOCK)
        rc = on_lock(w, rank, words);
    else if (rc == MPI_SUCCESS && tag == TAG_OPERATIONS)
        rc = on_operations(w, rank, words);
    else if (rc == MPI_SUCCESS && tag == TAG_DONE)
        rc = on_done(w, rank, words);
    else if (rc == MPI_SUCCESS)
        w->passive->granted[rank] = true;
    if (rc != MPI_SUCCESS)
        ftk_win_broken(w, rc);
    return MPI_SUCCESS;
}

static void handle_here(int tag, const uint64_t *words, size_t n)
{
    (void)n;
    (void)handle(tag, ftk_log.me, words); /* an error has ended the job */
}

/* In a repair nothing is done: all ranks go back to the line. */
static int handle_control(const struct ftk_control *c, int tag)
{
    if (ftk_log.ctx->detect.repairing || ftk_log_is_rolling_back() || ftk_log_replays_setup())
        return MPI_SUCCESS;
    if (c->words < FTK_WIN_HEAD_WORDS)
        return MPI_ERR_INTERN;
    if (tag != TAG_ASK && tag != TAG_OFFER)
        return handle(tag, c->source, c->w);
    handle_memory(tag, c->source, c->w);
    return MPI_SUCCESS;
}

static int lock_came(const struct ftk_control *c)
{
    return handle_control(c, TAG_LOCK);
}
static int grant_came(const struct ftk_control *c)
{
    return handle_control(c, TAG_GRANT);
}
static int operations_came(const struct ftk_control *c)
{
    return handle_control(c, TAG_OPERATIONS);
}
static int done_came(const struct ftk_control *c)
{
    return handle_control(c, TAG_DONE);
}
static int ask_came(const struct ftk_control *c)
{
    return handle_control(c, TAG_ASK);
}
static int offer_came(const struct ftk_control *c)
{
    return handle_control(c, TAG_OFFER);
}

const struct ftk_control_kind ftk_win_controls[FTK_WIN_CONTROLS] = {
    { FTK_LOG_WIN, TAG_LOCK, lock_came, false, false },
    { FTK_LOG_WIN, TAG_GRANT, grant_came, false, false },
    { FTK_LOG_WIN, TAG_OPERATIONS, operations_came, false, false },
    { FTK_LOG_WIN, TAG_DONE, done_came, false, false },
    { FTK_LOG_WIN, TAG_ASK, ask_came, false, false },
    { FTK_LOG_WIN, TAG_OFFER, offer_came, false, false },
};

/* A message that cannot be handled: its sender would wait for ever. */
static void end_job(int code)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "", why[MPI_MAX_ERROR_STRING + 128];
    int len;
    (void)PMPI_Error_string(code, text, &len); /* for the text only */
    snprintf(why, sizeof why, "rank %d: cannot handle a message about locks of a window: %s",
        ftk_log.me, text);
    ftk_misuse_end(ftk_log.ctx, why);
}

/* In a replay of set-up the messages stay in the MPI: they are of windows as they are at the
 * line. */
void ftk_win_serve(void)
{
    int found = 1;
    for (int i = 0; found && i < LOOKS; i++) {
        if (ftk_log_is_rolling_back() || ftk_log_replays_setup())
            return;
        found = 0;
        int rc = ftk_control_take(FTK_LOG_WIN, MPI_ANY_SOURCE, &found);
        if (rc == MPI_SUCCESS)
            continue;
        if (ftk_log_is_failure(rc) || ftk_mpi_is_pending(rc))
            ftk_log_note_failure();
        else
            end_job(rc);
        return;
    }
}
