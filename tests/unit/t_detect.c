/* Detection of failures in many orders of steps: deaths between any two steps, notices and revokes
 * that come late, errors with any code.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks exchange messages on a communicator of ftkit or on a derived one, and close; spares wait.
 * An MPI call that meets a failure ends with the code of a failure or with another code.  The watch
 * ends when a member of ctl is known to be dead, or when ctl is revoked.  The program makes errors,
 * too, and a rank may be suspected that is alive.  The ranks act as detect.c does, and
 * detect/notice.c decides.  What holds:
 *
 *   - after a failure all ranks that are left come to the repair: no rank waits for ever
 *   - without the loss of a rank, and without suspicion, no rank raises
 *   - the ranks close, although the first one that has closed revokes ctl
 *   - an error is given to the program only if no failure explains it */
#include "stepping.h"

#include "detect/notice.h"

enum { EXCHANGES = 6 };
enum { CTL, WORK, DERIVED, NCOMMS }; /* communicators; WORK: act and app */
enum { MESSAGES, REVOKES, VOTES };   /* channels; a message of the program has its communicator */

struct rank {
    enum { RUNS, RECEIVES, UNCLEAR, VOTES_LAST, REPAIRS, ENDED_BY_PROGRAM } state;
    struct ftk_notice notice;
    int left;                      /* exchanges of the program */
    int peer, comm;                /* RECEIVES */
    struct ftk_call_error error;   /* UNCLEAR */
    bool by_failure;               /* ... and why: a failure, or the program */
    int there[STEP_RANKS][NCOMMS]; /* messages that have come */
    bool dead[STEP_RANKS];         /* known here */
    bool revoked[NCOMMS];
    int votes;
    bool closed;
};

static struct model {
    struct stepping *s;
    int n;                  /* ranks; the others are spares */
    int errors, suspicions; /* still to come */
    bool lost, suspected, erred;
    double now_s;
    struct rank rank[STEP_RANKS];
} model;

/* ---- the MPI ------------------------------------------------------------------------------- */

static void revoke(int me, int comm)
{
    struct rank *r = &model.rank[me];
    if (r->revoked[comm])
        return;
    r->revoked[comm] = true;
    for (int to = 0; to < model.s->n; to++)
        if (to != me)
            step_send(model.s, me, to, REVOKES, comm, NULL, 0);
}

static bool dead_rank_known(const struct rank *r)
{
    for (int k = 0; k < model.n; k++)
        if (r->dead[k])
            return true;
    return false;
}

static bool nothing_to_learn(int me)
{
    for (int k = 0; k < model.s->n; k++)
        if (model.s->unnoticed[me][k] || model.s->queue[k][me][REVOKES].first)
            return false;
    return true;
}

/* ---- detect.c ------------------------------------------------------------------------------ */

static void raise_failure(int me)
{
    struct rank *r = &model.rank[me];
    const unsigned what = ftk_notice_raise(&r->notice);
    STEP_EXPECT(model.s, model.lost || model.suspected || r->closed || me >= model.n);
    r->notice.known = true;
    if (what & FTK_RAISE_CTL)
        revoke(me, CTL);
    if (me >= model.n)
        return; /* a spare has no other communicator */
    if (what & FTK_RAISE_WORK)
        revoke(me, WORK);
    if (what & FTK_RAISE_TRACKED)
        revoke(me, DERIVED);
}

/* ftk_detect_poll(): only_spares() acknowledges the deaths of spares. */
static bool poll(int me)
{
    struct rank *r = &model.rank[me];
    if (r->notice.known)
        return true;
    if (r->notice.ended_s == 0 && (r->revoked[CTL] || dead_rank_known(r)))
        r->notice.ended_s = model.now_s;
    if (ftk_notice_is_due(&r->notice, model.now_s))
        raise_failure(me);
    return r->notice.known;
}

static void give_to_program(int me)
{
    STEP_EXPECT(model.s, !model.rank[me].by_failure);
    model.rank[me].state = ENDED_BY_PROGRAM;
}

/* on_error(): the first part, up to the wait for the notice. */
static void fail_call(int me, int comm, bool by_failure, bool code_of_failure)
{
    struct rank *r = &model.rank[me];
    const struct ftk_call_error e = {
        .failure = code_of_failure, .open = true, .mine = comm == WORK
    };
    const enum ftk_error_first first = ftk_notice_error(&e);
    r->error = e;
    r->by_failure = by_failure;
    r->state = UNCLEAR;
    STEP_EXPECT(model.s, first != FTK_ERROR_MISTAKE && first != FTK_ERROR_PROGRAM);
    if (first == FTK_ERROR_RAISE)
        raise_failure(me);
    if (first == FTK_ERROR_DERIVED)
        revoke(me, DERIVED);
    if (first == FTK_ERROR_RAISE)
        r->state = RUNS;
}

