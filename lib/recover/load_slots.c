/* Loading sets from slots: segments that earlier processes of the job left in places.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A relaunched job finds the slots of the earlier processes on its nodes.  The ranks adopt the
 * slots of dead processes, take a census, and plan for the newest set that is whole, or can be made
 * whole from copies and parity.  In a repair the ranks look for the slots of the lost processes in
 * the same way.
 *
 * A slot of no use to this start may be of use to another start, on other nodes or with another
 * number of ranks.  So the slot stays until the first commit removes it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "complete.h"
#include "detect/detect.h"
#include "load.h"
#include "plan.h"
#include "set/checkpoint.h"
#include "start.h"

#define BUSY_S 5 /* time for a process to die, or for a tool to finish reading a slot */

/* A set, identified by the heads of its segments. */
struct candidate {
    uint64_t set, run, epoch_id;
};

/* One search, in which all ranks take part. */
struct search {
    struct ftkit_ctx *ctx;
    const struct ftk_level *level;
    struct ftk_mem *mem; /* of the level */
    struct ftk_chan ch;
    struct ftk_census census;
    int unread;             /* the error of a slot that some rank could not read */
    uint64_t epoch_id;      /* of the line, as survivors know it in a repair; 0: not known */
    uint64_t newest;        /* highest number of a set of which a segment was found; 0: none */
    struct candidate which; /* the set that is loaded; set 0: none can be made whole */
    struct ftk_plan p;      /* for which */
    int other;              /* number of ranks of the newest whole set of another number; 0: none */
    char why[256];          /* why a set cannot be loaded */
};

/* Whether the search is in level.memory, which in a repair has the line. */
static bool is_first(const struct search *f)
{
    return f->level == &f->ctx->level[FTK_LEVEL_MEMORY];
}

static bool is_of(const struct ftk_census_seg *s, const struct candidate *c)
{
    return s->set == c->set && s->run == c->run && s->epoch_id == c->epoch_id;
}

static int newest_slot_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->set != y->set)
        return x->set < y->set ? 1 : -1;
    if (x->run != y->run)
        return x->run < y->run ? 1 : -1;
    return x->epoch_id == y->epoch_id ? 0 : x->epoch_id < y->epoch_id ? 1 : -1;
}

/* List all sets of which the census has a segment, newest first.  The caller frees *out, also after
 * an error. */
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
            all[(*n)++] = (struct candidate){ s->set, s->run, s->epoch_id };
        }
    qsort(all, (size_t)*n, sizeof *all, newest_slot_first);
    int kept = 0;
    for (int i = 0; i < *n; i++)
        if (i == 0 || newest_slot_first(&all[i - 1], &all[i]) != 0)
            all[kept++] = all[i];
    *n = kept;
    return FTKIT_OK;
}

/* Whether a set may be used.  In a repair only sets of this run may be used, and in level.memory
 * only the line: newer sets were not committed, and the survivors have dropped older ones. */
static bool may_be(const struct search *f, const struct candidate *c)
{
    const struct ftkit_ctx *ctx = f->ctx;
    bool may = ftk_start_may_use(ctx, c->set, c->run);
    if (ctx->repair.pending == FTK_PENDING_LOAD)
        return may;
    bool line = c->set == ctx->repair.line && (f->epoch_id == 0 || c->epoch_id == f->epoch_id);
    return may && (line || !is_first(f));
}

/* Make the plan for a set: the census is changed as if the set were the only one, and committed. */
static int plan_for(const struct search *f, const struct candidate *which, struct ftk_plan *p)
{
    const struct ftk_census *census = &f->census;
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
    const struct ftk_plan_rules rules = ftk_plan_rules_of(f->ctx, f->level);
    if (rc == FTKIT_OK)
        rc = ftk_plan_make(&c, &rules, p);
    free(entries);
    free(segs);
    return rc;
}

