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
#include "log/gate.h"
#include "log/matrix.h"
#include "log/news.h"
#include "log/p2p.h"
#include "log/post.h"
#include "log/settle.h"
#include "set/checkpoint.h"

#define MARK_WORDS 5
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
        if ((c >= l->ncontexts && c < FTK_LOG_COLLS) || (c == FTK_LOG_NEWS && !ftk_news_kept()))
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
static int draw_one(int source, bool *found)
{
    struct ftk_log *l = &ftk_log;
    *found = false;
    for (int c = 0; c < FTK_LOG_COMMS; c++) {
        MPI_Message m;
        MPI_Status s;
        int flag = 0;
        if (l->real[c] == MPI_COMM_NULL || c == FTK_LOG_NEWS)
            continue;
        int rc = PMPI_Improbe(source, MPI_ANY_TAG, l->real[c], &flag, &m, &s);
        if (rc != MPI_SUCCESS)
            return rc;
        if (!flag)
            continue;
        *found = true;
        if (ftk_news_in_band() && s.MPI_TAG == FTK_POST_TAG)
            return ftk_news_take(c, &m, &s);
        struct ftk_held *h;
        rc = ftk_p2p_draw(c, &m, &s, &h);
        if (rc != MPI_SUCCESS)
            return rc;
        if (l->reborn)
            ftk_held_free(h); /* it goes back again, and its set-up is not to find it */
        else
            ftk_held_add(h);
        l->drained++;
        return rc;
    }
    return MPI_SUCCESS;
}

/* Whether something is on its way from a rank; what has come and is not told yet is not. */
static bool is_behind(int source, const uint64_t *told)
{
    uint64_t got = ftk_log.received[source];
    return got < told[source] && got + ftk_p2p_untold(source) < told[source];
}

/* Draw until everything has come that the others say they have sent, but for those
 * of not_from (NULL: nobody).  turn sees to failures. */
