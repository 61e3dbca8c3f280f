/* Programs that look closely at what is written in the background.
 *
 *     flush MODE [ITEMS [ERRORS]]     ITEMS doubles on every rank
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <hdf5.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ftkit.h"

static ftkit_ctx *ft;
static MPI_Comm comm;
static int rank, size;
static int items = 100000;
static int errors = 1;
static int of_other; /* the errors */
static int round_;   /* counts what was saved */
static double *x;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "flush: rank %d, line %d: %s: %s\n", rank, __LINE__, #what,            \
                ft ? ftkit_detail(ft) : "");                                                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static double value(int i)
{
    return round_ * 1e6 + rank * 1e3 + i * 0.5;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void doze(double s)
{
    struct timespec t = { (time_t)s, (long)(1e9 * (s - (double)(time_t)s)) };
    nanosleep(&t, NULL);
}

static ftkit_info query(void)
{
    ftkit_info info = { .size = sizeof info };
    CHECK(ftkit_query(ft, &info) == FTKIT_OK);
    return info;
}

/* The next state of the data, saved; what the call returned. */
static int save(void)
{
    round_++;
    for (int i = 0; i < items; i++)
        x[i] = value(i);
    int rc = ftkit_checkpoint(ft);
    for (int i = 0; i < items; i++) /* what is written must not see what comes after */
        x[i] = -1;
    return rc;
}

static int complete(uint64_t set)
{
    int done = -1;
    CHECK(ftkit_test(ft, set, &done) == FTKIT_OK);
    return done;
}

static void touch(const char *name)
{
    FILE *f = fopen(name, "w");
    CHECK(f && fclose(f) == 0);
}

/* From now on calls with a path that has FTKIT_TEST_HANG_PATH wait (see lib/hang.c). */
static void stall(void)
{
    const char *hang = getenv("FTKIT_TEST_HANG");
    if (rank == 0 && hang)
        touch(hang);
    MPI_Barrier(comm);
}

/* They wait no longer; the test may have seen to that before. */
static void answer(void)
{
    const char *hang = getenv("FTKIT_TEST_HANG");
    MPI_Barrier(comm);
    CHECK(rank != 0 || !hang || unlink(hang) == 0 || errno == ENOENT);
}

/* ---- modes --------------------------------------------------------------------------- */

/* A set is begun, then nobody calls ftkit any more. */
static void run_idle(void)
{
    CHECK(save() == FTKIT_OK);
    char name[32];
    snprintf(name, sizeof name, "idle.%d", rank);
    CHECK(query().durable == 0);
    touch(name);
    for (;;)
        pause();
}

/* A job that goes on from it. */
static void run_verify(void)
{
    CHECK(round_ >= 1);
    for (int i = 0; i < items; i++)
        CHECK(x[i] == value(i));
    if (rank == 0)
        printf("verified round %d\n", round_);
}

/* How long the file system takes, told by the waits of three sets, and thrice the least time of
 * their calls. */
static void run_time(void)
{
    double waited = 0, called = 1e9;
    for (int i = 0; i < 3; i++) {
        double t0 = now_s();
        CHECK(save() == FTKIT_OK);
        double t1 = now_s();
        CHECK(ftkit_wait(ft) == FTKIT_OK);
        called = 3 * (t1 - t0) < called ? 3 * (t1 - t0) : called;
        waited += now_s() - t0;
        CHECK(complete((uint64_t)round_) && query().durable == (uint64_t)round_);
    }
    if (rank == 0)
        printf(
            "called %.6f waited %.6f bytes %.0f\n", called, waited, 3.0 * items * sizeof *x * size);
}

/* More sets are due than can be written: the first one is, the others wait.  The file system does
 * not answer meanwhile (see lib/hang.c). */
static void run_postpone(void)
{
    stall();
    for (int i = 0; i < 6; i++)
        CHECK(save() == FTKIT_OK);
    CHECK(query().committed == 6 && query().durable == 0 && query().flushing == 1);
    CHECK(query().memory_bytes >= 3 * (size_t)items * sizeof *x); /* one is held */
    answer();
    CHECK(ftkit_wait(ft) == FTKIT_OK);
    CHECK(complete(1) && !complete(2) && !complete(6) && query().durable == 1);
    CHECK(save() == FTKIT_OK); /* still due */
    CHECK(ftkit_wait(ft) == FTKIT_OK);
    CHECK(complete(7) && query().durable == 7);
    CHECK(query().memory_bytes < 3 * (size_t)items * sizeof *x);
}

/* What the program asks for waits for what is being written, slowly.  If the file system does not
 * answer for the second set, this set is still being written then. */
static void run_request(void)
{
    const char *path = getenv("FTKIT_TEST_HANG_PATH");
    const bool second = path && strstr(path, "set-0000000002");
    stall();
    CHECK(save() == FTKIT_OK);
    CHECK(ftkit_request(ft, 1) == FTKIT_OK);
    CHECK(save() == FTKIT_OK);
    CHECK(complete(1) && (!second || query().durable == 1));
    answer();
    CHECK(ftkit_wait(ft) == FTKIT_OK);
    CHECK(complete(2));
}

/* The second set is asked for, but a rank dies before it is written: then the third is. */
static void run_lost(void)
{
    while (round_ < 4) {
        CHECK(round_ != 1 || ftkit_request(ft, 1) == FTKIT_OK);
        CHECK(save() >= 0);
    }
    CHECK(ftkit_wait(ft) == FTKIT_OK);
    CHECK(query().committed == 4 && query().durable == 3);
}

/* Closing waits. */
static void run_close(void)
{
    stall();
    CHECK(save() == FTKIT_OK);
    CHECK(query().durable == 0);
    answer();
}

/* Wait until no rank writes any more; of_other: but rank 0, which waits for the part of a rank that
 * has failed. */
static void await_error(void)
{
    int busy = 1;
    for (int mine; busy; doze(0.005)) {
        mine = query().flushing != 0 && !(of_other && rank == 0);
        MPI_Allreduce(&mine, &busy, 1, MPI_INT, MPI_MAX, comm);
    }
}

/* A set cannot be written: the next call says so on all ranks, and its own set is complete.  ERRORS
 * times, behind a first set. */
static void run_error(void)
{
    int codes[2], both[2];
    CHECK(save() == FTKIT_OK);
    CHECK(ftkit_wait(ft) == FTKIT_OK);
    for (int i = 0; i < errors; i++) {
        uint64_t bad = (uint64_t)round_ + 1;
        CHECK(save() == FTKIT_OK);
        await_error();
        int rc = save();
        codes[0] = rc;
        codes[1] = -rc;
        MPI_Allreduce(codes, both, 2, MPI_INT, MPI_MIN, comm);
        CHECK(rc < 0 && both[0] == -both[1]);
        CHECK(strlen(ftkit_detail(ft)) > 10);
        if (rank == 0)
            printf("told %s\n", ftkit_strerror(rc));
        CHECK(query().committed == bad + 1 && complete(bad - 1) && !complete(bad));
        CHECK(ftkit_wait(ft) == FTKIT_OK); /* the error comes once */
    }
    CHECK(save() == FTKIT_OK);
    CHECK(ftkit_wait(ft) == FTKIT_OK);
    CHECK(query().durable >= (uint64_t)round_ - 1 && query().flush_error == FTKIT_OK);
}

/* The same, of another rank that writes a part. */
static void run_other(void)
{
    of_other = 1;
    run_error();
}

/* The second set cannot even be begun: told at once. */
static void run_callerror(void)
{
    CHECK(save() == FTKIT_OK);
    CHECK(ftkit_wait(ft) == FTKIT_OK);
    int rc = save();
    CHECK(rc < 0 && query().committed == 2 && query().durable == 1);
    if (rank == 0)
        printf("told %s\n", ftkit_strerror(rc));
    CHECK(save() == FTKIT_OK);
    CHECK(ftkit_wait(ft) == FTKIT_OK);
    CHECK(complete(1) && !complete(2) && complete(3));
}

/* The same, told by the wait. */
static void run_waiterror(void)
{
    CHECK(save() == FTKIT_OK);
    CHECK(ftkit_wait(ft) == FTKIT_OK);
    CHECK(save() == FTKIT_OK);
    int rc = ftkit_wait(ft);
    CHECK(rc < 0 && complete(1) && !complete(2));
    if (rank == 0)
        printf("told %s\n", ftkit_strerror(rc));
}

/* The second writer's part has its name when its directory cannot be synced: the set that
 * rank 0 has made of it stays. */
static void run_named(void)
{
    CHECK(save() == FTKIT_OK);
    CHECK(ftkit_wait(ft) == FTKIT_OK);
    CHECK(save() == FTKIT_OK);
    while (rank == 0 && !complete(2))
        doze(0.005); /* who waits is told, and would call it off */
    int rc = ftkit_wait(ft);
    CHECK(rc < 0 && complete(1) && complete(2));
    if (rank == 0)
        printf("told %s\n", ftkit_strerror(rc));
}

/* The program changes its directory. */
static void run_chdir(void)
{
    CHECK(chdir("/") == 0);
    CHECK(save() == FTKIT_OK);
    CHECK(ftkit_wait(ft) == FTKIT_OK);
}

/* A disk is slow: fork() does not wait for it.  And a child may leave by exit(). */
static void run_fork(void)
{
    const char *log = getenv("FTKIT_FAULT_LOG");
    CHECK(save() == FTKIT_OK);
    for (int i = 0; rank == 0 && i < 1000 && access(log, F_OK) != 0; i++)
        doze(0.005);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        exit(3);
    int status = 0;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    CHECK(rank != 0 || query().flushing == 1);
    CHECK(ftkit_wait(ft) == FTKIT_OK);
}

/* The program uses HDF5 itself, and forks, while a set is being written. */
static void run_busy(void)
{
    int files = 0, forks = 0; /* that ended before the set was complete */
    char name[32];
    CHECK(save() == FTKIT_OK);
    snprintf(name, sizeof name, "own.%d.h5", rank);
    for (int i = 0; i < 50; i++) {
        hsize_t n = 1000;
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        hid_t space = H5Screate_simple(1, &n, NULL);
        hid_t set =
            H5Dcreate2(file, "x", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0);
        CHECK(H5Dclose(set) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0);
        files += !complete(1);
        if (i % 5 != 0)
            continue;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            space = H5Screate(H5S_SCALAR); /* locked by nobody */
            _exit(space < 0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        forks += !complete(1);
    }
    CHECK(files > 0 && forks > 0);
    CHECK(ftkit_wait(ft) == FTKIT_OK);
    CHECK(complete(1));
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    { "idle", run_idle },
    { "verify", run_verify },
    { "time", run_time },
    { "postpone", run_postpone },
    { "request", run_request },
    { "lost", run_lost },
    { "close", run_close },
    { "error", run_error },
    { "other", run_other },
    { "callerror", run_callerror },
    { "waiterror", run_waiterror },
    { "busy", run_busy },
    { "named", run_named },
    { "chdir", run_chdir },
    { "fork", run_fork },
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const char *mode = argc > 1 ? argv[1] : "";
    if (argc > 2)
        items = atoi(argv[2]);
    if (argc > 3)
        errors = atoi(argv[3]);
    x = malloc((size_t)items * sizeof *x);
    if (!x || ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK) {
        fprintf(stderr, "flush: %s\n", ftkit_detail(NULL));
        return 1;
    }
    CHECK(ftkit_bind_comm(ft, &comm) == FTKIT_OK);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    CHECK(ftkit_register_replicated(ft, "round", &round_, 1, MPI_INT) == FTKIT_OK);
    CHECK(ftkit_register(ft, "x", x, (size_t)items, MPI_DOUBLE) == FTKIT_OK);
    CHECK(ftkit_recover(ft, NULL) >= 0);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(mode, modes[i].name) == 0)
            modes[i].run();
    int rc = ftkit_close(&ft);
    if (rc != FTKIT_OK)
        fprintf(stderr, "flush: close: %s: %s\n", ftkit_strerror(rc), ftkit_detail(NULL));
    free(x);
    MPI_Finalize();
    return rc != FTKIT_OK;
}
