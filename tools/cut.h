/* ftkit teams: read a communication matrix, and make teams from the matrix.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_CUT_H
#define FTKIT_TOOLS_CUT_H

#include <stdint.h>

#include "sets.h"

/* ---- the communication matrix (matrix.c) --------------------------------------------- */

struct ftk_pair {
    int from, to; /* rising by from, then by to */
    uint64_t messages, bytes;
};
struct ftk_matrix {
    int n;                  /* ranks */
    struct ftk_pair *pairs; /* [npairs] */
    size_t npairs;
    uint64_t messages, bytes; /* of all pairs of different ranks */
    char context[FTKIT_NAME_MAX + 1];
};

/* Read and check a file of log.matrix; an exit code, not 0 after a message. */
int ftk_matrix_load(const char *path, struct ftk_matrix *m);
void ftk_matrix_free(struct ftk_matrix *m);

/* Messages and bytes between ranks of different teams; team [m->n]. */
struct ftk_cut {
    uint64_t messages, bytes;
};
struct ftk_cut ftk_matrix_cut(const struct ftk_matrix *m, const int *team);

/* ---- the teams (cut.c) ------------------------------------------------------------------
 * A team consists of units.  A unit is per_unit consecutive ranks, which stay together.  The
 * sizes of two teams differ by one unit at most.  The same matrix gives the same teams. */

/* Number of units that n ranks make. */
int ftk_cut_units(int n, int per_unit);
/* Make k teams: team[r] is a number below k; an exit code, not 0 after a message. */
int ftk_cut_make(const struct ftk_matrix *m, int per_unit, int k, int *team);
/* Make blocks of consecutive ranks with the sizes of these teams, larger ones first. */
void ftk_cut_blocks(int n, const int *team, int *block);

/* ---- the library that divides graphs (cut_metis.c; cut_none.c in a build without METIS) --- */

struct ftk_graph {
    int n, k;        /* units, parts */
    int *start;      /* [n + 1] into the next three */
    int *next;       /* neighbours, rising */
    int *weight;     /* of edges, small enough to be added up in an int */
    uint64_t *bytes; /* of edges */
    int *load;       /* [n] ones */
    int *size;       /* [k] wanted size of each part in units, larger ones first */
    uint64_t *links; /* [n][k] bytes between a unit and a part; NULL: too much memory */
};

/* Divide g into g->k parts of about g->size units: part[v] is a number below k.  attempt, from 0,
 * selects method and seed.  An exit code, not 0 after a message. */
int ftk_cut_divide(const struct ftk_graph *g, int attempt, int *part);

#endif
