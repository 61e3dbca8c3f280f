/* Beginning to flush a set in the background (see flush_start.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "flush_start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "core/log_ops.h"
#include "detect/sure.h"
#include "energy/energy.h"
#include "flusher.h"
#include "replica/planes.h"
#include "store/durable/sets.h"
#include "writers.h"

#define PATIENCE 10.0 /* the thread's patience, in units of recover.timeout, as the watchdog's */

/* What each rank sends to the others when a flush begins. */
struct fact {
    int32_t rc;
    int32_t writer;
    uint64_t head;
    uint64_t number; /* of the flush, from rank 0 */
};

struct ftk_flush_start {
    struct ftk_chan *ch;
    uint64_t set;
    struct ftk_mem_seg *own;
    enum { RING, FACTS } stage;
    struct ftk_sure sure;
    struct ftk_gather *gather;
    int error; /* of this rank: it could not get ready */
    union {
        struct ftk_ring_address *ring; /* [nranks] */
        struct fact *fact;             /* [nranks] */
        void *any;
    } all;
};

/* ---- memory that the ranks of a node share ---------------------------------------------- */

/* Begin to send the block mine to all ranks. */
static int share(struct ftk_flush_start *s, const void *mine, size_t bytes, const char *what)
{
    struct ftk_chan *ch = s->ch;
    free(s->all.any);
    s->all.any = malloc((size_t)ch->ctx->nranks * bytes);
    if (!s->all.any)
        return ftk_chan_break(ch, MPI_ERR_OTHER, "no memory for a table");
    s->sure = (struct ftk_sure){ ch->comm, ch, what };
    return ftk_sure_gather_begin(&s->sure, mine, bytes, &s->gather);
}

/* Once in an epoch: each writer makes a ring, and the other ranks of its group join.  A rank that
 * cannot join writes a part of its own. */
static int make_ring(struct ftk_flush_start *s)
{
    struct ftkit_ctx *ctx = s->ch->ctx;
    struct ftk_flush *fl = &ctx->flush;
    const struct ftk_writers_place p = ftk_writers_place(ctx, ctx->rank, FTK_WRITES_BEHIND, 0);
    struct ftk_ring_address mine = { 0, 0, 0 };
    ftk_ring_close(fl->ring);
    fl->ring = NULL;
    fl->writer_of_own = p.writer < 0 ? p.writer : ctx->rank;
    int rc = FTKIT_OK;
    if (p.writer == ctx->rank && p.nranks > 1)
        rc = ftk_ring_make(p.nranks, &fl->ring, &mine);
    if (rc != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "context %s: %s: every rank of its group writes a file",
            ctx->cfg.name, ftk_detail_text());
    s->stage = RING;
    return share(s, &mine, sizeof mine, "sharing memory in the nodes");
}

static void join_ring(struct ftk_flush_start *s)
{
    struct ftkit_ctx *ctx = s->ch->ctx;
    struct ftk_flush *fl = &ctx->flush;
    const struct ftk_writers_place p = ftk_writers_place(ctx, ctx->rank, FTK_WRITES_BEHIND, 0);
    if (p.writer >= 0 && p.writer != ctx->rank) {
        const struct ftk_ring_address *of = &s->all.ring[p.writer];
        if (ftk_ring_join(of, p.member, &fl->ring) == FTKIT_OK)
            fl->writer_of_own = p.writer;
        else if (of->pid != 0)
            ftk_report(FTKIT_WARNING, "context %s: rank %d writes a file of its own: %s",
                ctx->cfg.name, ctx->rank, ftk_detail_text());
    }
    fl->ring_known = true;
    fl->ring_epoch = ctx->epoch;
}

void ftk_flush_new_epoch(struct ftkit_ctx *ctx)
{
    if (ctx->flush.ring)
        ftk_ring_leave(ctx->flush.ring);
    if (ctx->flush.thread)
        ftk_flusher_repaired(ctx->flush.thread, GRACE_FAILED_S);
    ctx->flush.ring_known = false;
}

/* ---- the facts ------------------------------------------------------------------------ */

/* Make the tables.  Local. */
static int get_ready(struct ftkit_ctx *ctx)
{
    struct ftk_flush *fl = &ctx->flush;
    size_t n = (size_t)ctx->nranks;
    free(fl->writer);
    free(fl->member);
    free(fl->heads);
    fl->writer = calloc(n, sizeof *fl->writer);
    fl->member = calloc(n, sizeof *fl->member);
    fl->heads = calloc(n, sizeof *fl->heads);
    if (!fl->writer || !fl->member || !fl->heads)
        return ftk_fail(FTKIT_ERR_NOMEM, "tables of %zu ranks", n);
    return FTKIT_OK;
}

static int share_facts(struct ftk_flush_start *s)
{
    struct ftkit_ctx *ctx = s->ch->ctx;
    s->error = get_ready(ctx);
    const struct fact mine = { s->error, ctx->flush.writer_of_own,
        ((const struct ftk_seg_header *)(const void *)s->own->buf)->head_xxh, ftk_random() };
    s->stage = FACTS;
    return share(s, &mine, sizeof mine, "beginning to write a set");
}

