/* files: a solver that saves itself by restart files of its own, as most old codes do.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Waves on a closed string: u_tt = u_xx, a ring of points that are divided over the ranks.  The
 * program has two functions that were written without ftkit in mind: write_restart() makes a text
 * file with the step and a binary file with two fields in some directory, and read_restart() reads
 * them.  These files are the only region besides the step.  ftkit gives write_restart() a directory
 * in memory, takes the files into the set, and lays them out again for read_restart() after a
 * failure, or in the next start.
 *
 *     ftkit run -n 4 --spares 1 -- ./files -s 2000 -d 5
 *
 * docs/files.md describes files, also for functions that communicate. */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>

#define EXAMPLE_NAME "files"
#include "example.h"

#define PI 3.14159265358979323846
#define COURANT 0.8 /* time step, in cells */

struct app {
    int points, steps, delay_ms;
    const char *out, *config, *pidfile;
    int rank, size, count;
    int step;
    double *now, *before; /* [count + 2]: this rank's points, with one ghost point at each end */
    double *all;          /* [points]: the result, on rank 0 */
};

/* ---- The old program: knows nothing of ftkit ----------------------------------------- */

static int write_restart(const struct app *a, const char *dir)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/restart.txt", dir);
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return -1;
    int ok = fprintf(f, "step %d\npoints %d\n", a->step, a->count) > 0;
    ok &= fclose(f) == 0;
    snprintf(path, sizeof path, "%s/fields.bin", dir);
    f = fopen(path, "wb");
    if (f == NULL)
        return -1;
    const size_t n = (size_t)a->count;
    ok &= fwrite(a->now + 1, sizeof(double), n, f) == n;
    ok &= fwrite(a->before + 1, sizeof(double), n, f) == n;
    return fclose(f) == 0 && ok ? 0 : -1;
}

static int read_restart(struct app *a, const char *dir)
{
    char path[PATH_MAX];
    int count = 0;
    snprintf(path, sizeof path, "%s/restart.txt", dir);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return -1;
    int ok = fscanf(f, "step %d\npoints %d", &a->step, &count) == 2 && count == a->count;
    fclose(f);
    snprintf(path, sizeof path, "%s/fields.bin", dir);
    f = fopen(path, "rb");
    if (f == NULL)
        return -1;
    const size_t n = (size_t)a->count;
    ok = ok && fread(a->now + 1, sizeof(double), n, f) == n
         && fread(a->before + 1, sizeof(double), n, f) == n;
    fclose(f);
    return ok ? 0 : -1;
}

/* ---- The solver ---------------------------------------------------------------------- */

static void advance(struct app *a, MPI_Comm comm)
{
    const int left = (a->rank + a->size - 1) % a->size, right = (a->rank + 1) % a->size;
    double *u = a->now, *old = a->before;
    MPI_Sendrecv(&u[1], 1, MPI_DOUBLE, left, 0, &u[a->count + 1], 1, MPI_DOUBLE, right, 0, comm,
        MPI_STATUS_IGNORE);
    MPI_Sendrecv(&u[a->count], 1, MPI_DOUBLE, right, 1, &u[0], 1, MPI_DOUBLE, left, 1, comm,
        MPI_STATUS_IGNORE);
    for (int i = 1; i <= a->count; i++)
        old[i] = 2 * u[i] - old[i] + COURANT * COURANT * (u[i - 1] - 2 * u[i] + u[i + 1]);
    a->now = old;
    a->before = u;
    a->step++;
}

static void start(struct app *a)
{
    a->step = 0;
    for (int i = 1; i <= a->count; i++) {
        double x = (double)(a->rank * a->count + i - 1) / a->points;
        a->now[i] = a->before[i] = sin(2 * PI * x) + (x > 0.4 && x < 0.6);
    }
}

/* ---- The program --------------------------------------------------------------------- */

static int write_files(void *arg, const char *dir)
{
    return write_restart(arg, dir);
}

