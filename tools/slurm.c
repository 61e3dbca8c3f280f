/* The nodes of a Slurm job.  mpirun starts its daemons on them by srun in the place of ssh, one
 * step for each node.  So the loss of a node ends the step of this node alone, and a relaunch can
 * do without the node.  mpirun needs no support for Slurm.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools.h"

/* ---- the nodes ----------------------------------------------------------------------- */

/* Run a command of Slurm and add the lines of its output; false: it failed. */
static bool ask_slurm(struct ftk_list *lines, char *const command[])
{
    char *line = NULL;
    size_t room = 0;
    int out[2], status = -1;
    if (pipe2(out, O_CLOEXEC) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        if (dup2(out[1], STDOUT_FILENO) >= 0)
            execvp(command[0], command);
        _exit(TOOL_NO_EXEC);
    }
    close(out[1]);
    FILE *f = fdopen(out[0], "r");
    while (f && getline(&line, &room, f) > 0)
        ftk_list_add_once(lines, line, strcspn(line, "\n"));
    free(line);
    if (f)
        fclose(f);
    else
        close(out[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status == 0;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

/* Whether srun has started this process as one of several: each of them would start the job. */
static bool is_one_of_many(void)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    return tasks && strtol(tasks, NULL, 10) > 1 && is_set("SLURM_PROCID")
           && !is_set("SLURM_PTY_PORT");
}

/* Slurm before 23.02 does not set SLURM_JOB_END_TIME.  Without an answer it stays unset. */
static void learn_end(void)
{
    char *const command[] = { "squeue", "--noheader", "--format=%e", "--jobs",
        getenv("SLURM_JOB_ID"), NULL };
    struct ftk_list lines = { 0 };
    struct tm tm = { .tm_isdst = -1 };
    char number[32];
    bool got = ask_slurm(&lines, command) && lines.n > 0;
    const char *rest = got ? strptime(lines.v[0], "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    if (rest && *rest == '\0') { /* without a limit: "NONE" or "N/A" */
        snprintf(number, sizeof number, "%lld", (long long)mktime(&tm));
        (void)setenv("SLURM_JOB_END_TIME", number, 1);
    }
    ftk_list_free(&lines);
}

int ftk_slurm_plan(struct ftk_run *r)
{
    char *const names[] = { "scontrol", "show", "hostnames", getenv("SLURM_JOB_NODELIST"), NULL };
    struct ftk_list named = { 0 };
    if (!is_set("SLURM_JOB_ID") || !is_set("SLURM_JOB_NODELIST"))
        return 0;
    if (!is_set("SLURM_JOB_END_TIME"))
        learn_end();
    if (!ftk_mpirun_ulfm())
        return 0;
    if (is_one_of_many()) {
        ftk_run_say("srun has started ftkit run %s times: leave srun out, ftkit run starts the "
                    "processes on all nodes of the job",
            getenv("SLURM_STEP_NUM_TASKS"));
        return TOOL_USAGE;
    }
    ftk_nodes_named(r, &named);
    bool theirs = named.n > 0; /* the user has chosen nodes, and how daemons start there */
    ftk_list_free(&named);
    if (theirs)
        return 0;
    if (!ask_slurm(&r->slurm, names) || r->slurm.n == 0) {
        ftk_run_say("cannot read the nodes of job %s by `scontrol show hostnames`: give them by "
                    "--host",
            getenv("SLURM_JOB_ID"));
        return TOOL_FAIL;
    }
    if (r->slurm.n == 1 && ftk_nodes_here(r->slurm.v[0]))
        ftk_list_free(&r->slurm); /* mpirun starts the processes itself */
    return 0;
}

/* ---- arguments for mpirun ------------------------------------------------------------ */

/* Tasks on node number i by a list such as "4(x2),3"; 0: not known. */
static int tasks_on(const char *list, size_t i)
{
    while (list && *list) {
        char *end;
        long tasks = strtol(list, &end, 10), times = 1;
        if (end == list || tasks < 0 || tasks > 1000000)
            return 0;
        if (strncmp(end, "(x", 2) == 0)
            times = strtol(end + 2, &end, 10);
        if (times < 1)
            return 0;
        if (i < (size_t)times)
            return (int)tasks;
        i -= (size_t)times;
        list = end + strcspn(end, ",");
        list += *list == ',';
    }
    return 0;
}

/* The processes that the user has asked Slurm for on each node, if they are enough for this job;
 * else a block of equal size on each node. */
static char *list_hosts(const struct ftk_run *r)
{
    const char *tasks = getenv("SLURM_TASKS_PER_NODE");
    size_t room = 1, at = 0, there = r->slurm.n - r->gone.n, slots = 0;
    size_t left = (size_t)r->total;
    for (size_t i = 0; i < r->slurm.n; i++) {
        room += strlen(r->slurm.v[i]) + 16;
        if (!ftk_list_has(&r->gone, r->slurm.v[i], strlen(r->slurm.v[i])))
            slots += (size_t)tasks_on(tasks, i);
    }
    char *hosts = ftk_tool_alloc(room);
    for (size_t i = 0; i < r->slurm.n; i++) {
        const char *name = r->slurm.v[i];
        if (ftk_list_has(&r->gone, name, strlen(name)))
            continue;
        size_t block = (left + there - 1) / there;
        size_t here = slots >= (size_t)r->total ? (size_t)tasks_on(tasks, i) : block;
        left -= block;
        there--;
        if (here > 0)
            at += (size_t)snprintf(hosts + at, room - at, "%s%s:%zu", at ? "," : "", name, here);
    }
    return hosts;
}

/* Daemons, too, look for the agent, though they start no daemons: so not by r->dir/ftkit, which
 * they may not see.  mpirun splits the agent at blanks and colons. */
static void own_name(const struct ftk_run *r, char name[FTK_PATH_MAX + 16])
{
    ssize_t len = readlink("/proc/self/exe", name, FTK_PATH_MAX);
    name[len > 0 ? len : 0] = '\0';
    if (len <= 0 || name[strcspn(name, " :\t\n")])
        snprintf(name, FTK_PATH_MAX + 16, "%s/ftkit", r->dir);
}

void ftk_slurm_arguments(const struct ftk_run *r, struct ftk_list *cmd)
{
    /* A daemon that leaves its step would be killed with the step.  All daemons start from here,
     * and srun runs as long as its daemon: so no limit on how many start at once. */
    static const char *const fixed[] = { "--prtemca", "plm", "ssh", "--prtemca", "ras", "^slurm",
        "--prtemca", "plm_ssh_no_tree_spawn", "1", "--leave-session-attached" };
    char *hosts = list_hosts(r), self[FTK_PATH_MAX + 16];
    own_name(r, self);
    ftk_list_add(cmd, "--prtemca");
    ftk_list_add(cmd, "plm_ssh_agent");
    ftk_list_add(cmd, "%s slurm-agent%s", self, r->reports ? " --quiet" : "");
    ftk_list_add(cmd, "--prtemca");
    ftk_list_add(cmd, "plm_ssh_num_concurrent");
    ftk_list_add(cmd, "%zu", r->slurm.n + 1);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        ftk_list_add(cmd, "%s", fixed[i]);
    ftk_list_add(cmd, "--host");
    ftk_list_add(cmd, "%s", hosts);
    free(hosts);
}

int ftk_slurm_files(const struct ftk_run *r)
{
    char line[FTK_PATH_MAX + 16];
    if (ftk_nodes_agent(r) != 0)
        return TOOL_FAIL;
    for (size_t i = 0; i < r->slurm.n; i++)
        if (ftk_nodes_here(r->slurm.v[i]))
            return 0;
    /* a shell of salloc on another machine: rank 0 must see the directory of the run */
    snprintf(line, sizeof line, "test -d '%s'", r->dir);
    if (ftk_nodes_do(r, r->slurm.v[0], line))
        return 0;
    ftk_run_say("this machine is not in job %s, and its node %s does not see %s: start ftkit run "
                "on a node of the job, for example by `srun --overlap -N1 -n1 ftkit run ...`, or "
                "set TMPDIR to a directory that the nodes see",
        getenv("SLURM_JOB_ID"), r->slurm.v[0], r->dir);
    return TOOL_USAGE;
}

/* ---- the agent ----------------------------------------------------------------------- */

/* The step is for one daemon, whatever the user has asked for for the steps of the job. */
static void clean_environment(void)
{
    static const char *const names[] = { "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_CORE",
        "SLURM_NTASKS_PER_SOCKET", "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK",
        "SLURM_DISTRIBUTION", "SLURM_HINT", "SLURM_CPU_BIND", "SLURM_MEM_PER_CPU",
        "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_THREADS_PER_CORE", "SLURM_EXACT",
        "SLURM_EXCLUSIVE", "SLURM_NTASKS_PER_GPU" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
}

/* slurm-agent [--quiet] HOST WORD...: like ssh, run the words, joined by blanks, in the user's
 * shell.  --quiet: a daemon does not print what mpirun writes into the state file. */
int ftk_slurm_agent(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--quiet") == 0) {
        (void)setenv("PMIX_OUTPUT_STDERR_FD", "9", 1);
        argv++;
        argc--;
    }
    if (argc < 3) {
        fputs("ftkit slurm-agent: for mpirun only\n", stderr);
        return TOOL_USAGE;
    }
    struct ftk_list cmd = { 0 };
    const struct passwd *me = getpwuid(geteuid());
    char *line = ftk_tool_join(argv + 2);
    clean_environment();
    static const char *const words[] = { "srun", "--nodes=1", "--ntasks=1", "--overlap", "--mem=0",
        "--cpu-bind=none", "--mpi=none", "--export=ALL", "--input=none", "--quiet" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        ftk_list_add(&cmd, "%s", words[i]);
    ftk_list_add(&cmd, "--nodelist=%s", argv[1]);
    ftk_list_add(&cmd, "/bin/sh");
    ftk_list_add(&cmd, "-c");
    ftk_list_add(&cmd, "exec 9>/dev/null; exec \"$0\" -c \"$1\"");
    ftk_list_add(&cmd, "%s", me && me->pw_shell && *me->pw_shell ? me->pw_shell : "/bin/sh");
    ftk_list_add(&cmd, "%s", line);
    free(line);
    execvp(cmd.v[0], cmd.v);
    perror("ftkit slurm-agent: srun");
    ftk_list_free(&cmd);
    return 255;
}
