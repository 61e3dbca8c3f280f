/* Restoring the regions from a segment (see unpack.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/memory_kind.h"
#include "device.h"
#include "region.h"
#include "unpack.h"

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = { "?", "per-rank", "replicated", "global array", "growing",
        "serialized" };
    return kind < sizeof names / sizeof names[0] ? names[kind] : "?";
}

static int compare_block(const struct ftk_region *r, const struct ftk_seg_region *rec)
{
    if (rec->ndims != (uint32_t)r->ndims)
        return ftk_fail(FTKIT_ERR_SIZE, "array '%s' has %d dimensions, %u in the set", r->name,
            r->ndims, rec->ndims);
    for (int d = 0; d < r->ndims; d++) {
        if (rec->global[d] == r->global[d] && rec->local[d] == r->local[d]
            && rec->start[d] == r->start[d] && rec->halo[d] == r->halo[d])
            continue;
        return ftk_fail(FTKIT_ERR_SIZE,
            "array '%s': the set has another block or shape: in dimension %d %" PRIu64
            " items from %" PRIu64 " of %" PRIu64 ", halo %" PRIu64 "; registered are %zu from "
            "%zu of %zu, halo %zu (another block needs another number of ranks)",
            r->name, d, rec->local[d], rec->start[d], rec->global[d], rec->halo[d], r->local[d],
            r->start[d], r->global[d], r->halo[d]);
    }
    return FTKIT_OK;
}

/* Does the record fit the region as it is registered? */
static int compare(const struct ftk_region *r, const struct ftk_seg_region *rec)
{
    if (ftk_region_is_note(r))
        return FTKIT_OK;
    if (!rec && ftk_region_may_lack(r))
        return FTKIT_OK;
    if (!rec)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "the set has no region '%s'", r->name);
    if (rec->kind != r->kind)
        return ftk_fail(FTKIT_ERR_TYPE, "region '%s' was saved as %s and is %s now", r->name,
            kind_name(rec->kind), kind_name(r->kind));
    if (rec->basic != r->type.basic || rec->elem_bytes != r->type.item_bytes)
        return ftk_fail(FTKIT_ERR_TYPE,
            "region '%s' was saved as items of %llu bytes (%s) and has %zu bytes (%s) now", r->name,
            (unsigned long long)rec->elem_bytes, ftk_basic_name(rec->basic), r->type.item_bytes,
            ftk_basic_name(r->type.basic));
    if (r->kind == FTK_KIND_ARRAY)
        return compare_block(r, rec);
    if (r->kind == FTK_KIND_GROWING || r->kind == FTK_KIND_SERIALIZED)
        return FTKIT_OK;
    if (rec->count != r->count)
        return ftk_fail(FTKIT_ERR_SIZE, "region '%s' was saved with %llu items and has %zu now",
            r->name, (unsigned long long)rec->count, r->count);
    return FTKIT_OK;
}

/* A segment that is being read; the first `sure` bytes of its data are verified. */
struct source {
    const char *seg;
    size_t sure;
    bool fresh; /* the program has just begun: it has hardly touched its memory */
};

static int make_sure(struct source *src, size_t upto)
{
    return ftk_seg_check_upto(src->seg, &src->sure, upto, "own copy");
}

/* Ask for all pages of a part of a region that is about to be filled.  Without this, the page
 * faults would take most of the time of a restore in a new process. */
static void populate(void *to, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t lo = ((uintptr_t)to + page - 1) / page * page;
    uintptr_t hi = ((uintptr_t)to + bytes) / page * page;
    if (lo < hi) /* a hint: without it the pages come one by one */
        (void)madvise((void *)lo, hi - lo, MADV_POPULATE_WRITE);
#else
    (void)to;
    (void)bytes;
#endif
}

/* Ask that the pages of a region are huge: there are fewer page faults then.  Pages that the region
 * shares with other data are left out. */
static void ask_for_huge_pages(void *to, size_t bytes)
{
    uintptr_t lo = ((uintptr_t)to + FTK_HUGE_PAGE - 1) / FTK_HUGE_PAGE * FTK_HUGE_PAGE;
    uintptr_t hi = ((uintptr_t)to + bytes) / FTK_HUGE_PAGE * FTK_HUGE_PAGE;
    if (lo < hi) /* a hint */
        (void)madvise((void *)lo, hi - lo, MADV_HUGEPAGE);
}

/* Copy a part of a region into its memory.  A copy to a device may go on behind the call. */
static int put(enum ftk_memory_kind memory, char *to, const char *from, size_t bytes)
{
    if (!ftk_memory_is_host(memory) && ftk_memory_ops_of(memory)->begin_in)
        return ftk_memory_ops_of(memory)->begin_in(to, from, bytes);
    return ftk_memory_copy_in(memory, to, from, bytes);
}

