/* Rounds of determinants to keepers, and the sends that wait for them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A message may leave its node when the keepers have acknowledged all determinants of the node.  A
 * round sends the determinants that are not stable, one part for each rank of the node.  A held
 * send waits for the round after the one under way, which does not have all determinants.  The
 * functions call no MPI, and depend on their arguments only; relay.c sends and receives.
 *
 *   IDLE --a send is held: begin----------------> RUNNING, a message for each part
 *   RUNNING --acknowledgement of this round-----> RUNNING, one message less
 *   RUNNING --no message is left----------------> IDLE, the round is over: sends are released
 *   IDLE --sends are left: begin----------------> RUNNING
 *   RUNNING --repair (the keepers are others)---> IDLE, all held sends wait for the next round */
#ifndef FTK_LOG_ROUNDS_H
#define FTK_LOG_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ftk_rounds {
    uint64_t round, done; /* the last one begun, and the last one that is over */
    int pending;          /* messages of this round without acknowledgement; 0: IDLE */
    size_t holding;       /* sends that are held back */
};

/* Whether a send has to be held.  leaves: to another node, or behind a held send to the same rank;
 * stable: the keepers have acknowledged all determinants of this node. */
bool ftk_rounds_holds(const struct ftk_rounds *r, bool leaves, bool stable);
/* A send is held; returns the round for which the send waits. */
uint64_t ftk_rounds_hold(struct ftk_rounds *r);
/* The round for which the held sends wait after a repair. */
uint64_t ftk_rounds_next(const struct ftk_rounds *r);
/* Whether a send that waits for this round may go. */
bool ftk_rounds_is_over(const struct ftk_rounds *r, uint64_t round);

/* Whether a round has to begin now. */
bool ftk_rounds_is_due(const struct ftk_rounds *r);
/* A round begins; it has so many messages.  (relay.c counts while it sends: first begin, then one
 * call of sent for each message, then begun.) */
void ftk_rounds_begin(struct ftk_rounds *r);
void ftk_rounds_sent(struct ftk_rounds *r);
void ftk_rounds_begun(struct ftk_rounds *r);
/* Whether an acknowledgement of a round counts.  Then ftk_rounds_acknowledged() counts it. */
bool ftk_rounds_counts(const struct ftk_rounds *r, uint64_t round);
void ftk_rounds_acknowledged(struct ftk_rounds *r);
/* A repair has ended the round under way. */
void ftk_rounds_end(struct ftk_rounds *r);

/* The keeper of a rank: a rank of the next other node, with the same place among the ranks of its
 * node; -1: there is no other node.  node [n]: by rank. */
int ftk_rounds_keeper(const int *node, int n, int rank);

#endif
