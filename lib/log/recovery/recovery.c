/* The message log at a failure and at the line (docs/design.md, section 8; the steps have
 * the names of docs/model/log.pml).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * After a failure every live rank stands somewhere inside ftkit.  What live ranks have sent
 * each other is drawn from the MPI, receives that have got nothing are cancelled, and then
 * nothing is under way on the old communicators: both sides of a pair have counted the same
 * number.  That may be repeated when a further failure comes; only when all have agreed,
 * those who fall back forget what they had, and the others send again what those had
 * received since the line. */
#include <stdlib.h>
#include <string.h>

#include "core/epoch.h"
#include "core/mpi_shim.h"
#include "detect/sure.h"
#include "log/depend.h"
#include "log/matrix.h"
#include "log/relay.h"
#include "log/p2p.h"
#include "log/control.h"
#include "log/recovery.h"
#include "set/checkpoint.h"

#define SUPPRESS_WORDS 5
/* What live ranks have sent has been drawn, so a receive that is not complete has got
 * nothing and can be cancelled, or has been matched by a message of a dead rank that will
 * never be whole.  The MPI may cancel that one, too, or leave it pending: then it is given up after
 * what may still lie in its queues has been looked at. */
#define LAST_LOOKS 1000
#define TAG_WATCH 3

/* ---- the communicators of the next epoch -----------------------------------------------------*/

static int make_next(const struct ftk_log_repair *r)
{
    const struct ftk_sure s = { r->act, NULL, "making the contexts of the message log" };
    struct ftk_log *l = &ftk_log;
    for (int c = 0; c < FTK_LOG_COMMS; c++) {
        if ((c >= l->ncontexts && c < FTK_LOG_COLLS) || (c == FTK_LOG_DET_COMM && !ftk_relay_replicates()))
            continue;
        int mrc = PMPI_Comm_dup(r->act, &l->next[c]);
        int rc = ftk_sure_comm(&s, mrc, &l->next[c], NULL, 0);
        if (rc != FTKIT_OK)
            return rc;
    }
    return FTKIT_OK;
}

/* Late events of the MPI may still refer to them. */
static int retire_all(struct ftkit_ctx *ctx, MPI_Comm *comms)
{
    int rc = FTKIT_OK;
    for (int c = 0; rc == FTKIT_OK && c < FTK_LOG_COMMS; c++) {
        rc = ftk_retire(ctx, comms[c]);
        comms[c] = MPI_COMM_NULL;
    }
    return rc;
}

void ftk_log_free_comms(struct ftkit_ctx *ctx)
{
    int rc = retire_all(ctx, ftk_log.real);
    if (rc == FTKIT_OK)
        rc = retire_all(ctx, ftk_log.next);
    if (rc != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "context %s: %s", ctx->cfg.name, ftk_detail_text());
}

int ftk_recovery_discard(struct ftkit_ctx *ctx)
{
    for (int c = 0; c < FTK_LOG_COMMS; c++)
        ftk_mpi_revoke(ftk_log.next[c]);
    if (ctx->rank < 0)
        ftk_det_close(); /* of a rank that this process has not become */
    return retire_all(ctx, ftk_log.next);
}

/* ---- drawing what is in flight ------------------------------------------------------------------*/

/* All that this rank has under way, one look each. */
static void look_at_all(void)
{
    for (struct ftk_req *r = ftk_log.first, *next; r; r = next) {
        const struct ftk_req *pair = r->pair;
        next = r->next;
        (void)ftk_req_progress(r); /* its owner gets the error with the request */
        if (pair && next == pair) /* which may be gone with it */
            next = r->prev || ftk_log.first == r ? r->next : ftk_log.first;
    }
}

/* One message from a rank that has sent more than was counted here; false: none is there. */
static int drain_one(int source, bool *found)
{
    struct ftk_log *l = &ftk_log;
    *found = false;
    for (int c = 0; c < FTK_LOG_COMMS; c++) {
        MPI_Message m;
        MPI_Status s;
        int flag = 0;
        if (l->real[c] == MPI_COMM_NULL || c == FTK_LOG_DET_COMM)
            continue;
        int rc = PMPI_Improbe(source, MPI_ANY_TAG, l->real[c], &flag, &m, &s);
        if (rc != MPI_SUCCESS)
            return rc;
        if (!flag)
            continue;
        *found = true;
        if (ftk_relay_in_band() && s.MPI_TAG == FTK_CONTROL_TAG)
            return ftk_relay_recv(c, &m, &s);
        struct ftk_unexp *h;
        rc = ftk_p2p_drain(c, &m, &s, &h);
        if (rc != MPI_SUCCESS)
            return rc;
        if (l->replaying_setup)
            ftk_unexp_free(h); /* it goes back again, and its set-up is not to find it */
        else
            ftk_unexp_add(h);
        l->drained++;
        return rc;
    }
    return MPI_SUCCESS;
}

