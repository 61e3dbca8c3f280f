/* The replay of determinants: the outcomes of probes, tests, waits and decided values.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "det_inside.h"
#include "log/base/figures.h"
#include "log/determinant/set_up.h"

static struct ftk_det *copied; /* what ftk_det_next() has returned last */

/* A copy of a determinant and its MORE: the list may move before the caller has read them. */
static const struct ftk_det *copy_of(const struct ftk_det *det)
{
    const size_t n = 1 + ftk_det_nmore(det);
    struct ftk_det *copy = realloc(copied, n * sizeof *copy);
    if (!copy)
        return det;
    copied = copy;
    memcpy(copy, det, n * sizeof *copy);
    return copy;
}

/* Whether the outcome of the next probe, test or wait is known.  A follower waits for it. */
static bool await_next(void)
{
    unsigned turns = 0;
    for (;;) {
        ftk_det_pass_nothings();
        if (ftk_det_upcoming())
            return true;
        if (!ftk_mode_await(&turns))
            return false;
    }
}

/* ftk_det_next() by the list of determinants. */
static int next_of_list(uint32_t kind, const struct ftk_det **det)
{
    if (!ftk_det_counts() || (ftk_det_course.plan == 0 && !ftk_log.mode->follows))
        return FTK_DET_FREE;
    if (!await_next())
        return FTK_DET_FREE;
    *det = ftk_det_upcoming();
    if (ftk_det_course.nothings < (*det)->n) {
        ftk_det_course.nothings++;
        return FTK_DET_NOTHING;
    }
    if ((*det)->kind != kind) {
        ftk_report(FTKIT_ERROR,
            "context %s: rank %d does not take the same course as before the failure: it makes "
            "%s where it made %s then%s",
            ftk_log.ctx->cfg.name, ftk_log.me, ftk_det_text(kind), ftk_det_text((*det)->kind),
            ftk_log.in_set_up ? " (in set-up, from ftkit_open to ftkit_recover)" : "");
        ftk_figures_differs();
        ftk_det_course.plan = ftk_det_course.at;
        return FTK_DET_FREE;
    }
    ftk_det_course.at += 1 + ftk_det_nmore(*det);
    ftk_det_course.nothings = 0;
    *det = copy_of(*det);
    return FTK_DET_THIS;
}

int ftk_det_next(uint32_t kind, const struct ftk_det **det)
{
    if (ftk_log_replays_setup())
        return ftk_set_up_next(kind, det);
    const int next = next_of_list(kind, det);
    if (ftk_det_kind_of(kind)->keeper != FTK_DET_KEPT)
        return next;
    if (next == FTK_DET_NOTHING)
        ftk_set_up_nothing();
    else if (next == FTK_DET_THIS)
        ftk_set_up_found(*det);
    return next;
}

void ftk_det_forget_copy(void)
{
    free(copied);
    copied = NULL;
}
