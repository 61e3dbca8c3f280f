/* The symmetric heap: memory at the same address on all PEs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The lists of blocks are in the heap itself, so a set has them, and shmem_malloc() may be called
 * between two sets.  All PEs make the same calls, so all heaps are alike.
 *
 * Blocks follow each other without gaps, from the head to the top; a set has the bytes up to the
 * top.  A block is free or in use.  The first free block that is large enough is taken; free
 * blocks side by side become one. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "own.h"

/* The heap is memory of MPI_Alloc_mem, so PEs of a node reach the heaps of each other without
 * messages.  Where ftkit has no such memory the heap is private.  Its address is far from
 * programs, libraries and stacks. */
#define ADDRESS ((uintptr_t)1 << 45)
#define DEFAULT_SIZE ((size_t)64 << 20)
#define GRAIN ((size_t)64) /* of blocks, and of the addresses that the program gets */

struct head {
    uint64_t saved; /* shmem_checkpoint_all() has written a set */
    uint64_t top;   /* offset of the end of the last block */
    uint64_t contexts[FTK_SHMEM_CONTEXTS / 64];
};
struct block {
    uint64_t bytes; /* with this head */
    uint64_t used;
    uint64_t unused[6];
};
_Static_assert(sizeof(struct head) == GRAIN && sizeof(struct block) == GRAIN, "blocks are aligned");

static void *memory; /* for the registration */
static bool is_of_mpi;
static size_t in_use; /* the same: bytes up to the top */

static struct head *head(void)
{
    return memory;
}

static struct block *block_at(uint64_t offset)
{
    return (struct block *)(void *)((char *)memory + offset);
}

static uint64_t offset_of(const struct block *b)
{
    return (uint64_t)((const char *)b - (const char *)memory);
}

/* ---- the memory ---------------------------------------------------------------------- */

/* A number of bytes with K, M, G or T. */
static size_t asked_size(void)
{
    static const char units[] = "kmgt";
    char name[FTK_SHMEM_VARIABLE_BYTES], *end;
    const char *text = ftk_shmem_variable("SYMMETRIC_SIZE", &name);
    if (!text)
        return DEFAULT_SIZE;
    errno = 0;
    const double value = strtod(text, &end);
    double bytes = value;
    const char *unit = *end ? strchr(units, *end | 0x20) : NULL;
    for (const char *u = units; unit && u <= unit; u++)
        bytes *= 1024;
    if (errno != 0 || end == text || (*end && (!unit || end[1])) || !(value > 0) || bytes >= 1e15)
        ftk_shmem_end("%s: '%s' is not a size such as 512M", name, text);
    const size_t all = (size_t)bytes;
    return all < 2 * GRAIN ? 2 * GRAIN : (all + GRAIN - 1) / GRAIN * GRAIN;
}

/* Memory at the address that other PEs of the node can map; false: there is none. */
static bool get_of_mpi(size_t bytes)
{
    char address[32];
    MPI_Info info;
    snprintf(address, sizeof address, "%#" PRIxPTR, ADDRESS);
    int rc = MPI_Info_create(&info);
    if (rc != MPI_SUCCESS)
        return false;
    rc = MPI_Info_set(info, "ftkit.address", address);
    if (rc == MPI_SUCCESS)
        rc = MPI_Alloc_mem((MPI_Aint)bytes, info, (void *)&memory);
    MPI_Info_free(&info);
    const bool is_there = rc == MPI_SUCCESS && memory == (void *)ADDRESS;
    if (rc == MPI_SUCCESS && !is_there) /* an MPI does not know the key */
        (void)MPI_Free_mem(memory);
    return is_there;
}

void ftk_shmem_heap_open(void)
{
    const size_t bytes = asked_size();
    is_of_mpi = get_of_mpi(bytes);
    if (!is_of_mpi)
        memory = mmap((void *)ADDRESS, bytes, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != (void *)ADDRESS)
        ftk_shmem_end("SHMEM_SYMMETRIC_SIZE: no %zu bytes at address %#" PRIxPTR ": %s", bytes,
            ADDRESS, memory == MAP_FAILED ? strerror(errno) : "the system gives another address");
    ftk_shmem.seg[FTK_SHMEM_HEAP] = (struct ftk_shmem_segment){ memory, bytes, MPI_WIN_NULL };
    head()->top = in_use = sizeof(struct head);
}

