/* Registration of regions (see region.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "core/binding.h"
#include "core/grow.h"
#include "core/memory_kind.h"
#include "core/utf8.h"
#include "region.h"
#include "store/attribute.h"

/* ---- registration -------------------------------------------------------------------- */

struct ftk_region *ftk_region_find(struct ftkit_ctx *ctx, const char *name)
{
    for (int i = 0; i < ctx->regions.n; i++)
        if (strcmp(ctx->regions.list[i].name, name) == 0)
            return &ctx->regions.list[i];
    return NULL;
}

/* Copy a name for messages; '?' replaces each byte that is not printable ASCII. */
static const char *shown(const char *name, char buf[FTKIT_NAME_MAX + 1])
{
    size_t n = 0;
    for (; n < FTKIT_NAME_MAX && name[n]; n++)
        buf[n] = (char)(name[n] >= ' ' && name[n] <= '~' ? name[n] : '?');
    buf[n] = '\0';
    return buf;
}

static int check_name(const char *call, const char *name)
{
    char buf[FTKIT_NAME_MAX + 1];
    if (!name)
        return ftk_fail(FTKIT_ERR_ARG, "%s: the name is NULL", call);
    size_t n = strnlen(name, FTKIT_NAME_MAX + 1);
    if (n == 0 || n > FTKIT_NAME_MAX)
        return ftk_fail(FTKIT_ERR_NAME, "%s: a name has 1 to %d bytes, '%s' has %zu%s", call,
            FTKIT_NAME_MAX, shown(name, buf), n, n > FTKIT_NAME_MAX ? " or more" : "");
    for (const char *p = name; *p; p++)
        if (*p < ' ' || *p > '~' || *p == '/')
            return ftk_fail(FTKIT_ERR_NAME,
                "%s: name '%s': byte 0x%02x is not printable ASCII or is '/'", call,
                shown(name, buf), (unsigned)(unsigned char)*p);
    if (strcmp(name, FTK_ATTRIBUTES) == 0)
        return ftk_fail(FTKIT_ERR_NAME, "%s: the name '%s' is reserved", call, name);
    return FTKIT_OK;
}

/* Describe the datatype of a region. */
static int make_type(const char *name, MPI_Datatype type, struct ftk_type *out)
{
    int rc = ftk_type_make(type, out);
    if (rc != FTKIT_OK)
        rc = ftk_fail(rc, "region '%s': %s", name, ftk_detail_text());
    return rc;
}

static void region_free(struct ftk_region *r)
{
    ftk_type_free(&r->type);
    if (r->system && r->system->release)
        r->system->release(r->arg);
    free(r->owned);
}

/* Take a region out of the list.  Late regions stand behind it. */
static void drop_region(struct ftkit_ctx *ctx, struct ftk_region *r)
{
    region_free(r);
    ctx->regions.n--;
    ctx->regions.compared = false;
    memmove(r, r + 1, (size_t)(&ctx->regions.list[ctx->regions.n] - r) * sizeof *r);
}

/* Add a region; its fields are zero, except for name, kind, type and system.  Late regions stay
 * behind all others. */
static int add_region(struct ftkit_ctx *ctx, const struct ftk_system_region *system,
    const char *name, uint32_t kind, MPI_Datatype type, struct ftk_region **out)
{
    if (!ftk_grow_by_one(&ctx->regions.list, (size_t)ctx->regions.n, sizeof *ctx->regions.list))
        return ftk_fail(FTKIT_ERR_NOMEM, "list of regions");
    struct ftk_region new = { .kind = kind, .system = system };
    int rc = make_type(name, type, &new.type);
    if (rc != FTKIT_OK)
        return rc;
    memcpy(new.name, name, strlen(name) + 1);
    struct ftk_region *r = &ctx->regions.list[ctx->regions.n++];
    for (; r > ctx->regions.list && !ftk_region_is_late(&new) && ftk_region_is_late(r - 1); r--)
        *r = r[-1];
    *r = new;
    *out = r;
    ctx->regions.compared = false;
    return FTKIT_OK;
}

