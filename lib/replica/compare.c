/* Comparing the regions of a set between the replicas of a rank (see compare.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Usually the replicas exchange one digest of the regions, which is made from the checksums that
 * the segment has already, and one of the messages.  Only if a digest differs, they exchange the
 * sum of each region, then the sums of the blocks of the first region that differs. */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/log_ops.h"
#include "compare_messages.h"
#include "move.h"
#include "planes.h"
#include "store/segment.h"

#define NO_SEGMENT UINT64_MAX /* in place of the number of regions */

struct opening {
    uint64_t regions, names, digest, messages;
};

struct sphere {
    struct ftk_chan *ch;
    char *seg;
    const bool *skip;
    int planes, plane;     /* of this process */
    int n;                 /* regions */
    uint64_t *sum, *bytes; /* [planes][n] */
};

static const struct ftk_seg_region *record(const struct sphere *s, int i)
{
    return &ftk_seg_regions_c(s->seg)[i];
}

/* ---- messages ------------------------------------------------------------------------- */

static int exchange(const struct sphere *s, void *all, size_t bytes)
{
    return ftk_sphere_exchange(s->ch, all, bytes, "comparing replicas");
}

/* Move the bytes of a region from one replica to another. */
static int move_region(const struct sphere *s, int i, int from, int to)
{
    const struct ftk_seg_region *r = record(s, i);
    return ftk_sphere_move(s->ch, ftk_seg_data(s->seg) + r->offset, (size_t)r->bytes, from,
        1u << to, "mending a replica");
}

/* ---- sums ------------------------------------------------------------------------------ */

/* The digest of a region: of whole blocks the checksums that the segment has. */
static uint64_t region_digest(const struct sphere *s, int i, uint64_t seed)
{
    const struct ftk_seg_region *r = record(s, i);
    const uint64_t *sums = ftk_seg_sums_c(s->seg);
    const char *data = ftk_seg_data_c(s->seg);
    const uint64_t begin = r->offset, end = begin + r->bytes;
    const uint64_t first = (begin + FTK_SEG_BLOCK - 1) / FTK_SEG_BLOCK, last = end / FTK_SEG_BLOCK;
    uint64_t d = ftk_xxh3_seed(r->name, sizeof r->name, seed ^ r->bytes);
    if (first >= last)
        return ftk_xxh3_seed(data + begin, (size_t)r->bytes, d);
    d = ftk_xxh3_seed(data + begin, (size_t)(first * FTK_SEG_BLOCK - begin), d);
    d = ftk_xxh3_seed(sums + first, (size_t)(last - first) * sizeof *sums, d);
    return ftk_xxh3_seed(data + last * FTK_SEG_BLOCK, (size_t)(end - last * FTK_SEG_BLOCK), d);
}

/* The names of all regions in their order, in which records are compared. */
static uint64_t names(const struct sphere *s)
{
    uint64_t d = 0;
    for (int i = 0; i < s->n; i++)
        d = ftk_xxh3_seed(record(s, i)->name, sizeof record(s, i)->name, d);
    return d;
}

static uint64_t digest(const struct sphere *s)
{
    uint64_t d = 0;
    for (int i = 0; i < s->n; i++)
        if (!s->skip[i])
            d = region_digest(s, i, d);
    return d;
}

/* The sum of a region must not depend on its place in the segment, which differs when a region that
 * is left out has another size. */
static void sum_regions(const struct sphere *s)
{
    uint64_t *sum = s->sum + (size_t)s->plane * (size_t)s->n;
    uint64_t *bytes = s->bytes + (size_t)s->plane * (size_t)s->n;
    for (int i = 0; i < s->n; i++) {
        const struct ftk_seg_region *r = record(s, i);
        const uint64_t name = ftk_xxh3(r->name, sizeof r->name);
        bytes[i] = s->skip[i] ? 0 : r->bytes;
        sum[i] = s->skip[i]
                     ? name
                     : ftk_xxh3_seed(ftk_seg_data_c(s->seg) + r->offset, (size_t)r->bytes, name);
    }
}

/* ---- deciding --------------------------------------------------------------------------- */

static bool equal(const uint64_t *sum, const uint64_t *bytes, int n, int i, int p, int q)
{
    const size_t a = (size_t)p * (size_t)n + (size_t)i, b = (size_t)q * (size_t)n + (size_t)i;
    return sum[a] == sum[b] && bytes[a] == bytes[b];
}

