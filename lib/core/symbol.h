/* Functions of libraries that are looked up at run time.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_SYMBOL_H
#define FTK_SYMBOL_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Look up a function; false: the library does not have it, and *fn is NULL.  fn: a pointer to a
 * pointer to a function, because ISO C does not convert dlsym()'s pointer to an object. */
static inline bool ftk_symbol_find(void *library, const char *name, void *fn)
{
    void *at = dlsym(library, name);
    memcpy(fn, &at, sizeof at);
    return at != NULL;
}

#endif
