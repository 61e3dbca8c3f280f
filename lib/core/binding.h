/* Functions for bindings to other languages, in addition to ftkit.h.  They are exported, because a
 * binding is a library of its own.  They are not part of the API: programs do not call them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_BINDING_H
#define FTK_BINDING_H

#include "ftkit.h"

/* Record an error that a binding has found, for ftkit_detail(ctx): its place in the source, its
 * code, and a text of one line.  ctx may be NULL.  Return the code. */
FTKIT_API int ftkit_binding_fail(
    ftkit_ctx *ctx, const char *file, int line, int code, const char *text);

/* ftkit_close().  unwinds: an exception has left the block of the context on this rank.  If the
 * other ranks do not come to this call, too, the rank counts as lost, and its process ends. */
FTKIT_API int ftkit_binding_close(ftkit_ctx **ctx, int unwinds);

/* ftkit_bind_comm() for a variable that holds a Fortran handle. */
FTKIT_API int ftkit_binding_bind_comm(ftkit_ctx *ctx, MPI_Fint *comm);

/* ftkit_register_comm(), _requests(), _messages() or _window() for n variables that hold Fortran
 * handles. */
enum ftkit_binding_handle {
    FTKIT_BINDING_COMM,
    FTKIT_BINDING_REQUEST,
    FTKIT_BINDING_MESSAGE,
    FTKIT_BINDING_WINDOW
};
FTKIT_API int ftkit_binding_register_handles(
    ftkit_ctx *ctx, const char *name, enum ftkit_binding_handle kind, MPI_Fint *handles, size_t n);

/* ftkit_resize() with the type of the data.  FTKIT_ERR_TYPE: it is not the type of the region. */
FTKIT_API int ftkit_binding_resize(
    ftkit_ctx *ctx, const char *name, void *data, size_t count, MPI_Datatype type);

#endif
