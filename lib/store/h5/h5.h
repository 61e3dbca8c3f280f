/* Place "hdf5": checkpoint sets as HDF5 files in a directory on the file system.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     <dir>/<context>.ftkit/set-0000000012/part-00000.h5   one per writer
 *                                          unfinished      until there is a manifest
 *                                          manifest        parts and their checksums
 *                                          master.h5       virtual datasets: every global
 *                                                          array whole, no ftkit needed
 *                                          master.xdmf     describes master.h5 for ParaView
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
 * Durable before visible: a part is written under a temporary name, fsynced, renamed, and its
 * directory is fsynced; then the manifest in the same way.  A set is complete when its manifest
 * is whole, and every part in the manifest exists and has the size and the heads that the
 * manifest says.  So the files alone show whether a set is complete.  A set without a manifest
 * is unfinished if "unfinished" exists, or if no file but temporary ones exists; else the set
 * has lost its manifest.
 *
 * Serial HDF5, no MPI.  One thread at a time per process, unless ftk_h5_threadsafe(). */
#ifndef FTK_STORE_H5_H
#define FTK_STORE_H5_H

#include "core/ftk.h"
#include "store/segment.h"

struct ftk_h5_part {
    uint32_t part;   /* number in the file name */
    uint32_t nranks; /* ranks in it */
    uint64_t file_bytes;
    uint64_t heads_xxh; /* XXH3-64 of the heads of its ranks, one after the other; the heads
                             contain the checksums of all blocks, so this covers the data, too */
};

struct ftk_h5_manifest {
    uint64_t set;
    uint64_t run;
    uint64_t epoch_id; /* of the heads, while the manifest is derived from them; else 0 */
    uint32_t nranks;   /* of the whole set */
    uint32_t nparts;
    char context[64];
    char program[64];          /* that wrote the set; "": written by an older ftkit */
    struct ftk_h5_part *parts; /* [nparts], owned; ftk_h5_manifest_free() */
    uint32_t *part_of;         /* [nranks] index into parts, owned */
};
void ftk_h5_manifest_free(struct ftk_h5_manifest *m); /* safe on zeroed ones */

/* Put the path of a set's directory into buf [FTK_PATH_MAX]. */
int ftk_h5_set_dir(const char *dir, const char *context, uint64_t set, char *buf);

/* Make the directories of a set, and fsync their parents.  An unfinished set of the same number
 * is removed first.  FTKIT_ERR_EXISTS: a set of this number is complete or cannot be read.
 * Called by one process. */
int ftk_h5_begin(const char *dir, const char *context, uint64_t set);
/* The two halves of ftk_h5_begin(): make the directories, without fsync; fsync.  flush: a number
 * that the mark of the unfinished set gets; 0: none. */
int ftk_h5_make(const char *dir, const char *context, uint64_t set, uint64_t flush);
int ftk_h5_sync(const char *dir, const char *context, uint64_t set);
/* Whether the directory of a set was made with this number, by any process.  FTKIT_ERR_NOT_FOUND:
 * not yet; an older directory of the set does not count. */
int ftk_h5_marked(const char *dir, const char *context, uint64_t set, uint64_t flush);

/* Write part number `part` with the given sealed segments, durable on return.
 * segs[nsegs] are whole segments in memory.  Fills *out. */
int ftk_h5_write_part(const char *dir, const char *context, uint64_t set, uint32_t part,
    const void *const *segs, int nsegs, struct ftk_h5_part *out);

/* The same from segments that come one after the other, by rising rank.  next returns one
 * segment, which stays valid until the following call of next. */
typedef int ftk_h5_source(void *arg, const void **seg);
int ftk_h5_write_part_from(const char *dir, const char *context, uint64_t set, uint32_t part,
    int nsegs, bool deflate, ftk_h5_source *next, void *arg, struct ftk_h5_part *out);

/* The same in pieces of about a MiB; a piece has at least one row, that is one index of the first
 * dimension of a dataset.  After each piece pace is called with arg and the bytes of the piece,
 * outside HDF5.  pace may sleep; an error of pace ends the writing. */
typedef int ftk_h5_pace(void *arg, size_t bytes);
int ftk_h5_write_part_slowly(const char *dir, const char *context, uint64_t set, uint32_t part,
    int nsegs, bool deflate, ftk_h5_source *next, ftk_h5_pace *pace, void *arg,
    struct ftk_h5_part *out);

/* Whether this HDF5 can compress. */
bool ftk_h5_can_deflate(void);

/* Write the master file, then the manifest, durable on return: the set is now complete.
 * Called by one process after all parts are durable.  m->parts and m->part_of are the
 * caller's. */
int ftk_h5_commit(const char *dir, const struct ftk_h5_manifest *m);

/* Look for a part that another process writes.  FTKIT_OK: the part has its name, so the part is
 * whole.  FTKIT_ERR_NOT_FOUND: not yet; *sign changes from call to call while the writer makes
 * progress. */
int ftk_h5_look(const char *dir, const char *context, uint64_t set, uint32_t part, uint64_t *sign);

/* Fill in sizes and sums of m->parts from the files.  heads [m->nranks], indexed by rank: the
 * checksum that the head of each rank must have.  FTKIT_ERR_CORRUPT: a head has another
 * checksum, so its part is not of this flush. */
int ftk_h5_learn(const char *dir, const uint64_t *heads, struct ftk_h5_manifest *m);

/* Whether HDF5 may be called while another thread of the process calls HDF5.  This call also
 * opens the HDF5 library, which stays open until the process exits. */
bool ftk_h5_threadsafe(void);

/* Read and check a manifest, and check whether the set is complete: the names and sizes of the
 * parts and, if deep, also their heads.  FTKIT_ERR_NOT_FOUND: there is no such complete set;
 * FTKIT_ERR_CORRUPT, FTKIT_ERR_FORMAT: the detail says what is wrong. */
int ftk_h5_open_set(
    const char *dir, const char *context, uint64_t set, bool deep, struct ftk_h5_manifest *m);

/* Numbers of the complete sets (heads are not checked), newest first, in malloc'd *sets.
 * *nsets may be 0, also when the directory does not exist. */
int ftk_h5_list(const char *dir, const char *context, uint64_t **sets, int *nsets);

/* Numbers of all directories of sets, complete or not, newest first, malloc'd. */
int ftk_h5_numbers(const char *dir, const char *context, uint64_t **sets, size_t *n);

/* Give memory for a segment of so many bytes, aligned to FTK_SEG_REGION_ALIGN, as *at. */
typedef int ftk_h5_room_fn(void *arg, size_t bytes, void **at);

/* Read the segment of one rank, checked block by block, into memory of room, which is called at
 * most once.  After an error the memory has no value. */
int ftk_h5_read_into(
    const char *dir, const struct ftk_h5_manifest *m, int rank, ftk_h5_room_fn *room, void *arg);

/* The same into malloc'd *seg. */
int ftk_h5_read(
    const char *dir, const struct ftk_h5_manifest *m, int rank, void **seg, size_t *bytes);

/* Read the checksum of the head of that segment.  Different segments have different checksums. */
int ftk_h5_read_sum(const char *dir, const struct ftk_h5_manifest *m, int rank, uint64_t *sum);

/* Remove the complete sets of a run, except the newest keep sets, and all unfinished sets that
 * are older than the newest complete set of the run.  Complete sets of other runs stay, and so
 * do sets that cannot be read. */
int ftk_h5_prune(const char *dir, const char *context, uint64_t run, int keep);

#endif