/* Write the reason why a set cannot be loaded to f->why. */
static void explain(struct search *f, const struct candidate *c, const struct ftk_plan *p)
{
    f->why[0] = '\0';
    if (p->line_nranks > 0 && p->line_nranks != f->ctx->nranks) {
        snprintf(f->why, sizeof f->why, "set %llu in memory is of %d ranks, not %d",
            (unsigned long long)c->set, p->line_nranks, f->ctx->nranks);
        return;
    }
    char ranks[96];
    int n = ftk_plan_lost_text(p, ranks, sizeof ranks);
    if (n == 0) {
        snprintf(f->why, sizeof f->why, "%.*s", (int)sizeof f->why - 1, p->why);
        return;
    }
    snprintf(f->why, sizeof f->why,
        "what is left of set %llu in memory does not make it whole: %s of %s %s missing",
        (unsigned long long)c->set, n == 1 ? "that" : "those", ranks, n == 1 ? "is" : "are");
}

static int try_candidate(struct search *f, const struct candidate *c, bool first)
{
    struct ftk_plan p;
    int rc = plan_for(f, c, &p);
    if (rc != FTKIT_OK)
        return rc;
    bool whole = p.outcome == FTK_PLAN_GO && !p.from_file;
    if (whole && p.line_nranks == f->ctx->nranks) {
        ftk_plan_free(&f->p);
        f->p = p;
        f->which = *c;
        return rc;
    }
    if (first || (whole && f->other == 0))
        explain(f, c, &p);
    if (whole && f->other == 0)
        f->other = p.line_nranks;
    ftk_plan_free(&p);
    return rc;
}

/* Choose the newest set that is whole or can be made whole: f->which, f->p. */
static int choose(struct search *f)
{
    struct candidate *all = NULL;
    int n = 0;
    int rc = list_candidates(&f->census, &all, &n);
    if (FTK_FAULT("found.choose"))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "injected");
    if (rc == FTKIT_OK && n > 0 && all[0].set > f->newest)
        f->newest = all[0].set;
    bool first = true;
    for (int i = 0; rc == FTKIT_OK && i < n && f->which.set == 0; i++) {
        if (!may_be(f, &all[i]))
            continue;
        rc = try_candidate(f, &all[i], first);
        first = false;
    }
    free(all);
    return rc;
}

static void keep_only(struct ftk_mem *mem, const struct candidate *which)
{
    for (int i = 0; i < mem->nsegs; i++) {
        struct ftk_mem_seg *s = mem->segs[i];
        const struct ftk_seg_header *h = (const void *)s->buf;
        if (s->set != 0
            && (s->set != which->set || h->run != which->run || h->epoch_id != which->epoch_id))
            ftk_mem_release(s);
        s->found = false;
    }
    ftk_mem_trim(mem);
}

/* ---- looking ------------------------------------------------------------------------- */

/* Keep the error of a slot that could not be read.  The error has been reported; it does not matter
 * if other slots suffice. */
static void note_unread(struct search *f, int rc)
{
    if (rc < f->unread)
        f->unread = rc;
}

/* The epoch id of the line, if this rank has its segment from before the search; else 0. */
static uint64_t own_epoch_id(const struct search *f)
{
    const struct ftk_mem_seg *s = ftk_mem_find(f->mem, f->ctx->repair.line, f->ctx->rank);
    const struct ftk_seg_header *h = s && !s->found ? (const void *)s->buf : NULL;
    return h ? h->epoch_id : 0;
}

/* Adopt the slots of some ranks: of this rank, or of the ranks whose copy this rank holds. */
static void adopt_some(struct search *f, bool own)
{
    const struct ftk_layout *to = &f->level->layout;
    const int n = f->ctx->nranks, me = f->ctx->rank;
    bool *wanted = calloc((size_t)n, sizeof *wanted);
    if (!wanted) {
        note_unread(f, ftk_fail(FTKIT_ERR_NOMEM, "ranks of slots"));
        return;
    }
    wanted[me] = own;
    for (int i = 0; !own && i < f->level->scheme->copies * n; i++)
        if (to->holder[i] == me)
            wanted[i % n] = true;
    note_unread(f, ftk_place_adopt(&f->mem->place, f->mem, wanted, n));
    free(wanted);
}

enum { WORD_EPOCH_ID }; /* the word of the vote in adopt() */

/* Adopt slots: first the slots of this rank, then those of the ranks whose copy this rank holds,
 * then others.  Votes separate the three steps, so no rank adopts a slot that another rank has more
 * need of. */
