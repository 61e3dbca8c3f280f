/* Which rank does which unit (see hand.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/units/hand.h"

#include <stdlib.h>

bool ftk_hand_begin(struct ftk_hand *h, size_t n)
{
    *h = (struct ftk_hand){ .n = n, .state = calloc(n > 0 ? n : 1, 1), .high = n, .open = n };
    return h->state != NULL;
}

void ftk_hand_end(struct ftk_hand *h)
{
    free(h->state);
    *h = (struct ftk_hand){ 0 };
}

/* The first unit of the state; there is one. */
static ptrdiff_t first(struct ftk_hand *h, enum ftk_hand_state state)
{
    while (h->state[h->low] == FTK_HAND_DONE)
        h->low++;
    size_t i = h->low;
    while (h->state[i] != state)
        i++;
    return (ptrdiff_t)i;
}

ptrdiff_t ftk_hand_next(struct ftk_hand *h)
{
    if (h->open > 0)
        return first(h, FTK_HAND_OPEN);
    return h->given > 0 ? first(h, FTK_HAND_GIVEN) : FTK_HAND_NONE;
}

ptrdiff_t ftk_hand_give(struct ftk_hand *h)
{
    if (h->open <= 1)
        return FTK_HAND_NONE;
    while (h->state[h->high - 1] != FTK_HAND_OPEN)
        h->high--;
    h->state[--h->high] = FTK_HAND_GIVEN;
    h->open--;
    h->given++;
    return (ptrdiff_t)h->high;
}

void ftk_hand_take(struct ftk_hand *h, size_t i)
{
    if (i >= h->n || h->state[i] != FTK_HAND_GIVEN)
        return;
    h->state[i] = FTK_HAND_OPEN;
    h->given--;
    h->open++;
    h->high = h->high > i ? h->high : i + 1;
}

/* Unit i leaves its state. */
static void leave(struct ftk_hand *h, size_t i)
{
    h->open -= h->state[i] == FTK_HAND_OPEN;
    h->given -= h->state[i] == FTK_HAND_GIVEN;
}

bool ftk_hand_done(struct ftk_hand *h, size_t i)
{
    if (i >= h->n || h->state[i] == FTK_HAND_DONE)
        return false;
    leave(h, i);
    h->state[i] = FTK_HAND_DONE;
    return true;
}

void ftk_hand_cut(struct ftk_hand *h, size_t i)
{
    while (h->n > i)
        leave(h, --h->n);
    h->high = h->high < i ? h->high : i;
}
