/* Segments: one rank's part of a checkpoint set, in one buffer.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Layout, little-endian, every number of fixed width:
 *
 *     [ head: header | region records | block checksums | padding ][ data ]
 *
 * The head is a multiple of FTK_SEG_ALIGN bytes.  The data area holds the regions in the
 * order of their records.  Each region begins at a multiple of FTK_SEG_REGION_ALIGN; gaps are
 * zero.  The data area is cut into blocks of block_bytes (the last one is shorter), each with
 * its own XXH3-64.  head_xxh covers the whole head, with the eight bytes of head_xxh taken as
 * zero.  So one flipped bit anywhere is found, and each corrupt block is known. */
#ifndef FTK_STORE_SEGMENT_H
#define FTK_STORE_SEGMENT_H

#include "core/basic.h"
#include "core/ftk.h"

#define FTK_SEG_MAGIC "FTKSEG\r\n"
#define FTK_SEG_VERSION 1u /* of a job of one program */
/* Of a job of several programs; the layout is that of version 1.  An older ftkit, which
 * could give a rank the data of another program, refuses the segment. */
#define FTK_SEG_VERSION_PROGRAMS 2u
#define FTK_SEG_BYTE_ORDER 0x01020304u
#define FTK_SEG_ALIGN 4096u
#define FTK_SEG_REGION_ALIGN 64u
#define FTK_SEG_BLOCK (256u << 10)
#define FTK_SEG_PARITY 1u /* among the flags of a header; see parity.h */
#define FTK_SEG_APART 2u  /* the set is of a line apart: it cannot be restored without the log */

/* What a region is; values are on disk. */
enum ftk_region_kind {
    FTK_KIND_FLAT = 1,       /* per rank */
    FTK_KIND_REPLICATED = 2, /* the same on every rank */
    FTK_KIND_ARRAY = 3,      /* block of a global array, halo included in the data */
    FTK_KIND_GROWING = 4,    /* per rank, size may differ at restore */
    FTK_KIND_SERIALIZED = 5  /* opaque bytes of a callback */
};

struct ftk_seg_header {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint64_t head_xxh;
    uint64_t head_bytes;
    uint64_t data_bytes;
    uint64_t set;
    uint64_t run;     /* random number of the run that began the sequence of sets */
    uint64_t wall_ns; /* when the segment was written, for humans */
    uint32_t rank;    /* of the program: replicas have the same; a parity has a rank within ftkit */
    uint32_t nranks;
    uint32_t incarnation;
    uint32_t nregions;
    uint32_t block_bytes;
    uint32_t
        flags; /* FTK_SEG_PARITY: parity of a group in place of data of a rank; FTK_SEG_APART */
    uint64_t nblocks;
    uint64_t log_bytes;      /* 0: reserved for the state of the message log */
    char context[64];        /* name of the context, NUL-padded */
    uint64_t epoch_id;       /* of the epoch that wrote the segment: two sets may have one number */
    char program[64];        /* name of the writing program, NUL-padded; "": an older ftkit wrote */
    uint16_t nprograms;      /* of the job, `mpirun a : b`; 0: an older ftkit wrote */
    uint16_t program_number; /* of the writing rank, from 0 */
    uint32_t programs_sum;   /* checksum of the programs of all ranks; 0: the job has one program */
    uint32_t executable;     /* of the writing rank, as in struct ftk_program; 0: one program */
    uint32_t command;        /* likewise */
};
_Static_assert(sizeof(struct ftk_seg_header) == 256, "on-disk header");

struct ftk_seg_region {
    char name[64];       /* NUL-padded */
    uint32_t kind;       /* enum ftk_region_kind */
    uint32_t basic;      /* enum ftk_basic */
    uint64_t elem_bytes; /* packed size of one item */
    uint64_t count;      /* items */
    uint64_t bytes;      /* count * elem_bytes */
    uint64_t offset;     /* in the data area */
    uint32_t ndims;      /* of a global array, else 0 */
    uint32_t flags;      /* 0 */
    uint64_t global[FTKIT_DIMS_MAX];
    uint64_t local[FTKIT_DIMS_MAX];
    uint64_t start[FTKIT_DIMS_MAX]; /* of the block in the global array */
    uint64_t halo[FTKIT_DIMS_MAX];
    uint8_t reserved[48];
};
_Static_assert(sizeof(struct ftk_seg_region) == 640, "on-disk region record");

/* Size in bytes of one basic element, 0 for an unknown code. */
size_t ftk_basic_bytes(uint32_t basic);
const char *ftk_basic_name(uint32_t basic); /* "f64", for messages */
/* Fill buf with the value of cells that no rank holds: NaN in every real and complex number, 0 in
 * every other type.  bytes is a multiple of the size of the type.  false: the type has no NaN. */
bool ftk_basic_fill(uint32_t basic, void *buf, size_t bytes);

/* Bytes of a head with nregions records and data_bytes of data in blocks of block. */
size_t ftk_seg_head_bytes(size_t nregions, size_t data_bytes, size_t block);

static inline struct ftk_seg_region *ftk_seg_regions(void *seg)
{
    return (struct ftk_seg_region *)((char *)seg + sizeof(struct ftk_seg_header));
}
static inline const struct ftk_seg_region *ftk_seg_regions_c(const void *seg)
{
    return (const struct ftk_seg_region *)((const char *)seg + sizeof(struct ftk_seg_header));
}
static inline uint64_t *ftk_seg_sums(void *seg) /* [nblocks] */
{
    const struct ftk_seg_header *h = seg;
    return (uint64_t *)(void *)(ftk_seg_regions(seg) + h->nregions);
}
static inline const uint64_t *ftk_seg_sums_c(const void *seg)
{
    const struct ftk_seg_header *h = seg;
    return (const uint64_t *)(const void *)(ftk_seg_regions_c(seg) + h->nregions);
}
static inline char *ftk_seg_data(void *seg)
{
    return (char *)seg + ((const struct ftk_seg_header *)seg)->head_bytes;
}
static inline const char *ftk_seg_data_c(const void *seg)
{
    return (const char *)seg + ((const struct ftk_seg_header *)seg)->head_bytes;
}
static inline size_t ftk_seg_bytes(const void *seg)
{
    const struct ftk_seg_header *h = seg;
    return (size_t)(h->head_bytes + h->data_bytes);
}

/* Fill the block checksums of a head whose lengths are set, from the data. */
void ftk_seg_seal_data(void *seg);

/* Fill head_xxh of a head that is otherwise complete. */
void ftk_seg_seal_head(void *seg);

/* Check a head: magic, version, byte order, checksum, and every length and offset against the
 * others.  bytes: so many are readable at seg.  what: names the source in the detail.
 * FTKIT_ERR_FORMAT or FTKIT_ERR_CORRUPT. */
int ftk_seg_check_head(const void *seg, size_t bytes, const char *what);

/* Check every data block of a segment whose head is good.  Returns FTKIT_OK, or
 * FTKIT_ERR_CORRUPT naming the first bad block and the region it lies in. */
int ftk_seg_check_data(const void *seg, const char *what);

/* The same block by block, for a caller that uses each block while the cache has it.  The
 * first *sure bytes of the data have been checked; check more until *sure >= upto. */
int ftk_seg_check_upto(const void *seg, size_t *sure, size_t upto, const char *what);

/* Record of a region by name, NULL when the segment has no such region. */
const struct ftk_seg_region *ftk_seg_find(const void *seg, const char *name);

#endif
