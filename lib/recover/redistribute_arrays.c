/* Redistribution: cells of arrays go from the old ranks to the new ones (see redistribute.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "core/memory_kind.h"
#include "core/tags.h"
#include "redistribute.h"

/* A block in memory, with its halo. */
struct place {
    char *data;
    enum ftk_memory_kind memory;
    size_t item;
    int ndims;
    size_t first[FTKIT_DIMS_MAX];  /* index of the cell at data; wraps, as halos begin below 0 */
    size_t stride[FTKIT_DIMS_MAX]; /* bytes */
};

static void set_strides(struct place *p, const size_t *len)
{
    size_t stride = p->item;
    for (int i = p->ndims - 1; i >= 0; i--) {
        p->stride[i] = stride;
        stride *= len[i];
    }
}

static struct place new_place(const struct ftk_redist *d, int array)
{
    const struct ftk_region *r = d->arrays[array].region;
    struct place p = {
        .data = r->data, .memory = r->memory, .item = r->type.item_bytes, .ndims = r->ndims
    };
    size_t len[FTKIT_DIMS_MAX] = { 0 };
    for (int i = 0; i < r->ndims; i++) {
        p.first[i] = r->start[i] - r->halo[i];
        len[i] = r->local[i] + 2 * r->halo[i];
    }
    set_strides(&p, len);
    return p;
}

static struct place old_place(const struct ftk_redist *d, int array, int q)
{
    const struct ftk_region *r = d->arrays[array].region;
    char *seg = ftk_redist_segment(d, q)->buf;
    const struct ftk_seg_region *rec = ftk_seg_find(seg, r->name);
    struct place p = {
        .data = ftk_seg_data(seg) + rec->offset, .item = r->type.item_bytes, .ndims = r->ndims
    };
    size_t len[FTKIT_DIMS_MAX] = { 0 };
    for (int i = 0; i < r->ndims; i++) {
        p.first[i] = (size_t)(rec->start[i] - rec->halo[i]);
        len[i] = (size_t)(rec->local[i] + 2 * rec->halo[i]);
    }
    set_strides(&p, len);
    return p;
}

/* Copy cells first, first+1, ... of a box, counted in C order: from a place into msg (out), or from
 * msg into the place.  In msg the cells are contiguous. */
static int copy_cells(
    const struct place *p, const struct ftk_box *b, size_t first, size_t cells, char *msg, bool out)
{
    size_t at[FTKIT_DIMS_MAX];
    int last = p->ndims - 1;
    for (int i = last; i >= 0; i--) {
        at[i] = first % b->len[i];
        first /= b->len[i];
    }
    while (cells > 0) {
        size_t run = b->len[last] - at[last];
        char *mem = p->data;
        run = run < cells ? run : cells;
        for (int i = 0; i <= last; i++)
            mem += (b->start[i] + at[i] - p->first[i]) * p->stride[i];
        int rc = out ? ftk_memory_copy_out(p->memory, msg, mem, run * p->item)
                     : ftk_memory_copy_in(p->memory, mem, msg, run * p->item);
        if (rc != FTKIT_OK)
            return rc;
        msg += run * p->item;
        cells -= run;
        at[last] += run;
        for (int i = last; i > 0 && at[i] == b->len[i]; i--) {
            at[i] = 0;
            at[i - 1]++;
        }
    }
    return FTKIT_OK;
}

/* A copy that fails does not stop the exchange, because the other ranks wait for the pieces. */
static void note(struct ftk_redist *d, int rc)
{
    if (d->copy_error == FTKIT_OK)
        d->copy_error = rc;
}

static size_t cells_per_piece(const struct ftk_redist *d, int array)
{
    return FTK_PIECE_BYTES / d->arrays[array].region->type.item_bytes;
}

/* Copy the cells whose old and new block are both on this rank. */
static void copy_own(struct ftk_redist *d)
{
    char *buf = d->flows[0].piece[0].buf;
    for (int a = 0; a < d->narrays; a++) {
        struct place to = new_place(d, a);
        struct ftk_box mine = ftk_redist_block(d, a, false, d->ctx->rank);
        for (int q = 0; q < d->nold; q++) {
            struct ftk_box old = ftk_redist_block(d, a, true, q);
            struct ftk_box b;
            size_t cells =
                d->source[q] == d->ctx->rank ? ftk_box_intersect(to.ndims, &mine, &old, &b) : 0;
            if (cells == 0)
                continue;
            struct place from = old_place(d, a, q);
            for (size_t i = 0; i < cells;) {
                size_t n = cells_per_piece(d, a);
                n = n < cells - i ? n : cells - i;
                note(d, copy_cells(&from, &b, i, n, buf, true));
                note(d, copy_cells(&to, &b, i, n, buf, false));
                i += n;
            }
            d->arrays[a].got += cells;
        }
    }
}

/* Go to the next pair of an old and a new block with cells that this rank sends or receives.
 * False: there is none. */
