/* Replicas at a set (see replicas.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "replicas.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/event.h"
#include "core/repair_state.h"
#include "core/run_state.h"
#include "region.h"
#include "detect/watchdog.h"
#include "replica/move.h"
#include "replica/planes.h"
#include "unpack.h"

enum { WORD_RESULT = 5, WORD_TRIES = 6 };
enum { MOST_TRIES = 3 };

/* ---- comparing ----------------------------------------------------------------------- */

/* Regions that may have other contents in each replica. */
static bool *regions_to_skip(const struct ftkit_ctx *ctx)
{
    bool *skip = calloc((size_t)ctx->regions.n + 1, sizeof *skip);
    for (int i = 0; skip && i < ctx->regions.n; i++) {
        const struct ftk_region *r = &ctx->regions.list[i];
        skip[i] = (r->system && r->system->differs_in_replicas) || r->compare == FTKIT_COMPARE_OFF;
    }
    return skip;
}

/* Which ranks go back.  Another rank has received a message that differs, or will receive it from
 * the set: then this rank alone cannot put it right. */
static enum ftk_differs go_back(const struct ftkit_ctx *ctx, const struct ftk_comparison *c)
{
    return ctx->replica.tries > 1 || c->subject == FTK_SUBJECT_MESSAGE ? FTK_DIFFERS_ALL
                                                                       : FTK_DIFFERS_HERE;
}

/* Whether there is nothing to go back to, or another try makes no sense. */
static bool is_hopeless(const struct ftkit_ctx *ctx)
{
    return ctx->committed == 0 || ctx->replica.tries >= MOST_TRIES;
}

static const char *action_of(const struct ftkit_ctx *ctx, const struct ftk_comparison *c)
{
    if (ctx->replica.tries >= MOST_TRIES)
        return "told";
    if (c->result == FTK_SPHERE_MENDED)
        return "mended";
    if (ctx->committed == 0)
        return "told";
    return go_back(ctx, c) == FTK_DIFFERS_ALL ? "all go back" : "replicas go back";
}

static void describe_region(
    const struct ftkit_ctx *ctx, const struct ftk_comparison *c, char *text, size_t bytes)
{
    snprintf(text, bytes,
        "region '%s', %" PRIu64 " element%s from %" PRIu64 " (XXH3 %016" PRIx64
        ", in plane %d %016" PRIx64 ")",
        ctx->regions.list[c->region].name, c->count, FTK_S(c->count), c->first, c->sum[0], c->plane,
        c->sum[1]);
}

static void describe_message(const struct ftk_comparison *c, char *text, size_t bytes)
{
    const struct ftk_message *m = &c->message;
    char which[64] = "a message of a collective";
    if (!m->collective)
        snprintf(which, sizeof which, "message %" PRIu64 " with tag %d", m->number, m->tag);
    const size_t n =
        (size_t)snprintf(text, bytes, "%s to rank %d since the last set, %" PRIu64 " byte%s ",
            which, m->dest, m->bytes, FTK_S(m->bytes));
    if (c->sum[0] != 0 && c->sum[1] != 0)
        snprintf(text + n, bytes - n, "(XXH3 %016" PRIx64 ", in plane %d %016" PRIx64 ")",
            c->sum[0], c->plane, c->sum[1]);
    else
        snprintf(text + n, bytes - n, "(%s in plane %d)", c->sum[1] != 0 ? "only" : "not sent",
            c->plane);
}

/* "region 'u', 8 elements from 0 (XXH3 ...)": the first difference. */
static void describe(
    const struct ftkit_ctx *ctx, const struct ftk_comparison *c, char *text, size_t bytes)
{
    if (c->subject == FTK_SUBJECT_LIST)
        snprintf(text, bytes, "their list: other regions are registered");
    else if (c->subject == FTK_SUBJECT_MESSAGE)
        describe_message(c, text, bytes);
    else
        describe_region(ctx, c, text, bytes);
}

