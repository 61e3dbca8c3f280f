/* What earlier processes of the job left in places that outlive them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A relaunched job finds the slots of its predecessor on the nodes that are still there.
 * Which set they make up is the question a repair has to answer, too: the ranks take the
 * slots that nobody has, take a census, and plan for the newest set that is whole, or can
 * be made whole from copies and parity. */
#include <stdlib.h>

#include "../checkpoint.h"
#include "recover.h"

/* A set as its segments name it. */
struct candidate {
    uint64_t set, run, stamp;
};

static bool is_of(const struct ftk_census_seg *s, const struct candidate *c)
{
    return s->set == c->set && s->run == c->run && s->stamp == c->stamp;
}

static int newest_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->set != y->set)
        return x->set < y->set ? 1 : -1;
    if (x->run != y->run)
        return x->run < y->run ? 1 : -1;
    return x->stamp == y->stamp ? 0 : x->stamp < y->stamp ? 1 : -1;
}

/* All sets of which there is anything, newest first. */
static int list_candidates(const struct ftk_census *c, struct candidate **out, int *n)
{
    size_t total = 0;
    for (int i = 0; i < c->n; i++)
        total += (size_t)c->entries[i].nsegs;
    struct candidate *all = malloc((total + 1) * sizeof *all);
    *out = all;
    *n = 0;
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "list of sets");
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->entries[i].nsegs; k++) {
            const struct ftk_census_seg *s = &c->entries[i].segs[k];
            all[(*n)++] = (struct candidate){ s->set, s->run, s->stamp };
        }
    qsort(all, (size_t)*n, sizeof *all, newest_first);
    int kept = 0;
    for (int i = 0; i < *n; i++)
        if (i == 0 || newest_first(&all[i - 1], &all[i]) != 0)
            all[kept++] = all[i];
    *n = kept;
    return FTKIT_OK;
}

/* The census as if this were the only set, and committed. */
static int plan_for(const struct ftkit_ctx *ctx, int scheme, const struct ftk_census *census,
    const struct candidate *which, struct ftk_plan *p)
{
    struct ftk_census c = *census;
    size_t n = (size_t)c.n, total = 0;
    for (size_t i = 0; i < n; i++)
        total += (size_t)c.entries[i].nsegs;
    struct ftk_census_entry *entries = malloc(n * sizeof *entries);
    struct ftk_census_seg *segs = malloc((total + 1) * sizeof *segs), *at = segs;
    int rc = entries && segs ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "plan");
    for (size_t i = 0; rc == FTKIT_OK && i < n; i++) {
        entries[i] = census->entries[i];
        entries[i].committed = which->set;
        entries[i].segs = at;
        for (int k = 0; k < census->entries[i].nsegs; k++)
            if (is_of(&census->entries[i].segs[k], which))
                *at++ = census->entries[i].segs[k];
        entries[i].nsegs = (int)(at - entries[i].segs);
    }
    c.entries = entries;
    struct ftk_plan_rules rules = { .nranks = ctx->nranks,
        .map = ctx->cfg.map,
        .scheme = scheme,
        .files = true };
    if (rc == FTKIT_OK)
        rc = ftk_plan_make(&c, &rules, p);
    free(entries);
    free(segs);
    return rc;
}

/* The newest set that can be had whole; which->set 0: none. */
static int choose(const struct ftkit_ctx *ctx, int scheme, const struct ftk_census *census,
    struct candidate *which, struct ftk_plan *p)
{
    struct candidate *all = NULL;
    int n = 0;
    which->set = 0;
    int rc = list_candidates(census, &all, &n);
    for (int i = 0; rc == FTKIT_OK && i < n && which->set == 0; i++) {
        rc = plan_for(ctx, scheme, census, &all[i], p);
        if (rc == FTKIT_OK && p->outcome == FTK_PLAN_GO && !p->from_file
            && p->line_nranks == ctx->nranks)
            *which = all[i];
        else if (rc == FTKIT_OK)
            ftk_plan_free(p);
    }
    if (rc == FTKIT_OK && n > 0 && which->set == 0 && ctx->rank == 0)
        ftk_report(FTKIT_WARNING,
            "context %s: what is left of set %llu in memory does not make it whole",
            ctx->cfg.name, (unsigned long long)all[0].set);
    free(all);
    return rc;
}

static void keep_only(struct ftk_mem *mem, const struct candidate *which)
{
    for (int i = 0; i < mem->nsegs; i++) {
        struct ftk_mem_seg *s = mem->segs[i];
        const struct ftk_seg_header *h = (const void *)s->buf;
        if (s->set != 0
            && (s->set != which->set || h->run != which->run || h->stamp != which->stamp))
            ftk_mem_release(s);
    }
    ftk_mem_trim(mem);
}

