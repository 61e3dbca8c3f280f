/* A program of chance for tests/rooms.t: ranks draw (draw.c) to whom they give how many of their
 * tokens, sometimes to nobody.  A rank that rolls back and draws otherwise than before breaks the
 * number of all tokens.  In set-up each rank draws a friend, and every rank remembers all friends.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

int draw(MPI_Comm comm, int *rank, int *number);

enum { STATE, BAD, TOKENS, FRIENDS, MOST = 16, WORDS = FRIENDS + MOST };
enum { TOKENS_AT_FIRST = 1000 };

static uint64_t *m;
static uint64_t friends[MOST]; /* of the last set-up of this process */

static int prepare(struct foreign *f)
{
    m = foreign_state(f, WORDS);
    if (m)
        m[TOKENS] = TOKENS_AT_FIRST;
    return m == NULL;
}

static int connect(struct foreign *f)
{
    int rank, number;
    do
        if (draw(f->comm, &rank, &number) != MPI_SUCCESS)
            return 1;
    while (rank == MPI_UNDEFINED);
    const uint64_t own = (uint64_t)rank << 32 | (uint64_t)number;
    return f->nranks > MOST
           || MPI_Allgather(&own, 1, MPI_UINT64_T, friends, 1, MPI_UINT64_T, f->comm)
                  != MPI_SUCCESS;
}

static void step(struct foreign *f)
{
    uint64_t give[MOST] = { 0 }, get[MOST], all[MOST];
    int rank, number;
    if (f->step == 0)
        memcpy(&m[FRIENDS], friends, sizeof friends);
    if (draw(f->comm, &rank, &number) != MPI_SUCCESS)
        return;
    if (rank >= 0)
        give[rank] = (uint64_t)number % 9 + 1;
    m[BAD] += rank < 0 && rank != MPI_UNDEFINED;
    (void)FTK_FAULT("app.mid");
    if (MPI_Alltoall(give, 1, MPI_UINT64_T, get, 1, MPI_UINT64_T, f->comm) != MPI_SUCCESS)
        return;
    for (int r = 0; r < f->nranks; r++)
        m[TOKENS] += get[r] - give[r];
    if (MPI_Allgather(&friends[f->rank], 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, f->comm)
        != MPI_SUCCESS)
        return;
    for (int r = 0; r < f->nranks; r++)
        m[BAD] += all[r] != m[FRIENDS + r];
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t all = 0;
    MPI_Allreduce(&m[TOKENS], &all, 1, MPI_UINT64_T, MPI_SUM, f->comm);
    m[BAD] += all != (uint64_t)f->nranks * TOKENS_AT_FIRST;
    return foreign_counted(f, m[STATE], m[BAD], hash, detail, room);
}

static void release(void)
{
    free(m);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "draws",
        .steps = 60,
        .size = 1,
        .prepare = prepare,
        .connect = connect,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_main(argc, argv, &app);
}
