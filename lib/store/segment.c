/* Segments: the reader that trusts nothing, and the checksums (see segment.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "segment.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
    "segments are stored as they lie in memory: ftkit needs a little-endian host");

#define KIND_MAX FTK_KIND_SERIALIZED

static const struct {
    const char *name;
    size_t bytes;
} basics[] = {
    [FTK_T_OPAQUE] = { "opaque", 1 },
    [FTK_T_I8] = { "i8", 1 },
    [FTK_T_I16] = { "i16", 2 },
    [FTK_T_I32] = { "i32", 4 },
    [FTK_T_I64] = { "i64", 8 },
    [FTK_T_U8] = { "u8", 1 },
    [FTK_T_U16] = { "u16", 2 },
    [FTK_T_U32] = { "u32", 4 },
    [FTK_T_U64] = { "u64", 8 },
    [FTK_T_F32] = { "f32", 4 },
    [FTK_T_F64] = { "f64", 8 },
    [FTK_T_LONGDOUBLE] = { "longdouble", 16 },
    [FTK_T_C32] = { "c32", 8 },
    [FTK_T_C64] = { "c64", 16 },
    [FTK_T_CLONGDOUBLE] = { "clongdouble", 32 },
    [FTK_T_CHAR] = { "char", 1 },
    [FTK_T_BOOL] = { "bool", 1 },
};
#define NBASICS (sizeof basics / sizeof basics[0])

size_t ftk_basic_bytes(uint32_t basic)
{
    return basic < NBASICS ? basics[basic].bytes : 0;
}

const char *ftk_basic_name(uint32_t basic)
{
    return basic < NBASICS ? basics[basic].name : "unknown";
}

bool ftk_basic_fill(uint32_t basic, void *buf, size_t bytes)
{
    const float f = NAN;
    const double d = (double)NAN;
    const long double l = (long double)NAN;
    const void *v = NULL;
    size_t used = 0, each = 1; /* bytes of a number, and of a number with its padding */
    if (basic == FTK_T_F32 || basic == FTK_T_C32) {
        v = &f;
        used = each = sizeof f;
    } else if (basic == FTK_T_F64 || basic == FTK_T_C64) {
        v = &d;
        used = each = sizeof d;
    } else if (basic == FTK_T_LONGDOUBLE || basic == FTK_T_CLONGDOUBLE) {
        v = &l;
        used = LDBL_MANT_DIG == 64 ? 10 : sizeof l; /* the rest of an x87 number is padding */
        each = sizeof l;
    }
    memset(buf, 0, bytes);
    for (size_t i = 0; v && i + each <= bytes; i += each)
        memcpy((char *)buf + i, v, used);
    return v != NULL;
}

/* ---- Sizes and checksums ------------------------------------------------------------- */

static uint64_t blocks_of(uint64_t data_bytes, uint64_t block)
{
    return data_bytes / block + (data_bytes % block != 0);
}

size_t ftk_seg_head_bytes(size_t nregions, size_t data_bytes, size_t block)
{
    size_t n = sizeof(struct ftk_seg_header) + nregions * sizeof(struct ftk_seg_region)
               + (size_t)blocks_of(data_bytes, block) * sizeof(uint64_t);
    return (n + FTK_SEG_ALIGN - 1) / FTK_SEG_ALIGN * FTK_SEG_ALIGN;
}

void ftk_seg_seal_data(void *seg)
{
    const struct ftk_seg_header *h = seg;
    uint64_t *sums = ftk_seg_sums(seg);
    const char *data = ftk_seg_data_c(seg);
    for (uint64_t i = 0; i < h->nblocks; i++) {
        uint64_t left = h->data_bytes - i * h->block_bytes;
        sums[i] = ftk_xxh3(
            data + i * h->block_bytes, (size_t)(left < h->block_bytes ? left : h->block_bytes));
    }
}

void ftk_seg_seal_head(void *seg)
{
    struct ftk_seg_header *h = seg;
    h->head_xxh = 0;
    h->head_xxh = ftk_xxh3(seg, (size_t)h->head_bytes);
}

/* Compute the sum of a head as ftk_seg_seal_head() does, without writing to the head: the head
 * may be a read-only mapping, or a copy that is being sent. */
