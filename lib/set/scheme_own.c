/* The schemes none and own: nothing of a segment is at other ranks.  With none, a set stays in
 * memory only until it is in the files.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "write.h"

extern const struct ftk_scheme_ops ftk_scheme_none, ftk_scheme_own;
const struct ftk_scheme_ops ftk_scheme_none = { .write = &ftk_write_copies };
const struct ftk_scheme_ops ftk_scheme_own = { .write = &ftk_write_copies };
