/* Place "hdf5", without a job: list the sets of a directory, find damage, repair.  For the
 * commands of the ftkit program.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All functions are safe on directories that are damaged, foreign or malicious: they check
 * before they believe, follow no link below the directory, and open or remove only files with
 * names that the store gives.  A malicious file may still crash HDF5 itself.  So the program
 * reads in a process of its own, which may crash. */
#ifndef FTK_STORE_H5_OFFLINE_H
#define FTK_STORE_H5_OFFLINE_H

#include "h5.h"

/* ---- listing (h5_survey.c) ----------------------------------------------------------- */

/* Names of the contexts that have a directory <name>.ftkit in dir, sorted, malloc'd. */
int ftk_h5_contexts(const char *dir, char (**names)[FTKIT_NAME_MAX + 1], size_t *n);

enum ftk_h5_state {
    FTK_H5_COMPLETE,   /* as far as the names and sizes of the files show */
    FTK_H5_INCOMPLETE, /* is being written, or its writing was interrupted */
    FTK_H5_DAMAGED     /* was complete; now the manifest or a part is missing or changed */
};

struct ftk_h5_entry {
    uint64_t set;
    int state;                /* enum ftk_h5_state */
    uint32_t nranks, nparts;  /* 0: not known */
    uint64_t bytes;           /* of all existing files */
    int64_t written_s;        /* since 1970: of the manifest, else of the directory */
    char why[FTK_DETAIL_MAX]; /* unless complete: what is missing or wrong */
};

/* Every set of a context, newest first, malloc'd. */
int ftk_h5_survey(const char *dir, const char *context, struct ftk_h5_entry **v, size_t *n);
/* The same for one set.  FTKIT_ERR_NOT_FOUND: there is no such set. */
int ftk_h5_examine(const char *dir, const char *context, uint64_t set, struct ftk_h5_entry *e);

/* Read and check the manifest of a set.  Its parts are not checked and may be missing. */
int ftk_h5_manifest_of(
    const char *dir, const char *context, uint64_t set, struct ftk_h5_manifest *m);

/* Remove a set's files, and its directory unless the directory contains foreign files. */
int ftk_h5_remove(const char *dir, const char *context, uint64_t set);

/* ---- checking every byte (h5_verify.c) ----------------------------------------------- */

struct ftk_h5_finding {
    int code;                        /* FTKIT_ERR_... of the failed check */
    char file[64];                   /* in the directory of the set */
    int64_t rank;                    /* -1: the whole file */
    char region[FTKIT_NAME_MAX + 1]; /* "": the whole rank */
    int64_t block;                   /* of the rank's data, -1: no single block */
    char text[FTK_DETAIL_MAX];
};
typedef void ftk_h5_tell(const struct ftk_h5_finding *f, void *arg);

/* Read the whole of part m->parts[index]; tell is called for each damage. */
int ftk_h5_verify_part(
    const char *dir, const struct ftk_h5_manifest *m, uint32_t index, ftk_h5_tell *tell, void *arg);
/* The same for the master: compare it with a master that is built anew from the parts.  If
 * parts are damaged, check only that all of the master can be read. */
int ftk_h5_verify_master(
    const char *dir, const struct ftk_h5_manifest *m, ftk_h5_tell *tell, void *arg);

/* Call fn with the checked head of each rank of a part.  FTKIT_OK, or the first error of fn or
 * of the reader. */
typedef int ftk_h5_rank_fn(const void *head, const struct ftk_h5_part *p, void *arg);
int ftk_h5_part_records(const char *dir, const struct ftk_h5_manifest *m, uint32_t index,
    ftk_h5_rank_fn *fn, void *arg);

/* Read one region of a rank, and compare its checksums.  *seg is a malloc'd segment in which
 * other regions may be missing; *record points to the record of the region in *seg.
 * FTKIT_ERR_NOT_FOUND: the rank has no such region. */
int ftk_h5_read_region(const char *dir, const struct ftk_h5_manifest *m, uint32_t rank,
    const char *region, void **seg, const struct ftk_seg_region **record);

/* ---- repair (h5_mend.c) -------------------------------------------------------------- */

/* Remove the files that interrupted writes have left in a set's directory; first call fn with
 * the name of each.  only_tell: call fn, but do not remove. */
typedef void ftk_h5_name_fn(const char *name, void *arg);
int ftk_h5_leftovers(const char *dir, const char *context, uint64_t set, bool only_tell,
    ftk_h5_name_fn *fn, void *arg);

/* Derive the manifest of a set from its parts; every byte of the parts is checked.
 * FTKIT_ERR_LOST: ranks are in no part.  Other errors: a part is damaged; the detail or tell
 * says how.  The caller frees *m.  No file is written. */
int ftk_h5_derive(const char *dir, const char *context, uint64_t set, ftk_h5_tell *tell, void *arg,
    struct ftk_h5_manifest *m);

/* Write the master of a set anew. */
int ftk_h5_remake_master(const char *dir, const struct ftk_h5_manifest *m);

#endif
