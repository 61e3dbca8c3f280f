/* Help in a replay: the part of the log (see units.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/units/units.h"

static bool helps; /* in this epoch some ranks have rolled back, and others have not */
static bool late;  /* messages of an epoch with help may still come */

static const struct ftk_control_kind controls[] = {
    { .context = FTK_LOG_UNITS, .tag = FTK_UNITS_ASK, .handle = ftk_give_asked },
    { .context = FTK_LOG_UNITS,
        .tag = FTK_UNITS_UNIT,
        .handle = ftk_help_unit,
        .may_be_slow = true },
    { .context = FTK_LOG_UNITS,
        .tag = FTK_UNITS_DONE,
        .handle = ftk_give_returned,
        .may_be_slow = true },
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
    ftk_help_begin(r);
    return FTKIT_OK;
}

static int roll_back(const struct ftk_rollback *b)
{
    helps = late = b->others_stay;
    if (b->others_stay)
        ftk_give_begin();
    return FTKIT_OK;
}

/* All ranks have come to the line: nobody repeats anything.  With lines apart messages may still
 * come from ranks that learn of the line later, but not after their next one. */
static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    late = helps;
    end();
}

static void serve(void)
{
    if (helps || (late && ftk_log.line.state != FTK_LINE_AWAY))
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
