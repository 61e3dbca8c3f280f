/* News: determinants that are told to other nodes (see news.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mpi_shim.h"
#include "detect/detect.h"
#include "detect/sure.h"
#include "log/gate.h"
#include "log/news.h"
#include "log/p2p.h"
#include "log/post.h"

/* A letter, in words of 64 bits: this, then per owner a head and its determinants. */
struct letter_head {
    uint64_t lines;         /* committed before them */
    uint64_t round;         /* to be told to the sender when they are kept; 0: no need */
    uint64_t parts;
};
struct part {
    uint64_t owner;         /* rank */
    uint64_t from, n;       /* the first of them has this number, from 0 */
};
enum { HEAD_WORDS = sizeof(struct letter_head) / 8, PART_WORDS = sizeof(struct part) / 8,
    DET_WORDS = sizeof(struct ftk_det) / 8 };
_Static_assert(sizeof(struct ftk_det) == 16, "two words");

/* What others have told of a rank, for the last two intervals between lines. */
struct copy {
    uint64_t lines;
    size_t n, room;
    struct ftk_det *v;      /* [n] */
};

/* What a rank of another node has been told on a context, in this interval: the MPI keeps the
 * order of letters and messages within one context only. */
struct reach {
    uint64_t lines;
    size_t total;           /* sum of upto */
    size_t upto[];          /* [npeers] of the ranks of this node */
};

static struct {
    int n;                  /* ranks; 0: not open */
    struct copy (*copy)[2]; /* [n] by rank and parity of the line */
    struct reach **reach;   /* [n * FTK_LOG_COMMS], NULL: told nothing yet */
    int npeers;             /* ranks of this node ... */
    int *peer, *keeper;     /* [npeers] they and who keeps what they decide, -1: nobody */
    long *pid;              /* [n] of the next epoch */
    uint64_t *words;        /* the letter that is being written */
    size_t room;
    /* rounds of news that are to be kept */
    uint64_t round, done;   /* the last one begun, and the last one that is kept */
    int pending;            /* letters of this round of which that is not known */
    size_t held;            /* sends that are held back */
    /* what the repair under way has told this rank to keep */
    uint64_t *told;
    size_t told_words;
} news;

static int mode(void)
{
    return ftk_log.ctx->cfg.log_dets;
}

bool ftk_news_in_band(void)
{
    return ftk_log.ctx && (mode() == FTK_DETS_CAUSAL || ftk_log.gates);
}

bool ftk_news_kept(void)
{
    return ftk_log.ctx && mode() == FTK_DETS_PESSIMISTIC;
}

/* Before the first line everybody goes back whatever happens. */
static bool leaves(int dest)
{
    const struct ftk_log *l = &ftk_log;
    return !l->alone && l->node[dest] != l->node[l->me];
}

/* ---- letters ---------------------------------------------------------------------------------*/

static uint64_t *room_for(size_t at, size_t words)
{
    if (at + words > news.room) {
        size_t room = 2 * (at + words);
        uint64_t *w = realloc(news.words, room * sizeof *w);
        if (!w)
            return NULL;
        news.words = w;
        news.room = room;
    }
    return news.words + at;
}

/* Add to the letter what a rank has decided from a number on; words of the letter, 0: no
 * memory. */
static size_t write_part(size_t at, int owner, const struct ftk_det *v, size_t from, size_t n)
{
    struct part part = { (uint64_t)owner, from, n - from };
    uint64_t *w = room_for(at, PART_WORDS + (n - from) * DET_WORDS);
    if (!w)
        return 0;
    memcpy(w, &part, sizeof part);
    memcpy(w + PART_WORDS, v + from, (n - from) * sizeof *v);
    struct letter_head h;
    memcpy(&h, news.words, sizeof h);
    h.parts++;
    memcpy(news.words, &h, sizeof h);
    return at + PART_WORDS + (n - from) * DET_WORDS;
}

static size_t begin_letter(uint64_t lines, uint64_t round)
{
    struct letter_head h = { lines, round, 0 };
    uint64_t *w = room_for(0, HEAD_WORDS);
    if (w)
        memcpy(w, &h, sizeof h);
    return w ? HEAD_WORDS : 0;
}

static int post(size_t words, int dest, int tag, int context)
{
    return ftk_post(news.words, words, dest, tag, context);
}

/* ---- keeping what others tell -------------------------------------------------------------------*/

