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
 *   - a process has vanished, and after that limit no process repairs: the death was not
 *     reported, the job cannot know of it and is ended
 *   - a repair lasts for twice that limit although all processes have come: the job is ended
 *   - no rank has made progress for stall_s: the job hangs; it is ended
 *   - no rank has made progress for say_s (or three times the longest stretch), and the ranks
 *     are at different places: one process writes a line that says where each rank is and which
 *     rule the program may break; again after twice, four times ... that time.  The job is ended
 *     if the page proves one of two mistakes: a rank has left its loop (ftkit_finish,
 *     ftkit_close) while another has made more calls of ftkit_checkpoint(), and can never join
 *     it; or a rank is in MPI_Finalize with its context open, and other ranks do not follow */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/context.h"
#include "core/format.h"
#include "core/ranks.h"
#include "core/run_state.h"
#include "watch_page.h"
#include "watchdog.h"

#define TICK_S 0.25
#define STANDSTILL_S 1.0 /* a tick that is later shows a standstill */
#define PATIENCE 10.0    /* times the timeout, while the longest stretch is unknown */

struct ftk_watchdog {
    char name[96];
    struct ftk_dog_page *page;
    int page_lock;
    struct ftk_dog_slot *own;
    double timeout_s;
    double stall_s;
    double say_s;
    double looked_s;  /* last turn of the thread */
    double resumed_s; /* first turn after the machine, or the job, had stood still */
    pthread_t thread;
    pthread_mutex_t lock; /* protects stop */
    pthread_cond_t wake;
    bool stop;
};

/* ---- the thread ---------------------------------------------------------------------- */

/* Kill all processes of the job on this node at once, this process last.  At once, because the
 * others must not begin to repair a job that cannot continue. */
static void end_job(struct ftk_watchdog *dog, const char *why)
{
    ftk_run_state("fatal %s", why);
    ftk_report_last("%s", why);
    for (int i = 0; i < FTK_DOG_SLOTS; i++) {
        int pid = atomic_load(&dog->page->slots[i].pid);
        if (pid > 0 && &dog->page->slots[i] != dog->own)
            kill(pid, SIGKILL);
    }
    kill(getpid(), SIGKILL);
}

/* Kill a process that is stuck. */
static void put_down(struct ftk_dog_slot *s, const char *why, double seconds)
{
    int pid = atomic_load(&s->pid);
    if (pid <= 0 || !atomic_compare_exchange_strong(&s->pid, &pid, 0))
        return; /* another process was faster */
    ftk_report(FTKIT_WARNING, "process %d (rank %d of the job) %s for %.1f s: killed", pid,
        s->world_rank, why, seconds);
    kill(pid, SIGKILL);
}

