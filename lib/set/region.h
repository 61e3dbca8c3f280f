/* Regions: the program's registered data.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_REGION_H
#define FTK_REGION_H

#include <string.h>

#include "core/context.h"
#include "core/log_ops.h"
#include "store/attribute.h"

/* Name of the region of ftkit_step(). */
#define FTK_STEP_REGION "ftkit.step"

/* Add a region of ftkit's own.  A set without this region can be restored, too. */
int ftk_region_add_log(struct ftkit_ctx *ctx, const char *name, const ftkit_serializer *ops);

/* Add the region of ftkit_step(): an int32_t.  A set without this region can be restored, too. */
int ftk_region_add_step(struct ftkit_ctx *ctx, int32_t *fresh);

/* Add a region of ftkit_register_comm() or the like (handles.h).  The region owns h. */
int ftk_region_add_handles(struct ftkit_ctx *ctx, const char *call, const char *name,
    const ftkit_serializer *ops, struct ftk_handles *h);

/* Add a region of ftkit_register_offset() (output.h), which owns output. */
int ftk_region_add_output(
    struct ftkit_ctx *ctx, const char *name, const ftkit_serializer *ops, void *output);
/* Whether a region of this name may be added. */
int ftk_region_check_new(struct ftkit_ctx *ctx, const char *call, const char *name);

struct ftk_region *ftk_region_find(struct ftkit_ctx *ctx, const char *name);
void ftk_region_free_all(struct ftkit_ctx *ctx);

/* Note of what kind the memory of a region is.  FTKIT_ERR_ARG: the kind of a region with a fixed
 * address has changed. */
int ftk_region_look_again(struct ftk_region *r);

/* Return the number of items that a region has now. */
size_t ftk_region_count(const struct ftk_region *r);

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

/* Whether a region is no state of the program: it is saved, but never restored. */
static inline bool ftk_region_is_note(const struct ftk_region *r)
{
    return strcmp(r->name, FTK_ATTRIBUTES) == 0;
}
/* Whether a region is the state of the log. */
static inline bool ftk_region_is_own(const struct ftk_region *r)
{
    return strcmp(r->name, FTK_LOG_REGION) == 0;
}
/* Whether a set may lack the region. */
static inline bool ftk_region_may_lack(const struct ftk_region *r)
{
    return ftk_region_is_own(r) || strcmp(r->name, FTK_STEP_REGION) == 0;
}
/* The error of a callback of a region.  Callbacks of ftkit return codes of ftkit, with a text. */
static inline int ftk_region_failed(const struct ftk_region *r, const char *callback, int result)
{
    return ftk_region_is_own(r) || r->handles || r->output
               ? result
               : ftk_fail(FTKIT_ERR_CALLBACK, "%s() of '%s' failed", callback, r->name);
}

#endif
