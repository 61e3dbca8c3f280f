/* Cancels of receives with replicas.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that return int return MPI codes, unless their comment says otherwise. */
#ifndef FTK_LOG_CANCEL_H
#define FTK_LOG_CANCEL_H

#include "log/request/request.h"

/* Replicas: the program cancels a receive.  On return the outcome is that of the leader. */
int ftk_cancel_led(struct ftk_req *r);

#endif
