/* Parity groups at work (see coding.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "coding.h"

#define ALIGN 64u
#define REQUESTS (2 * FTK_GROUP_MAX)

/* A stripe that is being worked on. */
struct ftk_coding_slot {
    uint64_t stripe;
    bool open, computed;
    int worker;
    size_t bytes; /* of its longest element, rounded up */
    int nin, nout;
    int in[FTK_GROUP_MAX], out[FTK_GROUP_MAX]; /* elements */
    unsigned char *src[FTK_GROUP_MAX], *dst[FTK_GROUP_MAX];
    unsigned char *work; /* n blocks */
    int nreq;
    MPI_Request req[REQUESTS];
};

int ftk_coding_begin(struct ftk_coding *c, int me)
{
    size_t blocks = 1 + (size_t)FTK_CODING_OPEN * (size_t)c->code.n;
    size_t bytes = blocks * (size_t)c->code.block;
    c->me = me;
    c->next = 0;
    c->solved = 0;
    c->slots = calloc(FTK_CODING_OPEN, sizeof *c->slots);
    c->solver = malloc(sizeof *c->solver);
    c->work = aligned_alloc(ALIGN, bytes > 0 ? bytes : ALIGN);
    if (!c->slots || !c->solver || !c->work || FTK_FAULT("coding.alloc"))
        return ftk_fail(FTKIT_ERR_NOMEM, "work space of a parity group");
    memset(c->work, 0, (size_t)c->code.block);
    for (int i = 0; i < FTK_CODING_OPEN; i++)
        c->slots[i].work = c->work + (1 + (size_t)i * (size_t)c->code.n) * (size_t)c->code.block;
    return FTKIT_OK;
}

void ftk_coding_end(struct ftk_coding *c, struct ftk_chan *ch)
{
    /* after a failure the communicator is revoked and every request ends */
    for (int i = 0; c->slots && i < FTK_CODING_OPEN; i++)
        if (c->slots[i].open)
            (void)ftk_chan_wait(ch, c->slots[i].req, c->slots[i].nreq, "parity");
    free(c->slots);
    free(c->solver);
    free(c->work);
    c->slots = NULL;
    c->solver = NULL;
    c->work = NULL;
}

/* ---- updates ------------------------------------------------------------------------- */

void ftk_coding_update(struct ftk_coding *c, const struct ftk_coding_delta *delta)
{
    c->delta = delta;
    for (int i = 0; i < c->code.n; i++)
        c->code.len[i] = delta->now[i] > delta->was[i] ? delta->now[i] : delta->was[i];
}

/* Whether an element of the data has changed.  A block behind the end of the present object has
 * changed: the base had bytes there. */
static bool has_changed(const struct ftk_coding_delta *delta, const struct ftk_element *e)
{
    size_t block = (size_t)(e->offset / FTK_SEG_BLOCK);
    return e->bytes > 0
           && (ftk_block_bytes(delta->now[e->member], block) == 0
               || ftk_mask_has(delta->masks[e->member], block));
}

static bool stripe_has_changed(const struct ftk_coding *c, uint64_t stripe)
{
    for (int d = c->code.m; d < c->code.n; d++) {
        struct ftk_element e = ftk_code_element(&c->code, stripe, d);
        if (has_changed(c->delta, &e))
            return true;
    }
    return false;
}

/* Return element d of a stripe with the bytes that travel: an update sends no unchanged element. */
static struct ftk_element element(const struct ftk_coding *c, uint64_t stripe, int d)
{
    struct ftk_element e = ftk_code_element(&c->code, stripe, d);
    if (c->delta && !(e.parity ? stripe_has_changed(c, stripe) : has_changed(c->delta, &e)))
        e.bytes = 0;
    return e;
}

static size_t part_of(const struct ftk_element *e, uint64_t len)
{
    uint64_t left = e->offset < len ? len - e->offset : 0;
    return (size_t)(left < e->bytes ? left : e->bytes);
}

/* Compute the difference between an element of this process and the same element of the base.  The
 * lengths of the two may differ. */
static void difference(const struct ftk_coding *c, const struct ftk_element *e, unsigned char *to)
{
    const struct ftk_coding_delta *delta = c->delta;
    size_t now = part_of(e, delta->now[e->member]);
    memcpy(to, c->member[e->member].data + e->offset, now);
    memset(to + now, 0, (size_t)e->bytes - now);
    ftk_code_add(to, delta->base + e->offset, part_of(e, delta->was[e->member]));
}

