/* ftkit plan and ftkit sim: what they share.  plan_options.c reads the command line,
 * report_costs.c the event log, plan_teams.c the communication matrix, plan_make.c computes the
 * plan by lib/model, plan_print.c and plan_svg.c print it.  sim.h has the rest of ftkit sim.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_PLAN_H
#define FTKIT_TOOLS_PLAN_H

#include <getopt.h>

#include "model/replica.h"
#include "model/rollback.h"
#include "model/survive.h"
#include "sets.h"

/* ---- inputs -------------------------------------------------------------------------- */

enum pl_from { PL_UNKNOWN, PL_ASSUMED, PL_MEASURED, PL_GIVEN };

/* A number, with where it comes from. */
struct pl_value {
    double v;
    enum pl_from from;
    uint64_t samples; /* of PL_MEASURED */
};

enum pl_level { PL_MEMORY, PL_LOCAL, PL_FILES, PL_LEVELS };
enum { PL_TEAMS = 8 };

struct pl_team {
    int nodes;
    double slowdown, speed; /* mu, phi */
    double between;         /* share of the bytes between teams, of --matrix */
    enum pl_from from, speed_from;
};

/* All times are seconds. */
struct pl_ask {
    struct pl_value nodes, node_mtbf, mtbf, work;
    struct pl_value cost[PL_LEVELS];  /* the job waits so long for a set */
    struct pl_value flush;            /* to write a set to files in the background */
    struct pl_value repair, relaunch; /* from a failure until ranks begin to redo lost work */
    struct pl_value job_loss;         /* share of the failures that end the job */
    struct pl_value node_repair;      /* a node is away so long; unknown: for ever */
    struct pl_value risk;             /* that the spares run out */
    struct pl_value beta, clone;      /* of replicas: see model/replica.h */
    struct pl_value acquaintances;    /* nodes that a node exchanges messages with */
    struct pl_value parallel;         /* P of parallel recovery */
    struct pl_value busy, idle;       /* power of a node, W */
    struct pl_value speed;            /* of the replays of a run: phi, if measured */
    uint64_t short_replays;           /* that were left out */
    struct ftk_model_multiplicity multiplicity;
    bool multiplicity_given;
    int group, parity; /* of the only parity group to look at; group 0: several */
    struct pl_team team[PL_TEAMS];
    int nteams;
    enum ftk_model_aim aim;
    const char *events, *run, *context;
    const char *matrix, *svg; /* paths, or NULL */
    int ranks_per_node;       /* of the matrix */
    bool json;
};

enum pl_unit { PL_NUMBER, PL_WHOLE, PL_TIME };
#define PL_LONG 1e12 /* the longest time, in seconds */
/* The speed of a replay is within these bounds, given or measured. */
#define PL_SLOWEST 0.01
#define PL_FASTEST 1000.0
#define PL_REPLAY_S 0.1 /* a shorter replay, by its first execution, does not show a speed */
/* Parse a time from low to PL_LONG at the beginning of text; *rest is the text behind. */
bool ftk_pl_time(const char *text, double low, double *s, const char **rest);
/* Parse optarg, the value of this option, within low .. high.  false: a message was printed. */
bool ftk_pl_value(int option, enum pl_unit unit, double low, double high, struct pl_value *out);

/* A command that takes the options of ftkit plan. */
struct pl_command {
    ftk_usage_fn *usage;
    const struct option *own;            /* further ones, with values from 1 to 255; or NULL */
    bool (*take)(int option, void *arg); /* one of them; false: a message was printed */
    int (*check)(struct pl_ask *ask, void *arg); /* after all of them; an exit code; or NULL */
    void *arg;
};
/* Read the command line, and fill in what it does not say.  An exit code, after a message. */
int ftk_pl_parse(const struct pl_command *command, int argc, char **argv, struct pl_ask *ask);
/* Set the values that are neither given nor measured. */
void ftk_pl_assume(struct pl_ask *ask);
void ftk_pl_usage_job(FILE *out);
void ftk_pl_usage_choices(FILE *out);

/* Fill in what the event log says and the command line does not: nodes, costs, speed of a replay.
 * An exit code, after a message. */
int ftk_pl_measure(struct pl_ask *ask);
/* Add sizes of teams, with slowdowns by ask->matrix from that of ask->team[0], and measure the
 * acquaintances.  An exit code, after a message. */
int ftk_pl_teams(struct pl_ask *ask);

/* ---- the plan ------------------------------------------------------------------------ */

/* Where sets in memory are kept. */
struct pl_scheme {
    const char *name;
    struct ftk_model_placement placement;
    double memory;       /* of a set, in units of its data */
    double survives;     /* a random failure of nodes */
    double survives_log; /* ... together with the determinants of the log */
    bool feasible;       /* by checkpoint/restart */
    double efficiency;   /* ... then W / T */
};

enum pl_kind { PL_RESTART, PL_LOG, PL_PARALLEL, PL_CLONED, PL_UNCLONED };

struct pl_protocol {
    enum pl_kind kind;
    int size; /* nodes of a team, parallelism, or replicas */
    bool feasible;
    struct ftk_model_job job; /* not of replicas */
    struct ftk_model_pattern pattern;
    struct ftk_model_cost cost; /* of replicas: the parts are those of all replicas of a rank */
    double efficiency;          /* W / T, for each node: replicas need more nodes */
};

/* A part of the time of a protocol. */
struct pl_part {
    const char *key, *text;
    double s;
};
enum { PL_PARTS = 5 };

enum { PL_SCHEMES = 8, PL_PROTOCOLS = PL_TEAMS + 6 };

struct pl_plan {
    struct pl_ask ask;
    struct pl_scheme scheme[PL_SCHEMES];
    int nschemes, best_scheme;
    struct pl_protocol protocol[PL_PROTOCOLS];
    int nprotocols;
    int best; /* of those that ftkit has; -1: no progress */
    int spares, spares_mean;
    int level_of[FTK_MODEL_LEVELS]; /* enum pl_level of the levels of a job */
};

/* Compute the plan for ask, which has all values. */
void ftk_pl_make(const struct pl_ask *ask, struct pl_plan *plan);
/* Set best and spares, from the protocols. */
void ftk_pl_choose(struct pl_plan *plan);
/* Say why the plan has no protocol that makes progress.  The result is TOOL_FAIL. */
int ftk_pl_no_progress(const struct pl_plan *plan);
/* Where the time goes; the result is what takes most beside the work. */
const struct pl_part *ftk_pl_parts(
    const struct ftk_model_cost *cost, struct pl_part part[PL_PARTS]);
const char *ftk_pl_duration(double s, char buf[40]); /* "3 min 20 s" */
const char *ftk_pl_name(const struct pl_protocol *p, char buf[64]);
/* The protocol's name in JSON. */
const char *ftk_pl_key(const struct pl_protocol *p);
/* Write a file by draw(arg, file); an exit code, after a message. */
int ftk_pl_write_svg(const char *path, void (*draw)(const void *arg, FILE *out), const void *arg);
/* Write the picture; an exit code, after a message. */
int ftk_pl_svg(const struct pl_plan *plan, const char *path);
void ftk_pl_print(const struct pl_plan *plan, FILE *out);
void ftk_pl_json(const struct pl_plan *plan, FILE *out);

#endif
