/* Copies from memory of a device, begun ahead of their use (see ahead.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "ahead.h"
#include "region.h"
#include "store/segment.h"

enum { PIECE_TO_SUM = 1 << 20, PIECES_TO_SUM = 2, PIECE = 1 << 22, PIECES = FTK_MEMORY_AHEAD };

static size_t piece(const struct ftk_ahead *a, size_t from, size_t all)
{
    return all - from < a->piece ? all - from : a->piece;
}

static unsigned *number_at(struct ftk_ahead *a, size_t at)
{
    return &a->number[at / a->piece % a->pieces];
}

/* Let the device compute the checksums of the whole blocks of a region. */
static int begin_sums(struct ftk_ahead *a, const struct ftk_memory_ops *ops, char *seg,
    const struct ftk_seg_region *rec)
{
    const size_t first = (size_t)(rec->offset + FTK_SEG_BLOCK - 1) / FTK_SEG_BLOCK,
                 end = (size_t)(rec->offset + rec->bytes) / FTK_SEG_BLOCK;
    const size_t before = first * FTK_SEG_BLOCK - (size_t)rec->offset;
    bool begun = false;
    int rc = FTKIT_OK;
    if (!a->host_sums && ops->begin_sums && first < end)
        rc = ops->begin_sums((const char *)ftk_region_data(a->region) + before, FTK_SEG_BLOCK,
            end - first, ftk_seg_sums(seg) + first, &begun);
    a->piece = begun ? PIECE : PIECE_TO_SUM;
    a->pieces = begun ? PIECES : PIECES_TO_SUM;
    a->summed = begun ? first * FTK_SEG_BLOCK : 0;
    a->summed_end = begun ? end * FTK_SEG_BLOCK : 0;
    return rc;
}

static int await_one(struct ftk_ahead *a, const struct ftk_memory_ops *ops, size_t all)
{
    const int rc = ops->await(*number_at(a, a->done));
    a->done += piece(a, a->done, all);
    return rc;
}

int ftk_ahead_get(struct ftk_ahead *a, const struct ftk_region *r, char *seg,
    const struct ftk_seg_region *rec, size_t at, size_t bytes)
{
    const struct ftk_memory_ops *ops = ftk_memory_ops_of(r->memory);
    const char *from = ftk_region_data(r);
    char *to = ftk_seg_data(seg) + rec->offset;
    const size_t all = (size_t)rec->bytes;
    int rc = FTKIT_OK;
    if (at == 0) {
        *a = (struct ftk_ahead){ .region = r, .host_sums = a->host_sums };
        rc = begin_sums(a, ops, seg, rec);
    }
    while (rc == FTKIT_OK && a->done < at + bytes) {
        while (rc == FTKIT_OK && a->begun < all && a->begun - a->done < a->pieces * a->piece) {
            const size_t n = piece(a, a->begun, all);
            rc = ops->begin_out(to + a->begun, from + a->begun, n, number_at(a, a->begun));
            a->begun += rc == FTKIT_OK ? n : 0;
        }
        if (rc == FTKIT_OK)
            rc = await_one(a, ops, all);
    }
    if (rc != FTKIT_OK)
        (void)ftk_ahead_stop(a); /* its error is another one of the same device */
    if (a->done == all)
        a->region = NULL;
    return rc;
}

int ftk_ahead_stop(struct ftk_ahead *a)
{
    const struct ftk_region *r = a->region;
    a->region = NULL;
    return r && (a->begun > a->done || a->summed_end > 0)
               ? ftk_memory_ops_of(r->memory)->finish(ftk_region_data(r))
               : FTKIT_OK;
}
