/* Determinants: the outcomes since the line of the choices that MPI leaves open.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A determinant says: which message a wildcard receive got; whether a probe or a test succeeded,
 * and after how many that did not; which of several requests a call returned; whether a receive was
 * cancelled in time.  A program that names its sources and waits for all its requests makes none.
 *
 * A determinant is recorded in shared memory of the node, where it outlives its process, before any
 * other process can depend on it.  The MPI can repair the loss of processes.  When a node is lost,
 * the job is relaunched and all ranks return to the line, so no determinant is needed.  When no
 * process of a lost rank's node is left to read its determinants, all ranks return to the line as
 * well, unless other nodes have the determinants (mode/relay.c). */
#ifndef FTK_LOG_DET_H
#define FTK_LOG_DET_H

#include "log/base/envelope.h"
#include "log/determinant/det_kinds.h"

struct ftk_req;

/* Open the files of this process, before the ranks agree on the repair that gives it its rank.
 * before [n]: the determinants of the lost process since the line, which the replay repeats.  The
 * files are valid from the epoch epoch_id on, so files of failed attempts are of no epoch. */
int ftk_det_open(const struct ftk_det *before, size_t n, uint64_t line, uint64_t epoch_id);
void ftk_det_promise(uint64_t epoch_id);   /* the same for a process that has its rank already */
void ftk_det_installed(uint64_t epoch_id); /* the epoch has begun */
void ftk_det_close(void);
/* A set is being written: the line is here, if the set is committed.  The receives with these
 * numbers are under way, in rising order [n]: among the wildcard receives, among all receives.
 * FTKIT_ERR_NOMEM. */
int ftk_det_at_line(const uint32_t *wildcards, size_t nw, const uint32_t *receives, size_t nr);
/* Line apart: this rank cuts; as ftk_det_at_line(), but the program goes on.  Determinants from now
 * on are of the window of the set, until ftk_det_stop(). */
int ftk_det_cut(const uint32_t *wildcards, size_t nw, const uint32_t *receives, size_t nr);
void ftk_det_stop(void);
/* Whether this rank has made a choice since then, or failed probes and tests that are not recorded
 * yet. */
bool ftk_det_is_past_stop(void);
/* The determinants of the window, numbered from the cut: [*n], the caller's.  NULL: no memory. */
struct ftk_det *ftk_det_window(size_t *n);
/* This rank is back at a line apart: repeat the determinants of the window, v [n].  The list may
 * have them, or the first of them, already: from this process, or from the lost one. */
int ftk_det_restore(const struct ftk_det *v, size_t n);
/* Whether this is a replay with determinants.  The same, and it has some left to repeat. */
bool ftk_det_has_plan(void);
bool ftk_det_plan_left(void);
/* The number behind the line of a receive that is under way there. */
uint32_t ftk_det_new_number(enum ftk_det_count counts, uint32_t number);
/* The same of a receive that is complete.  If it was complete at the line, it has no number behind
 * the line: the number is the one before, with this bit.  0: it was complete at the line before. */
#define FTK_DET_OF_BEFORE (UINT32_C(1) << 31)
uint32_t ftk_det_number_of_complete(uint32_t number);
size_t ftk_det_count(void); /* since the line */

/* log_ops.h: decide (decide.c).  The bytes of a value are in the fields n, a and b of MORE. */
int ftk_det_decide(void *data, size_t bytes);
#define FTK_DET_BYTES (sizeof(struct ftk_det) - sizeof(uint32_t))
/* Record a value.  FTKIT_ERR_NOSPACE: nothing is recorded. */
int ftk_det_value(const void *data, size_t bytes);

/* The next wildcard receive: its number; 0: no number is needed.  *known: a determinant gives the
 * match in want.  A mode that records nothing knows no match. */
uint32_t ftk_det_receive(struct ftk_envelope *want, bool *known);
/* A replay has repeated a probe of those arguments, which has left the message found in the queue.
 * The next probes and the next receive with these arguments get that message, until a receive
 * begins that could take it. */
