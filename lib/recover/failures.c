/* The losses of the last repairs, and why (see failures.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which ranks are lost follows from the census.  Why comes from two sources: the last words in the
 * page of the watchdog of the node (detect/last_word.h), and what mpirun has reported to `ftkit
 * run` (core/run_ends.h).  Each rank looks at both, and the ranks share the result in the repair.
 * A report may come later, so ftkit_failures() looks again where the files of `ftkit run` are. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attempt.h"
#include "core/run_state.h"
#include "detect/last_word.h"
#include "detect/sure.h"
#include "failures.h"
#include "replica/planes.h"

#define REPORT_S 0.5 /* for the report of an end, from the repair on */
#define NAP_NS 5000000

/* A loss in a message. */
enum { JOB, WORLD_RANK, NODE, RANK, INCARNATION, REASON, CODE, WORDS };

struct ftk_loss_of {
    int rank, incarnation;
};

struct ftk_failures {
    uint64_t line; /* to which the last repair went back */
    double at_s;   /* time of that repair */
    int n;
    struct ftk_run_end *end;  /* [n] */
    struct ftk_loss_of *loss; /* [n] */
    struct ftk_run_end *of;   /* [nof] the processes of the ranks of this epoch */
    int nof;
};

void ftk_failures_free(struct ftk_failures *f)
{
    if (!f)
        return;
    free(f->end);
    free(f->loss);
    free(f->of);
    free(f);
}

int ftk_failures_begin(struct ftk_attempt *a)
{
    const struct ftk_plan *p = &a->plan;
    struct ftk_failures *f = calloc(1, sizeof *f);
    a->failures = f;
    if (f)
        f->of = malloc((size_t)p->nranks * sizeof *f->of);
    if (!f || !f->of)
        return ftk_fail(FTKIT_ERR_NOMEM, "the processes of %d ranks", p->nranks);
    for (f->nof = 0; f->nof < p->nranks; f->nof++)
        f->of[f->nof] = a->census.entries[p->proc_of[f->nof]].process;
    f->line = p->line;
    return FTKIT_OK;
}

void ftk_failures_install(struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    ftk_failures_free(ctx->repair.failures);
    ctx->repair.failures = a->failures;
    ctx->repair.failures->at_s = ftk_now_s();
    a->failures = NULL;
}

void ftk_failures_line(struct ftkit_ctx *ctx, uint64_t set)
{
    if (ctx->repair.failures)
        ctx->repair.failures->line = set;
}

/* ---- who ----------------------------------------------------------------------------- */

/* The number of ranks before the repair; 0: no process of the census had one. */
static int ranks_before(const struct ftk_census *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->entries[i].rank >= 0)
            return c->entries[i].nranks;
    return 0;
}

/* For each of n ranks, whether it has a process in the census; to be freed.  NULL: no memory. */
static bool *alive_ranks(const struct ftk_census *c, int n)
{
    bool *alive = calloc((size_t)n, sizeof *alive);
    for (int i = 0; alive && i < c->n; i++)
        if (c->entries[i].rank >= 0 && c->entries[i].rank < n)
            alive[c->entries[i].rank] = true;
    return alive;
}

static void write_loss(
    const struct ftk_run_end *e, const struct ftk_loss_of *of, int64_t row[WORDS])
{
    row[JOB] = e->job;
    row[WORLD_RANK] = e->world_rank;
    row[NODE] = (int64_t)e->node;
    row[RANK] = of->rank;
    row[INCARNATION] = of->incarnation;
    row[REASON] = e->reason;
    row[CODE] = e->code;
}

/* The losses that this rank knows, as rows [*n] to be freed: those of earlier repairs that went
 * back to the same line, and those of this repair.  NULL: no memory. */
static int64_t *list_losses(const struct ftk_attempt *a, int *n)
{
    const struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_failures *old = ctx->repair.failures;
    const int known = ranks_before(&a->census), before = known ? known : a->plan.nranks;
    const int kept = old && old->line == a->plan.line ? old->n : 0;
    bool *alive = alive_ranks(&a->census, before);
    size_t most = (size_t)kept + 1; /* not 0 */
    for (int r = 0; alive && r < before; r++)
        most += !alive[r];
    int64_t *rows = alive ? malloc(most * WORDS * sizeof *rows) : NULL;
    *n = 0;
    for (int i = 0; rows && i < kept; i++)
        write_loss(&old->end[i], &old->loss[i], rows + (ptrdiff_t)WORDS * (*n)++);
    for (int r = 0; rows && r < before; r++) {
        struct ftk_run_end e = { .job = -1, .world_rank = -1 };
        struct ftk_loss_of of = { .rank = r };
        if (alive[r])
            continue;
        if (old && r < old->nof)
            e = old->of[r];
        if (ctx->incarnations && r < ctx->nranks)
            of.incarnation = ctx->incarnations[r];
        write_loss(&e, &of, rows + (ptrdiff_t)WORDS * (*n)++);
    }
    free(alive);
    return rows;
}

