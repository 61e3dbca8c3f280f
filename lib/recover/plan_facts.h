/* The parts of ftk_plan_make(), and the facts that they share.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_PLAN_FACTS_H
#define FTK_PLAN_FACTS_H

#include "plan.h"

/* Facts that are computed from the census. */
struct ftk_facts {
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
    struct ftk_repeats repeats; /* before this failure */
    uint64_t calls;             /* most calls of ftkit_checkpoint() of a live rank */
    int64_t ranks;              /* sum of the live ranks */
    int *node_of;               /* [n] the first process of the same node: it stands for the node */
    int *load;                  /* [n] working ranks on the node that the process stands for */
};

/* plan_ends.c */
/* The plan ends the job, with this code of the calls and this reason. */
void ftk_plan_fatal(struct ftk_plan *p, int code, const char *why);
/* Whether no epoch is built: the job ends with an error, or the context closes. */
bool ftk_plan_ends(const struct ftk_facts *f, struct ftk_plan *p);
/* Count this repair in p->repeats, when the rest of the plan is made. */
void ftk_plan_count(const struct ftk_facts *f, struct ftk_plan *p);

/* plan_ranks.c */
/* Fill in f->node_of and f->load.  The caller frees f->node_of.  FTKIT_ERR_NOMEM. */
int ftk_plan_nodes(struct ftk_facts *f);
/* Choose the process of each rank.  Return 1 if the plan is decided: processes are spawned, or the
 * job ends; 0: go on with p->nranks ranks. */
int ftk_plan_assign(const struct ftk_facts *f, struct ftk_plan *p);

/* groups.c */
/* Plan which segments and parities of the line are rebuilt from parity, and for which processes:
 * p->groups, and p->source of rebuilt segments.  A step of ftk_plan_make().  FTKIT_ERR_NOMEM. */
int ftk_plan_groups(const struct ftk_census *c, struct ftk_plan *p);

/* plan_silent.c */
/* p->hit has the teams that roll back.  Add each silent team that has sent since the line to one of
 * them, also to one that this adds.  A step of ftk_plan_make().  False: it is not known what a rank
 * of a silent team has sent, so all ranks have to roll back.  Uses p->back as memory. */
bool ftk_plan_take_along(
    const struct ftk_census *c, const struct ftk_plan_rules *rules, struct ftk_plan *p);

/* plan_planes.c */
/* With replicas, if a plane is whole: the planes that have lost a rank, or wait for the line, stand
 * still, all of their ranks roll back, and no other rank does.  At the next set they get the state
 * of a whole plane (p->stale, FTK_PENDING_CLONE).  If no set can come, or none would compare that
 * state (rules->lost), the teams of their ranks that need the line roll back, within these planes.
 * False: no plane is whole, or all are; nothing is changed.  A step of ftk_plan_make(). */
bool ftk_plan_planes(
    const struct ftk_census *c, const struct ftk_plan_rules *rules, struct ftk_plan *p);

#endif
