/* The driver of CUDA (see cuda.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda.h"
#include "symbol.h"

static struct ftk_cuda table = { .is = "CUDA" };
static _Atomic(const struct ftk_cuda *) found;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The library stays loaded from now on: nobody closes this handle. */
static bool look(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    bool all = library != NULL;
#define FIND(name, symbol, arguments) all = all && ftk_symbol_find(library, #symbol, &table.name);
    FTK_CUDA_CALLS(FIND)
#undef FIND
#define FIND(name, symbol, arguments) (void)ftk_symbol_find(library, #symbol, &table.name);
    if (all) {
        FTK_CUDA_SNAPSHOT_CALLS(FIND)
    }
#undef FIND
    if (library && !all)
        (void)dlclose(library); /* it is the program's: it stays */
    return all;
}

const struct ftk_cuda *ftk_cuda_find(void)
{
    const struct ftk_cuda *cuda = atomic_load_explicit(&found, memory_order_acquire);
    if (cuda)
        return cuda;
    (void)pthread_mutex_lock(&lock); /* it cannot fail */
    cuda = atomic_load_explicit(&found, memory_order_relaxed);
    if (!cuda && look()) {
        cuda = &table;
        atomic_store_explicit(&found, cuda, memory_order_release);
    }
    (void)pthread_mutex_unlock(&lock);
    return cuda;
}
