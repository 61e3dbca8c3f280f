/* Whose files a region of files has, where the program writes them between two calls.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_FILES_GIVEN_H
#define FTK_FILES_GIVEN_H

#include "core/context.h"

enum ftk_held {
    FTK_HELD_NOTHING,
    FTK_HELD_BEGUN,   /* between ftkit_files_begin() and ftkit_files_end() */
    FTK_HELD_GIVEN,   /* for the next call of ftkit_checkpoint() */
    FTK_HELD_TAKEN,   /* the same; a set that is not committed yet has them */
    FTK_HELD_RESTORED /* of a set, for ftkit_files_read() */
};

struct ftk_given {
    enum ftk_held held;
    uint64_t of_call; /* given: the call of ftkit_checkpoint() for which the files are right */
};

/* A set is due: whether the program has given files for it.  *absent: this is the first set of a
 * loop with ftkit_step(), in whose call the program cannot have given files.  FTKIT_ERR_STATE: it
 * should have. */
int ftk_given_check(
    struct ftkit_ctx *ctx, const struct ftk_given *g, const char *name, bool *absent);

/* ftkit_files_end(): whether the call is right here.  FTKIT_ERR_STATE: it is not. */
int ftk_given_check_end(const struct ftk_given *g, const char *name, bool ok);
void ftk_given_end(const struct ftkit_ctx *ctx, struct ftk_given *g, bool ok);

/* Check the room for a path that a call hands out.  FTKIT_ERR_ARG, FTKIT_ERR_SIZE. */
int ftk_given_check_room(const char *path, const char *call, const char *dir, size_t room);

#endif
