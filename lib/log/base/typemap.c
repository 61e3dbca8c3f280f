/* Datatypes as words (see typemap.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "log/base/typemap.h"
#include "core/grow.h"

/* The words of an entry: constructor, numbers of integers, addresses and types; then these.  The
 * types are references.  Addresses that are counts keep their sign. */
enum { HEAD = 4, DEPTH = 64 };
#define NAMED (UINT64_C(1) << 32) /* a reference to a predefined type */

/* The predefined types by their numbers, which are in files: append only. */
static const MPI_Datatype all_named[] = { MPI_CHAR, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_BYTE,
    MPI_PACKED, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_INT, MPI_UNSIGNED, MPI_LONG, MPI_UNSIGNED_LONG,
    MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG, MPI_WCHAR, MPI_C_BOOL, MPI_INT8_T, MPI_INT16_T,
    MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T, MPI_AINT,
    MPI_COUNT, MPI_OFFSET, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_C_COMPLEX,
    MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX, MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT,
    MPI_SHORT_INT, MPI_2INT, MPI_LONG_DOUBLE_INT, MPI_CXX_BOOL, MPI_CXX_FLOAT_COMPLEX,
    MPI_CXX_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX, MPI_CHARACTER, MPI_LOGICAL, MPI_INTEGER,
    MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_REAL, MPI_REAL4, MPI_REAL8,
    MPI_DOUBLE_PRECISION, MPI_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16, MPI_DOUBLE_COMPLEX,
    MPI_2INTEGER, MPI_2REAL, MPI_2DOUBLE_PRECISION };
enum { NAMED_COUNT = sizeof all_named / sizeof *all_named };

/* The predefined type of a number; MPI_DATATYPE_NULL: none. */
static MPI_Datatype named(uint64_t number)
{
    return number < NAMED_COUNT ? all_named[number] : MPI_DATATYPE_NULL;
}

/* The numbers of constructors: MPI's own differ between MPIs.  Append only. */
static const int constructors[] = { MPI_COMBINER_DUP, MPI_COMBINER_CONTIGUOUS, MPI_COMBINER_VECTOR,
    MPI_COMBINER_HVECTOR, MPI_COMBINER_INDEXED, MPI_COMBINER_HINDEXED, MPI_COMBINER_INDEXED_BLOCK,
    MPI_COMBINER_HINDEXED_BLOCK, MPI_COMBINER_STRUCT, MPI_COMBINER_SUBARRAY, MPI_COMBINER_DARRAY,
    MPI_COMBINER_RESIZED, MPI_COMBINER_F90_REAL, MPI_COMBINER_F90_COMPLEX,
    MPI_COMBINER_F90_INTEGER };
enum { CONSTRUCTORS = sizeof constructors / sizeof *constructors, F90 = 12 };

static int number_of(int combiner)
{
    for (int i = 0; i < CONSTRUCTORS; i++)
        if (constructors[i] == combiner)
            return i;
    return -1;
}

/* ---- writing ------------------------------------------------------------------------- */

struct contents {
    int nints, naints, ntypes, combiner;
    int *ints;
    MPI_Aint *aints;
    MPI_Datatype *types;
};

static void free_contents(struct contents *c)
{
    free(c->ints);
    free(c->aints);
    free(c->types);
}

static int get_contents(MPI_Datatype type, struct contents *c)
{
    /* one more element in each, so that no array has length 0 */
    c->ints = calloc((size_t)c->nints + 1, sizeof *c->ints);
    c->aints = calloc((size_t)c->naints + 1, sizeof *c->aints);
    c->types = calloc((size_t)c->ntypes + 1, sizeof(MPI_Datatype));
    if (!c->ints || !c->aints || !c->types)
        return ftk_fail(FTKIT_ERR_NOMEM, "contents of a datatype");
    int rc =
        PMPI_Type_get_contents(type, c->nints, c->naints, c->ntypes, c->ints, c->aints, c->types);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "MPI_Type_get_contents");
}

static int find_named(MPI_Datatype type, uint64_t *ref)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int n = 0;
    for (uint64_t i = 0; i < NAMED_COUNT; i++)
        if (named(i) == type) {
            *ref = NAMED | i;
            return FTKIT_OK;
        }
    (void)PMPI_Type_get_name(type, name, &n); /* for the text only */
    return ftk_fail(FTKIT_ERR_UNSUPPORTED, "a set cannot have the datatype %s", name);
}

static int make_room(struct ftk_typemap *m)
{
    return ftk_grow_by_one(&m->handle, m->n, sizeof(MPI_Datatype))
                   && ftk_grow_by_one(&m->owned, m->n, sizeof *m->owned)
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_NOMEM, "datatypes of a set");
}

