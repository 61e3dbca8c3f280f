/* Determinants on the way to other nodes in many orders of steps, with deaths: no message is
 * received on another node before the determinants on which the message depends.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rounds to keepers (log.determinants = pessimistic): ranks of several nodes record determinants
 * and send messages.  A send is held, and rounds begin and end, as mode/relay.c does it;
 * mode/rounds.c decides.  Lines come while acknowledgements are on the way.  A death leads to a
 * repair, which drops all messages and sends all determinants to the keepers again.  What holds:
 *
 *   - a keeper gets the determinants of a rank without gaps
 *   - when a message leaves its node, keepers on other nodes have all determinants that the node
 *     had when the program began the send
 *   - no send is held for ever
 *
 * Before messages (causal): a rank sends to the receiver what the receiver lacks, on the
 * communicator of the message, as relay.c:send_before() does it; some of these sends fail.  A death
 * takes all determinants of a node.  What holds:
 *
 *   - the receiver of a message has the determinants of the sender's node, and their contents
 *   - of a node that is lost some rank of another node has all determinants on which a rank of
 *     another node depends, by whatever messages */
#include "stepping.h"

#include "log/mode/copies.h"
#include "log/mode/rounds.h"

enum { SENDS = 12, LINES = 2 };
enum { PARTS, ACKS }; /* channels */

struct held {
    int to;
    uint64_t wait, number;
    size_t needs[STEP_RANKS]; /* determinants of each rank of the node */
};

struct rank {
    struct ftk_rounds rounds;
    int left; /* sends that the program still begins */
    struct held held[SENDS];
    int nheld;
    uint64_t numbers, last[STEP_RANKS]; /* of sends: begun; the last one that has left */
    /* in the shared memory of the node, written by its ranks */
    size_t ndet, stable;
    /* of this rank as a keeper */
    size_t copy[STEP_RANKS];
};

static struct model {
    struct stepping *s;
    int node[STEP_RANKS], lines, lines_left;
    struct rank rank[STEP_RANKS];
} model;

struct part {
    uint64_t round;
    int lines, owner;
    size_t from, upto;
};

static bool are_together(int a, int b)
{
    return model.node[a] == model.node[b];
}

static bool all_stable(int me)
{
    for (int k = 0; k < model.s->n; k++)
        if (are_together(k, me) && model.rank[k].stable < model.rank[k].ndet)
            return false;
    return true;
}

/* ---- sends ------------------------------------------------------------------------------- */

static void leave(struct rank *r, int me, const struct held *h)
{
    STEP_EXPECT(model.s, h->number > r->last[h->to]);
    r->last[h->to] = h->number;
    for (int k = 0; k < model.s->n && !are_together(me, h->to); k++) {
        const int keeper = ftk_rounds_keeper(model.node, model.s->n, k);
        if (!are_together(k, me))
            continue;
        STEP_EXPECT(model.s, !are_together(keeper, k));
        STEP_EXPECT(model.s, model.rank[keeper].copy[k] >= h->needs[k]);
    }
}

static void release_sends(struct rank *r, int me)
{
    int kept = 0;
    for (int i = 0; i < r->nheld; i++) {
        if (!ftk_rounds_is_over(&r->rounds, r->held[i].wait)) {
            r->held[kept++] = r->held[i];
            continue;
        }
        leave(r, me, &r->held[i]);
        r->rounds.holding--;
    }
    r->nheld = kept;
}

static void begin_round(struct rank *r, int me)
{
    ftk_rounds_begin(&r->rounds);
    for (int k = 0; k < model.s->n; k++) {
        const struct rank *owner = &model.rank[k];
        if (!are_together(k, me) || owner->stable >= owner->ndet)
            continue;
        const struct part p = { r->rounds.round, model.lines, k, owner->stable, owner->ndet };
        step_send(
            model.s, me, ftk_rounds_keeper(model.node, model.s->n, k), PARTS, 0, &p, sizeof p);
        ftk_rounds_sent(&r->rounds);
    }
    ftk_rounds_begun(&r->rounds);
}

static void poll_keepers(struct rank *r, int me)
{
    if (r->rounds.holding == 0)
        return;
    release_sends(r, me);
    if (!ftk_rounds_is_due(&r->rounds))
        return;
    begin_round(r, me);
    release_sends(r, me);
}

