/* XXH3, with the widest vector instructions that the processor at run time has.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_STORE_HASH_H
#define FTK_STORE_HASH_H

#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h> /* chooses the variant at run time */
#endif

#include "vector.h"

static inline XXH64_hash_t ftk_xxh3(const void *data, size_t bytes)
{
    XXH64_hash_t h = XXH3_64bits(data, bytes);
    ftk_vector_done();
    return h;
}

static inline XXH64_hash_t ftk_xxh3_seed(const void *data, size_t bytes, XXH64_hash_t seed)
{
    XXH64_hash_t h = XXH3_64bits_withSeed(data, bytes, seed);
    ftk_vector_done();
    return h;
}

static inline XXH_errorcode ftk_xxh3_update(XXH3_state_t *state, const void *data, size_t bytes)
{
    XXH_errorcode rc = XXH3_64bits_update(state, data, bytes);
    ftk_vector_done();
    return rc;
}

#endif
