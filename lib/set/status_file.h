/* The file for `ftkit status`: DIR/NAME.ftkit/status.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Lines "key = value", replaced as a whole by rename().  Rank 0 writes the file after
 * a look or a set, at most every report.status.  So the file grows old when the program makes no
 * progress. */
#ifndef FTK_STATUS_FILE_H
#define FTK_STATUS_FILE_H

#include <stdint.h>

#define FTK_STATUS_FILE "status"

struct ftkit_ctx;

struct ftk_status_file {
    double due_s;     /* when the file is due; HUGE_VAL: it cannot be written */
    uint64_t durable; /* newest durable set in the file ... */
    double durable_s; /* ... and when it was first there, seconds since 1970 */
    uint64_t seen;    /* line apart: set that was committed at the last call */
};

/* Write the file with the state "running", if it is due.  Rank 0 only; an error ends the file with
 * a warning. */
void ftk_status_file(struct ftkit_ctx *ctx);
/* Write the file now.  state: halted, closed or ended. */
void ftk_status_file_last(struct ftkit_ctx *ctx, const char *state);

#endif
