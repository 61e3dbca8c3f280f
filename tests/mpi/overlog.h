/* Programs that check calls of MPI run over the message log as well, when FTKIT_LOG_ENABLED
 * is true.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef OVERLOG_H
#define OVERLOG_H

#include <stdlib.h>
#include <string.h>

#include "ftkit.h"

/* Open a context whose log the calls go through from now on; *ft stays NULL when there is to
 * be none.  The code of ftkit, negative for an error. */
static int overlog_open(ftkit_ctx **ft)
{
    const char *on = getenv("FTKIT_LOG_ENABLED");
    *ft = NULL;
    if (!on || strcmp(on, "true") != 0)
        return FTKIT_OK;
    int rc = ftkit_open(MPI_COMM_WORLD, NULL, ft);
    if (rc == FTKIT_OK)
        rc = ftkit_recover(*ft, NULL);
    if (rc >= 0)
        rc = ftkit_checkpoint(*ft); /* the teams count from the first set on */
    return rc;
}

#endif
