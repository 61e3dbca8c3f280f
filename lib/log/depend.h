/* Gates: the order of messages in a replay when the program says that it does not matter.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * With log.determinants = relaxed nothing is recorded of what MPI leaves open: the program
 * receives from any source, probes and tests, but what it sends, and in which order, does not
 * depend on what comes first (send-determinism: Cappello, Guermouche & Snir, ICCCN 2010; HydEE
 * of Guermouche et al., IPDPS 2012, needs no determinants either).  One thing is still to be
 * prevented.  A rank that has gone back gets all the messages of the log at once, so that a
 * receive from any source in step 3 could take a message of step 9, which without the
 * failure could not have been sent before the receiver was beyond step 3.
 *
 * So every message is preceded, on the same communicator, by a letter with what its sender
 * knows, directly and through others, of how far every rank had come since the line: how many
 * sends it had begun (a vector of dependencies, as in lightweight causal logging after Yang),
 * those of collectives by themselves, because these go on in the background.  Who has gone back delivers a message when it has itself come as far as
 * the message knows: it waits in front of a gate until then, and everything of the same
 * source that the receive could match waits behind it.  That holds until the next line.
 * Others keep no message waiting, they only learn.
 *
 * What is counted are sends, and not, as one might, receives from any source: others know of
 * a receive only by what was sent after it, and by send-determinism the number of a send says
 * where in the program it is, whatever came in which order.  So the gate is neither early
 * (receives that are pending at once can be through in any order, and their number says
 * little), nor does it depend on how a receive or a probe was called.
 *
 * Nobody waits for ever.  Take all that was ever done since the line, each thing where it was
 * done first, and of what has not been done again the first: a send waits for no gate, and what
 * its sender had received before it is here again.  A message m to R was sent before, and so has
 * been again.  Is its gate shut, then m knows of a send of R that R made after it had m.
 * Its sender S can have heard of that only from a message that depends on m; that one has a gate
 * at S, and whoever passed it on at S has one, too: it is not open before S has sent m.
 * For this every receive of a rank that has gone back has a gate, also those that name
 * their source, and those of collectives (docs/model/gate.pml).
 *
 * What a synchronous send tells its sender by being complete is in no letter.  Messages of
 * several collectives that are under way at once are counted as one sequence. */
#ifndef FTK_LOG_GATE_H
#define FTK_LOG_GATE_H

#include "log/log.h"

/* How far a rank has come: by sends of the program, and by messages of collectives. */
enum { FTK_GATE_SENDS, FTK_GATE_COLLS, FTK_GATE_COUNTS, FTK_GATE_WORDS = 1 + FTK_GATE_COUNTS };

struct ftk_letter {
    struct ftk_letter *next; /* of those whose messages have not been drawn yet */
    int context, source, tag; /* of the message, as it travels */
    uint64_t lines;         /* committed before it */
    uint64_t calls;         /* calls of ftkit since then that all make together */
    size_t n;
    uint64_t v[];           /* [n * FTK_GATE_WORDS] ranks and how far each had come */
};

/* Tables for n ranks, once. */
int ftk_gate_enter(int n);
void ftk_gate_close(void);

/* A send begins; internal: of a collective. */
void ftk_gate_step(bool internal);
/* The letter of a kept message, which goes with it whenever it is sent. */
int ftk_gate_keep(struct ftk_entry *e);
/* The letter before a message, e when it is kept.  MPI codes. */
int ftk_gate_send(int dest, int context, int tag, const struct ftk_entry *e);
static inline int ftk_gate_before(int dest, int context, int tag, const struct ftk_entry *e)
{
    return ftk_log.gates ? ftk_gate_send(dest, context, tag, e) : MPI_SUCCESS;
}

/* A letter that a probe has matched. */
int ftk_gate_take(int context, MPI_Message *m, const MPI_Status *s);
/* A message of that source has been received, or found, by a rank that has no gates. */
int ftk_gate_learn(int context, int source);
static inline int ftk_gate_absorb(int context, int source)
{
    return ftk_log.gates ? ftk_gate_learn(context, source) : MPI_SUCCESS;
}
/* A message has been drawn: h gets its letter, when there are gates here. */
int ftk_gate_drawn(struct ftk_held *h);

/* Whether this rank has gates: then it posts no receives. */
bool ftk_gate_here(void);
/* A look for what a receive can get; the receive is complete when it was there. */
int ftk_gate_receive(struct ftk_req *r);
/* The same for a probe: *h, still held unless out; NULL: nothing. */
int ftk_gate_probe(int context, int source, int tag, bool out, struct ftk_held **h);

void ftk_gate_line(void);       /* a line is committed (ftk_log.lines counts it) */
void ftk_gate_back(bool gates); /* this rank goes back; not everybody does: gates */
void ftk_gate_installed(void);  /* what the old communicators had is gone */

#endif
