/* The helper thread that writes sets to the file system (see flusher.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/context.h"
#include "core/event.h"
#include "core/run_state.h"
#include "core/thread.h"
#include "flusher.h"
#include "store/file.h"
#include "store/durable/sets.h"

#define STOP_S 10 /* the file system has not answered for so long */
#define PAUSE_MIN_S 0.001
#define PAUSE_MAX_S 0.05 /* between looks for the parts of others */

struct ftk_flusher {
    pthread_t thread;
    pthread_mutex_t lock; /* protects stop, busy, result; job while the thread is idle */
    pthread_cond_t wake;
    bool stop;
    bool busy;
    struct ftk_flush_job job;
    struct ftk_flush_result result;
    atomic_bool cancel;
    _Atomic double sign_s;  /* the thread has last heard from the file system; 0: it asks nothing */
    _Atomic double alone_s; /* when to give up missing parts; 0: others are writing */
    _Atomic double late_s;  /* when to give up a missing directory; 0: no repair has ended */
    /* of the thread alone: */
    int next;      /* the rank to look at next */
    void *passing; /* segment of another rank */
    size_t passing_cap;
    double begun_s;
    double paced; /* bytes written since then */
    struct ftk_flusher *list;
};

/* ---- HDF5 and the rest of the process ---------------------------------------------------
 * A fork() while the thread is inside HDF5 would leave HDF5 locked in the child, and the
 * child would hang in exit().  So fork() waits until the thread leaves HDF5, which the
 * thread does before each fsync() of a file, too. */

static pthread_mutex_t h5_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* protects flushers */
static struct ftk_flusher *flushers;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void enter_lock(void)
{
    pthread_mutex_lock(&h5_lock);
}

static void leave_lock(void)
{
    pthread_mutex_unlock(&h5_lock);
}

/* Files leave the lock while they wait for a disk, if they are written inside the lock. */
static void enter_h5(void)
{
    static const struct ftk_file_lock lock = { leave_lock, enter_lock };
    enter_lock();
    ftk_file_use_lock(&lock);
}

static void leave_h5(void)
{
    ftk_file_use_lock(NULL);
    leave_lock();
}

/* The child has no helper threads.  Another thread may have held list_lock at the fork. */
static void in_child(void)
{
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    flushers = NULL;
    list_lock = unlocked;
    leave_lock();
}

/* End the thread.  false: it waits for a file system that does not answer. */
static bool stop_thread(struct ftk_flusher *f)
{
    struct timespec until;
    atomic_store(&f->cancel, true);
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_S;
    int err = pthread_timedjoin_np(f->thread, NULL, &until);
    while (err == ETIMEDOUT && ftk_flusher_silent_s(f) < STOP_S) { /* slow, but it answers */
        until.tv_sec += STOP_S;
        err = pthread_timedjoin_np(f->thread, NULL, &until);
    }
    if (err != 0)
        ftk_report(FTKIT_WARNING,
            "context %s: rank %d: the file system of %s does not answer: set %llu is given up",
            f->job.context, f->job.rank, f->job.dir, (unsigned long long)f->job.set);
    return err == 0;
}

/* exit() while a context is open: end the threads, because HDF5 must not be closed under them.
 * Under a thread that cannot be ended, the process ends at once: closing HDF5 would hang. */
static void on_exit_of_process(int status, void *arg)
{
    bool all = true;
    (void)arg;
    pthread_mutex_lock(&list_lock);
    for (struct ftk_flusher *f = flushers; f; f = f->list)
        if (!pthread_equal(f->thread, pthread_self()))
            all = stop_thread(f) && all;
    flushers = NULL;
    pthread_mutex_unlock(&list_lock);
    if (all)
        return;
    (void)fflush(NULL); /* there is nothing to do about an error */
    _exit(status);
}

static void prepare_process(void)
{
    /* both fail only without memory: then fork() and exit() are not protected */
    (void)pthread_atfork(enter_lock, leave_lock, in_child);
    (void)on_exit(on_exit_of_process, NULL);
}

