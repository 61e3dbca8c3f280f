/* Moving segments between ranks: many transfers at once, each cut into pieces.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_STORE_STREAM_H
#define FTK_STORE_STREAM_H

#include "detect/detect.h"
#include "store/changes.h"
#include "store/memory.h"

enum { FTK_STREAM_WINDOW = 4 };
#define FTK_STREAM_PIECE (1u << 20)

#define FTK_STREAM_BACK 4 /* a receiver answers with the tag of the stream plus this */

/* The last two are of partial streams only. */
enum ftk_stream_phase {
    FTK_STREAM_SIZES,
    FTK_STREAM_DATA,
    FTK_STREAM_HEAD,
    FTK_STREAM_WANTED,
    FTK_STREAM_AGAIN,
    FTK_STREAM_DONE
};

/* A stream that sends only what has changed since another set, the base, chunk by chunk:
 * the mask of the chunk, then its blocks.  The receiver takes the others from its copy of
 * the base and compares their sums with the head when that has come.  It answers which of
 * them do not hold (or that it has no such copy: all), and those are sent, too. */
struct ftk_partial {
    uint16_t *masks;  /* what has changed; of a sender: its caller's */
    uint16_t *wanted; /* what the receiver cannot take from the base */
    /* of a sender and of a receiver: which block is sent next */
    size_t chunk, block;
    bool named; /* the mask of the chunk has been handed to MPI */
    /* of a receiver */
    size_t known;     /* masks that are here */
    const char *base; /* data area of its copy of the base, NULL: it has none */
    size_t base_bytes;
    size_t carried; /* blocks sent or copied from the base */
    uint64_t *sums; /* of those that were copied */
};

/* One direction of one segment.  The data area travels first, piece by piece while it is
 * being packed, the head (with the checksums) last; their sizes go ahead. */
struct ftk_stream {
    bool send;
    int peer;
    int tag;
    int rank; /* whose segment */
    uint64_t set;
    int nranks;
    struct ftk_mem_seg *seg; /* of a receiver: taken when the sizes are known */
    uint64_t sizes[3];       /* head and data bytes; base of a partial stream, else 0 */
    size_t ready;            /* of a sender: bytes of the data area that may go */
    bool sealed;             /* of a sender: the head may go */
    /* progress */
    int phase;     /* enum ftk_stream_phase, the one it is in */
    int error;     /* of a receiver: why it has no buffer; of a sender: why what it
                               has is not to be sent */
    size_t posted; /* bytes of the data area handed to MPI */
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

/* Let a sender send only the blocks in masks (which are right for what is ready) and the
 * receiver take the others from set base.  False: no memory for it, all is sent. */
bool ftk_stream_partial(struct ftk_stream *s, uint64_t base, uint16_t *masks);

/* Exchange the sizes of all streams and take the receivers' buffers from mem.  A rank
 * without memory is no reason to stop the others: its code comes in *local, and everyone
 * must agree before the data are sent.  Returns FTKIT_ERR_PEER when a rank has failed. */
int ftk_stream_sizes(
    struct ftk_chan *ch, struct ftk_mem *mem, struct ftk_stream *s, int n, int *local);

/* One round of the data over all streams; *idle is false when anything moved. */
int ftk_stream_progress(struct ftk_chan *ch, struct ftk_stream *s, int n, bool *idle, bool *done);

/* Until every stream is done; received segments are then sealed when their head is good
 * (the data are the caller's to check), and *local tells of one that is not. */
int ftk_stream_run(struct ftk_chan *ch, struct ftk_stream *s, int n, int *local);

/* Give up after an error: no request is left, buffers of what did not arrive whole are
 * released. */
void ftk_stream_abandon(struct ftk_chan *ch, struct ftk_stream *s, int n);

/* Free what partial streams took; nothing is under way any more. */
void ftk_stream_end(struct ftk_stream *s, int n);

#endif
