/* The record of the owner of sets: its text, its file, and what this machine knows of its process
 * (see owner.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/access.h"
#include "core/hash.h"
#include "owner_record.h"

static void read_line(const char *path, char *buf, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, bytes - 1);
    if (fd >= 0)
        close(fd);
    buf[n > 0 ? n : 0] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
}

/* The boot id of this machine, and the name space of its process ids. */
void ftk_owner_machine(char buf[64])
{
    struct stat st;
    char boot[40];
    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    unsigned long space = stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long)st.st_ino : 0;
    snprintf(buf, 64, "%.36s-%lu", boot, space);
}

/* Start of a process in ticks; 0: not known, -1: the process has ended. */
int64_t ftk_owner_start(int64_t pid)
{
    char path[64], line[1024];
    unsigned long long start = 0;
    char state = 0;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    read_line(path, line, sizeof line);
    const char *p = strrchr(line, ')'); /* a name may hold anything */
    if (!p
        || sscanf(p + 1,
               " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
               "%*d %*d %*d %*d %llu",
               &state, &start)
               != 2)
        return kill((pid_t)pid, 0) != 0 && errno == ESRCH ? -1 : 0;
    return state == 'Z' || state == 'X' ? -1 : (int64_t)start;
}

static void job_name(char buf[64])
{
    static const char *const names[][2] = { { "SLURM_JOB_ID", "slurm" }, { "PBS_JOBID", "pbs" },
        { "LSB_JOBID", "lsf" }, { "FLUX_JOB_ID", "flux" }, { "JOB_ID", "grid engine" } };
    snprintf(buf, 64, "-");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *id = getenv(names[i][0]);
        if (id && *id) {
            snprintf(buf, 64, "%s %.40s", names[i][1], id);
            return;
        }
    }
}

