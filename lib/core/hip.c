/* HIP by the calls of the driver of CUDA (see hip.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Prototypes, flags and codes are those of AMD's documentation of HIP 5 to 7.  The interface that
 * programs of HIP use is at the same time the one that keeps the last error of each thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hip.h"
#include "symbol.h"

/* hipPointerAttribute_t, with room behind it */
struct pointer {
    int type, device;
    void *on_device, *on_host;
    int is_managed;
    unsigned flags;
    char room[64];
};
/* hipMemoryType: from this value on it is no host memory.  HIP 6 has put another value first. */
enum { DEVICE_IN_5 = 1, DEVICE_SINCE_6 = 2 };
enum { TO_DEVICE = 1, TO_HOST = 2 }; /* hipMemcpyKind */
enum { INVALID_VALUE = 1, INVALID_DEVICE = 101, UNKNOWN = 999 };
enum { OLDEST = 5, VERSION_OF_MAJOR = 10000000, DEVICES = 256, DEPTH = 4 };

/* X(name here, symbol, arguments) */
#define HIP_CALLS(X)                                                                               \
    X(version, hipRuntimeGetVersion, (int *version))                                               \
    X(peek_error, hipPeekAtLastError, (void))                                                      \
    X(take_error, hipGetLastError, (void))                                                         \
    X(attributes, hipPointerGetAttributes, (struct pointer * to, const void *p))                   \
    X(get_device, hipGetDevice, (int *device))                                                     \
    X(set_device, hipSetDevice, (int device))                                                      \
    X(synchronize, hipDeviceSynchronize, (void))                                                   \
    X(stream_create, hipStreamCreateWithFlags, (void **stream, unsigned flags))                    \
    X(stream_synchronize, hipStreamSynchronize, (void *stream))                                    \
    X(stream_query, hipStreamQuery, (void *stream))                                                \
    X(stream_is_capturing, hipStreamIsCapturing, (void *stream, int *status))                      \
    X(copy, hipMemcpyAsync, (void *to, const void *from, size_t bytes, int kind, void *stream))    \
    X(event_create, hipEventCreateWithFlags, (void **event, unsigned flags))                       \
    X(event_record, hipEventRecord, (void *event, void *stream))                                   \
    X(event_synchronize, hipEventSynchronize, (void *event))                                       \
    X(host_register, hipHostRegister, (void *at, size_t bytes, unsigned flags))                    \
    X(host_unregister, hipHostUnregister, (void *at))

static struct {
#define MEMBER(name, symbol, arguments) int(*name) arguments; // NOLINT(bugprone-macro-parentheses)
    HIP_CALLS(MEMBER)
#undef MEMBER
    int (*exchange_capture_mode)(int *mode); /* NULL: this version lacks it */
    const char *(*error_name)(int code);
    int first_device_type;
} hip;
static _Atomic(const struct ftk_cuda *) found;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the calls of CUDA ----------------------------------------------------------------------- */

/* A call whose error the program does not get to see, because the program would take it for one of
 * its own.  An error that the program has not looked at stays. */
static int quiet(int before, int code)
{
    if (code != CUDA_OK && before == CUDA_OK)
        (void)hip.take_error();
    return code;
}

/* The function `name` with these parameters makes the call. */
#define QUIET(name, parameters, call)                                                              \
    static int name parameters                                                                     \
    {                                                                                              \
        const int before = hip.peek_error();                                                       \
        return quiet(before, call);                                                                \
    }
QUIET(attributes, (struct pointer * to, const void *p), hip.attributes(to, p))
QUIET(get_device, (int *device), hip.get_device(device))
QUIET(set_device, (int device), hip.set_device(device))
QUIET(synchronize, (void), hip.synchronize())
QUIET(stream_create, (void **stream, unsigned flags), hip.stream_create(stream, flags))
QUIET(stream_synchronize, (void *stream), hip.stream_synchronize(stream))
QUIET(stream_query, (void *stream), hip.stream_query(stream))
QUIET(is_capturing, (void *stream, int *status), hip.stream_is_capturing(stream, status))
QUIET(copy_out, (void *to, ftk_cuda_address from, size_t bytes, void *stream),
    hip.copy(to, (const void *)(uintptr_t)from, bytes, TO_HOST, stream))
QUIET(copy_in, (ftk_cuda_address to, const void *from, size_t bytes, void *stream),
    hip.copy((void *)(uintptr_t)to, from, bytes, TO_DEVICE, stream))
