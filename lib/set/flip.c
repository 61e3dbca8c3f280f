/* Flipping a bit on request (see flip.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "flip.h"

#include <unistd.h>

#include "core/context.h"
#include "core/run_state.h"
#include "store/segment.h"

static struct {
    struct ftk_flip *page; /* NULL: not mapped */
    bool tried;
} f;

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
    int bit = (int)(random & 7);
    s->buf[byte] = (char)((unsigned char)s->buf[byte] ^ (1u << bit));
    atomic_store(&f.page->set, s->set);
    atomic_store(&f.page->byte, byte);
    atomic_store(&f.page->bit, bit);
    atomic_store(&f.page->pid, (int)getpid());
    atomic_store(&f.page->done, request);
}

void ftk_flip_call(const struct ftkit_ctx *ctx)
{
    if (!f.tried)
        f.page = ftk_run_map(FTK_FLIP_FILE, sizeof *f.page);
    f.tried = true;
    if (!f.page)
        return;
    uint64_t request = atomic_load(&f.page->asked);
    if (request != atomic_load(&f.page->done) && atomic_load(&f.page->rank) == ctx->rank)
        flip(ctx, request);
}
