/* Configuration: defaults, every key, every error with its place, printing.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <ini.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/config.h"
#include "core/format.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static char work[] = "/tmp/t_config.XXXXXX"; /* we are in it: paths below are relative */

/* ---- Every key: a value that is not the default, and where it must arrive
 * ------------*/

#define STORES(member, wanted)                                                                     \
    static void put_##member(struct ftk_config *c)                                                 \
    {                                                                                              \
        c->member = (wanted);                                                                      \
    }
STORES(access, FTK_ACCESS_GROUP)
STORES(period, ((struct ftk_period){ .kind = FTK_PERIOD_COUNT, .value = 10 }))
STORES(patience_s, 5400)
STORES(mtbf_s, 5400)
STORES(deadline_s, 5400)
STORES(signals, false)
STORES(react_s, 5400)
STORES(status_s, 5400)
STORES(scheme, FTK_SCHEME_OWN)
STORES(map, FTK_MAP_RING)
STORES(place, FTK_PLACE_SHARED)
STORES(group, 5)
STORES(parity, 3)
STORES(local_scheme, FTK_SCHEME_XOR)
STORES(local_place, FTK_PLACE_PMEM)
STORES(local_group, 4)
STORES(local_parity, 1)
STORES(local_every, ((struct ftk_period){ .kind = FTK_PERIOD_COUNT, .value = 3 }))
STORES(incremental, FTK_INCREMENTAL_OFF)
STORES(h5_enabled, false)
STORES(h5_every, ((struct ftk_period){ .kind = FTK_PERIOD_SECONDS, .value = 30 }))
STORES(h5_keep, 7)
STORES(h5_writers, 3)
STORES(h5_async, false)
STORES(h5_bandwidth, 1.5e9)
STORES(h5_compress, FTK_COMPRESS_DEFLATE)
STORES(files_plain, false)
STORES(log_enabled, true)
STORES(log_teams, FTK_TEAMS_RANK)
STORES(log_reteam, ((struct ftk_period){ .kind = FTK_PERIOD_COUNT, .value = 7 }))
STORES(log_reteam_gain, 35)
STORES(log_helpers, 8)
STORES(log_dets, FTK_DETS_RELAXED)
STORES(log_check, false)
STORES(log_contexts, 33)
STORES(log_memory, 5e8)
STORES(ranks_per_node, 48)
STORES(spares, 3)
STORES(spares_exit, false)
STORES(spares_prepare, false)
STORES(start, 12)
STORES(timeout_s, 0.25)
STORES(stall_s, 300)
STORES(node_timeout_s, 3600)
STORES(say_s, 90)
STORES(attempts, 4)
STORES(exit_is_failure, false)
STORES(stderr_level, FTKIT_DEBUG)
STORES(device_fault, FTK_DEVICE_ERROR)
STORES(device_sums, FTK_DEVICE_SUMS_HOST)
STORES(device_snapshot, FTK_DEVICE_SNAPSHOT_AUTO)
STORES(energy, FTK_ENERGY_OFF)

/* A line apart needs the log; t_every_key and t_origin set the variable FTKIT_LOG_ENABLED. */
static void put_line(struct ftk_config *c)
{
    c->line = FTK_LINE_APART;
    c->log_enabled = true;
}

static void put_replicas(struct ftk_config *c)
{
    c->replicas = 3;
    c->log_enabled = true;
    c->h5_enabled = false;
}

STORES(replica_compare, FTK_COMPARED_MESSAGES)
STORES(replica_output, FTK_OUTPUT_ALL)
STORES(replica_lost, FTK_LOST_REPLAY)

static void put_name(struct ftk_config *c)
{
    snprintf(c->name, sizeof c->name, "heat 2d=x:y");
}

static void put_program(struct ftk_config *c)
{
    snprintf(c->program, sizeof c->program, "heat2d");
}

static void put_h5_dir(struct ftk_config *c)
{
    snprintf(c->h5_dir, sizeof c->h5_dir, "sets here");
}

static void put_place_dir(struct ftk_config *c)
{
    snprintf(c->place_dir, sizeof c->place_dir, "/pmem0");
}

/* Only one of these three says what the teams are. */
static void put_teams(struct ftk_config *c, int size, const char *list, const char *file)
{
    c->log_team_size = size;
    memset(c->log_team_list, 0, sizeof c->log_team_list);
    memset(c->log_team_file, 0, sizeof c->log_team_file);
    snprintf(c->log_team_list, sizeof c->log_team_list, "%s", list);
    snprintf(c->log_team_file, sizeof c->log_team_file, "%s", file);
}

static void put_log_team_size(struct ftk_config *c)
{
    put_teams(c, 4, "", "");
}

static void put_log_team_list(struct ftk_config *c)
{
    put_teams(c, 0, "0-3,8 4-7", "");
}

static void put_log_team_file(struct ftk_config *c)
{
    put_teams(c, 0, "", "my teams.txt");
}

static void put_log_silent(struct ftk_config *c)
{
    snprintf(c->log_silent, sizeof c->log_silent, "0 4-7");
}

static void put_log_matrix(struct ftk_config *c)
{
    snprintf(c->log_matrix, sizeof c->log_matrix, "matrix.csv");
}

static void put_log_dir(struct ftk_config *c)
{
    snprintf(c->log_dir, sizeof c->log_dir, "/tmp");
}
static void put_files_dir(struct ftk_config *c)
{
    snprintf(c->files_dir, sizeof c->files_dir, "/dev/shm/me");
}
static void put_local_dir(struct ftk_config *c)
{
    snprintf(c->local_dir, sizeof c->local_dir, "/local/me");
}

static void put_supply(struct ftk_config *c)
{
    c->supply[0] = FTK_SUPPLY_SPAWN;
    c->supply[1] = FTK_SUPPLY_SPARE;
    c->supply[2] = 0;
    c->nsupply = 2;
}

static void put_debug(struct ftk_config *c)
{
    c->debug_check = FTK_DEBUG_REGIONS;
}

static void put_events(struct ftk_config *c)
{
    snprintf(c->events, sizeof c->events, "/tmp/\xc3\xa4rger;#.log");
}

static void put_sysfs(struct ftk_config *c)
{
    memset(c->sysfs, 0, sizeof c->sysfs);
    snprintf(c->sysfs, sizeof c->sysfs, "/host/sys");
}

