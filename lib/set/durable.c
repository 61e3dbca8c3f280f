/* The durable level: sets on the file system.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A writer (writers.h) collects the segments of its group one after the other and writes them into
 * one part, so a part costs the writer memory for one segment.  Rank 0 makes the directory first
 * and writes the manifest last.  Between these steps all ranks vote.  So all ranks return the same
 * code, and rank 0 writes no manifest of an incomplete set. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "core/access.h"
#include "core/hash.h"
#include "core/run_state.h"
#include "detect/detect.h"
#include "detect/sure.h"
#include "detect/watch_page.h"
#include "detect/watchdog.h"
#include "flusher.h"
#include "number.h"
#include "replica/planes.h"
#include "store/durable/sets.h"
#include "store/owner.h"
#include "store/sets_dir.h"
#include "stream.h"
#include "writers.h"

/* ---- owning -----------------------------------------------------------------------------
 * Two jobs that write the same sets would destroy the sets of both. */

static struct ftk_owner_job job_of(const struct ftkit_ctx *ctx)
{
    return (struct ftk_owner_job){ .job = ctx->job,
        .run = ftk_run_number(),
        .mpi = ftk_run_mpi(),
        .alone = ftk_watchdog_alone(ctx->dog, ctx->nranks + ctx->nspares),
        .epoch = ctx->epoch,
        .lives = ftk_dog_job_lives };
}

static pthread_mutex_t owner_lock = PTHREAD_MUTEX_INITIALIZER; /* protects ctx->owner */

static int own(struct ftkit_ctx *ctx, bool make)
{
    const struct ftk_owner_job job = job_of(ctx);
    if (make) /* an error shows at the next step, which makes the directory otherwise */
        (void)ftk_sets_dir_make(ctx->cfg.h5_dir, ctx->cfg.name, ftk_access_rights(ctx->cfg.access));
    pthread_mutex_lock(&owner_lock);
    int rc = ctx->owner ? ftk_owner_check(ctx->owner, make)
                        : ftk_owner_take(ctx->cfg.h5_dir, ctx->cfg.name, &job, make, &ctx->owner);
    pthread_mutex_unlock(&owner_lock);
    return rc;
}

int ftk_durable_own(struct ftkit_ctx *ctx, bool make)
{
    const bool writing = ctx->repair.pending == FTK_PENDING_NONE; /* the caller has set the state */
    ftk_watchdog_state(ctx->dog, FTK_DOG_BUSY); /* the call may wait for the end of another job */
    int rc = own(ctx, make);
    ftk_watchdog_state(ctx->dog, writing ? FTK_DOG_BUSY : FTK_DOG_RUN);
    return rc;
}

int ftk_durable_own_behind(void *ctx)
{
    return own(ctx, true);
}

/* The turn of this rank in keeping the record of the owner: rank 0 first, then the next rank in the
 * failure domain of rank 0 and the lowest ranks of other domains; -1: it does not take part. */
static int turn_of(const struct ftkit_ctx *ctx)
{
    bool near = false; /* a rank beside rank 0 takes part */
    if (!ctx->cfg.h5_enabled || (ctx->rank > 0 && ctx->mode == FTKIT_MODE_RESTART))
        return -1; /* without repairs a job ends with its rank 0 */
    if (ctx->rank <= 0)
        return ctx->rank;
    for (int r = 1, turn = 0; r <= ctx->rank && turn < FTK_OWNER_STANDINS; r++) {
        bool beside = ctx->domain[r] == ctx->domain[0];
        bool takes_part = beside ? !near : ftk_first_of_domain(ctx, r) == r;
        near = near || beside;
        turn += takes_part;
        if (r == ctx->rank && takes_part)
            return turn;
    }
    return -1;
}

static void stand_in(struct ftkit_ctx *ctx, bool opening)
{
    const int turn = turn_of(ctx);
    if (ctx->owner) {
        ftk_owner_turn(ctx->owner, turn, ctx->epoch);
        return;
    }
    if (turn < 0 || (turn == 0 && opening)) /* rank 0 of a new job takes the record itself */
        return;
    const struct ftk_owner_job job = job_of(ctx);
    ctx->owner = ftk_owner_stand_in(ctx->cfg.h5_dir, ctx->cfg.name, &job, turn);
    if (!ctx->owner)
        ftk_report(FTKIT_WARNING,
            "context %s: rank %d cannot stand in for the owner of the sets: no memory, or no "
            "thread",
            ctx->cfg.name, ctx->rank);
}

