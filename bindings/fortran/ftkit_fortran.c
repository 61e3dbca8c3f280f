/* The C side of the Fortran module `ftkit`: the functions to which its interfaces are bound.
 *
 * Arguments come as Fortran passes them: by reference, texts and arrays as descriptors of
 * ISO_Fortran_binding.h, communicators and datatypes as Fortran handles, missing optional
 * arguments as NULL.  This file only converts arguments for the calls of ftkit.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <ISO_Fortran_binding.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/binding.h"
#include "ftkit.h"
#include "paths.h"

/* All functions are called from ftkit.f90, whose interfaces are their declarations. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* A handle of mpi_f08 is a structure of one INTEGER, so one function serves both kinds of handles.
 * The second name is needed because the two are different interfaces in Fortran. */
#define SAME_FOR_F08(name) extern __typeof__(name) name##_f08 __attribute__((alias(#name)))

/* In ftkit.f90. */
_Noreturn void ftkit_f_stop(const char *text);
int ftkit_f_call_repair(ftkit_ctx *ctx, const MPI_Fint *comm, void (*fn)(void), void *const *arg);
int ftkit_f_call_repair_f08(
    ftkit_ctx *ctx, const MPI_Fint *comm, void (*fn)(void), void *const *arg);
void ftkit_f_call_report(void (*fn)(void), int level, const char *line);

/* ---- Results ------------------------------------------------------------------------- */

/* Store the code in ierr.  Without ierr an error is not ignored: it ends the program. */
static void done(int *ierr, const ftkit_ctx *ctx, const char *call, int rc)
{
    char text[1024];
    if (ierr) {
        *ierr = rc;
    } else if (rc < 0) {
        snprintf(text, sizeof text, "%s: %s: %s", call, ftkit_strerror(rc), ftkit_detail(ctx));
        ftkit_f_stop(text);
    }
}

#define FAIL(ctx, code, ...) fail_at(ctx, __LINE__, code, __VA_ARGS__)

__attribute__((format(printf, 4, 5))) static int fail_at(
    ftkit_ctx *ctx, int line, int code, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return ftkit_binding_fail(ctx, __FILE__, line, code, text);
}

/* ---- Texts --------------------------------------------------------------------------- */

/* A text as a C string, without the blanks at its end.  The caller frees *out, which is NULL after
 * an error and for a text that is not given.  code is the error for a text that contains a NUL. */
static int text_of(ftkit_ctx *ctx, const char *call, const CFI_cdesc_t *s, int code, char **out)
{
    *out = NULL;
    if (!s || !s->base_addr)
        return FTKIT_OK;
    const char *from = s->base_addr;
    size_t n = s->elem_len;
    while (n > 0 && from[n - 1] == ' ')
        n--;
    if (memchr(from, '\0', n))
        return FAIL(ctx, code, "%s: the text '%.100s' has a NUL in it", call, from);
    *out = malloc(n + 1);
    if (!*out)
        return FAIL(ctx, FTKIT_ERR_NOMEM, "%s: a text of %zu bytes", call, n);
    memcpy(*out, from, n);
    (*out)[n] = '\0';
    return FTKIT_OK;
}

static int name_of(ftkit_ctx *ctx, const char *call, const CFI_cdesc_t *s, char **out)
{
    return text_of(ctx, call, s, FTKIT_ERR_NAME, out);
}

/* ---- Data ---------------------------------------------------------------------------- */

/* An argument of any type and rank, as the library needs it. */
struct data {
    void *addr;
    size_t count; /* items of the type */
    MPI_Datatype type;
    int made; /* the type was made here and must be freed */
};

/* The MPI datatype that saves a Fortran type of this code.  MPI_DATATYPE_NULL: save its bytes. */
static int type_of(CFI_type_t code, MPI_Datatype *type, size_t *bytes)
{
    const struct {
        int code;
        size_t bytes;
        MPI_Datatype type;
    } table[] = {
        { CFI_type_int8_t, 1, MPI_INT8_T },
        { CFI_type_int16_t, 2, MPI_INT16_T },
        { CFI_type_int32_t, 4, MPI_INT32_T },
        { CFI_type_int64_t, 8, MPI_INT64_T },
        { CFI_type_float, 4, MPI_FLOAT },
        { CFI_type_double, 8, MPI_DOUBLE },
        { CFI_type_float_Complex, 8, MPI_C_FLOAT_COMPLEX },
        { CFI_type_double_Complex, 16, MPI_C_DOUBLE_COMPLEX },
        { CFI_type_char, 1, MPI_CHARACTER },
        /* logicals are integers for HDF5 as well */
        { CFI_type_Bool, 1, MPI_INT8_T },
#ifdef CFI_type_Logical
        { CFI_type_Logical + (2 << CFI_type_kind_shift), 2, MPI_INT16_T },
        { CFI_type_Logical + (4 << CFI_type_kind_shift), 4, MPI_INT32_T },
        { CFI_type_Logical + (8 << CFI_type_kind_shift), 8, MPI_INT64_T },
        { CFI_type_Logical + (16 << CFI_type_kind_shift), 16, MPI_DATATYPE_NULL },
#endif
#ifdef CFI_type_ucs4_char
        { CFI_type_ucs4_char, 4, MPI_UINT32_T },
#endif
#ifdef CFI_type_int128_t
        { CFI_type_int128_t, 16, MPI_DATATYPE_NULL },
#endif
        { CFI_type_long_double, sizeof(long double), MPI_LONG_DOUBLE },
        { CFI_type_long_double_Complex, 2 * sizeof(long double), MPI_C_LONG_DOUBLE_COMPLEX },
#ifdef CFI_type_float128
        { CFI_type_float128, 16, MPI_DATATYPE_NULL },
        { CFI_type_float128_Complex, 32, MPI_DATATYPE_NULL },
#endif
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].code == code && code >= 0) {
            *type = table[i].type;
            *bytes = table[i].bytes;
            return 1;
        }
    }
    return 0;
}