/* Whether something is on its way from a rank; what has come and is not told yet is not. */
static bool is_behind(int source, const uint64_t *told)
{
    uint64_t got = ftk_log.received[source];
    return got < told[source] && got + ftk_p2p_unreported(source) < told[source];
}

/* Draw until everything has come that the others say they have sent, but for those
 * of not_from (NULL: nobody).  turn sees to failures. */
static int drain_all(const uint64_t *told, const int *not_from, int (*turn)(void *arg), void *arg)
{
    for (;;) {
        bool behind = false;
        look_at_all();
        for (int s = 0; s < ftk_log.n; s++) {
            bool found = true;
            while (!(not_from && not_from[s]) && is_behind(s, told) && found) {
                int rc = drain_one(s, &found);
                if (rc != MPI_SUCCESS)
                    return ftk_fail_mpi(rc, "drawing a message");
            }
            behind = behind || (!(not_from && not_from[s]) && is_behind(s, told));
        }
        if (!behind)
            return FTKIT_OK;
        int rc = turn(arg);
        if (rc != FTKIT_OK)
            return rc;
    }
}

struct settling {
    const struct ftk_log_repair *r;
    MPI_Comm act;
    MPI_Request watch; /* speaks when a member of act fails */
    int buf;
};

/* ---- settle() -------------------------------------------------------------------------------------*/

static int watch_begin(struct settling *s)
{
    int rc = PMPI_Irecv(&s->buf, 1, MPI_INT, MPI_ANY_SOURCE, TAG_WATCH, s->act, &s->watch);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "settling");
}

static int watch_progress(void *arg)
{
    struct settling *s = arg;
    int done = 0;
    int rc = PMPI_Test(&s->watch, &done, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "settling");
}

static void watch_end(struct settling *s)
{
    if (s->watch == MPI_REQUEST_NULL)
        return;
    (void)PMPI_Cancel(&s->watch); /* an error means that it is over already */
    (void)PMPI_Wait(&s->watch, MPI_STATUS_IGNORE);
}

/* Then nobody can be told what has been received: the next attempt has everybody go back. */
static int ambiguous(int source)
{
    struct ftkit_ctx *ctx = ftk_log.ctx;
    if (!ctx->ambiguous)
        ftk_report(FTKIT_INFO,
            "context %s: rank %d: a message of rank %d that died in sending it may have been matched "
            "by a receive from any source: everybody goes back", ctx->cfg.name, ctx->rank, source);
    ctx->ambiguous = true;
    return ftk_fail(FTKIT_ERR_PEER, "it cannot be told what came from rank %d", source);
}

/* A receive was matched with a message that its dead sender never finished.  It is sure whose when
 * one rank alone can be meant, and then it is for the message of that rank when it comes again. */
static bool is_sure(const struct ftk_log_repair *r, const struct ftk_req *q)
{
    int dead = 0;
    for (int k = 0; k < r->n; k++)
        dead += r->is_new[k] != 0;
    return q->from != MPI_ANY_SOURCE || dead == 1;
}

/* What q is through with says that receives before it had been matched.  A replay has to know that,
 * and knows it before what q has got. */
static int bind_overtaken(const struct ftk_log_repair *r, const struct ftk_req *q, bool *complete)
{
    struct ftk_req *before;
    int dead = 0;
    while (dead < r->n - 1 && !r->is_new[dead])
        dead++;
    while ((before = ftk_p2p_overtaken(q, r->is_new, complete)) && !r->back[r->me]) {
        if (!is_sure(r, before))
            return ambiguous(dead);
        ftk_p2p_bind(before, dead);
    }
    return FTKIT_OK;
}

static int withdraw_receive(struct settling *s, struct ftk_req *r)
{
    bool complete;
    if (PMPI_Cancel(&r->real) != MPI_SUCCESS)
        r->posted = false;
    for (int i = 0; r->posted && !r->done && i < LAST_LOOKS; i++) {
        int rc = bind_overtaken(s->r, r, &complete);
        if (rc == FTKIT_OK && complete)
            rc = ftk_p2p_withdraw(r);
        if (rc == FTKIT_OK && r->posted && !r->done)
            rc = watch_progress(s);
        if (rc != FTKIT_OK)
            return rc;
    }
    if (r->done)
        return FTKIT_OK;
    if (r->posted && r->real != MPI_REQUEST_NULL)
        (void)PMPI_Request_free(&r->real); /* its sender is dead: nothing else can be done */
    r->posted = false;
    r->withdrawn = true;
    return FTKIT_OK;
}

