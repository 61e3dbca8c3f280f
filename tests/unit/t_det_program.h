/* Determinants: the program of t_det.c, and its steps.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The program begins receives, cancels them and waits for them, probes, tests, decides values and
 * sends.  What it does next follows from all outcomes so far.  The model decides the outcomes that
 * are free, completes receives at any moment, and records as the callers of det.h do. */
#ifndef FTK_TESTS_T_DET_PROGRAM_H
#define FTK_TESTS_T_DET_PROGRAM_H

#include "log/base/queue.h"
#include "stepping.h"

#include <unistd.h>

#include "core/context.h"
#include "detect/watch_page.h"
#include "log/determinant/det_inside.h"
#include "log/determinant/set_up.h"
#include "log/mode.h"
#include "log/recovery/recovery.h"
#include "log/request/req_ops.h"

enum { RUNS = 10000, RANKS = 4, RECEIVES = 12, EVENTS = 400, STEPS = 120, TAGS = 5 };
enum { CANCELLED = 1000000, NOTHING = 2000000 }; /* outcomes */

/* A receive, as the program knows it. */
struct receive {
    bool used, wildcard, asked; /* asked: the program has cancelled it */
    int source, tag;
    bool complete; /* in the state at a line */
    int outcome;   /* when it is complete */
    uint64_t order;
};

/* The program: its state follows from the outcomes. */
struct program {
    size_t at; /* steps made */
    uint64_t hash, begun;
    struct receive r[RECEIVES];
};

/* A line, and what a replay from it repeats. */
struct line {
    struct program program;
    size_t sure; /* outcomes that a replay from the line before repeats, when the line was drawn */
    size_t set;  /* apart: the outcomes that the set repeats when all ranks go back to it */
    struct ftk_det *window;
    size_t nwindow;
};

static struct ftk_vcomm comm;
static struct ftkit_ctx ctx;
static const int teams[RANKS] = { 0, 1, 2, 3 };
static struct model {
    struct stepping *s;
    struct program now;
    struct ftk_req *real[RECEIVES];
    uint64_t seen[EVENTS]; /* outcomes, in the order of the program */
    size_t sure;           /* these a replay repeats */
    size_t recorded;       /* determinants, when `sure` was computed */
    struct line line[2];   /* by the parity of the line: the last one, and the one before */
    struct line cut;       /* of the open set */
    bool depends;          /* on the step under way, and on all before: other ranks, or a line */
    bool plain;            /* a program that does not probe or test, and has few receives */
    int slots;             /* receives at once */
    int often;             /* one of so many steps is followed by a failure, or a step of a set */
    bool apart, open, stopped;
    bool alone; /* this process alone may know the last commit */
    uint64_t epoch;
} model;

#define EXPECT(condition) STEP_EXPECT(model.s, condition)

static int choose(int n)
{
    return step_choose(model.s, n);
}

/* ---- the program ------------------------------------------------------------------------ */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

/* What the program chooses: the same in a replay. */
static int wants(unsigned salt, int n)
{
    return (int)((mix(model.now.hash, salt) >> 8) % (uint64_t)n);
}

/* Determinants have been recorded: the outcomes up to here are those of a replay. */
static void note_recorded(void)
{
    const size_t n = ftk_det_count();
    if (n > model.recorded && model.sure < model.now.at)
        model.sure = model.now.at;
    model.recorded = n;
}

/* The step is over. */
static void happened(uint64_t outcome)
{
    struct program *p = &model.now;
    EXPECT(p->at < EVENTS);
    if (p->at < model.sure)
        EXPECT(model.seen[p->at] == outcome);
    model.seen[p->at++] = outcome;
    p->hash = mix(p->hash, outcome + 17);
    note_recorded();
    if (model.depends && model.sure < p->at)
        model.sure = p->at;
    model.depends = false;
}

/* ---- receives: as progress.c, recv.c and kind_recv.c do it ---------------------------------- */

