/* Which blocks of a segment differ from those of the set before (see changes.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "changes.h"
#include "core/hash.h"

int ftk_changes_begin(struct ftk_changes *c, const char *base, size_t base_bytes, size_t data_bytes)
{
    *c = (struct ftk_changes){ .sound = true };
    int rc = ftk_seg_check_head(base, base_bytes, "the set before");
    if (rc != FTKIT_OK)
        return rc;
    const struct ftk_seg_header *h = (const void *)base;
    if (h->block_bytes != FTK_SEG_BLOCK)
        return ftk_fail(FTKIT_ERR_CORRUPT, "the set before has other blocks");
    c->masks = calloc(ftk_chunks(data_bytes) + 1, sizeof *c->masks);
    if (!c->masks)
        return ftk_fail(FTKIT_ERR_NOMEM, "list of changed blocks");
    c->base = base;
    return FTKIT_OK;
}

void ftk_changes_end(struct ftk_changes *c)
{
    free(c->masks);
    c->masks = NULL;
    c->base = NULL;
}

static bool has_changed(const struct ftk_changes *c, const char *seg, size_t block)
{
    const struct ftk_seg_header *h = (const void *)seg, *was = (const void *)c->base;
    size_t at = block * FTK_SEG_BLOCK, n = ftk_block_bytes(h->data_bytes, block);
    if (n != ftk_block_bytes(was->data_bytes, block)
        || ftk_seg_sums_c(seg)[block] != ftk_seg_sums_c(c->base)[block])
        return true;
    return c->exact && memcmp(ftk_seg_data_c(seg) + at, ftk_seg_data_c(c->base) + at, n) != 0;
}

static bool held(const struct ftk_changes *c, size_t block)
{
    const struct ftk_seg_header *was = (const void *)c->base;
    size_t n = ftk_block_bytes(was->data_bytes, block);
    if (n == 0
        || ftk_xxh3(ftk_seg_data_c(c->base) + block * FTK_SEG_BLOCK, n)
               == ftk_seg_sums_c(c->base)[block])
        return true;
    (void)ftk_fail(FTKIT_ERR_CORRUPT, "own segment: checksum of block %zu differs", block);
    return false;
}

void ftk_changes_note(struct ftk_changes *c, const char *seg, size_t upto)
{
    for (; c->base && c->next < ftk_blocks(upto); c->next++) {
        if (!has_changed(c, seg, (size_t)c->next))
            continue;
        ftk_mask_add(c->masks, (size_t)c->next);
        c->changed++;
        c->most = c->changed > ((const struct ftk_seg_header *)(const void *)seg)->nblocks / 2;
        if (c->vouch && c->sound && !c->most)
            c->sound = held(c, (size_t)c->next);
    }
}

void ftk_changes_close(struct ftk_changes *c, size_t data_bytes)
{
    size_t n = ftk_blocks(((const struct ftk_seg_header *)(const void *)c->base)->data_bytes);
    for (size_t block = ftk_blocks(data_bytes); block < n && c->vouch && c->sound && !c->most;
         block++)
        c->sound = held(c, block);
}
