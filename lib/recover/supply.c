/* Supply of processes that are spawned.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/arguments.h"
#include "core/environment.h"
#include "core/hash.h"
#include "core/mpi_shim.h"
#include "core/repair_state.h"
#include "core/thread.h"
#include "command.h"
#include "detect/watch_page.h"
#include "supply.h"

#define SPAWN_MARK "FTKIT_SPAWNED"
#define DIRECTORY "FTKIT_RUN_DIRECTORY"

/* ---- spawn ------------------------------------------------------------------------------
 * On Open MPI 5.0 a repair cannot survive a death between spawn and merge: the watchdog ends such
 * a repair.  So a repair uses spares first. */

/* Check that a merged communicator has n processes, this one with rank me.  An MPI error code. */
static int check_merged(MPI_Comm merged, int n, int me)
{
    int size = 0, rank = -1;
    int rc = MPI_Comm_size(merged, &size);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_rank(merged, &rank);
    return rc == MPI_SUCCESS && (size != n || rank != me) ? MPI_ERR_OTHER : rc;
}

/* Where mpirun starts a process whose directory is missing on the node; "": not known. */
static void find_home(char path[FTK_PATH_MAX])
{
    const char *home = getenv("HOME");
    char *real = home ? realpath(home, NULL) : NULL;
    snprintf(path, FTK_PATH_MAX, "%s", real ? real : "");
    free(real);
}

/* Hash of the directory in which a process is to be spawned; 0: there is nothing to check. */
static uint64_t directory_hash(const char *directory)
{
    char home[FTK_PATH_MAX];
    find_home(home);
    return *directory && strcmp(directory, home) != 0 ? ftk_xxh3(directory, strlen(directory)) : 0;
}

int ftk_supply_check_directory(void)
{
    char home[FTK_PATH_MAX], host[256] = "";
    const char *mark = getenv(SPAWN_MARK), *own = ftk_arguments_directory();
    const char *wanted = mark ? strchr(mark, '~') : NULL;
    find_home(home);
    if (!wanted || !*own || strcmp(own, home) != 0
        || strtoull(wanted + 1, NULL, 16) == ftk_xxh3(own, strlen(own)))
        return FTKIT_OK;
    (void)gethostname(host, sizeof host - 1); /* only for the text */
    return ftk_fail(FTKIT_ERR_IO,
        "the working directory of the program is missing on node %s, so mpirun has started a "
        "replacement in %s: every node needs this directory",
        host, own);
}

/* Find how a process of a program is started: *text, to be freed, or the table of the programs has
 * the strings. */
static void find_command(
    const struct ftk_programs *p, int program, struct ftk_command *c, char **text)
{
    size_t bytes = 0;
    if (p->n > 0) {
        ftk_command_of(p->commands, p->bytes, program, c);
        return;
    }
    *text = ftk_command_write(&bytes);
    (void)ftk_command_read(*text, bytes, c); /* an empty command cannot be spawned */
}

static int make_info(
    const struct ftkit_ctx *ctx, int program, const struct ftk_command *c, MPI_Info *info)
{
    char mark[64];
    int n = snprintf(mark, sizeof mark, SPAWN_MARK "=%" PRIx64, ctx->job);
    if (ctx->programs.n > 0)
        n += snprintf(mark + n, sizeof mark - (size_t)n, ".%d", program);
    const uint64_t hash = ftk_command_goes(c) ? 0 : directory_hash(c->directory);
    if (hash != 0)
        snprintf(mark + n, sizeof mark - (size_t)n, "~%" PRIx64, hash);
    int rc = MPI_Info_create(info);
    if (rc == MPI_SUCCESS)
        rc = MPI_Info_set(*info, "PMIX_ENVAR", mark);
    if (rc == MPI_SUCCESS) /* mpirun still counts the slot of the dead process as taken */
        rc = MPI_Info_set(*info, "PMIX_MAPBY", ":OVERSUBSCRIBE");
    if (rc == MPI_SUCCESS) /* ... and its core */
        rc = MPI_Info_set(*info, "PMIX_BINDTO", "none");
    if (rc == MPI_SUCCESS && *c->directory && !ftk_command_goes(c))
        rc = MPI_Info_set(*info, "wdir", c->directory);
    return rc;
}