void ftk_det_probed(const struct ftk_envelope *asked, const struct ftk_envelope *found);
/* A probe begins.  If it is such a one, want gets the message. */
void ftk_det_probed_before(struct ftk_envelope *want);
/* A probe has taken a message. */
void ftk_det_probe_took(const struct ftk_envelope *message);
void ftk_det_received(uint32_t number, int source, int tag);
/* Whether a determinant gives the match of a wildcard receive.  If a repair has bound a receive of
 * any tag, the determinant has no tag, and *tag stays. */
bool ftk_det_match(uint32_t number, int *source, int *tag);
/* Whether a determinant gives the tag of the receive with that number. */
bool ftk_det_tag(uint32_t number, int *tag);
/* The next receive of the program begins.  Its number, 0: before the line.  r->replay gets the
 * outcome of its cancel in the first execution.  If a determinant gives its tag, r->recv.want gets
 * this tag, and the match is known.  Behind a probe of a replay with the same arguments
 * r->recv.want gets the message that the probe has found (ftk_det_probed). */
uint32_t ftk_det_begun(struct ftk_req *r);
void ftk_det_cancelled(uint32_t number, bool cancelled);
/* The next blocking probe of any tag that names its source.  Whether it has a number: not before
 * the line.  A line apart may be committed before the probe has an outcome, so its caller does not
 * keep the number: it is that of the last probe. */
bool ftk_det_probes(void);
/* Whether a determinant gives the tag of that probe, in want.  A follower asks before each look. */
bool ftk_det_probe_known(struct ftk_envelope *want);
/* That probe has found a message. */
void ftk_det_found_tag(int source, int tag);
/* The receive with that number has got a message. */
void ftk_det_tagged(uint32_t number, int source, int tag);

/* The outcome that a probe or a test has to have: FTK_DET_FREE: any; FTK_DET_NOTHING: it fails;
 * FTK_DET_THIS: that of *d; for SOME d->a MORE follow *d. */
enum ftk_det_next { FTK_DET_FREE, FTK_DET_NOTHING, FTK_DET_THIS };
int ftk_det_next(uint32_t kind, const struct ftk_det **d);
/* Record the outcome of a free one. */
void ftk_det_found(uint32_t kind, int a, int b);
void ftk_det_more(int index);
void ftk_det_found_nothing(void);
/* A message goes out: other ranks may depend on the failed probes and tests, so record their
 * number. */
void ftk_det_before_send(void);

/* ---- for lead.c -------------------------------------------------------------------------- */

/* The outcome of the cancel of receive number.  A follower waits for it.  FTK_CANCEL_UNKNOWN: this
 * rank decides. */
enum ftk_cancel_known ftk_det_await_cancel(uint32_t number);
/* This rank follows: it repeats the determinants of its leader, v [n], which are number from and
 * the following ones since the line.  They are whole calls.  False: this rank has others. */
bool ftk_det_learn(const struct ftk_det *v, size_t from, size_t n);
/* How many of them are those of whole calls. */
size_t ftk_det_whole(const struct ftk_det *v, size_t n);

/* ---- determinants of this node's ranks, for relay.c: peer is an index among these ranks --- */

/* The ranks of this node in this epoch: rank [n]; id [ranks of the world]: their process ids. */
int ftk_det_peers(const int *rank, const long *id, int n);
/* The determinants of a peer since the line of this process: *n of them. */
const struct ftk_det *ftk_det_of(int peer, size_t *n);
/* How many of them are stable: one word for all processes of this node. */
size_t ftk_det_stable(int peer);
void ftk_det_set_stable(int peer, size_t n);
/* The determinants of this process since a line. */
const struct ftk_det *ftk_det_own(uint64_t line, size_t *n);

/* All ranks roll back to the line: the determinants since then are void. */
void ftk_det_drop(void);

/* Collective over s, in a repair: a process that can read the determinants of a lost rank
 * (lost[r] != 0) sends them to all.  *all: none can read those of some rank.  *led: ... of a rank
 * that has led the other replicas. */
int ftk_det_search(MPI_Comm s, const int *lost, int n, bool *all, bool *led);
/* The determinants of rank r since a line, as far as they are adopted; NULL, 0: none. */
const struct ftk_det *ftk_det_adopted(int r, uint64_t line, size_t *n);
bool ftk_det_is_adopted(int r);
/* Adopt determinants that came from another node; takes v. */
void ftk_det_adopt(int r, uint64_t line, struct ftk_det *v, size_t n);
#endif
