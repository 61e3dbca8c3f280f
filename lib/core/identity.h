/* Whose sets and slots these are: a program, and the directory of its job.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sets on the file system name their program.  Slots outlive a job in a directory that
 * many jobs share, so they also name the directory of their job: the real path of
 * level.hdf5.directory.  A job takes only what has its own identity.  An empty program
 * and a home of 0 are those of an older version: they tell nothing and stop nobody. */
#ifndef FTK_IDENTITY_H
#define FTK_IDENTITY_H

#include "ftk.h"

#define FTK_HOME_TEXT 256 /* bytes of a directory's name that a slot keeps */

struct ftk_identity {
    char program[FTKIT_NAME_MAX + 1]; /* context.program, or the name of the executable */
    uint64_t home;                    /* hash of the real path of the directory; not 0 */
    char directory[FTK_HOME_TEXT];    /* its end, for messages */
};

/* What this process takes for its identity: program may be "", directory need not be
 * there. */
void ftk_identity_find(struct ftk_identity *id, const char *program, const char *directory);

/* Whether what names this program and home may be taken by id. */
bool ftk_identity_fits(const struct ftk_identity *id, const char *program, uint64_t home);

#endif
