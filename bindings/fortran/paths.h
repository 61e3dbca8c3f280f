/* See paths.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_FORTRAN_PATHS_H
#define FTKIT_FORTRAN_PATHS_H

#include "ftkit.h"

/* For a context that has just been opened: FTKIT_OK.  FTKIT_ERR_UNSUPPORTED: messages are logged,
 * and not all calls of Fortran reach the log; the context is then closed. */
int ftkit_f_paths(ftkit_ctx **ctx);

#endif
