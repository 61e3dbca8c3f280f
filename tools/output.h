/* Files that a command writes at the request of its user.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_OUTPUT_H
#define FTKIT_TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

struct ftk_output {
    const char *path;
    char *tmp; /* NULL: path itself is written */
    FILE *f;
};

/* Begin a file that replaces path as a whole.  It is written under a new name beside path: a
 * failure leaves no half file, and a link that another user has planted is not followed.  A device
 * or a pipe, which cannot be replaced, is written itself.  path must live until the end.  false
 * with errno: nothing is left. */
bool ftk_output_begin(struct ftk_output *o, const char *path);
/* Give the file its name and the rights of the umask.  false with errno: not all could be written,
 * and nothing is left of the file. */
bool ftk_output_end(struct ftk_output *o);

#endif