static int keep(uint64_t lines, const struct part *part, const uint64_t *w)
{
    struct copy *c = &news.copy[part->owner][lines & 1];
    if (c->lines > lines)
        return MPI_SUCCESS; /* of an interval that is over */
    if (c->lines < lines) {
        c->lines = lines;
        c->n = 0;
    }
    size_t n = (size_t)(part->from + part->n);
    if (part->from > c->n)
        return MPI_ERR_INTERN; /* it has been told in order */
    if (n > c->room) {
        struct ftk_det *v = realloc(c->v, 2 * n * sizeof *v);
        if (!v)
            return MPI_ERR_NO_MEM;
        c->v = v;
        c->room = 2 * n;
    }
    if (n <= c->n)
        return MPI_SUCCESS;
    memcpy(c->v + part->from, w, (size_t)part->n * sizeof *c->v);
    c->n = n;
    return MPI_SUCCESS;
}

/* All parts of a letter of so many words. */
static int read_letter(const uint64_t *w, size_t words, struct letter_head *h)
{
    size_t at = HEAD_WORDS;
    if (words < HEAD_WORDS)
        return MPI_ERR_INTERN;
    memcpy(h, w, sizeof *h);
    for (uint64_t i = 0; i < h->parts; i++) {
        struct part part;
        if (words - at < PART_WORDS)
            return MPI_ERR_INTERN;
        memcpy(&part, w + at, sizeof part);
        at += PART_WORDS;
        if (part.owner >= (uint64_t)news.n || part.n > (words - at) / DET_WORDS)
            return MPI_ERR_INTERN;
        int rc = keep(h->lines, &part, w + at);
        if (rc != MPI_SUCCESS)
            return rc;
        at += (size_t)part.n * DET_WORDS;
    }
    return MPI_SUCCESS;
}

/* ---- rounds --------------------------------------------------------------------------------------*/

enum { TAG_KEEP = 1, TAG_KEPT };

static bool all_stable(void)
{
    for (int i = 0; i < news.npeers; i++) {
        size_t n;
        (void)ftk_det_of(i, &n);
        if (ftk_det_stable(i) < n)
            return false;
    }
    return true;
}

/* What the ranks of this node have seen decided goes to their keepers. */
static int begin_round(void)
{
    news.round++;
    for (int i = 0; i < news.npeers; i++) {
        size_t n, at, from = ftk_det_stable(i);
        const struct ftk_det *v = ftk_det_of(i, &n);
        if (from >= n)
            continue;
        at = begin_letter(ftk_log.lines, news.round);
        at = at ? write_part(at, news.peer[i], v, from, n) : 0;
        int rc = at ? post(at, news.keeper[i], TAG_KEEP, FTK_LOG_NEWS) : MPI_ERR_NO_MEM;
        if (rc != MPI_SUCCESS && ftk_p2p_is_failure(rc))
            ftk_detect_raise(ftk_log.ctx); /* the round comes to nothing, and the repair */
        else if (rc != MPI_SUCCESS)
            return rc;
        news.pending++;
    }
    if (news.pending == 0)
        news.done = news.round; /* others have been faster */
    return MPI_SUCCESS;
}

bool ftk_news_holds_any(void)
{
    return news.held > 0;
}

bool ftk_news_holds(int dest)
{
    for (const struct ftk_req *r = news.held > 0 ? ftk_log.first : NULL; r; r = r->next)
        if (r->waits && r->peer == dest)
            return true;
    return false;
}

bool ftk_news_hold_back(struct ftk_req *r)
{
    if (!ftk_news_kept() || !(ftk_news_holds(r->peer) || leaves(r->peer)))
        return false; /* none is overtaken, even by one that does not leave this node */
    if (news.held == 0 && all_stable())
        return false;
    bool running = news.pending > 0;
    r->waits = news.round + 1; /* one under way does not tell all */
    news.held++;
    if (!running)
        ftk_news_turn();
    return true;
}

void ftk_news_let(struct ftk_req *r)
{
    news.held--;
    r->waits = 0;
}

/* Its keeper has them. */
static void kept(const uint64_t *w, size_t words)
{
    struct letter_head h;
    struct part part;
    if (words < HEAD_WORDS + PART_WORDS)
        return;
    memcpy(&h, w, sizeof h);
    memcpy(&part, w + HEAD_WORDS, sizeof part);
    if (h.round != news.round || news.pending == 0)
        return;
    for (int i = 0; i < news.npeers; i++)
        if (news.peer[i] == (int)part.owner && h.lines == ftk_log.lines)
            ftk_det_set_stable(i, (size_t)(part.from + part.n));
    if (--news.pending == 0)
        news.done = news.round;
}