/* Only rank 0 has a helper thread that uses the record.  While the thread does, rank 0 has its turn
 * already, and a repair must not wait for the file system. */
void ftk_durable_stand_in(struct ftkit_ctx *ctx, bool opening)
{
    const bool locks = ctx->rank == 0;
    if (locks && pthread_mutex_trylock(&owner_lock) != 0)
        return;
    stand_in(ctx, opening);
    if (locks)
        pthread_mutex_unlock(&owner_lock);
}

/* ---- writing ------------------------------------------------------------------------- */

struct collecting {
    struct ftkit_ctx *ctx;
    struct ftk_chan *ch;
    const struct ftk_mem_seg *own;
    int *writer;        /* [nranks]; -1: the segment is not written */
    struct ftk_mem mem; /* has the buffer for the segments of other ranks */
    struct ftk_mem_seg *passing;
    int next;       /* the rank to look at next */
    int peer_error; /* error of a receive; FTKIT_OK: none */
};

int ftk_first_of_domain(const struct ftkit_ctx *ctx, int rank)
{
    int first = 0;
    while (ctx->domain[first] != ctx->domain[rank])
        first++;
    return first;
}

/* A writer without memory for a segment has no means to inform the sender.  So the writer breaks
 * the channel, as after a failure; the repair that follows ends the write on all ranks. */
static int receive_segment(struct collecting *c, int from)
{
    struct ftk_stream s;
    int local;
    const struct ftk_mem_seg *own = c->own;
    ftk_stream_init(&s, false, from, FTK_TAG_COLLECT, own->set, from, own->nranks);
    int rc = ftk_stream_sizes(c->ch, &c->mem, &s, 1, &local);
    if (rc == FTKIT_OK && local != FTKIT_OK)
        rc = ftk_chan_break(c->ch, MPI_ERR_OTHER, "no memory to collect a segment");
    if (rc == FTKIT_OK)
        rc = ftk_stream_run(c->ch, &s, 1, &local);
    if (rc != FTKIT_OK) {
        ftk_stream_abandon(c->ch, &s, 1);
        c->peer_error = rc;
        return rc;
    }
    c->passing = s.seg;
    return local;
}

/* Get the next segment of this writer, in the order of ranks. */
static int next_collected(void *arg, const void **seg)
{
    struct collecting *c = arg;
    const struct ftkit_ctx *ctx = c->ctx;
    if (c->passing)
        ftk_mem_release(c->passing);
    c->passing = NULL;
    while (c->writer[c->next] != ctx->rank)
        c->next++;
    int rank = c->next++;
    if (rank == ctx->rank) {
        *seg = c->own->buf;
        return FTKIT_OK;
    }
    int rc = receive_segment(c, rank);
    if (rc == FTKIT_OK)
        *seg = c->passing->buf;
    return rc;
}

/* After an error of the file: receive the segments that the other ranks still send. */
static int drain(struct collecting *c)
{
    int rc = c->peer_error;
    const struct ftkit_ctx *ctx = c->ctx;
    for (int r = c->next; rc == FTKIT_OK && r < ftk_plane_size(ctx); r++) {
        if (c->writer[r] != ctx->rank || r == ctx->rank)
            continue;
        rc = receive_segment(c, r);
        if (c->passing)
            ftk_mem_release(c->passing);
        c->passing = NULL;
    }
    return rc;
}

static int write_part(struct collecting *c, uint32_t part, struct ftk_manifest_part *out)
{
    struct ftkit_ctx *ctx = c->ctx;
    int nsegs = 0;
    for (int r = 0; r < ctx->nranks; r++)
        nsegs += c->writer[r] == ctx->rank;
    const struct ftk_part_job job = { .dir = ctx->cfg.h5_dir,
        .context = ctx->cfg.name,
        .set = c->own->set,
        .flush = ctx->epoch_id,
        .part = part,
        .nsegs = nsegs,
        .deflate = ctx->cfg.h5_compress == FTK_COMPRESS_DEFLATE,
        .plain = ctx->cfg.files_plain,
        .next = next_collected,
        .arg = c };
    int rc = ftk_sets_level(ctx->cfg.h5_level)->write(&job, out);
    if (rc != FTKIT_OK) {
        int drained = drain(c);
        if (drained != FTKIT_OK)
            rc = drained;
    }
    ftk_mem_close(&c->mem, false);
    return rc;
}

