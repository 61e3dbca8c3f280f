/* A build without libpmem: ftkit_open() refuses the place.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "place_ops.h"

extern const struct ftk_place_ops ftk_place_pmem;
const struct ftk_place_ops ftk_place_pmem = { .lacks = "libpmem" };