static const struct sample {
    const char *section, *key, *value, *env;
    void (*put)(struct ftk_config *c);
} samples[] = {
    { "context", "name", "heat 2d=x:y", "FTKIT_CONTEXT_NAME", put_name },
    { "context", "program", "heat2d", "FTKIT_CONTEXT_PROGRAM", put_program },
    { "context", "access", "group", "FTKIT_CONTEXT_ACCESS", put_access },
    { "checkpoint", "period", "10 calls", "FTKIT_CHECKPOINT_PERIOD", put_period },
    { "checkpoint", "line", "apart", "FTKIT_CHECKPOINT_LINE", put_line },
    { "checkpoint", "patience", "1.5 h", "FTKIT_CHECKPOINT_PATIENCE", put_patience_s },
    { "checkpoint", "mtbf", "1.5 h", "FTKIT_CHECKPOINT_MTBF", put_mtbf_s },
    { "checkpoint", "deadline", "1.5 h", "FTKIT_CHECKPOINT_DEADLINE", put_deadline_s },
    { "checkpoint", "signals", "no", "FTKIT_CHECKPOINT_SIGNALS", put_signals },
    { "checkpoint", "react", "1.5 h", "FTKIT_CHECKPOINT_REACT", put_react_s },
    { "level.memory", "scheme", "own", "FTKIT_LEVEL_MEMORY_SCHEME", put_scheme },
    { "level.memory", "map", "ring", "FTKIT_LEVEL_MEMORY_MAP", put_map },
    { "level.memory", "place", "shared", "FTKIT_LEVEL_MEMORY_PLACE", put_place },
    { "level.memory", "directory", "/pmem0", "FTKIT_LEVEL_MEMORY_DIRECTORY", put_place_dir },
    { "level.memory", "group", "5", "FTKIT_LEVEL_MEMORY_GROUP", put_group },
    { "level.memory", "parity", "3", "FTKIT_LEVEL_MEMORY_PARITY", put_parity },
    { "level.local", "scheme", "xor", "FTKIT_LEVEL_LOCAL_SCHEME", put_local_scheme },
    { "level.local", "place", "pmem", "FTKIT_LEVEL_LOCAL_PLACE", put_local_place },
    { "level.local", "directory", "/local/me", "FTKIT_LEVEL_LOCAL_DIRECTORY", put_local_dir },
    { "level.local", "group", "4", "FTKIT_LEVEL_LOCAL_GROUP", put_local_group },
    { "level.local", "parity", "1", "FTKIT_LEVEL_LOCAL_PARITY", put_local_parity },
    { "level.local", "every", "3 sets", "FTKIT_LEVEL_LOCAL_EVERY", put_local_every },
    { "level.memory", "incremental", "off", "FTKIT_LEVEL_MEMORY_INCREMENTAL", put_incremental },
    { "level.hdf5", "enabled", "off", "FTKIT_LEVEL_HDF5_ENABLED", put_h5_enabled },
    { "level.hdf5", "every", "30s", "FTKIT_LEVEL_HDF5_EVERY", put_h5_every },
    { "level.hdf5", "directory", "sets here", "FTKIT_LEVEL_HDF5_DIRECTORY", put_h5_dir },
    { "level.hdf5", "keep", "7", "FTKIT_LEVEL_HDF5_KEEP", put_h5_keep },
    { "level.hdf5", "writers", "3", "FTKIT_LEVEL_HDF5_WRITERS", put_h5_writers },
    { "level.hdf5", "asynchronous", "no", "FTKIT_LEVEL_HDF5_ASYNCHRONOUS", put_h5_async },
    { "level.hdf5", "bandwidth", "1.5 GB", "FTKIT_LEVEL_HDF5_BANDWIDTH", put_h5_bandwidth },
    { "level.hdf5", "compress", "deflate", "FTKIT_LEVEL_HDF5_COMPRESS", put_h5_compress },
    { "log", "enabled", "true", "FTKIT_LOG_ENABLED", put_log_enabled },
    { "log", "teams", "rank", "FTKIT_LOG_TEAMS", put_log_teams },
    { "log", "team_size", "4", "FTKIT_LOG_TEAM_SIZE", put_log_team_size },
    { "log", "team_list", "0-3,8 4-7", "FTKIT_LOG_TEAM_LIST", put_log_team_list },
    { "log", "team_file", "my teams.txt", "FTKIT_LOG_TEAM_FILE", put_log_team_file },
    { "log", "reteam", "7 sets", "FTKIT_LOG_RETEAM", put_log_reteam },
    { "log", "reteam_gain", "35", "FTKIT_LOG_RETEAM_GAIN", put_log_reteam_gain },
    { "log", "silent", "0 4-7", "FTKIT_LOG_SILENT", put_log_silent },
    { "log", "helpers", "8", "FTKIT_LOG_HELPERS", put_log_helpers },
    { "log", "matrix", "matrix.csv", "FTKIT_LOG_MATRIX", put_log_matrix },
    { "log", "determinants", "relaxed", "FTKIT_LOG_DETERMINANTS", put_log_dets },
    { "log", "check", "false", "FTKIT_LOG_CHECK", put_log_check },
    { "log", "contexts", "33", "FTKIT_LOG_CONTEXTS", put_log_contexts },
    { "log", "memory", "500MB", "FTKIT_LOG_MEMORY", put_log_memory },
    { "log", "directory", "/tmp", "FTKIT_LOG_DIRECTORY", put_log_dir },
    { "files", "directory", "/dev/shm/me", "FTKIT_FILES_DIRECTORY", put_files_dir },
    { "files", "plain", "false", "FTKIT_FILES_PLAIN", put_files_plain },
    { "replicas", "count", "3", "FTKIT_REPLICAS_COUNT", put_replicas },
    { "replicas", "compare", "messages", "FTKIT_REPLICAS_COMPARE", put_replica_compare },
    { "replicas", "output", "all", "FTKIT_REPLICAS_OUTPUT", put_replica_output },
    { "replicas", "lost", "replay", "FTKIT_REPLICAS_LOST", put_replica_lost },
    { "device", "fault", "error", "FTKIT_DEVICE_FAULT", put_device_fault },
    { "device", "sums", "host", "FTKIT_DEVICE_SUMS", put_device_sums },
    { "device", "snapshot", "auto", "FTKIT_DEVICE_SNAPSHOT", put_device_snapshot },
    { "topology", "ranks_per_node", "48", "FTKIT_TOPOLOGY_RANKS_PER_NODE", put_ranks_per_node },
    { "spares", "count", "3", "FTKIT_SPARES_COUNT", put_spares },
    { "spares", "exit", "No", "FTKIT_SPARES_EXIT", put_spares_exit },
    { "spares", "prepare", "0", "FTKIT_SPARES_PREPARE", put_spares_prepare },
    { "recover", "supply", "spawn ,spare", "FTKIT_RECOVER_SUPPLY", put_supply },
    { "recover", "start", "12", "FTKIT_RECOVER_START", put_start },
    { "recover", "timeout", "250ms", "FTKIT_RECOVER_TIMEOUT", put_timeout_s },
    { "recover", "stall", "5min", "FTKIT_RECOVER_STALL", put_stall_s },
    { "recover", "node_timeout", "1h", "FTKIT_RECOVER_NODE_TIMEOUT", put_node_timeout_s },
    { "recover", "stall_say", "1.5min", "FTKIT_RECOVER_STALL_SAY", put_say_s },
    { "recover", "attempts", "4", "FTKIT_RECOVER_ATTEMPTS", put_attempts },
    { "recover", "exit_is_failure", "0", "FTKIT_RECOVER_EXIT_IS_FAILURE", put_exit_is_failure },
    { "report", "stderr", "debug", "FTKIT_REPORT_STDERR", put_stderr_level },
    { "report", "status", "1.5 h", "FTKIT_REPORT_STATUS", put_status_s },
    { "report", "events", "/tmp/\xc3\xa4rger;#.log", "FTKIT_REPORT_EVENTS", put_events },
    { "report", "energy", "off", "FTKIT_REPORT_ENERGY", put_energy },
    { "report", "sysfs", "/host/sys", "FTKIT_REPORT_SYSFS", put_sysfs },
    { "debug", "check", "regions", "FTKIT_DEBUG_CHECK", put_debug },
};

/* What config.h promises, written down a second time. */
static struct ftk_config defaults(void)
{
    struct ftk_config c = { .name = "default",
        .period = { .kind = FTK_PERIOD_AUTO, .value = 0 },
        .patience_s = 60,
        .mtbf_s = 86400,
        .scheme = FTK_SCHEME_BUDDY,
        .map = FTK_MAP_PAIR,
        .place = FTK_PLACE_MEMORY,
        .group = 8,
        .parity = 2,
        .local_scheme = FTK_SCHEME_NONE,
        .local_place = FTK_PLACE_SHARED,
        .local_group = 8,
        .local_parity = 2,
        .local_every = { .kind = FTK_PERIOD_AUTO, .value = 0 },
        .h5_enabled = true,
        .h5_every = { .kind = FTK_PERIOD_AUTO, .value = 0 },
        .h5_dir = ".",
        .sysfs = "/sys",
        .h5_keep = 2,
        .h5_async = true,
        .h5_compress = FTK_COMPRESS_NONE,
        .files_plain = true,
        .replicas = 1,
        .log_teams = FTK_TEAMS_DOMAIN,
        .log_reteam = { .kind = FTK_PERIOD_AUTO, .value = 0 },
        .log_reteam_gain = 20,
        .log_dets = FTK_DETS_NODE,
        .log_check = true,
        .log_contexts = 16,
        .log_memory = 1073741824.0,
        .spares_exit = true,
        .spares_prepare = true,
        .supply = { FTK_SUPPLY_SPARE, FTK_SUPPLY_SPAWN, FTK_SUPPLY_END },
        .nsupply = 3,
        .timeout_s = 60,
        .node_timeout_s = 10,
        .say_s = 60,
        .attempts = 10,
        .exit_is_failure = true,
        .stderr_level = FTKIT_WARNING };
    return c;
}

/* ---- Helpers
 * -------------------------------------------------------------------------*/

static void assert_period(const struct ftk_period *a, const struct ftk_period *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_true(a->value == b->value);
}

