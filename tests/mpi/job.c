/* A job for the tests of `ftkit run`: plain MPI, and it writes the state file itself, as
 * the library would.
 *
 *     job MODE [ARGUMENT]
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, attempt;

/* One line by one write, rank 0 only. */
__attribute__((format(printf, 1, 2))) static void state(const char *fmt, ...)
{
    const char *path = getenv("FTKIT_RUN_STATE");
    char line[256];
    va_list ap;
    if (rank != 0)
        return;
    va_start(ap, fmt);
    int len = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    int fd = path ? open(path, O_WRONLY | O_APPEND) : -1;
    if (fd < 0 || write(fd, line, (size_t)len) != len || close(fd) != 0) {
        perror("job: FTKIT_RUN_STATE");
        exit(99);
    }
}

static void die(void)
{
    /* nobody before everybody is there; it fails where another one died in it already */
    MPI_Barrier(MPI_COMM_WORLD);
    raise(SIGKILL);
}

static void hang(void)
{
    /* every rank leaves its number, so that the test can look for what is left */
    fprintf(stderr, "job: pid %d\n", (int)getpid());
    for (;;)
        pause();
}

/* ---- modes: each is told its argument and returns the exit code of the rank ---------- */

static int run_normal(const char *arg)
{
    state("open default\n");
    state("set 1\n");
    MPI_Barrier(MPI_COMM_WORLD);
    state("closed default\n");
    return atoi(arg);
}

static int run_never(const char *arg)
{
    return atoi(arg);
}

static int run_early(const char *arg)
{
    (void)arg;
    die();
    return 0;
}

/* Lost in the first attempts, as many as the argument says, then well. */
static int run_lost(const char *arg)
{
    state("open default\n");
    if (attempt < atoi(arg))
        die();
    state("closed default\n");
    return 0;
}

/* The same with a newer durable set in each attempt. */
static int run_progress(const char *arg)
{
    state("open default\n");
    state("set %d\n", attempt + 1);
    if (attempt < atoi(arg))
        die();
    state("closed default\n");
    return 0;
}

/* One of two contexts is still open when the job is lost. */
static int run_two(const char *arg)
{
    (void)arg;
    state("open first\nopen second\nclosed first\n");
    if (attempt == 0)
        die();
    state("closed second\n");
    return 0;
}

static int run_hopeless(const char *arg)
{
    if (strcmp(arg, "open") == 0)
        state("open default\n");
    state("hopeless the wrong number of ranks\n");
    return 1;
}

static int run_fatal(const char *arg)
{
    (void)arg;
    state("open default\nfatal no copy of rank 1 survives\n");
    hang();
    return 0;
}

/* The first attempt meets an error, and the program calls MPI_Abort therefore. */
static int run_answer(const char *arg)
{
    (void)arg;
    state("open default\n");
    if (attempt == 0) {
        state("ended 1 0\nended 1 1\nfatal no copy of rank 1 survives\n");
        MPI_Abort(MPI_COMM_WORLD, 7);
    }
    state("closed default\n");
    return 0;
}

static int run_hang(const char *arg)
{
    (void)arg;
    (void)signal(SIGUSR2, SIG_IGN); /* the library takes the signal while a context is open */
    state("open default\n");
    hang();
    return 0;
}

/* Hangs in the first attempt only. */
static int run_hangonce(const char *arg)
{
    if (attempt == 0)
        return run_hang(arg);
    return run_normal(arg);
}

static void end_badly(const char *how)
{
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "segv") == 0)
        raise(SIGSEGV);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "mpiabort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 7);
    exit(3);
}

/* HOW,WHO,WHEN: that rank, or all, ends so before or after the context is opened, or after it
 * has been closed. */
static int run_die(const char *arg)
{
    char how[16], who[16], when[16];
    if (sscanf(arg, "%15[^,],%15[^,],%15s", how, who, when) != 3)
        return 97;
    if (strcmp(when, "before") != 0)
        state("open default\n");
    if (strcmp(when, "closed") == 0)
        state("closed default\n");
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(who, "all") == 0 || atoi(who) == rank)
        end_badly(how);
    return 0;
}

/* After the context is closed: when mpirun is gone, ends with this code on the last rank, or
 * is killed by -code. */
static int run_orphan(const char *arg)
{
    pid_t parent = getppid();
    int code = rank == size - 1 ? atoi(arg) : 0;
    MPI_Barrier(MPI_COMM_WORLD); /* a context is opened by all */
    state("open default\nclosed default\n");
    MPI_Barrier(MPI_COMM_WORLD);
    fprintf(stderr, "job: pid %d\n", (int)getpid());
    while (getppid() == parent)
        usleep(1000);
    if (code < 0)
        raise(-code);
    _exit(code);
}

