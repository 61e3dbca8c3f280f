/* All processes below this process: find, show and end them.  A job is a tree of mpirun, daemons
 * that have left their parents, and ranks.  This process is their subreaper, so all of them stay
 * below it, whichever process dies first.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools.h"
#include "detect/watch_page.h"
#include "detect/watchdog.h"

#define TRACED_MAX 12   /* processes with a backtrace in a dump */
#define TRACE_S 20      /* time one backtrace may take */
#define UNKILLABLE_S 10 /* a process alive so long after SIGKILL hangs in the kernel */

static pid_t *foreign; /* [nforeign] children that this process had at its start */
static size_t nforeign;
static struct {
    pid_t pid;
    int status;
} * reaped; /* [nreaped] children that have ended */
static size_t nreaped, reaped_room;

/* ---- finding ------------------------------------------------------------------------- */

/* Field k of /proc/PID/stat (proc(5)); text begins with field 3. */
static unsigned long long stat_field(const char *text, int k)
{
    for (; k > 3 && text; k--) {
        text = strchr(text, ' ');
        text = text ? text + 1 : NULL;
    }
    return text ? strtoull(text, NULL, 10) : 0;
}

bool ftk_proc_read(pid_t pid, struct ftk_proc *p)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    /* no stream: a look reads all processes of the node */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false; /* it has ended */
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    if (len <= 0)
        return false;
    text[len] = '\0';
    char *open = strchr(text, '('), *close = strrchr(text, ')'); /* a name may contain both */
    if (!open || !close || close < open)
        return false;
    if (sscanf(close + 1, " %c", &p->state) != 1)
        return false;
    const char *fields = close + 2;
    *close = '\0';
    snprintf(p->name, sizeof p->name, "%s", open + 1);
    p->pid = pid;
    p->ppid = (pid_t)stat_field(fields, 4);
    p->cpu_s =
        (double)(stat_field(fields, 14) + stat_field(fields, 15)) / (double)sysconf(_SC_CLK_TCK);
    p->start = stat_field(fields, 22);
    p->status = (int)stat_field(fields, 52);
    p->rank = p->local_size = p->job = p->spawned = -1;
    p->ours = p->hidden = false;
    return true;
}

static bool is_foreign(pid_t pid)
{
    for (size_t i = 0; i < nforeign; i++)
        if (foreign[i] == pid)
            return true;
    return false;
}

