/* The plan of a repair with silent teams (log.silent).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A team that keeps no messages cannot send them again.  So it rolls back with each team to which
 * it has sent since the line, and the teams that roll back are the smallest set that holds the
 * teams of the lost ranks and is closed under this rule (docs/design/log.md). */
#include "plan_facts.h"

/* Whether it is known of each staying rank of a silent team what it has sent. */
static bool is_known(
    const struct ftk_census *c, const struct ftk_plan_rules *rules, const struct ftk_plan *p)
{
    for (int r = 0; r < p->nranks; r++)
        if (rules->silent[r] && !p->hit[rules->team[r]] && !c->entries[p->proc_of[r]].sent_to)
            return false;
    return true;
}

static bool has_sent(const struct ftk_census_entry *e, int team)
{
    return (uint64_t)e->sent_to[team / 64] >> (team % 64) & 1;
}

bool ftk_plan_take_along(
    const struct ftk_census *c, const struct ftk_plan_rules *rules, struct ftk_plan *p)
{
    const int n = p->nranks;
    int *list = p->back; /* teams that roll back: those before i have been looked at */
    int listed = 0;
    if (!is_known(c, rules, p))
        return false;
    for (int t = 0; t < n; t++)
        if (p->hit[t])
            list[listed++] = t;
    for (int i = 0; i < listed; i++)
        for (int r = 0; r < n; r++) {
            const int team = rules->team[r];
            if (!rules->silent[r] || p->hit[team] || !has_sent(&c->entries[p->proc_of[r]], list[i]))
                continue;
            p->hit[team] = 1;
            list[listed++] = team;
        }
    return true;
}
