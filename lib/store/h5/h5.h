/* Durable level hdf5: checkpoint sets as HDF5 files in a directory on the file system.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     <dir>/<context>.ftkit/set-0000000012/part-00000.h5   one per writer
 *                                          unfinished      until there is a manifest
 *                                          manifest        parts and their checksums
 *                                          master.h5       virtual datasets: every global
 *                                                          array whole, no ftkit needed
 *                                          master.xdmf     describes master.h5 for ParaView
 *                                          files/          regions of files, as plain files
 *                          owner                           see owner.h
 *
 * A part holds a group /rank_00003 for each of its ranks.  The group has one dataset per region;
 * the dataset of a global array has the local shape, without halo.  The halo cells of an array
 * are in the dataset "<name>.halo", the head of the segment is in "ftkit.head" as bytes.  A
 * reader puts the segment together again, byte by byte, from the head and the datasets, and
 * checks the segment.  A dataset is contiguous or, on demand, in chunks that are compressed by
 * the filters that every HDF5 has (shuffle, deflate); a part with compressed datasets has the
 * attribute "ftkit.compress".
 *
 * The files of a region of files are plain files (store/plain_files.h); the part has their names,
 * lengths and checksums.
 *
 * Durable before visible: a part is written under a temporary name, fsynced, renamed, and its
 * directory is fsynced; its plain files are durable before; then the manifest in the same way.
 * A set is complete when its manifest is whole, and every part in the manifest exists and has the
 * size and the heads that the manifest says.  So the files alone show whether a set is complete.  A
 * set without a manifest is unfinished if "unfinished" exists, or if no file but temporary ones
 * exists; else the set has lost its manifest.
 *
 * Serial HDF5, no MPI.  One thread at a time per process, unless ftk_h5_threadsafe(). */
#ifndef FTK_STORE_H5_H
#define FTK_STORE_H5_H

#include "core/ftk.h"
#include "store/level_ops.h"

/* Make the directories of a set.  An unfinished set of the same number is removed first.  flush: a
 * number that the mark of the unfinished set gets; 0: none.  FTKIT_ERR_EXISTS: a set of this number
 * is complete, cannot be read, or is made by another process.  still: see level_ops.h. */
int ftk_h5_make(const char *dir, const char *context, uint64_t set, uint64_t flush,
    const struct ftk_still *still);
/* Whether the directory of a set was made with this number, by any process.  FTKIT_ERR_NOT_FOUND:
 * not yet; an older directory of the set does not count. */
int ftk_h5_marked(const char *dir, const char *context, uint64_t set, uint64_t flush);
/* Remove the unfinished set that was made with this number: see drop() of level_ops.h. */
int ftk_h5_drop(const char *dir, const char *context, uint64_t set, uint64_t flush,
    const struct ftk_still *still);

/* Write a part from sealed segments that come one after the other, in the order of their ranks;
 * durable on return.  Fills *out.  A piece between two calls of pace has at
 * least one row, that is one index of the first dimension of a dataset; pace is called outside
 * HDF5. */
int ftk_h5_write_job(const struct ftk_part_job *job, struct ftk_manifest_part *out);

/* Whether this HDF5 can compress. */
bool ftk_h5_can_deflate(void);

/* Write the master file, then the manifest, durable on return: the set is now complete.
 * Called by one process after all parts are durable.  flush: of the directory, 0: any.  m->parts
 * and m->part_of are the caller's. */
int ftk_h5_commit(const char *dir, uint64_t flush, const struct ftk_manifest *m);

/* Look for a part that another process writes.  FTKIT_OK: the part has its name, so the part is
 * whole.  FTKIT_ERR_NOT_FOUND: not yet; *sign changes from call to call while the writer makes
 * progress. */
int ftk_h5_look(const char *dir, const char *context, uint64_t set, uint32_t part, uint64_t *sign);

/* Fill in sizes and sums of m->parts from the files.  heads [m->nranks], indexed by rank: the
 * checksum that the head of each rank must have.  FTKIT_ERR_CORRUPT: a head has another
 * checksum, so its part is not of this flush. */
int ftk_h5_learn(const char *dir, const uint64_t *heads, struct ftk_manifest *m);

/* Whether HDF5 may be called while another thread of the process calls HDF5.  This call also
 * opens the HDF5 library, which stays open until the process exits. */
bool ftk_h5_threadsafe(void);

/* Read and check a manifest, and check whether the set is complete: the names and sizes of the
 * parts and, if deep, also their heads.  FTKIT_ERR_NOT_FOUND: there is no such complete set;
 * FTKIT_ERR_CORRUPT, FTKIT_ERR_FORMAT: the detail says what is wrong. */
int ftk_h5_open_set(
    const char *dir, const char *context, uint64_t set, bool deep, struct ftk_manifest *m);

/* Read the segment of one rank, checked block by block, into memory of room, which is called at
 * most once.  After an error the memory has no value. */
int ftk_h5_read_into(
    const char *dir, const struct ftk_manifest *m, int rank, ftk_room_fn *room, void *arg);

/* Read the checksum of the head of that segment.  Different segments have different checksums. */
int ftk_h5_read_sum(const char *dir, const struct ftk_manifest *m, int rank, uint64_t *sum);

#endif
