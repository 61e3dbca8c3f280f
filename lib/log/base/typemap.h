/* Datatypes as words, so that a set can have them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A predefined type is a number of the table in base/typemap.c.  A derived type is an entry in a
 * list: its constructor and the arguments of the constructor (MPI_Type_get_contents).  The types
 * that it is made of stand before it in the list, so the list has each type once.
 *
 * Functions return codes of ftkit. */
#ifndef FTK_LOG_TYPEMAP_H
#define FTK_LOG_TYPEMAP_H

#include <mpi.h>

#include "log/base/words.h"

/* A list that is being written. */
struct ftk_typemap {
    struct ftk_words w;
    size_t n;             /* entries */
    MPI_Datatype *handle; /* [n] of the entries */
    bool *owned;          /* [n] to be freed: MPI_Type_get_contents() has made the handle */
};

/* Add a type; *ref stands for it.  FTKIT_ERR_UNSUPPORTED: it cannot be described. */
int ftk_typemap_add(struct ftk_typemap *m, MPI_Datatype type, uint64_t *ref);
void ftk_typemap_free(struct ftk_typemap *m);

/* A list that has been read. */
struct ftk_types {
    MPI_Datatype *v; /* [n] committed; freed with the list */
    size_t n;
};

/* Read a list of n entries at *at, and move *at behind it.  Nothing is trusted. */
int ftk_types_read(const uint64_t **at, const uint64_t *end, uint64_t n, struct ftk_types *out);
/* The type that ref stands for; MPI_DATATYPE_NULL: none. */
MPI_Datatype ftk_types_of(const struct ftk_types *t, uint64_t ref);
/* release() frees each derived type: MPI_Type_free() or a function like it. */
void ftk_types_free(struct ftk_types *t, int (*release)(MPI_Datatype *type));

#endif
