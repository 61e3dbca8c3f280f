/* The memory levels (see level.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "level.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "core/context.h"
#include "core/event.h"
#include "core/format.h"
#include "group.h"
#include "stream.h"

void ftk_level_configure(struct ftkit_ctx *ctx)
{
    const struct ftk_config *c = &ctx->cfg;
    ctx->level[FTK_LEVEL_MEMORY] = (struct ftk_level){ .name = "level.memory",
        .number = 1,
        .tag = FTK_TAG_MEMORY,
        .on = ftk_scheme_keeps(c->scheme),
        .scheme = ftk_scheme_of(c->scheme),
        .map = c->map,
        .group = c->group,
        .parity = c->parity,
        .place = c->place,
        .dir = c->place_dir };
    ctx->level[FTK_LEVEL_LOCAL] = (struct ftk_level){ .name = "level.local",
        .number = 2,
        .tag = FTK_TAG_LOCAL,
        .on = ftk_scheme_keeps(c->local_scheme),
        .scheme = ftk_scheme_of(c->local_scheme),
        .map = c->map,
        .group = c->local_group,
        .parity = c->local_parity,
        .place = c->local_place,
        .dir = c->local_dir };
}

/* Count the streams that this rank may have at once: to its holders, and from the ranks for which
 * it is a holder. */
static int count_streams(const int *holder, int copies, int rank, int nranks)
{
    int n = 0;
    for (int i = 0; i < copies * nranks; i++)
        n += holder[i] == rank || i % nranks == rank;
    return n;
}

int ftk_layout_make(
    const struct ftk_level *l, int rank, int nranks, const int *domain, struct ftk_layout *to)
{
    const struct ftk_scheme *s = l->scheme;
    *to = (struct ftk_layout){ .alone = 0 };
    if (rank < 0)
        return FTKIT_OK;
    if (s->parities != 0) {
        int m = s->parities == FTK_PARITIES_ASKED ? l->parity : s->parities;
        return ftk_group_map(rank, nranks, domain, l->group, m, &to->group, &to->alone);
    }
    to->holder = malloc(((size_t)s->copies * (size_t)nranks + 1) * sizeof *to->holder);
    if (!to->holder)
        return ftk_fail(FTKIT_ERR_NOMEM, "holders");
    int rc = ftk_scheme_place(s, l->map, nranks, domain, to->holder);
    int n = rc == FTKIT_OK ? count_streams(to->holder, s->copies, rank, nranks) : 0;
    to->streams = calloc((size_t)n + 1, sizeof *to->streams);
    if (rc == FTKIT_OK && !to->streams)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "streams of copies");
    return rc;
}

void ftk_layout_free(struct ftk_layout *a)
{
    free(a->holder);
    free(a->streams);
    *a = (struct ftk_layout){ .alone = 0 };
}

void ftk_level_take_layout(struct ftk_level *l, const struct ftk_layout *of)
{
    ftk_layout_free(&l->layout);
    l->layout = *of;
}

void ftk_level_committed(struct ftk_level *l, uint64_t set, uint64_t epoch_id)
{
    ftk_mem_drop_others(&l->mem, set);
    ftk_place_sweep(&l->mem.place, epoch_id);
}

bool ftk_level_lacks(const struct ftk_level *l, const struct ftkit_ctx *ctx)
{
    return l->mem.lacked > 0 && !l->reported && ctx->incarnation == 0;
}

void ftk_level_share_lack(struct ftk_level *l, const struct ftkit_ctx *ctx, int64_t rank)
{
    struct statvfs fs;
    const char *dir = l->mem.place.dir;
    char room[64] = "which cannot be written to";
    l->reported = l->reported || rank < ctx->nranks;
    if (rank != ctx->rank)
        return;
    if (!l->mem.place.absent && statvfs(dir, &fs) == 0)
        ftk_format(room, sizeof room, "which has %.1f MB free",
            1e-6 * (double)fs.f_bavail * (double)fs.f_frsize);
    ftk_report(FTKIT_WARNING,
        "context %s: rank %d needs %.1f MB for a part of a set in %s, %s: such parts are in the "
        "process, where a relaunch does not find them. Make %s larger (docker run --shm-size), or "
        "set %s.place = memory",
        ctx->cfg.name, ctx->rank, 1e-6 * (double)l->mem.lacked, dir, room, dir, l->name);
}

void ftk_level_event(const struct ftk_level *l, const struct ftkit_ctx *ctx, size_t bytes,
    double seconds, uint64_t sent)
{
    struct ftk_event e;
    ftk_event_of(&e, ctx, "set");
    ftk_event_int(&e, "set", (int64_t)ctx->committed);
    ftk_event_text(&e, "level", l == &ctx->level[FTK_LEVEL_MEMORY] ? "memory" : "local");
    ftk_event_int(&e, "calls", (int64_t)ctx->policy.calls);
    ftk_event_int(&e, "bytes", (int64_t)bytes);
    ftk_event_seconds(&e, "seconds", seconds);
    ftk_event_int(&e, "sent", (int64_t)sent);
    ftk_event_end(&e);
}

void ftk_level_close(struct ftk_level *l, bool keep)
{
    ftk_mem_close(&l->mem, keep);
    ftk_layout_free(&l->layout);
}
