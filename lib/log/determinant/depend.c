/* Gates in a replay (see gate.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "core/mpi_shim.h"
#include "detect/detect.h"
#include "log/gate.h"
#include "log/p2p.h"
#include "log/post.h"

/* A letter on the wire, in words: this, then a rank and how far it had come, n times. */
struct head {
    uint64_t lines, tag, calls, n;
};
enum { HEAD_WORDS = sizeof(struct head) / 8, COUNTS = FTK_GATE_COUNTS, WORDS = FTK_GATE_WORDS };

static struct {
    int n;                  /* ranks; 0: not open */
    /* by the parity of the line: others may be beyond the next one already */
    uint64_t *known[2];     /* [n * COUNTS] how far each rank is known to have come */
    uint64_t calls[2];      /* calls of ftkit, the same */
    uint64_t made[COUNTS];  /* how far this rank has come since the line */
    bool shut;              /* this rank has gone back since then */
    struct ftk_letter **first, **last; /* [n] of each source, in order */
    unsigned *mark, serial; /* [n] sources that are passed over in one search: serial */
    uint64_t *words;        /* the letter that is being written */
    uint64_t waited;        /* messages that were held back, since the line */
} g;

int ftk_gate_enter(int n)
{
    size_t k = (size_t)n;
    if (!ftk_log.gates || g.n > 0)
        return FTKIT_OK;
    g.known[0] = calloc(2 * k, COUNTS * sizeof *g.known[0]);
    g.known[1] = g.known[0] ? g.known[0] + k * COUNTS : NULL;
    g.first = calloc(2 * k, sizeof(struct ftk_letter *));
    g.last = g.first ? g.first + k : NULL;
    g.mark = calloc(k, sizeof *g.mark);
    g.words = calloc(HEAD_WORDS + k * WORDS, sizeof *g.words);
    if (!g.known[0] || !g.first || !g.mark || !g.words)
        return ftk_fail(FTKIT_ERR_NOMEM, "gates of the message log");
    g.n = n;
    return FTKIT_OK;
}

static void drop_letters(void)
{
    for (int s = 0; s < g.n; s++) {
        while (g.first[s]) {
            struct ftk_letter *l = g.first[s];
            g.first[s] = l->next;
            free(l);
        }
        g.last[s] = NULL;
    }
}

void ftk_gate_close(void)
{
    drop_letters();
    free(g.known[0]);
    free(g.first);
    free(g.mark);
    free(g.words);
    memset(&g, 0, sizeof g);
}

/* ---- what is known -----------------------------------------------------------------------------*/

static int parity(void)
{
    return (int)(ftk_log.lines & 1);
}

void ftk_gate_step(bool internal)
{
    g.made[internal ? FTK_GATE_COLLS : FTK_GATE_SENDS]++;
}

static void merge(const struct ftk_letter *l)
{
    int i = (int)(l->lines & 1);
    if (l->lines != ftk_log.lines && l->lines != ftk_log.lines + 1)
        return; /* from before the line: all that it knows is over */
    for (size_t k = 0; k < l->n; k++) {
        const uint64_t *v = l->v + k * WORDS;
        uint64_t *at = g.known[i] + v[0] * COUNTS;
        for (int c = 0; c < COUNTS; c++)
            at[c] = v[1 + c] > at[c] ? v[1 + c] : at[c];
    }
    if (l->calls > g.calls[i])
        g.calls[i] = l->calls;
}

/* The letter of a message that goes out now; its words. */
static size_t write_letter(int tag)
{
    const uint64_t *known = g.known[parity()];
    struct head h = { .lines = ftk_log.lines, .tag = (uint64_t)tag, .calls = ftk_log.seq };
    uint64_t *w = g.words + HEAD_WORDS;
    if (g.calls[parity()] > h.calls)
        h.calls = g.calls[parity()];
    for (int r = 0; r < g.n; r++) {
        const uint64_t *far = r == ftk_log.me ? g.made : known + (size_t)r * COUNTS;
        if (far[FTK_GATE_SENDS] == 0 && far[FTK_GATE_COLLS] == 0)
            continue;
        *w = (uint64_t)r;
        memcpy(w + 1, far, COUNTS * sizeof *far);
        w += WORDS;
        h.n++;
    }
    memcpy(g.words, &h, sizeof h);
    return (size_t)(w - g.words);
}

