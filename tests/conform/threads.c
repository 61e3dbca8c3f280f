/* ranks: 2
 * levels: single funneled serialized multiple
 *
 * The level of thread support is what MPI_Init_thread has given (MPI 4.0, 11.2.1), before and
 * after ftkit_open(), with the log and without.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"
#include <string.h>

#include "ftkit.h"

static int level_of(const char *name)
{
    const char *const names[] = { "single", "funneled", "serialized", "multiple" };
    const int levels[] = { MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
        MPI_THREAD_MULTIPLE };
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0)
            return levels[i];
    return MPI_THREAD_SERIALIZED;
}

int main(int argc, char **argv)
{
    const char *name = getenv("CONFORM_LEVEL");
    int asked = level_of(name ? name : ""), provided = -1, level = -1;
    ftkit_ctx *ft = NULL;
    OK(MPI_Init_thread(&argc, &argv, asked, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n));
    OK(MPI_Query_thread(&level));
    EQUAL(provided, level);
    int rc = ftkit_open(MPI_COMM_WORLD, NULL, &ft);
    EQUAL(FTKIT_OK, rc);
    OK(MPI_Query_thread(&level));
    EQUAL(provided, level);
    if (rc == FTKIT_OK) {
        TRUE(ftkit_recover(ft, NULL) >= 0);
        TRUE(ftkit_checkpoint(ft) >= 0);
        EQUAL(FTKIT_OK, ftkit_finish(ft));
        EQUAL(FTKIT_OK, ftkit_close(&ft));
    }
    OK(MPI_Query_thread(&level));
    EQUAL(provided, level);
    if (me == 0)
        printf("OK %ld\n", checks);
    OK(MPI_Finalize());
    return 0;
}
