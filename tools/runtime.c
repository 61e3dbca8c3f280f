/* What the runtime of MPI can do: asked of the runtime itself, not of its version.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools.h"

#define SURVIVE "errmgr_dvm_survive_nodes"

/* The program prte_info of the same installation as mpirun: beside it, also behind links. */
static void info_program(const char *mpirun, char path[PATH_MAX])
{
    const char *slash = strrchr(mpirun, '/');
    if (slash)
        snprintf(path, PATH_MAX, "%.*s/prte_info", (int)(slash - mpirun), mpirun);
    else
        snprintf(path, PATH_MAX, "prte_info"); /* in PATH, like mpirun */
}

static _Noreturn void become_info(const char *program, int out)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0 && dup2(null, 0) >= 0 && dup2(out, 1) >= 0 && dup2(null, 2) >= 0)
        execlp(program, program, "--param", "errmgr:dvm", (char *)NULL);
    _exit(TOOL_NO_EXEC);
}

/* Read all that the program prints, and keep what there is room for; "" if it cannot be asked. */
static void ask(const char *mpirun, char *text, size_t room)
{
    char program[PATH_MAX], more[1024];
    int end[2], status = 0;
    size_t n = 0;
    text[0] = '\0';
    info_program(mpirun, program);
    if (pipe2(end, O_CLOEXEC) != 0)
        return;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become_info(program, end[1]);
    (void)close(end[1]); /* nothing was written through this descriptor */
    for (ssize_t got = 1; pid > 0 && got != 0;) {
        const bool full = n == room - 1;
        got = full ? read(end[0], more, sizeof more) : read(end[0], text + n, room - 1 - n);
        if (got > 0)
            n += full ? 0 : (size_t)got;
        else if (got < 0 && errno != EINTR)
            break;
    }
    (void)close(end[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    text[pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? n : 0] = '\0';
}

static bool is_on(const char *value)
{
    static const char *const off[] = { "0", "false", "no", "disabled", "off" };
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        if (strncmp(value, off[i], strlen(off[i])) == 0)
            return false;
    return true;
}

/* The value that the user has given: as an option of mpirun, or, as prte_info says, in the
 * environment or a file.  NULL: none. */
static const char *users_value(const struct ftk_list *options, const char *said)
{
    for (size_t i = 0; i + 1 < options->n; i++)
        if (strcmp(options->v[i], SURVIVE) == 0)
            return options->v[i + 1];
    const char *value = strstr(said, "(current value: \""), *source = strstr(said, "data source:");
    if (!value || !source)
        return NULL;
    source += strcspn(source, ":") + 1;
    source += strspn(source, " \n");
    return strncmp(source, "default", 7) == 0 ? NULL : value + strlen("(current value: \"");
}

bool ftk_runtime_survives_nodes(const char *mpirun, const struct ftk_list *options)
{
    char said[8192];
    if (!ftk_mpirun_ulfm())
        return false;
    ask(mpirun, said, sizeof said);
    const char *here = strstr(said, "\"" SURVIVE "\"");
    if (!here)
        return false;
    const char *value = users_value(options, here);
    return !value || is_on(value);
}
