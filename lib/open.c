/* Opening and closing contexts.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/log_ops.h"
#include "core/mpi_shim.h"
#include "core/run_state.h"
#include "core/teams.h"
#include "detect/detect.h"
#include "detect/sure.h"
#include "detect/watchdog.h"
#include "recover/recover.h"
#include "recover/start.h"
#include "set/checkpoint.h"
#include "set/debug_regions.h"
#include "set/flusher.h"
#include "set/region.h"
#include "store/h5/h5.h"
#include "store/owner.h"

#define GATHER_TRIES 8 /* in a row without a death */

/* ---- exit with an open context ----------------------------------------------------------
 * MPI does not report a process that calls exit(): the other processes would wait for ever.  So
 * a process that exits with an open context kills itself, which MPI reports. */

static volatile sig_atomic_t open_contexts; /* contexts with recover.exit_is_failure */
static pid_t guarded;                       /* this process; a child of fork() may call exit() */

/* Whether a context is open that has not ended by an error.  Such an end was reported before. */
static bool some_goes_on(void)
{
    const struct ftkit_ctx *ctx = ftk_detect_first();
    while (ctx && ctx->dead)
        ctx = ctx->next;
    return ctx != NULL;
}

static void say_exit(int status)
{
    int rank = -1;
    if (!some_goes_on())
        return;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank); /* only for the text */
    ftk_report(FTKIT_WARNING,
        "process %d (rank %d of the job) ends its program with exit code %d and its context "
        "open%s: it counts as lost. Rule: %s",
        (int)getpid(), rank, status,
        ftk_detect_known() ? " while a failure waits for its repair" : "",
        ftk_detect_known() ? "ask ftkit_confirm() before a check ends the program"
                           : "every rank calls ftkit_close() before it ends");
}

static void on_process_exit(int status, void *arg)
{
    (void)arg;
    int finalized = 0;
    if (getpid() != guarded)
        return;
    if (status != 0 && open_contexts == 0 && ftk_run_sees())
        ftk_run_state("exit %d", status); /* after a repair mpirun's exit code means nothing */
    if (open_contexts == 0 || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized)
        return;
    say_exit(status);
    kill(getpid(), SIGKILL);
}

static void guard_exit(const struct ftkit_ctx *ctx, int change)
{
    static bool installed;
    if (!ctx->cfg.exit_is_failure || ctx->mode == FTKIT_MODE_RESTART)
        return;
    if (!installed && ctx->cfg.h5_enabled && ctx->cfg.h5_async)
        ftk_flusher_prepare(); /* first: handlers of exit() run in reverse order */
    guarded = getpid();
    if (!installed)
        installed = on_exit(on_process_exit, NULL) == 0;
    open_contexts += change;
}

static int guard_finalize(void); /* at the end of this file */

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
    if (make_absolute(cfg->events) != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "report.events: %s", ftk_detail_text());
    ftk_report_setup(cfg->stderr_level, cfg->events);
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
    same.events[0] = same.source[0] = '\0';
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

/* Compare the configurations of all processes; set ctx->mode to restart only if any process cannot
 * repair, and *job to a number for the job.  *peers: 0 if a process has failed meanwhile. */
