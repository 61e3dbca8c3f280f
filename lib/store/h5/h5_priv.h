/* Private to lib/store/h5_*.c: how HDF5 is driven, and the names and shapes on disk.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     h5_file.c    the file driver under HDF5, error texts
 *     h5_shape.c   names, types and shapes of datasets
 *     h5_write.c   parts: writing
 *     h5_read.c    parts: reading, their heads
 *     h5_files.c   parts: regions of files, which are plain files beside the parts
 *     h5_master.c  the master file
 *     h5_xdmf.c    the XDMF file, which describes the datasets of the master
 *     h5_learn.c   parts that other processes have written
 *     h5_complete.c  completeness
 *     h5_set.c     directories: names, numbers, removing
 *     h5_make.c    the directory of a new set, and of an attempt that is given up
 *     h5_commit.c  making a set complete
 *     h5_level.c   the operations of the level (store/level_ops.h)
 *     h5_survey.c, h5_verify.c, h5_compare.c, h5_mend.c   for h5_offline.h */
#ifndef FTK_STORE_H5_PRIV_H
#define FTK_STORE_H5_PRIV_H

#include <hdf5.h>

#include "h5.h"
#include "store/file.h"
#include "store/plain_files.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "segments are little-endian in memory and on disk"
#endif

#define FTK_H5_NAME_MAX FTK_FILE_NAME_MAX /* dataset and file names, NUL included */
#define FTK_H5_HEAD "ftkit.head"
#define FTK_H5_COMPRESS "ftkit.compress" /* attribute of a part, the name of the filter */
#define FTK_H5_DEFLATE_MOST 1032u        /* bytes at most from one byte of deflated data */
#define FTK_H5_FILES "ftkit.files" /* attribute of a dataset: the directory of its plain files */
#define FTK_H5_WORD "set"
#define FTK_H5_MASTER "master.h5"
#define FTK_H5_XDMF "master.xdmf"
#define FTK_H5_UNFINISHED "unfinished" /* there from the beginning to the manifest */

/* ---- files (h5_file.c) --------------------------------------------------------------- */

/* A file under the file driver. */
struct ftk_h5_io {
    struct ftk_file *file;
    hid_t driver;      /* while HDF5 has the file open */
    ftk_pace_fn *pace; /* or NULL */
    void *pace_arg;
    /* called after each piece that was read, which is in the cache then; or NULL */
    void (*got)(void *arg, const char *piece, size_t bytes);
    void *got_arg;
    bool deflate; /* compress large datasets */
    /* regions of files go to plain files of this set; NULL: they do not */
    const struct ftk_h5_files *files;
};

/* Where plain files of a set go. */
struct ftk_h5_files {
    int dirfd; /* of the set; borrowed */
    uint64_t set;
};

/* HDF5 file handles on an io; < 0 on failure, the reason in HDF5's error stack. */
hid_t ftk_h5_file_create(struct ftk_h5_io *io);
hid_t ftk_h5_file_open(struct ftk_h5_io *io);
herr_t ftk_h5_file_close(struct ftk_h5_io *io, hid_t file);

/* HDF5 prints its errors by default.  ftk_h5_quiet() stops this and saves the setting of the
 * program, ftk_h5_loud() restores that setting. */
struct ftk_h5_quiet {
    unsigned v2;
    H5E_auto1_t fn1;
    H5E_auto2_t fn2;
    void *arg;
};
void ftk_h5_quiet(struct ftk_h5_quiet *q);
void ftk_h5_loud(const struct ftk_h5_quiet *q);

/* Fail after an HDF5 call on io has failed: with io->file->err if this is set, else with code and
 * the innermost entry of HDF5's error stack. */
int ftk_h5_fail_at(const char *file, int line, const struct ftk_h5_io *io, int code,
    const char *fmt, ...) FTK_PRINTF(5, 6);
#define ftk_h5_fail(io, code, ...) ftk_h5_fail_at(__FILE__, __LINE__, (io), (code), __VA_ARGS__)
#ifdef __clang_analyzer__ /* as for ftk_fail() */
#undef ftk_h5_fail
#define ftk_h5_fail(io, code, ...)                                                                 \
    (ftk_h5_fail_at(__FILE__, __LINE__, (io), (code), __VA_ARGS__), (code))
#endif

/* ---- names, types and shapes (h5_shape.c) -------------------------------------------- */

void ftk_h5_part_name(uint32_t part, char *buf);         /* part-00000.h5 */
void ftk_h5_rank_name(uint32_t rank, char *buf);         /* rank_00003 */
void ftk_h5_dataset_name(const char *region, char *buf); /* [FTK_H5_NAME_MAX] */
void ftk_h5_halo_name(const char *region, char *buf);    /* [FTK_H5_NAME_MAX] */

