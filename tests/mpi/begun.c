/* Requests that set-up begins, and leaves complete without a wait: sends, a receive, a started
 * persistent receive, a matched message.  The first step completes them, and each step begins
 * others in their variables.  A receive of a matched message, on a communicator without rank 0, is
 * complete at the set, too.
 *
 * A step passes app.mid with nothing under way, and app.inflight at its end.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

/* All that is registered, but for requests. */
static struct memory {
    uint64_t state, bad, got[3], half, sent[3];
} * m;

static MPI_Request first[3], standing, half;
static MPI_Message message;
static MPI_Comm odd = MPI_COMM_NULL;
static uint64_t small = 5;

static int next_of(const struct foreign *f)
{
    return (f->rank + 1) % f->nranks;
}
static int prev_of(const struct foreign *f)
{
    return (f->rank + f->nranks - 1) % f->nranks;
}

static void take(uint64_t value)
{
    m->state = foreign_mix(m->state, value);
}

static bool wait_until_complete(MPI_Request r)
{
    int flag = 0;
    while (!flag)
        if (MPI_Request_get_status(r, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
    return true;
}

/* Send three numbers to the next rank, and receive those of the rank before, without a wait. */
static bool begin(struct foreign *f)
{
    for (int i = 0; i < 3; i++)
        m->sent[i] = m->state + (uint64_t)i;
    int rc = MPI_Irecv(&m->got[0], 1, MPI_UINT64_T, prev_of(f), 1, f->comm, &first[0]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Start(&standing);
    if (rc == MPI_SUCCESS)
        rc = MPI_Isend(&m->sent[0], 1, MPI_UINT64_T, next_of(f), 1, f->comm, &first[1]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Isend(&m->sent[1], 1, MPI_UINT64_T, next_of(f), 2, f->comm, &first[2]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Send(&m->sent[2], 1, MPI_UINT64_T, next_of(f), 3, f->comm);
    if (rc == MPI_SUCCESS)
        rc = MPI_Mprobe(prev_of(f), 3, f->comm, &message, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS && wait_until_complete(first[0]) && wait_until_complete(standing);
}

static bool end(struct foreign *f)
{
    MPI_Status s[3], t;
    if (MPI_Waitall(3, first, s) != MPI_SUCCESS || MPI_Wait(&standing, &t) != MPI_SUCCESS
        || MPI_Mrecv(&m->got[2], 1, MPI_UINT64_T, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return false;
    m->bad += s[0].MPI_SOURCE != prev_of(f) || s[0].MPI_TAG != 1 || t.MPI_SOURCE != prev_of(f)
              || t.MPI_TAG != 2;
    for (int i = 0; i < 3; i++)
        take(m->got[i]);
    return true;
}

static bool begin_half(struct foreign *f)
{
    const int n = f->nranks - 1, me = f->rank - 1;
    MPI_Message from;
    return f->rank == 0
           || (MPI_Send(&m->state, 1, MPI_UINT64_T, (me + 1) % n, 5, odd) == MPI_SUCCESS
               && MPI_Mprobe((me + n - 1) % n, 5, odd, &from, MPI_STATUS_IGNORE) == MPI_SUCCESS
               && MPI_Imrecv(&m->half, 1, MPI_UINT64_T, &from, &half) == MPI_SUCCESS);
}

static void end_half(struct foreign *f)
{
    if (f->rank > 0 && MPI_Wait(&half, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        take(m->half);
}

static void step(struct foreign *f)
{
    if (!end(f))
        return;
    if (f->step > 0)
        end_half(f);
    (void)FTK_FAULT("app.mid");
    if (begin(f) && begin_half(f))
        (void)FTK_FAULT("app.inflight");
}

static int prepare(struct foreign *f)
{
    m = calloc(1, sizeof *m);
    if (!m)
        return 1;
    m->state = (uint64_t)f->rank + 1;
    first[0] = first[1] = first[2] = standing = half = MPI_REQUEST_NULL;
    message = MPI_MESSAGE_NULL;
    return ftkit_register(f->ft, "memory", m, sizeof *m, MPI_BYTE) != FTKIT_OK
           || ftkit_register_requests(f->ft, "first", first, 3) != FTKIT_OK
           || ftkit_register_requests(f->ft, "standing", &standing, 1) != FTKIT_OK
           || ftkit_register_requests(f->ft, "half", &half, 1) != FTKIT_OK
           || ftkit_register_messages(f->ft, "message", &message, 1) != FTKIT_OK
           || ftkit_register_comm(f->ft, "odd", &odd) != FTKIT_OK;
}

/* The last part of set-up.  A job of one rank has no second communicator. */
static int connect(struct foreign *f)
{
    uint64_t in;
    MPI_Request loose; /* in no variable that ftkit knows */
    if (MPI_Comm_split(f->comm, f->rank == 0 ? MPI_UNDEFINED : 1, f->rank, &odd) != MPI_SUCCESS
        || MPI_Recv_init(&m->got[1], 1, MPI_UINT64_T, prev_of(f), 2, f->comm, &standing)
               != MPI_SUCCESS
        || !begin(f))
        return 1;
    if (MPI_Isend(&small, 1, MPI_UINT64_T, next_of(f), 9, f->comm, &loose) != MPI_SUCCESS
        || MPI_Recv(&in, 1, MPI_UINT64_T, prev_of(f), 9, f->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return 1;
    return MPI_Wait(&loose, MPI_STATUS_IGNORE) != MPI_SUCCESS;
}

static void disconnect(void)
{
    if (standing != MPI_REQUEST_NULL)
        MPI_Request_free(&standing);
    if (odd != MPI_COMM_NULL)
        MPI_Comm_free(&odd);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    bool good = end(f);
    end_half(f);
    return foreign_counted(f, m->state, m->bad, hash, detail, room) && good;
}

static void release(void)
{
    free(m);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "begun",
        .steps = 20,
        .size = 1,
        .prepare = prepare,
        .connect = connect,
        .disconnect = disconnect,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_main(argc, argv, &app);
}
