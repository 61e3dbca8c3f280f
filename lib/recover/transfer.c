/* Moving segments in a repair: lost ones to their new processes, then lost copies.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "../store/stream.h"
#include "recover.h"

enum { STAGE_OWN, STAGE_COPY };
#define TAG_FIRST 16 /* one tag per stream: two may run between the same ranks */

static int add(struct ftk_stream **list, int *n, bool send, int peer, int tag,
    const struct ftk_plan *p, int rank)
{
    struct ftk_stream *all = realloc(*list, ((size_t)*n + 1) * sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "list of transfers");
    *list = all;
    ftk_stream_init(&all[(*n)++], send, peer, tag, p->line, rank, p->nranks);
    return FTKIT_OK;
}

/* This rank's part of the transfers of one stage. */
static int list_streams(
    const struct ftk_plan *p, int me, int stage, struct ftk_stream **list, int *n)
{
    const int *need = stage == STAGE_OWN ? p->need_own : p->need_copy;
    int rc = FTKIT_OK;
    for (int r = 0; rc == FTKIT_OK && r < p->nranks; r++) {
        if (!need[r])
            continue;
        int from = stage == STAGE_OWN ? p->rank_of[p->source[r]] : r;
        int to = stage == STAGE_OWN ? r : p->holder[r];
        int tag = TAG_FIRST + 2 * r + stage;
        if (to == me)
            rc = add(list, n, false, from, tag, p, r);
        else if (from == me)
            rc = add(list, n, true, to, tag, p, r);
    }
    return rc;
}

/* Give every sender its segment, after comparing its checksums: a corrupt copy is not
 * passed on, and the next census does without it. */
static int load_senders(struct ftkit_ctx *ctx, struct ftk_stream *list, int n)
{
    for (int i = 0; i < n; i++) {
        struct ftk_stream *s = &list[i];
        if (!s->send)
            continue;
        struct ftk_mem_seg *seg = ftk_mem_find(&ctx->mem, s->set, s->rank);
        if (!seg)
            return ftk_fail(FTKIT_ERR_INTERNAL, "set %llu: segment of rank %d is gone",
                (unsigned long long)s->set, s->rank);
        if (FTK_FAULT("transfer.corrupt"))
            seg->buf[seg->bytes - 1] ^= 1;
        if (!seg->verified
            && (ftk_seg_check_head(seg->buf, seg->bytes, "copy") != FTKIT_OK
                || ftk_seg_check_data(seg->buf, "copy") != FTKIT_OK)) {
            ftk_report(FTKIT_WARNING, "copy of rank %d: %s", s->rank, ftk_detail_text());
            ftk_mem_release(seg);
            return FTKIT_ERR_CORRUPT;
        }
        seg->verified = true;
        ftk_stream_give(s, seg);
    }
    return FTKIT_OK;
}

static int run_stage(struct ftkit_ctx *ctx, struct ftk_chan *ch, const struct ftk_plan *p,
    int me, int stage)
{
    struct ftk_stream *list = NULL;
    int n = 0;
    int local = FTKIT_OK;
    int rc = list_streams(p, me, stage, &list, &n);
    if (rc == FTKIT_OK)
        rc = load_senders(ctx, list, n);
    if (rc == FTKIT_OK)
        rc = ftk_stream_sizes(ch, &ctx->mem, list, n, &local);
    if (rc == FTKIT_OK)
        rc = local;
    (void)FTK_FAULT(stage == STAGE_OWN ? "transfer.own" : "transfer.copy");
    if (rc == FTKIT_OK)
        rc = ftk_stream_run(ch, list, n, &local);
    if (rc == FTKIT_OK)
        rc = local;
    if (rc != FTKIT_OK && !ch->broken)
        (void)ftk_chan_break(ch, MPI_ERR_OTHER, "a transfer that cannot go on");
    if (rc != FTKIT_OK)
        ftk_stream_abandon(ch, list, n);
    free(list);
    return rc;
}

int ftk_transfer(struct ftkit_ctx *ctx, struct ftk_chan *ch, const struct ftk_plan *p)
{
    int me;
    int mrc = MPI_Comm_rank(ch->comm, &me);
    if (mrc != MPI_SUCCESS)
        return ftk_fail_mpi(mrc, "rank");
    int rc = run_stage(ctx, ch, p, me, STAGE_OWN);
    if (rc == FTKIT_OK)
        rc = run_stage(ctx, ch, p, me, STAGE_COPY);
    return rc;
}
