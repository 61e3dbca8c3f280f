/* Places that outlive a process: shared memory, files on a local disk, persistent memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A segment lies in a file of its own, a slot, which is mapped into memory:
 *
 *     [ slot header, one page ][ the segment ]
 *
 * The header is written last, when the segment is whole and has reached the place.  The header is
 * wiped before the slot is overwritten.  So the segment of a slot with a header is whole, whenever
 * a process or the power has failed.  A process locks the slots that it uses (flock).  The lock
 * ends with the process: a slot that can be locked belongs to no living process.
 *
 * A slot names the program and the directory of the job that made it (identity.h).  A job uses and
 * sweeps only slots with its own program and directory; it reports other slots.
 *
 * A place that cannot be mapped keeps the header and the segment as objects, in the same order of
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
    uint32_t parity; /* 1: the rank's parity of its group, not its segment */
    uint32_t reserved[3];
    char context[64];
    /* the fields of version 2; before them lie the FTK_SLOT_BYTES_1 bytes of version 1 */
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
    char prefix[128]; /* begins the names of this job's slots */
    char older[128];  /* the same for names of older versions of ftkit, "": none */
    struct ftk_identity identity;
    int others;            /* slots of other jobs that the last ftk_place_adopt() has seen ... */
    struct ftk_slot other; /* ... and one of them; set 0: it cannot be read */
    bool found_again;      /* later processes can find the slots */
    bool absent;           /* there is no shared memory: no slots can be made */
    int made;              /* number of slots made, for their names */
    uint64_t swept;        /* see ftk_place_sweep() */
    bool foreign;          /* a slot of another format was found, and reported */
    bool kept;             /* slots that were not needed exist: remove them if space is short */
    struct ftk_slot *busy; /* [nbusy] see ftk_place_adopt() */
    int nbusy;
};

/* Check the header of a slot with room bytes behind the header; fields that the version of the slot
 * lacks become zero.  FTKIT_ERR_NOT_FOUND: the slot holds nothing; FTKIT_ERR_FORMAT: another
 * version or byte order; FTKIT_ERR_CORRUPT: the header is damaged. */
int ftk_slot_check(struct ftk_slot *slot, uint64_t room);
/* Check the segment of a slot, slot->bytes bytes at seg, and compare it with the header of the
 * slot. */
int ftk_slot_check_segment(const struct ftk_slot *slot, const char *seg);

/* Check that the place can be used.  FTKIT_ERR_UNSUPPORTED, with the key of the configuration in
 * the detail: this build lacks the library of the place, or the library cannot be loaded. */
int ftk_place_check(int kind, const char *key);

/* Open a place for the slots of one level of a context.  dir NULL or empty: the default, /dev/shm.
 * key distinguishes the jobs of a node, where the directory does not; slots with key 0 cannot be
 * found again. */
int ftk_place_open(
    struct ftk_place *p, int kind, const char *dir, const char *context, int level, uint64_t key);

/* Set the identity of the job, which new slots get, and which the slots that ftk_place_adopt()
 * takes must have.  The names of slots contain the home, unless the slots are those of one run. */
void ftk_place_identify(struct ftk_place *p, const struct ftk_identity *id);

/* Whether a file of this name is a slot, of any job. */
bool ftk_place_is_slot(const char *name);

/* Make a slot for bytes bytes, lock it and bring it into memory.  FTKIT_ERR_NOSPACE,
 * FTKIT_ERR_IO. */
int ftk_place_map(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes);
/* Unmap and unlock a slot; remove it unless keep is set. */
void ftk_place_unmap(struct ftk_place *p, struct ftk_mem_seg *s, bool keep);

/* Write the whole segment, then the header of its slot, to the place.  FTKIT_ERR_IO,
 * FTKIT_ERR_NOSPACE. */
int ftk_place_seal(struct ftk_place *p, struct ftk_mem_seg *s);
/* Wipe the header: the slot holds nothing any more.  The same errors. */
int ftk_place_wipe(struct ftk_place *p, struct ftk_mem_seg *s);

/* Take over slots of this job that no living process has locked and whose segments are whole.  The
 * segments go into m, sealed and verified.  Damaged slots are removed.
 * wanted [nwanted]: only the slots of ranks for which it is true, and one slot of each segment.
 * NULL: the slots of all ranks; slots whose segment is already in m, verified, are removed.  Then
 * p->busy lists the slots that a process has locked and whose segment is not in m, and p->others
 * counts the slots of this context that other jobs have made.
 * An error: some slots could not be read; they stay, and the others have been taken. */
int ftk_place_adopt(struct ftk_place *p, struct ftk_mem *m, const bool *wanted, int nwanted);
void ftk_place_forget_busy(struct ftk_place *p);

/* Remove the slots of a set that no living process has locked: the segments and parities of the
 * ranks [n].  like: its set, run and epoch_id. */
void ftk_place_drop(struct ftk_place *p, const struct ftk_slot *like, const int *ranks, int n);

/* Remove the slots of this job that no living process has locked, except those of another format.
 * Only the first call with a new value of when does something. */
void ftk_place_sweep(struct ftk_place *p, uint64_t when);

#endif