/* The same configuration, wherever it came from. */
static void assert_same(const struct ftk_config *a, const struct ftk_config *b)
{
    assert_string_equal(a->name, b->name);
    assert_period(&a->period, &b->period);
    assert_true(a->mtbf_s == b->mtbf_s);
    assert_int_equal(a->scheme, b->scheme);
    assert_int_equal(a->map, b->map);
    assert_int_equal(a->place, b->place);
    assert_string_equal(a->place_dir, b->place_dir);
    assert_int_equal(a->group, b->group);
    assert_int_equal(a->parity, b->parity);
    assert_int_equal(a->local_scheme, b->local_scheme);
    assert_int_equal(a->local_place, b->local_place);
    assert_string_equal(a->local_dir, b->local_dir);
    assert_int_equal(a->local_group, b->local_group);
    assert_int_equal(a->local_parity, b->local_parity);
    assert_period(&a->local_every, &b->local_every);
    assert_int_equal(a->h5_enabled, b->h5_enabled);
    assert_period(&a->h5_every, &b->h5_every);
    assert_string_equal(a->h5_dir, b->h5_dir);
    assert_int_equal(a->h5_keep, b->h5_keep);
    assert_int_equal(a->h5_writers, b->h5_writers);
    assert_int_equal(a->h5_async, b->h5_async);
    assert_true(a->h5_bandwidth == b->h5_bandwidth);
    assert_int_equal(a->h5_compress, b->h5_compress);
    assert_int_equal(a->log_enabled, b->log_enabled);
    assert_int_equal(a->replicas, b->replicas);
    assert_int_equal(a->replica_output, b->replica_output);
    assert_int_equal(a->replica_lost, b->replica_lost);
    assert_int_equal(a->log_teams, b->log_teams);
    assert_int_equal(a->log_team_size, b->log_team_size);
    assert_period(&a->log_reteam, &b->log_reteam);
    assert_int_equal(a->log_reteam_gain, b->log_reteam_gain);
    assert_int_equal(a->log_dets, b->log_dets);
    assert_int_equal(a->log_check, b->log_check);
    assert_int_equal(a->log_contexts, b->log_contexts);
    assert_true(a->log_memory == b->log_memory);
    assert_string_equal(a->log_dir, b->log_dir);
    assert_string_equal(a->files_dir, b->files_dir);
    assert_int_equal(a->files_plain, b->files_plain);
    assert_int_equal(a->ranks_per_node, b->ranks_per_node);
    assert_int_equal(a->spares, b->spares);
    assert_int_equal(a->spares_exit, b->spares_exit);
    assert_int_equal(a->spares_prepare, b->spares_prepare);
    assert_int_equal(a->nsupply, b->nsupply);
    assert_memory_equal(a->supply, b->supply, sizeof a->supply);
    assert_true(a->start == b->start);
    assert_string_equal(a->program, b->program);
    assert_true(a->timeout_s == b->timeout_s);
    assert_true(a->stall_s == b->stall_s);
    assert_true(a->node_timeout_s == b->node_timeout_s);
    assert_true(a->say_s == b->say_s);
    assert_int_equal(a->attempts, b->attempts);
    assert_int_equal(a->exit_is_failure, b->exit_is_failure);
    assert_int_equal(a->stderr_level, b->stderr_level);
    assert_string_equal(a->events, b->events);
    assert_int_equal(a->debug_check, b->debug_check);
}

static void put_file(const char *path, const void *text, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static void loads_path(const char *path, struct ftk_config *cfg)
{
    int rc = ftk_config_load(cfg, path);
    if (rc != FTKIT_OK)
        fail_msg("%d: %s", rc, ftk_detail_text());
}

static void loads(const char *text, struct ftk_config *cfg)
{
    put_file("t.ini", text, strlen(text));
    loads_path("t.ini", cfg);
}

static void assert_detail(const char *part)
{
    if (!strstr(ftk_detail_text(), part))
        fail_msg("no \"%s\" in \"%s\"", part, ftk_detail_text());
}

/* Loading fails, says where and what, and leaves the output alone. */
static void fails_path(const char *path, const char *where, const char *what)
{
    struct ftk_config cfg, before;
    memset(&cfg, 0xa5, sizeof cfg);
    before = cfg;
    ftk_detail_clear();
    int rc = ftk_config_load(&cfg, path);
    if (rc != FTKIT_ERR_CONFIG)
        fail_msg("%d instead of an error with \"%s\"", rc, what);
    assert_detail(where);
    assert_detail(what);
    assert_memory_equal(&cfg, &before, sizeof cfg);
}

static void fails_bytes(const void *text, size_t bytes, int line, const char *what)
{
    char where[32];
    snprintf(where, sizeof where, "t.ini:%d: ", line);
    put_file("t.ini", text, bytes);
    fails_path("t.ini", where, what);
}

static void fails(const char *text, int line, const char *what)
{
    fails_bytes(text, strlen(text), line, what);
}

static void fails_env(const char *name, const char *value, const char *what)
{
    setenv(name, value, 1);
    fails_path(NULL, name, what);
    unsetenv(name);
}

static size_t lines_with(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *c = text; (c = strstr(c, part)); c++)
        n++;
    return n;
}

static bool is_replicas(const struct sample *s)
{
    return strcmp(s->section, "replicas") == 0 && strcmp(s->key, "count") == 0;
}

/* Set what a key needs: a line apart needs the log; replicas need the log, and no files. */
static void set_needs(const struct sample *s)
{
    if (strcmp(s->key, "line") == 0 || is_replicas(s))
        setenv("FTKIT_LOG_ENABLED", "1", 1);
    if (is_replicas(s))
        setenv("FTKIT_LEVEL_HDF5_ENABLED", "0", 1);
}

static void unset_needs(const struct sample *s)
{
    if (strcmp(s->key, "line") == 0 || is_replicas(s))
        unsetenv("FTKIT_LOG_ENABLED");
    if (is_replicas(s))
        unsetenv("FTKIT_LEVEL_HDF5_ENABLED");
}

/* Lines "key = value" outside of comments. */
static size_t values_in(const char *text)
{
    size_t n = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *value = strstr(line, " = ");
        n += *line != '#' && value && value < line + strcspn(line, "\n");
    }
    return n;
}

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(samples); i++)
        unsetenv(samples[i].env);
    return 0;
}

static int setup_all(void **state)
{
    (void)state;
    return !mkdtemp(work) || chdir(work) != 0 || mkdir("sets here", 0700) != 0;
}

static int teardown_all(void **state)
{
    (void)state;
    unlink("t.ini");
    unlink("print.ini");
    rmdir("sets here");
    return chdir("/") != 0 || rmdir(work) != 0;
}

/* ---- What loads
 * ----------------------------------------------------------------------*/

static void t_defaults(void **state)
{
    struct ftk_config cfg, want = defaults();
    (void)state;
    loads_path(NULL, &cfg);
    assert_same(&cfg, &want);
    assert_string_equal(cfg.source, "");
    loads("", &cfg);
    assert_same(&cfg, &want);
    assert_string_equal(cfg.source, "t.ini");
}

static void t_every_key_from_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(samples); i++) {
        const struct sample *s = &samples[i];
        struct ftk_config cfg, want = defaults();
        char text[256];
        s->put(&want);
        set_needs(s);
        snprintf(text, sizeof text, "[%s]\n%s = %s\n", s->section, s->key, s->value);
        loads(text, &cfg);
        assert_same(&cfg, &want);
        snprintf(text, sizeof text, "\xef\xbb\xbf ; c\r\n\t[ %s ] # c\r\n  %s:%s \t; c", s->section,
            s->key, s->value);
        loads(text, &cfg);
        unset_needs(s);
        assert_same(&cfg, &want);
    }
}

static void t_every_key_from_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(samples); i++) {
        struct ftk_config cfg, want = defaults();
        samples[i].put(&want);
        set_needs(&samples[i]);
        setenv(samples[i].env, samples[i].value, 1);
        loads_path(NULL, &cfg);
        unsetenv(samples[i].env);
        unset_needs(&samples[i]);
        assert_same(&cfg, &want);
    }
}

/* A variable that is no key is a mistake, as a key in a file is. */
static void t_environment_unknown(void **state)
{
    static const char *const wrong[][2] = { { "FTKIT_CHECKPOINT_PERID", "FTKIT_CHECKPOINT_PERIOD" },
        { "FTKIT_CHEKPOINT_PERIOD", "FTKIT_CHECKPOINT_PERIOD" },
        { "FTKIT_LEVEL_HDF5_KEEPS", "FTKIT_LEVEL_HDF5_KEEP" },
        { "FTKIT_RECOVER_ANYTHING_AT_ALL", "FTKIT_RECOVER_" },
        { "FTKIT_PERIOD", "prints all keys" }, { "FTKIT_NO_SUCH_KEY", "prints all keys" } };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ftk_config cfg;
        setenv(wrong[i][0], "1", 1);
        assert_int_equal(ftk_config_load(&cfg, NULL), FTKIT_ERR_CONFIG);
        unsetenv(wrong[i][0]);
        assert_non_null(strstr(ftk_detail_text(), wrong[i][0]));
        assert_non_null(strstr(ftk_detail_text(), wrong[i][1]));
    }
}

static void t_environment_wins(void **state)
{
    struct ftk_config cfg;
    (void)state;
    setenv("FTKIT_LEVEL_HDF5_KEEP", " 9 ", 1);
    setenv("FTKIT_REPORT_EVENTS", "", 1);  /* empty is a value, and turns it off */
    setenv("FTKIT_ROOT", "/opt/ftkit", 1); /* an environment module says where ftkit is */
    setenv("FTKIT_RUN_ANYTHING", "1", 1);  /* of `ftkit run` */
    loads("[level.hdf5]\nkeep = 4\n[report]\nevents = log\n[spares]\ncount = 2\n", &cfg);
    unsetenv("FTKIT_ROOT");
    unsetenv("FTKIT_RUN_ANYTHING");
    assert_int_equal(cfg.h5_keep, 9);
    assert_string_equal(cfg.events, "");
    assert_int_equal(cfg.spares, 2);
}

