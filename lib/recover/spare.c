/* Idle spares: how they wait, and how they prepare the memory of a rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The first touch of memory may take longer than the data of a repair take to arrive.  So a spare
 * reserves and touches the buffers that a rank needs before the rank is lost.  Rank 0 sends the
 * spares the sizes of its segments of a set.  The message is a hint: a repair is right without the
 * message, and when the segments of the lost rank are larger. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/left_send.h"
#include "core/mpi_shim.h"
#include "core/tags.h"
#include "detect/detect.h"
#include "repair.h"
#include "spare.h"

#define NAP_MIN_NS 200000L  /* a spare sleeps between tests of the watch, to leave its core free */
#define NAP_MAX_NS 1000000L /* longest sleep: a spare joins a repair within about this time */
#define SEGMENTS_MAX 8      /* of a set, in the memory of a rank: its own, copies and parities */
#define PIECE ((size_t)2 << 20) /* bytes that a spare touches between two tests of the watch */

/* The segments of a set in the memory of rank 0. */
struct sizes {
    int64_t n;
    int64_t bytes[SEGMENTS_MAX]; /* [n] the largest first */
};

/* ---- rank 0 -------------------------------------------------------------------------- */

static int larger_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

static struct sizes sizes_of(const struct ftk_mem *m, uint64_t set)
{
    struct sizes s = { 0 };
    for (int i = 0; i < m->nsegs && s.n < SEGMENTS_MAX; i++)
        if (m->segs[i]->set == set)
            s.bytes[s.n++] = (int64_t)m->segs[i]->bytes;
    qsort(s.bytes, (size_t)s.n, sizeof s.bytes[0], larger_first);
    return s;
}

/* Whether a spare needs more memory for b than it has prepared for a. */
static bool needs_more(const struct sizes *a, const struct sizes *b)
{
    for (int64_t i = 0; i < b->n; i++)
        if (i >= a->n || b->bytes[i] > a->bytes[i])
            return true;
    return false;
}

/* The sizes that rank 0 has sent to the spares. */
static struct {
    uint64_t epoch_id; /* the epoch in which they were sent; 0: never */
    struct sizes sizes;
    MPI_Request *sends; /* [nsends] may still read the sizes */
    int nsends;
} announced;

/* Whether no send reads the sizes. */
static bool sends_are_over(void)
{
    while (announced.nsends > 0) {
        int done = 0;
        MPI_Request *r = &announced.sends[announced.nsends - 1];
        int rc = MPI_Test(r, &done, MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS && !done)
            return false;
        announced.nsends--; /* after an error, too: the watch finds the failure */
    }
    return true;
}

static void announce(const struct ftkit_ctx *ctx, const struct sizes *now)
{
    MPI_Request *sends = realloc(announced.sends, (size_t)ctx->nspares * sizeof *sends);
    if (!sends)
        return; /* the spares get the sizes after the next set */
    announced.sends = sends;
    announced.epoch_id = ctx->epoch_id;
    announced.sizes = *now;
    for (int i = 0; i < ctx->nspares; i++) {
        int rc = MPI_Isend(&announced.sizes, sizeof announced.sizes, MPI_BYTE, ctx->nranks + i,
            FTK_TAG_ROOM, ctx->comms.ctl, &sends[announced.nsends]);
        if (rc == MPI_SUCCESS)
            announced.nsends++;
        else /* it is dead, or the epoch ends: the watch finds out */
            ftk_report(FTKIT_DEBUG, "context %s: spare %d does not get the size of a set",
                ctx->cfg.name, i);
    }
}

void ftk_spare_announce(const struct ftkit_ctx *ctx)
{
    const struct ftk_mem *m = &ctx->level[FTK_LEVEL_MEMORY].mem;
    if (ctx->rank != 0 || ctx->nspares == 0 || ctx->mode == FTKIT_MODE_RESTART
        || !ctx->cfg.spares_prepare || ftk_place_is(m->place.kind, FTK_OUTLIVES_PROCESS))
        return;
    const struct sizes now = sizes_of(m, ctx->committed);
    if ((announced.epoch_id != ctx->epoch_id || needs_more(&announced.sizes, &now))
        && sends_are_over())
        announce(ctx, &now);
}

