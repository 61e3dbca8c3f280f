/* The context: the state that the modules of ftkit share.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_CONTEXT_H
#define FTK_CONTEXT_H

#include "config.h"
#include "identity.h"
#include "memory_kinds.h"
#include "set/flush.h"
#include "set/increment.h"
#include "set/level.h"
#include "set/status_file.h"
#include "set/steer.h"
#include "type.h"

struct ftk_escape;
struct ftk_system_region;

/* A region of the program. */
struct ftk_region {
    char name[64];
    uint32_t kind; /* enum ftk_region_kind */
    struct ftk_type type;
    void *data;
    size_t count;
    enum ftk_memory_kind memory; /* of data; of a growing region: when it was last looked at */
    void *stream;                /* of a device, to wait for; NULL: all work there */
    /* global arrays */
    int ndims;
    size_t global[FTKIT_DIMS_MAX];
    size_t local[FTKIT_DIMS_MAX];
    size_t start[FTKIT_DIMS_MAX];
    size_t halo[FTKIT_DIMS_MAX];
    ftkit_container box;  /* growing regions: where the items are (set/region.h) */
    ftkit_serializer ops; /* serializers */
    void *arg;            /* of these functions */
    int compare;          /* FTKIT_COMPARE_EXACT or FTKIT_COMPARE_OFF */
    const struct ftk_system_region *system; /* NULL: of the program (set/region.h) */
    void *owned;                            /* freed with the region; or NULL */
};

/* The place of a rank in the program.  It is in the census, and decides what a repair may do. */
enum ftk_where {
    FTK_IN_OPEN,   /* in ftkit_open(), as all spares are */
    FTK_IN_SETUP,  /* before the end of ftkit_recover() */
    FTK_IN_LOOP,   /* after ftkit_recover() */
    FTK_IN_CLOSE,  /* in ftkit_close() */
    FTK_ALL_CLOSED /* the rank knows that every working rank is in ftkit_close() */
};

/* How the regions of this rank get their contents: in its next ftkit_recover(), or at once if the
 * rank is in its loop. */
enum ftk_pending {
    FTK_PENDING_NONE,   /* nothing to do */
    FTK_PENDING_LOAD,   /* collective: look for a set in slots, in level.local and in files */
    FTK_PENDING_FRESH,  /* other ranks run from the initial state: nothing to load */
    FTK_PENDING_LINE,   /* restore the line */
    FTK_PENDING_SHRUNK, /* collective: distribute the line over another number of ranks */
    FTK_PENDING_CLONE   /* this plane stands still: the next set gives it the state of another */
};

/* Where a segment of the line was found, if not at another rank. */
enum ftk_line_from {
    FTK_LINE_SELF = -1,
    FTK_LINE_PARITY = -2,
    FTK_LINE_SLOT = -3, /* the memory of earlier processes */
    FTK_LINE_LOCAL = -4,
    FTK_LINE_FILES = -5
};

/* The communicators of one epoch.  A repair makes those of the next epoch.  The old communicators
 * are kept until the following repair is over: late events of the MPI may still refer to them. */
struct ftk_comms {
    MPI_Comm ctl; /* every live process: working ranks first, then spares */
    MPI_Comm act; /* the working ranks, for ftkit's own traffic */
    MPI_Comm app; /* the same ranks, the program's */
};

#define FTK_TRACKED_MAX 64
#define FTK_VOTE_INTS 11 /* see struct ftk_vote */
#define FTK_BOUND_MAX 16

/* A variable of the program that holds the resilient communicator: one of these. */
struct ftk_bound {
    MPI_Comm *c;
    MPI_Fint *fortran;
};

struct ftk_comm_list {
    MPI_Comm *comm; /* [n] */
    int n;
};

/* Communicators of earlier epochs (core/epoch.c), freed one repair later: late events of the MPI
 * may still refer to them.  Those that the program had are freed with the context: the program may
 * have kept a handle, and the MPI gives the handle of a freed communicator to a new one. */
struct ftk_retired {
    struct ftk_comm_list ours;
    int older; /* this many, from the first on, were retired before the last repair was over */
    struct ftk_comm_list app;
};

/* The communicator that the program has used last although it was older than the last repair
 * (detect/misuse.c). */
struct ftk_stale {
    MPI_Comm comm;
    int times;          /* in a row, without a new set and without a lost rank */
    uint64_t committed; /* the newest set, and the processes lost, at that time */
    int64_t lost;
};

