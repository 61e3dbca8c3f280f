/* Place "hdf5", seen from outside a job: what is in a directory, what of it is damaged,
 * and what can be put right.  For the commands of the ftkit program.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All of it is safe on directories that are damaged, foreign, or made to do harm: nothing
 * is believed before it is checked, no link is followed below the directory, and only
 * names that the store gives are opened or removed.  What HDF5 itself makes of a file
 * that was made to do harm is not in our hands: the program reads in a process of its
 * own, which may crash. */
#ifndef FTK_STORE_H5_OFFLINE_H
#define FTK_STORE_H5_OFFLINE_H

#include "h5.h"

/* ---- what is there (h5_survey.c) ----------------------------------------------------- */

/* Names of the contexts that have a directory <name>.ftkit in dir, in order, malloc'd. */
int ftk_h5_contexts(const char *dir, char (**names)[FTKIT_NAME_MAX + 1], size_t *n);

enum ftk_h5_state {
    FTK_H5_COMPLETE,   /* as far as names and sizes of files tell */
    FTK_H5_INCOMPLETE, /* being written, or its writing was interrupted */
    FTK_H5_DAMAGED     /* it was finished, but its manifest or a part is not as it was written */
};

struct ftk_h5_entry {
    uint64_t set;
    int state;                /* enum ftk_h5_state */
    uint32_t nranks, nparts;  /* 0: not known */
    uint64_t bytes;           /* of the files that are there */
    int64_t written_s;        /* since 1970: of the manifest, else of the directory */
    char why[FTK_DETAIL_MAX]; /* not complete: what is missing or wrong */
};

/* Every set of a context, newest first, malloc'd. */
int ftk_h5_survey(const char *dir, const char *context, struct ftk_h5_entry **v, size_t *n);
/* One of them. */
int ftk_h5_examine(const char *dir, const char *context, uint64_t set, struct ftk_h5_entry *e);

/* The manifest of a set, checked by itself: its parts may be missing. */
int ftk_h5_manifest_of(
    const char *dir, const char *context, uint64_t set, struct ftk_h5_manifest *m);

/* Remove a set's files, and its directory when nothing foreign is in it. */
int ftk_h5_remove(const char *dir, const char *context, uint64_t set);

/* ---- checking every byte (h5_verify.c) ----------------------------------------------- */

struct ftk_h5_finding {
    int code;                        /* what the readers of the store say: FTKIT_ERR_... */
    char file[64];                   /* in the directory of the set */
    int64_t rank;                    /* -1: all of the file */
    char region[FTKIT_NAME_MAX + 1]; /* "": all of the rank */
    int64_t block;                   /* of the rank's data, -1: not one of them */
    char text[FTK_DETAIL_MAX];
};
typedef void ftk_h5_tell(const struct ftk_h5_finding *f, void *arg);

/* Read part number index of the manifest whole; tell gets everything that is damaged. */
int ftk_h5_verify_part(
    const char *dir, const struct ftk_h5_manifest *m, uint32_t index, ftk_h5_tell *tell, void *arg);
/* The same of the master: against one made anew from the parts, or, when they are
 * damaged, that all of it can be read. */
int ftk_h5_verify_master(
    const char *dir, const struct ftk_h5_manifest *m, ftk_h5_tell *tell, void *arg);

/* Heads of all ranks of a part, checked.  FTKIT_OK, or what fn or the reader said. */
typedef int ftk_h5_rank_fn(const void *head, const struct ftk_h5_part *p, void *arg);
int ftk_h5_part_records(const char *dir, const struct ftk_h5_manifest *m, uint32_t index,
    ftk_h5_rank_fn *fn, void *arg);

/* Read one region of a rank, its checksums compared, into its place of a malloc'd *seg
 * whose other regions may be missing; *record, in it, tells where.  FTKIT_ERR_NOT_FOUND:
 * the rank has no such region. */
int ftk_h5_read_region(const char *dir, const struct ftk_h5_manifest *m, uint32_t rank,
    const char *region, void **seg, const struct ftk_seg_region **record);

/* ---- putting right (h5_mend.c) ------------------------------------------------------- */

/* Files that interrupted writes have left in a set's directory: fn gets the name of each,
 * which is then removed, unless only says not to. */
typedef void ftk_h5_name_fn(const char *name, void *arg);
int ftk_h5_leftovers(const char *dir, const char *context, uint64_t set, bool only_tell,
    ftk_h5_name_fn *fn, void *arg);

/* Make the manifest of a set from its parts, every byte of which is checked before.
 * FTKIT_ERR_LOST: ranks are in no part; other codes and the detail, or tell, say what is
 * wrong with a part.  *m is the caller's to free; nothing is written. */
int ftk_h5_derive(const char *dir, const char *context, uint64_t set, ftk_h5_tell *tell, void *arg,
    struct ftk_h5_manifest *m);

/* Write the master of a set anew. */
int ftk_h5_remake_master(const char *dir, const struct ftk_h5_manifest *m);

#endif
