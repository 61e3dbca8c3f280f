/* Access to the memory of the program, by the kind of this memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The memory of a region, and the buffer of an MPI call, may be memory that this process cannot
 * read or write itself.  All such accesses go through these functions.  Host memory is accessed in
 * place.  A process without memory of another kind pays for one look at a flag.
 *
 * "Out" means from the program's memory into memory of ftkit, "in" means into the program's memory.
 * Functions return codes of ftkit, with a text.  Any thread may call them. */
#ifndef FTK_MEMORY_KIND_H
#define FTK_MEMORY_KIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "memory_kinds.h"

#define FTK_MEMORY_AHEAD 8 /* copies */

struct ftk_snapshot;

/* What a kind other than host memory can do. */
struct ftk_memory_ops {
    const char *name; /* for messages: "NAME memory" */
    /* Whether this process may have memory of this kind now.  It may have later, if it has not. */
    bool (*present)(void);
    /* Whether the byte at p is memory of this kind now. */
    bool (*owns)(const void *p);
    /* Whether this process may access the memory at p itself, too.  Not set: it may not. */
    bool (*is_shared)(const void *p);
    int (*copy_out)(void *to, const void *from, size_t bytes);
    int (*copy_in)(void *to, const void *from, size_t bytes);
    /* XXH3-64 with a seed: the sum is the same as that of these bytes in host memory. */
    int (*sum)(const void *from, size_t bytes, uint64_t seed, uint64_t *sum);
    /* As realloc(); NULL: no memory, and old stays.  Not set: only the program can allocate. */
    void *(*alloc)(void *old, size_t bytes);
    /* Wait until no work of the program is under way that may use the memory at p: all work of its
     * device, or if stream is not NULL the work of this stream.  Not set: there is no such work.
     * FTKIT_ERR_STATE: the program does not let anybody wait now; FTKIT_ERR_ARG: no stream. */
    int (*wait)(const void *p, void *stream);
    /* Whether this is a stream of the program; FTKIT_ERR_ARG: none.  Set where wait() is. */
    int (*check_stream)(const void *p, void *stream);
    /* Copies that are begun, and go on while this process computes.  begin_out() gives the copy a
     * number, and await() waits for the copy of that number; copies end in their order, and at most
     * FTK_MEMORY_AHEAD of them are under way.  finish() waits for all copies from or to the memory
     * at p.  Not set: copy_out() and copy_in() take their place. */
    int (*begin_out)(void *to, const void *from, size_t bytes, unsigned *number);
    int (*begin_in)(void *to, const void *from, size_t bytes);
    int (*await)(unsigned number);
    int (*finish)(const void *p);
    /* Begin to compute XXH3-64 of n blocks of block_bytes each, the first one at `from`, by the
     * device.  sums[0] to sums[n - 1], in host memory, are there when a copy is over that
     * begin_out() begins later from the same region, and after finish().  The caller has waited for
     * the program, and the program does not change the blocks meanwhile.  *begun = false: the host
     * has to compute the sums, and nothing is under way.  Not set: it always has to. */
    int (*begin_sums)(const void *from, size_t block_bytes, size_t n, uint64_t *sums, bool *begun);
    /* Snapshots: copies of bytes at `from` on the device.  snapshot() returns when the copy is
     * there, and the program may change these bytes then; *s = NULL: no room, and nothing has
     * happened.  snapshot_sums() begins to compute sums as begin_sums() does, of the blocks from
     * the byte `before` of the snapshot on; snapshot_out() begins to copy the snapshot to `to`.
     * Both are over, and the snapshot is gone, after snapshot_end(), whose error is that of any of
     * them.  Not set: there are none. */
    int (*snapshot)(const void *from, size_t bytes, struct ftk_snapshot **s);
    int (*snapshot_sums)(struct ftk_snapshot *s, size_t before, size_t block_bytes, size_t n,
        uint64_t *sums, bool *begun);
    int (*snapshot_out)(struct ftk_snapshot *s, void *to, size_t bytes);
    int (*snapshot_end)(struct ftk_snapshot *s);
    /* Let the device access host memory itself, which makes copies faster, until unpin().  like:
     * memory of the device.  If pin() fails, copies are right all the same.  Pinned memory must not
     * be unmapped, nor its pages be given back, also if unpin() fails. */
    bool (*pin)(void *at, size_t bytes, const void *like);
    bool (*unpin)(void *at);
    /* Has all memory of this kind been lost?  A look that does not wait; not set: it cannot be. */
    int (*check)(void);
    /* Whether it has been lost, as an earlier call has found. */
    bool (*lost)(void);
};