static bool vanished(const struct ftk_dog_slot *s)
{
    int pid = atomic_load(&s->pid);
    return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

/* Return the later of a time and the end of the last standstill.  Otherwise the processes of a
 * suspended job would kill each other when they wake up one after the other. */
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

/* Whether a process has been in a repair for longer than limit. */
static bool repairing(const struct ftk_watchdog *dog, double now, double limit)
{
    const struct ftk_dog_page *p = dog->page;
    for (int i = 0; i < FTK_DOG_SLOTS; i++)
        if (atomic_load(&p->slots[i].pid) > 0 && atomic_load(&p->slots[i].state) == FTK_DOG_REPAIR
            && now - from(dog, atomic_load(&p->slots[i].since_s)) > limit)
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

static void look_at(struct ftk_watchdog *dog, struct ftk_dog_slot *s, double now)
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
        /* normally the MPI reports the death; a process that computes learns of it later */
        limit = patience(dog, dog->own);
        if (silent > limit + TICK_S && !repairing(dog, now, 0)
            && now - from(dog, atomic_load(&dog->own->since_s)) > limit) {
            snprintf(why, sizeof why,
                "process %d (rank %d of the job) has ended, and MPI has not reported that (exit or "
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
    double since = now - from(dog, atomic_load(&dog->own->since_s));
    if (atomic_load(&dog->own->state) != FTK_DOG_REPAIR || since < 2 * limit)
        return;
    ftk_format(why, sizeof why,
        "a repair has not ended for %.1f s (process %d, rank %d of the job): ending the job", since,
        (int)getpid(), dog->own->world_rank);
    end_job(dog, why);
}

/* ---- the line with the places of the ranks -------------------------------------------- */

#define LOWEST_CALLS UINT64_MAX
enum { TEXT_MAX = 960, RULE_MAX = 320 };

/* The places of this node's ranks. */
struct silence {
    int ranks;             /* number of working ranks */
    int at[FTK_AT_PLACES]; /* number of these ranks at each place */
    uint64_t most, least;  /* most and fewest calls of ftkit_checkpoint() of a rank */
    uint64_t left;         /* fewest calls of a rank that has left its loop */
    double newest_s;       /* time of the last progress of any rank */
    double longest_s;      /* longest stretch of any rank between two calls */
    bool repairs;          /* a process is in a repair */
};

static bool has_left(int place)
{
    return place >= FTK_AT_FINISH;
}

/* Whether a slot is of a working rank, and not of a spare or a process that ends. */
static bool works(const struct ftk_dog_slot *s)
{
    return atomic_load(&s->pid) > 0 && atomic_load(&s->state) != FTK_DOG_LEFT
           && atomic_load(&s->rank) >= 0 && !vanished(s);
}

static struct silence survey_page(const struct ftk_watchdog *dog)
{
    struct silence all = { .least = LOWEST_CALLS, .left = LOWEST_CALLS };
    for (int i = 0; i < FTK_DOG_SLOTS; i++) {
        const struct ftk_dog_slot *s = &dog->page->slots[i];
        if (atomic_load(&s->pid) <= 0)
            continue;
        all.repairs = all.repairs || atomic_load(&s->state) == FTK_DOG_REPAIR;
        if (!works(s))
            continue;
        int place = atomic_load(&s->place);
        uint64_t calls = atomic_load(&s->calls);
        double at = atomic_load(&s->at_s), progress = atomic_load(&s->progress_s);
        double longest = atomic_load(&s->longest_s);
        all.ranks++;
        all.at[place]++;
        all.most = calls > all.most ? calls : all.most;
        all.least = calls < all.least ? calls : all.least;
        if (has_left(place) && calls < all.left)
            all.left = calls;
        all.newest_s = at > all.newest_s ? at : all.newest_s;
        all.newest_s = progress > all.newest_s ? progress : all.newest_s;
        all.longest_s = longest > all.longest_s ? longest : all.longest_s;
    }
    return all;
}

/* Whether some ranks have left the loop, and some have not. */
static bool some_left(const struct silence *all)
{
    int left = 0;
    for (int place = 0; place < FTK_AT_PLACES; place++)
        left += has_left(place) ? all->at[place] : 0;
    return left > 0 && left < all->ranks;
}

/* Return the rule that the program may break, by the places of the ranks, or NULL.  *proven: the
 * places prove that the program breaks the rule. */
static const char *broken_rule(const struct silence *all, bool *proven)
{
    int setup = all->at[FTK_AT_SETUP] + all->at[FTK_AT_RECOVER];
    int waits = all->at[FTK_AT_CHECKPOINT] + all->at[FTK_AT_WAIT] + all->at[FTK_AT_SCRUB];
    *proven = some_left(all) && (all->most > all->left || all->at[FTK_AT_FINALIZE] > 0);
    if (some_left(all))
        return FTK_RULE_LEAVE ": decide the exit by what all ranks know";
    if (all->at[FTK_AT_SETUP] > 0 && setup < all->ranks)
        return "between ftkit_open and ftkit_recover a replacement is alone: what communicates "
               "belongs into the callback of ftkit_on_repair";
    if (waits > 0 && (waits < all->ranks || all->most != all->least))
        return "every rank calls ftkit_checkpoint (ftkit_wait, ftkit_scrub) equally often and "
               "in the same order";
    return NULL;
}

FTK_PRINTF(4, 5)
static size_t put_text(char *text, size_t bytes, size_t at, const char *fmt, ...)
{
    va_list ap;
    if (at >= bytes)
        return at;
    va_start(ap, fmt);
    int n = ftk_vformat(text + at, bytes - at, fmt, ap);
    va_end(ap);
    return n < 0 ? at : at + (size_t)n;
}

static bool is_together(const struct ftk_dog_slot *a, const struct ftk_dog_slot *b)
{
    return works(b) && atomic_load(&a->place) == atomic_load(&b->place)
           && atomic_load(&a->calls) == atomic_load(&b->calls);
}

/* Write "ranks 0 and 2": all ranks at the place of slot a. */
static void name_together(
    const struct ftk_watchdog *dog, const struct ftk_dog_slot *a, char *text, size_t bytes)
{
    int most = 0;
    for (int i = 0; i < FTK_DOG_SLOTS; i++)
        if (is_together(a, &dog->page->slots[i])) {
            int rank = atomic_load(&dog->page->slots[i].rank);
            most = rank > most ? rank : most;
        }
    int *in = calloc((size_t)most + 1, sizeof *in);
    for (int i = 0; in && i < FTK_DOG_SLOTS; i++)
        if (is_together(a, &dog->page->slots[i])) {
            int rank = atomic_load(&dog->page->slots[i].rank);
            if (rank >= 0 && rank <= most) /* the slot may have changed */
                in[rank] = 1;
        }
    if (in)
        (void)ftk_ranks_text(in, most + 1, text, bytes);
    else
        snprintf(text, bytes, "ranks");
    free(in);
}

/* Write "ranks 0 and 2 in ftkit_checkpoint (call 41 ...)": all ranks at the place of slot first,
 * unless the text has them already. */
static size_t put_group(
    const struct ftk_watchdog *dog, int first, char *text, size_t bytes, size_t at)
{
    static const char *const names[FTK_AT_PLACES] = { "in ftkit_open", "spare",
        "in the program before ftkit_recover", "in ftkit_recover", "in the program",
        "in ftkit_checkpoint", "in ftkit_wait", "in ftkit_scrub", "in ftkit_finish",
        "in the program after ftkit_finish", "in ftkit_close",
        "in MPI_Finalize without ftkit_close" };
    const struct ftk_dog_slot *a = &dog->page->slots[first];
    for (int i = 0; i < first; i++)
        if (is_together(a, &dog->page->slots[i]))
            return at;
    char ranks[160];
    name_together(dog, a, ranks, sizeof ranks);
    return put_text(text, bytes, at, "%s%s %s (call %llu of ftkit_checkpoint)", at > 0 ? "; " : "",
        ranks, names[atomic_load(&a->place)], (unsigned long long)atomic_load(&a->calls));
}

/* Whether this process writes the line that is due.  Of the processes of the node, only the process
 * that sets the time of the next line writes. */
static bool is_my_turn(struct ftk_watchdog *dog, double silent, double bound, double newest)
{
    uint64_t said = atomic_load(&dog->page->said), next;
    double due = 0;
    memcpy(&due, &said, sizeof due);
    if (due < newest) /* a rank has made progress since the last line */
        due = 0;
    if (silent < bound || newest + silent < due)
        return false;
    due = newest + 2 * silent;
    memcpy(&next, &due, sizeof next);
    return atomic_compare_exchange_strong(&dog->page->said, &said, next);
}

/* Append the places of all ranks to the text, and leave room for a rule. */
static size_t put_places(const struct ftk_watchdog *dog, char *text, size_t bytes, size_t at)
{
    for (int i = 0; i < FTK_DOG_SLOTS; i++)
        if (works(&dog->page->slots[i]))
            at = put_group(dog, i, text, bytes - RULE_MAX, at);
    at = at > bytes - RULE_MAX ? bytes - RULE_MAX : at;
    text[at] = '\0';
    return at;
}

/* Append the rule that the program breaks to the text, and end the job.  alone: a rank has left its
 * loop alone; a relaunch would end in the same way, so the mark `mistake` prevents it. */
static void end_by_rule(
    struct ftk_watchdog *dog, char *text, size_t at, const char *rule, bool alone)
{
    put_text(text, TEXT_MAX, at, ". Rule: %s; ending the job", rule);
    if (alone)
        ftk_run_state("mistake a rank has left its loop alone, see the line above");
    end_job(dog, text);
}

static void look_for_silence(struct ftk_watchdog *dog, double now)
{
    char text[TEXT_MAX] = "";
    bool proven;
    struct silence all = survey_page(dog);
    const char *rule = broken_rule(&all, &proven);
    double newest = from(dog, all.newest_s), silent = now - newest;
    double bound = 3 * all.longest_s > dog->say_s ? 3 * all.longest_s : dog->say_s;
    if (!rule || all.repairs || !is_my_turn(dog, silent, bound, newest))
        return;
    size_t at = put_places(dog, text, sizeof text, 0);
    if (!proven) {
        ftk_report(FTKIT_WARNING,
            "no rank of this node has made progress for %.0f s; %s. Rule: %s "
            "(no error if a rank computes that long; recover.stall = TIME ends such a job)",
            silent, text, rule);
        return;
    }
    end_by_rule(dog, text, at, rule, true);
}

/* recover.stall: no rank has made progress for that long. */
static void look_for_stall(struct ftk_watchdog *dog, double now)
{
    char why[TEXT_MAX];
    const struct ftk_dog_slot *last = NULL;
    double newest = 0;
    for (int i = 0; i < FTK_DOG_SLOTS; i++) {
        const struct ftk_dog_slot *s = &dog->page->slots[i];
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
    bool proven;
    const struct silence all = survey_page(dog);
    const char *rule = broken_rule(&all, &proven);
    size_t at = put_text(why, sizeof why, 0,
        "no rank of this node has made progress for %.1f s (recover.stall)", now - newest);
    if (rule) {
        at = put_places(dog, why, sizeof why, at);
        end_by_rule(dog, why, at, rule, some_left(&all));
        return;
    }
    put_text(why, sizeof why, at,
        "; longest without progress: process %d (rank %d of the job): ending the job",
        atomic_load(&last->pid), last->world_rank);
    end_job(dog, why);
}

static void *watch_node(void *arg)
{
    struct ftk_watchdog *dog = arg;
    pthread_mutex_lock(&dog->lock);
    while (!dog->stop) {
        double now = ftk_now_s();
        atomic_store(&dog->own->beat_s, now);
        notice_standstill(dog, now);
        for (int i = 0; i < FTK_DOG_SLOTS; i++)
            if (&dog->page->slots[i] != dog->own && atomic_load(&dog->page->slots[i].pid) > 0)
                look_at(dog, &dog->page->slots[i], now);
        look_for_endless_repair(dog, now);
        if (dog->stall_s > 0)
            look_for_stall(dog, now);
        if (dog->say_s > 0)
            look_for_silence(dog, now);
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
    atomic_store(&dog->own->at_s, ftk_now_s());
    atomic_store(&dog->own->rank, rank);
    atomic_store(&dog->own->calls, calls);
    atomic_store(&dog->own->place, (int)place);
}

void ftk_watchdog_calls(struct ftk_watchdog *dog, uint64_t calls)
{
    if (!dog)
        return;
    atomic_store_explicit(&dog->own->place, FTK_AT_LOOP, memory_order_relaxed);
    atomic_store_explicit(&dog->own->calls, calls, memory_order_relaxed);
}

void ftk_watchdog_told(struct ftk_watchdog *dog)
{
    if (dog)
        atomic_store(&dog->own->told_s, ftk_now_s());
}

bool ftk_watchdog_alone(const struct ftk_watchdog *dog, int n)
{
    int here = 0;
    for (int i = 0; dog && i < FTK_DOG_SLOTS; i++)
        here += atomic_load(&dog->page->slots[i].pid) > 0;
    return !dog || here >= n;
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
    pthread_condattr_t attr;
    sigset_t all;
    sigset_t old;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&dog->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&dog->lock, NULL);
    sigfillset(&all); /* the threads of the program handle the signals */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&dog->thread, NULL, watch_node, dog);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err;
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
    (void)ftk_dog_sweep(false); /* leftovers of jobs that were killed as a whole */
    int failed = ftk_dog_page_open(dog->name, &dog->page, &dog->page_lock);
    dog->own = failed ? NULL : take_slot(dog->page);
    if (!dog->own) {
        int rc = ftk_fail_errno(failed ? failed : ENOSPC, "watchdog page %s", dog->name);
        if (!failed)
            ftk_dog_page_close(dog->name, dog->page, dog->page_lock, false);
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
    atomic_store(&dog->own->place, FTK_AT_OPEN);
    atomic_store(&dog->own->rank, -1);
    atomic_store(&dog->own->calls, 0);
    atomic_store(&dog->own->at_s, now);
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
