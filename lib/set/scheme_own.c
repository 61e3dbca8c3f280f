/* The schemes none, own, xor and rs: no copy of a segment is at another rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>

#include "scheme.h"

extern const struct ftk_scheme_ops ftk_scheme_none, ftk_scheme_own, ftk_scheme_xor, ftk_scheme_rs;
const struct ftk_scheme_ops ftk_scheme_none = { NULL };
const struct ftk_scheme_ops ftk_scheme_own = { NULL };
const struct ftk_scheme_ops ftk_scheme_xor = { NULL };
const struct ftk_scheme_ops ftk_scheme_rs = { NULL };
