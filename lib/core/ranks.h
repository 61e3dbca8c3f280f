/* Lists of ranks in words.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_RANKS_H
#define FTK_RANKS_H

#include <stddef.h>

/* Write the ranks r < n with in[r] != 0 to text, for messages: "rank 3", "ranks 0, 1 and 5",
 * "ranks 0-7 and 12", "no rank".  Ranks that do not fit are counted: "ranks 0, 2 and 17 more".
 * bytes is at least 48.  Return the number of ranks. */
int ftk_ranks_text(const int *in, int n, char *text, size_t bytes);

#endif
