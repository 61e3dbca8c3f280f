/* Help in a replay: which rank does which unit, and the rank that gives units away, against helpers
 * that come, are late, cannot, fail and stay away, in a random order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The test takes the place of lib/log/units/wire.c: messages go to helpers of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ftk.h"
#include "log/base/figures.h"
#include "log/units/hand.h"
#include "log/units/units.h"

enum { HELPERS = 6, QUEUE = 16, UNITS = 40, MOST = 3 };

/* What a helper does with its units.  A late one returns a unit that has been done elsewhere. */
enum mood { QUICK, SLOW, LATE, UNABLE, AWAY, MOODS };

static struct helper {
    enum mood mood;
    struct ftk_units_head queue[QUEUE];
    uint64_t in[QUEUE];
    int n, most;
    bool stopped, asked;
} helper[HELPERS];

static struct ftkit_ctx ctx;
static struct ftk_unit unit = { .name = "double" };
static uint64_t in[UNITS], out[UNITS];
static int fails_from; /* unit fails_from and some behind it fail; UNITS: none */
static int runs[UNITS];
static bool lie;     /* late helpers return another output */
static bool failure; /* is known */
static int budget;   /* messages until it is */

static uint64_t result_of(uint64_t x)
{
    return 2 * x + 1;
}

static int code_of(int i)
{
    return i >= fails_from && i % 3 == fails_from % 3 ? 100 + i : 0;
}

/* ---- in place of wire.c ----------------------------------------------------------------- */

static void returns(int h, struct ftk_units_head head, uint64_t result)
{
    uint64_t w[FTK_UNITS_WORDS + 1];
    const bool with = head.code == 0;
    memcpy(w, &head, sizeof head);
    w[FTK_UNITS_WORDS] = result;
    const struct ftk_control c = { .source = h, .w = w, .words = FTK_UNITS_WORDS + with };
    assert_int_equal(ftk_give_returned(&c), MPI_SUCCESS);
}

/* The helper does its first unit. */
static void do_one(int h)
{
    struct helper *p = &helper[h];
    struct ftk_units_head head = p->queue[0];
    const uint64_t x = p->in[0];
    p->n--;
    memmove(&p->queue[0], &p->queue[1], (size_t)p->n * sizeof p->queue[0]);
    memmove(&p->in[0], &p->in[1], (size_t)p->n * sizeof p->in[0]);
    head.code = p->mood == UNABLE ? FTK_UNITS_UNABLE : code_of((int)head.number);
    returns(h, head, p->mood == LATE && lie ? 0 : result_of(x));
}

static void asks(int h)
{
    const struct ftk_control c = { .source = h };
    helper[h].stopped = false;
    helper[h].asked = true;
    assert_int_equal(ftk_give_asked(&c), MPI_SUCCESS);
}

bool ftk_units_look(void)
{
    for (int h = 0; h < HELPERS && !failure; h++) {
        struct helper *p = &helper[h];
        const int chance = p->mood == QUICK ? 1 : 4;
        const bool waits =
            p->mood == AWAY
            || (p->mood == LATE && p->n > 0 && !p->stopped && runs[p->queue[0].number] == 0);
        if (!p->asked && rand() % 3 == 0)
            asks(h);
        else if (p->n > 0 && !waits && rand() % chance == 0)
            do_one(h);
        failure = failure || --budget == 0;
    }
    return !failure;
}

bool ftk_units_send(const struct ftk_units_head *h, const void *data, size_t bytes, int dest,
    enum ftk_units_tag tag)
{
    struct helper *p = &helper[dest];
    if (tag == FTK_UNITS_STOP) {
        assert_true(p->n > 0 && !p->stopped); /* nobody else is stopped */
        p->stopped = true;
        p->asked = false;
        if (p->mood != LATE)
            p->n = 0; /* a late one has begun */
        return true;
    }
    assert_int_equal(tag, FTK_UNITS_UNIT);
    assert_int_equal(bytes, sizeof p->in[0]);
    assert_true(!p->stopped && p->asked && p->n < QUEUE);
    assert_string_equal(h->name, unit.name);
    memcpy(&p->in[p->n], data, bytes);
    p->queue[p->n++] = *h;
    p->most = p->n > p->most ? p->n : p->most;
    return rand() % 20 > 0 || (p->n--, false); /* no memory */
}

