/* Checksums of memory of a device of CUDA, by the device (see cuda_sums.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One launch computes the sums of up to TABLE blocks into a table on the device, and a copy on the
 * same stream brings them to the host: the next launch may use the table again.  So the device
 * reads a region at its own speed, once, in front of the copies of its data. */
#include <stdlib.h>

#include "cuda_sums.h"
#include "cuda_sums_ptx.h"
#include "ftk.h"
#include "hash.h"

enum { PART = 65536, ALIGNED = 16, THREADS = 256, TABLE = 16384, TESTS = 4 };

bool ftk_cuda_sums_can(const struct ftk_cuda_sums *s, const void *from, size_t block_bytes)
{
    return !s->refused && (uintptr_t)from % ALIGNED == 0 && block_bytes > 0
           && block_bytes % PART == 0;
}

/* The host computes the sums from now on.  Returns code. */
static int refuse(struct ftk_cuda_sums *s, const char *why, int code)
{
    static bool warned;
    s->refused = true;
    if (!warned)
        ftk_report(
            FTKIT_WARNING, "the host computes checksums of memory of a device: %s (%d)", why, code);
    warned = true;
    return code;
}

static int launch(const struct ftk_cuda *cuda, void *stream, const struct ftk_cuda_sums *s,
    ftk_cuda_address from, size_t block_bytes, size_t n, uint64_t *sums)
{
    unsigned parts = (unsigned)(block_bytes / PART);
    ftk_cuda_address to = s->table;
    void *arguments[] = { &from, &to, &parts };
    const int code =
        cuda->launch(s->kernel, (unsigned)n, 1, 1, THREADS, 1, 1, 0, stream, arguments, NULL);
    return code == CUDA_OK ? cuda->copy_out(sums, s->table, n * sizeof *sums, stream) : code;
}

/* ---- the test of the kernel ------------------------------------------------------------ */

/* Blocks of zeros, of ones, and of numbers that differ. */
static void fill(uint64_t *data, size_t words)
{
    uint64_t x = 0;
    for (size_t block = 0; block < TESTS; block++)
        for (size_t i = 0; i < words; i++) {
            x = (x + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
            data[block * words + i] = block == 0 ? 0 : block == 1 ? UINT64_MAX : x ^ x >> 31;
        }
}

/* Whether the sums of the device are those of the host; *code: of the driver. */
static bool compare(const struct ftk_cuda *cuda, void *stream, const struct ftk_cuda_sums *s,
    ftk_cuda_address at, uint64_t *data, size_t block_bytes, int *code)
{
    const size_t words = block_bytes / sizeof *data;
    uint64_t sums[TESTS] = { 0 };
    fill(data, words);
    *code = cuda->copy_in(at, data, TESTS * block_bytes, stream);
    if (*code == CUDA_OK)
        *code = launch(cuda, stream, s, at, block_bytes, TESTS, sums);
    const int waited = cuda->stream_synchronize(stream); /* before data and sums may go */
    if (*code == CUDA_OK)
        *code = waited;
    bool same = *code == CUDA_OK;
    for (size_t i = 0; same && i < TESTS; i++)
        same = sums[i] == ftk_xxh3(data + i * words, block_bytes);
    return same;
}

static int test(const struct ftk_cuda *cuda, void *stream, struct ftk_cuda_sums *s, size_t bytes)
{
    ftk_cuda_address at = 0;
    uint64_t *data = malloc(TESTS * bytes);
    int code = data ? cuda->allocate(&at, TESTS * bytes) : CUDA_OK;
    if (!data || code != CUDA_OK) {
        free(data);
        return refuse(s, "no memory for a test of them", data ? code : -1);
    }
    const bool same = compare(cuda, stream, s, at, data, bytes, &code);
    const int freed = cuda->release(at);
    free(data);
    if (code != CUDA_OK || freed != CUDA_OK)
        return refuse(s, "an error in a test of them", code != CUDA_OK ? code : freed);
    return same ? CUDA_OK : refuse(s, "the device computes others", -1);
}

/* ---- the kernel -------------------------------------------------------------------------- */

static int load(const struct ftk_cuda *cuda, void *stream, struct ftk_cuda_sums *s, size_t bytes)
{
    void *module = NULL;
    int code = cuda->module_load(&module, ftk_cuda_sums_ptx);
    if (code == CUDA_OK)
        code = cuda->module_function(&s->kernel, module, "ftk_xxh3_blocks");
    if (code != CUDA_OK)
        return refuse(s, "the driver does not load the kernel", code);
    code = cuda->allocate(&s->table, TABLE * sizeof(uint64_t));
    if (code != CUDA_OK)
        return refuse(s, "no memory of the device for them", code);
    return test(cuda, stream, s, bytes);
}

/* While the program captures a graph, a thread may load and allocate in the relaxed mode only. */
static int load_relaxed(
    const struct ftk_cuda *cuda, void *stream, struct ftk_cuda_sums *s, size_t bytes)
{
    int mode = CUDA_CAPTURE_RELAXED;
    const bool relaxed = cuda->exchange_capture_mode(&mode) == CUDA_OK;
    const int code = load(cuda, stream, s, bytes);
    if (relaxed)
        (void)cuda->exchange_capture_mode(&mode); /* as it was */
    return code;
}

int ftk_cuda_sums_begin(const struct ftk_cuda *cuda, void *stream, struct ftk_cuda_sums *s,
    ftk_cuda_address from, size_t block_bytes, size_t n, uint64_t *sums)
{
    const size_t most = FTK_FAULT("sums.table") ? 2 : TABLE;
    int code = s->kernel ? CUDA_OK : load_relaxed(cuda, stream, s, block_bytes);
    for (size_t i = 0, now; code == CUDA_OK && i < n; i += now) {
        now = n - i < most ? n - i : most;
        code = launch(cuda, stream, s, from + i * block_bytes, block_bytes, now, sums + i);
        if (code == CUDA_OK)
            continue;
        (void)cuda->stream_synchronize(stream); /* what was queued writes into sums */
        (void)refuse(s, "an error of a call", code);
    }
    return code;
}