/* All have looked for their own before anyone takes what is left. */
static int adopt(struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch)
{
    struct ftk_vote v;
    ftk_vote_init(&v);
    int rc = ftk_place_adopt(&mem->place, mem, ctx->rank, false);
    (void)FTK_FAULT("found.own");
    int voted = ftk_vote(ch, ctx->nranks, &v);
    if (voted != FTKIT_OK)
        return voted;
    if (rc == FTKIT_OK)
        rc = ftk_place_adopt(&mem->place, mem, ctx->rank, true);
    (void)FTK_FAULT("found.all");
    return rc;
}

/* Files of another sequence of sets, or newer ones, come first: they are what the user
 * sees and removes to begin anew.  They are read before anything in memory is given up. */
static int compare_files(struct ftkit_ctx *ctx, const struct candidate *which, bool *older)
{
    uint64_t set = 0, run = 0;
    *older = false;
    int rc = ctx->cfg.h5_enabled
        ? ftk_durable_newest(ctx, which->set, which->run, &set, &run) : FTKIT_OK;
    if (rc != FTKIT_OK || set == 0)
        return rc;
    *older = set > which->set || run != which->run;
    if (!*older)
        ctx->durable = set;
    else if (ctx->rank == 0)
        ftk_report(FTKIT_WARNING,
            "context %s: set %llu in memory is passed over for set %llu on the file system%s",
            ctx->cfg.name, (unsigned long long)which->set, (unsigned long long)set,
            run != which->run ? ", which is of another run" : "");
    return rc;
}

static void tell(const struct ftkit_ctx *ctx, const struct ftk_plan *p)
{
    const char *source = "the memory of earlier processes";
    for (int i = 0; i < p->ngroups; i++)
        for (int k = 0; k < p->groups[i].n; k++)
            if (p->groups[i].rank[k] == ctx->rank && p->groups[i].data_to[k] >= 0)
                source = "the parity of its group";
    if (p->need_own[ctx->rank])
        source = "the copy at another rank";
    ftk_event("context %s: set %llu: rank %d from %s", ctx->cfg.name,
        (unsigned long long)p->line, ctx->rank, source);
    if (ctx->rank == 0)
        ftk_report(FTKIT_INFO, "context %s: restored set %llu from memory that outlived the job",
            ctx->cfg.name, (unsigned long long)p->line);
}

static int use(struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch,
    const struct candidate *which, const struct ftk_plan *p)
{
    keep_only(mem, which);
    (void)FTK_FAULT("found.use");
    int rc = ftk_transfer(ctx, mem, ch, p);
    if (rc == FTKIT_OK)
        rc = ftk_rebuild(ctx, mem, ch, p);
    if (rc == FTKIT_ERR_CORRUPT) /* it held a moment ago: the others have been told */
        rc = ftk_fail(FTKIT_ERR_PEER, "%s", ftk_detail_text());
    if (rc != FTKIT_OK)
        return rc;
    ctx->line = ctx->committed = which->set;
    ctx->line_nranks = ctx->nranks;
    ctx->run = which->run;
    if (ctx->next_set <= which->set)
        ctx->next_set = which->set + 1;
    tell(ctx, p);
    return FTKIT_OK;
}

int ftk_found_load(struct ftkit_ctx *ctx, struct ftk_mem *mem, int scheme, uint64_t *set)
{
    struct ftk_chan ch = ftk_chan_of(ctx);
    struct ftk_census census = { 0 };
    struct candidate which = { 0, 0, 0 };
    struct ftk_plan p = { 0 };
    bool older = false;
    *set = 0;
    ch.broken = ctx->failed;
    int rc = mem->place.kind != FTK_PLACE_MEMORY ? adopt(ctx, mem, &ch) : FTKIT_OK;
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_census_take(ctx, mem, ctx->comms.act, &census);
    if (rc != FTKIT_OK)
        return ftk_chan_break(&ch, MPI_ERR_OTHER, "census of what was left");
    rc = choose(ctx, scheme, &census, &which, &p);
    if (rc == FTKIT_OK && which.set > 0)
        rc = compare_files(ctx, &which, &older);
    if (rc == FTKIT_OK && which.set > 0 && !older) {
        rc = use(ctx, mem, &ch, &which, &p);
        *set = which.set;
    } else if (rc == FTKIT_OK) {
        ftk_mem_drop_others(mem, 0);
    }
    ftk_census_free(&census);
    ftk_plan_free(&p);
    return rc;
}