/* ... and the rest.  A notice takes some milliseconds, so it comes before the wait is over. */
static void wait_for_notice(int me)
{
    struct rank *r = &model.rank[me];
    const bool explained = poll(me);
    if (!explained && !nothing_to_learn(me))
        return;
    const enum ftk_error_first then = ftk_notice_after_wait(&r->error, explained);
    r->state = RUNS;
    if (then == FTK_ERROR_PROGRAM)
        give_to_program(me);
    else if (then == FTK_ERROR_RAISE)
        raise_failure(me);
}

/* ---- the program ----------------------------------------------------------------------------- */

static void exchange(int me)
{
    struct rank *r = &model.rank[me];
    r->comm = r->left % 2 ? DERIVED : WORK;
    r->peer = (me + model.n - 1) % model.n;
    r->left--;
    if (r->revoked[r->comm]) {
        fail_call(me, r->comm, true, true);
        return;
    }
    step_send(model.s, me, (me + 1) % model.n, MESSAGES, r->comm, NULL, 0);
    r->state = RECEIVES;
}

static void close_context(int me)
{
    struct rank *r = &model.rank[me];
    r->notice.where = FTK_IN_CLOSE;
    r->state = VOTES_LAST;
    r->votes++;
    for (int to = 0; to < model.n; to++)
        if (to != me)
            step_send(model.s, me, to, VOTES, 0, NULL, 0);
}

static bool vote_is_over(const struct rank *r)
{
    return r->votes == model.n;
}

/* Whether the vote goes on, on any rank: it takes some milliseconds. */
static bool vote_goes_on(void)
{
    for (int k = 0; k < model.n; k++) {
        const struct rank *r = &model.rank[k];
        if (model.s->dead[k] || r->state != VOTES_LAST)
            continue;
        if (vote_is_over(r) && !r->revoked[WORK])
            return true;
        for (int from = 0; from < model.n; from++)
            if (model.s->queue[from][k][VOTES].first)
                return true;
    }
    return false;
}

/* A rank in the last vote looks at its request and at the watch. */
static void look_at_vote(int me)
{
    struct rank *r = &model.rank[me];
    if (vote_is_over(r) && !r->revoked[WORK]) {
        r->closed = true;
        r->notice.where = FTK_ALL_CLOSED;
        raise_failure(me);
        r->state = REPAIRS;
        return;
    }
    if (r->notice.ended_s > 0 && !vote_goes_on())
        model.now_s += 2 * FTK_CLOSING_GRACE_S;
    if (r->revoked[WORK])
        raise_failure(me);
    if (poll(me))
        r->state = REPAIRS;
}

static bool can_receive(const struct rank *r)
{
    return r->there[r->peer][r->comm] > 0;
}

static bool receive_fails(const struct rank *r)
{
    return r->revoked[r->comm] || r->dead[r->peer];
}

static void receive(int me)
{
    struct rank *r = &model.rank[me];
    if (receive_fails(r) && step_choose(model.s, 2)) {
        fail_call(me, r->comm, true, step_choose(model.s, 3) > 0);
        return;
    }
    if (!can_receive(r))
        return;
    r->there[r->peer][r->comm]--;
    r->state = RUNS;
}

static bool can(void *arg, int me)
{
    const struct rank *r = &model.rank[me];
    (void)arg;
    if (me >= model.n) /* a spare */
        return !r->notice.known && (r->revoked[CTL] || dead_rank_known(r));
    switch (r->state) {
    case RUNS:
        return true;
    case RECEIVES:
        return can_receive(r) || receive_fails(r);
    case UNCLEAR:
        return r->notice.known || r->revoked[CTL] || dead_rank_known(r) || nothing_to_learn(me);
    case VOTES_LAST:
        return vote_is_over(r) || r->revoked[CTL] || r->revoked[WORK] || dead_rank_known(r);
    default:
        return false;
    }
}

static void step_program(int me)
{
    struct rank *r = &model.rank[me];
    if (r->notice.known || (step_choose(model.s, 3) == 0 && poll(me))) {
        r->state = REPAIRS; /* at the next call of ftkit */
    } else if (model.errors > 0 && step_choose(model.s, 8) == 0) {
        model.errors--;
        model.erred = true;
        fail_call(me, WORK, model.lost || model.suspected, false);
    } else if (model.suspicions > 0 && step_choose(model.s, 8) == 0) {
        model.suspicions--;
        model.suspected = true;
        raise_failure(me);
    } else if (r->left > 0) {
        exchange(me);
    } else {
        close_context(me);
    }
}

static void step(void *arg, int me)
{
    struct rank *r = &model.rank[me];
    (void)arg;
    model.now_s += 1e-6; /* far less than the grace in a whole run */
    if (me >= model.n)
        (void)poll(me);
    else if (r->state == RECEIVES)
        receive(me);
    else if (r->state == UNCLEAR)
        wait_for_notice(me);
    else if (r->state == VOTES_LAST)
        look_at_vote(me);
    else
        step_program(me);
}

