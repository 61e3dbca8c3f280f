/* Packing the regions into a segment, and checksums over regions.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_PACK_H
#define FTK_PACK_H

#include "ahead.h"
#include "snapshot.h"

/* A segment that is being packed. */
struct ftk_packer {
    struct ftkit_ctx *ctx;
    char *seg;        /* the segment; its head is complete but for the checksums */
    int region, end;  /* next region to pack; the region behind the last that may be packed */
    size_t in_region; /* bytes of this region that are packed */
    size_t done;      /* bytes of the data area that are packed and checksummed */
    struct ftk_ahead ahead;
    bool behind; /* line apart: copies of the device may go on behind ftk_region_pack_cut() */
    struct ftk_snapshots snapshots;
};

/* Compute the size of the segment that the regions need now.  Calls measure() of serializers. */
int ftk_region_measure(struct ftkit_ctx *ctx, size_t *head_bytes, size_t *data_bytes);

/* Write the head, without checksums, into seg, which has the measured size. */
void ftk_region_begin(struct ftkit_ctx *ctx, uint64_t set, size_t head_bytes, size_t data_bytes,
    char *seg, struct ftk_packer *p);

/* Pack and checksum further blocks until at least upto bytes of the data area are done. */
int ftk_region_pack(struct ftk_packer *p, size_t upto);

/* Behind the last call, also if the set is given up: the segment may be used otherwise now. */
void ftk_region_pack_end(struct ftk_packer *p);

/* Line apart: pack all regions that are not late (region.h).  If p->behind is set, memory of a
 * device may still be on its way then: the segment must neither move nor be read before
 * ftk_region_pack_behind().  Later measure the late ones: the
 * segment has to have *bytes bytes.  Then pack them.  FTKIT_ERR_NOSPACE: the head has no room for
 * the checksums of so many bytes. */
int ftk_region_pack_cut(struct ftk_packer *p);
int ftk_region_pack_behind(struct ftk_packer *p);
int ftk_region_measure_late(struct ftk_packer *p, size_t *bytes);
int ftk_region_pack_late(struct ftk_packer *p);

/* Seal the head; everything must be packed. */
void ftk_region_seal(struct ftk_packer *p);

/* Return a checksum over the bytes and names of all replicated regions in a sealed segment,
 * whatever their order is. */
uint64_t ftk_region_replicated_sum(const char *seg);
/* Checksum of the programs of all ranks, as segments have it; 0: the job has one program. */
uint32_t ftk_programs_sum(const struct ftkit_ctx *ctx);

/* The XXH3 over the bytes of one region. */
struct ftk_seg_region;
uint64_t ftk_region_sum_of(const char *seg, const struct ftk_seg_region *r);
/* The replicated region behind `last` in the order of names; NULL: the first, or there is none. */
const struct ftk_seg_region *ftk_region_next_replicated(
    const char *seg, const struct ftk_seg_region *last);

/* Return the XXH3 over the replicated regions as they are now; 0: they cannot be read. */
uint64_t ftk_region_state_sum(const struct ftkit_ctx *ctx);

/* Whether this rank, in its loop and before the first set, has left its initial state. */
bool ftk_region_progressed(const struct ftkit_ctx *ctx);

#endif