static int adopt(struct search *f)
{
    struct ftk_vote v;
    if (!ftk_place_is(f->mem->place.kind, FTK_OUTLIVES_PROCESS))
        return FTKIT_OK;
    uint64_t epoch_id = own_epoch_id(f);
    adopt_some(f, true);
    (void)FTK_FAULT("found.own");
    ftk_vote_init(&v);
    if (epoch_id != 0)
        memcpy(&v.min[WORD_EPOCH_ID], &epoch_id, sizeof epoch_id);
    int rc = ftk_vote(&f->ch, f->ctx->nranks, &v);
    f->epoch_id = 0;
    if (rc == FTKIT_OK && v.min[WORD_EPOCH_ID] != INT64_MAX)
        memcpy(&f->epoch_id, &v.min[WORD_EPOCH_ID], sizeof f->epoch_id);
    if (rc == FTKIT_OK && f->level->scheme->copies > 0) {
        adopt_some(f, false);
        (void)FTK_FAULT("found.copies");
        ftk_vote_init(&v);
        rc = ftk_vote(&f->ch, f->ctx->nranks, &v);
    }
    if (rc == FTKIT_OK)
        note_unread(f, ftk_place_adopt(&f->mem->place, f->mem, NULL, 0));
    (void)FTK_FAULT("found.all");
    return rc;
}

static bool has(const struct ftk_census *c, const struct ftk_slot *slot)
{
    const struct candidate of = { slot->set, slot->run, slot->epoch_id };
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->entries[i].nsegs; k++) {
            const struct ftk_census_seg *s = &c->entries[i].segs[k];
            if (is_of(s, &of) && s->rank == (int)slot->rank && (s->n > 0) == (slot->parity != 0))
                return true;
        }
    return false;
}

/* Return a locked slot of a usable set whose segment no rank has; NULL: there is none.  The process
 * with the lock is dying, or reads the slot, or is of another job. */
static const struct ftk_slot *find_busy(struct search *f)
{
    const struct ftk_place *place = &f->mem->place;
    const struct ftk_slot *found = NULL;
    for (int i = 0; i < place->nbusy; i++) {
        const struct ftk_slot *s = &place->busy[i];
        const struct candidate of = { s->set, s->run, s->epoch_id };
        if (!may_be(f, &of) || has(&f->census, s))
            continue;
        f->newest = s->set > f->newest ? s->set : f->newest;
        found = s;
    }
    return found;
}

/* The words of the vote after a look.  WORD_BUSY: the lowest rank that has seen a busy slot. */
enum { WORD_BUSY, WORD_TIME_LEFT, WORD_UNREAD, WORD_NEWEST };

/* Vote on whether all ranks look once more, because of a busy slot. */
static int look_again(struct search *f, double until, bool *again)
{
    struct ftk_vote v;
    const struct ftk_slot *busy = find_busy(f);
    ftk_vote_init(&v);
    v.min[WORD_BUSY] = busy ? f->ctx->rank : f->ctx->nranks;
    v.min[WORD_TIME_LEFT] = ftk_now_s() < until;
    v.min[WORD_UNREAD] = f->unread;
    v.min[WORD_NEWEST] = -(int64_t)f->newest;
    int rc = ftk_vote(&f->ch, f->ctx->nranks, &v);
    if (rc != FTKIT_OK)
        return rc;
    *again = v.min[WORD_BUSY] < f->ctx->nranks && v.min[WORD_TIME_LEFT] == 1;
    f->unread = (int)v.min[WORD_UNREAD];
    f->newest = (uint64_t)-v.min[WORD_NEWEST];
    if (!*again && busy && v.min[WORD_BUSY] == f->ctx->rank)
        ftk_report(FTKIT_WARNING,
            "context %s: the slot of set %llu, rank %u, in %s is in use by another process; "
            "it is passed over",
            f->ctx->cfg.name, (unsigned long long)busy->set, (unsigned)busy->rank,
            f->mem->place.dir);
    return rc;
}