/* Shape of a region in its dataset and in memory. */
struct ftk_h5_shape {
    int ndims;
    size_t item_bytes;
    size_t items;                  /* in the dataset */
    size_t halo_items;             /* in the dataset of the halo */
    hsize_t dims[FTKIT_DIMS_MAX];  /* of the dataset */
    hsize_t mem[FTKIT_DIMS_MAX];   /* of the block in memory */
    hsize_t width[FTKIT_DIMS_MAX]; /* of the halo */
};
/* The record must be one of a checked head. */
void ftk_h5_shape(const struct ftk_seg_region *r, struct ftk_h5_shape *s);

/* The runs of halo cells of a block, in memory order. */
struct ftk_h5_runs {
    const struct ftk_h5_shape *s;
    hsize_t at[FTKIT_DIMS_MAX]; /* of the row; a row runs along the last dimension */
    size_t row, nrows;
    bool right; /* the next run is the right end of this row */
};
void ftk_h5_runs_start(struct ftk_h5_runs *it, const struct ftk_h5_shape *s);
/* The next run: its begin in the block and its length, in items.  false: no further run. */
bool ftk_h5_runs_next(struct ftk_h5_runs *it, size_t *begin, size_t *items);

/* Datatype of one item of the region's dataset; the caller closes it; < 0 on failure. */
hid_t ftk_h5_type(const struct ftk_seg_region *r);
/* A new dataspace in which the block's interior is selected. */
hid_t ftk_h5_interior(const struct ftk_h5_shape *s);

/* Make a group; < 0 on failure. */
hid_t ftk_h5_group(hid_t loc, const char *name);
/* Attributes of a group or dataset; < 0 on failure.  n 0: one value, a scalar. */
herr_t ftk_h5_attr_text(hid_t obj, const char *name, const char *text);
/* All attributes of a region in a table; table NULL: none. */
herr_t ftk_h5_attr_of_region(hid_t obj, const char *table, size_t bytes, const char *region);
herr_t ftk_h5_attr_u64(hid_t obj, const char *name, const uint64_t *v, size_t n);

static inline void ftk_h5_close(hid_t id, herr_t (*closer)(hid_t))
{
    if (id >= 0)
        closer(id);
}

/* ---- parts (h5_read.c) --------------------------------------------------------------- */

/* Read and check the heads of part p, which holds ranks[p->nranks], ascending.  Compare their
 * checksum with that in the manifest.  fn may be NULL. */
int ftk_h5_part_heads(int dirfd, const struct ftk_manifest *m, const struct ftk_manifest_part *p,
    const uint32_t *ranks, ftk_head_fn *fn, void *arg);
/* The same, but put the checksum of the heads into *sum instead of comparing it. */
int ftk_h5_part_sum(int dirfd, const struct ftk_manifest *m, const struct ftk_manifest_part *p,
    const uint32_t *ranks, ftk_head_fn *fn, void *arg, uint64_t *sum);

/* A part that is being read. */
struct ftk_h5_reader {
    struct ftk_file file;
    struct ftk_h5_io io;
    const struct ftk_manifest_part *part;
    int dirfd; /* of the set; borrowed */
    uint64_t set;
    uint32_t rank; /* whose head was read last */
    size_t file_bytes;
    hid_t id; /* of the file in HDF5 */
    /* called for each damaged plain file; NULL: the first one ends the reading */
    void (*found)(void *arg, int code, const char *file);
    void *found_arg;
    /* a segment that is checked while it is read; the first `have` bytes of its data are complete,
     * and the first `sure` of these are checked */
    const char *seg;
    size_t have, sure;
    int rc; /* of the check */
};

/* Open part p and check its size against the manifest. */
int ftk_h5_reader_open(struct ftk_h5_reader *src, int dirfd, const struct ftk_manifest *m,
    const struct ftk_manifest_part *p);
void ftk_h5_reader_close(struct ftk_h5_reader *src);
/* Read and check the head of a rank into malloc'd *head; open its group as *group. */
int ftk_h5_reader_head(struct ftk_h5_reader *src, const struct ftk_manifest *m, uint32_t rank,
    void **head, hid_t *group);
/* Allocate a whole segment; copy the head; make the gaps between the regions zero.  group: of the
 * rank. */
int ftk_h5_reader_memory(
    const struct ftk_h5_reader *src, const void *head, hid_t group, void **out);
/* Read the attributes of a rank into malloc'd *table; NULL, 0: the rank has none. */
int ftk_h5_reader_attributes(
    const struct ftk_h5_reader *src, const void *head, hid_t group, char **table, size_t *bytes);
/* Read one region to its place in the data of a segment.  The caller compares checksums. */
int ftk_h5_reader_region(
    const struct ftk_h5_reader *src, hid_t group, const struct ftk_seg_region *r, char *data);

/* Open the part of a rank and let fn read from it. */
typedef int ftk_h5_read_fn(
    struct ftk_h5_reader *src, const struct ftk_manifest *m, uint32_t rank, void *out);
