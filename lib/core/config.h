/* Configuration: defaults, an INI file, environment variables.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One table in config.c makes the parser, the validation, `ftkit config` and the
 * documentation (`ftkit config --document`). */
#ifndef FTK_CONFIG_H
#define FTK_CONFIG_H

#include <stdio.h>

#include "access.h"
#include "det_modes.h"
#include "durable_levels.h"
#include "ftk.h"
#include "schemes.h"
#include "places.h"

/* A period: automatic, a number of units (calls or sets), or seconds. */
enum ftk_period_kind { FTK_PERIOD_AUTO, FTK_PERIOD_COUNT, FTK_PERIOD_SECONDS };
struct ftk_period {
    int kind;
    double value;
    bool bare; /* a number without a unit was given */
};

enum ftk_map { FTK_MAP_PAIR, FTK_MAP_RING };
enum ftk_incremental { FTK_INCREMENTAL_AUTO, FTK_INCREMENTAL_OFF, FTK_INCREMENTAL_ON };
enum ftk_supply { FTK_SUPPLY_SPARE, FTK_SUPPLY_SPAWN, FTK_SUPPLY_SHRINK, FTK_SUPPLY_END };
#define FTK_SUPPLY_STEPS 4
enum ftk_line { FTK_LINE_TOGETHER, FTK_LINE_APART };
enum ftk_outputs { FTK_OUTPUT_FIRST, FTK_OUTPUT_ALL };
enum ftk_compared { FTK_COMPARED_REGIONS, FTK_COMPARED_MESSAGES };
enum ftk_lost_replicas { FTK_LOST_COMPARED, FTK_LOST_CLONE, FTK_LOST_REPLAY };
enum ftk_teams { FTK_TEAMS_DOMAIN, FTK_TEAMS_RANK, FTK_TEAMS_ALL, FTK_TEAMS_DYNAMIC };
enum ftk_debug { FTK_DEBUG_NONE, FTK_DEBUG_REGIONS };
enum ftk_measure_energy { FTK_ENERGY_AUTO, FTK_ENERGY_OFF };
enum ftk_device_fault { FTK_DEVICE_REPLACE, FTK_DEVICE_ERROR };
enum ftk_device_sums { FTK_DEVICE_SUMS_AUTO, FTK_DEVICE_SUMS_HOST };
enum ftk_device_snapshot { FTK_DEVICE_SNAPSHOT_OFF, FTK_DEVICE_SNAPSHOT_AUTO };
enum ftk_compress { FTK_COMPRESS_NONE, FTK_COMPRESS_DEFLATE };

/* recover.start: one of these, or the number of a set. */
#define FTK_START_NEWEST 0
#define FTK_START_FRESH UINT64_MAX
#define FTK_START_OLDER (UINT64_MAX - 1)
#define FTK_START_CONTINUE (UINT64_MAX - 2) /* as newest, also when the run has finished */

static inline bool ftk_start_is_newest(uint64_t start)
{
    return start == FTK_START_NEWEST || start == FTK_START_CONTINUE;
}

