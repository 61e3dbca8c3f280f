/* Facts about the redundancy schemes (see schemes.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "schemes.h"

#include <assert.h>

const struct ftk_scheme_facts *ftk_scheme_facts(int scheme)
{
#define FACTS(NAME, word, copies, parities, doc) { #word, copies, parities },
    static const struct ftk_scheme_facts all[] = { FTK_SCHEME_LIST(FACTS) };
#undef FACTS
    assert(scheme >= 0 && scheme < FTK_SCHEMES);
    return &all[scheme];
}

bool ftk_scheme_keeps(int scheme)
{
    return scheme != FTK_SCHEME_NONE;
}

bool ftk_scheme_shares(int scheme)
{
    const struct ftk_scheme_facts *f = ftk_scheme_facts(scheme);
    return f->copies > 0 || f->parities != 0;
}