static void begin_real(int slot)
{
    struct receive *p = &model.now.r[slot];
    struct ftk_req *r = model.real[slot] = ftk_req_new(&comm);
    EXPECT(r != NULL);
    r->kind = FTK_REQ_RECV;
    r->peer = p->wildcard ? MPI_ANY_SOURCE : p->source;
    r->tag = p->tag;
    r->recv.want = (struct ftk_envelope){ 0, r->peer, p->tag };
    r->recv.number = ftk_det_begun(r);
    if (p->wildcard) {
        bool known = false;
        r->recv.wildcard_seq = ftk_det_receive(&r->recv.want, &known);
        r->replay.match = known ? FTK_MATCH_KNOWN : FTK_MATCH_OPEN;
        ftk_log.queue.nwildcards += r->recv.wildcard_seq != 0;
    }
    EXPECT(r->recv.want.tag == p->tag);
    r->state = r->replay.cancel == FTK_CANCEL_DONE ? FTK_REQ_WAITING : FTK_REQ_POSTED;
    ftk_queue_append(r);
}

static void finish(int slot, int outcome)
{
    model.now.r[slot].outcome = outcome;
    EXPECT(ftk_req_finish(model.real[slot], MPI_SUCCESS) == MPI_SUCCESS);
    note_recorded();
}

static void cancelled_in_time(int slot)
{
    struct ftk_req *r = model.real[slot];
    if (r->replay.cancel != FTK_CANCEL_DONE)
        ftk_det_cancelled(r->recv.number, true);
    r->recv.cancelled = true;
    finish(slot, CANCELLED);
}

/* A message has come. */
static void receive(int slot)
{
    struct ftk_req *r = model.real[slot];
    const bool known = r->recv.want.source != MPI_ANY_SOURCE;
    const int source = known ? r->recv.want.source : 1 + choose(RANKS - 1);
    if (r->recv.cancelled && r->replay.cancel == FTK_CANCEL_UNKNOWN)
        ftk_det_cancelled(r->recv.number, false);
    r->recv.cancelled = false;
    if (r->recv.wildcard_seq)
        ftk_det_received(r->recv.wildcard_seq, source, model.now.r[slot].tag);
    finish(slot, source);
}

static bool is_under_way(int slot)
{
    return model.now.r[slot].used && !ftk_req_is_done(model.real[slot]);
}

/* The MPI completes a receive, if it can. */
static void look(int slot)
{
    struct ftk_req *r = model.real[slot];
    if (!is_under_way(slot) || r->state != FTK_REQ_POSTED)
        return;
    receive(slot);
}

static void wait_for(int slot)
{
    struct ftk_req *r = model.real[slot];
    if (is_under_way(slot) && r->state == FTK_REQ_WAITING) { /* ftk_req_wait() */
        r->replay.cancel = FTK_CANCEL_UNKNOWN;
        r->state = FTK_REQ_POSTED;
    }
    look(slot);
}

static void cancel(int slot)
{
    struct ftk_req *r = model.real[slot];
    if (r->replay.cancel == FTK_CANCEL_TOO_LATE || r->replay.match != FTK_MATCH_OPEN)
        return;
    if (ftk_req_is_done(r) && !r->recv.cancelled)
        ftk_det_cancelled(r->recv.number, false);
    if (ftk_req_is_done(r))
        return;
    if (r->state == FTK_REQ_POSTED && choose(2)) { /* a message that comes has matched it */
        ftk_det_cancelled(r->recv.number, false);
        r->replay.cancel = FTK_CANCEL_TOO_LATE;
    } else {
        cancelled_in_time(slot);
    }
}

static void consume(int slot)
{
    ftk_req_delete(model.real[slot]);
    model.real[slot] = NULL;
    model.now.r[slot].used = false;
}

/* ---- steps of the program ------------------------------------------------------------------- */

static int slot_wanted(bool used)
{
    const int from = wants(1, model.slots);
    for (int i = 0; i < model.slots; i++)
        if (model.now.r[(from + i) % model.slots].used == used)
            return (from + i) % model.slots;
    return -1;
}

static void step_begin_receive(void)
{
    const int slot = slot_wanted(false);
    if (slot < 0)
        return;
    model.now.r[slot] = (struct receive){ .used = true,
        .wildcard = wants(2, 3) > 0,
        .source = 1 + wants(3, RANKS - 1),
        .tag = wants(4, TAGS),
        .order = ++model.now.begun };
    begin_real(slot);
}

static void step_cancel(void)
{
    const int slot = slot_wanted(true);
    if (slot < 0 || model.now.r[slot].asked)
        return;
    model.now.r[slot].asked = true;
    cancel(slot);
}