static bool holds(const struct rank *r, int to)
{
    for (int i = 0; i < r->nheld; i++)
        if (r->held[i].to == to)
            return true;
    return false;
}

static void begin_send(struct rank *r, int me, int to)
{
    struct held h = { .to = to, .number = ++r->numbers };
    const bool waits = holds(r, to) || !are_together(me, to);
    for (int k = 0; k < model.s->n; k++)
        h.needs[k] = are_together(k, me) ? model.rank[k].ndet : 0;
    if (!ftk_rounds_holds(&r->rounds, waits, all_stable(me))) {
        leave(r, me, &h);
        return;
    }
    const bool running = r->rounds.pending > 0;
    h.wait = ftk_rounds_hold(&r->rounds);
    r->held[r->nheld++] = h;
    if (!running)
        poll_keepers(r, me);
}

/* ---- the line, and a repair -------------------------------------------------------------- */

/* No rank holds a send: determinants before the line are not needed any more. */
static void pass_line(void)
{
    for (int k = 0; k < model.s->n; k++)
        if (model.rank[k].nheld > 0)
            return;
    model.lines++;
    model.lines_left--;
    for (int k = 0; k < model.s->n; k++) {
        model.rank[k].ndet = model.rank[k].stable = 0;
        memset(model.rank[k].copy, 0, sizeof model.rank[k].copy);
    }
}

/* The replacement has the determinants of the lost rank, and sends what it has held.  All messages
 * of the epoch are dropped; before the new epoch the keepers have all determinants. */
static void repair(void *arg, int dead)
{
    struct stepping *s = model.s;
    (void)arg;
    s->dead[dead] = false;
    for (int a = 0; a < s->n; a++) {
        struct rank *r = &model.rank[a];
        s->unnoticed[a][dead] = false;
        for (int b = 0; b < s->n; b++)
            for (int c = 0; c < STEP_CHANNELS; c++)
                step_lose(&s->queue[a][b][c], 0);
        memset(r->copy, 0, sizeof r->copy);
        r->stable = 0;
        ftk_rounds_end(&r->rounds);
        for (int i = 0; i < r->nheld; i++)
            r->held[i].wait = ftk_rounds_next(&r->rounds);
    }
    for (int k = 0; k < s->n; k++)
        model.rank[ftk_rounds_keeper(model.node, s->n, k)].copy[k] = model.rank[k].ndet;
}

/* ---- steps ------------------------------------------------------------------------------- */

static bool can(void *arg, int me)
{
    const struct rank *r = &model.rank[me];
    (void)arg;
    return r->left > 0 || ftk_rounds_is_due(&r->rounds)
           || (r->nheld > 0 && ftk_rounds_is_over(&r->rounds, r->held[0].wait));
}

static void step(void *arg, int me)
{
    struct stepping *s = model.s;
    struct rank *r = &model.rank[me];
    (void)arg;
    if (r->left > 0 && step_choose(s, 3) == 0)
        r->ndet++; /* it has received a message, whose match is recorded */
    else if (r->left > 0 && step_choose(s, 2)) {
        r->left--;
        begin_send(r, me, (me + 1 + step_choose(s, s->n - 1)) % s->n);
    } else if (model.lines_left > 0 && step_choose(s, 8) == 0) {
        pass_line();
    } else {
        poll_keepers(r, me);
    }
}

static void arrive(void *arg, const struct step_message *m)
{
    struct rank *r = &model.rank[m->to];
    struct part p;
    (void)arg;
    memcpy(&p, m->data, sizeof p);
    if (m->channel == PARTS) { /* relay.c:store_copy(), acknowledge() */
        if (p.lines == model.lines) {
            STEP_EXPECT(model.s, p.from <= r->copy[p.owner]);
            if (p.upto > r->copy[p.owner])
                r->copy[p.owner] = p.upto;
        }
        step_send(model.s, m->to, m->from, ACKS, 0, &p, sizeof p);
        return;
    }
    if (!ftk_rounds_counts(&r->rounds, p.round)) /* relay.c:acknowledged() */
        return;
    if (p.lines == model.lines && model.rank[p.owner].stable < p.upto)
        model.rank[p.owner].stable = p.upto;
    ftk_rounds_acknowledged(&r->rounds);
    poll_keepers(r, m->to);
}