static int look(struct search *f)
{
    const struct timespec step = { 0, 20000000 };
    double until = ftk_now_s() + BUSY_S;
    bool again = false;
    do {
        if (again)
            nanosleep(&step, NULL);
        ftk_census_free(&f->census);
        f->unread = FTKIT_OK;
        int rc = adopt(f);
        if (rc != FTKIT_OK)
            return rc;
        rc = ftk_census_take(f->ctx, f->mem, f->ctx->comms.act, &f->census);
        if (rc != FTKIT_OK)
            return ftk_chan_break(&f->ch, MPI_ERR_OTHER, "census of what was left");
        rc = look_again(f, until, &again);
        if (rc != FTKIT_OK)
            return rc;
    } while (again);
    return FTKIT_OK;
}

/* ---- using --------------------------------------------------------------------------- */

/* Set *older if files are to be loaded in place of the set in memory.  Files of another run, and
 * newer files, come first, because the user sees files and can remove them to begin anew.  The
 * files are read through before any segment in memory is dropped. */
static int compare_files(const struct search *f, struct ftk_loaded *l, bool *older)
{
    struct ftkit_ctx *ctx = f->ctx;
    const struct candidate *which = &f->which;
    uint64_t set = 0, run = 0;
    *older = false;
    if (ctx->repair.pending != FTK_PENDING_LOAD && is_first(f))
        return FTKIT_OK; /* in a repair the line comes first */
    int rc = ctx->cfg.h5_enabled ? ftk_durable_newest(ctx, which->set, which->run, &set, &run)
                                 : FTKIT_OK;
    if (rc != FTKIT_OK || set == 0)
        return rc;
    *older = set > which->set || run != which->run;
    if (!*older)
        l->durable = set;
    else if (ctx->rank == 0)
        ftk_report(FTKIT_WARNING,
            "context %s: set %llu in memory is passed over for set %llu on the file system%s",
            ctx->cfg.name, (unsigned long long)which->set, (unsigned long long)set,
            run != which->run ? ", which is of another run" : "");
    return rc;
}

/* Report slots of other jobs in the same place, on one rank of each node. */
static void report_others(const struct search *f)
{
    const struct ftkit_ctx *ctx = f->ctx;
    const struct ftk_place *p = &f->mem->place;
    if (p->others == 0 || ctx->repair.pending != FTK_PENDING_LOAD
        || ftk_first_of_domain(ctx, ctx->rank) != ctx->rank)
        return;
    if (p->other.set > 0)
        ftk_report(FTKIT_WARNING,
            "context %s: %d slots in %s are of other jobs and left alone: one is of '%s' in %s "
            "(this is '%s' in %s)",
            ctx->cfg.name, p->others, p->dir, p->other.program, p->other.directory,
            ctx->identity.program, ctx->identity.directory);
    else
        ftk_report(FTKIT_WARNING, "context %s: %d slots in %s are of other jobs and left alone",
            ctx->cfg.name, p->others, p->dir);
}

/* No set can be loaded from slots: report the reason.  Return an error if the user has to act. */
static int report_why(const struct search *f)
{
    const struct ftkit_ctx *ctx = f->ctx;
    uint64_t set = 0, run = 0;
    if (f->why[0] && ctx->rank == 0)
        ftk_report(FTKIT_WARNING, "context %s: %s", ctx->cfg.name, f->why);
    if (ctx->repair.pending == FTK_PENDING_LOAD && ctx->cfg.start == FTK_START_FRESH)
        return FTKIT_OK; /* the user wants no earlier set */
    if (ctx->repair.pending != FTK_PENDING_LOAD || (f->other == 0 && f->unread == FTKIT_OK))
        return FTKIT_OK;
    int rc = FTKIT_OK;
    if (ctx->cfg.h5_enabled)
        rc = ftk_durable_newest(f->ctx, 0, 0, &set, &run);
    if (rc != FTKIT_OK || set > 0) /* a set of files serves any number of ranks */
        return rc;
    if (f->unread != FTKIT_OK)
        return ftk_fail(f->unread,
            "a slot in %s cannot be used now (%s), and there are no files: start again, "
            "or remove the slots with `ftkit prune --slots %s` and begin anew",
            f->mem->place.dir, ftkit_strerror(f->unread), f->mem->place.dir);
    return ftk_fail(FTKIT_ERR_UNSUPPORTED, /* the ranks agree, and the program is right */
        "%s, and there are no files: start with %d ranks, or remove the slots with "
        "`ftkit prune --slots %s` and begin anew",
        f->why, f->other, f->mem->place.dir);
}

