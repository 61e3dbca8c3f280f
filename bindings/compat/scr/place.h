/* Where the files of a program are.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_SCR_PLACE_H
#define FTK_SCR_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* The path of a file below prefix, without "." and "..": name is absolute, or relative to the
 * working directory.  false: a line says why. */
bool ftk_scr_below(const char *prefix, const char *name, char *path, size_t room);

/* Make all directories of dir/path but the last name.  false: errno says why. */
bool ftk_scr_make_parents(const char *dir, const char *path);

/* Copy from/path to to/path, which then has all bytes or is what it was.  false: errno says why. */
bool ftk_scr_copy(const char *from, const char *to, const char *path);

#endif
