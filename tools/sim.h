/* ftkit sim: what its parts share.  sim.c reads the command line, sim_failures.c a log of failures,
 * sim_with.c other costs, sim_make.c runs the simulations of lib/model, sim_print.c and sim_svg.c
 * print them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_SIM_H
#define FTKIT_TOOLS_SIM_H

#include "model/simulate.h"
#include "plan.h"

enum { SM_SIZES = 32, SM_WITH = 6, SM_COSTS = 6, SM_NAME_MAX = 24 };

/* Other costs for the same job. */
struct sm_with {
    char name[SM_NAME_MAX + 1];
    bool named[SM_COSTS];            /* else as without --with */
    struct pl_value value[SM_COSTS]; /* unknown: there is no such level */
};

struct sm_ask {
    int runs;
    uint64_t seed;
    struct pl_value shape;  /* of the Weibull law of the gaps */
    struct pl_value sigma;  /* of repair times */
    struct pl_value spares; /* unknown: those of the plan */
    struct pl_value period; /* unknown: those of the plan */
    int every;              /* with period: sets of the lowest level for one of the next level */
    enum ftk_sim_short when_short;
    int per_node;                /* ranks */
    int nodes[SM_SIZES], nsizes; /* numbers of nodes to compare; 0: that of the plan alone */
    struct sm_with with[SM_WITH];
    int nwith;
    const char *log, *system; /* failures to replay, or NULL */
    double same_node_s, together_s;
    bool from_start;
};

/* Add other costs, NAME:KEY=T,...  false: a message was printed. */
bool ftk_sm_with_parse(const char *text, struct sm_ask *ask);
/* Put other costs in the place of those of the job.  false, after a message: files cost nothing. */
bool ftk_sm_with_apply(const struct sm_with *with, struct pl_ask *ask);
/* The cost i, below SM_COSTS, of a job. */
const struct pl_value *ftk_sm_cost(const struct pl_ask *ask, int i);
/* Its key. */
const char *ftk_sm_cost_key(int i);

/* A log of failures in memory. */
struct sm_failures {
    struct ftk_machine_log log;
    struct ftk_machine_failure *v;
    int *node;
    double mtbf_s; /* of the machine */
};
/* Read and coalesce ask->log.  An exit code, after a message. */
int ftk_sm_failures(const struct sm_ask *ask, struct sm_failures *f);
void ftk_sm_failures_free(struct sm_failures *f);

/* One number of nodes, with the costs of the command line or those of --with. */
struct sm_size {
    struct pl_plan plan;
    int spares;
    int best; /* the protocol of the plan, else the fastest simulated one of ftkit; -1: none */
    bool done[PL_PROTOCOLS]; /* the protocol was simulated */
    struct ftk_sim_result result[PL_PROTOCOLS];
};

/* Plan for ask, and simulate the protocols up to the kind last; failures NULL: drawn.  An exit
 * code, after a message. */
int ftk_sm_make(const struct sm_ask *sim, const struct pl_ask *ask,
    const struct sm_failures *failures, enum pl_kind last, struct sm_size *size);
/* Work / time, for each node. */
double ftk_sm_efficiency(const struct sm_size *size, int protocol);

/* size [1 + sim->nwith][nsizes]: with the costs of the command line, then with those of each
 * --with, for which checkpoint/restart is simulated, the first protocol. */
static inline const struct sm_size *ftk_sm_row(const struct sm_size *size, int nsizes, int row)
{
    return &size[(size_t)row * (size_t)nsizes];
}
void ftk_sm_print(const struct sm_ask *sim, const struct sm_size *size, int nsizes, FILE *out);
void ftk_sm_json(const struct sm_ask *sim, const struct sm_size *size, int nsizes, FILE *out);
/* Write the picture; an exit code, after a message. */
int ftk_sm_svg(const struct sm_ask *sim, const struct sm_size *size, int nsizes, const char *path);

#endif
