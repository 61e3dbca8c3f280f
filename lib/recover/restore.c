/* After a repair: bring the regions of this rank to the line.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "clone_plane.h"
#include "complete.h"
#include "core/event.h"
#include "core/log_ops.h"
#include "core/progress.h"
#include "core/repair_state.h"
#include "core/run_state.h"
#include "detect/detect.h"
#include "detect/watchdog.h"
#include "energy/energy.h"
#include "failures.h"
#include "load.h"
#include "plan.h"
#include "programs.h"
#include "redistribute.h"
#include "repair.h"
#include "restore.h"
#include "set/checkpoint.h"
#include "set/course.h"
#include "set/group.h"
#include "set/number.h"
#include "set/unpack.h"
#include "start.h"
#include "transfer.h"

/* Call the repair callback, in which the program makes the objects that depend on the communicator.
 * With the log communicators survive a repair, so the callback runs once in a process. */
static int call_back(struct ftkit_ctx *ctx)
{
    if (!ctx->callback.fn || (ftk_log_of(ctx) && ctx->callback.done))
        return FTKIT_OK;
    ctx->callback.running = true;
    ftk_watchdog_state(ctx->dog, FTK_DOG_BUSY);
    int bad = ctx->callback.fn(ctx, ftk_program_comm(ctx), ctx->callback.arg);
    if (FTK_FAULT("settle.called")) /* injected: a callback that lasts until somebody dies */
        while (!ftk_detect_poll(ctx))
            ;
    ftk_watchdog_state(ctx->dog, FTK_DOG_RUN);
    ctx->callback.running = false;
    /* with the log the callback is done also if a rank has failed meanwhile: the objects that it
     * has made remain, and messages that it has received do not come again */
    ctx->callback.done = bad == 0 && ftk_log_of(ctx);
    if (ctx->detect.failed || ftk_detect_poll(ctx))
        return ftk_fail(FTKIT_ERR_PEER, "a rank failed during the repair callback");
    if (bad)
        return ftk_fail(FTKIT_ERR_CALLBACK, "the repair callback returned %d", bad);
    return FTKIT_OK;
}

/* Agree before continuing, so that no rank waits for one that has failed.  A rank with a local
 * error returns that. */
static int agree(struct ftkit_ctx *ctx, int rc)
{
    struct ftk_chan ch = ftk_chan_of(ctx);
    int all = ftk_agree(&ch, rc, "another rank could not load the set");
    return rc == FTKIT_OK || all == FTKIT_ERR_PEER ? all : rc;
}

/* All ranks have the segment of the line: make the copies that are missing, or parity. */
static int make_copies(struct ftkit_ctx *ctx)
{
    struct ftk_chan ch = ftk_chan_of(ctx);
    struct ftk_plan p;
    int rc = ftk_plan_again(ctx, &ch, &p);
    if (ch.broken)
        return rc;
    if (FTK_FAULT("settle.plan"))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "injected");
    rc = agree(ctx, rc);
    if (rc == FTKIT_OK)
        ftk_plan_clear(&p, &ctx->level[FTK_LEVEL_MEMORY].mem);
    if (rc == FTKIT_OK && p.outcome == FTK_PLAN_GO && !p.from_file)
        rc = ftk_transfer(ctx, &ctx->level[FTK_LEVEL_MEMORY].mem, &ch, &p);
    if (rc == FTKIT_OK)
        rc = ftk_parity_make(&ctx->level[FTK_LEVEL_MEMORY].mem,
            &ctx->level[FTK_LEVEL_MEMORY].layout.group, &ch, ctx->repair.line);
    ftk_plan_free(&p);
    return rc;
}

/* Whether slots of earlier processes in level.memory may be of use.  Not after a shrink: slots
 * serve only as many ranks as wrote the set. */
static bool may_use_slots(const struct ftkit_ctx *ctx)
{
    const struct ftk_repair_state *r = &ctx->repair;
    return ftk_place_is(ctx->level[FTK_LEVEL_MEMORY].mem.place.kind, FTK_OUTLIVES_PROCESS)
           && (r->pending == FTK_PENDING_LOAD
               || (r->pending == FTK_PENDING_LINE && !r->line_unusable));
}

