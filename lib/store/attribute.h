/* Attributes: texts that a program attaches to its regions, for readers of its files.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The segment of each rank contains the attributes as the region FTK_ATTRIBUTES.  So a file can
 * be made from segments or parts without the program.  The region is not part of the program's
 * state: no restore reads it.  Its bytes are
 *
 *     u64 XXH3 of the rest | region \0 name \0 value \0 | region \0 name \0 value \0 | ...
 */
#ifndef FTK_STORE_ATTRIBUTE_H
#define FTK_STORE_ATTRIBUTE_H

#include "core/ftk.h"

#define FTK_ATTRIBUTES "ftkit.attributes" /* name of the region, reserved */
#define FTK_ATTR_VALUE_MAX 255
#define FTK_ATTR_TABLE_MAX ((size_t)1 << 20) /* bytes */

struct ftk_attr {
    const char *region, *name, *value; /* in the table */
};

/* Append an entry to the malloc'd *table of *bytes bytes (NULL, 0: no table yet). */
int ftk_attr_add(char **table, size_t *bytes, const struct ftk_attr *a);

/* Whether these bytes are a whole and unchanged table with at least one entry. */
bool ftk_attr_check(const char *table, size_t bytes);

/* Get the next entry of a good table; *at is 0 at first.  false: no further entry. */
bool ftk_attr_next(const char *table, size_t bytes, size_t *at, struct ftk_attr *a);

#endif
