/* Short operations on memory that this process has mapped (quick.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An operation of a few bytes takes less time than the checks of rma.c and the cases of direct.c.
 * Here is the most frequent case alone: the target is locked, its memory is mapped, no operation on
 * it is under way, and the items are of one predefined type without gaps.  The rules are those of
 * direct.c.  Each other case takes the long way. */
#include <string.h>

#include "log/base/dtype.h"
#include "log/log.h"
#include "log/win/near.h"
#include "log/win/passive.h"
#include "log/win/quick.h"

/* Items in the memory of this process. */
struct place {
    struct ftk_win *w;
    char *at;
    size_t bytes;
    enum ftk_number number; /* of the type */
};

static bool is_usual(const struct ftk_win *w, int target)
{
    return w && w->near && !ftk_log_is_rolling_back() && !ftk_log_replays_setup()
           && !ftk_log.line.none_yet && target >= 0 && target < w->vc->size
           && ftk_win_is_locked(w, target) && !ftk_win_awaits(w, target);
}

/* Whether the items are in the window of the target: *offset bytes behind its begin. */
static bool is_inside(const struct ftk_win_place *p, MPI_Aint disp, size_t bytes, int64_t *offset)
{
    return disp >= 0 && !__builtin_mul_overflow((int64_t)disp, p->unit, offset)
           && *offset <= p->size && bytes <= (uint64_t)(p->size - *offset);
}

static bool find(const struct ftk_win_items *i, const void *buf, struct place *p)
{
    const struct ftk_dtype *f = ftk_dtype_slot(i->type);
    int64_t offset;
    p->w = ftk_win_find(i->win);
    if (!is_usual(p->w, i->target) || i->count <= 0 || f->type != i->type
        || !ftk_dtype_is_flat(f, buf))
        return false;
    p->bytes = (size_t)i->count * (size_t)f->bytes;
    p->number = f->number;
    if (p->bytes == 0 || !is_inside(&p->w->place[i->target], i->disp, p->bytes, &offset))
        return false;
    char *const memory = ftk_win_near_memory(p->w, i->target);
    p->at = memory + (memory ? offset : 0);
    if (memory)
        (void)FTK_FAULT("win.direct");
    return memory != NULL;
}

/* Eight bytes go at once: another rank may wait for them. */
static void copy(char *to, const char *from, size_t bytes)
{
    if (bytes == sizeof(uint64_t))
        memcpy(to, from, sizeof(uint64_t));
    else
        memmove(to, from, bytes); /* of the own rank both may be in the window */
}

bool ftk_win_quick_put(const struct ftk_win_items *i, const void *from)
{
    struct place p;
    if (!find(i, from, &p))
        return false;
    copy(p.at, from, p.bytes);
    ftk_win_near_opened(p.w, i->target, false);
    return true;
}

bool ftk_win_quick_get(const struct ftk_win_items *i, void *to)
{
    struct place p;
    if (!find(i, to, &p))
        return false;
    copy(to, p.at, p.bytes);
    ftk_win_near_opened(p.w, i->target, true);
    return true;
}

/* ---- combining ----------------------------------------------------------------------- */

#define ADD(type)                                                                                  \
    do {                                                                                           \
        type a, b;                                                                                 \
        memcpy(&a, at, sizeof a);                                                                  \
        memcpy(&b, from, sizeof b);                                                                \
        a += b;                                                                                    \
        memcpy(at, &a, sizeof a);                                                                  \
    } while (0)

/* As MPI_Reduce_local: the numbers of the MPI wrap. */
static void add(enum ftk_number number, char *at, const void *from)
{
    if (number == FTK_NUMBER_INT32)
        ADD(uint32_t);
    else if (number == FTK_NUMBER_INT64)
        ADD(uint64_t);
    else if (number == FTK_NUMBER_FLOAT)
        ADD(float);
    else
        ADD(double);
}

bool ftk_win_quick_combine(const struct ftk_win_items *i, MPI_Op op, const void *from, void *old)
{
    struct place p;
    const void *const buf = op == MPI_NO_OP ? old : from;
    if ((op != MPI_SUM && op != MPI_REPLACE && (op != MPI_NO_OP || !old)) || !find(i, buf, &p)
        || p.number == FTK_NUMBER_NONE || !ftk_memory_is_host(ftk_memory_kind_of(old))
        || !ftk_win_near_lock(p.w, i->target))
        return false;
    char was[sizeof(uint64_t)];
    memcpy(was, p.at, p.bytes);
    (void)FTK_FAULT("win.combine");
    if (op == MPI_SUM)
        add(p.number, p.at, from);
    else if (op == MPI_REPLACE)
        memcpy(p.at, from, p.bytes);
    ftk_win_near_unlock(p.w, i->target);
    if (old)
        memcpy(old, was, p.bytes);
    ftk_win_near_opened(p.w, i->target, old != NULL);
    return true;
}

bool ftk_win_quick_swap(
    const struct ftk_win_items *i, const void *from, const void *compare, void *old)
{
    struct place p;
    char was[sizeof(uint64_t)];
    if (!find(i, from, &p) || p.bytes > sizeof was
        || !ftk_memory_is_host(ftk_memory_kind_of(compare))
        || !ftk_memory_is_host(ftk_memory_kind_of(old)) || !ftk_win_near_lock(p.w, i->target))
        return false;
    memcpy(was, p.at, p.bytes);
    (void)FTK_FAULT("win.combine");
    if (memcmp(was, compare, p.bytes) == 0)
        memcpy(p.at, from, p.bytes);
    ftk_win_near_unlock(p.w, i->target);
    memcpy(old, was, p.bytes);
    ftk_win_near_opened(p.w, i->target, true);
    return true;
}
