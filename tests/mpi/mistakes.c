/* Mistakes that beginners make.  Each would hang the job, or end it with 0.
 *
 *   mistakes MODE [-o RESULT]
 *
 * Right: none; child: a process that the ranks have spawned is killed in step 20, and rank 1 sees
 * that; asks, asksdurable: all ranks ask for a set in every fifth step; askswait: they wait for it,
 * too.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ftkit.h"

static const char *mode, *program;
static int rank, size, step;
static MPI_Comm comm, kept = MPI_COMM_NULL; /* kept: not made again after a repair */
static double x[8], factor = 1;

static int is(const char *what)
{
    return strcmp(mode, what) == 0;
}

static void communicate(void)
{
    double sum = 0;
    if (strncmp(mode, "nc", 2) == 0) /* the ranks have nothing to do with each other */
        return;
    if (is("world") || is("fatalworld"))
        MPI_Allreduce(&x[0], &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else if (is("worldsend"))
        MPI_Sendrecv(&x[0], 1, MPI_DOUBLE, (rank + 1) % size, 1, &sum, 1, MPI_DOUBLE,
            (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Allreduce(&x[0], &sum, 1, MPI_DOUBLE, MPI_SUM, kept != MPI_COMM_NULL ? kept : comm);
    x[1] = sum;
}

/* What rank 1 does alone in step 12; 1: it leaves the loop. */
static int alone(ftkit_ctx **ft)
{
    if (is("ncfinish"))
        (void)ftkit_finish(*ft);
    if (is("leave") || strncmp(mode, "ncleave", 7) == 0 || is("ncfinish"))
        return 1;
    if (is("ncextra"))
        (void)ftkit_checkpoint(*ft);
    if (is("finish"))
        (void)ftkit_finish(*ft);
    if (is("finalize"))
        MPI_Finalize();
    if (is("return"))
        exit(0);
    if (is("request") || is("ncrequest"))
        (void)ftkit_request(*ft, 0);
    if (is("differs"))
        factor = 2;
    if (is("badcount"))
        MPI_Send(x, -1, MPI_DOUBLE, 0, 1, comm);
    if (is("badrank"))
        MPI_Send(x, 1, MPI_DOUBLE, 99, 1, comm);
    if (is("mismatch")) /* the others are in MPI_Allreduce */
        MPI_Recv(x, 1, MPI_DOUBLE, 0, 9, comm, MPI_STATUS_IGNORE);
    if (is("window")) {
        void *base;
        MPI_Win win;
        MPI_Win_allocate_shared(1, 1, MPI_INFO_NULL, comm, &base, &win);
    }
    return 0;
}

/* A collective call that the ranks make with different functions. */
static int differ_in_kind(void)
{
    static int memory;
    MPI_Win win;
    if (rank == 1)
        return MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win);
    return MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, comm, &win);
}

/* Set-up behind ftkit_recover that communicates, and the death of a rank after that. */
static void set_up(ftkit_ctx *ft)
{
    ftkit_info info = { .size = sizeof info };
    double sum = 0;
    if (!is("setup"))
        return;
    MPI_Allreduce(&factor, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    if (ftkit_query(ft, &info) == FTKIT_OK && info.incarnation == 0 && rank == 1
        && strcmp(getenv("FTKIT_RUN_ATTEMPT"), "0") == 0)
        raise(SIGKILL);
}

/* Spawn a process, which waits for ever; rank 1 kills it, and cannot receive from it. */
static void lose_child(void)
{
    static MPI_Comm child = MPI_COMM_NULL;
    char *args[] = { "child", NULL };
    MPI_Comm both;
    int pid = 0;
    if (child != MPI_COMM_NULL
        || MPI_Comm_spawn(program, args, 1, MPI_INFO_NULL, 0, comm, &child, MPI_ERRCODES_IGNORE)
               != MPI_SUCCESS
        || MPI_Intercomm_merge(child, 0, &both) != MPI_SUCCESS)
        return;
    MPI_Barrier(comm);
    if (rank == 1) {
        MPI_Recv(&pid, 1, MPI_INT, size, 1, both, MPI_STATUS_IGNORE);
        if (pid > 0)
            kill(pid, SIGKILL);
        MPI_Recv(&pid, 1, MPI_INT, size, 2, both, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&both);
    MPI_Comm_free(&child);
    child = MPI_COMM_WORLD; /* not again */
}

static void be_child(MPI_Comm parent)
{
    MPI_Comm both;
    int pid = (int)getpid();
    MPI_Intercomm_merge(parent, 1, &both);
    MPI_Send(&pid, 1, MPI_INT, 1, 1, both);
    pause();
}

/* A set that all ranks ask for, at the top of the loop. */
static int ask(ftkit_ctx *ft)
{
    static int asked; /* for a halt */
    int rc = FTKIT_OK;
    if (is("askshalt") && rank == 0 && step == 12 && !asked++)
        raise(SIGUSR2);
    if (strncmp(mode, "asks", 4) == 0 && step % 5 == 2)
        rc = ftkit_request(ft, is("asksdurable"));
    return rc == FTKIT_OK ? ftkit_checkpoint(ft) : rc;
}

static void say_sets(ftkit_ctx *ft)
{
    ftkit_info info = { .size = sizeof info };
    if (rank == 0 && strncmp(mode, "asks", 4) == 0 && ftkit_query(ft, &info) == FTKIT_OK)
        printf("mistakes: %llu sets\n", (unsigned long long)info.committed);
}

static int second(MPI_Comm of)
{
    ftkit_ctx *more = NULL;
    int rc = ftkit_open(of, NULL, &more);
    fprintf(stderr, "mistakes: rank %d: second open: %s: %s\n", rank, ftkit_strerror(rc),
        rc < 0 ? ftkit_detail(NULL) : "");
    return rc == FTKIT_OK ? ftkit_close(&more) : rc;
}

static int run(ftkit_ctx **ft)
{
    const struct timespec ms = { 0, 2000000 };
    for (;;) {
        if (!(is("skip") && rank == 1 && step == 12)) {
            int rc = ask(*ft);
            if (is("askswait") && step % 5 == 2 && ftkit_wait(*ft) == FTKIT_ROLLED_BACK)
                continue;
            if (rc < 0)
                fprintf(stderr, "mistakes: rank %d: %s\n", rank, ftkit_detail(*ft));
            if (rc < -39)
                return 1;
        }
        if (step >= 30) {
            say_sets(*ft);
            return ftkit_finish(*ft) < 0;
        }
        if (rank == 1 && step == 12 && alone(ft))
            return 0;
        if (is("ncleavescrub") && step == 12 && ftkit_scrub(*ft, NULL) != FTKIT_OK)
            return 1;
        if (is("kinds") && step == 12 && differ_in_kind() == MPI_ERR_WIN)
            return 1;
        communicate();
        if (is("child") && step == 20)
            lose_child();
        nanosleep(&ms, NULL);
        step++;
    }
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft = NULL;
    mode = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm parent = MPI_COMM_NULL;
    if (is("child") && MPI_Comm_get_parent(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL)
        be_child(parent);
    program = argv[0];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (is("noopen") && rank == 1) {
        MPI_Finalize();
        return 0;
    }
    int rc = ftkit_open(MPI_COMM_WORLD, NULL, &ft);
    if (rc != FTKIT_OK) {
        fprintf(stderr, "mistakes: %s\n", ftkit_detail(NULL));
        return 1;
    }
    ftkit_bind_comm(ft, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (is("stale"))
        kept = comm;
    if (is("staledup") || is("fatalkept"))
        MPI_Comm_dup(comm, &kept);
    rc = ftkit_register_replicated(ft, "step", &step, 1, MPI_INT);
    if (is("fatalkept"))
        rc |= ftkit_track_comm(ft, kept);
    rc |= ftkit_register_replicated(ft, "factor", &factor, 1, MPI_DOUBLE);
    rc |= ftkit_register(ft, "x", x, 8, MPI_DOUBLE);
    if (is("twice"))
        rc |= second(MPI_COMM_WORLD);
    if (is("twicecomm")) /* contexts that are open at the same time have different names */
        rc |= setenv("FTKIT_CONTEXT_NAME", "second", 1) | second(ftkit_comm(ft));
    if (rc != FTKIT_OK || ftkit_recover(ft, NULL) < 0) {
        fprintf(stderr, "mistakes: rank %d: setting up: %s\n", rank, ftkit_detail(ft));
        ftkit_close(&ft);
        MPI_Finalize();
        return 1;
    }
    set_up(ft);
    if (is("fatal") || is("fatalkept"))
        MPI_Comm_set_errhandler(is("fatal") ? comm : kept, MPI_ERRORS_ARE_FATAL);
    if (is("fatalworld"))
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    int bad = run(&ft);
    if (!is("noclose"))
        bad |= ftkit_close(&ft) != FTKIT_OK;
    if (is("after"))
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return bad;
}
