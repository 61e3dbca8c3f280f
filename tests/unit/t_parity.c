/* Parity groups: every loss they claim to survive is made good, and no more is claimed.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <isa-l.h>

#include "store/parity.h"

#define LONGEST 4200 /* bytes of an object in the tests */
#define SPACE 65536

/* A group in one process: objects and parities of all members. */
struct sim {
    struct ftk_code c;
    unsigned char *data[FTK_GROUP_MAX], *parity[FTK_GROUP_MAX];
};

/* Spaces that are used again: new memory costs a page fault for each page. */
static unsigned char *kept[4 * FTK_GROUP_MAX];
static int nkept;

static void give_back(unsigned char *p)
{
    assert_true(nkept < 4 * FTK_GROUP_MAX);
    kept[nkept++] = p;
}

static unsigned char *space(void)
{
    unsigned char *p = nkept > 0 ? kept[--nkept] : aligned_alloc(64, SPACE);
    assert_non_null(p);
    memset(p, 0x5a, SPACE); /* what nobody wrote */
    return p;
}

static unsigned char *element_at(const struct sim *s, const struct ftk_element *e)
{
    return (e->parity ? s->parity[e->member] : s->data[e->member]) + e->offset;
}

static void fill(struct sim *s, int n, int m, const uint64_t *len)
{
    unsigned x = 12345u + (unsigned)(n * 100 + m);
    ftk_code_init(&s->c, n, m, len);
    assert_true(ftk_code_parity_bytes(&s->c) <= SPACE);
    for (int i = 0; i < n; i++) {
        s->data[i] = space();
        s->parity[i] = space();
        for (uint64_t b = 0; b < len[i]; b++) {
            x = x * 1664525u + 1013904223u;
            s->data[i][b] = (unsigned char)(x >> 24);
        }
    }
}

static void empty(struct sim *s)
{
    for (int i = 0; i < s->c.n; i++) {
        give_back(s->data[i]);
        give_back(s->parity[i]);
    }
}

/* Compute elements out[nout] of a stripe from elements in[k], as a worker does. */
static void work(
    const struct sim *s, struct sim *to, uint64_t stripe, const int *in, const int *out, int nout)
{
    static unsigned char buf[2 * FTK_GROUP_MAX][FTK_SEG_BLOCK] __attribute__((aligned(64)));
    unsigned char *src[FTK_GROUP_MAX], *dst[FTK_GROUP_MAX];
    int k = s->c.n - s->c.m;
    size_t bytes = ((size_t)ftk_code_stripe_bytes(&s->c, stripe) + 63) / 64 * 64;
    static struct ftk_solver solver;
    for (int i = 0; i < k; i++) {
        struct ftk_element e = ftk_code_element(&s->c, stripe, in[i]);
        src[i] = buf[i];
        memset(src[i], 0, bytes);
        if (e.bytes > 0)
            memcpy(src[i], element_at(s, &e), (size_t)e.bytes);
    }
    for (int o = 0; o < nout; o++)
        dst[o] = buf[FTK_GROUP_MAX + o];
    assert_int_equal(ftk_code_solve(&solver, s->c.n, s->c.m, in, out, nout), FTKIT_OK);
    ftk_code_apply(&solver, bytes, src, dst);
    for (int o = 0; o < nout; o++) {
        struct ftk_element e = ftk_code_element(&s->c, stripe, out[o]);
        memcpy(element_at(to, &e), dst[o], (size_t)e.bytes);
    }
}

static void encode(struct sim *s)
{
    int in[FTK_GROUP_MAX], out[FTK_GROUP_MAX];
    for (int d = 0; d < s->c.n; d++)
        *(d < s->c.m ? &out[d] : &in[d - s->c.m]) = d;
    for (uint64_t stripe = 0; stripe < ftk_code_stripes(&s->c); stripe++)
        work(s, s, stripe, in, out, s->c.m);
}

