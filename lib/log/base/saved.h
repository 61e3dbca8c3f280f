/* What the program has under way, as words of a set: the parts that requests and collectives share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An address is a place in a region: the number of the region in a list of names, and an offset.
 * So the address is right in another process, too.  A datatype is a reference (typemap.h).
 *
 * Functions return codes of ftkit. */
#ifndef FTK_LOG_SAVED_H
#define FTK_LOG_SAVED_H

#include "log/base/typemap.h"

struct ftk_region;

/* ---- a request: these words, and then those of its kind (req_ops.h) --------------------- */

enum {
    FTK_HEAD_NUMBER,
    FTK_HEAD_FLAGS,
    FTK_HEAD_CONTEXT,
    FTK_HEAD_PEER,
    FTK_HEAD_TAG,
    FTK_HEAD_COUNT,
    FTK_HEAD_TYPE,
    FTK_HEAD_PLACE, /* two words */
    FTK_HEAD_ID = FTK_HEAD_PLACE + 2,
    FTK_HEAD_ERROR,
    FTK_HEAD_SOURCE, /* of the status, if it is complete; likewise the following two */
    FTK_HEAD_STATUS_TAG,
    FTK_HEAD_BYTES,
    FTK_HEAD_WORDS
};
/* Bits of FTK_HEAD_FLAGS.  The two lowest bits, and those from bit 16 on, are the kind. */
enum {
    FTK_SAVED_SYNC = 4,
    FTK_SAVED_BUFFERED = 8,
    FTK_SAVED_DONE = 16, /* complete; neither this nor OPEN: persistent, and not started */
    FTK_SAVED_OPEN = 32, /* under way */
    FTK_SAVED_PERSISTENT = 64,
    FTK_SAVED_FREED = 128, /* the program has freed it while it was under way */
    FTK_SAVED_CANCELLED = 256,
    FTK_SAVED_SHARED = 512, /* a send that is over: all of them on a communicator share a request */
    FTK_SAVED_BARE = 1024   /* persistent, of set-up: it cannot be made again */
};
#define FTK_NO_TYPE UINT64_MAX

static inline uint64_t ftk_saved_kind_bits(unsigned kind)
{
    return (kind & 3) | (uint64_t)(kind >> 2) << 16;
}
static inline uint64_t ftk_saved_kind(const uint64_t *head)
{
    return (head[FTK_HEAD_FLAGS] & 3) | (head[FTK_HEAD_FLAGS] >> 16) << 2;
}
/* Whether a word is a number between two bounds. */
static inline bool ftk_saved_is_in(uint64_t word, int64_t least, int64_t most)
{
    return (int64_t)word >= least && (int64_t)word <= most;
}

/* ---- memory -------------------------------------------------------------------------- */

/* A place: two words. */
enum { FTK_PLACE_WORDS = 2 };
#define FTK_NO_PLACE UINT64_MAX /* first word: no byte is used */
#define FTK_FAR (INT64_MAX / 8) /* the largest offset that is believed */

/* Why a set cannot have memory in a region. */
#define FTK_REGION_HAS_HOLES                                                                       \
    "whose datatype has holes: a set has only what the datatype names (register all of the memory)"
#define FTK_REGION_IS_REPLICATED                                                                   \
    "which is replicated: the other ranks may have the data already (complete it before "          \
    "ftkit_checkpoint())"

/* What is being written. */
struct ftk_saving {
    const struct ftkit_ctx *ctx;
    const struct ftk_region **region; /* [nregions] with memory of requests */
    size_t nregions, room;
    struct ftk_typemap types;
    struct ftk_words w; /* the requests */
};

/* The bytes that count items of a type take, from the address of the first one: [*low, *end).  Both
 * are 0 when there are none.  MPI codes. */
int ftk_saved_span(size_t count, MPI_Datatype type, ptrdiff_t *low, ptrdiff_t *end);
/* Write where p is, of which the bytes [low, end) are used, to place [FTK_PLACE_WORDS].  *found:
 * one region contains these bytes. */
int ftk_saving_place(struct ftk_saving *s, const void *p, ptrdiff_t low, ptrdiff_t end,
    uint64_t *place, bool *found);
/* The list of regions and the list of types, which precede the requests: append them to out. */
int ftk_saving_heads(const struct ftk_saving *s, struct ftk_words *out);
void ftk_saving_free(struct ftk_saving *s);

/* What is being read.  Nothing is trusted. */
struct ftk_loading {
    const struct ftkit_ctx *ctx;
    const uint64_t *w, *end;
    const struct ftk_region **region; /* [nregions] */
    size_t nregions;
    struct ftk_types types;
};

/* Read the two lists at l->w.  FTKIT_ERR_NOT_FOUND: a region is not registered. */
int ftk_loading_heads(struct ftk_loading *l);
/* The next n words; NULL: there are not so many. */
const uint64_t *ftk_loading_take(struct ftk_loading *l, uint64_t n);
/* FTKIT_ERR_FORMAT, with a text. */
int ftk_loading_damaged(void);
/* The address of a place, of which the bytes [low, end) will be used.  FTKIT_ERR_SIZE: the region
 * is smaller now. */
int ftk_loading_address(
    const struct ftk_loading *l, const uint64_t *place, ptrdiff_t low, ptrdiff_t end, void **p);
void ftk_loading_free(struct ftk_loading *l, int (*release)(MPI_Datatype *type));

#endif
