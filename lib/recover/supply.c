/* Supply of processes that are spawned.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mpi_shim.h"
#include "recover.h"

extern char **environ;

#define SPAWN_MARK "FTKIT_SPAWNED"
#define ARGS_MAX (1u << 20)

/* ---- spawn ------------------------------------------------------------------------------
 * On Open MPI 5.0 a repair cannot survive a death between spawn and merge: the watchdog ends such
 * a repair.  So a repair uses spares first. */

/* The command line of this process.  It is read before main() runs, because a program may write
 * into its arguments: strtok() on an option, a title for ps. */
static char *command_line;
static size_t command_bytes;

__attribute__((constructor)) static void keep_command_line(void)
{
    size_t cap = 4096;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? 1 : 0;
    while (n > 0 && command_bytes < ARGS_MAX) {
        char *more = realloc(command_line, cap + 1);
        if (!more)
            break; /* the replacement will have fewer arguments, or none */
        command_line = more;
        n = read(fd, command_line + command_bytes, cap - command_bytes);
        command_bytes += n > 0 ? (size_t)n : 0;
        cap = command_bytes == cap ? 2 * cap : cap;
    }
    if (fd >= 0)
        (void)close(fd); /* only read from */
    if (command_line)
        command_line[command_bytes] = '\0';
}

/* Return the command line as an argv; the caller frees the array, not the strings.  NULL: no
 * memory, or no command line. */
static char **own_arguments(void)
{
    size_t count = 0;
    for (size_t i = 0; i < command_bytes; i++)
        count += command_line[i] == '\0';
    char **argv = count > 0 ? calloc(count + 1, sizeof *argv) : NULL;
    char *p = command_line;
    for (size_t i = 0; argv && i < count; i++, p += strlen(p) + 1)
        argv[i] = p;
    return argv;
}

static bool is_handed_on(const char *variable)
{
    if (strncmp(variable, SPAWN_MARK "=", sizeof SPAWN_MARK) == 0)
        return false; /* a replacement gets a mark of its own */
    return strncmp(variable, "FTKIT_", 6) == 0 || strncmp(variable, "LD_PRELOAD=", 11) == 0;
}

/* Return the command and the arguments to start a replacement: env, which sets the FTKIT_ variables
 * and LD_PRELOAD of this process, and the program.  mpirun's -x does not reach spawned processes:
 * without env they would lack a preloaded libftkit_mpi, and on other nodes every setting.  A value
 * of an MPI_Info is too short for these variables.  The caller frees the array, not the strings.
 * NULL: no memory. */
static char **start_of(const char **command, char *exe, char **argv)
{
    size_t nvars = 0, nargs = 0, at = 0;
    static char none[] = "/nonexistent";
    for (char **e = environ; *e; e++)
        nvars += is_handed_on(*e);
    for (char **a = argv; a && *a; a++)
        nargs++;
    char **all = calloc(nvars + nargs + 2, sizeof *all);
    char *program = *exe ? exe : none;
    bool plain = nvars == 0 || strchr(program, '=') != NULL; /* env would take it for a variable */
    *command = plain ? program : "/usr/bin/env";
    if (!all)
        return NULL;
    for (char **e = environ; !plain && *e; e++)
        if (is_handed_on(*e))
            all[at++] = *e;
    if (!plain)
        all[at++] = program;
    for (size_t i = 1; i < nargs; i++)
        all[at++] = argv[i];
    return all;
}

/* Check that a merged communicator has n processes, this one with rank me.  An MPI error code. */
static int check_merged(MPI_Comm merged, int n, int me)
{
    int size = 0, rank = -1;
    int rc = MPI_Comm_size(merged, &size);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_rank(merged, &rank);
    return rc == MPI_SUCCESS && (size != n || rank != me) ? MPI_ERR_OTHER : rc;
}

int ftk_supply_spawn(struct ftkit_ctx *ctx, MPI_Comm s, int n, MPI_Comm *merged)
{
    char exe[FTK_PATH_MAX] = "";
    char mark[48];
    int me = 0, size = 0;
    MPI_Comm inter = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char **argv = own_arguments();
    const char *command;
    char **start = start_of(&command, len > 0 ? exe : strcpy(exe, ""), argv);
    snprintf(mark, sizeof mark, SPAWN_MARK "=%" PRIx64, ctx->job);
    int rc = MPI_Comm_rank(s, &me);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_size(s, &size);
    if (rc == MPI_SUCCESS)
        rc = MPI_Info_create(&info);
    if (rc == MPI_SUCCESS)
        rc = MPI_Info_set(info, "PMIX_ENVAR", mark);
    if (rc == MPI_SUCCESS) /* mpirun still counts the slot of the dead process as taken */
        rc = MPI_Info_set(info, "PMIX_MAPBY", ":OVERSUBSCRIBE");
    if (rc == MPI_SUCCESS) /* ... and its core */
        rc = MPI_Info_set(info, "PMIX_BINDTO", "none");
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_spawn(start ? command : "/nonexistent", start ? start : MPI_ARGV_NULL, n,
            info, 0, s, &inter, MPI_ERRCODES_IGNORE);
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
    free(argv);
    free(start);
    if (rc == MPI_SUCCESS)
        return FTKIT_OK;
    /* an error that is not the failure of a process would come again: do not try again */
    ctx->repair.spawn_failed = !ftk_mpi_is_failure(rc);
    return ftk_fail_mpi(rc, "spawning replacements");
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
    *job = mark ? strtoull(mark, NULL, 16) : 0;
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "joining the job");
}