static int withdraw_request(struct settling *s)
{
    for (struct ftk_req *r = ftk_log.first, *next; r; r = next) {
        next = r->next;
        if (!r->posted)
            continue;
        if (r->kind == FTK_REQ_RECV) {
            int rc = withdraw_receive(s, r);
            if (rc != FTKIT_OK)
                return rc;
        }
        while (r->posted && !r->done) {
            int rc = ftk_p2p_withdraw(r);
            if (rc == FTKIT_OK && r->posted && !r->done)
                rc = watch_progress(s);
            if (rc != FTKIT_OK)
                return rc;
        }
    }
    while (ftk_p2p_sending() + ftk_control_sending() > 0) {
        ftk_p2p_reap(SIZE_MAX);
        int rc = watch_progress(s);
        if (rc != FTKIT_OK)
            return rc;
    }
    return FTKIT_OK;
}

/* Letters to keepers: big ones are not sent before they are received. */
static int draw_letters(const struct ftk_log_repair *r, struct settling *st)
{
    struct ftk_log *l = &ftk_log;
    for (int k = 0; k < r->n; k++)
        while (!r->is_new[k] && l->relay_received[k] < l->relay_announced[k]) {
            MPI_Message m;
            MPI_Status s;
            int flag = 0;
            int rc = PMPI_Improbe(k, MPI_ANY_TAG, l->real[FTK_LOG_DET_COMM], &flag, &m, &s);
            if (rc == MPI_SUCCESS && flag)
                rc = ftk_relay_recv(FTK_LOG_DET_COMM, &m, &s);
            if (rc != MPI_SUCCESS)
                return ftk_fail_mpi(rc, "drawing a letter");
            rc = flag ? FTKIT_OK : watch_progress(st);
            if (rc != FTKIT_OK)
                return rc;
        }
    return FTKIT_OK;
}

static int quiesce(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    const struct ftk_sure act = { r->act, NULL, "settling" };
    struct settling s = { .r = r, .act = r->act, .watch = MPI_REQUEST_NULL };
    (void)FTK_FAULT("log.settle");
    ftk_det_hold(r->back[r->me]);
    int rc = ftk_sure_alltoall(&act, l->sent, sizeof *l->sent, l->announced);
    if (rc == FTKIT_OK && ftk_relay_replicates())
        rc = ftk_sure_alltoall(&act, l->relay_sent, sizeof *l->relay_sent, l->relay_announced);
    if (rc == FTKIT_OK)
        rc = watch_begin(&s);
    if (rc == FTKIT_OK && !r->is_new[r->me])
        rc = drain_all(l->announced, r->is_new, watch_progress, &s);
    if (rc == FTKIT_OK && !r->is_new[r->me] && ftk_relay_replicates())
        rc = draw_letters(r, &s);
    if (rc == FTKIT_OK)
        rc = watch_progress(&s); /* what it goes by next is who is dead */
    if (rc == FTKIT_OK && !r->is_new[r->me])
        rc = withdraw_request(&s);
    ftk_det_hold(false);
    watch_end(&s);
    (void)FTK_FAULT("log.settled");
    return rc;
}

struct words {
    uint64_t *v;
    size_t n, room;
};

/* ---- marks() -----------------------------------------------------------------------------------------
 * For each stream from a rank that falls back to one that does not: how far its receiver
 * has come, but for holes.  Words of 64 bits: context, tag, upto, ngaps, has hashes; holes;
 * hashes. */

static int put(struct words *w, uint64_t value)
{
    if (w->n == w->room) {
        size_t room = w->room ? 2 * w->room : 256;
        uint64_t *v = realloc(w->v, room * sizeof *v);
        if (!v)
            return ftk_fail(FTKIT_ERR_NOMEM, "marks");
        w->v = v;
        w->room = room;
    }
    w->v[w->n++] = value;
    return FTKIT_OK;
}

/* What survivors know of the job: from one of those that have seen most of it. */
static struct job_state {
    uint64_t lines, calls, next_event, nouts;
} job_state;

/* How much of what was delivered on a stream lies before the line that all go by: a rank
 * that has not seen the commit of a set counts from the one before. */
static uint64_t since(const struct ftk_channel *s)
{
    return job_state.lines > ftk_log.lines ? s->at_line : 0;
}

/* Completed on the stream before q, which was asked for earlier: it had been matched before, if the
 * MPI had it by then. */
static size_t later(const struct ftk_channel *s, const struct ftk_req *q)
{
    size_t n = 0;
    for (size_t i = 0; i < ftk_log.nearly; i++) {
        const struct ftk_early *e = &ftk_log.early[i];
        n += e->seq > q->seq && e->context == s->context && e->source == s->source
            && e->tag == s->tag && e->posted_seq > q->posted_seq;
    }
    return n;
}

static bool may_match(const struct ftk_req *q, const struct ftk_channel *s)
{
    return q->kind == FTK_REQ_RECV && !q->done && !q->cancelled_before && !q->by_mprobe
        && q->context == s->context
        && (q->from == s->source || q->from == MPI_ANY_SOURCE)
        && (q->with == s->tag || q->with == MPI_ANY_TAG);
}

