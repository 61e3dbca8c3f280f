/* Datatypes of messages, and their bytes.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/base/dtype.h"
#include "log/base/part.h"
#include "log/base/stage.h"

/* ---- datatypes --------------------------------------------------------------------------
 * For the types used last: the size of an item, and whether the item is one piece without gaps. */

struct ftk_dtype ftk_dtype_last[FTK_DTYPE_LAST];

static bool is_named(MPI_Datatype type)
{
    int ints, addresses, others, combiner;
    return PMPI_Type_get_envelope(type, &ints, &addresses, &others, &combiner) == MPI_SUCCESS
           && combiner == MPI_COMBINER_NAMED;
}

static enum ftk_number number_of(MPI_Datatype type, size_t bytes)
{
    const MPI_Datatype whole[] = { MPI_INT, MPI_UNSIGNED, MPI_LONG, MPI_UNSIGNED_LONG,
        MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG, MPI_INT32_T, MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T,
        MPI_AINT, MPI_OFFSET, MPI_COUNT };
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (type == whole[i])
            return bytes == sizeof(uint64_t)   ? FTK_NUMBER_INT64
                   : bytes == sizeof(uint32_t) ? FTK_NUMBER_INT32
                                               : FTK_NUMBER_NONE;
    return type == MPI_FLOAT    ? FTK_NUMBER_FLOAT
           : type == MPI_DOUBLE ? FTK_NUMBER_DOUBLE
                                : FTK_NUMBER_NONE;
}

int ftk_dtype_look_up(MPI_Datatype type, struct ftk_dtype *f)
{
    MPI_Count size, lb, extent, true_lb, true_extent;
    int rc = PMPI_Type_size_x(type, &size);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Type_get_extent_x(type, &lb, &extent);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Type_get_true_extent_x(type, &true_lb, &true_extent);
    if (rc != MPI_SUCCESS)
        return rc;
    f->bytes = (MPI_Aint)size;
    f->dense = lb == 0 && true_lb == 0 && size == extent && size == true_extent && is_named(type);
    f->number = number_of(type, (size_t)size);
    f->type = type;
    return MPI_SUCCESS;
}

void ftk_dtype_forget(MPI_Datatype type)
{
    struct ftk_dtype *f = ftk_dtype_slot(type);
    if (f->type == type)
        f->type = MPI_DATATYPE_NULL;
}

/* ---- more bytes than an int counts --------------------------------------------------- */

#define PIECE (1 << 30)

int ftk_dtype_bytes(size_t bytes, int *count, MPI_Datatype *type)
{
    MPI_Datatype piece = MPI_DATATYPE_NULL;
    *count = (int)bytes;
    *type = MPI_BYTE;
    if (bytes <= INT32_MAX)
        return MPI_SUCCESS;
    const size_t n = bytes / PIECE;
    const int lengths[2] = { (int)n, (int)(bytes % PIECE) };
    const MPI_Aint at[2] = { 0, (MPI_Aint)(n * PIECE) };
    *count = 1;
    int rc = PMPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    if (rc == MPI_SUCCESS) {
        const MPI_Datatype of[2] = { piece, MPI_BYTE };
        rc = PMPI_Type_create_struct(2, lengths, at, of, type);
        int freed = PMPI_Type_free(&piece);
        rc = rc == MPI_SUCCESS ? freed : rc;
    }
    return rc == MPI_SUCCESS ? PMPI_Type_commit(type) : rc;
}

/* Operations of the MPI under way keep the type alive. */
void ftk_dtype_bytes_free(MPI_Datatype *type)
{
    if (*type == MPI_BYTE)
        return;
    ftk_dtype_forget(*type);
    (void)PMPI_Type_free(type); /* an error leaks a few bytes */
    *type = MPI_BYTE;
}

/* ---- packing ------------------------------------------------------------------------- */

static MPI_Comm self = MPI_COMM_NULL;

int ftk_dtype_self(MPI_Comm *out)
{
    int rc = MPI_SUCCESS;
    if (self == MPI_COMM_NULL) {
        rc = PMPI_Comm_split(MPI_COMM_SELF, 0, 0, &self); /* a duplicate may have attributes */
        if (rc == MPI_SUCCESS)
            rc = PMPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    }
    *out = self;
    return rc;
}

