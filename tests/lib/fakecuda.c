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
 *  - Freed memory looks like host memory, and its addresses come back.  Memory of a pool names no
 *    context.  In a child process every look-up fails.
 *  - Host memory that is registered is copied by its pages of that time, not by its address: who
 *    maps other pages there without unregistering gets old bytes.
 *
 * FAKECUDA_LOG=FILE  at its end each process writes its registrations, and how many kernels in PTX
 *                    it has run.  fakecuda_faults.c has other variables. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fakecuda_inside.h"

enum { DEVICES = 2, BLOCKS = 4096, WORK = 4096, RANGES = 256, STREAMS = 256 };
enum { CONTEXTS = 8, DEPTH = 16 };

struct block {
    char *seen, *real;
    size_t bytes;
    struct context *context; /* NULL: of a pool, or of a range that was reserved */
    int device;
    bool pool, managed, freed;
};
struct event {
    struct stream *stream;
    unsigned long long upto; /* the last work of the stream before the event */
};
struct range {
    char *at, *alias;
    size_t bytes;
};

pthread_mutex_t fakecuda_lock = PTHREAD_MUTEX_INITIALIZER;
static struct context contexts[CONTEXTS] = { { 0 }, { 1 } }; /* the first ones are primary */
static int ncontexts = DEVICES;
static struct block blocks[BLOCKS];
static int nblocks;
static struct work queue[WORK];
static int nqueue;
static unsigned long long nworks;
static struct range ranges[RANGES];
static int nranges, registered, unregistered;
static struct stream *captured, *all_streams[STREAMS];
static int nstreams;
static _Thread_local int capture_mode; /* 0: global */
int fakecuda_owner, fakecuda_sticky;
static _Thread_local struct context *stack[DEPTH];
static _Thread_local int depth;

static struct context *current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
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

/* ---- memory -------------------------------------------------------------------------- */

static struct block *block_at(CUdeviceptr p, size_t bytes)
{
    for (int i = 0; i < nblocks; i++) {
        const CUdeviceptr first = (CUdeviceptr)(uintptr_t)blocks[i].seen;
        if (!blocks[i].freed && p >= first && p + bytes <= first + blocks[i].bytes)
            return &blocks[i];
    }
    return NULL;
}

char *fakecuda_real_of(CUdeviceptr p, size_t bytes)
{
    const struct block *b = block_at(p, bytes);
    return b ? b->real + (p - (CUdeviceptr)(uintptr_t)b->seen) : NULL;
}

char *fakecuda_block(CUdeviceptr p, CUdeviceptr *first, size_t *bytes)
{
    const struct block *b = block_at(p, 1);
    if (!b)
        return NULL;
    *first = (CUdeviceptr)(uintptr_t)b->seen;
    *bytes = b->bytes;
    return b->real;
}

/* Host memory: the pages that were registered there, or the address itself; NULL: the bytes begin
 * in a registered range and leave it. */
static char *host_of(const void *p, size_t bytes)
{
    for (int i = 0; i < nranges; i++) {
        const struct range *r = &ranges[i];
        const char *first = p;
        if (first < r->at || first >= r->at + r->bytes)
            continue;
        return first + bytes <= r->at + r->bytes ? r->alias + (first - r->at) : NULL;
    }
    return (char *)(uintptr_t)p;
}

static struct block *old_block(size_t bytes)
{
    for (int i = 0; i < nblocks; i++)
        if (blocks[i].freed && blocks[i].bytes == bytes)
            return &blocks[i];
    return NULL;
}

