/* What ftkit relies on in agreements of Open MPI.
 *
 *   agrees sent     a process lives on when the result of an agreement cannot be sent to a member
 *                   that has died: two ranks, over TCP, with MALLOC_PERTURB_, which fills freed
 *                   memory
 *   agrees threads  agreements of two threads at once have the right result
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* usleep, ftruncate */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#ifdef MPIX_ERR_PROC_FAILED

enum { LOOKS = 1000 };   /* calls that make progress */
enum { ROUNDS = 20000 }; /* agreements of each thread */
enum { CONTRIBUTED, UNREAD, FLAGS };

static atomic_int *flags; /* set by one rank, awaited by another, without a call of MPI */
static int rank, size;

static void await(int flag)
{
    while (!flags[flag])
        usleep(100);
}

/* ---- the result of an agreement cannot be sent --------------------------------------- */

static void look(void)
{
    for (int i = 0, found; i < LOOKS; i++)
        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
}

/* Contribute, and die with an unread message, so that the connection is reset.  The runtime is
 * stopped: it cannot tell rank 0. */
static void contributes_and_dies(MPI_Comm comm)
{
    int flag = 1;
    MPI_Request request;
    MPIX_Comm_iagree(comm, &flag, &request);
    look();
    flags[CONTRIBUTED] = getpid();
    await(UNREAD);
    kill(getppid(), SIGSTOP);
    raise(SIGKILL);
}

/* Wait until the process has ended: its connections are closed then. */
static void await_end(int pid)
{
    char path[40], state = '\0';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    while (state != 'Z') {
        FILE *f = fopen(path, "r");
        if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
            state = 'Z'; /* it is gone */
        if (f)
            fclose(f);
        usleep(100);
    }
}

/* How many members are known to have failed. */
static int failed(MPI_Comm comm)
{
    MPI_Group group;
    int n = 0;
    MPIX_Comm_failure_ack(comm);
    MPIX_Comm_failure_get_acked(comm, &group);
    MPI_Group_size(group, &n);
    MPI_Group_free(&group);
    return n;
}

static int decides(MPI_Comm comm)
{
    int flag = 1;
    await(CONTRIBUTED);
    look(); /* take the contribution */
    MPI_Send(&flag, 1, MPI_INT, 1, 0, comm);
    flags[UNREAD] = 1;
    await_end(flags[CONTRIBUTED]);
    int rc = MPIX_Comm_agree(comm, &flag);
    kill(getppid(), SIGCONT);
    if (rc != MPI_SUCCESS || failed(comm) != 1) {
        printf("MISSED: the send did not fail in the agreement\n");
        return 0;
    }
    look(); /* here the failure of the send is handled, with the agreement gone */
    return 1;
}

static int sent(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Barrier(comm);
    for (int i = 0, flag = 1; i < 3; i++)
        MPIX_Comm_agree(comm, &flag); /* the connections are open */
    if (rank == 1)
        contributes_and_dies(comm);
    return decides(comm);
}

/* ---- agreements of two threads ------------------------------------------------------- */

static MPI_Comm comms[2];
static atomic_int wrong;

static int bits(int of, int thread, int round)
{
    return ~(1 << ((round + of + 7 * thread) % 24));
}

static void *agrees(void *arg)
{
    int thread = arg != NULL;
    for (int i = 0; i < ROUNDS; i++) {
        int flag = bits(rank, thread, i), want = -1;
        for (int r = 0; r < size; r++)
            want &= bits(r, thread, i);
        if (MPIX_Comm_agree(comms[thread], &flag) != MPI_SUCCESS || flag != want)
            wrong++;
    }
    return NULL;
}

static int threads(void)
{
    pthread_t other;
    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    if (pthread_create(&other, NULL, agrees, comms) != 0)
        return 0;
    agrees(NULL);
    pthread_join(other, NULL);
    int mine = wrong, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong agreements\n", all);
    return all == 0;
}

int main(int argc, char **argv)
{
    int provided, two = argc > 1 && strcmp(argv[1], "threads") == 0;
    MPI_Init_thread(&argc, &argv, two ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int fd = open("agrees.flags", O_RDWR | O_CREAT, 0600); /* in the directory of the job */
    if (fd < 0 || ftruncate(fd, FLAGS * sizeof *flags) != 0)
        return 1;
    flags = mmap(NULL, FLAGS * sizeof *flags, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (flags == MAP_FAILED)
        return 1;
    int good = two ? threads() : sent();
    if (rank == 0 && good)
        printf("OK agrees\n");
    fflush(stdout);
    if (!two)
        _exit(!good); /* MPI_Finalize would wait for rank 1 */
    MPI_Finalize();
    return !good;
}
#else
int main(void)
{
    fputs("agrees: this MPI has no ULFM\n", stderr);
    return 1;
}
#endif