static void t_times(void **state)
{
    static const struct {
        const char *text;
        double s;
    } good[] = { { "1ms", 0.001 }, { "90s", 90 }, { "2 min", 120 }, { "1.5h", 5400 },
        { "1d", 86400 }, { "0", 0 }, { "0s", 0 }, { ".5s", 0.5 }, { "100000d", 8640000000.0 } };
    struct ftk_config cfg;
    char text[128];
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        snprintf(text, sizeof text, "[recover]\nstall = %s\n", good[i].text);
        loads(text, &cfg);
        assert_true(cfg.stall_s == good[i].s);
    }
    fails("[recover]\nstall = 24\n", 2, "the unit is missing");
    fails("[recover]\n\nstall = 5 m\n", 3, "unknown unit");
    fails("[recover]\nstall = 5S\n", 2, "(ms, s, min, h, d)");
    fails("[recover]\nstall = -5s\n", 2, "is not a time");
    fails("[recover]\nstall = 1.2.3s\n", 2, "is not a time");
    fails("[recover]\nstall = 0x10s\n", 2, "unknown unit");
    fails("[recover]\nstall = 1e3s\n", 2, "unknown unit");
    fails("[recover]\nstall = inf\n", 2, "is not a time");
    fails("[recover]\nstall =\n", 2, "is not a time");
    fails("[recover]\nstall = 0.1ms\n", 2, "out of range");
    fails("[recover]\nstall = 100001d\n", 2, "out of range");
    fails("[recover]\ntimeout = 0\n", 2, "recover.timeout = '0' is out of range");
    fails("[checkpoint]\nmtbf = 24\n", 2, "checkpoint.mtbf = '24' has no unit");
    fails("[recover]\nnode_timeout = 2.9s\n", 2, "'2.9s' is out of range; allowed: a time of 3s");
    fails("[recover]\nnode_timeout = 61min\n", 2, "out of range");
    fails("[recover]\nnode_timeout = 0\n", 2, "out of range");
}

static void t_periods(void **state)
{
    static const struct {
        const char *text;
        struct ftk_period period;
    } good[] = { { "auto", { .kind = FTK_PERIOD_AUTO, .value = 0 } },
        { "10", { .kind = FTK_PERIOD_COUNT, .value = 10 } },
        { "1 call", { .kind = FTK_PERIOD_COUNT, .value = 1 } },
        { "3calls", { .kind = FTK_PERIOD_COUNT, .value = 3 } },
        { "30s", { .kind = FTK_PERIOD_SECONDS, .value = 30 } },
        { "0.5 h", { .kind = FTK_PERIOD_SECONDS, .value = 1800 } } };
    struct ftk_config cfg;
    char text[128];
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        snprintf(text, sizeof text, "[checkpoint]\nperiod = %s\n", good[i].text);
        loads(text, &cfg);
        assert_period(&cfg.period, &good[i].period);
    }
    loads("[level.hdf5]\nevery = 4 sets\n", &cfg);
    assert_period(&cfg.h5_every, &(struct ftk_period){ .kind = FTK_PERIOD_COUNT, .value = 4 });
    fails("[level.hdf5]\nevery = 4 calls\n", 2, "unknown unit");
    fails("[checkpoint]\nperiod = 4 sets\n", 2, "'10 calls'");
    fails("[checkpoint]\nperiod = 4 callss\n", 2, "unknown unit");
    fails("[checkpoint]\nperiod = 0\n", 2, "out of range");
    fails("[checkpoint]\nperiod = 0s\n", 2, "out of range");
    fails("[checkpoint]\nperiod = 1.5\n", 2, "not a whole number");
    fails("[checkpoint]\nperiod = 9999999999\n", 2, "out of range");
    fails("[checkpoint]\nperiod = often\n", 2, "checkpoint.period = 'often'");
}

static void t_start(void **state)
{
    (void)state;
    struct ftk_config cfg;
    loads("[recover]\nstart = Fresh\n", &cfg);
    assert_true(cfg.start == FTK_START_FRESH);
    loads("[recover]\nstart = newest\n", &cfg);
    assert_true(cfg.start == FTK_START_NEWEST);
    loads("[recover]\nstart = 4711\n", &cfg);
    assert_true(cfg.start == 4711);
    fails("[recover]\nstart = 0\n", 2, "out of range");
    fails("[recover]\nstart = 99999999999999999999\n", 2, "out of range");
    fails("[recover]\nstart = -1\n", 2,
        "neither newest nor fresh nor older nor continue nor a number");
    fails(
        "[recover]\nstart = oldest\n", 2, "newest, fresh, older, continue or the number of a set");
    fails("[recover]\nstart =\n", 2, "neither newest");
    loads("[context]\nprogram =\n", &cfg);
    assert_string_equal(cfg.program, "");
    fails("[context]\nprogram = a/b\n", 2, "not allowed");
}

static void t_supply(void **state)
{
    struct ftk_config cfg;
    (void)state;
    loads("[recover]\nsupply = spare,spawn , shrink,end\n", &cfg);
    for (int i = 0; i < FTK_SUPPLY_STEPS; i++)
        assert_int_equal(cfg.supply[i], i);
    assert_int_equal(cfg.nsupply, FTK_SUPPLY_STEPS);
    fails("[recover]\nsupply =\n", 2, "empty place");
    fails("[recover]\nsupply = spare,,end\n", 2, "empty place");
    fails("[recover]\nsupply = spare, end,\n", 2, "empty place");
    fails("[recover]\nsupply = spare, spare\n", 2, "a word twice");
    fails("[recover]\nsupply = end, spare\n", 2, "words after end");
    fails("[recover]\nsupply = spare spawn\n", 2, "unknown word");
    fails("[recover]\nsupply = spares, end\n", 2, "spare, spawn, shrink, end");
}

/* Lines far longer than inih reads in one piece. */
static void t_long_lines(void **state)
{
    struct ftk_config cfg;
    char path[FTK_PATH_MAX], text[4096];
    (void)state;
    for (size_t i = 0; i < sizeof path - 1; i++)
        path[i] = "ab/c =:d;#"[i % 10];
    path[sizeof path - 1] = '\0';
    snprintf(text, sizeof text, "[report]\nevents = %s ; events = x\nstderr=info", path);
    loads(text, &cfg);
    assert_string_equal(cfg.events, path);
    assert_int_equal(cfg.stderr_level, FTKIT_INFO);
    snprintf(text, sizeof text, "[report]\nevents = %sx\nstderr = info\n", path);
    fails(text, 2, "is too long");
    snprintf(text, sizeof text, "[report]\nevents = %s%s\n", path, path);
    fails(text, 2, "longer than 2048 bytes");
    snprintf(text, sizeof text, "[report]\n\n;; %s%s\n", path, path);
    fails(text, 3, "longer than 2048 bytes");
    snprintf(text, sizeof text, "; %s\n[report]\nevents = a\n", path);
    loads(text, &cfg);
    assert_string_equal(cfg.events, "a");
}

/* Every length around the limit of inih, with and without a key. */
static void t_long_keys_and_values(void **state)
{
    struct ftk_config cfg;
    char text[4096], path[FTK_PATH_MAX];
    (void)state;
    memset(path, 'p', sizeof path);
    for (int bytes = 150; bytes < 260; bytes++) {
        snprintf(text, sizeof text, "[report]\nevents =%*s\nstderr = info\n", bytes, "x/y");
        loads(text, &cfg);
        assert_string_equal(cfg.events, "x/y");
        assert_int_equal(cfg.stderr_level, FTKIT_INFO);
        snprintf(text, sizeof text, "[report]\nevents = %.*s.\n", bytes, path);
        loads(text, &cfg);
        assert_int_equal(strlen(cfg.events), bytes + 1);
        memset(text + 9, 'e', (size_t)bytes);
        strcpy(text + 9 + bytes, "=1\n");
        fails(text, 2, bytes + 3 > ini_max_line ? "the key is too long" : "unknown key");
        strcpy(text + 9 + bytes, "\n");
        fails(text, 2, "key = value");
    }
}

