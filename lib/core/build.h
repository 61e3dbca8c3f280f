/* Which build of ftkit a process has: different builds do not understand each other's messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_BUILD_H
#define FTK_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#define FTK_BUILD_TEXT 48

/* The build of this process and its rank in one number, not negative: the version, a checksum of
 * the sources and the lower 21 bits of the rank.  Numbers compare first by the build.  The form of
 * the number never changes: other builds have to understand it. */
int64_t ftk_build_key(int rank);
bool ftk_build_is_same(int64_t a, int64_t b);
int ftk_build_rank(int64_t key);
/* "0.1.0 (sources 1a2b3c)" */
void ftk_build_text(int64_t key, char text[FTK_BUILD_TEXT]);

#endif
