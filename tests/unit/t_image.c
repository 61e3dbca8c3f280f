/* The log's part of a set: states of version 4, which have no tail, of version 5, which have no
 * record of set-up, and of version 6.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/context.h"
#include "log/base/part.h"
#include "log/vcomm/comm.h"
#include "log/recovery/matrix.h"
#include "log/mode.h"
#include "log/payload/payload.h"
#include "log/recovery/recovery.h"
#include "log/recovery/steps.h"
#include "log/recovery/tail.h"
#include "log/determinant/set_up.h"
#include "set/region.h"

enum { RANKS = 4, ROOM = 64, CALLS = 17 };

#define MAGIC UINT64_C(0x6c6b7466)

/* The pieces of a state of rank 0 of four.  They are as on disk: a change of them here means that
 * older sets cannot be read. */
#define HEAD(version) MAGIC | UINT64_C(version) << 32, 1, 1, 1, CALLS, 2, RANKS
#define COMMS 0, 12, 0            /* the world, after 12 collectives */
#define MATRIX 1, 5, 40, 3, 2, 16 /* messages and bytes to ranks 1 and 3 */
#define HELLO UINT64_C(0x6f6c6c6568)
#define UNEXPECTED 0, 3, 7, 5, HELLO
#define SETUP FTK_LOG_COLLS, 1, 9, 0
#define LATE 0, 2, 5, 2, 0x6f79 /* "yo" */
#define TAIL 1, 0, 2, 7, 3, 1, 1, 3, 8, 1, 0
#define REQUESTS 0, 0, 0, 6, 1, 1, 3, 0x28, 0, 3, 8, 1234 /* one matched message */

static const uint64_t of_4[] = { HEAD(4), COMMS, MATRIX, UNEXPECTED, SETUP, REQUESTS };
static const uint64_t of_5[] = { HEAD(5), 11, COMMS, MATRIX, UNEXPECTED, SETUP, TAIL, REQUESTS };
/* Two receives, three tests in vain at the end; a probe of 5 bytes from rank 2 with tag 3 behind
 * one test in vain, and request 1 of some; receive 2 cancelled; a message with hash 77 to rank
 * 3. */
#define PROBE                                                                                      \
    UINT64_C(1) << 32 | FTK_DET_PROBE, UINT64_C(3) << 32 | 2, FTK_DET_MORE, UINT64_C(5) << 32
#define SOME FTK_DET_SOME, 1, FTK_DET_MORE, 1
#define RECORD 2, 3, 4, 1, 1, PROBE, SOME, 2, 0, 3, 8, 1, 77
#define SETUP_6 FTK_LOG_COLLS, 1, UINT64_C(1) << 32 | 9, 0 /* of receive 1 */
enum { RECORD_WORDS = 19, REQUESTS_WORDS = 12 };
static const uint64_t of_6[] = { HEAD(6), 11, RECORD_WORDS, COMMS, MATRIX, UNEXPECTED, SETUP_6,
    RECORD, TAIL, REQUESTS };
/* Since version 7 each part has its name and its length. */
#define NAME_VCOMM UINT64_C(0x6d6d6f6376)
#define NAME_MATRIX UINT64_C(0x78697274616d)
#define NAME_UNEXP UINT64_C(0x7078656e75)
#define NAME_SETUPLOG UINT64_C(0x676f6c7075746573)
#define NAME_LATE UINT64_C(0x6574616c)
#define NAME_SETUP UINT64_C(0x7075746573)
#define NAME_TAIL UINT64_C(0x6c696174)
#define NAME_WIN UINT64_C(0x6e6977)
#define NAME_REQUESTS UINT64_C(0x7374736575716572)
#define HEAD_7 MAGIC | UINT64_C(7) << 32, CALLS, RANKS
#define FRONT_7 NAME_VCOMM, 3, COMMS, NAME_MATRIX, 6, MATRIX, NAME_UNEXP, 5, UNEXPECTED
static const uint64_t of_7[] = { HEAD_7, 8, FRONT_7, NAME_SETUPLOG, 4, SETUP_6, NAME_LATE, 5, LATE,
    NAME_SETUP, RECORD_WORDS, RECORD, NAME_TAIL, 11, TAIL, NAME_REQUESTS, REQUESTS_WORDS,
    REQUESTS };
static const uint64_t of_7_together[] = { HEAD_7, 9, FRONT_7, NAME_SETUPLOG, 4, SETUP, NAME_LATE, 0,
    NAME_SETUP, 5, 0, 0, 0, 0, 0, NAME_TAIL, 0, NAME_WIN, 0, NAME_REQUESTS, 0 };