static size_t elements(const CFI_cdesc_t *d)
{
    size_t n = 1;
    for (int i = 0; i < d->rank; i++)
        n *= (size_t)d->dim[i].extent;
    return n;
}

/* Check that the data exist and lie in memory without gaps. */
static int check_memory(ftkit_ctx *ctx, const char *call, const char *name, const CFI_cdesc_t *d)
{
    if (!d->base_addr)
        return FAIL(ctx, FTKIT_ERR_ARG, "%s: '%s' is not allocated or not associated", call, name);
    if (d->rank > 0 && d->dim[d->rank - 1].extent < 0)
        return FAIL(ctx, FTKIT_ERR_SIZE,
            "%s: '%s' is an array of assumed size (*): give its bounds, as in x(1:n)", call, name);
    /* for texts of length 0 the strides mean nothing */
    if (elements(d) > 1 && d->elem_len > 0 && !CFI_is_contiguous(d))
        return FAIL(ctx, FTKIT_ERR_ARG,
            "%s: '%s' is a section with gaps: register the whole array, or its address with "
            "a datatype",
            call, name);
    return FTKIT_OK;
}

static int describe(
    ftkit_ctx *ctx, const char *call, const char *name, const CFI_cdesc_t *d, struct data *out)
{
    size_t item = 0;
    if (!type_of(d->type, &out->type, &item))
        return FAIL(ctx, FTKIT_ERR_TYPE,
            "%s: '%s' is of a derived type or of a kind that is not known here: register "
            "c_loc() of it with a count and an MPI datatype, or ftkit_register_bytes()",
            call, name ? name : "");
    int rc = check_memory(ctx, call, name ? name : "", d);
    if (rc != FTKIT_OK)
        return rc;
    out->addr = d->base_addr;
    out->count = elements(d) * (d->elem_len / item); /* characters have a length */
    out->made = out->type == MPI_DATATYPE_NULL;
    if (out->made && MPI_Type_contiguous((int)item, MPI_BYTE, &out->type) != MPI_SUCCESS)
        return FAIL(ctx, FTKIT_ERR_MPI, "%s: MPI_Type_contiguous", call);
    return FTKIT_OK;
}

static void forget(struct data *d)
{
    if (d->made)
        (void)MPI_Type_free(&d->type); /* the library has its own duplicate */
}

/* ---- Handles ------------------------------------------------------------------------- */

/* Check a handle: Open MPI gives 0 for an integer that is no handle, and neither Open MPI nor MPICH
 * has a handle that is 0. */
static int comm_of(ftkit_ctx *ctx, const char *call, MPI_Fint handle, MPI_Comm *comm)
{
    *comm = MPI_Comm_f2c(handle);
    if (!*comm || *comm == MPI_COMM_NULL)
        return FAIL(ctx, FTKIT_ERR_ARG, "%s: %d is no communicator", call, (int)handle);
    return FTKIT_OK;
}

static int datatype_of(ftkit_ctx *ctx, const char *call, MPI_Fint handle, MPI_Datatype *type)
{
    *type = MPI_Type_f2c(handle);
    if (!*type || *type == MPI_DATATYPE_NULL)
        return FAIL(ctx, FTKIT_ERR_TYPE, "%s: %d is no datatype", call, (int)handle);
    return FTKIT_OK;
}

/* ---- Contexts ------------------------------------------------------------------------ */

void ftkit_f_open(const MPI_Fint *comm, const CFI_cdesc_t *config, ftkit_ctx **ctx, int *ierr)
{
    MPI_Comm c_comm;
    char *path;
    int rc = text_of(NULL, "ftkit_open", config, FTKIT_ERR_ARG, &path);
    *ctx = NULL;
    if (rc == FTKIT_OK)
        rc = comm_of(NULL, "ftkit_open", *comm, &c_comm);
    if (rc == FTKIT_OK)
        rc = ftkit_open(c_comm, path && *path ? path : NULL, ctx);
    if (rc >= FTKIT_OK)
        rc = ftkit_f_paths(ctx);
    free(path);
    done(ierr, NULL, "ftkit_open", rc);
}
SAME_FOR_F08(ftkit_f_open);

