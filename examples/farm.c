/* farm: a master hands out tasks; master and workers save their state at different times.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Integrates 4 / (1 + x^2) from 0 to 1, which is pi.  A task is one of many slices; some take
 * longer than others.  Rank 0 receives answers from any worker (MPI_ANY_SOURCE) and replies
 * with the next task.  Who computes what differs from run to run.  The values are added in the
 * order of the tasks, so the result is always the same to the last bit.
 *
 * The master calls ftkit_checkpoint() after every fourth message.  A worker calls it after
 * every task if its rank is odd, and otherwise after every third.  This needs
 * checkpoint.line = apart and the message log (farm.ini has the first):
 *
 *     ftkit run --log -n 4 --spares 1 -- ./farm -c farm.ini
 *
 * A set then has the state of each rank at its own call, and no rank waits in a call for the
 * others.  After a failure a rank goes on from its own call.  ftkit gives the rank the messages
 * behind this call again, and a master the answers in the order in which they first came.  So
 * the master keeps no list of tasks that are under way, and hands out no task twice. */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>

#define EXAMPLE_NAME "farm"
#include "example.h"

#define PI 3.14159265358979323846
#define NO_TASK (-1) /* in an answer: none yet; in a reply: there are no more */
#define POINTS 20000 /* of a long task */

enum { TAG_ANSWER = 1, TAG_TASK };

struct answer {
    double task, value;
};

struct app {
    int rank, size;
    int tasks, delay_ms;
    const char *out, *config, *pidfile;

    /* State of the loop.  All of it is registered. */
    int steps;            /* messages received (master) or tasks done (worker) */
    int next;             /* master: the next task to hand out */
    int stopped;          /* master: workers that have no more tasks; worker: 1 at its end */
    double *value;        /* [tasks]: values of the tasks; master only */
    struct answer answer; /* worker: what it sends next */
};

/* ---- Master and workers -------------------------------------------------------------- */

/* Receive one answer, and reply with a task.  Returns 0, or -1 after a failure. */
static int serve(struct app *a, MPI_Comm comm)
{
    struct answer in;
    MPI_Status st;
    /* After the loss of a rank of this team a receive returns an error, and there is no sender to
     * reply to. */
    if (MPI_Recv(&in, 2, MPI_DOUBLE, MPI_ANY_SOURCE, TAG_ANSWER, comm, &st) != MPI_SUCCESS)
        return -1;
    if (in.task >= 0)
        a->value[(int)in.task] = in.value;
    int task = a->next < a->tasks ? a->next++ : NO_TASK;
    a->stopped += task == NO_TASK;
    a->steps++;
    return MPI_Send(&task, 1, MPI_INT, st.MPI_SOURCE, TAG_TASK, comm) == MPI_SUCCESS ? 0 : -1;
}

/* The integral over slice number task, by the midpoint rule. */
static double integrate(int task, int tasks)
{
    int points = POINTS / (1 + task % 5);
    double sum = 0, width = 1.0 / tasks / points;
    for (int i = 0; i < points; i++) {
        double x = (double)task / tasks + (i + 0.5) * width;
        sum += 4 / (1 + x * x);
    }
    return sum * width;
}

