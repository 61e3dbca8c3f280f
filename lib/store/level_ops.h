/* The operations of a durable level: for the files that define levels, and for
 * store/durable/sets.c, which everybody else calls.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A durable level keeps sets in the directory of a context (sets_dir.h).  A set consists of parts.
 * Each writer writes one part, with the segments of some ranks; one process makes the set before,
 * and commits it after all parts.  A level must be durable before it is visible: a part that
 * look() finds is whole and durable, and open() finds a set only after commit() has made it whole
 * and durable.  A restore that is wrong is worse than none: a level checks all bytes that it reads
 * against the checksums in the heads of the segments, and the heads against the manifest.
 *
 * dir and context name the directory.  The caller waits with ftk_sets_dir_sync() between make() and
 * commit().  All functions return an error code of ftkit with a detail, unless their comment says
 * something else.  Several processes call at the same time; in a process one thread at a time
 * calls, unless the level is in_background().
 *
 * A process that has stood still, and was given up by the others, may come back at any point of
 * such a call, while other processes write a set of the same number.  So a level opens the
 * directory of a set once, compares the number flush of this directory, and changes files in this
 * open directory only.  A directory is made by one process, and never with two numbers. */
#ifndef FTK_LEVEL_OPS_H
#define FTK_LEVEL_OPS_H

#include "manifest.h"
#include "segment.h"
#include "sets_dir.h"

enum ftk_set_state {
    FTK_SET_COMPLETE,   /* as far as the names and sizes of the files show */
    FTK_SET_INCOMPLETE, /* is being written, or its writing was interrupted */
    FTK_SET_DAMAGED     /* was complete; now the manifest or a part is missing or changed */
};

struct ftk_set_entry {
    uint64_t set;
    int state;                /* enum ftk_set_state */
    uint32_t nranks, nparts;  /* 0: not known */
    uint64_t bytes;           /* of all existing files */
    int64_t written_s;        /* since 1970: of the manifest, else of the directory */
    char why[FTK_DETAIL_MAX]; /* unless complete: what is missing or wrong */
};

struct ftk_finding {
    int code;                        /* FTKIT_ERR_... of the failed check */
    char file[384];                  /* of the set, with the path below its directory */
    int64_t rank;                    /* -1: the whole file */
    char region[FTKIT_NAME_MAX + 1]; /* "": the whole rank */
    int64_t block;                   /* of the rank's data, -1: no single block */
    char text[FTK_DETAIL_MAX];
};

/* Give the next segment of a part, by rising rank.  It stays valid until the following call. */
typedef int ftk_segment_fn(void *arg, const void **seg);
/* Called with the bytes of the piece that is written, while the library of the level holds no lock
 * that others wait for.  May sleep; an error ends the writing. */
typedef int ftk_pace_fn(void *arg, size_t bytes);
/* Give memory for a segment of so many bytes, aligned to FTK_SEG_REGION_ALIGN, as *at. */
typedef int ftk_room_fn(void *arg, size_t bytes, void **at);
/* Called with the checked head of a rank of a part. */
typedef int ftk_head_fn(const void *head, const struct ftk_manifest_part *p, void *arg);
typedef void ftk_finding_fn(const struct ftk_finding *f, void *arg);
typedef void ftk_name_fn(const char *name, void *arg);

/* A region of files of a rank that a set has as plain files. */
struct ftk_plain_facts {
    const char *region, *dir; /* dir: of its files, below the directory of the set */
    uint64_t files, bytes;    /* regular files */
};
typedef void ftk_plain_fn(const struct ftk_plain_facts *f, void *arg);

/* A question of make() and drop() to their caller: whether this process is still the one that makes
 * sets.  Both ask when they have opened what they are going to remove, and change nothing before;
 * make() asks again when it has made the set. */
struct ftk_still {
    int (*ask)(void *arg); /* FTKIT_OK: go on; another code: the result of make() or drop() */
    void *arg;
};

/* A part to be written. */
struct ftk_part_job {
    const char *dir, *context;
    uint64_t set;
    uint64_t flush; /* the part goes into a set that was made with this number alone; 0: any */
    uint32_t part;
    int nsegs;            /* segments in it, at least one */
    bool deflate;         /* compress what is large */
    bool plain;           /* regions of files as the program has written them (plain_files.h) */
    ftk_segment_fn *next; /* checked against set, context and each other by the level */
    ftk_pace_fn *pace; /* after each piece of about a MiB, or NULL.  With pace a part that has its
                             name stays: other processes may use the part at once */
    void *arg;         /* of next and pace */
};

/* What the file of a durable level defines: const struct ftk_level_ops ftk_level_<word>.  NULL:
 * there is nothing to do, unless the comment of the member says something else. */
struct ftk_level_ops {
    const char *word; /* in the names of its sets (sets_dir.h), which no other level has */
    /* Whether this build can write what the configuration asks for. */
    int (*check)(bool deflate);
    /* Whether a helper thread may write while other threads of the process are in the level's
     * library; opens this library.  NULL: it may. */
    bool (*in_background)(void);

    /* ---- writing a set.  make(), commit() and drop(): called by one process ---- */

