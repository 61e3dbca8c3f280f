/* A segment that grows while it is filled: in anonymous memory, and in a slot that later
 * processes can find.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/memory.h"

static char dir[] = "/tmp/ftkit-t-memory.XXXXXX";
static const size_t steps[] = { 1, 5000, 5001, 300000, 9u << 20, (9u << 20) + 1, 20u << 20 };
enum { NSTEPS = sizeof steps / sizeof *steps };

/* What the faults are armed for, as ranks. */
enum { QUIET, NO_MEMORY, NO_SPACE, NO_MAP };

static void open_memory(struct ftk_mem *m, int kind)
{
    memset(m, 0, sizeof *m);
    assert_int_equal(ftk_place_open(&m->place, kind, dir, "t", 1, 1), FTKIT_OK);
}

static int slots(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static char content(size_t i)
{
    return (char)(i * 7 + i / 251 + 1);
}

static void fill(struct ftk_mem_seg *s, size_t from)
{
    for (size_t i = from; i < s->bytes; i++)
        s->buf[i] = content(i);
}

static void check(const struct ftk_mem_seg *s, size_t bytes)
{
    assert_true(s->bytes >= bytes && s->cap >= s->bytes);
    for (size_t i = 0; i < bytes; i++)
        if (s->buf[i] != content(i))
            assert_int_equal(s->buf[i], content(i));
}

/* Grow a segment through all lengths, beside another one that must stay as it is. */
static void grow(struct ftk_mem *m)
{
    struct ftk_mem_seg *s, *other;
    assert_int_equal(ftk_mem_take(m, 7, 1, 4, steps[0], &s), FTKIT_OK);
    assert_int_equal(ftk_mem_take(m, 7, 2, 4, 10000, &other), FTKIT_OK);
    fill(s, 0);
    fill(other, 0);
    for (int i = 1; i < NSTEPS; i++) {
        const char *was = s->buf;
        bool room = s->cap >= steps[i];
        assert_int_equal(ftk_mem_grow(m, s, steps[i]), FTKIT_OK);
        assert_int_equal(s->bytes, steps[i]);
        assert_true(!room || s->buf == was);
        check(s, steps[i - 1]);
        fill(s, steps[i - 1]);
        assert_true(s->set == 7 && s->rank == 1 && s->nranks == 4 && !s->sealed);
        assert_int_equal(ftk_mem_used(m), steps[i] + 10000);
    }
    check(s, s->bytes);
    check(other, 10000);
    assert_int_equal(m->nsegs, 2);
}

static void anonymous_memory_grows(void **state)
{
    struct ftk_mem m;
    (void)state;
    open_memory(&m, FTK_PLACE_MEMORY);
    grow(&m);
    assert_null(m.segs[0]->place);
    assert_int_equal(slots(), 0);
    ftk_mem_close(&m, false);
}

static void no_memory_to_grow(void **state)
{
    struct ftk_mem m;
    struct ftk_mem_seg *s;
    (void)state;
    open_memory(&m, FTK_PLACE_MEMORY);
    assert_int_equal(ftk_mem_take(&m, 7, 1, 4, 5000, &s), FTKIT_OK);
    fill(s, 0);
    const struct ftk_mem_seg was = *s;
    ftk_fault_rank(NO_MEMORY, 0);
    assert_int_equal(ftk_mem_grow(&m, s, 1 << 20), FTKIT_ERR_NOMEM);
    ftk_fault_rank(QUIET, 0);
    assert_int_equal(ftk_mem_grow(&m, s, SIZE_MAX - 100), FTKIT_ERR_NOMEM);
    assert_memory_equal(s, &was, sizeof was);
    check(s, 5000);
    assert_int_equal(ftk_mem_grow(&m, s, 1 << 20), FTKIT_OK);
    check(s, 5000);
    ftk_mem_close(&m, false);
}

/* Make the first bytes of a buffer a whole segment. */
static void make_segment(struct ftk_mem_seg *s, size_t data)
{
    size_t head = ftk_seg_head_bytes(1, data, FTK_SEG_BLOCK);
    struct ftk_seg_header *h = (void *)s->buf;
    memset(s->buf, 0, head);
    *h = (struct ftk_seg_header){ .version = FTK_SEG_VERSION,
        .byte_order = FTK_SEG_BYTE_ORDER,
        .head_bytes = head,
        .data_bytes = data,
        .set = s->set,
        .run = 5,
        .epoch_id = 6,
        .rank = (uint32_t)s->rank,
        .nranks = (uint32_t)s->nranks,
        .nregions = 1,
        .block_bytes = FTK_SEG_BLOCK,
        .nblocks = (data + FTK_SEG_BLOCK - 1) / FTK_SEG_BLOCK,
        .context = "t" };
    memcpy(h->magic, FTK_SEG_MAGIC, sizeof h->magic);
    *ftk_seg_regions(s->buf) = (struct ftk_seg_region){ .name = "x",
        .kind = FTK_KIND_FLAT,
        .basic = FTK_T_U8,
        .elem_bytes = 1,
        .count = data,
        .bytes = data };
    ftk_seg_seal_data(s->buf);
    ftk_seg_seal_head(s->buf);
}

static void slots_grow(void **state)
{
    struct ftk_mem m;
    const size_t data = 30000;
    (void)state;
    open_memory(&m, FTK_PLACE_SHARED);
    grow(&m);
    assert_int_equal(slots(), 2); /* the shorter ones are gone */
    struct ftk_mem_seg *s = m.segs[0];
    assert_true(s->place == &m.place && s->fd >= 0);
    s->bytes = ftk_seg_head_bytes(1, data, FTK_SEG_BLOCK) + data;
    make_segment(s, data);
    assert_int_equal(ftk_mem_seal(s), FTKIT_OK);
    ftk_mem_close(&m, true);
    assert_int_equal(slots(), 1);

    open_memory(&m, FTK_PLACE_SHARED); /* a later process */
    assert_int_equal(ftk_place_adopt(&m.place, &m, NULL, 0), FTKIT_OK);
    s = ftk_mem_find(&m, 7, 1);
    assert_non_null(s);
    assert_int_equal(ftk_mem_verify(s, "slot"), FTKIT_OK);
    ftk_mem_close(&m, false);
    assert_int_equal(slots(), 0);
}

static void no_room_for_a_longer_slot(void **state)
{
    struct ftk_mem m;
    struct ftk_mem_seg *s;
    const int why[] = { NO_SPACE, NO_MAP }, wanted[] = { FTKIT_ERR_NOSPACE, FTKIT_ERR_NOMEM };
    (void)state;
    open_memory(&m, FTK_PLACE_FILE);
    assert_int_equal(ftk_mem_take(&m, 7, 1, 4, 5000, &s), FTKIT_OK);
    fill(s, 0);
    const struct ftk_mem_seg was = *s;
    for (int i = 0; i < 2; i++) {
        ftk_fault_rank(why[i], 0);
        assert_int_equal(ftk_mem_grow(&m, s, 1 << 20), wanted[i]);
        ftk_fault_rank(QUIET, 0);
        assert_memory_equal(s, &was, sizeof was);
        check(s, 5000);
        assert_int_equal(slots(), 1);
    }
    assert_int_equal(ftk_mem_grow(&m, s, 1 << 20), FTKIT_OK);
    check(s, 5000);
    assert_int_equal(slots(), 1);
    ftk_mem_close(&m, false);
    assert_int_equal(slots(), 0);
}

/* Shared memory is memory: without room for a slot the buffer is in the process. */
static void no_room_in_shared_memory(void **state)
{
    struct ftk_mem m;
    struct ftk_mem_seg *s, *t;
    (void)state;
    open_memory(&m, FTK_PLACE_SHARED);
    assert_int_equal(ftk_mem_take(&m, 7, 1, 4, 5000, &s), FTKIT_OK);
    fill(s, 0);
    assert_int_equal(m.lacked, 0);
    ftk_fault_rank(NO_SPACE, 0);
    assert_int_equal(ftk_mem_grow(&m, s, 1 << 20), FTKIT_OK);
    assert_int_equal(ftk_mem_take(&m, 7, 2, 4, 1 << 20, &t), FTKIT_OK);
    ftk_fault_rank(QUIET, 0);
    assert_true(m.lacked >= 1 << 20);
    assert_null(s->place);
    assert_null(t->place);
    check(s, 5000);
    assert_int_equal(slots(), 0);
    assert_int_equal(ftk_mem_take(&m, 8, 1, 4, 5000, &t), FTKIT_OK); /* there is room again */
    assert_non_null(t->place);
    assert_int_equal(slots(), 1);
    ftk_mem_close(&m, false);
    assert_int_equal(slots(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anonymous_memory_grows),
        cmocka_unit_test(no_memory_to_grow),
        cmocka_unit_test(slots_grow),
        cmocka_unit_test(no_room_for_a_longer_slot),
        cmocka_unit_test(no_room_in_shared_memory),
    };
    if (setenv("FTKIT_FAULT",
            "memory.map:1:1:ENOMEM,place.allocate:2:*:ENOSPC,place.map:3:1:ENOMEM", 1)
            != 0
        || !mkdtemp(dir))
        return 1;
    ftk_fault_rank(QUIET, 0);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(dir) == 0 ? rc : 1;
}