static int head_sum(const struct ftk_seg_header *h, uint64_t *sum)
{
    const size_t at = offsetof(struct ftk_seg_header, head_xxh);
    const size_t after = at + sizeof h->head_xxh;
    const uint64_t zero = 0;
    XXH3_state_t *x = XXH3_createState();
    if (!x)
        return ftk_fail(FTKIT_ERR_NOMEM, "state of a checksum");
    bool ok =
        XXH3_64bits_reset(x) == XXH_OK && ftk_xxh3_update(x, h, at) == XXH_OK
        && ftk_xxh3_update(x, &zero, sizeof zero) == XXH_OK
        && ftk_xxh3_update(x, (const char *)h + after, (size_t)h->head_bytes - after) == XXH_OK;
    if (ok)
        *sum = XXH3_64bits_digest(x);
    XXH3_freeState(x);
    return ok ? FTKIT_OK : ftk_fail(FTKIT_ERR_INTERNAL, "XXH3 refused its input");
}

/* ---- The head ---------------------------------------------------------------------------
 * Three steps; each relies only on the steps before.  A head that fails before the comparison
 * of the checksum is foreign or damaged.  A head that fails after that comparison is as its
 * writer left it, hence ERR_FORMAT. */

/* Magic, version and byte order have the same place in every version.  The byte order is
 * checked before the version, else a swapped 1 would pass for version 16777216. */
static int check_origin(const struct ftk_seg_header *h, size_t bytes, const char *what)
{
    if (bytes >= sizeof h->magic && memcmp(h->magic, FTK_SEG_MAGIC, sizeof h->magic) != 0)
        return ftk_fail(FTKIT_ERR_FORMAT, "%s: not an ftkit segment (wrong magic)", what);
    if (bytes < sizeof *h)
        return ftk_fail(FTKIT_ERR_CORRUPT, "%s: truncated after %zu bytes", what, bytes);
    if (h->byte_order == __builtin_bswap32(FTK_SEG_BYTE_ORDER))
        return ftk_fail(FTKIT_ERR_FORMAT, "%s: written on a machine of other byte order", what);
    if (h->version > FTK_SEG_VERSION_PROGRAMS)
        return ftk_fail(FTKIT_ERR_FORMAT,
            "%s: format version %" PRIu32 " is newer than %u, the newest known here", what,
            h->version, FTK_SEG_VERSION_PROGRAMS);
    if (h->version == 0)
        return ftk_fail(FTKIT_ERR_FORMAT, "%s: format version 0 does not exist", what);
    if (h->byte_order != FTK_SEG_BYTE_ORDER)
        return ftk_fail(
            FTKIT_ERR_CORRUPT, "%s: byte order mark is 0x%08" PRIx32, what, h->byte_order);
    return FTKIT_OK;
}

static int check_sum(const struct ftk_seg_header *h, size_t bytes, const char *what)
{
    if (h->head_bytes < FTK_SEG_ALIGN || h->head_bytes % FTK_SEG_ALIGN != 0)
        return ftk_fail(
            FTKIT_ERR_CORRUPT, "%s: impossible head of %" PRIu64 " bytes", what, h->head_bytes);
    if (h->head_bytes > bytes)
        return ftk_fail(FTKIT_ERR_CORRUPT, "%s: truncated: a head of %" PRIu64 " bytes in %zu",
            what, h->head_bytes, bytes);
    uint64_t sum = 0;
    int rc = head_sum(h, &sum);
    if (rc == FTKIT_OK && sum != h->head_xxh)
        rc = ftk_fail(FTKIT_ERR_CORRUPT, "%s: checksum of the head differs", what);
    return rc;
}

static bool name_valid(const char name[FTKIT_NAME_MAX + 1])
{
    if (name[0] == '\0' || !memchr(name, '\0', FTKIT_NAME_MAX + 1))
        return false;
    for (const char *c = name; *c; c++)
        if (*c < ' ' || *c > '~' || *c == '/')
            return false;
    return true;
}

