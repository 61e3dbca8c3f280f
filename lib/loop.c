/* The calls of the solver loop: recover, checkpoint, finish.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "core/event.h"
#include "core/log_ops.h"
#include "core/progress.h"
#include "detect/detect.h"
#include "detect/misuse.h"
#include "detect/watchdog.h"
#include "energy/energy.h"
#include "describe.h"
#include "halt.h"
#include "recover/repair.h"
#include "recover/restore.h"
#include "recover/scrub.h"
#include "recover/spare.h"
#include "replica/planes.h"
#include "set/checkpoint.h"
#include "set/clone.h"
#include "set/course.h"
#include "set/debug_regions.h"
#include "set/device.h"
#include "set/files.h"
#include "set/flip.h"
#include "set/output.h"
#include "set/pack.h"
#include "set/policy.h"
#include "set/replicas.h"
#include "set/status_file.h"
#include "step.h"

#define POLL_EVERY_S 0.001 /* least time between two tests of the watch by ftkit_checkpoint() */

/* The calls of ftkit_checkpoint(), which are the same on all ranks; 0: they need not be. */
static uint64_t calls_to_compare(const ftkit_ctx *ctx)
{
    return ftk_log_apart(ctx) ? 0 : ctx->policy.calls;
}

/* Set the place of this rank, for the report of the watchdog and for ftkit_escape(). */
static void at(ftkit_ctx *ctx, enum ftk_dog_place place)
{
    ftk_replicas_at(ctx, place);
    ftk_watchdog_at(ctx->dog, place, ctx->rank, calls_to_compare(ctx));
}

/* A call begins in which ranks wait for each other. */
static void enter(ftkit_ctx *ctx, enum ftk_dog_place place, const char *call)
{
    at(ctx, place);
    ftk_misuse_enter(ctx, call);
    ftk_misuse_serve(ctx, true);
}

static void leave(ftkit_ctx *ctx, enum ftk_dog_place place)
{
    ftk_misuse_serve(ctx, false);
    ftk_log_leave(ctx);
    at(ctx, place);
}

/* A failure is known, or this rank is rolling back: repair, and bring the regions to the line.
 * FTKIT_ROLLED_BACK: a set was restored; FTKIT_OK: no set was. */
static int roll_back_now(ftkit_ctx *ctx)
{
    uint64_t set = 0;
    int rc = FTKIT_OK;
    if (ctx->detect.failed || !ftk_log_rolling_back(ctx))
        rc = ftk_repair(ctx, MPI_COMM_NULL);
    if (rc == FTKIT_OK && (!ftk_log_of(ctx) || ftk_log_rolling_back(ctx)))
        rc = ftk_restore_line(ctx, &set);
    if (rc == FTK_PARTED) /* impossible: this rank is not in ftkit_close() */
        rc = ftk_fail(FTKIT_ERR_INTERNAL, "the others have closed");
    if (rc != FTKIT_OK)
        return rc;
    if (set > 0)
        ftk_debug_rolled_back(ctx, set);
    ftk_watchdog_progress(ctx->dog);
    return set > 0 ? FTKIT_ROLLED_BACK : FTKIT_OK;
}

/* The regions have just been restored or initialised, on all ranks to the same state: the next call
 * of ftkit_checkpoint() is the first one from this state. */
static void define_state(ftkit_ctx *ctx)
{
    ctx->first_call = true;
    ftk_policy_note_state(ctx);
}

/* Calls are counted from the line.  The call in which a survivor rolls back is call 1.  If the call
 * is at the top of the loop, the first call of a replacement comes before its first step: call 1.
 * If the call is at the bottom, it comes after the step, which has changed the replicated regions:
 * call 2.  A rank that has made call 1 does not write a set in it, so no other rank does. */
static void count_first_call(ftkit_ctx *ctx)
{
    const bool bottom = ctx->restored > 0 && ftk_region_state_sum(ctx) != ctx->state_sum;
    ctx->first_call = false;
    if (bottom) {
        ftk_policy_count(ctx);
        ftk_log_pass_line(ctx);
    }
    ftk_policy_first_call(ctx, !bottom && ctx->repair.line_passed);
}