/* The set that was loaded becomes the line of the context.  Its number, and numbers that were found
 * on the way, are not used again. */
static void install(struct ftkit_ctx *ctx, const struct ftk_loaded *l, int rc)
{
    ftk_set_number_past(ctx, l->newest);
    if (l->durable > 0)
        ftk_set_number_durable(ctx, l->durable);
    if (rc != FTKIT_OK || l->set == 0) {
        free(l->source);
        return;
    }
    ftk_set_number_committed(ctx, l->set);
    ftk_repair_line(ctx, l->set, l->from);
    ftk_repair_line_ranks(ctx, l->nranks);
    ftk_failures_line(ctx, l->set);
    ftk_set_number_run(ctx, l->run);
    if (l->source)
        ftk_repair_line_source(ctx, l->source);
}

/* Whether the run of the set has finished with other arguments: rank 0 looks, for all.  rc: the
 * result of this rank so far.  Before install(): when a rank dies meanwhile, the next try asks
 * again. */
static int may_continue(struct ftkit_ctx *ctx, const struct ftk_loaded *l, int rc)
{
    struct ftk_chan ch = ftk_chan_of(ctx);
    if (rc == FTKIT_OK) {
        rc = ftk_start_finished(ctx, l->run, l->set, l->from == FTK_LINE_FILES);
        if (rc != FTKIT_OK)
            ftk_run_hopeless(rc); /* before the others do, who know less */
    }
    int all = ftk_agree(&ch, rc, "rank 0 may not continue from the set");
    return rc == FTKIT_OK || all == FTKIT_ERR_PEER ? all : rc;
}

/* Load the newest set from the first source that has one (slots of level.memory, level.local,
 * files) and make its copies.  *set 0: there is none. */
static int load_newest(struct ftkit_ctx *ctx, uint64_t *set)
{
    struct ftk_loaded l = { .set = 0 };
    int rc = FTKIT_OK;
    bool slots = may_use_slots(ctx);
    if (slots)
        rc = ftk_load_slots(ctx, &ctx->level[FTK_LEVEL_MEMORY], &l);
    slots = l.set > 0;
    if (rc == FTKIT_OK && l.set == 0)
        rc = ftk_load_level(ctx, &l);
    if (rc == FTKIT_OK && l.set == 0 && ctx->cfg.h5_enabled)
        rc = ftk_load_files(ctx, &l);
    *set = l.set;
    if (l.set > 0 && ctx->repair.pending == FTK_PENDING_LOAD)
        rc = may_continue(ctx, &l, rc);
    install(ctx, &l, rc);
    if (rc == FTKIT_OK && l.bare)
        rc = make_copies(ctx);
    if (rc == FTKIT_OK && l.set > 0 && !slots) /* ftk_load_slots() has dropped other sets */
        ftk_mem_drop_others(&ctx->level[FTK_LEVEL_MEMORY].mem, l.set);
    return rc;
}

static int load_line(struct ftkit_ctx *ctx)
{
    uint64_t wanted = ctx->repair.line;
    uint64_t set;
    int rc = load_newest(ctx, &set);
    if (rc == FTKIT_OK && set == 0)
        return ftk_fail(FTKIT_ERR_LOST,
            "set %llu: a rank's segment is lost to memory, and there is no complete set "
            "anywhere else",
            (unsigned long long)wanted);
    if (rc == FTKIT_OK && set != wanted && ftk_log_of(ctx))
        return ftk_fail(FTKIT_ERR_LOST,
            "set %llu: the segment of a rank is lost in memory; set %llu is complete, but with the "
            "message log a rollback to a set before the last one needs a new start of the job",
            (unsigned long long)wanted, (unsigned long long)set);
    if (rc == FTKIT_OK)
        ftk_repair_line_in_file(ctx, false);
    return rc;
}

