/* Progress of requests, and their end.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that return int return MPI codes, unless their comment says otherwise. */
#ifndef FTK_LOG_PROGRESS_H
#define FTK_LOG_PROGRESS_H

#include "log/request/request.h"

/* Wait for all requests on vc. */
int ftk_req_wait_all(const struct ftk_vcomm *vc);
/* Progress without a request that the caller waits for (log_ops.h: keep_going). */
void ftk_req_keep_going(void);

/* All requests under way end with an error, and so do all calls from now on. */
void ftk_log_begin_rollback(void);

#endif
