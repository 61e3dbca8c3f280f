/* Memory of a device of CUDA (see memory_kind.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The driver is asked about an address at each use: memory that was freed and allocated again has
 * the same address, so a table of our own would lie.  An answer takes 50 to 150 ns.
 *
 * Copies use a stream of our own for each context.  Such a stream does not wait for the streams of
 * the program, so wait() comes first: in a set, and in a restore.
 *
 * An error in a kernel ends the context: each later call returns the error, and only the end of the
 * process helps.  After each error of a call this file therefore asks whether the context has
 * ended. */
#include <pthread.h>
#include <stdatomic.h>

#include "cuda.h"
#include "ftk.h"
#include "memory_kind.h"

/* Where memory is. */
struct place {
    const struct ftk_cuda *cuda;
    void *context; /* NULL: of the device's primary context */
    int device;
};

/* The streams of this process, one for each context in use.  They are never destroyed: contexts
 * outlive ftkit_close(). */
enum { STREAMS = 64 };
static struct {
    pthread_mutex_t lock;
    void *context[STREAMS], *stream[STREAMS];
    _Atomic int n;
} streams = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Atomic int lost_by; /* the error that has ended a context; 0: none */

static const char *name_of(const struct ftk_cuda *cuda, int code)
{
    const char *name = NULL;
    return cuda->error_name(code, &name) == CUDA_OK && name ? name : "unknown error";
}

static bool find_place(const void *p, struct place *at)
{
    static const int which[] = { CUDA_OF_MEMORY_TYPE, CUDA_OF_CONTEXT, CUDA_OF_DEVICE };
    unsigned type = 0;
    *at = (struct place){ .cuda = ftk_cuda_find() };
    void *to[] = { &type, &at->context, &at->device };
    return p && at->cuda
           && at->cuda->pointer_attributes(3, which, to, (ftk_cuda_address)(uintptr_t)p) == CUDA_OK
           && type == CUDA_MEMORY_DEVICE;
}

/* After an error of a call: has the context, which is current, ended? */
static int failed(const struct place *at, const char *call, int code)
{
    int now = at->cuda->synchronize();
    if (now == CUDA_OK || now == CUDA_CAPTURE_UNSUPPORTED)
        return ftk_fail(
            FTKIT_ERR_IO, "%s: CUDA error %d (%s)", call, code, name_of(at->cuda, code));
    atomic_store(&lost_by, now);
    return ftk_fail(FTKIT_ERR_IO,
        "%s: CUDA error %d (%s): the context of the device has ended, and with it all memory of "
        "this process there",
        call, now, name_of(at->cuda, now));
}

/* Make the context of the memory current; every success needs leave(). */
static int enter(const void *p, struct place *at)
{
    if (!find_place(p, at))
        return ftk_fail(FTKIT_ERR_ARG, "%p is no memory of a device any more", p);
    int code = CUDA_OK;
    if (!at->context) /* memory of a pool: each context of the device may use it */
        code = at->cuda->primary_context(&at->context, at->device);
    if (code == CUDA_OK)
        code = at->cuda->push(at->context);
    return code == CUDA_OK ? FTKIT_OK
                           : ftk_fail(FTKIT_ERR_IO, "the context of a device: CUDA error %d (%s)",
                               code, name_of(at->cuda, code));
}

static void leave(const struct place *at)
{
    void *context;
    (void)at->cuda->pop(&context); /* it was pushed: it is there */
}

/* The stream of the current context, made at its first use. */
static int stream_of(const struct place *at, void **stream)
{
    int rc = FTKIT_OK, i = 0;
    (void)pthread_mutex_lock(&streams.lock); /* it cannot fail */
    const int n = atomic_load(&streams.n);
    while (i < n && streams.context[i] != at->context)
        i++;
    if (i == STREAMS) {
        rc = ftk_fail(FTKIT_ERR_UNSUPPORTED, "memory of more than %d contexts of devices", STREAMS);
    } else if (i == n) {
        int code = at->cuda->stream_create(&streams.stream[i], CUDA_STREAM_NON_BLOCKING);
        streams.context[i] = at->context;
        if (code == CUDA_OK)
            atomic_store(&streams.n, n + 1);
        else
            rc = failed(at, "cuStreamCreate", code);
    }
    if (rc == FTKIT_OK)
        *stream = streams.stream[i];
    (void)pthread_mutex_unlock(&streams.lock);
    return rc;
}

