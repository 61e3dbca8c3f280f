/* HIP without a device, for the tests: libamdhip64.so.6.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * It is the driver without a device (fakecuda.c) by the names of HIP, with what differs by AMD's
 * documentation:
 *
 *  - A thread has a device, and no context.  Device 0 is there without a call.
 *  - An error of a call stays for hipGetLastError(), until that call.
 *  - Up to HIP 5 memory that HIP does not know is an error of the look-up, and types of memory have
 *    other numbers.
 *
 * FAKEHIP_VERSION=N  the version is N.0; without it: 6.0 */
#include <stdint.h>
#include <stdlib.h>

#include "fakecuda_inside.h"
#include "fakehip.h"

#define ADDRESS(p) ((CUdeviceptr)(uintptr_t)(p))
enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2, DEVICES = 2 };

static _Thread_local int device, last;
static _Thread_local void *context; /* of the device */

static int result(int code)
{
    if (code != OK)
        last = code;
    return code;
}

/* Each call of a thread uses its device. */
static void use(void)
{
    if (!context && cuDevicePrimaryCtxRetain(&context, device) == OK)
        (void)cuCtxSetCurrent(context);
}
#define CALL(call) (use(), result(call))

static int major(void)
{
    const char *text = getenv("FAKEHIP_VERSION");
    return text ? atoi(text) : 6;
}

int hipInit(unsigned flags)
{
    return result(cuInit(flags));
}

int hipRuntimeGetVersion(int *version)
{
    *version = major() * 10000000;
    return OK;
}

int hipGetLastError(void)
{
    const int code = last;
    last = OK;
    return code;
}

int hipPeekAtLastError(void)
{
    return last;
}

const char *hipGetErrorName(int code)
{
    return code == ILLEGAL_ADDRESS ? "hipErrorIllegalAddress" : "hipErrorUnknown";
}

int hipGetDevice(int *to)
{
    *to = device;
    return OK;
}

int hipSetDevice(int to)
{
    if (to < 0 || to >= DEVICES)
        return result(INVALID_VALUE);
    device = to;
    context = NULL;
    return OK;
}

int hipDeviceSynchronize(void)
{
    return CALL(cuCtxSynchronize());
}

/* ---- memory ---------------------------------------------------------------------------------- */

int hipMalloc(void **p, size_t bytes)
{
    CUdeviceptr at = 0;
    const int code = CALL(cuMemAlloc_v2(&at, bytes));
    *p = (void *)(uintptr_t)at;
    return code;
}

int hipMallocAsync(void **p, size_t bytes, void *stream)
{
    CUdeviceptr at = 0;
    const int code = CALL(cuMemAllocAsync(&at, bytes, stream));
    *p = (void *)(uintptr_t)at;
    return code;
}

int hipMallocManaged(void **p, size_t bytes, unsigned flags)
{
    CUdeviceptr at = 0;
    const int code = CALL(cuMemAllocManaged(&at, bytes, flags));
    *p = (void *)(uintptr_t)at;
    return code;
}

int hipFree(void *p)
{
    return CALL(cuMemFree_v2(ADDRESS(p)));
}

int hipPointerGetAttributes(struct fakehip_pointer *is, const void *p)
{
    unsigned type = 0, managed = 0;
    int on = 0;
    const int which[] = { 2, 8, 9 };
    void *to[] = { &type, &managed, &on };
    const int code = cuPointerGetAttributes(3, which, to, ADDRESS(p));
    const bool pinned = code == OK && type != 2 && fakecuda_is_registered(p);
    if (code != OK || (type != 2 && !pinned && major() < 6))
        return result(code != OK ? code : INVALID_VALUE);
    const int host = major() < 6 ? 0 : 1, managed_type = major() < 6 ? 4 : 3;
    *is = (struct fakehip_pointer){ .type = pinned    ? host
                                            : managed ? managed_type
                                                      : host + 1,
        .device = on,
        .on_device = (void *)(uintptr_t)p,
        .on_host = pinned ? (void *)(uintptr_t)p : NULL,
        .is_managed = managed != 0 };
    if (type != 2 && !pinned) /* not registered */
        *is = (struct fakehip_pointer){ .type = 0, .device = -2 };
    return OK;
}

int hipHostRegister(void *p, size_t bytes, unsigned flags)
{
    return CALL(cuMemHostRegister_v2(p, bytes, flags));
}

int hipHostUnregister(void *p)
{
    return CALL(cuMemHostUnregister(p));
}

int hipMemcpyDtoH(void *to, void *from, size_t bytes)
{
    return CALL(cuMemcpyDtoH_v2(to, ADDRESS(from), bytes));
}

int hipMemcpyHtoD(void *to, void *from, size_t bytes)
{
    return CALL(cuMemcpyHtoD_v2(ADDRESS(to), from, bytes));
}

int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    if (kind == DEVICE_TO_HOST)
        return CALL(cuMemcpyDtoHAsync_v2(to, ADDRESS(from), bytes, stream));
    return kind == HOST_TO_DEVICE ? CALL(cuMemcpyHtoDAsync_v2(ADDRESS(to), from, bytes, stream))
                                  : result(INVALID_VALUE);
}

/* ---- streams and kernels --------------------------------------------------------------------- */

int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
    return CALL(cuStreamCreate(stream, flags));
}

int hipStreamSynchronize(void *stream)
{
    return CALL(cuStreamSynchronize(stream));
}

int hipStreamQuery(void *stream)
{
    return CALL(cuStreamQuery(stream));
}

int hipStreamBeginCapture(void *stream, int mode)
{
    return CALL(cuStreamBeginCapture_v2(stream, mode));
}

int hipStreamEndCapture(void *stream, void **graph)
{
    return CALL(cuStreamEndCapture(stream, graph));
}

int hipStreamIsCapturing(void *stream, int *status)
{
    return CALL(cuStreamIsCapturing(stream, status));
}

int hipThreadExchangeStreamCaptureMode(int *mode)
{
    return CALL(cuThreadExchangeStreamCaptureMode(mode));
}

int hipEventCreateWithFlags(void **event, unsigned flags)
{
    return CALL(cuEventCreate(event, flags));
}

int hipEventRecord(void *event, void *stream)
{
    return CALL(cuEventRecord(event, stream));
}

int hipEventSynchronize(void *event)
{
    return CALL(cuEventSynchronize(event));
}

int hipModuleLoadData(void **module, const void *text)
{
    return CALL(cuModuleLoadData(module, text));
}

int hipModuleGetFunction(void **f, void *module, const char *name)
{
    return CALL(cuModuleGetFunction(f, module, name));
}

int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, void *stream, void **args, void **extra)
{
    return CALL(cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, args, extra));
}