enum { WORDS_OF_FRONT = 4 + 3 * 2 + 3 + 6 + 5 };
/* The same by a library with one part more, and without the empty sections. */
static const uint64_t of_7_others[] = { HEAD_7, 5, FRONT_7, UINT64_C(0x6e6978), 2, 1, 2,
    NAME_SETUPLOG, 4, SETUP };
static const uint64_t record[] = { RECORD };

#define WORDS(a) (sizeof(a) / sizeof *(a))
static struct ftkit_ctx ctx;
static struct ftk_vcomm world;

static int set_up(void **state)
{
    (void)state;
    world = (struct ftk_vcomm){ .size = RANKS };
    ctx.where = FTK_IN_SETUP;
    ctx.policy.calls = CALLS;
    ctx.cfg.replicas = 1;
    ftk_log.ctx = &ctx;
    ftk_log.n = RANKS;
    ftk_log.mode = ftk_mode_of(FTK_DETS_NODE);
    ftk_log.phase = FTK_PHASE_SETUP_REPLAY; /* all of the state is read */
    ftk_log.vcomms.list = ftk_log.vcomms.world = &world;
    ftk_log.vcomms.ncontexts = 1;
    assert_int_equal(ftk_part_peers.open(RANKS), FTKIT_OK);
    ftk_log.line.calls = 0;
    ftk_session_begin();
    return 0;
}

static int forget(void **state)
{
    (void)state;
    ftk_requests_drop();
    ftk_matched_clear();
    ftk_unexp_clear();
    ftk_setup_log_clear();
    ftk_set_up_close();
    ftk_part_tail.close();
    ftk_part_channels.close();
    ftk_part_peers.close();
    ftk_log.queue.npersistent = 0;
    return 0;
}

/* Words of their size, so that a look past their end is found. */
static int load(const uint64_t *w, size_t n)
{
    uint64_t *own = malloc(n * sizeof *w + 1);
    assert_non_null(own);
    memcpy(own, w, n * sizeof *w);
    int rc = ftk_image_region.ops.unpack(NULL, own, n * sizeof *w);
    free(own);
    return rc;
}

static void assert_loaded(void)
{
    const struct ftk_unexp *h = ftk_unexp_first();
    assert_int_equal(world.colls, 12);
    const struct ftk_peer *p = ftk_peers.at;
    assert_int_equal(p[1].messages * 1000 + p[1].bytes, 5040);
    assert_int_equal(p[3].messages * 1000 + p[3].bytes, 2016);
    assert_int_equal(p[0].messages + p[2].messages + p[0].bytes + p[2].bytes, 0);
    assert_non_null(h);
    assert_int_equal(h->context * 100 + h->source * 10 + h->tag, 37);
    assert_int_equal(h->bytes, 5);
    assert_memory_equal(h->data, "hello", 5);
    h = ftk_setup_log_first();
    assert_non_null(h);
    assert_null(h->next);
    assert_int_equal(h->context, FTK_LOG_COLLS);
    assert_int_equal(h->source * 10 + h->tag, 19);
    assert_int_equal(h->bytes, 0);
}

static ftkit_info figures(void)
{
    ftkit_info info = { 0 };
    ftk_parts_figures(&info);
    return info;
}

static void assert_requests(void)
{
    assert_int_equal(ftk_log.queue.npersistent, 6);
    assert_int_equal(figures().log_requests, 1);
}

static void version_4(void **state)
{
    (void)state;
    assert_int_equal(load(of_4, WORDS(of_4)), FTKIT_OK);
    assert_loaded();
    assert_requests();
    assert_int_equal(ftk_log.line.calls, 0); /* the job counts them */
    assert_int_equal(ftk_tail_apply(), FTKIT_OK);
    assert_int_equal(ftk_channels_count() + ftk_sent_count(), 0);
}

static void version_5(void **state)
{
    (void)state;
    assert_int_equal(load(of_5, WORDS(of_5)), FTKIT_OK);
    assert_loaded();
    assert_requests();
    assert_int_equal(ftk_log.line.calls, CALLS);
    assert_int_equal(ftk_tail_apply(), FTKIT_OK);
    assert_int_equal(ftk_channel_find(0, 2, 7)->count, 3);
    assert_int_equal(ftk_sent_find(1, 3, 8)->early, 1);
}

static void version_6(void **state)
{
    (void)state;
    assert_int_equal(load(of_6, WORDS(of_6)), FTKIT_OK);
    assert_loaded();
    assert_int_equal(ftk_setup_log_first()->receive, 1);
    assert_requests();
    assert_int_equal(ftk_log.line.calls, CALLS);
    assert_int_equal(ftk_tail_apply(), FTKIT_OK);
    assert_int_equal(ftk_channel_find(0, 2, 7)->count, 3);
}