void ftk_shmem_heap_close(void)
{
    if (is_of_mpi)
        (void)MPI_Free_mem(memory); /* the process is about to end */
    else
        (void)munmap(memory, ftk_shmem.seg[FTK_SHMEM_HEAP].bytes); /* as above */
    memory = NULL;
}

/* The memory is reserved, and its address stays. */
static int resize(void **data, size_t count, void *arg)
{
    (void)arg;
    return *data != memory || count > ftk_shmem.seg[FTK_SHMEM_HEAP].bytes;
}

int ftk_shmem_heap_register(ftkit_ctx *ft)
{
    return ftkit_register_growing(ft, "shmem.heap", &memory, &in_use, MPI_BYTE, resize, NULL);
}

bool ftk_shmem_heap_saved(void)
{
    return head()->saved != 0;
}

void ftk_shmem_heap_set_saved(void)
{
    head()->saved = 1;
}

uint64_t *ftk_shmem_heap_contexts(void)
{
    return head()->contexts;
}

/* ---- blocks -------------------------------------------------------------------------- */

static struct block *next_of(const struct block *b)
{
    const uint64_t end = offset_of(b) + b->bytes;
    return end < head()->top ? block_at(end) : NULL;
}

static struct block *first(void)
{
    return head()->top > sizeof(struct head) ? block_at(sizeof(struct head)) : NULL;
}

/* Make free blocks side by side one; a free one at the top goes. */
static void join(void)
{
    for (struct block *b = first(), *next; b; b = next) {
        next = next_of(b);
        while (!b->used && next && !next->used) {
            b->bytes += next->bytes;
            next = next_of(b);
        }
        if (!b->used && !next)
            head()->top = offset_of(b);
    }
    in_use = head()->top;
}

/* The bytes of a block for so many bytes of the program. */
static uint64_t block_bytes(size_t size)
{
    return sizeof(struct block) + (size + GRAIN - 1) / GRAIN * GRAIN;
}

/* Let a block have so many bytes; what is left becomes a free block. */
static void split(struct block *b, uint64_t bytes)
{
    if (b->bytes - bytes < GRAIN)
        return;
    struct block *rest = block_at(offset_of(b) + bytes);
    *rest = (struct block){ .bytes = b->bytes - bytes };
    b->bytes = bytes;
}

/* The offset of the block in [from, to) whose data are aligned. */
static uint64_t aligned(uint64_t from, uint64_t alignment)
{
    const uint64_t data = ADDRESS + from + sizeof(struct block);
    return from + (data + alignment - 1) / alignment * alignment - data;
}

/* NULL: no room. */
static struct block *take(uint64_t bytes, uint64_t alignment)
{
    const uint64_t room = ftk_shmem.seg[FTK_SHMEM_HEAP].bytes;
    uint64_t at;
    for (struct block *b = first(); b; b = next_of(b)) {
        at = aligned(offset_of(b), alignment);
        if (b->used || at - offset_of(b) + bytes > b->bytes)
            continue;
        if (at > offset_of(b))
            split(b, at - offset_of(b));
        b = block_at(at);
        split(b, bytes);
        b->used = 1;
        return b;
    }
    at = aligned(head()->top, alignment);
    if (bytes > room || at > room - bytes)
        return NULL;
    if (at > head()->top)
        *block_at(head()->top) = (struct block){ .bytes = at - head()->top };
    head()->top = at + bytes;
    in_use = head()->top;
    *block_at(at) = (struct block){ .bytes = bytes, .used = 1 };
    return block_at(at);
}

/* The block of an address that the program has got; NULL: it is none. */
static struct block *block_of(const void *data)
{
    for (struct block *b = first(); b; b = next_of(b))
        if (b->used && (const char *)data == (const char *)(b + 1))
            return b;
    return NULL;
}

/* ---- the calls ----------------------------------------------------------------------- */

