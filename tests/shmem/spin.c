/* A PE ends while the others wait in loops of their own, or while they make a mistake that comes
 * from this loss.  The argument says how they wait.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmem.h>

static long never, lock, there[8]; /* there: this PE waits */
static long sync_[SHMEM_ALLTOALLS_SYNC_SIZE];

/* A lock of a file, which the system gives back at the end of the process. */
static int file_lock(int how)
{
    const int fd = open("held", O_RDWR | O_CREAT, 0600);
    return fd >= 0 && lockf(fd, how, 0) == 0 ? fd : -1;
}

static void stop(const char *why)
{
    fprintf(stderr, "PE %d: %s\n", shmem_my_pe(), why);
    shmem_global_exit(EXIT_FAILURE);
}

/* The last PE ends while it has the lock, and when all others are about to wait. */
static void end(void)
{
    if (file_lock(F_LOCK) < 0)
        stop("no file");
    shmem_set_lock(&lock);
    shmem_barrier_all();
    for (int i = 0; i < shmem_n_pes() - 1; i++)
        shmem_wait_until(&there[i], SHMEM_CMP_EQ, 1L);
    raise(SIGKILL);
}

static void mistake(int me)
{
    int lost = me;
    if (file_lock(F_LOCK) < 0) /* the PE has ended, and no call has noticed this */
        stop("no file");
    if (me == 0)
        shmem_barrier(0, 0, shmem_n_pes() + 1, sync_);
    else if (me == 1)
        shmem_restart_pes(&lost, 1);
    else
        shmem_long_wait_until(&never, 17, 1);
    file_lock(F_ULOCK);
}

static void wait_in_vain(const char *how, int me)
{
    shmem_barrier_all();
    shmem_p(&there[me], 1L, shmem_n_pes() - 1);
    shmem_quiet();
    if (strcmp(how, "test") == 0)
        while (!shmem_test(&never, SHMEM_CMP_EQ, 1L))
            ;
    else if (strcmp(how, "lock") == 0)
        while (shmem_test_lock(&lock) != 0)
            ;
    else if (strcmp(how, "get") == 0)
        while (shmem_g(&never, 0) != 1 && !shmem_ft_failed())
            ;
    else if (strcmp(how, "look") == 0)
        while (*(volatile long *)&never != 1 && !shmem_ft_failed())
            ;
    else
        mistake(me);
    if (!shmem_ft_failed())
        stop("the wait has ended without a loss");
}

/* exit() of a child ends nothing of its parent. */
static void fork_a_child(void)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0)
        exit(0);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        stop("the child has not ended well");
}

int main(int argc, char **argv)
{
    bool tried = false, done = false;
    start_pes(0);
    const int me = shmem_my_pe();
    fork_a_child();
    if (shmem_ft_algo_init() == shmem_ft_failed())
        stop("shmem_ft_failed is not that of a substitute");
    shmem_barrier_all(); /* does nothing in a substitute: the others make other calls */
    while (!done) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            int *pes, *why;
            size_t n;
            shmem_query_fault(&pes, &why, &n);
            if (n != 1 || pes[0] != shmem_n_pes() - 1)
                stop("another PE was lost");
            shmem_restart_pes(pes, n);
            shmem_barrier_all();
            free(pes);
            free(why);
            tried = true;
        } else if (!tried && me == shmem_n_pes() - 1) {
            end();
        } else if (!tried) {
            wait_in_vain(argc > 1 ? argv[1] : "", me);
        } else {
            done = true;
        }
    }
    if (me == 0)
        puts("OK");
    return 0;
}
