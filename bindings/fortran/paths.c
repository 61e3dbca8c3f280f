/* Whether the MPI calls of a Fortran program reach the message log.
 *
 * ftkit_open() of the library checks the calls of C.  Calls of Fortran have entry points of their
 * own, which bypass a layer in C.  If libftkit_mpi is not linked before the Fortran libraries of
 * the MPI, messages are missing in the log, and only a failure would show that.  So this file
 * sends one message by mpif.h and one by mpi_f08, to MPI_PROC_NULL, and asks libftkit_mpi how many
 * calls it has seen.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "paths.h"

#include <stdio.h>

#if __has_include("mpi_calls.h") /* the log is there */
#include "core/binding.h"
#include "log/base/find_layer.h"

/* In send_mpifh.f90 and send_f08.f90. */
void ftkit_f_send_mpifh(void);
void ftkit_f_send_f08(void);

static unsigned long seen(void)
{
    bool other;
    const struct ftk_mpi_layer *layer = ftk_layer_find(&other);
    return layer ? *layer->entered + *layer->fortran : 0;
}

int ftkit_f_paths(ftkit_ctx **ctx)
{
    static const struct {
        void (*send)(void);
        const char *what;
    } ways[] = { { ftkit_f_send_mpifh, "mpif.h and the module mpi" },
        { ftkit_f_send_f08, "mpi_f08" } };
    ftkit_info info = { .size = sizeof info };
    if (ftkit_query(*ctx, &info) != FTKIT_OK || info.mode != FTKIT_MODE_TEAM)
        return FTKIT_OK;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char text[300];
        unsigned long before = seen();
        ways[i].send();
        if (seen() > before)
            continue;
        (void)ftkit_close(ctx); /* the reason for closing is returned, not this code */
        snprintf(text, sizeof text,
            "ftkit_open: log.enabled: MPI calls of %s do not come to the log: libftkit_mpi has to "
            "come before the Fortran libraries of the MPI, or start with `ftkit run --log`",
            ways[i].what);
        return ftkit_binding_fail(NULL, __FILE__, __LINE__, FTKIT_ERR_UNSUPPORTED, text);
    }
    return FTKIT_OK;
}
#else
int ftkit_f_paths(ftkit_ctx **ctx)
{
    (void)ctx;
    return FTKIT_OK;
}
#endif