/* Detection of failures (lib/detect). */
struct ftk_detection {
    MPI_Request watch; /* pending any-source receive on ctl */
    int watch_buf;
    double watch_s;      /* when the watch ended with an error; 0: it has not ended */
    volatile int failed; /* a failure is known and not repaired */
    double polled_s;     /* when the watch was last tested */
    bool app_errors;     /* a call of the program has failed since the last repair */
    bool repairing;      /* inside ftk_repair(): errors of MPI are expected */
    /* buffers of votes: in the context, because the rest of an all-reduce that ended with an error
     * may still write into them */
    int64_t vote_in[2][FTK_VOTE_INTS];
    int64_t vote_out[2][FTK_VOTE_INTS];
    int votes;                         /* under way: 0 or 1, and 2 for a moment */
    MPI_Comm tracked[FTK_TRACKED_MAX]; /* [ntracked] of the program, revoked at a failure */
    int ntracked;
    MPI_Group past; /* members of ctl in earlier epochs; MPI_GROUP_NULL: none */
    struct ftk_stale stale;
};

/* The registered regions (lib/set/region.c). */
struct ftk_regions {
    struct ftk_region *list; /* [n] */
    int n;
    bool compared;   /* with those of the other ranks, and not changed since (lib/set/shapes.c) */
    bool warned;     /* a difference was reported, and is still there */
    bool by_program; /* the programs of the job have different regions; the same on all ranks */
};

/* The callback of ftkit_on_repair() (lib/recover/restore.c). */
struct ftk_callback {
    ftkit_repair_fn *fn;
    void *arg;
    bool done;    /* with the log: it has succeeded in this process */
    bool running; /* this process is inside the callback */
};

#define FTK_COSTS 5 /* sets whose costs the automatic period looks at */

/* When a set is due (lib/set/policy.c). */
struct ftk_policy {
    uint64_t calls;      /* of ftkit_checkpoint() */
    uint64_t made;       /* calls of this process; no rollback takes one back */
    uint64_t next_event; /* the call at which a set may be due, and all ranks decide */
    double last_set_s;
    double last_durable_s;
    uint64_t sets_since_durable;
    uint64_t last_look_call;
    double last_look_s;
    double durable_cost_s;
    double costs_s[FTK_COSTS]; /* [ncosts] of the last sets, the newest first */
    int ncosts;
    int requested;       /* 1: a set, 2: a durable set, at the next call */
    int early;           /* the same, asked for after a restore and before the first call */
    uint64_t line_calls; /* with the log: .calls at the line */
    bool failed;         /* a set has failed since the last one: the next is due after a period */
    int refused;         /* tries in a row that a request under way has prevented */
    uint64_t set_at;     /* with a period in calls: the call that writes the next set */
    double look_s;       /* time between two looks, of rank 0 */
    double call_s;       /* time between two calls, of rank 0 */
    double wait_s;       /* how long this rank has waited in its last look */
    uint64_t log_held;   /* most bytes of its log that a rank held at the last look */
};

/* The weight of a repair after the loss of a rank, see weight_of() in lib/recover/plan_ends.c. */
enum { FTK_REPEAT = 4 };
/* Deaths of one rank at the same call that end the job. */
enum { FTK_DEATHS = 3 };

/* A repair spawns no more processes after this number of failures in a row. */
enum { FTK_SPAWNS = 3 };

/* Repairs in a row to the same set. */
struct ftk_repeats {
    uint64_t of;    /* the set */
    int weight;     /* sum of their weights */
    int deaths;     /* the last ones, of one rank alone and at the same call; 0: another reason */
    int rank;       /* that rank */
    uint64_t calls; /* most calls of ftkit_checkpoint() of a survivor, at the last death */
};

/* The line to restore, and the history of repairs (lib/recover). */
struct ftk_repair_state {
    int pending;         /* enum ftk_pending */
    uint64_t line;       /* set to restore, with FTK_PENDING_LINE or FTK_PENDING_SHRUNK */
    int line_nranks;     /* number of ranks that wrote the line */
    bool line_from_file; /* a segment is not in memory: load the line from slots or files */
    bool line_unusable;  /* a rank has given up the line in memory: slots are not used */
    int *line_source;    /* [line_nranks] rank that has each segment, for FTK_PENDING_SHRUNK */
    bool line_passed;    /* a rank has made the call of ftkit_checkpoint() that wrote the line */
    int line_from;       /* where this rank's segment was found: a rank, or enum ftk_line_from */
    int local_error;     /* of this rank in the last attempt to repair: ftk_repair_flaw() */
    char local_why[FTK_DETAIL_MAX]; /* ... its detail */
    int differs;                    /* enum ftk_differs */
    bool ambiguous;   /* that attempt found an ambiguous match: all ranks have to roll back */
    bool spawned;     /* this process was started by a repair */
    int spawn_failed; /* failed spawns in a row; FTK_SPAWNS: spawning does not work here */
    struct ftk_repeats repeats;
    int corrupt;        /* own damaged segments since the last set, see ftk_drop_own() */
    uint64_t unusable;  /* the set that this rank has given up in memory; 0: none */
    uint64_t announced; /* the newest set that an attempt to repair has announced as committed */
    struct ftk_failures *failures; /* recover/failures.c; NULL: no epoch yet */
    struct marking *start; /* rank 0: the arguments at the start (recover/finished.c); or NULL */
};