/* ---- elements and worker of a stripe: the same on every process ------------------------ */

static int place_of(const struct ftk_coding *c, const struct ftk_element *e)
{
    const struct ftk_coding_member *m = &c->member[e->member];
    return e->parity ? m->parity_at : m->data_at;
}

static int target_of(const struct ftk_coding *c, const struct ftk_element *e)
{
    const struct ftk_coding_member *m = &c->member[e->member];
    return e->parity ? m->parity_to : m->data_to;
}

static char *memory_of(const struct ftk_coding *c, const struct ftk_element *e)
{
    const struct ftk_coding_member *m = &c->member[e->member];
    return (e->parity ? m->parity : m->data) + e->offset;
}

/* Choose the wanted elements, and the first k elements that a process has, data before parity.
 * False: no element is wanted, or fewer than k are there. */
static bool choose_elements(const struct ftk_coding *c, struct ftk_coding_slot *s)
{
    int k = c->code.n - c->code.m;
    s->nin = s->nout = 0;
    for (int i = 0; i < c->code.n; i++) {
        int d = (i + c->code.m) % c->code.n;
        struct ftk_element e = element(c, s->stripe, d);
        if (e.bytes > 0 && target_of(c, &e) >= 0)
            s->out[s->nout++] = d;
        else if (s->nin < k && (place_of(c, &e) >= 0 || (e.bytes == 0 && !e.parity)))
            s->in[s->nin++] = d;
    }
    return s->nout > 0 && s->nin == k;
}

/* If all parities of a stripe are computed, the worker is the process of the first parity: that
 * parity needs no transfer.  Otherwise the processes that have elements take turns as worker. */
static int choose_worker(const struct ftk_coding *c, const struct ftk_coding_slot *s)
{
    struct ftk_element first = element(c, s->stripe, s->out[0]);
    int candidates[FTK_GROUP_MAX], n = 0;
    for (int i = 0; i < s->nin; i++) {
        struct ftk_element e = element(c, s->stripe, s->in[i]);
        if (e.bytes > 0 && place_of(c, &e) >= 0)
            candidates[n++] = place_of(c, &e);
    }
    bool encoding = first.parity && s->nout == c->code.m;
    uint64_t turn = s->stripe / (uint64_t)c->code.n + s->stripe % (uint64_t)c->code.n;
    if (encoding || n == 0)
        return target_of(c, &first);
    return candidates[turn % (uint64_t)n];
}

static bool have_data(const struct ftk_coding *c, uint64_t stripe)
{
    for (int d = c->code.m; d < c->code.n; d++) {
        struct ftk_element e = element(c, stripe, d);
        if (e.bytes > 0 && place_of(c, &e) == c->me && e.offset + e.bytes > c->ready)
            return false;
    }
    return true;
}

/* ---- one stripe ---------------------------------------------------------------------- */

static int post_block(struct ftk_coding *c, struct ftk_chan *ch, struct ftk_coding_slot *s,
    bool send, int peer, int d, const struct ftk_element *e, void *buf)
{
    MPI_Request *req = &s->req[s->nreq++];
    int tag = c->tag + (int)((s->stripe * FTK_GROUP_MAX + (uint64_t)d) % (uint64_t)FTK_TAG_CODING);
    int rc = send ? MPI_Isend(buf, (int)e->bytes, MPI_BYTE, peer, tag, ch->comm, req)
                  : MPI_Irecv(buf, (int)e->bytes, MPI_BYTE, peer, tag, ch->comm, req);
    ch->sent += send ? e->bytes : 0;
    if (rc == MPI_SUCCESS)
        return FTKIT_OK;
    *req = MPI_REQUEST_NULL;
    return ftk_chan_break(ch, rc, "parity");
}

/* Get input i of the worker: in place if the worker has s->bytes bytes of it, else in the work
 * space. */
