/* Memory of a device, of CUDA or of HIP (see memory_kind.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies use a stream of our own for each context (driver.h).  Such a stream does not wait for the
 * streams of the program, so wait() comes first: in a set, and in a restore. */
#include "cuda_snapshot.h"
#include "driver.h"
#include "ftk.h"

/* ---- the operations ------------------------------------------------------------------ */

static bool owns(const void *p)
{
    struct ftk_driver_place at;
    return ftk_driver_owns(p, &at);
}

/* Managed memory. */
static bool is_shared(const void *p)
{
    static const int which[] = { CUDA_OF_MANAGED };
    unsigned managed = 0;
    void *to[] = { &managed };
    struct ftk_driver_place at;
    return ftk_driver_owns(p, &at)
           && at.cuda->pointer_attributes(1, which, to, (ftk_cuda_address)(uintptr_t)p) == CUDA_OK
           && managed;
}

/* Begin a copy between the device and host memory, on the stream of the context of `device`, the
 * one of the two addresses that the device has. */
static int begin(void *to, const void *from, size_t bytes, const void *device,
    struct ftk_driver_place *at, struct ftk_driver_stream **on)
{
    int code;
    int rc = ftk_driver_enter(device, at);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_driver_stream_of(at, on);
    if (rc == FTKIT_OK) {
        void *stream = (*on)->stream;
        code = device == from
                   ? at->cuda->copy_out(to, (ftk_cuda_address)(uintptr_t)from, bytes, stream)
                   : at->cuda->copy_in((ftk_cuda_address)(uintptr_t)to, from, bytes, stream);
        if (code != CUDA_OK)
            rc = ftk_driver_failed(
                at, device == from ? "a copy from the device" : "a copy to the device", code);
    }
    if (rc != FTKIT_OK)
        ftk_driver_leave(at);
    return rc;
}

/* Wait for the copies of a stream, whose context is current. */
static int await_all(const struct ftk_driver_place *at, const struct ftk_driver_stream *on)
{
    const int code = at->cuda->stream_synchronize(on->stream);
    return code == CUDA_OK ? FTKIT_OK
                           : ftk_driver_failed(at, "a copy between the device and its host", code);
}

static int copy(void *to, const void *from, size_t bytes, const void *device)
{
    struct ftk_driver_place at;
    struct ftk_driver_stream *on = NULL;
    int rc = begin(to, from, bytes, device, &at, &on);
    if (rc != FTKIT_OK)
        return rc;
    rc = await_all(&at, on);
    ftk_driver_leave(&at);
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
        struct ftk_driver_place at;
        struct ftk_driver_stream *on;
    } of[FTK_MEMORY_AHEAD];
    unsigned next;
} ahead;

/* An event behind the work of the stream so far. */
static int record(const struct ftk_driver_place *at, struct ftk_driver_stream *on, unsigned number)
{
    const unsigned i = number % FTK_MEMORY_AHEAD;
    int code = CUDA_OK;
    if (!on->event[i])
        code = at->cuda->event_create(&on->event[i], CUDA_EVENT_DISABLE_TIMING);
    if (code == CUDA_OK)
        code = at->cuda->event_record(on->event[i], on->stream);
    ahead.of[i].at = *at;
    ahead.of[i].on = on;
    return code == CUDA_OK ? FTKIT_OK : ftk_driver_failed(at, "a copy from the device", code);
}

static int begin_out(void *to, const void *from, size_t bytes, unsigned *number)
{
    struct ftk_driver_place at;
    struct ftk_driver_stream *on = NULL;
    int rc = begin(to, from, bytes, from, &at, &on);
    if (rc != FTKIT_OK)
        return rc;
    *number = ahead.next++;
    rc = record(&at, on, *number);
    if (rc != FTKIT_OK) /* nobody can wait for this copy later */
        (void)await_all(&at, on);
    ftk_driver_leave(&at);
    return rc;
}

