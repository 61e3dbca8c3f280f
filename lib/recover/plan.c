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
#include "recover.h"

/* Facts that are computed from the census. */
struct facts {
    const struct ftk_census *c;
    const struct ftk_plan_rules *rules;
    int nranks;   /* before the failure, or wanted */
    int nlive;    /* processes that have a rank */
    int nfree;    /* processes that have none */
    int furthest; /* largest `where` of a live rank */
    int in_close; /* live ranks that have left their loop */
    int epoch;    /* the largest; 0: no process has ever had a rank */
    bool app_errors;
    bool progressed;
    bool spawn_failed;
    bool callbacks; /* every live rank has a callback of ftkit_on_repair() */
    bool all;       /* all ranks roll back: by the rules, after an ambiguous match, or because
                       replicas differ again */
    bool of_earlier_job;
    uint64_t committed;
    uint64_t unusable;
    int repeats;
    struct ftk_died died; /* before this failure */
    uint64_t calls;       /* most calls of ftkit_checkpoint() of a live rank */
    int64_t ranks;        /* sum of the live ranks */
    int *node_of;         /* [n] the first process of the same node: it stands for the node */
    int *load;            /* [n] working ranks on the node that the process stands for */
};

static void fatal(struct ftk_plan *p, int code, const char *why)
{
    p->outcome = FTK_PLAN_FATAL;
    p->code = code;
    snprintf(p->why, sizeof p->why, "%s", why);
}

static void draw_facts(struct facts *f)
{
    f->nranks = f->rules->nranks;
    f->callbacks = true;
    f->all = f->rules->all;
    for (int i = 0; i < f->c->n; i++) {
        const struct ftk_census_entry *e = &f->c->entries[i];
        f->epoch = e->epoch > f->epoch ? e->epoch : f->epoch;
        f->spawn_failed = f->spawn_failed || e->spawn_failed;
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
        f->repeats = e->repeats > f->repeats ? e->repeats : f->repeats;
        f->calls = e->calls > f->calls ? e->calls : f->calls;
        f->ranks += e->rank;
        if (e->died.times > f->died.times)
            f->died = e->died;
    }
}

/* ---- who carries which rank ---------------------------------------------------------- */

/* The node of a process, to sort the processes by nodes. */
struct node_number {
    int node;
    int proc;
};

static int by_node(const void *a, const void *b)
{
    const struct node_number *x = a;
    const struct node_number *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->proc < y->proc ? -1 : x->proc > y->proc;
}

static int number_nodes(struct facts *f)
{
    int n = f->c->n;
    struct node_number *all = malloc((size_t)n * sizeof *all);
    f->node_of = calloc(2 * (size_t)n, sizeof *f->node_of);
    if (!all || !f->node_of) {
        free(all);
        return ftk_fail(FTKIT_ERR_NOMEM, "plan");
    }
    f->load = f->node_of + n;
    for (int i = 0; i < n; i++)
        all[i] = (struct node_number){ f->c->entries[i].node, i };
    qsort(all, (size_t)n, sizeof *all, by_node);
    for (int i = 0; i < n; i++)
        f->node_of[all[i].proc] =
            i > 0 && all[i].node == all[i - 1].node ? f->node_of[all[i - 1].proc] : all[i].proc;
    free(all);
    return FTKIT_OK;
}

/* No process has a rank yet: the last processes of the nodes with most processes become spares, the
 * others get ranks in their order. */
static void number_all(const struct facts *f, struct ftk_plan *p)
{
    int n = f->c->n;
    for (int i = 0; i < n; i++) {
        p->rank_of[i] = 0; /* not a spare for now */
        f->load[f->node_of[i]]++;
    }
    for (int k = n - p->nranks; k > 0; k--) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (p->rank_of[i] == 0
                && (best < 0 || f->load[f->node_of[i]] >= f->load[f->node_of[best]]))
                best = i;
        p->rank_of[best] = -1;
        f->load[f->node_of[best]]--;
    }
    int rank = 0;
    for (int i = 0; i < n; i++) {
        if (p->rank_of[i] < 0)
            continue;
        p->rank_of[i] = rank;
        p->proc_of[rank] = i;
        p->is_new[rank++] = 1;
    }
}

/* Whether a process is on the node of another replica of a rank. */
static bool shares_node(const struct facts *f, const struct ftk_plan *p, int proc, int rank)
{
    const int n = p->nranks / (f->rules->replicas > 1 ? f->rules->replicas : 1);
    for (int q = rank % n; q < p->nranks; q += n)
        if (q != rank && p->proc_of[q] >= 0 && f->node_of[p->proc_of[q]] == f->node_of[proc])
            return true;
    return false;
}