void ftk_flusher_prepare(void)
{
    ftk_sets_prepare(); /* opens HDF5, whose exit() handler must run after this one */
    (void)pthread_once(&once, prepare_process);
}

/* ---- one part ------------------------------------------------------------------------ */

static void rest(double seconds)
{
    struct timespec t = { (time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds)) };
    (void)nanosleep(&t, NULL); /* a shorter sleep does no harm */
}

/* The thread has an answer of the file system, and asks the next question; asks false: it waits for
 * other processes. */
static void sign(struct ftk_flusher *f, bool asks)
{
    atomic_store(&f->sign_s, asks ? ftk_now_s() : 0);
}

/* Rank 0, before it changes what belongs to no attempt alone: whether this process is still the one
 * that does so. */
static int still_own(struct ftk_flusher *f)
{
    const struct ftk_still *own = &f->job.own;
    sign(f, true);
    return own->ask ? own->ask(own->arg) : FTKIT_OK;
}

static int called_off(const struct ftk_flusher *f)
{
    return atomic_load(&f->cancel) ? ftk_fail(FTKIT_ERR_PEER, "the flush was cancelled") : FTKIT_OK;
}

/* Called between two pieces: let other threads use HDF5, and keep to the bandwidth. */
static int pace(void *arg, size_t bytes)
{
    struct ftk_flusher *f = arg;
    leave_h5();
    int err = FTK_FAULT("flush.block");
    int rc = err ? ftk_fail_errno(err, "set %llu: writing a part", (unsigned long long)f->job.set)
                 : called_off(f);
    f->paced += (double)bytes;
    double due_s = f->job.bytes_per_s > 0 ? f->begun_s + f->paced / f->job.bytes_per_s : 0;
    for (double left; rc == FTKIT_OK && (left = due_s - ftk_now_s()) > 0; rc = called_off(f))
        rest(left < PAUSE_MAX_S ? left : PAUSE_MAX_S);
    enter_h5();
    sign(f, true);
    return rc;
}

static int receive_segment(struct ftk_flusher *f, int rank)
{
    const struct ftk_flush_job *j = &f->job;
    struct ftk_ring_wait wait = { &f->cancel, j->patience_s };
    size_t bytes = 0;
    int rc = ftk_ring_offered(j->ring, j->set, j->member[rank], &bytes, &wait);
    if (rc == FTKIT_OK && bytes > f->passing_cap) {
        free(f->passing);
        f->passing_cap = bytes + bytes / 64;
        f->passing = malloc(f->passing_cap);
        if (!f->passing) {
            f->passing_cap = 0;
            return ftk_fail(FTKIT_ERR_NOMEM, "%zu bytes for a segment to pass through", bytes);
        }
    }
    if (rc == FTKIT_OK)
        rc = ftk_ring_take(j->ring, j->set, j->member[rank], f->passing, bytes, &wait);
    return rc;
}

/* Get the next segment of this writer, in the order of ranks. */
static int next_handed(void *arg, const void **seg)
{
    struct ftk_flusher *f = arg;
    const struct ftk_flush_job *j = &f->job;
    while (j->writer[f->next] != j->rank)
        f->next++;
    int rank = f->next++;
    *seg = j->seg;
    if (rank == j->rank)
        return FTKIT_OK;
    leave_h5();
    sign(f, false);
    int rc = receive_segment(f, rank);
    sign(f, true);
    enter_h5();
    *seg = f->passing;
    return rc;
}

/* Rank 0: make the directory of the set.  No level needs its library for this, so outside of the
 * lock. */
static int make_directory(const struct ftk_flush_job *j)
{
    return ftk_sets_make(
        j->level, j->dir, j->context, j->set, j->number, j->own.ask ? &j->own : NULL);
}

