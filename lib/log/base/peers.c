/* The table of other ranks (see peers.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "log/base/peers.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "core/ftk.h"
#include "core/grow.h"
#include "log/base/part.h"

struct ftk_peers ftk_peers;

static size_t bytes_of(int n)
{
    return ((size_t)n + 1) * sizeof(struct ftk_peer);
}

static int open_peers(int n)
{
    if (ftk_peers.at)
        return FTKIT_OK;
    void *at = mmap(NULL, bytes_of(n), PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return ftk_fail(FTKIT_ERR_NOMEM, "tables of the message log");
    ftk_peers = (struct ftk_peers){ .at = at, .n = n, .sorted = true };
    return FTKIT_OK;
}

static void close_peers(void)
{
    if (ftk_peers.at)
        (void)munmap(ftk_peers.at, bytes_of(ftk_peers.n)); /* cannot fail for a whole mapping */
    free(ftk_peers.list);
    ftk_peers = (struct ftk_peers){ .at = NULL };
}

void ftk_peer_join(int rank)
{
    struct ftk_peers *t = &ftk_peers;
    t->at[rank].joined = true;
    t->all = t->all || !ftk_grow(&t->list, &t->room, (size_t)t->nlist + 1, sizeof *t->list);
    if (t->all)
        return;
    t->sorted = t->sorted && (t->nlist == 0 || t->list[t->nlist - 1] < rank);
    t->list[t->nlist++] = rank;
}

static int rising(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

int ftk_peers_count(void)
{
    struct ftk_peers *t = &ftk_peers;
    if (t->all)
        return t->n;
    if (!t->sorted && t->nlist > 0) /* a spare closes the log without a list */
        qsort(t->list, (size_t)t->nlist, sizeof *t->list, rising);
    t->sorted = true;
    return t->nlist;
}

/* Nothing has been sent in the epoch. */
static int new_epoch(const struct ftk_log_repair *r)
{
    (void)r;
    for (int i = 0, n = ftk_peers_count(); i < n; i++) {
        struct ftk_count *count = ftk_peer(ftk_peers_rank(i))->count;
        for (int k = 0; k < FTK_COUNTS; k++)
            count[k].sent = count[k].received = 0;
    }
    return FTKIT_OK;
}

const struct ftk_part ftk_part_peers = {
    .open = open_peers, .close = close_peers, .new_epoch = new_epoch
};
