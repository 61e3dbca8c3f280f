/* The processes of a new job meet (see gather.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "gather.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/identity.h"
#include "core/mpi_shim.h"
#include "core/run_state.h"
#include "core/teams.h"
#include "detect/builds.h"
#include "detect/sure.h"
#include "paths.h"
#include "recover/programs.h"

#define GATHER_TRIES 8 /* in a row without a death */

/* ---- configurations ------------------------------------------------------------------ */

/* Hash of the part of the configuration that must be the same on all processes. */
static uint64_t config_hash(const struct ftkit_ctx *ctx)
{
    char *text = NULL;
    size_t bytes = 0;
    struct ftk_config same = ctx->cfg;
    same.stderr_level = 0; /* reports may differ */
    same.spares = 0;       /* programs may have different ones */
    same.status_s = 0;
    same.energy = FTK_ENERGY_AUTO;
    same.events[0] = same.source[0] = '\0';
    snprintf(same.sysfs, sizeof same.sysfs, "/"); /* it may not be empty */
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return 0;
    int bad = ftk_config_print(f, &same) != FTKIT_OK;
    bad |= fclose(f) != 0;
    uint64_t h = bad ? 0 : ftk_xxh3(text, bytes);
    free(text);
    return h;
}

/* Report the error of this process, because a program may not print it. */
static void say_failure(struct ftkit_ctx *ctx)
{
    if (ctx->cfg.name[0] == '\0')
        return; /* the configuration could not be read: report.stderr is not known */
    ftk_paths_report(ctx);
    ftk_report(
        FTKIT_ERROR, "context %s: it cannot be opened: %s", ctx->cfg.name, ftk_detail_text());
}

/* ---- what all processes have agreed on ------------------------------------------------- */

/* The processes of an opening. */
struct comparing {
    MPI_Comm s; /* the live ones */
    int rank;   /* of this process in s */
    int size;   /* processes at the start */
    bool peers; /* false: a process has failed meanwhile, or this one lets others wait */
    int spares; /* of all programs */
};

static int differ(const struct ftkit_ctx *ctx, const char *what)
{
    return ftk_fail(FTKIT_ERR_MISMATCH, "the ranks have different %s (%s)", what,
        ctx->cfg.source[0] ? ctx->cfg.source : "defaults and environment");
}

/* The error that all processes have agreed on, FTKIT_OK: none.  local: of this process; rank: of
 * the one that reports. */
static int common_error(
    struct ftkit_ctx *ctx, const struct comparing *c, int local, int code, int64_t rank)
{
    if (rank == c->rank)
        say_failure(ctx);
    if (code == FTKIT_OK || local != FTKIT_OK)
        return code == FTKIT_OK ? FTKIT_OK : local;
    return ftk_fail(code, "another rank cannot open the context: %s", ftkit_strerror(code));
}

/* Read the teams of log.team_list or log.team_file: a process that is spawned later gets them from
 * the others. */
static int read_teams(struct ftkit_ctx *ctx, int nranks)
{
    const struct ftk_config *cfg = &ctx->cfg;
    free(ctx->teams);
    ctx->teams = calloc((size_t)nranks, sizeof *ctx->teams);
    if (!ctx->teams)
        return ftk_fail(FTKIT_ERR_NOMEM, "teams");
    if (*cfg->log_team_list)
        return ftk_teams_of_list(cfg->log_team_list, nranks, ctx->teams);
    char path[FTK_PATH_MAX];
    memcpy(path, cfg->log_team_file, sizeof path);
    int rc = ctx->programs.n > 0 ? ftk_paths_absolute(ctx, path) : FTKIT_OK;
    return rc == FTKIT_OK ? ftk_teams_of_file(path, nranks, ctx->teams) : rc;
}

/* Whether log.silent names ranks of this job. */
static int check_silent(const struct ftkit_ctx *ctx, int nranks)
{
    const struct ftk_config *cfg = &ctx->cfg;
    if (!*cfg->log_silent)
        return FTKIT_OK;
    bool *silent = malloc((size_t)nranks * sizeof *silent);
    if (!silent)
        return ftk_fail(FTKIT_ERR_NOMEM, "log.silent");
    const int rc = ftk_teams_silent(cfg->log_silent, NULL, nranks, silent);
    free(silent);
    return rc;
}

