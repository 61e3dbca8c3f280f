/* Repair: from "a rank has failed" to "every rank has its segment of the line again".
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The state machine.  All steps run on one communicator s of the live processes:
 *
 *     FREEZE   each process revokes the communicators on which others may be blocked (detect.c)
 *     SHRINK   s := the live members of ctl, or of the last attempt's s
 *     CENSUS   each process sends to all its rank, its state and the list of its segments
 *     PLAN     each process computes the plan from the same census; the hashes are compared
 *     SUPPLY   if the plan says so, processes are spawned; then CENSUS again
 *     BUILD    the communicators of the next epoch are made
 *     RESTORE  lost segments go to the replacements, lost copies are made again
 *     AGREE    did every step succeed on every process?  If not: SHRINK again
 *
 * Every step before AGREE may be repeated.  Until AGREE the segments in memory change only in
 * these ways: sealed segments are added; corrupt segments, and segments that have the number of
 * the line but are of another try, are dropped.
 *
 * Each live process passes through AGREE exactly once per attempt, whatever happened to it before,
 * so no process waits in vain.  AGREE is the only decision, and the same on all processes.
 * Opening a context uses the same machine, with a census in which no process has a rank yet.
 * Closing uses it, too, so that spares and working ranks part in agreement. */
#ifndef FTK_REPAIR_H
#define FTK_REPAIR_H

#include "core/context.h"

/* Run attempts until one succeeds, or the context cannot be repaired.  start: MPI_COMM_NULL to
 * begin by shrinking ctl; at an opening: a communicator of all processes, which is not shrunk.
 * FTKIT_OK: the next epoch has begun, and ctx->repair.pending is what remains for this rank.
 * FTK_PARTED: the context closes on all processes.  An error: the context is dead. */
enum { FTK_PARTED = 100 };
int ftk_repair(struct ftkit_ctx *ctx, MPI_Comm start);

#endif
