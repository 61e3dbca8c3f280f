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

#include "core/hash.h"
#include "core/input.h"
#include "core/log_ops.h"
#include "core/mpi_shim.h"
#include "core/run_state.h"
#include "detect/crash.h"
#include "detect/detect.h"
#include "detect/misuse.h"
#include "detect/opening.h"
#include "detect/watchdog.h"
#include "energy/energy.h"
#include "recover/programs.h"
#include "recover/repair.h"
#include "recover/spare.h"
#include "recover/start.h"
#include "recover/supply.h"
#include "replica/planes.h"
#include "set/number.h"
#include "close.h"
#include "describe.h"
#include "exit_guard.h"
#include "gather.h"
#include "paths.h"
#include "store/durable/sets.h"

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

/* Report the warnings about the configuration, which is the same on all ranks: on one rank. */
static void say_warnings(const struct ftk_config *cfg)
{
    for (const char *line = cfg->warnings; *line;) {
        size_t n = strcspn(line, "\n");
        ftk_report(FTKIT_WARNING, "%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

/* Keep the error handler of comm in ctx->base, a communicator without other processes. */
static int keep_handler(struct ftkit_ctx *ctx, MPI_Comm comm)
{
    MPI_Errhandler h;
    int rc = MPI_Comm_get_errhandler(comm, &h);
    if (rc == MPI_SUCCESS)
        rc = ftk_mpi_alone(&ctx->base);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(ctx->base, h);
    if (rc == MPI_SUCCESS && h != MPI_ERRORS_ARE_FATAL && h != MPI_ERRORS_RETURN)
        rc = MPI_Errhandler_free(&h);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "the error handler of comm");
}

static struct ftkit_ctx *new_context(void)
{
    struct ftkit_ctx *ctx = calloc(1, sizeof *ctx); /* where: FTK_IN_OPEN */
    if (!ctx)
        return NULL;
    ctx->base = MPI_COMM_NULL;
    ctx->comms = (struct ftk_comms){ MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL };
    ftk_detect_init(ctx);
    ftk_misuse_init(ctx);
    ctx->rank = -1;
    ftk_set_number(ctx, 1);
    ftk_set_number_run(ctx, ftk_random());
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
    int rc = ftk_gather(ctx, comm, local, repair, job, start);
    ftk_opening_end(waiting);
    if (rc != FTKIT_OK)
        return rc;
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
    ftk_paths_report(ctx);
    if (rank == 0) {
        say_warnings(&ctx->cfg);
        ftk_say_mode(ctx, repair, why);
    }
    return FTKIT_OK;
}

/* A library that the other nodes have is missing on this one.  This is an error of the node: a
 * relaunch on other nodes may go well. */
static int lacks_library(void)
{
    char why[FTK_DETAIL_MAX], host[256] = "";
    snprintf(why, sizeof why, "%s", ftk_detail_text());
    (void)gethostname(host, sizeof host - 1); /* only for the text */
    return ftk_fail(FTKIT_ERR_IO, "a replacement on node %s: %s", host, why);
}

/* Join the job that has spawned this process for a repair. */
static int join_job(struct ftkit_ctx *ctx, int local, uint64_t *job, MPI_Comm *start)
{
    ctx->repair.spawned = true;
    ftk_programs_join(ctx);
    ftk_context_mode(ctx, FTKIT_MODE_GLOBAL);
    if (local == FTKIT_ERR_UNSUPPORTED)
        local = lacks_library();
    ftk_repair_flaw(ctx, local); /* the census carries it to the other ranks */
    ctx->node = ctx->cfg.ranks_per_node > 0 ? 0x40000000 | (int)(ftk_random() & 0xffffff)
                                            : node_of(&ctx->cfg, 0);
    ftk_paths_report(ctx);
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
 * the owner of the sets distinguishes the processes (store/owner.h). */
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

/* Check that this ftkit has the libraries that the configuration needs. */
static int check_build(const struct ftk_config *cfg)
{
    int rc = ftk_place_check(cfg->place, "level.memory.place");
    if (rc == FTKIT_OK && ftk_scheme_keeps(cfg->local_scheme))
        rc = ftk_place_check(cfg->local_place, "level.local.place");
    if (rc == FTKIT_OK && cfg->h5_enabled)
        rc = ftk_sets_level(cfg->h5_level)->check(cfg->h5_compress == FTK_COMPRESS_DEFLATE);
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

/* The program of a replacement allocates memory of the device next: that of the lost process, if it
 * was on this node, has to be free. */
static void await_devices(struct ftkit_ctx *ctx)
{
    ftk_watchdog_state(ctx->dog, FTK_DOG_BUSY);
    ftk_watchdog_await_devices(ctx->dog, ctx->cfg.timeout_s);
    ftk_watchdog_state(ctx->dog, FTK_DOG_RUN);
}

/* An error ends the job on all processes, spares included: the plan of a repair says so. */
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

/* Whether the directory of the sets is known only when the programs have met: see paths.c. */
static bool directory_unknown(const struct ftk_config *cfg)
{
    return cfg->h5_dir[0] != '/' && (ftk_programs_started() > 1 || ftk_programs_appnum() > 0);
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
    const bool late = !spawned && directory_unknown(&ctx->cfg);
    if (local == FTKIT_OK && spawned)
        local = ftk_supply_check_directory();
    if (local == FTKIT_OK && !spawned && !late) /* a running job continues without its directory */
        local = ftk_start_directory(&ctx->cfg);
    rc = ftk_guard_finalize();
    local = local == FTKIT_OK ? rc : local;
    rc = spawned ? join_job(ctx, local, &job, &start) : begin_job(ctx, comm, local, &job, &start);
    if (rc != FTKIT_OK) { /* an error on every rank */
        ftk_mpi_free(&start);
        return rc;
    }
    rc = ftk_paths_make_absolute(ctx); /* after the comparison: paths may differ between nodes */
    if (rc == FTKIT_OK && late)
        rc = ftk_start_directory(&ctx->cfg);
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
    if (rc == FTKIT_OK && (spawned || ctx->incarnation > 0)) /* memory that the lost process had */
        await_devices(ctx);
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
    const struct ftk_programs *p = &ctx->programs;
    if (ctx->rank >= 0 || ctx->repair.spawned)
        return false;
    if (p->n > 0)
        return p->position >= p->list[p->own].ranks;
    return MPI_Comm_rank(comm, &me) == MPI_SUCCESS && me >= ctx->nranks;
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
    ftk_crash_ends();
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
    ftk_context_reach(ctx, FTK_IN_SETUP);
    ftk_watchdog_at(ctx->dog, FTK_AT_SETUP, ctx->rank, 0);
    if (ftk_plane_home(ctx, ctx->rank) == 0)
        ftk_input_take();
    if (ctx->rank == 0 && ctx->incarnation == 0 && ctx->mode != FTKIT_MODE_RESTART)
        ftk_say_wrapper(ctx);
    ftk_say_plan(ctx);
    ftk_describe_open(ctx);
    if (ctx->incarnation == 0) /* the others wait for a replacement: it settles later */
        ftk_energy_choose_reader(ctx);
    (void)FTK_FAULT("open.end");
    *out = ctx;
    return FTKIT_OK;
}