bool ftk_units_read(const struct ftk_control *c, struct ftk_units_head *h, const void **data,
    size_t (*bytes)(const struct ftk_units_head *h))
{
    memcpy(h, c->w, sizeof *h);
    *data = c->w + FTK_UNITS_WORDS;
    return c->words == ftk_units_words(bytes(h));
}

int ftk_units_call(const struct ftk_units_call *c, size_t i)
{
    runs[i]++;
    assert_int_equal(runs[i], 1); /* here */
    *(uint64_t *)c->out[i] = result_of(*(const uint64_t *)c->in[i]);
    return code_of((int)i);
}

/* ---- a call ------------------------------------------------------------------------------ */

static int run(size_t n)
{
    const void *ins[UNITS];
    void *outs[UNITS];
    size_t bytes[UNITS];
    for (size_t i = 0; i < n; i++) {
        in[i] = (uint64_t)rand();
        out[i] = 0;
        ins[i] = &in[i];
        outs[i] = &out[i];
        bytes[i] = sizeof in[i];
        runs[i] = 0;
    }
    const struct ftk_units_call c = { &unit, n, ins, bytes, outs, bytes };
    return ftk_units_run(&c);
}

static void check(size_t n, int rc)
{
    const bool fails = (size_t)fails_from < n;
    char text[80];
    assert_int_equal(rc, fails ? FTKIT_ERR_CALLBACK : FTKIT_OK);
    for (size_t i = 0; i < n && i < (size_t)fails_from; i++)
        assert_int_equal(out[i], result_of(in[i]));
    if (!fails)
        return;
    snprintf(
        text, sizeof text, "unit %d of 'double' has returned %d", fails_from, 100 + fails_from);
    assert_non_null(strstr(ftk_detail_text(), text));
}

static void a_series(int seed, bool lies)
{
    ftkit_info info = { .size = sizeof info };
    srand((unsigned)seed);
    lie = lies;
    memset(helper, 0, sizeof helper);
    failure = false;
    budget = rand() % 4 == 0 ? 1 + rand() % 400 : INT32_MAX;
    for (int h = 0; h < HELPERS; h++)
        helper[h].mood = (enum mood)(rand() % MOODS);
    ftk_give_begin();
    for (int call = 0; call < 6; call++) {
        const size_t n = 1 + (size_t)(rand() % UNITS);
        fails_from = rand() % 3 == 0 ? rand() % UNITS : UNITS;
        const int rc = run(n);
        check(n, rc); /* the first output counts */
    }
    int used = 0;
    for (int h = 0; h < HELPERS; h++) {
        used += helper[h].most > 0;
        assert_true(helper[h].most <= 4 + (helper[h].mood == LATE ? 24 : 0));
    }
    ftk_give_figures(&info);
    assert_true(used > 0 || info.units_elsewhere == 0);
    ftk_give_end();
}

static int set_up(void **state)
{
    (void)state;
    memset(&ctx, 0, sizeof ctx);
    memset(&ftk_log, 0, sizeof ftk_log);
    ctx.cfg.log_helpers = MOST;
    ctx.cfg.log_check = true;
    ftk_log.ctx = &ctx;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ftk_give_close();
    ftk_part_differs.close();
    ftk_part_alone.close();
    memset(&ftk_log, 0, sizeof ftk_log);
    return 0;
}

static void any_order(void **state)
{
    const char *few = getenv("FTKIT_TEST_COUNT");
    const int count = few ? atoi(few) : 150;
    (void)state;
    for (int seed = 1; seed <= count; seed++)
        a_series(seed, false);
    assert_int_equal(
        ftk_figures_differences(), 0); /* outputs that were there twice were the same */
}

