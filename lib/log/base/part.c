/* The parts of the log that is open (see part.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/base/part.h"

#include <assert.h>
#include <string.h>

#include "log/base/control.h"
#include "set/region.h"

struct ftk_parts ftk_parts;

/* Add the kinds of control messages of a part to the register. */
static void add_controls(struct ftk_parts *t, const struct ftk_part *p, size_t *n)
{
    for (size_t i = 0; i < p->ncontrols; i++) {
        const struct ftk_control_kind *k = &p->controls[i];
        for (size_t j = 0; j < *n; j++) {
            assert(k->context != t->controls[j]->context || k->tag != t->controls[j]->tag);
            assert(
                k->context != t->controls[j]->context || k->of_state == t->controls[j]->of_state);
        }
        assert(*n + 1 < FTK_PARTS_MOST);
        t->controls[(*n)++] = k;
        t->in_band = t->in_band || k->context == FTK_CONTROL_IN_BAND;
        assert(!k->of_state || k->context != FTK_CONTROL_IN_BAND);
        if (k->of_state)
            t->of_state |= UINT64_C(1) << (k->context - FTK_LOG_PROGRAM_COMMS);
    }
}

static const struct ftk_part *serving(const struct ftk_part *p)
{
    return p->serves ? p->serves() : p;
}

void ftk_parts_list_progress(void)
{
    size_t n = 0;
    for (const struct ftk_part *const *p = ftk_parts.v; *p; p++)
        if ((*p)->progress && !((*p)->idle && (*p)->idle()))
            ftk_parts.progress[n++] = (*p)->progress;
    ftk_parts.progress[n] = NULL;
}

void ftk_parts_register(const struct ftk_part *const *all, size_t n)
{
    struct ftk_parts *t = &ftk_parts;
    size_t serve = 0, turn = 0, controls = 0;
    memset(t, 0, sizeof *t);
    for (size_t i = 0; i < n; i++)
        if (serving(all[i]))
            add_controls(t, serving(all[i]), &controls);
    for (size_t i = 0; i < n; i++) {
        const struct ftk_part *p = serving(all[i]); /* may depend on the kinds of messages */
        if (!p)
            continue;
        t->v[t->n++] = p;
        if (p->serve)
            t->serve[serve++] = p->serve;
        if (p->turn)
            t->turn[turn++] = p->turn;
        t->announces += p->announces;
    }
    ftk_parts_list_progress();
}

/* The body of a function that asks the parts until one of them fails. */
#define UNTIL_ERROR(operation, ...)                                                                \
    for (const struct ftk_part *const *p = ftk_parts.v; *p; p++) {                                 \
        const int rc = (*p)->operation ? (*p)->operation(__VA_ARGS__) : FTKIT_OK;                  \
        if (rc != FTKIT_OK)                                                                        \
            return rc;                                                                             \
    }                                                                                              \
    return FTKIT_OK

/* The body of a function that asks all parts, also after an error; `last` comes behind each. */
#define ALL(operation, last, ...)                                                                  \
    int rc = FTKIT_OK;                                                                             \
    for (const struct ftk_part *const *p = ftk_parts.v; *p; p++) {                                 \
        const int own = (*p)->operation ? (*p)->operation(__VA_ARGS__) : FTKIT_OK;                 \
        rc = rc == FTKIT_OK ? own : rc;                                                            \
        last;                                                                                      \
    }                                                                                              \
    return rc

/* The body of a function that asks parts that cannot fail. */
#define EACH(operation, ...)                                                                       \
    for (const struct ftk_part *const *p = ftk_parts.v; *p; p++)                                   \
        if ((*p)->operation)                                                                       \
    (*p)->operation(__VA_ARGS__)

int ftk_parts_regions(struct ftkit_ctx *ctx)
{
    int rc = FTKIT_OK;
    for (const struct ftk_part *const *p = ftk_parts.v; *p; p++)
        if (rc == FTKIT_OK && (*p)->region)
            rc = ftk_region_add_system(ctx, (*p)->region);
    return rc;
}

void ftk_parts_begin(void)
{
    EACH(begin);
}

int ftk_parts_open(int n)
{
    UNTIL_ERROR(open, n);
}

int ftk_parts_start(void)
{
    UNTIL_ERROR(start);
}