/* Whose regions differ from those of other replicas of the same rank: in the census. */
enum ftk_differs {
    FTK_DIFFERS_NOT,
    FTK_DIFFERS_HERE, /* those of this rank: its team goes back */
    FTK_DIFFERS_ALL   /* the same set differs again: all ranks go back */
};

/* Whether this rank will come to a call of ftkit_checkpoint() that writes a set: in the census. */
enum ftk_sets {
    FTK_SETS_COME,
    FTK_SETS_LATER, /* not together with other ranks: it is in another collective call of ftkit, or
                       repeats such calls */
    FTK_SETS_OVER   /* it has come to the end of its loop, or the job halts */
};

/* Replicas (lib/set/replicas.c, lib/set/clone.c). */
struct ftk_replica_state {
    int tries;     /* sets of this rank that differed since the line was committed */
    uint64_t line; /* that line: with another one tries count as 0 */
    uint64_t found, corrected;
    unsigned stale; /* bit p: plane p stands still until the next set */
    int shared;     /* replicas on a node of another one of their rank; reported when it grows */
    enum ftk_sets sets;
    int place; /* enum ftk_dog_place: the call of ftkit in which this rank is, or was last */
    uint64_t takeovers, clones;
};

/* One program of a job of several. */
struct ftk_program {
    int32_t ranks;       /* working ranks, when the job began */
    int32_t appnum;      /* MPI_APPNUM of its first process */
    uint32_t executable; /* hash of the name of the executable */
    uint32_t command;    /* ftk_command_hash() */
};

/* A job of several programs, `mpirun a : b` (lib/recover/programs.c).  All of it but `own`,
 * `position` and `appnum` is the same on all processes. */
struct ftk_programs {
    int n;                    /* 0: the job has one program */
    int own;                  /* number of the program of this process, from 0 */
    int position;             /* of this process among those of its program, when the job began */
    int appnum;               /* MPI_APPNUM for this process, if a repair has spawned it; else 0 */
    bool mixed;               /* the processes were not in the order of the programs */
    struct ftk_program *list; /* [n] */
    int *of;                  /* [nof] program of each rank of this epoch; nof 0: no epoch yet */
    int nof;
    char *commands; /* [bytes] of all programs, in their order: ftk_command_write() */
    size_t bytes;
    char directory[FTK_PATH_MAX]; /* relative paths of the configuration are below; "": the
                                     working directory of each process */
};

/* The number of programs of the job. */
static inline int ftk_programs_count(const struct ftk_programs *p)
{
    return p->n > 0 ? p->n : 1;
}

/* A loop with ftkit_step() (lib/step.c). */
struct ftk_loop {
    enum { FTK_LOOP_NONE, FTK_LOOP_BODY, FTK_LOOP_LAST, FTK_LOOP_OVER } at;
    bool changed;  /* the regions have changed since the body was entered: a restore or a start */
    int owed;      /* an error that gave way to another code: the code of the next entry */
    int32_t fresh; /* region "ftkit.step"; 1: the state is that of the first step */
};

/* Figures for ftkit_query(). */
struct ftk_stats {
    int repairs;
    int rollbacks;
    size_t region_bytes;
    double checkpoint_s;
    double repair_s; /* of the last repair, and its parts */
    double detect_s;
    double supply_s;
    double rebuild_s;
    double restore_s;
};

enum ftk_course_phase {
    FTK_COURSE_FORWARD,
    FTK_COURSE_REPLAY,  /* this rank makes calls again */
    FTK_COURSE_CATCH_UP /* it has made them all, and is on the way to the next one */
};

/* The course of the calls of ftkit_checkpoint() since the line (lib/set/course.c).  Calls are
 * counted from the line on, unless the text says otherwise. */
struct ftk_course {
    bool on;           /* since a line of this process, or of the one before it */
    bool goes_back;    /* this rank has to restore the line */
    int phase;         /* enum ftk_course_phase */
    uint64_t set;      /* of the line */
    uint64_t line;     /* calls at the line, as struct ftk_policy counts */
    uint64_t far;      /* the last call, or in a replay the last one before the failure */
    double far_s;      /* how long the program took from the line to that call */
    double base_s;     /* the time of the line, later by repairs and replays */
    double restored_s; /* in a replay: when it began, later by repairs */
    double replayed_s; /* in the catch-up: when the replay was over */
    double replay_s, replay_forward_s; /* of the last replay that is over */
    uint64_t replay_calls;
    double catch_up_s; /* behind that replay; 0: it is not over, or a failure has ended it */
};

