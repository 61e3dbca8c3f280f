/* Classes of errors, for programs of windows.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONFORM_ERRORS_H
#define CONFORM_ERRORS_H

#include "conform.h"

static int class_of(int rc)
{
    int class = -1;
    OK(MPI_Error_class(rc, &class));
    return class;
}
#define FAILS(class_, call) EQUAL(class_, class_of(call))

#endif
