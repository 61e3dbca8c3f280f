/* Many communicators: COMMS that are made before the loop and are all used in every step, and a
 * few that are made in the loop, kept for some steps, and registered.  With the message log most
 * of them have no communicator of the MPI of their own.
 *
 * In a step each rank sends on some communicators to its neighbours, and receives by the tag, by
 * any tag, from any source, posted or probed for; now and then the messages are long.
 * Variant "long": they always are.
 *
 * A step passes app.inflight and app.mid once.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { COMMS = 100, USED = 10, LOOP = 4, SMALL = 4, LONG = 4000 };

static struct {
    MPI_Comm comm[COMMS];
    MPI_Comm made[LOOP]; /* registered */
    uint64_t *state;     /* registered */
} g;

static int prepare(struct foreign *f)
{
    int rc = FTKIT_OK;
    char name[16];
    for (int i = 0; i < LOOP; i++) {
        g.made[i] = MPI_COMM_NULL;
        snprintf(name, sizeof name, "made%d", i);
        rc |= ftkit_register_comm(f->ft, name, &g.made[i]);
    }
    g.state = foreign_state(f, 1);
    return rc != FTKIT_OK || !g.state;
}

static int make_all(struct foreign *f)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; i < COMMS; i++) /* ranks come to have different numbers of them */
        rc |= i % 3 == 0   ? MPI_Comm_dup(f->comm, &g.comm[i])
              : i % 3 == 1 ? MPI_Comm_split(f->comm, f->rank == 0, -f->rank, &g.comm[i])
                           : MPI_Comm_dup(g.comm[i - 1], &g.comm[i]);
    return rc != MPI_SUCCESS;
}

/* What one rank tells another in a step: its state, on a communicator and with a tag. */
static void fill(const struct foreign *f, uint64_t *out, int words, int tag)
{
    for (int w = 0; w < words; w++)
        out[w] = foreign_mix(*g.state + (uint64_t)w, (uint64_t)(f->step * 100 + tag));
}

static uint64_t take(MPI_Comm comm, int how, int source, int tag, uint64_t *in, int words)
{
    MPI_Status s = { .MPI_SOURCE = 0, .MPI_TAG = 0 };
    MPI_Message m = MPI_MESSAGE_NULL;
    int rc, got = 0;
    memset(in, 0, (size_t)words * sizeof *in);
    switch (how % 4) {
    case 0:
        rc = MPI_Recv(in, words, MPI_UINT64_T, source, tag, comm, &s);
        break;
    case 1:
        rc = MPI_Recv(in, words, MPI_UINT64_T, source, MPI_ANY_TAG, comm, &s);
        break;
    case 2:
        rc = MPI_Recv(in, words, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &s);
        break;
    default:
        rc = MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &m, &s);
        if (rc == MPI_SUCCESS)
            rc = MPI_Mrecv(in, words, MPI_UINT64_T, &m, &s);
    }
    if (rc != MPI_SUCCESS || MPI_Get_count(&s, MPI_UINT64_T, &got) != MPI_SUCCESS)
        return 0;
    uint64_t h = XXH3_64bits(in, (size_t)got * sizeof *in);
    return foreign_mix(h, (uint64_t)(s.MPI_TAG * 1000 + s.MPI_SOURCE * 10 + (got != words)));
}

/* Messages on USED communicators at once, received in another order. */
static void exchange(struct foreign *f, const MPI_Comm *comm, int n, int first, int words)
{
    static uint64_t out[USED][LONG], in[LONG];
    MPI_Request r[USED];
    uint64_t sum = 0;
    for (int k = 0; k < n; k++) {
        int i = (first + 7 * k) % n, rank, size;
        r[k] = MPI_REQUEST_NULL;
        if (MPI_Comm_rank(comm[i], &rank) != MPI_SUCCESS
            || MPI_Comm_size(comm[i], &size) != MPI_SUCCESS)
            continue;
        fill(f, out[k], words, i);
        if (MPI_Isend(out[k], words, MPI_UINT64_T, (rank + 1) % size, i, comm[i], &r[k])
            != MPI_SUCCESS)
            continue;
    }
    (void)FTK_FAULT("app.inflight");
    for (int k = n - 1; k >= 0; k--) {
        int i = (first + 7 * k) % n, rank, size;
        if (MPI_Comm_rank(comm[i], &rank) != MPI_SUCCESS
            || MPI_Comm_size(comm[i], &size) != MPI_SUCCESS)
            continue;
        sum += take(comm[i], f->step + k, (rank + size - 1) % size, i, in, words);
    }
    MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
    *g.state = foreign_mix(*g.state, sum);
}

static void remake(struct foreign *f)
{
    int i = f->step % LOOP;
    if (g.made[i] != MPI_COMM_NULL)
        (void)MPI_Comm_free(&g.made[i]);
    (void)MPI_Comm_split(f->comm, (f->rank + f->step) % 2, f->rank, &g.made[i]);
}

static void step(struct foreign *f)
{
    int words = f->step % 5 == 4 || (f->variant && *f->variant == 'l') ? LONG : SMALL;
    int first = 10 * f->step % (COMMS - USED);
    uint64_t sum = 0;
    remake(f);
    exchange(f, g.comm + first, USED, f->step, words);
    (void)FTK_FAULT("app.mid");
    MPI_Comm *in_loop = g.made, last = g.made[f->step % LOOP];
    MPI_Allreduce(g.state, &sum, 1, MPI_UINT64_T, MPI_SUM, last);
    *g.state = foreign_mix(*g.state, sum);
    if (f->step >= LOOP)
        exchange(f, in_loop, LOOP, 0, SMALL);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    *hash = foreign_total(f, foreign_mix(*g.state, (uint64_t)f->rank));
    snprintf(detail, room, "%d communicators", COMMS + LOOP);
    return true;
}

static void release(void)
{
    for (int i = 0; i < COMMS; i++)
        if (g.comm[i] != MPI_COMM_NULL)
            (void)MPI_Comm_free(&g.comm[i]);
    for (int i = 0; i < LOOP; i++)
        if (g.made[i] != MPI_COMM_NULL)
            (void)MPI_Comm_free(&g.made[i]);
    free(g.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "crowd", 30, 1, prepare, make_all, NULL, step, verdict,
        release };
    for (int i = 0; i < COMMS; i++)
        g.comm[i] = MPI_COMM_NULL;
    return foreign_main(argc, argv, &app);
}
