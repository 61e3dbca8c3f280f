/* Snapshots of memory of a device of CUDA, on the device (see cuda_snapshot.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "cuda_snapshot.h"
#include "ftk.h"

/* The program and the driver need memory meanwhile: a snapshot leaves a tenth of its bytes free. */
static bool has_room(const struct ftk_cuda *cuda, size_t bytes)
{
    size_t unused = 0, all = 0;
    return cuda->memory_info && cuda->allocate_behind && cuda->release_behind && cuda->copy_within
           && cuda->memory_info(&unused, &all) == CUDA_OK && unused / 11 >= bytes / 10
           && !FTK_FAULT("snapshot.room");
}

int ftk_cuda_snapshot_take(const struct ftk_cuda *cuda, void *context, void **stream,
    ftk_cuda_address from, size_t bytes, struct ftk_cuda_snapshot *s, bool *room)
{
    *s = (struct ftk_cuda_snapshot){ .cuda = cuda, .context = context };
    *room = has_room(cuda, bytes);
    int code = !*room || *stream ? CUDA_OK : cuda->stream_create(stream, CUDA_STREAM_NON_BLOCKING);
    if (!*room || code != CUDA_OK)
        return code;
    s->stream = *stream;
    if (cuda->allocate_behind(&s->copy, bytes, s->stream) != CUDA_OK) {
        *room = false; /* an error that has ended the context is met by the copy in its place */
        return CUDA_OK;
    }
    code = cuda->copy_within(s->copy, from, bytes, s->stream);
    const int waited = cuda->stream_synchronize(s->stream);
    if (code == CUDA_OK && waited == CUDA_OK)
        return CUDA_OK;
    (void)ftk_cuda_snapshot_end(s); /* the first error counts */
    return code != CUDA_OK ? code : waited;
}

int ftk_cuda_snapshot_end(struct ftk_cuda_snapshot *s)
{
    /* in the order of the stream: behind the copies.  The pool gives the memory back to the device
     * when somebody waits for the stream */
    const int released = s->cuda->release_behind(s->copy, s->stream);
    const int waited = s->cuda->stream_synchronize(s->stream);
    return waited != CUDA_OK ? waited : released;
}
