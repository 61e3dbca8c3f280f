/* Opening contexts.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/event.h"
#include "core/hash.h"
#include "core/input.h"
#include "core/log_ops.h"
#include "core/mpi_shim.h"
#include "core/run_state.h"
#include "core/teams.h"
#include "detect/detect.h"
#include "detect/opening.h"
#include "detect/sure.h"
#include "detect/watchdog.h"
#include "energy/energy.h"
#include "recover/recover.h"
#include "recover/start.h"
#include "replica/planes.h"
#include "close.h"
#include "describe.h"
#include "exit_guard.h"
#include "store/h5/h5.h"

#define GATHER_TRIES 8 /* in a row without a death */

/* ---- opening ------------------------------------------------------------------------- */

/* Return the failure domain of this process: a hash of the host name; with topology.ranks_per_node
 * the number of the simulated node. */
static int node_of(const struct ftk_config *cfg, int world_rank)
{
    char host[256] = "";
    if (cfg->ranks_per_node > 0)
        return world_rank / cfg->ranks_per_node;
    (void)gethostname(host, sizeof host - 1); /* without names all processes are on one node */
    return (int)(ftk_xxh3(host, strlen(host)) & 0x7fffffff);
}

/* Make a path absolute: a program may change its working directory, its sets stay in place. */
static int make_absolute(char path[FTK_PATH_MAX])
{
    char here[FTK_PATH_MAX], all[2 * FTK_PATH_MAX];
    if (path[0] == '/' || path[0] == '\0')
        return FTKIT_OK;
    if (!getcwd(here, sizeof here))
        return ftk_fail_errno(errno, "working directory");
    int n = strcmp(path, ".") == 0 ? snprintf(all, sizeof all, "%s", here)
                                   : snprintf(all, sizeof all, "%s/%s", here, path);
    if (n >= FTK_PATH_MAX)
        return ftk_fail(FTKIT_ERR_ARG, "%s: the path of the working directory is too long", path);
    memcpy(path, all, (size_t)n + 1);
    return FTKIT_OK;
}

