/* Packing the regions into a segment (see pack.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/memory_kind.h"
#include "detect/detect.h"
#include "device.h"
#include "pack.h"
#include "region.h"
#include "replica/planes.h"

static size_t align_up(size_t n)
{
    return (n + FTK_SEG_REGION_ALIGN - 1) / FTK_SEG_REGION_ALIGN * FTK_SEG_REGION_ALIGN;
}

int ftk_region_measure(struct ftkit_ctx *ctx, size_t *head_bytes, size_t *data_bytes)
{
    size_t total = 0;
    for (int i = 0; i < ctx->regions.n; i++) {
        struct ftk_region *r = &ctx->regions.list[i];
        size_t bytes;
        int rc = ftk_device_done(ctx, ftk_region_look_again(r));
        if (rc != FTKIT_OK)
            return rc;
        if (r->kind == FTK_KIND_SERIALIZED) {
            int bad = r->ops.measure(r->arg, &r->count);
            if (bad != 0)
                return ftk_region_failed(r, "measure", bad);
        }
        if (r->kind == FTK_KIND_GROWING && ftk_region_count(r) > 0 && !ftk_region_data(r))
            return ftk_fail(FTKIT_ERR_ARG, "region '%s': data is NULL", r->name);
        rc = ftk_region_check_extent(&r->type, ftk_region_count(r), r->name);
        if (rc != FTKIT_OK)
            return rc;
        bytes = ftk_region_count(r) * r->type.item_bytes;
        if (__builtin_add_overflow(align_up(total), bytes, &total) || total > SIZE_MAX / 4)
            return ftk_fail(FTKIT_ERR_SIZE, "the regions exceed the address space");
    }
    *data_bytes = total;
    *head_bytes = ftk_seg_head_bytes((size_t)ctx->regions.n, total, FTK_SEG_BLOCK);
    return FTKIT_OK;
}

static void write_record(const struct ftk_region *r, uint64_t offset, struct ftk_seg_region *rec)
{
    memcpy(rec->name, r->name, sizeof rec->name);
    rec->kind = r->kind;
    rec->basic = r->type.basic;
    rec->elem_bytes = r->type.item_bytes;
    rec->count = ftk_region_count(r);
    rec->bytes = rec->count * rec->elem_bytes;
    rec->offset = offset;
    rec->ndims = (uint32_t)r->ndims;
    for (int d = 0; d < r->ndims; d++) {
        rec->global[d] = r->global[d];
        rec->local[d] = r->local[d];
        rec->start[d] = r->start[d];
        rec->halo[d] = r->halo[d];
    }
}

uint32_t ftk_programs_sum(const struct ftkit_ctx *ctx)
{
    const struct ftk_programs *p = &ctx->programs;
    return p->n == 0 ? 0 : (uint32_t)ftk_xxh3(p->of, (size_t)p->nof * sizeof *p->of);
}

static void write_program(const struct ftk_programs *p, struct ftk_seg_header *h)
{
    h->nprograms = 1;
    if (p->n == 0)
        return;
    h->version = FTK_SEG_VERSION_PROGRAMS;
    h->nprograms = (uint16_t)p->n;
    h->program_number = (uint16_t)p->own;
    h->executable = p->list[p->own].executable;
    h->command = p->list[p->own].command;
}

void ftk_region_begin(struct ftkit_ctx *ctx, uint64_t set, size_t head_bytes, size_t data_bytes,
    char *seg, struct ftk_packer *p)
{
    struct ftk_seg_header *h = (struct ftk_seg_header *)(void *)seg;
    memset(seg, 0, head_bytes);
    memcpy(h->magic, FTK_SEG_MAGIC, sizeof h->magic);
    h->version = FTK_SEG_VERSION;
    h->byte_order = FTK_SEG_BYTE_ORDER;
    h->head_bytes = head_bytes;
    h->data_bytes = data_bytes;
    h->set = set;
    h->run = ctx->run;
    h->epoch_id = ctx->epoch_id;
    h->wall_ns = ftk_wall_ns();
    h->rank = (uint32_t)ftk_plane_home(ctx, ctx->rank);
    h->nranks = (uint32_t)ftk_plane_size(ctx);
    h->incarnation = (uint32_t)ctx->incarnation;
    h->nregions = (uint32_t)ctx->regions.n;
    h->block_bytes = FTK_SEG_BLOCK;
    h->nblocks = (data_bytes + FTK_SEG_BLOCK - 1) / FTK_SEG_BLOCK;
    memcpy(h->context, ctx->cfg.name, strlen(ctx->cfg.name));
    memcpy(h->program, ctx->identity.program, sizeof h->program);
    write_program(&ctx->programs, h);
    h->programs_sum = ftk_programs_sum(ctx);
    struct ftk_seg_region *rec = ftk_seg_regions(seg);
    size_t offset = 0;
    for (int i = 0; i < ctx->regions.n; i++) {
        offset = align_up(offset);
        write_record(&ctx->regions.list[i], offset, &rec[i]);
        offset += rec[i].bytes;
    }
    *p = (struct ftk_packer){ .ctx = ctx,
        .seg = seg,
        .end = ctx->regions.n,
        .ahead.host_sums = ctx->cfg.device_sums == FTK_DEVICE_SUMS_HOST };
}

/* Pack a region that cannot be packed in pieces. */
static int pack_whole(const struct ftk_region *r, const struct ftk_seg_region *rec, char *to)
{
    if (r->kind == FTK_KIND_SERIALIZED) {
        int bad = r->ops.pack(r->arg, to, rec->bytes);
        return bad == 0 ? FTKIT_OK : ftk_region_failed(r, "pack", bad);
    }
    return ftk_type_pack(&r->type, r->memory, ftk_region_data(r), rec->count, to);
}

