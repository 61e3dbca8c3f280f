/* Writing one set to one memory level.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The order of the calls, the same on all ranks: ftk_write_begin(), a vote, ftk_write_data(), the
 * vote that commits, ftk_write_end().  The caller makes the votes and fills the segment;
 * meanwhile the scheme of the level brings copies or parity to other ranks.
 *
 * The same without waiting: ftk_write_start(), ftk_write_sizes_step() until it is done, a vote,
 * ftk_write_send_step() until it is done, the vote that commits, ftk_write_end().  The caller has
 * filled and sealed the segment before it sends, polls the watch between the steps, and leaves the
 * struct where it is: MPI has pointers into it. */
#ifndef FTK_WRITE_H
#define FTK_WRITE_H

#include <stdio.h>

#include "detect/detect.h"
#include "group.h"
#include "level.h"
#include "store/segment.h"
#include "stream.h"

struct ftk_write {
    struct ftk_level *level;
    struct ftk_chan *ch;
    struct ftk_seg_header like; /* set, run, epoch, time and context of the segment */
    size_t head_bytes, data_bytes;
    struct ftk_changes *changes; /* since set base: only these are sent; NULL: send all blocks */
    uint64_t base;
    struct ftk_mem_seg *own;
    int local;                /* most severe error of this rank so far ... */
    char why[FTK_DETAIL_MAX]; /* ... and its text: other calls write other details */
    /* of schemes with copies */
    struct ftk_stream *streams; /* [nstreams], the first nsends of them send */
    int nstreams, nsends;
    /* of schemes with parity */
    struct ftk_parity_write parity;
};

/* Where the contents of the segment come from.  The caller writes the head, except for checksums,
 * before ftk_write_data(). */
struct ftk_fill {
    /* Fill at least the first upto bytes of the data area, or all of it if it is shorter; *done:
     * how many bytes are filled.  Return an error of this rank: then the rest of the area is sent
     * unfilled, and the set is not committed. */
    int (*piece)(struct ftk_write *w, size_t upto, size_t *done);
    void (*end)(struct ftk_write *w); /* seals the head */
};

/* How far the data of a rank travel by the scheme of a level. */
enum ftk_reach { FTK_REACH_NONE, FTK_REACH_NODE, FTK_REACH_OTHER_NODES };

/* The steps of a writing.  None of them waits, except end().  The functions return FTKIT_ERR_PEER
 * when a rank has failed; for other errors, which are local, they call ftk_write_note().
 * *idle: nothing has moved; *done: the step is over, and another call changes nothing. */
struct ftk_write_ops {
    void (*begin)(struct ftk_write *w); /* own is there, or local has the error; no MPI call */
    /* Exchange the sizes of the segments; then take the rest of the memory. */
    int (*sizes)(struct ftk_write *w, bool *idle, bool *done);
    int (*progress)(struct ftk_write *w, size_t ready); /* bytes of the data area may be read */
    /* The segment is sealed: bring its redundancy to other ranks. */
    int (*send)(struct ftk_write *w, bool *idle, bool *done);
    void (*end)(struct ftk_write *w, int rc); /* end all requests; also after an error */
    int (*reach)(const struct ftk_level *l, int rank, int nranks, const int *domain);
};
extern const struct ftk_write_ops ftk_write_copies;   /* copies.c: schemes without parity */
extern const struct ftk_write_ops ftk_write_parities; /* parities.c: schemes with parity */

/* Return the steps of a scheme. */
const struct ftk_write_ops *ftk_write_ops_of(const struct ftk_scheme *s);

/* Note an error of this rank, the one that the thread's detail names, for the next vote. */
static inline void ftk_write_note(struct ftk_write *w, int rc)
{
    if (rc >= w->local)
        return;
    w->local = rc;
    snprintf(w->why, sizeof w->why, "%s", ftk_detail_text());
}

/* Prepare the writing, without a call of MPI.  The caller has set the fields from level to base;
 * the others are zero.  Only own may be there, a segment of set like.set with head_bytes +
 * data_bytes bytes; else this function takes own.  An error of this rank is in w->local. */
void ftk_write_start(struct ftk_write *w);

/* Exchange the sizes, without waiting.  *done: the sizes are known and the memory is taken; an
 * error of this rank is in w->local, and the ranks have to agree on it before the data are sent.
 * FTKIT_ERR_PEER: a rank has failed. */
int ftk_write_sizes_step(struct ftk_write *w, bool *done);

/* The whole segment is filled and sealed (or w->local has an error: its bytes are sent all the
 * same): bring its copies or parity to other ranks, without waiting.  *done: all of them are
 * sealed, or an error is in w->local.  FTKIT_ERR_PEER: a rank has failed. */
int ftk_write_send_step(struct ftk_write *w, bool *done);

/* ftk_write_start(), and the step of the sizes to its end: take memory here and, as the scheme
 * says, at other ranks.  The ranks have to agree on w->local before the data are written.
 * FTKIT_ERR_PEER: a rank has failed. */
int ftk_write_begin(struct ftk_write *w);

/* Fill the segment, and bring its redundancy to other ranks until all of it is there; then the
 * ranks agree on w->local. */
int ftk_write_data(struct ftk_write *w, const struct ftk_fill *fill);

/* End with the agreed result rc.  A set that was not committed is released, except for sealed
 * segments after FTKIT_ERR_PEER: a survivor may have seen the set committed.  After FTKIT_ERR_PEER
 * the function may be called at any moment; with another result only when no step is under way on
 * any rank, because it waits for messages that are under way. */
void ftk_write_end(struct ftk_write *w, int rc);

#endif
