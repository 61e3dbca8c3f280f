/* Each call of VeloC with good and bad arguments: veloc_calls CONFIG
 *
 * The first run is a fresh start; the second run restarts from the checkpoint of the first one.
 * Prints "OK N" with the number of checks of rank 0, or a line for each check that fails.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <veloc.h>

#include "checks.h"

#define GOOD(call) IS(VELOC_SUCCESS, call)
#define BAD(call) IS(VELOC_FAILURE, call)

static int number = 1, other[4] = { 1, 2, 3, 4 };

static char routed[VELOC_MAX_NAME];

/* The file at this path has the text of the name; with `make` it is written. */
static void has_text(const char *name, int make)
{
    char text[64] = "";
    FILE *f = NULL;
    GOOD(VELOC_Route_file(name, routed));
    f = fopen(routed, make ? "w" : "r");
    IS(1, f != NULL);
    if (f && make)
        IS(1, fputs(name, f) >= 0);
    if (f && !make)
        IS(1, fgets(text, sizeof text, f) && strcmp(text, name) == 0);
    IS(0, f ? fclose(f) : 0);
}

static void files(void)
{
    char longest[260] = "";
    memset(longest, 'x', 256);
    BAD(VELOC_Route_file("x", routed)); /* outside of a checkpoint */
    GOOD(VELOC_Checkpoint_begin("a", 2));
    BAD(VELOC_Route_file(NULL, routed));
    BAD(VELOC_Route_file("x", NULL));
    BAD(VELOC_Route_file("", routed));
    BAD(VELOC_Route_file("..", routed));
    BAD(VELOC_Route_file(longest, routed));
    BAD(VELOC_Checkpoint_end(1)); /* no file, and no memory */
    GOOD(VELOC_Checkpoint_begin("a", 2));
    has_text("/tmp/a file", 1);
    BAD(VELOC_Checkpoint_end(rank != 1)); /* one rank says no: all do */
    GOOD(VELOC_Checkpoint_begin("a", 2));
    IS(-1, access(routed, F_OK));
    has_text("/tmp/a file", 1);
    GOOD(VELOC_Checkpoint_end(1)); /* a file alone */
    GOOD(VELOC_Checkpoint_begin("a", 3));
    IS(-1, access(routed, F_OK)); /* a checkpoint begins without the files before */
    GOOD(VELOC_Checkpoint_mem());
    has_text("x", 1);
    GOOD(VELOC_Mem_unprotect(0));
    GOOD(VELOC_Mem_protect(0, &number, 1, sizeof number));
    has_text("y", 1);
    BAD(VELOC_Checkpoint_end(1)); /* the memory was given back */
    BAD(VELOC_Route_file("x", routed));
}

static void before_init(const char *config)
{
    BAD(VELOC_Route_file("a", routed));
    BAD(VELOC_Finalize(1));
    BAD(VELOC_Mem_protect(0, &number, 1, sizeof number));
    BAD(VELOC_Mem_unprotect(0));
    BAD(VELOC_Mem_clear());
    BAD(VELOC_Checkpoint("a", 1));
    BAD(VELOC_Checkpoint_begin("a", 1));
    BAD(VELOC_Checkpoint_mem());
    BAD(VELOC_Checkpoint_end(1));
    BAD(VELOC_Checkpoint_wait());
    BAD(VELOC_Checkpoint_finished());
    BAD(VELOC_Cleanup("a"));
    BAD(VELOC_Restart_test("a", 0));
    BAD(VELOC_Restart("a", 1));
    BAD(VELOC_Restart_begin("a", 1));
    BAD(VELOC_Recover_mem());
    IS(-1, VELOC_Recover_size(0));
    BAD(VELOC_Restart_end(1));
    BAD(VELOC_Init(MPI_COMM_WORLD, NULL));
    BAD(VELOC_Init(MPI_COMM_WORLD, "/no/such/file"));
    BAD(VELOC_Init(MPI_COMM_SELF, config));
    GOOD(VELOC_Init(MPI_COMM_WORLD, config));
    BAD(VELOC_Init(MPI_COMM_WORLD, config));
}

