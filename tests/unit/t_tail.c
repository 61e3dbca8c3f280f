/* The tail of a set of a line apart: good words are applied, damaged words are refused.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "log/determinant/det.h"
#include "log/base/part.h"
#include "log/mode.h"
#include "log/recovery/recovery.h"
#include "log/recovery/tail.h"

/* Places in the words of make(): two channels to this rank, one from it, two determinants. */
enum { NIN, IN, NOUT = IN + 2 * 4, OUT, NDET = OUT + 4, DET, WORDS = DET + 2 * 2 };
enum { CONTEXT, RANK, TAG, EARLY }; /* of a channel */
enum { RANKS = 4 };

static void make(uint64_t *w)
{
    const struct ftk_det det[2] = { { FTK_DET_PROBE, 3, 2, 77 }, { FTK_DET_RECV, 1, 3, 7 } };
    const uint64_t good[DET] = { 2, 0, 3, 7, 5, FTK_LOG_COLLS, 0, INT_MAX, 1, 1, FTK_LOG_EXTRA, 1,
        0, 2, 2 };
    memcpy(w, good, sizeof good);
    memcpy(w + DET, det, sizeof det);
}

/* Words of their size, so that a look past their end is found. */
static int read_copy(const uint64_t *w, size_t n)
{
    uint64_t *own = malloc(n > 0 ? n * sizeof *w : 1);
    assert_non_null(own);
    memcpy(own, w, n * sizeof *w);
    int rc = ftk_tail_read(own, n);
    free(own);
    return rc;
}

static void assert_refused(const uint64_t *w, size_t n)
{
    assert_int_equal(read_copy(w, n), FTKIT_ERR_FORMAT);
    assert_int_equal(ftk_tail_apply(), FTKIT_OK); /* nothing is left of it */
    assert_int_equal(ftk_channels_count(), 0);
    assert_int_equal(ftk_sent_count(), 0);
}

static void forget(void)
{
    ftk_tail_forget();
    ftk_part_channels.close();
}

static int set_up(void **state)
{
    (void)state;
    static struct ftkit_ctx ctx;
    ftk_log.ctx = &ctx;
    ftk_log.mode = ftk_mode_of(FTK_DETS_NODE);
    ftk_session_begin();
    ftk_log.n = RANKS;
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    forget();
    return 0;
}

static void assert_applied(void)
{
    assert_int_equal(ftk_tail_apply(), FTKIT_OK);
    assert_int_equal(ftk_channels_count(), 2);
    assert_int_equal(ftk_channel_find(0, 3, 7)->count, 5);
    assert_int_equal(ftk_channel_find(FTK_LOG_COLLS, 0, INT_MAX)->count, 1);
    assert_int_equal(ftk_sent_count(), 1);
    assert_int_equal(ftk_sent_find(FTK_LOG_EXTRA, 1, 0)->early, 2);
    const struct ftk_suppress *m = ftk_suppress_find(FTK_LOG_EXTRA, 1, 0);
    assert_non_null(m);
    assert_int_equal(m->next, 1);
    assert_int_equal(m->upto, 2);
}

static void good_words(void **state)
{
    uint64_t w[WORDS];
    (void)state;
    make(w);
    assert_int_equal(read_copy(w, WORDS), FTKIT_OK);
    assert_applied();
    assert_int_equal(ftk_tail_apply(), FTKIT_OK); /* once */
    assert_int_equal(ftk_channel_find(0, 3, 7)->count, 5);
}

/* What is written is what is read. */
static void round_trip(void **state)
{
    struct ftk_words w = { 0 };
    (void)state;
    struct ftk_channel *c = ftk_channel_find(0, 3, 7);
    c->at_line = 9;
    c->at_cut = 4;
    c = ftk_channel_find(1, 2, 7); /* has no early messages */
    c->at_line = c->at_cut = 6;
    c = ftk_channel_find(FTK_LOG_COLLS, 0, INT_MAX);
    c->at_line = 1;
    ftk_sent_find(FTK_LOG_EXTRA, 1, 0)->next_early = 2;
    (void)ftk_sent_find(0, 2, 1); /* neither */
    assert_int_equal(ftk_tail_write(&w), FTKIT_OK);
    assert_int_equal(w.n, NDET + 1); /* no determinants: no log is open */
    forget();
    assert_int_equal(read_copy(w.v, w.n), FTKIT_OK);
    assert_applied();
    ftk_words_free(&w);
}

/* A rank that was at the line when all others were: no tail, and an empty one. */
static void nothing(void **state)
{
    const uint64_t w[3] = { 0 };
    (void)state;
    assert_int_equal(read_copy(w, 0), FTKIT_OK);
    assert_int_equal(ftk_tail_apply(), FTKIT_OK);
    assert_int_equal(read_copy(w, 3), FTKIT_OK);
    assert_int_equal(ftk_tail_apply(), FTKIT_OK);
    assert_int_equal(ftk_channels_count() + ftk_sent_count(), 0);
}

static void cut_short(void **state)
{
    uint64_t w[WORDS + 1] = { 0 };
    (void)state;
    make(w);
    for (size_t n = 1; n < WORDS; n++)
        assert_refused(w, n);
    assert_refused(w, WORDS + 1); /* and a word too many */
}

