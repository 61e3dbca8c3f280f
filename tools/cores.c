/* Cores of this machine for the processes of a job.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun gives a machine as many slots as it has cores, not hardware threads. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools.h"

/* The quota of one control group (v2) in CPUs; 0: no quota. */
static int quota_of(const char *group)
{
    char path[FTK_PATH_MAX + 64], quota[32];
    double period = 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    int got = fscanf(f, "%31s %lf", quota, &period);
    fclose(f);
    double q = strtod(quota, NULL); /* "max" is 0 */
    if (got != 2 || q <= 0 || period <= 0)
        return 0;
    return q <= period ? 1 : (int)(q / period);
}

static int cores_by_quota(void)
{
    char line[FTK_PATH_MAX];
    int least = 0;
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        char *group = line + 3;
        for (;;) { /* the group and all its parents */
            int q = quota_of(group);
            if (q > 0 && (least == 0 || q < least))
                least = q;
            char *slash = strrchr(group, '/');
            if (!slash)
                break;
            *slash = '\0';
        }
    }
    fclose(f);
    return least;
}

static int within_quota(long n)
{
    int quota = cores_by_quota();
    if (quota > 0 && quota < n)
        return quota;
    return n < 1 ? 1 : (int)n;
}

int ftk_cores_threads(void)
{
    cpu_set_t set;
    return within_quota(sched_getaffinity(0, sizeof set, &set) == 0
                            ? CPU_COUNT(&set)
                            : sysconf(_SC_NPROCESSORS_ONLN));
}

/* The threads of the core of this thread, as text: "0-1"; false: not known. */
static bool siblings_of(int cpu, char text[64])
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "re");
    bool got = f && fgets(text, 64, f);
    if (f)
        fclose(f);
    return got;
}

int ftk_cores(void)
{
    struct ftk_list cores = { 0 };
    cpu_set_t set;
    char text[64];
    bool known = sched_getaffinity(0, sizeof set, &set) == 0;
    for (size_t cpu = 0; known && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set)) {
            known = siblings_of((int)cpu, text);
            if (known)
                ftk_list_add_once(&cores, text, strcspn(text, "\n"));
        }
    int n = known ? within_quota((long)cores.n) : ftk_cores_threads();
    ftk_list_free(&cores);
    return n;
}