    /* Make an unfinished set; remove an unfinished one of this number.  flush: a number of this
     * attempt, which marked() finds; 0: none.  still: NULL: there is no question.
     * FTKIT_ERR_EXISTS: a set of this number is complete, cannot be read, or is made by another
     * process at the same time. */
    int (*make)(const char *dir, const char *context, uint64_t set, uint64_t flush,
        const struct ftk_still *still);
    /* Whether the set was made with this number, by any process.  FTKIT_ERR_NOT_FOUND: not yet. */
    int (*marked)(const char *dir, const char *context, uint64_t set, uint64_t flush);
    /* Write a part, durable on return.  Fills *out.  FTKIT_ERR_IO: also, there is no set that was
     * made with the number; the same for commit(). */
    int (*write)(const struct ftk_part_job *job, struct ftk_manifest_part *out);
    /* Look for a part that another process writes.  FTKIT_OK: the part is whole.
     * FTKIT_ERR_NOT_FOUND: not yet; *sign changes while the writer makes progress. */
    int (*look)(const char *dir, const char *context, uint64_t set, uint32_t part, uint64_t *sign);
    /* Fill in sizes and sums of m->parts from what other processes have written.  heads
     * [m->nranks]: the checksum that the head of each rank must have.  FTKIT_ERR_CORRUPT: a part is
     * not of this flush. */
    int (*learn)(const char *dir, const uint64_t *heads, struct ftk_manifest *m);
    /* Complete the set that was made with the number flush (0: any), durable on return.  m->parts
     * and m->part_of are the caller's. */
    int (*commit)(const char *dir, uint64_t flush, const struct ftk_manifest *m);
    /* Remove what an attempt has left, when none of its writers writes any more: the set that was
     * made with this number, unless it is complete.  A set that others have made stays. */
    int (*drop)(const char *dir, const char *context, uint64_t set, uint64_t flush,
        const struct ftk_still *still);

    /* ---- finding sets.  Safe on what is damaged, foreign or malicious ---- */

    /* Read and check the manifest.  parts: check also that the set is complete, so the parts are
     * there and have their sizes.  FTKIT_ERR_NOT_FOUND: there is no such complete set. */
    int (*open)(
        const char *dir, const char *context, uint64_t set, bool parts, struct ftk_manifest *m);
    /* FTKIT_ERR_NOT_FOUND: there is nothing of this set. */
    int (*examine)(const char *dir, const char *context, uint64_t set, struct ftk_set_entry *e);
    /* Remove a set, so that an interrupted removal leaves no complete one. */
    int (*remove)(const char *dir, const char *context, uint64_t set);

    /* ---- reading.  m: of open() ---- */

    /* Read the segment of one rank, checked block by block, into memory of room, which is called at
     * most once.  After an error the memory has no value. */
    int (*read)(
        const char *dir, const struct ftk_manifest *m, int rank, ftk_room_fn *room, void *arg);
    /* Read the checksum of the head of that segment. */
    int (*sum)(const char *dir, const struct ftk_manifest *m, int rank, uint64_t *sum);
    /* Call fn with the checked head of each rank of m->parts[index]. */
    int (*heads)(
        const char *dir, const struct ftk_manifest *m, uint32_t index, ftk_head_fn *fn, void *arg);
    /* Read one region of a rank, and compare its checksums.  *seg is a malloc'd segment in which
     * other regions may be missing; *record points into it.  FTKIT_ERR_NOT_FOUND: no such region.
     * NULL: the whole segment is read. */
    int (*region)(const char *dir, const struct ftk_manifest *m, uint32_t rank, const char *region,
        void **seg, const struct ftk_seg_region **record);

    /* Call fn for each region of a rank whose files are plain files.  NULL: there are none. */
    int (*plain)(
        const char *dir, const struct ftk_manifest *m, uint32_t rank, ftk_plain_fn *fn, void *arg);

    /* ---- verifying and repairing, without a job ---- */

    void (*part_name)(uint32_t part, char name[FTK_SETS_DIR_NAME_MAX]);
    /* Read the whole of m->parts[index]; report is called for each damage. */
    int (*verify)(const char *dir, const struct ftk_manifest *m, uint32_t index,
        ftk_finding_fn *report, void *arg);
    /* A file that is made from the parts, for other programs: its name, or NULL; whether it is what
     * it should be; making it again. */
    const char *extra;
    int (*verify_extra)(
        const char *dir, const struct ftk_manifest *m, ftk_finding_fn *report, void *arg);
    int (*make_extra)(const char *dir, const struct ftk_manifest *m);
    /* Remove the files that interrupted writes have left in a set; first call fn with the name of
     * each.  only_tell: do not remove. */
    int (*leftovers)(const char *dir, const char *context, uint64_t set, bool only_tell,
        ftk_name_fn *fn, void *arg);
    /* Derive the manifest of a set from its parts, which are verified; commit() would write it.
     * FTKIT_ERR_LOST: ranks are in no part.  NULL: the parts do not have what the manifest
     * needs. */
    int (*derive)(const char *dir, const char *context, uint64_t set, ftk_finding_fn *report,
        void *arg, struct ftk_manifest *m);
};

#endif
