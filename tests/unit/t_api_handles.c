/* Variables that hold handles of MPI, decided values and shared memory, without the message log: a
 * restore sets the variables to null handles, and nothing may be under way at a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "t_api.h"

static int data[4];
static MPI_Request requests[2];
static MPI_Message message;
static MPI_Comm comm;
static MPI_Win win;

static ftkit_ctx *begin(int want)
{
    ftkit_ctx *ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_register(ft, "data", data, 4, MPI_INT));
    CHECK(FTKIT_OK, ft, ftkit_register_requests(ft, "requests", requests, 2));
    CHECK(FTKIT_OK, ft, ftkit_register_messages(ft, "message", &message, 1));
    CHECK(FTKIT_OK, ft, ftkit_register_comm(ft, "comm", &comm));
    CHECK(FTKIT_OK, ft, ftkit_register_window(ft, "win", &win));
    CHECK(want, ft, ftkit_recover(ft, NULL));
    return ft;
}

static void clear(void)
{
    memset(data, 0, sizeof data);
    requests[0] = requests[1] = MPI_REQUEST_NULL;
    message = MPI_MESSAGE_NULL;
    comm = MPI_COMM_SELF;
    win = MPI_WIN_NULL;
}

static void without_log(void **state)
{
    int there = 5, here = 0;
    MPI_Request sending;
    (void)state;
    clear();
    ftkit_ctx *ft = begin(FTKIT_NO_SET);
    save(ft);
    assert_int_equal(query(ft).log_requests, 0);
    /* a request under way */
    assert_int_equal(MPI_Irecv(&here, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[1]), MPI_SUCCESS);
    CHECK(FTKIT_OK, ft, ftkit_request(ft, 1));
    CHECK_ERROR(
        FTKIT_ERR_STATE, ft, "'requests'|variable 1|a request|log.enabled", ftkit_checkpoint(ft));
    /* one that is complete: the wait is all that is left */
    assert_int_equal(MPI_Send(&there, 1, MPI_INT, 0, 1, MPI_COMM_SELF), MPI_SUCCESS);
    save(ft);
    assert_int_equal(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), MPI_SUCCESS);
    assert_int_equal(here, 5);
    /* persistent, and not started */
    assert_int_equal(
        MPI_Recv_init(&here, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[0]), MPI_SUCCESS);
    save(ft);
    assert_int_equal(MPI_Request_free(&requests[0]), MPI_SUCCESS);
    /* a matched message; an MPI may keep the send under way until the receive */
    assert_int_equal(MPI_Isend(&there, 1, MPI_INT, 0, 2, MPI_COMM_SELF, &sending), MPI_SUCCESS);
    assert_int_equal(MPI_Mprobe(0, 2, MPI_COMM_SELF, &message, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK(FTKIT_OK, ft, ftkit_request(ft, 1));
    CHECK_ERROR(
        FTKIT_ERR_STATE, ft, "'message'|variable 0|a matched message", ftkit_checkpoint(ft));
    assert_int_equal(MPI_Mrecv(&here, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_SUCCESS);
    assert_int_equal(MPI_Wait(&sending, MPI_STATUS_IGNORE), MPI_SUCCESS);
    data[2] = 7;
    /* a window does not come back */
    MPI_Win made;
    assert_int_equal(
        MPI_Win_create(data, sizeof data, 1, MPI_INFO_NULL, MPI_COMM_SELF, &made), MPI_SUCCESS);
    win = made;
    save(ft);
    assert_int_equal(MPI_Win_free(&made), MPI_SUCCESS);
    close_context(&ft);
    /* back: null handles */
    clear();
    memset(requests, SCRIBBLE, sizeof requests);
    memset(&message, SCRIBBLE, sizeof message);
    memset(&win, SCRIBBLE, sizeof win);
    ft = begin(FTKIT_OK);
    assert_int_equal(data[2], 7);
    assert_true(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    assert_true(message == MPI_MESSAGE_NULL);
    assert_true(comm == MPI_COMM_NULL && win == MPI_WIN_NULL);
    close_context(&ft);
}

static void bad_arguments(void **state)
{
    (void)state;
    clear();
    ftkit_ctx *ft = open_context();
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "ftkit_register_requests|NULL",
        ftkit_register_requests(ft, "q", NULL, 1));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "ftkit_register_messages|NULL",
        ftkit_register_messages(ft, "m", NULL, 1));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "ftkit_register_comm|NULL", ftkit_register_comm(ft, "c", NULL));
    CHECK_ERROR(
        FTKIT_ERR_ARG, ft, "ftkit_register_window|NULL", ftkit_register_window(ft, "w", NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_register_window|context is NULL",
        ftkit_register_window(NULL, "w", &win));
    CHECK_ERROR(FTKIT_ERR_NAME, ft, "a/b", ftkit_register_window(ft, "a/b", &win));
    CHECK_ERROR(FTKIT_ERR_NAME, ft, "a/b", ftkit_register_requests(ft, "a/b", requests, 1));
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_register_requests|context is NULL",
        ftkit_register_requests(NULL, "q", requests, 1));
    CHECK(FTKIT_OK, ft, ftkit_register_requests(ft, "none", NULL, 0));
    CHECK(FTKIT_OK, ft, ftkit_register_requests(ft, "q", requests, 2));
    CHECK_ERROR(FTKIT_ERR_EXISTS, ft, "'q'", ftkit_register_messages(ft, "q", &message, 1));
    CHECK_ERROR(FTKIT_ERR_EXISTS, ft, "'q'", ftkit_register_window(ft, "q", &win));
    CHECK(FTKIT_OK, ft, ftkit_unregister(ft, "q"));
    CHECK(FTKIT_OK, ft, ftkit_register_messages(ft, "q", &message, 1));
    close_context(&ft);
}

