/* Archives: the files below a directory as one piece of bytes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     [ struct ftk_archive_head ][ entries ][ contents, each from a multiple of FTK_ARCHIVE_ALIGN ]
 *
 * An entry is a struct ftk_archive_entry and its path relative to the directory, with zeros up to a
 * multiple of 8 bytes.  Entries are in the order of their paths (strcmp), so that equal directories
 * make equal archives, and a directory comes before what it contains.  Times, owners, links and
 * holes are not kept.  The head and the entries have a checksum; the contents have those of the
 * segment in which the archive lies.
 *
 * A directory is read twice: a scan lists it, and then the archive is read in pieces, from the page
 * cache into the segment.  A file that changes in between is an error.  One thread at a time.
 * Functions return codes of ftkit, with a text that has the name of the file. */
#ifndef FTK_STORE_ARCHIVE_H
#define FTK_STORE_ARCHIVE_H

#include "core/ftk.h"

#define FTK_ARCHIVE_MAGIC "FTKFILES"
#define FTK_ARCHIVE_VERSION 1u
#define FTK_ARCHIVE_BYTE_ORDER 0x01020304u
#define FTK_ARCHIVE_ALIGN 64u
#define FTK_ARCHIVE_PATH_MAX 255 /* bytes of a path below the directory */
#define FTK_ARCHIVE_ABSENT 1u    /* flag: there was no directory yet */

struct ftk_archive_head {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint64_t sum;        /* XXH3 of the head, with sum 0, and the entries */
    uint64_t head_bytes; /* of the head and the entries */
    uint64_t bytes;      /* of the archive */
    uint32_t nentries;
    uint32_t flags;
    uint8_t reserved[16];
};
_Static_assert(sizeof(struct ftk_archive_head) == 64, "head of an archive");

enum ftk_archive_kind { FTK_ARCHIVE_FILE = 1, FTK_ARCHIVE_DIRECTORY = 2 };

struct ftk_archive_entry {
    uint64_t offset; /* of the contents in the archive; 0 if there are none */
    uint64_t bytes;
    uint32_t mode; /* permissions: 0777 at most */
    uint16_t kind; /* enum ftk_archive_kind */
    uint16_t path_bytes;
    /* the path follows */
};
_Static_assert(sizeof(struct ftk_archive_entry) == 24, "entry of an archive");

/* The checksum of the entries of an archive, and of its head, which is *zero with sum 0. */
uint64_t ftk_archive_sum(const struct ftk_archive_head *zero, const void *archive);

/* An entry of an archive that was checked. */
struct ftk_archive_item {
    struct ftk_archive_entry e;
    const char *path; /* in the archive; below the directory, without ".", ".." and empty parts */
};

/* The entries of an archive that was checked, in the order of their paths. */
struct ftk_archive_list {
    struct ftk_archive_head head;
    struct ftk_archive_item *v; /* [head.nentries], malloc'd */
};

/* Check the head and the entries of an archive of so many bytes, and list the entries.  Only the
 * first `have` bytes are at buf: the head and the entries, or more.  The list refers to buf; the
 * caller frees list->v.  FTKIT_ERR_FORMAT: no archive, or of another version; FTKIT_ERR_CORRUPT: it
 * is damaged; FTKIT_ERR_NOMEM. */
int ftk_archive_list(const void *buf, size_t have, uint64_t bytes, struct ftk_archive_list *list);

struct ftk_archive; /* a directory that was scanned */

/* List the files below dir; NULL: the archive that says that there is no directory.  The result is
 * freed with ftk_archive_free().  FTKIT_ERR_UNSUPPORTED: something is neither a file nor a
 * directory; FTKIT_ERR_NAME: a path is too long; FTKIT_ERR_IO, FTKIT_ERR_NOMEM. */
int ftk_archive_scan(const char *dir, struct ftk_archive **archive);
size_t ftk_archive_bytes(const struct ftk_archive *archive);
/* Its head, which lives as long as the archive. */
const struct ftk_archive_head *ftk_archive_head(const struct ftk_archive *archive);

/* Write bytes at..at+bytes of the archive to `to`.  Pieces in ascending order open each file once.
 * FTKIT_ERR_STATE: a file has changed since the scan; FTKIT_ERR_IO. */
int ftk_archive_read(struct ftk_archive *archive, char *to, size_t at, size_t bytes);
/* Compare all files with the scan, as the read of the last byte does.  FTKIT_ERR_STATE: a file has
 * changed. */
int ftk_archive_unchanged(const struct ftk_archive *archive);
void ftk_archive_free(struct ftk_archive *archive); /* NULL: nothing */

/* Make the files of an archive below dir, which is empty.  *absent: the archive says that there was
 * no directory.  After an error dir has some of the files.  FTKIT_ERR_FORMAT: no archive, or of
 * another version; FTKIT_ERR_CORRUPT: it is damaged; FTKIT_ERR_IO, FTKIT_ERR_NOSPACE. */
int ftk_archive_unpack(const void *buf, size_t bytes, const char *dir, bool *absent);

#endif
