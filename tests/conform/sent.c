/* ranks: 2
 * Requests of small sends, which may be over when MPI_Isend returns (MPI 4.0, 3.7.3 to 3.7.5): each
 * of them is a request of its own for every call that takes requests, and also outlives its
 * communicator.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "conform.h"

enum { MANY = 50, TAG = 3 };

static MPI_Request requests[MANY];
static MPI_Status statuses[MANY];
static int values[MANY];

/* Rank 0 sends MANY values, and rank 1 receives them; requests[] has the sends of rank 0. */
static void send_all(MPI_Comm comm)
{
    for (int i = 0; i < MANY; i++)
        requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < MANY; i++) {
        int value = -1;
        values[i] = i;
        if (me == 0)
            OK(MPI_Isend(&values[i], 1, MPI_INT, 1, TAG, comm, &requests[i]));
        else
            OK(MPI_Recv(&value, 1, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE));
        EQUAL(me == 0 ? -1 : i, value);
    }
}

static void none_is_left(void)
{
    for (int i = 0; i < MANY; i++)
        TRUE(requests[i] == MPI_REQUEST_NULL);
}

static void wait_for_each(void)
{
    int cancelled = 1;
    for (int i = 0; me == 0 && i < MANY; i++) {
        OK(MPI_Wait(&requests[i], &statuses[i]));
        OK(MPI_Test_cancelled(&statuses[i], &cancelled));
        EQUAL(0, cancelled);
        TRUE(requests[i] == MPI_REQUEST_NULL);
    }
}

static void wait_for_all(void)
{
    for (int i = 0; i < MANY; i++)
        statuses[i].MPI_ERROR = MPI_ERR_OTHER;
    OK(MPI_Waitall(MANY, requests, statuses));
    none_is_left();
}

static void test_all(void)
{
    int flag = 0;
    while (!flag)
        OK(MPI_Testall(MANY, requests, &flag, MPI_STATUSES_IGNORE));
}

/* Each index comes once. */
static void wait_for_any(void)
{
    int seen[MANY] = { 0 }, index;
    for (int i = 0; me == 0 && i < MANY; i++) {
        OK(MPI_Waitany(MANY, requests, &index, MPI_STATUS_IGNORE));
        TRUE(index >= 0 && index < MANY);
        EQUAL(0, seen[index]++);
    }
    OK(MPI_Waitany(MANY, requests, &index, MPI_STATUS_IGNORE));
    EQUAL(MPI_UNDEFINED, index);
}

static void wait_for_some(void)
{
    int seen[MANY] = { 0 }, index[MANY], some;
    for (int left = me == 0 ? MANY : 0; left > 0; left -= some) {
        OK(MPI_Waitsome(MANY, requests, &some, index, statuses));
        TRUE(some > 0 && some <= left);
        for (int i = 0; i < some; i++)
            EQUAL(0, seen[index[i]]++);
    }
    OK(MPI_Waitsome(MANY, requests, &some, index, statuses));
    EQUAL(MPI_UNDEFINED, some);
}

/* Some are freed; some are asked for, and waited for. */
static void mix(void)
{
    for (int i = 0; me == 0 && i < MANY; i++) {
        int flag = 0;
        if (i % 3 == 0) {
            OK(MPI_Request_free(&requests[i]));
            continue;
        }
        while (i % 3 == 1 && !flag)
            OK(MPI_Request_get_status(requests[i], &flag, &statuses[i]));
        TRUE(requests[i] != MPI_REQUEST_NULL);
    }
    OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
}

static void body(void)
{
    MPI_Comm dup;
    void (*const ends[])(
        void) = { wait_for_each, wait_for_all, test_all, wait_for_any, wait_for_some, mix };
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        send_all(MPI_COMM_WORLD);
        ends[k]();
        none_is_left();
    }
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    send_all(dup);
    OK(MPI_Comm_free(&dup));
    wait_for_all();
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
