/* Two threads with MPI_THREAD_MULTIPLE and the message log.
 *
 *   threads one|turns|both [-o RESULT]
 *
 * one: only the main thread communicates.  turns: another thread communicates in every second step.
 * both: in step AT the second thread of rank 0 is in MPI_Recv while the first calls MPI; the steps
 * end when rank 0 has been told that no set is written: with lines apart a set needs some of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ftkit.h"

enum { STEPS = 40, AT = 12, MOST = 100 * STEPS };

static struct {
    MPI_Comm comm;
    int rank, size, step;
    double x;
    int failed;    /* calls of MPI that have failed with MPI_ERR_OTHER */
    int told, all; /* ftkit has told this rank, rank 0, an error */
} g;

static void note(int rc)
{
    int class = MPI_SUCCESS;
    if (rc != MPI_SUCCESS && MPI_Error_class(rc, &class) == MPI_SUCCESS && class == MPI_ERR_OTHER)
        __atomic_add_fetch(&g.failed, 1, __ATOMIC_RELAXED);
}

static void *communicate(void *arg)
{
    double in = 0, sum[2] = { 0 };
    (void)arg;
    MPI_Sendrecv(&g.x, 1, MPI_DOUBLE, (g.rank + 1) % g.size, 1, &in, 1, MPI_DOUBLE,
        (g.rank + g.size - 1) % g.size, 1, g.comm, MPI_STATUS_IGNORE);
    const double mine[2] = { in, g.rank == 0 && g.told };
    MPI_Allreduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, g.comm);
    g.x = 0.5 * g.x + 0.25 * in + sum[0] / g.size;
    g.all = sum[1] > 0;
    return NULL;
}

static void in_other_thread(void *(*run)(void *))
{
    pthread_t t;
    if (pthread_create(&t, NULL, run, NULL) != 0 || pthread_join(t, NULL) != 0)
        exit(9);
}

static void *receive(void *arg)
{
    int got = 0;
    (void)arg;
    note(MPI_Recv(&got, 1, MPI_INT, 1, 7, g.comm, MPI_STATUS_IGNORE));
    return NULL;
}

/* Rank 1 sends when rank 0 has seen the error. */
static void both(void)
{
    pthread_t t;
    const char *seen = "seen";
    int flag = 1;
    if (g.rank == 1) {
        while (access(seen, F_OK) != 0)
            usleep(1000);
        MPI_Send(&flag, 1, MPI_INT, 0, 7, g.comm);
    }
    if (g.rank != 0)
        return;
    if (pthread_create(&t, NULL, receive, NULL) != 0)
        exit(9);
    while (__atomic_load_n(&g.failed, __ATOMIC_RELAXED) == 0)
        note(MPI_Iprobe(2, 8, g.comm, &flag, MPI_STATUS_IGNORE));
    FILE *f = fopen(seen, "w");
    if (!f || fclose(f) != 0 || pthread_join(t, NULL) != 0)
        exit(9);
}

static int run(ftkit_ctx *ft, const char *mode)
{
    int rc;
    while (ftkit_step(ft, &rc)) {
        if (rc < 0) {
            printf("rank %d: %d: %s\n", g.rank, rc, ftkit_detail(ft));
            if (FTKIT_FATAL(rc))
                return rc;
            g.told = 1;
        }
        if (g.step >= STEPS && (strcmp(mode, "both") != 0 || g.all || g.step >= MOST)) {
            ftkit_end(ft);
            continue;
        }
        if (strcmp(mode, "both") == 0 && g.step == AT)
            both();
        else if (strcmp(mode, "turns") == 0 && g.step % 2 == 1)
            in_other_thread(communicate);
        else
            communicate(NULL);
        g.step++;
    }
    return rc;
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft = NULL;
    const char *mode = argc > 1 ? argv[1] : "one";
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE || ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK) {
        printf("open: %s\n", ftkit_detail(NULL));
        MPI_Finalize();
        return 1;
    }
    ftkit_bind_comm(ft, &g.comm);
    MPI_Comm_set_errhandler(g.comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(g.comm, &g.rank);
    MPI_Comm_size(g.comm, &g.size);
    g.x = 1 + g.rank;
    ftkit_register(ft, "x", &g.x, 1, MPI_DOUBLE);
    ftkit_register(ft, "step", &g.step, 1, MPI_INT);
    int rc = run(ft, mode);
    if (rc < 0)
        printf("rank %d: end: %d: %s\n", g.rank, rc, ftkit_detail(ft));
    if (rc >= 0 && argc > 3 && g.rank == 0) {
        FILE *f = fopen(argv[3], "w");
        if (!f || fprintf(f, "%.17g\n", g.x) < 0 || fclose(f) != 0)
            return 9;
    }
    int closed = ftkit_close(&ft);
    MPI_Finalize();
    return rc < 0 || closed < 0;
}
