/* Communicators that are freed while something is under way on them, and others that are made
 * meanwhile: what is under way stays with its own.
 *
 * A step passes app.mid once, while both are under way.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { WORDS = 3000, RANKS = 8 /* at most */ };

static struct {
    uint64_t *state; /* [2] registered: of the loop; what was wrong */
    uint64_t mine[WORDS], sum[WORDS], other[WORDS], total[WORDS];
} g;

static int prepare(struct foreign *f)
{
    g.state = foreign_state(f, 2);
    return !g.state || f->nranks > RANKS;
}

static uint64_t word(const struct foreign *f, int rank, int i, uint64_t seed)
{
    return foreign_mix((uint64_t)(f->step * RANKS + rank), (uint64_t)i + seed);
}

static void fill(const struct foreign *f, uint64_t *v, uint64_t seed)
{
    for (int i = 0; i < WORDS; i++)
        v[i] = word(f, f->rank, i, seed);
}

static uint64_t wrong(const struct foreign *f, const uint64_t *v, uint64_t seed)
{
    uint64_t bad = 0;
    for (int i = 0; i < WORDS; i++) {
        uint64_t sum = 0;
        for (int r = 0; r < f->nranks; r++)
            sum += word(f, r, i, seed);
        bad += v[i] != sum;
    }
    return bad;
}

/* One from each other rank, from any source, asked for on a communicator that is no more. */
static uint64_t gather(struct foreign *f)
{
    MPI_Comm first, second;
    MPI_Request q[2 * RANKS];
    uint64_t in[RANKS], out[2], seen = 0, bad = 0, last = 0;
    int n = 0, next = (f->rank + 1) % f->nranks, prev = (f->rank + f->nranks - 1) % f->nranks;
    bool ok = MPI_Comm_dup(f->comm, &first) == MPI_SUCCESS;
    out[0] = (uint64_t)f->rank;
    out[1] = (uint64_t)f->rank + 100;
    for (int r = 0; ok && r < f->nranks; r++)
        if (r != f->rank)
            ok = MPI_Irecv(&in[n], 1, MPI_UINT64_T, MPI_ANY_SOURCE, 5, first, &q[n]) == MPI_SUCCESS
                 && ++n;
    int receives = n;
    for (int r = 0; ok && r < f->nranks; r++)
        if (r != f->rank)
            ok = MPI_Issend(&out[0], 1, MPI_UINT64_T, r, 5, first, &q[n]) == MPI_SUCCESS && ++n;
    ok = ok && MPI_Comm_free(&first) == MPI_SUCCESS && MPI_Comm_dup(f->comm, &second) == MPI_SUCCESS
         && MPI_Sendrecv(&out[1], 1, MPI_UINT64_T, next, 5, &last, 1, MPI_UINT64_T, prev, 5, second,
                MPI_STATUS_IGNORE)
                == MPI_SUCCESS
         && MPI_Waitall(n, q, MPI_STATUSES_IGNORE) == MPI_SUCCESS
         && MPI_Comm_free(&second) == MPI_SUCCESS;
    for (int i = 0; ok && i < receives; i++) {
        bad += in[i] >= (uint64_t)f->nranks;
        seen += in[i];
    }
    bad += ok && seen + (uint64_t)f->rank != (uint64_t)(f->nranks * (f->nranks - 1) / 2);
    bad += ok && last != (uint64_t)prev + 100;
    return bad;
}

static void step(struct foreign *f)
{
    MPI_Comm first, second;
    MPI_Request q;
    fill(f, g.mine, 1);
    fill(f, g.other, 1000000);
    if (MPI_Comm_dup(f->comm, &first) != MPI_SUCCESS
        || MPI_Iallreduce(g.mine, g.sum, WORDS, MPI_UINT64_T, MPI_SUM, first, &q) != MPI_SUCCESS)
        return;
    if (MPI_Comm_free(&first) != MPI_SUCCESS || MPI_Comm_dup(f->comm, &second) != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.mid");
    if (MPI_Allreduce(g.other, g.total, WORDS, MPI_UINT64_T, MPI_SUM, second) != MPI_SUCCESS
        || MPI_Wait(&q, MPI_STATUS_IGNORE) != MPI_SUCCESS || MPI_Comm_free(&second) != MPI_SUCCESS)
        return;
    uint64_t bad = gather(f);
    g.state[1] += wrong(f, g.sum, 1) + wrong(f, g.total, 1000000) + bad;
    *g.state = XXH3_64bits_withSeed(g.sum, sizeof g.sum, *g.state);
    *g.state = XXH3_64bits_withSeed(g.total, sizeof g.total, *g.state);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    return foreign_counted(f, *g.state, g.state[1], hash, detail, room);
}

static void release(void)
{
    free(g.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "gone",
        .steps = 40,
        .size = 1,
        .prepare = prepare,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_main(argc, argv, &app);
}
