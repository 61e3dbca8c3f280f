/* Collectives that prove their result, in many orders of steps: deaths between any two steps, and
 * an MPI that returns success without a result.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks make calls in a row.  The MPI of the model passes blocks on from rank to rank, so a
 * rank that has got nothing passes on what its buffer holds.  After a failure a receive ends with
 * an error, or the MPI drops this error and goes on.  What holds:
 *
 *   - a rank takes a result only if the result has the data of all ranks
 *   - without a failure all ranks take all results
 *   - no rank waits for ever: each comes to the end of the calls, or to a repair */
#include "stepping.h"

#include "detect/proof.h"

enum { CALLS = 5, MOST = 24, OPS = 2 * STEP_RANKS + 2, BUFFER = STEP_RANKS * (MOST + 32) };
enum { BLOCKS, REVOKES }; /* channels */

/* One operation of the MPI: a block goes from the buffer to a peer, or comes from a peer. */
struct op {
    enum { SEND, RECV, ADD } what; /* ADD: reduce what comes with the buffer */
    int peer;
    size_t at, bytes;
};

struct rank {
    enum { BETWEEN, CALLING, REPAIR, DONE } state;
    int call, op, nops;
    bool revoked, knows_dead[STEP_RANKS];
    struct op ops[OPS];
    char buffer[BUFFER]; /* of all calls, one after the other */
    struct step_queue inbox[STEP_RANKS];
};

static struct model {
    struct stepping *s;
    struct rank rank[STEP_RANKS];
    enum ftk_proof_kind kind[CALLS];
    int root[CALLS];
    size_t bytes[CALLS];
    bool loses; /* the MPI loses results without any failure */
    bool lost;  /* ... or has, or a rank has died */
} model;

/* ---- what the ranks give ----------------------------------------------------------------- */

static size_t length_of(int call, int from)
{
    const bool varies = model.kind[call] == FTK_PROOF_ALLGATHERV;
    return model.kind[call] == FTK_PROOF_REDUCE ? 2 * sizeof(int64_t)
           : varies                             ? (model.bytes[call] + (size_t)from) % MOST
                                                : model.bytes[call];
}

static void data_of(int call, int from, int to, char *data)
{
    for (size_t i = 0; i < length_of(call, from); i++)
        data[i] = (char)(call * 71 + from * 13 + (to + 1) * 5 + (int)i);
}

static int64_t word_of(int call, int from)
{
    return (int64_t)((call * 31 + from * 17) % 11);
}

static size_t offset_of(int call, int from)
{
    size_t at = 0;
    for (int r = 0; r < from; r++)
        at += ftk_proof_bytes(length_of(call, r));
    return at;
}

/* ---- the MPI ----------------------------------------------------------------------------- */

static void add_op(struct rank *r, int what, int peer, size_t at, size_t bytes)
{
    r->ops[r->nops++] = (struct op){ what, peer, at, bytes };
}

/* Along the line of ranks from the root on. */
static void bcast_ops(struct rank *r, int me, int root, size_t bytes)
{
    const int n = model.s->n, place = (me + n - root) % n;
    if (place > 0)
        add_op(r, RECV, (me + n - 1) % n, 0, bytes);
    if (place < n - 1)
        add_op(r, SEND, (me + 1) % n, 0, bytes);
}

/* Around the ring: block me - k goes to the right, block me - k - 1 comes from the left. */
static void ring_ops(struct rank *r, int me)
{
    const int n = model.s->n;
    for (int k = 0; k < n - 1; k++) {
        const int out = (me + n - k) % n, in = (me + n - k - 1) % n;
        add_op(r, SEND, (me + 1) % n, offset_of(r->call, out),
            ftk_proof_bytes(length_of(r->call, out)));
        add_op(r, RECV, (me + n - 1) % n, offset_of(r->call, in),
            ftk_proof_bytes(length_of(r->call, in)));
    }
}

/* Up the line of ranks to the last one, and back. */
static void reduce_ops(struct rank *r, int me)
{
    const int n = model.s->n;
    const size_t bytes = 2 * sizeof(int64_t);
    if (me > 0)
        add_op(r, ADD, me - 1, 0, bytes);
    if (me < n - 1) {
        add_op(r, SEND, me + 1, 0, bytes);
        add_op(r, RECV, me + 1, 0, bytes);
    }
    if (me > 0)
        add_op(r, SEND, me - 1, 0, bytes);
}

static void revoke(int me)
{
    if (model.rank[me].revoked)
        return;
    model.rank[me].revoked = true;
    for (int to = 0; to < model.s->n; to++)
        if (to != me)
            step_send(model.s, me, to, REVOKES, 0, NULL, 0);
}

/* ---- a rank ------------------------------------------------------------------------------ */