/* Keep only the processes below us in all[0..n), and return their number. */
static size_t keep_ours(struct ftk_proc *all, size_t n)
{
    pid_t self = getpid();
    bool more = true;
    while (more) { /* children may come before their parents: repeat until nothing changes */
        more = false;
        for (size_t i = 0; i < n; i++) {
            bool below = all[i].ppid == self;
            for (size_t j = 0; j < n && !below; j++)
                below = all[j].ours && all[j].pid == all[i].ppid;
            if (below && !all[i].ours && !is_foreign(all[i].pid))
                all[i].ours = more = true;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (all[i].ours)
            all[kept++] = all[i];
    return kept;
}

size_t ftk_proc_list(struct ftk_proc **out)
{
    size_t n = 0, room = 256;
    struct ftk_proc *all = ftk_tool_alloc(room * sizeof *all);
    DIR *d = opendir("/proc");
    struct dirent *e;
    while (d && (e = readdir(d))) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        if (n == room) {
            struct ftk_proc *larger = ftk_tool_alloc(2 * room * sizeof *larger);
            memcpy(larger, all, room * sizeof *larger);
            free(all);
            all = larger;
            room *= 2;
        }
        if (ftk_proc_read((pid_t)atol(e->d_name), &all[n]))
            n++;
    }
    if (d)
        closedir(d);
    *out = all;
    return keep_ours(all, n);
}

/* Get the number of an entry NAME=NUMBER of an environment, if NAME is one of names.  /proc shows
 * the environment of a process as it was at its start. */
static bool take_number(const char *entry, const char *const *names, long *out)
{
    for (; *names; names++) {
        size_t len = strlen(*names);
        if (strncmp(entry, *names, len) == 0 && entry[len] == '=') {
            *out = strtol(entry + len + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

static const char *const rank_names[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", NULL };

bool ftk_proc_self_is_rank(void)
{
    for (const char *const *name = rank_names; *name; name++)
        if (getenv(*name))
            return true;
    return false;
}

void ftk_proc_rank(struct ftk_proc *p)
{
    static const char *const local[] = { "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL };
    char path[64], *entry = NULL;
    size_t room = 0;
    bool spawned = false;
    long job = -1;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)p->pid);
    FILE *f = fopen(path, "re");
    p->hidden = !f && (errno == EACCES || errno == EPERM);
    while (f && getdelim(&entry, &room, '\0', f) > 0) {
        if (!take_number(entry, local, &p->local_size) && p->rank < 0)
            take_number(entry, rank_names, &p->rank);
        /* PMIX_NAMESPACE=prterun-host-4711@2 */
        const char *at = strncmp(entry, "PMIX_NAMESPACE=", 15) == 0 ? strrchr(entry, '@') : NULL;
        job = at ? strtol(at + 1, NULL, 10) : job;
        spawned = spawned || strncmp(entry, "FTKIT_SPAWNED=", 14) == 0;
    }
    free(entry);
    p->job = job;
    p->spawned = spawned ? job : -1;
    if (f)
        fclose(f);
}

int ftk_tree_init(void)
{
    struct ftk_proc *p;
    size_t n = ftk_proc_list(&p);
    foreign = ftk_tool_alloc((n + 1) * sizeof *foreign);
    for (size_t i = 0; i < n; i++)
        foreign[i] = p[i].pid;
    nforeign = n;
    free(p);
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

/* ---- ending -------------------------------------------------------------------------- */

static void nap(double s)
{
    struct timespec t = { (time_t)s, (long)((s - (double)(time_t)s) * 1e9) };
    nanosleep(&t, NULL);
}

void ftk_tree_reap(void)
{
    pid_t pid;
    int status;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        ftk_litter_note(pid, false);
        reaped = ftk_tool_grow(reaped, nreaped, &reaped_room, sizeof *reaped);
        reaped[nreaped].pid = pid;
        reaped[nreaped++].status = status;
    }
}

int ftk_tree_status(pid_t pid)
{
    for (size_t i = nreaped; i > 0; i--) /* a pid may come again: take the last one */
        if (reaped[i - 1].pid == pid)
            return reaped[i - 1].status;
    return -1;
}

int ftk_tree_end(double grace_s)
{
    double start = ftk_now_s();
    int killed = 0;
    bool noted = false;
    for (;;) {
        struct ftk_proc *p;
        ftk_tree_reap();
        size_t n = ftk_proc_list(&p);
        double past = ftk_now_s() - start;
        for (size_t i = 0; i < n && (!noted || past >= grace_s); i++)
            ftk_litter_note(p[i].pid, true);
        noted = true;
        for (size_t i = 0; i < n && past >= grace_s; i++)
            if (p[i].state != 'Z' && kill(p[i].pid, SIGKILL) == 0)
                killed++; /* a process that takes long to end counts more than once */
        free(p);
        if (n == 0) {
            ftk_litter_remove();
            return killed;
        }
        if (past > grace_s + UNKILLABLE_S)
            return -1;
        nap(0.01);
    }
}

/* ---- showing ------------------------------------------------------------------------- */

static void copy_file(FILE *out, pid_t pid, const char *name)
{
    char path[64];
    int c;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *f = fopen(path, "re");
    while (f && (c = getc(f)) != EOF)
        putc(c, out);
    if (f)
        fclose(f);
}

/* gdb writes to our standard error; false when there is no gdb. */
static bool backtrace(pid_t pid)
{
    char number[16];
    int status = 0;
    snprintf(number, sizeof number, "%d", (int)pid);
    pid_t gdb = fork();
    if (gdb == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(2, 1);
        execlp("gdb", "gdb", "-nx", "-p", number, "-batch", "-ex", "thread apply all bt 25",
            (char *)NULL);
        _exit(TOOL_NO_EXEC);
    }
    double end = ftk_now_s() + TRACE_S;
    while (gdb > 0) {
        if (waitpid(gdb, &status, WNOHANG) != 0)
            break;
        if (ftk_now_s() > end)
            kill(gdb, SIGKILL); /* the traced process goes on */
        nap(0.02);
    }
    return gdb > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == TOOL_NO_EXEC);
}

static int ranks_first(const void *a, const void *b)
{
    const struct ftk_proc *x = a, *y = b;
    if ((x->rank < 0) != (y->rank < 0))
        return x->rank < 0 ? 1 : -1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* The host name from the environment of the process: emulated nodes have names of their own. */
static void host_of(pid_t pid, char *host, size_t bytes)
{
    char path[64], *entry = NULL;
    size_t room = 0;
    (void)gethostname(host, bytes - 1);
    host[bytes - 1] = '\0';
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && getdelim(&entry, &room, '\0', f) > 0)
        if (strncmp(entry, "PMIX_HOSTNAME=", 14) == 0)
            snprintf(host, bytes, "%s", entry + 14);
    free(entry);
    if (f)
        fclose(f);
}

static const char *state_text(char state)
{
    switch (state) {
    case 'R':
        return "running";
    case 'T':
    case 't':
        return "stopped";
    case 'D':
        return "waiting in the kernel";
    case 'Z':
        return "ended";
    default:
        return "sleeping";
    }
}

/* Print where a rank is, as its watchdog page says. */
static void print_where(FILE *out, pid_t pid)
{
    struct ftk_dog_word w;
    if (!ftk_dog_ask(pid, &w)) {
        fputs("no context open", out);
        return;
    }
    if (w.state == FTK_DOG_BUSY)
        fprintf(out, "writing or waiting in a call of ftkit for %.1f s", w.since_s);
    else if (w.state == FTK_DOG_REPAIR)
        fprintf(out, "in a repair for %.1f s", w.since_s);
    else if (w.state == FTK_DOG_LEFT)
        fprintf(out, "its context closed %.1f s ago", w.since_s);
    else if (w.silent_s < 0)
        fputs("in ftkit_open, a spare, or before the loop", out);
    else
        fprintf(out, "in the program or MPI, the last call of ftkit %.1f s ago", w.silent_s);
}

static void print_rank(FILE *out, const struct ftk_proc *p)
{
    char host[256];
    host_of(p->pid, host, sizeof host);
    fprintf(out, "rank %ld  pid %d on %s  %s, %.2f s of cpu  ", p->rank, (int)p->pid, host,
        state_text(p->state), p->cpu_s);
    print_where(out, p->pid);
    putc('\n', out);
}

/* Whether p is a rank.  A process that a rank has started is none, although it has inherited the
 * environment. */
static bool is_rank(const struct ftk_proc *all, size_t n, const struct ftk_proc *p)
{
    for (size_t i = 0; i < n; i++)
        if (all[i].pid == p->ppid && all[i].rank >= 0)
            return false;
    return p->rank >= 0;
}

static void print_whole(FILE *out, const struct ftk_proc *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char rank[24] = "-";
        if (p[i].rank >= 0)
            snprintf(rank, sizeof rank, "%ld", p[i].rank);
        fprintf(out, "pid %d  %s  rank %s  state %c  cpu %.2f s  wchan ", (int)p[i].pid, p[i].name,
            rank, p[i].state, p[i].cpu_s);
        copy_file(out, p[i].pid, "wchan");
        putc('\n', out);
    }
    for (size_t i = 0; i < n && i < TRACED_MAX; i++) {
        if (p[i].state == 'Z')
            continue;
        fprintf(out, "---- pid %d  %s  rank %ld\n", (int)p[i].pid, p[i].name, p[i].rank);
        fflush(out);
        if (!backtrace(p[i].pid)) {
            copy_file(out, p[i].pid, "stack");
            copy_file(out, p[i].pid, "status");
        }
    }
}

void ftk_tree_dump(FILE *out, bool whole)
{
    struct ftk_proc *p;
    size_t n = ftk_proc_list(&p);
    for (size_t i = 0; i < n; i++)
        ftk_proc_rank(&p[i]);
    qsort(p, n, sizeof *p, ranks_first);
    for (size_t i = 0; i < n; i++)
        if (is_rank(p, n, &p[i]))
            print_rank(out, &p[i]);
    if (whole)
        print_whole(out, p, n);
    fflush(out);
    free(p);
}