void ftkit_f_comm(ftkit_ctx *const *ctx, MPI_Fint *comm, int *ierr)
{
    int rc = FTKIT_OK;
    *comm = MPI_Comm_c2f(ftkit_comm(*ctx));
    if (!*ctx)
        rc = FAIL(NULL, FTKIT_ERR_ARG, "ftkit_comm: the context is not open");
    done(ierr, NULL, "ftkit_comm", rc);
}
SAME_FOR_F08(ftkit_f_comm);

void ftkit_f_bind_comm(ftkit_ctx *const *ctx, MPI_Fint *comm, int *ierr)
{
    done(ierr, *ctx, "ftkit_bind_comm", ftkit_binding_bind_comm(*ctx, comm));
}
SAME_FOR_F08(ftkit_f_bind_comm);

void ftkit_f_track_comm(ftkit_ctx *const *ctx, const MPI_Fint *comm, int *ierr)
{
    MPI_Comm c_comm;
    int rc = comm_of(*ctx, "ftkit_track_comm", *comm, &c_comm);
    if (rc == FTKIT_OK)
        rc = ftkit_track_comm(*ctx, c_comm);
    done(ierr, *ctx, "ftkit_track_comm", rc);
}
SAME_FOR_F08(ftkit_f_track_comm);

void ftkit_f_untrack_comm(ftkit_ctx *const *ctx, const MPI_Fint *comm, int *ierr)
{
    done(ierr, *ctx, "ftkit_untrack_comm", ftkit_untrack_comm(*ctx, MPI_Comm_f2c(*comm)));
}
SAME_FOR_F08(ftkit_f_untrack_comm);

void ftkit_f_abort(const MPI_Fint *comm, const int *code)
{
    (void)ftkit_abort(MPI_Comm_f2c(*comm), *code); /* returns only when MPI_Abort() failed */
}
SAME_FOR_F08(ftkit_f_abort);

/* ---- Regions ------------------------------------------------------------------------- */

typedef int register_fn(ftkit_ctx *, const char *, void *, size_t, MPI_Datatype);

static void register_data(register_fn *fn, const char *call, ftkit_ctx *ctx,
    const CFI_cdesc_t *name, const CFI_cdesc_t *data, int *ierr)
{
    struct data d = { 0 };
    char *c_name;
    int rc = name_of(ctx, call, name, &c_name);
    if (rc == FTKIT_OK)
        rc = describe(ctx, call, c_name, data, &d);
    if (rc == FTKIT_OK) {
        rc = fn(ctx, c_name, d.addr, d.count, d.type);
        forget(&d);
    }
    free(c_name);
    done(ierr, ctx, call, rc);
}

void ftkit_f_register(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, const CFI_cdesc_t *data, int *ierr)
{
    register_data(ftkit_register, "ftkit_register", *ctx, name, data, ierr);
}

void ftkit_f_register_replicated(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, const CFI_cdesc_t *data, int *ierr)
{
    register_data(ftkit_register_replicated, "ftkit_register_replicated", *ctx, name, data, ierr);
}

/* Register an address with a count of items of an MPI datatype, or of bytes if type is NULL. */
static void register_items(register_fn *fn, const char *call, ftkit_ctx *ctx,
    const CFI_cdesc_t *name, void *data, int64_t count, const MPI_Fint *type, int *ierr)
{
    MPI_Datatype c_type = MPI_BYTE;
    char *c_name;
    int rc = name_of(ctx, call, name, &c_name);
    if (rc == FTKIT_OK && count < 0)
        rc = FAIL(ctx, FTKIT_ERR_ARG, "%s: '%s': %lld items", call, c_name, (long long)count);
    if (rc == FTKIT_OK && type)
        rc = datatype_of(ctx, call, *type, &c_type);
    if (rc == FTKIT_OK)
        rc = fn(ctx, c_name, data, (size_t)count, c_type);
    free(c_name);
    done(ierr, ctx, call, rc);
}

void ftkit_f_register_items(ftkit_ctx *const *ctx, const CFI_cdesc_t *name, void *data,
    int64_t count, const MPI_Fint *type, int *ierr)
{
    register_items(ftkit_register, type ? "ftkit_register" : "ftkit_register_bytes", *ctx, name,
        data, count, type, ierr);
}

void ftkit_f_register_replicated_items(ftkit_ctx *const *ctx, const CFI_cdesc_t *name, void *data,
    int64_t count, const MPI_Fint *type, int *ierr)
{
    register_items(ftkit_register_replicated,
        type ? "ftkit_register_replicated" : "ftkit_register_replicated_bytes", *ctx, name, data,
        count, type, ierr);
}

/* ---- Global arrays ------------------------------------------------------------------- */

/* The block of a global array, in the order of Fortran. */
struct block {
    int rank;
    int64_t global[FTKIT_DIMS_MAX];
    int64_t local[FTKIT_DIMS_MAX];
    int64_t offset[FTKIT_DIMS_MAX];
    int64_t halo[FTKIT_DIMS_MAX];
};

