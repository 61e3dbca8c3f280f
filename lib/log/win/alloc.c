/* Memory of MPI_Alloc_mem that other ranks of the node can map: blocks in files.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Where ranks of a node may reach each other's windows without messages (near.c), the memory of
 * MPI_Alloc_mem is in a file of this process: a page with the token (share_file.h), then the bytes.
 * So a window of MPI_Win_create on such memory is reached without messages, too.  A set has the
 * memory only in a region of the program.
 *
 * The memory lives until the program frees it, also behind ftkit_close().  A lock guards the list,
 * because these calls are the program's in any thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/ftk.h"
#include "log/win/alloc.h"
#include "log/win/share_file.h"

/* Each block takes a descriptor and a mapping. */
enum { BLOCKS_MOST = 256 };

struct block {
    struct block *next;
    char *base;
    size_t bytes, mapped; /* as asked for; of the mapping */
    uint64_t token;
    int fd;
};

static struct {
    pthread_mutex_t lock;
    struct block *first;
    int n;
} blocks = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void enter(void)
{
    (void)pthread_mutex_lock(&blocks.lock); /* a plain mutex: fails only by misuse */
}

static void leave(void)
{
    (void)pthread_mutex_unlock(&blocks.lock);
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- blocks -------------------------------------------------------------------------- */

/* 0 or errno. */
static int map(struct block *b, uintptr_t at)
{
    const int fixed = at ? MAP_FIXED_NOREPLACE : 0;
    void *p = mmap((void *)at, b->mapped, // NOLINT(performance-no-int-to-ptr)
        PROT_READ | PROT_WRITE, MAP_SHARED | fixed, b->fd, (off_t)page_bytes());
    if (p == MAP_FAILED)
        return errno;
    if (at && (uintptr_t)p != at) { /* a kernel that does not know the flag */
        (void)munmap(p, b->mapped); /* an error leaks the mapping */
        return EEXIST;
    }
    b->base = p;
    return 0;
}

/* 0 or errno. */
static int fill(struct block *b, size_t bytes, uintptr_t at)
{
    b->bytes = bytes;
    b->mapped = (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
    b->token = ftk_share_file_token((uint64_t)(uintptr_t)b);
    int err = FTK_FAULT("win.alloc");
    if (!err)
        err = ftk_share_file_make_sparse(page_bytes() + b->mapped, b->token, &b->fd);
    if (err)
        return err;
    err = ftk_share_file_may_stay(b->fd) ? map(b, at) : EMFILE;
    if (err)
        (void)close(b->fd); /* nothing was written by it but the token */
    return err;
}

static bool add(size_t bytes, uintptr_t at, void **base)
{
    if (blocks.n >= BLOCKS_MOST)
        return false;
    struct block *b = calloc(1, sizeof *b);
    if (!b || fill(b, bytes, at) != 0) {
        free(b);
        return false;
    }
    b->next = blocks.first;
    blocks.first = b;
    blocks.n++;
    *base = b->base;
    return true;
}

bool ftk_win_block_make(size_t bytes, uintptr_t at, void **base)
{
    enter();
    const bool has = add(bytes, at, base);
    leave();
    return has;
}

bool ftk_win_block_free(void *base)
{
    enter();
    struct block **p = &blocks.first;
    while (*p && (*p)->base != base)
        p = &(*p)->next;
    struct block *b = *p;
    if (b) {
        *p = b->next;
        blocks.n--;
    }
    leave();
    if (!b)
        return false;
    (void)munmap(b->base, b->mapped); /* an error leaks the mapping */
    (void)close(b->fd);               /* nothing was written by it but the token */
    free(b);
    return true;
}

bool ftk_win_spot_of(const void *base, size_t bytes, struct ftk_win_spot *spot)
{
    enter();
    const struct block *b = blocks.first;
    while (b
           && ((const char *)base < b->base || (const char *)base > b->base + b->bytes
               || bytes > (size_t)(b->base + b->bytes - (const char *)base)))
        b = b->next;
    if (b)
        *spot = (struct ftk_win_spot){ .address = ftk_share_file_address(b->fd),
            .token = b->token,
            .file_bytes = page_bytes() + b->mapped,
            .at = page_bytes() + (size_t)((const char *)base - b->base) };
    leave();
    return b != NULL;
}