/* Every process reads the teams itself, like the configuration; they are the same on all. */
static int compare_teams(struct ftkit_ctx *ctx, struct comparing *c)
{
    const struct ftk_sure comparing = { c->s, NULL, "comparing teams" };
    const struct ftk_config *cfg = &ctx->cfg;
    const int nranks = c->size - c->spares;
    int64_t all[4];
    const bool written = *cfg->log_team_list || *cfg->log_team_file;
    if (!cfg->log_enabled || !(written || *cfg->log_silent) || nranks < 1)
        return FTKIT_OK; /* the opening reports that there is no rank */
    int local = written ? read_teams(ctx, nranks) : FTKIT_OK;
    if (local == FTKIT_OK)
        local = check_silent(ctx, nranks);
    const uint64_t h = local == FTKIT_OK && written
                           ? ftk_xxh3(ctx->teams, (size_t)nranks * sizeof *ctx->teams)
                           : 0;
    memcpy(&all[0], &h, sizeof h);
    all[1] = ~all[0];
    all[2] = local;
    all[3] = local != FTKIT_OK ? c->rank : INT64_MAX;
    int rc = ftk_sure_min(&comparing, all, 4);
    c->peers = rc == FTKIT_OK;
    if (rc == FTKIT_OK)
        rc = common_error(ctx, c, local, (int)all[2], all[3]);
    return rc == FTKIT_OK && all[0] != ~all[1] ? differ(ctx, "teams") : rc;
}

/* The processes of a new job are of several programs. */
static int meet_programs(struct ftkit_ctx *ctx, struct comparing *c)
{
    if (ctx->cfg.replicas > 1)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "this job has several programs (mpirun ... a : b), and replicas.count = %d: replicas "
            "are possible for one program only; start it without replicas",
            ctx->cfg.replicas);
    int rc = ftk_programs_gather(ctx, c->s, c->size, &c->spares);
    c->peers = rc != FTKIT_ERR_MPI && rc != FTKIT_ERR_NOMEM;
    return rc;
}

/* The processes have different executables, and mpirun counts them as one program: a script may
 * have chosen them.  A lost rank could be replaced by another executable.  Returns an error. */
static int name_executables(
    struct ftkit_ctx *ctx, struct comparing *c, const struct ftk_identity *own)
{
    const struct ftk_sure exchange = { c->s, NULL, "comparing executables" };
    char first[sizeof own->program], other[sizeof own->program];
    memcpy(first, own->program, sizeof first);
    int rc = ftk_sure_bcast(&exchange, 0, first, sizeof first);
    int64_t rank = rc == FTKIT_OK && strcmp(first, own->program) != 0 ? c->rank : INT_MAX;
    if (rc == FTKIT_OK)
        rc = ftk_sure_min(&exchange, &rank, 1);
    memcpy(other, own->program, sizeof other);
    if (rc == FTKIT_OK)
        rc = ftk_sure_bcast(&exchange, (int)rank, other, sizeof other);
    c->peers = rc == FTKIT_OK;
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_fail(FTKIT_ERR_MISMATCH,
        "process 0 of the communicator runs '%s' and process %d runs '%s', and for mpirun they are "
        "one program: a lost process could be replaced by the other executable. Start them as two "
        "programs (ftkit run -n 2 a : -n 2 b); if they are one program, set context.program",
        first, (int)rank, other);
    if (c->rank == 0)
        say_failure(ctx);
    return rc;
}

/* Before anything else is exchanged: its form may depend on the build.  So nothing is exchanged
 * either when the builds differ: process 0 and the two that are named report the error, as far as
 * they have a configuration. */
static int compare_builds(struct ftkit_ctx *ctx, struct comparing *c)
{
    const struct ftk_sure exchange = { c->s, NULL, "comparing builds of ftkit" };
    struct ftk_builds b = { .differ = false };
    int rc = ftk_builds_compare(&exchange, c->rank, &b);
    c->peers = rc == FTKIT_OK;
    if (rc != FTKIT_OK || !b.differ)
        return rc;
    rc = ftk_fail(FTKIT_ERR_MISMATCH,
        "process %d of the communicator has ftkit %s, and process %d has ftkit %s. Rule: all "
        "processes of a job have one build of ftkit; look for a second installation "
        "(LD_LIBRARY_PATH, the directories of the nodes), and link all programs again",
        b.process[0], b.text[0], b.process[1], b.text[1]);
    if (c->rank == 0 || c->rank == b.process[0] || c->rank == b.process[1])
        say_failure(ctx);
    return rc;
}

/* ---- meeting --------------------------------------------------------------------------- */

enum {
    SAME,
    SAME_NOT,
    ERROR,
    REPAIR,
    JOB,
    ERROR_RANK,
    APPNUM,
    APPNUM_NOT,
    SPARES,
    SPARES_NOT,
    EXECUTABLE,
    EXECUTABLE_NOT,
    WORDS
};

