/* Messages that completed while receives posted earlier had not: what the list keeps.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "log/base/part.h"
#include "log/request/overtake.h"

enum { CONTEXT = 2, SOURCE = 1, TAG = 5, OTHER_TAG = 6, MANY = 100000, SMALL = 128 };

static const struct ftk_channel channel = { .context = CONTEXT, .source = SOURCE, .tag = TAG };

/* Put a receive that is under way, of that sequence number, at the end of the queue. */
static void post(struct ftk_req *r, uint64_t seq, int tag)
{
    struct ftk_req_queue *q = &ftk_log.queue;
    *r = (struct ftk_req){ .kind = FTK_REQ_RECV, .state = FTK_REQ_POSTED, .seq = seq };
    r->recv.want = (struct ftk_envelope){ CONTEXT, SOURCE, tag };
    r->recv.posted_seq = seq;
    r->prev = q->last;
    if (q->last)
        q->last->next = r;
    else
        q->first = r;
    q->last = r;
    q->seq = seq;
}

static void note(uint64_t seq, int tag)
{
    assert_int_equal(ftk_overtake_note(seq, CONTEXT, SOURCE, tag), MPI_SUCCESS);
}

static int set_up(void **state)
{
    (void)state;
    memset(&ftk_log.queue, 0, sizeof ftk_log.queue);
    ftk_log.apart.on = true;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ftk_part_overtake.close();
    memset(&ftk_log.queue, 0, sizeof ftk_log.queue);
    return 0;
}

/* Messages of its channel, which completed later: the receive had been matched before them. */
static void counts_matching(void **state)
{
    struct ftk_req r;
    (void)state;
    post(&r, 1, TAG);
    note(2, TAG);
    note(3, OTHER_TAG);
    note(4, TAG);
    assert_int_equal(ftk_overtake_count(&channel, &r), 2);
    ftk_overtake_tidy();
    assert_int_equal(ftk_overtake_length(), 2);
    assert_int_equal(ftk_overtake_count(&channel, &r), 2);
}

/* A message whose receive was posted before the one under way has overtaken nothing. */
static void older_receive(void **state)
{
    struct ftk_req first, r;
    (void)state;
    post(&first, 1, OTHER_TAG);
    post(&r, 3, TAG);
    note(2, TAG);
    assert_int_equal(ftk_overtake_count(&channel, &r), 0);
    ftk_overtake_tidy();
    assert_int_equal(ftk_overtake_length(), 0);
}

/* A receive that is posted again is behind the messages that have completed meanwhile. */
static void posted_again(void **state)
{
    struct ftk_req r;
    (void)state;
    post(&r, 1, TAG);
    note(2, TAG);
    r.recv.posted_seq = ftk_log.queue.seq;
    assert_int_equal(ftk_overtake_count(&channel, &r), 0);
    ftk_overtake_tidy();
    assert_int_equal(ftk_overtake_length(), 0);
}

/* A receive is under way during the whole job, and messages of other channels pass it. */
static void bounded(void **state)
{
    struct ftk_req r;
    size_t most = 0;
    (void)state;
    post(&r, 1, TAG);
    note(2, TAG);
    for (uint64_t i = 0; i < MANY; i++) {
        note(3 + i, OTHER_TAG);
        most = ftk_overtake_length() > most ? ftk_overtake_length() : most;
    }
    assert_in_range(most, 1, SMALL);
    assert_int_equal(ftk_overtake_count(&channel, &r), 1);
}

/* What counts is kept, however much there is. */
static void keeps_all(void **state)
{
    struct ftk_req r;
    (void)state;
    post(&r, 1, TAG);
    for (uint64_t i = 0; i < 1000; i++)
        note(2 + i, i % 2 ? TAG : OTHER_TAG);
    assert_int_equal(ftk_overtake_count(&channel, &r), 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_matching, set_up, tear_down),
        cmocka_unit_test_setup_teardown(older_receive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(posted_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeps_all, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("overtaking messages", tests, NULL, NULL);
}
