/* The run profile: the flags and variables with which mpirun starts a resilient job.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/config.h"
#include "tools.h"

extern char **environ;

/* Settings that Open MPI 5.0 needs, besides --with-ft ulfm, to survive the loss of a process. */
static const struct {
    const char *option, *name, *value;
} profile[] = {
    { "--mca", "pml", "ob1" },
    { "--mca", "btl", "sm,tcp,self" },
    /* han returns success from collectives with a dead member; this list replaces the list of
     * --with-ft, so it repeats the entries of that list */
    { "--mca", "coll", "^han,hcoll,portals4" },
    /* without this, a dead process that no process has communicated with makes shrink hang
     * across nodes */
    { "--mca", "mpi_add_procs_cutoff", "100000" },
    /* without this, MPI_Finalize hangs after a failure */
    { "--mca", "async_mpi_finalize", "1" },
    /* spawned processes may die, too */
    { "--prtemca", "state_base_recoverable", "1" },
    { "--prtemca", "state_base_notify_errors", "1" },
};

bool ftk_mpirun_ulfm(void)
{
    return strcmp(FTKIT_MPI_KIND, "ulfm") == 0;
}

/* ---- nodes --------------------------------------------------------------------------- */

/* Number of nodes that the user's arguments for mpirun name; else that of the batch system; else
 * 1. */
static int count_nodes(const struct ftk_run *r)
{
    struct ftk_list names = { 0 };
    ftk_nodes_named(r, &names);
    long n = (long)names.n;
    const char *slurm = getenv("SLURM_JOB_NUM_NODES");
    if (n == 0 && slurm)
        n = strtol(slurm, NULL, 10);
    ftk_list_free(&names);
    return n < 1 || n > 1000000 ? 1 : (int)n;
}

/* ---- the plan ------------------------------------------------------------------------ */

/* A node has (ranks + spares) / nodes processes, rounded up, and its loss takes its own spares
 * along.  So the other nodes have a spare for each of its ranks when there are as many spares as a
 * node has processes: ranks / (nodes - 1), rounded up.  On two nodes that would be a spare for each
 * rank: there half as many have to do. */
int ftk_mpirun_spares(int ranks, int nodes)
{
    if (!ftk_mpirun_ulfm())
        return 0;
    const int others = nodes > 2 ? nodes - 1 : 2;
    return nodes > 1 ? (ranks + others - 1) / others : 1;
}

/* Spares: the requested number; else enough for the loss of any node of three or more, half of the
 * ranks on two nodes, and 1 on a single node. */
static int plan_spares(struct ftk_run *r)
{
    const char *set = getenv("FTKIT_SPARES_COUNT");
    if (!ftk_mpirun_ulfm()) {
        if (r->spares > 0)
            ftk_run_say("spares need an MPI with ULFM: this job starts none");
        return ftk_parts_spares(r, -1);
    }
    if (set) {
        char *end;
        long n = strtol(set, &end, 10);
        if (*set == '\0' || *end != '\0' || n < 0 || n > 1000000) {
            ftk_run_say("FTKIT_SPARES_COUNT: '%s' is not a number from 0 to 1000000", set);
            return TOOL_USAGE;
        }
        if (r->spares >= 0 && r->spares != n) {
            ftk_run_say(
                "--spares %d, but FTKIT_SPARES_COUNT is %ld: leave one of them out", r->spares, n);
            return TOOL_USAGE;
        }
        r->spares = (int)n;
    }
    return ftk_parts_spares(r, set ? r->spares : -1);
}

/* Find libftkit_mpi: in the directory of this program, or in that of the libraries beside it. */
static int find_layer(struct ftk_run *r)
{
    static const char *const places[] = { "", "../" FTKIT_LIBDIR "/" };
    char self[FTK_PATH_MAX - 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!ftk_mpirun_ulfm()) {
        ftk_run_say("--log needs an MPI with ULFM: `ftkit version` says whether there is one");
        return TOOL_USAGE;
    }
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        slash[1] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(r->layer, sizeof r->layer, "%s%slibftkit_mpi.so", self, places[i]);
        if (access(r->layer, R_OK) == 0)
            return 0;
    }
    ftk_run_say("--log: there is no libftkit_mpi.so in %s or %s../" FTKIT_LIBDIR
                ": make install puts it there",
        self, self);
    return TOOL_USAGE;
}

