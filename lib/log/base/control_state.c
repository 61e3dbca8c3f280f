/* Control messages that change the state of a set (see control_state.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/base/control_state.h"

#include <stdlib.h>
#include <string.h>

#include "detect/detect.h"
#include "detect/sparse.h"
#include "log/base/plane.h"
#include "log/base/runtime.h"
#include "log/base/words.h"

enum { OWN = FTK_COUNTS - FTK_COUNT_OWN }; /* contexts of own_comms.h */
_Static_assert(OWN <= 64, "a bit for each context (part.h: of_state)");

/* The messages between this rank and another one in a context, from the beginning of the job. */
struct stream {
    uint64_t sent, at_cut; /* to the other rank; at the last cut */
    uint64_t had;          /* handled, of the other rank */
    uint64_t upto;         /* the other rank had sent so many at the line, or at its cut */
};

struct message {
    struct message *next;
    int rank, context, tag; /* the other rank */
    size_t words;           /* of w; the first one is the number */
    uint64_t w[];
};

struct list {
    struct message *first, *last;
};

static struct {
    struct stream *v;    /* [n * OWN], in pages that the kernel makes when they are written */
    bool unrestored;     /* this rank rolls back, and its set is not restored yet */
    struct list sent;    /* since the line, for ranks that roll back */
    struct message *cut; /* line apart: the last one of them before the cut; NULL: none */
    struct list held;    /* received, and not handled */
    struct list since;   /* line apart: handled since the cut, some of them late */
    bool open;           /* line apart: messages may be late */
    struct ftk_words w;  /* line apart: the section of the set */
    bool deaf, asked;    /* injected: messages are handled when a set has asked for them */
} streams;

static struct stream *stream_of(int rank, int context)
{
    (void)ftk_peer(rank); /* a partner from now on */
    return &streams.v[(size_t)rank * OWN + (size_t)(context - FTK_LOG_PROGRAM_COMMS)];
}

static bool is_held(void)
{
    return ftk_control_holds(
        ftk_log.ctx->detect.repairing, ftk_log_is_rolling_back(), !streams.unrestored);
}

/* ---- lists --------------------------------------------------------------------------------- */

static struct message *new_message(
    int rank, int context, int tag, uint64_t number, const uint64_t *w, size_t words)
{
    struct message *m = malloc(sizeof *m + (words + 1) * sizeof *w);
    if (!m)
        return NULL;
    *m = (struct message){ .rank = rank, .context = context, .tag = tag, .words = words + 1 };
    m->w[0] = number;
    if (words > 0)
        memcpy(m->w + 1, w, words * sizeof *w);
    return m;
}

static void append(struct list *l, struct message *m)
{
    m->next = NULL;
    if (l->last)
        l->last->next = m;
    else
        l->first = m;
    l->last = m;
}

static struct message *take_first(struct list *l)
{
    struct message *m = l->first;
    l->first = m->next;
    if (!l->first)
        l->last = NULL;
    return m;
}

static void clear(struct list *l)
{
    while (l->first)
        free(take_first(l));
}

/* ---- sending ------------------------------------------------------------------------------- */

static int transmit(const struct message *m)
{
    const int rc = ftk_control_transmit(m->w, m->words, m->rank, m->tag, m->context);
    if (rc == MPI_SUCCESS || !ftk_log_is_failure(rc))
        return rc;
    ftk_log_note_failure(); /* the repair sends it again, to the replacement */
    return MPI_SUCCESS;
}

int ftk_control_state_send(const uint64_t *w, size_t words, int dest, int tag, int context)
{
    struct stream *s = stream_of(dest, context);
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    struct message *m = new_message(dest, context, tag, s->sent + 1, w, words);
    if (!m)
        return MPI_ERR_NO_MEM;
    const int rc = transmit(m);
    if (rc != MPI_SUCCESS) {
        free(m);
        return rc;
    }
    s->sent++;
    append(&streams.sent, m);
    return rc;
}

/* ---- handling ------------------------------------------------------------------------------ */

/* Line apart: whether a message may be late, or is. */
static bool may_be_late(const struct message *m, const struct stream *s)
{
    return streams.open && (!ftk_log.apart.all_cut || m->w[0] <= s->upto);
}

static int gap(const struct message *m, const struct stream *s)
{
    ftk_report(FTKIT_ERROR,
        "context %s: rank %d has control message %llu of rank %d, and lacks message %llu",
        ftk_log.ctx->cfg.name, ftk_log.me, (unsigned long long)m->w[0], m->rank,
        (unsigned long long)s->had + 1);
    return MPI_ERR_INTERN;
}

