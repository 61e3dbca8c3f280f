/* The plan of a repair: a pure function of the census.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every process computes the plan from the same census; the processes compare only its hash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/ranks.h"
#include "plan_facts.h"

static void draw_facts(struct ftk_facts *f)
{
    f->nranks = f->rules->nranks;
    f->callbacks = true;
    f->all = f->rules->all;
    for (int i = 0; i < f->c->n; i++) {
        const struct ftk_census_entry *e = &f->c->entries[i];
        f->epoch = e->epoch > f->epoch ? e->epoch : f->epoch;
        f->spawn_failed = f->spawn_failed || e->spawn_failed >= FTK_SPAWNS;
        f->all = f->all || e->ambiguous || e->differs == FTK_DIFFERS_ALL;
        f->of_earlier_job = f->of_earlier_job || e->of_earlier_job;
        if (e->rank < 0) {
            f->nfree++;
            if (f->nlive == 0 && e->nranks > f->nranks)
                f->nranks = e->nranks; /* 0 in a process that was spawned during an opening */
            continue;
        }
        f->nlive++;
        f->nranks = e->nranks;
        f->furthest = e->where > f->furthest ? e->where : f->furthest;
        f->in_close += e->where >= FTK_IN_CLOSE;
        f->app_errors = f->app_errors || e->app_errors;
        f->progressed = f->progressed || e->progressed;
        f->callbacks = f->callbacks && e->has_callback;
        f->committed = e->committed > f->committed ? e->committed : f->committed;
        if (f->rules->repair && e->unusable > f->unusable)
            f->unusable = e->unusable;
        f->calls = e->calls > f->calls ? e->calls : f->calls;
        f->ranks += e->rank;
        if (e->repeats.weight > f->repeats.weight)
            f->repeats = e->repeats;
    }
    if (f->repeats.of != f->committed)
        f->repeats = (struct ftk_repeats){ 0 };
}

/* ---- the line ------------------------------------------------------------------------ */

bool ftk_plan_has(const struct ftk_plan *p, const struct ftk_census_seg *s)
{
    return s->set == p->line && s->run == p->written.run && s->epoch_id == p->written.epoch_id;
}

void ftk_plan_clear(const struct ftk_plan *p, struct ftk_mem *mem)
{
    for (int i = 0; i < mem->nsegs; i++) {
        struct ftk_mem_seg *s = mem->segs[i];
        const struct ftk_seg_header *h = (const void *)s->buf;
        if (s->set == p->line && s->sealed
            && (h->run != p->written.run || h->epoch_id != p->written.epoch_id))
            ftk_mem_release(s);
    }
}

void ftk_plan_void(const struct ftk_plan *p, struct ftk_mem *mem)
{
    const struct ftk_slot line = {
        .set = p->line, .run = p->written.run, .epoch_id = p->written.epoch_id
    };
    if (p->outcome != FTK_PLAN_GO || p->from_file)
        return;
    for (int i = 0; i < p->ngroups; i++) {
        const struct ftk_plan_group *g = &p->groups[i];
        struct ftk_mem_seg *old;
        if (!g->anew)
            continue;
        ftk_place_drop(&mem->place, &line, g->rank, g->n);
        for (int k = 0; k < g->n; k++)
            while ((old = ftk_mem_find_parity(mem, p->line, g->rank[k])))
                ftk_mem_release(old);
    }
}

static bool has_segment(const struct ftk_plan *p, const struct ftk_census_entry *e, int rank)
{
    for (int k = 0; k < e->nsegs; k++)
        if (ftk_plan_has(p, &e->segs[k]) && e->segs[k].rank == rank && e->segs[k].n == 0)
            return true;
    return false;
}

static bool has_committed(const struct ftk_census_entry *e, uint64_t line)
{
    return e->rank >= 0 && e->committed == line;
}

/* Return how much proof there is that a segment with the line's number is of the line.  A process
 * that knows the line as committed has dropped other tries, and has written or loaded its own
 * segment. */
