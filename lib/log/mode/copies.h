/* Copies of determinants on other nodes: the messages that bring them, what a receiver has of them,
 * and how many a sender has sent.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions call no MPI, and depend on their arguments only; relay.c sends and receives. */
#ifndef FTK_LOG_COPIES_H
#define FTK_LOG_COPIES_H

#include "log/base/words.h"
#include "log/determinant/det.h"

/* ---- messages of determinants -------------------------------------------------------- */

/* A message of determinants, in words of 64 bits: this head, then one part for each owner. */
struct ftk_copies_head {
    uint64_t lines; /* committed before the determinants */
    uint64_t round; /* the keeper acknowledges this round; 0: no acknowledgement */
    uint64_t parts;
};
struct ftk_copies_part {
    uint64_t owner;   /* rank */
    uint64_t from, n; /* number of the first determinant, from 0; how many follow */
};
enum {
    FTK_COPIES_HEAD_WORDS = sizeof(struct ftk_copies_head) / 8,
    FTK_COPIES_PART_WORDS = sizeof(struct ftk_copies_part) / 8,
    FTK_COPIES_DET_WORDS = sizeof(struct ftk_det) / 8
};
_Static_assert(sizeof(struct ftk_det) == 16, "two words");

/* Begin a message.  False: no memory. */
bool ftk_copies_begin(struct ftk_words *message, uint64_t lines, uint64_t round);
/* Add determinants from .. n - 1 of v [n] of a rank to the message.  False: no memory. */
bool ftk_copies_add(
    struct ftk_words *message, int owner, const struct ftk_det *v, size_t from, size_t n);

/* ---- copies ---------------------------------------------------------------------------- */

/* The determinants of a rank of another node, for one of the last two intervals between lines. */
struct ftk_copy {
    uint64_t lines;
    size_t n, room;
    struct ftk_det *v; /* [n] */
};

/* Store all parts of a message w [words] in copy [n], by rank and parity of the line; *h becomes
 * its head.  MPI codes: MPI_ERR_INTERN when the message is damaged, or determinants are missing
 * before it. */
int ftk_copies_store(
    struct ftk_copy (*copy)[2], int n, const uint64_t *w, size_t words, struct ftk_copies_head *h);
/* The one of both copies that is of this interval; NULL: none is. */
const struct ftk_copy *ftk_copies_of(const struct ftk_copy copy[2], uint64_t lines);

/* ---- what has been sent ------------------------------------------------------------------ */

/* How many determinants a rank of another node has got on a context, in this interval.  The MPI
 * keeps the order of determinants and messages within one context only. */
struct ftk_reach {
    uint64_t lines;
    size_t total;  /* sum of upto */
    size_t upto[]; /* [npeers] determinants of each rank of this node */
};

/* The interval is this one: nothing has been sent in a new one. */
void ftk_reach_enter(struct ftk_reach *r, int npeers, uint64_t lines);
/* A message with the determinants up to upto [npeers] is sent.  Before that the rank may not count
 * as one that has them: no later message would bring them. */
void ftk_reach_sent(struct ftk_reach *r, int npeers, const size_t *upto);

#endif
