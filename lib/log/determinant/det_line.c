/* The line in the list of determinants: which ones come behind it, and with which numbers.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "det_inside.h"

/* The line of a set that is being written: see ftk_det_at_line().  Receives that were begun before
 * the line and are not in the lists were complete. */
static struct {
    size_t n; /* determinants before the line */
    struct numbers {
        uint32_t *v; /* [n] of the receives under way */
        size_t n;
        uint32_t before; /* how many were begun before the line */
    } of[FTK_DET_COUNTS];
    /* of a line apart */
    size_t stop; /* determinants before ftk_det_stop(); SIZE_MAX: not yet */
} at_line;

static bool copy_numbers(enum ftk_det_count counts, const uint32_t *v, size_t n)
{
    struct numbers *to = &at_line.of[counts];
    free(to->v);
    to->v = malloc((n + 1) * sizeof *to->v);
    to->n = to->v ? n : 0;
    to->before = ftk_det_course.begun[counts];
    if (to->n > 0)
        memcpy(to->v, v, n * sizeof *v);
    return to->v != NULL;
}

int ftk_det_at_line(const uint32_t *wildcards, size_t nw, const uint32_t *receives, size_t nr)
{
    ftk_det_files.to = FTK_DET_ONE_FILE;
    at_line.stop = SIZE_MAX;
    at_line.n = ftk_det_n();
    const bool first = copy_numbers(FTK_DET_WILDCARDS, wildcards, nw);
    const bool second = copy_numbers(FTK_DET_RECEIVES, receives, nr);
    /* no probe is under way here; one may be when the line is committed */
    return copy_numbers(FTK_DET_PROBES, NULL, 0) && first && second
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_NOMEM, "determinants");
}

void ftk_det_stop(void)
{
    if (at_line.stop == SIZE_MAX)
        at_line.stop = ftk_det_n();
}

bool ftk_det_is_past_stop(void)
{
    return at_line.stop != SIZE_MAX && (ftk_det_n() > at_line.stop || ftk_det_course.nothings > 0);
}

uint32_t ftk_det_new_number(enum ftk_det_count counts, uint32_t number)
{
    const struct numbers *of = &at_line.of[counts];
    if (number > of->before)
        return (uint32_t)of->n + number - of->before;
    for (size_t i = 0; i < of->n; i++)
        if (of->v[i] == number)
            return (uint32_t)i + 1;
    return 0;
}

uint32_t ftk_det_number_of_complete(uint32_t number)
{
    if (number == 0 || number & FTK_DET_OF_BEFORE)
        return 0;
    const uint32_t behind = ftk_det_new_number(FTK_DET_RECEIVES, number);
    return behind > 0 ? behind : number | FTK_DET_OF_BEFORE;
}

static uint32_t old_number(const struct numbers *of, uint32_t number)
{
    if (number > of->n)
        return of->before + number - (uint32_t)of->n;
    return number > 0 ? of->v[number - 1] : 0;
}

struct ftk_det ftk_det_of_before(struct ftk_det det)
{
    const enum ftk_det_count counts = ftk_det_kind_of(det.kind)->counts;
    if (counts != FTK_DET_CALLS)
        det.n = old_number(&at_line.of[counts], det.n);
    return det;
}

struct ftk_det ftk_det_of_after(struct ftk_det det)
{
    const enum ftk_det_count counts = ftk_det_kind_of(det.kind)->counts;
    if (counts != FTK_DET_CALLS)
        det.n = ftk_det_new_number(counts, det.n);
    return det;
}

struct ftk_det *ftk_det_since_line(size_t upto, size_t *n)
{
    *n = upto > at_line.n ? upto - at_line.n : 0;
    struct ftk_det *v = *n > 0 ? malloc(*n * sizeof *v) : NULL;
    if (*n > 0 && !v)
        ftk_report(FTKIT_ERROR, "context %s: rank %d: no memory for determinants",
            ftk_log.ctx->cfg.name, ftk_log.me);
    *n = v ? *n : 0;
    for (size_t i = 0; i < *n; i++)
        v[i] = ftk_det_of_after(ftk_det_list()[at_line.n + i]);
    return v;
}

struct ftk_det *ftk_det_window(size_t *n)
{
    struct ftk_det *v =
        ftk_det_since_line(at_line.stop < ftk_det_n() ? at_line.stop : ftk_det_n(), n);
    return v ? v : malloc(sizeof *v);
}

void ftk_det_pass_line(uint32_t *begun)
{
    for (int c = 0; c < FTK_DET_COUNTS; c++)
        begun[c] = (uint32_t)at_line.of[c].n + ftk_det_course.begun[c] - at_line.of[c].before;
}

void ftk_det_forget_line(void)
{
    for (int c = 0; c < FTK_DET_COUNTS; c++)
        free(at_line.of[c].v);
    memset(&at_line, 0, sizeof at_line);
}