static int read_files(void *arg, const char *dir)
{
    return read_restart(arg, dir);
}

static int result(const struct app *a)
{
    double energy = 0;
    if (a->rank != 0)
        return EXIT_SUCCESS;
    for (int i = 0; i < a->points; i++)
        energy += a->all[i] * a->all[i];
    printf("files: %d points, %d ranks, %d steps: mean square %.15g\n", a->points, a->size, a->step,
        energy / a->points);
    if (a->out != NULL && write_raw(a->out, a->all, (size_t)a->points) != 0)
        return EXIT_FAILURE;
    return EXIT_SUCCESS;
}

static int run(ftkit_ctx *ft, struct app *a)
{
    const ftkit_files ops = { sizeof ops, write_files, read_files };
    MPI_Comm comm;
    int rc;
    ftkit_bind_comm(ft, &comm); /* the working ranks, now and after every repair */
    MPI_Comm_rank(comm, &a->rank);
    MPI_Comm_size(comm, &a->size);
    a->count = a->points / a->size;
    a->points = a->count * a->size;
    a->now = calloc((size_t)a->count + 2, sizeof(double));
    a->before = calloc((size_t)a->count + 2, sizeof(double));
    a->all = calloc((size_t)a->points + 1, sizeof(double));
    if (!a->now || !a->before || !a->all)
        give_up("no memory");
    if (ftkit_register_replicated(ft, "step", &a->step, 1, MPI_INT) < 0
        || ftkit_register_files(ft, "restart", &ops, a) < 0)
        give_up(ftkit_detail(ft));
    start(a);

    while (ftkit_step(ft, &rc)) { /* calls write_files() and read_files() */
        say(ft, rc, a->step);
        note_pid(a->pidfile, a->rank, a->step);
        if (a->step >= a->steps) {
            MPI_Gather(a->now + 1, a->count, MPI_DOUBLE, a->all, a->count, MPI_DOUBLE, 0, comm);
            ftkit_end(ft);
            continue; /* if another rank is lost now, this one returns to an earlier step */
        }
        advance(a, comm);
        pause_ms(a->delay_ms);
    }
    if (rc == FTKIT_OK)
        return result(a);
    say(ft, rc, a->step);
    return rc == FTKIT_HALT ? EXIT_SUCCESS : EXIT_FAILURE; /* the next start continues here */
}

int main(int argc, char **argv)
{
    struct app app = { .points = 40000, .steps = 500 };
    const struct opt table[] = {
        { "-n", "N", "points of the string (40000)", 'i', &app.points, 1000, INT_MAX },
        { "-s", "STEPS", "number of steps (500)", 'i', &app.steps, 1, INT_MAX },
        { "-o", "FILE", "write the result: float64", 't', &app.out, 0, 0 },
        { "-c", "CONFIG", "configuration file of ftkit", 't', &app.config, 0, 0 },
        { "-d", "MS", "sleep so long in every step", 'i', &app.delay_ms, 0, 3600000 },
        { "--pidfile", "PREFIX", "write pid and step of rank R to PREFIX.R", 't', &app.pidfile, 0,
            0 },
        { NULL, NULL, NULL, 0, NULL, 0, 0 },
    };
    char err[4200] = "";
    ftkit_ctx *ft;

    MPI_Init(&argc, &argv);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* so that a death loses no complete line */
    int code =
        ready(options_parse(table, argc, argv, err, sizeof err), table, app.out, err, sizeof err);
    if (code < 0) {
        int rc = ftkit_open(MPI_COMM_WORLD, app.config, &ft); /* spares wait in here */
        if (rc == FTKIT_OK) {
            code = run(ft, &app);
            rc = ftkit_close(&ft);
        }
        code = exit_code(rc, code);
    }
    free(app.now);
    free(app.before);
    free(app.all);
    MPI_Finalize();
    return code;
}
