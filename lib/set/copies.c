/* Writing a set by a scheme with copies: each segment goes in a stream to each of its holders.  The
 * schemes none and own have no copies; with none, a set stays in memory until it is in the files.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "core/context.h"
#include "write.h"

static void begin_send(struct ftk_write *w, struct ftk_stream *s, int to)
{
    const struct ftkit_ctx *ctx = w->ch->ctx;
    ftk_stream_init(s, true, to, w->level->tag, w->like.set, ctx->rank, ctx->nranks);
    s->seg = w->own;
    s->sizes[0] = w->head_bytes;
    s->sizes[1] = w->data_bytes;
    if (w->changes)
        (void)ftk_stream_partial(s, w->base, w->changes->masks);
}

/* Set up a stream to each holder of this rank's segment, and a stream from each rank for which this
 * rank is a holder. */
static void begin(struct ftk_write *w)
{
    const struct ftkit_ctx *ctx = w->ch->ctx;
    const struct ftk_layout *to = &w->level->layout;
    int copies = w->level->scheme->copies, me = ctx->rank, n = 0;
    w->streams = to->streams;
    for (int i = me; i < copies * ctx->nranks; i += ctx->nranks)
        if (to->holder[i] >= 0)
            begin_send(w, &w->streams[n++], to->holder[i]);
    w->nsends = n;
    for (int i = 0; i < copies * ctx->nranks; i++)
        if (to->holder[i] == me)
            ftk_stream_init(&w->streams[n++], false, i % ctx->nranks, w->level->tag, w->like.set,
                i % ctx->nranks, ctx->nranks);
    w->nstreams = n;
}

static int sizes(struct ftk_write *w, bool *idle, bool *done)
{
    int local;
    int rc =
        ftk_stream_sizes_step(w->ch, &w->level->mem, w->streams, w->nstreams, idle, done, &local);
    ftk_write_note(w, local);
    return rc;
}

static int progress(struct ftk_write *w, size_t ready)
{
    bool idle, done;
    for (int i = 0; i < w->nsends; i++)
        w->streams[i].ready = ready;
    return ftk_stream_progress(w->ch, w->streams, w->nstreams, &idle, &done);
}

static int send(struct ftk_write *w, bool *idle, bool *done)
{
    int local;
    for (int i = 0; i < w->nsends; i++) {
        w->streams[i].ready = w->data_bytes;
        w->streams[i].sealed = true;
    }
    int rc = ftk_stream_step(w->ch, w->streams, w->nstreams, idle, done, &local);
    ftk_write_note(w, local);
    return rc;
}

static void end(struct ftk_write *w, int rc)
{
    if (rc == FTKIT_ERR_PEER)
        ftk_stream_abandon(w->ch, w->streams, w->nstreams);
    ftk_stream_end(w->streams, w->nstreams);
}

static int reach(const struct ftk_level *l, int rank, int nranks, const int *domain)
{
    int most = FTK_REACH_NONE;
    for (int i = rank; i < l->scheme->copies * nranks; i += nranks) {
        int to = l->layout.holder[i];
        int far = to < 0                       ? FTK_REACH_NONE
                  : domain[to] == domain[rank] ? FTK_REACH_NODE
                                               : FTK_REACH_OTHER_NODES;
        most = far > most ? far : most;
    }
    return most;
}

const struct ftk_write_ops ftk_write_copies = { begin, sizes, progress, send, end, reach };
