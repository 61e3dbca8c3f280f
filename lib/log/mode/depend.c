/* Dependency vectors: which order a replay has to keep when nothing is recorded.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * With log.determinants = relaxed the log records no determinants.  The program may receive from
 * any source, probe and test, but what it sends, and in which order, does not depend on the
 * outcome (send-determinism: Cappello, Guermouche & Snir, ICCCN 2010; HydEE of Guermouche et al.,
 * IPDPS 2012, needs no determinants either).  One fault is left to prevent.  A rank that has
 * rolled back gets all messages of the log at once.  A wildcard receive of step 3 could then take
 * a message of step 9, although without the failure that message was sent only after the receiver
 * had passed step 3.
 *
 * So before every message its sender sends, on the same communicator, its dependency vector: for
 * each rank the number of sends which that rank had begun since the line, as far as the sender
 * knows, directly or through other ranks (as in lightweight causal logging after Yang).  Sends of
 * collectives are counted apart, because collectives make progress in the background.
 *
 * A rank that has rolled back delivers a message when the rank itself has begun as many sends as
 * the vector says (the delivery condition).  Until then the message is delayed, and so is every
 * later message of the same source that the same receive could match.  This lasts until the
 * next line.  Other ranks delay no message; they only merge the vectors.
 *
 * The vector counts sends and not wildcard receives.  Other ranks know of a receive only by
 * messages that were sent after it, and by send-determinism the number of a send says where in
 * the program its sender is, in whatever order messages came.  A count of receives would say
 * little: receives that are pending together may complete in any order.  And the condition does
 * not depend on how a receive or a probe was called.
 *
 * No rank waits for ever.  Proof: order all events since the line by their first execution, and
 * take the earliest one that has not been executed again.  A send waits for no delivery
 * condition, and all that its sender had received before it is here again; so the earliest event
 * is the delivery of a message m to R, and m has been sent again.  Assume that m is not
 * deliverable.  Then the vector of m counts a send of R that R began after R had delivered m.  The
 * sender S of m can know of that send only from a message that depends on m.  S delivered that
 * message under a delivery condition, and so did every rank that passed the knowledge on; that
 * condition does not hold before S has sent m.  So S did not know of the send when S sent m: a
 * contradiction.  The proof needs a delivery condition for every receive of a rank that has rolled
 * back, also for receives that name their source and for those of collectives
 * (docs/model/depend.pml).
 *
 * Two limits.  The completion of a synchronous send gives its sender knowledge that no vector
 * contains.  Messages of several collectives under way at once are counted as one sequence. */
#include <stdlib.h>
#include <string.h>

#include "core/mpi_shim.h"
#include "detect/detect.h"
#include "log/mode.h"
#include "log/determinant/set_up.h"
#include "log/base/control.h"
#include "log/base/runtime.h"
#include "log/request/recv.h"

/* What is counted for each rank: sends of the program, and sends of collectives. */
enum { FTK_DEPS_SENDS, FTK_DEPS_COLLS, FTK_DEPS_COUNTS, FTK_DEPS_WORDS = 1 + FTK_DEPS_COUNTS };

/* A dependency vector that has come. */
struct ftk_deps {
    struct ftk_deps *next;    /* of the same source; their messages have not been drained yet */
    int context, source, tag; /* of the message; tag: as it travels */
    uint64_t lines;           /* committed before the message */
    uint64_t calls;           /* collective calls of ftkit since then */
    size_t n;
    uint64_t v[]; /* [n * FTK_DEPS_WORDS] a rank and its counts, n times */
};

/* A vector on the wire, in words of 64 bits: this head, then a rank and its counts, n times. */
struct deps_head {
    uint64_t lines, tag, calls, n;
};
enum {
    HEAD_WORDS = sizeof(struct deps_head) / 8,
    COUNTS = FTK_DEPS_COUNTS,
    WORDS = FTK_DEPS_WORDS
};