/* One number for each dimension, from an array of either kind of integers. */
static int shape_of(ftkit_ctx *ctx, const char *what, const CFI_cdesc_t *s, int rank, int64_t *out)
{
    if (s->dim[0].extent != rank)
        return FAIL(ctx, FTKIT_ERR_SIZE,
            "ftkit_register_array: %s has %lld numbers, the array has %d dimensions", what,
            (long long)s->dim[0].extent, rank);
    for (int d = 0; d < rank; d++) {
        const char *at = (const char *)s->base_addr + d * s->dim[0].sm;
        int32_t narrow;
        if (s->elem_len == sizeof narrow) {
            memcpy(&narrow, at, sizeof narrow);
            out[d] = narrow;
        } else {
            memcpy(&out[d], at, sizeof out[d]);
        }
        if (out[d] < 0)
            return FAIL(ctx, FTKIT_ERR_ARG, "ftkit_register_array: dimension %d: %s is %lld", d + 1,
                what, (long long)out[d]);
    }
    return FTKIT_OK;
}

/* Check that the array has exactly the size of block and halo, and that the block lies in the whole
 * array.  The library would check the latter, but its messages count dimensions from the other
 * end. */
static int check_block(
    ftkit_ctx *ctx, const char *name, const CFI_cdesc_t *data, const struct block *b)
{
    for (int d = 0; d < b->rank; d++) {
        int64_t have = data->dim[d].extent;
        if (b->offset[d] > b->global[d] || b->local[d] > b->global[d] - b->offset[d])
            return FAIL(ctx, FTKIT_ERR_ARG,
                "array '%s': dimension %d: a block of %lld after %lld exceeds the array's "
                "%lld",
                name, d + 1, (long long)b->local[d], (long long)b->offset[d],
                (long long)b->global[d]);
        if (have < b->local[d] || have - b->local[d] != 2 * b->halo[d])
            return FAIL(ctx, FTKIT_ERR_SIZE,
                "array '%s': dimension %d has %lld elements, local + 2 x halo are %lld + 2 x "
                "%lld",
                name, d + 1, (long long)have, (long long)b->local[d], (long long)b->halo[d]);
    }
    return FTKIT_OK;
}

/* Reverse the dimensions: in C the last one varies fastest. */
static int register_array(
    ftkit_ctx *ctx, const char *name, const struct data *data, const struct block *b)
{
    size_t shape[4][FTKIT_DIMS_MAX];
    for (int d = 0; d < b->rank; d++) {
        int at = b->rank - 1 - d;
        shape[0][at] = (size_t)b->global[d];
        shape[1][at] = (size_t)b->local[d];
        shape[2][at] = (size_t)b->offset[d];
        shape[3][at] = (size_t)b->halo[d];
    }
    return ftkit_register_array(
        ctx, name, data->addr, data->type, b->rank, shape[0], shape[1], shape[2], shape[3]);
}

static int check_elements(
    ftkit_ctx *ctx, const char *name, const CFI_cdesc_t *data, const struct data *d)
{
    if (data->rank < 1)
        return FAIL(ctx, FTKIT_ERR_SIZE, "array '%s' is a scalar", name);
    if (d->made)
        return FAIL(ctx, FTKIT_ERR_TYPE,
            "array '%s': this kind has no datatype of MPI: use ftkit_register()", name);
    if (d->count != elements(data))
        return FAIL(ctx, FTKIT_ERR_TYPE,
            "array '%s': characters of a length other than 1: use ftkit_register()", name);
    return FTKIT_OK;
}

void ftkit_f_register_array(ftkit_ctx *const *ctx, const CFI_cdesc_t *name, const CFI_cdesc_t *data,
    const CFI_cdesc_t *global, const CFI_cdesc_t *local, const CFI_cdesc_t *offset,
    const CFI_cdesc_t *halo, int *ierr)
{
    struct data d = { 0 };
    struct block b = { .rank = data->rank };
    char *c_name;
    int rc = name_of(*ctx, "ftkit_register_array", name, &c_name);
    if (rc == FTKIT_OK)
        rc = describe(*ctx, "ftkit_register_array", c_name, data, &d);
    if (rc == FTKIT_OK)
        rc = check_elements(*ctx, c_name, data, &d);
    if (rc == FTKIT_OK)
        rc = shape_of(*ctx, "global", global, b.rank, b.global);
    if (rc == FTKIT_OK)
        rc = shape_of(*ctx, "local", local, b.rank, b.local);
    if (rc == FTKIT_OK)
        rc = shape_of(*ctx, "offset", offset, b.rank, b.offset);
    if (rc == FTKIT_OK && halo)
        rc = shape_of(*ctx, "halo", halo, b.rank, b.halo);
    if (rc == FTKIT_OK)
        rc = check_block(*ctx, c_name, data, &b);
    if (rc == FTKIT_OK)
        rc = register_array(*ctx, c_name, &d, &b);
    forget(&d);
    free(c_name);
    done(ierr, *ctx, "ftkit_register_array", rc);
}
extern __typeof__(ftkit_f_register_array) ftkit_f_register_array_int64
    __attribute__((alias("ftkit_f_register_array")));

/* ---- Regions that are not flat ------------------------------------------------------- */