static void report(const struct search *f)
{
    const struct ftkit_ctx *ctx = f->ctx;
    const struct ftk_plan *p = &f->p;
    bool start = ctx->repair.pending == FTK_PENDING_LOAD;
    const char *source = "the memory of earlier processes";
    if (ftk_plan_rebuilds(p, ctx->rank))
        source = "the parity of its group";
    if (p->need_own[ctx->rank])
        source = "the copy at another rank";
    bool again = false;
    for (int i = 0; i < p->copies; i++)
        again = again || p->need_copy[i * p->nranks + ctx->rank];
    ftk_report(FTKIT_DEBUG, "context %s: set %llu: rank %d from %s%s", ctx->cfg.name,
        (unsigned long long)p->line, ctx->rank, source, again ? ", copied again" : "");
    if (ctx->rank == 0)
        ftk_report(FTKIT_INFO, "context %s: restored set %llu from memory that outlived %s",
            ctx->cfg.name, (unsigned long long)p->line, start ? "the job" : "its processes");
}

static int use(struct search *f)
{
    struct ftkit_ctx *ctx = f->ctx;
    keep_only(f->mem, &f->which);
    (void)FTK_FAULT("found.use");
    ftk_plan_void(&f->p, f->mem);
    int rc = ftk_agree(&f->ch, FTKIT_OK, "slots in use"); /* the transfers come after the vote */
    if (rc == FTKIT_OK)
        rc = ftk_complete(ctx, f->mem, &f->ch, &f->p);
    if (rc == FTKIT_ERR_CORRUPT) /* ftk_complete() has broken the channel: all ranks repair */
        rc = ftk_fail(FTKIT_ERR_PEER, "%s", ftk_detail_text());
    if (rc != FTKIT_OK)
        return rc;
    report(f);
    return FTKIT_OK;
}

/* Where this rank's segment comes from: a rank, or enum ftk_line_from. */
static int from_of(const struct search *f)
{
    const struct ftk_plan *p = &f->p;
    const int r = f->ctx->rank;
    if (ftk_plan_rebuilds(p, r))
        return FTK_LINE_PARITY;
    return p->need_own[r] && p->source[r] >= 0 ? p->rank_of[p->source[r]] : FTK_LINE_SLOT;
}

static int load(struct search *f, struct ftk_loaded *l)
{
    bool older = false;
    int rc = look(f);
    if (rc == FTKIT_OK) {
        report_others(f);
        rc = ftk_agree(&f->ch, choose(f), "what was left in memory: another rank");
    }
    if (rc != FTKIT_OK)
        return rc;
    l->newest = f->newest > l->newest ? f->newest : l->newest;
    if (f->which.set == 0)
        return report_why(f);
    rc = compare_files(f, l, &older);
    if (rc != FTKIT_OK || older)
        return rc;
    l->set = f->which.set; /* before use(): set also when use() finds damaged segments */
    l->run = f->which.run;
    l->nranks = f->ctx->nranks;
    rc = use(f);
    if (rc == FTKIT_OK)
        l->from = from_of(f);
    return rc;
}

int ftk_load_slots(struct ftkit_ctx *ctx, struct ftk_level *level, struct ftk_loaded *l)
{
    struct ftk_mem *mem = &level->mem;
    struct search f = { .ctx = ctx, .level = level, .mem = mem };
    l->set = 0;
    f.ch = ftk_chan_of(ctx);
    f.ch.broken = ctx->detect.failed;
    int rc = load(&f, l);
    /* in a repair the survivors keep their segments: if the files have the same set, it need not be
     * read */
    if (l->set == 0)
        ftk_mem_leave(mem, ctx->repair.pending == FTK_PENDING_LOAD || !is_first(&f));
    mem->place.kept = l->set == 0 && f.newest > 0; /* on all ranks of the node */
    ftk_census_free(&f.census);
    ftk_plan_free(&f.p);
    return rc;
}
