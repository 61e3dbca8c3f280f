/* XXH3, with the widest vector instructions that the processor at run time has.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_STORE_HASH_H
#define FTK_STORE_HASH_H

#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h> /* installed by a library that holds the variants */
#endif

#endif
