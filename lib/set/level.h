/* A memory level: level.memory, which every set goes to, or level.local, which some sets go to.
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
    int number;       /* of the place, from 1 */
    int tag;          /* of the streams of its sets */
    bool on;          /* sets stay there */
    const struct ftk_scheme *scheme;
    int map, group, parity; /* as configured */
    int place;              /* as configured; mem.place is opened later */
    const char *dir;
    struct ftk_mem mem;
    struct ftk_layout layout;
    /* of level.local */
    uint64_t sets_since; /* sets since the last one there */
    uint64_t epoch_id;   /* of the last set there */
    double last_s;       /* when that was */
};

/* Take the levels from the configuration of the context. */
void ftk_level_configure(struct ftkit_ctx *ctx);

/* The layout for this rank (-1: a spare, which has none) of nranks, whose failure domains are
 * domain [nranks].  FTKIT_ERR_NOMEM. */
int ftk_layout_make(
    const struct ftk_level *l, int rank, int nranks, const int *domain, struct ftk_layout *to);
void ftk_layout_free(struct ftk_layout *a);

/* The set is committed: drop the other sets, and once in an epoch the slots that ended processes
 * have left. */
void ftk_level_committed(struct ftk_level *l, uint64_t set, uint64_t epoch_id);

/* Give up all; keep: sealed segments stay in their slots. */
void ftk_level_close(struct ftk_level *l, bool keep);

#endif