/* Rebuild the lost members from the others only, and compare with what there was. */
static void rebuild(const struct sim *s, uint32_t lost)
{
    struct sim got = *s;
    int in[FTK_GROUP_MAX], out[FTK_GROUP_MAX];
    for (int i = 0; i < s->c.n; i++) {
        got.data[i] = lost >> i & 1 ? space() : s->data[i];
        got.parity[i] = lost >> i & 1 ? space() : s->parity[i];
    }
    for (uint64_t stripe = 0; stripe < ftk_code_stripes(&s->c); stripe++) {
        int nin = 0, nout = 0;
        for (int d = s->c.n - 1; d >= 0; d--) { /* parities last here, first there */
            struct ftk_element e = ftk_code_element(&s->c, stripe, d);
            if (lost >> e.member & 1)
                out[nout++] = d;
            else if (nin < s->c.n - s->c.m)
                in[nin++] = d;
        }
        assert_int_equal(nin, s->c.n - s->c.m);
        work(&got, &got, stripe, in, out, nout);
    }
    for (int i = 0; i < s->c.n; i++) {
        if (!(lost >> i & 1))
            continue;
        assert_memory_equal(got.data[i], s->data[i], SPACE);
        assert_memory_equal(got.parity[i], s->parity[i], SPACE);
        give_back(got.data[i]);
        give_back(got.parity[i]);
    }
}

static void lengths(int n, uint64_t *len)
{
    for (int i = 0; i < n; i++) /* unequal, one empty, one odd, the longest in the middle */
        len[i] = i == n / 2 ? LONGEST : i == 0 ? 1 : i == 3 ? 0 : (uint64_t)(37 * i * i + 5 * i);
}

static void every_loss(int n, int m)
{
    uint64_t len[FTK_GROUP_MAX];
    struct sim s;
    long tried = 0, beyond = 0;
    lengths(n, len);
    fill(&s, n, m, len);
    encode(&s);
    for (uint32_t lost = 1; lost < UINT32_C(1) << n; lost++) {
        int count = __builtin_popcount(lost);
        if (count > m + 1)
            continue;
        assert_int_equal(ftk_code_survives(n, m, lost, lost), count <= m);
        if (count <= m)
            rebuild(&s, lost), tried++;
        else
            beyond++;
    }
    assert_true(tried >= n && beyond > 0);
    empty(&s);
}

static void xor_survives_any_member(void **state)
{
    (void)state;
    for (int n = 2; n <= 16; n++)
        every_loss(n, 1);
}

static void rs_survives_any_m_members(void **state)
{
    const int most = getenv("FTKIT_TEST_FEW") ? 10 : 16; /* where each takes long */
    (void)state;
    for (int n = 3; n <= most; n++)
        for (int m = 2; m < n && m <= 3; m++)
            every_loss(n, m);
}

static void rs_of_small_groups_in_full(void **state)
{
    (void)state;
    for (int n = 3; n <= 8; n++)
        for (int m = 4; m < n; m++)
            every_loss(n, m);
}

/* The largest group: some losses only, there are too many. */
static void group_of_32(void **state)
{
    (void)state;
    uint64_t len[FTK_GROUP_MAX];
    struct sim s;
    lengths(32, len);
    fill(&s, 32, 5, len);
    encode(&s);
    unsigned x = 7;
    for (int i = 0; i < 300; i++) {
        uint32_t lost = 0;
        while (__builtin_popcount(lost) < 5) {
            x = x * 1664525u + 1013904223u;
            lost |= UINT32_C(1) << (x >> 27);
        }
        rebuild(&s, lost);
    }
    empty(&s);
}

