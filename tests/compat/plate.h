/* Heat on a plate, for programs that are written to the interfaces of other libraries.  Each rank
 * has some lines, with one ghost line at each end.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLATE_H
#define PLATE_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 64, LINES = 16, CELLS = WIDTH * (LINES + 2), STEPS = 60 };

/* End the process if a call has failed. */
static inline void plate_need(int good, const char *call)
{
    if (good)
        return;
    fprintf(stderr, "%s has failed\n", call);
    exit(2);
}

static inline double *plate_new(int rank)
{
    double *u = calloc(CELLS, sizeof *u);
    if (!u)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; rank == 0 && i < WIDTH; i++)
        u[WIDTH + i] = 100.0 / (1 + i);
    return u;
}

static inline void plate_doze(int ms)
{
    nanosleep(&(struct timespec){ 0, ms * 1000000L }, NULL);
}

/* How many lines of the output of the job so far, the file "log", have this text. */
static inline int plate_said(const char *text)
{
    char line[1024];
    int n = 0;
    FILE *f = fopen("log", "r");
    while (f && fgets(line, sizeof line, f))
        n += strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return n;
}

/* In the last two steps a process that has made all others waits for PLATE_KILLS kills: however
 * late `ftkit run` is, they meet the loop. */
static inline void plate_wait(void)
{
    static int steps;
    const char *kills = getenv("PLATE_KILLS");
    if (++steps < STEPS - 1 || !kills)
        return;
    while (plate_said("ftkit run: killed rank") < atoi(kills))
        plate_doze(5);
}

/* A step; returns the largest change of this rank. */
static inline double plate_step(double *u, double *old, MPI_Comm comm)
{
    int rank, size, n = 0;
    double change = 0;
    MPI_Request q[4];
    plate_wait();
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (rank > 0) {
        MPI_Isend(u + WIDTH, WIDTH, MPI_DOUBLE, rank - 1, 1, comm, &q[n++]);
        MPI_Irecv(u, WIDTH, MPI_DOUBLE, rank - 1, 2, comm, &q[n++]);
    }
    if (rank < size - 1) {
        MPI_Isend(u + LINES * WIDTH, WIDTH, MPI_DOUBLE, rank + 1, 2, comm, &q[n++]);
        MPI_Irecv(u + (LINES + 1) * WIDTH, WIDTH, MPI_DOUBLE, rank + 1, 1, comm, &q[n++]);
    }
    MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
    memcpy(old, u, CELLS * sizeof *u);
    for (int i = WIDTH + 1; i < (LINES + 1) * WIDTH - 1; i++) {
        u[i] = 0.25 * (old[i - WIDTH] + old[i + WIDTH] + old[i - 1] + old[i + 1]);
        const double moved = u[i] > old[i] ? u[i] - old[i] : old[i] - u[i];
        change = moved > change ? moved : change;
    }
    plate_doze(4); /* so that kills meet different steps */
    return change;
}

/* Rank 0 puts a file in the place of the directory "sets", or puts the directory back. */
static inline void plate_files(const char *config, int away)
{
    char sets[4096], kept[4096];
    const int n = (int)(strrchr(config, '/') - config);
    snprintf(sets, sizeof sets, "%.*s/sets", n, config);
    snprintf(kept, sizeof kept, "%.*s/kept", n, config);
    if (!away && remove(sets) != 0)
        exit(3);
    if (rename(away ? sets : kept, away ? kept : sets) != 0)
        exit(3);
    FILE *f = away ? fopen(sets, "w") : NULL;
    if (away && (!f || fclose(f) != 0))
        exit(3);
}

/* Rank 0 prints a number that depends on each bit. */
static inline void plate_print(const double *u, int step, double change, MPI_Comm comm)
{
    int rank, size;
    uint64_t hash = 14695981039346656037u;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double *all = malloc(sizeof *all * CELLS * (size_t)size);
    if (!all)
        MPI_Abort(comm, 1);
    MPI_Gather(u, CELLS, MPI_DOUBLE, all, CELLS, MPI_DOUBLE, 0, comm);
    const unsigned char *bytes = (const unsigned char *)all;
    for (size_t i = 0; rank == 0 && i < sizeof *all * CELLS * (size_t)size; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    if (rank == 0)
        printf("result: %d ranks, %d steps, %.17g, %016llx\n", size, step, change,
            (unsigned long long)hash);
    free(all);
}

#endif
