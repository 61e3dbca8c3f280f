/* The C interface of FTI over ftkit: protected variables, checkpoints, snapshots and recovery.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that is written for FTI changes its include path and its link line, and nothing else.
 * Under `ftkit run` a rank that is lost is then replaced in the running job.  docs/porting-fti.md
 * has the rules, and says which calls of FTI are not here.
 *
 * Calls print a line on stderr about a failure.  "Collective" means: by all ranks, in the same
 * order.  One thread at a time calls MPI or FTI. */
#ifndef FTKIT_COMPAT_FTI_H
#define FTKIT_COMPAT_FTI_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FTKIT_FTI_API __attribute__((visibility("default")))
#else
#define FTKIT_FTI_API
#endif

/** Room for texts, in bytes. */
#define FTI_BUFS 256

#define FTI_DONE 1    /**< a checkpoint was written */
#define FTI_SCES 0    /**< success */
#define FTI_NSCS (-1) /**< failure */
#define FTI_NREC (-2) /**< failure of a recovery */
#define FTI_HEAD 2    /**< no process of ftkit is a head */

/** A data type. */
typedef int fti_id_t;
#define FTIT_type fti_id_t

/** The working ranks, without the spares; from FTI_Init() to FTI_Finalize(). */
FTKIT_FTI_API extern MPI_Comm FTI_COMM_WORLD;

FTKIT_FTI_API extern fti_id_t FTI_CHAR, FTI_SHRT, FTI_INTG, FTI_LONG;
FTKIT_FTI_API extern fti_id_t FTI_UCHR, FTI_USHT, FTI_UINT, FTI_ULNG;
FTKIT_FTI_API extern fti_id_t FTI_SFLT, FTI_DBLE, FTI_LDBE;

/**
 * Begin.  Collective over globalComm, once in a process.  Spares wait here.
 *
 * @param configFile  FTI's file of settings
 * @return FTI_SCES or FTI_NSCS
 */
FTKIT_FTI_API int FTI_Init(const char *configFile, MPI_Comm globalComm);

/**
 * End.  Collective.  The call waits until the newest checkpoint is on the file system.  The program
 * may free its memory before: a rank that is lost in this call is replaced, and its replacement
 * goes on from the last checkpoint.
 */
FTKIT_FTI_API int FTI_Finalize(void);

/** A type of so many bytes.  Local. */
FTKIT_FTI_API int FTI_InitType(fti_id_t *type, int size);

/**
 * Protect count items at ptr under a number from 0.  Local; at any time.  A second call with the
 * same id replaces address and size: nothing keeps the first ones.  count may be 0.
 */
FTKIT_FTI_API int FTI_Protect(int id, void *ptr, int64_t count, fti_id_t tid);

/**
 * Write a checkpoint now.  Collective.
 *
 * @param id     any number
 * @param level  1 to 3: in memory, as `level.memory` says; 4: also on the file system;
 *               5 to 8: as 1 to 4
 * @return FTI_DONE, also when this rank had to go back: then FTI_Status() is 1, and the protected
 *         memory holds the last checkpoint.  FTI_NSCS: the checkpoint before holds
 */
FTKIT_FTI_API int FTI_Checkpoint(int id, int level);

/**
 * In the loop: recover at the first call of a restart; otherwise write a checkpoint when one is
 * due.  Collective.
 *
 * @return FTI_DONE: a checkpoint was written; FTI_SCES; FTI_NREC: the protected memory does not
 *         fit; FTI_NSCS
 */
FTKIT_FTI_API int FTI_Snapshot(void);

/** 0: nothing to recover; 1: a restart, or this rank went back; until FTI_Recover() or the first
 * FTI_Snapshot().  Collective at the start. */
FTKIT_FTI_API int FTI_Status(void);

/** Recover all protected variables.  The checkpoint has the same ids, with the same sizes.
 * FTI_SCES or FTI_NREC; then nothing is changed.  Collective at the start. */
FTKIT_FTI_API int FTI_Recover(void);

/** Recover one variable, before FTI_Recover() and the first checkpoint.  FTI_SCES or FTI_NSCS. */
FTKIT_FTI_API int FTI_RecoverVar(int id);
FTKIT_FTI_API int FTI_RecoverVarInit(void); /**< before FTI_RecoverVar() */

/** After FTI_RecoverVar(): FTI_Status() is 0 then.  FTI_NSCS: variables are missing. */
FTKIT_FTI_API int FTI_RecoverVarFinalize(void);

/** Bytes of a variable in the checkpoint that can be recovered; 0: there is none. */
FTKIT_FTI_API int64_t FTI_GetStoredSize(int id);

/** Give the memory of a protected variable, from malloc(), the size in the checkpoint.
 * @return the new address; ptr itself when nothing is changed. */
FTKIT_FTI_API void *FTI_Realloc(int id, void *ptr);

#ifdef __cplusplus
}
#endif
#endif
