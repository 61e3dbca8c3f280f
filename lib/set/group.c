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

int ftk_group_post(struct ftk_group_exchange *x, const struct ftk_group *g, struct ftk_chan *ch,
    int tag, void *const *part, const size_t *bytes, const char *what)
{
    int mrc = MPI_SUCCESS;
    *x = (struct ftk_group_exchange){ .what = what };
    for (uint32_t i = 0; mrc == MPI_SUCCESS && i < g->n; i++) {
        if (i == g->index)
            continue;
        int peer = (int)g->rank[i];
        mrc = MPI_Irecv(part[i], (int)bytes[i], MPI_BYTE, peer, tag, ch->comm, &x->req[x->n]);
        x->n += mrc == MPI_SUCCESS;
        if (mrc == MPI_SUCCESS)
            mrc = MPI_Isend(
                part[g->index], (int)bytes[g->index], MPI_BYTE, peer, tag, ch->comm, &x->req[x->n]);
        x->n += mrc == MPI_SUCCESS;
    }
    return mrc == MPI_SUCCESS ? FTKIT_OK : ftk_chan_break(ch, mrc, what);
}

int ftk_group_test(struct ftk_group_exchange *x, struct ftk_chan *ch, bool *all)
{
    int rc = ftk_chan_test(ch, x->req, x->n, x->what, all);
    if (rc == FTKIT_OK && *all)
        x->n = 0;
    return rc;
}

/* Return the set with which changes are compared; 0: there are no changes. */
static uint64_t base_of(const struct ftk_parity_update *u)
{
    return u->changes ? ((const struct ftk_seg_header *)(const void *)u->changes->base)->set : 0;
}

void ftk_parity_start(
    struct ftk_parity_write *w, const struct ftk_group *g, size_t head_bytes, size_t data_bytes)
{
    uint64_t *mine = w->sizes[g->index];
    w->group = *g;
    w->phase = FTK_PARITY_START;
    w->own = w->seg = NULL;
    w->error = FTKIT_OK;
    w->under_way.n = 0;
    mine[FTK_CODED_DATA] = data_bytes;
    mine[FTK_CODED_HEAD] = head_bytes;
    mine[FTK_CODED] = base_of(&w->update);
}

static int post_sizes(struct ftk_parity_write *w, struct ftk_chan *ch)
{
    void *part[FTK_GROUP_MAX] = { NULL };
    size_t bytes[FTK_GROUP_MAX] = { 0 };
    for (uint32_t i = 0; i < w->group.n; i++) {
        part[i] = w->sizes[i];
        bytes[i] = sizeof w->sizes[i];
    }
    return ftk_group_post(
        &w->under_way, &w->group, ch, FTK_TAG_SIZES, part, bytes, "sizes of a group");
}

static void use_sizes(struct ftk_parity_write *w)
{
    struct ftk_group *g = &w->group;
    uint64_t base = w->sizes[g->index][FTK_CODED];
    w->update.agreed = base != 0;
    for (uint32_t i = 0; i < g->n; i++) {
        for (int o = 0; o < FTK_CODED; o++)
            g->len[o][i] = w->sizes[i][o];
        w->update.agreed = w->update.agreed && w->sizes[i][FTK_CODED] == base;
    }
}

int ftk_parity_sizes_step(struct ftk_parity_write *w, struct ftk_chan *ch, bool *idle, bool *done)
{
    bool all = true;
    int rc = FTKIT_OK;
    if (w->phase == FTK_PARITY_START) {
        w->phase = FTK_PARITY_SIZES;
        rc = post_sizes(w, ch);
    }
    if (rc == FTKIT_OK && w->phase == FTK_PARITY_SIZES) {
        rc = ftk_group_test(&w->under_way, ch, &all);
        if (rc == FTKIT_OK && all) {
            w->phase = FTK_PARITY_FILL;
            use_sizes(w);
        }
    }
    *idle = !all;
    *done = rc == FTKIT_OK && all;
    return rc;
}

/* Begin to encode one object of all members into the parities of all members. */
static int begin_coding(struct ftk_parity_write *w, int object)
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
    me->data = w->own->buf;
    if (object == FTK_CODED_DATA)
        me->data += g->len[FTK_CODED_HEAD][g->index];
    me->parity = ftk_parity_object(w->seg->buf, object);
    return ftk_coding_begin(c, (int)g->rank[g->index]);
}

int ftk_parity_take(struct ftk_parity_write *w, struct ftk_mem *mem,
    const struct ftk_seg_header *like, struct ftk_mem_seg *own)
{
    const struct ftk_group *g = &w->group;
    if (g->n < 2 || w->seg)
        return FTKIT_OK;
    int rc = ftk_mem_take(mem, like->set, (int)g->rank[g->index], (int)like->nranks,
        ftk_parity_seg_bytes(g), &w->seg);
    if (rc != FTKIT_OK)
        return rc;
    w->own = own;
    w->seg->parity = true;
    ftk_parity_begin(w->seg->buf, g, like);
    rc = ftk_parity_update_take(w, mem);
    return rc == FTKIT_OK ? begin_coding(w, FTK_CODED_DATA) : rc;
}

