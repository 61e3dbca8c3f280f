/* MPI datatypes: their common basic type, packing of any count (see type.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdlib.h>

#include "memory_kind.h"
#include "type.h"

/* MPI_Pack() counts bytes in an int: at most this many bytes go into one call. */
#define PIECE ((size_t)1 << 30)

/* ---- Predefined types ---------------------------------------------------------------- */

/* The class of a predefined type.  Class and size give the basic type, so that an MPI_LONG of 4
 * bytes or an MPI_REAL of 8 bytes gets the right one. */
enum content { OPAQUE, SIGNED, UNSIGNED, REAL, COMPLEX, LONG_REAL, LONG_COMPLEX, TEXT, BOOLEAN };

static uint32_t basic_of(enum content c, size_t bytes)
{
    static const unsigned char codes[][6] = {
        /* bytes:         1, 2, 4, 8, 16, 32 */
        [OPAQUE] = { FTK_T_OPAQUE },
        [SIGNED] = { FTK_T_I8, FTK_T_I16, FTK_T_I32, FTK_T_I64 },
        [UNSIGNED] = { FTK_T_U8, FTK_T_U16, FTK_T_U32, FTK_T_U64 },
        [REAL] = { 0, 0, FTK_T_F32, FTK_T_F64 },
        [COMPLEX] = { 0, 0, 0, FTK_T_C32, FTK_T_C64 },
        [LONG_REAL] = { 0, 0, 0, FTK_T_F64, FTK_T_LONGDOUBLE },
        [LONG_COMPLEX] = { 0, 0, 0, 0, FTK_T_C64, FTK_T_CLONGDOUBLE },
        [TEXT] = { FTK_T_CHAR },
        [BOOLEAN] = { FTK_T_BOOL },
    };
    for (size_t i = 0; i < sizeof codes[0]; i++)
        if (bytes == (size_t)1 << i)
            return codes[c][i];
    return FTK_T_OPAQUE;
}

/* Handles are not constants in every MPI, and not of the same C type: so neither a switch nor a
 * static table is possible.  Types that are not listed (MPI_BYTE, MPI_PACKED, the pairs of
 * MPI_MINLOC, 16-byte reals that are not C's long double) are opaque.  A type that an MPI lacks
 * is MPI_DATATYPE_NULL there. */
static uint32_t named_basic(MPI_Datatype t, size_t bytes)
{
    const struct {
        MPI_Datatype type;
        enum content content;
    } table[] = { { MPI_CHAR, TEXT }, { MPI_CHARACTER, TEXT }, { MPI_C_BOOL, BOOLEAN },
        { MPI_CXX_BOOL, BOOLEAN },
        /* C integers */
        { MPI_SIGNED_CHAR, SIGNED }, { MPI_SHORT, SIGNED }, { MPI_INT, SIGNED },
        { MPI_LONG, SIGNED }, { MPI_LONG_LONG, SIGNED }, { MPI_WCHAR, SIGNED },
        { MPI_INT8_T, SIGNED }, { MPI_INT16_T, SIGNED }, { MPI_INT32_T, SIGNED },
        { MPI_INT64_T, SIGNED }, { MPI_AINT, SIGNED }, { MPI_COUNT, SIGNED },
        { MPI_OFFSET, SIGNED }, { MPI_UNSIGNED_CHAR, UNSIGNED }, { MPI_UNSIGNED_SHORT, UNSIGNED },
        { MPI_UNSIGNED, UNSIGNED }, { MPI_UNSIGNED_LONG, UNSIGNED },
        { MPI_UNSIGNED_LONG_LONG, UNSIGNED }, { MPI_UINT8_T, UNSIGNED }, { MPI_UINT16_T, UNSIGNED },
        { MPI_UINT32_T, UNSIGNED }, { MPI_UINT64_T, UNSIGNED },
        /* C floating point */
        { MPI_FLOAT, REAL }, { MPI_DOUBLE, REAL }, { MPI_LONG_DOUBLE, LONG_REAL },
        { MPI_C_COMPLEX, COMPLEX }, { MPI_C_FLOAT_COMPLEX, COMPLEX },
        { MPI_C_DOUBLE_COMPLEX, COMPLEX }, { MPI_C_LONG_DOUBLE_COMPLEX, LONG_COMPLEX },
        { MPI_CXX_FLOAT_COMPLEX, COMPLEX }, { MPI_CXX_DOUBLE_COMPLEX, COMPLEX },
        { MPI_CXX_LONG_DOUBLE_COMPLEX, LONG_COMPLEX },
        /* Fortran */
        { MPI_INTEGER, SIGNED }, { MPI_LOGICAL, SIGNED }, { MPI_INTEGER1, SIGNED },
        { MPI_INTEGER2, SIGNED }, { MPI_INTEGER4, SIGNED }, { MPI_INTEGER8, SIGNED },
        { MPI_REAL, REAL }, { MPI_DOUBLE_PRECISION, REAL }, { MPI_REAL4, REAL },
        { MPI_REAL8, REAL }, { MPI_COMPLEX, COMPLEX }, { MPI_DOUBLE_COMPLEX, COMPLEX },
        { MPI_COMPLEX8, COMPLEX }, { MPI_COMPLEX16, COMPLEX } };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (t == table[i].type)
            return basic_of(table[i].content, bytes);
    return FTK_T_OPAQUE;
}