QUIET(event_create, (void **event, unsigned flags), hip.event_create(event, flags))
QUIET(event_record, (void *event, void *stream), hip.event_record(event, stream))
QUIET(event_synchronize, (void *event), hip.event_synchronize(event))
QUIET(host_register, (void *at, size_t bytes, unsigned flags), hip.host_register(at, bytes, flags))
QUIET(host_unregister, (void *at), hip.host_unregister(at))
QUIET(exchange_capture_mode, (int *mode),
    hip.exchange_capture_mode ? hip.exchange_capture_mode(mode) : UNKNOWN)

/* The context of a device is its place in this array. */
static char contexts[DEVICES];

static int context_of(void **context, int device)
{
    if (device < 0 || device >= DEVICES)
        return INVALID_DEVICE;
    *context = &contexts[device];
    return CUDA_OK;
}

/* Devices that were current when a context was pushed. */
static _Thread_local int outer[DEPTH], depth;

static int push(void *context)
{
    const int code = depth < DEPTH ? get_device(&outer[depth]) : UNKNOWN;
    if (code != CUDA_OK)
        return code;
    const int set = set_device((int)((char *)context - contexts));
    depth += set == CUDA_OK;
    return set;
}

static int pop(void **context)
{
    if (depth == 0)
        return CUDA_INVALID_CONTEXT;
    int now;
    const int code = get_device(&now);
    const int set = set_device(outer[--depth]);
    return code != CUDA_OK ? code : set != CUDA_OK ? set : context_of(context, now);
}

/* Host memory that HIP does not know is an error of the call, up to HIP 5. */
static int pointer_attributes(unsigned n, const int *which, void **to, ftk_cuda_address p)
{
    struct pointer is = { 0 };
    const int code = attributes(&is, (const void *)(uintptr_t)p);
    if (code != CUDA_OK)
        return code;
    const bool on_device = is.is_managed || is.type >= hip.first_device_type;
    for (unsigned i = 0; i < n; i++) {
        if (which[i] == CUDA_OF_MEMORY_TYPE)
            *(unsigned *)to[i] = on_device ? CUDA_MEMORY_DEVICE : 0;
        else if (which[i] == CUDA_OF_DEVICE)
            *(int *)to[i] = is.device;
        else if (which[i] == CUDA_OF_MANAGED)
            *(unsigned *)to[i] = is.is_managed != 0;
        else if (which[i] == CUDA_OF_CONTEXT)
            *(void **)to[i] = NULL; /* primary_context() has the one of the device */
        else
            return INVALID_VALUE;
    }
    return CUDA_OK;
}

static int error_name(int code, const char **name)
{
    *name = hip.error_name(code);
    return CUDA_OK;
}

static const struct ftk_cuda table = { .is = "HIP",
    .pointer_attributes = pointer_attributes,
    .primary_context = context_of,
    .push = push,
    .pop = pop,
    .synchronize = synchronize,
    .stream_create = stream_create,
    .stream_synchronize = stream_synchronize,
    .stream_query = stream_query,
    .stream_is_capturing = is_capturing,
    .copy_out = copy_out,
    .copy_in = copy_in,
    .event_create = event_create,
    .event_record = event_record,
    .event_synchronize = event_synchronize,
    .host_register = host_register,
    .host_unregister = host_unregister,
    .exchange_capture_mode = exchange_capture_mode,
    .error_name = error_name };

/* ---- the library ---------------------------------------------------------------------------- */

/* The library stays loaded from now on: nobody closes the handle. */
static bool look_for(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    int version = 0;
    bool all = library && ftk_symbol_find(library, "hipGetErrorName", &hip.error_name);
#define FIND(name, symbol, arguments) all = all && ftk_symbol_find(library, #symbol, &hip.name);
    HIP_CALLS(FIND)
#undef FIND
    all = all && hip.version(&version) == CUDA_OK && version / VERSION_OF_MAJOR >= OLDEST;
    if (library && !all)
        (void)dlclose(library); /* it is the program's: it stays */
    if (!all)
        return false;
    hip.first_device_type = version / VERSION_OF_MAJOR > OLDEST ? DEVICE_SINCE_6 : DEVICE_IN_5;
    (void)ftk_symbol_find(
        library, "hipThreadExchangeStreamCaptureMode", &hip.exchange_capture_mode);
    return true;
}

const struct ftk_cuda *ftk_hip_find(void)
{
    static const char *const names[] = { "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
        "libamdhip64.so" };
    const struct ftk_cuda *is = atomic_load_explicit(&found, memory_order_acquire);
    if (is)
        return is;
    (void)pthread_mutex_lock(&lock); /* it cannot fail */
    is = atomic_load_explicit(&found, memory_order_relaxed);
    for (size_t i = 0; !is && i < sizeof names / sizeof names[0]; i++)
        if (look_for(names[i]))
            is = &table;
    atomic_store_explicit(&found, is, memory_order_release);
    (void)pthread_mutex_unlock(&lock);
    return is;
}
