/* The memory that regions have, and which region has a piece of memory (see region.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdint.h>
#include <stdio.h>

#include "core/memory_kind.h"
#include "region.h"

int ftk_region_look_again(struct ftk_region *r)
{
    if (r->kind == FTK_KIND_GROWING) {
        r->memory = ftk_memory_kind_of(*r->data_ref);
        return FTKIT_OK;
    }
    enum ftk_memory_kind now = ftk_memory_kind_of(r->data);
    if (!r->data || now == r->memory)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_ARG,
        "region '%s': its address was %s memory when it was registered, and is %s memory now: the "
        "memory was freed (ftkit_resize() and ftkit_register_array() name other memory)",
        r->name, ftk_memory_name(r->memory), ftk_memory_name(now));
}

size_t ftk_region_count(const struct ftk_region *r)
{
    return r->kind == FTK_KIND_GROWING ? *r->count_ref : r->count;
}

bool ftk_region_memory(const struct ftk_region *r, uintptr_t *first, uintptr_t *end)
{
    const size_t n = r->kind == FTK_KIND_SERIALIZED ? 0 : ftk_region_count(r);
    const uintptr_t base = (uintptr_t)(r->kind == FTK_KIND_GROWING ? *r->data_ref : r->data);
    if (n == 0 || ftk_region_is_note(r))
        return false;
    const ptrdiff_t rest = (ptrdiff_t)(n - 1) * r->type.extent;
    *first = base + (uintptr_t)(r->type.span_lb + (rest < 0 ? rest : 0));
    *end = base + (uintptr_t)(r->type.span_end + (rest > 0 ? rest : 0));
    return true;
}

const struct ftk_region *ftk_region_around(
    const struct ftkit_ctx *ctx, uintptr_t first, uintptr_t end)
{
    uintptr_t from, to;
    for (int i = 0; i < ctx->regions.n; i++)
        if (ftk_region_memory(&ctx->regions.list[i], &from, &to) && from <= first && end <= to)
            return &ctx->regions.list[i];
    return NULL;
}

/* How far the memory from..to is from first..end; 0: they overlap. */
static uintptr_t distance(uintptr_t from, uintptr_t to, uintptr_t first, uintptr_t end)
{
    if (from >= end)
        return from - end;
    return first >= to ? first - to : 0;
}

void ftk_region_describe_near(
    const struct ftkit_ctx *ctx, uintptr_t first, uintptr_t end, char *text, size_t room)
{
    const struct ftk_region *near = NULL;
    uintptr_t from = 0, least = UINTPTR_MAX;
    for (int i = 0; i < ctx->regions.n; i++) {
        uintptr_t a, b;
        const struct ftk_region *r = &ctx->regions.list[i];
        if (!ftk_region_memory(r, &a, &b) || distance(a, b, first, end) >= least)
            continue;
        near = r;
        from = a;
        least = distance(a, b, first, end);
    }
    if (!near)
        snprintf(text, room, "no region has memory of the program");
    else if (least == 0)
        snprintf(text, room, "region '%s' has only a part of this memory", near->name);
    else
        snprintf(text, room, "the nearest region, '%s', %s %zu bytes %s", near->name,
            from >= end ? "begins" : "ends", (size_t)least,
            from >= end ? "behind it" : "before it");
}
