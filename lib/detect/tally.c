/* Tallies (see tally.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tally.h"

#include <stdlib.h>
#include <string.h>

#include "core/left_send.h"
#include "core/tags.h"

/* A message: the words of a subtree on their way up, or a result on its way down. */
struct message {
    uint64_t round;
    int64_t up; /* below */
    struct ftk_vote vote;
};
enum {
    DOWN,
    UP_ONLY, /* the result is for rank 0 only */
    UP,
    ASK /* to rank 0, of no round */
};

/* A message that MPI sends. */
struct outgoing {
    MPI_Request req;
    struct message l;
    struct outgoing *next;
};

enum { ROUNDS = 8 }; /* rounds under way, or over and not void, at most */

struct round {
    uint64_t number; /* 0: unused */
    int said;        /* this rank and its kids: so many have said their words */
    bool own;        /* this rank has */
    bool over;       /* the words are the result */
    struct ftk_vote vote;
};

struct ftk_tally {
    struct ftkit_ctx *ctx;
    MPI_Comm comm;
    MPI_Request in; /* a receive from any rank */
    struct message arrived;
    struct outgoing *out;
    uint64_t least; /* rounds below are void */
    int64_t asked;  /* on rank 0 */
    struct round rounds[ROUNDS];
};

/* ---- the tree ------------------------------------------------------------------------ */

static int parent_of(int rank)
{
    return (rank - 1) / 2;
}

static int nkids(const struct ftk_tally *t)
{
    const int first = 2 * t->ctx->rank + 1, n = t->ctx->nranks;
    return first + 1 < n ? 2 : first < n ? 1 : 0;
}

static int failed(struct ftk_tally *t, int mrc)
{
    ftk_detect_raise(t->ctx);
    (void)ftk_fail_mpi(mrc, "a tally");
    return FTKIT_ERR_PEER;
}

/* ---- messages ------------------------------------------------------------------------- */

static int post(struct ftk_tally *t, int to, uint64_t round, int up, const struct ftk_vote *v)
{
    struct outgoing *o = calloc(1, sizeof *o);
    if (!o)
        return ftk_fail(FTKIT_ERR_NOMEM, "a message of a tally");
    o->l = (struct message){ .round = round, .up = up, .vote = *v };
    int rc = MPI_Isend(&o->l, sizeof o->l, MPI_BYTE, to, FTK_TAG_TALLY, t->comm, &o->req);
    if (rc != MPI_SUCCESS) {
        free(o);
        return failed(t, rc);
    }
    o->next = t->out;
    t->out = o;
    return FTKIT_OK;
}

static int inform_kids(struct ftk_tally *t, const struct round *r)
{
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < nkids(t); i++)
        rc = post(t, 2 * t->ctx->rank + 1 + i, r->number, DOWN, &r->vote);
    return rc;
}

static int reap(struct ftk_tally *t)
{
    for (struct outgoing **p = &t->out; *p;) {
        struct outgoing *o = *p;
        int done = 0;
        int rc = MPI_Test(&o->req, &done, MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS || done) {
            *p = o->next;
            free(o);
        } else {
            p = &o->next;
        }
        if (rc != MPI_SUCCESS)
            return failed(t, rc);
    }
    return FTKIT_OK;
}

static int listen(struct ftk_tally *t)
{
    int rc = MPI_Irecv(
        &t->arrived, sizeof t->arrived, MPI_BYTE, MPI_ANY_SOURCE, FTK_TAG_TALLY, t->comm, &t->in);
    if (rc == MPI_SUCCESS)
        return FTKIT_OK;
    t->in = MPI_REQUEST_NULL;
    return failed(t, rc);
}

/* ---- rounds -------------------------------------------------------------------------- */

static struct round *find(const struct ftk_tally *t, uint64_t number)
{
    for (int i = 0; i < ROUNDS; i++)
        if (t->rounds[i].number == number)
            return (struct round *)&t->rounds[i];
    return NULL;
}

/* The round of that number, a new one if need be: the oldest one that is over makes room. */
static struct round *round_of(struct ftk_tally *t, uint64_t number)
{
    struct round *r = find(t, number);
    if (r)
        return r;
    for (int i = 0; i < ROUNDS; i++) {
        struct round *s = &t->rounds[i];
        if (s->number == 0)
            r = s;
        else if (s->over && (!r || (r->number > s->number && r->number != 0)))
            r = s;
    }
    if (!r)
        return NULL;
    memset(r, 0, sizeof *r);
    r->number = number;
    ftk_vote_init(&r->vote);
    r->vote.voters = 0;
    return r;
}

static int over(struct ftk_tally *t, struct round *r, const struct ftk_vote *v, bool inform)
{
    r->vote = *v;
    r->over = true;
    return inform ? inform_kids(t, r) : FTKIT_OK;
}

