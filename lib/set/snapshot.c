/* Snapshots of regions in memory of a device (see snapshot.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "core/grow.h"
#include "region.h"
#include "snapshot.h"
#include "store/segment.h"

static const struct ftk_memory_ops *ops_of(const struct ftk_snapped *s)
{
    return ftk_memory_ops_of(s->memory);
}

/* Whether a snapshot has the bytes of the region as the set has them. */
static bool can_be_taken(const struct ftk_region *r)
{
    return !ftk_memory_is_host(r->memory) && ftk_memory_ops_of(r->memory)->snapshot
           && !ftk_region_has_pieces(r) && r->kind != FTK_KIND_SERIALIZED && r->type.contiguous
           && ftk_region_count(r) > 0;
}

int ftk_snapshots_take(struct ftk_snapshots *s, const struct ftk_region *r, int i, bool *taken)
{
    static bool warned;
    struct ftk_snapshot *of = NULL;
    const size_t bytes = ftk_region_count(r) * r->type.item_bytes;
    *taken = false;
    if (!can_be_taken(r) || bytes == 0)
        return FTKIT_OK;
    if (!ftk_grow_by_one(&s->list, (size_t)s->n, sizeof *s->list))
        return ftk_fail(FTKIT_ERR_NOMEM, "the list of snapshots");
    const int rc = ftk_memory_ops_of(r->memory)->snapshot(ftk_region_data(r), bytes, &of);
    if (rc != FTKIT_OK)
        return rc;
    if (!of && !warned)
        ftk_report(FTKIT_WARNING,
            "region '%s': the %s has no room for a snapshot of %zu bytes: the program waits for "
            "the copy to the host (device.snapshot)",
            r->name, ftk_memory_name(r->memory), bytes);
    warned = warned || !of;
    *taken = of != NULL;
    if (of)
        s->list[s->n++] = (struct ftk_snapped){ .region = i, .memory = r->memory, .of = of };
    return FTKIT_OK;
}

static int begin_one(struct ftk_snapped *one, char *seg, bool host_sums)
{
    const struct ftk_seg_region *rec = &ftk_seg_regions(seg)[one->region];
    const size_t first = (size_t)(rec->offset + FTK_SEG_BLOCK - 1) / FTK_SEG_BLOCK,
                 end = (size_t)(rec->offset + rec->bytes) / FTK_SEG_BLOCK;
    const size_t before = first * FTK_SEG_BLOCK - (size_t)rec->offset;
    bool begun = false;
    int rc = FTKIT_OK;
    if (!host_sums && first < end)
        rc = ops_of(one)->snapshot_sums(
            one->of, before, FTK_SEG_BLOCK, end - first, ftk_seg_sums(seg) + first, &begun);
    one->summed = begun ? first * FTK_SEG_BLOCK : 0;
    one->summed_end = begun ? end * FTK_SEG_BLOCK : 0;
    return rc == FTKIT_OK ? ops_of(one)->snapshot_out(
               one->of, ftk_seg_data(seg) + rec->offset, (size_t)rec->bytes)
                          : rc;
}

int ftk_snapshots_begin(struct ftk_snapshots *s, char *seg, bool host_sums)
{
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < s->n; i++)
        rc = begin_one(&s->list[i], seg, host_sums);
    return rc;
}

bool ftk_snapshots_have_sum(const struct ftk_snapshots *s, size_t from, size_t end)
{
    int i = 0;
    while (i < s->n && (from < s->list[i].summed || end > s->list[i].summed_end))
        i++;
    return i < s->n;
}

int ftk_snapshots_end(struct ftk_snapshots *s)
{
    int rc = FTKIT_OK;
    for (int i = 0; i < s->n; i++) {
        const int ended = s->list[i].of ? ops_of(&s->list[i])->snapshot_end(s->list[i].of) : rc;
        s->list[i].of = NULL;
        rc = rc != FTKIT_OK ? rc : ended;
    }
    return rc;
}

void ftk_snapshots_free(struct ftk_snapshots *s)
{
    free(s->list);
    *s = (struct ftk_snapshots){ 0 };
}
