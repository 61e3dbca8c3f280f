/* Help in a replay: the part of the log (see units.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/units/units.h"

#include <stdlib.h>
#include <string.h>

#include "detect/detect.h"
#include "log/base/alone.h"
#include "log/base/layer.h"
#include "log/base/runtime.h"

static bool helps; /* in this epoch some ranks have rolled back, and others have not */
static bool late;  /* messages of an epoch with help may still come */

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
            || ftk_control_late() != MPI_SUCCESS)
            ftk_detect_raise(ftk_log.ctx);
    }
    return may_look();
}

int ftk_units_call(const struct ftk_units_call *c, size_t i)
{
    const struct ftk_alone_held held = ftk_alone_bar();
    ftk_layer_guard(true);
    const int code = ftk_unit_run(c, i);
    ftk_layer_guard(false);
    ftk_alone_open(held);
    return code;
}

/* ---- the part ------------------------------------------------------------------------ */

static const struct ftk_control_kind controls[] = {
    { .context = FTK_LOG_UNITS, .tag = FTK_UNITS_ASK, .handle = ftk_give_asked },
    { .context = FTK_LOG_UNITS,
        .tag = FTK_UNITS_UNIT,
        .handle = ftk_help_unit,
        .may_be_late = true },
    { .context = FTK_LOG_UNITS,
        .tag = FTK_UNITS_DONE,
        .handle = ftk_give_returned,
        .may_be_late = true },
    { .context = FTK_LOG_UNITS, .tag = FTK_UNITS_STOP, .handle = ftk_help_stop },
};

static void end(void)
{
    helps = false;
    ftk_give_end();
    ftk_help_end();
}

static int new_epoch(const struct ftk_log_repair *r)
{
    (void)r;
    end();
    late = false; /* the repair has received all messages */
    return FTKIT_OK;
}

static int stay(const struct ftk_log_repair *r)
{
    helps = late = true;
    return ftk_help_begin(r);
}

static int roll_back(const struct ftk_rollback *b)
{
    helps = late = b->others_stay;
    if (b->others_stay)
        ftk_give_begin();
    return FTKIT_OK;
}

/* All ranks have come to the line: nobody repeats anything. */
static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    end();
}

static void serve(void)
{
    if (helps)
        (void)ftk_units_look();
}

static void turn(unsigned turns)
{
    if (late && !helps)
        (void)ftk_units_look();
    if (helps)
        ftk_help_turn(turns);
}

static void figures(ftkit_info *info)
{
    ftk_give_figures(info);
    ftk_help_figures(info);
}

static void close_units(void)
{
    end();
    late = false;
    ftk_give_close();
    ftk_help_close();
}

static const struct ftk_part *if_asked_for(void)
{
    const struct ftkit_ctx *ctx = ftk_log.ctx; /* NULL: a test reads an image */
    return ctx && ctx->cfg.log_helpers > 0 ? &ftk_part_units : NULL;
}

const struct ftk_part ftk_part_units = { .serves = if_asked_for,
    .close = close_units,
    .figures = figures,
    .serve = serve,
    .turn = turn,
    .controls = controls,
    .ncontrols = sizeof controls / sizeof *controls,
    .line = pass_line,
    .new_epoch = new_epoch,
    .stay = stay,
    .may_sleep = ftk_help_is_idle,
    .roll_back = roll_back };
