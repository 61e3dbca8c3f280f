/* Which build of ftkit a process has (see build.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "build.h"

#include <stdio.h>

#include "ftk.h"
#include "ftkit.h"
#include "sources.h"

#define RANK_BITS 21
#define SOURCES_BITS 24
#define PART_BITS 6 /* of each part of the version */
#define PART(key, n) ((int)((key) >> (RANK_BITS + SOURCES_BITS + (n)*PART_BITS)) & 63)

_Static_assert(FTKIT_VERSION_MAJOR < 1 << PART_BITS, "each part of the version has 6 bits");
_Static_assert(FTKIT_VERSION_MINOR < 1 << PART_BITS, "each part of the version has 6 bits");
_Static_assert(FTKIT_VERSION_PATCH < 1 << PART_BITS, "each part of the version has 6 bits");
_Static_assert(FTK_SOURCES < 1 << SOURCES_BITS, "a checksum of 24 bits");

int64_t ftk_build_key(int rank)
{
    int64_t key = FTKIT_VERSION_MAJOR;
    key = key << PART_BITS | FTKIT_VERSION_MINOR;
    key = key << PART_BITS | FTKIT_VERSION_PATCH;
    if (FTK_FAULT("open.build"))
        key++; /* as a process of the next version */
    key = key << SOURCES_BITS | FTK_SOURCES;
    return key << RANK_BITS | (rank & ((1 << RANK_BITS) - 1));
}

bool ftk_build_is_same(int64_t a, int64_t b)
{
    return a >> RANK_BITS == b >> RANK_BITS;
}

int ftk_build_rank(int64_t key)
{
    return (int)(key & ((1 << RANK_BITS) - 1));
}

void ftk_build_text(int64_t key, char text[FTK_BUILD_TEXT])
{
    snprintf(text, FTK_BUILD_TEXT, "%d.%d.%d (sources %06x)", PART(key, 2), PART(key, 1),
        PART(key, 0), (unsigned)(key >> RANK_BITS) & ((1U << SOURCES_BITS) - 1));
}
