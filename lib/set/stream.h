/* Moving segments between ranks: many transfers at once, each cut into pieces.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_STORE_STREAM_H
#define FTK_STORE_STREAM_H

#include "core/tags.h"
#include "detect/detect.h"
#include "store/changes.h"
#include "store/memory.h"

enum { FTK_STREAM_WINDOW = 4 };
#define FTK_STREAM_PIECE (1u << 20)

/* Only partial streams have the phases WANTED and AGAIN. */
enum ftk_stream_phase {
    FTK_STREAM_SIZES,
    FTK_STREAM_DATA,
    FTK_STREAM_HEAD,
    FTK_STREAM_WANTED,
    FTK_STREAM_AGAIN,
    FTK_STREAM_DONE
};

/* A partial stream sends only the blocks that have changed since another set, the base, chunk by
 * chunk: the mask of the chunk, then its changed blocks.  The receiver takes the other blocks from
 * its copy of the base, and compares their checksums with the head when that has come.  It answers
 * which of these blocks do not match (all, if it has no copy); the sender sends them, too. */
struct ftk_partial {
    uint16_t *masks;  /* changed blocks; a sender has the masks of its caller */
    uint16_t *wanted; /* blocks that the receiver cannot take from the base */
    /* of a sender and of a receiver: which block is sent next */
    size_t chunk, block;
    bool named; /* the mask of the chunk has been handed to MPI */
    /* of a receiver */
    size_t known;     /* number of masks that have come */
    const char *base; /* data area of its copy of the base, NULL: it has none */
    size_t base_bytes;
    size_t carried; /* number of blocks that were looked at, sent or not */
    uint64_t *sums; /* of the blocks that were copied */
};

/* One transfer of one segment.  First the sizes travel, then the data area piece by piece while it
 * is being packed, and last the head with the checksums. */
struct ftk_stream {
    bool send;
    int peer;
    int tag;
    int rank; /* of the segment */
    uint64_t set;
    int nranks;
    struct ftk_mem_seg *seg; /* of a receiver: taken when the sizes are known */
    uint64_t sizes[3];       /* head and data bytes; base of a partial stream, else 0 */
    size_t ready;            /* of a sender: bytes of the data area that may go */
    bool sealed;             /* of a sender: the head may go */
    /* progress */
    int phase;     /* enum ftk_stream_phase */
    int error;     /* receiver: why there is no buffer; sender: why it must not send */
    size_t posted; /* bytes of this phase that MPI has */
    int first;     /* oldest request in the window */
    int npending;
    MPI_Request req[FTK_STREAM_WINDOW];
    bool is_mask[FTK_STREAM_WINDOW];
    struct ftk_partial part;
};

void ftk_stream_init(
    struct ftk_stream *s, bool send, int peer, int tag, uint64_t set, int rank, int nranks);

/* Give a sender its whole, sealed segment. */
void ftk_stream_give(struct ftk_stream *s, struct ftk_mem_seg *seg);

/* Let a sender send only the blocks in masks (which are valid for the bytes that are ready), and
 * let the receiver take the others from set base.  The caller has set s->sizes.  False: no memory,
 * so all blocks are sent. */
bool ftk_stream_partial(struct ftk_stream *s, uint64_t base, uint16_t *masks);

/* Exchange the sizes of all streams, and take the receivers' buffers from mem.  A rank without
 * memory does not stop the others: its code is in *local, and the ranks must agree before the data
 * are sent.  FTKIT_ERR_PEER: a rank has failed. */
int ftk_stream_sizes(
    struct ftk_chan *ch, struct ftk_mem *mem, struct ftk_stream *s, int n, int *local);
/* The same without waiting, in as many calls as it takes.  *idle: nothing has moved; *done: the
 * sizes are there, and the buffers are taken. */
int ftk_stream_sizes_step(struct ftk_chan *ch, struct ftk_mem *mem, struct ftk_stream *s, int n,
    bool *idle, bool *done, int *local);

/* Advance all streams once.  *idle: nothing has moved; *done: all streams are done. */
int ftk_stream_progress(struct ftk_chan *ch, struct ftk_stream *s, int n, bool *idle, bool *done);

/* Run until every stream is done.  Received segments with a good head are sealed then; the caller
 * verifies the data.  *local: the error of a bad head. */
int ftk_stream_run(struct ftk_chan *ch, struct ftk_stream *s, int n, int *local);
/* The same without waiting: ftk_stream_progress(), which seals when all streams are done. */
int ftk_stream_step(
    struct ftk_chan *ch, struct ftk_stream *s, int n, bool *idle, bool *done, int *local);

/* Give up after an error: end all requests, and release the buffers of incomplete segments. */
void ftk_stream_abandon(struct ftk_chan *ch, struct ftk_stream *s, int n);

/* Free the memory of partial streams; no stream is under way any more. */
void ftk_stream_end(struct ftk_stream *s, int n);

#endif
