/* Parity of a group of all ranks: the coding alone, and a set in memory with it.
 *
 * Bound of the coding: one read of the bytes, a ring exchange of (n - 1) / n of them as one
 * message, and the write of the parity, measured one after the other and summed; with two
 * parities also one pass of GF(2^8) multiplication over the bytes.  Bound of the set: the
 * same and one memcpy.
 *
 *   parity [-b BYTES] [-r REPETITIONS] [-m PARITIES]
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <isa-l.h>
#include <stdint.h>

#include "bench.h"
#include "set/coding.h"

static int parities = 1;
static char *own, *parity;
static struct ftk_code code;
static struct ftkit_ctx plain = { .mode = FTKIT_MODE_RESTART };
static volatile uint64_t sink;

static void run_read(struct bench *b)
{
    uint64_t sum = 0;
    for (size_t i = 0; i + 8 <= b->bytes; i += 8)
        sum += *(const uint64_t *)(const void *)(own + i);
    sink = sum;
}

static void run_exchange(struct bench *b)
{
    int n = b->nranks;
    int bytes = (int)(b->bytes / (size_t)n * (size_t)(n - 1));
    bench_mpi(b,
        MPI_Sendrecv(own, bytes, MPI_BYTE, (b->rank + 1) % n, 0, b->data, bytes, MPI_BYTE,
            (b->rank + n - 1) % n, 0, b->comm, MPI_STATUS_IGNORE),
        "exchange");
}

static void run_write(struct bench *b)
{
    memset(parity, b->rank, (size_t)ftk_code_parity_bytes(&code));
}

static void run_multiply(struct bench *b)
{
    unsigned char coefficients[2] = { 3, 7 }, tables[64];
    size_t half = b->bytes / 2, piece = 65536;
    ec_init_tables(2, 1, coefficients, tables);
    for (size_t i = 0; i + piece <= half; i += piece) {
        unsigned char *src[2] = { (unsigned char *)own + i, (unsigned char *)own + half + i };
        unsigned char *dst = (unsigned char *)parity;
        ec_encode_data((int)piece, 2, 1, tables, src, &dst);
    }
}

static void run_memcpy(struct bench *b)
{
    memcpy(own, b->data, b->bytes);
}

static void run_coding(struct bench *b)
{
    struct ftk_chan ch = { .ctx = &plain, .comm = b->comm, .also = MPI_COMM_NULL };
    struct ftk_coding c = { .code = code, .tag = FTK_TAG_CODING, .ready = SIZE_MAX };
    for (int i = 0; i < b->nranks; i++)
        c.member[i] = (struct ftk_coding_member){
            .data_at = i, .parity_at = -1, .data_to = -1, .parity_to = i
        };
    c.member[b->rank].data = own;
    c.member[b->rank].parity = parity;
    int rc = ftk_coding_begin(&c, b->rank);
    if (rc == FTKIT_OK)
        rc = ftk_coding_run(&c, &ch);
    ftk_coding_end(&c, &ch);
    bench_ft(b, rc, FTKIT_OK, "coding");
}

static int more(int opt, const char *value)
{
    parities = atoi(value);
    return opt != 'm' || parities < 1 || parities > 8;
}

static void prepare(struct bench *b)
{
    uint64_t len[FTK_GROUP_MAX];
    for (int i = 0; i < b->nranks && i < FTK_GROUP_MAX; i++)
        len[i] = b->bytes;
    ftk_code_init(&code, b->nranks, parities, len);
    own = bench_alloc(b, b->bytes);
    parity = bench_alloc(b, (size_t)ftk_code_parity_bytes(&code));
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = (size_t)64 << 20, .reps = 15 };
    char m[16];
    bench_options(&b, argc, argv, "b:r:m:", more);
    snprintf(m, sizeof m, "%d", parities);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_LEVEL_MEMORY_SCHEME", parities == 1 ? "xor" : "rs");
    bench_set("FTKIT_LEVEL_MEMORY_PARITY", m);
    bench_open(&b, &argc, &argv);
    if (b.nranks <= parities || b.nranks > 8)
        bench_die(&b, "%d ranks are no group of %d parities", b.nranks, parities);
    bench_region(&b);
    prepare(&b);
    bench_ft(&b, ftkit_register(b.ft, "data", b.data, b.bytes, MPI_BYTE), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    double before = bench_used_bytes();
    for (int i = 0; i < 3; i++)
        bench_checkpoint(&b);
    double held = bench_max(&b, (bench_used_bytes() - before) / (double)b.bytes);
    run_exchange(&b);
    for (int i = 0; i < b.reps; i++) {
        bench_touch(&b);
        double copied = bench_time(&b, run_memcpy);
        double read = bench_time(&b, run_read);
        double exchanged = bench_time(&b, run_exchange);
        double written = bench_time(&b, run_write);
        double multiplied = parities > 1 ? bench_time(&b, run_multiply) : 0;
        double bound = read + exchanged + written + multiplied;
        double coded = bench_time(&b, run_coding);
        bench_touch(&b);
        double set = bench_time(&b, bench_checkpoint);
        bench_row(&b,
            "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f memcpy_s=%.6f read_s=%.6f "
            "exchange_s=%.6f write_s=%.6f multiply_s=%.6f set_s=%.6f set_bound_s=%.6f "
            "held=%.3f moved=%.3f",
            b.nranks, b.bytes, coded, bound, copied, read, exchanged, written, multiplied, set,
            copied + bound, held, bench_moved(&b));
    }
    munmap(own, b.bytes);
    munmap(parity, (size_t)ftk_code_parity_bytes(&code));
    return bench_close(&b);
}