static bool has_pieces(const struct ftk_region *r)
{
    return ftk_region_has_pieces(r) || (r->type.contiguous && r->kind != FTK_KIND_SERIALIZED);
}

/* Pack `bytes` bytes of a region, from the offset `at` in it. */
static int pack_piece(struct ftk_packer *p, const struct ftk_region *r,
    const struct ftk_seg_region *rec, size_t at, size_t bytes)
{
    char *to = ftk_seg_data(p->seg) + rec->offset;
    if (ftk_region_has_pieces(r))
        return r->system->pack_piece(r->arg, to + at, at, bytes);
    if (!ftk_memory_is_host(r->memory) && ftk_memory_ops_of(r->memory)->begin_out)
        return ftk_ahead_get(&p->ahead, r, p->seg, rec, at, bytes);
    return ftk_memory_copy_out(r->memory, to + at, (const char *)ftk_region_data(r) + at, bytes);
}

/* Copy regions until the data area is filled up to the offset `to` at least. */
static int fill(struct ftk_packer *p, size_t to)
{
    char *data = ftk_seg_data(p->seg);
    const struct ftk_seg_region *recs = ftk_seg_regions(p->seg);
    while (p->region < p->end) {
        const struct ftk_region *r = &p->ctx->regions.list[p->region];
        const struct ftk_seg_region *rec = &recs[p->region];
        size_t at = rec->offset + p->in_region;
        if (at >= to && rec->bytes > 0)
            return FTKIT_OK;
        if (has_pieces(r)) {
            size_t n = rec->bytes - p->in_region;
            if (n > 0 && at + n > to) /* an empty region may follow the end of the data */
                n = to - at;
            int rc = n == 0 ? FTKIT_OK : pack_piece(p, r, rec, p->in_region, n);
            if (rc != FTKIT_OK)
                return rc;
            p->in_region += n;
            if (p->in_region < rec->bytes)
                return FTKIT_OK;
        } else {
            int rc = pack_whole(r, rec, data + rec->offset);
            if (rc != FTKIT_OK)
                return rc;
        }
        p->region++;
        p->in_region = 0;
        /* zero the gap behind the region now: the gap may end the block that is checksummed next,
         * and the buffer may hold older data */
        if (p->region < p->ctx->regions.n)
            memset(data + rec->offset + rec->bytes, 0,
                recs[p->region].offset - rec->offset - rec->bytes);
    }
    return FTKIT_OK;
}