static int check_header(const struct ftk_seg_header *h, const char *what)
{
    if (h->data_bytes > PTRDIFF_MAX - h->head_bytes)
        return ftk_fail(FTKIT_ERR_FORMAT, "%s: %" PRIu64 " bytes of data", what, h->data_bytes);
    /* a power of two, not smaller than the alignment of a region */
    if (h->block_bytes < FTK_SEG_REGION_ALIGN || (h->block_bytes & (h->block_bytes - 1)) != 0)
        return ftk_fail(FTKIT_ERR_FORMAT, "%s: blocks of %" PRIu32 " bytes", what, h->block_bytes);
    if (h->nblocks != blocks_of(h->data_bytes, h->block_bytes))
        return ftk_fail(FTKIT_ERR_FORMAT, "%s: %" PRIu64 " blocks for %" PRIu64 " bytes of data",
            what, h->nblocks, h->data_bytes);
    /* nregions has 32 bits, so this product cannot overflow; a product with nblocks could */
    uint64_t records = sizeof *h + (uint64_t)h->nregions * sizeof(struct ftk_seg_region);
    if (records > h->head_bytes || h->nblocks > (h->head_bytes - records) / sizeof(uint64_t))
        return ftk_fail(FTKIT_ERR_FORMAT,
            "%s: %" PRIu32 " regions and %" PRIu64 " blocks do not fit a head of %" PRIu64 " bytes",
            what, h->nregions, h->nblocks, h->head_bytes);
    if (h->rank >= h->nranks)
        return ftk_fail(
            FTKIT_ERR_FORMAT, "%s: rank %" PRIu32 " of %" PRIu32, what, h->rank, h->nranks);
    if (!memchr(h->context, '\0', sizeof h->context))
        return ftk_fail(FTKIT_ERR_FORMAT, "%s: name of the context has no end", what);
    if (h->program[0] && !name_valid(h->program))
        return ftk_fail(FTKIT_ERR_FORMAT, "%s: impossible name of the program", what);
    /* a restore that ignores unknown content would be incomplete */
    if ((h->flags & ~(FTK_SEG_PARITY | FTK_SEG_APART)) != 0 || h->log_bytes != 0)
        return ftk_fail(FTKIT_ERR_FORMAT,
            "%s: unknown content (flags 0x%" PRIx32 ", %" PRIu64 " bytes of log)", what, h->flags,
            h->log_bytes);
    return FTKIT_OK;
}

/* ---- The records --------------------------------------------------------------------- */

/* Over all names the cost is quadratic, but a program has few regions. */
static int check_name(const void *seg, uint32_t i, const char *what)
{
    const struct ftk_seg_region *r = ftk_seg_regions_c(seg);
    if (!name_valid(r[i].name))
        return ftk_fail(FTKIT_ERR_FORMAT, "%s: invalid name of region %" PRIu32, what, i);
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(r[k].name, r[i].name) == 0)
            return ftk_fail(FTKIT_ERR_FORMAT, "%s: two regions are named '%s'", what, r[i].name);
    return FTKIT_OK;
}

static int check_type(const struct ftk_seg_region *r, const char *what)
{
    if (r->kind < FTK_KIND_FLAT || r->kind > KIND_MAX || r->flags != 0)
        return ftk_fail(FTKIT_ERR_FORMAT,
            "%s: region '%s' is of unknown kind %" PRIu32 " (flags 0x%" PRIx32 ")", what, r->name,
            r->kind, r->flags);
    size_t size = ftk_basic_bytes(r->basic);
    if (size == 0)
        return ftk_fail(
            FTKIT_ERR_FORMAT, "%s: region '%s' has unknown type %" PRIu32, what, r->name, r->basic);
    if (r->elem_bytes == 0 || r->elem_bytes % size != 0)
        return ftk_fail(FTKIT_ERR_FORMAT,
            "%s: region '%s' has items of %" PRIu64 " bytes of type %s", what, r->name,
            r->elem_bytes, ftk_basic_name(r->basic));
    uint64_t bytes;
    if (__builtin_mul_overflow(r->count, r->elem_bytes, &bytes) || bytes != r->bytes)
        return ftk_fail(FTKIT_ERR_FORMAT,
            "%s: region '%s' has %" PRIu64 " items of %" PRIu64 " bytes in %" PRIu64 " bytes", what,
            r->name, r->count, r->elem_bytes, r->bytes);
    return FTKIT_OK;
}

/* end is where the regions before this one end. */
static int check_place(
    const struct ftk_seg_region *r, uint64_t end, uint64_t data_bytes, const char *what)
{
    if (r->offset % FTK_SEG_REGION_ALIGN != 0 || r->offset < end)
        return ftk_fail(FTKIT_ERR_FORMAT,
            "%s: region '%s' at offset %" PRIu64 " is not aligned or overlaps", what, r->name,
            r->offset);
    if (r->offset > data_bytes || r->bytes > data_bytes - r->offset)
        return ftk_fail(FTKIT_ERR_FORMAT,
            "%s: region '%s' of %" PRIu64 " bytes at %" PRIu64 " goes beyond the data of %" PRIu64,
            what, r->name, r->bytes, r->offset, data_bytes);
    return FTKIT_OK;
}

/* *items: items of dimension d in memory, halo included.  false: their number overflows, or
 * the block reaches beyond the global array. */
static bool dimension_valid(const struct ftk_seg_region *r, uint32_t d, uint64_t *items)
{
    uint64_t end;
    return !__builtin_mul_overflow(r->halo[d], (uint64_t)2, items)
           && !__builtin_add_overflow(*items, r->local[d], items)
           && !__builtin_add_overflow(r->start[d], r->local[d], &end) && end <= r->global[d];
}

