/* The memory that regions have, and which region has a piece of memory (see region.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/memory_kind.h"
#include "region.h"

/* ---- growing regions ----------------------------------------------------------------- */

static void *data_of_variables(void *arg)
{
    const struct ftk_region_variables *v = arg;
    return *v->data;
}

static size_t count_of_variables(void *arg)
{
    const struct ftk_region_variables *v = arg;
    return *v->count;
}

int ftk_region_check_variables(const char *call, const char *name, const void *variables)
{
    if (!ftk_memory_is_hidden(variables))
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_ARG,
        "%s: region '%s': the variables at %p are in memory of a device: they have to be in memory "
        "that this process can access",
        call, name, variables);
}

int ftk_region_use_variables(
    struct ftk_region *r, void **data, size_t *count, ftkit_resize_fn *resize, void *arg)
{
    struct ftk_region_variables *v = malloc(sizeof *v);
    if (!v)
        return ftk_fail(FTKIT_ERR_NOMEM, "region '%s'", r->name);
    *v = (struct ftk_region_variables){ data, count, resize, arg };
    r->box = (ftkit_container){
        .size = sizeof r->box, .data = data_of_variables, .count = count_of_variables
    };
    r->arg = r->owned = v;
    return FTKIT_OK;
}

const struct ftk_region_variables *ftk_region_variables(const struct ftk_region *r)
{
    return r->box.data == data_of_variables ? r->arg : NULL;
}

/* Whether the library has to allocate, and cannot. */
static bool lacks_alloc(const struct ftk_region *r)
{
    const struct ftk_region_variables *v = ftk_region_variables(r);
    return v && !v->resize && !ftk_memory_has_alloc(r->memory);
}

static int resize_variables(const struct ftk_region *r, size_t count)
{
    const struct ftk_region_variables *v = r->arg;
    if (v->resize) {
        if (v->resize(v->data, count, v->arg) != 0)
            return -1;
    } else {
        const size_t bytes = ftk_type_room(&r->type, count);
        void *p = ftk_memory_alloc(r->memory, *v->data, bytes ? bytes : 1);
        if (!p)
            return -1;
        *v->data = p;
    }
    *v->count = count;
    return 0;
}

int ftk_region_resize(struct ftk_region *r, size_t count)
{
    int rc = ftk_region_look_again(r);
    if (rc != FTKIT_OK || (ftk_region_count(r) == count && (count == 0 || ftk_region_data(r))))
        return rc;
    if (lacks_alloc(r))
        return ftk_fail(FTKIT_ERR_ARG,
            "region '%s' has %zu items and is to have %zu: for %s memory ftkit_register_growing() "
            "needs a function resize",
            r->name, ftk_region_count(r), count, ftk_memory_name(r->memory));
    if ((r->box.resize ? r->box.resize(r->arg, count) : resize_variables(r, count)) != 0)
        return ftk_fail(FTKIT_ERR_CALLBACK, "region '%s': no memory for %zu items", r->name, count);
    if (ftk_region_count(r) != count)
        return ftk_fail(FTKIT_ERR_CALLBACK, "region '%s': resize() for %zu items left %zu", r->name,
            count, ftk_region_count(r));
    if (count > 0 && !ftk_region_data(r))
        return ftk_fail(FTKIT_ERR_CALLBACK, "region '%s': resize() has left no data", r->name);
    return ftk_region_look_again(r);
}

/* ---- all regions --------------------------------------------------------------------- */

/* The first and the last byte of the region have to be memory of the same kind. */
static int compare_ends(const struct ftk_region *r)
{
    uintptr_t first, end;
    if (!ftk_memory_has_others() || !ftk_region_memory(r, &first, &end) || end <= first)
        return FTKIT_OK;
    const enum ftk_memory_kind begin = ftk_memory_kind_of((const void *)first);
    const enum ftk_memory_kind last = ftk_memory_kind_of((const void *)(end - 1));
    if (begin == last)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_ARG,
        "region '%s': its first byte is %s memory and its last one, %zu bytes behind, is %s memory",
        r->name, ftk_memory_name(begin), (size_t)(end - 1 - first), ftk_memory_name(last));
}

/* The memory that a fixed address names is of the kind that it had when it was registered. */
static int compare_kinds(const struct ftk_region *r, enum ftk_memory_kind now)
{
    if (!r->data || now == r->memory)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_ARG,
        "region '%s': its address was %s memory when it was registered, and is %s memory now: the "
        "memory was freed (ftkit_resize() and ftkit_register_array() name other memory)",
        r->name, ftk_memory_name(r->memory), ftk_memory_name(now));
}

int ftk_region_look_again(struct ftk_region *r)
{
    if (r->kind == FTK_KIND_GROWING) /* the program may have put it into memory of another kind */
        r->memory = ftk_memory_look(ftk_region_data(r));
    int rc = r->kind == FTK_KIND_GROWING ? FTKIT_OK : compare_kinds(r, ftk_memory_kind_of(r->data));
    if (rc == FTKIT_OK)
        rc = compare_ends(r);
    if (rc == FTKIT_OK && ftk_region_count(r) > 0)
        rc = ftk_memory_wait(r->memory, ftk_region_data(r), r->stream);
    return rc;
}

size_t ftk_region_count(const struct ftk_region *r)
{
    return r->kind == FTK_KIND_GROWING ? r->box.count(r->arg) : r->count;
}

void *ftk_region_data(const struct ftk_region *r)
{
    return r->kind == FTK_KIND_GROWING ? r->box.data(r->arg) : r->data;
}

bool ftk_region_memory(const struct ftk_region *r, uintptr_t *first, uintptr_t *end)
{
    const size_t n = r->kind == FTK_KIND_SERIALIZED ? 0 : ftk_region_count(r);
    const uintptr_t base = (uintptr_t)ftk_region_data(r);
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