/* Tell its sender that it is kept: the first part is all there is to a letter to a keeper. */
static int confirm(const uint64_t *w, int dest)
{
    int rc = ftk_post(w, HEAD_WORDS + PART_WORDS, dest, TAG_KEPT, FTK_LOG_NEWS);
    if (rc == MPI_SUCCESS || !ftk_p2p_is_failure(rc))
        return rc;
    ftk_detect_raise(ftk_log.ctx);
    return MPI_SUCCESS;
}

/* In the order in which they were begun. */
static void let_go(void)
{
    for (struct ftk_req *r = ftk_log.first, *next; news.held > 0 && r; r = next) {
        next = r->next;
        if (r->waits && r->waits <= news.done)
            ftk_log.requests->release(r); /* its owner gets the error with the request */
    }
}

/* What is held back cannot be sent. */
static void give_up(int error)
{
    for (struct ftk_req *r = ftk_log.first, *next; news.held > 0 && r; r = next) {
        next = r->next;
        if (r->waits)
            (void)ftk_log.requests->fail(r, error);
    }
}

void ftk_news_look(void)
{
    struct ftk_log *l = &ftk_log;
    bool again = ftk_news_kept() && l->real[FTK_LOG_NEWS] != MPI_COMM_NULL;
    while (again && !l->ctx->failed && !l->ctx->repairing && !l->falling) {
        MPI_Message m;
        MPI_Status s;
        int flag = 0;
        int rc = PMPI_Improbe(
            MPI_ANY_SOURCE, MPI_ANY_TAG, l->real[FTK_LOG_NEWS], &flag, &m, &s);
        if (rc == MPI_SUCCESS && flag)
            rc = ftk_news_take(FTK_LOG_NEWS, &m, &s);
        if (rc != MPI_SUCCESS)
            ftk_detect_raise(l->ctx);
        again = rc == MPI_SUCCESS && flag;
    }
    if (l->ctx->failed || l->ctx->repairing || news.held == 0)
        return;
    let_go();
    if (news.held == 0 || news.pending > 0)
        return;
    int rc = begin_round();
    if (rc == MPI_SUCCESS)
        let_go();
    else
        give_up(rc);
}

/* ---- with messages -----------------------------------------------------------------------------------*/

/* Contexts that share a communicator share its order. */
static size_t at_of(int dest, int context)
{
    return (size_t)dest * FTK_LOG_COMMS + (size_t)ftk_context_channel(context);
}

static struct reach *reach_of(int dest, int context)
{
    struct reach **at = &news.reach[at_of(dest, context)], *r = *at;
    if (!r)
        r = *at = calloc(1, sizeof *r + (size_t)news.npeers * sizeof r->upto[0]);
    if (r && r->lines != ftk_log.lines) {
        memset(r->upto, 0, (size_t)news.npeers * sizeof r->upto[0]);
        r->total = 0;
        r->lines = ftk_log.lines;
    }
    return r;
}

int ftk_news_tell(int dest, int context)
{
    size_t total = 0, n;
    if (!ftk_news_in_band() || !leaves(dest))
        return MPI_SUCCESS;
    for (int i = 0; i < news.npeers; i++) {
        (void)ftk_det_of(i, &n);
        total += n;
    }
    struct reach *r = reach_of(dest, context);
    if (!r)
        return MPI_ERR_NO_MEM;
    if (total == r->total)
        return MPI_SUCCESS;
    size_t at = begin_letter(ftk_log.lines, 0);
    for (int i = 0; at && i < news.npeers; i++) {
        const struct ftk_det *v = ftk_det_of(i, &n);
        if (n <= r->upto[i])
            continue;
        at = write_part(at, news.peer[i], v, r->upto[i], n);
        r->total += n - r->upto[i];
        r->upto[i] = n;
    }
    return at ? post(at, dest, FTK_POST_TAG, context) : MPI_ERR_NO_MEM;
}

int ftk_news_take_all(int context, int source)
{
    int flag = 1, rc = MPI_SUCCESS;
    if (!ftk_news_in_band() || ftk_log.node[source] == ftk_log.node[ftk_log.me])
        return MPI_SUCCESS;
    while (rc == MPI_SUCCESS && flag) {
        MPI_Message m;
        MPI_Status s;
        rc = PMPI_Improbe(source, FTK_POST_TAG, ftk_log_real(context), &flag, &m, &s);
        if (rc == MPI_SUCCESS && flag)
            rc = ftk_news_take(context, &m, &s);
    }
    return rc;
}

