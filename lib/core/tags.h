/* Tags of ftkit's own messages on the communicators of an epoch: one line each.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_TAGS_H
#define FTK_TAGS_H

#define FTK_STREAM_BACK 4 /* a receiver answers with the tag of its stream plus this */

#define FTK_TAG_LIST(X)                                                                            \
    X(MEMORY, 1)  /* copies of level.memory */                                                     \
    X(PIECE, 2)   /* redistribution */                                                             \
    X(LOCAL, 3)   /* copies of level.local */                                                      \
    X(COLLECT, 4) /* segments to the writer of a group: never partial, so without an answer */     \
    X(MEMORY_BACK, FTK_TAG_MEMORY + FTK_STREAM_BACK)                                               \
    X(LOCAL_BACK, FTK_TAG_LOCAL + FTK_STREAM_BACK)                                                 \
    X(SIZES, 8)      /* of the segments of a parity group */                                       \
    X(GROUP, 9)      /* facts of a group that is rebuilt */                                        \
    X(CHANGES, 10)   /* of the segments of a parity group */                                       \
    X(WATCH, 11)     /* never sent: a receive that ends when a rank fails */                       \
    X(MATRIX, 12)    /* rows of the communication matrix */                                        \
    X(ROOM, 13)      /* on ctl, from rank 0 to spares: the sizes of segments */                    \
    X(TALLY, 14)     /* messages of tallies */                                                     \
    X(COUNTS, 15)    /* line apart: numbers of messages at a cut */                                \
    X(EARLY, 16)     /* line apart: numbers of early messages */                                   \
    X(SPHERE, 17)    /* comparing the replicas of a rank */                                        \
    X(ROUND, 18)     /* numbers for a few ranks, in even rounds */                                 \
    X(ROUND_ODD, 19) /* ... in odd ones */                                                         \
    X(TRANSFER, 32)  /* the first of a range: one per stream of a repair, up to FTK_TAG_CODING */

enum ftk_tag {
#define TAG(name, value) FTK_TAG_##name = (value),
    FTK_TAG_LIST(TAG)
#undef TAG
        FTK_TAG_CODING = 1 << 24 /* the first of a range: one per block of a stripe */
};

/* No two tags are the same (that would be two equal cases), and all are below the ranges. */
static inline void ftk_tags_differ(enum ftk_tag tag)
{
#define CASE(name, value) case FTK_TAG_##name:
    switch (tag) {
        FTK_TAG_LIST(CASE)
    case FTK_TAG_CODING:
        break;
    }
#undef CASE
}
#define BELOW(name, value) _Static_assert((value) <= FTK_TAG_TRANSFER, "tags of messages collide");
FTK_TAG_LIST(BELOW)
#undef BELOW

#endif
