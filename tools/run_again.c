/* Whether another attempt may make progress.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/progress.h"
#include "run_attempt.h"
#include "sets.h"

void ftk_past_begin(const struct ftk_run *r, struct ftk_past *past)
{
    char path[FTK_PATH_MAX];
    void *at = MAP_FAILED;
    snprintf(path, sizeof path, "%.*s/" FTK_PROGRESS_FILE, FTK_PATH_MAX - 32, r->dir);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, sizeof *past->page) == 0)
        at = mmap(NULL, sizeof *past->page, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        ftk_run_say(
            "cannot make %s: %s; progress is taken from durable sets", path, strerror(errno));
    else
        past->page = at;
    if (fd >= 0)
        close(fd);
}

static uint64_t position(const struct ftk_past *past, bool furthest)
{
    return !past->page ? 0 : atomic_load(furthest ? &past->page->furthest : &past->page->now);
}

/* Progress means that the program has come further than before.  A new set alone is no progress:
 * a restarted job with the message log writes a set at its first call. */
static bool has_progressed(
    const struct ftk_run *r, struct ftk_past *past, const struct ftk_state_facts *facts)
{
    uint64_t now = position(past, true);
    bool further = now > past->furthest;
    if (now == 0) /* the position is not known */
        further = facts->set > past->known && facts->nsets > r->log;
    past->furthest = now;
    past->known = facts->set > past->known ? facts->set : past->known;
    return further;
}

/* Whether the program has crashed at the same position as in the attempt before, or at the same
 * call again and again within this attempt.  When another rank crashes, rank 0 may have made one
 * call more or less. */
static bool crashes_again(const struct ftk_try *a, struct ftk_past *past)
{
    int sig = ftk_try_crash(a);
    uint64_t at = sig ? position(past, false) : 0;
    bool again = at > 0 && past->crashed_at > 0 && sig == past->crash && at + 1 >= past->crashed_at
                 && at <= past->crashed_at + 1;
    past->crashed_at = at;
    past->crash = sig;
    return again || ftk_state_facts(a->state)->again;
}

/* The program crashes at the same place.  The set may have the cause: try an older one, once,
 * unless the user has chosen the start. */
static bool may_try_older(
    struct ftk_run *r, const struct ftk_try *a, struct ftk_past *past, const char *how)
{
    const bool chosen = r->start && strcmp(r->start, "continue") != 0;
    r->older =
        !past->older && !chosen && !getenv("FTKIT_RECOVER_START") && past->used < r->relaunch;
    if (!r->older) {
        ftk_run_say("attempt %d ended %s, at the same place as before: every relaunch would end in "
                    "the same way, so there is none",
            a->number + 1, how);
        return false;
    }
    past->older = true;
    past->used++;
    ftk_run_say("attempt %d ended %s, at the same place as before: relaunching once from the set "
                "before the newest (%d of %d)",
        a->number + 1, how, past->used, r->relaunch);
    return true;
}

/* Whether replicas have differed before the first set, as in the attempt before: no flipped bit is
 * the reason. */
static bool differs_again(const struct ftk_state_facts *facts, struct ftk_past *past)
{
    const bool again = facts->differ && past->differed;
    past->differed = facts->differ;
    return again;
}

bool ftk_past_again(struct ftk_run *r, const struct ftk_try *a, struct ftk_past *past, int *code)
{
    const struct ftk_state_facts *facts = ftk_state_facts(a->state);
    char how[512];
    ftk_try_describe(a, how, sizeof how);
    const bool again = crashes_again(a, past), differs = differs_again(facts, past);
    r->older = false;
    if (has_progressed(r, past, facts))
        past->used = 0;
    if (again)
        return may_try_older(r, a, past, how);
    if (differs) {
        ftk_run_say("attempt %d ended %s. The replicas differed before the first set, as in the "
                    "attempt before: the program is not deterministic, and there is no relaunch",
            a->number + 1, how);
        return false;
    }
    if (facts->busy[0]) {
        ftk_run_say(
            "attempt %d ended: %s. There is no relaunch, which would continue from the sets "
            "of the other job: start again when that job has ended, or with another "
            "directory or context.name",
            a->number + 1, facts->busy);
        *code = TOOL_USAGE;
        return false;
    }
    if (facts->hopeless[0]) {
        ftk_run_say("attempt %d ended: %s: every relaunch would end in the same way, so there is "
                    "none; correct the error, or begin anew with --fresh",
            a->number + 1, ftk_tool_why(facts->hopeless));
        *code = TOOL_USAGE;
        return false;
    }
    if (past->used >= r->relaunch) {
        ftk_run_say("attempt %d ended %s; giving up (%d of %d relaunches used)", a->number + 1, how,
            past->used, r->relaunch);
        return false;
    }
    past->used++;
    ftk_run_say("attempt %d ended %s; relaunching from the newest complete set (%d of %d)",
        a->number + 1, how, past->used, r->relaunch);
    return true;
}
