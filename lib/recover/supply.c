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
#include "core/epoch.h"
#include "core/hash.h"
#include "core/mpi_shim.h"
#include "core/repair_state.h"
#include "core/thread.h"
#include "command.h"
#include "detect/sure.h"
#include "detect/watch_page.h"
#include "supply.h"

#define SPAWN_MARK "FTKIT_SPAWNED"
#define DIRECTORY "FTKIT_RUN_DIRECTORY"

/* ---- spawn ------------------------------------------------------------------------------
 * MPI_Comm_spawn() over several processes waits inside the runtime until each of them has come, for
 * ever if one has died before.  So process 0 spawns alone.  Then all make the communicators with
 * calls that a death ends, but for two cases (docs/limits.md, Spawn).  All agree after each of
 * them, because a process without the new communicator cannot end the calls of the others on it.  A
 * broadcast of process 0 is the last step: a spawned process that does not get it ends.
 *
 * After a death Open MPI may return any error, and an error in a spawned process looks like its
 * death.  So a repair tries again after each error, but gives up after FTK_SPAWNS in a row.  Only
 * an error of MPI_Comm_spawn itself comes again: no such program, no slots. */

enum { SPAWN_TAG = 1, TAKEN = 1 };

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

/* Process 0 and the spawned processes meet before each step that follows: a death inside a merge
 * may hang Open MPI.  An MPI error code. */
static int meet(MPI_Comm pair)
{
    const struct ftk_sure s = { pair, NULL, "waiting for spawned processes" };
    return ftk_sure_meet(&s) == FTKIT_OK ? MPI_SUCCESS : ftk_mpi_failure_code();
}

/* Keep a communicator of an attempt that has failed.  Messages to its members may still come: on a
 * later communicator with the same identifier, Open MPI would take them for those of another
 * process, and wait for ever.  Without memory for the list nothing ever frees it. */
static void keep(struct ftkit_ctx *ctx, MPI_Comm *comm)
{
    (void)ftk_retire(ctx, *comm);
    *comm = MPI_COMM_NULL;
}

/* Make one communicator of process 0 and of the processes that are spawned.  Collective over them.
 * An MPI error code. */
static int make_pair(MPI_Comm inter, bool spawned, int n, int me, MPI_Comm *pair)
{
    (void)FTK_FAULT("repair.inter");
    int rc = MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS && FTK_FAULT("repair.pair"))
        rc = MPI_ERR_OTHER;
    if (rc == MPI_SUCCESS)
        rc = MPI_Intercomm_merge(inter, spawned, pair);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(*pair, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = check_merged(*pair, n, me);
    if (rc != MPI_SUCCESS) { /* no process waits for this one */
        ftk_mpi_revoke(inter);
        ftk_mpi_revoke(*pair);
    }
    return rc;
}

/* The result of process 0. */
struct spawned {
    int rc;    /* an MPI error code */
    int again; /* the error would come again */
};

/* In process 0: spawn n processes. */
static struct spawned spawn(struct ftkit_ctx *ctx, int program, int n, MPI_Comm *pair)
{
    bool again = false;
    struct ftk_command c;
    char *text = NULL, below[sizeof DIRECTORY + 1 + FTK_PATH_MAX];
    const char *command = NULL;
    MPI_Comm self = MPI_COMM_NULL, inter = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    find_command(&ctx->programs, program, &c, &text);
    snprintf(below, sizeof below, DIRECTORY "=%s", ctx->programs.directory);
    char **args = ftk_command_spawn(&c, ctx->programs.n > 0 ? below : NULL, &command);
    int rc = ftk_mpi_alone(&self); /* errors of MPI_COMM_SELF end the process */
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = make_info(ctx, program, &c, &info);
    if (rc == MPI_SUCCESS) {
        rc = MPI_Comm_spawn(args ? command : "/nonexistent", args ? args : MPI_ARGV_NULL, n, info,
            0, self, &inter, MPI_ERRCODES_IGNORE);
        again = rc != MPI_SUCCESS && !ftk_mpi_is_failure(rc);
    }
    if (rc == MPI_SUCCESS)
        rc = make_pair(inter, false, n + 1, 0, pair);
    if (rc != MPI_SUCCESS)
        keep(ctx, &inter);
    ftk_mpi_free(&inter);
    ftk_mpi_free(&self);
    if (info != MPI_INFO_NULL)
        (void)MPI_Info_free(&info);
    free(args);
    ftk_command_free(&c);
    free(text);
    return (struct spawned){ rc, again };
}

