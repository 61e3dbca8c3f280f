/* Parities that are updated by differences are those of the new data, bit by bit.
 *
 * For each group of the first 2 to all ranks and 1 to 3 parities: each block of each member
 * is changed alone; then some of all, with objects that grow and shrink.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "set/coding.h"

#define BLOCK ((uint64_t)FTK_SEG_BLOCK)
#define LONGEST (5 * BLOCK + 4711)

static struct ftkit_ctx ctx = { .mode = FTKIT_MODE_RESTART };
static int me, size;
static unsigned char *old_data, *new_data, *parity, *wanted;

/* Bytes at the end of the shortest member, of a whole block, and of nothing at all. */
static uint64_t length(int n, int i, int round)
{
    static const uint64_t some[] = { 3 * BLOCK + 1, 0, BLOCK, 70001, 2 * BLOCK - 64 };
    return i == n / 2 ? LONGEST + (uint64_t)round : some[(i + round) % 5];
}

static bool changes(int round, int member, uint64_t block)
{
    if (round == 0)
        return false;
    return ((unsigned)member * 31u + (unsigned)block * 17u + (unsigned)round) % 3 == 0;
}

static void die(const char *what, int n, int m)
{
    fprintf(stderr, "update: rank %d of %d, %d parities: %s\n", me, n, m, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void run(const struct ftk_code *code, struct ftk_chan *ch, unsigned char *data,
    unsigned char *to, const struct ftk_coding_delta *delta)
{
    struct ftk_coding c = { .code = *code, .tag = FTK_TAG_CODING, .ready = SIZE_MAX };
    for (int i = 0; i < c.code.n; i++)
        c.member[i] = (struct ftk_coding_member){
            .data_at = i, .parity_at = -1, .data_to = -1, .parity_to = i
        };
    c.member[me].data = (char *)data;
    c.member[me].parity = (char *)to;
    if (ftk_coding_begin(&c, me) != FTKIT_OK)
        die("no memory", code->n, code->m);
    if (delta)
        ftk_coding_update(&c, delta);
    if (ftk_coding_run(&c, ch) != FTKIT_OK)
        die("coding", code->n, code->m);
    ftk_coding_end(&c, ch);
}

static void update_and_compare(const struct ftk_code *was, const struct ftk_code *now,
    struct ftk_chan *ch, uint16_t (*masks)[2])
{
    struct ftk_coding_delta delta = { .base = (const char *)old_data };
    size_t had = (size_t)ftk_code_parity_bytes(was), has = (size_t)ftk_code_parity_bytes(now);
    for (int i = 0; i < now->n; i++) {
        delta.was[i] = was->len[i];
        delta.now[i] = now->len[i];
        delta.masks[i] = masks[i];
    }
    if (was->block != now->block)
        die("other blocks", now->n, now->m);
    run(was, ch, old_data, parity, NULL);
    if (has > had)
        memset(parity + had, 0, has - had);
    run(now, ch, new_data, parity, &delta);
    memset(wanted, 0x5a, has);
    run(now, ch, new_data, wanted, NULL);
    if (memcmp(parity, wanted, has) != 0)
        die("differs", now->n, now->m);
}

/* Data of both objects, which differ in the blocks of the mask only. */
static void make(const struct ftk_code *was, const struct ftk_code *now, const uint16_t *mask)
{
    for (uint64_t b = 0; b < was->len[me]; b++)
        old_data[b] = (unsigned char)((b * 2654435761u + (unsigned)me * 40503u) >> 7);
    memcpy(new_data, old_data, was->len[me]);
    for (uint64_t b = was->len[me]; b < now->len[me]; b++)
        new_data[b] = (unsigned char)(b * 40503u >> 5);
    for (uint64_t b = 0; b < ftk_blocks(now->len[me]); b++)
        for (uint64_t i = 0; ftk_mask_has(mask, b) && i < ftk_block_bytes(now->len[me], b); i += 61)
            new_data[b * BLOCK + i] ^= (unsigned char)(i + 1);
}

static long each_block_alone(const struct ftk_code *code, struct ftk_chan *ch)
{
    long n = 0;
    for (int member = 0; member < code->n; member++)
        for (uint64_t b = 0; b < ftk_blocks(code->len[member]); b++, n++) {
            uint16_t masks[FTK_GROUP_MAX][2] = { { 0 } };
            ftk_mask_add(masks[member], b);
            make(code, code, masks[me]);
            update_and_compare(code, code, ch, masks);
        }
    return n;
}

static long other_lengths(const struct ftk_code *was, struct ftk_chan *ch, int round)
{
    uint16_t masks[FTK_GROUP_MAX][2] = { { 0 } };
    uint64_t len[FTK_GROUP_MAX];
    struct ftk_code now;
    for (int i = 0; i < was->n; i++)
        len[i] = length(was->n, i, round);
    ftk_code_init(&now, was->n, was->m, len);
    for (int i = 0; i < was->n; i++)
        for (uint64_t b = 0; b < ftk_blocks(len[i]); b++)
            if (changes(round, i, b)
                || ftk_block_bytes(len[i], b) != ftk_block_bytes(was->len[i], b))
                ftk_mask_add(masks[i], b);
    make(was, &now, masks[me]);
    update_and_compare(was, &now, ch, masks);
    return 1;
}

static void group(int n, int parities)
{
    MPI_Comm comm;
    uint64_t len[FTK_GROUP_MAX];
    struct ftk_code code;
    MPI_Comm_split(MPI_COMM_WORLD, me < n ? 0 : MPI_UNDEFINED, me, &comm);
    if (me >= n)
        return;
    struct ftk_chan ch = { .ctx = &ctx, .comm = comm, .also = MPI_COMM_NULL };
    for (int i = 0; i < n; i++)
        len[i] = length(n, i, 0);
    ftk_code_init(&code, n, parities, len);
    long cases = each_block_alone(&code, &ch);
    for (int round = 1; round < 6; round++)
        cases += other_lengths(&code, &ch, round);
    if (me == 0)
        printf("group of %d, %d parities: %ld updates\n", n, parities, cases);
    MPI_Comm_free(&comm);
}

static unsigned char *space(void)
{
    unsigned char *p = aligned_alloc(64, 32 * BLOCK); /* m = n - 1: m times the longest */
    if (!p)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return p;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    old_data = space();
    new_data = space();
    parity = space();
    wanted = space();
    for (int n = 2; n <= size; n++)
        for (int parities = 1; parities < n && parities <= 3; parities++)
            group(n, parities);
    free(old_data);
    free(new_data);
    free(parity);
    free(wanted);
    MPI_Finalize();
    return 0;
}