/* Wait until rank 0 has made the directory.  An older attempt may have left one, which goes. */
static int await_directory(struct ftk_flusher *f)
{
    const struct ftk_flush_job *j = &f->job;
    const double begin_s = ftk_now_s();
    double pause_s = PAUSE_MIN_S;
    for (;;) {
        /* read late_s before the look: a rank 0 that is lost makes no directory behind it */
        const double late_s = atomic_load(&f->late_s);
        const double now = ftk_now_s();
        sign(f, true);
        int rc = j->level->marked(j->dir, j->context, j->set, j->number);
        sign(f, false);
        if (rc != FTKIT_ERR_NOT_FOUND)
            return rc;
        rc = called_off(f);
        if (rc == FTKIT_OK && (now - begin_s > j->patience_s || (late_s > 0 && now > late_s)))
            rc = ftk_fail(FTKIT_ERR_PEER, "rank 0 has not made the directory of the set");
        if (rc != FTKIT_OK)
            return rc;
        rest(pause_s);
        pause_s = 2 * pause_s < PAUSE_MAX_S ? 2 * pause_s : PAUSE_MAX_S;
    }
}

static int write_part(struct ftk_flusher *f)
{
    const struct ftk_flush_job *j = &f->job;
    struct ftk_manifest_part out;
    int nsegs = 0, rc = FTKIT_OK;
    for (int r = 0; r < j->nranks; r++)
        nsegs += j->writer[r] == j->rank;
    const struct ftk_part_job part = { .dir = j->dir,
        .context = j->context,
        .set = j->set,
        .flush = j->number,
        .part = (uint32_t)j->rank,
        .nsegs = nsegs,
        .deflate = j->deflate,
        .plain = j->plain,
        .next = next_handed,
        .pace = pace,
        .arg = f };
    f->next = 0;
    sign(f, true);
    if (j->number != 0)
        rc = j->rank == 0 ? make_directory(j) : await_directory(f);
    sign(f, true);
    if (rc == FTKIT_OK)
        rc = called_off(f);
    enter_h5();
    if (rc == FTKIT_OK)
        rc = j->level->write(&part, &out);
    leave_h5();
    sign(f, false);
    if (rc != FTKIT_OK && j->ring)
        ftk_ring_abandon(j->ring, j->set);
    free(f->passing); /* the next set comes much later */
    f->passing = NULL;
    f->passing_cap = 0;
    return rc;
}

static int give_segment(struct ftk_flusher *f)
{
    const struct ftk_flush_job *j = &f->job;
    struct ftk_ring_wait wait = { &f->cancel, j->patience_s };
    return ftk_ring_give(j->ring, j->set, j->seg, j->bytes, &wait);
}

/* ---- the whole set: rank 0 ----------------------------------------------------------- */

/* Wait until a part has its final name.  There is no limit while the writer makes progress. */
static int await_part(struct ftk_flusher *f, int part)
{
    const struct ftk_flush_job *j = &f->job;
    double pause_s = PAUSE_MIN_S;
    double since_s = ftk_now_s();
    uint64_t before = 0;
    for (;;) {
        uint64_t progress;
        /* read alone_s before the look: a writer that was done then had named its part */
        double alone_s = atomic_load(&f->alone_s);
        sign(f, true);
        int rc = j->level->look(j->dir, j->context, j->set, (uint32_t)part, &progress);
        sign(f, false);
        if (rc == FTKIT_ERR_NOT_FOUND)
            rc = called_off(f);
        else
            return rc;
        double now = ftk_now_s();
        if (progress != before) {
            before = progress;
            since_s = now;
        }
        if (rc == FTKIT_OK && alone_s > 0 && now > alone_s)
            rc = ftk_fail(FTKIT_ERR_PEER, "part %d was not finished", part);
        if (rc == FTKIT_OK && now - since_s > j->patience_s)
            rc = ftk_fail(
                FTKIT_ERR_PEER, "part %d has made no progress for %.1f s", part, now - since_s);
        if (rc != FTKIT_OK)
            return rc;
        rest(pause_s);
        pause_s = 2 * pause_s < PAUSE_MAX_S ? 2 * pause_s : PAUSE_MAX_S;
    }
}

static int await_parts(struct ftk_flusher *f)
{
    const struct ftk_flush_job *j = &f->job;
    int rc = FTKIT_OK;
    for (int r = 0; r < j->nranks && rc == FTKIT_OK; r++)
        if (j->writer[r] == r)
            rc = await_part(f, r);
    return rc;
}