int ftk_parity_progress(struct ftk_parity_write *w, struct ftk_chan *ch, size_t ready)
{
    bool idle, done;
    if (!w->seg || w->update.agreed)
        return FTKIT_OK; /* an update needs the changes of all data */
    w->coding.ready = ready;
    return ftk_coding_progress(&w->coding, ch, &idle, &done);
}

/* The parity of the data is made: begin with that of the head. */
static int begin_head(struct ftk_parity_write *w, struct ftk_chan *ch)
{
    ftk_coding_end(&w->coding, ch);
    int rc = begin_coding(w, FTK_CODED_HEAD);
    w->coding.ready = SIZE_MAX;
    if (rc == FTKIT_OK) /* else the others have begun: break the channel, as after a failure */
        return FTKIT_OK;
    return ftk_chan_break(ch, MPI_ERR_NO_MEM, ftk_detail_text());
}

/* Go on to the next phase if that for which this phase waits has come. */
static int advance(struct ftk_parity_write *w, struct ftk_chan *ch, bool *idle)
{
    bool over = true;
    int rc = FTKIT_OK;
    switch (w->phase) {
    case FTK_PARITY_FILL:
        w->coding.ready = SIZE_MAX;
        rc = ftk_parity_update_post(w, ch);
        break;
    case FTK_PARITY_CHANGES:
        rc = ftk_group_test(&w->under_way, ch, &over);
        *idle = !over;
        if (rc == FTKIT_OK && over)
            ftk_parity_update_use(w);
        break;
    case FTK_PARITY_DATA:
        rc = ftk_coding_progress(&w->coding, ch, idle, &over);
        if (rc == FTKIT_OK && over)
            rc = begin_head(w, ch);
        break;
    case FTK_PARITY_HEAD:
        rc = ftk_coding_progress(&w->coding, ch, idle, &over);
        if (rc == FTKIT_OK && over) {
            ftk_parity_seal(w->seg->buf);
            w->error = ftk_mem_seal(w->seg);
        }
        break;
    default:
        break;
    }
    if (rc == FTKIT_OK && over)
        w->phase++;
    return rc;
}

int ftk_parity_step(struct ftk_parity_write *w, struct ftk_chan *ch, bool *idle, bool *done)
{
    bool moved = w->seg && w->phase < FTK_PARITY_DONE;
    int rc = FTKIT_OK;
    *idle = false;
    while (rc == FTKIT_OK && moved) {
        int phase = w->phase;
        rc = advance(w, ch, idle);
        moved = w->phase != phase && w->phase < FTK_PARITY_DONE;
    }
    *done = !w->seg || w->phase == FTK_PARITY_DONE;
    return rc;
}

void ftk_parity_end(struct ftk_parity_write *w, struct ftk_chan *ch)
{
    /* after a failure the communicator is revoked and every request ends */
    if (w->under_way.n > 0)
        (void)ftk_chan_wait(ch, w->under_way.req, w->under_way.n, w->under_way.what);
    w->under_way.n = 0;
    if (!w->seg)
        return;
    ftk_coding_end(&w->coding, ch);
    ftk_parity_update_end(w);
    if (!w->seg->sealed)
        ftk_mem_release(w->seg);
    w->seg = NULL;
}

/* ---- after a repair ------------------------------------------------------------------ */

/* Call a step until it is done. */
static int run(struct ftk_parity_write *w, struct ftk_chan *ch,
    int (*step)(struct ftk_parity_write *, struct ftk_chan *, bool *, bool *))
{
    unsigned turns = 0;
    bool idle = false, done = false;
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && !done) {
        rc = step(w, ch, &idle, &done);
        if (idle)
            ftk_chan_progress(ch, &turns);
    }
    return rc;
}

int ftk_parity_make(
    struct ftk_mem *mem, const struct ftk_group *g, struct ftk_chan *ch, uint64_t set)
{
    struct ftk_parity_write w = { .seg = NULL };
    if (g->n < 2)
        return FTKIT_OK;
    int rank = (int)g->rank[g->index];
    struct ftk_mem_seg *own = ftk_mem_find(mem, set, rank);
    struct ftk_mem_seg *old = ftk_mem_find_parity(mem, set, rank);
    if (!own)
        return ftk_fail(FTKIT_ERR_INTERNAL, "set %llu is not in memory", (unsigned long long)set);
    if (old)
        ftk_mem_release(old);
    struct ftk_seg_header h = *(const struct ftk_seg_header *)(const void *)own->buf;
    h.nranks = (uint32_t)own->nranks; /* with replicas a segment has the ranks of one plane */
    ftk_parity_start(&w, g, (size_t)h.head_bytes, (size_t)h.data_bytes);
    int rc = run(&w, ch, ftk_parity_sizes_step);
    if (rc == FTKIT_OK)
        rc = ftk_parity_take(&w, mem, &h, own);
    if (rc == FTKIT_OK)
        rc = run(&w, ch, ftk_parity_step);
    if (rc == FTKIT_OK)
        rc = w.error;
    if (rc != FTKIT_OK && !ch->broken)
        (void)ftk_chan_break(ch, MPI_ERR_OTHER, ftk_detail_text());
    ftk_parity_end(&w, ch);
    return rc;
}
