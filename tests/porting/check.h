/* What every port does with the codes of ftkit: it prints the negative ones and remembers them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHECK_H
#define CHECK_H

#include <ftkit.h>
#include <stdio.h>

static int errors;

static inline int check(ftkit_ctx *ft, int rc)
{
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", ftkit_strerror(rc), ftkit_detail(ft));
    errors += rc < 0;
    return rc;
}

#endif
