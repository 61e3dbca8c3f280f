/* Flipping a bit on request (see flip.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "flip.h"

#include <unistd.h>

#include "core/context.h"
#include "core/memory_kind.h"
#include "core/run_state.h"
#include "region.h"
#include "store/segment.h"

static struct {
    struct ftk_flip *page; /* NULL: not mapped */
    bool tried;
} f;

static void answer(uint64_t request, uint64_t set, uint64_t byte)
{
    atomic_store(&f.page->set, set);
    atomic_store(&f.page->byte, byte);
    atomic_store(&f.page->bit, (int)(atomic_load(&f.page->random) & 7));
    atomic_store(&f.page->pid, (int)getpid());
    atomic_store(&f.page->done, request);
}

static void flip_bit(char *byte)
{
    *byte = (char)((unsigned char)*byte ^ (1u << (atomic_load(&f.page->random) & 7)));
}

/* Flip a bit of memory of any kind; false: the memory cannot be accessed. */
static bool flip_memory(char *at)
{
    const enum ftk_memory_kind kind = ftk_memory_kind_of(at);
    char byte;
    if (ftk_memory_wait(kind, at, NULL) != FTKIT_OK
        || ftk_memory_copy_out(kind, &byte, at, 1) != FTKIT_OK)
        return false;
    flip_bit(&byte);
    return ftk_memory_copy_in(kind, at, &byte, 1) == FTKIT_OK;
}

/* Flip a bit of a region of the program; of its first byte, if its items have gaps. */
static void flip_region(struct ftkit_ctx *ctx, uint64_t request)
{
    uintptr_t first = 0, end = 0;
    const struct ftk_region *r = ftk_region_find(ctx, f.page->region);
    if (!r || !ftk_region_memory(r, &first, &end) || end <= first) {
        answer(request, 0, 0);
        return;
    }
    uint64_t byte = r->type.contiguous ? (atomic_load(&f.page->random) >> 3) % (end - first) : 0;
    const bool done = flip_memory((char *)first + byte);
    answer(request, done ? ctx->committed : 0, done ? byte : 0);
}

/* Flip a bit of the data in the rank's own segment of the committed set; of the head, if there are
 * no data. */
static void flip(const struct ftkit_ctx *ctx, uint64_t request)
{
    const struct ftk_mem *mem = &ctx->level[FTK_LEVEL_MEMORY].mem;
    struct ftk_mem_seg *s =
        ctx->committed > 0 ? ftk_mem_find(mem, ctx->committed, ctx->rank) : NULL;
    if (!s)
        return; /* no set yet: the request waits */
    const struct ftk_seg_header *h = (const void *)s->buf;
    uint64_t random = atomic_load(&f.page->random), byte = 0;
    if (h->data_bytes > 0)
        byte = h->head_bytes + (random >> 3) % h->data_bytes;
    flip_bit(&s->buf[byte]);
    answer(request, s->set, byte);
}

void ftk_flip_look(struct ftkit_ctx *ctx)
{
    if (!f.tried)
        f.page = ftk_run_map(FTK_FLIP_FILE, sizeof *f.page);
    f.tried = true;
    if (!f.page)
        return;
    uint64_t request = atomic_load(&f.page->asked);
    if (request == atomic_load(&f.page->done) || atomic_load(&f.page->rank) != ctx->rank)
        return;
    if (f.page->region[0] == '\0')
        flip(ctx, request);
    else if (ctx->committed > 0)
        flip_region(ctx, request);
}
