/* Attributes: texts that a program attaches to its regions, for those who read its files.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * They travel in the segment of each rank, as the region FTK_ATTRIBUTES (bytes of its own
 * rank, no part of the program's state: no restore looks at it), so nobody who makes a file
 * from segments or parts needs the program.  Its bytes are
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

/* The table with one entry more: malloc'd *table of *bytes (NULL, 0: none yet) is made
 * larger. */
int ftk_attr_add(char **table, size_t *bytes, const struct ftk_attr *a);

/* Whether these bytes are a table, whole and unchanged; without entries it has none. */
bool ftk_attr_check(const char *table, size_t bytes);

/* The entries of a good table, one after the other; *at is 0 at first. */
bool ftk_attr_next(const char *table, size_t bytes, size_t *at, struct ftk_attr *a);

#endif