static int put_gaps(const struct ftk_log_repair *r, struct words *w,
    const struct ftk_channel *s, uint64_t *ngaps)
{
    *ngaps = 0;
    for (struct ftk_req *q = ftk_log.first; q; q = q->next) {
        if (!may_match(q, s))
            continue;
        size_t after = later(s, q);
        if (after == 0)
            continue;
        if (!is_sure(r, q) || q->with == MPI_ANY_TAG) /* of which stream is it? */
            return ambiguous(s->source);
        ftk_p2p_bind(q, s->source);
        int rc = put(w, s->count - since(s) - after + ++*ngaps);
        if (rc != FTKIT_OK)
            return rc;
    }
    return FTKIT_OK;
}

static int put_suppress(const struct ftk_log_repair *r, struct words *w, const struct ftk_channel *s)
{
    uint64_t ngaps = 0;
    size_t at = w->n;
    bool hashes = ftk_log.ctx->cfg.log_check;
    int rc = put(w, (uint64_t)s->context);
    rc = rc == FTKIT_OK ? put(w, (uint64_t)(uint32_t)s->tag) : rc;
    rc = rc == FTKIT_OK ? put(w, s->count - since(s)) : rc;
    rc = rc == FTKIT_OK ? put(w, 0) : rc;
    rc = rc == FTKIT_OK ? put(w, 0) : rc;
    if (rc == FTKIT_OK && r->is_new[s->source]) /* what a live one has sent has been drawn */
        rc = put_gaps(r, w, s, &ngaps);
    if (rc != FTKIT_OK)
        return rc;
    w->v[at + 2] = s->count - since(s) + ngaps;
    w->v[at + 3] = ngaps;
    w->v[at + 4] = hashes && ngaps == 0; /* their places would have moved */
    for (uint64_t i = since(s); rc == FTKIT_OK && w->v[at + 4] && i < s->count; i++)
        rc = put(w, s->receptions[i].hash);
    return rc;
}

static int write_suppress(const struct ftk_log_repair *r, struct words *w, size_t *bytes)
{
    struct ftk_log *l = &ftk_log;
    for (int dest = 0; dest < r->n; dest++) {
        size_t before = w->n;
        for (size_t i = 0; !r->back[r->me] && r->back[dest] && i < l->channel_table.n; i++) {
            int rc = l->channels[i].source == dest ? put_suppress(r, w, &l->channels[i]) : FTKIT_OK;
            if (rc != FTKIT_OK)
                return rc;
        }
        bytes[dest] = (w->n - before) * sizeof *w->v;
    }
    return FTKIT_OK;
}

/* Marks that have come, kept until all have agreed. */
static struct words arrived;
static size_t *arrived_bytes; /* [n] */

static void forget_suppress(void)
{
    free(arrived.v);
    free(arrived_bytes);
    arrived = (struct words){ 0 };
    arrived_bytes = NULL;
}

/* How much, then the marks. */
static int exchange(
    const struct ftk_log_repair *r, const struct words *out, const size_t *to, size_t *from)
{
    const struct ftk_sure s = { r->act, NULL, "marks" };
    size_t bytes = 0;
    int rc = ftk_sure_alltoall(&s, to, sizeof *to, from);
    for (int i = 0; rc == FTKIT_OK && i < r->n; i++)
        bytes += from[i];
    arrived.n = bytes / sizeof *arrived.v;
    arrived.v = rc == FTKIT_OK ? malloc(bytes + sizeof *arrived.v) : NULL;
    if (rc == FTKIT_OK && !arrived.v)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "marks");
    return rc == FTKIT_OK ? ftk_sure_alltoallv(&s, out->v, to, arrived.v, from) : rc;
}

static int exchange_suppress(const struct ftk_log_repair *r)
{
    struct words out = { 0 };
    size_t *to = calloc((size_t)r->n, sizeof *to);
    forget_suppress(); /* of an attempt before this one */
    arrived_bytes = calloc((size_t)r->n, sizeof *arrived_bytes);
    int rc = to && arrived_bytes ? write_suppress(r, &out, to)
                                 : ftk_fail(FTKIT_ERR_NOMEM, "marks");
    if (rc == FTKIT_OK)
        rc = exchange(r, &out, to, arrived_bytes);
    if (rc != FTKIT_OK)
        forget_suppress();
    free(out.v);
    free(to);
    return rc;
}

static uint64_t *copy_of(const uint64_t *v, size_t n)
{
    uint64_t *c = malloc((n + 1) * sizeof *c);
    if (c)
        memcpy(c, v, n * sizeof *c);
    return c;
}

