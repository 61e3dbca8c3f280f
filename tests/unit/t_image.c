/* The log's part of a set: states of version 4, which have no tail, and of version 5.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/context.h"
#include "log/comm.h"
#include "log/matrix.h"
#include "log/mode.h"
#include "log/p2p.h"
#include "log/payload.h"
#include "log/recovery.h"
#include "log/recovery/tail.h"

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
#define TAIL 1, 0, 2, 7, 3, 1, 1, 3, 8, 1, 0
#define REQUESTS 0, 0, 0, 6, 1, 1, 3, 0x28, 0, 3, 8, 1234 /* one matched message */

static const uint64_t of_4[] = { HEAD(4), COMMS, MATRIX, UNEXPECTED, SETUP, REQUESTS };
static const uint64_t of_5[] = { HEAD(5), 11, COMMS, MATRIX, UNEXPECTED, SETUP, TAIL, REQUESTS };
static const uint64_t of_5_together[] = { HEAD(5), 0, COMMS, MATRIX, UNEXPECTED, SETUP };

#define WORDS(a) (sizeof(a) / sizeof *(a))
enum { REQUESTS_WORDS = 12 };

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
    assert_int_equal(ftk_peers_open(RANKS), FTKIT_OK);
    ftk_log.line.calls = 0;
    return 0;
}

static int forget(void **state)
{
    (void)state;
    ftk_requests_drop();
    ftk_matched_clear();
    ftk_unexp_clear();
    ftk_setup_log_clear();
    ftk_tail_forget();
    ftk_channel_clear();
    ftk_sent_clear();
    ftk_suppress_clear();
    ftk_peers_close();
    ftk_log.queue.npersistent = 0;
    ftk_log.stats.requests = 0;
    return 0;
}

/* Words of their size, so that a look past their end is found. */
static int load(const uint64_t *w, size_t n)
{
    uint64_t *own = malloc(n * sizeof *w + 1);
    assert_non_null(own);
    memcpy(own, w, n * sizeof *w);
    int rc = ftk_image_ops.unpack(NULL, own, n * sizeof *w);
    free(own);
    return rc;
}

static void assert_loaded(void)
{
    const struct ftk_unexp *h = ftk_log.unexp.first;
    assert_int_equal(world.colls, 12);
    const struct ftk_peer *p = ftk_peers.at;
    assert_int_equal(p[1].messages * 1000 + p[1].bytes, 5040);
    assert_int_equal(p[3].messages * 1000 + p[3].bytes, 2016);
    assert_int_equal(p[0].messages + p[2].messages + p[0].bytes + p[2].bytes, 0);
    assert_non_null(h);
    assert_null(h->next);
    assert_int_equal(h->context * 100 + h->source * 10 + h->tag, 37);
    assert_int_equal(h->bytes, 5);
    assert_memory_equal(h->data, "hello", 5);
    h = ftk_log.setup_log.first;
    assert_non_null(h);
    assert_null(h->next);
    assert_int_equal(h->context, FTK_LOG_COLLS);
    assert_int_equal(h->source * 10 + h->tag, 19);
    assert_int_equal(h->bytes, 0);
}

static void assert_requests(void)
{
    assert_int_equal(ftk_log.queue.npersistent, 6);
    assert_int_equal(ftk_log.stats.requests, 1);
}

static void version_4(void **state)
{
    (void)state;
    assert_int_equal(load(of_4, WORDS(of_4)), FTKIT_OK);
    assert_loaded();
    assert_requests();
    assert_int_equal(ftk_log.line.calls, 0); /* the job counts them */
    assert_int_equal(ftk_tail_apply(), FTKIT_OK);
    assert_int_equal(ftk_log.channels.table.n + ftk_log.sent.table.n, 0);
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

/* A set of a line together has no tail; what was read is written again. */
static void together(void **state)
{
    uint64_t w[ROOM];
    size_t n = 0;
    (void)state;
    assert_int_equal(load(of_5_together, WORDS(of_5_together)), FTKIT_OK);
    assert_loaded();
    assert_int_equal(ftk_log.line.calls, 0);
    assert_int_equal(ftk_image_ops.measure(NULL, &n), FTKIT_OK);
    assert_int_equal(n, sizeof of_5_together);
    assert_int_equal(ftk_image_ops.pack(NULL, w, n), FTKIT_OK);
    assert_memory_equal(w, of_5_together, n);
}

static void other_versions(void **state)
{
    uint64_t w[WORDS(of_5)];
    (void)state;
    memcpy(w, of_5, sizeof w);
    for (uint64_t version = 0; version < 8; version++) {
        w[0] = MAGIC | version << 32;
        if (version < 2 || version > 5)
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
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, forget)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST(version_4), TEST(version_5), TEST(together),
        TEST(other_versions), TEST(cut_short) };
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