static void end(void *arg)
{
    (void)arg;
    for (int me = 0; me < model.s->n; me++)
        STEP_EXPECT(model.s, model.rank[me].nheld == 0 && model.rank[me].left == 0);
}

static void run(struct stepping *s)
{
    static const struct step_ops ops = {
        .can = can, .step = step, .arrive = arrive, .die = repair, .end = end
    };
    const int n = 2 + step_choose(s, 6), nodes = 2 + step_choose(s, n - 1);
    memset(&model, 0, sizeof model);
    model.s = s;
    model.lines_left = LINES;
    for (int r = 0; r < n; r++) {
        model.node[r] = r < nodes ? r : step_choose(s, nodes);
        model.rank[r].left = step_choose(s, SENDS);
    }
    step_begin(s, s->seed, n, step_choose(s, 3));
    step_run(s, &ops, &model, 20000);
}

static void rounds(void **state)
{
    (void)state;
    step_many(4000, run);
}

/* Keepers of ranks that are spread over nodes in any way; one node has none. */
static void keepers(void **state)
{
    static const int node[] = { 0, 0, 1, 0, 2, 1 }, want[] = { 2, 5, 0, 4, 2, 1 };
    static const int one[] = { 3, 3, 3 };
    (void)state;
    for (int k = 0; k < 6; k++)
        assert_int_equal(ftk_rounds_keeper(node, 6, k), want[k]);
    for (int k = 0; k < 3; k++)
        assert_int_equal(ftk_rounds_keeper(one, 3, k), -1);
}

/* ---- before messages ----------------------------------------------------------------------- */

enum { COMMS = 2, DETS = 16, SENT = 20 };
enum { BEFORE, MESSAGE }; /* kinds of messages; the channel is the communicator */

/* Determinants since the line of each rank: those on which a rank, or a message, depends. */
struct needs {
    uint64_t lines;
    size_t of[STEP_RANKS];
};

static struct causal {
    struct stepping *s;
    int node[STEP_RANKS], left[STEP_RANKS];
    uint64_t lines;
    size_t ndet[STEP_RANKS];
    struct needs needs[STEP_RANKS];
    struct ftk_copy copy[STEP_RANKS][STEP_RANKS][2]; /* of a rank: by owner */
    struct ftk_reach *reach[STEP_RANKS][STEP_RANKS][COMMS];
    struct ftk_words message;
} causal;

static struct ftk_det det_of(int owner, size_t i)
{
    return (struct ftk_det){ FTK_DET_RECV, (uint32_t)i, owner, (int32_t)causal.lines };
}

static void forget_rank(int r)
{
    for (int k = 0; k < causal.s->n; k++) {
        for (int i = 0; i < 2; i++)
            free(causal.copy[r][k][i].v);
        for (int c = 0; c < COMMS; c++) {
            free(causal.reach[r][k][c]);
            causal.reach[r][k][c] = NULL;
        }
    }
    memset(causal.copy[r], 0, sizeof causal.copy[r]);
}

/* How many determinants of the owner a rank has, with the contents that they should have. */
static size_t has(int rank, int owner)
{
    const struct ftk_copy *c = ftk_copies_of(causal.copy[rank][owner], causal.lines);
    for (size_t i = 0; c && i < c->n; i++) {
        const struct ftk_det want = det_of(owner, i);
        STEP_EXPECT(causal.s, memcmp(&c->v[i], &want, sizeof want) == 0);
    }
    return c ? c->n : 0;
}

/* Add the determinants of a rank from a number on. */
static void add(int owner, size_t from)
{
    struct ftk_det v[DETS];
    for (size_t i = 0; i < causal.ndet[owner]; i++)
        v[i] = det_of(owner, i);
    STEP_EXPECT(causal.s, ftk_copies_add(&causal.message, owner, v, from, causal.ndet[owner]));
}

static bool is_beside(int a, int b)
{
    return causal.node[a] == causal.node[b];
}

