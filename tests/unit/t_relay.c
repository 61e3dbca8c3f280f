/* Rounds of determinants to keepers in many orders of steps, with deaths: no message leaves its
 * node before a keeper has the determinants on which the message depends.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks of several nodes record determinants and send messages.  A send is held, and rounds begin
 * and end, as mode/relay.c does it; mode/rounds.c decides.  Lines come while acknowledgements are
 * on the way.  A death leads to a repair, which drops all messages and sends all determinants to
 * the keepers again.  What holds:
 *
 *   - a keeper gets the determinants of a rank without gaps
 *   - when a message leaves its node, keepers on other nodes have all determinants that the node
 *     had when the program began the send
 *   - no send is held for ever */
#include "stepping.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rounds), cmocka_unit_test(keepers) };
    return cmocka_run_group_tests_name("relay", tests, NULL, NULL);
}