/* Whether all PEs make the same call.  The call is a barrier, too. */
static bool agree(const char *call, uint64_t bytes, uint64_t alignment, const void *data)
{
    const uint64_t mine[3] = { bytes, alignment, (uint64_t)(uintptr_t)data };
    uint64_t both[6], least[6];
    for (int i = 0; i < 3; i++) {
        both[i] = mine[i];
        both[i + 3] = ~mine[i];
    }
    if (!ftk_shmem_ready(call) || !ftk_shmem_flush_all(call)
        || !ftk_shmem_done(
            call, MPI_Allreduce(both, least, 6, MPI_UINT64_T, MPI_MIN, ftk_shmem.comm)))
        return false;
    for (int i = 0; i < 3; i++) {
        if (least[i] == ~least[i + 3])
            continue;
        if (ftk_shmem.me == 0)
            fprintf(stderr,
                "shmem: %s: the PEs do not ask for the same: from %" PRIu64 " to %" PRIu64 " %s\n",
                call, least[i], ~least[i + 3],
                i == 0   ? "bytes"
                : i == 1 ? "bytes of alignment"
                         : "as address");
        return false;
    }
    return true;
}

static void exhausted(const char *call, size_t size)
{
    if (ftk_shmem.me == 0)
        fprintf(stderr,
            "shmem: %s: no room for %zu bytes: %zu of %zu are in use (SHMEM_SYMMETRIC_SIZE)\n",
            call, size, in_use, ftk_shmem.seg[FTK_SHMEM_HEAP].bytes);
}

static void *allocate(const char *call, size_t size, size_t alignment)
{
    if (!agree(call, size, alignment, NULL) || size == 0)
        return NULL;
    struct block *b = NULL;
    if (size <= ftk_shmem.seg[FTK_SHMEM_HEAP].bytes)
        b = take(block_bytes(size), alignment);
    if (!b)
        exhausted(call, size);
    return b ? b + 1 : NULL;
}

void *shmem_malloc(size_t size)
{
    return allocate("shmem_malloc", size, GRAIN);
}

void *shmem_calloc(size_t count, size_t size)
{
    const size_t bytes = size > 0 && count > SIZE_MAX / size ? SIZE_MAX : count * size;
    void *data = allocate("shmem_calloc", bytes, GRAIN);
    if (data)
        memset(data, 0, bytes);
    if (data) /* no put of another PE comes before the zeros */
        (void)ftk_shmem_done("shmem_calloc", MPI_Barrier(ftk_shmem.comm));
    return data;
}

void *shmem_align(size_t alignment, size_t size)
{
    if ((alignment == 0 || (alignment & (alignment - 1)) != 0)
        && !ftk_shmem_mistake("shmem_align: %zu is not a power of two", alignment))
        return NULL;
    return allocate("shmem_align", size, alignment < GRAIN ? GRAIN : alignment);
}

void shmem_free(void *ptr)
{
    if (!agree("shmem_free", 0, 0, ptr) || !ptr)
        return;
    struct block *b = block_of(ptr);
    if (!b) {
        (void)ftk_shmem_mistake("shmem_free: %p is not from shmem_malloc, or is free already", ptr);
        return;
    }
    b->used = 0;
    join();
}

void *shmem_realloc(void *ptr, size_t size)
{
    if (!ptr)
        return shmem_malloc(size);
    if (size == 0) {
        shmem_free(ptr);
        return NULL;
    }
    if (!agree("shmem_realloc", size, 0, ptr))
        return NULL;
    struct block *old = block_of(ptr);
    if (!old) {
        (void)ftk_shmem_mistake(
            "shmem_realloc: %p is not from shmem_malloc, or is free already", ptr);
        return NULL;
    }
    const size_t had = old->bytes - sizeof *old;
    if (size <= had) { /* the address stays, and no data move */
        split(old, block_bytes(size));
        join();
        return ptr;
    }
    struct block *b = NULL;
    if (size <= ftk_shmem.seg[FTK_SHMEM_HEAP].bytes)
        b = take(block_bytes(size), GRAIN);
    if (!b) {
        exhausted("shmem_realloc", size);
        return NULL;
    }
    memcpy(b + 1, ptr, had);
    old->used = 0;
    join();
    (void)ftk_shmem_done("shmem_realloc", MPI_Barrier(ftk_shmem.comm));
    return b + 1;
}

void *shmalloc(size_t size)
{
    return shmem_malloc(size);
}

void *shrealloc(void *ptr, size_t size)
{
    return shmem_realloc(ptr, size);
}

void *shmemalign(size_t alignment, size_t size)
{
    return shmem_align(alignment, size);
}

void shfree(void *ptr)
{
    shmem_free(ptr);
}
