/* Help in a replay: a rank that waits does units of others (see units.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "log/base/plane.h"
#include "log/units/units.h"

#define AFTER_S 0.001  /* of a wait: then this rank helps */
enum { SPARE = 4 };    /* ranks that ask, for each one that may help */
enum { ALIGNED = 64 }; /* bytes: of inputs and outputs */

/* A unit that this rank has to do. */
struct unit {
    struct unit *next;
    struct ftk_units_head head;
    int from;
    void *in; /* [head.in_bytes] */
};

static struct {
    int *back; /* [nback] ranks that have rolled back in this epoch */
    int nback;
    int place; /* ranks that stay, before this one */
    bool asked;
    int rank;           /* the one asked, or asked last */
    uint64_t stopped;   /* a call of the rank asked: it is over, and so are those before it */
    struct unit *first; /* in the order in which they have come */
    unsigned turns;     /* of the wait at its last look; a new wait begins with fewer */
    double since_s;
    uint64_t done; /* for ftkit_query() */
} own;

static void drop_units(void)
{
    ftk_parts_be_eager(false);
    while (own.first) {
        struct unit *u = own.first;
        own.first = u->next;
        free(u->in);
        free(u);
    }
}

/* ---- messages ------------------------------------------------------------------------ */

static size_t of_input(const struct ftk_units_head *h)
{
    return h->in_bytes;
}

static size_t nothing(const struct ftk_units_head *h)
{
    (void)h;
    return 0;
}

static void *new_memory(size_t bytes)
{
    return aligned_alloc(ALIGNED, (bytes + ALIGNED - 1) / ALIGNED * ALIGNED);
}

static void reply(struct unit *u, int64_t code, const void *out)
{
    u->head.code = code;
    (void)FTK_FAULT("units.reply");
    (void)ftk_units_send(&u->head, out, code == 0 ? u->head.out_bytes : 0, u->from, FTK_UNITS_DONE);
}

int ftk_help_unit(const struct ftk_control *c)
{
    struct ftk_units_head h;
    const void *in;
    if (!ftk_units_read(c, &h, &in, of_input))
        return MPI_ERR_INTERN;
    if (c->source != own.rank || h.call <= own.stopped)
        return MPI_SUCCESS; /* this rank does not help with that call any more */
    struct unit *u = calloc(1, sizeof *u), **end = &own.first;
    if (u)
        *u = (struct unit){ NULL, h, c->source, new_memory(h.in_bytes) };
    if (!u || !u->in) {
        free(u);
        return MPI_SUCCESS; /* the other rank does the unit itself in the end */
    }
    memcpy(u->in, in, h.in_bytes);
    while (*end)
        end = &(*end)->next;
    *end = u;
    ftk_parts_be_eager(true);
    return MPI_SUCCESS;
}

int ftk_help_stop(const struct ftk_control *c)
{
    struct ftk_units_head h;
    const void *none;
    if (!ftk_units_read(c, &h, &none, nothing))
        return MPI_ERR_INTERN;
    drop_units(); /* they are all of the rank that was asked */
    own.stopped = h.call;
    own.asked = false;
    return MPI_SUCCESS;
}

/* ---- in a wait ----------------------------------------------------------------------- */

/* The rank to ask: one that this rank waits for; or else one for which only few other ranks ask.
 * -1: enough ranks ask. */
static int choose(void)
{
    const int enough =
        SPARE * ftk_log.ctx->cfg.log_helpers; /* for each rank that has rolled back */
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        for (int k = 0; k < own.nback && !ftk_req_is_done(r) && ftk_req_is_receive(r); k++)
            if (r->peer == own.back[k])
                return r->peer;
    return own.place / own.nback < enough ? own.back[own.place % own.nback] : -1;
}

static void ask(void)
{
    const struct ftk_units_head h = { 0 };
    const int rank = choose();
    if (rank < 0)
        return;
    own.stopped = rank == own.rank ? own.stopped : 0;
    own.rank = rank;
    own.asked = ftk_units_send(&h, NULL, 0, rank, FTK_UNITS_ASK);
}

/* Do the first unit. */
static void do_one(void)
{
    struct unit *u = own.first;
    const struct ftk_unit *known = ftk_unit_find(ftk_log.ctx, u->head.name);
    void *out = known ? new_memory(u->head.out_bytes) : NULL;
    own.first = u->next;
    ftk_parts_be_eager(own.first != NULL);
    if (out) {
        const struct ftk_units_call c = { known, 1, (const void *const *)&u->in,
            (const size_t[]){ (size_t)u->head.in_bytes }, &out,
            (const size_t[]){ (size_t)u->head.out_bytes } };
        (void)FTK_FAULT("units.help");
        reply(u, ftk_units_call(&c, 0), out);
        own.done++;
    } else
        reply(u, FTK_UNITS_UNABLE, NULL);
    free(out);
    free(u->in);
    free(u);
}

void ftk_help_turn(unsigned turns)
{
    if (own.nback == 0 || turns == 0)
        return;
    const double now = ftk_now_s();
    if (turns <= own.turns)
        own.since_s = now;
    own.turns = turns;
    if (now - own.since_s < AFTER_S || !ftk_units_look())
        return;
    if (own.first)
        do_one();
    else if (!own.asked)
        ask();
}

/* ---- the part ------------------------------------------------------------------------ */

void ftk_help_begin(const struct ftk_log_repair *r)
{
    own.back = malloc((size_t)r->n * sizeof *own.back);
    if (!own.back)
        return; /* this rank does not help */
    own.place = 0;
    for (int k = 0; k < r->n; k++) {
        if (r->back[k])
            own.back[own.nback++] = k;
        else
            own.place += k < r->me;
    }
}

void ftk_help_end(void)
{
    drop_units();
    free(own.back);
    own.back = NULL;
    own.nback = 0;
    own.asked = false;
    own.rank = -1;
    own.turns = UINT_MAX;
}

bool ftk_help_is_idle(void)
{
    return own.first == NULL;
}

void ftk_help_figures(ftkit_info *info)
{
    info->units_helped = own.done;
}

void ftk_help_close(void)
{
    memset(&own, 0, sizeof own);
}
