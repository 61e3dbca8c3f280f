/* A driver of CUDA without a device, for the tests: libcuda.so.1.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * It behaves as the driver of an H100 was measured to, as far as ftkit depends on that:
 *
 *  - Memory of a device is a file in memory that is mapped twice.  The program gets the addresses
 *    of a mapping that nobody may access: an access that is no call of this driver is a SIGSEGV.
 *  - Kernels and asynchronous copies are done late, when somebody waits for them, and in the order
 *    of their streams: who does not wait gets old bytes.
 *  - An error in a kernel is sticky: from then on each call of the process returns it.
 *  - A wait for the context while a graph is captured breaks the capture.  So does what allocates,
 *    pins or loads, unless the thread is in the relaxed mode.
 *
 * fakecuda_memory.c has the memory, fakecuda_kernels.c and fakecuda_ptx.c the kernels, and
 * fakecuda_faults.c the errors that the environment asks for. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fakecuda_inside.h"

enum { DEVICES = 2, WORK = 4096, STREAMS = 256 };
enum { CONTEXTS = 8, DEPTH = 16 };

struct event {
    struct stream *stream;
    unsigned long long upto; /* the last work of the stream before the event */
};

pthread_mutex_t fakecuda_lock = PTHREAD_MUTEX_INITIALIZER;
static struct context contexts[CONTEXTS] = { { 0 }, { 1 } }; /* the first ones are primary */
static int ncontexts = DEVICES;
static struct work queue[WORK];
static int nqueue;
static unsigned long long nworks;
static struct stream *captured, *all_streams[STREAMS];
static int nstreams;
static _Thread_local int capture_mode; /* 0: global */
int fakecuda_owner, fakecuda_sticky;
static _Thread_local struct context *stack[DEPTH];
static _Thread_local int depth;

struct context *fakecuda_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

struct context *fakecuda_primary(void)
{
    return &contexts[0];
}

bool fakecuda_is_unsafe(void)
{
    enum { RELAXED = 2 };
    if (captured && capture_mode != RELAXED)
        captured->broken = true;
    return captured && capture_mode != RELAXED;
}

static bool is_stream(const struct stream *s)
{
    int i = 0;
    while (i < nstreams && all_streams[i] != s)
        i++;
    return !s || i < nstreams;
}

/* ---- contexts and streams -------------------------------------------------------------- */

int cuInit(unsigned flags)
{
    (void)flags;
    BEGIN();
    return OK;
}

int cuDeviceGetCount(int *n)
{
    BEGIN();
    *n = DEVICES;
    return OK;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    BEGIN();
    (void)snprintf(name, (size_t)bytes, "no device %d", device);
    return OK;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    BEGIN();
    *bytes = (size_t)1 << 30;
    return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    BEGIN();
    *context = &contexts[device];
    return OK;
}

int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
    (void)flags;
    BEGIN();
    contexts[ncontexts].device = device;
    *context = &contexts[ncontexts++];
    stack[depth++] = *context;
    return OK;
}

int cuCtxSetCurrent(void *context)
{
    BEGIN();
    if (depth == 0)
        depth = 1;
    stack[depth - 1] = context;
    return OK;
}

int cuCtxPushCurrent_v2(void *context)
{
    stack[depth++] = context;
    return OK;
}

int cuCtxPopCurrent_v2(void **context)
{
    if (depth == 0)
        return INVALID_CONTEXT;
    *context = stack[--depth];
    return OK;
}

int cuStreamCreate(void **stream, unsigned flags)
{
    BEGIN();
    if (!fakecuda_current())
        return INVALID_CONTEXT;
    struct stream *s = calloc(1, sizeof *s);
    if (!s || nstreams == STREAMS)
        abort();
    all_streams[nstreams++] = s;
    *s = (struct stream){ .context = fakecuda_current(), .blocking = (flags & 1) == 0 };
    *stream = s;
    return OK;
}

/* ---- work ------------------------------------------------------------------------------ */

/* Whether a has to wait for b, which came before it. */
static bool waits_for(const struct work *a, const struct work *b)
{
    if (a->context != b->context)
        return false;
    return a->stream == b->stream || (!a->stream && b->stream->blocking)
           || (!b->stream && a->stream->blocking);
}

static void copy(const struct work *w)
{
    fakecuda_copy(w->to, w->from, w->bytes);
}

static void copy_wrong(const struct work *w)
{
    copy(w);
    *((char *)w->to + w->bytes / 2) ^= 4;
}

static void run_needed(void)
{
    int left = 0;
    for (int i = 0; i < nqueue; i++) {
        const struct work w = queue[i];
        if (!w.needed)
            queue[left++] = w;
        else if (fakecuda_sticky == OK)
            w.kernel(&w);
    }
    nqueue = left;
}

/* Do the work of a stream up to a number, and the work that this has to wait for. */
static void run_upto(
    const struct stream *stream, const struct context *context, unsigned long long upto)
{
    for (int i = nqueue - 1; i >= 0; i--) {
        queue[i].needed =
            queue[i].stream == stream && queue[i].context == context && queue[i].number <= upto;
        for (int j = i + 1; j < nqueue && !queue[i].needed; j++)
            queue[i].needed = queue[j].needed && waits_for(&queue[j], &queue[i]);
    }
    run_needed();
}

