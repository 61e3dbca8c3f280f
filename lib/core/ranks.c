/* Lists of ranks in words (see ranks.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "ranks.h"

#define REST_BYTES 40 /* " and 2147483647 more" and one item fit into these */

/* Write the item at r: one rank, or a range of at least three.  Returns its number of ranks. */
static int item_at(const int *in, int n, int r, char *text, size_t bytes)
{
    int end = r + 1;
    while (end < n && in[end])
        end++;
    if (end - r < 3)
        end = r + 1;
    if (end - r == 1)
        snprintf(text, bytes, "%d", r);
    else
        snprintf(text, bytes, "%d-%d", r, end - 1);
    return end - r;
}

int ftk_ranks_text(const int *in, int n, char *text, size_t bytes)
{
    int all = 0, named = 0;
    for (int r = 0; r < n; r++)
        all += in[r] != 0;
    size_t at = (size_t)snprintf(text, bytes, all == 0 ? "no rank" : all == 1 ? "rank " : "ranks ");
    for (int r = 0; r < n && named < all;) {
        char item[32];
        if (!in[r]) {
            r++;
            continue;
        }
        int k = item_at(in, n, r, item, sizeof item);
        const char *between = named == 0 ? "" : named + k == all ? " and " : ", ";
        if (named > 0 && at + REST_BYTES > bytes) {
            snprintf(text + at, bytes - at, " and %d more", all - named);
            break;
        }
        at += (size_t)snprintf(text + at, bytes - at, "%s%s", between, item);
        named += k;
        r += k;
    }
    return all;
}
