/* What the parts of the ftkit program share.  No MPI in here: the program starts jobs, it
 * is not one.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_H
#define FTKIT_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "core/ftk.h"

/* Exit codes of the program; a signal is 128 + its number. */
enum { TOOL_OK = 0, TOOL_FAIL = 1, TOOL_USAGE = 2, TOOL_TIMEOUT = 124, TOOL_NO_EXEC = 127 };

/* ---- Subcommands ------------------------------------------------------------------------
 * argv[0] is the name of the command, the result an exit code. */
int ftk_run_main(int argc, char **argv);
int ftk_emulate_agent(int argc, char **argv); /* hidden: see emulate.c */
void ftk_run_usage(FILE *out);

/* ---- Lists of strings, ended by NULL ----------------------------------------------------
 * A start-up tool has nothing better to do without memory than to say so and end. */
struct ftk_list {
    char **v;
    size_t n, room; /* n < room, v[n] == NULL once something was added */
};
void ftk_list_add(struct ftk_list *l, const char *fmt, ...) FTK_PRINTF(2, 3);
void ftk_list_free(struct ftk_list *l);
/* Whether it has the first len bytes of text; add them, unless they are none or there. */
bool ftk_list_has(const struct ftk_list *l, const char *text, size_t len);
void ftk_list_add_once(struct ftk_list *l, const char *text, size_t len);
void *ftk_tool_alloc(size_t bytes);
/* An array of items with room for one more than n: the same, or a larger one. */
void *ftk_tool_grow(void *v, size_t n, size_t *room, size_t item);
/* "ftkit run: ..." on standard error */
void ftk_run_say(const char *fmt, ...) FTK_PRINTF(1, 2);

/* ---- What `ftkit run` is asked for, and what it makes of it -------------------------- */
struct ftk_run {
    int ranks;             /* working ranks, >= 1 */
    int spares;            /* -1 until it is known */
    int emulate;           /* emulated nodes, 0: none */
    int relaunch;          /* relaunches without progress */
    double timeout_s;      /* of the whole run, 0: none */
    double init_timeout_s; /* for a context to be opened once a rank's process is gone */
    uint64_t id;           /* names what the attempts leave to each other in memory */
    const char *mpirun;    /* path, or a name to look up in PATH */
    struct ftk_list extra; /* arguments for mpirun behind ours */
    char **program;        /* and its arguments, ended by NULL */
    bool verbose, print;
    bool log;          /* with the message log, through a preloaded libftkit_mpi */
    const char *start; /* recover.start at first: "fresh" or a set, NULL: not given */
    bool resumes;      /* a set of this run is durable: go on from the newest */
    /* made by ftk_mpirun_plan() */
    int total;                /* processes to start: ranks + spares */
    int nodes;                /* nodes the job will use, as far as we can see */
    int ranks_per_node;       /* of simulated domains, 0: real host names tell */
    bool crowded;             /* more processes than cores */
    bool tells;               /* mpirun tells in the state file how processes end */
    struct ftk_list gone;     /* nodes that did not answer before this attempt */
    char dir[FTK_PATH_MAX];   /* our files for this run */
    char layer[FTK_PATH_MAX]; /* libftkit_mpi, "" without log */
};

/* ---- options.c: the command line ----------------------------------------------------- */
/* Fill the first half of *r; 0 or an exit code after a message. */
int ftk_run_parse(struct ftk_run *r, int argc, char **argv);

/* ---- mpirun.c: the run profile ------------------------------------------------------- */
bool ftk_mpirun_ulfm(void); /* built for an MPI with ULFM */
/* Fill the second half of *r; 0 or an exit code after a message. */
int ftk_mpirun_plan(struct ftk_run *r);
/* Command and "NAME=value" settings for one attempt. */
void ftk_mpirun_command(const struct ftk_run *r, struct ftk_list *cmd);
void ftk_mpirun_environment(const struct ftk_run *r, int attempt, struct ftk_list *env);
/* In the child that becomes mpirun: its lines go to this file.  0, or -1 and errno. */
int ftk_mpirun_tell(const char *state);
void ftk_mpirun_state_path(const struct ftk_run *r, int attempt, char path[FTK_PATH_MAX]);

