/* Jobs of several programs: `mpirun a : b`.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun numbers its programs (MPI_APPNUM).  Those with the same executable, arguments, directory
 * and variables of -x are one program here.  A rank keeps its program: a process of another program
 * never takes over the rank.  So all processes know the program of each rank, and how a process of
 * each program is started: if all ranks of a program are lost, no process is left that knows.
 * A job of one program knows and sends nothing of this. */
#ifndef FTK_PROGRAMS_H
#define FTK_PROGRAMS_H

#include "plan.h"

/* MPI_APPNUM of this process, which mpirun has started. */
int ftk_programs_appnum(void);
/* How many programs mpirun has started, dead processes included, in words of mpirun (a : a is two);
 * 0: not known. */
int ftk_programs_started(void);
void ftk_programs_free(struct ftkit_ctx *ctx); /* safe on a zeroed context */
/* The program of each rank of a new epoch: takes of [n]; NULL: the job has one. */
void ftk_programs_install(struct ftkit_ctx *ctx, int *of, int n);

/* The live processes s of a new job, which mpirun has started as several programs, send each other
 * programs, spares and commands.  size: processes of the job with the dead ones; *spares: of all
 * programs.  Collective over s.  FTKIT_ERR_NOMEM, FTKIT_ERR_MPI; the others on all processes:
 * FTKIT_ERR_MISMATCH: the processes of a program have different spares.count; FTKIT_ERR_CONFIG: a
 * program has no more processes than spares; FTKIT_ERR_PEER: nothing is known of a program, because
 * its processes are dead. */
int ftk_programs_gather(struct ftkit_ctx *ctx, MPI_Comm s, int size, int *spares);
/* This process is spawned: it learns its program, and the directory of relative paths. */
void ftk_programs_join(struct ftkit_ctx *ctx);

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
