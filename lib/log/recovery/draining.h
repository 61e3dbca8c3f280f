/* The steps of draining at the line, in their order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each state has a question.  The answer leads to the next state, and to an action before the next
 * question.  The functions call no MPI, and depend on their arguments only; line.c asks and acts.
 *
 *   RELEASE       is a send held back?               yes: look, collectives go on; again
 *      | no
 *   CATCH_UP      is a collective behind its first   yes: look, collectives go on; again
 *      | no       execution?
 *   MEET          all ranks exchange their counts.   no: RECEIVE
 *      | yes      Has some rank collectives under way, or control messages of state?  From here on
 *      |          both stand still.
 *   RELEASE_HERE  is a send held back?               yes: look; again
 *      | no
 *   MEET_AGAIN    all ranks exchange their counts
 *      |
 *   RECEIVE       take all announced messages
 *      |
 *   RECORD        is a message not recorded, or a    yes: look at all requests; again
 *      | no       send not over, or a control
 *      |          message of state not handled?
 *      |---- planes, and MEET said yes, and this is the first time, or ADVANCE said yes: ADVANCE
 *   CERTAIN       is a determinant in danger?        yes: look; again
 *      | no
 *   DRAINED
 *
 *   ADVANCE       collectives go on as far as they can; all ranks exchange their counts.  Has some
 *                 rank sent messages?  RECEIVE comes in any case.
 *
 * ADVANCE does not ask for held sends: with planes no send is held back, because replicas need
 * log.determinants = node or refuse (core/config_sense.c). */
#ifndef FTK_LOG_DRAINING_H
#define FTK_LOG_DRAINING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ftk_draining_state {
    FTK_DRAINING_RELEASE, /* the first one */
    FTK_DRAINING_CATCH_UP,
    FTK_DRAINING_MEET,
    FTK_DRAINING_RELEASE_HERE,
    FTK_DRAINING_MEET_AGAIN,
    FTK_DRAINING_RECEIVE,
    FTK_DRAINING_RECORD,
    FTK_DRAINING_ADVANCE,
    FTK_DRAINING_CERTAIN,
    FTK_DRAINING_DRAINED
};

enum ftk_draining_action {
    FTK_DRAINING_NOTHING,
    FTK_DRAINING_LOOK_ON, /* one look at messages; collectives go on */
    FTK_DRAINING_LOOK,    /* one look at messages */
    FTK_DRAINING_POLL     /* one look at messages and at all requests */
};

struct ftk_draining {
    enum ftk_draining_state state;
    bool planes;   /* there are replicas */
    bool advances; /* ADVANCE comes after RECORD */
};

/* The answer to the question of d->state; moves d->state. */
enum ftk_draining_action ftk_draining_step(struct ftk_draining *d, bool yes);

/* Whether messages of a sender are in flight.  received: recorded here; unreported: arrived, and
 * not recorded yet; announced: sent, as the sender has said. */
bool ftk_draining_is_behind(uint64_t received, size_t unreported, uint64_t announced);

#endif
