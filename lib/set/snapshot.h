/* Snapshots of regions in memory of a device, for a set of a line apart.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * At its cut a rank waits for copies on the device alone.  These snapshots travel into the segment
 * while the program computes, and the device computes their checksums in front of that.  The
 * segment must neither move nor be used otherwise before ftk_snapshots_end(). */
#ifndef FTK_SNAPSHOT_H
#define FTK_SNAPSHOT_H

#include "core/context.h"
#include "core/memory_kind.h"

struct ftk_snapshots {
    struct ftk_snapped {
        int region;
        enum ftk_memory_kind memory;
        struct ftk_snapshot *of;
        size_t summed, summed_end; /* bytes of the data area: the device computes these checksums */
    } * list;                      /* [n] */
    int n;
};

/* Take a snapshot of region i.  *taken = false: there is no room on the device, or this region has
 * none, and nothing has happened.  One line of a process says the former. */
int ftk_snapshots_take(struct ftk_snapshots *s, const struct ftk_region *r, int i, bool *taken);

/* Begin to copy all snapshots into the segment.  host_sums: the host computes all checksums. */
int ftk_snapshots_begin(struct ftk_snapshots *s, char *seg, bool host_sums);

/* Whether the segment gets the checksum of these bytes of the data area from the device. */
bool ftk_snapshots_have_sum(const struct ftk_snapshots *s, size_t from, size_t end);

/* Wait for all copies, and give the memory on the device back.  Any number of calls. */
int ftk_snapshots_end(struct ftk_snapshots *s);
/* The checksums are no longer asked for. */
void ftk_snapshots_free(struct ftk_snapshots *s);

#endif
