/* The replay of determinants: the plan, and what it prescribes to receives.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "det_inside.h"

struct ftk_det_course ftk_det_course;

void ftk_det_begin_again(void)
{
    free(ftk_det_course.receive);
    free(ftk_det_course.cancel);
    memset(&ftk_det_course, 0, sizeof ftk_det_course);
}

static int by_number(const void *a, const void *b)
{
    const struct ftk_det *x = a, *y = b;
    return (x->n > y->n) - (x->n < y->n);
}

int ftk_det_sort_out(void)
{
    for (size_t i = 0; i < ftk_det_course.plan; i++) {
        const struct ftk_det *det = &ftk_det_list()[i];
        if (det->kind == FTK_DET_RECV && det->n > ftk_det_course.nreceive)
            ftk_det_course.nreceive = det->n;
        ftk_det_course.ncancel += det->kind == FTK_DET_CANCEL;
    }
    ftk_det_course.receive = calloc(ftk_det_course.nreceive + 1, sizeof *ftk_det_course.receive);
    ftk_det_course.cancel = calloc(ftk_det_course.ncancel + 1, sizeof *ftk_det_course.cancel);
    if (!ftk_det_course.receive || !ftk_det_course.cancel)
        return ftk_fail(FTKIT_ERR_NOMEM, "determinants");
    for (size_t i = 0, c = 0; i < ftk_det_course.plan; i++) {
        const struct ftk_det *det = &ftk_det_list()[i];
        if (det->kind == FTK_DET_RECV && det->n > 0)
            ftk_det_course.receive[det->n - 1] = (uint32_t)i + 1;
        if (det->kind == FTK_DET_CANCEL)
            ftk_det_course.cancel[c++] = *det;
    }
    qsort(ftk_det_course.cancel, ftk_det_course.ncancel, sizeof *ftk_det_course.cancel, by_number);
    return FTKIT_OK;
}

static bool of_receive(uint32_t kind)
{
    return kind == FTK_DET_RECV || kind == FTK_DET_CANCEL;
}

const struct ftk_det *ftk_det_upcoming(void)
{
    while (ftk_det_course.at < ftk_det_course.plan
           && of_receive(ftk_det_list()[ftk_det_course.at].kind))
        ftk_det_course.at++;
    return ftk_det_course.at < ftk_det_course.plan ? &ftk_det_list()[ftk_det_course.at] : NULL;
}

void ftk_det_pass_nothings(void)
{
    const struct ftk_det *n;
    while ((n = ftk_det_upcoming()) && n->kind == FTK_DET_NONE && ftk_det_course.nothings >= n->n) {
        ftk_det_course.nothings = 0;
        ftk_det_course.at++;
    }
}

bool ftk_det_plan_left(void)
{
    ftk_det_pass_nothings();
    return ftk_det_course.plan > 0
           && (ftk_det_upcoming() || ftk_det_course.wildcards < ftk_det_course.nreceive
               || (ftk_det_course.at_cancel < ftk_det_course.ncancel
                   && ftk_det_course.cancel[ftk_det_course.at_cancel].n > ftk_det_course.receives));
}

/* ---- receives ----------------------------------------------------------------------------- */

uint32_t ftk_det_receive(int *source, int *tag)
{
    if (!ftk_det_counts())
        return 0;
    uint32_t number = ++ftk_det_course.wildcards;
    return ftk_det_match(number, source, tag) ? 0 : number;
}

bool ftk_det_match(uint32_t number, int *source, int *tag)
{
    if (number > ftk_det_course.nreceive || !ftk_det_course.receive[number - 1])
        return false;
    const struct ftk_det *det = &ftk_det_list()[ftk_det_course.receive[number - 1] - 1];
    *source = det->a;
    *tag = det->b;
    return true;
}

uint32_t ftk_det_begun(enum ftk_cancel_known *cancel)
{
    *cancel = FTK_CANCEL_UNKNOWN;
    if (!ftk_det_counts())
        return 0;
    uint32_t number = ++ftk_det_course.receives;
    while (ftk_det_course.at_cancel < ftk_det_course.ncancel
           && ftk_det_course.cancel[ftk_det_course.at_cancel].n < number)
        ftk_det_course.at_cancel++;
    if (ftk_det_course.at_cancel < ftk_det_course.ncancel
        && ftk_det_course.cancel[ftk_det_course.at_cancel].n == number)
        *cancel = ftk_det_course.cancel[ftk_det_course.at_cancel].a != 0 ? FTK_CANCEL_DONE
                                                                         : FTK_CANCEL_TOO_LATE;
    return number;
}

/* ---- following the leader (mode/lead.c) --------------------------------------------------- */

enum ftk_cancel_known ftk_det_await_cancel(uint32_t number)
{
    unsigned turns = 0;
    while (ftk_det_counts() && number > 0) {
        for (size_t i = 0; i < ftk_det_course.ncancel; i++)
            if (ftk_det_course.cancel[i].n == number)
                return ftk_det_course.cancel[i].a != 0 ? FTK_CANCEL_DONE : FTK_CANCEL_TOO_LATE;
        if (!ftk_mode_await(&turns))
            break;
    }
    return FTK_CANCEL_UNKNOWN;
}

bool ftk_det_add_to_plan(size_t i)
{
    const struct ftk_det det = ftk_det_list()[i];
    if (det.kind == FTK_DET_RECV && det.n > ftk_det_course.nreceive) {
        uint32_t *all = realloc(ftk_det_course.receive, (det.n + 1) * sizeof *all);
        if (!all)
            return false;
        memset(all + ftk_det_course.nreceive, 0, (det.n - ftk_det_course.nreceive) * sizeof *all);
        ftk_det_course.receive = all;
        ftk_det_course.nreceive = det.n;
    }
    if (det.kind == FTK_DET_RECV && det.n > 0)
        ftk_det_course.receive[det.n - 1] = (uint32_t)i + 1;
    if (det.kind == FTK_DET_CANCEL) {
        struct ftk_det *all =
            realloc(ftk_det_course.cancel, (ftk_det_course.ncancel + 1) * sizeof *all);
        if (!all)
            return false;
        ftk_det_course.cancel = all;
        ftk_det_course.cancel[ftk_det_course.ncancel++] = det;
        qsort(ftk_det_course.cancel, ftk_det_course.ncancel, sizeof *ftk_det_course.cancel,
            by_number);
    }
    ftk_det_course.plan = i + 1;
    return true;
}

void ftk_det_pass_own(size_t i)
{
    ftk_det_course.plan = i + 1;
    ftk_det_course.at = ftk_det_course.at > i ? ftk_det_course.at : i + 1;
}