/* Another number of variables than the set has. */
static void other_number(void **state)
{
    (void)state;
    clear();
    ftkit_ctx *ft = begin(FTKIT_NO_SET);
    save(ft);
    close_context(&ft);
    ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_register_requests(ft, "requests", requests, 1));
    CHECK_ERROR(FTKIT_ERR_SIZE, ft, "'requests'|1 variables|2 in the set", ftkit_recover(ft, NULL));
    assert_int_equal(ftkit_close(&ft), FTKIT_ERR_SIZE);
}

static void decided(void **state)
{
    static char large[65537];
    int value = 3;
    (void)state;
    clear();
    ftkit_ctx *ft = begin(FTKIT_NO_SET);
    CHECK(FTKIT_OK, ft, ftkit_decide(ft, &value, sizeof value));
    assert_int_equal(value, 3);
    CHECK(FTKIT_OK, ft, ftkit_decide(ft, large, 65536));
    CHECK(FTKIT_OK, ft, ftkit_decide(ft, NULL, 0));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "ftkit_decide|NULL", ftkit_decide(ft, NULL, 1));
    CHECK_ERROR(FTKIT_ERR_SIZE, ft, "ftkit_decide|65537", ftkit_decide(ft, large, sizeof large));
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_decide|context is NULL", ftkit_decide(NULL, large, 1));
    close_context(&ft);
}

/* Without the log the calls look at their arguments, and do nothing else. */
static void shared(void **state)
{
    (void)state;
    clear();
    ftkit_ctx *ft = begin(FTKIT_NO_SET);
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "ftkit_share|8 bytes", ftkit_share(ft, NULL, 8));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "ftkit_share|0 bytes", ftkit_share(ft, data, 0));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "ftkit_share", ftkit_share(ft, data, SIZE_MAX));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "ftkit_unshare|NULL", ftkit_unshare(ft, NULL));
    CHECK(FTKIT_OK, ft, ftkit_share(ft, data, sizeof data));
    CHECK(FTKIT_OK, ft, ftkit_share(ft, data, sizeof data));
    CHECK(FTKIT_OK, ft, ftkit_unshare(ft, data + 1));
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_share|context is NULL", ftkit_share(NULL, data, 1));
    CHECK_ERROR(FTKIT_ERR_ARG, NULL, "ftkit_unshare|context is NULL", ftkit_unshare(NULL, data));
    close_context(&ft);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST(without_log), TEST(bad_arguments), TEST(other_number),
        TEST(decided), TEST(shared) };
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS || make_work() != 0)
        return 1;
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    bad |= remove_work();
    MPI_Finalize();
    return bad != 0;
}
