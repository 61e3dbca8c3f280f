/* Memory of a device, of CUDA or of HIP (see memory_kind.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * HIP has the same calls as the driver of CUDA here (hip.h), so "driver" and "CUDA" stand for both.
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
#include "cuda_sums.h"
#include "ftk.h"
#include "hip.h"
#include "memory_kind.h"

/* Each driver that a program may have. */
enum { DRIVERS = 2 };
static const struct ftk_cuda *(*const find[DRIVERS])(void) = { ftk_cuda_find, ftk_hip_find };
/* Those that present() has found.  Only present() looks for a driver: a look takes microseconds. */
static _Atomic(const struct ftk_cuda *) known[DRIVERS];

/* Where memory is. */
struct place {
    const struct ftk_cuda *cuda;
    void *context; /* NULL: of the device's primary context */
    int device;
};

/* The streams of this process, one for each context in use, and events behind the last copies out
 * of each.  They are never destroyed: contexts outlive ftkit_close(). */
enum { STREAMS = 64 };
struct stream {
    const struct ftk_cuda *cuda;
    void *context, *stream;
    void *event[FTK_MEMORY_AHEAD]; /* NULL: not made yet */
    struct ftk_cuda_sums sums;     /* of one thread at a time, as the copies that are begun */
};
static struct {
    pthread_mutex_t lock;
    struct stream of[STREAMS];
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
    const ftk_cuda_address address = (ftk_cuda_address)(uintptr_t)p;
    bool found = false;
    for (int i = 0; p && !found && i < DRIVERS; i++) {
        unsigned type = 0;
        *at = (struct place){ .cuda = atomic_load_explicit(&known[i], memory_order_acquire) };
        void *to[] = { &type, &at->context, &at->device };
        found = at->cuda && at->cuda->pointer_attributes(3, which, to, address) == CUDA_OK
                && type == CUDA_MEMORY_DEVICE;
    }
    return found;
}

/* After an error of a call: has the context, which is current, ended? */
static int failed(const struct place *at, const char *call, int code)
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
                           : ftk_fail(FTKIT_ERR_IO, "the context of a device: %s error %d (%s)",
                               at->cuda->is, code, name_of(at->cuda, code));
}

static void leave(const struct place *at)
{
    void *context;
    (void)at->cuda->pop(&context); /* it was pushed: it is there */
}

/* While the program captures a graph, a thread may pin or allocate memory and load kernels in the
 * relaxed mode only.  Returns the mode for restrict_to(). */
static int relax(const struct place *at)
{
    int mode = CUDA_CAPTURE_RELAXED;
    return at->cuda->exchange_capture_mode(&mode) == CUDA_OK ? mode : CUDA_CAPTURE_RELAXED;
}

static void restrict_to(const struct place *at, int mode)
{
    if (mode != CUDA_CAPTURE_RELAXED)
        (void)at->cuda->exchange_capture_mode(&mode); /* as it was */
}

/* The stream of the current context, made at its first use. */
static int stream_of(const struct place *at, struct stream **out)
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
            rc = failed(at, "cuStreamCreate", code);
    }
    if (rc == FTKIT_OK)
        *out = &streams.of[i];
    (void)pthread_mutex_unlock(&streams.lock);
    return rc;
}

/* ---- the operations ------------------------------------------------------------------ */

static bool present(void)
{
    bool any = false;
    for (int i = 0; i < DRIVERS; i++) {
        const struct ftk_cuda *cuda = find[i]();
        atomic_store_explicit(&known[i], cuda, memory_order_release);
        any = any || cuda;
    }
    return any;
}

static bool owns(const void *p)
{
    struct place at;
    return find_place(p, &at);
}

/* Managed memory. */
static bool is_shared(const void *p)
{
    static const int which[] = { CUDA_OF_MANAGED };
    unsigned managed = 0;
    void *to[] = { &managed };
    struct place at;
    return find_place(p, &at)
           && at.cuda->pointer_attributes(1, which, to, (ftk_cuda_address)(uintptr_t)p) == CUDA_OK
           && managed;
}

/* Begin a copy between the device and host memory, on the stream of the context of `device`, the
 * one of the two addresses that the device has. */
