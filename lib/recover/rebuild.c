/* Rebuilding segments and parities of a line from the remaining members of their groups.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "rebuild.h"
#include "set/coding.h"
#include "set/group.h"

/* The rebuilding of one group in one process. */
struct rebuilding {
    struct ftkit_ctx *ctx;
    struct ftk_mem *mem;
    struct ftk_chan *ch;
    const struct ftk_plan *p;
    struct ftk_plan_group g; /* as in the plan, with ranks of the channel in place of processes */
    int me;
    struct { /* facts for the members without parity */
        struct ftk_seg_header like;
        struct ftk_group group;
    } facts;
    struct ftk_mem_seg *data[FTK_GROUP_MAX], *parity[FTK_GROUP_MAX]; /* in this process */
};

static bool takes_part(const struct ftk_plan_group *g, int who)
{
    for (int i = 0; i < g->n; i++)
        if (g->data_at[i] == who || g->parity_at[i] == who || g->data_to[i] == who
            || g->parity_to[i] == who)
            return true;
    return false;
}

static bool has_parity(const struct ftk_plan_group *g, int who)
{
    for (int i = 0; i < g->n; i++)
        if (g->parity_at[i] == who)
            return true;
    return false;
}

/* Replace processes of the plan by ranks of the channel. */
static void use_ranks(const struct ftk_plan *p, struct ftk_plan_group *g)
{
    for (int i = 0; i < g->n; i++) {
        int *all[] = { &g->data_at[i], &g->parity_at[i], &g->data_to[i], &g->parity_to[i] };
        for (int k = 0; k < 4; k++)
            if (*all[k] >= 0)
                *all[k] = p->rank_of[*all[k]];
    }
}

static int use_source(struct rebuilding *r, struct ftk_mem_seg *s, struct ftk_mem_seg **out)
{
    if (!s)
        return ftk_fail(FTKIT_ERR_INTERNAL, "set %llu: a segment to rebuild from is gone",
            (unsigned long long)r->p->line);
    if (!s->verified && FTK_FAULT("rebuild.corrupt"))
        s->buf[s->bytes - 1] ^= 1;
    int rc = ftk_mem_verify(s, s->parity ? "parity" : "copy");
    if (rc == FTKIT_OK) {
        *out = s;
        return rc;
    }
    ftk_report(FTKIT_WARNING, "context %s: %s of rank %d: %s; it counts as lost", r->ctx->cfg.name,
        s->parity ? "parity" : "segment", s->rank, ftk_detail_text());
    ftk_mem_release(s);
    return rc;
}

/* Find and verify the segments and parities of the group that this process has.  A damaged one is
 * released: FTKIT_ERR_CORRUPT. */
static int find_sources(struct rebuilding *r)
{
    int rc = FTKIT_OK;
    struct ftk_mem *mem = r->mem;
    for (int i = 0; rc == FTKIT_OK && i < r->g.n; i++) {
        int rank = r->g.rank[i];
        if (r->g.data_at[i] == r->me)
            rc = use_source(r, ftk_mem_find(mem, r->p->line, rank), &r->data[i]);
        if (rc == FTKIT_OK && r->g.parity_at[i] == r->me)
            rc = use_source(r, ftk_mem_find_parity(mem, r->p->line, rank), &r->parity[i]);
    }
    return rc;
}

/* The rank that sends the facts of the group: the first that has a parity. */
static int reporter_of(const struct ftk_plan_group *g)
{
    int i = 0;
    while (g->parity_at[i] < 0)
        i++;
    return g->parity_at[i];
}

static void take_facts(struct rebuilding *r)
{
    for (int i = 0; i < r->g.n; i++) {
        if (!r->parity[i])
            continue;
        memcpy(&r->facts.like, r->parity[i]->buf, sizeof r->facts.like);
        r->facts.group = *ftk_parity_group(r->parity[i]->buf);
        return;
    }
}

/* Send the facts of the group (lengths, and a header as a pattern) to the members that have none of
 * its parities. */
