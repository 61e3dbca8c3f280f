/* The replay of determinants: the plan, and what it prescribes to receives.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "det_inside.h"

struct ftk_det_course ftk_det_course;

void ftk_det_begin_again(void)
{
    for (int kind = 0; kind < FTK_DET_NKINDS; kind++)
        free(ftk_det_course.of[kind].v);
    memset(&ftk_det_course, 0, sizeof ftk_det_course);
}

static int by_number(const void *a, const void *b)
{
    const struct ftk_det_place *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static bool is_of_receive(uint32_t kind)
{
    return ftk_det_kind_of(kind)->counts != FTK_DET_CALLS;
}

/* Note the number of determinant i behind all others of its kind.  False: no memory. */
static bool note(size_t i)
{
    const struct ftk_det *det = &ftk_det_list()[i];
    if (!is_of_receive(det->kind) || det->n == 0)
        return true;
    struct ftk_det_by_number *of = &ftk_det_course.of[det->kind];
    if (!ftk_grow_by_one(&of->v, of->n, sizeof *of->v))
        return false;
    of->v[of->n++] = (struct ftk_det_place){ det->n, (uint32_t)i };
    return true;
}

int ftk_det_sort_out(void)
{
    for (size_t i = 0; i < ftk_det_course.plan; i++)
        if (!note(i))
            return ftk_fail(FTKIT_ERR_NOMEM, "determinants");
    for (int kind = 0; kind < FTK_DET_NKINDS; kind++) {
        struct ftk_det_by_number *of = &ftk_det_course.of[kind];
        if (of->n > 1)
            qsort(of->v, of->n, sizeof *of->v, by_number);
    }
    return FTKIT_OK;
}

/* Put the last one in its place. */
static void sort_in(struct ftk_det_by_number *of)
{
    for (size_t k = of->n; k > 1 && by_number(&of->v[k - 2], &of->v[k - 1]) > 0; k--) {
        const struct ftk_det_place last = of->v[k - 1];
        of->v[k - 1] = of->v[k - 2];
        of->v[k - 2] = last;
    }
}

bool ftk_det_add_to_plan(size_t i)
{
    const uint32_t kind = ftk_det_list()[i].kind;
    if (!note(i))
        return false;
    if (is_of_receive(kind))
        sort_in(&ftk_det_course.of[kind]);
    ftk_det_course.plan = i + 1;
    return true;
}

/* The determinant of that kind with a number; NULL: the plan has none. */
static const struct ftk_det *of_receive(uint32_t kind, uint32_t number)
{
    const struct ftk_det_by_number *of = &ftk_det_course.of[kind];
    const struct ftk_det_place key = { number, 0 }, *at = NULL;
    if (of->n > 0)
        at = bsearch(&key, of->v, of->n, sizeof key, by_number);
    return at ? &ftk_det_list()[at->index] : NULL;
}