/* A locale of the C library of GNU that has a decimal comma, made here: none may be installed. */
static bool enter_comma_locale(void)
{
    static const struct {
        uint32_t magic, n, at[6], point, comma;
        char text[16];
    } file = { 0x20031114, 6, { 40, 42, 44, 36, 32, 47 }, '.', ',', ",\0.\0\3\3\0UTF-8" };
    assert_int_equal(mkdir("comma", 0777), 0);
    FILE *f = fopen("comma/LC_NUMERIC", "w");
    assert_non_null(f);
    assert_int_equal(fwrite(&file, sizeof file, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(setenv("LOCPATH", ".", 1), 0);
    return setlocale(LC_NUMERIC, "comma") != NULL;
}

/* The library reads and writes numbers with a point whatever the program's locale is, and leaves
 * that alone. */
static void t_locale(void **state)
{
    struct ftk_config cfg;
    char text[64];
    (void)state;
    if (!enter_comma_locale())
        skip();
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, "1,5");
    loads("[recover]\nstall = 1.5h\n", &cfg);
    assert_true(cfg.stall_s == 5400);
    ftk_format(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, "1.5");
    (void)ftk_fail(FTKIT_ERR_ARG, "%.1f s", 1.5);
    assert_non_null(strstr(ftk_detail_text(), "1.5 s"));
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, "1,5");
    assert_string_equal(setlocale(LC_NUMERIC, NULL), "comma");
    setlocale(LC_NUMERIC, "C");
    assert_int_equal(unsetenv("LOCPATH"), 0);
    assert_int_equal(unlink("comma/LC_NUMERIC"), 0);
    assert_int_equal(rmdir("comma"), 0);
}

/* ---- What does not
 * -------------------------------------------------------------------*/

static void t_unknown(void **state)
{
    (void)state;
    fails("; c\n\n[checkpoint]\nmtbf = 1h\nperod = 10\n", 5,
        "unknown key 'checkpoint.perod': did you mean 'checkpoint.period'?");
    fails("[level.hdf5]\ndirectry = /x\n", 2, "did you mean 'level.hdf5.directory'?");
    fails("[checkpoint]\nkeep = 3\n", 2, "did you mean 'level.hdf5.keep'?");
    fails("[recover]\nTimeout = 3s\n", 2, "did you mean 'recover.timeout'?");
    fails("[recover]\n= 3s\n", 2, "unknown key 'recover.'");
    fails("\n\n[chekpoint]\nperiod = 10\n", 3,
        "unknown section 'chekpoint': did you mean 'checkpoint'?");
    fails("[level.hdf]\n", 1, "did you mean 'level.hdf5'?");
    fails("[]\n", 1, "unknown section ''");
    fails("\nperod = 10\n[checkpoint]\n", 2,
        "key 'perod' is outside any section: did you mean 'checkpoint.period'?");
    fails("name = x\n", 1, "did you mean 'context.name'?");
}

static void t_twice(void **state)
{
    (void)state;
    fails("[spares]\ncount = 1\n[report]\n\n[spares]\nexit = no\n", 5,
        "section [spares] appears twice, first on line 1");
    fails("[spares]\ncount = 1\nexit = no\ncount = 1\n", 4,
        "key 'spares.count' appears twice, first on line 2");
}

static void t_lines(void **state)
{
    (void)state;
    fails("[spares]\ncount\n[report]\n", 2, "neither 'key = value'");
    fails("[spares]\ncount = 1\nexit", 3, "neither 'key = value'");
    fails("[spares]\ncount = 1\n  2\n", 3, "neither 'key = value'");
    fails("[spares]\ncount ; = 1\n", 2, "neither 'key = value'");
    fails("[spares\ncount = 1\n", 1, "no ']'");
    fails("\r\n[spares] count = 1\n", 2, "only a comment may follow");
}

static void t_values(void **state)
{
    char text[256], name[FTKIT_NAME_MAX + 2];
    (void)state;
    memset(name, 'n', sizeof name);
    snprintf(text, sizeof text, "[context]\nname = %.*s\n", FTKIT_NAME_MAX + 1, name);
    fails(text, 2, "is too long");
    fails("[context]\nname =\n", 2, "context.name = '' is empty");
    fails("[context]\nname = a/b\n", 2, "not allowed; allowed: 1 to 63");
    fails("[context]\nname = \xc3\xa4\n", 2, "not allowed");
    fails("[level.memory]\nscheme = budy\n", 2, "allowed: none, own, buddy, xor or rs");
    fails("[level.memory]\nmap = 0\n", 2, "pair or ring");
    fails("[level.hdf5]\nenabled = maybe\n", 2, "true or false");
    fails("[level.hdf5]\nenabled =\n", 2, "true or false");
    fails("[level.hdf5]\nkeep = 0\n", 2, "out of range");
    fails("[level.hdf5]\nkeep = 2.0\n", 2, "not a whole number");
    fails("[level.hdf5]\nkeep = 99999999999999999999\n", 2, "1 to 1000000");
    fails("[spares]\ncount = -1\n", 2, "not a whole number");
    fails("[spares]\ncount = 1 # one\n", 2, "a comment begins with ' ;'");
    fails("[report]\nstderr = all\n", 2, "none, error, warning, info or debug");
    fails("[level.hdf5]\ndirectory =\n", 2, "is empty");
}

static void t_teams(void **state)
{
    struct ftk_config cfg;
    (void)state;
    fails("[log]\nteam_list = 0-3 4-x\n", 2, "log.team_list: 'x' where a rank should be");
    fails("[log]\nteam_list = 0-3, 4\n", 2, "log.team_list: a rank is missing");
    fails("[log]\nteam_list = 0-3\ncheck = no\nteam_size = 4\n", 2,
        "log.team_size is not 0: only one of them can say what the teams are");
    fails("[log]\nteam_size = 4\n\nteam_file = t\n", 4,
        "log.team_file: log.team_size is not 0: only one of them");
    fails("[log]\nteam_file = t\nteam_list = 0\n", 2,
        "log.team_file: log.team_list says what the teams are: only one of them can");
    fails("[log]\nsilent = 0 4-x\n", 2, "log.silent: 'x' where a rank should be");
    fails("[log]\nsilent = auto\n", 2, "log.silent: 'a' where a rank should be");
    put_file("t.ini", "[log]\nteam_size = 4\n", 20);
    setenv("FTKIT_LOG_TEAM_LIST", "0-3 4", 1);
    fails_path("t.ini", "FTKIT_LOG_TEAM_LIST", "log.team_size is not 0");
    setenv("FTKIT_LOG_TEAM_SIZE", "0", 1); /* what counts is the last word */
    loads_path("t.ini", &cfg);
    assert_string_equal(cfg.log_team_list, "0-3 4");
    unsetenv("FTKIT_LOG_TEAM_SIZE");
    unsetenv("FTKIT_LOG_TEAM_LIST");
    loads("[log]\nteams = rank\nteam_file = not/there\n", &cfg); /* no job, no file */
}

static void t_shrink_with_log(void **state)
{
    struct ftk_config cfg;
    (void)state;
    fails("[recover]\nsupply = spare, shrink\n[log]\nenabled = true\n", 2,
        "recover.supply: shrink cannot be together with log.enabled");
    fails("[log]\nenabled = true\n[recover]\nsupply = shrink, end\n", 4, "log.enabled");
    loads("[recover]\nsupply = shrink\n[log]\nenabled = false\n", &cfg);
    loads("[recover]\nsupply = spare\n[log]\nenabled = true\n", &cfg);
    setenv("FTKIT_LOG_ENABLED", "true", 1); /* what counts is the last word */
    fails_env("FTKIT_RECOVER_SUPPLY", "shrink", "log.enabled");
    fails("[recover]\nsupply = shrink\n", 2, "log.enabled");
    unsetenv("FTKIT_LOG_ENABLED");
}

/* The file loads, and its only warning begins with the line and the key; NULL: none. */
static void warns(const char *text, const char *want)
{
    struct ftk_config cfg;
    loads(text, &cfg);
    if (!want) {
        assert_string_equal(cfg.warnings, "");
        return;
    }
    if (strncmp(cfg.warnings, want, strlen(want)) != 0 || lines_with(cfg.warnings, "\n") != 1)
        fail_msg("not the one warning \"%s\" but \"%s\"", want, cfg.warnings);
}

