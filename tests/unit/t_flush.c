/* Writing in the background: segments pass through the ring of a node whole or not at all,
 * the threads finish a set or give it up, nobody waits for ever, held memory stays.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "t_h5.h"

#include "set/flusher.h"
#include "store/memory.h"

static atomic_bool stop;
static const struct ftk_ring_wait soon = { &stop, 0.3 };
static const struct ftk_ring_wait patient = { &stop, 60 };

/* ---- the ring ------------------------------------------------------------------------ */

#define MEMBERS 4

static void fill(char *buf, size_t bytes, uint64_t seed)
{
    uint64_t x = seed + 1;
    for (size_t i = 0; i < bytes; i += sizeof x) {
        (void)next_random(&x);
        memcpy(buf + i, &x, bytes - i < sizeof x ? bytes - i : sizeof x);
    }
}

static size_t bytes_of(uint64_t set, int member)
{
    static const size_t sizes[] = { 1, FTK_RING_BLOCK - 1, FTK_RING_BLOCK,
        FTK_RING_BLOCK * FTK_RING_BLOCKS, FTK_RING_BLOCK * (FTK_RING_BLOCKS + 2) + 77 };
    return sizes[(set + (uint64_t)member) % COUNT(sizes)];
}

/* What a process that gives may do wrong. */
enum { GIVES, DIES_BEFORE, DIES_AFTER_OFFER, LEAVES, OFFERS_ONLY, REFUSES };

/* A process with a member; it gives the sets 1..nsets and ends with the last code. */
static pid_t member(const struct ftk_ring_address *at, int m, int nsets, int how, int ready)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct ftk_ring *ring = NULL;
    int rc = ftk_ring_join(at, m, &ring);
    if (write(ready, "j", 1) != 1 || rc != FTKIT_OK)
        _exit(100);
    for (int set = 1; set <= nsets && rc == FTKIT_OK; set++) {
        size_t bytes = bytes_of((uint64_t)set, m);
        char *buf = malloc(bytes);
        fill(buf, bytes, (uint64_t)(set * 10 + m));
        if (how == DIES_BEFORE)
            raise(SIGKILL);
        if (how == LEAVES) {
            ftk_ring_leave(ring);
            pause();
        }
        ftk_ring_offer(ring, (uint64_t)set, bytes);
        if (how == DIES_AFTER_OFFER)
            raise(SIGKILL);
        if (how == OFFERS_ONLY)
            pause();
        atomic_store(&stop, how == REFUSES);
        rc = ftk_ring_give(ring, (uint64_t)set, buf, bytes, &patient);
        if (how == REFUSES)
            pause();
        free(buf);
    }
    ftk_ring_close(ring);
    _exit(-rc);
}

/* A ring with members 1.. in processes of their own; how[m] each. */
static struct ftk_ring *make_ring(int n, int nsets, const int *how, pid_t *pids)
{
    struct ftk_ring *ring = NULL;
    struct ftk_ring_address at;
    int ready[2];
    char c;
    CHECK_RC(FTKIT_OK, ftk_ring_make(n, &ring, &at));
    assert_int_equal(pipe(ready), 0);
    for (int m = 1; m < n; m++) {
        pids[m] = member(&at, m, nsets, how ? how[m] : GIVES, ready[1]);
        assert_int_equal(read(ready[0], &c, 1), 1);
    }
    ftk_ring_made(ring);
    close(ready[0]);
    close(ready[1]);
    return ring;
}

static int take(struct ftk_ring *ring, uint64_t set, int m, const struct ftk_ring_wait *wait)
{
    size_t bytes = 0;
    int rc = ftk_ring_offered(ring, set, m, &bytes, wait);
    if (rc != FTKIT_OK)
        return rc;
    assert_int_equal(bytes, bytes_of(set, m));
    char *buf = malloc(bytes), *want = malloc(bytes);
    rc = ftk_ring_take(ring, set, m, buf, bytes, wait);
    fill(want, bytes, set * 10 + (uint64_t)m);
    if (rc == FTKIT_OK)
        assert_memory_equal(buf, want, bytes);
    free(buf);
    free(want);
    return rc;
}

