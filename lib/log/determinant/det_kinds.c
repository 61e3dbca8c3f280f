/* The library's kinds of determinants, and what holds for all kinds (see det_kinds.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/determinant/det_kinds.h"

#include "log/base/plane.h"
#include "log/determinant/det.h"

#define OPEN_MAX (UINT64_C(1) << 24) /* wildcard receives under way at a cut */

/* Without a tag: a repair has bound a receive of any tag. */
static bool is_receive(const struct ftk_det *det, uint64_t all)
{
    return (det->b >= 0 || det->b == MPI_ANY_TAG) && det->n <= all + OPEN_MAX;
}

static bool has_tag(const struct ftk_det *det, uint64_t all)
{
    (void)all;
    return det->b >= 0;
}

static bool is_of_no_call(const struct ftk_det *det, uint64_t all)
{
    (void)det;
    (void)all;
    return false;
}

static bool has_bytes(const struct ftk_det *det, uint64_t all)
{
    (void)all;
    return det->b >= 0 && (uint64_t)det->b <= (uint64_t)det->a * FTK_DET_BYTES;
}

static bool is_index(const struct ftk_det *more)
{
    return more->a >= 0;
}

static bool is_length(const struct ftk_det *more)
{
    return more->a >= 0 && more->b >= 0;
}

const struct ftk_det_kind ftk_det_kind_recv = {
    .counts = FTK_DET_WILDCARDS, .a_is_rank = true, .is_sane = is_receive
};

/* In set-up the length of the message follows (ftk_set_up_probed). */
const struct ftk_det_kind ftk_det_kind_probe = { .text = "a probe",
    .a_is_rank = true,
    .keeper = FTK_DET_KEPT_BY_CALL,
    .more_in_set_up = 1,
    .is_sane = has_tag,
    .more_is_sane = is_length };

const struct ftk_det_kind ftk_det_kind_test = { .text = "a test or MPI_Waitany",
    .keeper = FTK_DET_KEPT };

const struct ftk_det_kind ftk_det_kind_some = { .text = "a call of MPI_Waitsome or MPI_Testsome",
    .has_more = true,
    .keeper = FTK_DET_KEPT,
    .more_is_sane = is_index };

const struct ftk_det_kind ftk_det_kind_more = { .is_sane = is_of_no_call };

const struct ftk_det_kind ftk_det_kind_none = { 0 };

const struct ftk_det_kind ftk_det_kind_cancel = { .counts = FTK_DET_RECEIVES };

const struct ftk_det_kind ftk_det_kind_tag = {
    .counts = FTK_DET_RECEIVES, .a_is_rank = true, .is_sane = has_tag
};

const struct ftk_det_kind ftk_det_kind_probed = {
    .counts = FTK_DET_PROBES, .a_is_rank = true, .is_sane = has_tag
};

/* In set-up the set-up log has the value (decide.c). */
const struct ftk_det_kind ftk_det_kind_value = {
    .text = "a call of ftkit_decide", .has_more = true, .is_sane = has_bytes
};

/* ---- all kinds ----------------------------------------------------------------------- */

const char *ftk_det_text(uint32_t kind)
{
    const char *text = ftk_det_kind_of(kind)->text;
    return text ? text : "another call";
}

struct ftk_det ftk_det_to_plane(struct ftk_det det)
{
    if (ftk_det_kind_of(det.kind)->a_is_rank && det.a >= 0)
        det.a = (int32_t)ftk_log_to_plane(det.a);
    return det;
}

struct ftk_det ftk_det_from_plane(struct ftk_det det)
{
    if (ftk_det_kind_of(det.kind)->a_is_rank && det.a >= 0)
        det.a = ftk_log_from_plane(det.a);
    return det;
}

bool ftk_det_is_sane(const struct ftk_det *det, size_t more, uint64_t all)
{
    const struct ftk_det_kind *kind = ftk_det_kind_of(det->kind);
    if (det->a < 0 || (kind->a_is_rank && det->a >= ftk_log.n)
        || (kind->is_sane && !kind->is_sane(det, all)))
        return false;
    for (size_t i = 1; i <= more; i++)
        if (det[i].kind != FTK_DET_MORE || (kind->more_is_sane && !kind->more_is_sane(&det[i])))
            return false;
    return true;
}

bool ftk_det_are_sane(const struct ftk_det *v, uint64_t n)
{
    for (uint64_t i = 0, more; i < n; i += 1 + more) {
        more = ftk_det_nmore(&v[i]);
        if (more >= n - i || !ftk_det_is_sane(&v[i], (size_t)more, n))
            return false;
    }
    return true;
}
