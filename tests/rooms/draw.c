/* A kind of determinant for tests/rooms.t: a rank draws another rank and a number by chance, or
 * nothing.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <sys/random.h>

#include "log/determinant/det.h"
#include "log/vcomm/vcomm.h"

int draw(MPI_Comm comm, int *rank, int *number);

static bool is_sane(const struct ftk_det *det, uint64_t all)
{
    (void)all;
    ftk_report(FTKIT_DEBUG, "context %s: rank %d: a draw of a set is looked at",
        ftk_log.ctx->cfg.name, ftk_log.me);
    return det->b >= 0;
}

const struct ftk_det_kind ftk_det_kind_draw = {
    .text = "a draw", .a_is_rank = true, .keeper = FTK_DET_KEPT, .is_sane = is_sane
};

/* *rank: MPI_UNDEFINED: nothing. */
int draw(MPI_Comm comm, int *rank, int *number)
{
    static unsigned turns;
    const struct ftk_det *det;
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    uint32_t chance[2];
    *rank = MPI_UNDEFINED;
    *number = 0;
    if (!vc || ftk_log_is_rolling_back()
        || getrandom(chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return MPI_ERR_OTHER;
    const int next = ftk_det_next(FTK_DET_DRAW, &det);
    if (next == FTK_DET_THIS) {
        *rank = ftk_vcomm_rank(vc, det->a);
        *number = det->b;
        ftk_report(FTKIT_DEBUG, "context %s: rank %d: draws rank %d again%s", ftk_log.ctx->cfg.name,
            ftk_log.me, det->a, ftk_log.in_set_up ? " in set-up" : "");
    } else if (next == FTK_DET_FREE && chance[0] % 2 == 0) {
        *rank = (int)(chance[1] % (uint32_t)vc->size);
        *number = (int)(chance[0] >> 1);
        ftk_det_found(FTK_DET_DRAW, ftk_vcomm_world(vc, *rank), *number);
    } else {
        if (next == FTK_DET_FREE)
            ftk_det_found_nothing();
        return ftk_log_progress(&turns);
    }
    return MPI_SUCCESS;
}
