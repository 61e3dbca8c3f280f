/* Places that outlive a process: shared memory, files on a local disk, persistent memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A segment lies in a file of its own, a slot, mapped into memory:
 *
 *     [ slot header, one page ][ the segment ]
 *
 * Its header is written last, when the segment is whole and has reached the place, and is
 * wiped before anything of it is overwritten; so a slot says of itself whether it holds,
 * whenever its process or the power went.  Whoever uses a slot has it locked (flock), which
 * ends with the process: a slot that can be locked belongs to nobody alive.
 *
 * A slot names the program and the directory of the job that made it (identity.h).  A job
 * takes, and sweeps, only slots of its own; it tells of others.
 *
 * A place that cannot be mapped keeps the header and the segment as objects, with the same order of
 * writing: place_ops.h. */
#ifndef FTK_STORE_PLACE_H
#define FTK_STORE_PLACE_H

#include "core/identity.h"
#include "core/places.h"

struct ftk_mem;
struct ftk_place_ops;
struct ftk_slot_access;
struct ftk_mem_seg;
struct ftk_slot;

#define FTK_SLOT_PREFIX "ftkit-slot-"
#define FTK_SLOT_NEW "ftkit-new-" /* a slot before it is locked and has its space */
#define FTK_SLOT_MAGIC "FTKSLOT\n"
#define FTK_SLOT_VERSION 2u
#define FTK_SLOT_BYTES 4096u

struct ftk_slot {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint64_t sum;   /* XXH3 of this header with sum 0 */
    uint64_t bytes; /* of the segment */
    uint64_t set;
    uint64_t run;
    uint64_t epoch_id;
    uint32_t rank;
    uint32_t nranks;
    uint32_t parity; /* 1: of the rank's group */
    uint32_t reserved[3];
    char context[64];
    /* from version 2 on; FTK_SLOT_BYTES_1 are those before */
    char program[64];
    uint64_t home; /* see identity.h */
    char directory[FTK_HOME_TEXT];
    uint8_t reserved2[40];
};
#define FTK_SLOT_BYTES_1 144u
_Static_assert(sizeof(struct ftk_slot) == 512, "on-disk slot header");
_Static_assert(offsetof(struct ftk_slot, program) == FTK_SLOT_BYTES_1, "version 1");

struct ftk_place {
    int kind; /* enum ftk_place_number */
    const struct ftk_place_ops *ops;
    const struct ftk_slot_access *access;
    char dir[FTK_PATH_MAX];
    char context[64];
    int level;
    char prefix[128]; /* of the names of this job's slots */
    char older[128];  /* of names that older versions gave, "": there are none */
    struct ftk_identity identity;
    int others;            /* slots of other jobs that the last look has seen ... */
    struct ftk_slot other; /* ... and one of them; set 0: it cannot be read */
    bool found_again;      /* by later processes */
    int made;              /* slots, for their names */
    uint64_t swept;        /* see ftk_place_sweep() */
    bool foreign;          /* a slot of another format was there, and that has been told */
    bool kept;             /* slots that were of no use are there: they go for want of space */
    struct ftk_slot *busy; /* [nbusy] see ftk_place_adopt() */
    int nbusy;
};

/* What a slot with room bytes behind its header says of itself; fields that its version
 * does not have become zero.  FTKIT_ERR_NOT_FOUND: it holds nothing, FTKIT_ERR_FORMAT: of
 * another version or byte order, FTKIT_ERR_CORRUPT. */
int ftk_slot_check(struct ftk_slot *slot, uint64_t room);
/* ... and whether its segment, slot->bytes at seg, is whole and right. */
int ftk_slot_check_segment(const struct ftk_slot *slot, const char *seg);

/* FTKIT_ERR_UNSUPPORTED, with the key of the configuration in the detail: this build lacks
 * the library for the place. */
int ftk_place_is_built(int kind, const char *key);

/* Use the place for the slots of a level of a context.  dir NULL or empty: the place's own
 * (/dev/shm).  key tells jobs on one node apart where the directory does not; slots of key 0
 * are not found again. */
int ftk_place_open(
    struct ftk_place *p, int kind, const char *dir, const char *context, int level, uint64_t key);

/* Whose slots those of the place are from now on, and which are taken.  Slots in a directory
 * get names of their own for each home. */
void ftk_place_identify(struct ftk_place *p, const struct ftk_identity *id);

/* Whether a file of this name is a slot of anybody's. */
bool ftk_place_is_slot(const char *name);

/* Make a slot for bytes bytes and bring it into memory. */
int ftk_place_map(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes);
/* The slot is not in use any more; keep leaves it to a later process. */
void ftk_place_unmap(struct ftk_place *p, struct ftk_mem_seg *s, bool keep);

/* The segment is whole: make it hold.  FTKIT_ERR_IO, FTKIT_ERR_NOSPACE. */
int ftk_place_seal(struct ftk_place *p, struct ftk_mem_seg *s);
/* It does not any more. */
int ftk_place_wipe(struct ftk_place *p, struct ftk_mem_seg *s);

/* Take over the slots that nobody alive has and whose segment is whole and right: only
 * those of this rank, or all.  What is there twice, or does not hold, is removed.  They
 * come into m, sealed and verified.  With all, p->busy are then the slots that somebody has
 * locked and whose segment is not in m, and p->others counts the slots of this context that
 * other jobs have made.  An error: some could not be looked at; they stay
 * where they are, and the others have been taken. */
int ftk_place_adopt(struct ftk_place *p, struct ftk_mem *m, int rank, bool all);
void ftk_place_forget_busy(struct ftk_place *p);

/* Remove the slots of this job that nobody alive has, but for those of another format: the
 * first time after when changes. */
void ftk_place_sweep(struct ftk_place *p, uint64_t when);

#endif