struct ftk_config {
    char source[FTK_PATH_MAX];        /* the configuration file, "" for none */
    char name[FTKIT_NAME_MAX + 1];    /* context.name = default */
    char program[FTKIT_NAME_MAX + 1]; /* context.program, "": the executable's name */
    int access;                       /* context.access = owner */
    struct ftk_period period;         /* checkpoint.period = auto | N calls | time */
    double mtbf_s;                    /* checkpoint.mtbf = 24h, of the whole job */
    double deadline_s;                /* checkpoint.deadline: 0 none, > 0 since the start,
                                         < 0: the negative of seconds since 1970 */
    bool signals;                     /* checkpoint.signals = true */
    double react_s;                   /* checkpoint.react = 1s */
    int scheme;                       /* level.memory.scheme = buddy */
    int map;                          /* level.memory.map = pair */
    int place;                        /* level.memory.place = memory */
    char place_dir[FTK_PATH_MAX];     /* level.memory.directory, "": /dev/shm */
    int group;                        /* level.memory.group = 8 */
    int parity;                       /* level.memory.parity = 2 */
    int incremental;                  /* level.memory.incremental = auto */
    int local_scheme;                 /* level.local.scheme = none */
    int local_place;                  /* level.local.place = shared */
    char local_dir[FTK_PATH_MAX];     /* level.local.directory */
    int local_group;                  /* level.local.group = 8 */
    int local_parity;                 /* level.local.parity = 2 */
    struct ftk_period local_every;    /* level.local.every = auto | N sets | time */
    bool h5_enabled;                  /* level.hdf5.enabled = true */
    struct ftk_period h5_every;       /* level.hdf5.every = auto | N sets | time */
    char h5_dir[FTK_PATH_MAX];        /* level.hdf5.directory = . */
    int h5_level;                     /* level.hdf5.format = hdf5, if there is another one */
    int h5_keep;                      /* level.hdf5.keep = 2 */
    int h5_writers;                   /* level.hdf5.writers = 0: as many as ftkit chooses */
    bool h5_async;                    /* level.hdf5.asynchronous = true */
    double h5_bandwidth;              /* level.hdf5.bandwidth = 0: no cap, else bytes/s */
    int h5_compress;                  /* level.hdf5.compress = none */
    bool log_enabled;                 /* log.enabled = false */
    int log_teams;                    /* log.teams = domain */
    int log_team_size;                /* log.team_size = 0: by log.teams */
    char log_team_list[FTK_PATH_MAX]; /* log.team_list, "": not by a list */
    char log_silent[FTK_PATH_MAX];    /* log.silent, "": every team keeps a log */
    char log_team_file[FTK_PATH_MAX]; /* log.team_file, "": not by a file */
    struct ftk_period log_reteam;     /* log.reteam = auto | N sets */
    int log_reteam_gain;              /* log.reteam_gain = 20 percent */
    int log_helpers;                  /* log.helpers: for each rank, 0: none */
    char log_matrix[FTK_PATH_MAX];    /* log.matrix, "": none */
    int line;                         /* checkpoint.line = together */
    double patience_s;                /* checkpoint.patience = 60s */
    int log_dets;                     /* log.determinants = node */
    bool log_check;                   /* log.check = true */
    int log_contexts;                 /* log.contexts = 16 */
    double log_memory;                /* log.memory = 1GiB */
    char log_dir[FTK_PATH_MAX];       /* log.directory, "": TMPDIR or /tmp */
    char files_dir[FTK_PATH_MAX];     /* files.directory, "": /dev/shm */
    bool files_plain;                 /* files.plain = true */
    int replicas;                     /* replicas.count = 1 */
    int replica_compare;              /* replicas.compare = regions */
    int replica_output;               /* replicas.output = first */
    int replica_lost;                 /* replicas.lost = compared */
    int ranks_per_node;               /* topology.ranks_per_node = 0: host names */
    int spares;                       /* spares.count = 0 */
    bool spares_exit;                 /* spares.exit = true */
    bool spares_prepare;              /* spares.prepare = true */
    int supply[FTK_SUPPLY_STEPS];     /* recover.supply = spare, spawn, end */
    int nsupply;
    uint64_t start;            /* recover.start = newest */
    double timeout_s;          /* recover.timeout = 60s */
    double node_timeout_s;     /* recover.node_timeout = 10s, 3s to 1h */
    double stall_s;            /* recover.stall = 0: off */
    double say_s;              /* recover.stall_say = 60s, 0: off */
    int attempts;              /* recover.attempts = 10 */
    bool exit_is_failure;      /* recover.exit_is_failure = true */
    int stderr_level;          /* report.stderr = none | error | ... | debug */
    char events[FTK_PATH_MAX]; /* report.events = directory, "" for none */
    double status_s;           /* report.status = 5s, 0: off */
    int energy;                /* report.energy = auto */
    char sysfs[FTK_PATH_MAX];  /* report.sysfs = /sys */
    int device_fault;          /* device.fault = replace */
    int device_sums;           /* device.sums = auto */
    int device_snapshot;       /* device.snapshot = off */
    int debug_check;           /* debug.check = none */
    char warnings[2048];       /* lines about values that make no sense, "" for none */
};