static int send_segment(struct collecting *c, int writer)
{
    struct ftk_stream s;
    int local;
    const struct ftk_mem_seg *own = c->own;
    ftk_stream_init(&s, true, writer, FTK_TAG_COLLECT, own->set, own->rank, own->nranks);
    ftk_stream_give(&s, ftk_mem_find(&c->ctx->level[FTK_LEVEL_MEMORY].mem, own->set, own->rank));
    int rc = ftk_stream_sizes(c->ch, &c->mem, &s, 1, &local);
    if (rc == FTKIT_OK)
        rc = ftk_stream_run(c->ch, &s, 1, &local);
    if (rc != FTKIT_OK)
        ftk_stream_abandon(c->ch, &s, 1);
    return rc;
}

/* Write the manifest from the reports of the writers. */
static int write_manifest(const struct collecting *c, struct ftk_manifest_part *parts)
{
    struct ftkit_ctx *ctx = c->ctx;
    const int n = ftk_plane_size(ctx);
    struct ftk_manifest m = { .set = c->own->set, .nranks = (uint32_t)n };
    const struct ftk_seg_header *h = (const void *)c->own->buf;
    m.run = h->run;
    memcpy(m.context, h->context, sizeof m.context);
    memcpy(m.program, h->program, sizeof m.program);
    m.part_of = malloc((size_t)n * sizeof *m.part_of);
    if (!m.part_of)
        return ftk_fail(FTKIT_ERR_NOMEM, "manifest");
    for (int r = 0; r < n; r++) {
        const int w = c->writer[r];
        if (w == r) {
            m.part_of[r] = m.nparts;
            parts[m.nparts++] = parts[r]; /* nparts <= r: overwrites no unread entry */
        }
        m.part_of[r] = m.part_of[w]; /* a writer is the first of its ranks */
    }
    m.parts = parts;
    int rc = ftk_durable_own_behind(ctx);
    if (rc == FTKIT_OK)
        rc = ftk_sets_level(ctx->cfg.h5_level)->commit(ctx->cfg.h5_dir, ctx->epoch_id, &m);
    free(m.part_of);
    return rc;
}

/* Gather the reports on the parts on all ranks.  Only rank 0 needs them, but they are small. */
static int gather_parts(
    struct ftk_chan *ch, const struct ftk_manifest_part *mine, struct ftk_manifest_part *all)
{
    const struct ftk_sure s = { ch->comm, ch, "gathering the parts" };
    return ftk_sure_allgather(&s, mine, sizeof *mine, all);
}

/* Behind a vote that has failed: no rank writes this set any more.  The parts that are whole would
 * take the space that the next sets need. */
static void drop_set(struct ftkit_ctx *ctx, uint64_t set, int code)
{
    const struct ftk_still still = { ftk_durable_own_behind, ctx };
    char why[FTK_DETAIL_MAX];
    snprintf(why, sizeof why, "%s", ftk_detail_text());
    const int rc = ftk_sets_level(ctx->cfg.h5_level)
                       ->drop(ctx->cfg.h5_dir, ctx->cfg.name, set, ctx->epoch_id, &still);
    if (rc == FTKIT_OK)
        return;
    ftk_report(FTKIT_WARNING, "context %s: what was written of set %llu was not removed: %s",
        ctx->cfg.name, (unsigned long long)set, ftk_detail_text());
    (void)ftk_fail(code, "%s", why); /* the detail of the call */
}