int ftk_gate_keep(struct ftk_entry *e)
{
    if (!ftk_log.gates)
        return MPI_SUCCESS;
    size_t words = write_letter(ftk_context_wire(e->context, e->tag));
    e->letter = ftk_keep_words(words);
    if (!e->letter)
        return MPI_ERR_NO_MEM;
    e->letter_words = words;
    memcpy(e->letter, g.words, words * sizeof *e->letter);
    return MPI_SUCCESS;
}

int ftk_gate_send(int dest, int context, int tag, const struct ftk_entry *e)
{
    if (dest == ftk_log.me)
        return MPI_SUCCESS;
    size_t words = e ? e->letter_words : write_letter(ftk_context_wire(context, tag));
    return ftk_post(e ? e->letter : g.words, words, dest, FTK_POST_TAG, context);
}

/* ---- letters that come ----------------------------------------------------------------------------*/

/* Nothing is trusted that could write where it should not. */
static struct ftk_letter *read_letter(const uint64_t *w, size_t words, int context, int source)
{
    struct head h;
    if (words < HEAD_WORDS)
        return NULL;
    memcpy(&h, w, sizeof h);
    if (h.n > (words - HEAD_WORDS) / WORDS)
        return NULL;
    for (uint64_t i = 0; i < h.n; i++)
        if (w[HEAD_WORDS + i * WORDS] >= (uint64_t)g.n)
            return NULL;
    size_t bytes = (size_t)h.n * WORDS * sizeof *w;
    struct ftk_letter *l = malloc(sizeof *l + bytes);
    if (!l)
        return NULL;
    context = ftk_context_of(ftk_context_channel(context), (int)h.tag);
    *l = (struct ftk_letter){ .context = context, .source = source, .tag = (int)h.tag,
        .lines = h.lines, .calls = h.calls, .n = (size_t)h.n };
    memcpy(l->v, w + HEAD_WORDS, bytes);
    return l;
}

int ftk_gate_take(int context, MPI_Message *m, const MPI_Status *s)
{
    uint64_t *w;
    size_t words;
    struct ftk_letter *l = NULL;
    int rc = ftk_post_take(context, m, s, &w, &words);
    if (rc == MPI_SUCCESS) {
        l = read_letter(w, words, context, s->MPI_SOURCE);
        rc = l ? MPI_SUCCESS : MPI_ERR_INTERN;
    }
    free(w);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!g.shut) {
        merge(l);
        free(l);
        return rc;
    }
    struct ftk_letter **at = g.last[l->source] ? &g.last[l->source]->next : &g.first[l->source];
    *at = g.last[l->source] = l;
    return rc;
}

/* The next letter of a source that is in the MPI's queue. */
static int take_next(int context, int source, int *found)
{
    MPI_Message m;
    MPI_Status s;
    int rc = PMPI_Improbe(source, FTK_POST_TAG, ftk_log_real(context), found, &m, &s);
    return rc == MPI_SUCCESS && *found ? ftk_gate_take(context, &m, &s) : rc;
}

int ftk_gate_learn(int context, int source)
{
    int found = source != ftk_log.me, rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && found)
        rc = take_next(context, source, &found);
    return rc;
}

/* Letters are in the order of their messages: the first of a stream is that of the first
 * message that has not been drawn. */
static struct ftk_letter *pair(const struct ftk_held *h)
{
    struct ftk_letter *before = NULL;
    for (struct ftk_letter *l = g.first[h->source]; l; before = l, l = l->next) {
        if (l->context != h->context || l->tag != ftk_context_wire(h->context, h->tag))
            continue;
        if (before)
            before->next = l->next;
        else
            g.first[h->source] = l->next;
        if (g.last[h->source] == l)
            g.last[h->source] = before;
        l->next = NULL;
        return l;
    }
    return NULL;
}

