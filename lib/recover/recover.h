/* Repair: from "a rank has failed" to "every rank holds the line again".
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The state machine, all on one communicator s of the live processes:
 *
 *     FREEZE   everyone has revoked what others may be blocked on (detect.c)
 *     SHRINK   s := the live members of ctl
 *     CENSUS   everyone tells everyone who it is and what it has in memory
 *     PLAN     computed by each from the same census; its hash is compared
 *     SUPPLY   processes are spawned when the plan wants them; then CENSUS again
 *     BUILD    the communicators of the next epoch
 *     RESTORE  lost segments go to their new processes, lost copies are made again
 *     AGREE    did everything work everywhere?  Otherwise from SHRINK with the larger
 *              failed set.  Nothing before this point has changed any rank's state but by
 *              adding sealed segments to its memory and dropping corrupt ones, so every
 *              step may be repeated.
 *
 * Each live process passes through AGREE exactly once per attempt whatever happened to it,
 * so nobody waits in vain; it is the only decision, and uniform.
 * Opening a context goes through the same machine, with a census in which nobody has a
 * rank yet; closing goes through it so that spares and survivors part in agreement. */
#ifndef FTK_RECOVER_H
#define FTK_RECOVER_H

#include "detect/detect.h"

/* ---- census -------------------------------------------------------------------------- */

struct ftk_census_seg {
    uint64_t set;
    int rank;
    int nranks;
    uint64_t run, epoch_id;
    int n, m;               /* of the group whose parity this is; n 0: the rank's segment */
    const int64_t *members; /* [n] ranks */
};

/* What a repair that replaces a lost rank counts for recover.attempts. */
enum { FTK_REPEAT = 4 };

struct ftk_census_entry {
    int rank; /* -1: none */
    int nranks;
    int node;
    int where; /* enum ftk_where */
    int app_errors;
    int has_callback;
    int local_error; /* hard error of the last attempt */
    bool ambiguous;  /* in it an ambiguous match: all ranks have to roll back */
    bool inherited;  /* the line has no set-up of this job, which a replacement needs */
    int pending;     /* enum ftk_pending */
    uint64_t committed;
    uint64_t line; /* set pending LINE or SHRUNK refers to */
    uint64_t next_set;
    uint64_t run;
    int epoch;
    int repeats;       /* in FTK_REPEATths */
    int progressed;    /* its state is not that of a fresh start any more */
    int spawn_failed;  /* spawning was tried and does not work here */
    uint64_t unusable; /* set that memory cannot give it, 0: none */
    int nsegs;
    const struct ftk_census_seg *segs; /* [nsegs] sealed ones in memory */
};

struct ftk_census {
    int n;                            /* processes, in the order of s */
    struct ftk_census_entry *entries; /* [n] */
    struct ftk_census_seg *segs;      /* of all */
    int64_t *words;                   /* the members of their groups lie in here */
};

/* segs are those of mem: the first level, or the second. */
int ftk_census_take(struct ftkit_ctx *ctx, struct ftk_mem *mem, MPI_Comm s, struct ftk_census *c);
void ftk_census_free(struct ftk_census *c);

/* ---- plan ---------------------------------------------------------------------------- */

enum ftk_outcome {
    FTK_PLAN_GO,    /* build it */
    FTK_PLAN_SPAWN, /* spawn nspawn processes, then take the census again */
    FTK_PLAN_CLOSE, /* every working rank is done: all part */
    FTK_PLAN_FATAL  /* why says why; code is what the calls return */
};

/* A group of the line some of which has to be rebuilt; processes, -1 for none. */
struct ftk_plan_group {
    int n, m;
    int rank[FTK_GROUP_MAX]; /* of the line */
    int data_at[FTK_GROUP_MAX], parity_at[FTK_GROUP_MAX];
    int data_to[FTK_GROUP_MAX], parity_to[FTK_GROUP_MAX];
};

/* What the segments of a set have in common besides its number, which may have been used
 * before: by a try that came to nothing, in places that outlive a process. */
struct ftk_written {
    uint64_t run, epoch_id;
};

struct ftk_plan {
    int outcome;
    int code;
    char why[256];
    int nspawn;
    int nprocs;
    int nranks;
    int *rank_of;  /* [nprocs] new rank of each process, -1: spare */
    int *proc_of;  /* [nranks] */
    int *is_new;   /* [nranks] 1: carried by a process that did not carry it before */
    int *domain;   /* [nranks] */
    int copies;    /* of each segment, by the scheme */
    int *holder;   /* [copies][nranks] */
    int lost;      /* ranks that had lost their process */
    uint64_t line; /* set to which all ranks return; 0: none */
    uint64_t run;  /* it is of, as a process says that has it */
    int line_nranks;
    struct ftk_written written;
    int *source;    /* [line_nranks] process that has each segment, or for which it is
                          rebuilt; -1: nobody */
    int *need_own;  /* [nranks] 1: its process lacks the rank's segment of the line */
    int *back;      /* [nranks] 1: returns to the line */
    int *hit;       /* [nranks] 1: the team of that number does; the plan's own */
    int *need_copy; /* [copies][nranks] 1: the holder lacks the copy */
    struct ftk_plan_group *groups; /* [ngroups] */
    int ngroups;
    bool from_file; /* some segment of the line is lost to memory */
    bool unusable;  /* ... because it never holds, wherever in memory it comes from */
    int pending;    /* enum ftk_pending of ranks that are not in their loop */
    bool rollback;  /* ranks in their loop restore the line */
    bool fresh;     /* an opening: no process had a rank before */
};

