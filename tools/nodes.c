/* Which nodes a relaunch can use.  The loss of a node ends a job, because the daemon on that node
 * is lost.  mpirun cannot start a daemon on a node that does not exist any more.  So before a
 * relaunch every node is asked for a sign of life, by the command that mpirun starts daemons
 * with.
 *
 * Known are the nodes that --host or a hostfile names, and those of a Slurm job.  Nodes of another
 * batch system are left to the batch system.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools.h"

#define ANSWER_S 10.0
#define POLL_NS 10000000L

/* ---- arguments that name nodes ------------------------------------------------------- */

enum kind { OTHER, LIST, HOSTFILE };

static enum kind kind_of(const char *arg)
{
    static const char *const file[] = { "--hostfile", "-hostfile", "--machinefile", "-machinefile",
        "--default-hostfile", "-f" };
    static const char *const list[] = { "--host", "-host", "-H", "-hosts" };
    for (size_t i = 0; i < sizeof file / sizeof file[0]; i++)
        if (strcmp(arg, file[i]) == 0)
            return HOSTFILE;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strcmp(arg, list[i]) == 0)
            return LIST;
    return OTHER;
}

static void names_of_list(struct ftk_list *names, const char *list)
{
    while (*list) {
        size_t len = strcspn(list, ",");
        size_t name = strcspn(list, ",:");
        ftk_list_add_once(names, list, name);
        list += len + (list[len] == ',');
    }
}

static void names_of_file(struct ftk_list *names, const char *path)
{
    char *line = NULL;
    size_t room = 0;
    FILE *f = fopen(path, "re");
    if (!f)
        return; /* mpirun will complain */
    while (getline(&line, &room, f) > 0) {
        const char *s = line + strspn(line, " \t");
        ftk_list_add_once(names, s, strcspn(s, " \t\n:#"));
    }
    free(line);
    fclose(f);
}

static void names_of_options(struct ftk_list *names, const struct ftk_list *options)
{
    for (size_t i = 0; i + 1 < options->n; i++) {
        enum kind kind = kind_of(options->v[i]);
        if (kind == HOSTFILE)
            names_of_file(names, options->v[++i]);
        else if (kind == LIST)
            names_of_list(names, options->v[++i]);
    }
}

void ftk_nodes_named(const struct ftk_run *r, struct ftk_list *names)
{
    names_of_options(names, &r->extra);
    for (int k = 1; k < r->nparts; k++)
        names_of_options(names, &r->parts[k].options);
}

/* A name server that does not answer takes some seconds for each name. */
#define RESOLVE_S 5.0

void ftk_nodes_say_unresolved(const struct ftk_run *r)
{
    struct ftk_list names = { 0 };
    const double end = ftk_now_s() + RESOLVE_S;
    int rc = 0;
    ftk_nodes_named(r, &names);
    for (size_t i = 0; i < names.n && rc == 0 && ftk_now_s() < end; i++) {
        struct addrinfo *found = NULL;
        if (strpbrk(names.v[i], "@+^["))
            continue; /* a user with a node, or several nodes */
        rc = getaddrinfo(names.v[i], NULL, NULL, &found);
        if (rc == 0)
            freeaddrinfo(found);
        else
            ftk_run_say(
                "the name of node '%s' does not resolve on this node (%s): look at --host and "
                "the hostfile",
                names.v[i], gai_strerror(rc));
    }
    ftk_list_free(&names);
}

/* ---- arguments without lost nodes ---------------------------------------------------- */

static void add_list(const struct ftk_run *r, struct ftk_list *cmd, const char *list)
{
    char *left = ftk_tool_alloc(strlen(list) + 2);
    while (*list) {
        size_t len = strcspn(list, ",");
        if (!ftk_list_has(&r->gone, list, strcspn(list, ",:"))) {
            strcat(left, *left ? "," : "");
            strncat(left, list, len);
        }
        list += len + (list[len] == ',');
    }
    ftk_list_add(cmd, "%s", left);
    free(left);
}

static int copy_file(const struct ftk_run *r, const char *from, const char *to)
{
    char *line = NULL;
    size_t room = 0;
    FILE *in = fopen(from, "re");
    FILE *out = in ? fopen(to, "we") : NULL;
    while (out && getline(&line, &room, in) > 0) {
        const char *s = line + strspn(line, " \t");
        if (!ftk_list_has(&r->gone, s, strcspn(s, " \t\n:#")))
            fputs(line, out);
    }
    bool ok = out && !ferror(in) && !ferror(out);
    free(line);
    if (in)
        fclose(in);
    if (out && fclose(out) != 0)
        ok = false;
    return ok ? 0 : -1;
}

static void add_file(
    const struct ftk_run *r, struct ftk_list *cmd, const char *path, int part, size_t which)
{
    char left[FTK_PATH_MAX + 40];
    snprintf(left, sizeof left, "%s/hostfile.%d.%zu", r->dir, part, which);
    if (copy_file(r, path, left) == 0) {
        ftk_list_add(cmd, "%s", left);
        return;
    }
    ftk_run_say("cannot copy %s to %s: %s", path, left, strerror(errno));
    ftk_list_add(cmd, "%s", path);
}

