/* The owner of the sets of a context: one job at a time (see owner.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/thread.h"
#include "owner.h"
#include "owner_record.h"
#include "sets_dir.h"

#define OPEN_OLD (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define OLD_S 600 /* the clocks of two machines differ by less */
#define POLLS 50  /* looks at a record until its owner is taken for dead */
#define TRIES 5

static double beat_s = 2, silent_s = 10, patience_s = 20;
static double end_s = 5; /* most time that closing waits for a file system */

void ftk_owner_pace(double beat, double silent, double patience, double end)
{
    end_s = end;
    beat_s = beat;
    silent_s = silent;
    patience_s = patience;
}

/* ---- the existing record ------------------------------------------------------------- */

/* A record as it was found. */
struct found {
    struct ftk_owner_record r; /* pid 0: the text is no record */
    char text[FTK_OWNER_TEXT];
    struct timespec touched;
    ino_t inode;
};

struct ftk_owner {
    char dir[FTK_PATH_MAX];
    char context[FTKIT_NAME_MAX + 1];
    char what[FTK_PATH_MAX + FTKIT_NAME_MAX + 32]; /* for messages: the sets of 'heat' in DIR */
    struct ftk_owner_job job;
    struct ftk_owner_record record; /* of this process, but for its epoch */
    _Atomic int epoch;              /* of the job */
    _Atomic int turn;               /* see ftk_owner_stand_in() */
    _Atomic bool held;              /* the record has been that of this job */
    pthread_t thread;
    pthread_mutex_t lock; /* protects state and due */
    pthread_cond_t wake, ended;
    enum {
        KEEPS, /* the thread keeps the record */
        STOPS, /* ... removes it, and somebody waits for that */
        LEFT,  /* ... and no thread waits: the thread frees the struct */
        ENDED
    } state;
    bool due; /* a beat, at once */
    /* of the thread */
    struct found seen;
    double seen_s; /* when the record last changed */
    bool own;      /* this process has touched it last */
};

/* Read the record, and leave the file open in *out, unless out is NULL.  0, or an errno; ENOENT:
 * there is no record. */
static int look_at(int ctxfd, const char *name, struct found *f, int *out)
{
    struct stat st;
    memset(f, 0, sizeof *f);
    /* open the file each time: NFS asks its server only at open() */
    int fd = openat(ctxfd, name, OPEN_OLD);
    if (fd < 0)
        return errno;
    ssize_t n = read(fd, f->text, sizeof f->text - 1);
    if (n < 0 || fstat(fd, &st) != 0) {
        int err = errno;
        close(fd);
        return err ? err : EIO;
    }
    f->text[n] = '\0';
    f->touched = st.st_mtim;
    f->inode = st.st_ino;
    if (!ftk_owner_parse(f->text, &f->r))
        memset(&f->r, 0, sizeof f->r);
    if (out)
        *out = fd;
    else
        close(fd);
    return 0;
}

static int look(int ctxfd, struct found *f)
{
    return look_at(ctxfd, FTK_OWNER_FILE, f, NULL);
}

static bool same_touch(const struct found *a, const struct found *b)
{
    return a->inode == b->inode && a->touched.tv_sec == b->touched.tv_sec
           && a->touched.tv_nsec == b->touched.tv_nsec;
}

enum fate { GONE, DEAD, ALIVE, UNKNOWN };

static bool is_same(uint64_t a, uint64_t b)
{
    return a != 0 && a == b;
}

/* The fate of an owner whose process was on this machine. */
static enum fate fate_here(const struct found *f, const struct ftk_owner_job *me)
{
    int64_t start = ftk_owner_start(f->r.pid);
    if (start > 0 && (uint64_t)start == f->r.start)
        return ALIVE;
    if (start == 0)
        return UNKNOWN;
    int lives = me->lives ? me->lives(f->r.job) : 0;
    if (lives > 0)
        return ALIVE;
    return lives == 0 && (f->r.alone || is_same(f->r.run, me->run)) ? DEAD : UNKNOWN;
}

/* What is known without waiting. */
static enum fate fate_at_once(const struct found *f, const struct ftk_owner_job *me)
{
    char here[64];
    struct timespec now;
    enum fate fate = UNKNOWN;
    ftk_owner_machine(here);
    if (f->r.pid > 0 && f->r.start > 0 && strcmp(f->r.machine, here) == 0)
        fate = fate_here(f, me);
    if (fate != UNKNOWN)
        return fate;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec - f->touched.tv_sec > OLD_S ? DEAD : UNKNOWN;
}

/* Watch a record until its owner is known to be dead, or patience is over.  The processes of a
 * job that was just killed may need some time to end, so wait also for an owner that is
 * alive.  An earlier attempt of the same `ftkit run` has been ended: its record is taken over when
 * patience is over. */
