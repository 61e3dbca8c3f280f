/* Halo exchange on a mesh of ranks in two dimensions, not periodic: rank r is in row r / c
 * of c columns, and exchanges an edge of its cells with up to four neighbours in every step.
 * c is the divisor of the number of ranks nearest to its root, or the variant (-m).  What a
 * pair of ranks sends each other in a step is known: -s cells, 8 bytes each, one message in
 * each direction.
 *
 * A step passes app.mid once, between sending and receiving.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { UP, DOWN, LEFT, RIGHT, SIDES };

static struct {
    double *cells;   /* [SIDES][size]: the edges; corners count twice */
    double *in;      /* [SIDES][size] from the neighbours */
    int near[SIDES]; /* ranks, MPI_PROC_NULL at the rim */
} m;

static int columns_of(const struct foreign *f)
{
    int c = f->variant ? atoi(f->variant) : 1;
    for (int d = 1; !f->variant && d * d <= f->nranks; d++)
        if (f->nranks % d == 0)
            c = f->nranks / d;
    return c;
}

static int prepare(struct foreign *f)
{
    int c = columns_of(f), size = f->size;
    int row = f->rank / c, column = f->rank % c;
    m.near[UP] = row > 0 ? f->rank - c : MPI_PROC_NULL;
    m.near[DOWN] = f->rank + c < f->nranks ? f->rank + c : MPI_PROC_NULL;
    m.near[LEFT] = column > 0 ? f->rank - 1 : MPI_PROC_NULL;
    m.near[RIGHT] = column + 1 < c && f->rank + 1 < f->nranks ? f->rank + 1 : MPI_PROC_NULL;
    m.cells = calloc((size_t)size * SIDES, sizeof *m.cells);
    m.in = calloc((size_t)size * SIDES, sizeof *m.in);
    if (!m.cells || !m.in)
        return 1;
    for (int i = 0; i < size * SIDES; i++)
        m.cells[i] = (double)((f->rank * 31 + i * 7) % 101) / 101;
    return ftkit_register(f->ft, "cells", m.cells, (size_t)size * SIDES, MPI_DOUBLE) != FTKIT_OK;
}

static void step(struct foreign *f)
{
    MPI_Request req[2 * SIDES];
    size_t size = (size_t)f->size;
    for (int s = 0; s < SIDES; s++)
        MPI_Isend(m.cells + size * (size_t)s, f->size, MPI_DOUBLE, m.near[s], s, f->comm, &req[s]);
    (void)FTK_FAULT("app.mid");
    for (int s = 0; s < SIDES; s++) /* the other's opposite side: 0 and 1, 2 and 3 */
        MPI_Irecv(m.in + size * (size_t)s, f->size, MPI_DOUBLE, m.near[s], s ^ 1, f->comm,
            &req[SIDES + s]);
    MPI_Waitall(2 * SIDES, req, MPI_STATUSES_IGNORE);
    for (int s = 0; s < SIDES; s++)
        for (size_t i = 0; i < size; i++) {
            double *x = &m.cells[size * (size_t)s + i];
            double across = m.in[size * (size_t)(s ^ 1) + i];
            *x = 0.5 * *x + 0.3 * m.in[size * (size_t)s + i] + 0.2 * across;
        }
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t mine = 0;
    for (int i = 0; i < f->size * SIDES; i++)
        mine += foreign_cell((size_t)(f->rank * f->size * SIDES + i), m.cells[i]);
    *hash = foreign_total(f, mine);
    snprintf(detail, room, "columns %d", columns_of(f));
    return true;
}

static void release(void)
{
    free(m.cells);
    free(m.in);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "mesh", 30, 100, prepare, NULL, NULL, step, verdict,
        release };
    return foreign_main(argc, argv, &app);
}
