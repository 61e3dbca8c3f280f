/* Sleeping while other ranks replay.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * With the message log a failed team replays, and the other ranks soon wait for the team.  A rank
 * that waits for a long time sleeps between its looks, so that its core draws less power and is
 * free for others.  [Meneses, Sarood & Kale: a rank that waits for a replay draws the power of
 * waiting, 4.3]
 *
 * Sleeps are short beside the wait: at most 1/64 of the time that the rank has waited so far, and
 * at most 1 ms.  So a wait ends at most 1.6 % later than without sleeps.  Large messages may take
 * longer, because the MPI delivers them in its calls.  So a rank does not sleep while one of its
 * sends is under way, or after the team has caught up with this rank, and sleeps in a few waits of
 * an epoch only. */
#ifndef FTK_NAP_H
#define FTK_NAP_H

struct ftk_watchdog;

/* What a rank does that waits. */
enum ftk_nap {
    FTK_NAP_SLEEP, /* nothing */
    FTK_NAP_AWAKE, /* a send is under way */
    FTK_NAP_OVER   /* the team has caught up with this rank */
};

/* An epoch begins in which other ranks replay, and this rank does not.  look: called before each
 * sleep, and before the rank counts as idle (idle.h). */
void ftk_nap_begin(struct ftk_watchdog *dog, enum ftk_nap (*look)(void));
/* No rank replays any more: a set is committed, or a further rank has failed. */
void ftk_nap_end(void);
/* A wait has looked `turns` times in vain; called at some of its looks.  May sleep. */
void ftk_nap_turn(unsigned turns);

#endif
