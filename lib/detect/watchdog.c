/* The watchdog (see watchdog.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI reports a process that dies.  MPI does not report a process that stands still (SIGSTOP, an
 * endless loop) or ends in a way that the runtime does not report (exit, MPI_Abort).  The
 * processes of a node share a page with one slot each.  A thread in every process, which never
 * calls MPI, renews its own slot and looks at the others:
 *   - a heartbeat is older than the timeout: the process is stopped; it is killed
 *   - a process repairs for longer than a limit, and another process has not come to the repair:
 *     the other process is stuck; it is killed.  The limit is the timeout, or three times the
 *     longest stretch that the other process has ever computed between two ftkit calls, if that
 *     is more
 *   - a process has vanished, and no repair has followed for REPORT_S: the first process of the
 *     page gives MPI notice, so the process counts as lost
 *   - MPI takes no notice, and after that limit no process repairs: the job is ended
 *   - a repair lasts for twice that limit although all processes have come: the job is ended
 *   - no rank has made progress for stall_s: the job hangs; it is ended
 *   - no rank has made progress for say_s (or three times the longest stretch), and the ranks
 *     are at different places: one process writes a line that says where each rank is and which
 *     rule the program may break; again after twice, four times ... that time.  The job is ended
 *     if the page proves one of two mistakes: a rank has left its loop (ftkit_finish,
 *     ftkit_close) while another has made more calls of ftkit_checkpoint(), and can never join
 *     it; or a rank is in MPI_Finalize with its context open, and other ranks do not follow
 *   - the same, and replicas of a rank are at different places: a flipped bit may have changed the
 *     course of one of them.  All ranks go back to the last set (ftk_watchdog_parts()); before
 *     the first set the job is ended for a relaunch */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/format.h"
#include "core/mpi_notify.h"
#include "core/run_state.h"
#include "core/thread.h"
#include "dog.h"
#include "exits.h"
#include "last_word.h"

#define TICK_S 0.25
#define STANDSTILL_S 1.0 /* a tick that is later shows a standstill */
#define PATIENCE 10.0    /* times the timeout, while the longest stretch is unknown */
#define SAY_DEVICE_S 5.0 /* of a wait for memory of a device, until a line says so */
#define REPORT_S 0.75 /* for MPI to report a death: from the last heartbeat, at most TICK_S old */

/* ---- the thread ---------------------------------------------------------------------- */

/* Two processes that do this at once may kill each other before either comes to a third one.  The
 * thread of the third one then sees page->ends, and goes on here. */
static void kill_all(struct ftk_watchdog *dog)
{
    for (int i = 0; i < FTK_DOG_SLOTS; i++) {
        int pid = atomic_load(&dog->page->slots[i].pid);
        if (pid > 0 && &dog->page->slots[i] != dog->own)
            kill(pid, SIGKILL);
    }
    kill(getpid(), SIGKILL);
}

void ftk_dog_end_job(struct ftk_watchdog *dog, const char *why)
{
    ftk_run_state("fatal %s", why);
    ftk_report_last("%s", why);
    atomic_store(&dog->page->ends, true);
    kill_all(dog);
}

/* Kill a process that is stuck. */
static void put_down(
    struct ftk_watchdog *dog, struct ftk_dog_slot *s, const char *why, double seconds)
{
    int pid = atomic_load(&s->pid);
    const int job = s->job, world_rank = s->world_rank; /* a free slot may get another process */
    if (pid <= 0 || !atomic_compare_exchange_strong(&s->pid, &pid, 0))
        return; /* another process was faster */
    ftk_report(FTKIT_WARNING, "process %d (rank %d of the job) %s for %.1f s: killed", pid,
        world_rank, why, seconds);
    ftk_last_word_of(dog->page, job, world_rank, FTKIT_LOST_STUCK, 0);
    kill(pid, SIGKILL);
}