static int handle(const struct message *m, struct stream *s)
{
    const struct ftk_control_kind *k = ftk_control_kind_of(m->context, m->tag);
    const struct ftk_control c = {
        .context = m->context, .source = m->rank, .w = m->w + 1, .words = m->words - 1
    };
    s->had = m->w[0];
    return k ? k->handle(&c) : MPI_ERR_INTERN;
}

static int handle_held(void)
{
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && streams.held.first) {
        struct message *m = streams.held.first;
        struct stream *s = stream_of(m->rank, m->context);
        const enum ftk_control_fate fate = ftk_control_fate(m->w[0], s->had, is_held());
        if (fate == FTK_CONTROL_HOLD)
            return MPI_SUCCESS;
        (void)take_first(&streams.held);
        if (fate == FTK_CONTROL_HANDLE)
            rc = handle(m, s);
        else if (fate == FTK_CONTROL_GAP)
            rc = gap(m, s);
        if (fate == FTK_CONTROL_HANDLE && may_be_late(m, s))
            append(&streams.since, m);
        else
            free(m);
    }
    return rc;
}

int ftk_control_state_came(const struct ftk_control *c, int tag)
{
    struct message *m =
        c->words > 0 ? new_message(c->source, c->context, tag, c->w[0], c->w + 1, c->words - 1)
                     : NULL;
    if (!m)
        return MPI_ERR_NO_MEM;
    append(&streams.held, m);
    return handle_held();
}

static int take_all(int context)
{
    int found = 1, rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && found && !ftk_log.ctx->detect.failed)
        rc = ftk_control_take(context, MPI_ANY_SOURCE, &found);
    return rc;
}

/* Until the state is restored the messages stay with the MPI. */
void ftk_control_state_serve(void)
{
    if (!ftk_parts.of_state || ftk_log.ctx->detect.failed || is_held()
        || (streams.deaf && !streams.asked))
        return;
    int rc = handle_held();
    for (int c = FTK_LOG_PROGRAM_COMMS; rc == MPI_SUCCESS && c < FTK_LOG_COMMS; c++)
        if (ftk_control_is_of_state(c))
            rc = take_all(c);
    if (rc != MPI_SUCCESS)
        ftk_detect_raise(ftk_log.ctx);
}

/* ---- at a line ----------------------------------------------------------------------------- */

static void forget_announced(void)
{
    for (int i = 0, n = ftk_peers_count(); i < n; i++)
        for (int c = FTK_LOG_PROGRAM_COMMS; c < FTK_LOG_COMMS; c++)
            stream_of(ftk_peers_rank(i), c)->upto = 0;
}

void ftk_control_state_announced(int rank, int context, uint64_t n)
{
    stream_of(rank, context)->upto = n;
}

bool ftk_control_state_lacks(void)
{
    for (int i = 0, n = ftk_parts.of_state ? ftk_peers_count() : 0; i < n; i++)
        for (int c = FTK_LOG_PROGRAM_COMMS; c < FTK_LOG_COMMS; c++) {
            const struct stream *s = stream_of(ftk_peers_rank(i), c);
            if (s->had < s->upto)
                return streams.asked = true;
        }
    return streams.asked = false;
}

static int announcing; /* the context */

static void take_number(const struct ftk_sparse_word *in)
{
    ftk_control_state_announced(in->rank, announcing, in->number);
}

static int announce_in(int context, const struct ftk_sure *s, unsigned round)
{
    const int n = ftk_peers_count();
    int words = 0;
    int64_t word = 0;
    struct ftk_sparse_word *out = malloc(((size_t)n + 1) * sizeof *out);
    if (!out)
        return ftk_chan_break(s->ch, MPI_ERR_NO_MEM, s->what);
    for (int i = 0; i < n; i++) {
        const int rank = ftk_peers_rank(i);
        const struct stream *to = stream_of(rank, context);
        if (to->sent > 0)
            out[words++] = (struct ftk_sparse_word){ rank, to->sent };
    }
    announcing = context;
    const int rc = ftk_sparse_exchange(s, round, out, words, &word, take_number);
    announcing = 0;
    free(out);
    return rc;
}

int ftk_control_state_announce(const struct ftk_sure *s, unsigned *rounds)
{
    int rc = FTKIT_OK;
    if (ftk_parts.of_state)
        forget_announced();
    for (int c = FTK_LOG_PROGRAM_COMMS; rc == FTKIT_OK && c < FTK_LOG_COMMS; c++)
        if (ftk_control_is_of_state(c))
            rc = announce_in(c, s, (*rounds)++);
    return rc;
}

