/* Declarations that the parts of the ftkit program share.  The program starts MPI jobs, but does
 * not use MPI itself.
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
enum {
    TOOL_OK = 0,
    TOOL_FAIL = 1,
    TOOL_USAGE = 2,
    TOOL_HALTED = 75, /* EX_TEMPFAIL of sysexits.h: start it again */
    TOOL_TIMEOUT = 124,
    TOOL_NO_EXEC = 127
};

/* ---- Subcommands ------------------------------------------------------------------------
 * argv[0] is the name of the command; the result is an exit code. */
int ftk_run_main(int argc, char **argv);
int ftk_emulate_agent(int argc, char **argv); /* hidden: see emulate.c */
int ftk_slurm_agent(int argc, char **argv);   /* hidden: see slurm.c */
void ftk_run_usage(FILE *out);
int ftk_config_main(int argc, char **argv);
void ftk_config_usage(FILE *out);

/* ---- usage.c: errors of the command line ------------------------------------------------
 * Everything about the options of a command is in the text that its usage function prints. */
typedef void ftk_usage_fn(FILE *out);
struct option; /* of getopt.h */
struct ftk_list;
/* Print "ftkit <command>: ...", the synopsis, and the command that explains the options.  The
 * result is TOOL_USAGE. */
int ftk_usage_wrong(ftk_usage_fn *usage, const char *fmt, ...) FTK_PRINTF(2, 3);
/* The same for an option that the command does not have; names the nearest option. */
int ftk_usage_unknown(ftk_usage_fn *usage, const char *option);
/* getopt_long() that prints such messages; '?': after a message.  shorts has ':' in front, or
 * after a leading '+'. */
int ftk_usage_getopt(
    ftk_usage_fn *usage, int argc, char **argv, const char *shorts, const struct option *longs);
bool ftk_usage_has(ftk_usage_fn *usage, const char *option);
/* Parse a whole number of decimal digits alone; false: text is none, or is too large. */
bool ftk_usage_number(const char *text, uint64_t *n);
/* The word of the list that word was probably meant to be, or NULL. */
const char *ftk_usage_nearest(const char *word, const struct ftk_list *l);
const char *ftk_command_with(const char *option); /* a command that has the option, or NULL */

/* ---- Lists of strings, ended by NULL ----------------------------------------------------
 * When there is no memory, these functions print a message and end the program. */
struct ftk_list {
    char **v;
    size_t n, room; /* n < room, v[n] == NULL once something was added */
};
void ftk_list_add(struct ftk_list *l, const char *fmt, ...) FTK_PRINTF(2, 3);
void ftk_list_free(struct ftk_list *l);
/* Whether one of the strings is equal to the first len bytes of text. */
bool ftk_list_has(const struct ftk_list *l, const char *text, size_t len);
/* Add the first len bytes of text, unless len is 0 or the list has this string. */
void ftk_list_add_once(struct ftk_list *l, const char *text, size_t len);
void *ftk_tool_alloc(size_t bytes); /* zeroed */
char *ftk_tool_join(char **words);  /* words, ended by NULL, with blanks between them */
/* Make room for one more item than n in the array v of items: returns v, or a larger copy. */
void *ftk_tool_grow(void *v, size_t n, size_t *room, size_t item);
/* "ftkit run: ..." on standard error */
void ftk_run_say(const char *fmt, ...) FTK_PRINTF(1, 2);

/* ---- The options of `ftkit run`, and the plan that follows from them ----------------- */
/* One of the programs of a job: `ftkit run -n 2 a : -n 2 b`. */
struct ftk_part {
    int ranks;
    int spares;              /* -1 until it is known */
    struct ftk_list options; /* of mpirun, for this program only; of the first one: ftk_run.extra */
    const char *preload;     /* -x LD_PRELOAD=... with the log, NULL: not given */
    char **argv;             /* [argc] the program and its arguments */
    int argc;
};