int ftk_gate_drawn(struct ftk_held *h)
{
    int found = 1, rc = MPI_SUCCESS;
    if (!ftk_log.gates || h->source == ftk_log.me)
        return MPI_SUCCESS;
    if (!g.shut)
        return ftk_gate_learn(h->context, h->source);
    while (rc == MPI_SUCCESS && found && !h->letter) {
        h->letter = pair(h);
        if (!h->letter)
            rc = take_next(h->context, h->source, &found);
    }
    return rc != MPI_SUCCESS || h->letter ? rc : MPI_ERR_INTERN; /* it came before it */
}

/* ---- the gates ------------------------------------------------------------------------------------------*/

bool ftk_gate_here(void)
{
    return g.shut && !ftk_log.reborn;
}

/* What a receive or a probe asks for; stamp: receives posted before it come before it. */
struct asks {
    int context, source, tag;
    uint64_t stamp;
};

static bool fits(const struct ftk_held *h, const struct asks *a)
{
    return h->context == a->context && (a->source == MPI_ANY_SOURCE || h->source == a->source)
        && (a->tag == MPI_ANY_TAG || h->tag == a->tag);
}

static struct asks asks_of(const struct ftk_req *r)
{
    return (struct asks){ r->context, r->from, r->with, r->stamp };
}

static bool open_for(struct ftk_held *h)
{
    const struct ftk_letter *l = h->letter;
    static const uint64_t nothing[COUNTS];
    const uint64_t *far = nothing;
    if (!l || l->lines != ftk_log.lines || FTK_FAULT("log.gate"))
        return true;
    for (size_t i = 0; i < l->n; i++)
        far = l->v[i * WORDS] == (uint64_t)ftk_log.me ? l->v + i * WORDS + 1 : far;
    if (g.made[FTK_GATE_SENDS] >= far[FTK_GATE_SENDS]
        && g.made[FTK_GATE_COLLS] >= far[FTK_GATE_COLLS] && ftk_log.seq >= l->calls)
        return true;
    if (!h->waited && g.waited++ == 0)
        ftk_event("context %s: rank %d: a message of rank %d with tag %d waits until %llu sends and "
                  "%llu of collectives have been made: %llu, %llu", ftk_log.ctx->cfg.name, ftk_log.me,
            h->source, h->tag, (unsigned long long)far[0], (unsigned long long)far[1],
            (unsigned long long)g.made[0], (unsigned long long)g.made[1]);
    h->waited = true;
    return false;
}

/* Whether a receive that was posted before would be given it. */
static bool is_promised(const struct ftk_held *h, const struct asks *a)
{
    for (const struct ftk_req *q = ftk_log.first; q && q->stamp < a->stamp; q = q->next) {
        struct asks other = asks_of(q);
        if (q->probed && fits(h, &other))
            return true;
    }
    return false;
}

/* What is held and can be given; sources of which nothing can be are marked. */
static struct ftk_held *pick(const struct asks *a)
{
    g.serial++; /* nothing is marked any more */
    for (struct ftk_held *h = ftk_log.held_first; h; h = h->next) {
        if (!fits(h, a) || g.mark[h->source] == g.serial)
            continue;
        if (!is_promised(h, a) && open_for(h))
            return h;
        g.mark[h->source] = g.serial; /* what comes behind it must not overtake it */
    }
    return NULL;
}

static void pass(struct ftk_held *h)
{
    if (h->letter)
        merge(h->letter);
    free(h->letter);
    h->letter = NULL;
}

static int give(struct ftk_req *r, struct ftk_held *h)
{
    pass(h);
    ftk_held_take(h);
    (void)FTK_FAULT("log.received");
    int rc = ftk_p2p_journal(h, r->stamp);
    if (rc == MPI_SUCCESS)
        return ftk_log.requests->deliver(r, h);
    ftk_held_free(h);
    return ftk_log.requests->fail(r, rc);
}

/* Receives that were posted before get theirs first. */
static void give_before(uint64_t stamp)
{
    for (struct ftk_req *q = ftk_log.first, *next; q && q->stamp < stamp; q = next) {
        next = q->next;
        if (ftk_log.nheld == 0)
            return;
        if (!q->probed)
            continue;
        struct asks a = asks_of(q);
        struct ftk_held *h = pick(&a);
        if (h)
            (void)give(q, h); /* its owner gets the error with the request */
    }
}

