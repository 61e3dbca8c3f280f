/* One run of `ftkit test`: a child process that does what `ftkit run` does.  The child shares a
 * page of facts with this process.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define MARGIN_S 60 /* a run may last so long, and LONGER times as long as the undisturbed one */
#define LONGER 10

static volatile sig_atomic_t stopped; /* the signal that ends the test, 0: none */

/* ---- the command line of ftkit run ---------------------------------------------------- */

static void add_option(struct ftk_list *l, const char *option, const char *value)
{
    ftk_list_add(l, "%s", option);
    ftk_list_add(l, "%s", value);
}

static void command_of(
    const struct ftk_test *t, const struct ftk_trial *x, double timeout_s, struct ftk_list *l)
{
    ftk_list_add(l, "ftkit run");
    ftk_list_add(l, "-n");
    ftk_list_add(l, "%d", t->ranks);
    for (size_t i = 0; i < t->more.n; i++)
        ftk_list_add(l, "%s", t->more.v[i]);
    if (timeout_s > 0) {
        ftk_list_add(l, "--timeout");
        ftk_list_add(l, "%.0f", timeout_s + 1);
    }
    if (x->option[0]) {
        add_option(l, x->option, x->fault);
        ftk_list_add(l, "--seed");
        ftk_list_add(l, "%llu", (unsigned long long)t->seed);
        for (size_t i = 0; i < t->faults.n; i += 2)
            if (strcmp(t->faults.v[i], "--flip") == 0)
                add_option(l, t->faults.v[i], t->faults.v[i + 1]);
    }
    ftk_list_add(l, "--");
    for (char **p = t->program; *p; p++)
        ftk_list_add(l, "%s", *p);
}

/* ---- the child ----------------------------------------------------------------------- */

static void set(const char *name, const char *value, bool always)
{
    if (setenv(name, value, always) != 0) {
        fprintf(stderr, "ftkit test: %s: %s\n", name, strerror(errno));
        exit(TOOL_FAIL);
    }
}

static void set_environment(const struct ftk_test *t, const char *dir)
{
    set("FTKIT_LEVEL_HDF5_DIRECTORY", dir, true);
    set("FTKIT_DEBUG_CHECK", "regions", false);
    set("FTKIT_REPORT_STDERR", "info", true); /* the verdict is made from these lines */
    if (t->period)
        set("FTKIT_CHECKPOINT_PERIOD", t->period, true);
    if (!t->regions)
        return;
    set("FTKIT_LEVEL_HDF5_ENABLED", "true", true);
    set("FTKIT_LEVEL_HDF5_EVERY", "1 sets", true);
    set("FTKIT_LEVEL_HDF5_KEEP", "4", true); /* a rollback may leave the newest sets apart */
    set("FTKIT_LEVEL_HDF5_ASYNCHRONOUS", "false", true); /* no set is left out */
}

/* Direct a descriptor to the file dir.end. */
static bool redirect(int fd, const char *dir, const char *end)
{
    char path[2 * FTK_PATH_MAX];
    snprintf(path, sizeof path, "%s%s", dir, end);
    int to = fd == 0 ? open("/dev/null", O_RDONLY) : open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool good = to >= 0 && dup2(to, fd) == fd;
    if (to > 2)
        (void)close(to); /* fd refers to the file */
    return good;
}

static _Noreturn void child(const struct ftk_test *t, const struct ftk_trial *x, double timeout_s,
    const char *dir, pid_t parent)
{
    struct ftk_list l = { 0 };
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    /* a group of its own: ^C reaches the test only, which passes it on once */
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent
        || !redirect(1, dir, ".out") || !redirect(0, dir, "") || chdir(dir) != 0) {
        fprintf(stderr, "ftkit test: %s: %s\n", dir, strerror(errno));
        exit(TOOL_FAIL);
    }
    set_environment(t, dir);
    if (!redirect(2, dir, ".err"))
        exit(TOOL_FAIL);
    ftk_run_facts = x->facts;
    command_of(t, x, timeout_s, &l);
    char **argv = ftk_tool_alloc((l.n + 1) * sizeof *argv); /* ftk_run_main() changes it */
    memcpy(argv, l.v, l.n * sizeof *argv);
    optind = 1;
    int code = ftk_run_main((int)l.n, argv);
    free(argv);
    ftk_list_free(&l);
    exit(fflush(stdout) == 0 ? code : TOOL_FAIL);
}

/* ---- the parent ---------------------------------------------------------------------- */

static void on_signal(int sig)
{
    stopped = sig;
}