/* ---- checkpoint ---------------------------------------------------------------------- */

/* roll_back() in a call of ftkit_checkpoint(), which becomes the first call from the line. */
static int roll_back_here(ftkit_ctx *ctx)
{
    int rc = roll_back_now(ctx);
    if (!ftk_log_of(ctx))
        ftk_policy_count_anew(ctx);
    else if (rc == FTKIT_ROLLED_BACK)
        ftk_policy_count(ctx); /* with the log: it becomes the call that wrote the line */
    if (!ftk_log_of(ctx) || rc == FTKIT_ROLLED_BACK)
        ctx->first_call = false;
    if (rc == FTKIT_ROLLED_BACK)
        ftk_policy_note_state(ctx);
    if (rc == FTKIT_OK && !ftk_log_of(ctx)) /* there is no set yet */
        ftk_watchdog_await(ctx->dog);
    return rc;
}

/* roll_back() in another call: the next call of ftkit_checkpoint() is the first from the line. */
static int roll_back_outside(ftkit_ctx *ctx)
{
    int rc = roll_back_now(ctx);
    if (rc == FTKIT_OK && ftk_log_of(ctx))
        return rc;      /* this rank does not roll back */
    if (rc == FTKIT_OK) /* there is no set yet: the program begins its loop anew */
        rc = FTKIT_ROLLED_BACK;
    if (rc == FTKIT_ROLLED_BACK) {
        define_state(ctx);
        ftk_step_changed(ctx);
    }
    return rc;
}

/* Whether a set may be due in this call: then all ranks look together. */
static bool may_write(const ftkit_ctx *ctx)
{
    return !ftk_is_halted(ctx) && !ftk_log_apart(ctx)
           && (ctx->policy.calls >= ctx->policy.next_event || ctx->policy.requested
               || ftk_policy_first_is_due(ctx));
}

/* A set may be due: decide together with all ranks, write the set, and repair failures. */
static int checkpoint_slow(ftkit_ctx *ctx)
{
    for (;;) {
        bool write = false;
        uint64_t had = ctx->committed;
        int rc;
        if (ftk_log_replayed(ctx, false, &rc)) {
            if (rc < 0)
                ftk_policy_failed(ctx, rc);
            return rc;
        }
        if (!may_write(ctx)) /* a repair has put off the set: no rank makes this one */
            return FTKIT_OK;
        struct ftk_chan ch = ftk_chan_of(ctx);
        if (ctx->policy.requested && !ctx->detect.failed)
            ftk_watchdog_at(ctx->dog, FTK_AT_REQUEST, ctx->rank, calls_to_compare(ctx));
        rc = ftk_replicas_meet(&ch);
        if (rc == FTKIT_OK)
            rc = ftk_policy_decide(ctx, &write);
        ftk_watchdog_state(ctx->dog, FTK_DOG_BUSY);
        if (rc == FTKIT_OK && write) {
            ftk_misuse_look_at_handlers(ctx);
            rc = ftk_set_write(ctx);
        }
        if (write && rc < 0 && rc != FTKIT_ERR_PEER && had == ctx->committed)
            ftk_policy_failed(ctx, rc);
        if (rc == FTKIT_OK)
            ftk_status_file(ctx);
        if (had != ctx->committed) {
            ftk_debug_line(ctx);
            ftk_spare_announce(ctx);
        }
        ftk_watchdog_state(ctx->dog, FTK_DOG_RUN);
        if (rc != FTKIT_ERR_PEER)
            return had == ctx->committed ? ftk_log_outcome(ctx, false, rc) : rc;
        at(ctx, FTK_AT_CHECKPOINT);
        rc = roll_back_here(ctx);
        if (rc != FTKIT_OK || (ftk_log_of(ctx) && had != ctx->committed))
            return rc;
        /* no set was restored, because there was none (or this team stays): try again */
    }
}