static int trust_in(const struct ftk_census_entry *e, const struct ftk_census_seg *s)
{
    return 1 + 2 * has_committed(e, s->set) + (s->rank == e->rank && s->n == 0);
}

/* Find which of the tries with the line's number is the line, and how many ranks wrote the line. */
static void identify(const struct ftk_facts *f, struct ftk_plan *p)
{
    int best = 0;
    for (int i = f->c->n - 1; i >= 0; i--)
        if (has_committed(&f->c->entries[i], p->line))
            p->run = f->c->entries[i].run;
    for (int i = 0; i < f->c->n; i++) {
        const struct ftk_census_entry *e = &f->c->entries[i];
        for (int k = 0; k < e->nsegs; k++) {
            const struct ftk_census_seg *s = &e->segs[k];
            if (s->set != p->line || trust_in(e, s) <= best)
                continue;
            best = trust_in(e, s);
            p->line_nranks = s->nranks;
            p->written = (struct ftk_written){ s->run, s->epoch_id };
        }
    }
}

/* A segment of which nothing is left is taken from another replica of the rank: their contents were
 * compared before the commit.  Segments that are rebuilt come too late: after the transfers.  The
 * bytes of the two segments differ: in the head, the handles, the state of the log, and in regions
 * that are not compared.  So the parity of the group is made anew (ftk_plan_group.anew). */
static void take_from_siblings(const struct ftk_facts *f, struct ftk_plan *p)
{
    if (f->rules->replicas < 2 || p->line_nranks != p->nranks)
        return;
    const int n = p->line_nranks / f->rules->replicas;
    for (int r = 0; r < p->line_nranks; r++)
        for (int q = r % n; p->source[r] < 0 && q < p->line_nranks; q += n) {
            if (p->source[q] < 0 || p->as[q] != q
                || !has_segment(p, &f->c->entries[p->source[q]], q))
                continue;
            p->source[r] = p->source[q];
            p->as[r] = q;
        }
}

/* Find the process that has the segment of each rank of the line: the rank's own process before a
 * holder.  Segments in spares, left from a failed attempt, do not count: spares are not in act. */
static int find_sources(const struct ftk_facts *f, struct ftk_plan *p)
{
    identify(f, p);
    p->source = malloc(((size_t)p->line_nranks + 1) * sizeof *p->source);
    p->as = malloc(((size_t)p->line_nranks + 1) * sizeof *p->as);
    if (!p->source || !p->as)
        return ftk_fail(FTKIT_ERR_NOMEM, "plan");
    p->from_file = p->line_nranks == 0;
    for (int r = 0; r < p->line_nranks; r++) {
        p->source[r] = -1;
        p->as[r] = r;
    }
    if (p->line == f->unusable) {
        p->from_file = p->unusable = true;
        return FTKIT_OK;
    }
    for (int i = 0; i < f->c->n; i++) {
        const struct ftk_census_entry *e = &f->c->entries[i];
        for (int k = 0; k < e->nsegs && p->rank_of[i] >= 0; k++) {
            int r = e->segs[k].rank;
            if (ftk_plan_has(p, &e->segs[k]) && e->segs[k].n == 0 && r >= 0 && r < p->line_nranks
                && (p->source[r] < 0 || e->rank == r))
                p->source[r] = i;
        }
    }
    int rc = ftk_plan_groups(f->c, p);
    if (rc == FTKIT_OK)
        take_from_siblings(f, p);
    for (int r = 0; r < p->line_nranks; r++)
        p->from_file = p->from_file || p->source[r] < 0;
    return rc;
}

bool ftk_plan_rebuilds(const struct ftk_plan *p, int rank)
{
    for (int i = 0; i < p->ngroups; i++)
        for (int k = 0; k < p->groups[i].n; k++)
            if (p->groups[i].rank[k] == rank && p->groups[i].data_to[k] >= 0)
                return true;
    return false;
}