static int fetch(struct ftk_coding *c, struct ftk_chan *ch, struct ftk_coding_slot *s, int i)
{
    struct ftk_element e = element(c, s->stripe, s->in[i]);
    unsigned char *own = s->work + (size_t)i * (size_t)c->code.block;
    int rc = FTKIT_OK;
    s->src[i] = own;
    if (e.bytes == 0) {
        s->src[i] = c->work; /* zeros */
        return FTKIT_OK;
    }
    if (place_of(c, &e) != c->me)
        rc = post_block(c, ch, s, false, place_of(c, &e), s->in[i], &e, own);
    else if (c->delta)
        difference(c, &e, own);
    else if (e.bytes == s->bytes) {
        s->src[i] = (unsigned char *)memory_of(c, &e);
        return FTKIT_OK;
    } else
        memcpy(own, memory_of(c, &e), (size_t)e.bytes);
    memset(own + e.bytes, 0, s->bytes - (size_t)e.bytes);
    return rc;
}

/* Choose where the worker computes output o: in place if s->bytes bytes fit there, else in the work
 * space. */
static void place_result(struct ftk_coding *c, struct ftk_coding_slot *s, int o)
{
    struct ftk_element e = element(c, s->stripe, s->out[o]);
    bool here = target_of(c, &e) == c->me && !c->delta && (e.parity || e.bytes == s->bytes);
    s->dst[o] = here ? (unsigned char *)memory_of(c, &e)
                     : s->work + (size_t)(s->nin + o) * (size_t)c->code.block;
}

/* A parity fills its block, even if the data are shorter: clear the rest of the block. */
static void clear_rest(const struct ftk_coding *c, const struct ftk_element *e)
{
    if (e->parity && !c->delta)
        memset(memory_of(c, e) + e->bytes, 0, (size_t)(c->code.block - e->bytes));
}

/* Return the bytes of an element that this process sends to the worker. */
static void *give(
    const struct ftk_coding *c, const struct ftk_coding_slot *s, const struct ftk_element *e)
{
    if (!c->delta)
        return memory_of(c, e);
    difference(c, e, s->work);
    return s->work;
}

static int start(struct ftk_coding *c, struct ftk_chan *ch, struct ftk_coding_slot *s)
{
    int rc = FTKIT_OK;
    s->nreq = 0;
    s->computed = s->worker != c->me;
    s->bytes = (size_t)(ftk_code_stripe_bytes(&c->code, s->stripe) + ALIGN - 1) / ALIGN * ALIGN;
    for (int i = 0; rc == FTKIT_OK && i < s->nin; i++) {
        struct ftk_element e = element(c, s->stripe, s->in[i]);
        if (s->worker == c->me)
            rc = fetch(c, ch, s, i);
        else if (e.bytes > 0 && place_of(c, &e) == c->me)
            rc = post_block(c, ch, s, true, s->worker, s->in[i], &e, give(c, s, &e));
    }
    for (int o = 0; rc == FTKIT_OK && o < s->nout; o++) {
        struct ftk_element e = element(c, s->stripe, s->out[o]);
        if (s->worker == c->me)
            place_result(c, s, o);
        else if (target_of(c, &e) == c->me)
            rc = post_block(c, ch, s, false, s->worker, s->out[o], &e,
                c->delta ? (void *)s->work : memory_of(c, &e));
        if (target_of(c, &e) == c->me)
            clear_rest(c, &e);
    }
    return rc;
}

static int solve(struct ftk_coding *c, const struct ftk_coding_slot *s)
{
    uint64_t pattern = 0;
    for (int i = 0; i < s->nin; i++)
        pattern |= UINT64_C(1) << s->in[i];
    for (int o = 0; o < s->nout; o++)
        pattern |= UINT64_C(1) << (FTK_GROUP_MAX + s->out[o]);
    if (pattern == c->solved)
        return FTKIT_OK;
    c->solved = pattern;
    return ftk_code_solve(c->solver, c->code.n, c->code.m, s->in, s->out, s->nout);
}

static int compute(struct ftk_coding *c, struct ftk_chan *ch, struct ftk_coding_slot *s)
{
    int rc = solve(c, s);
    if (rc != FTKIT_OK)
        return ftk_chan_break(ch, MPI_ERR_INTERN, ftk_detail_text());
    ftk_code_apply(c->solver, s->bytes, s->src, s->dst);
    s->computed = true;
    s->nreq = 0;
    for (int o = 0; rc == FTKIT_OK && o < s->nout; o++) {
        struct ftk_element e = element(c, s->stripe, s->out[o]);
        int to = target_of(c, &e);
        if (to != c->me)
            rc = post_block(c, ch, s, true, to, s->out[o], &e, s->dst[o]);
        else if (c->delta)
            ftk_code_add(memory_of(c, &e), s->dst[o], (size_t)e.bytes);
        else if (s->dst[o] != (unsigned char *)memory_of(c, &e))
            memcpy(memory_of(c, &e), s->dst[o], (size_t)e.bytes);
        if (to == c->me)
            clear_rest(c, &e);
    }
    return rc;
}

