/* Making the parity of a set from the parity of the set before.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Parity is linear: the parity of the last set plus the parity of the differences is the parity of
 * the next set.  So an error in the last set, in a member's segment or in its parity, would go into
 * the next parity, under good checksums.  Therefore everything that is used is compared with its
 * checksum.  The parity is made from all data if a comparison fails at any member, if the two codes
 * have different blocks, or if a member has changed more than half of its blocks. */
#include <stdlib.h>
#include <string.h>

#include "group.h"

static size_t words_of(const struct ftk_group *g, uint32_t i)
{
    return 1 + ftk_chunks(g->len[FTK_CODED_DATA][i]);
}

int ftk_parity_update_take(struct ftk_parity_write *w, const struct ftk_mem *mem)
{
    struct ftk_parity_update *u = &w->update;
    const struct ftk_group *g = &w->group;
    size_t words = words_of(g, 0);
    if (!u->changes)
        return FTKIT_OK;
    u->changes->exact = u->changes->vouch = u->agreed;
    if (!u->agreed)
        return FTKIT_OK;
    for (uint32_t i = 1; i < g->n; i++)
        words += words_of(g, i);
    u->words = calloc(words, sizeof *u->words);
    if (!u->words)
        return ftk_fail(FTKIT_ERR_NOMEM, "changes of a parity group");
    u->of[0] = u->words;
    for (uint32_t i = 1; i < g->n; i++)
        u->of[i] = u->of[i - 1] + words_of(g, i - 1);
    const struct ftk_seg_header *h = (const void *)u->changes->base;
    u->was = ftk_mem_find_parity(mem, h->set, (int)g->rank[g->index]);
    return FTKIT_OK;
}

void ftk_parity_update_end(struct ftk_parity_write *w)
{
    free(w->update.words);
    w->update.words = NULL;
}

/* ---- this member's part of the set before ---------------------------------------------- */

/* Compare the groups of the two parities.  FTKIT_ERR_SIZE: other members or other blocks. */
static int compare_groups(const struct ftk_parity_write *w, const struct ftk_group *old)
{
    const struct ftk_seg_header *own = (const void *)w->update.changes->base;
    const struct ftk_group *g = &w->group;
    bool same =
        old->n == g->n && old->m == g->m && old->index == g->index
        && memcmp(old->rank, g->rank, sizeof g->rank) == 0
        && old->len[FTK_CODED_DATA][g->index] == own->data_bytes
        && ftk_group_code(old, FTK_CODED_DATA).block == ftk_group_code(g, FTK_CODED_DATA).block;
    return same ? FTKIT_OK
                : ftk_fail(FTKIT_ERR_SIZE, "last parity: it has other members or blocks");
}

/* Copy the first bytes of the last parity, each block after its checksum has been compared. */
static int copy_blocks(const char *seg, const char *from, char *to, size_t bytes)
{
    size_t sure = 0, before = (size_t)(from - ftk_seg_data_c(seg));
    for (size_t at = 0; at < bytes;) {
        int rc = ftk_seg_check_upto(seg, &sure, before + at + 1, "last parity");
        if (rc != FTKIT_OK)
            return rc;
        size_t upto = sure - before < bytes ? sure - before : bytes;
        memcpy(to + at, from + at, upto - at);
        at = upto;
    }
    return FTKIT_OK;
}

/* Copy the last parity into the new one.  FTKIT_ERR_SIZE, FTKIT_ERR_CORRUPT: it cannot be used. */
static int use_last(struct ftk_parity_write *w)
{
    const struct ftk_mem_seg *was = w->update.was;
    if (!was)
        return ftk_fail(FTKIT_ERR_CORRUPT, "last parity: it is gone");
    if (FTK_FAULT("parity.base"))
        was->buf[ftk_parity_object(was->buf, FTK_CODED_DATA) - was->buf] ^= 1;
    int rc = ftk_seg_check_head(was->buf, was->bytes, "last parity");
    const struct ftk_group *old = rc == FTKIT_OK ? ftk_parity_group(was->buf) : NULL;
    if (!old)
        return FTKIT_ERR_CORRUPT;
    rc = compare_groups(w, old);
    if (rc != FTKIT_OK)
        return rc;
    struct ftk_code code = ftk_group_code(old, FTK_CODED_DATA);
    size_t had = (size_t)ftk_code_parity_bytes(&code);
    size_t has = (size_t)ftk_code_parity_bytes(&w->coding.code);
    size_t bytes = had < has ? had : has;
    char *to = ftk_parity_object(w->seg->buf, FTK_CODED_DATA);
    memset(to + bytes, 0, has - bytes);
    memcpy(w->update.delta.was, old->len[FTK_CODED_DATA], sizeof w->update.delta.was);
    return copy_blocks(was->buf, ftk_parity_object(was->buf, FTK_CODED_DATA), to, bytes);
}

/* Whether this member's part of the set before can be used, and few enough blocks have changed. */
static bool is_usable(struct ftk_parity_write *w)
{
    ftk_changes_close(w->update.changes, (size_t)w->group.len[FTK_CODED_DATA][w->group.index]);
    if (w->update.changes->most)
        return false;
    int rc = w->update.changes->sound ? use_last(w) : FTKIT_ERR_CORRUPT;
    if (rc == FTKIT_ERR_CORRUPT)
        ftk_report(FTKIT_WARNING, "set %llu: parity is made as a whole: %s",
            (unsigned long long)w->seg->set, ftk_detail_text());
    return rc == FTKIT_OK;
}

/* ---- with the others ----------------------------------------------------------------- */

int ftk_parity_update_post(struct ftk_parity_write *w, struct ftk_chan *ch)
{
    struct ftk_parity_update *u = &w->update;
    const struct ftk_group *g = &w->group;
    void *part[FTK_GROUP_MAX] = { NULL };
    size_t bytes[FTK_GROUP_MAX] = { 0 };
    if (!u->agreed)
        return FTKIT_OK;
    uint16_t *mine = u->of[g->index];
    mine[0] = is_usable(w);
    memcpy(mine + 1, u->changes->masks, (words_of(g, g->index) - 1) * sizeof *mine);
    for (uint32_t i = 0; i < g->n; i++) {
        part[i] = u->of[i];
        bytes[i] = words_of(g, i) * sizeof *u->words;
    }
    ch->sent += (g->n - 1) * (uint64_t)bytes[g->index];
    return ftk_group_post(&w->under_way, g, ch, FTK_TAG_CHANGES, part, bytes, "changes of a group");
}

void ftk_parity_update_use(struct ftk_parity_write *w)
{
    struct ftk_parity_update *u = &w->update;
    const struct ftk_group *g = &w->group;
    bool usable = true;
    if (!u->agreed)
        return;
    (void)FTK_FAULT("ckpt.changes");
    for (uint32_t i = 0; i < g->n; i++) {
        usable = usable && u->of[i][0] == 1;
        u->delta.now[i] = g->len[FTK_CODED_DATA][i];
        u->delta.masks[i] = u->of[i] + 1;
    }
    u->delta.base = ftk_seg_data_c(u->changes->base);
    if (usable)
        ftk_coding_update(&w->coding, &u->delta);
}