static void t_nonsense(void **state)
{
    static const char *const local[] = { "place = file", "directory = /tmp", "group = 4",
        "parity = 1", "every = 3 sets" };
    static const char *const files[] = { "every = 1", "keep = 3", "asynchronous = false",
        "bandwidth = 1GB", "compress = deflate" };
    static const char *const log[] = { "teams = rank", "team_size = 2", "team_list = 0-3",
        "team_file = t", "silent = 0 4-7", "helpers = 4", "matrix = m", "determinants = causal",
        "check = false", "contexts = 8", "memory = 1GB", "directory = /tmp" };
    char text[160], want[96];
    (void)state;
    fails("[level.memory]\nscheme = none\n[level.hdf5]\nenabled = no\n", 2,
        "no set survives anything; choose a scheme, or level.hdf5.enabled = true");
    for (int parity = 3; parity <= 9; parity++) {
        snprintf(
            text, sizeof text, "[level.memory]\nscheme = rs\ngroup = 4\nparity = %d\n", parity);
        if (parity >= 4)
            fails(text, 4, "leave no room for data: choose parity from 1 to 3");
        else
            warns(text, NULL);
    }
    fails("[level.local]\nparity = 8\nscheme = rs\n", 2, "level.local.parity: 8 parities");
    warns("[level.memory]\nparity = 8\n", "t.ini:2: level.memory.parity: without effect");
    warns("[level.memory]\nscheme = xor\nmap = ring\n", "t.ini:3: level.memory.map: without");
    warns("[level.memory]\ngroup = 4\n", "t.ini:2: level.memory.group: without effect");
    warns("[level.memory]\ndirectory = /tmp\n", "t.ini:2: level.memory.directory: without");
    warns("[level.memory]\nscheme = own\nincremental = on\n", "t.ini:3: level.memory.incr");
    warns("[level.memory]\nscheme = none\nplace = shared\n", "t.ini:3: level.memory.place:");
    warns("[level.memory]\nscheme = own\n[level.hdf5]\nenabled = no\n",
        "t.ini:2: level.memory.scheme: each set has one copy");
    warns("[level.memory]\nscheme = own\nplace = shared\n[level.hdf5]\nenabled = no\n", NULL);
    for (size_t i = 0; i < COUNT(local); i++) {
        snprintf(text, sizeof text, "[level.local]\n\n%s\n", local[i]);
        warns(text, "t.ini:3: level.local.");
        snprintf(text, sizeof text, "[level.local]\nscheme = rs\nplace=file\n%s\n",
            i == 0 ? "" : local[i]);
        warns(text, NULL);
    }
    warns("[level.memory]\nplace = shared\n[level.local]\nscheme = buddy\n",
        "t.ini:4: level.local.scheme: scheme and place are those of level.memory");
    warns("[level.local]\nscheme = buddy\n", NULL);
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(text, sizeof text, "[level.hdf5]\nenabled = false\n%s\n", files[i]);
        warns(text, "t.ini:3: level.hdf5.");
        snprintf(text, sizeof text, "[level.hdf5]\n%s\n", files[i]);
        warns(text, NULL);
    }
    warns("[level.hdf5]\nenabled = false\n[files]\nplain = false\n", "t.ini:4: files.plain:");
    warns("[files]\nplain = false\n", NULL);
    warns("[context]\naccess = group\n[level.hdf5]\nenabled = false\n", "t.ini:2: context.access:");
    warns("[context]\naccess = group\n[level.hdf5]\nenabled = false\n[report]\nevents = e\n", NULL);
    warns("[context]\naccess = group\n", NULL);
    warns("[level.hdf5]\nbandwidth = 100kB\n", "t.ini:2: level.hdf5.bandwidth: less than");
    warns("[level.hdf5]\nbandwidth = 0\n", NULL);
    warns("[level.hdf5]\nasynchronous = no\nbandwidth = 1GB\n", "t.ini:3: level.hdf5.band");
    for (size_t i = 0; i < COUNT(log); i++) {
        snprintf(text, sizeof text, "[log]\n%s\n", log[i]);
        snprintf(want, sizeof want, "t.ini:2: log.%.*s: without effect: log.enabled is false",
            (int)strcspn(log[i], " "), log[i]);
        warns(text, want);
        snprintf(text, sizeof text, "[log]\nenabled = true\n%s\n", log[i]);
        warns(text, NULL);
    }
    warns("[log]\nenabled = true\nteams = rank\nteam_size = 2\n", "t.ini:3: log.teams: without");
    fails("[log]\nenabled = true\nteams = all\nsilent = 0\n", 4,
        "log.silent: log.teams is all: one team of all ranks keeps no messages");
    loads("[log]\nenabled = true\nteams = all\nteam_size = 2\nsilent = 0\n",
        &(struct ftk_config){ .nsupply = 0 });
    fails("[log]\nenabled = true\nsilent = 0\n[replicas]\ncount = 2\n", 3,
        "log.silent: silent teams need replicas.count = 1");
    fails("[log]\nenabled = true\nhelpers = 2\n[replicas]\ncount = 2\n", 3,
        "log.helpers: help in a replay needs replicas.count = 1");
    warns("[checkpoint]\nperiod = 3 calls\nmtbf = 1h\n[level.hdf5]\nevery = 2\n",
        "t.ini:3: checkpoint.mtbf: without effect");
    warns("[checkpoint]\nperiod = 3 calls\nmtbf = 1h\n", NULL);
    warns("[checkpoint]\nperiod = 300\n",
        "t.ini:2: checkpoint.period: a number without a unit counts calls: write '300 calls'");
    warns("[level.hdf5]\nevery = 60\n",
        "t.ini:2: level.hdf5.every: a number without a unit counts sets: write '60 sets', '60s'");
    warns("[checkpoint]\nperiod = 300 calls\n[level.hdf5]\nevery = 20\n", NULL);
    fails("[level.hdf5]\ndirectory = ~/sets\n", 2, "begins with ~, which only a shell expands");
    fails("[report]\nevents = $SCRATCH/log\n", 2, "has a variable ($), which only a shell");
    fails("[report]\nevents = /scratch/${USER}/log\n", 2, "has a variable ($), which only a");
    warns("[report]\nevents = cost$5~\n", NULL);
    warns("[recover]\nstall = 30s\n", "t.ini:2: recover.stall: shorter than recover.timeout");
    warns("[recover]\nstall = 10min\n", NULL);
    warns("[recover]\ntimeout = 900ms\n", "t.ini:2: recover.timeout: shorter than 1s");
    warns("[recover]\ntimeout = 1s\n", NULL);
    warns("[checkpoint]\nmtbf = 1min\n[recover]\ntimeout = 2min\n",
        "t.ini:4: recover.timeout: longer than checkpoint.mtbf");
    warns("[checkpoint]\nperiod = 2h\nmtbf = 1h\n", "t.ini:2: checkpoint.period: longer than");
    warns("[checkpoint]\nperiod = 2h\nmtbf = 2h\n", NULL);
    warns("[replicas]\ncompare = messages\n", "t.ini:2: replicas.compare: without effect");
    warns("[replicas]\noutput = all\n", "t.ini:2: replicas.output: without effect");
    warns("[replicas]\nlost = replay\n", "t.ini:2: replicas.lost: without effect");
    setenv("FTKIT_LOG_TEAMS", "rank", 1);
    warns("", "environment variable FTKIT_LOG_TEAMS: log.teams: without effect");
    unsetenv("FTKIT_LOG_TEAMS");
}

/* Numbers that cannot mean anything are out of range. */
static void t_no_number(void **state)
{
    (void)state;
    fails("[checkpoint]\nperiod = 0\n", 2, "out of range");
    fails("[checkpoint]\nperiod = 0s\n", 2, "out of range");
    fails("[level.hdf5]\nkeep = 0\n", 2, "out of range");
    fails("[level.hdf5]\nevery = 0 sets\n", 2, "out of range");
    fails("[level.local]\nevery = 0\n", 2, "out of range");
    fails("[level.memory]\ngroup = 1\n", 2, "out of range");
    fails("[level.memory]\nparity = 0\n", 2, "out of range");
    fails("[recover]\nattempts = 0\n", 2, "out of range");
    fails("[log]\ncontexts = 1\n", 2, "out of range");
}

static void t_directory(void **state)
{
    struct ftk_config cfg;
    (void)state;
    fails("[level.hdf5]\nkeep = 1\ndirectory = not/there\n[spares]\ncount = 1\n", 3,
        "missing path 'not/there': No such file");
    fails("[level.hdf5]\ndirectory = t.ini\n", 2, "missing path 't.ini': Not a directory");
    loads("[level.hdf5]\ndirectory = not/there\nenabled = no\n", &cfg);
    assert_string_equal(cfg.h5_dir, "not/there");
    fails_env("FTKIT_LEVEL_HDF5_DIRECTORY", "not/there", "missing path 'not/there'");
    setenv("FTKIT_LEVEL_HDF5_DIRECTORY", "sets here", 1); /* what counts is the last word */
    loads("[level.hdf5]\ndirectory = not/there\n", &cfg);
    assert_string_equal(cfg.h5_dir, "sets here");
    assert_int_equal(rmdir("sets here"), 0); /* the default need not exist yet */
    unsetenv("FTKIT_LEVEL_HDF5_DIRECTORY");
    loads_path(NULL, &cfg);
    assert_int_equal(mkdir("sets here", 0700), 0);
}

