/* Determinants of a set that is being restored: nothing in them is trusted.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/determinant/det.h"
#include "log/log.h"

#define OPEN_MAX (UINT64_C(1) << 24) /* wildcard receives under way at a cut */

static bool is_message(const struct ftk_det *d)
{
    return d->a >= 0 && d->a < ftk_log.n && d->b >= 0;
}

/* Whether d is followed by as many MORE as d says; left: how many there are from d on. */
static bool is_followed(const struct ftk_det *d, uint64_t left)
{
    if (d->a < 0 || (uint64_t)d->a >= left)
        return false;
    for (int32_t i = 1; i <= d->a; i++)
        if (d[i].kind != FTK_DET_MORE || (d->kind == FTK_DET_SOME && d[i].a < 0))
            return false;
    return d->kind == FTK_DET_SOME
           || (d->b >= 0 && (uint64_t)d->b <= (uint64_t)d->a * FTK_DET_BYTES);
}

static bool is_sane(const struct ftk_det *d, uint64_t all, uint64_t left)
{
    switch (d->kind) {
    case FTK_DET_RECV:
        return is_message(d) && d->n <= all + OPEN_MAX;
    case FTK_DET_PROBE:
        return is_message(d);
    case FTK_DET_TEST:
    case FTK_DET_CANCEL:
        return d->a >= 0;
    case FTK_DET_NONE:
        return true;
    default:
        return ftk_det_has_more(d->kind) && is_followed(d, left);
    }
}

bool ftk_det_are_sane(const struct ftk_det *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (!is_sane(&v[i], n, n - i))
            return false;
        i += ftk_det_has_more(v[i].kind) ? (uint64_t)v[i].a : 0;
    }
    return true;
}