/* All copies of put() are over; the segment may be used otherwise. */
static int finish(enum ftk_memory_kind memory, const char *to, int rc)
{
    if (ftk_memory_is_host(memory) || !ftk_memory_ops_of(memory)->begin_in)
        return rc;
    const int all = ftk_memory_ops_of(memory)->finish(to);
    return rc != FTKIT_OK ? rc : all;
}

/* Restore block by block: a block is still in the cache when it is copied. */
static int restore_blocks(
    enum ftk_memory_kind memory, void *to, const struct ftk_seg_region *rec, struct source *src)
{
    const bool fresh = src->fresh && ftk_memory_is_host(memory);
    const char *from = ftk_seg_data_c(src->seg) + rec->offset;
    if (fresh)
        ask_for_huge_pages(to, rec->bytes);
    for (size_t at = 0; at < rec->bytes;) {
        if (src->sure <= rec->offset + at) {
            int rc = make_sure(src, rec->offset + at + 1);
            if (rc != FTKIT_OK)
                return rc;
        }
        size_t n = src->sure - rec->offset - at;
        if (n > rec->bytes - at)
            n = rec->bytes - at;
        if (n > FTK_SEG_BLOCK)
            n = FTK_SEG_BLOCK;
        if (fresh)
            populate((char *)to + at, n);
        int rc = put(memory, (char *)to + at, from + at, n);
        if (rc != FTKIT_OK)
            return rc;
        at += n;
    }
    return FTKIT_OK;
}

static int restore_flat(
    enum ftk_memory_kind memory, void *to, const struct ftk_seg_region *rec, struct source *src)
{
    const int rc = restore_blocks(memory, to, rec, src);
    return rec->bytes > 0 ? finish(memory, to, rc) : rc;
}

static int restore_one(
    const struct ftk_region *r, const struct ftk_seg_region *rec, struct source *src)
{
    const char *from = ftk_seg_data_c(src->seg) + rec->offset;
    void *to = ftk_region_data(r);
    if (r->type.contiguous && r->kind != FTK_KIND_SERIALIZED)
        return restore_flat(r->memory, to, rec, src);
    int rc = make_sure(src, rec->offset + rec->bytes);
    if (rc != FTKIT_OK)
        return rc;
    if (r->kind != FTK_KIND_SERIALIZED)
        return ftk_type_unpack(&r->type, r->memory, from, rec->count, to);
    int bad = r->ops.unpack(r->arg, from, rec->bytes);
    return bad == 0 ? FTKIT_OK : ftk_region_failed(r, "unpack", bad);
}

static enum ftk_restore_order order_of(const struct ftk_region *r)
{
    return r->system ? r->system->order : FTK_RESTORE_DATA;
}

static int restore_all(
    const struct ftkit_ctx *ctx, enum ftk_restore_order order, struct source *src)
{
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < ctx->regions.n; i++) {
        const struct ftk_region *r = &ctx->regions.list[i];
        const struct ftk_seg_region *rec = ftk_seg_find(src->seg, r->name);
        if (order_of(r) == order && !ftk_region_is_note(r) && rec) /* some may be missing */
            rc = restore_one(r, rec, src);
    }
    return rc;
}

int ftk_region_restore_one(struct ftkit_ctx *ctx, const char *seg, int i)
{
    struct source src = { .seg = seg, .sure = SIZE_MAX };
    return ftk_device_done(
        ctx, restore_one(&ctx->regions.list[i], &ftk_seg_regions_c(seg)[i], &src));
}

int ftk_region_restore(struct ftkit_ctx *ctx, const char *seg, bool verified)
{
    struct source src = {
        .seg = seg, .sure = verified ? SIZE_MAX : 0, .fresh = ctx->where < FTK_IN_LOOP
    };
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < ctx->regions.n; i++)
        rc = compare(&ctx->regions.list[i], ftk_seg_find(seg, ctx->regions.list[i].name));
    for (int i = 0; rc == FTKIT_OK && i < ctx->regions.n; i++) {
        struct ftk_region *r = &ctx->regions.list[i];
        rc = r->kind == FTK_KIND_GROWING ? ftk_region_resize(r, ftk_seg_find(seg, r->name)->count)
                                         : ftk_region_look_again(r);
    }
    for (int order = 0; rc == FTKIT_OK && order < FTK_RESTORE_ORDERS; order++)
        rc = restore_all(ctx, (enum ftk_restore_order)order, &src);
    return ftk_device_done(ctx, rc);
}