static int add_suppress(int dest, const uint64_t *v, size_t *used)
{
    struct ftk_suppress m = { .context = (int)v[0], .dest = dest, .tag = (int)(uint32_t)v[1],
        .next = 1, .upto = v[2], .ngaps = (int)v[3] };
    m.gap = copy_of(v + SUPPRESS_WORDS, (size_t)v[3]);
    m.hash = v[4] ? copy_of(v + SUPPRESS_WORDS + v[3], (size_t)v[2]) : NULL;
    *used = SUPPRESS_WORDS + (size_t)v[3] + (v[4] ? (size_t)v[2] : 0);
    if (!m.gap || (v[4] && !m.hash)) {
        free(m.gap);
        free(m.hash);
        return ftk_fail(FTKIT_ERR_NOMEM, "marks");
    }
    return ftk_suppress_add(&m);
}

static int take_suppress(int n)
{
    size_t at = 0;
    for (int s = 0; s < n; s++)
        for (size_t end = at + arrived_bytes[s] / sizeof *arrived.v; at < end;) {
            size_t used = 0;
            int rc = add_suppress(s, arrived.v + at, &used);
            if (rc != FTKIT_OK)
                return rc;
            at += used;
        }
    return FTKIT_OK;
}

/* ---- the two halves of a repair -------------------------------------------------------------------------*/

int ftk_recovery_search(MPI_Comm s, const int *lost, int n, bool *all)
{
    *all = false;
    return ftk_det_search(s, lost, n, all);
}

int ftk_recovery_share_teams(struct ftkit_ctx *ctx, MPI_Comm s, int root, int n)
{
    const struct ftk_sure all = { s, NULL, "sharing the teams" };
    struct ftk_log *l = &ftk_log;
    enum { FIRST = 3 }; /* dropped, stamp, then the tables */
    int *word = calloc(3 * (size_t)n + FIRST, sizeof *word);
    if (!word)
        return ftk_fail(FTKIT_ERR_NOMEM, "teams");
    word[0] = l->all_rolled_back;
    memcpy(word + 1, &ctx->epoch_id, sizeof ctx->epoch_id);
    size_t bytes = (size_t)n * sizeof *word;
    if (l->team && l->node && l->home) {
        memcpy(word + FIRST, l->team, bytes);
        memcpy(word + FIRST + n, l->node, bytes);
        memcpy(word + FIRST + n + n, l->home, bytes);
    }
    int rc = ftk_sure_bcast(&all, root, word, (3 * (size_t)n + FIRST) * sizeof *word);
    if (rc == FTKIT_OK) {
        l->all_rolled_back_now = word[0] != 0;
        memcpy(&l->epoch_id_now, word + 1, sizeof l->epoch_id_now);
    }
    if (!l->team)
        l->team = malloc(bytes);
    if (!l->node)
        l->node = malloc(bytes);
    if (!l->home)
        l->home = malloc(bytes);
    bool room = l->team && l->node && l->home;
    if (rc == FTKIT_OK && room) {
        memcpy(l->team, word + FIRST, bytes);
        memcpy(l->node, word + FIRST + n, bytes);
        memcpy(l->home, word + FIRST + n + n, bytes);
    }
    free(word);
    if (rc != FTKIT_OK)
        return rc;
    return room ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "teams");
}

static struct ftk_logged_call *known_calls; /* [known.nouts] */

/* v [n]: the largest of each over all. */
static int share_largest(const struct ftk_log_repair *r, int *v)
{
    const struct ftk_sure s = { r->act, NULL, "making the teams" };
    int64_t *w = malloc((size_t)r->n * sizeof *w);
    if (!w)
        return ftk_fail(FTKIT_ERR_NOMEM, "teams");
    for (int i = 0; i < r->n; i++)
        w[i] = -(int64_t)v[i];
    int rc = ftk_sure_min(&s, w, r->n);
    for (int i = 0; rc == FTKIT_OK && i < r->n; i++)
        v[i] = (int)-w[i];
    free(w);
    return rc;
}

/* At an opening everybody makes the teams, by the same rules and anew at each attempt: a rank
 * may be on another node then.  Teams that are written down come from who knows them. */
static int make_teams(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    free(l->team);
    free(l->home);
    l->team = malloc((size_t)r->n * sizeof *l->team);
    l->home = malloc((size_t)r->n * sizeof *l->home);
    if (!l->team || !l->home)
        return ftk_fail(FTKIT_ERR_NOMEM, "teams");
    memcpy(l->home, r->domain, (size_t)r->n * sizeof *l->home);
    ftk_log_make_teams(r->domain, r->n, l->team);
    int rc = share_largest(r, l->team);
    if (rc != FTKIT_OK)
        return rc;
    return l->team[0] >= 0 ? FTKIT_OK
                           : ftk_fail(FTKIT_ERR_LOST, "all that knew the teams are lost");
}