/* As relay.c:send_before() does it.  False: this send fails, and so does that of the message. */
static bool bring_before(int me, int to, int comm)
{
    struct ftk_reach **r = &causal.reach[me][to][comm];
    int peer[STEP_RANKS], n = 0;
    size_t upto[STEP_RANKS], total = 0;
    for (int k = 0; k < causal.s->n; k++)
        if (is_beside(k, me))
            peer[n++] = k;
    if (!*r)
        *r = calloc(1, sizeof **r + (size_t)n * sizeof(*r)->upto[0]);
    STEP_EXPECT(causal.s, *r != NULL);
    ftk_reach_enter(*r, n, causal.lines);
    STEP_EXPECT(causal.s, ftk_copies_begin(&causal.message, causal.lines, 0));
    for (int i = 0; i < n; i++) {
        upto[i] = causal.ndet[peer[i]];
        total += upto[i];
        if (upto[i] > (*r)->upto[i])
            add(peer[i], (*r)->upto[i]);
    }
    if (total == (*r)->total)
        return true;
    if (step_choose(causal.s, 8) == 0)
        return false;
    step_send(causal.s, me, to, comm, BEFORE, causal.message.v,
        causal.message.n * sizeof *causal.message.v);
    ftk_reach_sent(*r, n, upto);
    return true;
}

static void send_causal(int me, int to)
{
    const int comm = step_choose(causal.s, COMMS);
    if (!is_beside(me, to) && !bring_before(me, to, comm))
        return;
    struct needs needs = causal.needs[me];
    for (int k = 0; k < causal.s->n; k++)
        if (is_beside(k, me))
            needs.of[k] = causal.ndet[k];
    step_send(causal.s, me, to, comm, MESSAGE, &needs, sizeof needs);
}

static bool is_silent(void)
{
    for (int a = 0; a < causal.s->n; a++)
        for (int b = 0; b < causal.s->n; b++)
            for (int c = 0; c < COMMS; c++)
                if (causal.s->queue[a][b][c].first)
                    return false;
    return true;
}

/* All messages are drained: a line.  What was before needs no determinant. */
static void draw_line(void)
{
    causal.lines++;
    memset(causal.ndet, 0, sizeof causal.ndet);
    memset(causal.needs, 0, sizeof causal.needs);
}

static void step_causal(void *arg, int me)
{
    struct stepping *s = causal.s;
    const int what = step_choose(s, 8);
    (void)arg;
    causal.left[me]--;
    if (what < 3 && causal.ndet[me] < DETS)
        causal.needs[me].of[me] = ++causal.ndet[me];
    else if (what == 3 && is_silent())
        draw_line();
    else
        send_causal(me, (me + 1 + step_choose(s, s->n - 1)) % s->n);
}

static bool can_causal(void *arg, int me)
{
    (void)arg;
    return causal.left[me] > 0;
}

static void arrive_causal(void *arg, const struct step_message *m)
{
    struct ftk_copies_head h;
    struct needs needs;
    (void)arg;
    if (m->kind == BEFORE) {
        uint64_t w[STEP_RANKS * (FTK_COPIES_PART_WORDS + DETS * FTK_COPIES_DET_WORDS) + 8];
        STEP_EXPECT(causal.s, m->bytes <= sizeof w);
        memcpy(w, m->data, m->bytes);
        STEP_EXPECT(
            causal.s, ftk_copies_store(causal.copy[m->to], causal.s->n, w, m->bytes / sizeof *w, &h)
                          == MPI_SUCCESS);
        return;
    }
    memcpy(&needs, m->data, sizeof needs);
    for (int k = 0; k < causal.s->n; k++) {
        if (is_beside(k, m->from) && !is_beside(k, m->to))
            STEP_EXPECT(causal.s, has(m->to, k) >= needs.of[k]);
        if (causal.needs[m->to].of[k] < needs.of[k])
            causal.needs[m->to].of[k] = needs.of[k];
    }
}

/* The most that a rank of another node than the lost one has, of the determinants of rank k. */
static size_t most_left(int k, int lost)
{
    size_t most = 0;
    for (int r = 0; r < causal.s->n; r++)
        if (causal.node[r] != lost && has(r, k) > most)
            most = has(r, k);
    return most;
}

