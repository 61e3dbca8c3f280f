/* Two coupled programs in one job: mpirun coupled a 3 : coupled b 5.
 *
 *   coupled NAME FACTOR
 *
 * The ranks of a program have regions that those of another program do not have, and one region
 * with the same name and another type.  In each step every rank tells its number to the next rank,
 * whatever program that is, and all ranks add theirs.  At the end each rank prints a line, with the
 * variable ROLE.
 *
 *   COUPLED_DIES=NAME FILE...  for each file that is not there yet, one process of program NAME
 *                              makes the file, and dies before it opens the context
 *   COUPLED_REVERSE=1          the communicator has the ranks of MPI_COMM_WORLD from the last on
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ftkit.h"

enum { STEPS = 12, CELLS = 6, MOST = 64 };

static struct {
    const char *name;
    int64_t factor;
    MPI_Comm comm;
    int rank, nranks;
    int64_t step, sum, knob;
    int64_t cell[MOST];
    double y[3];
} code;

/* Register: program a has an array over its own ranks, the others a part of each rank's own. */
static int register_all(ftkit_ctx *ft)
{
    const size_t na = 2 * CELLS, local = CELLS, start = (size_t)code.rank % 2 * CELLS;
    int rc = ftkit_register_replicated(ft, "step", &code.step, 1, MPI_INT64_T);
    if (rc == FTKIT_OK)
        rc = ftkit_register_replicated(ft, "sum", &code.sum, 1, MPI_INT64_T);
    if (rc == FTKIT_OK && code.name[0] == 'a')
        return ftkit_register_array(ft, "x", code.cell, MPI_INT64_T, 1, &na, &local, &start, NULL);
    if (rc == FTKIT_OK)
        rc = ftkit_register_replicated(ft, "knob", &code.knob, 1, MPI_INT64_T);
    if (rc == FTKIT_OK)
        rc = ftkit_register(ft, "x", code.cell, (size_t)(CELLS + code.rank), MPI_INT64_T);
    return rc == FTKIT_OK ? ftkit_register(ft, "y", code.y, 3, MPI_DOUBLE) : rc;
}

static void begin(void)
{
    code.step = code.sum = 0;
    code.knob = code.factor;
    for (int i = 0; i < MOST; i++)
        code.cell[i] = i + code.factor;
    for (int i = 0; i < 3; i++)
        code.y[i] = (double)code.factor / (i + 1);
}

static int64_t number(void)
{
    int64_t x = 0;
    for (int i = 0; i < CELLS; i++)
        x = (x * 31 + code.cell[i]) % 1000003;
    return code.name[0] == 'a' ? x : x + (int64_t)(1000 * code.y[0]) + code.knob;
}

static void take_step(void)
{
    int64_t mine = number(), other = 0, sum = 0;
    const int next = (code.rank + 1) % code.nranks;
    const int last = (code.rank + code.nranks - 1) % code.nranks;
    int rc = MPI_Sendrecv(&mine, 1, MPI_INT64_T, next, 1, &other, 1, MPI_INT64_T, last, 1,
        code.comm, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS)
        rc = MPI_Allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, code.comm);
    if (rc != MPI_SUCCESS)
        return; /* the next ftkit_step() repairs */
    for (int i = 0; i < MOST; i++)
        code.cell[i] = (code.cell[i] * code.factor + other + i) % 1000003;
    if (code.name[0] != 'a') { /* program a has no such regions */
        code.y[0] += (double)(sum % 7);
        code.knob++;
    }
    code.sum += sum;
    code.step++;
}

/* One write, so that lines of several ranks do not mix. */
static void tell(const ftkit_info *info)
{
    char here[1024] = "", line[1536];
    const char *role = getenv("ROLE");
    if (!getcwd(here, sizeof here))
        strcpy(here, "?");
    int n = snprintf(line, sizeof line,
        "end: rank %d of %d is %s %" PRId64 " in %s, program %d of %d, %s: %" PRId64 " %" PRId64
        "\n",
        code.rank, code.nranks, code.name, code.factor, strrchr(here, '/'), info->program,
        info->nprograms, role ? role : "no role", number(), code.sum);
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        abort();
}

/* COUPLED_DIES */
static void die_early(void)
{
    const char *dies = getenv("COUPLED_DIES");
    char *text = dies ? strdup(dies) : NULL, *rest = NULL;
    char *word = text ? strtok_r(text, " ", &rest) : NULL;
    if (!word || strcmp(word, code.name) != 0) {
        free(text);
        return;
    }
    while ((word = strtok_r(NULL, " ", &rest)))
        if (open(word, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600) >= 0)
            raise(SIGKILL);
    free(text);
}

/* COUPLED_REVERSE */
static int communicator(MPI_Comm *comm)
{
    int rank = 0;
    if (!getenv("COUPLED_REVERSE")) {
        *comm = MPI_COMM_WORLD;
        return MPI_SUCCESS;
    }
    if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS)
        return MPI_ERR_OTHER;
    return MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, comm);
}

static int run(ftkit_ctx *ft)
{
    ftkit_info info = { .size = sizeof info };
    int rc = FTKIT_OK;
    while (ftkit_step(ft, &rc)) {
        if (rc < 0)
            fprintf(stderr, "coupled: rank %d: %s\n", code.rank, ftkit_detail(ft));
        if (rc == FTKIT_NO_SET)
            begin();
        if (code.step >= STEPS)
            ftkit_end(ft);
        else
            take_step();
    }
    if (rc == FTKIT_OK && ftkit_query(ft, &info) == FTKIT_OK)
        tell(&info);
    else
        fprintf(stderr, "coupled: rank %d ends with %d: %s\n", code.rank, rc, ftkit_detail(ft));
    return rc;
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft;
    ftkit_info info = { .size = sizeof info };
    MPI_Comm comm;
    if (argc < 3 || MPI_Init(&argc, &argv) != MPI_SUCCESS || communicator(&comm) != MPI_SUCCESS)
        return 2;
    code.name = argv[1];
    code.factor = atoll(argv[2]);
    die_early();
    int rc = ftkit_open(comm, NULL, &ft);
    if (rc == FTKIT_SPARE_DONE)
        return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
    if (rc != FTKIT_OK || ftkit_bind_comm(ft, &code.comm) != FTKIT_OK
        || ftkit_query(ft, &info) != FTKIT_OK)
        return 3;
    code.rank = info.rank;
    code.nranks = info.nranks;
    if (register_all(ft) != FTKIT_OK) {
        fprintf(stderr, "coupled: %s\n", ftkit_detail(ft));
        return 4;
    }
    rc = run(ft);
    const int closed = ftkit_close(&ft);
    if (MPI_Finalize() != MPI_SUCCESS)
        return 5;
    return rc == FTKIT_HALT ? 75 : rc < 0 || closed < 0 ? 1 : 0;
}
