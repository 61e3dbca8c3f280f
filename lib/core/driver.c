/* The drivers of devices that the program has loaded (see driver.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <stdatomic.h>

#include "driver.h"
#include "ftk.h"
#include "hip.h"

static const struct ftk_cuda *(*const find[FTK_DRIVERS])(void) = { ftk_cuda_find, ftk_hip_find };
static _Atomic(const struct ftk_cuda *) known[FTK_DRIVERS];

enum { STREAMS = 64 };
static struct {
    pthread_mutex_t lock;
    struct ftk_driver_stream of[STREAMS];
    _Atomic int n;
} streams = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Atomic int lost_by; /* the error that has ended a context; 0: none */

static const char *name_of(const struct ftk_cuda *cuda, int code)
{
    const char *name = NULL;
    return cuda->error_name(code, &name) == CUDA_OK && name ? name : "unknown error";
}

bool ftk_driver_look(void)
{
    bool any = false;
    for (int i = 0; i < FTK_DRIVERS; i++) {
        const struct ftk_cuda *cuda = find[i]();
        atomic_store_explicit(&known[i], cuda, memory_order_release);
        any = any || cuda;
    }
    return any;
}

const struct ftk_cuda *ftk_driver_known(int i)
{
    return atomic_load_explicit(&known[i], memory_order_acquire);
}

bool ftk_driver_owns(const void *p, struct ftk_driver_place *at)
{
    static const int which[] = { CUDA_OF_MEMORY_TYPE, CUDA_OF_CONTEXT, CUDA_OF_DEVICE };
    const ftk_cuda_address address = (ftk_cuda_address)(uintptr_t)p;
    bool found = false;
    for (int i = 0; p && !found && i < FTK_DRIVERS; i++) {
        unsigned type = 0;
        *at = (struct ftk_driver_place){ .cuda = ftk_driver_known(i) };
        void *to[] = { &type, &at->context, &at->device };
        found = at->cuda && at->cuda->pointer_attributes(3, which, to, address) == CUDA_OK
                && type == CUDA_MEMORY_DEVICE;
    }
    return found;
}

int ftk_driver_failed(const struct ftk_driver_place *at, const char *call, int code)
{
    int now = at->cuda->synchronize();
    if (now == CUDA_OK || now == CUDA_CAPTURE_UNSUPPORTED)
        return ftk_fail(FTKIT_ERR_IO, "%s: %s error %d (%s)", call, at->cuda->is, code,
            name_of(at->cuda, code));
    atomic_store(&lost_by, now);
    return ftk_fail(FTKIT_ERR_IO,
        "%s: %s error %d (%s): the context of the device has ended, and with it all memory of "
        "this process there",
        call, at->cuda->is, now, name_of(at->cuda, now));
}

int ftk_driver_enter(const void *p, struct ftk_driver_place *at)
{
    if (!ftk_driver_owns(p, at))
        return ftk_fail(FTKIT_ERR_ARG, "%p is no memory of a device any more", p);
    int code = CUDA_OK;
    if (!at->context) /* memory of a pool: each context of the device may use it */
        code = at->cuda->primary_context(&at->context, at->device);
    if (code == CUDA_OK)
        code = at->cuda->push(at->context);
    return code == CUDA_OK ? FTKIT_OK
                           : ftk_fail(FTKIT_ERR_IO, "the context of a device: %s error %d (%s)",
                               at->cuda->is, code, name_of(at->cuda, code));
}

bool ftk_driver_is_lost(void)
{
    return atomic_load(&lost_by) != CUDA_OK;
}

void ftk_driver_leave(const struct ftk_driver_place *at)
{
    void *context;
    (void)at->cuda->pop(&context); /* it was pushed: it is there */
}

int ftk_driver_relax(const struct ftk_driver_place *at)
{
    int mode = CUDA_CAPTURE_RELAXED;
    return at->cuda->exchange_capture_mode(&mode) == CUDA_OK ? mode : CUDA_CAPTURE_RELAXED;
}

void ftk_driver_restrict(const struct ftk_driver_place *at, int mode)
{
    if (mode != CUDA_CAPTURE_RELAXED)
        (void)at->cuda->exchange_capture_mode(&mode); /* as it was */
}

int ftk_driver_stream_of(const struct ftk_driver_place *at, struct ftk_driver_stream **out)
{
    int rc = FTKIT_OK, i = 0;
    (void)pthread_mutex_lock(&streams.lock); /* it cannot fail */
    const int n = atomic_load(&streams.n);
    while (i < n && streams.of[i].context != at->context)
        i++;
    if (i == STREAMS) {
        rc = ftk_fail(FTKIT_ERR_UNSUPPORTED, "memory of more than %d contexts of devices", STREAMS);
    } else if (i == n) {
        int code = at->cuda->stream_create(&streams.of[i].stream, CUDA_STREAM_NON_BLOCKING);
        streams.of[i].cuda = at->cuda;
        streams.of[i].context = at->context;
        if (code == CUDA_OK)
            atomic_store(&streams.n, n + 1);
        else
            rc = ftk_driver_failed(at, "cuStreamCreate", code);
    }
    if (rc == FTKIT_OK)
        *out = &streams.of[i];
    (void)pthread_mutex_unlock(&streams.lock);
    return rc;
}

const struct ftk_driver_stream *ftk_driver_stream_at(int i)
{
    return i < atomic_load(&streams.n) ? &streams.of[i] : NULL;
}
