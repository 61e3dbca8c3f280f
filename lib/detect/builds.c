/* Whether the processes of a communicator have one build of ftkit (see builds.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "builds.h"

int ftk_builds_compare(const struct ftk_sure *s, int rank, struct ftk_builds *b)
{
    const int64_t key = ftk_build_key(rank);
    int64_t ends[2] = { key, ~key };
    int rc = ftk_sure_min(s, ends, 2);
    b->differ = false;
    ends[1] = ~ends[1];
    if (rc != FTKIT_OK || ftk_build_is_same(ends[0], ends[1]))
        return rc;
    b->differ = true;
    for (int i = 0; i < 2; i++) {
        b->process[i] = ftk_build_rank(ends[i]);
        ftk_build_text(ends[i], b->text[i]);
    }
    return FTKIT_OK;
}