static struct {
    int n; /* ranks; 0: not open */
    /* by the parity of the line: other ranks may have passed the next line already */
    uint64_t *known[2];     /* [n * COUNTS] counts of each rank, as far as this rank knows */
    uint64_t calls[2];      /* collective calls of ftkit, the same */
    uint64_t count[COUNTS]; /* counts of this rank since the line */
    bool replaying;         /* this rank has rolled back since the line */
    struct ftk_deps **first, **last; /* [n] of each source, in order */
    unsigned *skipped;               /* [n] the last search that passed over this source */
    unsigned search;                 /* number of the search under way */
    uint64_t *words;                 /* the vector that is being written */
    uint64_t delayed;                /* messages delayed since the line */
} depend;

static int open_tables(int n)
{
    size_t k = (size_t)n;
    if (depend.n > 0)
        return FTKIT_OK;
    depend.known[0] = calloc(2 * k, COUNTS * sizeof *depend.known[0]);
    depend.known[1] = depend.known[0] ? depend.known[0] + k * COUNTS : NULL;
    depend.first = calloc(2 * k, sizeof(struct ftk_deps *));
    depend.last = depend.first ? depend.first + k : NULL;
    depend.skipped = calloc(k, sizeof *depend.skipped);
    depend.words = calloc(HEAD_WORDS + k * WORDS, sizeof *depend.words);
    if (!depend.known[0] || !depend.first || !depend.skipped || !depend.words)
        return ftk_fail(FTKIT_ERR_NOMEM, "dependency vectors");
    depend.n = n;
    return FTKIT_OK;
}

static void drop_deps(void)
{
    for (int s = 0; s < depend.n; s++) {
        while (depend.first[s]) {
            struct ftk_deps *l = depend.first[s];
            depend.first[s] = l->next;
            free(l);
        }
        depend.last[s] = NULL;
    }
}

static void close_tables(void)
{
    drop_deps();
    free(depend.known[0]);
    free(depend.first);
    free(depend.skipped);
    free(depend.words);
    memset(&depend, 0, sizeof depend);
}

/* ---- counts and vectors -------------------------------------------------------------- */

static int parity(void)
{
    return (int)(ftk_log.line.count & 1);
}

static void count_send(bool internal)
{
    depend.count[internal ? FTK_DEPS_COLLS : FTK_DEPS_SENDS]++;
}

static void merge(const struct ftk_deps *l)
{
    int i = (int)(l->lines & 1);
    if (l->lines != ftk_log.line.count && l->lines != ftk_log.line.count + 1)
        return; /* from before the line: its counts are over */
    for (size_t k = 0; k < l->n; k++) {
        const uint64_t *v = l->v + k * WORDS;
        uint64_t *at = depend.known[i] + v[0] * COUNTS;
        for (int c = 0; c < COUNTS; c++)
            at[c] = v[1 + c] > at[c] ? v[1 + c] : at[c];
    }
    if (l->calls > depend.calls[i])
        depend.calls[i] = l->calls;
}

/* Write the vector of a message that goes out now; the number of words. */
static size_t write_deps(int tag)
{
    const uint64_t *known = depend.known[parity()];
    struct deps_head h = {
        .lines = ftk_log.line.count, .tag = (uint64_t)tag, .calls = ftk_log.calls.seq
    };
    uint64_t *w = depend.words + HEAD_WORDS;
    if (depend.calls[parity()] > h.calls)
        h.calls = depend.calls[parity()];
    for (int r = 0; r < depend.n; r++) {
        const uint64_t *far = r == ftk_log.me ? depend.count : known + (size_t)r * COUNTS;
        if (far[FTK_DEPS_SENDS] == 0 && far[FTK_DEPS_COLLS] == 0)
            continue;
        *w = (uint64_t)r;
        memcpy(w + 1, far, COUNTS * sizeof *far);
        w += WORDS;
        h.n++;
    }
    memcpy(depend.words, &h, sizeof h);
    return (size_t)(w - depend.words);
}

static int log_deps(struct ftk_entry *e)
{
    size_t words = write_deps(ftk_context_wire(e->context, e->tag));
    e->deps = ftk_slog_room(words * sizeof *e->deps);
    if (!e->deps)
        return MPI_ERR_NO_MEM;
    e->deps_words = words;
    memcpy(e->deps, depend.words, words * sizeof *e->deps);
    return MPI_SUCCESS;
}

