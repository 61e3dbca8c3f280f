/* Ranks that wait for each other without progress (see dog.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The page has the place and the number of calls of every rank of the node.  Nothing here calls
 * MPI. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/format.h"
#include "core/ranks.h"
#include "core/run_state.h"
#include "dog.h"
#include "last_word.h"

#define LOWEST_CALLS UINT64_MAX
enum { TEXT_MAX = 960, RULE_MAX = 320 };
#define SETUP_MIN_S 5.0 /* for the set-up of a replacement, beside three times that of a survivor */
#define UNWIND_MIN_S 2.0 /* for other ranks that meet the same exception */

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
           && atomic_load(&s->rank) >= 0 && !ftk_dog_vanished(s);
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
    int waits = all->at[FTK_AT_CHECKPOINT] + all->at[FTK_AT_REQUEST] + all->at[FTK_AT_WAIT]
                + all->at[FTK_AT_SCRUB];
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
        "in ftkit_checkpoint", "in ftkit_checkpoint for a set of ftkit_request", "in ftkit_wait",
        "in ftkit_scrub", "in ftkit_finish", "in the program after ftkit_finish", "in ftkit_close",
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
 * loop alone; a relaunch would end in the same way, so the mark `mistake` prevents it.  With
 * replicas a flipped bit may be the reason, and the other replicas may be on other nodes. */
static void end_by_rule(
    struct ftk_watchdog *dog, char *text, size_t at, const char *rule, bool alone)
{
    put_text(text, TEXT_MAX, at, ". Rule: %s; ending the job", rule);
    if (alone && atomic_load(&dog->page->plane) == 0)
        ftk_run_state("mistake a rank has left its loop alone, see the line above");
    ftk_dog_end_job(dog, text);
}

/* Whether replicas of a rank are at different places. */
static bool replicas_part(const struct ftk_watchdog *dog)
{
    const int plane = atomic_load(&dog->page->plane);
    for (int i = 0; plane > 0 && i < FTK_DOG_SLOTS; i++) {
        const struct ftk_dog_slot *a = &dog->page->slots[i];
        for (int k = i + 1; works(a) && k < FTK_DOG_SLOTS; k++) {
            const struct ftk_dog_slot *b = &dog->page->slots[k];
            if (works(b) && atomic_load(&a->rank) % plane == atomic_load(&b->rank) % plane
                && !is_together(a, b))
                return true;
        }
    }
    return false;
}

/* Replicas are at different places: all go back to the last set.  Without a set the job is ended
 * for a relaunch.  Return whether this process has done one of both: set-up, which no rank has
 * measured yet, may take long. */
static bool part_ways(
    struct ftk_watchdog *dog, const struct silence *all, double silent, char *text, size_t at)
{
    if (atomic_load(&dog->page->line) > 0) {
        ftk_report(FTKIT_WARNING,
            "no rank of this node has made progress for %.0f s, and replicas are at different "
            "places: %s: all go back",
            silent, text);
        atomic_fetch_add(&dog->page->back, 1);
        return true;
    }
    if (all->at[FTK_AT_SETUP] + all->at[FTK_AT_RECOVER] > 0)
        return false;
    put_text(text, TEXT_MAX, at,
        ". No rank of this node has made progress for %.0f s (recover.stall_say), replicas of a "
        "rank are at different places, and there is no set yet to which they could go back: "
        "ending the job for a relaunch",
        silent);
    ftk_dog_end_job(dog, text);
    return true;
}

void ftk_dog_look_for_silence(struct ftk_watchdog *dog, double now)
{
    char text[TEXT_MAX] = "";
    bool proven;
    struct silence all = survey_page(dog);
    const char *rule = broken_rule(&all, &proven);
    double newest = ftk_dog_from(dog, all.newest_s), silent = now - newest;
    double bound = 3 * all.longest_s > dog->say_s ? 3 * all.longest_s : dog->say_s;
    if (!rule || all.repairs || !is_my_turn(dog, silent, bound, newest))
        return;
    size_t at = put_places(dog, text, sizeof text, 0);
    if (replicas_part(dog) && part_ways(dog, &all, silent, text, at))
        return;
    if (!proven) {
        ftk_report(FTKIT_WARNING,
            "no rank of this node has made progress for %.0f s; %s. Rule: %s "
            "(no error if a rank computes that long; recover.stall = TIME ends such a job)",
            silent, text, rule);
        return;
    }
    end_by_rule(dog, text, at, rule, true);
}

#define WAIT_FRESH_S 2.0   /* a rank that was seen waiting so long ago still waits */
#define WAIT_LOOK_S 0.25   /* between two looks at the other ranks of the node */
enum { WAIT_TELLERS = 8 }; /* ranks of a node that say what they wait for */