void ftk_nodes_arguments(
    const struct ftk_run *r, const struct ftk_list *options, int part, struct ftk_list *cmd)
{
    for (size_t i = 0; i < options->n; i++) {
        enum kind kind = r->gone.n > 0 ? kind_of(options->v[i]) : OTHER;
        ftk_list_add(cmd, "%s", options->v[i]);
        if (kind == OTHER || i + 1 == options->n)
            continue;
        i++;
        if (kind == LIST)
            add_list(r, cmd, options->v[i]);
        else
            add_file(r, cmd, options->v[i], part, i);
    }
}

/* ---- signs of life ------------------------------------------------------------------- */

bool ftk_nodes_here(const char *name)
{
    char self[256] = "";
    (void)gethostname(self, sizeof self - 1);
    size_t len = strcspn(name, ".");
    return strcmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0
           || (strncmp(name, self, len) == 0 && (self[len] == '\0' || self[len] == '.'));
}

int ftk_nodes_agent(const struct ftk_run *r)
{
    char path[FTK_PATH_MAX + 16], self[FTK_PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0) {
        ftk_run_say("cannot find myself: %s", strerror(errno));
        return TOOL_FAIL;
    }
    self[len] = '\0';
    snprintf(path, sizeof path, "%s/ftkit", r->dir);
    if (symlink(self, path) != 0) {
        ftk_run_say("cannot make %s: %s", path, strerror(errno));
        return TOOL_FAIL;
    }
    return 0;
}

/* The command with which mpirun starts daemons, cut into words. */
static void agent_of(const struct ftk_run *r, struct ftk_list *cmd)
{
    const char *agent = getenv("PRTE_MCA_plm_ssh_agent");
    if (r->slurm.n > 0) {
        ftk_list_add(cmd, "%s/ftkit", r->dir);
        ftk_list_add(cmd, "slurm-agent");
        return;
    }
    if (r->emulate > 0) {
        ftk_list_add(cmd, "%s/ftkit", r->dir);
        ftk_list_add(cmd, "emulate-agent");
        ftk_list_add(cmd, "%s", r->dir);
        return;
    }
    for (size_t i = 0; i + 2 < r->extra.n; i++)
        if (strcmp(r->extra.v[i], "--prtemca") == 0
            && strcmp(r->extra.v[i + 1], "plm_ssh_agent") == 0)
            agent = r->extra.v[i + 2];
    if (!agent || !*agent) {
        static const char *const words[] = { "ssh", "-x", "-o", "BatchMode=yes", "-o",
            "ConnectTimeout=5" };
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            ftk_list_add(cmd, "%s", words[i]);
        return;
    }
    while (agent[strspn(agent, " ")] && agent[strspn(agent, " ")] != ':') {
        agent += strspn(agent, " ");
        ftk_list_add(cmd, "%.*s", (int)strcspn(agent, " "), agent);
        agent += strcspn(agent, " ");
    }
}

/* Start a command line on a node. */
static pid_t ask(const struct ftk_run *r, const char *name, const char *line)
{
    struct ftk_list cmd = { 0 };
    agent_of(r, &cmd);
    ftk_list_add(&cmd, "%s", name);
    ftk_list_add(&cmd, "%s", line);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (null >= 0 && dup2(null, 0) >= 0 && dup2(null, 1) >= 0 && dup2(null, 2) >= 0)
            execvp(cmd.v[0], cmd.v);
        _exit(TOOL_NO_EXEC);
    }
    ftk_list_free(&cmd);
    return pid;
}

/* Whether the process of ask() ends with 0 before the time end. */
static bool answers(pid_t pid, double end)
{
    const struct timespec turn = { 0, POLL_NS };
    int status = 0;
    pid_t got;
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 && ftk_now_s() < end)
        (void)nanosleep(&turn, NULL);
    if (got == 0) {
        (void)kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
        return false;
    }
    return got == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool ftk_nodes_do(const struct ftk_run *r, const char *name, const char *line)
{
    pid_t pid = ask(r, name, line);
    return pid > 0 && answers(pid, ftk_now_s() + ANSWER_S);
}

static void leave_out(struct ftk_run *r, const struct ftk_list *names, const bool *there)
{
    for (size_t i = 0; i < names->n; i++) {
        if (there[i])
            continue;
        ftk_run_say("node %s does not answer; going on without it", names->v[i]);
        ftk_list_add(&r->gone, "%s", names->v[i]);
    }
}

void ftk_nodes_look(struct ftk_run *r)
{
    struct ftk_list names = { 0 };
    size_t alive = 0;
    if (r->emulate > 0)
        ftk_emulate_names(r, &names);
    else if (r->slurm.n > 0)
        for (size_t i = 0; i < r->slurm.n; i++)
            ftk_list_add(&names, "%s", r->slurm.v[i]);
    else
        ftk_nodes_named(r, &names);
    ftk_list_free(&r->gone);
    r->gone = (struct ftk_list){ 0 };
    bool *there = ftk_tool_alloc((names.n + 1) * sizeof *there);
    pid_t *asked = ftk_tool_alloc((names.n + 1) * sizeof *asked);
    double end = ftk_now_s() + ANSWER_S;
    for (size_t i = 0; i < names.n; i++)
        asked[i] = ftk_nodes_here(names.v[i]) ? 0 : ask(r, names.v[i], "true");
    for (size_t i = 0; i < names.n; i++) {
        there[i] = asked[i] == 0 || (asked[i] > 0 && answers(asked[i], end));
        alive += there[i];
    }
    if (alive > 0) /* if no node answers, the command is wrong, not the nodes */
        leave_out(r, &names, there);
    free(there);
    free(asked);
    ftk_list_free(&names);
}