static int draw_all(const uint64_t *told, const int *not_from, int (*turn)(void *arg), void *arg)
{
    for (;;) {
        bool behind = false;
        look_at_all();
        for (int s = 0; s < ftk_log.n; s++) {
            bool found = true;
            while (!(not_from && not_from[s]) && is_behind(s, told) && found) {
                int rc = draw_one(s, &found);
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

static int watch_turn(void *arg)
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
static int unsure(int source)
{
    struct ftkit_ctx *ctx = ftk_log.ctx;
    if (!ctx->unsure)
        ftk_report(FTKIT_INFO,
            "context %s: rank %d: a message of rank %d that died in sending it may have been matched "
            "by a receive from any source: everybody goes back", ctx->cfg.name, ctx->rank, source);
    ctx->unsure = true;
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
static int bind_overtaken(const struct ftk_log_repair *r, const struct ftk_req *q, bool *through)
{
    struct ftk_req *before;
    int dead = 0;
    while (dead < r->n - 1 && !r->is_new[dead])
        dead++;
    while ((before = ftk_p2p_overtaken(q, r->is_new, through)) && !r->back[r->me]) {
        if (!is_sure(r, before))
            return unsure(dead);
        ftk_p2p_bind(before, dead);
    }
    return FTKIT_OK;
}

static int take_down_receive(struct settling *s, struct ftk_req *r)
{
    bool through;
    if (PMPI_Cancel(&r->real) != MPI_SUCCESS)
        r->posted = false;
    for (int i = 0; r->posted && !r->done && i < LAST_LOOKS; i++) {
        int rc = bind_overtaken(s->r, r, &through);
        if (rc == FTKIT_OK && through)
            rc = ftk_p2p_take_down(r);
        if (rc == FTKIT_OK && r->posted && !r->done)
            rc = watch_turn(s);
        if (rc != FTKIT_OK)
            return rc;
    }
    if (r->done)
        return FTKIT_OK;
    if (r->posted && r->real != MPI_REQUEST_NULL)
        (void)PMPI_Request_free(&r->real); /* its sender is dead: nothing else can be done */
    r->posted = false;
    r->down = true;
    return FTKIT_OK;
}

static int take_down(struct settling *s)
{
    for (struct ftk_req *r = ftk_log.first, *next; r; r = next) {
        next = r->next;
        if (!r->posted)
            continue;
        if (r->kind == FTK_REQ_RECV) {
            int rc = take_down_receive(s, r);
            if (rc != FTKIT_OK)
                return rc;
        }
        while (r->posted && !r->done) {
            int rc = ftk_p2p_take_down(r);
            if (rc == FTKIT_OK && r->posted && !r->done)
                rc = watch_turn(s);
            if (rc != FTKIT_OK)
                return rc;
        }
    }
    while (ftk_p2p_sending() + ftk_post_sending() > 0) {
        ftk_p2p_reap(SIZE_MAX);
        int rc = watch_turn(s);
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
        while (!r->is_new[k] && l->news_received[k] < l->news_told[k]) {
            MPI_Message m;
            MPI_Status s;
            int flag = 0;
            int rc = PMPI_Improbe(k, MPI_ANY_TAG, l->real[FTK_LOG_NEWS], &flag, &m, &s);
            if (rc == MPI_SUCCESS && flag)
                rc = ftk_news_take(FTK_LOG_NEWS, &m, &s);
            if (rc != MPI_SUCCESS)
                return ftk_fail_mpi(rc, "drawing a letter");
            rc = flag ? FTKIT_OK : watch_turn(st);
            if (rc != FTKIT_OK)
                return rc;
        }
    return FTKIT_OK;
}

static int settle(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    const struct ftk_sure act = { r->act, NULL, "settling" };
    struct settling s = { .r = r, .act = r->act, .watch = MPI_REQUEST_NULL };
    (void)FTK_FAULT("log.settle");
    ftk_det_hold(r->back[r->me]);
    int rc = ftk_sure_alltoall(&act, l->sent, sizeof *l->sent, l->told);
    if (rc == FTKIT_OK && ftk_news_kept())
        rc = ftk_sure_alltoall(&act, l->news_sent, sizeof *l->news_sent, l->news_told);
    if (rc == FTKIT_OK)
        rc = watch_begin(&s);
    if (rc == FTKIT_OK && !r->is_new[r->me])
        rc = draw_all(l->told, r->is_new, watch_turn, &s);
    if (rc == FTKIT_OK && !r->is_new[r->me] && ftk_news_kept())
        rc = draw_letters(r, &s);
    if (rc == FTKIT_OK)
        rc = watch_turn(&s); /* what it goes by next is who is dead */
    if (rc == FTKIT_OK && !r->is_new[r->me])
        rc = take_down(&s);
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
 * has come, but for holes.  Words of 64 bits: context, tag, upto, nholes, has hashes; holes;
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
static struct known {
    uint64_t lines, calls, next_event, nouts;
} known;

/* How much of what was delivered on a stream lies before the line that all go by: a rank
 * that has not seen the commit of a set counts from the one before. */
static uint64_t since(const struct ftk_stream_in *s)
{
    return known.lines > ftk_log.lines ? s->at_line : 0;
}

/* Completed on the stream before q, which was asked for earlier: it had been matched before, if the
 * MPI had it by then. */
static size_t later(const struct ftk_stream_in *s, const struct ftk_req *q)
{
    size_t n = 0;
    for (size_t i = 0; i < ftk_log.nearly; i++) {
        const struct ftk_early *e = &ftk_log.early[i];
        n += e->stamp > q->stamp && e->context == s->context && e->source == s->source
            && e->tag == s->tag && e->when > q->when;
    }
    return n;
}

static bool may_match(const struct ftk_req *q, const struct ftk_stream_in *s)
{
    return q->kind == FTK_REQ_RECV && !q->done && !q->vain && !q->probed
        && q->context == s->context
        && (q->from == s->source || q->from == MPI_ANY_SOURCE)
        && (q->with == s->tag || q->with == MPI_ANY_TAG);
}

static int put_holes(const struct ftk_log_repair *r, struct words *w,
    const struct ftk_stream_in *s, uint64_t *nholes)
{
    *nholes = 0;
    for (struct ftk_req *q = ftk_log.first; q; q = q->next) {
        if (!may_match(q, s))
            continue;
        size_t after = later(s, q);
        if (after == 0)
            continue;
        if (!is_sure(r, q) || q->with == MPI_ANY_TAG) /* of which stream is it? */
            return unsure(s->source);
        ftk_p2p_bind(q, s->source);
        int rc = put(w, s->count - since(s) - after + ++*nholes);
        if (rc != FTKIT_OK)
            return rc;
    }
    return FTKIT_OK;
}

static int put_mark(const struct ftk_log_repair *r, struct words *w, const struct ftk_stream_in *s)
{
    uint64_t nholes = 0;
    size_t at = w->n;
    bool hashes = ftk_log.ctx->cfg.log_check;
    int rc = put(w, (uint64_t)s->context);
    rc = rc == FTKIT_OK ? put(w, (uint64_t)(uint32_t)s->tag) : rc;
    rc = rc == FTKIT_OK ? put(w, s->count - since(s)) : rc;
    rc = rc == FTKIT_OK ? put(w, 0) : rc;
    rc = rc == FTKIT_OK ? put(w, 0) : rc;
    if (rc == FTKIT_OK && r->is_new[s->source]) /* what a live one has sent has been drawn */
        rc = put_holes(r, w, s, &nholes);
    if (rc != FTKIT_OK)
        return rc;
    w->v[at + 2] = s->count - since(s) + nholes;
    w->v[at + 3] = nholes;
    w->v[at + 4] = hashes && nholes == 0; /* their places would have moved */
    for (uint64_t i = since(s); rc == FTKIT_OK && w->v[at + 4] && i < s->count; i++)
        rc = put(w, s->got[i].hash);
    return rc;
}

static int write_marks(const struct ftk_log_repair *r, struct words *w, size_t *bytes)
{
    struct ftk_log *l = &ftk_log;
    for (int dest = 0; dest < r->n; dest++) {
        size_t before = w->n;
        for (size_t i = 0; !r->back[r->me] && r->back[dest] && i < l->in_table.n; i++) {
            int rc = l->in[i].source == dest ? put_mark(r, w, &l->in[i]) : FTKIT_OK;
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

static void forget_marks(void)
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

static int exchange_marks(const struct ftk_log_repair *r)
{
    struct words out = { 0 };
    size_t *to = calloc((size_t)r->n, sizeof *to);
    forget_marks(); /* of an attempt before this one */
    arrived_bytes = calloc((size_t)r->n, sizeof *arrived_bytes);
    int rc = to && arrived_bytes ? write_marks(r, &out, to)
                                 : ftk_fail(FTKIT_ERR_NOMEM, "marks");
    if (rc == FTKIT_OK)
        rc = exchange(r, &out, to, arrived_bytes);
    if (rc != FTKIT_OK)
        forget_marks();
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

static int add_mark(int dest, const uint64_t *v, size_t *used)
{
    struct ftk_mark m = { .context = (int)v[0], .dest = dest, .tag = (int)(uint32_t)v[1],
        .next = 1, .upto = v[2], .nholes = (int)v[3] };
    m.hole = copy_of(v + MARK_WORDS, (size_t)v[3]);
    m.hash = v[4] ? copy_of(v + MARK_WORDS + v[3], (size_t)v[2]) : NULL;
    *used = MARK_WORDS + (size_t)v[3] + (v[4] ? (size_t)v[2] : 0);
    if (!m.hole || (v[4] && !m.hash)) {
        free(m.hole);
        free(m.hash);
        return ftk_fail(FTKIT_ERR_NOMEM, "marks");
    }
    return ftk_mark_add(&m);
}

static int take_marks(int n)
{
    size_t at = 0;
    for (int s = 0; s < n; s++)
        for (size_t end = at + arrived_bytes[s] / sizeof *arrived.v; at < end;) {
            size_t used = 0;
            int rc = add_mark(s, arrived.v + at, &used);
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
    word[0] = l->dropped;
    memcpy(word + 1, &ctx->stamp, sizeof ctx->stamp);
    size_t bytes = (size_t)n * sizeof *word;
    if (l->team && l->node && l->home) {
        memcpy(word + FIRST, l->team, bytes);
        memcpy(word + FIRST + n, l->node, bytes);
        memcpy(word + FIRST + n + n, l->home, bytes);
    }
    int rc = ftk_sure_bcast(&all, root, word, (3 * (size_t)n + FIRST) * sizeof *word);
    if (rc == FTKIT_OK) {
        l->dropped_now = word[0] != 0;
        memcpy(&l->stamp_now, word + 1, sizeof l->stamp_now);
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

static struct ftk_logged_call *known_outs; /* [known.nouts] */

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
        l->told = calloc(n, sizeof *l->told);
        l->news_sent = calloc(3 * n, sizeof *l->news_sent);
        l->news_received = l->news_sent ? l->news_sent + n : NULL;
        l->news_told = l->news_sent ? l->news_sent + 2 * n : NULL;
        l->stat_messages = calloc(n, sizeof *l->stat_messages);
        l->stat_bytes = calloc(n, sizeof *l->stat_bytes);
        l->log_first = calloc(n, sizeof(struct ftk_entry *));
        l->log_last = calloc(n, sizeof(struct ftk_entry *));
        if (!l->node)
            l->node = calloc(n, sizeof *l->node);
    }
    if (!l->sent || !l->received || !l->told || !l->news_sent || !l->stat_messages || !l->stat_bytes || !l->log_first
        || !l->log_last || !l->node)
        return ftk_fail(FTKIT_ERR_NOMEM, "tables of the message log");
    if (r->is_new[r->me])
        l->me = r->me; /* an attempt before this one may have had another for it */
    if (l->me != r->me || l->n != r->n)
        return ftk_fail(FTKIT_ERR_INTERNAL, "the message log does not know other ranks");
    return ftk_gate_enter(r->n);
}

/* One of those that have seen most. */
static int most_knowing(const struct ftk_log_repair *r, const struct known *all)
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
    struct known mine = { l->lines, l->line_calls, l->line_next_event, l->nouts };
    struct known *all = calloc((size_t)r->n, sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "sharing the state of the message log");
    int rc = ftk_sure_allgather(&s, &mine, sizeof mine, all);
    if (rc != FTKIT_OK) {
        free(all);
        return rc;
    }
    int root = most_knowing(r, all);
    known = all[root];
    if (r->line > 0 && known.lines == 0) /* a start: all were about to load it */
        known = (struct known){ 1, 1, ftk_policy_first_event(l->ctx), 0 };
    free(all);
    struct ftk_logged_call *outs = calloc((size_t)known.nouts + 1, sizeof *outs);
    if (!outs)
        return ftk_fail(FTKIT_ERR_NOMEM, "sharing the state of the message log");
    if (l->nouts == known.nouts && l->nouts > 0)
        memcpy(outs, l->outs, l->nouts * sizeof *outs);
    rc = ftk_sure_bcast(&s, root, outs, (size_t)known.nouts * sizeof *outs);
    if (rc != FTKIT_OK) {
        free(outs);
        return rc;
    }
    free(known_outs);
    known_outs = outs;
    return FTKIT_OK;
}

/* It becomes the state of this rank, too. */
static void adopt(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    free(l->outs);
    l->outs = known_outs;
    l->nouts = (size_t)known.nouts;
    known_outs = NULL;
    if (r->back[r->me]) {
        l->lines = known.lines;
        l->line_calls = known.calls;
        l->line_next_event = known.next_event;
        l->seq = 0;
    }
    l->alone = r->line == 0;
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
        ftk_det_promise(r->stamp);
        return FTKIT_OK;
    }
    if (!r->fresh && !all_back(r))
        before = ftk_det_inherited(r->me, known.lines, &n);
    return ftk_det_open(before, n, r->fresh ? 0 : known.lines, r->stamp);
}

int ftk_recovery_settle(const struct ftk_log_repair *r)
{
    int rc = enter(r);
    if (rc == FTKIT_OK && (r->fresh || !ftk_log.team))
        rc = r->fresh ? make_teams(r) : ftk_fail(FTKIT_ERR_INTERNAL, "no teams");
    if (rc == FTKIT_OK)
        rc = make_next(r);
    if (rc == FTKIT_OK && !r->fresh)
        rc = share(r);
    if (rc == FTKIT_OK && !r->fresh)
        rc = settle(r);
    if (rc == FTKIT_OK && !r->fresh)
        rc = exchange_marks(r);
    if (rc == FTKIT_OK && !r->fresh)
        rc = ftk_news_collect(r, known.lines);
    if (rc == FTKIT_OK)
        rc = prepare_determinants(r);
    if (rc == FTKIT_OK)
        rc = ftk_news_spread(r, known.lines, r->fresh || all_back(r));
    (void)FTK_FAULT("log.marks");
    return rc;
}

/* fall_back(): nothing after the line has happened here. */
static int fall_back(const struct ftk_log_repair *r)
{
    struct ftk_log *l = &ftk_log;
    bool again = l->reborn; /* in its set-up still: it goes on with what is left of it */
    if (r->line > 0 && !r->is_new[r->me] && !again)
        ftk_log_fall();
    ftk_keep_clear();
    ftk_stream_in_clear();
    ftk_mark_clear();
    if (!again)
        ftk_held_clear();
    ftk_gate_back(l->gates && !l->dropped);
    l->again = !l->dropped;
    int known_again = ftk_det_back();
    if (known_again != FTKIT_OK)
        return known_again;
    if (r->is_new[r->me] && r->line > 0) {
        l->reborn = true;
        int rc = ftk_log_read_journal(l->ctx, r->line);
        if (rc != FTKIT_OK)
            return rc;
    }
    return take_marks(r->n);
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
    ftk_mark_drop(back);
    free(back);
    for (int d = 0; d < r->n; d++) {
        for (struct ftk_entry *e = r->back[d] ? l->log_first[d] : NULL; e; e = e->next) {
            if (e->waits)
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
static void post_again(void)
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
    if (l->alone)
        ftk_matrix_clear(); /* from here on it is the teams that matter */
    l->alone = l->again = l->inherited = false;
    l->lines++;
    l->nouts = l->seq = 0;
    l->line_calls = ctx->calls;
    l->line_next_event = ctx->next_event;
    ftk_keep_clear();
    ftk_mark_clear();
    ftk_vcomm_line();
}

/* The set this rank was writing is committed: others have seen the vote. */
static void catch_up(struct ftkit_ctx *ctx)
{
    ftk_policy_committed(ctx, 0);
    ctx->next_event = known.next_event;
    ctx->repeats = ctx->corrupt = 0;
    ctx->sets_since_durable++;
    forget_before_line(ctx);
    ftk_stream_in_shift(); /* what has been drawn since counts */
    ftk_log.lines = known.lines;
    ftk_det_line();
    ftk_gate_line();
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
    memset(l->news_sent, 0, (size_t)l->n * sizeof *l->news_sent);
    memset(l->news_received, 0, (size_t)l->n * sizeof *l->news_received);
    ftk_gate_installed();
    l->dropped = !r->fresh && all_back(r);
    if (l->dropped)
        ftk_det_drop(); /* before its epoch has begun */
    ftk_det_installed(r->stamp);
    memcpy(l->node, r->domain, (size_t)l->n * sizeof *l->node);
    if (r->fresh)
        return ftk_news_install(r);
    bool missed = !r->is_new[r->me] && r->line > 0 && ctx->committed != r->line;
    if (missed)
        catch_up(ctx);
    adopt(r);
    rc = ftk_news_install(r);
    if (rc != FTKIT_OK)
        return rc;
    if (r->back[r->me])
        rc = fall_back(r);
    forget_marks();
    if (r->back[r->me])
        return rc;
    uint64_t before = l->resent;
    rc = resend(r);
    if (rc == FTKIT_OK)
        ftk_event("context %s: rank %d has sent %llu messages again", ctx->cfg.name, l->me,
            (unsigned long long)(l->resent - before));
    if (rc == FTKIT_OK)
        post_again();
    return rc;
}

/* ---- the line ----------------------------------------------------------------------------------------------*/

static int line_turn(void *arg)
{
    struct ftk_chan *ch = arg;
    if (ftk_detect_poll(ch->ctx))
        return ftk_fail(FTKIT_ERR_PEER, "draining: a rank has failed");
    ftk_news_turn();
    return FTKIT_OK;
}

/* Whether the MPI or a request that nobody waits for still needs what is in the log. */
static bool still_sends(void)
{
    for (const struct ftk_req *r = ftk_log.first; r; r = r->next)
        if (r->kind == FTK_REQ_SEND)
            return true;
    return ftk_p2p_sending() + ftk_post_sending() > 0;
}

/* Receives whose requests the program has freed: nobody would begin them again. */
static size_t freed_receives(void)
{
    size_t n = 0;
    for (const struct ftk_req *r = ftk_log.first; r; r = r->next)
        n += r->kind == FTK_REQ_RECV && r->orphan && !r->internal && !r->done;
    return n;
}

static int drain(struct ftk_chan *ch)
{
    struct ftk_log *l = &ftk_log;
    const struct ftk_sure s = { ch->comm, ch, "draining" };
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && ftk_news_holds_any()) /* all are counted once they are sent */
        rc = line_turn(ch);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_sure_alltoall(&s, l->sent, sizeof *l->sent, l->told);
    if (rc == FTKIT_OK)
        rc = draw_all(l->told, NULL, line_turn, ch);
    while (rc == FTKIT_OK && still_sends()) { /* all of it has been drawn */
        look_at_all();
        ftk_p2p_reap(SIZE_MAX);
        rc = line_turn(ch);
    }
    if (rc == FTKIT_OK)
        ftk_stream_in_line();
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
    struct ftk_held *last = ftk_log.held_last;
    int drained = drain_set_up(&ch);
    for (struct ftk_held *h; (h = last ? last->next : ftk_log.held_first) != NULL;) {
        ftk_held_take(h);
        ftk_held_free(h);
    }
    if (rc == FTKIT_OK)
        rc = drained;
    if (rc == FTKIT_OK) {
        ftk_line_committed(ctx);
        ftk_log.line_calls = 1; /* see ftk_policy_reset() */
        ftk_log.inherited = true;
        ctx->requested = 1; /* a set with the set-up of this job */
    }
    return rc;
}

bool ftk_line_inherited(const struct ftkit_ctx *ctx)
{
    return ftk_log.inherited || (ctx->committed > 0 && ftk_log.lines == 0);
}

void ftk_line_committed(struct ftkit_ctx *ctx)
{
    forget_before_line(ctx);
    ftk_stream_in_clear();
    ftk_det_line();
    ftk_gate_line();
}