/* A collective step that makes no line. */
struct step {
    int (*run)(ftkit_ctx *ctx, struct ftk_chan *ch, int *bad);
    int *bad;     /* its result */
    bool at_line; /* ftk_policy_at_line() */
};

static int repeat_step(ftkit_ctx *ctx, int (*back)(ftkit_ctx *ctx), const struct step *s)
{
    bool at_line = s->at_line;
    for (;;) {
        int rc;
        if (!ftk_log_rolling_back(ctx) && ftk_log_replayed(ctx, at_line, &rc))
            return rc;
        struct ftk_chan ch = ftk_chan_of(ctx);
        ch.broken = ctx->detect.failed;
        rc = ftk_log_rolling_back(ctx) ? FTKIT_ERR_PEER : ftk_clone_give_up(ctx);
        if (rc == FTKIT_OK)
            rc = ftk_replicas_meet(&ch);
        if (rc == FTKIT_OK)
            rc = ftk_log_finish_set(ctx, &ch);
        /* all ranks have the set of a halt now, and some may be in ftkit_checkpoint() already */
        const bool halts = s->run != ftk_halt_drain && ftk_halts_now(ctx);
        at_line = at_line && !halts;
        if (rc == FTKIT_OK)
            rc = (halts ? ftk_halt_drain : s->run)(ctx, &ch, s->bad);
        if (rc != FTKIT_ERR_PEER && rc != FTKIT_ERR_CORRUPT) {
            rc = ftk_log_outcome(ctx, at_line, rc);
            return halts && rc == FTKIT_OK ? ftk_halt_end(ctx, rc) : rc;
        }
        rc = back(ctx);
        if (rc != FTKIT_OK || !ftk_log_of(ctx))
            return rc;
    }
}

/* After a failure the function repairs by back(), and a rank that does not roll back (with the log)
 * repeats the step, without the ranks that have completed it. */
static int all_together(ftkit_ctx *ctx, int (*back)(ftkit_ctx *ctx), const struct step *s)
{
    ctx->replica.sets = FTK_SETS_LATER;
    int rc = repeat_step(ctx, back, s);
    ctx->replica.sets = FTK_SETS_COME;
    return rc;
}

/* The end of a job that halts. */
static int drain_together(ftkit_ctx *ctx)
{
    ftk_energy_begin(ctx, FTK_ENERGY_WAIT);
    int rc = all_together(ctx, roll_back_here, &(struct step){ .run = ftk_halt_drain });
    ftk_energy_end(ctx, FTK_ENERGY_WAIT);
    return rc;
}

static int drain_of_wait(ftkit_ctx *ctx, struct ftk_chan *ch, int *bad)
{
    (void)bad;
    return ftk_flush_drain(ctx, ch, FTK_DRAIN_WAIT);
}

/* The set of a halt is in memory, or rc says why it is not: wait until it is durable, once.  With
 * the log this is a call of its own, which a rank that has rolled back to this line repeats. */
static int halt(ftkit_ctx *ctx, int rc)
{
    if (ctx->steer.halt != FTK_HALT_DURABLE) {
        int drained;
        do /* with the log this rank may roll back to the line of the halt: the others wait here */
            drained = drain_together(ctx);
        while (drained == FTKIT_ROLLED_BACK && ftk_is_halted(ctx));
        return drained == FTKIT_OK ? ftk_halt_end(ctx, rc) : drained;
    }
    return FTKIT_HALT;
}

/* A call that makes no line: all_together(), or the end of a job that halts.  A rank that has
 * rolled back to the set of the halt gets the code of the halt: the others wait for it there. */
static int step_or_halt(ftkit_ctx *ctx, const struct step *s)
{
    int rc = FTKIT_OK;
    if (!ftk_is_halted(ctx)) {
        rc = all_together(ctx, roll_back_outside, s);
        if (!ftk_halts_now(ctx) || rc <= FTKIT_ERR_CORRUPT)
            return rc;
    }
    return halt(ctx, rc < 0 ? rc : FTKIT_OK);
}