static int write_manifest(struct ftk_flusher *f, struct ftk_manifest *m)
{
    const struct ftk_flush_job *j = &f->job;
    for (int r = 0; r < j->nranks; r++) {
        if (j->writer[r] == r) { /* a writer is the first of its ranks */
            m->part_of[r] = m->nparts;
            m->parts[m->nparts++].part = (uint32_t)r;
        }
        m->part_of[r] = m->part_of[j->writer[r]];
        m->parts[m->part_of[r]].nranks++;
    }
    sign(f, true);
    int rc = ftk_sets_dir_sync(j->dir, j->context, j->set); /* a wait, so outside of the lock */
    if (rc == FTKIT_OK)
        rc = still_own(f);
    sign(f, true);
    enter_h5();
    if (rc == FTKIT_OK)
        rc = j->level->learn(j->dir, j->heads, m);
    if (rc == FTKIT_OK)
        rc = called_off(f);
    if (rc == FTKIT_OK)
        rc = j->level->commit(j->dir, j->number, m);
    leave_h5();
    sign(f, false);
    return rc;
}

static int complete_set(struct ftk_flusher *f)
{
    const struct ftk_flush_job *j = &f->job;
    struct ftk_manifest m = { .set = j->set, .run = j->run, .nranks = (uint32_t)j->nranks };
    int rc = await_parts(f);
    (void)FTK_FAULT("flush.parts");
    if (rc != FTKIT_OK)
        return rc;
    memcpy(m.context, j->context, sizeof m.context);
    memcpy(m.program, j->program, sizeof m.program);
    m.parts = calloc((size_t)j->nranks, sizeof *m.parts);
    m.part_of = calloc((size_t)j->nranks, sizeof *m.part_of);
    rc = m.parts && m.part_of ? write_manifest(f, &m) : ftk_fail(FTKIT_ERR_NOMEM, "manifest");
    ftk_manifest_free(&m);
    (void)FTK_FAULT("flush.complete");
    if (rc != FTKIT_OK)
        return rc;
    f->result.complete = true;
    ftk_run_state("set %llu %s", (unsigned long long)j->set, j->context);
    rc = still_own(f);
    if (rc == FTKIT_OK) {
        sign(f, true);
        enter_h5();
        rc = ftk_sets_prune(j->dir, j->context, j->run, j->keep);
        leave_h5();
    }
    sign(f, false);
    if (rc != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "context %s: old sets were not removed: %s", j->context,
            ftk_detail_text());
    return FTKIT_OK;
}

/* ---- the thread ---------------------------------------------------------------------- */

void ftk_flush_event(const char *context, int rank, uint64_t set, size_t bytes, double seconds,
    int code, bool complete)
{
    struct ftk_event e;
    ftk_event_begin(&e, context, rank, "flush");
    ftk_event_int(&e, "set", (int64_t)set);
    ftk_event_int(&e, "bytes", (int64_t)bytes);
    ftk_event_seconds(&e, "seconds", seconds);
    ftk_event_int(&e, "code", code);
    ftk_event_end(&e);
    if (!complete)
        return;
    ftk_event_begin(&e, context, rank, "durable");
    ftk_event_int(&e, "set", (int64_t)set);
    ftk_event_end(&e);
}

static void report(const struct ftk_flush_job *j, const struct ftk_flush_result *r)
{
    unsigned long long set = j->set;
    ftk_flush_event(
        j->context, j->rank, j->set, j->bytes, r->seconds, r->rc, r->rc == FTKIT_OK && r->complete);
    if (r->rc == FTKIT_OK && r->complete)
        ftk_report(FTKIT_DEBUG, "context %s: set %llu: complete on the file system after %.3f s",
            j->context, set, r->seconds);
    else if (r->rc == FTKIT_ERR_PEER)
        ftk_report(FTKIT_INFO, "context %s: set %llu: rank %d has given up writing it: %s",
            j->context, set, j->rank, r->why);
    else if (r->rc != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "context %s: set %llu: rank %d could not write it: %s",
            j->context, set, j->rank, r->why);
}

