/* The C interface of VeloC, in memory mode and file mode, over ftkit.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that is written for VeloC changes its include path and its link line, and nothing else.
 * Under `ftkit run` a rank that is lost is then replaced in the running job.  docs/porting-veloc.md
 * has the rules, and says which calls of VeloC are not here.
 *
 * All calls return VELOC_SUCCESS or VELOC_FAILURE unless they say otherwise, and print a line on
 * stderr about a failure.  "Collective" means: by all ranks, in the same order.  One thread at a
 * time calls MPI or VeloC. */
#ifndef FTKIT_COMPAT_VELOC_H
#define FTKIT_COMPAT_VELOC_H

#include <mpi.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FTKIT_VELOC_API __attribute__((visibility("default")))
#else
#define FTKIT_VELOC_API
#endif

#define VELOC_SUCCESS (0)
#define VELOC_FAILURE (-1)

/** Room for a path, in bytes. */
#define VELOC_MAX_NAME (1024)

/* Modes of VELOC_Recover_selective() and VELOC_Checkpoint_selective(). */
#define VELOC_RECOVER_ALL (0)
#define VELOC_RECOVER_SOME (1)
#define VELOC_RECOVER_REST (2)
#define VELOC_CKPT_ALL (0)
#define VELOC_CKPT_SOME (1)
#define VELOC_CKPT_REST (2)

/* ---- begin and end ------------------------------------------------------------------- */

/**
 * Begin.  Collective, once in a process.
 *
 * @param comm      has all working ranks, most often MPI_COMM_WORLD
 * @param cfg_file  VeloC's file of settings.  A program that is linked as pkg-config says opens its
 *                  context in MPI_Init already, and finds this file among its arguments or in the
 *                  variable FTKIT_VELOC_CONFIG; another file with other settings is a failure here.
 */
FTKIT_VELOC_API int VELOC_Init(MPI_Comm comm, const char *cfg_file);

/**
 * End.  Collective.  The call waits until the newest checkpoint is on the file system, whatever
 * drain is.  The program may free its memory before: a rank that is lost in this call is replaced,
 * and its replacement goes on from the last checkpoint.
 */
FTKIT_VELOC_API int VELOC_Finalize(int drain);

/* ---- memory -------------------------------------------------------------------------- */

/**
 * Protect count * base_size bytes at ptr under a number.  Local; at any time, also between
 * VELOC_Restart_begin() and VELOC_Recover_mem().  A second call with the same id replaces address
 * and size: nothing keeps the first ones.  count may be 0.
 */
FTKIT_VELOC_API int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size);

/** End the protection.  Local.  VELOC_FAILURE: no such id.  Between VELOC_Checkpoint_mem() and
 * VELOC_Checkpoint_end() the checkpoint fails. */
FTKIT_VELOC_API int VELOC_Mem_unprotect(int id);

/** End all protections.  Local. */
FTKIT_VELOC_API int VELOC_Mem_clear(void);

/* ---- checkpoints --------------------------------------------------------------------- */

/**
 * Write a checkpoint: VELOC_Checkpoint_begin(), VELOC_Checkpoint_mem() and VELOC_Checkpoint_end().
 *
 * @param name     letters, digits, '_' and '.', up to 63.  A run has one name
 * @param version  not negative; greater than that of the checkpoint before
 *
 * Collective.  The call returns when the checkpoint survives the loss of any process; its way to
 * `persistent` goes on in the background (with mode = sync the call waits).  When all ranks had
 * to go back to the last checkpoint, the protected memory holds that, as after a restart.
 */
FTKIT_VELOC_API int VELOC_Checkpoint(const char *name, int version);

/** Begin a checkpoint.  Collective. */
FTKIT_VELOC_API int VELOC_Checkpoint_begin(const char *name, int version);

/** Choose all protected memory.  Its contents are read in VELOC_Checkpoint_end().  Local. */
FTKIT_VELOC_API int VELOC_Checkpoint_mem(void);

