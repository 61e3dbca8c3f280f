/* Set-up primes a ring: each rank has sent its neighbour a message before ftkit_recover(); each
 * step receives one, looks at its number and sends the next, so that one is always on its way.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

static struct {
    uint64_t *state; /* [2] registered: hash of what has come, messages out of turn */
} g;

static int prepare(struct foreign *f)
{
    g.state = calloc(2, sizeof *g.state);
    return !g.state || ftkit_register(f->ft, "state", g.state, 2, MPI_UINT64_T) != FTKIT_OK;
}

static int send_next(const struct foreign *f, uint64_t number)
{
    return MPI_Send(&number, 1, MPI_UINT64_T, (f->rank + 1) % f->nranks, 3, f->comm);
}

static int prime(struct foreign *f)
{
    return send_next(f, 0) != MPI_SUCCESS;
}

static void step(struct foreign *f)
{
    uint64_t m = 999;
    int from = (f->rank + f->nranks - 1) % f->nranks;
    if (MPI_Recv(&m, 1, MPI_UINT64_T, from, 3, f->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    g.state[1] += m != (uint64_t)f->step;
    g.state[0] = foreign_mix(g.state[0], m);
    (void)FTK_FAULT("app.mid");
    (void)send_next(f, (uint64_t)f->step + 1);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    return foreign_counted(f, g.state[0], g.state[1], hash, detail, room);
}

static void release(void)
{
    free(g.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "prime", 30, 1, prepare, prime, NULL, step, verdict,
        release };
    return foreign_main(argc, argv, &app);
}
