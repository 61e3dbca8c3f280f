/* Jobs of several programs: `mpirun a : b`.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The number of a program is MPI_APPNUM of its processes.  A rank keeps its program: a process of
 * another program never takes over the rank.  So all processes know the program of each rank, and
 * how a process of each program is started: if all ranks of a program are lost, no process is left
 * that could tell.  A job of one program knows and sends nothing of this. */
#ifndef FTK_PROGRAMS_H
#define FTK_PROGRAMS_H

#include "recover.h"

/* The number of the program of this process. */
int ftk_programs_number(void);
void ftk_programs_free(struct ftk_programs *p); /* safe on a zeroed one */

/* The live processes s of a new job, which are of several programs, tell each other programs, spares
 * and command lines.  size: processes
 * of the job; those that are not in s have died.  Collective over s.  FTKIT_ERR_NOMEM,
 * FTKIT_ERR_MPI, FTKIT_ERR_MISMATCH: the processes of a program have different spares.count. */
int ftk_programs_gather(struct ftkit_ctx *ctx, MPI_Comm s, int size);

/* In a repair: all processes s get the tables of one that has them.  Spawned processes have none.
 * Collective over s; does nothing in a job of one program.  FTKIT_ERR_NOMEM, FTKIT_ERR_MPI. */
int ftk_programs_share(struct ftkit_ctx *ctx, MPI_Comm s, const struct ftk_census *c);

/* List the program of each rank of the plan: *of [p->nranks], which the caller frees; NULL in a job
 * of one program.  FTKIT_ERR_NOMEM. */
int ftk_programs_list(const struct ftk_programs *programs, const struct ftk_census *c,
    const struct ftk_plan *p, int **of);

/* Whether this rank may restore a segment: the ranks of the job are of the programs that wrote the
 * set.  FTKIT_ERR_UNSUPPORTED. */
int ftk_programs_check(const struct ftkit_ctx *ctx, const struct ftk_seg_header *h);

#endif