int ftk_mpirun_plan(struct ftk_run *r)
{
    int rc = r->emulate > 0 ? 0 : ftk_slurm_plan(r);
    r->nodes = r->emulate > 0 ? r->emulate : count_nodes(r);
    if (rc == 0)
        rc = plan_spares(r);
    if (rc == 0 && r->log)
        rc = find_layer(r);
    if (rc == 0)
        rc = ftk_runtime_node_timeout(&r->node_timeout_s);
    if (rc != 0)
        return rc;
    r->total = r->ranks + r->spares;
    if (r->emulate > r->total) {
        ftk_run_say("--emulate-nodes: %d processes cannot fill %d nodes", r->total, r->emulate);
        return TOOL_USAGE;
    }
    if (r->emulate > 0) {
        int why = 0;
        bool ulfm = ftk_mpirun_ulfm();
        if (!ulfm || !ftk_emulate_possible(&why)) {
            r->ranks_per_node = (r->total + r->emulate - 1) / r->emulate;
            ftk_run_say("cannot emulate nodes (%s): one node, and ranks in failure "
                        "domains of %d",
                ulfm ? strerror(why) : "no ULFM", r->ranks_per_node);
            r->emulate = 0;
            r->nodes = 1;
        }
    }
    r->survives_nodes = r->nodes > 1 && ftk_runtime_survives_nodes(r->mpirun, &r->extra);
    /* assume that other machines have as many cores as this one; emulated nodes share its cores */
    int machines = r->emulate > 0 ? 1 : r->nodes;
    r->crowded = r->total > (long)ftk_cores_threads() * machines;
    r->over_slots = r->crowded || r->total > (long)ftk_cores() * machines;
    return 0;
}

/* ---- environment and command --------------------------------------------------------- */

void ftk_mpirun_state_path(const struct ftk_run *r, int attempt, char path[FTK_PATH_MAX])
{
    snprintf(path, FTK_PATH_MAX, "%.*s/state.%d", FTK_PATH_MAX - 32, r->dir, attempt);
}

int ftk_mpirun_note(const char *state)
{
    char number[16];
    int fd = open(state, O_WRONLY | O_APPEND); /* no O_CLOEXEC: mpirun inherits it */
    if (fd < 0)
        return -1;
    snprintf(number, sizeof number, "%d", fd);
    return setenv("PMIX_OUTPUT_STDERR_FD", number, 1);
}

static void add_default(struct ftk_list *env, const char *name, const char *value)
{
    if (!getenv(name))
        ftk_list_add(env, "%s=%s", name, value);
}

/* The end of the job by the scheduler, unless the user has set a deadline. */
static void add_deadline(struct ftk_list *env)
{
    char *rest, value[32];
    const char *end = getenv("SLURM_JOB_END_TIME"); /* seconds since 1970 */
    long long at = end ? strtoll(end, &rest, 10) : 0;
    if (at <= 0 || *rest != '\0')
        return;
    snprintf(value, sizeof value, "@%lld", at);
    add_default(env, "FTKIT_CHECKPOINT_DEADLINE", value);
}

/* Add the list of the variables that are ours: `ftkit config` in the job distinguishes
 * them from those of the user. */