/* Whether the MPI owns the type. */
static bool is_permanent(MPI_Datatype type)
{
    int a, b, c, combiner = MPI_COMBINER_NAMED;
    (void)PMPI_Type_get_envelope(type, &a, &b, &c, &combiner); /* an error: the type stays */
    return combiner == MPI_COMBINER_NAMED || number_of(combiner) >= F90;
}

static int add(struct ftk_typemap *m, MPI_Datatype type, bool owned, int depth, uint64_t *ref);

/* Add the types that a type is made of; refs [c->ntypes].  The map owns all of them, so that no
 * other type gets the handle of one of them. */
static int add_parts(struct ftk_typemap *m, const struct contents *c, int depth, uint64_t *refs)
{
    int rc = FTKIT_OK, i = 0;
    for (; rc == FTKIT_OK && i < c->ntypes; i++)
        rc = add(m, c->types[i], true, depth + 1, &refs[i]);
    for (i = rc == FTKIT_OK ? i : i - 1; i < c->ntypes; i++)
        if (!is_permanent(c->types[i]))
            (void)PMPI_Type_free(&c->types[i]); /* an error leaks the handle */
    return rc;
}

static int write_entry(struct ftk_typemap *m, const struct contents *c, const uint64_t *refs)
{
    uint64_t *w =
        ftk_words_extend(&m->w, HEAD + (size_t)c->nints + (size_t)c->naints + (size_t)c->ntypes);
    if (!w)
        return ftk_fail(FTKIT_ERR_NOMEM, "datatypes of a set");
    *w++ = (uint64_t)number_of(c->combiner);
    *w++ = (uint64_t)c->nints;
    *w++ = (uint64_t)c->naints;
    *w++ = (uint64_t)c->ntypes;
    for (int i = 0; i < c->nints; i++)
        *w++ = (uint64_t)(int64_t)c->ints[i];
    for (int i = 0; i < c->naints; i++)
        *w++ = (uint64_t)(int64_t)c->aints[i];
    for (int i = 0; i < c->ntypes; i++)
        *w++ = refs[i];
    return FTKIT_OK;
}

static int add_derived(
    struct ftk_typemap *m, MPI_Datatype type, struct contents *c, bool owned, int depth)
{
    int rc = make_room(m);
    uint64_t *refs = calloc((size_t)c->ntypes + 1, sizeof *refs);
    if (rc == FTKIT_OK && !refs)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "datatypes of a set");
    if (rc == FTKIT_OK)
        rc = get_contents(type, c);
    if (rc == FTKIT_OK)
        rc = add_parts(m, c, depth, refs);
    if (rc == FTKIT_OK)
        rc = make_room(m);
    if (rc == FTKIT_OK)
        rc = write_entry(m, c, refs);
    if (rc == FTKIT_OK) {
        m->handle[m->n] = type;
        m->owned[m->n++] = owned;
    }
    free(refs);
    free_contents(c);
    return rc;
}

/* owned: MPI_Type_get_contents() has made the handle of a derived type. */
static int add(struct ftk_typemap *m, MPI_Datatype type, bool owned, int depth, uint64_t *ref)
{
    struct contents c = { 0 };
    for (size_t i = 0; i < m->n; i++)
        if (m->handle[i] == type) {
            *ref = i;
            /* Open MPI counts references: a second one is given back at once */
            return owned && PMPI_Type_free(&type) != MPI_SUCCESS
                       ? ftk_fail(FTKIT_ERR_MPI, "MPI_Type_free")
                       : FTKIT_OK;
        }
    int rc = PMPI_Type_get_envelope(type, &c.nints, &c.naints, &c.ntypes, &c.combiner);
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "MPI_Type_get_envelope");
    if (c.combiner == MPI_COMBINER_NAMED)
        return find_named(type, ref);
    if (number_of(c.combiner) < 0 || depth == DEPTH)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED, "a set cannot have a datatype %s",
            depth == DEPTH ? "with so many levels" : "of this constructor");
    owned = owned && number_of(c.combiner) < F90; /* the MPI owns the types of Fortran's kinds */
    rc = add_derived(m, type, &c, owned, depth);
    *ref = m->n - 1;
    return rc;
}

int ftk_typemap_add(struct ftk_typemap *m, MPI_Datatype type, uint64_t *ref)
{
    return add(m, type, false, 0, ref);
}

void ftk_typemap_free(struct ftk_typemap *m)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->owned[i])
            (void)PMPI_Type_free(&m->handle[i]); /* an error leaks the handle */
    free(m->handle);
    free(m->owned);
    ftk_words_free(&m->w);
    *m = (struct ftk_typemap){ 0 };
}

/* ---- reading ------------------------------------------------------------------------- */

MPI_Datatype ftk_types_of(const struct ftk_types *t, uint64_t ref)
{
    if (ref & NAMED)
        return named(ref & ~NAMED);
    return ref < t->n ? t->v[ref] : MPI_DATATYPE_NULL;
}

