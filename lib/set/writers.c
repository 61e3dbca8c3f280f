/* Which ranks write sets to the file system (see writers.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "writers.h"

#include <stdlib.h>

#include "core/context.h"
#include "replica/planes.h"

/* While the program waits, several writers use the memory bandwidth of the node and a parallel file
 * system better than one.  Each has a core, because its rank waits.  More files would cost the file
 * system more than they save, and so do small files: see FTK_WRITERS_LEAST.  Compression takes much
 * longer than a small file.  Helper threads share the cores with the program. */
enum { AUTO_NOW = 4, AUTO_BEHIND = 1 };

static int automatic(const struct ftk_config *cfg, enum ftk_writes when, int n, uint64_t bytes)
{
    if (when == FTK_WRITES_BEHIND)
        return AUTO_BEHIND;
    if (bytes >= FTK_WRITERS_LEAST || cfg->h5_compress != FTK_COMPRESS_NONE)
        return AUTO_NOW;
    /* ranks that have a file's worth together; each group has as many or more */
    const uint64_t ranks = bytes > 0 ? (FTK_WRITERS_LEAST + bytes - 1) / bytes : FTK_WRITERS_LEAST;
    const uint64_t enough = (uint64_t)n / ranks;
    return enough < 1 ? 1 : enough < AUTO_NOW ? (int)enough : AUTO_NOW;
}

int ftk_writers_groups(const struct ftk_config *cfg, enum ftk_writes when, int n, uint64_t bytes)
{
    const int wanted = cfg->h5_writers > 0 ? cfg->h5_writers : automatic(cfg, when, n, bytes);
    return wanted < n ? wanted : n;
}

/* n ranks are in g groups.  The number of rank i in its group, and the ranks of the group. */
static int number_of(int i, int n, int g, int *nranks)
{
    const int64_t group = (int64_t)i * g / n;
    const int first = (int)((group * n + g - 1) / g), end = (int)(((group + 1) * n + g - 1) / g);
    *nranks = end - first;
    return i - first;
}

struct ftk_writers_place ftk_writers_place(
    const struct ftkit_ctx *ctx, int rank, enum ftk_writes when, uint64_t bytes)
{
    const int size = ftk_plane_size(ctx);
    int n = 0, at = 0;
    if (rank >= size)
        return (struct ftk_writers_place){ .writer = -1 };
    for (int r = 0; r < size; r++) {
        at += r < rank && ctx->domain[r] == ctx->domain[rank];
        n += ctx->domain[r] == ctx->domain[rank];
    }
    struct ftk_writers_place p = { .writer = rank };
    p.member = number_of(at, n, ftk_writers_groups(&ctx->cfg, when, n, bytes), &p.nranks);
    for (int back = p.member; back > 0; back -= ctx->domain[p.writer] == ctx->domain[rank])
        p.writer--;
    return p;
}

/* ---- all ranks ----------------------------------------------------------------------- */

struct place {
    int domain, rank;
};

static int by_domain(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->domain != y->domain)
        return x->domain < y->domain ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static void put(int rank, int first, int number, int *writer, int *member)
{
    if (writer)
        writer[rank] = first;
    if (member)
        member[rank] = number;
}

/* all: the n ranks of a domain, ascending, in g groups. */
static void list_domain(const struct place *all, int n, int g, int *writer, int *member)
{
    for (int i = 0; i < n; i++) {
        int nranks;
        const int number = number_of(i, n, g, &nranks);
        put(all[i].rank, all[i - number].rank, number, writer, member);
    }
}

static void list_one_by_one(
    const struct ftkit_ctx *ctx, enum ftk_writes when, uint64_t bytes, int *writer, int *member)
{
    for (int r = 0; r < ftk_plane_size(ctx); r++) {
        const struct ftk_writers_place p = ftk_writers_place(ctx, r, when, bytes);
        put(r, p.writer, p.member, writer, member);
    }
}

void ftk_writers_list(
    const struct ftkit_ctx *ctx, enum ftk_writes when, uint64_t bytes, int *writer, int *member)
{
    const int size = ftk_plane_size(ctx);
    struct place *all = malloc((size_t)size * sizeof *all);
    for (int r = size; r < ctx->nranks; r++)
        put(r, -1, 0, writer, member);
    if (!all) { /* slower */
        list_one_by_one(ctx, when, bytes, writer, member);
        return;
    }
    for (int r = 0; r < size; r++)
        all[r] = (struct place){ ctx->domain[r], r };
    qsort(all, (size_t)size, sizeof *all, by_domain);
    for (int i = 0, n; i < size; i += n) {
        for (n = 1; i + n < size && all[i + n].domain == all[i].domain; n++)
            ;
        list_domain(&all[i], n, ftk_writers_groups(&ctx->cfg, when, n, bytes), writer, member);
    }
    free(all);
}
