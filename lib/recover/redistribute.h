/* Redistribution: the line goes to another number of ranks (see redistribute.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_REDISTRIBUTE_H
#define FTK_REDISTRIBUTE_H

#include <stdlib.h>

#include "detect/detect.h"
#include "set/region.h"

/* Distribute the line, which ctx->repair.line_nranks ranks wrote, over the regions of the present
 * ranks.  Collective over act. */
int ftk_redistribute(struct ftkit_ctx *ctx);

/* ---- for its files -------------------------------------------------------------------- */

#define FTK_PIECE_BYTES ((size_t)1 << 20) /* most bytes of a message with cells of an array */
enum { FTK_WINDOW = 4 };                  /* pieces in flight, each way */

/* A box of cells of a global array. */
struct ftk_box {
    size_t start[FTKIT_DIMS_MAX];
    size_t len[FTKIT_DIMS_MAX];
};

struct ftk_array {
    const struct ftk_region *region;
    int ndims;
    size_t at;  /* index of the array's words in a block */
    size_t got; /* cells that are written to the region */
};

/* The pieces that this rank sends, or receives, in the order (array, old block, new block, cells).
 * All ranks keep this order.  So the first of all pieces that are not received is in the windows of
 * both its sender and its receiver, and there is no deadlock. */
struct ftk_flow {
    bool send;
    bool done;
    int array, q, r; /* the present array, old block and new block */
    struct ftk_box box;
    size_t cells; /* of the box */
    size_t next;  /* the first cell of the box that is not posted */
    struct ftk_piece {
        struct ftk_box box;
        size_t first;
        size_t cells;
        int array;
        char *buf;
    } piece[FTK_WINDOW];
    MPI_Request req[FTK_WINDOW];
    int first;
    int npending;
};

enum {
    FTK_OWN_RECORDS,
    FTK_OWN_ARRAYS,
    FTK_OWN_TABLE,
    FTK_OWN_COUNTS,
    FTK_OWN_AT_OLD,
    FTK_OWN_PIECES,
    FTK_OWN_SHARE,
    FTK_OWN_MAX
};

/* Memory of one redistribution.  The rest of operations that ended with an error may still write
 * into the memory: after a failure it is kept until a later redistribution has succeeded. */
struct ftk_redist_memory {
    struct ftk_redist_memory *next;
    const struct ftkit_ctx *ctx;
    void *own[FTK_OWN_MAX];
};

struct ftk_redist {
    struct ftkit_ctx *ctx;
    struct ftk_chan ch;
    struct ftk_redist_memory *mem;
    const int *source; /* [nold] rank that has the segment of each old rank */
    int nold;
    int nrecs;
    struct ftk_seg_region *recs; /* [nrecs] of old rank 0: the order of all regions */
    int narrays;
    struct ftk_array *arrays; /* [narrays] */
    size_t words; /* of the blocks of one rank in all arrays: start and length of each */
    char *share;  /* [share_bytes] for broadcasts */
    size_t share_bytes;
    uint64_t *table; /* for each rank its new blocks, then the old blocks that it has */
    int *counts;     /* [nranks] words of each rank in the table */
    int *displs;     /* [nranks] first word of each rank in the table */
    int *hits;       /* [nranks or nold], working space */
    size_t *at_old;  /* [nold] first word of each old rank in the table */
    struct ftk_flow flows[2];
    uint64_t replicated; /* checksum of what was broadcast */
    int copy_error;      /* the first error of a copy between a region and a piece */
};

/* Memory of the redistribution; NULL: none. */
static inline void *ftk_redist_take(struct ftk_redist *d, int what, size_t n, size_t bytes)
{
    d->mem->own[what] = calloc(n > 0 ? n : 1, bytes);
    return d->mem->own[what];
}

/* The segment of old rank q, which this rank has. */
static inline const struct ftk_mem_seg *ftk_redist_segment(const struct ftk_redist *d, int q)
{
    return ftk_mem_find(&d->ctx->level[FTK_LEVEL_MEMORY].mem, d->ctx->repair.line, q);
}

/* ---- redistribute_blocks.c: which cells each rank has and had ------------------------------ */

/* List the arrays of the records, and the size of the broadcasts. */
void ftk_redist_list_arrays(struct ftk_redist *d);
/* Lay out the table: for each rank its new blocks, then the old blocks that it has, by old rank. */
int ftk_redist_lay_out(struct ftk_redist *d);
/* Collective: the blocks of all ranks come into the table. */
int ftk_redist_share_blocks(struct ftk_redist *d);
/* Check that each cell of this rank's blocks, new and old, is in one block of the others only. */
int ftk_redist_check_blocks(const struct ftk_redist *d);
/* The old or new block of rank k. */
struct ftk_box ftk_redist_block(const struct ftk_redist *d, int array, bool old, int k);
size_t ftk_box_volume(int ndims, const struct ftk_box *b);
/* Set *out to the intersection of two boxes, and return its number of cells. */
size_t ftk_box_intersect(
    int ndims, const struct ftk_box *a, const struct ftk_box *b, struct ftk_box *out);

/* ---- redistribute_arrays.c --------------------------------------------------------------- */

/* Collective: write the arrays of the old ranks into the regions of this rank, piece by piece. */
int ftk_redist_write_arrays(struct ftk_redist *d);

#endif