int ftk_supply_spawn(struct ftkit_ctx *ctx, MPI_Comm s, int program, int n, MPI_Comm *merged)
{
    struct ftk_command c;
    char *text = NULL, below[sizeof DIRECTORY + 1 + FTK_PATH_MAX];
    const char *command = NULL;
    int me = 0, size = 0;
    MPI_Comm inter = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    find_command(&ctx->programs, program, &c, &text);
    snprintf(below, sizeof below, DIRECTORY "=%s", ctx->programs.directory);
    char **args = ftk_command_spawn(&c, ctx->programs.n > 0 ? below : NULL, &command);
    int rc = MPI_Comm_rank(s, &me);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_size(s, &size);
    if (rc == MPI_SUCCESS)
        rc = make_info(ctx, program, &c, &info);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_spawn(args ? command : "/nonexistent", args ? args : MPI_ARGV_NULL, n, info,
            0, s, &inter, MPI_ERRCODES_IGNORE);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = MPI_Intercomm_merge(inter, 0, merged);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(*merged, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = check_merged(*merged, size + n, me);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_disconnect(&inter);
    if (info != MPI_INFO_NULL)
        (void)MPI_Info_free(&info);
    free(args);
    ftk_command_free(&c);
    free(text);
    if (rc == MPI_SUCCESS)
        return FTKIT_OK;
    /* an error that is not the failure of a process would come again: do not try again */
    ftk_repair_spawn_failed(ctx, !ftk_mpi_is_failure(rc));
    return ftk_fail_mpi(rc, "spawning replacements");
}

/* A repair may be given up while its spawned process is in MPI_Init.  Then MPI_Init may wait for
 * ever, and mpirun waits for the process.  So a thread of the process looks for the job until the
 * process has joined.  The thread ends the process when it has seen the job on this node, and the
 * job has no process there any more. */

#define LOOK_NS 500000000L
#define LOOKS 4 /* in a row without a living process of the job */

static _Atomic bool arrived; /* the process has joined, or joining has failed */

static void *look_for_job(void *arg)
{
    const uint64_t job = *(uint64_t *)arg;
    const struct timespec turn = { 0, LOOK_NS };
    bool seen = false;
    for (int gone = 0; gone < LOOKS && !atomic_load(&arrived);) {
        const int lives = ftk_dog_job_lives(job);
        seen = seen || lives > 0;
        gone = seen && lives == 0 ? gone + 1 : 0;
        (void)nanosleep(&turn, NULL); /* a shorter sleep does no harm */
    }
    if (!atomic_load(&arrived))
        _exit(0);
    return NULL;
}

/* Whether the parent is spawned, too: then this process is a command that a replacement runs, and
 * has inherited the mark. */
static bool is_command(void)
{
    struct ftk_environment parent = ftk_environment_of((long)getppid());
    const bool found = ftk_environment_get(&parent, SPAWN_MARK) != NULL;
    ftk_environment_free(&parent);
    return found;
}

__attribute__((constructor)) static void watch_job(void)
{
    static uint64_t job;
    const char *mark = getenv(SPAWN_MARK);
    pthread_t thread;
    job = mark ? strtoull(mark, NULL, 16) : 0;
    if (job != 0 && !is_command() && ftk_thread_start(&thread, look_for_job, &job) == 0)
        (void)pthread_detach(thread);
}

bool ftk_supply_is_spawned(void)
{
    static bool joined; /* only the first context of the process joins the repair */
    MPI_Comm parent = MPI_COMM_NULL;
    if (joined || !getenv(SPAWN_MARK) || MPI_Comm_get_parent(&parent) != MPI_SUCCESS)
        return false;
    joined = true;
    return parent != MPI_COMM_NULL;
}

int ftk_supply_program(void)
{
    const char *mark = getenv(SPAWN_MARK);
    const char *dot = mark ? strchr(mark, '.') : NULL;
    return dot ? atoi(dot + 1) : -1;
}

const char *ftk_supply_directory(void)
{
    const char *directory = getenv(DIRECTORY);
    return directory ? directory : "";
}

int ftk_supply_join(MPI_Comm *merged, uint64_t *job)
{
    MPI_Comm parent;
    const char *mark = getenv(SPAWN_MARK);
    int me = 0, n = 0, spawned = 0;
    int rc = MPI_Comm_get_parent(&parent);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_remote_size(parent, &n);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_size(MPI_COMM_WORLD, &spawned);
    if (rc == MPI_SUCCESS)
        rc = MPI_Intercomm_merge(parent, 1, merged);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(*merged, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = check_merged(*merged, n + spawned, n + me);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_disconnect(&parent);
    atomic_store(&arrived, true);
    *job = mark ? strtoull(mark, NULL, 16) : 0;
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "joining the job");
}
