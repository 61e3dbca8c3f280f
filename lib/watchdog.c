/* The watchdog (see watchdog.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI reports a process that dies, not one that stands still (SIGSTOP, an endless loop) or
 * leaves in a way the runtime does not pass on (exit, MPI_Abort).  The processes of a node
 * share a page with one slot each; a thread in every process, which never calls MPI,
 * renews its own slot and looks at the others:
 *   - a heartbeat older than the timeout: the process is stopped; it is killed
 *   - a process repairs for longer than the timeout (or three times the longest stretch
 *     that the other has ever computed between two ftkit calls, if that is more) and
 *     another has not come: the other is stuck; it is killed
 *   - a process has vanished, and after that time nobody is repairing: its death was not
 *     reported; the job cannot know and is ended
 *   - a repair lasts for twice that time although nobody is missing: the job is ended
 *   - nobody has made progress for stall_s: the job hangs; it is ended */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "context.h"
#include "watchdog.h"

#define PAGE_NAME "/ftkit-dog-"
#define STALE_S 60
#define SLOTS 1024
#define TICK_S 0.25
#define STANDSTILL_S 1.0 /* later than that a tick is not late by chance */
#define PATIENCE 10.0 /* times the timeout, for what may take long and is not known */
#define MAGIC 0x46544b44u /* FTKD */

struct slot {
    _Atomic int pid;        /* 0: free */
    _Atomic int state;      /* enum ftk_dog_state */
    int world_rank;
    _Atomic double beat_s;  /* CLOCK_MONOTONIC is one clock for the node */
    _Atomic double since_s; /* when the state was entered */
    _Atomic double progress_s;
    _Atomic double longest_s;
    _Atomic double told_s;  /* when MPI last told this process of a death */
};

struct page {
    _Atomic unsigned magic;
    struct slot slots[SLOTS];
};

struct ftk_watchdog {
    char name[96];
    struct page *page;
    struct slot *own;
    double timeout_s;
    double stall_s;
    double looked_s;  /* of the thread: when it last did, */
    double resumed_s; /* and when it did again after the machine, or the job, stood still */
    pthread_t thread;
    pthread_mutex_t lock; /* protects stop */
    pthread_cond_t wake;
    bool stop;
};

/* ---- what the thread sees ------------------------------------------------------------*/

/* End all of the job on this node at once, ourselves last: a job that is known to be broken
 * must not be repaired by those who have not noticed. */
static void end_job(struct ftk_watchdog *dog, const char *why)
{
    ftk_run_state("fatal %s", why);
    ftk_report(FTKIT_ERROR, "%s", why);
    for (int i = 0; i < SLOTS; i++) {
        int pid = atomic_load(&dog->page->slots[i].pid);
        if (pid > 0 && &dog->page->slots[i] != dog->own)
            kill(pid, SIGKILL);
    }
    kill(getpid(), SIGKILL);
}

/* Kill a process that only looks alive. */
static void put_down(struct slot *s, const char *why, double seconds)
{
    int pid = atomic_load(&s->pid);
    if (pid <= 0 || !atomic_compare_exchange_strong(&s->pid, &pid, 0))
        return; /* somebody else was faster */
    ftk_report(FTKIT_WARNING,
        "process %d (rank %d of the job) %s for %.1f s: killed", pid, s->world_rank, why,
        seconds);
    kill(pid, SIGKILL);
}

