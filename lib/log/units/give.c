/* Help in a replay: the rank that has rolled back gives units away (see units.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "core/event.h"
#include "core/grow.h"
#include "detect/detect.h"
#include "log/base/alone.h"
#include "log/base/figures.h"
#include "log/units/hand.h"
#include "log/units/units.h"

#define SHORTEST_WAIT_S 0.002 /* for a helper that has the last units */
/* Units that a helper has at most: one that it does, and others on their way.  This rank and the
 * helper call MPI between two units only, and a long message takes several of these calls. */
enum { AHEAD = 4 };

/* A rank that waits for units. */
struct helper {
    int rank;
    unsigned has; /* units of this call that have not come back */
    bool unable;  /* it cannot do the units of this call */
};

static struct {
    bool on;          /* this rank has rolled back since the line, and others have not */
    struct helper *v; /* [n] in the order in which they have asked */
    size_t n, room;
    /* ftkit_run_units() */
    uint64_t calls;                    /* so far */
    const struct ftk_units_call *call; /* under way; NULL: none */
    struct ftk_hand hand;
    int code;         /* of the first unit that has failed, which is hand.n; 0: none */
    double longest_s; /* of a unit that was done here in this call */
    double heard_s;   /* when the last unit of this call got its result */
    uint64_t elsewhere, since_line; /* units done by others, for ftkit_query() and the event */
} own;

/* ---- messages ------------------------------------------------------------------------ */

int ftk_give_asked(const struct ftk_control *c)
{
    if (!own.on || !ftk_grow(&own.v, &own.room, own.n + 1, sizeof *own.v))
        return MPI_SUCCESS; /* no unit will come, as from a rank without units */
    own.v[own.n++] = (struct helper){ c->source, 0, false };
    return MPI_SUCCESS;
}

static size_t of_output(const struct ftk_units_head *h)
{
    return h->code == 0 ? h->out_bytes : 0;
}

/* The unit has been done twice, and the results have to be the same. */
static void compare(const struct ftk_units_call *c, size_t i, const void *out, int from)
{
    if (!ftk_log.ctx->cfg.log_check || memcmp(c->out[i], out, c->out_bytes[i]) == 0)
        return;
    ftk_figures_differs();
    ftk_report(FTKIT_ERROR,
        "context %s: rank %d: unit %zu of '%s' has another output in rank %d. Rule: the output of "
        "a unit depends on its input alone",
        ftk_log.ctx->cfg.name, ftk_log.me, i, c->unit->name, from);
}

static void fail(size_t i, int code)
{
    ftk_hand_cut(&own.hand, i);
    own.code = code;
}

/* A helper has returned unit i, which counts. */
static void take_result(size_t i, int64_t code, const void *out, int from)
{
    const struct ftk_units_call *c = own.call;
    own.heard_s = ftk_now_s();
    if (code == FTK_UNITS_UNABLE)
        ftk_hand_take(&own.hand, i);
    else if (!ftk_hand_done(&own.hand, i)) { /* the first result counts */
        if (code == 0)
            compare(c, i, out, from);
    } else if (code != 0)
        fail(i, (int)code);
    else {
        memcpy(c->out[i], out, c->out_bytes[i]);
        own.elsewhere++;
        own.since_line++;
    }
}

int ftk_give_returned(const struct ftk_control *c)
{
    struct ftk_units_head h;
    const void *out;
    if (!ftk_units_read(c, &h, &out, of_output))
        return MPI_ERR_INTERN;
    if (!own.call || h.call != own.calls)
        return MPI_SUCCESS; /* the call is over */
    for (size_t k = 0; k < own.n; k++)
        if (own.v[k].rank == c->source && own.v[k].has > 0) {
            own.v[k].has--;
            own.v[k].unable = own.v[k].unable || h.code == FTK_UNITS_UNABLE;
        }
    if (h.number >= own.call->n || (h.code == 0 && h.out_bytes != own.call->out_bytes[h.number]))
        return MPI_ERR_INTERN;
    if (h.number < own.hand.n) /* else an earlier unit has failed */
        take_result((size_t)h.number, h.code, out, c->source);
    return MPI_SUCCESS;
}

/* Give a helper one more unit.  False: none is left, or it cannot be sent. */
static bool give(struct helper *p)
{
    const struct ftk_units_call *c = own.call;
    const ptrdiff_t i = ftk_hand_give(&own.hand);
    if (i == FTK_HAND_NONE)
        return false;
    (void)FTK_FAULT("units.give");
    struct ftk_units_head h = { .call = own.calls,
        .number = (uint64_t)i,
        .in_bytes = c->in_bytes[i],
        .out_bytes = c->out_bytes[i] };
    memcpy(h.name, c->unit->name, sizeof h.name);
    const bool sent = ftk_units_send(&h, c->in[i], c->in_bytes[i], p->rank, FTK_UNITS_UNIT);
    if (sent)
        p->has++;
    else
        ftk_hand_take(&own.hand, (size_t)i);
    return sent;
}

