/* Census: what each process knows and has, sent to all.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_CENSUS_H
#define FTK_CENSUS_H

#include "core/run_ends.h"
#include "detect/detect.h"

/* A sealed segment, or a sealed parity, in the memory of a process. */
struct ftk_census_seg {
    uint64_t set;
    int rank;
    int nranks;
    uint64_t run, epoch_id;
    int n, m;               /* of a parity: size and parities of its group; n 0: not a parity */
    const int64_t *members; /* [n] ranks of the group */
};

struct ftk_census_entry {
    int rank; /* -1: none */
    int nranks;
    int node;
    int program;   /* of the process, from 0: a rank keeps its program */
    int nprograms; /* of the job, as the process knows; 0: one, or the process is spawned */
    int where;     /* enum ftk_where */
    int app_errors;
    int has_callback;
    int local_error; /* local error of this process; 0: none */
    int differs;     /* enum ftk_differs */
    int sets;        /* enum ftk_sets */
    bool ambiguous;  /* the last attempt found an ambiguous match: all ranks have to roll back */
    bool of_earlier_job; /* the line is of an earlier job: it has no set-up log for a replacement */
    int pending;         /* enum ftk_pending */
    uint64_t committed;
    uint64_t next_set;
    uint64_t calls; /* of ftkit_checkpoint() */
    uint64_t run;
    int epoch;
    struct ftk_repeats repeats;
    int progressed;             /* before the first set: the rank has left its initial state */
    int spawn_failed;           /* spawns that have failed in a row */
    uint64_t unusable;          /* set that this rank has given up in memory, 0: none */
    struct ftk_run_end process; /* the process, without its end */
    const int64_t *sent_to; /* of a rank of a silent team: bit t of [ (nranks + 63) / 64 ] words: it
                               has sent to team t since the line; NULL: not known, or not silent */
    int nsegs;
    const struct ftk_census_seg *segs; /* [nsegs] */
};

struct ftk_census {
    int n;                            /* processes, in the order of s */
    struct ftk_census_entry *entries; /* [n] */
    struct ftk_census_seg *segs;      /* of all processes; entries[].segs point into it */
    int64_t *words;                   /* segs[].members and entries[].sent_to point into it */
};

/* Take the census of all members of s.  Collective over s.  mem: the level whose segments are
 * listed.  The caller frees c after success.  FTKIT_ERR_NOMEM, FTKIT_ERR_MPI. */
int ftk_census_take(struct ftkit_ctx *ctx, struct ftk_mem *mem, MPI_Comm s, struct ftk_census *c);
void ftk_census_free(struct ftk_census *c);

#endif