static void reap(pid_t pid, bool killed)
{
    int status;
    if (killed)
        kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!killed)
        assert_int_equal(status, 0);
}

static void segments_pass(void **state)
{
    (void)state;
    pid_t pids[MEMBERS];
    enum { SETS = 5 }; /* of each size once */
    int before = handles();
    struct ftk_ring *ring = make_ring(MEMBERS, SETS, NULL, pids);
    for (uint64_t set = 1; set <= SETS; set++)
        for (int m = 1; m < MEMBERS; m++)
            CHECK_RC(FTKIT_OK, take(ring, set, m, &patient));
    for (int m = 1; m < MEMBERS; m++)
        reap(pids[m], false);
    ftk_ring_close(ring);
    assert_int_equal(handles(), before);
}

/* Whatever becomes of a member, the taker's wait ends. */
static void members_fail(void **state)
{
    (void)state;
    enum { BAD = 3 }; /* whose segment is longer than the ring: it has to wait, and so to look */
    assert_true(bytes_of(1, BAD) > (size_t)FTK_RING_BLOCK * FTK_RING_BLOCKS);
    for (int how = DIES_BEFORE; how <= REFUSES; how++) {
        pid_t pids[MEMBERS];
        const int each[MEMBERS] = { [BAD] = how };
        double t0 = ftk_now_s();
        struct ftk_ring *ring = make_ring(MEMBERS, 1, each, pids);
        if (how == DIES_BEFORE || how == DIES_AFTER_OFFER)
            reap(pids[BAD], true); /* a child that nobody has waited for still has its number */
        CHECK_RC(FTKIT_ERR_PEER, take(ring, 1, BAD, how == OFFERS_ONLY ? &soon : &patient));
        assert_true(ftk_now_s() - t0 < 50);
        if (how != DIES_BEFORE && how != DIES_AFTER_OFFER)
            reap(pids[BAD], true);
        for (int m = 1; m < MEMBERS; m++) { /* the ring is none the worse */
            if (m == BAD)
                continue;
            CHECK_RC(FTKIT_OK, take(ring, 1, m, &patient));
            reap(pids[m], false);
        }
        ftk_ring_close(ring);
    }
}

/* The giver's wait ends when the taker gives up, or is told to stop. */
static void takers_fail(void **state)
{
    (void)state;
    struct ftk_ring *ring = NULL, *other = NULL;
    struct ftk_ring_address at;
    char byte = 1;
    CHECK_RC(FTKIT_OK, ftk_ring_make(2, &ring, &at));
    CHECK_RC(FTKIT_OK, ftk_ring_join(&at, 1, &other));
    ftk_ring_offer(other, 1, 1);
    ftk_ring_abandon(ring, 1);
    CHECK_RC(FTKIT_ERR_PEER, ftk_ring_give(other, 1, &byte, 1, &patient));
    ftk_ring_offer(other, 2, 1);
    atomic_store(&stop, true);
    CHECK_RC(FTKIT_ERR_PEER, ftk_ring_give(other, 2, &byte, 1, &patient));
    atomic_store(&stop, false);
    ftk_ring_leave(ring); /* without having begun set 3 */
    CHECK_RC(FTKIT_ERR_PEER, ftk_ring_give(other, 3, &byte, 1, &patient));
    ftk_ring_close(other);
    ftk_ring_close(ring);
}

static void strangers_do_not_join(void **state)
{
    (void)state;
    struct ftk_ring *ring = NULL, *other = NULL;
    struct ftk_ring_address at, bad;
    int before = handles();
    CHECK_RC(FTKIT_OK, ftk_ring_make(2, &ring, &at));
    bad = (struct ftk_ring_address){ 0, 0, 0 };
    CHECK_RC(FTKIT_ERR_NOT_FOUND, ftk_ring_join(&bad, 1, &other));
    bad = at;
    bad.token++;
    CHECK_RC(FTKIT_ERR_IO, ftk_ring_join(&bad, 1, &other));
    bad = at;
    bad.fd = 0; /* not a ring */
    CHECK_RC(FTKIT_ERR_IO, ftk_ring_join(&bad, 1, &other));
    bad.fd = 12345;
    CHECK_RC(FTKIT_ERR_IO, ftk_ring_join(&bad, 1, &other));
    CHECK_RC(FTKIT_ERR_IO, ftk_ring_join(&at, 2, &other)); /* of two members */
    ftk_ring_close(ring);
    CHECK_RC(FTKIT_ERR_IO, ftk_ring_join(&at, 1, &other)); /* gone */
    assert_int_equal(handles(), before);
}