void ftkit_f_register_growing(ftkit_ctx *const *ctx, const CFI_cdesc_t *name, void **data,
    size_t *count, const MPI_Fint *type, ftkit_resize_fn *resize, void *const *arg, int *ierr)
{
    MPI_Datatype c_type;
    char *c_name;
    int rc = name_of(*ctx, "ftkit_register_growing", name, &c_name);
    if (rc == FTKIT_OK)
        rc = datatype_of(*ctx, "ftkit_register_growing", *type, &c_type);
    if (rc == FTKIT_OK)
        rc = ftkit_register_growing(*ctx, c_name, data, count, c_type, resize, arg ? *arg : NULL);
    free(c_name);
    done(ierr, *ctx, "ftkit_register_growing", rc);
}
SAME_FOR_F08(ftkit_f_register_growing);

void ftkit_f_register_serializer(ftkit_ctx *const *ctx, const CFI_cdesc_t *name,
    int (*measure)(void *, size_t *), int (*pack)(void *, void *, size_t),
    int (*unpack)(void *, const void *, size_t), void *const *arg, int *ierr)
{
    const ftkit_serializer ops = { sizeof ops, measure, pack, unpack };
    char *c_name;
    int rc = name_of(*ctx, "ftkit_register_serializer", name, &c_name);
    if (rc == FTKIT_OK)
        rc = ftkit_register_serializer(*ctx, c_name, &ops, arg ? *arg : NULL);
    free(c_name);
    done(ierr, *ctx, "ftkit_register_serializer", rc);
}

void ftkit_f_unit(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, ftkit_unit_fn *fn, void *const *arg, int *ierr)
{
    char *c_name;
    int rc = name_of(*ctx, "ftkit_unit", name, &c_name);
    if (rc == FTKIT_OK)
        rc = ftkit_unit(*ctx, c_name, fn, arg ? *arg : NULL);
    free(c_name);
    done(ierr, *ctx, "ftkit_unit", rc);
}

void ftkit_f_run_units(ftkit_ctx *const *ctx, const CFI_cdesc_t *name, size_t n,
    const void *const *ins, const size_t *in_bytes, void *const *outs, const size_t *out_bytes,
    int *ierr)
{
    char *c_name;
    int rc = name_of(*ctx, "ftkit_run_units", name, &c_name);
    if (rc == FTKIT_OK)
        rc = ftkit_run_units(*ctx, c_name, n, ins, in_bytes, outs, out_bytes);
    free(c_name);
    done(ierr, *ctx, "ftkit_run_units", rc);
}

static void register_handles(ftkit_ctx *ctx, const CFI_cdesc_t *name,
    enum ftkit_binding_handle kind, MPI_Fint *handles, size_t n, int *ierr)
{
    static const char *const call[] = { "ftkit_register_comm", "ftkit_register_requests",
        "ftkit_register_messages", "ftkit_register_window" };
    char *c_name;
    int rc = name_of(ctx, call[kind], name, &c_name);
    if (rc == FTKIT_OK)
        rc = ftkit_binding_register_handles(ctx, c_name, kind, handles, n);
    free(c_name);
    done(ierr, ctx, call[kind], rc);
}

void ftkit_f_register_comm(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, MPI_Fint *comm, int *ierr)
{
    register_handles(*ctx, name, FTKIT_BINDING_COMM, comm, 1, ierr);
}
SAME_FOR_F08(ftkit_f_register_comm);

void ftkit_f_register_window(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, MPI_Fint *win, int *ierr)
{
    register_handles(*ctx, name, FTKIT_BINDING_WINDOW, win, 1, ierr);
}
SAME_FOR_F08(ftkit_f_register_window);

/* One variable or an array of any rank. */
static void register_array_of_handles(ftkit_ctx *ctx, const CFI_cdesc_t *name,
    enum ftkit_binding_handle kind, const CFI_cdesc_t *handles, const char *call, int *ierr)
{
    int rc = check_memory(ctx, call, "the argument", handles);
    if (rc == FTKIT_OK)
        register_handles(ctx, name, kind, handles->base_addr, elements(handles), ierr);
    else
        done(ierr, ctx, call, rc);
}

void ftkit_f_register_requests(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, const CFI_cdesc_t *requests, int *ierr)
{
    register_array_of_handles(
        *ctx, name, FTKIT_BINDING_REQUEST, requests, "ftkit_register_requests", ierr);
}
SAME_FOR_F08(ftkit_f_register_requests);

void ftkit_f_register_messages(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, const CFI_cdesc_t *messages, int *ierr)
{
    register_array_of_handles(
        *ctx, name, FTKIT_BINDING_MESSAGE, messages, "ftkit_register_messages", ierr);
}
SAME_FOR_F08(ftkit_f_register_messages);

/* ---- Changes ------------------------------------------------------------------------- */

void ftkit_f_resize(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, const CFI_cdesc_t *data, int *ierr)
{
    struct data d = { 0 };
    char *c_name;
    int rc = name_of(*ctx, "ftkit_resize", name, &c_name);
    if (rc == FTKIT_OK)
        rc = describe(*ctx, "ftkit_resize", c_name, data, &d);
    if (rc == FTKIT_OK) {
        rc = ftkit_binding_resize(*ctx, c_name, d.addr, d.count, d.type);
        forget(&d);
    }
    free(c_name);
    done(ierr, *ctx, "ftkit_resize", rc);
}

