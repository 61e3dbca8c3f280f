/* Slices: the parts of an archive (archive.h) that the ranks of a job keep, one each.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     [ struct ftk_slice_head ][ head and entries of the archive ][ its bytes from..to ]
 *
 * Each slice has all entries of the archive, and the contents of a part of it; rank r of n has part
 * r of n parts of about the same length.  The head has a checksum of its own, the entries have that
 * of the archive, and the contents those of the segment in which the slice lies.  Functions return
 * codes of ftkit, with a text. */
#ifndef FTK_STORE_SLICE_H
#define FTK_STORE_SLICE_H

#include "archive.h"

#define FTK_SLICE_MAGIC "FTKSLICE"
#define FTK_SLICE_VERSION 1u

struct ftk_slice_head {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;    /* FTK_ARCHIVE_BYTE_ORDER */
    uint64_t sum;           /* XXH3 of the head, with sum 0 */
    uint64_t bytes;         /* of the slice */
    uint64_t archive_bytes; /* of the whole archive */
    uint64_t entries_sum;   /* the sum in the head of the archive */
    uint32_t rank, nranks;
    uint8_t reserved[8];
};
_Static_assert(sizeof(struct ftk_slice_head) == 64, "head of a slice");

/* A slice that was checked; refers to the bytes that were given. */
struct ftk_slice {
    struct ftk_slice_head head;
    struct ftk_archive_list list; /* list.v is malloc'd */
    uint64_t from, to;            /* bytes of the archive that it has */
    const char *contents;         /* [to - from] */
};

/* ---- taking -------------------------------------------------------------------------- */

/* Bytes of the slice of a rank. */
size_t ftk_slice_bytes(const struct ftk_archive *archive, int rank, int nranks);

/* Write bytes at..at+bytes of the slice to `to`, in ascending order.  FTKIT_ERR_STATE: files have
 * changed since the scan, compared with the last piece; FTKIT_ERR_IO. */
int ftk_slice_read(
    struct ftk_archive *archive, int rank, int nranks, char *to, size_t at, size_t bytes);

/* ---- laying out again ---------------------------------------------------------------- */

/* Whether the bytes begin as those of a slice. */
bool ftk_slice_is(const void *buf, size_t bytes);

/* Check a slice.  The caller frees s->list.v.  FTKIT_ERR_FORMAT: no slice, or of another version;
 * FTKIT_ERR_CORRUPT: it is damaged; FTKIT_ERR_NOMEM. */
int ftk_slice_check(const void *buf, size_t bytes, struct ftk_slice *s);

/* Write the files of a slice, as far as it has them, below dir; others write the other slices
 * there at the same time.  FTKIT_ERR_IO, FTKIT_ERR_NOSPACE. */
int ftk_slice_spread(const struct ftk_slice *s, const char *dir);

/* All slices are written: compare names and lengths below dir with the entries, and set the
 * permissions.  FTKIT_ERR_IO: they differ. */
int ftk_slice_finish(const struct ftk_slice *s, const char *dir);

#endif