/* If ranks may roll back within the job, the regions stay as they are at ftkit_recover(): an
 * earlier set would not fit changed regions, and a replacement would not know of the change. */
static bool is_fixed(const struct ftkit_ctx *ctx)
{
    return ctx->mode != FTKIT_MODE_RESTART && ctx->where >= FTK_IN_LOOP;
}

static int check_addition(const struct ftkit_ctx *ctx, const char *call, const char *name)
{
    if (!is_fixed(ctx))
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_STATE,
        "%s: region '%s' comes after ftkit_recover(): the ranks may still roll back to a set "
        "without it",
        call, name);
}

int ftk_region_check_new(struct ftkit_ctx *ctx, const char *call, const char *name)
{
    int rc = ftk_check_ctx(ctx, call);
    if (rc == FTKIT_OK)
        rc = check_name(call, name);
    if (rc == FTKIT_OK && ftk_region_find(ctx, name))
        rc = ftk_fail(FTKIT_ERR_EXISTS,
            "%s: region '%s' is already registered (ftkit_resize() changes its memory)", call,
            name);
    if (rc == FTKIT_OK)
        rc = check_addition(ctx, call, name);
    return rc;
}

int ftk_region_check_extent(const struct ftk_type *t, size_t count, const char *name)
{
    size_t total;
    if (__builtin_mul_overflow(count, t->item_bytes, &total) || total > SIZE_MAX / 4)
        return ftk_fail(
            FTKIT_ERR_SIZE, "region '%s': %zu items of %zu bytes", name, count, t->item_bytes);
    return FTKIT_OK;
}

static void place_at(struct ftk_region *r, void *data)
{
    r->data = data;
    r->memory = ftk_memory_look(data);
}

static int register_flat(struct ftkit_ctx *ctx, const char *call, uint32_t kind, const char *name,
    void *data, size_t count, MPI_Datatype type)
{
    struct ftk_region *r = NULL;
    int rc = ftk_region_check_new(ctx, call, name);
    if (rc == FTKIT_OK && !data && count > 0)
        rc = ftk_fail(FTKIT_ERR_ARG, "region '%s': data is NULL", name);
    if (rc == FTKIT_OK)
        rc = add_region(ctx, NULL, name, kind, type, &r);
    if (rc == FTKIT_OK) {
        rc = ftk_region_check_extent(&r->type, count, name);
        if (rc != FTKIT_OK) {
            drop_region(ctx, r);
        } else {
            place_at(r, data);
            r->count = count;
        }
    }
    return ftk_done(ctx, rc);
}

int ftkit_register(ftkit_ctx *ctx, const char *name, void *data, size_t count, MPI_Datatype type)
{
    return register_flat(ctx, "ftkit_register", FTK_KIND_FLAT, name, data, count, type);
}

int ftkit_register_replicated(
    ftkit_ctx *ctx, const char *name, void *data, size_t count, MPI_Datatype type)
{
    return register_flat(
        ctx, "ftkit_register_replicated", FTK_KIND_REPLICATED, name, data, count, type);
}

/* Check a block against its array; *items: the items of the block in memory, halo included. */
static int check_block(const char *name, int ndims, const size_t *global, const size_t *local,
    const size_t *offset, const size_t *halo, size_t *items)
{
    if (ndims < 1 || ndims > FTKIT_DIMS_MAX)
        return ftk_fail(FTKIT_ERR_ARG, "array '%s': %d dimensions, 1 to %d are possible", name,
            ndims, FTKIT_DIMS_MAX);
    if (!global || !local || !offset)
        return ftk_fail(FTKIT_ERR_ARG, "array '%s': a shape is NULL", name);
    size_t n = 1;
    for (int d = 0; d < ndims; d++) {
        size_t h = halo ? halo[d] : 0;
        size_t cells;
        if (offset[d] > global[d] || local[d] > global[d] - offset[d])
            return ftk_fail(FTKIT_ERR_ARG,
                "array '%s': dimension %d: block %zu+%zu exceeds the array's %zu", name, d,
                offset[d], local[d], global[d]);
        if (h > SIZE_MAX / 4 || __builtin_add_overflow(local[d], 2 * h, &cells)
            || __builtin_mul_overflow(n, cells, &n))
            return ftk_fail(FTKIT_ERR_SIZE, "array '%s': the block is too large", name);
    }
    *items = n;
    return FTKIT_OK;
}