/* Report the warnings about the configuration, which is the same on all ranks: on one rank. */
static void say_warnings(const struct ftk_config *cfg)
{
    for (const char *line = cfg->warnings; *line;) {
        size_t n = strcspn(line, "\n");
        ftk_report(FTKIT_WARNING, "%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static void report_to(struct ftk_config *cfg)
{
    ftk_report_setup(cfg->stderr_level);
    int rc = make_absolute(cfg->events);
    int err = rc == FTKIT_OK ? ftk_event_open(cfg->events, cfg->name) : 0;
    if (rc != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "report.events: %s", ftk_detail_text());
    else if (err)
        ftk_report(FTKIT_WARNING, "report.events = %s: %s: there is no event log of this process",
            cfg->events, strerror(err));
}

/* Read the teams of log.team_list or log.team_file.  Every process reads them itself, like the
 * configuration, before any process waits for it.  A process that is spawned later gets the teams
 * from the others. */
static int read_teams(struct ftkit_ctx *ctx, MPI_Comm comm)
{
    const struct ftk_config *cfg = &ctx->cfg;
    int size = 0;
    if (!cfg->log_enabled || (!*cfg->log_team_list && !*cfg->log_team_file))
        return FTKIT_OK;
    if (MPI_Comm_size(comm, &size) != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "comm has no size");
    int n = size - cfg->spares;
    if (n < 1)
        return FTKIT_OK; /* begin() reports the error */
    ctx->teams = calloc((size_t)n, sizeof *ctx->teams);
    if (!ctx->teams)
        return ftk_fail(FTKIT_ERR_NOMEM, "teams");
    ctx->nranks = n;
    return *cfg->log_team_list ? ftk_teams_of_list(cfg->log_team_list, n, ctx->teams)
                               : ftk_teams_of_file(cfg->log_team_file, n, ctx->teams);
}

/* Hash of the part of the configuration that must be the same on all processes. */
static uint64_t config_hash(const struct ftkit_ctx *ctx)
{
    char *text = NULL;
    size_t bytes = 0;
    struct ftk_config same = ctx->cfg;
    same.stderr_level = 0; /* reports may differ */
    same.status_s = 0;
    same.energy = FTK_ENERGY_AUTO;
    same.events[0] = same.source[0] = '\0';
    snprintf(same.sysfs, sizeof same.sysfs, "/"); /* it may not be empty */
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return 0;
    int bad = ftk_config_print(f, &same) != FTKIT_OK;
    if (ctx->teams)
        bad |=
            fwrite(ctx->teams, sizeof *ctx->teams, (size_t)ctx->nranks, f) != (size_t)ctx->nranks;
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
    report_to(&ctx->cfg);
    ftk_report(
        FTKIT_ERROR, "context %s: it cannot be opened: %s", ctx->cfg.name, ftk_detail_text());
}

/* The number of the program of this process in `mpirun a : b`, from 0. */
static int program_number(void)
{
    int *number = NULL, flag = 0;
    int rc = MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, (void *)&number, &flag);
    return rc == MPI_SUCCESS && flag ? *number : 0;
}

/* A job of several programs (`mpirun a : b`): a spare, or a process that is spawned, would carry a
 * rank of another program. */
static int check_programs(struct ftkit_ctx *ctx)
{
    ctx->repair.spawn_failed = true; /* for drop_spawn() */
    if (ctx->cfg.spares == 0 && ctx->cfg.replicas < 2)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_UNSUPPORTED,
        "this job has several programs (mpirun ... a : b), and %s would run the wrong one: start "
        "it without %s, or as one program that chooses its part by its rank",
        ctx->cfg.spares > 0 ? "a spare" : "a replica",
        ctx->cfg.spares > 0 ? "spares (spares.count = 0)" : "replicas");
}

/* Take spawn out of recover.supply: a lost rank ends the job.  Each process does this after the
 * comparison of the configurations. */
static void drop_spawn(struct ftk_config *cfg)
{
    int n = 0;
    for (int i = 0; i < cfg->nsupply; i++)
        if (cfg->supply[i] != FTK_SUPPLY_SPAWN)
            cfg->supply[n++] = cfg->supply[i];
    cfg->nsupply = n;
}

/* Compare the configurations of all processes; set ctx->mode to restart only if any process cannot
 * repair, and *job to a number for the job.  *peers: 0 if a process has failed meanwhile. */
static int compare(
    struct ftkit_ctx *ctx, MPI_Comm s, int local, bool repair, uint64_t *job, int *peers)
{
    const struct ftk_sure comparing = { s, NULL, "comparing configurations" };
    int64_t all[8];
    uint64_t h = local == FTKIT_OK ? config_hash(ctx) : 0;
    int rank = 0;
    if (MPI_Comm_rank(s, &rank) != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "rank");
    memcpy(&all[0], &h, sizeof h);
    all[1] = ~all[0];
    all[2] = local;
    all[3] = repair;
    all[4] = (int64_t)(ftk_random() >> 1);
    all[5] = local != FTKIT_OK ? rank : INT64_MAX;
    all[6] = program_number();
    all[7] = ~all[6];
    int rc = ftk_sure_min(&comparing, all, 8);
    *peers = rc == FTKIT_OK;
    if (rc != FTKIT_OK) {
        ftk_mpi_revoke(s);
        return ftk_mpi_outlives() ? FTKIT_OK : rc;
    }
    *job = (uint64_t)all[4];
    ctx->mode = all[3] ? FTKIT_MODE_GLOBAL : FTKIT_MODE_RESTART;
    if (all[5] == rank) /* one of the ranks with an error reports */
        say_failure(ctx);
    if (all[2] != FTKIT_OK)
        return local != FTKIT_OK ? local
                                 : ftk_fail((int)all[2], "another rank cannot open the context: %s",
                                     ftkit_strerror((int)all[2]));
    if (all[0] != ~all[1])
        return ftk_fail(FTKIT_ERR_MISMATCH, "the ranks have different configurations%s (%s)",
            ctx->teams ? " or teams" : "",
            ctx->cfg.source[0] ? ctx->cfg.source : "defaults and environment");
    return all[6] != ~all[7] ? check_programs(ctx) : FTKIT_OK;
}

/* Make *start of the live processes of comm, and compare their configurations.  comm is shrunk and
 * not duplicated, because members may be dead already. */
static int gather(
    struct ftkit_ctx *ctx, MPI_Comm comm, int local, bool repair, uint64_t *job, MPI_Comm *start)
{
    MPI_Comm from = comm;
    bool outlives = ftk_mpi_outlives();
    for (int tries = 0, was = 0;; tries++) {
        int peers = 0, n = 0;
        /* the condition is the same on all ranks */
        int mrc = outlives ? ftk_mpi_shrink(from, start) : MPI_Comm_dup(from, start);
        if (mrc != MPI_SUCCESS)
            return ftk_fail_mpi(mrc, "gathering the processes");
        if (from != comm)
            ftk_mpi_free(&from);
        (void)FTK_FAULT("open.gathered");
        int rc = compare(ctx, *start, local, repair, job, &peers);
        if (outlives)
            mrc = ftk_mpi_agree(*start, peers, &peers);
        if (mrc != MPI_SUCCESS)
            return ftk_fail_mpi(mrc, "gathering the processes");
        if (peers || !outlives)
            return rc;
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

/* Keep the error handler of comm in ctx->base, a communicator without other processes. */
static int keep_handler(struct ftkit_ctx *ctx, MPI_Comm comm)
{
    MPI_Errhandler h;
    int rc = MPI_Comm_get_errhandler(comm, &h);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_dup(MPI_COMM_SELF, &ctx->base);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(ctx->base, h);
    if (rc == MPI_SUCCESS && h != MPI_ERRORS_ARE_FATAL && h != MPI_ERRORS_RETURN)
        rc = MPI_Errhandler_free(&h);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "the error handler of comm");
}

static struct ftkit_ctx *new_context(void)
{
    struct ftkit_ctx *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return NULL;
    ctx->base = MPI_COMM_NULL;
    ctx->comms = (struct ftk_comms){ MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL };
    ctx->detect.watch = MPI_REQUEST_NULL;
    ctx->detect.past = MPI_GROUP_NULL;
    ctx->rank = -1;
    ctx->where = FTK_IN_OPEN;
    ctx->next_set = 1;
    ctx->run = ftk_random();
    return ctx;
}

/* A process whose mpirun dies while MPI_Init runs comes up alone, in an MPI_COMM_WORLD of its own.
 * It must not open: it would write sets of a job that nobody has started.  Looked at once in a
 * process, before MPI_COMM_WORLD can stand for anything else. */
static int check_size(void)
{
    static bool fits;
    const char *asked = getenv("FTKIT_RUN_SIZE");
    MPI_Comm parent = MPI_COMM_NULL;
    int size = 0;
    if (fits || !asked)
        return FTKIT_OK;
    if (PMPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS
        || PMPI_Comm_get_parent(&parent) != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "MPI_COMM_WORLD has no size");
    if (parent == MPI_COMM_NULL && size != atoi(asked))
        return ftk_fail(FTKIT_ERR_MPI,
            "`ftkit run` has started %s processes, and MPI_COMM_WORLD has %d: mpirun was lost "
            "while MPI_Init ran, or the program is a job of its own inside the job (start it "
            "without the variables FTKIT_RUN_...)",
            asked, size);
    fits = true;
    return FTKIT_OK;
}

/* Begin a job with the processes of comm.  *start: the live ones; *job: a number for the job. */
static int begin_job(
    struct ftkit_ctx *ctx, MPI_Comm comm, int local, uint64_t *job, MPI_Comm *start)
{
    char why[256] = "";
    int size = 0;
    int rank = 0;
    int world_rank = 0;
    bool repair = ftk_mpi_can_repair(why, sizeof why);
    if (repair && ftk_detect_active()) {
        /* two repairs over overlapping processes, entered in different order, would wait
         * for each other */
        repair = false;
        snprintf(why, sizeof why, "this process has another context that repairs");
    }
    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "comm has no rank");
    if (local == FTKIT_OK)
        ftk_report_setup(ctx->cfg.stderr_level);
    struct ftk_opening *waiting = ftk_opening_begin(rank, ctx->cfg.say_s);
    int rc = gather(ctx, comm, local, repair, job, start);
    ftk_opening_end(waiting);
    if (rc != FTKIT_OK)
        return rc;
    if (ctx->repair.spawn_failed)
        drop_spawn(&ctx->cfg);
    if (MPI_Comm_size(comm, &size) != MPI_SUCCESS
        || MPI_Comm_rank(MPI_COMM_WORLD, &world_rank) != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "comm has no size");
    ctx->nranks = size - ctx->cfg.spares;
    if (ctx->nranks < 1)
        return ftk_fail(
            FTKIT_ERR_CONFIG, "spares.count = %d of %d processes", ctx->cfg.spares, size);
    rc = ftk_planes_check(ctx, size);
    if (rc != FTKIT_OK)
        return rc;
    ctx->node = node_of(&ctx->cfg, world_rank);
    report_to(&ctx->cfg);
    if (rank == 0) {
        say_warnings(&ctx->cfg);
        ftk_say_mode(ctx, repair, why);
    }
    return FTKIT_OK;
}

/* Join the job that has spawned this process for a repair. */
static int join_job(struct ftkit_ctx *ctx, int local, uint64_t *job, MPI_Comm *start)
{
    ctx->repair.spawned = true;
    ctx->mode = FTKIT_MODE_GLOBAL;
    ftk_repair_flaw(ctx, local); /* the census carries it to the other ranks */
    ctx->node = ctx->cfg.ranks_per_node > 0 ? 0x40000000 | (int)(ftk_random() & 0xffffff)
                                            : node_of(&ctx->cfg, 0);
    report_to(&ctx->cfg);
    return ftk_supply_join(start, job);
}

/* Whether contexts of this configuration keep something that another context of the same name and
 * directory would find. */
static bool keeps(const struct ftk_config *cfg)
{
    return cfg->h5_enabled || ftk_place_is(cfg->place, FTK_OUTLIVES_CONTEXT)
           || (ftk_scheme_keeps(cfg->local_scheme)
               && ftk_place_is(cfg->local_place, FTK_OUTLIVES_CONTEXT));
}

static bool is_same_directory(const char *a, const char *b)
{
    char *x = realpath(a, NULL), *y = realpath(b, NULL);
    bool same = strcmp(x ? x : a, y ? y : b) == 0;
    free(x);
    free(y);
    return same;
}

/* Two contexts of one name and directory would take each other's sets.  Contexts in different
 * processes are told apart by the owner of the sets (store/owner.h). */
static int check_twins(const struct ftk_config *cfg)
{
    const struct ftkit_ctx *c = ftk_detect_first();
    while (c
           && (strcmp(c->cfg.name, cfg->name) != 0 || !keeps(&c->cfg) || !keeps(cfg)
               || !is_same_directory(c->cfg.h5_dir, cfg->h5_dir)))
        c = c->next;
    if (!c)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_STATE,
        "this program has a context '%s' open, with %d ranks and its sets in %s, and opens a "
        "second one of the same name and directory. Rule: contexts that are open at the same time "
        "have different names (context.name) or directories (level.hdf5.directory)",
        c->cfg.name, c->nranks, c->cfg.h5_dir);
}