/* Whether a region has had memory of another kind than host memory in this process. */
extern _Atomic bool ftk_memory_others;
static inline bool ftk_memory_has_others(void)
{
    return atomic_load_explicit(&ftk_memory_others, memory_order_relaxed);
}

/* For kinds other than host memory. */
enum ftk_memory_kind ftk_memory_find(const void *p);
const struct ftk_memory_ops *ftk_memory_ops_of(enum ftk_memory_kind kind);

/* ftk_memory_copy(), if there are other kinds. */
int ftk_memory_copy_between(void *to, const void *from, size_t bytes);

/* "host", for messages. */
const char *ftk_memory_name(enum ftk_memory_kind kind);

/* The kind of the memory at p.  Memory of another kind than host memory is found if a region has
 * had such memory. */
static inline enum ftk_memory_kind ftk_memory_kind_of(const void *p)
{
    return ftk_memory_has_others() ? ftk_memory_find(p) : FTK_MEMORY_HOST;
}

/* The kind of the memory at p, the memory of a region: every kind is found. */
enum ftk_memory_kind ftk_memory_look(const void *p);

/* Whether this process may not access the memory at p itself, which is no memory of a region. */
bool ftk_memory_is_hidden(const void *p);

/* Wait for work of the program that may use the memory at p, on this stream or, if it is NULL, on
 * any.  Codes of ftkit, with a text. */
int ftk_memory_wait(enum ftk_memory_kind kind, const void *p, void *stream);

/* Whether memory of a kind has been lost for this process: only the end of the process helps.
 * ftk_memory_check() looks, without waiting; FTKIT_ERR_IO, with a text: it has. */
bool ftk_memory_is_lost(void);
int ftk_memory_check(void);

/* Whether this process may read and write the memory itself. */
static inline bool ftk_memory_is_host(enum ftk_memory_kind kind)
{
    return kind == FTK_MEMORY_HOST;
}

static inline int ftk_memory_copy_out(
    enum ftk_memory_kind kind, void *to, const void *from, size_t bytes)
{
    if (!ftk_memory_is_host(kind))
        return ftk_memory_ops_of(kind)->copy_out(to, from, bytes);
    memcpy(to, from, bytes);
    return 0;
}

static inline int ftk_memory_copy_in(
    enum ftk_memory_kind kind, void *to, const void *from, size_t bytes)
{
    if (!ftk_memory_is_host(kind))
        return ftk_memory_ops_of(kind)->copy_in(to, from, bytes);
    memcpy(to, from, bytes);
    return 0;
}

/* Copy from memory of any kind into memory of any kind, which do not overlap. */
static inline int ftk_memory_copy(void *to, const void *from, size_t bytes)
{
    if (ftk_memory_has_others())
        return ftk_memory_copy_between(to, from, bytes);
    memcpy(to, from, bytes);
    return 0;
}

static inline int ftk_memory_sum(
    enum ftk_memory_kind kind, const void *from, size_t bytes, uint64_t seed, uint64_t *sum)
{
    if (!ftk_memory_is_host(kind))
        return ftk_memory_ops_of(kind)->sum(from, bytes, seed, sum);
    *sum = ftk_xxh3_seed(from, bytes, seed);
    return 0;
}

/* Whether ftk_memory_alloc() can allocate memory of the kind. */
static inline bool ftk_memory_has_alloc(enum ftk_memory_kind kind)
{
    return ftk_memory_is_host(kind) || ftk_memory_ops_of(kind)->alloc;
}

static inline void *ftk_memory_alloc(enum ftk_memory_kind kind, void *old, size_t bytes)
{
    return ftk_memory_is_host(kind) ? realloc(old, bytes)
                                    : ftk_memory_ops_of(kind)->alloc(old, bytes);
}

#endif