int ftk_news_take(int context, MPI_Message *m, const MPI_Status *s)
{
    struct letter_head h;
    uint64_t *w;
    size_t words;
    int source = s->MPI_SOURCE, tag = s->MPI_TAG;
    if (ftk_log.gates)
        return ftk_gate_take(context, m, s);
    int rc = ftk_post_take(context, m, s, &w, &words);
    if (rc == MPI_SUCCESS && context == FTK_LOG_NEWS && tag == TAG_KEPT)
        kept(w, words);
    else if (rc == MPI_SUCCESS)
        rc = read_letter(w, words, &h);
    if (rc == MPI_SUCCESS && context == FTK_LOG_NEWS && tag == TAG_KEEP
        && !ftk_log.ctx->repairing)
        rc = confirm(w, source);
    free(w);
    return rc;
}

/* ---- in a repair -----------------------------------------------------------------------------------------*/

static const struct copy *copy_of(int rank, uint64_t lines)
{
    const struct copy *c = news.copy ? &news.copy[rank][lines & 1] : NULL;
    return c && c->lines == lines ? c : NULL;
}

/* Which member of act has been told most of what rank k has decided, and how much. */
static int most_told(const struct ftk_log_repair *r, int k, uint64_t lines, size_t *n)
{
    enum { RANK_BITS = 24 };
    const struct copy *c = copy_of(k, lines);
    const struct ftk_sure s = { r->act, NULL, "collecting determinants" };
    int64_t mine = (int64_t)((uint64_t)(c ? c->n : 0) << RANK_BITS | (uint64_t)r->me);
    mine = -mine; /* the largest */
    int rc = ftk_sure_min(&s, &mine, 1);
    uint64_t most = (uint64_t)-mine;
    *n = rc == FTKIT_OK ? (size_t)(most >> RANK_BITS) : 0;
    return rc == FTKIT_OK ? (int)(most & ((1u << RANK_BITS) - 1)) : -1;
}

static int collect_one(const struct ftk_log_repair *r, int k, uint64_t lines)
{
    size_t n = 0;
    int root = most_told(r, k, lines, &n);
    if (root < 0 || n > INT32_MAX / sizeof(struct ftk_det))
        return ftk_fail(FTKIT_ERR_PEER, "collecting determinants");
    struct ftk_det *v = malloc((n + 1) * sizeof *v);
    if (!v)
        return ftk_fail(FTKIT_ERR_NOMEM, "collecting determinants");
    if (root == r->me && n > 0)
        memcpy(v, copy_of(k, lines)->v, n * sizeof *v);
    if (root == r->me)
        ftk_event("context %s: rank %d knows %zu determinants of rank %d",
            ftk_log.ctx->cfg.name, r->me, n, k);
    const struct ftk_sure s = { r->act, NULL, "collecting determinants" };
    int rc = ftk_sure_bcast(&s, root, v, n * sizeof *v);
    if (rc == FTKIT_OK)
        ftk_det_inherit(k, lines, v, n);
    else
        free(v);
    return rc;
}

int ftk_news_collect(const struct ftk_log_repair *r, uint64_t lines)
{
    int rc = FTKIT_OK;
    for (int k = 0; rc == FTKIT_OK && ftk_log.tells && k < r->n; k++)
        if (r->is_new[k] && !ftk_det_is_inherited(k))
            rc = collect_one(r, k, lines);
    return rc;
}

/* Another node's rank, as many places from its first one as this rank is from that of its own;
 * -1: there is no other node. */
static int keeper_of(const int *node, int n, int rank)
{
    int place = 0, size = 0, other = rank;
    do
        other = (other + 1) % n;
    while (other != rank && node[other] == node[rank]);
    if (other == rank)
        return -1;
    for (int q = 0; q < n; q++) {
        place += q < rank && node[q] == node[rank];
        size += node[q] == node[other];
    }
    place %= size;
    for (int q = 0; q < n; q++)
        if (node[q] == node[other] && place-- == 0)
            return q;
    return -1;
}

/* A letter of so many words to one member of act, from all to all. */
static int exchange(const struct ftk_log_repair *r, int to, size_t words)
{
    const struct ftk_sure s = { r->act, NULL, "telling determinants" };
    size_t n = (size_t)r->n, bytes = 0;
    size_t *out = calloc(2 * n, sizeof *out);
    if (!out)
        return ftk_fail(FTKIT_ERR_NOMEM, "telling determinants");
    size_t *in = out + n;
    if (to >= 0)
        out[to] = words * sizeof *news.words;
    int rc = ftk_sure_alltoall(&s, out, sizeof *out, in);
    for (size_t i = 0; rc == FTKIT_OK && i < n; i++)
        bytes += in[i];
    free(news.told);
    news.told = malloc(bytes + sizeof *news.told);
    news.told_words = 0;
    if (rc == FTKIT_OK && !news.told)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "telling determinants");
    if (rc == FTKIT_OK)
        rc = ftk_sure_alltoallv(&s, news.words, out, news.told, in);
    if (rc == FTKIT_OK)
        news.told_words = bytes / sizeof *news.told;
    free(out);
    return rc;
}

