/* The owner of the sets of a context: one job at a time (see owner.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/hash.h"
#include "owner.h"

#define FILE_NAME "owner"
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define TEXT_MAX 1024
#define OLD_S 600 /* the clocks of two machines differ by less */
#define POLL_NS 200000000L
#define TRIES 5

static double beat_s = 2, silent_s = 10, patience_s = 20;

void ftk_owner_pace(double beat, double silent, double patience)
{
    beat_s = beat;
    silent_s = silent;
    patience_s = patience;
}

struct ftk_owner {
    char what[FTK_PATH_MAX]; /* for messages: the sets of 'heat' in /scratch */
    int ctxfd;
    int fd; /* of the record, to touch it */
    struct ftk_owner_record record;
    pthread_t thread;
    pthread_mutex_t lock; /* protects stop */
    pthread_cond_t wake;
    bool stop;
};

/* ---- records ------------------------------------------------------------------------- */

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
static void this_machine(char buf[64])
{
    struct stat st;
    char boot[40];
    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    unsigned long space = stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long)st.st_ino : 0;
    snprintf(buf, 64, "%.36s-%lu", boot, space);
}

/* Start of a process in ticks; 0: not known, -1: the process has ended. */
static int64_t start_of(int64_t pid)
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

static void own_record(struct ftk_owner_record *r, uint64_t job)
{
    memset(r, 0, sizeof *r);
    r->job = job;
    job_name(r->name);
    (void)gethostname(r->host, sizeof r->host - 1); /* only for messages */
    printable(r->name);
    printable(r->host);
    this_machine(r->machine);
    r->pid = getpid();
    int64_t start = start_of(r->pid);
    r->start = start > 0 ? (uint64_t)start : 0;
}

static size_t format(const struct ftk_owner_record *r, char text[TEXT_MAX])
{
    int n = snprintf(text, TEXT_MAX,
        "ftkit.owner = 1\njob = %016" PRIx64 "\nname = %s\nhost = %s\nmachine = %s\npid = %" PRId64
        "\nstart = %" PRIu64 "\n",
        r->job, r->name, r->host, r->machine, r->pid, r->start);
    uint64_t sum = ftk_xxh3(text, (size_t)n);
    return (size_t)n
           + (size_t)snprintf(text + n, TEXT_MAX - (size_t)n, "checksum = %016" PRIx64 "\n", sum);
}

/* Each record has exactly one spelling: a text that differs from format() of its own values is
 * no record. */
