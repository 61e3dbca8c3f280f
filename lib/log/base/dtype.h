/* Datatypes: their facts, packing and unpacking (base/dtype.c).
 *
 * Functions return MPI codes.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_DTYPE_H
#define FTK_LOG_DTYPE_H

#include "core/memory_kind.h"
#include "log/log.h"

struct ftk_type_facts {
    MPI_Datatype type;
    MPI_Aint bytes; /* of an item */
    bool dense;     /* an item is one piece without gaps */
};

/* The facts of the types used last (base/dtype.c). */
#define FTK_TYPES_LAST 64
extern struct ftk_type_facts ftk_types_last[FTK_TYPES_LAST];
static inline struct ftk_type_facts *ftk_types_slot(MPI_Datatype type)
{
    return &ftk_types_last[((uintptr_t)type >> 6) % FTK_TYPES_LAST];
}
int ftk_p2p_look_up_facts(MPI_Datatype type, struct ftk_type_facts *f);
/* *out is valid until the type is forgotten, or another type takes its slot. */
static inline int ftk_p2p_facts(MPI_Datatype type, const struct ftk_type_facts **out)
{
    struct ftk_type_facts *f = ftk_types_slot(type);
    *out = f;
    return f->type == type ? MPI_SUCCESS : ftk_p2p_look_up_facts(type, f);
}
/* Whether the bytes of items at buf are one piece that this process can read itself. */
static inline bool ftk_p2p_is_flat(const struct ftk_type_facts *f, const void *buf)
{
    return f->dense && ftk_memory_is_host(ftk_memory_kind_of(buf));
}
void ftk_p2p_forget_type(MPI_Datatype type);
int ftk_p2p_bytes(int count, MPI_Datatype type, size_t *bytes);
int ftk_p2p_pack_gaps(const void *buf, int count, MPI_Datatype type, void *to, size_t bytes);
/* Pack count items of a type whose facts are known. */
static inline int ftk_p2p_pack_known(
    const struct ftk_type_facts *f, const void *buf, int count, void *to, size_t bytes)
{
    if (bytes > 0 && !f->dense)
        return ftk_p2p_pack_gaps(buf, count, f->type, to, bytes);
    if (bytes == 0)
        return MPI_SUCCESS;
    int rc = ftk_memory_copy_out(ftk_memory_kind_of(buf), to, buf, bytes);
    return rc == FTKIT_OK ? MPI_SUCCESS : MPI_ERR_BUFFER;
}
int ftk_p2p_pack(const void *buf, int count, MPI_Datatype type, void *to, size_t bytes);
int ftk_p2p_unpack(const void *from, size_t bytes, void *buf, int count, MPI_Datatype type);
/* Pack into memory of the heap: *copy is the caller's to free, also on error. */
int ftk_p2p_packed(const void *buf, int count, MPI_Datatype type, char **copy, size_t *bytes);
/* The same for so many bytes that a receive has got; the last item may be incomplete, and is packed
 * whole. */
int ftk_p2p_packed_part(const void *buf, size_t bytes, MPI_Datatype type, char **copy);
/* A type and a count for so many bytes, which may be more than INT_MAX.  Free the type after the
 * call of MPI, also on error. */
int ftk_p2p_bytes_type(size_t bytes, int *count, MPI_Datatype *type);
void ftk_p2p_bytes_type_free(MPI_Datatype *type);

#endif