void ftkit_f_resize_items(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, void *data, int64_t count, int *ierr)
{
    char *c_name;
    int rc = name_of(*ctx, "ftkit_resize_items", name, &c_name);
    if (rc == FTKIT_OK && count < 0)
        rc = FAIL(
            *ctx, FTKIT_ERR_ARG, "ftkit_resize_items: '%s': %lld items", c_name, (long long)count);
    if (rc == FTKIT_OK)
        rc = ftkit_resize(*ctx, c_name, data, (size_t)count);
    free(c_name);
    done(ierr, *ctx, "ftkit_resize_items", rc);
}

void ftkit_f_unregister(ftkit_ctx *const *ctx, const CFI_cdesc_t *name, int *ierr)
{
    char *c_name;
    int rc = name_of(*ctx, "ftkit_unregister", name, &c_name);
    if (rc == FTKIT_OK)
        rc = ftkit_unregister(*ctx, c_name);
    free(c_name);
    done(ierr, *ctx, "ftkit_unregister", rc);
}

void ftkit_f_device_stream(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *region, void *stream, int *ierr)
{
    char *c_region;
    int rc = name_of(*ctx, "ftkit_device_stream", region, &c_region);
    if (rc == FTKIT_OK)
        rc = ftkit_device_stream(*ctx, c_region, stream);
    free(c_region);
    done(ierr, *ctx, "ftkit_device_stream", rc);
}

void ftkit_f_compare(ftkit_ctx *const *ctx, const CFI_cdesc_t *region, const int *how, int *ierr)
{
    char *c_region;
    int rc = name_of(*ctx, "ftkit_compare", region, &c_region);
    if (rc == FTKIT_OK)
        rc = ftkit_compare(*ctx, c_region, *how);
    free(c_region);
    done(ierr, *ctx, "ftkit_compare", rc);
}

void ftkit_f_attribute(ftkit_ctx *const *ctx, const CFI_cdesc_t *region, const CFI_cdesc_t *name,
    const CFI_cdesc_t *value, int *ierr)
{
    char *c_region;
    char *c_name = NULL;
    char *c_value = NULL;
    int rc = name_of(*ctx, "ftkit_attribute", region, &c_region);
    if (rc == FTKIT_OK)
        rc = name_of(*ctx, "ftkit_attribute", name, &c_name);
    if (rc == FTKIT_OK)
        rc = text_of(*ctx, "ftkit_attribute", value, FTKIT_ERR_ARG, &c_value);
    if (rc == FTKIT_OK)
        rc = ftkit_attribute(*ctx, c_region, c_name, c_value);
    free(c_value);
    free(c_name);
    free(c_region);
    done(ierr, *ctx, "ftkit_attribute", rc);
}

/* ---- Checkpoint and recovery --------------------------------------------------------- */

void ftkit_f_decide(ftkit_ctx *const *ctx, const CFI_cdesc_t *data, int *ierr)
{
    int rc = check_memory(*ctx, "ftkit_decide", "the value", data);
    if (rc == FTKIT_OK)
        rc = ftkit_decide(*ctx, data->base_addr, elements(data) * data->elem_len);
    done(ierr, *ctx, "ftkit_decide", rc);
}

void ftkit_f_share(ftkit_ctx *const *ctx, const CFI_cdesc_t *data, int *ierr)
{
    int rc = check_memory(*ctx, "ftkit_share", "the memory", data);
    if (rc == FTKIT_OK)
        rc = ftkit_share(*ctx, data->base_addr, elements(data) * data->elem_len);
    done(ierr, *ctx, "ftkit_share", rc);
}

void ftkit_f_unshare(ftkit_ctx *const *ctx, const CFI_cdesc_t *data, int *ierr)
{
    int rc = check_memory(*ctx, "ftkit_unshare", "the memory", data);
    if (rc == FTKIT_OK)
        rc = ftkit_unshare(*ctx, data->base_addr);
    done(ierr, *ctx, "ftkit_unshare", rc);
}

void ftkit_f_checkpoint(ftkit_ctx *const *ctx, int *ierr)
{
    done(ierr, *ctx, "ftkit_checkpoint", ftkit_checkpoint(*ctx));
}

void ftkit_f_recover(ftkit_ctx *const *ctx, int64_t *set, int *ierr)
{
    uint64_t found = 0;
    int rc = ftkit_recover(*ctx, &found);
    if (set && rc == FTKIT_OK)
        *set = (int64_t)found;
    done(ierr, *ctx, "ftkit_recover", rc);
}

void ftkit_f_finish(ftkit_ctx *const *ctx, int *ierr)
{
    done(ierr, *ctx, "ftkit_finish", ftkit_finish(*ctx));
}

void ftkit_f_register_offset(ftkit_ctx *const *ctx, const CFI_cdesc_t *name,
    const CFI_cdesc_t *path, int64_t *offset, int *ierr)
{
    char *c_name = NULL;
    char *c_path = NULL;
    int rc = name_of(*ctx, "ftkit_register_offset", name, &c_name);
    if (rc == FTKIT_OK)
        rc = text_of(*ctx, "ftkit_register_offset", path, FTKIT_ERR_ARG, &c_path);
    if (rc == FTKIT_OK)
        rc = ftkit_register_offset(*ctx, c_name, c_path, offset);
    free(c_name);
    free(c_path);
    done(ierr, *ctx, "ftkit_register_offset", rc);
}

