/* Moving bytes between the replicas of a rank (see move.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "move.h"

#include "compare.h"
#include "core/tags.h"
#include "planes.h"

#define PIECE ((size_t)1 << 30) /* bytes of one message, which an int can count */

static int move_piece(
    struct ftk_chan *ch, void *buf, int bytes, int from, unsigned to, const char *what)
{
    const struct ftkit_ctx *ctx = ch->ctx;
    const int plane = ftk_plane_of(ctx, ctx->rank);
    MPI_Request reqs[FTK_PLANES_MAX];
    int n = 0, rc = MPI_SUCCESS;
    for (int p = 0; plane == from && rc == MPI_SUCCESS && p < ctx->cfg.replicas; p++) {
        if (!(to >> p & 1))
            continue;
        rc = MPI_Isend(
            buf, bytes, MPI_BYTE, ftk_sphere_rank(ctx, p), FTK_TAG_SPHERE, ch->comm, &reqs[n]);
        n += rc == MPI_SUCCESS;
    }
    if (to >> plane & 1) {
        rc = MPI_Irecv(
            buf, bytes, MPI_BYTE, ftk_sphere_rank(ctx, from), FTK_TAG_SPHERE, ch->comm, &reqs[n]);
        n += rc == MPI_SUCCESS;
    }
    const int broken = rc == MPI_SUCCESS ? FTKIT_OK : ftk_chan_break(ch, rc, what);
    rc = ftk_chan_wait(ch, reqs, n, what);
    return broken != FTKIT_OK ? broken : rc;
}

int ftk_sphere_move(
    struct ftk_chan *ch, void *buf, size_t bytes, int from, unsigned to, const char *what)
{
    char *const all = buf;
    int rc = FTKIT_OK;
    for (size_t at = 0; rc == FTKIT_OK && at < bytes; at += PIECE)
        rc = move_piece(
            ch, all + at, (int)(bytes - at < PIECE ? bytes - at : PIECE), from, to, what);
    return rc;
}

/* The part [at, at + bytes) of each replica's bytes, which are `stride` bytes apart. */
static int exchange_piece(
    struct ftk_chan *ch, unsigned planes, char *at, size_t stride, int bytes, const char *what)
{
    const struct ftkit_ctx *ctx = ch->ctx;
    const int plane = ftk_plane_of(ctx, ctx->rank);
    MPI_Request reqs[2 * FTK_PLANES_MAX];
    int n = 0, rc = MPI_SUCCESS;
    for (int p = 0; rc == MPI_SUCCESS && p < ctx->cfg.replicas; p++) {
        const int peer = ftk_sphere_rank(ctx, p);
        if (p == plane || !(planes >> p & 1))
            continue;
        rc = MPI_Irecv(
            at + (size_t)p * stride, bytes, MPI_BYTE, peer, FTK_TAG_SPHERE, ch->comm, &reqs[n]);
        n += rc == MPI_SUCCESS;
        if (rc == MPI_SUCCESS)
            rc = MPI_Isend(at + (size_t)plane * stride, bytes, MPI_BYTE, peer, FTK_TAG_SPHERE,
                ch->comm, &reqs[n]);
        n += rc == MPI_SUCCESS;
    }
    const int broken = rc == MPI_SUCCESS ? FTKIT_OK : ftk_chan_break(ch, rc, what);
    rc = ftk_chan_wait(ch, reqs, n, what);
    return broken != FTKIT_OK ? broken : rc;
}

int ftk_sphere_exchange_in(
    struct ftk_chan *ch, unsigned planes, void *all, size_t bytes, const char *what)
{
    char *const first = all;
    int rc = FTKIT_OK;
    for (size_t at = 0; rc == FTKIT_OK && at < bytes; at += PIECE)
        rc = exchange_piece(
            ch, planes, first + at, bytes, (int)(bytes - at < PIECE ? bytes - at : PIECE), what);
    return rc;
}

int ftk_sphere_exchange(struct ftk_chan *ch, void *all, size_t bytes, const char *what)
{
    return ftk_sphere_exchange_in(ch, ~0U, all, bytes, what);
}
