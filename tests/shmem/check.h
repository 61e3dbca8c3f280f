/* What programs that check calls of SHMEM share: they count what is checked and what is wrong.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>

static int me, n; /* this PE and their number: the program sets them */
static int checks, wrong;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        checks++;                                                                                  \
        if (!(what)) {                                                                             \
            wrong++;                                                                               \
            printf("PE %d: %s:%d: not %s\n", me, __FILE__, __LINE__, #what);                       \
        }                                                                                          \
    } while (0)

static int next_pe(int by)
{
    return (me + by) % n;
}

#endif