int ftk_dtype_convert(
    const void *from, int nfrom, MPI_Datatype as, void *to, int nto, MPI_Datatype type)
{
    MPI_Comm mine;
    struct ftk_stage in, out;
    int rc = ftk_dtype_self(&mine);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = ftk_stage_begin(&in, from, nfrom, as);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = ftk_stage_begin(&out, to, nto, type);
    if (rc == MPI_SUCCESS)
        rc =
            PMPI_Sendrecv(in.at, nfrom, as, 0, 0, out.at, nto, type, 0, 0, mine, MPI_STATUS_IGNORE);
    rc = ftk_stage_end(&out, true, rc);
    return ftk_stage_end(&in, false, rc);
}

int ftk_dtype_pack(const void *buf, int count, MPI_Datatype type, void *to, size_t bytes)
{
    const struct ftk_dtype *f;
    int rc = ftk_dtype_facts(type, &f);
    return rc == MPI_SUCCESS ? ftk_dtype_pack_known(f, buf, count, to, bytes) : rc;
}

int ftk_dtype_pack_gaps(const void *buf, int count, MPI_Datatype type, void *to, size_t bytes)
{
    MPI_Datatype all;
    struct ftk_stage in;
    int n, done = 0;
    int rc = bytes <= INT32_MAX ? ftk_stage_begin(&in, buf, count, type) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS && bytes <= INT32_MAX) {
        rc = PMPI_Pack(in.at, count, type, to, (int)bytes, &done, MPI_COMM_SELF);
        return ftk_stage_end(&in, false, rc);
    }
    if (rc != MPI_SUCCESS)
        return rc;
    rc = ftk_dtype_bytes(bytes, &n, &all);
    if (rc == MPI_SUCCESS)
        rc = ftk_dtype_convert(buf, count, type, to, n, all);
    ftk_dtype_bytes_free(&all);
    return rc;
}

int ftk_dtype_packed(const void *buf, int count, MPI_Datatype type, char **copy, size_t *bytes)
{
    int rc = ftk_dtype_size(count, type, bytes);
    *copy = malloc(*bytes ? *bytes : 1);
    if (rc == MPI_SUCCESS && !*copy)
        rc = MPI_ERR_NO_MEM;
    return rc == MPI_SUCCESS ? ftk_dtype_pack(buf, count, type, *copy, *bytes) : rc;
}

/* Unpack so many bytes, which may be less than count items. */
int ftk_dtype_unpack(const void *from, size_t bytes, void *buf, int count, MPI_Datatype type)
{
    const struct ftk_dtype *f;
    MPI_Datatype all;
    int n;
    int rc = ftk_dtype_facts(type, &f);
    if (rc != MPI_SUCCESS || bytes == 0)
        return rc;
    if (f->dense) {
        rc = ftk_memory_copy_in(ftk_memory_kind_of(buf), buf, from, bytes);
        return rc == FTKIT_OK ? MPI_SUCCESS : ftk_stage_failed(rc);
    }
    rc = ftk_dtype_bytes(bytes, &n, &all);
    if (rc == MPI_SUCCESS)
        rc = ftk_dtype_convert(from, n, all, buf, count, type);
    ftk_dtype_bytes_free(&all);
    return rc;
}

int ftk_dtype_packed_part(const void *buf, size_t bytes, MPI_Datatype type, char **copy)
{
    const struct ftk_dtype *f;
    size_t all;
    int rc = ftk_dtype_facts(type, &f);
    if (rc != MPI_SUCCESS)
        return rc;
    size_t item = (size_t)f->bytes, n = item > 0 ? (bytes + item - 1) / item : 0;
    return ftk_dtype_packed(buf, (int)n, type, copy, &all);
}

static void close_types(void)
{
    if (self != MPI_COMM_NULL)
        (void)PMPI_Comm_free(&self); /* an error leaks a communicator of this process alone */
    self = MPI_COMM_NULL;
    /* without a log no call reports a freed type */
    memset(ftk_dtype_last, 0, sizeof ftk_dtype_last);
}

const struct ftk_part ftk_part_types = { .close = close_types };
