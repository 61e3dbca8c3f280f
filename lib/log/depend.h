/* Dependency vectors: which order a replay has to keep when nothing is recorded.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * With log.determinants = relaxed the log records no determinants.  The program may receive from
 * any source, probe and test, but what it sends, and in which order, does not depend on the
 * outcome (send-determinism: Cappello, Guermouche & Snir, ICCCN 2010; HydEE of Guermouche et al.,
 * IPDPS 2012, needs no determinants either).  One fault is left to prevent.  A rank that has
 * rolled back gets all messages of the log at once.  A wildcard receive of step 3 could then take
 * a message of step 9, although without the failure that message was sent only after the receiver
 * had passed step 3.
 *
 * So before every message its sender sends, on the same communicator, its dependency vector: for
 * each rank the number of sends which that rank had begun since the line, as far as the sender
 * knows, directly or through other ranks (as in lightweight causal logging after Yang).  Sends of
 * collectives are counted apart, because collectives make progress in the background.
 *
 * A rank that has rolled back delivers a message when the rank itself has begun as many sends as
 * the vector says (the delivery condition).  Until then the message is delayed, and so is every
 * later message of the same source that the same receive could match.  This lasts until the
 * next line.  Other ranks delay no message; they only merge the vectors.
 *
 * The vector counts sends and not wildcard receives.  Other ranks know of a receive only by
 * messages that were sent after it, and by send-determinism the number of a send says where in
 * the program its sender is, in whatever order messages came.  A count of receives would say
 * little: receives that are pending together may complete in any order.  And the condition does
 * not depend on how a receive or a probe was called.
 *
 * No rank waits for ever.  Proof: order all events since the line by their first execution, and
 * take the earliest one that has not been executed again.  A send waits for no delivery
 * condition, and all that its sender had received before it is here again; so the earliest event
 * is the delivery of a message m to R, and m has been sent again.  Assume that m is not
 * deliverable.  Then the vector of m counts a send of R that R began after R had delivered m.  The
 * sender S of m can know of that send only from a message that depends on m.  S delivered that
 * message under a delivery condition, and so did every rank that passed the knowledge on; that
 * condition does not hold before S has sent m.  So S did not know of the send when S sent m: a
 * contradiction.  The proof needs a delivery condition for every receive of a rank that has rolled
 * back, also for receives that name their source and for those of collectives
 * (docs/model/depend.pml).
 *
 * Two limits.  The completion of a synchronous send tells its sender something that no vector
 * contains.  Messages of several collectives under way at once are counted as one sequence. */
#ifndef FTK_LOG_DEPEND_H
#define FTK_LOG_DEPEND_H

#include "log/log.h"

/* What is counted for each rank: sends of the program, and sends of collectives. */
enum { FTK_DEPS_SENDS, FTK_DEPS_COLLS, FTK_DEPS_COUNTS, FTK_DEPS_WORDS = 1 + FTK_DEPS_COUNTS };

/* A dependency vector that has come. */
struct ftk_deps {
    struct ftk_deps *next;    /* of the same source; their messages have not been drained yet */
    int context, source, tag; /* of the message; tag: as it travels */
    uint64_t lines;           /* committed before the message */
    uint64_t calls;           /* collective calls of ftkit since then */
    size_t n;
    uint64_t v[]; /* [n * FTK_DEPS_WORDS] a rank and its counts, n times */
};

/* Make the tables for n ranks, once. */
int ftk_depend_open(int n);
void ftk_depend_close(void);

/* A send begins; internal: of a collective. */
void ftk_depend_count_send(bool internal);
/* Log the vector of a logged message: the same vector goes with it whenever it is sent. */
int ftk_depend_log(struct ftk_entry *e);
/* Send the vector before a message; e: its log entry, or NULL.  MPI codes. */
int ftk_depend_send(int dest, int context, int tag, const struct ftk_entry *e);
static inline int ftk_depend_before(int dest, int context, int tag, const struct ftk_entry *e)
{
    return ftk_log.send_deps ? ftk_depend_send(dest, context, tag, e) : MPI_SUCCESS;
}

/* Receive a vector that a matched probe has found.  MPI codes. */
int ftk_depend_recv(int context, MPI_Message *m, const MPI_Status *s);
/* A message of source has been received or found by a rank that delays no messages: receive the
 * vectors before it.  MPI codes. */
int ftk_depend_learn(int context, int source);
static inline int ftk_depend_absorb(int context, int source)
{
    return ftk_log.send_deps ? ftk_depend_learn(context, source) : MPI_SUCCESS;
}
/* A message has been drained: h gets its vector, when this rank delays messages.  MPI codes. */
int ftk_depend_drained(struct ftk_unexp *h);

/* Whether this rank has rolled back since the line and delays messages.  Then it posts no
 * receives. */
bool ftk_depend_active(void);
/* One look for a message that the receive can have; the receive is complete if there is one. */
int ftk_depend_receive(struct ftk_req *r);
/* The same for a probe: *h stays in the list unless out is true; NULL: no message. */
int ftk_depend_probe(int context, int source, int tag, bool out, struct ftk_unexp **h);

void ftk_depend_line(void);            /* a line is committed (counted by ftk_log.line.count) */
void ftk_depend_rollback(bool active); /* this rank rolls back; active: other ranks do not */
void ftk_depend_installed(void);       /* messages in the old communicators are gone */

#endif
