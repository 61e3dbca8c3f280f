/* ftkit_wait() and ftkit_scrub() around ftkit_checkpoint(), in every third step, at the sets.
 *
 *   around top|bottom CALLS
 *
 * CALLS has one letter for each place: b before and a after ftkit_checkpoint(), e behind the loop.
 * Prints "around: <value>" on rank 0: the sum of what has gone round the ring.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <ftkit.h>

/* At the bottom of the loop the call of the last step writes a set. */
enum { STEPS = 19, EVERY = 3 };

static MPI_Comm comm;
static int step, top;
static int64_t value;
static const char *places;

/* Returns whether the loop goes on from its head. */
static int call(ftkit_ctx *ft, char place)
{
    int bad = 0;
    if (!strchr(places, place) || (place != 'e' && (step + top) % EVERY != 1))
        return 0;
    return ftkit_scrub(ft, &bad) == FTKIT_ROLLED_BACK || ftkit_wait(ft) == FTKIT_ROLLED_BACK;
}

static void work(void)
{
    int rank, size;
    int64_t got = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int64_t mine = value + rank;
    const int rc = MPI_Sendrecv(&mine, 1, MPI_INT64_T, (rank + 1) % size, 0, &got, 1, MPI_INT64_T,
        (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
    const struct timespec ms = { 0, 1000000 };
    nanosleep(&ms, NULL);
    if (rc == MPI_SUCCESS)
        value = (value * 3 + got) % 1000003;
    step++;
}

static int set(ftkit_ctx *ft)
{
    if (call(ft, 'b'))
        return 1;
    const int rc = ftkit_checkpoint(ft);
    if (rc < 0)
        fprintf(stderr, "around: %s\n", ftkit_detail(ft));
    return call(ft, 'a');
}

static int loop(ftkit_ctx *ft)
{
    for (;;) {
        if (top && set(ft))
            continue;
        if (step < STEPS) {
            work();
            if (!top)
                (void)set(ft);
            continue;
        }
        if (call(ft, 'e'))
            continue;
        const int rc = ftkit_finish(ft);
        if (rc != FTKIT_ROLLED_BACK)
            return rc;
    }
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft;
    int rank, wrong;
    int64_t sum = 0;
    if (argc != 3)
        return 2;
    top = strcmp(argv[1], "top") == 0;
    places = argv[2];
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK)
        return 1;
    wrong = ftkit_bind_comm(ft, &comm) < 0
            || ftkit_register_replicated(ft, "step", &step, 1, MPI_INT) < 0
            || ftkit_register(ft, "value", &value, 1, MPI_INT64_T) < 0
            || ftkit_recover(ft, NULL) < 0;
    wrong = wrong || loop(ft) != FTKIT_OK
            || MPI_Allreduce(&value, &sum, 1, MPI_INT64_T, MPI_SUM, comm) != MPI_SUCCESS;
    MPI_Comm_rank(comm, &rank);
    if (rank == 0 && !wrong)
        printf("around: %" PRId64 "\n", sum);
    wrong = ftkit_close(&ft) != FTKIT_OK || wrong;
    return MPI_Finalize() != MPI_SUCCESS || wrong;
}
