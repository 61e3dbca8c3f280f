/* Slots: their names, and the checks of headers and segments (see place.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "place_ops.h"

void ftk_slot_name(struct ftk_place *p, struct ftk_mem_seg *s)
{
    snprintf(s->name, sizeof s->name, "%s%d.%d", p->prefix, (int)getpid(), ++p->made);
}

uint64_t ftk_slot_sum(const struct ftk_slot *slot)
{
    struct ftk_slot copy = *slot;
    copy.sum = 0;
    return ftk_xxh3(&copy, slot->version == 1 ? FTK_SLOT_BYTES_1 : sizeof copy);
}

int ftk_slot_check(struct ftk_slot *slot, uint64_t room)
{
    if (memcmp(slot->magic, FTK_SLOT_MAGIC, sizeof slot->magic) != 0)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "slot: it holds nothing");
    if (slot->byte_order != FTK_SEG_BYTE_ORDER)
        return ftk_fail(FTKIT_ERR_FORMAT, "slot: of a machine with another byte order");
    if (slot->version < 1 || slot->version > FTK_SLOT_VERSION)
        return ftk_fail(FTKIT_ERR_FORMAT, "slot: format %u; this ftkit reads 1 to %u",
            (unsigned)slot->version, FTK_SLOT_VERSION);
    if (slot->version == 1)
        memset((char *)slot + FTK_SLOT_BYTES_1, 0, sizeof *slot - FTK_SLOT_BYTES_1);
    if (slot->sum != ftk_slot_sum(slot) || slot->set == 0 || slot->rank >= slot->nranks
        || slot->nranks > INT32_MAX || slot->bytes > room
        || slot->bytes < sizeof(struct ftk_seg_header)
        || !memchr(slot->context, '\0', sizeof slot->context)
        || !memchr(slot->program, '\0', sizeof slot->program)
        || !memchr(slot->directory, '\0', sizeof slot->directory))
        return ftk_fail(FTKIT_ERR_CORRUPT, "slot: its header is damaged");
    return FTKIT_OK;
}

/* The head of a segment of data names the rank of the program (see ftk_region_begin()). */
static bool is_of_rank(const struct ftk_slot *slot, const struct ftk_seg_header *h)
{
    if (slot->parity)
        return h->rank == slot->rank && h->nranks == slot->nranks;
    return h->nranks > 0 && slot->nranks % h->nranks == 0 && slot->rank % h->nranks == h->rank;
}

int ftk_slot_check_segment(const struct ftk_slot *slot, const char *seg)
{
    const struct ftk_seg_header *h = (const void *)seg;
    int rc = ftk_seg_check_head(seg, (size_t)slot->bytes, "slot");
    if (rc == FTKIT_OK)
        rc = ftk_seg_check_data(seg, "slot");
    if (rc != FTKIT_OK)
        return rc;
    bool same = ftk_seg_bytes(seg) == slot->bytes && h->set == slot->set && h->run == slot->run
                && h->epoch_id == slot->epoch_id && is_of_rank(slot, h)
                && ((h->flags & FTK_SEG_PARITY) != 0) == (slot->parity != 0)
                && memcmp(h->context, slot->context, sizeof h->context) == 0
                && (!slot->parity || ftk_parity_group(seg));
    return same ? FTKIT_OK
                : ftk_fail(FTKIT_ERR_CORRUPT, "slot: its header is not that of its segment");
}

bool ftk_slot_is_foreign(const struct ftk_place *p, struct ftk_slot *slot, size_t room)
{
    int rc = ftk_slot_check(slot, room);
    return rc == FTKIT_ERR_FORMAT
           || (rc == FTKIT_OK && !ftk_identity_fits(&p->identity, slot->program, slot->home));
}