/* Start the watchdog.  number: of the job. */
static int watch_node(struct ftkit_ctx *ctx, uint64_t number)
{
    static const struct ftk_config by_host;
    char job[40];
    int world_rank = 0;
    ctx->job = number; /* spawned processes use the same page */
    if (!ftk_mpi_outlives())
        return FTKIT_OK; /* the first death ends the job */
    if (MPI_Comm_rank(MPI_COMM_WORLD, &world_rank) != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "rank");
    (void)signal(SIGPIPE, SIG_IGN); /* writing to a dead peer's socket must not kill */
    snprintf(
        job, sizeof job, "%llx-%x", (unsigned long long)number, (unsigned)node_of(&by_host, 0));
    return ftk_watchdog_open(job, &ctx->cfg, world_rank, &ctx->dog);
}

/* Return the key for the slots of a place (see ftk_place_open()).  Slots in shared memory are found
 * by the relaunches of the same `ftkit run`, slots in a directory by every job that uses it. */
static uint64_t key_of(int place)
{
    return !ftk_place_is(place, FTK_OF_RUN) ? 1 : ftk_run_number();
}

static int settle_paths(struct ftk_config *cfg)
{
    int rc = make_absolute(cfg->h5_dir);
    if (rc == FTKIT_OK)
        rc = make_absolute(cfg->place_dir);
    if (rc == FTKIT_OK)
        rc = make_absolute(cfg->log_dir);
    if (rc == FTKIT_OK)
        rc = make_absolute(cfg->log_matrix);
    if (rc == FTKIT_OK)
        rc = make_absolute(cfg->sysfs);
    return rc == FTKIT_OK ? make_absolute(cfg->local_dir) : rc;
}