/* step_or_halt() of a call that is not made at the line after a rollback. */
static int step_unless_spared(
    ftkit_ctx *ctx, int (*run)(ftkit_ctx *ctx, struct ftk_chan *ch, int *bad), int *bad)
{
    return step_or_halt(
        ctx, &(struct step){ run, bad, ftk_log_of(ctx) && ftk_policy_at_line(ctx) });
}

/* A repair is necessary, or a set may be due, or the job halts. */
static int checkpoint_here(ftkit_ctx *ctx)
{
    int rc = FTKIT_OK;
    enter(ctx, FTK_AT_CHECKPOINT, "ftkit_checkpoint");
    if (ctx->detect.failed || ftk_log_rolling_back(ctx))
        rc = roll_back_here(ctx);
    if (rc == FTKIT_OK && may_write(ctx)) {
        const uint64_t had = ctx->committed;
        rc = checkpoint_slow(ctx);
        ctx->called = true;
        if (ctx->committed != had)
            ftk_policy_line(ctx);
    }
    /* with the log FTKIT_ROLLED_BACK, too: the other ranks are in halt(), so that the program would
     * wait for their messages */
    if (ftk_is_halted(ctx) && rc > FTKIT_ERR_CORRUPT)
        rc = halt(ctx, rc < 0 ? rc : FTKIT_OK);
    leave(ctx, FTK_AT_LOOP);
    return ftk_done(ctx, rc);
}

/* Without the log a failure takes all ranks back, in the next call of ftkit_checkpoint(). */
static int foresee(ftkit_ctx *ctx, bool *write)
{
    int rc = FTKIT_OK;
    *write = false;
    if (ctx->detect.failed || ftk_detect_poll(ctx) || ftk_is_halted(ctx))
        return FTKIT_OK;
    enter(ctx, FTK_AT_CHECKPOINT, "ftkit_due");
    ftk_watchdog_state(ctx->dog, FTK_DOG_BUSY);
    rc = ftk_policy_foresee(ctx, write);
    ftk_watchdog_state(ctx->dog, FTK_DOG_RUN);
    leave(ctx, FTK_AT_LOOP);
    if (rc == FTKIT_ERR_PEER)
        *write = false;
    return rc == FTKIT_ERR_PEER ? FTKIT_OK : rc;
}

int ftkit_due(ftkit_ctx *ctx)
{
    bool write = false;
    int rc = ftk_check_ctx(ctx, "ftkit_due");
    if (rc == FTKIT_OK && ctx->where != FTK_IN_LOOP)
        rc = ftk_fail(FTKIT_ERR_STATE, "ftkit_due before ftkit_recover");
    if (rc == FTKIT_OK && ftk_log_of(ctx))
        rc = ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "ftkit_due with the message log (log.enabled): ranks that go on after a failure would "
            "wait for ranks that replay. Ask for sets by ftkit_request(), with checkpoint.period "
            "so long that no other set is due, or use callbacks (ftkit_register_files)");
    if (rc == FTKIT_OK)
        rc = foresee(ctx, &write);
    return rc == FTKIT_OK ? write : ftk_done(ctx, rc);
}

/* Lines are apart: cut if a set is initiated, and make progress with an open set. */
static int checkpoint_apart(ftkit_ctx *ctx)
{
    if (!ftk_log_alone(ctx, "ftkit_checkpoint"))
        return ftk_done(ctx, ftk_log_sound(ctx));
    int rc = ftk_log_checkpoint(ctx);
    ftk_log_leave(ctx);
    if (ctx->status.seen != ctx->committed) { /* a set is committed in any call of MPI */
        ctx->status.seen = ctx->committed;
        ftk_status_file(ctx);
        ftk_spare_announce(ctx);
    }
    return ftk_done(ctx, rc);
}

