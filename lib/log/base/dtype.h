/* Datatypes: their facts, packing and unpacking (base/dtype.c).
 *
 * Functions return MPI codes.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_DTYPE_H
#define FTK_LOG_DTYPE_H

#include "core/memory_kind.h"
#include "log/base/stage.h"
#include "log/log.h"

struct ftk_dtype {
    MPI_Datatype type;
    MPI_Aint bytes; /* of an item */
    bool dense;     /* an item is one piece without gaps */
    enum ftk_number {
        FTK_NUMBER_NONE, /* or of another kind */
        FTK_NUMBER_INT32,
        FTK_NUMBER_INT64,
        FTK_NUMBER_FLOAT,
        FTK_NUMBER_DOUBLE
    } number; /* with or without a sign */
};

/* The facts of the types used last (base/dtype.c). */
#define FTK_DTYPE_LAST 64
extern struct ftk_dtype ftk_dtype_last[FTK_DTYPE_LAST];
static inline struct ftk_dtype *ftk_dtype_slot(MPI_Datatype type)
{
    return &ftk_dtype_last[((uintptr_t)type >> 6) % FTK_DTYPE_LAST];
}
int ftk_dtype_look_up(MPI_Datatype type, struct ftk_dtype *f);
/* *out is valid until the type is forgotten, or another type takes its slot. */
static inline int ftk_dtype_facts(MPI_Datatype type, const struct ftk_dtype **out)
{
    struct ftk_dtype *f = ftk_dtype_slot(type);
    *out = f;
    return f->type == type ? MPI_SUCCESS : ftk_dtype_look_up(type, f);
}
/* Whether the bytes of items at buf are one piece that this process can read itself. */
static inline bool ftk_dtype_is_flat(const struct ftk_dtype *f, const void *buf)
{
    return f->dense && ftk_memory_is_host(ftk_memory_kind_of(buf));
}
void ftk_dtype_forget(MPI_Datatype type);
static inline int ftk_dtype_size(int count, MPI_Datatype type, size_t *bytes)
{
    const struct ftk_dtype *f;
    const int rc = ftk_dtype_facts(type, &f);
    *bytes = rc == MPI_SUCCESS ? (size_t)count * (size_t)f->bytes : 0;
    return rc;
}
int ftk_dtype_pack_gaps(const void *buf, int count, MPI_Datatype type, void *to, size_t bytes);
/* Pack count items of a type whose facts are known. */
static inline int ftk_dtype_pack_known(
    const struct ftk_dtype *f, const void *buf, int count, void *to, size_t bytes)
{
    if (bytes > 0 && !f->dense)
        return ftk_dtype_pack_gaps(buf, count, f->type, to, bytes);
    if (bytes == 0)
        return MPI_SUCCESS;
    int rc = ftk_memory_copy_out(ftk_memory_kind_of(buf), to, buf, bytes);
    return rc == FTKIT_OK ? MPI_SUCCESS : ftk_stage_failed(rc);
}
int ftk_dtype_pack(const void *buf, int count, MPI_Datatype type, void *to, size_t bytes);
int ftk_dtype_unpack(const void *from, size_t bytes, void *buf, int count, MPI_Datatype type);
/* A communicator of this process alone, for copies: the program may be using MPI_COMM_SELF.  It
 * returns errors, and has no attributes. */
int ftk_dtype_self(MPI_Comm *out);
/* Copy from one type into another by a message to this process itself, which allows incomplete
 * items and any length. */
int ftk_dtype_convert(
    const void *from, int nfrom, MPI_Datatype as, void *to, int nto, MPI_Datatype type);
/* Pack into memory of the heap: *copy is the caller's to free, also on error. */
int ftk_dtype_packed(const void *buf, int count, MPI_Datatype type, char **copy, size_t *bytes);
/* The same for so many bytes that a receive has got; the last item may be incomplete, and is packed
 * whole. */
int ftk_dtype_packed_part(const void *buf, size_t bytes, MPI_Datatype type, char **copy);
/* A type and a count for so many bytes, which may be more than INT_MAX.  Free the type after the
 * call of MPI, also on error. */
int ftk_dtype_bytes(size_t bytes, int *count, MPI_Datatype *type);
void ftk_dtype_bytes_free(MPI_Datatype *type);

#endif