bool ftk_dog_vanished(const struct ftk_dog_slot *s)
{
    int pid = atomic_load(&s->pid);
    return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

double ftk_dog_from(const struct ftk_watchdog *dog, double then)
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

/* Whether a process has been in a repair for longer than limit. */
static bool repairing(const struct ftk_watchdog *dog, double now, double limit)
{
    const struct ftk_dog_page *p = dog->page;
    for (int i = 0; i < FTK_DOG_SLOTS; i++)
        if (atomic_load(&p->slots[i].pid) > 0 && atomic_load(&p->slots[i].state) == FTK_DOG_REPAIR
            && now - ftk_dog_from(dog, atomic_load(&p->slots[i].since_s)) > limit)
            return true;
    return false;
}

/* Return how long a process may compute without a call of ftkit: three times its longest stretch
 * between two calls so far, and at least the timeout.  If no stretch is known yet, or the process
 * is in a call of ftkit that may take long: PATIENCE times the timeout. */
static double patience(const struct ftk_watchdog *dog, const struct ftk_dog_slot *s)
{
    double longest = 3 * atomic_load(&s->longest_s);
    if (longest <= 0 || atomic_load(&s->state) == FTK_DOG_BUSY)
        return PATIENCE * dog->timeout_s;
    return longest > dog->timeout_s ? longest : dog->timeout_s;
}

/* Whether this is the first process of the page that lives. */
static bool is_first(const struct ftk_watchdog *dog)
{
    const struct ftk_dog_slot *s = dog->page->slots;
    while (s != dog->own
           && (atomic_load(&s->pid) <= 0 || atomic_load(&s->state) == FTK_DOG_LEFT
               || ftk_dog_vanished(s)))
        s++;
    return s == dog->own;
}

/* Report to MPI a process that has vanished, once.  A death that MPI has reported is no harm.
 * known: this process knows of a failure; but perhaps only because another node has seen the end of
 * a connection, and then a repair hangs until all processes know. */
static void report_lost(struct ftk_watchdog *dog, const struct ftk_dog_slot *s, int pid, bool known)
{
    int *said = &dog->reported[s - dog->page->slots];
    if (*said == pid || !is_first(dog))
        return;
    *said = pid;
    if (ftk_mpi_notify_lost(s->job, s->world_rank))
        ftk_report(known ? FTKIT_DEBUG : FTKIT_INFO,
            "process %d (rank %d of the job) has ended, and MPI has not reported that: it counts "
            "as lost",
            pid, s->world_rank);
}

/* Normally MPI reports a death at once, and a repair follows.  A process that computes learns of it
 * later. */
static void look_at_vanished(struct ftk_watchdog *dog, struct ftk_dog_slot *s, double now)
{
    char why[160];
    int pid = atomic_load(&s->pid);
    double beat = atomic_load(&s->beat_s), silent = now - ftk_dog_from(dog, beat);
    bool known = atomic_load(&dog->own->reported_s) > beat;
    if (atomic_load(&dog->repaired_s) > beat || (known && silent > 2 * REPORT_S)) {
        atomic_compare_exchange_strong(&s->pid, &pid, 0);
        return;
    }
    if (silent > REPORT_S)
        report_lost(dog, s, pid, known);
    double limit = patience(dog, dog->own);
    if (known || silent <= limit + TICK_S || repairing(dog, now, 0)
        || now - ftk_dog_from(dog, atomic_load(&dog->own->since_s)) <= limit)
        return;
    snprintf(why, sizeof why,
        "process %d (rank %d of the job) has ended, and MPI has not reported that (exit or "
        "MPI_Abort?): ending the job",
        pid, s->world_rank);
    ftk_dog_end_job(dog, why);
}

static void look_at(struct ftk_watchdog *dog, struct ftk_dog_slot *s, double now)
{
    double limit = dog->timeout_s;
    double silent = now - ftk_dog_from(dog, atomic_load(&s->beat_s));
    if (atomic_load(&s->state) == FTK_DOG_LEFT)
        return;
    if (ftk_dog_vanished(s)) {
        look_at_vanished(dog, s, now);
        return;
    }
    if (silent > limit) {
        put_down(dog, s, "has been stopped", silent);
        return;
    }
    limit = patience(dog, s);
    if (atomic_load(&s->state) < FTK_DOG_REPAIR && repairing(dog, now, limit))
        put_down(dog, s, "has not come to the repair", limit);
}

/* A repair that does not end although all processes have come: MPI itself hangs (Open MPI 5.0
 * after a death during a spawn, for example). */
static void look_for_endless_repair(struct ftk_watchdog *dog, double now)
{
    char why[160];
    double limit = dog->timeout_s;
    for (int i = 0; i < FTK_DOG_SLOTS; i++) {
        const struct ftk_dog_slot *s = &dog->page->slots[i];
        double longest = atomic_load(&s->pid) > 0 && atomic_load(&s->state) < FTK_DOG_REPAIR
                             ? patience(dog, s)
                             : 3 * atomic_load(&s->longest_s);
        limit = longest > limit ? longest : limit;
    }
    double since = now - ftk_dog_from(dog, atomic_load(&dog->own->since_s));
    if (atomic_load(&dog->own->state) != FTK_DOG_REPAIR || since < 2 * limit)
        return;
    ftk_format(why, sizeof why,
        "a repair has not ended for %.1f s (process %d, rank %d of the job): ending the job", since,
        (int)getpid(), dog->own->world_rank);
    ftk_dog_end_job(dog, why);
}

static void *watch_node(void *arg)
{
    struct ftk_watchdog *dog = arg;
    pthread_mutex_lock(&dog->lock);
    while (!dog->stop) {
        double now = ftk_now_s();
        if (atomic_load(&dog->page->ends))
            kill_all(dog);
        atomic_store(&dog->own->beat_s, now);
        notice_standstill(dog, now);
        for (int i = 0; i < FTK_DOG_SLOTS; i++)
            if (&dog->page->slots[i] != dog->own && atomic_load(&dog->page->slots[i].pid) > 0)
                look_at(dog, &dog->page->slots[i], now);
        look_for_endless_repair(dog, now);
        ftk_dog_look_for_absence(dog, now);
        ftk_dog_look_for_requests(dog);
        if (dog->stall_s > 0)
            ftk_dog_look_for_stall(dog, now);
        if (dog->say_s > 0)
            ftk_dog_look_for_silence(dog, now);
        const struct timespec until = ftk_thread_from_now(TICK_S);
        pthread_cond_timedwait(&dog->wake, &dog->lock, &until);
    }
    pthread_mutex_unlock(&dog->lock);
    return NULL;
}

/* ---- calls of the process ------------------------------------------------------------ */

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

void ftk_watchdog_at(struct ftk_watchdog *dog, enum ftk_dog_place place, int rank, uint64_t calls)
{
    if (!dog)
        return;
    double now = ftk_now_s();
    if (place == FTK_AT_SETUP)
        dog->opened_s = now;
    if (place == FTK_AT_CHECKPOINT && atomic_load(&dog->setup_s) == 0)
        atomic_store(&dog->setup_s, now - dog->opened_s);
    atomic_store(&dog->awaits_s, 0);
    atomic_store(&dog->own->at_s, now);
    atomic_store(&dog->own->rank, rank);
    atomic_store(&dog->own->calls, calls);
    if (place == FTK_AT_LOOP || place == FTK_AT_END) {
        dog->joined = calls;
        atomic_store(&dog->own->passed, calls << 32);
    }
    atomic_store(&dog->own->place, (int)place);
}

void ftk_watchdog_calls(struct ftk_watchdog *dog, uint64_t calls)
{
    if (!dog)
        return;
    atomic_store_explicit(&dog->own->place, FTK_AT_LOOP, memory_order_relaxed);
    atomic_store_explicit(&dog->own->calls, calls, memory_order_relaxed);
    atomic_store_explicit(&dog->own->passed, dog->joined << 32 | (uint32_t)(calls - dog->joined),
        memory_order_relaxed);
}

bool ftk_watchdog_first(struct ftk_watchdog *dog, enum ftk_dog_once line)
{
    return !dog || !(atomic_fetch_or(&dog->page->first, 1U << line) >> line & 1U);
}

void ftk_watchdog_device(struct ftk_watchdog *dog)
{
    if (dog)
        atomic_store(&dog->own->device_pid, (int)getpid());
}

static void await_device(int pid, double seconds)
{
    const double first = seconds < SAY_DEVICE_S ? seconds : SAY_DEVICE_S;
    if (ftk_exits_await(pid, first))
        return;
    if (seconds > first) {
        ftk_report(FTKIT_WARNING,
            "process %d has died, and has not given its memory of a device back for %.0f s: "
            "waiting for it",
            pid, first);
        if (ftk_exits_await(pid, seconds - first))
            return;
    }
    ftk_report(FTKIT_WARNING,
        "process %d has died, and has not given its memory of a device back for %.1f s: going on",
        pid, seconds);
}

void ftk_watchdog_await_devices(struct ftk_watchdog *dog, double seconds)
{
    const double end = ftk_now_s() + seconds;
    for (int i = 0; dog && i < FTK_DOG_SLOTS; i++) {
        const int pid = atomic_load(&dog->page->slots[i].device_pid);
        const double left = end - ftk_now_s();
        if (pid > 0 && pid != (int)getpid() && ftk_exits_is_ending(pid))
            await_device(pid, left > 0 ? left : 0);
    }
}

void ftk_watchdog_reported(struct ftk_watchdog *dog)
{
    if (!dog)
        return;
    atomic_store(&dog->own->reported_s, ftk_now_s());
    dog->back_seen = atomic_load(&dog->page->back); /* this repair was for it */
}

void ftk_watchdog_planes(struct ftk_watchdog *dog, int size)
{
    if (!dog)
        return;
    atomic_store(&dog->page->plane, size);
    dog->back_seen = atomic_load(&dog->page->back);
}

void ftk_watchdog_line(struct ftk_watchdog *dog, uint64_t set)
{
    if (dog)
        atomic_store(&dog->page->line, set);
}

bool ftk_watchdog_parts(struct ftk_watchdog *dog)
{
    if (!dog || atomic_load(&dog->page->back) == dog->back_seen)
        return false;
    dog->back_seen = atomic_load(&dog->page->back);
    return true;
}

bool ftk_watchdog_alone(const struct ftk_watchdog *dog, int n)
{
    int here = 0;
    for (int i = 0; dog && i < FTK_DOG_SLOTS; i++)
        here += atomic_load(&dog->page->slots[i].pid) > 0;
    return !dog || here >= n;
}

void ftk_watchdog_repaired(struct ftk_watchdog *dog)
{
    if (dog)
        atomic_store(&dog->repaired_s, ftk_now_s());
    ftk_watchdog_reported(dog);
}

void ftk_watchdog_await(struct ftk_watchdog *dog)
{
    if (dog)
        atomic_store(&dog->awaits_s, ftk_now_s());
}

void ftk_watchdog_unwind(struct ftk_watchdog *dog)
{
    if (dog)
        atomic_store(&dog->unwinds_s, ftk_now_s());
}

void ftk_watchdog_end(struct ftk_watchdog *dog, const char *why)
{
    if (dog)
        ftk_dog_end_job(dog, why);
}

void ftk_watchdog_state(struct ftk_watchdog *dog, enum ftk_dog_state state)
{
    if (!dog)
        return;
    if (state == FTK_DOG_REPAIR) /* the numbers of calls begin anew: has_passed() in silence.c */
        atomic_store(&dog->own->passed, 0);
    atomic_store(&dog->own->since_s, ftk_now_s());
    atomic_store(&dog->own->state, (int)state);
}

/* ---- joining and leaving ------------------------------------------------------------- */

static struct ftk_dog_slot *take_slot(struct ftk_dog_page *p)
{
    for (int i = 0; i < FTK_DOG_SLOTS; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&p->slots[i].pid, &none, -(int)getpid()))
            return &p->slots[i];
    }
    return NULL;
}