static void report_origin(struct ftk_list *env)
{
    char names[512] = "", name[128];
    size_t at = 0;
    for (size_t i = 0; i < env->n; i++) {
        size_t len = strcspn(env->v[i], "=");
        snprintf(name, sizeof name, "%.*s", (int)len, env->v[i]);
        const char *users = getenv(name);
        bool ours = env->v[i][len] == '=' && !(users && strcmp(users, env->v[i] + len + 1) == 0);
        if (ours && strncmp(name, "FTKIT_", 6) == 0 && at + len + 2 < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%.*s,", (int)len, env->v[i]);
    }
    ftk_list_add(env, FTK_CONFIG_RUN_SETS "=%s", names);
}

/* recover.start of the next attempt; NULL: as configured.  With `continue` a relaunch, too, goes on
 * whether the earlier run has finished or not. */
static const char *start_of(const struct ftk_run *r)
{
    const char *start = r->start ? r->start : getenv("FTKIT_RECOVER_START");
    if (r->older)
        return "older";
    return start && r->resumes && strcmp(start, "continue") != 0 ? "newest" : start;
}

void ftk_mpirun_environment(const struct ftk_run *r, int attempt, struct ftk_list *env)
{
    char path[FTK_PATH_MAX], number[16];
    ftk_mpirun_state_path(r, attempt, path);
    ftk_list_add(env, "FTKIT_RUN_STATE=%s", path);
    ftk_list_add(env, "FTKIT_RUN_ATTEMPT=%d", attempt);
    ftk_list_add(env, "FTKIT_RUN_ID=%llx", (unsigned long long)r->id);
    ftk_list_add(env, "FTKIT_RUN_SIZE=%d", r->total);
    if (r->survives_nodes) {
        ftk_list_add(env, "FTKIT_RUN_SURVIVES=nodes");
        snprintf(number, sizeof number, "%ds", r->node_timeout_s);
        add_default(env, "FTKIT_RECOVER_NODE_TIMEOUT", number);
    }
    add_default(env, "FTKIT_REPORT_STDERR", "info");
    add_deadline(env);
    if (start_of(r))
        ftk_list_add(env, "FTKIT_RECOVER_START=%s", start_of(r));
    if (r->log)
        ftk_list_add(env, "FTKIT_LOG_ENABLED=true");
    if (ftk_mpirun_ulfm()) {
        snprintf(number, sizeof number, "%d", r->parts[0].spares);
        add_default(env, "FTKIT_SPARES_COUNT", number);
    } else if (r->over_slots) {
        /* a plain mpirun may be that of any MPI: Open MPI reads these, other MPIs ignore them */
        add_default(env, "OMPI_MCA_rmaps_base_oversubscribe", "1");
        if (r->crowded)
            add_default(env, "OMPI_MCA_mpi_yield_when_idle", "1");
    }
    if (r->ranks_per_node > 0) {
        snprintf(number, sizeof number, "%d", r->ranks_per_node);
        add_default(env, "FTKIT_TOPOLOGY_RANKS_PER_NODE", number);
    }
    report_origin(env);
    if (geteuid() == 0) {
        ftk_list_add(env, "OMPI_ALLOW_RUN_AS_ROOT=1");
        ftk_list_add(env, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
    }
}

/* Forward every FTKIT_ variable, the user's and ours, to ranks on other nodes, and those of
 * OpenSHMEM. */
static void add_forwards(const struct ftk_run *r, int part, struct ftk_list *cmd)
{
    static const char spares[] = "FTKIT_SPARES_COUNT";
    struct ftk_list names = { 0 }, env = { 0 };
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "FTKIT_", 6) == 0 || strncmp(*e, "SHMEM_", 6) == 0
            || strncmp(*e, "SMA_", 4) == 0)
            ftk_list_add_once(&names, *e, strcspn(*e, "="));
    ftk_mpirun_environment(r, 0, &env);
    for (size_t i = 0; i < env.n; i++)
        if (strncmp(env.v[i], "FTKIT_", 6) == 0)
            ftk_list_add_once(&names, env.v[i], strcspn(env.v[i], "="));
    for (size_t i = 0; i < names.n; i++) {
        ftk_list_add(cmd, "-x");
        if (part > 0 && strcmp(names.v[i], spares) == 0)
            ftk_list_add(cmd, "%s=%d", spares, r->parts[part].spares);
        else
            ftk_list_add(cmd, "%s", names.v[i]);
    }
    ftk_list_free(&names);
    ftk_list_free(&env);
}

void ftk_mpirun_setting(
    struct ftk_list *cmd, const char *option, const char *name, const char *value)
{
    ftk_list_add(cmd, "%s", option);
    ftk_list_add(cmd, "%s", name);
    ftk_list_add(cmd, "%s", value);
}

bool ftk_mpirun_users(const struct ftk_list *extra, const char *name)
{
    for (size_t i = 0; i + 2 < extra->n; i++) {
        const char *option = extra->v[i] + strspn(extra->v[i], "-");
        if (extra->v[i][0] == '-' && strcmp(extra->v[i + 1], name) == 0
            && (strcmp(option, "mca") == 0 || strcmp(option, "prtemca") == 0))
            return true;
    }
    return false;
}

/* Make mpirun write how processes end, into the file of ftk_mpirun_note().  The ranks get 2, their
 * own standard error, in place of that descriptor. */
