/* ftkit report: what the parts share.  report_read.c fills a struct rp_log from the lines of event
 * logs (docs/events.md), report_sum.c computes the figures, report_page.c writes the page.
 *
 * The memory for a log is bounded, however long the log is: progress, sets and texts are thinned
 * or counted beyond a limit.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_REPORT_H
#define FTKIT_TOOLS_REPORT_H

#include <stdint.h>

#include "sets.h"

enum {
    RP_RANKS_MAX = 1 << 20,
    RP_SETS_MAX = 1 << 14, /* sets with figures of their own; of more, every second, ... */
    RP_REPAIRS_MAX = 1 << 12,
    RP_RESTORES_MAX = 1 << 19,
    RP_RUNS_MAX = 1 << 12,
    RP_TEXTS_MAX = 400,
    RP_KEYS_MAX = 400,
    RP_CELLS = 128, /* the matrix has at most so many rows */
    RP_NAMED = 64,  /* ranks of a list that are kept; the others are counted */
    RP_SOURCES = 8
};
#define RP_LINE_MAX (16u << 20)

enum rp_level { RP_MEMORY, RP_LOCAL, RP_FILES, RP_LEVELS };
enum rp_phase { RP_DETECT, RP_SUPPLY, RP_REBUILD, RP_RESTORE, RP_PHASES };
extern const char *const ftk_rp_level_names[RP_LEVELS];
extern const char *const ftk_rp_phase_names[RP_PHASES];

/* ---- the model of one run ------------------------------------------------------------ */

/* A process begins; it begins in place of a lost one; a set is restored; progress. */
enum rp_kind { RP_OPENS, RP_REPLACES, RP_RESTORES, RP_GOES_ON };
/* A sign of life of a rank.  The place in the program is that of the set base, plus calls - 1. */
struct rp_point {
    double t;
    union {
        double calls; /* while the log is read */
        double place; /* later; NAN: none */
    };
    uint64_t base;
    float held; /* bytes that the message log keeps; < 0: not known */
    enum rp_kind kind;
};

struct rp_rank {
    struct rp_point *p;
    size_t n, room;
    double dt; /* progress closer than this is dropped */
    uint64_t node;
    int team;       /* -1: none */
    int lost, back; /* how often this rank was lost, and went back */
    bool seen, finished, closed;
    bool metered; /* it has read the sensors of its node */
    bool silent;  /* its team keeps no messages */
    int code;     /* of ftkit_close */
};

struct rp_figures { /* of a set, or of all sets of a level */
    uint64_t ranks, sets;
    double bytes, sent, seconds_sum, seconds_max;
    double first_t, last_t; /* of its lines */
    int64_t code;           /* the lowest */
};

struct rp_set {
    uint64_t set, base;
    double calls; /* with base, the place of the set; 0: not known */
    double place; /* computed at the end */
    double durable_t;
    struct rp_figures level[RP_LEVELS];
};

struct rp_ranks { /* a list of ranks */
    int n, named;
    int rank[RP_NAMED];
};

struct rp_repair {
    int session;
    int64_t attempt, epoch;
    double t; /* of the line of the slowest survivor; the figures are from that line */
    double failed_t;
    double seconds, phase[RP_PHASES];
    int64_t lost, line, spares;
    double replay, forward; /* of the slowest rank, and the same calls before the failure; -1:
                               none */
    double catch_up;        /* of the same rank; -1: none */
    struct rp_ranks replaced, back;
    uint64_t survivors;   /* lines */
    struct {              /* where the ranks got their data from */
        int from, number; /* number: of the only rank with this source in its text */
        uint64_t ranks;
    } source[RP_SOURCES];
};

struct rp_restore {
    double t;
    uint64_t set;
    int rank;
    int from, number; /* of rp_log.from; the number in the text, -1: none */
    int session;
    int64_t attempt;
    double replay, forward; /* how long its replay took, and the same calls before; -1: none */
    double catch_up;        /* from there to its next call; -1: none */
};

struct rp_text {
    char *text;
    double t; /* of the first */
    uint64_t count;
    int rank, level; /* 0 error, 1 warning, 2 info */
};

struct rp_attempt {
    int session; /* `ftkit run` that made it, -1: none; each counts its attempts from 0 */
    int64_t attempt;
    double begin, end;    /* end 0: none seen */
    bool again, launched; /* launched: `ftkit run` says so */
    int64_t start_set;    /* -1: not known */
    int start_from;       /* of rp_log.from */
    double opened;        /* the first process opened the context, 0: none did */
    char how[160];
};

struct rp_key {
    char *key, *value;
};