void ftk_spare_close(void)
{
    for (int i = 0; i < announced.nsends; i++) /* the sizes are static: the MPI may read them */
        ftk_leave_send(&announced.sends[i], NULL);
    free(announced.sends);
    announced.sends = NULL;
    announced.nsends = 0;
    announced.epoch_id = 0;
}

/* ---- spares -------------------------------------------------------------------------- */

/* Without ULFM a spare never replaces a rank: wait for the end of the job. */
static int wait_for_end(struct ftkit_ctx *ctx)
{
    MPI_Request req;
    int done = 0;
    int rc = MPI_Ibarrier(ctx->comms.ctl, &req);
    while (rc == MPI_SUCCESS && !done) {
        struct timespec t = { 0, NAP_MAX_NS };
        nanosleep(&t, NULL);
        rc = MPI_Test(&req, &done, MPI_STATUS_IGNORE);
    }
    return rc == MPI_SUCCESS ? FTK_PARTED : ftk_fail_mpi(rc, "waiting as a spare");
}

/* The memory that a spare prepares. */
struct prepared {
    size_t bytes; /* that are touched */
    bool whole;   /* all of them */
};

/* If a message of rank 0 has come, reserve the buffers. */
static void reserve(struct ftkit_ctx *ctx, struct prepared *p)
{
    struct ftk_mem *m = &ctx->level[FTK_LEVEL_MEMORY].mem;
    struct sizes s = { 0 };
    int flag = 0;
    int rc = MPI_Iprobe(0, FTK_TAG_ROOM, ctx->comms.ctl, &flag, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && flag)
        rc = MPI_Recv(&s, sizeof s, MPI_BYTE, 0, FTK_TAG_ROOM, ctx->comms.ctl, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS || !flag)
        return; /* after an error: the watch finds the failure */
    int done = FTKIT_OK, had = m->nsegs;
    for (int i = 0; done == FTKIT_OK && i < s.n && i < SEGMENTS_MAX; i++)
        done = ftk_mem_reserve(m, (size_t)s.bytes[i], i + 1);
    if (done != FTKIT_OK)
        ftk_report(FTKIT_DEBUG, "context %s: a spare prepares no memory: %s", ctx->cfg.name,
            ftk_detail_text());
    if (m->nsegs != had)
        *p = (struct prepared){ 0, false };
}

static void prepare(struct ftkit_ctx *ctx, struct prepared *p)
{
    reserve(ctx, p);
    if (p->whole)
        return;
    size_t n = ftk_mem_touch(&ctx->level[FTK_LEVEL_MEMORY].mem, p->bytes, PIECE);
    p->bytes += n;
    p->whole = n == 0;
    if (p->whole)
        ftk_report(FTKIT_DEBUG, "context %s: a spare has prepared %zu bytes for segments",
            ctx->cfg.name, p->bytes);
}

int ftk_spare_wait(struct ftkit_ctx *ctx)
{
    struct prepared p = { .whole = true }; /* nothing is reserved yet */
    if (ctx->mode == FTKIT_MODE_RESTART)
        return wait_for_end(ctx);
    long nap = NAP_MIN_NS;
    while (ctx->rank < 0) {
        if (!ftk_detect_poll(ctx)) {
            struct timespec t = { 0, nap };
            (void)FTK_FAULT("spare.nap");
            nanosleep(&t, NULL);
            nap = nap * 5 / 4 < NAP_MAX_NS ? nap * 5 / 4 : NAP_MAX_NS;
            prepare(ctx, &p);
            continue;
        }
        int rc = ftk_repair(ctx, MPI_COMM_NULL);
        if (rc != FTKIT_OK)
            return rc;
        nap = NAP_MIN_NS;
    }
    return FTKIT_OK;
}
