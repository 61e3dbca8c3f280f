/* Collectives in a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_COLL_SAVED_H
#define FTK_LOG_COLL_SAVED_H

#include "log/log.h"

struct ftk_saving;
struct ftk_loading;
struct ftk_coll;

/* How far a collective of a set was. */
struct ftk_coll_progress {
    size_t first, at; /* the steps from first to at have begun */
    int error;
    bool open[]; /* [at - first] receives that are not complete */
};

/* Append a collective, at a line.  active: it is under way.  FTKIT_ERR_STATE: its memory is in no
 * region; bare: then *bare is set instead, and a persistent one is appended without steps. */
int ftk_coll_save(struct ftk_saving *s, const struct ftk_coll *c, bool active, bool *bare);
/* Read a collective.  *c: the persistent one of this process to which it belongs, or NULL: it is
 * made.  *p is the caller's: free it.  Codes of ftkit. */
int ftk_coll_load(struct ftk_loading *l, struct ftk_vcomm *vc, bool persistent, struct ftk_coll **c,
    struct ftk_coll_progress **p);
/* A persistent collective that set-up has started: it is not under way any more. */
void ftk_coll_halt(struct ftk_req *r);
/* Continue the collective of r, whose state is set, from there. */
void ftk_coll_resume(struct ftk_req *r, const struct ftk_coll_progress *p);

#endif
