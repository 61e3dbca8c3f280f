/* What a set cannot have of what is under way: each case is an error of ftkit_checkpoint() that
 * names the request, on all ranks; when the request is complete, the next call writes the set.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include "ftkit.h"

static ftkit_ctx *ft;
static MPI_Comm comm, other;
static int rank, size, checked, bad;
static double region[8], *grown;
static size_t ngrown = 4;
static double outside[4], sum, gathered[64], same[2], strided[8];
static MPI_Request registered = MPI_REQUEST_NULL, loose = MPI_REQUEST_NULL;
static MPI_Message message = MPI_MESSAGE_NULL, matched = MPI_MESSAGE_NULL;
static MPI_Op op;

static int peer(void)
{
    return (rank + 1) % size;
}
static int before(void)
{
    return (rank + size - 1) % size;
}

static void check(int good, const char *what, const char *found)
{
    checked++;
    bad += !good;
    if (!good)
        printf("unsaved: rank %d: %s: %s\n", rank, what, found);
}

/* ---- the cases: begin what is wrong; complete it ---------------------------------------- */

static void receive_begin(MPI_Request *q, void *at)
{
    check(MPI_Irecv(at, 1, MPI_DOUBLE, before(), 7, comm, q) == MPI_SUCCESS, "MPI_Irecv", "error");
}
static void receive_end(MPI_Request *q)
{
    double x = 1;
    MPI_Send(&x, 1, MPI_DOUBLE, peer(), 7, comm);
    MPI_Wait(q, MPI_STATUS_IGNORE);
}

static void loose_begin(void)
{
    receive_begin(&loose, region);
}
static void loose_end(void)
{
    receive_end(&loose);
}
static void outside_begin(void)
{
    receive_begin(&registered, outside);
}
static void outside_end(void)
{
    receive_end(&registered);
}
static void beyond_begin(void)
{
    MPI_Irecv(region + 6, 3, MPI_DOUBLE, before(), 7, comm, &registered);
}

static void done_begin(void)
{
    double x = 2;
    int flag = 0;
    receive_begin(&registered, outside);
    MPI_Send(&x, 1, MPI_DOUBLE, peer(), 7, comm);
    while (!flag)
        MPI_Request_get_status(registered, &flag, MPI_STATUS_IGNORE);
}
static void wait_end(void)
{
    MPI_Wait(&registered, MPI_STATUS_IGNORE);
}

static void sent_begin(void)
{
    double x;
    MPI_Isend(region, 1, MPI_DOUBLE, peer(), 8, comm, &loose);
    MPI_Recv(&x, 1, MPI_DOUBLE, before(), 8, comm, MPI_STATUS_IGNORE);
}
static void loose_wait(void)
{
    MPI_Wait(&loose, MPI_STATUS_IGNORE);
}

static void result_begin(void)
{
    MPI_Iallreduce(region, &sum, 1, MPI_DOUBLE, MPI_SUM, comm, &registered);
}

/* The last rank is late: it alone has the collective complete, and the others all messages but its
 * own. */
static void gathered_begin(void)
{
    if (rank < size - 1)
        MPI_Ialltoall(region, 1, MPI_DOUBLE, gathered, 1, MPI_DOUBLE, comm, &registered);
}
static void gathered_end(void)
{
    if (rank == size - 1)
        MPI_Ialltoall(region, 1, MPI_DOUBLE, gathered, 1, MPI_DOUBLE, comm, &registered);
    wait_end();
}

static void same_begin(void)
{
    receive_begin(&registered, same + 1);
}
static void same_all_begin(void)
{
    if (rank < size - 1)
        MPI_Iallreduce(region, same, 1, MPI_DOUBLE, MPI_SUM, comm, &registered);
}
static void same_all_end(void)
{
    if (rank == size - 1)
        MPI_Iallreduce(region, same, 1, MPI_DOUBLE, MPI_SUM, comm, &registered);
    wait_end();
    same[0] = same[1] = 0;
}

/* Element 1 is in a hole of the region's datatype. */
static void hole_begin(void)
{
    double x = 2;
    int flag = 0;
    receive_begin(&registered, strided + 1);
    MPI_Send(&x, 1, MPI_DOUBLE, peer(), 7, comm);
    while (!flag)
        MPI_Request_get_status(registered, &flag, MPI_STATUS_IGNORE);
}

