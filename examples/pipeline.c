/* pipeline: a wavefront over a grid, whose ranks save their state at different times.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Counts the ways from one corner of a grid to the opposite corner by steps down and to the
 * right.  The number of ways to a cell is that to the cell above plus that to the cell on the
 * left, modulo a prime: the dynamic programming of alignments and edit distances.  Every rank
 * owns a range of columns.  For each block of rows a rank receives the column on its left from
 * rank - 1, computes, and sends its last column to rank + 1.  So the ranks are at different
 * blocks at all times, and the loop has no barrier.
 *
 * Rank r calls ftkit_checkpoint() every 1 + r blocks.  This needs checkpoint.line = apart and
 * the message log (pipeline.ini has the first):
 *
 *     ftkit run --log -n 4 --spares 1 -- ./pipeline -c pipeline.ini
 *
 * A set then has the state of each rank at its own call, and no rank waits in a call for the
 * others.  After a failure a rank goes on from its own call, and ftkit gives it the messages
 * behind this call again.  So nothing is registered as replicated: no variable of the loop has
 * the same value on all ranks.
 *
 * The result does not depend on the number of ranks.  The last rank compares it with the
 * closed formula, a binomial coefficient. */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>

#define EXAMPLE_NAME "pipeline"
#include "example.h"

#define PRIME 2147483647 /* larger than any side of a grid: the formula needs inverses */
#define MAX_SIDE 1000000000

struct app {
    int rank, size;
    int width;        /* columns of this rank */
    int block;        /* blocks done: state of the loop, with row */
    int blocks;       /* of the grid */
    uint64_t *row;    /* [width + 1]: the last row done; the end: what is sent of it */
    uint64_t *edge;   /* [height]: a column, received and then sent */
    int n[2], height; /* rows and columns of the grid; rows of a block */
    int delay_ms;
    const char *out, *config, *pidfile;
};

/* ---- The computation ----------------------------------------------------------------- */

static int block_rows(const struct app *a, int block)
{
    return block < a->blocks - 1 ? a->height : a->n[0] - (a->blocks - 1) * a->height;
}

/* Put the column on the left into edge.  On the left of rank 0 are zeros, and the one where
 * all ways begin. */
static void receive(struct app *a, MPI_Comm comm)
{
    int rows = block_rows(a, a->block);
    if (a->rank > 0) {
        MPI_Recv(a->edge, rows, MPI_UINT64_T, a->rank - 1, 1, comm, MPI_STATUS_IGNORE);
        return;
    }
    for (int i = 0; i < rows; i++)
        a->edge[i] = a->block == 0 && i == 0;
}

/* Compute the rows of a block, and put the last column into edge. */
static void compute(struct app *a)
{
    int rows = block_rows(a, a->block);
    for (int i = 0; i < rows; i++) {
        uint64_t left = a->edge[i];
        for (int j = 0; j < a->width; j++)
            left = a->row[j] = (a->row[j] + left) % PRIME;
        a->edge[i] = a->row[a->width] = left;
    }
}

static void advance(struct app *a, MPI_Comm comm)
{
    receive(a, comm);
    compute(a);
    if (a->rank < a->size - 1)
        MPI_Send(a->edge, block_rows(a, a->block), MPI_UINT64_T, a->rank + 1, 1, comm);
}

/* base to the power of PRIME - 2, which is its inverse. */
static uint64_t inverse(uint64_t base)
{
    uint64_t result = 1;
    for (int e = PRIME - 2; e > 0; e /= 2) {
        if (e % 2 == 1)
            result = result * base % PRIME;
        base = base * base % PRIME;
    }
    return result;
}

/* The number of ways by the formula: choose the steps down among all steps. */
static uint64_t formula(const struct app *a)
{
    uint64_t down = (uint64_t)a->n[0] - 1, right = (uint64_t)a->n[1] - 1, up = 1, under = 1;
    for (uint64_t k = 1; k <= right; k++) {
        up = up * ((down + k) % PRIME) % PRIME;
        under = under * k % PRIME;
    }
    return up * inverse(under) % PRIME;
}

/* ---- The program --------------------------------------------------------------------- */

/* Returns 0, or -1 without memory. */
static int layout(struct app *a, MPI_Comm comm)
{
    MPI_Comm_rank(comm, &a->rank);
    MPI_Comm_size(comm, &a->size);
    long long n = a->n[1];
    a->width = (int)(n * (a->rank + 1) / a->size - n * a->rank / a->size);
    a->blocks = (a->n[0] - 1) / a->height + 1;
    a->row = calloc((size_t)a->width + 1, sizeof *a->row);
    a->edge = calloc((size_t)a->height, sizeof *a->edge);
    return a->row != NULL && a->edge != NULL ? 0 : -1;
}

