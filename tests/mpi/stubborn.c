/* A library that ignores errors of MPI, in the body of ftkit_escape().
 *
 *   stubborn -o RESULT [MODE]
 *
 * Its functions repeat a call until it succeeds, so without ftkit_escape() a rank that has to roll
 * back never comes out of them.  The result is a number of rank 0.
 *
 *   inside:  the body also calls ftkit_wait() and a second ftkit_escape()
 *   return:  the function that should leave returns, and the library checks ftkit_failed()
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/ftk.h"
#include "ftkit.h"

enum { STEPS = 40 };

struct app {
    ftkit_ctx *ft;
    MPI_Comm comm;
    const char *mode;
    int step, returned;
    double sum;
    MPI_Request request; /* never of the stack of body */
    double from, to;
};

static int hopeless(const struct app *a)
{
    return strcmp(a->mode, "return") == 0 && ftkit_failed(a->ft);
}

/* ---- the library --------------------------------------------------------------------- */

static double lib_sum(struct app *a, double mine)
{
    double all = 0;
    while (
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, a->comm) != MPI_SUCCESS && !hopeless(a))
        ;
    return all;
}

/* Send to the next rank, receive from the one before, and test until the message is there. */
static double lib_shift(struct app *a, double mine)
{
    int done = 0;
    a->to = mine;
    a->from = 0;
    (void)MPI_Irecv(&a->from, 1, MPI_DOUBLE, (me + n - 1) % n, 5, a->comm, &a->request);
    (void)MPI_Send(&a->to, 1, MPI_DOUBLE, (me + 1) % n, 5, a->comm);
    while (
        (MPI_Test(&a->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done) && !hopeless(a))
        ;
    return a->from;
}

/* ---- the program --------------------------------------------------------------------- */

static void one_step(void *arg)
{
    struct app *a = arg;
    (void)FTK_FAULT("app.step");
    a->sum += lib_sum(a, me + a->step);
    (void)FTK_FAULT("app.mid");
    a->sum += lib_shift(a, me * (a->step + 1.0));
    if (strcmp(a->mode, "inside") == 0) {
        EQUAL(FTKIT_ERR_STATE, ftkit_escape(a->ft, one_step, a, NULL));
        if (a->step % 3 == 0 && ftkit_wait(a->ft) == FTKIT_ROLLED_BACK)
            return;
    }
    a->step++;
}

static void stays(void *arg)
{
    ((struct app *)arg)->returned++;
}

static void tell(const struct app *a, const char *out)
{
    FILE *f = me == 0 ? fopen(out, "w") : NULL;
    if (me != 0)
        return;
    TRUE(f != NULL);
    TRUE(fprintf(f, "%d steps, sum %.12g\n", a->step, a->sum) > 0);
    EQUAL(0, fclose(f));
}

int main(int argc, char **argv)
{
    struct app a = { .mode = argc > 3 ? argv[3] : "", .request = MPI_REQUEST_NULL };
    int rc, escapes = 0;
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &a.ft) != FTKIT_OK)
        return 1;
    EQUAL(FTKIT_OK, ftkit_bind_comm(a.ft, &a.comm));
    MPI_Comm_rank(a.comm, &me);
    MPI_Comm_size(a.comm, &n);
    EQUAL(FTKIT_OK, ftkit_register_replicated(a.ft, "step", &a.step, 1, MPI_INT));
    EQUAL(FTKIT_OK, ftkit_register(a.ft, "sum", &a.sum, 1, MPI_DOUBLE));
    EQUAL(FTKIT_ERR_STATE, ftkit_escape(a.ft, one_step, &a, NULL));
    while (ftkit_step(a.ft, &rc)) {
        if (rc == FTKIT_ROLLED_BACK || rc == FTKIT_NO_SET)
            a.request = MPI_REQUEST_NULL;
        if (a.step >= STEPS) {
            EQUAL(FTKIT_OK, ftkit_end(a.ft));
            continue;
        }
        int left = ftkit_escape(a.ft, one_step, &a, strcmp(a.mode, "return") == 0 ? stays : NULL);
        TRUE(left == FTKIT_OK || left == FTKIT_ESCAPED);
        escapes += left == FTKIT_ESCAPED;
    }
    fprintf(stderr, "rank %d: left %d times, stayed %s\n", me, escapes,
        a.returned > 0 ? "too" : "never");
    if (rc == FTKIT_OK)
        tell(&a, argc > 2 ? argv[2] : "out");
    int closed = ftkit_close(&a.ft);
    MPI_Finalize();
    return rc < 0 || closed < 0;
}