static int open_places(struct ftkit_ctx *ctx)
{
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < FTK_LEVELS; i++) {
        struct ftk_level *l = &ctx->level[i];
        if (l->on || i == FTK_LEVEL_MEMORY) /* files are written from level.memory */
            rc = ftk_place_open(
                &l->mem.place, l->place, l->dir, ctx->cfg.name, l->number, key_of(l->place));
    }
    return rc;
}

/* Check that this ftkit was built with the libraries that the configuration needs. */
static int check_build(const struct ftk_config *cfg)
{
    int rc = ftk_place_is_built(cfg->place, "level.memory.place");
    if (rc == FTKIT_OK && ftk_scheme_keeps(cfg->local_scheme))
        rc = ftk_place_is_built(cfg->local_place, "level.local.place");
    if (rc == FTKIT_OK && cfg->h5_enabled && cfg->h5_compress == FTK_COMPRESS_DEFLATE
        && !ftk_h5_can_deflate())
        rc = ftk_fail(
            FTKIT_ERR_UNSUPPORTED, "level.hdf5.compress: this HDF5 library cannot write deflate");
    return rc;
}

/* Check that no member of comm is a spare of a context.  Spares are inside ftkit_open(), so a
 * collective call on comm would wait for ever. */
static int check_spares(MPI_Comm comm)
{
    char name[FTKIT_NAME_MAX + 1] = "";
    int n = ftk_detect_spares_in(comm, name);
    if (n <= 0)
        return FTKIT_OK;
    int rank = -1;
    (void)MPI_Comm_rank(comm, &rank); /* only for the text */
    int rc = ftk_fail(FTKIT_ERR_STATE,
        "ftkit_open: processes of the communicator (%d) are spares of context '%s' and wait in "
        "their ftkit_open: open a second context on ftkit_comm() of that one",
        n, name);
    ftk_report(FTKIT_ERROR, "rank %d: %s", rank, ftk_detail_text());
    ftk_run_hopeless(rc); /* a relaunch would fail in the same way */
    return rc;
}

