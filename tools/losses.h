/* Processes that a job has lost, and those that have called MPI_Abort (losses.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_LOSSES_H
#define FTKIT_TOOLS_LOSSES_H

#include "state.h"

struct ftk_loss;        /* a process whose end the library explains */
struct ftk_losses {     /* of one attempt; zero at its begin */
    struct ftk_loss *v; /* [n] */
    size_t n, room;
    struct ftk_end *aborts; /* [naborts] every call of MPI_Abort that was reported */
    size_t naborts, aborts_room;
    struct ftk_end sure; /* the first call of which the library says that it knows no failure */
};

/* Read the rest of a line "lost" or "idle" (state.c) into *e, which gets the process; false: the
 * text has another form. */
bool ftk_losses_add(struct ftk_losses *l, const char *text, struct ftk_end *e);
/* Whether the end of this process does not matter: it was replaced, or is an idle spare. */
bool ftk_losses_excuse(const struct ftk_losses *l, const struct ftk_end *e);
/* The process of e has called MPI_Abort. */
void ftk_losses_abort(struct ftk_losses *l, const struct ftk_end *e);
/* The same, and the library says that it knows no failure: no repair changes that. */
void ftk_losses_abort_sure(struct ftk_losses *l, const struct ftk_end *e);
/* Whether it has; code >= 0: with this code. */
bool ftk_losses_code(struct ftk_losses *l, const struct ftk_end *e, int code);
/* The first call of MPI_Abort that a repair has taken for the loss of a process, and that no
 * failure explains; NULL: none. */
const struct ftk_end *ftk_losses_aborted(const struct ftk_losses *l);
void ftk_losses_free(struct ftk_losses *l);

#endif
