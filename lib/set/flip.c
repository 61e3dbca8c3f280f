/* Flipping a bit on request (see flip.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "flip.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/context.h"
#include "store/segment.h"

static struct {
    struct ftk_flip *page; /* NULL: not mapped */
    bool tried;
} f;

static void map_page(void)
{
    char path[FTK_PATH_MAX];
    struct stat st;
    const char *state = getenv("FTKIT_RUN_STATE");
    const char *slash = state ? strrchr(state, '/') : NULL;
    f.tried = true;
    if (!slash || slash - state > FTK_PATH_MAX - 16)
        return;
    snprintf(path, sizeof path, "%.*s/" FTK_FLIP_FILE, (int)(slash - state), state);
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    void *at = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size == (off_t)sizeof *f.page)
        at = mmap(NULL, sizeof *f.page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void)close(fd); /* the mapping stays */
    f.page = at == MAP_FAILED ? NULL : at;
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
        map_page();
    if (!f.page)
        return;
    uint64_t request = atomic_load(&f.page->asked);
    if (request != atomic_load(&f.page->done) && atomic_load(&f.page->rank) == ctx->rank)
        flip(ctx, request);
}