/* Measure the energy, also where the phase does not change.  A flush ends in its thread. */
static void measure(ftkit_ctx *ctx, double now)
{
    if (!ctx->energy)
        return;
    ftk_flush_poll(ctx);
    ftk_energy_look(ctx, now);
}

int ftkit_checkpoint(ftkit_ctx *ctx)
{
    int rc = ftk_check_ctx(ctx, "ftkit_checkpoint");
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    if (ctx->where != FTK_IN_LOOP)
        return ftk_done(ctx, ftk_fail(FTKIT_ERR_STATE, "ftkit_checkpoint before ftkit_recover"));
    double now = ftk_now_s();
    ftk_policy_enter(ctx);
    if (ctx->first_call)
        count_first_call(ctx);
    ftk_policy_count(ctx);
    ftk_course_call(ctx, now);
    ctx->replica.sets = FTK_SETS_COME;
    ftk_progress_call(ctx);
    if (!ctx->detect.failed && now - ctx->detect.polled_s >= POLL_EVERY_S) {
        ctx->detect.polled_s = now;
        ftk_watchdog_progress(ctx->dog);
        (void)ftk_detect_poll(ctx);
        ftk_describe_progress(ctx, now);
        ftk_flip_look(ctx);
        ftk_flush_look(ctx);
        measure(ctx, now);
        rc = ftk_device_look(ctx);
    }
    if (ctx->detect.failed || ftk_log_rolling_back(ctx) || may_write(ctx) || ftk_is_halted(ctx))
        return checkpoint_here(ctx);
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    ftk_watchdog_calls(ctx->dog, calls_to_compare(ctx));
    return ftk_log_apart(ctx) ? checkpoint_apart(ctx) : FTKIT_OK;
}

/* ---- wait ---------------------------------------------------------------------------- */

int ftkit_wait(ftkit_ctx *ctx)
{
    int rc = ftk_check_ctx(ctx, "ftkit_wait");
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    if (ctx->where != FTK_IN_LOOP)
        return FTKIT_OK; /* no set has been begun */
    if (ftk_policy_spares(ctx))
        return FTKIT_OK;
    enter(ctx, FTK_AT_WAIT, "ftkit_wait");
    ftk_watchdog_state(ctx->dog, FTK_DOG_BUSY);
    ftk_energy_begin(ctx, FTK_ENERGY_WAIT);
    rc = step_unless_spared(ctx, drain_of_wait, NULL);
    ftk_energy_end(ctx, FTK_ENERGY_WAIT);
    ftk_watchdog_state(ctx->dog, FTK_DOG_RUN);
    leave(ctx, FTK_AT_LOOP);
    if (rc == FTKIT_OK)
        rc = ftk_flush_return(ctx);
    ftk_watchdog_progress(ctx->dog);
    return ftk_done(ctx, rc);
}

/* ---- scrub --------------------------------------------------------------------------- */

int ftkit_scrub(ftkit_ctx *ctx, int *corrupt)
{
    int bad = 0;
    int rc = ftk_check_ctx(ctx, "ftkit_scrub");
    if (rc == FTKIT_OK && ctx->where != FTK_IN_LOOP)
        rc = ftk_fail(FTKIT_ERR_STATE, "ftkit_scrub before ftkit_recover");
    if (corrupt)
        *corrupt = 0;
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    if (ftk_policy_spares(ctx))
        return FTKIT_OK;
    enter(ctx, FTK_AT_SCRUB, "ftkit_scrub");
    ftk_watchdog_state(ctx->dog, FTK_DOG_BUSY);
    rc = step_unless_spared(ctx, ftk_scrub, &bad);
    ftk_watchdog_state(ctx->dog, FTK_DOG_RUN);
    leave(ctx, FTK_AT_LOOP);
    if (corrupt)
        *corrupt = bad;
    ftk_watchdog_progress(ctx->dog);
    return ftk_done(ctx, rc);
}

/* ---- finish -------------------------------------------------------------------------- */