/* ---- Derived types ------------------------------------------------------------------- */

struct envelope {
    int nints, naints, ntypes;
    int combiner;
};

static int open_envelope(MPI_Datatype t, struct envelope *e)
{
    int rc = MPI_Type_get_envelope(t, &e->nints, &e->naints, &e->ntypes, &e->combiner);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "MPI_Type_get_envelope");
}

/* Whether MPI owns the type: predefined, or made by MPI_Type_create_f90_xxx(); the standard calls
 * the latter unnamed predefined types, and they may not be freed either. */
static bool permanent(const struct envelope *e)
{
    return e->combiner == MPI_COMBINER_NAMED || e->combiner == MPI_COMBINER_F90_INTEGER
           || e->combiner == MPI_COMBINER_F90_REAL || e->combiner == MPI_COMBINER_F90_COMPLEX;
}

static int permanent_basic(MPI_Datatype t, const struct envelope *e, uint32_t *basic)
{
    MPI_Count bytes;
    int rc = MPI_Type_size_x(t, &bytes);
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "MPI_Type_size_x");
    if (e->combiner == MPI_COMBINER_NAMED)
        *basic = named_basic(t, (size_t)bytes);
    else if (e->combiner == MPI_COMBINER_F90_INTEGER)
        *basic = basic_of(SIGNED, (size_t)bytes);
    else if (e->combiner == MPI_COMBINER_F90_REAL)
        *basic = basic_of(REAL, (size_t)bytes);
    else
        *basic = basic_of(COMPLEX, (size_t)bytes);
    return FTKIT_OK;
}

/* Free what MPI_Type_get_contents() returned. */
static int release(MPI_Datatype *t)
{
    struct envelope e;
    int rc = open_envelope(*t, &e);
    if (rc != FTKIT_OK || permanent(&e))
        return rc;
    rc = MPI_Type_free(t);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "MPI_Type_free");
}

static int find_basic(MPI_Datatype t, uint32_t *basic);

/* The basic type that n types have in common, else FTK_T_OPAQUE.  Releases all n types in any
 * case; returns the first error. */
static int common_basic(MPI_Datatype *types, int n, uint32_t *basic)
{
    int rc = FTKIT_OK;
    uint32_t common = FTK_T_OPAQUE;
    for (int i = 0; i < n; i++) {
        uint32_t b = FTK_T_OPAQUE;
        if (rc == FTKIT_OK)
            rc = find_basic(types[i], &b);
        common = i == 0 || b == common ? b : FTK_T_OPAQUE;
        int freed = release(&types[i]);
        if (rc == FTKIT_OK)
            rc = freed;
    }
    if (rc == FTKIT_OK)
        *basic = common;
    return rc;
}

/* The recursion is as deep as the user's nesting of constructors. */
static int find_basic(MPI_Datatype t, uint32_t *basic)
{
    struct envelope e;
    int rc = open_envelope(t, &e);
    if (rc != FTKIT_OK)
        return rc;
    if (permanent(&e))
        return permanent_basic(t, &e, basic);
    /* one more element in each, so that no array has length 0 */
    int *ints = malloc(((size_t)e.nints + 1) * sizeof *ints);
    MPI_Aint *aints = malloc(((size_t)e.naints + 1) * sizeof *aints);
    MPI_Datatype *types = malloc(((size_t)e.ntypes + 1) * sizeof *types);
    if (!ints || !aints || !types) {
        rc = ftk_fail(FTKIT_ERR_NOMEM, "contents of a datatype");
    } else {
        rc = MPI_Type_get_contents(t, e.nints, e.naints, e.ntypes, ints, aints, types);
        rc = rc == MPI_SUCCESS ? common_basic(types, e.ntypes, basic)
                               : ftk_fail_mpi(rc, "MPI_Type_get_contents");
    }
    free(types);
    free(aints);
    free(ints);
    return rc;
}