static bool is_world(MPI_Comm comm)
{
    int how = MPI_UNEQUAL;
    return MPI_Comm_compare(comm, MPI_COMM_WORLD, &how) == MPI_SUCCESS
           && (how == MPI_IDENT || how == MPI_CONGRUENT);
}

/* The log calls this function when it meets a failure in a call of the program. */
static int repair_now(struct ftkit_ctx *ctx)
{
    return ftk_repair(ctx, MPI_COMM_NULL);
}

/* An error ends the job on all processes, spares included: the plan of a repair tells them. */
static int open_planes(struct ftkit_ctx *ctx)
{
    int rc = ftk_planes_open(ctx, ctx->epoch == 1);
    if (rc == FTKIT_OK)
        return rc;
    if (ctx->rank == 0 || rc != FTKIT_ERR_CONFIG) /* that one is the same on all ranks */
        ftk_report(FTKIT_ERROR, "context %s: %s", ctx->cfg.name, ftk_detail_text());
    ftk_repair_flaw(ctx, rc);
    return ftk_repair(ctx, MPI_COMM_NULL);
}

/* The repair that makes the first epoch.  The census carries a local error to the other ranks; its
 * text is more precise than that of the plan. */
static int first_repair(struct ftkit_ctx *ctx, MPI_Comm start, int local)
{
    char why[FTK_DETAIL_MAX] = "";
    if (local != FTKIT_OK) {
        snprintf(why, sizeof why, "%s", ftk_detail_text());
        ftk_report(FTKIT_ERROR, "context %s: %s", ctx->cfg.name, why);
        ftk_repair_flaw(ctx, local);
    }
    const int rc = ftk_repair(ctx, start);
    return rc < 0 && why[0] ? ftk_fail(rc, "%s", why) : rc;
}