/* Find the ranks that lack their own segment, and the holders that lack their copy. */
static void find_needs(const struct ftk_facts *f, struct ftk_plan *p)
{
    for (int r = 0; r < p->nranks; r++) {
        const struct ftk_census_entry *own = &f->c->entries[p->proc_of[r]];
        p->need_own[r] = !has_segment(p, own, r) && p->source[r] != p->proc_of[r];
    }
    for (int i = 0; i < p->copies * p->nranks; i++) {
        if (p->holder[i] < 0)
            continue;
        const struct ftk_census_entry *owner = &f->c->entries[p->proc_of[p->holder[i]]];
        p->need_copy[i] = !has_segment(p, owner, i % p->nranks);
    }
}

static void lost_for_good(struct ftk_plan *p)
{
    if (p->unusable) {
        ftk_plan_fatal(p, FTKIT_ERR_LOST,
            "a segment is damaged, wherever a rank has it from (recover.attempts), and there are "
            "no files: the memory of the rank is bad, or the parity that it rebuilds from");
        return;
    }
    p->outcome = FTK_PLAN_FATAL;
    p->code = FTKIT_ERR_LOST;
    char ranks[128];
    int n = ftk_plan_lost_text(p, ranks, sizeof ranks);
    snprintf(p->why, sizeof p->why,
        "set %llu: there are no files, and no copy or parity is left that makes up for the "
        "segment%s of %s",
        (unsigned long long)p->line, FTK_S(n), ranks);
}

/* Choose the state to which the ranks return: the line, or the initial state. */
static int choose_line(const struct ftk_facts *f, struct ftk_plan *p)
{
    p->line = f->committed;
    p->fresh = f->nlive == 0;
    if (p->line > 0) {
        p->pending = p->nranks == f->nranks ? FTK_PENDING_LINE : FTK_PENDING_SHRUNK;
        p->rollback = true;
        int rc = find_sources(f, p);
        if (rc == FTKIT_OK && p->line_nranks > 0 && p->line_nranks != p->nranks)
            p->pending = FTK_PENDING_SHRUNK;
        if (rc == FTKIT_OK && !p->from_file && p->pending == FTK_PENDING_LINE)
            find_needs(f, p);
        bool other = f->rules->files || (f->rules->local && p->pending == FTK_PENDING_LINE);
        if (rc == FTKIT_OK && p->from_file && !other)
            lost_for_good(p);
        return rc;
    }
    bool logged = f->rules->team && f->nlive > 0; /* the log replays messages */
    if (f->app_errors && !logged) {
        ftk_plan_fatal(p, FTKIT_ERR_LOST,
            "a rank failed before the first set was written while the program was "
            "communicating: its state cannot be known, the job has to be relaunched");
        return FTKIT_OK;
    }
    if (f->progressed && !logged) {
        ftk_plan_fatal(p, FTKIT_ERR_LOST,
            "a rank failed before the first set was written and others had left their "
            "initial state: the job has to be relaunched");
        return FTKIT_OK;
    }
    p->pending = f->furthest >= FTK_IN_LOOP ? FTK_PENDING_FRESH : FTK_PENDING_LOAD;
    return FTKIT_OK;
}

/* ---- who rolls back ------------------------------------------------------------------ */

/* Whether the process of a rank is new, or has not yet restored the line after an earlier
 * failure, or differs from other replicas of the rank. */
static bool needs_line(const struct ftk_facts *f, const struct ftk_plan *p, int rank)
{
    const struct ftk_census_entry *e = &f->c->entries[p->proc_of[rank]];
    return p->is_new[rank]
           || (p->line > 0
               && (e->pending == FTK_PENDING_LINE || e->pending == FTK_PENDING_LOAD
                   || e->pending == FTK_PENDING_CLONE || e->differs != FTK_DIFFERS_NOT));
}

/* Whether the planes of replicas roll back one by one: there is a line, in memory, from which a
 * replacement can replay its set-up. */