static void memory(void)
{
    BAD(VELOC_Mem_unprotect(0));
    BAD(VELOC_Mem_protect(0, NULL, 1, sizeof number));
    BAD(VELOC_Mem_protect(0, &number, SIZE_MAX / 2, 4));
    GOOD(VELOC_Mem_protect(-5, NULL, 0, 8));
    GOOD(VELOC_Mem_protect(0, other, 4, sizeof *other));
    GOOD(VELOC_Mem_protect(0, &number, 1, sizeof number)); /* in place of the first */
    GOOD(VELOC_Mem_unprotect(-5));
    GOOD(VELOC_Mem_protect(7, &number, 1, sizeof number));
    GOOD(VELOC_Mem_clear());
    BAD(VELOC_Mem_unprotect(7));
}

static void names(void)
{
    char longest[80] = "";
    memset(longest, 'x', 64);
    BAD(VELOC_Checkpoint_begin(NULL, 1));
    BAD(VELOC_Checkpoint_begin("", 1));
    BAD(VELOC_Checkpoint_begin("a/b", 1));
    BAD(VELOC_Checkpoint_begin(longest, 1));
    BAD(VELOC_Checkpoint_begin("a", -1));
    BAD(VELOC_Restart_test("a b", 0));
    BAD(VELOC_Restart_test("a", -1));
    BAD(VELOC_Cleanup("a-b"));
}

static void fresh(void)
{
    int ids[] = { 0 };
    BAD(VELOC_Restart("a", 1));
    BAD(VELOC_Recover_mem());
    BAD(VELOC_Restart_end(1));
    IS(-1, VELOC_Recover_size(0));
    GOOD(VELOC_Checkpoint_wait()); /* nothing to wait for */
    BAD(VELOC_Checkpoint("a", 1)); /* nothing is protected */
    GOOD(VELOC_Mem_protect(0, &number, 1, sizeof number));
    BAD(VELOC_Checkpoint_mem());
    BAD(VELOC_Checkpoint_end(1));
    GOOD(VELOC_Checkpoint_begin("a", 1));
    BAD(VELOC_Checkpoint_begin("a", 2));
    BAD(VELOC_Restart_begin("a", 1));
    BAD(VELOC_Checkpoint_wait());
    BAD(VELOC_Checkpoint_finished());
    BAD(VELOC_Checkpoint_selective(9, NULL, 0));
    BAD(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, NULL, 1));
    BAD(VELOC_Checkpoint_end(1)); /* nothing is chosen */
    GOOD(VELOC_Checkpoint_begin("a", 1));
    GOOD(VELOC_Checkpoint_mem());
    BAD(VELOC_Checkpoint_end(rank != 1)); /* one rank says no: all do */
    GOOD(VELOC_Checkpoint_begin("a", 1));
    GOOD(VELOC_Checkpoint_mem());
    GOOD(VELOC_Mem_unprotect(0));
    GOOD(VELOC_Mem_protect(0, &number, 1, sizeof number));
    BAD(VELOC_Checkpoint_end(1)); /* the memory was given back */
    GOOD(VELOC_Checkpoint("a", 1));
    BAD(VELOC_Checkpoint("a", 1)); /* not above */
    BAD(VELOC_Checkpoint("b", 2)); /* two names */
    files();
    BAD(VELOC_Restart_test("a", 0));                            /* only at the start */
    GOOD(VELOC_Mem_protect(1 + rank, other, 4, sizeof *other)); /* another id on each rank */
    GOOD(VELOC_Mem_protect(5, &number, 1, sizeof number));
    GOOD(VELOC_Checkpoint_begin("a", 9));
    GOOD(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, ids, 1));
    ids[0] = 5;
    GOOD(VELOC_Checkpoint_selective(VELOC_CKPT_REST, ids, 1)); /* the last choice counts */
    number = 42;
    has_text("sub/one", 1);
    has_text("sub%2Fone", 1);                                   /* another one */
    GOOD(VELOC_Mem_protect(1 + rank, other, 4, sizeof *other)); /* the choice holds */
    GOOD(VELOC_Mem_protect(6, other, 4, sizeof *other));        /* too late for this one */
    GOOD(VELOC_Checkpoint_end(1));
    GOOD(VELOC_Checkpoint_wait());
    GOOD(VELOC_Checkpoint_finished());
    GOOD(VELOC_Cleanup("a"));
}