/* The plane that differs from two equal ones, and has as many bytes as they have; -1: none. */
static int odd_one(const uint64_t *sum, const uint64_t *bytes, int planes, int n, int i)
{
    for (int p = 0; planes == 3 && p < 3; p++) {
        const int a = (p + 1) % 3, b = (p + 2) % 3;
        if (equal(sum, bytes, n, i, a, b) && !equal(sum, bytes, n, i, p, a)
            && bytes[p * n + i] == bytes[a * n + i])
            return p;
    }
    return -1;
}

void ftk_sphere_decide(const uint64_t *sum, const uint64_t *bytes, int planes, bool majority, int n,
    int *odd, struct ftk_comparison *c)
{
    *c = (struct ftk_comparison){ .result = FTK_SPHERE_SAME };
    for (int i = 0; i < n; i++) {
        int other = 0;
        for (int p = planes - 1; p > 0; p--)
            other = equal(sum, bytes, n, i, 0, p) ? other : p;
        odd[i] = other > 0 && majority ? odd_one(sum, bytes, planes, n, i) : -1;
        if (other == 0 || c->result == FTK_SPHERE_DIFFERS)
            continue;
        const bool clear = odd[i] >= 0;
        if (clear && c->result == FTK_SPHERE_MENDED)
            continue;
        c->result = clear ? FTK_SPHERE_MENDED : FTK_SPHERE_DIFFERS;
        c->subject = FTK_SUBJECT_REGION;
        c->region = i;
        c->plane = clear ? odd[i] : other;
        c->sum[0] = sum[(clear && odd[i] == 0 ? n : 0) + i];
        c->sum[1] = sum[c->plane * n + i];
    }
}

/* The elements of the first region that differs, by the sums of its blocks. */
static int locate(const struct sphere *s, struct ftk_comparison *c)
{
    const struct ftk_seg_region *r = record(s, c->region);
    const uint64_t mine = s->bytes[s->plane * s->n + c->region];
    const int ref = c->plane == 0 ? 1 : 0;
    for (int p = 0; p < s->planes; p++)
        if (s->bytes[p * s->n + c->region] != mine)
            return FTKIT_OK; /* other sizes: the same decision on all replicas */
    const uint64_t n = (mine + FTK_SEG_BLOCK - 1) / FTK_SEG_BLOCK;
    uint64_t first = n, last = 0;
    uint64_t *sums = malloc((size_t)(n * (uint64_t)s->planes + 1) * sizeof *sums);
    if (!sums)
        return ftk_chan_break(s->ch, MPI_ERR_NO_MEM, "comparing replicas");
    for (uint64_t b = 0; b < n; b++) {
        const uint64_t at = b * FTK_SEG_BLOCK, left = mine - at;
        sums[(uint64_t)s->plane * n + b] = ftk_xxh3(ftk_seg_data_c(s->seg) + r->offset + at,
            (size_t)(left < FTK_SEG_BLOCK ? left : FTK_SEG_BLOCK));
    }
    int rc = exchange(s, sums, (size_t)n * sizeof *sums);
    for (uint64_t b = 0; rc == FTKIT_OK && b < n; b++) {
        if (sums[(uint64_t)ref * n + b] == sums[(uint64_t)c->plane * n + b])
            continue;
        first = first == n ? b : first;
        last = b + 1;
    }
    free(sums);
    if (rc == FTKIT_OK && last > first) {
        const uint64_t end = last * FTK_SEG_BLOCK < mine ? last * FTK_SEG_BLOCK : mine;
        c->first = first * FTK_SEG_BLOCK / r->elem_bytes;
        c->count = (end + r->elem_bytes - 1) / r->elem_bytes - c->first;
    }
    return rc;
}

static int mend(const struct sphere *s, const int *odd, struct ftk_comparison *c)
{
    int rc = FTKIT_OK;
    c->mended = calloc((size_t)s->n + 1, sizeof *c->mended);
    if (!c->mended)
        return ftk_chan_break(s->ch, MPI_ERR_NO_MEM, "mending a replica");
    for (int i = 0; rc == FTKIT_OK && i < s->n; i++) {
        const int from = odd[i] == 0 ? 1 : 0;
        if (odd[i] < 0 || (s->plane != odd[i] && s->plane != from))
            continue;
        rc = move_region(s, i, from, odd[i]);
        c->mended[i] = s->plane == odd[i];
    }
    return rc;
}