/* Losing data or parity alone costs less than losing the member. */
static void parts_of_members(void **state)
{
    (void)state;
    assert_true(ftk_code_survives(4, 1, 1, 0));
    assert_true(ftk_code_survives(4, 1, 0, 15)); /* all parities: the data are there */
    assert_false(ftk_code_survives(4, 1, 3, 0));
    assert_false(ftk_code_survives(4, 1, 1, 2)); /* the stripe whose parity is member 1's */
    assert_true(ftk_code_survives(4, 2, 1, 2));
    assert_true(ftk_code_survives(2, 1, 3, 0)); /* each one's parity is the other's copy */
    assert_false(ftk_code_survives(2, 1, 3, 1));
}

/* Real sizes: rows end where they should, also when nothing divides anything. */
/* What ISA-L does on processors without its instructions gives the same bytes: a member may
 * be lost on one machine and made again on another. */
static void plain_instructions_agree(void **state)
{
    enum { BYTES = 1024 };
    static unsigned char in[6][BYTES], fast[2][BYTES], plain[2][BYTES];
    unsigned char *src[6], *dst[2] = { fast[0], fast[1] }, *same[2] = { plain[0], plain[1] };
    const int lost[2] = { 1, 4 }, left[6] = { 0, 2, 3, 5, 6, 7 }, first[1] = { 1 },
              others[6] = { 0, 2, 3, 4, 5, 6 };
    struct ftk_solver s;
    (void)state;
    for (int k = 0; k < 6; k++) {
        src[k] = in[k];
        for (int i = 0; i < BYTES; i++)
            in[k][i] = (unsigned char)(i * 7 + k * 31 + i / 100);
    }
    assert_int_equal(ftk_code_solve(&s, 8, 2, left, lost, 2), FTKIT_OK);
    assert_false(s.xor);
    ftk_code_apply(&s, BYTES, src, dst);
    ec_encode_data_base(BYTES, s.k, s.nout, s.tables, src, same);
    assert_memory_equal(fast, plain, sizeof fast);
    assert_int_equal(ftk_code_solve(&s, 7, 1, others, first, 1), FTKIT_OK);
    assert_true(s.xor);
    unsigned char *all[7] = { in[0], in[1], in[2], in[3], in[4], in[5], plain[0] };
    ftk_code_apply(&s, BYTES, src, dst);
    assert_int_equal(xor_gen_base(7, BYTES, (void **)all), 0);
    assert_memory_equal(fast[0], plain[0], BYTES);
}

static void geometry(void **state)
{
    (void)state;
    static const uint64_t longest[] = { 1, 63, 64, 65, 4096, 262144, 262145, 786432, 786433,
        64u << 20, (64u << 20) + 1, UINT64_C(5) << 30 };
    for (int n = 2; n <= 32; n += 5)
        for (int m = 1; m < n; m += 3)
            for (size_t i = 0; i < sizeof longest / sizeof *longest; i++) {
                uint64_t len[FTK_GROUP_MAX] = { 0 };
                struct ftk_code c;
                len[n - 1] = longest[i];
                ftk_code_init(&c, n, m, len);
                uint64_t k = (uint64_t)(n - m), row = k * c.block;
                assert_true(c.block >= 64 && FTK_SEG_BLOCK % c.block == 0);
                assert_true(c.block * (uint64_t)n <= 1u << 20 || n <= 4);
                assert_true(c.rows * row >= longest[i] && (c.rows - 1) * row < longest[i]);
                /* every byte of the object is in exactly one element */
                uint64_t sum = 0, last = ftk_code_stripes(&c);
                uint64_t from = last > 200 ? last - 200 : 0;
                from -= from % (uint64_t)n;
                for (uint64_t s = from; s < last; s++)
                    for (int d = m; d < n; d++)
                        sum += ftk_code_element(&c, s, d).bytes;
                assert_int_equal(sum, longest[i] - from / (uint64_t)n * row);
            }
}

/* ---- the segment --------------------------------------------------------------------- */