static int last_drain(ftkit_ctx *ctx, struct ftk_chan *ch, int *bad)
{
    (void)bad;
    int rc = ftk_flush_drain(ctx, ch, FTK_DRAIN_FINISH);
    if (rc == FTKIT_OK)
        rc = ftk_log_matrix(ctx, ch);
    (void)FTK_FAULT("finish.end");
    return rc;
}

static void event_finish(const ftkit_ctx *ctx)
{
    struct ftk_event e;
    ftk_event_of(&e, ctx, "finish");
    ftk_event_int(&e, "calls", (int64_t)ctx->policy.calls);
    ftk_event_end(&e);
}

int ftkit_finish(ftkit_ctx *ctx)
{
    int rc = ftk_check_ctx(ctx, "ftkit_finish");
    if (rc == FTKIT_OK && ctx->where != FTK_IN_LOOP)
        rc = ftk_fail(FTKIT_ERR_STATE, "ftkit_finish before ftkit_recover");
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    (void)FTK_FAULT("finish.begin");
    enter(ctx, FTK_AT_FINISH, "ftkit_finish");
    /* while a failure can still be repaired */
    ftk_energy_begin(ctx, FTK_ENERGY_WAIT);
    rc = step_or_halt(ctx, &(struct step){ .run = last_drain });
    ftk_energy_end(ctx, FTK_ENERGY_WAIT);
    if (rc == FTKIT_OK)
        rc = ftk_log_sound(ctx);
    leave(ctx, rc == FTKIT_OK ? FTK_AT_END : FTK_AT_LOOP);
    ctx->replica.sets = rc == FTKIT_OK ? FTK_SETS_OVER : FTK_SETS_COME;
    if (rc == FTKIT_OK)
        event_finish(ctx);
    ftk_watchdog_progress(ctx->dog);
    return ftk_done(ctx, rc);
}

/* ---- recover ------------------------------------------------------------------------- */

static int recover(ftkit_ctx *ctx, uint64_t *set)
{
    int rc = FTKIT_OK;
    *set = 0;
    (void)FTK_FAULT("recover.begin");
    if (ctx->detect.failed || ftk_detect_poll(ctx))
        rc = ftk_repair(ctx, MPI_COMM_NULL);
    if (rc == FTKIT_OK)
        rc = ftk_restore_line(ctx, set);
    (void)FTK_FAULT("recover.end");
    if (rc == FTK_PARTED)
        rc = ftk_fail(FTKIT_ERR_INTERNAL, "the others have closed");
    return rc;
}

int ftkit_recover(ftkit_ctx *ctx, uint64_t *set)
{
    uint64_t restored;
    int rc = ftk_check_ctx(ctx, "ftkit_recover");
    if (rc == FTKIT_OK && ctx->where >= FTK_IN_LOOP)
        rc = ftk_fail(FTKIT_ERR_STATE, "ftkit_recover is called once, before the loop");
    if (rc == FTKIT_OK)
        rc = ftk_files_check_loop(ctx);
    if (rc == FTKIT_OK) {
        enter(ctx, FTK_AT_RECOVER, "ftkit_recover");
        rc = recover(ctx, &restored);
        if (rc == FTKIT_OK && restored == 0)
            rc = ftk_output_begin(ctx);
        leave(ctx, rc == FTKIT_OK ? FTK_AT_LOOP : FTK_AT_SETUP);
    }
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    ftk_context_reach(ctx, FTK_IN_LOOP);
    if (ctx->cfg.replicas > 1) {
        ftk_watchdog_planes(ctx->dog, ftk_plane_size(ctx));
        ftk_watchdog_line(ctx->dog, ctx->committed);
    }
    ftk_log_enter_loop(ctx);
    ftk_detect_forget_errors(ctx);
    if (restored == 0)
        ftk_step_fresh(ctx);
    define_state(ctx);
    rc = ftk_device_look(ctx);
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    ftk_debug_start(ctx);
    ftk_watchdog_progress(ctx->dog);
    if (set)
        *set = restored;
    return restored > 0 ? FTKIT_OK : FTKIT_NO_SET;
}