static int send_deps(int dest, int context, int tag, const struct ftk_entry *e)
{
    if (dest == ftk_log.me)
        return MPI_SUCCESS;
    size_t words = e ? e->deps_words : write_deps(ftk_context_wire(context, tag));
    return ftk_control_send(e ? e->deps : depend.words, words, dest, FTK_CONTROL_TAG, context);
}

/* ---- vectors that come --------------------------------------------------------------- */

/* Check everything that could make this rank write outside of its tables. */
static struct ftk_deps *read_deps(const uint64_t *w, size_t words, int context, int source)
{
    struct deps_head h;
    if (words < HEAD_WORDS)
        return NULL;
    memcpy(&h, w, sizeof h);
    if (h.n > (words - HEAD_WORDS) / WORDS)
        return NULL;
    for (uint64_t i = 0; i < h.n; i++)
        if (w[HEAD_WORDS + i * WORDS] >= (uint64_t)depend.n)
            return NULL;
    size_t bytes = (size_t)h.n * WORDS * sizeof *w;
    struct ftk_deps *l = malloc(sizeof *l + bytes);
    if (!l)
        return NULL;
    context = ftk_context_of(ftk_context_comm(context), (int)h.tag);
    *l = (struct ftk_deps){ .context = context,
        .source = source,
        .tag = (int)h.tag,
        .lines = h.lines,
        .calls = h.calls,
        .n = (size_t)h.n };
    memcpy(l->v, w + HEAD_WORDS, bytes);
    return l;
}

static int take_deps(const struct ftk_control *c)
{
    struct ftk_deps *l = read_deps(c->w, c->words, c->context, c->source);
    if (!l)
        return MPI_ERR_INTERN;
    if (!depend.replaying) {
        merge(l);
        free(l);
        return MPI_SUCCESS;
    }
    struct ftk_deps **at =
        depend.last[l->source] ? &depend.last[l->source]->next : &depend.first[l->source];
    *at = depend.last[l->source] = l;
    return MPI_SUCCESS;
}

static const struct ftk_control_kind vectors = {
    .context = FTK_CONTROL_IN_BAND, .tag = FTK_CONTROL_TAG, .handle = take_deps
};

static int recv_all(int context, int source)
{
    return source == ftk_log.me ? MPI_SUCCESS : ftk_control_all(context, source);
}

/* The vector of a message.  Vectors are in the order of their messages, so the first one of a
 * channel belongs to the first message of the channel that has not been drained. */
static struct ftk_deps *match_deps(const struct ftk_unexp *h)
{
    struct ftk_deps *before = NULL;
    for (struct ftk_deps *l = depend.first[h->source]; l; before = l, l = l->next) {
        if (l->context != h->context || l->tag != ftk_context_wire(h->context, h->tag))
            continue;
        if (before)
            before->next = l->next;
        else
            depend.first[h->source] = l->next;
        if (depend.last[h->source] == l)
            depend.last[h->source] = before;
        l->next = NULL;
        return l;
    }
    return NULL;
}

static int drained(struct ftk_unexp *h)
{
    int found = 1, rc = MPI_SUCCESS;
    if (h->source == ftk_log.me || !depend.replaying)
        return MPI_SUCCESS; /* recv_all() has come before */
    while (rc == MPI_SUCCESS && found && !h->deps) {
        h->deps = match_deps(h);
        if (!h->deps)
            rc = ftk_control_next(h->context, h->source, &found);
    }
    return rc != MPI_SUCCESS || h->deps ? rc
                                        : MPI_ERR_INTERN; /* the vector has to be there first */
}

/* ---- the delivery condition ---------------------------------------------------------- */

static bool delivers(void)
{
    return depend.replaying && !ftk_log_replays_setup();
}

