/* A program that uses energy as it likes: rank 0 moves the counter of a made-up sensor, by five
 * joules in each step, twenty while a set is packed, and a hundred in the callback of a repair.  So
 * the joules of each phase are known.
 *
 *   meter COUNTER RANGE STEPS [bare]
 *
 * The files of the first set are whole before step 5, and those of step 40 before step 45.
 *
 * bare: without the region whose packing uses energy, so that the job can shrink.  Rank 1 comes to
 * ftkit_finish() 80 ms later than the others.  COUNTER is the file of the counter, in microjoules,
 * which wraps at RANGE.  Each rank tells at its end what ftkit_query() has as joules, in a line
 * "joules: rank R: J"; rank 0 also what it has used in all, "used: J".
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "core/ftk.h"

#define DIGITS 20 /* of the counter: it is written in place, and a reader sees all of it */

static const char *counter;
static uint64_t range;
static int used;

/* Compute: much longer than the least time between two readings of the sensor. */
static void compute(void)
{
    struct timespec t = { 0, 8000000 };
    nanosleep(&t, NULL);
}

static void use(int joules)
{
    char text[DIGITS + 2] = "";
    compute();
    if (me != 0)
        return;
    int fd = open(counter, O_RDWR);
    EQUAL(DIGITS, pread(fd, text, DIGITS, 0));
    uint64_t uj = (strtoull(text, NULL, 10) + (uint64_t)joules * 1000000) % range;
    snprintf(text, sizeof text, "%0*" PRIu64 "\n", DIGITS, uj);
    EQUAL(DIGITS, pwrite(fd, text, DIGITS, 0));
    EQUAL(0, close(fd));
    used += joules;
    compute();
}

static int measure(void *arg, size_t *bytes)
{
    (void)arg;
    *bytes = 8;
    return 0;
}

static int pack(void *arg, void *buf, size_t bytes)
{
    (void)arg;
    memset(buf, 1, bytes);
    use(20);
    return 0;
}

static int unpack(void *arg, const void *buf, size_t bytes)
{
    (void)arg;
    (void)buf;
    (void)bytes;
    return 0;
}

static int on_repair(ftkit_ctx *ctx, MPI_Comm comm, void *arg)
{
    (void)ctx;
    (void)arg;
    EQUAL(MPI_SUCCESS, MPI_Comm_rank(comm, &me));
    use(100);
    return 0;
}

static int run(ftkit_ctx *ft, int steps, bool bare)
{
    int step = 0, sum, rc;
    MPI_Comm comm;
    EQUAL(FTKIT_OK, ftkit_bind_comm(ft, &comm));
    EQUAL(FTKIT_OK, ftkit_register_replicated(ft, "step", &step, 1, MPI_INT));
    ftkit_serializer ops = { sizeof ops, measure, pack, unpack };
    if (!bare)
        EQUAL(FTKIT_OK, ftkit_register_serializer(ft, "load", &ops, NULL));
    EQUAL(FTKIT_OK, ftkit_on_repair(ft, on_repair, NULL));
    for (rc = ftkit_recover(ft, NULL); rc >= 0;) {
        rc = ftkit_checkpoint(ft);
        if (rc < 0)
            break;
        if (step >= steps) {
            for (int i = 0; me == 1 && i < 10; i++)
                compute(); /* the others wait */
            rc = ftkit_finish(ft);
            if (rc != FTKIT_ROLLED_BACK)
                break;
            continue;
        }
        if (step == 5 || step == 45)
            EQUAL(FTKIT_OK, ftkit_wait(ft));
        (void)FTK_FAULT("app.step");
        use(5);
        (void)MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, comm); /* a failure is repaired */
        step++;
    }
    return rc;
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft;
    ftkit_info info = { .size = sizeof info };
    if (argc < 4)
        return 2;
    counter = argv[1];
    range = strtoull(argv[2], NULL, 10);
    MPI_Init(&argc, &argv);
    EQUAL(FTKIT_OK, ftkit_open(MPI_COMM_WORLD, NULL, &ft));
    EQUAL(FTKIT_OK, run(ft, atoi(argv[3]), argc > 4));
    EQUAL(FTKIT_OK, ftkit_query(ft, &info));
    if (isnan(info.joules))
        printf("joules: rank %d: none\n", info.rank);
    else
        printf("joules: rank %d: %.3f\n", info.rank, info.joules);
    if (info.rank == 0)
        printf("used: %d\n", used);
    EQUAL(FTKIT_OK, ftkit_close(&ft));
    MPI_Finalize();
    return 0;
}
