/* A small hydrodynamics-like loop with checks of its own, as ports of proxy applications have
 * them: volumes must be positive, the time step must be finite.  The program looks at no code
 * of MPI; a receive buffer that no message has filled holds a negative volume.
 *
 *   guarded [-s STEPS] [-o RESULT] [-m HOW] [-c RANK] [-b STEP]
 *
 * HOW: what a check does that fires.  failed: go on if ftkit_failed(), else MPI_Abort();
 * confirm: the same with ftkit_confirm(); abort: ftkit_abort(); mpi: MPI_Abort(); exit: exit().
 * RESULT: a line per rank.  -c: only this rank has checks.  -b: rank 1 has a bug in this step.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/ftk.h"
#include "ftkit.h"

#define CELLS 64

struct mesh {
    const char *how, *out;
    int steps, step, bug, only, rank, size;
    long checks; /* that have fired, and were a failure's doing */
    double v[CELLS];
    MPI_Comm comm;
};

/* A check of the program has fired. */
static void fired(ftkit_ctx *ft, struct mesh *m, const char *what)
{
    if (m->only >= 0 && m->only != m->rank)
        return;
    if (strcmp(m->how, "failed") == 0    ? ftkit_failed(ft)
        : strcmp(m->how, "confirm") == 0 ? ftkit_confirm(ft)
                                         : 0) {
        m->checks++;
        return;
    }
    fprintf(stderr, "guarded: rank %d: %s in step %d\n", m->rank, what, m->step);
    if (strcmp(m->how, "exit") == 0)
        exit(3);
    if (strcmp(m->how, "abort") == 0)
        (void)ftkit_abort(MPI_COMM_WORLD, 4);
    MPI_Abort(MPI_COMM_WORLD, 4);
}

static void step(ftkit_ctx *ft, struct mesh *m)
{
    int left = (m->rank + m->size - 1) % m->size, right = (m->rank + 1) % m->size;
    double ghost[2] = { -1, -1 }, mine = 1e30, dt = -1;
    MPI_Request r[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    (void)FTK_FAULT("app.step");
    MPI_Irecv(&ghost[0], 1, MPI_DOUBLE, left, 1, m->comm, &r[0]);
    MPI_Irecv(&ghost[1], 1, MPI_DOUBLE, right, 2, m->comm, &r[1]);
    MPI_Send(&m->v[CELLS - 1], 1, MPI_DOUBLE, right, 1, m->comm);
    MPI_Send(&m->v[0], 1, MPI_DOUBLE, left, 2, m->comm);
    (void)FTK_FAULT("app.mid");
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    if (!(ghost[0] > 0) || !(ghost[1] > 0))
        fired(ft, m, "a ghost volume is not positive");
    for (int i = 0; i < CELLS; i++)
        mine = fmin(mine, m->v[i]);
    MPI_Allreduce(&mine, &dt, 1, MPI_DOUBLE, MPI_MIN, m->comm);
    (void)FTK_FAULT("app.coll");
    if (!(dt > 0) || m->step + 1 == m->bug)
        if (m->step + 1 != m->bug || m->rank == 1)
            fired(ft, m, "the time step is not positive");
    double before = ghost[0];
    for (int i = 0; i < CELLS; i++) {
        double here = m->v[i], next = i + 1 < CELLS ? m->v[i + 1] : ghost[1];
        m->v[i] = here + 0.1 * (before - 2 * here + next) + 1e-3 * dt;
        before = here;
        if (!(m->v[i] > 0))
            fired(ft, m, "a volume is not positive");
    }
    m->step++;
}

static int write_result(const struct mesh *m)
{
    double sum = 0, all[256] = { 0 };
    for (int i = 0; i < CELLS; i++)
        sum += m->v[i] * (i + 1);
    MPI_Gather(&sum, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, m->comm);
    if (m->rank != 0 || !m->out)
        return 0;
    FILE *f = fopen(m->out, "w");
    for (int r = 0; f && r < m->size; r++)
        fprintf(f, "%d %a\n", r, all[r]);
    return f && fclose(f) == 0 ? 0 : 1;
}

static int run(ftkit_ctx *ft, struct mesh *m)
{
    int bad = 0;
    for (;;) {
        int rc = ftkit_checkpoint(ft);
        if (rc < 0)
            fprintf(stderr, "guarded: rank %d: %s\n", m->rank, ftkit_detail(ft));
        if (rc <= -40)
            return 1;
        if (m->step >= m->steps) {
            bad = write_result(m);
            rc = ftkit_finish(ft);
            if (rc == FTKIT_ROLLED_BACK)
                continue;
            return rc < 0 || bad;
        }
        step(ft, m);
    }
}

int main(int argc, char **argv)
{
    struct mesh m = { .steps = 40, .how = "failed", .only = -1 };
    ftkit_ctx *ft = NULL;
    int opt;
    while ((opt = getopt(argc, argv, "s:o:m:b:c:")) != -1) {
        switch (opt) {
        case 's':
            m.steps = atoi(optarg);
            break;
        case 'o':
            m.out = optarg;
            break;
        case 'm':
            m.how = optarg;
            break;
        case 'b':
            m.bug = atoi(optarg);
            break;
        case 'c':
            m.only = atoi(optarg);
            break;
        default:
            return 2;
        }
    }
    MPI_Init(&argc, &argv);
    int rc = ftkit_open(MPI_COMM_WORLD, NULL, &ft);
    if (rc != FTKIT_OK) {
        fprintf(stderr, "guarded: open: %s\n", ftkit_detail(NULL));
        return 1;
    }
    ftkit_bind_comm(ft, &m.comm);
    MPI_Comm_rank(m.comm, &m.rank);
    MPI_Comm_size(m.comm, &m.size);
    for (int i = 0; i < CELLS; i++)
        m.v[i] = 1 + 0.5 * sin(m.rank * 7.0 + i);
    rc = ftkit_register_replicated(ft, "step", &m.step, 1, MPI_INT);
    rc |= ftkit_register(ft, "v", m.v, CELLS, MPI_DOUBLE);
    if (rc != FTKIT_OK || ftkit_recover(ft, NULL) < 0) {
        fprintf(stderr, "guarded: %s\n", ftkit_detail(ft));
        return 1;
    }
    int bad = run(ft, &m);
    if (m.checks > 0)
        fprintf(stderr, "guarded: rank %d: %ld checks have fired\n", m.rank, m.checks);
    rc = ftkit_close(&ft);
    MPI_Finalize();
    return bad || rc != FTKIT_OK;
}