static int share_facts(struct rebuilding *r)
{
    const int bytes = (int)sizeof r->facts;
    const struct ftk_plan_group *g = &r->g;
    MPI_Request req[4 * FTK_GROUP_MAX];
    int reported[4 * FTK_GROUP_MAX];
    int n = 0, mrc = MPI_SUCCESS;
    bool reporter = reporter_of(g) == r->me;
    take_facts(r);
    for (int i = 0; mrc == MPI_SUCCESS && reporter && i < 3 * g->n; i++) {
        int who = i < g->n       ? g->data_at[i]
                  : i < 2 * g->n ? g->data_to[i - g->n]
                                 : g->parity_to[i - 2 * g->n];
        bool known = who < 0 || has_parity(g, who);
        for (int k = 0; k < n; k++)
            known = known || reported[k] == who;
        if (known)
            continue;
        reported[n] = who;
        mrc = MPI_Isend(&r->facts, bytes, MPI_BYTE, who, FTK_TAG_GROUP, r->ch->comm, &req[n]);
        n += mrc == MPI_SUCCESS;
    }
    if (!has_parity(g, r->me)) {
        mrc = MPI_Irecv(
            &r->facts, bytes, MPI_BYTE, reporter_of(g), FTK_TAG_GROUP, r->ch->comm, &req[0]);
        n = mrc == MPI_SUCCESS;
    }
    if (mrc != MPI_SUCCESS)
        (void)ftk_chan_break(r->ch, mrc, "group of a parity");
    int rc = ftk_chan_wait(r->ch, req, n, "group of a parity");
    return mrc == MPI_SUCCESS ? rc : FTKIT_ERR_PEER;
}

/* Take buffers for the segments and parities that are rebuilt in this process. */
static int take_buffers(struct rebuilding *r)
{
    struct ftk_mem *mem = r->mem;
    uint64_t line = r->p->line;
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < r->g.n; i++) {
        struct ftk_group g = r->facts.group;
        int rank = r->g.rank[i];
        size_t bytes = (size_t)(g.len[FTK_CODED_DATA][i] + g.len[FTK_CODED_HEAD][i]);
        g.index = (uint32_t)i;
        if (r->g.data_to[i] == r->me)
            rc = ftk_mem_take(mem, line, rank, r->p->line_nranks, bytes, &r->data[i]);
        if (rc != FTKIT_OK || r->g.parity_to[i] != r->me)
            continue;
        rc = ftk_mem_take(
            mem, line, rank, r->p->line_nranks, ftk_parity_seg_bytes(&g), &r->parity[i]);
        if (rc == FTKIT_OK) {
            r->parity[i]->parity = true;
            ftk_parity_begin(r->parity[i]->buf, &g, &r->facts.like);
        }
    }
    return rc;
}

static int code(struct rebuilding *r, int object)
{
    struct ftk_coding c = {
        .code = ftk_group_code(&r->facts.group, object), .tag = FTK_TAG_CODING, .ready = SIZE_MAX
    };
    for (int i = 0; i < r->g.n; i++) {
        c.member[i] = (struct ftk_coding_member){ .data_at = r->g.data_at[i],
            .parity_at = r->g.parity_at[i],
            .data_to = r->g.data_to[i],
            .parity_to = r->g.parity_to[i] };
        if (r->data[i])
            c.member[i].data =
                r->data[i]->buf
                + (object == FTK_CODED_HEAD ? 0 : r->facts.group.len[FTK_CODED_HEAD][i]);
        if (r->parity[i])
            c.member[i].parity = ftk_parity_object(r->parity[i]->buf, object);
    }
    int rc = ftk_coding_begin(&c, r->me);
    if (rc != FTKIT_OK)
        (void)ftk_chan_break(r->ch, MPI_ERR_NO_MEM, ftk_detail_text());
    else
        rc = ftk_coding_run(&c, r->ch);
    ftk_coding_end(&c, r->ch);
    return rc;
}