static void run(struct ftk_flusher *f)
{
    const struct ftk_flush_job *j = &f->job;
    struct ftk_flush_result *r = &f->result;
    f->begun_s = ftk_now_s();
    f->paced = 0;
    memset(r, 0, sizeof *r);
    r->set = j->set;
    (void)FTK_FAULT("flush.begin");
    const int writer = j->writer[j->rank];
    if (writer >= 0) /* otherwise this rank is of a plane that writes no files */
        r->rc = writer == j->rank ? write_part(f) : give_segment(f);
    (void)FTK_FAULT("flush.part");
    if (r->rc == FTKIT_OK && j->rank == 0)
        r->rc = complete_set(f);
    sign(f, false);
    r->seconds = ftk_now_s() - f->begun_s;
    if (r->rc != FTKIT_OK)
        memcpy(r->why, ftk_detail_text(), sizeof r->why);
    report(j, r);
    (void)FTK_FAULT("flush.end");
}

static void *work(void *arg)
{
    struct ftk_flusher *f = arg;
    pthread_mutex_lock(&f->lock);
    while (!f->stop) {
        if (!f->busy) {
            pthread_cond_wait(&f->wake, &f->lock);
            continue;
        }
        pthread_mutex_unlock(&f->lock);
        run(f);
        pthread_mutex_lock(&f->lock);
        f->busy = false;
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

int ftk_flusher_start(struct ftk_flusher **out)
{
    struct ftk_flusher *f = calloc(1, sizeof *f);
    if (!f)
        return ftk_fail(FTKIT_ERR_NOMEM, "helper thread");
    ftk_flusher_prepare();
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->wake, NULL);
    int err = FTK_FAULT("flush.thread");
    if (!err)
        err = ftk_thread_start(&f->thread, work, f);
    if (err) {
        free(f);
        return ftk_fail_errno(err, "helper thread");
    }
    pthread_mutex_lock(&list_lock);
    f->list = flushers;
    flushers = f;
    pthread_mutex_unlock(&list_lock);
    *out = f;
    return FTKIT_OK;
}

void ftk_flusher_give(struct ftk_flusher *f, const struct ftk_flush_job *job)
{
    pthread_mutex_lock(&f->lock);
    f->job = *job;
    atomic_store(&f->cancel, false);
    atomic_store(&f->alone_s, 0);
    atomic_store(&f->late_s, 0);
    f->busy = true;
    pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
}

bool ftk_flusher_done(struct ftk_flusher *f, struct ftk_flush_result *r)
{
    pthread_mutex_lock(&f->lock);
    bool done = !f->busy;
    if (done)
        *r = f->result;
    pthread_mutex_unlock(&f->lock);
    return done;
}

void ftk_flusher_cancel(struct ftk_flusher *f)
{
    atomic_store(&f->cancel, true);
}

void ftk_flusher_alone(struct ftk_flusher *f, double grace_s)
{
    double none = 0;
    (void)atomic_compare_exchange_strong(&f->alone_s, &none, ftk_now_s() + grace_s);
}

void ftk_flusher_repaired(struct ftk_flusher *f, double grace_s)
{
    atomic_store(&f->late_s, ftk_now_s() + grace_s);
}

double ftk_flusher_silent_s(const struct ftk_flusher *f)
{
    const double sign_s = f ? atomic_load(&f->sign_s) : 0;
    return sign_s > 0 ? ftk_now_s() - sign_s : 0;
}

bool ftk_flusher_close(struct ftk_flusher *f)
{
    if (!f)
        return true;
    pthread_mutex_lock(&list_lock);
    struct ftk_flusher **p = &flushers;
    while (*p && *p != f)
        p = &(*p)->list;
    if (*p)
        *p = f->list;
    pthread_mutex_unlock(&list_lock);
    if (!stop_thread(f)) /* the thread still uses f */
        return false;
    pthread_cond_destroy(&f->wake);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return true;
}
