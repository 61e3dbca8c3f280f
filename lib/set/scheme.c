/* The table of the redundancy schemes (see scheme.h); its lines are in core/schemes.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "scheme.h"

#include <assert.h>

#include "core/ftk.h"

#define DECLARE(NAME, word, copies, parities, doc)                                                 \
    extern const struct ftk_scheme_ops ftk_scheme_##word;
FTK_SCHEME_LIST(DECLARE)
#undef DECLARE

const struct ftk_scheme *ftk_scheme_of(int number)
{
#define LINE(NAME, word, copies, parities, doc) { copies, parities, &ftk_scheme_##word },
    static const struct ftk_scheme all[] = { FTK_SCHEME_LIST(LINE) };
#undef LINE
    assert(number >= 0 && number < FTK_SCHEMES);
    return &all[number];
}

int ftk_scheme_place(
    const struct ftk_scheme *s, int map, int nranks, const int *domain, int *holder)
{
    for (int i = 0; i < s->copies * nranks; i++)
        holder[i] = -1;
    return s->copies > 0 ? s->ops->place(map, nranks, domain, holder) : FTKIT_OK;
}
