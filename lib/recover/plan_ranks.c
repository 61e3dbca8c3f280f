/* The plan of a repair: which process carries which rank (see repair.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "plan_facts.h"

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

int ftk_plan_nodes(struct ftk_facts *f)
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

/* The number of programs of the job. */
static int programs(const struct ftk_facts *f)
{
    const struct ftk_programs *of = f->rules->programs;
    return of ? ftk_programs_count(of) : 1;
}

/* Whether a process is of a program.  In a job of one program all are. */
static bool runs(const struct ftk_facts *f, int proc, int program)
{
    return programs(f) == 1 || f->c->entries[proc].program == program;
}

/* The program of a rank, as it was before the failure. */
static int program_of(const struct ftk_facts *f, int rank)
{
    return programs(f) == 1 ? 0 : f->rules->programs->of[rank];
}

/* Return how many processes a program needs more than it has; *lost: how many ranks of it have no
 * process. */
static int lacks(const struct ftk_facts *f, int program, int *lost)
{
    int nfree = 0;
    *lost = 0;
    if (programs(f) == 1) {
        *lost = f->nranks - f->nlive;
        return *lost - f->nfree;
    }
    if (f->nlive == 0)
        *lost = f->rules->programs->list[program].ranks;
    for (int r = 0; f->nlive > 0 && r < f->nranks; r++)
        *lost += program_of(f, r) == program;
    for (int i = 0; i < f->c->n; i++) {
        nfree += f->c->entries[i].rank < 0 && runs(f, i, program);
        *lost -= f->c->entries[i].rank >= 0 && runs(f, i, program);
    }
    return *lost - nfree;
}

/* Make n of the processes of a program spares: the last ones of the nodes with most processes. */
static void choose_spares(const struct ftk_facts *f, struct ftk_plan *p, int program, int n)
{
    for (; n > 0; n--) {
        int best = -1;
        for (int i = 0; i < f->c->n; i++)
            if (p->rank_of[i] == 0 && runs(f, i, program)
                && (best < 0 || f->load[f->node_of[i]] >= f->load[f->node_of[best]]))
                best = i;
        p->rank_of[best] = -1;
        f->load[f->node_of[best]]--;
    }
}

/* No process has a rank yet: each program gets its spares, and the other processes get ranks in
 * their order, program by program: mpirun may number the processes otherwise, and differently with
 * another number of spares. */
static void number_all(const struct ftk_facts *f, struct ftk_plan *p)
{
    int n = f->c->n;
    for (int i = 0; i < n; i++) {
        p->rank_of[i] = 0; /* not a spare for now */
        f->load[f->node_of[i]]++;
    }
    for (int k = 0, lost; k < programs(f); k++)
        choose_spares(f, p, k, programs(f) == 1 ? n - p->nranks : -lacks(f, k, &lost));
    int rank = 0;
    for (int k = 0; k < programs(f); k++)
        for (int i = 0; i < n; i++) {
            if (p->rank_of[i] < 0 || !runs(f, i, k))
                continue;
            p->rank_of[i] = rank;
            p->proc_of[rank] = i;
            p->is_new[rank++] = 1;
        }
}

/* Whether a process is on the node of another replica of a rank. */
static bool shares_node(const struct ftk_facts *f, const struct ftk_plan *p, int proc, int rank)
{
    const int n = p->nranks / (f->rules->replicas > 1 ? f->rules->replicas : 1);
    for (int q = rank % n; q < p->nranks; q += n)
        if (q != rank && p->proc_of[q] >= 0 && f->node_of[p->proc_of[q]] == f->node_of[proc])
            return true;
    return false;
}

/* Return a free process of the rank's program, -1: there is none.  With replicas, one of a node
 * without another replica of the rank, if possible; then one of the node with the fewest working
 * ranks.  So replacements are spread over the nodes.  A replacement on the node of the lost process
 * keeps the layout of copies. */
static int pick_spare(const struct ftk_facts *f, const struct ftk_plan *p, int rank)
{
    int best = -1;
    bool best_shares = false;
    for (int i = 0; i < f->c->n; i++) {
        if (p->rank_of[i] >= 0 || !runs(f, i, program_of(f, rank)))
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

static void keep_ranks(const struct ftk_facts *f, struct ftk_plan *p)
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

static void fill_ranks(const struct ftk_facts *f, struct ftk_plan *p)
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

/* No process can be had for lost ranks of a program. */
static void end_without(const struct ftk_facts *f, struct ftk_plan *p, int program, int lost)
{
    p->outcome = FTK_PLAN_FATAL;
    p->code = FTKIT_ERR_PEER;
    if (programs(f) == 1)
        snprintf(p->why, sizeof p->why,
            "%d of %d rank%s lost, %d spare%s left: the job has to be relaunched", lost, f->nranks,
            FTK_S(f->nranks), f->nfree, FTK_S(f->nfree));
    else
        snprintf(p->why, sizeof p->why,
            "%d rank%s of program %d of the job (the first one is 0) lost, and too few spares of "
            "this program left: the job has to be relaunched",
            lost, FTK_S(lost), program);
}

/* Decide by recover.supply on the lost ranks of a program for which there is no spare.  Return 1 if
 * the plan is decided: processes are spawned, or the job ends; 0: go on with the processes that are
 * there. */
static int supply(const struct ftk_facts *f, struct ftk_plan *p, int program)
{
    int lost = 0, lacking = lacks(f, program, &lost);
    for (int i = 0; lacking > 0 && i < f->rules->nsupply; i++) {
        switch (f->rules->supply[i]) {
        case FTK_SUPPLY_SPAWN:
            if (f->spawn_failed)
                break;
            p->outcome = FTK_PLAN_SPAWN;
            p->nspawn = lacking;
            p->spawned_program = program;
            return 1;
        case FTK_SUPPLY_SHRINK:
            if (programs(f) > 1)
                break; /* sets of several programs are not distributed anew */
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
    end_without(f, p, program, lost);
    return 1;
}

int ftk_plan_assign(const struct ftk_facts *f, struct ftk_plan *p)
{
    int missing = f->nranks - f->nlive;
    p->lost = f->nlive > 0 ? missing : 0;
    p->nranks = f->nranks;
    for (int k = 0; k < programs(f); k++)
        if (supply(f, p, k))
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
