/* Scrubbing: verify the segments in memory while the job runs, and replace damaged ones before they
 * are needed.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <string.h>

#include "complete.h"
#include "scrub.h"
#include "set/checkpoint.h"
#include "set/flush.h"
#include "set/policy.h"

/* Verify the segments of a level.  Return the number of damaged segments, which are released. */
static int look_through(struct ftkit_ctx *ctx, struct ftk_level *l)
{
    struct ftk_mem *mem = &l->mem;
    int bad = 0;
    ftk_mem_unverify(mem);
    for (int i = 0; i < mem->nsegs; i++) {
        struct ftk_mem_seg *s = mem->segs[i];
        if (s->set == 0 || !s->sealed)
            continue;
        if (FTK_FAULT("scrub.corrupt"))
            s->buf[s->bytes - 1] ^= 1;
        if (ftk_mem_verify(s, s->parity ? "parity" : "segment") == FTKIT_OK)
            continue;
        ftk_report(FTKIT_WARNING, "context %s: %s: rank %d: of rank %d: %s", ctx->cfg.name, l->name,
            ctx->rank, s->rank, ftk_detail_text());
        ftk_mem_release(s);
        bad++;
    }
    return bad;
}

/* On all ranks: replace damaged segments from copies and parity.  If that is impossible, request a
 * new set at the next call of ftkit_checkpoint(). */
static int put_right(struct ftkit_ctx *ctx, struct ftk_chan *ch)
{
    struct ftk_mem *mem = &ctx->level[FTK_LEVEL_MEMORY].mem;
    struct ftk_plan p;
    int rc = ftk_plan_again(ctx, ch, &p);
    if (ch->broken)
        return rc;
    bool can =
        rc == FTKIT_OK && p.outcome == FTK_PLAN_GO && !p.from_file && p.line_nranks == ctx->nranks;
    (void)FTK_FAULT("scrub.planned");
    if (can)
        ftk_plan_void(&p, mem);
    rc = ftk_agree(ch, rc, "scrub: another rank has no plan");
    (void)FTK_FAULT("scrub.agreed");
    if (rc == FTKIT_OK && can)
        rc = ftk_complete(ctx, mem, ch, &p);
    if (rc == FTKIT_OK && !can)
        ftk_policy_ask(ctx, 1);
    if (rc == FTKIT_OK && ctx->rank == 0)
        ftk_report(FTKIT_INFO, "context %s: set %llu in memory: %s", ctx->cfg.name,
            (unsigned long long)ctx->committed,
            can ? "put right from copies or parity"
                : "cannot be put right; the next call writes another");
    ftk_plan_free(&p);
    return rc;
}

/* One word for each level, behind the words of ftk_flush_ask_calls(). */
enum { WORD_LEVELS = 6 };
_Static_assert(WORD_LEVELS + FTK_LEVELS <= FTK_VOTE_WORDS, "a vote has room for the levels");

int ftk_scrub(struct ftkit_ctx *ctx, struct ftk_chan *ch, int *bad)
{
    struct ftk_level *local = &ctx->level[FTK_LEVEL_LOCAL];
    struct ftk_vote v;
    (void)FTK_FAULT("scrub.begin");
    ftk_vote_init(&v);
    ftk_flush_ask_calls(ctx, FTK_DRAIN_SCRUB, &v);
    *bad = 0;
    for (int i = 0; i < FTK_LEVELS; i++) {
        int n = look_through(ctx, &ctx->level[i]);
        v.min[WORD_LEVELS + i] = -n;
        *bad += n;
    }
    int rc = ftk_vote(ch, ctx->nranks, &v);
    if (rc != FTKIT_OK)
        return rc;
    if (!ftk_vote_is_same(&v, FTK_VOTE_CALLS))
        return ftk_flush_mismatch(ctx, &v);
    if (v.min[WORD_LEVELS + FTK_LEVEL_LOCAL] < 0) { /* make the next set due in level.local */
        local->sets_since = UINT64_MAX / 2;
        local->last_s = -HUGE_VAL;
    }
    return v.min[WORD_LEVELS + FTK_LEVEL_MEMORY] < 0 && ctx->committed > 0 ? put_right(ctx, ch)
                                                                           : FTKIT_OK;
}
