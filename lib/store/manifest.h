/* The manifest of a set: which part has which rank, and what each part must contain.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A set consists of parts, one of each writer.  The manifest is written last: with it the set is
 * complete. */
#ifndef FTK_MANIFEST_H
#define FTK_MANIFEST_H

#include "core/ftk.h"

#define FTK_MANIFEST_FILE "manifest"
#define FTK_MANIFEST_RANKS_MAX (1u << 24) /* ranks of a set that a reader believes */

struct ftk_level_ops;

struct ftk_manifest_part {
    uint32_t part;   /* the rank of its writer, a number in the name of the part */
    uint32_t nranks; /* ranks in it */
    uint64_t file_bytes;
    uint64_t heads_xxh; /* XXH3-64 of the heads of its ranks, one after the other; the heads
                             contain the checksums of all blocks, so this covers the data, too */
};

struct ftk_manifest {
    uint64_t set;
    uint64_t run;
    uint64_t epoch_id; /* of the heads, while the manifest is derived from them; else 0 */
    uint32_t nranks;   /* of the whole set */
    uint32_t nparts;
    char context[64];
    char program[64];                  /* that wrote the set; "": written by an older ftkit */
    struct ftk_manifest_part *parts;   /* [nparts], owned; ftk_manifest_free() */
    uint32_t *part_of;                 /* [nranks] index into parts, owned */
    const struct ftk_level_ops *level; /* of an opened set: the level that has it */
};
void ftk_manifest_free(struct ftk_manifest *m); /* safe on zeroed ones */

/* The text of a manifest, malloc'd.  FTKIT_ERR_ARG: m->part_of contradicts m->parts. */
int ftk_manifest_text(const struct ftk_manifest *m, char **text, size_t *bytes);
/* Read and check the file FTK_MANIFEST_FILE of a directory; *m is empty on failure. */
int ftk_manifest_load(int dirfd, const char *context, uint64_t set, struct ftk_manifest *m);

/* The ranks of all parts, one part after the other, ascending within a part: malloc'd
 * [m->nranks], or NULL. */
uint32_t *ftk_manifest_ranks(const struct ftk_manifest *m);

#endif
