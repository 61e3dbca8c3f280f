/* Line apart: late messages, which cross the line and belong to the set of their receiver.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A receiver cannot tell from a message whether the sender had cut.  It learns this from the number
 * of messages that the sender had sent on the channel at its cut.  Until then the receiver keeps a
 * copy of each message that it receives after its own cut. [Schulz et al., SC 2004, 3.1, has a bit
 * in each message instead] */
#include <stdlib.h>
#include <string.h>

#include "log/log.h"

static struct ftk_unexp *copies; /* in no order */
static size_t ncopies;

bool ftk_late_wants(const struct ftk_channel *s, uint64_t seq)
{
    return ftk_log.apart.open && (!ftk_log.apart.told || ftk_channel_place(s, seq) < s->at_cut);
}

int ftk_late_received(const struct ftk_channel *s, uint64_t seq, const void *data, size_t bytes)
{
    struct ftk_unexp *h = ftk_unexp_new(s->context, s->source, s->tag, bytes);
    if (!h)
        return MPI_ERR_NO_MEM;
    if (bytes > 0)
        memcpy(h->data, data, bytes);
    h->seq = seq;
    h->next = copies;
    copies = h;
    ncopies++;
    return MPI_SUCCESS;
}

static void drop(struct ftk_unexp *h)
{
    ncopies--;
    ftk_unexp_free(h);
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

int ftk_late_settle(const struct ftk_unexp **late)
{
    struct ftk_unexp **sorted = malloc((ncopies + 1) * sizeof(struct ftk_unexp *));
    size_t n = 0;
    *late = NULL;
    if (!sorted)
        return ftk_fail(FTKIT_ERR_NOMEM, "late messages of a set");
    while (copies) {
        struct ftk_unexp *h = copies;
        copies = h->next;
        if (is_late(h))
            sorted[n++] = h;
        else
            drop(h);
    }
    qsort(sorted, n, sizeof *sorted, by_seq);
    while (n > 0) {
        sorted[--n]->next = copies;
        copies = sorted[n];
    }
    free(sorted);
    *late = copies;
    return FTKIT_OK;
}

size_t ftk_late_count(void)
{
    return ncopies;
}

void ftk_late_clear(void)
{
    while (copies) {
        struct ftk_unexp *h = copies;
        copies = h->next;
        drop(h);
    }
}
