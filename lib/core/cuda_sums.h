/* Checksums of memory of a device of CUDA, by the device.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The sums are those of ftk_xxh3(), bit for bit.  The kernel is a text in this library, which the
 * driver compiles at the first use in a context.  Then the device computes sums of known bytes,
 * which the host compares with its own.  If anything of that fails, the host computes all sums from
 * then on, and one warning says why.
 *
 * The context is current, and one thread at a time calls for it. */
#ifndef FTK_CUDA_SUMS_H
#define FTK_CUDA_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda.h"

/* Of one context; all zero: not used yet. */
struct ftk_cuda_sums {
    void *kernel;           /* NULL: not loaded */
    ftk_cuda_address table; /* sums in memory of the device */
    bool refused;           /* the host computes the sums */
};

/* Whether the device can compute sums of such blocks, as far as is known. */
bool ftk_cuda_sums_can(const struct ftk_cuda_sums *s, const void *from, size_t block_bytes);

/* Queue on the stream: sums[i], in host memory, is the sum of the block i of n behind `from`.  The
 * device may read the blocks.  0: queued; else nothing is under way, and the host has to compute
 * them: the code of the driver, or -1: another reason. */
int ftk_cuda_sums_begin(const struct ftk_cuda *cuda, void *stream, struct ftk_cuda_sums *s,
    ftk_cuda_address from, size_t block_bytes, size_t n, uint64_t *sums);

#endif