static int damaged(void)
{
    return ftk_fail(FTKIT_ERR_FORMAT, "datatypes of a set: damaged");
}

/* How many numbers of each kind a constructor has, for its count n = ints[0] [MPI 5.1.13]. */
static bool has_shape(int number, const struct contents *c)
{
    const int64_t n = c->nints > 0 ? c->ints[0] : 0, dims = c->nints > 2 ? c->ints[2] : 0;
    /* clang-format off */
    const struct { int64_t ints, aints, types; } shape[CONSTRUCTORS] = {
        { 0, 0, 1 },                 /* dup */
        { 1, 0, 1 },                 /* contiguous */
        { 3, 0, 1 },                 /* vector */
        { 2, 1, 1 },                 /* hvector */
        { 2 * n + 1, 0, 1 },         /* indexed */
        { n + 1, n, 1 },             /* hindexed */
        { n + 2, 0, 1 },             /* indexed_block */
        { 2, n, 1 },                 /* hindexed_block */
        { n + 1, n, n },             /* struct */
        { 3 * n + 2, 0, 1 },         /* subarray */
        { 4 * dims + 4, 0, 1 },      /* darray */
        { 0, 2, 1 },                 /* resized */
        { 2, 0, 0 }, { 2, 0, 0 }, { 1, 0, 0 } };
    /* clang-format on */
    return (n >= 0 || number >= F90) && c->nints == shape[number].ints
           && c->naints == shape[number].aints && c->ntypes == shape[number].types;
}

static bool are_in(const int *v, ptrdiff_t n, int least, int most)
{
    for (ptrdiff_t i = 0; i < n; i++)
        if (v[i] < least || v[i] > most)
            return false;
    return true;
}

/* A distributed array: the process is one of a grid, and blocks are not empty. */
static bool is_darray(const int *i)
{
    const ptrdiff_t n = i[2];
    const int *args = i + 3 + 2 * n, *grid = args + n;
    int64_t processes = 1;
    bool good = n > 0 && i[1] >= 0 && i[1] < i[0] && are_in(i + 3, n, 1, INT_MAX)
                && are_in(grid, n, 1, INT_MAX);
    for (ptrdiff_t k = 0; good && k < n; k++) {
        processes *= grid[k];
        good = processes <= i[0] && (args[k] > 0 || args[k] == MPI_DISTRIBUTE_DFLT_DARG);
    }
    return good && processes == i[0];
}

/* A part of an array, inside the array. */
static bool is_subarray(const int *i)
{
    const ptrdiff_t n = i[0];
    const int *sizes = i + 1, *parts = sizes + n, *starts = parts + n;
    bool good = n > 0;
    for (ptrdiff_t k = 0; good && k < n; k++)
        good = sizes[k] > 0 && parts[k] > 0 && starts[k] >= 0 && parts[k] <= sizes[k]
               && starts[k] <= sizes[k] - parts[k];
    return good;
}

/* Whether the arguments of the constructor are valid.  MPIs do not check all of them. */
static bool is_valid(const struct contents *c)
{
    const int *i = c->ints, n = c->nints > 0 ? i[0] : 0;
    switch (c->combiner) {
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
        return i[1] >= 0;
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_STRUCT:
        return are_in(i + 1, n, 0, INT_MAX);
    case MPI_COMBINER_SUBARRAY:
        return is_subarray(i);
    case MPI_COMBINER_DARRAY:
        return is_darray(i);
    default:
        return true;
    }
}

