/* The redundancy schemes of the memory levels: one line each.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A line makes the number of the scheme, the word of the configuration with its documentation, and
 * the entry in the table of set/scheme.c.  The file of a scheme, such as set/scheme_buddy.c,
 * defines the operations, const struct ftk_scheme_ops ftk_scheme_<word>. */
#ifndef FTK_SCHEMES_H
#define FTK_SCHEMES_H

#include <stdbool.h>

#define FTK_PARITIES_ASKED (-1) /* the number of level.*.parity */

/* number, word, copies of a segment at other ranks, parities of a group, documentation after "How
 * sets survive in memory: " */
#define FTK_SCHEME_LIST(X)                                                                         \
    X(NONE, none, 0, 0, "not at all")                                                              \
    X(OWN, own, 0, 0, ", in an own copy")                                                          \
    X(BUDDY, buddy, 1, 0, ", also in a buddy's")                                                   \
    X(XOR, xor, 0, 1, ", by the parity of a group of nodes")                                       \
    X(RS, rs, 0, FTK_PARITIES_ASKED, ", by Reed-Solomon parities of a group")

enum ftk_scheme_number {
#define NUMBER(NAME, word, copies, parities, doc) FTK_SCHEME_##NAME,
    FTK_SCHEME_LIST(NUMBER)
#undef NUMBER
        FTK_SCHEMES
};

struct ftk_scheme_facts {
    const char *word;
    int copies;
    int parities; /* 0: none, FTK_PARITIES_ASKED, or their number */
};

/* Of an enum ftk_scheme_number. */
static inline const struct ftk_scheme_facts *ftk_scheme_facts(int scheme)
{
#define FACTS(NAME, word, copies, parities, doc) { #word, copies, parities },
    static const struct ftk_scheme_facts all[] = { FTK_SCHEME_LIST(FACTS) };
#undef FACTS
    return &all[scheme];
}

/* Whether a level with this scheme keeps sets. */
static inline bool ftk_scheme_keeps(int scheme)
{
    return scheme != FTK_SCHEME_NONE;
}

/* Whether other ranks have a copy or parity of a segment. */
static inline bool ftk_scheme_shares(int scheme)
{
    return ftk_scheme_facts(scheme)->copies > 0 || ftk_scheme_facts(scheme)->parities != 0;
}

#endif
