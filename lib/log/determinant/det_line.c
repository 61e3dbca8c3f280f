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
    uint32_t *wildcard, *receive;
    size_t nwildcards, nreceives;
    uint32_t wildcards, receives; /* begun before the line */
    /* of a line apart */
    size_t stop; /* determinants before ftk_det_stop(); SIZE_MAX: not yet */
} at_line;

static uint32_t *copy_numbers(const uint32_t *v, size_t n)
{
    uint32_t *c = malloc((n + 1) * sizeof *c);
    if (c && n > 0)
        memcpy(c, v, n * sizeof *c);
    return c;
}

int ftk_det_at_line(const uint32_t *wildcards, size_t nw, const uint32_t *receives, size_t nr)
{
    free(at_line.wildcard);
    free(at_line.receive);
    ftk_det_files.to = FTK_DET_ONE_FILE;
    at_line.stop = SIZE_MAX;
    at_line.wildcards = ftk_det_course.wildcards;
    at_line.receives = ftk_det_course.receives;
    at_line.n = ftk_det_n();
    at_line.nwildcards = nw;
    at_line.nreceives = nr;
    at_line.wildcard = copy_numbers(wildcards, nw);
    at_line.receive = copy_numbers(receives, nr);
    if (at_line.wildcard && at_line.receive)
        return FTKIT_OK;
    at_line.nwildcards = at_line.nreceives = 0;
    return ftk_fail(FTKIT_ERR_NOMEM, "determinants");
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

static uint32_t new_number(const uint32_t *v, size_t n, uint32_t before, uint32_t number)
{
    if (number > before)
        return (uint32_t)n + number - before;
    for (size_t i = 0; i < n; i++)
        if (v[i] == number)
            return (uint32_t)i + 1;
    return 0;
}

static uint32_t old_number(const uint32_t *v, size_t n, uint32_t before, uint32_t number)
{
    return number > n ? before + number - (uint32_t)n : number > 0 ? v[number - 1] : 0;
}

uint32_t ftk_det_new_wildcard(uint32_t number)
{
    return new_number(at_line.wildcard, at_line.nwildcards, at_line.wildcards, number);
}

uint32_t ftk_det_new_receive(uint32_t number)
{
    return new_number(at_line.receive, at_line.nreceives, at_line.receives, number);
}

struct ftk_det ftk_det_of_before(struct ftk_det det)
{
    if (det.kind == FTK_DET_RECV)
        det.n = old_number(at_line.wildcard, at_line.nwildcards, at_line.wildcards, det.n);
    else if (det.kind == FTK_DET_CANCEL)
        det.n = old_number(at_line.receive, at_line.nreceives, at_line.receives, det.n);
    return det;
}

struct ftk_det ftk_det_of_after(struct ftk_det det)
{
    if (det.kind == FTK_DET_RECV)
        det.n = ftk_det_new_wildcard(det.n);
    else if (det.kind == FTK_DET_CANCEL)
        det.n = ftk_det_new_receive(det.n);
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

void ftk_det_pass_line(uint32_t *wildcards, uint32_t *receives)
{
    *wildcards = (uint32_t)at_line.nwildcards + *wildcards - at_line.wildcards;
    *receives = (uint32_t)at_line.nreceives + *receives - at_line.receives;
}

void ftk_det_forget_line(void)
{
    free(at_line.wildcard);
    free(at_line.receive);
    memset(&at_line, 0, sizeof at_line);
}