static bool next_box(const struct ftk_redist *d, struct ftk_flow *f)
{
    int me = d->ctx->rank;
    for (; f->array < d->narrays; f->array++, f->q = 0, f->r = -1) {
        int ndims = d->arrays[f->array].ndims;
        for (; f->q < d->nold; f->q++, f->r = -1) {
            bool have = d->source[f->q] == me;
            while (have == f->send && ++f->r < d->ctx->nranks) {
                if (f->send ? f->r == me : f->r != me)
                    continue;
                struct ftk_box old = ftk_redist_block(d, f->array, true, f->q);
                struct ftk_box now = ftk_redist_block(d, f->array, false, f->r);
                f->cells = ftk_box_intersect(ndims, &old, &now, &f->box);
                f->next = 0;
                if (f->cells > 0)
                    return true;
            }
        }
    }
    f->done = true;
    return false;
}

static int post(struct ftk_redist *d, struct ftk_flow *f)
{
    int slot = (f->first + f->npending) % FTK_WINDOW;
    struct ftk_piece *p = &f->piece[slot];
    size_t item = d->arrays[f->array].region->type.item_bytes;
    size_t n = cells_per_piece(d, f->array);
    p->box = f->box;
    p->array = f->array;
    p->first = f->next;
    p->cells = f->cells - f->next < n ? f->cells - f->next : n;
    int bytes = (int)(p->cells * item);
    int mrc;
    (void)FTK_FAULT("redistribute.piece");
    if (f->send) {
        struct place from = old_place(d, f->array, f->q);
        note(d, copy_cells(&from, &p->box, p->first, p->cells, p->buf, true));
        mrc = MPI_Isend(p->buf, bytes, MPI_BYTE, f->r, FTK_TAG_PIECE, d->ch.comm, &f->req[slot]);
    } else {
        mrc = MPI_Irecv(
            p->buf, bytes, MPI_BYTE, d->source[f->q], FTK_TAG_PIECE, d->ch.comm, &f->req[slot]);
    }
    if (mrc != MPI_SUCCESS) {
        f->req[slot] = MPI_REQUEST_NULL;
        return ftk_chan_break(&d->ch, mrc, "moving cells of an array");
    }
    f->npending++;
    f->next += p->cells;
    return FTKIT_OK;
}

/* Post pieces until the window is full, then finish the pieces that are complete, in order. */
static int advance(struct ftk_redist *d, struct ftk_flow *f, bool *moved)
{
    while (f->npending < FTK_WINDOW && !f->done) {
        if (f->next == f->cells && !next_box(d, f))
            break;
        int rc = post(d, f);
        if (rc != FTKIT_OK)
            return rc;
        *moved = true;
    }
    while (f->npending > 0) {
        struct ftk_piece *p = &f->piece[f->first];
        int done = 0;
        int mrc = MPI_Test(&f->req[f->first], &done, MPI_STATUS_IGNORE);
        if (mrc != MPI_SUCCESS) {
            f->req[f->first] = MPI_REQUEST_NULL;
            return ftk_chan_break(&d->ch, mrc, "moving cells of an array");
        }
        if (!done)
            break;
        if (!f->send) {
            struct place to = new_place(d, p->array);
            note(d, copy_cells(&to, &p->box, p->first, p->cells, p->buf, false));
            d->arrays[p->array].got += p->cells;
        }
        f->first = (f->first + 1) % FTK_WINDOW;
        f->npending--;
        *moved = true;
    }
    return FTKIT_OK;
}

static bool is_over(const struct ftk_flow *f)
{
    return f->done && f->npending == 0;
}

int ftk_redist_write_arrays(struct ftk_redist *d)
{
    struct ftk_flow *out = &d->flows[0];
    struct ftk_flow *in = &d->flows[1];
    unsigned turns = 0;
    int rc = FTKIT_OK;
    copy_own(d);
    while (rc == FTKIT_OK && !(is_over(out) && is_over(in))) {
        bool moved = false;
        rc = advance(d, out, &moved);
        if (rc == FTKIT_OK)
            rc = advance(d, in, &moved);
        if (!moved)
            ftk_chan_progress(&d->ch, &turns);
    }
    for (int f = 0; rc != FTKIT_OK && f < 2; f++) /* end the requests that are left */
        (void)ftk_chan_wait(&d->ch, d->flows[f].req, FTK_WINDOW, "moving cells of an array");
    for (int a = 0; rc == FTKIT_OK && a < d->narrays; a++) {
        struct ftk_box mine = ftk_redist_block(d, a, false, d->ctx->rank);
        size_t cells = ftk_box_volume(d->arrays[a].ndims, &mine);
        if (d->arrays[a].got != cells)
            rc = ftk_fail(FTKIT_ERR_SIZE, "array '%s': %zu of %zu cells have come",
                d->arrays[a].region->name, d->arrays[a].got, cells);
    }
    return rc == FTKIT_OK ? d->copy_error : rc;
}