struct ftk_run {
    int ranks;              /* working ranks of all programs, >= 1 */
    int replicas;           /* of each rank; 0: not given */
    int spares;             /* of all programs; before ftk_mpirun_plan(): of each that names no
                              other number, -1: not given */
    int emulate;            /* emulated nodes, 0: none */
    int relaunch;           /* relaunches in a row without progress, at most */
    double timeout_s;       /* of the whole run, 0: none */
    double halt_timeout_s;  /* for a program to end after FTKIT_HALT */
    double init_timeout_s;  /* from the end of a rank's process until a context is opened */
    uint64_t id;            /* in the names of objects in memory that later attempts use */
    const char *mpirun;     /* path, or a name to look up in PATH */
    struct ftk_list extra;  /* arguments for mpirun behind ours */
    char **program;         /* with its arguments, and further programs, ended by NULL */
    struct ftk_part *parts; /* [nparts] the programs, at least one */
    int nparts;
    bool verbose, print;
    bool log;            /* with the message log, through a preloaded libftkit_mpi */
    const char *preload; /* the value of -x LD_PRELOAD=..., which is not in extra then; or NULL */
    const char *start;   /* recover.start: "fresh", "continue" or a set; NULL: not given */
    bool older;          /* the next attempt passes over the newest set */
    bool resumes;        /* a set of this run is durable: start from the newest, not from start */
    /* faults to inject (kill.h), NULL: none */
    struct ftk_kills *kills;
    /* made by ftk_mpirun_plan() */
    int total;                /* processes to start: ranks + spares */
    int nodes;                /* nodes that the job will use, as far as is known */
    int ranks_per_node;       /* size of simulated domains; 0: host names define the domains */
    bool crowded;             /* more processes than hardware threads */
    bool over_slots;          /* more processes than cores, which mpirun takes for slots */
    bool reports;             /* mpirun writes into the state file how processes end */
    bool survives_nodes;      /* mpirun goes on when a node is lost */
    int node_timeout_s;       /* recover.node_timeout, in whole seconds */
    struct ftk_list gone;     /* nodes that did not answer before this attempt */
    struct ftk_list slurm;    /* nodes of the Slurm job on which srun starts daemons */
    char dir[FTK_PATH_MAX];   /* our files for this run */
    char layer[FTK_PATH_MAX]; /* libftkit_mpi, "" without log */
};

/* ---- options.c: the command line ----------------------------------------------------- */
/* Fill the first half of *r; 0 or an exit code after a message. */
int ftk_run_parse(struct ftk_run *r, int argc, char **argv);
/* Read a number from min to a million.  what: the option.  0 or an exit code after a message. */
int ftk_run_count(const char *what, const char *text, int min, int *out);
/* Whether arg is an option of this name, with one dash or two; *value: behind its =, or NULL. */
bool ftk_run_is_option(const char *arg, const char *name, const char **value);

/* ---- parts.c: jobs of several programs ------------------------------------------------- */
/* Read r->program into r->parts; the first one has r->ranks ranks, and then r->ranks becomes the
 * number of all.  0 or an exit code after a message. */
int ftk_parts_parse(struct ftk_run *r);
void ftk_parts_free(struct ftk_run *r);
/* Choose the spares of each program, and set r->spares to the number of all.  fixed: the number
 * that FTKIT_SPARES_COUNT demands, -1: none.  0 or an exit code after a message. */
int ftk_parts_spares(struct ftk_run *r, int fixed);
/* Refuse variables of -x that `ftkit run` sets.  text: NAME or NAME=value.  0 or an exit code after
 * a message. */
int ftk_parts_check_export(const char *text);
/* mpirun could start no process: say which directories of --wdir are missing here, or may be
 * missing on another node. */
void ftk_parts_say_directories(const struct ftk_run *r);
/* Add the programs to the command of mpirun. */
void ftk_parts_arguments(const struct ftk_run *r, struct ftk_list *cmd);

/* ---- run_log.c: the event log ---------------------------------------------------------- */
/* --events: set FTKIT_REPORT_EVENTS to the absolute path.  0 or an exit code after a message. */
int ftk_run_log_option(const char *directory);
void ftk_run_log_open(void); /* as FTKIT_REPORT_EVENTS says */
void ftk_run_log_attempt(const struct ftk_run *r, int attempt);
/* The attempt has ended; again: another one follows. */
void ftk_run_log_attempt_end(int attempt, const char *how, bool again);
void ftk_run_log_end(int code);

/* ---- runtime.c: what the runtime of MPI can do ----------------------------------------- */
/* Whether jobs of this mpirun, as `ftkit run` starts them with these options for mpirun, go on when
 * a node is lost. */
bool ftk_runtime_survives_nodes(const char *mpirun, const struct ftk_list *options);