static enum fate watch_owner(int ctxfd, const struct ftk_owner_job *me, struct found *f)
{
    const struct timespec pause = { (time_t)(silent_s / POLLS),
        (long)(1e9 * fmod(silent_s / POLLS, 1)) };
    double begin = ftk_now_s(), changed = begin;
    for (;;) {
        struct found now;
        enum fate fate = fate_at_once(f, me);
        double t = ftk_now_s();
        if (fate == DEAD || (fate == UNKNOWN && t - changed >= silent_s))
            return DEAD;
        if (fate == ALIVE && is_same(f->r.mpi, me->mpi))
            return ALIVE;
        if (t - begin >= patience_s || (fate == ALIVE && t - begin >= patience_s / 4))
            return is_same(f->r.run, me->run) ? DEAD : ALIVE;
        (void)nanosleep(&pause, NULL);
        if (look(ctxfd, &now) != 0)
            return GONE;
        if (!same_touch(&now, f))
            changed = ftk_now_s();
        *f = now;
    }
}

static int open_sets(const char *dir, const char *context, bool make, int *ctxfd)
{
    const int err = make ? ftk_sets_dir_make(dir, context, 0700) : 0;
    if (err)
        return err;
    *ctxfd = ftk_sets_dir_open(dir, context);
    return *ctxfd < 0 ? errno : 0;
}

/* ---- holding ------------------------------------------------------------------------- */

/* The record of this process as it is to be written now. */
static struct ftk_owner_record own_record(const struct ftk_owner *o)
{
    struct ftk_owner_record r = o->record;
    r.epoch = atomic_load(&o->epoch);
    return r;
}

static bool is_mine(const struct ftk_owner *o, const struct found *f)
{
    return f->r.pid == o->record.pid && strcmp(f->r.machine, o->record.machine) == 0;
}

static int put_again(const struct ftk_owner *o, int ctxfd)
{
    const struct ftk_owner_record r = own_record(o);
    return ftk_owner_replace(ctxfd, &r);
}

static int put_new(const struct ftk_owner *o, int ctxfd)
{
    const struct ftk_owner_record r = own_record(o);
    return ftk_owner_make(ctxfd, &r);
}

/* Remove the record f, unless another record has replaced f. */
static int remove_record(int ctxfd, const struct found *f, uint64_t job)
{
    char away[64];
    struct found now;
    snprintf(away, sizeof away, FTK_OWNER_FILE ".%016" PRIx64, job);
    if (renameat(ctxfd, FTK_OWNER_FILE, ctxfd, away) != 0)
        return errno == ENOENT ? 0 : errno;
    int err = look_at(ctxfd, away, &now, NULL);
    if (err == 0 && strcmp(now.text, f->text) != 0
        && linkat(ctxfd, away, ctxfd, FTK_OWNER_FILE, 0) != 0 && errno != EEXIST)
        err = errno; /* the record is lost; ftk_owner_check() of a living owner makes it again */
    (void)unlinkat(ctxfd, away, 0);
    return err;
}

static int busy(const struct ftk_owner *o, const struct ftk_owner_record *r)
{
    char text[256];
    if (is_same(r->mpi, o->job.mpi) && r->job != o->job.job)
        return ftk_fail(FTKIT_ERR_BUSY,
            "%s are used by two contexts of this program: one with rank 0 in process %" PRId64
            " on %s, and one with rank 0 in process %" PRId64
            " on %s. Rule: contexts of one MPI job have different names (context.name) or "
            "directories",
            o->what, r->pid, r->host, o->record.pid, o->record.host);
    ftk_owner_text(r, text, sizeof text);
    return ftk_fail(FTKIT_ERR_BUSY, "%s belong to %s, which is alive", o->what, text);
}

/* 0: the record is ours; > 0: an errno; -1: another owner is alive, the detail names it. */
static int acquire(struct ftk_owner *o, int ctxfd)
{
    int err = EBUSY;
    for (int i = 0; i < TRIES; i++) {
        struct found f;
        err = look(ctxfd, &f);
        if (err != 0 && err != ENOENT)
            return err;
        if (err == 0 && f.r.job != o->job.job) {
            enum fate fate = watch_owner(ctxfd, &o->job, &f);
            if (fate == ALIVE)
                return (void)busy(o, &f.r), -1;
            if (fate == GONE)
                continue;
        }
        if (err == 0 && f.r.job == o->job.job) {
            err = put_again(o, ctxfd);
        } else {
            if (err == 0)
                err = remove_record(ctxfd, &f, o->job.job);
            if (err == 0)
                ftk_owner_sweep(ctxfd, f.r.job);
            if (err == 0 || err == ENOENT)
                err = put_new(o, ctxfd);
        }
        if (err == 0)
            atomic_store(&o->held, true);
        if (err != EEXIST)
            return err;
    }
    return err; /* other jobs have been faster each time */
}

