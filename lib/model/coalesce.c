/* From the records of a failure log to failures of the machine.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "model/coalesce.h"

#include <stdlib.h>

static int by_time(const void *a, const void *b)
{
    const struct ftk_coalesce_record *x = a, *y = b;
    if (x->at_s < y->at_s || x->at_s > y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static int by_node(const void *a, const void *b)
{
    const struct ftk_coalesce_record *x = a, *y = b;
    return x->node != y->node ? (x->node > y->node) - (x->node < y->node) : by_time(a, b);
}

size_t ftk_coalesce_same_node(struct ftk_coalesce_record *v, size_t n, double window_s)
{
    size_t kept = 0;
    if (n > 0)
        qsort(v, n, sizeof *v, by_node);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || v[i].node != v[kept - 1].node || v[i].at_s - v[kept - 1].at_s > window_s)
            v[kept++] = v[i];
    if (kept > 0)
        qsort(v, kept, sizeof *v, by_time);
    return kept;
}

/* The failure of n records, n >= 1, the first of which is the earliest. */
static struct ftk_coalesce_failure failure_of(struct ftk_coalesce_record *v, size_t n)
{
    struct ftk_coalesce_failure f = {
        .at_s = v[0].at_s, .repair_s = v[0].repair_s, .nodes = 1, .records = n
    };
    qsort(v, n, sizeof *v, by_node);
    for (size_t i = 0; i < n; i++) {
        f.nodes += i > 0 && v[i].node != v[i - 1].node;
        f.repair_s = v[i].repair_s > f.repair_s ? v[i].repair_s : f.repair_s;
    }
    return f;
}

size_t ftk_coalesce_together(
    struct ftk_coalesce_record *v, size_t n, double window_s, struct ftk_coalesce_failure *out)
{
    size_t failures = 0;
    for (size_t first = 0, end; first < n; first = end) {
        double at = v[first].at_s;
        for (end = first + 1; end < n && (v[end].at_s - at < window_s || v[end].at_s <= at); end++)
            ;
        out[failures++] = failure_of(v + first, end - first);
    }
    return failures;
}
