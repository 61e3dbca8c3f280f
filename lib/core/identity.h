/* The owner of sets and slots: a program, and the directory of its job.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sets on the file system name their program.  Slots outlive a job in a directory that
 * many jobs share, so they also name the directory of their job: the real path of
 * level.hdf5.directory.  A job takes only sets and slots of its own identity.  Older versions
 * wrote no program and a home of 0: these fit every identity. */
#ifndef FTK_IDENTITY_H
#define FTK_IDENTITY_H

#include "ftk.h"

#define FTK_HOME_TEXT 256 /* bytes of a directory's name that a slot keeps */

struct ftk_identity {
    char program[FTKIT_NAME_MAX + 1]; /* context.program, or the name of the executable */
    uint64_t home;                    /* hash of the real path of the directory; not 0 */
    char directory[FTK_HOME_TEXT];    /* the end of that path, for messages */
};

/* Set *id to the identity of this process.  program "": the name of the executable.  directory need
 * not exist. */
void ftk_identity_find(struct ftk_identity *id, const char *program, const char *directory);

/* Whether a job with identity id may take a set or slot that names this program and home. */
bool ftk_identity_fits(const struct ftk_identity *id, const char *program, uint64_t home);

#endif