/* Wait for a child; a signal is passed on to it. */
static int wait_for(pid_t pid)
{
    int status = 0, passed = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return TOOL_FAIL;
        if (stopped && !passed++)
            (void)kill(pid, stopped); /* it may have ended */
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Run a standard tool; true: it ended with 0. */
static bool tool(const char *name, const char *option, const char *a, const char *b)
{
    pid_t pid = fork();
    if (pid == 0) {
        execlp(name, name, option, "--", a, b, (char *)NULL);
        _exit(TOOL_NO_EXEC);
    }
    return pid > 0 && wait_for(pid) == 0;
}

int ftk_trial_check(const struct ftk_test *t)
{
    int rc = 0;
    for (size_t i = 0; i <= t->faults.n && rc == 0; i += 2) {
        struct ftk_list l = { 0 };
        struct ftk_run r;
        struct ftk_trial x = { .name = "" };
        const char *fault = i < t->faults.n ? t->faults.v[i + 1] : "";
        if (strlen(fault) >= sizeof x.fault) {
            ftk_tool_say("%s: '%s' is too long", t->faults.v[i], fault);
            return TOOL_USAGE;
        }
        snprintf(x.option, sizeof x.option, "%s", i < t->faults.n ? t->faults.v[i] : "");
        snprintf(x.fault, sizeof x.fault, "%s", fault);
        command_of(t, &x, 0, &l);
        fflush(NULL);
        pid_t pid = fork(); /* nothing of this parsing may stay here */
        if (pid == 0) {
            optind = 1;
            _exit(ftk_run_parse(&r, (int)l.n, l.v));
        }
        rc = pid < 0 ? TOOL_FAIL : wait_for(pid);
        ftk_list_free(&l);
    }
    return rc;
}

int ftk_trial_begin(struct ftk_test *t)
{
    const char *tmp = getenv("TMPDIR");
    struct sigaction act = { .sa_handler = on_signal }; /* no SA_RESTART: waitpid() returns */
    if (!t->kept) {
        int n = snprintf(t->dir, sizeof t->dir, "%s/ftkit-test.XXXXXX", tmp && *tmp ? tmp : "/tmp");
        if (n > (int)sizeof t->dir - 64 || !mkdtemp(t->dir)) {
            ftk_tool_say("cannot make %s: %s", t->dir, strerror(errno));
            return TOOL_FAIL;
        }
    }
    (void)sigemptyset(&act.sa_mask);
    if (sigaction(SIGINT, &act, NULL) != 0 || sigaction(SIGTERM, &act, NULL) != 0) {
        ftk_tool_say("sigaction: %s", strerror(errno));
        return TOOL_FAIL;
    }
    return 0;
}

static int make_dir(const struct ftk_test *t, const char *dir)
{
    if (mkdir(dir, 0700) != 0) {
        ftk_tool_say("cannot make %s: %s", dir, strerror(errno));
        return TOOL_FAIL;
    }
    for (size_t i = 0; i < t->inputs.n; i++)
        if (!tool("cp", "-R", t->inputs.v[i], dir)) {
            ftk_tool_say("cannot copy %s to %s", t->inputs.v[i], dir);
            return TOOL_FAIL;
        }
    return 0;
}

int ftk_trial_run(const struct ftk_test *t, struct ftk_trial *x, double like_s)
{
    char dir[FTK_PATH_MAX + 40];
    pid_t self = getpid();
    double timeout_s = t->timeout_s > 0 || like_s <= 0 ? t->timeout_s : MARGIN_S + LONGER * like_s;
    snprintf(dir, sizeof dir, "%s/%s", t->dir, x->name);
    void *at = mmap(NULL, sizeof *x->facts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
        0); /* until this process ends */
    if (at == MAP_FAILED) {
        ftk_tool_say("mmap: %s", strerror(errno));
        return TOOL_FAIL;
    }
    x->facts = at;
    x->facts->set_s = -1;
    int rc = make_dir(t, dir);
    if (rc != 0)
        return rc;
    double start = ftk_now_s();
    fflush(NULL); /* else the child would write our buffered output again */
    pid_t pid = fork();
    if (pid == 0)
        child(t, x, timeout_s, dir, self);
    if (pid < 0) {
        ftk_tool_say("fork: %s", strerror(errno));
        return TOOL_FAIL;
    }
    x->code = wait_for(pid);
    x->seconds = ftk_now_s() - start;
    return stopped ? 128 + stopped : 0;
}

void ftk_trial_end(const struct ftk_test *t, bool remove)
{
    if (remove && !t->kept)
        ftk_litter_tree(t->dir);
    else
        fprintf(stderr, "ftkit test: the files of the runs are in %s\n", t->dir);
}
