/* The calls of HIP that tests/lib/fakehip.c has.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKEHIP_H
#define FAKEHIP_H

#include <stddef.h>

struct fakehip_pointer { /* hipPointerAttribute_t */
    int type, device;
    void *on_device, *on_host;
    int is_managed;
    unsigned flags;
};

#pragma GCC visibility push(default)
int hipInit(unsigned flags);
int hipRuntimeGetVersion(int *version);
int hipGetLastError(void);
int hipPeekAtLastError(void);
const char *hipGetErrorName(int code);
int hipGetDevice(int *device);
int hipSetDevice(int device);
int hipDeviceSynchronize(void);
int hipMalloc(void **p, size_t bytes);
int hipMallocAsync(void **p, size_t bytes, void *stream);
int hipMallocManaged(void **p, size_t bytes, unsigned flags);
int hipFree(void *p);
int hipPointerGetAttributes(struct fakehip_pointer *is, const void *p);
int hipHostRegister(void *p, size_t bytes, unsigned flags);
int hipHostUnregister(void *p);
int hipMemcpyDtoH(void *to, void *from, size_t bytes);
int hipMemcpyHtoD(void *to, void *from, size_t bytes);
int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
int hipStreamCreateWithFlags(void **stream, unsigned flags);
int hipStreamSynchronize(void *stream);
int hipStreamQuery(void *stream);
int hipStreamBeginCapture(void *stream, int mode);
int hipStreamEndCapture(void *stream, void **graph);
int hipStreamIsCapturing(void *stream, int *status);
int hipThreadExchangeStreamCaptureMode(int *mode);
int hipEventCreateWithFlags(void **event, unsigned flags);
int hipEventRecord(void *event, void *stream);
int hipEventSynchronize(void *event);
int hipModuleLoadData(void **module, const void *text);
int hipModuleGetFunction(void **f, void *module, const char *name);
int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, void *stream, void **args, void **extra);
#pragma GCC visibility pop

#endif
