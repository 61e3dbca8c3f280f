/* Errors of the driver without a device (see fakecuda.c), as the environment asks for them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * In the process with this number (OMPI_COMM_WORLD_RANK):
 *
 * FAKECUDA_FAIL=call:process:n:code[:sticky]  the n-th call of that name returns the code
 * FAKECUDA_FLIP=process:n:bytes               the n-th asynchronous copy of so many bytes or more
 *                                             from the device has a wrong bit
 * FAKECUDA_SUMS=wrong:process:n               from the n-th launch on of a kernel in PTX, the first
 *                                             word that it writes has a wrong bit
 *
 * In each process:
 *
 * FAKECUDA_GROUPS=n                           a launch of a kernel in PTX runs its last n groups
 *                                             only */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fakecuda_inside.h"

/* The code that a call has to return at once; OK: none. */
int fakecuda_begins(const char *call)
{
    static int calls;
    const char *text = getenv("FAKECUDA_FAIL"), *me = getenv("OMPI_COMM_WORLD_RANK");
    char name[64], how[16] = "";
    int process, n, code;
    if (!fakecuda_owner)
        fakecuda_owner = getpid();
    if (fakecuda_owner != getpid())
        return NOT_INITIALIZED;
    if (fakecuda_sticky)
        return fakecuda_sticky;
    if (!text || !me || sscanf(text, "%63[^:]:%d:%d:%d:%15s", name, &process, &n, &code, how) < 4
        || strcmp(name, call) != 0 || process != atoi(me) || ++calls != n)
        return OK;
    if (strcmp(how, "sticky") == 0)
        fakecuda_sticky = code;
    return code;
}

/* Whether this copy from the device is the one that has a wrong bit; the lock is held. */
bool fakecuda_flips(size_t bytes)
{
    static int copies;
    const char *text = getenv("FAKECUDA_FLIP"), *me = getenv("OMPI_COMM_WORLD_RANK");
    int process, n;
    size_t least;
    return text && me && sscanf(text, "%d:%d:%zu", &process, &n, &least) == 3 && process == atoi(me)
           && bytes >= least && ++copies == n;
}

/* Whether this launch of a kernel in PTX writes a wrong bit. */
bool fakecuda_is_wrong(void)
{
    static int launches;
    const char *text = getenv("FAKECUDA_SUMS"), *me = getenv("OMPI_COMM_WORLD_RANK");
    int process, n;
    launches++;
    return text && me && sscanf(text, "wrong:%d:%d", &process, &n) == 2 && process == atoi(me)
           && launches >= n;
}

/* The first one of n groups that a launch of a kernel in PTX runs. */
unsigned fakecuda_first_group(unsigned n)
{
    const char *text = getenv("FAKECUDA_GROUPS");
    const unsigned most = text ? (unsigned)strtoul(text, NULL, 10) : n;
    return n > most ? n - most : 0;
}

int cuGetErrorName(int code, const char **name)
{
    static const struct {
        int code;
        const char *name;
    } names[] = { { OK, "CUDA_SUCCESS" }, { INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE" },
        { OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY" },
        { ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS" }, { 719, "CUDA_ERROR_LAUNCH_FAILED" } };
    *name = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].code == code)
            *name = names[i].name;
    return *name ? OK : INVALID_VALUE;
}
