/* Work units: functions of the program that other ranks may call for it (ftkit_unit()).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_UNIT_H
#define FTK_UNIT_H

#include "core/context.h"

enum { FTK_UNIT_NAME = 64 }; /* bytes of a name, with its NUL */

struct ftk_unit {
    struct ftk_unit *next;
    ftkit_unit_fn *fn;
    void *arg;
    char name[FTK_UNIT_NAME]; /* zeros behind the NUL */
};

/* A call of ftkit_run_units(), with checked arguments. */
struct ftk_units_call {
    const struct ftk_unit *unit;
    size_t n;
    const void *const *in;   /* [n] */
    const size_t *in_bytes;  /* [n] */
    void *const *out;        /* [n] */
    const size_t *out_bytes; /* [n] */
};

/* FTKIT_ERR_NAME, FTKIT_ERR_EXISTS, FTKIT_ERR_NOMEM. */
int ftk_unit_add(struct ftkit_ctx *ctx, const char *name, ftkit_unit_fn *fn, void *arg);
/* NULL: there is none. */
const struct ftk_unit *ftk_unit_find(const struct ftkit_ctx *ctx, const char *name);
void ftk_units_forget(struct ftkit_ctx *ctx);

/* Run unit i of the call here; returns what the function of the program returns. */
static inline int ftk_unit_run(const struct ftk_units_call *c, size_t i)
{
    return c->unit->fn(c->in[i], c->in_bytes[i], c->out[i], c->out_bytes[i], c->unit->arg);
}
/* FTKIT_ERR_CALLBACK, with a text; code: what unit i has returned. */
int ftk_unit_failed(const struct ftk_units_call *c, size_t i, int code);
/* Run all units here by one(), in their order, until one fails. */
int ftk_units_run_here(
    const struct ftk_units_call *c, int (*one)(const struct ftk_units_call *c, size_t i));

#endif
