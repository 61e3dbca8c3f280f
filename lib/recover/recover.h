/* Repair: from "a rank has failed" to "every rank has its segment of the line again".
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The state machine.  All steps run on one communicator s of the live processes:
 *
 *     FREEZE   each process revokes the communicators on which others may be blocked (detect.c)
 *     SHRINK   s := the live members of ctl, or of the last attempt's s
 *     CENSUS   each process sends to all its rank, its state and the list of its segments
 *     PLAN     each process computes the plan from the same census; the hashes are compared
 *     SUPPLY   if the plan says so, processes are spawned; then CENSUS again
 *     BUILD    the communicators of the next epoch are made
 *     RESTORE  lost segments go to the replacements, lost copies are made again
 *     AGREE    did every step succeed on every process?  If not: SHRINK again
 *
 * Every step before AGREE may be repeated.  Until AGREE the segments in memory change only in
 * these ways: sealed segments are added; corrupt segments, and segments that have the number of
 * the line but are of another try, are dropped.
 *
 * Each live process passes through AGREE exactly once per attempt, whatever happened to it before,
 * so no process waits in vain.  AGREE is the only decision, and the same on all processes.
 * Opening a context uses the same machine, with a census in which no process has a rank yet.
 * Closing uses it, too, so that spares and working ranks part in agreement. */
#ifndef FTK_RECOVER_H
#define FTK_RECOVER_H

#include "detect/detect.h"

/* ---- census -------------------------------------------------------------------------- */

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
    int progressed;    /* before the first set: the rank has left its initial state */
    int spawn_failed;  /* spawning was tried and does not work here */
    uint64_t unusable; /* set that this rank has given up in memory, 0: none */
    int nsegs;
    const struct ftk_census_seg *segs; /* [nsegs] */
};

struct ftk_census {
    int n;                            /* processes, in the order of s */
    struct ftk_census_entry *entries; /* [n] */
    struct ftk_census_seg *segs;      /* of all processes; entries[].segs point into it */
    int64_t *words;                   /* segs[].members point into it */
};

/* Take the census of all members of s.  Collective over s.  mem: the level whose segments are
 * listed.  The caller frees c after success.  FTKIT_ERR_NOMEM, FTKIT_ERR_MPI. */
int ftk_census_take(struct ftkit_ctx *ctx, struct ftk_mem *mem, MPI_Comm s, struct ftk_census *c);
void ftk_census_free(struct ftk_census *c);

/* ---- plan ---------------------------------------------------------------------------- */

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
    int *hit;       /* [nranks] 1: the team of that number rolls back; used by plan.c only */
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
    bool all;        /* determinants of a lost rank are lost: all ranks roll back, or all of its
                        plane, whatever the teams are */
    bool led;        /* ... of a rank that has led the other replicas: all ranks roll back */
    int replicas;    /* replicas.count; 0: as 1 */
    int lost;        /* enum ftk_lost_replicas */
    const struct ftk_programs *programs; /* of the job; NULL, or n = 0: one */
};

/* Return the rules for completing a set of a level outside of a repair. */
struct ftk_plan_rules ftk_plan_rules_of(const struct ftkit_ctx *ctx, const struct ftk_level *l);

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
/* Plan which segments and parities of the line are rebuilt from parity, and for which processes:
 * p->groups, and p->source of rebuilt segments.  A step of ftk_plan_make().  FTKIT_ERR_NOMEM. */
int ftk_plan_groups(const struct ftk_census *c, struct ftk_plan *p);
/* With replicas, if a plane is whole: the planes that have lost a rank, or wait for the line, stand
 * still, all of their ranks roll back, and no other rank does.  At the next set they get the state
 * of a whole plane (p->stale, FTK_PENDING_CLONE).  If no set can come, or nobody would compare that
 * state (rules->lost), the teams of their ranks that need the line roll back, within these planes.
 * False: no plane is whole, or all are; nothing is changed.  A step of ftk_plan_make(). */
bool ftk_plan_planes(
    const struct ftk_census *c, const struct ftk_plan_rules *rules, struct ftk_plan *p);
uint64_t ftk_plan_hash(const struct ftk_plan *p);
void ftk_plan_free(struct ftk_plan *p);
/* Write the list of the ranks of the line without a source (see ftk_ranks_text()); return their
 * number. */
int ftk_plan_lost_text(const struct ftk_plan *p, char *text, size_t bytes);

/* ---- repair -------------------------------------------------------------------------- */

