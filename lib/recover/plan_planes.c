/* The plan of a repair with replicas (see repair.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Planes exchange no messages.  So a plane that has lost a rank can stand still while another one
 * goes on, and take over the state of the other one later.  No rank of a whole plane goes back.
 * Where that state would not be compared, the lost rank replays within its plane instead.
 * If the outcomes that a lost leader has decided cannot be read, no plane goes on: another leader
 * would decide anew what other ranks of its plane may have learned already.
 * [DINO clones the sibling of the lost replica, while the siblings of all others go on] */
#include "plan_facts.h"

/* Whether the rank can go on as it is. */
static bool goes_on(const struct ftk_census *c, const struct ftk_plan *p, int rank)
{
    const struct ftk_census_entry *e = &c->entries[p->proc_of[rank]];
    return !p->is_new[rank] && e->pending == FTK_PENDING_NONE && !e->ambiguous
           && e->where >= FTK_IN_LOOP;
}

/* Whether the plane of a rank stands still; n: ranks of a plane. */
static bool is_stale(unsigned stale, int rank, int n)
{
    return stale >> (rank / n) & 1;
}

static bool is_whole(const struct ftk_census *c, const struct ftk_plan *p, int plane, int n)
{
    for (int r = plane * n; r < (plane + 1) * n; r++)
        if (!goes_on(c, p, r))
            return false;
    return true;
}

/* Whether a replica has found that it differs from its siblings, which may not know: no plane is
 * known to be right then. */
static bool any_differs(const struct ftk_census *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->entries[i].differs != FTK_DIFFERS_NOT)
            return true;
    return false;
}

/* Whether all ranks of whole planes will come to a call of ftkit_checkpoint() together, as far as
 * they know; *calls: the most that one of them has made.  A rank of another plane that has left its
 * loop does not come back. */
static bool may_write(
    const struct ftk_census *c, const struct ftk_plan *p, unsigned stale, int n, uint64_t *calls)
{
    *calls = 0;
    for (int r = 0; r < p->nranks; r++) {
        const struct ftk_census_entry *e = &c->entries[p->proc_of[r]];
        if (e->sets == FTK_SETS_OVER)
            return false;
        if (is_stale(stale, r, n))
            continue;
        if (e->where != FTK_IN_LOOP || e->sets != FTK_SETS_COME)
            return false;
        *calls = e->calls > *calls ? e->calls : *calls;
    }
    return true;
}

/* Whether planes that stand still may get the state of another plane.  That state has not been
 * compared since the line.  If two planes are left, they are compared at the set; a plane that is
 * left alone hands on a flipped bit, and no process ever finds it. */
static bool may_clone(const struct ftk_plan_rules *rules, unsigned stale)
{
    int whole = 0;
    for (int p = 0; p < rules->replicas; p++)
        whole += !(stale >> p & 1);
    return rules->lost == FTK_LOST_CLONE || (rules->lost == FTK_LOST_COMPARED && whole > 1);
}

/* Nothing is cloned: teams return to the line, as far as they are in these planes. */
static void go_back(const struct ftk_census *c, const struct ftk_plan_rules *rules, unsigned stale,
    int n, struct ftk_plan *p)
{
    bool all = rules->all;
    for (int i = 0; i < c->n; i++)
        all = all || c->entries[i].ambiguous;
    for (int r = 0; r < p->nranks; r++)
        if (is_stale(stale, r, n) && !goes_on(c, p, r))
            p->hit[rules->team[r]] = 1;
    for (int r = 0; r < p->nranks; r++)
        p->back[r] = is_stale(stale, r, n) && (all || p->hit[rules->team[r]]);
}

bool ftk_plan_planes(
    const struct ftk_census *c, const struct ftk_plan_rules *rules, struct ftk_plan *p)
{
    const int planes = rules->replicas, n = p->nranks / planes;
    unsigned stale = 0;
    uint64_t calls;
    for (int i = 0; i < planes; i++)
        stale |= (unsigned)!is_whole(c, p, i, n) << i;
    if (stale == 0 || stale == (1u << planes) - 1 || any_differs(c) || rules->led)
        return false;
    if (!may_clone(rules, stale) || !may_write(c, p, stale, n, &calls)) {
        go_back(c, rules, stale, n, p);
        return true;
    }
    for (int r = 0; r < p->nranks; r++)
        p->back[r] = is_stale(stale, r, n);
    p->stale = stale;
    p->clone_at = calls + 1;
    p->pending = FTK_PENDING_CLONE;
    return true;
}
