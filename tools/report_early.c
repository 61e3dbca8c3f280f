/* Lines of processes that have not opened the context yet.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A replacement gets its rank in a repair, and writes the line of the repair before the line with
 * which it opens the context.  Only the latter says which run the process belongs to.  So the
 * former waits here. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { LINES_MAX = 1 << 16 };

void ftk_rp_early_keep(struct rp_log *log, int file, int64_t pid, const char *line, size_t n)
{
    struct rp_early_lines *l = &log->early;
    if (l->n == LINES_MAX) {
        log->of_others++;
        return;
    }
    l->v = ftk_tool_grow(l->v, l->n, &l->room, sizeof l->v[0]);
    struct rp_early *x = &l->v[l->n++];
    *x = (struct rp_early){ .file = file, .pid = pid, .line = ftk_tool_alloc(n + 1), .bytes = n };
    memcpy(x->line, line, n);
}

void ftk_rp_early_take(struct rp_log *log, int file, int64_t pid, ftk_rp_early_fn *fn, void *arg)
{
    struct rp_early_lines *l = &log->early;
    size_t left = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct rp_early x = l->v[i];
        if (x.file != file || x.pid != pid) {
            l->v[left++] = x;
            continue;
        }
        fn(log, x.line, x.bytes, arg);
        free(x.line);
    }
    l->n = left;
}

void ftk_rp_early_end(struct rp_log *log)
{
    log->of_others += log->early.n; /* of processes that never opened a context */
    for (size_t i = 0; i < log->early.n; i++)
        free(log->early.v[i].line);
    free(log->early.v);
    log->early = (struct rp_early_lines){ 0 };
}