/* ---- the threads: four ranks, two on each of two nodes ------------------------------- */

struct job {
    struct ftk_flusher *f[NRANKS];
    struct ftk_ring *ring[NRANKS];
    void *seg[NRANKS];
    uint64_t heads[NRANKS];
};

static const int writer[NRANKS] = { 0, 0, 2, 2 };
static const int place[NRANKS] = { 0, 1, 0, 1 };

static void start(struct job *j)
{
    memset(j, 0, sizeof *j);
    for (int r = 0; r < NRANKS; r++) {
        struct ftk_ring_address at;
        CHECK_RC(FTKIT_OK, ftk_flusher_start(&j->f[r]));
        if (writer[r] != r)
            continue;
        CHECK_RC(FTKIT_OK, ftk_ring_make(2, &j->ring[r], &at));
        CHECK_RC(FTKIT_OK, ftk_ring_join(&at, 1, &j->ring[r + 1]));
        ftk_ring_made(j->ring[r]);
    }
}

/* The segments of a set, and the table of their heads. */
static void prepare(struct job *j, uint64_t set)
{
    for (int r = 0; r < NRANKS; r++) {
        free(j->seg[r]);
        j->seg[r] = make_segment(set, (uint32_t)r);
        j->heads[r] = ((struct ftk_seg_header *)j->seg[r])->head_xxh;
    }
}

static void give(struct job *j, uint64_t set, int r, double bytes_per_s, double patience_s)
{
    struct ftk_flush_job job = { .context = CONTEXT,
        .set = set,
        .run = RUN,
        .rank = r,
        .nranks = NRANKS,
        .writer = writer,
        .member = place,
        .heads = j->heads,
        .level = ftk_sets_level(FTK_DURABLE_HDF5),
        .seg = j->seg[r],
        .bytes = ftk_seg_bytes(j->seg[r]),
        .ring = j->ring[r],
        .bytes_per_s = bytes_per_s,
        .patience_s = patience_s,
        .keep = 2 };
    snprintf(job.dir, sizeof job.dir, "%s", dir);
    ftk_ring_offer(j->ring[r], set, job.bytes);
    ftk_flusher_give(j->f[r], &job);
}

static int result_of(struct job *j, int r)
{
    struct ftk_flush_result res;
    double end = ftk_now_s() + 60;
    while (!ftk_flusher_done(j->f[r], &res)) {
        assert_true(ftk_now_s() < end);
        usleep(500);
    }
    assert_true(r != 0 || res.complete == (res.rc == FTKIT_OK));
    assert_true(res.rc == FTKIT_OK || res.why[0]);
    return res.rc;
}

static void end(struct job *j)
{
    for (int r = 0; r < NRANKS; r++) {
        ftk_flusher_close(j->f[r]);
        free(j->seg[r]);
    }
    for (int r = NRANKS; r-- > 0;)
        ftk_ring_close(j->ring[r]);
}

static void sets_are_written(void **state)
{
    (void)state;
    struct job j;
    int before = handles();
    extra_bytes = (1 << 20) + 77; /* more than a block of the ring */
    start(&j);
    for (uint64_t set = 1; set <= 4; set++) {
        CHECK_RC(FTKIT_OK, ftk_h5_make(dir, CONTEXT, set, 0, NULL));
        prepare(&j, set);
        for (int r = NRANKS; r-- > 0;)
            give(&j, set, r, 0, 10);
        for (int r = 0; r < NRANKS; r++)
            CHECK_RC(FTKIT_OK, result_of(&j, r));
        CHECK_RC(FTKIT_OK, verify_set(set));
    }
    assert_string_equal(listed(), "4 3"); /* two are kept */
    end(&j);
    assert_int_equal(handles(), before);
}

