/* Rounds of determinants to keepers (see rounds.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "rounds.h"

bool ftk_rounds_holds(const struct ftk_rounds *r, bool leaves, bool stable)
{
    return leaves && (r->holding > 0 || !stable);
}

uint64_t ftk_rounds_hold(struct ftk_rounds *r)
{
    r->holding++;
    return ftk_rounds_next(r);
}

uint64_t ftk_rounds_next(const struct ftk_rounds *r)
{
    return r->round + 1; /* a round under way does not have all determinants */
}

bool ftk_rounds_is_over(const struct ftk_rounds *r, uint64_t round)
{
    return round <= r->done;
}

bool ftk_rounds_is_due(const struct ftk_rounds *r)
{
    return r->holding > 0 && r->pending == 0;
}

void ftk_rounds_begin(struct ftk_rounds *r)
{
    r->round++;
}

void ftk_rounds_sent(struct ftk_rounds *r)
{
    r->pending++;
}

void ftk_rounds_begun(struct ftk_rounds *r)
{
    if (r->pending == 0)
        r->done = r->round; /* other ranks of this node have sent everything */
}

bool ftk_rounds_counts(const struct ftk_rounds *r, uint64_t round)
{
    return round == r->round && r->pending > 0;
}

void ftk_rounds_acknowledged(struct ftk_rounds *r)
{
    if (--r->pending == 0)
        r->done = r->round;
}

void ftk_rounds_end(struct ftk_rounds *r)
{
    r->pending = 0;
    r->done = r->round;
}

int ftk_rounds_keeper(const int *node, int n, int rank)
{
    int place = 0, size = 1, other = rank;
    do
        other = (other + 1) % n;
    while (other != rank && node[other] == node[rank]);
    if (other == rank)
        return -1;
    for (int q = 0; q < n; q++) {
        place += q < rank && node[q] == node[rank];
        size += q != other && node[q] == node[other];
    }
    place %= size;
    for (int q = 0; q < n; q++)
        if (node[q] == node[other] && place-- == 0)
            return q;
    return -1;
}