static int compare(
    struct ftkit_ctx *ctx, MPI_Comm s, int local, bool repair, uint64_t *job, int *peers)
{
    const struct ftk_sure comparing = { s, NULL, "comparing configurations" };
    int64_t all[6];
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
    int rc = ftk_sure_min(&comparing, all, 6);
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
    return FTKIT_OK;
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
            (void)MPI_Comm_free(&from);
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

static void say_mode(const struct ftkit_ctx *ctx, bool repair, const char *why)
{
    if (ctx->mode == FTKIT_MODE_RESTART)
        ftk_report(FTKIT_WARNING,
            "context %s: failures are not repaired in this job, only by a restart: %s%s",
            ctx->cfg.name, repair ? "another rank has an unsafe environment" : why,
            getenv("FTKIT_RUN_ID") ? ""
                                   : " (ftkit run starts a program with all it needs: "
                                     "ftkit run -n RANKS --spares 1 -- PROGRAM)");
}

/* Whether the copies of each segment are on different nodes, and none on the node of its rank. */
static bool is_apart(const struct ftkit_ctx *ctx, const struct ftk_level *l)
{
    const int *holder = l->layout.holder, n = ctx->nranks;
    for (int i = 0; i < l->scheme->copies * n; i++) {
        if (holder[i] < 0 || ctx->domain[holder[i]] == ctx->domain[i % n])
            return false;
        for (int k = i % n; k < i; k += n)
            if (ctx->domain[holder[k]] == ctx->domain[holder[i]])
                return false;
    }
    return true;
}

static void say_copies(
    const struct ftkit_ctx *ctx, const struct ftk_level *l, char *text, size_t bytes)
{
    int copies = l->scheme->copies;
    char nodes[80] = "one process (the buddies share a node)";
    if (is_apart(ctx, l) && copies == 1)
        snprintf(nodes, sizeof nodes, "one node, and any nodes of which no two are buddies");
    else if (is_apart(ctx, l))
        snprintf(nodes, sizeof nodes, "%d nodes", copies);
    snprintf(text, bytes,
        "any %s; memory per rank: %d x the registered bytes, %d x while a set is committed", nodes,
        1 + copies, 2 + 2 * copies);
}

/* Write the losses that the parity groups survive, by the group of rank 0: the sizes of groups
 * differ by at most one. */
static void say_groups(
    const struct ftkit_ctx *ctx, const struct ftk_level *l, char *text, size_t bytes)
{
    const struct ftk_group *g = &l->layout.group;
    bool apart = true;
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < i; k++)
            apart = apart && ctx->domain[g->rank[i]] != ctx->domain[g->rank[k]];
    double own = 1 + (double)g->m / (g->n - g->m);
    char m[12] = "one";
    if (g->m > 1)
        snprintf(m, sizeof m, "%u", g->m);
    snprintf(text, bytes,
        "any %s %s of a group of %u; memory per rank: %.2f x the registered bytes, %.2f x "
        "while a set is committed",
        m,
        apart       ? g->m == 1 ? "node" : "nodes"
        : g->m == 1 ? "process"
                    : "processes",
        g->n, own, 2 * own);
}

/* Report in one line the losses that the configuration survives. */
static void say_plan(const struct ftkit_ctx *ctx)
{
    const struct ftk_level *l = &ctx->level[FTK_LEVEL_MEMORY];
    int alone = l->layout.alone;
    char survives[192] = "no loss of a process without files";
    if (ctx->rank != 0)
        return;
    if (l->scheme->copies > 0 && ctx->nranks > 1)
        say_copies(ctx, l, survives, sizeof survives);
    else if (l->layout.group.n > 1)
        say_groups(ctx, l, survives, sizeof survives);
    ftk_report(FTKIT_INFO, "context %s: %d rank%s, %d spare%s, %s; %s; memory survives %s",
        ctx->cfg.name, ctx->nranks, FTK_S(ctx->nranks), ctx->nspares, FTK_S(ctx->nspares),
        ctx->mode == FTKIT_MODE_RESTART ? "restart only"
        : ctx->mode == FTKIT_MODE_TEAM  ? "repair in the job by teams"
                                        : "repair in the job",
        ctx->cfg.h5_enabled ? "files survive the loss of the job" : "no files", survives);
    if (alone > 0)
        ftk_report(FTKIT_WARNING,
            "context %s: %d rank%s without a partner for parity on another node: lost data of "
            "these ranks come from files (use more nodes, or scheme = buddy)",
            ctx->cfg.name, alone, FTK_S(alone));
}