struct rp_matrix {
    int n;                      /* rows */
    double *bytes;              /* [n * n], sender first */
    double *messages;           /* as bytes */
    int *order;                 /* ranks by team */
    int *place_of;              /* the inverse */
    double max, total, between; /* bytes: of a cell; of all; between teams */
    double unkept;              /* bytes that silent teams have sent to others */
    double total_messages;
};

enum rp_energy_phase {
    RP_ENERGY_RUN,
    RP_ENERGY_SET,
    RP_ENERGY_FLUSH,
    RP_ENERGY_REPAIR,
    RP_ENERGY_REPLAY,
    RP_ENERGY_WAIT,
    RP_ENERGY_PHASES
};
extern const char *const ftk_rp_energy_names[RP_ENERGY_PHASES];

struct rp_energy {
    bool measured; /* false: all figures are of the model */
    double seconds[RP_ENERGY_PHASES], joules[RP_ENERGY_PHASES]; /* of all nodes */
    double all_seconds, all_joules;
    double node_seconds; /* in which the nodes were in the job */
    int nodes;           /* of which the energy is known */
    char source[64];
};

struct rp_file {
    char *path;
    uint64_t dev, ino;
    bool named; /* on the command line, not found in a directory */
    uint64_t lines, good;
};

struct rp_group { /* the processes of one number of a run and one context */
    char run[40], context[FTKIT_NAME_MAX + 1];
    double first, last;
    int nranks;
    uint64_t opens;
    int session; /* of `ftkit run`, -1: none */
    bool chosen;
};

struct rp_session { /* one `ftkit run` */
    int file;
    int64_t pid;
    double begin, end;
    bool chosen;
};

/* Lines of processes that have not opened the context yet. */
struct rp_early_lines {
    struct rp_early {
        int file;
        int64_t pid;
        char *line; /* [bytes] and '\0' */
        size_t bytes;
    } * v; /* [n] */
    size_t n, room;
};

struct rp_log {
    struct rp_file *files;
    size_t nfiles, files_room;
    /* all runs */
    struct rp_group *groups;
    size_t ngroups, groups_room;
    struct rp_session *sessions;
    size_t nsessions, sessions_room;
    size_t main_group;
    /* the run */
    double begin, end;
    int nranks, spares, nodes, teams;
    char program[256], version[64], mode[16], job[40];
    struct rp_rank *ranks; /* [nranks] */
    size_t points_max;     /* of a rank */
    struct rp_set *sets;   /* ascending */
    size_t nsets;
    uint64_t stride; /* sets that are multiples of it have figures of their own */
    uint64_t newest; /* set */
    uint64_t unknown_base;
    struct rp_figures level[RP_LEVELS];
    struct rp_repair *repairs;
    size_t nrepairs, repairs_room;
    uint64_t more_repairs;
    struct rp_restore *restores;
    size_t nrestores, restores_room;
    uint64_t more_restores;
    char from[256][80];
    size_t nfrom;
    struct rp_text *texts;
    size_t ntexts, texts_room;
    uint64_t more_texts, count_of_level[4];
    struct rp_attempt *attempts;
    size_t nattempts, attempts_room;
    struct rp_key keys[RP_KEYS_MAX];
    size_t nkeys;
    double config_t;
    struct rp_matrix matrix;
    struct rp_energy energy;
    struct rp_procs *procs; /* of the file that is read */
    struct rp_early_lines early;
    double from_t, until_t; /* texts of processes without a run belong to the run from .. until */
    bool has_run_end, has_log;
    int64_t run_code;
    double run_end_t;
    char halt[256];
    uint64_t finished, closed_well, closed_badly;
    int worst_close;
    /* figures (report_sum.c) */
    double again, calls; /* calls of ranks: executed a second time, and in all */
    double repair_seconds;
    int64_t lost;
    double held_max; /* bytes kept by the rank that keeps most */
    /* lines */
    uint64_t lines, used, bad, of_others, unknown;
    char first_bad[160];
};

/* ---- report_lines.c: the lines of a file --------------------------------------------- */
/* Called with each line that has one of the needles (NULL: every line), without its newline.
 * whole: the line has a newline.  false: the line is no event. */
typedef bool rp_line_fn(struct rp_log *log, int file, const char *line, size_t bytes, bool whole);
/* Read the files one after the other.  counts: count lines and bad lines.  An exit code. */
int ftk_rp_lines(struct rp_log *log, const char *const *needles, bool counts, rp_line_fn *fn);
/* Add a file, or the files of a directory; an exit code, after a message. */
int ftk_rp_add_path(struct rp_log *log, const char *path);

