/* Determinants: what MPI left open and this process has seen decided since the line.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which message a receive from any source got; whether a probe or a test found something,
 * after how many that did not; which of several requests a call returned; whether a receive
 * was cancelled in time.  A program that names its sources and waits for all it has begun
 * makes none.
 *
 * They lie in shared memory of the node, where they outlive the process that made them, from
 * the moment they are made: before anybody else can depend on them.  What the runtime can
 * repair is the loss of processes; when a node is lost the job is relaunched and everybody
 * returns to the line, and then determinants are of no use.  When nobody on a lost rank's
 * node is left to read them, everybody returns to the line as well, unless other nodes have
 * been told of them (relay.h). */
#ifndef FTK_LOG_DET_H
#define FTK_LOG_DET_H

#include "log/log.h"

enum ftk_det_kind {
    FTK_DET_RECV = 1,
    FTK_DET_PROBE,
    FTK_DET_TEST,
    FTK_DET_SOME,
    FTK_DET_MORE,
    FTK_DET_NONE,           /* nothing was found n times when a message was sent */
    FTK_DET_CANCEL          /* a receive that was to be cancelled was (a = 1), or had got its
                               message; n is its number among all receives */
};

struct ftk_det {
    uint32_t kind;          /* enum ftk_det_kind */
    uint32_t n;             /* RECV: number of the receive; else calls before that found nothing */
    int32_t a, b;           /* RECV, PROBE: source (of the world), tag; TEST: index; SOME: how
                               many MORE follow, whose a are the indices */
};

/* The files of this process, for a rank at a line, before the repair that gives it that rank
 * is agreed; those it has to go by, from its predecessor, are n.  They count from the epoch of
 * that stamp on: what lies about of attempts that came to nothing is of no epoch. */
int ftk_det_open(const struct ftk_det *before, size_t n, uint64_t line, uint64_t epoch_id);
void ftk_det_promise(uint64_t epoch_id);   /* the same, of one that has its rank already */
void ftk_det_installed(uint64_t epoch_id); /* that epoch has begun */
void ftk_det_close(void);
/* The job is over: what dead processes have left on this node goes, too. */
void ftk_det_clean(uint64_t job);
void ftk_det_hold(bool on); /* what is decided from now on is not kept: it will be decided again */
void ftk_det_line(void);    /* the line is committed: none is needed any more */
int ftk_det_back(void);     /* this process goes back to it, and does the same again */
size_t ftk_det_count(void); /* since the line */

/* The next receive from any source: its number, and in *source and *tag what it got before
 * the failure, when it did. */
uint32_t ftk_det_receive(int *source, int *tag);
void ftk_det_received(uint32_t number, int source, int tag);
/* The number of the next receive of the program, 0: of no run.  *vain: it was cancelled before
 * the failure and must get nothing, *kept: it got its message though it was to be. */
uint32_t ftk_det_begun(bool *vain, bool *kept);
void ftk_det_cancelled(uint32_t number, bool cancelled);

/* What a probe or a test is to find: FTK_DET_FREE whatever there is, FTK_DET_NOTHING, or
 * FTK_DET_THIS: *d, with d->a MORE behind it when it is SOME. */
enum ftk_det_next { FTK_DET_FREE, FTK_DET_NOTHING, FTK_DET_THIS };
int ftk_det_next(uint32_t kind, const struct ftk_det **d);
/* What it has found when it was free. */
void ftk_det_found(uint32_t kind, int a, int b);
void ftk_det_more(int index);
void ftk_det_found_nothing(void);
/* A message goes out: what has not been found is known to others from now on. */
void ftk_det_before_send(void);

/* ---- of the ranks of this node, for relay.h: they are told by their place among those ------ */

/* Who they are, from this epoch on; id: [ranks of the world] the process ids there. */
int ftk_det_peers(const int *rank, const long *id, int n);
/* What one has seen decided since the line that this process knows: *n of them. */
const struct ftk_det *ftk_det_of(int peer, size_t *n);
/* How many of them another node has as well: the same word for all processes of this node. */
size_t ftk_det_stable(int peer);
void ftk_det_set_stable(int peer, size_t n);
/* Those of this process since a line. */
const struct ftk_det *ftk_det_own(uint64_t line, size_t *n);

/* Everybody goes back to the line: what was decided since then is of no run. */
void ftk_det_drop(void);

/* Collective over s, in a repair: the determinants of every lost rank (lost[r] != 0) from
 * whoever can read them.  *all is set when those of a rank are nowhere. */
int ftk_det_search(MPI_Comm s, const int *lost, int n, bool *all);
/* Those of rank r since a line that the search has found; NULL, 0: none. */
const struct ftk_det *ftk_det_adopted(int r, uint64_t line, size_t *n);
bool ftk_det_is_adopted(int r);
/* They have come from elsewhere; takes v. */
void ftk_det_adopt(int r, uint64_t line, struct ftk_det *v, size_t n);
void ftk_det_forget_search(void);

#endif