/* Run attempts until one succeeds, or the context cannot be repaired.  start: MPI_COMM_NULL to
 * begin by shrinking ctl; at an opening: a communicator of all processes, which is not shrunk.
 * FTKIT_OK: the next epoch has begun, and ctx->repair.pending is what remains for this rank.
 * FTK_PARTED: the context closes on all processes.  An error: the context is dead. */
enum { FTK_PARTED = 100 };
int ftk_repair(struct ftkit_ctx *ctx, MPI_Comm start);

/* After a repair, or in ftkit_recover(): run the callback of the program, then bring the regions of
 * this rank to the line, as ctx->repair.pending says.  After a further failure the function repairs
 * and begins again.  *set: the set that was restored; 0: none.  An error: the context is dead. */
int ftk_restore_line(struct ftkit_ctx *ctx, uint64_t *set);

/* The plane of this rank stands still: write the next set with the other ranks.  This rank gets the
 * segment of its sibling there.  The set is the line to restore then.  FTKIT_ERR_PEER: a rank has
 * failed. */
int ftk_clone_plane(struct ftkit_ctx *ctx);

/* Wait as a spare.  FTKIT_OK: this process carries a rank now; FTK_PARTED: the job is over; an
 * error: the context is dead. */
int ftk_spare_wait(struct ftkit_ctx *ctx);
/* A set is committed: rank 0 sends the sizes of its segments to the spares, once in an epoch and
 * again when a size has grown.  Other ranks do nothing.  Does not wait. */
void ftk_spare_tell(const struct ftkit_ctx *ctx);
/* Forget what the spares have got.  Before the communicators are freed. */
void ftk_spare_close(void);

/* Spawn n processes of a program; merged: the members of s in their order, then the spawned
 * processes.  Collective over s.  A local error of rank 0 makes the spawn fail on all members. */
int ftk_supply_spawn(struct ftkit_ctx *ctx, MPI_Comm s, int program, int n, MPI_Comm *merged);
/* Return whether a repair has spawned this process.  True at most once in a process: for its first
 * context. */
bool ftk_supply_is_spawned(void);
/* In a spawned process of a job of several programs: the number of its program.  Else -1. */
int ftk_supply_program(void);
/* ... the directory of ctx->programs; "": there is none. */
const char *ftk_supply_directory(void);
/* In a spawned process: check that this process is in the directory of its program.  FTKIT_ERR_IO:
 * the directory is missing on this node, and mpirun has chosen another one. */
int ftk_supply_check_directory(void);
/* In a spawned process: make the communicator that ftk_supply_spawn() makes in the others.  *job:
 * their ctx->job. */
int ftk_supply_join(MPI_Comm *merged, uint64_t *job);

/* Take a census of level.memory and make a plan from it, outside of a repair.  The caller frees p,
 * also after an error.  Collective over act.  An error that does not break the channel is of this
 * rank alone. */
int ftk_plan_again(struct ftkit_ctx *ctx, struct ftk_chan *ch, struct ftk_plan *p);
/* Make the line of the plan whole in mem: transfer, then rebuild.  Collective over ch; after an
 * error the channel is broken, so that no rank waits. */
int ftk_complete(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, const struct ftk_plan *p);

/* Transfer the segments of the line that ranks lack, and the copies that holders lack. */
int ftk_transfer(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, const struct ftk_plan *p);

/* Rebuild lost segments and parities of the line from the parity of their groups. */
int ftk_rebuild(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, const struct ftk_plan *p);

/* Release a damaged segment s of the line that this rank needs; the thread's detail names the
 * damage.  FTKIT_ERR_CORRUPT: the next plan takes another copy.  After more than recover.attempts
 * damaged segments this rank gives up the set in memory (ctx->repair.unusable), because the parity
 * of other data gives a damaged segment each time; the second level or files have to serve.  After
 * more than twice as many: FTKIT_ERR_LOST. */
int ftk_drop_own(struct ftkit_ctx *ctx, struct ftk_mem_seg *s);
/* Whether this job can go on from a segment of any rank: a line apart needs the log, and the same
 * number of ranks; several programs need the same program on each rank.  FTKIT_ERR_UNSUPPORTED: it
 * cannot. */
int ftk_check_line(const struct ftkit_ctx *ctx, const struct ftk_mem_seg *s);

/* Verify every segment in the memory of both levels; release damaged segments, and replace them
 * from copies and parity or by a new set.  *bad: the number of damaged segments of this rank.
 * Collective over act. */
int ftk_scrub(struct ftkit_ctx *ctx, struct ftk_chan *ch, int *bad);

/* Distribute the line, which ctx->repair.line_nranks ranks wrote, over the regions of the present
 * ranks.  Collective over act. */
int ftk_redistribute(struct ftkit_ctx *ctx);

#endif