static void t_environment_errors(void **state)
{
    char text[4096], path[FTK_PATH_MAX + 1];
    (void)state;
    fails_env("FTKIT_CHECKPOINT_MTBF", "24", "the unit is missing");
    fails_env("FTKIT_LEVEL_MEMORY_SCHEME", "", "none, own, buddy, xor or rs");
    fails_env("FTKIT_CONTEXT_NAME", "a\nb", "control character");
    fails_env("FTKIT_REPORT_EVENTS", "a\x1b[1m", "control character");
    fails_env("FTKIT_REPORT_EVENTS", "a\xff", "not UTF-8");
    fails_env("FTKIT_REPORT_EVENTS", "a ;b", "a comment begins with");
    fails_env("FTKIT_REPORT_EVENTS", "#b", "a comment begins with");
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    fails_env("FTKIT_REPORT_EVENTS", text, "too long");
    memset(path, 'x', sizeof path);
    path[FTK_PATH_MAX] = '\0';
    fails_env("FTKIT_REPORT_EVENTS", path, "too long");
}

static void t_files(void **state)
{
    char path[2 * FTK_PATH_MAX], deep[400];
    (void)state;
    fails_path("no.ini", "no.ini", "No such file");
    fails_path("", "configuration file", "No such file");
    fails_path("sets here", "sets here", "is a directory");
    fails_path("/dev/null", "/dev/null", "not a regular file");
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    fails_path(path, "configuration file", "too long");
    for (size_t i = 0; i < sizeof deep; i++)
        deep[i] = "./"[i % 2];
    put_file("t.ini", "[spares]\ncont = 1\n", 18);
    strcpy(deep + 300, "t.ini"); /* the end of a long path is what helps */
    fails_path(deep, "/t.ini:2: ", "did you mean 'spares.count'?");
    assert_int_equal(chmod("t.ini", 0), 0);
    if (geteuid() != 0)
        fails_path("t.ini", "t.ini", "Permission denied");
    unlink("t.ini");
}

static void t_size(void **state)
{
    size_t mib = (size_t)1 << 20;
    char *text = malloc(10 * mib);
    struct ftk_config cfg;
    (void)state;
    assert_non_null(text);
    memset(text, '\n', 10 * mib);
    put_file("t.ini", text, 10 * mib);
    fails_path("t.ini", "t.ini", "is 10 MiB, more than a configuration can be");
    put_file("t.ini", text, mib + 1);
    fails_path("t.ini", "t.ini", "is 1025 KiB, more than a configuration can be");
    memcpy(text + mib - 8, "[spares]", 8);
    put_file("t.ini", text, mib);
    loads_path("t.ini", &cfg);
    memcpy(text + mib - 8, "[spaces]", 8);
    fails_bytes(text, mib, (int)mib - 7, "did you mean 'spares'?");
    free(text);
}

static void t_bytes(void **state)
{
    static const char *const bad[] = { "\x80", "\xc3", "\xc3(", "\xc0\x80", "\xc1\xbf",
        "\xe0\x80\x80", "\xe2\x82", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xff", "\xfe" };
    struct ftk_config cfg;
    (void)state;
    fails_bytes("[spares]\n; \0\n", 13, 2, "NUL");
    fails_bytes("\0", 1, 1, "NUL");
    fails_bytes("\xff\xfe[\0s\0", 6, 1, "not UTF-8");
    fails("\n\n; \x1b[31m\n", 3, "control characters");
    fails("; a\rb\n", 1, "control characters");
    fails("; \x7f\n", 1, "control characters");
    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[64];
        snprintf(text, sizeof text, "[spares]\ncount = 1\n; %s", bad[i]);
        fails(text, 3, "this is not UTF-8");
        snprintf(text, sizeof text, "\n; %s\n[spares]\n", bad[i]);
        fails(text, 2, "this is not UTF-8");
    }
    loads("; \xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf "
          "\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf \t\r\n",
        &cfg);
}

static uint32_t next_random(uint32_t *seed) /* xorshift32: the same files everywhere */
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

/* Garbage: any bytes; and, harder to tell, the alphabet of configurations. */
static void t_garbage(void **state)
{
    static const char alphabet[] = "[]=:;# \n\tspare.count12h,\xc3\xa4";
    uint32_t seed = 20240229;
    (void)state;
    for (int i = 0; i < 200; i++) {
        char text[4096];
        size_t bytes = 64 + next_random(&seed) % (sizeof text - 64);
        for (size_t j = 0; j < bytes; j++)
            text[j] = i % 2 ? (char)(next_random(&seed) & 0xff)
                            : alphabet[next_random(&seed) % (sizeof alphabet - 1)];
        put_file("t.ini", text, bytes);
        fails_path("t.ini", "t.ini:", "");
    }
}

/* ---- Printing
 * ------------------------------------------------------------------------*/

/* Print, load, and find the same; the text has every key once. */
static void round_trip(const struct ftk_config *cfg)
{
    struct ftk_config again;
    FILE *f = fopen("print.ini", "w");
    assert_non_null(f);
    assert_int_equal(ftk_config_print(f, cfg), FTKIT_OK);
    assert_int_equal(fclose(f), 0);
    loads_path("print.ini", &again);
    assert_same(cfg, &again);
}

static void t_round_trip(void **state)
{
    struct ftk_config cfg;
    (void)state;
    loads_path(NULL, &cfg);
    round_trip(&cfg);
    put_replicas(&cfg); /* they do not go with all other keys */
    round_trip(&cfg);
    loads_path(NULL, &cfg);
    for (size_t i = 0; i < COUNT(samples); i++) {
        if (is_replicas(&samples[i]))
            continue;
        samples[i].put(&cfg);
        snprintf(cfg.source, sizeof cfg.source, "%s", i % 2 ? "a.ini" : "a\nb");
        round_trip(&cfg);
        cfg.line = FTK_LINE_TOGETHER; /* apart does not go with all other keys */
    }
    memset(cfg.events, 'e', sizeof cfg.events - 1);
    cfg.events[sizeof cfg.events - 1] = '\0';
    round_trip(&cfg);
    cfg.log_enabled = false; /* not with shrink */
    for (int i = 0; i < FTK_SUPPLY_STEPS; i++)
        cfg.supply[i] = i;
    cfg.nsupply = FTK_SUPPLY_STEPS;
    round_trip(&cfg);
}

static void t_sizes(void **state)
{
    static const struct {
        const char *text;
        double bytes;
    } good[] = { { "0", 0 }, { "1B", 1 }, { "500MB", 5e8 }, { "64 KiB", 65536 }, { "1.5kB", 1500 },
        { "2GiB", 2147483648.0 }, { "0.5TB", 5e11 } };
    struct ftk_config cfg;
    char text[96];
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        snprintf(text, sizeof text, "[level.hdf5]\nbandwidth = %s\n", good[i].text);
        loads(text, &cfg);
        assert_true(cfg.h5_bandwidth == good[i].bytes);
        round_trip(&cfg);
    }
    fails("[level.hdf5]\nbandwidth = 500\n", 2, "the unit is missing");
    fails("[level.hdf5]\nbandwidth = 500mb\n", 2, "unknown unit");
    fails("[level.hdf5]\nbandwidth = fast\n", 2, "not a number of bytes");
    fails("[level.hdf5]\nbandwidth = -1MB\n", 2, "not a number of bytes");
    fails("[level.hdf5]\nbandwidth = 0.5B\n", 2, "out of range");
    fails("[level.hdf5]\nbandwidth = 10000TB\n", 2, "out of range");
}

static void t_round_trip_times(void **state)
{
    struct ftk_config cfg;
    uint32_t seed = 7;
    (void)state;
    loads_path(NULL, &cfg);
    const char *few = getenv("FTKIT_TEST_FEW");
    for (int i = 0; i < (few ? atoi(few) : 300); i++) {
        char text[128];
        static const char *const unit[] = { "ms", "s", "min", "h", "d" };
        snprintf(text, sizeof text, "[recover]\nstall = %u.%u%s\n", 1 + next_random(&seed) % 99999,
            next_random(&seed), unit[i % 5]);
        loads(text, &cfg);
        cfg.mtbf_s = cfg.stall_s / 3 + 1;
        cfg.period =
            (struct ftk_period){ .kind = FTK_PERIOD_SECONDS, .value = cfg.stall_s / 7 + 0.001 };
        round_trip(&cfg);
    }
}

