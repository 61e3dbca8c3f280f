/* The environment of a process as it began: what a program changes later is not in it.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_ENVIRONMENT_H
#define FTK_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

struct ftk_environment {
    char *text; /* [bytes] NAME=value with its NUL, again and again, and one more NUL; owned */
    size_t bytes;
};

/* Read the environment of a process; no bytes: not known. */
struct ftk_environment ftk_environment_of(long pid);
void ftk_environment_free(struct ftk_environment *e);
/* The value of a variable, in e->text; NULL: there is none.  The name may end with '='. */
const char *ftk_environment_get(const struct ftk_environment *e, const char *name);
/* Whether the entry NAME=value is there. */
bool ftk_environment_has(const struct ftk_environment *e, const char *entry);

#endif
