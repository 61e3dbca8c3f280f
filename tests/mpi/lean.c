/* Open MPI alone: a process loads no needless library, and looks at little memory at its end.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { ENOUGH = 1000 }; /* pages: MPI_Finalize touches about 100, with the table of 4 MiB 2,100 */

static long pages(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? u.ru_minflt : -1;
}

/* The number of mappings of libraries for XML and for devices. */
static int needless(void)
{
    static const char *const name[] = { "libxml2", "libcudart", "libOpenCL", "libnvidia" };
    char line[1024];
    int found = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    if (!f)
        return -1;
    while (fgets(line, sizeof line, f))
        for (size_t i = 0; i < sizeof name / sizeof *name; i++)
            found += strstr(line, name[i]) != NULL;
    fclose(f);
    return found;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const int libraries = needless();
    const long before = pages();
    MPI_Finalize();
    const long touched = pages() - before;
    const int good = libraries == 0 && before > 0 && touched < ENOUGH;
    if (good)
        puts("OK lean");
    else
        printf("%d mappings of needless libraries, %ld pages at the end\n", libraries, touched);
    return good ? 0 : 1;
}