static bool is_deliverable(struct ftk_unexp *h)
{
    const struct ftk_deps *l = h->deps;
    static const uint64_t nothing[COUNTS];
    const uint64_t *far = nothing;
    if (!l || l->lines != ftk_log.line.count || FTK_FAULT("log.gate"))
        return true;
    for (size_t i = 0; i < l->n; i++)
        far = l->v[i * WORDS] == (uint64_t)ftk_log.me ? l->v + i * WORDS + 1 : far;
    if (depend.count[FTK_DEPS_SENDS] >= far[FTK_DEPS_SENDS]
        && depend.count[FTK_DEPS_COLLS] >= far[FTK_DEPS_COLLS] && ftk_log.calls.seq >= l->calls)
        return true;
    if (!h->delayed && depend.delayed++ == 0)
        ftk_report(FTKIT_DEBUG,
            "context %s: rank %d: a message of rank %d with tag %d waits until %llu sends and "
            "%llu of collectives have been made: %llu, %llu",
            ftk_log.ctx->cfg.name, ftk_log.me, h->source, h->tag, (unsigned long long)far[0],
            (unsigned long long)far[1], (unsigned long long)depend.count[0],
            (unsigned long long)depend.count[1]);
    h->delayed = true;
    return false;
}

/* What a receive or a probe asks for; receives with a smaller sequence number come first. */
struct asks {
    struct ftk_envelope want;
    uint64_t seq;
};

static struct asks asks_of(const struct ftk_req *r)
{
    return (struct asks){ r->recv.want, r->seq };
}

/* Whether a receive that was posted earlier matches the message, too. */
static bool is_promised(const struct ftk_unexp *h, const struct asks *a)
{
    for (const struct ftk_req *q = ftk_log.queue.first; q && q->seq < a->seq; q = q->next)
        if (q->state == FTK_REQ_PROBING && ftk_unexp_is_for(h, &q->recv.want))
            return true;
    return false;
}

/* The first unexpected message that matches and is deliverable.  The search passes over sources
 * with an earlier message that matches and is not. */
static struct ftk_unexp *pick(const struct asks *a)
{
    depend.search++; /* no source is passed over yet */
    for (struct ftk_unexp *h = ftk_unexp_first(); h; h = h->next) {
        if (!ftk_unexp_is_for(h, &a->want) || depend.skipped[h->source] == depend.search)
            continue;
        if (!is_promised(h, a) && is_deliverable(h))
            return h;
        depend.skipped[h->source] = depend.search; /* later messages must not overtake this one */
    }
    return NULL;
}

static void learn_from(struct ftk_unexp *h)
{
    if (h->deps)
        merge(h->deps);
    free(h->deps);
    h->deps = NULL;
}

static int deliver_to(struct ftk_req *r, struct ftk_unexp *h)
{
    learn_from(h);
    ftk_unexp_take(h);
    (void)FTK_FAULT("log.received");
    int rc =
        ftk_set_up_keeps(r) ? ftk_setup_log_keep(h, r->seq, ftk_set_up_number(r)) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        return ftk_recv_deliver(r, h);
    ftk_unexp_free(h);
    return ftk_req_fail(r, rc);
}

/* Deliver to the receives that were posted earlier. */
static void deliver_earlier(uint64_t seq)
{
    for (struct ftk_req *q = ftk_log.queue.first, *next; q && q->seq < seq; q = next) {
        next = q->next;
        if (ftk_log.nunexp == 0)
            return;
        if (q->state != FTK_REQ_PROBING)
            continue;
        struct asks a = asks_of(q);
        struct ftk_unexp *h = pick(&a);
        if (h)
            (void)deliver_to(q, h); /* the request has the error, if there is one */
    }
}

/* Drain one message of a source, and the vectors before it, into the unexpected messages.  On a
 * communicator that contexts share, the message may be for another receive. */
static int draw(const struct asks *a, int source, bool *found)
{
    for (;;) {
        MPI_Message m;
        MPI_Status s;
        struct ftk_unexp *h = NULL;
        int flag = 0;
        int tag = a->want.tag == MPI_ANY_TAG ? a->want.tag
                                             : ftk_context_wire(a->want.context, a->want.tag);
        int rc = PMPI_Improbe(source, tag, ftk_log_real(a->want.context), &flag, &m, &s);
        *found = false;
        if (rc != MPI_SUCCESS || !flag)
            return rc;
        if (s.MPI_TAG == FTK_CONTROL_TAG) {
            rc = ftk_control_handle(a->want.context, &m, &s);
            if (rc != MPI_SUCCESS)
                return rc;
            continue;
        }
        rc = ftk_recv_drain(a->want.context, &m, &s, &h);
        if (rc == MPI_SUCCESS)
            ftk_unexp_add(h);
        *found = rc == MPI_SUCCESS;
        return rc;
    }
}