static void begin_call(struct rank *r, int me)
{
    const int call = r->call, n = model.s->n;
    const enum ftk_proof_kind kind = model.kind[call];
    char data[MOST];
    r->state = CALLING;
    r->op = r->nops = 0;
    ftk_proof_wipe(r->buffer, kind == FTK_PROOF_BCAST    ? ftk_proof_bytes(model.bytes[call])
                              : kind == FTK_PROOF_REDUCE ? 2 * sizeof(int64_t)
                                                         : offset_of(call, n));
    if (kind == FTK_PROOF_BCAST) {
        data_of(call, me, -1, data);
        if (me == model.root[call])
            (void)ftk_proof_put(kind, r->buffer, data, model.bytes[call], me, FTK_PROOF_ALL);
        bcast_ops(r, me, model.root[call], ftk_proof_bytes(model.bytes[call]));
    } else if (kind == FTK_PROOF_REDUCE) {
        const int64_t v[2] = { (int64_t)ftk_proof_number(me), word_of(call, me) };
        memcpy(r->buffer, v, sizeof v);
        reduce_ops(r, me);
    } else {
        data_of(call, me, -1, data);
        (void)ftk_proof_put(
            kind, r->buffer + offset_of(call, me), data, length_of(call, me), me, FTK_PROOF_ALL);
        ring_ops(r, me);
    }
}

/* Whether the minimum is proven; *right: it is that of all ranks. */
static bool take_minimum(const struct rank *r, bool *right)
{
    const int n = model.s->n;
    int64_t v[2], least = INT64_MAX;
    memcpy(v, r->buffer, sizeof v);
    for (int from = 0; from < n; from++)
        least = word_of(r->call, from) < least ? word_of(r->call, from) : least;
    *right = v[1] == least;
    return (uint64_t)v[0] == ftk_proof_sum(n);
}

/* Whether the result is proven; *right: it has the data of all ranks. */
static bool take_result(const struct rank *r, bool *right)
{
    const int call = r->call, n = model.s->n, root = model.root[call];
    const enum ftk_proof_kind kind = model.kind[call];
    char want[STEP_RANKS * MOST], got[STEP_RANKS * MOST];
    size_t at = 0, lengths[STEP_RANKS] = { 0 };
    if (kind == FTK_PROOF_REDUCE)
        return take_minimum(r, right);
    if (kind == FTK_PROOF_BCAST) {
        data_of(call, root, -1, want);
        *right = memcmp(r->buffer, want, model.bytes[call]) == 0;
        return ftk_proof_holds(kind, r->buffer, model.bytes[call], root, FTK_PROOF_ALL);
    }
    memset(got, 0, sizeof got);
    for (int from = 0; from < n; at += lengths[from++]) {
        lengths[from] = length_of(call, from);
        data_of(call, from, -1, want + at);
    }
    const bool holds = ftk_proof_take(kind, r->buffer, n, lengths, 0, FTK_PROOF_ALL, got);
    *right = memcmp(got, want, at) == 0;
    return holds;
}

static void end_call(struct rank *r, int me, bool success)
{
    bool right = false;
    const bool holds = success && take_result(r, &right);
    if (ftk_proof_end(success, holds) == FTK_PROOF_PROVEN) {
        STEP_EXPECT(model.s, right);
        r->call++;
        r->state = r->call < CALLS ? BETWEEN : DONE;
        return;
    }
    r->state = REPAIR; /* both other ends break the channel: sure.c:fail(), end_call() */
    revoke(me);
}

/* Whether an operation with the peer may end by a failure. */
static bool may_fail(const struct rank *r, int peer)
{
    return r->revoked || r->knows_dead[peer];
}

static void reduce(struct rank *r, const void *data, size_t at)
{
    int64_t in[2], inout[2];
    memcpy(in, data, sizeof in);
    memcpy(inout, r->buffer + at, sizeof inout);
    ftk_proof_reduce(in, inout, 2);
    memcpy(r->buffer + at, inout, sizeof inout);
}

static void make_op(struct rank *r, int me)
{
    struct stepping *s = model.s;
    const struct op *o = &r->ops[r->op];
    const bool fails = may_fail(r, o->peer) && step_choose(s, 2);
    if (fails && step_choose(s, 2)) {
        end_call(r, me, false);
        return;
    }
    r->op++;
    if (fails)
        return; /* the error is dropped */
    if (o->what == SEND) {
        step_send(s, me, o->peer, BLOCKS, 0, r->buffer + o->at, o->bytes);
        return;
    }
    struct step_message *m = step_take(&r->inbox[o->peer]);
    if (!m)
        return;
    const bool loses = model.loses && step_choose(s, 64) == 0;
    model.lost = model.lost || loses;
    if (!loses && o->what == RECV)
        memcpy(r->buffer + o->at, m->data, m->bytes < o->bytes ? m->bytes : o->bytes);
    else if (o->what == ADD) /* lost: the words of this rank count twice */
        reduce(r, loses ? (const void *)(r->buffer + o->at) : m->data, o->at);
    free(m);
}

