/* Parity groups of a context (see group.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "group.h"

#include <stdlib.h>
#include <string.h>

#include "store/map.h"

int ftk_group_map(
    int rank, int nranks, const int *domain, int size, int m, struct ftk_group *g, int *alone)
{
    memset(g, 0, sizeof *g);
    *alone = 0;
    int *of = malloc((size_t)nranks * sizeof *of);
    int rc = of ? ftk_map_groups(size, nranks, domain, of) : ftk_fail(FTKIT_ERR_NOMEM, "groups");
    for (int r = 0; rc > 0 && r < nranks; r++) {
        if (of[r] != of[rank])
            continue;
        if (r == rank)
            g->index = g->n;
        g->rank[g->n++] = (uint32_t)r;
    }
    free(of);
    *alone = 2 * rc > nranks ? 2 * rc - nranks : 0; /* the groups have 2 and 1 members */
    g->m = (uint32_t)ftk_group_parities((int)g->n, m);
    return rc < 0 ? rc : FTKIT_OK;
}

/* ---- writing a set ------------------------------------------------------------------- */

int ftk_group_exchange(const struct ftk_group *g, struct ftk_chan *ch, int tag, void *const *part,
    const size_t *bytes, const char *what)
{
    MPI_Request req[2 * FTK_GROUP_MAX];
    int n = 0, mrc = MPI_SUCCESS;
    for (uint32_t i = 0; mrc == MPI_SUCCESS && i < g->n; i++) {
        if (i == g->index)
            continue;
        int peer = (int)g->rank[i];
        mrc = MPI_Irecv(part[i], (int)bytes[i], MPI_BYTE, peer, tag, ch->comm, &req[n]);
        n += mrc == MPI_SUCCESS;
        if (mrc == MPI_SUCCESS)
            mrc = MPI_Isend(
                part[g->index], (int)bytes[g->index], MPI_BYTE, peer, tag, ch->comm, &req[n]);
        n += mrc == MPI_SUCCESS;
    }
    int rc = mrc == MPI_SUCCESS ? FTKIT_OK : ftk_chan_break(ch, mrc, what);
    int waited = ftk_chan_wait(ch, req, n, what);
    return rc == FTKIT_OK ? waited : rc;
}

/* Return the set with which changes are compared; 0: there are no changes. */
static uint64_t base_of(const struct ftk_parity_update *u)
{
    return u->changes ? ((const struct ftk_seg_header *)(const void *)u->changes->base)->set : 0;
}

int ftk_parity_sizes(struct ftk_parity_write *w, struct ftk_chan *ch, const struct ftk_group *group,
    size_t head_bytes, size_t data_bytes)
{
    struct ftk_group *g = &w->group;
    uint64_t all[FTK_GROUP_MAX][FTK_CODED + 1];
    void *part[FTK_GROUP_MAX];
    size_t bytes[FTK_GROUP_MAX] = { 0 };
    *g = *group;
    w->seg = NULL;
    for (uint32_t i = 0; i < g->n; i++) {
        part[i] = all[i];
        bytes[i] = sizeof all[i];
    }
    uint64_t *mine = all[g->index];
    mine[FTK_CODED_DATA] = data_bytes;
    mine[FTK_CODED_HEAD] = head_bytes;
    mine[FTK_CODED] = base_of(&w->update);
    int rc = ftk_group_exchange(g, ch, FTK_TAG_SIZES, part, bytes, "sizes of a group");
    w->update.agreed = mine[FTK_CODED] != 0;
    for (uint32_t i = 0; i < g->n; i++) {
        for (int o = 0; o < FTK_CODED; o++)
            g->len[o][i] = all[i][o];
        w->update.agreed = w->update.agreed && all[i][FTK_CODED] == mine[FTK_CODED];
    }
    return rc;
}

