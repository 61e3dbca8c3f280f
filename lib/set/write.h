/* Writing one set to one memory level.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The order of the calls, the same on all ranks: ftk_write_begin(), a vote, ftk_write_data(), the
 * vote that commits, ftk_write_end().  The caller makes the votes and fills the segment;
 * meanwhile the scheme of the level brings copies or parity to other ranks. */
#ifndef FTK_WRITE_H
#define FTK_WRITE_H

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
    int local; /* most severe error of this rank so far */
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
enum ftk_reach { FTK_REACH_NOBODY, FTK_REACH_NODE, FTK_REACH_OTHER_NODES };

/* The steps of a writing.  The functions return FTKIT_ERR_PEER when a rank has failed.  Of
 * other errors, which are local, take() returns its own; the other functions call
 * ftk_write_note(). */
struct ftk_write_ops {
    void (*begin)(struct ftk_write *w);
    int (*sizes)(struct ftk_write *w); /* exchange the sizes of the segments */
    int (*take)(struct ftk_write *w);  /* take the rest of the memory; own is there */
    int (*progress)(struct ftk_write *w, size_t ready); /* bytes of the data area may be read */
    int (*finish)(struct ftk_write *w);                 /* the segment is sealed: run to the end */
    void (*end)(struct ftk_write *w, int rc);           /* end all requests; also after an error */
    int (*reach)(const struct ftk_level *l, int rank, int nranks, const int *domain);
};
extern const struct ftk_write_ops ftk_write_copies;   /* copies.c: schemes without parity */
extern const struct ftk_write_ops ftk_write_parities; /* parities.c: schemes with parity */

/* Return the steps of a scheme. */
const struct ftk_write_ops *ftk_write_ops_of(const struct ftk_scheme *s);

/* Note an error of this rank for the next vote. */
static inline void ftk_write_note(struct ftk_write *w, int rc)
{
    if (rc < w->local)
        w->local = rc;
}

/* Take memory here and, as the scheme says, at other ranks.  The ranks have to agree on w->local
 * before the data are written.  FTKIT_ERR_PEER: a rank has failed. */
int ftk_write_begin(struct ftk_write *w);

/* Fill the segment and bring its redundancy to other ranks; then the ranks agree on w->local. */
int ftk_write_data(struct ftk_write *w, const struct ftk_fill *fill);

/* End with the agreed result rc.  A set that was not committed is released, except for sealed
 * segments after FTKIT_ERR_PEER: a survivor may have seen the set committed. */
void ftk_write_end(struct ftk_write *w, int rc);

#endif