/* ---- Descriptions -------------------------------------------------------------------- */

/* Sizes and extents.  A type without holes may still list its elements in another order
 * than that of memory: packing by memcpy() keeps the order of memory, and unpacking restores
 * it; no more is promised.  (A type might also list one element twice and leave a hole; MPI
 * forbids receiving into such a type, and so does ftkit.) */
static int measure(struct ftk_type *t)
{
    MPI_Count size, lb, extent, true_lb, true_extent;
    int rc = MPI_Type_size_x(t->mpi, &size);
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "MPI_Type_size_x");
    rc = MPI_Type_get_extent_x(t->mpi, &lb, &extent);
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "MPI_Type_get_extent_x");
    rc = MPI_Type_get_true_extent_x(t->mpi, &true_lb, &true_extent);
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "MPI_Type_get_true_extent_x");
    if (size <= 0)
        return ftk_fail(FTKIT_ERR_TYPE, "the datatype is empty");
    t->item_bytes = (size_t)size;
    t->extent = (ptrdiff_t)extent;
    t->span_lb = (ptrdiff_t)true_lb;
    t->span_end = (ptrdiff_t)(true_lb + true_extent);
    t->contiguous = size == true_extent && size == extent && true_lb == 0;
    return FTKIT_OK;
}

int ftk_type_make(MPI_Datatype t, struct ftk_type *out)
{
    struct ftk_type made = { .mpi = t };
    struct envelope e;
    if (t == MPI_DATATYPE_NULL)
        return ftk_fail(FTKIT_ERR_TYPE, "the datatype is MPI_DATATYPE_NULL");
    int rc = measure(&made);
    if (rc == FTKIT_OK)
        rc = find_basic(t, &made.basic);
    if (rc == FTKIT_OK)
        rc = open_envelope(t, &e);
    if (rc != FTKIT_OK)
        return rc;
    if (!permanent(&e)) {
        rc = MPI_Type_dup(t, &made.mpi);
        if (rc != MPI_SUCCESS)
            return ftk_fail_mpi(rc, "MPI_Type_dup");
        made.owned = true;
        rc = MPI_Type_commit(&made.mpi); /* the user's type may not be committed */
        if (rc != MPI_SUCCESS) {
            rc = ftk_fail_mpi(rc, "MPI_Type_commit");
            ftk_type_free(&made);
            return rc;
        }
    }
    *out = made;
    return FTKIT_OK;
}

void ftk_type_free(struct ftk_type *t)
{
    if (t->owned)
        (void)MPI_Type_free(&t->mpi); /* an error changes nothing: the handle is gone */
    t->mpi = MPI_DATATYPE_NULL;
    t->owned = false;
}

size_t ftk_type_room(const struct ftk_type *t, size_t count)
{
    /* whole extents: an array of structures ends with the padding of its last structure */
    ptrdiff_t last = t->span_end > t->extent ? t->span_end : t->extent;
    size_t bytes;
    if (count == 0)
        return 0;
    if (__builtin_mul_overflow(count - 1, (size_t)t->extent, &bytes)
        || __builtin_add_overflow(bytes, (size_t)last, &bytes))
        return SIZE_MAX;
    return bytes;
}

/* ---- Packing ----------------------------------------------------------------------------
 * On MPI_COMM_SELF, which no other process can revoke.  Packed data have the representation of
 * this machine and the size of the items: Open MPI and MPICH add nothing on a homogeneous
 * communicator, and a piece of any other length is refused. */

/* Set *n to the number of items in the next piece, when left items are left. */
static int piece_items(const struct ftk_type *t, size_t left, int *n)
{
    if (t->item_bytes > INT_MAX)
        return ftk_fail(FTKIT_ERR_TYPE, "an item of %zu bytes with holes: MPI packs up to 2 GiB",
            t->item_bytes);
    size_t most = t->item_bytes < PIECE ? PIECE / t->item_bytes : 1;
    *n = (int)(left < most ? left : most);
    return FTKIT_OK;
}

static int check_length(const struct ftk_type *t, int n, int packed)
{
    size_t want = (size_t)n * t->item_bytes;
    if ((size_t)packed == want)
        return FTKIT_OK;
    return ftk_fail(
        FTKIT_ERR_MPI, "MPI packs %d items of %zu bytes into %d", n, t->item_bytes, packed);
}