/* Load a configuration: the defaults, then the file at path (may be NULL), then the environment
 * variables FTKIT_<SECTION>_<KEY>.  *cfg is written only on success; the caller reports
 * cfg->warnings.  FTKIT_ERR_CONFIG: the detail has the file and line, or the variable, and for an
 * unknown key the nearest key. */
int ftk_config_load(struct ftk_config *cfg, const char *path);

/* Where the values of a configuration come from.  A separate struct, because a job does not need
 * it. */
enum ftk_config_from {
    FTK_FROM_DEFAULT,
    FTK_FROM_FILE,
    FTK_FROM_ENVIRONMENT,
    FTK_FROM_RUN /* from a variable that `ftkit run` has set: it is listed in FTK_CONFIG_RUN_SETS */
};
#define FTK_CONFIG_RUN_SETS "FTKIT_RUN_SETS" /* variable: names, each followed by a comma */
#define FTK_CONFIG_KEYS_MAX 96
struct ftk_config_origin {
    int line[FTK_CONFIG_KEYS_MAX]; /* of each key, in the order of the table; private to config.c */
};

/* The same as ftk_config_load(), and fill *origin. */
int ftk_config_load_origin(
    struct ftk_config *cfg, const char *path, struct ftk_config_origin *origin);

/* A key with its value as text. */
struct ftk_config_item {
    const char *section, *name, *value;
    const char *values, *def, *doc; /* what is allowed, the default, the meaning */
    const char *variable;           /* of the environment */
    int from;                       /* enum ftk_config_from */
    int line;                       /* FTK_FROM_FILE: in cfg->source */
};

/* Call fn for each key, in the order of the table; another result of fn than FTKIT_OK ends the loop
 * and is returned.  origin NULL: all values count as defaults. */
typedef int ftk_config_fn(void *arg, const struct ftk_config_item *item);
int ftk_config_each(const struct ftk_config *cfg, const struct ftk_config_origin *origin,
    ftk_config_fn *fn, void *arg);

/* Say that a key comes from `ftkit run`, whatever it came from; nothing if there is no such key. */
void ftk_config_from_run(struct ftk_config_origin *origin, const char *section, const char *name);

/* Read a time in the form of the keys, such as "90s", into *seconds.  Return NULL, or a text about
 * the mistake. */
const char *ftk_config_time(const char *text, double *seconds);

/* The time of a key in a job without a file: its variable, or its default.  The key exists.  Return
 * NULL, or a text about the mistake in the variable. */
const char *ftk_config_time_of(const char *section, const char *name, double *seconds);
/* The same for a key whose values are words: the number of the word. */
const char *ftk_config_word_of(const char *section, const char *name, int *value);

/* Levenshtein distance, case ignored, of the first 96 bytes: for "did you mean". */
size_t ftk_config_distance(const char *a, const char *b);

/* The same for a number of bytes, such as "500MB". */
const char *ftk_config_bytes(const char *text, double *bytes);

/* Write the configuration as an INI file with a comment for each key; with origin (not NULL) the
 * comment also says where the value comes from. */
int ftk_config_print(FILE *out, const struct ftk_config *cfg);
int ftk_config_print_origin(
    FILE *out, const struct ftk_config *cfg, const struct ftk_config_origin *origin);

/* Write the table of keys as Markdown: key, values, default, environment variable, meaning. */
int ftk_config_document(FILE *out);

#endif