static void arrive(void *arg, const struct step_message *m)
{
    struct rank *r = &model.rank[m->to];
    (void)arg;
    if (m->channel == MESSAGES)
        r->there[m->from][m->kind]++;
    else if (m->channel == VOTES)
        r->votes++;
    else
        revoke(m->to, m->kind); /* a revoke is reliable: each process passes it on */
}

static void die(void *arg, int rank)
{
    (void)arg;
    model.lost = model.lost || rank < model.n;
}

static void notice(void *arg, int rank, int dead)
{
    (void)arg;
    model.rank[rank].dead[dead] = true;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void end(void *arg)
{
    bool by_program = false, closed = true, known = false;
    (void)arg;
    for (int k = 0; k < model.n; k++) {
        if (model.s->dead[k])
            continue;
        by_program = by_program || model.rank[k].state == ENDED_BY_PROGRAM;
        closed = closed && model.rank[k].closed;
        known = known || model.rank[k].notice.known;
    }
    for (int k = 0; k < model.n && !by_program; k++)
        STEP_EXPECT(model.s, model.s->dead[k] || model.rank[k].state == REPAIRS);
    for (int k = model.n; k < model.s->n && known; k++)
        STEP_EXPECT(model.s, model.s->dead[k] || by_program || model.rank[k].notice.known);
    STEP_EXPECT(model.s, closed || model.lost || model.suspected || model.erred);
}

static void run(struct stepping *s)
{
    static const struct step_ops ops = {
        .can = can, .step = step, .arrive = arrive, .die = die, .notice = notice, .end = end
    };
    const int n = 2 + step_choose(s, STEP_RANKS - 1);
    memset(&model, 0, sizeof model);
    model.s = s;
    model.n = n - step_choose(s, 2) * (n > 2);
    model.now_s = 1;
    model.errors = step_choose(s, 8) == 0;
    model.suspicions = step_choose(s, 6) == 0;
    const int left = 2 * step_choose(s, EXCHANGES / 2 + 1);
    for (int k = 0; k < n; k++) {
        model.rank[k].left = left;
        model.rank[k].notice = (struct ftk_notice){ .spare = k >= model.n, .where = FTK_IN_LOOP };
    }
    step_begin(s, s->seed, n, step_choose(s, 3));
    step_run(s, &ops, &model, 20000);
}

static void noticing(void **state)
{
    (void)state;
    step_many(4000, run);
}

/* Errors outside of what the runs have. */
static void errors(void **state)
{
    (void)state;
    const struct ftk_call_error mistake = {
        .failure = true, .open = true, .world = true, .forbidden = true
    };
    const struct ftk_call_error world = { .failure = true, .open = true, .world = true };
    const struct ftk_call_error after_close = { .failure = true, .mine = true };
    const struct ftk_call_error self = { .failure = true, .open = true, .self = true };
    assert_int_equal(ftk_notice_error(&mistake), FTK_ERROR_MISTAKE);
    assert_int_equal(ftk_notice_error(&world), FTK_ERROR_UNCLEAR);
    assert_int_equal(ftk_notice_error(&self), FTK_ERROR_UNCLEAR);
    assert_int_equal(ftk_notice_error(&after_close), FTK_ERROR_PROGRAM);
    /* a broken connection, say, of which the MPI tells nobody else */
    const struct ftk_call_error derived = { .failure = true, .open = true };
    assert_int_equal(ftk_notice_error(&derived), FTK_ERROR_DERIVED);
    assert_int_equal(ftk_notice_after_wait(&derived, false), FTK_ERROR_RAISE);
    assert_int_equal(ftk_notice_after_wait(&derived, true), FTK_ERROR_UNCLEAR);
}

/* With the log, communicators of the program are its own matter; a second notice says nothing. */
static void raising(void **state)
{
    (void)state;
    struct ftk_notice n = { .team = true, .where = FTK_IN_LOOP };
    assert_int_equal(ftk_notice_raise(&n), FTK_RAISE_SAY | FTK_RAISE_CTL | FTK_RAISE_WORK);
    n.known = true;
    assert_int_equal(ftk_notice_raise(&n), FTK_RAISE_CTL | FTK_RAISE_WORK);
    n = (struct ftk_notice){ .spare = true, .where = FTK_IN_OPEN };
    assert_int_equal(ftk_notice_raise(&n),
        FTK_RAISE_CALLED | FTK_RAISE_CTL | FTK_RAISE_WORK | FTK_RAISE_TRACKED);
    n.known = true;
    assert_int_equal(ftk_notice_raise(&n) & (FTK_RAISE_CALLED | FTK_RAISE_SAY), 0);
    n = (struct ftk_notice){ .where = FTK_ALL_CLOSED };
    assert_int_equal(ftk_notice_raise(&n), FTK_RAISE_CTL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(noticing), cmocka_unit_test(errors),
        cmocka_unit_test(raising) };
    return cmocka_run_group_tests_name("detect", tests, NULL, NULL);
}
