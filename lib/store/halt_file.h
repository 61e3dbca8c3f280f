/* The file of `ftkit halt`: a request to the job that owns the sets of a context.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     <dir>/<context>.ftkit/halt
 *
 *     job = 0123456789abcdef     the job that is asked (store/owner.h)
 *
 * The file names the job: a file that is left from an earlier job halts no other. */
#ifndef FTK_HALT_FILE_H
#define FTK_HALT_FILE_H

#include "core/ftk.h"

/* Whether the file asks this job. */
bool ftk_halt_file_asks(const char *dir, const char *context, uint64_t job);
/* Ask this job; an error has the path in its detail. */
int ftk_halt_file_write(const char *dir, const char *context, uint64_t job);
/* Remove the file; a missing one, or an error, does no harm. */
void ftk_halt_file_remove(const char *dir, const char *context);

#endif
