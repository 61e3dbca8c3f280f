/* The memory levels: every set goes to level.memory; some sets go to level.local, too.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LEVEL_H
#define FTK_LEVEL_H

#include "scheme.h"
#include "store/memory.h"
#include "store/parity.h"

struct ftkit_ctx;

enum { FTK_LEVEL_MEMORY, FTK_LEVEL_LOCAL, FTK_LEVELS };

/* Where copies and parities are in the present epoch. */
struct ftk_layout {
    int *holder;                /* [copies][nranks] see struct ftk_scheme_ops */
    struct ftk_group group;     /* parity group of this rank, without lengths; n 0: none */
    int alone;                  /* number of ranks that are alone in their group */
    struct ftk_stream *streams; /* working space for one stream per copy sent or received */
};

struct ftk_level {
    const char *name; /* the section of the configuration */
    int number;       /* of the level, from 1; part of the names of its slots */
    int tag;          /* of the streams of its sets */
    bool on;          /* the level keeps sets */
    const struct ftk_scheme *scheme;
    int map, group, parity; /* as configured */
    int place;              /* as configured; mem.place is opened later */
    const char *dir;
    struct ftk_mem mem;
    bool reported; /* that the place has no room */
    struct ftk_layout layout;
    /* of level.local */
    uint64_t sets_since; /* sets since the last attempt to write one there */
    uint64_t epoch_id;   /* epoch of that attempt */
    double last_s;       /* time of that attempt */
};

/* Take the levels from the configuration of the context. */
void ftk_level_configure(struct ftkit_ctx *ctx);

/* Make the layout of a rank (-1: a spare, whose layout is empty).  domain [nranks]: the failure
 * domain of each rank.  FTKIT_ERR_NOMEM. */
int ftk_layout_make(
    const struct ftk_level *l, int rank, int nranks, const int *domain, struct ftk_layout *to);
void ftk_layout_free(struct ftk_layout *a);
/* The level gets this layout, instead of the one that it had. */
void ftk_level_take_layout(struct ftk_level *l, const struct ftk_layout *of);

/* A set is committed at this level: drop the other sets and, once in an epoch, remove the slots
 * that ended processes have left. */
void ftk_level_committed(struct ftk_level *l, uint64_t set, uint64_t epoch_id);

/* Whether this rank has a buffer that had no room in the place of the level, and no rank has
 * reported that (a replacement does not know).  And: the lowest such rank (INT64_MAX: none)
 * reports; all ranks call the function. */
bool ftk_level_lacks(const struct ftk_level *l, const struct ftkit_ctx *ctx);
void ftk_level_share_lack(struct ftk_level *l, const struct ftkit_ctx *ctx, int64_t rank);

/* The event "set": the newest set is committed at this level. */
void ftk_level_event(const struct ftk_level *l, const struct ftkit_ctx *ctx, size_t bytes,
    double seconds, uint64_t sent);

/* Free everything; keep: sealed segments stay in their slots. */
void ftk_level_close(struct ftk_level *l, bool keep);

#endif