static int begin(void *to, const void *from, size_t bytes, const void *device, struct place *at,
    struct stream **on)
{
    int code;
    int rc = enter(device, at);
    if (rc != FTKIT_OK)
        return rc;
    rc = stream_of(at, on);
    if (rc == FTKIT_OK) {
        void *stream = (*on)->stream;
        code = device == from
                   ? at->cuda->copy_out(to, (ftk_cuda_address)(uintptr_t)from, bytes, stream)
                   : at->cuda->copy_in((ftk_cuda_address)(uintptr_t)to, from, bytes, stream);
        if (code != CUDA_OK)
            rc = failed(
                at, device == from ? "a copy from the device" : "a copy to the device", code);
    }
    if (rc != FTKIT_OK)
        leave(at);
    return rc;
}

/* Wait for the copies of a stream, whose context is current. */
static int await_all(const struct place *at, const struct stream *on)
{
    const int code = at->cuda->stream_synchronize(on->stream);
    return code == CUDA_OK ? FTKIT_OK : failed(at, "a copy between the device and its host", code);
}

static int copy(void *to, const void *from, size_t bytes, const void *device)
{
    struct place at;
    struct stream *on = NULL;
    int rc = begin(to, from, bytes, device, &at, &on);
    if (rc != FTKIT_OK)
        return rc;
    rc = await_all(&at, on);
    leave(&at);
    return rc;
}

static int copy_out(void *to, const void *from, size_t bytes)
{
    return copy(to, from, bytes, from);
}

static int copy_in(void *to, const void *from, size_t bytes)
{
    return copy(to, from, bytes, to);
}

/* ---- copies that are begun ------------------------------------------------------------- */

/* Where the copies with the last numbers are.  A set is packed by one thread at a time. */
static struct {
    struct {
        struct place at;
        struct stream *on;
    } of[FTK_MEMORY_AHEAD];
    unsigned next;
} ahead;

/* An event behind the work of the stream so far. */
static int record(const struct place *at, struct stream *on, unsigned number)
{
    const unsigned i = number % FTK_MEMORY_AHEAD;
    int code = CUDA_OK;
    if (!on->event[i])
        code = at->cuda->event_create(&on->event[i], CUDA_EVENT_DISABLE_TIMING);
    if (code == CUDA_OK)
        code = at->cuda->event_record(on->event[i], on->stream);
    ahead.of[i].at = *at;
    ahead.of[i].on = on;
    return code == CUDA_OK ? FTKIT_OK : failed(at, "a copy from the device", code);
}

static int begin_out(void *to, const void *from, size_t bytes, unsigned *number)
{
    struct place at;
    struct stream *on = NULL;
    int rc = begin(to, from, bytes, from, &at, &on);
    if (rc != FTKIT_OK)
        return rc;
    *number = ahead.next++;
    rc = record(&at, on, *number);
    if (rc != FTKIT_OK) /* nobody can wait for this copy later */
        (void)await_all(&at, on);
    leave(&at);
    return rc;
}

static int begin_in(void *to, const void *from, size_t bytes)
{
    struct place at;
    struct stream *on = NULL;
    int rc = begin(to, from, bytes, to, &at, &on);
    if (rc == FTKIT_OK)
        leave(&at);
    return rc;
}

/* Whether a kernel may read these bytes.  A copy that the driver refuses is an error of one call;
 * an access of a kernel to memory that is not there ends the context.  So the bytes have to be of
 * one allocation that the driver knows.  A range of addresses that was reserved may have holes: its
 * memory has neither a context nor a pool.  Pages of managed memory would move to the device. */
static bool is_readable(const struct ftk_cuda *cuda, const void *from, size_t bytes)
{
    static const int which[] = { CUDA_OF_MANAGED, CUDA_OF_CONTEXT, CUDA_OF_POOL,
        CUDA_OF_RANGE_START, CUDA_OF_RANGE_BYTES };
    const ftk_cuda_address p = (ftk_cuda_address)(uintptr_t)from;
    unsigned managed = 0;
    void *context = NULL, *pool = NULL;
    ftk_cuda_address first = 0;
    size_t all = 0;
    void *to[] = { &managed, &context, &pool, &first, &all };
    return cuda->pointer_attributes(5, which, to, p) == CUDA_OK && !managed && (context || pool)
           && p >= first && p - first <= all && bytes <= all - (p - first);
}