static bool parse(const char *text, struct ftk_owner_record *r)
{
    char again[TEXT_MAX];
    memset(r, 0, sizeof *r);
    return sscanf(text,
               "ftkit.owner = 1\njob = %16" SCNx64 "\nname = %63[ -~]\nhost = %64[ -~]\n"
               "machine = %63[ -~]\npid = %19" SCNd64 "\nstart = %20" SCNu64 "\n",
               &r->job, r->name, r->host, r->machine, &r->pid, &r->start)
               == 6
           && r->pid > 0 && r->pid <= INT32_MAX && format(r, again) == strlen(text)
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

/* ---- the existing record ------------------------------------------------------------- */

/* A record as it was found. */
struct found {
    struct ftk_owner_record r; /* pid 0: the text is no record */
    char text[TEXT_MAX];
    struct timespec touched;
    ino_t inode;
};

/* 0, or an errno; ENOENT: there is no record. */
static int look(int ctxfd, const char *name, struct found *f)
{
    struct stat st;
    memset(f, 0, sizeof *f);
    /* open the file each time: NFS asks its server only at open() */
    int fd = openat(ctxfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno;
    ssize_t n = read(fd, f->text, sizeof f->text - 1);
    if (n < 0 || fstat(fd, &st) != 0) {
        int err = errno;
        close(fd);
        return err ? err : EIO;
    }
    close(fd);
    f->text[n] = '\0';
    f->touched = st.st_mtim;
    f->inode = st.st_ino;
    if (!parse(f->text, &f->r))
        memset(&f->r, 0, sizeof f->r);
    return 0;
}

static bool same_touch(const struct found *a, const struct found *b)
{
    return a->inode == b->inode && a->touched.tv_sec == b->touched.tv_sec
           && a->touched.tv_nsec == b->touched.tv_nsec;
}

enum fate { GONE, DEAD, ALIVE, UNKNOWN };

/* What is known without waiting. */
static enum fate fate_at_once(const struct found *f)
{
    char here[64];
    struct timespec now;
    this_machine(here);
    if (f->r.pid > 0 && f->r.start > 0 && strcmp(f->r.machine, here) == 0) {
        int64_t start = start_of(f->r.pid);
        if (start < 0 || (start > 0 && (uint64_t)start != f->r.start))
            return DEAD;
        if (start > 0)
            return ALIVE;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec - f->touched.tv_sec > OLD_S ? DEAD : UNKNOWN;
}

/* Watch a record until its owner is known to be dead, or patience is over.  The processes of a
 * job that was just killed may need some time to end, so wait also for an owner that is
 * alive. */
static enum fate watch_owner(int ctxfd, struct found *f)
{
    const struct timespec pause = { 0, POLL_NS };
    double begin = ftk_now_s(), changed = begin;
    for (;;) {
        struct found now;
        enum fate fate = fate_at_once(f);
        double t = ftk_now_s();
        if (fate == DEAD || (fate == UNKNOWN && t - changed >= silent_s))
            return DEAD;
        if (t - begin >= patience_s || (fate == ALIVE && t - begin >= patience_s / 4))
            return ALIVE;
        (void)nanosleep(&pause, NULL);
        if (look(ctxfd, FILE_NAME, &now) != 0)
            return GONE;
        if (!same_touch(&now, f))
            changed = ftk_now_s();
        *f = now;
    }
}

static int open_sets(const char *dir, const char *context, bool make, int *ctxfd)
{
    char path[FTK_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s.ftkit", *dir ? dir : ".", context);
    if (n < 0 || (size_t)n >= sizeof path)
        return ENAMETOOLONG;
    if (make && mkdir(path, 0777) != 0 && errno != EEXIST)
        return errno;
    *ctxfd = open(path, OPEN_DIR);
    return *ctxfd < 0 ? errno : 0;
}

/* ---- holding ------------------------------------------------------------------------- */

/* Open the record again, read-only, to touch it later: a file that is open for writing would
 * prevent that the file system is remounted read-only. */
static int reopen(int ctxfd, int fd, int *out)
{
    struct stat a, b;
    int ro = openat(ctxfd, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (ro < 0)
        return errno;
    if (fstat(fd, &a) == 0 && fstat(ro, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev) {
        *out = ro;
        return 0;
    }
    close(ro);
    return EEXIST; /* another job has taken over the record in between */
}

static int write_record(int ctxfd, const struct ftk_owner_record *r, int *out)
{
    char text[TEXT_MAX];
    size_t bytes = format(r, text);
    int fd = openat(ctxfd, FILE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    ssize_t n = write(fd, text, bytes);
    int err = n == (ssize_t)bytes ? 0 : n < 0 ? errno : ENOSPC;
    if (!err && fsync(fd) != 0)
        err = errno;
    if (!err)
        err = reopen(ctxfd, fd, out);
    if (err)
        unlinkat(ctxfd, FILE_NAME, 0); /* O_EXCL: the call above has made the file */
    close(fd);
    return err;
}

/* Remove the record f, unless another record has replaced f. */
static int remove_record(int ctxfd, const struct found *f, uint64_t job)
{
    char away[64];
    struct found now;
    snprintf(away, sizeof away, FILE_NAME ".%016" PRIx64, job);
    if (renameat(ctxfd, FILE_NAME, ctxfd, away) != 0)
        return errno == ENOENT ? 0 : errno;
    int err = look(ctxfd, away, &now);
    if (err == 0 && strcmp(now.text, f->text) != 0 && linkat(ctxfd, away, ctxfd, FILE_NAME, 0) != 0
        && errno != EEXIST)
        err = errno; /* the record is lost; ftk_owner_check() of a living owner makes it again */
    (void)unlinkat(ctxfd, away, 0);
    return err;
}

static int busy(const char *what, const struct ftk_owner_record *r)
{
    char text[256];
    ftk_owner_text(r, text, sizeof text);
    return ftk_fail(FTKIT_ERR_BUSY, "%s belong to %s, which is alive", what, text);
}

/* 0: the record is ours; > 0: an errno; -1: another owner is alive, the detail names it. */
static int acquire(struct ftk_owner *o)
{
    int err = EBUSY;
    for (int i = 0; i < TRIES; i++) {
        struct found f;
        err = look(o->ctxfd, FILE_NAME, &f);
        if (err != 0 && err != ENOENT)
            return err;
        if (err == 0 && f.r.job != o->record.job) {
            enum fate fate = watch_owner(o->ctxfd, &f);
            if (fate == ALIVE)
                return (void)busy(o->what, &f.r), -1;
            if (fate == GONE)
                continue;
        }
        if (err == 0)
            err = remove_record(o->ctxfd, &f, o->record.job);
        if (err == 0 || err == ENOENT)
            err = write_record(o->ctxfd, &o->record, &o->fd);
        if (err != EEXIST)
            return err;
    }
    return err; /* other jobs have been faster each time */
}

static void *touch(void *arg)
{
    struct ftk_owner *o = arg;
    struct timespec next;
    pthread_mutex_lock(&o->lock);
    while (!o->stop) {
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec += (time_t)beat_s;
        next.tv_nsec += (long)((beat_s - (double)(time_t)beat_s) * 1e9);
        if (next.tv_nsec >= 1000000000) {
            next.tv_sec++;
            next.tv_nsec -= 1000000000;
        }
        (void)pthread_cond_timedwait(&o->wake, &o->lock, &next);
        if (!o->stop) {
            pthread_mutex_unlock(&o->lock); /* a file system may take its time */
            (void)futimens(o->fd, NULL);    /* one failed touch does no harm */
            pthread_mutex_lock(&o->lock);
        }
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

static int start_thread(struct ftk_owner *o)
{
    sigset_t all, old;
    pthread_condattr_t attr;
    sigfillset(&all);
    (void)pthread_mutex_init(&o->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&o->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the program's */
    int err = pthread_create(&o->thread, NULL, touch, o);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err;
}

int ftk_owner_take(
    const char *dir, const char *context, uint64_t job, bool make, struct ftk_owner **out)
{
    struct ftk_owner *o = calloc(1, sizeof *o);
    if (!o)
        return ftk_fail(FTKIT_ERR_NOMEM, "record of the owner");
    *out = NULL;
    o->ctxfd = o->fd = -1;
    snprintf(o->what, sizeof o->what, "the sets of '%s' in %s", context, dir);
    own_record(&o->record, job);
    int err = open_sets(dir, context, make, &o->ctxfd);
    if (err == 0)
        err = acquire(o);
    if (err == 0 && (err = start_thread(o)) != 0)
        unlinkat(o->ctxfd, FILE_NAME, 0);
    if (err == 0) {
        *out = o;
        return FTKIT_OK;
    }
    if (err > 0 && (make || err != ENOENT)) /* a missing directory needs no owner */
        ftk_report(FTKIT_DEBUG, "no record that this job uses %s: %s", o->what, strerror(err));
    if (o->fd >= 0)
        close(o->fd);
    if (o->ctxfd >= 0)
        close(o->ctxfd);
    free(o);
    return err < 0 ? FTKIT_ERR_BUSY : FTKIT_OK;
}

int ftk_owner_check(struct ftk_owner *o)
{
    struct found f;
    int fd = -1;
    int err = look(o->ctxfd, FILE_NAME, &f);
    if (err == ENOENT && write_record(o->ctxfd, &o->record, &fd) == 0) {
        /* somebody has removed the record; from now on the thread touches the new file */
        (void)dup3(fd, o->fd, O_CLOEXEC);
        close(fd);
        return FTKIT_OK;
    }
    if (err == 0 && f.r.job != o->record.job)
        return busy(o->what, &f.r);
    return FTKIT_OK; /* a read error is no sign of another owner */
}

void ftk_owner_release(struct ftk_owner **po)
{
    struct found f;
    struct ftk_owner *o = *po;
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    o->stop = true;
    pthread_cond_signal(&o->wake);
    pthread_mutex_unlock(&o->lock);
    (void)pthread_join(o->thread, NULL);
    (void)pthread_cond_destroy(&o->wake);
    (void)pthread_mutex_destroy(&o->lock);
    if (look(o->ctxfd, FILE_NAME, &f) == 0 && f.r.job == o->record.job && f.r.pid == o->record.pid)
        (void)unlinkat(o->ctxfd, FILE_NAME, 0);
    close(o->fd);
    close(o->ctxfd);
    free(o);
    *po = NULL;
}

int ftk_owner_alive(const char *dir, const char *context, bool *alive, struct ftk_owner_record *r)
{
    int ctxfd = -1;
    struct found f;
    *alive = false;
    int err = open_sets(dir, context, false, &ctxfd);
    if (err != 0)
        return ftk_fail_errno(err, "the sets of '%s' in %s", context, dir);
    err = look(ctxfd, FILE_NAME, &f);
    if (err == 0) {
        *alive = fate_at_once(&f) == ALIVE || watch_owner(ctxfd, &f) == ALIVE;
        *r = f.r;
    }
    close(ctxfd);
    return err == 0 || err == ENOENT
               ? FTKIT_OK
               : ftk_fail_errno(err, "owner of the sets of '%s' in %s", context, dir);
}
