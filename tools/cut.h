/* ftkit teams: read a communication matrix, and make teams from the matrix.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_CUT_H
#define FTKIT_TOOLS_CUT_H

#include <stdint.h>

#include "core/team_cut.h"
#include "sets.h"

/* ---- the communication matrix (matrix.c) --------------------------------------------- */

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
struct ftk_cut ftk_matrix_cut(const struct ftk_matrix *m, const int *team);

/* ---- the teams (cut.c) ------------------------------------------------------------------
 * By core/team_cut.h, with METIS as one more start of the search where ftkit has METIS. */

/* Make k teams: team[r] is a number below k; an exit code, not 0 after a message. */
int ftk_cut_make(const struct ftk_matrix *m, int per_unit, int k, int *team);
/* Make blocks of consecutive ranks with the sizes of these teams, larger ones first. */
void ftk_cut_blocks(int n, const int *team, int *block);

/* The library that divides graphs (cut_metis.c; cut_none.c in a build without METIS). */
extern const struct ftk_cut_divider {
    ftk_team_divide_fn *divide; /* NULL: there is none */
    int attempts;
} ftk_cut_divider;

#endif
