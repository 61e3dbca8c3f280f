/* Line apart: late messages, which cross the line and belong to the set of their receiver.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A receiver cannot see from a message whether the sender had cut.  It learns this from the number
 * of messages that the sender had sent on the channel at its cut.  Until then the receiver keeps a
 * copy of each message that it receives after its own cut. [Schulz et al., SC 2004, 3.1, has a bit
 * in each message instead]
 *
 * The copies stand one behind the other in blocks: a copy costs no allocation of its own. */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "log/base/part.h"

#define BLOCK ((size_t)64 << 10) /* bytes of a block, if no message is longer */
#define KEPT 16                  /* blocks that stay for the next set, at most */
#define ALIGN alignof(max_align_t)

struct block {
    struct block *next;
    size_t used, room; /* bytes of at[] */
    alignas(max_align_t) char at[];
};

static struct block *blocks; /* the newest first */
static struct block *kept;   /* unused, of BLOCK bytes */
static size_t nkept;
static size_t ncopies;
static uint64_t nlate; /* late messages in sets so far, for ftkit_query() */

static size_t bytes_of(size_t bytes)
{
    return (sizeof(struct ftk_unexp) + bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static struct block *new_block(size_t bytes)
{
    struct block *b = bytes <= BLOCK ? kept : NULL;
    if (b) {
        kept = b->next;
        nkept--;
    } else {
        const size_t room = bytes > BLOCK ? bytes : BLOCK;
        b = malloc(sizeof *b + room);
        if (!b)
            return NULL;
        b->room = room;
    }
    b->used = 0;
    b->next = blocks;
    return blocks = b;
}

static void free_block(struct block *b)
{
    if (b->room == BLOCK && nkept < KEPT) {
        b->next = kept;
        kept = b;
        nkept++;
    } else {
        free(b);
    }
}

bool ftk_late_wants(const struct ftk_channel *s, uint64_t seq)
{
    return ftk_log.apart.open && (!ftk_log.apart.all_cut || ftk_channel_place(s, seq) < s->at_cut);
}

int ftk_late_received(const struct ftk_channel *s, uint64_t seq, const void *data, size_t bytes)
{
    const size_t needs = bytes_of(bytes);
    struct block *b = blocks;
    if (!b || b->room - b->used < needs)
        b = new_block(needs);
    if (!b)
        return MPI_ERR_NO_MEM;
    struct ftk_unexp *h = (struct ftk_unexp *)(void *)(b->at + b->used);
    *h = (struct ftk_unexp){ .context = s->context,
        .source = s->source,
        .tag = s->tag,
        .bytes = bytes,
        .data = (char *)(h + 1),
        .seq = seq };
    if (bytes > 0)
        memcpy(h->data, data, bytes);
    b->used += needs;
    ncopies++;
    return MPI_SUCCESS;
}

static bool is_late(const struct ftk_unexp *h)
{
    const struct ftk_channel *s = ftk_channel_find(h->context, h->source, h->tag);
    return s && ftk_channel_place(s, h->seq) < s->at_cut;
}

static int by_seq(const void *a, const void *b)
{
    const struct ftk_unexp *const *x = a, *const *y = b;
    return ((*x)->seq > (*y)->seq) - ((*x)->seq < (*y)->seq);
}

/* Add the late messages of a block to a list; returns their number. */
static size_t list_late(struct block *b, struct ftk_unexp **list)
{
    size_t n = 0;
    for (size_t at = 0; at < b->used;) {
        struct ftk_unexp *h = (struct ftk_unexp *)(void *)(b->at + at);
        at += bytes_of(h->bytes);
        if (is_late(h))
            list[n++] = h;
    }
    return n;
}

int ftk_late_finish(const struct ftk_unexp **late)
{
    struct ftk_unexp **sorted = malloc((ncopies + 1) * sizeof(struct ftk_unexp *));
    *late = NULL;
    if (!sorted)
        return ftk_fail(FTKIT_ERR_NOMEM, "late messages of a set");
    ncopies = 0;
    for (struct block **at = &blocks; *at;) {
        struct block *b = *at;
        const size_t n = list_late(b, sorted + ncopies);
        ncopies += n;
        if (n > 0) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        free_block(b);
    }
    qsort(sorted, ncopies, sizeof *sorted, by_seq);
    for (size_t i = 0; i < ncopies; i++)
        sorted[i]->next = i + 1 < ncopies ? sorted[i + 1] : NULL;
    *late = ncopies > 0 ? sorted[0] : NULL;
    free(sorted);
    return FTKIT_OK;
}

size_t ftk_late_count(void)
{
    return ncopies;
}

/* ---- the part: late messages are unexpected ones in a set ------------------------------ */

static const struct ftk_unexp *settled; /* the late messages of the set; NULL: none, or not known */

static int finish(void)
{
    int rc = ftk_late_finish(&settled);
    if (rc == FTKIT_OK)
        nlate += ncopies;
    return rc;
}

static size_t words(void)
{
    return ftk_messages_words(settled);
}

static uint64_t *save(uint64_t *w)
{
    return ftk_messages_write(w, settled);
}

static int load(const struct ftk_section *in)
{
    return ftk_messages_read(in->w, in->end, ftk_unexp_add);
}

static void clear(void)
{
    while (blocks) {
        struct block *b = blocks;
        blocks = b->next;
        free_block(b);
    }
    ncopies = 0;
    settled = NULL;
}

/* Free the blocks, too, that clear() keeps for the next set. */
static void close_late(void)
{
    clear();
    while (kept) {
        struct block *b = kept;
        kept = b->next;
        free(b);
    }
    nkept = 0;
    nlate = 0;
}

static void figures(ftkit_info *info)
{
    info->line_late = nlate;
}

const struct ftk_part ftk_part_late = { .close = close_late,
    .figures = figures,
    .cut_over = clear,
    .name = "late",
    .words = words,
    .save = save,
    .late = true,
    .finish = finish,
    .load = load };