struct ftk_plan_rules {
    int nranks; /* number of working ranks, while no process has a rank yet */
    int map;
    const struct ftk_scheme *scheme;
    bool files;        /* the HDF5 level is on */
    bool local;        /* the second level is on, which serves as many ranks only */
    bool repair;       /* what ranks have given up in memory counts as lost */
    int attempts;      /* repairs in a row that may go back to the same set; 0: no limit */
    const int *supply; /* [nsupply] enum ftk_supply */
    int nsupply;
    const int *team; /* [nranks] < nranks: only teams that have lost a rank roll back;
                          NULL: all do */
    bool all;        /* all ranks roll back, whatever the teams */
};

/* The rules for a set of a level that is to be completed, outside of a repair. */
struct ftk_plan_rules ftk_plan_rules_of(const struct ftkit_ctx *ctx, const struct ftk_level *l);

/* Pure: the same on every process that has the same census.  FTKIT_ERR_NOMEM. */
int ftk_plan_make(
    const struct ftk_census *c, const struct ftk_plan_rules *rules, struct ftk_plan *p);
/* Whether a segment is of the line. */
bool ftk_plan_has(const struct ftk_plan *p, const struct ftk_census_seg *s);
/* Release what memory has of another try of the line's number: it would be taken for it. */
void ftk_plan_clear(const struct ftk_plan *p, struct ftk_mem *mem);
/* Its part about parity: what of the line can be rebuilt, and for whom. */
int ftk_plan_groups(const struct ftk_census *c, struct ftk_plan *p);
uint64_t ftk_plan_hash(const struct ftk_plan *p);
void ftk_plan_free(struct ftk_plan *p);
/* The ranks of the line whose segment nobody has, as ftk_ranks_text(); how many they are. */
int ftk_plan_lost_text(const struct ftk_plan *p, char *text, size_t bytes);

/* ---- repair -------------------------------------------------------------------------- */

/* Run the machine until it succeeds or cannot.  FTKIT_OK: the context is whole again and
 * ctx->repair.pending says what remains for this rank; FTK_PARTED: all part (close); an error:
 * the context is dead.  start: MPI_COMM_NULL to shrink ctl, or a communicator of all
 * processes to begin with (open). */
enum { FTK_PARTED = 100 };
int ftk_repair(struct ftkit_ctx *ctx, MPI_Comm start);

/* Bring the regions of this rank to the line after a repair, if something is pending and
 * this rank is in its loop or in ftkit_recover(): callback, then restore.  Repairs again
 * when a further failure comes between.  *set: what was restored, 0 nothing. */
int ftk_restore_line(struct ftkit_ctx *ctx, uint64_t *set);

/* Wait as a spare until needed (FTKIT_OK, the rank is set) or until the job is over
 * (FTK_PARTED); an error: the context is dead. */
int ftk_spare_wait(struct ftkit_ctx *ctx);

/* Start n more processes and merge them behind the members of s. */
int ftk_supply_spawn(struct ftkit_ctx *ctx, MPI_Comm s, int n, MPI_Comm *merged);
/* In a process started by a repair: the merged communicator; false in any other. */
bool ftk_supply_is_spawned(void);
int ftk_supply_join(MPI_Comm *merged, uint64_t *job);

/* Collective over act: a census of level.memory and a plan by it, which is the caller's to free.
 * An error with a channel that is not broken is one of this rank alone. */
int ftk_plan_again(struct ftkit_ctx *ctx, struct ftk_chan *ch, struct ftk_plan *p);
/* Make the set of the plan whole in mem: transfer, then rebuild. */
int ftk_complete(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, const struct ftk_plan *p);

/* Move segments so that every rank has its own of the line, and make missing copies. */
int ftk_transfer(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, const struct ftk_plan *p);

/* Rebuild what is lost of the line from the parity of its groups. */
int ftk_rebuild(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, const struct ftk_plan *p);

/* A segment of the line that this rank needs does not hold, as the detail says: release it,
 * so that the next plan takes another copy, FTKIT_ERR_CORRUPT.  When what comes in its place
 * does not hold either, again and again (parity may be of other data), the set is given up in
 * memory, for the second level or files; when these do not hold here: FTKIT_ERR_LOST. */
int ftk_drop_own(struct ftkit_ctx *ctx, struct ftk_mem_seg *s);

/* Collective over act: compare every segment in memory with its checksums, put right what
 * can be.  *bad: how many of this rank did not hold. */
int ftk_scrub(struct ftkit_ctx *ctx, struct ftk_chan *ch, int *bad);

/* Collective over act: distribute the line of ctx->repair.line_nranks ranks over the regions of
 * the ranks there are now. */
int ftk_redistribute(struct ftkit_ctx *ctx);

#endif