static int open_context(struct ftkit_ctx *ctx, MPI_Comm comm, const char *config)
{
    MPI_Comm start = MPI_COMM_NULL;
    uint64_t job = 0;
    int world_rank = 0;
    int rc = keep_handler(ctx, comm);
    if (rc != FTKIT_OK)
        return rc;
    if (MPI_Comm_rank(MPI_COMM_WORLD, &world_rank) == MPI_SUCCESS)
        ftk_fault_rank(world_rank, getenv("FTKIT_SPAWNED") != NULL);
    (void)FTK_FAULT("open.begin");
    int local = ftk_config_load(&ctx->cfg, config);
    ftk_level_configure(ctx); /* also after an error, with an empty configuration */
    if (local == FTKIT_OK)
        local = check_size();
    if (local == FTKIT_OK)
        local = check_build(&ctx->cfg);
    if (local == FTKIT_OK)
        local = check_twins(&ctx->cfg);
    if (ftk_detect_active()) { /* only the first context has spares and replicas */
        ctx->cfg.spares = 0;
        ctx->cfg.replicas = 1;
    }
    bool spawned = ftk_supply_is_spawned(); /* true once in a process */
    if (local == FTKIT_OK && !spawned)      /* a running job continues without its directory */
        local = ftk_start_directory(&ctx->cfg);
    if (local == FTKIT_OK && !spawned)
        local = read_teams(ctx, comm);
    rc = ftk_guard_finalize();
    local = local == FTKIT_OK ? rc : local;
    rc = spawned ? join_job(ctx, local, &job, &start) : begin_job(ctx, comm, local, &job, &start);
    if (rc != FTKIT_OK) { /* an error on every rank */
        ftk_mpi_free(&start);
        return rc;
    }
    rc = settle_paths(&ctx->cfg); /* after the comparison: paths may differ between nodes */
    ftk_identity_find(&ctx->identity, ctx->cfg.program, ctx->cfg.h5_dir);
    ctx->identity.home = ftk_planes_identity(ctx, ctx->identity.home);
    ftk_start_begin(ctx);
    ftk_steer_open(ctx);
    if (rc == FTKIT_OK)
        rc = ftk_detect_open(ctx);
    if (rc == FTKIT_OK)
        rc = watch_node(ctx, job);
    if (rc == FTKIT_OK)
        rc = open_places(ctx);
    if (rc == FTKIT_OK)
        rc = ftk_log_open(ctx, repair_now);
    rc = first_repair(ctx, start, rc);
    (void)FTK_FAULT("open.built");
    if (rc == FTKIT_OK && ctx->rank < 0) {
        ftk_watchdog_at(ctx->dog, FTK_AT_SPARE, -1, 0);
        ftk_describe_spare(ctx);
        rc = ftk_spare_wait(ctx);
    }
    if (rc == FTKIT_OK)
        rc = open_planes(ctx);
    if (rc == FTKIT_OK)
        rc = ftk_log_start(ctx);
    if (rc == FTKIT_OK && ctx->mode == FTKIT_MODE_GLOBAL && !spawned && ctx->cfg.spares > 0
        && ctx->cfg.spares_exit && is_world(comm))
        ftk_detect_forbid_world(); /* with the log MPI_COMM_WORLD stands for the working ranks */
    return rc;
}

