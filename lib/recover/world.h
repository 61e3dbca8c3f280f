/* A job before it runs: on which nodes its processes would be, what each rank would keep in memory,
 * and what a loss would cost.  Without MPI, for `ftkit config`.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks get their processes by the plan of an opening (plan.c), and copies and groups are
 * placed by the functions that the library uses in a job.  survive.c applies the rules of plan.c,
 * restore.c and load_slots.c to a loss; tests/unit/t_survive.c compares it with plan.c. */
#ifndef FTK_WORLD_H
#define FTK_WORLD_H

#include "core/config.h"
#include "set/level.h"

/* Where one memory level keeps its data. */
struct ftk_kept {
    bool on;       /* the level keeps sets */
    bool outlives; /* its data stay at the node when their processes end */
    int place;     /* enum ftk_place_number */
    int copies;    /* of each segment, at other ranks */
    int *holder;   /* [copies][nranks] see struct ftk_scheme_ops */
    int parities;  /* of a group, as configured; 0: no groups */
    int ngroups;
    int *group;  /* [nranks] */
    int *first;  /* [ngroups + 1] into member */
    int *member; /* [nranks] the ranks, group by group */
};

/* What a running job can be repaired after, each with those before it. */
enum ftk_repairs {
    FTK_REPAIRS_NOTHING,
    FTK_REPAIRS_PROCESSES,
    FTK_REPAIRS_NODES /* mpirun goes on without the MPI daemon of a node */
};

struct ftk_world {
    const struct ftk_config *cfg;
    enum ftk_repairs repairs;
    int nranks, nspares, nnodes;
    int *node;   /* [nranks] node of each rank, from 0 */
    int *spares; /* [nnodes] spares on each node */
    int *first;  /* [nnodes + 1] into rank */
    int *rank;   /* [nranks] the ranks, node by node */
    struct ftk_kept level[FTK_LEVELS];
    struct ftk_scratch *scratch; /* of survive.c */
};

/* Make the world of a job.  node_of [nranks + nspares]: the node of each process, from 0 to
 * nnodes - 1, in the order of MPI_COMM_WORLD.  cfg stays in use.  The caller frees w, also after an
 * error.  FTKIT_ERR_NOMEM. */
int ftk_world_make(const struct ftk_config *cfg, enum ftk_repairs repairs, int nranks, int nspares,
    const int *node_of, int nnodes, struct ftk_world *w);
void ftk_world_free(struct ftk_world *w);

/* Fill of [nranks]: the bytes that each rank keeps of one set at a level, its own segment and what
 * it keeps for others, when each rank registers `data` bytes in one region.  Return the bytes of
 * one segment. */
uint64_t ftk_world_bytes(const struct ftk_world *w, int level, uint64_t data, uint64_t *of);

/* ---- losses (survive.c) -------------------------------------------------------------- */

enum ftk_loss {
    FTK_LOSS_PROCESSES,      /* of working ranks */
    FTK_LOSS_NODE_PROCESSES, /* all processes of a node, whose MPI daemon lives */
    FTK_LOSS_NODES           /* a node with its MPI daemon, which mpirun may not survive */
};

/* Where the state comes from after a loss, the first that has it. */
enum ftk_source {
    FTK_SOURCE_MEMORY,
    FTK_SOURCE_LOCAL,
    FTK_SOURCE_FILES,
    FTK_SOURCE_NONE, /* the job begins anew */
    FTK_SOURCES
};

struct ftk_fate {
    int source;  /* enum ftk_source */
    bool in_job; /* the running job goes on; else it is relaunched */
};

/* What follows when k units are lost at once: ranks, or nodes (different ones). */
struct ftk_fate ftk_world_fate(struct ftk_world *w, int loss, const int *unit, int k);

/* Number of units of a loss. */
static inline int ftk_world_units(const struct ftk_world *w, int loss)
{
    return loss == FTK_LOSS_PROCESSES ? w->nranks : w->nnodes;
}

/* Whether the job ends after a loss, whatever spares and data there are. */
static inline bool ftk_world_ends(const struct ftk_world *w, int loss)
{
    return w->repairs < (loss == FTK_LOSS_NODES ? FTK_REPAIRS_NODES : FTK_REPAIRS_PROCESSES);
}

struct ftk_survival {
    int loss, k;
    double cases;    /* ways to lose k units */
    bool exact;      /* all were looked at, or one where all are alike; else some at random */
    uint64_t looked; /* the sources add up to this number */
    uint64_t source[FTK_SOURCES];
    uint64_t in_job;
};

enum { FTK_LOSS_MOST = 3 }; /* units of a loss that is counted */

/* Look at all ways to lose k of the units at once, or, if these are too many, at ways
 * that are drawn at random from seed.  most: how many ranks may be looked at in all. */
void ftk_world_count(
    struct ftk_world *w, int loss, int k, uint64_t most, uint64_t seed, struct ftk_survival *s);

/* How far the share is from hits / looked at most, with a probability of 99.9 % (the far end of
 * Wilson's interval, JASA 22 (1927), which also holds for few hits); 0 if the count is exact. */
double ftk_survival_error(const struct ftk_survival *s, uint64_t hits);

#endif
