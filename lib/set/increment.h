/* Incremental sets: blocks that have not changed since the last set are not sent again.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The set is still complete on every rank, beside the set before: a holder copies the other blocks
 * from its copy of the last set, and an unchanged parity from the last parity.  store/changes.h
 * finds the changes. */
#ifndef FTK_INCREMENT_H
#define FTK_INCREMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ftkit_ctx;
struct ftk_changes;

/* What a context knows of earlier sets. */
struct ftk_increment {
    uint64_t epoch_id;   /* epoch of the set that share is of, 0: of none */
    double share;        /* of its blocks that had changed */
    uint64_t sent;       /* bytes it took, of this process */
    uint64_t sent_total; /* ... and all sets */
};

/* Begin to compare the next set with the last.  That one must be in memory and of this epoch, so
 * that the holders of its copies and parities are still the same.  True: only changed blocks are to
 * be sent (level.memory.incremental; auto depends on the share of changed blocks in the set before,
 * and on whether data leave the node). */
bool ftk_increment_begin(
    const struct ftkit_ctx *ctx, bool leaves_node, size_t data_bytes, struct ftk_changes *c);

/* The set is committed and took so many bytes. */
void ftk_increment_end(struct ftkit_ctx *ctx, const struct ftk_changes *c, uint64_t sent);

#endif