/* Whether this process of a context that failed to open is a spare.  A process without a rank may
 * also be one that would have become a working rank, if the opening itself has failed: then the
 * program gets the error.  By its rank in comm, because the plan may not have been made. */
static bool was_spare(const struct ftkit_ctx *ctx, MPI_Comm comm)
{
    int me = 0;
    return ctx->rank < 0 && !ctx->repair.spawned && MPI_Comm_rank(comm, &me) == MPI_SUCCESS
           && me >= ctx->nranks;
}

static _Noreturn void leave_as_spare(void)
{
    (void)MPI_Finalize(); /* spares.exit */
    exit(0);
}

int ftkit_open(MPI_Comm comm, const char *config, ftkit_ctx **out)
{
    int inited = 0;
    int ended = 0;
    int inter = 0;
    ftk_detail_clear();
    if (!out)
        return ftk_fail(FTKIT_ERR_ARG, "ftkit_open: ctx is NULL");
    if (MPI_Initialized(&inited) != MPI_SUCCESS || !inited)
        return ftk_fail(FTKIT_ERR_STATE, "ftkit_open before MPI_Init");
    if (MPI_Finalized(&ended) != MPI_SUCCESS || ended)
        return ftk_fail(FTKIT_ERR_STATE, "ftkit_open after MPI_Finalize");
    if (comm == MPI_COMM_NULL)
        return ftk_fail(FTKIT_ERR_ARG, "ftkit_open: comm is MPI_COMM_NULL");
    if (MPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter)
        return ftk_fail(FTKIT_ERR_ARG, "ftkit_open: comm is an intercommunicator");
    int rc = check_spares(comm);
    if (rc != FTKIT_OK)
        return rc;
    struct ftkit_ctx *ctx = new_context();
    if (!ctx)
        return ftk_fail(FTKIT_ERR_NOMEM, "context");
    rc = open_context(ctx, comm, config);
    if (rc == FTK_PARTED) {
        bool leave = ctx->cfg.spares_exit;
        ftk_free_context(ctx);
        if (leave)
            leave_as_spare();
        return FTKIT_SPARE_DONE;
    }
    if (rc != FTKIT_OK) {
        ftk_run_hopeless(rc);
        bool spare = ctx->dead && ctx->cfg.spares_exit && was_spare(ctx, comm);
        ftk_free_context(ctx);
        if (spare)
            leave_as_spare();
        return rc;
    }
    ftk_guard_exit(ctx, 1);
    ctx->where = FTK_IN_SETUP;
    ftk_watchdog_at(ctx->dog, FTK_AT_SETUP, ctx->rank, 0);
    if (ftk_plane_home(ctx, ctx->rank) == 0)
        ftk_input_take();
    if (ctx->rank == 0 && ctx->incarnation == 0 && ctx->mode != FTKIT_MODE_RESTART)
        ftk_say_wrapper(ctx);
    ftk_say_plan(ctx);
    ftk_describe_open(ctx);
    if (ctx->incarnation == 0) /* the others wait for a replacement: it settles later */
        ftk_energy_settle(ctx);
    (void)FTK_FAULT("open.end");
    *out = ctx;
    return FTKIT_OK;
}
