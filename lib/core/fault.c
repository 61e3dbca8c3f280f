/* Fault points of test builds (see ftk.h).  Compiles to nothing elsewhere.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "ftk.h"

#ifdef FTK_FAULTS
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_RULES 32

struct rule {
    char point[48];
    long rank; /* -1: any */
    long nth;  /* counts down at each visit; 0: spent; -1: every time */
    char action[16];
    long incarnation; /* -1: any */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the variables below */
static struct rule rules[MAX_RULES];
static int nrules = -1;
static volatile int own_rank = -1;
static int own_incarnation;
static const char *trace; /* the file of all visits, or NULL */

static const struct {
    const char *name;
    int value;
} errnos[] = { { "EIO", EIO }, { "ENOSPC", ENOSPC }, { "ENOMEM", ENOMEM }, { "EDQUOT", EDQUOT },
    { "EACCES", EACCES }, { "ENOENT", ENOENT }, { "EROFS", EROFS }, { "EINTR", EINTR } };

static long number(const char *s)
{
    return strcmp(s, "*") == 0 ? -1 : strtol(s, NULL, 10);
}

static void parse(void)
{
    nrules = 0;
    trace = getenv("FTKIT_FAULT_TRACE");
    const char *env = getenv("FTKIT_FAULT");
    if (!env)
        return;
    char *copy = strdup(env);
    char *save = NULL;
    for (char *t = strtok_r(copy, ",", &save); t && nrules < MAX_RULES;
         t = strtok_r(NULL, ",", &save)) {
        struct rule *r = &rules[nrules];
        char rank[16], nth[16];
        if (sscanf(t, " %47[^:]:%15[^:]:%15[^:]:%15s", r->point, rank, nth, r->action) != 4) {
            fprintf(stderr, "FTKIT_FAULT: cannot read '%s'\n", t);
            abort(); /* a test that injects nothing must not pass */
        }
        char *at = strchr(r->action, '@');
        r->incarnation = at ? number(at + 1) : 0;
        if (at)
            *at = '\0';
        r->rank = number(rank);
        r->nth = number(nth);
        nrules++;
    }
    free(copy);
}

/* Write a line for the test: a fault has happened, or a point is visited. */
static void note(const char *path, const char *point, const char *what)
{
    char line[160];
    if (!path)
        return;
    int n = snprintf(line, sizeof line, "%s rank %d incarnation %d: %s\n", point, own_rank,
        own_incarnation, what);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort(); /* a test that cannot see its faults must not pass */
    (void)close(fd);
}

/* A process that is slow: no failure, so there is no line.  Another time at each visit, the same in
 * each run. */
static int be_late(void)
{
    static uint64_t x;
    x = (x + (uint64_t)own_rank + 1) * 6364136223846793005U;
    const struct timespec t = { 0, (long)(x >> 33) % 3000000 };
    (void)nanosleep(&t, NULL);
    return 0;
}

/* Send a signal to all other processes of a host name space. */
static void signal_node(DIR *all, const char *own, int sig)
{
    char path[64], other[64];
    rewinddir(all);
    for (const struct dirent *e; (e = readdir(all));) {
        const pid_t pid = isdigit((unsigned char)e->d_name[0]) ? (pid_t)atoi(e->d_name) : getpid();
        snprintf(path, sizeof path, "/proc/%.20s/ns/uts", e->d_name);
        ssize_t n = pid != getpid() ? readlink(path, other, sizeof other - 1) : -1;
        other[n > 0 ? n : 0] = '\0';
        if (strcmp(other, own) == 0)
            (void)kill(pid, sig); /* it may have ended */
    }
}

/* Kill all processes of this node, among them its daemon.  A relaunch does not find the node again.
 * Only of an emulated node, which has a name space for its name: see tools/emulate.c. */
static void lose_node(void)
{
    char node[64] = "", path[PATH_MAX], own[64] = "";
    const char *state = getenv("FTKIT_RUN_STATE"), *slash = state ? strrchr(state, '/') : NULL;
    DIR *all = opendir("/proc");
    if (gethostname(node, sizeof node - 1) != 0 || strncmp(node, "ftnode", 6) != 0 || !slash || !all
        || readlink("/proc/self/ns/uts", own, sizeof own - 1) <= 0)
        abort(); /* all processes of the machine would be killed */
    snprintf(path, sizeof path, "%.*s/gone-%s", (int)(slash - state), state, node);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || close(fd) != 0)
        abort();
    signal_node(all, own, SIGSTOP); /* none of them can learn of the end of another one, and act */
    signal_node(all, own, SIGKILL);
    (void)closedir(all);
    kill(getpid(), SIGKILL);
    pause();
}