const struct ftk_det *ftk_det_upcoming(void)
{
    while (ftk_det_course.at < ftk_det_course.plan
           && is_of_receive(ftk_det_list()[ftk_det_course.at].kind))
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

bool ftk_det_has_plan(void)
{
    return ftk_det_course.plan > 0;
}

bool ftk_det_plan_left(void)
{
    ftk_det_pass_nothings();
    bool left = ftk_det_upcoming() != NULL;
    for (uint32_t kind = 0; kind < FTK_DET_NKINDS; kind++) {
        const struct ftk_det_by_number *of = &ftk_det_course.of[kind];
        const uint32_t begun = ftk_det_course.begun[ftk_det_kind_of(kind)->counts];
        left = left || (of->n > 0 && of->v[of->n - 1].number > begun);
    }
    return ftk_det_course.plan > 0 && left;
}

/* ---- receives and probes ------------------------------------------------------------------ */

uint32_t ftk_det_receive(struct ftk_envelope *want, bool *known)
{
    *known = false;
    if (!ftk_det_counts())
        return 0;
    uint32_t number = ++ftk_det_course.begun[FTK_DET_WILDCARDS];
    *known = ftk_det_course.plan > 0 && ftk_det_match(number, &want->source, &want->tag);
    return *known ? 0 : number;
}

void ftk_det_probed(const struct ftk_envelope *asked, const struct ftk_envelope *found)
{
    if (ftk_det_counts())
        ftk_det_course.probed =
            (struct ftk_det_probed){ *asked, *found, ftk_det_course.begun[FTK_DET_RECEIVES] + 1 };
}

/* Whether a receive or a probe with that envelope is one with the arguments of the probe. */
static bool is_asked(const struct ftk_envelope *want)
{
    const struct ftk_envelope *asked = &ftk_det_course.probed.asked;
    return asked->context == want->context && asked->source == want->source
           && asked->tag == want->tag;
}

void ftk_det_probed_before(struct ftk_envelope *want)
{
    const struct ftk_det_probed *p = &ftk_det_course.probed;
    if (p->receive > 0 && p->receive == ftk_det_course.begun[FTK_DET_RECEIVES] + 1
        && is_asked(want))
        *want = p->found;
}

void ftk_det_probe_took(const struct ftk_envelope *message)
{
    struct ftk_det_probed *p = &ftk_det_course.probed;
    if (p->receive > 0 && ftk_envelope_matches(&p->found, message))
        p->receive = 0;
}

bool ftk_det_match(uint32_t number, int *source, int *tag)
{
    const struct ftk_det *det = of_receive(FTK_DET_RECV, number);
    if (!det)
        return false;
    *source = det->a;
    if (det->b != MPI_ANY_TAG)
        *tag = det->b;
    return true;
}

bool ftk_det_tag(uint32_t number, int *tag)
{
    const struct ftk_det *det = of_receive(FTK_DET_TAG, number);
    if (det)
        *tag = det->b;
    return det != NULL;
}

static enum ftk_cancel_known cancel_of(uint32_t number)
{
    const struct ftk_det *det = of_receive(FTK_DET_CANCEL, number);
    return !det ? FTK_CANCEL_UNKNOWN : det->a != 0 ? FTK_CANCEL_DONE : FTK_CANCEL_TOO_LATE;
}

/* A receive with the arguments of the probe before it gets the message of the probe [MPI 3.8.1].  A
 * receive between the two counts as none, if it cannot take that message. */
static void get_probed(uint32_t number, struct ftk_envelope *want)
{
    struct ftk_det_probed *p = &ftk_det_course.probed;
    if (p->receive != number)
        return;
    if (is_asked(want))
        *want = p->found;
    else if (!ftk_envelope_matches(&p->found, want))
        p->receive++;
}

/* What the plan says of a receive.  Not inline: no search in a receive without a replay. */
static __attribute__((noinline)) void repeat_receive(uint32_t number, struct ftk_req *r)
{
    const struct ftk_det *det = of_receive(FTK_DET_TAG, number);
    r->replay.cancel = cancel_of(number);
    get_probed(number, &r->recv.want);
    if (!det)
        return;
    r->recv.want.tag = det->b;
    r->replay.match = FTK_MATCH_KNOWN;
}

uint32_t ftk_det_begun(struct ftk_req *r)
{
    r->replay.cancel = FTK_CANCEL_UNKNOWN;
    if (!ftk_det_counts())
        return 0;
    uint32_t number = ++ftk_det_course.begun[FTK_DET_RECEIVES];
    if (ftk_det_course.plan > 0)
        repeat_receive(number, r);
    return number;
}

bool ftk_det_probes(void)
{
    if (!ftk_det_counts())
        return false;
    ftk_det_course.begun[FTK_DET_PROBES]++;
    return true;
}

bool ftk_det_probe_known(struct ftk_envelope *want)
{
    const struct ftk_det *det = of_receive(FTK_DET_PROBED, ftk_det_course.begun[FTK_DET_PROBES]);
    if (det)
        want->tag = det->b;
    return det != NULL;
}

/* ---- following the leader (mode/lead.c) --------------------------------------------------- */

enum ftk_cancel_known ftk_det_await_cancel(uint32_t number)
{
    unsigned turns = 0;
    while (ftk_det_counts() && number > 0 && !(number & FTK_DET_OF_BEFORE)) {
        const enum ftk_cancel_known known = cancel_of(number);
        if (known != FTK_CANCEL_UNKNOWN || !ftk_mode_await(&turns))
            return known;
    }
    return FTK_CANCEL_UNKNOWN;
}

void ftk_det_pass_own(size_t i)
{
    ftk_det_course.plan = i + 1;
    ftk_det_course.at = ftk_det_course.at > i ? ftk_det_course.at : i + 1;
}