/* Return a free process for a rank, -1: there is none.  With replicas, one of a node without
 * another replica of the rank, if possible; then one of the node with the fewest working ranks.  So
 * replacements are spread over the nodes.  A replacement on the node of the lost process keeps the
 * layout of copies. */
static int pick_spare(const struct facts *f, const struct ftk_plan *p, int rank)
{
    int best = -1;
    bool best_shares = false;
    for (int i = 0; i < f->c->n; i++) {
        if (p->rank_of[i] >= 0)
            continue;
        const bool shares = shares_node(f, p, i, rank);
        const bool lighter = best < 0 || f->load[f->node_of[i]] < f->load[f->node_of[best]];
        if (best >= 0 && (shares != best_shares ? shares : !lighter))
            continue;
        best = i;
        best_shares = shares;
    }
    return best;
}

static void keep_ranks(const struct facts *f, struct ftk_plan *p)
{
    for (int r = 0; r < p->nranks; r++)
        p->proc_of[r] = -1;
    for (int i = 0; i < f->c->n; i++) {
        p->rank_of[i] = f->c->entries[i].rank;
        if (p->rank_of[i] < 0)
            continue;
        p->proc_of[p->rank_of[i]] = i;
        f->load[f->node_of[i]]++;
    }
}

static void fill_ranks(const struct facts *f, struct ftk_plan *p)
{
    for (int r = 0; r < p->nranks; r++) {
        if (p->proc_of[r] >= 0)
            continue;
        int i = pick_spare(f, p, r);
        if (i < 0)
            continue; /* shrink_ranks() closes the gap */
        p->proc_of[r] = i;
        p->rank_of[i] = r;
        p->is_new[r] = 1;
        f->load[f->node_of[i]]++;
    }
}

/* Renumber the ranks that have a process, in their order. */
static void shrink_ranks(struct ftk_plan *p)
{
    int n = 0;
    for (int r = 0; r < p->nranks; r++) {
        if (p->proc_of[r] < 0)
            continue;
        p->proc_of[n] = p->proc_of[r];
        p->is_new[n] = p->is_new[r];
        p->rank_of[p->proc_of[n]] = n;
        n++;
    }
    p->nranks = n;
}

/* Decide by recover.supply on the lost ranks for which there is no spare.  Return 1 if the plan is
 * decided: processes are spawned, or the job ends; 0: go on with the processes that are there. */
static int supply(const struct facts *f, struct ftk_plan *p, int missing)
{
    int lacking = missing - f->nfree;
    for (int i = 0; lacking > 0 && i < f->rules->nsupply; i++) {
        switch (f->rules->supply[i]) {
        case FTK_SUPPLY_SPAWN:
            if (f->spawn_failed)
                break;
            p->outcome = FTK_PLAN_SPAWN;
            p->nspawn = lacking;
            return 1;
        case FTK_SUPPLY_SHRINK:
            if (f->nlive + f->nfree > 0 && (f->callbacks || f->nlive == 0))
                return 0;
            break; /* without a callback the program cannot distribute its data anew */
        case FTK_SUPPLY_END:
            i = f->rules->nsupply;
            break;
        default:
            break;
        }
    }
    if (lacking <= 0)
        return 0;
    snprintf(p->why, sizeof p->why,
        "%d of %d rank%s lost, %d spare%s left: the job has to be relaunched", missing, f->nranks,
        FTK_S(f->nranks), f->nfree, FTK_S(f->nfree));
    p->outcome = FTK_PLAN_FATAL;
    p->code = FTKIT_ERR_PEER;
    return 1;
}