size_t ftk_control_state_sent(struct ftk_control_sent *v)
{
    size_t n = 0;
    const int peers = ftk_parts.of_state ? ftk_peers_count() : 0;
    if (!v)
        return (size_t)peers * OWN;
    for (int i = 0; i < peers; i++)
        for (int c = FTK_LOG_PROGRAM_COMMS; c < FTK_LOG_COMMS; c++) {
            const int rank = ftk_peers_rank(i);
            const uint64_t at_cut = stream_of(rank, c)->at_cut;
            if (at_cut > 0)
                v[n++] = (struct ftk_control_sent){ rank, c, at_cut };
        }
    return n;
}

/* ---- the section of a set: streams, then late messages ------------------------------------- */

enum { STREAM = 4, HEAD = 5 }; /* words of a stream; of a late message, before its own */

static bool is_used(const struct stream *s)
{
    return s->sent > 0 || s->had > 0;
}

static size_t count_used(void)
{
    size_t n = 0;
    for (int i = 0, peers = ftk_peers_count(); i < peers; i++)
        for (int c = FTK_LOG_PROGRAM_COMMS; c < FTK_LOG_COMMS; c++)
            n += is_used(stream_of(ftk_peers_rank(i), c));
    return n;
}

/* ... from the cut on: as it was there. */
static size_t words(void)
{
    return streams.w.n > 0 ? streams.w.n : 1 + STREAM * count_used();
}

static uint64_t *write_streams(uint64_t *w)
{
    *w++ = count_used();
    for (int i = 0, peers = ftk_peers_count(); i < peers; i++)
        for (int c = FTK_LOG_PROGRAM_COMMS; c < FTK_LOG_COMMS; c++) {
            const struct stream *s = stream_of(ftk_peers_rank(i), c);
            if (!is_used(s))
                continue;
            *w++ = ftk_log_to_plane(ftk_peers_rank(i));
            *w++ = (uint64_t)(c - FTK_LOG_PROGRAM_COMMS);
            *w++ = s->sent;
            *w++ = s->had;
        }
    return w;
}

static uint64_t *save(uint64_t *w)
{
    return streams.w.n > 0 ? ftk_words_save(&streams.w, w) : write_streams(w);
}

static int no_memory(void)
{
    return ftk_fail(FTKIT_ERR_NOMEM, "control messages of a set");
}

static int put_late(const struct message *m)
{
    uint64_t *w = ftk_words_extend(&streams.w, HEAD + m->words - 1);
    if (!w)
        return no_memory();
    w[0] = ftk_log_to_plane(m->rank);
    w[1] = (uint64_t)(m->context - FTK_LOG_PROGRAM_COMMS);
    w[2] = (uint64_t)m->tag;
    w[3] = m->words - 1;
    memcpy(w + 4, m->w, m->words * sizeof *w);
    return FTKIT_OK;
}

/* All late messages have been handled. */
static int finish(void)
{
    int rc = FTKIT_OK;
    for (const struct message *m = streams.since.first; rc == FTKIT_OK && m; m = m->next)
        if (m->w[0] <= stream_of(m->rank, m->context)->upto)
            rc = put_late(m);
    clear(&streams.since);
    streams.open = false;
    return rc;
}

/* ---- reading: nothing is trusted ----------------------------------------------------------- */

static int damaged(void)
{
    return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: control messages are damaged");
}

/* Whether the words name a rank and a context. */
static bool is_stream(const uint64_t *w)
{
    return w[0] < (uint64_t)ftk_log_plane_size() && w[1] < OWN;
}

static int read_streams(const uint64_t **w, const uint64_t *end)
{
    if (*w == end || **w > (uint64_t)(end - *w - 1) / STREAM)
        return damaged();
    uint64_t n = *(*w)++;
    for (; n > 0; n--, *w += STREAM) {
        if (!is_stream(*w))
            return damaged();
        struct stream *s =
            stream_of(ftk_log_from_plane((int)(*w)[0]), FTK_LOG_PROGRAM_COMMS + (int)(*w)[1]);
        s->sent = (*w)[2];
        s->had = (*w)[3];
    }
    return FTKIT_OK;
}

static int read_late(const uint64_t *w, const uint64_t *end)
{
    while (w < end) {
        if (end - w < HEAD || !is_stream(w) || w[2] > INT32_MAX
            || w[3] > (uint64_t)(end - w - HEAD))
            return damaged();
        const int context = FTK_LOG_PROGRAM_COMMS + (int)w[1];
        struct message *m = new_message(
            ftk_log_from_plane((int)w[0]), context, (int)w[2], w[4], w + HEAD, (size_t)w[3]);
        if (!m)
            return no_memory();
        append(&streams.held, m);
        w += HEAD + w[3];
    }
    return FTKIT_OK;
}