/* The tables of a process that has just become a rank, and the state it shares. */
static int enter(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    size_t n = (size_t)r->n;
    if (!l->sent) {
        l->n = r->n;
        l->me = r->me;
        l->sent = calloc(n, sizeof *l->sent);
        l->received = calloc(n, sizeof *l->received);
        l->announced = calloc(n, sizeof *l->announced);
        l->relay_sent = calloc(3 * n, sizeof *l->relay_sent);
        l->relay_received = l->relay_sent ? l->relay_sent + n : NULL;
        l->relay_announced = l->relay_sent ? l->relay_sent + 2 * n : NULL;
        l->stat_messages = calloc(n, sizeof *l->stat_messages);
        l->stat_bytes = calloc(n, sizeof *l->stat_bytes);
        l->log_first = calloc(n, sizeof(struct ftk_entry *));
        l->log_last = calloc(n, sizeof(struct ftk_entry *));
        if (!l->node)
            l->node = calloc(n, sizeof *l->node);
    }
    if (!l->sent || !l->received || !l->announced || !l->relay_sent || !l->stat_messages || !l->stat_bytes || !l->log_first
        || !l->log_last || !l->node)
        return ftk_fail(FTKIT_ERR_NOMEM, "tables of the message log");
    if (r->is_new[r->me])
        l->me = r->me; /* an attempt before this one may have had another for it */
    if (l->me != r->me || l->n != r->n)
        return ftk_fail(FTKIT_ERR_INTERNAL, "the message log does not know other ranks");
    return ftk_depend_open(r->n);
}

/* One of those that have seen most. */
static int most_knowing(const struct ftk_log_repair *r, const struct job_state *all)
{
    int best = -1;
    for (int i = 0; i < r->n; i++)
        if (!r->is_new[i]
            && (best < 0 || all[i].lines > all[best].lines
                || (all[i].lines == all[best].lines && all[i].nouts > all[best].nouts)))
            best = i;
    return best < 0 ? 0 : best;
}

static int share(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    const struct ftk_sure s = { r->act, NULL, "sharing the state of the message log" };
    struct job_state mine = { l->lines, l->line_calls, l->line_next_event, l->nouts };
    struct job_state *all = calloc((size_t)r->n, sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "sharing the state of the message log");
    int rc = ftk_sure_allgather(&s, &mine, sizeof mine, all);
    if (rc != FTKIT_OK) {
        free(all);
        return rc;
    }
    int root = most_knowing(r, all);
    job_state = all[root];
    if (r->line > 0 && job_state.lines == 0) /* a start: all were about to load it */
        job_state = (struct job_state){ 1, 1, ftk_policy_first_event(l->ctx), 0 };
    free(all);
    struct ftk_logged_call *outs = calloc((size_t)job_state.nouts + 1, sizeof *outs);
    if (!outs)
        return ftk_fail(FTKIT_ERR_NOMEM, "sharing the state of the message log");
    if (l->nouts == job_state.nouts && l->nouts > 0)
        memcpy(outs, l->outs, l->nouts * sizeof *outs);
    rc = ftk_sure_bcast(&s, root, outs, (size_t)job_state.nouts * sizeof *outs);
    if (rc != FTKIT_OK) {
        free(outs);
        return rc;
    }
    free(known_calls);
    known_calls = outs;
    return FTKIT_OK;
}

/* It becomes the state of this rank, too. */
static void adopt(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    free(l->outs);
    l->outs = known_calls;
    l->nouts = (size_t)job_state.nouts;
    known_calls = NULL;
    if (r->back[r->me]) {
        l->lines = job_state.lines;
        l->line_calls = job_state.calls;
        l->line_next_event = job_state.next_event;
        l->call_seq = 0;
    }
    l->no_line_yet = r->line == 0;
}

/* Then nothing since the line is of any run. */
static bool all_back(const struct ftk_log_repair *r)
{
    for (int k = 0; k < r->n; k++)
        if (!r->back[k])
            return false;
    return true;
}

/* Before anybody counts on this process, so that they are there whenever it dies. */
static int prepare_determinants(const struct ftk_log_repair *r)
{
    size_t n = 0;
    const struct ftk_det *before = NULL;
    if (!r->is_new[r->me]) {
        ftk_det_promise(r->epoch_id);
        return FTKIT_OK;
    }
    if (!r->fresh && !all_back(r))
        before = ftk_det_adopted(r->me, job_state.lines, &n);
    return ftk_det_open(before, n, r->fresh ? 0 : job_state.lines, r->epoch_id);
}

int ftk_recovery_quiesce(const struct ftk_log_repair *r)
{
    int rc = enter(r);
    if (rc == FTKIT_OK && (r->fresh || !ftk_log.team))
        rc = r->fresh ? make_teams(r) : ftk_fail(FTKIT_ERR_INTERNAL, "no teams");
    if (rc == FTKIT_OK)
        rc = make_next(r);
    if (rc == FTKIT_OK && !r->fresh)
        rc = share(r);
    if (rc == FTKIT_OK && !r->fresh)
        rc = quiesce(r);
    if (rc == FTKIT_OK && !r->fresh)
        rc = exchange_suppress(r);
    if (rc == FTKIT_OK && !r->fresh)
        rc = ftk_relay_collect(r, job_state.lines);
    if (rc == FTKIT_OK)
        rc = prepare_determinants(r);
    if (rc == FTKIT_OK)
        rc = ftk_relay_replicate(r, job_state.lines, r->fresh || all_back(r));
    (void)FTK_FAULT("log.marks");
    return rc;
}

