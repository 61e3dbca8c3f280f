/* What the Python module ftkit cannot learn from libftkit by ctypes: names and handles that are
 * macros in C.  The module calls all other functions of ftkit.h directly.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stddef.h>

#include "core/binding.h"

/* A name of ftkit.h: a code with its value, or a member of ftkit_info with its place and type. */
struct name {
    const char *name;
    int value; /* of a code; the offset of a member */
    char type; /* of a member, as in Python's struct: i int, Q 64 bits without sign, d double */
};

#define STATUS(name, value, text) { #name, value, 0 },
static const struct name codes[] = { FTKIT_STATUS_LIST(STATUS){ NULL, 0, 0 } };

#define MEMBER(m)                                                                                  \
    {                                                                                              \
#m, (int)offsetof(ftkit_info, m),                                                          \
            _Generic(((ftkit_info *)0)->m, int                                                     \
                     : 'i', uint64_t                                                               \
                     : 'Q', double                                                                 \
                     : 'd')                                                                        \
    }
static const struct name members[] = { MEMBER(mode), MEMBER(rank), MEMBER(nranks), MEMBER(nspares),
    MEMBER(incarnation), MEMBER(repairs), MEMBER(rollbacks), MEMBER(flush_error), MEMBER(committed),
    MEMBER(durable), MEMBER(restored), MEMBER(region_bytes), MEMBER(memory_bytes),
    MEMBER(checkpoint_s), MEMBER(repair_s), MEMBER(repair_detect_s), MEMBER(repair_supply_s),
    MEMBER(repair_rebuild_s), MEMBER(repair_restore_s), MEMBER(flushing), MEMBER(flush_s),
    MEMBER(sent_bytes), MEMBER(sent_total), MEMBER(log_messages), MEMBER(log_bytes),
    MEMBER(log_held), MEMBER(log_determinants), MEMBER(log_determinant_bytes), MEMBER(log_resent),
    MEMBER(log_suppressed), MEMBER(log_drained), MEMBER(log_spilled), MEMBER(log_differs),
    MEMBER(log_requests), MEMBER(line_late), MEMBER(line_early), MEMBER(line_determinants),
    MEMBER(line_open), MEMBER(line_waits_here), MEMBER(plane), MEMBER(nplanes), MEMBER(sdc_found),
    MEMBER(sdc_corrected), MEMBER(takeovers), MEMBER(clones), MEMBER(degraded), MEMBER(joules),
    MEMBER(program), MEMBER(nprograms), MEMBER(replay_s), MEMBER(replay_forward_s),
    MEMBER(replay_calls), MEMBER(catch_up_s), MEMBER(idle_cores), MEMBER(units_elsewhere),
    MEMBER(units_helped), { NULL, 0, 0 } };

/* Both tables end with a NULL. */
FTKIT_API const struct name *ftkit_python_codes(void);
const struct name *ftkit_python_codes(void)
{
    return codes;
}

FTKIT_API const struct name *ftkit_python_members(void);
const struct name *ftkit_python_members(void)
{
    return members;
}

FTKIT_API size_t ftkit_python_info_bytes(void);
size_t ftkit_python_info_bytes(void)
{
    return sizeof(ftkit_info);
}

/* Bytes of a handle: of a communicator, and of every other kind. */
FTKIT_API size_t ftkit_python_handle_bytes(void);
size_t ftkit_python_handle_bytes(void)
{
    _Static_assert(sizeof(MPI_Comm) == sizeof(MPI_Datatype), "handles of one size");
    return sizeof(MPI_Comm);
}

/* The version of the MPI that ftkit was built with.  Where that MPI is in use, this text is in the
 * result of MPI_Get_library_version(). */
#define STR2(x) #x
#define STR(x) STR2(x)
FTKIT_API const char *ftkit_python_mpi(void);
const char *ftkit_python_mpi(void)
{
#if defined(OMPI_MAJOR_VERSION)
    return "Open MPI v" STR(OMPI_MAJOR_VERSION) "." STR(OMPI_MINOR_VERSION) "." STR(
        OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
    return MPICH_VERSION;
#else
    return "";
#endif
}

/* Whether MPI works now. */
FTKIT_API int ftkit_python_mpi_works(void);
int ftkit_python_mpi_works(void)
{
    int begun = 0, ended = 0;
    return MPI_Initialized(&begun) == MPI_SUCCESS && begun && MPI_Finalized(&ended) == MPI_SUCCESS
           && !ended;
}

/* The communicator with a handle of Fortran; given NULL: MPI_COMM_WORLD. */
FTKIT_API MPI_Comm ftkit_python_comm(const MPI_Fint *fortran);
MPI_Comm ftkit_python_comm(const MPI_Fint *fortran)
{
    return fortran ? MPI_Comm_f2c(*fortran) : MPI_COMM_WORLD;
}

FTKIT_API MPI_Fint ftkit_python_fortran(MPI_Comm comm);
MPI_Fint ftkit_python_fortran(MPI_Comm comm)
{
    return MPI_Comm_c2f(comm);
}

static MPI_Datatype integer(char kind, size_t bytes)
{
    const int s = kind == 'i';
    switch (bytes) {
    case 1:
        return s ? MPI_INT8_T : MPI_UINT8_T;
    case 2:
        return s ? MPI_INT16_T : MPI_UINT16_T;
    case 4:
        return s ? MPI_INT32_T : MPI_UINT32_T;
    case 8:
        return s ? MPI_INT64_T : MPI_UINT64_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Datatype number(char kind, size_t bytes)
{
    switch (kind) {
    case 'i':
    case 'u':
        return integer(kind, bytes);
    case 'b':
        return bytes == sizeof(_Bool) ? MPI_C_BOOL : MPI_DATATYPE_NULL;
    case 'f':
        return bytes == sizeof(float)         ? MPI_FLOAT
               : bytes == sizeof(double)      ? MPI_DOUBLE
               : bytes == sizeof(long double) ? MPI_LONG_DOUBLE
                                              : MPI_DATATYPE_NULL;
    case 'c':
        return bytes == 2 * sizeof(float)    ? MPI_C_FLOAT_COMPLEX
               : bytes == 2 * sizeof(double) ? MPI_C_DOUBLE_COMPLEX
                                             : MPI_DATATYPE_NULL;
    default:
        return MPI_DATATYPE_NULL;
    }
}

/* The datatype of an item of numpy: kind as dtype.kind.  Other items are bytes, so that a set has
 * their size.  *own: ftkit_python_free() is due.  MPI_DATATYPE_NULL: there is none. */
FTKIT_API MPI_Datatype ftkit_python_type(char kind, size_t bytes, int *own);
MPI_Datatype ftkit_python_type(char kind, size_t bytes, int *own)
{
    MPI_Datatype type = number(kind, bytes);
    *own = 0;
    if (type != MPI_DATATYPE_NULL || bytes == 0 || bytes > INT_MAX)
        return type;
    *own = MPI_Type_contiguous((int)bytes, MPI_BYTE, &type) == MPI_SUCCESS;
    return *own ? type : MPI_DATATYPE_NULL;
}

FTKIT_API void ftkit_python_free(MPI_Datatype type);
void ftkit_python_free(MPI_Datatype type)
{
    (void)MPI_Type_free(&type); /* ftkit has a description of its own */
}