static void add_report(struct ftk_list *cmd)
{
    /* From 32 processes on a node mpirun starts them by threads.  The exit of a process that ends
     * at once may then be lost, and mpirun waits for ever. */
    ftk_mpirun_setting(cmd, "--prtemca", "odls_base_num_threads", "0");
    ftk_mpirun_setting(cmd, "--prtemca", "errmgr_base_verbose", "5");
    ftk_mpirun_setting(cmd, "--prtemca", "odls_base_verbose", "5");
}

void ftk_mpirun_variables(const struct ftk_run *r, int part, struct ftk_list *cmd)
{
    add_forwards(r, part, cmd);
    if (r->reports) {
        ftk_list_add(cmd, "-x");
        ftk_list_add(cmd, "PMIX_OUTPUT_STDERR_FD=2");
    }
    if (!r->log)
        return;
    /* The user's come first: tools forward to the layer, and a sanitizer has to be first.  The
     * value of -x is for the ranks only. */
    const char *env = getenv("LD_PRELOAD"), *own = r->parts[part].preload;
    const char *others = own ? own : env ? env : "";
    ftk_list_add(cmd, "-x");
    ftk_list_add(cmd, "LD_PRELOAD=%s%s%s", others, *others ? ":" : "", r->layer);
}

/* More processes than slots.  With --oversubscribe alone Open MPI 5.0 puts all processes on the
 * first node. */
static void add_oversubscribe(const struct ftk_run *r, struct ftk_list *cmd)
{
    static const char *const own[] = { "map-by", "oversubscribe" };
    bool maps = false;
    for (size_t i = 0; i < r->extra.n; i++) {
        const char *word = r->extra.v[i];
        const size_t dashes = strspn(word, "-"), name = strcspn(word + dashes, "=");
        for (size_t k = 0; k < sizeof own / sizeof own[0] && dashes > 0 && dashes <= 2; k++)
            maps = maps || (strlen(own[k]) == name && strncmp(word + dashes, own[k], name) == 0);
    }
    if (r->nodes > 1 && !maps) {
        ftk_list_add(cmd, "--map-by");
        ftk_list_add(cmd, "slot:OVERSUBSCRIBE");
    } else {
        ftk_list_add(cmd, "--oversubscribe");
    }
}

void ftk_mpirun_command(const struct ftk_run *r, struct ftk_list *cmd)
{
    ftk_list_add(cmd, "%s", r->mpirun);
    if (ftk_mpirun_ulfm()) {
        ftk_list_add(cmd, "--with-ft");
        ftk_list_add(cmd, "ulfm");
        for (size_t i = 0; i < sizeof profile / sizeof profile[0]; i++)
            if (!ftk_mpirun_users(&r->extra, profile[i].name))
                ftk_mpirun_setting(cmd, profile[i].option, profile[i].name, profile[i].value);
        if (r->survives_nodes)
            ftk_runtime_survive(r, cmd);
        if (r->emulate > 0)
            ftk_emulate_arguments(r, cmd); /* includes :OVERSUBSCRIBE */
        else if (r->over_slots || r->gone.n > 0)
            add_oversubscribe(r, cmd);
        if (r->slurm.n > 0)
            ftk_slurm_arguments(r, cmd);
        if (r->crowded || r->gone.n > 0)
            ftk_mpirun_setting(cmd, "--mca", "mpi_yield_when_idle", "1");
        if (r->reports)
            add_report(cmd);
    }
    ftk_parts_arguments(r, cmd);
}

static void show_command(FILE *out, const struct ftk_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const char *s = l->v[i];
        fputs(i ? " " : "", out);
        if (*s
            && s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789_-+=./:,^@%")]
                   == '\0') {
            fputs(s, out);
            continue;
        }
        putc('\'', out);
        for (; *s; s++)
            if (*s == '\'')
                fputs("'\\''", out);
            else
                putc(*s, out);
        putc('\'', out);
    }
    putc('\n', out);
}

void ftk_mpirun_show(FILE *out, const struct ftk_run *r, int attempt)
{
    struct ftk_list all = { 0 };
    ftk_list_add(&all, "env");
    ftk_mpirun_environment(r, attempt, &all);
    ftk_mpirun_command(r, &all);
    show_command(out, &all);
    ftk_list_free(&all);
}
