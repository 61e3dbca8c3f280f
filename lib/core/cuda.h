/* The driver of CUDA, if the program has loaded it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The driver belongs to the node, so ftkit is built without its header and never loads it: a
 * program that has memory of a device has loaded it.  Functions return codes of the driver. */
#ifndef FTK_CUDA_H
#define FTK_CUDA_H

#include <stddef.h>

typedef unsigned long long ftk_cuda_address; /* CUdeviceptr */

/* Codes of the driver that ftkit tells apart. */
enum {
    CUDA_OK = 0,
    CUDA_DEINITIALIZED = 4,     /* the process ends */
    CUDA_INVALID_CONTEXT = 201, /* there is no current context */
    CUDA_INVALID_HANDLE = 400,
    CUDA_NOT_READY = 600, /* work of the stream is under way */
    CUDA_CONTEXT_IS_DESTROYED = 709,
    CUDA_NOT_REGISTERED = 713,
    CUDA_CAPTURE_UNSUPPORTED = 900, /* a graph is being captured, and this call has broken it */
    CUDA_CAPTURE_IMPLICIT = 906     /* a graph is being captured, and still is */
};
/* CUpointer_attribute */
enum {
    CUDA_OF_CONTEXT = 1,
    CUDA_OF_MEMORY_TYPE = 2,
    CUDA_OF_MANAGED = 8,
    CUDA_OF_DEVICE = 9,
    CUDA_OF_RANGE_START = 11,
    CUDA_OF_RANGE_BYTES = 12,
    CUDA_OF_POOL = 17
};
enum { CUDA_MEMORY_DEVICE = 2 };       /* CUmemorytype; managed memory, too */
enum { CUDA_STREAM_NON_BLOCKING = 1 }; /* flag of cuStreamCreate() */
enum { CUDA_EVENT_DISABLE_TIMING = 2 };
enum { CUDA_HOST_PORTABLE = 1 };   /* flag of cuMemHostRegister(): for all contexts */
enum { CUDA_CAPTURE_RELAXED = 2 }; /* CUstreamCaptureMode */
enum { CUDA_NOT_CAPTURING = 0 };   /* CUstreamCaptureStatus */

/* X(name in the table, symbol of the driver, arguments) */
#define FTK_CUDA_CALLS(X)                                                                          \
    X(pointer_attributes, cuPointerGetAttributes,                                                  \
        (unsigned n, const int *which, void **to, ftk_cuda_address p))                             \
    X(primary_context, cuDevicePrimaryCtxRetain, (void **context, int device))                     \
    X(push, cuCtxPushCurrent_v2, (void *context))                                                  \
    X(pop, cuCtxPopCurrent_v2, (void **context))                                                   \
    X(synchronize, cuCtxSynchronize, (void))                                                       \
    X(stream_create, cuStreamCreate, (void **stream, unsigned flags))                              \
    X(stream_synchronize, cuStreamSynchronize, (void *stream))                                     \
    X(stream_query, cuStreamQuery, (void *stream))                                                 \
    X(stream_is_capturing, cuStreamIsCapturing, (void *stream, int *status))                       \
    X(copy_out, cuMemcpyDtoHAsync_v2,                                                              \
        (void *to, ftk_cuda_address from, size_t bytes, void *stream))                             \
    X(copy_in, cuMemcpyHtoDAsync_v2,                                                               \
        (ftk_cuda_address to, const void *from, size_t bytes, void *stream))                       \
    X(event_create, cuEventCreate, (void **event, unsigned flags))                                 \
    X(event_record, cuEventRecord, (void *event, void *stream))                                    \
    X(event_synchronize, cuEventSynchronize, (void *event))                                        \
    X(allocate, cuMemAlloc_v2, (ftk_cuda_address * p, size_t bytes))                               \
    X(release, cuMemFree_v2, (ftk_cuda_address p))                                                 \
    X(module_load, cuModuleLoadData, (void **module, const void *text))                            \
    X(module_function, cuModuleGetFunction, (void **function, void *module, const char *name))     \
    X(launch, cuLaunchKernel,                                                                      \
        (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,          \
            unsigned bz, unsigned shared, void *stream, void **arguments, void **extra))           \
    X(host_register, cuMemHostRegister_v2, (void *at, size_t bytes, unsigned flags))               \
    X(host_unregister, cuMemHostUnregister, (void *at))                                            \
    X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                       \
    X(error_name, cuGetErrorName, (int code, const char **name))

/* Calls for snapshots, which drivers before CUDA 11.2 lack: NULL. */
#define FTK_CUDA_SNAPSHOT_CALLS(X)                                                                 \
    X(memory_info, cuMemGetInfo_v2, (size_t * unused, size_t * all))                               \
    X(allocate_behind, cuMemAllocAsync, (ftk_cuda_address * p, size_t bytes, void *stream))        \
    X(release_behind, cuMemFreeAsync, (ftk_cuda_address p, void *stream))                          \
    X(copy_within, cuMemcpyDtoDAsync_v2,                                                           \
        (ftk_cuda_address to, ftk_cuda_address from, size_t bytes, void *stream))

struct ftk_cuda {
    const char *is; /* "CUDA", for messages */
#define MEMBER(name, symbol, arguments)                                                            \
    int(*name) arguments; /* NOLINT(bugprone-macro-parentheses) */
    FTK_CUDA_CALLS(MEMBER)
    FTK_CUDA_SNAPSHOT_CALLS(MEMBER)
#undef MEMBER
};

/* The functions of the driver; NULL: it is not in this process, or lacks one of them.  A look for a
 * driver that is not there takes about 2 microseconds.  Any thread may call it. */
const struct ftk_cuda *ftk_cuda_find(void);

#endif