int ftk_region_pack(struct ftk_packer *p, size_t upto)
{
    const struct ftk_seg_header *h = (const void *)p->seg;
    uint64_t *sums = ftk_seg_sums(p->seg);
    char *data = ftk_seg_data(p->seg);
    while (p->done < upto && p->done < h->data_bytes) {
        size_t end = p->done + FTK_SEG_BLOCK;
        if (end > h->data_bytes)
            end = h->data_bytes;
        int rc = ftk_device_done(p->ctx, fill(p, end));
        if (rc != FTKIT_OK)
            return rc;
        /* the block is still in the cache: its checksum costs no memory traffic */
        if (!ftk_ahead_has_sum(&p->ahead, p->done, end)
            && !ftk_snapshots_have_sum(&p->snapshots, p->done, end))
            sums[p->done / FTK_SEG_BLOCK] = ftk_xxh3(data + p->done, end - p->done);
        p->done = end;
    }
    return FTKIT_OK;
}

void ftk_region_pack_end(struct ftk_packer *p)
{
    if (p->ctx) { /* the error of a copy that nobody needs any more */
        (void)ftk_device_done(p->ctx, ftk_ahead_stop(&p->ahead));
        (void)ftk_device_done(p->ctx, ftk_snapshots_end(&p->snapshots));
        ftk_snapshots_free(&p->snapshots);
    }
}

/* ---- line apart ---------------------------------------------------------------------- */

/* The first late region; the number of regions if none is late. */
static int first_late(const struct ftk_packer *p)
{
    int i = p->ctx->regions.n;
    while (i > 0 && ftk_region_is_late(&p->ctx->regions.list[i - 1]))
        i--;
    return i;
}

/* The whole region, now. */
static int pack_now(
    const struct ftk_packer *p, const struct ftk_region *r, const struct ftk_seg_region *rec)
{
    char *to = ftk_seg_data(p->seg) + rec->offset;
    if (ftk_region_has_pieces(r))
        return r->system->pack_piece(r->arg, to, 0, rec->bytes);
    if (!has_pieces(r))
        return pack_whole(r, rec, to);
    return rec->bytes > 0 ? ftk_memory_copy_out(r->memory, to, ftk_region_data(r), rec->bytes)
                          : FTKIT_OK;
}

/* Memory of a device is copied on the device, as far as it has room, and all else now.  Whoever
 * packs the late regions computes the checksums that the device does not. */
static int cut_behind(struct ftk_packer *p)
{
    char *data = ftk_seg_data(p->seg);
    const struct ftk_seg_region *recs = ftk_seg_regions(p->seg);
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < p->end; i++) {
        const struct ftk_region *r = &p->ctx->regions.list[i];
        bool taken = false;
        rc = ftk_snapshots_take(&p->snapshots, r, i, &taken);
        if (rc == FTKIT_OK && !taken)
            rc = pack_now(p, r, &recs[i]);
        if (i + 1 < p->ctx->regions.n)
            memset(data + recs[i].offset + recs[i].bytes, 0,
                recs[i + 1].offset - recs[i].offset - recs[i].bytes);
    }
    p->region = p->end;
    return rc == FTKIT_OK ? ftk_snapshots_begin(&p->snapshots, p->seg, p->ahead.host_sums) : rc;
}

int ftk_region_pack_behind(struct ftk_packer *p)
{
    return ftk_device_done(p->ctx, ftk_snapshots_end(&p->snapshots));
}

int ftk_region_pack_cut(struct ftk_packer *p)
{
    const struct ftk_seg_header *h = (const void *)p->seg;
    p->end = first_late(p);
    if (p->behind)
        return ftk_device_done(p->ctx, cut_behind(p));
    const size_t end =
        p->end < p->ctx->regions.n ? ftk_seg_regions(p->seg)[p->end].offset : h->data_bytes;
    int rc = ftk_region_pack(p, end / FTK_SEG_BLOCK * FTK_SEG_BLOCK);
    return rc == FTKIT_OK ? ftk_device_done(p->ctx, fill(p, end)) : rc;
}

int ftk_region_measure_late(struct ftk_packer *p, size_t *bytes)
{
    struct ftk_seg_header *h = (struct ftk_seg_header *)(void *)p->seg;
    struct ftk_seg_region *recs = ftk_seg_regions(p->seg);
    for (int i = p->end; i < p->ctx->regions.n; i++) {
        struct ftk_region *r = &p->ctx->regions.list[i];
        int rc = r->ops.measure(r->arg, &r->count);
        if (rc != FTKIT_OK)
            return rc;
        recs[i].count = recs[i].bytes = r->count;
        if (i > p->end)
            recs[i].offset = align_up(recs[i - 1].offset + recs[i - 1].bytes);
        h->data_bytes = recs[i].offset + recs[i].bytes;
    }
    *bytes = (size_t)(h->head_bytes + h->data_bytes);
    return FTKIT_OK;
}