static int begin_sums(const void *from, size_t block_bytes, size_t n, uint64_t *sums, bool *begun)
{
    struct place at;
    struct stream *on = NULL;
    int rc = enter(from, &at);
    *begun = false;
    if (rc != FTKIT_OK)
        return rc;
    rc = stream_of(&at, &on);
    if (rc == FTKIT_OK && at.cuda->launch && ftk_cuda_sums_can(&on->sums, from, block_bytes)
        && is_readable(at.cuda, from, n * block_bytes)) {
        const int mode = relax(&at);
        const int code = ftk_cuda_sums_begin(at.cuda, on->stream, &on->sums,
            (ftk_cuda_address)(uintptr_t)from, block_bytes, n, sums);
        restrict_to(&at, mode);
        *begun = code == CUDA_OK;
        if (code > CUDA_OK) {
            rc = failed(&at, "checksums by the device", code);
            rc = atomic_load(&lost_by) == CUDA_OK ? FTKIT_OK : rc;
        }
    }
    leave(&at);
    return rc;
}

static int await(unsigned number)
{
    const unsigned i = number % FTK_MEMORY_AHEAD;
    const struct place *at = &ahead.of[i].at;
    const int code = at->cuda->event_synchronize(ahead.of[i].on->event[i]);
    if (code == CUDA_OK)
        return FTKIT_OK;
    if (at->cuda->push(at->context) != CUDA_OK)
        return ftk_fail(FTKIT_ERR_IO, "a copy from the device: %s error %d", at->cuda->is, code);
    const int rc = failed(at, "a copy from the device", code);
    leave(at);
    return rc;
}

static int finish(const void *p)
{
    struct place at;
    struct stream *on = NULL;
    int rc = enter(p, &at);
    if (rc != FTKIT_OK)
        return rc;
    rc = stream_of(&at, &on);
    if (rc == FTKIT_OK)
        rc = await_all(&at, on);
    leave(&at);
    return rc;
}

/* ---- pinned memory --------------------------------------------------------------------- */

static void *pinned_by[DRIVERS]; /* a context that has pinned memory, for all of its driver */

static bool pin(void *at, size_t bytes, const void *like)
{
    struct place p;
    if (enter(like, &p) != FTKIT_OK)
        return false;
    const int mode = relax(&p);
    const bool pinned = p.cuda->host_register(at, bytes, CUDA_HOST_PORTABLE) == CUDA_OK;
    restrict_to(&p, mode);
    for (int i = 0; i < DRIVERS; i++)
        if (pinned && atomic_load(&known[i]) == p.cuda)
            pinned_by[i] = p.context;
    leave(&p);
    return pinned;
}

/* The program may have reset its device, and the memory with that: then there is nothing to
 * release. */
static bool unpin_by(const struct ftk_cuda *cuda, void *context, void *at)
{
    const struct place p = { .cuda = cuda, .context = context };
    const bool pushed = cuda->push(context) == CUDA_OK;
    const int mode = relax(&p);
    const int code = cuda->host_unregister(at);
    restrict_to(&p, mode);
    if (pushed)
        leave(&p);
    return code == CUDA_OK || code == CUDA_DEINITIALIZED || code == CUDA_CONTEXT_IS_DESTROYED
           || code == CUDA_NOT_REGISTERED;
}

/* Any thread may call it, with or without a context of its own.  Nobody knows which driver has
 * pinned this memory, and a driver that has not does nothing. */