static struct ftk_group some_group(void)
{
    struct ftk_group g = { .n = 3, .m = 1, .index = 1, .rank = { 4, 7, 9 } };
    for (uint32_t i = 0; i < g.n; i++) {
        g.len[FTK_CODED_DATA][i] = 300000 * i * i + 17;
        g.len[FTK_CODED_HEAD][i] = 4096 * (i + 1);
    }
    return g;
}

static void *some_segment(size_t *bytes)
{
    struct ftk_group g = some_group();
    struct ftk_seg_header like = { .set = 12, .run = 34, .nranks = 10, .context = "c" };
    *bytes = ftk_parity_seg_bytes(&g);
    void *seg = aligned_alloc(4096, (*bytes + 4095) / 4096 * 4096);
    assert_non_null(seg);
    memset(seg, 1, *bytes);
    ftk_parity_begin(seg, &g, &like);
    ftk_parity_seal(seg);
    return seg;
}

static void segment_of_a_parity(void **state)
{
    (void)state;
    size_t bytes;
    char *seg = some_segment(&bytes);
    assert_int_equal(ftk_seg_check_head(seg, bytes, "parity"), FTKIT_OK);
    assert_int_equal(ftk_seg_check_data(seg, "parity"), FTKIT_OK);
    const struct ftk_group *g = ftk_parity_group(seg);
    assert_non_null(g);
    assert_int_equal(g->rank[g->index], 7);
    struct ftk_code data = ftk_group_code(g, FTK_CODED_DATA);
    struct ftk_code head = ftk_group_code(g, FTK_CODED_HEAD);
    char *first = ftk_parity_object(seg, FTK_CODED_DATA);
    char *second = ftk_parity_object(seg, FTK_CODED_HEAD);
    assert_true(second == first + ftk_code_parity_bytes(&data));
    assert_true(second + ftk_code_parity_bytes(&head) == seg + bytes);
    for (size_t at = 0; at < bytes; at += 997) { /* one flipped bit anywhere is found */
        seg[at] ^= 4;
        assert_true(ftk_seg_check_head(seg, bytes, "p") != FTKIT_OK
                    || ftk_seg_check_data(seg, "p") != FTKIT_OK);
        seg[at] ^= 4;
    }
    free(seg);
}

static void groups_that_lie(void **state)
{
    (void)state;
    size_t bytes;
    void *seg = some_segment(&bytes);
    struct ftk_group *g = (struct ftk_group *)(void *)ftk_seg_data(seg);
    const struct ftk_group good = *g;
    uint32_t *words[] = { &g->n, &g->m, &g->index, &g->rank[1] };
    static const uint32_t bad[] = { 0, 2, 4, 33, UINT32_MAX };
    for (size_t w = 0; w < 4; w++)
        for (size_t b = 0; b < 5; b++) {
            uint32_t was = *words[w];
            *words[w] = bad[b];
            bool same = memcmp(g, &good, sizeof good) == 0;
            assert_true((ftk_parity_group(seg) != NULL) == same
                        || (w == 2 && bad[b] < 3 && g->rank[bad[b]] == 7));
            *words[w] = was;
        }
    g->len[0][2] = UINT64_MAX;
    assert_null(ftk_parity_group(seg));
    g->len[0][2] = good.len[0][2] + (1u << 20);
    assert_null(ftk_parity_group(seg));
    *g = good;
    struct ftk_seg_header *h = seg;
    h->flags = 0;
    assert_null(ftk_parity_group(seg));
    free(seg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xor_survives_any_member),
        cmocka_unit_test(rs_survives_any_m_members),
        cmocka_unit_test(rs_of_small_groups_in_full),
        cmocka_unit_test(group_of_32),
        cmocka_unit_test(parts_of_members),
        cmocka_unit_test(geometry),
        cmocka_unit_test(plain_instructions_agree),
        cmocka_unit_test(segment_of_a_parity),
        cmocka_unit_test(groups_that_lie),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    while (nkept > 0)
        free(kept[--nkept]);
    return failed;
}
