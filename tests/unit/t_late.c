/* Late messages: which copies stay, in which order, with which content.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "log/base/part.h"

enum { CONTEXT = 2, SOURCE = 1, TAG = 5, OTHER_TAG = 6, MANY = 5000, LONG = 200000 };

static struct ftk_channel *channel(int tag)
{
    struct ftk_channel *s = ftk_channel_find(CONTEXT, SOURCE, tag);
    assert_non_null(s);
    return s;
}

static char byte_of(uint64_t seq, size_t i)
{
    return (char)(seq * 31 + i);
}

/* A message is received on a channel after the cut: count and copy it, as recv.c does. */
static void receive(int tag, uint64_t seq, size_t bytes)
{
    struct ftk_channel *s = channel(tag);
    char *data = malloc(bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_of(seq, i);
    assert_int_equal(ftk_channel_count(s, seq, 0), FTKIT_OK);
    assert_true(ftk_late_wants(s, seq));
    assert_int_equal(ftk_late_received(s, seq, data, bytes), MPI_SUCCESS);
    memset(data, 0, bytes);
    free(data);
}

static void is_copy(const struct ftk_unexp *h, int tag, uint64_t seq, size_t bytes)
{
    assert_non_null(h);
    assert_int_equal(h->context, CONTEXT);
    assert_int_equal(h->source, SOURCE);
    assert_int_equal(h->tag, tag);
    assert_int_equal(h->seq, seq);
    assert_int_equal(h->bytes, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(h->data[i], byte_of(seq, i));
}

static int set_up(void **state)
{
    (void)state;
    ftk_log.apart.on = ftk_log.apart.open = true;
    ftk_log.apart.all_cut = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ftk_part_late.close();
    ftk_part_channels.close();
    ftk_log.apart.on = ftk_log.apart.open = ftk_log.apart.all_cut = false;
    return 0;
}

/* The sender had sent two messages at its cut: the first two of the channel are late. */
static void keeps_late_ones(void **state)
{
    const struct ftk_unexp *late;
    (void)state;
    receive(TAG, 3, 8);
    receive(OTHER_TAG, 4, 0);
    receive(TAG, 1, 100); /* posted before, completed after */
    receive(TAG, 7, 8);
    channel(TAG)->at_cut = 2;
    assert_int_equal(ftk_late_finish(&late), FTKIT_OK);
    assert_int_equal(ftk_late_count(), 2);
    is_copy(late, TAG, 1, 100);
    is_copy(late->next, TAG, 3, 8);
    assert_null(late->next->next);
}

/* All senders have announced their numbers: only late messages are copied. */
static void wants_late_ones(void **state)
{
    struct ftk_channel *s = channel(TAG);
    (void)state;
    s->at_cut = 1;
    ftk_log.apart.all_cut = true;
    assert_int_equal(ftk_channel_count(s, 1, 0), FTKIT_OK);
    assert_true(ftk_late_wants(s, 1));
    assert_int_equal(ftk_channel_count(s, 2, 0), FTKIT_OK);
    assert_false(ftk_late_wants(s, 2));
    ftk_log.apart.open = false;
    assert_false(ftk_late_wants(s, 1));
}

/* Many blocks; those without a late message are used again. */
static void many(void **state)
{
    const struct ftk_unexp *late;
    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        const uint64_t first = 1 + (uint64_t)turn * 2 * MANY;
        for (uint64_t i = 0; i < MANY; i++)
            receive(TAG, first + i, i % 90);
        receive(OTHER_TAG, first + MANY, LONG);
        channel(TAG)->at_cut = (uint64_t)turn * MANY + 10;
        channel(OTHER_TAG)->at_cut = (uint64_t)turn + 1;
        assert_int_equal(ftk_late_finish(&late), FTKIT_OK);
        assert_int_equal(ftk_late_count(), 11);
        for (uint64_t i = 0; i < 10; i++, late = late->next)
            is_copy(late, TAG, first + i, i % 90);
        is_copy(late, OTHER_TAG, first + MANY, LONG);
        ftk_part_late.cut_over();
        assert_int_equal(ftk_late_count(), 0);
        assert_int_equal(ftk_late_finish(&late), FTKIT_OK);
        assert_null(late);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keeps_late_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wants_late_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