/* One message from a source; letters may come before it.  Of a communicator that contexts
 * share it may be one that another receive waits for: who has gates looks for what it gets
 * among what is held. */
static int draw(const struct asks *a, int source, bool *found)
{
    for (;;) {
        MPI_Message m;
        MPI_Status s;
        struct ftk_held *h = NULL;
        int flag = 0;
        int tag = a->tag == MPI_ANY_TAG ? a->tag : ftk_context_wire(a->context, a->tag);
        int rc = PMPI_Improbe(source, tag, ftk_log_real(a->context), &flag, &m, &s);
        *found = false;
        if (rc != MPI_SUCCESS || !flag)
            return rc;
        if (s.MPI_TAG == FTK_POST_TAG) {
            rc = ftk_gate_take(a->context, &m, &s);
            if (rc != MPI_SUCCESS)
                return rc;
            continue;
        }
        rc = ftk_log.requests->draw(a->context, &m, &s, &h);
        if (rc == MPI_SUCCESS)
            ftk_held_add(h);
        *found = rc == MPI_SUCCESS;
        return rc;
    }
}

/* Draw from a source until there is something, or what comes has to wait. */
static int draw_from(const struct asks *a, int source, struct ftk_held **h)
{
    bool found = true;
    while (!*h && found && g.mark[source] != g.serial) {
        int rc = draw(a, source, &found);
        if (rc != MPI_SUCCESS)
            return rc;
        if (!found)
            return rc;
        give_before(a->stamp);
        *h = pick(a);
    }
    return MPI_SUCCESS;
}

/* After a failure the repair draws what is whole, of those that live. */
static bool can_draw(void)
{
    const struct ftk_log *l = &ftk_log;
    return !l->falling && !l->ctx->failed && !l->ctx->repairing;
}

static int seek(const struct asks *a, struct ftk_held **h)
{
    int rc = MPI_SUCCESS;
    give_before(a->stamp);
    *h = pick(a);
    for (int s = 0; rc == MPI_SUCCESS && !*h && s < g.n; s++)
        if ((a->source == MPI_ANY_SOURCE || a->source == s) && can_draw())
            rc = draw_from(a, s, h);
    if (rc == MPI_SUCCESS || !ftk_p2p_is_failure(rc))
        return rc;
    ftk_detect_raise(ftk_log.ctx);
    return MPI_SUCCESS;
}

int ftk_gate_receive(struct ftk_req *r)
{
    struct asks a = asks_of(r);
    struct ftk_held *h;
    int rc = seek(&a, &h);
    if (rc != MPI_SUCCESS)
        return ftk_log.requests->fail(r, rc);
    return h ? give(r, h) : MPI_SUCCESS;
}

int ftk_gate_probe(int context, int source, int tag, bool out, struct ftk_held **h)
{
    struct asks a = { context, source, tag, UINT64_MAX };
    int rc = seek(&a, h);
    if (rc != MPI_SUCCESS || !*h)
        return rc;
    pass(*h);
    if (out)
        ftk_held_take(*h);
    return rc;
}

/* ---- lines and failures ------------------------------------------------------------------------------------*/

static void begin_again(void)
{
    memset(g.made, 0, sizeof g.made);
    g.waited = 0;
}

void ftk_gate_line(void)
{
    int old = !parity();
    if (g.n == 0)
        return;
    if (g.waited > 0)
        ftk_event("context %s: rank %d: %llu messages have waited for their time",
            ftk_log.ctx->cfg.name, ftk_log.me, (unsigned long long)g.waited);
    memset(g.known[old], 0, (size_t)g.n * COUNTS * sizeof *g.known[old]);
    g.calls[old] = 0;
    begin_again();
    g.shut = false;
    for (struct ftk_held *h = ftk_log.held_first; h; h = h->next)
        pass(h); /* of the line's other side, or sent since by who was faster */
    drop_letters();
}

void ftk_gate_back(bool gates)
{
    if (g.n == 0)
        return;
    memset(g.known[0], 0, 2 * (size_t)g.n * COUNTS * sizeof *g.known[0]);
    g.calls[0] = g.calls[1] = 0;
    begin_again();
    g.shut = gates;
}

void ftk_gate_installed(void)
{
    drop_letters(); /* of messages that their dead senders never finished */
}