/* ---- the operations ------------------------------------------------------------------ */

static bool present(void)
{
    return ftk_cuda_find() != NULL;
}

static bool owns(const void *p)
{
    struct place at;
    return find_place(p, &at);
}

/* Begin a copy between the device and host memory, on the stream of the context of `device`, the
 * one of the two addresses that the device has. */
static int begin(
    void *to, const void *from, size_t bytes, const void *device, struct place *at, void **stream)
{
    int code;
    int rc = enter(device, at);
    if (rc != FTKIT_OK)
        return rc;
    rc = stream_of(at, stream);
    if (rc == FTKIT_OK) {
        code = device == from
                   ? at->cuda->copy_out(to, (ftk_cuda_address)(uintptr_t)from, bytes, *stream)
                   : at->cuda->copy_in((ftk_cuda_address)(uintptr_t)to, from, bytes, *stream);
        if (code != CUDA_OK)
            rc = failed(
                at, device == from ? "a copy from the device" : "a copy to the device", code);
    }
    if (rc != FTKIT_OK)
        leave(at);
    return rc;
}

/* Wait for the copies of a stream; the context is current. */
static int end(const struct place *at, void *stream)
{
    const int code = at->cuda->stream_synchronize(stream);
    const int rc =
        code == CUDA_OK ? FTKIT_OK : failed(at, "a copy between the device and its host", code);
    leave(at);
    return rc;
}

static int copy_out(void *to, const void *from, size_t bytes)
{
    struct place at;
    void *stream = NULL;
    int rc = begin(to, from, bytes, from, &at, &stream);
    return rc == FTKIT_OK ? end(&at, stream) : rc;
}

static int copy_in(void *to, const void *from, size_t bytes)
{
    struct place at;
    void *stream = NULL;
    int rc = begin(to, from, bytes, to, &at, &stream);
    return rc == FTKIT_OK ? end(&at, stream) : rc;
}

/* ---- copies that are begun ------------------------------------------------------------- */

/* The events behind the last copies out.  A set is packed by one thread at a time. */
static struct {
    struct {
        struct place at;
        void *event; /* of this context; made again for another one */
        void *stream;
    } of[FTK_MEMORY_AHEAD];
    unsigned next;
} ahead;

/* An event behind the work of the stream so far. */
static int record(const struct place *at, void *stream, unsigned number)
{
    const unsigned i = number % FTK_MEMORY_AHEAD;
    int code = CUDA_OK;
    if (!ahead.of[i].event || ahead.of[i].at.context != at->context)
        code = at->cuda->event_create(&ahead.of[i].event, CUDA_EVENT_DISABLE_TIMING);
    if (code == CUDA_OK)
        code = at->cuda->event_record(ahead.of[i].event, stream);
    ahead.of[i].at = *at;
    ahead.of[i].stream = stream;
    return code == CUDA_OK ? FTKIT_OK : failed(at, "a copy from the device", code);
}

static int begin_out(void *to, const void *from, size_t bytes, unsigned *number)
{
    struct place at;
    void *stream = NULL;
    int rc = begin(to, from, bytes, from, &at, &stream);
    if (rc != FTKIT_OK)
        return rc;
    *number = ahead.next++;
    rc = record(&at, stream, *number);
    leave(&at);
    return rc;
}

static int begin_in(void *to, const void *from, size_t bytes)
{
    struct place at;
    void *stream = NULL;
    int rc = begin(to, from, bytes, to, &at, &stream);
    if (rc == FTKIT_OK)
        leave(&at);
    return rc;
}

static int await(unsigned number)
{
    const struct place *at = &ahead.of[number % FTK_MEMORY_AHEAD].at;
    const int code = at->cuda->event_synchronize(ahead.of[number % FTK_MEMORY_AHEAD].event);
    if (code == CUDA_OK)
        return FTKIT_OK;
    if (at->cuda->push(at->context) != CUDA_OK)
        return ftk_fail(FTKIT_ERR_IO, "a copy from the device: CUDA error %d", code);
    const int rc = failed(at, "a copy from the device", code);
    leave(at);
    return rc;
}