static void printable(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

void ftk_owner_own(struct ftk_owner_record *r, const struct ftk_owner_job *of)
{
    memset(r, 0, sizeof *r);
    r->version = 3;
    r->job = of->job;
    r->run = of->run;
    r->mpi = of->mpi;
    r->alone = of->alone;
    r->epoch = of->epoch;
    job_name(r->name);
    (void)gethostname(r->host, sizeof r->host - 1); /* only for messages */
    printable(r->name);
    printable(r->host);
    ftk_owner_machine(r->machine);
    r->pid = getpid();
    int64_t start = ftk_owner_start(r->pid);
    r->start = start > 0 ? (uint64_t)start : 0;
}

size_t ftk_owner_format(const struct ftk_owner_record *r, char text[FTK_OWNER_TEXT])
{
    int n = snprintf(text, FTK_OWNER_TEXT,
        "ftkit.owner = %d\njob = %016" PRIx64 "\nname = %s\nhost = %s\nmachine = %s\npid = %" PRId64
        "\nstart = %" PRIu64 "\n",
        r->version, r->job, r->name, r->host, r->machine, r->pid, r->start);
    if (r->version > 1)
        n += snprintf(text + n, FTK_OWNER_TEXT - (size_t)n,
            "run = %016" PRIx64 "\nmpi = %016" PRIx64 "\nalone = %d\n", r->run, r->mpi, r->alone);
    if (r->version > 2)
        n += snprintf(text + n, FTK_OWNER_TEXT - (size_t)n, "epoch = %d\n", r->epoch);
    uint64_t sum = ftk_xxh3(text, (size_t)n);
    return (size_t)n
           + (size_t)snprintf(
               text + n, FTK_OWNER_TEXT - (size_t)n, "checksum = %016" PRIx64 "\n", sum);
}

/* Each record has exactly one spelling: a text that differs from ftk_owner_format() of its own
 * values is no record. */
bool ftk_owner_parse(const char *text, struct ftk_owner_record *r)
{
    char again[FTK_OWNER_TEXT];
    int at = 0, more = 0, alone = 1;
    memset(r, 0, sizeof *r);
    int n = sscanf(text,
        "ftkit.owner = %1d\njob = %16" SCNx64 "\nname = %63[ -~]\nhost = %64[ -~]\n"
        "machine = %63[ -~]\npid = %19" SCNd64 "\nstart = %20" SCNu64 "\n%n",
        &r->version, &r->job, r->name, r->host, r->machine, &r->pid, &r->start, &at);
    if (n != 7 || at == 0 || r->version < 1 || r->version > 3)
        return false;
    if (r->version > 1
        && sscanf(text + at, "run = %16" SCNx64 "\nmpi = %16" SCNx64 "\nalone = %1d\n%n", &r->run,
               &r->mpi, &alone, &more)
               != 3)
        return false;
    if (r->version > 2 && sscanf(text + at + more, "epoch = %9d\n", &r->epoch) != 1)
        return false;
    r->alone = alone != 0; /* before version 2 a job ended with its rank 0 */
    return r->pid > 0 && r->pid <= INT32_MAX && ftk_owner_format(r, again) == strlen(text)
           && strcmp(text, again) == 0;
}

void ftk_owner_text(const struct ftk_owner_record *r, char *buf, size_t bytes)
{
    if (r->pid == 0)
        snprintf(buf, bytes, "a job whose record cannot be read");
    else
        snprintf(buf, bytes, "job %s%s%016" PRIx64 " on %s (process %" PRId64 ")",
            strcmp(r->name, "-") == 0 ? "" : r->name, strcmp(r->name, "-") == 0 ? "" : ", ", r->job,
            r->host, r->pid);
}

/* ---- the file ------------------------------------------------------------------------ */

#define NEW_FORM FTK_OWNER_FILE ".%016" PRIx64 "."
#define NEW_END ".new"

struct new_file {
    char name[64];
    int fd;
};

static int write_new(int ctxfd, const struct ftk_owner_record *r, struct new_file *f)
{
    char text[FTK_OWNER_TEXT];
    const size_t bytes = ftk_owner_format(r, text);
    snprintf(f->name, sizeof f->name, NEW_FORM "%016" PRIx64 NEW_END, r->job, ftk_random());
    f->fd = ftk_access_make_file(ctxfd, f->name, O_WRONLY);
    if (f->fd < 0)
        return errno;
    const ssize_t n = write(f->fd, text, bytes);
    int err = n == (ssize_t)bytes ? 0 : n < 0 ? errno : ENOSPC;
    if (!err && fsync(f->fd) != 0)
        err = errno;
    if (err) {
        close(f->fd);
        unlinkat(ctxfd, f->name, 0);
    }
    return err;
}

/* Give the file its name, unless the name exists. */
static int give_name(int ctxfd, const struct new_file *f)
{
    if (linkat(ctxfd, f->name, ctxfd, FTK_OWNER_FILE, 0) == 0)
        return 0;
    if (errno != EPERM && errno != ENOTSUP && errno != ENOSYS)
        return errno;
    /* the file system has no links: take the name with an empty file */
    int fd = ftk_access_make_file(ctxfd, FTK_OWNER_FILE, O_WRONLY);
    if (fd < 0)
        return errno;
    close(fd);
    return renameat(ctxfd, f->name, ctxfd, FTK_OWNER_FILE) == 0 ? 0 : errno;
}

/* Whether the name still belongs to the file that was written: 0, or an errno; EEXIST: another job
 * has taken over the record in between. */
static int still_there(int ctxfd, int fd)
{
    struct stat a, b;
    if (fstat(fd, &a) != 0 || fstatat(ctxfd, FTK_OWNER_FILE, &b, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    return a.st_ino == b.st_ino && a.st_dev == b.st_dev ? 0 : EEXIST;
}

int ftk_owner_make(int ctxfd, const struct ftk_owner_record *r)
{
    struct new_file f;
    int err = write_new(ctxfd, r, &f);
    if (err)
        return err;
    err = give_name(ctxfd, &f);
    if (!err && still_there(ctxfd, f.fd) == EEXIST)
        err = EEXIST;
    (void)unlinkat(ctxfd, f.name, 0); /* the record keeps its other name */
    close(f.fd);
    return err;
}

/* Whether there is no record of another job, nor of a later epoch: 0, or an errno. */
static int still_of(int ctxfd, const struct ftk_owner_record *mine)
{
    char text[FTK_OWNER_TEXT];
    struct ftk_owner_record r;
    const int fd = openat(ctxfd, FTK_OWNER_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : errno;
    const ssize_t n = read(fd, text, sizeof text - 1);
    const int err = n < 0 ? errno : 0;
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    if (err)
        return err;
    return ftk_owner_parse(text, &r) && (r.job != mine->job || r.epoch > mine->epoch) ? EEXIST : 0;
}

int ftk_owner_replace(int ctxfd, const struct ftk_owner_record *r)
{
    struct new_file f;
    int err = write_new(ctxfd, r, &f);
    if (err)
        return err;
    err = still_of(ctxfd, r); /* writing may have taken long */
    if (!err && renameat(ctxfd, f.name, ctxfd, FTK_OWNER_FILE) != 0)
        err = errno;
    if (err)
        (void)unlinkat(ctxfd, f.name, 0);
    close(f.fd);
    return err;
}

void ftk_owner_sweep(int ctxfd, uint64_t job)
{
    char begin[40];
    const int n = snprintf(begin, sizeof begin, NEW_FORM, job);
    const int fd = openat(ctxfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !d)
        close(fd);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, begin, (size_t)n) == 0)
            (void)unlinkat(ctxfd, e->d_name, 0);
    if (d)
        closedir(d);
}