static bool same_type(const struct ftk_region *r, const struct ftk_type *t)
{
    return r->type.basic == t->basic && r->type.item_bytes == t->item_bytes;
}

static int same_array(
    const struct ftk_region *r, const struct ftk_type *t, int ndims, const size_t *global)
{
    if (r->kind != FTK_KIND_ARRAY)
        return ftk_fail(FTKIT_ERR_EXISTS, "region '%s' exists and is no array", r->name);
    if (r->ndims != ndims || memcmp(r->global, global, (size_t)ndims * sizeof *global) != 0)
        return ftk_fail(
            FTKIT_ERR_SIZE, "array '%s' is registered with another global shape", r->name);
    if (!same_type(r, t))
        return ftk_fail(FTKIT_ERR_TYPE, "array '%s' is registered with another type", r->name);
    return FTKIT_OK;
}

/* *moved becomes true if the region had another block before. */
static void set_block(struct ftk_region *r, void *data, size_t items, int ndims,
    const size_t *global, const size_t *local, const size_t *offset, const size_t *halo,
    bool *moved)
{
    size_t n = (size_t)ndims * sizeof *global;
    *moved = *moved || memcmp(r->local, local, n) != 0 || memcmp(r->start, offset, n) != 0;
    place_at(r, data);
    r->count = items;
    r->ndims = ndims;
    memcpy(r->global, global, n);
    memcpy(r->local, local, n);
    memcpy(r->start, offset, n);
    if (halo)
        memcpy(r->halo, halo, n);
    else
        memset(r->halo, 0, sizeof r->halo);
}

static int register_array(ftkit_ctx *ctx, const char *name, void *data, MPI_Datatype elem,
    int ndims, const size_t *global, const size_t *local, const size_t *offset, const size_t *halo)
{
    size_t items = 0;
    struct ftk_region *r;
    struct ftk_type t;
    int rc = ftk_check_ctx(ctx, "ftkit_register_array");
    if (rc == FTKIT_OK)
        rc = check_name("ftkit_register_array", name);
    if (rc == FTKIT_OK)
        rc = check_block(name, ndims, global, local, offset, halo, &items);
    if (rc == FTKIT_OK && !data && items > 0)
        rc = ftk_fail(FTKIT_ERR_ARG, "array '%s': data is NULL", name);
    if (rc != FTKIT_OK)
        return rc;
    rc = make_type(name, elem, &t);
    if (rc != FTKIT_OK)
        return rc;
    if (t.owned || !t.contiguous)
        rc = ftk_fail(FTKIT_ERR_TYPE, "array '%s': the element must be predefined", name);
    if (rc == FTKIT_OK)
        rc = ftk_region_check_extent(&t, items, name);
    r = ftk_region_find(ctx, name);
    if (rc == FTKIT_OK && r)
        rc = same_array(r, &t, ndims, global);
    else if (rc == FTKIT_OK)
        rc = check_addition(ctx, "ftkit_register_array", name);
    ftk_type_free(&t);
    if (rc == FTKIT_OK && !r)
        rc = add_region(ctx, NULL, name, FTK_KIND_ARRAY, elem, &r);
    bool moved = false;
    if (rc == FTKIT_OK)
        set_block(r, data, items, ndims, global, local, offset, halo, &moved);
    if (moved)
        ctx->regions.compared = false;
    return rc;
}

int ftkit_register_array(ftkit_ctx *ctx, const char *name, void *data, MPI_Datatype elem, int ndims,
    const size_t *global, const size_t *local, const size_t *offset, const size_t *halo)
{
    return ftk_done(ctx, register_array(ctx, name, data, elem, ndims, global, local, offset, halo));
}

