/* References of virtual communicators: random steps of a program that makes and frees
 * communicators and has requests on them, with lines and rollbacks between any two steps.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An oracle knows what the program has.  After each step:
 *   - the references of each communicator are what the program and the log have of it
 *   - the contexts in use are those of communicators that the program has or has a request on
 *   - a communicator is in memory if it has a reference or a rollback brings it back; and nothing
 *     else is when a communicator has been made, a line is committed, or the rank has rolled back
 *   - the handle of a communicator is freed with it, and found as long as the program has it
 *
 * The process is rank 0 of one.  Messages are not sent: a request is put among those under way, and
 * taken out again.  Each run has a seed.  FTKIT_TEST_SEED repeats the run with this seed alone.
 * FTKIT_TEST_COUNT is the number of runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/context.h"
#include "log/base/part.h"
#include "log/base/queue.h"
#include "log/mode.h"
#include "log/recovery/recovery.h"
#include "log/recovery/steps.h"
#include "log/request/progress.h"
#include "log/vcomm/comm.h"

enum { RUNS = 4000, STEPS = 80, COMMS = 256, THINGS = 512 };

/* ---- the oracle -------------------------------------------------------------------------- */

/* A communicator. */
struct comm {
    struct ftk_vcomm *vc;
    MPI_Comm handle;
    int context;
    bool live, lost;  /* the program has it; a rollback or a restore has taken it */
    bool old, line;   /* made before the line; the line has it: a rollback brings it back */
    bool shares;      /* freed in a set-up, and the line has another one in its context */
    bool cut, at_cut; /* made before the cut under way; the program had it then */
};

/* What holds a communicator. */
enum kind { NONE, ACTIVE, SMALL, PERSISTENT, IDUP, MATCHED };
struct thing {
    enum kind kind;
    struct comm *comm;
    struct ftk_req *r;
    struct ftk_unexp *message;
    bool freed;         /* MPI_Request_free while it was under way */
    bool active, stale; /* persistent: it is under way; made since the line before a rollback */
    bool since;         /* persistent: made since the line */
    bool since_cut;     /* the same of the cut under way */
};

static struct {
    uint64_t seed, random;
    int step;
    struct comm comm[COMMS];
    int ncomms;
    struct thing thing[THINGS];
    int nthings;
    bool in_set_up;
    bool open; /* a set is under way, of lines apart */
    uint32_t line_persistent, cut_persistent;
    int handles; /* of communicators, not freed */
} o;

