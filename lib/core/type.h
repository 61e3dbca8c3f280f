/* MPI datatypes as ftkit saves them: packed items of one basic type.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_TYPE_H
#define FTK_TYPE_H

#include "basic.h"
#include "ftk.h"
#include "memory_kinds.h"

struct ftk_type {
    MPI_Datatype mpi;   /* own duplicate of a derived type, else the predefined one */
    bool owned;         /* mpi must be freed */
    bool contiguous;    /* items follow each other without holes: memcpy() packs them */
    size_t item_bytes;  /* packed size of one item */
    ptrdiff_t extent;   /* distance of items in memory */
    ptrdiff_t span_lb;  /* first byte touched by item 0, relative to its address */
    ptrdiff_t span_end; /* end of the last byte touched; may lie beyond the extent */
    uint32_t basic;     /* enum ftk_basic; FTK_T_OPAQUE when items mix basic types */
};

/* Describe t.  FTKIT_ERR_TYPE for MPI_DATATYPE_NULL and empty types.  The pair types of
 * MPI_MINLOC are opaque. */
int ftk_type_make(MPI_Datatype t, struct ftk_type *out);
void ftk_type_free(struct ftk_type *t);

/* Return the bytes of memory that count items take, from the address of the first item; SIZE_MAX:
 * more than any memory.  For types that touch no byte in front of their address. */
size_t ftk_type_room(const struct ftk_type *t, size_t count);

/* Copy count items at data, which is memory of that kind, into out [count * item_bytes], or back.
 * count may be larger than an int: MPI gets pieces.  MPI gets host memory only: of other memory a
 * piece with its holes is copied first.  FTKIT_ERR_MPI; FTKIT_ERR_TYPE: an item with holes is
 * larger than 2 GiB, or lies in front of the item before, in memory of another kind. */
int ftk_type_pack(const struct ftk_type *t, enum ftk_memory_kind memory, const void *data,
    size_t count, void *out);
int ftk_type_unpack(const struct ftk_type *t, enum ftk_memory_kind memory, const void *in,
    size_t count, void *data);

#endif