static int check_shape(const struct ftk_seg_region *r, const char *what)
{
    bool array = r->kind == FTK_KIND_ARRAY;
    if (array ? r->ndims < 1 || r->ndims > FTKIT_DIMS_MAX : r->ndims != 0)
        return ftk_fail(FTKIT_ERR_FORMAT,
            "%s: region '%s' of kind %" PRIu32 " has %" PRIu32 " dimensions", what, r->name,
            r->kind, r->ndims);
    if (!array)
        return FTKIT_OK;
    uint64_t bytes = r->elem_bytes;
    for (uint32_t d = 0; d < r->ndims; d++) {
        uint64_t items;
        if (!dimension_valid(r, d, &items) || __builtin_mul_overflow(bytes, items, &bytes))
            return ftk_fail(FTKIT_ERR_FORMAT, "%s: array '%s' is impossible in dimension %" PRIu32,
                what, r->name, d);
    }
    if (bytes != r->bytes)
        return ftk_fail(FTKIT_ERR_FORMAT,
            "%s: the shape of array '%s' has %" PRIu64 " bytes, its data %" PRIu64, what, r->name,
            bytes, r->bytes);
    return FTKIT_OK;
}

int ftk_seg_check_head(const void *seg, size_t bytes, const char *what)
{
    const struct ftk_seg_header *h = seg;
    int rc = check_origin(h, bytes, what);
    if (rc == FTKIT_OK)
        rc = check_sum(h, bytes, what);
    if (rc == FTKIT_OK)
        rc = check_header(h, what);
    if (rc != FTKIT_OK)
        return rc;
    const struct ftk_seg_region *r = ftk_seg_regions_c(seg);
    uint64_t end = 0;
    for (uint32_t i = 0; i < h->nregions; i++) {
        rc = check_name(seg, i, what); /* first: the other checks print the name */
        if (rc == FTKIT_OK)
            rc = check_type(&r[i], what);
        if (rc == FTKIT_OK)
            rc = check_place(&r[i], end, h->data_bytes, what);
        if (rc == FTKIT_OK)
            rc = check_shape(&r[i], what);
        if (rc != FTKIT_OK)
            return rc;
        end = r[i].offset + r[i].bytes;
    }
    return FTKIT_OK;
}

/* ---- The data ------------------------------------------------------------------------ */

/* Say which regions lie in bytes lo..hi-1 of the data area. */
static void name_regions(const void *seg, uint64_t lo, uint64_t hi, char *text, size_t text_bytes)
{
    const struct ftk_seg_header *h = seg;
    const struct ftk_seg_region *r = ftk_seg_regions_c(seg);
    const struct ftk_seg_region *first = NULL, *last = NULL;
    for (uint32_t i = 0; i < h->nregions; i++) {
        if (r[i].bytes == 0 || r[i].offset >= hi || r[i].offset + r[i].bytes <= lo)
            continue;
        if (!first)
            first = &r[i];
        last = &r[i];
    }
    if (!first)
        snprintf(text, text_bytes, "padding only");
    else if (first == last)
        snprintf(text, text_bytes, "region '%s'", first->name);
    else
        snprintf(text, text_bytes, "regions '%s' to '%s'", first->name, last->name);
}

int ftk_seg_check_upto(const void *seg, size_t *sure, size_t upto, const char *what)
{
    const struct ftk_seg_header *h = seg;
    const uint64_t *sums = ftk_seg_sums_c(seg);
    const char *data = ftk_seg_data_c(seg);
    while (*sure < upto && *sure < h->data_bytes) {
        uint64_t i = *sure / h->block_bytes;
        size_t left = (size_t)h->data_bytes - *sure;
        size_t n = left < h->block_bytes ? left : h->block_bytes;
        if (ftk_xxh3(data + *sure, n) != sums[i]) {
            char where[2 * FTKIT_NAME_MAX + 32];
            name_regions(seg, *sure, *sure + n, where, sizeof where);
            return ftk_fail(FTKIT_ERR_CORRUPT,
                "%s: checksum of block %" PRIu64 " of %" PRIu64 " differs (%s)", what, i,
                h->nblocks, where);
        }
        *sure += n;
    }
    return FTKIT_OK;
}

int ftk_seg_check_data(const void *seg, const char *what)
{
    size_t sure = 0;
    return ftk_seg_check_upto(seg, &sure, SIZE_MAX, what);
}

const struct ftk_seg_region *ftk_seg_find(const void *seg, const char *name)
{
    const struct ftk_seg_header *h = seg;
    const struct ftk_seg_region *r = ftk_seg_regions_c(seg);
    for (uint32_t i = 0; i < h->nregions; i++)
        if (strcmp(r[i].name, name) == 0)
            return &r[i];
    return NULL;
}
