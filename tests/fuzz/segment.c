/* The reader of segments: any head, with a checksum that is right.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "store/h5/h5_priv.h"

#define ROOM (256u << 10)

/* The shapes that are made of a record stay inside its block. */
static void check_shape(const struct ftk_seg_region *r)
{
    struct ftk_h5_shape s;
    struct ftk_h5_runs it;
    char name[FTK_H5_NAME_MAX];
    size_t begin, items, all = 0;
    ftk_h5_dataset_name(r->name, name);
    ftk_h5_halo_name(r->name, name);
    ftk_h5_shape(r, &s);
    MUST((s.items + s.halo_items) * s.item_bytes == r->bytes);
    if (r->bytes > ROOM || s.halo_items == 0)
        return;
    ftk_h5_runs_start(&it, &s);
    while (ftk_h5_runs_next(&it, &begin, &items)) {
        MUST(begin + items <= s.items + s.halo_items);
        all += items;
    }
    MUST(all == s.halo_items);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static _Alignas(64) char seg[ROOM];
    struct ftk_seg_header *h = (void *)seg;
    size_t room = (bytes + FTK_SEG_ALIGN - 1) / FTK_SEG_ALIGN * FTK_SEG_ALIGN;
    if (bytes > ROOM)
        return 0;
    memcpy(seg, data, bytes);
    memset(seg + bytes, 0, room - bytes);
    (void)ftk_seg_check_head(seg, bytes, "as it is");
    if (room < sizeof *h || h->head_bytes < sizeof *h || h->head_bytes > room)
        return 0;
    ftk_seg_seal_head(seg);
    if (ftk_seg_check_head(seg, room, "sealed") != FTKIT_OK)
        return 0;
    const struct ftk_seg_region *r = ftk_seg_regions_c(seg);
    for (uint32_t i = 0; i < h->nregions; i++) {
        MUST(r[i].offset + r[i].bytes <= h->data_bytes);
        MUST(ftk_seg_find(seg, r[i].name) == &r[i]);
        check_shape(&r[i]);
    }
    if (ftk_seg_bytes(seg) <= room)
        (void)ftk_seg_check_data(seg, "data");
    return 0;
}