static int pack_pieces(const struct ftk_type *t, const char *from, size_t count, char *to)
{
    while (count > 0) {
        int n = 0, pos = 0;
        int rc = piece_items(t, count, &n);
        if (rc != FTKIT_OK)
            return rc;
        size_t bytes = (size_t)n * t->item_bytes;
        rc = MPI_Pack(from, n, t->mpi, to, (int)bytes, &pos, MPI_COMM_SELF);
        if (rc != MPI_SUCCESS)
            return ftk_fail_mpi(rc, "MPI_Pack");
        rc = check_length(t, n, pos);
        if (rc != FTKIT_OK)
            return rc;
        from += n * t->extent;
        to += bytes;
        count -= (size_t)n;
    }
    return FTKIT_OK;
}

static int unpack_pieces(const struct ftk_type *t, const char *from, size_t count, char *to)
{
    while (count > 0) {
        int n = 0, pos = 0;
        int rc = piece_items(t, count, &n);
        if (rc != FTKIT_OK)
            return rc;
        size_t bytes = (size_t)n * t->item_bytes;
        rc = MPI_Unpack(from, (int)bytes, &pos, to, n, t->mpi, MPI_COMM_SELF);
        if (rc != MPI_SUCCESS)
            return ftk_fail_mpi(rc, "MPI_Unpack");
        rc = check_length(t, n, pos);
        if (rc != FTKIT_OK)
            return rc;
        from += bytes;
        to += n * t->extent;
        count -= (size_t)n;
    }
    return FTKIT_OK;
}

/* ---- Items with holes in memory that MPI does not read ----------------------------------- */

#define STAGE ((size_t)4 << 20) /* bytes of memory, holes included, that are staged at once */

struct stage {
    char *buf;
    size_t items; /* of a piece */
};

/* The bytes from the first one of n items to the last one. */
static size_t span_of(const struct ftk_type *t, size_t n)
{
    return (n - 1) * (size_t)t->extent + (size_t)(t->span_end - t->span_lb);
}

static int begin_stage(const struct ftk_type *t, size_t count, struct stage *s)
{
    if (t->extent <= 0)
        return ftk_fail(FTKIT_ERR_TYPE, "items with holes and an extent of %td bytes", t->extent);
    size_t most = STAGE / (size_t)t->extent + 1;
    s->items = count < most ? count : most;
    s->buf = malloc(span_of(t, s->items));
    return s->buf
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_NOMEM, "%zu bytes for items with holes", span_of(t, s->items));
}

/* Pack count items at mem, or unpack them to mem, piece by piece.  The holes between unpacked items
 * are memory of the program, too: they keep their contents. */
static int copy_staged(const struct ftk_type *t, enum ftk_memory_kind memory, char *mem,
    size_t count, char *packed, bool unpack)
{
    struct stage s = { NULL, 0 };
    int rc = begin_stage(t, count, &s);
    if (rc != FTKIT_OK)
        return rc;
    while (rc == FTKIT_OK && count > 0) {
        size_t n = count < s.items ? count : s.items;
        char *first = s.buf - t->span_lb;
        rc = ftk_memory_copy_out(memory, s.buf, mem + t->span_lb, span_of(t, n));
        if (rc == FTKIT_OK)
            rc = unpack ? unpack_pieces(t, packed, n, first) : pack_pieces(t, first, n, packed);
        if (rc == FTKIT_OK && unpack)
            rc = ftk_memory_copy_in(memory, mem + t->span_lb, s.buf, span_of(t, n));
        mem += n * (size_t)t->extent;
        packed += n * t->item_bytes;
        count -= n;
    }
    free(s.buf);
    return rc;
}

int ftk_type_pack(const struct ftk_type *t, enum ftk_memory_kind memory, const void *data,
    size_t count, void *out)
{
    if (count == 0)
        return FTKIT_OK;
    if (t->contiguous)
        return ftk_memory_copy_out(memory, out, data, count * t->item_bytes);
    return ftk_memory_is_host(memory) ? pack_pieces(t, data, count, out)
                                      : copy_staged(t, memory, (char *)data, count, out, false);
}

int ftk_type_unpack(
    const struct ftk_type *t, enum ftk_memory_kind memory, const void *in, size_t count, void *data)
{
    if (count == 0)
        return FTKIT_OK;
    if (t->contiguous)
        return ftk_memory_copy_in(memory, data, in, count * t->item_bytes);
    return ftk_memory_is_host(memory) ? unpack_pieces(t, in, count, data)
                                      : copy_staged(t, memory, data, count, (char *)in, true);
}
