/* Each call of SCR with good and bad arguments: scr_calls CONFIG
 *
 * The first run is a fresh start; the second run restarts from the checkpoint of the first one.
 * Prints "OK N" with the number of checks of rank 0, or a line for each check that fails.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <scr.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"

#define GOOD(call) IS(SCR_SUCCESS, call)
#define BAD(call) IS(1, (call) != SCR_SUCCESS)
#define SAME(want, text) IS(1, is_same(want, text))

static int is_same(const char *want, const char *text)
{
    return text && strcmp(want, text) == 0;
}

static char prefix[SCR_MAX_FILENAME], name[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME];

/* The path of a file below the prefix. */
static const char *below(const char *file)
{
    static char text[2 * SCR_MAX_FILENAME];
    snprintf(text, sizeof text, "%s/%s", prefix, file);
    return text;
}

static int write_to(const char *file)
{
    FILE *f = fopen(file, "w");
    return f && fprintf(f, "rank %d\n", rank) > 0 && fclose(f) == 0;
}

static int reads(const char *file)
{
    char text[64] = "", want[64];
    FILE *f = fopen(file, "r");
    snprintf(want, sizeof want, "rank %d\n", rank);
    return f && fgets(text, sizeof text, f) && fclose(f) == 0 && strcmp(text, want) == 0;
}

static void before_init(void)
{
    int flag = 7;
    BAD(SCR_Finalize());
    BAD(SCR_Need_checkpoint(&flag));
    BAD(SCR_Should_exit(&flag));
    BAD(SCR_Start_output("a", SCR_FLAG_CHECKPOINT));
    BAD(SCR_Start_checkpoint());
    BAD(SCR_Route_file("a", path));
    BAD(SCR_Complete_output(1));
    BAD(SCR_Have_restart(&flag, name));
    BAD(SCR_Start_restart(name));
    BAD(SCR_Complete_restart(1));
    IS(7, flag);
    IS(1, SCR_Config(NULL) == NULL);
    IS(1, SCR_Config("SCR_CHECKPOINT_SECONDS") == NULL);
    SAME("3", SCR_Config("SCR_CHECKPOINT_INTERVAL=3")); /* before the file, which says 5 */
    SAME("3", SCR_Config("SCR_CHECKPOINT_INTERVAL"));
    IS(1, SCR_Config("SCR_CHECKPOINT_INTERVAL=-1") == NULL);
    SAME("3", SCR_Config("SCR_CHECKPOINT_INTERVAL"));
    IS(1, SCR_Config("SCR_CHECKPOINT_INTERVAL=") == NULL);
    SAME("3", SCR_Configf("SCR_CHECKPOINT_%s=%d", "INTERVAL", 3));
    SAME(getenv("SCR_PREFIX"), SCR_Config("SCR_PREFIX=/tmp")); /* the environment comes first */
    IS(1, SCR_Config("SCR_COPY_TYPE=XOR") == NULL);            /* the context is open */
    IS(1, SCR_Config("SCR_NOTHING=1") == NULL);
    IS(1, SCR_Config("DEBUG") == NULL);
    IS(0, strncmp(SCR_Get_version(), "v3", 2));
    GOOD(SCR_Init());
    BAD(SCR_Init());
    BAD(SCR_Current("a"));
    BAD(SCR_Drop("a"));
    BAD(SCR_Delete("a"));
    IS(1, SCR_Config("SCR_CHECKPOINT_INTERVAL=4") == NULL);
}

static void outside(void)
{
    int flag = 7;
    char longest[SCR_MAX_FILENAME + 1];
    memset(longest, 'x', SCR_MAX_FILENAME);
    longest[SCR_MAX_FILENAME] = '\0';
    GOOD(SCR_Route_file("some/file", path)); /* of no dataset: it stays where it is */
    SAME("some/file", path);
    BAD(SCR_Route_file(NULL, path));
    BAD(SCR_Route_file("a", NULL));
    BAD(SCR_Route_file(longest, path));
    BAD(SCR_Need_checkpoint(NULL));
    BAD(SCR_Should_exit(NULL));
    GOOD(SCR_Should_exit(&flag));
    IS(0, flag);
    BAD(SCR_Have_restart(NULL, name));
    BAD(SCR_Complete_restart(1));
    BAD(SCR_Complete_output(1));
    BAD(SCR_Start_output(NULL, SCR_FLAG_CHECKPOINT));
    BAD(SCR_Start_output("", SCR_FLAG_CHECKPOINT));
    BAD(SCR_Start_output(longest, SCR_FLAG_CHECKPOINT));
    BAD(SCR_Start_output("a", SCR_FLAG_NONE));
    BAD(SCR_Start_output("a", 4 | SCR_FLAG_CHECKPOINT));
    for (int i = 1; i <= 6; i++) {
        MPI_Barrier(MPI_COMM_WORLD); /* a step of a program */
        GOOD(SCR_Need_checkpoint(&flag));
        IS(i % 3 == 0, flag);
    }
}