/* A context.  open.c, loop.c and the repair use all parts. */
struct ftkit_ctx {
    struct ftk_config cfg;
    struct ftk_identity identity; /* the same on all ranks, see share_identity() */
    int mode;                     /* enum ftkit_mode in force */
    char detail[FTK_DETAIL_MAX];
    const struct ftk_log_ops *log; /* NULL: no message log */
    struct ftkit_ctx *next;        /* list of open contexts, see detect.c */

    /* this process and the others */
    int rank; /* logical rank, -1 for a spare */
    int nranks;
    int nspares;
    int incarnation;
    int node;          /* failure domain of this process */
    int *domain;       /* [nranks] failure domain of each rank's process */
    int *teams;        /* [nranks] team of each rank as log.team_list or log.team_file has it, for
                              the opening; NULL: another rule, or a spawned process.  The teams in
                              force: ftk_log_teams() */
    int *incarnations; /* [nranks] incarnation of each rank */
    uint64_t run;      /* number of the run that began the sequence of sets */
    uint64_t job;      /* number of the job, in the name of the watchdog's page */
    uint64_t epoch_id; /* random number of this epoch */
    int epoch;         /* repairs so far */
    MPI_Comm base;     /* duplicate of MPI_COMM_SELF with the error handler of the caller's comm */
    struct ftk_comms comms;
    struct ftk_retired retired;
    struct ftk_bound bound[FTK_BOUND_MAX]; /* [nbound] */
    int nbound;

    /* state of the protocol */
    int where;          /* enum ftk_where */
    int dead;           /* 0, or the error after which only ftkit_close() is left */
    uint64_t committed; /* newest set known to be committed on every rank */
    uint64_t next_set;  /* number of the next set */
    uint64_t durable;   /* newest set known to be complete in files; 0: none */
    uint64_t restored;  /* set that the regions were restored to; 0: none */
    bool first_call;    /* the next ftkit_checkpoint() is the first after a restore or a start */
    bool called;        /* a call of ftkit_checkpoint() has returned since a fresh start */
    uint64_t state_sum; /* checksum of the replicated regions at that time, or at the line */

    /* parts of modules; docs/design/core.md has the owner of each field */
    struct ftk_detection detect;
    struct ftk_regions regions;
    struct ftk_callback callback;
    struct ftk_policy policy;
    struct ftk_steer steer;
    struct ftk_status_file status;
    struct ftk_repair_state repair;
    struct ftk_replica_state replica;
    struct ftk_loop loop;
    struct ftk_programs programs;
    struct ftk_stats stats;
    struct ftk_level level[FTK_LEVELS];
    struct ftk_flush flush;
    struct ftk_increment increment;
    struct ftk_escape
        *escape;  /* the body of ftkit_escape() that runs; NULL: none (core/escape.c) */
    bool serving; /* inside a collective call of ftkit */
    struct ftk_watchdog *dog;
    struct ftk_course course;
    struct ftk_unit *units;    /* of ftkit_unit() (core/unit.c) */
    struct ftk_energy *energy; /* on the lowest rank of a node with sensors; else NULL */
    struct ftk_owner *owner;   /* keeps the record that the sets are of this job; may be NULL */
};

/* The last step of a public call: copy the thread's detail into the context if rc is an error, and
 * return rc.  When the context has ended, the detail keeps the first cause, and in the loop an
 * error after which a program might continue (above FTKIT_ERR_CORRUPT) becomes FTKIT_ERR_ENDED. */
int ftk_done(struct ftkit_ctx *ctx, int rc);
/* This rank meets rc, with the thread's detail, which the plan of the next repair ends the job for;
 * FTKIT_OK: nothing. */
void ftk_repair_flaw(struct ftkit_ctx *ctx, int rc);

/* This rank comes to a place in the program, and does not return to an earlier one. */
static inline void ftk_context_reach(struct ftkit_ctx *ctx, enum ftk_where where)
{
    if (ctx->where < (int)where)
        ctx->where = (int)where;
}

/* The mode that is in force from now on. */
static inline void ftk_context_mode(struct ftkit_ctx *ctx, enum ftkit_mode mode)
{
    ctx->mode = (int)mode;
}

/* The context ends with the error rc, which the function returns: only ftkit_close() is left. */
static inline int ftk_context_end(struct ftkit_ctx *ctx, int rc)
{
    return ctx->dead = rc;
}

/* Write the communicator into a variable of the program. */
void ftk_bound_set(const struct ftk_bound *b, MPI_Comm comm);

/* Check that ctx is not NULL: FTKIT_ERR_ARG.  call: the public call, for the detail. */
int ftk_check_open(const struct ftkit_ctx *ctx, const char *call);
/* Check also that the context has not ended: FTKIT_ERR_ENDED, the detail is the first cause. */
int ftk_check_ctx(const struct ftkit_ctx *ctx, const char *call);

#endif