static struct ftkit_ctx *new_context(void)
{
    struct ftkit_ctx *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return NULL;
    ctx->base = MPI_COMM_NULL;
    ctx->comms = (struct ftk_comms){ MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL };
    ctx->detect.watch = MPI_REQUEST_NULL;
    ctx->rank = -1;
    ctx->where = FTK_IN_OPEN;
    ctx->next_set = 1;
    ctx->run = ftk_random();
    return ctx;
}

static void free_comm(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_NULL)
        (void)MPI_Comm_free(comm); /* at the end of a context an error does not matter */
}

static void free_context(struct ftkit_ctx *ctx)
{
    ftk_debug_close(ctx);
    ftk_log_close(ctx);
    ftk_flush_close(ctx);
    ftk_watchdog_state(ctx->dog, FTK_DOG_LEFT);
    ftk_watchdog_close(ctx->dog);
    ftk_owner_release(&ctx->owner);
    (void)ftk_detect_disarm(ctx);
    free_comm(&ctx->comms.app);
    free_comm(&ctx->comms.act);
    free_comm(&ctx->comms.ctl);
    for (int i = 0; i < ctx->retired.n; i++)
        free_comm(&ctx->retired.comm[i]);
    ftk_detect_close(ctx);
    free_comm(&ctx->base);
    ftk_region_free_all(ctx);
    /* sets in memory are removed, unless a relaunch may need them */
    for (int i = 0; i < FTK_LEVELS; i++)
        ftk_level_close(&ctx->level[i],
            ctx->dead || ftk_place_is(ctx->level[i].mem.place.kind, FTK_OUTLIVES_CONTEXT));
    free(ctx->retired.comm);
    free(ctx->domain);
    free(ctx->teams);
    free(ctx->incarnations);
    free(ctx->repair.line_source);
    free(ctx);
}

/* Begin a job with the processes of comm.  *start: the live ones; *job: a number for the job. */
static int begin(struct ftkit_ctx *ctx, MPI_Comm comm, int local, uint64_t *job, MPI_Comm *start)
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
    int rc = gather(ctx, comm, local, repair, job, start);
    if (rc != FTKIT_OK)
        return rc;
    if (MPI_Comm_size(comm, &size) != MPI_SUCCESS || MPI_Comm_rank(comm, &rank) != MPI_SUCCESS
        || MPI_Comm_rank(MPI_COMM_WORLD, &world_rank) != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "comm has no size");
    ctx->nranks = size - ctx->cfg.spares;
    if (ctx->nranks < 1)
        return ftk_fail(
            FTKIT_ERR_CONFIG, "spares.count = %d of %d processes", ctx->cfg.spares, size);
    ctx->node = node_of(&ctx->cfg, world_rank);
    report_to(&ctx->cfg);
    if (rank == 0) {
        say_warnings(&ctx->cfg);
        say_mode(ctx, repair, why);
    }
    return FTKIT_OK;
}