static void t_print_text(void **state)
{
    struct ftk_config cfg;
    char *text = NULL;
    size_t bytes = 0;
    (void)state;
    loads("[recover]\nstall = 1.5h\n", &cfg);
    FILE *f = open_memstream(&text, &bytes);
    assert_int_equal(ftk_config_print(f, &cfg), FTKIT_OK);
    fclose(f);
    assert_non_null(strstr(text, "\n[context]\n# "));
    assert_non_null(strstr(text, "\nname = default\n"));
    assert_non_null(strstr(text, "\nmtbf = 1d\n"));
    assert_non_null(strstr(text, "\nstall = 1.5h\n"));
    assert_non_null(strstr(text, "\ntimeout = 60s\n"));
    assert_non_null(strstr(text, "\nevents =\n"));
    assert_int_equal(lines_with(text, "\n[recover]\n"), 1);
    assert_int_equal(values_in(text) + 10, COUNT(samples)); /* ten are empty */
    free(text);
    cfg.scheme = 99; /* not from ftk_config_load(): better no file than a wrong one */
    f = tmpfile();
    assert_int_equal(ftk_config_print(f, &cfg), FTKIT_ERR_ARG);
    assert_detail("level.memory.scheme");
    fclose(f);
    f = fopen("/dev/full", "w");
    if (f) {
        assert_int_equal(ftk_config_document(f), FTKIT_ERR_NOSPACE);
        fclose(f);
    }
}

/* What ftk_config_each() says of one key. */
struct told {
    const char *section, *name;
    int from, line, calls, found;
    char value[64];
};

static int tell(void *arg, const struct ftk_config_item *item)
{
    struct told *t = arg;
    t->calls++;
    if (strcmp(item->section, t->section) != 0 || strcmp(item->name, t->name) != 0)
        return FTKIT_OK;
    t->found++;
    t->from = item->from;
    t->line = item->line;
    snprintf(t->value, sizeof t->value, "%s", item->value);
    return FTKIT_OK;
}

static void origin_is(const struct sample *s, const char *path, int from, int line)
{
    struct ftk_config cfg;
    struct ftk_config_origin origin;
    struct told t = { .section = s->section, .name = s->key };
    assert_int_equal(ftk_config_load_origin(&cfg, path, &origin), FTKIT_OK);
    assert_int_equal(ftk_config_each(&cfg, &origin, tell, &t), FTKIT_OK);
    assert_int_equal(t.calls, COUNT(samples));
    assert_int_equal(t.found, 1);
    assert_int_equal(t.from, from);
    assert_int_equal(t.line, line);
    ftk_config_from_run(&origin, s->section, s->key);
    assert_int_equal(ftk_config_each(&cfg, &origin, tell, &t), FTKIT_OK);
    assert_int_equal(t.from, FTK_FROM_RUN);
    assert_int_equal(ftk_config_each(&cfg, NULL, tell, &t), FTKIT_OK);
    assert_int_equal(t.from, FTK_FROM_DEFAULT);
}

/* Each key knows where it comes from; the environment hides the file. */
static void t_origin(void **state)
{
    char text[256];
    (void)state;
    const size_t next = getenv("FTKIT_TEST_FEW") ? 5 : 1; /* where each takes long */
    for (size_t i = 0; i < COUNT(samples); i += next) {
        const struct sample *s = &samples[i];
        origin_is(s, NULL, FTK_FROM_DEFAULT, 0);
        set_needs(s);
        snprintf(text, sizeof text, "; c\n[%s]\n\n%s = %s\n", s->section, s->key, s->value);
        put_file("t.ini", text, strlen(text));
        origin_is(s, "t.ini", FTK_FROM_FILE, 4);
        setenv(s->env, s->value, 1);
        origin_is(s, "t.ini", FTK_FROM_ENVIRONMENT, 0);
        snprintf(text, sizeof text, "FTKIT_NOTHING,%s,", s->env);
        setenv(FTK_CONFIG_RUN_SETS, text, 1);
        origin_is(s, "t.ini", FTK_FROM_RUN, 0);
        snprintf(text, sizeof text, "%sX,X%s,", s->env, s->env); /* other names */
        setenv(FTK_CONFIG_RUN_SETS, text, 1);
        origin_is(s, NULL, FTK_FROM_ENVIRONMENT, 0);
        unsetenv(FTK_CONFIG_RUN_SETS);
        unsetenv(s->env);
        unset_needs(s);
    }
}

static int stop_at_third(void *arg, const struct ftk_config_item *item)
{
    int *n = arg;
    (void)item;
    return ++*n == 3 ? FTKIT_ERR_ARG : FTKIT_OK;
}

static void t_print_origin(void **state)
{
    struct ftk_config cfg;
    struct ftk_config_origin origin;
    char *text = NULL;
    size_t bytes = 0;
    int n = 0;
    (void)state;
    put_file("t.ini", "[spares]\ncount = 3\n", 19);
    setenv("FTKIT_LEVEL_HDF5_KEEP", "5", 1);
    assert_int_equal(ftk_config_load_origin(&cfg, "t.ini", &origin), FTKIT_OK);
    unsetenv("FTKIT_LEVEL_HDF5_KEEP");
    ftk_config_from_run(&origin, "report", "stderr");
    ftk_config_from_run(&origin, "report", "nothing"); /* no such key */
    FILE *f = open_memstream(&text, &bytes);
    assert_int_equal(ftk_config_print_origin(f, &cfg, &origin), FTKIT_OK);
    fclose(f);
    assert_non_null(strstr(text, "\n# From: t.ini:2\ncount = 3\n"));
    assert_non_null(
        strstr(text, "\n# From: environment variable FTKIT_LEVEL_HDF5_KEEP\nkeep = 5\n"));
    assert_non_null(strstr(text, "\n# From: ftkit run\nstderr = warning\n"));
    assert_non_null(strstr(text, "\n# From: default\nmtbf = 1d\n"));
    assert_int_equal(lines_with(text, "\n# From: "), COUNT(samples));
    put_file("print.ini", text, bytes); /* and it is a configuration file */
    loads_path("print.ini", &cfg);
    assert_int_equal(cfg.h5_keep, 5);
    free(text);
    assert_int_equal(ftk_config_each(&cfg, &origin, stop_at_third, &n), FTKIT_ERR_ARG);
    assert_int_equal(n, 3);
    double size = 0;
    assert_null(ftk_config_bytes("2 GiB", &size));
    assert_true(size == 2147483648.0);
    assert_non_null(ftk_config_bytes("2", &size));
    assert_true(size == 2147483648.0);
}

static void t_document(void **state)
{
    char *text = NULL;
    size_t bytes = 0;
    (void)state;
    FILE *f = open_memstream(&text, &bytes);
    assert_int_equal(ftk_config_document(f), FTKIT_OK);
    fclose(f);
    for (size_t i = 0; i < COUNT(samples); i++) {
        char part[96];
        snprintf(part, sizeof part, "## [%s]\n", samples[i].section);
        assert_int_equal(lines_with(text, part), 1);
        snprintf(part, sizeof part, " | `%s` | ", samples[i].env);
        assert_int_equal(lines_with(text, part), 1);
    }
    /* no key is missing above: rows are keys and two lines for the head of each table */
    assert_int_equal(lines_with(text, "\n| "), COUNT(samples) + 2 * lines_with(text, "## ["));
    free(text);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(t_defaults, setup),
        cmocka_unit_test_setup(t_every_key_from_file, setup),
        cmocka_unit_test_setup(t_every_key_from_environment, setup),
        cmocka_unit_test_setup(t_environment_unknown, setup),
        cmocka_unit_test_setup(t_environment_wins, setup),
        cmocka_unit_test_setup(t_times, setup),
        cmocka_unit_test_setup(t_periods, setup),
        cmocka_unit_test_setup(t_supply, setup),
        cmocka_unit_test_setup(t_start, setup),
        cmocka_unit_test_setup(t_long_lines, setup),
        cmocka_unit_test_setup(t_long_keys_and_values, setup),
        cmocka_unit_test_setup(t_locale, setup),
        cmocka_unit_test_setup(t_unknown, setup),
        cmocka_unit_test_setup(t_twice, setup),
        cmocka_unit_test_setup(t_lines, setup),
        cmocka_unit_test_setup(t_values, setup),
        cmocka_unit_test_setup(t_teams, setup),
        cmocka_unit_test_setup(t_shrink_with_log, setup),
        cmocka_unit_test_setup(t_nonsense, setup),
        cmocka_unit_test_setup(t_no_number, setup),
        cmocka_unit_test_setup(t_directory, setup),
        cmocka_unit_test_setup(t_environment_errors, setup),
        cmocka_unit_test_setup(t_files, setup),
        cmocka_unit_test_setup(t_size, setup),
        cmocka_unit_test_setup(t_sizes, setup),
        cmocka_unit_test_setup(t_origin, setup),
        cmocka_unit_test_setup(t_print_origin, setup),
        cmocka_unit_test_setup(t_bytes, setup),
        cmocka_unit_test_setup(t_garbage, setup),
        cmocka_unit_test_setup(t_round_trip, setup),
        cmocka_unit_test_setup(t_round_trip_times, setup),
        cmocka_unit_test_setup(t_print_text, setup),
        cmocka_unit_test_setup(t_document, setup),
    };
    return cmocka_run_group_tests_name("config", tests, setup_all, teardown_all);
}
