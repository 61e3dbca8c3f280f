/* Which blocks of a segment that is being written differ from those of the set before.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The base is the segment of the set before.  A block has not changed when the block of the
 * same number in the base has the same length, the same checksum and, if exact is set, the
 * same bytes: equal checksums alone are no proof.  Regions and their records are not compared.
 * So a region that grows changes only the blocks from there on. */
#ifndef FTK_STORE_CHANGES_H
#define FTK_STORE_CHANGES_H

#include "segment.h"

/* A chunk has one mask: bit i stands for block i of the chunk. */
enum { FTK_CHUNK_BLOCKS = 16 };
#define FTK_CHUNK_BYTES ((size_t)FTK_CHUNK_BLOCKS * FTK_SEG_BLOCK)

struct ftk_changes {
    const char *base; /* the sealed segment, NULL: there is none */
    bool exact;       /* compare bytes, too; else the masks are an estimate */
    bool vouch;       /* also verify changed blocks of the base: their checksums ... */
    bool sound;       /* ... were all right so far */
    bool most;        /* more than half of the blocks have changed: vouch verifies no more */
    uint16_t *masks;  /* [ftk_chunks(data_bytes)] */
    uint64_t next;    /* the block to compare next */
    uint64_t changed; /* number of changed blocks before next */
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

/* Begin to compare a segment of data_bytes of data with the segment base.  Checks the head of
 * base.  On an error (FTKIT_ERR_NOMEM, FTKIT_ERR_CORRUPT, FTKIT_ERR_FORMAT) there is nothing to
 * end. */
int ftk_changes_begin(
    struct ftk_changes *c, const char *base, size_t base_bytes, size_t data_bytes);

/* The first upto bytes of the data of seg and their checksums are written: compare the blocks
 * that have not been compared yet, while the cache has them. */
void ftk_changes_note(struct ftk_changes *c, const char *seg, size_t upto);

/* The data end here.  With vouch, verify also the blocks of the base behind this end. */
void ftk_changes_close(struct ftk_changes *c, size_t data_bytes);

void ftk_changes_end(struct ftk_changes *c);

#endif