/* The replay of set-up gets its outcomes in their order, and then nothing. */
static void set_up_again(void **state)
{
    const struct ftk_det *d;
    uint64_t n = 0;
    (void)state;
    assert_int_equal(ftk_set_up_read(record, WORDS(record)), FTKIT_OK);
    assert_int_equal(ftk_set_up_next(FTK_DET_PROBE, &d), FTK_DET_NOTHING);
    assert_int_equal(ftk_set_up_next(FTK_DET_PROBE, &d), FTK_DET_THIS);
    assert_int_equal(d->a * 10 + d->b, 23);
    assert_int_equal(ftk_set_up_bytes(d), 5);
    assert_int_equal(ftk_set_up_next(FTK_DET_SOME, &d), FTK_DET_THIS);
    assert_int_equal(d[0].a * 10 + d[1].a, 11);
    for (int i = 0; i < 9; i++)
        assert_int_equal(ftk_set_up_next(FTK_DET_TEST, &d), FTK_DET_NOTHING);
    assert_true(ftk_set_up_was_cancelled(2) && !ftk_set_up_was_cancelled(1));
    assert_int_equal(ftk_set_up_sends(0, 3, 9, 77, &n), FTK_SENT_NONE);
    assert_int_equal(ftk_set_up_sends(0, 3, 8, 77, &n), FTK_SENT_THE_SAME);
    assert_int_equal(ftk_set_up_sends(0, 3, 8, 77, &n), FTK_SENT_NONE);
}

/* A replay that polls for ever is told so, and gets no answer any more. */
static void polls_for_ever(void **state)
{
    const struct ftk_det *d;
    const uint64_t before = figures().log_differs;
    (void)state;
    assert_int_equal(ftk_set_up_read((uint64_t[5]){ 0 }, 5), FTKIT_OK);
    while (ftk_set_up_next(FTK_DET_TEST, &d) == FTK_DET_NOTHING)
        assert_int_equal(figures().log_differs, before);
    assert_int_equal(figures().log_differs, before + 1);
}

/* No word of a record is trusted. */
static void damaged_record(void **state)
{
    uint64_t w[WORDS(record)];
    (void)state;
    for (size_t n = 0; n < WORDS(record); n++)
        assert_int_equal(ftk_set_up_read(record, n), FTKIT_ERR_FORMAT);
    for (size_t i = 2; i < WORDS(record) - 2; i++) {
        if (i == 5 || i == 13) /* how many tests before; which receive */
            continue;
        memcpy(w, record, sizeof w);
        w[i] = i == 6 || i == 8 || i == 12 ? UINT64_MAX : w[i] + (UINT64_C(1) << 33);
        if (i == 7 || i == 9 || i == 11)
            w[i] = 0;
        if (i == 10)
            w[i] = INT32_MAX;
        assert_int_equal(ftk_set_up_read(w, WORDS(w)), FTKIT_ERR_FORMAT);
    }
}

/* Late messages come behind the unexpected ones. */
static void version_7(void **state)
{
    (void)state;
    assert_int_equal(load(of_7, WORDS(of_7)), FTKIT_OK);
    assert_loaded();
    const struct ftk_unexp *h = ftk_unexp_first()->next;
    assert_non_null(h);
    assert_null(h->next);
    assert_int_equal(h->source * 10 + h->tag, 25);
    assert_memory_equal(h->data, "yo", 2);
    assert_int_equal(ftk_setup_log_first()->receive, 1);
    assert_requests();
    assert_int_equal(ftk_log.line.calls, CALLS);
    assert_int_equal(ftk_tail_apply(), FTKIT_OK);
    assert_int_equal(ftk_channel_find(0, 2, 7)->count, 3);
}

static void assert_saved(void)
{
    uint64_t w[ROOM];
    size_t n = 0;
    assert_int_equal(ftk_image_region.ops.measure(NULL, &n), FTKIT_OK);
    assert_int_equal(n, sizeof of_7_together);
    assert_int_equal(ftk_image_region.ops.pack(NULL, w, n), FTKIT_OK);
    assert_memory_equal(w, of_7_together, n);
}

/* A set of a line together has no tail; what was read is written again. */
static void together(void **state)
{
    (void)state;
    assert_int_equal(load(of_7_together, WORDS(of_7_together)), FTKIT_OK);
    assert_loaded();
    assert_null(ftk_unexp_first()->next);
    assert_int_equal(ftk_log.line.calls, 0);
    assert_saved();
}

/* Sections may be missing, or of a part that this library does not have. */
static void other_parts(void **state)
{
    (void)state;
    assert_int_equal(load(of_7_others, WORDS(of_7_others)), FTKIT_OK);
    assert_loaded();
    assert_int_equal(ftk_log.line.calls, 0);
    assert_saved();
}

/* No set is without its communicators. */
static void missing_part(void **state)
{
    uint64_t w[WORDS(of_7_others)];
    (void)state;
    memcpy(w, of_7_others, sizeof w);
    w[4]++; /* the first letter of a name */
    assert_int_equal(load(w, WORDS(w)), FTKIT_ERR_FORMAT);
}