/* With all helpers at once helpers do most; at most log.helpers of them are used at a time. */
static void helpers_do_most(void **state)
{
    ftkit_info info = { .size = sizeof info };
    int used = 0;
    (void)state;
    srand(1);
    memset(helper, 0, sizeof helper);
    failure = false;
    budget = INT32_MAX;
    fails_from = UNITS;
    ftk_give_begin();
    for (int h = 0; h < HELPERS; h++)
        asks(h);
    check(UNITS, run(UNITS));
    ftk_give_figures(&info);
    assert_in_range(info.units_elsewhere, UNITS / 2, UNITS - 1);
    for (int h = 0; h < HELPERS; h++)
        used += helper[h].most > 0;
    assert_int_equal(used, MOST);
}

/* Nobody helps a rank that has not rolled back, or is at a line. */
static void not_asked_for(void **state)
{
    ftkit_info info = { .size = sizeof info };
    (void)state;
    fails_from = UNITS;
    budget = INT32_MAX;
    failure = false;
    memset(helper, 0, sizeof helper);
    asks(0);
    check(UNITS, run(UNITS));
    ftk_give_begin();
    asks(1);
    ftk_give_end();
    check(UNITS, run(UNITS));
    ftk_give_figures(&info);
    assert_int_equal(info.units_elsewhere, 0);
    for (size_t i = 0; i < UNITS; i++)
        assert_int_equal(runs[i], 1);
}

/* A late helper returns another output than that of this rank: found when both come in a call. */
static void outputs_differ(void **state)
{
    (void)state;
    for (int seed = 1; seed < 200 && ftk_figures_differences() == 0; seed++)
        a_series(seed, true);
    assert_true(ftk_figures_differences() > 0);
}

/* ---- hand.h ------------------------------------------------------------------------------ */

/* Against a list of states, in a random order of steps. */
static void hands(void **state)
{
    (void)state;
    srand(3);
    for (int series = 0; series < 3000; series++) {
        struct ftk_hand h;
        const size_t n = (size_t)(rand() % 12);
        size_t count = n;
        enum ftk_hand_state model[12] = { FTK_HAND_OPEN };
        assert_true(ftk_hand_begin(&h, n));
        for (int step = 0; step < 60; step++) {
            size_t open = 0, given = 0, i = n > 0 ? (size_t)rand() % n : 0;
            ptrdiff_t first_open = -1, first_given = -1, last_open = -1, got;
            for (size_t k = 0; k < count; k++) {
                open += model[k] == FTK_HAND_OPEN;
                given += model[k] == FTK_HAND_GIVEN;
                if (model[k] == FTK_HAND_OPEN) {
                    first_open = first_open < 0 ? (ptrdiff_t)k : first_open;
                    last_open = (ptrdiff_t)k;
                } else if (model[k] == FTK_HAND_GIVEN && first_given < 0)
                    first_given = (ptrdiff_t)k;
            }
            assert_int_equal(h.open, open);
            assert_int_equal(h.given, given);
            assert_int_equal(ftk_hand_next(&h), first_open >= 0 ? first_open : first_given);
            switch (rand() % 8) {
            case 0:
            case 1:
            case 2:
                got = ftk_hand_give(&h);
                assert_int_equal(got, open > 1 ? last_open : FTK_HAND_NONE);
                if (got >= 0)
                    model[got] = FTK_HAND_GIVEN;
                break;
            case 3:
                ftk_hand_take(&h, i);
                if (i < count && model[i] == FTK_HAND_GIVEN)
                    model[i] = FTK_HAND_OPEN;
                break;
            case 4:
                if (i < count && rand() % 8 == 0) {
                    ftk_hand_cut(&h, i);
                    count = i;
                }
                break;
            default:
                if (n == 0)
                    break;
                assert_int_equal(ftk_hand_done(&h, i), i < count && model[i] != FTK_HAND_DONE);
                if (i < count)
                    model[i] = FTK_HAND_DONE;
            }
        }
        ftk_hand_end(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hands),
        cmocka_unit_test_setup_teardown(not_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(helpers_do_most, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(outputs_differ, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