static int add(struct ftk_tally *t, struct round *r, const struct ftk_vote *v, int up)
{
    r->vote.voters += v->voters;
    for (int w = 0; w < FTK_VOTE_WORDS; w++)
        if (v->min[w] < r->vote.min[w])
            r->vote.min[w] = v->min[w];
    r->said++;
    if (r->said < 1 + nkids(t))
        return FTKIT_OK;
    const struct ftk_vote all = r->vote;
    if (r->over) /* rank 0 has ended the round */
        return FTKIT_OK;
    if (t->ctx->rank > 0) {
        r->over = up == UP_ONLY; /* nothing more will come */
        return post(t, parent_of(t->ctx->rank), r->number, up, &all);
    }
    if (all.voters != t->ctx->nranks)
        return failed(t, MPI_ERR_OTHER);
    return over(t, r, &all, up == UP);
}

int ftk_tally_ask(struct ftk_tally *t, int64_t number)
{
    struct ftk_vote v;
    ftk_vote_init(&v);
    v.min[0] = number;
    if (t->ctx->rank > 0)
        return post(t, parent_of(t->ctx->rank), UINT64_MAX, ASK, &v);
    t->asked = number > t->asked ? number : t->asked;
    return FTKIT_OK;
}

int64_t ftk_tally_asked(struct ftk_tally *t)
{
    const int64_t asked = t->asked;
    t->asked = 0;
    return asked;
}

static int take(struct ftk_tally *t, const struct message *l)
{
    if (l->up == ASK)
        return ftk_tally_ask(t, l->vote.min[0]);
    struct round *r = l->round < t->least ? NULL : round_of(t, l->round);
    if (l->round < t->least)
        return FTKIT_OK;
    if (!r)
        return ftk_fail(FTKIT_ERR_INTERNAL, "too many rounds of tallies");
    return l->up == DOWN ? over(t, r, &l->vote, true) : add(t, r, &l->vote, (int)l->up);
}

/* ---- for the rest of ftkit ----------------------------------------------------------- */

struct ftk_tally *ftk_tally_open(struct ftkit_ctx *ctx)
{
    struct ftk_tally *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->ctx = ctx;
    t->comm = ctx->comms.act;
    t->least = 1;
    (void)listen(t); /* after a failure the repair opens another one */
    return t;
}

void ftk_tally_close(struct ftk_tally *t)
{
    if (!t)
        return;
    if (t->in != MPI_REQUEST_NULL) {
        (void)MPI_Cancel(&t->in); /* an error: it has ended already */
        (void)MPI_Wait(&t->in, MPI_STATUS_IGNORE);
    }
    while (t->out) {
        struct outgoing *o = t->out;
        t->out = o->next;
        ftk_leave_send(&o->req, o); /* a message is small: it is over, or its receiver is gone */
    }
    free(t);
}

int ftk_tally_say(struct ftk_tally *t, uint64_t round, const struct ftk_vote *v, bool up_only)
{
    struct round *r = round_of(t, round);
    if (!r || r->own)
        return ftk_fail(
            FTKIT_ERR_INTERNAL, "a round of a tally comes twice, or there are too many");
    r->own = true;
    return add(t, r, v, up_only ? UP_ONLY : UP);
}

int ftk_tally_announce(struct ftk_tally *t, uint64_t round, const struct ftk_vote *v)
{
    struct round *r = round_of(t, round);
    return r ? over(t, r, v, true) : ftk_fail(FTKIT_ERR_INTERNAL, "too many rounds of tallies");
}

bool ftk_tally_announced(const struct ftk_tally *t, uint64_t *round, struct ftk_vote *v)
{
    *round = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const struct round *r = &t->rounds[i];
        if (!r->over || r->vote.voters != 0 || r->number <= *round)
            continue;
        *round = r->number;
        *v = r->vote;
    }
    return *round > 0;
}

bool ftk_tally_heard(const struct ftk_tally *t, uint64_t round, struct ftk_vote *v)
{
    const struct round *r = find(t, round);
    if (!r || !r->over)
        return false;
    *v = r->vote;
    return true;
}

void ftk_tally_void(struct ftk_tally *t, uint64_t below)
{
    if (below <= t->least)
        return;
    t->least = below;
    for (int i = 0; i < ROUNDS; i++)
        if (t->rounds[i].number < below)
            memset(&t->rounds[i], 0, sizeof t->rounds[i]);
}

int ftk_tally_poll(struct ftk_tally *t)
{
    int rc = t->out ? reap(t) : FTKIT_OK;
    int done = t->in != MPI_REQUEST_NULL;
    while (rc == FTKIT_OK && done) {
        int mrc = MPI_Test(&t->in, &done, MPI_STATUS_IGNORE);
        if (mrc != MPI_SUCCESS)
            return failed(t, mrc);
        if (!done)
            break;
        const struct message l = t->arrived;
        rc = listen(t);
        if (rc == FTKIT_OK)
            rc = take(t, &l);
    }
    return rc;
}
