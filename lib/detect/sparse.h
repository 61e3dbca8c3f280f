/* Numbers for a few ranks, of which the receivers do not know.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An all-to-all would send as many messages as there are ranks, most of them with zeros.  Here a
 * rank sends messages only to the ranks that it has a number for.  A synchronous send ends when its
 * receiver has the message.  So when all sends of all ranks have ended, which a non-blocking
 * reduction shows, no message is left.  [Hoefler, Siebert & Lumsdaine, PPoPP 2010: NBX] */
#ifndef FTK_SPARSE_H
#define FTK_SPARSE_H

#include "sure.h"

struct ftk_sparse_word {
    int rank; /* receiver of a word that is sent, sender of one that is taken */
    uint64_t number;
};

/* Collective over the channel of s.  Send out [n] to its ranks; take() gets what others have for
 * this rank, in any order.  *word: in: of this rank; out: the least of all ranks.  round: the
 * number of this call on the communicator, the same on all ranks.  Messages have proofs as in
 * sure.h.  FTKIT_ERR_PEER: the channel is broken; take() may have been called. */
int ftk_sparse_exchange(const struct ftk_sure *s, unsigned round, const struct ftk_sparse_word *out,
    int n, int64_t *word, void (*take)(const struct ftk_sparse_word *in));

#endif