int ftk_check_line(const struct ftkit_ctx *ctx, const struct ftk_mem_seg *s)
{
    const struct ftk_seg_header *h = (const void *)s->buf;
    int rc = ftk_programs_check(ctx, h);
    if (rc != FTKIT_OK)
        return rc;
    if (!(h->flags & FTK_SEG_APART)
        || (ftk_log_of(ctx) && ctx->cfg.line == FTK_LINE_APART
            && h->nranks == (uint32_t)ctx->nranks))
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_UNSUPPORTED,
        "set %llu is of a line apart: its ranks are at different steps; start with %d ranks, "
        "checkpoint.line = apart, and log.enabled (ftkit run --log)",
        (unsigned long long)h->set, (int)h->nranks);
}

static int restore_line(struct ftkit_ctx *ctx)
{
    struct ftk_mem_seg *s =
        ftk_mem_find(&ctx->level[FTK_LEVEL_MEMORY].mem, ctx->repair.line, ctx->rank);
    if (!s)
        return ftk_fail(
            FTKIT_ERR_INTERNAL, "set %llu is not in memory", (unsigned long long)ctx->repair.line);
    if (FTK_FAULT("restore.corrupt")) {
        s->buf[s->bytes - 1] ^= 1;
        s->verified = false;
    }
    int rc = ftk_mem_verify_head(s, "own copy");
    if (rc == FTKIT_OK)
        rc = ftk_check_line(ctx, s);
    if (rc == FTKIT_OK)
        rc = ftk_region_restore(ctx, s->buf, s->verified);
    if (rc == FTKIT_ERR_CORRUPT)
        rc = ftk_drop_own(ctx, s);
    if (rc == FTKIT_OK)
        ftk_set_number_restored(ctx, ctx->repair.line);
    return rc;
}

/* Bring the regions to the line, which is in memory. */
static int restore(struct ftkit_ctx *ctx)
{
    return ctx->repair.line_nranks == ctx->nranks ? restore_line(ctx) : ftk_redistribute(ctx);
}

/* The plane of this rank stands still: take over the state of another plane. */
static int clone(struct ftkit_ctx *ctx)
{
    int rc = ftk_clone_plane(ctx);
    if (rc == FTKIT_OK)
        rc = restore_line(ctx);
    if (rc == FTKIT_OK)
        ctx->replica.clones++;
    return rc;
}

/* A start of the whole job: load a set, or begin from the initial state.  Because of the vote at
 * the end no rank enters its loop while another rank may still fail to load. */
static int load_or_begin(struct ftkit_ctx *ctx, uint64_t *set)
{
    int rc = load_newest(ctx, set);
    if (rc == FTKIT_OK)
        rc = ftk_start_check(ctx, *set);
    if (*set > 0)
        rc = ftk_log_leave_set_up(ctx, rc);
    if (rc == FTKIT_OK && *set > 0)
        rc = restore(ctx);
    if (*set > 0)
        rc = ftk_log_loaded(ctx, rc);
    if (ctx->repair.pending == FTK_PENDING_LOAD)
        ftk_run_hopeless(rc);
    rc = agree(ctx, rc);
    if (rc == FTKIT_OK)
        ftk_start_began(ctx);
    return rc;
}