static bool can(void *arg, int me)
{
    const struct rank *r = &model.rank[me];
    (void)arg;
    if (r->state != CALLING || r->op == r->nops)
        return r->state == BETWEEN || r->state == CALLING;
    const struct op *o = &r->ops[r->op];
    return o->what == SEND || r->inbox[o->peer].first || may_fail(r, o->peer);
}

static void step(void *arg, int me)
{
    struct rank *r = &model.rank[me];
    (void)arg;
    if (r->state == BETWEEN)
        begin_call(r, me);
    else if (r->op < r->nops)
        make_op(r, me);
    else
        end_call(r, me, true);
}

static void arrive(void *arg, const struct step_message *m)
{
    struct step_queue *q = &model.rank[m->to].inbox[m->from];
    (void)arg;
    if (m->channel == REVOKES) {
        revoke(m->to);
        return;
    }
    struct step_message *copy = malloc(sizeof *m + m->bytes);
    STEP_EXPECT(model.s, copy != NULL);
    memcpy(copy, m, sizeof *m + m->bytes);
    copy->next = NULL;
    *(q->last ? q->last : &q->first) = copy;
    q->last = &copy->next;
}

static void die(void *arg, int rank)
{
    (void)arg;
    (void)rank;
    model.lost = true;
}

static void notice(void *arg, int me, int dead)
{
    (void)arg;
    model.rank[me].knows_dead[dead] = true;
}

static void end(void *arg)
{
    (void)arg;
    for (int me = 0; me < model.s->n; me++) {
        const struct rank *r = &model.rank[me];
        if (!model.s->dead[me])
            STEP_EXPECT(model.s, r->state == DONE || (model.lost && r->state == REPAIR));
        for (int from = 0; from < model.s->n; from++)
            step_lose(&model.rank[me].inbox[from], 0);
    }
}

static void run(struct stepping *s)
{
    static const struct step_ops ops = {
        .can = can, .step = step, .arrive = arrive, .die = die, .notice = notice, .end = end
    };
    static const enum ftk_proof_kind kinds[] = { FTK_PROOF_BCAST, FTK_PROOF_ALLGATHER,
        FTK_PROOF_ALLGATHERV, FTK_PROOF_REDUCE };
    const int n = 2 + step_choose(s, 5);
    memset(&model, 0, sizeof model);
    model.s = s;
    for (int c = 0; c < CALLS; c++) {
        model.kind[c] = kinds[step_choose(s, 4)];
        model.root[c] = step_choose(s, n);
        model.bytes[c] = (size_t)(step_choose(s, 2) ? step_choose(s, MOST) : 8);
    }
    model.loses = step_choose(s, 4) == 0;
    step_begin(s, s->seed, n, step_choose(s, 3));
    step_run(s, &ops, &model, 20000);
}

static void calls_in_a_row(void **state)
{
    (void)state;
    step_many(4000, run);
}

/* A seal is that of its block alone. */
static void seals_differ(void **state)
{
    char block[64];
    (void)state;
    for (size_t bytes = 0; bytes < 24; bytes += 8) {
        const char data[24] = "twenty-three characters";
        (void)ftk_proof_put(FTK_PROOF_ALLTOALL, block, data, bytes, 2, 3);
        assert_true(ftk_proof_holds(FTK_PROOF_ALLTOALL, block, bytes, 2, 3));
        assert_false(ftk_proof_holds(FTK_PROOF_ALLTOALLV, block, bytes, 2, 3));
        assert_false(ftk_proof_holds(FTK_PROOF_ALLTOALL, block, bytes, 3, 3));
        assert_false(ftk_proof_holds(FTK_PROOF_ALLTOALL, block, bytes, 2, 2));
        for (size_t i = 0; i < ftk_proof_bytes(bytes); i++) {
            block[i] ^= 1;
            assert_false(ftk_proof_holds(FTK_PROOF_ALLTOALL, block, bytes, 2, 3));
            block[i] ^= 1;
        }
    }
}

/* A wrong block leaves the output as it was. */
static void all_blocks_or_none(void **state)
{
    char result[256], out[32] = "0123456789abcdef0123456789abcde";
    char *at = result;
    (void)state;
    for (int i = 0; i < 3; i++)
        at = ftk_proof_put(FTK_PROOF_ALLGATHER, at, "ABCDEFGH", 8, i, FTK_PROOF_ALL);
    at[-1] ^= 1;
    assert_false(ftk_proof_take(FTK_PROOF_ALLGATHER, result, 3, NULL, 8, FTK_PROOF_ALL, out));
    assert_string_equal(out, "0123456789abcdef0123456789abcde");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(calls_in_a_row),
        cmocka_unit_test(seals_differ), cmocka_unit_test(all_blocks_or_none) };
    return cmocka_run_group_tests_name("sure", tests, NULL, NULL);
}