/* The last rank has the last cell of the grid.  A rank that was replaced behind its last block
 * has it from the set, so it must be registered: it is in row. */
static int result(const struct app *a)
{
    if (a->rank < a->size - 1)
        return EXIT_SUCCESS;
    uint64_t ways = a->row[a->width], want = formula(a);
    double value = (double)ways;
    printf("pipeline: %d x %d cells, %d ranks: %" PRIu64 " ways modulo %d: %s\n", a->n[0], a->n[1],
        a->size, ways, PRIME, ways == want ? "right" : "WRONG");
    if (a->out != NULL && write_raw(a->out, &value, 1) != 0)
        return EXIT_FAILURE;
    return ways == want ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Say what a call of ftkit has returned, if it is news; 1 when the loop is over. */
static int ends(const ftkit_ctx *ft, const struct app *a, int rc)
{
    if (rc == FTKIT_ROLLED_BACK) /* each rank at a block of its own */
        printf("pipeline: rank %d goes back to block %d\n", a->rank, a->block);
    else if (hopeless(ft, rc, a->block))
        return 1;
    return rc == FTKIT_HALT; /* the job should stop: the next start continues here */
}

static int loop(ftkit_ctx *ft, struct app *a, const MPI_Comm *comm)
{
    for (;;) {
        if (a->block % (1 + a->rank) == 0) { /* the first block of every rank is 0 */
            int rc = ftkit_checkpoint(ft);
            if (ends(ft, a, rc))
                return rc == FTKIT_HALT ? EXIT_SUCCESS : EXIT_FAILURE;
        }
        note_pid(a->pidfile, a->rank, a->block);
        if (a->block >= a->blocks) {
            /* The other ranks may still need messages of this rank again. */
            int rc = ftkit_finish(ft);
            if (ends(ft, a, rc))
                return rc == FTKIT_HALT ? EXIT_SUCCESS : EXIT_FAILURE;
            if (rc == FTKIT_ROLLED_BACK)
                continue;
            return rc < 0 ? EXIT_FAILURE : result(a);
        }
        /* When a rank of this team is lost, the calls of MPI fail at once, and the numbers are
         * worthless.  The next ftkit_checkpoint() or ftkit_finish() puts that right. */
        advance(a, *comm);
        pause_ms(a->delay_ms);
        a->block++;
    }
}

static int run(ftkit_ctx *ft, struct app *a)
{
    MPI_Comm comm;
    ftkit_bind_comm(ft, &comm); /* the working ranks, now and after every repair */
    if (layout(a, comm) != 0)
        give_up("out of memory");
    if (ftkit_register(ft, "block", &a->block, 1, MPI_INT) < 0
        || ftkit_register(ft, "row", a->row, (size_t)a->width + 1, MPI_UINT64_T) < 0)
        give_up(ftkit_detail(ft));
    note_pid(a->pidfile, a->rank, 0);
    int rc = ftkit_recover(ft, NULL); /* FTKIT_NO_SET is a fresh start */
    if (rc == FTKIT_OK)
        printf("pipeline: rank %d continues at block %d\n", a->rank, a->block);
    if (rc < 0) {
        hopeless(ft, rc, a->block);
        return EXIT_FAILURE;
    }
    return loop(ft, a, &comm);
}

int main(int argc, char **argv)
{
    struct app app = { .n = { 4000, 4000 }, .height = 20 };
    const struct opt table[] = {
        { "-n", "NX[xNY]", "rows and columns of the grid (4000x4000)", 'g', app.n, 1, MAX_SIDE },
        { "-b", "ROWS", "rows of a block (20)", 'i', &app.height, 1, MAX_SIDE },
        { "-o", "FILE", "write the result: a float64", 't', &app.out, 0, 0 },
        { "-c", "CONFIG", "configuration file of ftkit", 't', &app.config, 0, 0 },
        { "-d", "MS", "sleep so long in every block", 'i', &app.delay_ms, 0, 3600000 },
        { "--pidfile", "PREFIX", "write pid and block of rank R to PREFIX.R", 't', &app.pidfile, 0,
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
    free(app.row);
    free(app.edge);
    MPI_Finalize();
    return code;
}