/* The bytes of a file do not depend on whether it was written in pieces. */
static void pieces_make_the_same_file(void **state)
{
    (void)state;
    struct job j;
    struct ftk_manifest_part out;
    size_t bytes[2];
    extra_bytes = (1 << 20) + 77;
    start(&j);
    CHECK_RC(FTKIT_OK, ftk_h5_make(dir, CONTEXT, 1, 0, NULL));
    prepare(&j, 1);
    for (int r = 0; r < NRANKS; r++)
        give(&j, 1, r, 0, 10);
    for (int r = 0; r < NRANKS; r++)
        CHECK_RC(FTKIT_OK, result_of(&j, r));
    char *slow = read_file(path_of(1, "part-00002.h5"), &bytes[0]);
    const void *segs[2] = { j.seg[2], j.seg[3] };
    CHECK_RC(FTKIT_OK, write_segments(dir, CONTEXT, 1, 2, segs, 2, &out));
    char *fast = read_file(path_of(1, "part-00002.h5"), &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(slow, fast, bytes[0]);
    free(slow);
    free(fast);
    end(&j);
}

/* Only some of the ranks write: the others' part is missed, the older set holds. */
static void parts_that_never_come(void **state)
{
    (void)state;
    struct job j;
    start(&j);
    CHECK_RC(FTKIT_OK, write_set(1));
    for (uint64_t set = 2; set <= 4; set++) {
        CHECK_RC(FTKIT_OK, ftk_h5_make(dir, CONTEXT, set, 0, NULL));
        prepare(&j, set);
        give(&j, set, 1, 0, 60);
        give(&j, set, 0, 0, set == 2 ? 0.2 : 60);
        CHECK_RC(FTKIT_OK, result_of(&j, 1));
        if (set == 3)
            ftk_flusher_alone(j.f[0], 0.05);
        if (set == 4)
            ftk_flusher_cancel(j.f[0]);
        CHECK_RC(FTKIT_ERR_PEER, result_of(&j, 0));
        assert_string_equal(listed(), "1");
        CHECK_RC(FTKIT_OK, verify_set(1));
    }
    /* and all is well with the next one */
    CHECK_RC(FTKIT_OK, ftk_h5_make(dir, CONTEXT, 5, 0, NULL));
    prepare(&j, 5);
    for (int r = 0; r < NRANKS; r++)
        give(&j, 5, r, 0, 60);
    for (int r = 0; r < NRANKS; r++)
        CHECK_RC(FTKIT_OK, result_of(&j, r));
    assert_string_equal(listed(), "5 1");
    assert_false(exists(path_of(3, "")));
    end(&j);
}

/* A part of another flush with the same number does not make this set complete. */
static void parts_of_others(void **state)
{
    (void)state;
    struct job j;
    start(&j);
    CHECK_RC(FTKIT_OK, ftk_h5_make(dir, CONTEXT, 2, 0, NULL));
    prepare(&j, 2);
    j.heads[3]++;
    for (int r = 0; r < NRANKS; r++)
        give(&j, 2, r, 0, 60);
    for (int r = 1; r < NRANKS; r++)
        CHECK_RC(FTKIT_OK, result_of(&j, r));
    CHECK_RC(FTKIT_ERR_CORRUPT, result_of(&j, 0));
    assert_string_equal(listed(), "");
    end(&j);
}

/* A thread that is ended in the middle leaves nothing half done and nothing behind. */
static void ended_in_the_middle(void **state)
{
    (void)state;
    struct job j;
    int before = handles();
    extra_bytes = 2 << 20;
    start(&j);
    CHECK_RC(FTKIT_OK, ftk_h5_make(dir, CONTEXT, 1, 0, NULL));
    prepare(&j, 1);
    for (int r = 0; r < NRANKS; r++)
        give(&j, 1, r, 4e4, 60);
    usleep(100000);
    double t0 = ftk_now_s();
    end(&j);
    assert_true(ftk_now_s() - t0 < 50); /* it would have taken 100 s */
    assert_string_equal(listed(), "");
    assert_false(exists(path_of(1, "part-00000.h5.tmp")));
    assert_false(exists(path_of(1, "part-00000.h5")));
    assert_int_equal(handles(), before);
}

/* ---- memory -------------------------------------------------------------------------- */

static void held_memory_stays(void **state)
{
    (void)state;
    struct ftk_mem m = { 0 };
    struct ftk_mem_seg *s[3], *t;
    const size_t n = 100000;
    CHECK_RC(FTKIT_OK, ftk_mem_take(&m, 1, 0, 1, n, &s[0]));
    memset(s[0]->buf, 7, n);
    s[0]->sealed = true;
    ftk_mem_hold(&m, s[0]);
    assert_int_equal(ftk_mem_used(&m), n);
    ftk_mem_drop_others(&m, 2);
    assert_null(ftk_mem_find(&m, 1, 0));
    assert_int_equal(ftk_mem_used(&m), n); /* it is still there */
    for (int i = 1; i < 3; i++) {
        CHECK_RC(FTKIT_OK, ftk_mem_take(&m, 2, i, 1, n, &s[i]));
        assert_ptr_not_equal(s[i]->buf, s[0]->buf);
        memset(s[i]->buf, i, n);
    }
    for (size_t i = 0; i < n; i++)
        assert_int_equal(s[0]->buf[i], 7);
    ftk_mem_unhold(s[0]);
    assert_int_equal(ftk_mem_used(&m), 2 * n);
    CHECK_RC(FTKIT_OK, ftk_mem_take(&m, 3, 0, 1, n, &t)); /* used again now */
    assert_ptr_equal(t, s[0]);
    ftk_mem_release(t);
    ftk_mem_trim(&m); /* one more is kept than are in use, for the next hold */
    assert_int_equal(m.nsegs, 3);
    ftk_mem_close(&m, false);
}

static void memory_is_reserved(void **state)
{
    (void)state;
    struct ftk_mem m = { 0 };
    struct ftk_mem_seg *s[3];
    const size_t large = 100000, small = 30000;
    assert_int_equal(ftk_mem_touch(&m, 0, 5000), 0);
    CHECK_RC(FTKIT_OK, ftk_mem_reserve(&m, large, 1));
    CHECK_RC(FTKIT_OK, ftk_mem_reserve(&m, small, 2)); /* the large one is one of the two */
    CHECK_RC(FTKIT_OK, ftk_mem_reserve(&m, small, 2));
    assert_int_equal(m.nsegs, 2);
    assert_int_equal(ftk_mem_used(&m), 0);
    size_t touched = 0, n;
    while ((n = ftk_mem_touch(&m, touched, 5000)) > 0) {
        assert_true(n <= 5000);
        touched += n;
    }
    assert_int_equal(touched, m.segs[0]->cap + m.segs[1]->cap);
    assert_true(touched >= large + small);
    const char *bufs[] = { m.segs[0]->buf, m.segs[1]->buf };
    CHECK_RC(FTKIT_OK, ftk_mem_take(&m, 1, 0, 2, small, &s[0]));
    CHECK_RC(FTKIT_OK, ftk_mem_take(&m, 1, 1, 2, large, &s[1]));
    assert_ptr_equal(s[0]->buf, bufs[1]);
    assert_ptr_equal(s[1]->buf, bufs[0]);
    memset(s[0]->buf, 7, small);
    assert_int_equal(ftk_mem_touch(&m, 0, 5000), 0); /* buffers in use are not touched */
    assert_int_equal(s[0]->buf[0], 7);
    ftk_mem_close(&m, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(segments_pass),
        TEST(members_fail),
        TEST(takers_fail),
        TEST(strangers_do_not_join),
        TEST(sets_are_written),
        TEST(pieces_make_the_same_file),
        TEST(parts_that_never_come),
        TEST(parts_of_others),
        TEST(ended_in_the_middle),
        TEST(held_memory_stays),
        TEST(memory_is_reserved),
    };
    return cmocka_run_group_tests_name("flush", tests, make_work, remove_work);
}