/* Seal what this process has rebuilt.  The data of a segment are verified when they are used. */
static int seal(struct rebuilding *r)
{
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < r->g.n; i++) {
        struct ftk_mem_seg *d = r->data[i], *p = r->parity[i];
        if (r->g.data_to[i] == r->me) {
            rc = ftk_seg_check_head(d->buf, d->bytes, "a rebuilt segment");
            if (rc != FTKIT_OK)
                return ftk_fail(FTKIT_ERR_INTERNAL, "%s", ftk_detail_text());
            if (FTK_FAULT("rebuild.wrong"))
                d->buf[d->bytes - 1] ^= 1;
            rc = ftk_mem_seal(d);
        }
        if (rc == FTKIT_OK && r->g.parity_to[i] == r->me) {
            ftk_parity_seal(p->buf);
            p->verified = true;
            rc = ftk_mem_seal(p);
        }
    }
    return rc;
}

static void release_unsealed(struct rebuilding *r)
{
    for (int i = 0; i < r->g.n; i++) {
        if (r->g.data_to[i] == r->me && r->data[i] && !r->data[i]->sealed)
            ftk_mem_release(r->data[i]);
        if (r->g.parity_to[i] == r->me && r->parity[i] && !r->parity[i]->sealed)
            ftk_mem_release(r->parity[i]);
    }
}

static int rebuild_group(struct rebuilding *r)
{
    int rc = find_sources(r);
    if (rc == FTKIT_OK)
        rc = share_facts(r);
    if (rc == FTKIT_OK)
        rc = take_buffers(r);
    (void)FTK_FAULT("rebuild.begin");
    if (rc == FTKIT_OK)
        rc = code(r, FTK_CODED_DATA);
    (void)FTK_FAULT("rebuild.data");
    if (rc == FTKIT_OK)
        rc = code(r, FTK_CODED_HEAD);
    if (rc == FTKIT_OK)
        rc = seal(r);
    (void)FTK_FAULT("rebuild.done");
    if (rc != FTKIT_OK)
        release_unsealed(r);
    return rc;
}

/* Make the parity of a group anew from the segments of its members, each of which is in the rank's
 * own process.  Each member verifies its segment first: parity of a damaged one would rebuild the
 * damage. */
static int make_anew(struct rebuilding *r)
{
    struct ftk_group g = { .n = (uint32_t)r->g.n, .m = (uint32_t)r->g.m, .index = UINT32_MAX };
    for (int i = 0; i < r->g.n; i++) {
        g.rank[i] = (uint32_t)r->g.rank[i];
        if (r->g.rank[i] == r->me)
            g.index = (uint32_t)i;
    }
    if (g.index == UINT32_MAX)
        return FTKIT_OK;
    int rc = use_source(r, ftk_mem_find(r->mem, r->p->line, r->me), &r->data[g.index]);
    (void)FTK_FAULT("rebuild.anew");
    return rc == FTKIT_OK ? ftk_parity_make(r->mem, &g, r->ch, r->p->line) : rc;
}

/* Break the channel, so that no process waits for this one; keep the reason. */
static int give_up(struct ftk_chan *ch, int rc)
{
    char why[FTK_DETAIL_MAX];
    snprintf(why, sizeof why, "%s", ftk_detail_text());
    (void)ftk_chan_break(ch, MPI_ERR_OTHER, "a rebuild that cannot go on");
    return ftk_fail(rc, "a rebuild that cannot go on: %s", why);
}

int ftk_rebuild(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, const struct ftk_plan *p)
{
    int me;
    int mrc = MPI_Comm_rank(ch->comm, &me);
    int rc = mrc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(mrc, "rank");
    for (int i = 0; rc == FTKIT_OK && i < p->ngroups; i++) {
        struct rebuilding r = {
            .ctx = ctx, .mem = mem, .ch = ch, .p = p, .g = p->groups[i], .me = me
        };
        use_ranks(p, &r.g);
        if (r.g.anew)
            rc = make_anew(&r);
        else if (takes_part(&r.g, me))
            rc = rebuild_group(&r);
    }
    return rc == FTKIT_OK || ch->broken ? rc : give_up(ch, rc);
}
