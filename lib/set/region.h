/* Regions: the program's registered data.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_REGION_H
#define FTK_REGION_H

#include "core/context.h"

/* When a region is restored: all regions of one value before those of the next value. */
enum ftk_restore_order {
    FTK_RESTORE_DATA,
    FTK_RESTORE_OBJECTS, /* makes the requests and communicators of the set */
    FTK_RESTORE_HANDLES, /* sets variables that hold these */
    FTK_RESTORE_ORDERS
};

/* A system region: a file of the library owns the state, and the set has it like a region of the
 * program.  Such a structure describes one system region, or all those of one function of the API.
 * A comparison reads the bytes in the segment, so a system region needs no checksum of its own. */
struct ftk_system_region {
    const char *name; /* NULL: the program names the regions */
    /* measure, pack and unpack.  Codes of ftkit, with a text.  Not set: the region has data. */
    ftkit_serializer ops;
    enum ftk_restore_order order;
    bool late;     /* line apart: packed at the end of the set, not at the cut */
    bool note;     /* no state: saved, but never restored */
    bool may_lack; /* a set without the region can be restored, too */
    /* Regions that may differ; a comparison leaves them out: */
    bool differs_in_ranks;    /* ... in kind and size, between ranks (shapes.h) */
    bool differs_in_replicas; /* ... in contents, between the replicas of a rank (replicas.h) */
    /* The variables of the program that a restore sets; NULL: none. */
    void (*variables)(const void *arg, const void **at, size_t *bytes);
    /* In place of pack, for large regions: write bytes at..at+bytes.  Pieces come in order, and end
     * early if a set is given up.  NULL: the region is packed whole. */
    int (*pack_piece)(void *arg, char *to, size_t at, size_t bytes);
    /* Free what arg has beside its own memory; NULL: nothing. */
    void (*release)(void *arg);
};

/* Add the system region of that name; its callbacks get NULL. */
int ftk_region_add_system(struct ftkit_ctx *ctx, const struct ftk_system_region *system);
/* Add one that the program has named; ftk_region_check_new() has allowed the name.  The callbacks
 * get arg, which the region frees. */
int ftk_region_add_named(
    struct ftkit_ctx *ctx, const struct ftk_system_region *system, const char *name, void *arg);

/* Add the region of ftkit_step(): an int32_t. */
int ftk_region_add_step(struct ftkit_ctx *ctx, int32_t *fresh);
/* Whether the program calls ftkit_step(). */
bool ftk_region_has_step(struct ftkit_ctx *ctx);

/* Whether a region of this name may be added. */
int ftk_region_check_new(struct ftkit_ctx *ctx, const char *call, const char *name);
/* Whether ftkit may access variables of the program itself, which this region is about. */
int ftk_region_check_variables(const char *call, const char *name, const void *variables);

struct ftk_region *ftk_region_find(struct ftkit_ctx *ctx, const char *name);
void ftk_region_free_all(struct ftkit_ctx *ctx);

/* Before a set and before a restore: note of what kind the memory of a region is, and wait until no
 * work of the program uses it (on a device).  FTKIT_ERR_ARG: the kind of a region with a fixed
 * address has changed.  FTKIT_ERR_STATE: the program does not let anybody wait now. */
int ftk_region_look_again(struct ftk_region *r);

/* The items that a region has now, and where they are. */
size_t ftk_region_count(const struct ftk_region *r);
void *ftk_region_data(const struct ftk_region *r);

/* Growing regions.  The functions of box say where the items are.  For two variables of the program
 * the functions are those of the library, and box.resize may be NULL. */
int ftk_region_use_variables(
    struct ftk_region *r, void **data, size_t *count, ftkit_resize_fn *resize, void *arg);
/* Let the region have room for count items. */
int ftk_region_resize(struct ftk_region *r, size_t count);
/* The variables of the program that describe a growing region; NULL: its object is not known. */
struct ftk_region_variables {
    void **data;
    size_t *count;
    ftkit_resize_fn *resize; /* NULL: realloc() */
    void *arg;
};
const struct ftk_region_variables *ftk_region_variables(const struct ftk_region *r);

/* The memory that a region has now: *first, and *end behind its last byte.  false: none. */
bool ftk_region_memory(const struct ftk_region *r, uintptr_t *first, uintptr_t *end);
/* The region that contains all bytes from first to end; NULL: none does. */
const struct ftk_region *ftk_region_around(
    const struct ftkit_ctx *ctx, uintptr_t first, uintptr_t end);
/* For messages: which region is nearest to this memory. */
void ftk_region_describe_near(
    const struct ftkit_ctx *ctx, uintptr_t first, uintptr_t end, char *text, size_t room);

/* FTKIT_ERR_SIZE: count items of the type do not fit into the address space. */
int ftk_region_check_extent(const struct ftk_type *t, size_t count, const char *name);

static inline bool ftk_region_is_note(const struct ftk_region *r)
{
    return r->system && r->system->note;
}
static inline bool ftk_region_is_late(const struct ftk_region *r)
{
    return r->system && r->system->late;
}
static inline bool ftk_region_has_pieces(const struct ftk_region *r)
{
    return r->system && r->system->pack_piece;
}
static inline bool ftk_region_may_lack(const struct ftk_region *r)
{
    return r->system && r->system->may_lack;
}
/* The error of a callback of a region. */
static inline int ftk_region_failed(const struct ftk_region *r, const char *callback, int result)
{
    return r->system ? result
                     : ftk_fail(FTKIT_ERR_CALLBACK, "%s() of '%s' failed", callback, r->name);
}

#endif
