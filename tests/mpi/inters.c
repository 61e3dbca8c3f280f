/* Intercommunicators: one between ranks of even and of odd number that is made in set-up;
 * and made inside the loop, freed and made again now and then: one between the halves,
 * what merge makes of that, a part of the first, a duplicate of that.  All of them are
 * used in every step, by messages and by collectives.
 *
 * With the message log a restore gives a rank those of the set (ftkit_register_comm);
 * without it they are gone on all ranks, which make them again.
 *
 * A step passes app.inflight once, in the middle of its communication, and app.mid.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { BRIDGE, MERGED, PART, TWIN, COMMS };
static const char *const names[COMMS] = { "bridge", "merged", "part", "twin" };
static const int every[COMMS] = { 7, 5, 11, 9 };            /* steps for which one is kept */
static const int made_of[COMMS] = { -1, BRIDGE, -1, PART }; /* goes with another one */

static struct {
    MPI_Comm half, fixed; /* made in set-up */
    MPI_Comm comm[COMMS];
    int64_t value; /* registered */
} s = { MPI_COMM_NULL, MPI_COMM_NULL,
    { MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL }, 0 };

static int prepare(struct foreign *f)
{
    int rc = ftkit_register(f->ft, "value", &s.value, 1, MPI_INT64_T);
    for (int i = 0; i < COMMS; i++)
        rc |= ftkit_register_comm(f->ft, names[i], &s.comm[i]);
    s.value = f->rank;
    return rc != FTKIT_OK;
}

static int connect(struct foreign *f)
{
    int rc = MPI_Comm_split(f->comm, f->rank % 2, 0, &s.half);
    if (rc == MPI_SUCCESS)
        rc = MPI_Intercomm_create(s.half, 0, f->comm, 1 - f->rank % 2, 4, &s.fixed);
    return rc != MPI_SUCCESS || foreign_track(f, s.half) || foreign_track(f, s.fixed);
}

static void disconnect(void)
{
    if (s.fixed != MPI_COMM_NULL)
        (void)MPI_Comm_free(&s.fixed);
    if (s.half != MPI_COMM_NULL)
        (void)MPI_Comm_free(&s.half);
}

static int make_bridge(const struct foreign *f)
{
    MPI_Comm local;
    int half = f->nranks / 2, upper = f->rank >= half;
    int rc = MPI_Comm_split(f->comm, upper, -f->rank, &local), back;
    if (rc != MPI_SUCCESS)
        return rc;
    (void)FTK_FAULT("app.bridge");
    rc = MPI_Intercomm_create(
        local, 0, f->comm, upper ? half - 1 : f->nranks - 1, 9, &s.comm[BRIDGE]);
    back = MPI_Comm_free(&local);
    return rc == MPI_SUCCESS ? back : rc;
}

/* The step from which on one is kept makes its members: the same with and without a
 * restore. */
static int make(const struct foreign *f, int i)
{
    int since = f->step - f->step % every[i], rank = 0;
    if (i == BRIDGE)
        return make_bridge(f);
    if (i == MERGED)
        return MPI_Intercomm_merge(
            s.comm[BRIDGE], (f->rank >= f->nranks / 2) == since % 2, &s.comm[MERGED]);
    if (i == TWIN)
        return MPI_Comm_dup(s.comm[PART], &s.comm[TWIN]);
    int rc = MPI_Comm_rank(s.fixed, &rank);
    return rc != MPI_SUCCESS ? rc : MPI_Comm_split(s.fixed, rank * since % 2, -rank, &s.comm[PART]);
}

/* The sum of the other group, what the rank of the same number there has, and what the
 * first rank of the group of the lowest rank has. */
static void use(MPI_Comm comm, int weight)
{
    int64_t sum = 0, got = 0, all[64] = { 0 };
    int rank = 0, size = 0;
    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS
        || MPI_Comm_remote_size(comm, &size) != MPI_SUCCESS)
        return;
    int peer = rank < size ? rank : MPI_PROC_NULL;
    if (MPI_Allreduce(&s.value, &sum, 1, MPI_INT64_T, MPI_SUM, comm) != MPI_SUCCESS
        || MPI_Sendrecv(&s.value, 1, MPI_INT64_T, peer, 3, &got, 1, MPI_INT64_T, peer, 3, comm,
               MPI_STATUS_IGNORE)
               != MPI_SUCCESS
        || MPI_Allgather(&s.value, 1, MPI_INT64_T, all, 1, MPI_INT64_T, comm) != MPI_SUCCESS)
        return;
    for (int i = 0; i < size; i++)
        sum += all[i] * (i + 3);
    s.value = (int64_t)foreign_mix((uint64_t)(sum + got * weight), (uint64_t)rank);
}

static void use_merged(MPI_Comm comm)
{
    int64_t sum = 0;
    int rank = 0;
    if (MPI_Comm_rank(comm, &rank) == MPI_SUCCESS
        && MPI_Scan(&s.value, &sum, 1, MPI_INT64_T, MPI_SUM, comm) == MPI_SUCCESS)
        s.value = (int64_t)foreign_mix((uint64_t)sum, (uint64_t)rank);
}

static void step(struct foreign *f)
{
    use(s.fixed, 7);
    for (int i = 0; i < COMMS; i++) {
        bool orphan = made_of[i] >= 0 && f->step % every[made_of[i]] == 0;
        if (s.comm[i] != MPI_COMM_NULL && (orphan || f->step % every[i] == 0)
            && MPI_Comm_free(&s.comm[i]) != MPI_SUCCESS)
            return;
        if (s.comm[i] == MPI_COMM_NULL && make(f, i) != MPI_SUCCESS)
            return;
        if (i == BRIDGE)
            (void)FTK_FAULT("app.inflight");
        if (i == MERGED)
            use_merged(s.comm[i]);
        else
            use(s.comm[i], i + 2);
    }
    (void)FTK_FAULT("app.mid");
    MPI_Barrier(s.comm[TWIN]);
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
    static const struct foreign_app app = { "inters", 60, 4, prepare, connect, disconnect, step,
        verdict, release };
    return foreign_main(argc, argv, &app);
}
