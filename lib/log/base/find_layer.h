/* Finding libftkit_mpi.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_FIND_LAYER_H
#define FTK_LOG_FIND_LAYER_H

#include <dlfcn.h>

#include "mpi_calls.h"

extern __attribute__((weak)) const struct ftk_mpi_layer *ftkit_mpi_layer(void);

/* What libftkit_mpi offers; NULL: there is none, or one of another build (*other).  Linked into the
 * program it is found by its name; preloaded, by a search. */
static inline const struct ftk_mpi_layer *ftk_layer_find(bool *other)
{
    const struct ftk_mpi_layer *(*get)(void) = ftkit_mpi_layer;
    if (!get)
        *(void **)&get = dlsym(RTLD_DEFAULT, "ftkit_mpi_layer");
    const struct ftk_mpi_layer *layer = get ? get() : NULL;
    *other = layer && layer->number != FTK_LAYER_NUMBER;
    return *other ? NULL : layer;
}

#endif
