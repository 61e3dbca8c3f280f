/* Files that are durable before they are visible.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A file is written under a temporary name, fsynced, renamed, and its directory is fsynced.  So its
 * name always refers to a whole, durable file. */
#ifndef FTK_FILE_H
#define FTK_FILE_H

#include "core/ftk.h"

#define FTK_FILE_NAME_MAX 96 /* bytes of a name, NUL included */

/* Fault points of one kind of file; NULL: none. */
struct ftk_file_points {
    const char *create, *write, *fsync, *close, *rename, *dirsync;
};

/* An open file. */
struct ftk_file {
    int fd;                  /* -1: none */
    int err;                 /* errno of the first I/O error; later writes are dropped */
    const char *write_point; /* fault point of every write, or NULL */
    uint64_t begun, written; /* range that is written, and whose writeback is not started */
    char what[72];           /* begins every message: "set 12, part-00000.h5" */
};

/* Write the whole of buf at a position of the file, unless f->err is set.  Returns f->err: 0, or
 * errno of this write or of an earlier one. */
int ftk_file_write(struct ftk_file *f, const void *buf, size_t bytes, uint64_t at);

/* Let the disk begin with a file that is going to be fsynced.  No error: the fsync reports it. */
void ftk_file_start(int fd);
/* fsync a file or a directory: 0, or an errno.  sign: an open file whose time shows the progress to
 * processes that wait for it; -1: none.  point: the fault point. */
int ftk_file_sync(int fd, int sign, const char *point);

/* Open a regular file of the directory for reading; *bytes is its size.  set: for messages; 0: the
 * file is of no set.  FTKIT_ERR_NOT_FOUND: the file does not exist. */
int ftk_file_open(int dirfd, uint64_t set, const char *name, struct ftk_file *f, size_t *bytes);
void ftk_file_close(struct ftk_file *f);

/* A file that is written under a temporary name, which is the name with ".tmp" behind. */
struct ftk_out {
    struct ftk_file file;
    int dirfd; /* borrowed */
    char name[FTK_FILE_NAME_MAX];
    char tmp[FTK_FILE_NAME_MAX + 8];
    const struct ftk_file_points *at;
    bool stays; /* a renamed file is never removed: other processes may use it at once */
};

int ftk_out_create(
    struct ftk_out *o, int dirfd, uint64_t set, const char *name, const struct ftk_file_points *at);
/* fsync, close, rename, fsync the directory.  On failure the file is removed, with one
 * exception: with o->stays the file stays when only the fsync of the directory has failed. */
int ftk_out_finish(struct ftk_out *o);
void ftk_out_discard(struct ftk_out *o); /* keeps the detail */
/* Create, write and finish a text file. */
int ftk_out_text(int dirfd, uint64_t set, const char *name, const struct ftk_file_points *at,
    const char *text, size_t bytes);

/* Write a text file that belongs to no set.  So path always names the old file or the whole new
 * file. */
int ftk_save_text(const char *path, const char *text, size_t bytes);

/* For a thread that holds a lock while it writes files, and must not hold the lock while it waits
 * for a disk.  leave is called before such a wait, enter after the wait. */
struct ftk_file_lock {
    void (*leave)(void);
    void (*enter)(void);
};
void ftk_file_use_lock(const struct ftk_file_lock *lock); /* of the calling thread; NULL: none */

#endif