static bool vanished(const struct slot *s)
{
    int pid = atomic_load(&s->pid);
    return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

/* What was before a standstill counts from its end: a job that a batch system suspends must
 * not fall upon its own processes when they wake up one after the other. */
static double from(const struct ftk_watchdog *dog, double then)
{
    return then > dog->resumed_s ? then : dog->resumed_s;
}

static void notice_standstill(struct ftk_watchdog *dog, double now)
{
    if (dog->looked_s > 0 && now - dog->looked_s > TICK_S + STANDSTILL_S) {
        ftk_report(FTKIT_INFO, "process %d has stood still for %.1f s, perhaps with others",
            (int)getpid(), now - dog->looked_s);
        dog->resumed_s = now;
    }
    dog->looked_s = now;
}

static bool repairing(const struct ftk_watchdog *dog, double now, double limit)
{
    const struct page *p = dog->page;
    for (int i = 0; i < SLOTS; i++)
        if (atomic_load(&p->slots[i].pid) > 0
            && atomic_load(&p->slots[i].state) == FTK_DOG_REPAIR
            && now - from(dog, atomic_load(&p->slots[i].since_s)) > limit)
            return true;
    return false;
}

/* How long a process may stay away: three times the longest stretch it is known to have
 * computed between two calls; much longer when that is not known yet, or it is busy in us. */
static double patience(const struct ftk_watchdog *dog, const struct slot *s)
{
    double longest = 3 * atomic_load(&s->longest_s);
    if (longest <= 0 || atomic_load(&s->state) == FTK_DOG_BUSY)
        return PATIENCE * dog->timeout_s;
    return longest > dog->timeout_s ? longest : dog->timeout_s;
}

static void look_at(struct ftk_watchdog *dog, struct slot *s, double now)
{
    char why[160];
    double limit = dog->timeout_s;
    double silent = now - from(dog, atomic_load(&s->beat_s));
    if (atomic_load(&s->state) == FTK_DOG_LEFT)
        return;
    if (vanished(s)) {
        int pid = atomic_load(&s->pid);
        if (atomic_load(&dog->own->told_s) > atomic_load(&s->beat_s)) {
            atomic_compare_exchange_strong(&s->pid, &pid, 0);
            return;
        }
        /* normally MPI tells; but we may be computing, and hear of it later */
        limit = patience(dog, dog->own);
        if (silent > limit + TICK_S && !repairing(dog, now, 0)
            && now - from(dog, atomic_load(&dog->own->since_s)) > limit) {
            snprintf(why, sizeof why,
                "process %d (rank %d of the job) left without MPI telling (exit or "
                "MPI_Abort?): ending the job",
                pid, s->world_rank);
            end_job(dog, why);
        }
        return;
    }
    if (silent > limit) {
        put_down(s, "has been stopped", silent);
        return;
    }
    limit = patience(dog, s);
    if (atomic_load(&s->state) < FTK_DOG_REPAIR && repairing(dog, now, limit))
        put_down(s, "has not come to the repair", limit);
}

static void look_for_stall(struct ftk_watchdog *dog, double now)
{
    char why[200];
    const struct slot *last = NULL;
    double newest = 0;
    for (int i = 0; i < SLOTS; i++) {
        const struct slot *s = &dog->page->slots[i];
        if (atomic_load(&s->pid) <= 0 || atomic_load(&s->state) == FTK_DOG_LEFT)
            continue;
        double p = atomic_load(&s->progress_s);
        if (p <= 0)
            continue; /* a spare */
        newest = p > newest ? p : newest;
        if (!last || p < atomic_load(&last->progress_s))
            last = s;
    }
    if (!last || now - from(dog, newest) < dog->stall_s)
        return;
    snprintf(why, sizeof why,
        "no process of this node has called ftkit for %.1f s; the first to fall silent was "
        "process %d (rank %d of the job): ending the job",
        now - newest, atomic_load(&last->pid), last->world_rank);
    end_job(dog, why);
}

/* A repair that does not end although nobody is missing: MPI itself has lost its way (on
 * Open MPI 5.0 a death during a spawn does that). */
static void look_for_endless_repair(struct ftk_watchdog *dog, double now)
{
    char why[160];
    double limit = dog->timeout_s;
    for (int i = 0; i < SLOTS; i++) {
        const struct slot *s = &dog->page->slots[i];
        double longest = atomic_load(&s->pid) > 0
                && atomic_load(&s->state) < FTK_DOG_REPAIR
            ? patience(dog, s)
            : 3 * atomic_load(&s->longest_s);
        limit = longest > limit ? longest : limit;
    }
    double since = now - from(dog, atomic_load(&dog->own->since_s));
    if (atomic_load(&dog->own->state) != FTK_DOG_REPAIR || since < 2 * limit)
        return;
    snprintf(why, sizeof why,
        "a repair has not ended for %.1f s (process %d, rank %d of the job): ending the job",
        since, (int)getpid(), dog->own->world_rank);
    end_job(dog, why);
}

static void *watch(void *arg)
{
    struct ftk_watchdog *dog = arg;
    pthread_mutex_lock(&dog->lock);
    while (!dog->stop) {
        double now = ftk_now_s();
        atomic_store(&dog->own->beat_s, now);
        notice_standstill(dog, now);
        for (int i = 0; i < SLOTS; i++)
            if (&dog->page->slots[i] != dog->own
                && atomic_load(&dog->page->slots[i].pid) > 0)
                look_at(dog, &dog->page->slots[i], now);
        look_for_endless_repair(dog, now);
        if (dog->stall_s > 0)
            look_for_stall(dog, now);
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)(TICK_S * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&dog->wake, &dog->lock, &until);
    }
    pthread_mutex_unlock(&dog->lock);
    return NULL;
}

/* ---- what the process tells ----------------------------------------------------------*/

void ftk_watchdog_progress(struct ftk_watchdog *dog)
{
    if (!dog)
        return;
    double now = ftk_now_s();
    double before = atomic_load(&dog->own->progress_s);
    if (before > 0 && now - before > atomic_load(&dog->own->longest_s))
        atomic_store(&dog->own->longest_s, now - before);
    atomic_store(&dog->own->progress_s, now);
}

void ftk_watchdog_told(struct ftk_watchdog *dog)
{
    if (dog)
        atomic_store(&dog->own->told_s, ftk_now_s());
}

void ftk_watchdog_end(struct ftk_watchdog *dog, const char *why)
{
    if (dog)
        end_job(dog, why);
}

