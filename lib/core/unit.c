/* Work units (see unit.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "core/unit.h"

#include <stdlib.h>
#include <string.h>

int ftk_unit_add(struct ftkit_ctx *ctx, const char *name, ftkit_unit_fn *fn, void *arg)
{
    const size_t length = strlen(name);
    if (length == 0 || length >= FTK_UNIT_NAME)
        return ftk_fail(FTKIT_ERR_NAME, "ftkit_unit: a name has 1 to %d bytes, '%.80s' has %zu",
            FTK_UNIT_NAME - 1, name, length);
    if (ftk_unit_find(ctx, name))
        return ftk_fail(FTKIT_ERR_EXISTS, "ftkit_unit: there is a unit '%s' already", name);
    struct ftk_unit *u = calloc(1, sizeof *u);
    if (!u)
        return ftk_fail(FTKIT_ERR_NOMEM, "ftkit_unit");
    u->fn = fn;
    u->arg = arg;
    memcpy(u->name, name, length);
    u->next = ctx->units;
    ctx->units = u;
    return FTKIT_OK;
}

const struct ftk_unit *ftk_unit_find(const struct ftkit_ctx *ctx, const char *name)
{
    const struct ftk_unit *u = ctx->units;
    while (u && strcmp(u->name, name) != 0)
        u = u->next;
    return u;
}

void ftk_units_forget(struct ftkit_ctx *ctx)
{
    while (ctx->units) {
        struct ftk_unit *u = ctx->units;
        ctx->units = u->next;
        free(u);
    }
}

int ftk_unit_failed(const struct ftk_units_call *c, size_t i, int code)
{
    return ftk_fail(FTKIT_ERR_CALLBACK, "ftkit_run_units: unit %zu of '%s' has returned %d", i,
        c->unit->name, code);
}

int ftk_units_run_here(
    const struct ftk_units_call *c, int (*one)(const struct ftk_units_call *c, size_t i))
{
    for (size_t i = 0; i < c->n; i++) {
        const int code = one(c, i);
        if (code != 0)
            return ftk_unit_failed(c, i, code);
    }
    return FTKIT_OK;
}
