/* Memory of the program that a window has, in a set: its place in a region.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A replacement has the region at another address. */
#include <string.h>

#include "core/memory_kind.h"
#include "log/base/saved.h"
#include "log/win/win.h"
#include "set/region.h"

enum {
    BYTES,
    OFFSET, /* in the region ... */
    REGION, /* ... of this name */
    WORDS = REGION + (FTKIT_NAME_MAX + 1) / sizeof(uint64_t)
};
_Static_assert((int)WORDS == (int)FTK_WIN_MEMORY_WORDS, "all words have a meaning");

bool ftk_win_check_memory(const char *call, const void *base)
{
    if (ftk_memory_is_host(ftk_memory_kind_of(base)))
        return true;
    ftk_report(FTKIT_ERROR,
        "rank %d: %s with memory of a device: windows are host memory, which other ranks of the "
        "node access themselves",
        ftk_log.me, call);
    return false;
}

static const struct ftk_region *region_of(const char *base, size_t bytes)
{
    return ftk_region_around(ftk_log.ctx, (uintptr_t)base, (uintptr_t)base + bytes);
}

bool ftk_win_memory_fits(const char *base, size_t bytes)
{
    const struct ftk_region *in = region_of(base, bytes);
    return in && in->type.contiguous;
}

void ftk_win_memory_save(const char *base, size_t bytes, uint64_t *to)
{
    uintptr_t first = 0, end;
    const struct ftk_region *region = region_of(base, bytes);
    memset(to, 0, WORDS * sizeof *to);
    to[BYTES] = bytes;
    if (!region || !ftk_region_memory(region, &first, &end))
        return; /* a region without a name: a restore refuses the set if there are bytes */
    to[OFFSET] = (uintptr_t)base - first;
    memcpy(to + REGION, region->name, FTKIT_NAME_MAX + 1);
}

bool ftk_win_memory_is_none(const uint64_t *from)
{
    char first;
    memcpy(&first, from + REGION, sizeof first);
    return from[BYTES] == 0 && first == '\0';
}

int ftk_win_memory_load(const uint64_t *from, char **base, size_t *bytes)
{
    char name[FTKIT_NAME_MAX + 1];
    uintptr_t first = 0, end = 0;
    memcpy(name, from + REGION, sizeof name);
    if (!memchr(name, '\0', sizeof name) || from[BYTES] > FTK_FAR || from[OFFSET] > FTK_FAR)
        return ftk_fail(FTKIT_ERR_FORMAT, "windows of a set: damaged");
    const struct ftk_region *region = ftk_region_find(ftk_log.ctx, name);
    if (!region || !ftk_region_memory(region, &first, &end))
        return ftk_fail(FTKIT_ERR_NOT_FOUND,
            "the set has a window whose memory is in region '%s', which is not registered", name);
    if (from[OFFSET] > end - first || from[BYTES] > end - first - from[OFFSET])
        return ftk_fail(FTKIT_ERR_SIZE,
            "region '%s' is smaller than the memory that a window of the set has in it", name);
    *base = (char *)(first + (uintptr_t)from[OFFSET]); // NOLINT(performance-no-int-to-ptr)
    *bytes = (size_t)from[BYTES];
    return FTKIT_OK;
}
