/* Which blocks of a segment have changed since another.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/changes.h"

#define BLOCK ((size_t)FTK_SEG_BLOCK)

static char *make(size_t data_bytes)
{
    size_t head = ftk_seg_head_bytes(0, data_bytes, BLOCK);
    char *seg = aligned_alloc(4096, head + (data_bytes + 4095) / 4096 * 4096);
    assert_non_null(seg);
    memset(seg, 0, head);
    struct ftk_seg_header *h = (void *)seg;
    *h = (struct ftk_seg_header){ .version = FTK_SEG_VERSION,
        .byte_order = FTK_SEG_BYTE_ORDER,
        .head_bytes = head,
        .data_bytes = data_bytes,
        .set = 1,
        .nranks = 1,
        .block_bytes = FTK_SEG_BLOCK,
        .nblocks = ftk_blocks(data_bytes) };
    memcpy(h->magic, FTK_SEG_MAGIC, sizeof h->magic);
    for (size_t i = 0; i < data_bytes; i++)
        seg[head + i] = (char)(i * 7 + i / 977);
    ftk_seg_seal_data(seg);
    ftk_seg_seal_head(seg);
    return seg;
}

static void begin(struct ftk_changes *c, const char *base, size_t data_bytes)
{
    assert_int_equal(ftk_changes_begin(c, base, ftk_seg_bytes(base), data_bytes), FTKIT_OK);
    c->exact = true;
}

/* One byte of each block in turn, the first and the last one too. */
static void every_block(size_t data_bytes)
{
    char *base = make(data_bytes), *next = make(data_bytes);
    size_t n = ftk_blocks(data_bytes);
    for (size_t b = 0; b < n; b++) {
        struct ftk_changes c;
        size_t last = b * BLOCK + ftk_block_bytes(data_bytes, b) - 1;
        size_t at = b % 2 ? b * BLOCK : last;
        ftk_seg_data(next)[at] ^= 1;
        ftk_seg_seal_data(next);
        begin(&c, base, data_bytes);
        for (size_t upto = 0; upto < data_bytes; upto += 3 * BLOCK)
            ftk_changes_note(&c, next, upto);
        ftk_changes_note(&c, next, data_bytes);
        assert_int_equal(c.next, n);
        assert_int_equal(c.changed, 1);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(ftk_mask_has(c.masks, i), i == b);
        ftk_changes_end(&c);
        ftk_seg_data(next)[at] ^= 1;
    }
    free(base);
    free(next);
}

static void every_block_is_told(void **state)
{
    (void)state;
    every_block(1);
    every_block(BLOCK);
    every_block(16 * BLOCK);
    every_block(16 * BLOCK + 1);
    every_block(33 * BLOCK + 4711);
}

/* Blocks beyond the end of either have changed, and a last one of another length. */
static void lengths_differ(void **state)
{
    static const size_t lengths[] = { 0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK,
        17 * BLOCK + 5 };
    (void)state;
    for (size_t i = 0; i < 7; i++)
        for (size_t k = 0; k < 7; k++) {
            struct ftk_changes c;
            char *base = make(lengths[i]), *next = make(lengths[k]);
            begin(&c, base, lengths[k]);
            ftk_changes_note(&c, next, lengths[k]);
            for (size_t b = 0; b < ftk_blocks(lengths[k]); b++)
                assert_int_equal(ftk_mask_has(c.masks, b),
                    ftk_block_bytes(lengths[i], b) != ftk_block_bytes(lengths[k], b));
            ftk_changes_end(&c);
            free(base);
            free(next);
        }
}

/* Sums are not believed: a base whose bytes have changed under its sum. */
static void bytes_are_compared(void **state)
{
    struct ftk_changes c;
    char *base = make(4 * BLOCK), *next = make(4 * BLOCK);
    (void)state;
    ftk_seg_data(base)[2 * BLOCK + 9] ^= 4;
    begin(&c, base, 4 * BLOCK);
    ftk_changes_note(&c, next, 4 * BLOCK);
    assert_int_equal(c.masks[0], 1u << 2);
    ftk_changes_end(&c);
    begin(&c, base, 4 * BLOCK);
    c.exact = false; /* an estimate by sums */
    ftk_changes_note(&c, next, 4 * BLOCK);
    assert_int_equal(c.masks[0], 0);
    ftk_changes_end(&c);
    begin(&c, base, 4 * BLOCK);
    c.vouch = true;
    ftk_changes_note(&c, next, 2 * BLOCK);
    assert_true(c.sound);
    ftk_changes_note(&c, next, 4 * BLOCK);
    assert_false(c.sound); /* parity must not be made of it */
    ftk_changes_end(&c);
    free(base);
    free(next);
}

/* What has changed in the program, while its old bytes hold, is sound. */
static void a_sound_base(void **state)
{
    struct ftk_changes c;
    char *base = make(4 * BLOCK), *next = make(5 * BLOCK);
    (void)state;
    ftk_seg_data(next)[BLOCK] ^= 4;
    ftk_seg_seal_data(next);
    begin(&c, base, 5 * BLOCK);
    c.vouch = true;
    ftk_changes_note(&c, next, 5 * BLOCK);
    assert_int_equal(c.masks[0], 1u << 1 | 1u << 4);
    assert_true(c.sound);
    ftk_changes_end(&c);
    free(base);
    free(next);
}

/* Parity takes what the base has behind the end of shorter data out again: it counts, too. */
static void behind_the_end(void **state)
{
    static const size_t lengths[] = { 0, 1, 3 * BLOCK, 3 * BLOCK + 5, 6 * BLOCK };
    (void)state;
    for (size_t i = 0; i < 5; i++)
        for (size_t hurt = 0; hurt < 6; hurt++) {
            struct ftk_changes c;
            char *base = make(6 * BLOCK), *next = make(lengths[i]);
            size_t n = ftk_blocks(lengths[i]);
            ftk_seg_data(base)[hurt * BLOCK + 77] ^= 1;
            begin(&c, base, lengths[i]);
            c.vouch = true;
            ftk_changes_close(&c, lengths[i]);
            assert_int_equal(c.sound, hurt < n);
            ftk_changes_end(&c);
            free(base);
            free(next);
        }
}

static void a_head_that_does_not_hold(void **state)
{
    struct ftk_changes c;
    char *base = make(4 * BLOCK);
    (void)state;
    for (size_t at = 0; at < sizeof(struct ftk_seg_header); at += 8) {
        base[at] ^= 16;
        assert_true(ftk_changes_begin(&c, base, ftk_seg_bytes(base), 4 * BLOCK) < 0);
        base[at] ^= 16;
    }
    free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_is_told),
        cmocka_unit_test(lengths_differ),
        cmocka_unit_test(bytes_are_compared),
        cmocka_unit_test(a_sound_base),
        cmocka_unit_test(behind_the_end),
        cmocka_unit_test(a_head_that_does_not_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
