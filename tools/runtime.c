/* What the runtime of MPI can do, asked of the runtime itself, not of its version; and what the
 * runtime needs to survive the loss of a node.
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

#include "core/config.h"
#include "tools.h"

#define SURVIVE "errmgr_dvm_survive_nodes"
#define PRTE_RADIX 64 /* children of a daemon in the tree of PRRTE, unless a parameter says so */

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

bool ftk_runtime_repairs_nodes(void)
{
    static const struct ftk_list none;
    return ftk_runtime_survives_nodes(FTKIT_MPIRUN, &none);
}

/* ---- a silent node ------------------------------------------------------------------- */

int ftk_runtime_node_timeout(int *seconds)
{
    double s = 0;
    const char *why = ftk_config_time_of("recover", "node_timeout", &s);
    if (why) {
        ftk_run_say("FTKIT_RECOVER_NODE_TIMEOUT: '%s' %s; allowed: a time of 3s to 1h such as 90s",
            getenv("FTKIT_RECOVER_NODE_TIMEOUT"), why);
        return TOOL_USAGE;
    }
    *seconds = (int)(s + 0.999);
    return 0;
}

/* TCP asks a silent peer for a sign of life: first after `time` seconds, then each `intvl` seconds.
 * After `probes` questions without an answer the connection ends: time + probes * intvl = all. */
static void share_timeout(int all, int *time, int *intvl, int *probes)
{
    *probes = all > 3 ? 3 : 2;
    *intvl = all > 5 ? all / 5 : 1;
    *time = all - *probes * *intvl;
}

/* No daemon may need another one: mpirun is the parent of all. */
void ftk_runtime_survive(const struct ftk_run *r, struct ftk_list *cmd)
{
    int value[5] = { 1, 0, 0, 0, r->nodes + 1 };
    static const char *const name[] = { SURVIVE, "oob_tcp_keepalive_time",
        "oob_tcp_keepalive_intvl", "oob_tcp_keepalive_probes", "rml_base_radix" };
    const int n = r->nodes < PRTE_RADIX ? 4 : 5; /* its own radix is enough */
    char text[16];
    share_timeout(r->node_timeout_s, &value[1], &value[2], &value[3]);
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%d", value[i]);
        if (!ftk_mpirun_users(&r->extra, name[i]))
            ftk_mpirun_setting(cmd, "--prtemca", name[i], text);
    }
}