void ftkit_f_register_files(ftkit_ctx *const *ctx, const CFI_cdesc_t *name,
    int (*write)(void *, const char *), int (*read)(void *, const char *), void *const *arg,
    int *ierr)
{
    const ftkit_files ops = { sizeof ops, write, read };
    char *c_name;
    int rc = name_of(*ctx, "ftkit_register_files", name, &c_name);
    if (rc == FTKIT_OK)
        rc = ftkit_register_files(*ctx, c_name, write || read ? &ops : NULL, arg ? *arg : NULL);
    free(c_name);
    done(ierr, *ctx, "ftkit_register_files", rc);
}

enum { PATH_ROOM = 2048 };

/* The room for the path that a call writes, with its NUL, if dir has so many characters. */
static size_t room_of(const CFI_cdesc_t *dir)
{
    return dir->elem_len + 1 < PATH_ROOM ? dir->elem_len + 1 : PATH_ROOM;
}

/* Copy a path, and fill dir up with blanks. */
static void fill_in(const CFI_cdesc_t *dir, const char *path)
{
    memset(dir->base_addr, ' ', dir->elem_len);
    memcpy(dir->base_addr, path, strlen(path));
}

/* Call a function that returns a path. */
static void path_of_files(ftkit_ctx *ctx, const char *call,
    int (*fn)(ftkit_ctx *, const char *, char *, size_t), const CFI_cdesc_t *name,
    const CFI_cdesc_t *dir, int *ierr)
{
    char *c_name;
    char path[PATH_ROOM];
    int rc = name_of(ctx, call, name, &c_name);
    if (rc == FTKIT_OK)
        rc = fn(ctx, c_name, path, room_of(dir));
    if (rc == FTKIT_OK)
        fill_in(dir, path);
    free(c_name);
    done(ierr, ctx, call, rc);
}

void ftkit_f_files_begin(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, const CFI_cdesc_t *dir, int *ierr)
{
    path_of_files(*ctx, "ftkit_files_begin", ftkit_files_begin, name, dir, ierr);
}

void ftkit_f_files_read(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, const CFI_cdesc_t *dir, int *ierr)
{
    path_of_files(*ctx, "ftkit_files_read", ftkit_files_read, name, dir, ierr);
}

void ftkit_f_register_joint_files(ftkit_ctx *const *ctx, const CFI_cdesc_t *name, int *ierr)
{
    char *c_name;
    int rc = name_of(*ctx, "ftkit_register_joint_files", name, &c_name);
    if (rc == FTKIT_OK)
        rc = ftkit_register_joint_files(*ctx, c_name);
    free(c_name);
    done(ierr, *ctx, "ftkit_register_joint_files", rc);
}

void ftkit_f_files_any_ranks(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, ftkit_files_ranks_fn *read, int *ierr)
{
    char *c_name;
    int rc = name_of(*ctx, "ftkit_files_any_ranks", name, &c_name);
    if (rc == FTKIT_OK)
        rc = ftkit_files_any_ranks(*ctx, c_name, read);
    free(c_name);
    done(ierr, *ctx, "ftkit_files_any_ranks", rc);
}

void ftkit_f_files_ranks(ftkit_ctx *const *ctx, const CFI_cdesc_t *name, int *ranks, int *ierr)
{
    char *c_name;
    int rc = name_of(*ctx, "ftkit_files_ranks", name, &c_name);
    if (rc == FTKIT_OK)
        rc = ftkit_files_ranks(*ctx, c_name, ranks);
    free(c_name);
    done(ierr, *ctx, "ftkit_files_ranks", rc);
}

void ftkit_f_files_of(
    ftkit_ctx *const *ctx, const CFI_cdesc_t *name, int old_rank, const CFI_cdesc_t *dir, int *ierr)
{
    char *c_name;
    char path[PATH_ROOM];
    int rc = name_of(*ctx, "ftkit_files_of", name, &c_name);
    if (rc == FTKIT_OK)
        rc = ftkit_files_of(*ctx, c_name, old_rank, path, room_of(dir));
    if (rc == FTKIT_OK)
        fill_in(dir, path);
    free(c_name);
    done(ierr, *ctx, "ftkit_files_of", rc);
}

void ftkit_f_files_end(ftkit_ctx *const *ctx, const CFI_cdesc_t *name, int ok, int *ierr)
{
    char *c_name;
    int rc = name_of(*ctx, "ftkit_files_end", name, &c_name);
    if (rc == FTKIT_OK)
        rc = ftkit_files_end(*ctx, c_name, ok);
    free(c_name);
    done(ierr, *ctx, "ftkit_files_end", rc);
}

void ftkit_f_due(ftkit_ctx *const *ctx, int *due, int *ierr)
{
    const int rc = ftkit_due(*ctx);
    *due = rc > 0;
    done(ierr, *ctx, "ftkit_due", rc < 0 ? rc : FTKIT_OK);
}

