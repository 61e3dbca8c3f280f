/* How a process of a program is started: executable, arguments, directory, variables.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A spawned replacement has to begin as the process did that it replaces.  MPI_Comm_spawn() gives
 * it the environment of a daemon: variables of mpirun's -x are not there.  So they belong to the
 * command: FTKIT_..., LD_PRELOAD, and those that `ftkit run` names in FTKIT_RUN_EXPORTS.  Others
 * may be of one process only: a wrapper script sets RANK or CUDA_VISIBLE_DEVICES.  With several
 * programs under plain mpirun they have no names: there each variable counts that the daemon, the
 * parent of this process, has not, or has with another value. */
#ifndef FTK_COMMAND_H
#define FTK_COMMAND_H

#include "core/ftk.h"

struct ftk_command {
    const char *directory;  /* the working directory when the process began; "": not known */
    const char *executable; /* path; "": not known */
    char **args;            /* [nargs] without the name of the program, then NULL */
    char **variables;       /* [nvariables] NAME=value, in alphabetical order, then NULL */
    int nargs, nvariables;
    char **words; /* the memory of the arrays */
};

/* The command of this process as text, which the caller frees.  NULL, with *bytes = 0: no memory,
 * or the command line is not known. */
char *ftk_command_write(size_t *bytes);
/* Read a command at the begin of text; *c points into it.  The bytes of the command; 0: there is
 * none, or no memory, and *c is empty. */
size_t ftk_command_read(const char *text, size_t bytes, struct ftk_command *c);
/* Read command k of a list of commands, from 0. */
void ftk_command_of(const char *all, size_t bytes, int k, struct ftk_command *c);
void ftk_command_free(struct ftk_command *c); /* not the text */

/* Hash of the name of the executable, without its directory. */
uint32_t ftk_command_executable(const struct ftk_command *c);
/* Hash of the names of the executable and the directory, without the path to them, of the
 * arguments, and of the variables but FTKIT_... */
uint32_t ftk_command_hash(const struct ftk_command *c);
/* Whether two processes run the same program: all is equal but variables FTKIT_...  false, if one
 * of the commands is not known. */
bool ftk_command_same(const struct ftk_command *a, const struct ftk_command *b);

/* The name of the executable without its directory. */
const char *ftk_command_name(const struct ftk_command *c);

/* The arguments for MPI_Comm_spawn(), and its *command; `extra`: one more NAME=value, or NULL.  The
 * caller frees the array, not the strings.  NULL: no memory. */
char **ftk_command_spawn(const struct ftk_command *c, char *extra, const char **command);
/* Whether the command itself changes to the directory, because a value of an MPI_Info is too short
 * for it. */
bool ftk_command_goes(const struct ftk_command *c);

#endif
