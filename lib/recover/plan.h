/* The plan of a repair: computed by each process from the same census.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_PLAN_H
#define FTK_PLAN_H

#include "census.h"

struct ftk_scheme;
struct ftk_programs;

enum ftk_outcome {
    FTK_PLAN_GO,    /* build the next epoch by the plan */
    FTK_PLAN_SPAWN, /* spawn nspawn processes of one program, then take the census again */
    FTK_PLAN_CLOSE, /* every working rank is in ftkit_close(): all processes part */
    FTK_PLAN_FATAL  /* the job ends: why is the reason, code the result of the calls */
};

/* A parity group of the line with segments or parities that have to be rebuilt.  For each member:
 * the process that has its segment and its parity (_at), and the process for which the lost one is
 * rebuilt (_to); -1: none. */
struct ftk_plan_group {
    int n, m;
    int rank[FTK_GROUP_MAX]; /* of the line */
    int data_at[FTK_GROUP_MAX], parity_at[FTK_GROUP_MAX];
    int data_to[FTK_GROUP_MAX], parity_to[FTK_GROUP_MAX];
    int anew; /* nothing is rebuilt: a member has got a segment with other bytes, so the parity of
                  all members is released, and made anew after the transfers */
};

/* The number of a set does not identify the set: an earlier try to write a set with this number
 * may have failed, and its segments may be in places that outlive a process.  The segments of one
 * set have these values in common. */
struct ftk_written {
    uint64_t run, epoch_id;
};

struct ftk_plan {
    int outcome;
    int code;
    char why[256];
    struct ftk_repeats repeats; /* counts this repair */
    int flawed;                 /* process whose local error ends the job, -1: none */
    int nspawn;
    int spawned_program; /* of which program the spawned processes are */
    int nprocs;          /* in the census; a process is an index of the census */
    int nranks;          /* after the repair */
    int *rank_of;        /* [nprocs] new rank of each process, -1: spare */
    int *proc_of;        /* [nranks] process of each new rank */
    int *is_new;         /* [nranks] 1: its process did not carry a rank before */
    int *domain;         /* [nranks] */
    int copies;          /* of each segment, by the scheme */
    int *holder;         /* [copies][nranks] */
    int lost;            /* ranks that had lost their process */
    uint64_t line;       /* 0: no set is committed */
    uint64_t run; /* that wrote the line, by the first process that knows the line as committed */
    int line_nranks;            /* ranks that wrote the line; 0: no process has a segment of it */
    struct ftk_written written; /* of the line */
    int *source;    /* [line_nranks] process that has each segment, or for which the segment is
                          rebuilt; -1: none */
    int *as;        /* [line_nranks] the rank whose segment the source has: with replicas it may be
                          another one of the rank, whose segment has the same contents */
    int *need_own;  /* [nranks] 1: its process lacks the rank's segment of the line */
    int *back;      /* [nranks] 1: rolls back */
    int *hit;       /* [nranks] 1: the team of that number rolls back; a part of the plan's work */
    int *need_copy; /* [copies][nranks] 1: the holder lacks the copy */
    struct ftk_plan_group *groups; /* [ngroups] */
    int ngroups;
    bool from_file;    /* a segment of the line is not in memory and cannot be rebuilt there */
    bool unusable;     /* from_file, because a rank has given up the line in memory */
    int pending;       /* enum ftk_pending of the ranks that have work left, see pending_of() */
    bool rollback;     /* there is a line: ranks that roll back restore it */
    unsigned stale;    /* bit p: plane p gets the state of another plane at the next set */
    uint64_t clone_at; /* the call of ftkit_checkpoint() that writes this set */
    bool line_passed;  /* a rank has made the call of ftkit_checkpoint() that wrote the line, and
                          will not make it again */
    bool fresh;        /* an opening: no process had a rank before */
};

struct ftk_plan_rules {
    int nranks; /* number of working ranks, while no process has a rank yet */
    int map;
    const struct ftk_scheme *scheme;
    bool files;        /* the HDF5 level is on */
    bool local;        /* the second level is on; it serves only as many ranks as wrote the set */
    bool repair;       /* a set that a rank has given up in memory (unusable) counts as lost */
    int attempts;      /* repairs in a row that may go back to the same set; 0: no limit */
    const int *supply; /* [nsupply] enum ftk_supply */
    int nsupply;
    const int *team; /* [nranks] < nranks, team of each rank: only teams that have lost a rank roll
                          back; NULL: all ranks do */
    const bool *silent; /* [nranks] whether the team of a rank keeps no messages: it rolls back with
                           each team to which it has sent since the line; NULL: all keep them */
    bool all;           /* determinants of a lost rank are lost: all ranks roll back, or all of its
                        plane, whatever the teams are */
    bool led;           /* ... of a rank that has led the other replicas: all ranks roll back */
    int replicas;       /* replicas.count; 0: as 1 */
    int lost;           /* enum ftk_lost_replicas */
    const struct ftk_programs *programs; /* of the job; NULL, or n = 0: one */
};

/* Compute the plan.  Pure: the same on every process that has the same census.  The caller frees p
 * after success.  FTKIT_ERR_NOMEM. */
int ftk_plan_make(
    const struct ftk_census *c, const struct ftk_plan_rules *rules, struct ftk_plan *p);
/* Return whether a segment is of the line. */
bool ftk_plan_has(const struct ftk_plan *p, const struct ftk_census_seg *s);
/* Whether the plan rebuilds the segment of a rank from parity. */
bool ftk_plan_rebuilds(const struct ftk_plan *p, int rank);
/* Release the segments in mem that have the number of the line but are of another try: otherwise
 * they would be taken for segments of the line. */
void ftk_plan_clear(const struct ftk_plan *p, struct ftk_mem *mem);
/* Release the parities in mem that do not fit the segments of the line after this plan, and remove
 * the slots that ended processes have left of these groups: a later start must not find old parity
 * beside new segments, nor two different segments of a rank.  All processes of the census call it
 * before an agreement, and the transfers come after the agreement: so none of these parities is
 * left when the first segment travels, and a plan after a further failure finds none. */
void ftk_plan_void(const struct ftk_plan *p, struct ftk_mem *mem);
uint64_t ftk_plan_hash(const struct ftk_plan *p);
void ftk_plan_free(struct ftk_plan *p);
/* Write the list of the ranks of the line without a source (see ftk_ranks_text()); return their
 * number. */
int ftk_plan_lost_text(const struct ftk_plan *p, char *text, size_t bytes);

#endif