/* At a cut the state is that of the cut; what is known later comes to it. */
static void cut(void **state)
{
    uint64_t w[ROOM];
    size_t n = 0;
    (void)state;
    assert_int_equal(load(of_7_together, WORDS(of_7_together)), FTKIT_OK);
    assert_int_equal(ftk_image_cut(), FTKIT_OK);
    ftk_unexp_clear();
    world.colls = 13;
    assert_int_equal(ftk_image_region.ops.measure(NULL, &n), FTKIT_OK);
    assert_true(n > sizeof of_7_together); /* room for what comes */
    assert_int_equal(ftk_image_finish(), FTKIT_OK);
    assert_int_equal(ftk_image_region.ops.measure(NULL, &n), FTKIT_OK);
    assert_int_equal(n, sizeof of_7_together + 3 * sizeof *w); /* a tail of three empty lists */
    assert_int_equal(ftk_image_region.ops.pack(NULL, w, n), FTKIT_OK);
    assert_memory_equal(w, of_7_together, WORDS_OF_FRONT * sizeof *w);
    ftk_part_image.cut_over();
    ftk_part_tail.cut_over();
}

static void other_versions(void **state)
{
    uint64_t w[WORDS(of_5)];
    (void)state;
    memcpy(w, of_5, sizeof w);
    for (uint64_t version = 0; version < 9; version++) {
        w[0] = MAGIC | version << 32;
        if (version < 2 || version > 6)
            assert_int_equal(load(w, WORDS(of_5)), FTKIT_ERR_FORMAT);
    }
}

/* A state may end before its requests: the program has none. */
static void cut_short(void **state)
{
    (void)state;
    for (size_t n = 0; n < WORDS(of_4); n++)
        assert_int_equal(
            load(of_4, n), n == WORDS(of_4) - REQUESTS_WORDS ? FTKIT_OK : FTKIT_ERR_FORMAT);
    for (size_t n = 0; n < WORDS(of_5); n++)
        assert_int_equal(
            load(of_5, n), n == WORDS(of_5) - REQUESTS_WORDS ? FTKIT_OK : FTKIT_ERR_FORMAT);
    for (size_t n = 0; n < WORDS(of_6); n++)
        assert_int_equal(
            load(of_6, n), n == WORDS(of_6) - REQUESTS_WORDS ? FTKIT_OK : FTKIT_ERR_FORMAT);
    for (size_t n = 0; n < WORDS(of_7); n++)
        assert_int_equal(load(of_7, n), FTKIT_ERR_FORMAT);
}

/* One complete request: its head has the number 2, flags, context, peer, tag, count, no type, no
 * memory, no id, no error, and a status.  The flag 16 says that it is complete. */
static int load_request(uint64_t flags)
{
    const uint64_t w[] = { 0, 0, 1, 6, 2, flags, 0, 1, 7, 1, UINT64_MAX, UINT64_MAX, 0, 0, 0, 3, 9,
        0, 0 };
    return ftk_requests_load(&ctx, w, w + WORDS(w));
}

/* The lowest two bits of the flags are the kind, and from bit 16 on the kinds behind these four. */
static void kinds(void **state)
{
    (void)state;
    for (uint64_t kind = FTK_REQ_SEND; kind <= FTK_REQ_COLL; kind++) {
        assert_int_equal(load_request(16 | kind), FTKIT_OK);
        const struct ftk_req *r = ftk_req_of(ftk_requests_back(2));
        assert_non_null(r);
        assert_int_equal(r->kind, kind);
        assert_int_equal(r->status.MPI_SOURCE, kind == FTK_REQ_SEND ? MPI_ANY_SOURCE : 3);
        assert_int_equal(r->peer, kind == FTK_REQ_COLL ? MPI_PROC_NULL : 1);
        ftk_requests_drop();
    }
    for (uint64_t kind = FTK_REQ_NKINDS; kind < FTK_REQ_NKINDS + 4; kind++)
        assert_int_equal(load_request(16 | (kind & 3) | (kind >> 2) << 16), FTKIT_ERR_FORMAT);
    assert_int_equal(load_request(16 | UINT64_C(1) << 63), FTKIT_ERR_FORMAT);
    assert_int_equal(load_request(32 | FTK_REQ_SEND), FTKIT_ERR_FORMAT); /* under way */
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, forget)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST(version_4), TEST(version_5), TEST(version_6),
        TEST(version_7), TEST(together), TEST(other_parts), TEST(missing_part), TEST(cut),
        TEST(set_up_again), TEST(polls_for_ever), TEST(damaged_record), TEST(other_versions),
        TEST(cut_short), TEST(kinds) };
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
