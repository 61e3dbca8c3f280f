/* See paths.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_FORTRAN_PATHS_H
#define FTKIT_FORTRAN_PATHS_H

#include "ftkit.h"

/* For a context that has just been opened: FTKIT_OK, or FTKIT_ERR_UNSUPPORTED when messages
 * are logged and not all calls of Fortran come to the log; the context is closed then. */
int ftkit_f_paths(ftkit_ctx **ctx);

#endif