void ftk_parts_enter_loop(void)
{
    EACH(enter_loop);
}

void ftk_parts_stop(void)
{
    for (size_t i = ftk_parts.n; i > 0; i--)
        if (ftk_parts.v[i - 1]->stop)
            ftk_parts.v[i - 1]->stop();
}

void ftk_parts_forget(void)
{
    EACH(forget);
}

void ftk_parts_close(void)
{
    for (size_t i = ftk_parts.n; i > 0; i--)
        if (ftk_parts.v[i - 1]->close)
            ftk_parts.v[i - 1]->close();
    memset(&ftk_parts, 0, sizeof ftk_parts);
}

void ftk_parts_figures(ftkit_info *info)
{
    EACH(figures, info);
}

int ftk_parts_cut(bool apart)
{
    ALL(cut, (void)0, apart);
}

static void end_cut(const struct ftk_part *p)
{
    if (p->cut_over)
        p->cut_over();
}

void ftk_parts_line(enum ftk_pass kind, bool first)
{
    for (const struct ftk_part *const *p = ftk_parts.v; *p; p++) {
        if ((*p)->line)
            (*p)->line(kind, first);
        end_cut(*p);
    }
}

void ftk_parts_discard(void)
{
    for (const struct ftk_part *const *p = ftk_parts.v; *p; p++) {
        if ((*p)->discard)
            (*p)->discard();
        end_cut(*p);
    }
}

void ftk_parts_cut_over(void)
{
    EACH(cut_over);
}

void ftk_parts_freeze(void)
{
    EACH(freeze);
}

int ftk_parts_prepare(const struct ftk_log_repair *r)
{
    UNTIL_ERROR(prepare, r);
}

void ftk_parts_quiesce(const struct ftk_log_repair *r)
{
    EACH(quiesce, r);
}

void ftk_parts_announce(int rank, uint64_t *numbers)
{
    for (const struct ftk_part *const *p = ftk_parts.v; *p; numbers += (*p++)->announces)
        if ((*p)->announces > 0)
            (*p)->announce(rank, numbers);
}

void ftk_parts_announced(int rank, const uint64_t *numbers)
{
    for (const struct ftk_part *const *p = ftk_parts.v; *p; numbers += (*p++)->announces)
        if ((*p)->announces > 0)
            (*p)->announced(rank, numbers);
}

int ftk_parts_drain(const struct ftk_quiescing *q)
{
    UNTIL_ERROR(drain, q);
}

int ftk_parts_withdraw(const struct ftk_quiescing *q)
{
    UNTIL_ERROR(withdraw, q);
}

void ftk_parts_quiesced(void)
{
    EACH(quiesced);
}

int ftk_parts_exchange(const struct ftk_log_repair *r, uint64_t lines)
{
    UNTIL_ERROR(exchange, r, lines);
}

int ftk_parts_abandon(void)
{
    ALL(abandon, (void)0);
}

int ftk_parts_new_epoch(const struct ftk_log_repair *r)
{
    UNTIL_ERROR(new_epoch, r);
}

void ftk_parts_settle_set(const struct ftk_log_repair *r)
{
    EACH(settle_set, r);
}

int ftk_parts_install(const struct ftk_log_repair *r)
{
    UNTIL_ERROR(install, r);
}

int ftk_parts_stay(const struct ftk_log_repair *r)
{
    UNTIL_ERROR(stay, r);
}

void ftk_parts_set_up_over(void)
{
    EACH(set_up_over);
}

int ftk_parts_restored(void)
{
    ALL(restored, (void)0);
}

int ftk_parts_finish(void)
{
    UNTIL_ERROR(finish);
}

bool ftk_parts_send(void)
{
    for (const struct ftk_part *const *p = ftk_parts.v; *p; p++)
        if ((*p)->sends && (*p)->sends())
            return true;
    return false;
}

bool ftk_parts_may_sleep(void)
{
    if (ftk_parts_send())
        return false;
    for (const struct ftk_part *const *p = ftk_parts.v; *p; p++)
        if ((*p)->may_sleep && !(*p)->may_sleep())
            return false;
    return true;
}

int ftk_parts_roll_back(const struct ftk_rollback *b)
{
    ALL(roll_back, end_cut(*p), b);
}
