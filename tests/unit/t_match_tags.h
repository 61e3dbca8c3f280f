/* What t_match_tags.c and t_match_changes.c share: receives with any tag, and messages that arrive.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef T_MATCH_TAGS_H
#define T_MATCH_TAGS_H

#include "t_match_log.h"

static const struct op any_source = { .context = 0, .source = MPI_ANY_SOURCE, .tag = 0 };
static const struct op any_tag = { .context = 0, .source = 1, .tag = MPI_ANY_TAG };
static const struct op from_one = { .context = 0, .source = 1, .tag = 1 };

static inline void arrive_all(int from, int upto)
{
    for (int i = from; i < upto; i++)
        arrive_one(&sent[i]);
}

/* The message that a test of receive k finds.  The messages 0 to upto come whole one by one until
 * then. */
static inline uint64_t test_again(int k, int upto)
{
    uint64_t got = step_test(k);
    for (int i = 0; got == NOTHING && i <= upto; i++) {
        sent[i].whole = sent[i].whole || sent[i].place == MATCHED;
        got = step_test(k);
    }
    return got;
}

#endif