/* fall_back(): nothing after the line has happened here. */
static int roll_back(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    bool again = l->replaying_setup; /* in its set-up still: it goes on with what is left of it */
    if (r->line > 0 && !r->is_new[r->me] && !again)
        ftk_log_begin_rollback();
    ftk_slog_clear();
    ftk_channel_clear();
    ftk_suppress_clear();
    if (!again)
        ftk_unexp_clear();
    ftk_depend_rollback(l->send_deps && !l->all_rolled_back);
    l->replaying = !l->all_rolled_back;
    int known_again = ftk_det_back();
    if (known_again != FTKIT_OK)
        return known_again;
    if (r->is_new[r->me] && r->line > 0) {
        l->replaying_setup = true;
        int rc = ftk_log_read_setup(l->ctx, r->line);
        if (rc != FTKIT_OK)
            return rc;
    }
    return take_suppress(r->n);
}

/* resend(): what those have lost who fall back, in order, before anything new. */
static int resend(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    bool *back = calloc((size_t)r->n, sizeof *back);
    if (!back)
        return ftk_fail(FTKIT_ERR_NOMEM, "sending again");
    for (int d = 0; d < r->n; d++)
        back[d] = r->back[d] != 0;
    ftk_suppress_drop(back);
    free(back);
    for (int d = 0; d < r->n; d++) {
        for (struct ftk_entry *e = r->back[d] ? l->log_first[d] : NULL; e; e = e->next) {
            if (e->unsent)
                continue; /* as are all after it */
            int rc = ftk_p2p_transmit(e, d);
            if (rc != MPI_SUCCESS)
                return ftk_fail_mpi(rc, "sending again");
            l->resent++;
        }
    }
    return FTKIT_OK;
}

/* Receives wait on the communicators of this epoch, in the order in which they were posted. */
static void repost(void)
{
    for (struct ftk_req *q = ftk_log.first, *next; q; q = next) {
        next = q->next;
        if (q->kind == FTK_REQ_RECV && !q->done && !q->posted)
            (void)ftk_p2p_post(q); /* its owner gets the error with the request */
    }
}

/* A line is committed: what was sent before it is not needed again. */
static void forget_before_line(struct ftkit_ctx *ctx)
{
    struct ftk_log *l = &ftk_log;
    if (l->no_line_yet)
        ftk_matrix_clear(); /* from here on it is the teams that matter */
    l->no_line_yet = l->replaying = l->of_earlier_job = false;
    l->lines++;
    l->nouts = l->call_seq = 0;
    l->line_calls = ctx->calls;
    l->line_next_event = ctx->next_event;
    ftk_slog_clear();
    ftk_suppress_clear();
    ftk_vcomm_line();
}

/* The set this rank was writing is committed: others have seen the vote. */
static void catch_up(struct ftkit_ctx *ctx)
{
    ftk_policy_committed(ctx, 0);
    ctx->next_event = job_state.next_event;
    ctx->repeats = ctx->corrupt = 0;
    ctx->sets_since_durable++;
    forget_before_line(ctx);
    ftk_channel_shift(); /* what has been drawn since counts */
    ftk_log.lines = job_state.lines;
    ftk_det_line();
    ftk_depend_line();
}

int ftk_recovery_install(struct ftkit_ctx *ctx, const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    int rc = retire_all(ctx, l->real);
    if (FTK_FAULT("log.install"))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "injected");
    if (rc != FTKIT_OK)
        return rc;
    memcpy(l->real, l->next, sizeof l->real);
    for (int c = 0; c < FTK_LOG_COMMS; c++)
        l->next[c] = MPI_COMM_NULL;
    memset(l->sent, 0, (size_t)l->n * sizeof *l->sent);
    memset(l->received, 0, (size_t)l->n * sizeof *l->received);
    memset(l->relay_sent, 0, (size_t)l->n * sizeof *l->relay_sent);
    memset(l->relay_received, 0, (size_t)l->n * sizeof *l->relay_received);
    ftk_depend_installed();
    l->all_rolled_back = !r->fresh && all_back(r);
    if (l->all_rolled_back)
        ftk_det_drop(); /* before its epoch has begun */
    ftk_det_installed(r->epoch_id);
    memcpy(l->node, r->domain, (size_t)l->n * sizeof *l->node);
    if (r->fresh)
        return ftk_relay_install(r);
    bool missed = !r->is_new[r->me] && r->line > 0 && ctx->committed != r->line;
    if (missed)
        catch_up(ctx);
    adopt(r);
    rc = ftk_relay_install(r);
    if (rc != FTKIT_OK)
        return rc;
    if (r->back[r->me])
        rc = roll_back(r);
    forget_suppress();
    if (r->back[r->me])
        return rc;
    uint64_t before = l->resent;
    rc = resend(r);
    if (rc == FTKIT_OK)
        ftk_event("context %s: rank %d has sent %llu messages again", ctx->cfg.name, l->me,
            (unsigned long long)(l->resent - before));
    if (rc == FTKIT_OK)
        repost();
    return rc;
}

