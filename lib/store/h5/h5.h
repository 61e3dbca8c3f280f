/* Place "hdf5": checkpoint sets as HDF5 files in a directory on the file system.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     <dir>/<context>.ftkit/set-0000000012/part-00000.h5   one per writer
 *                                          unfinished      until there is a manifest
 *                                          manifest        parts and their checksums
 *                                          master.h5       virtual datasets: every global
 *                                                          array whole, no ftkit needed
 *                                          master.xdmf     tells ParaView of them
 *                          owner                           see owner.h
 *
 * A part holds, for each of its ranks, a group /rank_00003 with one dataset per region
 * (a global array without its halo, of its local shape), the halo cells of an array apart
 * in "<name>.halo", and the head of the segment as bytes in "ftkit.head", from which and
 * the datasets the segment is put together again byte by byte and checked.  Datasets lie
 * in one piece, or, if wanted, in chunks that are compressed by the filters that every
 * HDF5 has (shuffle, deflate); the part then has the attribute "ftkit.compress".
 *
 * Durable before visible: a part is written under a temporary name, fsynced, renamed, and
 * its directory fsynced; then the manifest in the same way.  A set is complete when its
 * manifest is whole and every part it names is there with the size and the heads the
 * manifest says: a predicate of the files alone, that anyone can evaluate.  A set without
 * a manifest was being written if "unfinished" is there, or no part has its name; else it
 * has lost its manifest.
 * Serial HDF5, no MPI.  One thread at a time per process, unless ftk_h5_threadsafe(). */
#ifndef FTK_STORE_H5_H
#define FTK_STORE_H5_H

#include "core/ftk.h"
#include "store/segment.h"

struct ftk_h5_part {
    uint32_t part;   /* number in the file name */
    uint32_t nranks; /* ranks in it */
    uint64_t file_bytes;
    uint64_t heads_xxh; /* XXH3-64 of the heads of its ranks, one after the other; with
                             the block checksums in them it covers the data too */
};

struct ftk_h5_manifest {
    uint64_t set;
    uint64_t run;
    uint64_t epoch_id; /* while it is made from heads: theirs; else 0 */
    uint32_t nranks;   /* of the whole set */
    uint32_t nparts;
    char context[64];
    char program[64];          /* that wrote it; "": written by an older ftkit */
    struct ftk_h5_part *parts; /* [nparts], owned; ftk_h5_manifest_free() */
    uint32_t *part_of;         /* [nranks] index into parts, owned */
};
void ftk_h5_manifest_free(struct ftk_h5_manifest *m); /* safe on zeroed ones */

/* A text that belongs to no set, under a temporary name, synced, renamed: path is the old
 * file or the whole new one. */
int ftk_h5_save_text(const char *path, const char *text, size_t bytes);

/* Path of a set's directory into buf [FTK_PATH_MAX]. */
int ftk_h5_set_dir(const char *dir, const char *context, uint64_t set, char *buf);

/* Make the directories of a set (and fsync their parents).  What an interrupted write has
 * left of a set of the same number is cleared away first; a set that is complete, or cannot
 * be read, is FTKIT_ERR_EXISTS.  Called by one process. */
int ftk_h5_begin(const char *dir, const char *context, uint64_t set);
/* The two halves of it: without waiting for the disk, and making that durable. */
int ftk_h5_make(const char *dir, const char *context, uint64_t set);
int ftk_h5_sync(const char *dir, const char *context, uint64_t set);

/* Write part number part with the given sealed segments, durable on return.
 * segs[nsegs] are whole segments in memory.  Fills *out. */
int ftk_h5_write_part(const char *dir, const char *context, uint64_t set, uint32_t part,
    const void *const *segs, int nsegs, struct ftk_h5_part *out);

/* The same from segments that come one after the other, by rising rank: next gives one
 * that stays valid until it is called again. */
typedef int ftk_h5_source(void *arg, const void **seg);
int ftk_h5_write_part_from(const char *dir, const char *context, uint64_t set, uint32_t part,
    int nsegs, bool deflate, ftk_h5_source *next, void *arg, struct ftk_h5_part *out);

/* The same in pieces of about a MiB: pace is called after each with its bytes and the arg
 * of next, outside HDF5, and may sleep; an error of it ends the writing. */
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

/* For parts that others have written.  FTKIT_OK: it has its name, so it is whole;
 * FTKIT_ERR_NOT_FOUND: not yet, and *sign is another as long as its writer gets on. */
int ftk_h5_look(const char *dir, const char *context, uint64_t set, uint32_t part, uint64_t *sign);

/* For a thread that keeps a lock while it is inside this library, and must not while it
 * waits for a disk: both are called around such waits.  NULL: none. */
struct ftk_h5_gate {
    void (*leave)(void);
    void (*enter)(void);
};
void ftk_h5_use_gate(const struct ftk_h5_gate *gate);

/* Fill sizes and sums of m->parts from the files.  heads[rank], [m->nranks], is the
 * checksum that the head of each rank must have: what is not of this very flush is
 * FTKIT_ERR_CORRUPT. */
int ftk_h5_learn(const char *dir, const uint64_t *heads, struct ftk_h5_manifest *m);

/* Whether HDF5 may be called while another thread of the process calls it.  From then on
 * it is there until the process exits. */
bool ftk_h5_threadsafe(void);

/* Read and check a manifest and evaluate completeness (parts there, sizes and heads
 * agree when deep, else names and sizes only).  FTKIT_ERR_NOT_FOUND: no such complete
 * set; FTKIT_ERR_CORRUPT, FTKIT_ERR_FORMAT say what is wrong. */
int ftk_h5_open_set(
    const char *dir, const char *context, uint64_t set, bool deep, struct ftk_h5_manifest *m);

/* Numbers of the sets that are complete (not deep), newest first, in malloc'd *sets;
 * *nsets may be 0 (also when the directory does not exist). */
int ftk_h5_list(const char *dir, const char *context, uint64_t **sets, int *nsets);

/* Numbers of all directories of sets, complete or not, newest first, malloc'd. */
int ftk_h5_numbers(const char *dir, const char *context, uint64_t **sets, size_t *n);

/* Read the segment of one rank, checked block by block, into malloc'd *seg. */
int ftk_h5_read(
    const char *dir, const struct ftk_h5_manifest *m, int rank, void **seg, size_t *bytes);

/* The checksum of the head of that segment, which is that of the very same segment only. */
int ftk_h5_read_sum(const char *dir, const struct ftk_h5_manifest *m, int rank, uint64_t *sum);

/* Remove the complete sets of a run beyond its newest keep, and what interrupted writes have
 * left of sets older than its newest complete one.  Sets of other runs stay, and sets that
 * cannot be read. */
int ftk_h5_prune(const char *dir, const char *context, uint64_t run, int keep);

#endif
