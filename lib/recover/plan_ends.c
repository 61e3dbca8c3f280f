/* The plan of a repair: when the job ends instead (see repair.h), and repairs in a row.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "plan_facts.h"

void ftk_plan_fatal(struct ftk_plan *p, int code, const char *why)
{
    p->outcome = FTK_PLAN_FATAL;
    p->code = code;
    snprintf(p->why, sizeof p->why, "%s", why);
}

/* Count a death, if one rank alone is lost.  A survivor may have made one call more or less than at
 * the last death.  Return whether the rank has died there too often: an error of the program, or of
 * its data.  A machine that fails hits another rank, or another call. */
static bool dies_again(const struct ftk_facts *f, struct ftk_plan *p)
{
    const struct ftk_repeats *was = &f->repeats;
    struct ftk_repeats *now = &p->repeats;
    if (f->nlive == 0 || f->nlive + 1 != f->nranks)
        return false;
    now->rank = (int)((int64_t)f->nranks * (f->nranks - 1) / 2 - f->ranks);
    now->calls = f->calls;
    now->deaths = 1;
    if (was->deaths > 0 && was->rank == now->rank && f->calls + 1 >= was->calls
        && f->calls <= was->calls + 1)
        now->deaths += was->deaths;
    if (now->deaths < FTK_DEATHS)
        return false;
    p->outcome = FTK_PLAN_FATAL;
    p->code = FTKIT_ERR_PEER;
    snprintf(p->why, sizeof p->why,
        "rank %d has died %d times at the same call of ftkit_checkpoint after set %llu, and no new "
        "set was written in between: the fault is in the program or its data",
        now->rank, now->deaths, (unsigned long long)f->committed);
    return true;
}

/* recover.attempts: too many repairs in a row have gone back to the same set. */
static bool repeats_too_often(const struct ftk_facts *f, struct ftk_plan *p)
{
    int limit = f->rules->attempts;
    if (f->nlive == 0 || f->epoch == 0 || limit == 0 || f->repeats.weight / FTK_REPEAT < limit)
        return false;
    p->outcome = FTK_PLAN_FATAL;
    if (f->nlive < f->nranks) {
        p->code = FTKIT_ERR_PEER;
        snprintf(p->why, sizeof p->why,
            "ranks have failed again after each of %d repairs and no new set was written in "
            "between (recover.attempts): the fault is in the program or its data",
            f->repeats.weight / FTK_REPEAT);
    } else {
        p->code = FTKIT_ERR_MISMATCH;
        snprintf(p->why, sizeof p->why,
            "calls have failed again after each of %d repairs and no new set was written in "
            "between (recover.attempts): no rank is missing. Rules: every rank makes the same "
            "calls of ftkit; MPI_COMM_WORLD is not used after ftkit_open",
            f->repeats.weight);
    }
    return true;
}

/* Whether a rank has no process, nor any of its replicas. */
static bool lacks_rank(const struct ftk_facts *f)
{
    const int planes = f->rules->replicas > 1 ? f->rules->replicas : 1, n = f->nranks / planes;
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

bool ftk_plan_ends(const struct ftk_facts *f, struct ftk_plan *p)
{
    for (int i = 0; i < f->c->n; i++) {
        const struct ftk_census_entry *e = &f->c->entries[i];
        if (e->local_error == 0)
            continue;
        ftk_plan_fatal(p, e->local_error, "");
        p->flawed = i;
        snprintf(p->why, sizeof p->why, "%s %d could not %s: %s", e->rank < 0 ? "process" : "rank",
            e->rank < 0 ? i : e->rank,
            f->epoch == 0 ? "open the context"
            : e->local_error == FTKIT_ERR_MISMATCH || e->local_error == FTKIT_ERR_LOST
                    || e->local_error == FTKIT_ERR_PEER
                ? "go on" /* before the repair */
                : "do its part of the repair",
            ftkit_strerror(e->local_error));
        return true;
    }
    if (f->furthest == FTK_ALL_CLOSED && f->epoch > 0 && lacks_rank(f)) {
        ftk_plan_fatal(p, FTKIT_ERR_LOST,
            "a rank was lost in ftkit_close, before its program could end: the job has to be "
            "relaunched");
        return true;
    }
    if (f->furthest == FTK_ALL_CLOSED) {
        p->outcome = FTK_PLAN_CLOSE;
        return true;
    }
    /* spawned processes that are left alone know no number of ranks */
    if (f->nlive == 0 && (f->epoch > 0 || f->nranks == 0)) {
        ftk_plan_fatal(
            p, FTKIT_ERR_LOST, "every working rank is lost: the job has to be relaunched");
        return true;
    }
    if (dies_again(f, p) || repeats_too_often(f, p))
        return true;
    if (f->in_close == 0 || (f->rules->team && f->nlive > 0))
        return false; /* with the log a rank that has left its loop waits for one that replays */
    if (f->nlive < f->nranks || f->in_close < f->nlive) {
        ftk_plan_fatal(p, FTKIT_ERR_PEER,
            "a rank failed when another had already left its loop (see ftkit_finish): the "
            "job has to be relaunched");
        return true;
    }
    return false;
}

/* FTK_REPEAT after the loss of a rank.  A repair without a lost rank counts, too: otherwise calls
 * that fail after every repair would be repaired without end.  Such a repair counts less, because
 * it may replace damaged segments, which have a limit of their own (ftk_drop_own()). */
static int weight_of(const struct ftk_plan *p)
{
    return p->lost > 0 ? FTK_REPEAT : p->rollback ? 1 : 0;
}

void ftk_plan_count(const struct ftk_facts *f, struct ftk_plan *p)
{
    p->repeats.of = p->line;
    p->repeats.weight = (f->repeats.of == p->line ? f->repeats.weight : 0) + weight_of(p);
    if (p->nranks != f->nranks) /* ranks have new numbers: the next death is of another one */
        p->repeats.deaths = 0;
}