int ftkit_register_growing(ftkit_ctx *ctx, const char *name, void **data, size_t *count,
    MPI_Datatype type, ftkit_resize_fn *resize, void *arg)
{
    struct ftk_region *r = NULL;
    int rc = ftk_region_check_new(ctx, "ftkit_register_growing", name);
    if (rc == FTKIT_OK && (!data || !count))
        rc = ftk_fail(FTKIT_ERR_ARG, "region '%s': data or count is NULL", name);
    if (rc == FTKIT_OK)
        rc = ftk_region_check_variables("ftkit_register_growing", name, data);
    if (rc == FTKIT_OK)
        rc = ftk_region_check_variables("ftkit_register_growing", name, count);
    if (rc == FTKIT_OK)
        rc = add_region(ctx, NULL, name, FTK_KIND_GROWING, type, &r);
    if (rc == FTKIT_OK && !resize && (r->type.extent < 0 || r->type.span_lb < 0)) {
        drop_region(ctx, r);
        rc = ftk_fail(FTKIT_ERR_TYPE,
            "region '%s': the type has bytes in front of its address, for which realloc() "
            "makes no room",
            name);
    }
    if (rc == FTKIT_OK) {
        rc = ftk_region_use_variables(r, data, count, resize, arg);
        if (rc != FTKIT_OK)
            drop_region(ctx, r);
    }
    return ftk_done(ctx, rc == FTKIT_OK ? ftk_region_look_again(r) : rc);
}

int ftkit_register_container(
    ftkit_ctx *ctx, const char *name, const ftkit_container *ops, void *arg, MPI_Datatype type)
{
    struct ftk_region *r = NULL;
    int rc = ftk_region_check_new(ctx, "ftkit_register_container", name);
    if (rc == FTKIT_OK
        && (!ops || ops->size < sizeof *ops || !ops->data || !ops->count || !ops->resize))
        rc = ftk_fail(FTKIT_ERR_ARG, "region '%s': callbacks missing, or size not set", name);
    if (rc == FTKIT_OK)
        rc = add_region(ctx, NULL, name, FTK_KIND_GROWING, type, &r);
    if (rc == FTKIT_OK) {
        r->box = *ops;
        r->arg = arg;
        rc = ftk_region_look_again(r);
    }
    return ftk_done(ctx, rc);
}

int ftkit_register_serializer(
    ftkit_ctx *ctx, const char *name, const ftkit_serializer *ops, void *arg)
{
    struct ftk_region *r = NULL;
    int rc = ftk_region_check_new(ctx, "ftkit_register_serializer", name);
    if (rc == FTKIT_OK
        && (!ops || ops->size < sizeof *ops || !ops->measure || !ops->pack || !ops->unpack))
        rc = ftk_fail(FTKIT_ERR_ARG, "region '%s': callbacks missing, or size not set", name);
    if (rc == FTKIT_OK)
        rc = add_region(ctx, NULL, name, FTK_KIND_SERIALIZED, MPI_BYTE, &r);
    if (rc == FTKIT_OK) {
        r->ops = *ops;
        r->arg = arg;
    }
    return ftk_done(ctx, rc);
}

int ftk_region_add_named(
    struct ftkit_ctx *ctx, const struct ftk_system_region *system, const char *name, void *arg)
{
    struct ftk_region *r = NULL;
    int rc = add_region(ctx, system, name, FTK_KIND_SERIALIZED, MPI_BYTE, &r);
    if (rc == FTKIT_OK) {
        r->ops = system->ops;
        r->arg = r->owned = arg;
    }
    return rc;
}

int ftk_region_add_system(struct ftkit_ctx *ctx, const struct ftk_system_region *system)
{
    return ftk_region_add_named(ctx, system, system->name, NULL);
}

static const struct ftk_system_region step_region = { .name = "ftkit.step", .may_lack = true };

int ftk_region_add_step(struct ftkit_ctx *ctx, int32_t *fresh)
{
    struct ftk_region *r = NULL;
    int rc = ftk_region_check_new(ctx, "ftkit_step", step_region.name);
    if (rc == FTKIT_OK)
        rc = add_region(ctx, &step_region, step_region.name, FTK_KIND_REPLICATED, MPI_INT32_T, &r);
    if (rc == FTKIT_OK) {
        r->data = fresh;
        r->count = 1;
    }
    return rc;
}