/* ---- emulate.c: several nodes on one machine ----------------------------------------- */
/* Whether this process may make the name spaces it takes; if not, why is its errno. */
bool ftk_emulate_possible(int *why);
/* Hosts file and agent in r->dir; 0 or an exit code after a message. */
int ftk_emulate_files(const struct ftk_run *r);
/* In the child that becomes mpirun: see the node names.  0, or -1 and errno. */
int ftk_emulate_enter(const struct ftk_run *r);
/* Arguments for mpirun: agent, hosts with their slots, mapping. */
void ftk_emulate_arguments(const struct ftk_run *r, struct ftk_list *cmd);
void ftk_emulate_names(const struct ftk_run *r, struct ftk_list *names);
void ftk_emulate_remove(const struct ftk_run *r); /* the nodes' shared memory */

/* ---- nodes.c: which nodes are there -------------------------------------------------- */
/* The nodes that the arguments for mpirun name, in --host or a hostfile. */
void ftk_nodes_named(const struct ftk_list *extra, struct ftk_list *names);
/* Before a relaunch: ask every node for a sign of life, and leave out those without. */
void ftk_nodes_look(struct ftk_run *r);
/* The arguments for mpirun without them. */
void ftk_nodes_arguments(const struct ftk_run *r, struct ftk_list *cmd);

/* ---- process.c: everything below this process ---------------------------------------- */
struct ftk_proc {
    pid_t pid, ppid;
    char name[32];
    char state;
    double cpu_s;
    unsigned long long start; /* with pid: never the same again */
    int status;               /* of a zombie, as from waitpid() */
    long rank;                /* -1: not a rank, or not read */
    long local_size;          /* ranks on its node, -1: not known */
    bool ours;
};
bool ftk_proc_read(pid_t pid, struct ftk_proc *p); /* false: there is none */
/* All processes below us, *out for free(). */
size_t ftk_proc_list(struct ftk_proc **out);
void ftk_proc_rank(struct ftk_proc *p); /* fill in rank and local_size; not of zombies */
bool ftk_proc_self_is_rank(void);       /* then everything below us seems to be one */
/* Become the parent of every orphan below us; what exists already is not ours to end. */
int ftk_tree_init(void);
/* Give the processes below us grace_s to end, SIGKILL the rest, reap all and remove what
 * they leave.  Returns how many had to be killed, or -1 when some cannot be. */
int ftk_tree_end(double grace_s);
/* Reap what has ended, and the status of a process that was: -1: it was not. */
void ftk_tree_reap(void);
int ftk_tree_status(pid_t pid);
/* Show where each rank is; whole: and every process with state and backtrace. */
void ftk_tree_dump(FILE *out, bool whole);

/* ---- ranks.c: whether the processes of the ranks are there --------------------------- */
enum ftk_ranks_news {
    FTK_RANKS_WELL,
    FTK_RANKS_LOST, /* one ended, nothing was opened, the others get nowhere */
    FTK_RANKS_GONE  /* all have ended, mpirun has not */
};
struct ftk_ranks;
struct ftk_ranks *ftk_ranks_begin(const struct ftk_run *r); /* of one attempt */
void ftk_ranks_end(struct ftk_ranks *w);
/* To be called often: it looks when it is time to.  opened: a context was. */
enum ftk_ranks_news ftk_ranks_look(struct ftk_ranks *w, bool opened);
bool ftk_ranks_coming(const struct ftk_ranks *w); /* some may not have been seen yet */
/* FTK_RANKS_LOST: a rank whose process is gone, -1 when its number is not known. */
long ftk_ranks_lost(const struct ftk_ranks *w);
/* FTK_RANKS_GONE: a status as from waitpid(), not 0 if one of them had such a one; -1
 * when it is not known. */
int ftk_ranks_status(const struct ftk_ranks *w);
/* Of the ranks that became our children when mpirun was gone: a status that is not 0, 0, or
 * -1: not all of the job's processes are known to have been on this node. */
int ftk_ranks_orphans(const struct ftk_ranks *w);
int ftk_ranks_orphans_well(const struct ftk_ranks *w); /* how many ended with 0 */
int ftk_ranks_total(const struct ftk_ranks *w);        /* processes of the job */

/* ---- litter.c: what processes of Open MPI leave when they are killed ----------------- */
void ftk_litter_note(pid_t pid, bool alive); /* alive, or just reaped */
void ftk_litter_remove(void);                /* of all noted, when they are gone */
void ftk_litter_tree(const char *path);      /* a directory and all in it */
void ftk_litter_slots(uint64_t id);          /* of this run on this node, in shared memory */

#endif
