/* Every loss a group claims to survive, rebuilt by the processes of the group.
 *
 *   coding [EVERY]
 *
 * For each group of the first 2 to all ranks and 1 to 3 parities: encodes, then rebuilds
 * each set of lost members (beyond 500 cases of one kind every EVERY-th) on their own
 * processes from what the others have, and compares.  Objects are of unequal length.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "set/coding.h"

static struct ftkit_ctx ctx = { .mode = FTKIT_MODE_RESTART };
static int me, size;

struct member {
    struct ftk_code code;
    unsigned char *data, *parity, *data_was, *parity_was;
    size_t parity_bytes;
};

static void *space(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return p;
}

static uint64_t length(int n, int i)
{
    return i == n / 2 ? 70001 : i == 0 ? 3 : (uint64_t)(64 * (i % 5) * 301 + i);
}

static int run(struct member *m, struct ftk_chan *ch, uint32_t lost, bool encode)
{
    struct ftk_coding c = { .code = m->code, .tag = FTK_TAG_CODING, .ready = SIZE_MAX };
    for (int i = 0; i < c.code.n; i++) {
        bool gone = lost >> i & 1;
        c.member[i] = (struct ftk_coding_member){ .data_at = gone ? -1 : i,
            .parity_at = gone || encode ? -1 : i,
            .data_to = gone ? i : -1,
            .parity_to = gone || encode ? i : -1 };
    }
    c.member[me].data = (char *)m->data;
    c.member[me].parity = (char *)m->parity;
    int rc = ftk_coding_begin(&c, me);
    if (rc == FTKIT_OK)
        rc = ftk_coding_run(&c, ch);
    ftk_coding_end(&c, ch);
    return rc;
}

static void make(struct member *m, int n, int parities)
{
    uint64_t len[FTK_GROUP_MAX];
    for (int i = 0; i < n; i++)
        len[i] = length(n, i);
    ftk_code_init(&m->code, n, parities, len);
    m->parity_bytes = (size_t)ftk_code_parity_bytes(&m->code);
    m->data = space(len[me]);
    m->data_was = space(len[me]);
    m->parity = space(m->parity_bytes);
    m->parity_was = space(m->parity_bytes);
    for (size_t b = 0; b < len[me]; b++)
        m->data[b] = (unsigned char)((b * 2654435761u + (unsigned)me * 40503u) >> 7);
    memcpy(m->data_was, m->data, len[me]);
    memset(m->parity, 0x5a, m->parity_bytes);
}

static long lose_each(struct member *m, struct ftk_chan *ch, int lost_count, int every)
{
    long n = 0, tried = 0;
    size_t len = (size_t)m->code.len[me];
    for (uint32_t lost = 1; lost < UINT32_C(1) << m->code.n; lost++) {
        if (__builtin_popcount(lost) != lost_count || (n++ > 500 && n % every != 0))
            continue;
        tried++;
        if (lost >> me & 1) {
            memset(m->data, 0xee, len);
            memset(m->parity, 0xee, m->parity_bytes);
        }
        if (run(m, ch, lost, false) != FTKIT_OK || memcmp(m->data, m->data_was, len) != 0
            || memcmp(m->parity, m->parity_was, m->parity_bytes) != 0) {
            fprintf(stderr, "coding: rank %d of %d, %d parities, lost %x: differs\n", me, m->code.n,
                m->code.m, (unsigned)lost);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    return tried;
}

static long group(int n, int parities, int every)
{
    struct member m;
    MPI_Comm comm;
    long tried = 0;
    MPI_Comm_split(MPI_COMM_WORLD, me < n ? 0 : MPI_UNDEFINED, me, &comm);
    if (me >= n)
        return 0;
    struct ftk_chan ch = { .ctx = &ctx, .comm = comm, .also = MPI_COMM_NULL };
    make(&m, n, parities);
    if (run(&m, &ch, 0, true) != FTKIT_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memcpy(m.parity_was, m.parity, m.parity_bytes);
    for (int lost = 1; lost <= parities; lost++)
        tried += lose_each(&m, &ch, lost, every);
    free(m.data);
    free(m.parity);
    free(m.data_was);
    free(m.parity_was);
    MPI_Comm_free(&comm);
    return tried;
}

int main(int argc, char **argv)
{
    int every = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int n = 2; n <= size; n++)
        for (int parities = 1; parities < n && parities <= 3; parities++) {
            long tried = group(n, parities, every);
            if (me == 0)
                printf("group of %d, %d parities: %ld losses rebuilt\n", n, parities, tried);
        }
    MPI_Finalize();
    return 0;
}
