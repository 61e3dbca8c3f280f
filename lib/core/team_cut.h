/* Teams of ranks with few bytes between different teams.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A team consists of units.  A unit is per_unit consecutive ranks, which stay together.  The sizes
 * of two teams differ by one unit at most.  The same pairs give the same teams. */
#ifndef FTK_TEAM_CUT_H
#define FTK_TEAM_CUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one rank has sent to another one. */
struct ftk_pair {
    int from, to;
    uint64_t messages, bytes;
};

/* Messages between units, for a function that divides the units. */
struct ftk_team_graph {
    int n, k;        /* units, teams */
    int *start;      /* [n + 1] into the next three */
    int *next;       /* neighbours, rising */
    int *weight;     /* of edges, small enough to be added up in an int */
    uint64_t *bytes; /* of edges, both ways */
    int *size;       /* [k] units of each team, larger ones first */
};

/* Divide g into g->k parts of about g->size units: part[v] is a number below k.  attempt, from 0,
 * selects the method.  A code of ftkit. */
typedef int ftk_team_divide_fn(const struct ftk_team_graph *g, int attempt, int *part);

struct ftk_team_cut {
    int n, per_unit;              /* ranks */
    int k;                        /* teams, at most as many as units */
    const struct ftk_pair *pairs; /* [npairs] */
    size_t npairs;
    ftk_team_divide_fn *divide; /* asked so many times; NULL with 0 */
    int attempts;
    const atomic_bool *stop; /* NULL, or becomes true when the result is not wanted any more */
};

/* Number of units that n ranks make. */
int ftk_team_cut_units(int n, int per_unit);
/* Number of teams that a size of teams gives: the last one may be smaller. */
int ftk_team_cut_teams(int n, int per_unit, int size);
/* Make teams: team[r], for each rank, is a number below k.  Calls no MPI, and may run in a helper
 * thread.  FTKIT_ERR_NOMEM; FTKIT_ERR_ARG: too many pairs; FTKIT_ERR_STATE: stopped; an
 * error of divide(). */
int ftk_team_cut_make(const struct ftk_team_cut *c, int *team);
/* Messages and bytes between ranks of different teams; pairs [npairs], team [n]. */
struct ftk_cut {
    uint64_t messages, bytes;
};
struct ftk_cut ftk_team_cut_between(const struct ftk_pair *pairs, size_t npairs, const int *team);

#endif