static int begin_in(void *to, const void *from, size_t bytes)
{
    struct ftk_driver_place at;
    struct ftk_driver_stream *on = NULL;
    int rc = begin(to, from, bytes, to, &at, &on);
    if (rc == FTKIT_OK)
        ftk_driver_leave(&at);
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

/* Let the device compute sums, on a stream of the current context. */
static int launch_sums(const struct ftk_driver_place *at, struct ftk_driver_stream *on,
    void *stream, ftk_cuda_address from, size_t block_bytes, size_t n, uint64_t *sums, bool *begun)
{
    int rc = FTKIT_OK;
    if (at->cuda->launch && ftk_cuda_sums_can(&on->sums, (const void *)(uintptr_t)from, block_bytes)
        && is_readable(at->cuda, (const void *)(uintptr_t)from, n * block_bytes)) {
        const int mode = ftk_driver_relax(at);
        const int code =
            ftk_cuda_sums_begin(at->cuda, stream, &on->sums, from, block_bytes, n, sums);
        ftk_driver_restrict(at, mode);
        *begun = code == CUDA_OK;
        if (code > CUDA_OK) {
            rc = ftk_driver_failed(at, "checksums by the device", code);
            rc = !ftk_driver_is_lost() ? FTKIT_OK : rc;
        }
    }
    return rc;
}

static int begin_sums(const void *from, size_t block_bytes, size_t n, uint64_t *sums, bool *begun)
{
    struct ftk_driver_place at;
    struct ftk_driver_stream *on = NULL;
    int rc = ftk_driver_enter(from, &at);
    *begun = false;
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_driver_stream_of(&at, &on);
    if (rc == FTKIT_OK)
        rc = launch_sums(
            &at, on, on->stream, (ftk_cuda_address)(uintptr_t)from, block_bytes, n, sums, begun);
    ftk_driver_leave(&at);
    return rc;
}

static int await(unsigned number)
{
    const unsigned i = number % FTK_MEMORY_AHEAD;
    const struct ftk_driver_place *at = &ahead.of[i].at;
    const int code = at->cuda->event_synchronize(ahead.of[i].on->event[i]);
    if (code == CUDA_OK)
        return FTKIT_OK;
    if (at->cuda->push(at->context) != CUDA_OK)
        return ftk_fail(FTKIT_ERR_IO, "a copy from the device: %s error %d", at->cuda->is, code);
    const int rc = ftk_driver_failed(at, "a copy from the device", code);
    ftk_driver_leave(at);
    return rc;
}

static int finish(const void *p)
{
    struct ftk_driver_place at;
    struct ftk_driver_stream *on = NULL;
    int rc = ftk_driver_enter(p, &at);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_driver_stream_of(&at, &on);
    if (rc == FTKIT_OK)
        rc = await_all(&at, on);
    ftk_driver_leave(&at);
    return rc;
}

/* ---- snapshots ------------------------------------------------------------------------- */

struct ftk_snapshot {
    struct ftk_cuda_snapshot of;
    struct ftk_driver_stream *on;
};

static int take_snapshot(const void *from, size_t bytes, struct ftk_snapshot *s, bool *room)
{
    struct ftk_driver_place at;
    int rc = ftk_driver_enter(from, &at);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_driver_stream_of(&at, &s->on);
    const int mode = ftk_driver_relax(&at);
    const int code = rc != FTKIT_OK ? CUDA_OK
                                    : ftk_cuda_snapshot_take(at.cuda, at.context, &s->on->behind,
                                        (ftk_cuda_address)(uintptr_t)from, bytes, &s->of, room);
    ftk_driver_restrict(&at, mode);
    if (code != CUDA_OK)
        rc = ftk_driver_failed(&at, "a snapshot on the device", code);
    ftk_driver_leave(&at);
    return rc;
}

static int snapshot(const void *from, size_t bytes, struct ftk_snapshot **out)
{
    bool room = false;
    struct ftk_snapshot *s = malloc(sizeof *s);
    const int rc = s ? take_snapshot(from, bytes, s, &room)
                     : ftk_fail(FTKIT_ERR_NOMEM, "a snapshot on the device");
    *out = rc == FTKIT_OK && room ? s : NULL;
    if (!*out)
        free(s);
    return rc;
}

/* Make the context of a snapshot current; every success needs ftk_driver_leave(). */
static int enter_snapshot(const struct ftk_snapshot *s, struct ftk_driver_place *at)
{
    *at = (struct ftk_driver_place){ .cuda = s->of.cuda, .context = s->of.context };
    const int code = at->cuda->push(at->context);
    return code == CUDA_OK ? FTKIT_OK
                           : ftk_fail(FTKIT_ERR_IO, "the context of a snapshot: %s error %d",
                               at->cuda->is, code);
}

static int snapshot_sums(struct ftk_snapshot *s, size_t before, size_t block_bytes, size_t n,
    uint64_t *sums, bool *begun)
{
    struct ftk_driver_place at;
    int rc = enter_snapshot(s, &at);
    *begun = false;
    if (rc != FTKIT_OK)
        return rc;
    rc = launch_sums(&at, s->on, s->of.stream, s->of.copy + before, block_bytes, n, sums, begun);
    ftk_driver_leave(&at);
    return rc;
}

static int snapshot_out(struct ftk_snapshot *s, void *to, size_t bytes)
{
    struct ftk_driver_place at;
    int rc = enter_snapshot(s, &at);
    if (rc != FTKIT_OK)
        return rc;
    const int code = at.cuda->copy_out(to, s->of.copy, bytes, s->of.stream);
    if (code != CUDA_OK)
        rc = ftk_driver_failed(&at, "a copy of a snapshot", code);
    ftk_driver_leave(&at);
    return rc;
}

static int snapshot_end(struct ftk_snapshot *s)
{
    struct ftk_driver_place at;
    int rc = enter_snapshot(s, &at);
    const int code = rc == FTKIT_OK ? ftk_cuda_snapshot_end(&s->of) : CUDA_OK;
    if (code != CUDA_OK)
        rc = ftk_driver_failed(&at, "a copy of a snapshot", code);
    if (rc == FTKIT_OK || code != CUDA_OK)
        ftk_driver_leave(&at);
    free(s);
    return rc;
}

/* ---- pinned memory --------------------------------------------------------------------- */

static void *pinned_by[FTK_DRIVERS]; /* a context that has pinned memory, for all of its driver */

static bool pin(void *at, size_t bytes, const void *like)
{
    struct ftk_driver_place p;
    if (ftk_driver_enter(like, &p) != FTKIT_OK)
        return false;
    const int mode = ftk_driver_relax(&p);
    const bool pinned = p.cuda->host_register(at, bytes, CUDA_HOST_PORTABLE) == CUDA_OK;
    ftk_driver_restrict(&p, mode);
    for (int i = 0; i < FTK_DRIVERS; i++)
        if (pinned && ftk_driver_known(i) == p.cuda)
            pinned_by[i] = p.context;
    ftk_driver_leave(&p);
    return pinned;
}

/* The program may have reset its device, and the memory with that: then there is nothing to
 * release. */
static bool unpin_by(const struct ftk_cuda *cuda, void *context, void *at)
{
    const struct ftk_driver_place p = { .cuda = cuda, .context = context };
    const bool pushed = cuda->push(context) == CUDA_OK;
    const int mode = ftk_driver_relax(&p);
    const int code = cuda->host_unregister(at);
    ftk_driver_restrict(&p, mode);
    if (pushed)
        ftk_driver_leave(&p);
    return code == CUDA_OK || code == CUDA_DEINITIALIZED || code == CUDA_CONTEXT_IS_DESTROYED
           || code == CUDA_NOT_REGISTERED;
}

/* Any thread may call it, with or without a context of its own.  Nobody knows which driver has
 * pinned this memory, and a driver that has not does nothing. */
static bool unpin(void *at)
{
    bool done = true;
    for (int i = 0; i < FTK_DRIVERS; i++)
        done &= !pinned_by[i] || unpin_by(ftk_driver_known(i), pinned_by[i], at);
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
static bool is_capturing(const struct ftk_driver_place *at)
{
    int status = CUDA_NOT_CAPTURING;
    int code = at->cuda->stream_is_capturing(NULL, &status);
    return code == CUDA_CAPTURE_IMPLICIT || (code == CUDA_OK && status != CUDA_NOT_CAPTURING);
}

/* Wait for the current context.  none: there may be no current context. */
static int wait_here(const struct ftk_driver_place *at, bool none)
{
    int code = is_capturing(at) ? CUDA_CAPTURE_IMPLICIT : at->cuda->synchronize();
    if (code == CUDA_OK || (none && code == CUDA_INVALID_CONTEXT))
        return FTKIT_OK;
    if (code == CUDA_CAPTURE_IMPLICIT || code == CUDA_CAPTURE_UNSUPPORTED)
        return ftk_fail(FTKIT_ERR_STATE,
            "a graph is being captured: end the capture before the call%s",
            code == CUDA_CAPTURE_UNSUPPORTED ? " (this capture is broken now)" : "");
    return ftk_driver_failed(at, "the work of the program", code);
}

/* Whether a stream may be waited for. */
static int check_here(const struct ftk_driver_place *at, void *stream)
{
    int status = CUDA_NOT_CAPTURING;
    const int code = at->cuda->stream_is_capturing(stream, &status);
    if (code == CUDA_INVALID_HANDLE || code == CUDA_CONTEXT_IS_DESTROYED)
        return ftk_fail(FTKIT_ERR_ARG, "%p is no stream: %s error %d", stream, at->cuda->is, code);
    if (code != CUDA_OK)
        return ftk_driver_failed(at, "a stream", code);
    return status == CUDA_NOT_CAPTURING ? FTKIT_OK
                                        : ftk_fail(FTKIT_ERR_STATE,
                                            "a graph is being captured: end the capture on stream "
                                            "%p before the call",
                                            stream);
}

static int check_stream(const void *p, void *stream)
{
    struct ftk_driver_place at;
    int rc = ftk_driver_enter(p, &at);
    if (rc != FTKIT_OK)
        return rc;
    rc = check_here(&at, stream);
    ftk_driver_leave(&at);
    return rc;
}

/* The driver waits for a stream of any context, and for no other work. */
static int wait_for_stream(const void *p, void *stream)
{
    struct ftk_driver_place at;
    int rc = ftk_driver_enter(p, &at);
    if (rc != FTKIT_OK)
        return rc;
    rc = check_here(&at, stream);
    const int code = rc == FTKIT_OK ? at.cuda->stream_synchronize(stream) : CUDA_OK;
    if (code != CUDA_OK)
        rc = ftk_driver_failed(&at, "the work of the program", code);
    ftk_driver_leave(&at);
    return rc;
}

/* Memory of a pool, and managed memory, may be in use by another context than the one that the
 * driver names.  So this waits for the thread's context and for all contexts in use, too. */
static int wait_for(const void *p, void *stream)
{
    struct ftk_driver_place at;
    if (stream)
        return wait_for_stream(p, stream);
    int rc = ftk_driver_owns(p, &at) ? wait_here(&at, true)
                                     : FTKIT_OK; /* ftk_driver_enter() refuses it */
    if (rc == FTKIT_OK)
        rc = ftk_driver_enter(p, &at);
    if (rc != FTKIT_OK)
        return rc;
    rc = wait_here(&at, false);
    ftk_driver_leave(&at);
    const struct ftk_driver_stream *s;
    for (int i = 0; rc == FTKIT_OK && (s = ftk_driver_stream_at(i)); i++) {
        const struct ftk_driver_place other = { .cuda = s->cuda, .context = s->context };
        if (other.context == at.context || other.cuda->push(other.context) != CUDA_OK)
            continue; /* the program has destroyed that context */
        rc = wait_here(&other, false);
        ftk_driver_leave(&other);
    }
    return rc;
}

/* An error that has not ended a context is the matter of the next set. */
static int check(void)
{
    const struct ftk_driver_stream *s;
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && (s = ftk_driver_stream_at(i)); i++) {
        struct ftk_driver_place at = { .cuda = s->cuda, .context = s->context };
        int code = at.cuda->stream_query(s->stream);
        if (code == CUDA_OK || code == CUDA_NOT_READY || at.cuda->push(at.context) != CUDA_OK)
            continue; /* push: the program has destroyed the context, and all of its memory */
        rc = ftk_driver_failed(&at, "the work of the program", code);
        rc = !ftk_driver_is_lost() ? FTKIT_OK : rc;
        ftk_driver_leave(&at);
    }
    return rc;
}

const struct ftk_memory_ops ftk_memory_device = { .name = "device",
    .present = ftk_driver_look,
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
    .snapshot = snapshot,
    .snapshot_sums = snapshot_sums,
    .snapshot_out = snapshot_out,
    .snapshot_end = snapshot_end,
    .pin = pin,
    .unpin = unpin,
    .check = check,
    .lost = ftk_driver_is_lost };
