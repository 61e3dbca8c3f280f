/* ranks: 2 5
 * A collective that ends with MPI_ERR_TRUNCATE under MPI_ERRORS_RETURN leaves nothing to the next
 * one on its communicator (MPI 4.0, 2.8, 6.1): blocks are longer than the room that their receivers
 * give, and then the same collective is called with the right counts, in every form.
 *
 * The MPI itself (Open MPI 5.0) does not promise that: without ftkit only the right calls are made.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "conform.h"

enum {
    RANKS = 8,
    LONG = 700 /* items, of 4 bytes: above and below limits of algorithms */,
    LIMIT_S = 30
};

enum form { BLOCKING, NON_BLOCKING, PERSISTENT, FORMS };
enum kind {
    BCAST,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLGATHER,
    ALLGATHERV,
    ALLTOALL,
    NEIGHBOR,
    KINDS
};

static int out[RANKS * LONG], in[RANKS * LONG], give[RANKS], room[RANKS], at[RANKS];
static MPI_Comm ring;

/* Calls of one form: f is NAME, INAME and NAME_init with the same arguments. */
#define FORM(Name, Iname, ...)                                                                     \
    do {                                                                                           \
        if (form == BLOCKING)                                                                      \
            return MPI_##Name(__VA_ARGS__);                                                        \
        rc = form == NON_BLOCKING ? MPI_##Iname(__VA_ARGS__, &r)                                   \
                                  : MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &r);             \
        return rc == MPI_SUCCESS ? end(form, &r) : rc;                                             \
    } while (0)

static int end(enum form form, MPI_Request *r)
{
    int rc = form == PERSISTENT ? MPI_Start(r) : MPI_SUCCESS;
    rc = rc == MPI_SUCCESS ? MPI_Wait(r, MPI_STATUS_IGNORE) : rc;
    if (form == PERSISTENT)
        OK(MPI_Request_free(r));
    return rc;
}

/* Every block has s items; there is room for so many. */
static int call(enum kind kind, enum form form, int root, int s, int so_many)
{
    MPI_Request r = MPI_REQUEST_NULL;
    const MPI_Comm w = MPI_COMM_WORLD;
    int rc;
    for (int i = 0; i < n; i++) {
        give[i] = s;
        room[i] = so_many;
        at[i] = i * so_many;
    }
    switch (kind) {
    case BCAST:
        memcpy(in, out, sizeof(int) * (size_t)s);
        FORM(Bcast, Ibcast, in, me == root ? s : so_many, MPI_INT, root, w);
    case GATHER:
        FORM(Gather, Igather, out, s, MPI_INT, in, so_many, MPI_INT, root, w);
    case GATHERV:
        FORM(Gatherv, Igatherv, out, s, MPI_INT, in, room, at, MPI_INT, root, w);
    case SCATTER:
        FORM(Scatter, Iscatter, out, s, MPI_INT, in, so_many, MPI_INT, root, w);
    case SCATTERV:
        FORM(Scatterv, Iscatterv, out, give, at, MPI_INT, in, so_many, MPI_INT, root, w);
    case ALLGATHER:
        FORM(Allgather, Iallgather, out, s, MPI_INT, in, so_many, MPI_INT, w);
    case ALLGATHERV:
        FORM(Allgatherv, Iallgatherv, out, s, MPI_INT, in, room, at, MPI_INT, w);
    case ALLTOALL:
        FORM(Alltoall, Ialltoall, out, s, MPI_INT, in, so_many, MPI_INT, w);
    default:
        FORM(Neighbor_allgather, Ineighbor_allgather, out, s, MPI_INT, in, so_many, MPI_INT, ring);
    }
}

/* Whether this rank gets a block that is too long. */
static bool is_told(enum kind kind, int root)
{
    if (kind == BCAST)
        return me != root;
    return (kind != GATHER && kind != GATHERV) || me == root;
}

/* Whether it may get no more than what a rank before it had room for, which it is not told. */
static bool is_behind(enum kind kind, int root)
{
    return (kind == BCAST || kind == SCATTER) && me != root;
}

static void check_result(enum kind kind, int root, int s, int base)
{
    const bool has = (kind != GATHER && kind != GATHERV) || me == root;
    const int blocks = kind <= SCATTERV && kind != GATHER && kind != GATHERV ? 1
                       : kind == NEIGHBOR                                    ? 2
                                                                             : n;
    for (int b = 0; has && b < blocks; b++) {
        int from = kind == BCAST || kind == SCATTER || kind == SCATTERV ? root
                   : kind == NEIGHBOR ? (me + (b == 0 ? n - 1 : 1)) % n
                                      : b;
        int first = kind == SCATTER || kind == SCATTERV || kind == ALLTOALL ? me * s : 0;
        EQUAL(base + from * 10000 + first, in[b * s]);
        EQUAL(base + from * 10000 + first + s - 1, in[b * s + s - 1]);
    }
}

static void fill(int base)
{
    for (int i = 0; i < RANKS * LONG; i++) {
        out[i] = base + me * 10000 + i;
        in[i] = -1;
    }
}

static void one(enum kind kind, enum form form, int root, int s, int so_many, bool over_log)
{
    static int base;
    int rc, class = MPI_SUCCESS, most = 0;
    base += 100000;
    fill(base);
    if (over_log) {
        rc = call(kind, form, root, s, so_many);
        OK(MPI_Error_class(rc, &class));
        if (is_behind(kind, root))
            TRUE(class == MPI_ERR_TRUNCATE || class == MPI_SUCCESS);
        else
            EQUAL(is_told(kind, root) ? MPI_ERR_TRUNCATE : MPI_SUCCESS, class);
        OK(MPI_Allreduce(&class, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
        EQUAL(MPI_ERR_TRUNCATE, most);
    }
    fill(base);
    OK(call(kind, form, root, s, s));
    check_result(kind, root, s, base);
    int sum = 0;
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    EQUAL(n * (n - 1) / 2, sum);
}

static void body(void)
{
    const char *on = getenv("FTKIT_LOG_ENABLED");
    const bool over_log = on && strcmp(on, "true") == 0;
    const int period = 1;
    alarm(LIMIT_S); /* a rank that waits for what does not come */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &n, &period, 0, &ring));
    OK(MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN));
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (enum form form = 0; form < FORMS; form++)
            for (int root = 0; root < n; root += n - 1) {
                one(kind, form, root, 4, 2, over_log);
                one(kind, form, root, LONG, LONG - 1, over_log);
                if (kind == GATHER || kind == ALLTOALL) {
                    one(kind, form, root, 4, 0, over_log);
                    one(kind, form, root, LONG, 3, over_log);
                }
            }
    /* what is left behind would come to a collective many calls later */
    for (int i = 0; i < 200; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Comm_free(&ring));
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