static int finish(const void *p)
{
    struct place at;
    void *stream = NULL;
    int rc = enter(p, &at);
    if (rc != FTKIT_OK)
        return rc;
    rc = stream_of(&at, &stream);
    if (rc == FTKIT_OK)
        return end(&at, stream);
    leave(&at);
    return rc;
}

/* ---- pinned memory --------------------------------------------------------------------- */

/* While the program captures a graph, a thread may pin memory in the relaxed mode only. */
static bool pin(void *at, size_t bytes, const void *like)
{
    struct place p;
    int mode = CUDA_CAPTURE_RELAXED;
    if (enter(like, &p) != FTKIT_OK)
        return false;
    const bool relaxed = p.cuda->exchange_capture_mode(&mode) == CUDA_OK;
    const bool pinned = p.cuda->host_register(at, bytes, CUDA_HOST_PORTABLE) == CUDA_OK;
    if (relaxed)
        (void)p.cuda->exchange_capture_mode(&mode); /* as it was */
    leave(&p);
    return pinned;
}

/* The program may have reset its device, and the memory with that: then there is nothing to do. */
static void unpin(void *at)
{
    (void)ftk_cuda_find()->host_unregister(at);
}

static int sum(const void *from, size_t bytes, uint64_t seed, uint64_t *out)
{
    char *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return ftk_fail(FTKIT_ERR_NOMEM, "%zu bytes for memory of a device", bytes);
    int rc = bytes > 0 ? copy_out(copy, from, bytes) : FTKIT_OK;
    if (rc == FTKIT_OK)
        *out = ftk_xxh3_seed(copy, bytes, seed);
    free(copy);
    return rc;
}

/* Whether a graph is being captured in the current context: then a wait would break the capture.
 * The driver answers for the streams that wait for its stream NULL; a capture of another one is
 * seen by the wait itself. */
static bool is_capturing(const struct place *at)
{
    int status = CUDA_NOT_CAPTURING;
    int code = at->cuda->stream_is_capturing(NULL, &status);
    return code == CUDA_CAPTURE_IMPLICIT || (code == CUDA_OK && status != CUDA_NOT_CAPTURING);
}

static int wait_for(const void *p)
{
    struct place at;
    int rc = enter(p, &at);
    if (rc != FTKIT_OK)
        return rc;
    int code = is_capturing(&at) ? CUDA_CAPTURE_IMPLICIT : at.cuda->synchronize();
    if (code == CUDA_CAPTURE_IMPLICIT || code == CUDA_CAPTURE_UNSUPPORTED)
        rc = ftk_fail(FTKIT_ERR_STATE,
            "a graph is being captured: end the capture before the call%s",
            code == CUDA_CAPTURE_UNSUPPORTED ? " (this capture is broken now)" : "");
    else if (code != CUDA_OK)
        rc = failed(&at, "the work of the program", code);
    leave(&at);
    return rc;
}

static int check(void)
{
    const int n = atomic_load(&streams.n);
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < n; i++) {
        struct place at = { .cuda = ftk_cuda_find(), .context = streams.context[i] };
        int code = at.cuda->stream_query(streams.stream[i]);
        if (code == CUDA_OK || code == CUDA_NOT_READY)
            continue;
        if (at.cuda->push(at.context) != CUDA_OK)
            continue; /* the program has destroyed the context, and all of its memory */
        rc = failed(&at, "the work of the program", code);
        leave(&at);
    }
    return rc;
}

static bool lost(void)
{
    return atomic_load(&lost_by) != CUDA_OK;
}

const struct ftk_memory_ops ftk_memory_cuda = { .name = "CUDA device",
    .present = present,
    .owns = owns,
    .copy_out = copy_out,
    .copy_in = copy_in,
    .sum = sum,
    .wait = wait_for,
    .begin_out = begin_out,
    .begin_in = begin_in,
    .await = await,
    .finish = finish,
    .pin = pin,
    .unpin = unpin,
    .check = check,
    .lost = lost };
