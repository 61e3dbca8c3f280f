/* The energy of GPUs by NVML (see sensors.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The library belongs to the driver of the node, so it is loaded at run time, and ftkit needs
 * neither its header nor the library to be built. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/symbol.h"
#include "core/thread.h"
#include "sensors.h"

/* The part of the interface of NVML that is in use; 0: success. */
typedef int plain_fn(void);
typedef int count_fn(unsigned *count);
typedef int handle_fn(unsigned index, void **device);
typedef int energy_fn(void *device, unsigned long long *mj);

struct ftk_nvml {
    void *library;
    plain_fn *init, *shutdown;
    count_fn *count;
    handle_fn *handle;
    energy_fn *energy;
    void **device; /* [n] */
    int n;
    pthread_t thread;
    _Atomic int state; /* LOADING until the thread has ended; then device and n are valid */
};
enum { LOADING, READY, FAILED };

static bool find_all(struct ftk_nvml *n)
{
    return ftk_symbol_find(n->library, "nvmlInit_v2", &n->init)
           && ftk_symbol_find(n->library, "nvmlShutdown", &n->shutdown)
           && ftk_symbol_find(n->library, "nvmlDeviceGetCount_v2", &n->count)
           && ftk_symbol_find(n->library, "nvmlDeviceGetHandleByIndex_v2", &n->handle)
           && ftk_symbol_find(n->library, "nvmlDeviceGetTotalEnergyConsumption", &n->energy);
}

static void list(struct ftk_nvml *n)
{
    unsigned count = 0;
    if (n->count(&count) == 0 && count > 0)
        n->device = calloc(count, sizeof *n->device);
    for (unsigned i = 0; n->device && i < count; i++)
        n->n += n->handle(i, &n->device[n->n]) == 0;
}

/* The driver takes some 20 ms to answer. */
static void *load(void *arg)
{
    struct ftk_nvml *n = arg;
    const bool good = n->init() == 0;
    if (good)
        list(n);
    atomic_store(&n->state, good ? READY : FAILED);
    return NULL;
}

struct ftk_nvml *ftk_nvml_open(void)
{
    struct ftk_nvml *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (n->library && find_all(n) && ftk_thread_start(&n->thread, load, n) == 0)
        return n;
    if (n->library)
        (void)dlclose(n->library); /* a library that stays loaded does no harm */
    free(n);
    return NULL;
}

bool ftk_nvml_is_loading(const struct ftk_nvml *n)
{
    return n && atomic_load(&n->state) == LOADING;
}

int ftk_nvml_count(const struct ftk_nvml *n)
{
    return n && atomic_load(&n->state) == READY ? n->n : 0;
}

bool ftk_nvml_read(const struct ftk_nvml *n, int gpu, uint64_t *mj)
{
    unsigned long long value;
    if (n->energy(n->device[gpu], &value) != 0)
        return false;
    *mj = value;
    return true;
}

void ftk_nvml_close(struct ftk_nvml *n)
{
    if (!n)
        return;
    (void)pthread_join(n->thread, NULL);
    if (atomic_load(&n->state) == READY)
        (void)n->shutdown(); /* there is nothing to do about an error */
    (void)dlclose(n->library);
    free(n->device);
    free(n);
}
