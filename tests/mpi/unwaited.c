/* Small sends on a communicator that is freed before the program waits for them, while others are
 * made: which contexts are free does not depend on whether the MPI had completed the sends.
 *
 * A step passes app.mid twice, each time while a freed communicator has requests.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { SENDS = 3 };

static uint64_t *state; /* [2] registered: of the loop; what was wrong */

static int prepare(struct foreign *f)
{
    state = foreign_state(f, 2);
    return !state;
}

static uint64_t word(const struct foreign *f, int rank, int i)
{
    return foreign_mix((uint64_t)(f->step * f->nranks + rank), (uint64_t)i);
}

/* Send to the next rank without a wait; receive from the one before.  Returns what is wrong. */
static uint64_t ring(
    struct foreign *f, MPI_Comm comm, const uint64_t *out, MPI_Request *q, bool *ok)
{
    int next = (f->rank + 1) % f->nranks, prev = (f->rank + f->nranks - 1) % f->nranks;
    uint64_t in, bad = 0;
    for (int i = 0; *ok && i < SENDS; i++)
        *ok = MPI_Isend(&out[i], 1, MPI_UINT64_T, next, i, comm, &q[i]) == MPI_SUCCESS;
    for (int i = 0; *ok && i < SENDS; i++) {
        *ok = MPI_Recv(&in, 1, MPI_UINT64_T, prev, i, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS;
        bad += *ok && in != word(f, prev, i);
    }
    return bad;
}

/* A second communicator is made while nobody has waited for the sends on the first one, which is
 * freed. */
static bool around(struct foreign *f, bool later)
{
    MPI_Comm first, second;
    MPI_Request q[SENDS + 1];
    uint64_t out[SENDS], sum = 0, want = 0, bad;
    for (int i = 0; i < SENDS; i++)
        out[i] = word(f, f->rank, i);
    bool ok = MPI_Comm_dup(f->comm, &first) == MPI_SUCCESS;
    bad = ring(f, first, out, q, &ok);
    ok = ok && MPI_Comm_free(&first) == MPI_SUCCESS;
    (void)FTK_FAULT("app.mid");
    if (ok && later)
        ok = MPI_Comm_idup(f->comm, &second, &q[SENDS]) == MPI_SUCCESS
             && MPI_Wait(&q[SENDS], MPI_STATUS_IGNORE) == MPI_SUCCESS;
    else if (ok)
        ok = MPI_Comm_dup(f->comm, &second) == MPI_SUCCESS;
    ok = ok && MPI_Allreduce(&out[0], &sum, 1, MPI_UINT64_T, MPI_SUM, second) == MPI_SUCCESS
         && MPI_Waitall(SENDS, q, MPI_STATUSES_IGNORE) == MPI_SUCCESS
         && MPI_Comm_free(&second) == MPI_SUCCESS;
    if (!ok)
        return false;
    for (int r = 0; r < f->nranks; r++)
        want += word(f, r, 0);
    state[1] += bad + (sum != want);
    *state = foreign_mix(*state, sum);
    return true;
}

static void step(struct foreign *f)
{
    if (around(f, false))
        (void)around(f, true);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    return foreign_counted(f, *state, state[1], hash, detail, room);
}

static void release(void)
{
    free(state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "unwaited",
        .steps = 40,
        .size = 1,
        .prepare = prepare,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_main(argc, argv, &app);
}
