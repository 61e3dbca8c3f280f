/* Snapshots of memory of a device of CUDA, on the device.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A snapshot is a copy of a region that the program may change while the copy travels to the host.
 * It has memory of a pool, which the driver takes and gives back in the order of a stream: neither
 * waits for kernels of the program.  The context is current in all calls, and one thread at a time
 * makes them. */
#ifndef FTK_CUDA_SNAPSHOT_H
#define FTK_CUDA_SNAPSHOT_H

#include <stdbool.h>

#include "cuda.h"

/* The memory of a snapshot, and the stream that its work is on. */
struct ftk_cuda_snapshot {
    const struct ftk_cuda *cuda;
    void *context, *stream;
    ftk_cuda_address copy;
};

/* Copy bytes at `from` on the device, and wait for that copy alone.  *stream: the one of this
 * context, made at its first use.  *room = false: the device has no memory for a snapshot, or its
 * driver none in the order of a stream, and nothing has happened.  Else the code of the driver; if
 * it is not 0, there is no snapshot. */
int ftk_cuda_snapshot_take(const struct ftk_cuda *cuda, void *context, void **stream,
    ftk_cuda_address from, size_t bytes, struct ftk_cuda_snapshot *s, bool *room);

/* Wait for all work on the snapshot, and give its memory back.  The code of the driver. */
int ftk_cuda_snapshot_end(struct ftk_cuda_snapshot *s);

#endif