/** Choose protected memory: VELOC_CKPT_ALL, only the ids [id_count], or all but these.  Local. */
FTKIT_VELOC_API int VELOC_Checkpoint_selective(int mode, int *ids, int id_count);

/**
 * The path at which the program writes or reads a file of its own, instead of `original`.
 * Local; between VELOC_Checkpoint_begin() and VELOC_Checkpoint_end(), or between
 * VELOC_Restart_begin() and VELOC_Restart_end().
 *
 * @param original     1 to 255 bytes, '/' and '%' count three
 * @param[out] routed  [VELOC_MAX_NAME], of this rank alone, in memory of the node.  The file is a
 *                     part of the checkpoint, and is closed before VELOC_Checkpoint_end()
 *
 * A checkpoint may have several files, and protected memory beside them.  In a restart a name that
 * the checkpoint does not have leads to its file if that is the only one; otherwise there is no
 * file at the path.  Where a rank with files would have to go back in place, its process ends, and
 * is replaced.  VELOC_FAILURE: also with lines apart and with replicas.
 */
FTKIT_VELOC_API int VELOC_Route_file(const char *original, char *routed);

/** Write the checkpoint.  Collective.  If success is 0 on a rank, all ranks get VELOC_FAILURE,
 * and the checkpoint before holds. */
FTKIT_VELOC_API int VELOC_Checkpoint_end(int success);

/** Wait until the newest checkpoint is on the file system.  Collective, unlike in VeloC. */
FTKIT_VELOC_API int VELOC_Checkpoint_wait(void);

/** VELOC_SUCCESS: nothing is on its way to the file system; VELOC_FAILURE: something is, or the
 * last files of this process could not be written, as a line says.  Local. */
FTKIT_VELOC_API int VELOC_Checkpoint_finished(void);

/** Nothing is in `scratch`, so nothing is removed there.  Checkpoints in `persistent` stay.
 * Local. */
FTKIT_VELOC_API int VELOC_Cleanup(const char *name);

/* ---- restart ------------------------------------------------------------------------- */

/**
 * The version that can be restored.
 *
 * @param version  0, or the version must be less than this
 * @return the version of the newest checkpoint, if it has this name; else VELOC_FAILURE.  An older
 *         version can be chosen at the start: `ftkit run --set N`.  After the first
 *         VELOC_Checkpoint() of the process VELOC_FAILURE.
 *
 * Collective at the start.  In a process that replaces a lost one, too.
 */
FTKIT_VELOC_API int VELOC_Restart_test(const char *name, int version);

/** Restore the protected memory.  VELOC_Restart_begin(), VELOC_Recover_mem(),
 * VELOC_Restart_end(). */
FTKIT_VELOC_API int VELOC_Restart(const char *name, int version);

/** Begin a restart of the version that VELOC_Restart_test() has returned. */
FTKIT_VELOC_API int VELOC_Restart_begin(const char *name, int version);

/** Restore all ids of the checkpoint.  Each must be protected, with as many bytes at least;
 * otherwise nothing is restored.  Local. */
FTKIT_VELOC_API int VELOC_Recover_mem(void);

/** Restore VELOC_RECOVER_ALL, only the ids [id_count] (VELOC_RECOVER_SOME), or all but these.
 * Local. */
FTKIT_VELOC_API int VELOC_Recover_selective(int mode, int *ids, int id_count);

/** The bytes of an id in the checkpoint; -1: it has no such id.  Between VELOC_Restart_begin() and
 * VELOC_Restart_end().  Local. */
FTKIT_VELOC_API int VELOC_Recover_size(int id);

/** End a restart, after VELOC_Recover_mem() or VELOC_Route_file().  success: what this rank thinks
 * of its state; 0 is answered by VELOC_FAILURE. */
FTKIT_VELOC_API int VELOC_Restart_end(int success);

#ifdef __cplusplus
}
#endif
#endif
