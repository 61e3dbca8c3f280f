/* The elements of datatypes, for accumulates.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An accumulate combines elements of one predefined type, also with derived types [MPI 12.3.4]. */
#include <stdlib.h>

#include "log/win/win.h"

/* The C type that a type of MPI_Type_create_f90_*() has; MPI_DATATYPE_NULL: none. */
static MPI_Datatype of_fortran(int combiner, int size)
{
    if (combiner == MPI_COMBINER_F90_COMPLEX)
        return size == 8 ? MPI_C_COMPLEX : size == 16 ? MPI_C_DOUBLE_COMPLEX : MPI_DATATYPE_NULL;
    if (combiner == MPI_COMBINER_F90_REAL)
        return size == 4 ? MPI_FLOAT : size == 8 ? MPI_DOUBLE : MPI_DATATYPE_NULL;
    return size == 1   ? MPI_INT8_T
           : size == 2 ? MPI_INT16_T
           : size == 4 ? MPI_INT32_T
           : size == 8 ? MPI_INT64_T
                       : MPI_DATATYPE_NULL;
}

static bool is_of_fortran(int combiner)
{
    return combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX
           || combiner == MPI_COMBINER_F90_INTEGER;
}

/* Free a type that MPI_Type_get_contents() has made. */
static void free_part(MPI_Datatype type)
{
    int a, b, c, combiner = MPI_COMBINER_NAMED;
    (void)PMPI_Type_get_envelope(type, &a, &b, &c, &combiner); /* an error: the type stays */
    if (combiner != MPI_COMBINER_NAMED && !is_of_fortran(combiner))
        (void)PMPI_Type_free(&type); /* an error leaks the handle */
}

/* The element of all parts of a derived type. */
static int of_parts(MPI_Datatype type, int ni, int na, int nt, MPI_Datatype *element)
{
    int *ints = calloc((size_t)ni + 1, sizeof *ints);
    MPI_Aint *aints = calloc((size_t)na + 1, sizeof *aints);
    MPI_Datatype *types = calloc((size_t)nt + 1, sizeof(MPI_Datatype));
    int rc = ints && aints && types ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    if (rc == MPI_SUCCESS)
        rc = PMPI_Type_get_contents(type, ni, na, nt, ints, aints, types);
    const bool got = rc == MPI_SUCCESS;
    *element = MPI_DATATYPE_NULL;
    for (int i = 0; got && i < nt; i++) {
        MPI_Datatype one = MPI_DATATYPE_NULL;
        if (rc == MPI_SUCCESS)
            rc = ftk_win_element(types[i], &one);
        *element = i == 0 || *element == one ? one : MPI_DATATYPE_NULL;
        free_part(types[i]);
    }
    free(ints);
    free(aints);
    free(types);
    return rc;
}

int ftk_win_element(MPI_Datatype type, MPI_Datatype *element)
{
    int ni, na, nt, combiner, size;
    int rc = PMPI_Type_get_envelope(type, &ni, &na, &nt, &combiner);
    if (rc != MPI_SUCCESS)
        return rc;
    if (combiner == MPI_COMBINER_NAMED) {
        *element = type;
        return rc;
    }
    if (!is_of_fortran(combiner))
        return of_parts(type, ni, na, nt, element);
    rc = PMPI_Type_size(type, &size);
    *element = rc == MPI_SUCCESS ? of_fortran(combiner, size) : MPI_DATATYPE_NULL;
    return rc;
}

/* ---- operations that the types have [MPI 6.9.2, 6.9.4] --------------------------------
 * Characters and bytes count as integers, as in the reductions of Open MPI. */

enum { IS_INT = 1, IS_FLOAT = 2, IS_COMPLEX = 4, IS_LOGICAL = 8, IS_PAIR = 16 };

static bool is_one_of(MPI_Datatype type, const MPI_Datatype *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (all[i] == type)
            return true;
    return false;
}
#define IS_ONE_OF(type, ...)                                                                       \
    is_one_of(type, (const MPI_Datatype[]){ __VA_ARGS__ },                                         \
        sizeof(const MPI_Datatype[]){ __VA_ARGS__ } / sizeof(MPI_Datatype))

static int sort_of(MPI_Datatype type)
{
    if (IS_ONE_OF(type, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION,
            MPI_REAL4, MPI_REAL8))
        return IS_FLOAT;
    if (IS_ONE_OF(type, MPI_C_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX, MPI_COMPLEX,
            MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16, MPI_CXX_FLOAT_COMPLEX,
            MPI_CXX_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX))
        return IS_COMPLEX;
    if (IS_ONE_OF(type, MPI_C_BOOL, MPI_LOGICAL, MPI_CXX_BOOL))
        return IS_LOGICAL;
    if (IS_ONE_OF(type, MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT,
            MPI_LONG_DOUBLE_INT, MPI_2REAL, MPI_2DOUBLE_PRECISION, MPI_2INTEGER))
        return IS_PAIR;
    return IS_ONE_OF(type, MPI_WCHAR, MPI_PACKED) ? 0 : IS_INT;
}

bool ftk_win_combines(MPI_Datatype element, MPI_Op op)
{
    int needs = IS_INT | IS_LOGICAL; /* MPI_LAND and the like */
    if (op == MPI_REPLACE || op == MPI_NO_OP)
        return true;
    if (op == MPI_SUM || op == MPI_PROD)
        needs = IS_INT | IS_FLOAT | IS_COMPLEX;
    else if (op == MPI_MAX || op == MPI_MIN)
        needs = IS_INT | IS_FLOAT;
    else if (op == MPI_BAND || op == MPI_BOR || op == MPI_BXOR)
        needs = IS_INT;
    else if (op == MPI_MAXLOC || op == MPI_MINLOC)
        needs = IS_PAIR;
    return (sort_of(element) & needs) != 0;
}