static uint64_t step_wait(void)
{
    const int slot = slot_wanted(true);
    if (slot < 0)
        return 0;
    wait_for(slot);
    const int outcome = model.now.r[slot].outcome;
    consume(slot);
    return (uint64_t)outcome;
}

/* Probes: a message of any source. */
static uint64_t step_probe(void)
{
    const struct ftk_det *d;
    const int next = ftk_det_next(FTK_DET_PROBE, &d);
    if (next == FTK_DET_THIS)
        return (uint64_t)d->a * 100 + (uint64_t)d->b;
    if (next == FTK_DET_FREE && choose(2)) {
        const int source = 1 + choose(RANKS - 1), tag = choose(TAGS);
        ftk_det_found(FTK_DET_PROBE, source, tag);
        return (uint64_t)source * 100 + (uint64_t)tag;
    }
    if (next == FTK_DET_FREE)
        ftk_det_found_nothing();
    return NOTHING;
}

/* MPI_Testany of all receives. */
static uint64_t step_test(void)
{
    const struct ftk_det *d;
    int found = -1;
    if (slot_wanted(true) < 0)
        return 0;
    const int next = ftk_det_next(FTK_DET_TEST, &d);
    if (next == FTK_DET_NOTHING)
        return NOTHING;
    if (next == FTK_DET_THIS) {
        found = d->a;
        EXPECT(found >= 0 && found < RECEIVES && model.now.r[found].used);
        wait_for(found);
    }
    for (int i = 0; next == FTK_DET_FREE && found < 0 && i < RECEIVES; i++)
        if (model.now.r[i].used && !is_under_way(i))
            found = i;
    if (found < 0) {
        ftk_det_found_nothing();
        return NOTHING;
    }
    if (next == FTK_DET_FREE)
        ftk_det_found(FTK_DET_TEST, found, 0);
    const int outcome = model.now.r[found].outcome;
    consume(found);
    return (uint64_t)found * 10000000 + (uint64_t)outcome;
}

static uint64_t consume_some(const int *index, int n)
{
    uint64_t sum = (uint64_t)n;
    for (int i = 0; i < n; i++) {
        EXPECT(index[i] >= 0 && index[i] < RECEIVES && model.now.r[index[i]].used);
        wait_for(index[i]);
        sum = mix(sum, (uint64_t)index[i] * 10000000 + (uint64_t)model.now.r[index[i]].outcome);
        consume(index[i]);
    }
    return sum;
}

/* MPI_Testsome of all receives. */
static uint64_t step_some(void)
{
    const struct ftk_det *d;
    int index[RECEIVES], n = 0;
    if (slot_wanted(true) < 0)
        return 0;
    const int next = ftk_det_next(FTK_DET_SOME, &d);
    if (next == FTK_DET_NOTHING)
        return NOTHING;
    if (next == FTK_DET_THIS) {
        n = d->a;
        EXPECT(n > 0 && n <= RECEIVES);
        for (int i = 0; i < n; i++)
            index[i] = d[1 + i].a;
        return consume_some(index, n);
    }
    for (int i = 0; i < RECEIVES; i++)
        if (model.now.r[i].used && !is_under_way(i))
            index[n++] = i;
    if (n == 0) {
        ftk_det_found_nothing();
        return NOTHING;
    }
    ftk_det_found(FTK_DET_SOME, n, 0);
    for (int i = 0; i < n; i++)
        ftk_det_more(index[i]);
    return consume_some(index, n);
}

static uint64_t step_decide(void)
{
    unsigned char v[40];
    const size_t bytes = 1 + (size_t)wants(5, sizeof v);
    uint64_t h = bytes;
    for (size_t i = 0; i < bytes; i++)
        v[i] = (unsigned char)choose(256);
    EXPECT(ftk_det_decide(v, bytes) == FTKIT_OK);
    for (size_t i = 0; i < bytes; i++)
        h = mix(h, v[i]);
    return h;
}

/* Other ranks depend on all outcomes.  Another process of the node sees all determinants. */
static void step_send_one(void)
{
    size_t n;
    ftk_det_before_send();
    const struct ftk_det *v = ftk_det_of(0, &n);
    EXPECT(v != NULL);
    EXPECT(n == ftk_det_count());
    EXPECT(n == 0 || memcmp(v, ftk_det_list(), n * sizeof *v) == 0);
    model.depends = true;
}

#endif