/* Compare all that must be the same.  c->peers false: the result does not count. */
static int compare(
    struct ftkit_ctx *ctx, struct comparing *c, int local, bool repair, uint64_t *job)
{
    const struct ftk_sure comparing = { c->s, NULL, "comparing configurations" };
    int64_t all[WORDS];
    int live = 0;
    struct ftk_identity me; /* context.program, or the name of the executable */
    uint64_t h = local == FTKIT_OK ? config_hash(ctx) : 0;
    ftk_programs_free(ctx); /* of an earlier try */
    if (MPI_Comm_rank(c->s, &c->rank) != MPI_SUCCESS || MPI_Comm_size(c->s, &live) != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "rank");
    int rc = compare_builds(ctx, c);
    if (rc != FTKIT_OK)
        return rc;
    memcpy(&all[SAME], &h, sizeof h);
    all[SAME_NOT] = ~all[SAME];
    all[ERROR] = local;
    all[REPAIR] = repair;
    all[JOB] = (int64_t)(ftk_random() >> 1);
    all[ERROR_RANK] = local != FTKIT_OK ? c->rank : INT64_MAX;
    all[APPNUM] = ftk_programs_appnum();
    all[APPNUM_NOT] = ~all[APPNUM];
    all[SPARES] = ctx->cfg.spares;
    all[SPARES_NOT] = ~all[SPARES];
    ftk_identity_find(&me, ctx->cfg.program, "");
    all[EXECUTABLE] = (int64_t)(ftk_xxh3(me.program, strlen(me.program)) >> 1);
    all[EXECUTABLE_NOT] = ~all[EXECUTABLE];
    rc = ftk_sure_min(&comparing, all, WORDS);
    c->peers = rc == FTKIT_OK;
    if (rc != FTKIT_OK)
        return rc;
    *job = (uint64_t)all[JOB];
    ftk_context_mode(ctx, all[REPAIR] ? FTKIT_MODE_GLOBAL : FTKIT_MODE_RESTART);
    rc = common_error(ctx, c, local, (int)all[ERROR], all[ERROR_RANK]);
    /* a process that has died may have been of another program than all that live */
    const bool several =
        all[APPNUM] != ~all[APPNUM_NOT] || (live < c->size && ftk_programs_started() > 1);
    if (rc == FTKIT_OK
        && (all[SAME] != ~all[SAME_NOT] || (!several && all[SPARES] != ~all[SPARES_NOT])))
        rc = differ(ctx, "configurations");
    if (rc == FTKIT_OK && !several && all[EXECUTABLE] != ~all[EXECUTABLE_NOT])
        rc = name_executables(ctx, c, &me);
    c->spares = ctx->cfg.spares;
    if (rc == FTKIT_OK && several) {
        rc = meet_programs(ctx, c);
        if (rc != FTKIT_OK && c->peers && c->rank == 0)
            say_failure(ctx);
        if (rc == FTKIT_ERR_PEER && c->rank == 0)
            ftk_run_state("lacking %s", ftk_detail_text());
    }
    return rc == FTKIT_OK ? compare_teams(ctx, c) : rc;
}

/* All live processes have left MPI_Init: from now on the opening goes on without a lost node. */
static void say_met(const struct ftkit_ctx *ctx, MPI_Comm comm, const struct comparing *c)
{
    int rank = -1;
    if (MPI_Comm_rank(c->s, &rank) != MPI_SUCCESS || rank != 0)
        return;
    ftk_run_state("met %s", ctx->cfg.name);
    ftk_run_lost(comm, c->s, 0, ctx->cfg.name); /* mpirun may report them behind the line "open" */
}

int ftk_gather(
    struct ftkit_ctx *ctx, MPI_Comm comm, int local, bool repair, uint64_t *job, MPI_Comm *start)
{
    MPI_Comm from = comm;
    bool outlives = ftk_mpi_outlives();
    for (int tries = 0, was = 0;; tries++) {
        struct comparing c = { .peers = false };
        int n = 0, peers = 0;
        /* the condition is the same on all ranks */
        int mrc = outlives ? ftk_mpi_shrink(from, start) : MPI_Comm_dup(from, start);
        if (mrc != MPI_SUCCESS)
            return ftk_fail_mpi(mrc, "gathering the processes");
        if (from != comm)
            ftk_mpi_free(&from);
        c.s = *start;
        if (repair)
            say_met(ctx, comm, &c);
        (void)FTK_FAULT("open.gathered");
        mrc = MPI_Comm_size(comm, &c.size);
        if (mrc != MPI_SUCCESS)
            return ftk_fail_mpi(mrc, "gathering the processes");
        int rc = compare(ctx, &c, local, repair, job);
        if (!c.peers)
            ftk_mpi_revoke(*start);
        peers = c.peers;
        if (outlives)
            mrc = ftk_mpi_agree(*start, peers, &peers);
        if (mrc != MPI_SUCCESS)
            return ftk_fail_mpi(mrc, "gathering the processes");
        if (peers || !outlives) {
            if (rc == FTKIT_OK)
                ctx->cfg.spares = c.spares;
            return rc;
        }
        mrc = MPI_Comm_size(*start, &n);
        if (mrc != MPI_SUCCESS)
            return ftk_fail_mpi(mrc, "gathering the processes");
        tries = n == was ? tries : 0;
        if (tries == GATHER_TRIES) /* on all ranks alike; no process has died in all these tries */
            return rc != FTKIT_OK ? rc
                                  : ftk_fail(FTKIT_ERR_MPI,
                                      "comparing configurations: MPI has returned success "
                                      "without a result, on this or another rank");
        was = n;
        from = *start;
    }
}