/* Whether the state file has this text. */
static int has_state(const char *text)
{
    char line[512];
    FILE *f = fopen(getenv("FTKIT_RUN_STATE"), "r");
    int found = 0;
    while (f && !found && fgets(line, sizeof line, f))
        found = strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return found;
}

/* mpirun's code is no verdict after a repair: the last rank ends with the argument, and is
 * made up for when mpirun has told so. */
static int run_repaired(const char *arg)
{
    state("open default\n");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1)
        _exit(atoi(arg));
    while (rank == 0 && !has_state("exited with non-zero status")
           && !has_state("terminated without sync, exit code")) /* of scripts/openmpi */
        usleep(1000);
    state("repaired 1\nclosed default\n");
    return 0;
}

/* ... but that of a process that ends after the context is closed is. */
static int run_badly(const char *arg)
{
    state("open default\nrepaired 1\nclosed default\n");
    MPI_Barrier(MPI_COMM_WORLD);
    return atoi(arg);
}

/* The last rank is killed; its neighbours exchange messages as if nothing had been. */
static int run_survive(const char *arg)
{
    const int last = size - 1;
    int peer = rank ^ 1, sum = 0;
    (void)arg;
    state("open default\n");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == last)
        raise(SIGKILL);
    for (int i = 0; peer < last && i < 200; i++) {
        int got = -1;
        if (MPI_Sendrecv(&i, 1, MPI_INT, peer, 0, &got, 1, MPI_INT, peer, 0, MPI_COMM_WORLD,
                MPI_STATUS_IGNORE)
                != MPI_SUCCESS
            || got != i)
            return 5;
        sum += got;
        usleep(1000);
    }
    if (rank == 0)
        printf("sum %d\n", sum);
    /* the report of its end may come late, so the library names the process */
    state("lost 1 %d 1 1 default\nrepaired 1\nclosed default\n", last);
    return 0;
}

static int run_hosts(const char *arg)
{
    char host[256] = "", name[MPI_MAX_PROCESSOR_NAME];
    int len;
    (void)arg;
    state("open default\nclosed default\n"); /* or its spares would be an error */
    gethostname(host, sizeof host - 1);
    MPI_Get_processor_name(name, &len);
    printf("rank %d of %d on %s = %s, node %s\n", rank, size, host, name,
        getenv("FTKIT_TOPOLOGY_RANKS_PER_NODE") ? getenv("FTKIT_TOPOLOGY_RANKS_PER_NODE") : "-");
    return 0;
}

static int run_env(const char *arg)
{
    if (rank == size - 1)
        printf("%s=%s\n", arg, getenv(arg) ? getenv(arg) : "(none)");
    return 0;
}

/* A process that leaves session and parent behind, as a daemon does. */
static int run_daemon(const char *arg)
{
    (void)arg;
    if (rank == 0 && fork() == 0) {
        setsid();
        if (fork() == 0) {
            for (int fd = 0; fd < 1024; fd++)
                close(fd); /* mpirun waits for the end of its pipes otherwise */
            execlp("sleep", "sleep", "300", (char *)NULL);
        }
        _exit(0);
    }
    return 0;
}

static const struct {
    const char *name;
    int (*run)(const char *arg);
} modes[] = {
    { "normal", run_normal },
    { "never", run_never },
    { "early", run_early },
    { "lost", run_lost },
    { "progress", run_progress },
    { "two", run_two },
    { "hopeless", run_hopeless },
    { "fatal", run_fatal },
    { "answer", run_answer },
    { "hang", run_hang },
    { "hangonce", run_hangonce },
    { "die", run_die },
    { "orphan", run_orphan },
    { "repaired", run_repaired },
    { "badly", run_badly },
    { "survive", run_survive },
    { "hosts", run_hosts },
    { "env", run_env },
    { "daemon", run_daemon },
};

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *number = getenv("FTKIT_RUN_ATTEMPT");
    int rc = 98;
    signal(SIGPIPE, SIG_IGN);
    MPI_Init(&argc, &argv);
    /* MPI_Abort() of one rank is reported to nobody under ULFM: the job would hang */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    attempt = number ? atoi(number) : -1;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(mode, modes[i].name) == 0)
            rc = modes[i].run(argc > 2 ? argv[2] : "0");
    MPI_Finalize();
    return rc;
}