int ftk_h5_read_rank(
    const char *dir, const struct ftk_manifest *m, int rank, ftk_h5_read_fn *fn, void *out);
/* Open a dataset of this type; its shape goes to *ndims and dims [FTKIT_DIMS_MAX]. */
int ftk_h5_reader_dataset(const struct ftk_h5_reader *src, hid_t group, const char *name,
    hid_t type, int *ndims, hsize_t *dims, hid_t *out);
/* Whether the name is that of an object in the file itself: any other link could lead out of it. */
bool ftk_h5_is_hard(hid_t loc, const char *name);

/* ---- regions of files (h5_files.c) ---------------------------------------------------
 * The dataset of such a region has the head and the entries of the archive, and the attribute
 * FTK_H5_FILES.  A second dataset has the checksums of the files. */

/* Whether the region is an archive of files that are to be plain files; then *list is filled, and
 * the caller frees list->v. */
bool ftk_h5_files_wanted(const struct ftk_h5_io *io, const struct ftk_seg_region *r,
    const char *block, struct ftk_archive_list *list);
/* Write the files.  *sums becomes malloc'd [list->head.nentries + 1], also after an error. */
int ftk_h5_files_put(const struct ftk_h5_io *io, const struct ftk_plain *p, const char *block,
    const struct ftk_archive_list *list, uint64_t **sums);
void ftk_h5_files_name(const char *region, char *buf); /* of the checksums; [FTK_H5_NAME_MAX] */

/* Whether the files of a region are plain files. */
bool ftk_h5_files_plain(hid_t group, const struct ftk_seg_region *r);
/* Bytes of the regions of a rank that are in plain files. */
uint64_t ftk_h5_files_bytes(hid_t group, const void *head);
/* Read a region whose files are plain files to its place in the data of a segment. */
int ftk_h5_files_read(
    const struct ftk_h5_reader *src, hid_t group, const struct ftk_seg_region *r, char *data);
/* Read the list of its files alone; *buf malloc'd has the paths, list->v and *sums are malloc'd. */
int ftk_h5_files_list(const struct ftk_h5_reader *src, hid_t group, const struct ftk_seg_region *r,
    char **buf, struct ftk_archive_list *list, uint64_t **sums);

/* ---- master (h5_master.c) ------------------------------------------------------------ */

/* Records of the global arrays of a set, each from the first rank that has the array. */
struct ftk_h5_arrays {
    struct ftk_seg_region *v;
    size_t n;
    bool apart; /* the blocks of the ranks are of different steps (FTK_SEG_APART) */
};

/* Write master.h5 and master.xdmf, durable; also checks every part against m. */
int ftk_h5_master(int dirfd, const struct ftk_manifest *m);

/* Build master.h5 in the open file of io.  arrays, unless NULL, gets the arrays of the master,
 * arrays->v malloc'd. */
int ftk_h5_master_build(
    struct ftk_h5_io *io, int dirfd, const struct ftk_manifest *m, struct ftk_h5_arrays *arrays);

/* Write master.xdmf, durable; no file when XDMF can describe none of the arrays. */
int ftk_h5_xdmf(int dirfd, const struct ftk_manifest *m, const struct ftk_h5_arrays *arrays);

/* ---- sets (h5_set.c, h5_complete.c) -------------------------------------------------- */

/* Directory of a set as a file descriptor, -1 with errno. */
int ftk_h5_open_dir(const char *dir, const char *context, uint64_t set);
/* The same for a writer.  FTKIT_ERR_IO: there is none, or the directory was not made with the
 * number flush (0: any will do). */
int ftk_h5_open_made(const char *dir, const char *context, uint64_t set, uint64_t flush, int *fd);
/* The name of a set's directory. */
void ftk_h5_set_name(uint64_t set, char name[FTK_SETS_DIR_NAME_MAX]);
/* Whether the store gives this name to a file in a set's directory ("our files"). */
bool ftk_h5_is_ours(const char *name);
/* Open the directory of a set in that of its context, to remove the set.  *fd -1: there is none, or
 * only a file or a link of this name. */
int ftk_h5_open_old(int ctxfd, uint64_t set, int *fd);
/* Remove the set in the open directory fd.  Files that are not ours stay; then the directory stays,
 * too, and *stays is true.  point: the fault point, or NULL. */
int ftk_h5_clear(int ctxfd, uint64_t set, int fd, const char *point, bool *stays);
/* Whether a directory has a manifest; also true if that cannot be known. */
bool ftk_h5_has_manifest(int dirfd);
/* Whether the files prove that the set was never finished: it has no manifest, and it has the
 * mark "unfinished" or none of our files but temporary ones. */
bool ftk_h5_is_unfinished(int dirfd);
/* Check that all parts exist and have their sizes; if deep, check their heads, too. */
int ftk_h5_check_parts(
    int dirfd, const struct ftk_manifest *m, bool deep, ftk_head_fn *fn, void *arg);
#endif