/* Join the job that has spawned this process for a repair. */
static int join(struct ftkit_ctx *ctx, int local, uint64_t *job, MPI_Comm *start)
{
    ctx->repair.spawned = true;
    ctx->mode = FTKIT_MODE_GLOBAL;
    ctx->repair.local_error = local; /* the census carries it to the other ranks */
    ctx->node = ctx->cfg.ranks_per_node > 0 ? 0x40000000 | (int)(ftk_random() & 0xffffff)
                                            : node_of(&ctx->cfg, 0);
    report_to(&ctx->cfg);
    return ftk_supply_join(start, job);
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
    const char *run = getenv("FTKIT_RUN_ID");
    return !ftk_place_is(place, FTK_OF_RUN) ? 1 : run ? strtoull(run, NULL, 16) : 0;
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
        local = check_build(&ctx->cfg);
    if (ftk_detect_active())
        ctx->cfg.spares = 0;                /* only the first context has spares */
    bool spawned = ftk_supply_is_spawned(); /* true once in a process */
    if (local == FTKIT_OK && !spawned)      /* a running job continues without its directory */
        local = ftk_start_directory(&ctx->cfg);
    if (local == FTKIT_OK && !spawned)
        local = read_teams(ctx, comm);
    rc = spawned ? join(ctx, local, &job, &start) : begin(ctx, comm, local, &job, &start);
    if (rc != FTKIT_OK) { /* an error on every rank */
        free_comm(&start);
        return rc;
    }
    rc = guard_finalize();
    if (rc == FTKIT_OK)
        rc = settle_paths(&ctx->cfg); /* after the comparison: paths may differ between nodes */
    ftk_identity_find(&ctx->identity, ctx->cfg.program, ctx->cfg.h5_dir);
    ftk_start_begin(ctx);
    if (rc == FTKIT_OK)
        rc = ftk_detect_open(ctx);
    if (rc == FTKIT_OK)
        rc = watch_node(ctx, job);
    if (rc == FTKIT_OK)
        rc = open_places(ctx);
    if (rc == FTKIT_OK)
        rc = ftk_log_open(ctx, repair_now);
    if (rc != FTKIT_OK) { /* a local error: the census carries it to the other ranks */
        ftk_report(FTKIT_ERROR, "context %s: %s", ctx->cfg.name, ftk_detail_text());
        ctx->repair.local_error = rc;
    }
    rc = ftk_repair(ctx, start);
    (void)FTK_FAULT("open.built");
    if (rc == FTKIT_OK && ctx->rank < 0) {
        ftk_watchdog_at(ctx->dog, FTK_AT_SPARE, -1, 0);
        rc = ftk_spare_wait(ctx);
    }
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
        free_context(ctx);
        if (leave)
            leave_as_spare();
        return FTKIT_SPARE_DONE;
    }
    if (rc != FTKIT_OK) {
        ftk_run_hopeless(rc);
        bool spare = ctx->dead && ctx->cfg.spares_exit && was_spare(ctx, comm);
        free_context(ctx);
        if (spare)
            leave_as_spare();
        return rc;
    }
    guard_exit(ctx, 1);
    ctx->where = FTK_IN_SETUP;
    ftk_watchdog_at(ctx->dog, FTK_AT_SETUP, ctx->rank, 0);
    say_plan(ctx);
    (void)FTK_FAULT("open.end");
    *out = ctx;
    return FTKIT_OK;
}

/* ---- closing ------------------------------------------------------------------------- */

/* Wait for the set that is being written to the file system.  If some ranks are in ftkit_finish(),
 * or have made another number of calls, *mismatch becomes FTKIT_ERR_MISMATCH, and this rank waits
 * until these ranks come here, too. */
static int drain_to_close(struct ftkit_ctx *ctx, struct ftk_chan *ch, int *mismatch)
{
    int rc = ftk_flush_drain(ctx, ch, FTK_DRAIN_CLOSE);
    while (rc == FTKIT_ERR_MISMATCH) {
        *mismatch = rc;
        rc = ftk_flush_drain(ctx, ch, FTK_DRAIN_CLOSE_ANYWAY);
    }
    return rc;
}

/* Part from the other processes.  First a vote waits for the set that is being written to the file
 * system; its success proves that all working ranks are here.  Then the repair machine ends the
 * context on all processes, so that a failure at any moment finds all of them in the same step. */
static int part(struct ftkit_ctx *ctx, int *mismatch)
{
    struct ftk_chan ch;
    for (;;) {
        ch = ftk_chan_of(ctx);
        ch.broken = ctx->detect.failed;
        (void)FTK_FAULT("close.begin");
        int rc = drain_to_close(ctx, &ch, mismatch);
        (void)FTK_FAULT("close.voted");
        if (rc == FTKIT_OK)
            ctx->where = FTK_ALL_CLOSED;
        else if (rc != FTKIT_ERR_PEER)
            return rc;
        rc = ftk_repair(ctx, MPI_COMM_NULL);
        (void)FTK_FAULT("close.parted");
        if (rc == FTK_PARTED)
            return FTKIT_OK;
        if (rc != FTKIT_OK)
            return rc;
    }
}

