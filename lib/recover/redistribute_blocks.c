/* Redistribution: which cells of an array each rank has and had (see redistribute.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "detect/sure.h"
#include "redistribute.h"

void ftk_redist_list_arrays(struct ftk_redist *d)
{
    d->share_bytes = FTK_PIECE_BYTES;
    for (int i = 0; i < d->nrecs; i++) {
        const struct ftk_region *r = ftk_region_find(d->ctx, d->recs[i].name);
        if (r && r->type.item_bytes > d->share_bytes) /* an item is not split between messages */
            d->share_bytes = r->type.item_bytes;
        if (!r || r->kind != FTK_KIND_ARRAY)
            continue;
        d->arrays[d->narrays++] =
            (struct ftk_array){ .region = r, .ndims = r->ndims, .at = d->words };
        d->words += 2 * (size_t)r->ndims;
    }
}

int ftk_redist_lay_out(struct ftk_redist *d)
{
    int n = d->ctx->nranks;
    size_t total = 0;
    if (d->words * ((size_t)n + (size_t)d->nold) > INT_MAX)
        return ftk_fail(FTKIT_ERR_SIZE, "too many arrays and ranks");
    for (int r = 0; r < n; r++) {
        d->displs[r] = (int)total;
        total += d->words;
        for (int q = 0; q < d->nold; q++) {
            if (d->source[q] != r)
                continue;
            d->at_old[q] = total;
            total += d->words;
        }
        d->counts[r] = (int)(total - (size_t)d->displs[r]);
    }
    d->table = ftk_redist_take(d, FTK_OWN_TABLE, total, sizeof *d->table);
    return d->table ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "table of blocks");
}

static void write_blocks(struct ftk_redist *d)
{
    uint64_t *w = d->table + d->displs[d->ctx->rank];
    for (int a = 0; a < d->narrays; a++) {
        const struct ftk_region *r = d->arrays[a].region;
        for (int i = 0; i < r->ndims; i++)
            *w++ = r->start[i];
        for (int i = 0; i < r->ndims; i++)
            *w++ = r->local[i];
    }
    for (int q = 0; q < d->nold; q++) {
        if (d->source[q] != d->ctx->rank)
            continue;
        for (int a = 0; a < d->narrays; a++) {
            const struct ftk_seg_region *rec =
                ftk_seg_find(ftk_redist_segment(d, q)->buf, d->arrays[a].region->name);
            size_t n = rec->ndims;
            memcpy(w, rec->start, n * sizeof *w);
            memcpy(w + n, rec->local, n * sizeof *w);
            w += 2 * n;
        }
    }
}

int ftk_redist_share_blocks(struct ftk_redist *d)
{
    const struct ftk_sure s = { d->ch.comm, &d->ch, "sharing the blocks of arrays" };
    int n = d->ctx->nranks;
    size_t *bytes = malloc((size_t)n * sizeof *bytes);
    if (!bytes) {
        (void)ftk_chan_break(&d->ch, MPI_ERR_NO_MEM, s.what);
        return ftk_fail(FTKIT_ERR_NOMEM, "%s", s.what);
    }
    for (int r = 0; r < n; r++)
        bytes[r] = (size_t)d->counts[r] * sizeof *d->table;
    write_blocks(d);
    int rc = ftk_sure_allgatherv(&s, d->table + d->displs[d->ctx->rank], bytes, d->table);
    free(bytes);
    return rc;
}

struct ftk_box ftk_redist_block(const struct ftk_redist *d, int array, bool old, int k)
{
    const struct ftk_array *a = &d->arrays[array];
    const uint64_t *w = d->table + (old ? d->at_old[k] : (size_t)d->displs[k]) + a->at;
    struct ftk_box b = { { 0 }, { 0 } };
    for (int i = 0; i < a->ndims; i++) {
        b.start[i] = (size_t)w[i];
        b.len[i] = (size_t)w[a->ndims + i];
    }
    return b;
}

size_t ftk_box_volume(int ndims, const struct ftk_box *b)
{
    size_t n = 1;
    for (int i = 0; i < ndims; i++)
        n *= b->len[i];
    return n;
}

size_t ftk_box_intersect(
    int ndims, const struct ftk_box *a, const struct ftk_box *b, struct ftk_box *out)
{
    for (int i = 0; i < ndims; i++) {
        size_t lo = a->start[i] > b->start[i] ? a->start[i] : b->start[i];
        size_t a_end = a->start[i] + a->len[i];
        size_t b_end = b->start[i] + b->len[i];
        size_t hi = a_end < b_end ? a_end : b_end;
        if (lo >= hi)
            return 0;
        out->start[i] = lo;
        out->len[i] = hi - lo;
    }
    return ftk_box_volume(ndims, out);
}

/* Check that each cell of new block k is in exactly one old block (of_old), or each cell of old
 * block k in exactly one new block. */
static int check_tiles(const struct ftk_redist *d, int array, int k, bool of_old)
{
    const char *name = d->arrays[array].region->name;
    int ndims = d->arrays[array].ndims;
    int n = of_old ? d->nold : d->ctx->nranks;
    int nhits = 0;
    struct ftk_box target = ftk_redist_block(d, array, !of_old, k);
    size_t cells = ftk_box_volume(ndims, &target);
    size_t found = 0;
    for (int i = 0; i < n; i++) {
        struct ftk_box b = ftk_redist_block(d, array, of_old, i);
        struct ftk_box common;
        struct ftk_box twice;
        size_t here = ftk_box_intersect(ndims, &target, &b, &common);
        for (int h = 0; here > 0 && h < nhits; h++) {
            struct ftk_box other = ftk_redist_block(d, array, of_old, d->hits[h]);
            if (ftk_box_intersect(ndims, &common, &other, &twice) > 0)
                return ftk_fail(FTKIT_ERR_SIZE, "array '%s': the blocks of ranks %d and %d %s",
                    name, d->hits[h], i, of_old ? "overlapped when it was saved" : "overlap");
        }
        if (here > 0)
            d->hits[nhits++] = i;
        found += here;
    }
    if (found == cells)
        return FTKIT_OK;
    if (of_old)
        return ftk_fail(FTKIT_ERR_SIZE,
            "array '%s': only %zu of the %zu cells of the block of rank %d were saved", name, found,
            cells, k);
    return ftk_fail(FTKIT_ERR_SIZE,
        "array '%s': only %zu of the %zu cells that rank %d of %d saved are in a block "
        "of the %d ranks now (register the array again in the callback of "
        "ftkit_on_repair)",
        name, found, cells, k, d->nold, d->ctx->nranks);
}

int ftk_redist_check_blocks(const struct ftk_redist *d)
{
    int rc = FTKIT_OK;
    for (int a = 0; rc == FTKIT_OK && a < d->narrays; a++) {
        for (int q = 0; rc == FTKIT_OK && q < d->nold; q++)
            if (d->source[q] == d->ctx->rank)
                rc = check_tiles(d, a, q, false);
        if (rc == FTKIT_OK)
            rc = check_tiles(d, a, d->ctx->rank, true);
    }
    return rc;
}