void ftkit_f_end(ftkit_ctx *const *ctx, int *ierr)
{
    done(ierr, *ctx, "ftkit_end", ftkit_end(*ctx));
}

void ftkit_f_escape(ftkit_ctx *const *ctx, ftkit_body_fn *body, void *const *arg, int *ierr)
{
    done(ierr, *ctx, "ftkit_escape", ftkit_escape(*ctx, body, arg ? *arg : NULL, NULL));
}

void ftkit_f_scrub(ftkit_ctx *const *ctx, int *corrupt, int *ierr)
{
    done(ierr, *ctx, "ftkit_scrub", ftkit_scrub(*ctx, corrupt));
}

void ftkit_f_request(ftkit_ctx *const *ctx, int durable, int *ierr)
{
    done(ierr, *ctx, "ftkit_request", ftkit_request(*ctx, durable));
}

void ftkit_f_wait(ftkit_ctx *const *ctx, int *ierr)
{
    done(ierr, *ctx, "ftkit_wait", ftkit_wait(*ctx));
}

void ftkit_f_test(ftkit_ctx *const *ctx, int64_t set, int *is_done, int *ierr)
{
    done(ierr, *ctx, "ftkit_test", ftkit_test(*ctx, (uint64_t)set, is_done));
}

void ftkit_f_query(ftkit_ctx *const *ctx, ftkit_info *info, int *ierr)
{
    info->size = sizeof *info;
    done(ierr, *ctx, "ftkit_query", ftkit_query(*ctx, info));
}

void ftkit_f_failures(ftkit_ctx *const *ctx, ftkit_failure *list, int room, int *n, int *ierr)
{
    *n = room;
    done(ierr, *ctx, "ftkit_failures", ftkit_failures(*ctx, list, n));
}

/* ---- Callbacks ----------------------------------------------------------------------- */

/* A Fortran procedure for ftkit_on_repair(), and its arguments. */
struct repair_hook {
    struct repair_hook *next;
    ftkit_ctx *ctx;
    int (*call)(ftkit_ctx *, const MPI_Fint *, void (*)(void), void *const *);
    void (*fn)(void);
    void *arg;
};

static pthread_mutex_t hooks_lock = PTHREAD_MUTEX_INITIALIZER; /* protects the below */
static struct repair_hook *hooks; /* one for each open context at most */

/* Replace the procedure of a context by another one, or by none. */
static void replace_hook(const ftkit_ctx *ctx, struct repair_hook *hook)
{
    struct repair_hook *old;
    pthread_mutex_lock(&hooks_lock);
    struct repair_hook **at = &hooks;
    while (*at && (*at)->ctx != ctx)
        at = &(*at)->next;
    old = *at;
    if (old)
        *at = old->next;
    if (hook) {
        hook->next = hooks;
        hooks = hook;
    }
    pthread_mutex_unlock(&hooks_lock);
    free(old);
}

static int repaired(ftkit_ctx *ctx, MPI_Comm comm, void *arg)
{
    const struct repair_hook *h = arg;
    MPI_Fint handle = MPI_Comm_c2f(comm);
    return h->call(ctx, &handle, h->fn, &h->arg);
}

static int on_repair(ftkit_ctx *ctx, const struct repair_hook *like)
{
    struct repair_hook *h = malloc(sizeof *h);
    if (!h)
        return FAIL(ctx, FTKIT_ERR_NOMEM, "ftkit_on_repair");
    *h = *like;
    int rc = ftkit_on_repair(ctx, repaired, h);
    if (rc == FTKIT_OK)
        replace_hook(ctx, h);
    else
        free(h);
    return rc;
}

void ftkit_f_on_repair(ftkit_ctx *const *ctx, void (*fn)(void), void *const *arg, int *ierr)
{
    const struct repair_hook h = { NULL, *ctx, ftkit_f_call_repair, fn, arg ? *arg : NULL };
    done(ierr, *ctx, "ftkit_on_repair", on_repair(*ctx, &h));
}

void ftkit_f_on_repair_f08(ftkit_ctx *const *ctx, void (*fn)(void), void *const *arg, int *ierr)
{
    const struct repair_hook h = { NULL, *ctx, ftkit_f_call_repair_f08, fn, arg ? *arg : NULL };
    done(ierr, *ctx, "ftkit_on_repair", on_repair(*ctx, &h));
}

/* Close the context and free its hook. */
void ftkit_f_close(ftkit_ctx **ctx, int *ierr)
{
    const ftkit_ctx *was = *ctx;
    int rc = ftkit_close(ctx);
    if (was)
        replace_hook(was, NULL);
    done(ierr, NULL, "ftkit_close", rc);
}

static void (*reporter)(void); /* changed only while the library has no callback */

static void report(int level, const char *line, void *arg)
{
    (void)arg;
    ftkit_f_call_report(reporter, level, line);
}

void ftkit_f_set_report(void (*fn)(void), int *ierr)
{
    int rc = ftkit_set_report(NULL, NULL);
    reporter = fn;
    if (rc == FTKIT_OK && fn)
        rc = ftkit_set_report(report, NULL);
    done(ierr, NULL, "ftkit_set_report", rc);
}