static struct block *new_block(size_t bytes)
{
    int fd = memfd_create("device", MFD_CLOEXEC);
    if (nblocks == BLOCKS || fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    void *real = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    void *seen = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
    if (close(fd) != 0 || real == MAP_FAILED || seen == MAP_FAILED)
        abort();
    struct block *b = &blocks[nblocks++];
    *b = (struct block){ .seen = seen, .real = real, .bytes = bytes };
    return b;
}

static int allocate(CUdeviceptr *p, size_t bytes, struct context *context, bool pool, bool managed)
{
    if (bytes == 0 || !current())
        return bytes == 0 ? INVALID_VALUE : INVALID_CONTEXT;
    bytes = (bytes + 4095) / 4096 * 4096;
    struct block *b = old_block(bytes);
    if (!b)
        b = new_block(bytes);
    b->freed = false;
    b->context = context;
    b->pool = pool;
    b->managed = managed;
    b->device = current()->device;
    memset(b->real, 0xa5, bytes); /* as it comes */
    *p = (CUdeviceptr)(uintptr_t)b->seen;
    return OK;
}

int cuMemAlloc_v2(CUdeviceptr *p, size_t bytes)
{
    BEGIN();
    return fakecuda_is_unsafe() ? CAPTURE_UNSUPPORTED : allocate(p, bytes, current(), false, false);
}

int cuMemAllocManaged(CUdeviceptr *p, size_t bytes, unsigned flags)
{
    (void)flags;
    BEGIN();
    return allocate(p, bytes, current(), false, true);
}

/* As memory of cuMemCreate() that is mapped into a range that was reserved. */
int fakecuda_reserve(CUdeviceptr *p, size_t bytes)
{
    BEGIN();
    return allocate(p, bytes, NULL, false, false);
}

int cuMemAllocAsync(CUdeviceptr *p, size_t bytes, void *stream)
{
    (void)stream;
    BEGIN();
    return allocate(p, bytes, NULL, true, false);
}

int cuMemFree_v2(CUdeviceptr p)
{
    BEGIN();
    if (fakecuda_is_unsafe())
        return CAPTURE_UNSUPPORTED;
    struct block *b = block_at(p, 1);
    if (!b || (CUdeviceptr)(uintptr_t)b->seen != p)
        return INVALID_VALUE;
    b->freed = true;
    return OK;
}

int cuPointerGetAttributes(unsigned n, const int *which, void **to, CUdeviceptr p)
{
    if (fakecuda_owner && fakecuda_owner != getpid())
        return NOT_INITIALIZED;
    const struct block *b = block_at(p, 1);
    for (unsigned i = 0; i < n; i++) {
        if (which[i] == 1)
            *(void **)to[i] = b ? b->context : NULL;
        else if (which[i] == 2)
            *(unsigned *)to[i] = b ? 2 : 0;
        else if (which[i] == 8)
            *(unsigned *)to[i] = b && b->managed;
        else if (which[i] == 9)
            *(int *)to[i] = b ? b->device : -2;
        else if (which[i] == 11)
            *(CUdeviceptr *)to[i] = b ? (CUdeviceptr)(uintptr_t)b->seen : 0;
        else if (which[i] == 12)
            *(size_t *)to[i] = b ? b->bytes : 0;
        else if (which[i] == 17)
            *(const void **)to[i] = b && b->pool ? b : NULL;
        else
            return INVALID_VALUE;
    }
    return OK;
}

/* ---- host memory that is registered ---------------------------------------------------- */

/* The same pages at another address.  Private pages become those of a file in memory first. */
static char *alias_of(char *p, size_t bytes)
{
    void *alias = mremap(p, 0, bytes, MREMAP_MAYMOVE); /* shared mappings only */
    if (alias != MAP_FAILED)
        return alias;
    int fd = memfd_create("pinned", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (alias == MAP_FAILED)
        abort();
    memcpy(alias, p, bytes);
    if (mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != p
        || close(fd) != 0)
        abort();
    return alias;
}

bool fakecuda_is_registered(const void *p)
{
    int i = 0;
    while (i < nranges
           && ((const char *)p < ranges[i].at || (const char *)p >= ranges[i].at + ranges[i].bytes))
        i++;
    return i < nranges;
}

int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
    (void)flags;
    BEGIN();
    if (fakecuda_is_unsafe())
        return CAPTURE_UNSUPPORTED;
    if (bytes == 0 || (uintptr_t)p % 4096 != 0 || nranges == RANGES)
        return INVALID_VALUE;
    for (int i = 0; i < nranges; i++)
        if ((char *)p < ranges[i].at + ranges[i].bytes && ranges[i].at < (char *)p + bytes)
            return ALREADY_REGISTERED;
    ranges[nranges++] = (struct range){ p, alias_of(p, bytes), bytes };
    registered++;
    return OK;
}

int cuMemHostUnregister(void *p)
{
    BEGIN();
    if (!current() || fakecuda_is_unsafe())
        return current() ? CAPTURE_UNSUPPORTED : INVALID_CONTEXT;
    int i = 0;
    while (i < nranges && ranges[i].at != p)
        i++;
    if (i == nranges)
        return NOT_REGISTERED;
    (void)munmap(ranges[i].alias, ranges[i].bytes);
    ranges[i] = ranges[--nranges];
    unregistered++;
    return OK;
}

static void __attribute__((destructor)) note_ranges(void)
{
    const char *path = getenv("FAKECUDA_LOG");
    FILE *f = path && registered > 0 && fakecuda_owner == getpid() ? fopen(path, "a") : NULL;
    if (f)
        (void)fprintf(f, "%d registered %d unregistered %llu sums\n", registered, unregistered,
            fakecuda_launches);
    if (f)
        (void)fclose(f);
}

/* ---- contexts and streams -------------------------------------------------------------- */

int cuInit(unsigned flags)
{
    (void)flags;
    BEGIN();
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
    if (!current())
        return INVALID_CONTEXT;
    struct stream *s = calloc(1, sizeof *s);
    if (!s || nstreams == STREAMS)
        abort();
    all_streams[nstreams++] = s;
    *s = (struct stream){ .context = current(), .blocking = (flags & 1) == 0 };
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
    memcpy(w->to, w->from, w->bytes);
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
    w.context = w.stream ? w.stream->context : current();
    queue[nqueue++] = w;
}

int cuCtxSynchronize(void)
{
    BEGIN();
    if (!current())
        return INVALID_CONTEXT;
    if (captured) {
        captured->broken = true;
        return CAPTURE_UNSUPPORTED;
    }
    (void)pthread_mutex_lock(&fakecuda_lock);
    for (int i = 0; i < nqueue; i++)
        queue[i].needed = queue[i].context == current();
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
    run(s, s ? s->context : current());
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
    void *h = host_of(to, bytes);
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
    const void *h = host_of(from, bytes);
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
