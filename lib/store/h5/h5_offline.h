/* Durable level hdf5, without a job: list the sets of a directory, find damage, repair.  For the
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

/* What there is of a set.  FTKIT_ERR_NOT_FOUND: there is no such set. */
int ftk_h5_examine(const char *dir, const char *context, uint64_t set, struct ftk_set_entry *e);

/* Read and check the manifest of a set.  Its parts are not checked and may be missing. */
int ftk_h5_manifest_of(const char *dir, const char *context, uint64_t set, struct ftk_manifest *m);

/* Remove a set's files, and its directory unless the directory contains foreign files. */
int ftk_h5_remove(const char *dir, const char *context, uint64_t set);

/* ---- checking every byte (h5_verify.c) ----------------------------------------------- */

/* Read the whole of part m->parts[index]; report is called for each damage. */
int ftk_h5_verify_part(const char *dir, const struct ftk_manifest *m, uint32_t index,
    ftk_finding_fn *report, void *arg);
/* The same for the master: compare it with a master that is built anew from the parts.  If
 * parts are damaged, check only that all of the master can be read. */
int ftk_h5_verify_master(
    const char *dir, const struct ftk_manifest *m, ftk_finding_fn *report, void *arg);

/* Call fn with the checked head of each rank of a part.  FTKIT_OK, or the first error of fn or
 * of the reader. */
int ftk_h5_part_records(
    const char *dir, const struct ftk_manifest *m, uint32_t index, ftk_head_fn *fn, void *arg);

/* Read one region of a rank, and compare its checksums.  *seg is a malloc'd segment in which
 * other regions may be missing; *record points to the record of the region in *seg.
 * FTKIT_ERR_NOT_FOUND: the rank has no such region. */
int ftk_h5_read_region(const char *dir, const struct ftk_manifest *m, uint32_t rank,
    const char *region, void **seg, const struct ftk_seg_region **record);

/* Call fn for each region of a rank whose files are plain files (h5_files.c). */
int ftk_h5_files_of(
    const char *dir, const struct ftk_manifest *m, uint32_t rank, ftk_plain_fn *fn, void *arg);

/* ---- repair (h5_mend.c) -------------------------------------------------------------- */

/* Remove the files that interrupted writes have left in a set's directory; first call fn with
 * the name of each.  only_tell: call fn, but do not remove. */
int ftk_h5_leftovers(
    const char *dir, const char *context, uint64_t set, bool only_tell, ftk_name_fn *fn, void *arg);

/* Derive the manifest of a set from its parts; every byte of the parts is checked.
 * FTKIT_ERR_LOST: ranks are in no part.  Other errors: a part is damaged; the detail or report
 * says how.  The caller frees *m.  No file is written. */
int ftk_h5_derive(const char *dir, const char *context, uint64_t set, ftk_finding_fn *report,
    void *arg, struct ftk_manifest *m);

/* Write the master of a set anew. */
int ftk_h5_remake_master(const char *dir, const struct ftk_manifest *m);

#endif
