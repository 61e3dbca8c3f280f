/* ftkit config: what the command line asks for.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_CONFIG_H
#define FTKIT_TOOLS_CONFIG_H

#include "recover/world.h"
#include "sets.h"

struct ftk_ask {
    bool json, document;
    int ranks, nodes, per_node, spares; /* -1: not given */
    double bytes, memory;               /* of a rank, of a node; 0: not given */
    const char *file;                   /* NULL: none */
};

/* Bytes of one memory level: of the rank that keeps most. */
struct ftk_job_level {
    uint64_t set;          /* of one set */
    uint64_t steady, peak; /* of all sets: between two sets; while a set is committed */
    bool in_memory;        /* else in a directory that is not in memory */
};

/* How old the data of a source are at most: a time, and calls of ftkit_checkpoint(). */
struct ftk_job_age {
    double s, calls;
};

/* What is known about a job that has not been started. */
struct ftk_job {
    struct ftk_ask ask;
    const struct ftk_config *cfg;
    struct ftk_world w;
    int most_ranks; /* of a node */
    struct ftk_job_level level[FTK_LEVELS];
    uint64_t data, segment;          /* registered bytes of a rank, and what a set has of them */
    uint64_t held;                   /* of a rank, while a set is written to files */
    uint64_t node_steady, node_peak; /* of the node that needs most, with the program's data */
    uint64_t node_slots;             /* of them, in /dev/shm */
    uint64_t files_set, files_all;   /* on the file system: of a set; at most */
    struct ftk_survival loss[3 * FTK_LOSS_MOST];
    int nlosses;
    struct ftk_job_age age[FTK_SOURCES]; /* of FTK_SOURCE_MEMORY to FTK_SOURCE_FILES */
    int teams, team_least, team_most;    /* of the message log; 0: off */
    int silent;                          /* teams that keep no messages */
    double team_share;                   /* of the ranks, on average, for the loss of a process */
    int node_teams;                      /* most teams that a node has ranks of ... */
    double node_share;                   /* ... and the largest share of the ranks in them */
    struct ftk_list warnings;
};

/* Look at the job that `ftkit run` would start; *code, not 0 after a message: an exit code.  cfg
 * and origin are changed to what the job would have.  The caller frees the result. */
struct ftk_job *ftk_job_make(
    const struct ftk_ask *ask, struct ftk_config *cfg, struct ftk_config_origin *origin, int *code);
void ftk_job_free(struct ftk_job *job);
/* Ranks that have no spare after the loss of a node, for the node with most of them: *worst
 * (config_text.c). */
int ftk_job_missing(const struct ftk_world *w, int *worst);
/* Add what is odd about the job to its warnings (config_warn.c). */
void ftk_job_warn(struct ftk_job *job);

void ftk_job_print(const struct ftk_job *job, FILE *out);         /* config_text.c */
void ftk_job_json(const struct ftk_job *job, struct ftk_json *j); /* the same as an object "job" */

#endif