static void wrong_counts(void **state)
{
    const int places[] = { NIN, NOUT, NDET };
    /* with four or two words each, the last ones are few words modulo 2^64 */
    const uint64_t counts[] = { 0, 3, 4, 5, WORDS, INT_MAX, UINT64_MAX, UINT64_C(1) << 62,
        (UINT64_C(1) << 62) + 1, (UINT64_C(1) << 62) + 2, (UINT64_C(1) << 63) + 2 };
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            uint64_t w[WORDS];
            make(w);
            w[places[i]] = counts[k];
            assert_refused(w, WORDS);
        }
}

static void wrong_channels(void **state)
{
    const int places[] = { IN, IN + 4, OUT };
    static const struct {
        int word;
        uint64_t value;
    } bad[] = {
        { CONTEXT, FTK_LOG_COLLS + 1 },
        { CONTEXT, FTK_LOG_EXTRA - 1 },
        { CONTEXT, FTK_LOG_ALL },
        { CONTEXT, UINT64_C(1) << 32 },
        { CONTEXT, UINT64_MAX },
        { RANK, RANKS },
        { RANK, UINT64_C(1) << 32 },
        { RANK, UINT64_MAX },
        { TAG, (uint64_t)INT_MAX + 1 },
        { TAG, UINT32_MAX },
        { TAG, UINT64_C(1) << 32 },
        { EARLY, (UINT64_C(1) << 32) + 1 },
        { EARLY, UINT64_MAX },
    };
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            uint64_t w[WORDS];
            make(w);
            w[places[i] + bad[k].word] = bad[k].value;
            assert_refused(w, WORDS);
        }
}

/* Two determinants in place of the good ones. */
static void wrong_determinants(void **state)
{
    static const struct ftk_det recv = { FTK_DET_RECV, 1, 3, 7 };
    static const struct ftk_det bad[][2] = {
        { { 0, 1, 3, 7 }, recv },
        { { FTK_DET_NKINDS, 1, 3, 7 }, recv },
        { { FTK_DET_MORE, 1, 3, 7 }, recv }, /* of no call */
        { { FTK_DET_RECV, UINT32_MAX, 3, 7 }, recv },
        { { FTK_DET_RECV, 1, RANKS, 7 }, recv },
        { { FTK_DET_RECV, 1, -1, 7 }, recv },
        { { FTK_DET_RECV, 1, 3, -2 }, recv },
        { { FTK_DET_PROBE, 0, INT_MIN, 7 }, recv },
        { { FTK_DET_TEST, 0, -1, 0 }, recv },
        { { FTK_DET_CANCEL, 1, -1, 0 }, recv },
        { { FTK_DET_TAG, 1, RANKS, 7 }, recv },
        { { FTK_DET_TAG, 1, 3, -1 }, recv },
        { { FTK_DET_PROBED, 1, RANKS, 7 }, recv },
        { { FTK_DET_PROBED, 1, 3, -1 }, recv },
        { { FTK_DET_SOME, 0, 1, 0 }, recv },
        { { FTK_DET_SOME, 0, 1, 0 }, { FTK_DET_MORE, 0, -1, 0 } },
        { { FTK_DET_SOME, 0, 2, 0 }, { FTK_DET_MORE, 0, 1, 0 } },
        { { FTK_DET_SOME, 0, -1, 0 }, recv },
        { { FTK_DET_VALUE, 0, 1, 4 }, recv },
        { { FTK_DET_VALUE, 0, 1, 13 }, { FTK_DET_MORE, 1, 1, 1 } },
        { { FTK_DET_VALUE, 0, 1, -1 }, { FTK_DET_MORE, 1, 1, 1 } },
        { { FTK_DET_VALUE, 0, INT_MAX, 4 }, { FTK_DET_MORE, 1, 1, 1 } },
        { recv, { FTK_DET_VALUE, 0, 1, 4 } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t w[WORDS];
        make(w);
        memcpy(w + DET, bad[i], sizeof bad[i]);
        assert_refused(w, WORDS);
    }
}

/* The bytes of a value may be anything, and a rank may begin many receives and probes. */
static void good_determinants(void **state)
{
    static const struct ftk_det good[][2] = {
        { { FTK_DET_VALUE, 0, 1, 12 }, { FTK_DET_MORE, UINT32_MAX, -1, INT_MIN } },
        { { FTK_DET_SOME, 3, 1, 0 }, { FTK_DET_MORE, 0, 2, 0 } },
        { { FTK_DET_NONE, 8, 0, 0 }, { FTK_DET_CANCEL, 7, 1, 0 } },
        { { FTK_DET_VALUE, 0, 0, 0 }, { FTK_DET_TEST, 1, 0, 0 } },
        { { FTK_DET_RECV, 1, 3, MPI_ANY_TAG }, { FTK_DET_TAG, 1, 3, 7 } },
        { { FTK_DET_TAG, 1 << 30, 3, 7 }, { FTK_DET_PROBED, 1 << 30, 3, 7 } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t w[WORDS];
        make(w);
        memcpy(w + DET, good[i], sizeof good[i]);
        assert_int_equal(read_copy(w, WORDS), FTKIT_OK);
        forget();
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, clean_up)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(good_words), TEST(round_trip), TEST(nothing),
        TEST(cut_short), TEST(wrong_counts), TEST(wrong_channels), TEST(wrong_determinants),
        TEST(good_determinants) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