/* ---- the thread ---------------------------------------------------------------------- */

/* Whether it is for this process to touch the record of its job. */
static bool is_due(struct ftk_owner *o, const struct found *f, int turn)
{
    double now = ftk_now_s();
    if (turn == 0 || (same_touch(f, &o->seen) && o->own))
        return true;
    if (same_touch(f, &o->seen))
        return now - o->seen_s > (turn + 0.5) * beat_s;
    o->seen = *f;
    o->seen_s = now;
    o->own = false;
    return false;
}

/* Errors do no harm: the next beat tries again. */
static void beat(struct ftk_owner *o)
{
    struct found f;
    struct stat st;
    int ctxfd = -1, fd = -1, turn = atomic_load(&o->turn);
    if (turn < 0 || open_sets(o->dir, o->context, false, &ctxfd) != 0)
        return;
    if (look_at(ctxfd, FTK_OWNER_FILE, &f, &fd) == 0 && f.r.job == o->job.job) {
        atomic_store(&o->held, true);
        if (turn == 0 && !is_mine(o, &f)) {
            (void)put_again(o, ctxfd);
        } else if (is_due(o, &f, turn) && futimens(fd, NULL) == 0 && fstat(fd, &st) == 0) {
            o->seen = f;
            o->seen.touched = st.st_mtim;
            o->seen_s = ftk_now_s();
            o->own = true;
        }
    }
    if (fd >= 0)
        close(fd);
    close(ctxfd);
}

/* Rank 0 removes the record. */
static void remove_own(struct ftk_owner *o)
{
    struct found f;
    int ctxfd = -1;
    if (atomic_load(&o->turn) != 0 || open_sets(o->dir, o->context, false, &ctxfd) != 0)
        return;
    if (look(ctxfd, &f) == 0 && f.r.job == o->job.job && f.r.epoch <= atomic_load(&o->epoch)
        && remove_record(ctxfd, &f, o->job.job) == 0)
        ftk_owner_sweep(ctxfd, o->job.job);
    close(ctxfd);
}

static void free_owner(struct ftk_owner *o)
{
    (void)pthread_cond_destroy(&o->wake);
    (void)pthread_cond_destroy(&o->ended);
    (void)pthread_mutex_destroy(&o->lock);
    free(o);
}

/* The thread of the record.  A file system may take its time, so no lock is held then. */
static void *keep(void *arg)
{
    struct ftk_owner *o = arg;
    pthread_mutex_lock(&o->lock);
    while (o->state == KEEPS) {
        const struct timespec next = ftk_thread_from_now(beat_s);
        if (!o->due)
            (void)pthread_cond_timedwait(&o->wake, &o->lock, &next);
        o->due = false;
        if (o->state == KEEPS) {
            pthread_mutex_unlock(&o->lock);
            beat(o);
            pthread_mutex_lock(&o->lock);
        }
    }
    pthread_mutex_unlock(&o->lock);
    remove_own(o);
    pthread_mutex_lock(&o->lock);
    const bool left = o->state == LEFT;
    o->state = ENDED;
    pthread_cond_signal(&o->ended);
    pthread_mutex_unlock(&o->lock);
    if (left)
        free_owner(o);
    return NULL;
}

static int start_thread(struct ftk_owner *o)
{
    (void)pthread_mutex_init(&o->lock, NULL);
    ftk_thread_cond(&o->wake);
    ftk_thread_cond(&o->ended);
    return ftk_thread_start(&o->thread, keep, o);
}

/* ---- calls --------------------------------------------------------------------------- */

static struct ftk_owner *make_owner(
    const char *dir, const char *context, const struct ftk_owner_job *of, int turn)
{
    struct ftk_owner *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    snprintf(o->dir, sizeof o->dir, "%s", dir);
    snprintf(o->context, sizeof o->context, "%s", context);
    snprintf(o->what, sizeof o->what, "the sets of '%s' in %s", context, dir);
    o->job = *of;
    ftk_owner_own(&o->record, of);
    atomic_store(&o->epoch, of->epoch);
    atomic_store(&o->turn, turn);
    return o;
}

int ftk_owner_take(const char *dir, const char *context, const struct ftk_owner_job *of, bool make,
    struct ftk_owner **out)
{
    int ctxfd = -1;
    *out = NULL;
    struct ftk_owner *o = make_owner(dir, context, of, 0);
    if (!o)
        return ftk_fail(FTKIT_ERR_NOMEM, "record of the owner");
    int err = open_sets(dir, context, make, &ctxfd);
    if (err == 0)
        err = acquire(o, ctxfd);
    if (err == 0 && (err = start_thread(o)) != 0)
        unlinkat(ctxfd, FTK_OWNER_FILE, 0);
    if (err > 0 && (make || err != ENOENT)) /* a missing directory needs no owner */
        ftk_report(FTKIT_DEBUG, "no record that this job uses %s: %s", o->what, strerror(err));
    if (ctxfd >= 0)
        close(ctxfd);
    if (err == 0)
        *out = o;
    else
        free(o);
    return err < 0 ? FTKIT_ERR_BUSY : FTKIT_OK;
}

