/* What bindings to other languages need of the library beside ftkit.h.  Exported, because a
 * binding is a library of its own, but no part of the API: programs do not call it.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_BINDING_H
#define FTK_BINDING_H

#include "ftkit.h"

/* Record what a binding found wrong, for ftkit_detail(ctx), as the library does with what it
 * finds itself: where, and a text of one line.  ctx may be NULL.  Returns the code. */
FTKIT_API int ftkit_binding_fail(
    ftkit_ctx *ctx, const char *file, int line, int code, const char *text);

/* ftkit_bind_comm() for a variable that holds a Fortran handle. */
FTKIT_API int ftkit_binding_bind_comm(ftkit_ctx *ctx, MPI_Fint *comm);

/* ftkit_register_comm() for a variable that holds a Fortran handle. */
FTKIT_API int ftkit_binding_register_comm(ftkit_ctx *ctx, const char *name, MPI_Fint *comm);

/* ftkit_resize() for data of a type that is known: FTKIT_ERR_TYPE when it is not the region's. */
FTKIT_API int ftkit_binding_resize(
    ftkit_ctx *ctx, const char *name, void *data, size_t count, MPI_Datatype type);

#endif
