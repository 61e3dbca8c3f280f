/* The proof of a collective: what a complete result has in it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each block has a seal behind it (length, sender, receiver, checksum).  The result of a reduction
 * has a sum, to which each rank has added a number of its own.  The buffer of a result is wiped
 * before the call, because the memory may hold the complete result of an earlier call.
 *
 * The functions call no MPI, and depend on their arguments only. */
#ifndef FTK_PROOF_H
#define FTK_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Seals of different kinds of calls differ. */
enum ftk_proof_kind {
    FTK_PROOF_BCAST,
    FTK_PROOF_ALLGATHER,
    FTK_PROOF_ALLGATHERV,
    FTK_PROOF_ALLTOALL,
    FTK_PROOF_ALLTOALLV,
    FTK_PROOF_REDUCE
};

/* For all ranks, in place of a receiver. */
enum { FTK_PROOF_ALL = -1 };

/* The bytes of a block of so many bytes with its seal. */
size_t ftk_proof_bytes(size_t bytes);
void ftk_proof_wipe(void *result, size_t bytes);

/* Write a block with its seal to at; returns the end of the seal.  from, to: ranks. */
char *ftk_proof_put(
    enum ftk_proof_kind kind, char *at, const void *data, size_t bytes, int from, int to);
/* Whether the block of so many bytes at `at` has its seal. */
bool ftk_proof_holds(enum ftk_proof_kind kind, const char *at, size_t bytes, int from, int to);
/* result: the blocks of n ranks with their seals, each of so many bytes (lengths [n]; NULL: each).
 * If all seals are right, copy the data to out; else false, and out is unchanged. */
bool ftk_proof_take(enum ftk_proof_kind kind, const char *result, int n, const size_t *lengths,
    size_t each, int to, void *out);

/* The number that a rank adds to the sum of a reduction, and the sum of n ranks. */
uint64_t ftk_proof_number(int rank);
uint64_t ftk_proof_sum(int n);
/* The reduction of so many words: the sum of the first ones, the minimum of each other one. */
void ftk_proof_reduce(const int64_t *in, int64_t *inout, size_t words);

/* How a call ends.
 *
 *   under way --the MPI returns an error--------------------------> FAILED
 *   under way --the MPI returns success, the proof does not hold--> UNPROVEN
 *   under way --the MPI returns success, the proof holds----------> PROVEN
 *
 * After FAILED and UNPROVEN the rest of the call may still write to the buffers.  After UNPROVEN
 * perhaps no other rank knows of the failure: the rank makes sure that no rank waits for it. */
enum ftk_proof_end { FTK_PROOF_PROVEN, FTK_PROOF_FAILED, FTK_PROOF_UNPROVEN };
enum ftk_proof_end ftk_proof_end(bool success, bool holds);

#endif