/* On one replica, for all of the rank. */
static void report(const struct ftkit_ctx *ctx, uint64_t set, const struct ftk_comparison *c)
{
    struct ftk_event e;
    char text[320];
    if (ftk_plane_of(ctx, ctx->rank) != 0)
        return;
    describe(ctx, c, text, sizeof text);
    const bool ends = is_hopeless(ctx) && c->result != FTK_SPHERE_MENDED;
    if (!ends) /* else end_job() says it */
        ftk_report(FTKIT_WARNING,
            "context %s: set %" PRIu64 ": the replicas of rank %d differ: %s: %s", ctx->cfg.name,
            set, ftk_plane_home(ctx, ctx->rank), text, action_of(ctx, c));
    ftk_event_of(&e, ctx, "sdc");
    ftk_event_int(&e, "set", (int64_t)set);
    ftk_event_int(&e, "of", ftk_plane_home(ctx, ctx->rank));
    ftk_event_int(&e, "plane", c->plane);
    ftk_event_text(
        &e, "region", c->subject == FTK_SUBJECT_REGION ? ctx->regions.list[c->region].name : "");
    if (c->subject == FTK_SUBJECT_MESSAGE) {
        ftk_event_int(&e, "dest", c->message.dest);
        ftk_event_int(&e, "tag", c->message.tag);
        ftk_event_int(&e, "message", (int64_t)c->message.number);
    }
    ftk_event_int(&e, "first", (int64_t)c->first);
    ftk_event_int(&e, "count", (int64_t)c->count);
    ftk_event_text(&e, "action", action_of(ctx, c));
    ftk_event_end(&e);
}

/* The replicas of this rank differ, or not, since the line. */
static void count_try(struct ftkit_ctx *ctx, bool differs)
{
    struct ftk_replica_state *r = &ctx->replica;
    if (r->line != ctx->committed)
        r->tries = 0;
    r->line = ctx->committed;
    r->tries += differs;
}

/* This rank notes what the next repair has to know before it votes: it may not see the result of
 * the vote, because another rank that has seen the result begins the repair. */
static void note(struct ftkit_ctx *ctx, const struct ftk_comparison *c)
{
    count_try(ctx, c->result != FTK_SPHERE_SAME);
    ftk_repair_differ(ctx, FTK_DIFFERS_NOT);
    if (c->result == FTK_SPHERE_DIFFERS && ctx->committed > 0)
        ftk_repair_differ(ctx, go_back(ctx, c));
}

static int mend(struct ftkit_ctx *ctx, const char *seg, const bool *mended)
{
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < ctx->regions.n; i++)
        if (mended[i])
            rc = ftk_region_restore_one(ctx, seg, i);
    return rc;
}

/* Report the difference, and restore what the segment has from other replicas. */
static int settle(struct ftkit_ctx *ctx, const struct ftk_mem_seg *own, struct ftk_comparison *c)
{
    report(ctx, own->set, c);
    return c->mended ? mend(ctx, own->buf, c->mended) : FTKIT_OK;
}

int ftk_replicas_compare(struct ftk_chan *ch, struct ftk_mem_seg *own, struct ftk_comparison *c)
{
    struct ftkit_ctx *ctx = ch->ctx;
    *c = (struct ftk_comparison){ .result = FTK_SPHERE_SAME };
    if (ctx->cfg.replicas == 1)
        return FTKIT_OK;
    bool *skip = regions_to_skip(ctx);
    if (!skip)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, "comparing replicas");
    int rc = ftk_sphere_compare(ch, own ? own->buf : NULL, skip, c);
    free(skip);
    if (rc == FTKIT_OK)
        note(ctx, c);
    (void)FTK_FAULT("replica.compared");
    if (rc == FTKIT_OK && own && c->result != FTK_SPHERE_SAME) /* without own the result is SAME */
        rc = settle(ctx, own, c);
    free(c->mended);
    c->mended = NULL;
    return rc;
}

/* All ranks end the job together: the plan of the next repair says so.  tries: how often the
 * replicas have differed since the line.  In the first try before the first set a bit may have
 * flipped: `ftkit run` starts the job once more. */
static int end_job(struct ftkit_ctx *ctx, int tries)
{
    ctx->replica.tries = 0;
    ftk_repair_differ(ctx, FTK_DIFFERS_NOT);
    if (tries >= MOST_TRIES) {
        ftk_repair_flaw(
            ctx, ftk_fail(FTKIT_ERR_MISMATCH,
                     "replicas differ, and will differ again: the program is not "
                     "deterministic. Rule: times, random numbers and answers from outside go "
                     "through ftkit_decide (replicas.md has the rules)"));
    } else {
        ftk_run_state("differ");
        ftk_repair_flaw(
            ctx, ftk_fail(FTKIT_ERR_LOST,
                     "replicas differ, and there is no set yet to which they could go "
                     "back. If they differ again after a relaunch, the program is not "
                     "deterministic. Rule: times, random numbers and answers from outside go "
                     "through ftkit_decide (replicas.md has the rules)"));
    }
    ftk_detect_raise(ctx);
    return ftk_fail(FTKIT_ERR_PEER, "replicas differ");
}