/* ---- the line ----------------------------------------------------------------------------------------------*/

static int line_progress(void *arg)
{
    struct ftk_chan *ch = arg;
    if (ftk_detect_poll(ch->ctx))
        return ftk_fail(FTKIT_ERR_PEER, "draining: a rank has failed");
    ftk_relay_progress();
    return FTKIT_OK;
}

/* Whether the MPI or a request that nobody waits for still needs what is in the log. */
static bool still_sends(void)
{
    for (const struct ftk_req *r = ftk_log.first; r; r = r->next)
        if (r->kind == FTK_REQ_SEND)
            return true;
    return ftk_p2p_sending() + ftk_control_sending() > 0;
}

/* Receives whose requests the program has freed: nobody would begin them again. */
static size_t freed_receives(void)
{
    size_t n = 0;
    for (const struct ftk_req *r = ftk_log.first; r; r = r->next)
        n += r->kind == FTK_REQ_RECV && r->freed_active && !r->internal && !r->done;
    return n;
}

static int drain(struct ftk_chan *ch)
{
    struct ftk_log *l = &ftk_log;
    const struct ftk_sure s = { ch->comm, ch, "draining" };
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && ftk_relay_holds_any()) /* all are counted once they are sent */
        rc = line_progress(ch);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_sure_alltoall(&s, l->sent, sizeof *l->sent, l->announced);
    if (rc == FTKIT_OK)
        rc = drain_all(l->announced, NULL, line_progress, ch);
    while (rc == FTKIT_OK && still_sends()) { /* all of it has been drawn */
        look_at_all();
        ftk_p2p_reap(SIZE_MAX);
        rc = line_progress(ch);
    }
    if (rc == FTKIT_OK)
        ftk_channel_line();
    (void)FTK_FAULT("log.drained");
    return rc;
}

int ftk_line_drain(struct ftk_chan *ch)
{
    int rc = drain(ch);
    if (rc == FTKIT_OK && ftk_matched_any())
        return ftk_fail(FTKIT_ERR_STATE,
            "a message that was matched by a probe has not been received: with log.enabled that "
            "comes before ftkit_checkpoint");
    size_t left = ftk_log.nactive + freed_receives();
    if (rc == FTKIT_OK && left > 0)
        return ftk_fail(FTKIT_ERR_STATE,
            "%zu requests of the program are not complete: with log.enabled ftkit_checkpoint "
            "is called when none but persistent ones at rest are left",
            left);
    return rc;
}

/* Sends that set-up leaves open are complete when all is drawn.  A receive that has got nothing
 * would get what the loop has received before the line. */
static int drain_set_up(struct ftk_chan *ch)
{
    size_t left = 0;
    int rc = drain(ch);
    for (const struct ftk_req *r = ftk_log.first; rc == FTKIT_OK && r; r = r->next)
        left += r->kind == FTK_REQ_RECV;
    return left == 0 ? rc
                     : ftk_fail(FTKIT_ERR_STATE,
                           "%zu receives that were begun before ftkit_recover have got nothing: with "
                           "log.enabled a job cannot go on from a set with them", left);
}

/* What set-up sent is through; nothing of it is needed again: who has not received it by then
 * has it from the line. */
int ftk_line_loaded(struct ftkit_ctx *ctx, int rc)
{
    struct ftk_chan ch = ftk_chan_of(ctx);
    struct ftk_unexp *last = ftk_log.unexp_last;
    int drained = drain_set_up(&ch);
    for (struct ftk_unexp *h; (h = last ? last->next : ftk_log.unexp_first) != NULL;) {
        ftk_unexp_take(h);
        ftk_unexp_free(h);
    }
    if (rc == FTKIT_OK)
        rc = drained;
    if (rc == FTKIT_OK) {
        ftk_line_committed(ctx);
        ftk_log.line_calls = 1; /* see ftk_policy_reset() */
        ftk_log.of_earlier_job = true;
        ctx->requested = 1; /* a set with the set-up of this job */
    }
    return rc;
}

bool ftk_line_of_earlier_job(const struct ftkit_ctx *ctx)
{
    return ftk_log.of_earlier_job || (ctx->committed > 0 && ftk_log.lines == 0);
}

void ftk_line_committed(struct ftkit_ctx *ctx)
{
    forget_before_line(ctx);
    ftk_channel_clear();
    ftk_det_line();
    ftk_depend_line();
}