static void run(const struct stream *stream, const struct context *context)
{
    run_upto(stream, context, nworks);
}

void fakecuda_add(struct work w)
{
    w.number = ++nworks;
    if (nqueue == WORK) { /* a driver waits then, too */
        for (int i = 0; i < nqueue; i++)
            queue[i].needed = true;
        run_needed();
    }
    w.context = w.stream ? w.stream->context : fakecuda_current();
    queue[nqueue++] = w;
}

int cuCtxSynchronize(void)
{
    BEGIN();
    if (!fakecuda_current())
        return INVALID_CONTEXT;
    if (captured) {
        captured->broken = true;
        return CAPTURE_UNSUPPORTED;
    }
    (void)pthread_mutex_lock(&fakecuda_lock);
    for (int i = 0; i < nqueue; i++)
        queue[i].needed = queue[i].context == fakecuda_current();
    run_needed();
    (void)pthread_mutex_unlock(&fakecuda_lock);
    return fakecuda_sticky;
}

int cuStreamSynchronize(void *stream)
{
    BEGIN();
    struct stream *s = stream;
    if (!is_stream(s))
        return INVALID_HANDLE;
    if (s && s->capturing) {
        s->broken = true;
        return CAPTURE_UNSUPPORTED;
    }
    (void)pthread_mutex_lock(&fakecuda_lock);
    run(s, s ? s->context : fakecuda_current());
    (void)pthread_mutex_unlock(&fakecuda_lock);
    return fakecuda_sticky;
}

int cuStreamQuery(void *stream)
{
    BEGIN();
    for (int i = 0; i < nqueue; i++)
        if (queue[i].stream == stream)
            return NOT_READY;
    return OK;
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    (void)mode;
    BEGIN();
    captured = stream;
    captured->capturing = true;
    return OK;
}

int cuStreamEndCapture(void *stream, void **graph)
{
    BEGIN();
    struct stream *s = stream;
    *graph = NULL;
    captured = NULL;
    s->capturing = false;
    return s->broken ? CAPTURE_INVALIDATED : OK;
}

int cuStreamIsCapturing(void *stream, int *status)
{
    BEGIN();
    const struct stream *s = stream;
    if (!is_stream(s))
        return INVALID_HANDLE;
    if (!s && captured && captured->blocking)
        return CAPTURE_IMPLICIT;
    *status = s && s->capturing;
    return OK;
}

int cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    BEGIN();
    *event = calloc(1, sizeof(struct event));
    return *event ? OK : OUT_OF_MEMORY;
}

int cuEventRecord(void *event, void *stream)
{
    BEGIN();
    struct event *e = event;
    e->stream = stream;
    e->upto = nworks;
    return OK;
}

int cuEventSynchronize(void *event)
{
    BEGIN();
    const struct event *e = event;
    (void)pthread_mutex_lock(&fakecuda_lock);
    run_upto(e->stream, e->stream->context, e->upto);
    (void)pthread_mutex_unlock(&fakecuda_lock);
    return fakecuda_sticky;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    const int old = capture_mode;
    capture_mode = *mode;
    *mode = old;
    return OK;
}

static int copy_out(void *to, CUdeviceptr from, size_t bytes, struct stream *stream, bool may_flip)
{
    void *h = fakecuda_host_of(to, bytes);
    const void *d = fakecuda_real_of(from, bytes);
    if (!h || !d)
        return INVALID_VALUE;
    (void)pthread_mutex_lock(&fakecuda_lock);
    fakecuda_add((struct work){ .stream = stream,
        .kernel = may_flip && fakecuda_flips(bytes) ? copy_wrong : copy,
        .to = h,
        .from = d,
        .bytes = bytes });
    (void)pthread_mutex_unlock(&fakecuda_lock);
    return OK;
}

static int copy_in(CUdeviceptr to, const void *from, size_t bytes, struct stream *stream)
{
    const void *h = fakecuda_host_of(from, bytes);
    void *d = fakecuda_real_of(to, bytes);
    if (!h || !d)
        return INVALID_VALUE;
    (void)pthread_mutex_lock(&fakecuda_lock);
    fakecuda_add(
        (struct work){ .stream = stream, .kernel = copy, .to = d, .from = h, .bytes = bytes });
    (void)pthread_mutex_unlock(&fakecuda_lock);
    return OK;
}

int cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, void *stream)
{
    BEGIN();
    return copy_out(to, from, bytes, stream, true);
}

int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream)
{
    BEGIN();
    return copy_in(to, from, bytes, stream);
}

int cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream)
{
    BEGIN();
    void *d = fakecuda_real_of(to, bytes);
    const void *s = fakecuda_real_of(from, bytes);
    if (!d || !s)
        return INVALID_VALUE;
    (void)pthread_mutex_lock(&fakecuda_lock);
    fakecuda_add(
        (struct work){ .stream = stream, .kernel = copy, .to = d, .from = s, .bytes = bytes });
    (void)pthread_mutex_unlock(&fakecuda_lock);
    return OK;
}

int cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    BEGIN();
    int code = copy_out(to, from, bytes, NULL, false);
    return code == OK ? cuStreamSynchronize(NULL) : code;
}

int cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    BEGIN();
    int code = copy_in(to, from, bytes, NULL);
    return code == OK ? cuStreamSynchronize(NULL) : code;
}
