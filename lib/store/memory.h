/* Segments that are in memory: own ones, those kept for buddies, parities.  They are in
 * anonymous memory or in slots of a place that outlives the process (place.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_STORE_MEMORY_H
#define FTK_STORE_MEMORY_H

#include "core/ftk.h"
#include "parity.h"
#include "place.h"

#define FTK_SLOT_NAME 192

/* One buffer.  Free ones are kept for the next set, because first touch of new pages is
 * the dearest step of a checkpoint; their pages are marked so that the kernel may take
 * them back whenever it needs memory (MADV_FREE), so they do not count as used. */
struct ftk_mem_seg {
    char *buf;
    size_t cap;              /* mapped bytes */
    struct ftk_place *place; /* whose slot it is, NULL: anonymous memory */
    char name[FTK_SLOT_NAME];
    int fd;        /* of the slot, for its lock */
    bool direct;   /* persistent memory that needs no msync */
    uint64_t set;  /* 0: the buffer is free */
    int rank;      /* whose segment */
    int nranks;    /* of the set */
    size_t bytes;  /* of the segment, once known */
    bool parity;   /* not the segment of rank but its parity of its group */
    bool sealed;   /* whole and checksummed */
    bool verified; /* its checksums were compared since it was written or doubted */
    bool held;     /* somebody reads it: see ftk_mem_hold() */
    size_t held_bytes;
    bool found;  /* an earlier process's, and not yet known to be of use */
    bool spoilt; /* its slot could not be wiped: it goes when the hold ends */
};

struct ftk_mem {
    struct ftk_mem_seg **segs; /* pointers, so that a segment's address is stable */
    int nsegs;
    struct ftk_place place;
    int nunexp_max; /* most buffers that were ever held at once */
};

/* A buffer for bytes bytes of (set, rank); FTKIT_ERR_NOMEM.  Reuses a free one. */
int ftk_mem_take(
    struct ftk_mem *m, uint64_t set, int rank, int nranks, size_t bytes, struct ftk_mem_seg **out);

/* Its contents are whole and checksummed: it may be found from now on, in places that
 * outlive the process also by others.  FTKIT_ERR_IO, FTKIT_ERR_NOSPACE. */
int ftk_mem_seal(struct ftk_mem_seg *s);

/* List one more segment, allocated with malloc(); FTKIT_ERR_NOMEM. */
int ftk_mem_add(struct ftk_mem *m, struct ftk_mem_seg *s);

/* The sealed segment of (set, rank), or its sealed parity, or NULL. */
struct ftk_mem_seg *ftk_mem_find(const struct ftk_mem *m, uint64_t set, int rank);
struct ftk_mem_seg *ftk_mem_find_parity(const struct ftk_mem *m, uint64_t set, int rank);

/* Check the head of a sealed segment, or all of it, unless that has been done since it was written
 * or doubted.  FTKIT_ERR_CORRUPT, whatever it looks like: it was good when it was sealed.  It is
 * the caller's to release then. */
int ftk_mem_verify_head(const struct ftk_mem_seg *s, const char *what);
int ftk_mem_verify(struct ftk_mem_seg *s, const char *what);

/* Time has passed: what was verified may not hold any more. */
void ftk_mem_unverify(struct ftk_mem *m);

void ftk_mem_release(struct ftk_mem_seg *s);

/* Keep the contents of a sealed segment in place while a helper thread reads them: it may
 * be released, and is not found any more then, but its buffer is neither used again nor
 * unmapped before the hold ends.  Both calls are the thread's that owns the memory. */
void ftk_mem_hold(struct ftk_mem *m, struct ftk_mem_seg *s);
void ftk_mem_unhold(struct ftk_mem_seg *s);

/* Release every segment of other sets than keep. */
void ftk_mem_drop_others(struct ftk_mem *m, uint64_t keep);

/* Give up those that were found and are of no use, or all; what is in slots stays there,
 * for others or the next sweep. */
void ftk_mem_leave(struct ftk_mem *m, bool all);

/* Bytes of segments in use or held. */
size_t ftk_mem_used(const struct ftk_mem *m);

/* Unmap free buffers beyond the number in use, and as many as holds have needed. */
void ftk_mem_trim(struct ftk_mem *m);
/* Give up everything; keep: segments in use stay in their slots. */
void ftk_mem_close(struct ftk_mem *m, bool keep);

#endif