/* The same for the mpirun that ftkit was built with, without options. */
bool ftk_runtime_repairs_nodes(void);
/* recover.node_timeout in whole seconds; 0, or an exit code after a message. */
int ftk_runtime_node_timeout(int *seconds);
/* Add the parameters of mpirun by which it survives the loss of a node, and by which a silent node
 * counts as lost; those of the user stay. */
void ftk_runtime_survive(const struct ftk_run *r, struct ftk_list *cmd);

/* ---- mpirun.c: the run profile ------------------------------------------------------- */
bool ftk_mpirun_ulfm(void);                  /* built for an MPI with ULFM */
int ftk_mpirun_spares(int ranks, int nodes); /* their number unless the user gives it */
/* Whether the user's arguments set a parameter of MPI: mpirun would join two values of one. */
bool ftk_mpirun_users(const struct ftk_list *extra, const char *name);
void ftk_mpirun_setting(
    struct ftk_list *cmd, const char *option, const char *name, const char *value);
/* Fill the second half of *r; 0 or an exit code after a message. */
int ftk_mpirun_plan(struct ftk_run *r);
/* Command and "NAME=value" settings for one attempt. */
void ftk_mpirun_command(const struct ftk_run *r, struct ftk_list *cmd);
/* The -x options of a program: for mpirun they hold for one program only. */
void ftk_mpirun_variables(const struct ftk_run *r, int part, struct ftk_list *cmd);
void ftk_mpirun_environment(const struct ftk_run *r, int attempt, struct ftk_list *env);
/* Print them as a line for a shell. */
void ftk_mpirun_show(FILE *out, const struct ftk_run *r, int attempt);
/* In the child that becomes mpirun: direct the lines of mpirun into the file state.  0, or -1
 * and errno. */
int ftk_mpirun_note(const char *state);
void ftk_mpirun_state_path(const struct ftk_run *r, int attempt, char path[FTK_PATH_MAX]);

/* ---- cores.c: cores and hardware threads that this process may use --------------------- */
int ftk_cores(void);
int ftk_cores_threads(void);

/* ---- emulate.c: several nodes on one machine ----------------------------------------- */
/* Whether this process may make the name spaces that are needed; if not, *why is an errno. */
bool ftk_emulate_possible(int *why);
/* Make the hosts file and the agent in r->dir; 0 or an exit code after a message. */
int ftk_emulate_files(const struct ftk_run *r);
/* In the child that becomes mpirun: make the names of the nodes visible.  0, or -1 and errno. */
int ftk_emulate_enter(const struct ftk_run *r);
/* Arguments for mpirun: agent, hosts with their slots, mapping. */
void ftk_emulate_arguments(const struct ftk_run *r, struct ftk_list *cmd);
void ftk_emulate_names(const struct ftk_run *r, struct ftk_list *names);
void ftk_emulate_remove(const struct ftk_run *r); /* the nodes' shared memory */

/* ---- slurm.c: the nodes of a Slurm job ----------------------------------------------- */
/* Fill r->slurm, if this process runs in a Slurm job of several nodes; 0 or an exit code after a
 * message. */
int ftk_slurm_plan(struct ftk_run *r);
/* Make the agent in r->dir, and test whether the nodes see r->dir; 0 or an exit code after a
 * message. */
int ftk_slurm_files(const struct ftk_run *r);
/* Arguments for mpirun: the agent; hosts with their slots. */
void ftk_slurm_arguments(const struct ftk_run *r, struct ftk_list *cmd);

/* ---- nodes.c: which nodes can be used ------------------------------------------------ */
/* Whether this is the name of this machine. */
bool ftk_nodes_here(const char *name);
/* Whether a command line on this node ends with 0 within some seconds. */
bool ftk_nodes_do(const struct ftk_run *r, const char *name, const char *line);
/* Make r->dir/ftkit, the name by which mpirun calls this program as its agent: mpirun splits the
 * agent at blanks and colons, which the path of this program may contain.  0 or an exit code
 * after a message. */
