/* The files of a region in the directory of a set, as the program has written them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     <directory of the set>/files/<region>/rank-00003/<path>
 *
 * The files have the contents of an archive (archive.h).  The head and the entries of the archive
 * are kept elsewhere, with a checksum (XXH3-64) of the contents of each file.  Names, kinds and
 * lengths of what is there are compared with the entries, and contents with the checksums.
 * Permissions are set and not compared: a restore takes them from the entries.
 *
 * Each directory is opened from the one above, and none may be a link.  So no name leads out of the
 * directory of the set.  Functions return codes of ftkit, with a text that has the set, the rank,
 * the region and the file.  One thread at a time for a region of a rank. */
#ifndef FTK_STORE_PLAIN_FILES_H
#define FTK_STORE_PLAIN_FILES_H

#include "archive.h"

#define FTK_PLAIN_DIR "files" /* in the directory of a set; all below it is the store's */
/* Bytes of the path of a file below the directory of the set, NUL included. */
#define FTK_PLAIN_PATH_MAX (sizeof FTK_PLAIN_DIR + FTKIT_NAME_MAX + 32 + FTK_ARCHIVE_PATH_MAX + 1)

/* The files of a region of a rank. */
struct ftk_plain {
    int dirfd; /* of the set; borrowed */
    uint64_t set;
    uint32_t rank;
    const char *region;
};

/* The path of a file below the directory of the set; path "": of the directory of the rank. */
void ftk_plain_path(const struct ftk_plain *p, const char *path, char buf[FTK_PLAIN_PATH_MAX]);

/* ---- writing (plain_write.c) --------------------------------------------------------- */

/* For a writer for which others wait. */
struct ftk_plain_pace {
    int (*pace)(void *arg, size_t bytes); /* after each piece of about a MiB, or NULL; an error ends
                                              the writing */
    void *arg;
    int sign; /* an open file whose time shows progress; -1: none */
};

/* Write the files of an archive, durable on return but for the name FTK_PLAIN_DIR in the directory
 * of the set.  What an earlier attempt has left of this region of the rank goes.  Fills sums
 * [list->head.nentries], of directories with 0.  FTKIT_ERR_IO, FTKIT_ERR_NOSPACE, FTKIT_ERR_NOMEM:
 * some of the files may be there. */
int ftk_plain_write(const struct ftk_plain *p, const void *archive,
    const struct ftk_archive_list *list, const struct ftk_plain_pace *pace, uint64_t *sums);

/* ---- reading (plain_read.c) ---------------------------------------------------------- */

/* Called for each file that is damaged, with the detail of this thread.  code: FTKIT_ERR_NOT_FOUND:
 * it is missing; FTKIT_ERR_FORMAT: it does not belong there; FTKIT_ERR_CORRUPT: it has changed;
 * FTKIT_ERR_IO. */
typedef void ftk_plain_found_fn(void *arg, int code, const char *path);
/* Called with each piece of the archive that is in its place, in order. */
typedef void ftk_plain_got_fn(void *arg, const char *piece, size_t bytes);

struct ftk_plain_reader {
    ftk_plain_found_fn *found; /* NULL: the first damage ends the reading */
    ftk_plain_got_fn *got;     /* or NULL */
    void *found_arg, *got_arg;
};

/* Compare names, kinds and lengths, then read the contents into the archive, and compare the sums
 * [list->head.nentries].  The head and the entries are there already.  FTKIT_ERR_CORRUPT: the files
 * are not those of the list, or are changed; FTKIT_ERR_IO, FTKIT_ERR_NOMEM. */
int ftk_plain_read(const struct ftk_plain *p, void *archive, const struct ftk_archive_list *list,
    const uint64_t *sums, const struct ftk_plain_reader *reader);

/* Called with the path, below the directory of the set, of what no region refers to. */
typedef void ftk_plain_stranger_fn(void *arg, const char *path);
/* Find what is below FTK_PLAIN_DIR, and is no directory of a region of a rank.  The call looks at
 * names of this rank; with rank 0 also at names of none of the nranks ranks.  regions [n]: those
 * of the rank that have plain files.  0, or an errno. */
int ftk_plain_strangers(int dirfd, uint32_t rank, uint32_t nranks, const char *const *regions,
    size_t n, ftk_plain_stranger_fn *fn, void *arg);

/* ---- directories (plain_dir.c) ------------------------------------------------------- */

/* The bytes of all files below FTK_PLAIN_DIR; what cannot be read does not count. */
uint64_t ftk_plain_bytes(int dirfd);
/* Remove FTK_PLAIN_DIR with all below it: 0, or an errno.  No such directory: 0.  point: the fault
 * point of each removal, or NULL. */
int ftk_plain_remove(int dirfd, const char *point);

/* Open the directory of the rank: a file descriptor, or -1 with errno. */
int ftk_plain_open(const struct ftk_plain *p);
/* Make the directory of the rank and those above; a directory that is there already goes, so that a
 * writer of an earlier attempt makes no file any more. */
int ftk_plain_make(const struct ftk_plain *p);
/* Make the names of the directories above that of the rank durable: 0, or an errno. */
int ftk_plain_sync_above(const struct ftk_plain *p);
/* Fail with an errno at a file.  step: the call, or NULL. */
int ftk_plain_fail(const struct ftk_plain *p, int err, const char *path, const char *step);

/* A way from the directory of a rank to a file below it. */
struct ftk_plain_way {
    int root;                             /* borrowed */
    int fd;                               /* of the directory `above`; -1: none */
    char above[FTK_ARCHIVE_PATH_MAX + 1]; /* "": the root */
};
/* Open the directory of a file: 0, or an errno.  *name: of the file in way->fd. */
int ftk_plain_go(struct ftk_plain_way *way, const char *path, const char **name);
void ftk_plain_leave(struct ftk_plain_way *way);

#endif