#define EXPECT(yes)                                                                                \
    do {                                                                                           \
        if (!(yes)) {                                                                              \
            print_error("FTKIT_TEST_SEED=%llu, step %d: not true: %s\n",                           \
                (unsigned long long)o.seed, o.step, #yes);                                         \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

static uint32_t chance(uint32_t n)
{
    o.random ^= o.random << 13;
    o.random ^= o.random >> 7;
    o.random ^= o.random << 17;
    return (uint32_t)(o.random >> 32) % n;
}

/* References of the program but its handle; *kept: those of the log. */
static uint32_t references(const struct comm *c, uint32_t *kept)
{
    uint32_t refs = 0;
    *kept = 0;
    for (int i = 0; i < o.nthings; i++) {
        const struct thing *t = &o.thing[i];
        if (t->kind == NONE || t->comm != c)
            continue;
        if (t->kind == MATCHED || t->freed || (t->stale && !t->active))
            ++*kept;
        else
            refs++;
    }
    return refs;
}

static bool is_in_list(const struct comm *c)
{
    const struct ftk_vcomm *vc = ftk_log.vcomms.list;
    while (vc && vc != c->vc)
        vc = vc->next;
    return vc && c->vc;
}

/* swept: nothing that is over is left. */
static void check(bool swept)
{
    struct ftk_contexts used, expected, alone;
    int in_memory = 2, handles = 0; /* the world, and the communicator of ftkit_comm() */
    memset(&used, 0, sizeof used);
    memset(&expected, 0, sizeof expected);
    memset(&alone, 0, sizeof alone);
    ftk_contexts_add(&expected, 0);
    ftk_contexts_add(&expected, 1);
    for (int i = 0; i < o.ncomms; i++) {
        struct comm *c = &o.comm[i];
        uint32_t kept, refs = references(c, &kept);
        const bool back = !c->lost && (c->line || (o.open && c->cut && c->at_cut));
        const bool needed = c->live || refs > 0 || kept > 0 || back;
        if (!is_in_list(c))
            c->vc = NULL; /* its memory may be used again */
        EXPECT(!needed || c->vc);
        EXPECT(!swept || needed || !c->vc);
        if (!c->vc)
            continue;
        in_memory++;
        handles += c->live || (c->vc->handle != MPI_COMM_NULL);
        EXPECT(c->vc->refs == refs + c->live);
        EXPECT(c->vc->kept == kept);
        EXPECT(!c->live || ftk_vcomm_find(c->handle) == c->vc);
        EXPECT(c->live || c->vc->handle == MPI_COMM_NULL || !ftk_vcomm_find(c->vc->handle));
        if (!c->lost && (c->live || refs > 0)) {
            EXPECT(c->shares || !ftk_contexts_has(&alone, c->context));
            ftk_contexts_add(c->shares ? &expected : &alone, c->context);
        }
    }
    for (const struct ftk_vcomm *vc = ftk_log.vcomms.list; vc; vc = vc->next)
        in_memory--;
    for (size_t i = 0; i < sizeof alone.word / sizeof *alone.word; i++)
        expected.word[i] |= alone.word[i];
    ftk_vcomm_contexts(&used);
    EXPECT(in_memory == 0);
    EXPECT(memcmp(&used, &expected, sizeof used) == 0);
    EXPECT(o.handles == handles);
}

static struct ftkit_ctx ctx;

/* ---- handles ----------------------------------------------------------------------------- */

static int key = MPI_KEYVAL_INVALID;

static int handle_freed(MPI_Comm comm, int k, void *value, void *extra)
{
    (void)comm;
    (void)k;
    (void)value;
    (void)extra;
    o.handles--;
    return MPI_SUCCESS;
}

/* ---- the program ------------------------------------------------------------------------- */

/* A live communicator, or NULL. */
static struct comm *some_comm(void)
{
    int n = 0;
    struct comm *found = NULL;
    for (int i = 0; i < o.ncomms; i++)
        if (o.comm[i].live && chance((uint32_t)++n) == 0)
            found = &o.comm[i];
    return found;
}

static struct thing *some_thing(void)
{
    int n = 0;
    struct thing *found = NULL;
    for (int i = 0; i < o.nthings; i++)
        if (o.thing[i].kind != NONE && chance((uint32_t)++n) == 0)
            found = &o.thing[i];
    return found;
}

static void enter_comm(MPI_Comm handle)
{
    assert_true(o.ncomms < COMMS);
    struct comm *c = &o.comm[o.ncomms++];
    *c = (struct comm){ .vc = ftk_vcomm_find(handle), .handle = handle, .live = true };
    assert_non_null(c->vc);
    for (int i = 0; i < o.ncomms - 1; i++)
        if (o.comm[i].vc == c->vc)
            o.comm[i].vc = NULL; /* its memory is used again */
    c->context = c->vc->context;
    assert_int_equal(PMPI_Comm_set_attr(handle, key, NULL), MPI_SUCCESS);
    o.handles++;
}

static void make_comm(void)
{
    struct comm *parent = some_comm();
    MPI_Comm made = MPI_COMM_NULL;
    const MPI_Comm from = parent ? parent->handle : MPI_COMM_WORLD;
    assert_int_equal(ftk_mpi_Comm_dup(from, &made), MPI_SUCCESS);
    enter_comm(made);
    check(true);
}

static void free_comm(void)
{
    struct comm *c = some_comm();
    if (!c)
        return;
    assert_int_equal(ftk_vcomm_free(c->vc), MPI_SUCCESS);
    c->live = false;
}

static struct thing *enter(enum kind kind, struct comm *c)
{
    assert_true(o.nthings < THINGS);
    struct thing *t = &o.thing[o.nthings++];
    *t =
        (struct thing){ .kind = kind, .comm = c, .since = !o.in_set_up, .since_cut = !o.in_set_up };
    return t;
}

static void put_under_way(struct ftk_req *r)
{
    if (!r->persistent && chance(3) == 0) { /* in a list of its own */
        r->kind = FTK_REQ_COLL;
        r->state = FTK_REQ_RUNNING;
        return;
    }
    r->kind = chance(2) ? FTK_REQ_SEND : FTK_REQ_RECV;
    r->state = FTK_REQ_WAITING;
    ftk_queue_append(r);
}

static void begin_idup(struct comm *c)
{
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Request request;
    assert_int_equal(ftk_mpi_Comm_idup(c->handle, &made, &request), MPI_SUCCESS);
    struct thing *t = enter(IDUP, c);
    t->r = ftk_req_of(request);
    enter_comm(made); /* of one member: complete at once, and the request is still the program's */
}

static void begin_thing(void)
{
    struct comm *c = some_comm();
    const enum kind kind = (enum kind)(ACTIVE + (int)chance(MATCHED));
    if (!c)
        return;
    if (kind == IDUP) {
        begin_idup(c);
        return;
    }
    struct thing *t = enter(kind, c);
    if (kind == MATCHED) {
        t->message = ftk_unexp_new(c->context, 0, 0, 8);
        assert_non_null(t->message);
        ftk_matched_add(t->message, c->vc);
        return;
    }
    t->r = kind == SMALL ? ftk_req_sent(c->vc) : ftk_req_new(c->vc);
    assert_non_null(t->r);
    if (kind == PERSISTENT)
        ftk_req_persist(t->r);
    else if (kind == ACTIVE)
        put_under_way(t->r);
}

/* The program completes it, or the MPI does what the program has freed. */
static void end_thing(struct thing *t)
{
    if (t->kind == MATCHED) {
        assert_ptr_equal(ftk_matched_take((MPI_Message)(void *)t->message), t->message);
        ftk_unexp_free(t->message);
    } else {
        if (!ftk_req_is_done(t->r))
            (void)ftk_req_finish(t->r, MPI_SUCCESS);
        MPI_Request request = ftk_req_handle(t->r);
        if (t->kind == PERSISTENT && !t->freed)
            assert_int_equal(ftk_mpi_Request_free(&request), MPI_SUCCESS);
        else if (!t->freed)
            ftk_req_delete(t->r);
    }
    t->kind = NONE;
}

/* A lost request cannot start, nor a stale one of a freed communicator. */
static void start_or_wait(struct thing *t)
{
    MPI_Request request = ftk_req_handle(t->r);
    if (!t->active && (t->comm->lost || (t->stale && !t->comm->live))) {
        EXPECT(ftk_mpi_Start(&request) == MPI_ERR_REQUEST);
        return;
    }
    if (!t->active) {
        ftk_req_wake(t->r);
        put_under_way(t->r);
    } else {
        if (!ftk_req_is_done(t->r))
            (void)ftk_req_finish(t->r, MPI_SUCCESS);
        ftk_req_rest(t->r);
    }
    t->active = !t->active;
}

static void change_thing(void)
{
    struct thing *t = some_thing();
    if (!t)
        return;
    ftk_log.queue.nfreed = 0; /* no look at requests that no MPI has */
    if (t->kind == PERSISTENT && !t->freed && chance(2)) {
        start_or_wait(t);
        return;
    }
    if (t->kind != MATCHED && !t->freed && !ftk_req_is_done(t->r) && chance(2)) {
        ftk_req_abandon(t->r);
        t->freed = true;
        return;
    }
    end_thing(t);
}

/* ---- lines ------------------------------------------------------------------------------- */

static void pass_line(enum ftk_pass kind)
{
    ftk_log.line.count++;
    ftk_part_vcomm.line(kind, false);
    ftk_part_requests.line(kind, false);
    for (int i = 0; i < o.ncomms; i++) {
        struct comm *c = &o.comm[i];
        c->old = kind == FTK_PASS_MET || c->cut;
        c->line = !c->lost && (kind == FTK_PASS_CUT ? c->cut && c->at_cut : c->live);
    }
    for (int i = 0; i < o.nthings; i++)
        o.thing[i].since = kind == FTK_PASS_CUT && o.thing[i].since_cut;
    o.line_persistent = kind == FTK_PASS_CUT ? o.cut_persistent : ftk_log.queue.npersistent;
    check(true);
}

static void cut(void)
{
    assert_int_equal(ftk_part_vcomm.cut(true), FTKIT_OK);
    assert_int_equal(ftk_part_requests.cut(true), FTKIT_OK);
    ftk_log.apart.open = o.open = true;
    for (int i = 0; i < o.ncomms; i++) {
        o.comm[i].cut = true;
        o.comm[i].at_cut = o.comm[i].live;
    }
    for (int i = 0; i < o.nthings; i++)
        o.thing[i].since_cut = false;
    o.cut_persistent = ftk_log.queue.npersistent;
}

/* The set of the cut is committed, or given up. */
static void end_cut(bool commits)
{
    if (commits)
        pass_line(FTK_PASS_CUT);
    ftk_log.apart.open = o.open = false;
    for (int i = 0; i < o.ncomms; i++)
        o.comm[i].cut = false;
}

static void line(void)
{
    if (o.open)
        end_cut(chance(3) > 0);
    else if (chance(2))
        cut();
    else
        pass_line(FTK_PASS_MET);
}

/* ---- rollbacks --------------------------------------------------------------------------- */

/* What the program loses.  Handles that a rollback leaves to it are freed, as the restore does with
 * those in registered variables. */
static void forget_all(bool closes)
{
    for (int i = 0; i < o.nthings; i++) {
        struct thing *t = &o.thing[i];
        t->active = false;
        t->stale = t->stale || t->since;
        if (t->kind != PERSISTENT || t->freed || closes)
            t->kind = NONE;
    }
    for (int i = 0; i < o.ncomms; i++) {
        struct comm *c = &o.comm[i];
        if (c->live && (closes || !c->line))
            assert_int_equal(PMPI_Comm_free(&c->handle), MPI_SUCCESS);
        c->lost = c->lost || !c->old;
        c->live = c->line && !c->lost;
    }
}

static void forget_parts(void)
{
    ftk_part_coll.forget();
    ftk_part_idup.forget();
    ftk_part_unexp.forget();
    ftk_part_requests.forget();
}

static void roll_back(void)
{
    const struct ftk_section none = { .as_many = true };
    if (o.open)
        end_cut(false);
    ftk_log_begin_rollback();
    if (chance(4) == 0)
        free_comm(); /* while the program returns to its loop */
    forget_parts();
    assert_int_equal(ftk_part_vcomm.load(&none), FTKIT_OK);
    ftk_log.phase = FTK_PHASE_NORMAL;
    ftk_log.queue.npersistent = o.line_persistent;
    forget_all(false);
    check(true);
}

/* ---- steps ------------------------------------------------------------------------------- */

/* One of the steps below upto. */
static void step(uint32_t upto)
{
    const uint32_t what = chance(upto);
    if (what < 6)
        make_comm();
    else if (what < 11)
        free_comm();
    else if (what < 19)
        begin_thing();
    else if (what < 28)
        change_thing();
    else if (what < 31)
        line();
    else
        roll_back();
    check(false);
}

/* ---- set-up ------------------------------------------------------------------------------ */

/* The section of a set. */
struct image {
    uint64_t *words;
    size_t n;
    struct ftk_contexts live;
};

static void save(struct image *m)
{
    memset(&m->live, 0, sizeof m->live);
    m->n = ftk_part_vcomm.words();
    m->words = malloc(m->n * sizeof *m->words);
    assert_non_null(m->words);
    assert_ptr_equal(ftk_part_vcomm.save(m->words), m->words + m->n);
    for (int i = 0; i < o.ncomms; i++)
        if (o.comm[i].live)
            ftk_contexts_add(&m->live, o.comm[i].context);
}

/* A replacement gets the communicators of a set: what set-up has made in another context is
 * lost. */
static void restore(struct image *m)
{
    const struct ftk_section in = {
        .w = m->words, .end = m->words + m->n, .as_many = true, .first = true
    };
    const int before = o.ncomms;
    for (int i = 0; i < before; i++) {
        struct comm *c = &o.comm[i];
        const bool in_set = ftk_contexts_has(&m->live, c->context);
        c->shares = !c->live;
        c->lost = c->live && !in_set;
        c->live = c->live && in_set;
        if (c->live)
            m->live.word[c->context / 64] &= ~(UINT64_C(1) << c->context % 64);
    }
    assert_int_equal(ftk_part_vcomm.load(&in), FTKIT_OK);
    for (int i = 0; i < before; i++)
        if (o.comm[i].lost)
            assert_int_equal(PMPI_Comm_free(&o.comm[i].handle), MPI_SUCCESS);
    for (int k = 0; k < FTK_LOG_ALL; k++)
        if (ftk_contexts_has(&m->live, k))
            enter_comm(ftk_vcomm_in_context(k)->handle);
    for (int i = 0; i < o.ncomms; i++) {
        o.comm[i].old = true;
        o.comm[i].line = o.comm[i].live;
    }
    o.line_persistent = ftk_log.queue.npersistent;
    check(true);
}

/* Set-up ends with the restore of a set, which was written in a similar set-up; or the first set is
 * written. */
static void set_up(int steps, bool restores)
{
    struct image m = { 0 };
    const int saved_at = restores ? (int)chance((uint32_t)steps) : -1;
    o.in_set_up = true;
    ctx.where = FTK_IN_SETUP;
    for (o.step = 0; o.step < steps; o.step++) {
        step(28); /* without lines */
        if (o.step == saved_at)
            save(&m);
    }
    if (restores)
        restore(&m);
    else
        pass_line(FTK_PASS_MET);
    free(m.words);
    o.in_set_up = false;
    ctx.where = FTK_IN_LOOP;
}

/* ---- the log --------------------------------------------------------------------------- */

static void open_log(void)
{
    memset(&ctx, 0, sizeof ctx);
    ctx.where = FTK_IN_LOOP;
    ctx.cfg.replicas = 1;
    strcpy(ctx.cfg.name, "unit");
    ftk_log.ctx = &ctx;
    ftk_log.n = 1;
    ftk_log.line.count = 1;
    ftk_log.mode = ftk_mode_of(FTK_DETS_NODE);
    ftk_log.epoch.real[0] = MPI_COMM_SELF;
    ftk_log.vcomms.ncontexts = 8;
    ftk_session_begin();
    assert_int_equal(ftk_part_peers.open(1), FTKIT_OK);
    assert_int_equal(ftk_vcomm_open(), MPI_SUCCESS);
    ftk_log.on = true;
}

static void close_log(void)
{
    ftk_log.on = false;
    ftk_log_begin_rollback();
    forget_parts();
    forget_all(true);
    ftk_part_requests.close();
    ftk_part_coll.close();
    ftk_part_vcomm.close(); /* checks the references, too */
    ftk_part_peers.close();
    memset(&ftk_log, 0, sizeof ftk_log);
    EXPECT(o.handles == 0);
}

static void one_run(uint64_t seed)
{
    memset(&o, 0, sizeof o);
    o.seed = seed;
    o.random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    open_log();
    set_up((int)chance(STEPS / 3) + 1, chance(2));
    for (; o.step < STEPS; o.step++)
        step(32);
    close_log();
}

static void runs(void **state)
{
    const char *one = getenv("FTKIT_TEST_SEED"), *many = getenv("FTKIT_TEST_COUNT");
    const uint64_t first = one ? strtoull(one, NULL, 10) : 1;
    const uint64_t count = many ? strtoull(many, NULL, 10) : one ? 1 : RUNS;
    (void)state;
    for (uint64_t i = 0; i < count; i++)
        one_run(first + i);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(runs) };
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, handle_freed, &key, NULL) != MPI_SUCCESS)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Comm_free_keyval(&key);
    MPI_Finalize();
    return failed;
}