bool ftk_region_has_step(struct ftkit_ctx *ctx)
{
    return ftk_region_find(ctx, step_region.name) != NULL;
}

static int resize(
    ftkit_ctx *ctx, const char *name, void *data, size_t count, const struct ftk_type *type)
{
    struct ftk_region *r = ftk_region_find(ctx, name);
    if (!r)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "no region '%s' is registered", name);
    if (r->kind != FTK_KIND_FLAT && r->kind != FTK_KIND_REPLICATED)
        return ftk_fail(FTKIT_ERR_STATE, "region '%s' was not made by ftkit_register()", name);
    if (type && !same_type(r, type))
        return ftk_fail(FTKIT_ERR_TYPE, "region '%s' is registered with another type", name);
    if (!data && count > 0)
        return ftk_fail(FTKIT_ERR_ARG, "region '%s': data is NULL", name);
    if (count != r->count && is_fixed(ctx))
        return ftk_fail(FTKIT_ERR_STATE,
            "region '%s': %zu items do not fit the set with %zu to which the ranks may still roll "
            "back (see ftkit_register_growing())",
            name, count, r->count);
    int rc = ftk_region_check_extent(&r->type, count, name);
    if (rc == FTKIT_OK) {
        if (count != r->count)
            ctx->regions.compared = false;
        place_at(r, data);
        r->count = count;
    }
    return rc;
}

int ftkit_resize(ftkit_ctx *ctx, const char *name, void *data, size_t count)
{
    int rc = ftk_check_ctx(ctx, "ftkit_resize");
    if (rc == FTKIT_OK)
        rc = check_name("ftkit_resize", name);
    if (rc == FTKIT_OK)
        rc = resize(ctx, name, data, count, NULL);
    return ftk_done(ctx, rc);
}

int ftkit_binding_resize(
    ftkit_ctx *ctx, const char *name, void *data, size_t count, MPI_Datatype type)
{
    struct ftk_type t;
    int rc = ftk_check_ctx(ctx, "ftkit_resize");
    if (rc == FTKIT_OK)
        rc = check_name("ftkit_resize", name);
    if (rc == FTKIT_OK)
        rc = make_type(name, type, &t);
    if (rc == FTKIT_OK) {
        rc = resize(ctx, name, data, count, &t);
        ftk_type_free(&t);
    }
    return ftk_done(ctx, rc);
}

int ftkit_unregister(ftkit_ctx *ctx, const char *name)
{
    int rc = ftk_check_ctx(ctx, "ftkit_unregister");
    if (rc == FTKIT_OK)
        rc = check_name("ftkit_unregister", name);
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    struct ftk_region *r = ftk_region_find(ctx, name);
    if (!r)
        return ftk_done(ctx, ftk_fail(FTKIT_ERR_NOT_FOUND, "no region '%s' is registered", name));
    drop_region(ctx, r);
    return FTKIT_OK;
}

/* ---- attributes ---------------------------------------------------------------------- */

static int check_attribute(const struct ftkit_ctx *ctx, const char *name, const char *value)
{
    int rc = check_name("ftkit_attribute", name);
    if (rc != FTKIT_OK)
        return rc;
    if (!value)
        return ftk_fail(FTKIT_ERR_ARG, "attribute '%s': the value is NULL", name);
    size_t n = strnlen(value, FTK_ATTR_VALUE_MAX + 1);
    if (n > FTK_ATTR_VALUE_MAX)
        return ftk_fail(
            FTKIT_ERR_SIZE, "attribute '%s': more than %d bytes", name, FTK_ATTR_VALUE_MAX);
    if (ftk_utf8_bad_byte(value, n) < n)
        return ftk_fail(FTKIT_ERR_ARG, "attribute '%s': byte 0x%02x is not UTF-8 text", name,
            (unsigned)(unsigned char)value[ftk_utf8_bad_byte(value, n)]);
    if (strncmp(name, "ftkit.", 6) == 0)
        return ftk_fail(
            FTKIT_ERR_NAME, "attribute '%s': names that begin with 'ftkit.' are reserved", name);
    if (is_fixed(ctx))
        return ftk_fail(FTKIT_ERR_STATE, "attribute '%s' comes after ftkit_recover()", name);
    return FTKIT_OK;
}

