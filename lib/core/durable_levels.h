/* The durable levels: one line each.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A line makes the number of the level, the word of the configuration with its documentation, and
 * the entry in the table of store/durable/sets.c.  The file of a level defines the operations,
 * const struct ftk_level_ops ftk_level_<word> (store/level_ops.h).  With more than one line there
 * is a key level.hdf5.format, which chooses the level that writes; sets of all levels are read. */
#ifndef FTK_DURABLE_LEVELS_H
#define FTK_DURABLE_LEVELS_H

/* number, word, documentation after "How the sets are kept in the directory: " */
#define FTK_DURABLE_LEVELS(X)                                                                      \
    X(HDF5, hdf5, "HDF5 files of each node, and a master that other programs can read")

enum ftk_durable_number {
#define NUMBER(NAME, word, doc) FTK_DURABLE_##NAME,
    FTK_DURABLE_LEVELS(NUMBER)
#undef NUMBER
        FTK_DURABLES
};

#endif