int ftk_news_spread(const struct ftk_log_repair *r, uint64_t lines, bool nothing)
{
    size_t n = 0;
    if (!ftk_log.tells)
        return FTKIT_OK;
    long pid = (long)getpid();
    free(news.pid);
    news.pid = calloc((size_t)r->n, sizeof *news.pid);
    if (!news.pid)
        return ftk_fail(FTKIT_ERR_NOMEM, "telling determinants");
    const struct ftk_sure s = { r->act, NULL, "telling determinants" };
    int rc = ftk_sure_allgather(&s, &pid, sizeof pid, news.pid);
    if (rc != FTKIT_OK)
        return rc;
    const struct ftk_det *v = ftk_det_own(lines, &n);
    int keeper = n > 0 && !nothing ? keeper_of(r->domain, r->n, r->me) : -1;
    size_t words = begin_letter(lines, 0);
    words = words && keeper >= 0 ? write_part(words, r->me, v, 0, n) : words;
    if (!words || words > INT32_MAX)
        return ftk_fail(FTKIT_ERR_NOMEM, "telling determinants");
    return exchange(r, keeper, keeper >= 0 ? words : 0);
}

static void forget_copies(void)
{
    for (int k = 0; k < news.n; k++) {
        for (int i = 0; i < 2; i++)
            free(news.copy[k][i].v);
        for (size_t c = 0; c < FTK_LOG_COMMS; c++) {
            struct reach **at = &news.reach[(size_t)k * FTK_LOG_COMMS + c];
            free(*at);
            *at = NULL;
        }
    }
    if (news.n > 0)
        memset(news.copy, 0, (size_t)news.n * sizeof *news.copy);
}

/* Letters that came with the repair stand one behind the other. */
static int keep_told(void)
{
    size_t at = 0;
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && at < news.told_words) {
        struct letter_head h;
        struct part part;
        memcpy(&part, news.told + at + HEAD_WORDS, sizeof part);
        size_t words = HEAD_WORDS + PART_WORDS + (size_t)part.n * DET_WORDS;
        rc = read_letter(news.told + at, words, &h);
        at += words;
    }
    free(news.told);
    news.told = NULL;
    news.told_words = 0;
    return rc;
}

static int make_tables(const struct ftk_log_repair *r)
{
    size_t n = (size_t)r->n;
    if (news.n == 0) {
        news.copy = calloc(n, sizeof *news.copy);
        news.reach = calloc(n * FTK_LOG_COMMS, sizeof(struct reach *));
        news.peer = calloc(2 * n, sizeof *news.peer);
        news.keeper = news.peer ? news.peer + n : NULL;
        if (!news.copy || !news.reach || !news.peer)
            return ftk_fail(FTKIT_ERR_NOMEM, "news");
        news.n = r->n;
    }
    news.npeers = 0;
    for (int k = 0; k < r->n; k++) {
        if (r->domain[k] != r->domain[r->me])
            continue;
        news.keeper[news.npeers] = keeper_of(r->domain, r->n, k);
        news.peer[news.npeers++] = k;
    }
    return ftk_det_peers(news.peer, news.pid, news.npeers);
}

int ftk_news_install(const struct ftk_log_repair *r)
{
    if (!ftk_log.tells)
        return FTKIT_OK;
    forget_copies();
    int rc = make_tables(r);
    if (rc == FTKIT_OK && keep_told() != MPI_SUCCESS)
        rc = ftk_fail(FTKIT_ERR_INTERNAL, "news of determinants are damaged");
    news.pending = 0;
    news.done = news.round;
    for (struct ftk_req *q = ftk_log.first; q; q = q->next)
        if (q->waits)
            q->waits = news.round + 1;
    return rc;
}

void ftk_news_close(void)
{
    forget_copies();
    free(news.copy);
    free(news.reach);
    free(news.peer);
    free(news.pid);
    free(news.words);
    free(news.told);
    (void)ftk_det_peers(NULL, NULL, 0);
    memset(&news, 0, sizeof news);
}
