/* Segments in memory: own segments, copies for other ranks, parities.  Their buffers are anonymous
 * memory, or slots of a place that outlives the process (place.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_STORE_MEMORY_H
#define FTK_STORE_MEMORY_H

#include "core/ftk.h"
#include "core/memory_kinds.h"
#include "parity.h"
#include "place.h"

#define FTK_SLOT_NAME 192

/* One buffer.  A free buffer stays for the next set, because the first touch of new pages is the
 * most expensive step of a checkpoint.  The pages of free anonymous memory are marked so that the
 * kernel may take them back when it needs memory (MADV_FREE); so they do not count as used. */
struct ftk_mem_seg {
    char *buf;
    size_t cap;              /* mapped bytes */
    struct ftk_place *place; /* the place of the slot, NULL: anonymous memory */
    char name[FTK_SLOT_NAME];
    int fd;        /* of the slot; has its lock */
    bool direct;   /* persistent memory that needs no msync */
    uint64_t set;  /* 0: the buffer is free */
    int rank;      /* of the segment */
    int nranks;    /* of the set */
    size_t bytes;  /* of the segment, once known */
    bool parity;   /* not the segment of rank, but its parity of its group */
    bool sealed;   /* whole, and has its checksums */
    bool verified; /* compared with its checksums since the last write or unverify */
    bool held;     /* a helper thread reads it: see ftk_mem_hold() */
    size_t held_bytes;
    bool found;                  /* of an earlier process, and not yet known to be needed */
    enum ftk_memory_kind pinned; /* a device of this kind may access buf; host: none */
    bool spoilt;                 /* the slot could not be wiped: it is removed when the hold ends */
};

struct ftk_mem {
    struct ftk_mem_seg **segs; /* pointers, so that a segment's address is stable */
    int nsegs;
    struct ftk_place place;
    int nheld_max; /* the most buffers that were ever held at once */
    size_t lacked; /* bytes of a buffer in the process, for lack of room in the place; 0: none */
};

/* Take a buffer for a segment of bytes bytes of (set, rank); a free buffer is reused.
 * FTKIT_ERR_NOMEM, or an error of the place. */
int ftk_mem_take(
    struct ftk_mem *m, uint64_t set, int rank, int nranks, size_t bytes, struct ftk_mem_seg **out);

/* Make an unsealed segment longer; its first s->bytes bytes stay, and s->buf may move.
 * FTKIT_ERR_NOMEM or an error of the place: the segment is as before. */
int ftk_mem_grow(struct ftk_mem *m, struct ftk_mem_seg *s, size_t bytes);

/* Let a device access the buffer itself, until the buffer is unmapped.  like: memory of this kind.
 * A buffer that cannot be pinned stays as it is, with one warning in a process. */
void ftk_mem_pin(struct ftk_mem_seg *s, enum ftk_memory_kind kind, const void *like);

/* Reserve memory for later calls of ftk_mem_take(): at least n free buffers of bytes bytes. */
int ftk_mem_reserve(struct ftk_mem *m, size_t bytes, int n);
/* Touch at most `most` further bytes of the free buffers, of which the first `touched` bytes are
 * touched; returns how many.  0: all of them are touched. */
size_t ftk_mem_touch(struct ftk_mem *m, size_t touched, size_t most);

/* Seal a segment that is whole and has its checksums.  From now on ftk_mem_find() finds it; later
 * processes can find it in its slot.  FTKIT_ERR_IO, FTKIT_ERR_NOSPACE. */
int ftk_mem_seal(struct ftk_mem_seg *s);

/* Add a segment to the list, which owns it from then on; it was allocated with malloc().
 * FTKIT_ERR_NOMEM. */
int ftk_mem_add(struct ftk_mem *m, struct ftk_mem_seg *s);

/* Return the sealed segment of (set, rank), or its sealed parity; NULL: there is none. */
struct ftk_mem_seg *ftk_mem_find(const struct ftk_mem *m, uint64_t set, int rank);
struct ftk_mem_seg *ftk_mem_find_parity(const struct ftk_mem *m, uint64_t set, int rank);

/* Check the head of a sealed segment, or the whole segment, unless it is verified.  what: names the
 * segment in the detail.  FTKIT_ERR_CORRUPT for any defect, because the segment was good when it
 * was sealed; the caller releases it. */
int ftk_mem_verify_head(const struct ftk_mem_seg *s, const char *what);
int ftk_mem_verify(struct ftk_mem_seg *s, const char *what);

/* Mark all segments as not verified: time has passed, and memory may have changed. */
void ftk_mem_unverify(struct ftk_mem *m);

/* Make the buffer of a segment free, and wipe its slot. */
void ftk_mem_release(struct ftk_mem_seg *s);

/* Hold a sealed segment while a helper thread reads it.  A held segment may be released: then it is
 * not found any more, but its buffer is neither reused nor unmapped before the hold ends.  Only the
 * thread that owns the memory calls these two functions. */
void ftk_mem_hold(struct ftk_mem *m, struct ftk_mem_seg *s);
void ftk_mem_unhold(struct ftk_mem_seg *s);

/* Release every segment of other sets than keep. */
void ftk_mem_drop_others(struct ftk_mem *m, uint64_t keep);

/* Release every segment of a set with a higher number than keep. */
void ftk_mem_drop_newer(struct ftk_mem *m, uint64_t keep);

/* Unmap the segments that were found and are not needed, or all segments.  Sealed segments stay in
 * their slots, for other processes or the next sweep.  With all, held segments are released. */
void ftk_mem_leave(struct ftk_mem *m, bool all);

/* Return the bytes of segments in use or held. */
size_t ftk_mem_used(const struct ftk_mem *m);

/* Unmap free buffers.  As many free buffers stay as are in use, and as many more as were ever held
 * at once. */
void ftk_mem_trim(struct ftk_mem *m);
/* Free everything; keep: sealed segments stay in their slots. */
void ftk_mem_close(struct ftk_mem *m, bool keep);

#endif