static int part_plainly(struct ftkit_ctx *ctx, int *mismatch)
{
    MPI_Request req; /* the spares wait in MPI_Ibarrier(), which MPI_Barrier() does not match */
    struct ftk_chan ch = ftk_chan_of(ctx);
    int drained = drain_to_close(ctx, &ch, mismatch);
    if (drained != FTKIT_OK)
        return drained;
    int rc = MPI_Ibarrier(ctx->comms.ctl, &req);
    if (rc == MPI_SUCCESS)
        rc = MPI_Wait(&req, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && ctx->rank == 0)
        ftk_run_state("closed %s", ctx->cfg.name);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "closing");
}

static int close_context(struct ftkit_ctx *ctx, enum ftk_dog_place place)
{
    int rc = ctx->dead, mismatch = FTKIT_OK;
    ftk_watchdog_at(ctx->dog, place, ctx->rank, ctx->policy.calls);
    if (rc == FTKIT_OK && ftk_log_rolling_back(ctx))
        ctx->repair.local_error =
            ftk_fail(FTKIT_ERR_STATE, "ftkit_close before the line is restored");
    if (rc != FTKIT_OK) {
        rc = ftk_fail(rc, "%s", ctx->detail);
    } else {
        if (ctx->where < FTK_IN_CLOSE)
            ctx->where = FTK_IN_CLOSE;
        rc = ctx->mode == FTKIT_MODE_RESTART ? part_plainly(ctx, &mismatch) : part(ctx, &mismatch);
    }
    if (rc == FTKIT_OK)
        rc = ftk_flush_return(ctx);
    rc = rc == FTKIT_OK ? mismatch : rc; /* the detail of the mismatch is still there */
    guard_exit(ctx, -1);
    free_context(ctx);
    return rc;
}

int ftkit_close(ftkit_ctx **pctx)
{
    if (!pctx || !*pctx)
        return ftk_fail(FTKIT_ERR_ARG, "ftkit_close: the context is NULL");
    struct ftkit_ctx *ctx = *pctx;
    *pctx = NULL;
    return close_context(ctx, FTK_AT_CLOSE);
}

/* ---- MPI_Finalize with an open context --------------------------------------------------
 * MPI_Finalize begins with the attributes of MPI_COMM_SELF, while MPI still works.  The spares
 * wait for the end of the job, and a set may still be on its way to the file system: so the
 * context is closed for the program.  The exit code 1 reports the mistake. */

static void fail_exit(int status, void *arg)
{
    (void)arg;
    if (status != 0)
        return;
    ftk_run_state("exit 1");
    fflush(NULL);
    _exit(1);
}

static int on_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    struct ftkit_ctx *ctx;
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    while ((ctx = ftk_detect_first()) != NULL) {
        static bool failing;
        ftk_report_last(
            "rank %d calls MPI_Finalize with context '%s' open. Rule: every rank calls "
            "ftkit_close before MPI_Finalize. It is closed here, and the exit code is 1",
            ctx->rank, ctx->cfg.name);
        if (!failing)
            failing = on_exit(fail_exit, NULL) == 0;
        if (close_context(ctx, FTK_AT_FINALIZE) != FTKIT_OK)
            ftk_report_last("ftkit_close in MPI_Finalize: %s", ftk_detail_text());
    }
    return MPI_SUCCESS;
}

static int guard_finalize(void)
{
    static int keyval = MPI_KEYVAL_INVALID;
    if (keyval != MPI_KEYVAL_INVALID)
        return FTKIT_OK;
    int rc = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &keyval, NULL);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "an attribute of MPI_COMM_SELF");
}