/* ---- report_runs.c: which run -------------------------------------------------------- */
/* Find all runs, and mark the groups and sessions of the one to be shown: the newest, or the one
 * with this number or context, unless NULL.  An exit code, after a message. */
int ftk_rp_choose(struct rp_log *log, const char *run, const char *context);
/* The last session that had begun at t and not ended, with a second for different clocks; -1 */
int ftk_rp_session_at(const struct rp_log *log, double t);
/* Texts from before a process opened a context are of this run if no other run is nearer. */
void ftk_rp_bound_texts(struct rp_log *log);

/* ---- report_read.c: events ----------------------------------------------------------- */
int ftk_rp_read(struct rp_log *log);
struct rp_rank *ftk_rp_rank(struct rp_log *log, int64_t rank); /* NULL: no such rank */

/* ---- report_model.c: thinned data ---------------------------------------------------- */
void ftk_rp_add_point(struct rp_log *log, struct rp_rank *r, const struct rp_point *p);
/* Index of the first set >= set. */
size_t ftk_rp_lower(const struct rp_log *log, uint64_t set);
struct rp_set *ftk_rp_set(struct rp_log *log, uint64_t set); /* NULL: thinned out */
void ftk_rp_add_figures(struct rp_figures *f, double t, double bytes, double seconds, double sent);
void ftk_rp_add_text(struct rp_log *log, int level, double t, int64_t rank, const char *text);
void ftk_rp_matrix_begin(struct rp_log *log);
void ftk_rp_matrix_add(struct rp_log *log, int from, int to, double messages, double bytes);
int ftk_rp_from(struct rp_log *log, const char *text, int *number);
/* The text of a source with its number, unless this is negative */
void ftk_rp_source(const struct rp_log *log, int from, int number, char *buf, size_t bytes);
void ftk_rp_free(struct rp_log *log);

/* ---- report_sum.c: figures ----------------------------------------------------------- */
void ftk_rp_sum(struct rp_log *log);
/* How the run ended, for people; *good: it ended as it should. */
void ftk_rp_ending(const struct rp_log *log, char *buf, size_t bytes, bool *good);
void ftk_rp_json(const struct rp_log *log, FILE *out);
const struct rp_point *ftk_rp_point_at(const struct rp_rank *r, double t);
/* The place of a rank at a time, NAN: it is not known, or the rank is not there. */
double ftk_rp_place_at(const struct rp_rank *r, double t);

/* ---- report_energy.c: measured, or by the model -------------------------------------- */
void ftk_rp_energy_sum(struct rp_log *log);
void ftk_rp_energy_json(struct ftk_json *j, const struct rp_log *log);
void ftk_rp_energy_page(const struct rp_log *log, FILE *out);

/* ---- report_early.c: lines of processes that have not opened the context yet ----------- */
void ftk_rp_early_keep(struct rp_log *log, int file, int64_t pid, const char *line, size_t n);
/* The process has opened its context: call fn for each of its lines, and forget them. */
typedef void ftk_rp_early_fn(struct rp_log *log, const char *line, size_t n, void *arg);
void ftk_rp_early_take(struct rp_log *log, int file, int64_t pid, ftk_rp_early_fn *fn, void *arg);
void ftk_rp_early_end(struct rp_log *log); /* all files were read */

/* ---- report_page.c, report_charts.c, report_matrix.c --------------------------------- */
void ftk_rp_page(const struct rp_log *log, FILE *out);
/* Begin a table with these titles of columns, "#set|text": # is for numbers.  They are no HTML.
 * The caller writes the rows and "</table></div>". */
void ftk_rp_table(FILE *out, const char *titles);
void ftk_rp_escape(FILE *out, const char *text);
/* "3 min 20 s" */
void ftk_rp_duration(double s, char buf[40]);
void ftk_rp_bytes(double bytes, char buf[32]);
void ftk_rp_list(const struct rp_ranks *l, char *buf, size_t bytes); /* "3, 7 and 12 more" */
void ftk_rp_progress_chart(const struct rp_log *log, FILE *out);
void ftk_rp_sets_charts(const struct rp_log *log, FILE *out);
/* The events "replayed" and "caught_up": what began with the last restore of the rank is over. */
struct rp_event;
void ftk_rp_replayed(struct rp_log *log, const struct rp_event *e, int session, int64_t attempt);
/* How fast the replay was: 2 is twice as fast as the first execution; 0: not known. */
double ftk_rp_replay_speed(const struct rp_repair *x);
void ftk_rp_repairs_chart(const struct rp_log *log, FILE *out);
void ftk_rp_memory_chart(const struct rp_log *log, FILE *out);
void ftk_rp_matrix_chart(const struct rp_log *log, FILE *out);

#endif
