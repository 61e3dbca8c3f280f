/* Help in a replay: messages, and the call of a unit (see units.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "detect/detect.h"
#include "detect/misuse.h"
#include "log/base/alone.h"
#include "log/base/layer.h"
#include "log/base/runtime.h"
#include "log/units/units.h"

bool ftk_units_send(const struct ftk_units_head *h, const void *data, size_t bytes, int dest,
    enum ftk_units_tag tag)
{
    const size_t words = ftk_units_words(bytes);
    uint64_t *w = calloc(words, sizeof *w);
    if (!w)
        return false;
    memcpy(w, h, sizeof *h);
    if (bytes > 0)
        memcpy(w + FTK_UNITS_WORDS, data, bytes);
    const int rc = ftk_control_send(w, words, dest, tag, FTK_LOG_UNITS);
    free(w);
    if (rc != MPI_SUCCESS && ftk_log_is_failure(rc))
        ftk_detect_raise(ftk_log.ctx); /* the next call of MPI repairs it */
    return rc == MPI_SUCCESS;
}

bool ftk_units_read(const struct ftk_control *c, struct ftk_units_head *h, const void **data,
    size_t (*bytes)(const struct ftk_units_head *h))
{
    if (c->words < FTK_UNITS_WORDS)
        return false;
    memcpy(h, c->w, sizeof *h);
    *data = c->w + FTK_UNITS_WORDS;
    return memchr(h->name, 0, sizeof h->name) && c->words == ftk_units_words(bytes(h));
}

static bool may_look(void)
{
    const struct ftkit_ctx *ctx = ftk_log.ctx;
    return !ctx->detect.failed && !ctx->detect.repairing && !ftk_log_is_rolling_back()
           && ftk_log.epoch.real[FTK_LOG_UNITS] != MPI_COMM_NULL;
}

bool ftk_units_look(void)
{
    int found = 1;
    while (found && may_look()) {
        found = 0;
        if (ftk_control_take(FTK_LOG_UNITS, MPI_ANY_SOURCE, &found) != MPI_SUCCESS
            || ftk_control_slow() != MPI_SUCCESS)
            ftk_detect_raise(ftk_log.ctx);
    }
    return may_look();
}

int ftk_units_call(const struct ftk_units_call *c, size_t i)
{
    struct ftkit_ctx *ctx = ftk_log.ctx;
    const struct ftk_alone_held held = ftk_alone_bar();
    const bool serving = ctx->serving;
    ftk_misuse_serve(ctx, true); /* ftkit_escape() does not leave the function */
    ftk_layer_guard(true);
    const int code = ftk_unit_run(c, i);
    ftk_layer_guard(false);
    ftk_misuse_serve(ctx, serving);
    ftk_alone_open(held);
    return code;
}
