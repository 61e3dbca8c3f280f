/* Copies from memory of a device, begun ahead of their use (see ahead.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "ahead.h"
#include "core/memory_kind.h"
#include "region.h"

_Static_assert(FTK_AHEAD_PIECES <= FTK_MEMORY_AHEAD, "each copy under way has a number");

static size_t piece(size_t from, size_t all)
{
    return all - from < FTK_AHEAD_PIECE ? all - from : FTK_AHEAD_PIECE;
}

static int await_one(struct ftk_ahead *a, const struct ftk_memory_ops *ops, size_t all)
{
    const int rc = ops->await(a->number[a->done / FTK_AHEAD_PIECE % FTK_AHEAD_PIECES]);
    a->done += piece(a->done, all);
    return rc;
}

int ftk_ahead_get(
    struct ftk_ahead *a, const struct ftk_region *r, char *to, size_t all, size_t at, size_t bytes)
{
    const struct ftk_memory_ops *ops = ftk_memory_ops_of(r->memory);
    const char *from = ftk_region_data(r);
    int rc = FTKIT_OK;
    if (at == 0)
        *a = (struct ftk_ahead){ .region = r };
    while (rc == FTKIT_OK && a->done < at + bytes) {
        while (rc == FTKIT_OK && a->begun < all
               && a->begun - a->done < FTK_AHEAD_PIECES * FTK_AHEAD_PIECE) {
            const size_t n = piece(a->begun, all);
            rc = ops->begin_out(to + a->begun, from + a->begun, n,
                &a->number[a->begun / FTK_AHEAD_PIECE % FTK_AHEAD_PIECES]);
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
    return r && a->begun > a->done ? ftk_memory_ops_of(r->memory)->finish(ftk_region_data(r))
                                   : FTKIT_OK;
}