/* Send the determinants of a rank to its keeper, in a repair. */
static void replicate(int k)
{
    struct ftk_copies_head h;
    const int keeper = ftk_rounds_keeper(causal.node, causal.s->n, k);
    STEP_EXPECT(causal.s, ftk_copies_begin(&causal.message, causal.lines, 0));
    add(k, 0);
    STEP_EXPECT(causal.s,
        ftk_copies_store(causal.copy[keeper], causal.s->n, causal.message.v, causal.message.n, &h)
            == MPI_SUCCESS);
}

/* The node of the dead rank is lost.  Its ranks begin again with what others have. */
static void lose_node(void *arg, int dead)
{
    struct stepping *s = causal.s;
    const int lost = causal.node[dead];
    (void)arg;
    for (int k = 0; k < s->n; k++) {
        const size_t most = causal.node[k] == lost ? most_left(k, lost) : 0;
        for (int r = 0; causal.node[k] == lost && r < s->n; r++)
            if (causal.node[r] != lost)
                STEP_EXPECT(s, causal.needs[r].of[k] <= most);
        if (causal.node[k] == lost)
            causal.ndet[k] = most;
    }
    s->dead[dead] = false;
    step_clear(s);
    for (int r = 0; r < s->n; r++) {
        s->unnoticed[r][dead] = false;
        forget_rank(r);
        for (int k = 0; k < s->n; k++)
            if (causal.needs[r].of[k] > causal.ndet[k]) /* of a rank of the lost node */
                causal.needs[r].of[k] = causal.ndet[k];
    }
    for (int k = 0; k < s->n; k++)
        replicate(k);
}

static void run_causal(struct stepping *s)
{
    static const struct step_ops ops = {
        .can = can_causal, .step = step_causal, .arrive = arrive_causal, .die = lose_node
    };
    const int n = 2 + step_choose(s, 6), nodes = 2 + step_choose(s, n - 1);
    memset(&causal, 0, sizeof causal);
    causal.s = s;
    causal.lines = 1;
    for (int r = 0; r < n; r++) {
        causal.node[r] = r < nodes ? r : step_choose(s, nodes);
        causal.left[r] = 1 + step_choose(s, SENT);
    }
    step_begin(s, s->seed, n, step_choose(s, 3));
    step_run(s, &ops, &causal, 20000);
    for (int r = 0; r < n; r++)
        forget_rank(r);
    ftk_words_free(&causal.message);
}

static void before_messages(void **state)
{
    (void)state;
    step_many(4000, run_causal);
}

/* A message that is damaged, or before which another one is missing, is refused. */
static void damaged(void **state)
{
    struct ftk_copy copy[2][2] = { 0 };
    struct ftk_copies_head h;
    struct ftk_words m = { 0 };
    const struct ftk_det v[3] = { { 1, 1, 2, 3 }, { 1, 2, 2, 3 }, { 1, 3, 2, 3 } };
    (void)state;
    assert_true(ftk_copies_begin(&m, 4, 0) && ftk_copies_add(&m, 1, v, 0, 2));
    for (size_t words = 0; words < m.n; words++)
        assert_int_equal(ftk_copies_store(copy, 2, m.v, words, &h), MPI_ERR_INTERN);
    assert_int_equal(ftk_copies_store(copy, 1, m.v, m.n, &h), MPI_ERR_INTERN);
    assert_int_equal(ftk_copies_store(copy, 2, m.v, m.n, &h), MPI_SUCCESS);
    assert_int_equal(ftk_copies_of(copy[1], 4)->n, 2);
    assert_true(ftk_copies_begin(&m, 6, 0) && ftk_copies_add(&m, 1, v, 1, 3));
    assert_int_equal(ftk_copies_store(copy, 2, m.v, m.n, &h), MPI_ERR_INTERN);
    assert_true(ftk_copies_begin(&m, 4, 0) && ftk_copies_add(&m, 1, v, 2, 3));
    assert_int_equal(ftk_copies_store(copy, 2, m.v, m.n, &h), MPI_SUCCESS);
    assert_null(ftk_copies_of(copy[1], 4)); /* line 6 has been seen */
    ftk_words_free(&m);
    for (int i = 0; i < 4; i++)
        free(copy[i / 2][i % 2].v);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rounds), cmocka_unit_test(keepers),
        cmocka_unit_test(before_messages), cmocka_unit_test(damaged) };
    return cmocka_run_group_tests_name("relay", tests, NULL, NULL);
}