static void routes(void)
{
    BAD(SCR_Route_file("", path));
    BAD(SCR_Route_file("/", path));
    BAD(SCR_Route_file("/tmp/elsewhere", path));
    BAD(SCR_Route_file(prefix, path));
    BAD(SCR_Route_file(below("../other"), path));
    BAD(SCR_Route_file(below("dir/"), path));
    GOOD(SCR_Route_file(below("a/.././b//c"), path));
    const size_t n = strlen(path);
    IS(1, n > 4 && strcmp(path + n - 4, "/b/c") == 0);
    IS(1, write_to(path)); /* its directories are there */
    IS(0, unlink(path));
}

static void fresh(void)
{
    int flag = 7;
    GOOD(SCR_Have_restart(&flag, name));
    IS(0, flag);
    BAD(SCR_Start_restart(name));
    GOOD(SCR_Start_output("first", SCR_FLAG_CHECKPOINT));
    BAD(SCR_Start_output("second", SCR_FLAG_CHECKPOINT));
    BAD(SCR_Start_restart(name));
    BAD(SCR_Finalize());
    routes();
    BAD(SCR_Complete_output(rank != 1)); /* one rank says no: all do */
    GOOD(SCR_Start_output("output", SCR_FLAG_OUTPUT));
    GOOD(SCR_Route_file(below(rank ? "out/one" : "out/zero"), path));
    SAME(below(rank ? "out/one" : "out/zero"), path);
    IS(1, write_to(path));
    BAD(SCR_Complete_output(rank != 1));
    GOOD(SCR_Start_output("output", SCR_FLAG_OUTPUT));
    GOOD(SCR_Complete_output(1));
    GOOD(SCR_Start_output("both", SCR_FLAG_OUTPUT | SCR_FLAG_CHECKPOINT));
    GOOD(SCR_Route_file(below(rank ? "both/1" : "both/0"), path));
    BAD(SCR_Complete_output(0)); /* not written */
    GOOD(SCR_Start_output("both", SCR_FLAG_OUTPUT | SCR_FLAG_CHECKPOINT));
    GOOD(SCR_Route_file(below(rank ? "both/1" : "both/0"), path));
    BAD(SCR_Complete_output(1)); /* the file is not there */
    GOOD(SCR_Start_output("both", SCR_FLAG_OUTPUT | SCR_FLAG_CHECKPOINT));
    GOOD(SCR_Route_file(below(rank ? "both/1" : "both/0"), path));
    IS(1, write_to(path));
    GOOD(SCR_Complete_output(1));
    IS(1, reads(below(rank ? "both/1" : "both/0")));
    GOOD(SCR_Start_checkpoint());
    GOOD(SCR_Route_file(below("cell"), path));
    IS(1, write_to(path));
    GOOD(SCR_Complete_checkpoint(1));
    GOOD(SCR_Have_restart(&flag, name)); /* only at the start */
    IS(0, flag);
}

static void again(void)
{
    int flag = 7;
    GOOD(SCR_Have_restart(&flag, NULL));
    GOOD(SCR_Have_restart(&flag, name));
    IS(1, flag);
    SAME("scr.dataset.2", name);
    GOOD(SCR_Start_restart(name));
    BAD(SCR_Start_output("x", SCR_FLAG_CHECKPOINT));
    BAD(SCR_Finalize());
    GOOD(SCR_Have_restart(&flag, name));
    IS(0, flag); /* its files are being read */
    GOOD(SCR_Route_file(below("./cell"), path));
    IS(1, reads(path));
    GOOD(SCR_Route_file(below("none"), path));
    IS(0, access(path, F_OK) == 0);
    GOOD(SCR_Complete_restart(1));
    BAD(SCR_Complete_restart(1));
    GOOD(SCR_Have_restart(&flag, name));
    IS(0, flag);
    GOOD(SCR_Need_checkpoint(&flag)); /* that of the checkpoint again */
    IS(0, flag);
}

int main(int argc, char **argv)
{
    int flag;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(prefix, sizeof prefix, "%s", getenv("SCR_PREFIX"));
    before_init();
    GOOD(SCR_Have_restart(&flag, name));
    const int second = flag;
    if (second) {
        again();
    } else {
        outside();
        fresh();
    }
    GOOD(SCR_Finalize());
    BAD(SCR_Finalize());
    BAD(SCR_Need_checkpoint(&flag));
    MPI_Finalize();
    if (failed > 0)
        return 1;
    if (rank == 0)
        printf("OK %s %d\n", second ? "again" : "fresh", checks);
    return 0;
}