static bool by_planes(const struct ftk_facts *f, const struct ftk_plan *p)
{
    return f->rules->replicas > 1 && f->rules->team && f->nlive > 0 && p->nranks == f->nranks
           && p->line > 0 && !p->from_file && !f->of_earlier_job;
}

/* Choose the ranks that roll back: choose_back() of docs/model/log.pml. */
static void choose_teams(const struct ftk_facts *f, struct ftk_plan *p)
{
    const int *team = f->rules->team;
    bool alone = p->line == 0; /* before the first line a team is one rank */
    bool all = !team || f->nlive == 0 || p->nranks != f->nranks || p->from_file || f->all;
    for (int r = 0; r < p->nranks; r++) {
        p->back[r] = all || needs_line(f, p, r);
        if (!all && p->back[r] && !alone)
            p->hit[team[r]] = 1;
    }
    if (!all && !alone && f->rules->silent && !ftk_plan_take_along(f->c, f->rules, p))
        for (int r = 0; r < p->nranks; r++)
            p->hit[team[r]] = 1;
    for (int r = 0; !all && !alone && r < p->nranks; r++)
        p->back[r] = p->hit[team[r]];
    if (f->all && p->line == 0 && f->nlive > 0)
        ftk_plan_fatal(p, FTKIT_ERR_LOST,
            f->rules->all
                ? "a rank failed before the first set was written, and its determinants are lost "
                  "with its node: the job has to be relaunched"
                : "a rank failed before the first set was written, and it is not known which of "
                  "its messages were complete, or messages that it needs have changed "
                  "(ftkit_share): the job has to be relaunched");
}

static void choose_back(const struct ftk_facts *f, struct ftk_plan *p)
{
    const int *team = f->rules->team;
    if (!by_planes(f, p) || !ftk_plan_planes(f->c, f->rules, p))
        choose_teams(f, p);
    for (int r = 0; team && r < p->nranks; r++)
        if (p->is_new[r] && f->of_earlier_job)
            ftk_plan_fatal(p, FTKIT_ERR_LOST,
                "a rank failed before the first set of a job that continues an earlier one, and "
                "the message log has no set-up to replay: the job has to be relaunched");
        else if (p->back[r] && !p->is_new[r] && f->c->entries[p->proc_of[r]].where >= FTK_IN_CLOSE)
            ftk_plan_fatal(p, FTKIT_ERR_PEER,
                f->rules->silent
                    ? "a rank failed when one that has to roll back with it, in its team or in a "
                      "silent one (log.silent), had already left its loop (see ftkit_finish): the "
                      "job has to be relaunched"
                    : "a rank failed when another one of its team had already left its loop (see "
                      "ftkit_finish): the job has to be relaunched");
}

/* Whether a rank has made the call that wrote the line: it goes on; or it goes back in a call of
 * ftkit_checkpoint(), which becomes that call (see count_first_call() in loop.c).  So does the call
 * in which a rank waits for the set of a halt (FTK_SETS_OVER; see halt() there). */
static bool line_is_passed(const struct ftk_facts *f, const struct ftk_plan *p)
{
    for (int r = 0; p->line > 0 && f->nlive > 0 && r < p->nranks; r++) {
        const struct ftk_census_entry *e = &f->c->entries[p->proc_of[r]];
        if (!p->is_new[r]
            && (f->rules->team || (e->where == FTK_IN_LOOP && e->sets != FTK_SETS_LATER)))
            return true;
    }
    return false;
}

/* ---- all of it ----------------------------------------------------------------------- */

static int place_copies(const struct ftk_facts *f, struct ftk_plan *p)
{
    for (int r = 0; r < p->nranks; r++)
        p->domain[r] = f->c->entries[p->proc_of[r]].node;
    return ftk_scheme_place(f->rules->scheme, f->rules->map, p->nranks, p->domain, p->holder);
}