/* What a process has of the communicators with the spawned processes. */
struct joining {
    MPI_Comm pair, inter, merged;
    bool refused; /* the processes have agreed that one of them has not got that far */
};

/* Make the intercommunicator.  An MPI error code. */
static int meet_other(struct joining *j, MPI_Comm local, int other)
{
    int rc = MPI_Intercomm_create(local, 0, j->pair, other, SPAWN_TAG, &j->inter);
    return rc == MPI_SUCCESS ? MPI_Comm_set_errhandler(j->inter, MPI_ERRORS_RETURN) : rc;
}

/* Make one communicator of it, with n processes.  An MPI error code. */
static int merge(struct joining *j, bool spawned, int n, int me)
{
    int rc = MPI_Intercomm_merge(j->inter, spawned, &j->merged);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(j->merged, MPI_ERRORS_RETURN);
    return rc == MPI_SUCCESS ? check_merged(j->merged, n, me) : rc;
}

static void give_up(struct joining *j)
{
    ftk_mpi_revoke(j->pair);
    ftk_mpi_revoke(j->inter);
    ftk_mpi_revoke(j->merged);
}

/* Whether a step has worked on all members of s.  rc: of this process, an MPI error code.  Return
 * an MPI error code, the same decision on all.  A member that has failed before is in the agreement
 * at the end of its attempt: so after a refusal this one has to leave that out (*refused). */
static int decide(MPI_Comm s, struct joining *j, int rc)
{
    int all = 0;
    if (rc != MPI_SUCCESS) { /* no process waits for this one */
        ftk_mpi_revoke(s);
        give_up(j);
    }
    const int agreed = ftk_mpi_agree(s, rc == MPI_SUCCESS, &all);
    if (agreed == MPI_SUCCESS && all)
        return MPI_SUCCESS;
    j->refused = agreed == MPI_SUCCESS;
    give_up(j);
    return rc != MPI_SUCCESS ? rc : agreed != MPI_SUCCESS ? agreed : ftk_mpi_failure_code();
}

/* Make merged of s and of the n processes that process 0 has spawned.  An MPI error code. */
static int connect_all(MPI_Comm s, int n, struct joining *j)
{
    int me = 0, size = 0;
    int rc = MPI_Comm_rank(s, &me);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_size(s, &size);
    if (rc == MPI_SUCCESS && me == 0)
        rc = meet(j->pair);
    if (rc == MPI_SUCCESS)
        rc = meet_other(j, s, 1);
    if (rc == MPI_SUCCESS && me == 0)
        rc = meet(j->pair);
    rc = decide(s, j, rc);
    (void)FTK_FAULT("repair.met");
    if (rc == MPI_SUCCESS)
        rc = decide(s, j, merge(j, false, size + n, me));
    (void)FTK_FAULT("repair.joined");
    return rc;
}

/* In process 0: announce to the spawned processes that they have joined. */
static void take(struct joining *j)
{
    const struct ftk_sure pair = { j->pair, NULL, "taking spawned processes" };
    int taken = TAKEN;
    if (j->pair != MPI_COMM_NULL && ftk_sure_bcast(&pair, 0, &taken, sizeof taken) != FTKIT_OK)
        ftk_mpi_revoke(j->pair); /* they end, and their end shows in the next steps, on merged */
}