/* Fill the tables.  Return the most severe code of all ranks. */
static int use_facts(const struct ftk_flush_start *s)
{
    struct ftkit_ctx *ctx = s->ch->ctx;
    struct ftk_flush *fl = &ctx->flush;
    const struct fact *all = s->all.fact;
    int rc = FTKIT_OK;
    if (fl->ring)
        ftk_ring_made(fl->ring);
    for (int r = 0; r < ctx->nranks; r++)
        rc = all[r].rc < rc ? all[r].rc : rc;
    for (int r = 0; rc == FTKIT_OK && r < ctx->nranks; r++) {
        fl->writer[r] = all[r].writer;
        fl->heads[r] = all[r].head;
    }
    if (rc == FTKIT_OK)
        ftk_writers_list(ctx, FTK_WRITES_BEHIND, 0, NULL, fl->member);
    if (rc != FTKIT_OK && s->error == FTKIT_OK)
        return ftk_fail(
            rc, "beginning to write the set failed on another rank: %s", ftkit_strerror(rc));
    return rc;
}

/* The configured bandwidth is that of a node: the writers of the node share it. */
static double own_bandwidth(const struct ftkit_ctx *ctx)
{
    int writers = 0;
    for (int r = 0; r < ctx->nranks; r++)
        writers += ctx->flush.writer[r] == r && ctx->domain[r] == ctx->domain[ctx->rank];
    return ctx->cfg.h5_bandwidth / (writers > 0 ? writers : 1);
}

static void give_to_thread(struct ftkit_ctx *ctx, struct ftk_mem_seg *own, uint64_t number)
{
    struct ftk_flush *fl = &ctx->flush;
    const struct ftk_seg_header *h = (const void *)own->buf;
    struct ftk_flush_job j = { .set = own->set,
        .run = h->run,
        .rank = ctx->rank,
        .nranks = ftk_plane_size(ctx),
        .writer = fl->writer,
        .member = fl->member,
        .heads = fl->heads,
        .level = ftk_sets_level(ctx->cfg.h5_level),
        .seg = own->buf,
        .bytes = own->bytes,
        .ring = fl->ring,
        .bytes_per_s = own_bandwidth(ctx),
        .deflate = ctx->cfg.h5_compress == FTK_COMPRESS_DEFLATE,
        .plain = ctx->cfg.files_plain,
        .patience_s = PATIENCE * ctx->cfg.timeout_s,
        .keep = ctx->cfg.h5_keep,
        .number = number,
        .own = { ftk_durable_own_behind, ctx } };
    snprintf(j.dir, sizeof j.dir, "%s", ctx->cfg.h5_dir);
    snprintf(j.context, sizeof j.context, "%s", ctx->cfg.name);
    memcpy(j.program, h->program, sizeof j.program);
    ftk_mem_hold(&ctx->level[FTK_LEVEL_MEMORY].mem, own);
    if (fl->ring)
        ftk_ring_offer(fl->ring, own->set, own->bytes);
    fl->held = own;
    fl->set = fl->last = own->set;
    fl->epoch = ctx->epoch;
    ftk_energy_begin(ctx, FTK_ENERGY_FLUSH);
    ftk_flusher_give(fl->thread, &j);
}

/* ---- steps ------------------------------------------------------------------------------ */

int ftk_flush_start(struct ftk_chan *ch, uint64_t set, struct ftk_flush_start **out)
{
    struct ftkit_ctx *ctx = ch->ctx;
    const struct ftk_flush *fl = &ctx->flush;
    struct ftk_flush_start *s = *out = calloc(1, sizeof *s);
    (void)FTK_FAULT("flush.submit");
    if (!s)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, "beginning to write a set");
    s->ch = ch;
    s->set = set;
    s->own = ftk_mem_find(&ctx->level[FTK_LEVEL_MEMORY].mem, set, ctx->rank);
    int rc;
    if (!s->own)
        rc = ftk_chan_break(ch, MPI_ERR_OTHER, "the set is not in memory");
    else if (!fl->ring_known || fl->ring_epoch != ctx->epoch)
        rc = make_ring(s);
    else
        rc = share_facts(s);
    if (rc != FTKIT_OK)
        ftk_flush_start_drop(out);
    return rc;
}

/* All facts have come. */
static int give(const struct ftk_flush_start *s)
{
    struct ftkit_ctx *ctx = s->ch->ctx;
    int rc = use_facts(s);
    if (rc != FTKIT_OK)
        return rc;
    (void)FTK_FAULT("flush.announced");
    give_to_thread(ctx, s->own, s->all.fact[0].number);
    if (ctx->rank == 0)
        ftk_report(FTKIT_DEBUG, "context %s: set %llu: being written to the file system",
            ctx->cfg.name, (unsigned long long)s->set);
    (void)FTK_FAULT("flush.submitted");
    return FTKIT_OK;
}

int ftk_flush_start_step(struct ftk_flush_start **at, bool *done)
{
    struct ftk_flush_start *s = *at;
    bool here = false;
    *done = false;
    int rc = ftk_sure_gather_step(&s->gather, s->all.any, &here);
    if (rc == FTKIT_OK && !here)
        return rc;
    if (rc == FTKIT_OK && s->stage == RING) {
        join_ring(s);
        rc = share_facts(s);
    } else if (rc == FTKIT_OK) {
        rc = give(s);
        *done = true;
    }
    if (rc != FTKIT_OK || *done)
        ftk_flush_start_drop(at);
    return rc;
}

void ftk_flush_start_drop(struct ftk_flush_start **at)
{
    struct ftk_flush_start *s = *at;
    if (!s)
        return;
    ftk_sure_gather_drop(&s->gather);
    free(s->all.any);
    free(s);
    *at = NULL;
}