static int assign(const struct facts *f, struct ftk_plan *p)
{
    int missing = f->nranks - f->nlive;
    p->lost = f->nlive > 0 ? missing : 0;
    p->nranks = f->nranks;
    if (supply(f, p, missing))
        return 1;
    if (f->nlive == 0) {
        if (p->nranks > f->c->n)
            p->nranks = f->c->n;
        number_all(f, p);
        return 0;
    }
    keep_ranks(f, p);
    fill_ranks(f, p);
    shrink_ranks(p);
    return 0;
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
static void identify(const struct facts *f, struct ftk_plan *p)
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
 * compared before the commit.  Segments that are rebuilt come too late: after the transfers. */
static void take_from_siblings(const struct facts *f, struct ftk_plan *p)
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
static int find_sources(const struct facts *f, struct ftk_plan *p)
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
static void find_needs(const struct facts *f, struct ftk_plan *p)
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
        fatal(p, FTKIT_ERR_LOST,
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
static int choose_line(const struct facts *f, struct ftk_plan *p)
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
        fatal(p, FTKIT_ERR_LOST,
            "a rank failed before the first set was written while the program was "
            "communicating: its state cannot be known, the job has to be relaunched");
        return FTKIT_OK;
    }
    if (f->progressed && !logged) {
        fatal(p, FTKIT_ERR_LOST,
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
static bool needs_line(const struct facts *f, const struct ftk_plan *p, int rank)
{
    const struct ftk_census_entry *e = &f->c->entries[p->proc_of[rank]];
    return p->is_new[rank]
           || (p->line > 0
               && (e->pending == FTK_PENDING_LINE || e->pending == FTK_PENDING_LOAD
                   || e->pending == FTK_PENDING_CLONE || e->differs != FTK_DIFFERS_NOT));
}

/* Whether the planes of replicas roll back one by one: there is a line, in memory, from which a
 * replacement can replay its set-up. */
static bool by_planes(const struct facts *f, const struct ftk_plan *p)
{
    return f->rules->planes > 1 && f->rules->team && f->nlive > 0 && p->nranks == f->nranks
           && p->line > 0 && !p->from_file && !f->of_earlier_job;
}

/* Choose the ranks that roll back: choose_back() of docs/model/log.pml. */
static void choose_teams(const struct facts *f, struct ftk_plan *p)
{
    const int *team = f->rules->team;
    bool alone = p->line == 0; /* before the first line a team is one rank */
    bool all = !team || f->nlive == 0 || p->nranks != f->nranks || p->from_file || f->all;
    for (int r = 0; r < p->nranks; r++) {
        p->back[r] = all || needs_line(f, p, r);
        if (!all && p->back[r] && !alone)
            p->hit[team[r]] = 1;
    }
    for (int r = 0; !all && !alone && r < p->nranks; r++)
        p->back[r] = p->hit[team[r]];
    if (f->all && p->line == 0 && f->nlive > 0)
        fatal(p, FTKIT_ERR_LOST,
            f->rules->all
                ? "a rank failed before the first set was written, and its determinants are lost "
                  "with its node: the job has to be relaunched"
                : "a rank failed before the first set was written, and it is not known which of "
                  "its messages were complete: the job has to be relaunched");
}

static void choose_back(const struct facts *f, struct ftk_plan *p)
{
    const int *team = f->rules->team;
    if (!by_planes(f, p) || !ftk_plan_planes(f->c, f->rules, p))
        choose_teams(f, p);
    for (int r = 0; team && r < p->nranks; r++)
        if (p->is_new[r] && f->of_earlier_job)
            fatal(p, FTKIT_ERR_LOST,
                "a rank failed before the first set of a job that continues an earlier one, and "
                "the message log has no set-up to replay: the job has to be relaunched");
        else if (p->back[r] && !p->is_new[r] && f->c->entries[p->proc_of[r]].where >= FTK_IN_CLOSE)
            fatal(p, FTKIT_ERR_PEER,
                "a rank failed when another one of its team had already left its loop (see "
                "ftkit_finish): the job has to be relaunched");
}

/* ---- all of it ----------------------------------------------------------------------- */

static int place_copies(const struct facts *f, struct ftk_plan *p)
{
    for (int r = 0; r < p->nranks; r++)
        p->domain[r] = f->c->entries[p->proc_of[r]].node;
    return ftk_scheme_place(f->rules->scheme, f->rules->map, p->nranks, p->domain, p->holder);
}

static int allocate(const struct facts *f, struct ftk_plan *p)
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

/* Count a death, if one rank alone is lost.  A survivor may have made one call more or less than at
 * the last death.  Return whether the rank has died there too often: an error of the program, or of
 * its data.  A machine that fails hits another rank, or another call. */
static bool dies_again(const struct facts *f, struct ftk_plan *p)
{
    if (f->nlive == 0 || f->nlive + 1 != f->nranks)
        return false;
    p->died.rank = (int)((int64_t)f->nranks * (f->nranks - 1) / 2 - f->ranks);
    p->died.calls = f->calls;
    p->died.times = 1;
    if (f->died.times > 0 && f->died.rank == p->died.rank && f->calls + 1 >= f->died.calls
        && f->calls <= f->died.calls + 1)
        p->died.times += f->died.times;
    if (p->died.times < FTK_DEATHS)
        return false;
    p->outcome = FTK_PLAN_FATAL;
    p->code = FTKIT_ERR_PEER;
    snprintf(p->why, sizeof p->why,
        "rank %d has died %d times at the same call of ftkit_checkpoint after set %llu, and no new "
        "set was written in between: the fault is in the program or its data",
        p->died.rank, p->died.times, (unsigned long long)f->committed);
    return true;
}

/* recover.attempts: too many repairs in a row have gone back to the same set. */
static bool repeats_too_often(const struct facts *f, struct ftk_plan *p)
{
    int limit = f->rules->attempts;
    if (f->nlive == 0 || f->epoch == 0 || limit == 0 || f->repeats / FTK_REPEAT < limit)
        return false;
    p->outcome = FTK_PLAN_FATAL;
    if (f->nlive < f->nranks) {
        p->code = FTKIT_ERR_PEER;
        snprintf(p->why, sizeof p->why,
            "ranks have failed again after each of %d repairs and no new set was written in "
            "between (recover.attempts): the fault is in the program or its data",
            f->repeats / FTK_REPEAT);
    } else {
        p->code = FTKIT_ERR_MISMATCH;
        snprintf(p->why, sizeof p->why,
            "calls have failed again after each of %d repairs and no new set was written in "
            "between (recover.attempts): no rank is missing. Rules: every rank makes the same "
            "calls of ftkit; MPI_COMM_WORLD is not used after ftkit_open",
            f->repeats);
    }
    return true;
}

/* Whether a rank has no process, nor any of its replicas. */
static bool lacks_rank(const struct facts *f)
{
    const int planes = f->rules->planes > 1 ? f->rules->planes : 1, n = f->nranks / planes;
    if (f->nlive == f->nranks || planes == 1)
        return f->nlive < f->nranks;
    for (int r = 0; r < n; r++) {
        bool there = false;
        for (int i = 0; i < f->c->n && !there; i++)
            there = f->c->entries[i].rank >= 0 && f->c->entries[i].rank % n == r;
        if (!there)
            return true;
    }
    return false;
}

/* Whether no epoch is built: the job ends with an error, or the context closes. */
static bool ends_here(const struct facts *f, struct ftk_plan *p)
{
    for (int i = 0; i < f->c->n; i++) {
        const struct ftk_census_entry *e = &f->c->entries[i];
        if (e->local_error == 0)
            continue;
        fatal(p, e->local_error, "");
        p->flawed = i;
        snprintf(p->why, sizeof p->why, "%s %d could not %s: %s", e->rank < 0 ? "process" : "rank",
            e->rank < 0 ? i : e->rank,
            f->epoch > 0 ? "do its part of the repair" : "open the context",
            ftkit_strerror(e->local_error));
        return true;
    }
    if (f->furthest == FTK_ALL_CLOSED && f->epoch > 0 && lacks_rank(f)) {
        fatal(p, FTKIT_ERR_LOST,
            "a rank was lost in ftkit_close, before its program could end: the job has to be "
            "relaunched");
        return true;
    }
    if (f->furthest == FTK_ALL_CLOSED) {
        p->outcome = FTK_PLAN_CLOSE;
        return true;
    }
    if (f->nlive == 0 && f->epoch > 0) {
        fatal(p, FTKIT_ERR_LOST, "every working rank is lost: the job has to be relaunched");
        return true;
    }
    if (dies_again(f, p) || repeats_too_often(f, p))
        return true;
    if (f->in_close == 0 || (f->rules->team && f->nlive > 0))
        return false; /* with the log a rank that has left its loop waits for one that replays */
    if (f->nlive < f->nranks || f->in_close < f->nlive) {
        fatal(p, FTKIT_ERR_PEER,
            "a rank failed when another had already left its loop (see ftkit_finish): the "
            "job has to be relaunched");
        return true;
    }
    return false;
}

static int make(struct facts *f, struct ftk_plan *p)
{
    int rc = allocate(f, p);
    if (rc == FTKIT_OK)
        rc = number_nodes(f);
    if (rc != FTKIT_OK || ends_here(f, p) || assign(f, p))
        return rc;
    if (p->nranks != f->nranks) /* ranks have new numbers: the next death is of another one */
        p->died.times = 0;
    rc = place_copies(f, p);
    if (rc == FTKIT_OK && f->in_close == f->nlive && f->nlive == f->nranks)
        return FTKIT_OK; /* all are closing and none is lost: there is nothing to restore */
    if (rc == FTKIT_OK)
        rc = choose_line(f, p);
    if (rc == FTKIT_OK)
        choose_back(f, p);
    return rc;
}

int ftk_plan_make(
    const struct ftk_census *c, const struct ftk_plan_rules *rules, struct ftk_plan *p)
{
    struct facts f = { .c = c, .rules = rules };
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
    int words[] = { p->outcome, p->code, p->nspawn, p->nprocs, p->nranks, p->lost, p->line_nranks,
        p->from_file, p->pending, p->rollback, (int)p->stale, (int)p->clone_at };
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