/* odd [n] is working space. */
static int compare_sums(struct sphere *s, int *odd, struct ftk_comparison *c)
{
    sum_regions(s);
    int rc = exchange(s, s->sum, (size_t)s->n * sizeof *s->sum);
    if (rc == FTKIT_OK)
        rc = exchange(s, s->bytes, (size_t)s->n * sizeof *s->bytes);
    if (rc != FTKIT_OK)
        return rc;
    const bool majority = s->ch->ctx->replica.stale == 0; /* a clone agrees with its source */
    ftk_sphere_decide(s->sum, s->bytes, s->planes, majority, s->n, odd, c);
    rc = c->result == FTK_SPHERE_SAME ? FTKIT_OK : locate(s, c);
    (void)FTK_FAULT("replica.decided");
    return rc == FTKIT_OK && c->result == FTK_SPHERE_MENDED ? mend(s, odd, c) : rc;
}

/* A digest differs: look at each region. */
static int compare_regions(struct sphere *s, struct ftk_comparison *c)
{
    const size_t all = (size_t)s->planes * (size_t)s->n;
    s->sum = calloc(2 * all + 1, sizeof *s->sum);
    int *odd = calloc((size_t)s->n + 1, sizeof *odd);
    s->bytes = s->sum ? s->sum + all : NULL;
    int rc = s->sum && odd ? compare_sums(s, odd, c)
                           : ftk_chan_break(s->ch, MPI_ERR_NO_MEM, "comparing replicas");
    free(s->sum);
    free(odd);
    return rc;
}

/* Whether the replicas are known to have sent the same: those of planes that do not stand still. */
static bool same_messages(const struct sphere *s, const struct opening *all)
{
    const unsigned stale = s->ch->ctx->replica.stale;
    int first = -1;
    for (int p = 0; p < s->planes; p++) {
        if (stale >> p & 1)
            continue;
        first = first < 0 ? p : first;
        if (all[p].messages != all[first].messages)
            return false;
    }
    return true;
}

/* The openings say that the replicas differ, or that they may. */
static int find_difference(
    struct sphere *s, const struct opening *all, bool alike, struct ftk_comparison *c)
{
    bool same = alike;
    int rc = same_messages(s, all) ? FTKIT_OK : ftk_sphere_compare_messages(s->ch, c);
    if (rc != FTKIT_OK || c->result != FTK_SPHERE_SAME)
        return rc;
    for (int p = 0; p < s->planes; p++)
        same = same && all[p].digest == all[0].digest;
    if (same)
        return FTKIT_OK;
    if (alike)
        return compare_regions(s, c);
    c->result = FTK_SPHERE_DIFFERS; /* the replicas have registered other regions */
    c->subject = FTK_SUBJECT_LIST;
    return FTKIT_OK;
}

int ftk_sphere_compare(struct ftk_chan *ch, char *seg, const bool *skip, struct ftk_comparison *c)
{
    const struct ftkit_ctx *ctx = ch->ctx;
    struct opening all[FTK_PLANES_MAX] = { { NO_SEGMENT, 0, 0, 0 } };
    struct sphere s = { .ch = ch, .seg = seg, .skip = skip, .planes = ctx->cfg.replicas };
    bool whole = true, alike = true;
    *c = (struct ftk_comparison){ .result = FTK_SPHERE_SAME };
    s.plane = ftk_plane_of(ctx, ctx->rank);
    all[s.plane].regions = NO_SEGMENT;
    if (seg) {
        s.n = (int)((const struct ftk_seg_header *)(const void *)seg)->nregions;
        all[s.plane] =
            (struct opening){ (uint64_t)s.n, names(&s), digest(&s), ftk_log_messages_sum(ctx) };
    }
    (void)FTK_FAULT("replica.compare");
    int rc = exchange(&s, all, sizeof all[0]);
    for (int p = 0; rc == FTKIT_OK && p < s.planes; p++) {
        whole = whole && all[p].regions != NO_SEGMENT;
        alike = alike && all[p].regions == all[0].regions && all[p].names == all[0].names;
    }
    return rc == FTKIT_OK && whole && seg ? find_difference(&s, all, alike, c) : rc;
}
