/* Arrays of the heap that grow by doubling.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * `array` is the address of the pointer to the first item, which is NULL for an empty array.  Items
 * have `item` bytes.  False: no memory; the array is as before. */
#ifndef FTK_GROW_H
#define FTK_GROW_H

#include <stdbool.h>
#include <stddef.h>

bool ftk_grow_more(void *array, size_t *room, size_t need, size_t item);

/* Make room for `need` items in an array that has room for *room items. */
static inline bool ftk_grow(void *array, size_t *room, size_t need, size_t item)
{
    return need <= *room || ftk_grow_more(array, room, need, item);
}

/* Make room for one more item behind n items of an array whose room is the least power of two that
 * is not below n.  Such an array grows in this function only. */
bool ftk_grow_by_one(void *array, size_t n, size_t item);

#endif