static void persistent_begin(void)
{
    MPI_Recv_init(outside, 1, MPI_DOUBLE, before(), 9, comm, &registered);
}
static void persistent_end(void)
{
    MPI_Request_free(&registered);
}

static void probe_begin(void)
{
    double x = 3;
    MPI_Send(&x, 1, MPI_DOUBLE, peer(), 10, comm);
    MPI_Mprobe(before(), 10, comm, &message, MPI_STATUS_IGNORE);
}
static void probe_end(void)
{
    double x;
    MPI_Mrecv(&x, 1, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
}

/* Its variable is registered. */
static void gone_begin(void)
{
    double x = 3;
    MPI_Comm_dup(comm, &other);
    MPI_Send(&x, 1, MPI_DOUBLE, peer(), 12, other);
    MPI_Mprobe(before(), 12, other, &matched, MPI_STATUS_IGNORE);
    MPI_Comm_free(&other);
}
static void gone_end(void)
{
    double x;
    MPI_Mrecv(&x, 1, MPI_DOUBLE, &matched, MPI_STATUS_IGNORE);
}

static void add(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *n; i++)
        ((double *)inout)[i] += ((double *)in)[i];
}
/* The last rank is late, so that the others have the collective under way. */
static void op_begin(void)
{
    MPI_Op_create(add, 1, &op);
    if (rank < size - 1)
        MPI_Iallreduce(region, region + 1, 1, MPI_DOUBLE, op, comm, &registered);
}
static void op_end(void)
{
    if (rank == size - 1)
        MPI_Iallreduce(region, region + 1, 1, MPI_DOUBLE, op, comm, &registered);
    MPI_Wait(&registered, MPI_STATUS_IGNORE);
    MPI_Op_free(&op);
}

static void idup_begin(void)
{
    if (rank < size - 1)
        MPI_Comm_idup(comm, &other, &registered);
}
static void idup_end(void)
{
    if (rank == size - 1)
        MPI_Comm_idup(comm, &other, &registered);
    MPI_Wait(&registered, MPI_STATUS_IGNORE);
    MPI_Comm_free(&other);
}

static void freed_begin(void)
{
    MPI_Comm_dup(comm, &other);
    MPI_Irecv(region, 1, MPI_DOUBLE, rank, 11, other, &registered);
    MPI_Isend(region + 1, 1, MPI_DOUBLE, rank, 11, other, &loose);
    MPI_Comm_free(&other);
}
static void freed_end(void)
{
    MPI_Wait(&loose, MPI_STATUS_IGNORE);
    MPI_Wait(&registered, MPI_STATUS_IGNORE);
}

static int query(void *state, MPI_Status *s)
{
    (void)state;
    MPI_Status_set_elements(s, MPI_BYTE, 0);
    MPI_Status_set_cancelled(s, 0);
    return MPI_SUCCESS;
}
static int nothing(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}
static int cancel(void *state, int complete)
{
    (void)complete;
    return nothing(state);
}
static void foreign_begin(void)
{
    MPI_Grequest_start(query, nothing, cancel, NULL, &registered);
}
static void foreign_end(void)
{
    MPI_Grequest_complete(registered);
    MPI_Wait(&registered, MPI_STATUS_IGNORE);
}