struct ftk_owner *ftk_owner_stand_in(
    const char *dir, const char *context, const struct ftk_owner_job *of, int turn)
{
    struct ftk_owner *o = make_owner(dir, context, of, turn);
    if (o)
        o->due = turn == 0;
    if (o && start_thread(o) != 0) {
        free(o);
        return NULL;
    }
    return o;
}

void ftk_owner_turn(struct ftk_owner *o, int turn, int epoch)
{
    atomic_store(&o->epoch, epoch); /* before the turn, with which the thread writes the record */
    if (atomic_exchange(&o->turn, turn) == 0 || turn != 0)
        return;
    pthread_mutex_lock(&o->lock);
    o->due = true; /* soon this process makes sets, and the lost one may come back */
    pthread_cond_signal(&o->wake);
    pthread_mutex_unlock(&o->lock);
}

/* The record is of this job, but perhaps of another rank 0: of one that is lost, or of one that has
 * replaced this process. */
static int check_rank_0(const struct ftk_owner *o, int ctxfd, struct found *f)
{
    if (is_mine(o, f) || put_again(o, ctxfd) != EEXIST || look(ctxfd, f) != 0)
        return FTKIT_OK; /* another error: a job that cannot write disturbs no other job */
    if (f->r.job != o->job.job)
        return busy(o, &f->r);
    return ftk_fail(FTKIT_ERR_BUSY,
        "this process was given up as lost: process %" PRId64 " on %s has taken over %s", f->r.pid,
        f->r.host, o->what);
}

int ftk_owner_check(struct ftk_owner *o, bool make)
{
    struct found f;
    int ctxfd = -1, rc = FTKIT_OK;
    if (open_sets(o->dir, o->context, make, &ctxfd) != 0)
        return FTKIT_OK; /* a job that cannot write disturbs no other job */
    int err = look(ctxfd, &f);
    bool ours = err == 0 && f.r.job == o->job.job;
    if (err == ENOENT) /* somebody has removed the record, or there has been none */
        ours = put_new(o, ctxfd) == 0;
    else if (err == 0 && !ours && atomic_load(&o->held))
        rc = busy(o, &f.r);
    else if (err == 0 && !ours) /* of an earlier job, or of one that is alive */
        rc = acquire(o, ctxfd) < 0 ? FTKIT_ERR_BUSY : FTKIT_OK;
    if (ours)
        atomic_store(&o->held, true);
    if (ours && err == 0)
        rc = check_rank_0(o, ctxfd, &f);
    close(ctxfd); /* a read error is no sign of another owner */
    return rc;
}

void ftk_owner_release(struct ftk_owner **po)
{
    struct ftk_owner *o = *po;
    const struct timespec until = ftk_thread_from_now(end_s);
    int err = 0;
    *po = NULL;
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    o->state = STOPS;
    pthread_cond_signal(&o->wake);
    while (o->state == STOPS && err != ETIMEDOUT)
        err = pthread_cond_timedwait(&o->ended, &o->lock, &until);
    const bool ended = o->state == ENDED;
    if (!ended) {
        ftk_report(FTKIT_WARNING,
            "the file system does not answer: the record that this job uses %s stays, and another "
            "job may have to wait until it is %.0f s old",
            o->what, silent_s);
        (void)pthread_detach(o->thread);
        o->state = LEFT;
    }
    pthread_mutex_unlock(&o->lock); /* from here on a struct that is left is the thread's */
    if (!ended)
        return;
    (void)pthread_join(o->thread, NULL);
    free_owner(o);
}

int ftk_owner_alive(const char *dir, const char *context, ftk_owner_lives *lives, bool *alive,
    struct ftk_owner_record *r)
{
    const struct ftk_owner_job me = { .lives = lives };
    int ctxfd = -1;
    struct found f;
    *alive = false;
    int err = open_sets(dir, context, false, &ctxfd);
    if (err != 0)
        return ftk_fail_errno(err, "the sets of '%s' in %s", context, dir);
    err = look(ctxfd, &f);
    if (err == 0) {
        *alive = fate_at_once(&f, &me) == ALIVE || watch_owner(ctxfd, &me, &f) == ALIVE;
        *r = f.r;
    }
    close(ctxfd);
    return err == 0 || err == ENOENT
               ? FTKIT_OK
               : ftk_fail_errno(err, "owner of the sets of '%s' in %s", context, dir);
}
