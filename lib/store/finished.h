/* The mark of a run that has finished: a later start with other arguments does not continue from
 * its sets by mistake.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     <dir>/<context>.ftkit/finished
 *
 *     ftkit.finished = 1
 *     run = 0123456789abcdef     of the sets
 *     by = 00000000deadbeef      of `ftkit run`; 0: none
 *     durable = 12               newest durable set
 *     committed = 14             newest committed set
 *     arguments = 2 0123456789abcdef     of the program, without its name: their number, and the
 *                                        hash of all
 *     argument = HASH BYTES CONTENT TEXT     one line each, for the first of them
 *     checksum = 0011223344556677
 *
 * An argument FILE or NAME=FILE names an argument file if FILE is a regular file at the start:
 * BYTES is its size, CONTENT the hash of its first bytes.  Other arguments have -1 and 0 there.  A
 * file that has changed between the start and the end has -2 and 0, and is not compared: it may be
 * an output of the run, or the user may have written the input of the next run.
 *
 * In a job of several programs the arguments of all follow each other; one more, ": NAME", stands
 * before those of each program but the first.
 *
 * A start that continues from a set, and a fresh one, remove the mark. */
#ifndef FTK_FINISHED_H
#define FTK_FINISHED_H

#include "core/ftk.h"

#define FTK_FINISHED_FILE "finished"
#define FTK_FINISHED_ARGUMENTS 64    /* with a line of their own */
#define FTK_FINISHED_TEXT (16 << 10) /* bytes of a mark, at most */
#define FTK_FINISHED_CONTENT                                                                       \
    (16u                                                                                           \
        << 20) /* bytes of all argument files that are compared; each argument has an equal share */
#define FTK_FINISHED_NO_FILE (-1)
#define FTK_FINISHED_CHANGED (-2)

struct ftk_finished_argument {
    uint64_t sum;     /* hash of the argument */
    int64_t bytes;    /* of the argument file, or FTK_FINISHED_NO_FILE, FTK_FINISHED_CHANGED */
    uint64_t content; /* hash */
    char text[80];    /* the begin of the argument, for messages: printable */
};

struct ftk_finished {
    uint64_t run, by;
    uint64_t durable, committed;
    int n; /* number of arguments; -1: not known */
    uint64_t sum;
    struct ftk_finished_argument argument[FTK_FINISHED_ARGUMENTS];
};

/* The arguments of a start. */
struct ftk_finished_start {
    const char *text; /* [bytes] each with its NUL; NULL: not known */
    size_t bytes;
    const char *directories; /* of argument files, of each program one string with its NUL */
    int nprograms;
};

#define FTK_FINISHED_PROGRAM ": " /* begins an argument that stands before those of a program */

/* Set the arguments of *f to those of a start.  Reads the argument files. */
void ftk_finished_here(struct ftk_finished *f, const struct ftk_finished_start *s);
/* Mark the argument files in *f that are not any more as they were; all of them unless `known`.
 * Reads the argument files. */
void ftk_finished_changed(struct ftk_finished *f, const struct ftk_finished_start *s, bool known);
/* The first argument whose file has changed until the end of the run; NULL: there is none. */
const char *ftk_finished_unsure(const struct ftk_finished *f);
/* Write the mark; an error has the path in its detail. */
int ftk_finished_write(const char *dir, const char *context, const struct ftk_finished *f);
/* Remove the mark; there may be none. */
int ftk_finished_remove(const char *dir, const char *context);
/* FTKIT_ERR_NOT_FOUND: there is no mark, without a detail; FTKIT_ERR_CORRUPT, FTKIT_ERR_IO. */
int ftk_finished_read(const char *dir, const char *context, struct ftk_finished *f);
/* The last durable set of the run that has finished; 0: there is no mark, or newest, the newest set
 * that is known, is of a later run. */
uint64_t ftk_finished_set(const char *dir, const char *context, uint64_t newest);
/* Whether the arguments of a start, or the argument files, differ from those of *f; then `why` says
 * how.  Reads the argument files. */
bool ftk_finished_differs(
    const struct ftk_finished *f, const struct ftk_finished_start *s, char *why, size_t bytes);

#endif