/* Send the answer, and do the task that comes back.  Returns 0, or -1 after a failure. */
static int work(struct app *a, MPI_Comm comm)
{
    int task;
    if (MPI_Send(&a->answer, 2, MPI_DOUBLE, 0, TAG_ANSWER, comm) != MPI_SUCCESS
        || MPI_Recv(&task, 1, MPI_INT, 0, TAG_TASK, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return -1;
    if (task == NO_TASK) {
        a->stopped = 1;
        return 0;
    }
    a->answer.task = task;
    a->answer.value = integrate(task, a->tasks);
    pause_ms(a->delay_ms);
    a->steps++;
    return 0;
}

/* Whether this rank should call ftkit_checkpoint() now. */
static int calls_now(const struct app *a)
{
    if (a->rank == 0)
        return a->steps % 4 == 0;
    return a->rank % 2 == 1 || a->steps % 3 == 0;
}

static int is_over(const struct app *a)
{
    return a->rank == 0 ? a->stopped == a->size - 1 : a->stopped;
}

/* ---- The program --------------------------------------------------------------------- */

static int result(const struct app *a)
{
    double sum = 0;
    if (a->rank != 0)
        return EXIT_SUCCESS;
    for (int i = 0; i < a->tasks; i++)
        sum += a->value[i];
    int right = fabs(sum - PI) < 1e-8; /* a missing task is more than that */
    printf("farm: %d tasks, %d workers: %.15f: %s\n", a->tasks, a->size - 1, sum,
        right ? "right" : "WRONG");
    if (a->out != NULL && write_raw(a->out, a->value, (size_t)a->tasks) != 0)
        return EXIT_FAILURE;
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Say what a call of ftkit has returned, if it is news; 1 when the loop is over. */
static int ends(const ftkit_ctx *ft, const struct app *a, int rc)
{
    if (rc == FTKIT_ROLLED_BACK) /* each rank at a step of its own */
        printf("farm: rank %d goes back to step %d\n", a->rank, a->steps);
    else if (hopeless(ft, rc, a->steps))
        return 1;
    return rc == FTKIT_HALT; /* the job should stop: the next start continues here */
}

static int loop(ftkit_ctx *ft, struct app *a, const MPI_Comm *comm)
{
    for (int failed = 0;;) {
        /* After a failure the calls of MPI fail until ftkit_checkpoint() is called: so it is
         * called then, too. */
        if (failed || calls_now(a)) {
            int rc = ftkit_checkpoint(ft);
            if (ends(ft, a, rc))
                return rc == FTKIT_HALT ? EXIT_SUCCESS : EXIT_FAILURE;
        }
        note_pid(a->pidfile, a->rank, a->steps);
        if (is_over(a)) {
            int rc = ftkit_finish(ft);
            if (ends(ft, a, rc))
                return rc == FTKIT_HALT ? EXIT_SUCCESS : EXIT_FAILURE;
            if (rc == FTKIT_ROLLED_BACK)
                continue;
            return rc < 0 ? EXIT_FAILURE : result(a);
        }
        failed = (a->rank == 0 ? serve(a, *comm) : work(a, *comm)) != 0;
    }
}

/* What each rank needs to go on from its own call.  Returns 0, or -1. */
static int register_state(ftkit_ctx *ft, struct app *a)
{
    size_t values = a->rank == 0 ? (size_t)a->tasks : 0;
    a->answer.task = NO_TASK;
    if ((a->value = calloc(values + 1, sizeof *a->value)) == NULL)
        return -1;
    return ftkit_register(ft, "steps", &a->steps, 1, MPI_INT) < 0
                   || ftkit_register(ft, "next", &a->next, 1, MPI_INT) < 0
                   || ftkit_register(ft, "stopped", &a->stopped, 1, MPI_INT) < 0
                   || ftkit_register(ft, "answer", &a->answer, 2, MPI_DOUBLE) < 0
                   || ftkit_register(ft, "value", a->value, values + 1, MPI_DOUBLE) < 0
               ? -1
               : 0;
}

static int run(ftkit_ctx *ft, struct app *a)
{
    MPI_Comm comm;
    ftkit_bind_comm(ft, &comm); /* the working ranks, now and after every repair */
    MPI_Comm_rank(comm, &a->rank);
    MPI_Comm_size(comm, &a->size);
    if (a->size < 2)
        give_up("needs two ranks: a master and a worker");
    if (register_state(ft, a) != 0)
        give_up(*ftkit_detail(ft) ? ftkit_detail(ft) : "out of memory");
    note_pid(a->pidfile, a->rank, 0);
    int rc = ftkit_recover(ft, NULL); /* FTKIT_NO_SET is a fresh start */
    if (rc == FTKIT_OK)
        printf("farm: rank %d continues at step %d\n", a->rank, a->steps);
    if (rc < 0) {
        hopeless(ft, rc, a->steps);
        return EXIT_FAILURE;
    }
    return loop(ft, a, &comm);
}

int main(int argc, char **argv)
{
    struct app app = { .tasks = 1000 };
    const struct opt table[] = {
        { "-n", "TASKS", "slices of the integral (1000)", 'i', &app.tasks, 1, 1000000 },
        { "-o", "FILE", "write the values of the tasks: float64", 't', &app.out, 0, 0 },
        { "-c", "CONFIG", "configuration file of ftkit", 't', &app.config, 0, 0 },
        { "-d", "MS", "sleep so long in every task", 'i', &app.delay_ms, 0, 3600000 },
        { "--pidfile", "PREFIX", "write pid and step of rank R to PREFIX.R", 't', &app.pidfile, 0,
            0 },
        { NULL, NULL, NULL, 0, NULL, 0, 0 },
    };
    char err[4200] = "";
    ftkit_ctx *ft;

    MPI_Init(&argc, &argv);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* so that a death loses no complete line */
    int rc = options_parse(table, argc, argv, err, sizeof err);
    int code = ready(rc, table, app.out, err, sizeof err);
    if (code < 0) {
        rc = ftkit_open(MPI_COMM_WORLD, app.config, &ft); /* spares wait in here */
        if (rc == FTKIT_OK) {
            code = run(ft, &app);
            rc = ftkit_close(&ft);
        }
        code = exit_code(rc, code);
    }
    free(app.value);
    MPI_Finalize();
    return code;
}