/* Begin to encode one object of all members into the parities of all members. */
static int begin_coding(struct ftk_parity_write *w, int object, const struct ftk_mem_seg *own)
{
    struct ftk_coding *c = &w->coding;
    const struct ftk_group *g = &w->group;
    memset(c, 0, sizeof *c);
    c->code = ftk_group_code(g, object);
    c->tag = FTK_TAG_CODING;
    for (uint32_t i = 0; i < g->n; i++)
        c->member[i] = (struct ftk_coding_member){
            .data_at = (int)g->rank[i], .parity_at = -1, .data_to = -1, .parity_to = (int)g->rank[i]
        };
    struct ftk_coding_member *me = &c->member[g->index];
    me->data = object == FTK_CODED_HEAD ? own->buf : own->buf + g->len[FTK_CODED_HEAD][g->index];
    me->parity = ftk_parity_object(w->seg->buf, object);
    return ftk_coding_begin(c, (int)g->rank[g->index]);
}

int ftk_parity_take(struct ftk_parity_write *w, struct ftk_mem *mem,
    const struct ftk_seg_header *like, struct ftk_mem_seg *own)
{
    const struct ftk_group *g = &w->group;
    if (g->n < 2)
        return FTKIT_OK;
    int rc = ftk_mem_take(mem, like->set, (int)g->rank[g->index], (int)like->nranks,
        ftk_parity_seg_bytes(g), &w->seg);
    if (rc != FTKIT_OK)
        return rc;
    w->seg->parity = true;
    ftk_parity_begin(w->seg->buf, g, like);
    rc = ftk_parity_update_take(w, mem);
    return rc == FTKIT_OK ? begin_coding(w, FTK_CODED_DATA, own) : rc;
}

int ftk_parity_progress(struct ftk_parity_write *w, struct ftk_chan *ch, size_t ready)
{
    bool idle, done;
    if (!w->seg || w->update.agreed)
        return FTKIT_OK; /* an update needs the changes of all data */
    w->coding.ready = ready;
    return ftk_coding_progress(&w->coding, ch, &idle, &done);
}

int ftk_parity_finish(struct ftk_parity_write *w, struct ftk_chan *ch, struct ftk_mem_seg *own)
{
    if (!w->seg)
        return FTKIT_OK;
    w->coding.ready = SIZE_MAX;
    int rc = ftk_parity_update_run(w, ch);
    if (rc == FTKIT_OK)
        rc = ftk_coding_run(&w->coding, ch);
    if (rc != FTKIT_OK)
        return rc;
    ftk_coding_end(&w->coding, ch);
    rc = begin_coding(w, FTK_CODED_HEAD, own);
    if (rc != FTKIT_OK) /* the others have begun: break the channel, as after a failure */
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, ftk_detail_text());
    w->coding.ready = SIZE_MAX;
    rc = ftk_coding_run(&w->coding, ch);
    if (rc != FTKIT_OK)
        return rc;
    ftk_parity_seal(w->seg->buf);
    w->error = ftk_mem_seal(w->seg);
    return FTKIT_OK;
}

void ftk_parity_end(struct ftk_parity_write *w, struct ftk_chan *ch)
{
    if (!w->seg)
        return;
    ftk_coding_end(&w->coding, ch);
    ftk_parity_update_end(w);
    if (!w->seg->sealed)
        ftk_mem_release(w->seg);
    w->seg = NULL;
}

int ftk_parity_make(struct ftk_level *l, struct ftk_chan *ch, uint64_t set)
{
    const struct ftk_group *g = &l->layout.group;
    struct ftk_parity_write w = { .seg = NULL };
    if (g->n < 2)
        return FTKIT_OK;
    int rank = (int)g->rank[g->index];
    struct ftk_mem_seg *own = ftk_mem_find(&l->mem, set, rank);
    struct ftk_mem_seg *old = ftk_mem_find_parity(&l->mem, set, rank);
    if (!own)
        return ftk_fail(FTKIT_ERR_INTERNAL, "set %llu is not in memory", (unsigned long long)set);
    if (old)
        ftk_mem_release(old);
    const struct ftk_seg_header *h = (const void *)own->buf;
    int rc = ftk_parity_sizes(&w, ch, g, (size_t)h->head_bytes, (size_t)h->data_bytes);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_parity_take(&w, &l->mem, h, own);
    if (rc == FTKIT_OK)
        rc = ftk_parity_finish(&w, ch, own);
    if (rc == FTKIT_OK)
        rc = w.error;
    if (rc != FTKIT_OK && !ch->broken)
        (void)ftk_chan_break(ch, MPI_ERR_OTHER, ftk_detail_text());
    ftk_parity_end(&w, ch);
    return rc;
}
