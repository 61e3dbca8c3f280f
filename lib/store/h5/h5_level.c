/* Durable level hdf5: its operations.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "h5_offline.h"
#include "h5_priv.h"

static int check(bool deflate)
{
    if (!deflate || ftk_h5_can_deflate())
        return FTKIT_OK;
    return ftk_fail(
        FTKIT_ERR_UNSUPPORTED, "level.hdf5.compress: this HDF5 library cannot write deflate");
}

static int open_set(
    const char *dir, const char *context, uint64_t set, bool parts, struct ftk_manifest *m)
{
    return parts ? ftk_h5_open_set(dir, context, set, false, m)
                 : ftk_h5_manifest_of(dir, context, set, m);
}

extern const struct ftk_level_ops ftk_level_hdf5;
const struct ftk_level_ops ftk_level_hdf5 = { .word = FTK_H5_WORD,
    .check = check,
    .in_background = ftk_h5_threadsafe,
    .make = ftk_h5_make,
    .marked = ftk_h5_marked,
    .write = ftk_h5_write_job,
    .look = ftk_h5_look,
    .learn = ftk_h5_learn,
    .commit = ftk_h5_commit,
    .drop = ftk_h5_drop,
    .open = open_set,
    .examine = ftk_h5_examine,
    .remove = ftk_h5_remove,
    .read = ftk_h5_read_into,
    .sum = ftk_h5_read_sum,
    .heads = ftk_h5_part_records,
    .region = ftk_h5_read_region,
    .plain = ftk_h5_files_of,
    .part_name = ftk_h5_part_name,
    .verify = ftk_h5_verify_part,
    .extra = FTK_H5_MASTER,
    .verify_extra = ftk_h5_verify_master,
    .make_extra = ftk_h5_remake_master,
    .leftovers = ftk_h5_leftovers,
    .derive = ftk_h5_derive };
