/* The receives under way at a line, and their numbers: determinants name receives by them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "log/determinant/det.h"
#include "log/p2p.h"
#include "log/base/part.h"

static bool is_numbered(const struct ftk_req *r)
{
    return r->kind == FTK_REQ_RECV && !r->internal;
}

bool ftk_receives_may_cut(void)
{
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        if (r->kind == FTK_REQ_RECV && r->replay.match_known)
            return false;
    return true;
}

/* Note the receives under way, for their determinants after the line. */
static int cut(bool apart)
{
    size_t nw = 0, nr = 0, n = 0;
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        n += is_numbered(r);
    uint32_t *wildcards = malloc((2 * n + 1) * sizeof *wildcards);
    if (!wildcards)
        return ftk_fail(FTKIT_ERR_NOMEM, "receives under way");
    uint32_t *receives = wildcards + n;
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next) {
        if (!is_numbered(r))
            continue;
        if (r->recv.wildcard_seq)
            wildcards[nw++] = r->recv.wildcard_seq;
        receives[nr++] = r->recv.number;
    }
    int rc = apart ? ftk_det_cut(wildcards, nw, receives, nr)
                   : ftk_det_at_line(wildcards, nw, receives, nr);
    free(wildcards);
    return rc;
}

/* The line is committed, and its determinants begin: number the receives under way anew. */
static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    for (struct ftk_req *r = ftk_log.queue.first; r; r = r->next) {
        if (!is_numbered(r))
            continue;
        if (r->recv.wildcard_seq)
            r->recv.wildcard_seq = ftk_det_new_number(FTK_DET_WILDCARDS, r->recv.wildcard_seq);
        r->recv.number = ftk_det_new_number(FTK_DET_RECEIVES, r->recv.number);
    }
}

const struct ftk_part ftk_part_receives = { .cut = cut, .line = pass_line };
