/* Writing one set to one memory level (see write.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "write.h"

const struct ftk_write_ops *ftk_write_ops_of(const struct ftk_scheme *s)
{
    return s->parities != 0 ? &ftk_write_parities : &ftk_write_copies;
}

static const struct ftk_write_ops *ops_of(const struct ftk_write *w)
{
    return ftk_write_ops_of(w->level->scheme);
}

typedef int step_fn(struct ftk_write *w, bool *idle, bool *done);

/* Call a step once. */
static int step(struct ftk_write *w, step_fn *fn, bool *idle, bool *done)
{
    *idle = *done = false;
    if (w->ch->broken)
        return ftk_fail(FTKIT_ERR_PEER, "writing a set: a rank has failed");
    return fn(w, idle, done);
}

/* Call a step until it is done. */
static int run(struct ftk_write *w, step_fn *fn)
{
    unsigned turns = 0;
    bool idle, done = false;
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && !done) {
        rc = step(w, fn, &idle, &done);
        if (idle)
            ftk_chan_progress(w->ch, &turns);
    }
    return rc;
}

void ftk_write_start(struct ftk_write *w)
{
    const struct ftkit_ctx *ctx = w->ch->ctx;
    if (!w->own)
        ftk_write_note(w, ftk_mem_take(&w->level->mem, w->like.set, ctx->rank, ctx->nranks,
                              w->head_bytes + w->data_bytes, &w->own));
    ops_of(w)->begin(w);
}

int ftk_write_sizes_step(struct ftk_write *w, bool *done)
{
    bool idle;
    return step(w, ops_of(w)->sizes, &idle, done);
}

int ftk_write_send_step(struct ftk_write *w, bool *done)
{
    bool idle;
    return step(w, ops_of(w)->send, &idle, done);
}

int ftk_write_begin(struct ftk_write *w)
{
    ftk_write_start(w);
    return run(w, ops_of(w)->sizes);
}

int ftk_write_data(struct ftk_write *w, const struct ftk_fill *fill)
{
    size_t done = 0;
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && done < w->data_bytes && w->local == FTKIT_OK) {
        ftk_write_note(w, fill->piece(w, done + FTK_STREAM_PIECE, &done));
        rc = ops_of(w)->progress(w, done);
    }
    if (rc != FTKIT_OK)
        return rc;
    /* after an error of this rank the announced bytes are sent all the same */
    fill->end(w);
    return run(w, ops_of(w)->send);
}

void ftk_write_end(struct ftk_write *w, int rc)
{
    struct ftk_mem *mem = &w->level->mem;
    ops_of(w)->end(w, rc);
    if (rc == FTKIT_ERR_PEER && w->own && !w->own->sealed)
        ftk_mem_release(w->own);
    for (int i = 0; rc != FTKIT_OK && rc != FTKIT_ERR_PEER && i < mem->nsegs; i++)
        if (mem->segs[i]->set == w->like.set)
            ftk_mem_release(mem->segs[i]);
}