/* ---- meeting --------------------------------------------------------------------------- */

/* Where a replica is. */
struct place {
    int64_t call; /* enum ftk_dog_place */
    uint64_t calls;
};

static void describe_place(const struct place *at, char *text, size_t bytes)
{
    static const char *const names[FTK_AT_PLACES] = { [FTK_AT_CHECKPOINT] = "ftkit_checkpoint",
        [FTK_AT_WAIT] = "ftkit_wait",
        [FTK_AT_SCRUB] = "ftkit_scrub",
        [FTK_AT_FINISH] = "ftkit_finish",
        [FTK_AT_CLOSE] = "ftkit_close" };
    const bool known = at->call >= 0 && at->call < FTK_AT_PLACES && names[at->call];
    snprintf(text, bytes, "%s after %" PRIu64 " call%s of ftkit_checkpoint",
        known ? names[at->call] : "another call", at->calls, FTK_S(at->calls));
}

/* p, q: planes whose replicas are in different calls. */
static void say_apart(const struct ftkit_ctx *ctx, const struct place *all, int p, int q)
{
    char one[96], other[96];
    struct ftk_event e;
    if (ftk_plane_of(ctx, ctx->rank) != p)
        return;
    describe_place(&all[p], one, sizeof one);
    describe_place(&all[q], other, sizeof other);
    const char *action = ctx->where >= FTK_IN_CLOSE || ctx->committed == 0 ? "the job ends"
                         : is_hopeless(ctx)                                ? "told"
                         : ctx->repair.differs == FTK_DIFFERS_ALL          ? "all go back"
                                                                           : "replicas go back";
    ftk_report(is_hopeless(ctx) || ctx->where >= FTK_IN_CLOSE ? FTKIT_ERROR : FTKIT_WARNING,
        "context %s: the replicas of rank %d differ: in plane %d it is in %s, in plane %d in %s: "
        "%s",
        ctx->cfg.name, ftk_plane_home(ctx, ctx->rank), p, one, q, other, action);
    ftk_event_of(&e, ctx, "sdc");
    ftk_event_int(&e, "set", (int64_t)ctx->next_set);
    ftk_event_int(&e, "of", ftk_plane_home(ctx, ctx->rank));
    ftk_event_int(&e, "plane", q);
    ftk_event_text(&e, "region", "");
    ftk_event_text(&e, "action", action);
    ftk_event_end(&e);
}

/* The replicas of this rank have taken different courses. */
static int part_ways(struct ftkit_ctx *ctx, const struct place *all, int p, int q)
{
    count_try(ctx, true);
    ftk_repair_differ(ctx, ctx->replica.tries > 1 ? FTK_DIFFERS_ALL : FTK_DIFFERS_HERE);
    say_apart(ctx, all, p, q);
    if (all[p].call == FTK_AT_CLOSE || all[q].call == FTK_AT_CLOSE) {
        /* who has left the loop cannot go back: a relaunch can */
        ftk_repair_flaw(ctx, ftk_fail(FTKIT_ERR_LOST, "a replica has left its loop alone"));
    } else if (is_hopeless(ctx)) {
        return end_job(ctx, ctx->replica.tries);
    }
    ftk_detect_raise(ctx);
    return ftk_fail(FTKIT_ERR_PEER, "replicas are in different calls");
}

/* The first plane of these in which the replica is in another call than in plane `first`, -1. */
static int find_other(unsigned planes, const struct place *all, int first)
{
    for (int p = first + 1; p < FTK_PLANES_MAX; p++)
        if ((planes >> p & 1)
            && (all[p].call != all[first].call || all[p].calls != all[first].calls))
            return p;
    return -1;
}