static int read_losses(struct ftk_failures *f, const int64_t *rows, int n)
{
    f->end = calloc((size_t)n, sizeof *f->end);
    f->loss = calloc((size_t)n, sizeof *f->loss);
    if (!f->end || !f->loss)
        return ftk_fail(FTKIT_ERR_NOMEM, "a list of %d losses", n);
    for (f->n = 0; f->n < n; f->n++, rows += WORDS) {
        f->end[f->n] = (struct ftk_run_end){ .job = (int)rows[JOB],
            .world_rank = (int)rows[WORLD_RANK],
            .node = (uint64_t)rows[NODE],
            .reason = (int)rows[REASON],
            .code = (int)rows[CODE] };
        f->loss[f->n] = (struct ftk_loss_of){ (int)rows[RANK], (int)rows[INCARNATION] };
    }
    return FTKIT_OK;
}

/* ---- why ----------------------------------------------------------------------------- */

/* A last word is better than the report of mpirun: after its last word a process ends itself by a
 * signal. */
static void look(const struct ftkit_ctx *ctx, struct ftk_failures *f)
{
    for (int i = 0; i < f->n; i++) {
        struct ftk_run_end *e = &f->end[i];
        if (e->reason <= FTKIT_LOST_SIGNAL)
            (void)ftk_last_word_find(ctx->dog, e->job, e->world_rank, &e->reason, &e->code);
    }
    ftk_run_ends(f->end, f->n);
}

/* The reasons of all ranks: for each loss the one with the highest number, which is the best. */
static int merge(const struct ftk_attempt *a, struct ftk_failures *f)
{
    const struct ftk_sure act = { a->next.act, NULL, "sharing why ranks are lost" };
    int64_t *words = malloc((size_t)f->n * sizeof *words);
    if (!words)
        return ftk_fail(FTKIT_ERR_NOMEM, "a list of %d losses", f->n);
    for (int i = 0; i < f->n; i++)
        words[i] = -((int64_t)f->end[i].reason << 32 | (uint32_t)f->end[i].code);
    int rc = ftk_sure_min(&act, words, f->n);
    for (int i = 0; rc == FTKIT_OK && i < f->n; i++) {
        f->end[i].reason = (int)(-words[i] >> 32);
        f->end[i].code = (int)(uint32_t)(-words[i] & UINT32_MAX);
    }
    free(words);
    return rc;
}

int ftk_failures_share(struct ftk_attempt *a, int root)
{
    const struct ftk_sure act = { a->next.act, NULL, "sharing the losses" };
    struct ftk_failures *f = a->failures;
    int64_t n = 0;
    int known = 0;
    if (a->plan.fresh)
        return FTKIT_OK;
    int64_t *rows = list_losses(a, &known);
    n = known;
    int rc = rows ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "a list of losses");
    if (rc == FTKIT_OK)
        rc = ftk_sure_bcast(&act, root, &n, sizeof n);
    if (rc == FTKIT_OK && n > known) {
        int64_t *more = realloc(rows, (size_t)n * WORDS * sizeof *rows);
        if (more)
            rows = more;
        else
            rc = ftk_fail(FTKIT_ERR_NOMEM, "a list of %d losses", (int)n);
    }
    if (rc == FTKIT_OK && n > 0)
        rc = ftk_sure_bcast(&act, root, rows, (size_t)n * WORDS * sizeof *rows);
    if (rc == FTKIT_OK && n > 0)
        rc = read_losses(f, rows, (int)n);
    free(rows);
    if (rc != FTKIT_OK || n == 0)
        return rc;
    look(a->ctx, f);
    return merge(a, f);
}

/* ---- the call ------------------------------------------------------------------------ */

/* Whether a report of mpirun may still come.  The number of a signal comes before the signal. */
static bool may_learn(const struct ftk_failures *f)
{
    for (int i = 0; i < f->n; i++)
        if (f->end[i].reason == FTKIT_LOST_UNKNOWN)
            return ftk_run_sees() && ftk_now_s() < f->at_s + REPORT_S;
    return false;
}

static void await_reports(const struct ftkit_ctx *ctx, struct ftk_failures *f)
{
    const struct timespec nap = { 0, NAP_NS };
    while (may_learn(f)) {
        ftk_run_ends(f->end, f->n);
        if (may_learn(f))
            (void)nanosleep(&nap, NULL);
    }
    look(ctx, f);
}

static void fill(
    const struct ftkit_ctx *ctx, const struct ftk_failures *f, ftkit_failure *list, int n)
{
    const bool planes = ctx->cfg.replicas > 1; /* else the job may have shrunk since */
    for (int i = 0; i < n && i < f->n; i++)
        list[i] = (ftkit_failure){ .rank = planes ? ftk_plane_home(ctx, f->loss[i].rank)
                                                  : f->loss[i].rank,
            .plane = planes ? ftk_plane_of(ctx, f->loss[i].rank) : 0,
            .incarnation = f->loss[i].incarnation,
            .reason = f->end[i].reason,
            .code = f->end[i].code };
}

int ftkit_failures(const ftkit_ctx *ctx, ftkit_failure *list, int *n)
{
    int rc = ftk_check_open(ctx, "ftkit_failures");
    if (rc == FTKIT_OK && (!n || *n < 0 || (!list && *n > 0)))
        rc = ftk_fail(
            FTKIT_ERR_ARG, "ftkit_failures: n is NULL or negative, or list is NULL with room");
    /* the casts are valid, because a context is never a constant object */
    if (rc != FTKIT_OK)
        return ftk_done((struct ftkit_ctx *)ctx, rc);
    struct ftk_failures *f = ctx->repair.failures;
    if (f && f->n > 0) {
        await_reports(ctx, f);
        fill(ctx, f, list, *n);
    }
    *n = f ? f->n : 0;
    return FTKIT_OK;
}
