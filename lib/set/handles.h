/* Variables of the program that hold handles of MPI: communicators, requests, matched messages,
 * windows.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A set has a number for each variable.  With the message log a restore sets the variable to the
 * object with that number; without the log to the null handle. */
#ifndef FTK_HANDLES_H
#define FTK_HANDLES_H

#include "core/log_ops.h"

struct ftk_handles {
    struct ftkit_ctx *ctx;
    enum ftk_handle_kind kind;
    bool fortran; /* the variables hold Fortran handles */
    void *at;     /* [n] variables of the program */
    size_t n;
    char name[FTKIT_NAME_MAX + 1]; /* of the region */
};

/* Handle i, for each kind. */
MPI_Request ftk_handles_request(const struct ftk_handles *h, size_t i);
MPI_Message ftk_handles_message(const struct ftk_handles *h, size_t i);
MPI_Win ftk_handles_window(const struct ftk_handles *h, size_t i);

/* The registered variables of a kind, one region after the other: the first with at = NULL; NULL
 * after the last. */
const struct ftk_handles *ftk_handles_next(
    const struct ftkit_ctx *ctx, enum ftk_handle_kind kind, const struct ftk_handles *at);

#endif
