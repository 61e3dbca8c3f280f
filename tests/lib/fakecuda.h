/* The calls of the driver of CUDA that tests/lib/fakecuda.c has.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <stddef.h>

typedef unsigned long long CUdeviceptr;

int cuInit(unsigned flags);
int cuDeviceGetCount(int *n);
int cuDeviceGetName(char *name, int bytes, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxCreate_v2(void **context, unsigned flags, int device);
int cuCtxSetCurrent(void *context);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);
int cuMemAllocAsync(CUdeviceptr *p, size_t bytes, void *stream);
int cuMemAllocManaged(CUdeviceptr *p, size_t bytes, unsigned flags);
/* As memory of cuMemCreate() that is mapped into a range that was reserved. */
int fakecuda_reserve(CUdeviceptr *p, size_t bytes);
/* Take whole pages out of such a range: they are reserved, and not mapped.  A range has one hole;
 * of no bytes: none any more. */
int fakecuda_unmap(CUdeviceptr p, size_t bytes);
int cuMemFree_v2(CUdeviceptr p);
int cuMemFreeAsync(CUdeviceptr p, void *stream);
/* Bytes of pools that are in use. */
size_t fakecuda_in_pool(void);
int cuMemGetInfo_v2(size_t *unused, size_t *all);
int cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream);
int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags);
int cuMemHostUnregister(void *p);
int cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t bytes);
int cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
int cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
int cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, void *stream);
int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream);
int cuPointerGetAttributes(unsigned n, const int *which, void **to, CUdeviceptr p);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamSynchronize(void *stream);
int cuStreamQuery(void *stream);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);
int cuStreamIsCapturing(void *stream, int *status);
int cuEventCreate(void **event, unsigned flags);
int cuEventRecord(void *event, void *stream);
int cuEventSynchronize(void *event);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuModuleLoadData(void **module, const void *text);
int cuModuleGetFunction(void **f, void *module, const char *name);
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, void *stream, void **args, void **extra);
int cuGetErrorName(int code, const char **name);

#endif