int ftk_nodes_agent(const struct ftk_run *r);
/* The nodes that the arguments for mpirun name, in --host or a hostfile. */
void ftk_nodes_named(const struct ftk_run *r, struct ftk_list *names);
/* Say which names of nodes this node cannot resolve. */
void ftk_nodes_say_unresolved(const struct ftk_run *r);
/* Before a relaunch: ask every node for a sign of life; nodes without an answer go to r->gone. */
void ftk_nodes_look(struct ftk_run *r);
/* Options for mpirun that the user has given for a program (part), without the nodes in r->gone. */
void ftk_nodes_arguments(
    const struct ftk_run *r, const struct ftk_list *options, int part, struct ftk_list *cmd);

/* ---- process.c: everything below this process ---------------------------------------- */
struct ftk_proc {
    pid_t pid, ppid;
    char name[32];
    char state;
    double cpu_s;
    unsigned long long start; /* start time; pid and start together identify a process */
    int status;               /* of a zombie, as from waitpid() */
    long rank;                /* -1: not a rank, or not read */
    long local_size;          /* ranks on its node, -1: not known */
    long job;                 /* as mpirun numbers jobs, -1: not known */
    long spawned;             /* job of a spawned replacement, -1: none */
    bool hidden;              /* its environment cannot be read */
    bool ours;                /* below this process, and not foreign (process.c) */
};
bool ftk_proc_read(pid_t pid, struct ftk_proc *p); /* false: no such process */
/* All processes below us, *out for free(). */
size_t ftk_proc_list(struct ftk_proc **out);
void ftk_proc_rank(struct ftk_proc *p); /* fill in what is in its environment; not for zombies */
/* Whether this process runs as a rank of a job.  All processes below inherit the environment of
 * a rank, so they would look like ranks. */
bool ftk_proc_self_is_rank(void);
/* Become the parent of every orphan below us.  Children that exist already are foreign: they are
 * never ended. */
int ftk_tree_init(void);
/* Give the processes below us grace_s to end, SIGKILL the rest, reap all and remove the files
 * that they leave.  Returns the number of killed processes, or -1: some cannot be killed. */
int ftk_tree_end(double grace_s);
/* Reap all children that have ended. */
void ftk_tree_reap(void);
/* The status of a reaped process; -1: it was not reaped. */
int ftk_tree_status(pid_t pid);
/* Show where each rank is; whole: also show every process with state and backtrace. */
void ftk_tree_dump(FILE *out, bool whole);

/* ---- ranks.c: whether the processes of the ranks are alive --------------------------- */
enum ftk_ranks_change {
    FTK_RANKS_WELL,
    FTK_RANKS_LOST, /* a rank ended, no context was opened, the other ranks make no progress */
    FTK_RANKS_GONE  /* all ranks have ended, mpirun has not; see ranks.c */
};
struct ftk_ranks;
struct ftk_state;                                           /* state.h */
struct ftk_ranks *ftk_ranks_begin(const struct ftk_run *r); /* of one attempt */
void ftk_ranks_end(struct ftk_ranks *w);
/* To be called often; the function limits the number of its looks itself.  s: of the attempt. */
enum ftk_ranks_change ftk_ranks_look(struct ftk_ranks *w, const struct ftk_state *s);
bool ftk_ranks_coming(const struct ftk_ranks *w); /* young job; not all ranks have been found */
/* After FTK_RANKS_LOST: a rank whose process has ended, -1: its number is not known. */
long ftk_ranks_lost(const struct ftk_ranks *w);
/* After FTK_RANKS_GONE: a status as from waitpid(): that of a rank that did not end with 0; else 0,
 * if all other ends are known, too, from mpirun or a zombie; -1: they are not. */
int ftk_ranks_status(const struct ftk_ranks *w, const struct ftk_state *s);
/* Status of the ranks that became our children after the end of mpirun: that of a rank that did
 * not end with 0, else 0; -1: some processes of the job may have been on other nodes. */
int ftk_ranks_orphans(const struct ftk_ranks *w, const struct ftk_state *s);
/* Whether the end of each process of the job is known: from mpirun, or as an orphan with code 0. */
bool ftk_ranks_orphans_well(const struct ftk_ranks *w, const struct ftk_state *s);

/* ---- litter.c: files that killed processes of Open MPI leave ------------------------- */
void ftk_litter_note(pid_t pid, bool alive); /* remember a process; alive, or just reaped */
void ftk_litter_remove(void);                /* after the end of all noted processes */
void ftk_litter_tree(const char *path);      /* remove a directory and its contents */
void ftk_litter_slots(uint64_t id);          /* remove slots of this run in shared memory */

#endif