static int allocate(const struct ftk_facts *f, struct ftk_plan *p)
{
    size_t n = (size_t)(f->nranks > f->c->n ? f->nranks : f->c->n) + 1;
    size_t copies = (size_t)f->rules->scheme->copies;
    int *all = calloc((7 + 2 * copies) * n, sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "plan");
    p->copies = (int)copies;
    p->rank_of = all;
    p->proc_of = all + n;
    p->is_new = all + 2 * n;
    p->domain = all + 3 * n;
    p->need_own = all + 4 * n;
    p->back = all + 5 * n;
    p->hit = all + 6 * n;
    p->holder = all + 7 * n;
    p->need_copy = p->holder + copies * n;
    p->nprocs = f->c->n;
    return FTKIT_OK;
}

static int make(struct ftk_facts *f, struct ftk_plan *p)
{
    int rc = allocate(f, p);
    if (rc == FTKIT_OK)
        rc = ftk_plan_nodes(f);
    if (rc != FTKIT_OK || ftk_plan_ends(f, p) || ftk_plan_assign(f, p))
        return rc;
    rc = place_copies(f, p);
    if (rc == FTKIT_OK && f->in_close == f->nlive && f->nlive == f->nranks)
        return FTKIT_OK; /* all are closing and none is lost: there is nothing to restore */
    if (rc == FTKIT_OK)
        rc = choose_line(f, p);
    if (rc == FTKIT_OK)
        choose_back(f, p);
    p->line_passed = rc == FTKIT_OK && line_is_passed(f, p);
    ftk_plan_count(f, p);
    return rc;
}

int ftk_plan_make(
    const struct ftk_census *c, const struct ftk_plan_rules *rules, struct ftk_plan *p)
{
    struct ftk_facts f = { .c = c, .rules = rules };
    memset(p, 0, sizeof *p);
    p->flawed = -1;
    draw_facts(&f);
    int rc = make(&f, p);
    free(f.node_of);
    if (rc != FTKIT_OK)
        ftk_plan_free(p);
    return rc;
}

uint64_t ftk_plan_hash(const struct ftk_plan *p)
{
    int words[] = { p->outcome, p->code, p->nspawn, p->spawned_program, p->nprocs, p->nranks,
        p->lost, p->line_nranks, p->from_file, p->pending, p->rollback, (int)p->stale,
        (int)p->clone_at, p->line_passed };
    uint64_t h = ftk_xxh3_seed(words, sizeof words, p->line);
    if (p->outcome == FTK_PLAN_GO) {
        size_t n = (size_t)p->nranks;
        h = ftk_xxh3_seed(&p->written, sizeof p->written, h ^ p->run);
        h = ftk_xxh3_seed(p->proc_of, n * sizeof *p->proc_of, h);
        h = ftk_xxh3_seed(p->back, n * sizeof *p->back, h);
        h = ftk_xxh3_seed(p->holder, (size_t)p->copies * n * sizeof *p->holder, h);
        h = ftk_xxh3_seed(p->source, (size_t)p->line_nranks * sizeof *p->source, h);
        h = ftk_xxh3_seed(p->as, (size_t)p->line_nranks * sizeof *p->as, h);
        h = ftk_xxh3_seed(p->groups, (size_t)p->ngroups * sizeof *p->groups, h);
    }
    return h;
}

int ftk_plan_lost_text(const struct ftk_plan *p, char *text, size_t bytes)
{
    int n = 0;
    int *lost = malloc(((size_t)p->line_nranks + 1) * sizeof *lost);
    for (int r = 0; lost && r < p->line_nranks; r++)
        lost[r] = p->source[r] < 0;
    if (lost)
        n = ftk_ranks_text(lost, p->line_nranks, text, bytes);
    else
        snprintf(text, bytes, "ranks");
    free(lost);
    return n;
}

void ftk_plan_free(struct ftk_plan *p)
{
    free(p->rank_of);
    free(p->source);
    free(p->as);
    free(p->groups);
    memset(p, 0, sizeof *p);
    p->flawed = -1;
}