/* Rank 0 makes the directory; *bytes: of the largest segment.  All ranks return the same. */
static int make_set(struct ftk_chan *ch, const struct ftk_mem_seg *own, uint64_t *bytes)
{
    enum { WORD_ERROR, WORD_BYTES };
    struct ftkit_ctx *ctx = ch->ctx;
    const struct ftk_still still = { ftk_durable_own_behind, ctx };
    struct ftk_vote v;
    int made = FTKIT_OK;
    if (ctx->rank == 0)
        made = ftk_durable_own(ctx, true);
    if (ctx->rank == 0 && made == FTKIT_OK)
        made = ftk_sets_begin(ftk_sets_level(ctx->cfg.h5_level), ctx->cfg.h5_dir, ctx->cfg.name,
            own->set, ctx->epoch_id, &still);
    if (made == FTKIT_ERR_PEER) /* all ranks learn of a failure anyway */
        return made;
    ftk_vote_init(&v);
    v.min[WORD_ERROR] = made;
    v.min[WORD_BYTES] = -(int64_t)own->bytes; /* the vote finds the smallest */
    const int rc = ftk_vote(ch, ctx->nranks, &v);
    if (rc != FTKIT_OK)
        return rc;
    *bytes = (uint64_t)-v.min[WORD_BYTES];
    if (made == FTKIT_OK && v.min[WORD_ERROR] != FTKIT_OK)
        return ftk_fail((int)v.min[WORD_ERROR],
            "making the directory of the set failed on another rank: %s",
            ftkit_strerror((int)v.min[WORD_ERROR]));
    return (int)v.min[WORD_ERROR];
}

static int write_set(struct ftk_chan *ch, const struct ftk_mem_seg *own, int *writer,
    struct ftk_manifest_part *parts)
{
    struct ftkit_ctx *ctx = ch->ctx;
    struct collecting c = { .ctx = ctx, .ch = ch, .own = own, .writer = writer };
    struct ftk_manifest_part mine;
    uint64_t bytes;
    memset(&mine, 0, sizeof mine);
    (void)FTK_FAULT("durable.begin");
    int rc = make_set(ch, own, &bytes);
    if (rc != FTKIT_OK)
        return rc;
    ftk_writers_list(ctx, FTK_WRITES_NOW, bytes, writer, NULL);
    if (writer[ctx->rank] == ctx->rank)
        rc = write_part(&c, (uint32_t)ctx->rank, &mine);
    else if (writer[ctx->rank] >= 0)
        rc = send_segment(&c, writer[ctx->rank]);
    (void)FTK_FAULT("durable.written");
    rc = ftk_agree(ch, rc, "writing a part of the set failed on another rank");
    if (rc == FTKIT_OK)
        rc = gather_parts(ch, &mine, parts);
    if (rc == FTKIT_OK && ctx->rank == 0)
        rc = write_manifest(&c, parts);
    (void)FTK_FAULT("durable.manifest");
    rc = ftk_agree(ch, rc, "writing the manifest of the set failed on another rank");
    if (rc != FTKIT_OK && rc != FTKIT_ERR_PEER && ctx->rank == 0)
        drop_set(ctx, own->set, rc);
    return rc;
}

int ftk_durable_write(struct ftk_chan *ch, uint64_t set)
{
    struct ftkit_ctx *ctx = ch->ctx;
    const struct ftk_mem_seg *own = ftk_mem_find(&ctx->level[FTK_LEVEL_MEMORY].mem, set, ctx->rank);
    struct ftk_manifest_part *parts = calloc((size_t)ctx->nranks, sizeof *parts);
    int *writer = malloc((size_t)ctx->nranks * sizeof *writer);
    const double begin_s = ftk_now_s();
    int rc;
    if (!own || !parts || !writer) {
        (void)ftk_fail(own ? FTKIT_ERR_NOMEM : FTKIT_ERR_INTERNAL, "set %llu",
            (unsigned long long)set); /* only the text is used: the code is that of a failure */
        free(writer);
        free(parts);
        (void)ftk_chan_break(ch, MPI_ERR_OTHER, ftk_detail_text());
        return FTKIT_ERR_PEER;
    }
    rc = write_set(ch, own, writer, parts);
    free(writer);
    free(parts);
    if (rc != FTKIT_OK)
        return rc;
    ftk_set_number_durable(ctx, set);
    ftk_flush_event(
        ctx->cfg.name, ctx->rank, set, own->bytes, ftk_now_s() - begin_s, FTKIT_OK, ctx->rank == 0);
    if (ctx->rank != 0)
        return FTKIT_OK;
    ftk_run_state("set %llu %s", (unsigned long long)set, ctx->cfg.name);
    rc = ftk_durable_own_behind(ctx);
    if (rc == FTKIT_OK)
        rc = ftk_sets_prune(ctx->cfg.h5_dir, ctx->cfg.name, ctx->run, ctx->cfg.h5_keep);
    if (rc != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "context %s: old sets were not removed: %s", ctx->cfg.name,
            ftk_detail_text());
    return FTKIT_OK;
}