/* ---- all stripes --------------------------------------------------------------------- */

static bool takes_part(const struct ftk_coding *c, const struct ftk_coding_slot *s)
{
    if (s->worker == c->me)
        return true;
    for (int i = 0; i < s->nin; i++) {
        struct ftk_element e = element(c, s->stripe, s->in[i]);
        if (e.bytes > 0 && place_of(c, &e) == c->me)
            return true;
    }
    for (int o = 0; o < s->nout; o++) {
        struct ftk_element e = element(c, s->stripe, s->out[o]);
        if (target_of(c, &e) == c->me)
            return true;
    }
    return false;
}

/* Clear the parities of a stripe without data. */
static void clear_parity(const struct ftk_coding *c, uint64_t stripe)
{
    for (int d = 0; d < c->code.m && !c->delta; d++) {
        struct ftk_element e = element(c, stripe, d);
        if (e.bytes == 0 && target_of(c, &e) == c->me)
            clear_rest(c, &e);
    }
}

/* Open the next stripe in which this process takes part, if the data of the stripe are ready. */
static int open_next(struct ftk_coding *c, struct ftk_chan *ch, struct ftk_coding_slot *s)
{
    while (c->next < ftk_code_stripes(&c->code)) {
        s->stripe = c->next;
        bool wanted = choose_elements(c, s);
        if (wanted)
            s->worker = choose_worker(c, s);
        else
            clear_parity(c, s->stripe);
        if (wanted && takes_part(c, s)) {
            if (!have_data(c, s->stripe))
                return FTKIT_OK;
            c->next++;
            s->open = true;
            return start(c, ch, s);
        }
        c->next++;
    }
    return FTKIT_OK;
}

/* The difference of a parity has come from the worker: add it to the parity. */
static void take_in(const struct ftk_coding *c, const struct ftk_coding_slot *s)
{
    for (int o = 0; c->delta && s->worker != c->me && o < s->nout; o++) {
        struct ftk_element e = element(c, s->stripe, s->out[o]);
        if (target_of(c, &e) == c->me)
            ftk_code_add(memory_of(c, &e), s->work, (size_t)e.bytes);
    }
}

static int advance(
    struct ftk_coding *c, struct ftk_chan *ch, struct ftk_coding_slot *s, bool *moved)
{
    bool all = false;
    int rc = s->open ? FTKIT_OK : open_next(c, ch, s);
    if (rc != FTKIT_OK || !s->open)
        return rc;
    rc = ftk_chan_test(ch, s->req, s->nreq, "parity", &all);
    if (rc == FTKIT_OK && all && !s->computed) {
        *moved = true;
        rc = compute(c, ch, s);
        if (rc == FTKIT_OK)
            rc = ftk_chan_test(ch, s->req, s->nreq, "parity", &all);
    }
    if (rc == FTKIT_OK && all && s->computed) {
        *moved = true;
        take_in(c, s);
        s->open = false;
    }
    return rc;
}

int ftk_coding_progress(struct ftk_coding *c, struct ftk_chan *ch, bool *idle, bool *done)
{
    bool moved = false;
    int rc = FTKIT_OK;
    *done = true;
    for (int i = 0; rc == FTKIT_OK && i < FTK_CODING_OPEN; i++)
        rc = advance(c, ch, &c->slots[i], &moved);
    for (int i = 0; i < FTK_CODING_OPEN; i++)
        *done = *done && !c->slots[i].open;
    *done = *done && c->next == ftk_code_stripes(&c->code);
    *idle = !moved;
    return rc;
}

int ftk_coding_run(struct ftk_coding *c, struct ftk_chan *ch)
{
    unsigned turns = 0;
    bool idle = false, done = false;
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && !done) {
        rc = ftk_coding_progress(c, ch, &idle, &done);
        if (idle)
            ftk_chan_progress(ch, &turns);
    }
    return rc;
}