static int make_type(const struct contents *c, MPI_Datatype *out)
{
    const int *i = c->ints, n = c->nints > 0 ? i[0] : 0;
    const ptrdiff_t d = n, dims = c->nints > 2 ? i[2] : 0;
    const MPI_Aint *a = c->aints;
    const MPI_Datatype *t = c->types;
    switch (c->combiner) {
    case MPI_COMBINER_DUP:
        return PMPI_Type_dup(t[0], out);
    case MPI_COMBINER_CONTIGUOUS:
        return PMPI_Type_contiguous(n, t[0], out);
    case MPI_COMBINER_VECTOR:
        return PMPI_Type_vector(n, i[1], i[2], t[0], out);
    case MPI_COMBINER_HVECTOR:
        return PMPI_Type_create_hvector(n, i[1], a[0], t[0], out);
    case MPI_COMBINER_INDEXED:
        return PMPI_Type_indexed(n, i + 1, i + 1 + n, t[0], out);
    case MPI_COMBINER_HINDEXED:
        return PMPI_Type_create_hindexed(n, i + 1, a, t[0], out);
    case MPI_COMBINER_INDEXED_BLOCK:
        return PMPI_Type_create_indexed_block(n, i[1], i + 2, t[0], out);
    case MPI_COMBINER_HINDEXED_BLOCK:
        return PMPI_Type_create_hindexed_block(n, i[1], a, t[0], out);
    case MPI_COMBINER_STRUCT:
        return PMPI_Type_create_struct(n, i + 1, a, t, out);
    case MPI_COMBINER_SUBARRAY:
        return PMPI_Type_create_subarray(
            n, i + 1, i + 1 + d, i + 1 + 2 * d, i[1 + 3 * d], t[0], out);
    case MPI_COMBINER_DARRAY:
        return PMPI_Type_create_darray(n, i[1], i[2], i + 3, i + 3 + dims, i + 3 + 2 * dims,
            i + 3 + 3 * dims, i[3 + 4 * dims], t[0], out);
    case MPI_COMBINER_RESIZED:
        return PMPI_Type_create_resized(t[0], a[0], a[1], out);
    case MPI_COMBINER_F90_REAL:
        return PMPI_Type_create_f90_real(i[0], i[1], out);
    case MPI_COMBINER_F90_COMPLEX:
        return PMPI_Type_create_f90_complex(i[0], i[1], out);
    default:
        return PMPI_Type_create_f90_integer(i[0], out);
    }
}

/* Take the arrays of an entry from the words at w. */
static int take_contents(const struct ftk_types *known, const uint64_t *w, struct contents *c)
{
    c->ints = calloc((size_t)c->nints + 1, sizeof *c->ints);
    c->aints = calloc((size_t)c->naints + 1, sizeof *c->aints);
    c->types = calloc((size_t)c->ntypes + 1, sizeof(MPI_Datatype));
    if (!c->ints || !c->aints || !c->types)
        return ftk_fail(FTKIT_ERR_NOMEM, "datatypes of a set");
    for (int i = 0; i < c->nints; i++, w++) {
        if ((int64_t)*w < INT32_MIN || (int64_t)*w > INT32_MAX)
            return damaged();
        c->ints[i] = (int)(int64_t)*w;
    }
    for (int i = 0; i < c->naints; i++)
        c->aints[i] = (MPI_Aint)(int64_t)*w++;
    for (int i = 0; i < c->ntypes; i++)
        if ((c->types[i] = ftk_types_of(known, *w++)) == MPI_DATATYPE_NULL)
            return damaged();
    return FTKIT_OK;
}

static int read_entry(struct ftk_types *t, const uint64_t **at, const uint64_t *end)
{
    const uint64_t *w = *at;
    const uint64_t left = (uint64_t)(end - w);
    if (left < HEAD || w[0] >= CONSTRUCTORS || w[1] > left || w[2] > left || w[3] > left
        || w[1] + w[2] + w[3] > left - HEAD || w[1] > INT32_MAX || w[2] > INT32_MAX
        || w[3] > INT32_MAX)
        return damaged();
    struct contents c = {
        .combiner = constructors[w[0]], .nints = (int)w[1], .naints = (int)w[2], .ntypes = (int)w[3]
    };
    int rc = take_contents(t, w + HEAD, &c);
    if (rc == FTKIT_OK && !(has_shape((int)w[0], &c) && is_valid(&c)))
        rc = damaged();
    int mrc = rc == FTKIT_OK ? make_type(&c, &t->v[t->n]) : MPI_SUCCESS;
    if (rc == FTKIT_OK && mrc == MPI_SUCCESS) {
        t->n++;
        mrc = PMPI_Type_commit(&t->v[t->n - 1]);
    }
    if (mrc != MPI_SUCCESS)
        rc = ftk_fail_mpi(mrc, "a datatype of a set");
    *at = w + HEAD + w[1] + w[2] + w[3];
    free_contents(&c);
    return rc;
}

int ftk_types_read(const uint64_t **at, const uint64_t *end, uint64_t n, struct ftk_types *out)
{
    *out = (struct ftk_types){ 0 };
    if (n > (uint64_t)(end - *at))
        return damaged();
    out->v = calloc((size_t)n + 1, sizeof(MPI_Datatype));
    if (!out->v)
        return ftk_fail(FTKIT_ERR_NOMEM, "datatypes of a set");
    int rc = FTKIT_OK;
    for (uint64_t i = 0; rc == FTKIT_OK && i < n; i++)
        rc = read_entry(out, at, end);
    if (rc != FTKIT_OK)
        ftk_types_free(out, PMPI_Type_free);
    return rc;
}

void ftk_types_free(struct ftk_types *t, int (*release)(MPI_Datatype *type))
{
    for (size_t i = 0; i < t->n; i++)
        if (!is_permanent(t->v[i]))
            (void)release(&t->v[i]); /* an error leaks the type */
    free(t->v);
    *t = (struct ftk_types){ 0 };
}