static void again(void)
{
    int ids[] = { 0 }, small = 0, got[6] = { 0 };
    BAD(VELOC_Restart_test("b", 0));
    BAD(VELOC_Restart_test("a", 9)); /* 9 is not below 9 */
    IS(9, VELOC_Restart_test("a", 10));
    BAD(VELOC_Restart("a", 8));
    BAD(VELOC_Restart("b", 9));
    BAD(VELOC_Restart("a", 9)); /* nothing is protected */
    GOOD(VELOC_Restart_begin("a", 9));
    BAD(VELOC_Restart_begin("a", 9));
    BAD(VELOC_Checkpoint_begin("a", 10));
    has_text("sub/one", 0);
    has_text("sub%2Fone", 0);
    GOOD(VELOC_Route_file("none", routed));
    IS(-1, access(routed, F_OK));
    IS((int)sizeof number, VELOC_Recover_size(0));
    IS((int)sizeof other, VELOC_Recover_size(1 + rank));
    IS(-1, VELOC_Recover_size(5)); /* it was left out */
    IS(-1, VELOC_Recover_size(6));
    IS(-1, VELOC_Recover_size(2 - rank)); /* of another rank */
    BAD(VELOC_Recover_mem());             /* not protected */
    GOOD(VELOC_Mem_protect(0, &number, 1, sizeof number));
    GOOD(VELOC_Mem_protect(1 + rank, &small, 1, sizeof small));
    BAD(VELOC_Recover_mem()); /* too small, so nothing is restored */
    IS(1, number);
    BAD(VELOC_Recover_selective(-1, NULL, 0));
    BAD(VELOC_Recover_selective(VELOC_RECOVER_REST, NULL, 1));
    BAD(VELOC_Recover_selective(VELOC_RECOVER_SOME, ids, -1));
    GOOD(VELOC_Recover_selective(VELOC_RECOVER_SOME, ids, 1));
    IS(42, number);
    GOOD(VELOC_Mem_protect(1 + rank, got, 6, sizeof *got)); /* larger than the checkpoint */
    GOOD(VELOC_Recover_selective(VELOC_RECOVER_REST, ids, 1));
    IS(0, memcmp(got, other, sizeof other));
    BAD(VELOC_Restart_end(0));
    BAD(VELOC_Restart_end(1));
    IS(9, VELOC_Restart_test("a", 0)); /* a second restart is possible */
    GOOD(VELOC_Restart("a", 9));
    BAD(VELOC_Checkpoint("a", 8));
    GOOD(VELOC_Checkpoint("a", 9)); /* back in the call that wrote it */
    BAD(VELOC_Checkpoint("a", 9));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 1);
    before_init(argv[1]);
    memory();
    names();
    const int version = VELOC_Restart_test("a", 0);
    if (version < 0)
        fresh();
    else
        again();
    GOOD(VELOC_Finalize(0));
    BAD(VELOC_Finalize(0));
    BAD(VELOC_Mem_protect(0, &number, 1, sizeof number));
    BAD(VELOC_Init(MPI_COMM_WORLD, argv[1]));
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && failed == 0)
        printf("OK %s %d\n", version < 0 ? "fresh" : "again", checks);
    MPI_Finalize();
    return failed > 0;
}
