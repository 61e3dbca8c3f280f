/* ftkit_unit() and ftkit_run_units(): pieces of work that waiting ranks may do.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "core/log_ops.h"
#include "core/unit.h"

#define MOST_BYTES ((size_t)1 << 31) /* of one input or output */

int ftkit_unit(ftkit_ctx *ctx, const char *name, ftkit_unit_fn *fn, void *arg)
{
    int rc = ftk_check_ctx(ctx, "ftkit_unit");
    if (rc == FTKIT_OK && (!name || !fn))
        rc = ftk_fail(FTKIT_ERR_ARG, "ftkit_unit: %s is NULL", name ? "fn" : "name");
    if (rc == FTKIT_OK)
        rc = ftk_unit_add(ctx, name, fn, arg);
    return ftk_done(ctx, rc);
}

static int check_memory(size_t i, const char *what, const void *at, size_t bytes)
{
    if (at && bytes > 0 && bytes <= MOST_BYTES)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_ARG,
        "ftkit_run_units: the %s of unit %zu has %zu bytes at %p: 1 to %zu are possible", what, i,
        bytes, at, MOST_BYTES);
}

static int check(const struct ftk_units_call *c)
{
    if (c->n > 0 && !(c->in && c->in_bytes && c->out && c->out_bytes))
        return ftk_fail(FTKIT_ERR_ARG, "ftkit_run_units: an array is NULL");
    int rc = FTKIT_OK;
    for (size_t i = 0; rc == FTKIT_OK && i < c->n; i++) {
        rc = check_memory(i, "input", c->in[i], c->in_bytes[i]);
        if (rc == FTKIT_OK)
            rc = check_memory(i, "output", c->out[i], c->out_bytes[i]);
    }
    return rc;
}

/* Without the log there is no replay that others could help. */
static int run(const ftkit_ctx *ctx, const struct ftk_units_call *c)
{
    return ctx->log ? ctx->log->run_units(c) : ftk_units_run_here(c, ftk_unit_run);
}

int ftkit_run_units(ftkit_ctx *ctx, const char *name, size_t n, const void *const *ins,
    const size_t *in_bytes, void *const *outs, const size_t *out_bytes)
{
    int rc = ftk_check_ctx(ctx, "ftkit_run_units");
    if (rc == FTKIT_OK && !name)
        rc = ftk_fail(FTKIT_ERR_ARG, "ftkit_run_units: name is NULL");
    const struct ftk_unit *unit = rc == FTKIT_OK ? ftk_unit_find(ctx, name) : NULL;
    if (rc == FTKIT_OK && !unit)
        rc = ftk_fail(FTKIT_ERR_NOT_FOUND, "ftkit_run_units: there is no unit '%.80s'", name);
    const struct ftk_units_call call = { unit, n, ins, in_bytes, outs, out_bytes };
    if (rc == FTKIT_OK)
        rc = check(&call);
    if (rc == FTKIT_OK)
        rc = run(ctx, &call);
    return ftk_done(ctx, rc);
}