int ftk_region_pack_late(struct ftk_packer *p)
{
    struct ftk_seg_header *h = (struct ftk_seg_header *)(void *)p->seg;
    h->nblocks = (h->data_bytes + FTK_SEG_BLOCK - 1) / FTK_SEG_BLOCK;
    if (ftk_seg_head_bytes((size_t)p->ctx->regions.n, h->data_bytes, FTK_SEG_BLOCK) > h->head_bytes)
        return ftk_fail(FTKIT_ERR_NOSPACE,
            "the messages and requests under way, %zu bytes, have no room in the set",
            (size_t)h->data_bytes - (size_t)ftk_seg_regions(p->seg)[p->end].offset);
    p->end = p->ctx->regions.n;
    return ftk_region_pack(p, SIZE_MAX);
}

void ftk_region_seal(struct ftk_packer *p)
{
    ftk_seg_seal_head(p->seg);
}

uint64_t ftk_region_replicated_sum(const char *seg)
{
    const struct ftk_seg_header *h = (const void *)seg;
    const struct ftk_seg_region *recs = ftk_seg_regions_c(seg);
    const char *data = ftk_seg_data_c(seg);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < h->nregions; i++)
        if (recs[i].kind == FTK_KIND_REPLICATED)
            sum += ftk_xxh3_seed(
                data + recs[i].offset, recs[i].bytes, ftk_xxh3(recs[i].name, sizeof recs[i].name));
    return sum;
}

uint64_t ftk_region_sum_of(const char *seg, const struct ftk_seg_region *r)
{
    return ftk_xxh3(ftk_seg_data_c(seg) + r->offset, r->bytes);
}

const struct ftk_seg_region *ftk_region_next_replicated(
    const char *seg, const struct ftk_seg_region *last)
{
    const struct ftk_seg_header *h = (const void *)seg;
    const struct ftk_seg_region *recs = ftk_seg_regions_c(seg), *next = NULL;
    for (uint32_t i = 0; i < h->nregions; i++)
        if (recs[i].kind == FTK_KIND_REPLICATED && (!last || strcmp(recs[i].name, last->name) > 0)
            && (!next || strcmp(recs[i].name, next->name) < 0))
            next = &recs[i];
    return next;
}

/* *sum: in, the seed; out, the checksum of the region's items. */
static int sum_items(const struct ftk_region *r, uint64_t *sum)
{
    const size_t bytes = r->count * r->type.item_bytes;
    int rc = bytes > 0 ? ftk_memory_wait(r->memory, r->data, r->stream) : FTKIT_OK;
    if (rc == FTKIT_OK && r->type.contiguous)
        return ftk_memory_sum(r->memory, r->data, bytes, *sum, sum);
    void *packed = rc == FTKIT_OK ? malloc(bytes + 1) : NULL;
    if (rc == FTKIT_OK)
        rc = packed ? ftk_type_pack(&r->type, r->memory, r->data, r->count, packed)
                    : ftk_fail(FTKIT_ERR_NOMEM, "the checksum of region '%s'", r->name);
    if (rc == FTKIT_OK)
        *sum = ftk_xxh3_seed(packed, bytes, *sum);
    free(packed);
    return rc;
}

uint64_t ftk_region_state_sum(const struct ftkit_ctx *ctx)
{
    uint64_t sum = 0;
    for (int i = 0; i < ctx->regions.n; i++) {
        const struct ftk_region *r = &ctx->regions.list[i];
        if (r->kind != FTK_KIND_REPLICATED)
            continue;
        sum += (uint64_t)i + 1;
        if (sum_items(r, &sum) != FTKIT_OK)
            return 0; /* the next set has the same error, and reports it */
    }
    return sum;
}

bool ftk_region_progressed(const struct ftkit_ctx *ctx)
{
    return ctx->where == FTK_IN_LOOP && ctx->committed == 0
           && (ctx->called || ftk_region_state_sum(ctx) != ctx->state_sum);
}
