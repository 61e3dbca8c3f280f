/* The sets of a context in its directory, whichever durable level has them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A set has one number, whatever the level.  A function that names a set finds the level that has
 * the set; a function with a manifest takes the level of the manifest.  So a job goes on from the
 * sets of one level and writes another, and a command needs no option. */
#ifndef FTK_SETS_H
#define FTK_SETS_H

#include "core/durable_levels.h"
#include "store/level_ops.h"

/* The operations of a level; number: of enum ftk_durable_number. */
const struct ftk_level_ops *ftk_sets_level(int number);
/* The level that has the set, complete or not; the first level if none has. */
const struct ftk_level_ops *ftk_sets_level_of(const char *dir, const char *context, uint64_t set);

/* Whether a helper thread may write sets of this level while the program goes on. */
bool ftk_sets_in_background(const struct ftk_level_ops *level);
/* Open the libraries of all levels, so that their handlers of exit() are registered now. */
void ftk_sets_prepare(void);

/* Make an unfinished set, as level->make() does.  Also FTKIT_ERR_EXISTS: another level has a set of
 * this number that is not unfinished. */
int ftk_sets_make(const struct ftk_level_ops *level, const char *dir, const char *context,
    uint64_t set, uint64_t flush, const struct ftk_still *still);
/* The same, durable on return. */
int ftk_sets_begin(const struct ftk_level_ops *level, const char *dir, const char *context,
    uint64_t set, uint64_t flush, const struct ftk_still *still);

/* Numbers of all sets, complete or not, newest first, malloc'd.  *n may be 0, also when the
 * directory does not exist. */
int ftk_sets_numbers(const char *dir, const char *context, uint64_t **sets, size_t *n);
/* The same of the complete sets. */
int ftk_sets_list(const char *dir, const char *context, uint64_t **sets, int *nsets);
/* Every set of a context, newest first, malloc'd. */
int ftk_sets_survey(const char *dir, const char *context, struct ftk_set_entry **v, size_t *n);
/* See open(), examine() and remove() of level_ops.h. */
int ftk_sets_open(const char *dir, const char *context, uint64_t set, struct ftk_manifest *m);
int ftk_sets_manifest(const char *dir, const char *context, uint64_t set, struct ftk_manifest *m);
int ftk_sets_examine(const char *dir, const char *context, uint64_t set, struct ftk_set_entry *e);
int ftk_sets_remove(const char *dir, const char *context, uint64_t set);
/* Remove the complete sets of a run, except the newest keep sets, and all unfinished sets that
 * are older than the newest complete set of the run.  Complete sets of other runs stay, and so
 * do sets that cannot be read. */
int ftk_sets_prune(const char *dir, const char *context, uint64_t run, int keep);

/* Read the segment of one rank, checked block by block, into malloc'd *seg. */
int ftk_sets_read(
    const char *dir, const struct ftk_manifest *m, int rank, void **seg, size_t *bytes);
/* Read one region of a rank: see region() of level_ops.h. */
int ftk_sets_region(const char *dir, const struct ftk_manifest *m, uint32_t rank,
    const char *region, void **seg, const struct ftk_seg_region **record);

#endif
