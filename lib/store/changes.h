/* Which blocks of a segment in the making differ from those of the set before it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A block has not changed when it is as long as that of the base, has its checksum, and
 * (exact) its bytes: equal sums alone would be no proof.  What stands in front of a block
 * does not matter, nor does the layout: regions that grow change the blocks behind them,
 * and no others. */
#ifndef FTK_STORE_CHANGES_H
#define FTK_STORE_CHANGES_H

#include "segment.h"

/* Changes are told chunk by chunk: bit i of a mask stands for block i of its chunk. */
enum { FTK_CHUNK_BLOCKS = 16 };
#define FTK_CHUNK_BYTES ((size_t)FTK_CHUNK_BLOCKS * FTK_SEG_BLOCK)

struct ftk_changes {
    const char *base; /* the sealed segment, NULL: there is none */
    bool exact;       /* compare bytes, too; else the masks are an estimate */
    bool vouch;       /* look also whether what has changed held in the base ... */
    bool sound;       /* ... and it did, so far */
    bool most;        /* more than half has changed: then no more is compared for vouch */
    uint16_t *masks;  /* [ftk_chunks(data_bytes)] */
    uint64_t next;    /* block that is looked at next */
    uint64_t changed; /* of those before it */
};

static inline size_t ftk_blocks(uint64_t data_bytes)
{
    return (size_t)(data_bytes / FTK_SEG_BLOCK + (data_bytes % FTK_SEG_BLOCK != 0));
}
static inline size_t ftk_chunks(uint64_t data_bytes)
{
    return (size_t)(data_bytes / FTK_CHUNK_BYTES + (data_bytes % FTK_CHUNK_BYTES != 0));
}
/* Bytes of a block of the data area, 0 behind its end. */
static inline size_t ftk_block_bytes(uint64_t data_bytes, size_t block)
{
    uint64_t at = (uint64_t)block * FTK_SEG_BLOCK;
    uint64_t left = at < data_bytes ? data_bytes - at : 0;
    return (size_t)(left < FTK_SEG_BLOCK ? left : FTK_SEG_BLOCK);
}
static inline bool ftk_mask_has(const uint16_t *masks, size_t block)
{
    return (unsigned)masks[block / FTK_CHUNK_BLOCKS] >> block % FTK_CHUNK_BLOCKS & 1u;
}
static inline void ftk_mask_add(uint16_t *masks, size_t block)
{
    masks[block / FTK_CHUNK_BLOCKS] |= (uint16_t)(1u << block % FTK_CHUNK_BLOCKS);
}

/* Compare what will have data_bytes with the segment base, whose head is checked here.
 * FTKIT_ERR_NOMEM, FTKIT_ERR_CORRUPT: nothing can be told, and nothing needs to be ended. */
int ftk_changes_begin(
    struct ftk_changes *c, const char *base, size_t base_bytes, size_t data_bytes);

/* The first upto bytes of the data of seg are packed, with their checksums: look at those
 * that have not been looked at, while they are in the cache. */
void ftk_changes_note(struct ftk_changes *c, const char *seg, size_t upto);

/* Nothing follows: with vouch look also at what the base has behind the end. */
void ftk_changes_close(struct ftk_changes *c, size_t data_bytes);

void ftk_changes_end(struct ftk_changes *c);

#endif