void ftk_watchdog_state(struct ftk_watchdog *dog, enum ftk_dog_state state)
{
    if (!dog)
        return;
    atomic_store(&dog->own->since_s, ftk_now_s());
    atomic_store(&dog->own->state, (int)state);
}

/* ---- pages of jobs that were killed as a whole -----------------------------------------*/

static bool page_is_dead(const char *name)
{
    struct stat st;
    int fd = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool dead = fstat(fd, &st) == 0 && (size_t)st.st_size >= sizeof(struct page)
        && time(NULL) - st.st_mtime > STALE_S; /* younger ones may be about to be joined */
    struct page *p = dead ? mmap(NULL, sizeof *p, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    (void)close(fd); /* the mapping stays */
    if (p == MAP_FAILED)
        return false;
    for (int i = 0; dead && i < SLOTS; i++) {
        int pid = abs(atomic_load(&p->slots[i].pid));
        dead = pid == 0 || (kill(pid, 0) != 0 && errno == ESRCH);
    }
    (void)munmap(p, sizeof *p);
    return dead;
}

static void sweep(void)
{
    DIR *d = opendir("/dev/shm");
    const struct dirent *e;
    char name[80];
    while (d && (e = readdir(d)) != NULL) {
        if (strncmp(e->d_name, &PAGE_NAME[1], sizeof PAGE_NAME - 2) != 0
            || strlen(e->d_name) > sizeof name - 2)
            continue;
        snprintf(name, sizeof name, "/%.78s", e->d_name);
        if (page_is_dead(name))
            (void)shm_unlink(name); /* somebody else may have been faster */
    }
    if (d)
        (void)closedir(d);
}

/* ---- joining and leaving -------------------------------------------------------------*/

static struct page *map_page(const char *name)
{
    int fd = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    struct page *p = MAP_FAILED;
    if (ftruncate(fd, sizeof *p) == 0) /* new bytes are zero: free slots */
        p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int err = errno;
    (void)close(fd); /* the mapping stays */
    errno = err;
    return p == MAP_FAILED ? NULL : p;
}

static struct slot *take_slot(struct page *p)
{
    for (int i = 0; i < SLOTS; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&p->slots[i].pid, &none, -(int)getpid()))
            return &p->slots[i];
    }
    return NULL;
}

static int start(struct ftk_watchdog *dog)
{
    pthread_condattr_t attr;
    sigset_t all;
    sigset_t old;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&dog->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&dog->lock, NULL);
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&dog->thread, NULL, watch, dog);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err;
}

int ftk_watchdog_open(const char *job, double timeout_s, double stall_s, int world_rank,
    struct ftk_watchdog **out)
{
    struct ftk_watchdog *dog = calloc(1, sizeof *dog);
    if (!dog)
        return ftk_fail(FTKIT_ERR_NOMEM, "watchdog");
    snprintf(dog->name, sizeof dog->name, PAGE_NAME "%s", job);
    dog->timeout_s = timeout_s;
    dog->stall_s = stall_s;
    sweep();
    dog->page = map_page(dog->name);
    dog->own = dog->page ? take_slot(dog->page) : NULL;
    if (!dog->own) {
        int rc = ftk_fail_errno(dog->page ? ENOSPC : errno, "watchdog page %s", dog->name);
        if (dog->page)
            (void)munmap(dog->page, sizeof *dog->page);
        free(dog);
        return rc;
    }
    double now = ftk_now_s();
    dog->own->world_rank = world_rank;
    atomic_store(&dog->own->beat_s, now);
    atomic_store(&dog->own->since_s, now);
    atomic_store(&dog->own->progress_s, 0);
    atomic_store(&dog->own->longest_s, 0);
    atomic_store(&dog->own->told_s, 0);
    atomic_store(&dog->own->state, FTK_DOG_RUN);
    atomic_store(&dog->own->pid, (int)getpid()); /* complete: others may look now */
    int err = start(dog);
    if (err != 0) {
        atomic_store(&dog->own->pid, 0);
        (void)munmap(dog->page, sizeof *dog->page);
        free(dog);
        return ftk_fail_errno(err, "watchdog thread");
    }
    *out = dog;
    return FTKIT_OK;
}

void ftk_watchdog_close(struct ftk_watchdog *dog)
{
    if (!dog)
        return;
    pthread_mutex_lock(&dog->lock);
    dog->stop = true;
    pthread_cond_signal(&dog->wake);
    pthread_mutex_unlock(&dog->lock);
    pthread_join(dog->thread, NULL);
    atomic_store(&dog->own->pid, 0);
    bool last = true;
    for (int i = 0; i < SLOTS; i++)
        last = last && atomic_load(&dog->page->slots[i].pid) == 0;
    (void)munmap(dog->page, sizeof *dog->page);
    if (last) /* a later joiner makes a new one */
        (void)shm_unlink(dog->name);
    pthread_cond_destroy(&dog->wake);
    pthread_mutex_destroy(&dog->lock);
    free(dog);
}