bool ftk_watchdog_waits(struct ftk_watchdog *dog, double since, double now)
{
    int before = 0;
    if (!dog || dog->say_s <= 0)
        return false;
    atomic_store(&dog->own->waits_s, since);
    atomic_store(&dog->own->waiting_s, now);
    if (since > dog->wait_since_s)
        dog->wait_due_s = 0;
    dog->wait_since_s = since;
    double then = ftk_dog_from(dog, since);
    if (now < dog->wait_due_s || now - then < dog->say_s)
        return false;
    dog->wait_due_s = now + WAIT_LOOK_S;
    for (int i = 0; i < FTK_DOG_SLOTS; i++) {
        const struct ftk_dog_slot *s = &dog->page->slots[i];
        if (atomic_load(&s->pid) > 0 && atomic_load(&s->state) == FTK_DOG_REPAIR)
            return false;
        if (!works(s))
            continue;
        if (now - atomic_load(&s->waits_s) < dog->say_s
            || now - atomic_load(&s->waiting_s) > WAIT_FRESH_S)
            return false;
        before += s < dog->own;
    }
    dog->wait_due_s = now + (now - then);
    return before < WAIT_TELLERS;
}

/* Replacements without a set run their set-up again, alone, while the survivors wait in their first
 * ftkit_checkpoint(). */
static void look_for_replacement(struct ftk_watchdog *dog, double now)
{
    char why[TEXT_MAX];
    double since = atomic_load(&dog->awaits_s), waited = now - ftk_dog_from(dog, since);
    if (since <= 0 || waited < SETUP_MIN_S + 3 * atomic_load(&dog->setup_s)
        || atomic_load(&dog->own->state) == FTK_DOG_REPAIR)
        return;
    (void)put_text(why, sizeof why, 0,
        "a failure before the first set was repaired %.1f s ago, and the replacement has not come "
        "to ftkit_checkpoint: ending the job for a relaunch. Rule: up to its first "
        "ftkit_checkpoint a replacement is alone; what communicates belongs into the callback of "
        "ftkit_on_repair",
        waited);
    ftk_dog_end_job(dog, why);
}

/* An exception has left the loop of this rank, and a destructor has called ftkit_close(). */
static void look_for_exception(struct ftk_watchdog *dog, double now)
{
    double since = atomic_load(&dog->unwinds_s), waited = now - ftk_dog_from(dog, since);
    if (since <= 0 || waited < UNWIND_MIN_S + 3 * atomic_load(&dog->own->longest_s)
        || atomic_load(&dog->own->state) != FTK_DOG_RUN)
        return;
    ftk_report(FTKIT_WARNING,
        "process %d (rank %d of the job) has been alone in ftkit_close for %.1f s, because of an "
        "exception: it counts as lost. Rule: an exception of one rank leaves no scope that "
        "closes the context; catch it inside, or call ftkit_abort",
        (int)getpid(), dog->own->world_rank, waited);
    ftk_last_word(dog, FTKIT_LOST_EXIT, -1);
    kill(getpid(), SIGKILL);
}

/* Whether the rank has passed this call of ftkit_checkpoint() without waiting for anybody.  The
 * calls that have returned at once since the last other one: its number, and how many, in one
 * word, so that the two belong together; numbers are modulo 2^32. */
static bool has_passed(const struct ftk_dog_slot *s, uint64_t call)
{
    uint64_t passed = atomic_load(&s->passed);
    uint32_t behind = (uint32_t)call - (uint32_t)(passed >> 32);
    return behind > 0 && behind <= (uint32_t)passed;
}

/* A rank that writes a set waits for all others in the same call.  If one of them has passed that
 * call, it will not come: the rank has called ftkit_request() alone.  While the rank is at this
 * place no rank can have been through a repair, which would number the calls anew. */
void ftk_dog_look_for_requests(struct ftk_watchdog *dog)
{
    const struct ftk_dog_slot *own = dog->own;
    char why[TEXT_MAX];
    uint64_t call = atomic_load(&own->calls);
    double at_s = atomic_load(&own->at_s);
    if (atomic_load(&own->place) != FTK_AT_REQUEST || call == 0
        || atomic_load(&dog->page->plane) > 0) /* a flipped bit may be the reason: they go back */
        return;
    for (int i = 0; i < FTK_DOG_SLOTS; i++) {
        const struct ftk_dog_slot *s = &dog->page->slots[i];
        if (s == own || !works(s) || !has_passed(s, call)
            || atomic_load(&own->place) != FTK_AT_REQUEST || atomic_load(&own->at_s) != at_s)
            continue;
        (void)put_text(why, sizeof why, 0,
            "rank %d writes a set in its call %llu of ftkit_checkpoint because of ftkit_request, "
            "and rank %d has not written one in that call. Rule: every rank calls ftkit_request "
            "before the same call of ftkit_checkpoint; ending the job",
            atomic_load(&own->rank), (unsigned long long)call, atomic_load(&s->rank));
        ftk_run_state("mistake a rank has called ftkit_request alone, see the line above");
        ftk_dog_end_job(dog, why);
    }
}

void ftk_dog_look_for_absence(struct ftk_watchdog *dog, double now)
{
    look_for_replacement(dog, now);
    look_for_exception(dog, now);
}

/* recover.stall: no rank has made progress for that long. */
void ftk_dog_look_for_stall(struct ftk_watchdog *dog, double now)
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
    if (!last || now - ftk_dog_from(dog, newest) < dog->stall_s)
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
    ftk_dog_end_job(dog, why);
}
