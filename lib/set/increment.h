/* Incremental sets: what has not changed since the last set is not sent again.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The set is whole on every rank all the same, beside the one before: a holder copies the
 * blocks that it is not sent from its copy of the last set, and a parity that is not
 * touched from its last parity.  The differences are those of store/changes.h. */
#ifndef FTK_INCREMENT_H
#define FTK_INCREMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ftkit_ctx;
struct ftk_changes;

/* What a context knows of the sets before. */
struct ftk_increment {
    uint64_t epoch_id;   /* epoch of the set that share is of, 0: of none */
    double share;        /* of its blocks that had changed */
    uint64_t sent;       /* bytes it took, of this process */
    uint64_t sent_total; /* ... and all sets */
};

/* Begin to compare the next set with the last: if that is in memory, and of this epoch, so
 * that those who keep copies or parity of it are still the same.  True: only what changes
 * is to be sent.  (level.memory.incremental; auto goes by the share of the set before, and
 * by where the others are.) */
bool ftk_increment_begin(const struct ftkit_ctx *ctx, size_t data_bytes, struct ftk_changes *c);

/* The set is committed and took so many bytes. */
void ftk_increment_end(struct ftkit_ctx *ctx, const struct ftk_changes *c, uint64_t sent);

#endif