static bool unpin(void *at)
{
    bool done = true;
    for (int i = 0; i < DRIVERS; i++)
        done &= !pinned_by[i] || unpin_by(atomic_load(&known[i]), pinned_by[i], at);
    return done;
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

/* Wait for the current context.  none: there may be no current context. */
static int wait_here(const struct place *at, bool none)
{
    int code = is_capturing(at) ? CUDA_CAPTURE_IMPLICIT : at->cuda->synchronize();
    if (code == CUDA_OK || (none && code == CUDA_INVALID_CONTEXT))
        return FTKIT_OK;
    if (code == CUDA_CAPTURE_IMPLICIT || code == CUDA_CAPTURE_UNSUPPORTED)
        return ftk_fail(FTKIT_ERR_STATE,
            "a graph is being captured: end the capture before the call%s",
            code == CUDA_CAPTURE_UNSUPPORTED ? " (this capture is broken now)" : "");
    return failed(at, "the work of the program", code);
}

/* Whether a stream may be waited for. */
static int check_here(const struct place *at, void *stream)
{
    int status = CUDA_NOT_CAPTURING;
    const int code = at->cuda->stream_is_capturing(stream, &status);
    if (code == CUDA_INVALID_HANDLE || code == CUDA_CONTEXT_IS_DESTROYED)
        return ftk_fail(FTKIT_ERR_ARG, "%p is no stream: %s error %d", stream, at->cuda->is, code);
    if (code != CUDA_OK)
        return failed(at, "a stream", code);
    return status == CUDA_NOT_CAPTURING ? FTKIT_OK
                                        : ftk_fail(FTKIT_ERR_STATE,
                                            "a graph is being captured: end the capture on stream "
                                            "%p before the call",
                                            stream);
}

static int check_stream(const void *p, void *stream)
{
    struct place at;
    int rc = enter(p, &at);
    if (rc != FTKIT_OK)
        return rc;
    rc = check_here(&at, stream);
    leave(&at);
    return rc;
}

/* The driver waits for a stream of any context, and for no other work. */
static int wait_for_stream(const void *p, void *stream)
{
    struct place at;
    int rc = enter(p, &at);
    if (rc != FTKIT_OK)
        return rc;
    rc = check_here(&at, stream);
    const int code = rc == FTKIT_OK ? at.cuda->stream_synchronize(stream) : CUDA_OK;
    if (code != CUDA_OK)
        rc = failed(&at, "the work of the program", code);
    leave(&at);
    return rc;
}

/* Memory of a pool, and managed memory, may be in use by another context than the one that the
 * driver names.  So this waits for the thread's context and for all contexts in use, too. */
static int wait_for(const void *p, void *stream)
{
    struct place at;
    if (stream)
        return wait_for_stream(p, stream);
    int rc = find_place(p, &at) ? wait_here(&at, true) : FTKIT_OK; /* enter() refuses it */
    if (rc == FTKIT_OK)
        rc = enter(p, &at);
    if (rc != FTKIT_OK)
        return rc;
    rc = wait_here(&at, false);
    leave(&at);
    const int n = atomic_load(&streams.n);
    for (int i = 0; rc == FTKIT_OK && i < n; i++) {
        const struct place other = { .cuda = streams.of[i].cuda, .context = streams.of[i].context };
        if (other.context == at.context || other.cuda->push(other.context) != CUDA_OK)
            continue; /* the program has destroyed that context */
        rc = wait_here(&other, false);
        leave(&other);
    }
    return rc;
}

/* An error that has not ended a context is the matter of the next set. */
static int check(void)
{
    const int n = atomic_load(&streams.n);
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < n; i++) {
        struct place at = { .cuda = streams.of[i].cuda, .context = streams.of[i].context };
        int code = at.cuda->stream_query(streams.of[i].stream);
        if (code == CUDA_OK || code == CUDA_NOT_READY || at.cuda->push(at.context) != CUDA_OK)
            continue; /* push: the program has destroyed the context, and all of its memory */
        rc = failed(&at, "the work of the program", code);
        rc = atomic_load(&lost_by) == CUDA_OK ? FTKIT_OK : rc;
        leave(&at);
    }
    return rc;
}

static bool lost(void)
{
    return atomic_load(&lost_by) != CUDA_OK;
}

const struct ftk_memory_ops ftk_memory_device = { .name = "device",
    .present = present,
    .owns = owns,
    .is_shared = is_shared,
    .copy_out = copy_out,
    .copy_in = copy_in,
    .sum = sum,
    .wait = wait_for,
    .check_stream = check_stream,
    .begin_out = begin_out,
    .begin_in = begin_in,
    .begin_sums = begin_sums,
    .await = await,
    .finish = finish,
    .pin = pin,
    .unpin = unpin,
    .check = check,
    .lost = lost };
