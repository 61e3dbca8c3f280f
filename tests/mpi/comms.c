/* Communicators that are made inside the loop and live across sets: a split whose parts
 * change, a grid, a duplicate of a part; each is freed and made again now and then, when
 * its variable says that there is none.  All of them are used in every step.
 *
 * With the message log a restore gives a rank those of the set (ftkit_register_comm);
 * without it they are gone on all ranks, which make them again.
 *
 * A step passes app.inflight once, in the middle of its communication, and app.mid.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { PART, GRID, TWIN, COMMS };
static const char *const names[COMMS] = { "part", "grid", "twin" };
static const int every[COMMS] = { 7, 11, 13 }; /* steps for which one is kept */

static struct {
    MPI_Comm comm[COMMS];
    int64_t value; /* registered */
} s = { .comm = { MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL } };

static int prepare(struct foreign *f)
{
    int rc = ftkit_register(f->ft, "value", &s.value, 1, MPI_INT64_T);
    for (int i = 0; i < COMMS; i++)
        rc |= ftkit_register_comm(f->ft, names[i], &s.comm[i]);
    s.value = f->rank;
    return rc != FTKIT_OK;
}

static int make_grid(const struct foreign *f)
{
    int dims[2] = { 2, f->nranks / 2 }, periods[2] = { 1, f->step % 2 };
    return MPI_Cart_create(f->comm, 2, dims, periods, 0, &s.comm[GRID]);
}

/* The one from which on a step makes its members: the same with and without a restore. */
static int make(const struct foreign *f, int i)
{
    int since = f->step - f->step % every[i], rc;
    struct foreign then = *f;
    then.step = since;
    if (i == PART)
        rc = MPI_Comm_split(f->comm, (f->rank + since) % 2, -f->rank, &s.comm[i]);
    else if (i == GRID)
        rc = make_grid(&then);
    else
        rc = MPI_Comm_dup(s.comm[PART], &s.comm[i]);
    return rc;
}

static void use(MPI_Comm comm, int weight)
{
    int64_t sum = 0, got = 0;
    int rank = 0, size = 0;
    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS || MPI_Comm_size(comm, &size) != MPI_SUCCESS
        || MPI_Allreduce(&s.value, &sum, 1, MPI_INT64_T, MPI_SUM, comm) != MPI_SUCCESS
        || MPI_Sendrecv(&s.value, 1, MPI_INT64_T, (rank + 1) % size, 3, &got, 1, MPI_INT64_T,
               (rank + size - 1) % size, 3, comm, MPI_STATUS_IGNORE)
               != MPI_SUCCESS)
        return;
    s.value =
        (int64_t)foreign_mix((uint64_t)sum + (uint64_t)got * (uint64_t)weight, (uint64_t)rank);
}

static void step(struct foreign *f)
{
    int coords[2] = { 0, 0 }, rank = 0;
    for (int i = 0; i < COMMS; i++) {
        if (s.comm[i] != MPI_COMM_NULL && f->step % every[i] == 0
            && MPI_Comm_free(&s.comm[i]) != MPI_SUCCESS)
            return;
        /* a twin is of the part there is, so it goes with it */
        if (i == PART && s.comm[PART] == MPI_COMM_NULL && s.comm[TWIN] != MPI_COMM_NULL
            && MPI_Comm_free(&s.comm[TWIN]) != MPI_SUCCESS)
            return;
        if (s.comm[i] == MPI_COMM_NULL && make(f, i) != MPI_SUCCESS)
            return;
        if (i == PART)
            (void)FTK_FAULT("app.inflight");
        use(s.comm[i], i + 2);
    }
    (void)FTK_FAULT("app.mid");
    if (MPI_Comm_rank(s.comm[GRID], &rank) == MPI_SUCCESS
        && MPI_Cart_coords(s.comm[GRID], rank, 2, coords) == MPI_SUCCESS)
        s.value += coords[0] * 3 + coords[1] * 5;
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    *hash = foreign_total(f, foreign_mix((uint64_t)s.value, (uint64_t)f->rank));
    snprintf(detail, room, "%d communicators", COMMS);
    return true;
}

static void release(void)
{
    for (int i = 0; i < COMMS; i++)
        if (s.comm[i] != MPI_COMM_NULL)
            (void)MPI_Comm_free(&s.comm[i]);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "comms", 60, 4, prepare, NULL, NULL, step, verdict,
        release };
    return foreign_main(argc, argv, &app);
}
