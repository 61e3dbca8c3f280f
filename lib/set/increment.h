/* Incremental sets: blocks that have not changed since the last set are not sent again.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The set is still complete on every rank, beside the set before.  A holder copies the unchanged
 * blocks from its copy of the last set; a member of a parity group updates a copy of the last
 * parity.  store/changes.h finds the changes. */
#ifndef FTK_INCREMENT_H
#define FTK_INCREMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ftkit_ctx;
struct ftk_changes;

/* What a context knows of earlier sets. */
struct ftk_increment {
    uint64_t epoch_id;   /* epoch of the last set if it was compared, else 0 */
    double share;        /* share of the blocks of that set that had changed */
    uint64_t sent;       /* bytes that this process sent for the last set */
    uint64_t sent_total; /* ... and for all sets */
};

/* Begin to compare the next set with the last set.  The last set must be in memory and of this
 * epoch, so that the holders of its copies and parities are still the same.  True: send only
 * changed blocks (level.memory.incremental; auto depends on the share of changed blocks in the set
 * before, and on whether data leave the node). */
bool ftk_increment_begin(
    const struct ftkit_ctx *ctx, bool leaves_node, size_t data_bytes, struct ftk_changes *c);

/* The set is committed, and this process has sent so many bytes for it. */
void ftk_increment_end(struct ftkit_ctx *ctx, const struct ftk_changes *c, uint64_t sent);

#endif