/* Drain messages of a source until one is deliverable to this receive, or one is delayed. */
static int drain_from(const struct asks *a, int source, struct ftk_unexp **h)
{
    bool found = true;
    while (!*h && found && depend.skipped[source] != depend.search) {
        int rc = draw(a, source, &found);
        if (rc != MPI_SUCCESS)
            return rc;
        if (!found)
            return rc;
        deliver_earlier(a->seq);
        *h = pick(a);
    }
    return MPI_SUCCESS;
}

/* After a failure the repair drains the complete messages of live ranks. */
static bool can_drain(void)
{
    const struct ftk_log *l = &ftk_log;
    return !ftk_log_is_rolling_back() && !l->ctx->detect.failed && !l->ctx->detect.repairing;
}

static int seek(const struct asks *a, struct ftk_unexp **h)
{
    int rc = MPI_SUCCESS;
    deliver_earlier(a->seq);
    *h = pick(a);
    for (int s = 0; rc == MPI_SUCCESS && !*h && s < depend.n; s++)
        if ((a->want.source == MPI_ANY_SOURCE || a->want.source == s) && can_drain())
            rc = drain_from(a, s, h);
    if (rc == MPI_SUCCESS || !ftk_log_is_failure(rc))
        return rc;
    ftk_detect_raise(ftk_log.ctx);
    return MPI_SUCCESS;
}

static int receive(struct ftk_req *r)
{
    struct asks a = asks_of(r);
    struct ftk_unexp *h;
    int rc = seek(&a, &h);
    if (rc != MPI_SUCCESS)
        return ftk_req_fail(r, rc);
    return h ? deliver_to(r, h) : MPI_SUCCESS;
}

static int probe(const struct ftk_envelope *want, bool out, struct ftk_unexp **h)
{
    struct asks a = { *want, UINT64_MAX };
    int rc = seek(&a, h);
    if (rc != MPI_SUCCESS || !*h)
        return rc;
    learn_from(*h);
    if (out)
        ftk_unexp_take(*h);
    return rc;
}

/* ---- lines and failures -------------------------------------------------------------- */

static void begin_again(void)
{
    memset(depend.count, 0, sizeof depend.count);
    depend.delayed = 0;
}

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    int old = !parity();
    if (depend.n == 0)
        return;
    if (depend.delayed > 0)
        ftk_report(FTKIT_DEBUG, "context %s: rank %d: %llu messages have waited for their time",
            ftk_log.ctx->cfg.name, ftk_log.me, (unsigned long long)depend.delayed);
    memset(depend.known[old], 0, (size_t)depend.n * COUNTS * sizeof *depend.known[old]);
    depend.calls[old] = 0;
    begin_again();
    depend.replaying = false;
    for (struct ftk_unexp *h = ftk_unexp_first(); h; h = h->next)
        learn_from(h); /* sent before the line, or after it by a rank that was faster */
    drop_deps();
}

static int roll_back(const struct ftk_rollback *b)
{
    if (depend.n == 0)
        return FTKIT_OK;
    memset(depend.known[0], 0, 2 * (size_t)depend.n * COUNTS * sizeof *depend.known[0]);
    depend.calls[0] = depend.calls[1] = 0;
    begin_again();
    depend.replaying = b->others_stay;
    return FTKIT_OK;
}

static int install(const struct ftk_log_repair *r)
{
    (void)r;
    drop_deps(); /* their messages never came: the senders are dead */
    return FTKIT_OK;
}

/* ---- the mode ------------------------------------------------------------------------ */

static bool needs_request(int world)
{
    (void)world;
    return true;
}

const struct ftk_det_mode ftk_mode_relaxed = {
    .part = { .open = open_tables,
        .close = close_tables,
        .line = pass_line,
        .install = install,
        .roll_back = roll_back,
        .may_sleep = ftk_mode_stays_awake,
        .controls = &vectors,
        .ncontrols = 1 },
    .begin_send = count_send,
    .needs_request = needs_request,
    .log_entry = log_deps,
    .before = send_deps,
    .absorb = recv_all,
    .drained = drained,
    .delivers = delivers,
    .receive = receive,
    .probe = probe,
};
