/* Comparing the messages of replicas (see compare_messages.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "compare_messages.h"

#include <stdlib.h>
#include <string.h>

#include "move.h"
#include "planes.h"

#define WHAT "comparing messages of replicas"

bool ftk_messages_differ(const struct ftk_message *a, size_t na, const struct ftk_message *b,
    size_t nb, struct ftk_message *x, uint64_t *sum)
{
    size_t i = 0, j = 0;
    while (i < na || j < nb) {
        const int order = i == na ? 1 : j == nb ? -1 : ftk_messages_order(&a[i], &b[j]);
        *x = order <= 0 ? a[i] : b[j];
        sum[0] = order <= 0 ? a[i].hash : 0;
        sum[1] = order >= 0 ? b[j].hash : 0;
        if (order == 0 ? sum[0] != sum[1] || a[i].bytes != b[j].bytes : !x->collective)
            return true;
        i += order <= 0;
        j += order >= 0;
    }
    return false;
}

/* The messages of all replicas, from lists of most messages each. */
static void compare(const struct ftkit_ctx *ctx, const struct ftk_message *all,
    const uint64_t *counts, size_t most, struct ftk_comparison *c)
{
    int first = -1;
    for (int p = 0; p < ctx->cfg.replicas; p++) {
        if (ctx->replica.stale >> p & 1)
            continue;
        if (first < 0) {
            first = p;
            continue;
        }
        if (!ftk_messages_differ(all + (size_t)first * most, counts[first], all + (size_t)p * most,
                counts[p], &c->message, c->sum))
            continue;
        c->result = FTK_SPHERE_DIFFERS;
        c->subject = FTK_SUBJECT_MESSAGE;
        c->plane = p;
        return;
    }
}

/* own [counts[plane]]: the messages of this replica. */
static int exchange_and_compare(struct ftk_chan *ch, const struct ftk_message *own, int plane,
    uint64_t *counts, struct ftk_comparison *c)
{
    const int planes = ch->ctx->cfg.replicas;
    int rc = ftk_sphere_exchange(ch, counts, sizeof counts[0], WHAT);
    size_t most = 0;
    for (int p = 0; p < planes; p++)
        most = counts[p] > most ? (size_t)counts[p] : most;
    if (rc != FTKIT_OK || most == 0)
        return rc;
    struct ftk_message *all = calloc((size_t)planes * most, sizeof *all);
    if (!all)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, WHAT);
    if (own && counts[plane] > 0)
        memcpy(all + (size_t)plane * most, own, (size_t)counts[plane] * sizeof *all);
    rc = ftk_sphere_exchange(ch, all, most * sizeof *all, WHAT);
    if (rc == FTKIT_OK)
        compare(ch->ctx, all, counts, most, c);
    free(all);
    return rc;
}

int ftk_sphere_compare_messages(struct ftk_chan *ch, struct ftk_comparison *c)
{
    const struct ftkit_ctx *ctx = ch->ctx;
    const int plane = ftk_plane_of(ctx, ctx->rank);
    uint64_t counts[FTK_PLANES_MAX] = { 0 };
    struct ftk_message *own = NULL;
    size_t n = 0;
    if (!(ctx->replica.stale >> plane & 1) && ftk_log_messages(ctx, &own, &n) != FTKIT_OK)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, WHAT);
    counts[plane] = n;
    const int rc = exchange_and_compare(ch, own, plane, counts, c);
    free(own);
    return rc;
}