static const struct wrong {
    const char *what;
    void (*begin)(void), (*end)(void);
    int code;
    const char *text; /* in the detail */
} wrongs[] = {
    { "a receive in no variable", loose_begin, loose_end, FTKIT_ERR_STATE,
        "a receive of 1 items from rank 1 with tag 7 on " },
    { "a receive into no region", outside_begin, outside_end, FTKIT_ERR_STATE,
        "is in no region: the nearest region, '" },
    { "a receive across the end of a region", beyond_begin, outside_end, FTKIT_ERR_STATE,
        "24 bytes at " },
    { "a complete receive into no region", done_begin, wait_end, FTKIT_ERR_STATE,
        "tag 7 on MPI_COMM_WORLD, complete: its memory" },
    { "a small send in no variable", sent_begin, loose_wait, FTKIT_ERR_STATE, "send" },
    { "a result in no region", result_begin, wait_end, FTKIT_ERR_STATE, "is in no region" },
    { "a collective that writes to no region", gathered_begin, gathered_end, FTKIT_ERR_STATE,
        "is in no region" },
    { "a receive into a replicated region", same_begin, outside_end, FTKIT_ERR_STATE,
        "is in region 'same', which is replicated" },
    { "a collective into a replicated region", same_all_begin, same_all_end, FTKIT_ERR_STATE,
        "is in region 'same', which is replicated" },
    { "a complete receive into a hole", hole_begin, wait_end, FTKIT_ERR_STATE,
        "is in region 'strided', whose datatype has holes" },
    { "a persistent receive into no region", persistent_begin, persistent_end, FTKIT_ERR_STATE,
        "a persistent receive of 1 items from rank 1 with tag 9" },
    { "a matched message in no variable", probe_begin, probe_end, FTKIT_ERR_STATE,
        "a message of rank 1 with tag 10, matched by a probe" },
    { "a matched message of a freed communicator", gone_begin, gone_end, FTKIT_ERR_UNSUPPORTED,
        "tag 12, matched by a probe and not received: its communicator has been freed" },
    { "an operation of the loop", op_begin, op_end, FTKIT_ERR_UNSUPPORTED,
        "its operation was not made before ftkit_recover()" },
    { "MPI_Comm_idup", idup_begin, idup_end, FTKIT_ERR_UNSUPPORTED, "MPI_Comm_idup under way" },
    { "a freed communicator", freed_begin, freed_end, FTKIT_ERR_UNSUPPORTED,
        "its communicator has been freed" },
    { "a request that is not of messages", foreign_begin, foreign_end, FTKIT_ERR_ARG,
        "variable 0 holds no request of the program's messages" },
};

/* Rank 0 has the mistake, as all or most have, so its text is its own. */
static void try(const struct wrong *w)
{
    w->begin();
    int rc = ftkit_checkpoint(ft);
    check(rc == w->code, w->what, ftkit_strerror(rc));
    if (rank == 0)
        check(strstr(ftkit_detail(ft), w->text) != NULL, w->what, ftkit_detail(ft));
    w->end();
    rc = ftkit_checkpoint(ft);
    check(rc == FTKIT_OK, w->what, ftkit_detail(ft));
}

static void register_all(void)
{
    MPI_Datatype every_other;
    MPI_Type_vector(4, 1, 2, MPI_DOUBLE, &every_other);
    MPI_Type_commit(&every_other);
    int rc = ftkit_register(ft, "region", region, 8, MPI_DOUBLE);
    rc |= ftkit_register(ft, "strided", strided, 1, every_other);
    rc |= ftkit_register_replicated(ft, "same", same, 2, MPI_DOUBLE);
    MPI_Type_free(&every_other);
    rc |= ftkit_register_growing(
        ft, "grown", (void **)(void *)&grown, &ngrown, MPI_DOUBLE, NULL, NULL);
    rc |= ftkit_register_requests(ft, "registered", &registered, 1);
    rc |= ftkit_register_requests(ft, "none", NULL, 0);
    rc |= ftkit_register_messages(ft, "matched", &matched, 1);
    check(rc == FTKIT_OK, "registration", ftkit_detail(ft));
    rc = ftkit_register_requests(ft, "null", NULL, 1);
    check(rc == FTKIT_ERR_ARG, "no address", ftkit_strerror(rc));
    rc = ftkit_register_requests(ft, "registered", &loose, 1);
    check(rc == FTKIT_ERR_EXISTS, "the same name", ftkit_strerror(rc));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rc = ftkit_open(MPI_COMM_WORLD, NULL, &ft);
    if (rc != FTKIT_OK) {
        fprintf(stderr, "unsaved: %s\n", ftkit_detail(NULL));
        MPI_Finalize();
        return 1;
    }
    comm = ftkit_comm(ft);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm_set_name(comm, "MPI_COMM_WORLD");
    grown = malloc(ngrown * sizeof *grown);
    for (size_t i = 0; grown && i < ngrown; i++)
        grown[i] = 0;
    register_all();
    rc = ftkit_recover(ft, NULL);
    check(rc >= 0, "recover", ftkit_detail(ft));
    rc = ftkit_checkpoint(ft);
    check(rc == FTKIT_OK, "the first set", ftkit_detail(ft));
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++)
        try(&wrongs[i]);
    int all = 0;
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, comm);
    if (rank == 0 && all == 0)
        printf("OK %d\n", checked);
    rc = ftkit_finish(ft);
    if (ftkit_close(&ft) != FTKIT_OK || rc != FTKIT_OK)
        all = 1;
    free(grown);
    MPI_Finalize();
    return all != 0;
}