int ftk_supply_spawn(
    struct ftkit_ctx *ctx, MPI_Comm s, int program, int n, MPI_Comm *merged, bool *refused)
{
    struct joining j = { MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL, false };
    const struct ftk_sure all = { s, NULL, "spawning replacements" };
    struct spawned got = { MPI_SUCCESS, false };
    int me = 0;
    got.rc = MPI_Comm_rank(s, &me);
    if (got.rc == MPI_SUCCESS && me == 0)
        got = spawn(ctx, program, n, &j.pair);
    int rc = ftk_sure_bcast(&all, 0, &got, sizeof got);
    (void)FTK_FAULT("repair.spawned");
    if (rc == FTKIT_OK && got.rc == MPI_SUCCESS)
        got.rc = connect_all(s, n, &j);
    if (rc == FTKIT_OK && got.rc != MPI_SUCCESS) {
        ftk_repair_spawn_failed(ctx, got.again);
        rc = ftk_fail_mpi(got.rc, "spawning replacements");
    }
    if (rc != FTKIT_OK) {
        give_up(&j);
        keep(ctx, &j.pair);
        keep(ctx, &j.inter);
        keep(ctx, &j.merged);
    } else {
        ftk_repair_spawn_works(ctx);
        take(&j);
    }
    ftk_mpi_free(&j.pair);
    ftk_mpi_free(&j.inter);
    *merged = j.merged;
    *refused = j.refused;
    return rc;
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

/* A step of joining has ended with rc. */
static int joined(int rc)
{
    return rc == MPI_SUCCESS && FTK_FAULT("repair.join") ? MPI_ERR_OTHER : rc;
}

/* Make the communicators with the processes that have spawned this one.  An MPI error code. */
static int connect_spawned(struct joining *j)
{
    MPI_Comm parent = MPI_COMM_NULL;
    int me = 0, n = 0, all = 0;
    int rc = joined(MPI_Comm_get_parent(&parent));
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (rc == MPI_SUCCESS)
        rc = joined(make_pair(parent, true, n + 1, me + 1, &j->pair));
    if (rc == MPI_SUCCESS)
        ftk_mpi_free(&parent);
    if (rc == MPI_SUCCESS)
        rc = meet(j->pair);
    if (rc == MPI_SUCCESS)
        rc = joined(meet_other(j, MPI_COMM_WORLD, 0));
    if (rc == MPI_SUCCESS)
        rc = meet(j->pair);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_remote_size(j->inter, &all);
    if (rc == MPI_SUCCESS)
        rc = joined(merge(j, true, all + n, all + me));
    return rc;
}

/* Join the processes that have spawned this one; own: to the error of this process.  FTKIT_ERR_MPI:
 * the repair was given up. */
static int join(struct joining *j, bool *own)
{
    int taken = 0;
    const int mrc = connect_spawned(j);
    *own = mrc != MPI_SUCCESS && !ftk_mpi_is_failure(mrc);
    if (mrc != MPI_SUCCESS)
        return ftk_fail_mpi(mrc, "joining the job");
    const struct ftk_sure pair = { j->pair, NULL, "joining the job" };
    const int rc = ftk_sure_bcast(&pair, 0, &taken, sizeof taken);
    return rc == FTKIT_OK && joined(MPI_SUCCESS) != MPI_SUCCESS
               ? ftk_fail_mpi(MPI_ERR_OTHER, "joining the job")
               : rc;
}

/* Join, while errors on MPI_COMM_WORLD, too, are returned.  Then the program has its handler again:
 * the library saves that handler later. */
static int join_quietly(struct joining *j, bool *own)
{
    MPI_Errhandler old = MPI_ERRHANDLER_NULL;
    int mrc = MPI_Comm_get_errhandler(MPI_COMM_WORLD, &old);
    if (mrc == MPI_SUCCESS)
        mrc = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int rc = mrc == MPI_SUCCESS ? join(j, own) : FTKIT_OK;
    if (rc != FTKIT_OK)
        return rc;
    if (mrc == MPI_SUCCESS)
        mrc = MPI_Comm_set_errhandler(MPI_COMM_WORLD, old);
    if (mrc == MPI_SUCCESS && old != MPI_ERRORS_ARE_FATAL && old != MPI_ERRORS_RETURN)
        mrc = MPI_Errhandler_free(&old); /* only the reference */
    *own = mrc != MPI_SUCCESS;
    return mrc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(mrc, "the error handler of MPI_COMM_WORLD");
}

int ftk_supply_join(MPI_Comm *merged, uint64_t *job)
{
    struct joining j = { MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL, false };
    const char *mark = getenv(SPAWN_MARK);
    bool own = false;
    const int rc = join_quietly(&j, &own);
    atomic_store(&arrived, true);
    if (rc != FTKIT_OK) { /* nobody knows this process; with another code mpirun ends the job */
        give_up(&j);
        if (own)
            ftk_report(
                FTKIT_WARNING, "a spawned process cannot join the job: %s", ftk_detail_text());
        else
            ftk_report(
                FTKIT_DEBUG, "a spawned process is not needed any more: %s", ftk_detail_text());
        _exit(0);
    }
    ftk_mpi_free(&j.pair);
    ftk_mpi_free(&j.inter);
    *merged = j.merged;
    *job = mark ? strtoull(mark, NULL, 16) : 0;
    return FTKIT_OK;
}