static int start(struct ftk_watchdog *dog)
{
    ftk_thread_cond(&dog->wake);
    pthread_mutex_init(&dog->lock, NULL);
    return ftk_thread_start(&dog->thread, watch_node, dog);
}

int ftk_watchdog_open(
    const char *job, const struct ftk_config *cfg, int world_rank, struct ftk_watchdog **out)
{
    struct ftk_watchdog *dog = calloc(1, sizeof *dog);
    if (!dog)
        return ftk_fail(FTKIT_ERR_NOMEM, "watchdog");
    snprintf(dog->name, sizeof dog->name, FTK_DOG_PREFIX "%s", job);
    dog->timeout_s = cfg->timeout_s;
    dog->stall_s = cfg->stall_s;
    dog->say_s = cfg->say_s;
    int failed = ftk_dog_page_open(dog->name, &dog->page, &dog->page_lock);
    dog->own = failed ? NULL : take_slot(dog->page);
    if (!dog->own) {
        const bool foreign =
            failed == EPERM || failed == EACCES || failed == ELOOP || failed == EMLINK;
        int rc = ftk_fail_errno(failed ? failed : ENOSPC,
            "the page of the watchdog, %s in /dev/shm (%s)", dog->name,
            foreign ? "another user has made it, or a link to it"
                    : "make /dev/shm larger: docker run --shm-size");
        if (!failed)
            ftk_dog_page_close(dog->name, dog->page, dog->page_lock, false);
        free(dog);
        return rc;
    }
    if (dog->own == dog->page->slots) /* one process of the node */
        (void)ftk_dog_sweep(false);   /* leftovers of jobs that were killed as a whole */
    double now = ftk_now_s();
    dog->own->world_rank = world_rank;
    dog->own->job = ftk_mpi_job();
    atomic_store(&dog->own->beat_s, now);
    atomic_store(&dog->own->since_s, now);
    atomic_store(&dog->own->progress_s, 0);
    atomic_store(&dog->own->longest_s, 0);
    atomic_store(&dog->own->reported_s, 0);
    atomic_store(&dog->own->place, FTK_AT_OPEN);
    atomic_store(&dog->own->rank, -1);
    atomic_store(&dog->own->calls, 0);
    atomic_store(&dog->own->at_s, now);
    atomic_store(&dog->own->passed, 0);
    atomic_store(&dog->own->waits_s, 0);
    atomic_store(&dog->own->waiting_s, 0);
    atomic_store(&dog->own->idle_s, 0);
    atomic_store(&dog->own->state, FTK_DOG_RUN);
    atomic_store(&dog->own->pid, (int)getpid()); /* last, because the slot is valid from now on */
    int err = start(dog);
    if (err != 0) {
        atomic_store(&dog->own->pid, 0);
        ftk_dog_page_close(dog->name, dog->page, dog->page_lock, false);
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
    for (int i = 0; i < FTK_DOG_SLOTS; i++)
        last = last && atomic_load(&dog->page->slots[i].pid) == 0;
    ftk_dog_page_close(dog->name, dog->page, dog->page_lock, last);
    pthread_cond_destroy(&dog->wake);
    pthread_mutex_destroy(&dog->lock);
    free(dog);
}