static int check_first(const struct ftk_region *notes, const struct ftk_attr *a)
{
    struct ftk_attr have;
    for (size_t at = 0; notes && ftk_attr_next(notes->data, notes->count, &at, &have);)
        if (strcmp(have.region, a->region) == 0 && strcmp(have.name, a->name) == 0)
            return ftk_fail(
                FTKIT_ERR_EXISTS, "region '%s' has an attribute '%s' already", a->region, a->name);
    return FTKIT_OK;
}

static const struct ftk_system_region notes_region = {
    .name = FTK_ATTRIBUTES,
    .note = true,
    .differs_in_ranks = true,
    .differs_in_replicas = true,
};

static int add_attribute(struct ftkit_ctx *ctx, const struct ftk_attr *a)
{
    struct ftk_region *notes = ftk_region_find(ctx, FTK_ATTRIBUTES);
    char *table = notes ? notes->data : NULL;
    size_t bytes = notes ? notes->count : 0;
    int rc = check_first(notes, a);
    if (rc == FTKIT_OK && !notes)
        rc = add_region(ctx, &notes_region, FTK_ATTRIBUTES, FTK_KIND_FLAT, MPI_CHAR, &notes);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_attr_add(&table, &bytes, a);
    if (bytes == 0) { /* the first attribute of all has failed */
        drop_region(ctx, notes);
        return rc;
    }
    notes->data = notes->owned = table;
    notes->count = bytes;
    return rc;
}

int ftkit_compare(ftkit_ctx *ctx, const char *region, int how)
{
    struct ftk_region *r = NULL;
    int rc = ftk_check_ctx(ctx, "ftkit_compare");
    if (rc == FTKIT_OK)
        rc = check_name("ftkit_compare", region);
    if (rc == FTKIT_OK && !(r = ftk_region_find(ctx, region)))
        rc = ftk_fail(FTKIT_ERR_NOT_FOUND, "no region '%s' is registered", region);
    if (rc == FTKIT_OK && how != FTKIT_COMPARE_EXACT && how != FTKIT_COMPARE_OFF)
        rc = ftk_fail(FTKIT_ERR_ARG,
            "ftkit_compare: %d is neither FTKIT_COMPARE_EXACT nor "
            "FTKIT_COMPARE_OFF",
            how);
    if (rc == FTKIT_OK && ctx->where >= FTK_IN_LOOP && ctx->mode != FTKIT_MODE_RESTART)
        rc = ftk_fail(FTKIT_ERR_STATE, "ftkit_compare after ftkit_recover: a replacement would not "
                                       "know of the call");
    if (rc == FTKIT_OK)
        r->compare = how;
    return ftk_done(ctx, rc);
}

int ftkit_attribute(ftkit_ctx *ctx, const char *region, const char *name, const char *value)
{
    int rc = ftk_check_ctx(ctx, "ftkit_attribute");
    if (rc == FTKIT_OK)
        rc = check_name("ftkit_attribute", region);
    if (rc == FTKIT_OK && !ftk_region_find(ctx, region))
        rc = ftk_fail(FTKIT_ERR_NOT_FOUND, "no region '%s' is registered", region);
    if (rc == FTKIT_OK)
        rc = check_attribute(ctx, name, value);
    if (rc == FTKIT_OK)
        rc = add_attribute(ctx, &(struct ftk_attr){ region, name, value });
    return ftk_done(ctx, rc);
}

void ftk_region_free_all(struct ftkit_ctx *ctx)
{
    for (int i = 0; i < ctx->regions.n; i++)
        region_free(&ctx->regions.list[i]);
    free(ctx->regions.list);
    ctx->regions.list = NULL;
    ctx->regions.n = 0;
}
