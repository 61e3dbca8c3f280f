/* Arrays of the heap that grow by doubling.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "grow.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 8 }; /* items of a first room */

static bool resize(void *array, size_t room, size_t item)
{
    void *old;
    memcpy(&old, array, sizeof old);
    void *all = room <= SIZE_MAX / item ? realloc(old, room * item) : NULL;
    if (all)
        memcpy(array, &all, sizeof all);
    return all != NULL;
}

bool ftk_grow_more(void *array, size_t *room, size_t need, size_t item)
{
    size_t more = *room > 0 ? *room : LEAST;
    while (more < need && more <= SIZE_MAX / 2)
        more *= 2;
    if (more < need || !resize(array, more, item))
        return false;
    *room = more;
    return true;
}

bool ftk_grow_by_one(void *array, size_t n, size_t item)
{
    if (n > 0 && (n & (n - 1)) != 0)
        return true;
    return n <= SIZE_MAX / 2 && resize(array, n > 0 ? 2 * n : 1, item);
}
