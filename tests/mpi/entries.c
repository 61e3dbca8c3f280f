/* A loop with ftkit_step(): how each rank enters its body.
 *
 *   entries -o RESULT [MODE]
 *
 * The set-up communicates, in the body: it stands where ftkit_step() says FTKIT_NO_SET.  The work
 * of a step depends on the code with which the body was entered, as programs do that have to make
 * something again.  Each rank writes its codes to RESULT.codes.RANK; the result is the sum of all
 * ranks, by rank 0.
 *
 *   file:  rank 0 appends a line in each step to RESULT.lines
 *   wait:  ftkit_wait() in the body, whose rollback is the news of the next entry
 *   team:  no communication at FTKIT_ROLLED_BACK (with the message log)
 *   twice: after the loop ftkit_step() again, which is wrong
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/ftk.h"
#include "ftkit.h"

enum { STEPS = 30 };

struct app {
    MPI_Comm comm;
    const char *out, *mode;
    int step;
    double weight; /* of set-up, with communication: registered */
    double factor; /* not registered: made again where the body says so */
    double sum;
    FILE *lines;
    int64_t at;
};

static void note(const struct app *a, int rc)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.codes.%d", a->out, me);
    FILE *f = fopen(path, "a");
    TRUE(f != NULL);
    TRUE(fprintf(f, "%d:%d\n", a->step, rc) > 0);
    EQUAL(0, fclose(f));
}

static double sum_of(const struct app *a, double mine)
{
    double all = 0;
    (void)MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, a->comm);
    return all;
}

static int body(ftkit_ctx *ft, struct app *a, int rc)
{
    if (rc != FTKIT_OK)
        note(a, rc);
    if (rc < 0)
        fprintf(stderr, "rank %d: %s: %s\n", me, ftkit_strerror(rc), ftkit_detail(ft));
    if (rc == FTKIT_NO_SET) {
        (void)FTK_FAULT("app.setup");
        a->weight = sum_of(a, me + 1);
        (void)FTK_FAULT("app.ready");
    }
    if (rc == FTKIT_NO_SET || (rc == FTKIT_ROLLED_BACK && strcmp(a->mode, "team") != 0))
        a->factor = sum_of(a, 1) / n;
    else if (rc == FTKIT_ROLLED_BACK)
        a->factor = 1;
    if (a->step >= STEPS) {
        (void)FTK_FAULT("app.end");
        EQUAL(FTKIT_OK, ftkit_end(ft));
        return 0;
    }
    (void)FTK_FAULT("app.step");
    a->sum += a->factor * sum_of(a, (me + 1) / a->weight) * (a->step + 1);
    a->step++;
    if (a->lines) {
        TRUE(fprintf(a->lines, "%d %.12g\n", a->step, a->sum) > 0);
        EQUAL(0, fflush(a->lines));
        a->at = ftell(a->lines);
    }
    return strcmp(a->mode, "wait") == 0 && a->step % 3 == 0 ? ftkit_wait(ft) : 0;
}

static void tell(const struct app *a)
{
    if (me != 0)
        return;
    FILE *f = fopen(a->out, "w");
    TRUE(f != NULL);
    TRUE(fprintf(f, "%d steps, sum %.12g\n", a->step, a->sum) > 0);
    EQUAL(0, fclose(f));
}

int main(int argc, char **argv)
{
    struct app a = { .out = argc > 2 ? argv[2] : "out", .mode = argc > 3 ? argv[3] : "" };
    ftkit_ctx *ft;
    int rc;
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK)
        return 1;
    EQUAL(FTKIT_OK, ftkit_bind_comm(ft, &a.comm));
    MPI_Comm_rank(a.comm, &me);
    MPI_Comm_size(a.comm, &n);
    EQUAL(FTKIT_OK, ftkit_register_replicated(ft, "step", &a.step, 1, MPI_INT));
    EQUAL(FTKIT_OK, ftkit_register(ft, "weight", &a.weight, 1, MPI_DOUBLE));
    EQUAL(FTKIT_OK, ftkit_register(ft, "sum", &a.sum, 1, MPI_DOUBLE));
    if (strcmp(a.mode, "file") == 0) {
        char path[4096];
        snprintf(path, sizeof path, "%s.lines", a.out);
        a.lines = me == 0 ? fopen(path, "a") : NULL;
        EQUAL(FTKIT_OK, ftkit_register_offset(ft, "lines", me == 0 ? path : NULL, &a.at));
    }
    while (ftkit_step(ft, &rc))
        if (body(ft, &a, rc) == FTKIT_ROLLED_BACK)
            continue; /* the next step tells it */
    note(&a, rc);
    if (a.lines)
        EQUAL(0, fclose(a.lines));
    if (rc == FTKIT_OK)
        tell(&a);
    if (strcmp(a.mode, "twice") == 0) {
        int again;
        EQUAL(0, ftkit_step(ft, &again));
        EQUAL(FTKIT_ERR_STATE, again);
    }
    int closed = ftkit_close(&ft);
    MPI_Finalize();
    return rc < 0 || closed < 0;
}
