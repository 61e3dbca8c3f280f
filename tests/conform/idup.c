/* ranks: 2 3 4
 * MPI_Comm_idup is matched by the order of calls on each communicator alone (MPI 4.0, 6.4.2,
 * 6.12): two on different communicators may be begun in any order, any number may be under
 * way, other communicators may be made meanwhile, and all may be waited for in any order.
 *
 * Open MPI 5.0.7 itself hangs at times with several under way, and crashes when the parent is
 * freed, so this needs the log.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "conform.h"

enum { MANY = 64, ALIVE = 3, ROUNDS = 20 };

static void works(MPI_Comm c, MPI_Comm like)
{
    int rank, size, got = -1, same = -1;
    OK(MPI_Comm_rank(c, &rank));
    OK(MPI_Comm_size(c, &size));
    OK(MPI_Sendrecv(&me, 1, MPI_INT, (rank + 1) % size, 2, &got, 1, MPI_INT,
        (rank + size - 1) % size, 2, c, MPI_STATUS_IGNORE));
    OK(MPI_Comm_compare(c, like, &same));
    EQUAL(MPI_CONGRUENT, same);
    TRUE(got >= 0 && got < n);
}

/* Messages with the same tag are told apart. */
static void apart(MPI_Comm a, MPI_Comm b)
{
    int rank, size, out[2] = { 2 * me, 2 * me + 1 }, in[2] = { -1, -1 };
    MPI_Request r[2];
    OK(MPI_Comm_rank(a, &rank));
    OK(MPI_Comm_size(a, &size));
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    OK(MPI_Isend(&out[0], 1, MPI_INT, to, 7, a, &r[0]));
    OK(MPI_Isend(&out[1], 1, MPI_INT, to, 7, b, &r[1]));
    OK(MPI_Recv(&in[1], 1, MPI_INT, from, MPI_ANY_TAG, b, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&in[0], 1, MPI_INT, from, 7, a, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    EQUAL(in[0] + 1, in[1]);
}

static void other_order(MPI_Comm a, MPI_Comm b)
{
    MPI_Comm x = MPI_COMM_NULL, y = MPI_COMM_NULL;
    MPI_Request r[2];
    if (me % 2) {
        OK(MPI_Comm_idup(a, &x, &r[0]));
        OK(MPI_Comm_idup(b, &y, &r[1]));
    } else {
        OK(MPI_Comm_idup(b, &y, &r[1]));
        OK(MPI_Comm_idup_with_info(a, MPI_INFO_NULL, &x, &r[0]));
    }
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    works(x, a);
    works(y, b);
    apart(x, y);
    apart(x, a);
    OK(MPI_Comm_free(&x));
    OK(MPI_Comm_free(&y));
}

/* Each rank begins them in an order of its own, but those of one parent in the same. */
static void many_under_way(MPI_Comm *parent)
{
    static MPI_Comm made[MANY];
    static MPI_Request r[MANY];
    MPI_Comm other;
    int done[ALIVE] = { 0 };
    for (int i = 0; i < MANY; i++) {
        int p = (i + me) % ALIVE, at;
        while ((at = p + ALIVE * done[p]) >= MANY)
            p = (p + 1) % ALIVE;
        done[p]++;
        OK(MPI_Comm_idup(parent[p], &made[at], &r[at]));
    }
    OK(MPI_Comm_split(MPI_COMM_WORLD, me % 2, 0, &other));
    OK(MPI_Comm_free(&other));
    for (int i = 0; i < MANY; i++)
        OK(MPI_Wait(&r[me % 2 ? i : MANY - 1 - i], MPI_STATUS_IGNORE));
    for (int i = 0; i < MANY; i++)
        works(made[i], parent[i % ALIVE]);
    apart(made[0], made[ALIVE]);
    apart(made[MANY - 1], made[MANY - 1 - ALIVE]);
    for (int i = 0; i < MANY; i++)
        OK(MPI_Comm_free(&made[i]));
}

/* Messages go on while one is under way. */
static void one(MPI_Comm a)
{
    MPI_Comm x;
    MPI_Request r;
    OK(MPI_Comm_idup(a, &x, &r));
    works(a, MPI_COMM_WORLD);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    works(x, a);
    apart(x, a);
    OK(MPI_Comm_free(&x));
}

/* The parent may be freed while its duplicate is under way. */
static void parent_goes(void)
{
    MPI_Comm a, b;
    MPI_Request r;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    OK(MPI_Comm_idup(a, &b, &r));
    OK(MPI_Comm_free(&a));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    works(b, MPI_COMM_WORLD);
    OK(MPI_Comm_free(&b));
}

static void body(void)
{
    MPI_Comm parent[ALIVE] = { MPI_COMM_WORLD };
    const char *on = getenv("FTKIT_LOG_ENABLED");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent[1]));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent[2]));
    one(parent[1]);
    for (int i = 0; i < ROUNDS && on && strcmp(on, "true") == 0; i++) {
        parent_goes();
        other_order(parent[1], parent[2]);
        other_order(MPI_COMM_WORLD, parent[1]);
        many_under_way(parent);
    }
    OK(MPI_Comm_free(&parent[1]));
    OK(MPI_Comm_free(&parent[2]));
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