/* A unit for each of the first log.helpers helpers that have fewer than `ahead`.  This rank keeps
 * half as many for itself.  False: no unit can be given. */
static bool give_each(unsigned ahead)
{
    int used = 0;
    for (size_t k = 0; k < own.n && used < ftk_log.ctx->cfg.log_helpers; k++) {
        if (own.v[k].unable)
            continue;
        used++;
        if (own.v[k].has < ahead && (2 * own.hand.open <= ahead || !give(&own.v[k])))
            return false;
    }
    return true;
}

/* Each helper has one unit before one of them has two, and so on. */
static void give_all(void)
{
    for (unsigned ahead = 1; ahead <= AHEAD && give_each(ahead); ahead++)
        continue;
}

/* The call is over.  A helper that still has units of it may not wait any more: it asks again if it
 * does. */
static void stop_helpers(bool may_send)
{
    size_t kept = 0;
    for (size_t k = 0; k < own.n; k++) {
        const struct ftk_units_head h = { .call = own.calls };
        own.v[k].unable = false;
        if (own.v[k].has == 0)
            own.v[kept++] = own.v[k];
        else if (may_send)
            (void)ftk_units_send(&h, NULL, 0, own.v[k].rank, FTK_UNITS_STOP);
    }
    own.n = kept;
}

/* ---- ftkit_run_units() --------------------------------------------------------------- */

/* All units are given.  A helper has begun its unit before this rank could, so its result comes
 * first, and the next one soon after that, unless the helper is late: it computes for the program
 * again, or it is lost. */
static bool may_wait(double now)
{
    const double usual = 2 * own.longest_s;
    return now - own.heard_s < (usual > SHORTEST_WAIT_S ? usual : SHORTEST_WAIT_S);
}

static void run_one(const struct ftk_units_call *c, size_t i, double now)
{
    (void)FTK_FAULT("units.own");
    const int code = ftk_units_call(c, i);
    own.heard_s = ftk_now_s();
    if (own.heard_s - now > own.longest_s)
        own.longest_s = own.heard_s - now;
    if (code != 0)
        fail(i, code);
    else
        (void)ftk_hand_done(&own.hand, i);
}

static int run_with_helpers(const struct ftk_units_call *c)
{
    if (!ftk_hand_begin(&own.hand, c->n))
        return ftk_units_run_here(c, ftk_units_call);
    own.call = c;
    own.calls++;
    own.code = 0;
    own.longest_s = 0;
    own.heard_s = ftk_now_s();
    bool may_look = true;
    while (ftk_hand_next(&own.hand) != FTK_HAND_NONE) {
        may_look = ftk_units_look();
        if (may_look)
            give_all();
        const ptrdiff_t i = ftk_hand_next(&own.hand); /* results may have come */
        const double now = ftk_now_s();
        if (own.hand.open == 0 && may_look && may_wait(now))
            (void)sched_yield();
        else if (i != FTK_HAND_NONE)
            run_one(c, (size_t)i, now);
    }
    may_look = may_look && ftk_units_look(); /* compare what has come meanwhile */
    own.call = NULL;
    stop_helpers(may_look);
    const int rc = own.code == 0 ? FTKIT_OK : ftk_unit_failed(c, own.hand.n, own.code);
    ftk_hand_end(&own.hand);
    return rc;
}

int ftk_units_run(const struct ftk_units_call *c)
{
    if (!ftk_alone_enter("ftkit_run_units"))
        return ftk_alone_check();
    const int rc = own.on && c->n > 1 ? run_with_helpers(c) : ftk_units_run_here(c, ftk_units_call);
    ftk_alone_leave();
    return rc;
}

/* ---- the part ------------------------------------------------------------------------ */

void ftk_give_begin(void)
{
    own.on = true;
    own.n = 0;
}

void ftk_give_end(void)
{
    if (own.on && own.since_line > 0) {
        struct ftk_event e;
        ftk_event_of(&e, ftk_log.ctx, "helped");
        ftk_event_int(&e, "units", (int64_t)own.since_line);
        ftk_event_end(&e);
    }
    own.since_line = 0;
    own.on = false;
    own.n = 0;
}

void ftk_give_figures(ftkit_info *info)
{
    info->units_elsewhere = own.elsewhere;
}

void ftk_give_close(void)
{
    free(own.v);
    memset(&own, 0, sizeof own);
}
