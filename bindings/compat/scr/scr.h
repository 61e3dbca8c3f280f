/* The C interface of SCR over ftkit: a program writes and reads its own files, ftkit keeps them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that is written for SCR changes its include path and its link line, and nothing else.
 * Under `ftkit run` a rank that is lost is then replaced in the running job.  docs/porting-scr.md
 * has the rules, and says which calls of SCR are not here.
 *
 * A call returns SCR_SUCCESS, or another value after a line on stderr.  "Collective" means: by all
 * ranks, in the same order.  One thread at a time calls MPI or SCR. */
#ifndef FTKIT_COMPAT_SCR_H
#define FTKIT_COMPAT_SCR_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FTKIT_SCR_API __attribute__((visibility("default")))
#define FTKIT_SCR_FORMAT __attribute__((format(printf, 1, 2)))
#else
#define FTKIT_SCR_API
#define FTKIT_SCR_FORMAT
#endif

#define SCR_SUCCESS (0)

/** Room for a name or a path, in bytes, with the NUL at its end. */
#define SCR_MAX_FILENAME 1024

#define SCR_FLAG_NONE 0
#define SCR_FLAG_CHECKPOINT (1 << 0) /**< the job can restart from these files */
#define SCR_FLAG_OUTPUT (1 << 1)     /**< the files have to be where the program names them */

/** Begin, after MPI_Init.  Collective. */
FTKIT_SCR_API int SCR_Init(void);

/** End, before MPI_Finalize.  Waits for files in the background.  Collective. */
FTKIT_SCR_API int SCR_Finalize(void);

/** @return the version of the interface, and of ftkit; the text stays valid */
FTKIT_SCR_API char *SCR_Get_version(void);

/**
 * Set or ask a setting, before SCR_Init.  On all ranks alike.  A variable of the environment comes
 * before this call, and this call before the file of settings.
 *
 * @param setting  "NAME=value"; "NAME=" for no value; "NAME" only asks
 * @return the value in force, or NULL: there is none, or it cannot be changed any more.  The text
 *         stays valid until the next call.
 */
FTKIT_SCR_API const char *SCR_Config(const char *setting);
FTKIT_SCR_API FTKIT_SCR_FORMAT const char *SCR_Configf(const char *format, ...);

/** Ask whether the program should write a checkpoint now.  Collective.  *flag: 1 or 0. */
FTKIT_SCR_API int SCR_Need_checkpoint(int *flag);

/**
 * Begin to write the files of a dataset.  Collective.
 *
 * @param name   of the dataset: 1 to SCR_MAX_FILENAME - 1 bytes
 * @param flags  SCR_FLAG_CHECKPOINT, SCR_FLAG_OUTPUT, or both
 */
FTKIT_SCR_API int SCR_Start_output(const char *name, int flags);

/** SCR_Start_output() with SCR_FLAG_CHECKPOINT and a name "scr.dataset.N". */
FTKIT_SCR_API int SCR_Start_checkpoint(void);

/**
 * Ask where to write or read a file.  Local.
 *
 * @param      name  path of the file, relative to the working directory or absolute; below
 *                   SCR_PREFIX
 * @param[out] file  where the file is [SCR_MAX_FILENAME].  In a checkpoint or a restart: a path in
 *                   a directory of this rank, whose directories are made.  Otherwise name itself.
 */
FTKIT_SCR_API int SCR_Route_file(const char *name, char *file);

/**
 * The files of this rank are written and closed.  Collective.
 *
 * @param valid  0: they are of no use
 * @return SCR_SUCCESS: valid was not 0 on any rank, and the files are kept.  Otherwise the last
 *         checkpoint holds.
 */
FTKIT_SCR_API int SCR_Complete_output(int valid);
FTKIT_SCR_API int SCR_Complete_checkpoint(int valid);

/**
 * Ask for a checkpoint to restart from.
 *
 * @param[out] flag  1: there is one, and the program has not taken it
 * @param[out] name  of the dataset [SCR_MAX_FILENAME]; may be NULL
 */
FTKIT_SCR_API int SCR_Have_restart(int *flag, char *name);

/** Begin to read this checkpoint.  *name as above. */
FTKIT_SCR_API int SCR_Start_restart(char *name);

/** The files of this rank are read.  valid: 0 ends the job with a line. */
FTKIT_SCR_API int SCR_Complete_restart(int valid);

/**
 * These calls fail with a line that names another way: `ftkit run --set N` restarts from an older
 * checkpoint, and `ftkit prune` removes sets.  name is not read.
 */
FTKIT_SCR_API int SCR_Current(const char *name);
FTKIT_SCR_API int SCR_Drop(const char *name);
FTKIT_SCR_API int SCR_Delete(const char *name);

/** Ask whether the job halts: then the last checkpoint has the work, and the program ends.  *flag:
 * 1 or 0, the same on all ranks.  Local. */
FTKIT_SCR_API int SCR_Should_exit(int *flag);

#ifdef __cplusplus
}
#endif
#endif