int ftk_replicas_meet(struct ftk_chan *ch)
{
    static const char what[] = "meeting replicas";
    struct ftkit_ctx *ctx = ch->ctx;
    const unsigned planes = ((1U << ctx->cfg.replicas) - 1) & ~ctx->replica.stale;
    struct place all[FTK_PLANES_MAX] = { { 0, 0 } };
    int first = 0;
    if (ctx->cfg.replicas == 1 || ch->broken)
        return FTKIT_OK;
    /* the first call after a rollback or a start is still to come (see loop.c) */
    all[ftk_plane_of(ctx, ctx->rank)] =
        (struct place){ ctx->replica.place, ctx->policy.calls + ctx->first_call };
    const int rc = ftk_sphere_exchange_in(ch, planes, all, sizeof all[0], what);
    while (!(planes >> first & 1))
        first++;
    const int other = rc == FTKIT_OK ? find_other(planes, all, first) : -1;
    if (other < 0)
        return rc;
    /* All of them know it before one begins the repair, which revokes ch->comm: who has ended this
     * exchange has a message of each other one, sent when that one knew.  The revocation may cut
     * the exchange of the others, who go on all the same. */
    struct place again[FTK_PLANES_MAX] = { { 0, 0 } };
    (void)ftk_sphere_exchange_in(ch, planes, again, sizeof again[0], what);
    return part_ways(ctx, all, first, other);
}

/* ---- the vote ------------------------------------------------------------------------- */

void ftk_replicas_ask(
    const struct ftkit_ctx *ctx, const struct ftk_comparison *c, struct ftk_vote *v)
{
    v->min[WORD_RESULT] = -(int64_t)c->result; /* the worst of all ranks */
    /* the most: a replacement does not know of any */
    v->min[WORD_TRIES] = ctx->replica.line == ctx->committed ? -ctx->replica.tries : 0;
}

static void say_end(const struct ftkit_ctx *ctx, uint64_t set, const struct ftk_comparison *c)
{
    char text[320];
    if (c->result == FTK_SPHERE_SAME || ftk_plane_of(ctx, ctx->rank) != 0)
        return;
    describe(ctx, c, text, sizeof text);
    ftk_report(FTKIT_ERROR,
        "context %s: set %" PRIu64 " was not committed: the replicas of rank %d differ in %s%s",
        ctx->cfg.name, set, ftk_plane_home(ctx, ctx->rank), text,
        c->result == FTK_SPHERE_MENDED ? " again, after they were put right"
        : ctx->committed > 0           ? " again, after rollbacks: the program is not deterministic"
        : c->subject == FTK_SUBJECT_MESSAGE ? ": they have sent other data"
                                            : ": they have other data at the first set");
}

/* The repair that ends the job revokes ch->comm, and a rank that has not seen the vote then never
 * says what differs.  Who has ended this second vote knows that all have seen the first one.  The
 * revocation may cut the second vote of the others, who go on all the same. */
static void meet_before_end(struct ftk_chan *ch)
{
    struct ftk_vote again;
    ftk_vote_init(&again);
    (void)ftk_vote(ch, ch->ctx->nranks, &again);
}

int ftk_replicas_agreed(
    struct ftk_chan *ch, uint64_t set, const struct ftk_comparison *c, const struct ftk_vote *v)
{
    struct ftkit_ctx *ctx = ch->ctx;
    if (ctx->cfg.replicas == 1)
        return FTKIT_OK;
    const int tries = (int)-v->min[WORD_TRIES];
    if (v->min[WORD_RESULT]
        == -FTK_SPHERE_SAME) { /* all ranks see this result, or none counts it */
        ctx->replica.found += (uint64_t)tries;
        ctx->replica.corrected += tries > 0;
        return FTKIT_OK;
    }
    if (v->min[WORD_RESULT] == -FTK_SPHERE_MENDED && tries < MOST_TRIES)
        return FTK_REPLICAS_AGAIN;
    if (ctx->committed == 0 || tries >= MOST_TRIES) {
        ctx->replica.found += (uint64_t)tries;
        say_end(ctx, set, c);
        meet_before_end(ch);
        return end_job(ctx, tries);
    }
    ftk_detect_raise(ctx);
    return ftk_fail(FTKIT_ERR_PEER, "set %" PRIu64 ": replicas differ", set);
}

void ftk_replicas_undecided(struct ftkit_ctx *ctx, const struct ftk_comparison *c)
{
    ctx->replica.tries -= c->result != FTK_SPHERE_SAME;
    ftk_repair_differ(ctx, FTK_DIFFERS_NOT);
}

void ftk_replicas_stand_still(struct ftkit_ctx *ctx, unsigned planes, bool lost)
{
    ctx->replica.stale = planes;
    ctx->replica.takeovers += planes != 0 && lost;
}

void ftk_replicas_committed(struct ftkit_ctx *ctx)
{
    ctx->replica.tries = 0;
    ctx->replica.stale = 0;
    ftk_repair_differ(ctx, FTK_DIFFERS_NOT);
    if (ctx->cfg.replicas > 1)
        ftk_watchdog_line(ctx->dog, ctx->committed);
}
