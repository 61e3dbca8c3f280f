/* Lists of ranks in words.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_RANKS_H
#define FTK_RANKS_H

#include <stddef.h>

/* The ranks r with in[r] != 0 of n, for messages: "rank 3", "ranks 0, 1 and 5", "ranks 0-7 and
 * 12", "no rank"; what does not fit is counted: "ranks 0, 2 and 17 more".  text is of at least
 * 48 bytes.  Returns how many they are. */
int ftk_ranks_text(const int *in, int n, char *text, size_t bytes);

#endif
