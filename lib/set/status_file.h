/* The file for `ftkit status`: DIR/NAME.ftkit/status.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Lines "key = value", replaced as a whole by rename().  Rank 0 writes the file in a look
 * (policy.c), at most every report.status.  So the file grows old when the program makes no
 * progress. */
#ifndef FTK_STATUS_FILE_H
#define FTK_STATUS_FILE_H

#define FTK_STATUS_FILE "status"

struct ftkit_ctx;

/* Write the file if it is due.  state: running, halted, closed or ended.  Rank 0 only; an error
 * ends the file with a warning. */
void ftk_status_file(struct ftkit_ctx *ctx, const char *state);

#endif
