/* The reader of failure logs: a log that is taken has records that make sense, and a log that is
 * not taken has a message.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

#include <math.h>
#include <stdarg.h>

#include "failures.h"

/* Of the ftkit program, which prints them. */
static char said[4096];

void ftk_tool_say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(said, sizeof said, fmt, ap); /* the text may be cut off */
    va_end(ap);
}

const char *ftk_tool_why(const char *detail)
{
    return detail;
}

/* What ftkit failures and ftkit sim do with the records. */
static void use(struct ftk_failure_log *log)
{
    struct ftk_coalesce_failure *f = calloc(log->n + 1, sizeof *f);
    size_t n = log->n, failures, records = 0;
    MUST(f);
    for (size_t i = 0; i < n; i++) {
        MUST(log->v[i].node >= 0 && (size_t)log->v[i].node < log->nodes);
        MUST(isfinite(log->v[i].at_s) && !isnan(log->v[i].repair_s));
    }
    n = ftk_coalesce_same_node(log->v, n, 3600);
    MUST(n <= log->n && (n > 0) == (log->n > 0));
    failures = ftk_coalesce_together(log->v, n, 60, f);
    for (size_t i = 0; i < failures; i++) {
        MUST(f[i].nodes >= 1 && (size_t)f[i].nodes <= f[i].records);
        MUST(i == 0 || f[i].at_s >= f[i - 1].at_s);
        records += f[i].records;
    }
    MUST(records == n);
    free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char path[128];
    struct ftk_failure_log log;
    if (!path[0])
        snprintf(path, sizeof path, "%s/log.csv", fuzz_work());
    fuzz_write(path, data, bytes);
    said[0] = '\0';
    if (ftk_failures_read(path, NULL, &log) == TOOL_OK)
        use(&log);
    else
        MUST(strlen(said) > 0);
    ftk_failures_free(&log);
    return 0;
}
