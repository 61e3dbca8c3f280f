/* Parity groups: geometry, arithmetic, segment (see parity.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <isa-l.h>
#include <string.h>

#include "core/hash.h"
#include "parity.h"

#define ALIGN 64u
#define ROW_BYTES (1u << 20) /* a row of blocks stays in the cache */

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint64_t power_of_two(uint64_t at_least)
{
    uint64_t p = ALIGN;
    while (p < at_least)
        p *= 2;
    return p;
}

void ftk_code_init(struct ftk_code *c, int n, int m, const uint64_t *len)
{
    assert(n >= 2 && n <= FTK_GROUP_MAX && m >= 1 && m < n);
    uint64_t k = (uint64_t)(n - m), longest = 0;
    *c = (struct ftk_code){ .n = n, .m = m };
    for (int i = 0; i < n; i++) {
        c->len[i] = len[i];
        longest = len[i] > longest ? len[i] : longest;
    }
    if (longest == 0)
        return;
    uint64_t most = FTK_SEG_BLOCK;
    while (most * (uint64_t)n > ROW_BYTES)
        most /= 2;
    c->block = power_of_two(ceil_div(longest, k));
    c->block = c->block > most ? most : c->block;
    c->rows = ceil_div(longest, k * c->block);
}

static struct ftk_element data_element(const struct ftk_code *c, uint64_t stripe, int d)
{
    struct ftk_element e = { .member = (int)((stripe + (uint64_t)d) % (uint64_t)c->n) };
    uint64_t row = stripe / (uint64_t)c->n;
    e.offset = (row * (uint64_t)(c->n - c->m) + (uint64_t)(d - c->m)) * c->block;
    if (e.offset < c->len[e.member]) {
        e.bytes = c->len[e.member] - e.offset;
        e.bytes = e.bytes > c->block ? c->block : e.bytes;
    }
    return e;
}

