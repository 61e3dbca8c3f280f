/* Writing a set by a scheme with parity: each member of a group gets the parity of its group.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "write.h"

static void begin(struct ftk_write *w)
{
    w->parity.update.changes = w->changes;
    ftk_parity_start(&w->parity, &w->level->layout.group, w->head_bytes, w->data_bytes);
}

static int sizes(struct ftk_write *w, bool *idle, bool *done)
{
    int rc = ftk_parity_sizes_step(&w->parity, w->ch, idle, done);
    if (rc == FTKIT_OK && *done && w->own)
        ftk_write_note(w, ftk_parity_take(&w->parity, &w->level->mem, &w->like, w->own));
    return rc;
}

static int progress(struct ftk_write *w, size_t ready)
{
    return ftk_parity_progress(&w->parity, w->ch, ready);
}

static int send(struct ftk_write *w, bool *idle, bool *done)
{
    int rc = ftk_parity_step(&w->parity, w->ch, idle, done);
    ftk_write_note(w, w->parity.error);
    return rc;
}

static void end(struct ftk_write *w, int rc)
{
    (void)rc;
    ftk_parity_end(&w->parity, w->ch);
}

static int reach(const struct ftk_level *l, int rank, int nranks, const int *domain)
{
    const struct ftk_group *g = &l->layout.group;
    (void)nranks;
    for (uint32_t i = 0; i < g->n; i++)
        if (domain[g->rank[i]] != domain[rank])
            return FTK_REACH_OTHER_NODES;
    return g->n > 1 ? FTK_REACH_NODE : FTK_REACH_NONE;
}

const struct ftk_write_ops ftk_write_parities = { begin, sizes, progress, send, end, reach };