static int restore_once(struct ftkit_ctx *ctx, uint64_t *set)
{
    *set = 0;
    int rc = call_back(ctx);
    if (rc != FTKIT_OK)
        return rc;
    switch (ctx->repair.pending) {
    case FTK_PENDING_LOAD:
        return load_or_begin(ctx, set);
    case FTK_PENDING_SHRUNK:
        /* drop segments of a set that was not committed: fewer ranks use its number again */
        if (!ctx->repair.line_from_file)
            ftk_mem_drop_others(&ctx->level[FTK_LEVEL_MEMORY].mem, ctx->repair.line);
        else
            rc = load_line(ctx);
        if (rc == FTKIT_OK)
            rc = restore(ctx);
        break;
    case FTK_PENDING_LINE:
        if (ctx->repair.line_from_file)
            rc = load_line(ctx);
        if (rc == FTKIT_OK)
            rc = restore(ctx);
        break;
    case FTK_PENDING_CLONE:
        rc = clone(ctx);
        if (rc == FTKIT_OK)
            *set = ctx->restored;
        return rc;
    default:
        if (ctx->committed == 0) /* drop segments of a first set that was not committed */
            ftk_mem_drop_others(&ctx->level[FTK_LEVEL_MEMORY].mem, 0);
        return FTKIT_OK;
    }
    if (rc != FTKIT_OK)
        return rc;
    *set = ctx->restored;
    ctx->stats.rollbacks += ctx->where == FTK_IN_LOOP;
    return FTKIT_OK;
}

/* Whether a further repair can cure the error: corrupt segments are released, so it plans without
 * them.  At a start there must be a line: then the set was loaded, and only the restore failed. */
static bool can_do_without(const struct ftkit_ctx *ctx, int rc)
{
    return rc == FTKIT_ERR_CORRUPT
           && (ctx->repair.pending == FTK_PENDING_SHRUNK || ctx->repair.pending == FTK_PENDING_LINE
               || ctx->repair.pending == FTK_PENDING_CLONE
               || (ctx->repair.pending == FTK_PENDING_LOAD && ctx->committed > 0));
}

/* The event "restore": the regions hold the set, or the initial state (set 0). */
static void event_restore(const struct ftkit_ctx *ctx, uint64_t set)
{
    static const char *const from[] = { "own memory", "parity", "memory of earlier processes",
        "level.local", "files" };
    const int at = ctx->repair.line_from;
    char text[48] = "the start";
    struct ftk_event e;
    if (set > 0 && at >= 0)
        snprintf(text, sizeof text, "memory of rank %d", at);
    else if (set > 0)
        snprintf(text, sizeof text, "%s", from[-at - 1]);
    ftk_event_of(&e, ctx, "restore");
    ftk_event_int(&e, "set", (int64_t)set);
    ftk_event_text(&e, "from", text);
    ftk_event_int(&e, "calls", (int64_t)ctx->policy.calls);
    ftk_event_end(&e);
}

/* A local error must not leave other ranks waiting: it is in the next census, and the plan of that
 * repair ends the job for all ranks. */
int ftk_restore_line(struct ftkit_ctx *ctx, uint64_t *set)
{
    for (;;) {
        char why[FTK_DETAIL_MAX] = "";
        ftk_energy_begin(ctx, FTK_ENERGY_REPAIR);
        int rc = restore_once(ctx, set);
        ftk_energy_end(ctx, FTK_ENERGY_REPAIR);
        if (rc == FTKIT_OK) {
            ftk_repair_pending(ctx, FTK_PENDING_NONE);
            ftk_repair_give_up(ctx, 0);
            ftk_energy_choose_reader(ctx); /* no rank waits any more; before this rank replays */
            ftk_log_restored(ctx, *set);
            ftk_progress_restored(ctx, *set);
            ftk_course_restored(ctx, *set);
            event_restore(ctx, *set);
            return rc;
        }
        if (ctx->mode == FTKIT_MODE_RESTART) {
            ftk_start_failed(ctx, rc);
            return ftk_context_end(ctx, rc);
        }
        if (rc != FTKIT_ERR_PEER && !can_do_without(ctx, rc) && !ctx->detect.failed) {
            snprintf(why, sizeof why, "%s", ftk_detail_text());
            ftk_start_failed(ctx, rc);
            ftk_report(FTKIT_ERROR, "context %s: rank %d: %s", ctx->cfg.name, ctx->rank, why);
            ftk_repair_flaw(ctx, rc);
        }
        rc = ftk_repair(ctx, MPI_COMM_NULL);
        if (rc < 0 && why[0])
            return ftk_fail(rc, "%s", why); /* the local text is more precise than the plan's */
        if (rc != FTKIT_OK)
            return rc;
    }
}