/* Whether this process is the first one of the job that comes here. */
static bool is_first(void)
{
    char path[PATH_MAX];
    const char *log = getenv("FTKIT_FAULT_LOG");
    snprintf(path, sizeof path, "%s.once", log ? log : "");
    int fd = log ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (fd < 0 && (!log || errno != EEXIST))
        abort(); /* a test that cannot count its faults must not pass */
    return fd >= 0 && close(fd) == 0;
}

/* How many faults have come to pass in the job. */
static int faults_so_far(void)
{
    const char *log = getenv("FTKIT_FAULT_LOG");
    FILE *f = log ? fopen(log, "r") : NULL;
    int n = 0;
    if (!f)
        abort(); /* a test that cannot count its faults must not pass */
    for (int c; (c = getc(f)) != EOF;)
        n += c == '\n';
    (void)fclose(f);
    return n;
}

static void wait_a_moment(void)
{
    const struct timespec t = { 0, 1000000 };
    (void)nanosleep(&t, NULL);
}

/* Stand still until the test has made the file that lets this process go on, or kills the process.
 * That is no failure, so there is no line; another file shows the test that the process is here. */
static int hold(void)
{
    char held[PATH_MAX], go[PATH_MAX];
    const char *log = getenv("FTKIT_FAULT_LOG");
    snprintf(held, sizeof held, "%s.held", log ? log : "");
    snprintf(go, sizeof go, "%s.go", log ? log : "");
    int fd = log ? open(held, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0 || close(fd) != 0)
        abort(); /* the test would wait for ever */
    while (access(go, F_OK) != 0)
        wait_a_moment();
    return 0;
}

static int act(const struct rule *r)
{
    int faults = 0;
    if (strcmp(r->action, "late") == 0)
        return be_late();
    if (strcmp(r->action, "hold") == 0)
        return hold();
    if (sscanf(r->action, "after%d", &faults) == 1) {
        while (faults_so_far() < faults)
            wait_a_moment();
        return 0;
    }
    if (strcmp(r->action, "once") == 0 && !is_first())
        return 0;
    note(getenv("FTKIT_FAULT_LOG"), r->point, r->action);
    if (sscanf(r->action, "kill%d", &faults) == 1)
        while (faults_so_far() < faults)
            wait_a_moment();
    if (strncmp(r->action, "kill", 4) == 0 || strcmp(r->action, "once") == 0) {
        kill(getpid(), SIGKILL);
        pause();
    }
    if (strcmp(r->action, "node") == 0)
        lose_node();
    if (strcmp(r->action, "stop") == 0) {
        kill(getpid(), SIGSTOP);
        return 0;
    }
    if (strcmp(r->action, "slow") == 0) { /* like a slow disk */
        const struct timespec t = { 2, 0 };
        (void)nanosleep(&t, NULL);
        return 0;
    }
    if (strcmp(r->action, "exit") == 0)
        exit(3);
    if (strcmp(r->action, "vanish") == 0) /* as Fortran's STOP may, or a library */
        _exit(3);
    if (strcmp(r->action, "quick") == 0)
        quick_exit(3);
    if (strcmp(r->action, "abort") == 0)
        abort();
    if (strcmp(r->action, "mpiabort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    while (strcmp(r->action, "loop") == 0)
        own_rank += 0; /* computes for ever, never calls anything */
    for (size_t i = 0; i < sizeof errnos / sizeof errnos[0]; i++)
        if (strcmp(r->action, errnos[i].name) == 0)
            return errnos[i].value;
    fprintf(stderr, "FTKIT_FAULT: unknown action '%s'\n", r->action);
    abort();
}

int ftk_fault_hit(const char *point)
{
    const struct rule *hit = NULL;
    pthread_mutex_lock(&lock);
    if (nrules < 0)
        parse();
    note(trace, point, "visited");
    for (int i = 0; i < nrules; i++) {
        struct rule *r = &rules[i];
        if (strcmp(r->point, point) != 0 || (r->rank >= 0 && r->rank != own_rank)
            || (r->incarnation >= 0 && r->incarnation != own_incarnation) || r->nth == 0)
            continue;
        if (r->nth < 0 || --r->nth == 0)
            hit = r;
    }
    pthread_mutex_unlock(&lock);
    return hit ? act(hit) : 0;
}

void ftk_fault_rank(int rank, int incarnation)
{
    const char *attempt = getenv("FTKIT_RUN_ATTEMPT"); /* each relaunch adds 100 */
    if (attempt)
        incarnation += 100 * (int)strtol(attempt, NULL, 10);
    pthread_mutex_lock(&lock);
    own_rank = rank;
    own_incarnation = incarnation;
    pthread_mutex_unlock(&lock);
}
#else
typedef int ftk_fault_none; /* ISO C forbids an empty translation unit */
#endif