/* This rank is as a rank that has sent and handled nothing. */
static void forget(void)
{
    for (int i = 0, n = ftk_peers_count(); i < n; i++)
        for (int c = FTK_LOG_PROGRAM_COMMS; c < FTK_LOG_COMMS; c++)
            *stream_of(ftk_peers_rank(i), c) = (struct stream){ 0 };
    clear(&streams.sent);
    clear(&streams.held);
    streams.cut = NULL;
}

/* Late messages are handled when all parts are restored. */
static int load(const struct ftk_section *in)
{
    const uint64_t *w = in->w;
    forget();
    streams.unrestored = false;
    if (!w || !in->as_many)
        return FTKIT_OK;
    const int rc = read_streams(&w, in->end);
    return rc == FTKIT_OK ? read_late(w, in->end) : rc;
}

/* ---- the part ------------------------------------------------------------------------------ */

static int open_streams(int n)
{
    if (streams.v)
        return FTKIT_OK;
    streams.v = calloc((size_t)n * OWN + 1, sizeof *streams.v);
    streams.deaf = FTK_FAULT("control.deaf") != 0;
    return streams.v ? FTKIT_OK : no_memory();
}

static void cut_over(void)
{
    clear(&streams.since);
    ftk_words_free(&streams.w);
    streams.open = false;
    streams.cut = NULL;
}

static void report(void)
{
    unsigned long long kept = 0, all = 0;
    for (const struct message *m = streams.sent.first; m; m = m->next)
        kept++;
    for (int i = 0, n = ftk_peers_count(); i < n; i++)
        for (int c = FTK_LOG_PROGRAM_COMMS; c < FTK_LOG_COMMS; c++)
            all += stream_of(ftk_peers_rank(i), c)->sent;
    ftk_report(FTKIT_DEBUG,
        "context %s: rank %d keeps %llu of its %llu control messages at the end",
        ftk_log.ctx->cfg.name, ftk_log.me, kept, all);
}

static void close_streams(void)
{
    if (streams.v)
        report();
    cut_over();
    clear(&streams.sent);
    clear(&streams.held);
    free(streams.v);
    memset(&streams, 0, sizeof streams);
}

static int cut(bool apart)
{
    if (handle_held() != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "control messages of a set");
    if (!apart)
        return FTKIT_OK;
    cut_over();
    forget_announced();
    for (int i = 0, n = ftk_peers_count(); i < n; i++)
        for (int c = FTK_LOG_PROGRAM_COMMS; c < FTK_LOG_COMMS; c++) {
            struct stream *s = stream_of(ftk_peers_rank(i), c);
            s->at_cut = s->sent;
        }
    streams.cut = streams.sent.last;
    streams.open = true;
    uint64_t *w = ftk_words_extend(&streams.w, 1 + STREAM * count_used());
    if (!w)
        return no_memory();
    (void)write_streams(w);
    return FTKIT_OK;
}

/* No rank rolls back to a place before the line any more. */
static void pass_line(enum ftk_pass kind, bool first)
{
    (void)first;
    while (streams.sent.first && (kind != FTK_PASS_CUT || streams.cut)) {
        struct message *m = take_first(&streams.sent);
        if (m == streams.cut)
            streams.cut = NULL;
        free(m);
    }
}

/* Send to each rank that rolls back what it may lack. */
static int install(const struct ftk_log_repair *r)
{
    int rc = MPI_SUCCESS;
    if (r->fresh || r->back[r->me])
        return FTKIT_OK;
    for (const struct message *m = streams.sent.first; rc == MPI_SUCCESS && m; m = m->next)
        if (r->back[m->rank])
            rc = transmit(m);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "resending control messages");
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    forget();
    streams.unrestored = !ftk_log.line.none_yet;
    return FTKIT_OK;
}

static const struct ftk_part *if_used(void)
{
    return ftk_parts.of_state ? &ftk_part_streams : NULL;
}

const struct ftk_part ftk_part_streams = { .serves = if_used,
    .open = open_streams,
    .close = close_streams,
    .serve = ftk_control_state_serve,
    .cut = cut,
    .line = pass_line,
    .cut_over = cut_over,
    .install = install,
    .roll_back = roll_back,
    .name = "streams",
    .words = words,
    .save = save,
    .late = true,
    .finish = finish,
    .load = load };