uint64_t ftk_code_stripe_bytes(const struct ftk_code *c, uint64_t stripe)
{
    uint64_t most = 0;
    for (int d = c->m; d < c->n; d++) {
        uint64_t bytes = data_element(c, stripe, d).bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

struct ftk_element ftk_code_element(const struct ftk_code *c, uint64_t stripe, int d)
{
    if (d >= c->m)
        return data_element(c, stripe, d);
    uint64_t row = stripe / (uint64_t)c->n;
    return (struct ftk_element){ .member = (int)((stripe + (uint64_t)d) % (uint64_t)c->n),
        .parity = true,
        .offset = (row * (uint64_t)c->m + (uint64_t)d) * c->block,
        .bytes = ftk_code_stripe_bytes(c, stripe) };
}

/* ---- arithmetic ---------------------------------------------------------------------- */

/* Row of the generator matrix for element d.  Data elements have unit rows. */
static void generator_row(const unsigned char *cauchy, int m, int k, int d, unsigned char *row)
{
    if (d < m) {
        memcpy(row, cauchy + (size_t)(k + d) * (size_t)k, (size_t)k);
        return;
    }
    memset(row, 0, (size_t)k);
    row[d - m] = 1;
}

int ftk_code_solve(struct ftk_solver *s, int n, int m, const int *in, const int *out, int nout)
{
    unsigned char all[FTK_GROUP_MAX * FTK_GROUP_MAX];
    unsigned char a[FTK_GROUP_MAX * FTK_GROUP_MAX], inverse[FTK_GROUP_MAX * FTK_GROUP_MAX];
    unsigned char row[FTK_GROUP_MAX];
    unsigned char coefficients[FTK_GROUP_MAX * FTK_GROUP_MAX] = { 0 };
    int k = n - m;
    s->k = k;
    s->nout = nout;
    s->xor = m == 1;
    if (s->xor)
        return FTKIT_OK;
    gf_gen_cauchy1_matrix(all, n, k);
    for (int i = 0; i < k; i++)
        generator_row(all, m, k, in[i], a + (size_t)i * (size_t)k);
    if (gf_invert_matrix(a, inverse, k) != 0)
        return ftk_fail(FTKIT_ERR_INTERNAL, "a matrix of %d of %d that has no inverse", k, n);
    for (int o = 0; o < nout; o++) {
        generator_row(all, m, k, out[o], row);
        for (int j = 0; j < k; j++)
            for (int i = 0; i < k; i++)
                coefficients[o * k + j] ^= gf_mul(row[i], inverse[i * k + j]);
    }
    ec_init_tables(k, nout, coefficients, s->tables);
    return FTKIT_OK;
}

void ftk_code_apply(
    const struct ftk_solver *s, size_t bytes, unsigned char **src, unsigned char **dst)
{
    if (!s->xor) {
        /* ISA-L reads the tables only */
        ec_encode_data((int)bytes, s->k, s->nout, (unsigned char *)s->tables, src, dst);
        ftk_vector_done();
        return;
    }
    if (s->k == 1) { /* xor_gen() needs at least two sources */
        memcpy(dst[0], src[0], bytes);
        return;
    }
    void *vects[FTK_GROUP_MAX];
    for (int i = 0; i < s->k; i++)
        vects[i] = src[i];
    vects[s->k] = dst[0];
    (void)xor_gen(s->k + 1, (int)bytes, vects); /* fails only with fewer than 3 vectors */
    ftk_vector_done();
}

void ftk_code_add(void *to, const void *what, size_t bytes)
{
    unsigned char *t = to;
    const unsigned char *w = what;
    size_t i = 0;
    for (uint64_t a[8], b[8]; i + sizeof a <= bytes; i += sizeof a) {
        memcpy(a, t + i, sizeof a);
        memcpy(b, w + i, sizeof b);
        for (int k = 0; k < 8; k++)
            a[k] ^= b[k];
        memcpy(t + i, a, sizeof a);
    }
    for (; i < bytes; i++)
        t[i] ^= w[i];
}

bool ftk_code_survives(int n, int m, uint32_t data, uint32_t parity)
{
    for (int s = 0; s < n; s++) {
        int lost = 0;
        for (int d = 0; d < n; d++)
            lost += ((d < m ? parity : data) >> ((s + d) % n) & 1u) != 0;
        if (lost > m)
            return false;
    }
    return true;
}

/* ---- segment ------------------------------------------------------------------------- */

#define GROUP_BYTES ((sizeof(struct ftk_group) + FTK_SEG_ALIGN - 1) / FTK_SEG_ALIGN * FTK_SEG_ALIGN)

struct ftk_code ftk_group_code(const struct ftk_group *g, int object)
{
    struct ftk_code c;
    ftk_code_init(&c, (int)g->n, (int)g->m, g->len[object]);
    return c;
}

static uint64_t object_bytes(const struct ftk_group *g, int object)
{
    struct ftk_code c = ftk_group_code(g, object);
    return ftk_code_parity_bytes(&c);
}

static uint64_t data_bytes(const struct ftk_group *g)
{
    return GROUP_BYTES + object_bytes(g, FTK_CODED_DATA) + object_bytes(g, FTK_CODED_HEAD);
}

size_t ftk_parity_seg_bytes(const struct ftk_group *g)
{
    size_t data = (size_t)data_bytes(g);
    return ftk_seg_head_bytes(2, data, FTK_SEG_BLOCK) + data;
}

static void name_region(struct ftk_seg_region *r, const char *name, size_t offset, size_t bytes)
{
    memset(r, 0, sizeof *r);
    memcpy(r->name, name, strlen(name));
    r->kind = FTK_KIND_FLAT;
    r->basic = FTK_T_U8;
    r->elem_bytes = 1;
    r->count = r->bytes = bytes;
    r->offset = offset;
}

void ftk_parity_begin(void *buf, const struct ftk_group *g, const struct ftk_seg_header *like)
{
    struct ftk_seg_header *h = buf;
    size_t data = (size_t)data_bytes(g);
    size_t head = ftk_seg_head_bytes(2, data, FTK_SEG_BLOCK);
    memset(buf, 0, head + GROUP_BYTES);
    *h = (struct ftk_seg_header){ .version = FTK_SEG_VERSION,
        .byte_order = FTK_SEG_BYTE_ORDER,
        .head_bytes = head,
        .data_bytes = data,
        .set = like->set,
        .run = like->run,
        .epoch_id = like->epoch_id,
        .wall_ns = like->wall_ns,
        .rank = g->rank[g->index],
        .nranks = like->nranks,
        .nregions = 2,
        .block_bytes = FTK_SEG_BLOCK,
        .flags = FTK_SEG_PARITY,
        .nblocks = ceil_div(data, FTK_SEG_BLOCK) };
    memcpy(h->magic, FTK_SEG_MAGIC, sizeof h->magic);
    memcpy(h->context, like->context, sizeof h->context);
    struct ftk_seg_region *r = ftk_seg_regions(buf);
    name_region(&r[0], "ftkit.group", 0, sizeof *g);
    name_region(&r[1], "ftkit.parity", GROUP_BYTES, data - GROUP_BYTES);
    memcpy(ftk_seg_data(buf), g, sizeof *g);
}

void ftk_parity_seal(void *buf)
{
    ftk_seg_seal_data(buf);
    ftk_seg_seal_head(buf);
}

static const struct ftk_group *contradiction(const char *what)
{
    (void)ftk_fail(FTKIT_ERR_FORMAT, "parity segment: %s", what);
    return NULL;
}

const struct ftk_group *ftk_parity_group(const void *seg)
{
    const struct ftk_seg_header *h = seg;
    const struct ftk_group *g = (const void *)ftk_seg_data_c(seg);
    if (!(h->flags & FTK_SEG_PARITY) || h->data_bytes < GROUP_BYTES)
        return contradiction("its header is not that of a parity segment");
    if (g->n < 2 || g->n > FTK_GROUP_MAX || g->m < 1 || g->m >= g->n || g->index >= g->n)
        return contradiction("size of the group");
    for (uint32_t i = 0; i < g->n; i++)
        for (int o = 0; o < FTK_CODED; o++)
            if (g->len[o][i] > UINT64_MAX / 4 / FTK_GROUP_MAX)
                return contradiction("length of a member");
    if (g->rank[g->index] != h->rank || data_bytes(g) != h->data_bytes)
        return contradiction("its lengths do not agree");
    return g;
}

char *ftk_parity_object(void *seg, int object)
{
    const struct ftk_group *g = (const void *)ftk_seg_data(seg);
    char *first = ftk_seg_data(seg) + GROUP_BYTES;
    return object == FTK_CODED_DATA ? first : first + object_bytes(g, FTK_CODED_DATA);
}
